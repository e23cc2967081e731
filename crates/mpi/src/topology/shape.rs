//! A topology as a value: what a communicator was made as, and how its exchanges are numbered. It
//! knows no communicator, so that a communicator can have one.

use std::cell::Cell;
use std::rc::Rc;

use hikyaku_coll::topology::{Cartesian, Graph, Links, TopologyError};
use hikyaku_rank::persistent::Correspondence;

/// What a communicator was made as.
#[derive(Debug)]
pub(super) enum Shape {
    Grid(Cartesian),
    Graph(Graph),
    /// A distributed graph: whether the program has given weights.
    Distributed(bool),
}

/// The topology of a communicator.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(super) shape: Rc<Shape>,
    pub(super) links: Rc<Links>,
    /// Whether every edge has two ends, so that neighbours can exchange.
    pub(super) usable: Result<(), TopologyError>,
    /// Above all channels of all ranks.
    pub(super) channels: u32,
    /// Exchanges that were run once, and those that were made to be started: every rank numbers
    /// the same ones the same.
    pub(super) run: Cell<u32>,
    kept: Cell<u32>,
    /// How exchanges go that are run at once.
    pub(super) way: Correspondence,
}

/// The tags of one exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags {
    pub(super) base: u32,
    kind: u32,
}

/// Set in the tags of persistent exchanges, which live as long as they like.
const KEPT: u32 = 1 << 30;

impl Tags {
    /// The tag of an edge: the same at both ends.
    pub(super) fn of(self, channel: u32) -> i32 {
        ((self.base.wrapping_add(channel) % KEPT) | self.kind) as i32
    }
}

impl Topology {
    pub(super) fn of(
        shape: Shape,
        links: Links,
        channels: u32,
        usable: Result<(), TopologyError>,
    ) -> Topology {
        let (shape, links) = (Rc::new(shape), Rc::new(links));
        Topology::new(shape, links, channels, usable)
    }

    pub(super) fn new(
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
    pub(super) fn next_run(&self) -> Tags {
        Tags { base: self.next(&self.run), kind: 0 }
    }

    /// Numbers the next exchange that is made to be started.
    pub(super) fn next_kept(&self) -> Tags {
        Tags { base: self.next(&self.kept), kind: KEPT }
    }

    fn next(&self, count: &Cell<u32>) -> u32 {
        let number = count.get();
        count.set(number.wrapping_add(1));
        number.wrapping_mul(self.channels)
    }
}
