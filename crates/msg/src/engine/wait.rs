//! Test, wait, and the loop of every blocking call.
//!
//! A blocking call polls, and lets the port wait a little when nothing arrives. After some rounds
//! it starts to account for the time and announces through the port what it waits for, so that a
//! job that hangs can be diagnosed from outside. The first rounds are not accounted: reading the
//! clock would cost as much as a message.

use std::hint::spin_loop;

use hikyaku_nic::fabric::{Activity, CopyPort, PeerState, Rank, Wait, Wake};
use hikyaku_nic::time::Time;

use super::Engine;
use crate::envelope::{Received, Selector, context_of, tag_of};
use crate::error::MsgError;
use crate::request::{Receive, RequestId, RequestState, SendStage};
use crate::unexpected::UnexpectedEntry;

/// Idle rounds of a blocking call after which it accounts for its waiting.
const ANNOUNCE_ROUNDS: u32 = 32;

/// Idle rounds between two announcements of one wait: the peer that it waits for may have changed.
const RENEW_ROUNDS: u32 = 64;

/// Rounds of a blocking call, idle or not, after which it is announced even if every round had
/// events: they need not be the events that the call waits for, and may never end.
const LONG_ROUNDS: u32 = 1 << 12;

/// Idle rounds in a row between checks for sources that are held up.
const RELIEF_ROUNDS: u32 = 16;

/// Idle rounds in a row between checks for departed peers, and for announced messages whose
/// senders need not wait any longer.
pub(super) const GONE_ROUNDS: u32 = 64;

/// Idle rounds in a row after which a call fails if only this rank itself could end it.
const ALONE_ROUNDS: u32 = 256;

/// Longest sleep of a wait whose event may wake no rank: changed memory, datagrams, room.
pub const MEMORY_SLEEP: Time = Time::from_nanoseconds(1_000_000);

/// How a wait sleeps when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Until a wake-up: the rank that completes the wait sends one.
    Doorbell,
    /// For `most` at most, if given, and not beyond `until`: other ranks change memory, and may not
    /// wake this rank.
    Doze {
        /// The longest sleep.
        most: Option<Time>,
        /// The end of the wait.
        until: Option<Time>,
    },
}

impl Pace {
    /// Sleeps of [`MEMORY_SLEEP`].
    pub const MEMORY: Pace = Pace::memory(None);

    /// Sleeps of [`MEMORY_SLEEP`], and not beyond `until`.
    pub const fn memory(until: Option<Time>) -> Pace {
        Pace::Doze { most: Some(MEMORY_SLEEP), until }
    }
}

/// A blocking call in progress.
///
/// Each of its rounds polls the operations that it waits for, and rests ([`Engine::rest`]) if
/// nothing happened. In the round at whose end the wait is announced, each unsuccessful poll
/// reports its operation ([`Engine::report_wait`]). After progress the call is announced anew. A
/// round with progress is accounted for too ([`Engine::go_on`]): each loop of a blocking call ends
/// each of its rounds by one of the two, so every long call can be named.
#[derive(Debug)]
pub struct Blocked {
    /// The announcement if no operation is reported.
    wait: Wait,
    rounds: u32,
    /// All rounds, including those with progress.
    all: u32,
    /// [`Engine::turns`] at the last rest.
    turns: u64,
    since: Option<Time>,
    announced: Option<Wait>,
    /// The announcement before this one: of the enclosing wait.
    around: Option<Wait>,
}

impl Blocked {
    /// A call that waits as `wait` says, unless operations report otherwise.
    pub const fn new(wait: Wait) -> Blocked {
        let (since, announced, around) = (None, None, None);
        Blocked { wait, rounds: 0, all: 0, turns: 0, since, announced, around }
    }
}

/// The operations that the current call waits for, as reported by unsuccessful polls.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Whether the call is announced at the end of this round.
    pub(super) are_taken: bool,
    are_paused: bool,
    pub(super) count: u32,
    pub(super) first: Option<Wait>,
}

