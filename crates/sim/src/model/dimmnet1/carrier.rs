//! A job's messages over DIMMnet-1 boards: a word by AOTF, a longer message by BOTF.
//!
//! ```text
//!   up to 8 B   store ──270 ns──► memory ──► rank: response
//!   longer      packets of up to 464 B, each at 1017 MB/s ──270 ns──► memory ──► rank: response
//! ```

use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Costs;
use crate::engine::{Server, Sim};
use crate::job::{Carrier, Connection, Consignee, HostCosts, Parcel};

/// The boards of all nodes on their switch. The paper has two nodes. With more nodes, messages to
/// one node share the path into it, as messages from one node share the path out.
#[derive(Debug)]
pub struct Boards {
    sim: Sim,
    costs: Costs,
    /// By node: the path out and the path in.
    ways: Vec<[Server; 2]>,
    consignee: Connection,
}

impl Boards {
    /// A board at each of `nodes` nodes.
    pub fn new(sim: &Sim, costs: &Costs, nodes: u32) -> Rc<Boards> {
        let ways = (0..nodes).map(|_| [Server::new(sim), Server::new(sim)]).collect();
        let (sim, costs) = (sim.clone(), costs.clone());
        Rc::new(Boards { sim, costs, ways, consignee: Connection::default() })
    }

    /// The time for which a message occupies a path. It is zero for a word, which one bus cycle
    /// carries.
    fn span(&self, bytes: u64) -> Time {
        let interface = &self.costs.interface;
        match bytes <= interface.atomic_bytes {
            true => Time::ZERO,
            false => interface.block_rate.time(bytes),
        }
    }
}

impl Carrier for Boards {
    fn nodes(&self) -> u32 {
        self.ways.len() as u32
    }

    /// A send is stores of the program itself. The charge is for the answer to an arrival.
    fn host(&self, _bytes: u64) -> HostCosts {
        HostCosts { send: Time::ZERO, receive: self.costs.host.response }
    }

    fn carry(&self, parcel: Parcel, at: Time) -> Option<Time> {
        let span = self.span(parcel.bytes);
        let left = self.ways[parcel.source as usize][0].book(at, span) + span;
        // The first byte arrives one store time after it left, and the last byte a span later.
        let first = left - span + self.costs.interface.atomic;
        let consignee = self.consignee.get();
        let into = self.ways[parcel.destination as usize][1].clone();
        self.sim.at(first, move |sim| {
            let there = into.book(sim.now(), span) + span;
            sim.at(there, move |_| {
                if let Some(consignee) = consignee {
                    consignee.delivered(parcel.token);
                }
            });
        });
        Some(left)
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.consignee.set(consignee);
    }
}
