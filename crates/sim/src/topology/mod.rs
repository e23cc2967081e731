//! The shapes of networks: their links, and the routes of messages.
//!
//! A *link* is a wire with one direction. It has a rate and a latency, and carries one packet at a
//! time. A *channel* is a link together with a buffer at its far end. Several channels of one link
//! model Dally and Seitz' virtual channels, or the crosspoint buffers of a Cenju-4 switch behind
//! the wire that feeds them. A *route* is a list of channels: the first leaves the sending node,
//! the last enters the receiving one.
//!
//! ```text
//!   node 0 --link 0--> [ ]  switch  ---link 5--> [ ] switch ---link 9--> [ ] node 1
//!                    channel 0               channel 7               channel 12
//!                                            channel 6: the other buffer of link 5
//! ```
//!
//! Every shape routes deterministically. The route depends only on its two ends, so messages
//! between them keep their order. The file of every shape explains why its routes cannot deadlock,
//! and a test checks it: its channels have an order in which every route goes upward
//! ([`find_cycle`]). This is Dally and Seitz' condition for wormhole routing (IEEE Trans. Comput.
//! C-36, 1987), and it suffices for virtual cut-through too.

mod dragonfly;
mod fat_tree;
mod grid;
mod hyper_crossbar;
mod multistage;
mod switch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
pub use grid::{Dimension, Grid};
pub use hyper_crossbar::HyperCrossbar;
pub use multistage::Multistage;
pub use switch::{Hub, Switch};

/// The number of a node: a place where messages start and end.
pub type Node = u32;

/// The number of a link: a wire with one direction.
pub type Link = u32;

/// The number of a channel: a link and one of the buffers at its far end.
pub type Channel = u32;

/// The kind of a link, so that a machine can give each kind its own rate and latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkClass {
    /// From a node into the network.
    Injection,
    /// From the network into a node.
    Ejection,
    /// Between switches. The number distinguishes the shape's kinds and is explained there.
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

/// The ends and the kind of a link.
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
    /// The name in a few words, with its sizes: `hyper-crossbar 8 x 17 x 16`.
    fn name(&self) -> String;

    /// The number of nodes, numbered from 0.
    fn nodes(&self) -> u32;

    /// The number of links, numbered from 0.
    fn links(&self) -> u32;

    /// The number of channels, numbered from 0. As many as links unless stated otherwise.
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
    /// May panic if a node does not exist. Callers check that once.
    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>);

    /// The tree of a message from one node to several, if the switches can copy: branches in
    /// preorder, the root first. `None` if they cannot.
    fn multicast(&self, from: Node, to: &[Node]) -> Option<Vec<Branch>> {
        let _ = (from, to);
        None
    }

    /// The number of channels of the route between two nodes, including the first and the last.
    fn distance(&self, from: Node, to: Node) -> u32 {
        let mut route = Vec::new();
        self.route(from, to, &mut route);
        route.len() as u32
    }
}

/// A step of a multicast: one crossing of a link into one or several of its buffers at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The entered channels, all of one link. Each copy continues independently.
    pub channels: Vec<Channel>,
    /// For each of the channels, the indices of the branches that follow it.
    pub next: Vec<Vec<u32>>,
}

/// Checks for the shapes' tests that every route is connected, starts and ends right, and that
/// there is no cycle.
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

/// Channels that wait for each other in a cycle, or `None` if there is no such cycle.
///
/// Walks every route: meant for tests, and for shapes of up to a few hundred nodes.
///
/// The search uses the channel dependency graph. Channel `a` depends on channel `b` if some route
/// takes `b` right after `a`: the holder of `a` may wait for `b`. Without a cycle the channels have
/// an order in which every holder waits only for later ones. So the holder of the last one always
/// makes progress (Dally, Seitz 1987).
pub fn find_cycle(topology: &dyn Topology) -> Option<Vec<Channel>> {
    cycle_of(&dependencies(topology))
}

/// For each channel, the channels that some route takes next.
fn dependencies(topology: &dyn Topology) -> Vec<BTreeSet<Channel>> {
    let mut next = vec![BTreeSet::new(); topology.channels() as usize];
    let mut route = Vec::new();
    for from in 0..topology.nodes() {
        for to in 0..topology.nodes() {
            route.clear();
            topology.route(from, to, &mut route);
            for pair in route.windows(2) {
                next[pair[0] as usize].insert(pair[1]);
            }
        }
    }
    next
}

/// Depth-first search with the path on an explicit stack, because shapes may have thousands of
/// channels.
fn cycle_of(next: &[BTreeSet<Channel>]) -> Option<Vec<Channel>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        New,
        OnPath,
        Done,
    }
    let mut marks = vec![Visit::New; next.len()];
    for start in 0..next.len() as Channel {
        if marks[start as usize] != Visit::New {
            continue;
        }
        marks[start as usize] = Visit::OnPath;
        let mut path = vec![(start, next[start as usize].iter())];
        while let Some((channel, rest)) = path.last_mut() {
            match rest.next() {
                None => {
                    marks[*channel as usize] = Visit::Done;
                    path.pop();
                }
                Some(&follower) => match marks[follower as usize] {
                    Visit::Done => {}
                    Visit::New => {
                        marks[follower as usize] = Visit::OnPath;
                        path.push((follower, next[follower as usize].iter()));
                    }
                    Visit::OnPath => {
                        let circle = path.iter().map(|step| step.0);
                        return Some(circle.skip_while(|&channel| channel != follower).collect());
                    }
                },
            }
        }
    }
    None
}

