//! The table that chooses algorithms, on both sides of each of its thresholds.

use hikyaku_coll::{CommunicatorGroup, Facilities, Group, Operation, chosen, estimates};
use hikyaku_nic::loopback::LoopbackConfig;
use hikyaku_nic::segment::SegmentLayout;

use crate::engines::{self, TestPort};
use crate::network::{Node, Setup, run};

/// The distribution of a group's ranks: on one node, on separate nodes, or in pairs.
#[derive(Debug, Clone, Copy)]
enum Nodes {
    One,
    Own,
    Pairs,
}
use Nodes::{One, Own, Pairs};

const NOTHING: Facilities = Facilities { multicast: false, sync: false, lines: false };

fn choice(
    operation: Operation,
    size: u32,
    lie: Nodes,
    facilities: Facilities,
    part: usize,
) -> &'static str {
    let node = |rank| match lie {
        One => 0,
        Own => rank,
        Pairs => rank / 2,
    };
    let setup = Setup { seed: 1, nodes: (0..size).map(node).collect(), facilities, death: None };
    let names = run(&setup, async |node: &Node<u8>| chosen(node, operation, part));
    let name = names[0].expect("nobody dies");
    assert!(names.iter().all(|other| *other == Some(name)), "ranks choose differently: {names:?}");
    name
}

#[test]
fn tables_choose_by_length_ranks_and_nodes() {
    use Operation::{
        Allgather, Allreduce, Alltoall, Alltoallw, Barrier, Broadcast, Exscan, Gather, Reduce,
        ReduceScatter, Scan, Scatter,
    };
    const KIB: usize = 1 << 10;
    for (operation, size, lie, part, name) in [
        (Barrier, 8, One, 0, "wide-tree"),
        (Barrier, 8, Pairs, 0, "wide-tree"),
        (Barrier, 1, Own, 0, "wide-tree"),
        (Barrier, 2, Own, 0, "dissemination"),
        (Broadcast, 3, One, 256 * KIB - 1, "binomial"),
        (Broadcast, 3, One, 256 * KIB, "pipelined"),
        (Broadcast, 2, One, 1024 * KIB, "binomial"),
        (Broadcast, 64, One, 512 * KIB - 1, "binomial"),
        (Broadcast, 64, One, 512 * KIB, "pipelined"),
        (Reduce, 8, One, 8, "binomial"),
        (Allreduce, 4, One, 64 * KIB - 1, "recursive-doubling"),
        (Allreduce, 3, One, 64 * KIB, "ring"),
        (Allreduce, 2, One, 64 * KIB, "recursive-doubling"),
        (Allreduce, 4, Own, 8, "recursive-doubling"),
        (Allreduce, 4, Pairs, 8, "two-level"),
        (Allreduce, 4, Pairs, 64 * KIB, "ring"),
        (Allreduce, 64, One, 64 * KIB, "recursive-doubling"),
        (Gather, 31, One, 8, "chained"),
        (Gather, 32, One, KIB, "binomial"),
        (Gather, 32, One, KIB + 1, "chained"),
        (Gather, 32, Own, 8, "chained"),
        (Gather, 512, Own, 8, "binomial"),
        (Scatter, 31, One, 8, "chained"),
        (Scatter, 32, One, KIB, "binomial"),
        (Scatter, 32, One, KIB + 1, "chained"),
        (Scatter, 32, Own, 8, "chained"),
        (Scatter, 512, Own, 8, "binomial"),
        (Allgather, 8, One, 4 * KIB, "butterfly"),
        (Allgather, 8, One, 4 * KIB + 1, "ring"),
        (Allgather, 7, One, 4 * KIB, "bruck"),
        (Allgather, 16, One, 4 * KIB, "butterfly"),
        (Alltoall, 31, One, 8, "chained"),
        (Alltoall, 32, One, 256, "bruck"),
        (Alltoall, 32, One, 257, "pairwise"),
        (Alltoall, 32, Own, 257, "chained"),
        (Alltoallw, 31, One, 8, "chained"),
        (Alltoallw, 32, One, 8, "pairwise"),
        (Alltoallw, 32, Own, 8, "chained"),
        (ReduceScatter, 4, One, 4 * KIB, "pairwise"),
        (ReduceScatter, 4, Own, 8, "ring"),
        (ReduceScatter, 32, Own, 4 * KIB - 1, "reduce-then-scatter"),
        (ReduceScatter, 32, Own, 4 * KIB, "ring"),
        (Scan, 8, One, 8, "recursive-doubling"),
        (Exscan, 8, One, 8, "recursive-doubling"),
    ] {
        let what = format!("{operation:?} of {size} ranks, {lie:?}, {part} bytes");
        assert_eq!(choice(operation, size, lie, NOTHING, part), name, "{what}");
    }
}

