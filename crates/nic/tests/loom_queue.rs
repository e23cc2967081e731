//! The command queue under every interleaving that loom can make of its host, its arrivals and its
//! runners.
//!
//! `make loom` runs it. Every model ends with the same check: all commands that were written and
//! released have run, once, in order, by one runner at a time, although no thread polls after the
//! last one has left.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::ring::{CommandQueue, CommandSlot, Descriptor, QueuePointers, Setup};
use hikyaku_nic::sync::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use crate::loom::{bounded_model, model};

/// The preemption limit with three threads: one more would take minutes.
const THREE_THREADS: usize = 2;

/// A command queue that all threads can access. Each command appends its number to a log, without
/// an atomic of its own.
struct LoggedQueue {
    pointers: QueuePointers,
    slots: Vec<CommandSlot>,
    session: bool,
    log: UnsafeCell<Vec<u64>>,
}

// SAFETY: loom checks the log: an access that races fails the model.
unsafe impl Sync for LoggedQueue {}

// SAFETY: as for Sync.
unsafe impl Send for LoggedQueue {}

impl LoggedQueue {
    fn new(slots: usize, session: bool) -> Arc<LoggedQueue> {
        let slots = (0..slots).map(|_| Default::default()).collect();
        let log = UnsafeCell::new(Vec::new());
        Arc::new(LoggedQueue { pointers: QueuePointers::default(), slots, session, log })
    }

    fn view(&self) -> CommandQueue<'_> {
        CommandQueue::new(&self.pointers, &self.slots, self.session)
    }

    /// Runs the queue after making a command runnable, as `hosted::queue` does.
    fn run(&self, runner: u32) {
        if self.view().enter(runner) {
            self.run_entered();
        }
    }

    fn run_entered(&self) {
        let queue = self.view();
        loop {
            while let Some(command) = queue.next() {
                assert_eq!(command, descriptor(queue.executed()), "in order and whole");
                if self.session {
                    assert!(queue.ahead() > 0, "not before it is released");
                }
                // SAFETY: loom hands out a valid pointer and fails the model on a racing access:
                // two runners at once.
                self.log.with_mut(|log| unsafe { (*log).push(command.0[7]) });
                queue.complete();
            }
            if queue.leave() {
                return;
            }
        }
    }

    fn write(&self, numbers: std::ops::Range<u64>) {
        let chain: Vec<_> = numbers.map(descriptor).collect();
        self.view().write(&chain).unwrap();
    }

    fn check(&self, count: u64) {
        let queue = self.view();
        assert_eq!((queue.executed(), queue.runner()), (count, None));
        // SAFETY: all threads have been joined, which loom checks.
        let log = self.log.with(|log| unsafe { (*log).clone() });
        assert_eq!(log, (0..count).map(|number| !number).collect::<Vec<_>>());
    }
}

fn descriptor(number: u64) -> Descriptor {
    let mut words = [0; 8];
    (words[0], words[7]) = (number + 1, !number);
    Descriptor(words)
}

fn host(queue: &Arc<LoggedQueue>, runner: u32, numbers: std::ops::Range<u64>) -> JoinHandle<()> {
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        queue.write(numbers);
        queue.run(runner);
    })
}

fn arrival(queue: &Arc<LoggedQueue>, runner: u32, slots: u32) -> JoinHandle<()> {
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        queue.view().release(slots).unwrap();
        queue.run(runner);
    })
}

#[test]
fn tf_02_two_arrivals_at_once_release_both() {
    model(|| {
        let queue = LoggedQueue::new(2, true);
        queue.write(0..2);
        let (first, second) = (arrival(&queue, 1, 1), arrival(&queue, 2, 1));
        first.join().unwrap();
        second.join().unwrap();
        queue.check(2);
    });
}

#[test]
fn tf_03_an_arrival_races_the_start() {
    model(|| {
        let queue = LoggedQueue::new(2, true);
        let (start, arrival) = (host(&queue, 0, 0..2), arrival(&queue, 1, 2));
        start.join().unwrap();
        arrival.join().unwrap();
        queue.check(2);
    });
}

#[test]
fn two_arrivals_race_the_start() {
    bounded_model(THREE_THREADS, || {
        let queue = LoggedQueue::new(2, true);
        let (first, second) = (arrival(&queue, 1, 1), arrival(&queue, 2, 1));
        queue.write(0..2);
        queue.run(0);
        first.join().unwrap();
        second.join().unwrap();
        queue.check(2);
    });
}

