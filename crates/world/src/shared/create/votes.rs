//! Making variables on ranks that are threads, some of which stop half-way.

#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::thread;

use hikyaku_coll::{Cause, Choices, CollError};
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{DeathCause, MemoryPort};
use hikyaku_shm::{JobConfig, open_all};

use super::*;
use crate::shared::vote::Vote;

const PROTOCOLS: [Protocol; 3] = [Protocol::Direct, Protocol::Fagus, Protocol::Udp];

/// The victim, if the test has one. Homes go round, so it is the second variable's home.
const VICTIM: u32 = 1;

/// Runs this many ranks, so many to a node, each a thread, with fault injection if there is a seed.
fn on_ranks(
    (ranks, ranks_per_node): (u32, u32),
    (protocol, seed): (Protocol, Option<u64>),
    act: impl Fn(World, &Barrier) + Sync,
) {
    let together = Barrier::new(ranks as usize);
    let (act, together) = (&act, &together);
    let ports = open_all(&JobConfig::new(ranks, ranks_per_node)).unwrap();
    thread::scope(|scope| {
        for port in ports {
            scope.spawn(move || {
                act(World::over(port, Choices::default(), protocol, seed), together);
            });
        }
    });
}

fn options(world: &World) -> SharedOptions {
    SharedOptions { protocol: Some(world.registry().protocol), ..SharedOptions::default() }
}

/// Makes a variable of eight words, up to the vote.
fn hear(world: &World, name: &str) -> (Prepared, Placed) {
    let (element, options) = (Element::of::<u64>(), options(world));
    let prepared = world.prepare(name, &[8], &element, options);
    let offer = Offer::new(name, &[8], &element, options, prepared.as_ref().ok());
    let placed = world.place(name, &prepared, &offer).unwrap();
    (prepared.unwrap(), placed)
}

fn make(world: &World, name: &str) -> Result<Shared<u64>, Error> {
    world.shared::<u64>(name, &[8])
}

/// All remaining ranks write it.
fn use_it(shared: &Shared<u64>) {
    for _ in 0..10 {
        shared.write().unwrap()[0] += 1;
    }
}

#[test]
fn what_all_have_heard_of_all_vote_for() {
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        for seed in [None, Some(at as u64)] {
            on_ranks((4, 2), (protocol, seed), |world, _| {
                let (_prepared, placed) = hear(&world, "heard");
                let memory = &placed.memory;
                world.elect("heard", memory).unwrap();
                let votes = (0..4).map(|rank| memory.vote_of(world.engine(), rank, false));
                assert_eq!(votes.collect::<Vec<_>>(), [Vote::Yes; 4]);
                // A vote never changes.
                memory.cast(Vote::No);
                assert_eq!(memory.vote_of(world.engine(), world.rank(), true), Vote::Yes);
                world.barrier().unwrap();
            });
        }
    }
}

/// Rank 2 could not hear of all, as if by a death. It does not wait, and its next allocation is not
/// where the others read its vote.
#[test]
fn one_that_gives_up_is_an_error_at_every_rank_and_all_stay_in_step() {
    for (protocol, ranks_per_node) in PROTOCOLS.into_iter().zip([4, 2, 1]) {
        on_ranks((4, ranks_per_node), (protocol, None), |world, together| {
            let before = make(&world, "before").unwrap();
            let (prepared, placed) = hear(&world, "given up");
            let length = prepared.own.home.len();
            if world.rank() == 2 {
                world.give_up(prepared.own);
                let mut next = world.engine().borrow_mut().port_mut().allocate(length).unwrap();
                next.fill(1);
                together.wait();
            } else {
                together.wait();
                let error = world.elect("given up", &placed.memory).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "rank 2 gave up making the shared variable `given up`, so that no rank has \
                     it: its own error says why"
                );
                world.give_up(prepared.own);
            }
            assert_eq!(world.registry().ballots().count(), 1);
            let after = make(&world, "given up").unwrap();
            assert_eq!(world.registry().ballots().count(), 0, "it is given back");
            [&before, &after].into_iter().for_each(use_it);
            world.duplicate().barrier().unwrap();
            assert_eq!([&before, &after].map(|shared| shared.read().unwrap()[0]), [40; 2]);
            world.barrier().unwrap();
        });
    }
}

