//! A single switch: every node has a wire to it and a wire from it.
//!
//! ```text
//!   node 0 ---> [q]\     /---> node 0
//!   node 1 ---> [q]-(xbar)---> node 1       q: the input's buffer
//!   node 2 ---> [q]/     \---> node 2
//! ```
//!
//! With FIFO buffers at the inputs, this is the input-queued crossbar. Its throughput under uniform
//! traffic is limited to 2 - sqrt 2 (Karol, Hluchyj, Morgan 1987).
//!
//! Deadlock: a route takes an input and then an output, and no holder of an output waits for an
//! input.

use super::{Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// A crossbar with one port for each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    nodes: u32,
}

impl Switch {
    /// A switch with `nodes` ports.
    pub fn new(nodes: u32) -> Switch {
        Switch { nodes }
    }
}

impl Topology for Switch {
    fn name(&self) -> String {
        format!("switch of {} ports", self.nodes)
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn links(&self) -> u32 {
        2 * self.nodes
    }

    fn link(&self, link: Link) -> LinkEnds {
        let (switch, node) = (Vertex::Switch(0), Vertex::Node(link % self.nodes));
        match link < self.nodes {
            true => LinkEnds { from: node, to: switch, class: LinkClass::Injection },
            false => LinkEnds { from: switch, to: node, class: LinkClass::Ejection },
        }
    }

    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
        route.extend([from, self.nodes + to]);
    }
}

/// A shared medium. The class of its one link is [`LinkClass::Network`]`(0)`.
///
/// This is an Ethernet hub: one medium that every node hears, and on which one node sends at a
/// time.
///
/// ```text
///   node 0   node 1   node 2   node 3
///     |        |        |        |
///   ==+========+========+========+==    one link, one channel for each receiver
/// ```
///
/// Collisions and back-off are not modelled: a sender that finds the medium busy is served in
/// order. Ethernet approaches that at moderate load, and it keeps a run a function of its seed.
///
/// Deadlock: a route is one channel, so no holder of a channel waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    nodes: u32,
}

impl Hub {
    /// A medium that `nodes` nodes share.
    pub fn new(nodes: u32) -> Hub {
        Hub { nodes }
    }
}

impl Topology for Hub {
    fn name(&self) -> String {
        format!("hub of {} nodes", self.nodes)
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn links(&self) -> u32 {
        1
    }

    fn channels(&self) -> u32 {
        self.nodes
    }

    fn link_of(&self, _channel: Channel) -> Link {
        0
    }

    fn link(&self, _link: Link) -> LinkEnds {
        let hub = Vertex::Switch(0);
        LinkEnds { from: hub, to: hub, class: LinkClass::Network(0) }
    }

    fn route(&self, _from: Node, to: Node, route: &mut Vec<Channel>) {
        route.push(to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_shape;
    use super::*;

    #[test]
    fn two_channels_whatever_the_pair() {
        check_shape(&Switch::new(1));
        let switch = Switch::new(5);
        check_shape(&switch);
        assert!((0..5).all(|to| switch.distance(2, to) == 2));
    }

    use super::super::find_cycle;

    #[test]
    fn every_route_is_the_medium() {
        let hub = Hub::new(4);
        assert_eq!(find_cycle(&hub), None);
        for (from, to) in [(0, 0), (0, 3), (2, 1)] {
            assert_eq!(hub.distance(from, to), 1);
        }
        assert!((0..hub.channels()).all(|channel| hub.link_of(channel) == 0));
    }
}
