//! Short data of all ranks by lines: the bits are those of the messages that may replace them, no
//! message is sent, and ranks that cannot know the lengths agree to fall back to messages.

use std::cell::{Cell, RefCell};

use hikyaku_coll::{
    CollError, CollectiveBook, CommunicatorGroup, Group, Operand, Part, Place, Reduction,
    allgather, allgatherv, allreduce, alltoallv, alltoallv_parts, barrier, begin_allreduce,
    broadcast, exscan, reduce_scatter, reduce_scatter_block, scan,
};
use hikyaku_coll::{reduce_scatter::Algorithm as Scattered, scan::Algorithm as Scanned};
use hikyaku_msg::{ContextEndpoint, Engine, Pieces, Scattered as Gaps};
use hikyaku_nic::loopback::LoopbackConfig;
use hikyaku_nic::segment::{GroupLayout, SegmentLayout};

use crate::case::{Case, What, add};
use crate::engines::{TestPort, open, run as run_engines, run_engines as run_own, tight_ports};
use crate::network::{Node, Setup, run};
use crate::oracle::ALL;

type Ranks<'e> = CommunicatorGroup<'e, TestPort>;

fn on_one_node(size: u32) -> Setup {
    Setup { seed: 1, nodes: vec![0; size as usize], facilities: ALL, death: None }
}

/// Sums of numbers whose last bits depend on the order, which is the rank order if `ordered`.
fn sum(ordered: bool) -> Reduction<impl FnMut(&[u8], &mut [u8])> {
    let add = |left: &[u8], right: &mut [u8]| {
        for (left, right) in left.chunks_exact(8).zip(right.chunks_exact_mut(8)) {
            let read = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
            right.copy_from_slice(&(read(left) + read(right)).to_le_bytes());
        }
    };
    Reduction { commutative: !ordered, ..Reduction::commutative(8, add) }
}

/// The contribution of a rank.
fn given(rank: u32, numbers: usize) -> Vec<u8> {
    let value = |at: usize| 1e9 / (1.0 + f64::from(rank) * 7.3 + at as f64);
    (0..numbers).flat_map(|at| value(at).to_le_bytes()).collect()
}

/// For one round and for several.
const NUMBERS: [usize; 3] = [1, 9, 50];

#[test]
fn scans_by_lines_have_the_bits_of_messages() {
    for (size, numbers) in (2..=17).flat_map(|size| NUMBERS.map(|numbers| (size, numbers))) {
        let by = |algorithm| {
            run(&on_one_node(size), async |node: &Node<u8>| {
                let mut upto = given(node.rank(), numbers);
                let mut before = upto.clone();
                scan(node, Some(algorithm), &mut upto, sum(false)).await.unwrap();
                exscan(node, Some(algorithm), &mut before, sum(true)).await.unwrap();
                (upto, before)
            })
        };
        assert_eq!(by(Scanned::Lines), by(Scanned::RecursiveDoubling), "{numbers} of {size}");
    }
}

#[test]
fn long_scans_from_rank_to_rank_combine_each_segment() {
    for size in [1, 2, 3, 5, 8] {
        // Whole segments, and others.
        for numbers in [2 << 10, 4 << 10, 5000, 1000] {
            run(&on_one_node(size), async |node: &Node<u8>| {
                // Whole numbers, whose sums are exact.
                let value = |rank: u32, at: usize| f64::from(rank + 1) * (at + 1) as f64;
                let of = |ranks: std::ops::Range<u32>| -> Vec<u8> {
                    let sum = |at| ranks.clone().map(|rank| value(rank, at)).sum::<f64>();
                    (0..numbers).flat_map(|at| sum(at).to_le_bytes()).collect()
                };
                let rank = node.rank();
                let mut upto = of(rank..rank + 1);
                let mut before = upto.clone();
                scan(node, Some(Scanned::Linear), &mut upto, sum(true)).await.unwrap();
                exscan(node, Some(Scanned::Linear), &mut before, sum(true)).await.unwrap();
                assert!(upto == of(0..rank + 1), "{numbers}, rank {rank} of {size}");
                let expected = if rank > 0 { of(0..rank) } else { of(0..1) };
                assert!(before == expected, "before: {numbers}, rank {rank} of {size}");
            });
        }
    }
}

