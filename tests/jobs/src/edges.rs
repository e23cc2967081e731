//! Persistent exchanges of both kinds along the edges of a graph that all ranks know.

use std::hint::spin_loop;

use hikyaku::persistent::{Exchange, Neighbour, Neighbours, Scheme, StagedExchange};
use hikyaku::{Error, World};

use crate::{Random, at_length};

/// Every scheme, with each kind of buffers: shared, or staged.
pub const KINDS: [(Option<Scheme>, bool); 10] = [
    (None, false),
    (None, true),
    (Some(Scheme::Fast), false),
    (Some(Scheme::Fast), true),
    (Some(Scheme::Mrc), false),
    (Some(Scheme::Mrc), true),
    (Some(Scheme::Combined), false),
    (Some(Scheme::Combined), true),
    (Some(Scheme::Messages), false),
    (Some(Scheme::Messages), true),
];

/// An exchange of either kind, with the program's side of its buffers.
#[derive(Debug)]
pub enum Either {
    /// It uses the program's buffers.
    Shared(Exchange<u32>),
    /// The program's data is copied.
    #[expect(missing_docs, reason = "the exchange and the program's buffers")]
    Staged { exchange: StagedExchange<u32>, out: Vec<u32>, into: Vec<u32> },
}

impl Either {
    /// Makes one with buffers as long as the edges need.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn new(world: &World, neighbours: &Neighbours, staged: bool) -> Result<Either, Error> {
        let end = |list: &[Neighbour]| list.iter().map(|edge| edge.elements.end).max().unwrap_or(0);
        let (out, into) = (end(&neighbours.destinations), end(&neighbours.sources));
        if staged {
            let exchange = world.staged_exchange_init(neighbours)?;
            return Ok(Either::Staged { exchange, out: vec![0; out], into: vec![0; into] });
        }
        let (out, into) = (world.alloc(out)?, world.alloc(into)?);
        Ok(Either::Shared(world.exchange_init(neighbours, out, into)?))
    }

    /// The data that the next start sends.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn outgoing(&mut self) -> Result<&mut [u32], Error> {
        match self {
            Either::Shared(exchange) => exchange.outgoing_mut(),
            Either::Staged { out, .. } => Ok(out),
        }
    }

    /// Whether its rounds use messages.
    pub fn is_by_messages(&self) -> bool {
        match self {
            Either::Shared(exchange) => exchange.is_by_messages(),
            Either::Staged { exchange, .. } => exchange.is_by_messages(),
        }
    }

    /// Starts a round.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn start(&mut self) -> Result<(), Error> {
        match self {
            Either::Shared(exchange) => exchange.start(),
            Either::Staged { exchange, out, .. } => {
                exchange.start_from(out)?;
                // The buffer belongs to the program again, and may be overwritten.
                out.fill(u32::MAX);
                Ok(())
            }
        }
    }

    /// Whether the round has ended.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn test(&mut self) -> Result<bool, Error> {
        match self {
            Either::Shared(exchange) => exchange.test(),
            Either::Staged { exchange, into, .. } => exchange.test_into(into),
        }
    }

    /// Waits, and returns the incoming data.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn wait(&mut self) -> Result<&[u32], Error> {
        match self {
            Either::Shared(exchange) => {
                exchange.wait()?;
                exchange.incoming()
            }
            Either::Staged { exchange, into, .. } => {
                exchange.wait_into(into)?;
                Ok(into)
            }
        }
    }

    /// Frees it.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn free(self) -> Result<(), Error> {
        match self {
            Either::Shared(exchange) => exchange.free(),
            Either::Staged { exchange, .. } => exchange.free(),
        }
    }

    /// The incoming data of a round that [`Either::test`] has found complete.
    ///
    /// # Errors
    /// As those of the exchange.
    pub fn incoming(&mut self) -> Result<&[u32], Error> {
        match self {
            Either::Shared(exchange) => exchange.incoming(),
            Either::Staged { into, .. } => Ok(into),
        }
    }
}

/// An edge of a graph that all ranks know: from, to, elements.
pub type Edge = (u32, u32, usize);

/// This rank's edges.
#[derive(Debug)]
pub struct OwnEdges {
    /// Their elements in its buffers.
    pub neighbours: Neighbours,
    /// The indices in the whole list of the outgoing edges, and of the incoming ones.
    numbers: (Vec<usize>, Vec<usize>),
}

/// This rank's edges of a graph.
pub fn own_edges(world: &World, edges: &[Edge]) -> OwnEdges {
    let mut neighbours = Neighbours::default();
    let (mut outs, mut ins) = (Vec::new(), Vec::new());
    let (mut out, mut into) = (0, 0);
    for (number, &(from, to, length)) in edges.iter().enumerate() {
        if from == world.rank() {
            neighbours.destinations.push(Neighbour { rank: to, elements: out..out + length });
            outs.push(number);
            out += length;
        }
        if to == world.rank() {
            neighbours.sources.push(Neighbour { rank: from, elements: into..into + length });
            ins.push(number);
            into += length;
        }
    }
    OwnEdges { neighbours, numbers: (outs, ins) }
}

/// Element `at` of the data on an edge in a round.
fn element(edge: usize, round: u32, at: usize) -> u32 {
    (edge as u32).wrapping_mul(0x9e37_79b9) ^ round.wrapping_mul(0x85eb_ca6b) ^ at as u32
}

/// Computes for a while. A pause is some 40 ns, and a message takes a microsecond: up to several
/// times that, and at length now and then up to a hundred times, so that the others fall asleep.
/// Longer pauses each time were most of the processor time of every call.
fn jitter(random: &mut Random, at_length: bool) {
    let most = if at_length && random.below(16) == 0 { 2_000 } else { 200 };
    for _ in 0..random.below(4) * random.below(most) {
        spin_loop();
    }
}

/// Runs `rounds` rounds along the edges, in which every rank starts at any time.
///
/// # Errors
/// As those of the exchange.
///
/// # Panics
/// The received data differ from the sent data.
pub fn rounds(
    exchange: &mut Either,
    edges: &OwnEdges,
    rounds: u32,
    random: &mut Random,
) -> Result<(), Error> {
    let (Neighbours { sources, destinations, .. }, (outs, ins)) =
        (&edges.neighbours, &edges.numbers);
    let at_length = at_length();
    for round in 0..rounds {
        jitter(random, at_length);
        let out = exchange.outgoing()?;
        for (edge, number) in destinations.iter().zip(outs) {
            let elements = out[edge.elements.clone()].iter_mut().enumerate();
            elements.for_each(|(at, place)| *place = element(*number, round, at));
        }
        exchange.start()?;
        jitter(random, at_length);
        let into = exchange.wait()?;
        for (edge, number) in sources.iter().zip(ins) {
            for (at, found) in into[edge.elements.clone()].iter().enumerate() {
                assert_eq!(*found, element(*number, round, at), "edge {number}, round {round}");
            }
        }
    }
    Ok(())
}
