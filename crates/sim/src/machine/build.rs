//! Builds the parts of a simulation from a machine file: the topology and the network on it.

use std::fmt;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::{ContentionModel, Interface, LinkCosts, Machine, NetworkShape};
use crate::engine::Sim;
use crate::job::Carrier;
use crate::model::cenju4::Synchronisation;
use crate::model::{cenju4, cppacs, dimmnet1, dimmnet2, ethernet, rdma, tofu2};
use crate::network::{
    CutThrough, LinkTiming, LogGp, LogGpParameters, Network, NetworkModel, Rate, Timing, Wormhole,
};
use crate::topology::{
    Dragonfly, FatTree, Grid, Hub, HyperCrossbar, LinkClass, Multistage, Node, Switch, Topology,
};

/// A machine installed in a simulation, ready to carry the messages of a job.
pub struct Installed {
    /// The interfaces of all nodes.
    pub carrier: Rc<dyn Carrier>,
    /// The network below them; `None` if an interface model times the path between nodes itself.
    pub network: Option<Rc<Network>>,
    /// The shape of the network.
    pub topology: Rc<dyn Topology>,
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").field("network", &self.network).finish_non_exhaustive()
    }
}

impl Machine {
    /// Installs the machine in a simulation: its network, and its interface at every node.
    pub fn install(&self, sim: &Sim) -> Installed {
        let over = |carrier: Rc<dyn Carrier>, network: Rc<Network>| Installed {
            carrier,
            network: Some(network),
            topology: self.topology(),
        };
        let alone = |carrier: Rc<dyn Carrier>| Installed {
            carrier,
            network: None,
            topology: self.topology(),
        };
        match &self.interface {
            Interface::Dimmnet1(costs) => alone(dimmnet1::Boards::new(sim, costs, self.nodes)),
            Interface::Ethernet(costs) => alone(ethernet::Adapters::new(sim, costs, self.nodes)),
            Interface::Dimmnet2(costs) => alone(dimmnet2::Boards::new(sim, costs, self.nodes)),
            Interface::Tofu2(costs) => {
                let network = self.network(sim);
                over(tofu2::Engines::new(sim, costs, Rc::clone(&network)), network)
            }
            Interface::Cenju4(costs) => {
                let buffer = self.links.buffer;
                let carrier = cenju4::CenjuInterfaces::new(sim, costs, self.topology(), buffer);
                let network = carrier.network();
                over(carrier, network)
            }
            Interface::CpPacs(costs) => {
                let network = self.network(sim);
                over(cppacs::Adaptors::new(sim, costs, Rc::clone(&network)), network)
            }
            Interface::Rdma(costs) => {
                let network = self.network(sim);
                over(rdma::Interfaces::new(sim, costs, Rc::clone(&network)), network)
            }
        }
    }

    /// Whether one command reaches a set of nodes, and nodes synchronise without messages, as on
    /// paper 003's machine. Barriers and broadcasts by the group of a communicator need this.
    pub fn has_groups(&self) -> bool {
        matches!(self.interface, Interface::Cenju4(_))
    }

    /// A barrier of the machine's first `nodes` nodes in its network. `None` if its switches have
    /// none, or none for a network of this size.
    pub fn synchronisation(&self, sim: &Sim, nodes: u32) -> Option<Synchronisation> {
        let Interface::Cenju4(costs) = &self.interface else { return None };
        let group: Vec<Node> = (0..nodes).collect();
        Synchronisation::new(sim, costs, self.nodes, &group).ok()
    }

    /// The machine with at least this many nodes: a larger network of the same shape, otherwise as
    /// in the file. A machine that is large enough stays unchanged.
    ///
    /// # Errors
    /// One line on why the shape cannot hold so many nodes.
    pub fn with_nodes(&self, nodes: u32) -> Result<Machine, String> {
        if nodes <= self.nodes {
            return Ok(self.clone());
        }
        if matches!(self.interface, Interface::Dimmnet2(_)) && nodes > dimmnet2::MOST_NODES {
            let most = dimmnet2::MOST_NODES;
            return Err(format!("its boards' landing rings are simulated for up to {most} nodes"));
        }
        let shape = self.shape.grown(u64::from(nodes))?;
        // Shapes grow in steps. The machine gets all nodes of the last step.
        let room = shape.nodes().and_then(|room| u32::try_from(room).ok());
        Ok(Machine { nodes: room.unwrap_or(nodes), shape, ..self.clone() })
    }

    /// The network's shape with its routing. It has at least [`Machine::nodes`] nodes.
    pub fn topology(&self) -> Rc<dyn Topology> {
        match &self.shape {
            NetworkShape::Switch => Rc::new(Switch::new(self.nodes)),
            NetworkShape::Hub => Rc::new(Hub::new(self.nodes)),
            NetworkShape::HyperCrossbar(extent) => Rc::new(HyperCrossbar::new(extent)),
            NetworkShape::Multistage => Rc::new(Multistage::new(self.nodes)),
            NetworkShape::Torus(extent) => Rc::new(Grid::torus(extent)),
            NetworkShape::Mesh(extent) => Rc::new(Grid::mesh(extent)),
            NetworkShape::Tofu([x, y, z]) => {
                let grid = Grid::tofu(*x, *y, *z);
                // Several engines send and receive at once.
                let several = matches!(self.interface, Interface::Tofu2(_));
                Rc::new(if several { grid.with_own_ways() } else { grid })
            }
            NetworkShape::FatTree { radix, levels } => {
                Rc::new(FatTree::new(&arities(*radix, *levels)))
            }
            NetworkShape::Dragonfly { nodes, routers, links, groups } => {
                Rc::new(Dragonfly::with_groups(*nodes, *routers, *links, *groups))
            }
        }
    }

