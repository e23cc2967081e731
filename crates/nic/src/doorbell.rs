//! How a rank that is not looking is reached.

use crate::sync::{AtomicU64, Line};

/// How a rank is reached when it is not looking.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Doorbell {
    /// Nonzero while the rank sleeps or is about to. Written by the rank.
    pub sleeping: Line<AtomicU64>,
    /// Counts wake-ups; the word a sleeping rank waits on. Written by whoever wakes it.
    pub wakes: Line<AtomicU64>,
    /// The latest arrival time given out; see `hosted::send`. Written by senders.
    pub arrivals: Line<AtomicU64>,
    /// Nonzero when a sender was held up for want of room. Set by senders, cleared by the rank.
    pub attention: Line<AtomicU64>,
}
