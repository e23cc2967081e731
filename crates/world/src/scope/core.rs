//! The part of a scope that its requests refer to, without the scope's own lifetimes: the world,
//! and the list of started operations that were not waited for.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;

use hikyaku_msg::{MsgError, RequestId};
use hikyaku_nic::fabric::Wait;
use hikyaku_rank::TaskId;
use hikyaku_rank::persistent::NEIGHBOURS;

use crate::error::Error;
use crate::exchange::{Open, StartedExchange};
use crate::world::{Received, World};

/// The part of a scope that its requests refer to. Covariant in the world's lifetime, so a
/// reference to it needs one lifetime only, and one word.
pub(crate) struct Core<'world> {
    pub(crate) world: &'world World,
    /// Operations that were not waited for yet.
    pub(super) open: RefCell<VecDeque<Open>>,
    /// The number of exchanges started so far, which names the next one.
    pub(super) exchanges: Cell<u64>,
    /// The number of operations that the current call waits for.
    pub(super) awaited: Cell<u32>,
}

/// The name of an open operation.
pub(super) enum Next {
    Request(RequestId),
    Collective(TaskId),
    Exchange(u64),
}

impl fmt::Debug for Core<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("open", &self.open).finish_non_exhaustive()
    }
}

impl<'world> Core<'world> {
    pub(super) fn new(world: &'world World) -> Core<'world> {
        let open = RefCell::new(world.spare_list().take());
        Core { world, open, exchanges: Cell::new(0), awaited: Cell::new(1) }
    }

    /// Adds a request that has been started.
    #[inline]
    pub(super) fn opened(&self, id: RequestId) {
        self.open.borrow_mut().push_back(Open::Request(id));
    }

    /// Waits for a request.
    #[inline(always)]
    pub(super) fn wait(&self, id: RequestId) -> Result<Received, Error> {
        let result = self.world.communicator().wait_for(id, self.awaited.get());
        self.close(id);
        Ok(self.world.communicator().told(result)?.into())
    }

    /// Removes a request that has ended.
    pub(super) fn close(&self, id: RequestId) {
        let mut open = self.open.borrow_mut();
        let is_it = |other: &Open| matches!(other, Open::Request(other) if *other == id);
        // Requests mostly end in the order in which they were started.
        if open.front().is_some_and(is_it) {
            open.pop_front();
        } else if let Some(at) = open.iter().position(is_it) {
            open.remove(at);
        }
    }

    /// Waits for a collective to end, or polls once: `None` if it has not ended.
    pub(crate) fn end_collective(&self, id: TaskId, wait: bool) -> Option<Result<(), Error>> {
        let result = match wait {
            true => self.world.communicator().wait_for_task(id, self.awaited.get()),
            false => self.world.communicator().test_task(id)?,
        };
        let mut open = self.open.borrow_mut();
        open.retain(|other| !matches!(other, Open::Collective(other) if *other == id));
        Some(result.map_err(Error::from))
    }

    /// Waits for an exchange to end, or polls once: `None` if it has not ended.
    pub(crate) fn end_exchange(&self, name: u64, wait: bool) -> Option<Result<(), Error>> {
        // It stays in `open` until its last request has ended. So in every case it is cancelled
        // before its memory is freed.
        loop {
            let next = match self.exchange(name, |exchange| exchange.open().next()) {
                None => return Some(Err(MsgError::NoSuchRequest.into())),
                Some(None) => break,
                Some(Some(next)) => next,
            };
            let result = match wait {
                true => self.wait_for_part(next),
                false => self.world.communicator().test(next)?,
            };
            self.exchange(name, |exchange| exchange.settle(result));
        }
        let mut open = self.open.borrow_mut();
        let is_it =
            |other: &Open| matches!(other, Open::Exchange(exchange) if exchange.name() == name);
        let at = open.iter().position(is_it)?;
        match open.remove(at) {
            Some(Open::Exchange(exchange)) => Some(exchange.end()),
            _ => None,
        }
    }

    /// Waits for a request of an exchange.
    fn wait_for_part(&self, id: RequestId) -> Result<hikyaku_msg::Received, MsgError> {
        let whole = Wait { open: self.awaited.get(), ..NEIGHBOURS };
        self.world.engine().borrow_mut().set_whole(Some(whole));
        let result = self.world.communicator().wait_for(id, 1);
        self.world.engine().borrow_mut().set_whole(None);
        result
    }

    /// Calls a function with an exchange that has not ended.
    pub(super) fn exchange<R>(
        &self,
        name: u64,
        act: impl FnOnce(&mut StartedExchange) -> R,
    ) -> Option<R> {
        self.open
            .borrow_mut()
            .iter_mut()
            .find_map(|open| match open {
                Open::Exchange(exchange) if exchange.name() == name => Some(&mut **exchange),
                _ => None,
            })
            .map(act)
    }
}
