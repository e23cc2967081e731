//! Faults that only other processes cause (dead runners, invalid words), and the bound on a call.

use super::*;
use crate::fabric::{DeathCause, Port};
use crate::loopback::{LoopbackConfig, LoopbackPort, open};
use crate::time::Time;

const SESSION: QueueMode = QueueMode::Session { offset: 0 };

fn job(ranks: u32) -> Vec<LoopbackPort> {
    open(&LoopbackConfig::for_ranks(ranks)).unwrap()
}

fn ready(to: QueueAddress, release: u32) -> QueueCommand {
    QueueCommand::Put(QueuePut::ready(to, release))
}

/// A queue as another process sees it, for actions of a broken process.
fn view(ports: &[LoopbackPort], of: QueueAddress) -> CommandQueue<'_> {
    ports[0].host().segment(of.rank).queue(of.queue).unwrap().0
}

#[test]
fn a_failed_queue_names_its_dead_runner() {
    let mut ports = job(3);
    let mine = ports[0].create_queue(SESSION, 4).unwrap();
    let normal = ports[2].create_queue(QueueMode::Normal, 4).unwrap();
    ports[0].post_queue(mine.queue, &[QueueCommand::Nop; 2]).unwrap();
    // Rank 1 dies inside a command of rank 0's queue.
    assert!(view(&ports, mine).enter(1));
    assert_eq!(ports[0].queue_state(mine).unwrap().fault, None);
    ports[2].post_queue(normal.queue, &[ready(mine, 2)]).unwrap();
    assert_eq!(ports[0].queue_state(mine).unwrap().executed, 0, "somebody else has it");
    ports[0].host().fail(1, DeathCause::Signal(9));
    for rank in [0, 2] {
        let fault = ports[rank].queue_state(mine).unwrap().fault;
        let Some(QueueFault::RunnerDied(failure)) = fault else { panic!("{fault:?}") };
        assert_eq!((failure.rank, failure.cause), (1, DeathCause::Signal(9)));
    }
    let outcome = ports[0].completion(mine.queue).unwrap().outcome;
    assert!(matches!(outcome, Err(QueueFault::RunnerDied(_))));
    let refused = ports[0].post_queue(mine.queue, &[]).unwrap_err();
    assert!(matches!(refused, QueueError::Failed { .. }));
    assert!(refused.to_string().contains("rank 1"), "{refused}");
}

#[test]
fn a_queue_with_an_invalid_runner_fails() {
    let mut ports = job(1);
    let mine = ports[0].create_queue(SESSION, 4).unwrap();
    assert!(view(&ports, mine).enter(77));
    assert!(ports[0].queue_state(mine).unwrap().fault.is_some());
}

#[test]
fn an_invalid_slot_stops_its_queue() {
    let mut ports = job(1);
    let mine = ports[0].create_queue(SESSION, 4).unwrap();
    view(&ports, mine).write(&[crate::ring::Descriptor([0xff; 8])]).unwrap();
    view(&ports, mine).release(1).unwrap();
    ports[0].help_queue(mine);
    let fault = QueueFault::Malformed { index: 0 };
    assert_eq!(ports[0].queue_state(mine).unwrap().fault, Some(fault));
}

#[test]
fn one_call_runs_a_bounded_number_of_commands() {
    let mut config = LoopbackConfig::for_ranks(2);
    (config.layout.queues, config.layout.queue_slots) = (1, MAX_COMMANDS);
    let mut ports = open(&config).unwrap();
    let mine = ports[0].create_queue(QueueMode::Normal, MAX_COMMANDS).unwrap();
    let theirs = ports[1].create_queue(SESSION, 4).unwrap();
    ports[1].post_queue(theirs.queue, &[QueueCommand::Nop; 3]).unwrap();
    let mut chain = vec![QueueCommand::Nop; MAX_COMMANDS as usize];
    chain[0] = ready(theirs, 3);
    ports[0].post_queue(mine.queue, &chain).unwrap();
    let most = u64::from(MAX_COMMANDS);
    assert_eq!(ports[0].queue_state(mine).unwrap().executed, most);
    assert_eq!(ports[1].queue_state(theirs).unwrap().executed, 0, "too much for one call");
    ports[1].help_queue(theirs);
    assert_eq!(ports[1].queue_state(theirs).unwrap().executed, 3);
}

