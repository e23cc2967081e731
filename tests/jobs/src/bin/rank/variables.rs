//! Shared variables, mostly in virtual time: their costs, the ranks they delay, and their
//! invariants.

use std::time::Duration;

use hikyaku::shared::{Parts, Protocol, SharedOptions};
use hikyaku::{Error, Op, Time, World};
use hikyaku_jobs::Random;

/// Rank 1 acquires 4 KiB that rank 0 has written. Rank 0 waits in a call the first time, and
/// computes for a millisecond the second. Then rank 1 writes on alone and keeps the variable.
/// Prints the times of all this, and of the single steps.
pub(crate) fn hand_over(world: &World) -> Result<(), Error> {
    let shared = world.shared::<u64>("hand-off", &[512])?;
    let window = world.window::<u64>(512)?;
    let mut into = [0; 512];
    world.barrier()?;
    if world.rank() == 1 {
        // Until the barrier's messages have left the interface.
        world.compute(Duration::from_micros(50));
        let timed = |what: &str, act: &mut dyn FnMut() -> Result<(), Error>| {
            let start = world.now();
            act()?;
            say(what, world.now() - start);
            Ok::<(), Error>(())
        };
        timed("atomic", &mut || window.fetch_add(0, 0, 1).map(drop))?;
        timed("own", &mut || window.fetch_add(1, 0, 1).map(drop))?;
        timed("get", &mut || window.get(0, 0, &mut into))?;
    }
    for (what, computing) in [("idle", 0), ("busy", 1_000)] {
        world.barrier()?;
        if world.rank() == 0 {
            shared.write()?.fill(computing);
        }
        world.barrier()?;
        if world.rank() == 0 {
            world.compute(Duration::from_micros(computing));
        } else {
            // Meanwhile rank 0 computes, or waits.
            world.compute(Duration::from_micros(50));
            let start = world.now();
            let guard = shared.write()?;
            say(what, world.now() - start);
            assert!(guard.moved() && guard.iter().all(|value| *value == computing));
        }
        world.barrier()?;
    }
    if world.rank() == 1 {
        for _ in 0..3 {
            shared.write()?;
        }
        let start = world.now();
        drop(shared.write()?);
        say("kept", world.now() - start);
    }
    world.barrier()
}

fn say(what: &str, span: Time) {
    println!("{what} {}", span.picoseconds());
}

/// A queue of work items of different durations, and their results; the sum is the same whichever
/// rank does which item.
pub(crate) fn queue(world: &World) -> Result<(), Error> {
    const ITEMS: u64 = 120;
    let next = world.shared::<u64>("next", &[1])?;
    let options = SharedOptions { parts: Parts::Rows(10), ..SharedOptions::default() };
    let results = world.shared_with::<u64>("results", &[ITEMS, 16], options)?;
    loop {
        let item = {
            let mut guard = next.write()?;
            guard[0] += 1;
            guard[0] - 1
        };
        if item >= ITEMS {
            break;
        }
        world.compute(Duration::from_micros(1 + item % 7));
        let mut rows = results.part(item / 10)?.write()?;
        let row = &mut rows[(item % 10) as usize * 16..][..16];
        assert!(row.iter().all(|value| *value == 0), "item {item} was done before");
        (0..).zip(row).for_each(|(at, value)| *value = item * item + at);
    }
    world.barrier()?;
    if world.rank() == 0 {
        let mut digest = 0u64;
        for part in 0..results.parts() {
            let rows = results.part(part)?.read()?;
            digest = rows.iter().fold(digest, |sum, value| sum.wrapping_mul(31) + value);
        }
        println!("digest {digest}");
    }
    world.barrier()
}

/// Two ranks hold what the other wants.
pub(crate) fn crossed(world: &World) -> Result<(), Error> {
    let both = [world.shared::<u64>("a", &[1])?, world.shared::<u64>("b", &[1])?];
    let own = world.rank() as usize % 2;
    let _held = both[own].write()?;
    world.barrier()?;
    both[1 - own].write().map(drop)
}

/// Rank 0, at the variable's home, acquires and releases without pause. Each other rank writes it a
/// few times and prints how often rank 0 had it meanwhile.
pub(crate) fn hurry(world: &World) -> Result<(), Error> {
    const TIMES: u64 = 5;
    let shared = world.shared::<u64>("hurry", &[2])?;
    let window = world.window::<u64>(1)?;
    world.barrier()?;
    if world.rank() == 0 {
        let all = TIMES * u64::from(world.size() - 1);
        loop {
            let mut guard = shared.write()?;
            if guard[1] == all {
                break;
            }
            guard[0] += 1;
            let count = guard[0];
            drop(guard);
            window.put(0, 0, &[count])?;
        }
        return world.barrier();
    }
    let mut worst = 0;
    for _ in 0..TIMES {
        let mut before = [0];
        window.get(0, 0, &mut before)?;
        let mut guard = shared.write()?;
        guard[1] += 1;
        worst = worst.max(guard[0] - before[0]);
        drop(guard);
        world.compute(Duration::from_micros(50));
    }
    println!("overtaken {worst}");
    world.barrier()
}

