//! Landing rings planned from a trace (paper 000 §4.2 and its future work).
//!
//! ```text
//!   hikyaku run --trace ──► TrafficTrace ──► LandingPlan ──► hikyaku run --plan
//!                                └─────────► Growth          the same for other numbers of ranks
//! ```
//!
//! A rank's plan gives each of its busiest sources a landing ring of its own; all others share one.
//! With `k` private rings a rank has `k + 1` rings, instead of one for every rank. The paper gives
//! each partner a ring. With less memory, some partners share a ring, and may delay each other.
//!
//! This module has values only: reading and writing the files is done elsewhere.

mod growth;
mod trace;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use growth::Growth;
pub use trace::{MOST_PARTNERS, RankFlow, SentRows, TraceError, TrafficKind, TrafficTrace};

use crate::fabric::Rank;

/// The first line of a plan.
const TITLE: &str = "hikyaku plan 1";

/// The limit for a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// A ring for each source that used a ring, as paper 000 plans.
    Partners,
    /// This many bytes of landing rings per rank.
    Memory(u64),
    /// At most this fraction, 0 to 1, of the packets that land at a rank may find the ring filled
    /// by another source.
    Shared(f64),
}

/// The landing rings of every rank: ring 0 is shared, and some sources have one of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingPlan {
    ring_bytes: u32,
    /// By rank, the sources with a ring of their own: the first has ring 1.
    private: Vec<Vec<Rank>>,
}

/// Why a plan is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The memory is less than one ring.
    #[error("{bytes} bytes a rank hold no ring of {ring_bytes}: allow more, or plan shorter rings")]
    TooLittle {
        /// The allowed number of bytes.
        bytes: u64,
        /// The size of a ring.
        ring_bytes: u32,
    },
    /// The ring size is invalid.
    #[error("a landing ring cannot have {bytes} bytes: a power of two from 16 KiB to 1 GiB")]
    RingBytes {
        /// The size.
        bytes: u64,
    },
}

/// The size of a plan, and its cost for a program that repeats the traffic of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number of rings of the rank with the most.
    pub rings: u32,
    /// The number of rings of all ranks.
    pub all_rings: u64,
    /// The fraction, 0 to 1, of all packets that land in a ring which other sources may have
    /// filled. No other packet is delayed by sharing.
    pub shared: f64,
}

impl LandingPlan {
    /// Plans the rings of every rank, busy sources first.
    ///
    /// # Errors
    /// [`PlanError`]: the ring size is invalid, or the budget has no room for one ring.
    pub fn of(
        trace: &TrafficTrace,
        ring_bytes: u64,
        budget: Budget,
    ) -> Result<LandingPlan, PlanError> {
        let ring_bytes = checked_ring(ring_bytes)?;
        let most = match budget {
            Budget::Memory(bytes) => {
                let most = (bytes / u64::from(ring_bytes)).checked_sub(1);
                most.ok_or(PlanError::TooLittle { bytes, ring_bytes })?
            }
            _ => u64::MAX,
        };
        let allowed = match budget {
            Budget::Shared(part) => part,
            _ => 0.0,
        };
        let private = (0..trace.ranks()).map(|rank| {
            let sources = by_use(trace, rank);
            let rest = sums_of_last(&sources);
            let limit = allowed * rest[sources.len()].packets as f64;
            let enough = |count: &usize| match budget {
                Budget::Shared(_) => {
                    let sharing = sources.len() - count;
                    at_risk(sharing, &rest[sharing], ring_bytes) as f64 <= limit
                }
                _ => *count as u64 >= most,
            };
            let count = (0..sources.len()).find(enough).unwrap_or(sources.len());
            sources[..count].iter().map(|(source, _)| *source).collect()
        });
        Ok(LandingPlan { ring_bytes, private: private.collect() })
    }

    /// The number of ranks of the plan.
    pub fn ranks(&self) -> u32 {
        self.private.len() as u32
    }

    /// Bytes of each landing ring.
    pub fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    /// The sources of a rank that have a ring of their own: the first has ring 1.
    pub fn private(&self, rank: Rank) -> &[Rank] {
        self.private.get(rank as usize).map_or(&[], Vec::as_slice)
    }

    /// The number of rings of a rank, including the shared one.
    pub fn rings(&self, rank: Rank) -> u32 {
        self.private(rank).len() as u32 + 1
    }

    /// The number of rings of the rank with the most.
    pub fn most_rings(&self) -> u32 {
        (0..self.ranks()).map(|rank| self.rings(rank)).max().unwrap_or(1)
    }

