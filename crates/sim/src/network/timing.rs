//! The costs of links, by class, and a topology with these costs in tables.

use std::collections::BTreeMap;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::rate::Rate;
use crate::topology::{Channel, Link, LinkClass, Node, Topology, Vertex};

/// The costs of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkTiming {
    /// The time from taking the link until the packet's head has been routed at the far end and may
    /// request the next link: the switch at the near end, the wire, and the routing decision.
    pub latency: Time,
    /// The rate at which bytes cross the link.
    pub rate: Rate,
    /// The bytes of each buffer at the far end.
    pub buffer: u64,
}

/// The costs of all links of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The costs of classes that `by_class` does not name.
    pub default: LinkTiming,
    /// The costs of classes that differ.
    pub by_class: BTreeMap<LinkClass, LinkTiming>,
    /// Additional latency for each crossing by a multicast packet.
    pub multicast_extra: Time,
}

impl Timing {
    /// The same cost for every link, and for multicasts too.
    pub fn uniform(latency: Time, rate: Rate, buffer: u64) -> Timing {
        let default = LinkTiming { latency, rate, buffer };
        Timing { default, by_class: BTreeMap::new(), multicast_extra: Time::ZERO }
    }

    /// The same, with another cost for one class.
    #[must_use]
    pub fn with(mut self, class: LinkClass, timing: LinkTiming) -> Timing {
        self.by_class.insert(class, timing);
        self
    }

    fn of(&self, class: LinkClass) -> LinkTiming {
        self.by_class.get(&class).copied().unwrap_or(self.default)
    }
}

/// A topology with the costs of its links, with lookups by number for the models. The tables stay
/// in the cache, because a network has many links but few kinds.
#[derive(Debug)]
pub(super) struct NetworkWiring {
    pub(super) topology: Rc<dyn Topology>,
    kinds: Vec<LinkTiming>,
    /// By link: its index in `kinds`. A class has 8 bits, and two more have names, so 16 bits hold
    /// all.
    kind_of: Vec<u16>,
    /// By channel: its link.
    pub(super) link_of: Vec<u32>,
    pub(super) multicast_extra: Time,
}

impl NetworkWiring {
    pub(super) fn new(topology: Rc<dyn Topology>, timing: &Timing) -> NetworkWiring {
        let mut kinds: Vec<LinkTiming> = Vec::new();
        let kind_of = (0..topology.links()).map(|link| {
            let costs = timing.of(topology.link(link).class);
            let known = kinds.iter().position(|kind| *kind == costs);
            known.unwrap_or_else(|| {
                kinds.push(costs);
                kinds.len() - 1
            }) as u16
        });
        let kind_of = kind_of.collect();
        let link_of = (0..topology.channels()).map(|channel| topology.link_of(channel)).collect();
        let multicast_extra = timing.multicast_extra;
        NetworkWiring { topology, kinds, kind_of, link_of, multicast_extra }
    }

    /// The costs of a link.
    pub(super) fn link(&self, link: Link) -> &LinkTiming {
        &self.kinds[usize::from(self.kind_of[link as usize])]
    }

    /// The costs of a channel's link.
    pub(super) fn timing(&self, channel: Channel) -> &LinkTiming {
        self.link(self.link_of[channel as usize])
    }

    /// The channels that end at a node: its doors.
    pub(super) fn channels_into(&self, node: Node) -> Vec<Channel> {
        let ends = |&channel: &Channel| {
            self.topology.link(self.link_of[channel as usize]).to == Vertex::Node(node)
        };
        let doors: Vec<Channel> = (0..self.link_of.len() as Channel).filter(ends).collect();
        if !doors.is_empty() {
            return doors;
        }
        // A shared medium does not end at a node. The door is the end of the path to the node.
        let mut route = Vec::new();
        self.topology.route(node, node, &mut route);
        route.last().copied().into_iter().collect()
    }
}
