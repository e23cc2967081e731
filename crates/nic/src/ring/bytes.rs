//! Raw bytes that several processes can access: the payload area of a landing ring.
//!
//! Copies go through raw pointers, never through references. Another process may write at any time,
//! and only the ring's protocol (a claim before the store, a published record before the load)
//! keeps accesses apart. Under loom each byte is a checked cell, so a violation of the protocol
//! fails the model instead of tearing a message.

#[cfg(all(target_arch = "x86_64", not(loom)))]
use std::{arch::x86_64 as arch, mem::MaybeUninit};
#[cfg(not(loom))]
use std::{marker::PhantomData, ptr::NonNull};

#[cfg(all(target_arch = "x86_64", not(loom)))]
use crate::sync::compiler_fence;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of a cache line.
#[cfg(not(loom))]
const LINE: usize = 64;

/// The way of long stores into shared memory. Which way is faster depends on the machine and on the
/// distance of the two cores, so a port measures both for each peer (`hosted/stores.rs`).
///
/// Before a core can write a line that another core has read, it must fetch it, and a processor
/// fetches only few lines at once for its stores. Whole lines that bypass the caches are not
/// fetched at all, but their reader has to fetch them from further away. Latency one way by a
/// landing ring, through the caches and past them, on an AMD EPYC: 16 KiB 2.4 and 2.2 us between
/// near cores, 8.5 and 2.4 us between far ones; 64 KiB 8.4 and 6.3 us near, 31 and 6.2 us far. On
/// an Intel Xeon of 2023: 64 KiB 10.1 and 13.2 us, 1 MiB 113 and 184 us.
///
/// Below 4 KiB cached stores are at least as fast on any machine: 4 KiB 0.72 and 0.82 us on the
/// EPYC's near cores, 1 KiB 0.28 and 0.53.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LongStores {
    /// Through the caches, like short stores.
    #[default]
    Cached,
    /// Past the caches, from 4 KiB on.
    PastCaches,
}

impl LongStores {
    /// The length from which a store is long, bytes.
    pub const FROM: usize = 4096;

    /// Both ways.
    pub const ALL: [LongStores; 2] = [LongStores::Cached, LongStores::PastCaches];

    /// The number of length classes: less than a whole packet of the default layout, packets, and
    /// payloads stored in one piece outside the rings.
    pub const CLASSES: usize = 3;

    /// The class of a long payload.
    #[inline]
    pub fn class_of(length: usize) -> usize {
        usize::from(length >= LongStores::FROM << 1) + usize::from(length >= LongStores::FROM << 4)
    }
}

/// A bounded area of shared bytes, valid for `'m`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'m> {
    #[cfg(not(loom))]
    start: NonNull<u8>,
    #[cfg(not(loom))]
    length: usize,
    #[cfg(not(loom))]
    memory: PhantomData<&'m ()>,
    #[cfg(loom)]
    cells: &'m [crate::sync::UnsafeCell<u8>],
}

