//! A picture of a machine's network: vertices on a plane and the wires between them.
//!
//! Small networks are drawn whole. Of a large network the picture shows a typical part: the same
//! shape with a few nodes per side, or one group.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::TAU;
use std::rc::Rc;

use super::{Machine, NetworkShape};
use crate::topology::{LinkEnds, Topology, Vertex};

/// A network with more nodes is drawn in part only.
const MOST_NODES: u32 = 64;

/// A vertex of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Spot {
    /// The horizontal position: 0 is left, 1 is right.
    pub x: f64,
    /// The vertical position: 0 is the top, 1 is the bottom.
    pub y: f64,
    /// The number of the node; `None` for a switch.
    pub node: Option<u32>,
}

/// A network as a drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkPicture {
    /// The title, in words.
    pub title: String,
    /// Nodes and switches.
    pub spots: Vec<Spot>,
    /// Wires, as pairs of indices into `spots`. Both directions are one wire.
    pub wires: Vec<(usize, usize)>,
}

impl Machine {
    /// A drawing of the network, or of a part of it.
    pub fn picture(&self) -> NetworkPicture {
        let (shape, nodes) = match self.nodes > MOST_NODES {
            true => part_of(&self.shape),
            false => (self.shape.clone(), self.nodes),
        };
        let drawn = Machine { shape: shape.clone(), nodes, ..self.clone() }.topology();
        let title = match shape == self.shape && nodes == self.nodes {
            true => drawn.name(),
            false => format!("a part of {}: {}", self.topology().name(), drawn.name()),
        };
        let places = match &shape {
            NetworkShape::Switch | NetworkShape::Hub => star(nodes),
            NetworkShape::HyperCrossbar(extent) => grid(extent),
            NetworkShape::Torus(extent) | NetworkShape::Mesh(extent) => grid(extent),
            NetworkShape::Tofu([x, y, z]) => grid(&[*x, *y, *z, 2, 3, 2]),
            NetworkShape::Dragonfly { nodes, routers, groups, .. } => {
                rings(*nodes, *routers, *groups)
            }
            NetworkShape::Multistage | NetworkShape::FatTree { .. } => BTreeMap::new(),
        };
        let apart = shape == NetworkShape::Multistage;
        let layered = places.is_empty();
        let places = if layered { layers(&drawn, apart) } else { settle(&drawn, places) };
        let upright = matches!(shape, NetworkShape::FatTree { .. });
        compose(title, &scale(places, upright), links(&drawn, apart))
    }
}

/// A small network of the same shape.
fn part_of(shape: &NetworkShape) -> (NetworkShape, u32) {
    let few = |extent: &[u32], most: u32| -> Vec<u32> {
        extent.iter().map(|&size| size.min(most)).collect()
    };
    let count = |extent: &[u32]| extent.iter().product();
    match shape {
        NetworkShape::Switch | NetworkShape::Hub | NetworkShape::Multistage => (shape.clone(), 16),
        NetworkShape::HyperCrossbar(extent) => {
            let small = few(extent, 3);
            (NetworkShape::HyperCrossbar([small[0], small[1], small[2]]), count(&small))
        }
        NetworkShape::Torus(extent) => {
            let small = few(extent, if extent.len() > 3 { 2 } else { 4 });
            (NetworkShape::Torus(small.clone()), count(&small))
        }
        NetworkShape::Mesh(extent) => {
            let small = few(extent, if extent.len() > 3 { 2 } else { 4 });
            (NetworkShape::Mesh(small.clone()), count(&small))
        }
        NetworkShape::Tofu(_) => (NetworkShape::Tofu([2, 1, 1]), 24),
        NetworkShape::FatTree { levels, .. } => {
            let small = NetworkShape::FatTree { radix: 4, levels: (*levels).min(3) };
            let nodes = small.nodes().unwrap_or(4) as u32;
            (small, nodes)
        }
        NetworkShape::Dragonfly { .. } => {
            let small = NetworkShape::Dragonfly { nodes: 2, routers: 4, links: 1, groups: 5 };
            (small, 40)
        }
    }
}

type Places = BTreeMap<Vertex, (f64, f64)>;

/// Nodes around one switch.
fn star(nodes: u32) -> Places {
    let place = |node| {
        let angle = TAU * f64::from(node) / f64::from(nodes);
        (Vertex::Node(node), (angle.sin(), -angle.cos()))
    };
    (0..nodes).map(place).collect()
}

