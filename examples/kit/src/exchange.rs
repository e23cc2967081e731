//! The exchange with the neighbours, in three ways that a program can choose from.
//!
//! ```text
//!   outgoing   [ edge ..  t | edge .. t | ... ]     one buffer, edge after edge; the last number
//!   incoming   [ edge ..  t | edge .. t | ... ]     of each edge says when it was ready to go
//! ```

use std::ops::Range;
use std::time::Duration;

use clap::ValueEnum;
use hikyaku::persistent::{self, Neighbour, Neighbours};
use hikyaku::topology::{Edge, Neighbourhood, Reorder};
use hikyaku::{Error, SharedBuffer, World};

use crate::times::{Stopwatch, TimePart};

/// How the ranks exchange edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExchangeKind {
    /// Exchange, then compute.
    Blocking,
    /// Start the exchange, compute what does not need it, then wait for it.
    Nonblocking,
    /// The same with an exchange that is set up once and goes on by itself once it is started.
    Persistent,
}

impl ExchangeKind {
    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ExchangeKind::Blocking => "blocking",
            ExchangeKind::Nonblocking => "nonblocking",
            ExchangeKind::Persistent => "persistent",
        }
    }
}

/// A rank's exchange with its neighbours: set up once, used in every step.
#[derive(Debug)]
pub struct NeighbourExchange<'w> {
    world: &'w World,
    /// The ranges of the edges in the outgoing, and in the incoming buffer.
    sends: Vec<Range<usize>>,
    receives: Vec<Range<usize>>,
    method: ExchangeMethod,
}

/// The transport of the edges. Outgoing and incoming data are in memory that the node's other ranks
/// access directly.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a program")]
enum ExchangeMethod {
    /// Messages in every step; `overlap`: the program computes meanwhile.
    Messages {
        overlap: bool,
        neighbours: Neighbourhood,
        out: SharedBuffer<f64>,
        into: SharedBuffer<f64>,
    },
    /// An exchange that owns both buffers.
    Persistent(persistent::Exchange<f64>),
}

impl ExchangeMethod {
    fn outgoing(&mut self) -> Result<&mut [f64], Error> {
        match self {
            ExchangeMethod::Messages { out, .. } => Ok(out),
            ExchangeMethod::Persistent(exchange) => exchange.outgoing_mut(),
        }
    }

    fn incoming(&self) -> Result<&[f64], Error> {
        match self {
            ExchangeMethod::Messages { into, .. } => Ok(into),
            ExchangeMethod::Persistent(exchange) => exchange.incoming(),
        }
    }
}

impl<'w> NeighbourExchange<'w> {
    /// Sets up the exchange along these edges. The elements of the edges are in ascending order
    /// without gaps, and the last one of each belongs to the exchange. All ranks call this
    /// together.
    ///
    /// # Errors
    /// Another rank failed, or there is no memory for the buffers.
    pub fn new(
        world: &'w World,
        kind: ExchangeKind,
        neighbours: &Neighbours,
    ) -> Result<NeighbourExchange<'w>, Error> {
        let Neighbours { sources, destinations, .. } = neighbours;
        let numbers = |edges: &[Neighbour]| edges.last().map_or(0, |edge| edge.elements.end);
        let (out, into) = (world.alloc(numbers(destinations))?, world.alloc(numbers(sources))?);
        let method = if kind == ExchangeKind::Persistent {
            ExchangeMethod::Persistent(world.exchange_init(neighbours, out, into)?)
        } else {
            let edge = |to: &Neighbour| Edge { rank: to.rank, weight: to.elements.len() as u32 };
            let edges = |of: &[Neighbour]| of.iter().map(edge).collect::<Vec<_>>();
            // The data stays where it is, so ranks are not reordered.
            let (sources, destinations) = (edges(sources), edges(destinations));
            let neighbours = world.dist_graph_adjacent(&sources, &destinations, Reorder::Keep)?;
            ExchangeMethod::Messages {
                overlap: kind == ExchangeKind::Nonblocking,
                neighbours,
                out,
                into,
            }
        };
        let ranges = |edges: &[Neighbour]| edges.iter().map(|edge| edge.elements.clone()).collect();
        Ok(NeighbourExchange {
            world,
            sends: ranges(destinations),
            receives: ranges(sources),
            method,
        })
    }

    /// The data that the next step sends.
    ///
    /// # Errors
    /// A persistent exchange has failed.
    pub fn outgoing(&mut self) -> Result<&mut [f64], Error> {
        self.method.outgoing()
    }

    /// The data that the last step received.
    ///
    /// # Errors
    /// A persistent exchange has failed.
    pub fn incoming(&self) -> Result<&[f64], Error> {
        self.method.incoming()
    }

    /// Sends `outgoing`, receives the neighbours' data into `incoming`, and calls `compute` once:
    /// meanwhile if the kind of exchange allows it, otherwise afterwards.
    ///
    /// `compute` cannot access either buffer, so the time of the messages cannot matter: that the
    /// borrow checker accepts this function is the proof that overlapping changes no bit.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn run(&mut self, watch: &mut Stopwatch, mut compute: impl FnMut()) -> Result<(), Error> {
        let NeighbourExchange { world, sends, receives, method } = self;
        // The ranks of a host have one clock.
        let now = f64::from_bits(world.now().picoseconds());
        let out = method.outgoing()?;
        sends.iter().for_each(|range| out[range.end - 1] = now);
        let mut compute = |watch: &mut Stopwatch| {
            compute();
            watch.book(TimePart::Computing);
        };
        let mut computed = true;
        let waits = match method {
            ExchangeMethod::Persistent(exchange) => {
                exchange.start()?;
                watch.book(TimePart::Moving);
                compute(watch);
                let waits = world.now();
                exchange.wait()?;
                waits
            }
            ExchangeMethod::Messages { overlap: true, neighbours, out, into } => {
                world.scope(|scope| {
                    let edges =
                        scope.ineighbour_alltoallv(neighbours, out, sends, into, receives)?;
                    watch.book(TimePart::Moving);
                    compute(watch);
                    let waits = world.now();
                    edges.wait()?;
                    Ok(waits)
                })?
            }
            ExchangeMethod::Messages { neighbours, out, into, .. } => {
                computed = false;
                let waits = world.now();
                neighbours.neighbour_alltoallv(out, sends, into, receives)?;
                waits
            }
        };
        // Until the last neighbour has begun, a rank waits for it; the rest of the exchange is the
        // time of the data.
        let heard = method.incoming()?;
        let began = receives.iter().map(|range| heard[range.end - 1].to_bits());
        let late = began.max().unwrap_or(0).saturating_sub(waits.picoseconds());
        watch.book_exchange(Duration::from_nanos(late / 1000));
        if !computed {
            compute(watch);
        }
        Ok(())
    }
}
