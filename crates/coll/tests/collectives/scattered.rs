//! All-to-all by layouts: parts with holes, in any order, and the expected arrays.
//!
//! The oracle describes parts as lists of their bytes and compares the whole array: bytes outside
//! all parts must stay unchanged.

use hikyaku_coll::alltoallw::Algorithm;
use hikyaku_coll::{Failure, Group, alltoallw, alltoallw_in_place};
use hikyaku_msg::Layout;
use hikyaku_nic::random::Random;

use crate::case::{Case, WIDTH};

/// The value of a byte outside all parts.
const HOLE: u8 = 0xEE;

/// The parts of an array, one per rank.
struct Parts {
    layouts: Vec<Layout>,
    /// The places of their bytes, in order.
    bytes: Vec<Vec<usize>>,
    /// Bytes of the array.
    length: usize,
}

impl Parts {
    /// Parts of `counts` elements, in one of four layouts drawn from `seed`.
    fn of(counts: &[usize], seed: u64) -> Parts {
        let mut random = Random::new(seed);
        let ranks = counts.len();
        match random.place(4) {
            0 => Parts::in_a_row(counts, (0..ranks).collect(), 0),
            1 => Parts::in_a_row(counts, (0..ranks).rev().collect(), random.place(9)),
            2 => Parts::columns(counts),
            _ => Parts::backwards(counts, random.place(3)),
        }
    }

    /// Contiguous parts in this order, with gaps between them.
    fn in_a_row(counts: &[usize], order: Vec<usize>, gap: usize) -> Parts {
        let mut layouts = vec![Layout::from(0..0); counts.len()];
        let mut bytes = vec![Vec::new(); counts.len()];
        let mut at = gap;
        for rank in order {
            let end = at + counts[rank] * WIDTH;
            layouts[rank] = Layout::from(at..end);
            bytes[rank] = (at..end).collect();
            at = end + gap;
        }
        Parts { layouts, bytes, length: at }
    }

    /// Columns of a matrix of elements.
    fn columns(counts: &[usize]) -> Parts {
        let row = counts.len() * WIDTH;
        let column = |(rank, count): (usize, &usize)| {
            let elements = (0..*count).map(|element| element * row + rank * WIDTH);
            let bytes: Vec<usize> = elements.flat_map(|at| at..at + WIDTH).collect();
            (Layout::vector(rank * WIDTH, *count, WIDTH, row), bytes)
        };
        let (layouts, bytes) = counts.iter().enumerate().map(column).unzip();
        Parts { layouts, bytes, length: counts.iter().max().unwrap_or(&0) * row }
    }

    /// Elements from the last to the first, with gaps between.
    fn backwards(counts: &[usize], gap: usize) -> Parts {
        let stride = WIDTH + gap;
        let mut start = 0;
        let mut part = |count: &usize| {
            let blocks: Vec<_> = (0..*count).rev().map(|at| (start + at * stride, WIDTH)).collect();
            start += count * stride;
            let bytes = blocks.iter().flat_map(|(at, length)| *at..at + length).collect();
            (Layout::indexed(&blocks), bytes)
        };
        let (layouts, bytes) = counts.iter().map(&mut part).unzip();
        Parts { layouts, bytes, length: start }
    }

    /// The array with these parts, and holes elsewhere.
    fn filled(&self, of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        let mut array = vec![HOLE; self.length];
        for (rank, places) in (0..).zip(&self.bytes) {
            let values = of(rank);
            assert_eq!(values.len(), places.len());
            for (place, value) in places.iter().zip(values) {
                array[*place] = value;
            }
        }
        array
    }
}

impl Case {
    /// The parts that a rank sends, or with `into` the places where it receives.
    fn parts(&self, rank: u32, into: bool) -> Parts {
        let count = |peer| if into { (peer, rank) } else { (rank, peer) };
        let counts = self.ranks().map(count).map(|(from, to)| self.pair_count(from, to));
        let counts: Vec<usize> = counts.collect();
        Parts::of(&counts, self.seed ^ (u64::from(rank) << 8) ^ u64::from(into))
    }

    fn parts_in_place(&self, rank: u32) -> Parts {
        let counts = self.ranks().map(|peer| self.symmetric_count(rank, peer));
        let counts: Vec<usize> = counts.collect();
        Parts::of(&counts, self.seed ^ (u64::from(rank) << 8))
    }
}

/// The expected array of rank `rank`.
pub(crate) fn expected(case: &Case, rank: u32) -> Vec<u8> {
    let places = case.parts(rank, true);
    places.filled(|from| case.data(from, rank, case.pair_count(from, rank)))
}

pub(crate) fn expected_in_place(case: &Case, rank: u32) -> Vec<u8> {
    let places = case.parts_in_place(rank);
    places.filled(|from| case.data(from, rank, case.symmetric_count(from, rank)))
}

pub(crate) async fn perform<G: Group<Byte = u8>>(
    case: &Case,
    group: &G,
    algorithm: Option<Algorithm>,
) -> Result<Vec<u8>, Failure<G>> {
    let rank = group.rank();
    let (parts, places) = (case.parts(rank, false), case.parts(rank, true));
    let data = parts.filled(|to| case.data(rank, to, case.pair_count(rank, to)));
    let mut into = vec![HOLE; places.length];
    alltoallw(group, algorithm, &data, &parts.layouts, &mut into, &places.layouts).await?;
    Ok(into)
}

pub(crate) async fn perform_in_place<G: Group<Byte = u8>>(
    case: &Case,
    group: &G,
) -> Result<Vec<u8>, Failure<G>> {
    let rank = group.rank();
    let parts = case.parts_in_place(rank);
    let mut data = parts.filled(|to| case.data(rank, to, case.symmetric_count(rank, to)));
    alltoallw_in_place(group, &mut data, &parts.layouts).await?;
    Ok(data)
}
