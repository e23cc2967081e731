//! Schedules the turns of ranks and the arrivals of parcels.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::rc::{Rc, Weak};

use hikyaku_nic::fabric::{FullCause, Granularity, Port, PostError, QueueAddress, QueuePort, Rank};
use hikyaku_nic::hosted::{
    ActionOutbox, ChainedPut, ConductorAnswer, ConductorRequest, Deed, HostedPort, OutboxContents,
};
use hikyaku_nic::time::Time;

use super::parcels::{JobParcels, ParcelContent, RankParcel};
use super::{Config, Ended, Ranks};
use crate::engine::{Component, ComponentId, Progress, RecordKind, Sim, TraceRecord};
use crate::error::SimError;
use crate::job::{self, Carrier, Consignee};

/// The number of consecutive rounds of poll turns without progress after which ranks count as
/// waiting for ever. A call polls fewer times before it reports what it waits for.
const LOOKS_AROUND: u32 = 48;

/// The same limit for turns in which ranks only poll: a base, and an addition per rank.
const IDLE_TURNS: (u64, u64) = (1 << 16, 256);

/// A rank that is parked through this share of those turns, of whatever kind, gets a turn to poll.
/// So a parked rank reports what it waits for before the polls of other ranks end the job.
const REST_SHARE: u64 = 32;

/// The kinds of events, in the upper bits of the word. The lower bits are a rank or a parcel.
const TURN: u32 = 0;
const DEPART: u32 = 1 << 29;
const ARRIVE: u32 = 2 << 29;
const WAKE: u32 = 3 << 29;
const RETRY: u32 = 4 << 29;
const KIND: u32 = 7 << 29;

/// Messages and bytes of one rank so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankTraffic {
    /// Sends, puts, and other commands that left the rank.
    pub messages: u64,
    /// The bytes of their payload.
    pub bytes: u64,
    /// The time when the rank left the job, or its time so far.
    pub now: Time,
    /// Whether the rank has left or died.
    pub gone: bool,
}

