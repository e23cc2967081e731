//! An Ethernet hub: one medium that every node hears, and on which one node sends at a time.
//!
//! ```text
//!   node 0   node 1   node 2   node 3
//!     |        |        |        |
//!   ==+========+========+========+==    one link, one channel for each receiver
//! ```
//!
//! Collisions and back-off are not modelled: a sender that finds the medium taken is served in
//! turn. Ethernet tends to that at moderate load, and it keeps a run a function of its seed.
//!
//! Deadlock: a route is one channel, so no holder of a channel waits for another.

use super::{Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// A shared medium; the class of its one link is [`LinkClass::Network`]`(0)`.
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
    use super::super::find_cycle;
    use super::*;

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
