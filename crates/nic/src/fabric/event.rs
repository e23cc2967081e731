//! Events: what an interface reports to its program.

use super::{Completed, INLINE_BYTES, PeerFailure, Port, Rank, RingId};
use crate::ring::{LongStores, copy};

/// An event that `poll` yields.
#[derive(Debug)]
pub enum Event {
    /// A packet or message has landed.
    Landed(Landed),
    /// A put with [`Notification::Status`](super::Notification::Status) has been written.
    Notified(Notified),
    /// A command of this rank with [`Reply::Event`](super::Reply::Event) is complete or has failed.
    Completed(Completed),
    /// A message found a landing ring full: read a payload out (IP-10).
    RingFull(RingId),
    /// A message found the status ring full.
    StatusFull,
    /// A peer died. Reported once for each peer.
    PeerFailed(PeerFailure),
    /// A record was invalid (from a stray or hostile writer). It was dropped and counted.
    Malformed {
        /// The source it claims.
        source: Rank,
    },
}

/// One status record of a send, and the place of its payload.
#[derive(Debug)]
pub struct Landed {
    /// The sender.
    pub source: Rank,
    /// [`Command::protocol`](super::Command::protocol) as posted.
    pub protocol: u8,
    /// [`Command::header`](super::Command::header) as posted.
    pub header: u64,
    /// Length of the whole message, bytes.
    pub total: u64,
    /// Where in the message this payload starts, bytes.
    pub offset: u64,
    /// The payload.
    pub data: Landing,
}

impl Landed {
    /// Bytes of payload in this record.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.data {
            Landing::Inline(inline) => inline.len(),
            Landing::Copied(bytes) => bytes.len(),
            Landing::Ring(slice) => slice.length as usize,
        }
    }

    /// Whether the record carries no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The place of a record's payload.
#[derive(Debug)]
pub enum Landing {
    /// In the record itself.
    Inline(Inline),
    /// Copied out of the records of a short message.
    Copied(Box<[u8]>),
    /// In a landing ring, until it is released.
    Ring(RingSlice),
}

impl Landing {
    /// Copies as much as fits to `into` and releases the payload. Returns the number of bytes
    /// copied.
    #[inline]
    pub fn read_out<P: Port>(self, port: &mut P, into: &mut [u8]) -> usize {
        match self {
            Landing::Inline(inline) => inline.copy_to(into),
            Landing::Copied(bytes) => {
                let length = bytes.len().min(into.len());
                copy(&bytes[..length], &mut into[..length]);
                length
            }
            Landing::Ring(slice) => port.read_out(slice, into),
        }
    }
}

/// Payload inside the status record.
#[derive(Debug, Clone, Copy)]
pub struct Inline {
    /// The bytes, little-endian, followed by zeros or leftovers.
    pub(crate) words: [u64; INLINE_BYTES / 8],
    /// The number of payload bytes.
    pub(crate) length: u8,
}

impl Inline {
    /// An inline payload of up to [`INLINE_BYTES`] bytes; `None` if `bytes` is longer.
    pub fn new(bytes: &[u8]) -> Option<Inline> {
        let length = u8::try_from(bytes.len()).ok().filter(|&n| usize::from(n) <= INLINE_BYTES)?;
        Some(Inline { words: pack(bytes), length })
    }

    /// Bytes of payload.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies the payload to the front of `into`, as much as fits. Returns the number of bytes
    /// copied.
    #[inline]
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        let length = self.len().min(into.len());
        let mut chunks = into[..length].chunks_exact_mut(8);
        let mut words = self.words.iter();
        for (chunk, word) in chunks.by_ref().zip(words.by_ref()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let rest = chunks.into_remainder();
        if let (false, Some(word)) = (rest.is_empty(), words.next()) {
            rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
        }
        length
    }
}

/// Packs up to [`INLINE_BYTES`] bytes into little-endian words, padded with zeros.
#[inline]
fn pack(bytes: &[u8]) -> [u64; INLINE_BYTES / 8] {
    let mut words = [0; INLINE_BYTES / 8];
    let mut chunks = bytes.chunks_exact(8);
    let mut filled = 0;
    for (word, chunk) in words.iter_mut().zip(chunks.by_ref()) {
        let mut raw = [0; 8];
        raw.copy_from_slice(chunk);
        *word = u64::from_le_bytes(raw);
        filled += 1;
    }
    let rest = chunks.remainder();
    if let (false, Some(word)) = (rest.is_empty(), words.get_mut(filled)) {
        let mut raw = [0; 8];
        raw[..rest.len()].copy_from_slice(rest);
        *word = u64::from_le_bytes(raw);
    }
    words
}

/// A claim on bytes in one of this rank's landing rings. Not `Clone`: a claim is released exactly
/// once, because the release moves the ring's head.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "bytes stay in the landing ring until the slice is released"]
pub struct RingSlice {
    /// The ring.
    pub(crate) ring: RingId,
    /// Free-running position of the first byte.
    pub(crate) position: u64,
    /// Bytes of payload.
    pub(crate) length: u32,
    /// The source that stored the bytes, and how it did, if their load is to be timed.
    pub(crate) sample: Option<(Rank, LongStores)>,
}

impl RingSlice {
    /// The ring id of bytes that lie in no ring: a port above the rings keeps them.
    const NO_RING: RingId = RingId::MAX;

    /// A claim on bytes that a port above the rings keeps, at a place that this port chooses.
    pub fn beside(place: u64, length: u32) -> RingSlice {
        RingSlice { ring: RingSlice::NO_RING, position: place, length, sample: None }
    }

    /// The place of bytes that a port above the rings keeps; `None`: they lie in a ring.
    #[inline]
    pub fn place_beside(&self) -> Option<u64> {
        (self.ring == RingSlice::NO_RING).then_some(self.position)
    }

    /// The ring of this rank that holds the bytes.
    pub fn ring(&self) -> RingId {
        self.ring
    }

    /// Bytes of payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// One status record of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notified {
    /// The writer.
    pub source: Rank,
    /// [`Command::protocol`](super::Command::protocol) as posted.
    pub protocol: u8,
    /// [`Command::header`](super::Command::header) as posted.
    pub header: u64,
    /// Bytes written.
    pub length: u64,
    /// The offset of the written bytes in this rank's region.
    pub offset: u64,
}
