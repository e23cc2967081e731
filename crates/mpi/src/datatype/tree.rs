//! A datatype as a tree, with facts that need no walk: size, bounds, elements, kind.
//!
//! A node is immutable and shared. A [`Datatype`] keeps all types below it alive, so freeing a
//! handle never affects the types that were made of it (MPI 5.0 §5.1.9). All constructors end in
//! one of four shapes:
//!
//! ```text
//!   Leaf    one value, or a value and an index                    predefined
//!   Same    the same data, maybe under other bounds               dup, resized
//!   Loop    count × (blocklength children, one extent apart), stride bytes apart
//!                                                                 contiguous, vector, hvector
//!   Parts   blocks of children, each at its displacement          indexed, struct, arrays
//! ```
//!
//! Bounds follow MPI 5.0 §5.1.6 to the letter. Data has a lowest and a highest byte. A resize adds
//! explicit marks, which the types above inherit. If there are marks, they are the bounds. Else the
//! bounds are those of the data, and the upper one is padded so that the extent is a multiple of
//! the alignment. MPICH differs in two places: it pads only structs, and a struct of marked and
//! unmarked parts has the bounds of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use super::basic::{Basic, LeafKind};
use super::contents::{Construction, Width};
use super::error::DatatypeError;
use super::program::Program;

/// The maximum nesting of types. Walks and drops of a tree recurse, so there must be a limit.
pub const MAX_DEPTH: u32 = 512;

const OVERFLOW: DatatypeError = DatatypeError::Overflow { what: "the span" };

/// A datatype: predefined, or made by one of the constructors (MPI 5.0 §5.1).
///
/// Clones are the same datatype, see [`Datatype::is`].
#[derive(Debug, Clone)]
pub struct Datatype {
    node: Arc<Node>,
}

#[derive(Debug)]
struct Node {
    construction: Construction,
    width: Width,
    shape: Shape,
    facts: Facts,
    /// Made at the first use.
    program: OnceLock<Arc<Program>>,
    committed: AtomicBool,
}

/// How a type combines its children's data.
#[derive(Debug)]
pub(super) enum Shape {
    Leaf(LeafKind),
    Same(Datatype),
    Loop { count: i64, stride: i64, length: i64, child: Datatype },
    Parts(Vec<ChildRun>),
}

/// `length` children, one extent apart, the first at `displacement`.
#[derive(Debug)]
pub(super) struct ChildRun {
    pub(super) displacement: i64,
    pub(super) length: i64,
    pub(super) child: Datatype,
}

/// The first byte of a range and the byte after its last, as displacements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) low: i64,
    pub(super) high: i64,
}

/// The kinds of a type's leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    None,
    One(LeafKind),
    Mixed,
}

/// Facts about a type that need no walk. Every number was checked to fit.
#[derive(Debug, Clone, Copy)]
struct Facts {
    size: i64,
    external_size: i64,
    elements: i64,
    /// Bounds of the data; none without data.
    data: Option<Bounds>,
    /// Explicit bounds from a resize or an array.
    marks: Option<Bounds>,
    lb: i64,
    extent: i64,
    alignment: u32,
    kinds: Kinds,
    depth: u32,
}

static PREDEFINED: LazyLock<Vec<Datatype>> = LazyLock::new(|| {
    Basic::ALL
        .iter()
        .map(|basic| Datatype::leaf(Construction::Named(*basic), basic.kind()))
        .collect()
});

impl From<Basic> for Datatype {
    /// The predefined datatype, the same one every time. It is committed.
    fn from(basic: Basic) -> Datatype {
        // `ALL` lists the variants in the order of their numbers.
        PREDEFINED[basic as usize].clone()
    }
}

impl Datatype {
    /// Bytes of data in one element (MPI_Type_size, MPI 5.0 §5.1.5).
    pub fn size(&self) -> u64 {
        self.node.facts.size.unsigned_abs()
    }

    /// Bytes of one element in `external32` (MPI_Pack_external_size, MPI 5.0 §5.3).
    pub fn external_size(&self) -> u64 {
        self.node.facts.external_size.unsigned_abs()
    }

    /// The lower bound (MPI_Type_get_extent, MPI 5.0 §5.1.7).
    pub fn lb(&self) -> i64 {
        self.node.facts.lb
    }

