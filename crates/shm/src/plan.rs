//! The layout of a job's memory: pure arithmetic over the sizes of the job.
//!
//! ```text
//!   0           JobHeader          describes the job, written once by its creator
//!               u32 × ranks        the host of each rank, if the job has several
//!               ends, RankLine ×   the state of every rank (nic's registry)
//!               RankNote × ranks   the ranks' notes to each other, for this crate
//!               Card × ranks       the ranks' addresses for other hosts, if there are any
//!               segment × ranks    rings and tables (nic's SegmentLayout)
//!               line × ranks       turns and deeds, in virtual time only (conducted/line.rs)
//!   ----------- all above is committed when the job is created, except multicast areas -----
//!               region × ranks     sparse; pages are committed as buffers are allocated
//! ```
//!
//! Every process computes the same plan from the same sizes. It reads them once from the header,
//! checks them, and never reads them again.
//!
//! In a job of several hosts each host has such a memory. Lines, notes and cards exist for all
//! ranks of the job, segments and regions only for those of the host. In a segment, the lines of
//! sources on other hosts are committed once a message has come from them.

use std::mem::size_of;

use hikyaku_nic::fabric::{FullPolicy, Name, Rank, RingId};
use hikyaku_nic::hosted::RankLine;
use hikyaku_nic::plan::LandingPlan;
use hikyaku_nic::ring::LongStores;
use hikyaku_nic::segment::{GroupLayout, SegmentLayout};
use hikyaku_nic::sync::{AtomicU64, Line};

use crate::conducted::line_bytes;
use crate::error::JobError;
use crate::header::{Card, JobHeader, RankNote};
use crate::memory;

/// Every part starts at a multiple of this: the largest page size of any machine we know.
const ALIGN: u64 = 64 << 10;

/// The size of a log beyond the largest message of one record.
const LOG_BESIDE: u32 = 64 << 10;

/// No rank's region is larger than this.
const MAX_REGION: u64 = 64 << 30;

/// All regions of a job together take at most this much of a process's 128 TiB of addresses.
const MAX_REGIONS: u64 = 8 << 40;

/// The sizes of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobConfig {
    /// The number of ranks.
    pub ranks: u32,
    /// Ranks on each virtual node; at least 1.
    pub ranks_per_node: u32,
    /// Sizes of every rank's rings; `layout.ranks` equals `ranks`.
    pub layout: SegmentLayout,
    /// Bytes of each rank's region. This is address space: memory is used only where buffers are
    /// allocated.
    pub region_bytes: u64,
    /// Bytes of each rank's log of deeds if the job runs in virtual time, a multiple of 8 larger
    /// than any ring; 0: it runs in real time.
    pub log_bytes: u32,
    /// How ranks store long payloads for each other. `None`: for each peer in the way that
    /// measurements show to be faster.
    pub long_stores: Option<LongStores>,
    /// The hosts of the job. `None`: all ranks are on this host.
    pub hosts: Option<Hosts>,
    /// The sources that have a landing ring of their own, by rank. `None`: as the layout says. For
    /// the creator only: ranks read the tables that it has filled.
    pub landing: Option<LandingPlan>,
    /// Whether ranks assign spare landing rings to frequent sources by themselves. `false` where
    /// rings are planned.
    pub moves_rings: bool,
}

/// The hosts of a job that has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// The number of this host.
    pub own: u32,
    /// The host of each rank of the job. Hosts are numbered from 0 and each has a rank; the ranks
    /// of a host need not be consecutive.
    pub of: Vec<u32>,
    /// The name of each host, for errors.
    pub names: Vec<Name>,
    /// A secret of the job: a packet without it does not belong to the job.
    pub key: [u8; 16],
    /// Whether the launcher reports on each host which ranks of others have ended, so that a rank
    /// that leaves need not notify those with which it has not communicated.
    pub tells_ends: bool,
    /// The number of ranks of other hosts that compete for this host's processors: such hosts are
    /// containers of one machine.
    pub beside: u32,
}

