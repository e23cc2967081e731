//! Process topologies (MPI 5.0 §8): which ranks exchange with which.
//!
//! Values only: no messages, no memory of a job. Whoever makes a communicator out of one collects
//! what the ranks said, asks this module whether it fits together, and gets the same answer on
//! every rank.
//!
//! ```text
//!   Cartesian   a grid, periodic or not in each dimension      cartesian.rs
//!   Graph       the whole graph, known to every rank           graph.rs
//!   EdgeLists   a graph of which each rank told its part       edges.rs
//!        |
//!        +----> Links      one rank's edges, in order, each with its channel
//!        +----> placement  which process plays which vertex    reorder.rs
//! ```
//!
//! A *channel* tells apart the edges between one pair of ranks, so that a message meets the receive
//! that the standard means. In a graph the k-th edge from a to b in a's list is the k-th edge from
//! a in b's list. In a grid what is sent in one direction arrives in the block of the opposite
//! direction, also where both neighbours are the same rank or the rank itself (MPI 5.0 §8.6: block
//! s arrives in block s ^ 1).

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

/// One end of an edge, as the rank at that end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// The rank at the other end; `None` beyond the border of a grid (MPI_PROC_NULL): nothing is
    /// exchanged there, but its block has a place in the buffers.
    pub rank: Option<u32>,
    /// The weight given to the edge; 1 if none was.
    pub weight: u32,
    /// Which of the edges from the one rank to the other it is: the same number at both ends.
    pub channel: u32,
}

/// The edges of one rank, in the order of blocks in the buffers of neighbour collectives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Edges that lead to this rank.
    pub sources: Vec<Link>,
    /// Edges that lead away from it.
    pub destinations: Vec<Link>,
}

/// What all kinds of topologies can say.
pub trait Topology {
    /// How many ranks it has.
    fn size(&self) -> u32;

    /// The edges of a rank, which is below [`Topology::size`].
    fn links(&self, rank: u32) -> Links;

    /// A number above all channels, the same on every rank.
    fn channels(&self) -> u32;

    /// Partitions worth trying when ranks are placed on nodes of `per_node` ranks each: for every
    /// vertex the node it would be on, numbered from 0.
    fn partitions(&self, per_node: u32) -> Vec<Vec<u32>> {
        let _ = per_node;
        Vec::new()
    }
}
