//! The status record: 64 bytes, one cache line, eight words.
//!
//! ```text
//!   word   inline                ring                        put
//!   0      stamp (written last, with release order)
//!   1      header                header                      header
//!   2      arrival time          arrival time                arrival time
//!   3      bytes 0..8            total length of message     length
//!   4      bytes 8..16           offset in message           offset in the target's region
//!   5      bytes 16..24          position in landing ring    -
//!   6      bytes 24..32          ring << 32 | length         -
//!   7      bytes 32..40          -                           -
//!
//!   stamp   63      48 47    40 39    32 31            24 23               0
//!          [   lap    ][ length ][  kind  ][  protocol    ][     source     ]
//! ```
//!
//! The length is that of an inline payload, or of the part of a short payload that lies in the
//! records after this one: they are as long as this one, and each has seven words of payload beside
//! its stamp. For a payload in a ring, the length field says whether the receiver shall time its
//! load: 0, or 1 plus the way in which it was stored (`hosted/stores.rs`).
//!
//! The lap is the round of the ring in which the slot was written. So a reader needs no second flag
//! and a writer need not read the slot that it overwrites. Sixteen bits are enough: a slot is
//! written once a lap, so a reader can find only this lap or the one before.

use crate::fabric::{INLINE_BYTES, Rank};

/// Words of a record besides the stamp.
pub const BODY_WORDS: usize = 2 + INLINE_BYTES / 8;

/// Bytes of a record besides the stamp.
pub const BODY_BYTES: usize = 8 * BODY_WORDS;

/// The word that holds the header.
pub const HEADER: usize = 1;

/// The word that holds the arrival time.
pub const TIME: usize = 2;

/// The first word that depends on the kind.
pub const DATA: usize = 3;

/// The number of ranks that a stamp can name.
pub const MAX_RANKS: u32 = 1 << 24;

/// The content of a status record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StatusKind {
    /// Payload in the record itself.
    Inline = 1,
    /// Payload in a landing ring.
    Ring = 2,
    /// Payload written by a put.
    Put = 3,
    /// No payload: the command of this reserved slot failed.
    Void = 4,
    /// No payload: the last record of its source in this status ring (`hosted/follow.rs`).
    Moved = 5,
    /// Payload in this record and those after it, which are void records by themselves. Only in a
    /// private ring.
    Short = 6,
}

impl StatusKind {
    fn from_bits(bits: u8) -> Option<StatusKind> {
        match bits {
            1 => Some(StatusKind::Inline),
            2 => Some(StatusKind::Ring),
            3 => Some(StatusKind::Put),
            4 => Some(StatusKind::Void),
            5 => Some(StatusKind::Moved),
            6 => Some(StatusKind::Short),
            _ => None,
        }
    }
}

/// The word whose store publishes a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The stamp of a record of `source` in round `lap` of the ring.
    #[inline]
    pub fn new(lap: u16, kind: StatusKind, protocol: u8, length: u8, source: Rank) -> Stamp {
        debug_assert!(source < MAX_RANKS);
        Stamp(
            u64::from(lap) << 48
                | u64::from(length) << 40
                | (kind as u64) << 32
                | u64::from(protocol) << 24
                | u64::from(source & (MAX_RANKS - 1)),
        )
    }

    /// Whether the stamp has this kind, protocol and source.
    #[inline]
    pub fn is(self, kind: StatusKind, protocol: u8, source: Rank) -> bool {
        const FIELDS: u64 = 0x0000_00ff_ffff_ffff;
        self.0 & FIELDS == Stamp::new(0, kind, protocol, 0, source).0
    }

    /// The lap in which the record was written.
    #[inline]
    pub fn lap(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The inline payload length in bytes, or how a payload in a ring was stored. It is the
    /// sender's claim and not checked yet.
    #[inline]
    pub fn length(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// The kind of the record; `None` if the bits are invalid.
    #[inline]
    pub fn kind(self) -> Option<StatusKind> {
        StatusKind::from_bits((self.0 >> 32) as u8)
    }

    /// The protocol of the layer above.
    #[inline]
    pub fn protocol(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The sender, as the stamp claims; not checked yet.
    #[inline]
    pub fn source(self) -> Rank {
        (self.0 as u32) & (MAX_RANKS - 1)
    }
}

/// A record as read from a slot: the stamp and the words it published.
#[derive(Debug, Clone, Copy)]
pub struct StatusRecord {
    /// Word 0.
    pub stamp: Stamp,
    /// Words 1 to 7.
    pub body: [u64; BODY_WORDS],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_as_written() {
        for (lap, length, protocol, source) in
            [(0, 0, 0, 0), (1, 40, 7, 3), (u16::MAX, 255, 255, MAX_RANKS - 1)]
        {
            let stamp = Stamp::new(lap, StatusKind::Put, protocol, length, source);
            assert_eq!(stamp.lap(), lap);
            assert_eq!(stamp.length(), length);
            assert_eq!(stamp.kind(), Some(StatusKind::Put));
            assert_eq!(stamp.protocol(), protocol);
            assert_eq!(stamp.source(), source);
        }
    }

    #[test]
    fn invalid_kind_bits_are_detected() {
        assert_eq!(Stamp(0).kind(), None);
        assert_eq!(Stamp(9 << 32).kind(), None);
    }
}
