//! The default algorithm: a table by operation, size, number of ranks and number of nodes.
//!
//! All ranks must choose the same algorithm, so a choice depends only on what all ranks know: never
//! on the length of one rank's part where parts may differ. (If lengths differ by mistake, ranks
//! may choose differently and fail with an error: [`crate::CollError::Differ`].)
//!
//! The thresholds are for messages in shared memory, as measured on two cores with 2 to 8 ranks;
//! [`crate::Choices`] overrides them by name where a machine differs. Rings and chains take as many
//! steps as there are ranks, so beyond some number of ranks the size from which they pay grows with
//! that number. This comes from simulated machines (`hikyaku simulate --sweep`), as does everything
//! that depends on whether the ranks are on [several nodes](spread): there every rank has a
//! processor and an interface of its own, so that many messages at once cost no more than their
//! lengths.
//!
//! The table never chooses `read`. If no rank has written the data since the last call, `read`
//! takes 0.4 to 0.8 of the time of the others; if a rank on a far core has just written it, 1.5 to
//! 5 times as long (two ranks, 64 KiB to 16 MiB, an EPYC), since lines and rings are stored past
//! the caches. The table cannot know what the program did before, and all ranks have to choose
//! alike. Whether long data use lines or messages is measured: [`crate::long`].
//!
//! Where a group knows what its [messages cost](Group::costs), an algorithm with a lower estimate
//! replaces the table's: for parts of equal length, and for reductions whose bits do not depend on
//! the order. Floating-point reductions keep the table's order on every machine.

use crate::algorithms::{
    allgather, allreduce, alltoall, alltoallw, barrier, broadcast, gather, reduce, reduce_scatter,
    scan, scatter,
};
use crate::costs::{Costs, Estimate};
use crate::group::{Facilities, Group, Network};
use crate::list::MOST_LISTED;
use crate::long::OffLines;
use crate::mates::Mates;
use crate::names::Operation;

/// From this many bytes on the ring beats recursive doubling: copies dominate, not messages.
const RING_FROM: usize = 64 << 10;

/// The same for two ranks, where both move as much and the ring adds half of it at each rank, in
/// one more step. Between hosts, 1 MiB: 0.9 of the time; 128 KiB: twice as long.
const RING_OF_TWO_FROM: usize = 512 << 10;

/// From this many bytes on a chain of segments beats the tree, with three ranks or more.
const PIPELINE_FROM: usize = 256 << 10;

/// The longest result, in bytes, that is gathered by doubling rather than round the ring.
const DOUBLING_UP_TO: usize = 32 << 10;

/// The largest number of ranks for that limit: those measured in shared memory.
const DOUBLING_RANKS: u32 = 8;

/// The longest part of an all-to-all, in bytes, that is worth sending several times to save
/// messages.
const BRUCK_UP_TO: usize = 256;

/// From this many ranks on, trees and Bruck's algorithm save more than they copy.
const MANY_RANKS: u32 = 32;

/// The longest part, in bytes, that a gather or scatter among many ranks sends through a tree.
const TREE_UP_TO: usize = 1 << 10;

/// The maximum number of ranks on separate nodes whose parts a root receives or sends one by one.
const FLAT_RANKS: u32 = 512;

/// The maximum number of ranks on separate nodes for which an all-to-all starts all its messages at
/// once: beyond, the state of the messages is larger than their data.
const AT_ONCE_RANKS: u32 = 1024;

/// The shortest part, in bytes, for which ranks on separate nodes scatter a reduction round the
/// ring; below, the number of steps dominates, not the bytes.
const SCATTER_RING_FROM: usize = 4 << 10;

/// From this many bytes on a scan of few ranks of a node goes from rank to rank in segments: each
/// rank receives and combines the data once, and not log2 n times.
const CHAINED_FROM: usize = 32 << 10;

/// The largest number of ranks for that, as measured.
const CHAINED_RANKS: u32 = 8;

/// The maximum number of ranks that poll all lines.
const MOST_ON_LINES: usize = 112;

/// The maximum bytes that each rank writes or reads by lines where each rank has its own part.
const LINES_UP_TO: usize = 64 << 10;

/// The same for a gather, scatter or reduction: bytes of all ranks together, which only the root
/// reads or writes.
const ROOTED_LINES_UP_TO: usize = 64 << 10;

/// The most bytes that two ranks reduce by lines. A longer message is copied once, if the kernel
/// copies: 16 KiB took 3.4 us by lines, 2.8 by messages, 32 KiB 5.6 and 4.8; data that no rank has
/// written in between 3.3 and 2.4, 5.3 and 3.2; 8 KiB the same (two processors of a Xeon).
const REDUCED_BY_TWO_UP_TO: usize = 8 << 10;

