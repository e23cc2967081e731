//! What can be wrong with a topology, and who said it.

use thiserror::Error;

/// Why a topology cannot be made or asked.
///
/// Errors about the graph as a whole are found from what all ranks told, so every rank gets the
/// same one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// A dimension has no extent.
    #[error("dimension {dimension} is 0: every dimension of a grid needs at least one rank")]
    EmptyDimension {
        /// Which, from 0.
        dimension: usize,
    },
    /// The grid is larger than the job.
    #[error("a grid of {needed} ranks does not fit the {size} there are")]
    TooManyRanks {
        /// Product of the dimensions.
        needed: u64,
        /// Ranks there are.
        size: u32,
    },
    /// As many values are needed as there are dimensions.
    #[error("{given} {what} were given for {dims} dimensions")]
    WrongCount {
        /// What was counted.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many dimensions there are.
        dims: usize,
    },
    /// There is no such dimension.
    #[error("there is no dimension {dimension}: the grid has {dims}")]
    NoSuchDimension {
        /// Which was asked for, from 0.
        dimension: usize,
        /// How many there are.
        dims: usize,
    },
    /// A coordinate lies outside a dimension that is not periodic.
    #[error("coordinate {coordinate} lies outside dimension {dimension} of {extent} ranks")]
    Outside {
        /// Which dimension, from 0.
        dimension: usize,
        /// The coordinate.
        coordinate: i64,
        /// Extent of the dimension, ranks.
        extent: u32,
    },
    /// So many ranks cannot be divided as asked.
    #[error("{ranks} ranks cannot be divided into a grid with dimensions of product {fixed}")]
    Indivisible {
        /// The ranks.
        ranks: u32,
        /// Product of the dimensions that were given.
        fixed: u64,
    },
    /// There is no such rank.
    #[error("rank {by} names rank {rank}: there are ranks 0 to {}", .size.saturating_sub(1))]
    NoSuchRank {
        /// Who named it.
        by: u32,
        /// The name.
        rank: u32,
        /// Ranks there are.
        size: u32,
    },
    /// Ranks called a collective constructor with different arguments.
    #[error("rank {rank} describes another topology than rank 0: all must give the same {what}")]
    Disagreement {
        /// The lowest rank that differs from rank 0.
        rank: u32,
        /// What differs.
        what: &'static str,
    },
    /// The ends of an edge disagree about it.
    #[error(
        "edges from rank {source_rank} to rank {destination}: rank {source_rank} lists \
         {at_source} as destinations, rank {destination} lists {at_destination} as sources"
    )]
    EdgeMismatch {
        /// Where the edges begin.
        source_rank: u32,
        /// Where they end.
        destination: u32,
        /// How many the source has listed.
        at_source: u32,
        /// How many the destination has listed.
        at_destination: u32,
    },
    /// The ends of an edge give it different weights.
    #[error(
        "edges from rank {source_rank} to rank {destination}: the two ranks give them different \
         weights"
    )]
    WeightMismatch {
        /// Where the edges begin.
        source_rank: u32,
        /// Where they end.
        destination: u32,
    },
    /// The lists of a graph do not describe one.
    #[error(
        "the index of the graph is wrong at rank {rank}: its entries must not decrease, and the \
         last must be the number of edges, {edges}"
    )]
    WrongIndex {
        /// The first entry that is wrong.
        rank: u32,
        /// How many edges there are.
        edges: usize,
    },
    /// A graph cannot carry neighbour collectives: an edge has no counterpart.
    #[error(
        "rank {from} has {there} edges to rank {to}, which has {back} back: neighbour collectives \
         on a graph need both directions"
    )]
    OneWay {
        /// Where the surplus is.
        from: u32,
        /// The other end.
        to: u32,
        /// Edges from `from` to `to`.
        there: u32,
        /// Edges back.
        back: u32,
    },
}