    /// The size and cost of the plan, if the program repeats the traffic of the trace.
    pub fn estimate(&self, trace: &TrafficTrace) -> Estimate {
        let (mut shared, mut all) = (0, 0);
        for rank in 0..trace.ranks() {
            let mut sources = by_use(trace, rank);
            all = sum_of(&sources).packets.saturating_add(all);
            let alone: BTreeSet<&Rank> = self.private(rank).iter().collect();
            sources.retain(|(source, _)| !alone.contains(source));
            let sharing = at_risk(sources.len(), &sum_of(&sources), self.ring_bytes);
            shared = sharing.saturating_add(shared);
        }
        Estimate {
            rings: self.most_rings(),
            all_rings: (0..self.ranks()).map(|rank| u64::from(self.rings(rank))).sum(),
            shared: if all == 0 { 0.0 } else { shared as f64 / all as f64 },
        }
    }
}

/// The sources of a rank that have used a ring, those with the most packets first.
fn by_use(trace: &TrafficTrace, rank: Rank) -> Vec<(Rank, RankFlow)> {
    let mut sources = trace.sources(rank);
    sources.retain(|(_, flow)| flow.packets > 0);
    sources.sort_by_key(|(source, flow)| (Reverse(flow.packets), *source));
    sources
}

/// The number of these sources' packets that may find their shared ring filled by another source.
/// Zero if there is only one source, or if all packets fit the ring.
fn at_risk(sources: usize, sum: &RankFlow, ring_bytes: u32) -> u64 {
    if sources > 1 && sum.ring_bytes > u64::from(ring_bytes) { sum.packets } else { 0 }
}

/// The total traffic of the last `n` sources, for `n` from zero to all.
fn sums_of_last(sources: &[(Rank, RankFlow)]) -> Vec<RankFlow> {
    let mut sum = RankFlow::default();
    let longer = sources.iter().rev().map(|(_, flow)| {
        sum.add(flow);
        sum
    });
    std::iter::once(RankFlow::default()).chain(longer).collect()
}

/// The total traffic of these sources. A file may contain any number, so sums saturate.
fn sum_of(sources: &[(Rank, RankFlow)]) -> RankFlow {
    let mut sum = RankFlow::default();
    sources.iter().for_each(|(_, flow)| sum.add(flow));
    sum
}

fn checked_ring(bytes: u64) -> Result<u32, PlanError> {
    let valid = bytes.is_power_of_two() && (16 << 10..=1 << 30).contains(&bytes);
    let size = u32::try_from(bytes).ok().filter(|_| valid);
    size.ok_or(PlanError::RingBytes { bytes })
}

