//! Topologies that all ranks of a communicator agree on (MPI 5.0 §8.5).
//!
//! The ranks share their arguments before they check any of them. So a mistake of one rank is the
//! same error on all of them, and no rank is left waiting.

use hikyaku_coll::topology::{Cartesian, Edge, EdgeLists, Graph, Topology, TopologyError, place};
use hikyaku_msg::MsgError;

use crate::communicator::Communicator;
use crate::error::Error;

/// The number of words of an encoded edge.
const EDGE_WORDS: usize = 2;

/// A topology, and its members.
#[derive(Debug, Clone)]
pub struct Agreed<T> {
    /// The topology.
    pub topology: T,
    /// The rank of the communicator for each rank of the topology.
    pub members: Vec<u32>,
}

/// The properties of a distributed graph's edges that all ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edges {
    /// Whether ranks may be renumbered.
    pub reorder: bool,
    /// Whether edges have weights from the program. `None`: this rank has no edges.
    pub weighted: Option<bool>,
}

/// The number of words before the edges: [`Edges`].
const HEAD: usize = 2;

impl Edges {
    fn words(self) -> Vec<u32> {
        vec![self.reorder.into(), self.weighted.map_or(2, u32::from)]
    }

    /// Whether edges have weights, according to all ranks, if they agree.
    fn hear(shared: &[Vec<u32>]) -> Result<Option<bool>, Error> {
        let malformed = (0..).zip(shared).find(|(_, words)| words.len() < HEAD);
        if let Some((source_rank, _)) = malformed {
            return Err(MsgError::Malformed { source_rank }.into());
        }
        let differs = |what, rank: usize| TopologyError::Disagreement { rank: rank as u32, what };
        if let Some(rank) = shared.iter().position(|words| words[0] != shared[0][0]) {
            return Err(differs("choice of reordering", rank).into());
        }
        let mut weighted = None;
        for (rank, words) in shared.iter().enumerate().filter(|(_, words)| words[1] < 2) {
            if *weighted.get_or_insert(words[1]) != words[1] {
                return Err(differs("choice of weights", rank).into());
            }
        }
        Ok(weighted.map(|word| word == 1))
    }
}

impl Communicator {
    /// A grid of the first ranks. Every rank calls it.
    ///
    /// # Errors
    /// An impossible grid, more ranks than there are, or arguments that differ between ranks: the
    /// same error on every rank. Or a rank is gone.
    pub fn agree_on_grid(
        &self,
        dims: &[u32],
        periods: &[bool],
        reorder: bool,
    ) -> Result<Agreed<Cartesian>, Error> {
        let mut words = vec![reorder.into(), dims.len() as u32];
        words.extend(dims);
        words.extend(periods.iter().map(|wraps| u32::from(*wraps)));
        all_same(&self.share(&words)?, "dimensions, periods and reordering")?;
        self.placed(Cartesian::new(dims, periods)?, reorder)
    }

    /// The slices of a grid that consists of all ranks here: each rank's own slice varies only in
    /// the dimensions that are kept. Every rank calls it.
    ///
    /// # Errors
    /// The number of choices is not that of dimensions, or choices differ between ranks: the same
    /// error on every rank. Or a rank is gone.
    pub fn agree_on_slice(
        &self,
        grid: &Cartesian,
        keep: &[bool],
    ) -> Result<Agreed<Cartesian>, Error> {
        let mut words = vec![keep.len() as u32];
        words.extend(keep.iter().map(|keep| u32::from(*keep)));
        all_same(&self.share(&words)?, "dimensions to keep")?;
        let (topology, members) = grid.sub(self.rank(), keep)?;
        Ok(Agreed { topology, members })
    }

