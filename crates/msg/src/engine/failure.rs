//! Peers that died or left.
//!
//! A death is an event of the port. It ends every request that needs the rank: sends to it,
//! receives from it, and receives from any source of contexts that it has, since their message
//! receives from it, and receives from any source of contexts that it belongs to, since their
//! message might have come from it. (ULFM leaves those pending and lets the program acknowledge the
//! failure; here the error is final.) Whole messages of the rank that have arrived can still be
//! received; parts and announcements are dropped.
//!
//! A rank that leaves in order is not announced. A waiting rank checks for that from time to time,
//! handles all that is still in flight, and only then decides.

use hikyaku_nic::fabric::{CopyPort, PeerFailure, PeerState, Rank};

use super::Engine;
use crate::envelope::Selector;
use crate::error::MsgError;
use crate::request::{Receive, ReceiveStage, RequestId, RequestState, Send, SendStage};
use crate::unexpected::UnexpectedEntry;

/// Limit of calls of `progress` that handle messages in flight from a rank that has left.
const LAST_POLLS: u32 = 64;

impl<P: CopyPort> Engine<P> {
    /// A rank died.
    pub(super) fn peer_failed(&mut self, failure: PeerFailure) {
        let rank = failure.rank;
        let Some(source) = self.sources.get_mut(rank as usize) else { return };
        if source.failed.is_some() {
            return;
        }
        source.failed = Some(failure);
        source.assembling = None;
        self.news += 1;
        self.first_failure.get_or_insert(failure);
        self.drop_unexpected(rank, UnexpectedEntry::is_here);
        self.notes.end(rank);
        self.ended.drop_rank(rank);
        let lane = self.outbox.lane(rank);
        lane.control.clear();
        lane.ordered.clear();
        lane.streams.clear();
        let needing = |request: &RequestState| match request {
            RequestState::Send(send) => send.destination == rank,
            RequestState::Receive(receive) => match waits_for(receive) {
                Some(source) => source == rank,
                None => self.has(receive.selector.context, rank),
            },
            RequestState::Done(_) => false,
        };
        for id in self.select(needing) {
            self.fail(id, MsgError::PeerFailed(failure));
        }
    }

    /// Ends a request with an error and releases its resources.
    pub(super) fn fail(&mut self, id: RequestId, error: MsgError) {
        self.unlist(id);
        if let Some(RequestState::Receive(receive)) = self.requests.finish(id, Err(error))
            && let ReceiveStage::Incoming(mut incoming) = receive.stage
        {
            incoming.parts.discard(&mut self.port);
        }
        self.restore();
    }

    /// An error if a receive needs a dead rank and no message for it is here.
    #[inline(always)]
    pub(super) fn check_alive(&self, selector: &Selector) -> Result<(), MsgError> {
        if self.first_failure.is_none() { Ok(()) } else { self.check_each_alive(*selector) }
    }

    #[cold]
    fn check_each_alive(&self, selector: Selector) -> Result<(), MsgError> {
        let failure = match selector.source {
            Some(source) => self.sources[source as usize].failed,
            None => self.failure_in(selector.context),
        };
        failure.map_or(Ok(()), |failure| Err(MsgError::PeerFailed(failure)))
    }

    /// A rank of a context that has died.
    fn failure_in(&self, context: u32) -> Option<PeerFailure> {
        let first = self.first_failure?;
        let Some(members) = self.groups.get(&context) else { return Some(first) };
        members.ranks().iter().find_map(|rank| self.sources[*rank as usize].failed)
    }

    /// An error if a probe needs a rank that left, no message is here, and a last poll finds none
    /// either.
    pub(super) fn check_present(&mut self, selector: &Selector) -> Result<(), MsgError> {
        let Some(rank) = self.missing(selector.source, selector.context) else { return Ok(()) };
        if self.drain_arrivals() && self.unexpected.find(selector).is_none() {
            return Err(MsgError::left(rank, &self.port));
        }
        Ok(())
    }

    /// Ends the requests that only departed ranks could complete. Returns whether anything changed.
    pub(super) fn check_departed(&mut self) -> bool {
        let lost = |engine: &Engine<P>, request: &RequestState| engine.lost(request);
        if !self.requests.iter().any(|(_, request)| lost(self, request).is_some()) {
            return false;
        }
        if !self.drain_arrivals() {
            return true;
        }
        let ended: Vec<(RequestId, Rank)> = self
            .requests
            .iter()
            .filter_map(|(id, request)| Some((id, lost(self, request)?)))
            .collect();
        for (id, rank) in ended {
            let error = match self.requests.get(id) {
                // A rank that has received a message says so before it leaves.
                Some(RequestState::Send(Send {
                    stage: SendStage::Announced { cancelling: true },
                    ..
                })) => MsgError::Cancelled,
                _ => MsgError::left(rank, &self.port),
            };
            self.fail(id, error);
        }
        true
    }

    /// Handles everything that has arrived. `false`: more is left; decide later.
    fn drain_arrivals(&mut self) -> bool {
        (0..LAST_POLLS).any(|_| !self.progress())
    }

    /// The departed rank without which a request cannot complete.
    fn lost(&self, request: &RequestState) -> Option<Rank> {
        match request {
            RequestState::Send(send) => self.missing(Some(send.destination), 0),
            RequestState::Receive(receive) => match waits_for(receive) {
                Some(source) if source == NOBODY => None,
                source => self.missing(source, receive.selector.context),
            },
            RequestState::Done(_) => None,
        }
    }

    /// The departed rank that is needed: `needed` itself; without one, any rank of the context if
    /// all the others have left too.
    fn missing(&self, needed: Option<Rank>, context: u32) -> Option<Rank> {
        let left = |rank: Rank| self.port.peer(rank) == PeerState::Left;
        match needed {
            Some(rank) => (rank != self.rank && left(rank)).then_some(rank),
            None => {
                let is_other = |rank: &Rank| *rank != self.rank && self.has(context, *rank);
                let others = || (0..self.size()).filter(is_other);
                let gone =
                    |rank| matches!(self.port.peer(rank), PeerState::Left | PeerState::Failed(_));
                let on_the_way = !self.outbox.is_empty_to(self.rank);
                if on_the_way || !others().all(gone) { None } else { others().find(|r| left(*r)) }
            }
        }
    }

    /// The requests of one kind.
    fn select(&self, kind: impl Fn(&RequestState) -> bool) -> Vec<RequestId> {
        self.requests.iter().filter(|(_, request)| kind(request)).map(|(id, _)| id).collect()
    }
}

/// Stands for no rank in [`waits_for`].
const NOBODY: Rank = Rank::MAX;

/// The rank whose packets a receive waits for; `None`: any. [`NOBODY`]: all have arrived.
fn waits_for(receive: &Receive) -> Option<Rank> {
    match &receive.stage {
        ReceiveStage::Incoming(incoming) if incoming.arrived == incoming.expected => Some(NOBODY),
        stage => stage.matched().map(|(source, _)| source).or(receive.selector.source),
    }
}
