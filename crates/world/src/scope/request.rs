//! A send or receive that was started within a scope.

use hikyaku_msg::{CancelOutcome, MsgError, RequestId};

use super::core::Core;
use crate::error::Error;
use crate::world::Received;

/// An operation that was started and has not been waited for.
///
/// Dropping it does not undo the operation: the scope waits for it at its end.
#[derive(Debug)]
pub struct Request<'scope> {
    pub(super) core: &'scope Core<'scope>,
    state: StartState,
}

/// The state of a request after its start, in one word. So a request is two words, which travel in
/// registers: an enum of three words was built in memory and moved about there, which cost more
/// than the message.
#[derive(Debug, Clone, Copy)]
struct StartState(u64);

/// The contents of a [`StartState`].
enum StartStage {
    /// Its message was sent, or had arrived, at once: the engine has no request.
    Ended(Received),
    /// The engine has a request.
    Open(RequestId),
}

/// Set if the operation has ended. Source (24 bits), tag (31) and bytes (8) follow.
const ENDED: u64 = 1 << 63;

impl StartState {
    /// An operation that has ended; `None` if its result does not fit.
    #[inline(always)]
    fn ended(source: u32, tag: i32, bytes: u64) -> Option<StartState> {
        let fits = source < 1 << 24 && tag >= 0 && bytes < 1 << 8;
        fits.then_some(StartState(ENDED | u64::from(source) << 39 | (tag as u64) << 8 | bytes))
    }

    #[inline]
    fn open(id: RequestId) -> StartState {
        debug_assert!(id.word() & ENDED == 0, "names of requests leave the first bit");
        StartState(id.word())
    }

    #[inline]
    fn stage(self) -> StartStage {
        let StartState(word) = self;
        if word & ENDED == 0 {
            return StartStage::Open(RequestId::from_word(word));
        }
        let source = (word >> 39) as u32 & ((1 << 24) - 1);
        let tag = (word >> 8) as u32 & i32::MAX as u32;
        StartStage::Ended(Received { source, tag: tag as i32, bytes: word & 0xff })
    }
}

impl<'scope> Request<'scope> {
    /// A request whose message was sent, or had arrived, at once.
    #[inline(always)]
    pub(super) fn ended(core: &'scope Core<'scope>, source: u32, tag: i32, bytes: u64) -> Self {
        match StartState::ended(source, tag, bytes) {
            Some(state) => Request { core, state },
            None => Request::kept(core, source, tag, bytes),
        }
    }

    /// The same, with the result kept in the engine.
    #[cold]
    fn kept(core: &'scope Core<'scope>, source: u32, tag: i32, bytes: u64) -> Self {
        // The engine's ranks are those of the job, and are translated when the result is taken. The
        // rank exists.
        let source = core.world.communicator().in_job(source).unwrap_or(source);
        let received = hikyaku_msg::Received { source, tag, bytes };
        let id = core.world.engine().borrow_mut().completed(received);
        Request::opened(core, id)
    }

    /// A request that the engine has. The scope waits for it from here on.
    pub(super) fn opened(core: &'scope Core<'scope>, id: RequestId) -> Self {
        core.opened(id);
        Request { core, state: StartState::open(id) }
    }

    /// Its name in the engine, or its result if it had ended when it was started.
    pub(super) fn name(&self) -> Result<RequestId, Received> {
        match self.state.stage() {
            StartStage::Open(id) => Ok(id),
            StartStage::Ended(received) => Err(received),
        }
    }

    /// Waits for the operation.
    ///
    /// # Errors
    /// The error of the operation.
    #[inline]
    pub fn wait(self) -> Result<Received, Error> {
        match self.state.stage() {
            StartStage::Ended(received) => Ok(received),
            StartStage::Open(id) => self.core.wait(id),
        }
    }

    /// Its result if it has ended, or the request again.
    ///
    /// # Errors
    /// The error of the operation.
    pub fn test(self) -> Result<Result<Received, Self>, Error> {
        let id = match self.state.stage() {
            StartStage::Ended(received) => return Ok(Ok(received)),
            StartStage::Open(id) => id,
        };
        let communicator = self.core.world.communicator();
        match communicator.test(id) {
            None => {
                self.core.world.found_nothing();
                Ok(Err(self))
            }
            Some(result) => {
                self.core.close(id);
                Ok(Ok(self.core.world.communicator().told(result)?.into()))
            }
        }
    }

    /// Tries to undo the operation (MPI 5.0 §3.8.4) and waits for the outcome: `None` if it was
    /// undone, its result if it was too late.
    ///
    /// # Errors
    /// The error of the operation, if it was too late.
    pub fn cancel(self) -> Result<Option<Received>, Error> {
        if let StartStage::Open(id) = self.state.stage() {
            let outcome = self.core.world.engine().borrow_mut().cancel(id);
            if outcome == CancelOutcome::Cancelled {
                self.core.close(id);
                return Ok(None);
            }
        }
        match self.wait() {
            Err(Error::Message(MsgError::Cancelled)) => Ok(None),
            result => result.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_says_what_it_was_told_and_refuses_what_does_not_fit() {
        for (source, tag, bytes) in [(0, 0, 0), (1, 2, 3), ((1 << 24) - 1, i32::MAX, 255)] {
            let StartStage::Ended(received) =
                StartState::ended(source, tag, bytes).unwrap().stage()
            else {
                panic!("it has ended");
            };
            assert_eq!((received.source, received.tag, received.bytes), (source, tag, bytes));
        }
        assert!(StartState::ended(1 << 24, 0, 0).is_none());
        assert!(StartState::ended(0, -1, 0).is_none());
        assert!(StartState::ended(0, 0, 256).is_none());
    }

    #[test]
    fn a_scope_within_a_scope_has_its_own_requests() {
        let world = crate::World::init().unwrap();
        let (mut outer, mut inner, mut last) = ([0_u8; 2], [0_u8; 2], [0_u8; 2]);
        world
            .scope(|scope| {
                scope.irecv(&mut outer, 0, 1)?;
                let abandoned = world.scope(|scope| {
                    scope.irecv(&mut inner, 0, 2)?;
                    Err::<(), _>(Error::Message(MsgError::Cancelled))
                });
                assert!(abandoned.is_err());
                world.send(&[7_u8; 2], 0, 1)
            })
            .unwrap();
        // An abandoned receive takes no message.
        world.send(&[8_u8; 2], 0, 2).unwrap();
        world.scope(|scope| scope.irecv(&mut last, 0, 2).map(drop)).unwrap();
        assert_eq!([outer, inner, last], [[7; 2], [0; 2], [8; 2]]);
    }

    #[test]
    fn a_message_too_long_for_the_word_is_remembered_by_the_engine() {
        let world = crate::World::init().unwrap();
        let (mut long, mut short) = ([0_u8; 300], [0_u8; 8]);
        world.send(&[7_u8; 300], 0, 5).unwrap();
        world.send(&[9_u8; 8], 0, 6).unwrap();
        let heard = world.scope(|scope| {
            let long = scope.irecv(&mut long, 0, 5)?;
            let short = scope.irecv(&mut short, 0, 6)?;
            Ok([long.wait()?.bytes, short.wait()?.bytes])
        });
        assert_eq!(heard.unwrap(), [300, 8]);
        assert!(long == [7; 300] && short == [9; 8]);
    }
}
