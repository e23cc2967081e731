//! Collectives that read each other's memory: the same bits as others, refused copies, ranks that
//! die or drop their call in the middle; and over engines, memory in the job's regions.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

use hikyaku_coll::reduce_scatter::Algorithm as Scattered;
use hikyaku_coll::{
    CollectiveBook, CommunicatorGroup, Group, Operand, Reduction, allgather, allreduce, alltoall,
    begin_allreduce, begin_broadcast, broadcast, reduce_scatter_block,
};
use hikyaku_msg::ContextEndpoint;
use hikyaku_nic::fabric::MemoryPort;
use hikyaku_nic::loopback::LoopbackConfig;
use hikyaku_nic::segment::SegmentLayout;
use proptest::prelude::*;

use crate::case::{Case, What, add};
use crate::engines::{TestPort, open, run_engines};
use crate::network::{Counts, Node, Reading, Setup, run};
use crate::oracle::ALL;

fn those_that_read() -> [What; 5] {
    [
        What::Broadcast(Some(broadcast::Algorithm::Read)),
        What::Allreduce(Some(allreduce::Algorithm::Read)),
        What::Allgather(Some(allgather::Algorithm::Read), false),
        What::Alltoall(Some(alltoall::Algorithm::Read)),
        What::ReduceScatterBlock(Some(Scattered::Read)),
    ]
}

fn on_one_node(size: u32, seed: u64) -> Setup {
    Setup { seed, nodes: vec![0; size as usize], facilities: ALL, death: None }
}

/// Each rank makes exactly the necessary copies, and no rank sends a message. If a copy is refused,
/// all fall back to another way, which only the counts show.
#[test]
fn every_rank_copies_what_it_needs_and_no_more() {
    for (what, size, seed) in
        those_that_read().into_iter().flat_map(|what| [(what, 2, 1), (what, 5, 2), (what, 4, 3)])
    {
        let case = Case { what, size, root: 1, elements: 9, commutative: true, seed };
        let setup = on_one_node(size, seed);
        let entered = Cell::new(0);
        let results = run(&setup, async |node: &Node<u8>| {
            let first = case.perform(node, &entered, 1).await;
            let counts = node.counts();
            // If no copy was refused, it reads again.
            let again = case.perform(node, &entered, 2).await;
            (first, counts, again, node.counts())
        });
        let others = size as usize - 1;
        for (rank, result) in (0..).zip(results) {
            let (first, counts, again, twice) = result.unwrap();
            let Counts { messages, reads, refused, .. } = counts;
            let expected = Ok(case.expected(rank));
            assert_eq!((&first, &again), (&expected, &expected), "rank {rank} of {case:?}");
            if setup.reading() == Reading::Sometimes {
                continue;
            }
            let expected = match what {
                What::Broadcast(_) => usize::from(rank != 1),
                What::Allreduce(_) => 2 * others,
                _ => others,
            };
            assert_eq!((reads, refused, messages), (expected, 0, 0), "rank {rank} of {case:?}");
            assert_eq!((twice.reads, twice.messages), (2 * expected, 0), "rank {rank} of {case:?}");
        }
    }
}

