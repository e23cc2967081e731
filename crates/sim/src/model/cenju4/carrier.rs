//! A job's messages over the interfaces: parcels of Paralib/CJ4, inline where they fit a header.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Costs;
use super::node::{Parcel, Protocol, System, To};
use super::packet::Span;
use crate::engine::Sim;
use crate::job::{self, Carrier, Consignee, HostCosts};
use crate::network::Network;
use crate::topology::Topology;

/// Carries a job's messages.
///
/// For each message that it sends, a rank pays half of the library's time and a store to a
/// register; for each that it receives, a poll in cache and the other half. Buffers begin at a
/// page. Sent data lies in the processor's cache, because the program has just computed it.
#[derive(Debug)]
pub struct Interfaces {
    system: System,
    /// Messages of several parcels, with the numbers of parcels that have not left and not arrived.
    cut: Rc<Cut>,
}

/// By message: the parcels that have not left and those that have not arrived.
#[derive(Debug, Default)]
struct Cut {
    left: RefCell<BTreeMap<u64, [u64; 2]>>,
    consignee: RefCell<Option<Weak<dyn Consignee>>>,
}

impl Interfaces {
    /// The interfaces of a machine with this network.
    pub fn new(sim: &Sim, costs: &Costs, topology: Rc<dyn Topology>, buffer: u64) -> Rc<Self> {
        let system = System::new(sim, costs, topology, buffer);
        let cut = Rc::new(Cut::default());
        let consignee: Weak<dyn Consignee> = Rc::downgrade(&(Rc::clone(&cut) as Rc<dyn Consignee>));
        system.connect(consignee);
        Rc::new(Interfaces { system, cut })
    }

    /// The network below.
    pub fn network(&self) -> Rc<Network> {
        self.system.network()
    }
}

impl Carrier for Interfaces {
    fn nodes(&self) -> u32 {
        self.system.network().nodes()
    }

    fn host(&self, _bytes: u64) -> HostCosts {
        let host = &self.system.costs().host;
        let half = Time::from_picoseconds(host.paralib.picoseconds() / 2);
        HostCosts { send: half + host.register, receive: host.poll + half }
    }

    fn look(&self) -> Time {
        self.system.costs().host.poll
    }

    fn carry(&self, message: job::Parcel, _at: Time) -> Option<Time> {
        let interface = &self.system.costs().interface;
        let (inline, most) = (interface.inline_bytes, interface.parcel_bytes);
        let parcels = message.bytes.div_ceil(most).max(1);
        self.cut.left.borrow_mut().insert(message.token, [parcels; 2]);
        for parcel in 0..parcels {
            let start = parcel * most;
            let bytes = (message.bytes - start).min(most);
            let protocol = match bytes <= inline {
                true => Protocol::Inline,
                false => Protocol::Write(Span { source: start, destination: start, bytes }),
            };
            let (to, area) = (To::One(message.destination), message.token as u32);
            let parcel = Parcel { to, protocol, area, optimise: true, dirty: true };
            self.system.enqueue(message.source, parcel);
        }
        None
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        *self.cut.consignee.borrow_mut() = Some(consignee);
    }
}

impl Cut {
    /// One parcel fewer to leave (0) or to arrive (1); notifies the job at the last one.
    fn count(&self, token: u64, which: usize, tell: impl Fn(&dyn Consignee)) {
        let mut all = self.left.borrow_mut();
        let Some(left) = all.get_mut(&token) else { return };
        left[which] -= 1;
        let (last, over) = (left[which] == 0, *left == [0, 0]);
        if over {
            all.remove(&token);
        }
        drop(all);
        let consignee = self.consignee.borrow().as_ref().and_then(Weak::upgrade);
        if last && let Some(consignee) = consignee {
            tell(&*consignee);
        }
    }
}

impl Consignee for Cut {
    fn departed(&self, token: u64) {
        self.count(token, 0, |job| job.departed(token));
    }

    fn delivered(&self, token: u64) {
        self.count(token, 1, |job| job.delivered(token));
    }
}
