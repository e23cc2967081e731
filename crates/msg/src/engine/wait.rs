//! Test, wait, and the loop of every blocking call.
//!
//! A blocking call polls, and when nothing comes lets the port wait a little. After some rounds
//! it starts to account for the time and says, through the port, what it waits for, so that a job
//! that hangs can be explained from outside. The first rounds are not accounted: reading the clock
//! would cost as much as a message.

use hikyaku_nic::fabric::{Activity, PeerState, Port, Rank, Wait, Wake};
use hikyaku_nic::time::Time;

use super::Engine;
use crate::envelope::{Received, Selector, tag_of};
use crate::error::MsgError;
use crate::request::{Receive, ReceiveStage, Request, RequestId, SendStage};

/// Idle rounds of a blocking call after which it accounts for its waiting.
const ANNOUNCE_ROUNDS: u32 = 32;

/// Idle rounds in a row between looks at sources that are held up.
const RELIEF_ROUNDS: u32 = 16;

/// Idle rounds in a row between looks for peers that are gone.
pub(super) const GONE_ROUNDS: u32 = 64;

/// Idle rounds in a row after which a call that only this rank itself could end is given up.
const ALONE_ROUNDS: u32 = 256;

/// A blocking call that is under way.
///
/// Each of its rounds polls what it waits for, and rests ([`Engine::rest`]) if there was nothing.
/// In the round at whose end it is announced, what is polled in vain reports what it is
/// ([`Engine::report_wait`]). After progress the call is announced anew.
#[derive(Debug)]
pub struct Blocked {
    /// What is announced if nothing is reported.
    wait: Wait,
    rounds: u32,
    /// [`Engine::turns`] at the last rest.
    turns: u64,
    since: Option<Time>,
    announced: Option<Wait>,
}

impl Blocked {
    /// A call that waits for this, or else for what it reports.
    pub const fn new(wait: Wait) -> Blocked {
        Blocked { wait, rounds: 0, turns: 0, since: None, announced: None }
    }
}

/// What is waited for, as those operations say that were polled in vain.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Whether this is the round of a call that is to be announced.
    are_taken: bool,
    are_paused: bool,
    count: u32,
    first: Option<Wait>,
}

