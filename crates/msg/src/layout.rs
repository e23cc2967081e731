//! The elements of a slice that form a message (derived datatypes, MPI 5.0 §5.1).
//!
//! A layout is a first element and runs of elements, either in a regular pattern or listed:
//!
//! ```text
//!   contiguous(2, 3)           . . 0 1 2 . . .
//!   vector(0, 3, 1, 3)         0 . . 1 . . 2 .    a column of a matrix three wide
//!   indexed([(5, 2), (0, 1)])  2 . . . . 0 1 .    in the order of the list
//! ```
//!
//! Layouts count elements, not bytes: a layout belongs to a slice of some type. It knows its end,
//! so one comparison with the slice's length replaces a check of every element. Ends that overflow
//! saturate and fit no slice.

use std::ops::Range;

use hikyaku_nic::ring::copy;
use thiserror::Error;

/// The elements of a slice that form a message, and their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: LayoutShape,
    /// The number of elements, including repeated ones.
    length: usize,
    /// One past the last element.
    end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum LayoutShape {
    /// Runs of `run` elements from `start` on, repeated by the levels, outermost first. Levels that
    /// have no effect are left out, so contiguous elements have none.
    Strided { start: usize, run: usize, levels: Vec<StrideLevel> },
    /// First element and length of each run. No run is empty, and none continues the one before.
    Indexed(Vec<(usize, usize)>),
}

/// `count` repetitions, `stride` elements apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct StrideLevel {
    count: usize,
    stride: usize,
}

/// Why a layout does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// It reaches beyond the slice.
    #[error("a layout reaches to element {end} of a buffer of {length} elements")]
    Outside {
        /// One past the last element of the layout.
        end: usize,
        /// Elements of the slice.
        length: usize,
    },
    /// Its number of elements differs from that of the packed data.
    #[error("a layout of {elements} elements was given {given}")]
    Count {
        /// Elements of the layout.
        elements: usize,
        /// Elements given.
        given: usize,
    },
    /// A part reaches beyond its array.
    #[error("elements {from} to {to} are no part of {size} in dimension {dimension} of an array")]
    NotAPart {
        /// The dimension, from 0.
        dimension: usize,
        /// First element of the part.
        from: usize,
        /// One past its last.
        to: usize,
        /// Extent of the array.
        size: usize,
    },
}

impl From<Range<usize>> for Layout {
    /// The elements of a range; empty if it ends before it starts.
    fn from(range: Range<usize>) -> Layout {
        Layout::contiguous(range.start, range.len())
    }
}

impl Layout {
    /// `count` elements from `start` on (MPI_Type_contiguous).
    pub fn contiguous(start: usize, count: usize) -> Layout {
        Layout::strided(start, count, Vec::new())
    }

    /// `count` blocks of `block` elements whose first elements are `stride` apart
    /// (MPI_Type_vector).
    pub fn vector(start: usize, count: usize, block: usize, stride: usize) -> Layout {
        Layout::strided(start, block, vec![StrideLevel { count, stride }])
    }

    /// Blocks by first element and length, in this order (MPI_Type_indexed).
    pub fn indexed(blocks: &[(usize, usize)]) -> Layout {
        let mut runs: Vec<(usize, usize)> = Vec::with_capacity(blocks.len());
        for &(start, length) in blocks.iter().filter(|(_, length)| *length > 0) {
            match runs.last_mut() {
                Some((before, so_far)) if before.checked_add(*so_far) == Some(start) => {
                    *so_far = so_far.saturating_add(length);
                }
                _ => runs.push((start, length)),
            }
        }
        match runs[..] {
            [] => Layout::contiguous(0, 0),
            [(start, length)] => Layout::contiguous(start, length),
            _ => {
                let ends = runs.iter().map(|(start, length)| start.saturating_add(*length));
                let end = ends.max().unwrap_or(0);
                let length =
                    runs.iter().fold(0usize, |sum, (_, length)| sum.saturating_add(*length));
                Layout { shape: LayoutShape::Indexed(runs), length, end }
            }
        }
    }

