//! The predefined datatypes and their layout in memory (MPI 5.0 §3.2.2, §5.1.11, §6.9.4).
//!
//! Sizes and alignments are those of C and Fortran on x86-64 Linux. The table below is the only
//! place that defines them.

use std::fmt;

/// The kind of an element for reductions and conversions (MPI 5.0 §6.9.2, §14.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// A signed integer in two's complement.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A floating point number.
    Float,
    /// Two floating point numbers: the real part, then the imaginary part.
    Complex,
    /// A truth value: zero is false, all else is true.
    Logical,
    /// Eight bits without a meaning.
    Byte,
    /// A printable character.
    Character,
    /// MPI_AINT, MPI_OFFSET and MPI_COUNT: signed integers that belong to no language.
    Address,
    /// A value and an index, for MPI_MINLOC and MPI_MAXLOC.
    Pair,
}

/// A class of MPI_Type_match_size (MPI 5.0 §19.1.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// MPI_TYPECLASS_INTEGER.
    Integer,
    /// MPI_TYPECLASS_REAL.
    Real,
    /// MPI_TYPECLASS_COMPLEX.
    Complex,
    /// Truth values, which some binary interfaces add.
    Logical,
}

impl fmt::Display for TypeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TypeClass::Integer => "integer",
            TypeClass::Real => "real",
            TypeClass::Complex => "complex",
            TypeClass::Logical => "logical",
        })
    }
}

/// A row of the table.
struct Facts {
    name: &'static str,
    class: Class,
    size: u32,
    alignment: u32,
}

macro_rules! basics {
    ($($variant:ident $name:literal $class:ident $size:literal $alignment:literal;)*) => {
        /// A predefined datatype (MPI 5.0 §3.2.2).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Basic {
            $(#[doc = $name] $variant,)*
        }

        impl Basic {
            /// All predefined datatypes.
            pub const ALL: &'static [Basic] = &[$(Basic::$variant,)*];

            /// A row for each type. A `match` instead would copy the row out of a jump table: 25
            /// instructions, four times in an allreduce.
            const FACTS: &'static [Facts] = &[$(Facts {
                name: $name,
                class: Class::$class,
                size: $size,
                alignment: $alignment,
            },)*];

            #[inline]
            const fn facts(self) -> &'static Facts {
                &Basic::FACTS[self as usize]
            }
        }
    };
}

// Columns: size (bytes of data, without padding), alignment.
basics! {
    Packed "MPI_PACKED" Byte 1 1;
    Byte "MPI_BYTE" Byte 1 1;

    Char "MPI_CHAR" Character 1 1;
    Wchar "MPI_WCHAR" Character 4 4;
    Character "MPI_CHARACTER" Character 1 1;

    SignedChar "MPI_SIGNED_CHAR" Signed 1 1;
    UnsignedChar "MPI_UNSIGNED_CHAR" Unsigned 1 1;
    Short "MPI_SHORT" Signed 2 2;
    UnsignedShort "MPI_UNSIGNED_SHORT" Unsigned 2 2;
    Int "MPI_INT" Signed 4 4;
    Unsigned "MPI_UNSIGNED" Unsigned 4 4;
    Long "MPI_LONG" Signed 8 8;
    UnsignedLong "MPI_UNSIGNED_LONG" Unsigned 8 8;
    LongLong "MPI_LONG_LONG_INT" Signed 8 8;
    UnsignedLongLong "MPI_UNSIGNED_LONG_LONG" Unsigned 8 8;
    Int8 "MPI_INT8_T" Signed 1 1;
    Int16 "MPI_INT16_T" Signed 2 2;
    Int32 "MPI_INT32_T" Signed 4 4;
    Int64 "MPI_INT64_T" Signed 8 8;
    Uint8 "MPI_UINT8_T" Unsigned 1 1;
    Uint16 "MPI_UINT16_T" Unsigned 2 2;
    Uint32 "MPI_UINT32_T" Unsigned 4 4;
    Uint64 "MPI_UINT64_T" Unsigned 8 8;

    Aint "MPI_AINT" Address 8 8;
    Offset "MPI_OFFSET" Address 8 8;
    Count "MPI_COUNT" Address 8 8;

    Float "MPI_FLOAT" Float 4 4;
    Double "MPI_DOUBLE" Float 8 8;
    LongDouble "MPI_LONG_DOUBLE" Float 16 16;
    CFloatComplex "MPI_C_COMPLEX" Complex 8 4;
    CDoubleComplex "MPI_C_DOUBLE_COMPLEX" Complex 16 8;
    CLongDoubleComplex "MPI_C_LONG_DOUBLE_COMPLEX" Complex 32 16;
    CxxFloatComplex "MPI_CXX_FLOAT_COMPLEX" Complex 8 4;
    CxxDoubleComplex "MPI_CXX_DOUBLE_COMPLEX" Complex 16 8;
    CxxLongDoubleComplex "MPI_CXX_LONG_DOUBLE_COMPLEX" Complex 32 16;

    CBool "MPI_C_BOOL" Logical 1 1;
    CxxBool "MPI_CXX_BOOL" Logical 1 1;

    Integer "MPI_INTEGER" Signed 4 4;
    Real "MPI_REAL" Float 4 4;
    DoublePrecision "MPI_DOUBLE_PRECISION" Float 8 8;
    Complex "MPI_COMPLEX" Complex 8 4;
    DoubleComplex "MPI_DOUBLE_COMPLEX" Complex 16 8;
    Logical "MPI_LOGICAL" Logical 4 4;
    Integer1 "MPI_INTEGER1" Signed 1 1;
    Integer2 "MPI_INTEGER2" Signed 2 2;
    Integer4 "MPI_INTEGER4" Signed 4 4;
    Integer8 "MPI_INTEGER8" Signed 8 8;
    Integer16 "MPI_INTEGER16" Signed 16 16;
    Real2 "MPI_REAL2" Float 2 2;
    CFloat16 "MPIX_C_FLOAT16" Float 2 2;
    Real4 "MPI_REAL4" Float 4 4;
    Real8 "MPI_REAL8" Float 8 8;
    Real16 "MPI_REAL16" Float 16 16;
    Complex4 "MPI_COMPLEX4" Complex 4 2;
    Complex8 "MPI_COMPLEX8" Complex 8 4;
    Complex16 "MPI_COMPLEX16" Complex 16 8;
    Complex32 "MPI_COMPLEX32" Complex 32 16;
    Logical1 "MPI_LOGICAL1" Logical 1 1;
    Logical2 "MPI_LOGICAL2" Logical 2 2;
    Logical4 "MPI_LOGICAL4" Logical 4 4;
    Logical8 "MPI_LOGICAL8" Logical 8 8;
    Logical16 "MPI_LOGICAL16" Logical 16 16;

    FloatInt "MPI_FLOAT_INT" Pair 8 4;
    DoubleInt "MPI_DOUBLE_INT" Pair 12 8;
    LongInt "MPI_LONG_INT" Pair 12 8;
    TwoInt "MPI_2INT" Pair 8 4;
    ShortInt "MPI_SHORT_INT" Pair 6 4;
    LongDoubleInt "MPI_LONG_DOUBLE_INT" Pair 20 16;
    TwoReal "MPI_2REAL" Pair 8 4;
    TwoDoublePrecision "MPI_2DOUBLE_PRECISION" Pair 16 8;
    TwoInteger "MPI_2INTEGER" Pair 8 4;
}

