//! Topologies of communicators, and neighbour collectives (MPI 5.0 chapter 8).
//!
//! ```text
//!   shape.rs       a topology as a value, and the numbers of its exchanges
//!   create.rs      makes communicators with a topology: all ranks agree on it (rank::topology)
//!   queries.rs     queries: grids, graphs, neighbours
//!   exchange.rs    neighbour collectives, described once; by messages
//!   letters.rs     blocking neighbour collectives, by letter
//!   persistent.rs  non-blocking and persistent ones
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
    /// Copies the topology of the communicator of which this one is a duplicate (MPI 5.0 §7.4.2).
    pub(crate) fn take_topology(&self, from: &Comm) {
        let Some(known) = from.topology.get() else { return };
        // The call of `set` succeeds: a new communicator has no topology.
        let (shape, links) = (Rc::clone(&known.shape), Rc::clone(&known.links));
        let topology = Topology::new(shape, links, known.channels, known.usable.clone());
        let _ = self.topology.set(topology);
    }

    /// The ranks of the single group, for a new topology.
    fn one_group(&self) -> Result<&Communicator, Failure> {
        if self.is_inter() {
            let text = "an intercommunicator has no topology: its ranks are two groups";
            return Err(Failure::new(Class::Comm, text));
        }
        Ok(&self.inner)
    }

    /// The topology, of any kind; an error if there is none.
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

    /// The edges of a distributed graph, and whether they have weights.
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
