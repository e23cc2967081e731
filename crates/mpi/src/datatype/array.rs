//! Parts of arrays: subarray and darray (MPI 5.0 §5.1.3, §5.1.4).
//!
//! Both start with the dimension that is contiguous in memory and wrap a loop around it for each
//! further one. The intermediate types are private: the result only shows its own arguments.

use super::contents::{Construction, DistributedDimension, Distribution, Order};
use super::error::DatatypeError;
use super::make::{not_negative, same_length};
use super::tree::{Bounds, ChildRun, Datatype, Shape, narrow};

impl Datatype {
    /// A box of an array that starts at `starts` and has `subsizes` elements per dimension
    /// (MPI_Type_create_subarray, MPI 5.0 §5.1.3). Its extent is that of the whole array.
    ///
    /// # Errors
    /// No dimension, arrays of different lengths, a box that is empty or reaches out of the array,
    /// or a type that needs more than 64 bits.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        check_dimensions(sizes.len())?;
        same_length("array_of_subsizes", subsizes.len(), sizes.len())?;
        same_length("array_of_starts", starts.len(), sizes.len())?;
        for (index, ((size, subsize), start)) in sizes.iter().zip(subsizes).zip(starts).enumerate()
        {
            in_range("array_of_sizes", index, *size, (1, i64::MAX))?;
            in_range("array_of_subsizes", index, *subsize, (1, *size))?;
            in_range("array_of_starts", index, *start, (0, *size - *subsize))?;
        }
        let mut inner = old.clone();
        // Bytes from one element of the dimension to the next.
        let mut stride = old.extent();
        let mut displacement = 0;
        for (level, at) in fastest_first(sizes.len(), order).enumerate() {
            let (count, length) = if level == 0 { (1, subsizes[at]) } else { (subsizes[at], 1) };
            inner = private(Shape::Loop { count, stride, length, child: inner })?;
            let start = i128::from(starts[at]) * i128::from(stride);
            displacement = narrow(i128::from(displacement) + start, "a displacement")?;
            stride = narrow(i128::from(stride) * i128::from(sizes[at]), "the extent")?;
        }
        let construction = Construction::Subarray {
            sizes: sizes.to_vec(),
            subsizes: subsizes.to_vec(),
            starts: starts.to_vec(),
            order,
            old: old.clone(),
        };
        let shape = Shape::Parts(vec![ChildRun { displacement, length: 1, child: inner }]);
        Datatype::new(construction, shape, Some(Bounds { low: 0, high: stride }))
    }

    /// The part of process `rank` of `size` in an array that is distributed over a process grid
    /// (MPI_Type_create_darray, MPI 5.0 §5.1.4). Ranks count along the grid's last dimension
    /// first, in either order.
    ///
    /// # Errors
    /// An argument outside its range, a grid of another size, blocks that do not hold their
    /// dimension, or a type that needs more than 64 bits.
    pub fn darray(
        size: i64,
        rank: i64,
        dimensions: &[DistributedDimension],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        check_darray(size, rank, dimensions)?;
        let places = places(rank, dimensions);
        let mut inner = old.clone();
        let mut stride = old.extent();
        for at in fastest_first(dimensions.len(), order) {
            inner = distribute(&dimensions[at], places[at], stride, inner)?;
            stride =
                narrow(i128::from(stride) * i128::from(dimensions[at].elements), "the extent")?;
        }
        let dimensions = dimensions.to_vec();
        let construction = Construction::Darray { size, rank, dimensions, order, old: old.clone() };
        let marks = Some(Bounds { low: 0, high: stride });
        Datatype::new(construction, Shape::Same(inner), marks)
    }
}

/// A type that is not visible to the program.
fn private(shape: Shape) -> Result<Datatype, DatatypeError> {
    // Its construction is never queried, and a name of its own would mislead in a debugger.
    let hidden = Construction::Struct { lengths: vec![], displacements: vec![], types: vec![] };
    Datatype::new(hidden, shape, None)
}

/// Dimensions from the one that is contiguous in memory outward.
fn fastest_first(count: usize, order: Order) -> impl Iterator<Item = usize> {
    (0..count).map(move |level| match order {
        Order::Fortran => level,
        Order::C => count - 1 - level,
    })
}

fn check_dimensions(count: usize) -> Result<(), DatatypeError> {
    if count > 0 {
        return Ok(());
    }
    Err(DatatypeError::OutOfRange { argument: "ndims", value: 0, low: 1, high: i64::MAX })
}