impl Hosts {
    /// Whether a rank is on this host. A rank that does not exist is not.
    pub fn is_here(&self, rank: Rank) -> bool {
        self.of.get(rank as usize) == Some(&self.own)
    }

    /// The number of ranks on this host.
    fn here(&self) -> u32 {
        self.of.iter().filter(|host| **host == self.own).count() as u32
    }

    /// The largest number of ranks on one host.
    fn most_on_one(&self) -> u32 {
        let mut ranks = vec![0; self.names.len()];
        for host in &self.of {
            if let Some(count) = ranks.get_mut(*host as usize) {
                *count += 1;
            }
        }
        ranks.into_iter().max().unwrap_or(1)
    }

    /// The index of each rank's segment among those of this host.
    fn slots(&self) -> Vec<u32> {
        let mut next = 0;
        let slot = |host: &u32| match *host == self.own {
            true => {
                next += 1;
                next - 1
            }
            false => ELSEWHERE,
        };
        self.of.iter().map(slot).collect()
    }

    /// Checks that each rank has a host, and each host a rank.
    fn check(&self, ranks: u32) -> Result<(), JobError> {
        let rule = |what, rule| Err(JobError::Sizes { what, rule });
        if self.of.len() != ranks as usize {
            return rule("hosts.of", "one host for each rank");
        }
        let hosts = self.of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut found = vec![false; hosts.min(self.of.len())];
        for host in &self.of {
            let Some(found) = found.get_mut(*host as usize) else { break };
            *found = true;
        }
        if hosts > self.of.len() || found.contains(&false) {
            return rule("hosts.of", "numbered from 0, with a rank on each host");
        }
        if self.names.len() != hosts {
            return rule("hosts.names", "one for each host");
        }
        if !self.of.contains(&self.own) {
            return rule("hosts.own", "a host with a rank");
        }
        Ok(())
    }

    /// The node of each rank: those of the first host come first, with `ranks_per_node` each.
    fn nodes(&self, ranks_per_node: u32) -> Vec<u32> {
        let hosts = self.of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut ranks = vec![0_u32; hosts];
        self.of.iter().for_each(|host| ranks[*host as usize] += 1);
        let mut first = 0;
        let firsts: Vec<u32> = ranks
            .iter()
            .map(|ranks| {
                let own = first;
                first += ranks.div_ceil(ranks_per_node);
                own
            })
            .collect();
        let mut seen = vec![0_u32; hosts];
        let node = |host: &u32| {
            let (host, place) = (*host as usize, &mut seen[*host as usize]);
            *place += 1;
            firsts[host] + (*place - 1) / ranks_per_node
        };
        self.of.iter().map(node).collect()
    }
}

impl JobConfig {
    /// The default sizes. Regions are as large as the machine's memory, within the process's limits
    /// on address space and file size.
    pub fn new(ranks: u32, ranks_per_node: u32) -> JobConfig {
        let room = memory::address_space_limit().map_or(MAX_REGIONS, |limit| limit / 4);
        let share = room.min(MAX_REGIONS) / u64::from(ranks.max(1));
        let region_bytes = memory::physical().min(MAX_REGION).min(share) / ALIGN * ALIGN;
        let layout = SegmentLayout::for_ranks(ranks);
        let (log_bytes, long_stores) = (0, None);
        let (hosts, landing, moves_rings) = (None, None, true);
        JobConfig {
            ranks,
            ranks_per_node,
            layout,
            region_bytes,
            log_bytes,
            long_stores,
            hosts,
            landing,
            moves_rings,
        }
    }

    /// Bytes that such a job takes on a host before its programs allocate anything, without the
    /// ranks' memory for those of other hosts.
    ///
    /// # Errors
    /// The sizes are invalid, or too large to be addressed.
    pub fn bytes(&self) -> Result<u64, JobError> {
        MemoryPlan::new(self)?;
        Ok(memory::needed(self).unwrap_or(u64::MAX))
    }

