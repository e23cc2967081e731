//! The computation of a queue's command: it combines elements of two places of its owner's region.
//!
//! Paper 002's queues only move bytes; a barrier interface beside them makes its reductions. Here a
//! combination is a command like the others, so that a reduction too proceeds without the program
//! (TF-10). The rank that runs the queue computes it; no other rank is involved.

/// The operation that combines two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Arithmetic {
    /// The sum; integers wrap around.
    Sum,
    /// The product; integers wrap around.
    Product,
    /// The minimum; of a NaN and a number, the number.
    Min,
    /// The maximum; of a NaN and a number, the number.
    Max,
    /// Bitwise and. For integers only, like the next two.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The minimum; of a NaN and a number, the NaN. For floats only, like the next one.
    MinOrNan,
    /// The maximum; of a NaN and a number, the NaN.
    MaxOrNan,
}

/// The type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NumberType {
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
}

const OPERATIONS: [Arithmetic; 9] = [
    Arithmetic::Sum,
    Arithmetic::Product,
    Arithmetic::Min,
    Arithmetic::Max,
    Arithmetic::And,
    Arithmetic::Or,
    Arithmetic::Xor,
    Arithmetic::MinOrNan,
    Arithmetic::MaxOrNan,
];

const NUMBERS: [NumberType; 10] = [
    NumberType::I8,
    NumberType::I16,
    NumberType::I32,
    NumberType::I64,
    NumberType::U8,
    NumberType::U16,
    NumberType::U32,
    NumberType::U64,
    NumberType::F32,
    NumberType::F64,
];

impl NumberType {
    /// The number type of a Rust type, if it is one of them.
    pub fn of<T: 'static>() -> Option<NumberType> {
        use std::any::TypeId;
        let id = TypeId::of::<T>();
        macro_rules! find {
            ($($type:ty = $number:ident),*) => {
                $(if id == TypeId::of::<$type>() { Some(NumberType::$number) } else)* { None }
            };
        }
        find! {
            i8 = I8, i16 = I16, i32 = I32, i64 = I64, isize = I64, u8 = U8, u16 = U16, u32 = U32,
            u64 = U64, usize = U64, f32 = F32, f64 = F64
        }
    }

    /// Bytes of an element.
    pub fn width(self) -> usize {
        match self {
            NumberType::I8 | NumberType::U8 => 1,
            NumberType::I16 | NumberType::U16 => 2,
            NumberType::I32 | NumberType::U32 | NumberType::F32 => 4,
            NumberType::I64 | NumberType::U64 | NumberType::F64 => 8,
        }
    }
}

/// An operation on elements of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Combining {
    operation: Arithmetic,
    number: NumberType,
}

impl Combining {
    /// The operation on this type. `None`: floats have no bitwise operations, integers no NaN.
    pub fn new(operation: Arithmetic, number: NumberType) -> Option<Combining> {
        let float = matches!(number, NumberType::F32 | NumberType::F64);
        let exists = match operation {
            Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => !float,
            Arithmetic::MinOrNan | Arithmetic::MaxOrNan => float,
            _ => true,
        };
        exists.then_some(Combining { operation, number })
    }

    /// Bytes of an element.
    pub fn width(self) -> usize {
        self.number.width()
    }

    /// The encoding as a number: unique, and never zero.
    pub fn code(self) -> u16 {
        (self.operation as u16) << 8 | (self.number as u16 + 1)
    }

    /// Decodes a number that any process may have written; `None` if it is invalid.
    pub fn of_code(code: u16) -> Option<Combining> {
        let number = NUMBERS.get(usize::from(code & 0xff).checked_sub(1)?)?;
        Combining::new(*OPERATIONS.get(usize::from(code >> 8))?, *number)
    }

