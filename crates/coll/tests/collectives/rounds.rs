//! Calls by lines over message engines: in flight together, dropped, wrong, and with ranks that
//! die.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use hikyaku_coll::{
    Cause, CollError, CommunicatorGroup, Element, Group, Reduction, allgather, allgatherv,
    allreduce, alltoall, alltoall_in_place, alltoallv, barrier, broadcast, exscan, gather, gatherv,
    open_barrier, reduce, reduce_scatter, reduce_scatter_block, scan, scatter,
};
use hikyaku_msg::MsgError;
use hikyaku_nic::random::Random;
use proptest::prelude::*;

use crate::case::add;
use crate::engines::{TestPort, kill, run, tight_ports};

type Ranks<'e> = CommunicatorGroup<'e, TestPort>;
type Outcome = Result<(), CollError<MsgError>>;
type Pending<'f> = Pin<Box<dyn Future<Output = Outcome> + 'f>>;

/// Polls futures in a different order each round until all are done.
async fn in_any_order(mut pending: Vec<Option<Pending<'_>>>, seed: u64) -> Vec<Outcome> {
    let mut done: Vec<Option<Outcome>> = pending.iter().map(|_| None).collect();
    let mut round = seed as usize;
    poll_fn(move |context| {
        round = round.wrapping_mul(7).wrapping_add(3);
        for turn in 0..pending.len() {
            let at = (turn + round) % pending.len();
            let polled = pending[at].as_mut().map(|it| it.as_mut().poll(context));
            if let Some(Poll::Ready(result)) = polled {
                (done[at], pending[at]) = (Some(result), None);
            }
        }
        match done.iter().all(Option::is_some) {
            true => Poll::Ready(done.iter_mut().filter_map(Option::take).collect()),
            false => Poll::Pending,
        }
    })
    .await
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn calls_in_flight_together_end_in_any_order(
        size in 2u32..7, per_node in 2u32..7, length in 0usize..3000, seed: u64,
    ) {
        let results = run(tight_ports(size, per_node), seed, async |group: &Ranks<'_>| {
            let rank = group.rank() as u8;
            let (mut sum, mut sums) = (vec![rank; length], vec![1; length / 2]);
            let (mut sent, mut all) = (vec![rank; length], vec![0; length * size as usize]);
            let mine = vec![rank; length];
            let whole = vec![rank + 1; length * size as usize];
            let (mut total, mut part, mut gathered) = (mine.clone(), mine.clone(), all.clone());
            let (mut twice, mut each) = (vec![1; length], vec![0; length]);
            let parts = vec![&mine[..length / 3]; size as usize];
            let mut places = vec![vec![0; length / 3]; size as usize];
            let mut lengths = vec![0; size as usize];
            lengths[0] = length;
            let each = &mut each[..lengths[rank as usize]];
            let into = places.iter_mut().map(Vec::as_mut_slice).collect();
            let calls: Vec<Option<Pending<'_>>> = vec![
                Some(Box::pin(allreduce(group, None, &mut sum, add()))),
                Some(Box::pin(broadcast(group, None, &mut sent, size - 1))),
                Some(Box::pin(reduce(group, None, &mut total, 0, add()))),
                Some(Box::pin(barrier(group, None))),
                Some(Box::pin(scatter(group, None, &whole, Some(&mut part), 1))),
                Some(Box::pin(allgather(group, None, Some(&mine), &mut all))),
                Some(Box::pin(gather(group, None, Some(&mine), &mut gathered, size - 1))),
                Some(Box::pin(scan(group, None, &mut sums, add()))),
                Some(Box::pin(alltoallv(group, None, &parts, into))),
                Some(Box::pin(reduce_scatter(group, None, &mut twice, &lengths, each, add()))),
            ];
            let ends = in_any_order(calls, seed ^ u64::from(rank)).await;
            assert_eq!(part, vec![2; length]);
            assert!(group.rank() > 0 || total == sum);
            assert!(group.rank() < size - 1 || gathered == all);
            let each = each.to_vec();
            (ends, sum, sent, all, sums, places.concat(), each)
        });
        let total = (0..size as u8).fold(0, u8::wrapping_add);
        for (rank, (ends, sum, sent, all, sums, places, each)) in (0..).zip(results) {
            prop_assert_eq!(ends, vec![Ok(()); 10]);
            prop_assert_eq!(sum, vec![total; length]);
            prop_assert_eq!(sent, vec![size as u8 - 1; length]);
            prop_assert!((0..size as u8).flat_map(|rank| vec![rank; length]).eq(all));
            prop_assert_eq!(sums, vec![rank as u8 + 1; length / 2]);
            let parts = (0..size as u8).flat_map(|rank| vec![rank; length / 3]);
            prop_assert!(parts.eq(places));
            prop_assert_eq!(each, vec![size as u8; if rank == 0 { length } else { 0 }]);
        }
    }

    /// A call that is dropped fails elsewhere, or had done its part; later calls are not affected.
    #[test]
    fn a_call_dropped_in_flight_leaves_the_others(
        size in 2u32..6, per_node in 1u32..6, length in 0usize..300, polls in 0usize..4,
        victim in 0u32..6, seed: u64,
    ) {
        let victim = victim % size;
        let results = run(tight_ports(size, per_node), seed, async |group: &Ranks<'_>| {
            let (mut first, mut second) = (vec![1; length], vec![1; length]);
            let mut call: Pending<'_> = Box::pin(allreduce(group, None, &mut first, add()));
            let mut left = polls;
            let outcome = poll_fn(|context| {
                if group.rank() == victim && left == 0 {
                    return Poll::Ready(None);
                }
                left = left.saturating_sub(1);
                call.as_mut().poll(context).map(Some)
            }).await;
            drop(call);
            let next = allreduce(group, None, &mut second, add()).await;
            (outcome, next, second)
        });
        for (rank, (outcome, next, second)) in (0..).zip(results) {
            let abandoned = |peer, cause| {
                Err(CollError::Abandoned { operation: "allreduce", peer, cause })
            };
            match outcome {
                None => prop_assert_eq!(rank, victim),
                Some(Ok(())) => {}
                told => prop_assert_eq!(told, Some(abandoned(victim, Cause::Dropped))),
            }
            prop_assert_eq!(next, Ok(()), "rank {}", rank);
            prop_assert_eq!(second, vec![size as u8; length]);
        }
    }
}