    /// The same job with landing rings as planned. Each rank has memory for those of its plan.
    #[must_use]
    pub fn planned(mut self, plan: LandingPlan) -> JobConfig {
        (self.layout.rings, self.layout.ring_bytes) = (plan.most_rings(), plan.ring_bytes());
        self.layout.first_rings = 1;
        self.landing = Some(plan);
        self.moves_rings = false;
        self
    }

    /// The same job with sources that land at first in `rings` rings:
    /// [`SegmentLayout::starting_in`].
    #[must_use]
    pub fn starting_in(mut self, rings: u32) -> JobConfig {
        self.layout = self.layout.starting_in(rings);
        self
    }

    /// The same job with sources that stay in their first ring, unless a program directs them
    /// elsewhere.
    #[must_use]
    pub fn keeping_rings(mut self) -> JobConfig {
        self.moves_rings = false;
        self
    }

    /// The same job for one host of several: with segments and regions for its ranks only.
    #[must_use]
    pub fn across(mut self, hosts: Hosts) -> JobConfig {
        let most = hosts.most_on_one();
        self.region_bytes = JobConfig::new(most, most).region_bytes;
        self.layout = self.layout.among_hosts(hosts.here());
        self.hosts = Some(hosts);
        self
    }

    /// Whether a rank is on this host.
    pub(crate) fn is_here(&self, rank: Rank) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.is_here(rank))
    }

    /// The number of ranks on this host.
    pub(crate) fn ranks_here(&self) -> u32 {
        self.hosts.as_ref().map_or(self.ranks, Hosts::here)
    }

    /// The nodes of all ranks, if the job has several hosts.
    pub(crate) fn nodes(&self) -> Option<Vec<u32>> {
        self.hosts.as_ref().map(|hosts| hosts.nodes(self.ranks_per_node))
    }

    /// The same job with another policy of full rings.
    #[must_use]
    pub fn when_full(mut self, policy: FullPolicy) -> JobConfig {
        (self.layout.ring_policy, self.layout.status_policy) = (policy, policy);
        self
    }

    /// The same job in virtual time, conducted through a [`Stage`](crate::Stage).
    #[must_use]
    pub fn in_virtual_time(mut self) -> JobConfig {
        self.log_bytes = self.layout.ring_bytes.saturating_add(LOG_BESIDE);
        self
    }

    /// Checks that the sizes are valid.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        self.layout.check()?;
        if self.landing.as_ref().is_some_and(|plan| !self.fits(plan)) {
            let rule = "a plan of as many ranks, whose rings are those of the layout";
            return Err(JobError::Sizes { what: "landing", rule });
        }
        if self.layout.ranks != self.ranks {
            return Err(JobError::Sizes { what: "layout.ranks", rule: "equal to ranks" });
        }
        let holds_a_ring = self.log_bytes > self.layout.ring_bytes;
        if self.log_bytes > 0 && !(holds_a_ring && self.log_bytes.is_multiple_of(8)) {
            let rule = "0, or a multiple of 8 larger than a landing ring";
            return Err(JobError::Sizes { what: "log_bytes", rule });
        }
        if self.ranks_per_node == 0 {
            return Err(JobError::Sizes { what: "ranks_per_node", rule: "at least 1" });
        }
        let Some(hosts) = &self.hosts else { return Ok(()) };
        if self.log_bytes > 0 {
            return Err(JobError::Sizes { what: "log_bytes", rule: "0 in a job of several hosts" });
        }
        hosts.check(self.ranks)
    }

    /// Whether a plan is for such a job.
    fn fits(&self, plan: &LandingPlan) -> bool {
        let SegmentLayout { rings, first_rings, ring_bytes, .. } = self.layout;
        let sizes = (plan.ranks(), plan.most_rings(), 1, plan.ring_bytes());
        sizes == (self.ranks, rings, first_rings, ring_bytes)
    }

    /// The sizes in the format of the header.
    pub(crate) fn to_words(&self) -> [u64; CONFIG_WORDS] {
        let layout = &self.layout;
        [
            self.ranks.into(),
            self.ranks_per_node.into(),
            self.region_bytes,
            layout.status_rings.into(),
            layout.status_slots.into(),
            policy_word(layout.status_policy),
            layout.rings.into(),
            layout.ring_bytes.into(),
            policy_word(layout.ring_policy),
            layout.packet_bytes.into(),
            layout.credit.into(),
            layout.queues.into(),
            layout.queue_slots.into(),
            layout.contexts.into(),
            layout.segments.into(),
            layout.groups.channels.into(),
            layout.groups.area_bytes.into(),
            self.log_bytes.into(),
            long_stores_word(self.long_stores),
            self.hosts.as_ref().map_or(0, |hosts| u64::from(hosts.own) + 1),
            self.key_word(0),
            self.key_word(8),
            self.hosts.as_ref().is_some_and(|hosts| hosts.tells_ends).into(),
            layout.posters.into(),
            layout.first_rings.into(),
            self.moves_rings.into(),
            self.hosts.as_ref().map_or(0, |hosts| hosts.beside.into()),
        ]
    }

    /// Eight bytes of the job's secret, if it has one.
    fn key_word(&self, at: usize) -> u64 {
        let key = self.hosts.as_ref().map_or([0; 16], |hosts| hosts.key);
        u64::from_le_bytes(std::array::from_fn(|byte| key[at + byte]))
    }

    /// The sizes in a header, and the hosts of the ranks, which follow it if there are several
    /// hosts; `None` if they are invalid.
    pub(crate) fn from_words(
        words: &[u64; CONFIG_WORDS],
        (of, names): (Vec<u32>, Vec<Name>),
    ) -> Option<JobConfig> {
        let size = |which: usize| u32::try_from(words[which]).ok();
        let ranks = size(0)?;
        let layout = SegmentLayout {
            ranks,
            posters: size(23)?,
            status_rings: size(3)?,
            status_slots: size(4)?,
            status_policy: policy(words[5])?,
            rings: size(6)?,
            first_rings: size(24)?,
            ring_bytes: size(7)?,
            ring_policy: policy(words[8])?,
            packet_bytes: size(9)?,
            credit: size(10)?,
            queues: size(11)?,
            queue_slots: size(12)?,
            contexts: size(13)?,
            segments: size(14)?,
            groups: GroupLayout { channels: size(15)?, area_bytes: size(16)? },
        };
        let (ranks_per_node, log_bytes) = (size(1)?, size(17)?);
        let (region_bytes, long_stores) = (words[2], long_stores(words[18])?);
        let key = [words[20].to_le_bytes(), words[21].to_le_bytes()].concat();
        let key = key.try_into().ok()?;
        let own = size(19)?.checked_sub(1);
        let tells_ends = [false, true].get(words[22] as usize).copied()?;
        let beside = size(26)?;
        let hosts = own.map(|own| Hosts { own, of, names, key, tells_ends, beside });
        let moves_rings = [false, true].get(words[25] as usize).copied()?;
        let config = JobConfig {
            ranks,
            ranks_per_node,
            layout,
            region_bytes,
            log_bytes,
            long_stores,
            hosts,
            landing: None,
            moves_rings,
        };
        config.check().is_ok().then_some(config)
    }
}

