//! Collectives that carry data: allreduce, broadcast, gather, scatter, reduce, allgather(v),
//! alltoall(v), reduce_scatter and scan. [`super::barrier`] carries none.
//!
//! Every repetition needs all ranks, or their next root: roots alternate. So no rank can run ahead
//! of the others and be measured on calls that no rank has answered yet. Scans alternate between
//! ascending and descending ranks, on two communicators: no rank waits for the last rank of one.
//!
//! Fresh: sums are in place, a root sends the data that it has received, and a rank contributes to
//! an allgather or alltoall the data that it received in the last one. So all data has just been
//! written, as in a program that computes. Warm: a rank's contribution is in a buffer that nothing
//! writes, and its result in another that nothing reads. hikyaku has only sums in place, so there a
//! rank copies its contribution to the place of the sum, within the measured time. A reduce_scatter
//! may overwrite its input.

use hikyaku::{Error, Op, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts, barrier};
use crate::arguments::BenchSettings;
use crate::buffers::Sets;
use crate::control::{BlockAnswer, BlockCommand, DataReuse, Verb};
use crate::rank::{self, RankError};

/// Message sizes of broadcast, of each rank's part of gather, scatter and allgather(v), and of each
/// part of alltoall(v).
const SIZES: [u64; 3] = [8, 1 << 10, 64 << 10];

/// Message sizes of allreduce, reduce, scan and of each rank's part of reduce_scatter: one number,
/// as in a solver's test for convergence, and a vector.
const REDUCED_SIZES: [u64; 2] = [8, 64 << 10];

/// Bytes of a number that is summed.
const NUMBER_BYTES: u64 = size_of::<f64>() as u64;

/// One point per collective, rank count and size, on a machine of `cores` usable cores.
pub(crate) fn points(settings: &BenchSettings, cores: u32) -> Vec<MeasuredPoint> {
    let counts = if settings.ranks.is_empty() { &barrier::RANKS[..] } else { &settings.ranks };
    let given = |own: &[u64]| -> Vec<u64> {
        let sizes = if settings.sizes.is_empty() { own } else { &settings.sizes };
        sizes.iter().copied().filter(|bytes| *bytes > 0).collect()
    };
    let (sizes, mut reduced) = (given(&SIZES), given(&REDUCED_SIZES));
    reduced.retain(|bytes| bytes % NUMBER_BYTES == 0);
    let mut points = Vec::new();
    for ranks in counts {
        let group = CoreGroup { ranks: *ranks, cores };
        points.extend(reduced.iter().map(|bytes| group.allreduce(*bytes)));
        points.extend(sizes.iter().map(|bytes| group.broadcast(*bytes)));
        points.extend(reduced.iter().map(|bytes| group.reduce(*bytes)));
        points.extend(sizes.iter().map(|bytes| group.gather(*bytes)));
        points.extend(sizes.iter().map(|bytes| group.scatter(*bytes)));
        for (kind, verb) in [
            (FigureKind::Allgather, Verb::Allgather),
            (FigureKind::Allgatherv, Verb::Allgatherv),
            (FigureKind::Alltoall, Verb::Alltoall),
            (FigureKind::Alltoallv, Verb::Alltoallv),
        ] {
            points.extend(sizes.iter().map(|bytes| group.of_blocks(kind, verb, *bytes)));
        }
        points.extend(reduced.iter().map(|bytes| group.reduce_scatter(*bytes)));
        points.extend(reduced.iter().map(|bytes| group.scan(*bytes)));
    }
    points
}

/// A number of ranks on a number of cores.
struct CoreGroup {
    ranks: u32,
    cores: u32,
}

impl CoreGroup {
    /// Each rank reads the others' parts of its share and then all other shares.
    fn allreduce(&self, bytes: u64) -> MeasuredPoint {
        let copies = 2.0 * f64::from(self.ranks - 1) / f64::from(self.ranks);
        from_heap(self.point(FigureKind::Allreduce, bytes, self.all(), copies), Verb::Allreduce)
    }