/// The number of calls that one rank makes while the others make another one: these, and two more.
const CALLS: usize = 35;

/// The calls in which every rank waits for every other, by messages too.
fn all_wait(which: usize) -> bool {
    !matches!(which, 6..=8 | 10..)
}

/// The calls in which every rank waits for every other by lines and reads all contributions, or
/// waits by messages while others use lines.
fn all_see(which: usize) -> bool {
    !matches!(which, 6..=8 | 10..20 | 36)
}

/// Calls that differ only in the length of one rank's part, which some ranks need not know.
fn differ_in_a_part(one: usize, other: usize) -> bool {
    [26..30, 32..35].iter().any(|calls| calls.contains(&one) && calls.contains(&other))
}

/// By messages, which take long to detect a different call, not all calls are tried: calls with
/// lists of lengths behave like calls without.
fn is_tried(which: usize, per_node: u32) -> bool {
    per_node > 1 || !matches!(which, 21..=24 | 26 | 28..=30 | 32 | 34)
}

async fn call(group: &Ranks<'_>, which: usize) -> Outcome {
    let (mut eight, mut more) = ([1; 8], vec![0; 8 * group.size() as usize]);
    let doubles = group.with_elements(Element::of::<f64>());
    let max = Reduction { combination: hikyaku_coll::Combination::MAX, ..add() };
    match which {
        0 => barrier(group, None).await,
        1 => allreduce(group, None, &mut eight, add()).await,
        2 => allreduce(group, None, &mut eight[..4], add()).await,
        3 => allreduce(group, None, &mut eight, max).await,
        4 => allreduce(&doubles, None, &mut eight, add()).await,
        5 => allreduce(group, None, &mut vec![1; 5000], add()).await,
        6 => broadcast(group, None, &mut eight, 0).await,
        7 => broadcast(group, None, &mut eight[..4], 0).await,
        8 => broadcast(&doubles, None, &mut eight, 0).await,
        9 => allgather(group, None, Some(&eight), &mut more).await,
        10 => broadcast(group, None, &mut vec![1; 5000], 0).await,
        11 | 12 => gather(group, None, Some(&eight), &mut more, which as u32 - 11).await,
        13 => {
            let part = more.len() / 2;
            gather(group, None, Some(&eight[..4]), &mut more[..part], 0).await
        }
        14 | 15 => reduce(group, None, &mut eight, which as u32 - 14, add()).await,
        16 => reduce(&doubles, None, &mut eight, 0, max).await,
        17 | 18 => scatter(group, None, &more, Some(&mut eight), which as u32 - 17).await,
        19 => scatter(group, None, &vec![1; 3 * 5000], Some(&mut vec![1; 5000]), 0).await,
        20 => scan(group, None, &mut eight, add()).await,
        21 => scan(group, None, &mut eight[..4], add()).await,
        22 => exscan(group, None, &mut eight, add()).await,
        23 => reduce_scatter_block(group, None, &mut more, &mut eight, add()).await,
        24 => reduce_scatter_block(group, None, &mut more[..12], &mut eight[..4], add()).await,
        25 => alltoall(group, None, &more.clone(), &mut more).await,
        _ => call_with_lengths(group, which).await,
    }
}

