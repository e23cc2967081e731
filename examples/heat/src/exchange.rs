//! Everything the ranks say to each other.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    may we start, and with what
//!   distribute   rank 0 ─► each   send/recv    its block of the initial field
//!   Exchange     side by side     neighbours   edges, in every step
//!   solve        all ◄─► all      allreduce    the largest change
//!   collect      all ─► rank 0    gatherv      the blocks of the final field
//!   splits       all ─► rank 0    gather       where the time went
//! ```

use std::ops::Range;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use hikyaku::persistent::{self, Neighbour, Neighbours};
use hikyaku::topology::{Neighbourhood, Reorder};
use hikyaku::{Error, Op, SharedBuffer, World};

use crate::block::{Block, Halo};
use crate::config::Plan;
use crate::field::{Decomposition, Field};

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

/// A rank's exchange of edges with its neighbours: set up once, used in every step.
#[derive(Debug)]
pub struct Exchange<'w> {
    world: &'w World,
    halo: Halo,
    /// Where the edges lie in both buffers.
    ranges: Vec<Range<usize>>,
    method: Method,
}

/// How edges get to the blocks around this one and back, in the order of the halo's edges. What
/// goes out and what comes in is in memory that the node's other ranks reach directly.
#[derive(Debug)]
enum Method {
    /// Messages in every step; whether the interior is computed meanwhile.
    Messages {
        overlap: bool,
        neighbours: Neighbourhood,
        out: SharedBuffer<f64>,
        into: SharedBuffer<f64>,
    },
    /// An exchange that has both buffers.
    Persistent(persistent::Exchange<f64>),
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
        let ranges: Vec<Range<usize>> = halo.0.iter().map(|edge| edge.range.clone()).collect();
        let (out, into) = (world.alloc(halo.numbers())?, world.alloc(halo.numbers())?);
        // Both ends see each edge: whom I send to, I hear from.
        let method = if kind == Kind::Persistent {
            let edges = halo.0.iter();
            let edges: Vec<Neighbour> = edges
                .map(|edge| Neighbour { rank: edge.rank, elements: edge.range.clone() })
                .collect();
            let neighbours =
                Neighbours { sources: edges.clone(), destinations: edges, scheme: None };
            Method::Persistent(world.exchange_init(&neighbours, out, into)?)
        } else {
            let ranks: Vec<u32> = halo.0.iter().map(|edge| edge.rank).collect();
            // The blocks are where they are, so ranks are not reordered.
            let neighbours = world.dist_graph_adjacent(&ranks[..], &ranks[..], Reorder::Keep)?;
            Method::Messages { overlap: kind == Kind::Nonblocking, neighbours, out, into }
        };
        Ok(Exchange { world, halo, ranges, method })
    }

    /// Brings the neighbours' edges into the block's frame, and computes its interior.
    ///
    /// The exchange reads `out` and writes `into`; the interior reads and writes the block. No
    /// memory is in both, so it cannot matter when the messages travel: that the borrow checker
    /// accepts this function is the proof that overlapping changes no bit.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn step(&mut self, block: &mut Block, watch: &mut Stopwatch) -> Result<(), Error> {
        let Exchange { world, halo, ranges, method } = self;
        let out = match method {
            Method::Messages { out, .. } => &mut out[..],
            Method::Persistent(exchange) => exchange.outgoing_mut()?,
        };
        halo.pack(block, out);
        watch.book(Part::Copying);
        // Every message says when it was ready to go. The ranks of a host have one clock.
        let now = f64::from_bits(world.now().picoseconds());
        ranges.iter().for_each(|range| out[range.end - 1] = now);
        let mut compute = |watch: &mut Stopwatch| {
            block.interior();
            watch.book(Part::Computing);
        };
        let mut computed = true;
        let waits = match method {
            Method::Persistent(exchange) => {
                exchange.start()?;
                watch.book(Part::Moving);
                compute(watch);
                let waits = world.now();
                exchange.wait()?;
                waits
            }
            Method::Messages { overlap: true, neighbours, out, into } => world.scope(|scope| {
                let edges = scope.ineighbour_alltoallv(neighbours, out, ranges, into, ranges)?;
                watch.book(Part::Moving);
                compute(watch);
                let waits = world.now();
                edges.wait()?;
                Ok(waits)
            })?,
            Method::Messages { neighbours, out, into, .. } => {
                computed = false;
                let waits = world.now();
                neighbours.neighbour_alltoallv(out, ranges, into, ranges)?;
                waits
            }
        };
        let heard = match method {
            Method::Messages { into, .. } => &into[..],
            Method::Persistent(exchange) => exchange.incoming()?,
        };
        // Until the last neighbour has begun, a rank waits for it; what more there was of the
        // exchange, the data took.
        let began = ranges.iter().map(|range| heard[range.end - 1].to_bits());
        let late = began.max().unwrap_or(0).saturating_sub(waits.picoseconds());
        watch.book_exchange(Duration::from_nanos(late / 1000));
        if !computed {
            compute(watch);
        }
        halo.unpack(heard, block);
        watch.book(Part::Copying);
        Ok(())
    }
}

