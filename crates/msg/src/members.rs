//! The ranks of a communicator that has only some ranks of the job, by their numbers in it.
//!
//! All layers below know only ranks of the job. The code that serves a program of such a
//! communicator translates: its numbers on the way down, the job's on the way up. A communicator of
//! the whole job has no such table, and pays for one well-predicted branch.

use hikyaku_nic::fabric::Rank;

use crate::envelope::Received;
use crate::error::MsgError;

/// The ranks of a communicator, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// Ranks of the job, by number.
    ranks: Vec<Rank>,
    /// Ranks of the job in ascending order, each with its number.
    numbers: Vec<(Rank, u32)>,
    /// This rank's number; one past the last number if it is not a member.
    own: u32,
    /// How many nodes the members run on.
    nodes: u32,
    /// Why the communicator cannot be used.
    broken: Option<MsgError>,
}

impl Members {
    /// A table of these ranks, which must differ and include `own`. `None` otherwise.
    pub fn new(ranks: Vec<Rank>, own: Rank, node_of: impl Fn(Rank) -> u32) -> Option<Members> {
        let mut numbers: Vec<(Rank, u32)> = ranks.iter().copied().zip(0..).collect();
        numbers.sort_unstable();
        let twice = numbers.windows(2).any(|pair| pair[0].0 == pair[1].0);
        let own = numbers.iter().find(|(rank, _)| *rank == own).filter(|_| !twice)?.1;
        let mut nodes: Vec<u32> = ranks.iter().map(|rank| node_of(*rank)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let nodes = nodes.len() as u32;
        Some(Members { ranks, numbers, own, nodes, broken: None })
    }

    /// A table of other ranks that messages go to and come from. `None` if they are none or not all
    /// different. The caller guarantees that this rank is not among them.
    pub fn of_others(ranks: Vec<Rank>, node_of: impl Fn(Rank) -> u32) -> Option<Members> {
        let first = *ranks.first()?;
        let own = ranks.len() as u32;
        Some(Members { own, ..Members::new(ranks, first, node_of)? })
    }

    /// The same ranks, not all of which know this communicator: every use of it is this error.
    #[must_use]
    pub fn broken(self, error: MsgError) -> Members {
        Members { broken: Some(error), ..self }
    }

    /// The members' ranks in the job, by number.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// This rank's number.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// How many members there are.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// How many nodes the members run on.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The rank in the job of a number.
    ///
    /// # Errors
    /// There is no such number, or the communicator is broken.
    pub fn rank(&self, number: u32) -> Result<Rank, MsgError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let rank = self.ranks.get(number as usize).copied();
        rank.ok_or(MsgError::NoSuchRank { rank: number, size: self.size() })
    }

    /// The rank in the job of a source number; `None`: any source.
    ///
    /// # Errors
    /// As [`Members::rank`].
    pub fn source(&self, number: Option<u32>) -> Result<Option<Rank>, MsgError> {
        match (number, self.broken) {
            (None, Some(error)) => Err(error),
            (number, _) => number.map(|number| self.rank(number)).transpose(),
        }
    }

    /// The number of a rank of the job, if it is a member.
    pub fn number(&self, rank: Rank) -> Option<u32> {
        let at = self.numbers.binary_search_by_key(&rank, |(rank, _)| *rank).ok()?;
        Some(self.numbers[at].1)
    }

    /// A result as the program sees it: the sender has its number in this communicator.
    pub fn told(&self, received: Received) -> Received {
        Received { source: self.number(received.source).unwrap_or(received.source), ..received }
    }

    /// An error as the program sees it. Errors of messages name numbers of this communicator. The
    /// end of a process names its rank in the job, as the launcher does.
    pub fn explained(&self, error: MsgError) -> MsgError {
        let number = |rank: Rank| self.number(rank).unwrap_or(rank);
        match error {
            MsgError::Truncated { sent, room, source_rank, tag } => {
                MsgError::Truncated { sent, room, source_rank: number(source_rank), tag }
            }
            MsgError::Abandoned { source_rank, tag } => {
                MsgError::Abandoned { source_rank: number(source_rank), tag }
            }
            MsgError::WaitsForItself { rank } => MsgError::WaitsForItself { rank: number(rank) },
            MsgError::Malformed { source_rank } => {
                MsgError::Malformed { source_rank: number(source_rank) }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_nic::fabric::Name;

    use super::*;

    fn members(ranks: &[Rank], own: Rank) -> Option<Members> {
        Members::new(ranks.to_vec(), own, |rank| rank / 4)
    }

    #[test]
    fn numbers_and_ranks_are_translated_both_ways() {
        let some = members(&[9, 2, 5], 2).unwrap();
        assert_eq!((some.own(), some.size(), some.nodes()), (1, 3, 3));
        for (number, rank) in (0..).zip([9, 2, 5]) {
            assert_eq!((some.rank(number), some.number(rank)), (Ok(rank), Some(number)));
        }
        assert_eq!(some.rank(3), Err(MsgError::NoSuchRank { rank: 3, size: 3 }));
        assert_eq!(some.number(3), None);
    }

    #[test]
    fn a_list_that_names_a_rank_twice_or_not_this_one_is_none() {
        assert!(members(&[1, 2, 1], 2).is_none());
        assert!(members(&[1, 2], 3).is_none());
        assert!(members(&[], 0).is_none());
    }

    #[test]
    fn others_have_numbers_and_this_rank_has_none() {
        let others = Members::of_others(vec![9, 2], |rank| rank / 4).unwrap();
        assert_eq!((others.rank(1), others.number(9), others.size()), (Ok(2), Some(0), 2));
        assert!(others.rank(others.own()).is_err());
        for none in [vec![], vec![3, 3]] {
            assert!(Members::of_others(none, |_| 0).is_none());
        }
    }

    #[test]
    fn errors_name_numbers_and_ends_name_ranks_of_the_job() {
        let some = members(&[9, 2, 5], 2).unwrap();
        let truncated = |source_rank| MsgError::Truncated { sent: 2, room: 1, source_rank, tag: 0 };
        assert_eq!(some.explained(truncated(9)), truncated(0));
        let left = MsgError::PeerLeft { rank: 9, host: Name::NONE };
        assert_eq!(some.explained(left), left);
        let received = Received { source: 5, tag: 1, bytes: 8 };
        assert_eq!(some.told(received).source, 2);
    }

    #[test]
    fn a_broken_communicator_answers_with_its_error() {
        let left = MsgError::PeerLeft { rank: 9, host: Name::NONE };
        let some = members(&[9, 2], 2).unwrap().broken(left);
        assert_eq!((some.rank(0), some.size()), (Err(left), 2));
    }
}
