//! Fabrics that wrap a fabric: a layer is a [`Port`](crate::fabric::Port) over a port.
//!
//! ```text
//!   msg ──► Tracer ──► FaultInjector ──► loopback, shm, ...
//! ```
//!
//! Layers compose in any order and keep the rules at the head of [`crate::fabric`], so that the
//! conformance suite runs on each of them as on any fabric.

mod context;
mod fault;
mod group;
mod mail;
mod queue;
mod tracer;

pub use fault::{FaultCounts, FaultInjector, Faults};
pub use tracer::{Action, Entry, Recording, Sink, Tracer};

/// The calls of a [`Port`](crate::fabric::Port) that no layer changes.
macro_rules! pass_through {
    ($port:ident) => {
        fn rank(&self) -> Rank {
            self.$port.rank()
        }

        fn size(&self) -> u32 {
            self.$port.size()
        }

        fn node_of(&self, rank: Rank) -> u32 {
            self.$port.node_of(rank)
        }

        fn capabilities(&self) -> Capabilities {
            self.$port.capabilities()
        }

        fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize {
            self.$port.copy_out(slice, offset, into)
        }

        fn grant(&mut self, source: Rank, messages: u64) {
            self.$port.grant(source, messages);
        }

        fn held_up(&mut self, source: Rank) -> bool {
            self.$port.held_up(source)
        }

        fn route(&mut self, source: Rank, ring: Option<RingId>) -> Result<(), TableError> {
            self.$port.route(source, ring)
        }

        fn route_of(&self, source: Rank) -> Option<RingId> {
            self.$port.route_of(source)
        }

        fn ring(&self, ring: RingId) -> Option<RingState> {
            self.$port.ring(ring)
        }

        fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError> {
            self.$port.allocate(bytes)
        }

        fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
            self.$port.expose(bytes)
        }

        fn reading_pays(&self) -> bool {
            self.$port.reading_pays()
        }

        fn peer(&self, rank: Rank) -> PeerState {
            self.$port.peer(rank)
        }

        fn departures(&self) -> u64 {
            self.$port.departures()
        }

        fn is_forked(&self) -> bool {
            self.$port.is_forked()
        }

        fn now(&self) -> Time {
            self.$port.now()
        }

        fn compute(&mut self, span: Time) {
            self.$port.compute(span);
        }

        fn announce_wait(&self, wait: Option<Wait>) {
            self.$port.announce_wait(wait);
        }

        $crate::layer::group::pass_groups!($port);
        $crate::layer::mail::pass_mail!($port);
        $crate::layer::queue::pass_queues!($port);
        $crate::layer::context::pass_contexts!($port);
    };
}
use pass_through;
