//! Channels of lines that pass from one communicator to the next: with different ranks, in a
//! different order at each rank, in use at the same time, and used up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use hikyaku_coll::{
    Begun, CollectiveBook, CommunicatorGroup, Group, Operand, Reduction, allgather, allreduce,
    barrier, begin_allgather, begin_allreduce, begin_alltoall, begin_barrier, begin_broadcast,
    begin_gather, begin_scan, begin_scatter, broadcast,
};
use hikyaku_msg::{ContextEndpoint, Engine, Members, join_all};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::loopback::LoopbackConfig;
use hikyaku_nic::segment::{GroupLayout, SegmentLayout};
use proptest::prelude::*;

use crate::case::add;
use crate::engines::{TestPort, open, run_engines};

type Rank = RefCell<Engine<TestPort>>;
type Ranks<'e> = CommunicatorGroup<'e, TestPort>;

/// Ports with `channels` channels.
fn ports(ranks: u32, per_node: u32, channels: u32) -> Vec<TestPort> {
    ports_with_areas(ranks, per_node, GroupLayout { channels, area_bytes: 4096 })
}

fn ports_with_areas(ranks: u32, per_node: u32, groups: GroupLayout) -> Vec<TestPort> {
    let layout = SegmentLayout::for_ranks(ranks);
    let layout = SegmentLayout { groups, ring_bytes: 4096, packet_bytes: 512, ..layout };
    open(&LoopbackConfig { layout, ranks_per_node: per_node, region_bytes: 1 << 16 })
}

/// One rank's part in a communicator.
struct Part {
    context: u32,
    members: Option<Members>,
    book: CollectiveBook,
}

impl Part {
    fn new(engine: &Rank, context: u32, ranks: &[u32]) -> Part {
        let own = engine.borrow().rank();
        let node_of = |rank| engine.borrow().port().node_of(rank);
        let members = Members::new(ranks.to_vec(), own, node_of);
        let endpoint = ContextEndpoint::new(engine, context).among(members.as_ref());
        let book = CollectiveBook::agreeing(&endpoint, context);
        Part { context, members, book }
    }

    fn group<'e>(&'e self, engine: &'e Rank) -> Ranks<'e> {
        let endpoint = ContextEndpoint::new(engine, self.context).among(self.members.as_ref());
        CommunicatorGroup::new(endpoint, &self.book)
    }

    fn free(self, engine: &Rank) {
        self.book.leave(engine.borrow_mut().port_mut());
    }
}

fn has_lines(group: &Ranks<'_>) -> bool {
    group.next_on_lines().is_some()
}

/// An operation that is neither commutative nor associative: its result reveals the order.
fn order() -> Reduction<impl FnMut(&[u8], &mut [u8]) + Copy> {
    Reduction::ordered(1, |left: &[u8], right: &mut [u8]| {
        let both = |left: u8, right: u8| {
            let word = (u32::from(left) << 8 | u32::from(right)).wrapping_mul(0x9e37_79b9);
            (word >> 13) as u8
        };
        left.iter().zip(right).for_each(|(left, right)| *right = both(*left, *right));
    })
}

/// The contribution of a rank to a call on a communicator.
fn given(context: u32, call: u32, rank: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (context * 31 + call * 7 + rank * 3 + at) as u8).collect()
}

/// Makes calls of each kind in turn and checks the results.
async fn use_once(group: &Ranks<'_>, context: u32, call: u32, length: usize) {
    let (rank, size) = (group.rank(), group.size());
    let mut data = given(context, call, rank, length);
    match call % 4 {
        0 => {
            allreduce(group, None, &mut data, add()).await.unwrap();
            let all: Vec<_> = (0..size).map(|rank| given(context, call, rank, length)).collect();
            let expected = |at| all.iter().fold(0u8, |sum, one| sum.wrapping_add(one[at]));
            assert!((0..length).map(expected).eq(data), "context {context}, call {call}");
        }
        1 => {
            let root = call % size;
            broadcast(group, None, &mut data, root).await.unwrap();
            assert_eq!(data, given(context, call, root, length), "context {context}, call {call}");
        }
        2 => {
            let mut all = vec![0; length * size as usize];
            allgather(group, None, Some(&data), &mut all).await.unwrap();
            let expected = (0..size).flat_map(|rank| given(context, call, rank, length));
            assert!(expected.eq(all), "context {context}, call {call}");
        }
        _ => barrier(group, None).await.unwrap(),
    }
}

