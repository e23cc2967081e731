//! `direct`: a variable changes hands by remote atomics and remote reads alone.
//!
//! Nobody serves requests. Whoever wants a variable enters a queue in memory of its home, watches
//! for its turn there, and fetches the contents from the copy that is the newest; whoever lets go
//! makes it the next one's turn with one store. An owner that computes for seconds without calling
//! the library delays nobody: paper 001's owner has to read its mailbox and answer.
//!
//! ```text
//!   head ──► 7        cells   | 7: rank 2, write, entered |    has it
//!                             | 8: rank 0, read           |    waits
//!                             | 9: rank 1, write          |    waits
//!                             | 6: ...                    |    free: its turn is over
//! ```
//!
//! **Asking** is one compare-and-swap of the first free cell, from `head` on, to "turn *q*, rank,
//! kind". Turn and rank are taken in one step, so a rank that dies is known by every turn it has
//! taken. A rank has at most one request, so as many cells as ranks are enough. Turns come in
//! order: that is the fairness, of readers and writers alike. Whose swaps fail, being far from the
//! home, says so there, and others stand back for it: `wanting.rs`, with the bound.
//!
//! **A writer** has its turn when `head` is *q*, waits until the bits of all readers are gone, and
//! stays at the head until it lets go. **A reader** has its turn when `head` is *q*, fetches the
//! contents if the copy of its node is old, sets its bit, and passes the turn on at once: readers
//! behind it come in beside it, a writer behind it waits for its bit. New readers queue behind that
//! writer.
//!
//! **Free** is the case that has to be fast: head, readers and cell are loaded and the cell is
//! swapped to "entered" at once. If the swap succeeds, then `head` was *q* all the time, since it
//! passes no turn that nobody has taken; and bits of readers are only set by who has the turn, or
//! kept an earlier one and takes its bit back.
//! Letting go is one swap of `head`. On one node with up to four ranks all of it is in one line,
//! and it is done in one go: `short.rs`.
//!
//! **Contents.** `latest` says which turn wrote last and at which node; a node's `held` says which
//! write its copy holds. Equal is the paper's CLEAN: nothing moves (FG-03). `held` is zero while a
//! copy is written or fetched, so that what a rank leaves behind when it dies is never taken for
//! whole. Owner change and invalidation are one word, told to each node by an atomic maximum with
//! no processor of the node (FG-06); told by whom in what order does not matter, since a later
//! turn is a larger word.
//!
//! **Kept.** Whoever lets go of what it wrote twice in a row, far from the home, keeps the turn,
//! until somebody asks for it: the variable is acquired again by one swap of a word of its own
//! node. See `kept.rs`.
//!
//! **Giving up** marks the own cell. Whoever passes the turn on moves `head` over it and wakes the
//! one behind, or whoever gives up does, if the cell has the turn: `onward.rs`. The rank can take
//! the same turn again as long as it has not been passed.
//!
//! **Death**: see `recover.rs`.

mod data;
mod kept;
mod onward;
mod recover;
mod release;
mod short;
mod wanting;

use crate::departed::Departed;
use crate::geometry::{Geometry, Word};
use crate::protocol::{Action, Entry, Op, Patience, Protocol, Refusal};
use crate::word::{Cell, Head, Kind, Mark, Phase, READING, Version};
use kept::Keeping;
use onward::Then;
use recover::Recovery;
pub use short::{Free, Left};
use wanting::Courtesy;
pub use wanting::{FAILURES, FAILURES_NEAR, FAR_LOOK};

/// One rank's side of the protocol for one variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Direct {
    geometry: Geometry,
    recoverable: bool,
    kind: Kind,
    patience: Patience,
    state: State,
    /// The head as last seen.
    head: Head,
    /// The turn that this rank asked for; valid from [`State::Claim`] on.
    turn: u64,
    claimed: bool,
    /// Somebody reads, as seen before asking.
    readers: bool,
    latest: Version,
    /// Contents were fetched.
    moved: bool,
    recovery: Recovery,
    /// What passing turns on is for, and what was wrong with the contents that were had.
    then: Then,
    mark: Option<Mark>,
    courtesy: Courtesy,
    keeping: Keeping,
}

/// What the next answer is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
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
        wanted: Cell,
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
    /// Reading begins.
    Bit,
    Pass,
    /// Somebody's death, or a request that was given up.
    Recover,
    /// Lost: the turn is passed on.
    Fail,
    /// The turn was passed on: whose it is.
    Onward,
    Follower,
    Hailed(u32),
    /// Acquiring what is kept.
    Again,
    ReadAgain,
    StillKept,
    Retreat,
    Retreated,
    Inside,
    /// Letting go; those without an answer first.
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
    GivenUp,
    LastLook,
}