/// Sums whose bits depend on the order.
#[test]
fn the_bits_are_those_of_the_usual_algorithms() {
    let add = Reduction::commutative(8, |left: &[u8], right: &mut [u8]| {
        for (left, right) in left.chunks_exact(8).zip(right.chunks_exact_mut(8)) {
            let read = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
            right.copy_from_slice(&(read(left) + read(right)).to_le_bytes());
        }
    });
    for (size, seed) in (2..=9).flat_map(|size| [(size, 1), (size, 3)]) {
        let sums = |reads: bool| {
            let (whole, parts) = match reads {
                true => (allreduce::Algorithm::Read, Scattered::Read),
                false => (allreduce::Algorithm::Lines, Scattered::Pairwise),
            };
            run(&on_one_node(size, seed), async |node: &Node<u8>| {
                let value = |at: u32| 1.0 / f64::from(1 + node.rank() * 7 + at) * 1e9;
                let values = (0..6 * size).flat_map(|at| value(at).to_le_bytes());
                let mut data: Vec<u8> = values.collect();
                let (mut all, mut part) = (data.clone(), vec![0; 6 * 8]);
                allreduce(node, Some(whole), &mut all, add).await.unwrap();
                reduce_scatter_block(node, Some(parts), &mut data, &mut part, add).await.unwrap();
                (all, part)
            })
        };
        assert_eq!(sums(true), sums(false), "{size} ranks");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whenever a rank dies, the others end, and a rank that succeeds has the whole result.
    #[test]
    fn a_death_in_the_middle_leaves_nobody_with_half_of_the_data(
        what in 0usize..5, size in 2u32..=6, root in 0u32..6, elements in 1usize..40,
        victim in 0u32..6, polls in 0usize..12, seed: u64,
    ) {
        let what = those_that_read()[what];
        let case = Case { what, size, root: root % size, elements, commutative: true, seed };
        let setup = Setup { death: Some((victim % size, polls)), ..on_one_node(size, seed) };
        let entered = Cell::new(0);
        let results = run(&setup, async |node: &Node<u8>| case.perform(node, &entered, 1).await);
        for (rank, result) in (0..).zip(results) {
            match result {
                None => prop_assert_eq!(rank, victim % size),
                Some(Ok(result)) => prop_assert_eq!(result, case.expected(rank)),
                Some(Err(_)) => {}
            }
        }
    }

    /// A rank that drops its call changes its memory at once. No rank takes that data for the
    /// result.
    #[test]
    fn a_call_dropped_in_the_middle_leaves_nobody_with_half_of_the_data(
        size in 2u32..=6, elements in 1usize..40, root in 0u32..6, polls in 1usize..8, seed: u64,
    ) {
        let (root, length) = (root % size, elements * 16);
        let results = run(&on_one_node(size, seed), async |node: &Node<u8>| {
            let mut data = vec![node.rank() as u8; length];
            let read = Some(broadcast::Algorithm::Read);
            let mut call = Box::pin(broadcast(node, read, &mut data, root));
            let mut left = if node.rank() == root { polls } else { usize::MAX };
            let result = poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                call.as_mut().poll(context).map(Some)
            })
            .await;
            drop(call);
            if result.is_none() {
                data.fill(0xFF);
            }
            (result, data)
        });
        for (result, data) in results.into_iter().flatten() {
            if let Some(Ok(())) = result {
                prop_assert_eq!(data, vec![root as u8; length]);
            }
        }
    }
}

type Engine = hikyaku_msg::Engine<TestPort>;

fn ports(ranks: u32) -> Vec<TestPort> {
    let layout = SegmentLayout { ring_bytes: 1 << 16, ..SegmentLayout::for_ranks(ranks) };
    let config = LoopbackConfig { layout, ranks_per_node: ranks, region_bytes: 2 << 20 };
    open(&config)
}

/// Each rank sends each other its part, and then receives the data of rank 2, a part from each
/// rank.
async fn exchange(group: &CommunicatorGroup<'_, TestPort>, out: &mut [u8], into: &mut [u8]) {
    let part = out.len() / group.size() as usize;
    out.fill(group.rank() as u8);
    let (read, read_too) = (alltoall::Algorithm::Read, broadcast::Algorithm::Read);
    alltoall(group, Some(read), out, into).await.unwrap();
    let parts = into.chunks(part).enumerate();
    assert!(parts.into_iter().all(|(rank, part)| part.iter().all(|it| *it == rank as u8)));
    broadcast(group, Some(read_too), out, 2).await.unwrap();
    assert!(out.iter().all(|byte| *byte == 2));
}