/// The plan as a file: a line for each rank whose sources have their own rings, the rank first.
impl fmt::Display for LandingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}\nranks {}\nring-bytes {}", self.ranks(), self.ring_bytes)?;
        let planned = (0..).zip(&self.private).filter(|(_, sources)| !sources.is_empty());
        for (rank, sources) in planned {
            write!(f, "{rank}:")?;
            sources.iter().try_for_each(|source| write!(f, " {source}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl FromStr for LandingPlan {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<LandingPlan, TraceError> {
        let wrong = |line, what: String| Err(TraceError { line, what });
        let mut lines = text.lines();
        if lines.next().map(str::trim_end) != Some(TITLE) {
            return wrong(1, format!("expected `{TITLE}`: this is no plan of `hikyaku plan`"));
        }
        let ranks = trace::ranks_of(lines.next())?;
        let size = lines.next().and_then(|line| line.strip_prefix("ring-bytes "));
        let Some(size) = size.and_then(|size| size.trim().parse().ok()) else {
            return wrong(3, "expected `ring-bytes N`".into());
        };
        let ring_bytes = match checked_ring(size) {
            Ok(bytes) => bytes,
            Err(error) => return wrong(3, error.to_string()),
        };
        let mut private = vec![Vec::new(); ranks as usize];
        for (at, row) in lines.enumerate().filter(|(_, row)| !row.trim().is_empty()) {
            let line = at + 4;
            match sources_of(row, ranks) {
                Ok((rank, sources)) => match &mut private[rank as usize] {
                    slot if slot.is_empty() => *slot = sources,
                    _ => return wrong(line, format!("rank {rank} has a line before")),
                },
                Err(what) => return wrong(line, what),
            }
        }
        Ok(LandingPlan { ring_bytes, private })
    }
}

/// A line of a plan: a rank and its sources.
fn sources_of(row: &str, ranks: u32) -> Result<(Rank, Vec<Rank>), String> {
    let rank = |word: &str| trace::rank_of(word.trim(), ranks);
    let (of, sources) = row.split_once(':').ok_or("expected `RANK: SOURCES`")?;
    let of = rank(of)?;
    let sources: Vec<Rank> = sources.split_whitespace().map(rank).collect::<Result<_, _>>()?;
    if sources.iter().collect::<BTreeSet<_>>().len() < sources.len() {
        return Err(format!("a source of rank {of} is named twice"));
    }
    Ok((of, sources))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u64 = 64 << 10;

    /// Rank 0 receives these numbers of packets, of one kibibyte each, from ranks 1, 2, ...
    fn trace(packets: &[u64]) -> TrafficTrace {
        let mut trace = TrafficTrace::new(packets.len() as u32 + 1);
        for (source, packets) in (1..).zip(packets) {
            let (messages, bytes) = (*packets, packets << 10);
            let flow =
                RankFlow { messages, bytes, packets: *packets, ring_bytes: bytes, held_up: 0 };
            trace.add(source, 0, TrafficKind::Point, &flow);
        }
        trace
    }

    #[test]
    fn partners_get_rings_as_in_table_1() {
        let trace = trace(&[100, 0, 300, 200]);
        let plan = LandingPlan::of(&trace, RING, Budget::Partners).unwrap();
        assert_eq!(plan.private(0), [3, 4, 1]);
        let estimate = plan.estimate(&trace);
        assert_eq!((estimate.rings, estimate.all_rings, estimate.shared), (4, 8, 0.0));
    }

    #[test]
    fn memory_goes_to_the_busiest() {
        let trace = trace(&[100, 50, 300, 200]);
        for (memory, private, shared) in [
            (4 * RING, &[3, 4, 1][..], 0.0),
            (4 * RING - 1, &[3, 4], 150.0 / 650.0),
            (2 * RING, &[3], 350.0 / 650.0),
            (RING, &[], 1.0),
        ] {
            let plan = LandingPlan::of(&trace, RING, Budget::Memory(memory)).unwrap();
            assert_eq!(plan.private(0), private);
            assert_eq!(plan.estimate(&trace).shared, shared, "{memory}");
        }
        let none = LandingPlan::of(&trace, RING, Budget::Memory(RING - 1));
        assert_eq!(none, Err(PlanError::TooLittle { bytes: RING - 1, ring_bytes: 65536 }));
    }

    #[test]
    fn sources_share_as_far_as_waits_are_allowed() {
        let busy = trace(&[100, 50, 300, 200]);
        for (part, private) in [(0.0, &[3, 4, 1][..]), (0.25, &[3, 4]), (0.6, &[3]), (1.0, &[])] {
            let plan = LandingPlan::of(&busy, RING, Budget::Shared(part)).unwrap();
            assert_eq!(plan.private(0), private, "{part}");
            assert!(plan.estimate(&busy).shared <= part);
        }
        // Sources delay each other in no way if all their packets fit one ring.
        let rare = trace(&[16, 16, 16, 16]);
        let plan = LandingPlan::of(&rare, RING, Budget::Shared(0.0)).unwrap();
        assert_eq!((plan.most_rings(), plan.estimate(&rare).shared), (1, 0.0));
        let plan = LandingPlan::of(&rare, RING / 2, Budget::Shared(0.0)).unwrap();
        assert_eq!((plan.most_rings(), plan.estimate(&rare).shared), (3, 0.0));
    }

    #[test]
    fn plans_survive_as_text() {
        let plan = LandingPlan::of(&trace(&[1, 2, 3]), RING, Budget::Partners).unwrap();
        let text = plan.to_string();
        assert_eq!(text, "hikyaku plan 1\nranks 4\nring-bytes 65536\n0: 3 2 1\n");
        assert_eq!(text.parse(), Ok(plan));
    }

    #[test]
    fn wrong_plans_are_named() {
        let head = "hikyaku plan 1\nranks 4\nring-bytes 65536\n";
        for (text, error) in [
            (
                "hikyaku trace 1",
                "line 1: expected `hikyaku plan 1`: this is no plan of `hikyaku \
                plan`",
            ),
            ("hikyaku plan 1\nranks x", "line 2: expected `ranks N`, N from 1 to 1048576"),
            ("hikyaku plan 1\nranks 4\n", "line 3: expected `ring-bytes N`"),
            (
                "hikyaku plan 1\nranks 4\nring-bytes 1000",
                "line 3: a landing ring cannot have 1000 \
                bytes: a power of two from 16 KiB to 1 GiB",
            ),
            (&format!("{head}0 1"), "line 4: expected `RANK: SOURCES`"),
            (&format!("{head}4: 1"), "line 4: `4` is none of the 4 ranks"),
            (&format!("{head}0: 1 1"), "line 4: a source of rank 0 is named twice"),
            (&format!("{head}0: 1\n0: 2"), "line 5: rank 0 has a line before"),
        ] {
            assert_eq!(text.parse::<LandingPlan>().unwrap_err().to_string(), error);
        }
    }
}