impl Direct {
    /// The side of `geometry.rank` for a variable at home at the rank `home`. One that is not
    /// `recoverable` is lost with a rank that may have been writing it; one that is comes back with
    /// a [`Mark`].
    pub fn new(geometry: Geometry, home: u32, recoverable: bool) -> Direct {
        let latest = Version { position: 0, node: 0, shared: false };
        Direct {
            geometry,
            recoverable,
            kind: Kind::Read,
            patience: Patience::Wait,
            state: State::Idle,
            head: Head { position: 0, mark: None },
            turn: 0,
            claimed: false,
            readers: false,
            latest,
            moved: false,
            recovery: Recovery::NONE,
            then: Then::Ask,
            mark: None,
            courtesy: Courtesy::new(&geometry, home),
            keeping: Keeping::NONE,
        }
    }

    /// Whether copies travel at all.
    #[inline]
    fn alone(&self) -> bool {
        self.geometry.ranks <= self.geometry.ranks_per_node
    }

    #[inline]
    fn access(&mut self, state: State, word: Word, op: Op) -> Action {
        self.state = state;
        Action::Access(word, op)
    }

    fn refuse(&mut self, refusal: Refusal) -> Action {
        self.state = State::Idle;
        Action::Refused(refusal)
    }

    /// Begins, or begins anew: looks whose turn it is.
    #[inline]
    fn look_at_head(&mut self) -> Action {
        let state = if self.claimed { State::Watch } else { State::Head };
        self.access(state, Word::Head, Op::Load)
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
        if self.kind == Kind::Write || !self.courtesy.done {
            return self.look_at_readers(0, READING);
        }
        self.look(self.head.position)
    }

    /// Who reads, and who wants to ask: that those of `owed` have asked is waited for.
    #[inline]
    fn look_at_readers(&mut self, at: u32, owed: u64) -> Action {
        self.access(State::Readers { at, owed }, Word::Readers(at), Op::Load)
    }

    #[inline]
    fn on_readers(&mut self, at: u32, owed: u64, bits: u64, departed: &Departed) -> Action {
        self.readers |= bits & READING != 0;
        if let Some(action) = self.let_past(at, owed, bits, departed) {
            return action;
        }
        if at + 1 < self.geometry.reader_words() {
            return self.look_at_readers(at + 1, READING);
        }
        if self.courtesy.end() {
            return self.look_at_head();
        }
        self.look(self.head.position)
    }

    #[inline]
    fn look(&mut self, turn: u64) -> Action {
        self.access(State::Look(turn), self.geometry.cell(turn), Op::Load)
    }

    /// The cell of a turn that might be had.
    #[inline]
    fn on_cell(&mut self, turn: u64, found: u64, departed: &Departed) -> Action {
        let cell = Cell::of(found);
        let first = turn == self.head.position;
        if cell.position < turn {
            return self.claim(turn, found, first && !self.readers);
        }
        if cell.position > turn {
            return self.overtaken().unwrap_or_else(|| self.look_at_head());
        }
        if first && Direct::is_left(cell, departed) {
            return self.recover(cell, departed);
        }
        if first && self.is_to_be_asked_for(cell) {
            return self.ask_for(cell.rank);
        }
        let again = cell.rank == self.geometry.rank && cell.phase == Phase::Gone;
        if again && self.patience == Patience::Wait {
            return self.claim(turn, found, false);
        }
        self.look_behind(turn)
    }

    /// Others have this turn; the next one might be had.
    #[inline]
    fn look_behind(&mut self, turn: u64) -> Action {
        if self.patience == Patience::Try {
            return self.refuse(Refusal::Busy);
        }
        if turn + 1 >= self.head.position + self.geometry.cells() {
            // Only if the head has moved on meanwhile: there is a cell for every rank.
            return self.overtaken().unwrap_or_else(|| self.look_at_head());
        }
        self.look(turn + 1)
    }

    /// Asks for a turn. `free`: nobody is before us, nobody reads.
    #[inline]
    fn claim(&mut self, turn: u64, expected: u64, free: bool) -> Action {
        let enters = match self.kind {
            Kind::Write => free,
            Kind::Read => turn == self.head.position,
        };
        if self.patience == Patience::Try && !enters {
            return self.refuse(Refusal::Busy);
        }
        let phase =
            if enters && self.kind == Kind::Write { Phase::Entered } else { Phase::Waiting };
        let wanted = Cell { position: turn, rank: self.geometry.rank, kind: self.kind, phase };
        let op = Op::CompareSwap { expected, new: wanted.bits() };
        self.access(State::Claim { expected, wanted }, self.geometry.cell(turn), op)
    }

    #[inline]
    fn on_claim(&mut self, expected: u64, wanted: Cell, found: u64, dead: &Departed) -> Action {
        if found != expected {
            let wants = self.overtaken();
            return wants.unwrap_or_else(|| self.on_cell(wanted.position, found, dead));
        }
        self.turn = wanted.position;
        self.claimed = true;
        self.courtesy.asked();
        let entered = wanted.phase == Phase::Entered;
        if self.courtesy.wants {
            return self.unwant(entered);
        }
        self.on_asked(entered)
    }

