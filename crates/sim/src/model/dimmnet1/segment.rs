//! Nodes on one switched Ethernet, and datagrams to one of them or, by multicast, to several.
//!
//! ```text
//!   one by one   send, frames, send, frames, ...       ► at each: interrupt, stack, wake-up
//!   multicast    send, frames ► the switch copies them ► at each, at the same time
//! ```
//!
//! The paper measures two nodes ([`Pair`](super::Pair)), to which its multicast is no other.

use std::fmt;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::costs::Costs;
use crate::engine::{Server, Sim};
use crate::topology::Node;

/// The nodes' processors, and their paths into the switch.
pub struct Segment {
    costs: Costs,
    processors: Vec<Server>,
    /// By sender.
    paths: Vec<Server>,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("nodes", &self.paths.len()).finish_non_exhaustive()
    }
}

impl Segment {
    /// So many idle nodes.
    pub fn new(sim: &Sim, costs: &Costs, nodes: u32) -> Rc<Segment> {
        let servers = || (0..nodes).map(|_| Server::new(sim)).collect();
        Rc::new(Segment { costs: costs.clone(), processors: servers(), paths: servers() })
    }

    /// A node's processor works for this time.
    pub async fn work(&self, node: Node, time: Time) {
        self.processors[node as usize].serve(time).await;
    }

    /// A datagram has left a node: for one other, or for all that the switch copies it to.
    pub async fn leave(&self, node: Node, bytes: u64) {
        let ethernet = &self.costs.ethernet;
        self.work(node, ethernet.send).await;
        self.paths[node as usize].serve(ethernet.on_the_wire(bytes)).await;
    }

    /// A datagram that has come to a node is taken in.
    pub async fn take(&self, node: Node) {
        self.work(node, self.costs.ethernet.receive).await;
    }
}