#[test]
fn a_release_during_leave_is_not_lost() {
    // The runner holds the queue and is about to leave. Two slots are released, one after the
    // other, by a thread that finds the queue held.
    model(|| {
        let queue = LoggedQueue::new(2, true);
        queue.write(0..2);
        assert!(queue.view().enter(0));
        let arrivals = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                for _ in 0..2 {
                    queue.view().release(1).unwrap();
                    queue.run(1);
                }
            })
        };
        queue.run_entered();
        arrivals.join().unwrap();
        queue.check(2);
    });
}

#[test]
fn a_helper_races_an_arrival_and_the_start() {
    model(|| {
        let queue = LoggedQueue::new(1, true);
        let (start, arrival) = (host(&queue, 0, 0..1), arrival(&queue, 1, 1));
        if queue.view().enter_to_help(2) {
            queue.run_entered();
        }
        start.join().unwrap();
        arrival.join().unwrap();
        queue.check(1);
    });
}

#[test]
fn a_deferred_command_runs_later() {
    model(|| {
        let queue = LoggedQueue::new(2, true);
        queue.write(0..1);
        queue.view().release(2).unwrap();
        assert!(queue.view().enter(0));
        let start = host(&queue, 1, 1..2);
        queue.view().put_off();
        queue.run(0);
        start.join().unwrap();
        queue.check(2);
    });
}

#[test]
fn a_queue_at_capacity_wraps() {
    model(|| {
        let queue = LoggedQueue::new(2, false);
        let host = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                queue.write(0..2);
                // Only commands that have run free slots; otherwise the other runner runs them.
                for number in 2..4 {
                    queue.run(0);
                    while queue.view().write(&[descriptor(number)]).is_err() {
                        thread::yield_now();
                    }
                }
                queue.run(0);
            })
        };
        queue.run(1);
        queue.run(1);
        host.join().unwrap();
        queue.check(4);
    });
}

/// A command brings data to a neighbour, which closes its own queue as soon as the data has
/// arrived, while another thread has yet to count the command. `look` returns how many commands
/// count at our queue when the neighbour's is seen closed.
fn neighbour_closes(look: fn(&CommandQueue<'_>) -> u64) {
    model(move || {
        let (ours, his) = (LoggedQueue::new(1, true), Arc::new(QueuePointers::default()));
        his.open(Setup { session: false, generation: 0, slots: 1 }, 0);
        ours.write(0..1);
        let carrier = {
            let (ours, his) = (Arc::clone(&ours), Arc::clone(&his));
            thread::spawn(move || {
                if ours.view().enter_to_help(2) {
                    while ours.view().next().is_some() {
                        CommandQueue::new(&his, &ours.slots, false).notify();
                        ours.view().complete();
                    }
                    while !ours.view().leave() {}
                }
            })
        };
        let neighbour = {
            let (ours, his) = (Arc::clone(&ours), Arc::clone(&his));
            thread::spawn(move || {
                ours.view().release(1).unwrap();
                let his = CommandQueue::new(&his, &ours.slots, false);
                if his.arrivals() == 1 {
                    assert!(his.close(None));
                }
            })
        };
        neighbour.join().unwrap();
        if his.setup().is_none() {
            assert_eq!(look(&ours.view()), 1, "what has arrived is owed");
        }
        carrier.join().unwrap();
    });
}

#[test]
fn data_that_arrived_was_released_before() {
    neighbour_closes(|ours| {
        let executed = ours.executed();
        executed + ours.ahead_of(executed) as u64
    });
}

/// The number of counted commands does not include it.
#[test]
#[should_panic(expected = "what has arrived is owed")]
fn counted_commands_do_not_show_owed_data() {
    neighbour_closes(|ours| ours.executed());
}

/// Nor does the scheduling pointer relative to a later read pointer include it.
#[test]
#[should_panic(expected = "what has arrived is owed")]
fn two_pointer_reads_do_not_show_owed_data() {
    neighbour_closes(|ours| {
        let executed = ours.executed();
        executed + ours.ahead() as u64
    });
}

/// The order in `leave` is necessary: clearing the mark after the poll loses a release.
#[test]
#[should_panic(expected = "left behind")]
fn leaving_without_a_last_poll_is_detected() {
    model(|| {
        let queue = LoggedQueue::new(1, true);
        queue.write(0..1);
        assert!(queue.view().enter(0));
        let arrival = arrival(&queue, 1, 1);
        if queue.view().next().is_none() {
            // Unlike `leave`, it leaves the queue regardless of what has happened since.
            queue.view().put_off();
        } else {
            queue.run_entered();
        }
        arrival.join().unwrap();
        assert_eq!(queue.view().executed(), 1, "left behind");
    });
}
