//! Meshes and tori of any number of dimensions, among them Tofu's 6-D torus/mesh.
//!
//! ```text
//!   +->(0)<->(1)<->(2)<->(3)<-+     a wrapped dimension is a ring,
//!   +-------------------------+     an open one a line
//! ```
//!
//! There is a router at every node, with two wires to each neighbour. Routing: dimension by
//! dimension, in order, and the shorter path round a ring. If both paths are equally long, nodes
//! with an even coordinate go up and the others down, so that both directions are used. Link
//! classes: `Network(d)` along dimension `d`.
//!
//! Node and router are joined by one wire each way. If several engines of a node use its router at
//! once ([`Grid::with_own_ways`]), the node has a wire to each outgoing wire of the router, and one
//! from each incoming wire. Then packets wait at a router only for wires between routers.
//!
//! Deadlock: dimensions are taken in order, so only one ring could close a cycle. Every wire has
//! two channels. Messages start a dimension on channel 0. They take channel 1 on the wire that
//! wraps and after it (Dally and Seitz' dateline). Channel 0 is never used on the wire that wraps.
//! Channel 1 is never used on the whole ring, since a shortest path wraps at most once.

use super::{Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// One dimension of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimension {
    /// The number of nodes along it.
    pub size: u32,
    /// Whether its ends are joined.
    pub wraps: bool,
}

/// A torus, a mesh, or a mixture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    nodes: u32,
    /// The number of wires from a node to its router. There are as many back.
    ways: u32,
}

impl Grid {
    /// A grid with these dimensions, the first varying fastest with the node number.
    pub fn new(dimensions: &[Dimension]) -> Grid {
        let nodes = dimensions.iter().map(|dimension| dimension.size).product();
        Grid { dimensions: dimensions.to_vec(), nodes, ways: 1 }
    }

    /// The same grid, with a wire between node and router for each of the router's wires, and one
    /// for messages of a node to itself.
    #[must_use]
    pub fn with_own_ways(self) -> Grid {
        let ways = 2 * self.dimensions.len() as u32 + 1;
        Grid { ways, ..self }
    }

    /// A torus with these sizes.
    pub fn torus(sizes: &[u32]) -> Grid {
        Grid::uniform(sizes, true)
    }

    /// A mesh with these sizes.
    pub fn mesh(sizes: &[u32]) -> Grid {
        Grid::uniform(sizes, false)
    }

    /// Tofu's network of `x` by `y` by `z` cells of 12 nodes. X, Y and Z are rings. Within a cell A
    /// and C are lines of two and B is a ring of three (Ajima et al., IEEE Computer 42-11, 2009).
    pub fn tofu(x: u32, y: u32, z: u32) -> Grid {
        let of = |(size, wraps)| Dimension { size, wraps };
        let cells = [(x, true), (y, true), (z, true), (2, false), (3, true), (2, false)];
        Grid::new(&cells.map(of))
    }

    fn uniform(sizes: &[u32], wraps: bool) -> Grid {
        let dimensions: Vec<Dimension> =
            sizes.iter().map(|&size| Dimension { size, wraps }).collect();
        Grid::new(&dimensions)
    }

    /// The dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The neighbour of a node along a dimension, up or down, if any.
    pub fn neighbour(&self, node: Node, d: usize, up: bool) -> Option<Node> {
        let Dimension { size, wraps } = self.dimensions[d];
        let stride: u32 = self.dimensions[..d].iter().map(|dimension| dimension.size).product();
        let at = node / stride % size;
        let ends = if up { at + 1 == size } else { at == 0 };
        if ends && !wraps {
            return None;
        }
        let next = if up { (at + 1) % size } else { (at + size - 1) % size };
        Some(node - at * stride + next * stride)
    }

    /// The number of wires that start at a node: injection, ejection, and two for each dimension.
    fn wires(&self) -> u32 {
        2 * self.ways + 2 * self.dimensions.len() as u32
    }

    fn wire(&self, node: Node, d: usize, up: bool) -> Link {
        node * self.wires() + 2 * self.ways + 2 * d as u32 + u32::from(!up)
    }

    /// The path between a node and its router that belongs to a channel between routers. The last
    /// path if there is no such channel.
    fn way(&self, channel: Option<Channel>) -> u32 {
        let along = channel.map(|channel| channel / 2 % self.wires() - 2 * self.ways);
        along.unwrap_or(self.ways - 1).min(self.ways - 1)
    }
}

