//! Landing rings directed by the receiver, as threads of one process.

#![allow(clippy::unwrap_used)]

use std::sync::Barrier;

use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{FullPolicy, TableError};
use hikyaku_shm::JobConfig;

use super::tests::{die, on_job};
use crate::{ANY_SOURCE, Error, LandingError, World};

const LENGTH: usize = 1024;

/// Ranks that start in so many rings, of 16 KiB.
fn config(ranks: u32, rings: u32) -> JobConfig {
    let mut config = JobConfig::new(ranks, ranks).starting_in(rings);
    config.layout.ring_bytes = 16 << 10;
    config
}

/// The sources of each ring that has some.
fn used(world: &World) -> Vec<(u32, Vec<u32>)> {
    let rings = world.landing().rings().into_iter();
    rings.filter(|ring| !ring.sources.is_empty()).map(|ring| (ring.number, ring.sources)).collect()
}

#[test]
fn ip_13_the_table_is_what_the_layout_says() {
    on_job(&config(3, 3), |world| {
        let rings = world.landing().rings();
        assert_eq!((rings.len(), rings[0].bytes, rings[0].held), (3, 16 << 10, 0));
        assert!(rings.iter().all(|ring| !ring.shared && ring.sources == [ring.number]));
        assert!(rings.iter().all(|ring| ring.full == FullPolicy::Stall));
        assert_eq!(world.landing().ring_of(2), Ok(Some(2)));
        assert_eq!(world.landing().ring(3), None);
    });
    on_job(&config(5, 2), |world| {
        let rings = world.landing().rings();
        assert_eq!(rings.len(), 7);
        assert!(rings.iter().all(|ring| ring.shared == (ring.number < 2)));
        assert_eq!(used(&world), [(0, vec![0, 2, 4]), (1, vec![1, 3])]);
    });
}

#[test]
fn ip_13_sources_get_rings_of_their_own_and_share_again() {
    on_job(&config(5, 2), |world| {
        let landing = world.landing();
        assert_eq!(landing.give(3), Ok(2));
        assert_eq!(landing.give(3), Ok(2), "it has one");
        assert_eq!(landing.give(1), Ok(3));
        assert_eq!(used(&world), [(0, vec![0, 2, 4]), (2, vec![3]), (3, vec![1])]);
        assert_eq!(landing.share(3), Ok(1), "where there are fewest");
        assert_eq!(landing.give(4), Ok(2), "that was another's");
        assert_eq!(landing.share(0), Ok(0), "it is there");
        landing.route(2, 1).unwrap();
        landing.route(4, 1).unwrap();
        assert_eq!(used(&world), [(0, vec![0]), (1, vec![2, 3, 4]), (3, vec![1])]);
        world.barrier().unwrap();
    });
}

#[test]
fn ip_13_communicators_name_their_own_ranks() {
    on_job(&config(4, 1), |world| {
        let part = world.split(world.rank() / 2, -(world.rank() as i32)).unwrap().unwrap();
        let other = 1 - part.rank();
        let ring = part.landing().give(other).unwrap();
        assert_eq!(part.landing().ring(ring).unwrap().sources, [other]);
        assert_eq!(world.landing().ring(ring).unwrap().sources, [world.rank() ^ 1]);
        let taken = TableError::Private { ring, owner: other };
        assert_eq!(part.landing().route(part.rank(), ring), Err(LandingError::Table(taken).into()));
        assert_eq!(
            part.landing().give(2).unwrap_err(),
            MsgError::NoSuchRank { rank: 2, size: 2 }.into()
        );
        world.barrier().unwrap();
    });
}