#[test]
fn a_helper_runs_only_runnable_idle_queues() {
    let mut ports = job(2);
    let mine = ports[0].create_queue(SESSION, 4).unwrap();
    ports[0].post_queue(mine.queue, &[QueueCommand::Nop]).unwrap();
    ports[1].help_queue(mine);
    assert_eq!(ports[0].queue_state(mine).unwrap().executed, 0);
    view(&ports, mine).release(1).unwrap();
    assert!(view(&ports, mine).enter(0));
    ports[1].help_queue(mine);
    assert_eq!(ports[0].queue_state(mine).unwrap().executed, 0);
    view(&ports, mine).put_off();
    ports[1].help_queue(mine);
    assert_eq!(ports[0].queue_state(mine).unwrap().executed, 1);
    ports[1].help_queue(QueueAddress { rank: 9, ..mine });
    ports[1].help_queue(QueueAddress { generation: 9, ..mine });
}

#[test]
fn a_rank_about_to_sleep_detects_queue_progress() {
    let mut ports = job(2);
    let mine = ports[0].create_queue(SESSION, 4).unwrap();
    let theirs = ports[1].create_queue(QueueMode::Normal, 4).unwrap();
    let told = QueuePut { notify: true, ..QueuePut::ready(mine, 0) };
    ports[0].queue_state(mine).unwrap();
    assert!(!ports[0].queues.have_moved(&ports[0].own));
    ports[1].post_queue(theirs.queue, &[QueueCommand::Put(told)]).unwrap();
    assert!(ports[0].queues.have_moved(&ports[0].own), "an arrival");
    ports[0].queue_state(mine).unwrap();
    assert!(!ports[0].queues.have_moved(&ports[0].own), "which was looked at");
    ports[0].abandon_queue(mine.queue, 1, &[]);
    assert!(ports[0].queues.have_moved(&ports[0].own), "a fault");
}

#[test]
fn a_queue_that_nobody_polls_for_keeps_no_rank_awake() {
    let mut ports = job(2);
    let mine = ports[0].create_queue(SESSION, 4).unwrap();
    let theirs = ports[1].create_queue(QueueMode::Normal, 4).unwrap();
    let told = QueuePut { notify: true, ..QueuePut::ready(mine, 1) };
    ports[1].post_queue(theirs.queue, &[QueueCommand::Put(told)]).unwrap();
    assert!(!ports[0].queues.have_moved(&ports[0].own), "it was never polled for");
    ports[0].queue_state(mine).unwrap();
    ports[1].post_queue(theirs.queue, &[QueueCommand::Put(told)]).unwrap();
    assert!(ports[0].queues.have_moved(&ports[0].own), "this wait polls for it");
    ports[0].park(Some(Time::ZERO));
    assert!(!ports[0].queues.have_moved(&ports[0].own), "the next wait does not");
    assert!(ports[0].completion(mine.queue).is_none());
    ports[1].post_queue(theirs.queue, &[QueueCommand::Put(told)]).unwrap();
    assert!(ports[0].queues.have_moved(&ports[0].own), "it polls for completions");
}

/// Rank 0 runs all copies. They have the smallest length that is deferred.
#[test]
fn large_copies_to_here_go_first_in_turns() {
    let mut ports = job(3);
    let mine = ports[0].create_queue(QueueMode::Normal, 4).unwrap();
    let [one, two] = [1, 2].map(|rank: usize| ports[rank].create_queue(SESSION, 4).unwrap());
    let address = |rank, offset| RemoteAddress { rank, space: Space::Region, offset };
    let fill = |ports: &[LoopbackPort], at, byte| {
        ports[0].host().write(at, &[byte; LARGE as usize], LongStores::Cached).unwrap();
    };
    let [first, second] = [0, LARGE];
    fill(&ports, address(1, first), 1);
    fill(&ports, address(1, second), 3);
    fill(&ports, address(2, first), 2);
    let copy = |from, to| {
        let ready = QueuePut::ready(to, 0);
        QueueCommand::Put(QueuePut { from, at: first, length: LARGE, ..ready })
    };
    // The first copy reads what the other queue overwrites. The last overwrites it once more.
    ports[1].post_queue(one.queue, &[copy(first, mine), copy(second, one)]).unwrap();
    ports[2].post_queue(two.queue, &[copy(first, one)]).unwrap();
    ports[0].post_queue(mine.queue, &[ready(two, 1), ready(one, 2)]).unwrap();
    for (rank, byte) in [(0, 1), (1, 3)] {
        let mut found = [0; LARGE as usize];
        ports[0].host().read(address(rank, first), &mut found).unwrap();
        assert_eq!(found, [byte; LARGE as usize], "at rank {rank}");
    }
}