    /// Bytes from one element to the next (MPI_Type_get_extent, MPI 5.0 §5.1.7).
    pub fn extent(&self) -> i64 {
        self.node.facts.extent
    }

    /// The displacement of the first byte of data, 0 without data (MPI_Type_get_true_extent, MPI
    /// 5.0 §5.1.8).
    pub fn true_lb(&self) -> i64 {
        self.node.facts.data.map_or(0, |data| data.low)
    }

    /// Bytes from the first byte of data to the last (MPI_Type_get_true_extent, MPI 5.0 §5.1.8).
    pub fn true_extent(&self) -> i64 {
        self.node.facts.data.map_or(0, |data| data.high - data.low)
    }

    /// The strictest alignment of the basic elements, 1 without data (MPI 5.0 §5.1.6).
    pub fn alignment(&self) -> u32 {
        self.node.facts.alignment
    }

    /// Basic elements in one element of this type (MPI 5.0 §5.1.11).
    pub fn elements(&self) -> u64 {
        self.node.facts.elements.unsigned_abs()
    }

    /// The kind of all the data, if it is of a single kind. Predefined operations on derived types
    /// need it (MPI 5.0 §12.3.4).
    pub fn kind(&self) -> Option<LeafKind> {
        match self.node.facts.kinds {
            Kinds::One(kind) => Some(kind),
            Kinds::None | Kinds::Mixed => None,
        }
    }

    /// The predefined type that this is, if it is one. A copy by MPI_Type_dup is not.
    pub fn named(&self) -> Option<Basic> {
        match self.node.construction {
            Construction::Named(basic) => Some(basic),
            _ => None,
        }
    }

    /// The predefined type whose values it has, if it is predefined: named, or one of Fortran's
    /// kinds of numbers, which have no names (MPI 5.0 §19.1.9).
    pub fn values(&self) -> Option<Basic> {
        match (&self.node.construction, &self.node.shape) {
            (Construction::Named(basic), _) => Some(*basic),
            (
                Construction::F90Integer { .. }
                | Construction::F90Real { .. }
                | Construction::F90Complex { .. },
                Shape::Leaf(LeafKind::One(basic)),
            ) => Some(*basic),
            _ => None,
        }
    }