#[test]
fn reduce_scatters_by_lines_have_the_bits_of_messages() {
    for (size, numbers) in (2..=17).flat_map(|size| NUMBERS.map(|numbers| (size, numbers))) {
        for (ordered, messages) in
            [(false, Scattered::Pairwise), (true, Scattered::ReduceThenScatter)]
        {
            let by = |algorithm| {
                run(&on_one_node(size), async |node: &Node<u8>| {
                    let mut data = given(node.rank(), numbers * size as usize);
                    let (mut again, mut block) = (data.clone(), vec![0; numbers * 8]);
                    let reduction = sum(ordered);
                    reduce_scatter_block(node, Some(algorithm), &mut data, &mut block, reduction)
                        .await
                        .unwrap();
                    // Only the first rank has data, or only the last.
                    let mut lengths = vec![0; size as usize];
                    lengths[numbers % 2 * (size as usize - 1)] = again.len();
                    let mut part = vec![0; lengths[node.rank() as usize]];
                    let (by, reduction) = (Some(algorithm), sum(ordered));
                    reduce_scatter(node, by, &mut again, &lengths, &mut part, reduction)
                        .await
                        .unwrap();
                    (block, part)
                })
            };
            assert_eq!(by(Scattered::Lines), by(messages), "{numbers} of {size}, {ordered}");
        }
    }
}

#[test]
fn short_data_send_no_message() {
    let kinds = [
        What::ReduceScatterBlock(None),
        What::ReduceScatter(None),
        What::Scan(None),
        What::Exscan(None),
        What::Allgatherv(None, false),
        What::Allgatherv(None, true),
        What::Alltoallv(None),
    ];
    for (what, size) in kinds.into_iter().flat_map(|what| [2, 3].map(|size| (what, size))) {
        for commutative in [true, false] {
            let case = Case { what, size, root: 0, elements: 1, commutative, seed: 5 };
            let entered = Cell::new(0);
            let results = run(&on_one_node(size), async |node: &Node<u8>| {
                let result = case.perform(node, &entered, 1).await;
                (result, node.counts().messages)
            });
            for (rank, result) in (0..).zip(results) {
                assert_eq!(result, Some((Ok(case.expected(rank)), 0)), "rank {rank} of {case:?}");
            }
        }
    }
}

/// Bytes with a gap after each.
struct Sparse(Vec<u8>);

impl Pieces for Sparse {
    fn len(&self) -> usize {
        self.0.len() / 2
    }

    fn pack(&self, from: usize, into: &mut [u8]) {
        into.iter_mut().enumerate().for_each(|(at, byte)| *byte = self.0[2 * (from + at)]);
    }

    fn unpack(&mut self, _: usize, _: &[u8]) {}

    fn again(&self) -> Box<dyn Pieces> {
        Box::new(Sparse(self.0.clone()))
    }
}

/// The part of rank `from` for rank `to`; from rank 2 to rank 0 it has `long` bytes.
fn part(from: u32, to: u32, long: usize) -> Vec<u8> {
    vec![(16 * from + to) as u8; if (from, to) == (2, 0) { long } else { 1 + to as usize }]
}

/// One part of one rank is too long, or has gaps. All ranks fall back to messages, and the next
/// call uses the lines again.
#[test]
fn parts_too_long_for_lines_send_all_to_messages() {
    for (long, has_gaps) in [(3, false), (3, true), (70_000, false), (70_000, true)] {
        let results = run_engines(tight_ports(3, 3), 5, async |group: &Ranks<'_>| {
            let rank = group.rank();
            let mut all = Vec::new();
            for long in [3, long, 3] {
                let given = [0, 1, 2].map(|to| part(rank, to, long));
                let parts = (0..).zip(&given).map(|(to, bytes)| match (rank, to) {
                    (2, 0) if has_gaps => {
                        let spread = bytes.iter().flat_map(|byte| [*byte, 0xEE]).collect();
                        Part::Scattered(Gaps::new(Box::new(Sparse(spread))))
                    }
                    _ => Part::Whole(bytes),
                });
                let mut into = [0, 1, 2].map(|from| vec![0; part(from, rank, long).len()]);
                let places = into.iter_mut().map(|place| Place::Whole(place)).collect();
                alltoallv_parts(group, None, parts.collect(), places).await.unwrap();
                all.push(into);
            }
            assert!(group.facilities().lines);
            all
        });
        for (rank, all) in (0..).zip(results) {
            for (into, long) in all.into_iter().zip([3, long, 3]) {
                assert_eq!(into, [0, 1, 2].map(|from| part(from, rank, long)), "rank {rank}");
            }
        }
    }
}

