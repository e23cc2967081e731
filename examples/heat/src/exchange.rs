//! Everything the ranks say to each other.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    may we start, and with what
//!   distribute   rank 0 ─► each   send/recv    its block of the initial field
//!   step         side by side     neighbours   edges, in every step (`kit::exchange`)
//!   solve        all ◄─► all      allreduce    the largest change
//!   collect      all ─► rank 0    gatherv      the blocks of the final field
//! ```

use hikyaku::persistent::{Neighbour, Neighbours};
use hikyaku::{Error, Op, World};
use kit::exchange::NeighbourExchange;
use kit::program::ROOT;
use kit::times::{Split, Stopwatch, TimePart};

use crate::block::{BlockEdge, BlockHalo, FieldBlock};
use crate::config::HeatPlan;
use crate::field::{Decomposition, Field};

/// Tag of a block of the initial field.
const BLOCK: i32 = 1;

/// Rank 0 tells all others what is to be computed, or that its input was no good: `None` on every
/// rank, which then end together. Nobody waits for blocks that never come.
///
/// # Errors
/// Another rank failed.
pub fn announce(world: &World, plan: Option<&HeatPlan>) -> Result<Option<HeatPlan>, Error> {
    let text = plan.map(|plan| toml::to_string(plan).expect("a plan is a few TOML numbers"));
    let mut bytes = text.unwrap_or_default().into_bytes();
    let mut length = [bytes.len() as u64];
    world.broadcast(&mut length, ROOT)?;
    bytes.resize(length[0] as usize, 0);
    world.broadcast(&mut bytes, ROOT)?;
    Ok(toml::from_slice(&bytes).ok()) // no text is no plan
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
        let mut block = Field::filled(mine.size(), 0.0);
        if !block.cells.is_empty() {
            world.recv(&mut block.cells[..], ROOT, BLOCK)?;
        }
        return Ok(block);
    };
    for (rank, tile) in (0..).zip(grid.tiles()) {
        if rank != world.rank() && !tile.size().contains(&0) {
            world.send(&field.cut(&tile).cells[..], rank, BLOCK)?;
        }
    }
    Ok(field.cut(&mine))
}

/// The edges of a block as its neighbours. Both ends see each edge: whom I send to, I hear from.
pub fn neighbours(halo: &BlockHalo) -> Neighbours {
    let edge = |edge: &BlockEdge| Neighbour { rank: edge.rank, elements: edge.range.clone() };
    let edges: Vec<Neighbour> = halo.0.iter().map(edge).collect();
    Neighbours { sources: edges.clone(), destinations: edges, scheme: None }
}

/// Brings the neighbours' edges into the block's frame, and computes its interior. The exchange
/// reads and writes its own buffers, the interior the block.
fn step(
    block: &mut FieldBlock,
    halo: &BlockHalo,
    exchange: &mut NeighbourExchange<'_>,
    watch: &mut Stopwatch,
) -> Result<(), Error> {
    halo.pack(block, exchange.outgoing()?);
    watch.book(TimePart::Copying);
    exchange.run(watch, || block.interior())?;
    halo.unpack(exchange.incoming()?, block);
    watch.book(TimePart::Copying);
    Ok(())
}

/// What a rank did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Solved {
    /// Steps made.
    pub steps: u64,
    /// The largest change of a cell in the last step.
    pub change: f64,
    /// Where this rank's time went.
    pub split: Split,
}

/// Steps `block` until the field is steady or the plan's steps are made. Calls `observe` after
/// every step, with its number and the largest change if that is known. All ranks call this
/// together.
///
/// # Errors
/// Another rank failed.
pub fn solve(
    world: &World,
    plan: &HeatPlan,
    (block, halo): (&mut FieldBlock, &BlockHalo),
    exchange: &mut NeighbourExchange<'_>,
    mut observe: impl FnMut(u64, Option<f64>),
) -> Result<Solved, Error> {
    let mut watch = Stopwatch::start();
    let (mut steps, mut change) = (0, None);
    // The largest change is the same number on every rank, so all leave in the same step.
    while steps < plan.steps && change.is_none_or(|change| change > plan.tolerance) {
        steps += 1;
        step(block, halo, exchange, &mut watch)?; // the interior is computed in here
        block.mirror();
        block.rim();
        if plan.checks_in(steps) {
            // A maximum does not depend on the order in which it is taken.
            let mut largest = [block.largest_change()];
            watch.book(TimePart::Computing);
            world.allreduce(&mut largest, Op::Max)?;
            change = Some(largest[0]);
            watch.book(TimePart::Reduction);
        }
        block.advance();
        observe(steps, change);
        watch.book(TimePart::Computing);
    }
    Ok(Solved { steps, change: change.unwrap_or(0.0), split: watch.split() })
}

/// The blocks of all ranks put together, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn collect(
    world: &World,
    grid: &Decomposition,
    plan: &HeatPlan,
    block: &FieldBlock,
) -> Result<Option<Field>, Error> {
    let blocks = world.gatherv(&block.field().cells[..], ROOT)?;
    Ok(blocks.map(|blocks| {
        let mut field = Field::filled(plan.size, 0.0);
        grid.tiles().zip(&blocks).for_each(|(tile, cells)| field.paste(&tile, cells));
        field
    }))
}
