//! Communicators of some ranks, as threads of one process.

#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::thread;

use hikyaku_coll::{Choices, CollError, Group};
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::DeathCause;
use hikyaku_nic::layer::Layer as _;
use hikyaku_rank::CreationError;
use hikyaku_shm::{JobConfig, open_all};

use super::*;
use crate::shared::SharedError;
use crate::topology::Reorder;
use crate::{ANY_SOURCE, ANY_TAG, Access, Op, WindowError};

/// Runs a program on every rank of a job; `per_node` 0: all on one node.
fn on_ranks(ranks: u32, per_node: u32, program: impl Fn(World) + Sync) {
    on_job(&JobConfig::new(ranks, if per_node == 0 { ranks } else { per_node }), program);
}

/// Runs a program on every rank of a job of these sizes.
pub(super) fn on_job(config: &JobConfig, program: impl Fn(World) + Sync) {
    let ports = open_all(config).unwrap();
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

/// Ends a rank as if its process had been killed.
pub(super) fn die(world: World) {
    let own = world.engine().borrow().rank();
    world.engine().borrow().port().inner().host().fail(own, DeathCause::Signal(9));
    let _never_leaves = std::mem::ManuallyDrop::new(world);
}

fn is_death_of(error: &Error, rank: u32) -> bool {
    match error {
        Error::Message(MsgError::PeerFailed(failure)) => failure.rank == rank,
        Error::Collective(CollError::Abandoned { .. }) => true,
        _ => false,
    }
}

#[test]
fn neighbours_of_a_ring_exchange_at_once_and_by_persistent_rounds() {
    on_ranks(3, 0, |world| {
        let own = world.rank();
        let sides = [(own + 2) % 3, (own + 1) % 3];
        let ring = world.cartesian(&[3], &[true], Reorder::Keep).unwrap().unwrap();
        let mut both = [9; 2];
        ring.neighbour_allgather(&[own], &mut both).unwrap();
        assert_eq!(both, sides);
        let blocks = [0..1, 1..2];
        let mut exchange = ring.neighbour_alltoallv_init::<u32>(&blocks, &blocks).unwrap();
        for round in 1..3 {
            exchange.start_from(&[own * 10 + round, own * 20 + round]).unwrap();
            exchange.wait_into(&mut both).unwrap();
            assert_eq!(both, [sides[0] * 20 + round, sides[1] * 10 + round]);
        }
    });
}

#[test]
fn split_numbers_by_key_then_by_rank() {
    on_ranks(5, 0, |world| {
        let own = world.rank();
        let color = (own != 2).then_some(own % 2);
        let part = world.split(color, if own == 4 { -1 } else { 7 }).unwrap();
        let Some(part) = part else { return assert_eq!(own, 2) };
        let expected: &[u32] = if own % 2 == 0 { &[4, 0] } else { &[1, 3] };
        let mut all = vec![0; expected.len()];
        part.allgather(&[own], &mut all).unwrap();
        assert_eq!(all, expected);
        assert_eq!((part.size(), expected[part.rank() as usize]), (2, own));
    });
}

#[test]
fn communicators_that_were_freed_cost_nothing_later() {
    on_ranks(2, 0, |world| {
        for _ in 0..3 {
            let part = world.split(0, -(world.rank() as i32)).unwrap().unwrap();
            part.barrier().unwrap();
        }
        // Rank 1 was the leader. The message that rank 0 has sent it precedes this.
        if world.rank() == 0 {
            world.send(&[1u8], 1, 0).unwrap();
        } else {
            world.recv(&mut [0u8], 0, 0).unwrap();
            assert!(world.engine().borrow().has_left_overs(), "notes that two are free");
        }
        world.barrier().unwrap();
        assert!(!world.engine().borrow().has_left_overs(), "each later call would look for more");
    });
}

#[test]
fn messages_name_numbers_and_match_their_communicator_only() {
    on_ranks(4, 0, |world| {
        let part = world.split(world.rank() / 2, -(world.rank() as i32)).unwrap().unwrap();
        let other = 1 - part.rank();
        world.send(&[1u8], world.rank() ^ 1, 3).unwrap();
        part.send(&[2u8], other, 3).unwrap();
        assert_eq!(part.probe(ANY_SOURCE, ANY_TAG).unwrap().source, other);
        let mut heard = [0u8; 4];
        let received = part.recv(&mut heard, ANY_SOURCE, ANY_TAG).unwrap();
        assert_eq!((received.source, heard[0]), (other, 2));
        assert_eq!(part.iprobe(other, 3).unwrap(), None);
        world.recv(&mut heard, world.rank() ^ 1, 3).unwrap();
        assert_eq!(heard[0], 1);
        let error = part.send(&[0u8], 2, 0).unwrap_err().to_string();
        assert_eq!(error, "rank 2 does not exist: there are ranks 0 to 1");
        part.send(&[0u64], other, 4).unwrap();
        let error = part.recv(&mut heard, ANY_SOURCE, 4).unwrap_err();
        let truncated = MsgError::Truncated { sent: 8, room: 4, source_rank: other, tag: 4 };
        assert_eq!(error, truncated.into());
    });
}

#[test]
fn a_group_has_the_order_of_its_list_and_others_do_not_call() {
    on_ranks(4, 1, |world| {
        let list = [3, 0, 2];
        if world.rank() == 1 {
            return;
        }
        let group = world.create_group(&list).unwrap();
        assert_eq!((list[group.rank() as usize], group.nodes()), (world.rank(), 3));
        let mut sum = [u64::from(world.rank())];
        group.allreduce(&mut sum, Op::Sum).unwrap();
        assert_eq!(sum, [5]);
        let alone = group.create_group(&[group.rank()]).unwrap();
        assert_eq!((alone.rank(), alone.size(), alone.node()), (0, 1, world.node()));
        alone.barrier().unwrap();
    });
}

#[test]
fn lists_that_are_no_group_are_refused() {
    on_ranks(2, 0, |world| {
        let own = world.rank();
        let members: Error = CreationError::Members { rank: own }.into();
        assert_eq!(world.create_group(&[own, own]).unwrap_err(), members);
        assert_eq!(world.create_group(&[1 - own]).unwrap_err(), members);
        assert_eq!(world.create_group(&[]).unwrap_err(), members);
        let missing = world.create_group(&[own, 2]).unwrap_err();
        assert_eq!(missing, MsgError::NoSuchRank { rank: 2, size: 2 }.into());
        // The same ranks in another order.
        let error = world.create_group(&[own, 1 - own]).unwrap_err();
        assert_eq!(error, CreationError::OtherList { rank: 1 - own, own }.into());
        world.create_group(&[0, 1]).unwrap().barrier().unwrap();
    });
}

#[test]
fn contexts_come_round_and_nothing_of_the_last_time_matches() {
    on_ranks(2, 0, |world| {
        let first = 1 - world.rank();
        for turn in 0..9000u32 {
            // Of two ranks, so that the first is not of the whole job in its order.
            let pair = world.create_group(&[1, 0]).unwrap();
            if pair.rank() == 0 {
                let mut heard = [0u32];
                let received = pair.recv(&mut heard, ANY_SOURCE, ANY_TAG).unwrap();
                assert_eq!((received.source, received.tag, heard), (1, 0, [turn]));
            } else {
                pair.send(&[turn], 0, 0).unwrap();
                // No receive asks for it, and it is dropped with the communicator.
                pair.send(&[u32::MAX], 0, 1).unwrap();
            }
        }
        world.barrier().unwrap();
        assert_eq!(world.rank(), 1 - first);
        world.barrier().unwrap();
    });
}

#[test]
fn too_many_communicators_are_an_error_until_some_are_dropped() {
    let world = World::init().unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match world.create_group(&[0]) {
            Ok(group) => kept.push(group),
            Err(error) => break error,
        }
    };
    assert_eq!(error, CreationError::Full { leader: 0 }.into());
    assert!(kept.len() >= 4000);
    kept.truncate(10);
    world.create_group(&[0]).unwrap().barrier().unwrap();
    assert!(world.duplicate().split(0, 0).unwrap().is_some());
}

