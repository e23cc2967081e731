//! Mailboxes: letters of rounds, written directly into the reader's region.
//!
//! A fabric need not have them: then opening one is an error, and callers use queues or messages.

use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku_nic::fabric::{MailEnd, MailboxAddress, MailboxId, MailboxPort, Port, PostError};
use hikyaku_nic::region::RegionError;
use hikyaku_nic::ring::MailSlots;

use crate::job::pattern;
use crate::{Harness, Job, Setup};

/// A mailbox of a rank; `None`: the fabric has none.
fn open(port: &mut impl MailboxPort, from: u32, room: u32) -> Option<(MailboxId, MailboxAddress)> {
    match port.open_mailbox(from, room) {
        Err(RegionError::Unsupported | RegionError::NoMailboxes) => {
            assert!(!port.capabilities().mailboxes);
            None
        }
        opened => Some(opened.expect("the region has room")),
    }
}

fn post(port: &mut impl MailboxPort, to: MailboxAddress, round: u64, letter: &[u8]) {
    let (one, other) = letter.split_at(letter.len() / 3);
    port.write_mail(to, round, 0, one).expect("it fits");
    port.write_mail(to, round, one.len() as u32, other).expect("it fits");
    port.post_mail(to, round).expect("it is there");
}

fn read(port: &mut impl MailboxPort, id: MailboxId, round: u64, length: usize) -> Vec<u8> {
    let mut letter = vec![0; length];
    port.read_mail(id, round, 0, &mut letter).expect("it is there");
    letter
}

/// A letter is readable once posted, in its round and in no other, whatever its size; also from a
/// rank to itself. Larger letters get more slots if there is room for them.
pub fn a_letter_is_there_in_its_round<H: Harness>(harness: &H) {
    let (little, enough) =
        (Setup::private(2), Setup { region_bytes: 1 << 20, ..Setup::private(2) });
    let small = [(0, 1), (1, 0), (40, 1), (120, 0), (121, 1)].map(|(room, from)| (room, from, 2));
    for (setup, larger) in [(little, (5000, 1, 2)), (enough, (5000, 1, 32))] {
        let mut job = Job::open(harness, &setup);
        for (room, from, slots) in small.into_iter().chain([larger]) {
            let Some((id, address)) = open(job.port(0), from, room) else { return };
            assert_eq!((address.rank, address.slots), (0, MailSlots { room, count: slots }));
            rounds_by_letter(&mut job, from, (id, address));
            assert_eq!(job.port(0).mail_end(id), None);
        }
    }
}

fn rounds_by_letter<H: Harness>(
    job: &mut Job<'_, H>,
    from: u32,
    (id, address): (MailboxId, MailboxAddress),
) {
    let MailSlots { room, count } = address.slots;
    for round in 1..=u64::from(2 * count) + 1 {
        assert!(!job.port(0).has_mail(id, round));
        let letter = pattern(round, room as usize);
        post(job.port(from), address, round, &letter);
        job.settle(from);
        assert!(job.port(0).has_mail(id, round) && !job.port(0).has_mail(id, round + 1));
        if round > 1 {
            let before = read(job.port(0), id, round - 1, room as usize);
            assert_eq!(before, pattern(round - 1, room as usize), "a slot for each of two rounds");
        }
        assert_eq!(read(job.port(0), id, round, room as usize), letter);
    }
}

