//! How much memory there is, and committing it.
//!
//! Linux gives memory on first touch and kills somebody when there is none. This crate therefore
//! asks first (what the machine and the cgroup still have, what the limits of the process allow)
//! and then has pages committed by `fallocate`, so that want of memory is an error where it is
//! asked for and never a SIGBUS or a killed rank later.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::cgroup::Cgroup;
use crate::error::JobError;

/// Seals of a job's memory: no peer can cut it off, or let it grow, under the others.
pub(crate) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Bytes of the machine's memory.
pub(crate) fn physical() -> u64 {
    meminfo("MemTotal:").unwrap_or(1 << 30)
}

/// Bytes that can still be committed; `None` if nobody says.
pub(crate) fn available() -> Option<u64> {
    let machine = meminfo("MemAvailable:").map(|free| free + meminfo("SwapFree:").unwrap_or(0));
    let group = Cgroup::of_this_process().memory_left();
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (one, other) => one.or(other),
    }
}

/// The lower of the limits on address space and on the size of a file, if there is one.
pub(crate) fn address_space_limit() -> Option<u64> {
    let limits = [Resource::As, Resource::Fsize].map(|which| getrlimit(which).current);
    limits.into_iter().flatten().min()
}

fn meminfo(name: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// A line such as `MemTotal:  24659664 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Makes an anonymous file of `total` bytes whose first `committed` bytes are committed.
///
/// It is inherited by programs that this process executes: that is how ranks reach it.
pub(crate) fn create(total: u64, committed: u64, ranks: u32) -> Result<OwnedFd, JobError> {
    let system = |what| move |errno| JobError::System { what, errno };
    // The kernel answers a file above its limit with a signal, not with an error.
    let limits = [("on file sizes", Resource::Fsize), ("on address space", Resource::As)];
    for (limit_name, which) in limits {
        let limit = getrlimit(which).current;
        if let Some(limit) = limit.filter(|limit| *limit < total) {
            return Err(JobError::Limit { limit_name, wanted: total, limit });
        }
    }
    let available = available().unwrap_or(u64::MAX);
    if committed > available {
        return Err(JobError::NoMemory { ranks, wanted: committed, available });
    }
    let memory = anonymous_file().map_err(system("create"))?;
    rustix::fs::ftruncate(&memory, total).map_err(system("size"))?;
    match commit(&memory, 0, committed) {
        Err(Errno::NOSPC | Errno::NOMEM) => {
            return Err(JobError::NoMemory { ranks, wanted: committed, available });
        }
        done => done.map_err(system("commit"))?,
    }
    rustix::fs::fcntl_add_seals(&memory, SEALS).map_err(system("seal"))?;
    Ok(memory)
}

fn anonymous_file() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    match rustix::fs::memfd_create("hikyaku", flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the flag, and newer ones may insist on it.
        Err(Errno::INVAL) => rustix::fs::memfd_create("hikyaku", flags),
        done => done,
    }
}

/// Commits a range of the file: afterwards touching it cannot fail.
pub(crate) fn commit(memory: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(&memory, FallocateFlags::empty(), offset, length) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_meminfo_is_kilobytes() {
        let text = "MemTotal:       24659664 kB\nMemFree:  12 kB\n";
        assert_eq!(field(text, "MemFree:"), Some(12 << 10));
        assert_eq!(field(text, "SwapFree:"), None);
        assert_eq!(field("MemFree: lots", "MemFree:"), None);
        assert!(physical() >= available().unwrap_or(0) / 4);
    }

    #[test]
    fn more_than_there_is_is_an_error_and_takes_nothing() {
        let error = create(1 << 46, 1 << 46, 3).unwrap_err();
        assert!(matches!(error, JobError::NoMemory { ranks: 3, .. }), "{error}");
    }

    #[test]
    fn the_file_is_committed_and_sealed() {
        let memory = create(1 << 30, 1 << 20, 1).unwrap();
        assert_eq!(rustix::fs::fstat(&memory).unwrap().st_blocks * 512, 1 << 20);
        assert_eq!(rustix::fs::ftruncate(&memory, 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&memory, 1 << 31), Err(Errno::PERM));
    }
}