/// What a rank did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
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
    plan: &Plan,
    block: &mut Block,
    exchange: &mut Exchange<'_>,
    mut observe: impl FnMut(u64, Option<f64>),
) -> Result<Outcome, Error> {
    let mut watch = Stopwatch::start();
    let (mut steps, mut change) = (0, None);
    // The largest change is the same number on every rank, so all leave in the same step.
    while steps < plan.steps && change.is_none_or(|change| change > plan.tolerance) {
        steps += 1;
        exchange.step(block, &mut watch)?; // the interior may be computed in here
        block.mirror();
        block.rim();
        if plan.checks_in(steps) {
            // A maximum does not depend on the order in which it is taken.
            let mut largest = [block.largest_change()];
            watch.book(Part::Computing);
            world.allreduce(&mut largest, Op::Max)?;
            change = Some(largest[0]);
            watch.book(Part::Reduction);
        }
        block.advance();
        observe(steps, change);
        watch.book(Part::Computing);
    }
    Ok(Outcome { steps, change: change.unwrap_or(0.0), split: watch.split() })
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
    let blocks = world.gatherv(&block.field().cells[..], ROOT)?;
    Ok(blocks.map(|blocks| {
        let mut field = Field::filled(plan.size, 0.0);
        grid.tiles().zip(&blocks).for_each(|(tile, cells)| field.paste(&tile, cells));
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

/// What a rank can be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Computing cells.
    Computing,
    /// Copying edges out of the block and into its frame.
    Copying,
    /// Exchanging edges: calls of the library, and waiting for data that is on its way.
    Moving,
    /// Waiting for a neighbour that has not started its exchange yet.
    Late,
    /// Agreeing on the largest change.
    Reduction,
}

/// The names of the parts, in order.
pub const PARTS: [&str; 5] = ["computing", "copying", "moving data", "late neighbour", "allreduce"];

/// Seconds for each [`Part`], in its order. Plain numbers, so that they can be gathered.
pub type Split = [f64; PARTS.len()];

/// Books every moment of a run to exactly one part.
#[derive(Debug)]
pub struct Stopwatch {
    booked_to: Instant,
    parts: [Duration; PARTS.len()],
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch { booked_to: Instant::now(), parts: [Duration::ZERO; PARTS.len()] }
    }

    /// Books the time since the last booking to `part`.
    pub fn book(&mut self, part: Part) {
        let now = Instant::now();
        self.parts[part as usize] += now - self.booked_to;
        self.booked_to = now;
    }

    /// Books the time since the last booking to an exchange, `late` of it to a late neighbour.
    pub fn book_exchange(&mut self, late: Duration) {
        let before = self.parts[Part::Moving as usize];
        self.book(Part::Moving);
        let late = late.min(self.parts[Part::Moving as usize] - before);
        self.parts[Part::Moving as usize] -= late;
        self.parts[Part::Late as usize] += late;
    }

    /// What was booked so far.
    pub fn split(&self) -> Split {
        self.parts.map(|part| part.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_booked_and_nobody_is_later_than_the_exchange_took() {
        let mut watch = Stopwatch::start();
        let began = watch.booked_to;
        for part in [Part::Computing, Part::Copying, Part::Reduction, Part::Computing] {
            watch.book(part);
        }
        watch.book_exchange(Duration::from_nanos(1));
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.booked_to - began);
        let moving = watch.parts[Part::Moving as usize];
        watch.book_exchange(Duration::MAX);
        assert_eq!(watch.parts[Part::Moving as usize], moving);
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.booked_to - began);
    }
}
