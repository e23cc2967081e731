//! Runs any collective by name on simulated ranks, with a known answer that is checked.

use hikyaku::Layout;
use hikyaku_coll::{
    Choices, CollError, Combination, Group, Operation, Reduction, allgather, allreduce, alltoall,
    alltoallw, barrier, broadcast, exscan, gather, reduce, reduce_scatter_block, scan, scatter,
};
use hikyaku_sim::SimError;
use thiserror::Error;

use super::rank::{BufferUnit, SimulatedRank};

/// The reason why a collective did not return its answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CollError<SimError>),
    /// The answer is wrong: a fault of the algorithm or of the simulator.
    #[error("{operation} gave rank {rank} {found} in place {place}, where {expected} belongs")]
    Wrong {
        /// The operation's name.
        operation: &'static str,
        /// The rank that got it.
        rank: u32,
        /// Index of the byte in the result.
        place: usize,
        /// The byte found.
        found: u8,
        /// The byte expected.
        expected: u8,
    },
}

/// The algorithms of an operation that some machine runs. The others need memory that ranks share.
pub fn algorithms(operation: Operation) -> impl Iterator<Item = &'static str> {
    let shared = |name: &str| ["atomic-add", "multicast-add", "lines", "read"].contains(&name);
    operation.algorithms().iter().copied().filter(move |name| !shared(name))
}

/// Runs a collective once, with `bytes` bytes per part, and checks the result if messages carry
/// bytes.
///
/// A part is the amount that MPI's count describes: the whole of the data in a broadcast or a
/// reduction, elsewhere the data from one rank to one other. Rank 0 is the root, and numbers are
/// added byte by byte. If `choices` names no algorithm, the table of `coll` chooses.
///
/// # Errors
/// [`CollectiveError`]: the call fails, as with an algorithm that does not suit the ranks.
pub async fn collective<U: BufferUnit>(
    group: &SimulatedRank<U>,
    operation: Operation,
    choices: &Choices,
    bytes: usize,
) -> Result<(), CollectiveError> {
    let (me, size) = (Group::rank(group), group.size());
    let part = |rank: u32, block: u32| vec![U::from_byte(value(rank, block)); bytes];
    let to_all = || to_all::<U>(me, size, bytes);
    let nothing = || vec![U::default(); bytes * size as usize];
    let sum = Reduction { combination: Combination::SUM, ..Reduction::commutative(1, U::add) };
    let check = ResultCheck { operation, rank: me, bytes };
    match operation {
        Operation::Barrier => Ok(barrier(group, choices.barrier).await?),
        Operation::Broadcast => {
            let mut data = part(me, 0);
            broadcast(group, choices.broadcast, &mut data, 0).await?;
            check.block(&data, value(0, 0))
        }
        Operation::Reduce => {
            let mut data = part(me, 0);
            reduce(group, choices.reduce, &mut data, 0, sum).await?;
            if me == 0 { check.block(&data, total(size, 0)) } else { Ok(()) }
        }
        Operation::Allreduce => {
            let mut data = part(me, 0);
            allreduce(group, choices.allreduce, &mut data, sum).await?;
            check.block(&data, total(size, 0))
        }
        Operation::Gather => {
            let (mine, mut all) = (part(me, 0), if me == 0 { nothing() } else { Vec::new() });
            gather(group, choices.gather, Some(&mine), &mut all, 0).await?;
            check.blocks(&all, |rank| value(rank, 0))
        }
        Operation::Scatter => {
            let (all, mut mine) = (if me == 0 { to_all() } else { Vec::new() }, part(me, 0));
            scatter(group, choices.scatter, &all, Some(&mut mine), 0).await?;
            check.block(&mine, value(0, me))
        }
        Operation::Allgather => {
            let (mine, mut all) = (part(me, 0), nothing());
            allgather(group, choices.allgather, Some(&mine), &mut all).await?;
            check.blocks(&all, |rank| value(rank, 0))
        }
        Operation::Alltoall => {
            let (mine, mut all) = (to_all(), nothing());
            alltoall(group, choices.alltoall, &mine, &mut all).await?;
            check.blocks(&all, |rank| value(rank, me))
        }
        Operation::Alltoallw => by_layouts(group, choices, &check).await,
        Operation::ReduceScatter => {
            let (mut all, mut mine) = (to_all(), part(me, 0));
            let algorithm = choices.reduce_scatter;
            reduce_scatter_block(group, algorithm, &mut all, &mut mine, sum).await?;
            check.block(&mine, total(size, me))
        }
        Operation::Scan => {
            let mut data = part(me, 0);
            scan(group, choices.scan, &mut data, sum).await?;
            check.block(&data, total(me + 1, 0))
        }
        Operation::Exscan => {
            let mut data = part(me, 0);
            exscan(group, choices.exscan, &mut data, sum).await?;
            // The result of rank 0 is undefined (MPI 5.0 §6.11.2).
            if me > 0 { check.block(&data, total(me, 0)) } else { Ok(()) }
        }
    }
}