#[cfg(not(loom))]
impl<'m> Bytes<'m> {
    /// An area of `length` bytes from `start`.
    ///
    /// # Safety
    /// The bytes stay mapped and readable for `'m`, and writable if anything is stored in the area.
    pub unsafe fn new(start: NonNull<u8>, length: usize) -> Bytes<'m> {
        Bytes { start, length, memory: PhantomData }
    }

    /// The size of the area, bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.length
    }

    /// Copies `from` into the area at byte `at`. `way` applies if `from` is long.
    #[inline]
    pub fn store(&self, at: usize, from: &[u8], way: LongStores) {
        if from.len() >= LongStores::FROM && way == LongStores::PastCaches {
            return self.stream(at, Bytes::borrowed(from));
        }
        assert!(at <= self.length && from.len() <= self.length - at);
        // SAFETY: `at` is within the area, by the assertion.
        let target = unsafe { self.start.add(at) };
        // SAFETY: the range ends within the area, by the assertion; the area is writable for 'm;
        // `from` is ordinary memory outside the area (a landing ring is only ever copied out).
        unsafe { copy_apart(from.as_ptr(), target.as_ptr(), from.len()) };
    }

    /// Borrowed bytes as a read-only area.
    #[inline]
    fn borrowed(from: &[u8]) -> Bytes<'_> {
        let start = NonNull::from(from).cast();
        // SAFETY: the bytes stay mapped for the borrow, and the callers here only read them.
        unsafe { Bytes::new(start, from.len()) }
    }

    /// [`Bytes::store`] for bytes that may be part of the area.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8], way: LongStores) {
        self.copy(at, Bytes::borrowed(from), way);
    }

    /// Copies all of another area to byte `at` of this one. The two may overlap.
    #[inline]
    pub fn copy(&self, at: usize, from: Bytes<'_>, way: LongStores) {
        let length = from.length;
        assert!(at <= self.length && length <= self.length - at);
        let target = self.start.as_ptr().wrapping_add(at);
        let apart = target.addr().abs_diff(from.start.as_ptr().addr()) >= length;
        if length >= LongStores::FROM && apart && way == LongStores::PastCaches {
            return self.stream(at, from);
        }
        if apart {
            // SAFETY: the range ends within the area, by the assertion, and the other area is as
            // long; they are apart.
            return unsafe { copy_apart(from.start.as_ptr(), target, length) };
        }
        // SAFETY: as above; `copy_from` allows an overlap.
        unsafe { target.copy_from(from.start.as_ptr(), length) };
    }

    /// Stores whole lines past the caches. `from` does not overlap the target.
    #[inline(never)]
    fn stream(&self, at: usize, from: Bytes<'_>) {
        assert!(at <= self.length && from.length <= self.length - at);
        let target = self.start.as_ptr().wrapping_add(at);
        let head = target.align_offset(LINE).min(from.length);
        let lines = (from.length - head) / LINE * LINE;
        let ends = [(0, head), (head + lines, from.length - head - lines)];
        for (part, length) in ends {
            let source = from.start.as_ptr().wrapping_add(part);
            // SAFETY: both ranges are within their areas, the target's by the assertion, and the
            // caller guarantees that they do not overlap.
            unsafe { target.wrapping_add(part).copy_from_nonoverlapping(source, length) };
        }
        let (target, source) = (target.wrapping_add(head), from.start.as_ptr().wrapping_add(head));
        // SAFETY: as above; the target is the start of a line, and whole lines are left.
        unsafe { stream_lines(target, source, lines) };
    }

    /// Copies bytes from `at` on to `into`.
    #[inline]
    pub fn load(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.length && into.len() <= self.length - at);
        // SAFETY: `at` is within the area, by the assertion.
        let origin = unsafe { self.start.add(at) };
        // SAFETY: the range ends within the area, by the assertion; the area is readable for 'm;
        // `into` is ordinary memory outside the area.
        unsafe { copy_apart(origin.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// The address of byte `at`, for prefetching only.
    #[inline]
    pub fn address(&self, at: usize) -> *const u8 {
        self.start.as_ptr().wrapping_add(at)
    }
}

/// The length from which the C library may copy by one `rep movsb`, bytes.
#[cfg(all(target_arch = "x86_64", not(loom)))]
const REPEATED_FROM: usize = 2048;

/// Bytes that a copy without `rep movsb` moves at a time.
#[cfg(all(target_arch = "x86_64", not(loom)))]
const BLOCK: usize = 64;

/// Copies `from` to `into`, as long, like `copy_from_slice`, but fast for any two addresses.
///
/// The `rep movsb` of AMD's Zen 3 takes 25 times as long where the target lies 1 to 31 bytes after
/// the source, modulo 4 KiB: 16 KiB within the caches 9.3 us and 0.35. The C library uses it from
/// 2,112 bytes on (glibc 2.36). The start of a page and a large allocation are such a pair: malloc
/// gives the address 16 of a page. There the copy is a loop, 0.5 us.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy<T: Copy>(from: &[T], into: &mut [T]) {
    assert_eq!(from.len(), into.len(), "a copy between slices of different lengths");
    // SAFETY: both slices have so many bytes, and a mutable one is apart from all others.
    unsafe { copy_apart(from.as_ptr().cast(), into.as_mut_ptr().cast(), size_of_val(from)) };
}

/// Whether `rep movsb` between these addresses is slow on some processors: see [`copy()`].
#[inline]
pub fn repeats_slowly(source: u64, target: u64) -> bool {
    cfg!(target_arch = "x86_64") && (1..32).contains(&(target.wrapping_sub(source) % 4096))
}