    /// Each rank reads the others' parts of its share.
    fn reduce_scatter(&self, bytes: u64) -> MeasuredPoint {
        let copies = f64::from(self.ranks - 1);
        let point = self.point(FigureKind::ReduceScatter, bytes, self.all(), copies);
        from_heap(point, Verb::ReduceScatter)
    }

    /// Each rank reads the sum of the rank before it. Only the rank with which the next scan
    /// begins, the last one, waits for all.
    fn scan(&self, bytes: u64) -> MeasuredPoint {
        from_heap(self.point(FigureKind::Scan, bytes, self.all(), 1.0), Verb::Scan)
    }

    /// Each rank reads the root's message. Only the next root is waited for: the others may take
    /// several messages in a row when they run.
    fn broadcast(&self, bytes: u64) -> MeasuredPoint {
        let next = PartCounts::hop(self.ranks, self.cores);
        self.in_both_memories(self.point(FigureKind::Broadcast, bytes, next, 1.0), Verb::Broadcast)
    }

    /// The root reads the numbers of all others. Only the next root is waited for, as for
    /// [`CoreGroup::broadcast`].
    fn reduce(&self, bytes: u64) -> MeasuredPoint {
        let (next, copies) = (PartCounts::hop(self.ranks, self.cores), f64::from(self.ranks - 1));
        from_heap(self.point(FigureKind::Reduce, bytes, next, copies), Verb::Reduce)
    }

    /// The root reads a block of every other rank; the rest as [`CoreGroup::reduce`].
    fn gather(&self, bytes: u64) -> MeasuredPoint {
        let (next, copies) = (PartCounts::hop(self.ranks, self.cores), f64::from(self.ranks - 1));
        self.in_both_memories(self.point(FigureKind::Gather, bytes, next, copies), Verb::Gather)
    }

    /// Each rank reads its block of the root's; the rest as [`CoreGroup::broadcast`].
    fn scatter(&self, bytes: u64) -> MeasuredPoint {
        let next = PartCounts::hop(self.ranks, self.cores);
        self.in_both_memories(self.point(FigureKind::Scatter, bytes, next, 1.0), Verb::Scatter)
    }

    /// Each rank reads a block of every other rank.
    fn of_blocks(&self, kind: FigureKind, verb: Verb, bytes: u64) -> MeasuredPoint {
        let copies = f64::from(self.ranks - 1);
        self.in_both_memories(self.point(kind, bytes, self.all(), copies), verb)
    }

    /// From heap and from allocated memory.
    fn in_both_memories(&self, point: MeasuredPoint, verb: Verb) -> MeasuredPoint {
        let heap = MeasuredForm::heap("heap", verb);
        let ours = vec![heap, MeasuredForm::allocated("allocated", verb)];
        MeasuredPoint { ours, theirs: vec![heap], ..point }
    }

    /// Every rank waits for every rank.
    fn all(&self) -> PartCounts {
        PartCounts::signal(self.ranks, self.cores)
    }

    fn point(
        &self,
        kind: FigureKind,
        bytes: u64,
        signal: PartCounts,
        copies: f64,
    ) -> MeasuredPoint {
        let bare = signal.with_copies(copies, bytes, self.ranks, self.cores);
        MeasuredPoint::new(kind, self.ranks, bytes, Bare::Parts(bare))
    }
}

/// From heap alone.
fn from_heap(point: MeasuredPoint, verb: Verb) -> MeasuredPoint {
    let heap = MeasuredForm::heap("", verb);
    MeasuredPoint { ours: vec![heap], theirs: vec![heap], ..point }
}

/// The ranks' side of allreduce. The sums are of zeros, so that no repetition overflows.
pub(crate) fn serve_allreduce(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut numbers = Sets::in_place(world, command, 1, 0.0_f64)?;
    rank::whole(world, command, || {
        give(&mut numbers, command);
        world.allreduce(numbers.receive(), Op::Sum)
    })
}

/// Copies a warm contribution to the place of a sum in place.
fn give(numbers: &mut Sets<f64>, command: &BlockCommand) {
    if command.data == DataReuse::Warm {
        let (given, sum) = numbers.both();
        sum.copy_from_slice(given);
    }
}

