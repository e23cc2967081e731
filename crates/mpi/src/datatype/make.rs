//! The constructors of MPI 5.0 §5.1.2, §5.1.7, §5.1.10 and of §6.9.4 and §19.1.9.
//!
//! Each checks its arguments, computes displacements in bytes and hands a shape to the tree.
//! Arguments have the standard's names in errors.

use super::basic::{Basic, TypeClass};
use super::contents::Construction;
use super::error::DatatypeError;
use super::tree::{Bounds, ChildRun, Datatype, Shape, narrow};

impl Datatype {
    /// `count` elements, one after the other (MPI_Type_contiguous, MPI 5.0 §5.1.2).
    ///
    /// # Errors
    /// A negative count, or a type that needs more than 64 bits.
    pub fn contiguous(count: i64, old: &Datatype) -> Result<Datatype, DatatypeError> {
        not_negative("count", count)?;
        let shape = Shape::Loop { count: 1, stride: 0, length: count, child: old.clone() };
        Datatype::new(Construction::Contiguous { count, old: old.clone() }, shape, None)
    }

    /// `count` blocks of `length` elements, whose starts are `stride` elements apart
    /// (MPI_Type_vector, MPI 5.0 §5.1.2).
    ///
    /// # Errors
    /// A negative count or length, or a type that needs more than 64 bits.
    pub fn vector(
        count: i64,
        length: i64,
        stride: i64,
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        not_negative("count", count)?;
        not_negative("blocklength", length)?;
        let construction = Construction::Vector { count, length, stride, old: old.clone() };
        let stride = in_bytes(stride, old)?;
        let shape = Shape::Loop { count, stride, length, child: old.clone() };
        Datatype::new(construction, shape, None)
    }

    /// A vector whose stride is in bytes (MPI_Type_create_hvector, MPI 5.0 §5.1.2).
    ///
    /// # Errors
    /// A negative count or length, or a type that needs more than 64 bits.
    pub fn hvector(
        count: i64,
        length: i64,
        stride: i64,
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        not_negative("count", count)?;
        not_negative("blocklength", length)?;
        let shape = Shape::Loop { count, stride, length, child: old.clone() };
        Datatype::new(
            Construction::Hvector { count, length, stride, old: old.clone() },
            shape,
            None,
        )
    }

    /// Blocks of elements at displacements in elements (MPI_Type_indexed, MPI 5.0 §5.1.2).
    ///
    /// # Errors
    /// A negative length, arrays of different lengths, or a type that needs more than 64 bits.
    pub fn indexed(
        lengths: &[i64],
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        check_lengths(lengths, displacements)?;
        let parts = lengths.iter().zip(displacements).map(|(length, displacement)| {
            let displacement = in_bytes(*displacement, old)?;
            Ok(ChildRun { displacement, length: *length, child: old.clone() })
        });
        let shape = Shape::Parts(parts.collect::<Result<_, _>>()?);
        let (lengths, displacements) = (lengths.to_vec(), displacements.to_vec());
        let construction = Construction::Indexed { lengths, displacements, old: old.clone() };
        Datatype::new(construction, shape, None)
    }

    /// Blocks of elements at displacements in bytes (MPI_Type_create_hindexed, MPI 5.0 §5.1.2).
    ///
    /// # Errors
    /// A negative length, arrays of different lengths, or a type that needs more than 64 bits.
    pub fn hindexed(
        lengths: &[i64],
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        check_lengths(lengths, displacements)?;
        let parts = lengths.iter().zip(displacements).map(|(length, displacement)| ChildRun {
            displacement: *displacement,
            length: *length,
            child: old.clone(),
        });
        let shape = Shape::Parts(parts.collect());
        let (lengths, displacements) = (lengths.to_vec(), displacements.to_vec());
        let construction = Construction::Hindexed { lengths, displacements, old: old.clone() };
        Datatype::new(construction, shape, None)
    }

