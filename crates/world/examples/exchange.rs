//! What a persistent exchange of two ranks costs, beside requests and beside bare copies.
//!
//! ```text
//!   cargo run --release -p hikyaku-cli -- run -n 2 -- target/release/examples/exchange
//! ```
//!
//! Each rank has the other as both of its neighbours, so a round moves two messages each way.
//! Columns, medians in microseconds:
//!
//! - `bare`: four copies of as many bytes, within one core, of data that another core has written
//! - `requests`, `heap`, `shared`: start and wait of a round, both ranks at the same time, by
//!   isend and irecv, by a staged exchange, and by one of shared buffers
//! - `work`: what both ranks spend in start and wait of a shared round together, when nobody has
//!   to wait for the other: rank 0 starts, then rank 1, then both wait
//! - `wait`: the longer of these two waits

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hikyaku::persistent::{Exchange, Neighbours};
use hikyaku::{Error, World};

const ROUNDS: usize = 4_000;

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn microseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// Four copies of what another core has just written.
fn bare(bytes: usize) -> f64 {
    let (mut from, mut into) = (vec![0_u8; 4 * bytes], vec![0_u8; 4 * bytes]);
    let samples = (0..400).map(|round| {
        let written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                from.fill(round as u8);
                written.store(true, Ordering::Release);
            });
        });
        assert!(written.load(Ordering::Acquire));
        let start = Instant::now();
        for part in 0..4 {
            let at = part * bytes..(part + 1) * bytes;
            into[at.clone()].copy_from_slice(black_box(&from[at]));
        }
        let time = microseconds(start);
        black_box(&into);
        time
    });
    median(samples.collect())
}

fn requests(world: &World, peer: u32, bytes: usize) -> Result<f64, Error> {
    let (mut out, mut into) = (vec![0_u8; 2 * bytes], vec![0_u8; 2 * bytes]);
    let mut samples = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        out.fill(round as u8);
        let start = Instant::now();
        let (one, other) = into.split_at_mut(bytes);
        world.scope(|scope| {
            scope.irecv(one, peer, 1)?;
            scope.irecv(other, peer, 2)?;
            scope.isend(&out[..bytes], peer, 1)?;
            scope.isend(&out[bytes..], peer, 2)?;
            scope.wait_all()
        })?;
        samples.push(microseconds(start));
        black_box(&into);
    }
    Ok(median(samples))
}

fn heap(world: &World, neighbours: &Neighbours, bytes: usize) -> Result<f64, Error> {
    let (mut out, mut into) = (vec![0_u8; 2 * bytes], vec![0_u8; 2 * bytes]);
    let mut exchange = world.staged_exchange_init(neighbours)?;
    let mut samples = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        out.fill(round as u8);
        let start = Instant::now();
        exchange.start_from(&out)?;
        exchange.wait_into(&mut into)?;
        samples.push(microseconds(start));
        black_box(&into);
    }
    Ok(median(samples))
}

fn shared(exchange: &mut Exchange<u8>) -> Result<f64, Error> {
    let mut samples = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        exchange.outgoing_mut()?.fill(round as u8);
        let start = Instant::now();
        exchange.start()?;
        exchange.wait()?;
        samples.push(microseconds(start));
        black_box(exchange.incoming()?);
    }
    Ok(median(samples))
}

/// Start and wait with nothing to wait for: this rank's share of the work, and its wait.
fn work(world: &World, exchange: &mut Exchange<u8>) -> Result<(f64, f64), Error> {
    let (mut works, mut waits) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS / 4 {
        exchange.outgoing_mut()?.fill(round as u8);
        world.barrier()?;
        if world.rank() > 0 {
            world.recv(&mut [0_u8], 0, 3)?;
        }
        let start = Instant::now();
        exchange.start()?;
        let started = microseconds(start);
        if world.rank() == 0 {
            world.send(&[0_u8], 1, 3)?;
        }
        world.barrier()?;
        let start = Instant::now();
        exchange.wait()?;
        let waited = microseconds(start);
        works.push(started + waited);
        waits.push(waited);
        black_box(exchange.incoming()?);
    }
    Ok((median(works), median(waits)))
}

fn main() -> Result<(), Error> {
    let world = World::init().unwrap();
    assert_eq!(world.size(), 2, "this measures two ranks");
    let peer = 1 - world.rank();
    if world.rank() == 0 {
        println!("    bytes     bare requests     heap   shared     work     wait");
    }
    for bytes in [0, 8, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        let mut neighbours = Neighbours::even(&[peer, peer], &[peer, peer], bytes);
        neighbours.scheme = std::env::args().nth(1).map(|scheme| match scheme.as_str() {
            "mrc" => hikyaku::persistent::Scheme::Mrc,
            _ => hikyaku::persistent::Scheme::Fast,
        });
        let bare = if world.rank() == 0 { bare(bytes) } else { 0.0 };
        world.barrier()?;
        let requests = requests(&world, peer, bytes)?;
        let heap = heap(&world, &neighbours, bytes)?;
        let (out, into) = (world.alloc(2 * bytes)?, world.alloc(2 * bytes)?);
        let mut exchange = world.exchange_init(&neighbours, out, into)?;
        let shared = shared(&mut exchange)?;
        let (work, wait) = work(&world, &mut exchange)?;
        let all = world.gather(&[work, wait], 0)?;
        if let Some([work, wait, other_work, other_wait]) = all.as_deref() {
            let (work, wait) = (work + other_work, wait.max(*other_wait));
            println!(
                "{bytes:9} {bare:8.2} {requests:8.2} {heap:8.2} {shared:8.2} {work:8.2} {wait:8.2}"
            );
        }
    }
    Ok(())
}
