//! Graphs that every rank knows completely (MPI_Graph_create, MPI 5.0 §8.5.3).
//!
//! `edges` has the neighbours of all ranks one after the other; `index[r]` is the end of those of
//! rank `r`. The standard allows one-sided lists, but a neighbour collective sends to and receives
//! from every neighbour, so it needs the same number of edges back: [`Graph::check_both_ways`].

use std::collections::BTreeMap;

use super::edges::{Edge, numbered};
use super::{Links, Topology, TopologyError};

/// A graph known to every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    index: Vec<u32>,
    edges: Vec<u32>,
    channels: u32,
}

impl Graph {
    /// The graph in which the neighbours of rank `r` are `edges[index[r - 1]..index[r]]`.
    ///
    /// # Errors
    /// The index decreases or ends elsewhere than the edges, or a neighbour does not exist.
    pub fn new(index: &[u32], edges: &[u32]) -> Result<Graph, TopologyError> {
        let size = index.len() as u32;
        let mut last = 0;
        for (rank, &end) in (0..).zip(index) {
            if end < last || end as usize > edges.len() {
                return Err(TopologyError::WrongIndex { rank, edges: edges.len() });
            }
            last = end;
        }
        if last as usize != edges.len() {
            let rank = size.saturating_sub(1);
            return Err(TopologyError::WrongIndex { rank, edges: edges.len() });
        }
        let mut graph = Graph { index: index.to_vec(), edges: edges.to_vec(), channels: 1 };
        for by in 0..size {
            if let Some(&rank) = graph.neighbours(by).iter().find(|rank| **rank >= size) {
                return Err(TopologyError::NoSuchRank { by, rank, size });
            }
            let links = graph.links(by).destinations;
            let most = links.iter().map(|link| link.channel + 1).max();
            graph.channels = graph.channels.max(most.unwrap_or(1));
        }
        Ok(graph)
    }

    /// The end of each rank's neighbours in the list of all.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The neighbours of all ranks, one rank after the other.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a rank, which is below the graph's size (MPI_Graph_neighbors).
    pub fn neighbours(&self, rank: u32) -> &[u32] {
        let at = rank as usize;
        let start = if at == 0 { 0 } else { self.index[at - 1] };
        &self.edges[start as usize..self.index[at] as usize]
    }

    /// Checks that every edge has one back, as neighbour collectives require.
    ///
    /// # Errors
    /// [`TopologyError::OneWay`] with the first pair of ranks without it.
    pub fn check_both_ways(&self) -> Result<(), TopologyError> {
        let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for from in 0..self.size() {
            for to in self.neighbours(from) {
                *pairs.entry((from, *to)).or_default() += 1;
            }
        }
        for (&(from, to), &there) in &pairs {
            let back = pairs.get(&(to, from)).copied().unwrap_or(0);
            if there != back {
                return Err(TopologyError::OneWay { from, to, there, back });
            }
        }
        Ok(())
    }
}

impl Topology for Graph {
    fn size(&self) -> u32 {
        self.index.len() as u32
    }

    fn links(&self, rank: u32) -> Links {
        let links = || numbered(self.neighbours(rank).iter().map(|rank| Edge::from(*rank)));
        Links { sources: links(), destinations: links() }
    }

    fn channels(&self) -> u32 {
        self.channels
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        assert_eq!(graph.neighbours(0), [1, 3]);
        assert_eq!(graph.neighbours(2), [3]);
        assert_eq!(graph.neighbours(3), [0, 2]);
        assert_eq!(graph.check_both_ways(), Ok(()));
        assert_eq!(graph.channels(), 1);
    }

    #[test]
    fn an_index_that_makes_no_sense_is_refused() {
        for (index, edges) in [(vec![2, 1], 2), (vec![1], 2), (vec![3, 2], 2), (vec![], 1)] {
            let error = Graph::new(&index, &vec![0; edges]).unwrap_err();
            assert!(matches!(error, TopologyError::WrongIndex { .. }), "{error}");
        }
        let error = Graph::new(&[0, 1], &[2]).unwrap_err();
        assert_eq!(error, TopologyError::NoSuchRank { by: 1, rank: 2, size: 2 });
    }

    #[test]
    fn an_edge_without_one_back_is_found() {
        let graph = Graph::new(&[2, 3], &[1, 1, 0]).unwrap();
        let error = TopologyError::OneWay { from: 0, to: 1, there: 2, back: 1 };
        assert_eq!(graph.check_both_ways(), Err(error));
        assert_eq!(graph.channels(), 2);
        let graph = Graph::new(&[0, 1], &[0]).unwrap();
        let error = TopologyError::OneWay { from: 1, to: 0, there: 1, back: 0 };
        assert_eq!(graph.check_both_ways(), Err(error));
        assert!(Graph::new(&[1], &[0]).unwrap().check_both_ways().is_ok(), "a self loop");
    }
}
