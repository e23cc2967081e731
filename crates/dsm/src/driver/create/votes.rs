//! Tests of making variables on ranks that are threads, some of which stop half-way.

#![allow(clippy::unwrap_used)]

use std::mem::ManuallyDrop;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use hikyaku_coll::{Cause, Choices, CollError};
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{DeathCause, MemoryPort};
use hikyaku_nic::layer::Layer as _;
use hikyaku_rank::Error as Rank;
use hikyaku_shm::{Job, JobConfig, attach_to, open_all};

use super::super::Asking;
use super::super::contents::tests::change;
use super::super::memory::Vote;
use super::*;
use crate::{AccessKind, Patience};

const PROTOCOLS: [Protocol; 3] = [Protocol::Direct, Protocol::Fagus, Protocol::Udp];

/// The victim, if the test has one. Homes rotate, so it is the home of the second variable.
const VICTIM: u32 = 1;

/// Reports the victim's death, as its launcher would.
fn report_death(all: &Variables) {
    let engine = all.rank.engine().borrow();
    engine.port().inner().host().fail(VICTIM, DeathCause::Signal(9));
}

/// The time after which a rank is considered hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs this many ranks as threads, with this many per node. A seed injects faults.
pub(in super::super) fn on_ranks(
    (ranks, ranks_per_node): (u32, u32),
    (protocol, seed): (Protocol, Option<u64>),
    act: impl Fn(Rc<Variables>, &Barrier) + Sync,
) {
    let together = Barrier::new(ranks as usize);
    let (act, together) = (&act, &together);
    let ports = open_all(&JobConfig::new(ranks, ranks_per_node)).unwrap();
    thread::scope(|scope| {
        for port in ports {
            scope.spawn(move || {
                let rank = Communicator::over(port, Choices::default());
                let settings = Settings { protocol, faults: seed, wrong: None };
                act(Variables::new(rank, settings), together);
            });
        }
    });
}

/// A variable of eight words.
fn eight(all: &Variables, name: &'static str) -> WantedVariable<'static> {
    let (element, protocol) = (Element::of::<u64>(), all.protocol);
    let options = SharedOptions { protocol: Some(protocol), ..SharedOptions::default() };
    WantedVariable { name, shape: &[8], element, options, protocol }
}

/// Makes the variable up to the vote.
fn hear(all: &Variables, name: &'static str) -> (PreparedVariable, Placed) {
    let wanted = eight(all, name);
    let prepared = all.prepare(&wanted);
    let placed = all.place(&all.rank, &wanted, &prepared).unwrap();
    (prepared.unwrap(), placed)
}

pub(in super::super) fn make(
    all: &Rc<Variables>,
    name: &'static str,
) -> Result<Rc<Variable>, Error> {
    let WantedVariable { shape, element, options, .. } = eight(all, name);
    all.make(&all.rank, name, shape, element, options)
}

/// Writes the variable on all remaining ranks.
fn use_it(variable: &Rc<Variable>) {
    for _ in 0..10 {
        change(variable, |words| words[0] += 1);
    }
}

fn barrier(rank: &Communicator) {
    rank.drive(hikyaku_coll::barrier(&rank.group(), None)).unwrap();
}

#[test]
fn what_all_have_heard_of_all_vote_for() {
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        for seed in [None, Some(at as u64)] {
            on_ranks((4, 2), (protocol, seed), |all, _| {
                let (_prepared, placed) = hear(&all, "heard");
                let memory = &placed.memory;
                all.elect("heard", memory).unwrap();
                let votes = (0..4).map(|rank| memory.vote_of(all.rank.engine(), rank, false));
                assert_eq!(votes.collect::<Vec<_>>(), [Vote::Yes; 4]);
                // A vote never changes.
                memory.cast(Vote::No);
                assert_eq!(memory.vote_of(all.rank.engine(), all.rank.rank(), true), Vote::Yes);
                barrier(&all.rank);
            });
        }
    }
}

