//! The rules under contention: a thread per rank, bounded counts, no clock.

use std::collections::VecDeque;
use std::thread;

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, FullPolicy, GroupError, GroupPort, MemoryPort, Notification,
    Notified, PeerFailure, Port, PostError, Rank, RingId, RingPort, TableError,
};
use hikyaku_nic::sync::{AtomicU64, Ordering};
use hikyaku_nic::time::Time;

use crate::job::{Assembly, part, pattern, read_out};
use crate::{Harness, Received, Setup};

/// Consecutive waits without an event after which the job counts as stuck.
const PATIENCE: u64 = 20_000_000;

/// The progress of the threads of a job.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    /// Ranks that have done their part.
    done: AtomicU64,
    /// Ranks that panicked.
    broken: AtomicU64,
}

/// Tells the other threads when this one panics, so that they do not wait for it.
pub(crate) struct Alarm<'f>(&'f Floor);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// One rank's thread.
pub(crate) struct Worker<'f, P: Port> {
    pub(crate) port: P,
    alarm: Alarm<'f>,
    assembly: Assembly,
    messages: VecDeque<Received>,
    pub(crate) notified: VecDeque<Notified>,
    failures: Vec<PeerFailure>,
    idle: u64,
}

impl<'f, P: Port> Worker<'f, P> {
    fn new(port: P, floor: &'f Floor) -> Worker<'f, P> {
        let (assembly, messages) = (Assembly::default(), VecDeque::new());
        let (alarm, notified, failures) = (Alarm(floor), VecDeque::new(), Vec::new());
        Worker { port, alarm, assembly, messages, notified, failures, idle: 0 }
    }

    /// Handles one event, or waits a little.
    pub(crate) fn step(&mut self) {
        let Some(event) = self.port.poll() else {
            self.idle += 1;
            assert!(self.idle < PATIENCE, "rank {} is stuck", self.port.rank());
            assert_eq!(self.alarm.0.broken.load(Ordering::Acquire), 0, "another rank panicked");
            let soon = self.port.now() + Time::from_nanoseconds(1_000_000);
            self.port.park(Some(soon));
            return;
        };
        self.idle = 0;
        match event {
            Event::Landed(landed) => {
                let record = read_out(&mut self.port, landed);
                self.messages.extend(self.assembly.enter(record));
            }
            Event::Notified(notified) => self.notified.push_back(notified),
            Event::PeerFailed(failure) => self.failures.push(failure),
            Event::Completed(_) | Event::RingFull(_) | Event::StatusFull => {}
            Event::Malformed { source } => panic!("a malformed record of rank {source}"),
        }
    }

    /// Sends a whole message, handling arrivals meanwhile.
    pub(crate) fn send(&mut self, command: &Command<'_>) {
        let sent = self.try_send(command);
        sent.expect("the command can be done");
    }

    pub(crate) fn try_send(&mut self, command: &Command<'_>) -> Result<(), PostError> {
        let mut taken = 0;
        loop {
            match self.port.post(&part(command, taken)) {
                Ok(more) => taken += more,
                Err(PostError::Full { .. }) => {
                    self.step();
                    continue;
                }
                Err(error) => return Err(error),
            }
            if taken == command.payload.len() {
                return Ok(());
            }
        }
    }

    /// The next whole message.
    fn receive(&mut self) -> Received {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return message;
            }
            self.step();
        }
    }

    /// Reports this rank as done; keeps its port running until `ranks` are done.
    fn finish(&mut self, ranks: u64) {
        self.alarm.0.done.fetch_add(1, Ordering::AcqRel);
        while self.alarm.0.done.load(Ordering::Acquire) < ranks {
            self.step();
        }
        assert!(self.assembly.is_empty(), "no message is incomplete");
    }
}

