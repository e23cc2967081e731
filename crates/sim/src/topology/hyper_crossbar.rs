//! The hyper-crossbar of CP-PACS (paper 004 §2.2), of any number of dimensions and any sizes.
//!
//! Nodes form a grid. One crossbar (XB) joins every line of nodes along a dimension. At every grid
//! point an exchanger (EX) joins the node to the XBs of its lines.
//!
//! ```text
//!           XB of line y=0                      an EX, a switch of 1 + 3 ports
//!     +--------+--------+--------+
//!     |        |        |        |                     | to and from XB x
//!    EX--PU   EX--PU   EX--PU   EX--PU           PU --[EX]-- XB y
//!     |        |        |        |                     | XB z
//!    XB of    XB of    ...
//!    x=0      x=1        two of the crossbars of dimension y
//! ```
//!
//! Routing: the first dimension whose coordinates differ is corrected first, in one crossing of its
//! XB, then the next (X, Y, Z; the paper does not state the order, the digest recommends this one).
//! A message changes XBs at EXs and crosses at most as many XBs as there are dimensions. Link
//! classes: `Network(2d)` from an EX to the XB of dimension `d`, `Network(2d + 1)` from that XB to
//! an EX.
//!
//! Deadlock: order the channels as injection, to XB x, from XB x, to XB y, from XB y, ...,
//! ejection. Every route goes upward in it.

use super::{Branch, Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// A grid of nodes with a crossbar along every line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperCrossbar {
    sizes: Vec<u32>,
    nodes: u32,
}

impl HyperCrossbar {
    /// A hyper-crossbar with these sizes, the first dimension varying fastest with the node number.
    /// CP-PACS is `[8, 17, 16]`; its partition measured in paper 004 is `[4, 8, 8]`.
    pub fn new(sizes: &[u32]) -> HyperCrossbar {
        HyperCrossbar { sizes: sizes.to_vec(), nodes: sizes.iter().product() }
    }

    /// The sizes of the dimensions.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// The number of crossbars along dimension `d`: one for each line.
    pub fn crossbars(&self, d: usize) -> u32 {
        self.nodes / self.sizes[d]
    }

    /// The node number of a point of the grid.
    pub fn node_at(&self, coordinates: &[u32]) -> Node {
        let digits = self.sizes.iter().zip(coordinates).rev();
        digits.fold(0, |node, (size, coordinate)| node * size + coordinate)
    }

    /// The coordinates of a node.
    pub fn coordinates(&self, node: Node) -> Vec<u32> {
        let mut rest = node;
        self.sizes
            .iter()
            .map(|size| {
                let digit = rest % size;
                rest /= size;
                digit
            })
            .collect()
    }

    /// The link from the EX of `node` to the XB of its line along `d`. The next number is the link
    /// back.
    fn to_crossbar(&self, node: Node, d: usize) -> Link {
        2 * (self.nodes * (d as u32 + 1) + node)
    }

    fn injection(&self, node: Node) -> Link {
        2 * node
    }

    /// The crossbar of the line through `node` along `d`. It is counted after the EXs and the
    /// previous XBs.
    fn crossbar(&self, node: Node, d: usize) -> u32 {
        let before: u32 = (0..d).map(|lower| self.crossbars(lower)).sum();
        let stride: u32 = self.sizes[..d].iter().product();
        self.nodes + before + node % stride + node / (stride * self.sizes[d]) * stride
    }
}

impl Topology for HyperCrossbar {
    fn name(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        format!("hyper-crossbar {}", sizes.join(" x "))
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn links(&self) -> u32 {
        2 * self.nodes * (self.sizes.len() as u32 + 1)
    }

    fn link(&self, link: Link) -> LinkEnds {
        let (pair, back) = (link / 2, link % 2 == 1);
        let (node, layer) = (pair % self.nodes, pair / self.nodes);
        let exchanger = Vertex::Switch(node);
        let (other, out, home) = match layer.checked_sub(1) {
            None => (Vertex::Node(node), LinkClass::Ejection, LinkClass::Injection),
            Some(d) => {
                let crossbar = Vertex::Switch(self.crossbar(node, d as usize));
                let class = |back: u8| LinkClass::Network(2 * d as u8 + back);
                (crossbar, class(0), class(1))
            }
        };
        // Injection is the even link of its pair, although it leads towards the EX.
        match (layer == 0) ^ back {
            true => LinkEnds { from: other, to: exchanger, class: home },
            false => LinkEnds { from: exchanger, to: other, class: out },
        }
    }

    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
        route.push(self.injection(from));
        let (mut at, mut stride) = (from, 1);
        for (d, size) in self.sizes.iter().enumerate() {
            let (here, there) = (at / stride % size, to / stride % size);
            if here != there {
                route.push(self.to_crossbar(at, d));
                at = at - here * stride + there * stride;
                route.push(self.to_crossbar(at, d) + 1);
            }
            stride *= size;
        }
        route.push(self.injection(to) + 1);
    }