    /// Blocks of one length at displacements in elements (MPI_Type_create_indexed_block, MPI 5.0
    /// §5.1.2).
    ///
    /// # Errors
    /// A negative length, or a type that needs more than 64 bits.
    pub fn indexed_block(
        length: i64,
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        not_negative("blocklength", length)?;
        let parts = displacements.iter().map(|displacement| {
            let displacement = in_bytes(*displacement, old)?;
            Ok(ChildRun { displacement, length, child: old.clone() })
        });
        let shape = Shape::Parts(parts.collect::<Result<_, _>>()?);
        let displacements = displacements.to_vec();
        let construction = Construction::IndexedBlock { length, displacements, old: old.clone() };
        Datatype::new(construction, shape, None)
    }

    /// Blocks of one length at displacements in bytes (MPI_Type_create_hindexed_block, MPI 5.0
    /// §5.1.2).
    ///
    /// # Errors
    /// A negative length, or a type that needs more than 64 bits.
    pub fn hindexed_block(
        length: i64,
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        not_negative("blocklength", length)?;
        let part = |displacement: &i64| ChildRun {
            displacement: *displacement,
            length,
            child: old.clone(),
        };
        let shape = Shape::Parts(displacements.iter().map(part).collect());
        let displacements = displacements.to_vec();
        let construction = Construction::HindexedBlock { length, displacements, old: old.clone() };
        Datatype::new(construction, shape, None)
    }

    /// Blocks of elements of different types at displacements in bytes (MPI_Type_create_struct,
    /// MPI 5.0 §5.1.2).
    ///
    /// # Errors
    /// A negative length, arrays of different lengths, or a type that needs more than 64 bits.
    pub fn create_struct(
        lengths: &[i64],
        displacements: &[i64],
        types: &[Datatype],
    ) -> Result<Datatype, DatatypeError> {
        check_lengths(lengths, displacements)?;
        same_length("array_of_types", types.len(), lengths.len())?;
        let parts =
            lengths.iter().zip(displacements).zip(types).map(|((length, displacement), child)| {
                ChildRun { displacement: *displacement, length: *length, child: child.clone() }
            });
        let shape = Shape::Parts(parts.collect());
        let (lengths, displacements) = (lengths.to_vec(), displacements.to_vec());
        let construction = Construction::Struct { lengths, displacements, types: types.to_vec() };
        Datatype::new(construction, shape, None)
    }

    /// The same data under other bounds (MPI_Type_create_resized, MPI 5.0 §5.1.7). The extent may
    /// be negative.
    ///
    /// # Errors
    /// An upper bound that needs more than 64 bits.
    pub fn resized(lb: i64, extent: i64, old: &Datatype) -> Result<Datatype, DatatypeError> {
        let high = narrow(i128::from(lb) + i128::from(extent), "the upper bound")?;
        let marks = Some(Bounds { low: lb, high });
        let construction = Construction::Resized { lb, extent, old: old.clone() };
        Datatype::new(construction, Shape::Same(old.clone()), marks)
    }

    /// An equal type (MPI_Type_dup, MPI 5.0 §5.1.10), committed if `old` is.
    ///
    /// # Errors
    /// More levels of types than are supported.
    pub fn dup(old: &Datatype) -> Result<Datatype, DatatypeError> {
        Datatype::new(Construction::Dup(old.clone()), Shape::Same(old.clone()), None)
    }

    /// The predefined type of a class and a size (MPI_Type_match_size, MPI 5.0 §19.1.9).
    ///
    /// # Errors
    /// There is no such type.
    pub fn match_size(class: TypeClass, size: i64) -> Result<Datatype, DatatypeError> {
        let found = Basic::match_size(class, size);
        found.map(Datatype::from).ok_or(DatatypeError::NoSuchSize { class, size })
    }