/// The number of the header's words that [`JobConfig`] takes.
pub(crate) const CONFIG_WORDS: usize = 27;

/// The index of the word that is 0 if all ranks are on one host.
pub(crate) const HOSTS_WORD: usize = 19;

/// The offset of the hosts of the ranks.
pub(crate) const HOSTS_AT: usize = size_of::<JobHeader>().next_multiple_of(128);

/// The offset of the names of the hosts, after the hosts of `ranks` ranks.
pub(crate) fn names_at(ranks: usize) -> Option<usize> {
    HOSTS_AT.checked_add(ranks.checked_mul(size_of::<u32>())?)?.checked_next_multiple_of(8)
}

fn policy_word(policy: FullPolicy) -> u64 {
    match policy {
        FullPolicy::Stall => 0,
        FullPolicy::Refuse => 1,
    }
}

fn policy(word: u64) -> Option<FullPolicy> {
    match word {
        0 => Some(FullPolicy::Stall),
        1 => Some(FullPolicy::Refuse),
        _ => None,
    }
}

fn long_stores_word(way: Option<LongStores>) -> u64 {
    match way {
        None => 0,
        Some(LongStores::Cached) => 1,
        Some(LongStores::PastCaches) => 2,
    }
}

fn long_stores(word: u64) -> Option<Option<LongStores>> {
    [None, Some(LongStores::Cached), Some(LongStores::PastCaches)].get(word as usize).copied()
}

