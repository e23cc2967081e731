//! Data of a rank for another, or from it, wherever they lie.
//!
//! Most lie in one piece. Data with gaps need not be packed for an algorithm that only sends them
//! or only receives them: a message takes them in and out packet by packet ([`Scattered`]).

use std::fmt;

use hikyaku_msg::Scattered;

/// What goes to a rank.
pub enum Part<'a, B> {
    /// In one piece.
    Whole(&'a [B]),
    /// With gaps.
    Scattered(Scattered),
}

/// Where what comes from a rank goes.
pub enum Place<'a, B> {
    /// In one piece.
    Whole(&'a mut [B]),
    /// With gaps.
    Scattered(Scattered),
}

impl<B> Part<'_, B> {
    /// How many bytes.
    pub fn len(&self) -> usize {
        match self {
            Part::Whole(bytes) => bytes.len(),
            Part::Scattered(data) => data.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<B> Place<'_, B> {
    /// How many bytes.
    pub fn len(&self) -> usize {
        match self {
            Place::Whole(bytes) => bytes.len(),
            Place::Scattered(data) => data.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<B> fmt::Debug for Part<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for Place<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Parts that lie in one piece each.
pub(crate) fn whole_parts<'a, B>(parts: &[&'a [B]]) -> Vec<Part<'a, B>> {
    parts.iter().map(|part| Part::Whole(part)).collect()
}

/// Places that lie in one piece each.
pub(crate) fn whole_places<B>(places: Vec<&mut [B]>) -> Vec<Place<'_, B>> {
    places.into_iter().map(Place::Whole).collect()
}