/// An algorithm replaces the table's if its estimate is less than this fraction of the other:
/// estimates are not more precise, and near-equal estimates shall not make machines differ.
const FASTER: f64 = 0.95;

/// The algorithm that the program named, unless it needs lines and they are lost: then the table's.
#[inline]
pub(crate) fn resolve<A: PartialEq>(
    group: &impl Group,
    named: Option<A>,
    needs_lines: impl FnOnce(&A) -> bool,
    table: impl FnOnce() -> A,
) -> A {
    let usable = |by: &A| !needs_lines(by) || group.mates().is_none() || group.facilities().lines;
    named.filter(usable).unwrap_or_else(table)
}

/// The algorithm to use where `by` needs the port's group of all ranks, and whether the call takes
/// turns on memory that ranks share. `None`: the group is lost, and the table decides.
#[cold]
pub(crate) fn on_network<A>(group: &impl Group, by: A) -> (Option<A>, bool) {
    match group.network() {
        // The group's own facilities, or an error.
        Network::Absent => (Some(by), false),
        Network::Lost => (None, false),
        Network::There => (Some(by), true),
    }
}

/// The algorithm that the costs of messages suggest, or the table's.
#[inline]
fn by_costs<A: Estimate>(group: &impl Group, table: A, all: &[A], bytes: usize) -> A {
    match known_costs(group) {
        Some(costs) => fastest(costs, group.size(), table, all, bytes),
        None => table,
    }
}

/// The costs of messages between nodes, if every rank has one of its own.
#[inline]
fn known_costs(group: &impl Group) -> Option<&Costs> {
    group.costs().filter(|_| spread(group))
}

/// The algorithm with the lowest estimate, or the table's if it is nearly as fast. The first among
/// equals.
fn fastest<A: Estimate>(costs: &Costs, ranks: u32, table: A, all: &[A], bytes: usize) -> A {
    let Some(usual) = table.estimate(ranks, bytes, costs) else { return table };
    let estimated = all.iter().filter_map(|by| Some((by.estimate(ranks, bytes, costs)?, *by)));
    match estimated.min_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((time, by)) if time < FASTER * usual => by,
        _ => table,
    }
}

/// Whether lines exist and are faster than messages.
#[inline]
fn lines(group: &impl Group) -> bool {
    pay(group, &group.facilities())
}

#[inline]
fn pay(group: &impl Group, facilities: &Facilities) -> bool {
    facilities.lines && group.mates().is_some_and(|mates| mates.pay(group.size()))
}

#[inline]
pub(crate) fn for_barrier(group: &impl Group) -> barrier::Algorithm {
    let facilities = group.facilities();
    if pay(group, &facilities) {
        return barrier::Algorithm::Lines;
    }
    barrier_by_messages(group, &facilities)
}

/// For a call of a group that has no lines, or none that this call can use. Later calls may be able
/// to use lines: this one was made before them.
pub(crate) fn for_barrier_by_messages(group: &impl Group) -> barrier::Algorithm {
    barrier_by_messages(group, &group.facilities())
}

fn barrier_by_messages(group: &impl Group, facilities: &Facilities) -> barrier::Algorithm {
    if facilities.sync {
        barrier::Algorithm::Sync
    } else if spread(group) {
        by_costs(group, barrier::Algorithm::Dissemination, barrier::Algorithm::ALL, 0)
    } else {
        barrier::Algorithm::WideTree
    }
}

pub(crate) fn for_broadcast(group: &impl Group, bytes: usize) -> broadcast::Algorithm {
    if lines(group) { broadcast::Algorithm::Lines } else { for_broadcast_by_messages(group, bytes) }
}

/// As [`for_barrier_by_messages`].
fn for_broadcast_by_messages(group: &impl Group, bytes: usize) -> broadcast::Algorithm {
    if group.facilities().multicast {
        return broadcast::Algorithm::Multicast;
    }
    by_costs(group, for_long_broadcast(group, bytes), broadcast::Algorithm::ALL, bytes)
}

/// For a broadcast that began by lines.
pub(crate) fn for_broadcast_after_lines(
    group: &impl Group,
    bytes: usize,
    why: OffLines,
) -> broadcast::Algorithm {
    match why {
        OffLines::Lost => for_broadcast_by_messages(group, bytes),
        OffLines::Slower => for_long_broadcast(group, bytes),
    }
}

