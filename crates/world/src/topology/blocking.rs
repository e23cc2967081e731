//! What neighbours exchange, blocking (MPI 5.0 §8.6).
//!
//! Every rank sends along each of its outgoing edges and receives along each of its incoming ones;
//! a call returns when this rank's edges are dealt with. Blocks lie in the order of
//! [`Neighbourhood::destinations`] and [`Neighbourhood::sources`]. Beyond the border of a grid
//! nothing is exchanged: the block is there and stays as it is.

use std::ops::Range;

use hikyaku_coll::neighbour::{ExchangeError, Incoming, Outgoing, exchange};
use hikyaku_coll::topology::Link;
use hikyaku_msg::{Layout, MsgError, as_one};

use super::parts::{End, Leg, Parts, Route};
use super::{Neighbourhood, Tags, unequal};
use crate::error::Error;
use crate::scalar::Scalar;
use crate::scope::NEIGHBOURS;

impl<S> Neighbourhood<S> {
    /// Sends the same elements to every neighbour (MPI_Neighbor_allgather). `all` is divided
    /// evenly among the sources.
    ///
    /// # Errors
    /// `all` cannot be divided so, a source sent another number of elements, or a rank is gone.
    pub fn neighbour_allgather<T: Scalar>(&self, mine: &[T], all: &mut [T]) -> Result<(), Error> {
        let parts = Parts::even(all.len(), self.sources.len(), "sources");
        self.run(mine, Ok(Parts::Whole), all, parts)
    }

    /// The same with a range of `all` for each source (MPI_Neighbor_allgatherv).
    ///
    /// # Errors
    /// As [`Neighbourhood::neighbour_allgather`]; or a wrong number of blocks, or one outside.
    pub fn neighbour_allgatherv<T: Scalar>(
        &self,
        mine: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<(), Error> {
        self.run(mine, Ok(Parts::Whole), all, Ok(Parts::Ranges(blocks)))
    }

    /// Sends other elements to every neighbour (MPI_Neighbor_alltoall). Both buffers are divided
    /// evenly among the edges.
    ///
    /// # Errors
    /// As [`Neighbourhood::neighbour_allgather`].
    pub fn neighbour_alltoall<T: Scalar>(&self, out: &[T], into: &mut [T]) -> Result<(), Error> {
        let sends = Parts::even(out.len(), self.destinations.len(), "destinations");
        let receives = Parts::even(into.len(), self.sources.len(), "sources");
        self.run(out, sends, into, receives)
    }

    /// The same with a range of each buffer for each edge (MPI_Neighbor_alltoallv).
    ///
    /// # Errors
    /// As [`Neighbourhood::neighbour_allgatherv`].
    pub fn neighbour_alltoallv<T: Scalar>(
        &self,
        out: &[T],
        out_blocks: &[Range<usize>],
        into: &mut [T],
        into_blocks: &[Range<usize>],
    ) -> Result<(), Error> {
        self.run(out, Ok(Parts::Ranges(out_blocks)), into, Ok(Parts::Ranges(into_blocks)))
    }

    /// The same with a layout for each edge (MPI_Neighbor_alltoallw): what lies scattered is packed
    /// and unpacked on the way. Where layouts of `into` overlap, the last edge's elements stay.
    ///
    /// Elements have one type; for several, exchange bytes (`bytemuck::cast_slice`).
    ///
    /// # Errors
    /// As [`Neighbourhood::neighbour_allgatherv`].
    pub fn neighbour_alltoallw<T: Scalar>(
        &self,
        out: &[T],
        out_layouts: &[Layout],
        into: &mut [T],
        into_layouts: &[Layout],
    ) -> Result<(), Error> {
        self.run(out, Ok(Parts::Layouts(out_layouts)), into, Ok(Parts::Layouts(into_layouts)))
    }

    fn run<T: Scalar>(
        &self,
        out: &[T],
        sends: Result<Parts<'_>, Error>,
        into: &mut [T],
        receives: Result<Parts<'_>, Error>,
    ) -> Result<(), Error> {
        let mut route = self.route.take();
        let result = self
            .plan(&mut route, (sends, out.len()), (receives, into.len()))
            .and_then(|()| self.follow(&route, out, into));
        self.route.replace(route);
        result
    }

    /// Writes down how a call goes. Counts the call, also if it is refused: other ranks may have
    /// begun it.
    pub(super) fn plan(
        &self,
        route: &mut Route,
        (sends, out_length): (Result<Parts<'_>, Error>, usize),
        (receives, into_length): (Result<Parts<'_>, Error>, usize),
    ) -> Result<(), Error> {
        let tags = self.next_call();
        route.clear();
        route.send(self.ends(&self.destinations, tags), sends?, out_length)?;
        route.receive(self.ends(&self.sources, tags), receives?, into_length)
    }

    fn ends(&self, links: &[Link], tags: Tags) -> impl ExactSizeIterator<Item = End> + Clone {
        links.iter().map(move |link| (self.process(link), tags.of(link)))
    }

    /// Does what is written down.
    fn follow<T: Scalar>(&self, route: &Route, out: &[T], into: &mut [T]) -> Result<(), Error> {
        let packed = route.packed(out)?;
        let mut staged = route.staging(into);
        let outgoing = route.sends.iter().map(|leg| Outgoing {
            to: leg.process,
            tag: leg.tag,
            bytes: bytemuck::cast_slice(if leg.aside {
                &packed[leg.range.clone()]
            } else {
                &out[leg.range.clone()]
            }),
        });
        let (mut places, mut beside) = (Pieces::of(into), Pieces::of(&mut staged));
        let incoming = route.receives.iter().map(|leg| {
            let pieces = if leg.aside { &mut beside } else { &mut places };
            let into = bytemuck::cast_slice_mut(pieces.next(&leg.range));
            Incoming { from: leg.process, tag: leg.tag, into }
        });
        let messages = self.world.communicator().messages_as_group();
        let exchange = exchange(&messages, outgoing, incoming);
        let exchange = as_one(self.world.engine(), NEIGHBOURS, exchange);
        let result = self.world.block_on(exchange);
        result.map_err(|error| self.explain(error, &route.receives))?;
        route.unpack(&staged, into)
    }

    /// An exchange's failure in the terms of this topology.
    fn explain(&self, error: ExchangeError<MsgError>, receives: &[Leg]) -> Error {
        match error {
            ExchangeError::Message(error) => error.into(),
            ExchangeError::Size { edge: at, sent, expected } => {
                unequal(self.rank, &self.sources, receives[at].edge, sent, expected)
            }
        }
    }
}

/// Hands out disjoint pieces of a slice from front to back.
struct Pieces<'a, T> {
    rest: &'a mut [T],
    taken: usize,
}

impl<'a, T> Pieces<'a, T> {
    fn of(slice: &'a mut [T]) -> Pieces<'a, T> {
        Pieces { rest: slice, taken: 0 }
    }

    /// The elements of a range, which begins after the last one ended, or is empty.
    fn next(&mut self, range: &Range<usize>) -> &'a mut [T] {
        if range.is_empty() {
            return &mut [];
        }
        let (_, rest) = std::mem::take(&mut self.rest).split_at_mut(range.start - self.taken);
        let (piece, rest) = rest.split_at_mut(range.len());
        (self.rest, self.taken) = (rest, range.end);
        piece
    }
}
