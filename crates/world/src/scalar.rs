//! Types that can be sent (plain values of fixed layout) and reduced (numbers).

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
}