impl<P: CopyPort> Engine<P> {
    /// Takes the result of a request and frees it, if it is complete. Makes progress first if not.
    pub fn test(&mut self, id: RequestId) -> Option<Result<Received, MsgError>> {
        if let Some(result) = self.requests.take_done(id) {
            return Some(result);
        }
        if let Err(error) = self.check_process() {
            return Some(Err(error));
        }
        if !self.progress() {
            self.attend(None);
        }
        let done = self.requests.take_done(id);
        if done.is_none() {
            self.want(id);
            if self.reported_waits().is_some() {
                self.report_wait(self.wait_of(id));
            }
        }
        done
    }

    /// Takes and frees the result of the request that completed first among `ids`. Returns its
    /// place and the result. Makes progress first if none is complete.
    ///
    /// So receives that match the same messages complete in the order of arrival. Programs that
    /// keep several open rely on that, as HPCC's MPIRandomAccess does.
    pub fn test_any(&mut self, ids: &[RequestId]) -> Option<(usize, Result<Received, MsgError>)> {
        if self.requests.first_done(ids).is_none() {
            if let Err(error) = self.check_process() {
                return Some((0, Err(error)));
            }
            if !self.progress() {
                self.attend(None);
            }
        }
        let Some(at) = self.requests.first_done(ids) else {
            ids.iter().for_each(|id| self.want(*id));
            if let Some(first) = ids.first()
                && self.reported_waits().is_some()
            {
                self.report_wait(self.wait_of(*first));
            }
            return None;
        };
        Some((at, self.requests.take_done(ids[at])?))
    }

    /// Waits for a request and returns its result.
    ///
    /// # Errors
    /// The operation's error, or [`MsgError::WaitsForItself`].
    #[inline]
    pub fn wait(&mut self, id: RequestId) -> Result<Received, MsgError> {
        self.wait_for_first(id, 1)
    }

    /// [`Engine::wait`] for the first of `open` operations that the program waits for.
    ///
    /// # Errors
    /// As [`Engine::wait`].
    #[inline]
    pub fn wait_for_first(&mut self, id: RequestId, open: u32) -> Result<Received, MsgError> {
        if let Some(received) = self.wait_for_next(id) {
            return Ok(received);
        }
        match self.requests.take_done(id) {
            Some(result) => result,
            None => self.wait_long(&[id], open).1,
        }
    }

    /// Waits until one of several requests is complete. Returns its place and its result.
    ///
    /// An id that names no request counts as complete with [`MsgError::NoSuchRequest`]; so does an
    /// empty list, at place 0.
    pub fn wait_any(&mut self, ids: &[RequestId]) -> (usize, Result<Received, MsgError>) {
        match ids {
            [] => (0, Err(MsgError::NoSuchRequest)),
            ids => self.wait_long(ids, ids.len() as u32),
        }
    }

    /// Waits for one of `ids`, which belong to `open` operations that the program waits for.
    fn wait_long(&mut self, ids: &[RequestId], open: u32) -> (usize, Result<Received, MsgError>) {
        let mut blocked = None;
        // Not `idle_rounds`, which continues the count of earlier waits: a message to this rank may
        // still be in flight.
        let mut alone_rounds = 0;
        let mut busy_rounds = 0u32;
        let done = loop {
            let complete = ids.iter().position(|id| self.requests.is_done(*id));
            if let Some(at) = complete
                && let Some(result) = self.requests.take_done(ids[at])
            {
                break (at, result);
            }
            if self.progress() {
                alone_rounds = 0;
                busy_rounds = busy_rounds.saturating_add(1);
                // A short wait pays nothing for this.
                if busy_rounds >= LONG_ROUNDS {
                    let new = || Blocked::new(Wait { open, ..self.wait_of(ids[0]) });
                    let blocked = blocked.get_or_insert_with(new);
                    self.go_on(blocked);
                }
                continue;
            }
            if let Err(error) = self.check_process() {
                break (0, Err(error));
            }
            let blocked =
                blocked.get_or_insert_with(|| Blocked::new(Wait { open, ..self.wait_of(ids[0]) }));
            let alone = ids.iter().all(|id| self.depends_on_self(*id));
            alone_rounds += u32::from(alone);
            if alone && alone_rounds > ALONE_ROUNDS {
                ids.iter().for_each(|id| self.relieve_self(*id));
                continue;
            }
            if self.attend(None) {
                self.go_on(blocked);
                continue;
            }
            if alone {
                // No other rank can wake this one: a sleep would waste time in every round.
                self.port.park(Some(self.port.now()));
            } else {
                self.rest(blocked);
            }
        };
        if let Some(blocked) = blocked {
            self.awake(&blocked);
        }
        done
    }

