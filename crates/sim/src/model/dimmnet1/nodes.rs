//! Nodes joined by DIMMnet-1 boards and by a switched Ethernet, and the processors' costs of a
//! message.
//!
//! ```text
//!   AOTF   store ──270 ns──► word in another node's memory         no processor there
//!   BOTF   copy into packets of up to 464 B ──1017 MB/s──► memory  no processor there
//!   UDP    system call ──frames──► switch ──frames──► interrupt, stack, wake-up
//!                                    └──────────────► the same at each other, if it is multicast
//! ```
//!
//! A node's processor serves its program and its arrivals in the order of the requests. The paper
//! measures two nodes.

use std::fmt;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::costs::Costs;
use crate::engine::{Server, Sim};
use crate::topology::Node;

/// The nodes.
#[derive(Clone)]
pub struct Nodes(Rc<NodesState>);

struct NodesState {
    sim: Sim,
    costs: Costs,
    nodes: Vec<NodeUnits>,
}

/// The units of one node.
struct NodeUnits {
    processor: Server,
    board: Server,
    /// The wires of the Ethernet: to the switch and from it.
    wires: [Server; 2],
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("count", &self.0.nodes.len()).finish_non_exhaustive()
    }
}

impl Nodes {
    /// Creates this many idle nodes.
    pub fn new(sim: &Sim, costs: &Costs, nodes: u32) -> Nodes {
        let server = || Server::new(sim);
        let units =
            |_| NodeUnits { processor: server(), board: server(), wires: [server(), server()] };
        let nodes = (0..nodes).map(units).collect();
        Nodes(Rc::new(NodesState { sim: sim.clone(), costs: costs.clone(), nodes }))
    }

    /// The costs.
    pub fn costs(&self) -> &Costs {
        &self.0.costs
    }

    fn units(&self, node: Node) -> &NodeUnits {
        &self.0.nodes[node as usize]
    }

    /// Occupies a node's processor for this time.
    pub async fn work(&self, node: Node, time: Time) {
        self.units(node).processor.serve(time).await;
    }

    /// Copies shared data with a node's processor.
    pub async fn copy(&self, node: Node, bytes: u64) {
        self.work(node, self.0.costs.host.copy.time(bytes)).await;
    }

    /// Stores a word of up to eight bytes into another node's memory (AOTF).
    pub async fn store(&self) {
        self.0.sim.delay(self.0.costs.interface.atomic).await;
    }

    /// Waits until a node's program has seen a word and is ready to answer.
    pub async fn respond(&self, node: Node) {
        self.work(node, self.0.costs.host.response).await;
    }

    /// Sends data to another node's memory, packet by packet (BOTF).
    pub async fn blocks(&self, from: Node, bytes: u64) {
        self.packets(from, bytes).await;
        self.store().await;
    }

    /// Sends data from the board, packet by packet. Packets of others pass between two of them.
    pub async fn packets(&self, from: Node, bytes: u64) {
        let interface = &self.0.costs.interface;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(interface.block_bytes);
            self.units(from).board.serve(interface.block_rate.time(part)).await;
            left -= part;
        }
    }

    /// Sends a datagram from a node to one other, or to all for which the switch copies it. Returns
    /// the time when the switch passes it on.
    pub async fn send(&self, from: Node, bytes: u64) -> Time {
        let ethernet = &self.0.costs.ethernet;
        self.work(from, ethernet.send).await;
        let span = ethernet.on_the_wire(bytes);
        let start = self.units(from).wires[0].book(self.0.sim.now(), span);
        start + ethernet.to_the_switch(bytes)
    }

    /// Makes the switch pass a datagram on to a node from a time on, and then calls `arrive`.
    pub fn pass_on(&self, to: Node, bytes: u64, from: Time, arrive: impl FnOnce() + 'static) {
        let span = self.0.costs.ethernet.on_the_wire(bytes);
        let wire = self.units(to).wires[1].clone();
        self.0.sim.at(from, move |sim| {
            let there = wire.book(sim.now(), span) + span;
            sim.at(there, move |_| arrive());
        });
    }

    /// Receives, with a node's processor, a datagram that has arrived there.
    pub async fn receive(&self, node: Node) {
        self.work(node, self.0.costs.ethernet.receive).await;
    }
}
