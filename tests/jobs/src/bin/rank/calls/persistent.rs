//! Persistent exchanges: any graph, both kinds of buffers, both schemes, and every mistake.

use std::hint::black_box;

use hikyaku::persistent::{Exchange, Neighbour, Neighbours, PersistentError, Scheme};
use hikyaku::{Error, World};
use hikyaku_jobs::Random;
use hikyaku_jobs::edges::{self, Edge, Either, KINDS, own_edges};

use super::around;

/// `rounds` rounds along the edges of a graph, in which every rank starts when it likes.
fn rounds(
    world: &World,
    edges: &[Edge],
    (scheme, staged): (Option<Scheme>, bool),
    rounds: u32,
    random: &mut Random,
) -> Result<(), Error> {
    let mut own = own_edges(world, edges);
    own.neighbours.scheme = scheme;
    let mut exchange = Either::new(world, &own.neighbours, staged)?;
    let messages = world.statistics().messages_sent;
    edges::rounds(&mut exchange, &own, rounds, random)?;
    // TF-06: addresses are exchanged at creation; no message since, unless messages carry the data.
    let sent = world.statistics().messages_sent - messages;
    let wished = scheme == Some(Scheme::Messages) && edges.iter().any(|edge| edge.2 > 0);
    assert_eq!(exchange.is_by_messages(), wished);
    let to = |edge: &&Edge| edge.0 == world.rank() && edge.2 > 0;
    assert_eq!(sent > 0, wished && edges.iter().any(|edge| to(&edge)));
    Ok(())
}

/// TF-06, TF-08, TF-09, TF-14: both neighbours of a ring, of every size from nothing on.
pub(super) fn tf_06_tf_08_tf_09_tf_14_both_neighbours_of_a_ring(
    world: &World,
    seed: u64,
) -> Result<(), Error> {
    let mut random = Random::new(seed ^ u64::from(world.rank()));
    let size = world.size();
    for kind in KINDS {
        for length in [0, 1, 2, 33, 700, 5_000] {
            let both =
                |rank| [(rank, (rank + 1) % size, length), ((rank + 1) % size, rank, length)];
            let edges: Vec<Edge> = (0..size).flat_map(both).collect();
            rounds(world, &edges, kind, 12, &mut random)?;
        }
    }
    Ok(())
}

/// TF-11, TF-13: random digraphs with multi-edges, self loops, isolated ranks, and ranks that only
/// send or only receive; each rank chooses its scheme for itself.
pub(super) fn tf_06_tf_11_tf_13_random_graphs(world: &World, seed: u64) -> Result<(), Error> {
    let mut shared = Random::new(seed);
    let mut own = Random::new(seed ^ (u64::from(world.rank()) << 32));
    for _ in 0..6 {
        let size = world.size() as usize;
        let count = shared.below(3 * size + 1);
        let edges: Vec<Edge> = (0..count)
            .map(|_| {
                let (from, to) = (shared.below(size) as u32, shared.below(size) as u32);
                (from, to, shared.below(4) * shared.below(400))
            })
            .collect();
        let schemes = [None, Some(Scheme::Fast), Some(Scheme::Mrc), Some(Scheme::Combined)];
        let staged = shared.below(2) == 0;
        rounds(world, &edges, (schemes[own.below(4)], staged), 40, &mut own)?;
        rounds(world, &edges, (schemes[3], !staged), 40, &mut own)?;
    }
    Ok(())
}