    /// Waits until everything that can be posted is posted: started sends with their bytes
    /// attached, and replies to peers. Call this before the rank leaves. Messages that hold the
    /// ring space of other ranks are dropped, because those ranks may be leaving as well. Does not
    /// wait for departed peers, nor for streams of futures that are not polled.
    pub fn flush(&mut self) {
        if self.port.is_forked() {
            return;
        }
        // From here on these are like messages that have arrived.
        self.read_early();
        let mut blocked = Blocked::new(Wait::new(Activity::Leave));
        while let Some(destination) = self.posts_wait_for() {
            blocked.wait.peer = Some(destination);
            self.drop_unmatched();
            self.pass(&mut blocked, Pace::Doorbell);
        }
        self.awake(&blocked);
    }

    /// Drops all unmatched messages. The sender of an announced message learns that this rank has
    /// left.
    fn drop_unmatched(&mut self) {
        if !self.unexpected.is_empty() {
            let is_growing = |entry: &UnexpectedEntry| !entry.is_complete();
            (0..self.size()).for_each(|source| _ = self.drop_unexpected(source, is_growing));
        }
    }

    /// The first live rank without room for a pending post.
    fn posts_wait_for(&self) -> Option<Rank> {
        let here = |rank| !matches!(self.port.peer(rank), PeerState::Left | PeerState::Failed(_));
        let has_bytes = |id: RequestId| match self.requests.get(id) {
            Some(RequestState::Send(send)) => match send.stage {
                SendStage::Eager { posted, .. } => send.has_bytes_from(posted),
                SendStage::Stream { sent, .. } => send.has_bytes_from(sent),
                SendStage::Announce { .. } => true,
                SendStage::Announced { .. } => false,
            },
            _ => false,
        };
        let mut waiting = self.outbox.pending().filter(|(destination, lane)| {
            let messages = || lane.ordered.iter().chain(&lane.streams).any(|id| has_bytes(*id));
            here(*destination) && (!lane.control.is_empty() || messages())
        });
        waiting.next().map(|(destination, _)| destination)
    }

    /// Makes progress, or waits a little. For callers that run their own polling loop.
    pub fn idle(&mut self) {
        if !self.progress() && !self.attend(None) {
            self.park();
        }
    }

    /// The wait to announce for this request.
    pub(super) fn wait_of(&self, id: RequestId) -> Wait {
        match self.requests.get(id) {
            Some(RequestState::Send(send)) => {
                let wait = Wait::new(Activity::Send).on(context_of(send.bits));
                wait.with(Some(send.destination), Some(tag_of(send.bits)))
            }
            Some(RequestState::Receive(Receive { selector, stage, .. })) => {
                let wait = Wait::new(Activity::Receive).on(selector.context);
                match stage.matched() {
                    None => wait.with(selector.source, selector.tag),
                    Some((source, bits)) => wait.with(Some(source), Some(tag_of(bits))),
                }
            }
            _ => Wait::new(Activity::Future),
        }
    }

    /// Begins a round of a blocking call. If the call will be announced at its end, unsuccessful
    /// polls are reported from here on.
    #[inline]
    pub(super) fn begin_round(&mut self, blocked: &Blocked) {
        // One comparison for a short wait.
        if blocked.rounds >= ANNOUNCE_ROUNDS - 1 && is_announced_in(blocked.rounds.wrapping_add(1))
        {
            self.reports = Reports { are_taken: true, ..Reports::default() };
        }
    }

    /// Sets the operation that the awaited requests belong to; `None`: they stand alone.
    pub fn set_whole(&mut self, whole: Option<Wait>) {
        self.whole = whole;
    }

    /// Pauses or resumes reports, while the caller polls something that it does not wait for.
    /// Returns the previous setting.
    #[inline]
    pub fn pause_reports(&mut self, paused: bool) -> bool {
        std::mem::replace(&mut self.reports.are_paused, paused)
    }

    /// The start of the current call's wait, and the present time, if the wait is long enough to be
    /// announced and time is not virtual.
    #[inline]
    pub fn long_wait(&self) -> Option<(Time, Time)> {
        let wait = self.waiting?;
        (!self.port.capabilities().virtual_time).then(|| (wait.since, self.port.now()))
    }