/// Conducts a job on a simulated machine.
pub struct MachineConductor<R: Ranks>(Rc<ConductorState<R>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RankStatus {
    /// Its turn is due, or it is running.
    Ready,
    /// Waits until it is woken, or until its deadline.
    Parked,
    /// Waits until its command has arrived, or the reply.
    Travelling,
    /// Waits until its chain is answered.
    AwaitsAnswers,
    Gone,
}

#[derive(Debug, Clone, Copy)]
struct ConductedRank {
    status: RankStatus,
    /// The time of its next turn. Events for other times are out of date.
    due: Option<Time>,
    answer: ConductorAnswer,
    /// The number of answers to its chain that it waits for. Negative if answers arrived before it
    /// waited.
    answers: i64,
    /// Whether it has been woken since it last parked.
    woken: bool,
    /// The number of its turns so far.
    turns: u64,
    /// The number of turns of all ranks when it last parked.
    parked_at: u64,
    /// Whether it did something before its last request, or computes until its turn.
    busy: bool,
    computed: Time,
    traffic: RankTraffic,
}

struct ConductorState<R: Ranks> {
    sim: Sim,
    ranks: R,
    carrier: Rc<dyn Carrier>,
    config: Config,
    component: OnceCell<ComponentId>,
    states: RefCell<Vec<ConductedRank>>,
    parcels: RefCell<JobParcels>,
    ports: RefCell<Vec<HostedPort<R::Host>>>,
    outbox: ActionOutbox,
    /// The arrival of the last parcel between two ranks of a node. No later parcel overtakes it.
    near: RefCell<BTreeMap<(Rank, Rank), Time>>,
    /// The number of deeds and arrivals so far, except of commands. They are progress.
    moves: Cell<u64>,
    /// The number of turns without deeds since the last progress.
    idle: Cell<u64>,
    /// The number of turns so far, and their number at the last search for parked ranks.
    turns: Cell<u64>,
    searched: Cell<u64>,
    stuck: Cell<bool>,
    traced: bool,
}

impl<R: Ranks> fmt::Debug for MachineConductor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineConductor").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl<R: Ranks> MachineConductor<R> {
    /// Conducts these ranks. Their nodes are the first nodes of the carrier. Switch the
    /// simulation's trace on before this call, which decides whether the trace is written.
    ///
    /// # Errors
    /// [`SimError::TooManyRanks`] if the carrier has too few nodes.
    pub fn new(
        sim: &Sim,
        ranks: R,
        carrier: Rc<dyn Carrier>,
        config: Config,
    ) -> Result<MachineConductor<R>, SimError> {
        let count = ranks.count();
        let (needed, nodes) = (ranks.node_of(count - 1) + 1, carrier.nodes());
        if needed > nodes {
            let per_node = count.div_ceil(needed);
            return Err(SimError::TooManyRanks { ranks: count, per_node, needed, nodes });
        }
        let outbox = ActionOutbox::default();
        let state = ConductedRank {
            status: RankStatus::Ready,
            due: None,
            answer: ConductorAnswer::GoOn,
            answers: 0,
            woken: false,
            turns: 0,
            parked_at: 0,
            busy: false,
            computed: Time::ZERO,
            traffic: RankTraffic::default(),
        };
        let inner = Rc::new(ConductorState {
            sim: sim.clone(),
            carrier,
            config,
            component: OnceCell::new(),
            states: RefCell::new(vec![state; count as usize]),
            parcels: RefCell::default(),
            ports: RefCell::new((0..count).map(|rank| ranks.interface(rank, &outbox)).collect()),
            outbox,
            near: RefCell::default(),
            moves: Cell::new(0),
            idle: Cell::new(0),
            turns: Cell::new(0),
            searched: Cell::new(0),
            stuck: Cell::new(false),
            traced: sim.trace().is_on(),
            ranks,
        });
        let _ = inner.component.set(sim.register(Rc::clone(&inner) as Rc<dyn Component>));
        let consignee: Weak<dyn Consignee> = Rc::downgrade(&inner) as Weak<dyn Consignee>;
        inner.carrier.connect(consignee);
        Ok(MachineConductor(inner))
    }

    /// The traffic that each rank has sent so far.
    pub fn traffic(&self) -> Vec<RankTraffic> {
        self.0.states.borrow().iter().map(|state| state.traffic).collect()
    }

    /// The number of parcels in flight.
    pub fn in_flight(&self) -> usize {
        self.0.parcels.borrow().moving.len()
    }

    /// Runs the job until every rank has left. Every `interval` events it asks `observe` whether to
    /// continue.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn run(
        &self,
        interval: u64,
        mut observe: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<(), Ended> {
        let inner = &self.0;
        for rank in 0..inner.ranks.count() {
            let (now, request) = inner.ranks.begin(rank);
            inner.take(rank, now, request);
        }
        let mut looks = 0;
        loop {
            let moves = inner.moves.get();
            let ran = inner.sim.run_observed(interval, &mut observe);
            if inner.stuck.get() {
                return Err(inner.stuck());
            }
            ran?;
            if inner.moves.get() != moves {
                looks = 0;
            }
            if !inner.look_around() {
                return Ok(());
            }
            looks += 1;
            if looks > LOOKS_AROUND {
                return Err(inner.stuck());
            }
        }
    }

    /// Serves a request of a rank that the conductor did not run, for ranks that are stepped from
    /// outside. Completes everything in flight, and lets the rank continue, whether or not it was
    /// woken.
    ///
    /// # Errors
    /// [`Ended::Sim`].
    pub fn serve(&self, rank: Rank, now: Time, request: ConductorRequest) -> Result<(), Ended> {
        let inner = &self.0;
        inner.take(rank, now, request);
        inner.sim.run()?;
        let parked = inner.states.borrow()[rank as usize].status == RankStatus::Parked;
        if parked {
            inner.wake(rank);
            inner.sim.run()?;
        }
        Ok(())
    }
}

impl<R: Ranks> ConductorState<R> {
    fn schedule(&self, time: Time, word: u32) {
        let component = *self.component.get().expect("set when the conductor is made");
        self.sim.schedule(time, component, word);
    }

