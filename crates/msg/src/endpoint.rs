//! One communicator context of an engine, as futures see it.

use std::cell::RefCell;

use hikyaku_nic::fabric::{Port, Rank, Wait};

use crate::engine::Engine;
use crate::envelope::{Envelope, Received, Selector, SendMode};
use crate::error::MsgError;
use crate::future::{RecvFuture, SendFuture};

/// A handle on an engine for messages of one context.
#[derive(Debug)]
pub struct Endpoint<'e, P: Port> {
    engine: &'e RefCell<Engine<P>>,
    context: u32,
}

impl<P: Port> Clone for Endpoint<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Port> Copy for Endpoint<'_, P> {}

impl<'e, P: Port> Endpoint<'e, P> {
    /// A handle on `engine` for `context`.
    pub fn new(engine: &'e RefCell<Engine<P>>, context: u32) -> Endpoint<'e, P> {
        Endpoint { engine, context }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.engine.borrow().rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.engine.borrow().size()
    }

    /// Sends `bytes` in standard mode.
    pub fn send<'b>(&self, bytes: &'b [u8], to: Rank, tag: i32) -> SendFuture<'e, 'b, P> {
        let envelope = Envelope { destination: to, context: self.context, tag };
        SendFuture::new(self.engine, bytes, envelope, SendMode::Standard)
    }

    /// Receives a message into the front of `buffer`; `None` is any source, any tag.
    pub fn recv<'b>(
        &self,
        buffer: &'b mut [u8],
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> RecvFuture<'e, 'b, P> {
        let selector = Selector { source: from, tag, context: self.context };
        RecvFuture::new(self.engine, buffer, selector)
    }

    /// The (possibly virtual) node a rank lives on.
    pub fn node_of(&self, rank: Rank) -> u32 {
        self.engine.borrow().port().node_of(rank)
    }

    /// [`Engine::reported_waits`].
    pub fn reported_waits(&self) -> Option<u32> {
        self.engine.borrow().reported_waits()
    }

    /// [`Engine::report_whole`].
    pub fn report_whole(&self, before: u32, wait: Wait) {
        self.engine.borrow_mut().report_whole(before, wait);
    }

    /// [`Engine::send_note`] in this context.
    ///
    /// # Errors
    /// As there.
    pub fn send_note(&self, bytes: &[u8], to: Rank, tag: i32) -> Result<(), MsgError> {
        let envelope = Envelope { destination: to, context: self.context, tag };
        self.engine.borrow_mut().send_note(bytes, envelope)
    }

    /// [`Engine::take_note`] in this context.
    pub fn take_note(&self, wanted: impl Fn(i32) -> bool) -> Option<(Received, Vec<u8>)> {
        self.engine.borrow_mut().take_note(self.context, wanted)
    }

    /// [`Engine::find_unexpected`] in this context.
    pub fn unexpected(&self, wanted: impl Fn(i32) -> bool) -> Option<Received> {
        self.engine.borrow().find_unexpected(self.context, wanted)
    }

    /// [`Engine::find_oldest_unexpected`] in this context.
    pub fn oldest_unexpected(&self, wanted: impl Fn(i32) -> bool) -> Option<Received> {
        self.engine.borrow().find_oldest_unexpected(self.context, wanted)
    }

    /// [`Engine::take_unexpected`] in this context.
    pub fn take_unexpected(
        &self,
        into: &mut [u8],
        from: Rank,
        tag: i32,
    ) -> Option<Result<Received, MsgError>> {
        let selector = Selector { source: Some(from), tag: Some(tag), context: self.context };
        self.engine.borrow_mut().take_unexpected(into, selector)
    }
}
