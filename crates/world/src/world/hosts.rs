//! Jobs of several hosts, as threads of one process: what goes between hosts goes by libfabric.

#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::{Duration, Instant};

use hikyaku_coll::Choices;
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::DeathCause;
use hikyaku_rank::RankPort;
use hikyaku_shm::{Job, JobConfig, exchange_cards, open_hosts};

use super::*;
use crate::{ANY_SOURCE, Op};

/// Runs a program on every rank of a job, whose host `of` says. Skipped without libfabric.
fn on_hosts(of: &[u32], program: impl Fn(World, &[Job]) + Sync) {
    let ranks = of.len() as u32;
    let (jobs, ports) = open_hosts(&JobConfig::new(ranks, ranks), of, [7; 16]).unwrap();
    let mut opened = Vec::new();
    for port in ports {
        match RankPort::open(port) {
            Ok(port) => opened.push(port),
            Err(error @ hikyaku_rank::FarError::NotInstalled { .. }) => {
                return eprintln!("skipped: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    exchange_cards(&jobs);
    thread::scope(|scope| {
        for port in opened {
            let (program, jobs) = (&program, &jobs[..]);
            scope.spawn(move || {
                let rank = Communicator::over(port, Choices::default());
                program(World::over(rank, Settings::default()), jobs);
            });
        }
    });
}

/// Every host of one rank, and hosts of several whose ranks do not follow each other.
const SHAPES: [&[u32]; 3] = [&[0, 1], &[0, 1, 0, 1], &[0, 0, 1, 2, 2]];

fn bytes(length: usize, seed: u32) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(31).wrapping_add(seed) as u8).collect()
}

#[test]
fn messages_of_every_length_arrive_in_order() {
    for of in SHAPES {
        on_hosts(of, |world, _| {
            let (own, size) = (world.rank(), world.size());
            let (next, before) = ((own + 1) % size, (own + size - 1) % size);
            for length in [0, 1, 8, 40, 41, 500, 5_000, 70_000, 3_000_000] {
                for turn in 0..3 {
                    let mut into = vec![0; length];
                    let message = bytes(length, own + turn);
                    if own % 2 == 0 {
                        world.send(&message, next, turn as i32).unwrap();
                        world.recv(&mut into, before, turn as i32).unwrap();
                    } else {
                        world.recv(&mut into, before, turn as i32).unwrap();
                        world.send(&message, next, turn as i32).unwrap();
                    }
                    assert!(into == bytes(length, before + turn), "{length} bytes");
                }
            }
        });
    }
}

#[test]
fn many_messages_that_nobody_expects_are_held_back_and_arrive() {
    on_hosts(&[0, 1, 1], |world, _| {
        const MESSAGES: u32 = 3000;
        if world.rank() > 0 {
            for number in 0..MESSAGES {
                let message = vec![number; 1 + number as usize % 50];
                world.send(&message, 0, 1).unwrap();
            }
            world.send(&[world.rank()], 0, 2).unwrap();
        } else {
            let mut last = [0];
            // The last of one first: what lies before it must make room.
            world.recv(&mut last, 2, 2).unwrap();
            for number in 0..2 * MESSAGES {
                let mut into = [0; 50];
                let from = 1 + number % 2;
                world.recv(&mut into, from, 1).unwrap();
                assert_eq!(into[0], number / 2);
            }
            world.recv(&mut last, ANY_SOURCE, 2).unwrap();
        }
    });
}

#[test]
fn collectives_and_communicators_span_hosts() {
    for of in SHAPES {
        on_hosts(of, |world, _| {
            let (own, size) = (world.rank(), world.size());
            for length in [1, 100, 50_000] {
                let mut sum = vec![u64::from(own); length];
                world.allreduce(&mut sum, Op::Sum).unwrap();
                assert!(sum.iter().all(|sum| *sum == u64::from(size * (size - 1) / 2)));
                let mut data = vec![if own == 1 { 5_u32 } else { 0 }; length];
                world.broadcast(&mut data, 1).unwrap();
                assert!(data.iter().all(|value| *value == 5));
                let mut all = vec![0; size as usize * length];
                world.allgather(&vec![own; length], &mut all).unwrap();
                assert!(all.chunks(length).zip(0..).all(|(part, rank)| part[0] == rank));
            }
            let part = world.split(Some(own % 2), 0).unwrap().unwrap();
            let mut sum = [1_u32];
            part.allreduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum[0], part.size());
            (0..50).for_each(|_| world.barrier().unwrap());
        });
    }
}

#[test]
fn windows_reach_other_hosts() {
    for of in SHAPES {
        on_hosts(of, |world, _| {
            const LENGTH: usize = 100_000;
            let (own, size) = (world.rank(), world.size());
            let window = world.window::<u64>(LENGTH).unwrap();
            let count = world.window::<u64>(1).unwrap();
            let next = (own + 1) % size;
            let data: Vec<u64> = (0..LENGTH as u64).map(|at| at + u64::from(own)).collect();
            window.put(next, 0, &data).unwrap();
            for _ in 0..20 {
                count.fetch_add(0, 0, 1).unwrap();
            }
            world.barrier().unwrap();
            let mut there = vec![0; LENGTH];
            window.get(own, 0, &mut there).unwrap();
            let before = u64::from((own + size - 1) % size);
            assert!(there.iter().zip(0..).all(|(value, at)| *value == at + before));
            window.get(next, 0, &mut there).unwrap();
            assert!(there == data);
            assert_eq!(count.load(0, 0).unwrap(), 20 * u64::from(size));
            assert!(window.put(next, LENGTH - 1, &[1, 2]).is_err());
            world.barrier().unwrap();
        });
    }
}

#[test]
fn a_death_on_another_host_is_an_error_of_who_waits() {
    on_hosts(&[0, 1, 0], |world, jobs| {
        if world.rank() == 1 {
            let mut into = [0_u8; 1];
            world.recv(&mut into, 0, 0).unwrap();
            jobs.iter().for_each(|job| assert!(job.mark_dead(1, DeathCause::Signal(9))));
            let _never_leaves = std::mem::ManuallyDrop::new(world);
            return;
        }
        if world.rank() == 0 {
            world.send(&[1_u8], 1, 0).unwrap();
        }
        let start = Instant::now();
        let error = world.recv(&mut [0_u8; 1], 1, 7).unwrap_err();
        let Error::Message(MsgError::PeerFailed(failure)) = &error else { panic!("{error}") };
        assert_eq!((failure.rank, failure.cause), (1, DeathCause::Signal(9)));
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(world.send(&vec![0_u8; 1 << 20], 1, 0).is_err());
        // Those that are left go on.
        let mut other = [world.rank()];
        let peer = 2 - world.rank();
        world.send(&other, peer, 5).unwrap();
        world.recv(&mut other, peer, 5).unwrap();
        assert_eq!(other, [peer]);
    });
}

#[test]
fn who_waits_for_a_rank_that_has_left_gets_its_messages_and_an_error() {
    on_hosts(&[0, 1], |world, _| {
        if world.rank() == 1 {
            world.send(&bytes(200_000, 1)[..50_000], 0, 0).unwrap();
            world.send(&[7_u8], 0, 1).unwrap();
            return;
        }
        let mut into = [0_u8];
        world.recv(&mut into, 1, 1).unwrap();
        let mut into = vec![0; 50_000];
        world.recv(&mut into, 1, 0).unwrap();
        let error = world.recv(&mut into, 1, 3).unwrap_err();
        let Error::Message(MsgError::PeerLeft { rank: 1 }) = &error else { panic!("{error}") };
    });
}

#[test]
fn what_is_not_built_between_hosts_is_an_error_of_every_rank() {
    on_hosts(&[0, 1, 1], |world, _| {
        let error = world.shared::<u64>("apart", &[8]).unwrap_err().to_string();
        assert!(error.contains("`apart`") && error.contains("between hosts"), "{error}");
        world.barrier().unwrap();
    });
}
