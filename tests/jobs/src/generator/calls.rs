//! Collectives: the contribution of each rank, and its expected result.

use std::ops::Range;

use hikyaku::{Layout, Reducer};
use hikyaku_nic::random::GOLDEN;

use crate::Random;
use crate::pattern::{key, message};

/// One collective, the same at every rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub kind: Kind,
    pub root: u32,
    /// Bytes of a block, or elements of a reduction; unequal blocks are about as long.
    pub length: usize,
    pub combine: Combine,
    /// The key of its content.
    pub name: u64,
}

/// The kind of collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    AllgatherInPlace,
    Allgatherv,
    Alltoall,
    AlltoallInPlace,
    Alltoallv,
    Alltoallw,
    AlltoallwInPlace,
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
}

impl Kind {
    pub(super) const ALL: [Kind; 20] = [
        Kind::Barrier,
        Kind::Broadcast,
        Kind::Gather,
        Kind::Gatherv,
        Kind::Scatter,
        Kind::Scatterv,
        Kind::Allgather,
        Kind::AllgatherInPlace,
        Kind::Allgatherv,
        Kind::Alltoall,
        Kind::AlltoallInPlace,
        Kind::Alltoallv,
        Kind::Alltoallw,
        Kind::AlltoallwInPlace,
        Kind::Reduce,
        Kind::Allreduce,
        Kind::ReduceScatter,
        Kind::ReduceScatterBlock,
        Kind::Scan,
        Kind::Exscan,
    ];

    /// Whether every rank has a block for every rank, so that memory grows with their square.
    pub(super) fn is_all_to_all(self) -> bool {
        use Kind::{Alltoall, AlltoallInPlace, Alltoallv, Alltoallw, AlltoallwInPlace};
        matches!(self, Alltoall | AlltoallInPlace | Alltoallv | Alltoallw | AlltoallwInPlace)
    }
}

/// How elements are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combine {
    Sum,
    Max,
    /// Composes maps `x -> a x + b`, which do not commute.
    Maps,
}

impl Reducer<u64> for Combine {
    fn combine(&self, left: &[u64], right: &mut [u64]) {
        for (left, right) in left.iter().zip(right) {
            *right = match self {
                Combine::Sum => left.wrapping_add(*right),
                Combine::Max => (*left).max(*right),
                Combine::Maps => composed(*left, *right),
            };
        }
    }

    fn is_commutative(&self) -> bool {
        *self != Combine::Maps
    }
}

/// The map `left` after the map `right`, each as two halves of a word.
fn composed(left: u64, right: u64) -> u64 {
    let halves = |map: u64| ((map >> 32) as u32, map as u32);
    let ((a, b), (c, d)) = (halves(left), halves(right));
    u64::from(a.wrapping_mul(c)) << 32 | u64::from(a.wrapping_mul(d).wrapping_add(b))
}

/// One rank's memory for one call. Calls that move blocks use bytes, reductions use words.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub call: Call,
    rank: u32,
    size: u32,
    round: u64,
    pub data: Vec<u8>,
    pub into: Vec<u8>,
    pub words: Vec<u64>,
    pub part: Vec<u64>,
    /// The layouts of the blocks for the ranks, and from them, if the call has layouts.
    pub layouts: (Vec<Layout>, Vec<Layout>),
}

/// The content of memory where nothing has arrived.
const EMPTY: u8 = 0xee;

impl Work {
    /// This rank's contribution to the call in the `round`-th round.
    pub(super) fn new(call: Call, rank: u32, size: u32, round: u64) -> Work {
        let (data, into, words, part) = Default::default();
        let layouts = Default::default();
        let mut work = Work { call, rank, size, round, data, into, words, part, layouts };
        work.fill();
        work
    }

    fn fill(&mut self) {
        let (rank, root) = (self.rank, self.call.root);
        let is_root = rank == root;
        let rows = |work: &Work, rows: bool, row: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> {
            if rows { (0..work.size).flat_map(row).collect() } else { Vec::new() }
        };
        let empty = |length: usize| vec![EMPTY; length];
        match self.call.kind {
            Kind::Barrier => {}
            Kind::Broadcast => {
                let whole = self.block(root, root);
                self.data = if is_root { whole } else { empty(whole.len()) };
            }
            Kind::Gather | Kind::Gatherv => {
                self.data = self.block(rank, root);
                self.into = empty(if is_root { self.incoming().iter().sum() } else { 0 });
            }
            Kind::Scatter | Kind::Scatterv => {
                self.data = rows(self, is_root, &|to| self.block(root, to));
                self.into = empty(self.count(root, rank));
            }
            Kind::Allgather | Kind::Allgatherv => {
                self.data = self.block(rank, rank);
                self.into = empty(self.incoming().iter().sum());
            }
            Kind::AllgatherInPlace => {
                let own =
                    |of| if of == rank { self.block(of, of) } else { empty(self.call.length) };
                self.data = rows(self, true, &own);
            }
            Kind::Alltoall | Kind::Alltoallv | Kind::AlltoallInPlace => {
                self.data = rows(self, true, &|to| self.block(rank, to));
                let in_place = self.call.kind == Kind::AlltoallInPlace;
                self.into = empty(if in_place { 0 } else { self.incoming().iter().sum() });
            }
            Kind::Alltoallw | Kind::AlltoallwInPlace => self.lay_out(),
            Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan => {
                self.words = self.terms(rank, 0..self.call.length);
            }
            Kind::ReduceScatter | Kind::ReduceScatterBlock => {
                self.words = self.terms(rank, 0..self.outgoing().iter().sum());
                self.part = vec![u64::MAX; self.count(rank, rank)];
            }
        }
    }

