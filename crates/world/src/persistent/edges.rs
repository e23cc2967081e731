//! The edges of an exchange as the program gives them, checked.

use std::ops::Range;

use hikyaku_coll::persistent::Scheme;
use hikyaku_rank::persistent::PersistentError;

/// One edge: the rank at the other end, and the elements of the buffer that travel on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The rank at the other end. It may be this rank.
    pub rank: u32,
    /// Elements of the outgoing buffer, for a destination, or of the incoming one, for a source.
    pub elements: Range<usize>,
}

/// A rank's edges. If several edges connect the same two ranks, the first in the one rank's list
/// is the first in the other's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Incoming edges.
    pub sources: Vec<Neighbour>,
    /// Outgoing edges.
    pub destinations: Vec<Neighbour>,
    /// The scheme of the command queues. `None`: the scheme of the world's
    /// `SessionChoices::exchange`, or of `--coll exchange=...`, if set. Otherwise neighbours on
    /// this node get a letter a round, if the letters have up to 16 KiB (1 MiB in a
    /// [`StagedExchange`](super::StagedExchange)) and these neighbours do not ask for queues
    /// either. The others get a queue each while there are enough, else one for all.
    /// [`Scheme::Combined`] is the same except for edges between ranks of two nodes that both ask
    /// for it: they share one put a round and direction, through one rank of each node. The wait of
    /// that rank lasts until the data of all of them has arrived.
    pub scheme: Option<Scheme>,
}

impl Neighbours {
    /// Edges of `elements` elements each, one after the other in both buffers.
    pub fn even(sources: &[u32], destinations: &[u32], elements: usize) -> Neighbours {
        let list = |ranks: &[u32]| {
            let edge = |(place, rank): (usize, &u32)| Neighbour {
                rank: *rank,
                elements: place * elements..(place + 1) * elements,
            };
            ranks.iter().enumerate().map(edge).collect()
        };
        Neighbours { sources: list(sources), destinations: list(destinations), scheme: None }
    }

    /// The lengths that the buffers must have: outgoing and incoming.
    pub(crate) fn needed(&self) -> (usize, usize) {
        let end = |list: &[Neighbour]| list.iter().map(|edge| edge.elements.end).max().unwrap_or(0);
        (end(&self.destinations), end(&self.sources))
    }

    /// Checks that all ranks and elements exist.
    pub(crate) fn check(
        &self,
        size: u32,
        (outgoing, incoming): (usize, usize),
    ) -> Result<(), PersistentError> {
        check_list("destination", &self.destinations, size, outgoing)?;
        check_list("source", &self.sources, size, incoming)?;
        for (first, edge) in self.sources.iter().enumerate() {
            let mut others = self.sources.iter().enumerate().skip(first + 1);
            if let Some((second, _)) = others.find(|(_, other)| meet(edge, other)) {
                return Err(PersistentError::Overlap { first, what: "source", second });
            }
        }
        Ok(())
    }

    /// Checks that no element is both sent and received, for one buffer in both roles.
    pub(crate) fn check_in_place(&self) -> Result<(), PersistentError> {
        for (first, edge) in self.sources.iter().enumerate() {
            if let Some(second) = self.destinations.iter().position(|other| meet(edge, other)) {
                return Err(PersistentError::Overlap { first, what: "destination", second });
            }
        }
        Ok(())
    }
}

fn check_list(
    what: &'static str,
    list: &[Neighbour],
    size: u32,
    length: usize,
) -> Result<(), PersistentError> {
    for (place, Neighbour { rank, elements }) in list.iter().enumerate() {
        let Range { start, end } = *elements;
        if *rank >= size {
            return Err(PersistentError::NoSuchRank { what, place, rank: *rank, size });
        }
        if start > end || end > length {
            return Err(PersistentError::Range { what, place, start, end, length });
        }
    }
    Ok(())
}

/// Whether two edges share elements.
fn meet(a: &Neighbour, b: &Neighbour) -> bool {
    a.elements.start.max(b.elements.start) < a.elements.end.min(b.elements.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(rank: u32, elements: Range<usize>) -> Neighbour {
        Neighbour { rank, elements }
    }

    #[test]
    fn edges_that_cannot_be_are_named() {
        let check = |sources: &[Neighbour], destinations: &[Neighbour]| {
            let (sources, destinations) = (sources.to_vec(), destinations.to_vec());
            Neighbours { sources, destinations, scheme: None }.check(2, (10, 10))
        };
        assert_eq!(
            check(&[edge(1, 0..5), edge(1, 5..10)], &[edge(0, 0..9), edge(0, 0..9)]),
            Ok(())
        );
        assert_eq!(
            check(&[edge(1, 3..3), edge(1, 0..10)], &[]),
            Ok(()),
            "empty ones share nothing"
        );
        let error = check(&[], &[edge(0, 0..1), edge(2, 0..1)]).unwrap_err();
        assert_eq!(
            error,
            PersistentError::NoSuchRank { what: "destination", place: 1, rank: 2, size: 2 }
        );
        let error = check(&[edge(0, 4..11)], &[]).unwrap_err();
        let (start, end, length) = (4, 11, 10);
        assert_eq!(error, PersistentError::Range { what: "source", place: 0, start, end, length });
        let error = check(&[edge(0, 0..4), edge(1, 4..6), edge(1, 5..7)], &[]).unwrap_err();
        assert_eq!(error, PersistentError::Overlap { first: 1, what: "source", second: 2 });
    }

    #[test]
    fn in_one_buffer_what_is_sent_is_not_received_into() {
        let mut neighbours = Neighbours::even(&[0, 1], &[0, 1], 4);
        let error = neighbours.check_in_place().unwrap_err();
        assert_eq!(error, PersistentError::Overlap { first: 0, what: "destination", second: 0 });
        neighbours.sources.iter_mut().for_each(|edge| edge.elements.start += 8);
        neighbours.sources.iter_mut().for_each(|edge| edge.elements.end += 8);
        assert_eq!(neighbours.check_in_place(), Ok(()));
        assert_eq!(neighbours.needed(), (8, 16));
    }
}
