//! Barriers and broadcasts through the port's group of all ranks (paper 003): sync ids, counters
//! and multicast, over message engines.

use std::cell::{Cell, RefCell};
use std::pin::Pin;

use hikyaku_coll::{
    CollError, CollectiveBook, CommunicatorGroup, Group, allreduce, barrier, broadcast,
};
use hikyaku_coll::{barrier::Algorithm as By, broadcast::Algorithm as CastBy};
use hikyaku_msg::{ContextEndpoint, Engine, Members, MsgError, join_all};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::layer::Layer;
use hikyaku_nic::loopback::LoopbackConfig;
use hikyaku_nic::segment::{GroupLayout, SegmentLayout};
use proptest::prelude::*;

use crate::case::add;
use crate::engines::{TestPort, kill, open, run_engines};

type Rank = RefCell<Engine<TestPort>>;
type Ranks<'e> = CommunicatorGroup<'e, TestPort>;
type Outcome = Result<(), CollError<MsgError>>;
type Pending<'f> = Pin<Box<dyn Future<Output = Outcome> + 'f>>;

const BARRIERS: [By; 3] = [By::Sync, By::AtomicAdd, By::MulticastAdd];

fn ports(ranks: u32, per_node: u32) -> Vec<TestPort> {
    let groups = GroupLayout { channels: 3, area_bytes: 4096 };
    let layout = SegmentLayout {
        groups,
        ring_bytes: 4096,
        packet_bytes: 512,
        ..SegmentLayout::for_ranks(ranks)
    };
    let config = LoopbackConfig { layout, ranks_per_node: per_node, region_bytes: 1 << 16 };
    open(&config)
}

/// Runs `body` with a communicator of all ranks.
fn run<R>(
    ranks: u32,
    per_node: u32,
    seed: u64,
    body: impl AsyncFn(&Rank, &Ranks<'_>) -> R,
) -> Vec<R> {
    let (results, left) = run_engines(ports(ranks, per_node), seed, async |engine| {
        let endpoint = ContextEndpoint::new(engine, 9);
        let book = CollectiveBook::agreeing(&endpoint, 1);
        body(engine, &CommunicatorGroup::new(endpoint, &book)).await
    });
    assert_eq!(left, 0, "nothing is left over");
    results
}

/// The messages that this rank has sent, and the commands that it has posted to its port.
fn sent(engine: &Rank) -> u64 {
    engine.borrow().statistics().messages_sent
}

fn commands(engine: &Rank) -> u64 {
    engine.borrow().port().inner().doorbells()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// No rank leaves before all have entered, and no message is sent after the ranks have agreed
    /// on a channel: neither on one node nor between nodes (CJ-15). Fig. 10's C posts a command
    /// for each rank, D one, and E none.
    #[test]
    fn cj_15_barriers_by_the_group_hold_and_send_nothing(
        size in 1u32..9, per_node in 1u32..9, which in 0usize..3, seed: u64,
    ) {
        let by = Some(BARRIERS[which]);
        let came = Cell::new(0);
        run(size, per_node, seed, async |engine: &Rank, group: &Ranks<'_>| {
            barrier(group, by).await.unwrap();
            let before = (sent(engine), commands(engine));
            for round in 1..=20 {
                came.set(came.get() + 1);
                barrier(group, by).await.unwrap();
                assert!(came.get() >= round * size, "left before all had come");
            }
            let each = [0, u64::from(size), 1][which];
            assert_eq!((sent(engine), commands(engine)), (before.0, before.1 + 20 * each));
        });
    }

    /// All calls in flight together, by lines, by the group and by messages, end with the right
    /// result.
    #[test]
    fn cj_14_cj_15_calls_by_the_group_overlap_others(
        size in 1u32..7, per_node in 1u32..7, length in 0usize..2000, seed: u64,
    ) {
        let results = run(size, per_node, seed, async |_: &Rank, group: &Ranks<'_>| {
            let rank = group.rank() as u8;
            let (mut one, mut other) = (vec![rank; length], vec![rank; length / 3]);
            let mut total = vec![1; length];
            let first = broadcast(group, Some(CastBy::Multicast), &mut one, size - 1);
            let second = barrier(group, Some(By::Sync));
            let third = allreduce(group, None, &mut total, add());
            let fourth = broadcast(group, Some(CastBy::Multicast), &mut other, 0);
            let fifth = barrier(group, Some(By::AtomicAdd));
            let calls: Vec<Pending<'_>> = vec![
                Box::pin(fifth),
                Box::pin(third),
                Box::pin(first),
                Box::pin(fourth),
                Box::pin(second),
            ];
            assert_eq!(join_all(calls).await, vec![Ok(()); 5]);
            (one, other, total)
        });
        for (one, other, total) in results {
            prop_assert_eq!(one, vec![size as u8 - 1; length]);
            prop_assert_eq!(other, vec![0; length / 3]);
            prop_assert_eq!(total, vec![size as u8; length]);
        }
    }
}

