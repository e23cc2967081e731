//! Data that a rank sends or receives, with or without gaps.
//!
//! Most data is contiguous. Data with gaps need not be packed for an algorithm that only sends or
//! only receives it: a message packs and unpacks it packet by packet ([`Scattered`]). An algorithm
//! that forwards what it receives, or divides it, accesses it through [`Data`].

use std::fmt;
use std::ops::{Deref, Range};

use hikyaku_msg::{PACKET, Scattered};
use hikyaku_nic::ring::copy;

use crate::blocks::{disjoint, split_mut};
use crate::rounds::starts;

/// Bytes of a rank: contiguous and lent by `W`, or with gaps.
pub enum Span<W> {
    /// Contiguous.
    Whole(W),
    /// With gaps.
    Scattered(Scattered),
}

/// Data to send.
pub type Part<'a, B> = Span<&'a [B]>;

/// The place of data to receive.
pub type Place<'a, B> = Span<&'a mut [B]>;

impl<B, W: Deref<Target = [B]>> Span<W> {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Span::Whole(bytes) => bytes.len(),
            Span::Scattered(data) => data.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<B, W: Deref<Target = [B]>> fmt::Debug for Span<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Parts without gaps.
pub(crate) fn whole_parts<'a, B>(parts: &[&'a [B]]) -> Vec<Part<'a, B>> {
    parts.iter().map(|part| Part::Whole(part)).collect()
}

/// Places without gaps.
pub(crate) fn whole_places<B>(places: Vec<&mut [B]>) -> Vec<Place<'_, B>> {
    places.into_iter().map(Place::Whole).collect()
}

/// Data that an algorithm reads piece by piece, with or without gaps.
pub(crate) trait Source<B> {
    /// The number of bytes.
    fn length(&self) -> usize;

    /// The bytes, if they are contiguous.
    fn whole(&self) -> Option<&[B]>;

    /// The maximum number of bytes that are copied at a time.
    fn at_a_time(&self) -> usize;

    /// A range of bytes: in place, or copied to `packet`.
    fn load<'s>(&'s self, range: Range<usize>, packet: &'s mut Vec<B>) -> &'s [B];

    /// A range of bytes as a part to send.
    fn part(&self, range: Range<usize>) -> Part<'_, B>;

    /// Blocks of `length` bytes as parts to send.
    fn cut(&self, length: usize, count: u32) -> Vec<Part<'_, B>> {
        let block = |at: usize| self.part(at * length..(at + 1) * length);
        (0..count as usize).map(block).collect()
    }

    /// All bytes as a part to send.
    #[inline(always)]
    fn all(&self) -> Part<'_, B> {
        self.part(0..self.length())
    }
}

/// Data that an algorithm also writes.
pub(crate) trait Data<B>: Source<B> {
    /// The bytes, if they are contiguous.
    fn whole_mut(&mut self) -> Option<&mut [B]>;

    /// Room for a range of bytes: in place, or in `packet`.
    fn room<'s>(&'s mut self, range: Range<usize>, packet: &'s mut Vec<B>) -> &'s mut [B];

    /// The same with the current bytes in it, for modification.
    fn change<'s>(&'s mut self, range: Range<usize>, packet: &'s mut Vec<B>) -> &'s mut [B];

    /// Completes [`Data::room`] or [`Data::change`]: moves the bytes in `packet`, if any, to `at`.
    fn settle(&mut self, at: usize, packet: &[B]);

    /// Copies bytes to `at`.
    fn put(&mut self, at: usize, bytes: &[B]);

    /// A range of bytes as a place to receive into.
    fn place(&mut self, range: Range<usize>) -> Place<'_, B>;

    /// The places of blocks of `length` bytes.
    fn split(&mut self, length: usize, count: u32) -> Vec<Place<'_, B>>;

    /// A range of bytes as a part to send, and another as a place to receive into.
    fn disjoint(&mut self, goes: Range<usize>, comes: Range<usize>) -> (Part<'_, B>, Place<'_, B>);

    /// All bytes as a place to receive into.
    #[inline(always)]
    fn all_places(&mut self) -> Place<'_, B> {
        self.place(0..self.length())
    }

    /// Copies a range of other data to `at`.
    fn copy<S: Source<B> + ?Sized>(&mut self, at: usize, from: &S, range: Range<usize>) {
        let mut packet = Vec::new();
        for done in starts(range.len(), from.at_a_time()) {
            let start = range.start + done;
            let end = range.end.min(start.saturating_add(from.at_a_time()));
            self.put(at + done, from.load(start..end, &mut packet));
        }
    }
}

impl<B: Copy> Source<B> for [B] {
    #[inline(always)]
    fn length(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn whole(&self) -> Option<&[B]> {
        Some(self)
    }

    #[inline(always)]
    fn at_a_time(&self) -> usize {
        usize::MAX
    }

    #[inline(always)]
    fn load<'s>(&'s self, range: Range<usize>, _: &'s mut Vec<B>) -> &'s [B] {
        &self[range]
    }

    #[inline(always)]
    fn part(&self, range: Range<usize>) -> Part<'_, B> {
        Part::Whole(&self[range])
    }
}