    /// The integer with at least `range` decimal digits (MPI_Type_create_f90_integer, MPI 5.0
    /// §19.1.9). It is committed.
    ///
    /// # Errors
    /// No kind has so many digits.
    pub fn f90_integer(range: i64) -> Result<Datatype, DatatypeError> {
        let kinds = [
            (2, Basic::Integer1),
            (4, Basic::Integer2),
            (9, Basic::Integer4),
            (18, Basic::Integer8),
            (38, Basic::Integer16),
        ];
        let error =
            DatatypeError::NoSuchKind { what: "integer", precision: None, range: Some(range) };
        let (_, basic) = kinds.into_iter().find(|(digits, _)| range <= *digits).ok_or(error)?;
        Ok(Datatype::leaf(Construction::F90Integer { range }, basic.kind()))
    }

    /// The real number with a precision and an exponent range in decimal digits; `None` is
    /// MPI_UNDEFINED (MPI_Type_create_f90_real, MPI 5.0 §19.1.9). It is committed.
    ///
    /// # Errors
    /// No kind has so many digits, or both are undefined.
    pub fn f90_real(precision: Option<i64>, range: Option<i64>) -> Result<Datatype, DatatypeError> {
        let names = [Basic::Real4, Basic::Real8, Basic::Real16];
        let basic = names[f90_kind("real", precision, range)?];
        Ok(Datatype::leaf(Construction::F90Real { precision, range }, basic.kind()))
    }

    /// The complex number whose parts are those of [`Datatype::f90_real`]
    /// (MPI_Type_create_f90_complex, MPI 5.0 §19.1.9). It is committed.
    ///
    /// # Errors
    /// No kind has so many digits, or both are undefined.
    pub fn f90_complex(
        precision: Option<i64>,
        range: Option<i64>,
    ) -> Result<Datatype, DatatypeError> {
        let names = [Basic::Complex8, Basic::Complex16, Basic::Complex32];
        let basic = names[f90_kind("complex", precision, range)?];
        Ok(Datatype::leaf(Construction::F90Complex { precision, range }, basic.kind()))
    }
}

/// The index of the first of Fortran's three IEEE formats with these decimal digits (Fortran's
/// SELECTED_REAL_KIND).
fn f90_kind(
    what: &'static str,
    precision: Option<i64>,
    range: Option<i64>,
) -> Result<usize, DatatypeError> {
    const KINDS: [(i64, i64); 3] = [(6, 37), (15, 307), (33, 4931)];
    let fits = |digits: &(i64, i64)| {
        precision.is_none_or(|wanted| wanted <= digits.0)
            && range.is_none_or(|wanted| wanted <= digits.1)
    };
    let found = KINDS.iter().position(fits).filter(|_| precision.or(range).is_some());
    found.ok_or(DatatypeError::NoSuchKind { what, precision, range })
}

pub(super) fn not_negative(argument: &'static str, value: i64) -> Result<(), DatatypeError> {
    if value < 0 { Err(DatatypeError::Negative { argument, value }) } else { Ok(()) }
}

pub(super) fn same_length(
    argument: &'static str,
    given: usize,
    expected: usize,
) -> Result<(), DatatypeError> {
    if given == expected {
        return Ok(());
    }
    Err(DatatypeError::WrongLength { argument, given, expected })
}

fn check_lengths(lengths: &[i64], displacements: &[i64]) -> Result<(), DatatypeError> {
    same_length("array_of_displacements", displacements.len(), lengths.len())?;
    match lengths.iter().position(|length| *length < 0) {
        Some(index) => Err(DatatypeError::NegativeElement {
            argument: "array_of_blocklengths",
            index,
            value: lengths[index],
        }),
        None => Ok(()),
    }
}

/// Converts a displacement or stride in elements to bytes.
fn in_bytes(elements: i64, old: &Datatype) -> Result<i64, DatatypeError> {
    narrow(i128::from(elements) * i128::from(old.extent()), "a displacement")
}
