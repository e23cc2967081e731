//! Operations and algorithms by name, and the tags of their messages.
//!
//! Each operation has a closed list of algorithms: an enum of [`crate::algorithms`]. A tag
//! identifies the call of a group that a message belongs to, and has a checksum over the properties
//! that all ranks must agree on: operation, algorithm, root, reduction and type. So ranks that make
//! different calls never receive each other's messages by mistake. They wait, and ask each other
//! ([`crate::questions`]).
//!
//! ```text
//!   tag:  | 0 | sequence mod 2^21 | sum, 2..=1022; 0: notice, 1: question, 1023: loss |
//!          31  30              10   9                                                0
//! ```
//!
//! The sequence wraps around after 2 million operations of a group. By then no message of the first
//! one is left: each was received, or dropped if it failed.

use crate::algorithms::{
    allgather, allreduce, alltoall, alltoallw, barrier, broadcast, gather, reduce, reduce_scatter,
    scan, scatter,
};

/// Bits of the checksum in a tag.
const SUM_BITS: u32 = 10;

/// Checksums are modulo this prime, so that two calls that differ in one property have different
/// ones.
const SUMS: u32 = 1021;

/// A collective operation. Variants with a count per rank (MPI's `v`) are the same operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Wait for all.
    Barrier,
    /// One to all, the same.
    Broadcast,
    /// All combined, at one.
    Reduce,
    /// All combined, at all.
    Allreduce,
    /// All to one, side by side.
    Gather,
    /// One to all, a part each.
    Scatter,
    /// All to all, the same.
    Allgather,
    /// All to all, a part each.
    Alltoall,
    /// All to all, a part each that lies anywhere.
    Alltoallw,
    /// All combined, a part at each.
    ReduceScatter,
    /// All up to this rank combined.
    Scan,
    /// All before this rank combined.
    Exscan,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 12] = [
        Operation::Barrier,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::Gather,
        Operation::Scatter,
        Operation::Allgather,
        Operation::Alltoall,
        Operation::Alltoallw,
        Operation::ReduceScatter,
        Operation::Scan,
        Operation::Exscan,
    ];

    /// Its name in messages, options and (in capitals) environment variables.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "barrier",
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::Allreduce => "allreduce",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::Allgather => "allgather",
            Operation::Alltoall => "alltoall",
            Operation::Alltoallw => "alltoallw",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Scan => "scan",
            Operation::Exscan => "exscan",
        }
    }

    /// Whether a rank that contributes to it by lines reads no other line and returns: the root of
    /// a broadcast or scatter, all other ranks in a gather or reduction.
    pub(crate) const fn runs_ahead(self) -> bool {
        matches!(
            self,
            Operation::Broadcast | Operation::Scatter | Operation::Gather | Operation::Reduce
        )
    }

    /// The operation with this name.
    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// The names of its algorithms, the most general first.
    pub fn algorithms(self) -> &'static [&'static str] {
        match self {
            Operation::Barrier => barrier::Algorithm::NAMES,
            Operation::Broadcast => broadcast::Algorithm::NAMES,
            Operation::Reduce => reduce::Algorithm::NAMES,
            Operation::Allreduce => allreduce::Algorithm::NAMES,
            Operation::Gather => gather::Algorithm::NAMES,
            Operation::Scatter => scatter::Algorithm::NAMES,
            Operation::Allgather => allgather::Algorithm::NAMES,
            Operation::Alltoall => alltoall::Algorithm::NAMES,
            Operation::Alltoallw => alltoallw::Algorithm::NAMES,
            Operation::ReduceScatter => reduce_scatter::Algorithm::NAMES,
            Operation::Scan | Operation::Exscan => scan::Algorithm::NAMES,
        }
    }
}

/// An algorithm of an operation, with its name and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) operation: Operation,
    /// Its index in [`Operation::algorithms`].
    pub(crate) index: usize,
}