/// Repetitions of `call` with each rank as the root in turn.
fn roots_in_turns(
    world: &World,
    command: &BlockCommand,
    mut call: impl FnMut(u32) -> Result<(), Error>,
) -> Result<BlockAnswer, RankError> {
    let mut root = 0;
    rank::whole(world, command, || {
        call(root)?;
        root = (root + 1) % world.size();
        Ok(())
    })
}

/// The ranks' side of broadcast.
pub(crate) fn serve_broadcast(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_place(world, command, 1, 1_u8)?;
    roots_in_turns(world, command, |root| {
        let message = if world.rank() == root { sets.send() } else { sets.receive() };
        world.broadcast::<u8>(message, root)
    })
}

/// The ranks' side of gather. Fresh contributions were received as a root.
pub(crate) fn serve_gather(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_turns(world, command, world.size(), 1_u8)?;
    let bytes = sets.send().len() / world.size() as usize;
    roots_in_turns(world, command, |root| {
        let (from, to) = sets.both();
        world.gather_into::<u8>(&from[..bytes], to, root)?;
        if world.rank() == root {
            sets.turn();
        }
        Ok(())
    })
}

/// The ranks' side of scatter. The first fresh block of a root has just arrived.
pub(crate) fn serve_scatter(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_turns(world, command, world.size(), 1_u8)?;
    let bytes = sets.send().len() / world.size() as usize;
    roots_in_turns(world, command, |root| {
        let (from, to) = sets.both();
        world.scatter::<u8>(from, &mut to[..bytes], root)?;
        sets.turn();
        Ok(())
    })
}

/// The ranks' side of reduce. The sums are of zeros, so that no repetition overflows.
pub(crate) fn serve_reduce(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut numbers = Sets::in_place(world, command, 1, 0.0_f64)?;
    roots_in_turns(world, command, |root| {
        give(&mut numbers, command);
        world.reduce(numbers.receive(), Op::Sum, root)
    })
}

/// Repetitions of `call` from a block of each rank to another such set, alternating.
fn blocks_in_turns(
    world: &World,
    command: &BlockCommand,
    mut call: impl FnMut(&[u8], &mut [u8], usize) -> Result<(), Error>,
) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_turns(world, command, world.size(), 1_u8)?;
    let bytes = sets.send().len() / world.size() as usize;
    rank::whole(world, command, || {
        let (from, to) = sets.both();
        call(from, to, bytes)?;
        sets.turn();
        Ok(())
    })
}

/// A rank's contribution to an allgather. Fresh data is the block of the next rank.
fn next_block<'a>(world: &World, from: &'a [u8], bytes: usize) -> &'a [u8] {
    &from[bytes * ((world.rank() + 1) % world.size()) as usize..][..bytes]
}

/// The ranks' side of allgather.
pub(crate) fn serve_allgather(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    blocks_in_turns(world, command, |from, to, bytes| {
        world.allgather::<u8>(next_block(world, from, bytes), to)
    })
}

/// The ranks' side of allgatherv.
pub(crate) fn serve_allgatherv(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut counts = vec![0; world.size() as usize];
    blocks_in_turns(world, command, |from, to, bytes| {
        counts.fill(bytes);
        world.allgatherv::<u8>(next_block(world, from, bytes), to, &counts)
    })
}

/// The ranks' side of alltoall. A rank's fresh block for another rank has come from that rank.
pub(crate) fn serve_alltoall(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    blocks_in_turns(world, command, |from, to, _| world.alltoall::<u8>(from, to))
}

/// The ranks' side of alltoallv. Its lists are made for each call, within the measured time.
pub(crate) fn serve_alltoallv(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    blocks_in_turns(world, command, |from, to, bytes| {
        let parts: Vec<&[u8]> = from.chunks_exact(bytes).collect();
        world.alltoallv(&parts, to.chunks_exact_mut(bytes).collect())
    })
}

