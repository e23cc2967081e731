//! The multistage network of Cenju-4 (paper 003 §2.2): switches of 4 x 4 with a buffer at each
//! crosspoint.
//!
//! ```text
//!   nodes    stage 0         stage 1     nodes        a switch: 16 buffers
//!     0 ----[       ]---\ /---[     ]---- 0             out 0  1  2  3
//!     1 ----[ 4 x 4 ]----X----[4 x 4]---- 1       in 0 ---[ ][ ][ ][ ]
//!     2 ----[       ]---/ \---[     ]---- 2       in 1 ---[ ][ ][ ][ ]
//!     3 ----[       ]--     --[     ]---- 3       in 2 ---[ ][ ][ ][ ]
//!     4 ----[  ...                                in 3 ---[ ][ ][ ][ ]
//! ```
//!
//! Stage by stage, one base-4 digit of the position is replaced by the receiver's digit, the
//! highest first (a butterfly): `n` stages reach 4^n nodes. A wire into a switch has four channels,
//! one for each output. A sender writes a packet into the buffer of its output, which the port bits
//! in the packet's first flit name. So packets for different outputs never wait for each other, and
//! writing a packet needs no arbitration.
//!
//! Multicast: a packet crosses a wire once and enters the buffers of all its outputs. The copies
//! continue independently.
//!
//! Link classes: `Network(0)` between stages. Deadlock: every route goes from stage to stage.

use super::{Branch, Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// The number of ports of a switch in each direction.
const PORTS: u32 = 4;

/// A butterfly of 4 x 4 crosspoint-buffered switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multistage {
    nodes: u32,
    stages: u32,
}

impl Multistage {
    /// The network with the fewest stages for `nodes` nodes: 2 for 16, 3 for 64, 5 for 1024.
    pub fn new(nodes: u32) -> Multistage {
        let mut stages = 1;
        while PORTS.pow(stages) < nodes {
            stages += 1;
        }
        Multistage { nodes, stages }
    }

    /// The number of switches that a packet passes.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// The number of wires between two stages.
    fn width(&self) -> u32 {
        PORTS.pow(self.stages)
    }

    /// The place value of the digit that stage `stage` replaces.
    fn weight(&self, stage: u32) -> u32 {
        PORTS.pow(self.stages - 1 - stage)
    }

    /// The digit of `position` that stage `stage` replaces: the port taken at its switch.
    pub(crate) fn digit(&self, position: u32, stage: u32) -> u32 {
        position / self.weight(stage) % PORTS
    }

    /// The number of wires into switches: from the nodes, then from each stage but the last.
    fn wires_into_switches(&self) -> u32 {
        self.nodes + (self.stages - 1) * self.width()
    }

    /// The wire into stage `stage` at `position`.
    fn wire(&self, stage: u32, position: u32) -> Link {
        match stage {
            0 => position,
            _ => self.nodes + (stage - 1) * self.width() + position,
        }
    }

    /// The switch of a stage at a position. The four positions that differ in this digit share it.
    pub fn switch_at(&self, stage: u32, position: u32) -> u32 {
        let weight = self.weight(stage);
        let within = position / (weight * PORTS) * weight + position % weight;
        stage * (self.width() / PORTS) + within
    }

    /// The number of switches. Stages of a network that is not full have idle ones.
    pub fn switches(&self) -> u32 {
        self.stages * self.width() / PORTS
    }

    /// The position after stage `stage` of a packet to `to` that entered at `position`.
    pub(crate) fn advance(&self, stage: u32, position: u32, to: Node) -> u32 {
        let weight = self.weight(stage);
        position - self.digit(position, stage) * weight + self.digit(to, stage) * weight
    }
}

impl Topology for Multistage {
    fn name(&self) -> String {
        format!(
            "multistage network of 4 x 4 switches, {} nodes, {} stages",
            self.nodes, self.stages
        )
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn links(&self) -> u32 {
        self.wires_into_switches() + self.nodes
    }

    fn channels(&self) -> u32 {
        PORTS * self.wires_into_switches() + self.nodes
    }

    fn link_of(&self, channel: Channel) -> Link {
        let buffered = PORTS * self.wires_into_switches();
        match channel.checked_sub(buffered) {
            None => channel / PORTS,
            Some(node) => self.wires_into_switches() + node,
        }
    }

    fn link(&self, link: Link) -> LinkEnds {
        let into = |stage, position| Vertex::Switch(self.switch_at(stage, position));
        if link < self.nodes {
            let (from, to) = (Vertex::Node(link), into(0, link));
            return LinkEnds { from, to, class: LinkClass::Injection };
        }
        if link >= self.wires_into_switches() {
            let node = link - self.wires_into_switches();
            let from = into(self.stages - 1, node);
            return LinkEnds { from, to: Vertex::Node(node), class: LinkClass::Ejection };
        }
        let (stage, position) =
            ((link - self.nodes) / self.width() + 1, (link - self.nodes) % self.width());
        let (from, to) = (into(stage - 1, position), into(stage, position));
        LinkEnds { from, to, class: LinkClass::Network(0) }
    }

    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
        let mut position = from;
        for stage in 0..self.stages {
            route.push(PORTS * self.wire(stage, position) + self.digit(to, stage));
            position = self.advance(stage, position, to);
        }
        route.push(PORTS * self.wires_into_switches() + to);
    }

    fn multicast(&self, from: Node, to: &[Node]) -> Option<Vec<Branch>> {
        Some(super::by_routes(self, from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_shape;
    use super::*;

    #[test]
    fn any_number_of_nodes_has_its_network() {
        for nodes in [1, 4, 8, 16, 17, 32, 64] {
            check_shape(&Multistage::new(nodes));
        }
    }

    #[test]
    fn stages_by_size() {
        let stages =
            [4, 8, 16, 32, 64, 128, 256, 1024].map(|nodes| Multistage::new(nodes).stages());
        assert_eq!(stages, [1, 2, 2, 3, 3, 4, 4, 5]);
        let network = Multistage::new(64);
        assert_eq!((network.distance(0, 0), network.distance(5, 62)), (4, 4));
        assert_eq!(network.switches(), 3 * 16);
    }

    #[test]
    fn packets_for_different_outputs_have_different_buffers() {
        let network = Multistage::new(16);
        let first = |to| {
            let mut route = Vec::new();
            network.route(9, to, &mut route);
            route[0]
        };
        let buffers: Vec<Channel> = [0, 4, 8, 12].map(first).to_vec();
        assert_eq!(buffers, [36, 37, 38, 39]);
        assert!(buffers.iter().all(|&channel| network.link_of(channel) == 9));
        assert_eq!(first(0), first(3), "the same output of the first stage, the same buffer");
    }
}
