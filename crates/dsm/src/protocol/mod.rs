//! The protocols, as values: told an answer, they say what to do next.
//!
//! ```text
//!   request(Write) ──► next ──► Access(word, operation) ──► whoever drives it does that
//!                      next(old value) ──► ... ──► Wait ──► look again later
//!                      next(0) ──► ... ──► Entered
//!   release ──► next ──► ... ──► Released
//! ```
//!
//! [`Direct`] is driven so, and needs nobody's help. [`Mailbox`] is the paper's two protocols, in
//! which owners answer messages: it says what to send.
//!
//! They know words, nodes and copies, and neither memory nor messages nor time. The same value is
//! driven over shared memory, over a simulated machine, and through every interleaving by the
//! explorer of `tests/`.

pub mod direct;
pub mod mailbox;

use crate::departed::Departed;
use crate::geometry::Word;
use crate::word::{Kind, Mark};

pub use direct::{Direct, Free, Left};
pub use mailbox::{Account, Copyset, Effect, LETTER_MOST, Letter, Mailbox, Message, Style, Want};

/// What is done to one word, undivided. The answer is the value before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Nothing: it is read, and whatever its writer did before is seen.
    Load,
    /// This takes its place.
    Swap(u64),
    /// `new` takes its place if it is `expected`.
    CompareSwap {
        /// What must be there.
        expected: u64,
        /// What takes its place.
        new: u64,
    },
    /// Bitwise or.
    Or(u64),
    /// Bitwise and.
    And(u64),
    /// The larger of the two.
    Max(u64),
}

impl Op {
    /// What a word of this value is afterwards.
    pub fn apply(self, old: u64) -> u64 {
        match self {
            Op::Load => old,
            Op::Swap(new) => new,
            Op::CompareSwap { expected, new } => {
                if old == expected {
                    new
                } else {
                    old
                }
            }
            Op::Or(bits) => old | bits,
            Op::And(bits) => old & bits,
            Op::Max(other) => old.max(other),
        }
    }
}

/// Whether a request may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Until its turn comes, or it is given up.
    Wait,
    /// Not for other ranks.
    Try,
}

/// What to do next. What is not said to have an answer has 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// This operation on this word; its old value is the answer.
    Access(Word, Op),
    /// Fetch the contents from the copy of this node into that of the own. The answer is 0, or 1
    /// if that copy cannot be reached any more.
    Copy {
        /// The node.
        from: u32,
    },
    /// There is nothing to do but to look again, any time. Somebody wakes this rank when that is
    /// worth while, and so must whatever tells it of a death.
    Wait,
    /// Others are let past who want to ask, which takes them a few operations: to look again soon.
    /// Nobody wakes this rank. Whoever drives may end it: [`Direct::insist`].
    StandBack,
    /// Wake this rank, if it sleeps: its turn may have come. Who is gone is looked up afterwards,
    /// before [`Protocol::next`]: it may have died meanwhile.
    Wake(u32),
    /// The variable may be used.
    Entered(Entry),
    /// It may not, and the request is over.
    Refused(Refusal),
    /// It has been let go, or given up.
    Released,
}

/// With what a variable is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Whether the contents had to be fetched.
    pub moved: bool,
    /// What is wrong with them, if a rank died with them.
    pub mark: Option<Mark>,
    /// The turn.
    pub position: u64,
}

/// Why a variable could not be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Others have it.
    Busy,
    /// A rank died with it.
    Lost(Mark),
}

/// One rank's side of a protocol, for one variable.
pub trait Protocol {
    /// Wants the variable. Nothing must be wanted or had.
    fn request(&mut self, kind: Kind, patience: Patience);

    /// Lets it go. It must have been entered.
    fn release(&mut self);

    /// Gives a request up that said [`Action::Wait`] or [`Action::StandBack`] last, or has not
    /// begun. Answers whether there is something to be done for that, until [`Action::Released`].
    fn cancel(&mut self) -> bool;

    /// What to do, given the answer to what was to be done last.
    fn next(&mut self, answer: u64, departed: &Departed) -> Action;
}
