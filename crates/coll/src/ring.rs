//! Reduction round a ring, piece by piece: while one piece is combined, the next is in flight.
//!
//! ```text
//!   pieces of blocks, of 2 to a block:   step 0: 0 1   step 1: 0 1
//!   exchanged                 0.0   0.1   1.0   1.1
//!   combined                        0.0   0.1   1.0   1.1
//! ```
//!
//! Piece p of step s is sent on in step s + 1, so two pieces per block keep the network and the
//! processor busy at the same time. A piece is combined while it is in the caches, and received
//! data needs room for two pieces only.

use std::ops::Range;

use hikyaku_msg::join;

use crate::blocks::{BlockPlaces, disjoint};
use crate::call::Team;
use crate::combine::{Combine, Reduction};
use crate::error::Failure;
use crate::group::Group;
use crate::part::{Data, Part, Place};
use crate::rounds::starts;
use crate::scratch::Scratch;

/// Bytes of one exchange: short for the caches and for the socket buffers, long compared with the
/// start-up cost. Between two hosts an exchange of 256 KiB takes 83 us and one of 512 KiB in two
/// pieces at once 160 or 330.
const PIECE: usize = 256 << 10;

/// The maximum number of pieces per block. Pieces of a long block are longer.
const MOST_PIECES: usize = 16;

/// The division of blocks into pieces.
struct Pieces<'b> {
    blocks: &'b BlockPlaces,
    length: usize,
    /// The length of the longest block, and its number of pieces.
    longest: usize,
    count: usize,
    /// Whether a shorter piece, which may be empty, ends each block. Ranks that disagree on the
    /// lengths of blocks, which the program gives to each of them, then receive a piece of a wrong
    /// length.
    is_ended: bool,
}

impl Pieces<'_> {
    fn new(blocks: &BlockPlaces, size: u32, width: usize) -> Pieces<'_> {
        let longest = (0..size).map(|rank| blocks.length(rank)).max().unwrap_or(0);
        let length = PIECE.max(longest.div_ceil(MOST_PIECES)).next_multiple_of(width);
        let is_ended = blocks.count().is_some();
        let count = (longest + usize::from(is_ended)).div_ceil(length).max(1);
        Pieces { blocks, length, longest, count, is_ended }
    }

    /// The range of a piece of a block. `None`: the block has no such piece.
    fn range(&self, block: u32, piece: usize) -> Option<Range<usize>> {
        let (all, from) = (self.blocks.range(block), piece * self.length);
        let is_there = piece == 0 || from < all.len() || self.is_ended && from == all.len();
        is_there.then(|| all.start + from..all.end.min(all.start + from + self.length))
    }
}

/// Combines one block at each rank: the block of the rank `ahead` further on.
///
/// In step s a rank sends the block of the rank s before that one, and combines what it receives
/// for the one before. A block is combined along one way round, so every receiver gets the same
/// bits; but each block starts at a different rank, so the reduction must be commutative.
pub(crate) async fn reduce_round<G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut D,
    blocks: &BlockPlaces,
    ahead: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let size = team.size();
    let pieces = Pieces::new(blocks, size, reduction.width);
    let (next, previous) = (team.after(1), team.before(1));
    // The block that is sent in a step. It is received in the step before.
    let block = |step: usize| team.after((size - step as u32 % size + ahead - 1) % size);
    let units = (size as usize - 1) * pieces.count;
    let overlaps = pieces.count > 1 && data.whole().is_some();
    let room = pieces.length.min(pieces.longest);
    let mut rooms = [Scratch::new(room), Scratch::new(if overlaps { room } else { 0 })];
    // The place of the last received piece.
    let mut last = 0..0;
    for unit in 0..=units {
        let [first, second] = &mut rooms;
        let is_second = overlaps && unit % 2 == 1;
        let (comes, came) = if is_second { (second, first) } else { (first, second) };
        // The received piece may be the next to send, or nothing is sent meanwhile.
        if unit == units || !overlaps {
            let left = if overlaps { &mut *came } else { &mut *comes };
            let at = std::mem::take(&mut last);
            combine_into(data, at.start, &left.bytes()[..at.len()], reduction);
        }
        if unit == units {
            break;
        }
        let (step, piece) = (unit / pieces.count, unit % pieces.count);
        let (goes, into) = (pieces.range(block(step), piece), pieces.range(block(step + 1), piece));
        let range = goes.clone().unwrap_or_default();
        let (part, right) = match data.whole_mut() {
            Some(whole) => {
                let (part, right) = disjoint(whole, range, last);
                (Part::Whole(part), right)
            }
            None => (data.part(range), &mut [][..]),
        };
        let place = into.as_ref().map(|into| Place::Whole(&mut comes.bytes()[..into.len()]));
        let exchange = team.exchange_some(goes.map(|_| part), next, place, previous);
        let combine = async {
            if !right.is_empty() {
                (reduction.combine)(&came.bytes()[..right.len()], right);
            }
        };
        let (exchanged, ()) = join(exchange, combine).await;
        exchanged?;
        last = into.unwrap_or_default();
    }
    Ok(())
}

/// Combines `left` with the data from `at` on.
fn combine_into<B, D: Data<B> + ?Sized, F: Combine<B>>(
    data: &mut D,
    at: usize,
    left: &[B],
    reduction: &mut Reduction<F>,
) {
    let (width, mut packet) = (reduction.width, Vec::new());
    let piece = (data.at_a_time() / width * width).max(width);
    for from in starts(left.len(), piece) {
        let to = left.len().min(from.saturating_add(piece));
        let right = data.change(at + from..at + to, &mut packet);
        (reduction.combine)(&left[from..to], right);
        data.settle(at + from, &packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_each_block_once_and_a_given_one_ends_short() {
        let even = BlockPlaces::even(3 * PIECE + 16, 8, 2);
        let lengths = [0, 5, PIECE, PIECE + 1, 40 * PIECE];
        let given = BlockPlaces::of_lengths(lengths.iter().copied());
        for (blocks, size) in [(even, 2), (given, 5)] {
            let pieces = Pieces::new(&blocks, size, 8);
            assert!(pieces.length.is_multiple_of(8) && pieces.count <= MOST_PIECES + 1);
            for block in 0..size {
                let all: Vec<_> =
                    (0..pieces.count).map_while(|piece| pieces.range(block, piece)).collect();
                let joined = all.iter().try_fold(blocks.offset(block), |end, piece| {
                    (piece.start == end).then_some(piece.end)
                });
                assert_eq!(joined, Some(blocks.offset(block + 1)), "{all:?}");
                assert!(pieces.range(block, pieces.count).is_none());
                let last = all.last().map_or(0, |piece| piece.len());
                assert!(!pieces.is_ended || last < pieces.length, "{all:?}");
            }
        }
    }
}