/// An all-to-all of parts in two pieces.
async fn by_layouts<U: BufferUnit>(
    group: &SimulatedRank<U>,
    choices: &Choices,
    check: &ResultCheck,
) -> Result<(), CollectiveError> {
    let (me, size, bytes) = (check.rank, group.size(), check.bytes);
    let (mine, mut all) = (halves(me, size, bytes), vec![U::default(); bytes * size as usize]);
    let (parts, rows) = (in_halves(size, bytes), in_rows(size, bytes));
    alltoallw(group, choices.alltoallw, &mine, &parts, &mut all, &rows).await?;
    check.blocks(&all, |rank| value(rank, me))
}

/// The layouts of parts in two pieces: the first halves of all, then the others.
fn in_halves(size: u32, bytes: usize) -> Vec<Layout> {
    let (size, first) = (size as usize, bytes / 2);
    let rest = bytes - first;
    let halves = |to| [(to * first, first), (size * first + to * rest, rest)];
    (0..size).map(|to| Layout::indexed(&halves(to))).collect()
}

/// The parts of a rank for all others, in the layouts of [`in_halves`].
fn halves<U: BufferUnit>(me: u32, size: u32, bytes: usize) -> Vec<U> {
    let mut all = Vec::new();
    for length in [bytes / 2, bytes - bytes / 2] {
        for to in 0..size {
            all.extend_from_slice(&vec![U::from_byte(value(me, to)); length]);
        }
    }
    all
}

/// The layouts of consecutive parts.
fn in_rows(size: u32, bytes: usize) -> Vec<Layout> {
    (0..size as usize).map(|from| Layout::contiguous(from * bytes, bytes)).collect()
}

/// All parts of one rank, one for every rank. They are built part by part and not unit by unit:
/// with lengths only a part is a number, and 4,096 ranks have 16 million of them.
fn to_all<U: BufferUnit>(me: u32, size: u32, bytes: usize) -> Vec<U> {
    let mut all = Vec::new();
    for block in 0..size {
        all.extend_from_slice(&vec![U::from_byte(value(me, block)); bytes]);
    }
    all
}

/// The value of every byte in a rank's part for a block.
fn value(rank: u32, block: u32) -> u8 {
    (rank.wrapping_mul(7) ^ block.wrapping_mul(13)).wrapping_add(1) as u8
}

/// The sum of the parts of the first `ranks` ranks for a block.
fn total(ranks: u32, block: u32) -> u8 {
    (0..ranks).map(|rank| value(rank, block)).fold(0, u8::wrapping_add)
}

/// Compares results with the expected ones.
struct ResultCheck {
    operation: Operation,
    rank: u32,
    bytes: usize,
}

impl ResultCheck {
    fn block<U: BufferUnit>(&self, units: &[U], expected: u8) -> Result<(), CollectiveError> {
        let wrong = units.iter().position(|unit| unit.byte().is_some_and(|byte| byte != expected));
        let Some(place) = wrong else { return Ok(()) };
        let (operation, rank) = (self.operation.name(), self.rank);
        let found = units[place].byte().unwrap_or_default();
        Err(CollectiveError::Wrong { operation, rank, place, found, expected })
    }

    /// Checks a block of each rank.
    fn blocks<U: BufferUnit>(
        &self,
        units: &[U],
        expected: impl Fn(u32) -> u8,
    ) -> Result<(), CollectiveError> {
        let blocks = units.chunks(self.bytes.max(1));
        (0..).zip(blocks).try_for_each(|(rank, block)| self.block(block, expected(rank)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_built_by_their_lengths() {
        let all = to_all::<u8>(2, 3, 2);
        assert_eq!(all, [0, 0, 1, 1, 2, 2].map(|block| value(2, block)));
        // One by one these would take an hour.
        assert_eq!(to_all::<()>(2, 1 << 12, 1 << 30).len(), 1 << 42);
    }
}
