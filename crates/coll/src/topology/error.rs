//! Errors of topologies, with the rank that caused them.

use thiserror::Error;

/// Why a topology cannot be made or queried.
///
/// Errors about the graph as a whole are computed from the contributions of all ranks, so every
/// rank returns the same error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// A dimension has no extent.
    #[error("dimension {dimension} is 0: every dimension of a grid needs at least one rank")]
    EmptyDimension {
        /// The dimension, from 0.
        dimension: usize,
    },
    /// The grid is larger than the job.
    #[error("a grid of {needed} ranks does not fit the {size} there are")]
    TooManyRanks {
        /// The product of the dimensions.
        needed: u64,
        /// The number of ranks in the job.
        size: u32,
    },
    /// The number of values is not the number of dimensions.
    #[error("{given} {what} were given for {dims} dimensions")]
    WrongCount {
        /// The kind of value.
        what: &'static str,
        /// The number of given values.
        given: usize,
        /// The number of dimensions.
        dims: usize,
    },
    /// There is no such dimension.
    #[error("there is no dimension {dimension}: the grid has {dims}")]
    NoSuchDimension {
        /// The requested dimension, from 0.
        dimension: usize,
        /// The number of dimensions.
        dims: usize,
    },
    /// A coordinate lies outside a dimension that is not periodic.
    #[error("coordinate {coordinate} lies outside dimension {dimension} of {extent} ranks")]
    Outside {
        /// The dimension, from 0.
        dimension: usize,
        /// The coordinate.
        coordinate: i64,
        /// The extent of the dimension, in ranks.
        extent: u32,
    },
    /// The number of ranks cannot be divided as requested.
    #[error("{ranks} ranks cannot be divided into a grid with dimensions of product {fixed}")]
    Indivisible {
        /// The number of ranks.
        ranks: u32,
        /// The product of the given dimensions.
        fixed: u64,
    },
    /// There is no such rank.
    #[error("rank {by} names rank {rank}: there are ranks 0 to {}", .size.saturating_sub(1))]
    NoSuchRank {
        /// The rank that specified it.
        by: u32,
        /// The rank that does not exist.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// Ranks called a collective constructor with different arguments.
    #[error("rank {rank} describes another topology than rank 0: all must give the same {what}")]
    Disagreement {
        /// The lowest rank that differs from rank 0.
        rank: u32,
        /// The argument that differs.
        what: &'static str,
    },
    /// The ends of an edge disagree about it.
    #[error(
        "edges from rank {source_rank} to rank {destination}: rank {source_rank} lists \
         {at_source} as destinations, rank {destination} lists {at_destination} as sources"
    )]
    EdgeMismatch {
        /// The source of the edges.
        source_rank: u32,
        /// The destination of the edges.
        destination: u32,
        /// The number of edges listed by the source.
        at_source: u32,
        /// The number of edges listed by the destination.
        at_destination: u32,
    },
    /// The ends of an edge give it different weights.
    #[error(
        "edges from rank {source_rank} to rank {destination}: the two ranks give them different \
         weights"
    )]
    WeightMismatch {
        /// The source of the edges.
        source_rank: u32,
        /// The destination of the edges.
        destination: u32,
    },
    /// The lists do not describe a graph.
    #[error(
        "the index of the graph is wrong at rank {rank}: its entries must not decrease, and the \
         last must be the number of edges, {edges}"
    )]
    WrongIndex {
        /// The rank of the first wrong entry.
        rank: u32,
        /// The number of edges.
        edges: usize,
    },
    /// A graph does not support neighbour collectives: an edge has no counterpart.
    #[error(
        "rank {from} has {there} edges to rank {to}, which has {back} back: neighbour collectives \
         on a graph need both directions"
    )]
    OneWay {
        /// The rank with more edges.
        from: u32,
        /// The other end.
        to: u32,
        /// Edges from `from` to `to`.
        there: u32,
        /// Edges back.
        back: u32,
    },
}
