//! What can be wrong with the arguments of a constructor or of a pack.

use thiserror::Error;

use super::basic::{Basic, TypeClass};

/// Why a datatype cannot be made or used. Every line names the argument and its value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatatypeError {
    /// A count, a block length or a size is below zero.
    #[error("{argument} is {value}: it must be 0 or more")]
    Negative {
        /// Name of the argument in the standard.
        argument: &'static str,
        /// What was given.
        value: i64,
    },
    /// An element of an array is below zero.
    #[error("{argument}[{index}] is {value}: it must be 0 or more")]
    NegativeElement {
        /// Name of the array in the standard.
        argument: &'static str,
        /// Which element, from 0.
        index: usize,
        /// What was given.
        value: i64,
    },
    /// An argument lies outside what another one allows.
    #[error("{argument} is {value}: it must be {low} to {high}")]
    OutOfRange {
        /// Name of the argument in the standard.
        argument: &'static str,
        /// What was given.
        value: i64,
        /// The smallest value that is allowed.
        low: i64,
        /// The largest value that is allowed.
        high: i64,
    },
    /// An element of an array lies outside what other arguments allow.
    #[error("{argument}[{index}] is {value}: it must be {low} to {high}")]
    ElementOutOfRange {
        /// Name of the array in the standard.
        argument: &'static str,
        /// Which element, from 0.
        index: usize,
        /// What was given.
        value: i64,
        /// The smallest value that is allowed.
        low: i64,
        /// The largest value that is allowed.
        high: i64,
    },
    /// Two arrays must have the same length.
    #[error("{argument} has {given} elements where {expected} are needed")]
    WrongLength {
        /// Name of the array in the standard.
        argument: &'static str,
        /// How many it has.
        given: usize,
        /// How many it needs.
        expected: usize,
    },
    /// The process grid is not as large as the group.
    #[error("the product of array_of_psizes is {product}: it must be size, {size}")]
    WrongGrid {
        /// Product of the grid's dimensions.
        product: i128,
        /// Size of the group.
        size: i64,
    },
    /// Block distribution with blocks that do not hold the dimension.
    #[error(
        "array_of_dargs[{index}] is {value}: {processes} such blocks do not hold the {elements} \
         elements of dimension {index}"
    )]
    BlockTooSmall {
        /// Which dimension, from 0.
        index: usize,
        /// The block length that was given.
        value: i64,
        /// Processes in this dimension.
        processes: i64,
        /// Elements in this dimension.
        elements: i64,
    },
    /// A size or an address does not fit 64 bits.
    #[error("{what} of the datatype does not fit 64 bits")]
    Overflow {
        /// What does not fit.
        what: &'static str,
    },
    /// Types of types of types beyond the limit.
    #[error("the datatype is made of {depth} levels of datatypes: {limit} are supported")]
    TooDeep {
        /// Levels it would have.
        depth: u32,
        /// Levels it may have.
        limit: u32,
    },
    /// No predefined type is of this class and size.
    #[error("size is {size}: no predefined {class} datatype has it")]
    NoSuchSize {
        /// The class that was asked for.
        class: TypeClass,
        /// The size that was asked for, bytes.
        size: i64,
    },
    /// No Fortran kind has so many digits or so large exponents.
    #[error("no Fortran {what} kind has {}", digits(*precision, *range))]
    NoSuchKind {
        /// What kind of number.
        what: &'static str,
        /// Decimal digits that were asked for.
        precision: Option<i64>,
        /// Decimal exponent range that was asked for.
        range: Option<i64>,
    },
    /// A buffer has no room for what is packed into it, or not the data that is unpacked.
    #[error("{what} needs {needed} bytes at position {position}: the buffer has {size}")]
    NoRoom {
        /// The operation: pack or unpack.
        what: &'static str,
        /// Bytes it needs.
        needed: u64,
        /// Where it starts.
        position: u64,
        /// Size of the buffer.
        size: u64,
    },
    /// The datatype reaches outside of a slice.
    #[error("the data lies at bytes {low} to {high} around the origin: the slice does not hold it")]
    OutsideSlice {
        /// The first byte, from the origin.
        low: i64,
        /// Behind the last byte, from the origin.
        high: i64,
    },
    /// A value has no counterpart in the other representation.
    #[error("the value of an {basic} cannot be represented {what}")]
    Unrepresentable {
        /// The type of the value.
        basic: Basic,
        /// Where it cannot be represented.
        what: &'static str,
    },
}

/// The decimal digits that were asked for, of a precision and of an exponent range.
fn digits(precision: Option<i64>, range: Option<i64>) -> String {
    let named = [("precision p", precision), ("range r", range)];
    let given = named.iter().filter_map(|(name, digits)| Some(format!("{name} = {}", (*digits)?)));
    let given: Vec<String> = given.collect();
    if given.is_empty() { "undefined precision p and range r".into() } else { given.join(" and ") }
}