#[test]
fn a_death_is_an_error_where_the_dead_was_and_nowhere_else() {
    let (made, dead) = (Barrier::new(6), Barrier::new(6));
    on_ranks(6, 0, |world| {
        let own = world.rank();
        let part = world.split(own % 2, 0).unwrap().unwrap();
        part.barrier().unwrap();
        made.wait();
        if own == 3 {
            die(world);
            dead.wait();
            let _never_leaves = std::mem::ManuallyDrop::new(part);
            return;
        }
        dead.wait();
        let mut sum = [1u32];
        if own % 2 == 1 {
            let error = part.allreduce(&mut sum, Op::Sum).unwrap_err();
            assert!(is_death_of(&error, 3), "{error}");
            let error = part.recv(&mut sum, ANY_SOURCE, 9).unwrap_err();
            assert!(is_death_of(&error, 3), "{error}");
            return;
        }
        for turn in 0..200 {
            part.barrier().unwrap();
            sum = [1];
            part.allreduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum, [3]);
            // From any source: the dead rank is not a member.
            match part.rank() {
                0 => assert_eq!(part.recv(&mut sum, ANY_SOURCE, 5).unwrap().source, 1),
                1 => part.send(&[turn], 0, 5).unwrap(),
                _ => {}
            }
        }
        // The surviving ranks make a communicator of themselves, by number in this one.
        let pair = part.split(part.rank() / 2, 0).unwrap().unwrap();
        pair.duplicate().barrier().unwrap();
        let error = world.recv(&mut sum, ANY_SOURCE, 9).unwrap_err();
        assert!(is_death_of(&error, 3), "{error}");
    });
}