async fn call_with_lengths(group: &Ranks<'_>, which: usize) -> Outcome {
    let own = group.rank() as usize;
    let lists = [[8, 8, 8], [8, 4, 12], [12, 4, 8], [6000, 8, 8]];
    match which {
        26..30 => {
            let lengths = lists[which - 26];
            let mut all = vec![0; lengths.iter().sum()];
            allgatherv(group, None, Some(&vec![1; lengths[own]]), &mut all, &lengths).await
        }
        30 | 31 => {
            let lengths = lists[which - 30];
            let (mut all, mut into) = (vec![1; 24], vec![0; lengths[own]]);
            reduce_scatter(group, None, &mut all, &lengths, &mut into, add()).await
        }
        // Not in the table: by messages, where the same call with a list, or without, uses lines.
        35 => alltoall(group, None, &[1; 90_000], &mut [0; 90_000]).await,
        36 => {
            let mut parts = [[0; 8]; 3];
            let blocks = parts.iter_mut().map(<[u8; 8]>::as_mut_slice).collect();
            gatherv(group, None, Some(&[1; 8]), blocks, 0).await
        }
        _ => {
            // Only the part for the next rank has this length.
            let length = [8, 12, 6000][which - 32];
            let part = |to: usize| vec![1; if to == (own + 1) % 3 { length } else { 8 }];
            let place = |from: usize| vec![0; if from == (own + 2) % 3 { length } else { 8 }];
            let (parts, mut places) = ([0, 1, 2].map(part), [0, 1, 2].map(place));
            let into = places.iter_mut().map(Vec::as_mut_slice).collect();
            alltoallv(group, None, &parts.each_ref().map(Vec::as_slice), into).await
        }
    }
}

/// Every rank that is still in the call gets the error with both ranks; then all continue.
#[test]
fn wrong_calls_by_lines_name_both_at_every_rank_that_waits() {
    wrong_calls(3);
}

#[test]
fn wrong_calls_by_messages_name_both_at_every_rank_that_waits() {
    wrong_calls(1);
}

/// Each call waits until a doubt is settled, so most of the time the processor is idle.
fn wrong_calls(per_node: u32) {
    std::thread::scope(|scope| {
        for usual in (0..CALLS).filter(|usual| is_tried(*usual, per_node)) {
            scope.spawn(move || wrong_calls_beside(usual, per_node));
        }
    });
}

fn wrong_calls_beside(usual: usize, per_node: u32) {
    for other in (0..CALLS).filter(|other| *other != usual && is_tried(*other, per_node)) {
        for odd in [0, 2] {
            wrong_calls_of(usual, (odd, other), per_node);
        }
    }
}

