//! What can be sent: plain values of fixed layout, and what can be reduced: numbers.

use bytemuck::Pod;

/// A value that is the same bytes in every process: no pointers, no padding.
///
/// All of `bytemuck::Pod`: the integer and floating-point types, arrays of them, and `repr(C)`
/// structs that derive it.
pub trait Scalar: Pod {}

impl<T: Pod> Scalar for T {}

/// How [`crate::World::allreduce`] combines two values (MPI 5.0 §6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// The sum; integers wrap around.
    Sum,
    /// The product; integers wrap around.
    Product,
    /// The smaller; of a NaN and a number, the number.
    Min,
    /// The larger; of a NaN and a number, the number.
    Max,
}

/// A scalar that can be reduced.
pub trait Number: Scalar {
    /// `self` and `other` combined by `op`.
    #[must_use]
    fn combine(self, other: Self, op: Op) -> Self;
}

macro_rules! integers {
    ($($number:ty)*) => {$(
        impl Number for $number {
            #[inline]
            fn combine(self, other: Self, op: Op) -> Self {
                match op {
                    Op::Sum => self.wrapping_add(other),
                    Op::Product => self.wrapping_mul(other),
                    Op::Min => self.min(other),
                    Op::Max => self.max(other),
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($number:ty)*) => {$(
        impl Number for $number {
            #[inline]
            fn combine(self, other: Self, op: Op) -> Self {
                match op {
                    Op::Sum => self + other,
                    Op::Product => self * other,
                    Op::Min => self.min(other),
                    Op::Max => self.max(other),
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
floats!(f32 f64);

/// `right = left ∘ right`, element by element, on the bytes of messages.
pub(crate) fn combine_bytes<T: Number>(op: Op) -> impl Fn(&[u8], &mut [u8]) + Copy {
    move |left, right| {
        let width = size_of::<T>();
        for (left, place) in left.chunks_exact(width).zip(right.chunks_exact_mut(width)) {
            let left: T = bytemuck::pod_read_unaligned(left);
            let right: T = bytemuck::pod_read_unaligned(place);
            place.copy_from_slice(bytemuck::bytes_of(&left.combine(right, op)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_floats_ignore_nan_in_extremes() {
        assert_eq!(200u8.combine(100, Op::Sum), 44);
        assert_eq!(3i32.combine(-4, Op::Product), -12);
        assert_eq!(f64::NAN.combine(2.0, Op::Max), 2.0);
        assert_eq!(2.0f32.combine(f32::NAN, Op::Min), 2.0);
    }

    #[test]
    fn bytes_are_combined_element_by_element_at_any_alignment() {
        let mut raw = [0u8; 17];
        raw[1..].copy_from_slice(bytemuck::bytes_of(&[1.5f64, 2.5]));
        combine_bytes::<f64>(Op::Sum)(bytemuck::bytes_of(&[10.0f64, 20.0]), &mut raw[1..]);
        let sums: [f64; 2] = bytemuck::pod_read_unaligned(&raw[1..]);
        assert_eq!(sums, [11.5, 22.5]);
    }
}
