//! The shape of a machine's network in its file: a name and an extent, and the costs of a link and
//! of a switch.
//!
//! ```text
//! [topology]                     [network]
//! shape = "hyper-crossbar"       model = "wormhole"
//! extent = [4, 8, 8]             link_rate = { value = "300 MB/s", source = "004 §2" }
//! ```
//!
//! Routing belongs to the shape and has no key. Each shape has the one deterministic routing that
//! `topology` implements and explains.

use super::MachineError;
use super::section::Section;
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// A shape of network with its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkShape {
    /// All nodes on one switch.
    Switch,
    /// All nodes on one shared medium.
    Hub,
    /// A crossbar along every line of every dimension, exchangers at the nodes (paper 004).
    HyperCrossbar([u32; 3]),
    /// As many stages of 4 × 4 switches as the nodes need (paper 003).
    Multistage,
    /// A torus of any number of dimensions.
    Torus(Vec<u32>),
    /// A mesh of any number of dimensions.
    Mesh(Vec<u32>),
    /// The 6-D torus and mesh of the Tofu networks: X, Y, Z, then 2 × 3 × 2 within.
    Tofu([u32; 3]),
    /// A fat tree (folded Clos) of switches with this many ports, in this many levels.
    FatTree {
        /// Ports of a switch.
        radix: u32,
        /// Levels of switches.
        levels: u32,
    },
    /// A dragonfly: nodes per router, routers per group, links from a router to other groups.
    Dragonfly {
        /// Nodes on a router (p).
        nodes: u32,
        /// Routers in a group (a).
        routers: u32,
        /// Global links of a router (h).
        links: u32,
        /// Groups (g).
        groups: u32,
    },
}

/// The model of contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentionModel {
    /// A message holds its channels until its tail has passed.
    Wormhole,
    /// Packets move from buffer to buffer as soon as their head may.
    CutThrough,
    /// No contention: latency, overhead, gap (LogGP).
    Analytic,
}

/// The costs of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCosts {
    /// The model of contention.
    pub flow: ContentionModel,
    /// The payload rate of a link.
    pub rate: Rate,
    /// The bytes of the buffer at the far end of a channel; 0 without contention.
    pub buffer: u64,
    /// The time of a packet's head through a switch, including the link behind it.
    pub hop: Time,
}

/// The maximum number of dimensions, and of nodes that a file may request.
const MOST_DIMENSIONS: usize = 8;
const MOST_NODES: u64 = 1 << 20;

impl NetworkShape {
    pub(super) fn read(section: &Section<'_>) -> Result<NetworkShape, MachineError> {
        let shape = match section.text("shape")? {
            "switch" => NetworkShape::Switch,
            "hub" => NetworkShape::Hub,
            "hyper-crossbar" => NetworkShape::HyperCrossbar(three(section)?),
            "multistage" => NetworkShape::Multistage,
            "torus" => NetworkShape::Torus(some(section)?),
            "mesh" => NetworkShape::Mesh(some(section)?),
            "tofu" => NetworkShape::Tofu(three(section)?),
            "fat-tree" => NetworkShape::FatTree {
                radix: section.whole("radix", 2..=128)?,
                levels: section.whole("levels", 1..=4)?,
            },
            "dragonfly" => NetworkShape::Dragonfly {
                nodes: section.whole("nodes", 1..=64)?,
                routers: section.whole("routers", 1..=128)?,
                links: section.whole("links", 1..=64)?,
                groups: section.whole("groups", 2..=1024)?,
            },
            other => {
                let known = "switch, hub, hyper-crossbar, multistage, torus, mesh, tofu, \
                             fat-tree, dragonfly";
                return Err(section.refuse("shape", format!("`{other}` is none of {known}")));
            }
        };
        shape.check(section)?;
        Ok(shape)
    }

    /// The number of nodes for which it has room; `None` for any number.
    pub fn nodes(&self) -> Option<u64> {
        let product =
            |extent: &[u32]| extent.iter().fold(1, |all: u64, &n| all.saturating_mul(u64::from(n)));
        match self {
            NetworkShape::Switch | NetworkShape::Hub | NetworkShape::Multistage => None,
            NetworkShape::HyperCrossbar(extent) => Some(product(extent)),
            NetworkShape::Torus(extent) | NetworkShape::Mesh(extent) => Some(product(extent)),
            NetworkShape::Tofu(extent) => Some(product(extent).saturating_mul(12)),
            NetworkShape::FatTree { radix, levels } => {
                let half = u64::from(radix / 2);
                let leaves = if *levels == 1 { u64::from(*radix) } else { 2 * half.pow(*levels) };
                Some(leaves)
            }
            NetworkShape::Dragonfly { nodes, routers, groups, .. } => {
                Some(product(&[*nodes, *routers, *groups]))
            }
        }
    }

