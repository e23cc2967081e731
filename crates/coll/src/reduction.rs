//! How two values are combined.

use crate::signature::{Combination, Element};

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

    /// Whether any order of combining elements of this type gives the same bits: sums, products,
    /// minima and maxima of integers. Of floating-point numbers every order has its own.
    pub(crate) fn is_exact(&self, element: Element) -> bool {
        self.commutative && self.combination != Combination::OWN && element.is_integer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_operations_on_integers_have_no_order() {
        let own = Reduction::commutative(8, ());
        let sum = Reduction { combination: Combination::SUM, ..own };
        assert!(sum.is_exact(Element::of::<i64>()) && sum.is_exact(Element::BYTE));
        assert!(sum.is_exact(Element::of::<u128>()) && sum.is_exact(Element::of::<usize>()));
        assert!(sum.is_exact(Element::of::<isize>()) && !sum.is_exact(Element::of::<bool>()));
        assert!(!sum.is_exact(Element::of::<f64>()) && !sum.is_exact(Element::of::<f32>()));
        assert!(!sum.is_exact(Element::of::<[u8; 3]>()) && !own.is_exact(Element::of::<i64>()));
    }
}
