//! Topologies of communicators, and what neighbours exchange (MPI 5.0 chapter 8).
//!
//! ```text
//!   shape.rs       a topology as a value, and how its exchanges are numbered
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
mod shape;

use std::rc::Rc;

use hikyaku_coll::topology::{Cartesian, Graph, Links};
use hikyaku_rank::Communicator;

pub use self::exchange::Exchange;
pub(crate) use self::shape::Topology;
use self::shape::{Shape, Tags};
use crate::communicators::Comm;
use crate::failure::{Class, Failure};

/// MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY as addresses, in both binary interfaces.
const UNWEIGHTED: usize = 10;
const WEIGHTS_EMPTY: usize = 11;

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
