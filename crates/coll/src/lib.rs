//! The collectives a solver needs, one algorithm each.
//!
//! Every function takes its tag when it is called, not when its future is polled: ranks that call
//! in the same order agree on the tags however they run the futures.
//!
//! Costs are given in messages on the longest path, `n` ranks, `m` bytes.

#[path = "allreduce/recursive_doubling.rs"]
mod allreduce;
#[path = "barrier/tree.rs"]
mod barrier;
#[path = "broadcast/binomial.rs"]
mod broadcast;
#[path = "gather/chained.rs"]
mod gather;

pub use allreduce::allreduce;
pub use barrier::barrier;
pub use broadcast::broadcast;
pub use gather::{gather, gather_blocks};

use hikyaku_msg::MsgError;

/// Whether two buffers of one operation have the length they must have.
fn check_length(given: usize, needed: usize) -> Result<(), MsgError> {
    if given == needed {
        return Ok(());
    }
    Err(MsgError::InvalidLength { given: given as u64, needed: needed as u64 })
}

#[cfg(test)]
mod tests;