#[test]
fn a_death_while_one_is_made_is_an_error_at_all_and_no_hang() {
    let dead = Barrier::new(4);
    on_ranks(4, 0, |world| {
        let own = world.rank();
        let part = world.create_group(&[3, 1, 2, 0]).unwrap();
        part.barrier().unwrap();
        dead.wait();
        if own == 2 {
            let _never_leaves = std::mem::ManuallyDrop::new(part);
            return die(world);
        }
        let error = part.split(0, 0).unwrap_err();
        assert!(is_death_of(&error, 2), "{error}");
        // A duplicate cannot report it when it is made: every use of it does.
        let broken = part.duplicate();
        assert_eq!((broken.rank(), broken.size()), (part.rank(), 4));
        assert!(broken.barrier().is_err());
        assert!(broken.send(&[0u8], broken.rank(), 0).is_err());
        assert!(broken.recv(&mut [0u8], ANY_SOURCE, ANY_TAG).is_err());
        assert!(broken.iprobe(ANY_SOURCE, ANY_TAG).is_err());
    });
}

/// Whether the ranks of a communicator on one node use shared lines.
fn has_lines(world: &World) -> bool {
    world.communicator().group().next_on_lines().is_some()
}

#[test]
fn duplicates_that_are_freed_all_have_lines() {
    on_ranks(2, 0, |world| {
        for turn in 0..2000 {
            let duplicate = world.duplicate();
            duplicate.barrier().unwrap();
            assert!(has_lines(&duplicate), "turn {turn}");
        }
    });
}

#[test]
fn communicators_that_overlap_have_lines_in_whatever_order_they_are_freed() {
    on_ranks(3, 0, |world| {
        let own = world.rank();
        for turn in 0..300 {
            let mut live = vec![world.duplicate()];
            live.extend((own < 2).then(|| world.create_group(&[1, 0]).unwrap()));
            live.extend((own > 0).then(|| world.create_group(&[1, 2]).unwrap()));
            live.extend(world.split(own % 2, 0).unwrap());
            for part in &live {
                let mut sum = [1];
                part.allreduce(&mut sum, Op::Sum).unwrap();
                assert_eq!(sum, [part.size()]);
                assert!(has_lines(part) || part.size() == 1, "turn {turn}, rank {own}");
            }
            while !live.is_empty() {
                drop(live.remove((turn + own as usize) % live.len()));
            }
        }
    });
}