/// The slot of a rank of another host.
const ELSEWHERE: u32 = u32::MAX;

/// Offsets of the parts, bytes.
#[derive(Debug, Clone)]
pub(crate) struct MemoryPlan {
    pub(crate) config: JobConfig,
    /// The index of each rank's segment and region on this host, if there are several hosts.
    slots: Option<Vec<u32>>,
    pub(crate) ends_at: usize,
    pub(crate) lines_at: usize,
    pub(crate) notes_at: usize,
    /// Cards of a job of several hosts.
    pub(crate) cards_at: usize,
    pub(crate) segments_at: usize,
    pub(crate) segment_bytes: usize,
    /// Lines of a job in virtual time; `line_bytes` is zero in real time.
    pub(crate) conducted_at: usize,
    pub(crate) line_bytes: usize,
    /// The end of the part committed at the start; the regions follow.
    pub(crate) regions_at: usize,
    pub(crate) region_bytes: usize,
    pub(crate) total: usize,
}

impl MemoryPlan {
    /// The plan of a job with these sizes.
    pub(crate) fn new(config: &JobConfig) -> Result<MemoryPlan, JobError> {
        config.check()?;
        MemoryPlan::compute(config).ok_or(JobError::Sizes {
            what: "the job's memory",
            rule: "small enough to be addressed: fewer ranks, or smaller rings or regions",
        })
    }

    fn compute(config: &JobConfig) -> Option<MemoryPlan> {
        let ranks = config.ranks as usize;
        let align = ALIGN as usize;
        let (ends_at, card) = match &config.hosts {
            Some(hosts) => {
                let names = hosts.names.len().checked_mul(Name::BYTES)?;
                let ends_at = names_at(ranks)?.checked_add(names)?;
                (ends_at.checked_next_multiple_of(128)?, size_of::<Card>())
            }
            None => (HOSTS_AT, 0),
        };
        let lines_at = ends_at + size_of::<Line<AtomicU64>>();
        let notes_at = lines_at.checked_add(ranks.checked_mul(size_of::<RankLine>())?)?;
        let cards_at = notes_at.checked_add(ranks.checked_mul(size_of::<RankNote>())?)?;
        let segments_at =
            cards_at.checked_add(ranks.checked_mul(card)?)?.checked_next_multiple_of(align)?;
        let (segment_bytes, here) = (config.layout.segment_bytes(), config.ranks_here() as usize);
        let conducted_at = segments_at.checked_add(here.checked_mul(segment_bytes)?)?;
        let line_bytes = line_bytes(config.ranks, config.log_bytes)?;
        let regions_at = conducted_at
            .checked_add(ranks.checked_mul(line_bytes)?)?
            .checked_next_multiple_of(align)?;
        let region_bytes = usize::try_from(config.region_bytes / ALIGN * ALIGN).ok()?;
        let total = regions_at.checked_add(here.checked_mul(region_bytes)?)?;
        // Half of the addresses of a process on x86-64 and AArch64.
        (total as u64 <= 1 << 46).then_some(MemoryPlan {
            config: config.clone(),
            slots: config.hosts.as_ref().map(Hosts::slots),
            ends_at,
            lines_at,
            notes_at,
            cards_at,
            segments_at,
            segment_bytes,
            conducted_at,
            line_bytes,
            regions_at,
            region_bytes,
            total,
        })
    }

