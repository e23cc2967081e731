//! Memory that is lent to a request for the duration of one call.
//!
//! A slice is borrowed and taken back before the call returns, even by panic. So the program need
//! not promise anything about it, and leaking a future is sound.

use hikyaku_nic::fabric::CopyPort;

use super::Engine;
use crate::buffer::{RecvBuffer, SendBuffer};
use crate::envelope::Received;
use crate::error::MsgError;
use crate::request::RequestId;

impl<P: CopyPort> Engine<P> {
    /// Runs `act` while `memory` is the buffer of a pending receive.
    pub(crate) fn lend_to_receive<R>(
        &mut self,
        id: RequestId,
        memory: &mut [u8],
        act: impl FnOnce(&mut Engine<P>) -> R,
    ) -> R {
        let lent = Lent { engine: self, id, fabric_too: true };
        // SAFETY: `memory` is borrowed exclusively for this call, and `lent` detaches the view from
        // the request, its only holder, before this call ends in any way.
        let buffer = unsafe { RecvBuffer::new(memory.as_mut_ptr(), memory.len()) };
        lent.engine.attach_receive(lent.id, buffer);
        act(lent.engine)
    }

    /// Tests a receive while `memory` is its buffer.
    pub(crate) fn poll_receive(
        &mut self,
        id: RequestId,
        memory: &mut [u8],
    ) -> Option<Result<Received, MsgError>> {
        let result = self.lend_to_receive(id, memory, |engine| engine.test(id));
        // The end of the loan completes a joint copy, and no event follows: a caller that is told
        // nothing may sleep.
        result.or_else(|| self.requests.take_done(id))
    }

    /// Runs `act` while `memory` holds the bytes of a pending send. Afterwards no one reads them.
    pub(crate) fn lend_to_send<R>(
        &mut self,
        id: RequestId,
        memory: &[u8],
        act: impl FnOnce(&mut Engine<P>) -> R,
    ) -> R {
        self.show_to_send(id, memory, true, act)
    }

    /// The same for one of several calls that lend the same bytes. Between the calls a receiver on
    /// another host may continue to fetch them.
    pub(crate) fn poll_send<R>(
        &mut self,
        id: RequestId,
        memory: &[u8],
        act: impl FnOnce(&mut Engine<P>) -> R,
    ) -> R {
        self.show_to_send(id, memory, false, act)
    }

    fn show_to_send<R>(
        &mut self,
        id: RequestId,
        memory: &[u8],
        fabric_too: bool,
        act: impl FnOnce(&mut Engine<P>) -> R,
    ) -> R {
        let lent = Lent { engine: self, id, fabric_too };
        // SAFETY: `memory` is borrowed for this call, and `lent` detaches the view from the
        // request, its only holder, before this call ends in any way.
        let buffer = unsafe { SendBuffer::new(memory.as_ptr(), memory.len()) };
        lent.engine.attach_send(lent.id, buffer);
        act(lent.engine)
    }
}

/// Detaches a request's memory when dropped.
struct Lent<'e, P: CopyPort> {
    engine: &'e mut Engine<P>,
    id: RequestId,
    /// Also withdraws it from the fabric, through which a receiver on another host reads it.
    fabric_too: bool,
}

impl<P: CopyPort> Drop for Lent<'_, P> {
    fn drop(&mut self) {
        match self.fabric_too {
            true => self.engine.detach(self.id),
            false => self.engine.detach_view(self.id),
        }
    }
}
