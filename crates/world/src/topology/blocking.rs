//! Blocking exchanges between neighbours (MPI 5.0 §8.6).
//!
//! Every rank sends along each of its outgoing edges and receives along each of its incoming ones;
//! a call returns when this rank's edges are done. Blocks are in the order of
//! [`Neighbourhood::destinations`] and [`Neighbourhood::sources`]. Beyond the border of a grid
//! nothing is exchanged: the block exists and stays unchanged.
//!
//! From the fifth call on, blocks of up to 4 KiB use letters (`rank/src/persistent/letters.rs`).
//! Longer ones in the same call use messages, which may be copied once.

use std::cell::RefCell;
use std::mem;
use std::ops::Range;

use hikyaku_coll::topology::Link;
use hikyaku_msg::{Layout, MsgError};
use hikyaku_rank::persistent::{EdgeBlocks, Letters, NEIGHBOURS, is_long};

use super::parts::{EdgeParts, End, ExchangeRoute, Leg};
use super::{NeighbourTags, Neighbourhood, unequal};
use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::Received;

impl<S> Neighbourhood<S> {
    /// Sends the same elements to every neighbour (MPI_Neighbor_allgather). `all` is divided
    /// evenly among the sources.
    ///
    /// # Errors
    /// `all` cannot be divided evenly, a source sent another number of elements, or a rank is gone.
    pub fn neighbour_allgather<T: Scalar>(&self, mine: &[T], all: &mut [T]) -> Result<(), Error> {
        let parts = EdgeParts::even(all.len(), self.sources.len(), "sources");
        self.run(mine, Ok(EdgeParts::Whole), all, parts)
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
        self.run(mine, Ok(EdgeParts::Whole), all, Ok(EdgeParts::Ranges(blocks)))
    }

    /// Sends different elements to every neighbour (MPI_Neighbor_alltoall). Both buffers are
    /// divided evenly among the edges.
    ///
    /// # Errors
    /// As [`Neighbourhood::neighbour_allgather`].
    pub fn neighbour_alltoall<T: Scalar>(&self, out: &[T], into: &mut [T]) -> Result<(), Error> {
        let sends = EdgeParts::even(out.len(), self.destinations.len(), "destinations");
        let receives = EdgeParts::even(into.len(), self.sources.len(), "sources");
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
        self.run(out, Ok(EdgeParts::Ranges(out_blocks)), into, Ok(EdgeParts::Ranges(into_blocks)))
    }