/// Runs a function in a thread for each rank, until all have returned.
pub(crate) fn run<H: Harness>(
    harness: &H,
    setup: &Setup,
    body: impl Fn(&mut Worker<'_, H::P>) + Sync,
) {
    let floor = Floor::default();
    let ranks = u64::from(setup.layout.ranks);
    thread::scope(|scope| {
        for port in harness.open(setup) {
            let (body, floor) = (&body, &floor);
            scope.spawn(move || {
                let mut worker = Worker::new(port, floor);
                body(&mut worker);
                worker.finish(ranks);
                assert!(worker.messages.is_empty(), "nothing comes that was not expected");
            });
        }
    });
}

fn payload(source: Rank, number: u64, longest: u64) -> Vec<u8> {
    let seed = u64::from(source) << 32 | number;
    pattern(seed, (number.wrapping_mul(2_654_435_761) % (longest + 1)) as usize)
}

/// All other ranks send `count` messages each to rank 0, which checks them.
fn many_to_one<H: Harness>(harness: &H, setup: &Setup, count: u64, longest: u64) {
    many_to_one_beside(harness, setup, (count, longest), |_, _| {});
}

/// The same. Rank 0 runs an action before each of its receives.
fn many_to_one_beside<H: Harness>(
    harness: &H,
    setup: &Setup,
    (count, longest): (u64, u64),
    beside: impl Fn(&mut H::P, u64) + Sync,
) {
    let senders = setup.layout.ranks - 1;
    run(harness, setup, |worker| {
        let rank = worker.port.rank();
        if rank != 0 {
            for number in 0..count {
                worker.send(&Command::send(0, 1, number, &payload(rank, number, longest)));
            }
            return;
        }
        let mut next = vec![0; senders as usize + 1];
        for received in 0..count * u64::from(senders) {
            beside(&mut worker.port, received);
            let message = worker.receive();
            let number = &mut next[message.source as usize];
            assert_eq!(message.header, *number, "messages of a source come in order, once");
            assert_eq!(message.bytes, payload(message.source, *number, longest));
            *number += 1;
        }
    });
}

/// IP-04: concurrent senders to one shared ring never overwrite each other.
pub fn ip_04_threads_on_a_shared_ring_never_overwrite_each_other<H: Harness>(harness: &H) {
    many_to_one(harness, &Setup::shared(4, 1), 2000, 512);
}

/// IP-05: a record is visible only after its payload; likewise the notification of a put.
pub fn ip_05_a_record_is_visible_only_after_its_payload<H: Harness>(harness: &H) {
    many_to_one(harness, &Setup::private(3), 3000, 900);
    run(harness, &Setup::private(2), |worker| {
        const ROUNDS: u64 = 1000;
        if worker.port.rank() == 0 {
            let buffer = worker.port.allocate(2048).expect("the region has room");
            let target = worker.port.expose(&buffer).expect("region memory can be named");
            worker.send(&Command::send(1, 0, target.offset, &[]));
            for round in 0..ROUNDS {
                while worker.notified.len() as u64 == round {
                    worker.step();
                }
                assert_eq!(buffer[..], pattern(round, 2048));
                worker.send(&Command::send(1, 0, round, &[]));
            }
        } else {
            let offset = worker.receive().header;
            let space = hikyaku_nic::fabric::Space::Region;
            let target = hikyaku_nic::fabric::RemoteAddress { rank: 0, space, offset };
            for round in 0..ROUNDS {
                let bytes = pattern(round, 2048);
                let notification = Notification::Status;
                worker.send(&Command { notification, ..Command::put(target, &bytes) });
                assert_eq!(worker.receive().header, round);
            }
        }
    });
}

/// IP-09: under contention for the status ring every source's messages arrive in order.
pub fn ip_09_each_source_arrives_in_order_under_contention<H: Harness>(harness: &H) {
    many_to_one(harness, &Setup::private(4), 5000, 48);
}

/// IP-10: with rings of two packets, stalling and resuming all the time, nothing is lost.
pub fn ip_10_threads_stall_and_resume<H: Harness>(harness: &H) {
    for mut setup in [Setup::private(3), Setup::shared(3, 1)] {
        setup.layout.ring_bytes = 1024;
        many_to_one(harness, &setup, 1000, 3000);
    }
}

/// IP-13: private rings pass from one source to another while all of them send, and nothing is
/// lost, overtaken or overwritten.
pub fn ip_13_private_rings_change_hands_under_contention<H: Harness>(harness: &H) {
    let mut setup = Setup::shared(4, 3);
    (setup.layout.first_rings, setup.layout.status_rings) = (1, 4);
    let moves = AtomicU64::new(0);
    many_to_one_beside(harness, &setup, (1500, 1500), |port, received| {
        let drawn = pattern(received, 2);
        let source = 1 + Rank::from(drawn[0] % 3);
        let ring = RingId::from(drawn[1] % 3);
        let mut routed = port.route(source, Some(ring));
        if let Err(TableError::Private { owner, .. }) = routed {
            port.route(owner, Some(0)).expect("ring 0 is shared");
            routed = port.route(source, Some(ring));
        }
        match routed {
            Ok(()) => _ = moves.fetch_add(1, Ordering::Relaxed),
            Err(TableError::Unsettled { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    });
    assert!(moves.load(Ordering::Relaxed) > 1500, "{moves:?} of 4500 moves");
}

/// Rounds in which all, one or two contribute, small and large, sometimes with a barrier: readers
/// get what was written, and no rank leaves a barrier before all have arrived.
pub fn rounds_and_barriers_of_all<H: Harness>(harness: &H) {
    const ROUNDS: u64 = 1200;
    let came = AtomicU64::new(0);
    let writes = |round: u64, rank: Rank| match round % 3 {
        0 => true,
        1 => u64::from(rank) == round % 4,
        _ => u64::from(rank) % 2 == round % 2,
    };
    run(harness, &Setup::private(4), |worker| {
        let own = worker.port.rank();
        let group = worker.port.join(1, &[0, 1, 2, 3], 0).expect("the ranks share a node");
        for round in 0..ROUNDS {
            if writes(round, own) {
                let mine = payload(own, round, 1600);
                while worker.port.contribute(group, round, &[&mine]) == Err(GroupError::Full) {
                    worker.step();
                }
            }
            for rank in (0..4).filter(|rank| writes(round, *rank)) {
                let place = rank as usize;
                let what = loop {
                    match worker.port.contribution(group, place).expect("all are there") {
                        Some(what) => break what,
                        None => worker.step(),
                    }
                };
                let mut bytes = vec![0; what.len()];
                worker.port.load_contribution(group, place, &what, 0, &mut bytes);
                assert_eq!((what.word(), bytes), (round, payload(rank, round, 1600)));
            }
            worker.port.finish_round(group).expect("it is joined");
            if round.is_multiple_of(7) {
                came.fetch_add(1, Ordering::Relaxed);
                worker.port.sync(group, 5).expect("the last one is complete");
                while !worker.port.synced(group, 5).expect("all are there") {
                    worker.step();
                }
                assert!(came.load(Ordering::Relaxed) >= (round / 7 + 1) * 4);
            }
        }
    });
}

/// IP-11: likewise with rings that refuse.
pub fn ip_11_threads_are_refused_and_send_again<H: Harness>(harness: &H) {
    for setup in [Setup::private(3), Setup::shared(3, 1)] {
        let mut setup = setup.ring_policy(FullPolicy::Refuse).status_policy(FullPolicy::Refuse);
        setup.layout.ring_bytes = 1024;
        setup.layout.status_slots = 8;
        many_to_one(harness, &setup, 1000, 3000);
    }
}

/// Every rank sends to every rank, itself included, through shared rings.
pub fn everyone_sends_to_everyone<H: Harness>(harness: &H) {
    const COUNT: u64 = 300;
    let ranks = 4;
    run(harness, &Setup::shared(ranks, 2), |worker| {
        let rank = worker.port.rank();
        for number in 0..COUNT {
            for to in 0..ranks {
                worker.send(&Command::send(to, 0, number, &payload(rank, number, 1200)));
            }
        }
        let mut next = vec![0; ranks as usize];
        for _ in 0..COUNT * u64::from(ranks) {
            let message = worker.receive();
            let number = &mut next[message.source as usize];
            assert_eq!(message.header, *number);
            assert_eq!(message.bytes, payload(message.source, *number, 1200));
            *number += 1;
        }
    });
}

/// A sender with credit for few messages is never further ahead.
pub fn credits_bound_a_fast_sender<H: Harness>(harness: &H) {
    const COUNT: u64 = 2000;
    let mut setup = Setup::private(2);
    setup.layout.credit = 4;
    run(harness, &setup, |worker| {
        if worker.port.rank() == 1 {
            for number in 0..COUNT {
                let bytes = payload(1, number, 200);
                worker.send(&Command { credited: true, ..Command::send(0, 0, number, &bytes) });
            }
            return;
        }
        for number in 0..COUNT {
            let message = worker.receive();
            assert_eq!(message.header, number);
            assert_eq!(message.bytes, payload(1, number, 200));
            assert!(worker.messages.len() < 4, "at most the credit is under way");
            worker.port.grant(1, number + 5);
        }
    });
}

/// When a sender dies in the middle of its traffic, a prefix of its messages has arrived, its death
/// is reported once, and the survivors' messages all arrive.
pub fn survivors_go_on_when_a_sender_dies<H: Harness>(harness: &H) {
    const COUNT: u64 = 1500;
    let setup = Setup::shared(3, 1);
    let floor = Floor::default();
    let mut ports: Vec<_> = harness.open(&setup).into_iter().map(Some).collect();
    let mut take = |rank: usize| Worker::new(ports[rank].take().expect("still here"), &floor);
    let (mut receiver, mut sender, mut victim) = (take(0), take(1), take(2));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = [0; 3];
            while next[1] < COUNT || receiver.failures.is_empty() {
                let Some(message) = receiver.messages.pop_front() else {
                    receiver.step();
                    continue;
                };
                let number = &mut next[message.source as usize];
                assert_eq!(message.header, *number, "what arrives is a prefix");
                assert_eq!(message.bytes, payload(message.source, *number, 700));
                *number += 1;
            }
            receiver.assembly = Assembly::default();
            receiver.finish(2);
            assert_eq!(receiver.failures.iter().map(|f| f.rank).collect::<Vec<_>>(), [2]);
        });
        scope.spawn(move || {
            for number in 0..COUNT {
                sender.send(&Command::send(0, 0, number, &payload(1, number, 700)));
            }
            while sender.failures.is_empty() {
                sender.step();
            }
            let answer = sender.try_send(&Command::send(2, 0, 0, &[]));
            assert_eq!(answer, Err(PostError::PeerFailed(sender.failures[0])));
            sender.finish(2);
        });
        let dying = scope.spawn(move || {
            for number in 0..COUNT / 3 {
                victim.send(&Command::send(0, 0, number, &payload(2, number, 700)));
            }
            victim
        });
        let mut victim = dying.join().expect("the victim's thread ends");
        harness.kill(&mut victim.port);
    });
}
