//! The reference fabric: all ranks in one process, over ordinary memory.
//!
//! It has the rings, tables and policies of every other hosted fabric and nothing else, so a test
//! on it tests `nic` alone. Its clock is a count of waits: it needs no real time. One thread can
//! step all ports, or each port can have its own thread.

use std::alloc::{Layout as Allocation, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::fabric::{DeathCause, PostError, Rank, RemoteAddress, Space, Wake};
use crate::hosted::{Host, HostedPort, RankLine, Registry};
use crate::region::{Arena, RegionBuffer, RegionError, RegionOwner};
use crate::ring::LongStores;
use crate::segment::{Segment, SegmentLayout, SegmentLayoutError};
use crate::sync::{AtomicU32, AtomicU64, Line, Ordering, yield_now};
use crate::time::Time;

/// A rank's port on the loopback fabric.
pub type LoopbackPort = HostedPort<LoopbackHost>;

/// The nanoseconds by which a wait advances the clock.
const WAIT_NANOSECONDS: u64 = 100;

/// The alignment of segments.
const PAGE: usize = 4096;

/// The length from which messages are copied out of regions: small, so that tests do both.
const COPIES_FROM: usize = 256;

/// The sizes of a loopback job.
#[derive(Debug, Clone)]
pub struct LoopbackConfig {
    /// Sizes of every rank's segment; `layout.ranks` is the number of ranks.
    pub layout: SegmentLayout,
    /// Ranks on each virtual node.
    pub ranks_per_node: u32,
    /// Bytes of each rank's region.
    pub region_bytes: usize,
}

impl LoopbackConfig {
    /// The default sizes for a job of `ranks` on one node.
    pub fn for_ranks(ranks: u32) -> LoopbackConfig {
        let layout = SegmentLayout::for_ranks(ranks);
        LoopbackConfig { layout, ranks_per_node: ranks, region_bytes: 1 << 20 }
    }
}

/// Opens the ports of all ranks.
///
/// # Errors
/// The layout is invalid.
pub fn open(config: &LoopbackConfig) -> Result<Vec<LoopbackPort>, SegmentLayoutError> {
    config.layout.check()?;
    let job = Arc::new(LoopbackJob::new(config));
    for rank in 0..config.layout.ranks {
        job.segment(rank).set_up();
    }
    let port = |rank| {
        let joined = job.registry().join(rank, 0);
        joined.expect("the job is new, so every rank is free");
        HostedPort::new(LoopbackHost { job: Arc::clone(&job), rank })
    };
    Ok((0..config.layout.ranks).map(port).collect())
}

/// The memory of a loopback job.
#[derive(Debug)]
struct LoopbackJob {
    config: LoopbackConfig,
    /// The first page of the allocation.
    memory: NonNull<u8>,
    allocated: NonNull<u8>,
    allocation: Allocation,
    ends: Line<AtomicU64>,
    ranks: Vec<RankLine>,
    ticks: AtomicU64,
    regions: Vec<Mutex<Arena>>,
}

// SAFETY: the memory is reached only through segments (atomics and the rings' protocol) and
// through the bounds-checked region copies below.
unsafe impl Send for LoopbackJob {}

// SAFETY: as for Send.
unsafe impl Sync for LoopbackJob {}

impl LoopbackJob {
    fn new(config: &LoopbackConfig) -> LoopbackJob {
        let ranks = config.layout.ranks as usize;
        let stride = config.layout.segment_bytes() + config.region_bytes;
        // With page alignment the allocator would write every byte. With a smaller alignment it
        // uses the system's zero pages, most of which no test touches.
        let allocation = Allocation::from_size_align(stride * ranks + PAGE, 16)
            .expect("a job's memory is far below the address space");
        // SAFETY: the size is not zero: every layout has at least one rank and its segment.
        let allocated = unsafe { alloc_zeroed(allocation) };
        let Some(allocated) = NonNull::new(allocated) else { handle_alloc_error(allocation) };
        // SAFETY: a page begins within the first page of bytes, by which there are more.
        let memory = unsafe { allocated.add(allocated.align_offset(PAGE)) };
        let arena = || Mutex::new(Arena::new(config.region_bytes as u64, 64));
        LoopbackJob {
            config: config.clone(),
            memory,
            allocated,
            allocation,
            ends: Line::default(),
            ranks: (0..ranks).map(|_| RankLine::default()).collect(),
            ticks: AtomicU64::new(0),
            regions: (0..ranks).map(|_| arena()).collect(),
        }
    }

    fn segment(&self, rank: Rank) -> Segment<'_> {
        assert!(rank < self.config.layout.ranks);
        let at = rank as usize * self.config.layout.segment_bytes();
        // SAFETY: segments come first in the allocation, one after the other.
        let base = unsafe { self.memory.add(at) };
        // SAFETY: the segment's bytes are allocated, zeroed, page-aligned and live as long as
        // `self`; only segments touch them; the layout was checked by `open`.
        unsafe { Segment::new(base, &self.config.layout) }
    }

    fn registry(&self) -> Registry<'_> {
        Registry::new(&self.ends, &self.ranks)
    }

    fn region(&self, rank: Rank) -> NonNull<u8> {
        let layout = &self.config.layout;
        let segments = layout.segment_bytes() * layout.ranks as usize;
        let at = segments + rank as usize * self.config.region_bytes;
        // SAFETY: regions follow the segments in the allocation.
        unsafe { self.memory.add(at) }
    }

    /// The address of `length` bytes of a region, bounds-checked.
    fn region_bytes(&self, address: RemoteAddress, length: usize) -> Result<*mut u8, PostError> {
        let RemoteAddress { rank, space, offset } = address;
        if space != Space::Region {
            return Err(PostError::Unsupported("reach a process's own memory"));
        }
        let size = self.config.region_bytes as u64;
        if offset.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(PostError::OutOfBounds { rank, offset, length: length as u64 });
        }
        Ok(self.region(rank).as_ptr().wrapping_add(offset as usize))
    }
}

