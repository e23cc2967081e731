//! Everything the ranks say to each other.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    may we start, and with what
//!   distribute   rank 0 ─► each   send/recv    its block of the initial field
//!   halo         side by side     isend/irecv  edges, each step, while the interior is computed
//!   largest      all ◄─► all      allreduce    the largest change
//!   collect      all ─► rank 0    gatherv      the blocks of the final field
//!   splits       all ─► rank 0    gather       where the time went
//! ```

use hikyaku::{Error, Op, World};

use crate::block::Block;
use crate::config::Boundary;
use crate::decompose::Decomposition;
use crate::field::Field;
use crate::solver::Plan;
use crate::stopwatch::{Part, Split, Stopwatch};

/// The rank that reads, writes and talks to people.
pub const ROOT: u32 = 0;

/// Tag of a block of the initial field.
const BLOCK: i32 = 1;
/// Tags of edges, by the direction in which they travel. A pair of ranks can be neighbours on one
/// side only, but a tag for each direction keeps a mistake from looking like an answer.
const NORTHWARD: i32 = 2;
const SOUTHWARD: i32 = 3;
const WESTWARD: i32 = 4;
const EASTWARD: i32 = 5;

/// Rank 0 tells all others what is to be computed, or that its input was no good: `None` on every
/// rank, which then end together. Nobody waits for blocks that never come.
///
/// # Errors
/// Another rank failed.
pub fn announce(world: &World, plan: Option<&Plan>) -> Result<Option<Plan>, Error> {
    let mut words = plan.map_or([0; 9], to_words);
    world.broadcast(&mut words, ROOT)?;
    Ok(from_words(&words))
}

/// Rank 0 hands out the initial field; every rank gets its block (which may be empty).
///
/// # Errors
/// Another rank failed.
pub fn distribute(
    world: &World,
    grid: &Decomposition,
    field: Option<&Field>,
) -> Result<Field, Error> {
    let mine = grid.tile(world.rank());
    let Some(field) = field else {
        let mut block = Field::filled(mine.width, mine.height, 0.0);
        if mine.cells() > 0 {
            world.recv(block.cells_mut(), ROOT, BLOCK)?;
        }
        return Ok(block);
    };
    for (rank, tile) in (0..).zip(grid.tiles()) {
        if rank != world.rank() && tile.cells() > 0 {
            world.send(field.cut(&tile).cells(), rank, BLOCK)?;
        }
    }
    Ok(field.cut(&mine))
}

/// Exchanges edges with the neighbours and computes the interior in the meantime.
///
/// The sends read `current` and the receives write `halo`; the interior reads `current` and writes
/// `next`. Nothing is both read and written, so it cannot matter when the messages travel: that
/// the borrow checker accepts this function is the proof that overlapping changes no bit.
///
/// # Errors
/// Another rank failed.
pub fn halo(world: &World, block: &mut Block, watch: &mut Stopwatch) -> Result<(), Error> {
    let Block { around, current, next, halo, packed, ratio, .. } = block;
    let (current, packed) = (&*current, &*packed);
    world.scope(|scope| {
        if let Some(rank) = around.north {
            scope.irecv(&mut halo.north, rank, SOUTHWARD)?;
            scope.isend(current.row(0), rank, NORTHWARD)?;
        }
        if let Some(rank) = around.south {
            scope.irecv(&mut halo.south, rank, NORTHWARD)?;
            scope.isend(current.row(current.height() - 1), rank, SOUTHWARD)?;
        }
        if let Some(rank) = around.west {
            scope.irecv(&mut halo.west, rank, EASTWARD)?;
            scope.isend(&packed.west, rank, WESTWARD)?;
        }
        if let Some(rank) = around.east {
            scope.irecv(&mut halo.east, rank, WESTWARD)?;
            scope.isend(&packed.east, rank, EASTWARD)?;
        }
        watch.book(Part::Exchange);
        Block::interior(*ratio, current, next);
        watch.book(Part::Computing);
        scope.wait_all()
    })?;
    watch.book(Part::Exchange);
    Ok(())
}

/// The largest of all ranks' numbers, on every rank. A maximum does not depend on the order in
/// which it is taken, so the ranks may be asked in any.
///
/// # Errors
/// Another rank failed.
pub fn largest(world: &World, here: f64) -> Result<f64, Error> {
    let mut number = [here];
    world.allreduce(&mut number, Op::Max)?;
    Ok(number[0])
}

/// The blocks of all ranks put together, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn collect(
    world: &World,
    grid: &Decomposition,
    plan: &Plan,
    block: &Field,
) -> Result<Option<Field>, Error> {
    let blocks = world.gatherv(block.cells(), ROOT)?;
    Ok(blocks.map(|blocks| {
        let mut field = Field::filled(plan.width, plan.height, 0.0);
        for (tile, cells) in grid.tiles().zip(&blocks) {
            field.paste(&tile, cells);
        }
        field
    }))
}

/// Where each rank's time went, by rank, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn splits(world: &World, split: &Split) -> Result<Option<Vec<Split>>, Error> {
    let seconds = world.gather(split, ROOT)?;
    Ok(seconds.map(|seconds| seconds.as_chunks().0.to_vec()))
}

/// A plan as numbers of one type, ready to travel. The first says that there is one.
fn to_words(plan: &Plan) -> [u64; 9] {
    let (kind, temperature) = match plan.boundary {
        Boundary::Insulated => (0, 0.0),
        Boundary::Fixed(temperature) => (1, temperature),
    };
    [
        1,
        plan.width as u64,
        plan.height as u64,
        plan.ratio.to_bits(),
        kind,
        temperature.to_bits(),
        plan.steps,
        plan.tolerance.to_bits(),
        plan.check_every,
    ]
}

fn from_words(words: &[u64; 9]) -> Option<Plan> {
    let &[1, width, height, ratio, kind, temperature, steps, tolerance, check_every] = words else {
        return None;
    };
    Some(Plan {
        width: width as usize,
        height: height as usize,
        ratio: f64::from_bits(ratio),
        boundary: match kind {
            0 => Boundary::Insulated,
            _ => Boundary::Fixed(f64::from_bits(temperature)),
        },
        steps,
        tolerance: f64::from_bits(tolerance),
        check_every,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_journey() {
        for boundary in [Boundary::Insulated, Boundary::Fixed(-273.15)] {
            let plan = Plan {
                width: 1024,
                height: 3,
                ratio: 0.1 + 0.1,
                boundary,
                steps: u64::MAX,
                tolerance: 1e-300,
                check_every: 7,
            };
            assert_eq!(from_words(&to_words(&plan)), Some(plan));
        }
        assert_eq!(from_words(&[0; 9]), None, "bad input");
    }
}
