//! Jobs of several hosts, as threads of one process: traffic between hosts uses libfabric.

#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_coll::Choices;
use hikyaku_msg::{LongMessages, MsgError, Way};
use hikyaku_nic::fabric::DeathCause;
use hikyaku_rank::RankPort;
use hikyaku_shm::{Job, JobConfig, exchange_cards, open_hosts};

use super::*;
use crate::persistent::{Neighbour, Neighbours};
use crate::shared::{Parts, Protocol, SharedOptions};
use crate::{ANY_SOURCE, Access, Granularity, Op};

/// Time limit for events that occur at once, on a busy machine. Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a program on every rank of a job; `of` lists each rank's host. Skipped without libfabric.
fn on_hosts(of: &[u32], program: impl Fn(World, &[Job]) + Sync) {
    on_hosts_by(of, Choices::default(), program);
}

/// The same with algorithms by name.
fn on_hosts_by(of: &[u32], choices: Choices, program: impl Fn(World, &[Job]) + Sync) {
    let ranks = of.len() as u32;
    on_hosts_as(&JobConfig::new(ranks, ranks), of, choices, program);
}

/// Reports the panic of a rank to all hosts, so that waits for it end.
struct Ends<'j> {
    rank: u32,
    jobs: &'j [Job],
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.jobs.iter().for_each(|job| _ = job.mark_dead(self.rank, DeathCause::Unknown));
        }
    }
}

/// The same with these sizes.
fn on_hosts_as(
    config: &JobConfig,
    of: &[u32],
    choices: Choices,
    program: impl Fn(World, &[Job]) + Sync,
) {
    let (jobs, ports) = open_hosts(config, of, [7; 16]).unwrap();
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
                let _ends = Ends { rank: port.rank(), jobs };
                let rank = Communicator::over(port, choices);
                program(World::over(rank, Settings::default()), jobs);
            });
        }
    });
}

/// Every host with one rank, and hosts of several ranks that are not consecutive.
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

/// Messages of one record, and in named rings, while the receiver redirects their sources.
#[test]
fn ip_14_senders_of_other_hosts_choose_as_well() {
    const COUNT: u32 = 100;
    let length = |number: u32| 41 + (number * 7919) as usize % 40_000;
    let config = JobConfig::new(4, 4).starting_in(2);
    on_hosts_as(&config, &[0, 1, 0, 1], Choices::default(), |world, _| {
        let landing = world.landing();
        if world.rank() > 0 {
            for number in 0..COUNT {
                let one = [Granularity::PerMessage, Granularity::PerPacket];
                landing.set_granularity(0, one[number as usize / 2 % 2]).unwrap();
                landing.name_ring(0, [None, Some(0), None, Some(1)][number as usize % 4]).unwrap();
                world.send(&bytes(length(number), number), 0, 0).unwrap();
            }
            return world.barrier().unwrap();
        }
        let (mut next, mut into) = ([0; 4], vec![0u8; 50_000]);
        for turn in 0..3 * COUNT {
            match turn % 4 {
                0 => _ = landing.give(1 + turn / 4 % 3).unwrap(),
                1 => _ = landing.share(1 + turn / 3 % 3).unwrap(),
                _ => {}
            }
            let received = world.recv(&mut into, ANY_SOURCE, 0).unwrap();
            let number = next[received.source as usize];
            next[received.source as usize] += 1;
            assert!(into[..received.bytes as usize] == bytes(length(number), number));
        }
        world.barrier().unwrap();
    });
}