/// Rank 2 has not received all offers, as if because of a death. It does not wait, and its next
/// allocation is not where the others read its vote.
#[test]
fn one_that_abandons_is_an_error_at_every_rank_and_all_stay_in_step() {
    for (protocol, ranks_per_node) in PROTOCOLS.into_iter().zip([4, 2, 1]) {
        on_ranks((4, ranks_per_node), (protocol, None), |all, together| {
            let before = make(&all, "before").unwrap();
            let (prepared, placed) = hear(&all, "abandoned");
            let length = prepared.own.home.len();
            if all.rank.rank() == 2 {
                all.abandon(prepared.own);
                let mut next = all.rank.engine().borrow_mut().port_mut().allocate(length).unwrap();
                next.fill(1);
                together.wait();
            } else {
                together.wait();
                let error = all.elect("abandoned", &placed.memory).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "rank 2 abandoned the shared variable `abandoned`, so that no rank has \
                     it: its own error says why"
                );
                all.abandon(prepared.own);
            }
            assert_eq!(all.ballots().count(), 1);
            let after = make(&all, "abandoned").unwrap();
            assert_eq!(all.ballots().count(), 0, "it is given back");
            [&before, &after].into_iter().for_each(use_it);
            barrier(&all.rank.duplicate());
            assert_eq!(
                [&before, &after].map(|variable| change(variable, |words| words[0])),
                [40; 2]
            );
            barrier(&all.rank);
        });
    }
}

/// A rank died. Rank 2 learned of that but not of all parts: every rank names the rank that died.
#[test]
fn one_that_abandons_for_a_death_is_not_what_the_others_name() {
    on_ranks((4, 2), (Protocol::Direct, None), |all, together| {
        let (prepared, placed) = hear(&all, "voted");
        let (elected, all) = match all.rank.rank() {
            VICTIM => {
                let all = ManuallyDrop::new(all);
                placed.memory.cast(Vote::Yes);
                report_death(&all);
                together.wait();
                let _given = ManuallyDrop::new(prepared.own);
                return;
            }
            2 => {
                together.wait();
                (None, all)
            }
            _ => {
                together.wait();
                (Some(all.elect("voted", &placed.memory)), all)
            }
        };
        all.abandon(prepared.own);
        let named = |error| match error {
            Error::Rank(Rank::Message(MsgError::PeerFailed(failure))) => failure.rank,
            other => panic!("{other}"),
        };
        assert!(elected.is_none_or(|elected| named(elected.unwrap_err()) == VICTIM));
    });
}

/// A disagreement gets no votes, and the memory is freed.
#[test]
fn what_ranks_disagree_about_costs_nothing() {
    on_ranks((2, 1), (Protocol::Direct, None), |all, _| {
        for _ in 0..20 {
            let length = u64::from(all.rank.rank()) + (1 << 20);
            let WantedVariable { name, element, options, .. } = eight(&all, "differs");
            let error = all.make(&all.rank, name, &[length], element, options).unwrap_err();
            assert!(matches!(error, Error::Shared(SharedError::Mismatch { .. })), "{error}");
            assert_eq!(all.ballots().count(), 1);
        }
        use_it(&make(&all, "same").unwrap());
    });
}

#[test]
fn one_that_is_gone_without_a_vote_is_an_error_that_names_it() {
    for died in [true, false] {
        on_ranks((3, 2), (Protocol::Fagus, None), |all, _| {
            let (prepared, placed) = hear(&all, "never");
            if all.rank.rank() == VICTIM {
                // Its memory stays with the job, as when a process ends.
                let _given = ManuallyDrop::new(prepared.own);
                if died {
                    let all = ManuallyDrop::new(all);
                    report_death(&all);
                }
                return;
            }
            let is_its_end = |error| match error {
                Error::Rank(Rank::Message(MsgError::PeerFailed(failure))) => {
                    died && failure.rank == VICTIM
                }
                Error::Rank(Rank::Message(MsgError::PeerLeft { rank, .. })) => {
                    !died && rank == VICTIM
                }
                // The other survivor may see it first, and report it.
                Error::Rank(Rank::Collective(CollError::Abandoned {
                    cause: Cause::Gone { rank },
                    ..
                })) => rank == VICTIM,
                _ => false,
            };
            assert!(is_its_end(all.elect("never", &placed.memory).unwrap_err()));
            all.abandon(prepared.own);
            // From now on no rank offers memory.
            assert!(is_its_end(make(&all, "never").unwrap_err()));
            assert_eq!(all.ballots().count(), 1);
        });
    }
}

