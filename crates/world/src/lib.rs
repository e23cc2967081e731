//! hikyaku: message passing in which the receiving side's interface lands the messages.
//!
//! ```no_run
//! use hikyaku::{Op, World};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let world = World::init()?;
//!     let (rank, size) = (world.rank(), world.size());
//!     let next = (rank + 1) % size;
//!     let previous = (rank + size - 1) % size;
//!     let mut heard = [0];
//!     world.sendrecv(&[rank], next, 0, &mut heard, previous, 0)?;
//!     let mut sum = [heard[0]];
//!     world.allreduce(&mut sum, Op::Sum)?;
//!     if rank == 0 {
//!         println!("{size} ranks, sum {}", sum[0]);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! When started by `hikyaku run -n 4 -- ./program`, this prints `4 ranks, sum 6`; when started
//! directly, it is a world of one rank.
//!
//! - [`World`]: this rank and its job; send, receive, probe; every collective of MPI.
//! - [`World::scope`]: non-blocking operations on borrowed buffers, collectives among them.
//! - [`Persistent`]: collectives made once and started many times.
//! - [`World::block_on`]: the same operations as futures.
//! - [`World::overlap`]: computing while messages advance.
//! - [`World::alloc`]: buffers that peers access with one copy.
//! - [`topology`]: grids and graphs of ranks, and exchanges between neighbours.
//! - [`World::window`]: memory that all ranks put into, get from and change atomically.
//! - [`World::shared`]: arrays that travel with their locks.
//! - [`World::landing`]: the rings in which other ranks' messages land here.
//! - [`persistent`]: exchanges with neighbours that are set up once and finish by themselves.
//!
//! `hikyaku run` is a library of its own, `hikyaku_launch`, which programs do not link.

// Tests of whole jobs use this name; some of them run on threads here.
#[cfg(test)]
extern crate self as hikyaku;

mod buffer;
mod collective;
mod error;
mod exchange;
mod landing;
pub mod persistent;
mod reducer;
mod scalar;
mod scope;
pub mod shared;
pub mod topology;
mod window;
mod world;

pub use buffer::SharedBuffer;
pub use collective::{Buffer, Collective, CollectiveFuture, Persistent};
pub use error::{Error, InitError, LandingError, WindowError};
pub use hikyaku_coll::{
    Caller, Cause, Choices, CollError, Combination, Operation, SessionChoices, Signature,
    UnknownChoice,
};
pub use hikyaku_msg::{Layout, LayoutError, MsgError, Statistics, join, join_all};
pub use hikyaku_msg::{LongMessages, NotAWay, Way, WayTally};
pub use hikyaku_nic::fabric::{
    Advance, Capabilities, ContextError, DeathCause, FullPolicy, Granularity, PeerFailure,
    PostError, TableError,
};
pub use hikyaku_nic::hosted::StoreCounts;
pub use hikyaku_nic::time::Time;
pub use hikyaku_rank::{
    Access, CreationError, HandError, NotALimit, NotASwitch, ProgressThread, RingMoves, SharedHeap,
    UnmatchedLimit,
};
#[doc(hidden)]
pub use hikyaku_rank::{Inside, WorkEnd};
pub use landing::{Landing, LandingRing};
pub use reducer::{Commutative, Ordered, Reducer};
pub use scalar::{Number, Op, Scalar};
pub use scope::{Request, Scope};
pub use shared::Shared;
pub use window::{AtomicScalar, Window};
pub use world::{ANY_SOURCE, ANY_TAG, Received, Source, Tag, World};
