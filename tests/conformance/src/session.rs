//! Command queues: the pointers, releases and completions of paper 002's session mode.

use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku_nic::fabric::{
    Arithmetic, Combining, Completion, MemoryPort, NumberType, QueueAddress, QueueCombine,
    QueueCommand, QueueError, QueueFault, QueueMode, QueuePort, QueuePut, QueueState,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::ring::{MAX_LEAD, QueueFull, ReleaseError};

use crate::job::pattern;
use crate::{Harness, Job, Setup, TablePort};

const SESSION: QueueMode = QueueMode::Session { offset: 0 };

/// A queue of a rank, as long as possible.
fn create<H: Harness>(job: &mut Job<'_, H>, rank: u32, mode: QueueMode) -> QueueAddress {
    let (_, slots) = job.port(rank).free_queues();
    job.port(rank).create_queue(mode, slots).expect("a queue is free")
}

fn region<H: Harness>(job: &mut Job<'_, H>, rank: u32, bytes: usize) -> RegionBuffer {
    job.port(rank).allocate(bytes).expect("the region has room")
}

fn state<H: Harness>(job: &mut Job<'_, H>, of: QueueAddress) -> QueueState {
    job.port(of.rank).queue_state(of).expect("the queue is open")
}

/// The completions of a queue that were not taken yet.
fn completions<H: Harness>(job: &mut Job<'_, H>, of: QueueAddress) -> Vec<Completion> {
    std::iter::from_fn(|| job.port(of.rank).completion(of.queue)).collect()
}

/// A put of all of `from` to `at` in `to`'s region, which notifies `to`.
fn data(from: &RegionBuffer, to: QueueAddress, at: u64) -> QueueCommand {
    let (from, length) = (from.offset(), from.len() as u64);
    QueueCommand::Put(QueuePut { from, at, length, to, notify: true, release: 0 })
}

fn ready(to: QueueAddress, release: u32) -> QueueCommand {
    QueueCommand::Put(QueuePut::ready(to, release))
}

fn post<H: Harness>(job: &mut Job<'_, H>, queue: QueueAddress, chain: &[QueueCommand]) {
    job.port(queue.rank).post_queue(queue.queue, chain).expect("there is room");
}

/// TF-01: a slot runs when it is written and released, and never before earlier slots.
pub fn tf_01_a_slot_runs_when_written_and_released_in_order<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let (mine, theirs) = (create(&mut job, 0, SESSION), create(&mut job, 1, SESSION));
    let trigger = create(&mut job, 1, QueueMode::Normal);
    let parts: Vec<_> = (0..3)
        .map(|number| {
            let mut part = region(&mut job, 0, 40);
            part.copy_from_slice(&pattern(number, 40));
            part
        })
        .collect();
    let mut target = region(&mut job, 1, 40);
    target.fill(0);
    let chain: Vec<_> = parts.iter().map(|part| data(part, theirs, target.offset())).collect();
    post(&mut job, mine, &chain);
    assert!(target.iter().all(|byte| *byte == 0), "written, not released");
    for number in 0..3 {
        post(&mut job, trigger, &[ready(mine, 1)]);
        assert_eq!(target[..], pattern(number, 40), "each release runs the next");
        let now = state(&mut job, mine);
        assert_eq!((now.written, now.executed, now.ahead), (3, number + 1, 0));
    }
    assert_eq!(state(&mut job, theirs).arrivals, 3);
}

/// TF-02: a put with a count advances the queue that it names, and no other, by that count; a count
/// of zero advances nothing.
pub fn tf_02_an_arrival_advances_the_addressed_queue<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let (first, second) = (create(&mut job, 0, SESSION), create(&mut job, 0, SESSION));
    let sender = create(&mut job, 1, QueueMode::Normal);
    let source = region(&mut job, 1, 8);
    let mut target = region(&mut job, 0, 8);
    target.fill(1);
    for (release, ahead) in [(0, 0), (3, 3), (0, 3), (7, 10)] {
        let put = QueuePut { release, notify: false, ..put_of(data(&source, first, 0)) };
        let put = QueuePut { at: target.offset(), ..put };
        post(&mut job, sender, &[QueueCommand::Put(put)]);
        assert_eq!(state(&mut job, first).ahead, ahead);
        assert_eq!(state(&mut job, second).ahead, 0);
        assert_eq!(target[..], source[..], "the payload comes with it");
    }
    assert_eq!(state(&mut job, first).arrivals, 0, "told only if asked for");
}

fn put_of(command: QueueCommand) -> QueuePut {
    match command {
        QueueCommand::Put(put) => put,
        other => panic!("not a put: {other:?}"),
    }
}

