//! Checking and committing memory.
//!
//! Linux allocates memory on first touch and kills a process when it runs out. So this crate first
//! checks the free memory of the machine, of the cgroup and within the process's limits. Then it
//! commits pages by `fallocate`, so that lack of memory is an error of the request and never a
//! SIGBUS or a killed rank later.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use hikyaku_nic::segment::SegmentLayout;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::cgroup::Cgroup;
use crate::error::JobError;
use crate::limits::limits_on;
use crate::plan::{JobConfig, MemoryPlan};

/// Seals of a job's memory: no peer can truncate or grow it under the others.
pub(crate) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Bytes of the machine's memory.
pub(crate) fn physical() -> u64 {
    meminfo("MemTotal:").unwrap_or(1 << 30)
}

/// Bytes that can still be committed; `None` if unknown.
pub fn available() -> Option<u64> {
    let machine = meminfo("MemAvailable:").map(|free| free + meminfo("SwapFree:").unwrap_or(0));
    let group = Cgroup::of_this_process().memory_left();
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (one, other) => one.or(other),
    }
}

/// The lower of the limits on address space and on file size, if there is one.
pub(crate) fn address_space_limit() -> Option<u64> {
    let limits = [Resource::As, Resource::Fsize].map(|which| limits_on(which).current);
    limits.into_iter().flatten().min()
}