/// A broadcast is one command from the root to all, while there is room; data longer than an eager
/// message is read by each rank (CJ-14).
#[test]
fn cj_14_a_multicast_is_one_command() {
    for (size, per_node) in [(2, 2), (5, 5), (6, 2), (4, 1)] {
        for length in [0, 8, 500, 20_000] {
            run(size, per_node, 1, async |engine: &Rank, group: &Ranks<'_>| {
                for root in [0, size - 1] {
                    // The ranks agree on a channel, and all have received the messages.
                    let mut data = vec![0; 1];
                    broadcast(group, Some(CastBy::Multicast), &mut data, root).await.unwrap();
                    barrier(group, Some(By::Sync)).await.unwrap();
                    let before = (sent(engine), commands(engine));
                    let mut data = vec![if group.rank() == root { 7 } else { 0 }; length];
                    broadcast(group, Some(CastBy::Multicast), &mut data, root).await.unwrap();
                    assert_eq!(data, vec![7; length]);
                    if group.rank() == root {
                        assert_eq!(sent(engine) - before.0, u64::from(size) - 1);
                        if length <= 500 {
                            assert_eq!(commands(engine) - before.1, 1, "{length} bytes to {size}");
                        }
                    }
                    barrier(group, Some(By::Sync)).await.unwrap();
                }
            });
        }
    }
}

/// More ranks than a sync id allows synchronise by multicast and atomic add: still no message is
/// sent (CJ-15).
#[test]
fn cj_15_more_than_64_ranks_add_by_multicast() {
    run(65, 65, 3, async |engine: &Rank, group: &Ranks<'_>| {
        barrier(group, Some(By::Sync)).await.unwrap();
        let before = (sent(engine), commands(engine));
        barrier(group, Some(By::Sync)).await.unwrap();
        assert_eq!((sent(engine), commands(engine)), (before.0, before.1 + 1));
    });
}

/// A communicator of some ranks reuses the channel of another one; more of them than there are
/// channels do the same by messages.
#[test]
fn channels_of_groups_are_used_again_and_used_up() {
    let (results, _) = run_engines(ports(5, 2), 11, async |engine: &Rank| {
        let own = engine.borrow().rank();
        let mut kept = Vec::new();
        for context in 0..60 {
            // Rings of three neighbours that differ from turn to turn.
            let mut ranks: Vec<u32> = (0..3).map(|at| (context + 2 * at) % 5).collect();
            ranks.sort_unstable();
            ranks.dedup();
            let Some(_) = ranks.iter().position(|rank| *rank == own) else { continue };
            let node_of = |rank| engine.borrow().port().node_of(rank);
            let members = Members::new(ranks.clone(), own, node_of);
            let endpoint = ContextEndpoint::new(engine, 10 + context).among(members.as_ref());
            let book = CollectiveBook::agreeing(&endpoint, context);
            {
                let group = CommunicatorGroup::new(endpoint, &book);
                let by = Some(BARRIERS[context as usize % 3]);
                for round in 0..3 {
                    let mut data = [own as u8];
                    broadcast(&group, Some(CastBy::Multicast), &mut data, 1).await.unwrap();
                    assert_eq!(u32::from(data[0]), ranks[1]);
                    let before = sent(engine);
                    barrier(&group, by).await.unwrap();
                    assert!(round == 0 || context >= 50 || sent(engine) == before);
                }
            }
            match context < 50 {
                true => book.leave(engine.borrow_mut().port_mut()),
                false => kept.push(book),
            }
        }
        kept.len()
    });
    assert!(results.iter().all(|kept| *kept > 3), "{results:?}: more than channels");
}

/// A rank that dies is named by all that wait for it (CJ-15).
#[test]
fn cj_15_a_barrier_by_the_group_names_the_dead() {
    for (by, per_node) in BARRIERS.into_iter().flat_map(|by| [(by, 4), (by, 1)]) {
        let (results, _) = run_engines(ports(4, per_node), 5, async |engine: &Rank| {
            let endpoint = ContextEndpoint::new(engine, 9);
            let book = CollectiveBook::agreeing(&endpoint, 1);
            let group = CommunicatorGroup::new(endpoint, &book);
            barrier(&group, Some(by)).await.unwrap();
            if endpoint.rank() == 2 {
                endpoint.with_port(|port| kill(port, 2));
                return None;
            }
            Some(barrier(&group, Some(by)).await.unwrap_err().to_string())
        });
        for error in results.into_iter().flatten() {
            assert!(error.contains("rank 2"), "{by:?}: {error}");
        }
    }
}

/// Ranks that make different calls get an error that names them, and continue together by messages.
#[test]
fn wrong_calls_beside_a_group_are_told_and_later_calls_go_on() {
    for (by, per_node) in BARRIERS.into_iter().flat_map(|by| [(by, 4), (by, 1)]) {
        let (results, _) = run_engines(ports(4, per_node), 5, async |engine: &Rank| {
            let endpoint = ContextEndpoint::new(engine, 9);
            let book = CollectiveBook::agreeing(&endpoint, 1);
            let group = CommunicatorGroup::new(endpoint, &book);
            barrier(&group, Some(by)).await.unwrap();
            let mut data = [1];
            let wrong = match group.rank() {
                1 => allreduce(&group, None, &mut data, add()).await,
                _ => barrier(&group, Some(by)).await,
            };
            for _ in 0..3 {
                barrier(&group, Some(by)).await.unwrap();
                let mut data = [group.rank() as u8];
                broadcast(&group, Some(CastBy::Multicast), &mut data, 3).await.unwrap();
                assert_eq!(data, [3]);
            }
            wrong
        });
        for wrong in results {
            let Err(CollError::Differ { one, other }) = wrong else { panic!("{by:?}: {wrong:?}") };
            let names = [one, other].map(|caller| caller.call.operation().name());
            assert!(names.contains(&"barrier") && names.contains(&"allreduce"), "{names:?}");
        }
    }
}
