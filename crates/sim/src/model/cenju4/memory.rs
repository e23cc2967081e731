//! A node's main memory, and the segment and page tables through which a context reaches it.
//!
//! ```text
//!   logical address   | segment (2) | page             | offset |
//!                          │            │
//!   segment table ◄────────┘   min ≤ page ≤ max, else a fault
//!        └─► page table ────────────────┘──► physical page
//! ```
//!
//! Paper 003 §5.2 states four segments per context, each with a pointer to a page table and the
//! minimum and maximum page number. It is assumed that the segment is the top two bits of 32.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The number of segments of a context.
pub const SEGMENTS: usize = 4;

/// The number of address bits within a segment.
const SEGMENT_BITS: u32 = 30;

/// The first address of a segment.
pub fn segment_base(segment: usize) -> u64 {
    (segment as u64) << SEGMENT_BITS
}

/// A node's physical memory, in pages. Pages that were never written read as zero.
#[derive(Debug)]
pub(super) struct PhysicalMemory {
    page_bytes: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    /// The first page that was never allocated.
    free: u64,
}

impl PhysicalMemory {
    pub(super) fn new(page_bytes: u64) -> PhysicalMemory {
        PhysicalMemory { page_bytes, pages: BTreeMap::new(), free: 0 }
    }

    /// Allocates contiguous pages.
    pub(super) fn allocate(&mut self, count: u64) -> RangeInclusive<u64> {
        let first = self.free;
        self.free += count;
        first..=first + count - 1
    }

    /// Reads physical addresses. They may continue into the physically next page.
    pub(super) fn read(&self, from: u64, into: &mut [u8]) {
        for (address, byte) in (from..).zip(into) {
            let page = self.pages.get(&(address / self.page_bytes));
            *byte = page.map_or(0, |page| page[(address % self.page_bytes) as usize]);
        }
    }

    /// Writes physical addresses.
    pub(super) fn write(&mut self, to: u64, bytes: &[u8]) {
        for (address, byte) in (to..).zip(bytes) {
            let size = self.page_bytes as usize;
            let page = self.pages.entry(address / self.page_bytes);
            page.or_insert_with(|| vec![0; size])[(address % self.page_bytes) as usize] = *byte;
        }
    }
}

/// One entry of the segment table with its page table.
#[derive(Debug)]
struct PagedSegment {
    pages: RangeInclusive<u64>,
    /// By page number. A page may be missing although it is within the limits.
    table: BTreeMap<u64, u64>,
}

/// The four segments of a context.
#[derive(Debug, Default)]
pub(super) struct Segments([Option<PagedSegment>; SEGMENTS]);

/// An address outside all segments, or whose page is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address {address:#x} is in no page of the context")]
pub struct AddressFault {
    /// The logical address.
    pub address: u64,
}

impl Segments {
    /// Sets a segment. `frames` are its pages from `first` on; `None` is a missing page.
    pub(super) fn set(&mut self, segment: usize, first: u64, frames: &[Option<u64>]) {
        let last = first + (frames.len() as u64).max(1) - 1;
        let present = (first..).zip(frames).filter_map(|(page, frame)| Some((page, (*frame)?)));
        self.0[segment] = Some(PagedSegment { pages: first..=last, table: present.collect() });
    }

    /// The physical address.
    pub(super) fn translate(&self, address: u64, page_bytes: u64) -> Result<u64, AddressFault> {
        let fault = AddressFault { address };
        let segment = usize::try_from(address >> SEGMENT_BITS).map_err(|_| fault)?;
        let segment = self.0.get(segment).and_then(Option::as_ref).ok_or(fault)?;
        let within = address & ((1 << SEGMENT_BITS) - 1);
        let page = within / page_bytes;
        if !segment.pages.contains(&page) {
            return Err(fault);
        }
        let frame = segment.table.get(&page).ok_or(fault)?;
        Ok(frame * page_bytes + within % page_bytes)
    }

    /// The physically contiguous parts of a range, in order.
    pub(super) fn parts(
        &self,
        address: u64,
        bytes: u64,
        page_bytes: u64,
    ) -> Result<Vec<(u64, usize)>, AddressFault> {
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < bytes {
            let from = address.checked_add(done).ok_or(AddressFault { address })?;
            let part = (page_bytes - from % page_bytes).min(bytes - done);
            parts.push((self.translate(from, page_bytes)?, part as usize));
            done += part;
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cj_06_an_address_is_within_a_segments_pages_or_a_fault() {
        let mut segments = Segments::default();
        segments.set(1, 5, &[Some(9), None, Some(3)]);
        let base = segment_base(1);
        let at = |page: u64| segments.translate(base + 4096 * page + 7, 4096);
        let fault = |page: u64| Err(AddressFault { address: base + 4096 * page + 7 });
        assert_eq!((at(5), at(7)), (Ok(9 * 4096 + 7), Ok(3 * 4096 + 7)));
        // Below the minimum page, above the maximum, missing, in a segment that does not exist.
        assert_eq!((at(4), at(8), at(6)), (fault(4), fault(8), fault(6)));
        assert_eq!(segments.translate(7, 4096), Err(AddressFault { address: 7 }));
        assert!(segments.translate(u64::MAX, 4096).is_err());
        assert!(segments.parts(u64::MAX, 2, 4096).is_err());
    }

    #[test]
    fn physical_memory_runs_on_from_page_to_page() {
        let mut memory = PhysicalMemory::new(16);
        assert_eq!((memory.allocate(2), memory.allocate(1)), (0..=1, 2..=2));
        memory.write(14, &[1, 2, 3, 4]);
        let mut read = [9; 6];
        memory.read(13, &mut read);
        assert_eq!(read, [0, 1, 2, 3, 4, 0]);
    }
}