#[test]
fn ip_13_what_cannot_be_is_one_error() {
    let (dead, asked) = (Barrier::new(4), Barrier::new(3));
    on_job(&config(4, 1), |world| {
        world.barrier().unwrap();
        let (landing, table) = (world.landing(), |error| Error::from(LandingError::Table(error)));
        if world.rank() == 3 {
            die(world);
            dead.wait();
            return;
        }
        dead.wait();
        assert!(matches!(landing.give(3), Err(Error::Message(MsgError::PeerFailed(_)))));
        assert!(matches!(landing.share(3), Err(Error::Message(MsgError::PeerFailed(_)))));
        assert_eq!(landing.route(1, 9), Err(table(TableError::NoSuchRing { ring: 9, rings: 5 })));
        let missing = table(TableError::NoSuchRing { ring: 5, rings: 5 });
        assert_eq!(landing.set_full(5, FullPolicy::Refuse), Err(missing));
        let nobody = MsgError::NoSuchRank { rank: 4, size: 4 };
        assert_eq!(landing.ring_of(4), Err(nobody.into()));
        asked.wait();
    });
    on_job(&config(2, 2), |world| {
        assert_eq!(world.landing().give(0), Ok(0), "it has one from the start");
        let other = 1 - world.rank();
        assert_eq!(world.landing().share(other), Err(LandingError::NoneShared.into()));
        world.barrier().unwrap();
        let gone = loop {
            match world.landing().give(other) {
                Err(error) => break error,
                Ok(_) if world.rank() == 1 => return,
                Ok(_) => std::thread::yield_now(),
            }
        };
        assert!(matches!(gone, Error::Message(MsgError::PeerLeft { rank: 1, .. })));
    });
    on_job(&config(18, 1), |world| {
        for source in 0..16 {
            assert_eq!(world.landing().give(source), Ok(source + 1));
        }
        let none = world.landing().give(16).unwrap_err();
        assert_eq!(none, LandingError::NoneLeft { rings: 16 }.into());
        assert_eq!(
            none.to_string(),
            "each of the 16 private landing rings of this rank is another source's: put one back \
             on a shared ring first"
        );
        world.landing().share(3).unwrap();
        assert_eq!(world.landing().give(16), Ok(4));
        world.barrier().unwrap();
    });
}

/// Rank 1 floods rank 0, and then rank 2 sends one message. Whether it waits is counted: rank 0
/// takes nothing by then.
#[test]
fn ip_13_a_ring_of_its_own_lets_a_source_past_a_flood() {
    for given in [false, true] {
        let (full, tried) = (Barrier::new(3), Barrier::new(3));
        on_job(&config(3, 1), |world| {
            let data = [world.rank() as u8; LENGTH];
            if world.rank() == 0 && given {
                world.landing().give(2).unwrap();
            }
            if world.rank() == 2 {
                full.wait();
            }
            world
                .scope(|scope| {
                    for _ in 0..[0, 30, 1][world.rank() as usize] {
                        scope.isend(&data, 0, 0)?;
                    }
                    if world.rank() != 2 {
                        full.wait();
                    }
                    tried.wait();
                    match world.rank() {
                        1 => assert!(world.statistics().held_up > 0, "the shared ring is full"),
                        2 => assert_eq!(world.statistics().held_up == 0, given),
                        _ => {
                            let landing = world.landing();
                            assert_eq!(landing.ring(0).unwrap().held, 16 << 10);
                            let number = landing.ring_of(2).unwrap().unwrap();
                            let landed = landing.ring(number).unwrap().landed;
                            let expected = if given { 1 } else { 16 };
                            assert_eq!(landed, expected * LENGTH as u64, "{given}");
                        }
                    }
                    tried.wait();
                    scope.wait_all()
                })
                .unwrap();
            let sources = [1].repeat(30).into_iter().chain([2]);
            for from in sources.filter(|_| world.rank() == 0) {
                let mut heard = [0u8; LENGTH];
                world.recv(&mut heard, from, 0).unwrap();
                assert_eq!(heard, [from as u8; LENGTH]);
            }
        });
    }
}

/// Rank 2 is held up by the flood of rank 1, and goes on when it is given a ring, though rank 0 has
/// received nothing.
#[test]
fn ip_13_a_source_that_waits_goes_on_in_its_new_ring() {
    let (full, tried, given) = (Barrier::new(3), Barrier::new(3), Barrier::new(3));
    on_job(&config(3, 1), |world| {
        let data = [world.rank() as u8; LENGTH];
        match world.rank() {
            0 => {
                full.wait();
                tried.wait();
                let number = world.landing().give(2).unwrap();
                given.wait();
                while world.landing().ring(number).unwrap().landed < 2 * LENGTH as u64 {
                    std::thread::yield_now();
                }
                let shared = world.landing().ring(0).unwrap();
                assert_eq!(shared.landed, shared.bytes, "nothing has been received");
                let mut heard = [0u8; LENGTH];
                for from in [2, 2].into_iter().chain([1].repeat(30)) {
                    world.recv(&mut heard, from, 0).unwrap();
                    assert_eq!(heard, [from as u8; LENGTH]);
                }
            }
            rank => world
                .scope(|scope| {
                    if rank == 2 {
                        full.wait();
                    }
                    for _ in 0..[30, 2][rank as usize - 1] {
                        scope.isend(&data, 0, 0)?;
                    }
                    if rank == 1 {
                        full.wait();
                    }
                    assert!(world.statistics().held_up > 0);
                    tried.wait();
                    given.wait();
                    scope.wait_all()
                })
                .unwrap(),
        }
    });
}

