//! A job's messages over the interfaces: parcels of Paralib/CJ4, inline if they fit into a header.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Costs;
use super::node::{CenjuParcel, CenjuSystem, ParcelListener, ParcelProtocol, To};
use super::packet::Span;
use crate::engine::Sim;
use crate::job::{self, Carrier, Connection, Consignee, HostCosts, Multicast};
use crate::network::Network;
use crate::topology::{Node, Topology};

/// Carries a job's messages.
///
/// For each sent message, a rank pays half of the library's time and a store to a register. For
/// each received message, it pays a poll in cache and the other half. Buffers begin at a page. Sent
/// data is in the processor's cache, because the program has just computed it.
#[derive(Debug)]
pub struct CenjuInterfaces {
    system: CenjuSystem,
    /// Messages of several parcels, with the numbers of parcels that have not left or not arrived.
    cut: Rc<Cut>,
}

/// The maximum number of nodes of one multicast: a block of this many node numbers (paper 003 §4).
const GROUP: u32 = 64;

/// The messages in flight, by area. An area is a message's number, for a multicast the first one.
#[derive(Debug, Default)]
struct Cut {
    left: RefCell<BTreeMap<u32, UnderWay>>,
    consignee: Connection,
}

/// A message in flight, which may go to several nodes.
#[derive(Debug)]
struct UnderWay {
    /// The number of parcels that have not left.
    departing: u64,
    /// The receiving nodes, with the message's number and the number of its parcels that have not
    /// arrived.
    arriving: Vec<(Node, u64, u64)>,
}

impl CenjuInterfaces {
    /// The interfaces of a machine with this network.
    pub fn new(sim: &Sim, costs: &Costs, topology: Rc<dyn Topology>, buffer: u64) -> Rc<Self> {
        let system = CenjuSystem::new(sim, costs, topology, buffer);
        let cut = Rc::new(Cut::default());
        let listener = Rc::clone(&cut) as Rc<dyn ParcelListener>;
        system.connect(Rc::downgrade(&listener));
        Rc::new(CenjuInterfaces { system, cut })
    }

    /// The network below.
    pub fn network(&self) -> Rc<Network> {
        self.system.network()
    }
}

impl Carrier for CenjuInterfaces {
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
        self.cut_up(&[message], || To::One(message.destination));
        None
    }

    fn multicast(&self) -> Option<&dyn Multicast> {
        Some(self)
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.cut.consignee.set(consignee);
    }
}

impl Multicast for CenjuInterfaces {
    fn carry_to_all(&self, messages: &[job::Parcel]) {
        let is_one_group = |one: &job::Parcel, other: &job::Parcel| {
            one.destination / GROUP == other.destination / GROUP
        };
        for group in messages.chunk_by(is_one_group) {
            let nodes: Rc<[Node]> = group.iter().map(|message| message.destination).collect();
            self.cut_up(group, || To::All(Rc::clone(&nodes)));
        }
    }
}

impl CenjuInterfaces {
    /// Sends a message in parcels, to one node or to several.
    fn cut_up(&self, messages: &[job::Parcel], to: impl Fn() -> To) {
        let Some(message) = messages.first() else { return };
        let interface = &self.system.costs().interface;
        let (inline, most) = (interface.inline_bytes, interface.parcel_bytes);
        let parcels = message.bytes.div_ceil(most).max(1);
        let arriving = messages.iter().map(|message| (message.destination, message.token, parcels));
        let left = UnderWay { departing: parcels, arriving: arriving.collect() };
        self.cut.left.borrow_mut().insert(message.token as u32, left);
        for parcel in 0..parcels {
            let start = parcel * most;
            let bytes = (message.bytes - start).min(most);
            let protocol = match bytes <= inline {
                true => ParcelProtocol::Inline,
                false => ParcelProtocol::Write(Span { source: start, destination: start, bytes }),
            };
            let (to, area) = (to(), message.token as u32);
            let parcel = CenjuParcel { to, protocol, area, optimise: true, dirty: true };
            self.system.enqueue(message.source, parcel);
        }
    }
}

impl Cut {
    /// Changes the state of a message, and removes it when all its parcels have left and arrived.
    fn change<T>(&self, area: u32, change: impl FnOnce(&mut UnderWay) -> Option<T>) -> Option<T> {
        let mut all = self.left.borrow_mut();
        let left = all.get_mut(&area)?;
        let said = change(left);
        if left.departing == 0 && left.arriving.iter().all(|(_, _, parcels)| *parcels == 0) {
            all.remove(&area);
        }
        said
    }
}

impl ParcelListener for Cut {
    fn departed(&self, area: u32) {
        let gone = self.change(area, |left| {
            left.departing -= 1;
            let tokens = || left.arriving.iter().map(|(_, token, _)| *token).collect::<Vec<_>>();
            (left.departing == 0).then(tokens)
        });
        if let (Some(tokens), Some(job)) = (gone, self.consignee.get()) {
            tokens.into_iter().for_each(|token| job.departed(token));
        }
    }

    fn delivered(&self, area: u32, node: Node) {
        let come = self.change(area, |left| {
            let (_, token, parcels) = left.arriving.iter_mut().find(|(at, ..)| *at == node)?;
            *parcels -= 1;
            (*parcels == 0).then_some(*token)
        });
        if let (Some(token), Some(job)) = (come, self.consignee.get()) {
            job.delivered(token);
        }
    }
}
