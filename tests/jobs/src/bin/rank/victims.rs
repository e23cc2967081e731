//! Programs that never end by themselves, to be killed in the middle.

use std::hint::spin_loop;

use hikyaku::persistent::{Exchange, Neighbours, Scheme, StagedExchange};
use hikyaku::topology::{Cartesian, Neighbourhood, Reorder};
use hikyaku::{ANY_SOURCE, Access, Error, Layout, Op, PostError, Window, World};
use hikyaku_jobs::Random;

/// Runs until something fails. In the programs `ping-pong`, `allreduce`, `groups`, `alltoallw`,
/// `large`, `blocked`, `neighbours`, `window`, `protected`, `persistent` and `combined` every rank
/// depends on every other, directly or through others; in `full` all depend on rank 0 and rank 0
/// on no rank.
///
/// With `suicide` other than 0 the highest rank kills itself after that many steps.
pub(crate) fn run(world: &World, program: &str, suicide: u64) -> Result<(), Error> {
    let mut large = vec![0u8; 6 << 20];
    let mut random = Random::new(u64::from(world.rank()));
    let ring = world.cartesian(&[world.size()], &[true], Reorder::Keep)?;
    let window = world.window::<u64>(2)?;
    let mut persistent = match program {
        "combined" => Persistent::combined(world)?,
        _ => Persistent::new(world)?,
    };
    for turn in 1.. {
        if turn == suicide && world.rank() + 1 == world.size() {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
        }
        match program {
            "ping-pong" => ping_pong(world)?,
            "allreduce" => world.allreduce(&mut [1.0f64; 16], Op::Sum)?,
            "groups" => groups(world, turn)?,
            "alltoallw" => columns(world, turn)?,
            "large" => around(world, &mut large, random.below(6 << 20))?,
            "blocked" => blocked(world)?,
            "neighbours" => neighbours(world, ring.as_ref(), turn)?,
            "window" => signals(world, &window, turn)?,
            "protected" => drop(world.protected_window::<u64>(100, protected)?),
            "persistent" | "combined" => persistent.turn()?,
            "full" => full(world)?,
            other => panic!("there is no program {other}"),
        }
    }
    Ok(())
}

/// Access rights of each kind.
fn protected(rank: u32) -> Access {
    [Access::Read, Access::Write, Access::None][rank as usize % 3]
}

/// Operations that the environment may assign to a group of all ranks.
fn groups(world: &World, turn: u64) -> Result<(), Error> {
    let root = turn % u64::from(world.size());
    let mut data = [if u64::from(world.rank()) == root { turn } else { 0 }; 16];
    world.broadcast(&mut data, root as u32)?;
    assert_eq!(data, [turn; 16]);
    world.barrier()
}

/// A matrix's columns, short and long alternately.
fn columns(world: &World, turn: u64) -> Result<(), Error> {
    let (size, side) = (world.size() as usize, if turn.is_multiple_of(2) { 2 } else { 60 });
    let columns = |peer| Layout::vector(peer * side, side, side, size * side);
    let columns: Vec<Layout> = (0..size).map(columns).collect();
    let (data, mut into) = (vec![turn; size * side * side], vec![0; size * side * side]);
    world.alltoallw(&data, &columns, &mut into, &columns)?;
    assert_eq!(into, data);
    Ok(())
}

/// Exchanges around a ring, of both kinds and by both schemes, small and large.
struct Persistent {
    shared: Vec<Exchange<u64>>,
    staged: Vec<StagedExchange<u64>>,
    data: Vec<u64>,
}

impl Persistent {
    fn new(world: &World) -> Result<Persistent, Error> {
        let (rank, size) = (world.rank(), world.size());
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        let schemes = [Some(Scheme::Fast), Some(Scheme::Mrc), None];
        Persistent::between(world, &schemes, (&[left, right], &[right, left]))
    }

    /// An exchange of all with all, with combined traffic between nodes.
    fn combined(world: &World) -> Result<Persistent, Error> {
        let all: Vec<u32> = (0..world.size()).collect();
        Persistent::between(world, &[Some(Scheme::Combined)], (&all, &all))
    }

    fn between(
        world: &World,
        schemes: &[Option<Scheme>],
        (from, to): (&[u32], &[u32]),
    ) -> Result<Persistent, Error> {
        let (mut shared, mut staged) = (Vec::new(), Vec::new());
        for scheme in schemes {
            for length in [1, 9_000] {
                let mut neighbours = Neighbours::even(from, to, length);
                neighbours.scheme = *scheme;
                let elements = from.len() * length;
                let (out, into) = (world.alloc(elements)?, world.alloc(elements)?);
                shared.push(world.exchange_init(&neighbours, out, into)?);
                staged.push(world.staged_exchange_init(&neighbours)?);
            }
        }
        Ok(Persistent { shared, staged, data: vec![0; from.len() * 9_000] })
    }

    fn turn(&mut self) -> Result<(), Error> {
        for exchange in &mut self.shared {
            exchange.start()?;
            exchange.wait()?;
        }
        for exchange in &mut self.staged {
            exchange.start_from(&self.data)?;
            exchange.wait_into(&mut self.data)?;
        }
        Ok(())
    }
}

fn ping_pong(world: &World) -> Result<(), Error> {
    let mut ball = [0u64; 4];
    if world.rank() > 0 {
        world.send(&ball, 0, 1)?;
        return world.recv(&mut ball, ANY_SOURCE, 1).map(|_| ());
    }
    let source = world.recv(&mut ball, ANY_SOURCE, 1)?.source;
    world.send(&ball, source, 1)
}

fn around(world: &World, buffer: &mut [u8], length: usize) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let mut heard = vec![0u8; buffer.len()];
    let previous = (rank + size - 1) % size;
    world.sendrecv(&buffer[..length], (rank + 1) % size, 1, &mut heard, previous, 1)?;
    Ok(())
}

fn blocked(world: &World) -> Result<(), Error> {
    world.recv(&mut [0u8], (world.rank() + 1) % world.size(), 1).map(|_| ())
}

/// Blocking and within a scope, small and large, alternately.
fn neighbours(
    world: &World,
    ring: Option<&Neighbourhood<Cartesian>>,
    turn: u64,
) -> Result<(), Error> {
    let Some(ring) = ring else { return Ok(()) };
    let length = [1, 1_000, 50_000][turn as usize % 3];
    let (out, mut into) = (vec![turn; 2 * length], vec![0; 2 * length]);
    ring.neighbour_alltoall(&out, &mut into)?;
    world.scope(|scope| scope.ineighbour_alltoall(ring, &out, &mut into)?.wait())
}

/// Each rank waits for a word that the previous rank changes.
fn signals(world: &World, window: &Window<'_, u64>, turn: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    match window.swap(next, 0, turn) {
        // That rank has abandoned the call and is about to leave: wait for that report.
        Err(Error::Remote(PostError::Protection { .. })) => window.wait(1, next, |_| false)?,
        swapped => swapped?,
    };
    window.wait(0, previous, |heard| heard >= turn).map(drop)
}

fn full(world: &World) -> Result<(), Error> {
    while world.rank() == 0 {
        // Computes for ever, without a call of the library.
        spin_loop();
    }
    world.send(&[0u8; 1000], 0, 1)
}
