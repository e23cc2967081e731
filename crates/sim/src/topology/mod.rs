//! Shapes of networks: their links, and the routes of messages.
//!
//! A *link* is a wire with one direction: it has a rate and a latency, and carries one packet at a
//! time. A *channel* is a link together with a buffer at its far end. Several channels of one link
//! are Dally and Seitz' virtual channels, or the crosspoint buffers of a Cenju-4
//! switch are to the wire that feeds them. A *route* is a list of channels: the first leaves the
//! sending node, the last enters the receiving one.
//!
//! ```text
//!   node 0 --link 0--> [ ]  switch  ---link 5--> [ ] switch ---link 9--> [ ] node 1
//!                    channel 0               channel 7               channel 12
//!                                            channel 6: the other buffer of link 5
//! ```
//!
//! Every shape routes deterministically: the route depends only on its two ends, so messages
//! between them keep their order. Every shape's file says why its routes cannot deadlock, and a
//! test checks it: an order of its channels exists in which every route goes upward
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

/// The kind of a link, so that a machine can give kinds their own rates and latencies.
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
    /// A switch, router or crossbar, numbered by the shape.
    Switch(u32),
}

/// A link as a drawing shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnds {
    /// Its start.
    pub from: Vertex,
    /// Its end.
    pub to: Vertex,
    /// Its kind.
    pub class: LinkClass,
}

/// A shape with its routing.
pub trait Topology: fmt::Debug {
    /// The name, in a few words with its sizes: `hyper-crossbar 8 x 17 x 16`.
    fn name(&self) -> String;

    /// The number of nodes, numbered from 0.
    fn nodes(&self) -> u32;

    /// The number of links, numbered from 0.
    fn links(&self) -> u32;

    /// The number of channels, numbered from 0; as many as links unless stated otherwise.
    fn channels(&self) -> u32 {
        self.links()
    }

    /// The link that a channel belongs to.
    fn link_of(&self, channel: Channel) -> Link {
        channel
    }

    /// The two ends and the class of a link.
    fn link(&self, link: Link) -> LinkEnds;

    /// Appends the channels from one node to another. `from` may equal `to`: a message of a node to
    /// itself goes to its first switch and back.
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

    /// The number of channels of the route between two nodes, with the first and the last.
    fn distance(&self, from: Node, to: Node) -> u32 {
        let mut route = Vec::new();
        self.route(from, to, &mut route);
        route.len() as u32
    }
}

/// A step of a multicast: one crossing of a link into one or several of its buffers at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The channels entered, all of one link; each copy continues independently.
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