/// Nodes on a grid: even dimensions go right, odd ones down, each with wider steps than the
/// previous ones. Further dimensions are also shifted slightly sideways. Lines of three or more
/// nodes are curved, so that a wire from the last node to the first is visible beside the others.
fn grid(extent: &[u32]) -> Places {
    let nodes = extent.iter().product();
    let place = |node: u32| {
        let (mut rest, mut steps) = (node, [1.0, 1.0]);
        let mut at = [0.0, 0.0];
        for (dimension, &size) in extent.iter().enumerate() {
            let (axis, coordinate) = (dimension % 2, f64::from(rest % size));
            at[axis] += coordinate * steps[axis];
            let bow = coordinate * (f64::from(size) - 1.0 - coordinate);
            at[1 - axis] -= 0.12 * f64::sqrt(steps[axis]) * bow;
            at[1 - axis] += if dimension >= 2 { 0.25 * coordinate } else { 0.0 };
            steps[axis] *= f64::from(size) + 0.8;
            rest /= size;
        }
        (Vertex::Node(node), (at[0], at[1]))
    };
    (0..nodes).map(place).collect()
}

/// Groups on a circle, their routers on small circles, and the nodes outside.
fn rings(nodes: u32, routers: u32, groups: u32) -> Places {
    let mut places = Places::new();
    for router in 0..routers * groups {
        let part = |index: u32, of: u32| TAU * f64::from(index) / f64::from(of);
        let (group, member) = (part(router / routers, groups), part(router % routers, routers));
        let (x, y) = (5.0 * group.sin(), -5.0 * group.cos());
        let (right, down) = ((group + member).sin(), -(group + member).cos());
        places.insert(Vertex::Switch(router), (x + right, y + down));
        for node in 0..nodes {
            let aside = 0.35 * (f64::from(node) - f64::from(nodes - 1) / 2.0);
            let at = (x + 1.5 * right - aside * down, y + 1.5 * down + aside * right);
            places.insert(Vertex::Node(router * nodes + node), at);
        }
    }
    places
}

/// Every link of a topology between two places, with its two ends. `apart`: nodes send into the
/// first stage and receive from the last, and the receiving side is drawn separately.
fn links(topology: &Rc<dyn Topology>, apart: bool) -> impl Iterator<Item = LinkEnds> {
    let ends = (0..topology.links()).map(|link| topology.link(link));
    ends.filter(|ends| ends.from != ends.to).map(move |ends| match ends.to {
        Vertex::Node(node) if apart => LinkEnds { to: Vertex::Switch(RECEIVER | node), ..ends },
        _ => ends,
    })
}

/// The receiving side of a node, as a switch number that no network uses.
const RECEIVER: u32 = 1 << 31;

/// Stages from the sending nodes on, each a column. Within a column in the order of numbers.
fn layers(topology: &Rc<dyn Topology>, apart: bool) -> Places {
    let mut depth: BTreeMap<Vertex, u32> =
        (0..topology.nodes()).map(|node| (Vertex::Node(node), 0)).collect();
    loop {
        let before = depth.len();
        for LinkEnds { from, to, .. } in links(topology, apart) {
            if let Some(&level) = depth.get(&from) {
                depth.entry(to).or_insert(level + 1);
            }
        }
        if depth.len() == before {
            break;
        }
    }
    let mut counts = BTreeMap::<u32, f64>::new();
    depth.values().for_each(|&level| *counts.entry(level).or_default() += 1.0);
    let mut next = BTreeMap::<u32, f64>::new();
    let place = |(vertex, level): (Vertex, u32)| {
        let index = next.entry(level).or_default();
        *index += 1.0;
        (vertex, (f64::from(level), (*index - 0.5) / counts[&level]))
    };
    depth.into_iter().map(place).collect()
}

/// Places switches near their neighbours: a node's own router on the node, a crossbar in the middle
/// of its line and slightly sideways.
fn settle(topology: &Rc<dyn Topology>, mut places: Places) -> Places {
    for _ in 0..2 {
        let mut around = BTreeMap::<Vertex, BTreeSet<Vertex>>::new();
        for LinkEnds { from, to, .. } in links(topology, false) {
            if places.contains_key(&from) && !places.contains_key(&to) {
                around.entry(to).or_default().insert(from);
            }
        }
        let settled: Vec<(Vertex, (f64, f64))> = around
            .into_iter()
            .map(|(vertex, near)| (vertex, beside(near.iter().map(|vertex| places[vertex]))))
            .collect();
        places.extend(settled);
    }
    places
}

