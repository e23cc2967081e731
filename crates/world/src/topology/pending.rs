//! Exchanges between neighbours within a scope (MPI 5.0 §8.7).
//!
//! The same operations as in `blocking.rs`, as requests: the data moves during any call of this
//! library, and scattered elements are unpacked when the request is waited for, or at the end of
//! the scope.

use std::marker::PhantomData;
use std::ops::Range;

use hikyaku_msg::Layout;

use super::parts::{EdgeParts, ExchangeRoute};
use super::{Neighbourhood, unequal};
use crate::error::Error;
use crate::scalar::Scalar;
use crate::scope::{Core, Scope};

/// A neighbour collective that was started and has not been waited for.
///
/// Dropping it does not undo it: the scope waits for it at its end.
#[derive(Debug)]
pub struct NeighbourRequest<'scope> {
    scope: &'scope Core<'scope>,
    name: u64,
    borrows: PhantomData<&'scope mut ()>,
}

impl NeighbourRequest<'_> {
    /// Waits until all edges are done.
    ///
    /// # Errors
    /// The first failure, after all have ended.
    pub fn wait(self) -> Result<(), Error> {
        self.scope.end_exchange(self.name, true).unwrap_or(Ok(()))
    }

    /// Its result if it has ended, or the request again.
    ///
    /// # Errors
    /// As [`NeighbourRequest::wait`].
    pub fn test(self) -> Result<Result<(), Self>, Error> {
        match self.scope.end_exchange(self.name, false) {
            None => {
                self.scope.world.found_nothing();
                Ok(Err(self))
            }
            Some(result) => result.map(Ok),
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts [`Neighbourhood::neighbour_allgather`] (MPI_Ineighbor_allgather).
    ///
    /// # Errors
    /// `all` cannot be divided evenly among the sources.
    pub fn ineighbour_allgather<S, T: Scalar>(
        &'scope self,
        neighbourhood: &Neighbourhood<S>,
        mine: &'scope [T],
        all: &'scope mut [T],
    ) -> Result<NeighbourRequest<'scope>, Error> {
        let parts = EdgeParts::even(all.len(), neighbourhood.sources.len(), "sources");
        self.start(neighbourhood, (mine, Ok(EdgeParts::Whole)), (all, parts))
    }

    /// Starts [`Neighbourhood::neighbour_allgatherv`] (MPI_Ineighbor_allgatherv).
    ///
    /// # Errors
    /// A wrong number of blocks, or one outside.
    pub fn ineighbour_allgatherv<S, T: Scalar>(
        &'scope self,
        neighbourhood: &Neighbourhood<S>,
        mine: &'scope [T],
        all: &'scope mut [T],
        blocks: &[Range<usize>],
    ) -> Result<NeighbourRequest<'scope>, Error> {
        self.start(
            neighbourhood,
            (mine, Ok(EdgeParts::Whole)),
            (all, Ok(EdgeParts::Ranges(blocks))),
        )
    }

    /// Starts [`Neighbourhood::neighbour_alltoall`] (MPI_Ineighbor_alltoall).
    ///
    /// # Errors
    /// A buffer cannot be divided evenly among the edges.
    pub fn ineighbour_alltoall<S, T: Scalar>(
        &'scope self,
        neighbourhood: &Neighbourhood<S>,
        out: &'scope [T],
        into: &'scope mut [T],
    ) -> Result<NeighbourRequest<'scope>, Error> {
        let (sources, destinations) = (&neighbourhood.sources, &neighbourhood.destinations);
        let sends = EdgeParts::even(out.len(), destinations.len(), "destinations");
        let receives = EdgeParts::even(into.len(), sources.len(), "sources");
        self.start(neighbourhood, (out, sends), (into, receives))
    }

    /// Starts [`Neighbourhood::neighbour_alltoallv`] (MPI_Ineighbor_alltoallv).
    ///
    /// # Errors
    /// A wrong number of blocks, or one outside.
    pub fn ineighbour_alltoallv<S, T: Scalar>(
        &'scope self,
        neighbourhood: &Neighbourhood<S>,
        out: &'scope [T],
        out_blocks: &[Range<usize>],
        into: &'scope mut [T],
        into_blocks: &[Range<usize>],
    ) -> Result<NeighbourRequest<'scope>, Error> {
        let sends = Ok(EdgeParts::Ranges(out_blocks));
        self.start(neighbourhood, (out, sends), (into, Ok(EdgeParts::Ranges(into_blocks))))
    }

    /// Starts [`Neighbourhood::neighbour_alltoallw`] (MPI_Ineighbor_alltoallw). Scattered elements
    /// of `out` are packed now, those of `into` unpacked when the request has ended.
    ///
    /// # Errors
    /// A wrong number of layouts, or one that reaches outside.
    pub fn ineighbour_alltoallw<S, T: Scalar>(
        &'scope self,
        neighbourhood: &Neighbourhood<S>,
        out: &'scope [T],
        out_layouts: &[Layout],
        into: &'scope mut [T],
        into_layouts: &[Layout],
    ) -> Result<NeighbourRequest<'scope>, Error> {
        let sends = Ok(EdgeParts::Layouts(out_layouts));
        self.start(neighbourhood, (out, sends), (into, Ok(EdgeParts::Layouts(into_layouts))))
    }

    fn start<S, T: Scalar>(
        &'scope self,
        neighbourhood: &Neighbourhood<S>,
        (out, sends): (&'scope [T], Result<EdgeParts<'_>, Error>),
        (into, receives): (&'scope mut [T], Result<EdgeParts<'_>, Error>),
    ) -> Result<NeighbourRequest<'scope>, Error> {
        assert!(
            std::ptr::eq(self.world().engine(), neighbourhood.world.engine()),
            "a neighbourhood exchanges within scopes of the world it was made from"
        );
        let mut route = ExchangeRoute::default();
        neighbourhood.plan(&mut route, (sends, out.len()), (receives, into.len()))?;
        let (rank, sources) = (neighbourhood.rank, neighbourhood.sources.clone());
        let explain =
            move |edge: usize, sent, expected| unequal(rank, &sources, edge, sent, expected);
        let context = neighbourhood.world.context();
        let name = self.start_exchange(context, route, out, into, explain)?;
        Ok(NeighbourRequest { scope: &self.core, name, borrows: PhantomData })
    }
}
