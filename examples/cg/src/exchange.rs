//! Everything the ranks say to each other.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    may we start, and who has which rows
//!   distribute   rank 0 ─► each   send/recv    its rows of the matrix
//!   Exchange     side by side     neighbours   entries of the vector, in every iteration
//!   sum          all ◄─► all      allreduce    dot products
//!   collect      all ─► rank 0    gatherv      the solution
//!   splits       all ─► rank 0    gather       where the time went
//! ```

use std::ops::Range;

use clap::ValueEnum;
use hikyaku::persistent::{self, Neighbour, Neighbours};
use hikyaku::topology::{Edge, Neighbourhood, Reorder};
use hikyaku::{Error, Op, SharedBuffer, World};

use crate::csr::Csr;
use crate::local::Local;
use crate::partition::Partition;
use crate::solver::{Part, Split, Stopwatch};

/// The rank that reads, writes and talks to people.
pub const ROOT: u32 = 0;

/// Tags of the parts of a block of rows.
const LENGTHS: i32 = 1;
const COLUMNS: i32 = 2;
const VALUES: i32 = 3;

/// How the ranks exchange entries of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Exchange, then multiply.
    Blocking,
    /// Start the exchange, multiply with the own entries, then wait for it.
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

/// Rank 0 tells all others who has which rows, or that its input was no good: `None` on every
/// rank, which then end together.
///
/// # Errors
/// Another rank failed.
pub fn announce(world: &World, partition: Option<&Partition>) -> Result<Option<Partition>, Error> {
    let mut starts = partition.map_or_else(
        || vec![0; world.size() as usize + 1],
        |partition| partition.starts().to_vec(),
    );
    world.broadcast(&mut starts, ROOT)?;
    // A matrix has at least one row.
    let any = starts.last().is_some_and(|end| *end > 0);
    Ok(any.then(|| Partition::from_starts(starts)))
}

/// Rank 0 hands out the rows; every rank gets its own, which may be none.
///
/// # Errors
/// Another rank failed.
pub fn distribute(
    world: &World,
    partition: &Partition,
    matrix: Option<&Csr>,
) -> Result<Csr, Error> {
    let complete = "rank 0 sends as many columns and values as the lengths say";
    let Some(matrix) = matrix else {
        let mut lengths = vec![0u32; partition.rows(world.rank()).len()];
        world.recv(&mut lengths, ROOT, LENGTHS)?;
        let entries: usize = lengths.iter().map(|length| *length as usize).sum();
        let (mut columns, mut values) = (vec![0u32; entries], vec![0.0f64; entries]);
        world.recv(&mut columns, ROOT, COLUMNS)?;
        world.recv(&mut values, ROOT, VALUES)?;
        return Ok(Csr::from_parts(&lengths, columns, values).expect(complete));
    };
    for rank in (0..world.size()).filter(|rank| *rank != world.rank()) {
        let (lengths, columns, values) = matrix.parts(partition.rows(rank));
        world.send(&lengths, rank, LENGTHS)?;
        world.send(columns, rank, COLUMNS)?;
        world.send(values, rank, VALUES)?;
    }
    let (lengths, columns, values) = matrix.parts(partition.rows(world.rank()));
    Ok(Csr::from_parts(&lengths, columns.to_vec(), values.to_vec()).expect(complete))
}

/// A rank's exchange of vector entries: set up once, used in every iteration.
#[derive(Debug)]
pub struct Exchange<'w> {
    world: &'w World,
    kind: Kind,
    /// Own entries that are sent, neighbour after neighbour.
    entries: Vec<u32>,
    sends: Vec<Range<usize>>,
    receives: Vec<Range<usize>>,
    way: Way,
}

/// How entries get to the neighbours and back. What goes out and what comes in is in memory that
/// the node's other ranks reach directly.
#[derive(Debug)]
enum Way {
    /// Messages in every iteration.
    Messages { neighbours: Neighbourhood, out: SharedBuffer<f64>, into: SharedBuffer<f64> },
    /// An exchange that has both buffers.
    Persistent(persistent::Exchange<f64>),
}