fn meminfo(name: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Parses a line such as `MemTotal:  24659664 kB`, into bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Creates the memory of a job, an anonymous file. [`check`] must have passed before: without
/// memory the kernel kills a process instead of refusing.
///
/// Programs that this process executes inherit it; this is how ranks get it.
pub(crate) fn create(plan: &MemoryPlan) -> Result<OwnedFd, JobError> {
    let total = plan.total as u64;
    let system = |what| move |errno| JobError::System { what, errno };
    // Above its limit on file sizes the kernel sends a signal instead of an error.
    let limits = [("on file sizes", Resource::Fsize), ("on address space", Resource::As)];
    for (limit_name, which) in limits {
        let limit = limits_on(which).current;
        if let Some(limit) = limit.filter(|limit| *limit < total) {
            return Err(JobError::Limit { limit_name, wanted: total, limit });
        }
    }
    let memory = anonymous_file("hikyaku").map_err(system("create"))?;
    rustix::fs::ftruncate(&memory, total).map_err(system("size"))?;
    for (at, length) in plan.committed() {
        commit(&memory, at, length).map_err(system("commit"))?;
    }
    rustix::fs::fcntl_add_seals(&memory, SEALS).map_err(system("seal"))?;
    Ok(memory)
}

/// The memory of a rank's process that only has a world: its own pages, page tables and kernel
/// memory, without the two terms below. Measured, for one rank of two: 0.36 MiB for a program in C
/// by MPI and 0.51 MiB for one in Rust, both without the kernel's memory for a process.
const PROCESS: u64 = 560 << 10;

/// A rank's memory for each other rank of its host. Measured: 690 to 770 bytes from 2 to 1,024
/// ranks.
const PEER: u64 = 768;

/// The same for a rank of another host with which it has not communicated. Measured: 30 bytes at
/// 640,000 ranks.
const FAR_PEER: u64 = 32;

/// About how many sizes are tried, from the largest down, to find how many ranks would fit.
const TRIES: usize = 1024;

/// The size of a page of page tables, and of the memory that it covers.
const PAGE_TABLE: u64 = 4 << 10;
const COVERED: u64 = 2 << 20;

/// The number of segments that a rank reads if the program itself does not communicate with more:
/// those of the ranks it shares lines with and of their leaders, as `coll::mates` chooses them.
fn segments_read(ranks: u64) -> u64 {
    if ranks <= 256 { ranks } else { ranks.div_ceil(16).max(64) + 16 }
}

/// Page tables of a rank for the segments that it reads: for each, the first page and the last
/// before the areas, which two pages of page tables may cover.
fn tables(config: &JobConfig) -> u64 {
    let apart = (config.layout.area_at(0) as u64).min(COVERED);
    let each = PAGE_TABLE + PAGE_TABLE * apart / COVERED;
    segments_read(config.ranks_here().into()) * each
}

/// Bytes that a job takes before its programs allocate anything; `None` on overflow.
///
/// Jobs of 1,024 and 2,048 ranks of a Rust program took 2,549 and 8,845 MiB after a barrier and an
/// allreduce, where this function returns 2,950 and 9,486: the areas were not used, and the
/// kernel's memory for processes was not measured.
pub(crate) fn needed(config: &JobConfig) -> Option<u64> {
    let ranks = u64::from(config.ranks);
    let here = u64::from(config.ranks_here());
    let peers = here * PEER + (ranks - here) * FAR_PEER;
    let rings: u64 = MemoryPlan::new(config).ok()?.committed().map(|(_, length)| length).sum();
    // One communicator of each rank has its area; the program has to account for more.
    let area = u64::from(config.layout.groups.area_bytes);
    rings.checked_add(here.checked_mul(area + PROCESS + tables(config) + peers)?)
}

/// The same job with only the first `ranks` ranks. Default rings become those of the smaller job.
fn of_size(config: &JobConfig, ranks: u32) -> JobConfig {
    let hosts = config.hosts.clone().map(|mut hosts| {
        hosts.of.truncate(ranks as usize);
        hosts
    });
    let layout = match config.layout == SegmentLayout::for_ranks(config.ranks) {
        true => SegmentLayout::for_ranks(ranks),
        false => SegmentLayout { ranks, ..config.layout },
    };
    // A plan is for its own number of ranks: with fewer, each has the rings of its busiest rank.
    let landing = config.landing.clone().filter(|plan| plan.ranks() == ranks);
    let fewer = JobConfig { ranks, layout, hosts, landing, ..config.clone() };
    if config.log_bytes > 0 { fewer.in_virtual_time() } else { fewer }
}

/// The largest number of ranks of such a job that fits `available` bytes. Fewer ranks may take more
/// memory, as they have longer rings, so a binary search would be wrong.
fn fitting(config: &JobConfig, available: u64) -> u32 {
    let fits =
        |ranks: &u32| needed(&of_size(config, *ranks)).is_some_and(|bytes| bytes <= available);
    let step = (config.ranks as usize).div_ceil(TRIES).max(1);
    let found = (1..=config.ranks).rev().step_by(step).find(fits).unwrap_or(0);
    let next = config.ranks.min(found.saturating_add(step as u32 - 1));
    (found + 1..=next).rev().find(fits).unwrap_or(found)
}

/// Checks that the machine has the memory that a job takes.
pub(crate) fn check(config: &JobConfig) -> Result<(), JobError> {
    let ranks = config.ranks;
    let (wanted, available) = (needed(config).unwrap_or(u64::MAX), available().unwrap_or(u64::MAX));
    if wanted <= available {
        return Ok(());
    }
    Err(JobError::NoMemory { ranks, wanted, available, fitting: fitting(config, available) })
}

/// Creates memory apart from a job's: an anonymous file of whole pages, committed, of fixed size.
pub(crate) fn create_own(bytes: u64) -> Result<OwnedFd, Errno> {
    if available().is_some_and(|free| free < bytes) {
        return Err(Errno::NOMEM);
    }
    if limits_on(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
        return Err(Errno::FBIG);
    }
    let file = anonymous_file("hikyaku-window")?;
    rustix::fs::ftruncate(&file, bytes)?;
    commit(&file, 0, bytes)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

fn anonymous_file(name: &str) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the flag, and newer ones may require it.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        done => done,
    }
}

/// Commits a range of the file: from then on an access to it cannot fail.
pub(crate) fn commit(memory: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    let allocate = |at, length| rustix::fs::fallocate(&memory, FallocateFlags::empty(), at, length);
    commit_by(allocate, offset, length)
}