/// Those in use have all channels: the others use messages until some are freed.
#[test]
fn more_communicators_than_channels_are_all_of_use() {
    on_ranks(2, 0, |world| {
        let mut more: Vec<World> = (0..40).map(|_| world.duplicate()).collect();
        let sums = |more: &[World]| {
            for (number, part) in (0..).zip(more) {
                let mut sum = [world.rank() + number];
                part.allreduce(&mut sum, Op::Sum).unwrap();
                assert_eq!(sum, [1 + 2 * number]);
            }
            more.iter().filter(|part| has_lines(part)).count()
        };
        let with_lines = sums(&more);
        assert_eq!(with_lines, hikyaku_nic::segment::GroupLayout::DEFAULT.channels as usize - 1);
        // The world has its own from the start.
        assert!(has_lines(&world));
        more.drain(..with_lines);
        let later = (0..100).map(|_| sums(&more)).max();
        assert_eq!(later, Some(with_lines));
    });
}

#[test]
fn variables_are_of_the_whole_job() {
    on_ranks(2, 0, |world| {
        let part = world.split(world.rank(), 0).unwrap().unwrap();
        let error = part.shared::<u8>("a", &[1]).unwrap_err();
        assert_eq!(error, SharedError::SomeRanks { name: "a".to_owned() }.into());
        let all = world.split(0, 0).unwrap().unwrap();
        assert!(all.shared::<u8>("a", &[1]).is_ok());
        world.barrier().unwrap();
    });
}

#[test]
fn windows_of_some_ranks_are_reached_by_number() {
    on_ranks(4, 0, |world| {
        let part = world.split(world.rank() / 2, -(world.rank() as i32)).unwrap().unwrap();
        let window = part.window::<u64>(1).unwrap();
        let other = 1 - part.rank();
        window.put(other, 0, &[u64::from(world.rank())]).unwrap();
        window.wait(0, other, |value| value == u64::from(world.rank() ^ 1)).unwrap();
        part.barrier().unwrap();
        drop(window);
        part.barrier().unwrap();
    });
}

/// How many parts of protected windows a rank has mapped.
fn parts(world: &World) -> usize {
    world.engine().borrow_mut().port_mut().inner_mut().beyond_mut().parts()
}

#[test]
fn protected_windows_of_some_ranks_are_reached_by_number() {
    on_ranks(4, 0, |world| {
        let part = world.split(world.rank() / 2, -(world.rank() as i32)).unwrap().unwrap();
        let access = if part.rank() == 0 { Access::Read } else { Access::Write };
        let window = part.protected_window::<u64>(1, |_| access).unwrap();
        let other = 1 - part.rank();
        let done = window.put(other, 0, &[7]);
        assert_eq!(done.is_ok(), part.rank() == 0, "{done:?}");
        part.barrier().unwrap();
        assert_eq!(window.local().unwrap(), [if part.rank() == 0 { 0 } else { 7 }]);
        assert_eq!((window.load(other, 0).unwrap(), parts(&world)), (u64::from(other == 1) * 7, 2));
        part.barrier().unwrap();
        drop(window);
        assert_eq!(parts(&world), 0);
        part.barrier().unwrap();
    });
}

#[test]
fn a_protected_window_that_a_rank_cannot_make_is_none_at_any() {
    on_ranks(3, 0, |world| {
        let length = if world.rank() == 1 { 1 << 40 } else { 5 };
        let error = world.protected_window::<u64>(length, |_| Access::Read).unwrap_err();
        match world.rank() {
            1 => assert!(matches!(error, Error::Memory(_)), "{error}"),
            _ => assert_eq!(error, WindowError::Refused { rank: 1 }.into()),
        }
        assert_eq!(parts(&world), 0);
        // Everything is as before.
        let again = world.protected_window::<u64>(2, |_| Access::Write).unwrap();
        again.put((world.rank() + 1) % 3, 1, &[3]).unwrap();
        world.barrier().unwrap();
        assert_eq!(again.local().unwrap(), [0, 3]);
        world.barrier().unwrap();
    });
}

/// The others do not wait for the dead rank, at any stage of making the window.
#[test]
fn a_rank_that_dies_while_a_protected_window_is_made_is_an_error() {
    on_ranks(3, 0, |world| {
        world.barrier().unwrap();
        if world.rank() == 1 {
            return die(world);
        }
        let error = world.protected_window::<u64>(2, |_| Access::Write).unwrap_err();
        assert!(is_death_of(&error, 1), "{error}");
        assert_eq!(parts(&world), 0);
    });
}