impl Basic {
    /// The name in the standard, which is also the type's first name (MPI 5.0 §7.8).
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The kind of an element.
    #[inline]
    pub const fn class(self) -> Class {
        self.facts().class
    }

    /// Bytes of data, as in MPI_Type_size. For a pair, padding is not counted.
    #[inline]
    pub const fn size(self) -> u32 {
        self.facts().size
    }

    /// The alignment of an element in bytes.
    pub const fn alignment(self) -> u32 {
        self.facts().alignment
    }

    /// The kind of leaf: one value, or a value and an index.
    pub const fn kind(self) -> LeafKind {
        let (value, index) = match self {
            Basic::FloatInt => (Basic::Float, Basic::Int),
            Basic::DoubleInt => (Basic::Double, Basic::Int),
            Basic::LongInt => (Basic::Long, Basic::Int),
            Basic::TwoInt => (Basic::Int, Basic::Int),
            Basic::ShortInt => (Basic::Short, Basic::Int),
            Basic::LongDoubleInt => (Basic::LongDouble, Basic::Int),
            Basic::TwoReal => (Basic::Real, Basic::Real),
            Basic::TwoDoublePrecision => (Basic::DoublePrecision, Basic::DoublePrecision),
            Basic::TwoInteger => (Basic::Integer, Basic::Integer),
            _ => return LeafKind::One(self),
        };
        LeafKind::Pair(Pair { value, index })
    }

    /// Bytes of an element in the representation `external32` (MPI 5.0 §14.5.2).
    pub const fn external_size(self) -> u32 {
        match self.kind() {
            LeafKind::Pair(pair) => pair.value.external_size() + pair.index.external_size(),
            LeafKind::One(Basic::Wchar) => 2,
            LeafKind::One(Basic::Long | Basic::UnsignedLong) => 4,
            LeafKind::One(basic) => basic.size(),
        }
    }

    /// The type of a class and a size in bytes (MPI_Type_match_size, MPI 5.0 §19.1.9).
    pub fn match_size(class: TypeClass, size: i64) -> Option<Basic> {
        let candidates: &[Basic] = match class {
            TypeClass::Integer => &[
                Basic::Integer1,
                Basic::Integer2,
                Basic::Integer4,
                Basic::Integer8,
                Basic::Integer16,
            ],
            TypeClass::Real => &[Basic::Real2, Basic::Real4, Basic::Real8, Basic::Real16],
            TypeClass::Complex => {
                &[Basic::Complex4, Basic::Complex8, Basic::Complex16, Basic::Complex32]
            }
            TypeClass::Logical => &[
                Basic::Logical1,
                Basic::Logical2,
                Basic::Logical4,
                Basic::Logical8,
                Basic::Logical16,
            ],
        };
        candidates.iter().copied().find(|basic| i64::from(basic.size()) == size)
    }