/// The ranks' side of reduce_scatter. The sums are of zeros. The first fresh numbers of a rank's
/// contribution were received the last time.
pub(crate) fn serve_reduce_scatter(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_turns(world, command, world.size(), 0.0_f64)?;
    let numbers = sets.send().len() / world.size() as usize;
    rank::whole(world, command, || {
        let (from, to) = sets.both();
        world.reduce_scatter_block(from, &mut to[..numbers], Op::Sum)?;
        sets.turn();
        Ok(())
    })
}

/// The ranks' side of scan. The sums are of zeros, so that no repetition overflows.
pub(crate) fn serve_scan(world: &World, command: &BlockCommand) -> Result<BlockAnswer, RankError> {
    // In `reversed` the last rank has the lowest key; every rank has a colour, and so a part.
    let reversed = world.split(0, -(world.rank() as i32))?;
    let mut ways = [Some(world), reversed.as_ref()].into_iter().flatten().cycle();
    let mut numbers = Sets::in_place(world, command, 1, 0.0_f64)?;
    rank::whole(world, command, || {
        give(&mut numbers, command);
        ways.next().map_or(Ok(()), |way| way.scan(numbers.receive(), Op::Sum))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::arguments::tests::parse;

    fn points_of(line: &str) -> Vec<MeasuredPoint> {
        points(&parse(&format!("collectives {line}")).unwrap().settings().unwrap(), 2)
    }

    fn sizes(points: &[MeasuredPoint], kind: FigureKind) -> Vec<u64> {
        points.iter().filter(|point| point.kind == kind).map(|point| point.bytes).collect()
    }

    #[test]
    fn each_collective_has_its_sizes_at_each_rank_count() {
        let points = points_of("-n 4");
        assert_eq!(sizes(&points, FigureKind::Allreduce), REDUCED_SIZES);
        assert_eq!(sizes(&points, FigureKind::Broadcast), SIZES);
        for kind in [FigureKind::Reduce, FigureKind::ReduceScatter, FigureKind::Scan] {
            assert_eq!(sizes(&points, kind), REDUCED_SIZES);
        }
        for kind in [FigureKind::Gather, FigureKind::Scatter] {
            assert_eq!(sizes(&points, kind), SIZES);
        }
        use FigureKind::{Allgather, Allgatherv, Alltoall, Alltoallv};
        for kind in [Allgather, Allgatherv, Alltoall, Alltoallv] {
            assert_eq!(sizes(&points, kind), SIZES);
        }
        assert_eq!(points_of("").len(), 3 * points.len());
    }

    #[test]
    fn numbers_are_summed_whole_and_nothing_is_not_sent() {
        let points = points_of("-n 2 --sizes 0,12,16");
        assert_eq!(sizes(&points, FigureKind::Allreduce), [16]);
        assert_eq!(sizes(&points, FigureKind::Broadcast), [12, 16]);
    }

    #[test]
    fn the_copies_of_the_ranks_of_a_core_add_up() {
        let copies = |ranks, bytes, kind| {
            let group = CoreGroup { ranks, cores: 2 };
            let point = match kind {
                FigureKind::Allreduce => group.allreduce(bytes),
                FigureKind::Broadcast => group.broadcast(bytes),
                FigureKind::Gather => group.gather(bytes),
                FigureKind::Scatter => group.scatter(bytes),
                _ => group.of_blocks(kind, Verb::Allgather, bytes),
            };
            match point.bare {
                Bare::Parts(parts) => parts.copies,
                _ => 0.0,
            }
        };
        assert_eq!(copies(2, 1 << 16, FigureKind::Broadcast), 1.0);
        assert_eq!(copies(4, 1 << 16, FigureKind::Broadcast), 2.0);
        assert_eq!(copies(4, 1 << 16, FigureKind::Gather), 6.0);
        assert_eq!(copies(4, 1 << 16, FigureKind::Scatter), 2.0);
        assert_eq!(copies(4, 1 << 16, FigureKind::Allgather), 6.0);
        assert_eq!(copies(4, 1 << 16, FigureKind::Allreduce), 3.0);
        assert_eq!(copies(4, 8, FigureKind::Allgather), 0.0);
    }
}