    /// How many operations were reported; `None`: no reports are needed.
    #[inline]
    pub fn reported_waits(&self) -> Option<u32> {
        (self.reports.are_taken && !self.reports.are_paused).then_some(self.reports.count)
    }

    /// Reports the wait of an operation whose poll was unsuccessful.
    pub fn report_wait(&mut self, wait: Wait) {
        if self.reported_waits().is_some() {
            self.reports.count += 1;
            self.reports.first.get_or_insert(wait);
        }
    }

    /// Reports the wait of an operation in place of its parts, which were reported after the first
    /// `before`. The whole takes the peer of its first part, and also its context if it has none.
    pub fn report_whole(&mut self, before: u32, wait: Wait) {
        let part = if before == 0 { self.reports.first.take() } else { None };
        self.reports.count = before;
        self.report_wait(part.map_or(wait, |part| whole_of(part, wait)));
    }

    /// Ends a round of a blocking call whose event has not occurred: makes progress, or waits a
    /// little if there is none to make.
    // Inlined, so that a wait for messages does not look at the pace.
    #[inline(always)]
    pub fn pass(&mut self, blocked: &mut Blocked, pace: Pace) {
        let any = self.progress() || pace == Pace::Doorbell && self.attend(None);
        match pace {
            _ if any => self.go_on(blocked),
            Pace::Doorbell => self.rest(blocked),
            Pace::Doze { most, until } => self.rest_for_memory(blocked, (most, until)),
        }
    }

    /// Waits a little, after a round of a blocking call without progress.
    pub fn rest(&mut self, blocked: &mut Blocked) {
        // What polls of this round have moved may be what an earlier poll of it waits for, and no
        // event need follow. In virtual time a round more would cost time.
        let moved = blocked.turns != self.turns && !self.capabilities.virtual_time;
        self.account(blocked);
        if !moved {
            self.park();
        }
        self.begin_round(blocked);
    }

    /// [`Engine::rest`] for a wait that may end without a wake-up: at most as long as
    /// [`Pace::Doze`] says.
    fn rest_for_memory(&mut self, blocked: &mut Blocked, limits: (Option<Time>, Option<Time>)) {
        self.account(blocked);
        self.read_early();
        self.port.park(end_of_doze(|| self.port.now(), limits));
        self.begin_round(blocked);
    }

    /// Accounts for a round of a blocking call that does not rest.
    #[inline]
    pub fn go_on(&mut self, blocked: &mut Blocked) {
        self.ask_no_polls();
        blocked.all = blocked.all.wrapping_add(1);
        if blocked.all.is_multiple_of(LONG_ROUNDS) && blocked.announced.is_none() {
            self.announce(blocked);
        }
    }

    #[inline(never)]
    pub(super) fn account(&mut self, blocked: &mut Blocked) {
        self.go_on(blocked);
        if blocked.turns != self.turns && blocked.rounds >= ANNOUNCE_ROUNDS - 1 {
            // The open operation may have changed.
            blocked.rounds = ANNOUNCE_ROUNDS - 2;
            blocked.announced = None;
            self.reports = Reports::default();
        }
        blocked.turns = self.turns;
        blocked.rounds = blocked.rounds.saturating_add(1);
        if blocked.rounds >= ANNOUNCE_ROUNDS {
            self.announce_if_due(blocked);
        }
    }

    #[cold]
    fn announce_if_due(&mut self, blocked: &mut Blocked) {
        let said = blocked.announced.and_then(|wait| wait.unmatched);
        let is_news = blocked.rounds > ANNOUNCE_ROUNDS && said != self.at_limit;
        if is_announced_in(blocked.rounds) || is_news {
            self.announce(blocked);
        }
    }

    #[cold]
    fn announce(&mut self, blocked: &mut Blocked) {
        if blocked.since.is_none() {
            blocked.around = self.waiting;
        }
        let since = *blocked.since.get_or_insert_with(|| self.port.now());
        let reports = std::mem::take(&mut self.reports);
        let open = reports.count.max(blocked.wait.open);
        let reported = reports.first.map(|first| Wait { open, ..first });
        let wait = reported.or(blocked.announced).unwrap_or(blocked.wait);
        let wait = self.whole.map_or(wait, |whole| whole_of(wait, whole));
        let wait = Wait { unmatched: self.at_limit, since, ..wait };
        blocked.announced = Some(wait);
        self.waiting = Some(wait);
        self.port.announce_wait(Some(wait));
    }