    /// A graph of the first ranks that every rank knows completely. Every rank calls it. `check`:
    /// further requirements of the front end.
    ///
    /// # Errors
    /// Lists that describe no graph, a graph that `check` rejects, too many ranks, or arguments
    /// that differ between ranks: the same error on every rank. Or a rank is gone.
    pub fn agree_on_graph(
        &self,
        index: &[u32],
        edges: &[u32],
        reorder: bool,
        check: impl FnOnce(&Graph) -> Result<(), TopologyError>,
    ) -> Result<Agreed<Graph>, Error> {
        let mut words = vec![reorder.into(), index.len() as u32];
        words.extend(index);
        words.extend(edges);
        all_same(&self.share(&words)?, "index, edges and reordering")?;
        let graph = Graph::new(index, edges)?;
        check(&graph)?;
        self.placed(graph, reorder)
    }

    /// A graph whose ranks each know their own edges; and whether these have weights, if any rank
    /// has edges. Every rank calls it.
    ///
    /// # Errors
    /// An edge leads to a rank that does not exist, or ranks disagree on the properties of edges:
    /// the same error on every rank. Or a rank is gone.
    pub fn agree_on_adjacent(
        &self,
        sources: impl ExactSizeIterator<Item = Edge>,
        destinations: impl Iterator<Item = Edge>,
        how: Edges,
    ) -> Result<(Agreed<EdgeLists>, Option<bool>), Error> {
        let mut words = how.words();
        words.push(sources.len() as u32);
        words.extend(sources.chain(destinations).flat_map(|edge| [edge.rank, edge.weight]));
        let shared = self.share(&words)?;
        let weighted = Edges::hear(&shared)?;
        let lists = (0..).zip(&shared).map(|(source_rank, words)| {
            let edge = |words: &[u32]| Edge { rank: words[0], weight: words[1] };
            let malformed = MsgError::Malformed { source_rank };
            let [_, _, count, words @ ..] = &words[..] else { return Err(malformed) };
            let edges: Vec<Edge> = words.chunks_exact(EDGE_WORDS).map(edge).collect();
            let lists = edges.split_at_checked(*count as usize).ok_or(malformed)?;
            Ok((lists.0.to_vec(), lists.1.to_vec()))
        });
        let lists = lists.collect::<Result<_, MsgError>>()?;
        Ok((self.placed(EdgeLists::from_adjacent(lists)?, how.reorder)?, weighted))
    }

    /// The same where every rank specifies any edges, as source and destination. Every rank calls
    /// it.
    ///
    /// # Errors
    /// As [`Communicator::agree_on_adjacent`].
    pub fn agree_on_edges(
        &self,
        edges: impl Iterator<Item = (u32, Edge)>,
        how: Edges,
    ) -> Result<(Agreed<EdgeLists>, Option<bool>), Error> {
        let mut words = how.words();
        words.extend(edges.flat_map(|(source, to)| [source, to.rank, to.weight]));
        let shared = self.share(&words)?;
        let weighted = Edges::hear(&shared)?;
        let edge = |words: &[u32]| (words[0], words[1], words[2]);
        let named = shared.iter().map(|words| words[HEAD..].chunks_exact(3).map(edge).collect());
        let lists = EdgeLists::from_edges(self.size(), &named.collect::<Vec<_>>())?;
        Ok((self.placed(lists, how.reorder)?, weighted))
    }

    /// Assigns ranks to those of a topology, if it fits here. Every rank gets the same result.
    ///
    /// # Errors
    /// It has more ranks than this communicator.
    pub fn placed<T: Topology>(&self, topology: T, reorder: bool) -> Result<Agreed<T>, Error> {
        let (needed, size) = (topology.size(), self.size());
        if needed > size {
            return Err(TopologyError::TooManyRanks { needed: needed.into(), size }.into());
        }
        let members = if reorder {
            let nodes: Vec<u32> = (0..needed).map(|rank| self.node_of(rank)).collect();
            place(&topology, &nodes)
        } else {
            (0..needed).collect()
        };
        Ok(Agreed { topology, members })
    }
}

/// Checks that every rank passed the same words.
///
/// # Errors
/// The first rank that differs.
pub fn all_same(shared: &[Vec<u32>], what: &'static str) -> Result<(), TopologyError> {
    match shared.iter().position(|words| *words != shared[0]) {
        Some(rank) => Err(TopologyError::Disagreement { rank: rank as u32, what }),
        None => Ok(()),
    }
}
