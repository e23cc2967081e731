//! Credits: how many unconsumed messages a receiver allows a source.

use hikyaku_nic::fabric::{Command, FullCause, Port};

use crate::{Harness, Job, Setup};

/// Sends credited messages until there is no credit. Returns their number.
fn exhaust<H: Harness>(job: &mut Job<'_, H>, first: u64) -> u64 {
    for number in first.. {
        if job.offer(1, &credited(number)).is_err() {
            assert!(job.full_causes(1, &credited(number)).contains(&FullCause::Credit));
            return number - first;
        }
    }
    unreachable!("credit is not endless")
}

fn credited(number: u64) -> Command<'static> {
    Command { credited: true, ..Command::send(0, 0, number, &[]) }
}

fn setup() -> Setup {
    let mut setup = Setup::private(2);
    setup.layout.credit = 5;
    setup
}

/// A source without credit is held up; a grant lets it continue; other sends need no credit.
pub fn exhausted_credit_holds_up_and_a_grant_resumes<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &setup());
    assert_eq!(exhaust(&mut job, 0), 5);
    job.send(1, &Command::send(0, 0, 99, &[]));
    let headers: Vec<_> = job.take_all(0).iter().map(|record| record.header).collect();
    assert_eq!(headers, [0, 1, 2, 3, 4, 99], "what needs no credit goes on");
    assert_eq!(exhaust(&mut job, 5), 0, "consuming grants nothing by itself");
    for (granted, more) in [(6, 1), (9, 3), (30, 21)] {
        job.port(0).grant(1, granted);
        assert_eq!(exhaust(&mut job, 100), more);
        assert_eq!(job.take_all(0).len() as u64, more);
    }
}

/// A grant is a total since the start and never decreases.
pub fn a_grant_never_lowers<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &setup());
    job.port(0).grant(1, 3);
    job.port(0).grant(1, 0);
    assert_eq!(exhaust(&mut job, 0), 5, "the first credit stands");
    job.port(0).grant(1, 8);
    job.port(0).grant(1, 6);
    assert_eq!(exhaust(&mut job, 0), 3);
}

/// The receiver is told once that a source was held up, until it is held up again.
pub fn being_held_up_is_told_once<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &setup());
    assert_eq!(job.port(0).held_up(), None);
    exhaust(&mut job, 0);
    assert_eq!(job.port(0).held_up(), Some(1));
    assert_eq!(job.port(0).held_up(), None, "told once, and no other was");
    assert_eq!(exhaust(&mut job, 5), 0);
    assert_eq!(job.port(0).held_up(), None, "still the same wait");
    job.port(0).grant(1, 6);
    assert_eq!(exhaust(&mut job, 5), 1);
    assert_eq!(job.port(0).held_up(), Some(1), "held up again");
    assert_eq!(job.port(0).held_up(), None);
}