/// TF-11: every rank exchanges with every rank, itself included, on edges of different sizes, some
/// empty (TF-14): traffic between nodes is combined if a node has several ranks.
pub(super) fn tf_06_tf_11_tf_14_all_are_neighbours(world: &World, seed: u64) -> Result<(), Error> {
    let mut shared = Random::new(seed ^ 0xa11);
    let mut own = Random::new(seed ^ (u64::from(world.rank()) << 32));
    let size = world.size();
    let pairs = (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
    let length = |(from, to)| (from, to, shared.below(3) * shared.below(200));
    let edges: Vec<Edge> = pairs.map(length).collect();
    for staged in [false, true] {
        rounds(world, &edges, (Some(Scheme::Combined), staged), 60, &mut own)?;
    }
    Ok(())
}

/// TF-11: a thousand rounds with jitter.
pub(super) fn tf_11_tf_15_many_rounds_with_jitter(world: &World, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed ^ u64::from(world.rank()));
    let size = world.size();
    let both = |rank| [(rank, (rank + 1) % size, 20), ((rank + 1) % size, rank, 20)];
    let edges: Vec<Edge> = (0..size).flat_map(both).collect();
    for kind in KINDS {
        rounds(world, &edges, kind, 1_000, &mut random)?;
    }
    Ok(())
}

/// TF-19: so many exchanges at once that queues run out: later ones share one queue, and without
/// any queue they use messages; freed queues can be reused.
pub(super) fn tf_19_fast_falls_back_to_mrc_when_queues_run_out(
    world: &World,
    _seed: u64,
) -> Result<(), Error> {
    let (right, left) = around(world, 1);
    let mut neighbours = Neighbours::even(&[left, right], &[right, left], 3);
    neighbours.scheme = Some(Scheme::Fast);
    for _ in 0..2 {
        // An odd number is left for exchanges of two.
        let mut one = Neighbours::even(&[left], &[right], 1);
        one.scheme = Some(Scheme::Fast);
        let mut spare = world.staged_exchange_init::<u32>(&one)?;
        let mut made: Vec<Exchange<u32>> = Vec::new();
        while !made.last().is_some_and(Exchange::is_by_messages) {
            let (out, into) = (world.alloc::<u32>(6)?, world.alloc::<u32>(6)?);
            made.push(world.exchange_init(&neighbours, out, into)?);
        }
        assert_eq!(made.len(), 9, "fifteen queues: seven pairs, one for both neighbours, and none");
        for round in 0..3 {
            for (number, exchange) in made.iter_mut().enumerate() {
                exchange.outgoing_mut()?.fill(world.rank() * 1000 + number as u32 * 10 + round);
                exchange.start()?;
            }
            for (number, exchange) in made.iter_mut().enumerate().rev() {
                exchange.wait()?;
                let told = |rank| [rank * 1000 + number as u32 * 10 + round; 3];
                assert_eq!(exchange.incoming()?, [told(left), told(right)].as_flattened());
            }
        }
        // Freed at every rank before it is made anew.
        let mut heard = [0];
        spare.start_from(&[world.rank()])?;
        spare.wait_into(&mut heard)?;
        assert_eq!(heard, [left]);
        spare.free()?;
        made.into_iter().try_for_each(Exchange::free)?;
        world.barrier()?;
    }
    Ok(())
}

/// TF-10: when the last rank has started, everything has arrived, although the others have only
/// slept since their start until a message arrives.
pub(super) fn tf_10_the_exchange_goes_on_while_all_but_one_sleep(
    world: &World,
    _seed: u64,
) -> Result<(), Error> {
    let (right, left) = around(world, 1);
    let alone = KINDS.iter().filter(|(scheme, _)| *scheme != Some(Scheme::Messages));
    for kind in alone.copied() {
        for length in [1, 600, 20_000] {
            asleep(world, kind, (&[left, right], &[right, left]), length)?;
        }
    }
    let all: Vec<u32> = (0..world.size()).collect();
    for staged in [false, true] {
        for length in [0, 1, 600] {
            asleep(world, (Some(Scheme::Combined), staged), (&all, &all), length)?;
        }
    }
    Ok(())
}