    /// The same with a layout for each edge (MPI_Neighbor_alltoallw): scattered elements are packed
    /// and unpacked. If layouts of `into` overlap, the last edge's elements stay.
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
        self.run(
            out,
            Ok(EdgeParts::Layouts(out_layouts)),
            into,
            Ok(EdgeParts::Layouts(into_layouts)),
        )
    }

    fn run<T: Scalar>(
        &self,
        out: &[T],
        sends: Result<EdgeParts<'_>, Error>,
        into: &mut [T],
        receives: Result<EdgeParts<'_>, Error>,
    ) -> Result<(), Error> {
        // All ranks make letters in the same call, even if the call is refused here.
        let letters = self.letters();
        let mut route = self.route.take();
        let result = self
            .plan(&mut route, (sends, out.len()), (receives, into.len()))
            .and_then(|tags| self.follow((&route, tags), letters?, out, into));
        self.route.replace(route);
        result
    }

    /// Plans the legs of a call and its tags. Counts the call even if it is refused: other ranks
    /// may have begun it.
    pub(super) fn plan(
        &self,
        route: &mut ExchangeRoute,
        (sends, out_length): (Result<EdgeParts<'_>, Error>, usize),
        (receives, into_length): (Result<EdgeParts<'_>, Error>, usize),
    ) -> Result<NeighbourTags, Error> {
        let tags = self.next_call();
        route.clear();
        route.send(self.ends(&self.destinations, tags), sends?, out_length)?;
        route.receive(self.ends(&self.sources, tags), receives?, into_length)?;
        Ok(tags)
    }

    fn ends(
        &self,
        links: &[Link],
        tags: NeighbourTags,
    ) -> impl ExactSizeIterator<Item = End> + Clone {
        links.iter().map(move |link| (self.process(link), tags.of(link)))
    }

    /// The letters of the next blocking call, if it uses letters.
    fn letters(&self) -> Result<Option<&RefCell<Letters>>, Error> {
        self.correspondence.letters(self.calls.get(), || {
            let (comm, links) = (self.world.communicator(), (&*self.destinations, &*self.sources));
            let share = |words: &[u32]| self.share(&self.world, words);
            Letters::new(comm, links, |link| self.process(link), share)
        })
    }

    /// Runs the planned legs.
    fn follow<T: Scalar>(
        &self,
        (route, tags): (&ExchangeRoute, NeighbourTags),
        letters: Option<&RefCell<Letters>>,
        out: &[T],
        into: &mut [T],
    ) -> Result<(), Error> {
        let packed = route.packed(out)?;
        let mut staged = route.staging(into);
        let mut sides = Sides::new(route, (out, &packed), (into, &mut staged));
        match letters {
            Some(letters) => self.by_letter(&mut letters.borrow_mut(), tags, &mut sides)?,
            None => self.beside(&mut sides, |_| true, |_| Ok(Vec::new()))?,
        }
        route.unpack(&staged, into)
    }

    fn by_letter<T: Scalar>(
        &self,
        letters: &mut Letters,
        tags: NeighbourTags,
        sides: &mut Sides<'_, T>,
    ) -> Result<(), Error> {
        let mut right = false;
        let outcome = if sides.lengths().any(is_long) {
            self.beside(sides, is_long, |sides| {
                right = letters.exchange(tags.base, sides)?;
                if right { Ok(Vec::new()) } else { Ok(letters.unequal(sides)?) }
            })
        } else {
            right = letters.exchange(tags.base, sides)?;
            if right { Ok(()) } else { self.wrong(sides, &letters.unequal(sides)?) }
        };
        letters.deliver(sides);
        outcome
    }

    /// Exchanges the blocks whose length `goes` accepts by messages, and runs `between` after their
    /// sends and receives were started. `between` returns the blocks of unexpected length: place of
    /// the edge, and bytes sent.
    fn beside<T: Scalar>(
        &self,
        sides: &mut Sides<'_, T>,
        goes: impl Fn(usize) -> bool,
        between: impl FnOnce(&Sides<'_, T>) -> Result<Vec<(usize, u64)>, Error>,
    ) -> Result<(), Error> {
        // The receives own the memory meanwhile.
        let (into, staged) = (mem::take(&mut sides.into), mem::take(&mut sides.staged));
        let outcome = self.by_messages(sides, (&mut *into, &mut *staged), goes, between);
        (sides.into, sides.staged) = (into, staged);
        outcome
    }

    fn by_messages<T: Scalar>(
        &self,
        sides: &Sides<'_, T>,
        (into, staged): (&mut [T], &mut [T]),
        goes: impl Fn(usize) -> bool,
        between: impl FnOnce(&Sides<'_, T>) -> Result<Vec<(usize, u64)>, Error>,
    ) -> Result<(), Error> {
        let route = sides.route;
        let (mut places, mut beside) = (SlicePieces::of(into), SlicePieces::of(staged));
        let piece = |leg: &Leg| {
            let pieces = if leg.aside { &mut beside } else { &mut places };
            Some(pieces.next(&leg.range))
        };
        let mut ins: Vec<Option<&mut [T]>> = route.receives.iter().map(piece).collect();
        self.world.scope(|scope| {
            let (mut first, mut sends, mut receives) = (Ok(()), Vec::new(), Vec::new());
            let outs = route.sends.iter().map(|leg| (leg, sides.out(leg)));
            for (leg, data) in outs.filter(|(_, data)| goes(size_of_val(*data))) {
                match scope.isend(data, leg.process, leg.tag) {
                    Ok(request) => sends.push(request),
                    Err(error) => first = first.and(Err(error)),
                }
            }
            let unequal = between(sides)?;
            first = first.and_then(|()| self.wrong(sides, &unequal));
            for place in 0..route.receives.len() {
                let (at, expected) = (sides.leg(place), sides.in_length(place));
                let told = unequal.iter().find(|(other, _)| *other == place);
                let sent = told.map_or(expected, |(_, sent)| *sent as usize);
                if !goes(sent) {
                    continue;
                }
                // A message that belongs elsewhere has no room here: it is dropped.
                let into = if goes(expected) { ins[at].take() } else { None };
                let leg = &route.receives[at];
                match scope.irecv(into.unwrap_or_default(), leg.process, leg.tag) {
                    Ok(request) => receives.push((leg.edge, expected as u64, request)),
                    Err(error) => first = first.and(Err(error)),
                }
            }
            let engine = self.world.engine();
            engine.borrow_mut().set_whole(Some(NEIGHBOURS));
            for request in sends {
                first = first.and(request.wait().map(drop));
            }
            for (edge, expected, request) in receives {
                let come = self.check(edge, expected, request.wait());
                first = first.and(come);
            }
            engine.borrow_mut().set_whole(None);
            Ok(first)
        })?
    }

    /// Checks that as many bytes have arrived along an edge as expected.
    fn check(
        &self,
        edge: usize,
        expected: u64,
        come: Result<Received, Error>,
    ) -> Result<(), Error> {
        let sent = match come {
            Ok(received) => received.bytes,
            Err(Error::Message(MsgError::Truncated { sent, .. })) => sent,
            Err(error) => return Err(error),
        };
        if sent == expected {
            return Ok(());
        }
        Err(unequal(self.rank, &self.sources, edge, sent, expected))
    }

    /// The error of the first block of unexpected length.
    fn wrong<T: Scalar>(
        &self,
        sides: &Sides<'_, T>,
        lengths: &[(usize, u64)],
    ) -> Result<(), Error> {
        let Some((place, sent)) = lengths.first() else { return Ok(()) };
        let edge = sides.route.receives[sides.leg(*place)].edge;
        let expected = sides.in_length(*place) as u64;
        Err(unequal(self.rank, &self.sources, edge, *sent, expected))
    }
}

/// The blocks of a call in place: in the program's buffers or in staging memory.
struct Sides<'b, T> {
    route: &'b ExchangeRoute,
    out: &'b [T],
    packed: &'b [T],
    into: &'b mut [T],
    staged: &'b mut [T],
    /// The legs in the order of edges, if they are stored in another order.
    order: Vec<usize>,
}

impl<'b, T: Scalar> Sides<'b, T> {
    fn new(
        route: &'b ExchangeRoute,
        (out, packed): (&'b [T], &'b [T]),
        (into, staged): (&'b mut [T], &'b mut [T]),
    ) -> Sides<'b, T> {
        let mut order = Vec::new();
        if !route.receives.is_sorted_by_key(|leg| leg.edge) {
            order.extend(0..route.receives.len());
            order.sort_by_key(|at: &usize| route.receives[*at].edge);
        }
        Sides { route, out, packed, into, staged, order }
    }

    /// The outgoing data of a leg.
    #[inline]
    fn out(&self, leg: &Leg) -> &'b [T] {
        &(if leg.aside { self.packed } else { self.out })[leg.range.clone()]
    }

    /// The leg of the incoming edge at a place among those that exist.
    #[inline]
    fn leg(&self, place: usize) -> usize {
        self.order.get(place).copied().unwrap_or(place)
    }

    /// Bytes of all blocks.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        let legs = self.route.sends.iter().chain(&self.route.receives);
        legs.map(|leg| leg.range.len() * size_of::<T>())
    }
}