    fn moved(&self) {
        self.moves.set(self.moves.get() + 1);
        self.travelled();
    }

    /// Notes that a command travels, which ends a series of idle turns. It is not counted as
    /// progress: ranks may only be polling each other's memory repeatedly.
    fn travelled(&self) {
        self.idle.set(0);
    }

    fn record(&self, time: Time, kind: RecordKind, who: Rank, whom: Rank, what: u64) {
        if self.traced {
            self.sim.trace().add(TraceRecord { time, kind, who, whom, what });
        }
    }

    fn state<T>(&self, rank: Rank, change: impl FnOnce(&mut ConductedRank) -> T) -> T {
        change(&mut self.states.borrow_mut()[rank as usize])
    }

    /// Schedules a rank's next turn.
    fn set_due(&self, rank: Rank, time: Time, answer: ConductorAnswer) {
        let time = time.max(self.sim.now());
        self.state(rank, |state| (state.due, state.answer) = (Some(time), answer));
        self.schedule(time, TURN | rank);
    }

    /// Wakes a rank if it is parked. Otherwise it will not park.
    fn wake(&self, rank: Rank) {
        let now = self.sim.now();
        let due = self.state(rank, |state| match state.status {
            RankStatus::Parked => {
                let at = now.max(state.traffic.now);
                state.due.is_none_or(|due| due > at).then_some(at)
            }
            _ => {
                state.woken = true;
                None
            }
        });
        if let Some(at) = due {
            self.set_due(rank, at, ConductorAnswer::GoOn);
        }
    }

    /// Runs a rank's turn, if the event is still valid.
    fn turn(&self, rank: Rank) {
        let now = self.sim.now();
        let answer = self.state(rank, |state| {
            let meant = state.due == Some(now) && state.status != RankStatus::Gone;
            if !meant {
                return None;
            }
            state.due = None;
            // A rank that does not return from a wait has not polled yet: it is woken when it
            // waits.
            state.woken &= state.status != RankStatus::Parked;
            state.status = RankStatus::Ready;
            Some(state.answer)
        });
        let Some(answer) = answer else { return };
        if let Some((time, request)) = self.ranks.run(rank, now, answer) {
            self.take(rank, time, request);
        }
    }

    /// Counts a turn in which a rank has done nothing. After many such turns without progress,
    /// there will be none.
    fn count_idle(&self) {
        self.idle.set(self.idle.get() + 1);
        if self.idle.get() < self.idle_turns() || self.parcels.borrow().moving.len() > 0 {
            return;
        }
        // A parked rank no longer computes, whatever it did before.
        if !self.states.borrow().iter().any(|state| state.busy && state.status == RankStatus::Ready)
        {
            self.stuck.set(true);
            self.sim.stop();
        }
    }

    /// The number of turns without progress after which there will be none.
    fn idle_turns(&self) -> u64 {
        IDLE_TURNS.0 + IDLE_TURNS.1 * u64::from(self.ranks.count())
    }

    /// Counts a turn. At intervals, gives a turn to ranks that have been parked for long, because
    /// in real time no sleep is long either. Such a rank may learn that a peer has gone, and
    /// reports what it waits for, although other ranks run for ever.
    fn end_long_rests(&self) {
        let turns = self.turns.get() + 1;
        self.turns.set(turns);
        let searched = self.searched.get();
        if turns - searched < self.idle_turns() / REST_SHARE {
            return;
        }
        self.searched.set(turns);
        for rank in 0..self.ranks.count() {
            let rests = self.state(rank, |state| {
                state.status == RankStatus::Parked
                    && state.due.is_none()
                    && state.parked_at <= searched
            });
            if rests {
                self.set_due(rank, self.sim.now(), ConductorAnswer::LookAround);
            }
        }
    }

