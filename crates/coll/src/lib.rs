//! Collective operations: every algorithm once, as an async function over any group of ranks.
//!
//! ```text
//!   world, mpi, sim ──►  allreduce(&group, algorithm, data, reduction)     one function each
//!                              │ None: select.rs checks size, ranks, nodes, facilities
//!                              ▼
//!                        Call: takes the tag, runs the algorithm, reports a failure to the others
//!                              │
//!                              ▼
//!                        recursive_doubling, ring, two_level, lines, …
//!                              │ send, recv, exchange
//!                              ▼
//!                        trait Group ◄── CommunicatorGroup over msg; a simulated rank; a test
//! ```
//!
//! A blocking call runs the future to its end, a non-blocking or persistent one leaves it to later
//! progress calls, and a simulator runs it in virtual time: no algorithm has a second copy. An
//! algorithm accesses its environment only through [`Group`]. It never reads the bytes that it
//! moves, except through the given reduction, so that a simulation can carry lengths only
//! ([`Group::Byte`]).
//!
//! Costs are given in messages on the longest path, for `n` ranks and `m` bytes a rank.
//!
//! Invariants:
//!
//! - Every function takes its tag when it is *called*, not when its future is polled. Ranks that
//!   call in the same order agree on the tags, however they run the futures (MPI 5.0 §6.12).
//! - Every rank gets the same bits of a result that all get, and a reduction that is not
//!   commutative is done exactly in the order of the ranks.
//! - Every message is received with the length that it must have. If a message has another length,
//!   if a rank died, or if a rank drops its future, every rank that is still in the operation is
//!   notified and ends with an error: a mistake of one rank makes no rank hang.
//! - No step is skipped because there are no bytes: ranks that disagree on whether there is
//!   anything to do detect that.
//! - Memory per rank grows with the number of ranks only where the result or the arguments do.

mod algorithms;
pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod alltoallw;
pub mod barrier;
mod blocks;
pub mod broadcast;
mod call;
mod choices;
mod combine;
mod communicator;
mod costs;
mod doubling;
mod error;
pub mod gather;
mod group;
mod list;
mod long;
mod mates;
mod names;
pub mod neighbour;
mod part;
pub mod persistent;
mod questions;
mod read;
pub mod reduce;
pub mod reduce_scatter;
mod ring;
mod rounds;
pub mod scan;
pub mod scatter;
mod scratch;
mod select;
mod signature;
pub mod topology;
mod turns;

pub use allgather::{
    allgather, allgather_scattered, allgatherv, allgatherv_scattered, begin_allgather,
    begin_allgatherv,
};
pub use allreduce::{allreduce, allreduce_scattered, begin_allreduce};
pub use alltoall::{
    alltoall, alltoall_in_place, alltoall_in_place_scattered, alltoall_scattered, alltoallv,
    alltoallv_in_place, alltoallv_in_place_scattered, alltoallv_parts, begin_alltoall,
    begin_alltoallv,
};
pub use alltoallw::{alltoallw, alltoallw_in_place};
pub use barrier::{barrier, begin_barrier, fail_call, open_barrier};
pub use broadcast::{begin_broadcast, broadcast, broadcast_scattered};
pub use call::Begun;
pub use choices::{Choices, SESSION, SessionChoices, UnknownChoice, check_in_job};
pub use combine::{Combine, Reduction};
pub use communicator::{CollectiveBook, CommunicatorGroup};
pub use costs::{Costs, MessageCosts, Sharing};
pub use error::{Caller, Cause, CollError, Failure};
pub use gather::{begin_gather, gather, gather_scattered, gatherv, gatherv_parts};
pub use group::{
    ADDRESS, ChannelUse, CopyReach, Facilities, Group, Network, Notice, OperationEnding, near_cube,
};
pub use long::{LongCall, LongCalls, LongOperation, LongWay};
pub use mates::Mates;
pub use names::{Operation, is_of_call};
pub use part::{Part, Place, Span};
pub use questions::{Asked, Made};
pub use reduce::{Operand, begin_reduce, reduce};
pub use reduce_scatter::{
    begin_reduce_scatter, begin_reduce_scatter_block, reduce_scatter, reduce_scatter_block,
};
pub use scan::{begin_exscan, begin_scan, exscan, scan};
pub use scatter::{begin_scatter, scatter, scatter_scattered, scatterv, scatterv_parts};
pub use select::{chosen, estimates};
pub use signature::{Combination, Element, Signature};
pub use turns::{LineTurn, LineTurns, Loss};
