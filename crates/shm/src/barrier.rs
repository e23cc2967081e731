//! A memory barrier on every processor that runs a rank, made by one process for all.
//!
//! A sender publishes a record and then looks whether the receiver sleeps. Without a barrier
//! between the two, the processor may look first, and the message and the sleep miss each other.
//! A barrier there would cost every message some 20 ns; the receiver that goes to sleep has time
//! and makes it on the senders' behalf: `membarrier(2)`, global expedited.
//!
//! The call reaches only processes that registered, so every rank registers before it sends and
//! one that cannot says so in the job's header: then nobody relies on it and sleeps are short.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

/// Registers this process. Answers whether the barrier of other processes reaches it now.
pub(crate) fn register() -> bool {
    membarrier_query().contains_command(MembarrierCommand::GlobalExpedited)
        && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// Makes the barrier on all processors that run a registered process, this one included. Answers
/// whether that was possible.
pub(crate) fn everywhere() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registering_twice_is_as_good_as_once() {
        assert_eq!(register(), register());
        if register() {
            assert!(everywhere());
        }
    }
}