    /// Handles a rank's deeds and its request.
    fn take(&self, rank: Rank, time: Time, request: ConductorRequest) {
        let start = self.sim.now();
        let mut deeds = Vec::new();
        self.ranks.take_deeds(rank, &mut deeds);
        let computed = self.ranks.computed(rank);
        let end = time.max(start);
        let before = self.state(rank, |state| {
            state.traffic.now = end;
            state.turns += 1;
            state.busy = computed > state.computed || !deeds.is_empty();
            std::mem::replace(&mut state.computed, computed)
        });
        let computing = computed - before.min(computed);
        // Time in calls comes first: when a program computes, the other ranks catch up afterwards.
        let calling = (end - start).picoseconds().saturating_sub(computing.picoseconds());
        if calling > 0 {
            self.record(start, RecordKind::Call, rank, rank, calling);
        }
        if computing > Time::ZERO {
            let begin = start + Time::from_picoseconds(calling);
            self.record(begin, RecordKind::Compute, rank, rank, computing.picoseconds());
            self.moved();
        } else if deeds.is_empty() {
            self.count_idle();
        }
        let mut first = None;
        for (at, deed) in deeds {
            self.moved();
            self.take_deed(rank, at, deed, &mut first);
        }
        // There may be room: the rank may have received earlier datagrams in this turn.
        if self.leave_datagrams(rank) {
            self.wake(rank);
        }
        self.schedule_retries(rank, time);
        self.end_long_rests();
        match request {
            ConductorRequest::Start | ConductorRequest::CatchUp => {
                self.set_due(rank, time, ConductorAnswer::GoOn);
            }
            ConductorRequest::Park(deadline) => self.park(rank, time, deadline),
            // A command of a broken rank, which would never return: no time passes for it.
            ConductorRequest::Travel { from, to, bytes }
                if from.max(to) >= self.ranks.count() || bytes > self.ranks.most_bytes() =>
            {
                self.set_due(rank, time, ConductorAnswer::GoOn);
            }
            ConductorRequest::Travel { from, to, bytes } => {
                self.travelled();
                self.state(rank, |state| state.status = RankStatus::Travelling);
                let content = ParcelContent::Trip { rank, bytes };
                self.dispatch(time, RankParcel::new(from, to, content));
            }
            ConductorRequest::Answers(puts) => {
                self.state(rank, |state| state.status = RankStatus::AwaitsAnswers);
                self.count_answers(rank, i64::from(puts));
            }
            ConductorRequest::Leave => {
                self.moved();
                self.record(time, RecordKind::End, rank, rank, 0);
                self.state(rank, |state| {
                    state.status = RankStatus::Gone;
                    state.traffic.gone = true;
                });
            }
        }
    }

    /// Ends a rank's wait for its command, which has arrived, or for the reply.
    fn end_trip(&self, rank: Rank) {
        let at = self.state(rank, |state| {
            (state.status == RankStatus::Travelling).then(|| {
                state.status = RankStatus::Ready;
                state.traffic.now
            })
        });
        if let Some(at) = at {
            self.set_due(rank, at, ConductorAnswer::GoOn);
        }
    }

    /// Changes the number of answers that a rank waits for: more for a new chain, fewer when one
    /// arrives. An answer may arrive before the rank waits for it, or while a command of the same
    /// chain travels.
    fn count_answers(&self, rank: Rank, more: i64) {
        let at = self.state(rank, |state| {
            state.answers += more;
            (state.status == RankStatus::AwaitsAnswers && state.answers <= 0).then(|| {
                state.status = RankStatus::Ready;
                state.traffic.now
            })
        });
        if let Some(at) = at {
            let refused = self.parcels.borrow_mut().end_chain(rank);
            self.set_due(rank, at, refused.map_or(ConductorAnswer::GoOn, ConductorAnswer::Refused));
        }
    }

    fn park(&self, rank: Rank, time: Time, deadline: Option<Time>) {
        let woken = self.state(rank, |state| {
            state.status = RankStatus::Parked;
            state.parked_at = self.turns.get();
            std::mem::take(&mut state.woken)
        });
        if woken {
            self.set_due(rank, time, ConductorAnswer::GoOn);
        } else if let Some(deadline) = deadline {
            self.set_due(rank, deadline.max(time), ConductorAnswer::GoOn);
        }
    }

