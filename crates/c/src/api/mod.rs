//! The functions of the header, one file per chapter, and the element types.

mod message;
mod shared;
mod world;

use std::ffi::c_int;

use hikyaku::shared::Element;

use crate::failure::CallFailure;

macro_rules! types {
    ($($type:ident = $code:literal: $rust:ty,)*) => {
        /// An element type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub(crate) enum Type {
            $(#[doc = concat!("`", stringify!($rust), "`.")] $type = $code,)*
        }

        impl Type {
            /// The type of a code.
            pub(crate) fn of(code: c_int) -> Result<Type, CallFailure> {
                match code {
                    $($code => Ok(Type::$type),)*
                    _ => Err(CallFailure::argument(format!(
                        "{code} is no type: use one of hikyaku.h, such as HIKYAKU_DOUBLE"
                    ))),
                }
            }

            /// The size of an element, bytes.
            #[inline]
            pub(crate) fn size(self) -> usize {
                match self {
                    $(Type::$type => size_of::<$rust>(),)*
                }
            }

            /// Its description for comparison between ranks: the same as in Rust programs.
            pub(crate) fn element(self) -> Element {
                match self {
                    $(Type::$type => Element::of::<$rust>(),)*
                }
            }
        }

        /// The header's names of the types, in capitals.
        #[cfg(test)]
        const TYPES: &[(&str, i64)] = &[$((stringify!($type), $code)),*];

        /// Evaluates an expression with the Rust type of a [`Type`].
        macro_rules! typed {
            ($given:expr, $name:ident => $body:expr) => {
                match $given {
                    $($crate::api::Type::$type => {
                        type $name = $rust;
                        $body
                    })*
                }
            };
        }
        use typed;
    };
}

types! {
    Int8 = 1: i8,
    Int16 = 2: i16,
    Int32 = 3: i32,
    Int64 = 4: i64,
    Uint8 = 5: u8,
    Uint16 = 6: u16,
    Uint32 = 7: u32,
    Uint64 = 8: u64,
    Float = 9: f32,
    Double = 10: f64,
}

/// A rank, from its C type.
fn rank_of(number: c_int) -> Result<u32, CallFailure> {
    u32::try_from(number)
        .map_err(|_| CallFailure::argument(format!("rank {number} does not exist")))
}

/// A number as a non-negative result.
fn number(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// The header's constants except error codes.
#[cfg(test)]
pub(crate) fn constants() -> impl Iterator<Item = (&'static str, i64)> {
    let name = |(name, code): &(&str, i64)| {
        let name = format!("HIKYAKU_{}", name.to_uppercase());
        (&*Box::leak(name.into_boxed_str()), *code)
    };
    TYPES.iter().map(name).chain(message::CONSTANTS).chain(shared::CONSTANTS)
}

/// Sizes of the header's structures, in the order of their names in its test.
#[cfg(test)]
pub(crate) fn sizes() -> [usize; 4] {
    [
        size_of::<shared::SharedName>(),
        size_of::<shared::VariableOptions>(),
        size_of::<shared::Marked>(),
        size_of::<message::Received>(),
    ]
}