fn for_long_broadcast(group: &impl Group, bytes: usize) -> broadcast::Algorithm {
    let is_long = bytes >= beyond(PIPELINE_FROM, MANY_RANKS, group.size()) && group.size() > 2;
    match is_long {
        true => broadcast::Algorithm::Pipelined,
        false => broadcast::Algorithm::Binomial,
    }
}

/// `exact`: the bits do not depend on the order of combining.
pub(crate) fn for_reduce(group: &impl Group, bytes: usize, exact: bool) -> reduce::Algorithm {
    let of_two = group.size() == 2 && bytes > REDUCED_BY_TWO_UP_TO;
    let table = match rooted_lines(group, bytes) && !of_two {
        true => reduce::Algorithm::Lines,
        false => for_reduce_by_messages(group),
    };
    if exact { by_costs(group, table, reduce::Algorithm::ALL, bytes) } else { table }
}

/// As [`for_barrier_by_messages`]. It combines in the order of lines, so the bits are the same.
pub(crate) fn for_reduce_by_messages(_: &impl Group) -> reduce::Algorithm {
    reduce::Algorithm::Binomial
}

/// `exact`: as for [`for_reduce`].
pub(crate) fn for_allreduce(
    group: &impl Group,
    bytes: usize,
    commutative: bool,
    exact: bool,
) -> allreduce::Algorithm {
    if lines(group) {
        return allreduce::Algorithm::Lines;
    }
    let table = for_allreduce_by_messages(group, bytes, commutative);
    if exact { by_costs(group, table, allreduce::Algorithm::ALL, bytes) } else { table }
}

/// As [`for_barrier_by_messages`].
pub(crate) fn for_allreduce_by_messages(
    group: &impl Group,
    bytes: usize,
    commutative: bool,
) -> allreduce::Algorithm {
    let (size, nodes) = (group.size(), group.nodes());
    // Lines are used up or lost: the bits must be the same as by lines. Lines combine by a binomial
    // tree in each node, which is the order of doubling for a power of two.
    if let Some(mates) = group.mates().filter(|mates| mates.pay(size)) {
        return match mates.are_all() && size.is_power_of_two() {
            true => allreduce::Algorithm::RecursiveDoubling,
            false => allreduce::Algorithm::TwoLevel,
        };
    }
    let ring_from = match size {
        2 => RING_OF_TWO_FROM,
        _ => beyond(RING_FROM, MANY_RANKS, size),
    };
    if commutative && bytes >= ring_from && size > 1 {
        allreduce::Algorithm::Ring
    } else if commutative && nodes > 1 && nodes < size {
        allreduce::Algorithm::TwoLevel
    } else {
        allreduce::Algorithm::RecursiveDoubling
    }
}

pub(crate) fn for_gather(group: &impl Group, part: usize) -> gather::Algorithm {
    if rooted_lines(group, part) {
        gather::Algorithm::Lines
    } else {
        for_gather_by_messages(group, part)
    }
}

/// As [`for_barrier_by_messages`].
pub(crate) fn for_gather_by_messages(group: &impl Group, part: usize) -> gather::Algorithm {
    let many = if spread(group) { FLAT_RANKS } else { MANY_RANKS };
    let table = match part <= TREE_UP_TO && group.size() >= many {
        true => gather::Algorithm::Binomial,
        false => for_gatherv(group),
    };
    by_costs(group, table, gather::Algorithm::ALL, part)
}

pub(crate) fn for_gatherv(_: &impl Group) -> gather::Algorithm {
    gather::Algorithm::Chained
}

pub(crate) fn for_scatter(group: &impl Group, part: usize) -> scatter::Algorithm {
    if rooted_lines(group, part) {
        scatter::Algorithm::Lines
    } else {
        for_scatter_by_messages(group, part)
    }
}

/// As [`for_barrier_by_messages`].
pub(crate) fn for_scatter_by_messages(group: &impl Group, part: usize) -> scatter::Algorithm {
    let many = if spread(group) { FLAT_RANKS } else { MANY_RANKS };
    let table = match part <= TREE_UP_TO && group.size() >= many {
        true => scatter::Algorithm::Binomial,
        false => for_scatterv(group),
    };
    by_costs(group, table, scatter::Algorithm::ALL, part)
}

pub(crate) fn for_scatterv(_: &impl Group) -> scatter::Algorithm {
    scatter::Algorithm::Chained
}

