//! A job's memory as mapped by this process: one mapping of the whole memfd, and typed views of its
//! parts. This is the crate's only access to raw memory; other files have offsets and references.
//!
//! The views are sound for these reasons. Offsets come from [`MemoryPlan`], which every process
//! computes from the same checked sizes. The file is sealed against shrinking and growing before
//! any process maps it, so a mapped byte stays mapped. Every typed part consists of atomics, for
//! which any contents and concurrent writers of other processes are allowed. Peers share region
//! bytes by design, so these are only copied, never borrowed, except by the buffer that owns them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use hikyaku_nic::doorbell::Doorbell;
use hikyaku_nic::fabric::{DeathCause, Rank};
use hikyaku_nic::hosted::{RankLine, Registry};
use hikyaku_nic::region::{RegionBuffer, RegionOwner};
use hikyaku_nic::ring::Bytes;
use hikyaku_nic::segment::Segment;
use hikyaku_nic::sync::{AtomicU32, AtomicU64, Line, Ordering, fence};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap_fixed, munmap,
};

use crate::conducted::{SendProgress, TurnLine, log_at};
use crate::fork::ForkedProcess;
use crate::header::{Card, JobHeader, RankNote};
use crate::plan::{HOSTS_AT, MemoryPlan, names_at};
use crate::region::TakenRange;
use crate::wait;

/// The mapping. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    plan: MemoryPlan,
    /// The node of each rank, in a job of several hosts.
    nodes: Option<Vec<u32>>,
}

// SAFETY: the memory is reached only through atomics, segments and bounds-checked copies, none of
// which belongs to a thread.
unsafe impl Send for Mapping {}

// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a job's memory, which is `plan.total` bytes long and sealed.
    pub(crate) fn new(memory: impl AsFd, plan: MemoryPlan) -> Result<Mapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), plan.total, access, flags, memory, 0) }?;
        let base = NonNull::new(base.cast()).expect("mmap answers an address or an error");
        let nodes = plan.config.nodes();
        let mapping = Mapping { base, plan, nodes };
        mapping.leave_out_of_core_dumps();
        Ok(mapping)
    }

    /// A core dump would include terabytes of empty regions.
    fn leave_out_of_core_dumps(&self) {
        let regions = self.plan.regions_at..self.plan.total;
        let start = self.at(regions.start).as_ptr().cast();
        // SAFETY: the range is part of this mapping, and the advice changes neither contents nor
        // protection.
        let advised = unsafe { madvise(start, regions.len(), Advice::LinuxDontDump) };
        // Only advice: if it fails, a core dump takes longer.
        let _ = advised;
    }

    /// The layout of the memory.
    #[inline]
    pub(crate) fn plan(&self) -> &MemoryPlan {
        &self.plan
    }

    /// The address of an offset of the plan.
    #[inline]
    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.plan.total);
        // SAFETY: the plan's offsets are inside the mapping, or at its end.
        unsafe { self.base.add(offset) }
    }

    /// The header.
    pub(crate) fn header(&self) -> &JobHeader {
        // SAFETY: the header is mapped as long as `self`, page-aligned, and made of atomics.
        unsafe { self.at(0).cast().as_ref() }
    }

    /// The state of every rank.
    #[inline]
    pub(crate) fn registry(&self) -> Registry<'_> {
        let ends = self.at(self.plan.ends_at).cast::<Line<AtomicU64>>();
        let lines = self.at(self.plan.lines_at).cast::<RankLine>();
        // SAFETY: mapped as long as `self`, aligned by the plan, and made of atomics.
        let ends = unsafe { ends.as_ref() };
        let ranks = self.plan.config.ranks as usize;
        // SAFETY: as above; the plan has room for this many lines.
        let lines = unsafe { slice::from_raw_parts(lines.as_ptr(), ranks) };
        Registry::new(ends, lines)
    }

    /// A rank's note to the others.
    pub(crate) fn note(&self, rank: Rank) -> &RankNote {
        assert!(rank < self.plan.config.ranks);
        let at = self.plan.notes_at + rank as usize * size_of::<RankNote>();
        // SAFETY: mapped as long as `self`, aligned by the plan, and made of atomics.
        unsafe { self.at(at).cast().as_ref() }
    }

    /// Writes the host of each rank. Called by the creator, before the header is written.
    pub(crate) fn write_hosts(&self) {
        let Some(hosts) = &self.plan.config.hosts else { return };
        for (rank, host) in hosts.of.iter().enumerate() {
            let at = self.at(HOSTS_AT + rank * size_of::<u32>()).cast::<u32>();
            // SAFETY: the plan has room for one word per rank, aligned and mapped as long as
            // `self`; processes read it from the file, after the header is written.
            unsafe { AtomicU32::from_ptr(at.as_ptr()) }.store(*host, Ordering::Relaxed);
        }
        let Some(names_at) = names_at(hosts.of.len()) else { return };
        let words = hosts.names.iter().flat_map(|name| name.to_words());
        for (place, value) in words.enumerate() {
            let at = self.at(names_at + place * size_of::<u64>()).cast::<u64>();
            // SAFETY: as above, for the words of each host's name.
            unsafe { AtomicU64::from_ptr(at.as_ptr()) }.store(value, Ordering::Relaxed);
        }
    }

    /// The address card of a rank for other hosts, in a job of several hosts.
    pub(crate) fn card(&self, rank: Rank) -> Option<&Card> {
        if self.plan.config.hosts.is_none() || rank >= self.plan.config.ranks {
            return None;
        }
        let at = self.plan.cards_at + rank as usize * size_of::<Card>();
        // SAFETY: mapped as long as `self`, aligned by the plan, and made of atomics.
        Some(unsafe { self.at(at).cast().as_ref() })
    }

    /// The (virtual) node of a rank.
    #[inline]
    pub(crate) fn node_of(&self, rank: Rank) -> u32 {
        match &self.nodes {
            None => rank / self.plan.config.ranks_per_node,
            Some(nodes) => nodes.get(rank as usize).copied().unwrap_or(u32::MAX),
        }
    }

    /// Wakes all sleeping ranks.
    pub(crate) fn wake_sleepers(&self) {
        self.sleepers().for_each(|bell| bell.wake(wait::end_sleep));
    }

    /// A rank's segment.
    #[inline]
    pub(crate) fn segment(&self, rank: Rank) -> Segment<'_> {
        let config = &self.plan.config;
        assert!(rank < config.ranks);
        let base = self.at(self.plan.segment_at(rank));
        // SAFETY: the rank is on this host, and the plan has room for the segment of each such
        // rank, aligned and mapped as long as `self`; a memfd starts zeroed; only segments touch
        // it; the plan checked the layout.
        unsafe { Segment::new(base, &config.layout) }
    }

    /// Whether the job runs in virtual time.
    pub(crate) fn is_conducted(&self) -> bool {
        self.plan.line_bytes > 0
    }

    /// A rank's line in a job in virtual time.
    pub(crate) fn line(&self, rank: Rank) -> &TurnLine {
        let at = self.line_at(rank);
        // SAFETY: mapped as long as `self`, aligned by the plan, and made of atomics.
        unsafe { self.at(at).cast().as_ref() }
    }

    /// The progress of a rank's sends to another.
    pub(crate) fn way(&self, from: Rank, to: Rank) -> &SendProgress {
        assert!(to < self.plan.config.ranks);
        let at =
            self.line_at(from) + size_of::<TurnLine>() + to as usize * size_of::<SendProgress>();
        // SAFETY: the line has room for one such entry per rank, aligned since both sizes are
        // multiples of its alignment; mapped as long as `self`, and made of atomics.
        unsafe { self.at(at).cast().as_ref() }
    }

    fn line_at(&self, rank: Rank) -> usize {
        assert!(rank < self.plan.config.ranks && self.is_conducted());
        self.plan.conducted_at + rank as usize * self.plan.line_bytes
    }

    /// The size of each rank's log, bytes.
    pub(crate) fn log_bytes(&self) -> usize {
        self.plan.config.log_bytes as usize
    }

    fn log(&self, rank: Rank, at: usize, length: usize) -> NonNull<u8> {
        assert!(at <= self.log_bytes() && length <= self.log_bytes() - at);
        self.at(self.line_at(rank) + log_at(self.plan.config.ranks) + at)
    }

    /// Writes to a rank's log. Called by the rank, during its turn.
    pub(crate) fn write_log(&self, rank: Rank, at: usize, bytes: &[u8]) {
        let target = self.log(rank, at, bytes.len());
        // SAFETY: inside the log, as was checked; `bytes` may be anywhere else.
        unsafe { target.as_ptr().copy_from(bytes.as_ptr(), bytes.len()) };
    }

    /// Reads the front of a rank's log. Called by the conductor, during its turn.
    pub(crate) fn read_log(&self, rank: Rank, into: &mut [u8]) {
        let origin = self.log(rank, 0, into.len());
        // SAFETY: inside the log, as was checked.
        unsafe { origin.as_ptr().copy_to(into.as_mut_ptr(), into.len()) };
    }

    fn inbox(&self, rank: Rank, at: usize, length: usize) -> NonNull<u8> {
        let end = self.log_bytes();
        assert!(at <= end && length <= end - at);
        self.at(self.line_at(rank) + log_at(self.plan.config.ranks) + end + at)
    }

    /// Writes to a rank's inbox. Called by the conductor, during its turn.
    pub(crate) fn write_inbox(&self, rank: Rank, at: usize, bytes: &[u8]) {
        let target = self.inbox(rank, at, bytes.len());
        // SAFETY: inside the inbox, as was checked; `bytes` may be anywhere else.
        unsafe { target.as_ptr().copy_from(bytes.as_ptr(), bytes.len()) };
    }

    /// Reads the front of a rank's inbox. Called by the rank, during its turn.
    pub(crate) fn read_inbox(&self, rank: Rank, into: &mut [u8]) {
        let origin = self.inbox(rank, 0, into.len());
        // SAFETY: inside the inbox, as was checked.
        unsafe { origin.as_ptr().copy_to(into.as_mut_ptr(), into.len()) };
    }

    /// Declares a rank dead and wakes all sleepers. Returns whether that is new.
    pub(crate) fn fail(&self, rank: Rank, cause: DeathCause) -> bool {
        let news = self.registry().fail(rank, cause);
        if news {
            // The dead rank may have cleared a doorbell's `sleeping` without waking its rank.
            self.sleepers().for_each(|bell| bell.wake_unasked(wait::end_sleep));
        }
        news
    }

    /// Leaves in order, and wakes all sleepers.
    pub(crate) fn leave(&self, rank: Rank) {
        self.registry().leave(rank);
        self.wake_sleepers();
    }

    /// Records that a rank of another host has left in order, and wakes all sleepers.
    pub(crate) fn leave_elsewhere(&self, rank: Rank) {
        self.registry().leave_elsewhere(rank);
        self.wake_sleepers();
    }

    /// The doorbells of the ranks that sleep, or may begin to sleep before they see the last store.
    ///
    /// Only these: reading all segments costs each rank a page of page tables per segment.
    fn sleepers(&self) -> impl Iterator<Item = &Doorbell> {
        fence(Ordering::SeqCst);
        let config = &self.plan.config;
        let here = (0..config.ranks).filter(|rank| config.is_here(*rank));
        let asleep = here.filter(|rank| self.note(*rank).is_asleep());
        asleep.map(|rank| self.segment(rank).doorbell())
    }

    /// The address of `length` bytes at `offset` of a rank's region; `None` unless all are inside.
    fn region(&self, rank: Rank, offset: u64, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length as u64)?;
        let inside = end <= self.plan.region_bytes as u64;
        let start = self.plan.region_at(rank).filter(|_| inside)?;
        Some(self.at(start + offset as usize))
    }

    /// [`Mapping::region`], for views.
    pub(crate) fn place(&self, rank: Rank, offset: u64, length: usize) -> Option<NonNull<u8>> {
        let exists = rank < self.plan.config.ranks;
        exists.then(|| self.region(rank, offset, length)).flatten()
    }

    /// The offset of these bytes in a rank's region, if all are inside.
    pub(crate) fn offset_in_region(&self, rank: Rank, bytes: &[u8]) -> Option<u64> {
        let start = self.at(self.plan.region_at(rank)?).as_ptr().addr();
        let offset = bytes.as_ptr().addr().checked_sub(start)?;
        let end = offset.checked_add(bytes.len())?;
        (end <= self.plan.region_bytes).then_some(offset as u64)
    }

    /// These bytes of a rank's region, if all are inside.
    pub(crate) fn bytes(&self, rank: Rank, offset: u64, length: usize) -> Option<Bytes<'_>> {
        let start = self.region(rank, offset, length)?;
        // SAFETY: the range is inside the region, which is mapped as long as `self`.
        Some(unsafe { Bytes::new(start, length) })
    }

    /// Copies from a rank's region; `None` if out of bounds.
    pub(crate) fn read(&self, rank: Rank, offset: u64, into: &mut [u8]) -> Option<()> {
        let origin = self.region(rank, offset, into.len())?;
        // SAFETY: the range is inside the region. `into` may itself be a buffer of that region,
        // hence `copy_to`, which allows an overlap.
        unsafe { origin.as_ptr().copy_to(into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// Four bytes of a rank's region; `None` if outside or misaligned.
    pub(crate) fn word32(&self, rank: Rank, offset: u64) -> Option<&AtomicU32> {
        let place = self.region(rank, offset, 4).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: four bytes inside the region, aligned since the region and the offset are, and
        // mapped as long as `self`; peers change them by atomic operations and copies only.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) })
    }

    /// Eight bytes of a rank's region; `None` if outside or misaligned.
    pub(crate) fn word64(&self, rank: Rank, offset: u64) -> Option<&AtomicU64> {
        let place = self.region(rank, offset, 8).filter(|_| offset.is_multiple_of(8))?;
        // SAFETY: as for `word32`, with eight bytes.
        Some(unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) })
    }

    /// The buffer of an allocated range of a rank's region.
    pub(crate) fn buffer(&self, taken: TakenRange, owner: Arc<dyn RegionOwner>) -> RegionBuffer {
        let (rank, offset, length) = taken.into_parts();
        let start = self.region(rank, offset, length).expect("an arena gives what it has");
        // SAFETY: mapped as long as this mapping, which `owner` keeps, and initialised, as pages of
        // a file are. A `TakenRange` is made in one place, of bytes just allocated by the arena. It
        // is consumed here, and the bytes return only through `owner`.
        unsafe { RegionBuffer::new(start, length, offset, owner) }
    }

    /// The first address of a rank's region, and the address past its end.
    pub(crate) fn region_range(&self, rank: Rank) -> (usize, usize) {
        let Some(start) = self.plan.region_at(rank) else { return (0, 0) };
        let start = self.at(start).as_ptr().expose_provenance();
        (start, start + self.plan.region_bytes)
    }

    /// Replaces whole pages of a region by a copy that is private to this process.
    pub(crate) fn make_private(&self, rank: Rank, offset: u64, length: usize) -> Result<(), Errno> {
        let start = self.region(rank, offset, length).ok_or(Errno::INVAL)?.as_ptr();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let copy = unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, flags) }?;
        // SAFETY: both have that length, and one is new. Peers may write: any bytes are valid.
        unsafe { copy.cast::<u8>().copy_from_nonoverlapping(start, length) };
        // SAFETY: the range is inside the mapping. Its bytes stay mapped with the same contents,
        // and `Drop` unmaps the pages that replace them.
        unsafe { mremap_fixed(copy, length, length, MremapFlags::MAYMOVE, start.cast()) }?;
        Ok(())
    }

    /// Returns committed pages of a region to the machine; they read as zeros afterwards.
    pub(crate) fn discard(&self, rank: Rank, offset: u64, length: usize) -> Result<(), Errno> {
        let start = self.region(rank, offset, length).ok_or(Errno::INVAL)?;
        // SAFETY: the range is inside the mapping, and its bytes have no owner: they are back in
        // the arena. `fallocate` on the descriptor is not used: if the program closed all of its
        // descriptors, that number may refer to another file by now.
        unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxRemove) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; every reference into it borrows from `self`
        // or, for buffers, from the owner that keeps `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.plan.total) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A separate file, mapped as a whole by this process. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct FileMapping {
    start: NonNull<u8>,
    length: usize,
    writable: bool,
    /// The process that mapped it. A forked child does not have the mapping.
    process: ForkedProcess,
}