/// Messages of other hosts land where the receiver directs them, like those of its own host.
#[test]
fn ip_13_sources_of_other_hosts_are_directed_as_well() {
    const COUNT: u32 = 60;
    for rings in [1, 4] {
        let config = JobConfig::new(4, 4).starting_in(rings);
        on_hosts_as(&config, &[0, 1, 0, 1], Choices::default(), |world, _| {
            if world.rank() > 0 {
                for number in 0..COUNT {
                    let message = bytes(1 + number as usize * 97 % 5_000, number);
                    world.send(&message, 0, 0).unwrap();
                }
                return world.barrier().unwrap();
            }
            let (landing, mut next, mut into) = (world.landing(), [0; 4], [0u8; 5_000]);
            for turn in 0..3 * COUNT {
                let (source, other) = (1 + turn % 3, 1 + turn * 5 % 7 % 3);
                let ring = landing.give(source).unwrap();
                if rings == 1 && source != other {
                    landing.share(source).unwrap();
                    landing.share(other).unwrap();
                    landing.route(other, ring).unwrap();
                    assert_eq!(landing.ring(ring).unwrap().sources, [other]);
                }
                let received = world.recv(&mut into, ANY_SOURCE, 0).unwrap();
                let number = next[received.source as usize];
                next[received.source as usize] += 1;
                assert_eq!(received.bytes, u64::from(1 + number * 97 % 5_000));
                assert!(into[..received.bytes as usize] == bytes(received.bytes as usize, number));
            }
            world.barrier().unwrap();
        });
    }
}

/// Operations that need memory shared by ranks are an error at every rank of several hosts, and
/// work among the ranks of each host.
#[test]
fn cj_14_cj_15_groups_end_at_the_host() {
    for (barrier, needs) in [
        ("sync", "or a network that synchronises"),
        ("atomic-add", "or remote counters"),
        ("multicast-add", "or multicast to counters"),
    ] {
        let mut choices = Choices::default();
        choices.choose_written(&format!("barrier={barrier}")).unwrap();
        choices.choose_written("broadcast=multicast").unwrap();
        on_hosts_by(&[0, 0, 1, 1], choices, |world, _| {
            let line = world.barrier().unwrap_err().to_string();
            let begin = format!("barrier by {barrier} needs ranks that share memory, {needs}");
            assert!(line.starts_with(&begin), "{line}");
            let line = world.broadcast(&mut [0], 3).unwrap_err().to_string();
            assert!(line.starts_with("broadcast by multicast needs ranks that share"), "{line}");
            let host = world.split(Some(world.rank() / 2), 0).unwrap().unwrap();
            for _ in 0..3 {
                let mut data = [world.rank()];
                host.broadcast(&mut data, 1).unwrap();
                assert_eq!(data[0], world.rank() / 2 * 2 + 1);
                host.barrier().unwrap();
            }
        });
    }
}

/// Lengths of one piece, of several, and with a short last piece.
const LONG: [usize; 5] = [70_000, 256 << 10, (256 << 10) + 100, 1 << 20, 3_000_001];

#[test]
fn long_messages_are_fetched_from_their_senders_or_streamed() {
    on_hosts(&[0, 1], |world, _| {
        let peer = 1 - world.rank();
        for way in [LongMessages::By(Way::Ring), LongMessages::By(Way::Read)] {
            world.engine().borrow_mut().carry_long_messages(way);
            let before = world.statistics().direct_reads;
            for length in LONG {
                let (mut into, message) = (vec![0; length], bytes(length, world.rank()));
                world.sendrecv(&message, peer, 1, &mut into, peer, 1).unwrap();
                assert!(into == bytes(length, peer), "{length} bytes");
                // Into a buffer that is too short.
                if world.rank() == 0 {
                    world.send(&message, 1, 2).unwrap();
                } else {
                    let short = &mut into[..length / 2];
                    let error = world.recv(short, 0, 2).unwrap_err();
                    let Error::Message(MsgError::Truncated { .. }) = error else {
                        panic!("{error}")
                    };
                    assert!(*short == bytes(length, 0)[..length / 2]);
                }
            }
            let fetched = world.statistics().direct_reads - before;
            let all = LONG.len() as u64 * (1 + u64::from(world.rank()));
            assert_eq!(fetched, if way == LongMessages::By(Way::Read) { all } else { 0 }, "{way}");
        }
    });
}