/// The centre of some places, shifted slightly: below the places of a horizontal line, right of a
/// vertical one, above a slanting one. The centre of one place is the place itself.
fn beside(places: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let all: Vec<(f64, f64)> = places.collect();
    let span = |pick: fn(&(f64, f64)) -> f64| {
        let values = || all.iter().map(pick);
        values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)
    };
    let sum = all.iter().fold((0.0, 0.0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
    let (x, y) = (sum.0 / all.len() as f64, sum.1 / all.len() as f64);
    match (span(|at| at.0), span(|at| at.1)) {
        _ if all.len() == 1 => (x, y),
        (wide, high) if high > 2.0 * wide => (x + 0.4, y + 0.1),
        (wide, _) if wide < 3.5 => (x, y + 0.45),
        _ => (x - 0.15, y - 0.4),
    }
}

/// Scales to the unit square. An upright drawing grows from the bottom.
fn scale(mut places: Places, upright: bool) -> Places {
    let ends = |pick: fn(&(f64, f64)) -> f64| {
        let values = || places.values().map(pick);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        (low, if high > low { high - low } else { 1.0 })
    };
    let ((left, width), (top, height)) = (ends(|at| at.0), ends(|at| at.1));
    for at in places.values_mut() {
        let (x, y) = ((at.0 - left) / width, (at.1 - top) / height);
        *at = if upright { (y, 1.0 - x) } else { (x, y) };
    }
    places
}

/// Merges places that coincide: a node and its router.
fn compose(
    title: String,
    places: &Places,
    links: impl Iterator<Item = LinkEnds>,
) -> NetworkPicture {
    let mut spots: Vec<Spot> = Vec::new();
    let mut numbers = BTreeMap::new();
    for (vertex, &(x, y)) in places {
        let node = match *vertex {
            Vertex::Node(node) => Some(node),
            Vertex::Switch(number) => (number >= RECEIVER).then_some(number & !RECEIVER),
        };
        let same = |spot: &Spot| (spot.x - x).abs() + (spot.y - y).abs() < 1e-9;
        let number = spots.iter().position(same).unwrap_or_else(|| {
            spots.push(Spot { x, y, node });
            spots.len() - 1
        });
        numbers.insert(*vertex, number);
    }
    let wire = |ends: LinkEnds| {
        let (from, to) = (*numbers.get(&ends.from)?, *numbers.get(&ends.to)?);
        (from != to).then_some((from.min(to), from.max(to)))
    };
    let wires: BTreeSet<(usize, usize)> = links.filter_map(wire).collect();
    NetworkPicture { title, spots, wires: wires.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(text: &str) -> NetworkPicture {
        Machine::parse("m.toml", text).unwrap().picture()
    }

    #[test]
    fn small_networks_are_drawn_whole_and_large_ones_in_part() {
        let whole = picture(include_str!("../../../../machines/fx100-tofu2.toml"));
        assert!(whole.title.starts_with("torus/mesh"), "{}", whole.title);
        let nodes = |picture: &NetworkPicture| {
            picture.spots.iter().filter(|spot| spot.node.is_some()).count()
        };
        assert_eq!(nodes(&whole), 36);
        let part = picture(include_str!("../../../../machines/cp-pacs.toml"));
        assert!(part.title.starts_with("a part of hyper-crossbar 4 x 8 x 8"), "{}", part.title);
        assert_eq!(nodes(&part), 27);
    }

    #[test]
    fn every_machine_has_a_connected_picture_within_its_frame() {
        for text in [
            include_str!("../../../../machines/dimmnet1.toml"),
            include_str!("../../../../machines/dimmnet2.toml"),
            include_str!("../../../../machines/fx100-tofu2.toml"),
            include_str!("../../../../machines/cenju4.toml"),
            include_str!("../../../../machines/cp-pacs.toml"),
            include_str!("../../../../machines/fat-tree-200g.toml"),
            include_str!("../../../../machines/dragonfly-200g.toml"),
            include_str!("../../../../machines/ethernet-100.toml"),
        ] {
            let NetworkPicture { title, spots, wires } = picture(text);
            let inside = |value: f64| (0.0..=1.0).contains(&value);
            assert!(spots.iter().all(|spot| inside(spot.x) && inside(spot.y)), "{title}");
            let mut reached = BTreeSet::from([0]);
            for _ in 0..spots.len() {
                for &(from, to) in &wires {
                    if reached.contains(&from) || reached.contains(&to) {
                        reached.extend([from, to]);
                    }
                }
            }
            assert_eq!(reached.len(), spots.len(), "{title}");
        }
    }
}