impl Named {
    pub(crate) fn algorithm(self) -> &'static str {
        self.operation.algorithms()[self.index]
    }

    /// The tag of the operation's messages, for the operation with number `sequence`. `others`: a
    /// number made of the other properties that ranks must agree on.
    pub(crate) fn tag(self, sequence: u32, others: u32) -> i32 {
        let algorithm = self.operation as u32 * MOST_ALGORITHMS + self.index as u32;
        notice_tag_of(sequence) | (2 + (algorithm + others % SUMS) % SUMS) as i32
    }
}

/// The maximum number of algorithms of an operation.
const MOST_ALGORITHMS: u32 = 16;

const SEQUENCE_MASK: u32 = u32::MAX >> (SUM_BITS + 1);
const SUM_MASK: i32 = (1 << SUM_BITS) - 1;

/// The tag of notices about the operation with number `sequence`.
pub(crate) fn notice_tag_of(sequence: u32) -> i32 {
    ((sequence & SEQUENCE_MASK) << SUM_BITS) as i32
}

/// The low bits of the number of the operation that a tag belongs to.
pub(crate) fn sequence_of(tag: i32) -> u32 {
    (tag >> SUM_BITS) as u32
}

/// The tag of questions about the operation with number `sequence`.
pub(crate) fn question_tag_of(sequence: u32) -> i32 {
    notice_tag_of(sequence) | 1
}

/// Whether a tag is for questions.
pub(crate) fn is_question(tag: i32) -> bool {
    tag & SUM_MASK == 1
}

/// The tag of reports that lines are lost, for any call.
pub(crate) const LOSS_TAG: i32 = SUM_MASK;

/// Whether a tag belongs to an operation that has not started here, where `started` have: one in
/// the half of the sequence that lies ahead.
pub(crate) fn is_to_come(tag: i32, started: u32) -> bool {
    let ahead = sequence_of(tag).wrapping_sub(started) & SEQUENCE_MASK;
    ahead <= SEQUENCE_MASK / 2
}

/// Whether a tag belongs to one of `count` calls from number `first` on.
pub(crate) fn is_among(tag: i32, first: u32, count: u32) -> bool {
    sequence_of(tag).wrapping_sub(first) & SEQUENCE_MASK < count
}

/// Whether a tag belongs to the call with this number. For implementations of
/// [`crate::Group::notice`].
pub fn is_of_call(tag: i32, number: u32) -> bool {
    tag & !SUM_MASK == notice_tag_of(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_name_and_a_tag_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for operation in Operation::ALL {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert!(operation.algorithms().len() <= MOST_ALGORITHMS as usize);
            for index in 0..operation.algorithms().len() {
                let named = Named { operation, index };
                let tag = named.tag(u32::MAX, 0);
                assert!(tag > 0 && seen.insert(tag));
                assert!(is_of_call(tag, u32::MAX) && !is_of_call(tag, 0));
                assert_eq!(named.tag(1 << 21, 5), named.tag(0, 5), "the sequence wraps");
                for started in [0, 7, u32::MAX] {
                    assert!(is_to_come(named.tag(started, 0), started));
                    assert!(is_to_come(named.tag(started.wrapping_add(9), 0), started));
                    assert!(!is_to_come(named.tag(started.wrapping_sub(1), 0), started));
                }
            }
        }
    }

    #[test]
    fn no_sum_is_a_notice_a_question_or_a_loss() {
        let named = Named { operation: Operation::Exscan, index: 3 };
        for others in 0..3 * SUMS {
            let tag = named.tag(9, others);
            assert!(![notice_tag_of(9), question_tag_of(9)].contains(&tag));
            assert!(tag & SUM_MASK != LOSS_TAG && !is_question(tag) && is_of_call(tag, 9));
            assert_ne!(tag, named.tag(9, others + 1));
        }
        assert!(is_question(question_tag_of(9)) && is_of_call(question_tag_of(9), 9));
    }
}