    /// Whether both are the same datatype; equal types are not enough.
    pub fn is(&self, other: &Datatype) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }

    /// Makes the type ready for communication (MPI_Type_commit, MPI 5.0 §5.1.9). A second commit
    /// has no effect.
    pub fn commit(&self) {
        self.program();
        self.node.committed.store(true, Ordering::Release);
    }

    /// Whether the type was committed. Predefined types and copies of committed types are
    /// committed.
    pub fn is_committed(&self) -> bool {
        self.node.committed.load(Ordering::Acquire)
    }

    /// The flattened form. The first call makes it.
    pub fn program(&self) -> &Arc<Program> {
        self.node.program.get_or_init(|| match &self.node.shape {
            // A copy shares the program, so that a commit of either serves both.
            Shape::Same(child) if (child.lb(), child.extent()) == (self.lb(), self.extent()) => {
                child.program().clone()
            }
            _ => Arc::new(Program::new(self)),
        })
    }

    /// Whether elements have no gaps inside or between them and are stored in packing order, so
    /// that a message can be sent directly from the buffer. Empty types are contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.program().is_contiguous()
    }

    /// The range of the data of `count` elements: displacements of the first byte and of the byte
    /// after the last. `None` without data.
    ///
    /// # Errors
    /// The range does not fit 64 bits.
    pub fn true_span(&self, count: u64) -> Result<Option<(i64, i64)>, DatatypeError> {
        let data = self.node.facts.data;
        data.map_or(Ok(None), |data| self.spread(count, (data.low, data.high)))
    }

    /// The range of `count` elements from bound to bound, extended by data outside the bounds.
    ///
    /// # Errors
    /// The range does not fit 64 bits.
    pub fn span(&self, count: u64) -> Result<Option<(i64, i64)>, DatatypeError> {
        let (lb, ub) = (self.lb(), self.lb().checked_add(self.extent()).ok_or(OVERFLOW)?);
        let (low, high) = (lb.min(ub), lb.max(ub));
        let data = self.node.facts.data;
        let all = data.map_or((low, high), |data| (low.min(data.low), high.max(data.high)));
        self.spread(count, all)
    }

    /// The range of `count` elements, given the range of the first.
    fn spread(
        &self,
        count: u64,
        (low, high): (i64, i64),
    ) -> Result<Option<(i64, i64)>, DatatypeError> {
        let Some(last) = count.checked_sub(1) else { return Ok(None) };
        let last = i64::try_from(last).ok().and_then(|last| last.checked_mul(self.extent()));
        let last = last.ok_or(OVERFLOW)?;
        let low = low.checked_add(last.min(0)).ok_or(OVERFLOW)?;
        let high = high.checked_add(last.max(0)).ok_or(OVERFLOW)?;
        Ok(Some((low, high)))
    }

    /// Marks the type as made by a constructor with large counts (`_c`), whose arguments
    /// MPI_Type_get_contents returns as large counts (MPI 5.0 §5.1.13).
    #[must_use]
    pub fn with_large_counts(mut self) -> Datatype {
        // A new type has only one owner.
        if let Some(node) = Arc::get_mut(&mut self.node) {
            node.width = Width::Large;
        }
        self
    }

    pub(super) fn construction(&self) -> (&Construction, Width) {
        (&self.node.construction, self.node.width)
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.node.shape
    }

    /// A type of one leaf, committed.
    pub(super) fn leaf(construction: Construction, kind: LeafKind) -> Datatype {
        let end = |(basic, at): (Basic, u32)| i64::from(at + basic.size());
        let high = kind.elements().map(end).max().unwrap_or_default();
        let (alignment, extent) = match kind {
            LeafKind::One(basic) => (basic.alignment(), high),
            LeafKind::Pair(pair) => (pair.alignment(), i64::from(pair.extent())),
        };
        let sum = |of: fn(Basic) -> u32| {
            kind.elements().map(|(basic, _)| i64::from(of(basic))).sum::<i64>()
        };
        let facts = Facts {
            size: sum(Basic::size),
            external_size: sum(Basic::external_size),
            elements: sum(|_| 1),
            data: Some(Bounds { low: 0, high }),
            marks: None,
            lb: 0,
            extent,
            alignment,
            kinds: Kinds::One(kind),
            depth: 1,
        };
        let leaf = Datatype::from_parts(construction, Shape::Leaf(kind), facts);
        leaf.commit();
        leaf
    }

    /// A type of a shape, with explicit bounds if `marks` has them.
    pub(super) fn new(
        construction: Construction,
        shape: Shape,
        marks: Option<Bounds>,
    ) -> Result<Datatype, DatatypeError> {
        let mut sum = Sum::default();
        match &shape {
            // `leaf` makes leaves, with their bounds.
            Shape::Leaf(_) => {}
            Shape::Same(child) => sum.add(child, Bounds { low: 0, high: 0 }, 1)?,
            Shape::Loop { count, stride, length, child } => {
                if *count > 0 && *length > 0 {
                    let outer = reach(*count, *stride)?;
                    let inner = reach(*length, child.extent())?;
                    let at = Bounds {
                        low: narrow(i128::from(outer.low) + i128::from(inner.low), "the span")?,
                        high: narrow(i128::from(outer.high) + i128::from(inner.high), "the span")?,
                    };
                    let copies = i128::from(*count) * i128::from(*length);
                    sum.add(child, at, narrow(copies, "the number of elements")?)?;
                }
            }
            Shape::Parts(parts) => {
                for part in parts.iter().filter(|part| part.length > 0) {
                    let within = reach(part.length, part.child.extent())?;
                    let at = |end: i64| {
                        narrow(i128::from(end) + i128::from(part.displacement), "the span")
                    };
                    let at = Bounds { low: at(within.low)?, high: at(within.high)? };
                    sum.add(&part.child, at, part.length)?;
                }
            }
        }
        let facts = sum.finish(marks)?;
        Ok(Datatype::from_parts(construction, shape, facts))
    }

    fn from_parts(construction: Construction, shape: Shape, facts: Facts) -> Datatype {
        let committed = match (&construction, &shape) {
            (Construction::Dup(_), Shape::Same(child)) => child.is_committed(),
            _ => false,
        };
        let node = Node {
            construction,
            width: Width::Int,
            shape,
            facts,
            program: OnceLock::new(),
            committed: AtomicBool::new(committed),
        };
        Datatype { node: Arc::new(node) }
    }
}