/// `bytes` is the total of all parts, which all ranks know.
pub(crate) fn for_allgather(group: &impl Group, bytes: usize) -> allgather::Algorithm {
    if lines(group) && group.mates().is_some_and(Mates::are_all) {
        return allgather::Algorithm::Lines;
    }
    let part = bytes / group.size() as usize;
    by_costs(group, for_allgather_by_messages(group, bytes), allgather::Algorithm::ALL, part)
}

/// As [`for_barrier_by_messages`].
pub(crate) fn for_allgather_by_messages(group: &impl Group, bytes: usize) -> allgather::Algorithm {
    if bytes > beyond(DOUBLING_UP_TO, DOUBLING_RANKS, group.size()) {
        allgather::Algorithm::Ring
    } else if group.size().is_power_of_two() {
        allgather::Algorithm::Butterfly
    } else {
        allgather::Algorithm::Bruck
    }
}

/// Whether `bytes` of or for each rank use lines among at most `most` ranks.
fn is_short(group: &impl Group, bytes: usize, most: usize) -> bool {
    group.size() as usize <= most
        && bytes <= LINES_UP_TO
        && lines(group)
        && group.mates().is_some_and(Mates::are_all)
}

pub(crate) fn for_alltoall(group: &impl Group, part: usize) -> alltoall::Algorithm {
    if is_short(group, part.saturating_mul(group.size() as usize), MOST_ON_LINES) {
        return alltoall::Algorithm::Lines;
    }
    for_alltoall_by_messages(group, part)
}

/// As [`for_barrier_by_messages`].
pub(crate) fn for_alltoall_by_messages(group: &impl Group, part: usize) -> alltoall::Algorithm {
    let table = match part <= BRUCK_UP_TO && group.size() >= MANY_RANKS {
        true => alltoall::Algorithm::Bruck,
        false => for_alltoallv_by_messages(group),
    };
    by_costs(group, table, alltoall::Algorithm::ALL, part)
}

/// Where lengths differ, no rank knows whether the others' are short: all learn it by lines.
pub(crate) fn for_alltoallv(group: &impl Group) -> alltoall::Algorithm {
    if is_short(group, 0, MOST_LISTED) {
        return alltoall::Algorithm::Lines;
    }
    for_alltoallv_by_messages(group)
}

/// As [`for_barrier_by_messages`].
pub(crate) fn for_alltoallv_by_messages(group: &impl Group) -> alltoall::Algorithm {
    // Between two ranks there is one exchange, and nothing to chain.
    if (3..at_once(group)).contains(&group.size()) {
        alltoall::Algorithm::Chained
    } else {
        alltoall::Algorithm::Pairwise
    }
}

pub(crate) fn for_alltoallw(group: &impl Group) -> alltoallw::Algorithm {
    // As for parts without gaps. Besides the arrays, memory holds at most one part each way.
    if group.size() < at_once(group) {
        alltoallw::Algorithm::Chained
    } else {
        alltoallw::Algorithm::Pairwise
    }
}

/// `bytes` is the total of all parts, which all ranks know. `exact`: the bits do not depend on the
/// order of combining.
pub(crate) fn for_reduce_scatter(
    group: &impl Group,
    bytes: usize,
    commutative: bool,
    has_list: bool,
    exact: bool,
) -> reduce_scatter::Algorithm {
    if is_short(group, bytes, if has_list { MOST_LISTED } else { MOST_ON_LINES }) {
        return reduce_scatter::Algorithm::Lines;
    }
    let table = for_reduce_scatter_by_messages(group, bytes, commutative);
    let part = bytes / group.size() as usize;
    if exact { by_costs(group, table, reduce_scatter::Algorithm::ALL, part) } else { table }
}

/// As [`for_barrier_by_messages`]. Where all ranks are on one node, which may have had lines, the
/// bits must be the same as by lines.
pub(crate) fn for_reduce_scatter_by_messages(
    group: &impl Group,
    bytes: usize,
    commutative: bool,
) -> reduce_scatter::Algorithm {
    let part = bytes / group.size() as usize;
    if !commutative {
        reduce_scatter::Algorithm::ReduceThenScatter
    } else if !spread(group) {
        reduce_scatter::Algorithm::Pairwise
    } else if part >= SCATTER_RING_FROM || group.size() < MANY_RANKS {
        reduce_scatter::Algorithm::Ring
    } else {
        reduce_scatter::Algorithm::ReduceThenScatter
    }
}

pub(crate) fn for_scan(group: &impl Group, bytes: usize) -> scan::Algorithm {
    if is_short(group, bytes.saturating_mul(group.size() as usize), MOST_ON_LINES) {
        return scan::Algorithm::Lines;
    }
    let is_near = group.nodes() == 1 && group.size() <= CHAINED_RANKS;
    match is_near && bytes >= CHAINED_FROM {
        true => scan::Algorithm::Linear,
        false => for_scan_by_messages(group),
    }
}