    /// Handles one deed. `first` is the last send of this turn to another node that was no copy.
    fn take_deed(&self, rank: Rank, at: Time, deed: Deed, first: &mut Option<u32>) {
        let ranks = self.ranks.count();
        match deed {
            Deed::Wake(other) if other < ranks => self.schedule(at, WAKE | other),
            Deed::Run(queue) if queue.rank < ranks => {
                let content = ParcelContent::Run(queue);
                self.dispatch(at, RankParcel::new(queue.rank, queue.rank, content));
            }
            Deed::Announce { to, protocol, header, length, offset } if to < ranks => {
                let content = ParcelContent::Announce { protocol, header, length, offset };
                self.dispatch(at, RankParcel::new(rank, to, content));
            }
            Deed::Put(put) if put.to.rank < ranks => {
                let to = put.to.rank;
                let number = self.parcels.borrow_mut().count_put(rank);
                self.dispatch(at, RankParcel::new(rank, to, ParcelContent::Chained(put, number)));
            }
            Deed::Datagram { to, payload } => {
                let payload: Rc<[u8]> = payload.into();
                let mut first = None;
                for to in to.into_iter().filter(|to| *to < ranks && *to != rank) {
                    let content = ParcelContent::Datagram(Rc::clone(&payload));
                    let parcel = RankParcel::new(rank, to, content);
                    let is_near = self.ranks.node_of(rank) == self.ranks.node_of(to);
                    match first {
                        Some(first) if !is_near => self.parcels.borrow_mut().copy(first, parcel),
                        _ => {
                            let key = self.dispatch(at, parcel);
                            first = first.or((!is_near).then_some(key));
                        }
                    }
                }
            }
            Deed::Send(posted) if posted.destination < ranks => {
                let (to, is_copy) = (posted.destination, posted.copy);
                let parcel = RankParcel::new(rank, to, ParcelContent::Send(posted, 0));
                match *first {
                    Some(first) if is_copy => self.parcels.borrow_mut().copy(first, parcel),
                    _ => {
                        let key = self.dispatch(at, parcel);
                        if self.ranks.node_of(rank) != self.ranks.node_of(to) {
                            *first = Some(key);
                        }
                    }
                }
            }
            // A message of a broken rank is ignored.
            _ => {}
        }
    }

    /// Schedules the departure of a parcel.
    fn dispatch(&self, at: Time, parcel: RankParcel) -> u32 {
        let key = self.parcels.borrow_mut().moving.insert(parcel);
        self.schedule(at, DEPART | key);
        key
    }

    /// Sends a parcel and its copies: one command of its rank.
    fn depart(&self, key: u32) {
        let copies = self.parcels.borrow_mut().take_copies(key);
        let Some(parcel) = self.leave(key, true) else {
            return copies.into_iter().for_each(|copy| self.carry(self.leave(copy, true)));
        };
        if copies.is_empty() {
            return self.carry(Some(parcel));
        }
        let mut all = vec![parcel];
        // If the network cannot copy, each copy is a message of its own.
        let counts = self.carrier.multicast().is_none();
        all.extend(copies.into_iter().filter_map(|copy| self.leave(copy, counts)));
        all.sort_by_key(|parcel| parcel.destination);
        match self.carrier.multicast() {
            Some(multicast) => {
                // A node gets one copy. Further parcels for ranks of this node follow after it.
                let (mut others, mut last) = (Vec::new(), None);
                all.retain(|parcel| {
                    let again = last.replace(parcel.destination) == Some(parcel.destination);
                    if again {
                        others.push(*parcel);
                    }
                    !again
                });
                multicast.carry_to_all(&all);
                others.into_iter().for_each(|parcel| self.carry(Some(parcel)));
            }
            None => all.into_iter().for_each(|parcel| self.carry(Some(parcel))),
        }
    }

    /// Hands a parcel to the carrier now, if there is one.
    fn carry(&self, parcel: Option<job::Parcel>) {
        let Some(parcel) = parcel else { return };
        let now = self.sim.now();
        if self.carrier.carry(parcel, now).is_some() {
            let parcels = self.parcels.borrow();
            let Some(RankParcel { from, to, .. }) = parcels.moving.get(parcel.token as u32) else {
                return;
            };
            self.record(now, RecordKind::Depart, *from, *to, parcel.bytes);
        }
    }

