//! A topology as a value: the arguments with which a communicator was made, and the numbers of its
//! exchanges. It does not depend on communicators, so that a communicator can contain one.

use std::cell::Cell;
use std::rc::Rc;

use hikyaku_coll::topology::{Cartesian, Graph, Links, TopologyError};
use hikyaku_rank::persistent::Correspondence;

/// The kind of topology with which a communicator was made.
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
    /// Whether every edge has both ends, so that neighbours can exchange.
    pub(super) usable: Result<(), TopologyError>,
    /// An upper bound (exclusive) of the channels of all ranks.
    pub(super) channels: u32,
    /// The numbers of exchanges: those that run once, and persistent ones. All ranks number the
    /// same exchanges alike.
    pub(super) run: Cell<u32>,
    kept: Cell<u32>,
    /// The choice between letters and messages for blocking exchanges.
    pub(super) way: Correspondence,
}

/// The tags of one exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags {
    pub(super) base: u32,
    kind: u32,
}

/// Set in the tags of persistent exchanges, which have no limit on their lifetime.
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

    /// Numbers the next exchange that runs once. A tag is reused only after so many exchanges that
    /// no message of the earlier one can still be in flight.
    pub(super) fn next_run(&self) -> Tags {
        Tags { base: self.next(&self.run), kind: 0 }
    }

    /// Numbers the next persistent exchange.
    pub(super) fn next_kept(&self) -> Tags {
        Tags { base: self.next(&self.kept), kind: KEPT }
    }

    fn next(&self, count: &Cell<u32>) -> u32 {
        let number = count.get();
        count.set(number.wrapping_add(1));
        number.wrapping_mul(self.channels)
    }
}