/// One rank's part has another length than the receiver expects: the receiver gets the same error
/// as by messages.
#[test]
fn lengths_that_differ_are_told_as_by_messages() {
    let outcomes = |per_node| {
        run_engines(tight_ports(2, per_node), 7, async |group: &Ranks<'_>| {
            let own = group.rank() as usize;
            let mut outcomes = Vec::new();
            // Rank 1 has twelve bytes where rank 0 expects eight.
            let lengths = [[8, 8], [8, 12]][own];
            let mut all = vec![0; lengths.iter().sum()];
            outcomes.push(
                allgatherv(group, None, Some(&[1; 12][..lengths[own]]), &mut all, &lengths).await,
            );
            let _ = barrier(group, None).await;
            let parts: [&[u8]; 2] = [&[1; 12][..[8, 12][own]], &[1; 8]];
            let (mut one, mut two) = ([0; 8], [0; 8]);
            outcomes.push(alltoallv(group, None, &parts, vec![&mut one, &mut two]).await);
            let _ = barrier(group, None).await;
            outcomes
        })
    };
    for results in [outcomes(2), outcomes(1)] {
        for (outcome, name) in results[0].iter().zip(["allgather", "alltoall"]) {
            let line = outcome.as_ref().unwrap_err().to_string();
            let told =
                format!("rank 1 called {name} of 12 bytes where rank 0 called {name} of 8 bytes: ");
            assert!(line.starts_with(&told), "{line}");
        }
    }
}

/// Ranks that divide the data differently all detect it in the same round, and keep their lines.
#[test]
fn lists_that_differ_are_told_to_all() {
    let results = run_engines(tight_ports(3, 3), 7, async |group: &Ranks<'_>| {
        let own = group.rank() as usize;
        let lengths = [[8, 8, 8], [8, 8, 8], [8, 4, 12]][own];
        let (mut all, mut into) = ([1; 24], vec![0; lengths[own]]);
        let failed = reduce_scatter(group, None, &mut all, &lengths, &mut into, add()).await;
        (failed, barrier(group, None).await, group.facilities().lines)
    });
    for (failed, next, lines) in results {
        assert!(matches!(failed, Err(CollError::Differ { .. })), "{failed:?}");
        assert_eq!((next, lines), (Ok(()), true));
    }
}

/// Shorter and longer than contributions that are first copied to the place of the result.
#[test]
fn an_operand_apart_is_combined_and_left_as_it_is() {
    for (algorithm, numbers) in
        allreduce::Algorithm::ALL.iter().flat_map(|by| [1, 9, 3000].map(|numbers| (*by, numbers)))
    {
        let results = run(&on_one_node(4), async |node: &Node<u8>| {
            let from = given(node.rank(), numbers);
            let (mut own, mut into) = (from.clone(), vec![0; from.len()]);
            allreduce(node, Some(algorithm), &mut own, sum(false)).await.unwrap();
            let apart = Operand::Apart { from: &from, into: &mut into };
            begin_allreduce(node, Some(algorithm), apart, sum(false)).end().await.unwrap();
            assert_eq!(from, given(node.rank(), numbers));
            own == into
        });
        assert!(results.iter().all(|same| *same == Some(true)), "{algorithm:?} of {numbers}");
    }
}

#[test]
fn an_allreduce_needs_a_place_at_every_rank() {
    for algorithm in allreduce::Algorithm::ALL {
        run(&on_one_node(2), async |node: &Node<u8>| {
            let lent = Operand::Lent(&[1; 8]);
            let done = begin_allreduce(node, Some(*algorithm), lent, sum(false)).end().await;
            let is_length = matches!(done, Err(CollError::Length { given: 0, needed: 8, .. }));
            assert!(is_length || matches!(done, Err(CollError::Abandoned { .. })), "{done:?}");
        });
    }
}

/// Calls that are tried at once and calls that come later use the same way.
#[test]
fn long_data_of_one_part_go_the_same_way_at_all_ranks() {
    const LENGTH: usize = 64 << 10;
    let groups = GroupLayout { area_bytes: 1 << 20, ..GroupLayout::DEFAULT };
    let layout = SegmentLayout { ring_bytes: 1 << 16, groups, ..SegmentLayout::for_ranks(2) };
    for seed in 0..8 {
        let ports = open(&LoopbackConfig { layout, ranks_per_node: 2, region_bytes: 1 << 20 });
        run_engines(ports, seed, async |group: &Ranks<'_>| {
            for call in 0..10 {
                let (mine, mut all) =
                    (vec![group.rank() as u8 + call; LENGTH], vec![0; 2 * LENGTH]);
                allgather(group, None, Some(&mine), &mut all).await.unwrap();
                assert!(all.iter().zip(0..).all(|(it, at)| *it == (at / LENGTH) as u8 + call));
                let root = u32::from(call % 2);
                broadcast(group, None, &mut all[..LENGTH], root).await.unwrap();
            }
        });
    }
}