/// The vote of a dead rank counts: others may have seen it before, and have the variable. The new
/// variable learns of a death that was known before it was made: its owner's.
#[test]
fn one_that_has_voted_and_died_is_no_reason_to_abandon() {
    for protocol in PROTOCOLS {
        on_ranks((3, 1), (protocol, None), |all, together| {
            let before = make(&all, "before").unwrap();
            let (prepared, placed) = hear(&all, "voted");
            if all.rank.rank() == VICTIM {
                let (all, _given) = (ManuallyDrop::new(all), ManuallyDrop::new(prepared.own));
                let _before = ManuallyDrop::new(before);
                placed.memory.cast(Vote::Yes);
                report_death(&all);
                together.wait();
                return;
            }
            together.wait();
            all.rank.engine().borrow_mut().progress();
            all.rank.attend();
            all.elect("voted", &placed.memory).unwrap();
            let voted = all.begin(eight(&all, "voted"), prepared, placed);
            [&before, &voted].into_iter().for_each(use_it);
        });
    }
}

#[test]
fn without_a_variable_of_datagrams_nobody_looks_at_the_socket() {
    on_ranks((1, 1), (Protocol::Direct, None), |all, _| {
        let by = |name, protocol| {
            let WantedVariable { shape, element, options, .. } = eight(&all, name);
            let options = SharedOptions { protocol: Some(protocol), ..options };
            all.make(&all.rank, name, shape, element, options).unwrap()
        };
        let looks = |variable: &Rc<Variable>| {
            let before = all.service.looks();
            use_it(variable);
            barrier(&all.rank);
            all.service.looks() - before
        };
        let are_restless = || all.rank.tasks().are_restless();
        let stores = by("stores", Protocol::Fagus);
        assert_eq!((looks(&stores), are_restless()), (0, false));
        let datagrams = by("datagrams", Protocol::Udp);
        assert!(looks(&datagrams) > 0 && looks(&stores) > 0 && are_restless());
        drop(datagrams);
        use_it(&stores);
        all.rank.attend();
        assert_eq!((looks(&stores), are_restless()), (0, false));
        let again = by("again", Protocol::Udp);
        assert!(looks(&again) > 0 && are_restless());
        assert_eq!([&stores, &again].map(|variable| change(variable, |words| words[0])), [40, 10]);
    });
}

#[test]
fn owners_answer_as_many_ranks_as_a_set_holds() {
    for (ranks, fits) in [(Copyset::MOST, true), (Copyset::MOST + 1, false)] {
        // The other ranks have not begun.
        let job = Job::create_unheard(&JobConfig::new(ranks, 1)).unwrap();
        let rank = Communicator::over(attach_to(&job.name(), 0).unwrap(), Choices::default());
        let settings = Settings { protocol: Protocol::Fagus, faults: None, wrong: None };
        let all = Variables::new(rank, settings);
        let prepared = all.prepare(&eight(&all, "many")).map(drop);
        let most = Copyset::MOST;
        let error = SharedError::TooManyRanks { protocol: Protocol::Fagus, ranks, most };
        assert_eq!(prepared, if fits { Ok(()) } else { Err(error.into()) });
    }
}

/// Rank 0 owns the variable and computes, so it answers nothing. Rank 2 has requested the variable
/// and wants to end. Since rank 1 died, rank 2 serves only while others ask.
#[test]
fn nobody_lingers_for_an_answer_after_a_death() {
    let (ended, ends) = mpsc::sync_channel(1);
    let ends = Mutex::new(ends);
    on_ranks((3, 1), (Protocol::Fagus, None), |all, together| {
        let shared = make(&all, "unanswered").unwrap();
        match all.rank.rank() {
            VICTIM => {
                let (all, _shared) = (ManuallyDrop::new(all), ManuallyDrop::new(shared));
                report_death(&all);
                together.wait();
            }
            2 => {
                together.wait();
                drop(Asking::new(&shared, 0, AccessKind::Write, Patience::Wait).unwrap());
                all.service.linger(all.rank.engine());
                ended.send(()).unwrap();
            }
            _ => {
                together.wait();
                ends.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            }
        }
    });
}