/// All ranks but one make the usual call.
fn wrong_calls_of(usual: usize, (odd, other): (u32, usize), per_node: u32) {
    let results = run(tight_ports(3, per_node), (usual * CALLS + other) as u64, async |group| {
        let result = call(group, if group.rank() == odd { other } else { usual }).await;
        // Ranks that had returned learn of it in one of the next calls, and questions are answered.
        let mut results = vec![result];
        for _ in 0..3 {
            results.push(barrier(group, None).await);
        }
        (results, barrier(group, None).await)
    });
    let what = format!("{usual} and, at rank {odd}, {other}: {results:?}");
    assert!(results.iter().all(|(_, last)| *last == Ok(())), "{what}");
    let failed = results.iter().filter(|(results, _)| results[0].is_err()).count();
    let later = results.iter().flat_map(|(results, _)| &results[1..]);
    // If no rank waits for another, the next call fails.
    assert!(failed > 0 || later.clone().any(Result::is_err), "{what}");
    for result in results.iter().map(|(results, _)| &results[0]).chain(later) {
        match result {
            Ok(()) => {}
            Err(CollError::Differ { one, other }) => {
                assert!((one.rank == odd) != (other.rank == odd), "{what}");
                assert_ne!(one.call, other.call, "{what}");
            }
            Err(_) => panic!("{what}"),
        }
    }
    let all_wait = all_wait(usual) && all_wait(other);
    let by_lines = per_node == 3 && all_see(usual) && all_see(other);
    if all_wait || (by_lines && !differ_in_a_part(usual, other)) {
        assert_eq!(failed, 3, "{what}");
    }
}

/// Calls of one operation with and without a list of lengths may use lines and messages.
#[test]
fn a_list_at_some_ranks_alone_is_named_where_the_others_have_no_lines() {
    for (usual, other) in [(35, 32), (32, 35), (11, 36), (36, 11)] {
        for odd in [0, 2] {
            wrong_calls_of(usual, (odd, other), 3);
        }
    }
}

/// MPI_IN_PLACE is for all ranks or none (MPI 5.0 §6.8): by lines, by reading and by messages.
#[test]
fn an_alltoall_in_place_at_some_ranks_alone_is_named() {
    for (per_node, length) in [(3, 8), (3, 100_000), (1, 8), (1, 100_000)] {
        for (odd, in_place) in [(0, true), (0, false), (2, true), (2, false)] {
            let results = run(tight_ports(3, per_node), 7, async |group: &Ranks<'_>| {
                let (parts, mut into) = (vec![1; 3 * length], vec![2; 3 * length]);
                match (group.rank() == odd) == in_place {
                    true => alltoall_in_place(group, &mut into).await,
                    false => alltoall(group, None, &parts, &mut into).await,
                }
            });
            for result in &results {
                let Err(CollError::Differ { one, other }) = result else { panic!("{results:?}") };
                assert!((one.rank == odd) != (other.rank == odd), "{results:?}");
                for caller in [one, other] {
                    let named = caller.call.to_string().contains("in place");
                    assert_eq!(named, (caller.rank == odd) == in_place, "{results:?}");
                }
            }
        }
    }
}