    /// Sends a parcel from its rank: through the memory of a node, or over the carrier as the
    /// returned parcel. `counts`: whether it counts as a message.
    fn leave(&self, key: u32, counts: bool) -> Option<job::Parcel> {
        let now = self.sim.now();
        let (from, to, bytes, at_once, by_hand) = {
            let parcels = self.parcels.borrow();
            let RankParcel { from, to, content, .. } = parcels.moving.get(key)?;
            let at_once = matches!(content, ParcelContent::Run(_) | ParcelContent::Announce { .. });
            let by_hand = matches!(
                content,
                ParcelContent::Send(..) | ParcelContent::Chained(..) | ParcelContent::Datagram(_)
            );
            (*from, *to, content.bytes(), at_once, by_hand)
        };
        if at_once {
            self.arrive(key);
            return None;
        }
        if counts {
            self.state(from, |state| {
                state.traffic.messages += 1;
                state.traffic.bytes += bytes;
            });
        }
        self.record(now, RecordKind::Send, from, to, bytes);
        let (source, destination) = (self.ranks.node_of(from), self.ranks.node_of(to));
        if source == destination {
            let memory = &self.config.memory;
            // A sender copies before it reports the send. A copy without a processor takes time
            // here.
            let copied =
                memory.latency + if by_hand { Time::ZERO } else { memory.rate.time(bytes) };
            let mut near = self.near.borrow_mut();
            let last = near.entry((from, to)).or_default();
            *last = (*last).max(now + copied);
            self.schedule(*last, ARRIVE | key);
            return None;
        }
        let bytes = bytes + self.config.envelope_bytes;
        Some(job::Parcel { source, destination, bytes, token: u64::from(key) })
    }

    /// Handles the arrival of a parcel.
    fn arrive(&self, key: u32) {
        let Some(parcel) = self.parcels.borrow_mut().moving.remove(key) else { return };
        match parcel.content {
            ParcelContent::Trip { .. } | ParcelContent::Answer => self.travelled(),
            // A repeated refusal is no progress.
            ParcelContent::Refusal(..) => {}
            _ if parcel.refused.is_some() => {}
            _ => self.moved(),
        }
        let RankParcel { from, to, content, .. } = &parcel;
        let (from, to, bytes) = (*from, *to, content.bytes());
        if !matches!(content, ParcelContent::Run(_) | ParcelContent::Announce { .. }) {
            self.record(self.sim.now(), RecordKind::Arrive, to, from, bytes);
        }
        let (blocked, next) = {
            let parcels = self.parcels.borrow();
            let blocked = parcels.is_blocked(parcel.way()) && parcel.refused.is_none();
            (blocked, parcels.is_next(&parcel))
        };
        match parcel.content {
            ParcelContent::Trip { rank, .. } => self.end_trip(rank),
            ParcelContent::Answer => self.count_answers(to, -1),
            ParcelContent::Chained(put, number) => self.land_chained(from, &put, number),
            ParcelContent::Datagram(datagram) => {
                self.parcels.borrow_mut().keep_datagram((from, to), datagram);
                if self.leave_datagrams(to) {
                    self.wake(to);
                }
            }
            ParcelContent::Run(queue) => self.run_queue(queue),
            ParcelContent::Put(shipped) => {
                let mut ports = self.ports.borrow_mut();
                let port = &mut ports[from as usize];
                port.land_put(shipped.from, shipped.index, &shipped.put, &shipped.payload);
                drop(ports);
                self.attend_outbox();
                self.wake(to);
            }
            ParcelContent::Refusal(refused, cause) => self.take_back(*refused, cause),
            ParcelContent::Send(..) | ParcelContent::Announce { .. } if blocked => {
                self.parcels.borrow_mut().block(parcel);
            }
            ParcelContent::Announce { .. } if !next => self.parcels.borrow_mut().block(parcel),
            ParcelContent::Send(..) if !next => self.refuse(parcel, FullCause::RingRefused),
            ParcelContent::Send(..) | ParcelContent::Announce { .. } => _ = self.land(parcel),
        }
    }