/// As [`for_barrier_by_messages`], with the same bits as by lines.
pub(crate) fn for_scan_by_messages(_: &impl Group) -> scan::Algorithm {
    scan::Algorithm::RecursiveDoubling
}

/// The default algorithm of an operation in this group, with `part` bytes per part, all of the same
/// length, and a reduction of integers. A part is all data of a broadcast or a reduction, and
/// elsewhere what one rank contributes for one other.
pub fn chosen(group: &impl Group, operation: Operation, part: usize) -> &'static str {
    let all = part.saturating_mul(group.size() as usize);
    match operation {
        Operation::Barrier => for_barrier(group).name(),
        Operation::Broadcast => for_broadcast(group, part).name(),
        Operation::Reduce => for_reduce(group, part, true).name(),
        Operation::Allreduce => for_allreduce(group, part, true, true).name(),
        Operation::Gather => for_gather(group, part).name(),
        Operation::Scatter => for_scatter(group, part).name(),
        Operation::Allgather => for_allgather(group, all).name(),
        Operation::Alltoall => for_alltoall(group, part).name(),
        Operation::Alltoallw => for_alltoallw(group).name(),
        Operation::ReduceScatter => for_reduce_scatter(group, all, true, false, true).name(),
        Operation::Scan | Operation::Exscan => for_scan(group, part).name(),
    }
}

/// The estimated time of each algorithm of an operation, in seconds, where [`chosen`] depends on
/// it; algorithms without an estimate are left out. Empty: the table alone decides.
pub fn estimates(
    group: &impl Group,
    operation: Operation,
    part: usize,
) -> Vec<(&'static str, f64)> {
    fn each<A: Estimate>(
        (all, names): (&[A], &[&'static str]),
        (ranks, bytes, costs): (u32, usize, &Costs),
    ) -> Vec<(&'static str, f64)> {
        let estimated = |(by, name): (&A, &&'static str)| {
            by.estimate(ranks, bytes, costs).map(|time| (*name, time))
        };
        all.iter().zip(names).filter_map(estimated).collect()
    }
    let Some(costs) = known_costs(group) else { return Vec::new() };
    let what = (group.size(), part, costs);
    macro_rules! all {
        ($operation:ident) => {
            each(($operation::Algorithm::ALL, $operation::Algorithm::NAMES), what)
        };
    }
    match operation {
        Operation::Barrier => all!(barrier),
        Operation::Broadcast => all!(broadcast),
        Operation::Reduce => all!(reduce),
        Operation::Allreduce => all!(allreduce),
        Operation::Gather => all!(gather),
        Operation::Scatter => all!(scatter),
        Operation::Allgather => all!(allgather),
        Operation::Alltoall => all!(alltoall),
        Operation::ReduceScatter => all!(reduce_scatter),
        Operation::Alltoallw | Operation::Scan | Operation::Exscan => Vec::new(),
    }
}

/// Whether a root exchanges a part of `part` bytes with each other rank by lines.
#[inline]
fn rooted_lines(group: &impl Group, part: usize) -> bool {
    let size = group.size() as usize;
    let is_short = size <= MOST_ON_LINES && part.saturating_mul(size) <= ROOTED_LINES_UP_TO;
    is_short && lines(group) && group.mates().is_some_and(Mates::are_all)
}

/// Whether every rank has a node of its own, as on a cluster without shared memory.
fn spread(group: &impl Group) -> bool {
    group.size() > 1 && group.nodes() == group.size()
}

/// From this many ranks on, starting all messages at once is too many.
fn at_once(group: &impl Group) -> u32 {
    if spread(group) { AT_ONCE_RANKS } else { MANY_RANKS }
}

/// A threshold for up to `ranks` ranks; beyond, it grows in proportion to the number of ranks.
fn beyond(bytes: usize, ranks: u32, size: u32) -> usize {
    bytes.saturating_mul(size as usize) / (ranks.min(size).max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_hold_up_to_the_ranks_they_were_measured_with_and_grow_beyond() {
        let at = |size| beyond(RING_FROM, MANY_RANKS, size);
        assert_eq!([1, 2, 8, 32].map(at), [RING_FROM; 4]);
        assert_eq!([64, 512].map(at), [2 * RING_FROM, 16 * RING_FROM]);
        assert_eq!(beyond(usize::MAX, 8, u32::MAX), usize::MAX / 8);
    }
}
