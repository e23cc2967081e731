//! The mapping of sources to rank 0's rings, while the others send: set by rank 0, or by the
//! library.

use hikyaku::{ANY_SOURCE, Error, Granularity, Window, World};
use hikyaku_jobs::Random;
use hikyaku_jobs::pattern::{check, fill, key};

/// Messages of each source: inline ones, of one packet, of several, and beyond the eager limit.
const COUNT: u64 = 300;
const LONGEST: usize = 100_000;

fn length(source: u32, number: u64) -> usize {
    let drawn = key(4, &[source.into(), number]) as usize;
    match number % 50 {
        0 => LONGEST,
        1..25 => drawn % 64,
        _ => drawn % 20_000,
    }
}

/// The program that these words name.
pub(crate) fn run(world: &World, words: &[String]) -> Result<(), Error> {
    match words[0].as_str() {
        "landing-moves" => moves(world, super::number(words.get(1))),
        "landing-follows" => follows(world),
        "landing-past" => past_a_flood(world),
        "landing-chosen" => chosen(world),
        "landing-quarters" => quarters(world),
        other => panic!("there is no program {other}"),
    }
}

/// Draws redirections by this seed, one before each message that it receives.
fn moves(world: &World, seed: u64) -> Result<(), Error> {
    let (own, mut data) = (world.rank(), vec![0; LONGEST]);
    if own != 0 {
        for number in 0..COUNT {
            let data = &mut data[..length(own, number)];
            fill(key(seed, &[own.into(), number]), data);
            world.send(data, 0, 1)?;
        }
        return world.barrier();
    }
    let (landing, mut random) = (world.landing(), Random::new(seed));
    let mut next = vec![0; world.size() as usize];
    let mut given = 0;
    for _ in 0..COUNT * u64::from(world.size() - 1) {
        let [source, other] =
            [0; 2].map(|_| 1 + (random.draw() % u64::from(world.size() - 1)) as u32);
        match random.draw() % 4 {
            // Near the end some sources are gone, and have sent everything.
            0 => _ = landing.share(source)?,
            1 => {
                landing.give(source)?;
                given += 1;
            }
            2 if source != other => {
                let ring = landing.give(other)?;
                landing.share(other)?;
                // A source may be in the middle of a post to its previous ring.
                while let Err(error) = landing.route(source, ring) {
                    if !error.to_string().ends_with("try again") {
                        return Err(error);
                    }
                    std::thread::yield_now();
                }
                assert_eq!(landing.ring_of(source)?, Some(ring));
                given += 2;
            }
            _ => {}
        }
        let received = world.recv(&mut data, ANY_SOURCE, 1)?;
        let number = &mut next[received.source as usize];
        let bytes = &data[..received.bytes as usize];
        assert_eq!(bytes.len(), length(received.source, *number));
        check(key(seed, &[received.source.into(), *number]), bytes);
        *number += 1;
    }
    assert!(given > COUNT, "{given} moves to a private ring");
    world.barrier()
}

/// Most messages of each round are from rank 1, and later from rank 2. Rank 0 then finds them in
/// rings of their own, and all others in shared ones, unless senders keep their rings.
fn follows(world: &World) -> Result<(), Error> {
    const ROUNDS: u64 = 80;
    let (own, mut data) = (world.rank(), [0; 1000]);
    let stays = std::env::var_os("HIKYAKU_JOBS_KEEP_RINGS").is_some();
    for frequent in [1, 2] {
        // Others are far below the one in 32 that makes a source frequent: counts lag.
        let times = |source: u32| if source == frequent { 96 } else { 1 };
        for number in 0..ROUNDS {
            for source in 1..world.size() {
                let key = key(number, &[source.into()]);
                for _ in 0..times(source) {
                    match own {
                        0 => {
                            world.recv(&mut data, source, 1)?;
                            check(key, &data);
                        }
                        _ if own == source => {
                            fill(key, &mut data);
                            world.send(&data, 0, 1)?;
                        }
                        _ => {}
                    }
                }
            }
        }
        let rings = world.landing().rings();
        let shared = rings.iter().filter(|ring| ring.shared).count();
        let private = rings.into_iter().filter(|ring| !ring.shared);
        let given: Vec<u32> = private.flat_map(|ring| ring.sources).collect();
        let expected = if stays || own > 0 { 0 } else { frequent };
        assert_eq!(given, (1..=expected).collect::<Vec<_>>(), "beside {shared} shared ones");
        world.barrier()?;
    }
    Ok(())
}