    /// Stores `left ∘ right` into `right`, element by element. Both should have the same whole
    /// number of elements; bytes beyond them are unchanged.
    pub fn combine(self, left: &[u8], right: &mut [u8]) {
        macro_rules! integer {
            ($type:ty) => {
                match self.operation {
                    Arithmetic::Sum => each!($type, <$type>::wrapping_add),
                    Arithmetic::Product => each!($type, <$type>::wrapping_mul),
                    Arithmetic::Min => each!($type, <$type>::min),
                    Arithmetic::Max => each!($type, <$type>::max),
                    Arithmetic::And => each!($type, |a, b| a & b),
                    Arithmetic::Or => each!($type, |a, b| a | b),
                    Arithmetic::Xor => each!($type, |a, b| a ^ b),
                    // `Combining::new` refuses these.
                    Arithmetic::MinOrNan | Arithmetic::MaxOrNan => {}
                }
            };
        }
        macro_rules! float {
            ($type:ty) => {
                match self.operation {
                    Arithmetic::Sum => each!($type, |a, b| a + b),
                    Arithmetic::Product => each!($type, |a, b| a * b),
                    Arithmetic::Min => each!($type, <$type>::min),
                    Arithmetic::Max => each!($type, <$type>::max),
                    Arithmetic::MinOrNan => {
                        each!($type, |a: $type, b| if a < b || a.is_nan() { a } else { b })
                    }
                    Arithmetic::MaxOrNan => {
                        each!($type, |a: $type, b| if a > b || a.is_nan() { a } else { b })
                    }
                    // `Combining::new` refuses these.
                    Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => {}
                }
            };
        }
        // One loop per operation and type, so that each is vectorised.
        macro_rules! each {
            ($type:ty, $act:expr) => {
                on_each(left, right, |a, b| {
                    $act(<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b)).to_ne_bytes()
                })
            };
        }
        match self.number {
            NumberType::I8 => integer!(i8),
            NumberType::I16 => integer!(i16),
            NumberType::I32 => integer!(i32),
            NumberType::I64 => integer!(i64),
            NumberType::U8 => integer!(u8),
            NumberType::U16 => integer!(u16),
            NumberType::U32 => integer!(u32),
            NumberType::U64 => integer!(u64),
            NumberType::F32 => float!(f32),
            NumberType::F64 => float!(f64),
        }
    }
}

#[inline]
fn on_each<const N: usize>(
    left: &[u8],
    right: &mut [u8],
    act: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (left, _) = left.as_chunks::<N>();
    let (right, _) = right.as_chunks_mut::<N>();
    for (left, right) in left.iter().zip(right) {
        *right = act(*left, *right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_survive_their_number_and_nonsense_is_none() {
        let mut seen = 0;
        for code in 0..=u16::MAX {
            if let Some(combining) = Combining::of_code(code) {
                assert_eq!((combining.code(), code == 0), (code, false));
                seen += 1;
            }
        }
        assert_eq!(seen, 7 * 8 + 6 * 2, "floats have no bits, integers no NaN");
    }

    #[test]
    fn elements_are_combined_left_with_right() {
        let combine = |operation, number, left: &[u8], right: &[u8]| {
            let mut right = right.to_vec();
            let combining = Combining::new(operation, number).expect("there is such a one");
            combining.combine(left, &mut right);
            right
        };
        let pair = |a: i16, b: i16| [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        let (left, right) = (pair(-3, i16::MAX), pair(5, 1));
        for (operation, first, second) in [
            (Arithmetic::Sum, 2, i16::MIN),
            (Arithmetic::Product, -15, i16::MAX),
            (Arithmetic::Min, -3, 1),
            (Arithmetic::Max, 5, i16::MAX),
            (Arithmetic::And, -3 & 5, 1),
            (Arithmetic::Or, -3 | 5, i16::MAX),
            (Arithmetic::Xor, -3 ^ 5, i16::MAX ^ 1),
        ] {
            let expected = pair(first, second);
            assert_eq!(combine(operation, NumberType::I16, &left, &right), expected);
        }
        let unsigned = combine(Arithmetic::Min, NumberType::U16, &left, &right);
        assert_eq!(unsigned, pair(5, 1), "-3 is large without a sign");
        let (nan, one) = (f64::NAN.to_ne_bytes(), 1f64.to_ne_bytes());
        for [left, right] in [[nan, one], [one, nan]] {
            assert_eq!(combine(Arithmetic::Max, NumberType::F64, &left, &right), one);
            for operation in [Arithmetic::MinOrNan, Arithmetic::MaxOrNan] {
                assert_eq!(combine(operation, NumberType::F64, &left, &right), nan);
            }
        }
        let halves = combine(Arithmetic::Sum, NumberType::F32, &0.5f32.to_ne_bytes(), &[0; 4]);
        assert_eq!(halves, 0.5f32.to_ne_bytes());
    }

    #[test]
    fn types_have_their_widths() {
        assert_eq!(NumberType::of::<usize>().map(NumberType::width), Some(size_of::<usize>()));
        assert_eq!(NumberType::of::<f32>(), Some(NumberType::F32));
        assert_eq!(NumberType::of::<u128>(), None);
        assert_eq!(NumberType::of::<char>(), None);
    }
}
