//! The processors that a rank may run on, and whether it shares them with other ranks.
//!
//! Counting ranks and processors is not enough. A rank bound to one core has one processor and no
//! competitor; two ranks that a script put on the same core have one each and starve each other. So
//! every rank announces its affinity mask. A rank is *crowded* when more ranks are confined to its
//! mask than this has processors, or when the job has more ranks than the cgroup's quota.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Words of a [`Mask`].
pub(crate) const MASK_WORDS: usize = CpuSet::MAX_CPU / 64;

/// A set of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mask([u64; MASK_WORDS]);

impl Mask {
    /// The processors that this thread may run on. A machine with more processors than a mask can
    /// hold counts as if all its processors were this thread's.
    pub(crate) fn of_this_thread() -> Mask {
        let Ok(set) = sched_getaffinity(None) else { return Mask([u64::MAX; MASK_WORDS]) };
        let mut words = [0; MASK_WORDS];
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)) {
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        Mask(words)
    }

    #[cfg(test)]
    pub(crate) fn of(cpus: &[usize]) -> Mask {
        let mut words = [0; MASK_WORDS];
        for cpu in cpus {
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        Mask(words)
    }

    pub(crate) fn from_words(words: [u64; MASK_WORDS]) -> Mask {
        Mask(words)
    }

    pub(crate) fn words(&self) -> &[u64; MASK_WORDS] {
        &self.0
    }

    /// The number of processors.
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether every processor of this mask is in the other.
    fn within(&self, other: &Mask) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own & !other == 0)
    }
}

/// The ranks that compete for a rank's processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Company {
    /// The number of processors on which this rank may run.
    pub(crate) cpus: u32,
    /// The number of ranks confined to those processors, with this one and those of other hosts;
    /// counted until too many.
    pub(crate) confined: u32,
    /// The number of processors that the cgroup allows, if it has a quota.
    pub(crate) quota: Option<u32>,
    /// The number of counted ranks that have announced their mask.
    pub(crate) known: u32,
    /// The number of ranks on this host.
    pub(crate) ranks: u32,
}

impl Company {
    /// Counts the announced ranks that compete with `own`; `beside` ranks of other hosts do. Ranks
    /// that have not announced yet are assumed to run elsewhere until they do. Beyond the number of
    /// processors the count does not matter.
    pub(crate) fn count(
        own: &Mask,
        quota: Option<u32>,
        (ranks, beside): (u32, u32),
        masks: impl Iterator<Item = Mask>,
    ) -> Company {
        let mut company = Company { cpus: own.count(), confined: beside, quota, known: 0, ranks };
        for mask in masks {
            company.known += 1;
            company.confined += u32::from(mask.within(own));
            if company.confined > company.cpus {
                break;
            }
        }
        company
    }

    /// Whether further announcements change nothing: all ranks have announced, or there are too
    /// many already.
    pub(crate) fn is_settled(&self) -> bool {
        self.known == self.ranks || self.is_crowded()
    }

    /// Whether no other rank is confined to this one's processors, as when each rank is bound to
    /// its own. Otherwise several ranks may run on one processor while other processors are idle.
    pub(crate) fn is_alone(&self) -> bool {
        self.confined <= 1
    }

    /// Whether a rank that spins may prevent another one from running.
    pub(crate) fn is_crowded(&self) -> bool {
        self.confined > self.cpus || self.quota.is_some_and(|quota| self.ranks > quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowded(own: usize, masks: &[Option<Mask>], quota: Option<u32>) -> bool {
        let own = masks[own].unwrap();
        let count = masks.len() as u32;
        Company::count(&own, quota, (count, 0), masks.iter().flatten().copied()).is_crowded()
    }

    #[test]
    fn ranks_bound_to_own_cores_are_not_crowded() {
        let masks = [Some(Mask::of(&[0])), Some(Mask::of(&[1]))];
        assert!(!crowded(0, &masks, None));
    }

    #[test]
    fn ranks_bound_to_one_core_are_crowded() {
        let masks = [Some(Mask::of(&[1])), Some(Mask::of(&[1])), Some(Mask::of(&[0, 1]))];
        assert!(crowded(0, &masks, None));
        assert!(crowded(2, &masks, None));
    }

    #[test]
    fn unbound_ranks_beyond_the_processors_are_crowded() {
        let all = Some(Mask::of(&[0, 64]));
        assert!(!crowded(0, &[all, all], None));
        assert!(crowded(0, &[all, all, all], None));
        assert!(!crowded(0, &[all, all, None], None));
    }

    #[test]
    fn ranks_of_other_hosts_count_too() {
        let own = Mask::of(&[0, 1]);
        let crowded = |beside| Company::count(&own, None, (1, beside), [own].into_iter());
        assert_eq!([0, 1, 2].map(|beside| crowded(beside).is_crowded()), [false, false, true]);
        assert!(crowded(0).is_alone() && !crowded(1).is_alone());
    }

    #[test]
    fn a_quota_below_the_ranks_crowds_them() {
        let masks = [Some(Mask::of(&[0])), Some(Mask::of(&[1]))];
        assert!(crowded(0, &masks, Some(1)));
        assert!(!crowded(0, &masks, Some(2)));
    }

    #[test]
    fn this_thread_may_run_somewhere() {
        let mask = Mask::of_this_thread();
        assert!(mask.count() >= 1);
        let set = sched_getaffinity(None).unwrap();
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
        assert_eq!(mask, Mask::of(&cpus));
        assert_eq!(Mask::from_words(*mask.words()), mask);
    }
}
