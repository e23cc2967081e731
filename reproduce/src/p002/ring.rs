//! A ring through all nodes of a Tofu machine in which neighbours are adjacent (paper 002 §5).
//!
//! ```text
//!   up one column, down the next:      x2   2---3   8---9
//!   an even number of columns          x1   1   4   7   10
//!   leads back to the start            x0   0   5---6   11 ...and back to 0
//! ```
//!
//! Tofu's cells have an A and a C of two, whose four corners are a ring; along B, and then along
//! X, Y and Z, each ring is drawn out as above.

use hikyaku_sim::topology::Node;

/// Nodes in the order of the ring, for cells of X by Y by Z.
pub(super) fn ring([x, y, z]: [u32; 3]) -> Vec<Node> {
    // Strides of X, Y, Z, A, B, C: the first varies fastest.
    let cells = x * y * z;
    let (a, b, c) = (cells, 2 * cells, 6 * cells);
    let corners = vec![0, a, a + c, c];
    let dimensions = [(3, b), (x, 1), (y, x), (z, x * y)];
    dimensions.into_iter().fold(corners, |ring, (size, stride)| draw_out(&ring, size, stride))
}

/// Nodes of one cell as a plane whose lines are closed: its four corners by its three along B. On
/// every side of a node lies an adjacent one.
pub(super) fn plane([x, y, z]: [u32; 3]) -> [[Node; 3]; 4] {
    let cells = x * y * z;
    let (a, b, c) = (cells, 2 * cells, 6 * cells);
    [0, a, a + c, c].map(|corner| [corner, corner + b, corner + 2 * b])
}

/// The ring with each of its nodes replaced by a line of `size`, walked up and down in turn.
fn draw_out(ring: &[Node], size: u32, stride: u32) -> Vec<Node> {
    let line = |(index, &node): (usize, &Node)| {
        let up = (0..size).map(move |step| node + step * stride);
        let walk: Vec<Node> = if index % 2 == 0 { up.collect() } else { up.rev().collect() };
        walk
    };
    ring.iter().enumerate().flat_map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hikyaku_sim::topology::{Grid, Topology};

    use super::*;

    #[test]
    fn all_four_neighbours_on_the_plane_are_adjacent_nodes() {
        let (plane, grid) = (plane([3, 1, 1]), Grid::tofu(3, 1, 1));
        for corner in 0..4 {
            for along in 0..3 {
                let node = plane[corner][along];
                for next in [plane[(corner + 1) % 4][along], plane[corner][(along + 1) % 3]] {
                    assert_eq!((grid.distance(node, next), grid.distance(next, node)), (3, 3));
                }
            }
        }
    }

    #[test]
    fn neighbours_on_the_ring_are_adjacent_nodes_and_all_nodes_are_on_it() {
        for extent in [[3, 1, 1], [2, 1, 1], [2, 3, 2]] {
            let ring = ring(extent);
            let grid = Grid::tofu(extent[0], extent[1], extent[2]);
            assert_eq!(ring.iter().collect::<BTreeSet<_>>().len(), grid.nodes() as usize);
            assert_eq!(ring.len(), grid.nodes() as usize);
            for (at, &node) in ring.iter().enumerate() {
                let next = ring[(at + 1) % ring.len()];
                // Injection, one hop, ejection.
                assert_eq!(grid.distance(node, next), 3, "{node} -> {next}");
            }
        }
    }
}
