//! What a protocol asks of its driver, and what it answers.

use crate::geometry::Word;
use crate::word::Mark;

/// One atomic operation on one word. The answer is the value before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordOp {
    /// Reads it, with everything that its writer did before.
    Load,
    /// Stores this value.
    Swap(u64),
    /// Stores `new` if the word is `expected`.
    CompareSwap {
        /// The value that must be there.
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

/// Whether a request may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Until its turn comes, or it is cancelled.
    Wait,
    /// It does not wait for other ranks.
    Try,
}

/// What to do next. The answer is 0 unless the variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Perform this operation on this word. The answer is its old value.
    Access(Word, WordOp),
    /// Fetch the contents from the copy of that node into the copy of this one. The answer is 0, or
    /// 1 if that copy cannot be reached any more.
    Copy {
        /// The node.
        from: u32,
    },
    /// Wait. Polling again is allowed at any time. Another rank wakes this one when its turn may
    /// have come, and the driver wakes it when it learns of a death.
    Wait,
    /// Let others ask first, which takes them a few operations; then poll. No rank wakes this one.
    /// The driver may end it: [`Direct::insist`](super::Direct::insist).
    StandBack,
    /// Wake this rank if it sleeps: its turn may have come. The driver looks up the dead ranks
    /// afterwards, before [`Direct::next`](super::Direct::next), because the rank may have died
    /// meanwhile.
    Wake(u32),
    /// The variable may be used.
    Entered(EntryResult),
    /// It may not be used, and the request is over.
    Refused(Refusal),
    /// It has been released, or the request has been cancelled.
    Released,
}

/// The result of entering a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryResult {
    /// Whether the contents were fetched.
    pub moved: bool,
    /// What is wrong with the contents, if a rank died.
    pub mark: Option<Mark>,
    /// The turn.
    pub position: u64,
}

/// Why a variable could not be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Other ranks hold it.
    Busy,
    /// A rank died while it held it.
    Lost(Mark),
    /// Its words hold what no rank writes: a process has overwritten them.
    Overwritten,
}
