//! One call of one operation: each rank's part in it, and the expected result.
//!
//! The oracle computes results by the definitions of the standard, from the data of all ranks.

use std::cell::Cell;
use std::ops::{Range, RangeInclusive};

use hikyaku_coll::{
    Failure, Group, Reduction, allgather, allgatherv, allreduce, alltoall, alltoall_in_place,
    alltoallv, alltoallv_in_place, barrier, broadcast, exscan, gather, gatherv, reduce,
    reduce_scatter, reduce_scatter_block, scan, scatter, scatterv,
};
use hikyaku_nic::random::Random;
use proptest::prelude::*;
use proptest::sample::select;

use crate::scattered;

/// Addition of bytes.
pub(crate) fn add() -> Reduction<impl FnMut(&[u8], &mut [u8]) + Copy> {
    Reduction::commutative(1, |left: &[u8], right: &mut [u8]| {
        left.iter().zip(right).for_each(|(left, right)| *right = right.wrapping_add(*left));
    })
}

/// Bytes of an element, which is a 2 × 2 matrix of `u32`.
pub(crate) const WIDTH: usize = 16;

/// An operation with its algorithm. `None`: the table decides. `true`: with in-place data, or with
/// the variant named.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Barrier(Option<hikyaku_coll::barrier::Algorithm>),
    Broadcast(Option<hikyaku_coll::broadcast::Algorithm>),
    Reduce(Option<hikyaku_coll::reduce::Algorithm>),
    Allreduce(Option<hikyaku_coll::allreduce::Algorithm>),
    Gather(Option<hikyaku_coll::gather::Algorithm>, InPlace),
    Gatherv(Option<hikyaku_coll::gather::Algorithm>, InPlace),
    Scatter(Option<hikyaku_coll::scatter::Algorithm>, InPlace),
    Scatterv(Option<hikyaku_coll::scatter::Algorithm>, InPlace),
    Allgather(Option<hikyaku_coll::allgather::Algorithm>, InPlace),
    Allgatherv(Option<hikyaku_coll::allgather::Algorithm>, InPlace),
    Alltoall(Option<hikyaku_coll::alltoall::Algorithm>),
    Alltoallv(Option<hikyaku_coll::alltoall::Algorithm>),
    AlltoallInPlace,
    AlltoallvInPlace,
    Alltoallw(Option<hikyaku_coll::alltoallw::Algorithm>),
    AlltoallwInPlace,
    ReduceScatterBlock(Option<hikyaku_coll::reduce_scatter::Algorithm>),
    ReduceScatter(Option<hikyaku_coll::reduce_scatter::Algorithm>),
    Scan(Option<hikyaku_coll::scan::Algorithm>),
    Exscan(Option<hikyaku_coll::scan::Algorithm>),
}

/// Whether the root's own part is in its place already.
pub(crate) type InPlace = bool;

/// A call, the same at all ranks.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) what: What,
    pub(crate) size: u32,
    pub(crate) root: u32,
    /// Elements per rank.
    pub(crate) elements: usize,
    pub(crate) commutative: bool,
    pub(crate) seed: u64,
}