    /// The length of the block from one rank to another.
    fn count(&self, from: u32, to: u32) -> usize {
        let Call { kind, length, name, .. } = self.call;
        let names = match kind {
            Kind::Gatherv | Kind::Allgatherv => [u64::from(from), 0],
            Kind::Scatterv | Kind::ReduceScatter => [u64::from(to), 1],
            Kind::Alltoallv | Kind::Alltoallw => [u64::from(from), u64::from(to)],
            Kind::AlltoallwInPlace => [u64::from(from.min(to)), u64::from(from.max(to))],
            _ => return length,
        };
        let mut random = Random::new(key(name, &names));
        match random.below(4) {
            0 => 0,
            1 => random.below(length + 1),
            _ => length + random.below(3),
        }
    }

    fn block(&self, from: u32, to: u32) -> Vec<u8> {
        let name = key(self.call.name, &[u64::from(from), u64::from(to), self.round]);
        message(name, self.count(from, to))
    }

    /// Lengths of the blocks for each rank.
    pub(super) fn outgoing(&self) -> Vec<usize> {
        (0..self.size).map(|to| self.count(self.rank, to)).collect()
    }

    /// Lengths of the blocks from each rank.
    pub(super) fn incoming(&self) -> Vec<usize> {
        (0..self.size).map(|from| self.count(from, self.rank)).collect()
    }

    /// The words of this rank, or of another, at these places.
    fn terms(&self, rank: u32, places: Range<usize>) -> Vec<u64> {
        let name = key(self.call.name, &[u64::from(rank), self.round]);
        let word = |at: usize| (name ^ (at as u64).wrapping_mul(GOLDEN)) >> 3;
        places.map(word).collect()
    }

    /// The words of these ranks combined.
    fn combined(&self, ranks: Range<u32>, places: Range<usize>) -> Vec<u64> {
        let mut result = self.terms(ranks.end - 1, places.clone());
        for rank in (ranks.start..ranks.end - 1).rev() {
            self.call.combine.combine(&self.terms(rank, places.clone()), &mut result);
        }
        result
    }

    /// Blocks with gaps between their elements, and in another order at the receiver.
    fn lay_out(&mut self) {
        let place = |counts: &[usize], reversed: bool| {
            let (mut layouts, mut start) = (vec![Layout::contiguous(0, 0); counts.len()], 0);
            let mut order: Vec<usize> = (0..counts.len()).collect();
            if reversed {
                order.reverse();
            }
            for at in order {
                let count = counts[at];
                let (stride, layout) = match count % 3 {
                    0 => (1, Layout::contiguous(start, count)),
                    _ => (2, Layout::vector(start, count, 1, 2)),
                };
                layouts[at] = layout;
                start += stride * count;
            }
            (layouts, start)
        };
        let (out, length) = place(&self.outgoing(), false);
        self.data = vec![EMPTY; length];
        for (to, layout) in (0..).zip(&out) {
            layout.unpack(&self.block(self.rank, to), &mut self.data).unwrap();
        }
        let in_place = self.call.kind == Kind::AlltoallwInPlace;
        let (into, length) = place(&self.incoming(), !in_place);
        self.into = vec![EMPTY; if in_place { 0 } else { length }];
        self.layouts = (out, into);
    }

    /// Checks this rank's result.
    #[track_caller]
    pub(super) fn check(&self) {
        let (rank, size, root) = (self.rank, self.size, self.call.root);
        let from_all = || (0..size).flat_map(|from| self.block(from, rank)).collect::<Vec<u8>>();
        let all = || (0..size).flat_map(|of| self.block(of, of)).collect::<Vec<u8>>();
        match self.call.kind {
            Kind::Barrier => {}
            Kind::Broadcast => self.same(&self.data, &self.block(root, root)),
            Kind::Gather | Kind::Gatherv if rank == root => self.same(&self.into, &from_all()),
            Kind::Gather | Kind::Gatherv => {}
            Kind::Scatter | Kind::Scatterv => self.same(&self.into, &self.block(root, rank)),
            Kind::Allgather | Kind::Allgatherv => self.same(&self.into, &all()),
            Kind::AllgatherInPlace => self.same(&self.data, &all()),
            Kind::Alltoall | Kind::Alltoallv => self.same(&self.into, &from_all()),
            Kind::AlltoallInPlace => self.same(&self.data, &from_all()),
            Kind::Alltoallw => self.same(&self.into, &self.laid_out(self.into.len())),
            Kind::AlltoallwInPlace => self.same(&self.data, &self.laid_out(self.data.len())),
            Kind::Reduce if rank != root => {}
            Kind::Reduce | Kind::Allreduce => {
                self.same(&self.words, &self.combined(0..size, 0..self.words.len()));
            }
            Kind::Scan => self.same(&self.words, &self.combined(0..rank + 1, 0..self.words.len())),
            Kind::Exscan if rank == 0 => {}
            Kind::Exscan => self.same(&self.words, &self.combined(0..rank, 0..self.words.len())),
            Kind::ReduceScatter | Kind::ReduceScatterBlock => {
                let start = self.outgoing()[..rank as usize].iter().sum();
                self.same(&self.part, &self.combined(0..size, start..start + self.part.len()));
            }
        }
    }

    fn laid_out(&self, length: usize) -> Vec<u8> {
        let mut expected = vec![EMPTY; length];
        for (from, layout) in (0..).zip(&self.layouts.1) {
            layout.unpack(&self.block(from, self.rank), &mut expected).unwrap();
        }
        expected
    }

    #[track_caller]
    fn same<T: PartialEq>(&self, found: &[T], expected: &[T]) {
        let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let lengths = (found.len(), expected.len());
        assert!(
            first.is_none() && lengths.0 == lengths.1,
            "{:?}: elements differ, the first at {first:?}, of {lengths:?}",
            self.call
        );
    }
}