    /// Lets time pass. After a sleep, periodic checks are due: rounds do not measure time if each
    /// may take a tenth of a second.
    pub(super) fn park(&mut self) -> Wake {
        let wake = self.port.park(None);
        self.rested(wake);
        wake
    }

    #[inline]
    pub(super) fn rested(&mut self, wake: Wake) {
        if wake == Wake::Slept {
            let looks = self.idle_rounds / GONE_ROUNDS;
            self.idle_rounds = looks.saturating_add(1).saturating_mul(GONE_ROUNDS) - 1;
        }
    }

    /// Ends a blocking call.
    pub fn awake(&mut self, blocked: &Blocked) {
        if blocked.rounds >= ANNOUNCE_ROUNDS - 1 {
            self.reports = Reports::default();
        }
        if let Some(since) = blocked.since {
            self.statistics.parked = self.statistics.parked + (self.port.now() - since);
            self.waiting = blocked.around;
            self.at_limit = None;
            self.port.announce_wait(blocked.around);
        }
    }

    /// Periodic checks while there is nothing to do. Returns whether they changed anything, so that
    /// the caller polls again before it waits.
    pub(crate) fn attend(&mut self, probing: Option<&Selector>) -> bool {
        self.idle_rounds = self.idle_rounds.saturating_add(1);
        let rounds = self.idle_rounds;
        let mut any = false;
        if self.needs_more || rounds.is_multiple_of(RELIEF_ROUNDS) {
            any |= self.relieve(probing);
        }
        if rounds.is_multiple_of(GONE_ROUNDS) {
            any |= self.check_departed() | self.make_room_to_itself() | self.read_early();
            self.news += u64::from(any);
        }
        any
    }
}

// Waiting for something other than a message: a group member's words in shared memory.
//
// The loop is that of every blocking call: messages progress meanwhile, a long wait is announced,
// and the port that parks knows which polls found nothing.

/// Polls of `look` between two polls for messages. Early results arrive within these.
const POLLS: u32 = 4;

impl<P: CopyPort> Engine<P> {
    /// Polls the port until `look` returns a value; announces a long wait as `wait` says.
    ///
    /// `look` must end by itself when a rank that it needs is gone, as the calls of
    /// [`hikyaku_nic::fabric::GroupPort`] do.
    #[inline]
    pub fn watch<R>(
        &mut self,
        wait: impl FnOnce() -> Wait,
        mut look: impl FnMut(&mut P) -> Option<R>,
    ) -> R {
        match look(&mut self.port) {
            Some(found) => found,
            None => self.watch_on(wait(), look),
        }
    }

    #[inline(never)]
    fn watch_on<R>(&mut self, wait: Wait, mut look: impl FnMut(&mut P) -> Option<R>) -> R {
        let mut blocked = Blocked::new(wait);
        let found = 'found: loop {
            // Other ranks on this processor run only while this rank parks.
            let crowded = self.port.is_crowded();
            for _ in 0..if crowded { 1 } else { POLLS } {
                if !crowded {
                    spin_loop();
                }
                if let Some(found) = look(&mut self.port) {
                    break 'found found;
                }
            }
            self.pass(&mut blocked, Pace::Doorbell);
        };
        self.idle_rounds = 0;
        self.awake(&blocked);
        found
    }
}

/// Whether a wait is announced at the end of its idle round of this number.
const fn is_announced_in(round: u32) -> bool {
    round % RENEW_ROUNDS == ANNOUNCE_ROUNDS
}

/// The end of a sleep of `most` from `now` on, and not beyond `until`; `None`: it has no end.
pub fn end_of_doze(
    now: impl FnOnce() -> Time,
    (most, until): (Option<Time>, Option<Time>),
) -> Option<Time> {
    let Some(most) = most else { return until };
    let end = now() + most;
    Some(until.map_or(end, |until| until.min(end)))
}

/// The wait of an operation, given the wait of its part.
fn whole_of(part: Wait, whole: Wait) -> Wait {
    Wait { peer: part.peer, context: whole.context.or(part.context), ..whole }
}