/// Six calls use lines, and their times are recorded. Then messages are tried: at once by the root
/// of a broadcast; where all contribute, after a call by lines that announces it, which is the
/// seventh of the allgathers.
#[test]
fn messages_are_tried_when_lines_are_known() {
    let layout = SegmentLayout { ring_bytes: 1 << 16, ..SegmentLayout::for_ranks(2) };
    let ports = open(&LoopbackConfig { layout, ranks_per_node: 2, region_bytes: 1 << 20 });
    let (sent, _) = run_own(ports, 5, async |engine: &RefCell<Engine<TestPort>>| {
        let endpoint = ContextEndpoint::new(engine, 9);
        let book = CollectiveBook::with_lines(&endpoint, 0);
        let group = CommunicatorGroup::new(endpoint, &book);
        let sent = || engine.borrow().statistics().messages_sent;
        let mut data = vec![1; 512 << 10];
        let mut by_messages = Vec::new();
        for call in 0..16 {
            let before = sent();
            match call {
                0..7 => broadcast(&group, None, &mut data, 0).await.unwrap(),
                _ => allgather(&group, None, None, &mut data).await.unwrap(),
            }
            by_messages.push(sent() > before);
        }
        by_messages
    });
    let expected = (0..16).map(|call| matches!(call, 6 | 14..)).collect::<Vec<_>>();
    // A receiver of a broadcast sends nothing.
    assert_eq!(sent[0], expected);
    assert_eq!(sent[1][7..], expected[7..]);
}

/// The ports of `ranks` ranks whose lines carry 64 KiB at once.
fn wide_ports(ranks: u32) -> Vec<TestPort> {
    let groups = GroupLayout { area_bytes: 1 << 20, ..GroupLayout::DEFAULT };
    let layout = SegmentLayout { ring_bytes: 1 << 16, groups, ..SegmentLayout::for_ranks(ranks) };
    open(&LoopbackConfig { layout, ranks_per_node: ranks, region_bytes: 1 << 20 })
}

/// Calls of two operations and of equal and unequal parts, two of them under way at a time, for so
/// long that lines and the other way are each announced again: results are right, and ranks use the
/// same way, which a message that nobody expects would show.
#[test]
fn what_the_first_rank_announces_is_followed_by_all() {
    const LENGTH: usize = 64 << 10;
    for seed in 0..3 {
        let (ways, _) = run_own(wide_ports(3), seed, async |engine: &RefCell<Engine<TestPort>>| {
            let endpoint = ContextEndpoint::new(engine, 9);
            let book = CollectiveBook::with_lines(&endpoint, 0);
            let group = CommunicatorGroup::new(endpoint, &book);
            let (own, sent) = (group.rank() as u8, || engine.borrow().statistics().messages_sent);
            let lengths = [LENGTH, 5, LENGTH + 4];
            let (mut ways, mut all, mut unequal) =
                (Vec::new(), vec![0; 3 * LENGTH], vec![0; 2 * LENGTH + 9]);
            for call in 0..190 {
                let before = sent();
                let mine = vec![own.wrapping_add(call); LENGTH + 4];
                let equal = allgather(&group, None, Some(&mine[..LENGTH]), &mut all);
                let part = &mine[..lengths[group.rank() as usize]];
                let listed = allgatherv(&group, None, Some(part), &mut unequal, &lengths);
                let (equal, listed) = hikyaku_msg::join(equal, listed).await;
                equal.and(listed).unwrap();
                for (data, lengths) in [(&all, [LENGTH; 3]), (&unequal, lengths)] {
                    let mut from = 0;
                    for (rank, length) in (0..).zip(lengths) {
                        let sent = vec![call.wrapping_add(rank); length];
                        assert!(data[from..from + length] == sent, "call {call}, rank {rank}");
                        from += length;
                    }
                }
                ways.push(sent() > before);
            }
            ways
        });
        let changes = ways[0].windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes >= 3, "{:?}", ways[0]);
        assert_eq!(ways[0], ways[2]);
    }
}

/// Call after call, another rank passes another length: in calls by lines, in the one that
/// announces, in those by the other way. All ranks fail in that call, and in no other.
#[test]
fn a_call_that_differs_fails_whatever_was_announced() {
    const LENGTH: usize = 64 << 10;
    for (wrong, other) in [3, 6, 7, 8, 30, 69].into_iter().flat_map(|at| [(at, 0), (at, 1)]) {
        let outcomes = run_engines(wide_ports(3), 11, async |group: &Ranks<'_>| {
            let mut outcomes = Vec::new();
            for call in 0..wrong + 9 {
                let is_wrong = call == wrong && group.rank() == other;
                let length = if is_wrong { 3 * LENGTH } else { LENGTH };
                let (mine, mut all) = (vec![1; length], vec![0; 3 * length]);
                outcomes.push(allgather(group, None, Some(&mine), &mut all).await);
            }
            outcomes
        });
        for (call, outcome) in outcomes.iter().flat_map(|of_rank| of_rank.iter().enumerate()) {
            let differs = matches!(outcome, Err(CollError::Differ { .. }));
            assert_eq!(differs, call == wrong, "call {call}, {wrong} of {other}: {outcome:?}");
            assert!(differs || outcome.is_ok(), "call {call}, {wrong} of {other}: {outcome:?}");
        }
    }
}
