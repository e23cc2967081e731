//! Landing rings directed by the receiver, as threads of one process.

#![allow(clippy::unwrap_used)]

use std::sync::Barrier;

use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{FullPolicy, Granularity, TableError};
use hikyaku_nic::segment::SegmentLayout;
use hikyaku_shm::JobConfig;

use super::tests::{die, on_job};
use crate::topology::Reorder;
use crate::{ANY_SOURCE, Error, LandingError, World};

const LENGTH: usize = 1024;

/// A job whose ranks start in `rings` rings of 16 KiB.
fn config(ranks: u32, rings: u32) -> JobConfig {
    let mut config = JobConfig::new(ranks, ranks).starting_in(rings);
    config.layout.ring_bytes = 16 << 10;
    config
}

/// The rings that have sources, with these.
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

/// Rank 1 fills the ring in which rank 3 lands too, unless rank 3 names the other ring.
#[test]
fn ip_14_a_sender_gets_past_a_flood_in_a_ring_that_it_names() {
    for named in [false, true] {
        let (full, tried) = (Barrier::new(3), Barrier::new(3));
        on_job(&config(4, 2), |world| {
            let (own, data) = (world.rank(), [world.rank() as u8; LENGTH]);
            if own == 2 {
                return;
            }
            if own == 3 {
                world.landing().name_ring(0, named.then_some(0)).unwrap();
                full.wait();
            }
            world
                .scope(|scope| {
                    for _ in 0..[0, 30, 0, 1][own as usize] {
                        scope.isend(&data, 0, 0)?;
                    }
                    if own != 3 {
                        full.wait();
                    }
                    tried.wait();
                    let is_held_up = world.statistics().held_up > 0;
                    let landed = world.landing().ring(0).unwrap().landed;
                    match own {
                        1 => assert!(is_held_up, "the ring is full"),
                        3 => assert_eq!(is_held_up, !named),
                        _ => assert_eq!(landed, u64::from(named) * LENGTH as u64),
                    }
                    tried.wait();
                    scope.wait_all()
                })
                .unwrap();
            for from in [1].repeat(30).into_iter().chain([3]).filter(|_| own == 0) {
                let mut heard = [0u8; LENGTH];
                world.recv(&mut heard, from, 0).unwrap();
                assert_eq!(heard, [from as u8; LENGTH]);
            }
        });
    }
}

/// There is room for two of a message's three packets.
#[test]
fn ip_06_a_message_of_one_record_lands_whole_or_not_at_all() {
    const PACKET: usize = 4096;
    for (choice, lands) in [(Granularity::PerPacket, 2), (Granularity::PerMessage, 0)] {
        let (given, sent) = (Barrier::new(2), Barrier::new(2));
        on_job(&config(2, 1), |world| {
            let (own, landing) = (world.rank(), world.landing());
            let mut data = vec![1_u8; 3 * PACKET];
            if own == 1 {
                given.wait();
                landing.set_granularity(0, choice).unwrap();
                (0..2).for_each(|_| world.send(&data[..PACKET], 0, 0).unwrap());
                return world
                    .scope(|scope| {
                        scope.isend(&data, 0, 0)?;
                        sent.wait();
                        scope.wait_all()
                    })
                    .unwrap();
            }
            let ring = landing.give(1).unwrap();
            given.wait();
            sent.wait();
            assert_eq!(landing.ring(ring).unwrap().landed, (2 + lands) * PACKET as u64);
            for length in [PACKET, PACKET, 3 * PACKET] {
                data.fill(0);
                let received = world.recv(&mut data, 1, 0).unwrap();
                assert_eq!(received.bytes, length as u64);
                assert!(data[..length].iter().all(|byte| *byte == 1));
            }
        });
    }
}