/// Three rounds in which all ranks sleep from their start on except rank 0, which starts last.
fn asleep(
    world: &World,
    (scheme, staged): (Option<Scheme>, bool),
    (from, to): (&[u32], &[u32]),
    length: usize,
) -> Result<(), Error> {
    const TAG: i32 = 10;
    let mut neighbours = Neighbours::even(from, to, length);
    neighbours.scheme = scheme;
    let mut exchange = Either::new(world, &neighbours, staged)?;
    for round in 0..3 {
        exchange.outgoing()?.fill(world.rank() * 10 + round);
        if world.rank() > 0 {
            exchange.start()?;
            world.send(&[round], 0, TAG)?;
            world.recv(&mut [0u32], 0, TAG)?;
        } else {
            for rank in 1..world.size() {
                world.recv(&mut [0u32], rank, TAG)?;
            }
            exchange.start()?;
            for rank in 1..world.size() {
                world.send(&[round], rank, TAG)?;
            }
        }
        assert!(exchange.test()?, "it needs nobody's help");
        let blocks = exchange.incoming()?.chunks(length.max(1)).zip(from);
        for (block, from) in blocks {
            assert!(block.iter().all(|found| *found == from * 10 + round));
        }
    }
    Ok(())
}

/// TF-18: of the two neighbours of rank 1, rank 0 starts first. With FAST the directions are
/// independent, so it has its data before rank 2 has started. With MRC one queue serves both, one
/// after the other, and no data moves before both have started.
pub(super) fn tf_18_fast_serves_both_directions_at_once_and_mrc_one_after_the_other(
    world: &World,
    _seed: u64,
) -> Result<(), Error> {
    const TAG: i32 = 18;
    const LENGTH: usize = 50;
    if world.size() < 3 {
        return Ok(());
    }
    let own = world.rank();
    let ends: &[u32] = match own {
        0 | 2 => &[1],
        1 => &[0, 2],
        _ => &[],
    };
    for (scheme, staged) in KINDS {
        let is_fast = scheme == Some(Scheme::Fast);
        if !is_fast && scheme != Some(Scheme::Mrc) {
            continue;
        }
        let mut neighbours = Neighbours::even(ends, ends, LENGTH);
        neighbours.scheme = scheme;
        let mut exchange = Either::new(world, &neighbours, staged)?;
        exchange.outgoing()?.fill(100 + own);
        if own == 2 {
            world.recv(&mut [0u32], 0, TAG)?;
        }
        exchange.start()?;
        match own {
            0 => {
                world.recv(&mut [0u32], 1, TAG)?;
                if is_fast {
                    exchange.wait()?;
                }
                for _ in 0..if is_fast { 0 } else { 200 } {
                    assert!(!exchange.test()?, "rank 2 has not come");
                }
                world.send(&[0u32], 2, TAG)?;
            }
            1 => world.send(&[0u32], 0, TAG)?,
            _ => {}
        }
        if own != 0 || !is_fast {
            exchange.wait()?;
        }
        let mut came = exchange.incoming()?.chunks(LENGTH).zip(ends);
        assert!(came.all(|(block, from)| *block == [100 + from; LENGTH]));
        exchange.free()?;
    }
    Ok(())
}