/// Rank 1 floods rank 0, which then learns of it from rank 2: by a message that fits only into a
/// ring of its own, which rank 2 gets.
fn past_a_flood(world: &World) -> Result<(), Error> {
    const LENGTH: usize = 4096;
    let window = world.window::<u64>(1)?;
    let mut data = vec![0; LENGTH];
    match world.rank() {
        0 => {
            // Nothing is received until then: windows are memory.
            window.wait(0, 2, |value| value == 1)?;
            let (landing, full) = (world.landing(), world.landing().ring(0));
            let full = full.filter(|ring| ring.held + LENGTH as u64 > ring.bytes);
            assert!(full.is_some(), "{:?}", landing.ring(0));
            let ring = landing.give(2)?;
            world.recv(&mut data, 2, 1)?;
            check(2, &data);
            let ring = landing.ring(ring).unwrap();
            assert_eq!((ring.landed, ring.held), (LENGTH as u64, 0));
            assert_eq!(landing.ring(0).map(|ring| ring.landed), full.map(|ring| ring.landed));
            for number in 0..FLOOD {
                world.recv(&mut data, 1, 1)?;
                check(1000 + number, &data);
            }
        }
        1 => {
            let mut all = vec![vec![0; LENGTH]; FLOOD as usize];
            (1000..).zip(&mut all).for_each(|(number, data)| fill(number, data));
            world.scope(|scope| {
                for data in &all {
                    let _ends_with_the_scope = scope.isend(data, 0, 1)?;
                }
                assert!(world.statistics().held_up > 0);
                window.put(2, 0, &[1])?;
                scope.wait_all()
            })?;
        }
        _ => {
            window.wait(0, 1, |value| value == 1)?;
            fill(2, &mut data);
            world.scope(|scope| {
                let message = scope.isend(&data, 0, 1)?;
                let is_held_up = world.statistics().held_up > 0;
                // In virtual time the message waits at its destination.
                assert!(is_held_up || world.capabilities().virtual_time, "the ring is full");
                window.put(0, 0, &[1])?;
                message.wait()
            })?;
        }
    }
    world.barrier()
}

/// The senders' choices: rank 3 sends a message of four packets with one record, so that it lands
/// whole or not at all; rank 4 names another ring than rank 0's table.
fn chosen(world: &World) -> Result<(), Error> {
    const PACKET: usize = 4096;
    let window = world.window::<u64>(2)?;
    if world.rank() == 0 {
        world.landing().give(3)?;
    }
    for (round, choice) in
        (1..).zip([Granularity::PerPacket, Granularity::PerMessage, Granularity::PerPacket])
    {
        world.barrier()?;
        whole_or_in_parts(world, &window, (round, choice))?;
    }
    let landed = |ring| world.landing().ring(ring).map_or(0, |ring| ring.landed);
    let before = landed(0);
    world.barrier()?;
    let mut data = vec![0; PACKET];
    match world.rank() {
        0 => {
            window.wait(0, 4, |value| value == 1)?;
            assert_eq!(landed(1), PACKET as u64, "it is there, past the flood");
            world.recv(&mut data, 4, 1)?;
            check(4, &data);
            for number in 0..FLOOD {
                world.recv(&mut data, 2, 1)?;
                check(number, &data);
            }
            world.recv(&mut data, 4, 1)?;
            check(5, &data);
            let by_the_table = (FLOOD + 1) * PACKET as u64;
            assert_eq!([landed(0) - before, landed(1)], [by_the_table, PACKET as u64]);
        }
        2 => {
            let mut all = vec![vec![0; PACKET]; FLOOD as usize];
            (0..).zip(&mut all).for_each(|(number, data)| fill(number, data));
            world.scope(|scope| {
                for data in &all {
                    let _ends_with_the_scope = scope.isend(data, 0, 1)?;
                }
                window.put(4, 0, &[1])?;
                scope.wait_all()
            })?;
        }
        4 => {
            window.wait(0, 2, |value| value == 1)?;
            fill(4, &mut data);
            world.landing().name_ring(0, Some(1))?;
            world.send(&data, 0, 1)?;
            window.put(0, 0, &[1])?;
            world.landing().name_ring(0, None)?;
            fill(5, &mut data);
            world.send(&data, 0, 1)?;
        }
        _ => {}
    }
    world.barrier()
}

