//! The assignment of a rank's edges to queues.
//!
//! FAST while there is a queue for each pair of edges, MRC when queues run out (TF-19), and several
//! MRC queues where one is too short. The ranks need not choose alike: the sender learns with the
//! addresses how many slots its RTR must release.

use std::ops::Range;
use std::str::FromStr;

use hikyaku_nic::fabric::Rank;
use thiserror::Error;

use super::program::QueueProgram;

/// How queues serve edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// A queue per neighbour, paper 002's PRDMA-SMCQ-FAST.
    Fast,
    /// One queue for all, paper 002's PRDMA-SMCQ-MRC.
    Mrc,
    /// The data of a node's ranks for another node is one put a round
    /// ([`combine`](super::combine)). All other edges are served as if no scheme had been chosen.
    Combined,
    /// No queue serves any edge: if one rank chooses this, the whole exchange uses messages.
    Messages,
}

/// A name that is not a [`Scheme`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no scheme of exchanges: there are fast, mrc, combined and messages")]
pub struct UnknownScheme {
    given: String,
}

impl Scheme {
    /// All schemes, with the names that choose them.
    pub const NAMES: [(&'static str, Scheme); 4] = [
        ("fast", Scheme::Fast),
        ("mrc", Scheme::Mrc),
        ("combined", Scheme::Combined),
        ("messages", Scheme::Messages),
    ];
}

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(given: &str) -> Result<Scheme, UnknownScheme> {
        let found = Scheme::NAMES.into_iter().find(|(name, _)| *name == given);
        found.map(|(_, scheme)| scheme).ok_or_else(|| UnknownScheme { given: given.to_owned() })
    }
}

/// The destination of an outgoing edge, and the number of puts of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Destination {
    /// The rank at the other end.
    pub(super) rank: Rank,
    /// At least one.
    pub(super) puts: usize,
}

/// The queues that are available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// The number of available queues.
    pub queues: u32,
    /// The number of slots of each.
    pub slots: u32,
}

/// The edges do not fit the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{incoming} incoming and {outgoing} outgoing edges do not fit the {queues} command queues of \
     {slots} slots that this rank has left: free another exchange, or have fewer edges"
)]
pub struct PlanError {
    /// Edges that end here.
    pub incoming: usize,
    /// Edges that begin here.
    pub outgoing: usize,
    /// The number of available queues.
    pub queues: u32,
    /// Slots of each.
    pub slots: u32,
}

/// Programs that together serve edges from `sources` and to `destinations`, each edge once. Puts
/// are numbered through all destinations. Without a `wish`, or where it cannot be met,
/// [`Scheme::Fast`] if there are enough queues, else [`Scheme::Mrc`].
///
/// # Errors
/// Not even MRC fits.
pub(super) fn plan(
    sources: &[Rank],
    destinations: &[Destination],
    limits: QueueLimits,
    wish: Option<Scheme>,
) -> Result<Vec<QueueProgram>, PlanError> {
    let QueueLimits { queues, slots } = limits;
    let mut end = 0;
    let puts = destinations.iter().map(|to| {
        end += to.puts;
        end - to.puts..end
    });
    let puts: Vec<Range<usize>> = puts.collect();
    let fits =
        |programs: &Vec<QueueProgram>| programs.iter().all(|p| p.steps.len() <= slots as usize);
    let pairs = pairs(sources, destinations);
    if pairs.len() <= queues as usize && wish != Some(Scheme::Mrc) {
        let fast = |(from, to): (_, Option<usize>)| {
            QueueProgram::fast(from, to.map(|edge| puts[edge].clone()))
        };
        let programs = pairs.into_iter().map(fast).collect();
        if fits(&programs) {
            return Ok(programs);
        }
    }
    let (incoming, outgoing) = (sources.len(), destinations.len());
    let groups = (1..=queues as usize).map(|count| groups(incoming, &puts, count));
    groups.into_iter().find(fits).ok_or(PlanError { incoming, outgoing, queues, slots })
}

/// Pairs each incoming edge with an outgoing edge to the same rank, if one is left; then pairs the
/// remaining edges with each other.
///
/// Any pairing would be correct. A pair of one neighbour touches only its queue and ours.
fn pairs(sources: &[Rank], destinations: &[Destination]) -> Vec<(Option<usize>, Option<usize>)> {
    let mut free: Vec<usize> = (0..destinations.len()).collect();
    let mut take = |rank: &Rank| {
        let at = free.iter().position(|edge| destinations[*edge].rank == *rank)?;
        Some(free.remove(at))
    };
    let mut pairs: Vec<_> =
        sources.iter().enumerate().map(|(edge, rank)| (Some(edge), take(rank))).collect();
    let mut free = free.into_iter();
    for pair in pairs.iter_mut().filter(|(_, outgoing)| outgoing.is_none()) {
        pair.1 = free.next();
    }
    pairs.extend(free.map(|edge| (None, Some(edge))));
    pairs
}