    /// Routes in dimension order from one node form a tree, and an XB or EX can feed several of its
    /// outputs at once. This is the hardware's broadcast along a line, dimension by dimension.
    fn multicast(&self, from: Node, to: &[Node]) -> Option<Vec<Branch>> {
        Some(super::by_routes(self, from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_shape;
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn cp_01_the_generator_makes_any_size() {
        for sizes in [&[1, 1, 1][..], &[2, 3, 4], &[4, 2], &[5], &[2, 2, 2, 2]] {
            check_shape(&HyperCrossbar::new(sizes));
        }
        let machine = HyperCrossbar::new(&[8, 17, 16]);
        assert_eq!(machine.nodes(), 2176);
        assert_eq!([0, 1, 2].map(|d| machine.crossbars(d)), [272, 128, 136]);
        let partition = HyperCrossbar::new(&[4, 8, 8]);
        assert_eq!([0, 1, 2].map(|d| partition.crossbars(d)), [64, 32, 32]);
        assert_eq!(partition.node_at(&partition.coordinates(201)), 201);
    }

    #[test]
    fn cp_01_every_line_has_its_own_crossbar() {
        let shape = HyperCrossbar::new(&[2, 3, 4]);
        let mut lines = BTreeMap::<u32, BTreeSet<(usize, Vec<u32>)>>::new();
        for node in 0..shape.nodes() {
            for d in 0..3 {
                let mut line = shape.coordinates(node);
                line[d] = 0;
                lines.entry(shape.crossbar(node, d)).or_default().insert((d, line));
            }
        }
        assert_eq!(lines.len(), 12 + 8 + 6);
        assert!(lines.values().all(|line| line.len() == 1), "{lines:?}");
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), (24..50).collect::<Vec<_>>());
    }

    #[test]
    fn cp_02_at_most_one_crossbar_a_dimension() {
        let shape = HyperCrossbar::new(&[4, 8, 8]);
        let hops = |to: &[u32]| shape.distance(0, shape.node_at(to));
        // Injection and ejection, and two links for each crossbar.
        assert_eq!(hops(&[0, 0, 0]), 2);
        assert_eq!([hops(&[3, 0, 0]), hops(&[0, 7, 0]), hops(&[0, 0, 1])], [4, 4, 4]);
        assert_eq!([hops(&[1, 5, 0]), hops(&[3, 7, 7])], [6, 8]);
    }

    /// The number of the pairs' routes that contain the most used channel.
    fn most_used(shape: &HyperCrossbar, pairs: impl Iterator<Item = (u32, u32)>) -> u32 {
        let (mut uses, mut route) = (BTreeMap::new(), Vec::new());
        for (from, to) in pairs {
            route.clear();
            shape.route(from, to, &mut route);
            route.iter().for_each(|&channel| *uses.entry(channel).or_insert(0) += 1);
        }
        uses.into_values().max().unwrap_or(0)
    }

    /// Whether no channel is in the routes of two of the pairs.
    fn conflict_free(shape: &HyperCrossbar, pairs: impl Iterator<Item = (u32, u32)>) -> bool {
        most_used(shape, pairs) == 1
    }

    #[test]
    fn cp_03_neighbour_exchange_has_no_conflict() {
        let shape = HyperCrossbar::new(&[4, 8, 8]);
        for d in 0..3 {
            for step in [1, shape.sizes()[d] - 1] {
                let shifted = |node: u32| {
                    let mut at = shape.coordinates(node);
                    at[d] = (at[d] + step) % shape.sizes()[d];
                    (node, shape.node_at(&at))
                };
                assert!(conflict_free(&shape, (0..256).map(shifted)), "dimension {d}, {step}");
            }
        }
    }

    #[test]
    fn cp_04_a_torus_of_another_shape_is_embedded_without_conflict() {
        // A ring of 256 nodes along a snake through the grid: neighbours differ in one coordinate.
        let shape = HyperCrossbar::new(&[4, 8, 8]);
        let snake = |place: u32| {
            let (x, y, z) = (place % 4, place / 4 % 8, place / 32);
            let y = if z % 2 == 0 { y } else { 7 - y };
            let x = if place & 4 == 0 { x } else { 3 - x };
            shape.node_at(&[x, y, z])
        };
        let ring = |step: u32| (0..256).map(move |at| (at, (at + step) % 256));
        let embedded = |step| ring(step).map(|(a, b)| (snake(a), snake(b)));
        for step in [1, 255] {
            assert!(conflict_free(&shape, embedded(step)));
        }
        // In both directions at once, a node's own link carries two messages, and no other link
        // carries more.
        assert_eq!(most_used(&shape, embedded(1).chain(embedded(255))), 2);
        // An 8 x 8 x 4 torus by exchanging the roles of dimensions, and a smaller 4 x 4 x 2 torus.
        for sizes in [[8, 8, 4], [4, 4, 2]] {
            let torus = HyperCrossbar::new(&sizes);
            let place = |node: u32| {
                let at = torus.coordinates(node);
                if sizes[0] == 8 {
                    shape.node_at(&[at[2], at[0], at[1]])
                } else {
                    shape.node_at(&at)
                }
            };
            let pairs = |d: usize, step: u32| {
                let (torus, place) = (&torus, &place);
                (0..torus.nodes()).map(move |node| {
                    let mut at = torus.coordinates(node);
                    at[d] = (at[d] + step) % sizes[d];
                    (place(node), place(torus.node_at(&at)))
                })
            };
            for d in 0..3 {
                assert!(conflict_free(&shape, pairs(d, 1)), "{sizes:?} dimension {d}");
                let both = pairs(d, 1).chain(pairs(d, sizes[d] - 1));
                assert_eq!(most_used(&shape, both), 2, "{sizes:?} dimension {d}, both ways");
            }
            let all = (0..3).flat_map(|d| pairs(d, 1).chain(pairs(d, sizes[d] - 1)));
            assert_eq!(most_used(&shape, all), 6, "{sizes:?}, all six ways");
        }
    }
}
