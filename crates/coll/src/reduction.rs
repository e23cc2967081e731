//! How two values are combined.

use crate::signature::Combination;

/// An operation on arrays of elements (MPI 5.0 §6.9.2 and §6.9.5).
///
/// It is associative, as far as its arithmetic goes. One that is not commutative is applied in the
/// order of the ranks.
#[derive(Debug, Clone, Copy)]
pub struct Reduction<F> {
    /// `combine(left, right)` puts `left ∘ right` into `right`, element by element.
    pub combine: F,
    /// Whether `left ∘ right` is `right ∘ left`.
    pub commutative: bool,
    /// Bytes of one element: arrays are cut between elements only. At least 1.
    pub width: usize,
    /// What it is called.
    pub combination: Combination,
}

impl<F> Reduction<F> {
    /// An operation on elements of `width` bytes in which order does not matter.
    pub fn commutative(width: usize, combine: F) -> Reduction<F> {
        Reduction { combine, commutative: true, width: width.max(1), combination: Combination::OWN }
    }

    /// An operation on elements of `width` bytes in which order matters.
    pub fn ordered(width: usize, combine: F) -> Reduction<F> {
        Reduction {
            combine,
            commutative: false,
            width: width.max(1),
            combination: Combination::OWN,
        }
    }
}
