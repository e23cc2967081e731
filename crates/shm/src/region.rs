//! A rank's own region: the record of allocated bytes, and the memory behind them.
//!
//! The region is address space. Pages are committed when a buffer is allocated and returned to the
//! machine when a large buffer is dropped. Pages of small buffers stay committed for the next ones.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hikyaku_nic::fabric::{GroupError, Rank, RingId};
use hikyaku_nic::region::{Arena, RegionBuffer, RegionError, RegionOwner};
use rustix::io::Errno;

use crate::fork::ForkedProcess;
use crate::mapping::Mapping;
use crate::memory;

/// Buffers of at least this size return their pages at once. Below it, committing pages again
/// (about a quarter of a microsecond a page) would cost more than the memory is worth.
const GIVE_BACK_FROM: u64 = 256 << 10;

/// The free memory is read from /proc once for this many bytes, which it takes less time than to
/// commit.
const CHECK_EVERY: u64 = 4 << 20;

/// A job's memory as held by one of its ranks.
#[derive(Debug)]
pub(crate) struct JobRegion {
    pub(crate) mapping: Mapping,
    rank: Rank,
    /// The process that owns the memory.
    process: ForkedProcess,
    memory: OwnedFd,
    inode: u64,
    arena: Mutex<Arena>,
    /// Bytes committed since the free memory was read.
    unchecked: AtomicU64,
}

/// Bytes of a region that its arena has allocated and that have no owner yet.
#[derive(Debug)]
pub(crate) struct TakenRange {
    rank: Rank,
    offset: u64,
    length: usize,
}

impl TakenRange {
    /// Rank, offset and length.
    pub(crate) fn into_parts(self) -> (Rank, u64, usize) {
        (self.rank, self.offset, self.length)
    }
}

impl JobRegion {
    /// The empty region of a rank.
    pub(crate) fn new(mapping: Mapping, memory: OwnedFd, inode: u64, rank: Rank) -> JobRegion {
        let page = rustix::param::page_size() as u64;
        let arena = Mutex::new(Arena::new(mapping.plan().region_bytes as u64, page));
        let (process, unchecked) = (ForkedProcess::this(), AtomicU64::new(0));
        JobRegion { mapping, rank, process, memory, inode, arena, unchecked }
    }

    /// A buffer of `length` bytes. Its contents are zeros or those of an earlier buffer.
    pub(crate) fn allocate(
        self: &Arc<JobRegion>,
        length: usize,
    ) -> Result<RegionBuffer, RegionError> {
        self.allocate_beside(0, length)
    }

    /// The same, if so many bytes remain free in the machine.
    pub(crate) fn allocate_beside(
        self: &Arc<JobRegion>,
        others: u64,
        length: usize,
    ) -> Result<RegionBuffer, RegionError> {
        let wanted = length as u64;
        let (offset, rounded) = {
            let mut arena = self.arena.lock().unwrap_or_else(PoisonError::into_inner);
            (arena.take(wanted)?, arena.rounded(wanted))
        };
        if let Err(errno) = self.commit((offset, rounded), others) {
            self.give_back(offset, wanted);
            return Err(RegionError::NoMemory { wanted, code: errno.raw_os_error() });
        }
        let taken = TakenRange { rank: self.rank, offset, length };
        let owner: Arc<dyn RegionOwner> = self.clone();
        Ok(self.mapping.buffer(taken, owner))
    }

    /// First address of the region in this process, and the one past its end.
    pub(crate) fn own_range(&self) -> (usize, usize) {
        self.mapping.region_range(self.rank)
    }

    /// The inode of the job's memory.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether this process is the one that made it, and not a forked child.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// In a forked child: replaces a buffer of the parent by a private copy, at the same address.
    pub(crate) fn make_private(&self, buffer: &RegionBuffer) -> Result<(), Errno> {
        self.mapping.make_private(self.rank, buffer.offset(), buffer.len())
    }

    /// Commits the rank's multicast area of a channel.
    pub(crate) fn commit_area(&self, channel: u32) -> Result<(), GroupError> {
        let (at, wanted) = self.mapping.plan().area(self.rank, channel);
        let no_memory = |errno: Errno| GroupError::NoMemory { wanted, code: errno.raw_os_error() };
        self.commit_at(at, wanted).map_err(no_memory)
    }

    /// Commits a landing ring of the rank. Returns whether there is memory for it.
    pub(crate) fn commit_ring(&self, ring: RingId) -> bool {
        let (at, length) = self.mapping.plan().ring(self.rank, ring);
        self.commit_at(at, length).is_ok()
    }

    /// Commits the lines of a source at this rank. Returns whether there is memory for them.
    pub(crate) fn commit_source(&self, source: Rank) -> bool {
        let lines = self.mapping.plan().lines_of(self.rank, source);
        lines.into_iter().all(|(at, length)| self.commit_at(at, length).is_ok())
    }

    fn commit(&self, (offset, length): (u64, u64), others: u64) -> Result<(), Errno> {
        let start = self.mapping.plan().region_at(self.rank).ok_or(Errno::INVAL)?;
        self.check_free(length, others)?;
        self.commit_checked(start as u64 + offset, length)
    }