impl LoopbackJob {
    /// The address of `size` bytes of a region, aligned to `size`; `None` if outside or misaligned.
    fn aligned_word(&self, rank: Rank, offset: u64, size: u64) -> Option<*mut u8> {
        let address = RemoteAddress { rank, space: Space::Region, offset };
        let place = self.region_bytes(address, size as usize).ok()?;
        place.addr().is_multiple_of(size as usize).then_some(place)
    }
}

impl Drop for LoopbackJob {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.allocated.as_ptr(), self.allocation) };
    }
}

/// A rank's place in a loopback job.
#[derive(Debug)]
pub struct LoopbackHost {
    job: Arc<LoopbackJob>,
    rank: Rank,
}

impl LoopbackHost {
    /// Declares a rank dead, as a watcher of processes would. For tests of the consequences.
    pub fn fail(&self, rank: Rank, cause: DeathCause) -> bool {
        self.job.registry().fail(rank, cause)
    }

    /// Advances the time of all ranks, in addition to their waits. For tests of timeouts that no
    /// rank's calls would reach.
    pub fn pass_time(&self, time: Time) {
        self.job.ticks.fetch_add(time.nanoseconds() / WAIT_NANOSECONDS, Ordering::Relaxed);
    }
}

impl Drop for LoopbackHost {
    fn drop(&mut self) {
        self.job.registry().leave(self.rank);
    }
}

/// Returns a region buffer to its rank's arena.
#[derive(Debug)]
struct Owner {
    job: Arc<LoopbackJob>,
    rank: Rank,
}

impl RegionOwner for Owner {
    fn give_back(&self, offset: u64, bytes: u64) {
        let arena = &self.job.regions[self.rank as usize];
        arena.lock().unwrap_or_else(PoisonError::into_inner).give(offset, bytes);
    }
}

// SAFETY: a job's memory is allocated once and lives until the last host of the job is gone.
unsafe impl Host for LoopbackHost {
    const NAME: &'static str = "loopback";

    fn rank(&self) -> Rank {
        self.rank
    }

