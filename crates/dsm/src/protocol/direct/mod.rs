//! `direct`: a variable changes hands by remote atomics and remote reads alone.
//!
//! No rank serves requests. A rank that wants a variable enters a queue in the memory of its home,
//! watches the queue for its turn, and fetches the contents from the newest copy. The holder passes
//! the turn to the next rank with one store. An owner that computes for seconds without calling the
//! library delays no other rank. In paper 001, the owner has to read its mailbox and answer.
//!
//! ```text
//!   head ──► 7        cells   | 7: rank 2, write, entered |    the holder
//!                             | 8: rank 0, read           |    waits
//!                             | 9: rank 1, write          |    waits
//!                             | 6: ...                    |    free: its turn is over
//! ```
//!
//! **Asking** is one compare-and-swap of the first free cell, from `head` on, to "turn *q*, rank,
//! kind". One step takes the turn and names the rank, so the turn of a dead rank always names it. A
//! rank has at most one request, so as many cells as ranks are enough. Turns are served in order,
//! which is fair to readers and writers alike. A rank far from the home whose swaps fail says so
//! there, and other ranks stand back for it: `wanting.rs`, with the bound.
//!
//! **A writer** has its turn when `head` is *q*. It waits until the bits of all readers are clear,
//! and stays at the head until it releases. **A reader** has its turn when `head` is *q*. It
//! fetches the contents if its node's copy is old, sets its bit, and passes the turn on at once.
//! Readers behind it enter beside it; a writer behind it waits for its bit. New readers queue
//! behind that writer.
//!
//! **The fast path** is for an unlocked variable: the rank loads head, readers and cell, and swaps
//! the cell to "entered" at once. If the swap succeeds, `head` was *q* all the time, because `head`
//! never passes a turn that no rank has taken. A reader's bit is set only by a rank that has the
//! turn, or by a rank that kept an earlier turn and clears the bit again. Releasing is one swap of
//! `head`. On one node with up to four ranks all words are in one line, and one call does
//! everything: `fast.rs`.
//!
//! **Contents.** `latest` names the turn and the node of the newest write. A node's `held` names
//! the write that its copy holds. If they are equal the copy is the paper's CLEAN, and no data
//! moves (FG-03). `held` is zero while a copy is written or fetched, so a copy that a dead rank
//! left half-written never counts as whole. Owner change and invalidation are one word. An atomic
//! maximum stores it at each node without a processor of that node (FG-06). The order of these
//! stores is irrelevant, since a later turn is a larger word.
//!
//! **Kept.** A rank far from the home that has written twice in a row keeps the turn on release,
//! until another rank asks for it. It acquires the variable again by one swap of a word of its own
//! node. See `kept.rs`.
//!
//! **Cancelling** marks the rank's cell. A rank that passes the turn on moves `head` past that cell
//! and wakes the next rank. If the cell already has the turn, the cancelling rank does so:
//! `onward.rs`. The rank can take the same turn again until it has been passed.
//!
//! **Death**: see `recover.rs`.

mod data;
mod fast;
mod kept;
mod onward;
mod recover;
mod release;
mod wanting;

use crate::departed::Departed;
use crate::geometry::{Geometry, Word};
use crate::protocol::{Action, EntryResult, Patience, Refusal, WordOp};
use crate::word::{AccessKind, Head, Mark, READING, RequestCell, RequestPhase, Version};
pub use fast::{Free, Left};
use kept::Keeping;
use onward::Then;
use recover::TurnRecovery;
use wanting::Courtesy;
pub use wanting::{FAILURES, FAILURES_NEAR, FAR_LOOK};

/// One rank's state of the protocol for one variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Direct {
    geometry: Geometry,
    recoverable: bool,
    kind: AccessKind,
    patience: Patience,
    state: Pending,
    /// The head as last read.
    head: Head,
    /// The turn that this rank asked for. Valid from [`Pending::Claim`] on.
    turn: u64,
    claimed: bool,
    /// Whether some rank reads, as seen before asking.
    readers: bool,
    latest: Version,
    /// Whether the contents were fetched.
    moved: bool,
    recovery: TurnRecovery,
    /// The continuation after passing the turn on, and the damage of the contents that this rank
    /// held.
    then: Then,
    mark: Option<Mark>,
    courtesy: Courtesy,
    keeping: Keeping,
}

