//! The CPUs on which each rank may run, taken from the launcher's own affinity mask.
//!
//! Everything here is relative to the launcher's mask (from a batch system's cpuset, `taskset`, a
//! container), never to the machine's CPUs.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

/// How ranks are bound to CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bind {
    /// With at most as many ranks as CPUs, each rank gets an equal, contiguous share of them that
    /// no other rank of the job has. With more ranks, as [`Bind::None`].
    ///
    /// A rank that spins for a message must not share a CPU with the rank for which it waits; that
    /// is the benefit of binding, and shares provide it. When there are as many ranks as CPUs, a
    /// share is one CPU. With fewer ranks a share is several, because one CPU each would cost more
    /// than it brings: a rank's threads (OpenMP, a BLAS) would all be on one CPU, a single rank
    /// would lose the rest of the machine, and two jobs on one machine would use the same first
    /// CPUs. With more ranks than CPUs the kernel balances better than a fixed assignment: a rank
    /// that sleeps frees its CPU for any other.
    #[default]
    Auto,
    /// Rank r runs on the r-th allowed CPU only, modulo their number.
    Core,
    /// Every rank may run on all of the launcher's CPUs.
    None,
}

/// The CPUs on which this process may run, in order; none if the system does not tell.
pub(super) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The running system and the CPUs on which this process may run: equal texts mean the same CPUs.
/// Containers of one machine are told apart by their cpusets alone. `None`: the system does not
/// tell.
pub(super) fn machine() -> Option<String> {
    let system = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(format!("{}/{}", system.trim(), cpus.trim()))
}

/// The CPUs of a rank, out of the launcher's `allowed` ones; `None` leaves its mask unchanged.
pub(super) fn cpus_of(bind: Bind, rank: u32, ranks: u32, allowed: &[usize]) -> Option<&[usize]> {
    let (rank, ranks, cpus) = (rank as usize, ranks as usize, allowed.len());
    if cpus == 0 {
        return None;
    }
    match bind {
        Bind::None => None,
        Bind::Auto if ranks <= 1 || ranks > cpus => None,
        Bind::Auto => Some(&allowed[rank * cpus / ranks..(rank + 1) * cpus / ranks]),
        Bind::Core => Some(&allowed[rank % cpus..=rank % cpus]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: [usize; 5] = [2, 3, 8, 9, 11];

    #[test]
    fn core_takes_the_allowed_cpus_in_turn() {
        let cpu = |rank| cpus_of(Bind::Core, rank, 7, &ALLOWED).map(<[usize]>::to_vec);
        assert_eq!(cpu(0), Some(vec![2]));
        assert_eq!(cpu(4), Some(vec![11]));
        assert_eq!(cpu(5), Some(vec![2]), "more ranks than CPUs start over");
    }

    #[test]
    fn shares_cover_every_cpu_once() {
        for ranks in 2..=5 {
            let all: Vec<usize> = (0..ranks)
                .flat_map(|rank| cpus_of(Bind::Auto, rank, ranks, &ALLOWED).unwrap_or(&[]))
                .copied()
                .collect();
            assert_eq!(all, ALLOWED, "{ranks} ranks");
            for rank in 0..ranks {
                assert!(!cpus_of(Bind::Auto, rank, ranks, &ALLOWED).unwrap_or(&[]).is_empty());
            }
        }
    }

    #[test]
    fn a_machine_is_its_system_and_cpus() {
        let here = machine().unwrap();
        assert!(here.len() > 36 && !here.contains(char::is_whitespace), "{here}");
        let set = sched_getaffinity(None).unwrap();
        let mut less = set;
        less.unset(allowed_cpus()[0]);
        if less.count() > 0 {
            rustix::thread::sched_setaffinity(None, &less).unwrap();
            assert_ne!(machine().unwrap(), here);
            rustix::thread::sched_setaffinity(None, &set).unwrap();
        }
        assert_eq!(machine().unwrap(), here);
    }

    #[test]
    fn one_rank_or_too_many_are_left_alone() {
        assert_eq!(cpus_of(Bind::Auto, 0, 1, &ALLOWED), None);
        assert_eq!(cpus_of(Bind::Auto, 5, 6, &ALLOWED), None);
        assert_eq!(cpus_of(Bind::None, 0, 2, &ALLOWED), None);
        assert_eq!(cpus_of(Bind::Core, 0, 2, &[]), None, "an unreadable mask binds nothing");
    }
}