    /// The ranges that are committed when the job is created, as offsets and lengths.
    pub(crate) fn committed(&self) -> impl Iterator<Item = (u64, u64)> {
        let layout = &self.config.layout;
        let here = (0..self.config.ranks).filter(|rank| self.config.is_here(*rank));
        let (rings_at, after) = layout.rings_at();
        let (lines, lines_end) = layout.lines_at();
        let sources = self.sources_here();
        let segments = here.flat_map(move |rank| {
            let start = self.segment_at(rank);
            let rings =
                self.config.landing.as_ref().map_or(layout.first_rings, |plan| plan.rings(rank));
            let rings_end = rings_at + rings as usize * layout.ring_bytes as usize;
            let parts = [(0, lines), (lines_end, rings_end - lines_end)];
            let rest = [(after, layout.area_at(0) - after)];
            let of_sources = sources.clone().into_iter();
            let of_sources = of_sources.flat_map(|(first, count)| layout.lines_of(first, count));
            let all = parts.into_iter().chain(of_sources).chain(rest);
            all.map(move |(at, length)| (start + at, length)).collect::<Vec<_>>()
        });
        let ends =
            [(0, self.segments_at), (self.conducted_at, self.regions_at - self.conducted_at)];
        let ranges = ends.into_iter().chain(segments);
        ranges.filter(|(_, length)| *length > 0).map(|(at, length)| (at as u64, length as u64))
    }

