//! Ranks that poll, with each nonblocking call. They print the call, and how many found nothing.

use hikyaku::persistent::Neighbours;
use hikyaku::topology::Reorder;
use hikyaku::{Error, World};

const ROUNDS: u32 = 50;

/// Starts an operation in each round that `test` ends, and tests until it has ended.
fn rounds(
    (world, name): (&World, &str),
    mut round: impl FnMut(u32, &mut u64) -> Result<(), Error>,
) -> Result<(), Error> {
    world.barrier()?;
    let mut vain = 0;
    (0..ROUNDS).try_for_each(|number| round(number, &mut vain))?;
    println!("{name} {}", vain / u64::from(ROUNDS));
    Ok(())
}

pub(crate) fn run(world: &World) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let grid = world.cartesian(&[size], &[true], Reorder::Keep)?.unwrap();

    rounds((world, "request"), |number, vain| {
        let mut heard = [0];
        world.scope(|scope| {
            let mut request = scope.irecv(&mut heard, previous, 1)?;
            world.send(&[number], next, 1)?;
            while let Err(again) = request.test()? {
                (request, *vain) = (again, *vain + 1);
            }
            Ok(())
        })?;
        assert_eq!(heard, [number]);
        Ok(())
    })?;
    rounds((world, "iprobe"), |number, vain| {
        world.send(&[number], next, 2)?;
        while world.iprobe(previous, 2)?.is_none() {
            *vain += 1;
        }
        world.recv(&mut [0_u32], previous, 2).map(drop)
    })?;
    rounds((world, "collective"), |_, vain| {
        world.scope(|scope| {
            let mut barrier = scope.ibarrier();
            while let Err(again) = barrier.test()? {
                (barrier, *vain) = (again, *vain + 1);
            }
            Ok(())
        })
    })?;
    rounds((world, "neighbours"), |number, vain| {
        let (out, mut into) = ([number; 2], [0; 2]);
        world.scope(|scope| {
            let mut request = scope.ineighbour_alltoall(&grid, &out, &mut into)?;
            while let Err(again) = request.test()? {
                (request, *vain) = (again, *vain + 1);
            }
            Ok(())
        })?;
        assert_eq!(into, out);
        Ok(())
    })?;
    kept(world, (previous, next))
}

/// Operations that are reused: persistent ones and a variable.
fn kept(world: &World, (previous, next): (u32, u32)) -> Result<(), Error> {
    let neighbours = Neighbours::even(&[previous], &[next], 1);
    let shared = world.shared::<u32>("turns", &[1])?;
    let mut barrier = world.barrier_init();
    rounds((world, "persistent"), |_, vain| {
        barrier.start()?;
        while !barrier.test()? {
            *vain += 1;
        }
        Ok(())
    })?;
    let mut exchange = world.exchange_init::<u32>(&neighbours, world.alloc(1)?, world.alloc(1)?)?;
    rounds((world, "exchange"), |number, vain| {
        exchange.outgoing_mut()?.fill(number);
        exchange.start()?;
        while !exchange.test()? {
            *vain += 1;
        }
        assert_eq!(exchange.incoming()?, [number]);
        Ok(())
    })?;
    let mut staged = world.staged_exchange_init::<u32>(&neighbours)?;
    rounds((world, "staged"), |number, vain| {
        let mut into = [0];
        staged.start_from(&[number])?;
        while !staged.test_into(&mut into)? {
            *vain += 1;
        }
        assert_eq!(into, [number]);
        Ok(())
    })?;
    rounds((world, "variable"), |_, vain| {
        // The holder yields its processor, so that the others try without success.
        loop {
            if let Some(_guard) = shared.try_write()? {
                std::thread::yield_now();
                return Ok(());
            }
            *vain += 1;
        }
    })
}