/// A combination is a command like the others: it is computed when it is released, by the rank that
/// releases it. A combination of memory that is not the owner's stops the queue.
pub fn a_combination_is_computed_by_whoever_releases_it<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let mine = create(&mut job, 0, SESSION);
    let elements = 1500;
    let mut both = region(&mut job, 0, 2 * 8 * elements);
    for at in 0..elements {
        both[at * 8..][..8].copy_from_slice(&(at as i64).to_ne_bytes());
        both[(elements + at) * 8..][..8].copy_from_slice(&(-2 * at as i64).to_ne_bytes());
    }
    let combining = Combining::new(Arithmetic::Sum, NumberType::I64).expect("integers have sums");
    let (left, length) = (both.offset(), 8 * elements as u64);
    let combine = QueueCombine { left, right: left + length, into: left, length, combining };
    post(&mut job, mine, &[QueueCommand::Combine(combine)]);
    assert_eq!(both[8..16], 1i64.to_ne_bytes(), "written, not released");
    assert_eq!(job.port(1).release_queue(mine, 2), Ok(()));
    for at in 0..elements {
        assert_eq!(both[at * 8..][..8], (-(at as i64)).to_ne_bytes());
    }
    let right = 1 << 50;
    post(&mut job, mine, &[QueueCommand::Combine(QueueCombine { right, ..combine })]);
    let fault = QueueFault::OutOfBounds { index: 1, rank: 0 };
    assert_eq!(state(&mut job, mine).fault, Some(fault));
}

/// TF-03: releases that arrive before the commands are remembered, and each command runs as soon as
/// it is written.
pub fn tf_03_scheduling_may_lead_write<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let (mine, theirs) = (create(&mut job, 0, SESSION), create(&mut job, 1, SESSION));
    let trigger = create(&mut job, 1, QueueMode::Normal);
    post(&mut job, trigger, &[ready(mine, 2)]);
    let now = state(&mut job, mine);
    assert_eq!((now.written, now.executed, now.ahead), (0, 0, 2));
    let source = region(&mut job, 0, 100);
    let target = region(&mut job, 1, 100);
    let chain = [data(&source, theirs, target.offset()); 3];
    post(&mut job, mine, &chain);
    assert_eq!((state(&mut job, mine).executed, state(&mut job, theirs).arrivals), (2, 2));
    post(&mut job, trigger, &[ready(mine, 1)]);
    assert_eq!((state(&mut job, mine).executed, state(&mut job, theirs).arrivals), (3, 3));
    assert_eq!(job.port(1).release_queue(mine, 1), Ok(()));
    post(&mut job, mine, &chain);
    assert_eq!(state(&mut job, mine).executed, 4, "a release needs no queue of its own");
    let absent = QueueAddress { queue: 99, ..mine };
    let error = QueueError::NoSuchQueue { rank: 0, queue: 99 };
    assert_eq!(job.port(1).release_queue(absent, 1), Err(error));
}

/// TF-04: a normal queue runs written commands, whatever is released; a session queue with an
/// offset starts with that many slots released.
pub fn tf_04_the_mode_is_chosen_at_creation<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(1));
    let normal = create(&mut job, 0, QueueMode::Normal);
    let offset = create(&mut job, 0, QueueMode::Session { offset: 2 });
    let other = create(&mut job, 0, SESSION);
    let chain = [QueueCommand::Nop; 5];
    post(&mut job, normal, &[ready(normal, 1), QueueCommand::Nop, ready(normal, 0)]);
    assert_eq!(state(&mut job, normal).executed, 3);
    post(&mut job, offset, &chain);
    post(&mut job, other, &chain);
    assert_eq!((state(&mut job, offset).executed, state(&mut job, other).executed), (2, 0));
}

/// TF-05: each command that runs completes, in order; each notified put is counted where it
/// arrives, after its payload.
pub fn tf_05_a_completion_per_command_and_an_event_per_notified_put<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let (mine, theirs) = (create(&mut job, 0, QueueMode::Normal), create(&mut job, 1, SESSION));
    let source = region(&mut job, 0, 16);
    let target = region(&mut job, 1, 16);
    let put = data(&source, theirs, target.offset());
    let silent = QueueCommand::Put(QueuePut { notify: false, ..put_of(put) });
    post(&mut job, mine, &[put, QueueCommand::Nop, silent, ready(theirs, 1), put]);
    let done: Vec<_> = (0..5).map(|index| Completion { index, outcome: Ok(()) }).collect();
    assert_eq!(completions(&mut job, mine), done);
    assert_eq!(state(&mut job, theirs).arrivals, 2);
    post(&mut job, mine, &[put]);
    let next = Completion { index: 5, outcome: Ok(()) };
    assert_eq!(completions(&mut job, mine), [next]);
    assert_eq!(completions(&mut job, theirs), []);
}

