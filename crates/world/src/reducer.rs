//! How the ranks' elements are combined: built-in operations, and a program's own.

use hikyaku_coll::{Combination, Reduction};
use hikyaku_nic::fabric::{Arithmetic, Combining, NumberType};

use crate::scalar::{Number, Op, Scalar};

/// An associative operation on elements of type `T`: an [`Op`], or a closure in [`Commutative`] or
/// [`Ordered`] (MPI 5.0 §6.9.5, MPI_Op_create).
pub trait Reducer<T> {
    /// Puts `left ∘ right` into `right`, element by element. Both are equally long.
    fn combine(&self, left: &[T], right: &mut [T]);

    /// Whether `left ∘ right` is `right ∘ left`. If it is not, ranks are combined in their order.
    fn is_commutative(&self) -> bool;

    /// The operation of a command queue that computes it; `None`: only the program can.
    fn combining(&self) -> Option<Combining> {
        None
    }

    /// Its name, which serves to detect ranks that combine differently.
    fn combination(&self) -> Combination {
        Combination::OWN
    }
}

/// A commutative operation of the program.
///
/// ```no_run
/// # use hikyaku::{Commutative, World};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let world = World::init()?;
/// let mut masks = [1_u64 << world.rank()];
/// let or = Commutative(|left: &[u64], right: &mut [u64]| {
///     left.iter().zip(right).for_each(|(left, right)| *right |= left);
/// });
/// world.allreduce(&mut masks, or)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Commutative<F>(
    /// Puts `left ∘ right` into `right`.
    pub F,
);

/// An operation of the program that is applied in rank order.
#[derive(Debug, Clone, Copy)]
pub struct Ordered<F>(
    /// Puts `left ∘ right` into `right`.
    pub F,
);

impl<T: Number> Reducer<T> for Op {
    fn combine(&self, left: &[T], right: &mut [T]) {
        // One loop for each operation, so that each is vectorised.
        let all = |op: Op, left: &[T], right: &mut [T]| {
            for (left, right) in left.iter().zip(right) {
                *right = left.combine(*right, op);
            }
        };
        match self {
            Op::Sum => all(Op::Sum, left, right),
            Op::Product => all(Op::Product, left, right),
            Op::Min => all(Op::Min, left, right),
            Op::Max => all(Op::Max, left, right),
        }
    }

    fn is_commutative(&self) -> bool {
        true
    }

    fn combining(&self) -> Option<Combining> {
        let operation = match self {
            Op::Sum => Arithmetic::Sum,
            Op::Product => Arithmetic::Product,
            Op::Min => Arithmetic::Min,
            Op::Max => Arithmetic::Max,
        };
        Combining::new(operation, NumberType::of::<T>()?)
    }

    fn combination(&self) -> Combination {
        match self {
            Op::Sum => Combination::SUM,
            Op::Product => Combination::PRODUCT,
            Op::Min => Combination::MIN,
            Op::Max => Combination::MAX,
        }
    }
}

impl<T, F: Fn(&[T], &mut [T])> Reducer<T> for Commutative<F> {
    fn combine(&self, left: &[T], right: &mut [T]) {
        self.0(left, right);
    }

    fn is_commutative(&self) -> bool {
        true
    }
}

impl<T, F: Fn(&[T], &mut [T])> Reducer<T> for Ordered<F> {
    fn combine(&self, left: &[T], right: &mut [T]) {
        self.0(left, right);
    }

    fn is_commutative(&self) -> bool {
        false
    }
}

/// The operation on bytes, as they arrive in messages.
pub(crate) fn on_bytes<T: Scalar, R: Reducer<T>>(
    reducer: &R,
) -> Reduction<impl Fn(&[u8], &mut [u8])> {
    let combine = |left: &[u8], right: &mut [u8]| match (
        bytemuck::try_cast_slice(left),
        bytemuck::try_cast_slice_mut(right),
    ) {
        (Ok(left), Ok(right)) => reducer.combine(left, right),
        _ => combine_unaligned(reducer, left, right),
    };
    let (commutative, combination) = (reducer.is_commutative(), reducer.combination());
    Reduction { combine, commutative, width: size_of::<T>().max(1), combination }
}

/// Combines through aligned copies, for elements with a larger alignment than allocations have.
fn combine_unaligned<T: Scalar, R: Reducer<T>>(reducer: &R, left: &[u8], right: &mut [u8]) {
    let aligned = |bytes: &[u8]| -> Vec<T> {
        let elements = bytes.chunks_exact(size_of::<T>().max(1));
        elements.map(bytemuck::pod_read_unaligned).collect()
    };
    let (left, mut result) = (aligned(left), aligned(right));
    reducer.combine(&left, &mut result);
    right.copy_from_slice(bytemuck::cast_slice(&result));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn bytes_are_combined_element_by_element_at_any_alignment() {
        for shift in 0..8 {
            let mut raw = [0u8; 24];
            let place = shift..shift + 16;
            raw[place.clone()].copy_from_slice(bytemuck::bytes_of(&[1.5f64, 2.5]));
            let sum = on_bytes::<f64, _>(&Op::Sum);
            (sum.combine)(bytemuck::bytes_of(&[10.0f64, 20.0]), &mut raw[place.clone()]);
            let sums: [f64; 2] = bytemuck::pod_read_unaligned(&raw[place]);
            assert_eq!(sums, [11.5, 22.5]);
        }
    }

    #[test]
    fn a_queue_computes_what_the_rank_would() {
        fn check<T: Number + PartialEq + std::fmt::Debug>(numbers: [T; 4]) {
            for op in [Op::Sum, Op::Product, Op::Min, Op::Max] {
                for left in numbers {
                    let mut ours = numbers;
                    op.combine(&[left; 4], &mut ours);
                    let mut queues = numbers;
                    let combining = Reducer::<T>::combining(&op).unwrap();
                    let bytes = bytemuck::cast_slice_mut(&mut queues);
                    combining.combine(bytemuck::cast_slice(&[left; 4]), bytes);
                    assert_eq!(queues, ours, "{op:?} of {left:?}");
                }
            }
        }
        check([i8::MIN, -1, 0, 100]);
        check([i16::MIN, -1, 0, 100]);
        check([i32::MIN, -1, 0, 100]);
        check([i64::MIN, -1, 0, 100]);
        check([isize::MIN, -1, 0, 100]);
        check([u8::MAX, 1, 0, 100]);
        check([u16::MAX, 1, 0, 100]);
        check([u32::MAX, 1, 0, 100]);
        check([u64::MAX, 1, 0, 100]);
        check([usize::MAX, 1, 0, 100]);
        check([f32::INFINITY, -0.1, 0.2, 1e30]);
        check([f64::INFINITY, -0.1, 0.2, 1e300]);
        assert_eq!(Reducer::<i128>::combining(&Op::Sum), None);
    }

    #[test]
    fn a_programs_own_operation_says_whether_it_commutes() {
        let first = |_: &[u16], _: &mut [u16]| {};
        assert!(on_bytes::<u16, _>(&Commutative(first)).commutative);
        let op = Ordered(first);
        let ordered = on_bytes::<u16, _>(&op);
        assert!(!ordered.commutative && ordered.width == 2);
    }
}
