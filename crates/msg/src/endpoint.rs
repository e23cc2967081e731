//! The view that futures have of one communicator context of an engine.

use std::cell::RefCell;

use hikyaku_nic::fabric::{CopyPort, GroupId, GroupPort, PeerState, Rank, Wait};
use hikyaku_nic::time::Time;

use crate::buffer::Scattered;
use crate::engine::Engine;
use crate::envelope::{Envelope, Received, Selector, SendMode};
use crate::error::MsgError;
use crate::future::{RecvFuture, ScatteredFuture, SendFuture};
use crate::members::Members;

/// A handle on an engine, for messages of one context.
///
/// Ranks are numbers of the context's communicator, also in reports of arrived messages. Results of
/// futures name ranks of the job: [`Members::told`] translates them.
#[derive(Debug)]
pub struct ContextEndpoint<'e, P: CopyPort> {
    engine: &'e RefCell<Engine<P>>,
    context: u32,
    /// The ranks of the context; `None`: all ranks of the job.
    members: Option<&'e Members>,
}

impl<P: CopyPort> Clone for ContextEndpoint<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: CopyPort> Copy for ContextEndpoint<'_, P> {}

impl<'e, P: CopyPort> ContextEndpoint<'e, P> {
    /// A handle on `engine` for `context`.
    pub fn new(engine: &'e RefCell<Engine<P>>, context: u32) -> ContextEndpoint<'e, P> {
        ContextEndpoint { engine, context, members: None }
    }

    /// The same endpoint, for messages among some ranks of the job.
    #[must_use]
    pub fn among(self, members: Option<&'e Members>) -> ContextEndpoint<'e, P> {
        ContextEndpoint { members, ..self }
    }

    /// The rank in the job of a rank of this communicator.
    #[inline]
    pub fn in_job(&self, rank: Rank) -> Result<Rank, MsgError> {
        self.members.map_or(Ok(rank), |members| members.rank(rank))
    }

    /// A received message, with its source translated to a rank of this communicator.
    #[inline]
    fn here(&self, received: Received) -> Received {
        self.members.map_or(received, |members| members.told(received))
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.members.map_or_else(|| self.engine.borrow().rank(), Members::own)
    }

    /// How many ranks the communicator has.
    pub fn size(&self) -> u32 {
        self.members.map_or_else(|| self.engine.borrow().size(), Members::size)
    }

    /// Sends `bytes` in standard mode.
    pub fn send<'b>(&self, bytes: &'b [u8], to: Rank, tag: i32) -> SendFuture<'e, 'b, P> {
        let destination = match self.in_job(to) {
            Ok(rank) => rank,
            Err(error) => return SendFuture::refused(self.engine, bytes, error),
        };
        let envelope = Envelope { destination, context: self.context, tag };
        SendFuture::new(self.engine, bytes, envelope, SendMode::Standard)
    }

    /// Receives a message into the front of `buffer`. `None` means any source or any tag.
    pub fn recv<'b>(
        &self,
        buffer: &'b mut [u8],
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> RecvFuture<'e, 'b, P> {
        let source = match self.members.map_or(Ok(from), |members| members.source(from)) {
            Ok(source) => source,
            Err(error) => return RecvFuture::refused(self.engine, buffer, error),
        };
        let selector = Selector { source, tag, context: self.context };
        RecvFuture::new(self.engine, buffer, selector)
    }

    /// Sends scattered data in standard mode.
    pub fn send_scattered(&self, data: Scattered, to: Rank, tag: i32) -> ScatteredFuture<'e, P> {
        match self.in_job(to) {
            Ok(destination) => {
                let envelope = Envelope { destination, context: self.context, tag };
                ScatteredFuture::send(self.engine, data, envelope)
            }
            Err(error) => ScatteredFuture::refused(self.engine, error),
        }
    }