/// TF-20: rank 0 has the four neighbours of a plane. With FAST each has a queue of its own: a
/// neighbour that has started is served, in any order, before the others start. With MRC none is
/// served before all have started.
pub(super) fn tf_20_fast_serves_the_four_neighbours_of_a_plane_each_by_itself(
    world: &World,
    _seed: u64,
) -> Result<(), Error> {
    const TAG: i32 = 20;
    const LENGTH: usize = 50;
    const ORDER: [u32; 4] = [3, 1, 4, 2];
    if world.size() < 5 {
        return Ok(());
    }
    let own = world.rank();
    let ends: &[u32] = match own {
        0 => &[1, 2, 3, 4],
        1..=4 => &[0],
        _ => &[],
    };
    let schemes = KINDS.iter().filter_map(|(scheme, staged)| Some(((*scheme)?, *staged)));
    for (scheme, staged) in schemes.filter(|it| matches!(it.0, Scheme::Fast | Scheme::Mrc)) {
        let mut neighbours = Neighbours::even(ends, ends, LENGTH);
        neighbours.scheme = Some(scheme);
        let mut exchange = Either::new(world, &neighbours, staged)?;
        exchange.outgoing()?.fill(100 + own);
        if own == 0 {
            exchange.start()?;
            for next in ORDER {
                world.send(&[0u32], next, TAG)?;
                world.recv(&mut [0u32], next, TAG)?;
            }
            exchange.wait()?;
        } else if !ends.is_empty() {
            world.recv(&mut [0u32], 0, TAG)?;
            exchange.start()?;
            if scheme == Scheme::Fast {
                exchange.wait()?;
            }
            let is_last = own == ORDER[3];
            for _ in 0..if scheme == Scheme::Fast || is_last { 0 } else { 200 } {
                assert!(!exchange.test()?, "others have not come");
            }
            world.send(&[0u32], 0, TAG)?;
            if scheme == Scheme::Mrc {
                exchange.wait()?;
            }
        } else {
            exchange.start()?;
            exchange.wait()?;
        }
        let mut came = exchange.incoming()?.chunks(LENGTH).zip(ends);
        assert!(came.all(|(block, from)| *block == [100 + from; LENGTH]));
        exchange.free()?;
    }
    Ok(())
}

/// A row with a border on both sides, in one buffer, with computing on other memory meanwhile.
pub(super) fn in_place(world: &World, _seed: u64) -> Result<(), Error> {
    const CELLS: usize = 300;
    let (right, left) = around(world, 1);
    let edge = |rank, start| Neighbour { rank, elements: start..start + 1 };
    let neighbours = Neighbours {
        sources: vec![edge(left, 0), edge(right, CELLS + 1)],
        destinations: vec![edge(right, CELLS), edge(left, 1)],
        scheme: None,
    };
    let mut row = world.exchange_in_place_init(&neighbours, world.alloc::<u64>(CELLS + 2)?)?;
    for step in 0..50 {
        let cells = row.outgoing_mut()?;
        for (at, cell) in cells[1..=CELLS].iter_mut().enumerate() {
            *cell = step * 1_000_000 + u64::from(world.rank()) * 1_000 + at as u64;
        }
        row.start()?;
        let mut elsewhere = vec![step; 100];
        black_box(&mut elsewhere);
        row.wait()?;
        let cells = row.incoming()?;
        let told = |rank: u32, at: u64| step * 1_000_000 + u64::from(rank) * 1_000 + at;
        assert_eq!(cells[0], told(left, CELLS as u64 - 1));
        assert_eq!(cells[CELLS + 1], told(right, 0));
        assert!(row.buffers()?.1.is_empty());
    }
    let twice = Neighbours::even(&[left], &[right], 4);
    let error = world.exchange_in_place_init(&twice, world.alloc::<u64>(4)?).unwrap_err();
    let overlap = PersistentError::Overlap { first: 0, what: "destination", second: 0 };
    assert_eq!(error, overlap.into());
    Ok(())
}

/// Paper 002's Fig. 3: a loop whose arguments change in one iteration. An exchange keeps the
/// arguments it was made with, so each set of arguments has an exchange of its own (TF-21).
pub(super) fn tf_21_a_loop_of_two_buffers_has_two_requests(
    world: &World,
    _seed: u64,
) -> Result<(), Error> {
    const LENGTH: usize = 40;
    let (right, left) = around(world, 1);
    let neighbours = Neighbours::even(&[left], &[right], LENGTH);
    let made = |world: &World| {
        let (out, into) = (world.alloc::<u32>(LENGTH)?, world.alloc::<u32>(LENGTH)?);
        world.exchange_init(&neighbours, out, into)
    };
    let (mut usual, mut other) = (made(world)?, made(world)?);
    let told = |rank, iteration| 1000 * iteration + rank;
    let messages = world.statistics().messages_sent;
    for iteration in 0..20u32 {
        let exchange = if iteration == 10 { &mut other } else { &mut usual };
        exchange.outgoing_mut()?.fill(told(world.rank(), iteration));
        exchange.start()?;
        exchange.wait()?;
        assert_eq!(exchange.incoming()?, [told(left, iteration); LENGTH]);
    }
    assert_eq!(world.statistics().messages_sent, messages, "no address is exchanged again");
    // Each still has the data of its own last iteration.
    assert_eq!(usual.incoming()?, [told(left, 19); LENGTH]);
    assert_eq!(other.incoming()?, [told(left, 10); LENGTH]);
    usual.free()?;
    other.free()
}