/// The state: what the next answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pending {
    Idle,
    Start,
    /// Asking.
    Head,
    Readers {
        at: u32,
        owed: u64,
    },
    StandBack {
        at: u32,
        owed: u64,
    },
    SweepWants {
        at: u32,
        owed: u64,
    },
    Look(u64),
    Claim {
        expected: u64,
        wanted: RequestCell,
    },
    Want,
    Unwant {
        entered: bool,
    },
    /// Waiting.
    Watch,
    WatchCell,
    Rest,
    Drain(u32),
    Sweep(u32),
    DrainRest,
    Mark,
    /// The contents.
    Latest,
    Held,
    Invalid,
    Copied,
    Fetched,
    Share,
    Writing,
    Tell(u32),
    Salvage {
        node: u32,
        best: Version,
    },
    Marked,
    Adopted,
    /// Beginning to read.
    Bit,
    Pass,
    /// Recovering the turn of a dead rank or of a cancelled request.
    Recover,
    /// The contents are lost: passing the turn on.
    Fail,
    /// The turn was passed on: finding out to which rank.
    Onward,
    Follower,
    Hailed(u32),
    /// Acquiring a kept variable.
    Again,
    ReadAgain,
    StillKept,
    Retreat,
    Retreated,
    Inside,
    /// Releasing; states without an answer first.
    Publish,
    TakeBit,
    Cancel,
    Published,
    Keep,
    Kept,
    Behind,
    LetGoAgain,
    LetGo,
    ReadKept,
    TurnOn,
    Turned,
    BitTaken,
    LastReader,
    Cancelled,
    LastHead,
}

impl Direct {
    /// The state of `geometry.rank` for a variable whose home is the rank `home`. If a rank dies
    /// while it may be writing, the variable is lost. If it is `recoverable`, it comes back with a
    /// [`Mark`] instead.
    pub fn new(geometry: Geometry, home: u32, recoverable: bool) -> Direct {
        let latest = Version { position: 0, node: 0, shared: false };
        let courtesy = Courtesy::new(&geometry, home);
        Direct {
            geometry,
            recoverable,
            kind: AccessKind::Read,
            patience: Patience::Wait,
            state: Pending::Idle,
            head: Head { position: 0, mark: None },
            turn: 0,
            claimed: false,
            readers: false,
            latest,
            moved: false,
            recovery: TurnRecovery::NONE,
            then: Then::Ask,
            mark: None,
            courtesy,
            keeping: Keeping::NONE,
        }
    }

    /// Whether there is only one node, so that copies never travel.
    #[inline]
    fn alone(&self) -> bool {
        self.geometry.nodes() == 1
    }

    /// The maximum of steps from a request to [`Action::Wait`] or to its end. It is far above the
    /// steps of any correct request: others overtake it a few times each, and then it tries all
    /// cells again. A request that takes more steps is going round words that a process has
    /// overwritten.
    pub fn most_steps(geometry: &Geometry) -> u64 {
        let words = geometry.cells() + u64::from(geometry.reader_words());
        8 * (u64::from(geometry.ranks) + 64) * (words + 32)
    }

    /// Abandons a request or a release, because words of the variable were overwritten. The
    /// variable cannot be requested again: its cell may still name this rank.
    pub fn abandon(&mut self) {
        self.claimed = false;
        self.keeping = Keeping::NONE;
        self.state = Pending::Idle;
    }

    #[inline]
    fn access(&mut self, state: Pending, word: Word, op: WordOp) -> Action {
        self.state = state;
        Action::Access(word, op)
    }

    fn refuse(&mut self, refusal: Refusal) -> Action {
        self.state = Pending::Idle;
        Action::Refused(refusal)
    }

    /// Begins, or begins again: reads the head to learn whose turn it is.
    #[inline]
    fn load_head(&mut self) -> Action {
        let state = if self.claimed { Pending::Watch } else { Pending::Head };
        self.access(state, Word::Head, WordOp::Load)
    }

    #[inline]
    fn on_head(&mut self) -> Action {
        if let Some(mark) = self.head.mark
            && !self.recoverable
        {
            if self.courtesy.wants {
                return self.unwant(false);
            }
            return self.refuse(Refusal::Lost(mark));
        }
        self.readers = false;
        if self.kind == AccessKind::Write || !self.courtesy.done {
            return self.load_readers(0, READING);
        }
        self.load_cell(self.head.position)
    }

    /// Reads the bits of readers and of ranks that want to ask. This rank stands back until the
    /// ranks in `owed` have asked.
    #[inline]
    fn load_readers(&mut self, at: u32, owed: u64) -> Action {
        self.access(Pending::Readers { at, owed }, Word::Readers(at), WordOp::Load)
    }