/// [`copy()`] between two ranges of `length` bytes.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`.
#[inline]
pub unsafe fn copy_apart(source: *const u8, target: *mut u8, length: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    if length > REPEATED_FROM && repeats_slowly(source.addr() as u64, target.addr() as u64) {
        // SAFETY: as the caller guarantees.
        return unsafe { copy_blocks(source, target, length) };
    }
    // SAFETY: as the caller guarantees.
    unsafe { target.copy_from_nonoverlapping(source, length) };
}

/// [`copy_apart`] by a loop of loads and stores.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(never)]
unsafe fn copy_blocks(source: *const u8, target: *mut u8, length: usize) {
    let whole = length / BLOCK * BLOCK;
    for at in (0..whole).step_by(BLOCK) {
        let (from, to) = (source.wrapping_add(at).cast(), target.wrapping_add(at).cast());
        // SAFETY: a block may be read there, by the caller's promise, whatever its bytes are.
        let block: MaybeUninit<[u8; BLOCK]> = unsafe { std::ptr::read_unaligned(from) };
        // SAFETY: a block may be written there, by the caller's promise.
        unsafe { std::ptr::write_unaligned(to, block) };
        // Otherwise the compiler calls the C library for the whole loop.
        compiler_fence(Ordering::AcqRel);
    }
    let (from, to) = (source.wrapping_add(whole), target.wrapping_add(whole));
    // SAFETY: the rest of both ranges.
    unsafe { to.copy_from_nonoverlapping(from, length - whole) };
}

/// Stores bytes into words that have room for them: `W` words, or `B` bytes, by few wide stores,
/// the rest word by word. For some tens of bytes wide stores are slower: 48 B one way between near
/// cores took 85 ns with wide stores of 32 bytes and 71 without.
#[inline(always)]
pub(super) fn store_bytes<const W: usize, const B: usize>(words: &[AtomicU64], bytes: &[u8]) {
    if let (Some(bytes), [place, ..]) = (bytes.as_array::<8>(), words) {
        // The common case of one number needs no arithmetic on lengths.
        return place.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    let (places, _) = words.as_chunks::<W>();
    let (wide, rest) = bytes.as_chunks::<B>();
    places.iter().zip(wide).for_each(|(words, bytes)| store_words(words, bytes));
    let (whole, rest) = rest.as_chunks::<8>();
    let mut places = words[W * wide.len()..].iter();
    for (bytes, place) in whole.iter().zip(&mut places) {
        place.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some(place)) = (rest.is_empty(), places.next()) {
        // A copy of unknown length would be a function call.
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        place.store(word, Ordering::Relaxed);
    }
}

/// Loads bytes from words, from byte `from` on, as many as the words have. See [`store_bytes`].
#[inline(always)]
pub(super) fn load_bytes<const W: usize, const B: usize>(
    words: &[AtomicU64],
    from: usize,
    into: &mut [u8],
) {
    if let (Some(bytes), 0, [place, ..]) = (into.as_mut_array::<8>(), from, words) {
        *bytes = place.load(Ordering::Relaxed).to_le_bytes();
        return;
    }
    let Some(words) = words.get(from / 8..) else { return };
    if !from.is_multiple_of(8) {
        return load_apart::<W, B>(words, from % 8, into);
    }
    let length = into.len().min(8 * words.len());
    let (places, _) = words.as_chunks::<W>();
    let (wide, rest) = into[..length].as_chunks_mut::<B>();
    places.iter().zip(&mut *wide).for_each(|(words, bytes)| load_words(words, bytes));
    let mut places = words[W * wide.len()..].iter();
    let (whole, rest) = rest.as_chunks_mut::<8>();
    for (bytes, place) in whole.iter_mut().zip(&mut places) {
        *bytes = place.load(Ordering::Relaxed).to_le_bytes();
    }
    if let (false, Some(place)) = (rest.is_empty(), places.next()) {
        let mut word = place.load(Ordering::Relaxed);
        for byte in rest {
            *byte = word as u8;
            word >>= 8;
        }
    }
}

/// [`load_bytes`] from the middle of a word.
#[inline(never)]
fn load_apart<const W: usize, const B: usize>(words: &[AtomicU64], from: usize, into: &mut [u8]) {
    let Some((first, rest)) = words.split_first() else { return };
    let (head, tail) = into.split_at_mut(into.len().min(8 - from));
    let bytes = first.load(Ordering::Relaxed).to_le_bytes();
    head.copy_from_slice(&bytes[from..from + head.len()]);
    load_bytes::<W, B>(rest, 0, tail);
}

/// Stores bytes into words of the same size.
#[cfg(not(loom))]
#[inline(always)]
fn store_words<const W: usize, const B: usize>(words: &[AtomicU64; W], bytes: &[u8; B]) {
    const { assert!(B == 8 * W) };
    let target = words.as_ptr().cast_mut().cast::<u8>();
    // SAFETY: the words have as many bytes, by the assertion, and may be written through a shared
    // reference, as atomics may; no process reads them before the stamp that follows.
    unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), B) };
}

