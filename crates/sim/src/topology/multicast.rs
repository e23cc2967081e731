//! Multicast trees, made from the routes to all the receivers.
//!
//! If a route depends only on its two ends, and the rest of a route only on the place and the
//! receiver, then the routes from one node form a tree. Copies part where the routes do.

use std::collections::BTreeMap;

use super::{Branch, Channel, Node, Topology};

/// The tree of the routes from one node to several, branches in preorder.
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

/// Appends the branches that start where all of `rests` start; returns their numbers, one a link.
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
    use super::super::{HyperCrossbar, Multistage, Vertex};
    use super::*;

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