impl Way {
    fn new(
        world: &World,
        kind: Kind,
        local: &Local,
        (sends, receives): (&[Range<usize>], &[Range<usize>]),
    ) -> Result<Way, Error> {
        let (out, into) = (world.alloc(local.sent())?, world.alloc(local.received())?);
        let ranks = || local.neighbours.iter().map(|neighbour| neighbour.rank);
        if kind == Kind::Persistent {
            let edges = |ranges: &[Range<usize>]| {
                let edge = |(rank, range): (u32, &Range<usize>)| Neighbour {
                    rank,
                    elements: range.clone(),
                };
                ranks().zip(ranges).map(edge).collect()
            };
            let (sources, destinations) = (edges(receives), edges(sends));
            let neighbours = Neighbours { sources, destinations, scheme: None };
            return Ok(Way::Persistent(world.exchange_init(&neighbours, out, into)?));
        }
        let edges = |ranges: &[Range<usize>]| -> Vec<Edge> {
            let edge =
                |(rank, range): (u32, &Range<usize>)| Edge { rank, weight: range.len() as u32 };
            ranks().zip(ranges).map(edge).collect()
        };
        // The rows are where they are, so ranks are not reordered.
        let (sources, destinations) = (edges(receives), edges(sends));
        let neighbours = world.dist_graph_adjacent(&sources, &destinations, Reorder::Keep)?;
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
    /// Sets up the exchange. All ranks call this together.
    ///
    /// # Errors
    /// Another rank failed, or there is no memory for the buffers.
    pub fn new(world: &'w World, kind: Kind, local: &Local) -> Result<Exchange<'w>, Error> {
        let neighbours = local.neighbours.iter();
        let mut end = 0;
        let sends = neighbours.clone().map(|neighbour| {
            let start = end;
            end += neighbour.sends.len();
            start..end
        });
        let sends: Vec<_> = sends.collect();
        let entries = neighbours.clone().flat_map(|n| n.sends.iter().copied()).collect();
        let receives: Vec<_> = neighbours.map(|neighbour| neighbour.receives.clone()).collect();
        let way = Way::new(world, kind, local, (&sends, &receives))?;
        Ok(Exchange { world, kind, entries, sends, receives, way })
    }

    /// `out = matrix · x`, where every rank has its rows of all three.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn multiply(
        &mut self,
        local: &Local,
        x: &[f64],
        out: &mut [f64],
        watch: &mut Stopwatch,
    ) -> Result<(), Error> {
        for (place, entry) in self.way.out()?.iter_mut().zip(&self.entries) {
            *place = x[*entry as usize];
        }
        let Exchange { world, sends, receives, .. } = self;
        match &mut self.way {
            Way::Persistent(exchange) => {
                exchange.start()?;
                watch.book(Part::Exchange);
                local.own.multiply(x, out, false);
                watch.book(Part::Computing);
                exchange.wait()?;
                watch.book(Part::Exchange);
            }
            Way::Messages { neighbours, out: sent, into } if self.kind == Kind::Blocking => {
                neighbours.neighbour_alltoallv(sent, sends, into, receives)?;
                watch.book(Part::Exchange);
                local.own.multiply(x, out, false);
            }
            Way::Messages { neighbours, out: sent, into } => world.scope(|scope| {
                let entries =
                    scope.ineighbour_alltoallv(neighbours, sent, sends, into, receives)?;
                watch.book(Part::Exchange);
                local.own.multiply(x, out, false);
                watch.book(Part::Computing);
                entries.wait()?;
                watch.book(Part::Exchange);
                Ok(())
            })?,
        }
        local.others.multiply(self.way.heard()?, out, true);
        watch.book(Part::Computing);
        Ok(())
    }
}

/// The sum of all ranks' numbers, the same bits on every rank.
///
/// # Errors
/// Another rank failed.
pub fn sum(world: &World, here: f64) -> Result<f64, Error> {
    let mut number = [here];
    world.allreduce(&mut number, Op::Sum)?;
    Ok(number[0])
}

/// The ranks' parts of a vector put together, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn collect(world: &World, mine: &[f64]) -> Result<Option<Vec<f64>>, Error> {
    Ok(world.gatherv(mine, ROOT)?.map(|blocks| blocks.concat()))
}

/// What rank 0 wants to know of each rank: rows, entries, neighbours, entries sent in a product.
pub type Load = [u64; 4];

/// Each rank's load and where its time went, by rank, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn loads(world: &World, local: &Local) -> Result<Option<Vec<Load>>, Error> {
    let numbers = [
        local.rows(),
        local.own.entries() + local.others.entries(),
        local.neighbours.len(),
        local.sent(),
    ];
    let loads = world.gather(&numbers.map(|number| number as u64), ROOT)?;
    Ok(loads.map(|loads| loads.as_chunks().0.to_vec()))
}

/// Where each rank's time went, by rank, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn splits(world: &World, split: &Split) -> Result<Option<Vec<Split>>, Error> {
    let seconds = world.gather(split, ROOT)?;
    Ok(seconds.map(|seconds| seconds.as_chunks().0.to_vec()))
}