    #[inline]
    fn on_readers(&mut self, at: u32, owed: u64, bits: u64, departed: &Departed) -> Action {
        self.readers |= bits & READING != 0;
        if let Some(action) = self.let_past(at, owed, bits, departed) {
            return action;
        }
        if at + 1 < self.geometry.reader_words() {
            return self.load_readers(at + 1, READING);
        }
        if self.courtesy.end() {
            return self.load_head();
        }
        self.load_cell(self.head.position)
    }

    #[inline]
    fn load_cell(&mut self, turn: u64) -> Action {
        self.access(Pending::Look(turn), self.geometry.cell(turn), WordOp::Load)
    }

    /// Handles the cell of a turn that may be free.
    #[inline]
    fn on_cell(&mut self, turn: u64, found: u64, departed: &Departed) -> Action {
        let cell = RequestCell::of(found);
        let first = turn == self.head.position;
        if cell.position < turn {
            return self.claim(turn, found, first && !self.readers);
        }
        if cell.position > turn {
            return self.overtaken().unwrap_or_else(|| self.load_head());
        }
        if first && Direct::is_left(cell, departed) {
            return self.recover(cell, departed);
        }
        if first && self.is_to_be_asked_for(cell) {
            return self.ask_for(cell.rank);
        }
        let again = cell.rank == self.geometry.rank && cell.phase == RequestPhase::Gone;
        if again && self.patience == Patience::Wait {
            return self.claim(turn, found, false);
        }
        self.try_next_turn(turn)
    }

    /// Tries the next turn, because another rank has taken this one.
    #[inline]
    fn try_next_turn(&mut self, turn: u64) -> Action {
        if self.patience == Patience::Try {
            return self.refuse(Refusal::Busy);
        }
        if turn + 1 >= self.head.position + self.geometry.cells() {
            // This happens only if the head has moved meanwhile: every rank has a cell.
            return self.overtaken().unwrap_or_else(|| self.load_head());
        }
        self.load_cell(turn + 1)
    }

    /// Asks for a turn. `free`: no rank is ahead, and no rank reads.
    #[inline]
    fn claim(&mut self, turn: u64, expected: u64, free: bool) -> Action {
        let enters = match self.kind {
            AccessKind::Write => free,
            AccessKind::Read => turn == self.head.position,
        };
        if self.patience == Patience::Try && !enters {
            return self.refuse(Refusal::Busy);
        }
        let phase = if enters && self.kind == AccessKind::Write {
            RequestPhase::Entered
        } else {
            RequestPhase::Waiting
        };
        let wanted =
            RequestCell { position: turn, rank: self.geometry.rank, kind: self.kind, phase };
        let op = WordOp::CompareSwap { expected, new: wanted.bits() };
        self.access(Pending::Claim { expected, wanted }, self.geometry.cell(turn), op)
    }

    #[inline]
    fn on_claim(
        &mut self,
        expected: u64,
        wanted: RequestCell,
        found: u64,
        dead: &Departed,
    ) -> Action {
        if found != expected {
            let wants = self.overtaken();
            return wants.unwrap_or_else(|| self.on_cell(wanted.position, found, dead));
        }
        self.turn = wanted.position;
        self.claimed = true;
        self.courtesy.asked();
        let entered = wanted.phase == RequestPhase::Entered;
        if self.courtesy.wants {
            return self.unwant(entered);
        }
        self.on_asked(entered)
    }

    /// Continues after the turn was taken. A reader that took the head's own turn has the turn
    /// already, like a writer that entered with it: no rank had taken the turn, so no rank passed
    /// it.
    #[inline]
    fn on_asked(&mut self, entered: bool) -> Action {
        let had = self.kind == AccessKind::Read && self.turn == self.head.position;
        if entered || had { self.contents() } else { self.load_head() }
    }

    /// Handles the head while waiting.
    fn on_watch(&mut self) -> Action {
        if self.head.position < self.turn {
            let cell = self.geometry.cell(self.head.position);
            return self.access(Pending::WatchCell, cell, WordOp::Load);
        }
        if self.head.position > self.turn {
            // No rank passes the turn of a living rank.
            self.abandon();
            return Action::Refused(Refusal::Overwritten);
        }
        match (self.head.mark, self.kind) {
            (Some(_), _) if !self.recoverable => self.fail(),
            (_, AccessKind::Read) => self.contents(),
            (_, AccessKind::Write) => self.drain(0),
        }
    }