    /// A box within an array whose last dimension is contiguous: `part[d]` is the range of elements
    /// in dimension `d` of an array of `sizes[d]` (MPI_Type_create_subarray).
    ///
    /// # Errors
    /// [`LayoutError::NotAPart`]: a range leaves the array, or `part` and `sizes` have different
    /// lengths.
    pub fn subarray(sizes: &[usize], part: &[Range<usize>]) -> Result<Layout, LayoutError> {
        for dimension in 0..sizes.len().max(part.len()) {
            // A missing size is zero; a missing range fits no size.
            let size = sizes.get(dimension).copied().unwrap_or(0);
            let range = part.get(dimension).cloned().unwrap_or(usize::MAX..usize::MAX);
            let Range { start: from, end: to } = range;
            if from > to || to > size || dimension >= sizes.len() {
                return Err(LayoutError::NotAPart { dimension, from, to, size });
            }
        }
        let (mut start, mut stride) = (0usize, 1usize);
        let mut levels = Vec::with_capacity(sizes.len());
        for (size, range) in sizes.iter().zip(part).rev() {
            start = start.saturating_add(range.start.saturating_mul(stride));
            levels.push(StrideLevel { count: range.len(), stride });
            stride = stride.saturating_mul(*size);
        }
        levels.reverse();
        Ok(Layout::strided(start, 1, levels))
    }

    /// Reduces a regular pattern to its shortest form and counts its elements.
    fn strided(start: usize, mut run: usize, mut levels: Vec<StrideLevel>) -> Layout {
        let counts = levels.iter().map(|level| level.count);
        let length = counts.fold(run, usize::saturating_mul);
        if length == 0 {
            let shape = LayoutShape::Strided { start: 0, run: 0, levels: Vec::new() };
            return Layout { shape, length: 0, end: 0 };
        }
        levels.retain(|level| level.count > 1);
        while let Some(&StrideLevel { count, stride }) = levels.last()
            && stride == run
        {
            run = run.saturating_mul(count);
            levels.pop();
        }
        let last = levels.iter().fold(start, |last, level| {
            last.saturating_add(level.stride.saturating_mul(level.count - 1))
        });
        let end = last.saturating_add(run);
        Layout { shape: LayoutShape::Strided { start, run, levels }, length, end }
    }

    /// The same layout in smaller units, `width` of them per element: for example in bytes.
    #[must_use]
    pub fn scaled(&self, width: usize) -> Layout {
        let scale = |number: usize| number.saturating_mul(width);
        if width == 0 {
            return Layout::contiguous(0, 0);
        }
        let shape = match &self.shape {
            LayoutShape::Strided { start, run, levels } => LayoutShape::Strided {
                start: scale(*start),
                run: scale(*run),
                levels: levels
                    .iter()
                    .map(|level| StrideLevel { count: level.count, stride: scale(level.stride) })
                    .collect(),
            },
            LayoutShape::Indexed(runs) => LayoutShape::Indexed(
                runs.iter().map(|(at, run)| (scale(*at), scale(*run))).collect(),
            ),
        };
        Layout { shape, length: scale(self.length), end: scale(self.end) }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the layout has no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One past the last element that the layout reaches.
    pub fn end(&self) -> usize {
        self.end
    }

    /// The range from its first element in memory to one past the last; it may have gaps.
    pub fn span(&self) -> Range<usize> {
        let start = match &self.shape {
            LayoutShape::Strided { start, .. } => *start,
            LayoutShape::Indexed(runs) => runs.iter().map(|(start, _)| *start).min().unwrap_or(0),
        };
        start..self.end
    }

    /// The elements as one range, if they are contiguous: such a message needs no copy.
    pub fn as_range(&self) -> Option<Range<usize>> {
        match &self.shape {
            LayoutShape::Strided { start, levels, .. } if levels.is_empty() => {
                Some(*start..self.end)
            }
            _ => None,
        }
    }

    /// Checks that the layout lies within a slice of `length` elements.
    ///
    /// # Errors
    /// [`LayoutError::Outside`].
    pub fn check(&self, length: usize) -> Result<(), LayoutError> {
        if self.end <= length {
            return Ok(());
        }
        Err(LayoutError::Outside { end: self.end, length })
    }

    /// Calls `act` with every run of elements, in order.
    pub fn for_each_run(&self, mut act: impl FnMut(Range<usize>)) {
        match &self.shape {
            LayoutShape::Indexed(runs) => {
                runs.iter().for_each(|(start, length)| act(*start..*start + *length));
            }
            LayoutShape::Strided { start, run, levels } if *run > 0 => {
                walk(*start, levels, &mut |at| act(at..at + *run));
            }
            LayoutShape::Strided { .. } => {}
        }
    }

    /// Copies the elements, in order, to `packed`.
    ///
    /// # Errors
    /// The layout reaches beyond `from`, or the length of `packed` differs from the layout's.
    pub fn pack<T: Copy>(&self, from: &[T], packed: &mut [T]) -> Result<(), LayoutError> {
        self.check(from.len())?;
        self.check_count(packed.len())?;
        let mut rest = packed;
        self.for_each_run(|run| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(run.len());
            copy_run(here, &from[run]);
            rest = after;
        });
        Ok(())
    }

