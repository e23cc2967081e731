//! Operations in flight: their contexts at fixed addresses, and the regions that they keep.

use std::ffi::c_void;
use std::sync::Arc;

use super::abi::Context2;
use super::memory::{PinnedBytes, Registered};
use crate::Error;

/// An operation that the provider has taken and not completed.
pub(crate) struct OperationInFlight {
    /// Its name, for messages.
    pub(crate) name: &'static str,
    /// The token that the caller gave it.
    pub(crate) token: u64,
    /// Memory that the provider may touch until it completes.
    #[expect(dead_code, reason = "kept, not read")]
    pub(crate) region: Arc<Registered>,
}

/// A fixed number of places for contexts. The first ones are for receive buffers.
pub(crate) struct Operations {
    contexts: PinnedBytes,
    in_flight: Vec<Option<OperationInFlight>>,
    free: Vec<usize>,
    receives: usize,
}

impl Operations {
    pub(crate) fn new(receives: usize, operations: usize) -> Result<Self, Error> {
        let places = receives + operations;
        Ok(Self {
            contexts: PinnedBytes::new(places * size_of::<Context2>())?,
            in_flight: (0..places).map(|_| None).collect(),
            free: (receives..places).rev().collect(),
            receives,
        })
    }

    /// The context of a place. The provider may write it while an operation is in flight; we never
    /// read it.
    pub(crate) fn context(&self, place: usize) -> *mut c_void {
        assert!(place < self.in_flight.len(), "a place of the table");
        self.contexts.start().wrapping_add(place * size_of::<Context2>()).cast()
    }

    /// A place for an operation, which stays free until [`Self::begin`]; `None`: all are taken.
    pub(crate) fn vacancy(&self) -> Option<usize> {
        self.free.last().copied()
    }

    /// Takes the place that [`Self::vacancy`] named, after the provider has accepted.
    pub(crate) fn begin(&mut self, place: usize, operation: OperationInFlight) {
        let vacancy = self.free.pop();
        debug_assert_eq!(vacancy, Some(place), "begin takes what vacancy named");
        self.in_flight[place] = Some(operation);
    }

    /// The place that a completion names.
    pub(crate) fn place(&self, context: *mut c_void) -> Option<ContextOwner> {
        let offset = (context as usize).checked_sub(self.contexts.start() as usize)?;
        let place = offset / size_of::<Context2>();
        if !offset.is_multiple_of(size_of::<Context2>()) || place >= self.in_flight.len() {
            return None;
        }
        Some(if place < self.receives {
            ContextOwner::Receive(place)
        } else {
            ContextOwner::Operation(place)
        })
    }

    /// Ends an operation; `None`: there was none at this place.
    pub(crate) fn end(&mut self, place: usize) -> Option<OperationInFlight> {
        let operation = self.in_flight.get_mut(place)?.take()?;
        self.free.push(place);
        Some(operation)
    }

    /// The number of receive buffers for which there is room.
    pub(crate) fn receives(&self) -> usize {
        self.receives
    }

    /// How many operations are in flight.
    pub(crate) fn count(&self) -> usize {
        self.in_flight.iter().flatten().count()
    }
}

/// The owner of a completion's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextOwner {
    /// A receive buffer.
    Receive(usize),
    /// An operation of the caller.
    Operation(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_lead_back_to_their_places_and_others_nowhere() {
        let operations = Operations::new(2, 3).unwrap();
        assert_eq!(operations.place(operations.context(1)), Some(ContextOwner::Receive(1)));
        assert_eq!(operations.place(operations.context(4)), Some(ContextOwner::Operation(4)));
        let start = operations.context(0);
        for wrong in [-64, 1, 63, 5 * 64] {
            assert_eq!(operations.place(start.wrapping_byte_offset(wrong)), None, "{wrong}");
        }
        assert_eq!(operations.place(std::ptr::null_mut()), None);
    }
}
