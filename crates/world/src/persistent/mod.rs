//! Persistent exchanges with neighbours (MPI_Neighbor_alltoallw_init, MPI 5.0 §8.8) that finish by
//! themselves: set up once, started and waited for again and again.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hikyaku::World;
//! use hikyaku::persistent::Neighbours;
//!
//! let world = World::init()?;
//! let (rank, size) = (world.rank(), world.size());
//! let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
//! // From the left and the right, to the right and the left, 100 elements each.
//! let neighbours = Neighbours::even(&[left, right], &[right, left], 100);
//! let mut halo =
//!     world.exchange_init::<f64>(&neighbours, world.alloc(200)?, world.alloc(200)?)?;
//! for step in 0..1000 {
//!     halo.outgoing_mut()?.fill(f64::from(step));
//!     halo.start()?;
//!     // Whatever is computed here, the data moves meanwhile.
//!     halo.wait()?;
//!     assert_eq!(halo.incoming()?, [f64::from(step); 200]);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! It is paper 002's: each rank writes the round's commands into queues of its interface, with
//! READY-TO-RECVs that let its sources send; no processor waits for anything. Over shared memory
//! whoever starts last copies what is left, both ways.
//!
//! Two kinds, by where the data is:
//!
//! ```text
//!   Exchange         in buffers of World::alloc that it owns   one copy, buffer to buffer
//!   StagedExchange   in ordinary memory, given to each call    a copy to the receiver at start,
//!                                                              a copy out of its region at wait
//! ```
//!
//! [`Persistent`](crate::Persistent) is a type of its own: it starts any collective again as an
//! async function, whose progress is made in this library's calls, and it owns buffers of any kind.
//! These two start what interfaces run by themselves.
//!
//! Between ranks of one node, neighbours write each other a letter a round instead
//! (`rank/src/persistent/mail.rs`), as long as two copies of the data cost less than what queues
//! do, and unless [`Neighbours::scheme`] asks for queues. Both kinds of buffers are then copied
//! from at start and to at wait.
//!
//! Where nodes have several ranks, [`Scheme::Combined`] puts what the ranks of a node have for
//! those of another side by side: one put a round goes from node to node instead of one an edge, by
//! way of a rank of each, and ranks need few queues (`coll/src/persistent/combined.rs` says how).
//! It pays where edges are many and short.
//!
//! A staged edge whose two ends have a queue of their own for it has two places, used in turn, at
//! the receiver: its sender need not wait for anything but the round before the last.
//!
//! An exchange that is dropped in flight, or whose neighbour dies, is over: every rank that misses
//! something gets an error that names who is missing. Its buffers are then not used again until
//! the job ends, since somebody may still write to them.

mod edges;
mod shared;
mod staged;

pub use edges::{Neighbour, Neighbours};
pub use hikyaku_coll::persistent::{Scheme, UnknownScheme};
pub use hikyaku_nic::fabric::{QueueError, QueueFault};
pub use hikyaku_rank::persistent::PersistentError;
#[doc(hidden)]
pub use hikyaku_rank::persistent::{ExchangeSink, ExchangeSource};
pub use shared::Exchange;
pub use staged::StagedExchange;
