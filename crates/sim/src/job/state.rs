//! The state of a job: each rank's own time and lists, and the messages in flight.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::task::Context;

use hikyaku_nic::sync::prefetch_for_write;
use hikyaku_nic::time::Time;

use super::carrier::{Carrier, Coming, Consignee, Parcel};
use super::matching::{Lists, MessageInFlight, Tables};
use super::rank::{Content, Rank};
use super::request::{Departure, ReceivedMessage};
use super::{HostCosts, JobConfig, Payload};
use crate::engine::{
    Component, ComponentId, PrefetchStage, RecordKind, Sim, TaskId, TaskName, TraceRecord, Wakeup,
};
use crate::error::SimError;
use crate::slab::{NONE, Slab};
use crate::topology::Node;

/// The number of a message shares an event's word with a few bits.
const MOST_IN_FLIGHT: usize = 1 << 30;

/// The kind of the tasks of ranks, in reports.
const RANK: &str = "rank";

/// A simulated job: its ranks, and the carrier of their messages.
#[derive(Debug, Clone)]
pub struct Job(Rc<JobState>);

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport<R> {
    /// The result of each rank's program.
    pub results: Vec<R>,
    /// The time when each rank ended, in its own time.
    pub ends: Vec<Time>,
    /// The time when the last rank ended.
    pub end: Time,
    /// Messages and bytes.
    pub totals: Totals,
}

/// Messages and bytes of a job so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Messages whose receive has returned.
    pub received: u64,
    /// The bytes of the received messages.
    pub bytes_received: u64,
}

/// The work of one rank so far. It has waited for the rest of its time, beyond `computing` and
/// `calling`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time spent computing.
    pub computing: Time,
    /// Processor time spent in calls: overheads of sends and receives, copies within the node.
    pub calling: Time,
    /// Messages sent, messages received, and their bytes.
    pub totals: Totals,
}

/// The job's state, shared by its ranks.
pub(super) struct JobState {
    pub(super) sim: Sim,
    pub(super) config: JobConfig,
    carrier: Rc<dyn Carrier>,
    component: OnceCell<ComponentId>,
    pub(super) ranks: RefCell<Vec<RankState>>,
    pub(super) tables: RefCell<Tables>,
    sends: RefCell<Slab<PendingSend>>,
    totals: Cell<Totals>,
    traced: bool,
}

/// The state of one rank. Two cache lines, which processors fetch as a pair.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct RankState {
    /// The rank's own time, if it is ahead of the engine's.
    pub(super) local: Time,
    pub(super) lists: Lists,
    usage: Usage,
    /// The number of blocking sends since the rank last joined the engine's time.
    ahead: u32,
    /// The rank's task, if the job started it: a guess at the task that a message will wake.
    task: u32,
}

const _: () = assert!(size_of::<RankState>() == 128);

/// The place of a message in the sends of its rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainPlace {
    /// A single message, or the first of a chain. It pays for the start.
    First,
    /// A message behind another one of its chain.
    Chained,
}

/// A send whose departure is not known yet.
#[derive(Debug)]
struct PendingSend {
    /// The message. It is in flight until it has departed.
    message: u32,
    departed: Option<Time>,
    wakeup: Option<Wakeup>,
}

impl fmt::Debug for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Job {
    /// A job on a carrier. The job becomes the carrier's consignee. Switch the simulation's trace
    /// on before this call, which decides whether the job writes to it.
    ///
    /// # Errors
    /// [`SimError::TooManyRanks`] if the carrier has too few nodes.
    pub fn new(sim: &Sim, config: JobConfig, carrier: Rc<dyn Carrier>) -> Result<Job, SimError> {
        let JobConfig { ranks, ranks_per_node: per_node, .. } = config;
        let (needed, nodes) = (ranks.div_ceil(per_node.max(1)), carrier.nodes());
        if needed > nodes || per_node == 0 {
            return Err(SimError::TooManyRanks { ranks, per_node, needed, nodes });
        }
        let mut states = Vec::new();
        states.resize_with(ranks as usize, RankState::default);
        let inner = Rc::new(JobState {
            sim: sim.clone(),
            config,
            carrier,
            component: OnceCell::new(),
            ranks: RefCell::new(states),
            tables: RefCell::default(),
            sends: RefCell::default(),
            totals: Cell::default(),
            traced: sim.trace().is_on(),
        });
        let _ = inner.component.set(sim.register(Rc::clone(&inner) as Rc<dyn Component>));
        let consignee: Weak<dyn Consignee> = Rc::downgrade(&inner) as Weak<dyn Consignee>;
        inner.carrier.connect(consignee);
        Ok(Job(inner))
    }