/// Each rank takes the other for the root and only sends, so all calls complete: the next call
/// fails, once, and then all continue.
#[test]
fn wrong_calls_in_which_nobody_waits_fail_the_next_call() {
    for (seed, gathers) in (0..40).zip([false, true].into_iter().cycle()) {
        let results = run(tight_ports(2, 1 + seed as u32 / 20), seed, async |group| {
            let (mine, other) = ([1; 8], 1 - group.rank());
            let mut outcomes = vec![match gathers {
                true => gather(group, None, Some(&mine), &mut [], other).await,
                false => reduce(group, None, &mut mine.clone(), other, add()).await,
            }];
            for _ in 0..6 {
                outcomes.push(scan(group, None, &mut mine.clone(), add()).await);
                outcomes.push(barrier(group, None).await);
            }
            outcomes
        });
        let what = format!("seed {seed}: {results:?}");
        for outcomes in &results {
            assert_eq!(outcomes[0], Ok(()), "nobody waits: {what}");
            let failed: Vec<&Outcome> = outcomes.iter().filter(|it| it.is_err()).collect();
            assert!((1..=2).contains(&failed.len()), "{what}");
            for failed in failed {
                let Err(CollError::Differ { one, other }) = failed else { panic!("{what}") };
                let [one, other] = [one, other].map(|it| (it.rank, it.call.to_string()));
                assert_ne!(one.0, other.0, "{what}");
                for (rank, call) in [one, other] {
                    let root = format!("with root {}", 1 - rank);
                    assert!(call.contains(&root), "{call}: {what}");
                }
            }
            assert_eq!(outcomes[5..], vec![Ok(()); 8], "{what}");
        }
    }
}

/// A rank that has left does not answer: its message is evidence enough.
#[test]
fn a_wrong_call_of_a_rank_that_calls_no_more_fails_the_next_call() {
    let results = run(tight_ports(2, 1), 3, async |group| {
        let first = reduce(group, None, &mut [1; 8], 1 - group.rank(), add()).await;
        match group.rank() {
            0 => vec![first],
            _ => {
                let mut outcomes = vec![first];
                // A call that only sends ends when the message has arrived, before the answer has.
                while outcomes.iter().all(Result::is_ok) && outcomes.len() < 100 {
                    outcomes.push(reduce(group, None, &mut [1; 8], 0, add()).await);
                }
                outcomes
            }
        }
    });
    let last = results[1].last();
    let named =
        matches!(last, Some(Err(CollError::Abandoned { peer: 0, cause: Cause::OtherCall, .. })));
    assert!(named, "{results:?}");
}

#[test]
fn a_death_ends_calls_by_lines_at_every_rank() {
    for per_node in [2, 4] {
        for victim in 0..4 {
            let ports = tight_ports(4, per_node);
            kill(&ports[(victim as usize + 1) % 4], victim);
            let results = run(ports, 5, async |group| {
                if group.rank() == victim {
                    return Vec::new();
                }
                let mut outcomes = Vec::new();
                for length in [8, 3000] {
                    outcomes.push(barrier(group, None).await);
                    outcomes.push(allreduce(group, None, &mut vec![0; length], add()).await);
                    outcomes.push(broadcast(group, None, &mut vec![0; length], victim).await);
                    let (mut data, mut block) = (vec![0; length], vec![0; length / 4]);
                    outcomes.push(
                        reduce_scatter_block(group, None, &mut data, &mut block, add()).await,
                    );
                    let parts = [&data[..2]; 4];
                    let places = block.chunks_mut(2).take(4).collect::<Vec<_>>();
                    if places.len() == 4 {
                        outcomes.push(alltoallv(group, None, &parts, places).await);
                    }
                }
                outcomes
            });
            for outcome in results.into_iter().flatten() {
                let names = match outcome {
                    Err(CollError::Message(MsgError::PeerFailed(failure))) => failure.rank,
                    Err(CollError::Abandoned { cause: Cause::Gone { rank }, .. }) => rank,
                    other => panic!("{victim} of {per_node} a node is dead: {other:?}"),
                };
                assert_eq!(names, victim);
            }
        }
    }
}

#[test]
fn lines_by_name_where_there_are_none_are_an_error_and_after_a_failure_messages() {
    use hikyaku_coll::barrier::Algorithm::Lines;
    let alone = run(tight_ports(2, 1), 1, async |group| barrier(group, Some(Lines)).await);
    for result in alone {
        let line = result.unwrap_err().to_string();
        assert!(line.starts_with("barrier by lines needs ranks of a node that share"), "{line}");
    }
    let results = run(tight_ports(3, 3), 1, async |group| {
        assert!(group.facilities().lines);
        // Rank 1 never gathers: the others get the error of a different call.
        let wrong = match group.rank() {
            1 => gather(group, None, Some(&[1]), &mut [], 0).await,
            _ => barrier(group, Some(Lines)).await,
        };
        let _ = barrier(group, None).await;
        let after = barrier(group, Some(Lines)).await;
        (wrong.is_err(), after, group.facilities().lines)
    });
    for (_, after, lines) in &results {
        assert_eq!((after, lines), (&Ok(()), &false), "{results:?}");
    }
}

