//! A sender that is faster than its receiver: it is slowed down, memory stays constant and nothing
//! is lost.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use hikyaku::{Error, World};
use hikyaku_jobs::pattern::{check, fill, key};
use hikyaku_jobs::process::own_memory;
use hikyaku_nic::fabric::FullPolicy;

/// The most memory that a rank may ever have resident, bytes, including its program and everything
/// it shares with others. The messages of a flood are many times that.
const MOST: u64 = 32 << 20;

/// How long the receiver does other work before it polls.
const BUSY: Duration = Duration::from_millis(300);

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

fn check_memory(world: &World) {
    let (most, now) = (own_memory("VmHWM"), own_memory("VmRSS"));
    assert!(most <= MOST, "rank {} had {most} bytes resident, now {now}", world.rank());
    assert!(own_memory("RssShmem") <= MOST);
}

/// The program that these words name.
pub(crate) fn run(world: &World, words: &[String]) -> Result<(), Error> {
    let number = |at| super::number(words.get(at));
    match words[0].as_str() {
        "flood" => of_count(world, number(1), number(2) as usize),
        "flood-beside" => beside(world),
        "flood-ahead" => ahead(world),
        "flood-behind" => behind(world),
        "flood-past" => past(world),
        "flood-before" => before(world),
        other => panic!("there is no program {other}"),
    }
}

/// Rank 1 sends `count` messages of `length` bytes to rank 0, which computes first.
fn of_count(world: &World, count: u64, length: usize) -> Result<(), Error> {
    let mut data = vec![0; length];
    if world.rank() == 1 {
        let start = Instant::now();
        for number in 0..count {
            fill(number, &mut data);
            world.send(&data, 0, 1)?;
        }
        assert!(world.statistics().held_up > 0, "the sender was never slowed down");
        let refuses = length > 1000 && hikyaku_jobs::when_full() == FullPolicy::Refuse;
        // Injected faults cause refusals as well.
        let are_injected = std::env::var_os("HIKYAKU_FAULTS").is_some();
        let was_refused = world.statistics().refused > 0;
        assert!(are_injected || was_refused == refuses, "{:?}", world.statistics());
        assert!(start.elapsed() >= BUSY / 2, "all was sent while nobody received");
    } else if world.rank() == 0 {
        compute(BUSY);
        for number in 0..count {
            assert_eq!(world.recv(&mut data, 1, 1)?.bytes, length as u64);
            check(number, &data);
            // Sometimes it computes again.
            if number % (count / 4) == 0 {
                compute(BUSY / 10);
            }
        }
        let (high, window) = (world.statistics().unexpected_messages_high, 256);
        assert!(high <= window, "{high} messages waited unmatched, credit is for {window}");
    }
    check_memory(world);
    Ok(())
}

/// In virtual time: rank 1 sends more than rank 0's rings hold, while rank 0 computes.
fn behind(world: &World) -> Result<(), Error> {
    const MESSAGES: u64 = 600;
    let mut data = vec![0; 4096];
    if world.rank() == 0 {
        // Longer than the slowest machine takes for all messages.
        world.compute(Duration::from_millis(500));
    }
    for number in 0..MESSAGES {
        if world.rank() == 1 {
            fill(number, &mut data);
            world.send(&data, 0, 1)?;
        } else {
            world.recv(&mut data, 1, 1)?;
            check(number, &data);
        }
    }
    Ok(())
}

const MANY: u64 = 100_000;

/// Rank 0 waits for rank 2 while rank 1 floods it with unwanted messages: the flood is held back,
/// and the wanted message arrives.
fn beside(world: &World) -> Result<(), Error> {
    let mut data = [0; 1000];
    match world.rank() {
        0 => {
            world.recv(&mut data, 2, 2)?;
            for number in 0..MANY {
                world.recv(&mut data, 1, 1)?;
                check(number, &data);
            }
        }
        1 => {
            for number in 0..MANY {
                fill(number, &mut data);
                world.send(&data, 0, 1)?;
            }
        }
        _ => {
            compute(BUSY);
            world.send(&data, 0, 2)?;
        }
    }
    check_memory(world);
    Ok(())
}