    /// A rank's handle, for tasks that are started by hand.
    pub fn rank(&self, rank: u32) -> Rank {
        Rank { job: Rc::clone(&self.0), rank }
    }

    /// Messages and bytes so far.
    pub fn totals(&self) -> Totals {
        self.0.totals.get()
    }

    /// The work of a rank so far.
    ///
    /// # Panics
    /// There is no such rank.
    pub fn usage(&self, rank: u32) -> Usage {
        self.0.ranks.borrow()[rank as usize].usage
    }

    /// Messages in flight or unexpected.
    pub fn in_flight(&self) -> usize {
        self.0.tables.borrow().messages.len()
    }

    /// Starts the program on every rank. [`Sim::run`] then runs it.
    pub fn launch<F, R>(&self, program: impl Fn(Rank) -> F) -> JobResults<R>
    where
        F: Future<Output = R> + 'static,
        R: 'static,
    {
        let results = JobResults(Rc::new(RefCell::new(Vec::new())));
        results.0.borrow_mut().resize_with(self.0.config.ranks as usize, || None);
        for index in 0..self.0.config.ranks {
            let body = program(self.rank(index));
            let (job, results) = (Rc::clone(&self.0), results.clone());
            let task = self.0.sim.spawn(TaskName { kind: RANK, index }, async move {
                let result = body.await;
                let end = job.now(index);
                job.record(end, RecordKind::End, index, index, 0);
                results.0.borrow_mut()[index as usize] = Some((result, end));
            });
            self.0.ranks.borrow_mut()[index as usize].task = task.0;
        }
        results
    }

    /// Runs the program on every rank to its end.
    ///
    /// # Errors
    /// [`SimError::Deadlock`] with what each rank waits for; [`SimError::Stopped`].
    pub fn run<F, R>(&self, program: impl Fn(Rank) -> F) -> Result<JobReport<R>, SimError>
    where
        F: Future<Output = R> + 'static,
        R: 'static,
    {
        let results = self.launch(program);
        let ended = self.0.sim.run();
        ended.map_err(|error| self.explain(error))?;
        Ok(self.report(&results))
    }

    /// The report of a run in which every rank has ended. Results are returned only once.
    pub fn report<R>(&self, results: &JobResults<R>) -> JobReport<R> {
        let ended = results.0.take().into_iter().flatten();
        let (results, ends): (Vec<R>, Vec<Time>) = ended.unzip();
        let end = ends.iter().copied().max().unwrap_or_default();
        JobReport { results, ends, end, totals: self.totals() }
    }

    /// The state of every rank so far, whether or not the run has ended: the time of its end or its
    /// own time, its work, and its result. Results are returned only once.
    pub fn progress<R>(&self, results: &JobResults<R>) -> Vec<(Time, Usage, Option<R>)> {
        let ended = results.0.take();
        let of = |(rank, ended): (u32, Ended<R>)| match ended {
            Some((result, end)) => (end, self.usage(rank), Some(result)),
            None => (self.0.now(rank), self.usage(rank), None),
        };
        (0..).zip(ended).map(of).collect()
    }

    /// Adds the object of each rank's wait to a deadlock error.
    pub fn explain(&self, error: SimError) -> SimError {
        let SimError::Deadlock { at, mut stuck } = error else { return error };
        let ranks = self.0.ranks.borrow();
        for entry in stuck.iter_mut().filter(|entry| entry.name.kind == RANK) {
            if entry.waits_for == MESSAGE
                && let Some(rank) = ranks.get(entry.name.index as usize)
            {
                entry.waits_for = rank.lists.describe();
            }
        }
        SimError::Deadlock { at, stuck }
    }
}

/// The results of a program's ranks: [`Job::launch`].
#[derive(Debug)]
pub struct JobResults<R>(Rc<RefCell<Vec<Ended<R>>>>);

/// The result of a rank's program and its time, once it has ended.
type Ended<R> = Option<(R, Time)>;