#[test]
fn ten_thousand_calls_leave_nothing_behind() {
    let entered = Cell::new(0);
    let results = run(tight_ports(3, 3), 9, async |group| {
        for _ in 0..10_000 / 3 {
            entered.set(entered.get() + 1);
            barrier(group, None).await?;
        }
        Outcome::Ok(())
    });
    assert_eq!((results, entered.get()), (vec![Ok(()); 3], 9999));
}

#[test]
fn a_reduction_that_panics_leaves_its_rank_in_step() {
    let mut at_once = 0;
    for seed in 0..20 {
        let results = run(tight_ports(3, 3), seed, async |group: &Ranks<'_>| {
            let mut data = [1; 8];
            let mut polls = 0;
            if group.rank() == 1 {
                let panics = |_: &[u8], _: &mut [u8]| panic!("on purpose");
                let (mut lent, mut pending) = (Some(&mut data), None::<Pending<'_>>);
                poll_fn(|context: &mut Context<'_>| {
                    polls += 1;
                    let poll = || {
                        let pending = pending.get_or_insert_with(|| {
                            let reduction = Reduction::commutative(1, panics);
                            Box::pin(allreduce(group, None, lent.take().unwrap(), reduction))
                        });
                        pending.as_mut().poll(context)
                    };
                    let polled = catch_unwind(AssertUnwindSafe(poll));
                    polled.map_or(Poll::Ready(()), |polled| polled.map(drop))
                })
                .await;
            } else {
                // Done, or ended because a rank abandoned it.
                let _ = allreduce(group, None, &mut data, add()).await;
            }
            let mut data = [1; 8];
            (polls, allreduce(group, None, &mut data, add()).await.map(|()| data))
        });
        for (polls, again) in results {
            assert_eq!(again, Ok([3; 8]), "seed {seed}");
            at_once += u32::from(polls == 1);
        }
    }
    assert!(at_once > 0, "no call was done when it was made");
}

/// A rank's actions after it has opened a barrier and before it polls it are visible to the others.
#[test]
fn a_barrier_that_was_opened_is_entered_later() {
    for (size, per_node) in [(2, 2), (4, 4), (4, 2), (3, 1)] {
        let ready = Cell::new(0);
        let found = run(tight_ports(size, per_node), 5, async |group: &Ranks<'_>| {
            let opened = open_barrier(group, None);
            let mut left = 50 * group.rank();
            poll_fn(|_| match left {
                0 => Poll::Ready(()),
                _ => {
                    left -= 1;
                    Poll::Pending
                }
            })
            .await;
            ready.set(ready.get() + 1);
            opened.await.unwrap();
            ready.get()
        });
        assert_eq!(found, vec![size; size as usize]);
    }
}

