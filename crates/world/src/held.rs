//! The engine in the hands of a call that does not go through futures.
//!
//! Such a call borrows the engine once and keeps it: the short way. But operations in flight need
//! the engine too, and a rank that waits must go on with them, or two ranks would wait for each
//! other. So with operations in flight the call lets go of the engine whenever it waits.

use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::task::Poll;

use hikyaku_msg::{
    Engine, Envelope, MsgError, Received, RecvFuture, Selector, SendFuture, SendMode,
};
use hikyaku_nic::fabric::{Activity, Port, Wait};

use crate::tasks::Tasks;
use crate::waiting::drive;

/// An engine that is held.
#[derive(Debug)]
pub(crate) enum Held<'e, P: Port> {
    /// Until the call returns: nothing is in flight.
    Throughout(&'e mut Engine<P>),
    /// Except while it waits.
    Between(Between<'e, P>),
}

/// An engine that is let go of while its holder waits.
#[derive(Debug)]
pub(crate) struct Between<'e, P: Port> {
    cell: &'e RefCell<Engine<P>>,
    tasks: &'e Tasks,
    /// `None` only within [`Between::wait`].
    held: Option<RefMut<'e, Engine<P>>>,
}

impl<'e, P: Port> From<&'e mut Engine<P>> for Held<'e, P> {
    fn from(engine: &'e mut Engine<P>) -> Held<'e, P> {
        Held::Throughout(engine)
    }
}

impl<'e, P: Port> Held<'e, P> {
    /// Holds an engine with operations in flight.
    pub(crate) fn between(cell: &'e RefCell<Engine<P>>, tasks: &'e Tasks) -> Held<'e, P> {
        Held::Between(Between { cell, tasks, held: Some(cell.borrow_mut()) })
    }

    /// [`Engine::watch`].
    #[inline]
    pub(crate) fn watch<R>(
        &mut self,
        wait: impl FnOnce() -> Wait,
        mut look: impl FnMut(&mut P) -> Option<R>,
    ) -> R {
        match self {
            Held::Throughout(engine) => engine.watch(wait, look),
            Held::Between(between) => between.wait(|cell, tasks| {
                let found = poll_fn(|_| {
                    let found = look(cell.borrow_mut().port_mut());
                    found.map_or(Poll::Pending, Poll::Ready)
                });
                drive(cell, tasks, wait(), found)
            }),
        }
    }

    /// [`Engine::send`].
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<(), MsgError> {
        match self {
            Held::Throughout(engine) => engine.send(bytes, envelope, mode),
            Held::Between(between) => between.wait(|cell, tasks| {
                drive(
                    cell,
                    tasks,
                    Wait::new(Activity::Send),
                    SendFuture::new(cell, bytes, envelope, mode),
                )
            }),
        }
    }

    /// [`Engine::recv`].
    pub(crate) fn recv(
        &mut self,
        into: &mut [u8],
        selector: Selector,
    ) -> Result<Received, MsgError> {
        match self {
            Held::Throughout(engine) => engine.recv(into, selector),
            Held::Between(between) => between.wait(|cell, tasks| {
                drive(
                    cell,
                    tasks,
                    Wait::new(Activity::Receive),
                    RecvFuture::new(cell, into, selector),
                )
            }),
        }
    }
}

impl<'e, P: Port> Between<'e, P> {
    /// Does something that waits, without the engine.
    fn wait<R>(&mut self, act: impl FnOnce(&'e RefCell<Engine<P>>, &'e Tasks) -> R) -> R {
        self.held = None;
        let result = act(self.cell, self.tasks);
        self.held = Some(self.cell.borrow_mut());
        result
    }
}

/// Why an engine that is asked for is held.
const IS_HELD: &str = "the engine is let go of only within a wait, which does not ask for it";

impl<P: Port> Deref for Held<'_, P> {
    type Target = Engine<P>;

    #[inline]
    fn deref(&self) -> &Engine<P> {
        match self {
            Held::Throughout(engine) => engine,
            Held::Between(between) => between.held.as_deref().expect(IS_HELD),
        }
    }
}

impl<P: Port> DerefMut for Held<'_, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Engine<P> {
        match self {
            Held::Throughout(engine) => engine,
            Held::Between(between) => between.held.as_deref_mut().expect(IS_HELD),
        }
    }
}
