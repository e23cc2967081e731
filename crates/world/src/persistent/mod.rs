//! Persistent exchanges with neighbours (MPI_Neighbor_alltoallw_init, MPI 5.0 §8.8) that complete
//! by themselves: set up once, started and waited for many times.
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
//! This is the method of paper 002: each rank writes the round's commands into queues of its
//! interface, with READY-TO-RECVs that let its sources send; no processor waits for anything. Over
//! shared memory the rank that starts last copies the remaining data, in both directions.
//!
//! There are two kinds, by the place of the data:
//!
//! ```text
//!   Exchange         in buffers of World::alloc that it owns   one copy, buffer to buffer
//!   StagedExchange   in ordinary memory, passed to each call   a copy to the receiver at start,
//!                                                              a copy out of its region at wait
//! ```
//!
//! [`Persistent`](crate::Persistent) is a type of its own: it restarts any collective as an async
//! function, which makes progress in this library's calls, and it owns buffers of any kind. The two
//! types here start operations that interfaces run by themselves.
//!
//! Neighbours on one node write each other a letter a round instead
//! (`rank/src/persistent/mail.rs`), if two copies of the data cost less than the use of queues and
//! [`Neighbours::scheme`] does not ask for queues. Both kinds of buffers are then read at start and
//! written at wait.
//!
//! If nodes have several ranks, [`Scheme::Combined`] collects the data of one node's ranks for
//! another node: one put a round goes from node to node instead of one per edge, through one rank
//! of each, and ranks need few queues (`coll/src/persistent/combined.rs` explains this). It pays if
//! edges are many and short.
//!
//! A staged edge with a queue of its own at both ends has two places at the receiver, used in turn:
//! its sender waits only for the round before the last.
//!
//! An exchange that is dropped in flight, or whose neighbour dies, ends: every rank that misses
//! data gets an error that names the missing rank. Its buffers are then not reused until the job
//! ends, since another rank may still write to them.

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
