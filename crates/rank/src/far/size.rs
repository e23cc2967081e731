//! The memory of the far side of a rank, computed from its own constants.

use hikyaku_ofi::link::LinkBytes;

use super::peers::FarPeers;
use super::{LAYOUT, lending};

/// The maximum bytes of the far side of a rank, reached if all that peers may send is unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarMemory {
    /// Receive buffers.
    pub buffers: usize,
    /// Packets taken from them that have not been delivered.
    pub held: usize,
    /// Outgoing packets, and incoming pieces of long messages.
    pub sends_and_fetches: usize,
    /// The state of ranks: of those with contact, and twice four bytes for each other one.
    pub ranks: usize,
}

impl FarMemory {
    /// For a rank of a job of `ranks`, of which `far` are on other hosts. `partners`: the number of
    /// these with which it has communicated.
    pub fn of(ranks: usize, far: usize, partners: usize) -> FarMemory {
        let LinkBytes { buffers, held, slots, links } = LAYOUT.bytes((ranks, far), partners);
        let fetches = if partners == 0 { 0 } else { lending::MOST_BYTES };
        let ranks = links + FarPeers::bytes(ranks, partners);
        FarMemory { buffers, held, sends_and_fetches: slots + fetches, ranks }
    }

    /// The sum of all parts.
    pub fn total(&self) -> usize {
        self.buffers + self.held + self.sends_and_fetches + self.ranks
    }
}