impl<R> Clone for JobResults<R> {
    fn clone(&self) -> Self {
        JobResults(Rc::clone(&self.0))
    }
}

/// The object of a rank's wait in a receive.
pub(super) const MESSAGE: &str = "a message";

/// The kinds of the job's own events, in the low bit of the word. The message's number is above it.
const HAND_OVER: u32 = 0;
const ARRIVE: u32 = 1;

impl Component for JobState {
    fn handle(&self, sim: &Sim, word: u32) {
        match word & 1 {
            HAND_OVER => {
                if let Some(time) = self.hand_over(word >> 1, sim.now()) {
                    self.depart(word >> 1, time);
                }
            }
            _ => self.delivered(u64::from(word >> 1)),
        }
    }
}

impl Consignee for JobState {
    fn departed(&self, token: u64) {
        self.depart(token as u32, self.sim.now());
    }

    fn delivered(&self, token: u64) {
        let (key, now) = (token as u32, self.sim.now());
        let wakeup = {
            let mut tables = self.tables.borrow_mut();
            let flight = &tables.messages[key];
            let destination = flight.destination();
            self.record(now, RecordKind::Arrive, destination, flight.source(), flight.bytes());
            self.ranks.borrow_mut()[destination as usize].lists.arrive(&mut tables, key, now)
        };
        if let Some(wakeup) = wakeup {
            self.sim.wake(wakeup);
        }
    }

    fn prepare(&self, messages: &[Coming], stage: PrefetchStage) {
        if self.config.ranks_per_node > 1 {
            // The rank is not known without a search.
            return;
        }
        let (tables, ranks) = (self.tables.borrow(), self.ranks.borrow());
        for &Coming { token, destination } in messages {
            let (key, Some(rank)) = (token as u32, ranks.get(destination as usize)) else {
                continue;
            };
            match stage {
                PrefetchStage::First => {}
                PrefetchStage::Second => {
                    tables.messages.prepare(key);
                    let first = std::ptr::from_ref(rank).cast::<u8>();
                    prefetch_for_write(first);
                    prefetch_for_write(first.wrapping_add(64));
                }
                PrefetchStage::Third | PrefetchStage::Fourth => {
                    rank.lists.prepare(&tables, key, stage);
                    self.sim.prepare_task(TaskId(rank.task), stage == PrefetchStage::Fourth);
                }
            }
        }
    }
}

impl JobState {
    pub(super) fn sim(&self) -> &Sim {
        &self.sim
    }

    pub(super) fn config(&self) -> &JobConfig {
        &self.config
    }

    /// A rank's own time.
    pub(super) fn now(&self, rank: u32) -> Time {
        self.ranks.borrow()[rank as usize].local.max(self.sim.now())
    }

    /// Moves a rank's own time forward to at least `time`.
    pub(super) fn catch_up(&self, rank: u32, time: Time) {
        let state = &mut self.ranks.borrow_mut()[rank as usize];
        state.local = state.local.max(time);
    }

    pub(super) fn compute(&self, rank: u32, span: Time) {
        let start = self.now(rank);
        {
            let state = &mut self.ranks.borrow_mut()[rank as usize];
            state.local = start + span;
            state.usage.computing = state.usage.computing + span;
        }
        self.record(start, RecordKind::Compute, rank, rank, span.picoseconds());
    }

    /// Makes the rank's processor busy with a message from or to `peer` for a span. Returns the
    /// start.
    fn overhead(&self, rank: u32, peer: u32, span: Time) -> Time {
        self.overhead_at(self.now(rank), (rank, peer), span, |_| {})
    }

    /// The same from `start` on. Also counts the message for the rank and for the job.
    pub(super) fn overhead_at(
        &self,
        start: Time,
        (rank, peer): (u32, u32),
        span: Time,
        count: impl Fn(&mut Totals),
    ) -> Time {
        let mut totals = self.totals.get();
        count(&mut totals);
        self.totals.set(totals);
        {
            let state = &mut self.ranks.borrow_mut()[rank as usize];
            state.local = start + span;
            state.usage.calling = state.usage.calling + span;
            count(&mut state.usage.totals);
        }
        if span > Time::ZERO {
            self.record(start, RecordKind::Overhead, rank, peer, span.picoseconds());
        }
        start
    }

