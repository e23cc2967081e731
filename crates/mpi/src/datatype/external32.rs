//! The representation `external32`: big-endian, IEEE, fixed sizes (MPI 5.0 §14.5.2).
//!
//! Values are converted one after the other in packed order, through a buffer on the stack. A type
//! of one basic kind, the usual case, needs no walk of its tree.
//!
//! Three kinds differ from the machine's form by more than the byte order. `long double`, 80 bits
//! in 16 bytes here, becomes a number of 128 bits: every value can be represented, and is rounded
//! to the nearest on the way back. `long` has 32 bits and `wchar_t` 16: larger values are an error.

use super::basic::{Basic, Class, LeafKind};
use super::error::DatatypeError;
use super::tree::{Datatype, Shape};

/// Packed bytes that are converted at a time.
const PIECE: usize = 4096;

/// The largest element, a complex of two `long double`.
const LARGEST: usize = 32;

/// Converts `count` elements, whose packed bytes come from `source`, into `out`. `source` writes
/// the next bytes to a piece and returns their number, which is smaller at the end of the data.
pub(super) fn encode(
    datatype: &Datatype,
    count: u64,
    mut source: impl FnMut(&mut [u8]) -> usize,
    out: &mut [u8],
) -> Result<(), DatatypeError> {
    let mut piece = [0; PIECE];
    let (mut start, mut end) = (0, 0);
    let mut out = out;
    each(datatype, count, &mut |basic, times| {
        let (size, external) = (basic.size() as usize, basic.external_size() as usize);
        for _ in 0..times {
            if end - start < size {
                piece.copy_within(start..end, 0);
                (start, end) = (0, end - start);
                end += source(&mut piece[end..]);
            }
            let (to, rest) = std::mem::take(&mut out).split_at_mut(external);
            out = rest;
            to_external(basic, &piece[start..start + size], to)?;
            start += size;
        }
        Ok(())
    })
}

/// Converts `from` and passes the packed bytes of `count` elements to `sink`, which takes all.
pub(super) fn decode(
    datatype: &Datatype,
    count: u64,
    from: &[u8],
    mut sink: impl FnMut(&[u8]) -> usize,
) {
    let mut piece = [0; PIECE];
    let mut end = 0;
    let mut from = from;
    let converted = each(datatype, count, &mut |basic, times| {
        let (size, external) = (basic.size() as usize, basic.external_size() as usize);
        for _ in 0..times {
            if PIECE - end < size {
                sink(&piece[..end]);
                end = 0;
            }
            let (now, rest) = from.split_at(external);
            from = rest;
            from_external(basic, now, &mut piece[end..end + size]);
            end += size;
        }
        Ok(())
    });
    debug_assert_eq!(converted, Ok(()), "every external value has a counterpart");
    sink(&piece[..end]);
}

type Act<'a> = dyn FnMut(Basic, u64) -> Result<(), DatatypeError> + 'a;

/// Calls `act` with the basic elements of `count` elements in packed order, one run of a kind at a
/// time.
fn each(datatype: &Datatype, count: u64, act: &mut Act<'_>) -> Result<(), DatatypeError> {
    if let Some(LeafKind::One(basic)) = datatype.kind() {
        return act(basic, datatype.elements() * count);
    }
    if datatype.size() == 0 {
        return Ok(());
    }
    for _ in 0..count {
        match datatype.shape() {
            Shape::Leaf(kind) => kind.elements().try_for_each(|(basic, _)| act(basic, 1))?,
            Shape::Same(child) => each(child, 1, act)?,
            Shape::Loop { count, length, child, .. } => {
                each(child, count.unsigned_abs() * length.unsigned_abs(), act)?;
            }
            Shape::Parts(parts) => {
                for part in parts {
                    each(&part.child, part.length.unsigned_abs(), act)?;
                }
            }
        }
    }
    Ok(())
}