/// The displacements of the lowest and highest of `count` items that are `stride` apart, relative
/// to the first.
fn reach(count: i64, stride: i64) -> Result<Bounds, DatatypeError> {
    let last = narrow(i128::from(count - 1) * i128::from(stride), "the span")?;
    Ok(Bounds { low: last.min(0), high: last.max(0) })
}

/// Converts a number to 64 bits.
pub(super) fn narrow(value: i128, what: &'static str) -> Result<i64, DatatypeError> {
    i64::try_from(value).map_err(|_| DatatypeError::Overflow { what })
}

/// Facts of a type under construction, while its children are added.
struct Sum {
    size: i64,
    external_size: i64,
    elements: i64,
    data: Option<Bounds>,
    marks: Option<Bounds>,
    alignment: u32,
    kinds: Kinds,
    depth: u32,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum {
            size: 0,
            external_size: 0,
            elements: 0,
            data: None,
            marks: None,
            alignment: 1,
            kinds: Kinds::None,
            depth: 0,
        }
    }
}

impl Sum {
    /// Adds `copies` of a child, the lowest at `at.low` and the highest at `at.high`.
    fn add(&mut self, child: &Datatype, at: Bounds, copies: i64) -> Result<(), DatatypeError> {
        let facts = &child.node.facts;
        let times = |total: i64, each: i64, what| {
            narrow(i128::from(total) + i128::from(copies) * i128::from(each), what)
        };
        self.size = times(self.size, facts.size, "the size")?;
        self.external_size = times(self.external_size, facts.external_size, "the size")?;
        self.elements = times(self.elements, facts.elements, "the number of elements")?;
        self.data = union(self.data, facts.data, at)?;
        self.marks = union(self.marks, facts.marks, at)?;
        self.alignment = self.alignment.max(facts.alignment);
        self.kinds = match (self.kinds, facts.kinds) {
            (Kinds::None, kinds) | (kinds, Kinds::None) => kinds,
            (Kinds::One(one), Kinds::One(other)) if one == other => Kinds::One(one),
            _ => Kinds::Mixed,
        };
        self.depth = self.depth.max(facts.depth);
        Ok(())
    }

    fn finish(self, own_marks: Option<Bounds>) -> Result<Facts, DatatypeError> {
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            return Err(DatatypeError::TooDeep { depth, limit: MAX_DEPTH });
        }
        let marks = own_marks.or(self.marks);
        let bounds = match (marks, self.data) {
            (Some(marks), _) => marks,
            (None, Some(data)) => pad(data, self.alignment)?,
            (None, None) => Bounds { low: 0, high: 0 },
        };
        if let Some(data) = self.data {
            narrow(i128::from(data.high) - i128::from(data.low), "the true extent")?;
        }
        Ok(Facts {
            size: self.size,
            external_size: self.external_size,
            elements: self.elements,
            data: self.data,
            marks,
            lb: bounds.low,
            extent: narrow(i128::from(bounds.high) - i128::from(bounds.low), "the extent")?,
            alignment: self.alignment,
            kinds: self.kinds,
            depth,
        })
    }
}

/// The union of `all` and the bounds of a child whose copies lie from `at.low` to `at.high`.
fn union(
    all: Option<Bounds>,
    child: Option<Bounds>,
    at: Bounds,
) -> Result<Option<Bounds>, DatatypeError> {
    let Some(child) = child else { return Ok(all) };
    // Marks may be in reverse order, because an extent may be negative.
    let low = narrow(i128::from(at.low) + i128::from(child.low), "the lower bound")?;
    let high = narrow(i128::from(at.high) + i128::from(child.high), "the upper bound")?;
    Ok(Some(match all {
        Some(all) => Bounds { low: all.low.min(low), high: all.high.max(high) },
        None => Bounds { low, high },
    }))
}

/// Raises the upper bound until the extent is a multiple of the alignment.
fn pad(data: Bounds, alignment: u32) -> Result<Bounds, DatatypeError> {
    let alignment = i128::from(alignment);
    let extent = i128::from(data.high) - i128::from(data.low);
    let padded = (extent + alignment - 1) / alignment * alignment;
    Ok(Bounds { low: data.low, high: narrow(i128::from(data.low) + padded, "the upper bound")? })
}
