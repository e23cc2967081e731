//! Views of the program's memory.
//!
//! A request outlives the call that started it, so it cannot borrow its memory. A [`SendBuffer`] or
//! [`RecvBuffer`] is a bare pointer and length whose maker has promised the memory. The engine
//! keeps it only inside its request, and drops it when the request completes, is cancelled or is
//! detached.
//!
//! Calls that only need memory while they run (blocking calls, the poll of a future) do not need
//! that promise from the program: they lend a borrowed slice (`engine/lend.rs`).
//!
//! Scattered data are packed and unpacked by their owner ([`Pieces`]), one packet at a time: no
//! copy of a whole message is made.
//!
//! A view may move to another thread, and so may an engine that holds views: the promise covers the
//! bytes and the time of their use, not the thread that uses them. The engine moves as a whole, so
//! only one thread has it at any time.

use std::fmt;
use std::ops::Range;
use std::slice;

use hikyaku_nic::fabric::Port;

use crate::parcel::MessagePart;

/// The most bytes of scattered data that are buffered in packed form at a time.
pub const PACKET: usize = 8 << 10;

/// Scattered data in the program's memory, in sending order. The thread that has the engine uses
/// and drops them.
pub trait Pieces: Send {
    /// The length in bytes.
    fn len(&self) -> usize;

    /// Whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `from` on, until `into` is full.
    fn pack(&self, from: usize, into: &mut [u8]);

    /// Stores `data` at byte `at`. Bytes beyond the end are dropped.
    fn unpack(&mut self, at: usize, data: &[u8]);

    /// Another handle on the same data.
    fn again(&self) -> Box<dyn Pieces>;
}

/// Scattered data of a request, and the packet of them that is buffered.
pub struct Scattered {
    pieces: Box<dyn Pieces>,
    /// The range of their bytes that this request covers.
    range: Range<usize>,
    packet: Vec<u8>,
    /// The offset at which the packet begins.
    at: usize,
}

impl fmt::Debug for Scattered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scattered").field("len", &self.len()).field("at", &self.at).finish()
    }
}

impl Scattered {
    /// Data that a request packs or unpacks. Until the request is complete (its result was taken),
    /// cancelled or detached, no one writes the sent bytes, and no one uses the receive memory.
    pub fn new(pieces: Box<dyn Pieces>) -> Scattered {
        let range = 0..pieces.len();
        Scattered { pieces, range, packet: Vec::new(), at: 0 }
    }

    /// A part of the bytes, for a separate request.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Scattered {
        let start = self.range.start;
        let range = start + range.start..self.range.end.min(start + range.end);
        Scattered { pieces: self.pieces.again(), range, packet: Vec::new(), at: 0 }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Copies the bytes from `from` on, until `into` is full or the data end.
    pub fn pack(&self, from: usize, into: &mut [u8]) {
        self.pieces.pack(self.range.start + from, into);
    }

    /// Stores `data` at byte `at`. Bytes beyond the end are dropped.
    pub fn unpack(&mut self, at: usize, data: &[u8]) {
        unpack(&mut *self.pieces, &self.range, at, data);
    }

    /// The bytes from `from` on, as many as the packet holds; at least one before the end.
    pub(crate) fn from(&mut self, from: usize) -> &[u8] {
        let has = from.checked_sub(self.at).is_some_and(|skip| skip < self.packet.len());
        if !has {
            self.packet.resize(PACKET.min(self.len().saturating_sub(from)), 0);
            self.pieces.pack(self.range.start + from, &mut self.packet);
            self.at = from;
        }
        &self.packet[from - self.at..]
    }

    /// All bytes from `from` on.
    pub(crate) fn rest(&mut self, from: usize) -> Vec<u8> {
        let mut rest = vec![0; self.len().saturating_sub(from)];
        self.pack(from, &mut rest);
        rest
    }

    /// Stores a part of a message from `at` on.
    fn take_in<P: Port>(&mut self, port: &mut P, part: MessagePart, mut at: usize) {
        self.packet.resize(PACKET, 0);
        let Scattered { pieces, range, packet, .. } = self;
        part.deliver_by(port, packet, |data| {
            unpack(&mut **pieces, range, at, data);
            at += data.len();
        });
    }
}

/// Stores `data` at byte `at` of `range`.
fn unpack(pieces: &mut dyn Pieces, range: &Range<usize>, at: usize, data: &[u8]) {
    let room = range.len().saturating_sub(at);
    pieces.unpack(range.start + at, &data[..data.len().min(room)]);
}

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

// SAFETY: the bytes are only read, and the maker promised that no one writes them meanwhile. Both
// hold whichever thread reads them.
unsafe impl Send for SendBuffer {}

/// Memory that a receive fills.
#[derive(Debug)]
pub struct RecvBuffer {
    start: *mut u8,
    length: usize,
    /// The memory, if it is scattered.
    scattered: Option<Box<Scattered>>,
}

// SAFETY: the maker promised the bytes to the holder of the view alone, and it is not `Clone`:
// moving it to another thread moves that right with it.
unsafe impl Send for RecvBuffer {}

impl RecvBuffer {
    /// A view of `length` bytes at `start`, which is ignored if `length` is zero.
    ///
    /// # Safety
    /// The bytes stay allocated and initialised, and nothing else reads or writes them, until the
    /// request that holds the view is complete (its result was taken), cancelled or detached.
    pub unsafe fn new(start: *mut u8, length: usize) -> RecvBuffer {
        RecvBuffer { start, length, scattered: None }
    }