/// Memory in the job's regions can be read on every fabric; other memory only where a kernel
/// copies.
#[test]
fn engines_read_memory_of_regions_and_nothing_else() {
    const LENGTH: usize = 96 << 10;
    for in_region in [true, false] {
        let (messages, _) = run_engines(ports(3), 5, async |engine: &RefCell<Engine>| {
            let endpoint = ContextEndpoint::new(engine, 9);
            let book = CollectiveBook::with_lines(&endpoint, 0);
            let group = CommunicatorGroup::new(endpoint, &book);
            let allocate = || endpoint.with_port(|port| port.allocate(LENGTH)).unwrap();
            if in_region {
                exchange(&group, &mut allocate(), &mut allocate()).await;
            } else {
                exchange(&group, &mut vec![0; LENGTH], &mut vec![0; LENGTH]).await;
            }
            engine.borrow().statistics().messages_sent
        });
        assert_eq!(messages.iter().all(|count| *count == 0), in_region, "{messages:?}");
    }
}

/// An allreduce without a named algorithm uses lines and then reads memory that can be read.
#[test]
fn a_long_allreduce_has_one_result_whichever_way_it_learns() {
    for ranks in [2, 3] {
        run_engines(ports(ranks), 7, async |engine: &RefCell<Engine>| {
            let endpoint = ContextEndpoint::new(engine, 9);
            let book = CollectiveBook::with_lines(&endpoint, 0);
            let group = CommunicatorGroup::new(endpoint, &book);
            let allocate = || endpoint.with_port(|port| port.allocate(128 << 10)).unwrap();
            let (mut from, mut into) = (allocate(), allocate());
            for call in 0..20 {
                from.fill(group.rank() as u8 + call);
                let apart = Operand::Apart { from: &from, into: &mut into };
                begin_allreduce(&group, None, apart, add()).end().await.unwrap();
                let sum = (0..ranks as u8).map(|rank| rank + call).sum::<u8>();
                assert!(into.iter().all(|byte| *byte == sum), "call {call} of {ranks} ranks");
                allreduce(&group, None, &mut into, add()).await.unwrap();
                let all = sum.wrapping_mul(ranks as u8);
                assert!(into.iter().all(|byte| *byte == all), "call {call} of {ranks} in place");
            }
        });
    }
}

/// A broadcast without a named algorithm uses lines, and tries messages, which its root announces.
#[test]
fn a_long_broadcast_arrives_whichever_way_its_root_chooses() {
    for ranks in [2, 3] {
        let (messages, _) = run_engines(ports(ranks), 7, async |engine: &RefCell<Engine>| {
            let endpoint = ContextEndpoint::new(engine, 9);
            let book = CollectiveBook::with_lines(&endpoint, 0);
            let group = CommunicatorGroup::new(endpoint, &book);
            let mut sent = [0; 2];
            for call in 0..90 * ranks {
                let (root, length) = (call % ranks, (64 << 10) + 100 * (call / ranks) as usize);
                let value = (call % 250) as u8 + 1;
                let mut data = vec![if group.rank() == root { value } else { 0 }; length];
                let before = engine.borrow().statistics().messages_sent;
                begin_broadcast(&group, None, &mut data, root).end().await.unwrap();
                assert!(data.iter().all(|byte| *byte == value), "call {call} of {ranks} ranks");
                let has_sent = engine.borrow().statistics().messages_sent > before;
                sent[usize::from(has_sent)] += u32::from(group.rank() == root);
            }
            // More parts than the lines have room for: the call continues after those that it gave.
            let all: Vec<u8> = (0..2 << 20).map(|at| (at % 251) as u8).collect();
            for root in 0..ranks {
                let mut data = if group.rank() == root { all.clone() } else { vec![0; 2 << 20] };
                let by = Some(broadcast::Algorithm::Lines);
                begin_broadcast(&group, by, &mut data, root).end().await.unwrap();
                assert!(data == all, "{ranks} ranks, root {root}");
            }
            let mut data = vec![0; (64 << 10) + 64 * group.rank() as usize];
            let differs = broadcast(&group, None, &mut data, 0).await.is_err();
            (sent, differs || group.rank() == 0)
        });
        let uses_both = |sent: &[u32; 2]| sent.iter().all(|calls| *calls > 0);
        assert!(messages.iter().all(|(sent, differs)| uses_both(sent) && *differs), "{messages:?}");
    }
}
