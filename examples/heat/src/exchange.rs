//! Everything the ranks say to each other.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    may we start, and with what
//!   distribute   rank 0 ─► each   send/recv    its block of the initial field
//!   Exchange     side by side     neighbours   edges, in every step
//!   largest      all ◄─► all      allreduce    the largest change
//!   collect      all ─► rank 0    gatherv      the blocks of the final field
//!   splits       all ─► rank 0    gather       where the time went
//! ```

use std::ops::Range;
use std::time::Duration;

use clap::ValueEnum;
use hikyaku::persistent::{self, Neighbour, Neighbours};
use hikyaku::topology::{Neighbourhood, Reorder};
use hikyaku::{Error, Op, SharedBuffer, Time, World};

use crate::block::Block;
use crate::config::Boundary;
use crate::decompose::Decomposition;
use crate::field::{Extent, Field};
use crate::halo::Halo;
use crate::solver::{Part, Plan, Split, Stopwatch};
use crate::stencil::Stencil;

/// The rank that reads, writes and talks to people.
pub const ROOT: u32 = 0;

/// Tag of a block of the initial field.
const BLOCK: i32 = 1;

/// How the ranks exchange edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Exchange, then compute.
    Blocking,
    /// Start the exchange, compute what does not need it, then wait for it.
    Nonblocking,
    /// The same with an exchange that is set up once and goes on by itself once it is started.
    Persistent,
}

impl Kind {
    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Blocking => "blocking",
            Kind::Nonblocking => "nonblocking",
            Kind::Persistent => "persistent",
        }
    }
}

/// Rank 0 tells all others what is to be computed, or that its input was no good: `None` on every
/// rank, which then end together. Nobody waits for blocks that never come.
///
/// # Errors
/// Another rank failed.
pub fn announce(world: &World, plan: Option<&Plan>) -> Result<Option<Plan>, Error> {
    let mut numbers = plan.map_or([0.0; NUMBERS], to_numbers);
    world.broadcast(&mut numbers, ROOT)?;
    Ok(from_numbers(&numbers))
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
        let mut block = Field::filled(mine.extent, 0.0);
        if mine.extent.cells() > 0 {
            world.recv(block.cells_mut(), ROOT, BLOCK)?;
        }
        return Ok(block);
    };
    for (rank, tile) in (0..).zip(grid.tiles()) {
        if rank != world.rank() && tile.extent.cells() > 0 {
            world.send(field.cut(&tile).cells(), rank, BLOCK)?;
        }
    }
    Ok(field.cut(&mine))
}

/// A rank's exchange of edges with its neighbours: set up once, used in every step.
#[derive(Debug)]
pub struct Exchange<'w> {
    world: &'w World,
    kind: Kind,
    halo: Halo,
    /// Where the edges lie in both buffers.
    ranges: Vec<Range<usize>>,
    way: Way,
}

/// How edges get to the blocks around this one and back, in the order of the halo's edges. What
/// goes out and what comes in is in memory that the node's other ranks reach directly.
#[derive(Debug)]
enum Way {
    /// Messages in every step.
    Messages { neighbours: Neighbourhood, out: SharedBuffer<f64>, into: SharedBuffer<f64> },
    /// An exchange that has both buffers.
    Persistent(persistent::Exchange<f64>),
}

impl Way {
    fn new(
        world: &World,
        kind: Kind,
        ranks: &[u32],
        ranges: &[Range<usize>],
    ) -> Result<Way, Error> {
        let numbers = ranges.last().map_or(0, |range| range.end);
        let (out, into) = (world.alloc(numbers)?, world.alloc(numbers)?);
        // Both ends see each edge: whom I send to, I hear from.
        if kind == Kind::Persistent {
            let edge = |(rank, range): (&u32, &Range<usize>)| Neighbour {
                rank: *rank,
                elements: range.clone(),
            };
            let edges: Vec<Neighbour> = ranks.iter().zip(ranges).map(edge).collect();
            let neighbours =
                Neighbours { sources: edges.clone(), destinations: edges, scheme: None };
            return Ok(Way::Persistent(world.exchange_init(&neighbours, out, into)?));
        }
        // The blocks are where they are, so ranks are not reordered.
        let neighbours = world.dist_graph_adjacent(ranks, ranks, Reorder::Keep)?;
        Ok(Way::Messages { neighbours, out, into })
    }

    fn out(&mut self) -> Result<&mut [f64], Error> {
        match self {
            Way::Messages { out, .. } => Ok(out),
            Way::Persistent(exchange) => exchange.outgoing_mut(),
        }
    }

    fn heard(&self) -> Result<&[f64], Error> {
        match self {
            Way::Messages { into, .. } => Ok(into),
            Way::Persistent(exchange) => exchange.incoming(),
        }
    }
}