/// CJ-23: a rank with two tasks goes on with the one whose queue the last completion shows to be
/// empty. The first task's queue waits for its release; meanwhile the second one fills its queue
/// anew whenever that is empty, and its data arrive. After the release it is the first one's turn.
pub fn cj_23_an_empty_queue_passes_the_rank_on_to_its_task<H: Harness>(harness: &H) {
    const PUTS: u64 = 3;
    let mut job = Job::open(harness, &Setup::private(2));
    let queues = [create(&mut job, 0, SESSION), create(&mut job, 0, QueueMode::Normal)];
    let (theirs, trigger) = (create(&mut job, 1, SESSION), create(&mut job, 1, QueueMode::Normal));
    let mut sources = queues.map(|_| region(&mut job, 0, 64));
    let mut targets = queues.map(|_| region(&mut job, 1, 64));
    targets.iter_mut().for_each(|target| target.fill(0));
    // Fills a task's queue with its next data.
    let mut begun = [0; 2];
    let mut begin = |job: &mut Job<'_, H>, task: usize| {
        begun[task] += 1;
        sources[task].copy_from_slice(&pattern(begun[task], 64));
        let put = data(&sources[task], theirs, targets[task].offset());
        post(job, queues[task], &[put; PUTS as usize]);
        begun
    };
    // The task to go on with: its last command has completed.
    let mut ends = [0; 2].map(|_: u64| PUTS - 1);
    let mut next = |job: &mut Job<'_, H>| {
        let is_empty = |task: &usize| {
            let last = completions(job, queues[*task]).last().map(|last| last.index);
            last == Some(ends[*task])
        };
        let task = [0, 1].into_iter().find(is_empty);
        task.inspect(|task| ends[*task] += PUTS)
    };
    begin(&mut job, 0);
    begin(&mut job, 1);
    for round in 1..=5 {
        assert_eq!(next(&mut job), Some(1), "the first task's queue is not empty");
        assert_eq!(targets[1][..], pattern(round, 64), "what the second one has sent is there");
        assert_eq!(begin(&mut job, 1), [1, round + 1]);
    }
    assert!(targets[0].iter().all(|byte| *byte == 0), "the first one's data wait");
    assert_eq!(next(&mut job), Some(1));
    assert_eq!(next(&mut job), None, "the second one has nothing more to do");
    post(&mut job, trigger, &[ready(queues[0], PUTS as u32)]);
    assert_eq!(next(&mut job), Some(0));
    assert_eq!(targets[0][..], pattern(1, 64));
}

/// TF-07: the receiver's READY-TO-RECV from a normal queue releases the sender's data and end of
/// data, in whichever order the two sides start (paper 002 Figs. 5 and 6).
pub fn tf_07_data_follows_ready_to_recv_in_either_order<H: Harness>(harness: &H) {
    for receiver_first in [true, false] {
        let mut job = Job::open(harness, &Setup::private(2));
        let (sender, events) = (create(&mut job, 0, SESSION), create(&mut job, 1, SESSION));
        let receiver = create(&mut job, 1, QueueMode::Normal);
        let mut source = region(&mut job, 0, 3000);
        let target = region(&mut job, 1, 3000);
        for round in 0..20 {
            source.copy_from_slice(&pattern(round, 3000));
            let send = QueuePut { notify: false, ..put_of(data(&source, events, target.offset())) };
            let end = QueuePut { notify: true, ..QueuePut::ready(events, 0) };
            let chain = [QueueCommand::Put(send), QueueCommand::Put(end)];
            if receiver_first {
                post(&mut job, receiver, &[ready(sender, 2)]);
                post(&mut job, sender, &chain);
            } else {
                post(&mut job, sender, &chain);
                assert_eq!(state(&mut job, events).arrivals, round, "not before it is ready");
                post(&mut job, receiver, &[ready(sender, 2)]);
            }
            assert_eq!(state(&mut job, events).arrivals, round + 1);
            assert_eq!(target[..], pattern(round, 3000));
        }
    }
}

/// TF-08: both directions through one queue each: paper 002's Fig. 7, pointer by pointer.
pub fn tf_08_the_pointers_move_as_in_the_trace_of_fast<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let fast = QueueMode::Session { offset: 1 };
    let (mine, theirs) = (create(&mut job, 0, fast), create(&mut job, 1, fast));
    let (from, to) = (region(&mut job, 0, 64), region(&mut job, 1, 64));
    let program = |to: QueueAddress, from: &RegionBuffer, at: &RegionBuffer| {
        let send = put_of(data(from, to, at.offset()));
        let send = QueuePut { notify: false, ..send };
        let end = QueuePut { notify: true, ..QueuePut::ready(to, 0) };
        [ready(to, 3), QueueCommand::Put(send), QueueCommand::Put(end)]
    };
    let (ours, other) = (program(theirs, &from, &to), program(mine, &to, &from));
    let pointers = |job: &mut Job<'_, H>, of| {
        let QueueState { written, executed, ahead, .. } = state(job, of);
        (executed, written, executed.wrapping_add_signed(ahead.into()))
    };
    assert_eq!(pointers(&mut job, mine), (0, 0, 1), "init");
    post(&mut job, mine, &ours);
    assert_eq!(pointers(&mut job, mine), (1, 3, 1), "our start: only the RTR may go");
    assert_eq!(pointers(&mut job, theirs), (0, 0, 4), "the peer is early: it leads by four");
    post(&mut job, theirs, &other);
    assert_eq!(pointers(&mut job, mine), (3, 3, 4), "the peer's RTR: all of it");
    assert_eq!(pointers(&mut job, theirs), (3, 3, 4), "and all of theirs at once");
    for queue in [mine, theirs] {
        job.port(queue.rank).repeat_queue(queue.queue, 0).expect("nothing always fits");
    }
    post(&mut job, mine, &ours);
    assert_eq!(pointers(&mut job, mine), (4, 6, 4), "the second start: its RTR goes at once");
    post(&mut job, theirs, &other);
    assert_eq!(pointers(&mut job, mine), (6, 6, 7));
    assert_eq!((state(&mut job, mine).arrivals, state(&mut job, theirs).arrivals), (2, 2));
}