/// Loads words as bytes of the same size.
#[cfg(not(loom))]
#[inline(always)]
fn load_words<const W: usize, const B: usize>(words: &[AtomicU64; W], bytes: &mut [u8; B]) {
    const { assert!(B == 8 * W) };
    let origin = words.as_ptr().cast::<u8>();
    // SAFETY: the words have as many bytes, by the assertion; no process writes them between their
    // stamp and the reader's word that it has read them.
    unsafe { origin.copy_to_nonoverlapping(bytes.as_mut_ptr(), B) };
}

/// [`store_words`] word by word: loom tracks each.
#[cfg(loom)]
fn store_words<const W: usize, const B: usize>(words: &[AtomicU64; W], bytes: &[u8; B]) {
    const { assert!(B == 8 * W) };
    for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

/// [`load_words`] word by word: loom tracks each.
#[cfg(loom)]
fn load_words<const W: usize, const B: usize>(words: &[AtomicU64; W], bytes: &mut [u8; B]) {
    const { assert!(B == 8 * W) };
    for (word, bytes) in words.iter().zip(bytes.as_chunks_mut().0) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// Stores whole lines past the caches.
///
/// # Safety
/// `length` bytes are readable at `source` and writable at `target`, the start of a line, and the
/// two ranges are apart.
#[cfg(all(target_arch = "x86_64", not(loom)))]
unsafe fn stream_lines(target: *mut u8, source: *const u8, length: usize) {
    for at in (0..length).step_by(16) {
        // SAFETY: 16 bytes may be read there, by the caller's promise; the load needs no alignment.
        let value = unsafe { arch::_mm_loadu_si128(source.wrapping_add(at).cast()) };
        // SAFETY: 16 bytes may be written there, aligned as the line is; the fence below orders the
        // store before all that follows.
        unsafe { arch::_mm_stream_si128(target.wrapping_add(at).cast(), value) };
    }
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { arch::_mm_sfence() };
}

/// [`stream_lines`] for processors without such stores.
///
/// # Safety
/// As above.
#[cfg(all(not(target_arch = "x86_64"), not(loom)))]
unsafe fn stream_lines(target: *mut u8, source: *const u8, length: usize) {
    // SAFETY: as the caller guarantees.
    unsafe { target.copy_from_nonoverlapping(source, length) };
}

#[cfg(loom)]
impl<'m> Bytes<'m> {
    /// An area of loom's checked cells.
    pub fn from_cells(cells: &'m [crate::sync::UnsafeCell<u8>]) -> Bytes<'m> {
        Bytes { cells }
    }

    /// The size of the area, bytes.
    pub fn size(&self) -> usize {
        self.cells.len()
    }

    /// Copies `from` into the area at byte `at`.
    pub fn store(&self, at: usize, from: &[u8], _way: LongStores) {
        for (cell, byte) in self.cells[at..at + from.len()].iter().zip(from) {
            // SAFETY: loom hands out a valid pointer and fails the model on a racing access.
            cell.with_mut(|place| unsafe { *place = *byte });
        }
    }

    /// Copies bytes from `at` on to `into`.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        let length = into.len();
        for (cell, byte) in self.cells[at..at + length].iter().zip(into) {
            // SAFETY: loom hands out a valid pointer and fails the model on a racing access.
            *byte = cell.with(|place| unsafe { *place });
        }
    }

    /// Loom has nothing to prefetch.
    pub fn address(&self, _at: usize) -> *const u8 {
        std::ptr::null()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn copies_are_exact_between_any_two_addresses() {
        const SIZE: usize = 2 * 4096;
        let source: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        let mut target = vec![0; SIZE + 2 * 4096];
        // Where the target is as far into a page as the source.
        let alike = source.as_ptr().addr().wrapping_sub(target.as_ptr().addr()) % 4096;
        for ahead in 0..64 {
            let at = alike + ahead;
            let pair = (source.as_ptr().addr() as u64, target[at..].as_ptr().addr() as u64);
            let is_slow = cfg!(target_arch = "x86_64") && (1..32).contains(&ahead);
            assert_eq!(repeats_slowly(pair.0, pair.1), is_slow, "{ahead} bytes ahead");
            for length in [0, 1, 2047, 2048, 2049, 2112, 2113, 2048 + ahead, 4096, SIZE] {
                target.fill(0xee);
                copy(&source[..length], &mut target[at..][..length]);
                assert_eq!(target[at..][..length], source[..length]);
                let (before, after) = (&target[..at], &target[at + length..]);
                assert!(before.iter().chain(after).all(|byte| *byte == 0xee));
            }
        }
        let mut wide = [0; 300];
        copy(&[1_u64 << 40; 300], &mut wide);
        assert_eq!(wide, [1 << 40; 300]);
    }

    #[test]
    fn long_stores_are_exact_at_every_alignment() {
        const SIZE: usize = 2 * LongStores::FROM;
        let mut area = vec![0xee_u8; SIZE];
        let source: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        let bytes = {
            let start = NonNull::new(area.as_mut_ptr()).unwrap();
            // SAFETY: the vector outlives the view and is read only through it.
            unsafe { Bytes::new(start, SIZE) }
        };
        for (at, from) in (0..LINE).flat_map(|at| [(at, 0), (at, 1), (0, at), (LINE - 1, at)]) {
            for length in [
                LongStores::FROM - 1,
                LongStores::FROM,
                LongStores::FROM + 1,
                LongStores::FROM + at + 13,
            ] {
                bytes.store(at, &source[from..from + length], LongStores::PastCaches);
                let mut all = vec![0; SIZE];
                bytes.load(0, &mut all);
                assert_eq!(all[at..at + length], source[from..from + length]);
                let (before, after) = (&all[..at], &all[at + length..]);
                assert!(before.iter().chain(after).all(|byte| *byte == 0xee));
                bytes.store(0, &[0xee; SIZE], LongStores::Cached);
            }
        }
    }

    #[test]
    fn stores_are_exact_in_both_ways() {
        let mut area = vec![0; 2 * LongStores::FROM];
        let start = NonNull::new(area.as_mut_ptr()).unwrap();
        // SAFETY: the vector outlives the view and is read only through it.
        let bytes = unsafe { Bytes::new(start, 2 * LongStores::FROM) };
        for (round, way) in LongStores::ALL.into_iter().enumerate() {
            for length in [8, LongStores::FROM - 1, LongStores::FROM, LongStores::FROM + 9] {
                let from = vec![round as u8 + 1; length];
                bytes.store(3, &from, way);
                let mut all = vec![0; length + 4];
                bytes.load(0, &mut all);
                assert_eq!((&all[3..length + 3], all[0]), (&from[..], 0), "{way:?} {length}");
            }
        }
    }

    #[test]
    fn overlapping_copies_within_an_area_are_exact() {
        LongStores::ALL.into_iter().for_each(overlapping_copies);
    }

    fn overlapping_copies(way: LongStores) {
        const SIZE: usize = 4 * LongStores::FROM;
        let content: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        for (from, to) in
            [(0, 1), (1, 0), (0, 64), (LongStores::FROM, 0), (0, LongStores::FROM), (7, 7)]
        {
            for length in [LongStores::FROM - 1, LongStores::FROM, 2 * LongStores::FROM + 5] {
                let mut area = content.clone();
                let start = NonNull::new(area.as_mut_ptr()).unwrap();
                // SAFETY: the vector outlives the view and is read only through it.
                let bytes = unsafe { Bytes::new(start, SIZE) };
                // SAFETY: within the vector.
                let origin = unsafe { start.add(from) };
                // SAFETY: as for the view of all of it.
                let part = unsafe { Bytes::new(origin, length) };
                bytes.copy(to, part, way);
                let mut all = vec![0; SIZE];
                bytes.load(0, &mut all);
                let mut expected = content.clone();
                expected.copy_within(from..from + length, to);
                assert!(all == expected, "{length} bytes from {from} to {to}");
            }
        }
    }
}