    /// A view of scattered memory.
    pub fn scattered(data: Scattered) -> RecvBuffer {
        let length = data.len();
        RecvBuffer { start: std::ptr::null_mut(), length, scattered: Some(Box::new(data)) }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_scattered(&self) -> bool {
        self.scattered.is_some()
    }

    /// The bytes, if they are contiguous.
    #[inline]
    pub(crate) fn whole(&mut self) -> Option<&mut [u8]> {
        if self.scattered.is_some() {
            return None;
        }
        if self.length == 0 {
            return Some(&mut []);
        }
        // SAFETY: the maker promised allocated, initialised bytes for our use alone as long as a
        // request holds this view; the view is not `Clone` and is borrowed exclusively.
        Some(unsafe { slice::from_raw_parts_mut(self.start, self.length) })
    }

    /// Stores a part of a message from `offset` on, up to the buffer's end, and releases it.
    #[inline]
    pub(crate) fn take_in<P: Port>(&mut self, port: &mut P, part: MessagePart, offset: u64) {
        let at = usize::try_from(offset).map_or(self.length, |at| at.min(self.length));
        if let Some(scattered) = &mut self.scattered {
            return scattered.take_in(port, part, at);
        }
        if let Some(bytes) = self.whole() {
            part.deliver(port, &mut bytes[at..]);
        }
    }
}

#[cfg(test)]
pub(crate) mod memory {
    //! Memory for the tests' requests: never freed, or kept by a test until its requests are over,
    //! so the promise of its views cannot break.

    use super::{Pieces, RecvBuffer, Scattered, SendBuffer};

    /// Leaked bytes that a request may hold.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Leaked {
        start: *mut u8,
        length: usize,
    }

    impl Leaked {
        pub(crate) fn new(bytes: Vec<u8>) -> Leaked {
            let bytes = Vec::leak(bytes);
            Leaked::kept(bytes)
        }

        /// Bytes that the test owns, and does not touch while a request may hold them.
        pub(crate) fn kept(bytes: &mut [u8]) -> Leaked {
            Leaked { start: bytes.as_mut_ptr(), length: bytes.len() }
        }

        pub(crate) fn to_send(self) -> SendBuffer {
            // SAFETY: leaked or kept, and the tests do not write what they send.
            unsafe { SendBuffer::new(self.start, self.length) }
        }

        pub(crate) fn to_receive(self) -> RecvBuffer {
            // SAFETY: leaked or kept, and the tests read only when the request is complete.
            unsafe { RecvBuffer::new(self.start, self.length) }
        }

        /// The same bytes as scattered data, in reverse order.
        pub(crate) fn backwards(self) -> Scattered {
            Scattered::new(Box::new(Backwards(self)))
        }

        pub(crate) fn to_vec(self) -> Vec<u8> {
            // SAFETY: leaked or kept, and no request holds it mutably any more when the tests read.
            unsafe { std::slice::from_raw_parts(self.start, self.length) }.to_vec()
        }
    }

    struct Backwards(Leaked);

    // SAFETY: leaked or kept, and the tests use it when the request is complete.
    unsafe impl Send for Backwards {}

    impl Pieces for Backwards {
        fn len(&self) -> usize {
            self.0.length
        }

        fn pack(&self, from: usize, into: &mut [u8]) {
            let bytes = self.0.to_vec();
            let rest = bytes.iter().rev().skip(from);
            into.iter_mut().zip(rest).for_each(|(into, byte)| *into = *byte);
        }

        fn unpack(&mut self, at: usize, data: &[u8]) {
            // SAFETY: leaked or kept, and only the request that holds this uses the bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.0.start, self.0.length) };
            let rest = bytes.iter_mut().rev().skip(at);
            rest.zip(data).for_each(|(byte, from)| *byte = *from);
        }

        fn again(&self) -> Box<dyn Pieces> {
            Box::new(Backwards(self.0))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::pattern;

    #[derive(Clone)]
    struct OnePiece(Arc<Mutex<Vec<u8>>>);

    impl Pieces for OnePiece {
        fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }

        fn pack(&self, from: usize, into: &mut [u8]) {
            into.copy_from_slice(&self.0.lock().unwrap()[from..][..into.len()]);
        }

        fn unpack(&mut self, at: usize, data: &[u8]) {
            self.0.lock().unwrap()[at..][..data.len()].copy_from_slice(data);
        }

        fn again(&self) -> Box<dyn Pieces> {
            Box::new(self.clone())
        }
    }

    fn in_one_piece(bytes: Vec<u8>) -> (Scattered, Arc<Mutex<Vec<u8>>>) {
        let bytes = Arc::new(Mutex::new(bytes));
        (Scattered::new(Box::new(OnePiece(Arc::clone(&bytes)))), bytes)
    }

    #[test]
    fn scattered_bytes_are_given_from_any_place() {
        let bytes = pattern(2 * PACKET + 10, 1);
        let (mut data, _) = in_one_piece(bytes.clone());
        for from in [0, 5, PACKET - 1, PACKET, 2 * PACKET + 9, 3] {
            let found = data.from(from);
            assert!(!found.is_empty() && bytes[from..].starts_with(found), "from {from}");
        }
    }

    #[test]
    fn a_part_of_scattered_bytes_has_no_others() {
        let bytes = pattern(100, 1);
        let (data, memory) = in_one_piece(bytes.clone());
        let mut part = data.part(20..60).part(10..30);
        assert_eq!((part.len(), part.from(5)), (20, &bytes[35..50]));
        assert_eq!(part.rest(18), bytes[48..50]);
        part.unpack(15, &[0; 10]);
        let expected = [&bytes[..45], &[0; 5], &bytes[50..]].concat();
        assert_eq!(*memory.lock().unwrap(), expected);
        assert_eq!(data.part(90..200).len(), 10);
    }
}
