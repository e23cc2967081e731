//! The cost of a large message by each of three ways, between two pinned processes: the numbers
//! behind the size from which kernel copies are used.
//!
//! ```text
//!   ring     packets through the landing ring: two copies, which overlap
//!   kernel   the receiver reads the sender's heap: one copy, made by the kernel
//!   region   the receiver reads a shared buffer: one copy
//! ```
//!
//! The sender writes the message again before each round, outside the measured time. A round lasts
//! from the first post to the receiver's one-line reply. Medians of 201 rounds; the ways take
//! turns, so that a noisy moment affects all of them.
//!
//! `cargo run --release -p hikyaku-shm --example copies`

use std::error::Error;
use std::process::{Child, Command as Program};
use std::time::{Duration, Instant};

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, INLINE_BYTES, Inline, Landed, Landing, MemoryPort, Port, PostError,
    RemoteAddress, Space,
};
use hikyaku_shm::{Job, JobConfig, ShmPort, attach};
use rustix::thread::{CpuSet, sched_setaffinity};

type Outcome<T> = Result<T, Box<dyn Error>>;

const LARGEST: usize = 4 << 20;
const ROUNDS: usize = 201;
const WAYS: [u8; 3] = [RING, KERNEL, REGION];
const RING: u8 = 0;
const KERNEL: u8 = 1;
const REGION: u8 = 2;
const END: u8 = 3;

fn main() -> Outcome<()> {
    match attach()? {
        Some(port) if port.rank() == 0 => measure(port),
        Some(port) => serve(port),
        None => launch(),
    }
}

fn launch() -> Outcome<()> {
    let job = Job::create(&JobConfig::new(2, 2))?;
    let start = |rank| -> Outcome<Child> {
        let mut program = Program::new(std::env::current_exe()?);
        Ok(program.envs(job.environment(rank)).spawn()?)
    };
    let mut children = [start(0)?, start(1)?];
    for child in &mut children {
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("a rank failed: {status}").into());
        }
    }
    Ok(())
}

fn pin(rank: u32) -> Outcome<()> {
    let mut cpus = CpuSet::new();
    cpus.set(rank as usize);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// The sender: fills, offers, waits for the reply.
fn measure(mut port: ShmPort) -> Outcome<()> {
    pin(0)?;
    let mut heap = vec![0; LARGEST];
    let mut shared = port.allocate(LARGEST)?;
    println!(
        "{:>9}  {:>10} {:>10} {:>10}   µs, median of {ROUNDS}",
        "bytes", "ring", "kernel", "region"
    );
    for size in (12..=22).map(|power| 1 << power) {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..ROUNDS {
            for way in WAYS {
                let buffer = if way == REGION { &mut shared[..size] } else { &mut heap[..size] };
                buffer.fill(round as u8);
                times[usize::from(way)].push(one_round(&mut port, way, buffer)?);
            }
        }
        let medians = times.map(median);
        let [ring, kernel, region] = medians.map(|time| time.as_nanos() as f64 * 1e-3);
        println!("{size:>9}  {ring:>10.2} {kernel:>10.2} {region:>10.2}");
    }
    post(&mut port, 1, END, &[])
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn one_round(port: &mut ShmPort, way: u8, buffer: &[u8]) -> Outcome<Duration> {
    let start = Instant::now();
    if way == RING {
        post(port, 1, RING, buffer)?;
    } else {
        let (space, offset) = match port.expose(buffer) {
            Some(address) if way == REGION => (Space::Region, address.offset),
            _ => (Space::Process, buffer.as_ptr().expose_provenance() as u64),
        };
        debug_assert_eq!(space == Space::Region, way == REGION);
        let mut offer = [0; 16];
        offer[..8].copy_from_slice(&offset.to_ne_bytes());
        offer[8..].copy_from_slice(&buffer.len().to_ne_bytes());
        post(port, 1, way, &offer)?;
    }
    let Landed { header, .. } = next(port)?;
    if header != u64::from(buffer[0]) {
        return Err("the receiver has other bytes than were sent".into());
    }
    Ok(start.elapsed())
}

/// The receiver: takes each message by its way and replies with its last byte.
fn serve(mut port: ShmPort) -> Outcome<()> {
    pin(1)?;
    let mut target = vec![0; LARGEST];
    loop {
        let landed = next(&mut port)?;
        let length = match (landed.protocol, landed.data) {
            (END, _) => return Ok(()),
            (RING, Landing::Ring(slice)) => {
                let mut done = port.read_out(slice, &mut target);
                while done < landed.total as usize {
                    let Landed { data: Landing::Ring(slice), .. } = next(&mut port)? else {
                        return Err("a part without payload".into());
                    };
                    done += port.read_out(slice, &mut target[done..]);
                }
                done
            }
            (way, Landing::Inline(offer)) => take(&mut port, way, &offer, &mut target)?,
            _ => return Err("an offer that is none".into()),
        };
        let answer = Command::send(0, 0, u64::from(target[length - 1]), &[]);
        port.post(&answer)?;
    }
}

fn take(port: &mut ShmPort, way: u8, offer: &Inline, target: &mut [u8]) -> Outcome<usize> {
    let mut bytes = [0; INLINE_BYTES];
    offer.copy_to(&mut bytes);
    let offset = u64::from_ne_bytes(bytes[..8].try_into()?);
    let length = usize::from_ne_bytes(bytes[8..16].try_into()?);
    let space = if way == REGION { Space::Region } else { Space::Process };
    port.read(RemoteAddress { rank: 0, space, offset }, &mut target[..length])?;
    Ok(length)
}

/// Posts all of a message, in as many parts as the rings make of it.
fn post(port: &mut ShmPort, to: u32, protocol: u8, payload: &[u8]) -> Outcome<()> {
    let mut done = 0;
    while done < payload.len().max(1) {
        let whole = Command::send(to, protocol, 0, &payload[done..]);
        let part = Command { total: payload.len() as u64, offset: done as u64, ..whole };
        match port.post(&part) {
            Ok(taken) => done += taken.max(1),
            Err(PostError::Full { .. }) => _ = port.park(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn next(port: &mut ShmPort) -> Outcome<Landed> {
    loop {
        match port.poll() {
            Some(Event::Landed(landed)) => return Ok(landed),
            Some(Event::RingFull(_) | Event::StatusFull) => {}
            Some(event) => return Err(format!("unexpected: {event:?}").into()),
            None => _ = port.park(None),
        }
    }
}