/// Computes `right = left ∘ right`: the sum of matrices, or their product, which does not commute.
fn combine(commutative: bool, left: &[u8], right: &mut [u8]) {
    let read = |bytes: &[u8]| -> [u32; 4] {
        std::array::from_fn(|at| u32::from_le_bytes(bytes[at * 4..][..4].try_into().unwrap()))
    };
    for (left, right) in left.chunks_exact(WIDTH).zip(right.chunks_exact_mut(WIDTH)) {
        let ([a, b, c, d], [e, f, g, h]) = (read(left), read(right));
        let product =
            |x: u32, y: u32, z: u32, w: u32| x.wrapping_mul(y).wrapping_add(z.wrapping_mul(w));
        let result = if commutative {
            [a, b, c, d].into_iter().zip([e, f, g, h]).map(|(l, r)| l.wrapping_add(r)).collect()
        } else {
            vec![product(a, e, b, g), product(a, f, b, h), product(c, e, d, g), product(c, f, d, h)]
        };
        for (place, value) in right.chunks_exact_mut(4).zip(result) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Calls of `operations` by ranks of `sizes`, with few elements each or a number from `longer`.
pub(crate) fn cases(
    operations: Vec<What>,
    sizes: RangeInclusive<u32>,
    longer: Range<usize>,
) -> impl Strategy<Value = Case> {
    let elements = prop_oneof![0usize..6, longer];
    let root = any::<prop::sample::Index>();
    (select(operations), sizes, root, elements, any::<bool>(), any::<u64>()).prop_map(
        |(what, size, root, elements, commutative, seed)| {
            let root = root.index(size as usize) as u32;
            Case { what, size, root, elements, commutative, seed }
        },
    )
}

impl Case {
    /// `elements` elements of `rank`, different for each `lot`.
    pub(crate) fn data(&self, rank: u32, lot: u32, elements: usize) -> Vec<u8> {
        let seed = self.seed ^ (u64::from(rank) << 32) ^ u64::from(lot);
        let mut random = Random::new(seed);
        (0..elements * WIDTH).map(|_| random.word() as u8).collect()
    }

    pub(crate) fn own(&self, rank: u32) -> Vec<u8> {
        self.data(rank, 0, self.elements)
    }

    /// The number of elements of `rank` in an operation with a count per rank.
    pub(crate) fn count(&self, rank: u32) -> usize {
        let mut random = Random::new(self.seed ^ 0xC0 ^ u64::from(rank));
        random.place(3) * random.place(self.elements + 1)
    }

    /// The number of elements from one rank to another.
    pub(crate) fn pair_count(&self, from: u32, to: u32) -> usize {
        self.count(from * self.size + to) % 64
    }

    pub(crate) fn reduction(&self) -> Reduction<impl FnMut(&[u8], &mut [u8]) + use<>> {
        let commutative = self.commutative;
        let combine = move |left: &[u8], right: &mut [u8]| combine(commutative, left, right);
        Reduction { commutative, ..Reduction::commutative(WIDTH, combine) }
    }

    pub(crate) fn ranks(&self) -> std::ops::Range<u32> {
        0..self.size
    }

    /// The combined data of some ranks, in rank order.
    fn combined(&self, ranks: std::ops::Range<u32>, of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        let last = of(ranks.end - 1);
        (ranks.start..ranks.end - 1).rev().fold(last, |mut result, rank| {
            combine(self.commutative, &of(rank), &mut result);
            result
        })
    }

    pub(crate) fn joined(&self, of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        self.ranks().flat_map(of).collect()
    }

    /// The expected data of `rank` after the call.
    pub(crate) fn expected(&self, rank: u32) -> Vec<u8> {
        let at_root = |bytes: Vec<u8>| if rank == self.root { bytes } else { Vec::new() };
        let counted = |rank| self.data(rank, 0, self.count(rank));
        match self.what {
            What::Barrier(_) => Vec::new(),
            What::Broadcast(_) => self.own(self.root),
            What::Reduce(_) => at_root(self.combined(self.ranks(), |rank| self.own(rank))),
            What::Allreduce(_) => self.combined(self.ranks(), |rank| self.own(rank)),
            What::Gather(..) => at_root(self.joined(|rank| self.own(rank))),
            What::Gatherv(..) => at_root(self.joined(counted)),
            What::Scatter(..) => self.data(self.root, rank, self.elements),
            What::Scatterv(..) => self.data(self.root, rank, self.count(rank)),
            What::Allgather(..) => self.joined(|rank| self.own(rank)),
            What::Allgatherv(..) => self.joined(counted),
            What::Alltoall(_) | What::AlltoallInPlace => {
                self.joined(|from| self.data(from, rank, self.elements))
            }
            What::Alltoallv(_) => {
                self.joined(|from| self.data(from, rank, self.pair_count(from, rank)))
            }
            What::AlltoallvInPlace => {
                self.joined(|from| self.data(from, rank, self.symmetric_count(from, rank)))
            }
            What::Alltoallw(_) => scattered::expected(self, rank),
            What::AlltoallwInPlace => scattered::expected_in_place(self, rank),
            What::ReduceScatterBlock(_) => {
                self.combined(self.ranks(), |from| self.data(from, rank, self.elements))
            }
            What::ReduceScatter(_) => {
                self.combined(self.ranks(), |from| self.data(from, rank, self.count(rank)))
            }
            What::Scan(_) => self.combined(0..rank + 1, |rank| self.own(rank)),
            What::Exscan(_) if rank == 0 => self.own(0),
            What::Exscan(_) => self.combined(0..rank, |rank| self.own(rank)),
        }
    }

    pub(crate) fn symmetric_count(&self, a: u32, b: u32) -> usize {
        self.pair_count(a.min(b), a.max(b))
    }

    /// Makes the call at this rank, for the `round`th time, and returns this rank's data. `entered`
    /// counts the calls of all ranks.
    pub(crate) async fn perform<G: Group<Byte = u8>>(
        &self,
        group: &G,
        entered: &Cell<u32>,
        round: u32,
    ) -> Result<Vec<u8>, Failure<G>> {
        entered.set(entered.get() + 1);
        match self.what {
            What::Barrier(algorithm) => {
                barrier(group, algorithm).await?;
                assert!(entered.get() >= round * self.size, "left before all had come");
                Ok(Vec::new())
            }
            What::Broadcast(_) | What::Gather(..) | What::Gatherv(..) => {
                self.perform_rooted(group).await
            }
            What::Scatter(..) | What::Scatterv(..) => self.perform_scatter(group).await,
            What::Allgather(..) | What::Allgatherv(..) => self.perform_allgather(group).await,
            What::Alltoall(_)
            | What::Alltoallv(_)
            | What::AlltoallInPlace
            | What::AlltoallvInPlace => self.perform_alltoall(group).await,
            What::Alltoallw(algorithm) => scattered::perform(self, group, algorithm).await,
            What::AlltoallwInPlace => scattered::perform_in_place(self, group).await,
            _ => self.perform_reduction(group).await,
        }
    }

    async fn perform_rooted<G: Group<Byte = u8>>(&self, group: &G) -> Result<Vec<u8>, Failure<G>> {
        let (rank, root) = (group.rank(), self.root);
        let at_root = rank == root;
        match self.what {
            What::Broadcast(algorithm) => {
                let mut data = self.own(if at_root { root } else { rank });
                broadcast(group, algorithm, &mut data, root).await?;
                Ok(data)
            }
            What::Gather(algorithm, in_place) => {
                let (mine, stride) = (self.own(rank), self.elements * WIDTH);
                let mut all = vec![0; if at_root { stride * self.size as usize } else { 0 }];
                let in_place = in_place && at_root;
                if in_place {
                    all[root as usize * stride..][..stride].copy_from_slice(&mine);
                }
                let mine = (!in_place).then_some(&mine[..]);
                gather(group, algorithm, mine, &mut all, root).await?;
                Ok(all)
            }
            What::Gatherv(algorithm, in_place) => {
                let mine = self.data(rank, 0, self.count(rank));
                let place = |rank| vec![0; self.count(rank) * WIDTH];
                let mut places: Vec<Vec<u8>> =
                    if at_root { self.ranks().map(place).collect() } else { Vec::new() };
                let in_place = in_place && at_root;
                if in_place {
                    places[root as usize].copy_from_slice(&mine);
                }
                let mine = (!in_place).then_some(&mine[..]);
                let blocks = places.iter_mut().map(Vec::as_mut_slice).collect();
                gatherv(group, algorithm, mine, blocks, root).await?;
                Ok(places.concat())
            }
            _ => unreachable!("the caller has these only"),
        }
    }

    async fn perform_scatter<G: Group<Byte = u8>>(&self, group: &G) -> Result<Vec<u8>, Failure<G>> {
        let (rank, root) = (group.rank(), self.root);
        let at_root = rank == root;
        let (length, in_place) = match self.what {
            What::Scatterv(_, in_place) => (self.count(rank), in_place && at_root),
            What::Scatter(_, in_place) => (self.elements, in_place && at_root),
            _ => unreachable!("the caller has these only"),
        };
        let part = |to| match self.what {
            What::Scatterv(..) => self.data(root, to, self.count(to)),
            _ => self.data(root, to, self.elements),
        };
        let parts: Vec<Vec<u8>> =
            if at_root { self.ranks().map(part).collect() } else { Vec::new() };
        let mut mine = if in_place { part(rank) } else { vec![0; length * WIDTH] };
        let into = (!in_place).then_some(&mut mine[..]);
        if let What::Scatter(algorithm, _) = self.what {
            scatter(group, algorithm, &parts.concat(), into, root).await?;
        } else if let What::Scatterv(algorithm, _) = self.what {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            scatterv(group, algorithm, &parts, into, root).await?;
        }
        Ok(mine)
    }

    async fn perform_allgather<G: Group<Byte = u8>>(
        &self,
        group: &G,
    ) -> Result<Vec<u8>, Failure<G>> {
        let varied = matches!(self.what, What::Allgatherv(..));
        let count = |rank| if varied { self.count(rank) } else { self.elements };
        let lengths: Vec<usize> = self.ranks().map(|rank| count(rank) * WIDTH).collect();
        let (What::Allgather(_, in_place) | What::Allgatherv(_, in_place)) = self.what else {
            unreachable!("the caller has these only")
        };
        let own = self.data(group.rank(), 0, count(group.rank()));
        let mut data = self.joined(|rank| match rank == group.rank() && in_place {
            true => own.clone(),
            false => vec![0xEE; lengths[rank as usize]],
        });
        let mine = (!in_place).then_some(&own[..]);
        match self.what {
            What::Allgather(algorithm, _) => allgather(group, algorithm, mine, &mut data).await?,
            What::Allgatherv(algorithm, _) => {
                allgatherv(group, algorithm, mine, &mut data, &lengths).await?;
            }
            _ => unreachable!("the caller has these only"),
        }
        Ok(data)
    }

    async fn perform_alltoall<G: Group<Byte = u8>>(
        &self,
        group: &G,
    ) -> Result<Vec<u8>, Failure<G>> {
        let rank = group.rank();
        let count = |from, to| match self.what {
            What::Alltoall(_) | What::AlltoallInPlace => self.elements,
            What::AlltoallvInPlace => self.symmetric_count(from, to),
            _ => self.pair_count(from, to),
        };
        let mut parts: Vec<Vec<u8>> =
            self.ranks().map(|to| self.data(rank, to, count(rank, to))).collect();
        let mut into: Vec<Vec<u8>> =
            self.ranks().map(|from| vec![0; count(from, rank) * WIDTH]).collect();
        match self.what {
            What::Alltoall(algorithm) => {
                let mut all = into.concat();
                alltoall(group, algorithm, &parts.concat(), &mut all).await?;
                return Ok(all);
            }
            What::AlltoallInPlace => {
                let mut all = parts.concat();
                alltoall_in_place(group, &mut all).await?;
                return Ok(all);
            }
            What::Alltoallv(algorithm) => {
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                let places = into.iter_mut().map(Vec::as_mut_slice).collect();
                alltoallv(group, algorithm, &parts, places).await?;
            }
            _ => {
                let blocks = parts.iter_mut().map(Vec::as_mut_slice).collect();
                alltoallv_in_place(group, blocks).await?;
                return Ok(parts.concat());
            }
        }
        Ok(into.concat())
    }

    async fn perform_reduction<G: Group<Byte = u8>>(
        &self,
        group: &G,
    ) -> Result<Vec<u8>, Failure<G>> {
        let (rank, reduction) = (group.rank(), self.reduction());
        let mut data = self.own(rank);
        match self.what {
            What::Reduce(algorithm) => {
                reduce(group, algorithm, &mut data, self.root, reduction).await?;
                data.truncate(if rank == self.root { data.len() } else { 0 });
            }
            What::Allreduce(algorithm) => {
                allreduce(group, algorithm, &mut data, reduction).await?;
            }
            What::Scan(algorithm) => scan(group, algorithm, &mut data, reduction).await?,
            What::Exscan(algorithm) => exscan(group, algorithm, &mut data, reduction).await?,
            What::ReduceScatterBlock(algorithm) => {
                let mut all = self.joined(|to| self.data(rank, to, self.elements));
                reduce_scatter_block(group, algorithm, &mut all, &mut data, reduction).await?;
            }
            What::ReduceScatter(algorithm) => {
                let mut all = self.joined(|to| self.data(rank, to, self.count(to)));
                let lengths: Vec<usize> =
                    self.ranks().map(|rank| self.count(rank) * WIDTH).collect();
                data = vec![0; lengths[rank as usize]];
                reduce_scatter(group, algorithm, &mut all, &lengths, &mut data, reduction).await?;
            }
            _ => unreachable!("the caller has these only"),
        }
        Ok(data)
    }
}

/// Every operation with every algorithm and variant.
pub(crate) fn everything() -> Vec<What> {
    fn each<A: Copy + 'static>(all: &'static [A]) -> impl Iterator<Item = Option<A>> {
        std::iter::once(None).chain(all.iter().copied().map(Some))
    }
    use hikyaku_coll::{allgather, allreduce, alltoall, alltoallw, barrier, broadcast};
    use hikyaku_coll::{gather, reduce, reduce_scatter, scan, scatter};
    let mut all = vec![What::AlltoallInPlace, What::AlltoallvInPlace, What::AlltoallwInPlace];
    all.extend(each(barrier::Algorithm::ALL).map(What::Barrier));
    all.extend(each(broadcast::Algorithm::ALL).map(What::Broadcast));
    all.extend(each(reduce::Algorithm::ALL).map(What::Reduce));
    all.extend(each(allreduce::Algorithm::ALL).map(What::Allreduce));
    for in_place in [false, true] {
        all.extend(each(gather::Algorithm::ALL).map(|by| What::Gather(by, in_place)));
        all.extend(each(gather::Algorithm::ALL).map(|by| What::Gatherv(by, in_place)));
        all.extend(each(scatter::Algorithm::ALL).map(|by| What::Scatter(by, in_place)));
        all.extend(each(scatter::Algorithm::ALL).map(|by| What::Scatterv(by, in_place)));
        all.extend(each(allgather::Algorithm::ALL).map(|by| What::Allgather(by, in_place)));
        all.extend(each(allgather::Algorithm::ALL).map(|by| What::Allgatherv(by, in_place)));
    }
    all.extend(
        each(alltoall::Algorithm::ALL).flat_map(|by| [What::Alltoall(by), What::Alltoallv(by)]),
    );
    all.extend(each(alltoallw::Algorithm::ALL).map(What::Alltoallw));
    all.extend(
        each(reduce_scatter::Algorithm::ALL)
            .flat_map(|by| [What::ReduceScatterBlock(by), What::ReduceScatter(by)]),
    );
    all.extend(each(scan::Algorithm::ALL).flat_map(|by| [What::Scan(by), What::Exscan(by)]));
    all
}