    /// Copies `packed` to the elements, in order: the last one wins if an element is repeated.
    ///
    /// # Errors
    /// The layout reaches beyond `into`, or the length of `packed` differs from the layout's.
    pub fn unpack<T: Copy>(&self, packed: &[T], into: &mut [T]) -> Result<(), LayoutError> {
        self.check(into.len())?;
        self.check_count(packed.len())?;
        let mut rest = packed;
        self.for_each_run(|run| {
            let (here, after) = rest.split_at(run.len());
            copy_run(&mut into[run], here);
            rest = after;
        });
        Ok(())
    }

    fn check_count(&self, given: usize) -> Result<(), LayoutError> {
        if given == self.length {
            return Ok(());
        }
        Err(LayoutError::Count { elements: self.length, given })
    }
}

/// Copies a run to one of the same length. Single elements, and the bytes of one element, are not
/// worth a call of memcpy.
#[inline]
fn copy_run<T: Copy>(into: &mut [T], from: &[T]) {
    match (into, from) {
        ([place], [value]) => *place = *value,
        (into, from) if into.len() == 8 => copy_short::<8, T>(into, from),
        (into, from) if into.len() == 4 => copy_short::<4, T>(into, from),
        (into, from) => copy(from, into),
    }
}

/// Copies `N` elements, few enough for one or two instructions.
#[inline]
fn copy_short<const N: usize, T: Copy>(into: &mut [T], from: &[T]) {
    into[..N].copy_from_slice(&from[..N]);
}