/// Messages of a flood, more than a ring holds.
const FLOOD: u64 = 100;

/// Rank 1 sends without pause, up to three quarters of a ring ahead of rank 0's reads. Rank 0
/// receives only when a quarter of its ring is full, and reads each quarter before the ring
/// overflows: nothing ever stalls.
fn quarters(world: &World) -> Result<(), Error> {
    const PACKET: u64 = 4096;
    const QUARTERS: u64 = 64;
    let window = world.window::<u64>(1)?;
    let mut data = vec![0; PACKET as usize];
    let messages = |ring: u64| ring / 4 / PACKET;
    if world.rank() == 1 {
        // All ranks have rings of the same size.
        let count = messages(world.landing().ring(0).unwrap().bytes);
        for quarter in 0..QUARTERS {
            window.wait(0, 0, |taken| taken + 3 > quarter)?;
            for number in 0..count {
                fill(quarter * count + number, &mut data);
                world.send(&data, 0, 1)?;
            }
            window.put(0, 0, &[quarter + 1])?;
        }
        return world.barrier();
    }
    let number = world.landing().ring_of(1)?.unwrap();
    let ring = || world.landing().ring(number).unwrap();
    let count = messages(ring().bytes);
    for quarter in 0..QUARTERS {
        let found = loop {
            let has_sent = window.local()?[0] > quarter;
            let found = ring();
            if found.held >= found.bytes / 4 {
                break found;
            }
            assert!(!has_sent, "a quarter has landed and does not show: {found:?}");
            std::thread::yield_now();
        };
        assert!(found.held < found.bytes && found.stalls == 0, "{found:?}");
        for number in 0..count {
            world.recv(&mut data, 1, 1)?;
            check(quarter * count + number, &data);
        }
        window.put(1, 0, &[quarter + 1])?;
    }
    assert_eq!(ring().held, 0);
    world.barrier()
}

/// Rank 3 leaves room for two packets in its ring at rank 0, and then sends four in a message.
fn whole_or_in_parts(
    world: &World,
    window: &Window<'_, u64>,
    (round, choice): (u64, Granularity),
) -> Result<(), Error> {
    const PACKET: usize = 4096;
    let mut long = vec![0; 4 * PACKET];
    if world.rank() == 0 {
        let number = world.landing().ring_of(3)?.unwrap();
        window.wait(1, 3, |value| value == round)?;
        let fits = if choice == Granularity::PerMessage { 2 * PACKET as u64 } else { 0 };
        // Injected faults delay packets: they may land after the word.
        let ring = loop {
            let ring = world.landing().ring(number).unwrap();
            if ring.held + fits >= ring.bytes {
                break ring;
            }
            window.local()?;
            std::thread::yield_now();
        };
        assert_eq!(ring.held + fits, ring.bytes, "{choice:?}");
        for _ in 2..ring.bytes / PACKET as u64 {
            world.recv(&mut long[..PACKET], 3, 2)?;
            check(round, &long[..PACKET]);
        }
        world.recv(&mut long, 3, 3)?;
        check(round, &long);
    } else if world.rank() == 3 {
        world.landing().set_granularity(0, choice)?;
        // All ranks have rings of the same size.
        let bytes = world.landing().ring(0).unwrap().bytes;
        let mut short = vec![0; PACKET];
        fill(round, &mut short);
        fill(round, &mut long);
        for _ in 2..bytes / PACKET as u64 {
            world.send(&short, 0, 2)?;
        }
        world.scope(|scope| {
            let message = scope.isend(&long, 0, 3)?;
            window.put(0, 1, &[round])?;
            message.wait()
        })?;
    }
    Ok(())
}