// SAFETY: as for `Mapping`.
unsafe impl Send for FileMapping {}

// SAFETY: as for `Mapping`.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps a file, which is `length` bytes long and sealed.
    pub(crate) fn new(
        file: impl AsFd,
        length: usize,
        writable: bool,
    ) -> Result<FileMapping, Errno> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).expect("mmap answers an address or an error");
        let mapping = FileMapping { start, length, writable, process: ForkedProcess::this() };
        // SAFETY: the range is part of this mapping, and the advice changes neither contents nor
        // protection.
        unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// Whether `length` bytes at an offset are inside.
    pub(crate) fn is_inside(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.length as u64)
    }

    fn place(&self, offset: u64, length: usize) -> Option<NonNull<u8>> {
        let inside = self.is_inside(offset, length as u64);
        // SAFETY: inside the mapping, by the check.
        inside.then(|| unsafe { self.start.add(offset as usize) })
    }

    /// These bytes, if all are inside and, if `to_write` is set, writable.
    pub(crate) fn bytes(&self, offset: u64, length: usize, to_write: bool) -> Option<Bytes<'_>> {
        let start = self.place(offset, length).filter(|_| self.writable || !to_write)?;
        // SAFETY: the range is inside the mapping, which stays as long as `self`. A caller that
        // stores anything has set `to_write`, and then the mapping is writable.
        Some(unsafe { Bytes::new(start, length) })
    }

    /// Four bytes that may be written; `None` if they are read-only, outside or misaligned.
    pub(crate) fn word32(&self, offset: u64) -> Option<&AtomicU32> {
        let place = self.aligned(offset, 4).filter(|_| self.writable)?;
        // SAFETY: four aligned bytes inside the mapping, which stays as long as `self`; peers
        // change them by atomic operations and copies only.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) })
    }

    /// Eight bytes that may be written; `None` if they are read-only, outside or misaligned.
    pub(crate) fn word64(&self, offset: u64) -> Option<&AtomicU64> {
        let place = self.aligned(offset, 8).filter(|_| self.writable)?;
        // SAFETY: as for `word32`, with eight bytes.
        Some(unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) })
    }

    /// Loads an integer of `size` bytes, perhaps read-only. Not by an atomic: its load may write.
    pub(crate) fn load(&self, offset: u64, size: u64) -> Option<u64> {
        let place = self.aligned(offset, size)?;
        let value = match size {
            // SAFETY: four aligned bytes inside the mapping; any bytes are a valid number.
            4 => u64::from(unsafe { place.cast::<u32>().read_volatile() }),
            // SAFETY: as above, with eight.
            8 => unsafe { place.cast::<u64>().read_volatile() },
            _ => return None,
        };
        fence(Ordering::SeqCst);
        Some(value)
    }

    fn aligned(&self, offset: u64, size: u64) -> Option<NonNull<u8>> {
        self.place(offset, size as usize).filter(|_| offset.is_multiple_of(size))
    }

    /// Asks the kernel for write access.
    #[cfg(test)]
    pub(crate) fn make_writable(&self) -> Result<(), Errno> {
        let access = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        // SAFETY: the range is part of this mapping, and stays readable.
        unsafe { rustix::mm::mprotect(self.start.as_ptr().cast(), self.length, access) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // In a forked child another mapping may be there.
            return;
        }
        // SAFETY: mapped in `new` with this length; every reference into it borrows from `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The process at the other end of a connection, as of the time when it connected or began to
/// listen; 0 if it is not visible here.
pub(crate) fn peer_process(socket: impl AsFd) -> Result<u32, Errno> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let into = std::ptr::from_mut(&mut found).cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into `found`, plain data of that size.
    let done = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut length)
    };
    if done == 0 {
        return Ok(found.pid.unsigned_abs());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The half of a counter that a futex compares: the low half, which changes with each increment.
///
/// Only the kernel reads through it. Exactly 2^32 increments between two reads would be missed.
pub(crate) fn futex_word(counter: &AtomicU64) -> &AtomicU32 {
    let halves = counter.as_ptr().cast::<u32>();
    let low = if cfg!(target_endian = "little") { 0 } else { 1 };
    // SAFETY: the word has two halves.
    let half = unsafe { halves.add(low) };
    // SAFETY: inside `counter`, so valid and aligned as long as the borrow.
    unsafe { AtomicU32::from_ptr(half) }
}

/// An inherited file descriptor, to examine.
pub(crate) fn peek_inherited(fd: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: the caller recognises a closed or foreign descriptor: until it has been recognised,
    // only `fstat` and `pread` are called on it.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Takes over a file descriptor that was recognised as the job's memory or a launcher's socket (see
/// [`peek_inherited`]), and that has no owner in this process.
pub(crate) fn take_inherited(fd: RawFd) -> OwnedFd {
    // SAFETY: another process left it open for this process: inode and header identify it as the
    // memory of this job, or a variable of the launcher and its kind as the socket. It has no owner
    // in this process: `attach.rs`, whose two functions are the only callers, takes no descriptor
    // that is closed on exec, and all descriptors owned by this crate or the standard library are.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[cfg(test)]
mod tests {
    use crate::region;

    #[test]
    fn each_rank_has_a_note_of_its_own() {
        let region = region::tests::region(1 << 20);
        let [first, second] = [0, 1].map(|rank| region.mapping.note(rank));
        second.fall_asleep();
        assert!(second.is_asleep() && !first.is_asleep());
    }

    #[test]
    fn core_dumps_leave_out_the_regions() {
        let region = region::tests::region(1 << 20);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let flags_at = |start: usize| {
            let first = format!("{start:x}-");
            let mut of_this = maps.lines().skip_while(|line| !line.starts_with(&first));
            of_this.find_map(|line| line.strip_prefix("VmFlags:")).unwrap()
        };
        let left_out = |start| flags_at(start).split_whitespace().any(|flag| flag == "dd");
        assert!(left_out(region.mapping.region_range(0).0));
        assert!(!left_out(region.mapping.at(0).addr().get()));
    }
}