/// What rank 1 has left in a ring does not hold up its next source for ever: rank 0 moves it out
/// when it waits for that source.
#[test]
fn ip_13_what_the_last_source_left_in_a_ring_is_no_deadlock() {
    let full = Barrier::new(3);
    on_job(&config(3, 1), |world| {
        let data = [world.rank() as u8; LENGTH];
        let mut heard = [0u8; LENGTH];
        match world.rank() {
            0 => {
                let ring = world.landing().give(1).unwrap();
                full.wait();
                full.wait();
                assert_eq!(world.landing().ring(ring).unwrap().held, 16 << 10);
                world.landing().share(1).unwrap();
                assert_eq!(world.landing().give(2), Ok(ring));
                full.wait();
                world.recv(&mut heard, 2, 0).unwrap();
                assert_eq!(heard, [2; LENGTH]);
                (0..16).for_each(|_| _ = world.recv(&mut heard, 1, 0).unwrap());
                assert_eq!(heard, [1; LENGTH]);
            }
            rank => {
                full.wait();
                (0..16).filter(|_| rank == 1).for_each(|_| world.send(&data, 0, 0).unwrap());
                full.wait();
                full.wait();
                (0..1).filter(|_| rank == 2).for_each(|_| world.send(&data, 0, 0).unwrap());
            }
        }
        world.barrier().unwrap();
    });
}

/// Each source fills a ring with another rule, until nothing goes.
#[test]
fn ip_11_each_ring_refuses_or_stalls_as_it_is_told() {
    let (ready, full) = (Barrier::new(3), Barrier::new(3));
    on_job(&config(3, 1), |world| {
        let data = [world.rank() as u8; LENGTH];
        if world.rank() == 0 {
            let [stalling, refusing] = [1, 2].map(|source| world.landing().give(source).unwrap());
            world.landing().set_full(refusing, FullPolicy::Refuse).unwrap();
            ready.wait();
            full.wait();
            let [stalling, refusing] =
                [stalling, refusing].map(|ring| world.landing().ring(ring).unwrap());
            assert!(stalling.stalls > 0 && stalling.refusals == 0, "{stalling:?}");
            assert!(refusing.refusals > 0 && refusing.stalls == 0, "{refusing:?}");
            let mut heard = [0u8; LENGTH];
            for from in [1, 2].repeat(30) {
                world.recv(&mut heard, from, 0).unwrap();
                assert_eq!(heard, [from as u8; LENGTH]);
            }
            return;
        }
        ready.wait();
        world
            .scope(|scope| {
                for _ in 0..30 {
                    scope.isend(&data, 0, 0)?;
                }
                full.wait();
                assert_eq!(world.statistics().refused > 0, world.rank() == 2);
                scope.wait_all()
            })
            .unwrap();
    });
}

/// Messages of any length and kind before, across and after moves.
#[test]
fn ip_13_nothing_is_lost_or_overtaken_by_random_moves() {
    const COUNT: u32 = 400;
    let length = |source: u32, number: u32| match number % 97 {
        0 => 100_000,
        _ => 4 + (number * 7919 + source * 104_729) as usize % 3000,
    };
    let byte = |source: u32, number: u32| (number * 31 + source) as u8;
    on_job(&config(4, 1), |world| {
        let own = world.rank();
        if own != 0 {
            for number in 0..COUNT {
                let mut data = vec![byte(own, number); length(own, number)];
                data[..4].copy_from_slice(&number.to_le_bytes());
                world.send(&data, 0, 0).unwrap();
            }
            return world.barrier().unwrap();
        }
        let mut next = [0; 4];
        let mut heard = vec![0; 100_000];
        for turn in 0..3 * COUNT {
            let (source, landing) = (1 + turn * 7 % 3, world.landing());
            match turn * 2_654_435 % 5 {
                0 => _ = landing.share(source).unwrap(),
                1 => _ = landing.give(source).unwrap(),
                // The ring of another, if it has one: that shares.
                2 => {
                    let other = 1 + source % 3;
                    let ring = landing.give(other).unwrap();
                    landing.share(other).unwrap();
                    landing.route(source, ring).unwrap();
                }
                _ => {}
            }
            let received = world.recv(&mut heard, ANY_SOURCE, 0).unwrap();
            let (source, bytes) = (received.source, received.bytes as usize);
            let number = next[source as usize];
            next[source as usize] += 1;
            assert_eq!(heard[..4], u32::to_le_bytes(number), "of {source}");
            assert_eq!(bytes, length(source, number));
            assert!(heard[4..bytes].iter().all(|found| *found == byte(source, number)));
        }
        world.barrier().unwrap();
    });
}
