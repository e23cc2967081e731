//! The division of an array into one block for each rank.

use std::iter::once;
use std::ops::{Deref, Range};

/// The places of contiguous blocks in an array, in rank order.
#[derive(Debug, Clone)]
pub(crate) enum BlockPlaces {
    /// All of the same length.
    Equal { length: usize },
    /// A number of elements of `width` bytes, spread as evenly as possible, the first blocks
    /// longer.
    Even { elements: usize, width: usize, count: usize },
    /// Block `i` is from offset `i` to offset `i + 1`.
    Given { offsets: Offsets },
}

impl BlockPlaces {
    /// An array of `bytes` bytes, divided between elements of `width`.
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

    /// The number of blocks, if their lengths were given.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            BlockPlaces::Given { offsets } => Some(offsets.len() - 1),
            BlockPlaces::Equal { .. } | BlockPlaces::Even { .. } => None,
        }
    }

    /// The offset where block `index` starts and the previous one ends.
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

    /// The range of a block.
    #[inline]
    pub(crate) fn range(&self, index: u32) -> Range<usize> {
        self.span(index..index + 1)
    }

    /// The range of several consecutive blocks.
    #[inline]
    pub(crate) fn span(&self, blocks: Range<u32>) -> Range<usize> {
        self.offset(blocks.start)..self.offset(blocks.end)
    }

    /// The length of a block.
    pub(crate) fn length(&self, index: u32) -> usize {
        self.range(index).len()
    }

    /// The length of the longest block.
    pub(crate) fn longest(&self) -> usize {
        match self {
            BlockPlaces::Equal { length } => *length,
            BlockPlaces::Even { .. } => self.length(0),
            BlockPlaces::Given { offsets } => {
                offsets.windows(2).map(|block| block[1] - block[0]).max().unwrap_or(0)
            }
        }
    }

    /// The length of `count` blocks from `first` on, cyclically after block `size - 1`.
    pub(crate) fn run(&self, first: u32, count: u32, size: u32) -> usize {
        let straight = count.min(size - first);
        self.span(first..first + straight).len() + self.span(0..count - straight).len()
    }
}

/// The maximum number of blocks whose offsets need no allocation: a call by lines takes no longer
/// than an allocation.
const FEW: usize = 8;

/// The starts of blocks, and the end of the last one.
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

/// Two disjoint parts of an array, the first for reading and the second for writing.
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

/// Splits an array into `count` blocks of `length` bytes, which may be zero.
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