/// Calls `act` with the first element of every run.
fn walk(start: usize, levels: &[StrideLevel], act: &mut impl FnMut(usize)) {
    match levels {
        [] => act(start),
        // The innermost level, with most of the elements, needs no recursion.
        [StrideLevel { count, stride }] => (0..*count).for_each(|i| act(start + i * stride)),
        [StrideLevel { count, stride }, inner @ ..] => {
            (0..*count).for_each(|i| walk(start + i * stride, inner, act));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// The elements as a list, in order.
    fn elements(layout: &Layout) -> Vec<usize> {
        let mut all = Vec::new();
        layout.for_each_run(|run| all.extend(run));
        all
    }

    #[test]
    fn contiguous_elements_are_one_range() {
        assert_eq!(Layout::vector(3, 4, 2, 2).as_range(), Some(3..11));
        assert_eq!(Layout::vector(3, 1, 2, 9).as_range(), Some(3..5));
        assert_eq!(Layout::indexed(&[(2, 3), (9, 0), (5, 1)]).as_range(), Some(2..6));
        assert_eq!(Layout::subarray(&[4, 5], &[1..3, 0..5]).unwrap().as_range(), Some(5..15));
        assert_eq!(Layout::vector(3, 4, 2, 3).as_range(), None);
        for empty in [
            Layout::contiguous(7, 0),
            Layout::vector(usize::MAX, 0, 9, 1),
            Layout::vector(5, 3, 0, usize::MAX),
            Layout::indexed(&[]),
            Layout::from(Range { start: 4, end: 2 }),
        ] {
            assert_eq!((empty.as_range(), empty.is_empty(), empty.end()), (Some(0..0), true, 0));
        }
    }

    #[test]
    fn faces_of_a_cube() {
        let sizes = [2, 3, 4];
        let face = |part: [Range<usize>; 3]| elements(&Layout::subarray(&sizes, &part).unwrap());
        assert_eq!(face([1..2, 0..3, 0..4]), (12..24).collect::<Vec<_>>());
        assert_eq!(face([0..2, 1..2, 0..4]), [4, 5, 6, 7, 16, 17, 18, 19]);
        assert_eq!(face([0..2, 0..3, 3..4]), [3, 7, 11, 15, 19, 23]);
        assert_eq!(face([0..2, 1..3, 2..3]), [6, 10, 18, 22]);
    }

    #[test]
    fn overflowing_ends_fit_no_slice() {
        let huge = usize::MAX / 2;
        for layout in [
            Layout::contiguous(usize::MAX, 2),
            Layout::vector(0, huge, 3, huge),
            Layout::vector(1, 2, 1, usize::MAX),
            Layout::indexed(&[(usize::MAX, 1), (0, usize::MAX)]),
            Layout::subarray(&[huge, huge], &[huge - 1..huge, 0..huge]).unwrap(),
        ] {
            assert_eq!(layout.end(), usize::MAX, "{layout:?}");
            let mut small = [0u8; 4];
            let error = LayoutError::Outside { end: usize::MAX, length: 4 };
            assert_eq!(layout.unpack(&[], &mut small), Err(error));
        }
    }

    #[test]
    fn wrong_parts_and_lengths_are_named() {
        let error = Layout::subarray(&[4, 4], &[0..4, 2..5]).unwrap_err();
        assert_eq!(error, LayoutError::NotAPart { dimension: 1, from: 2, to: 5, size: 4 });
        assert!(Layout::subarray(&[4], &[0..4, 0..1]).is_err());
        assert!(Layout::subarray(&[4, 0], &vec![0..4; 1]).is_err());
        let error = Layout::contiguous(0, 2).pack(&[1, 2], &mut [0; 3]).unwrap_err();
        assert_eq!(error, LayoutError::Count { elements: 2, given: 3 });
    }

    /// A layout and its expected elements.
    fn any_layout() -> impl Strategy<Value = (Layout, Vec<usize>)> {
        let vector = (0usize..9, 0usize..5, 0usize..5, 0usize..7);
        let vector = vector.prop_map(|(start, count, block, stride)| {
            let runs = (0..count).map(|i| start + i * stride);
            let all = runs.flat_map(|at| at..at + block).collect();
            (Layout::vector(start, count, block, stride), all)
        });
        let indexed = prop::collection::vec((0usize..30, 0usize..5), 0..6).prop_map(|blocks| {
            let all = blocks.iter().flat_map(|(start, length)| *start..start + length).collect();
            (Layout::indexed(&blocks), all)
        });
        let range = |size: usize| (0..=size, 0..=size).prop_map(|(a, b)| a.min(b)..a.max(b));
        let boxes = (range(3), range(4), range(5)).prop_map(|(i, j, k)| {
            let layout = Layout::subarray(&[3, 4, 5], &[i.clone(), j.clone(), k.clone()]).unwrap();
            let rows = i.flat_map(|i| j.clone().map(move |j| (i * 4 + j) * 5));
            (layout, rows.flat_map(|row| k.clone().map(move |k| row + k)).collect())
        });
        prop_oneof![vector, indexed, boxes]
    }

    proptest! {
        #[test]
        fn a_layout_has_its_elements_in_order((layout, expected) in any_layout()) {
            prop_assert_eq!(elements(&layout), expected.clone());
            prop_assert_eq!(layout.len(), expected.len());
            prop_assert_eq!(layout.end(), expected.iter().map(|at| at + 1).max().unwrap_or(0));
            prop_assert_eq!(layout.span().start, expected.iter().min().copied().unwrap_or(0));
            if let Some(range) = layout.as_range() {
                prop_assert_eq!(range.collect::<Vec<_>>(), expected);
            }
        }

        #[test]
        fn in_bytes_an_element_is_its_bytes(
            (layout, expected) in any_layout(), width in 1usize..9,
        ) {
            let bytes = |at: &usize| at * width..(at + 1) * width;
            let scaled = layout.scaled(width);
            let all: Vec<usize> = expected.iter().flat_map(bytes).collect();
            prop_assert_eq!(scaled.len(), all.len());
            prop_assert_eq!(scaled.end(), layout.end() * width);
            let from: Vec<u16> = (100..100 + scaled.end() as u16 + 3).collect();
            let mut packed = vec![0; scaled.len()];
            scaled.pack(&from, &mut packed).unwrap();
            prop_assert_eq!(&packed, &all.iter().map(|at| from[*at]).collect::<Vec<_>>());
            prop_assert_eq!(elements(&scaled), all);
            prop_assert!(layout.scaled(0).is_empty());
        }

        #[test]
        fn packing_and_unpacking_move_exactly_these((layout, expected) in any_layout()) {
            let from: Vec<u16> = (100..100 + layout.end() as u16 + 3).collect();
            let mut packed = vec![0; layout.len()];
            layout.pack(&from, &mut packed).unwrap();
            prop_assert_eq!(&packed, &expected.iter().map(|at| from[*at]).collect::<Vec<_>>());
            let mut into = vec![0; from.len()];
            layout.unpack(&packed, &mut into).unwrap();
            for (at, value) in into.iter().enumerate() {
                prop_assert_eq!(*value, if expected.contains(&at) { from[at] } else { 0 });
            }
            if layout.end() > 0 {
                let short = layout.end() - 1;
                prop_assert!(layout.pack(&from[..short], &mut packed).is_err());
                prop_assert!(layout.unpack(&packed, &mut into[..short]).is_err());
            }
        }
    }
}