/// TF-16: a round of FAST is a READY-TO-RECV and a put for each neighbour, whatever the length.
/// Only the number of bytes grows, so its time is a line: for all lengths of paper 002's Fig. 9.
pub fn tf_16_a_round_of_fast_is_the_same_commands_for_any_length<H: Harness>(harness: &H) {
    const LONGEST: usize = 63 * 1024;
    let mut setup = Setup::private(3);
    setup.region_bytes = 8 * LONGEST;
    let mut job = Job::open(harness, &setup);
    let fast = QueueMode::Session { offset: 1 };
    // Rank 1 is between ranks 0 and 2: the queues and the memory for both sides.
    let queues = [(1, 0), (1, 2), (0, 1), (2, 1)].map(|(rank, _)| create(&mut job, rank, fast));
    let peers = [2, 3, 0, 1];
    let mut out = queues.map(|queue| region(&mut job, queue.rank, LONGEST));
    let mut into = queues.map(|queue| region(&mut job, queue.rank, LONGEST));
    for (at, out) in out.iter_mut().enumerate() {
        out.copy_from_slice(&pattern(at as u64, LONGEST));
    }
    for (round, length) in (0..=LONGEST).step_by(1024).enumerate() {
        into.iter_mut().for_each(|into| into.fill(0xEE));
        for (at, queue) in queues.into_iter().enumerate() {
            let to = queues[peers[at]];
            let send = put_of(data(&out[at], to, into[peers[at]].offset()));
            let send = QueuePut { length: length as u64, ..send };
            post(&mut job, queue, &[ready(to, 2), QueueCommand::Put(send)]);
        }
        for (at, queue) in queues.into_iter().enumerate() {
            let now = state(&mut job, queue);
            let rounds = round as u64 + 1;
            assert_eq!((now.executed, now.arrivals), (2 * rounds, rounds), "{length} bytes");
            assert_eq!(completions(&mut job, queue).len(), 2);
            assert_eq!(into[at][..length], out[peers[at]][..length]);
            assert!(into[at][length..].iter().all(|byte| *byte == 0xEE), "{length} bytes");
        }
    }
}

/// TF-17: why MRC takes longer. One queue has all commands, one after the other: the put to itself,
/// then a put for each neighbour. The second put does not begin before the first is done: if that
/// is invalid, neither runs. With FAST they are in two queues, independent of each other.
pub fn tf_17_by_mrc_the_second_put_waits_for_the_first_and_by_fast_for_nothing<H: Harness>(
    harness: &H,
) {
    for (is_fast, is_first_good) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut job = Job::open(harness, &Setup::private(3));
        let theirs = [0, 2].map(|rank| create(&mut job, rank, SESSION));
        let triggers = [0, 2].map(|rank| create(&mut job, rank, QueueMode::Normal));
        let mut targets = [0, 2].map(|rank| region(&mut job, rank, 500));
        targets.iter_mut().for_each(|target| target.fill(0));
        let mut source = region(&mut job, 1, 500);
        source.copy_from_slice(&pattern(17, 500));
        let at = if is_first_good { targets[0].offset() } else { 1 << 50 };
        let puts = [data(&source, theirs[0], at), data(&source, theirs[1], targets[1].offset())];
        let (own, release) = if is_fast {
            let fast = QueueMode::Session { offset: 1 };
            let own = [create(&mut job, 1, fast), create(&mut job, 1, fast)];
            for side in 0..2 {
                post(&mut job, own[side], &[ready(theirs[side], 2), puts[side]]);
            }
            (own, 2)
        } else {
            let own = create(&mut job, 1, QueueMode::Session { offset: 2 });
            let to_all = theirs.map(|to| ready(to, 1));
            let rest = [QueueCommand::Nop, ready(own, 4), puts[0], puts[1]];
            post(&mut job, own, &[&to_all[..], &rest].concat());
            ([own; 2], 1)
        };
        for side in 0..2 {
            post(&mut job, triggers[side], &[ready(own[side], release)]);
        }
        let has = |side: usize| targets[side][..] == source[..];
        assert_eq!((has(0), has(1)), (is_first_good, is_fast || is_first_good));
        let executed = own.map(|queue| state(&mut job, queue).executed);
        let row = match (is_fast, is_first_good) {
            (true, true) => [2, 2],
            (true, false) => [1, 2],
            (false, true) => [6, 6],
            (false, false) => [4, 4],
        };
        assert_eq!(executed, row);
    }
}

