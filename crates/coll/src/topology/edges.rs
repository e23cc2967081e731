//! Distributed graphs (MPI 5.0 §8.5.4): each rank specifies a part of the graph.
//!
//! The parts are gathered when the communicator is made, so that every rank can place the ranks,
//! and can report a disagreement with both ranks that disagree. This costs every rank 12 bytes per
//! edge while the communicator is made; afterwards a rank keeps only its own edges.

use std::collections::BTreeMap;

use super::{Link, Links, Topology, TopologyError};

/// An edge, as specified by the rank at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The rank at the other end.
    pub rank: u32,
    /// The amount of data along it, in a unit of the program's choice (MPI 5.0 §8.5.4). Only
    /// placement uses it.
    pub weight: u32,
}

impl From<u32> for Edge {
    /// An edge of weight 1 (MPI_UNWEIGHTED).
    fn from(rank: u32) -> Edge {
        Edge { rank, weight: 1 }
    }
}

/// The edges of a directed graph, by rank. Multi-edges, self loops and isolated ranks are allowed.
///
/// [`EdgeLists::check_ends`] checks that both ranks of every pair have listed the same number of
/// edges from one to the other, as neighbour collectives require.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeLists {
    sources: Vec<Vec<Edge>>,
    destinations: Vec<Vec<Edge>>,
    channels: u32,
}

/// The weights of the edges from one rank to another, as given by the two ends.
#[derive(Default)]
struct Between {
    at_source: Vec<u32>,
    at_destination: Vec<u32>,
}

impl EdgeLists {
    /// A graph for which every rank has specified both its sources and its destinations, in rank
    /// order (MPI_Dist_graph_create_adjacent).
    ///
    /// # Errors
    /// An edge leads to a rank that does not exist.
    pub fn from_adjacent(lists: Vec<(Vec<Edge>, Vec<Edge>)>) -> Result<EdgeLists, TopologyError> {
        let size = lists.len() as u32;
        for (by, (sources, destinations)) in (0..).zip(&lists) {
            sources.iter().chain(destinations).try_for_each(|edge| check(by, edge.rank, size))?;
        }
        let (sources, destinations) = lists.into_iter().unzip();
        let mut graph = EdgeLists { sources, destinations, channels: 1 };
        let most = |between: &Between| between.at_source.len().max(between.at_destination.len());
        let channels = graph.between().values().map(most).max();
        graph.channels = channels.map_or(1, |most| most as u32);
        Ok(graph)
    }

    /// All edges, by their two ends.
    fn between(&self) -> BTreeMap<(u32, u32), Between> {
        let mut pairs: BTreeMap<(u32, u32), Between> = BTreeMap::new();
        for (by, (sources, destinations)) in (0..).zip(self.sources.iter().zip(&self.destinations))
        {
            for edge in sources {
                pairs.entry((edge.rank, by)).or_default().at_destination.push(edge.weight);
            }
            for edge in destinations {
                pairs.entry((by, edge.rank)).or_default().at_source.push(edge.weight);
            }
        }
        pairs
    }

    /// Checks that both ends of every edge have listed it, as neighbour collectives require.
    ///
    /// # Errors
    /// [`TopologyError::EdgeMismatch`] with the first pair of ranks that disagrees.
    pub fn check_ends(&self) -> Result<(), TopologyError> {
        for ((source_rank, destination), between) in self.between() {
            let at_source = between.at_source.len() as u32;
            let at_destination = between.at_destination.len() as u32;
            if at_source != at_destination {
                return Err(TopologyError::EdgeMismatch {
                    source_rank,
                    destination,
                    at_source,
                    at_destination,
                });
            }
        }
        Ok(())
    }

    /// Checks that the two ends of every edge give it the same weight.
    ///
    /// # Errors
    /// [`TopologyError::WeightMismatch`] with the first pair of ranks that disagrees.
    pub fn check_weights(&self) -> Result<(), TopologyError> {
        for ((source_rank, destination), mut between) in self.between() {
            // The order among parallel edges may differ between the ends.
            between.at_source.sort_unstable();
            between.at_destination.sort_unstable();
            if between.at_source != between.at_destination {
                return Err(TopologyError::WeightMismatch { source_rank, destination });
            }
        }
        Ok(())
    }

    /// A graph of `size` ranks for which every rank has specified any edges, in rank order, as
    /// source, destination and weight (MPI_Dist_graph_create). The edges of a rank are in the order
    /// of the ranks that specified them, and then in the order given.
    ///
    /// # Errors
    /// An edge leads from or to a rank that does not exist.
    pub fn from_edges(
        size: u32,
        named: &[Vec<(u32, u32, u32)>],
    ) -> Result<EdgeLists, TopologyError> {
        let mut lists = vec![(Vec::new(), Vec::new()); size as usize];
        for (by, edges) in (0..).zip(named) {
            for &(source, destination, weight) in edges {
                check(by, source, size)?;
                check(by, destination, size)?;
                lists[source as usize].1.push(Edge { rank: destination, weight });
                lists[destination as usize].0.push(Edge { rank: source, weight });
            }
        }
        EdgeLists::from_adjacent(lists)
    }
}