    fn commit_at(&self, at: u64, length: u64) -> Result<(), Errno> {
        self.check_free(length, 0)?;
        self.commit_checked(at, length)
    }

    fn commit_checked(&self, at: u64, length: u64) -> Result<(), Errno> {
        // If the program closed all of its descriptors, this number may refer to another file.
        if rustix::fs::fstat(&self.memory)?.st_ino != self.inode {
            return Err(Errno::BADF);
        }
        memory::commit(&self.memory, at, length)
    }

    /// Checks that there is memory for these bytes, for those that are not checked next, and for
    /// `others`: a control group without memory kills a process instead of refusing.
    fn check_free(&self, length: u64, others: u64) -> Result<(), Errno> {
        let before = self.unchecked.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) < CHECK_EVERY {
            return Ok(());
        }
        let wanted = length.saturating_add(CHECK_EVERY + others);
        let is_short = memory::available().is_some_and(|free| free < wanted);
        self.unchecked.store(if is_short { CHECK_EVERY } else { 0 }, Ordering::Relaxed);
        if is_short { Err(Errno::NOMEM) } else { Ok(()) }
    }
}

impl RegionOwner for JobRegion {
    fn give_back(&self, offset: u64, bytes: u64) {
        if !self.process.is_this() {
            // In a forked child: the buffer still belongs to its parent.
            return;
        }
        let mut arena = self.arena.lock().unwrap_or_else(PoisonError::into_inner);
        let rounded = arena.rounded(bytes);
        if rounded >= GIVE_BACK_FROM {
            // Before the arena gets the bytes back: after that they may belong to another buffer.
            // If the system refuses, the pages stay committed for the next buffer.
            let _ = self.mapping.discard(self.rank, offset, rounded as usize);
        }
        arena.give(offset, bytes);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hikyaku_nic::ring::LongStores;

    use super::*;
    use crate::plan::{JobConfig, MemoryPlan};

    pub(crate) fn region(bytes: u64) -> Arc<JobRegion> {
        region_of(&JobConfig { region_bytes: bytes, ..JobConfig::new(2, 2) })
    }

    fn region_of(config: &JobConfig) -> Arc<JobRegion> {
        let plan = MemoryPlan::new(config).unwrap();
        let memory = memory::create(&plan).unwrap();
        let inode = rustix::fs::fstat(&memory).unwrap().st_ino;
        Arc::new(JobRegion::new(Mapping::new(&memory, plan).unwrap(), memory, inode, 1))
    }

    fn committed(region: &JobRegion) -> u64 {
        rustix::fs::fstat(&region.memory).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn large_buffers_return_their_memory() {
        let region = region(64 << 20);
        let before = committed(&region);
        let mut large = region.allocate(8 << 20).unwrap();
        assert_eq!(committed(&region), before + (8 << 20));
        large.fill(7);
        assert_eq!(region.mapping.offset_in_region(1, &large), Some(large.offset()));
        assert_eq!(region.mapping.offset_in_region(0, &large), None);
        drop(large);
        assert_eq!(committed(&region), before);
        let large = region.allocate(8 << 20).unwrap();
        assert!(large.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_multicast_area_takes_its_memory_when_it_is_asked_for() {
        let region = region(1 << 20);
        let (before, area) = (committed(&region), 256 << 10);
        region.commit_area(7).unwrap();
        assert_eq!(committed(&region), before + area);
        region.commit_area(7).unwrap();
        region.commit_area(0).unwrap();
        assert_eq!(committed(&region), before + 2 * area);
        // Only the area is committed, and not its neighbour.
        region.mapping.segment(1).area(7).store(area as usize - 1, &[1], LongStores::Cached);
        region.mapping.segment(1).area(0).store(0, &[1], LongStores::Cached);
        assert_eq!(committed(&region), before + 2 * area);
    }

    #[test]
    fn a_ring_to_give_takes_its_memory_when_it_is_given() {
        let mut config = JobConfig::new(2, 2);
        config.layout = config.layout.starting_in(1);
        let (region, ring) = (region_of(&config), 1);
        let length = u64::from(config.layout.ring_bytes);
        let before = committed(&region);
        for _ in 0..2 {
            assert!(region.commit_ring(ring));
            assert_eq!(committed(&region), before + length);
        }
        assert!(region.commit_ring(0));
        assert_eq!(committed(&region), before + length, "those at first have theirs");
    }

    #[test]
    fn a_full_region_is_reported_and_recovers() {
        let region = region(1 << 20);
        let first = region.allocate(1 << 20).unwrap();
        let error = region.allocate(1).unwrap_err();
        assert_eq!(error, RegionError::Exhausted { wanted: 1, size: 1 << 20, free: 0 });
        drop(first);
        assert_eq!(region.allocate(1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn buffers_beyond_the_machine_are_refused() {
        let region = region(1 << 44);
        let before = committed(&region);
        let error = region.allocate(1 << 43).unwrap_err();
        let code = Errno::NOMEM.raw_os_error();
        assert_eq!(error, RegionError::NoMemory { wanted: 1 << 43, code });
        assert_eq!(committed(&region), before);
        assert_eq!(region.allocate(100).unwrap().offset(), 0);
    }
}