/// A root has passed a broadcast on lines that another rank, whose previous broadcast failed, has
/// to do by messages. The root is elsewhere by then, and no longer uses that communicator.
#[test]
fn who_ignores_a_failed_broadcast_is_told_how_far_the_root_is() {
    for members in [2, 3] {
        let passed = Barrier::new(members as usize);
        on_ranks(3, 0, |world| {
            let own = world.rank();
            let part = world.split((own < members).then_some(0), 0).unwrap();
            let Some(part) = part else { return world.barrier().unwrap() };
            // From here on it has lines.
            part.barrier().unwrap();
            let (mut two, mut one) = ([own; 2], [own]);
            if own == 0 {
                part.broadcast(&mut two, 0).unwrap();
                part.broadcast(&mut one, 0).unwrap();
                passed.wait();
                for rank in 1..members {
                    world.recv(&mut one, rank, 7).unwrap();
                }
                return world.barrier().unwrap();
            }
            passed.wait();
            let failed = part.broadcast(&mut one, 0).unwrap_err();
            assert!(matches!(failed, Error::Collective(_)), "{failed}");
            let next = part.broadcast(&mut one, 0).unwrap_err();
            assert!(matches!(next, Error::Collective(_)), "{next}");
            world.send(&one, 0, 7).unwrap();
            world.barrier().unwrap();
        });
    }
}

#[test]
fn ip_21_a_ring_of_its_own_keeps_a_source_from_waiting_for_others() {
    const LENGTH: usize = 1024;
    for (planned, waits) in [("", true), ("0: 2\n", false)] {
        let plan = format!("hikyaku plan 1\nranks 3\nring-bytes 16384\n{planned}");
        let config = JobConfig::new(3, 3).planned(plan.parse().unwrap());
        let (full, tried) = (Barrier::new(3), Barrier::new(3));
        on_job(&config, |world| {
            let data = [world.rank() as u8; LENGTH];
            let messages = [0, 30, 1][world.rank() as usize];
            world
                .scope(|scope| {
                    if world.rank() == 2 {
                        full.wait();
                    }
                    for _ in 0..messages {
                        scope.isend(&data, 0, 0)?;
                    }
                    if world.rank() != 2 {
                        full.wait();
                    }
                    let held_up = world.statistics().held_up;
                    match world.rank() {
                        1 => assert!(held_up > 0, "the shared ring is full"),
                        2 => assert_eq!(held_up > 0, waits, "planned {planned:?}"),
                        _ => {}
                    }
                    tried.wait();
                    scope.wait_all()
                })
                .unwrap();
            let sources = [1].repeat(30).into_iter().chain([2]);
            for from in sources.filter(|_| world.rank() == 0) {
                let mut heard = [0; LENGTH];
                world.recv(&mut heard, from, 0).unwrap();
                assert_eq!(heard, [from as u8; LENGTH]);
            }
        });
    }
}

#[test]
fn neighbours_share_a_node_where_reordering_is_allowed() {
    on_ranks(4, 2, |world| {
        for (reorder, together) in [(Reorder::Keep, false), (Reorder::Allow, true)] {
            // 0 with 2, and 1 with 3.
            let graph = world.graph(&[1, 2, 3, 4], &[2, 3, 0, 1], reorder).unwrap().unwrap();
            let mut node = [9];
            graph.neighbour_allgather(&[world.node()], &mut node).unwrap();
            assert_eq!(node[0] == world.node(), together, "{reorder:?}");
        }
    });
}

#[test]
fn a_persistent_call_dropped_in_flight_fails_elsewhere() {
    on_ranks(2, 0, |world| {
        // Of several pieces: neither rank completes before the other has started.
        let mut sums = world.allreduce_init(vec![1u32; 1 << 18], Op::Sum);
        if world.rank() == 0 {
            sums.start().unwrap();
            drop(sums);
            world.send(&[0u8], 1, 0).unwrap();
            return world.barrier().unwrap();
        }
        world.recv(&mut [0u8], 0, 0).unwrap();
        sums.start().unwrap();
        let result = sums.wait();
        world.barrier().unwrap();
        let is_told = matches!(result, Err(Error::Collective(CollError::Abandoned { .. })));
        assert!(is_told, "{result:?}");
    });
}
