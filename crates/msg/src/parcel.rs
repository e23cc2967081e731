//! Parts of messages that have landed and are not copied out yet.
//!
//! A part is a claim on ring bytes, a record's inline payload, or bytes moved to ordinary memory.
//! Parts are consumed by value: a ring slice is released exactly once, when it is delivered to a
//! buffer, evacuated to ordinary memory, or discarded.

use std::collections::VecDeque;

use hikyaku_nic::fabric::{Inline, Landing, Port, RingId, RingSlice};

/// One part of a message.
#[derive(Debug)]
pub(crate) enum MessagePart {
    Inline(Inline),
    Ring(RingSlice),
    Heap(Box<[u8]>),
}

impl From<Landing> for MessagePart {
    #[inline]
    fn from(landing: Landing) -> MessagePart {
        match landing {
            Landing::Inline(inline) => MessagePart::Inline(inline),
            Landing::Copied(bytes) => MessagePart::Heap(bytes),
            Landing::Ring(slice) => MessagePart::Ring(slice),
        }
    }
}

impl MessagePart {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            MessagePart::Inline(inline) => inline.len(),
            MessagePart::Ring(slice) => slice.len(),
            MessagePart::Heap(bytes) => bytes.len(),
        }
    }

    /// Copies as much as fits to `into` and releases the rest. Returns the number of bytes copied.
    #[inline]
    pub(crate) fn deliver<P: Port>(self, port: &mut P, into: &mut [u8]) -> usize {
        let data = match self {
            MessagePart::Inline(inline) => Landing::Inline(inline),
            MessagePart::Ring(slice) => Landing::Ring(slice),
            MessagePart::Heap(bytes) => Landing::Copied(bytes),
        };
        data.read_out(port, into)
    }

    /// Passes all bytes to `act`, at most as many as `packet` holds at a time, and releases them.
    pub(crate) fn deliver_by<P: Port>(
        self,
        port: &mut P,
        packet: &mut [u8],
        mut act: impl FnMut(&[u8]),
    ) {
        match self {
            MessagePart::Inline(inline) => {
                let length = inline.copy_to(packet);
                act(&packet[..length]);
            }
            MessagePart::Ring(slice) => {
                let mut at = 0;
                while at < slice.len() {
                    let length = port.copy_out(&slice, at, packet);
                    act(&packet[..length]);
                    at += length.max(1);
                }
                port.release(slice);
            }
            MessagePart::Heap(bytes) => act(&bytes),
        }
    }

    /// Releases the part.
    pub(crate) fn discard<P: Port>(self, port: &mut P) {
        if let MessagePart::Ring(slice) = self {
            port.release(slice);
        }
    }

    /// Moves ring bytes of one ring, or of any, to ordinary memory. Returns their number.
    fn evacuate<P: Port>(&mut self, from: Option<RingId>, port: &mut P) -> usize {
        let MessagePart::Ring(slice) = self else { return 0 };
        if from.is_some_and(|ring| ring != slice.ring()) {
            return 0;
        }
        let mut bytes = vec![0; slice.len()].into_boxed_slice();
        port.copy_out(slice, 0, &mut bytes);
        let length = bytes.len();
        if let MessagePart::Ring(slice) = std::mem::replace(self, MessagePart::Heap(bytes)) {
            port.release(slice);
        }
        length
    }
}

/// The parts of one message in order. Most messages have one part, which needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct MessageParts {
    first: Option<MessagePart>,
    rest: VecDeque<MessagePart>,
}

impl MessageParts {
    #[inline]
    pub(crate) fn one(part: MessagePart) -> MessageParts {
        MessageParts { first: Some(part), rest: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn push(&mut self, part: MessagePart) {
        if self.first.is_none() {
            self.first = Some(part);
        } else {
            self.rest.push_back(part);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<MessagePart> {
        let part = self.first.take()?;
        self.first = self.rest.pop_front();
        Some(part)
    }

    /// Bytes in total.
    pub(crate) fn bytes(&self) -> u64 {
        self.first.iter().chain(&self.rest).map(|part| part.len() as u64).sum()
    }

    /// Copies all parts to `into`, one after the other, up to its end, and releases them. Returns
    /// their number of bytes.
    #[inline]
    pub(crate) fn deliver<P: Port>(&mut self, port: &mut P, into: &mut [u8]) -> u64 {
        let mut at = 0;
        let mut bytes = 0;
        while let Some(part) = self.pop() {
            bytes += part.len() as u64;
            at += part.deliver(port, &mut into[at..]);
        }
        bytes
    }

    /// Releases all parts.
    pub(crate) fn discard<P: Port>(&mut self, port: &mut P) {
        while let Some(part) = self.pop() {
            part.discard(port);
        }
    }

    /// Moves ring bytes of one ring, or of any, to ordinary memory. Returns their number.
    pub(crate) fn evacuate<P: Port>(&mut self, from: Option<RingId>, port: &mut P) -> u64 {
        let parts = self.first.iter_mut().chain(&mut self.rest);
        parts.map(|part| part.evacuate(from, port) as u64).sum()
    }
}