/// Rank 0 holds a variable while the ranks behind it cancel, all but the last. The last one prints
/// how long after rank 0's release it acquired the variable.
pub(crate) fn abandoned(world: &World) -> Result<(), Error> {
    let shared = world.shared::<u64>("abandoned", &[1])?;
    let (rank, last) = (world.rank(), world.size() - 1);
    for round in 0..4u64 {
        world.barrier()?;
        if rank == 0 {
            let mut guard = shared.write()?;
            (1..=last).try_for_each(|other| world.send(&[round], other, 1))?;
            for other in 1..last {
                world.recv(&mut [0u64], other, 2)?;
            }
            // By then waiting ranks are asleep, and polled last long ago.
            world.compute(Duration::from_micros(7_300));
            guard[0] = world.now().picoseconds();
        } else {
            world.recv(&mut [0u64], 0, 1)?;
            // One after the other, so that the last rank is last in the queue.
            world.compute(Duration::from_micros(100 * u64::from(rank)));
            if rank < last {
                let limit = Duration::from_micros(500 + 1_000 * (round % 2));
                assert!(shared.write_within(limit)?.is_none(), "rank 0 has it");
                world.send(&[round], 0, 2)?;
            } else {
                let guard = shared.write()?;
                println!("after {}", world.now().picoseconds() - guard[0]);
            }
        }
    }
    world.barrier()
}

/// Whether a rank wrote or read, which variable, and from when to when.
type Stay = [u64; 4];

/// Ranks acquire variables after random delays and keep them for random times. Contents are whole
/// and the newest, every request is answered, and in virtual time no rank is beside a writer
/// (FG-09 to FG-11, FG-20).
pub(crate) fn random(world: &World, seed: u64) -> Result<(), Error> {
    const VARIABLES: usize = 3;
    const ROUNDS: usize = 12;
    let mut random = Random::new(seed << 16 | u64::from(world.rank()));
    let names = ["a", "b", "c"];
    let all: Vec<_> =
        names.iter().map(|name| world.shared::<u64>(name, &[100])).collect::<Result<_, _>>()?;
    let pause = |random: &mut Random| {
        world.compute(Duration::from_nanos(random.below(20_000) as u64));
        world.now().picoseconds()
    };
    let mut stays: Vec<Stay> = Vec::new();
    let mut seen = [0; VARIABLES];
    for _ in 0..ROUNDS {
        pause(&mut random);
        let at = random.below(VARIABLES);
        let (shared, seen) = (&all[at], &mut seen[at]);
        let writes = random.below(2) as u64;
        if writes == 1 {
            let mut guard = shared.write()?;
            let begin = world.now().picoseconds();
            let found = guard[0];
            assert!(found >= *seen && guard.iter().all(|value| *value == found), "old or torn");
            let end = pause(&mut random);
            assert!(guard.iter().all(|value| *value == found), "another writes too");
            guard.fill(found + 1);
            *seen = found + 1;
            stays.push([at as u64, writes, begin, end]);
        } else {
            let guard = shared.read()?;
            let begin = world.now().picoseconds();
            let found = guard[0];
            assert!(found >= *seen, "old");
            let end = pause(&mut random);
            assert!(guard.iter().all(|value| *value == found), "another writes meanwhile");
            *seen = found;
            stays.push([at as u64, writes, begin, end]);
        }
    }
    let mut written = [0u64; VARIABLES];
    stays.iter().for_each(|stay| written[stay[0] as usize] += stay[1]);
    world.allreduce(&mut written, Op::Sum)?;
    for (shared, written) in all.iter().zip(written) {
        assert_eq!(shared.read()?[99], written);
    }
    if world.rank() > 0 {
        return world.send(stays.as_flattened(), 0, 1);
    }
    for from in 1..world.size() {
        let mut theirs = [[0; 4]; ROUNDS];
        world.recv(theirs.as_flattened_mut(), from, 1)?;
        stays.extend(theirs);
    }
    nobody_is_beside_a_writer(stays);
    println!("every property held of seed {seed}");
    Ok(())
}

fn nobody_is_beside_a_writer(mut stays: Vec<Stay>) {
    stays.sort_by_key(|stay| stay[2]);
    for (at, first) in stays.iter().enumerate() {
        for second in &stays[at + 1..] {
            let apart = second[2] >= first[3] || second[0] != first[0];
            assert!(apart || first[1] + second[1] == 0, "{first:?} beside {second:?}");
        }
    }
}

/// Paper 001's program (Fig. 8) with a protocol, on `count` rows of `bytes` bytes. Prints how many
/// bytes of rows have moved.
pub(crate) fn rows(world: &World, protocol: &str, [bytes, count]: [u64; 2]) -> Result<(), Error> {
    const ROUNDS: u64 = 5;
    let protocol = Protocol::ALL.into_iter().find(|it| it.name() == protocol);
    let options = SharedOptions { parts: Parts::Rows(1), protocol, ..SharedOptions::default() };
    let matrix = world.shared_with::<f64>("rows", &[count, bytes / 8], options)?;
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    for round in 0..ROUNDS {
        for row in (0..count).filter(|row| (row + round) % size == rank) {
            let mut guard = matrix.part(row)?.write()?;
            assert!(guard.iter().all(|value| *value == round as f64));
            guard.fill((round + 1) as f64);
        }
        world.barrier()?;
    }
    let mut moved = [matrix.moved().0];
    world.allreduce(&mut moved, Op::Sum)?;
    if rank == 0 {
        println!("{}", moved[0]);
    }
    Ok(())
}