/// TF-22: a NOP completes and does nothing else; a put to the own queue releases it while it
/// runs, as the last of several arrivals does in MRC.
pub fn tf_22_nop_and_a_put_to_ones_own_queue<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let mine = create(&mut job, 0, SESSION);
    let other = create(&mut job, 0, SESSION);
    let peer = create(&mut job, 1, QueueMode::Normal);
    let source = region(&mut job, 0, 64);
    let target = region(&mut job, 0, 64);
    let copy = data(&source, other, target.offset());
    post(&mut job, mine, &[QueueCommand::Nop, ready(mine, 2), copy, QueueCommand::Nop]);
    post(&mut job, peer, &[ready(mine, 1)]);
    assert_eq!(state(&mut job, mine).executed, 1, "the NOP takes up the first arrival");
    post(&mut job, peer, &[ready(mine, 1)]);
    assert_eq!(state(&mut job, mine).executed, 4, "the second runs the put to itself");
    assert_eq!(state(&mut job, other).arrivals, 1);
    let ended = completions(&mut job, mine);
    assert!(ended.len() == 4 && ended.iter().all(|completion| completion.outcome.is_ok()));
}

/// The releasing rank runs the command: a third rank's release moves data between two others, which
/// do nothing; the ranks are on different nodes.
pub fn a_third_rank_runs_what_it_releases<H: Harness>(harness: &H) {
    let setup = Setup { ranks_per_node: 1, ..Setup::private(3) };
    let mut job = Job::open(harness, &setup);
    let (mine, theirs) = (create(&mut job, 0, SESSION), create(&mut job, 1, SESSION));
    let third = create(&mut job, 2, QueueMode::Normal);
    for (round, length) in [1, 8, 2047, 2048, 20_000].into_iter().enumerate() {
        let mut source = region(&mut job, 0, length);
        let target = region(&mut job, 1, length);
        source.copy_from_slice(&pattern(3, length));
        post(&mut job, mine, &[data(&source, theirs, target.offset())]);
        post(&mut job, third, &[ready(mine, 1)]);
        assert_eq!(target[..], source[..]);
        assert_eq!(state(&mut job, theirs).arrivals, round as u64 + 1);
    }
}

/// Large copies are postponed and all done in the end, whatever else there is to run.
pub fn large_copies_are_put_off_and_done<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let queues: Vec<_> = (0..3).map(|rank| create(&mut job, rank, SESSION)).collect();
    let normal = create(&mut job, 2, QueueMode::Normal);
    let parts: Vec<_> = (0..3).map(|rank| region(&mut job, rank, 6000)).collect();
    let targets: Vec<_> = (0..3).map(|rank| region(&mut job, rank, 6000)).collect();
    let to = |rank: usize| {
        let next = (rank + 1) % 3;
        data(&parts[rank], queues[next], targets[next].offset())
    };
    for (rank, queue) in queues.iter().enumerate() {
        post(&mut job, *queue, &[to(rank), QueueCommand::Nop, to(rank)]);
    }
    let chain = [ready(queues[0], 3), ready(queues[1], 3), to(2), ready(queues[2], 3), to(2)];
    post(&mut job, normal, &chain);
    for queue in &queues {
        assert_eq!(state(&mut job, *queue).executed, 3);
    }
    let arrivals: Vec<_> = queues.iter().map(|queue| state(&mut job, *queue).arrivals).collect();
    assert_eq!((arrivals, state(&mut job, normal).executed), (vec![4, 2, 2], 5));
}