/// Spreads the edges evenly over `count` MRC queues; fewer if there are fewer edges.
fn groups(incoming: usize, outgoing: &[Range<usize>], count: usize) -> Vec<QueueProgram> {
    let part = |total: usize, group: usize| total * group / count..total * (group + 1) / count;
    let programs = (0..count).map(|group| {
        let incoming: Vec<usize> = part(incoming, group).collect();
        (incoming, &outgoing[part(outgoing.len(), group)])
    });
    let used = programs.filter(|(incoming, outgoing)| !incoming.is_empty() || !outgoing.is_empty());
    used.map(|(incoming, outgoing)| QueueProgram::mrc(&incoming, outgoing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistent::QueueStep;

    const MANY: QueueLimits = QueueLimits { queues: 16, slots: 64 };

    /// A plan for edges of one put each.
    fn plan(
        sources: &[Rank],
        destinations: &[Rank],
        limits: QueueLimits,
        wish: Option<Scheme>,
    ) -> Result<Vec<QueueProgram>, PlanError> {
        let to = |rank: &Rank| Destination { rank: *rank, puts: 1 };
        let destinations: Vec<Destination> = destinations.iter().map(to).collect();
        super::plan(sources, &destinations, limits, wish)
    }

    fn fast(incoming: Option<usize>, outgoing: Option<usize>) -> QueueProgram {
        QueueProgram::fast(incoming, outgoing.map(|put| put..put + 1))
    }

    #[test]
    fn schemes_have_names_and_others_are_answered_with_them() {
        for (name, scheme) in Scheme::NAMES {
            assert_eq!(name.parse(), Ok(scheme));
        }
        let line = "Fast".parse::<Scheme>().unwrap_err().to_string();
        assert!(line.starts_with("`Fast` is no scheme"), "{line}");
        assert!(Scheme::NAMES.iter().all(|(name, _)| line.contains(name)), "{line}");
    }

    #[test]
    fn fast_pairs_the_edges_of_a_neighbour() {
        let programs = plan(&[1, 2, 2], &[2, 3, 1], MANY, None).unwrap();
        let expected = [(Some(0), Some(2)), (Some(1), Some(0)), (Some(2), Some(1))];
        let expected: Vec<_> = expected.map(|(from, to)| fast(from, to)).into();
        assert_eq!(programs, expected);
        let programs = plan(&[], &[5, 5], MANY, None).unwrap();
        assert_eq!(programs, [fast(None, Some(0)), fast(None, Some(1))]);
        assert_eq!(plan(&[], &[], MANY, None), Ok(vec![]));
        let none = QueueLimits { queues: 0, slots: 0 };
        assert_eq!(plan(&[], &[], none, None), Ok(vec![]));
    }

    #[test]
    fn tf_19_fast_falls_back_to_mrc_when_queues_run_out() {
        let (sources, destinations) = ([1, 2, 3], [1, 2, 3]);
        let limits = QueueLimits { queues: 2, slots: 64 };
        let mrc = vec![QueueProgram::mrc(&[0, 1, 2], &[0..1, 1..2, 2..3])];
        for wish in [None, Some(Scheme::Fast), Some(Scheme::Mrc)] {
            assert_eq!(plan(&sources, &destinations, limits, wish), Ok(mrc.clone()));
        }
        assert_eq!(plan(&sources, &destinations, MANY, Some(Scheme::Mrc)), Ok(mrc));
        assert_eq!(plan(&sources, &destinations, MANY, None).map(|p| p.len()), Ok(3));
    }

    #[test]
    fn what_is_too_long_for_one_queue_is_split_and_every_edge_is_served_once() {
        let ranks: Vec<Rank> = (0..40).collect();
        let limits = QueueLimits { queues: 5, slots: 64 };
        let programs = plan(&ranks, &ranks[..33], limits, None).unwrap();
        assert!(programs.len() <= 5 && programs.iter().all(|p| p.steps.len() <= 64));
        let steps: Vec<QueueStep> = programs.into_iter().flat_map(|p| p.steps).collect();
        for edge in 0..40 {
            assert_eq!(steps.iter().filter(|step| **step == QueueStep::Ready(edge)).count(), 1);
            let data = steps.iter().filter(|step| **step == QueueStep::Data(edge)).count();
            assert_eq!(data, usize::from(edge < 33));
        }
        let error = plan(&ranks, &ranks, QueueLimits { queues: 1, slots: 64 }, None).unwrap_err();
        assert!(error.to_string().contains("1 command queues of 64 slots"), "{error}");
        assert!(plan(&[1], &[], QueueLimits { queues: 0, slots: 64 }, None).is_err());
        assert!(plan(&[1], &[1], QueueLimits { queues: 9, slots: 0 }, None).is_err());
    }

    #[test]
    fn puts_are_numbered_through_all_destinations() {
        let to = [(4, 2), (5, 3)].map(|(rank, puts)| Destination { rank, puts });
        let programs = super::plan(&[5], &to, MANY, None).unwrap();
        let expected =
            [QueueProgram::fast(Some(0), Some(2..5)), QueueProgram::fast(None, Some(0..2))];
        assert!(expected.iter().all(|program| programs.contains(program)), "{programs:?}");
        let one = QueueLimits { queues: 1, slots: 9 };
        assert_eq!(
            super::plan(&[5], &to, one, None),
            Ok(vec![QueueProgram::mrc(&[0], &[0..2, 2..5])])
        );
        assert!(super::plan(&[5], &to, QueueLimits { slots: 7, ..one }, None).is_err());
    }
}
