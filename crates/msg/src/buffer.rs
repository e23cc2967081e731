//! Views of memory that belongs to the program, and the only unsafe code of this crate.
//!
//! A request outlives the call that started it, so it cannot borrow its memory. A [`SendBuffer`] or
//! [`RecvBuffer`] is a bare pointer and length whose maker has promised the memory. The engine
//! keeps it only inside its request, and drops it when the request completes, is cancelled or is
//! detached.
//!
//! Calls that only need memory while they run (blocking calls, the poll of a future) do not need
//! that promise from the program. They *lend* a borrowed slice with the functions below, which take
//! it back before they return, even by panic. So leaking a future is sound.
//!
//! Views may be moved to another thread, and with them an engine that holds some: the promise is
//! about the bytes and when they are used, and not about who uses them. The engine moves as a
//! whole, so at any time one thread has it.

use std::slice;

use hikyaku_nic::fabric::Port;

use crate::engine::Engine;
use crate::request::RequestId;

/// Memory that a send reads.
#[derive(Debug)]
pub struct SendBuffer {
    start: *const u8,
    length: usize,
}

impl SendBuffer {
    /// A view of `length` bytes at `start`, which is ignored if `length` is zero.
    ///
    /// # Safety
    /// The bytes stay allocated and initialised, and are not written, until the request that holds
    /// the view is complete (its result was taken), cancelled or detached.
    pub unsafe fn new(start: *const u8, length: usize) -> SendBuffer {
        SendBuffer { start, length }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the maker promised allocated, initialised, unwritten bytes as long as a request
        // holds this view, and the slice cannot outlive the view.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }
}

// SAFETY: the bytes are only read, and the maker promised that nobody writes them meanwhile: which
// thread reads them makes no difference to either.
unsafe impl Send for SendBuffer {}

/// Memory that a receive fills.
#[derive(Debug)]
pub struct RecvBuffer {
    start: *mut u8,
    length: usize,
}

// SAFETY: the maker promised the bytes to the holder of the view alone, and it is not `Clone`:
// whoever moves it to another thread moves that right with it.
unsafe impl Send for RecvBuffer {}

impl RecvBuffer {
    /// A view of `length` bytes at `start`, which is ignored if `length` is zero.
    ///
    /// # Safety
    /// The bytes stay allocated and initialised, and nothing else reads or writes them, until the
    /// request that holds the view is complete (its result was taken), cancelled or detached.
    pub unsafe fn new(start: *mut u8, length: usize) -> RecvBuffer {
        RecvBuffer { start, length }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: the maker promised allocated, initialised bytes for our use alone as long as a
        // request holds this view; the view is not `Clone` and is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// The bytes from `offset` on; empty if `offset` is past the end.
    pub(crate) fn from(&mut self, offset: u64) -> &mut [u8] {
        let at = usize::try_from(offset).map_or(self.length, |at| at.min(self.length));
        &mut self.as_mut_slice()[at..]
    }
}

impl<P: Port> Engine<P> {
    /// Runs `act` while `memory` is the buffer of a pending receive.
    pub(crate) fn lend_to_receive<R>(
        &mut self,
        id: RequestId,
        memory: &mut [u8],
        act: impl FnOnce(&mut Engine<P>) -> R,
    ) -> R {
        let lent = Lent { engine: self, id };
        // SAFETY: `memory` is borrowed exclusively for this call, and `lent` detaches the view from
        // the request, its only holder, before this call ends in any way.
        let buffer = unsafe { RecvBuffer::new(memory.as_mut_ptr(), memory.len()) };
        lent.engine.attach_receive(lent.id, buffer);
        act(lent.engine)
    }

    /// Runs `act` while `memory` holds the bytes of a pending send.
    pub(crate) fn lend_to_send<R>(
        &mut self,
        id: RequestId,
        memory: &[u8],
        act: impl FnOnce(&mut Engine<P>) -> R,
    ) -> R {
        let lent = Lent { engine: self, id };
        // SAFETY: `memory` is borrowed for this call, and `lent` detaches the view from the
        // request, its only holder, before this call ends in any way.
        let buffer = unsafe { SendBuffer::new(memory.as_ptr(), memory.len()) };
        lent.engine.attach_send(lent.id, buffer);
        act(lent.engine)
    }
}

/// Detaches a request's memory when dropped.
struct Lent<'e, P: Port> {
    engine: &'e mut Engine<P>,
    id: RequestId,
}

impl<P: Port> Drop for Lent<'_, P> {
    fn drop(&mut self) {
        self.engine.detach(self.id);
    }
}

#[cfg(test)]
pub(crate) mod memory {
    //! Memory for the tests' requests: never freed, so the promise of its views cannot break.

    use super::{RecvBuffer, SendBuffer};

    /// Leaked bytes that a request may hold.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Leaked {
        start: *mut u8,
        length: usize,
    }

    impl Leaked {
        pub(crate) fn new(bytes: Vec<u8>) -> Leaked {
            let bytes = Vec::leak(bytes);
            Leaked { start: bytes.as_mut_ptr(), length: bytes.len() }
        }

        pub(crate) fn to_send(self) -> SendBuffer {
            // SAFETY: leaked, and the tests do not write what they send.
            unsafe { SendBuffer::new(self.start, self.length) }
        }

        pub(crate) fn to_receive(self) -> RecvBuffer {
            // SAFETY: leaked, and the tests read only when the request is complete.
            unsafe { RecvBuffer::new(self.start, self.length) }
        }

        pub(crate) fn to_vec(self) -> Vec<u8> {
            // SAFETY: leaked, and no request holds it mutably any more when the tests read.
            unsafe { std::slice::from_raw_parts(self.start, self.length) }.to_vec()
        }
    }
}