    /// The type of a value and an index, if there is one (MPI 5.0 §6.9.4). All have names. The
    /// standard also allows unnamed ones, which neither MPICH nor Open MPI has.
    pub fn pair_of(value: Basic, index: Basic) -> Option<Basic> {
        let wanted = LeafKind::Pair(Pair { value, index });
        Basic::ALL.iter().copied().find(|basic| basic.kind() == wanted)
    }
}

impl fmt::Display for Basic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value and an index, laid out in memory as a C struct of both (MPI 5.0 §6.9.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The type of the compared value.
    pub value: Basic,
    /// The type of the value's location.
    pub index: Basic,
}

impl Pair {
    /// The byte offset of the index from the start of the value.
    pub const fn index_at(self) -> u32 {
        self.value.size().next_multiple_of(self.index.alignment())
    }

    /// The stricter of both alignments.
    pub const fn alignment(self) -> u32 {
        let (value, index) = (self.value.alignment(), self.index.alignment());
        if value > index { value } else { index }
    }

    /// Bytes from one pair to the next, padding included.
    pub const fn extent(self) -> u32 {
        (self.index_at() + self.index.size()).next_multiple_of(self.alignment())
    }
}

/// The kind of one leaf of a datatype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeafKind {
    /// One value. Never one of the named pairs.
    One(Basic),
    /// A value and an index: two basic elements (MPI 5.0 §5.1.11).
    Pair(Pair),
}

impl LeafKind {
    /// The basic elements with their displacements.
    pub fn elements(self) -> impl Iterator<Item = (Basic, u32)> {
        let (first, second) = match self {
            LeafKind::One(basic) => ((basic, 0), None),
            LeafKind::Pair(pair) => ((pair.value, 0), Some((pair.index, pair.index_at()))),
        };
        std::iter::once(first).chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    #[test]
    fn c_types_have_the_sizes_of_c() {
        use std::ffi::{c_char, c_int, c_long, c_longlong, c_short};
        assert_eq!(Basic::Char.size() as usize, size_of::<c_char>());
        assert_eq!(Basic::Short.size() as usize, size_of::<c_short>());
        assert_eq!(Basic::Int.size() as usize, size_of::<c_int>());
        assert_eq!(Basic::Long.size() as usize, size_of::<c_long>());
        assert_eq!(Basic::LongLong.size() as usize, size_of::<c_longlong>());
        assert_eq!(Basic::Aint.size() as usize, size_of::<*const u8>());
    }

    #[repr(C)]
    struct CPair<V, I>(V, I);

    #[repr(C, align(16))]
    struct LongDouble([u8; 16]);

    fn check<V, I>(named: Basic) {
        let LeafKind::Pair(pair) = named.kind() else { panic!("{named} is no pair") };
        assert_eq!(pair.index_at() as usize, offset_of!(CPair<V, I>, 1), "{named}");
        assert_eq!(pair.extent() as usize, size_of::<CPair<V, I>>(), "{named}");
        assert_eq!(pair.alignment() as usize, align_of::<CPair<V, I>>(), "{named}");
        assert_eq!(named.alignment(), pair.alignment(), "{named}");
        assert_eq!(named.size(), pair.value.size() + pair.index.size(), "{named}");
        assert_eq!(Basic::pair_of(pair.value, pair.index), Some(named));
    }

    #[test]
    fn pairs_lie_as_c_structs() {
        check::<f32, i32>(Basic::FloatInt);
        check::<f64, i32>(Basic::DoubleInt);
        check::<i64, i32>(Basic::LongInt);
        check::<i32, i32>(Basic::TwoInt);
        check::<i16, i32>(Basic::ShortInt);
        check::<LongDouble, i32>(Basic::LongDoubleInt);
        check::<f32, f32>(Basic::TwoReal);
        check::<f64, f64>(Basic::TwoDoublePrecision);
        check::<i32, i32>(Basic::TwoInteger);
        assert_eq!(Basic::LongDoubleInt.size(), 16 + 4);
        assert_eq!(Basic::pair_of(Basic::Double, Basic::Long), None);
    }

    #[test]
    fn a_size_is_matched_within_its_class() {
        let find = Basic::match_size;
        assert_eq!(find(TypeClass::Integer, 4), Some(Basic::Integer4));
        assert_eq!(find(TypeClass::Real, 8), Some(Basic::Real8));
        assert_eq!(find(TypeClass::Complex, 8), Some(Basic::Complex8));
        assert_eq!(find(TypeClass::Logical, 1), Some(Basic::Logical1));
        for size in [-1, 0, 3, 64] {
            assert_eq!(find(TypeClass::Integer, size), None);
        }
        assert_eq!(find(TypeClass::Real, 1), None);
    }

    #[test]
    fn every_size_is_a_multiple_of_its_alignment() {
        for basic in Basic::ALL.iter().filter(|basic| basic.class() != Class::Pair) {
            assert_eq!(basic.size() % basic.alignment(), 0, "{basic}");
            assert!(basic.alignment().is_power_of_two(), "{basic}");
        }
    }
}
