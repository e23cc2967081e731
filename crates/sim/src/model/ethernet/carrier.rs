//! A job's messages as datagrams on a switched Ethernet.
//!
//! ```text
//!   rank: send ──► frames on its wire ──► switch ──► frames on the other's wire ──► rank: receive
//!                                           └──────► the same on another's, if it is multicast
//! ```
//!
//! A wire carries one datagram after the other in each direction. The switch passes a frame on when
//! it has received the whole frame, and loses none.

use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Ethernet;
use crate::engine::{Server, Sim};
use crate::job::{Carrier, Connection, Consignee, HostCosts, Multicast, Parcel};
use crate::topology::Node;

/// The adapters of all nodes on their switch.
#[derive(Debug)]
pub struct Adapters {
    sim: Sim,
    costs: Ethernet,
    /// By node: the wire to the switch and the wire from it.
    wires: Vec<[Server; 2]>,
    consignee: Connection,
}

impl Adapters {
    /// An adapter at each of `nodes` nodes.
    pub fn new(sim: &Sim, costs: &Ethernet, nodes: u32) -> Rc<Adapters> {
        let wires = (0..nodes).map(|_| [Server::new(sim), Server::new(sim)]).collect();
        let (sim, costs) = (sim.clone(), costs.clone());
        Rc::new(Adapters { sim, costs, wires, consignee: Connection::default() })
    }

    /// Sends a datagram from a node. Returns the time when the switch passes it on, and the time
    /// when all of it has left.
    fn leave(&self, source: Node, bytes: u64, at: Time) -> (Time, Time) {
        let span = self.costs.on_the_wire(bytes);
        let start = self.wires[source as usize][0].book(at, span);
        (start + self.costs.to_the_switch(bytes), start + span)
    }

    /// Makes the switch pass a datagram on to a node, from a time on.
    fn pass_on(&self, parcel: Parcel, from: Time) {
        let span = self.costs.on_the_wire(parcel.bytes);
        let wire = self.wires[parcel.destination as usize][1].clone();
        let consignee = self.consignee.get();
        self.sim.at(from, move |sim| {
            let there = wire.book(sim.now(), span) + span;
            sim.at(there, move |_| {
                if let Some(consignee) = consignee {
                    consignee.delivered(parcel.token);
                }
            });
        });
    }
}

impl Carrier for Adapters {
    fn nodes(&self) -> u32 {
        self.wires.len() as u32
    }

    fn host(&self, _bytes: u64) -> HostCosts {
        HostCosts { send: self.costs.send, receive: self.costs.receive }
    }

    fn carry(&self, parcel: Parcel, at: Time) -> Option<Time> {
        let (passed_on, left) = self.leave(parcel.source, parcel.bytes, at);
        self.pass_on(parcel, passed_on);
        Some(left)
    }

    fn multicast(&self) -> Option<&dyn Multicast> {
        Some(self)
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.consignee.set(consignee);
    }
}

impl Multicast for Adapters {
    fn carry_to_all(&self, parcels: &[Parcel]) {
        let Some(&Parcel { source, bytes, .. }) = parcels.first() else { return };
        let (passed_on, left) = self.leave(source, bytes, self.sim.now());
        for &parcel in parcels {
            let consignee = self.consignee.get();
            self.sim.at(left, move |_| {
                if let Some(consignee) = consignee {
                    consignee.departed(parcel.token);
                }
            });
            self.pass_on(parcel, passed_on);
        }
    }
}