impl<T: Scalar> EdgeBlocks for Sides<'_, T> {
    #[inline]
    fn out_length(&self, place: usize) -> usize {
        self.route.sends[place].range.len() * size_of::<T>()
    }

    #[inline]
    fn write(&self, place: usize, letter: &mut Vec<u8>) {
        letter.extend_from_slice(bytemuck::cast_slice(self.out(&self.route.sends[place])));
    }

    #[inline]
    fn in_length(&self, place: usize) -> usize {
        self.route.receives[self.leg(place)].range.len() * size_of::<T>()
    }

    #[inline]
    fn put(&mut self, place: usize, bytes: &[u8]) {
        let leg = &self.route.receives[self.leg(place)];
        if leg.range.is_empty() {
            return;
        }
        let memory = if leg.aside { &mut *self.staged } else { &mut *self.into };
        let block = bytemuck::cast_slice_mut(&mut memory[leg.range.clone()]);
        block[..bytes.len()].copy_from_slice(bytes);
    }
}

/// Splits disjoint pieces off a slice, from front to back.
struct SlicePieces<'a, T> {
    rest: &'a mut [T],
    taken: usize,
}

impl<'a, T> SlicePieces<'a, T> {
    fn of(slice: &'a mut [T]) -> SlicePieces<'a, T> {
        SlicePieces { rest: slice, taken: 0 }
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