/// A rank died, and rank 2 heard of that but not of all parts: every rank names the one that died.
#[test]
fn one_that_gives_up_for_a_death_is_not_what_the_others_name() {
    on_ranks((4, 2), (Protocol::Direct, None), |world, together| {
        let (prepared, placed) = hear(&world, "voted");
        let (elected, world) = match world.rank() {
            VICTIM => {
                let world = ManuallyDrop::new(world);
                placed.memory.cast(Vote::Yes);
                world.engine().borrow().port().host().fail(VICTIM, DeathCause::Signal(9));
                together.wait();
                let _given = ManuallyDrop::new(prepared.own);
                return;
            }
            2 => {
                together.wait();
                (None, world)
            }
            _ => {
                together.wait();
                (Some(world.elect("voted", &placed.memory)), world)
            }
        };
        world.give_up(prepared.own);
        let named = |error| match error {
            Error::Message(MsgError::PeerFailed(failure)) => failure.rank,
            other => panic!("{other}"),
        };
        assert!(elected.is_none_or(|elected| named(elected.unwrap_err()) == VICTIM));
    });
}

/// A disagreement gets no votes, and the memory is freed.
#[test]
fn what_ranks_disagree_about_costs_nothing() {
    on_ranks((2, 1), (Protocol::Direct, None), |world, _| {
        for _ in 0..20 {
            let length = u64::from(world.rank()) + (1 << 20);
            let error = world.shared::<u64>("differs", &[length]).unwrap_err();
            assert!(matches!(error, Error::Shared(SharedError::Mismatch { .. })), "{error}");
            assert_eq!(world.registry().ballots().count(), 1);
        }
        use_it(&make(&world, "same").unwrap());
    });
}

#[test]
fn one_that_is_gone_without_a_vote_is_an_error_that_names_it() {
    for died in [true, false] {
        on_ranks((3, 2), (Protocol::Fagus, None), |world, _| {
            let (prepared, placed) = hear(&world, "never");
            if world.rank() == VICTIM {
                // Its memory stays with the job, as when a process ends.
                let _given = ManuallyDrop::new(prepared.own);
                if died {
                    let world = ManuallyDrop::new(world);
                    let engine = world.engine().borrow();
                    engine.port().host().fail(VICTIM, DeathCause::Signal(9));
                }
                return;
            }
            let is_its_end = |error| match error {
                Error::Message(MsgError::PeerFailed(failure)) => died && failure.rank == VICTIM,
                Error::Message(MsgError::PeerLeft { rank }) => !died && rank == VICTIM,
                // The other survivor may see it first, and say so.
                Error::Collective(CollError::GaveUp { cause: Cause::Gone { rank }, .. }) => {
                    rank == VICTIM
                }
                _ => false,
            };
            assert!(is_its_end(world.elect("never", &placed.memory).unwrap_err()));
            world.give_up(prepared.own);
            // From now on no rank gives memory.
            assert!(is_its_end(make(&world, "never").unwrap_err()));
            assert_eq!(world.registry().ballots().count(), 1);
        });
    }
}

/// Its vote counts: others may have seen it before, and have the variable. The variable learns of
/// an end that was known before it was made, its owner's.
#[test]
fn one_that_has_voted_and_died_is_no_reason_to_give_up() {
    for protocol in PROTOCOLS {
        on_ranks((3, 1), (protocol, None), |world, together| {
            let before = make(&world, "before").unwrap();
            let (prepared, placed) = hear(&world, "voted");
            if world.rank() == VICTIM {
                let (world, _given) = (ManuallyDrop::new(world), ManuallyDrop::new(prepared.own));
                let _before = ManuallyDrop::new(before);
                placed.memory.cast(Vote::Yes);
                world.engine().borrow().port().host().fail(VICTIM, DeathCause::Signal(9));
                together.wait();
                return;
            }
            together.wait();
            world.engine().borrow_mut().progress();
            world.attend();
            world.elect("voted", &placed.memory).unwrap();
            let kind = (Element::of::<u64>(), options(&world));
            let voted = Shared::new(world.begin("voted", kind, prepared, placed));
            [&before, &voted].into_iter().for_each(use_it);
        });
    }
}