/// At each rank, the number of communicators with lines among `turns` that are made, used and freed
/// one after the other.
fn in_turn(size: u32, channels: u32, turns: u32) -> Vec<u32> {
    let (results, _) = run_engines(ports(size, size, channels), 7, async |engine: &Rank| {
        let mut with_lines = 0;
        for turn in 0..turns {
            let part = Part::new(engine, 4 + turn % 64, &Vec::from_iter(0..size));
            let group = part.group(engine);
            barrier(&group, None).await.unwrap();
            with_lines += u32::from(has_lines(&group));
            part.free(engine);
        }
        with_lines
    });
    results
}

/// Whether the call completed when it was made.
fn is_done<F>(begun: Begun<Result<(), impl std::fmt::Debug>, F>) -> bool {
    matches!(begun, Begun::Done(Ok(())))
}

#[test]
fn a_rank_alone_waits_for_nobody_and_needs_no_channel() {
    // Also for long data, and without any channel.
    let (results, _) = run_engines(ports(2, 2, 0), 7, async |engine: &Rank| {
        let own = engine.borrow().rank();
        let part = Part::new(engine, 4, &[own]);
        let group = part.group(engine);
        [3, 113, 10_000, 1_000_000].map(|length| {
            let data = given(1, 2, own, length);
            let (mut one, mut other) = (data.clone(), vec![0; length]);
            let mut done = vec![
                is_done(begin_barrier(&group, None)),
                is_done(begin_broadcast(&group, None, &mut one, 0)),
                is_done(begin_allreduce(&group, None, Operand::Own(&mut one), add())),
                is_done(begin_allgather(&group, None, Some(&data), &mut other)),
            ];
            assert!(other == data);
            if length <= 64 << 10 {
                done.push(is_done(begin_scan(&group, None, &mut one, add())));
                other.fill(0);
                done.push(is_done(begin_alltoall(&group, None, &data, &mut other)));
                assert!(other == data);
                other.fill(0);
                done.push(is_done(begin_gather(&group, None, Some(&data), &mut other, 0)));
                assert!(other == data);
                other.fill(0);
                done.push(is_done(begin_scatter(&group, None, &data, Some(&mut other), 0)));
                assert!(other == data);
            }
            assert!(one == data && done.iter().all(|done| *done), "{length}: {done:?}");
            length
        })
    });
    assert_eq!(results.len(), 2);
}

#[test]
fn a_channel_that_was_freed_is_used_by_the_next_communicator() {
    for (size, turns) in [(2, 100_000), (3, 1000), (5, 1000)] {
        assert_eq!(in_turn(size, 2, turns), vec![turns; size as usize]);
        // A rank whose mates have not freed the last channel yet has none to offer.
        let few = in_turn(size, 1, 1000);
        assert!(few[0] > 0 && few.iter().all(|count| *count == few[0]), "{few:?}");
        assert_eq!(in_turn(size, 0, 10), vec![0; size as usize]);
    }
}