/// Far more unmatched messages than the credit allows, before the wanted one: it must be reached,
/// so these are moved to ordinary memory, and in the end none of them is left.
fn before(world: &World) -> Result<(), Error> {
    let lengths = [0, 30, 2_000, 50_000, 100_000];
    let count = 3_000u64;
    let length = |number: u64| lengths[number as usize % lengths.len()];
    let named = |number| key(9, &[number]);
    let mut data = vec![0; 100_000];
    if world.rank() == 1 {
        let long: Vec<Vec<u8>> =
            (0..count).filter(|n| length(*n) == 100_000).map(|_| vec![0; 100_000]).collect();
        let mut long = long.into_iter();
        let mut held = Vec::new();
        for number in (0..count).filter(|number| length(*number) == 100_000) {
            let mut bytes = long.next().unwrap();
            fill(named(number), &mut bytes);
            held.push(bytes);
        }
        let mut held = held.iter();
        return world.scope(|scope| {
            for number in 0..count {
                if length(number) == 100_000 {
                    // This message waits for its match: only the announcement is sent.
                    scope.isend(held.next().unwrap(), 0, 1)?;
                    continue;
                }
                fill(named(number), &mut data);
                world.send(&data[..length(number)], 0, 1)?;
            }
            world.send(&[1u8], 0, 2)?;
            scope.wait_all()
        });
    }
    world.recv(&mut data, 1, 2)?;
    assert_eq!(world.statistics().unexpected_messages, count);
    for number in 0..count {
        let received = world.recv(&mut data, 1, 1)?;
        assert_eq!(received.bytes, length(number) as u64);
        check(named(number), &data[..length(number)]);
    }
    let left = world.statistics();
    assert_eq!((left.unexpected_messages, left.unexpected_bytes), (0, 0));
    assert!(left.evacuations > 0);
    Ok(())
}

/// Rank 0 starts more messages than rank 1 has room for. Rank 1 takes none of them before an atomic
/// operation of rank 0 has arrived, and before rank 0 has received a long message of rank 1, for
/// which it has to ask. Neither needs room, so neither waits behind the messages.
fn past(world: &World) -> Result<(), Error> {
    const COUNT: usize = 200;
    let window = world.window::<u64>(1)?;
    let mut sent = vec![[0; 1000]; COUNT];
    (0..).zip(&mut sent).for_each(|(number, data)| fill(number, data));
    let (long, mut heard) = (vec![5u8; 300_000], vec![0u8; 300_000]);
    match world.rank() {
        0 => world.scope(|scope| {
            let receive = scope.irecv(&mut heard, 1, 2)?;
            for data in &sent {
                let _ends_with_the_scope = scope.isend(data, 1, 1)?;
            }
            window.fetch_add(1, 0, 1)?;
            receive.wait()?;
            Ok(())
        })?,
        1 => {
            window.wait(0, 0, |value| value == 1)?;
            world.ssend(&long, 0, 2)?;
            let mut data = [0; 1000];
            for number in 0..COUNT as u64 {
                world.recv(&mut data, 0, 1)?;
                check(number, &data);
            }
        }
        _ => {}
    }
    assert!(world.rank() != 0 || heard == long);
    world.barrier()
}

/// Rank 1 starts more messages than its credit allows, all at once, and then the one that rank 0
/// waits for first: it arrives, although sent messages land long after the sender was held up.
fn ahead(world: &World) -> Result<(), Error> {
    const COUNT: usize = 300;
    match world.rank() {
        1 => world.scope(|scope| {
            for _ in 0..COUNT {
                let _ends_with_the_scope = scope.isend::<u8>(&[], 0, 1)?;
            }
            scope.isend(&[7u8], 0, 2)?.wait()?;
            Ok(())
        })?,
        0 => {
            let mut heard = [0u8];
            world.recv(&mut heard, 1, 2)?;
            assert_eq!(heard, [7]);
            (0..COUNT).try_for_each(|_| world.recv::<u8>(&mut [], 1, 1).map(drop))?;
        }
        _ => {}
    }
    world.barrier()
}