fn to_external(basic: Basic, from: &[u8], to: &mut [u8]) -> Result<(), DatatypeError> {
    let lost = DatatypeError::Unrepresentable { basic, what: "in external32" };
    match basic {
        Basic::Long => {
            let value = i32::try_from(i64::from_le_bytes(array(from))).map_err(|_| lost)?;
            to.copy_from_slice(&value.to_be_bytes());
        }
        Basic::UnsignedLong => {
            let value = u32::try_from(u64::from_le_bytes(array(from))).map_err(|_| lost)?;
            to.copy_from_slice(&value.to_be_bytes());
        }
        Basic::Wchar => {
            let value = u16::try_from(u32::from_le_bytes(array(from))).map_err(|_| lost)?;
            to.copy_from_slice(&value.to_be_bytes());
        }
        Basic::CBool | Basic::CxxBool => to[0] = u8::from(from[0] != 0),
        Basic::LongDouble | Basic::CLongDoubleComplex | Basic::CxxLongDoubleComplex => {
            for (from, to) in from.chunks_exact(16).zip(to.chunks_exact_mut(16)) {
                to.copy_from_slice(&widen(array(from)).to_be_bytes());
            }
        }
        _ => reverse(basic, from, to),
    }
    Ok(())
}

fn from_external(basic: Basic, from: &[u8], to: &mut [u8]) {
    match basic {
        Basic::Long => {
            to.copy_from_slice(&i64::from(i32::from_be_bytes(array(from))).to_le_bytes());
        }
        Basic::UnsignedLong => {
            to.copy_from_slice(&u64::from(u32::from_be_bytes(array(from))).to_le_bytes());
        }
        Basic::Wchar => {
            to.copy_from_slice(&u32::from(u16::from_be_bytes(array(from))).to_le_bytes());
        }
        Basic::CBool | Basic::CxxBool => to[0] = u8::from(from[0] != 0),
        Basic::LongDouble | Basic::CLongDoubleComplex | Basic::CxxLongDoubleComplex => {
            for (from, to) in from.chunks_exact(16).zip(to.chunks_exact_mut(16)) {
                to.copy_from_slice(&narrow(u128::from_be_bytes(array(from))));
            }
        }
        _ => reverse(basic, from, to),
    }
}

/// Reverses the bytes of a number, or of each part of a complex number.
fn reverse(basic: Basic, from: &[u8], to: &mut [u8]) {
    debug_assert!(from.len() == to.len() && from.len() <= LARGEST, "{basic}");
    let parts = if basic.class() == Class::Complex { 2 } else { 1 };
    let length = from.len() / parts;
    for (from, to) in from.chunks_exact(length).zip(to.chunks_exact_mut(length)) {
        to.copy_from_slice(from);
        to.reverse();
    }
}

/// The first bytes of a slice. The table of sizes ensures that it is long enough.
fn array<const N: usize>(from: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&from[..N]);
    bytes
}

const SIGN: u16 = 0x8000;
const EXPONENT: u16 = 0x7fff;
/// The highest bit of the significand. It is explicit in 80-bit numbers and implied in 128-bit
/// ones.
const INTEGER_BIT: u64 = 1 << 63;
/// The additional fraction bits of a 128-bit number.
const EXTRA: u32 = 112 - 63;
/// The bit that marks a NaN as quiet.
const QUIET: u64 = 1 << 62;

/// Converts an 80-bit `long double` to 128 bits. Exponents have the same range and bias.
fn widen(bytes: [u8; 16]) -> u128 {
    let significand = u64::from_le_bytes(array(&bytes));
    let high = u16::from_le_bytes(array(&bytes[8..]));
    let (sign, exponent) = (high & SIGN, high & EXPONENT);
    let has_integer_bit = significand & INTEGER_BIT != 0;
    let fraction = u128::from(significand & !INTEGER_BIT) << EXTRA;
    let (exponent, fraction) = match (exponent, has_integer_bit) {
        // A denormal whose integer bit is set has the value of the smallest exponent.
        (0, true) => (1, fraction),
        (0, false) | (_, true) => (exponent, fraction),
        // No processor since the 80287 produces these, and none accepts them as numbers.
        (_, false) => (EXPONENT, u128::from(QUIET) << EXTRA),
    };
    (u128::from(sign | exponent) << 112) | fraction
}

