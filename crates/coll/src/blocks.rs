//! How an array is cut into one block for each rank.

use std::iter::once;
use std::ops::{Deref, Range};

/// The places of blocks in an array in which they lie one after the other, in rank order.
#[derive(Debug, Clone)]
pub(crate) enum BlockPlaces {
    /// All of the same length.
    Equal { length: usize },
    /// A number of elements of `width` bytes, spread as evenly as can be, the first blocks longer.
    Even { elements: usize, width: usize, count: usize },
    /// Block `i` is from offset `i` to offset `i + 1`.
    Given { offsets: Offsets },
}

impl BlockPlaces {
    /// An array of `bytes` bytes, cut between elements of `width`.
    pub(crate) fn even(bytes: usize, width: usize, count: u32) -> BlockPlaces {
        BlockPlaces::Even {
            elements: bytes / width.max(1),
            width: width.max(1),
            count: count as usize,
        }
    }

    /// Blocks of these lengths.
    #[inline]
    pub(crate) fn of_lengths(lengths: impl ExactSizeIterator<Item = usize>) -> BlockPlaces {
        let (count, mut end) = (lengths.len(), 0);
        let ends = lengths.map(|length| {
            end += length;
            end
        });
        BlockPlaces::Given { offsets: Offsets::new(count, once(0).chain(ends)) }
    }

    /// How many blocks there are, if that was given.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            BlockPlaces::Given { offsets } => Some(offsets.len() - 1),
            BlockPlaces::Equal { .. } | BlockPlaces::Even { .. } => None,
        }
    }

    /// Where block `index` starts, and the one before it ends.
    #[inline]
    pub(crate) fn offset(&self, index: u32) -> usize {
        let index = index as usize;
        match self {
            BlockPlaces::Equal { length } => index * length,
            BlockPlaces::Even { elements, width, count } => {
                (index * (elements / count) + index.min(elements % count)) * width
            }
            BlockPlaces::Given { offsets } => offsets[index],
        }
    }

    /// Where a block lies.
    #[inline]
    pub(crate) fn range(&self, index: u32) -> Range<usize> {
        self.span(index..index + 1)
    }

    /// Where several blocks in a row lie.
    #[inline]
    pub(crate) fn span(&self, blocks: Range<u32>) -> Range<usize> {
        self.offset(blocks.start)..self.offset(blocks.end)
    }

    /// Length of a block.
    pub(crate) fn length(&self, index: u32) -> usize {
        self.range(index).len()
    }

    /// Length of the longest block.
    pub(crate) fn longest(&self) -> usize {
        match self {
            BlockPlaces::Equal { length } => *length,
            BlockPlaces::Even { .. } => self.length(0),
            BlockPlaces::Given { offsets } => {
                offsets.windows(2).map(|block| block[1] - block[0]).max().unwrap_or(0)
            }
        }
    }

    /// Length of `count` blocks from `first` on, counting on from 0 after block `size - 1`.
    pub(crate) fn run(&self, first: u32, count: u32, size: u32) -> usize {
        let straight = count.min(size - first);
        self.span(first..first + straight).len() + self.span(0..count - straight).len()
    }
}

/// Blocks whose offsets take no memory of their own: a call by lines lasts as long as to allocate
/// some.
const FEW: usize = 8;

/// Where blocks start, and where the last one ends.
#[derive(Debug, Clone)]
pub(crate) enum Offsets {
    Few([usize; FEW + 1], usize),
    Many(Vec<usize>),
}

impl Offsets {
    #[inline]
    fn new(count: usize, offsets: impl Iterator<Item = usize>) -> Offsets {
        if count > FEW {
            return Offsets::Many(offsets.collect());
        }
        let mut few = [0; FEW + 1];
        few.iter_mut().zip(offsets).for_each(|(at, offset)| *at = offset);
        Offsets::Few(few, count + 1)
    }
}

impl Deref for Offsets {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        match self {
            Offsets::Few(few, count) => &few[..*count],
            Offsets::Many(many) => many,
        }
    }
}

/// Two parts of an array that do not overlap, the first to be read and the second to be written.
pub(crate) fn disjoint<B>(
    array: &mut [B],
    read: Range<usize>,
    write: Range<usize>,
) -> (&[B], &mut [B]) {
    if read.end <= write.start {
        let (front, back) = array.split_at_mut(write.start);
        (&front[read], &mut back[..write.len()])
    } else {
        let (front, back) = array.split_at_mut(read.start);
        (&back[..read.len()], &mut front[write])
    }
}

/// An array of `count` blocks of `length` bytes as those blocks; there may be no bytes at all.
pub(crate) fn split_mut<B>(mut array: &mut [B], length: usize, count: u32) -> Vec<&mut [B]> {
    let mut block = || {
        let (block, rest) = std::mem::take(&mut array).split_at_mut(length);
        array = rest;
        block
    };
    (0..count).map(|_| block()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_blocks_cover_the_array_between_elements() {
        for (elements, count) in [(0, 3), (2, 3), (3, 3), (10, 3), (7, 1), (5, 8)] {
            let blocks = BlockPlaces::even(elements * 8, 8, count);
            let lengths: Vec<usize> = (0..count).map(|index| blocks.length(index) / 8).collect();
            assert_eq!(lengths.iter().sum::<usize>(), elements);
            assert!(
                lengths.is_sorted_by(|a, b| a >= b) && lengths[0] - lengths[lengths.len() - 1] <= 1
            );
            assert_eq!(blocks.offset(count), elements * 8);
            assert_eq!(blocks.longest(), lengths[0] * 8);
        }
    }

    #[test]
    fn given_blocks_lie_one_after_the_other_and_run_around_the_end() {
        let blocks = BlockPlaces::of_lengths([3, 0, 5].into_iter());
        assert_eq!([0, 1, 2].map(|index| blocks.range(index)), [0..3, 3..3, 3..8]);
        assert_eq!(blocks.longest(), 5);
        assert_eq!((blocks.run(2, 2, 3), blocks.run(1, 3, 3), blocks.run(0, 0, 3)), (8, 8, 0));
    }

    #[test]
    fn disjoint_parts_may_lie_in_either_order_and_be_empty() {
        let mut array = [1, 2, 3, 4];
        for (read, write) in [(0..2, 3..4), (3..4, 0..2), (1..1, 1..3), (3..3, 1..3), (1..3, 3..3)]
        {
            let (from, to) = disjoint(&mut array, read.clone(), write.clone());
            assert_eq!((from.len(), to.len()), (read.len(), write.len()));
        }
        let (from, to) = disjoint(&mut array, 3..4, 0..1);
        to.copy_from_slice(from);
        assert_eq!(array, [4, 2, 3, 4]);
    }
}
