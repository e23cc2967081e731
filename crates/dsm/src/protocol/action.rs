//! The requests of a protocol to its driver, and the results of an acquisition.

use crate::geometry::Word;
use crate::word::Mark;

/// An atomic operation on one word. The answer is the word's old value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordOp {
    /// Loads the word. Everything that its writer did before is visible.
    Load,
    /// Stores this value.
    Swap(u64),
    /// Stores `new` if the word is `expected`.
    CompareSwap {
        /// The expected value.
        expected: u64,
        /// The value to store.
        new: u64,
    },
    /// Bitwise or.
    Or(u64),
    /// Bitwise and.
    And(u64),
    /// The larger of the two values.
    Max(u64),
}

impl WordOp {
    /// The value of a word after the operation.
    pub fn apply(self, old: u64) -> u64 {
        match self {
            WordOp::Load => old,
            WordOp::Swap(new) => new,
            WordOp::CompareSwap { expected, new } => {
                if old == expected {
                    new
                } else {
                    old
                }
            }
            WordOp::Or(bits) => old | bits,
            WordOp::And(bits) => old & bits,
            WordOp::Max(other) => old.max(other),
        }
    }
}

/// Whether a request may wait for other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Patience {
    /// It waits until its turn comes or until it is cancelled.
    Wait,
    /// It does not wait.
    Try,
}

/// The next step for the driver. The answer is 0 unless the variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Perform this operation on this word. The answer is the word's old value.
    Access(Word, WordOp),
    /// Copy the contents from that node's copy into this node's copy. The answer is 0, or 1 if that
    /// copy is no longer reachable.
    Copy {
        /// The node.
        from: u32,
    },
    /// Wait. The driver may poll again at any time. Another rank wakes this one when its turn may
    /// have come. The driver wakes it when it learns of a death.
    Wait,
    /// Let other ranks ask first, which takes them a few operations, then poll. No rank wakes this
    /// one. The driver may end the wait: [`Direct::insist`](super::Direct::insist).
    StandBack,
    /// Wake this rank if it sleeps: its turn may have come. The rank may have died meanwhile. So
    /// the driver updates the set of dead ranks after the wake and before
    /// [`Direct::next`](super::Direct::next).
    Wake(u32),
    /// The variable has been acquired.
    Entered(EntryResult),
    /// The request is over without the variable.
    Refused(Refusal),
    /// The variable has been released, or the request has been cancelled.
    Released,
}

/// The result of an acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryResult {
    /// Whether the contents were fetched.
    pub moved: bool,
    /// The damage of the contents, if a rank died.
    pub mark: Option<Mark>,
    /// The turn.
    pub position: u64,
}

/// The reasons why a variable was not acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Other ranks hold the variable.
    Busy,
    /// A rank died while it held the variable.
    Lost(Mark),
    /// The words hold values that no rank writes: a process has overwritten them.
    Overwritten,
}
