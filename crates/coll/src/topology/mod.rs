//! Process topologies (MPI 5.0 §8): which ranks exchange with which.
//!
//! This module has values only: no messages and no memory of a job. The constructor of a
//! communicator collects the ranks' arguments and checks here that they are consistent; every rank
//! gets the same answer.
//!
//! ```text
//!   Cartesian   a grid, periodic or not in each dimension      cartesian.rs
//!   Graph       the whole graph, known to every rank           graph.rs
//!   EdgeLists   a graph of which each rank specifies a part    edges.rs
//!        |
//!        +----> Links      one rank's edges, in order, each with its channel
//!        +----> placement  which process has which vertex    reorder.rs
//! ```
//!
//! A *channel* distinguishes the edges between one pair of ranks, so that a message matches the
//! receive that the standard requires. In a graph the k-th edge from a to b in a's list is the k-th
//! edge from a in b's list. In a grid, data sent in one direction arrives in the block of the
//! opposite direction, even if both neighbours are the same rank or the rank itself (MPI 5.0 §8.6:
//! block s arrives in block s ^ 1).

mod cartesian;
mod edges;
mod error;
mod graph;
mod reorder;

pub use cartesian::{Cartesian, Shift, dims_create};

pub use edges::{Edge, EdgeLists};
pub use error::TopologyError;
pub use graph::Graph;
pub use reorder::{cut, place};

/// One end of an edge, as seen by the rank at that end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// The rank at the other end. `None` beyond the border of a grid (MPI_PROC_NULL): no data is
    /// exchanged there, but its block has a place in the buffers.
    pub rank: Option<u32>,
    /// The weight of the edge; 1 if none was given.
    pub weight: u32,
    /// Distinguishes the edges from one rank to the other: the same number at both ends.
    pub channel: u32,
}

/// The edges of one rank, in the order of blocks in the buffers of neighbour collectives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Edges to this rank.
    pub sources: Vec<Link>,
    /// Edges from this rank.
    pub destinations: Vec<Link>,
}

/// The common interface of all topologies.
pub trait Topology {
    /// The number of ranks.
    fn size(&self) -> u32;

    /// The edges of a rank, which is below [`Topology::size`].
    fn links(&self, rank: u32) -> Links;

    /// A number above all channels, the same on every rank.
    fn channels(&self) -> u32;

    /// Candidate partitions for placement on nodes of `per_node` ranks each: for every vertex its
    /// node, numbered from 0.
    fn partitions(&self, per_node: u32) -> Vec<Vec<u32>> {
        let _ = per_node;
        Vec::new()
    }
}