fn check(by: u32, rank: u32, size: u32) -> Result<(), TopologyError> {
    if rank < size {
        return Ok(());
    }
    Err(TopologyError::NoSuchRank { by, rank, size })
}

/// Edges as links: the k-th edge to or from a rank has channel k.
pub(super) fn numbered(edges: impl IntoIterator<Item = Edge>) -> Vec<Link> {
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    let link = |Edge { rank, weight }| {
        let next = seen.entry(rank).or_default();
        let channel = *next;
        *next += 1;
        Link { rank: Some(rank), weight, channel }
    };
    edges.into_iter().map(link).collect()
}

impl Topology for EdgeLists {
    fn size(&self) -> u32 {
        self.sources.len() as u32
    }

    fn links(&self, rank: u32) -> Links {
        Links {
            sources: numbered(self.sources[rank as usize].iter().copied()),
            destinations: numbered(self.destinations[rank as usize].iter().copied()),
        }
    }

    fn channels(&self) -> u32 {
        self.channels
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn edges(ranks: &[u32]) -> Vec<Edge> {
        ranks.iter().map(|rank| Edge::from(*rank)).collect()
    }

    #[test]
    fn tf_13_parallel_edges_self_loops_and_isolated_ranks() {
        // 0 twice to 1, 1 to itself, 2 alone.
        let lists = vec![
            (edges(&[]), edges(&[1, 1])),
            (edges(&[0, 1, 0]), edges(&[1])),
            (edges(&[]), edges(&[])),
        ];
        let graph = EdgeLists::from_adjacent(lists).unwrap();
        let channels = |links: Vec<Link>| {
            links.iter().map(|link| (link.rank.unwrap(), link.channel)).collect::<Vec<_>>()
        };
        assert_eq!(channels(graph.links(0).destinations), [(1, 0), (1, 1)]);
        assert_eq!(channels(graph.links(1).sources), [(0, 0), (1, 0), (0, 1)]);
        assert_eq!(graph.links(2), Links::default());
        assert_eq!((graph.size(), graph.channels()), (3, 2));
    }

    #[test]
    fn disagreement_names_both_ends_and_what_each_said() {
        let lists = vec![(edges(&[]), edges(&[1, 1])), (edges(&[0]), edges(&[]))];
        let error = EdgeLists::from_adjacent(lists).unwrap().check_ends().unwrap_err();
        assert_eq!(
            error.to_string(),
            "edges from rank 0 to rank 1: rank 0 lists 2 as destinations, rank 1 lists 1 as sources"
        );
        let lists = vec![(edges(&[1]), edges(&[])), (edges(&[]), edges(&[]))];
        let at_destination = TopologyError::EdgeMismatch {
            source_rank: 1,
            destination: 0,
            at_source: 0,
            at_destination: 1,
        };
        assert_eq!(EdgeLists::from_adjacent(lists).unwrap().check_ends(), Err(at_destination));
        let lists = vec![(edges(&[7]), edges(&[]))];
        let error = EdgeLists::from_adjacent(lists).unwrap_err();
        assert_eq!(error, TopologyError::NoSuchRank { by: 0, rank: 7, size: 1 });
    }

    #[test]
    fn weights_must_agree_in_any_order() {
        let weighted = |weights: &[u32], rank| {
            weights.iter().map(|weight| Edge { rank, weight: *weight }).collect::<Vec<_>>()
        };
        let lists = |a: &[u32], b: &[u32]| vec![(vec![], weighted(a, 1)), (weighted(b, 0), vec![])];
        let check = |lists| EdgeLists::from_adjacent(lists).unwrap().check_weights();
        assert_eq!(check(lists(&[3, 5], &[5, 3])), Ok(()));
        let error = TopologyError::WeightMismatch { source_rank: 0, destination: 1 };
        assert_eq!(check(lists(&[3, 5], &[5, 5])), Err(error));
    }

    proptest! {
        /// Both ends of each edge have the same channel, whichever rank specifies it.
        #[test]
        fn tf_13_named_edges_have_two_ends(
            size in 1u32..8,
            named in prop::collection::vec(
                prop::collection::vec((0u32..8, 0u32..8, 0u32..4), 0..9), 0..8,
            ),
        ) {
            let graph = EdgeLists::from_edges(size, &named);
            if named.iter().flatten().any(|(from, to, _)| *from >= size || *to >= size) {
                prop_assert!(graph.is_err());
                return Ok(());
            }
            let graph = graph.unwrap();
            let mut ends = 0;
            for rank in 0..size {
                let links = graph.links(rank);
                ends += links.sources.len();
                for out in &links.destinations {
                    let there = graph.links(out.rank.unwrap()).sources;
                    let same = |end: &&Link| (end.rank, end.channel) == (Some(rank), out.channel);
                    prop_assert_eq!(there.iter().filter(same).count(), 1);
                }
            }
            prop_assert_eq!(ends, named.iter().map(Vec::len).sum::<usize>());
        }
    }
}