/// Two alternating buffers: received data is sent on, so everything travels around the ring.
pub(super) fn in_turn(world: &World, _seed: u64) -> Result<(), Error> {
    let (right, left) = around(world, 1);
    let size = world.size();
    for (scheme, _) in KINDS {
        for length in [1, 900, 9_000] {
            let mut neighbours = Neighbours::even(&[left], &[right], length);
            neighbours.scheme = scheme;
            let (one, other) = (world.alloc::<u32>(length)?, world.alloc(length + 1)?);
            let mut ring = world.exchange_turning_init(&neighbours, one, other)?;
            ring.outgoing_mut()?.fill(world.rank());
            for round in 1..=7 {
                ring.start()?;
                ring.wait()?;
                let from = (world.rank() + 7 * size - round) % size;
                let what = from + 100 * (round - 1);
                assert!(ring.incoming()?[..length].iter().all(|found| *found == what), "{what}");
                ring.outgoing_mut()?.iter_mut().for_each(|element| *element += 100);
            }
        }
    }
    let short = Neighbours::even(&[left], &[right], 4);
    let (one, other) = (world.alloc::<u32>(4)?, world.alloc(3)?);
    let error = world.exchange_turning_init(&short, one, other).unwrap_err();
    assert!(matches!(error, Error::Persistent(PersistentError::Range { length: 3, .. })));
    Ok(())
}

/// Calls in the wrong order are errors and change nothing.
pub(super) fn order(world: &World, _seed: u64) -> Result<(), Error> {
    let (right, left) = around(world, 1);
    let neighbours = Neighbours::even(&[left], &[right], 2);
    let (out, into) = (world.alloc::<u32>(2)?, world.alloc::<u32>(2)?);
    let mut exchange = world.exchange_init(&neighbours, out, into)?;
    let mut staged = world.staged_exchange_init::<u32>(&neighbours)?;
    let not_started = || Error::from(PersistentError::NotStarted);
    let started = || Error::from(PersistentError::Started);
    for round in 0..3 {
        assert_eq!(exchange.wait(), Err(not_started()));
        assert_eq!(exchange.test(), Err(not_started()));
        assert_eq!(staged.wait_into(&mut [0; 2]), Err(not_started()));
        let length = |given| Error::from(PersistentError::Length { given, needed: 2 });
        assert_eq!(staged.start_from(&[1]), Err(length(1)));
        exchange.outgoing_mut()?.fill(round);
        exchange.start()?;
        staged.start_from(&[round, round])?;
        assert_eq!(exchange.start(), Err(started()));
        assert_eq!(staged.start_from(&[9, 9]), Err(started()));
        assert_eq!(exchange.outgoing_mut().unwrap_err(), started());
        assert_eq!(exchange.incoming().unwrap_err(), started());
        assert_eq!(staged.wait_into(&mut [0]), Err(length(1)));
        exchange.wait()?;
        let mut heard = [0; 2];
        staged.wait_into(&mut heard)?;
        assert_eq!((exchange.incoming()?, heard), (&[round; 2][..], [round; 2]));
    }
    exchange.free()?;
    staged.free()
}