async fn until(is_so: impl Fn() -> bool) {
    poll_fn(|_| if is_so() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// No rank has received a part of that call by lines.
#[test]
fn a_root_whose_lines_end_before_it_writes_sends_messages() {
    let (is_open, calls) = (Cell::new(false), Cell::new(None));
    let results = run(tight_ports(2, 2), 1, async |group: &Ranks<'_>| {
        let mut data = [7 - group.rank() as u8; 8];
        if group.rank() == 0 {
            until(|| is_open.get()).await;
            // Without a receiver it reaches a call for which there is no room.
            for call in 1.. {
                let mut pending = Box::pin(broadcast(group, None, &mut data, 0));
                let polled = poll_fn(|context| Poll::Ready(pending.as_mut().poll(context))).await;
                if polled.is_pending() {
                    calls.set(Some(call));
                    return (pending.await, data);
                }
            }
        }
        let mut first = Box::pin(broadcast(group, None, &mut data, 0));
        poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await;
        is_open.set(true);
        until(|| calls.get().is_some()).await;
        // This ends the lines, and the calls that the root has made by them fail here.
        drop(first);
        for _ in 2..calls.get().unwrap() {
            assert!(broadcast(group, None, &mut data, 0).await.is_err());
        }
        (broadcast(group, None, &mut data, 0).await, data)
    });
    assert!(calls.get() > Some(2));
    assert_eq!(results, vec![(Ok(()), [7; 8]); 2]);
}

/// A rank that only contributes runs ahead until there is no room; the root finds the bytes of each
/// call.
#[test]
fn who_gives_runs_ahead_of_the_root_and_overwrites_nothing() {
    for (length, reduces) in [(2, false), (2, true), (3000, false), (3000, true)] {
        let is_full = Cell::new(false);
        let results = run(tight_ports(3, 3), 1, async |group: &Ranks<'_>| {
            barrier(group, None).await?;
            let at_root = group.rank() == 0;
            if at_root {
                until(|| is_full.get()).await;
            }
            for call in 0..40 {
                let mut mine = vec![call + group.rank() as u8; length];
                let given = mine.clone();
                let mut all = vec![0; 3 * length];
                let mut pending: Pending<'_> = match reduces {
                    true => Box::pin(reduce(group, None, &mut mine, 0, add())),
                    false => Box::pin(gather(group, None, Some(&given), &mut all, 0)),
                };
                let polled = poll_fn(|context| Poll::Ready(pending.as_mut().poll(context))).await;
                match polled {
                    Poll::Ready(done) => done?,
                    Poll::Pending => {
                        is_full.set(true);
                        pending.as_mut().await?;
                    }
                }
                drop(pending);
                let expected = [call, call + 1, call + 2].map(|byte| vec![byte; length]).concat();
                assert!(!at_root || reduces || all == expected);
                assert!(!at_root || !reduces || mine == vec![3 * call + 3; length]);
            }
            Outcome::Ok(())
        });
        assert_eq!(results, vec![Ok(()); 3]);
    }
}

/// Lines add floating-point numbers in the order of the messages that replace them.
#[test]
fn a_reduction_by_lines_has_the_bits_of_the_tree() {
    use hikyaku_coll::reduce::Algorithm::{Binomial, Lines};
    let sum = |left: &[u8], right: &mut [u8]| {
        for (left, right) in left.as_chunks().0.iter().zip(right.as_chunks_mut().0) {
            *right = (f32::from_le_bytes(*left) + f32::from_le_bytes(*right)).to_le_bytes();
        }
    };
    for (size, length) in (2..=7).flat_map(|size| [4, 100, 600, 5000].map(|it| (size, it))) {
        let results = run(tight_ports(size, size), 3, async |group: &Ranks<'_>| {
            let mut random = Random::new(u64::from(group.rank()) + 1);
            let number = |_| (random.word() as f32 / 7e3).to_le_bytes();
            let numbers: Vec<[u8; 4]> = (0..length / 4).map(number).collect();
            let mut both = Vec::new();
            for (root, commutative) in (0..size).flat_map(|root| [(root, true), (root, false)]) {
                for by in [Lines, Binomial] {
                    let mut data = numbers.concat();
                    let reduction = Reduction { commutative, ..Reduction::commutative(4, sum) };
                    reduce(group, Some(by), &mut data, root, reduction).await.unwrap();
                    both.push(if group.rank() == root { data } else { Vec::new() });
                }
            }
            both
        });
        for pair in results.iter().flat_map(|both| both.chunks(2)) {
            assert_eq!(pair[0], pair[1], "{size} ranks, {length} bytes");
        }
    }
}

#[test]
fn lines_take_as_many_bytes_as_they_say() {
    run(tight_ports(2, 2), 1, async |group: &Ranks<'_>| {
        let most = group.most_on_lines();
        assert!(group.contribute(7, &[&vec![1; most + 1]]).is_err());
        assert_eq!(group.contribute(7, &[&vec![1; most]]), Ok(true));
    });
}