/// Commits a range by calls that a signal may interrupt. Some kernels undo an interrupted call: one
/// that takes longer than the period of a profiler's signals would be repeated for ever. So the
/// calls after a signal are shorter.
fn commit_by(
    allocate: impl Fn(u64, u64) -> Result<(), Errno>,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    const PAGE: u64 = 4096;
    let (mut at, mut left, mut most) = (offset, length, length);
    while left > 0 {
        let piece = most.min(left);
        match allocate(at, piece) {
            Ok(()) => (at, left) = (at + piece, left - piece),
            Err(Errno::INTR) => most = (piece / 2).next_multiple_of(PAGE).max(PAGE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn meminfo_lines_are_in_kilobytes() {
        let text = "MemTotal:       24659664 kB\nMemFree:  12 kB\n";
        assert_eq!(field(text, "MemFree:"), Some(12 << 10));
        assert_eq!(field(text, "SwapFree:"), None);
        assert_eq!(field("MemFree: lots", "MemFree:"), None);
        assert!(physical() >= available().unwrap_or(0) / 4);
    }

    #[test]
    fn too_large_a_job_reports_what_fits() {
        let whole = |ranks: u32| needed(&JobConfig::new(ranks, ranks)).unwrap();
        // With more than 1,024 ranks, only some numbers of ranks are tried from the largest down.
        for ranks in [1000, 4096] {
            let config = JobConfig::new(ranks, ranks);
            let fit = |bytes| fitting(&config, bytes);
            assert_eq!((fit(whole(ranks)), fit(0)), (ranks, 0));
            // A job of the reported number of ranks fits, and one with one rank more does not.
            for share in [2, 4, 7, 16, 100] {
                let (room, some) = (whole(ranks) / share, fit(whole(ranks) / share));
                assert!(some > 0 && whole(some) <= room && whole(some + 1) > room, "{some}");
            }
        }
        let config = JobConfig::new(1000, 1000);
        let fewer = of_size(&JobConfig::new(1000, 1000).in_virtual_time(), 10);
        assert_eq!(fewer.log_bytes, JobConfig::new(10, 10).in_virtual_time().log_bytes);
        assert!(needed(&fewer) > needed(&JobConfig::new(10, 10)));
        let huge =
            JobConfig { layout: SegmentLayout { ring_bytes: 1 << 30, ..config.layout }, ..config };
        assert_eq!(fitting(&huge, needed(&of_size(&huge, 10)).unwrap()), 10);
        let error = check(&huge).unwrap_err();
        assert!(matches!(error, JobError::NoMemory { ranks: 1000, .. }), "{error}");
    }

    #[test]
    fn each_rank_counts_what_it_keeps_of_each_other() {
        let beside = |ranks: u32| {
            let config = JobConfig::new(ranks, ranks);
            let plan = MemoryPlan::new(&config).unwrap();
            let rings: u64 = plan.committed().map(|(_, length)| length).sum();
            let area = u64::from(config.layout.groups.area_bytes);
            (needed(&config).unwrap() - rings) / u64::from(ranks) - area
        };
        // Page tables of all others' segments up to 256 ranks, of fewer segments beyond.
        for (ranks, read) in [(1, 1), (17, 17), (256, 256), (257, 80), (1024, 80), (4096, 272)] {
            let tables = beside(ranks) - PROCESS - u64::from(ranks) * PEER;
            let each = read * PAGE_TABLE..=read * 2 * PAGE_TABLE;
            assert!(each.contains(&tables), "{ranks} ranks: {tables}");
        }
    }

    #[test]
    fn the_file_is_committed_and_sealed() {
        let config = JobConfig::new(3, 3);
        let plan = MemoryPlan::new(&config).unwrap();
        let memory = create(&plan).unwrap();
        let groups = config.layout.groups;
        let committed = rustix::fs::fstat(&memory).unwrap().st_blocks as u64 * 512;
        let areas = 3 * u64::from(groups.channels) * u64::from(groups.area_bytes);
        let before_regions = plan.regions_at as u64;
        // All except the areas, and less than a page for the rounding of each part.
        assert!(committed <= before_regions - areas, "{committed} of {before_regions}");
        assert!(committed + areas + (1 << 18) > before_regions, "{committed} of {before_regions}");
        assert_eq!(rustix::fs::ftruncate(&memory, 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&memory, 1 << 31), Err(Errno::PERM));
    }

    #[test]
    fn signals_do_not_keep_memory_from_being_committed() {
        let (calls, committed) = (Cell::new(0), RefCell::new(Vec::new()));
        let allocate = |at: u64, length: u64| {
            calls.set(calls.get() + 1);
            assert!(calls.get() < 100, "it is repeated for ever");
            if length > 64 << 10 {
                return Err(Errno::INTR);
            }
            committed.borrow_mut().push((at, length));
            Ok(())
        };
        assert_eq!(commit_by(allocate, 4096, 1_000_000), Ok(()));
        let end = committed.take().into_iter().fold(4096, |end, (at, length)| {
            assert_eq!(at, end);
            end + length
        });
        assert_eq!(end, 1_004_096);
        assert_eq!(commit_by(|_, _| Err(Errno::NOSPC), 0, 4096), Err(Errno::NOSPC));
    }
}