/// An invalid command writes nothing, stops its queue, and is its last completion.
pub fn a_bad_command_is_an_error_completion_and_writes_nothing<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let size = setup.region_bytes as u64;
    let mut job = Job::open(harness, &setup);
    let mut target = region(&mut job, 1, setup.region_bytes);
    target.fill(0x55);
    let events = create(&mut job, 1, SESSION);
    let old = create(&mut job, 1, SESSION);
    job.port(1).destroy_queue(old.queue).expect("nothing is in it");
    let new = create(&mut job, 1, SESSION);
    assert_eq!((new.rank, new.queue), (old.rank, old.queue));
    assert_ne!(new, old);
    let put = QueuePut { from: 0, at: 0, length: 64, to: events, notify: true, release: 1 };
    let (index, rank) = (1, 1);
    let to = |to| QueuePut { to, ..put };
    let bad = [
        (QueuePut { at: size - 63, ..put }, QueueFault::OutOfBounds { index, rank }),
        (QueuePut { at: u64::MAX, ..put }, QueueFault::OutOfBounds { index, rank }),
        (QueuePut { from: size, ..put }, QueueFault::OutOfBounds { index, rank: 0 }),
        (QueuePut { length: u64::MAX, ..put }, QueueFault::OutOfBounds { index, rank: 0 }),
        (to(old), QueueFault::NoSuchQueue { index, rank }),
        (to(QueueAddress { queue: 99, ..events }), QueueFault::NoSuchQueue { index, rank }),
        (to(QueueAddress { queue: u32::MAX, ..events }), QueueFault::NoSuchQueue { index, rank }),
        (to(QueueAddress { rank: 2, ..events }), QueueFault::NoSuchRank { index }),
        (to(QueueAddress { rank: u32::MAX, ..events }), QueueFault::NoSuchRank { index }),
    ];
    for (number, (put, fault)) in bad.into_iter().enumerate() {
        let mine = job.port(0).create_queue(QueueMode::Normal, 3);
        let Ok(mine) = mine else { break };
        let queue = mine.queue;
        post(&mut job, mine, &[QueueCommand::Nop, QueueCommand::Put(put), QueueCommand::Nop]);
        let first = Completion { index: 0, outcome: Ok(()) };
        let last = Completion { index: 1, outcome: Err(fault) };
        assert_eq!(completions(&mut job, mine), [first, last], "case {number}");
        assert_eq!(state(&mut job, mine).fault, Some(fault));
        let failed = Err(QueueError::Failed { queue, fault });
        assert_eq!(job.port(0).post_queue(queue, &[]), failed);
        assert_eq!(job.port(0).destroy_queue(queue), failed);
        if number % 3 == 2 {
            // A job has few queues, and a failed one is not freed: use a new job.
            drop(std::mem::replace(&mut target, region_of_new_job(&mut job, harness, &setup)));
            return_events(&mut job, events, new);
        }
        assert!(target.iter().all(|byte| *byte == 0x55), "nothing was written");
        let now = state(&mut job, events);
        assert_eq!((now.arrivals, now.ahead), (0, 0), "nobody was told, nothing released");
    }
}

/// Opens the job anew. Returns rank 1's whole region, filled.
fn region_of_new_job<'h, H: Harness>(
    job: &mut Job<'h, H>,
    harness: &'h H,
    setup: &Setup,
) -> RegionBuffer {
    *job = Job::open(harness, setup);
    let mut target = region(job, 1, setup.region_bytes);
    target.fill(0x55);
    target
}

/// Creates and destroys queues of rank 1 until they have their previous addresses.
fn return_events<H: Harness>(job: &mut Job<'_, H>, events: QueueAddress, new: QueueAddress) {
    assert_eq!(create(job, 1, SESSION), events);
    let old = create(job, 1, SESSION);
    job.port(1).destroy_queue(old.queue).expect("nothing is in it");
    assert_eq!(create(job, 1, SESSION), new);
}

/// A release beyond the range of a scheduling pointer is refused.
pub fn a_release_beyond_what_can_be_counted_is_an_error<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let (mine, theirs) = (create(&mut job, 0, QueueMode::Normal), create(&mut job, 1, SESSION));
    post(&mut job, mine, &[ready(theirs, MAX_LEAD - 1), ready(theirs, 1), ready(theirs, 1)]);
    let fault = QueueFault::TooFarAhead { index: 2, rank: 1 };
    let refused = job.port(0).release_queue(theirs, 1);
    assert!(matches!(refused, Err(QueueError::Release(ReleaseError::TooFarAhead))), "{refused:?}");
    assert_eq!(state(&mut job, mine).fault, Some(fault));
    assert_eq!(state(&mut job, theirs).ahead, MAX_LEAD as i32);
}