impl<P: Port> Engine<P> {
    /// The result of a request if it is complete; the request is gone then. Makes progress if it
    /// is not complete yet.
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
        if done.is_none() && self.reported_waits().is_some() {
            self.report_wait(self.wait_of(id));
        }
        done
    }

    /// Waits for a request and gives its result.
    ///
    /// # Errors
    /// What the operation failed with, or [`MsgError::WaitsForItself`].
    #[inline]
    pub fn wait(&mut self, id: RequestId) -> Result<Received, MsgError> {
        self.wait_for_first(id, 1)
    }

    /// The same for the first of `open` operations that the program waits for.
    ///
    /// # Errors
    /// As [`Engine::wait`].
    #[inline]
    pub fn wait_for_first(&mut self, id: RequestId, open: u32) -> Result<Received, MsgError> {
        if let Some(result) = self.requests.take_done(id) {
            return result;
        }
        match self.wait_for_next(id) {
            Some(received) => Ok(received),
            None => self.wait_long(&[id], open).1,
        }
    }

    /// Waits until one of several requests is complete; says which and gives its result.
    ///
    /// A name that is no request counts as complete with [`MsgError::NoSuchRequest`]; so does an
    /// empty list, at place 0.
    pub fn wait_any(&mut self, ids: &[RequestId]) -> (usize, Result<Received, MsgError>) {
        match ids {
            [] => (0, Err(MsgError::NoSuchRequest)),
            ids => self.wait_long(ids, ids.len() as u32),
        }
    }

    /// Waits for one of some requests, which are of `open` operations that the program waits for.
    fn wait_long(&mut self, ids: &[RequestId], open: u32) -> (usize, Result<Received, MsgError>) {
        let mut blocked = None;
        let done = loop {
            let complete = ids.iter().position(|id| self.requests.is_done(*id));
            if let Some(at) = complete
                && let Some(result) = self.requests.take_done(ids[at])
            {
                break (at, result);
            }
            if self.progress() {
                continue;
            }
            if let Err(error) = self.check_process() {
                break (0, Err(error));
            }
            let blocked =
                blocked.get_or_insert_with(|| Blocked::new(Wait { open, ..self.wait_of(ids[0]) }));
            let alone = ids.iter().all(|id| self.is_up_to_us(*id));
            if alone && self.idle_rounds > ALONE_ROUNDS {
                ids.iter().for_each(|id| self.give_up_on_ourselves(*id));
                continue;
            }
            if self.attend(None) {
                continue;
            }
            if alone {
                // Nobody would wake us: to sleep is to lose that time in each of the rounds.
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

    /// Waits until all that can be posted is posted: what was started and whose bytes are here, and
    /// answers to peers. To be called before the rank leaves. Peers that are gone are not waited
    /// for, nor are streams of futures that nobody polls.
    pub fn flush(&mut self) {
        if self.port.is_forked() {
            return;
        }
        let mut blocked = Blocked::new(Wait::new(Activity::Leave));
        while let Some(destination) = self.posts_wait_for() {
            blocked.wait.peer = Some(destination);
            if !self.progress() && !self.attend(None) {
                self.rest(&mut blocked);
            }
        }
        self.awake(&blocked);
    }

    /// The first rank that is there and has no room for something that is pending.
    fn posts_wait_for(&self) -> Option<Rank> {
        let here = |rank| !matches!(self.port.peer(rank), PeerState::Left | PeerState::Failed(_));
        let has_bytes = |id: RequestId| match self.requests.get(id) {
            Some(Request::Send(send)) => match send.stage {
                SendStage::Eager { posted, .. } => send.bytes_from(posted).is_some(),
                SendStage::Stream { sent, .. } => send.bytes_from(sent).is_some(),
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

    /// Progress, or else a little waiting. For callers that poll something themselves.
    pub fn idle(&mut self) {
        if !self.progress() && !self.attend(None) {
            self.park();
        }
    }

    /// What a call that waits for this request waits for.
    fn wait_of(&self, id: RequestId) -> Wait {
        let (activity, peer, tag) = match self.requests.get(id) {
            Some(Request::Send(send)) => {
                (Activity::Send, Some(send.destination), Some(tag_of(send.bits)))
            }
            Some(Request::Receive(Receive { selector, stage, .. })) => {
                let (source, tag) = match stage {
                    ReceiveStage::Posted => (selector.source, selector.tag),
                    ReceiveStage::Announced(it) => (Some(it.source), Some(tag_of(it.bits))),
                    ReceiveStage::Incoming(it) => (Some(it.source), Some(tag_of(it.bits))),
                };
                (Activity::Receive, source, tag)
            }
            _ => (Activity::Future, None, None),
        };
        Wait::new(activity).with(peer, tag)
    }

    /// Begins a round of a blocking call: from here on what is polled in vain is reported, if the
    /// call is to be announced at the end of the round.
    #[inline]
    fn begin_round(&mut self, blocked: &Blocked) {
        if blocked.rounds == ANNOUNCE_ROUNDS - 1 {
            self.reports = Reports { are_taken: true, ..Reports::default() };
        }
    }

    /// Says what the requests are parts of that are waited for from here on; `None`: of nothing.
    pub fn set_whole(&mut self, whole: Option<Wait>) {
        self.whole = whole;
    }

    /// Pauses reports, or resumes them, as `paused` says: while what is polled is not what the call
    /// waits for. Returns what was so before.
    #[inline]
    pub fn pause_reports(&mut self, paused: bool) -> bool {
        std::mem::replace(&mut self.reports.are_paused, paused)
    }

    /// How many operations are reported; `None`: none are to be.
    #[inline]
    pub fn reported_waits(&self) -> Option<u32> {
        (self.reports.are_taken && !self.reports.are_paused).then_some(self.reports.count)
    }

    /// Says what an operation that was polled in vain waits for.
    pub fn report_wait(&mut self, wait: Wait) {
        if self.reported_waits().is_some() {
            self.reports.count += 1;
            self.reports.first.get_or_insert(wait);
        }
    }

    /// Reports what an operation waits for whose parts were reported since there were `before`. The
    /// rank that the first of these waits for is that of the whole.
    pub fn report_whole(&mut self, before: u32, wait: Wait) {
        let part = if before == 0 { self.reports.first.take() } else { None };
        self.reports.count = before;
        self.report_wait(Wait { peer: part.map_or(wait.peer, |part| part.peer), ..wait });
    }

    /// One more round of a blocking call in which there was nothing to do: a little waiting.
    pub fn rest(&mut self, blocked: &mut Blocked) {
        self.account(blocked);
        self.park();
        self.begin_round(blocked);
    }

    /// The same for a wait that nobody need wake: it looks again by then at the latest.
    pub fn rest_until(&mut self, blocked: &mut Blocked, then: Time) {
        self.account(blocked);
        self.port.park(Some(then));
        self.begin_round(blocked);
    }

    fn account(&mut self, blocked: &mut Blocked) {
        if blocked.turns != self.turns && blocked.rounds >= ANNOUNCE_ROUNDS - 1 {
            // What is open now may be another thing.
            blocked.rounds = ANNOUNCE_ROUNDS - 2;
            blocked.announced = None;
            self.reports = Reports::default();
        }
        blocked.turns = self.turns;
        blocked.rounds = blocked.rounds.saturating_add(1);
        let said = blocked.announced.and_then(|wait| wait.unmatched);
        let is_news = blocked.rounds > ANNOUNCE_ROUNDS && said != self.at_limit;
        if blocked.rounds == ANNOUNCE_ROUNDS || is_news {
            self.announce(blocked);
        }
    }

    #[cold]
    fn announce(&mut self, blocked: &mut Blocked) {
        let since = *blocked.since.get_or_insert_with(|| self.port.now());
        let reports = std::mem::take(&mut self.reports);
        let open = reports.count.max(blocked.wait.open);
        let reported = reports.first.map(|first| Wait { open, ..first });
        let wait = reported.or(blocked.announced).unwrap_or(blocked.wait);
        let wait = self.whole.map_or(wait, |whole| Wait { peer: wait.peer, ..whole });
        let wait = Wait { unmatched: self.at_limit, since, ..wait };
        blocked.announced = Some(wait);
        self.waiting = Some(wait);
        self.port.announce_wait(Some(wait));
    }

    /// Lets time pass. After a sleep, whatever is attended to now and then is due: rounds are no
    /// measure of time when each may be a tenth of a second.
    pub(super) fn park(&mut self) -> Wake {
        let wake = self.port.park(None);
        if wake == Wake::Slept {
            let looks = self.idle_rounds / GONE_ROUNDS;
            self.idle_rounds = looks.saturating_add(1).saturating_mul(GONE_ROUNDS) - 1;
        }
        wake
    }

    /// The end of a blocking call.
    pub fn awake(&mut self, blocked: &Blocked) {
        if blocked.rounds >= ANNOUNCE_ROUNDS - 1 {
            self.reports = Reports::default();
        }
        if let Some(since) = blocked.since {
            self.statistics.parked = self.statistics.parked + (self.port.now() - since);
            self.waiting = None;
            self.at_limit = None;
            self.port.announce_wait(None);
        }
    }

    /// What has to be done now and then while there is nothing to do; says whether it changed
    /// anything, so that the caller looks again before it waits.
    pub(crate) fn attend(&mut self, probing: Option<&Selector>) -> bool {
        self.idle_rounds = self.idle_rounds.saturating_add(1);
        let rounds = self.idle_rounds;
        let mut any = false;
        if rounds.is_multiple_of(RELIEF_ROUNDS) {
            any |= self.relieve(probing);
        }
        if rounds.is_multiple_of(GONE_ROUNDS) {
            any |= self.look_for_the_gone();
        }
        any
    }
}
