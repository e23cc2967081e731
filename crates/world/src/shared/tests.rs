//! Shared variables of a world of one; `tests/jobs` tests those of several ranks.

#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::Duration;

use hikyaku_coll::Choices;
use hikyaku_dsm::Word;
use hikyaku_dsm::driver::Settings;
use hikyaku_dsm::word::{FIRST, Head, Version};
use hikyaku_rank::Communicator;
use hikyaku_shm::{JobConfig, open_all};

use super::*;
use crate::World;

#[test]
fn what_was_written_is_read_and_guards_let_go() {
    let world = World::init().unwrap();
    let shared = world.shared::<f64>("field", &[3, 4]).unwrap();
    assert_eq!(*shared.read().unwrap(), [0.0; 12]);
    for round in 1..100 {
        let mut guard = shared.write().unwrap();
        assert_eq!((guard.mark(), guard.moved()), (None, false));
        let line = format!("{guard:?}");
        assert!(line.starts_with("WriteGuard { variable: \"field\", part: 0, entry: "), "{line}");
        guard[round % 12] += 1.0;
        drop(guard);
        let sum: f64 = shared.read().unwrap().iter().sum();
        assert_eq!(sum, round as f64);
    }
    assert_eq!((shared.name(), shared.shape()), ("field", &[3, 4][..]));
    assert_eq!((shared.parts(), shared.moved()), (1, (0, 0)));
    assert_eq!(world.block_on(shared.write_async()).unwrap().len(), 12);
    assert_eq!(world.block_on(shared.read_async()).unwrap().len(), 12);
    assert!(shared.write_within(Duration::from_millis(1)).unwrap().is_some());
    assert!(shared.read_within(Duration::ZERO).unwrap().is_some());
}

#[test]
fn a_variable_that_is_held_is_not_acquired_again_by_its_rank() {
    let world = World::init().unwrap();
    let shared = world.shared::<u8>("held", &[2]).unwrap();
    let other = shared.clone();
    let guard = shared.write().unwrap();
    assert_eq!(shared.state().unwrap(), CopyState::Wlock);
    for error in [other.write().unwrap_err(), other.read().unwrap_err()] {
        let Error::Shared(SharedError::Recursive { variable }) = &error else { panic!("{error}") };
        assert_eq!(variable, "the shared variable `held`");
    }
    assert!(other.try_write().is_err());
    drop(guard);
    let guard = shared.try_read().unwrap().unwrap();
    assert_eq!(shared.state().unwrap(), CopyState::Rlock);
    assert!(other.read().is_err());
    drop(guard);
    assert_eq!(shared.state().unwrap(), CopyState::Clean);
    assert!(other.try_write().unwrap().is_some());
}

/// Runs this many ranks, each on a node of its own, as threads.
fn on_nodes(ranks: u32, program: impl Fn(World) + Sync) {
    let ports = open_all(&JobConfig::new(ranks, 1)).unwrap();
    thread::scope(|scope| {
        for port in ports {
            let program = &program;
            scope.spawn(move || {
                let rank = Communicator::over(port, Choices::default());
                program(World::over(rank, Settings::default()));
            });
        }
    });
}

