//! Topologies of communicators, and what neighbours exchange (MPI 5.0 chapter 8).
//!
//! ```text
//!   create.rs      makes communicators with a topology: all ranks agree on it (rank::topology)
//!   queries.rs     says what it is: grids, graphs, neighbours
//!   exchange.rs    neighbour collectives, described once; by messages
//!   letters.rs     those that are run at once, by letter
//!   persistent.rs  those in flight, and those that are started again and again
//! ```

mod create;
mod exchange;
mod letters;
mod persistent;
mod queries;

use std::cell::Cell;
use std::rc::Rc;

use hikyaku_coll::topology::{Cartesian, Graph, Links, TopologyError};
use hikyaku_rank::Communicator;
use hikyaku_rank::persistent::Correspondence;

pub use self::exchange::Exchange;
pub(crate) use self::persistent::Round;
use crate::communicators::Comm;
use crate::failure::{Class, Failure};

/// MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY as addresses, in both binary interfaces.
const UNWEIGHTED: usize = 10;
const WEIGHTS_EMPTY: usize = 11;

/// What a communicator was made as.
#[derive(Debug)]
enum Shape {
    Grid(Cartesian),
    Graph(Graph),
    /// A distributed graph: whether the program has given weights.
    Distributed(bool),
}

/// The topology of a communicator.
#[derive(Debug)]
pub(crate) struct Topology {
    shape: Rc<Shape>,
    links: Rc<Links>,
    /// Whether every edge has two ends, so that neighbours can exchange.
    usable: Result<(), TopologyError>,
    /// Above all channels of all ranks.
    channels: u32,
    /// Exchanges that were run once, and those that were made to be started: every rank numbers
    /// the same ones the same.
    run: Cell<u32>,
    kept: Cell<u32>,
    /// How exchanges go that are run at once.
    way: Correspondence,
}

/// The tags of one exchange.
#[derive(Debug, Clone, Copy)]
struct Tags {
    base: u32,
    kind: u32,
}

/// Set in the tags of persistent exchanges, which live as long as they like.
const KEPT: u32 = 1 << 30;

impl Tags {
    /// The tag of an edge: the same at both ends.
    fn of(self, channel: u32) -> i32 {
        ((self.base.wrapping_add(channel) % KEPT) | self.kind) as i32
    }
}

impl Topology {
    fn of(
        shape: Shape,
        links: Links,
        channels: u32,
        usable: Result<(), TopologyError>,
    ) -> Topology {
        let (shape, links) = (Rc::new(shape), Rc::new(links));
        Topology::new(shape, links, channels, usable)
    }

    fn new(
        shape: Rc<Shape>,
        links: Rc<Links>,
        channels: u32,
        usable: Result<(), TopologyError>,
    ) -> Topology {
        let (run, kept, way) = Default::default();
        Topology { shape, links, usable, channels, run, kept, way }
    }

    /// Numbers the next exchange that is run once. A tag comes again after so many that no message
    /// of the earlier one can be on the way.
    fn next_run(&self) -> Tags {
        Tags { base: self.next(&self.run), kind: 0 }
    }

    /// Numbers the next exchange that is made to be started.
    fn next_kept(&self) -> Tags {
        Tags { base: self.next(&self.kept), kind: KEPT }
    }

    fn next(&self, count: &Cell<u32>) -> u32 {
        let number = count.get();
        count.set(number.wrapping_add(1));
        number.wrapping_mul(self.channels)
    }
}

impl Comm {
    /// Gives it the topology of the one that it is a duplicate of (MPI 5.0 §7.4.2).
    pub(crate) fn take_topology(&self, from: &Comm) {
        let Some(known) = from.topology.get() else { return };
        // A new communicator has none.
        let (shape, links) = (Rc::clone(&known.shape), Rc::clone(&known.links));
        let topology = Topology::new(shape, links, known.channels, known.usable.clone());
        let _ = self.topology.set(topology);
    }

    /// Its ranks, to be arranged.
    fn one_group(&self) -> Result<&Communicator, Failure> {
        if self.is_inter() {
            let text = "an intercommunicator has no topology: its ranks are two groups";
            return Err(Failure::new(Class::Comm, text));
        }
        Ok(&self.inner)
    }

    /// Its topology, of any kind.
    fn topology(&self) -> Result<&Topology, Failure> {
        self.topology.get().ok_or_else(|| lacks("topology"))
    }

    fn shape(&self) -> Option<&Shape> {
        self.topology.get().map(|topology| &*topology.shape)
    }

    fn grid(&self) -> Result<&Cartesian, Failure> {
        match self.shape() {
            Some(Shape::Grid(grid)) => Ok(grid),
            _ => Err(lacks("Cartesian topology")),
        }
    }

    fn graph(&self) -> Result<&Graph, Failure> {
        match self.shape() {
            Some(Shape::Graph(graph)) => Ok(graph),
            _ => Err(lacks("graph topology: MPI_Graph_create makes one")),
        }
    }

    /// Its edges as a distributed graph, and whether they have weights.
    fn distributed(&self) -> Result<(&Links, bool), Failure> {
        match (self.topology.get(), self.shape()) {
            (Some(topology), Some(Shape::Distributed(weighted))) => {
                Ok((&topology.links, *weighted))
            }
            _ => Err(lacks("distributed graph topology")),
        }
    }
}

#[cold]
fn lacks(what: &str) -> Failure {
    Failure::new(Class::Topology, format!("the communicator has no {what}"))
}