/// A letter that is too long, or a mailbox that does not exist, is an error, and nothing is
/// written.
pub fn what_does_not_fit_a_letter_is_an_error<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let Some((id, address)) = open(job.port(0), 1, 8) else { return };
    post(job.port(1), address, 1, &[7; 8]);
    job.settle(1);
    for (at, length) in [(0, 9), (1, 8), (8, 1), (u32::MAX, 8)] {
        let written = job.port(1).write_mail(address, 1, at, &vec![1; length]);
        assert!(matches!(written, Err(PostError::OutOfBounds { rank: 0, .. })), "{written:?}");
        assert!(job.port(0).read_mail(id, 1, at, &mut vec![0; length]).is_err());
    }
    assert_eq!(read(job.port(0), id, 1, 8), [7; 8]);
    let far = MailboxAddress { at: u64::MAX - 7, ..address };
    let outside = MailboxAddress { at: 64 << 10, ..address };
    let nobody = MailboxAddress { rank: 2, ..address };
    let countless = MailboxAddress { slots: MailSlots { count: 0, ..address.slots }, ..address };
    assert!(job.port(1).write_mail(countless, u64::MAX, 0, &[1]).is_err());
    for wrong in [far, outside, nobody] {
        assert!(job.port(1).write_mail(wrong, 2, 0, &[1]).is_err(), "{wrong:?}");
        assert!(job.port(1).post_mail(wrong, 2).is_err(), "{wrong:?}");
        job.port(1).end_mail(wrong, MailEnd::Retired { rounds: 9 });
    }
    assert!(!job.port(0).has_mail(id + 1, 1));
    assert!(job.port(0).read_mail(id + 1, 1, 0, &mut [0]).is_err());
    assert_eq!(job.port(0).mail_end(id), None);
    assert!(matches!(job.port(0).open_mailbox(1, u32::MAX), Err(RegionError::Exhausted { .. })));
}

/// The memory of a closed mailbox is reused when its writer has ended it, or is dead.
pub fn memory_is_kept_until_the_writer_has_ended<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let Some((first, address)) = open(job.port(0), 1, 8) else { return };
    job.port(0).close_mailbox(first);
    let (second, other) = open(job.port(0), 1, 8).expect("as before");
    assert_ne!(address.at, other.at, "it may still be written to");
    job.port(1).end_mail(address, MailEnd::Retired { rounds: 3 });
    job.settle(1);
    assert_eq!(job.port(0).mail_end(first), Some(MailEnd::Retired { rounds: 3 }));
    let (third, again) = open(job.port(0), 1, 8).expect("as before");
    assert_eq!((again.at, job.port(0).mail_end(third)), (address.at, None));
    job.port(1).end_mail(other, MailEnd::Abandoned { rank: 0 });
    job.settle(1);
    assert_eq!(job.port(0).mail_end(second), Some(MailEnd::Abandoned { rank: 0 }));
    [second, third].into_iter().for_each(|id| job.port(0).close_mailbox(id));
    job.kill(1);
    let mut found: Vec<u64> =
        (0..2).map(|_| open(job.port(0), 1, 8).expect("as before").1.at).collect();
    found.sort_unstable();
    assert_eq!(found, [address.at.min(other.at), address.at.max(other.at)]);
}

/// Two threads only write to each other in every round, and a waiting thread sleeps.
pub fn threads_exchange_letters<H: Harness>(harness: &H) {
    const ROUNDS: u64 = 3_000;
    const LENGTH: usize = 150;
    let mut job = Job::open(harness, &Setup::private(2));
    let Some(zero) = open(job.port(0), 1, LENGTH as u32) else { return };
    let one = open(job.port(1), 0, LENGTH as u32).expect("both have them");
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (rank, own, theirs) in [(0_u64, zero.0, one.1), (1, one.0, zero.1)] {
            let mut port = job.ports[rank as usize].take().expect("the rank has its port");
            let failed = &failed;
            scope.spawn(move || {
                let _guard = Guard(failed);
                for round in 1..=ROUNDS {
                    post(&mut port, theirs, round, &pattern(2 * round + rank, LENGTH));
                    while !port.has_mail(own, round) {
                        assert!(!failed.load(Ordering::Relaxed), "the other has failed");
                        if port.poll().is_none() {
                            port.park(None);
                        }
                    }
                    let letter = read(&mut port, own, round, LENGTH);
                    assert_eq!(letter, pattern(2 * round + 1 - rank, LENGTH), "round {round}");
                }
                port.end_mail(theirs, MailEnd::Retired { rounds: ROUNDS });
                while port.mail_end(own).is_none() {
                    assert!(!port.has_mail(own, ROUNDS + 1));
                    if port.poll().is_none() {
                        port.park(None);
                    }
                }
            });
        }
    });
    assert!(!failed.load(Ordering::Relaxed));
}

/// Tells the other thread when one panics.
struct Guard<'f>(&'f AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