#[test]
fn parts_have_their_homes_at_one_rank_after_another() {
    on_nodes(3, |world| {
        let rows = SharedOptions { parts: Parts::Rows(1), ..Default::default() };
        let shared = world.shared_with::<u8>("rows", &[7, 2], rows).unwrap();
        let first = u64::from(shared.home());
        for part in 0..7 {
            assert_eq!(u64::from(shared.part(part).unwrap().home()), (first + part) % 3);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn fg_02_what_is_written_again_far_from_home_stays_with_its_writer_until_somebody_asks() {
    on_nodes(3, |world| {
        let shared = world.shared::<u64>("kept", &[8]).unwrap();
        assert_eq!(shared.home(), 0);
        world.barrier().unwrap();
        let mut written = 0;
        for round in 0..3 {
            if world.rank() == 1 {
                let write = || {
                    let mut guard = shared.write().unwrap();
                    let next = guard[0] + 1;
                    guard.fill(next);
                };
                // The second write is kept. From then on no other node is involved.
                write();
                write();
                let before = shared.traffic();
                (0..100).for_each(|_| write());
                written += 102;
                assert_eq!(shared.traffic(), before, "round {round}");
                // Except for readers, which are counted at the home rank.
                let read = || shared.read().unwrap()[7];
                assert_eq!((read(), read()), (written, written));
                assert_eq!(shared.traffic().remote, before.remote + 4, "round {round}");
                write();
                assert_eq!(shared.traffic().remote, before.remote + 4, "round {round}");
            }
            world.barrier().unwrap();
            written = 103 * (round + 1);
            // Any rank can acquire it without waiting: it is unlocked.
            if world.rank() == 2 * (round % 2) as u32 {
                assert_eq!(*shared.try_read().unwrap().unwrap(), [written; 8]);
                assert_eq!(*shared.try_write().unwrap().unwrap(), [written; 8]);
            }
            world.barrier().unwrap();
            assert_eq!(*shared.read().unwrap(), [written; 8]);
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_keeper_that_is_inside_lets_go_when_it_was_asked_and_one_that_leaves_keeps_nothing() {
    on_nodes(2, |world| {
        let shared = world.shared::<u64>("kept", &[8]).unwrap();
        if world.rank() == 0 {
            world.recv(&mut [0u8], 1, 0).unwrap();
            assert!(shared.try_write().unwrap().is_none());
            world.send(&[0u8], 1, 1).unwrap();
            assert_eq!(shared.write().unwrap()[0], 4);
            world.send(&[0u8], 1, 2).unwrap();
            // Rank 1 is the variable's keeper, and has dropped its handle.
            world.recv(&mut [0u8], 1, 3).unwrap();
            assert_eq!(shared.write().unwrap()[0], 8);
            return;
        }
        let write = |value: u64| shared.write().unwrap()[0] = value;
        (1..4).for_each(write);
        let mut guard = shared.write().unwrap();
        world.send(&[0u8], 0, 0).unwrap();
        world.recv(&mut [0u8], 0, 1).unwrap();
        guard[0] = 4;
        drop(guard);
        world.recv(&mut [0u8], 0, 2).unwrap();
        (5..9).for_each(write);
        drop(shared);
        world.send(&[0u8], 0, 3).unwrap();
    });
}

#[test]
fn a_turn_is_waited_for_look_by_look() {
    let world = World::init().unwrap();
    let shared = world.shared::<u8>("turn", &[2]).unwrap();
    shared.write_free().unwrap().unwrap()[0] = 1;
    assert_eq!(shared.read_free().unwrap().unwrap()[0], 1);
    let mut turn = shared.ask_write().unwrap();
    // This rank has already asked for it.
    assert!(shared.write_free().unwrap().is_none());
    assert!(shared.ask_read().is_err());
    let guard = turn.look().unwrap().unwrap();
    assert!(shared.write_free().unwrap().is_none());
    drop((guard, turn));
    assert_eq!(*shared.ask_read().unwrap().look().unwrap().unwrap(), [1, 0]);
    // Cancelled before the first poll.
    drop(shared.ask_write().unwrap());
    drop(shared.ask_read().unwrap());
    assert_eq!(shared.state().unwrap(), CopyState::Clean);
    assert_eq!(shared.write_free().unwrap().unwrap().len(), 2);
}

#[test]
#[should_panic(expected = "a request that is over is looked at again")]
fn a_turn_that_has_come_is_not_looked_at_again() {
    let world = World::init().unwrap();
    let shared = world.shared::<u8>("over", &[2]).unwrap();
    let mut turn = shared.ask_write().unwrap();
    let guard = turn.look().unwrap().unwrap();
    let again = turn.look();
    drop((guard, again));
}

#[test]
fn parts_are_acquired_alone() {
    let world = World::init().unwrap();
    let options =
        SharedOptions { parts: Parts::Tiles(2, 3), recoverable: true, ..Default::default() };
    let tiles = world.shared_with::<u32>("tiles", &[3, 4], options).unwrap();
    let guards: Vec<_> = (0..tiles.parts())
        .map(|part| {
            let mut guard = tiles.part(part).unwrap().write().unwrap();
            guard.fill(part as u32);
            guard
        })
        .collect();
    let lengths: Vec<usize> = guards.iter().map(|guard| guard.len()).collect();
    assert_eq!(lengths, [6, 2, 3, 1]);
    drop(guards);
    let last = tiles.part(2).unwrap();
    assert_eq!((last.shape(), last.origin()), (vec![1, 3], vec![2, 0]));
    assert_eq!(*last.read().unwrap(), [2; 3]);
    assert!(matches!(
        tiles.part(4).unwrap_err(),
        Error::Shared(SharedError::NoSuchPart { part: 4, parts: 4, .. })
    ));
}

#[test]
fn variables_are_found_by_name() {
    let world = World::init().unwrap();
    let unknown = world.shared_named::<u8>("a").unwrap_err();
    assert_eq!(unknown.to_string(), "there is no shared variable `a`: there is none");
    let first = world.shared::<i32>("a", &[1]).unwrap();
    first.write().unwrap()[0] = 7;
    assert_eq!(*world.shared_named::<i32>("a").unwrap().read().unwrap(), [7]);
    assert_eq!(world.shared_named_bytes("a").unwrap().read().unwrap().len(), 4);
    let wrong = world.shared_named::<f64>("a").unwrap_err();
    assert!(matches!(wrong, Error::Shared(SharedError::WrongElement { .. })), "{wrong}");
    let taken = world.shared::<i32>("a", &[1]).unwrap_err();
    assert!(matches!(taken, Error::Shared(SharedError::Exists { .. })), "{taken}");
    drop(first);
    assert!(world.shared_named::<i32>("a").is_err());
    assert_eq!(*world.shared::<i32>("a", &[1]).unwrap().read().unwrap(), [0], "zeros again");
}

#[test]
fn fg_05_there_are_as_many_variables_as_the_control_region_holds() {
    let world = World::init().unwrap();
    let rows = SharedOptions { parts: Parts::Rows(1), ..Default::default() };
    let many = world.shared_with::<u8>("many", &[8000, 2], rows).unwrap();
    let error = world.shared_with::<u8>("more", &[193], rows).unwrap_err();
    assert_eq!(
        error,
        SharedError::TooMany { name: "more".into(), wanted: 193, free: 192, most: 8192 }.into()
    );
    assert_eq!(world.shared_with::<u8>("fit", &[192], rows).unwrap().parts(), 192);
    drop(many);
    assert!(world.shared_with::<u8>("more", &[8192], rows).is_ok());
    let error = world.shared::<u8>("none", &[0]).unwrap_err();
    assert!(matches!(error, Error::Shared(SharedError::Parts { .. })), "{error}");
    assert!(world.shared::<u64>("huge", &[1 << 60]).is_err());
    for beyond in [0, 4095, 4096] {
        assert!(world.shared::<u8>("huge", &[u64::MAX - beyond]).is_err());
    }
}

#[test]
fn memory_comes_back() {
    let world = World::init().unwrap();
    for _ in 0..20 {
        let large = world.shared::<u8>("large", &[16 << 20]).unwrap();
        large.write().unwrap()[1 << 20] = 1;
    }
}

/// Checks that every call reports that the variable was overwritten, repeatedly.
fn assert_overwritten(shared: &Shared<u64>) {
    let lost = Error::Shared(SharedError::Overwritten {
        variable: format!("the shared variable `{}`", shared.name()),
    });
    for _ in 0..2 {
        assert_eq!(shared.write().map(drop).unwrap_err(), lost);
        assert_eq!(shared.read().map(drop).unwrap_err(), lost);
        assert_eq!(shared.try_write().map(drop).unwrap_err(), lost);
    }
}

#[test]
fn a_variable_whose_words_were_overwritten_is_lost() {
    let world = World::init().unwrap();
    let [shared, other] =
        ["overwritten", "other"].map(|name| world.shared::<u64>(name, &[2]).unwrap());
    (0..5).for_each(|_| drop(shared.write().unwrap()));
    // An earlier turn, whose cell was used long ago: the next request leads there again.
    shared.variable.overwrite(Word::Head, Head { position: FIRST, mark: None }.bits());
    assert_overwritten(&shared);
    assert!(other.write().is_ok());
}

#[test]
fn a_node_that_there_is_not_loses_a_variable() {
    on_nodes(2, |world| {
        let options =
            |protocol| SharedOptions { protocol: Some(protocol), ..SharedOptions::default() };
        let direct = world.shared_with::<u64>("direct", &[2], options(Protocol::Direct)).unwrap();
        let fagus = world.shared_with::<u64>("fagus", &[2], options(Protocol::Fagus)).unwrap();
        world.barrier().unwrap();
        if world.rank() == 0 {
            drop(direct.write().unwrap());
        }
        world.barrier().unwrap();
        let nowhere = Version { position: 1 << 40, node: 4000, shared: false }.bits();
        if world.rank() == 1 {
            direct.variable.overwrite(Word::Latest, nowhere);
            assert_overwritten(&direct);
        }
        // Its owner still answers, and names itself.
        if world.rank() != fagus.home() {
            fagus.variable.overwrite(Word::Owner(world.rank()), nowhere);
            fagus.write().unwrap()[0] = 7;
        }
        world.barrier().unwrap();
        assert_eq!(fagus.read().unwrap()[0], 7);
    });
}
