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
use crate::request::{ReceiveStage, Request, RequestId, SendStage};

/// Idle rounds of a blocking call after which it accounts for its waiting.
const ANNOUNCE_ROUNDS: u32 = 32;

/// Idle rounds in a row between looks at sources that are held up.
const RELIEF_ROUNDS: u32 = 16;

/// Idle rounds in a row between looks for peers that are gone.
pub(super) const GONE_ROUNDS: u32 = 64;

/// Idle rounds in a row after which a call that only this rank itself could end is given up.
const ALONE_ROUNDS: u32 = 256;

/// A blocking call that is under way.
#[derive(Debug)]
pub(crate) struct Blocked {
    activity: Activity,
    peer: Option<Rank>,
    tag: Option<i32>,
    rounds: u32,
    since: Option<Time>,
}

impl Blocked {
    pub(crate) fn new(activity: Activity, peer: Option<Rank>, tag: Option<i32>) -> Blocked {
        Blocked { activity, peer, tag, rounds: 0, since: None }
    }
}

impl<P: Port> Engine<P> {
    /// The result of a request if it is complete; the request is gone then. Makes progress if it
    /// is not complete yet.
    pub fn test(&mut self, id: RequestId) -> Option<Result<Received, MsgError>> {
        if let Some(result) = self.requests.take_done(id) {
            return Some(result);
        }
        if !self.progress() {
            self.attend(None);
        }
        self.requests.take_done(id)
    }

    /// Waits for a request and gives its result.
    ///
    /// # Errors
    /// What the operation failed with, or [`MsgError::WaitsForItself`].
    #[inline]
    pub fn wait(&mut self, id: RequestId) -> Result<Received, MsgError> {
        if let Some(result) = self.requests.take_done(id) {
            return result;
        }
        match self.wait_for_next(id) {
            Some(received) => Ok(received),
            None => self.wait_any(&[id]).1,
        }
    }

    /// Waits until one of several requests is complete; says which and gives its result.
    ///
    /// A name that is no request counts as complete with [`MsgError::NoSuchRequest`]; so does an
    /// empty list, at place 0.
    pub fn wait_any(&mut self, ids: &[RequestId]) -> (usize, Result<Received, MsgError>) {
        if ids.is_empty() {
            return (0, Err(MsgError::NoSuchRequest));
        }
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
            let blocked = blocked.get_or_insert_with(|| self.blocked_in(ids));
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
        let mut blocked = Blocked::new(Activity::Send, None, None);
        while self.has_posts_waiting() {
            if !self.progress() && !self.attend(None) {
                self.rest(&mut blocked);
            }
        }
        self.awake(&blocked);
    }

    /// Whether something is pending that only waits for room at a rank that is there.
    fn has_posts_waiting(&self) -> bool {
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
        self.outbox.pending().any(|(destination, lane)| {
            let messages = || lane.ordered.iter().chain(&lane.streams).any(|id| has_bytes(*id));
            here(destination) && (!lane.control.is_empty() || messages())
        })
    }

    /// Progress, or else a little waiting. For callers that poll something themselves.
    pub fn idle(&mut self) {
        if !self.progress() && !self.attend(None) {
            self.park();
        }
    }

    /// What a call that waits for these requests waits for.
    fn blocked_in(&self, ids: &[RequestId]) -> Blocked {
        let request = match ids {
            [id] => self.requests.get(*id),
            _ => None,
        };
        match request {
            Some(Request::Send(send)) => {
                Blocked::new(Activity::Send, Some(send.destination), Some(tag_of(send.bits)))
            }
            Some(Request::Receive(receive)) => match &receive.stage {
                ReceiveStage::Posted => {
                    let selector = receive.selector;
                    Blocked::new(Activity::Receive, selector.source, selector.tag)
                }
                ReceiveStage::Announced(announced) => {
                    let tag = tag_of(announced.bits);
                    Blocked::new(Activity::Receive, Some(announced.source), Some(tag))
                }
                ReceiveStage::Incoming(incoming) => {
                    let tag = tag_of(incoming.bits);
                    Blocked::new(Activity::Receive, Some(incoming.source), Some(tag))
                }
            },
            _ => Blocked::new(Activity::Requests, None, None),
        }
    }

    /// One more round of a blocking call in which there was nothing to do.
    pub(crate) fn rest(&mut self, blocked: &mut Blocked) {
        blocked.rounds += 1;
        if blocked.rounds == ANNOUNCE_ROUNDS {
            let since = self.port.now();
            let Blocked { activity, peer, tag, .. } = *blocked;
            let wait = Wait { activity, peer, tag, since };
            blocked.since = Some(since);
            self.waiting = Some(wait);
            self.port.announce_wait(Some(wait));
        }
        self.park();
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
    pub(crate) fn awake(&mut self, blocked: &Blocked) {
        if let Some(since) = blocked.since {
            self.statistics.parked = self.statistics.parked + (self.port.now() - since);
            self.waiting = None;
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
