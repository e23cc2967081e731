//! The state that all communicators of a rank share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::rc::{Rc, Weak};

use hikyaku_coll::{Choices, CollectiveBook};
use hikyaku_msg::{Engine, EngineConfig, Envelope, WayTally};
use hikyaku_nic::fabric::{PeerState, Port};
use hikyaku_nic::hosted::StoreCounts;
use hikyaku_shm::COUNTS;

use crate::contexts::{self, CONTEXTS, LeaderNumbers, Proposal};
use crate::frequent::RingMoves;
use crate::port::RankPort;
use crate::tasks::Tasks;
use crate::threads::Threads;

// A rank's counts of its long messages and landing rings must fit in the place where all ranks'
// counts are added up.
const _: () = assert!(WayTally::WORDS + RingMoves::WORDS + StoreCounts::WORDS <= COUNTS);

/// The number of retired contexts that are remembered. Messages for older ones arrived long ago.
const RETIRED_MOST: usize = 64;

/// A rank of a job: its engine, and the operations in flight.
#[derive(Debug)]
pub struct Rank {
    pub(crate) engine: RefCell<Engine<RankPort>>,
    /// The last context that all ranks count alike.
    counted: Cell<u32>,
    /// The number of calls to make a communicator of a set of ranks, by context and set.
    calls: RefCell<BTreeMap<(u32, u32), u32>>,
    /// The contexts that this rank leads.
    pub(crate) numbers: RefCell<LeaderNumbers>,
    /// Communicators that have ended here: their contexts, in which a send may still wait to be
    /// posted, and their books.
    ending: RefCell<Vec<(u32, Rc<CollectiveBook>)>>,
    /// Freed contexts: messages that still arrive in them are dropped.
    ended: RefCell<VecDeque<u32>>,
    /// The number of unexpected messages at the last check of them.
    looked_through: Cell<u64>,
    /// Operations in flight that make progress only when they are polled.
    pub(crate) tasks: Tasks,
    /// Algorithms chosen by name.
    pub(crate) choices: Choices,
    /// Retired contexts of collectives, with their books: messages that still arrive are dropped.
    pub(crate) retired: RefCell<VecDeque<(u32, Rc<CollectiveBook>)>>,
    /// The threads that use it.
    pub(crate) threads: Threads,
    /// Whether no contexts are counted, because ranks make communicators in different orders.
    pub(crate) counts_none: Cell<bool>,
    /// The interface that owns its shared variables.
    pub(crate) has_variables: Cell<Option<usize>>,
    /// The file for its part of the job's trace when it leaves, if one is made.
    trace: RefCell<Option<File>>,
}

impl Drop for Rank {
    fn drop(&mut self) {
        // A rank that panics has no more duties, and must not wait for room.
        let is_rank = !self.engine.borrow().port().is_forked();
        if is_rank && !std::thread::panicking() {
            let engine = self.engine.get_mut();
            engine.flush();
            let (tally, moves) = (engine.way_tally(), engine.port().ring_moves());
            let stores = engine.port().store_counts();
            let others = (moves, stores) != Default::default();
            if tally.is_some() || others {
                let tally = tally.cloned().unwrap_or_default();
                let words = tally.words().chain(moves.words()).chain(stores.words());
                engine.port().host().add_counts(words);
            }
            if let (Some(sent), Some(file)) = (engine.traffic(), self.trace.get_mut()) {
                // After an error this rank's last row is missing, which the reader of a trace
                // detects.
                let _ = file.write_all(sent.rows(engine.rank()).as_bytes());
            }
        }
    }
}

impl Rank {
    /// The rank of a port on which no message has been sent or received yet.
    pub(crate) fn new(port: RankPort, choices: Choices) -> Rank {
        let mut engine = Engine::new(port, EngineConfig::default());
        engine.port_mut().move_rings();
        if engine.port().host().layout().shared_rings() > 0 {
            engine.begin_moving_rings();
        }
        Rank {
            engine: RefCell::new(engine),
            counted: Cell::new(0),
            calls: RefCell::default(),
            numbers: RefCell::default(),
            ending: RefCell::default(),
            ended: RefCell::default(),
            looked_through: Cell::new(0),
            tasks: Tasks::default(),
            choices,
            retired: RefCell::default(),
            threads: Threads::default(),
            counts_none: Cell::new(false),
            has_variables: Cell::new(None),
            trace: RefCell::default(),
        }
    }

    /// Starts to count this rank's traffic by destination, and appends it to `file` when it leaves.
    pub(crate) fn trace_into(&self, file: File) {
        self.engine.borrow_mut().trace_traffic(contexts::kind_of);
        *self.trace.borrow_mut() = Some(file);
    }

    /// The next of the contexts that all ranks count alike.
    pub(crate) fn count_context(&self) -> u32 {
        let context = contexts::next_counted(self.counted.get());
        self.counted.set(context);
        context
    }

