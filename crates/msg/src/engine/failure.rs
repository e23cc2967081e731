//! Peers that died or left.
//!
//! A death is an event of the port. It ends every request that needs the rank: sends to it,
//! receives from it, and receives from any source, of which nobody can know any more whether their
//! message would have come from there. (ULFM leaves those pending and lets the program acknowledge
//! the failure; here the answer is final.) Messages of the rank that have come whole can still be
//! received; parts and announcements cannot and are dropped.
//!
//! A rank that leaves in order is not announced. Whoever waits looks now and then, takes in what
//! is still on the way, and only then decides.

use hikyaku_nic::fabric::{PeerFailure, PeerState, Port, Rank};

use super::Engine;
use crate::envelope::Selector;
use crate::error::MsgError;
use crate::request::{Receive, ReceiveStage, Request, RequestId};
use crate::unexpected::Entry;

/// Most calls of `progress` that take in what is on the way from a rank that has left.
const LAST_LOOKS: u32 = 64;

impl<P: Port> Engine<P> {
    /// A rank died.
    pub(super) fn peer_failed(&mut self, failure: PeerFailure) {
        let rank = failure.rank;
        let Some(source) = self.sources.get_mut(rank as usize) else { return };
        if source.failed.is_some() {
            return;
        }
        source.failed = Some(failure);
        source.assembling = None;
        self.first_failure.get_or_insert(failure);
        self.drop_unexpected(rank, Entry::is_here);
        self.notes.end(rank);
        let lane = self.outbox.lane(rank);
        lane.control.clear();
        lane.ordered.clear();
        lane.streams.clear();
        let needing = |request: &Request| match request {
            Request::Send(send) => send.destination == rank,
            Request::Receive(receive) => waits_for(receive).is_none_or(|source| source == rank),
            Request::Done(_) => false,
        };
        for id in self.select(needing) {
            self.fail(id, MsgError::PeerFailed(failure));
        }
    }

    /// Ends a request with an error and gives back what it held.
    pub(super) fn fail(&mut self, id: RequestId, error: MsgError) {
        self.unlist(id);
        if let Some(Request::Receive(receive)) = self.requests.finish(id, Err(error))
            && let ReceiveStage::Incoming(mut incoming) = receive.stage
        {
            incoming.parts.discard(&mut self.port);
        }
    }

    /// An error if a receive that finds nothing here needs a rank that died.
    pub(super) fn check_alive(&self, selector: &Selector) -> Result<(), MsgError> {
        let failure = match selector.source {
            Some(source) => self.sources[source as usize].failed,
            None => self.first_failure,
        };
        failure.map_or(Ok(()), |failure| Err(MsgError::PeerFailed(failure)))
    }

    /// An error if a probe that finds nothing needs a rank that left, and the last look gave
    /// nothing either.
    pub(super) fn check_present(&mut self, selector: &Selector) -> Result<(), MsgError> {
        let Some(rank) = self.missing(selector.source) else { return Ok(()) };
        if self.take_in_the_rest() && self.unexpected.find(selector).is_none() {
            return Err(MsgError::PeerLeft { rank });
        }
        Ok(())
    }

    /// Ends the requests that only ranks which have left could complete.
    /// Says whether anything changed.
    pub(super) fn look_for_the_gone(&mut self) -> bool {
        let lost = |engine: &Engine<P>, request: &Request| engine.lost(request);
        if !self.requests.iter().any(|(_, request)| lost(self, request).is_some()) {
            return false;
        }
        if !self.take_in_the_rest() {
            return true;
        }
        let ended: Vec<(RequestId, Rank)> = self
            .requests
            .iter()
            .filter_map(|(id, request)| Some((id, lost(self, request)?)))
            .collect();
        for (id, rank) in ended {
            self.fail(id, MsgError::PeerLeft { rank });
        }
        true
    }

    /// Takes in what has arrived. `false`: it does not end; decide later.
    fn take_in_the_rest(&mut self) -> bool {
        (0..LAST_LOOKS).any(|_| !self.progress())
    }

    /// The rank that has left and without which a request cannot complete.
    fn lost(&self, request: &Request) -> Option<Rank> {
        match request {
            Request::Send(send) => self.missing(Some(send.destination)),
            Request::Receive(receive) => match waits_for(receive) {
                Some(source) if source == NOBODY => None,
                source => self.missing(source),
            },
            Request::Done(_) => None,
        }
    }

    /// The rank that has left, if one is needed; or one of those that have, if any would do and
    /// all others are gone.
    fn missing(&self, needed: Option<Rank>) -> Option<Rank> {
        let left = |rank: Rank| self.port.peer(rank) == PeerState::Left;
        match needed {
            Some(rank) => (rank != self.rank && left(rank)).then_some(rank),
            None => {
                let others = || (0..self.size()).filter(|rank| *rank != self.rank);
                let gone =
                    |rank| matches!(self.port.peer(rank), PeerState::Left | PeerState::Failed(_));
                let on_the_way = !self.outbox.is_empty_to(self.rank);
                if on_the_way || !others().all(gone) { None } else { others().find(|r| left(*r)) }
            }
        }
    }

    /// The requests of one kind.
    fn select(&self, kind: impl Fn(&Request) -> bool) -> Vec<RequestId> {
        self.requests.iter().filter(|(_, request)| kind(request)).map(|(id, _)| id).collect()
    }
}

/// Stands for no rank in [`waits_for`].
const NOBODY: Rank = Rank::MAX;

/// Whose packets a receive waits for; `None`: anybody's. [`NOBODY`]: everything has come.
fn waits_for(receive: &Receive) -> Option<Rank> {
    match &receive.stage {
        ReceiveStage::Posted => receive.selector.source,
        ReceiveStage::Announced(announced) => Some(announced.source),
        ReceiveStage::Incoming(incoming) if incoming.arrived == incoming.expected => Some(NOBODY),
        ReceiveStage::Incoming(incoming) => Some(incoming.source),
    }
}
