//! How much memory the far side of a rank takes, by its own constants.

use hikyaku_ofi::link::LinkBytes;

use super::peers::FarPeers;
use super::{LAYOUT, lending};

/// Bytes of the far side of a rank: the most, if all that peers may send lies unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarMemory {
    /// Receive buffers.
    pub buffers: usize,
    /// Packets that were taken out of them and have not been landed.
    pub held: usize,
    /// Packets on their way out, and pieces of long messages on their way in.
    pub sends_and_fetches: usize,
    /// What is kept of ranks: of those that were spoken to, and four bytes twice of each other.
    pub ranks: usize,
}

impl FarMemory {
    /// Of a rank of a job of `ranks`, of which `far` are on other hosts. `partners`: how many of
    /// these have sent it something, or have been sent something.
    pub fn of(ranks: usize, far: usize, partners: usize) -> FarMemory {
        let LinkBytes { buffers, held, slots, links } = LAYOUT.bytes((ranks, far), partners);
        let fetches = if partners == 0 { 0 } else { lending::MOST_BYTES };
        let ranks = links + FarPeers::bytes(ranks, partners);
        FarMemory { buffers, held, sends_and_fetches: slots + fetches, ranks }
    }

    /// All of it.
    pub fn total(&self) -> usize {
        self.buffers + self.held + self.sends_and_fetches + self.ranks
    }
}
