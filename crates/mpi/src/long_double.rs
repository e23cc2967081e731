//! Arithmetic of `long double` as C computes it on x86-64: 80 bits, on the processor's x87 unit.
//! Rust has no such type.

use std::arch::asm;
use std::cmp::Ordering;

/// A `long double` as stored in memory: ten bytes, and six of padding.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct LongDouble([u8; 16]);

/// Applies an x87 instruction to two numbers on the unit's stack.
macro_rules! calculated {
    ($left:expr, $right:expr, $instruction:literal) => {{
        let (left, right) = ($left, $right);
        let mut result = LongDouble([0; 16]);
        // SAFETY: both numbers are read and the result is written within their ten bytes; the
        // unit's stack is empty before and after, and the block declares that it uses all of it.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $instruction,
                "fstp tbyte ptr [{result}]",
                left = in(reg) &left,
                right = in(reg) &right,
                result = in(reg) &mut result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }};
}

impl LongDouble {
    /// The number in these bytes.
    pub(crate) fn of(bytes: [u8; 16]) -> LongDouble {
        LongDouble(bytes)
    }

    /// Its bytes.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The sum.
    pub(crate) fn plus(self, other: LongDouble) -> LongDouble {
        calculated!(self, other, "faddp st(1), st")
    }

    /// The difference.
    pub(crate) fn minus(self, other: LongDouble) -> LongDouble {
        calculated!(self, other, "fsubp st(1), st")
    }

    /// The product.
    pub(crate) fn times(self, other: LongDouble) -> LongDouble {
        calculated!(self, other, "fmulp st(1), st")
    }

    /// Compares two numbers; `None` if one is a NaN.
    pub(crate) fn compare(self, other: LongDouble) -> Option<Ordering> {
        let (above, parity, equal): (u8, u8, u8);
        // SAFETY: both numbers are read within their ten bytes; the unit's stack is empty before
        // and after, and the block declares that it uses all of it.
        unsafe {
            asm!(
                "fld tbyte ptr [{other}]",
                "fld tbyte ptr [{own}]",
                "fcomip st, st(1)",
                "fstp st(0)",
                "seta {above}",
                "setp {parity}",
                "sete {equal}",
                own = in(reg) &self,
                other = in(reg) &other,
                above = out(reg_byte) above,
                parity = out(reg_byte) parity,
                equal = out(reg_byte) equal,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        match (parity, equal, above) {
            (1, ..) => None,
            (_, 1, _) => Some(Ordering::Equal),
            (_, _, 1) => Some(Ordering::Greater),
            _ => Some(Ordering::Less),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whole number. The format has no hidden bit.
    fn of(number: i64) -> LongDouble {
        let size = number.unsigned_abs();
        let mut bytes = [0; 16];
        if size > 0 {
            let zeros = size.leading_zeros();
            bytes[..8].copy_from_slice(&(size << zeros).to_le_bytes());
            let sign = if number < 0 { 0x8000 } else { 0 };
            let exponent = 16383 + 63 - zeros as u16;
            bytes[8..10].copy_from_slice(&(sign | exponent).to_le_bytes());
        }
        LongDouble(bytes)
    }

    #[test]
    fn it_calculates_with_64_bits_of_precision() {
        // 2^62 + 1 has more bits than a double.
        let large = (1 << 62) + 1;
        for (result, expected) in [
            (of(3).plus(of(-5)), of(-2)),
            (of(3).minus(of(-5)), of(8)),
            (of(-3).times(of(5)), of(-15)),
            (of(1 << 62).plus(of(1)), of(large)),
            (of(large).minus(of(1 << 62)), of(1)),
        ] {
            assert_eq!(result.to_bytes()[..10], expected.to_bytes()[..10]);
        }
    }

    #[test]
    fn it_compares_and_no_number_is_neither() {
        let mut none = of(1);
        none.0[..10].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0xC0, 0xFF, 0x7F]);
        assert_eq!(of(2).compare(of(-3)), Some(Ordering::Greater));
        assert_eq!(of(-2).compare(of(3)), Some(Ordering::Less));
        assert_eq!(of(7).compare(of(7)), Some(Ordering::Equal));
        assert_eq!(none.compare(of(7)), None);
    }
}
