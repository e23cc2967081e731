//! Operations and algorithms by name, and their numbers in tags.
//!
//! Each operation has a closed list of algorithms: an enum made by [`algorithms!`]. Every algorithm
//! of every operation has a number of its own, which is part of the tag of its messages, so that
//! ranks that run different ones never take each other's messages for their own.
//!
//! ```text
//!   tag:  | 0 | sequence mod 2^25 | algorithm, 1..=63; 0 is a notice |
//!          31  30               6   5                               0
//! ```
//!
//! The sequence comes round after 33 million operations of a group. By then nothing is left of the
//! first: what it sent was received, or dropped if it failed.

use crate::signature::Signature;
use crate::{allgather, allreduce, alltoall, alltoallw, barrier, broadcast};
use crate::{gather, reduce, reduce_scatter, scan, scatter};

/// Bits of a tag that hold the number of the algorithm.
const NUMBER_BITS: u32 = 6;

/// A collective operation. Variants with counts of their own per rank (MPI's `v`) are the same
/// operation.
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

    /// The operation of a name.
    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Names of its algorithms, the first being the one for everything.
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

/// An algorithm of an operation, as it is named and numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) operation: Operation,
    /// Its place in [`Operation::algorithms`].
    pub(crate) index: usize,
}

impl Named {
    pub(crate) fn algorithm(self) -> &'static str {
        self.operation.algorithms()[self.index]
    }

    fn number(self) -> i32 {
        let before = Operation::ALL.into_iter().take_while(|other| *other != self.operation);
        let before: usize = before.map(|other| other.algorithms().len()).sum();
        (1 + before + self.index) as i32
    }

    /// The tag of the messages of the operation that was started as number `sequence`.
    pub(crate) fn tag(self, sequence: u32) -> i32 {
        Named::notice_tag_of(sequence) | self.number()
    }

    /// The tag of notices about the operation that was started as number `sequence`.
    pub(crate) fn notice_tag_of(sequence: u32) -> i32 {
        ((sequence & SEQUENCE_MASK) << NUMBER_BITS) as i32
    }

    /// What a tag was made for.
    pub(crate) fn of_tag(tag: i32) -> Option<Named> {
        let mut index = ((tag & NUMBER_MASK) as usize).checked_sub(1)?;
        for operation in Operation::ALL {
            let count = operation.algorithms().len();
            if index < count {
                return Some(Named { operation, index });
            }
            index -= count;
        }
        None
    }
}

/// Whether a tag is of an operation that is still to come here, where `started` have started: one
/// of the half of the sequence that lies ahead.
pub(crate) fn is_to_come(tag: i32, started: u32) -> bool {
    let ahead = ((tag >> NUMBER_BITS) as u32).wrapping_sub(started) & SEQUENCE_MASK;
    ahead <= SEQUENCE_MASK / 2
}

const SEQUENCE_MASK: u32 = u32::MAX >> (NUMBER_BITS + 1);
const NUMBER_MASK: i32 = (1 << NUMBER_BITS) - 1;

/// The tag of what ranks tell each other of the end of lines, whatever the call.
pub(crate) const LOSS_TAG: i32 = NUMBER_MASK;

/// Whether a tag was made for the call of this number. For those who implement
/// [`crate::Group::notice`].
pub fn is_of_call(tag: i32, number: u32) -> bool {
    tag & !NUMBER_MASK == Named::notice_tag_of(number)
}

/// Whether messages with these tags cannot be of one call that ranks make alike, although they are
/// of the same number. By lines and by messages: a rank may have lost the lines.
pub fn contradict(tag: i32, other: i32) -> bool {
    let (Some(one), Some(two)) = (Named::of_tag(tag), Named::of_tag(other)) else { return false };
    let by_lines = one.algorithm() == LINES || two.algorithm() == LINES;
    one.operation != two.operation || (one.index != two.index && !by_lines)
}

/// The algorithm that another one may replace during the call.
const LINES: &str = "lines";

/// What was called with messages of this tag, as far as the tag says.
pub fn called(tag: i32) -> Option<Signature> {
    Named::of_tag(tag).map(|named| Signature::new(named.operation))
}

/// Declares the algorithms of an operation.
macro_rules! algorithms {
    ($about:literal $($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        #[doc = $about]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Algorithm { $($(#[$doc])* $variant,)+ }

        impl Algorithm {
            /// All algorithms of the operation.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant),+];

            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Its name in messages and options.
            pub const fn name(self) -> &'static str {
                Algorithm::NAMES[self as usize]
            }

            /// The algorithm of a name.
            pub fn from_name(name: &str) -> Option<Algorithm> {
                Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
            }
        }
    };
}

pub(crate) use algorithms;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_name_and_a_tag_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for operation in Operation::ALL {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            for index in 0..operation.algorithms().len() {
                let named = Named { operation, index };
                let tag = named.tag(u32::MAX);
                assert!(tag > 0 && seen.insert(tag));
                assert_eq!(Named::of_tag(tag), Some(named));
                assert!(is_of_call(tag, u32::MAX) && !is_of_call(tag, 0));
                assert_eq!(called(tag).map(|call| call.operation()), Some(operation));
                assert_eq!(named.tag(1 << 25), named.tag(0), "the sequence wraps");
                for started in [0, 7, u32::MAX] {
                    assert!(is_to_come(named.tag(started), started));
                    assert!(is_to_come(named.tag(started.wrapping_add(9)), started));
                    assert!(!is_to_come(named.tag(started.wrapping_sub(1)), started));
                }
            }
        }
        assert!(seen.len() < NUMBER_MASK as usize);
        assert_eq!(Named::of_tag(0), None);
        assert_eq!(Named::of_tag(NUMBER_MASK), None);
    }
}