    /// Runs of consecutive ranks of this host: the first rank, and their number.
    fn sources_here(&self) -> Vec<(Rank, u32)> {
        let mut runs: Vec<(Rank, u32)> = Vec::new();
        for rank in (0..self.config.ranks).filter(|rank| self.config.is_here(*rank)) {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == rank => *count += 1,
                _ => runs.push((rank, 1)),
            }
        }
        runs
    }

    /// The ranges of a source's lines at a rank.
    pub(crate) fn lines_of(&self, rank: Rank, source: Rank) -> [(u64, u64); 2] {
        let start = self.segment_at(rank);
        let lines = self.config.layout.lines_of(source, 1);
        lines.map(|(at, length)| ((start + at) as u64, length as u64))
    }

    /// The range of a landing ring of a rank.
    pub(crate) fn ring(&self, rank: Rank, ring: RingId) -> (u64, u64) {
        let layout = &self.config.layout;
        let at = self.segment_at(rank) + layout.ring_at(ring);
        (at as u64, layout.ring_bytes.into())
    }

    /// The range of a rank's multicast area of a channel.
    pub(crate) fn area(&self, rank: Rank, channel: u32) -> (u64, u64) {
        let layout = &self.config.layout;
        let at = self.segment_at(rank) + layout.area_at(channel);
        (at as u64, layout.groups.area_bytes.into())
    }

    /// The index of a rank's segment and region among those of this host.
    #[inline]
    fn slot(&self, rank: Rank) -> Option<usize> {
        let slot = match &self.slots {
            None => Some(rank),
            Some(slots) => slots.get(rank as usize).copied().filter(|slot| *slot != ELSEWHERE),
        };
        slot.map(|slot| slot as usize)
    }

    /// The offset of a rank's segment. The rank must be on this host.
    #[inline]
    pub(crate) fn segment_at(&self, rank: Rank) -> usize {
        let slot = self.slot(rank).expect("a segment of a rank of this host");
        self.segments_at + slot * self.segment_bytes
    }

    /// The offset of a rank's region; `None`: the rank is on another host.
    #[inline]
    pub(crate) fn region_at(&self, rank: Rank) -> Option<usize> {
        assert!(rank < self.config.ranks);
        Some(self.regions_at + self.slot(rank)? * self.region_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip_through_the_header() {
        for config in
            [JobConfig::new(1, 1), JobConfig::new(8, 3).in_virtual_time(), JobConfig::new(1000, 16)]
        {
            assert_eq!(
                JobConfig::from_words(&config.to_words(), (Vec::new(), Vec::new())),
                Some(config)
            );
        }
    }

    #[test]
    fn an_invalid_header_gives_no_sizes() {
        let good = JobConfig::new(4, 4).to_words();
        for (word, value) in [
            (0, 0),
            (0, 1 << 32),
            (1, 0),
            (3, 0),
            (4, 3),
            (5, 2),
            (7, 100),
            (10, 0),
            (15, 1 << 20),
            (16, 1),
            (17, 8),
        ] {
            let mut words = good;
            words[word] = value;
            let nobody = (Vec::new(), Vec::new());
            assert_eq!(JobConfig::from_words(&words, nobody), None, "word {word} = {value}");
        }
    }

    fn hosts(own: u32, of: &[u32]) -> Option<Hosts> {
        let key = std::array::from_fn(|byte| byte as u8 + 1);
        Some(Hosts {
            own,
            of: of.to_vec(),
            names: names(of),
            key,
            tells_ends: own > 0,
            beside: own,
        })
    }

    /// The names of the hosts, of which there are at most four.
    fn names(of: &[u32]) -> Vec<Name> {
        let hosts = of.iter().max().map_or(0, |last| last.saturating_add(1)).min(4);
        (0..hosts).map(|host| format_args!("host{host}").into()).collect()
    }

    #[test]
    fn hosts_round_trip_through_the_header() {
        let of = [0, 1, 0, 1, 1];
        let config = JobConfig { hosts: hosts(1, &of), ..JobConfig::new(5, 5) };
        let found = JobConfig::from_words(&config.to_words(), (of.to_vec(), names(&of)));
        assert_eq!(found, Some(config));
    }

    #[test]
    fn impossible_hosts_are_refused() {
        for (own, of) in [
            (0, &[0, 0, 0][..]),
            (0, &[0, 2, 0, 2]),
            (0, &[0, u32::MAX, 0, 1]),
            (2, &[0, 1, 0, 1]),
            (0, &[]),
        ] {
            let config = JobConfig { hosts: hosts(own, of), ..JobConfig::new(4, 4) };
            assert!(MemoryPlan::new(&config).is_err(), "host {own} of {of:?}");
            let hosts = (of.to_vec(), names(of));
            assert_eq!(JobConfig::from_words(&config.to_words(), hosts), None);
        }
        let config = JobConfig { hosts: hosts(0, &[0, 1]), ..JobConfig::new(2, 2) };
        assert!(MemoryPlan::new(&config).is_ok());
        assert!(MemoryPlan::new(&config.in_virtual_time()).is_err());
    }

    #[test]
    fn ranks_of_different_hosts_are_on_different_nodes() {
        let config = |per_node| JobConfig {
            hosts: hosts(0, &[1, 0, 1, 0, 1]),
            ..JobConfig::new(5, per_node)
        };
        assert_eq!(config(5).nodes(), Some(vec![1, 0, 1, 0, 1]));
        assert_eq!(config(2).nodes(), Some(vec![1, 0, 1, 0, 2]));
        assert_eq!(config(1).nodes(), Some(vec![2, 0, 3, 1, 4]));
        assert_eq!((config(1).ranks_here(), config(1).is_here(0)), (2, false));
    }

    #[test]
    fn ranks_have_memory_for_the_rings_of_their_plan() {
        let plan = |rows: &str| -> LandingPlan {
            format!("hikyaku plan 1\nranks 32\nring-bytes 65536\n{rows}").parse().unwrap()
        };
        let bytes = |config: &JobConfig| -> u64 {
            MemoryPlan::new(config).unwrap().committed().map(|(_, length)| length).sum()
        };
        let some = JobConfig::new(32, 32).planned(plan("0: 1 2 3\n1: 0\n"));
        assert_eq!((some.layout.rings, some.layout.ring_bytes), (4, 65536));
        let all = JobConfig { landing: None, ..some.clone() };
        // Rank 0 has 4 rings, rank 1 has 2, each other rank has one.
        assert_eq!(bytes(&some) - bytes(&all), (3 + 1) * 65536);
        let other = JobConfig { ranks: 31, ..some.clone() };
        assert!(MemoryPlan::new(&other).is_err());
        let fewer = JobConfig { landing: Some(plan("0: 1\n")), ..some };
        assert!(MemoryPlan::new(&fewer).is_err());
    }

    /// Paper 000, section 4: memory follows partners. A halo in three dimensions has six.
    #[test]
    fn shared_rings_and_private_ones_to_partners_are_less_than_a_quarter_of_a_ring_a_pair() {
        let config = JobConfig::new(64, 64);
        let ring = u64::from(config.layout.ring_bytes);
        let bytes = |first: u32| -> u64 {
            let layout = config.layout.starting_in(first);
            let plan = MemoryPlan::new(&JobConfig { layout, ..config.clone() }).unwrap();
            plan.committed().map(|(_, length)| length).sum()
        };
        let (pairs, given) = (64 * 64 * ring, 64 * 6 * ring);
        let rest = bytes(64) - pairs;
        assert!(4 * (bytes(1) + given - rest) <= pairs);
    }

    #[test]
    fn parts_follow_each_other() {
        for ranks in [1, 2, 17, 1000] {
            let plan = MemoryPlan::new(&JobConfig::new(ranks, 1)).unwrap();
            let marks = [HOSTS_AT, plan.ends_at, plan.lines_at, plan.notes_at, plan.cards_at];
            assert!(marks.is_sorted() && plan.cards_at <= plan.segments_at);
            assert!(plan.segments_at <= plan.regions_at);
            assert!(plan.regions_at <= plan.total);
            assert!(marks.iter().all(|mark| mark.is_multiple_of(128)));
            assert!(plan.segments_at.is_multiple_of(ALIGN as usize));
            assert_eq!(plan.region_at(ranks - 1), Some(plan.total - plan.region_bytes));
        }
    }

    #[test]
    fn ranks_elsewhere_have_neither_segment_nor_region() {
        let of = [0, 1, 1, 0, 2, 1];
        let config = JobConfig::new(6, 6).across(hosts(1, &of).unwrap());
        let plan = MemoryPlan::new(&config).unwrap();
        let [first, second, third] = [1, 2, 5].map(|rank| plan.segment_at(rank));
        assert_eq!(first, plan.segments_at);
        assert_eq!((second - first, third - second), (plan.segment_bytes, plan.segment_bytes));
        assert_eq!([0, 3, 4].map(|rank| plan.region_at(rank)), [None; 3]);
        assert_eq!(plan.region_at(5), Some(plan.total - plan.region_bytes));
        assert_eq!(plan.sources_here(), [(1, 2), (5, 1)]);
        assert_eq!(config.region_bytes, JobConfig::new(3, 3).region_bytes);
    }

    #[test]
    fn jobs_beyond_the_address_space_are_refused() {
        let config = JobConfig { region_bytes: u64::MAX, ..JobConfig::new(2, 2) };
        assert!(MemoryPlan::new(&config).is_err());
        let config = JobConfig { region_bytes: 1 << 46, ..JobConfig::new(2, 2) };
        assert!(MemoryPlan::new(&config).is_err());
    }
}