/// The senders' choices hold for messages of every length, while the receiver redirects them.
#[test]
fn ip_14_nothing_is_lost_or_overtaken_whatever_senders_choose() {
    const COUNT: u32 = 300;
    let length = |number: u32| match number % 53 {
        0 => 100_000,
        _ => 4 + (number * 7919) as usize % 30_000,
    };
    on_job(&config(4, 2), |world| {
        let (own, landing) = (world.rank(), world.landing());
        if own != 0 {
            for number in 0..COUNT {
                let drawn = number * 2_654_435 / 7 + own;
                landing.name_ring(0, [None, Some(0), Some(1)][drawn as usize % 3]).unwrap();
                let whole = [Granularity::PerPacket, Granularity::PerMessage];
                landing.set_granularity(0, whole[drawn as usize / 3 % 2]).unwrap();
                let mut data = vec![(number + own) as u8; length(number)];
                data[..4].copy_from_slice(&number.to_le_bytes());
                world.send(&data, 0, 0).unwrap();
            }
            return world.barrier().unwrap();
        }
        let (mut next, mut heard) = ([0; 4], vec![0; 100_000]);
        for turn in 0..3 * COUNT {
            match turn % 3 {
                0 => _ = landing.give(1 + turn / 3 % 3).unwrap(),
                1 => _ = landing.share(1 + turn / 2 % 3).unwrap(),
                _ => {}
            }
            let received = world.recv(&mut heard, ANY_SOURCE, 0).unwrap();
            let (source, number) = (received.source, next[received.source as usize]);
            next[source as usize] += 1;
            let data = &heard[..received.bytes as usize];
            assert_eq!(data.len(), length(number));
            assert_eq!(data[..4], number.to_le_bytes());
            assert!(data[4..].iter().all(|byte| *byte == (number + source) as u8));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn ip_14_a_sender_names_shared_rings_alone() {
    on_job(&config(4, 2), |world| {
        let landing = world.landing();
        let table = |error| Err(LandingError::Table(error).into());
        assert_eq!(
            landing.name_ring(1, Some(6)),
            table(TableError::NoSuchRing { ring: 6, rings: 6 })
        );
        let private = LandingError::NotShared { ring: 2, shared: 2 };
        assert_eq!(landing.name_ring(1, Some(2)), Err(private.into()));
        assert_eq!(
            private.to_string(),
            "landing ring 2 is private to a source of its rank's choice: a sender can name rings 0 \
             to 1"
        );
        let nobody = Err(MsgError::NoSuchRank { rank: 4, size: 4 }.into());
        assert_eq!(landing.name_ring(4, None), nobody);
        assert_eq!(landing.set_granularity(4, Granularity::PerMessage), nobody);
        world.barrier().unwrap();
    });
    on_job(&config(2, 2), |world| {
        assert_eq!(world.landing().name_ring(0, Some(0)), Err(LandingError::NoneShared.into()));
        world.barrier().unwrap();
    });
}

/// Rank 1 floods rank 0, and then rank 2 sends one message. Its waits are counted: rank 0 receives
/// nothing until then.
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

/// The flood of rank 1 holds up rank 2, which continues when it is given a ring, though rank 0 has
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

/// Messages that rank 1 left in a ring do not hold up its next source for ever: rank 0 moves them
/// out when it waits for that source.
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

/// Each source fills a ring of another policy, until nothing can be sent.
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

/// Messages of any length and kind before, during and after redirections.
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
                // The ring of another source, if it has one: that source then shares.
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

/// The sources with private rings at a rank, by number: which of them got its ring first depends
/// on other work of the machine.
fn given(world: &World) -> Vec<u32> {
    let rings = world.landing().rings().into_iter().filter(|ring| !ring.shared);
    let mut sources: Vec<u32> = rings.flat_map(|ring| ring.sources).collect();
    sources.sort_unstable();
    sources
}

/// In each of `rounds` rounds, rank 0 receives `times[s]` messages of `bytes` bytes from rank `s`.
fn hear_rounds(world: &World, rounds: u32, times: &[u32], bytes: usize) {
    let mut data = vec![world.rank() as u8; bytes];
    for _ in 0..rounds {
        if world.rank() > 0 {
            (0..times[world.rank() as usize]).for_each(|_| world.send(&data, 0, 0).unwrap());
            continue;
        }
        for (source, times) in times.iter().enumerate() {
            for _ in 0..*times {
                world.recv(&mut data, source as u32, 0).unwrap();
                assert!(data.iter().all(|byte| *byte == source as u8));
            }
        }
    }
    world.barrier().unwrap();
}

#[test]
fn ip_13_frequent_sources_get_rings_by_themselves_and_rare_ones_share() {
    // Of 49 messages 32 are from rank 1, 16 from rank 2 and one is from rank 3.
    let times = [0, 32, 16, 1];
    for (config, bytes, expected) in [
        (config(4, 1), LENGTH, &[1, 2][..]),
        // A message within its record needs no ring.
        (config(4, 1), 8, &[]),
        (config(4, 1).keeping_rings(), LENGTH, &[]),
        // No source shares.
        (config(4, 4), LENGTH, &[0, 1, 2, 3]),
    ] {
        on_job(&config, |world| {
            hear_rounds(&world, 40, &times, bytes);
            match world.rank() {
                0 => assert_eq!(given(&world), expected, "{bytes}"),
                _ if config.layout.shared_rings() > 0 => assert_eq!(given(&world), [], "{bytes}"),
                _ => {}
            }
            world.barrier().unwrap();
        });
    }
}

/// Paper 000 §4: with 64 ranks in a three-dimensional grid, each has memory for the shared rings
/// and for those of its six partners.
#[test]
fn ip_13_memory_follows_partners() {
    let config = JobConfig::new(64, 64);
    on_job(&config, |world| {
        let grid = world.cartesian(&[4, 4, 4], &[true; 3], Reorder::Keep).unwrap().unwrap();
        let mut partners: Vec<u32> = (0..3)
            .map(|axis| grid.shift(axis, 1).unwrap())
            .flat_map(|shift| [shift.source.unwrap(), shift.destination.unwrap()])
            .collect();
        for round in 0..140u32 {
            let (mut halos, own) = ([[0u32; 32]; 6], [round; 32]);
            world
                .scope(|scope| {
                    for (halo, from) in halos.iter_mut().zip(&partners) {
                        scope.irecv(halo, *from, 0)?;
                    }
                    for to in &partners {
                        scope.isend(&own, *to, 0)?;
                    }
                    scope.wait_all()
                })
                .unwrap();
        }
        world.barrier().unwrap();
        partners.sort_unstable();
        assert_eq!(given(&world), partners);
        let rings = world.landing().rings();
        let used = rings.iter().filter(|ring| ring.shared || !ring.sources.is_empty());
        let used: u64 = used.map(|ring| ring.bytes).sum();
        let pairwise = u64::from(world.size()) * rings[0].bytes;
        assert!(4 * used <= pairwise, "{used} of {pairwise}");
        world.barrier().unwrap();
    });
}

#[test]
fn ip_13_a_ring_goes_to_who_is_frequent_now_and_back() {
    on_job(&JobConfig { layout: few_spare(4, 1), ..config(4, 1) }, |world| {
        for (frequent, expected) in [(1, 1), (2, 2), (1, 1)] {
            let mut times = [0; 4];
            times[frequent] = 64;
            hear_rounds(&world, 80, &times, LENGTH);
            if world.rank() == 0 {
                assert_eq!(given(&world), [expected]);
            }
            world.barrier().unwrap();
        }
    });
}

/// A layout with shared rings and `spare` private ones.
fn few_spare(ranks: u32, spare: u32) -> SegmentLayout {
    let layout = config(ranks, 1).layout;
    SegmentLayout { rings: layout.first_rings + spare, ..layout }
}

#[test]
fn ip_13_from_its_first_direction_on_the_program_alone_directs() {
    on_job(&JobConfig { layout: few_spare(4, 2), ..config(4, 1) }, |world| {
        hear_rounds(&world, 40, &[0, 32, 0, 0], LENGTH);
        hear_rounds(&world, 40, &[0, 32, 32, 0], LENGTH);
        if world.rank() == 0 {
            assert_eq!(given(&world), [1, 2]);
            // The first of the rings that the library gave is taken; rings that the program gave
            // stay.
            let landing = world.landing();
            assert_eq!(landing.give(2), Ok(2));
            assert_eq!(landing.give(3), Ok(1));
            assert_eq!(given(&world), [2, 3]);
            let none = LandingError::NoneLeft { rings: 2 };
            assert_eq!(landing.give(1), Err(none.into()), "both are the program's");
            landing.share(3).unwrap();
        }
        world.barrier().unwrap();
        hear_rounds(&world, 40, &[0, 32, 0, 0], LENGTH);
        if world.rank() == 0 {
            assert_eq!(given(&world), [2], "and the library gives no more");
        }
        world.barrier().unwrap();
    });
}

/// Sources become frequent and rare in turn, with one private ring for all: every message arrives
/// once and in order, whatever its length, received by source or by arrival.
#[test]
fn ip_13_nothing_is_lost_or_overtaken_where_sources_move_by_themselves() {
    const TURNS: u32 = 24;
    const BURST: u32 = 64 * 40;
    const RANKS: u32 = 4;
    let length = |source: u32, number: u32| match number % 997 {
        0 => 100_000,
        _ => 4 + (number * 7919 + source * 104_729) as usize % 1500,
    };
    let byte = |source: u32, number: u32| (number * 31 + source) as u8;
    // In each turn one source sends much and the others little.
    let count = |source: u32, turn: u32| if 1 + turn % 3 == source { BURST } else { 10 };
    on_job(&JobConfig { layout: few_spare(RANKS, 1), ..config(RANKS, 1) }, |world| {
        let own = world.rank();
        let mut numbers = [0; RANKS as usize];
        let mut data = vec![0; 100_000];
        for turn in 0..TURNS {
            world.barrier().unwrap();
            if own > 0 {
                for _ in 0..count(own, turn) {
                    let number = numbers[own as usize];
                    numbers[own as usize] += 1;
                    let data = &mut data[..length(own, number)];
                    data.fill(byte(own, number));
                    data[..4].copy_from_slice(&number.to_le_bytes());
                    world.send(data, 0, 0).unwrap();
                }
                continue;
            }
            let sources = (1..RANKS).flat_map(|source| vec![source; count(source, turn) as usize]);
            for source in sources {
                let received = match turn % 2 {
                    0 => world.recv(&mut data, source, 0).unwrap(),
                    _ => world.recv(&mut data, ANY_SOURCE, 0).unwrap(),
                };
                let (source, bytes) = (received.source, received.bytes as usize);
                let number = numbers[source as usize];
                numbers[source as usize] += 1;
                assert_eq!(data[..4], u32::to_le_bytes(number), "of {source}");
                assert_eq!(bytes, length(source, number));
                assert!(data[4..bytes].iter().all(|found| *found == byte(source, number)));
            }
        }
        if own == 0 {
            let moves = world.engine().borrow().port().ring_moves();
            assert!(moves.taken_back > u64::from(TURNS) / 4, "{moves:?}");
        }
        world.barrier().unwrap();
    });
}

/// Rank 1 has filled its ring with unreceived messages when rank 2 gets that ring.
#[test]
fn ip_13_what_a_quiet_source_left_in_its_ring_is_no_deadlock() {
    on_job(&JobConfig { layout: few_spare(3, 1), ..config(3, 1) }, |world| {
        hear_rounds(&world, 10, &[0, 64, 0], LENGTH);
        let (own, mut data) = (world.rank(), [world.rank() as u8; LENGTH]);
        if own == 0 {
            assert_eq!(given(&world), [1]);
        }
        (0..16).filter(|_| own == 1).for_each(|_| world.send(&data, 0, 1).unwrap());
        world.barrier().unwrap();
        hear_rounds(&world, 100, &[0, 0, 64], LENGTH);
        if own == 0 {
            assert_eq!(given(&world), [2]);
            (0..16).for_each(|_| _ = world.recv(&mut data, 1, 1).unwrap());
            assert_eq!(data, [1; LENGTH]);
        }
        world.barrier().unwrap();
    });
}