    /// Receives a message of one rank into scattered memory.
    pub fn recv_scattered(&self, data: Scattered, from: Rank, tag: i32) -> ScatteredFuture<'e, P> {
        match self.in_job(from) {
            Ok(source) => {
                let (source, tag) = (Some(source), Some(tag));
                let selector = Selector { source, tag, context: self.context };
                ScatteredFuture::recv(self.engine, data, selector)
            }
            Err(error) => ScatteredFuture::refused(self.engine, error),
        }
    }

    /// Sends `bytes` to every other member of a group of the port, by one command to all members
    /// that have room. All members are ranks of this communicator. The caller polls the remaining
    /// sends, in any order.
    ///
    /// # Errors
    /// A member is gone, or the tag is invalid.
    pub fn multicast<'b>(
        &self,
        group: GroupId,
        bytes: &'b [u8],
        tag: i32,
    ) -> Result<Vec<SendFuture<'e, 'b, P>>, MsgError>
    where
        P: GroupPort,
    {
        let rest = self.engine.borrow_mut().multicast(group, bytes, self.context, tag)?;
        let began = rest.began.map(|id| SendFuture::pending(self.engine, bytes, id));
        let whole = rest.whole.into_iter().map(|destination| {
            let envelope = Envelope { destination, context: self.context, tag };
            SendFuture::new(self.engine, bytes, envelope, SendMode::Standard)
        });
        Ok(began.into_iter().chain(whole).collect())
    }

    /// Whether a rank is alive. A number that is no rank of this communicator counts as left.
    pub fn peer(&self, rank: Rank) -> PeerState {
        let peer = |rank| self.engine.borrow().port().peer(rank);
        self.in_job(rank).map_or(PeerState::Left, peer)
    }

    /// The (possibly virtual) node of a rank, which is below the size.
    pub fn node_of(&self, rank: Rank) -> u32 {
        let rank = self.members.map_or(rank, |members| members.ranks()[rank as usize]);
        self.engine.borrow().port().node_of(rank)
    }

    /// How many (possibly virtual) nodes the ranks run on.
    pub fn nodes(&self) -> u32 {
        // All ranks of a job are numbered node by node (`hikyaku run --ranks-per-node`).
        let last = || self.node_of(self.size() - 1) + 1;
        self.members.map_or_else(last, Members::nodes)
    }

    /// Runs `act` on the engine's port.
    #[inline(always)]
    pub fn with_port<R>(&self, act: impl FnOnce(&mut P) -> R) -> R {
        act(self.engine.borrow_mut().port_mut())
    }

    /// Whether messages or notes of any context have arrived that no receive has asked for.
    #[inline]
    pub fn has_left_overs(&self) -> bool {
        self.engine.borrow().has_left_overs()
    }

    /// [`Engine::reported_waits`].
    #[inline]
    pub fn reported_waits(&self) -> Option<u32> {
        self.engine.borrow().reported_waits()
    }

    /// [`Engine::long_wait`].
    #[inline]
    pub fn long_wait(&self) -> Option<(Time, Time)> {
        self.engine.borrow().long_wait()
    }

    /// [`Engine::report_whole`] in this context.
    pub fn report_whole(&self, before: u32, wait: Wait) {
        self.engine.borrow_mut().report_whole(before, wait.on(self.context));
    }

    /// [`Engine::send_note`] in this context.
    ///
    /// # Errors
    /// As [`Engine::send_note`].
    pub fn send_note(&self, bytes: &[u8], to: Rank, tag: i32) -> Result<(), MsgError> {
        let envelope = Envelope { destination: self.in_job(to)?, context: self.context, tag };
        self.engine.borrow_mut().send_note(bytes, envelope)
    }

    /// [`Engine::take_note`] in this context.
    pub fn take_note(&self, wanted: impl Fn(i32) -> bool) -> Option<(Received, Vec<u8>)> {
        let (note, bytes) = self.engine.borrow_mut().take_note(self.context, wanted)?;
        Some((self.here(note), bytes))
    }

    /// [`Engine::end_tag`] in this context.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn end_tag(&self, source: Rank, tag: i32, is_last: bool) -> Result<(), MsgError> {
        let (source, envelope) = (self.in_job(source)?, (self.context, tag));
        self.engine.borrow_mut().end_tag(source, envelope, is_last);
        Ok(())
    }

    /// [`Engine::find_unexpected`] in this context.
    pub fn unexpected(&self, wanted: impl Fn(i32) -> bool) -> Option<Received> {
        let found = self.engine.borrow().find_unexpected(self.context, wanted)?;
        Some(self.here(found))
    }

    /// [`Engine::find_oldest_unexpected`] in this context.
    pub fn oldest_unexpected(&self, wanted: impl Fn(i32) -> bool) -> Option<Received> {
        let found = self.engine.borrow().find_oldest_unexpected(self.context, wanted)?;
        Some(self.here(found))
    }

    /// [`Engine::take_unexpected`] in this context.
    pub fn take_unexpected(
        &self,
        into: &mut [u8],
        from: Rank,
        tag: i32,
    ) -> Option<Result<Received, MsgError>> {
        let source = Some(self.in_job(from).ok()?);
        let selector = Selector { source, tag: Some(tag), context: self.context };
        self.engine.borrow_mut().take_unexpected(into, selector)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::future::block_on;
    use crate::testing::pair;

    #[test]
    fn members_are_named_by_their_numbers() {
        let (a, b) = pair();
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        let members = |own| Members::new(vec![1, 0], own, |_| 0).unwrap();
        let (of_a, of_b) = (members(0), members(1));
        let a = ContextEndpoint::new(&a, 1).among(Some(&of_a));
        let b = ContextEndpoint::new(&b, 1).among(Some(&of_b));
        assert_eq!((a.rank(), b.rank(), a.in_job(0)), (1, 0, Ok(1)));
        assert_eq!(a.peer(2), PeerState::Left, "there is no such number");

        let mut buffer = [0];
        block_on(a.engine, a.send(&[5], 0, 7)).unwrap();
        let received = block_on(b.engine, b.recv(&mut buffer, Some(1), Some(7))).unwrap();
        assert_eq!((received.source, b.here(received).source, buffer), (0, 1, [5]));

        block_on(a.engine, a.send(&[6], 0, 8)).unwrap();
        a.send_note(&[9], 0, 9).unwrap();
        b.engine.borrow_mut().progress();
        let (note, bytes) = b.take_note(|tag| tag == 9).unwrap();
        assert_eq!((note.source, bytes), (1, vec![9]));
        assert_eq!(b.unexpected(|_| true).map(|found| (found.source, found.tag)), Some((1, 8)));
        assert_eq!(b.take_unexpected(&mut buffer, 0, 8).map(drop), None, "nothing is from there");
        let taken = b.take_unexpected(&mut buffer, 1, 8).unwrap().unwrap();
        assert_eq!((b.here(taken).source, buffer), (1, [6]));
    }

    #[test]
    fn a_long_wait_counts_what_is_reported() {
        let (a, _b) = pair();
        let a = RefCell::new(a);
        let endpoint = ContextEndpoint::new(&a, 1);
        assert_eq!(endpoint.reported_waits(), None);
        let counted = poll_fn(|_| match endpoint.reported_waits() {
            Some(count) => Poll::Ready(count),
            None => Poll::Pending,
        });
        assert_eq!(block_on(&a, counted), 0);
    }
}
