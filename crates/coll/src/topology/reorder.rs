//! Assigns processes to ranks of a topology so that neighbours share a node (MPI 5.0 §8.2).
//!
//! Data between nodes costs more than data within one. The measure is the *cut*: the weight of all
//! edges whose ends lie on different nodes. Minimising it is NP-hard. So a few partitions are tried
//! and the best is taken; the ranks keep their order unless that is strictly better:
//!
//! 1. the bricks of a grid ([`Topology::partitions`]);
//! 2. nodes filled one after the other, each time with the vertex most tied to the node;
//! 3. both improved by swapping pairs of vertices while that lowers the cut (Kernighan and Lin).
//!
//! All steps are deterministic, so every rank that computes the placement gets the same result.

use std::collections::BTreeMap;

use super::Topology;

/// The maximum number of ranks that are improved by swapping, which checks all pairs on the cut.
const MOST_TO_SWAP: usize = 1024;

/// Rounds of swapping; the cut seldom falls after the third.
const SWAP_ROUNDS: u32 = 4;

/// The process of every vertex of the topology. `nodes` holds the node of each process, and has as
/// many entries as the topology has ranks.
pub fn place(topology: &impl Topology, nodes: &[u32]) -> Vec<u32> {
    let size = topology.size() as usize;
    assert_eq!(size, nodes.len(), "every vertex is played by one process");
    let ties = Ties::of(topology);
    let mut best = nodes.to_vec();
    let mut least = ties.cut(&best);
    let mut candidates = vec![ties.grown(nodes)];
    candidates.extend(bricks(topology, nodes));
    for mut candidate in candidates {
        ties.improve(&mut candidate);
        let cut = ties.cut(&candidate);
        if cut < least {
            (best, least) = (candidate, cut);
        }
    }
    processes(&best, nodes)
}

/// The weight of the edges between nodes if process `placement[v]` has vertex `v`.
pub fn cut(topology: &impl Topology, nodes: &[u32], placement: &[u32]) -> u64 {
    let on: Vec<u32> = placement.iter().map(|process| nodes[*process as usize]).collect();
    Ties::of(topology).cut(&on)
}

/// The weight between each vertex and others, in both directions.
struct Ties(Vec<BTreeMap<u32, u64>>);

impl Ties {
    fn of(topology: &impl Topology) -> Ties {
        let mut ties = vec![BTreeMap::new(); topology.size() as usize];
        for vertex in 0..topology.size() {
            for link in topology.links(vertex).destinations {
                let Some(other) = link.rank.filter(|other| *other != vertex) else { continue };
                *ties[vertex as usize].entry(other).or_default() += u64::from(link.weight);
                *ties[other as usize].entry(vertex).or_default() += u64::from(link.weight);
            }
        }
        Ties(ties)
    }

    /// The weight between nodes if vertex `v` is on node `on[v]`.
    fn cut(&self, on: &[u32]) -> u64 {
        let across = |(vertex, ties): (usize, &BTreeMap<u32, u64>)| {
            let away = ties.iter().filter(|(other, _)| on[**other as usize] != on[vertex]);
            away.map(|(_, weight)| weight).sum::<u64>()
        };
        self.0.iter().enumerate().map(across).sum::<u64>() / 2
    }

    /// Fills nodes one after the other, each time with the vertex most tied to the node; of equals,
    /// the first.
    fn grown(&self, nodes: &[u32]) -> Vec<u32> {
        let mut on = vec![None; nodes.len()];
        for (node, room) in rooms(nodes) {
            let mut pull = vec![0u64; nodes.len()];
            for _ in 0..room {
                let free = (0..nodes.len()).filter(|vertex| on[*vertex].is_none());
                let chosen = free.max_by_key(|vertex| (pull[*vertex], std::cmp::Reverse(*vertex)));
                let Some(chosen) = chosen else { break };
                on[chosen] = Some(node);
                for (other, weight) in &self.0[chosen] {
                    pull[*other as usize] += weight;
                }
            }
        }
        on.into_iter().map(|node| node.unwrap_or_default()).collect()
    }