    /// Ends a communicator, and leaves its lines. If its context has a leader, the leader is
    /// notified after all sends in it are posted: now, or when the next communicator is made or
    /// ends.
    fn end_context(&self, context: u32, book: &Rc<CollectiveBook>) {
        self.ending.borrow_mut().push((context, Rc::clone(book)));
        if let Ok(mut engine) = self.engine.try_borrow_mut() {
            self.give_back(&mut engine);
        }
    }

    /// Frees the contexts of ended communicators.
    pub(crate) fn give_back(&self, engine: &mut Engine<RankPort>) {
        if engine.port().is_forked() {
            return;
        }
        self.ending.borrow_mut().retain(|(context, book)| {
            book.leave(engine.port_mut());
            engine.port_mut().names_mut().forget(*context);
            let Some((leader, number)) = contexts::leader_of(*context) else { return false };
            let all = *context..context + CONTEXTS;
            if all.clone().any(|context| engine.is_sending_in(context)) {
                return true;
            }
            all.for_each(|context| engine.drop_context(context));
            // Not by a look at all: one context may have thousands.
            let sets = (*context, 0)..=(*context, u32::MAX);
            self.calls.borrow_mut().extract_if(sets, |_, _| true).for_each(drop);
            let mut ended = self.ended.borrow_mut();
            ended.truncate(RETIRED_MOST - 1);
            ended.push_front(*context);
            self.tell_leader(engine, leader, number);
            false
        });
    }

    /// Marks a context, which may have been used before, as in use.
    pub(crate) fn begin_context(&self, context: u32) {
        self.ended.borrow_mut().retain(|other| *other != context);
    }

    /// Whether an unexpected message has arrived since the last call. Older ones, which the program
    /// may receive later, are not checked at each call.
    pub(crate) fn has_something_come(&self) -> bool {
        let come = self.engine.borrow().left_overs_come();
        self.looked_through.replace(come) != come
    }

    /// Drops messages in freed contexts, and reads the notes about freed ones.
    pub(crate) fn drop_what_ended(&self) {
        let mut engine = self.engine.borrow_mut();
        if engine.port().is_forked() {
            return;
        }
        let ended = self.ended.borrow();
        engine.drop_what_came(|context| ended.contains(&(context / CONTEXTS * CONTEXTS)));
        self.take_returns(&mut engine);
    }

    /// Reads the notes of ranks that no longer use a context which this rank leads.
    fn take_returns(&self, engine: &mut Engine<RankPort>) {
        let mut numbers = self.numbers.borrow_mut();
        while let Some((note, _)) = engine.take_note(contexts::RETURNS, |_| true) {
            numbers.give_back(note.tag as u32, note.source);
        }
    }

    fn tell_leader(&self, engine: &mut Engine<RankPort>, leader: u32, number: u32) {
        if leader == engine.rank() {
            self.numbers.borrow_mut().give_back(number, leader);
            return;
        }
        let (destination, context) = (leader, contexts::RETURNS);
        // A leader that is gone need not know.
        let _ = engine.send_note(&[], Envelope { destination, context, tag: number as i32 });
    }

    /// The number of the first operation of a call to make a communicator of some ranks.
    pub(crate) fn count_call(&self, context: u32, set: u32) -> u32 {
        let mut calls = self.calls.borrow_mut();
        let count = calls.entry((context, set)).or_default();
        *count = count.wrapping_add(2);
        set.wrapping_add(*count)
    }

    /// A number for a communicator that this rank may lead.
    pub(crate) fn propose(&self) -> Option<Proposal> {
        let mut engine = self.engine.borrow_mut();
        self.give_back(&mut engine);
        self.take_returns(&mut engine);
        let mut numbers = self.numbers.borrow_mut();
        let gone =
            |rank| matches!(engine.port().peer(rank), PeerState::Left | PeerState::Failed(_));
        numbers.propose(gone)
    }

    pub(crate) fn retire(&self, context: u32, book: &Rc<CollectiveBook>) {
        let mut retired = self.retired.borrow_mut();
        retired.truncate(RETIRED_MOST - 1);
        retired.push_front((context, Rc::clone(book)));
    }
}

/// The context and the lines of a communicator, as long as this rank uses them.
#[derive(Debug)]
pub(crate) struct Lease {
    rank: Rc<Rank>,
    context: u32,
    book: Rc<CollectiveBook>,
}

impl Lease {
    pub(crate) fn new(rank: &Rc<Rank>, context: u32, book: &Rc<CollectiveBook>) -> Lease {
        Lease { rank: Rc::clone(rank), context, book: Rc::clone(book) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.rank.end_context(self.context, &self.book);
    }
}

/// A weak handle on a rank.
#[derive(Debug)]
pub struct Observer(Weak<Rank>);

impl Observer {
    pub(crate) fn of(rank: &Rc<Rank>) -> Observer {
        Observer(Rc::downgrade(rank))
    }

    /// Calls `act` with the engine and the operations in flight. `None`: the rank has left.
    pub fn with_engine<R>(
        &self,
        act: impl FnOnce(&RefCell<Engine<RankPort>>, &Tasks) -> R,
    ) -> Option<R> {
        self.0.upgrade().map(|rank| act(&rank.engine, &rank.tasks))
    }
}
