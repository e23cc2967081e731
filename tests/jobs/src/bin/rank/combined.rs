//! Persistent exchanges of every rank with all ranks of the other nodes.

use std::time::Duration;

use hikyaku::persistent::{Exchange, Neighbours, Scheme};
use hikyaku::{Error, SessionChoices, World};
use hikyaku_jobs::edges::Either;

/// `combined SCHEME shared|staged ROUNDS`, `combined-queues SCHEME`, `combined-scarce` or
/// `combined-falls-back`. With the
/// scheme `none` the job's choice applies, with `world-SCHEME` the communicator's.
pub(crate) fn run(world: &World, words: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["combined", scheme, buffers, count] => {
            let (count, staged) = (count.parse().unwrap(), buffers == "staged");
            match scheme.strip_prefix("world-") {
                None => rounds(world, scheme, staged, count),
                Some(scheme) => {
                    let exchange = Some(scheme.parse().unwrap());
                    let sessions = SessionChoices { exchange, ..SessionChoices::default() };
                    rounds(&world.with_sessions(sessions), "none", staged, count)
                }
            }
        }
        ["combined-queues", scheme] => queues(world, scheme),
        ["combined-scarce"] => scarce(world),
        ["combined-falls-back"] => falls_back(world),
        _ => panic!("there is no program {words:?}"),
    }
}

/// Edges from and to all ranks of other nodes.
fn neighbours(world: &World, name: &str, length: usize) -> (Vec<u32>, Neighbours) {
    let others = (0..world.size()).filter(|rank| world.node_of(*rank) != world.node());
    let others: Vec<u32> = others.collect();
    let mut neighbours = Neighbours::even(&others, &others, length);
    neighbours.scheme = Some(name).filter(|name| *name != "none").map(|name| name.parse().unwrap());
    (others, neighbours)
}

/// Elements of an edge.
const LENGTH: usize = 3;

/// Runs `rounds` rounds with the others; each rank sends each of them different data.
fn exchange_with(
    world: &World,
    others: &[u32],
    exchange: &mut Either,
    rounds: u64,
) -> Result<(), Error> {
    let value = |from: u32, to: u32, round: u64| from << 16 | to << 8 | round as u32;
    for round in 0..rounds {
        let out = exchange.outgoing()?.chunks_mut(LENGTH).zip(others);
        out.for_each(|(block, to)| block.fill(value(world.rank(), *to, round)));
        exchange.start()?;
        let mut into = exchange.wait()?.chunks(LENGTH).zip(others);
        assert!(into.all(|(block, from)| block == [value(*from, world.rank(), round); LENGTH]));
    }
    Ok(())
}

/// Runs `rounds` rounds of an exchange, after which its memory can be reused.
fn rounds(world: &World, name: &str, staged: bool, rounds: u64) -> Result<(), Error> {
    let (others, neighbours) = neighbours(world, name, LENGTH);
    // Too large for a gap that unreleased memory would leave.
    let place = || world.alloc::<u8>(1 << 20).map(|memory| memory.as_ptr().addr());
    let before = place()?;
    let mut exchange = Either::new(world, &neighbours, staged)?;
    exchange_with(world, &others, &mut exchange, rounds)?;
    exchange.free()?;
    assert_eq!(place()?, before, "memory is given back");
    world.barrier()
}

/// In virtual time, on nodes of two ranks: exchanges with a rank of either neighbouring node, by a
/// queue for each while there are some, until queues have run out at all ranks. Rank 0 prints the
/// time of a round of each.
fn falls_back(world: &World) -> Result<(), Error> {
    const LENGTH: usize = 4096;
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 2) % size, (rank + size - 2) % size);
    // An odd number of queues is left for exchanges of two.
    let mut one = Neighbours::even(&[left], &[right], 1);
    one.scheme = Some(Scheme::Fast);
    let _odd = world.staged_exchange_init::<u32>(&one)?;
    let mut both = Neighbours::even(&[left, right], &[right, left], LENGTH);
    both.scheme = Some(Scheme::Fast);
    let mut made: Vec<Exchange<u32>> = Vec::new();
    while !made.last().is_some_and(Exchange::is_by_messages) {
        let (out, into) = (world.alloc(2 * LENGTH)?, world.alloc(2 * LENGTH)?);
        made.push(world.exchange_init(&both, out, into)?);
    }
    for mut exchange in made {
        exchange.outgoing_mut()?.fill(rank);
        world.barrier()?;
        world.compute(Duration::from_millis(1));
        let start = world.now();
        exchange.start()?;
        exchange.wait()?;
        if rank == 0 {
            println!("round {}", (world.now() - start).picoseconds());
        }
        let (from_left, from_right) = exchange.incoming()?.split_at(LENGTH);
        assert!(from_left.iter().all(|it| *it == left) && from_right.iter().all(|it| *it == right));
    }
    world.barrier()
}

/// Prints how many queues every rank has left beside one such exchange: the number of exchanges of
/// one queue a rank that can be made.
fn queues(world: &World, name: &str) -> Result<(), Error> {
    let beside = world.staged_exchange_init::<u32>(&neighbours(world, name, 1).1)?;
    let mut itself = Neighbours::even(&[world.rank()], &[world.rank()], 1);
    itself.scheme = Some(Scheme::Fast);
    let mut made = Vec::new();
    loop {
        let exchange = world.exchange_init(&itself, world.alloc::<u32>(1)?, world.alloc(1)?)?;
        if exchange.is_by_messages() {
            // One rank has none left, and the others have learnt it.
            break;
        }
        made.push(exchange);
    }
    if world.rank() == 0 {
        println!("{}", made.len());
    }
    made.into_iter().try_for_each(Exchange::free)?;
    beside.free()?;
    world.barrier()
}

/// Rank 0 has no queue left: all use messages. With one queue it has what it needs, and others
/// represent its node; with four it does so itself.
fn scarce(world: &World) -> Result<(), Error> {
    let (others, neighbours) = neighbours(world, "combined", LENGTH);
    let itself: &[u32] = if world.rank() == 0 { &[0] } else { &[] };
    let mut edges = Neighbours::even(itself, itself, 1);
    edges.scheme = Some(Scheme::Fast);
    let one = || world.exchange_init(&edges, world.alloc::<u32>(itself.len())?, world.alloc(1)?);
    let mut held = (0..16).map(|_| one()).collect::<Result<Vec<_>, Error>>()?;
    for queues in 0..=4 {
        if queues > 0 {
            held.pop().unwrap().free()?;
        }
        for staged in [false, true] {
            let mut exchange = Either::new(world, &neighbours, staged)?;
            assert_eq!(exchange.is_by_messages(), queues == 0);
            exchange_with(world, &others, &mut exchange, 10)?;
            exchange.free()?;
            world.barrier()?;
        }
    }
    Ok(())
}