/// TF-19: queues, and the slots of a queue, are limited; exceeding a limit is a normal answer.
pub fn tf_19_queues_and_slots_are_limited<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let (queues, limit) = (setup.layout.queues, setup.layout.queue_slots);
    let mut job = Job::open(harness, &setup);
    assert_eq!(job.port(0).free_queues(), (queues, limit));
    for wanted in [0, limit + 1, u32::MAX] {
        let refused = Err(QueueError::Slots { wanted, limit });
        assert_eq!(job.port(0).create_queue(SESSION, wanted), refused);
    }
    let all: Vec<_> = (0..queues).map(|_| create(&mut job, 0, SESSION)).collect();
    assert_eq!(job.port(0).free_queues().0, 0);
    let refused = Err(QueueError::NoneFree { queues });
    assert_eq!(job.port(0).create_queue(SESSION, 1), refused);
    let queue = all[1].queue;
    let many = vec![QueueCommand::Nop; limit as usize + 1];
    let full = QueueFull { free: limit.into(), wanted: u64::from(limit) + 1 };
    assert_eq!(job.port(0).post_queue(queue, &many), Err(QueueError::Full(full)));
    assert_eq!(job.port(0).repeat_queue(queue, limit + 1), Err(QueueError::Full(full)));
    post(&mut job, all[1], &many[1..]);
    let full = QueueFull { free: 0, wanted: 1 };
    assert_eq!(job.port(0).post_queue(queue, &many[..1]), Err(QueueError::Full(full)));
    assert_eq!(job.port(0).destroy_queue(queue), Err(QueueError::Busy { queue }));
    let normal = create(&mut job, 1, QueueMode::Normal);
    post(&mut job, normal, &[ready(all[1], limit)]);
    assert_eq!(job.port(0).destroy_queue(queue), Ok(()));
    let absent = QueueError::NoSuchQueue { rank: 0, queue };
    assert_eq!(job.port(0).destroy_queue(queue), Err(absent));
    assert_eq!(job.port(0).post_queue(queue, &[]), Err(absent));
    assert_eq!(job.port(1).queue_state(all[1]), Err(absent));
    assert_eq!(job.port(0).free_queues().0, 1);
}

/// CJ-01: a queue's write pointer goes on around a queue that holds so many commands: it takes as
/// many more as have run, neither more nor fewer, from every offset, and each command arrives once,
/// in order.
pub fn cj_01_a_queue_takes_as_many_commands_as_have_run<H: Harness>(harness: &H) {
    const SLOTS: u32 = 5;
    let mut job = Job::open(harness, &Setup::private(2));
    let mine = job.port(0).create_queue(SESSION, SLOTS).expect("a queue is free");
    let (theirs, trigger) = (create(&mut job, 1, SESSION), create(&mut job, 1, QueueMode::Normal));
    let mut source = region(&mut job, 0, 40 * 16);
    source.copy_from_slice(&pattern(1, 40 * 16));
    let mut target = region(&mut job, 1, 16);
    target.fill(0);
    let (first, at) = (source.offset(), target.offset());
    let mut commands = (0..40).map(|number| {
        let from = first + 16 * number;
        let put = QueuePut { from, at, length: 16, to: theirs, notify: true, release: 0 };
        QueueCommand::Put(put)
    });
    let (mut arrived, mut waiting) = (0, 0);
    for run in (0..=SLOTS).cycle() {
        let room = SLOTS - waiting;
        let more: Vec<_> = commands.by_ref().take(room as usize).collect();
        if more.len() < room as usize {
            break;
        }
        let nop = vec![QueueCommand::Nop; room as usize + 1];
        let full = QueueFull { free: room.into(), wanted: u64::from(room) + 1 };
        assert_eq!(job.port(0).post_queue(mine.queue, &nop), Err(QueueError::Full(full)));
        post(&mut job, mine, &more);
        for _ in 0..run {
            post(&mut job, trigger, &[ready(mine, 1)]);
            assert_eq!(target[..], source[16 * arrived..][..16], "{arrived}");
            arrived += 1;
        }
        waiting = SLOTS - run;
    }
    assert!(arrived > 4 * SLOTS as usize, "{arrived}");
}

/// Commands that were written once can run repeatedly, also across the end of the queue.
pub fn a_chain_can_be_repeated_without_writing_it<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let mine = job.port(0).create_queue(QueueMode::Normal, 3).expect("a queue is free");
    let theirs = create(&mut job, 1, SESSION);
    let mut source = region(&mut job, 0, 24);
    let target = region(&mut job, 1, 24);
    let put = data(&source, theirs, target.offset());
    post(&mut job, mine, &[QueueCommand::Nop, put, QueueCommand::Nop]);
    for round in 0..10 {
        source.copy_from_slice(&pattern(round, 24));
        job.port(0).repeat_queue(mine.queue, 3).expect("all of it has run");
        assert_eq!(target[..], source[..]);
        assert_eq!(state(&mut job, theirs).arrivals, round + 2);
    }
    job.port(0).repeat_queue(mine.queue, 2).expect("two of three");
    job.port(0).repeat_queue(mine.queue, 2).expect("the third and the first");
    assert_eq!(state(&mut job, theirs).arrivals, 12);
}

/// A queue whose owner is done with it accepts the remaining releases, reports after how many
/// rounds it ended, and is free when they have arrived.
pub fn a_retired_queue_is_free_when_its_last_release_has_come<H: Harness>(harness: &H) {
    let mut setup = Setup::private(2);
    setup.layout.queues = 1;
    let mut job = Job::open(harness, &setup);
    let mine = create(&mut job, 0, SESSION);
    job.port(0).retire_queue(mine.queue, 7, 3);
    assert_eq!(job.port(1).release_queue(mine, 1), Ok(()));
    let seen = job.port(1).queue_state(mine).expect("it is still open");
    assert_eq!((seen.fault, seen.ahead), (Some(QueueFault::Retired { rounds: 7 }), 1));
    assert_eq!(job.port(0).free_queues().0, 0);
    assert!(job.port(0).create_queue(SESSION, 1).is_err());
    assert_eq!(job.port(1).release_queue(mine, 2), Ok(()));
    assert_eq!(job.port(0).free_queues().0, 1);
    assert!(job.port(1).release_queue(mine, 1).is_err(), "it is closed");
    assert_ne!(create(&mut job, 0, SESSION), mine);
}

