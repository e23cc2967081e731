//! IS: integer sort by counting. The timed part calls collectives only (`MPI_Alltoall`,
//! `MPI_Reduce`), and who talks to whom within those is the library's choice; the paper says so
//! and does not count them. The program's one point-to-point message, in its verification, sends
//! the largest key to the next rank: the one partner that table 1 prints.

use super::{Message, RANKS};

/// One key.
const KEY_BYTES: u64 = 4;

/// The point-to-point messages.
pub(super) fn trace() -> Vec<Message> {
    let next = |source| Message { source, destination: source + 1, bytes: KEY_BYTES };
    (0..RANKS - 1).map(next).collect()
}

/// The same with the all-to-all done by a message between each pair: every rank is a partner.
#[cfg(test)]
fn pairwise() -> Vec<Message> {
    let bytes = KEY_BYTES << 11;
    let to = |source| {
        (0..RANKS).filter(move |&d| d != source).map(move |destination| Message {
            source,
            destination,
            bytes,
        })
    };
    (0..RANKS).flat_map(to).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;

    #[test]
    fn an_all_to_all_by_pairs_makes_everyone_a_partner() {
        assert!(sources(&pairwise()).iter().all(|&count| count == RANKS - 1));
    }
}