#[test]
fn ranks_that_are_processes_choose_by_the_table_alone() {
    let layout = SegmentLayout::for_ranks(2);
    let ports = engines::open(&LoopbackConfig { layout, ranks_per_node: 1, region_bytes: 1 << 16 });
    let know = engines::run(ports, 1, async |group: &CommunicatorGroup<'_, TestPort>| {
        let estimated = |operation| !estimates(group, operation, 8).is_empty();
        group.costs().is_some() || Operation::ALL.into_iter().any(estimated)
    });
    assert_eq!(know, [false; 2], "the bits of results may not depend on a machine");
}

#[test]
fn tables_choose_what_the_interface_does_itself() {
    let sync = Facilities { sync: true, ..NOTHING };
    let multicast = Facilities { multicast: true, ..NOTHING };
    let barrier = |facilities| choice(Operation::Barrier, 4, Own, facilities, 0);
    assert_eq!([sync, multicast].map(barrier), ["sync", "dissemination"]);
    let broadcast = |facilities| choice(Operation::Broadcast, 4, Own, facilities, 1 << 20);
    assert_eq!([multicast, sync].map(broadcast), ["multicast", "pipelined"]);
}

#[test]
fn lines_are_chosen_where_they_are_faster() {
    use Operation::{Allgather, Allreduce, Alltoall, Barrier, Broadcast, Gather};
    use Operation::{Exscan, Reduce, ReduceScatter, Scan, Scatter};
    let lines = Facilities { lines: true, ..NOTHING };
    for (operation, size, lie, name) in [
        (Barrier, 2, One, "lines"),
        (Broadcast, 256, One, "lines"),
        (Allreduce, 3, One, "lines"),
        (Allgather, 4, One, "lines"),
        (Gather, 4, One, "chained"),
        (Barrier, 4, Own, "dissemination"),
        (Barrier, 8, Pairs, "wide-tree"),
        (Allreduce, 1, One, "lines"),
    ] {
        assert_eq!(choice(operation, size, lie, lines, 1 << 20), name, "{operation:?} of {size}");
    }
    // Not for long parts, or for more ranks than a line has bytes.
    for (size, bytes, name) in [(4, 4 << 10, "lines"), (4, 1 << 20, "chained"), (256, 256, "bruck")]
    {
        assert_eq!(choice(Alltoall, size, One, lines, bytes), name, "{size} ranks, {bytes} B");
    }
    for (operation, messages) in [(Gather, "chained"), (Scatter, "chained"), (Reduce, "binomial")] {
        let of = |size, lie, bytes| choice(operation, size, lie, lines, bytes);
        assert_eq!([of(4, One, 16 << 10), of(4, One, (16 << 10) + 1)], ["lines", messages]);
        assert_eq!([of(4, Pairs, 8), of(256, One, 8)], [messages, "binomial"], "{operation:?}");
    }
    for (operation, size, bytes, name) in [
        (ReduceScatter, 4, 16 << 10, "lines"),
        (ReduceScatter, 4, (16 << 10) + 1, "pairwise"),
        (Scan, 4, 16 << 10, "lines"),
        (Exscan, 4, (16 << 10) + 1, "recursive-doubling"),
        (Scan, 113, 8, "recursive-doubling"),
        (Exscan, 8, 32 << 10, "linear"),
        (Scan, 9, 32 << 10, "recursive-doubling"),
    ] {
        let what = format!("{operation:?} of {size} ranks, {bytes} B");
        assert_eq!(choice(operation, size, One, lines, bytes), name, "{what}");
    }
    assert_eq!(choice(Scan, 8, Pairs, lines, 8), "recursive-doubling");
    assert_eq!(choice(Scan, 8, Pairs, lines, 1 << 20), "recursive-doubling");
}