    /// The network of this machine in a simulation.
    pub fn network(&self, sim: &Sim) -> Rc<Network> {
        self.network_on(sim, self.topology())
    }

    /// The same links and switches in another shape, for comparisons.
    pub fn network_on(&self, sim: &Sim, topology: Rc<dyn Topology>) -> Rc<Network> {
        let (links, timing) = (self.links, self.timing());
        let model: Box<dyn NetworkModel> = match links.flow {
            ContentionModel::Wormhole => Box::new(Wormhole::new(topology, &timing)),
            ContentionModel::CutThrough => Box::new(CutThrough::new(topology, &timing)),
            ContentionModel::Analytic => {
                let parameters =
                    LogGpParameters { latency: links.hop, gap: Time::ZERO, rate: links.rate };
                Box::new(LogGp::new(topology.nodes(), parameters))
            }
        };
        Network::new(sim, model)
    }

    /// The costs of the network's links. Some interfaces have their own costs at the network's
    /// edge.
    fn timing(&self) -> Timing {
        let LinkCosts { hop, rate, buffer, .. } = self.links;
        let uniform = Timing::uniform(hop, rate, buffer);
        let edge = |rate| LinkTiming { latency: Time::ZERO, rate, buffer };
        match self.interface {
            // Each engine has its own path into and out of its node's router, at its own rate.
            Interface::Tofu2(_) => uniform
                .with(LinkClass::Injection, edge(Rate::INFINITE))
                .with(LinkClass::Ejection, edge(Rate::INFINITE)),
            // A hop is a switch from port to port. Behind the last switch there is only a wire.
            Interface::Rdma(_) => uniform.with(LinkClass::Ejection, edge(rate)),
            _ => uniform,
        }
    }
}

/// The children and parents per level of a fat tree. Its switches have as many ports up as down,
/// except at the top, where all ports go down.
fn arities(radix: u32, levels: u32) -> Vec<(u32, u32)> {
    let half = radix / 2;
    let level = |level| {
        let children = if level == levels { radix } else { half };
        (children, if level == 1 { 1 } else { half })
    };
    (1..=levels).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_grow_in_their_own_shape() {
        let grown = |name: &str, text: &str, nodes| {
            let machine = Machine::parse(name, text).unwrap().with_nodes(nodes)?;
            assert!(machine.nodes >= nodes && machine.topology().nodes() >= nodes, "{name}");
            assert_eq!(machine.nodes, machine.with_nodes(1)?.nodes);
            Ok::<Machine, String>(machine)
        };
        for nodes in [8, 300, 4096] {
            let cp_pacs = include_str!("../../../../machines/cp-pacs.toml");
            let tofu = include_str!("../../../../machines/fx100-tofu2.toml");
            let fat_tree = include_str!("../../../../machines/fat-tree-200g.toml");
            let dragonfly = include_str!("../../../../machines/dragonfly-200g.toml");
            let cenju = include_str!("../../../../machines/cenju4.toml");
            let machine = grown("cp-pacs", cp_pacs, nodes).unwrap();
            if nodes == 4096 {
                assert_eq!(machine.shape, NetworkShape::HyperCrossbar([16, 16, 16]));
            }
            for (name, text) in [("t", tofu), ("f", fat_tree), ("d", dragonfly), ("c", cenju)] {
                grown(name, text, nodes).unwrap();
            }
        }
        let cp_pacs = include_str!("../../../../machines/cp-pacs.toml");
        let refused = grown("cp-pacs", cp_pacs, 1 << 21).unwrap_err();
        assert_eq!(refused, "no machine has more than 1048576 nodes");
    }

    #[test]
    fn built_shapes_have_the_checked_room() {
        let base = include_str!("../../../../machines/cp-pacs.toml");
        let mut machine = Machine::parse("cp-pacs", base).unwrap();
        machine.nodes = 6;
        for shape in [
            NetworkShape::HyperCrossbar([2, 3, 4]),
            NetworkShape::Torus(vec![3, 4]),
            NetworkShape::Mesh(vec![7]),
            NetworkShape::Tofu([2, 1, 1]),
            NetworkShape::FatTree { radix: 4, levels: 1 },
            NetworkShape::FatTree { radix: 4, levels: 2 },
            NetworkShape::FatTree { radix: 6, levels: 3 },
            NetworkShape::Dragonfly { nodes: 2, routers: 2, links: 1, groups: 3 },
        ] {
            machine.shape = shape.clone();
            let built = u64::from(machine.topology().nodes());
            assert_eq!(Some(built), shape.nodes(), "{shape:?}");
        }
        for shape in [NetworkShape::Switch, NetworkShape::Hub, NetworkShape::Multistage] {
            machine.shape = shape;
            assert_eq!(machine.topology().nodes(), 6);
        }
    }
}