impl<'w> Exchange<'w> {
    /// Sets up the exchange of this rank's block. All ranks call this together.
    ///
    /// # Errors
    /// Another rank failed, or there is no memory for the buffers.
    pub fn new(
        world: &'w World,
        kind: Kind,
        grid: &Decomposition,
        block: &Block,
    ) -> Result<Exchange<'w>, Error> {
        let halo = Halo::new(block, grid, world.rank());
        let ranks: Vec<u32> = halo.edges().iter().map(|edge| edge.rank).collect();
        let ranges = halo.ranges();
        let way = Way::new(world, kind, &ranks, &ranges)?;
        Ok(Exchange { world, kind, halo, ranges, way })
    }

    /// Brings the neighbours' edges into the block's frame, and computes its interior.
    ///
    /// The exchange reads `out` and writes `into`; the interior reads `current` and writes `next`.
    /// Nothing is both read and written, so it cannot matter when the messages travel: that the
    /// borrow checker accepts this function is the proof that overlapping changes no bit.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn step(&mut self, block: &mut Block, watch: &mut Stopwatch) -> Result<(), Error> {
        self.halo.pack(&block.current, self.way.out()?);
        watch.book(Part::Copying);
        self.stamp()?;
        let Block { shape, stencil, ratio, ref current, ref mut next, .. } = *block;
        let mut compute = |watch: &mut Stopwatch| {
            Block::interior(shape, stencil, ratio, current, next);
            watch.book(Part::Computing);
        };
        let Exchange { world, ranges, .. } = self;
        let waits = match &mut self.way {
            Way::Persistent(exchange) => {
                exchange.start()?;
                watch.book(Part::Moving);
                compute(watch);
                let waits = world.now();
                exchange.wait()?;
                waits
            }
            Way::Messages { neighbours, out, into } if self.kind == Kind::Blocking => {
                let waits = world.now();
                neighbours.neighbour_alltoallv(out, ranges, into, ranges)?;
                waits
            }
            Way::Messages { neighbours, out, into } => world.scope(|scope| {
                let edges = scope.ineighbour_alltoallv(neighbours, out, ranges, into, ranges)?;
                watch.book(Part::Moving);
                compute(watch);
                let waits = world.now();
                edges.wait()?;
                Ok(waits)
            })?,
        };
        watch.book_exchange(self.late(waits)?);
        if self.kind == Kind::Blocking {
            compute(watch);
        }
        self.halo.unpack(self.way.heard()?, &mut block.current);
        watch.book(Part::Copying);
        Ok(())
    }

    /// Notes in every message when it was ready to go. The ranks of a host have one clock.
    fn stamp(&mut self) -> Result<(), Error> {
        let now = f64::from_bits(self.world.now().picoseconds());
        let out = self.way.out()?;
        self.ranges.iter().for_each(|range| out[range.end - 1] = now);
        Ok(())
    }

    /// For how long after `since` the last neighbour had not yet begun. What more of the exchange
    /// there was, the data took.
    fn late(&self, since: Time) -> Result<Duration, Error> {
        let into = self.way.heard()?;
        let began = self.ranges.iter().map(|range| into[range.end - 1].to_bits());
        let last = began.max().unwrap_or(0);
        Ok(Duration::from_nanos(last.saturating_sub(since.picoseconds()) / 1000))
    }
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
    block: &Block,
) -> Result<Option<Field>, Error> {
    let blocks = world.gatherv(block.field().cells(), ROOT)?;
    Ok(blocks.map(|blocks| {
        let mut field = Field::filled(plan.extent, 0.0);
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

/// Numbers that a plan is sent as.
const NUMBERS: usize = 10;

/// The stencils, by the number that they are sent as.
const STENCILS: [Stencil; 3] = [Stencil::Five, Stencil::Nine, Stencil::Seven];

/// A plan as numbers of one type, ready to travel. The first says that there is one.
fn to_numbers(plan: &Plan) -> [f64; NUMBERS] {
    let Extent { width, height, depth } = plan.extent;
    let stencil = STENCILS.iter().position(|stencil| *stencil == plan.stencil);
    let outside = match plan.boundary {
        Boundary::Insulated => f64::NAN,
        Boundary::Fixed(temperature) => temperature,
    };
    let whole = [1, width, height, depth, stencil.unwrap_or_default()].map(|number| number as f64);
    let [one, width, height, depth, stencil] = whole;
    let (steps, every) = (plan.steps as f64, plan.check_every as f64);
    [one, width, height, depth, stencil, plan.ratio, outside, steps, plan.tolerance, every]
}

fn from_numbers(numbers: &[f64; NUMBERS]) -> Option<Plan> {
    let &[one, width, height, depth, stencil, ratio, outside, steps, tolerance, every] = numbers;
    (one == 1.0).then(|| Plan {
        extent: [width, height, depth].map(|length| length as usize).into(),
        stencil: STENCILS[stencil as usize],
        ratio,
        boundary: if outside.is_nan() { Boundary::Insulated } else { Boundary::Fixed(outside) },
        steps: steps as u64,
        tolerance,
        check_every: every as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_journey() {
        for (boundary, stencil) in [
            (Boundary::Insulated, Stencil::Five),
            (Boundary::Fixed(-273.15), Stencil::Nine),
            (Boundary::Fixed(0.0), Stencil::Seven),
        ] {
            let plan = Plan {
                extent: [1024, 3, 5].into(),
                stencil,
                ratio: 0.1 + 0.1,
                boundary,
                steps: u64::MAX,
                tolerance: 1e-300,
                check_every: 7,
            };
            assert_eq!(from_numbers(&to_numbers(&plan)), Some(plan));
        }
        assert_eq!(from_numbers(&[0.0; NUMBERS]), None, "bad input");
    }
}
