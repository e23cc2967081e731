//! Errors in the arguments of a constructor or of a pack.

use thiserror::Error;

use super::basic::{Basic, TypeClass};

/// The reason why a datatype cannot be made or used. Every line names the argument and its value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatatypeError {
    /// A count, a block length or a size is below zero.
    #[error("{argument} is {value}: it must be 0 or more")]
    Negative {
        /// Name of the argument in the standard.
        argument: &'static str,
        /// The given value.
        value: i64,
    },
    /// An element of an array is below zero.
    #[error("{argument}[{index}] is {value}: it must be 0 or more")]
    NegativeElement {
        /// Name of the array in the standard.
        argument: &'static str,
        /// Index of the element, from 0.
        index: usize,
        /// The given value.
        value: i64,
    },
    /// An argument is outside the range that another argument allows.
    #[error("{argument} is {value}: it must be {low} to {high}")]
    OutOfRange {
        /// Name of the argument in the standard.
        argument: &'static str,
        /// The given value.
        value: i64,
        /// The smallest allowed value.
        low: i64,
        /// The largest allowed value.
        high: i64,
    },
    /// An element of an array is outside the range that other arguments allow.
    #[error("{argument}[{index}] is {value}: it must be {low} to {high}")]
    ElementOutOfRange {
        /// Name of the array in the standard.
        argument: &'static str,
        /// Index of the element, from 0.
        index: usize,
        /// The given value.
        value: i64,
        /// The smallest allowed value.
        low: i64,
        /// The largest allowed value.
        high: i64,
    },
    /// Two arrays must have the same length.
    #[error("{argument} has {given} elements where {expected} are needed")]
    WrongLength {
        /// Name of the array in the standard.
        argument: &'static str,
        /// The given length.
        given: usize,
        /// The needed length.
        expected: usize,
    },
    /// The size of the process grid differs from that of the group.
    #[error("the product of array_of_psizes is {product}: it must be size, {size}")]
    WrongGrid {
        /// Product of the grid's dimensions.
        product: i128,
        /// Size of the group.
        size: i64,
    },
    /// The blocks of a block distribution do not cover the dimension.
    #[error(
        "array_of_dargs[{index}] is {value}: {processes} such blocks do not hold the {elements} \
         elements of dimension {index}"
    )]
    BlockTooSmall {
        /// Index of the dimension, from 0.
        index: usize,
        /// The given block length.
        value: i64,
        /// Processes in this dimension.
        processes: i64,
        /// Elements in this dimension.
        elements: i64,
    },
    /// A size or an address does not fit 64 bits.
    #[error("{what} of the datatype does not fit 64 bits")]
    Overflow {
        /// The quantity that does not fit.
        what: &'static str,
    },
    /// The nesting of types exceeds the limit.
    #[error("the datatype is made of {depth} levels of datatypes: {limit} are supported")]
    TooDeep {
        /// The levels of the new type.
        depth: u32,
        /// The supported levels.
        limit: u32,
    },
    /// No predefined type is of this class and size.
    #[error("size is {size}: no predefined {class} datatype has it")]
    NoSuchSize {
        /// The given class.
        class: TypeClass,
        /// The given size in bytes.
        size: i64,
    },
    /// No Fortran kind has so many digits or such large exponents.
    #[error("no Fortran {what} kind has {}", digits(*precision, *range))]
    NoSuchKind {
        /// The kind of number.
        what: &'static str,
        /// The given number of decimal digits.
        precision: Option<i64>,
        /// The given decimal exponent range.
        range: Option<i64>,
    },
    /// A buffer has too little room for packing, or too little data for unpacking.
    #[error("{what} needs {needed} bytes at position {position}: the buffer has {size}")]
    NoRoom {
        /// The operation: pack or unpack.
        what: &'static str,
        /// Number of bytes it needs.
        needed: u64,
        /// Offset at which it starts.
        position: u64,
        /// Size of the buffer.
        size: u64,
    },
    /// Some of the data lies outside the slice.
    #[error("the data lies at bytes {low} to {high} around the origin: the slice does not hold it")]
    OutsideSlice {
        /// The first byte, relative to the origin.
        low: i64,
        /// The end of the data (exclusive), relative to the origin.
        high: i64,
    },
    /// A value has no counterpart in the other representation.
    #[error("the value of an {basic} cannot be represented {what}")]
    Unrepresentable {
        /// The type of the value.
        basic: Basic,
        /// Where the value cannot be represented.
        what: &'static str,
    },
}

/// Formats the given precision and exponent range.
fn digits(precision: Option<i64>, range: Option<i64>) -> String {
    let named = [("precision p", precision), ("range r", range)];
    let given = named.iter().filter_map(|(name, digits)| Some(format!("{name} = {}", (*digits)?)));
    let given: Vec<String> = given.collect();
    if given.is_empty() { "undefined precision p and range r".into() } else { given.join(" and ") }
}