    /// The same shape with room for this many nodes: the shortest extent doubles, trees get another
    /// level or wider switches, and dragonflies get more groups.
    pub(super) fn grown(&self, nodes: u64) -> Result<NetworkShape, String> {
        if nodes > MOST_NODES {
            return Err(format!("no machine has more than {MOST_NODES} nodes"));
        }
        let mut shape = self.clone();
        while shape.nodes().is_some_and(|room| room < nodes) {
            shape.double();
        }
        match shape.nodes() {
            Some(room) if room > MOST_NODES => Err(format!("its shape grows to {room} nodes")),
            _ => Ok(shape),
        }
    }

    /// Doubles the room, approximately.
    fn double(&mut self) {
        match self {
            NetworkShape::Switch | NetworkShape::Hub | NetworkShape::Multistage => {}
            NetworkShape::HyperCrossbar(extent) | NetworkShape::Tofu(extent) => {
                double_shortest(extent);
            }
            NetworkShape::Torus(extent) | NetworkShape::Mesh(extent) => double_shortest(extent),
            NetworkShape::FatTree { levels, .. } if *levels < 3 => *levels += 1,
            NetworkShape::FatTree { radix, .. } => *radix *= 2,
            NetworkShape::Dragonfly { routers, links, groups, .. } => {
                // Add groups while the links of a group can reach all others. Then widen the
                // groups.
                match *groups < *routers * *links + 1 {
                    true => *groups += 1,
                    false => *links += 1,
                }
            }
        }
    }

    fn check(&self, section: &Section<'_>) -> Result<(), MachineError> {
        if let NetworkShape::FatTree { radix, .. } = self
            && radix % 2 == 1
        {
            return Err(section.refuse("radix", "is odd; half the ports of a switch go up"));
        }
        if let NetworkShape::Dragonfly { routers, links, groups, .. } = self
            && u64::from(*routers) * u64::from(*links) + 1 < u64::from(*groups)
        {
            let most = u64::from(*routers) * u64::from(*links) + 1;
            let what = format!("is more than the {most} that links of one group can reach");
            return Err(section.refuse("groups", what));
        }
        match self.nodes() {
            Some(nodes) if nodes > MOST_NODES => {
                let what = format!("has {nodes} nodes, more than {MOST_NODES}");
                Err(section.refuse("shape", what))
            }
            _ => Ok(()),
        }
    }
}

impl LinkCosts {
    pub(super) fn read(section: &Section<'_>) -> Result<LinkCosts, MachineError> {
        let flow = match section.text("model")? {
            "wormhole" => ContentionModel::Wormhole,
            "cut-through" => ContentionModel::CutThrough,
            "analytic" => ContentionModel::Analytic,
            other => {
                let what = format!("`{other}` is none of wormhole, cut-through, analytic");
                return Err(section.refuse("model", what));
            }
        };
        let buffer = if flow == ContentionModel::Analytic { 0 } else { section.bytes("buffer")? };
        Ok(LinkCosts { flow, rate: section.rate("link_rate")?, buffer, hop: section.time("hop")? })
    }
}

fn double_shortest(extent: &mut [u32]) {
    if let Some(shortest) = extent.iter_mut().min() {
        *shortest *= 2;
    }
}

fn some(section: &Section<'_>) -> Result<Vec<u32>, MachineError> {
    let extent = section.extent("extent")?;
    if extent.len() > MOST_DIMENSIONS {
        let what = format!("has more than {MOST_DIMENSIONS} dimensions");
        return Err(section.refuse("extent", what));
    }
    Ok(extent)
}

fn three(section: &Section<'_>) -> Result<[u32; 3], MachineError> {
    let extent = section.extent("extent")?;
    <[u32; 3]>::try_from(extent).map_err(|_| section.refuse("extent", "is not three numbers"))
}