/// An owner that misses a rank stops its queue, and every reader of the queue learns which one.
pub fn a_queue_that_is_abandoned_says_who_is_missing<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let mine = create(&mut job, 0, SESSION);
    post(&mut job, mine, &[QueueCommand::Nop]);
    job.port(0).abandon_queue(mine.queue, 2, &[1, 7]);
    let fault = QueueFault::Abandoned { rank: 2 };
    for rank in 0..3 {
        let seen = job.port(rank).queue_state(mine).expect("it is still open");
        assert_eq!(seen.fault, Some(fault));
    }
    assert_eq!(completions(&mut job, mine), [Completion { index: 0, outcome: Err(fault) }]);
    assert_eq!(completions(&mut job, mine), [], "told once");
    let source = region(&mut job, 1, 8);
    let theirs = create(&mut job, 1, QueueMode::Normal);
    post(&mut job, theirs, &[data(&source, mine, 0)]);
    assert_eq!(state(&mut job, theirs).fault, Some(fault), "who has stopped takes no data");
    assert_eq!(state(&mut job, mine).arrivals, 0);
}

/// Ranks in threads of their own, each exchanging with both neighbours in every round, start at any
/// time: every round's data arrives whole, is not overwritten early, and no rank waits for ever
/// (TF-08, TF-11).
pub fn tf_11_threads_exchange_with_their_neighbours<H: Harness>(harness: &H) {
    const RANKS: u32 = 3;
    const ROUNDS: u64 = 150;
    const LENGTH: usize = 3000;
    let mut setup = Setup::private(RANKS);
    setup.layout.queue_slots = 4;
    let mut job = Job::open(harness, &setup);
    let fast = QueueMode::Session { offset: 1 };
    // Queue 0 is for the rank below, queue 1 for the one above; buffers are at the same place at
    // every rank.
    let made: Vec<_> = (0..RANKS)
        .map(|rank| {
            let queues = [create(&mut job, rank, fast), create(&mut job, rank, fast)];
            let buffers: Vec<_> = (0..4).map(|_| region(&mut job, rank, LENGTH)).collect();
            (queues, buffers)
        })
        .collect();
    let queues: Vec<_> = made.iter().map(|(queues, _)| *queues).collect();
    let places: Vec<u64> = made[0].1.iter().map(RegionBuffer::offset).collect();
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (rank, (own, mut buffers)) in (0..RANKS as usize).zip(made) {
            let mut port = job.ports[rank].take().expect("the rank has its port");
            let (queues, places, failed) = (&queues, &places, &failed);
            scope.spawn(move || {
                let _guard = Guard(failed);
                let peers = [(rank + 2) % 3, (rank + 1) % 3];
                for round in 0..ROUNDS {
                    for side in 0..2 {
                        buffers[side].copy_from_slice(&content(rank, side, round, LENGTH));
                        // Data that this rank sends downward arrives at the receiver from above.
                        let to = queues[peers[side]][1 - side];
                        let send = data(&buffers[side], to, places[2 + 1 - side]);
                        let chain = [ready(to, 2), send];
                        port.post_queue(own[side].queue, &chain).expect("the last round is over");
                    }
                    for side in 0..2 {
                        await_round(&mut port, own[side], round + 1, failed);
                        let expected = content(peers[side], 1 - side, round, LENGTH);
                        assert_eq!(buffers[2 + side][..], expected, "round {round}");
                    }
                }
            });
        }
    });
    assert!(!failed.load(Ordering::Relaxed));
}

/// The data that a rank sends to one side in a round.
fn content(rank: usize, side: usize, round: u64, length: usize) -> Vec<u8> {
    pattern(round * 8 + rank as u64 * 2 + side as u64, length)
}

/// Waits until a queue of two commands per round has run them and its arrival was counted.
fn await_round(port: &mut impl QueuePort, queue: QueueAddress, round: u64, failed: &AtomicBool) {
    loop {
        let now = port.queue_state(queue).expect("it is open");
        assert_eq!(now.fault, None);
        if now.executed == 2 * round && now.arrivals == round {
            return;
        }
        assert!(!failed.load(Ordering::Relaxed), "another rank has failed");
        assert!(now.executed <= 2 * round && now.arrivals <= round, "nothing comes early");
        if port.poll().is_none() {
            port.park(None);
        }
    }
}

/// Tells the other threads when one panics.
struct Guard<'f>(&'f AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