impl<B: Copy> Data<B> for [B] {
    #[inline(always)]
    fn whole_mut(&mut self) -> Option<&mut [B]> {
        Some(self)
    }

    #[inline(always)]
    fn room<'s>(&'s mut self, range: Range<usize>, _: &'s mut Vec<B>) -> &'s mut [B] {
        &mut self[range]
    }

    #[inline(always)]
    fn change<'s>(&'s mut self, range: Range<usize>, _: &'s mut Vec<B>) -> &'s mut [B] {
        &mut self[range]
    }

    #[inline(always)]
    fn settle(&mut self, _: usize, _: &[B]) {}

    #[inline(always)]
    fn put(&mut self, at: usize, bytes: &[B]) {
        copy(bytes, &mut self[at..][..bytes.len()]);
    }

    #[inline(always)]
    fn place(&mut self, range: Range<usize>) -> Place<'_, B> {
        Place::Whole(&mut self[range])
    }

    fn split(&mut self, length: usize, count: u32) -> Vec<Place<'_, B>> {
        whole_places(split_mut(self, length, count))
    }

    #[inline(always)]
    fn disjoint(&mut self, goes: Range<usize>, comes: Range<usize>) -> (Part<'_, B>, Place<'_, B>) {
        let (goes, comes) = disjoint(self, goes, comes);
        (Part::Whole(goes), Place::Whole(comes))
    }
}

impl<W: Deref<Target = [u8]>> Source<u8> for Span<W> {
    fn length(&self) -> usize {
        self.len()
    }

    fn whole(&self) -> Option<&[u8]> {
        match self {
            Span::Whole(bytes) => Some(bytes),
            Span::Scattered(_) => None,
        }
    }

    fn at_a_time(&self) -> usize {
        PACKET
    }

    fn load<'s>(&'s self, range: Range<usize>, packet: &'s mut Vec<u8>) -> &'s [u8] {
        match self {
            Span::Whole(bytes) => &bytes[range],
            Span::Scattered(data) => packed(data, range, packet),
        }
    }

    fn part(&self, range: Range<usize>) -> Part<'_, u8> {
        match self {
            Span::Whole(bytes) => Part::Whole(&bytes[range]),
            Span::Scattered(data) => Part::Scattered(data.part(range)),
        }
    }
}

fn packed<'s>(data: &Scattered, range: Range<usize>, packet: &'s mut Vec<u8>) -> &'s [u8] {
    packet.resize(range.len(), 0);
    data.pack(range.start, packet);
    packet
}

impl Data<u8> for Place<'_, u8> {
    fn whole_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Place::Whole(bytes) => Some(bytes),
            Place::Scattered(_) => None,
        }
    }

    fn room<'s>(&'s mut self, range: Range<usize>, packet: &'s mut Vec<u8>) -> &'s mut [u8] {
        match self {
            Place::Whole(bytes) => &mut bytes[range],
            Place::Scattered(_) => {
                packet.resize(range.len(), 0);
                packet
            }
        }
    }

    fn change<'s>(&'s mut self, range: Range<usize>, packet: &'s mut Vec<u8>) -> &'s mut [u8] {
        if let Place::Scattered(data) = self {
            packed(data, range.clone(), packet);
        }
        self.room(range, packet)
    }

    fn settle(&mut self, at: usize, packet: &[u8]) {
        if let Place::Scattered(data) = self {
            data.unpack(at, packet);
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        match self {
            Place::Whole(place) => copy(bytes, &mut place[at..][..bytes.len()]),
            Place::Scattered(data) => data.unpack(at, bytes),
        }
    }

    fn place(&mut self, range: Range<usize>) -> Place<'_, u8> {
        match self {
            Place::Whole(bytes) => Place::Whole(&mut bytes[range]),
            Place::Scattered(data) => Place::Scattered(data.part(range)),
        }
    }

    fn split(&mut self, length: usize, count: u32) -> Vec<Place<'_, u8>> {
        match self {
            Place::Whole(bytes) => whole_places(split_mut(bytes, length, count)),
            Place::Scattered(data) => {
                let starts = (0..count as usize).map(|block| block * length);
                starts.map(|at| Place::Scattered(data.part(at..at + length))).collect()
            }
        }
    }

    fn disjoint(
        &mut self,
        goes: Range<usize>,
        comes: Range<usize>,
    ) -> (Part<'_, u8>, Place<'_, u8>) {
        match self {
            Place::Whole(bytes) => {
                let (goes, comes) = disjoint(bytes, goes, comes);
                (Part::Whole(goes), Place::Whole(comes))
            }
            Place::Scattered(data) => {
                (Part::Scattered(data.part(goes)), Place::Scattered(data.part(comes)))
            }
        }
    }
}