/// A mistake of one rank is an error on every rank, and the next exchange works as before.
pub(super) fn mistakes(world: &World, seed: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = around(world, 1);
    let culprit = seed as u32 % size;
    let made = |neighbours: &Neighbours| {
        let error = world.staged_exchange_init::<u32>(neighbours).unwrap_err();
        let Error::Persistent(error) = error else { panic!("{error}") };
        error
    };
    // A rank that does not exist.
    let to = if rank == culprit { size + 3 } else { right };
    let error = made(&Neighbours::even(&[left], &[to], 5));
    let what = "destination";
    let own = PersistentError::NoSuchRank { what, place: 0, rank: size + 3, size };
    let others = PersistentError::Elsewhere { rank: culprit };
    assert_eq!(error, if rank == culprit { own } else { others });
    // Sizes that differ.
    let mut neighbours = Neighbours::even(&[left], &[right], 5);
    if rank == culprit {
        neighbours.destinations[0].elements.end = 4;
    }
    let (source_rank, rank_after, edge) = (culprit, (culprit + 1) % size, 0);
    let (sent, expected) = (16, 20);
    let sizes = PersistentError::Sizes { source_rank, sent, edge, rank: rank_after, expected };
    assert_eq!(made(&neighbours), sizes);
    assert!(sizes.to_string().contains("16 bytes"), "{sizes}");
    // An edge with one end only.
    let mut neighbours = Neighbours::even(&[left], &[right], 5);
    if rank == culprit {
        neighbours.destinations.clear();
    }
    let (sent, expected) = (0, 1);
    let edges = PersistentError::Edges { source_rank, sent, rank: rank_after, expected };
    assert_eq!(made(&neighbours), edges);
    // A buffer that is too short, detected by one rank.
    let neighbours = Neighbours::even(&[left], &[right], 5);
    let (out, into) = (world.alloc::<u32>(5)?, world.alloc(if rank == culprit { 3 } else { 5 })?);
    let error = world.exchange_init(&neighbours, out, into).unwrap_err();
    let (start, end, length) = (0, 5, 3);
    let own = PersistentError::Range { what: "source", place: 0, start, end, length };
    assert_eq!(error, if rank == culprit { own } else { others }.into());
    let mut random = Random::new(seed);
    rounds(world, &[(0, 0, 7)], (None, true), 3, &mut random)
}

/// A rank that frees its end in flight causes an error at its neighbours that says so, not a hang.
pub(super) fn freed_in_flight(world: &World, seed: u64) -> Result<(), Error> {
    let size = world.size();
    if size < 2 {
        return Ok(());
    }
    let (right, left) = around(world, 1);
    let culprit = seed as u32 % size;
    // With messages, the others' messages to the culprit stay there, where this rank's test of
    // left-overs finds them; `crates/world/src/world/scarce.rs` frees such an end.
    for (scheme, staged) in KINDS.into_iter().filter(|it| it.0 != Some(Scheme::Messages)) {
        let mut neighbours = Neighbours::even(&[left, right], &[right, left], 600);
        neighbours.scheme = scheme;
        let mut exchange = Either::new(world, &neighbours, staged)?;
        exchange.start()?;
        exchange.wait()?;
        world.barrier()?;
        if world.rank() == culprit {
            // The others have not started: it cannot be complete.
            exchange.start()?;
            assert_eq!(exchange.free(), Err(PersistentError::Started.into()));
            world.barrier()?;
            continue;
        }
        world.barrier()?;
        let mut outcome = exchange.start();
        while outcome.is_ok() {
            outcome = exchange.wait().map(drop);
            if outcome.is_ok() {
                outcome = exchange.start();
            }
        }
        let freed = PersistentError::Freed { rank: culprit };
        assert_eq!(outcome, Err(freed.into()));
        assert_eq!(exchange.start(), Err(PersistentError::Failed.into()));
    }
    world.barrier()
}