fn in_range(
    argument: &'static str,
    index: usize,
    value: i64,
    (low, high): (i64, i64),
) -> Result<(), DatatypeError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(DatatypeError::ElementOutOfRange { argument, index, value, low, high })
}

fn check_darray(
    size: i64,
    rank: i64,
    dimensions: &[DistributedDimension],
) -> Result<(), DatatypeError> {
    check_dimensions(dimensions.len())?;
    if size < 1 {
        let (argument, high) = ("size", i64::MAX);
        return Err(DatatypeError::OutOfRange { argument, value: size, low: 1, high });
    }
    if !(0..size).contains(&rank) {
        let (argument, high) = ("rank", size - 1);
        return Err(DatatypeError::OutOfRange { argument, value: rank, low: 0, high });
    }
    for (index, dimension) in dimensions.iter().enumerate() {
        let DistributedDimension { elements, distribution, argument, processes } = *dimension;
        in_range("array_of_gsizes", index, elements, (1, i64::MAX))?;
        let most = if distribution == Distribution::None { 1 } else { i64::MAX };
        in_range("array_of_psizes", index, processes, (1, most))?;
        let Some(value) = argument else { continue };
        // A dimension that is not distributed ignores its argument.
        if distribution == Distribution::None {
            continue;
        }
        in_range("array_of_dargs", index, value, (1, i64::MAX))?;
        let held = i128::from(value) * i128::from(processes);
        if distribution == Distribution::Block && held < i128::from(elements) {
            return Err(DatatypeError::BlockTooSmall { index, value, processes, elements });
        }
    }
    let sizes = dimensions.iter().map(|dimension| i128::from(dimension.processes));
    let product = sizes.fold(1i128, i128::saturating_mul);
    if product != i128::from(size) {
        return Err(DatatypeError::WrongGrid { product, size });
    }
    not_negative("rank", rank)
}

/// The coordinates of a rank in the grid: row-major, as in Cartesian topologies.
fn places(rank: i64, dimensions: &[DistributedDimension]) -> Vec<i64> {
    let mut rest = rank;
    let mut places = vec![0; dimensions.len()];
    for (place, dimension) in places.iter_mut().zip(dimensions).rev() {
        *place = rest % dimension.processes;
        rest /= dimension.processes;
    }
    places
}

/// The part of the process at `place` in one dimension, whose elements are `stride` bytes apart and
/// of type `inner`. Every distribution is a cyclic one with its own block length:
///
/// ```text
///   elements  0 1 2 | 3 4 5 | 6 7 8 | 9 10      block length 3, 2 processes, place 0:
///   place       0   |   1   |   0   |  1        0 1 2, 6 7 8
/// ```
fn distribute(
    dimension: &DistributedDimension,
    place: i64,
    stride: i64,
    inner: Datatype,
) -> Result<Datatype, DatatypeError> {
    let DistributedDimension { elements, distribution, argument, processes } = *dimension;
    let block = match (distribution, argument) {
        (Distribution::None, _) => elements,
        (Distribution::Block, None) => (elements - 1) / processes + 1,
        (Distribution::Cyclic, None) => 1,
        (_, Some(argument)) => argument,
    };
    // All of this stays below 2^127: each factor is a positive i64.
    let (total, block, place) = (i128::from(elements), i128::from(block), i128::from(place));
    let period = block * i128::from(processes);
    let first = place * block;
    // The number of complete blocks in the dimension, and the rest in one more block.
    let whole = if total < first + block { 0 } else { (total - first - block) / period + 1 };
    let tail = (total - first - whole * period).max(0);
    let bytes = |count: i128| {
        // Only displacements within the array are computed, so they fit wherever the extent fits.
        narrow(count.saturating_mul(i128::from(stride)), "the extent")
    };
    let row = |length: i128| {
        let count = narrow(length, "a block")?;
        private(Shape::Loop { count, stride, length: 1, child: inner.clone() })
    };
    let mut parts = Vec::new();
    if whole > 0 {
        let count = narrow(whole, "a block")?;
        let apart = if whole > 1 { bytes(period)? } else { 0 };
        let blocks = Shape::Loop { count, stride: apart, length: 1, child: row(block)? };
        parts.push(ChildRun { displacement: bytes(first)?, length: 1, child: private(blocks)? });
    }
    if tail > 0 {
        let displacement = bytes(first + whole * period)?;
        parts.push(ChildRun { displacement, length: 1, child: row(tail)? });
    }
    private(Shape::Parts(parts))
}