    /// Swaps pairs of vertices of different nodes while that lowers the cut.
    fn improve(&self, on: &mut [u32]) {
        if on.len() > MOST_TO_SWAP {
            return;
        }
        for _ in 0..SWAP_ROUNDS {
            let outside = |vertex: &usize| {
                self.0[*vertex].keys().any(|other| on[*other as usize] != on[*vertex])
            };
            let border: Vec<usize> = (0..on.len()).filter(outside).collect();
            let mut any = false;
            for (at, &one) in border.iter().enumerate() {
                let gain = |other: &usize| self.gain(on, one, *other);
                let best = border[at + 1..].iter().rev().max_by_key(|other| gain(other));
                if let Some(&other) = best.filter(|other| gain(other) > 0) {
                    on.swap(one, other);
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    /// How much the cut decreases if two vertices change places.
    fn gain(&self, on: &[u32], one: usize, other: usize) -> i128 {
        if on[one] == on[other] {
            return 0;
        }
        let moved = |vertex: usize, to: u32, partner: usize| {
            let ties = self.0[vertex].iter().filter(|(end, _)| **end as usize != partner);
            ties.fold(0i128, |gain, (end, weight)| {
                let node = on[*end as usize];
                gain + i128::from(*weight)
                    * (i128::from(node == to) - i128::from(node == on[vertex]))
            })
        };
        moved(one, on[other], other) + moved(other, on[one], one)
    }
}

/// Every node with its number of processes, in order.
fn rooms(nodes: &[u32]) -> BTreeMap<u32, u32> {
    let mut rooms = BTreeMap::new();
    for node in nodes {
        *rooms.entry(*node).or_default() += 1;
    }
    rooms
}

/// The topology's own partitions, if all nodes have the same number of processes.
fn bricks(topology: &impl Topology, nodes: &[u32]) -> Vec<Vec<u32>> {
    let rooms = rooms(nodes);
    let names: Vec<u32> = rooms.keys().copied().collect();
    match rooms.values().next() {
        Some(&room) if rooms.values().all(|other| *other == room) => {
            let named =
                |partition: Vec<u32>| partition.iter().map(|at| names[*at as usize]).collect();
            topology.partitions(room).into_iter().map(named).collect()
        }
        _ => Vec::new(),
    }
}

/// Assigns the vertices of each node to its processes, both in order.
fn processes(on: &[u32], nodes: &[u32]) -> Vec<u32> {
    let mut free: BTreeMap<u32, std::collections::VecDeque<u32>> = BTreeMap::new();
    for (process, node) in (0..).zip(nodes) {
        free.entry(*node).or_default().push_back(process);
    }
    let mut take = |node: &u32| {
        let next = free.get_mut(node).and_then(std::collections::VecDeque::pop_front);
        next.expect("a partition has as many vertices on a node as it has processes")
    };
    on.iter().map(&mut take).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::topology::{Cartesian, EdgeLists};

    fn in_fours(ranks: u32) -> Vec<u32> {
        (0..ranks).map(|rank| rank / 4).collect()
    }

    fn identity(ranks: u32) -> Vec<u32> {
        (0..ranks).collect()
    }

    #[test]
    fn a_grid_is_cut_into_bricks() {
        let grid = Cartesian::new(&[8, 8], &[true, true]).unwrap();
        let nodes = in_fours(64);
        let placement = place(&grid, &nodes);
        // Half rows have 10 of 16 ends outside, squares 8.
        assert_eq!(cut(&grid, &nodes, &identity(64)), 16 * 10);
        assert_eq!(cut(&grid, &nodes, &placement), 16 * 8);
    }

    #[test]
    fn ranks_stay_where_nothing_is_gained() {
        let ring = Cartesian::new(&[8], &[true]).unwrap();
        assert_eq!(place(&ring, &in_fours(8)), identity(8));
        assert_eq!(place(&ring, &[0; 8]), identity(8));
        assert_eq!(place(&ring, &identity(8)), identity(8));
        let none = EdgeLists::from_edges(5, &[]).unwrap();
        assert_eq!(place(&none, &[0, 0, 1, 1, 2]), identity(5));
    }

    #[test]
    fn heavy_edges_stay_within_nodes() {
        // 0-4, 1-5, 2-6, 3-7 heavy, neighbours light.
        let mut edges: Vec<(u32, u32, u32)> = (0..4).map(|rank| (rank, rank + 4, 100)).collect();
        edges.extend((0..7).map(|rank| (rank, rank + 1, 1)));
        let graph = EdgeLists::from_edges(8, &[edges]).unwrap();
        let nodes: Vec<u32> = (0..8).map(|rank| rank / 2).collect();
        let placement = place(&graph, &nodes);
        assert_eq!(cut(&graph, &nodes, &placement), 7);
    }

    #[test]
    fn a_node_is_filled_by_what_is_most_tied_to_it() {
        // 0 is first, 3 is tied to it most, then 2 to both; 1 and 4 remain for the second node.
        let edges = [(0, 3, 5), (3, 1, 3), (0, 2, 2), (3, 2, 2), (0, 4, 1)];
        let graph = EdgeLists::from_edges(5, &[edges.to_vec()]).unwrap();
        assert_eq!(Ties::of(&graph).grown(&[6, 6, 6, 7, 7]), [6, 7, 6, 6, 7]);
        // Of equals the first; each node starts again.
        let none = EdgeLists::from_edges(4, &[]).unwrap();
        assert_eq!(Ties::of(&none).grown(&[1, 0, 1, 0]), [0, 0, 1, 1]);
    }

    proptest! {
        #[test]
        fn a_gain_is_by_how_much_the_cut_falls(
            nodes in prop::collection::vec(0u32..3, 2..8),
            edges in prop::collection::vec((0u32..8, 0u32..8, 0u32..9), 0..30),
            (one, other) in (0usize..8, 0usize..8),
        ) {
            let size = nodes.len() as u32;
            let edges: Vec<_> =
                edges.into_iter().filter(|(from, to, _)| *from < size && *to < size).collect();
            let ties = Ties::of(&EdgeLists::from_edges(size, &[edges]).unwrap());
            let (one, other) = (one % nodes.len(), other % nodes.len());
            let mut swapped = nodes.clone();
            swapped.swap(one, other);
            let fell = i128::from(ties.cut(&nodes)) - i128::from(ties.cut(&swapped));
            prop_assert_eq!(ties.gain(&nodes, one, other), fell);
        }

        #[test]
        fn a_placement_is_a_permutation_and_never_worse(
            nodes in prop::collection::vec(0u32..4, 1..12),
            edges in prop::collection::vec((0u32..12, 0u32..12, 0u32..9), 0..40),
        ) {
            let size = nodes.len() as u32;
            let edges: Vec<_> =
                edges.into_iter().filter(|(from, to, _)| *from < size && *to < size).collect();
            let graph = EdgeLists::from_edges(size, &[edges]).unwrap();
            let placement = place(&graph, &nodes);
            let mut sorted = placement.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, identity(size));
            let kept = cut(&graph, &nodes, &identity(size));
            let placed = cut(&graph, &nodes, &placement);
            prop_assert!(placed <= kept);
            prop_assert!(placed < kept || placement == identity(size));
        }
    }
}