impl Topology for Grid {
    fn name(&self) -> String {
        let sizes: Vec<String> = self.dimensions.iter().map(|d| d.size.to_string()).collect();
        let kind = match self.dimensions.iter().filter(|d| d.wraps).count() {
            0 => "mesh",
            all if all == self.dimensions.len() => "torus",
            _ => "torus/mesh",
        };
        format!("{kind} {}", sizes.join(" x "))
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn links(&self) -> u32 {
        self.nodes * self.wires()
    }

    fn channels(&self) -> u32 {
        2 * self.links()
    }

    fn link_of(&self, channel: Channel) -> Link {
        channel / 2
    }

    /// Wires beyond the edge of an open dimension exist only as numbers. They lead back to their
    /// start, and no route takes them.
    fn link(&self, link: Link) -> LinkEnds {
        let (node, wire) = (link / self.wires(), link % self.wires());
        let router = Vertex::Switch(node);
        let Some(along) = wire.checked_sub(2 * self.ways) else {
            let node = Vertex::Node(node);
            return match wire < self.ways {
                true => LinkEnds { from: node, to: router, class: LinkClass::Injection },
                false => LinkEnds { from: router, to: node, class: LinkClass::Ejection },
            };
        };
        let d = along as usize / 2;
        let to = self.neighbour(node, d, along % 2 == 0).unwrap_or(node);
        LinkEnds { from: router, to: Vertex::Switch(to), class: LinkClass::Network(d as u8) }
    }

    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
        let start = route.len();
        route.push(2 * from * self.wires());
        let (mut at, mut stride) = (from, 1);
        for (d, &Dimension { size, wraps }) in self.dimensions.iter().enumerate() {
            let (mut here, there) = (at / stride % size, to / stride % size);
            let upward = (there + size - here) % size;
            let up = match wraps {
                false => there > here,
                true if 2 * upward == size => here % 2 == 0,
                true => 2 * upward < size,
            };
            let mut wrapped = 0;
            while here != there {
                let next = if up { (here + 1) % size } else { (here + size - 1) % size };
                wrapped |= u32::from(if up { next == 0 } else { here == 0 });
                route.push(2 * self.wire(at, d, up) + wrapped);
                at = at - here * stride + next * stride;
                here = next;
            }
            stride *= size;
        }
        let between = &route[start + 1..];
        let (first, last) = (self.way(between.first().copied()), self.way(between.last().copied()));
        route[start] += 2 * first;
        route.push(2 * (to * self.wires() + self.ways + last));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_shape;
    use super::*;

    #[test]
    fn shapes_of_all_kinds_are_sound() {
        for sizes in [&[1][..], &[2], &[5], &[4, 4], &[3, 2, 4], &[2, 2, 2, 2]] {
            check_shape(&Grid::torus(sizes));
            check_shape(&Grid::mesh(sizes));
        }
        check_shape(&Grid::tofu(2, 3, 1));
        check_shape(&Grid::tofu(2, 3, 1).with_own_ways());
        check_shape(&Grid::mesh(&[3, 2]).with_own_ways());
    }

    #[test]
    fn own_ways_are_shared_by_one_wire_only() {
        let grid = Grid::torus(&[4, 4]).with_own_ways();
        let ends = |from, to| {
            let mut route = Vec::new();
            grid.route(from, to, &mut route);
            (route[0], route[route.len() - 1])
        };
        // Right, left, down, up, and to itself: five paths out of node 0.
        let out = [1, 3, 4, 12, 0].map(|to| ends(0, to).0);
        let mut apart = out;
        apart.sort_unstable();
        assert!(apart.windows(2).all(|pair| pair[0] != pair[1]), "{out:?}");
        // Node 5 lies behind the same first wire as node 1. Into node 0 the last wire decides.
        assert_eq!(ends(0, 5).0, out[0]);
        assert_eq!(ends(5, 0).1, ends(4, 0).1);
        assert_ne!(ends(1, 0).1, ends(4, 0).1);
    }

    #[test]
    fn distances_by_hand() {
        // Injection, ejection, and the steps between.
        let torus = Grid::torus(&[8, 8]);
        assert_eq!([0, 1, 4, 7].map(|to| torus.distance(0, to)), [2, 3, 6, 3]);
        assert_eq!(torus.distance(0, 4 * 8 + 4), 2 + 8);
        let mesh = Grid::mesh(&[8, 8]);
        assert_eq!([7, 63].map(|to| mesh.distance(0, to)), [9, 16]);
        let tofu = Grid::tofu(3, 3, 3);
        assert_eq!(tofu.nodes(), 324);
        // One step in each of the six dimensions.
        assert_eq!(tofu.distance(0, 1 + 3 + 9 + 27 + 54 + 162), 2 + 6);
    }

    #[test]
    fn ties_use_both_directions() {
        let ring = Grid::torus(&[4]);
        let second = |from, to| {
            let mut route = Vec::new();
            ring.route(from, to, &mut route);
            ring.link(ring.link_of(route[1])).to
        };
        assert_eq!(second(0, 2), Vertex::Switch(1));
        assert_eq!(second(1, 3), Vertex::Switch(0));
    }

    #[test]
    fn an_open_edge_has_no_neighbour() {
        let mesh = Grid::mesh(&[3, 3]);
        assert_eq!([mesh.neighbour(2, 0, true), mesh.neighbour(2, 1, false)], [None, None]);
        assert_eq!([mesh.neighbour(2, 0, false), mesh.neighbour(2, 1, true)], [Some(1), Some(5)]);
        let torus = Grid::torus(&[3, 3]);
        assert_eq!([torus.neighbour(2, 0, true), torus.neighbour(2, 1, false)], [Some(0), Some(8)]);
    }

    #[test]
    fn names_tell_the_kind() {
        assert_eq!(Grid::torus(&[4, 4]).name(), "torus 4 x 4");
        assert_eq!(Grid::mesh(&[2, 3]).name(), "mesh 2 x 3");
        assert_eq!(Grid::tofu(1, 2, 3).name(), "torus/mesh 1 x 2 x 3 x 2 x 3 x 2");
    }
}