#[test]
fn more_long_messages_at_once_than_there_is_room_to_fetch() {
    on_hosts(&[0, 1, 1], |world, _| {
        const EACH: i32 = 20;
        world.engine().borrow_mut().carry_long_messages(LongMessages::By(Way::Read));
        let (own, length) = (world.rank(), 300_000);
        let all: Vec<Vec<u8>> = (0..EACH).map(|at| bytes(length, own + at as u32)).collect();
        let mut into = vec![vec![0; length]; 2 * EACH as usize];
        let peers: Vec<u32> = (0..3).filter(|peer| *peer != own).collect();
        world
            .scope(|scope| {
                for (number, into) in into.iter_mut().enumerate() {
                    scope.irecv(into, peers[number % 2], number as i32 / 2)?;
                }
                for (message, tag) in all.iter().zip(0..) {
                    peers.iter().try_for_each(|peer| scope.isend(message, *peer, tag).map(drop))?;
                }
                Ok(())
            })
            .unwrap();
        for (number, into) in into.iter().enumerate() {
            assert!(*into == bytes(length, peers[number % 2] + number as u32 / 2), "{number}");
        }
    });
}

#[test]
fn a_rank_that_dies_while_its_memory_is_fetched_is_an_error() {
    on_hosts(&[0, 1, 2], |world, jobs| {
        // Far more than the pieces that are requested at once.
        let mut message = bytes(30_000_000, world.rank());
        if world.rank() == 1 {
            let gone = world.scope(|scope| {
                scope.isend(&message, 0, 1)?;
                scope.isend(&message[..1], 0, 2)?;
                world.recv(&mut [0_u8], 0, 3)?;
                jobs.iter().for_each(|job| assert!(job.mark_dead(1, DeathCause::Signal(9))));
                Err::<(), _>(Error::from(MsgError::Cancelled))
            });
            gone.unwrap_err();
            let _never_leaves = std::mem::ManuallyDrop::new(world);
            return;
        }
        if world.rank() == 2 {
            world.recv(&mut [0_u8], 0, 4).unwrap();
            return world.send(&message, 0, 5).unwrap();
        }
        world.engine().borrow_mut().carry_long_messages(LongMessages::By(Way::Read));
        world.recv(&mut message[..1], 1, 2).unwrap();
        let fetched = world.scope(|scope| {
            let receive = scope.irecv(&mut message, 1, 1)?;
            world.send(&[1_u8], 1, 3)?;
            receive.wait()
        });
        let error = fetched.unwrap_err();
        let Error::Message(MsgError::PeerFailed(failure)) = &error else { panic!("{error}") };
        assert_eq!(failure.rank, 1);
        // The room is reused.
        world.send(&[1_u8], 2, 4).unwrap();
        world.recv(&mut message, 2, 5).unwrap();
        assert!(message == bytes(message.len(), 2));
    });
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
            // The last message of one source first: those before it must make room.
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

/// Ranks use their mappings of parts on the own host, and the owner's tables on other hosts.
#[test]
fn cj_06_protected_windows_reach_other_hosts() {
    for of in SHAPES {
        on_hosts(of, |world, _| {
            let (own, size) = (world.rank(), world.size());
            let next = (own + 1) % size;
            let access = |rank| if (rank + 1) % size == own { Access::Write } else { Access::Read };
            let window = world.protected_window::<u64>(10, access).unwrap();
            assert_eq!(window.fetch_add(next, 1, 5), Ok(0));
            window.put(next, 2, &[u64::from(own); 3]).unwrap();
            world.barrier().unwrap();
            for rank in (0..size).filter(|rank| *rank != own) {
                let before = u64::from((rank + size - 1) % size);
                let mut there = [9; 6];
                window.get(rank, 0, &mut there).unwrap();
                assert_eq!(there, [0, 5, before, before, before, 0]);
                assert_eq!(window.load(rank, 2), Ok(before));
                let may = rank == next;
                assert_eq!(window.put(rank, 9, &[1]).is_ok(), may);
                assert_eq!(window.swap(rank, 9, 1).is_ok(), may);
            }
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
        assert!(error.to_string().contains(" on host host1 died: "), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(world.send(&vec![0_u8; 1 << 20], 1, 0).is_err());
        // The surviving ranks continue.
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
        let Error::Message(MsgError::PeerLeft { rank: 1, .. }) = &error else { panic!("{error}") };
        assert!(error.to_string().starts_with("rank 1 on host host1 has left"), "{error}");
    });
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Direct, Protocol::Fagus, Protocol::Udp];

fn by(protocol: Protocol) -> SharedOptions {
    SharedOptions { protocol: Some(protocol), ..SharedOptions::default() }
}

#[test]
fn shared_variables_span_hosts() {
    for of in SHAPES {
        on_hosts(of, |world, _| {
            const TURNS: u64 = 20;
            let (own, size) = (u64::from(world.rank()), u64::from(world.size()));
            for protocol in PROTOCOLS {
                let name = protocol.to_string();
                let sums = world.shared_with::<u64>(&name, &[20_000], by(protocol)).unwrap();
                for turn in 0..TURNS {
                    let mut sums = sums.write().unwrap();
                    sums.iter_mut().zip(0..).for_each(|(sum, at)| *sum += at ^ own ^ turn);
                }
                world.barrier().unwrap();
                let all = |at: u64| -> u64 {
                    (0..size).flat_map(|rank| (0..TURNS).map(move |turn| at ^ rank ^ turn)).sum()
                };
                let sums = sums.read().unwrap();
                assert!(sums.iter().zip(0..).all(|(sum, at)| *sum == all(at)), "{protocol}");
            }
        });
    }
}

/// Only rank 1 of its host calls the library, and the words of the other ranks change all the same.
#[test]
fn fg_15_an_owner_change_goes_to_another_host_once() {
    let (told, checked) = (Barrier::new(3), Barrier::new(3));
    on_hosts(&[0, 1, 1, 1, 0], |world, _| {
        let make = |name| world.shared_with::<u64>(name, &[10], by(Protocol::Fagus)).unwrap();
        let all = ["a", "b"].map(make);
        // A variable that rank 0 owns because it wrote last, not from the start.
        let words = all.iter().find(|words| words.home() != 0).unwrap();
        let (own, is_told) = (world.rank(), world.rank() % 4 != 0);
        if own == 4 {
            words.write().unwrap().fill(1);
        }
        world.barrier().unwrap();
        if own == 0 {
            words.write().unwrap().fill(2);
            [1, 4].iter().for_each(|to| world.send(&[1_u8], *to, 0).unwrap());
        } else if own == 1 || own == 4 {
            // They serve requests meanwhile.
            world.recv(&mut [0_u8], 0, 0).unwrap();
            while own == 1 && words.owner().unwrap() != 0 {
                world.iprobe(0, 0).unwrap();
            }
        }
        if is_told {
            told.wait();
            let owner = words.owner().unwrap();
            checked.wait();
            assert_eq!(owner, 0, "rank {own} was told");
        }
        world.barrier().unwrap();
        assert_eq!(words.read().unwrap()[..], [2; 10]);
    });
}

#[test]
fn parts_of_a_variable_are_taken_apart_by_hosts() {
    on_hosts(&[0, 1, 0, 1], |world, _| {
        let (own, size) = (world.rank(), world.size());
        for protocol in PROTOCOLS {
            let parts = SharedOptions { parts: Parts::Rows(1), ..by(protocol) };
            let name = protocol.to_string();
            let rows = world.shared_with::<u32>(&name, &[u64::from(size), 100], parts).unwrap();
            for turn in 0..12 {
                let part = (own + turn) % size;
                rows.part(part.into())
                    .unwrap()
                    .write()
                    .unwrap()
                    .iter_mut()
                    .for_each(|value| *value += 1);
            }
            world.barrier().unwrap();
            for part in 0..size {
                let row = rows.part(part.into()).unwrap().read().unwrap();
                assert!(row.iter().all(|value| *value == 12), "{protocol}");
            }
        }
    });
}

#[test]
fn memory_of_a_rank_that_has_left_serves_other_hosts() {
    on_hosts(&[0, 1, 0, 1], |world, _| {
        for protocol in PROTOCOLS {
            // At home at each rank in turn.
            let name = |home: u32| format!("{protocol} {home}");
            let make = |home| world.shared_with::<u64>(&name(home), &[1000], by(protocol)).unwrap();
            let all: Vec<_> = (0..4).map(make).collect();
            for turn in 0..4 {
                let mut words = all[((world.rank() + turn) % 4) as usize].write().unwrap();
                words.iter_mut().for_each(|word| *word += 1);
            }
            world.barrier().unwrap();
            if world.rank() != 3 {
                continue;
            }
            // The others continue with the next protocol, or leave.
            for words in &all {
                (0..50).for_each(|_| words.write().unwrap()[0] += 1);
                assert_eq!(words.read().unwrap()[..2], [54, 4], "{protocol}");
            }
        }
    });
}

#[test]
fn variables_survive_a_death_on_another_host() {
    on_hosts(&[0, 1, 1, 0], |world, jobs| {
        // The homes are all ranks in turn, and a rank of the home's host wrote last: with `direct`
        // the contents are in the memory of the rank that dies.
        let all: Vec<_> = (0..12)
            .map(|number| {
                let protocol = PROTOCOLS[number / 4];
                let options = SharedOptions { recoverable: true, ..by(protocol) };
                world.shared_with::<u64>(&number.to_string(), &[500], options).unwrap()
            })
            .collect();
        for writer in [0, 1, 3, 2] {
            for words in all.iter().filter(|_| world.rank() == writer) {
                words.write().unwrap().iter_mut().for_each(|word| *word += 1);
            }
            world.barrier().unwrap();
        }
        if world.rank() == 1 {
            jobs.iter().for_each(|job| assert!(job.mark_dead(1, DeathCause::Signal(9))));
            let _never_leaves = std::mem::ManuallyDrop::new((world, all));
            return;
        }
        for words in &all {
            for _ in 0..20 {
                words.write().unwrap().iter_mut().for_each(|word| *word += 1);
            }
        }
        // The survivors synchronise without the dead rank.
        for peer in [0, 2, 3].into_iter().filter(|peer| *peer != world.rank()) {
            world.send(&[1_u8], peer, 9).unwrap();
        }
        for peer in [0, 2, 3].into_iter().filter(|peer| *peer != world.rank()) {
            world.recv(&mut [0_u8], peer, 9).unwrap();
        }
        for words in &all {
            assert!(words.read().unwrap().iter().all(|word| *word == 64), "{}", words.protocol());
        }
    });
}

#[test]
fn persistent_exchanges_span_hosts() {
    for of in SHAPES {
        on_hosts(of, |world, _| {
            let (own, size) = (world.rank(), world.size());
            let (left, right) = ((own + size - 1) % size, (own + 1) % size);
            for length in [1, 30_000] {
                let neighbours = Neighbours::even(&[left, right], &[right, left], length);
                let buffer = || world.alloc::<u64>(2 * length).unwrap();
                let mut placed = world.exchange_init(&neighbours, buffer(), buffer()).unwrap();
                let mut staged = world.staged_exchange_init::<u64>(&neighbours).unwrap();
                let mut into = vec![0; 2 * length];
                let value = |rank: u32, round: u64| u64::from(rank) << 32 | round;
                for round in 0..20 {
                    placed.outgoing_mut().unwrap().fill(value(own, round));
                    placed.start().unwrap();
                    staged.start_from(&vec![value(own, round); 2 * length]).unwrap();
                    staged.wait_into(&mut into).unwrap();
                    placed.wait().unwrap();
                    for all in [&into[..], placed.incoming().unwrap()] {
                        let (from_left, from_right) = all.split_at(length);
                        assert!(from_left.iter().all(|word| *word == value(left, round)));
                        assert!(from_right.iter().all(|word| *word == value(right, round)));
                    }
                }
            }
        });
    }
}

/// A letter without room waits at its writer, which need not call the library again once it has
/// waited for the round.
#[test]
fn who_has_waited_for_a_round_has_sent_its_letters() {
    let is_complete = AtomicBool::new(false);
    on_hosts(&[0, 1], |world, _| {
        // A long letter one way, and a short one the other.
        let (own, peer) = (world.rank(), 1 - world.rank());
        let edge = |length| vec![Neighbour { rank: peer, elements: 0..length }];
        let lengths = [1, 30_000];
        let [into, out] = [own, peer].map(|rank| lengths[rank as usize]);
        let neighbours =
            Neighbours { sources: edge(into), destinations: edge(out), ..Neighbours::default() };
        let mut exchange = world.staged_exchange_init::<u64>(&neighbours).unwrap();
        let mut data = vec![0; into];
        exchange.start_from(&vec![7; out]).unwrap();
        exchange.wait_into(&mut data).unwrap();
        assert!(data.iter().all(|word| *word == 7));
        is_complete.fetch_or(own == 1, Ordering::AcqRel);
        let start = Instant::now();
        while !is_complete.load(Ordering::Acquire) {
            assert!(start.elapsed() < PATIENCE, "rank 1 still waits for a part of its letter");
            thread::yield_now();
        }
    });
}

/// A rank to which nothing has arrived for long polls for letters rarely. Its launcher reports a
/// death in between; the last letter of the dead rank must still count.
#[test]
fn letters_that_came_before_a_death_count() {
    // Only one poll in eight is for letters. Repeated, so that no rank polls in time by chance.
    for _ in 0..4 {
        let (is_quiet, is_dead) = (Barrier::new(2), Barrier::new(2));
        on_hosts(&[0, 1], |world, jobs| {
            let peer = 1 - world.rank();
            let neighbours = Neighbours::even(&[peer], &[peer], 4);
            let mut exchange = world.staged_exchange_init::<u64>(&neighbours).unwrap();
            let mut data = vec![1; 4];
            // From the second round on a letter needs no answer.
            for _ in 0..2 {
                exchange.start_from(&data).unwrap();
                exchange.wait_into(&mut data).unwrap();
            }
            if peer == 0 {
                is_quiet.wait();
                exchange.start_from(&[2; 4]).unwrap();
                jobs.iter().for_each(|job| assert!(job.mark_dead(1, DeathCause::Signal(9))));
                is_dead.wait();
                let _never_leaves = std::mem::ManuallyDrop::new((world, exchange));
                return;
            }
            exchange.start_from(&data).unwrap();
            let early = (0..6_000).find(|_| !matches!(exchange.test_into(&mut data), Ok(false)));
            is_quiet.wait();
            is_dead.wait();
            assert_eq!(early, None);
            while !exchange.test_into(&mut data).unwrap() {}
            assert_eq!(data, [2; 4]);
        });
    }
}

#[test]
fn an_exchange_ends_with_a_neighbour_of_another_host() {
    // A rank that has completed a round may still have to send a part of its own letters.
    let is_complete = Barrier::new(3);
    on_hosts(&[0, 1, 0], |world, jobs| {
        let (own, size) = (world.rank(), world.size());
        let (left, right) = ((own + size - 1) % size, (own + 1) % size);
        let neighbours = Neighbours::even(&[left, right], &[right, left], 4);
        let mut exchange = world.staged_exchange_init::<u64>(&neighbours).unwrap();
        let mut data = vec![1; 8];
        exchange.start_from(&data).unwrap();
        let completed = exchange.wait_into(&mut data);
        is_complete.wait();
        completed.unwrap();
        if own == 1 {
            jobs.iter().for_each(|job| assert!(job.mark_dead(1, DeathCause::Signal(9))));
            let _never_leaves = std::mem::ManuallyDrop::new((world, exchange));
            return;
        }
        let waited = exchange.start_from(&data).and_then(|()| exchange.wait_into(&mut data));
        let error = waited.unwrap_err();
        let Error::Message(MsgError::PeerFailed(failure)) = &error else { panic!("{error}") };
        assert_eq!(failure.rank, 1);
    });
}

/// Without progress the sender would wait until the receiver's next call.
#[test]
fn messages_advance_while_a_rank_works_beside() {
    let is_sent = AtomicBool::new(false);
    on_hosts(&[0, 1], |world, _| {
        if world.rank() == 1 {
            world.send(&bytes(8 << 20, 5), 0, 0).unwrap();
            return is_sent.store(true, Ordering::Release);
        }
        let mut into = vec![0; 8 << 20];
        let told = world.scope(|scope| {
            let received = scope.irecv(&mut into, 1, 0)?;
            let told = world.overlap(|| {
                let start = Instant::now();
                while !is_sent.load(Ordering::Acquire) && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
                start.elapsed() < PATIENCE
            });
            received.wait().map(|_| told)
        });
        assert_eq!((told, into == bytes(8 << 20, 5)), (Ok(true), true));
    });
}
