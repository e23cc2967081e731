//! A memory barrier on every processor that runs a rank, executed by one process for all.
//!
//! A sender publishes a record and then checks whether the receiver sleeps. Without a barrier in
//! between, the processor may check first, so that the sender misses the sleep and the receiver the
//! message. A barrier there would cost every message some 20 ns. The receiver about to sleep has
//! time for it, and executes it for the senders: `membarrier(2)`, global expedited.
//!
//! The call reaches only registered processes, so every rank registers before it sends. One that
//! cannot register marks this in the job's header: then no rank relies on the barrier, and sleeps
//! are short.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

/// Registers this process. Returns whether the barrier of other processes now reaches it.
pub(crate) fn register() -> bool {
    membarrier_query().contains_command(MembarrierCommand::GlobalExpedited)
        && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// Executes the barrier on all processors that run a registered process, including this one.
/// Returns whether that was possible.
pub(crate) fn everywhere() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registering_twice_is_harmless() {
        assert_eq!(register(), register());
        if register() {
            assert!(everywhere());
        }
    }
}