    /// Leaves datagrams for a rank that waits for its turn. Returns whether one was left.
    fn leave_datagrams(&self, to: Rank) -> bool {
        let leave = |from, datagram: &[u8]| self.ranks.leave_datagram(from, to, datagram);
        self.parcels.borrow_mut().leave_datagrams(to, leave)
    }

    fn run_queue(&self, queue: QueueAddress) {
        self.ports.borrow_mut()[queue.rank as usize].help_queue(queue);
        self.attend_outbox();
        self.wake(queue.rank);
    }

    /// Lands a put of a chain. The answer to its last put to a rank travels back.
    fn land_chained(&self, from: Rank, put: &ChainedPut, number: u32) {
        // Real chains are cut at an error, so that no word announces missing data.
        if !self.parcels.borrow().has_refused_put(from, put.to.rank) {
            // An error: the target has changed its tables since the post.
            let landed = self.ports.borrow_mut()[from as usize].land_chained(put);
            if landed.is_err() {
                self.parcels.borrow_mut().refuse_put(from, put.to.rank, number);
            }
        }
        self.attend_outbox();
        if put.word.is_some() {
            // Its rank may have polled the word just before, and be about to wait for it.
            self.wake(put.to.rank);
        }
        if put.is_last {
            let answer = RankParcel::new(put.to.rank, from, ParcelContent::Answer);
            self.dispatch(self.sim.now(), answer);
        }
    }

    /// Lands a parcel as its source would. `false`: it waits for room.
    fn land(&self, mut parcel: RankParcel) -> bool {
        let (from, to) = (parcel.from, parcel.to);
        let landed = {
            let mut ports = self.ports.borrow_mut();
            let port = &mut ports[from as usize];
            match &mut parcel.content {
                ParcelContent::Send(posted, taken) => loop {
                    match port.post(&posted.rest(*taken)) {
                        Ok(more) => *taken += more,
                        // The sender had its own ring when it posted, and shares one now.
                        Err(PostError::SharedRing { .. }) => {
                            posted.granularity = Granularity::PerPacket;
                        }
                        Err(error) => break Err(error),
                    }
                    if *taken >= posted.payload.len() {
                        break Ok(());
                    }
                },
                ParcelContent::Announce { protocol, header, length, offset } => {
                    port.leave_record(to, (*protocol, *header), (*length, *offset))
                }
                _ => Ok(()),
            }
        };
        let is_send = matches!(parcel.content, ParcelContent::Send(..));
        if let Err(PostError::Full { cause, .. }) = landed {
            let refuses = matches!(cause, FullCause::RingRefused | FullCause::StatusRefused);
            if is_send && refuses {
                self.refuse(parcel, cause);
                self.attend_outbox();
                return false;
            }
            if !parcel.content.passes() {
                self.ranks.set_blocked(from, to, Some(cause));
            }
            self.parcels.borrow_mut().block_first(parcel);
        } else if is_send {
            // The parcel has landed. Or the target is gone or has changed its tables since the
            // post: then the parcel is lost, as in a real network.
            self.ranks.landed(from, to);
            if parcel.refused.is_some() {
                self.settle(&parcel);
            }
        }
        self.attend_outbox();
        if self.ranks.was_refused(from) {
            self.wake(from);
        }
        !matches!(landed, Err(PostError::Full { .. }))
    }

    /// Discards a parcel that found no room at a target that refuses. The refusal travels back over
    /// the network, and the sender sends the parcel again.
    fn refuse(&self, parcel: RankParcel, cause: FullCause) {
        let turns = self.state(parcel.to, |state| state.turns);
        let parcel = self.parcels.borrow_mut().refuse(parcel, turns);
        let (from, to) = (parcel.to, parcel.from);
        let content = ParcelContent::Refusal(Box::new(parcel), cause);
        self.dispatch(self.sim.now(), RankParcel::new(from, to, content));
    }