    /// A reader that took the turn which the head had, as a writer that entered with it, has that
    /// turn: nobody had taken it, so nobody passed it.
    #[inline]
    fn on_asked(&mut self, entered: bool) -> Action {
        let had = self.kind == Kind::Read && self.turn == self.head.position;
        if entered || had { self.contents() } else { self.look_at_head() }
    }

    /// The head, while waiting.
    fn on_watch(&mut self) -> Action {
        if self.head.position < self.turn {
            let cell = self.geometry.cell(self.head.position);
            return self.access(State::WatchCell, cell, Op::Load);
        }
        debug_assert_eq!(self.head.position, self.turn, "nobody passes a rank that lives");
        match (self.head.mark, self.kind) {
            (Some(_), _) if !self.recoverable => self.fail(),
            (_, Kind::Read) => self.contents(),
            (_, Kind::Write) => self.drain(0),
        }
    }

    /// Who has the turn, while waiting.
    fn on_watch_cell(&mut self, found: u64, departed: &Departed) -> Action {
        let cell = Cell::of(found);
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
        self.state = State::Rest;
        Action::Wait
    }

    /// Looks who reads.
    fn drain(&mut self, at: u32) -> Action {
        self.access(State::Drain(at), Word::Readers(at), Op::Load)
    }

    fn on_drain(&mut self, at: u32, bits: u64, departed: &Departed) -> Action {
        let dead = departed.readers(at);
        if bits & dead != 0 {
            return self.access(State::Sweep(at), Word::Readers(at), Op::And(!dead));
        }
        if bits & READING != 0 {
            self.state = State::DrainRest;
            return Action::Wait;
        }
        if at + 1 < self.geometry.reader_words() {
            return self.drain(at + 1);
        }
        let position = self.turn;
        let (rank, kind, phase) = (self.geometry.rank, Kind::Write, Phase::Entered);
        let cell = Cell { position, rank, kind, phase };
        self.access(State::Mark, self.geometry.cell(position), Op::Swap(cell.bits()))
    }

    /// The turn is ours and nothing was said about its contents: it is passed on.
    fn fail(&mut self) -> Action {
        self.mark = self.head.mark;
        self.access(State::Fail, Word::Head, Op::Swap(self.head.next().bits()))
    }

    /// A writer's, whose turn goes on.
    fn enter(&mut self) -> Action {
        self.mark = self.head.mark;
        self.on_entered()
    }

    fn on_entered(&mut self) -> Action {
        self.state = State::Inside;
        Action::Entered(Entry { moved: self.moved, mark: self.mark, position: self.turn })
    }

    fn on_fail(&mut self) -> Action {
        let mark = self.mark.expect("a turn fails for what is marked lost");
        self.refuse(Refusal::Lost(mark))
    }
}

impl Protocol for Direct {
    fn request(&mut self, kind: Kind, patience: Patience) {
        debug_assert_eq!(self.state, State::Idle, "one request at a time");
        self.kind = kind;
        self.patience = patience;
        self.claimed = false;
        self.moved = false;
        self.then = Then::Ask;
        self.courtesy.begin(kind);
        self.state = State::Start;
    }

    fn release(&mut self) {
        debug_assert_eq!(self.state, State::Inside, "what is let go was had");
        self.begin_release();
    }

    fn cancel(&mut self) -> bool {
        self.begin_cancel()
    }

    #[inline]
    fn next(&mut self, answer: u64, departed: &Departed) -> Action {
        match self.state {
            State::Start => self.begin(),
            State::Head => {
                self.head = Head::of(answer);
                self.on_head()
            }
            State::Readers { at, owed } => self.on_readers(at, owed, answer, departed),
            State::Look(turn) => self.on_cell(turn, answer, departed),
            State::Claim { expected, wanted } => self.on_claim(expected, wanted, answer, departed),
            State::StandBack { at, owed } | State::SweepWants { at, owed } => {
                self.look_at_readers(at, owed)
            }
            State::Want => self.look_at_head(),
            State::Unwant { entered } => self.on_asked(entered),
            State::Watch => {
                self.head = Head::of(answer);
                self.on_watch()
            }
            State::WatchCell => self.on_watch_cell(answer, departed),
            State::Rest => self.look_at_head(),
            State::Drain(at) => self.on_drain(at, answer, departed),
            State::Sweep(at) => self.drain(at),
            State::DrainRest => self.drain(0),
            State::Mark => self.contents(),
            State::Fail => self.pass_on(self.head.next(), Then::Fail),
            State::Onward => self.look_at_follower(),
            State::Follower => self.on_follower(answer, departed),
            State::Hailed(rank) => self.on_hailed(rank, departed),
            State::Recover => self.on_recovery(answer, departed),
            State::Again => self.on_again(answer),
            State::ReadAgain => self.look_whether_kept(State::StillKept),
            State::StillKept => self.on_still_kept(answer),
            State::Retreat => self.on_retreat(answer),
            State::Retreated => self.pass_on(Head::of(answer), Then::Ask),
            State::Inside | State::Idle => unreachable!("nothing was asked for"),
            _ => self.next_of_contents(answer, departed),
        }
    }
}
