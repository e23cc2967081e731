//! A job's messages over the adaptors: each is a TCW, in a chain of its own or behind others.

use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::nia::{NiaSystem, Tcw};
use crate::engine::Sim;
use crate::job::{Carrier, Consignee, HostCosts, Parcel};
use crate::network::Network;

/// Carries a job's messages. A rank pays the light system call for each chain that it sends, and a
/// poll of cached memory for each received message. Then the adaptor's steps follow.
///
/// Messages beyond the length of the chain queue wait at the adaptor. The job bounds their number.
#[derive(Debug)]
pub struct Adaptors {
    system: NiaSystem,
    host: HostCosts,
}

impl Adaptors {
    /// Adaptors for all nodes of a network.
    pub fn new(sim: &Sim, costs: &super::Costs, network: Rc<Network>) -> Rc<Adaptors> {
        let host = HostCosts { send: costs.start, receive: costs.detect };
        Rc::new(Adaptors { system: NiaSystem::new(sim, costs, network), host })
    }
}

impl Carrier for Adaptors {
    fn nodes(&self) -> u32 {
        self.system.network().nodes()
    }

    fn host(&self, _bytes: u64) -> HostCosts {
        self.host
    }

    /// The adaptor follows a chain by itself. So a message behind the first one costs the processor
    /// nothing.
    fn chained(&self, _bytes: u64) -> Time {
        Time::ZERO
    }

    fn look(&self) -> Time {
        self.host.receive
    }

    fn carry(&self, parcel: Parcel, _at: Time) -> Option<Time> {
        let Parcel { source, destination, bytes, token } = parcel;
        self.system.enqueue(source, Tcw { to: destination, bytes, area: token as u32 });
        None
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.system.connect(consignee);
    }
}