    /// The costs of a message for the processors at its ends.
    pub(super) fn host(&self, bytes: u64) -> HostCosts {
        let (own, carrier) = (self.config.host, self.carrier.host(bytes));
        HostCosts { send: own.send + carrier.send, receive: own.receive + carrier.receive }
    }

    /// Whether two ranks share a node, so that messages between them do not use the carrier.
    pub(super) fn are_together(&self, one: u32, other: u32) -> bool {
        self.node_of(one) == self.node_of(other)
    }

    /// The node of a rank, mostly without a division, since every message needs it four times.
    fn node_of(&self, rank: u32) -> Node {
        match self.config.ranks_per_node {
            1 => rank,
            several => rank / several,
        }
    }

    /// Counts a blocking send. Returns the number of such sends since the rank joined the engine's
    /// time.
    pub(super) fn count_ahead(&self, rank: u32) -> u32 {
        let state = &mut self.ranks.borrow_mut()[rank as usize];
        state.ahead = if state.local > self.sim.now() { state.ahead + 1 } else { 0 };
        state.ahead
    }

    pub(super) fn send(
        &self,
        from: u32,
        to: u32,
        tag: i32,
        (content, place): (Content<'_>, ChainPlace),
    ) -> Result<Departure, SimError> {
        let size = self.config.ranks;
        if to >= size {
            return Err(SimError::NoSuchRank { from, to, size });
        }
        let bytes = content.len();
        let key = self.enter(from, to, tag, content)?;
        let span = match (self.are_together(from, to), place) {
            (true, _) => self.config.host.send,
            (false, ChainPlace::First) => self.host(bytes).send,
            (false, ChainPlace::Chained) => self.config.host.send + self.carrier.chained(bytes),
        };
        let count = |totals: &mut Totals| {
            totals.sent += 1;
            totals.bytes_sent += bytes;
        };
        let start = self.overhead_at(self.now(from), (from, to), span, count);
        self.record(start, RecordKind::Send, from, to, bytes);
        let (source, destination) = (self.node_of(from), self.node_of(to));
        let parcel = Parcel { source, destination, bytes, token: u64::from(key) };
        Ok(self.start(key, from, parcel, start + span))
    }

    /// Enters a message into the job's table.
    fn enter(&self, from: u32, to: u32, tag: i32, content: Content<'_>) -> Result<u32, SimError> {
        let bytes = content.len();
        let data = match (self.config.payload, content) {
            (Payload::Carried, Content::Bytes(bytes)) => Some(bytes.into()),
            _ => None,
        };
        let message = ReceivedMessage { source: from, tag, bytes, data };
        let messages = &mut self.tables.borrow_mut().messages;
        let limit = self.config.in_flight.min(MOST_IN_FLIGHT);
        if messages.len() >= limit {
            return Err(SimError::TooManyMessages { limit });
        }
        Ok(messages.insert(MessageInFlight::new(to, message)))
    }

    /// Whether the network can copy a rank's message to all others.
    pub(super) fn multicasts(&self) -> bool {
        self.carrier.multicast().is_some() && self.config.ranks_per_node == 1
    }

    /// Charges a rank for one command to all others, and enters the messages.
    pub(super) fn describe_multicast(
        &self,
        from: u32,
        tag: i32,
        content: Content<'_>,
    ) -> Result<Vec<u32>, SimError> {
        if !self.multicasts() {
            return Err(SimError::Unsupported { what: "multicast" });
        }
        let bytes = content.len();
        let others = (0..self.config.ranks).filter(|to| *to != from);
        let keys = others.map(|to| self.enter(from, to, tag, content));
        let keys = keys.collect::<Result<Vec<u32>, _>>()?;
        let count = |totals: &mut Totals| {
            totals.sent += 1;
            totals.bytes_sent += bytes;
        };
        let span = self.host(bytes).send;
        let start = self.overhead_at(self.now(from), (from, from), span, count);
        for key in &keys {
            let to = self.tables.borrow().messages[*key].destination();
            self.record(start, RecordKind::Send, from, to, bytes);
        }
        Ok(keys)
    }

    /// Hands these messages to the carrier now.
    pub(super) fn start_multicast(&self, keys: &[u32]) -> Vec<Departure> {
        let Some(multicast) = self.carrier.multicast() else { return Vec::new() };
        let departures =
            keys.iter().map(|key| Departure::Awaited(self.expect_departure(*key))).collect();
        let parcels: Vec<Parcel> = keys.iter().map(|key| self.parcel(*key)).collect();
        multicast.carry_to_all(&parcels);
        departures
    }

    /// Starts a message: through memory, or over the carrier, now or at its time.
    fn start(&self, key: u32, from: u32, parcel: Parcel, at: Time) -> Departure {
        if parcel.source == parcel.destination {
            return Departure::Known(self.copy(key, from, at));
        }
        if self.carrier.takes_ahead() {
            return match self.carrier.carry(parcel, at) {
                Some(time) => Departure::Known(time),
                None => Departure::Awaited(self.expect_departure(key)),
            };
        }
        // The send needs its number before the carrier may report its departure.
        let send = self.expect_departure(key);
        if at > self.sim.now() {
            self.schedule(at, key << 1 | HAND_OVER);
        } else if let Some(time) = self.carrier.carry(parcel, at) {
            self.sends.borrow_mut().remove(send);
            return Departure::Known(time);
        }
        Departure::Awaited(send)
    }

    fn expect_departure(&self, key: u32) -> u32 {
        let pending = PendingSend { message: key, departed: None, wakeup: None };
        let send = self.sends.borrow_mut().insert(pending);
        self.tables.borrow_mut().messages[key].send = send;
        send
    }

    /// Copies a message within a node. The sending processor copies, and the receiver sees the copy
    /// a little later.
    fn copy(&self, key: u32, from: u32, at: Time) -> Time {
        let bytes = self.tables.borrow().messages[key].bytes();
        let span = self.config.memory.rate.time(bytes);
        self.overhead(from, from, span);
        let done = at + span;
        self.schedule(done + self.config.memory.latency, key << 1 | ARRIVE);
        done
    }

    fn schedule(&self, time: Time, word: u32) {
        let component = self.component.get().expect("set when the job is made");
        self.sim.schedule(time, *component, word);
    }

    fn hand_over(&self, key: u32, at: Time) -> Option<Time> {
        self.carrier.carry(self.parcel(key), at)
    }

    /// The message in the form for the carrier.
    fn parcel(&self, key: u32) -> Parcel {
        let tables = self.tables.borrow();
        let flight = &tables.messages[key];
        Parcel {
            source: self.node_of(flight.source()),
            destination: self.node_of(flight.destination()),
            bytes: flight.bytes(),
            token: u64::from(key),
        }
    }

    /// Records the departure time of a message.
    fn depart(&self, key: u32, time: Time) {
        let Some(send) = self.tables.borrow_mut().messages.get_mut(key).map(|m| m.send) else {
            return;
        };
        let wakeup = self.sends.borrow_mut().get_mut(send).and_then(|pending| {
            pending.departed = Some(time);
            pending.wakeup.take()
        });
        if let Some(wakeup) = wakeup {
            self.sim.wake(wakeup);
        }
    }

    /// The time when a message departed, if it has.
    pub(super) fn departure(&self, send: u32, context: &Context<'_>) -> Option<Time> {
        let mut sends = self.sends.borrow_mut();
        let departed = sends[send].departed;
        match departed {
            Some(_) => drop(sends.remove(send)),
            None => sends[send].wakeup = Some(self.sim.wakeup(context, MESSAGE)),
        }
        departed
    }

    /// Forgets a send whose departure is no longer wanted.
    pub(super) fn forget_send(&self, send: u32) {
        let Some(pending) = self.sends.borrow_mut().remove(send) else { return };
        let mut tables = self.tables.borrow_mut();
        if pending.departed.is_none()
            && let Some(flight) = tables.messages.get_mut(pending.message)
        {
            flight.send = NONE;
        }
    }

    /// Begins a named phase of a rank, or ends the one that it began last.
    pub(super) fn mark(&self, rank: u32, name: Option<&'static str>) {
        if !self.traced {
            return;
        }
        let number = name.map(|name| self.sim.trace().number(name));
        let kind = if name.is_some() { RecordKind::Enter } else { RecordKind::Leave };
        self.record(self.now(rank), kind, rank, rank, number.unwrap_or(0));
    }

    pub(super) fn record(&self, time: Time, kind: RecordKind, who: u32, whom: u32, what: u64) {
        if self.traced {
            self.sim.trace().add(TraceRecord { time, kind, who, whom, what });
        }
    }
}
