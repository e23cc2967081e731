//! All communication between the ranks.
//!
//! ```text
//!   announce     rank 0 ─► all    broadcast    whether to start, and the rows of each rank
//!   distribute   rank 0 ─► each   send/recv    its rows of the matrix
//!   Product      side by side     neighbours   entries of the vector, in every iteration
//!   sum          all ◄─► all      allreduce    dot products
//!   collect      all ─► rank 0    gatherv      the solution
//!   loads        all ─► rank 0    gather       the load of each rank
//! ```

use std::ops::Range;

use hikyaku::persistent::{Neighbour, Neighbours};
use hikyaku::{Error, Op, World};
use kit::exchange::{ExchangeKind, NeighbourExchange};
use kit::program::ROOT;
use kit::times::{Stopwatch, TimePart};

use crate::csr::Csr;
use crate::local::{self, Local};
use crate::partition::Partition;

/// Tags of the parts of a block of rows.
const LENGTHS: i32 = 1;
const COLUMNS: i32 = 2;
const VALUES: i32 = 3;

/// Rank 0 tells all others the rows of each rank, or that its input was invalid: `None` on every
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

/// Rank 0 distributes the rows; every rank gets its own, which may be none.
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

/// A rank's products with its part of the matrix.
#[derive(Debug)]
pub struct Product<'a> {
    local: &'a Local,
    exchange: NeighbourExchange<'a>,
}

impl<'a> Product<'a> {
    /// Sets up the exchange. All ranks call this together.
    ///
    /// # Errors
    /// Another rank failed, or there is no memory for the buffers.
    pub fn new(
        world: &'a World,
        kind: ExchangeKind,
        local: &'a Local,
    ) -> Result<Product<'a>, Error> {
        let edges = |range: fn(&local::MatrixNeighbour) -> &Range<usize>| {
            // One number after the entries belongs to the exchange.
            let edge = |to: &local::MatrixNeighbour| Neighbour {
                rank: to.rank,
                elements: range(to).start..range(to).end + 1,
            };
            local.neighbours.iter().map(edge).collect()
        };
        let (sources, destinations) = (edges(|of| &of.receives), edges(|of| &of.sends));
        let neighbours = Neighbours { sources, destinations, scheme: None };
        Ok(Product { local, exchange: NeighbourExchange::new(world, kind, &neighbours)? })
    }

    /// `out = matrix · x`, where every rank has its rows of all three.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn multiply(
        &mut self,
        x: &[f64],
        out: &mut [f64],
        watch: &mut Stopwatch,
    ) -> Result<(), Error> {
        let Product { local, exchange } = self;
        local.pack(x, exchange.outgoing()?);
        watch.book(TimePart::Copying);
        exchange.run(watch, || local.own.multiply(x, out, false))?;
        local.others.multiply(exchange.incoming()?, out, true);
        watch.book(TimePart::Computing);
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

/// The ranks' parts of a vector, joined on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn collect(world: &World, mine: &[f64]) -> Result<Option<Vec<f64>>, Error> {
    Ok(world.gatherv(mine, ROOT)?.map(|blocks| blocks.concat()))
}

/// The load of a rank: rows, entries, neighbours, entries sent in a product.
pub type Load = [u64; 4];

/// Each rank's load, by rank, on rank 0; `None` elsewhere.
///
/// # Errors
/// Another rank failed.
pub fn loads(world: &World, local: &Local) -> Result<Option<Vec<Load>>, Error> {
    let numbers = [
        local.rows(),
        local.own.entries() + local.others.entries(),
        local.neighbours.len(),
        local.neighbours.iter().map(|neighbour| neighbour.entries.len()).sum(),
    ];
    let loads = world.gather(&numbers.map(|number| number as u64), ROOT)?;
    Ok(loads.map(|loads| loads.as_chunks().0.to_vec()))
}