/// The `long double` nearest to a 128-bit number, ties to even.
fn narrow(bits: u128) -> [u8; 16] {
    let high = (bits >> 112) as u16;
    let (sign, mut exponent) = (high & SIGN, high & EXPONENT);
    let fraction = bits & ((1 << 112) - 1);
    let kept = (fraction >> EXTRA) as u64;
    let significand = if exponent == EXPONENT {
        let is_nan = fraction != 0;
        INTEGER_BIT | kept | if is_nan { QUIET } else { 0 }
    } else {
        let rest = fraction & ((1 << EXTRA) - 1);
        let half = 1 << (EXTRA - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let integer_bit = if exponent == 0 { 0 } else { INTEGER_BIT };
        let rounded = u128::from(kept | integer_bit) + u128::from(up);
        if rounded >> 64 != 0 {
            // Rounded up to the next power of two, or from the largest exponent to infinity.
            exponent += 1;
            INTEGER_BIT
        } else {
            if exponent == 0 && rounded as u64 & INTEGER_BIT != 0 {
                exponent = 1;
            }
            rounded as u64
        }
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..10].copy_from_slice(&(sign | exponent).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_double(high: u16, significand: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&significand.to_le_bytes());
        bytes[8..10].copy_from_slice(&high.to_le_bytes());
        bytes
    }

    #[test]
    fn long_doubles_become_quads_and_back() {
        // 1 is 1.0 × 2^0: exponent 0 + 16383 = 0x3fff, fraction 0. 1.5 sets the fraction's top bit.
        for (high, significand, quad_high, quad_fraction) in [
            (0x3fff, 1 << 63, 0x3fff, 0),
            (0xbfff, 3 << 62, 0xbfff, 1u128 << 111),
            (0x7ffe, u64::MAX, 0x7ffe, u128::from(u64::MAX >> 1) << 49),
            (0, 0, 0, 0),
            (SIGN, 0, SIGN, 0),
            (0, 1, 0, 1 << 49),
            (0x7fff, 1 << 63, 0x7fff, 0),
            (0x7fff, 3 << 62, 0x7fff, 1 << 111),
        ] {
            let quad = (u128::from(quad_high) << 112) | quad_fraction;
            assert_eq!(widen(long_double(high, significand)), quad, "{high:x}");
            assert_eq!(narrow(quad), long_double(high, significand), "{high:x}");
        }
    }

    #[test]
    fn odd_long_doubles_have_a_value_too() {
        // The integer bit with exponent 0: the value of exponent 1.
        assert_eq!(widen(long_double(0, 1 << 63)), 1 << 112);
        // No integer bit with an exponent: not a number.
        assert_eq!(widen(long_double(0x3fff, 1)) >> 111, 0xffff);
    }

    #[test]
    fn quads_round_to_nearest_even() {
        let one = 0x3fffu128 << 112;
        let half = 1u128 << 48;
        assert_eq!(narrow(one | half), long_double(0x3fff, 1 << 63));
        assert_eq!(narrow(one | half | 1), long_double(0x3fff, (1 << 63) | 1));
        assert_eq!(narrow(one | (1 << 49) | half), long_double(0x3fff, (1 << 63) | 2));
        let all = (1u128 << 112) - 1;
        assert_eq!(narrow(one | all), long_double(0x4000, 1 << 63));
        assert_eq!(narrow((0x7ffe << 112) | all), long_double(0x7fff, 1 << 63));
        assert_eq!(narrow(all), long_double(1, 1 << 63));
        // The smallest NaN does not become infinity.
        assert_eq!(narrow((0x7fff << 112) | 1), long_double(0x7fff, 3 << 62));
    }
}
