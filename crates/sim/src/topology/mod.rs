//! Shapes of networks: which links there are, and which of them a message takes.
//!
//! A *link* is a wire with one direction: it has a rate, a latency, and carries one thing at a
//! time. A *channel* is a link together with a buffer at its far end; several channels of one link
//! are what Dally and Seitz call virtual channels, and what the crosspoint buffers of a Cenju-4
//! switch are to the wire that feeds them. A *route* is a list of channels: the first leaves the
//! sending node, the last enters the receiving one.
//!
//! ```text
//!   node 0 --link 0--> [ ]  switch  ---link 5--> [ ] switch ---link 9--> [ ] node 1
//!                    channel 0               channel 7               channel 12
//!                                            channel 6: the other buffer of link 5
//! ```
//!
//! Every shape routes deterministically: the route depends on its two ends only, so messages
//! between them keep their order. Every shape says in its file why its routes cannot deadlock, and
//! is tested by program: an order of its channels exists in which every route goes upward
//! ([`find_cycle`]), which is Dally and Seitz' condition for wormhole routing (IEEE Trans. Comput.
//! C-36, 1987) and suffices for virtual cut-through too.

mod dependency;
mod dragonfly;
mod fat_tree;
mod grid;
mod hub;
mod hyper_crossbar;
mod multicast;
mod multistage;
mod switch;

use std::fmt;

pub use dependency::find_cycle;
pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
pub use grid::{Dimension, Grid};
pub use hub::Hub;
pub use hyper_crossbar::HyperCrossbar;
pub use multistage::Multistage;
pub use switch::Switch;

/// Number of a node: a place where messages start and end.
pub type Node = u32;

/// Number of a link: a wire with one direction.
pub type Link = u32;

/// Number of a channel: a link and one of the buffers at its far end.
pub type Channel = u32;

/// What kind of link it is, so that a machine can give kinds their own rates and latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkClass {
    /// From a node into the network.
    Injection,
    /// From the network into a node.
    Ejection,
    /// Between switches; the number tells the shape's kinds apart and is explained there.
    Network(u8),
}

/// One end of a link, for drawings and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Vertex {
    /// A node.
    Node(Node),
    /// A switch, router or crossbar, numbered as the shape likes.
    Switch(u32),
}

/// A link as a drawing shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnds {
    /// Where it starts.
    pub from: Vertex,
    /// Where it ends.
    pub to: Vertex,
    /// What kind it is.
    pub class: LinkClass,
}

/// A shape with its routing.
pub trait Topology: fmt::Debug {
    /// In a few words, with its sizes: `hyper-crossbar 8 x 17 x 16`.
    fn name(&self) -> String;

    /// How many nodes there are, numbered from 0.
    fn nodes(&self) -> u32;

    /// How many links there are, numbered from 0.
    fn links(&self) -> u32;

    /// How many channels there are, numbered from 0; as many as links unless stated otherwise.
    fn channels(&self) -> u32 {
        self.links()
    }

    /// The link that a channel belongs to.
    fn link_of(&self, channel: Channel) -> Link {
        channel
    }

    /// What connects what.
    fn link(&self, link: Link) -> LinkEnds;

    /// Appends the channels from one node to another. `from` may equal `to`: what a node sends to
    /// itself through the network goes to its first switch and back.
    ///
    /// # Panics
    /// May panic if a node does not exist; callers check that once.
    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>);

    /// The tree that a message from one node to several takes, if the switches can copy: branches
    /// in preorder, the root first. `None` if they cannot.
    fn multicast(&self, from: Node, to: &[Node]) -> Option<Vec<Branch>> {
        let _ = (from, to);
        None
    }

    /// How many channels the route between two nodes has, the first and the last included.
    fn distance(&self, from: Node, to: Node) -> u32 {
        let mut route = Vec::new();
        self.route(from, to, &mut route);
        route.len() as u32
    }
}

/// A step of a multicast: one crossing of a link into one or several of its buffers at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The channels entered, all of one link; the copy in each goes on by its own.
    pub channels: Vec<Channel>,
    /// For each of the channels, the numbers of the branches that follow it.
    pub next: Vec<Vec<u32>>,
}

/// Checks for the shapes' tests: every route is connected, starts and ends right, and no cycle.
#[cfg(test)]
pub(crate) fn check_shape(topology: &dyn Topology) {
    let mut route = Vec::new();
    for from in 0..topology.nodes() {
        for to in 0..topology.nodes() {
            route.clear();
            topology.route(from, to, &mut route);
            let ends: Vec<LinkEnds> =
                route.iter().map(|&channel| topology.link(topology.link_of(channel))).collect();
            assert_eq!(ends[0].from, Vertex::Node(from), "{topology:?}: {from} -> {to}");
            assert_eq!(ends[ends.len() - 1].to, Vertex::Node(to), "{topology:?}: {from} -> {to}");
            for pair in ends.windows(2) {
                assert_eq!(pair[0].to, pair[1].from, "{topology:?}: {from} -> {to}: {ends:?}");
            }
            assert!(route.iter().all(|&channel| channel < topology.channels()));
        }
    }
    assert!((0..topology.channels()).all(|channel| topology.link_of(channel) < topology.links()));
    assert_eq!(find_cycle(topology), None, "{}", topology.name());
}
