//! All communication between the ranks.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    whether to start, and the plan
//!   scatter      rank 0 ─► each   scatterv     its block of the initial field
//!   solve        side by side     neighbours   edges, in every step (`kit::exchange`)
//!                all ◄─► all      allreduce    the largest change
//!   gather       all ─► rank 0    gatherv      the blocks of the final field
//! ```

use std::ops::Range;
use std::time::Instant;

use hikyaku::persistent::{Neighbour, Neighbours};
use hikyaku::{Error, Op, World};
use kit::exchange::{ExchangeKind, NeighbourExchange};
use kit::program::ROOT;
use kit::times::{Stopwatch, TimePart, Times};

use crate::HEAT;
use crate::block::{BlockEdge, FieldBlock};
use crate::config::HeatPlan;
use crate::field::{Decomposition, Field};

/// Rank 0 sends all others the plan, or reports that its input was invalid: `None` on every rank,
/// which then end together. No rank waits for blocks that never arrive.
///
/// # Errors
/// Another rank failed.
pub fn announce(world: &World, plan: Option<&HeatPlan>) -> Result<Option<HeatPlan>, Error> {
    let text = plan.map(|plan| toml::to_string(plan).expect("a plan is a few TOML values"));
    let mut bytes = text.unwrap_or_default().into_bytes();
    let mut length = [bytes.len() as u64];
    world.broadcast(&mut length, ROOT)?;
    bytes.resize(length[0] as usize, 0);
    world.broadcast(&mut bytes, ROOT)?;
    // An empty text means no plan.
    Ok((!bytes.is_empty()).then(|| toml::from_slice(&bytes).expect("rank 0 wrote a plan")))
}

/// Rank 0 distributes the initial field; every rank gets its block (which may be empty).
///
/// # Errors
/// Another rank failed.
pub fn scatter(world: &World, grid: &Decomposition, field: Option<&Field>) -> Result<Field, Error> {
    let mut mine = Field::filled(grid.tile(world.rank()).each_ref().map(Range::len), 0.0);
    let cut = |field: &Field| grid.tiles().map(|tile| field.cut(&tile)).collect();
    let blocks: Vec<Field> = field.map_or_else(Vec::new, cut);
    let parts: Vec<&[f64]> = blocks.iter().map(|block| &block.cells[..]).collect();
    world.scatterv(&parts, &mut mine.cells, ROOT)?;
    Ok(mine)
}

/// Steps `block` until the field is steady or the plan's steps are done. All ranks call this
/// together. Returns the use of all ranks' time, on rank 0, and the largest change of a cell in the
/// last step.
///
/// # Errors
/// Another rank failed, or there is no memory for the exchange.
pub fn solve(
    world: &World,
    plan: &HeatPlan,
    block: &mut FieldBlock,
    kind: ExchangeKind,
) -> Result<(Option<Times>, f64), Error> {
    // Each edge has both directions: this rank sends to its sources.
    let edge = |edge: &BlockEdge| Neighbour { rank: edge.rank, elements: edge.range.clone() };
    let sources: Vec<Neighbour> = block.edges.iter().map(edge).collect();
    let destinations = sources.clone();
    let neighbours = Neighbours { sources, destinations, scheme: None };
    let mut exchange = NeighbourExchange::new(world, kind, &neighbours)?;
    world.barrier()?; // all start together, so that no first step waits for the reading
    let (began, mut watch) = (Instant::now(), Stopwatch::start());
    let (mut steps, mut change) = (0, f64::INFINITY);
    // The largest change is the same number on every rank, so all leave in the same step.
    while steps < plan.steps && change > plan.tolerance {
        steps += 1;
        block.pack(exchange.outgoing()?);
        watch.book(TimePart::Copying);
        // The exchange reads and writes its own buffers, the interior the block.
        exchange.run(&mut watch, || block.interior())?;
        block.unpack(exchange.incoming()?);
        watch.book(TimePart::Copying);
        block.rim();
        if plan.checks_in(steps) {
            // A maximum does not depend on the order in which it is taken.
            let mut largest = [block.largest_change()];
            watch.book(TimePart::Computing);
            world.allreduce(&mut largest, Op::Max)?;
            [change] = largest;
            watch.book(TimePart::Reduction);
        }
        block.advance();
        if world.rank() == ROOT && steps.is_multiple_of(plan.steps.div_ceil(10)) {
            HEAT.complain(&format!("{steps} of {} steps", plan.steps));
        }
        watch.book(TimePart::Computing);
    }
    Ok((Times::gather(world, kind, steps, &watch.split(), began.elapsed())?, change))
}

/// The blocks of all ranks, joined on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn gather(world: &World, grid: &Decomposition, mine: &Field) -> Result<Option<Field>, Error> {
    let blocks = world.gatherv(&mine.cells, ROOT)?;
    Ok(blocks.map(|blocks| {
        let mut field = Field::filled(grid.size, 0.0);
        grid.tiles().zip(&blocks).for_each(|(tile, cells)| field.paste(&tile, cells));
        field
    }))
}