    /// Handles a refusal that has come back to the sender.
    fn take_back(&self, parcel: RankParcel, cause: FullCause) {
        if !parcel.content.passes() {
            self.ranks.set_blocked(parcel.from, parcel.to, Some(cause));
        }
        let turns = self.state(parcel.to, |state| state.turns);
        let again = self.parcels.borrow_mut().keep(parcel, turns);
        if let Some(parcel) = again {
            self.dispatch(self.sim.now(), parcel);
        }
    }

    /// Notes that a refused parcel has landed or is lost.
    fn settle(&self, parcel: &RankParcel) {
        self.moved();
        let way = parcel.way();
        if self.parcels.borrow_mut().settle(way) {
            if !way.passes {
                self.ranks.set_blocked(way.from, way.to, None);
            }
            self.wake(way.from);
            self.schedule(self.sim.now(), RETRY | way.to);
        }
    }

    /// Retries parcels that wait for room at a rank that has had a turn.
    fn schedule_retries(&self, rank: Rank, at: Time) {
        if self.parcels.borrow().await_turn(rank) {
            self.schedule(at, RETRY | rank);
        }
    }

    fn retry(&self, to: Rank) {
        let kept = self.parcels.borrow_mut().take_kept(to);
        for parcel in kept {
            self.dispatch(self.sim.now(), parcel);
        }
        let waiting = self.parcels.borrow().waiting_at(to);
        for way in waiting {
            while !self.parcels.borrow().has_refused(way) {
                let parcel = self.parcels.borrow_mut().unblock(way);
                let Some(parcel) = parcel else {
                    if !way.passes {
                        self.ranks.set_blocked(way.from, to, None);
                        self.wake(way.from);
                    }
                    break;
                };
                if !self.land(parcel) {
                    break;
                }
                self.moved();
            }
        }
    }

    /// Carries out the requests of the interfaces.
    fn attend_outbox(&self) {
        let OutboxContents { woken, shipped } = self.outbox.take();
        woken.into_iter().for_each(|rank| self.wake(rank));
        for shipped in shipped {
            let (from, to) = (shipped.from.rank, shipped.put.to.rank);
            self.dispatch(self.sim.now(), RankParcel::new(from, to, ParcelContent::Put(shipped)));
        }
    }

    /// Gives every waiting rank a turn to poll. Returns whether any rank waits.
    fn look_around(&self) -> bool {
        let mut any = false;
        for rank in 0..self.ranks.count() {
            let status = self.state(rank, |state| state.status);
            if status == RankStatus::Gone {
                continue;
            }
            if !self.ranks.is_there(rank) {
                // The rank died while it waited.
                self.take(rank, self.sim.now(), ConductorRequest::Leave);
                continue;
            }
            any = true;
            let at = self.state(rank, |state| state.traffic.now);
            self.set_due(rank, at, ConductorAnswer::LookAround);
        }
        any
    }

    fn stuck(&self) -> Ended {
        let states = self.states.borrow();
        let waits = |(rank, state): (Rank, &ConductedRank)| {
            (state.status != RankStatus::Gone).then_some(rank)
        };
        let waiting = (0..).zip(states.iter()).filter_map(waits).collect();
        Ended::Stuck { at: self.sim.now(), waiting }
    }
}

impl<R: Ranks> Component for ConductorState<R> {
    fn handle(&self, _sim: &Sim, word: u32) {
        let number = word & !KIND;
        match word & KIND {
            TURN => self.turn(number),
            DEPART => self.depart(number),
            ARRIVE => self.arrive(number),
            WAKE => self.wake(number),
            RETRY => self.retry(number),
            kind => unreachable!("nobody schedules an event of kind {kind:#x}"),
        }
    }
}

impl<R: Ranks> Consignee for ConductorState<R> {
    fn departed(&self, token: u64) {
        let parcels = self.parcels.borrow();
        if let Some(RankParcel { from, to, content, .. }) = parcels.moving.get(token as u32) {
            let (from, to, bytes) = (*from, *to, content.bytes());
            drop(parcels);
            self.record(self.sim.now(), RecordKind::Depart, from, to, bytes);
        }
    }

    fn delivered(&self, token: u64) {
        self.arrive(token as u32);
    }
}