    /// Handles the cell of the head's turn while waiting.
    fn on_watch_cell(&mut self, found: u64, departed: &Departed) -> Action {
        let cell = RequestCell::of(found);
        let current = cell.position == self.head.position;
        if current && Direct::is_left(cell, departed) {
            return self.recover(cell, departed);
        }
        if current && self.is_to_be_asked_for(cell) {
            return self.ask_for(cell.rank);
        }
        self.rest()
    }

    fn rest(&mut self) -> Action {
        self.state = Pending::Rest;
        Action::Wait
    }

    /// Reads the readers' bits.
    fn drain(&mut self, at: u32) -> Action {
        self.access(Pending::Drain(at), Word::Readers(at), WordOp::Load)
    }

    fn on_drain(&mut self, at: u32, bits: u64, departed: &Departed) -> Action {
        let dead = departed.readers(at);
        if bits & dead != 0 {
            return self.access(Pending::Sweep(at), Word::Readers(at), WordOp::And(!dead));
        }
        if bits & READING != 0 {
            self.state = Pending::DrainRest;
            return Action::Wait;
        }
        if at + 1 < self.geometry.reader_words() {
            return self.drain(at + 1);
        }
        let position = self.turn;
        let (rank, kind, phase) = (self.geometry.rank, AccessKind::Write, RequestPhase::Entered);
        let cell = RequestCell { position, rank, kind, phase };
        self.access(Pending::Mark, self.geometry.cell(position), WordOp::Swap(cell.bits()))
    }

    /// Passes on the turn that this rank has, because the contents are lost.
    fn fail(&mut self) -> Action {
        self.mark = self.head.mark;
        self.access(Pending::Fail, Word::Head, WordOp::Swap(self.head.next().bits()))
    }

    /// Enters as a writer and keeps the turn.
    fn enter(&mut self) -> Action {
        self.mark = self.head.mark;
        self.on_entered()
    }

    fn on_entered(&mut self) -> Action {
        self.state = Pending::Inside;
        Action::Entered(EntryResult { moved: self.moved, mark: self.mark, position: self.turn })
    }

    fn on_fail(&mut self) -> Action {
        let mark = self.mark.expect("a turn fails for what is marked lost");
        self.refuse(Refusal::Lost(mark))
    }
}

/// The interface to the driver.
impl Direct {
    /// Requests the variable. This rank must neither hold nor request it.
    pub fn request(&mut self, kind: AccessKind, patience: Patience) {
        debug_assert_eq!(self.state, Pending::Idle, "one request at a time");
        self.kind = kind;
        self.patience = patience;
        self.claimed = false;
        self.moved = false;
        self.then = Then::Ask;
        self.courtesy.begin(kind);
        self.state = Pending::Start;
    }

    /// The next action, given the answer to the last one.
    #[inline]
    pub fn next(&mut self, answer: u64, departed: &Departed) -> Action {
        match self.state {
            Pending::Start => self.begin(),
            Pending::Head => {
                self.head = Head::of(answer);
                self.on_head()
            }
            Pending::Readers { at, owed } => self.on_readers(at, owed, answer, departed),
            Pending::Look(turn) => self.on_cell(turn, answer, departed),
            Pending::Claim { expected, wanted } => {
                self.on_claim(expected, wanted, answer, departed)
            }
            Pending::StandBack { at, owed } | Pending::SweepWants { at, owed } => {
                self.load_readers(at, owed)
            }
            Pending::Want => self.load_head(),
            Pending::Unwant { entered } => self.on_asked(entered),
            Pending::Watch => {
                self.head = Head::of(answer);
                self.on_watch()
            }
            Pending::WatchCell => self.on_watch_cell(answer, departed),
            Pending::Rest => self.load_head(),
            Pending::Drain(at) => self.on_drain(at, answer, departed),
            Pending::Sweep(at) => self.drain(at),
            Pending::DrainRest => self.drain(0),
            Pending::Mark => self.contents(),
            Pending::Fail => self.pass_on(self.head.next(), Then::Fail),
            Pending::Onward => self.load_follower(),
            Pending::Follower => self.on_follower(answer, departed),
            Pending::Hailed(rank) => self.on_hailed(rank, departed),
            Pending::Recover => self.on_recovery(answer, departed),
            Pending::Again => self.on_again(answer),
            Pending::ReadAgain => self.check_kept(Pending::StillKept),
            Pending::StillKept => self.on_still_kept(answer),
            Pending::Retreat => self.on_retreat(answer),
            Pending::Retreated => self.pass_on(Head::of(answer), Then::Ask),
            Pending::Inside | Pending::Idle => unreachable!("nothing was asked for"),
            _ => self.next_of_contents(answer, departed),
        }
    }
}