/// A step of a random program, the same at every rank.
#[derive(Debug, Clone)]
enum Step {
    /// Makes a communicator of these ranks, as bits.
    Make(u32),
    /// Makes a call in one of the communicators.
    Use(usize, usize),
    /// Makes a call in each of two communicators, in flight together, in a different order at each
    /// rank.
    UseBoth(usize, usize),
    /// Frees one: at some ranks now, at others after the next step.
    Free(usize, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1u32..64).prop_map(Step::Make),
        4 => (0usize..8, 0usize..300).prop_map(|(which, length)| Step::Use(which, length)),
        2 => (0usize..8, 0usize..8).prop_map(|(one, other)| Step::UseBoth(one, other)),
        2 => (0usize..8, any::<u32>()).prop_map(|(which, late)| Step::Free(which, late)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Runs a program at one rank. Returns, for each of its communicators, whether it had lines at the
/// end.
async fn play(engine: &Rank, size: u32, steps: &[Step]) -> BTreeMap<u32, bool> {
    let own = engine.borrow().rank();
    // All existing communicators: the context, and this rank's part in it.
    let mut live: Vec<(u32, Option<Part>)> = Vec::new();
    let (mut late, mut calls, mut ends) = (Vec::new(), 0, BTreeMap::new());
    let mut made = 0;
    for step in steps {
        let leaving = std::mem::take(&mut late);
        match *step {
            Step::Make(bits) if live.len() < 8 => {
                made += 1;
                let ranks: Vec<u32> = (0..size).filter(|rank| bits & 1 << rank != 0).collect();
                let is_in = ranks.contains(&own);
                live.push((made, is_in.then(|| Part::new(engine, made * 4, &ranks))));
            }
            Step::Use(which, length) if !live.is_empty() => {
                calls += 1;
                let (context, part) = &live[which % live.len()];
                if let Some(part) = part {
                    use_once(&part.group(engine), *context, calls, length).await;
                }
            }
            Step::UseBoth(one, other) if live.len() > 1 => {
                calls += 4;
                let (one, other) = (one % live.len(), other % live.len());
                let mut both = vec![(one, calls), (other, calls + 1)];
                if own % 2 == 1 && one != other {
                    both.reverse();
                }
                let both = both.into_iter().filter_map(|(which, call)| {
                    let (context, part) = &live[which];
                    part.as_ref().map(|part| (*context, part, call))
                });
                let use_one = async |(context, part, call): (u32, &Part, u32)| {
                    use_once(&part.group(engine), context, call, 9).await;
                };
                join_all(both.map(|it| Box::pin(use_one(it))).collect()).await;
            }
            Step::Free(which, who) if !live.is_empty() => {
                let (context, part) = live.remove(which % live.len());
                if let Some(part) = part {
                    ends.insert(context, part.book_has_lines(engine));
                    match who & 1 << own {
                        0 => part.free(engine),
                        _ => late.push(part),
                    }
                }
            }
            _ => {}
        }
        leaving.into_iter().for_each(|part: Part| part.free(engine));
    }
    for (context, part) in live {
        if let Some(part) = part {
            ends.insert(context, part.book_has_lines(engine));
            // So that calls of other ranks complete before this one leaves.
            barrier(&part.group(engine), None).await.unwrap();
        }
    }
    ends
}

impl Part {
    fn book_has_lines(&self, engine: &Rank) -> bool {
        has_lines(&self.group(engine))
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whichever communicators are made, used and freed, every result is right, and either all
    /// ranks of a communicator have lines or none.
    #[test]
    fn any_communicators_make_use_of_few_channels(
        size in 2u32..7, per_node in 2u32..7, channels in 0u32..5, steps in steps(), seed: u64,
    ) {
        let job = ports(size, per_node, channels);
        let (results, _) = run_engines(job, seed, async |engine| play(engine, size, &steps).await);
        let mut known = BTreeMap::new();
        for (context, has) in results.into_iter().flatten() {
            prop_assert_eq!(*known.entry(context).or_insert(has), has, "context {}", context);
        }
    }
}

#[test]
fn calls_that_come_first_together_agree_on_a_channel_each() {
    for turned in [false, true] {
        let (results, _) = run_engines(ports(3, 3, 16), 3, async |engine: &Rank| {
            let parts: Vec<Part> =
                (1..=4).map(|number| Part::new(engine, number, &[0, 1, 2])).collect();
            let groups: Vec<_> = parts.iter().map(|part| part.group(engine)).collect();
            let mut calls: Vec<_> =
                groups.iter().map(|group| Box::pin(barrier(group, None))).collect();
            if turned && engine.borrow().rank() == 1 {
                calls.reverse();
            }
            join_all(calls).await.into_iter().for_each(|ended| ended.unwrap());
            groups.iter().filter(|group| has_lines(group)).count()
        });
        assert_eq!(results, [4; 3], "turned: {turned}");
    }
}

/// An allreduce has the same bits by lines and by the algorithm chosen without lines.
#[test]
fn without_a_channel_left_the_order_is_the_same() {
    let shapes = (2..=9).map(|size| (size, size)).chain([(8, 4), (9, 5), (12, 5), (300, 300)]);
    for (size, per_node) in shapes {
        // For very many ranks, which count as several nodes, only a few bytes.
        let lengths = [1, 16, 17, 112, 113, 3000, 9000];
        for length in lengths.into_iter().filter(|length| size < 100 || *length == 17) {
            let results = [4, 0].map(|channels| {
                let job = ports(size, per_node, channels);
                let (results, _) = run_engines(job, 5, async |engine: &Rank| {
                    let part = Part::new(engine, 4, &Vec::from_iter(0..size));
                    let group = part.group(engine);
                    let mut data = given(1, 1, group.rank(), length);
                    allreduce(&group, None, &mut data, order()).await.unwrap();
                    assert_eq!(has_lines(&group), channels > 0);
                    data
                });
                assert!(results.iter().all(|data| *data == results[0]));
                results
            });
            assert_eq!(results[0], results[1], "{size} ranks, {per_node} a node, {length} bytes");
        }
    }
}

/// A rank's share of an allreduce is combined in pieces, the last of which is shorter.
#[test]
fn a_share_of_more_than_one_piece_is_combined_whole() {
    for size in [2, 3, 4] {
        let results = [1, 0].map(|channels| {
            let groups = GroupLayout { channels, ..GroupLayout::DEFAULT };
            let job = ports_with_areas(size, size, groups);
            let (results, _) = run_engines(job, 5, async |engine: &Rank| {
                let part = Part::new(engine, 4, &Vec::from_iter(0..size));
                let group = part.group(engine);
                let mut sums = Vec::new();
                // The first call agrees on lines. The next ones begin with what needs no wait: the
                // rank that comes last combines its share at once, and waits for the others'.
                for call in 0..3 {
                    let from = given(1, call, group.rank(), 4_500 * size as usize);
                    let mut into = from.clone();
                    let operand = match call {
                        2 => Operand::Apart { from: &from, into: &mut into },
                        _ => Operand::Own(&mut into),
                    };
                    begin_allreduce(&group, None, operand, order()).end().await.unwrap();
                    assert_eq!(has_lines(&group), channels > 0);
                    sums.push(into);
                }
                sums
            });
            results
        });
        assert_eq!(results[0], results[1], "{size} ranks: by lines, and by messages");
    }
}

#[test]
fn what_was_refused_is_asked_for_again_when_a_channel_is_free() {
    let (results, _) = run_engines(ports(2, 2, 1), 3, async |engine: &Rank| {
        let (first, second) = (Part::new(engine, 4, &[0, 1]), Part::new(engine, 8, &[0, 1]));
        barrier(&first.group(engine), None).await.unwrap();
        let group = second.group(engine);
        // Calls that need no lines. There is no new search after the refused call.
        for _ in 0..70 {
            let by_messages = broadcast::Algorithm::from_name("binomial");
            assert!(by_messages.is_some());
            broadcast(&group, by_messages, &mut [1], 0).await.unwrap();
        }
        barrier(&group, None).await.unwrap();
        let refused = has_lines(&group);
        barrier(&first.group(engine), None).await.unwrap();
        first.free(engine);
        let mut calls = 0;
        while !has_lines(&group) {
            barrier(&group, None).await.unwrap();
            calls += 1;
        }
        (refused, calls)
    });
    assert_eq!(results[0], results[1]);
    let (refused, calls) = results[0];
    assert!(!refused && (8..64).contains(&calls), "{calls} calls");
}

/// While lines are agreed on, one rank makes its next call for lines and another, later, makes it
/// by messages: both write the same word on the lines that exist at the end.
#[test]
fn a_call_made_while_lines_are_refused_is_the_same_at_all_ranks() {
    let (results, _) = run_engines(ports(2, 2, 1), 3, async |engine: &Rank| {
        let (first, second) = (Part::new(engine, 4, &[0, 1]), Part::new(engine, 8, &[0, 1]));
        barrier(&first.group(engine), None).await.unwrap();
        let group = second.group(engine);
        let mut data = [7 - group.rank() as u8];
        let refused = barrier(&group, None);
        if group.rank() == 0 {
            let sent = broadcast(&group, None, &mut data, 0);
            assert_eq!((refused.await, sent.await), (Ok(()), Ok(())));
        } else {
            refused.await.unwrap();
            broadcast(&group, None, &mut data, 0).await.unwrap();
        }
        first.free(engine);
        let mut outcomes = Vec::new();
        while outcomes.len() < 64 && !has_lines(&group) {
            outcomes.push(barrier(&group, None).await);
        }
        (data, has_lines(&group), outcomes)
    });
    assert_eq!(results[0], results[1]);
    let ([data], has_lines, outcomes) = &results[0];
    assert!(*data == 7 && *has_lines && outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// A rank that drops the call in which lines are agreed on does not know which channel the others
/// have taken. When it makes calls there later, no rank mistakes them for those of the first, and
/// the channel is not lost.
#[test]
fn a_call_dropped_while_lines_are_agreed_on_spoils_no_other() {
    for seed in 0..200 {
        let dropped = Cell::new(0);
        let (_, _) = run_engines(ports(3, 3, 1), seed, async |engine: &Rank| {
            let own = engine.borrow().rank();
            let all = Part::new(engine, 4, &[0, 1, 2]);
            // One round, and many.
            let length = if seed % 2 == 0 { 8 } else { 12_000 };
            let group = all.group(engine);
            if own == 2 {
                let mut data = vec![7; length];
                let mut call = Box::pin(allreduce(&group, None, &mut data, order()));
                for _ in 0..seed % 30 {
                    let polled = std::future::poll_fn(|context| {
                        std::task::Poll::Ready(call.as_mut().poll(context).is_ready())
                    });
                    if polled.await {
                        break;
                    }
                    yield_now().await;
                }
                dropped.set(dropped.get() + 1);
            } else {
                // It fails, or had all that it needs.
                let _ = allreduce(&group, None, &mut vec![7; length], order()).await;
            }
            let next = Part::new(engine, 8, &[0, 1, 2]);
            for call in 0..40 {
                use_once(&next.group(engine), 2, call, 8).await;
            }
            barrier(&group, None).await.unwrap();
            all.free(engine);
            next.free(engine);
            let mut with_lines = 0;
            for turn in 0..20 {
                let part = Part::new(engine, 12 + 4 * turn, &[0, 1, 2]);
                use_once(&part.group(engine), turn, turn, 8).await;
                use_once(&part.group(engine), turn, 3, 8).await;
                with_lines += u32::from(part.book_has_lines(engine));
                part.free(engine);
            }
            assert!(with_lines > 0, "the channel is lost");
        });
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn calls_that_differ_while_lines_are_agreed_on_are_an_error_at_all() {
    let (results, _) = run_engines(ports(3, 3, 2), 3, async |engine: &Rank| {
        let part = Part::new(engine, 4, &[0, 1, 2]);
        let group = part.group(engine);
        let ended = match group.rank() {
            1 => allreduce(&group, None, &mut [7; 8], order()).await,
            _ => barrier(&group, None).await,
        };
        let error = ended.unwrap_err().to_string();
        // The next call is not affected.
        use_once(&group, 1, 2, 30).await;
        error
    });
    for error in results {
        assert!(error.contains("allreduce") && error.contains("barrier"), "{error}");
    }
}

async fn yield_now() {
    let mut is_first = true;
    std::future::poll_fn(|_| match std::mem::take(&mut is_first) {
        true => std::task::Poll::Pending,
        false => std::task::Poll::Ready(()),
    })
    .await;
}