/// The multicast tree from one node to several, made from the routes to all receivers. Branches are
/// in preorder.
///
/// If a route depends only on its two ends, and the rest of a route only on the place and the
/// receiver, then the routes from one node form a tree. Copies separate where the routes do.
pub(super) fn by_routes(topology: &dyn Topology, from: Node, to: &[Node]) -> Vec<Branch> {
    let route_to = |&node: &Node| {
        let mut route = Vec::new();
        topology.route(from, node, &mut route);
        route
    };
    let routes: Vec<Vec<Channel>> = to.iter().map(route_to).collect();
    let mut branches = Vec::new();
    let rests: Vec<&[Channel]> = routes.iter().map(Vec::as_slice).collect();
    grow(topology, &rests, &mut branches);
    branches
}

/// Appends the branches that start where all of `rests` start. Returns their indices, one per link.
fn grow(topology: &dyn Topology, rests: &[&[Channel]], branches: &mut Vec<Branch>) -> Vec<u32> {
    let mut by_link = BTreeMap::<_, BTreeMap<Channel, Vec<&[Channel]>>>::new();
    for (first, rest) in rests.iter().filter_map(|route| route.split_first()) {
        let channels = by_link.entry(topology.link_of(*first)).or_default();
        channels.entry(*first).or_default().push(rest);
    }
    let mut numbers = Vec::new();
    for (_, channels) in by_link {
        let number = branches.len();
        numbers.push(number as u32);
        let entered = channels.keys().copied().collect();
        branches.push(Branch { channels: entered, next: Vec::new() });
        // The recursion is as deep as a route is long.
        let next = channels.values().map(|rests| grow(topology, rests, branches)).collect();
        branches[number].next = next;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of four nodes in one direction, without virtual channels: the textbook deadlock.
    #[derive(Debug)]
    struct Ring;

    impl Topology for Ring {
        fn name(&self) -> String {
            "ring".into()
        }

        fn nodes(&self) -> u32 {
            4
        }

        fn links(&self) -> u32 {
            4
        }

        fn link(&self, link: u32) -> LinkEnds {
            let (from, to) = (Vertex::Node(link), Vertex::Node((link + 1) % 4));
            LinkEnds { from, to, class: LinkClass::Network(0) }
        }

        fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
            let steps = (to + 4 - from) % 4;
            route.extend((0..steps).map(|step| (from + step) % 4));
        }
    }

    #[test]
    fn the_textbook_deadlock_is_found() {
        let mut cycle = find_cycle(&Ring).unwrap();
        cycle.sort_unstable();
        assert_eq!(cycle, [0, 1, 2, 3]);
    }

    #[test]
    fn chains_and_diamonds_are_no_circles() {
        let edges = |lists: &[&[u32]]| -> Vec<BTreeSet<u32>> {
            lists.iter().map(|list| list.iter().copied().collect()).collect()
        };
        assert_eq!(cycle_of(&edges(&[&[1, 2], &[3], &[3], &[]])), None);
        assert_eq!(cycle_of(&edges(&[&[1], &[2], &[1]])), Some(vec![1, 2]));
        assert_eq!(cycle_of(&edges(&[&[0]])), Some(vec![0]));
    }

    /// The nodes that the leaves of a tree enter, in order.
    fn leaves(topology: &dyn Topology, branches: &[Branch]) -> Vec<Node> {
        let mut found = Vec::new();
        for branch in branches {
            for (channel, next) in branch.channels.iter().zip(&branch.next) {
                if let (Vertex::Node(node), true) =
                    (topology.link(topology.link_of(*channel)).to, next.is_empty())
                {
                    found.push(node);
                }
            }
        }
        found.sort_unstable();
        found
    }

    #[test]
    fn every_receiver_is_a_leaf_once() {
        let crossbar = HyperCrossbar::new(&[4, 3, 2]);
        let network = Multistage::new(32);
        for topology in [&crossbar as &dyn Topology, &network] {
            let all: Vec<Node> = (0..topology.nodes()).collect();
            let odd: Vec<Node> = all.iter().copied().filter(|node| node % 2 == 1).collect();
            for group in [&all[..], &odd, &[7]] {
                let branches = by_routes(topology, 5, group);
                assert_eq!(leaves(topology, &branches), group);
            }
        }
    }

    #[test]
    fn a_multistage_network_copies_as_late_as_it_can() {
        // 16 nodes, two stages: one crossing into the first switch (4 buffers), 4 crossings into
        // the second stage (4 buffers each), 16 crossings into nodes.
        let network = Multistage::new(16);
        let all: Vec<Node> = (0..16).collect();
        let branches = by_routes(&network, 3, &all);
        assert_eq!(branches.len(), 1 + 4 + 16);
        assert_eq!(branches.iter().map(|branch| branch.channels.len()).sum::<usize>(), 4 + 16 + 16);
        assert_eq!(branches[0].next.concat().len(), 4);
    }

    #[test]
    fn a_broadcast_crosses_each_line_of_a_hyper_crossbar_once() {
        let crossbar = HyperCrossbar::new(&[4, 8, 8]);
        let all: Vec<Node> = (0..256).collect();
        let branches = by_routes(&crossbar, 0, &all);
        // Injection; to XBs: 1 along x, 4 along y, 32 along z; from XBs to the 255 others;
        // ejection.
        assert_eq!(branches.len(), 1 + (1 + 4 + 32) + 255 + 256);
    }
}
