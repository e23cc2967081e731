//! Communicators with a topology: ranks that know their neighbours (MPI 5.0 §8).
//!
//! [`Neighbourhood`] is made from a [`World`] by one of the constructors in `create.rs`. Its ranks
//! exchange data by blocking calls (`blocking.rs`), within a scope (`pending.rs`), or repeatedly
//! (`persistent.rs`). `parts.rs` maps edges to elements of the two buffers.
//!
//! A neighbourhood has a context of its own, so its messages match no others, and its own rank
//! numbers: with [`Reorder::Allow`] ranks are numbered so that neighbours share a node.
//!
//! ```text
//!   rank in it ──members──► rank of the world ──► messages
//! ```

mod blocking;
mod create;
mod parts;
mod pending;
mod persistent;

use std::cell::{Cell, RefCell};

pub use hikyaku_coll::topology::{
    Cartesian, Edge, EdgeLists, Graph, Link, Shift, Topology, TopologyError, dims_create,
};

use hikyaku_rank::persistent::Correspondence;

pub(crate) use self::parts::{ExchangeRoute, Leg};
pub use self::pending::NeighbourRequest;
use crate::error::Error;
use crate::world::World;

/// Whether the ranks of a topology may be renumbered (MPI 5.0 §8.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Reorder {
    /// A rank keeps its number.
    #[default]
    Keep,
    /// Ranks are renumbered to reduce traffic between nodes; without a gain they keep their
    /// numbers.
    Allow,
}

/// The shape of a distributed graph: each rank knows its own edges only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distributed;

/// Ranks that know their neighbours: a communicator with a topology.
///
/// `S` is the shape that it was made from: [`Cartesian`], [`Graph`] or [`Distributed`]. Every rank
/// calls all neighbour collectives, in the same order.
#[derive(Debug)]
pub struct Neighbourhood<S = Distributed> {
    /// Provides the context of the messages.
    world: World,
    shape: S,
    rank: u32,
    /// Ranks of the world, by rank in this neighbourhood.
    members: Vec<u32>,
    sources: Vec<Link>,
    destinations: Vec<Link>,
    /// One more than the highest channel of any rank.
    channels: u32,
    /// Neighbour collectives started so far.
    calls: Cell<u32>,
    /// The plan of the last blocking call, kept for its memory.
    route: RefCell<ExchangeRoute>,
    /// Whether blocking calls use letters, and the letters.
    correspondence: Correspondence,
}

impl<S> Neighbourhood<S> {
    /// This rank, `0..size`. It differs from the rank of the world if ranks were reordered.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The rank in the world of a rank of this neighbourhood, which is below
    /// [`Neighbourhood::size`]: for messages between two ranks.
    pub fn world_rank(&self, rank: u32) -> u32 {
        assert!(rank < self.size(), "rank {rank} does not exist: there are {}", self.size());
        self.members[rank as usize]
    }

    /// The incoming edges, in the order of blocks in receive buffers.
    pub fn sources(&self) -> &[Link] {
        &self.sources
    }

    /// The outgoing edges, in the order of blocks in send buffers.
    pub fn destinations(&self) -> &[Link] {
        &self.destinations
    }

    /// The shape of the topology.
    pub fn shape(&self) -> &S {
        &self.shape
    }

    /// The rank of the world at the other end of an edge; `None` beyond a border.
    fn process(&self, link: &Link) -> Option<u32> {
        link.rank.map(|rank| self.members[rank as usize])
    }

    /// Numbers the next collective, for [`NeighbourTags::of`]. Every rank gives the same collective
    /// the same number.
    fn next_call(&self) -> NeighbourTags {
        let call = self.calls.get();
        self.calls.set(call.wrapping_add(1));
        NeighbourTags { base: call.wrapping_mul(self.channels) }
    }
}

/// The tags of one neighbour collective.
#[derive(Debug, Clone, Copy)]
struct NeighbourTags {
    base: u32,
}

impl NeighbourTags {
    /// The tag of an edge: the same at both ends. A tag is reused only after so many calls that no
    /// message of the earlier call can be in flight.
    fn of(self, link: &Link) -> i32 {
        (self.base.wrapping_add(link.channel) & i32::MAX as u32) as i32
    }

    /// A tag of the call for messages that belong to no edge.
    fn first(self) -> i32 {
        (self.base & i32::MAX as u32) as i32
    }
}

/// The error of an edge on which data of an unexpected size arrived.
fn unequal(rank: u32, sources: &[Link], edge: usize, sent: u64, expected: u64) -> Error {
    // Beyond a border nothing arrives, so there is a rank.
    let source_rank = sources[edge].rank.unwrap_or(rank);
    Error::UnequalEdge { edge, source_rank, sent, rank, expected }
}

impl Neighbourhood<Cartesian> {
    /// This rank's place in the grid (MPI_Cart_coords).
    pub fn coordinates(&self) -> Vec<u32> {
        self.shape.coordinates(self.rank)
    }

    /// The ranks to receive from and to send to when data moves by `displacement` along a
    /// dimension (MPI_Cart_shift).
    ///
    /// # Errors
    /// There is no such dimension.
    pub fn shift(&self, dimension: usize, displacement: i64) -> Result<Shift, TopologyError> {
        self.shape.shift(self.rank, dimension, displacement)
    }
}