    #[inline]
    fn segment(&self, rank: Rank) -> Segment<'_> {
        self.job.segment(rank)
    }

    #[inline]
    fn registry(&self) -> Registry<'_> {
        self.job.registry()
    }

    fn node_of(&self, rank: Rank) -> u32 {
        rank / self.job.config.ranks_per_node
    }

    fn wake(&self, rank: Rank) {
        // No rank sleeps here: only tests that set the flag observe this.
        self.segment(rank).doorbell().wakes.fetch_add(1, Ordering::Relaxed);
    }

    fn wait(
        &mut self,
        _idle: u32,
        deadline: Option<Time>,
        _pending: impl Fn(&Self) -> bool,
    ) -> Wake {
        self.job.ticks.fetch_add(1, Ordering::Relaxed);
        yield_now();
        match deadline {
            Some(deadline) if self.now() >= deadline => Wake::Deadline,
            _ => Wake::Look,
        }
    }

    fn now(&self) -> Time {
        let ticks = self.job.ticks.load(Ordering::Relaxed);
        Time::from_nanoseconds(ticks * WAIT_NANOSECONDS)
    }

    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError> {
        let arena = &self.job.regions[self.rank as usize];
        let offset = arena.lock().unwrap_or_else(PoisonError::into_inner).take(bytes as u64)?;
        let owner = Arc::new(Owner { job: Arc::clone(&self.job), rank: self.rank });
        // SAFETY: the arena gave the offset, so it is inside the region.
        let start = unsafe { self.job.region(self.rank).add(offset as usize) };
        // SAFETY: the region is allocated and zeroed as long as the job, which `owner` holds; the
        // arena gives these bytes to no other buffer until they are returned.
        Ok(unsafe { RegionBuffer::new(start, bytes, offset, owner) })
    }

    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
        let start = self.job.region(self.rank).as_ptr().addr();
        let offset = bytes.as_ptr().addr().checked_sub(start)?;
        let inside = offset + bytes.len() <= self.job.config.region_bytes;
        let offset = offset as u64;
        inside.then_some(RemoteAddress { rank: self.rank, space: Space::Region, offset })
    }

    fn read(&self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let origin = self.job.region_bytes(from, into.len())?;
        // SAFETY: the range was checked to be inside the region. The two may only be the same
        // memory if a rank reads its own buffer into itself, hence `copy_to`, which allows it.
        unsafe { origin.copy_to(into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write(&self, to: RemoteAddress, payload: &[u8], _: LongStores) -> Result<(), PostError> {
        let target = self.job.region_bytes(to, payload.len())?;
        // SAFETY: the range was checked to be inside the region.
        unsafe { target.copy_from(payload.as_ptr(), payload.len()) };
        Ok(())
    }

    fn write_word(&self, to: RemoteAddress, value: u64) -> Result<(), PostError> {
        if !to.offset.is_multiple_of(8) {
            return Err(PostError::Unsupported("notify at an address that is not 8-byte aligned"));
        }
        let target = self.job.region_bytes(to, 8)?;
        // SAFETY: eight bytes inside the region, aligned since the region and the offset are.
        let word = unsafe { AtomicU64::from_ptr(target.cast()) };
        word.store(value, Ordering::Release);
        Ok(())
    }

    fn region_bytes(&self) -> u64 {
        self.job.config.region_bytes as u64
    }

    fn copy_between(
        &self,
        from: RemoteAddress,
        to: RemoteAddress,
        length: u64,
        _: LongStores,
    ) -> Result<(), PostError> {
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let origin = self.job.region_bytes(from, bytes)?;
        let target = self.job.region_bytes(to, bytes)?;
        // SAFETY: both ranges were checked to be inside their regions; they may overlap.
        unsafe { origin.copy_to(target, bytes) };
        Ok(())
    }

    fn word32(&self, rank: Rank, offset: u64) -> Option<&AtomicU32> {
        let place = self.job.aligned_word(rank, offset, 4)?;
        // SAFETY: four bytes inside the region, aligned, and allocated as long as the job, which
        // `self` holds; peers change them by atomic operations and copies only.
        Some(unsafe { AtomicU32::from_ptr(place.cast()) })
    }

    fn word64(&self, rank: Rank, offset: u64) -> Option<&AtomicU64> {
        let place = self.job.aligned_word(rank, offset, 8)?;
        // SAFETY: as for `word32`, with eight bytes.
        Some(unsafe { AtomicU64::from_ptr(place.cast()) })
    }

    fn copies_from(&self, space: Space) -> Option<usize> {
        (space == Space::Region).then_some(COPIES_FROM)
    }
}
