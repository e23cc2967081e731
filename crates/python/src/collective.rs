//! Collectives on arrays: every rank of a communicator calls the same ones in the same order.
//!
//! They use the scope's collectives: started, and then waited for like any operation ([`wait`]). A
//! rank that leaves one by Ctrl-C abandons it, and the other ranks are told. They are also told of
//! a call whose arguments are invalid at this rank ([`Calling`]).
//!
//! Elements are bytes if nothing is computed. Sums and extremes follow numpy's types; and, or and
//! xor are the same for every integer, byte by byte.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use hikyaku::{Collective, Commutative, MsgError, Number, Op, Reducer, Scope};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::array::PythonArray;
use crate::element::ElementKind;
use crate::gate::GateGuard;
use crate::rank::{PythonComm, PythonRank};
use crate::wait::{self, WaitInfo};
use crate::world::{World, existing};

/// How elements are combined.
#[derive(Debug, Clone, Copy)]
enum Operator {
    Numbers(Op),
    Bits(fn(u8, u8) -> u8),
}

/// Every operator by name.
const OPERATORS: [(&str, Operator); 7] = [
    ("sum", Operator::Numbers(Op::Sum)),
    ("prod", Operator::Numbers(Op::Product)),
    ("min", Operator::Numbers(Op::Min)),
    ("max", Operator::Numbers(Op::Max)),
    ("and", Operator::Bits(|left, right| left & right)),
    ("or", Operator::Bits(|left, right| left | right)),
    ("xor", Operator::Bits(|left, right| left ^ right)),
];

/// A reduction's operator, and the type of its elements.
#[derive(Debug, Clone, Copy)]
struct Computation {
    element: ElementKind,
    operator: Operator,
}

impl Computation {
    /// # Errors
    /// There is no such operator, or it does not apply to these elements.
    fn new(name: &str, array: &PythonArray) -> PyResult<Computation> {
        let found = OPERATORS.iter().find(|(known, _)| *known == name);
        let Some((_, operator)) = found else {
            let known = OPERATORS.map(|(known, _)| known).join(", ");
            return Err(PyValueError::new_err(format!("op: '{name}' is none of {known}")));
        };
        let element = array.element()?;
        let refuse = |what: &str| {
            Err(PyTypeError::new_err(format!("op: '{name}' is not defined for {what}")))
        };
        let (element, operator) = match (element, *operator) {
            (ElementKind::F32 | ElementKind::F64, Operator::Bits(_)) => return refuse("floats"),
            (ElementKind::Bool, Operator::Numbers(Op::Sum | Op::Product)) => {
                return refuse("booleans: use 'or', 'and', or integers");
            }
            // False is 0 and true is 1.
            (ElementKind::Bool, operator) => (ElementKind::U8, operator),
            // A complex sum is the sum of the parts.
            (ElementKind::C64, Operator::Numbers(Op::Sum)) => (ElementKind::F32, *operator),
            (ElementKind::C128, Operator::Numbers(Op::Sum)) => (ElementKind::F64, *operator),
            (ElementKind::C64 | ElementKind::C128, _) => {
                return refuse("complex numbers, only 'sum' is");
            }
            (element, operator) => (element, operator),
        };
        Ok(Computation { element, operator })
    }
}

/// An operation that is started with elements of one type.
trait TypedStart<'env> {
    /// Starts it on the elements of `array`. `into` receives a separate result, if there is one.
    fn start<'s, T: Number, R: Reducer<T> + 's>(
        self,
        scope: &'s Scope<'s, 'env>,
        array: &'s mut [T],
        into: &'s mut [T],
        op: R,
    ) -> Collective<'s>;
}

/// Runs a reduction with the types of the computation.
fn reduce_with<'env>(
    calling: &'env Calling<'_>,
    computation: Computation,
    array: &'env mut [u8],
    into: &'env mut [u8],
    reduction: impl TypedStart<'env>,
) -> PyResult<()> {
    let bytes = array.len().max(into.len());
    let op = match computation.operator {
        Operator::Numbers(op) => op,
        Operator::Bits(combine) => {
            let op = Commutative(move |left: &[u8], right: &mut [u8]| {
                left.iter().zip(right).for_each(|(left, right)| *right = combine(*left, *right));
            });
            return calling.together(bytes, |scope| reduction.start(scope, array, into, op));
        }
    };
    macro_rules! with {
        ($number:ty) => {{
            let array: &mut [$number] = typed(array)?;
            let into: &mut [$number] = typed(into)?;
            calling.together(bytes, |scope| reduction.start(scope, array, into, op))
        }};
    }
    match computation.element {
        ElementKind::I8 => with!(i8),
        ElementKind::I16 => with!(i16),
        ElementKind::I32 => with!(i32),
        ElementKind::I64 => with!(i64),
        ElementKind::U8 | ElementKind::Bool => with!(u8),
        ElementKind::U16 => with!(u16),
        ElementKind::U32 => with!(u32),
        ElementKind::U64 => with!(u64),
        ElementKind::F32 | ElementKind::C64 => with!(f32),
        ElementKind::F64 | ElementKind::C128 => with!(f64),
    }
}

/// Views bytes as elements.
fn typed<T: Number>(bytes: &mut [u8]) -> PyResult<&mut [T]> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| {
        PyValueError::new_err(
            "the array is not aligned to its elements: give numpy.require(it, requirements='A')",
        )
    })
}

/// A call of a collective. If it is dropped before it is started, it fails at all ranks.
pub(crate) struct Calling<'py> {
    py: Python<'py>,
    rank: Rc<PythonRank>,
    world: Rc<PythonComm>,
    is_started: Cell<bool>,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        if !self.is_started.get() {
            self.world.at(&GateGuard::enter()).fail_collective();
        }
    }
}

impl<'py> Calling<'py> {
    pub(crate) fn new(py: Python<'py>, world: &World) -> PyResult<Calling<'py>> {
        let (rank, world) = world.open()?;
        Ok(Calling { py, rank, world, is_started: Cell::new(false) })
    }

    /// The arguments are right: the caller starts what counts as the call.
    pub(crate) fn begin(&self) -> (&Rc<PythonRank>, &Rc<PythonComm>) {
        self.is_started.set(true);
        (&self.rank, &self.world)
    }

    /// Waits until all ranks are ready to make something together, which nothing interrupts. If the
    /// arguments of a rank are wrong, this fails at all ranks.
    pub(crate) fn meet(&self) -> PyResult<(&Rc<PythonRank>, &Rc<PythonComm>)> {
        self.together(0, |scope| scope.ibarrier())?;
        Ok(self.begin())
    }

    /// Starts a collective on `bytes` bytes at this rank and waits for it.
    fn together<'env>(
        &'env self,
        bytes: usize,
        start: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Collective<'s>,
    ) -> PyResult<()> {
        let (rank, world) = self.begin();
        let mut raised = None;
        let inside = GateGuard::enter();
        let outcome = world.at(&inside).scope(|scope| {
            let mut flying = Some(start(scope));
            let ended = poll_fn(|_| match flying.take().map(Collective::test) {
                Some(Ok(Err(collective))) => {
                    flying = Some(collective);
                    Poll::Pending
                }
                Some(Ok(Ok(()))) | None => Poll::Ready(Ok(())),
                Some(Err(error)) => Poll::Ready(Err(error)),
            });
            let wait = WaitInfo { bytes, ..WaitInfo::new(rank, world, &inside) };
            wait::run(self.py, &wait, ended).unwrap_or_else(|exception| {
                raised = Some(exception);
                // The scope abandons its operations.
                Err(MsgError::Cancelled.into())
            })
        });
        match raised {
            Some(exception) => Err(exception),
            None => outcome.map_err(crate::error::raise),
        }
    }

    /// Checks that a root exists. Also returns whether it is this rank.
    fn root(&self, root: i64) -> PyResult<(u32, bool)> {
        let root = existing(&self.world, root)?;
        Ok((root, root == self.world.rank()))
    }

    /// Checks that the rows of an array can be divided evenly among the ranks: no row is cut.
    fn check_rows(&self, parts: &PythonArray, role: &str) -> PyResult<()> {
        let (size, rows) = (self.world.size() as usize, parts.rows());
        if rows.is_multiple_of(size) {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "{role}: {rows} rows cannot go to {size} ranks: give as many for each rank, or use \
             alltoallw for parts of any size"
        )))
    }

    /// Checks that `parts` has as many bytes as `part` of all ranks.
    fn check(&self, parts: &PythonArray, part: &PythonArray, roles: [&str; 2]) -> PyResult<()> {
        self.check_rows(parts, roles[0])?;
        let (size, given) = (self.world.size(), parts.len());
        let needed = part.len() * size as usize;
        if given == needed {
            return Ok(());
        }
        let [parts, part] = roles;
        Err(PyValueError::new_err(format!(
            "{parts}: the array has {given} bytes where {needed} are needed: {size} ranks times \
             the bytes of {part}"
        )))
    }
}

/// Declares reductions, each with the way its scope starts it.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* } =
        |$scope:ident, $array:ident, $into:ident, $op:ident| $start:expr;)*) => {$(
        $(#[$doc])*
        struct $name { $($field: $kind),* }

        impl<'env> TypedStart<'env> for $name {
            fn start<'s, T: Number, R: Reducer<T> + 's>(
                self,
                $scope: &'s Scope<'s, 'env>,
                $array: &'s mut [T],
                $into: &'s mut [T],
                $op: R,
            ) -> Collective<'s> {
                let $name { $($field),* } = self;
                let _ = &$into;
                $start
            }
        }
    )*};
}

reductions! {
    Reduce { root: u32 } = |scope, array, into, op| scope.ireduce(array, op, root);
    Allreduce {} = |scope, array, into, op| scope.iallreduce(array, op);
    Scan {} = |scope, array, into, op| scope.iscan(array, op);
    Exscan {} = |scope, array, into, op| scope.iexscan(array, op);
    ReduceScatter {} =
        |scope, array, into, op| scope.ireduce_scatter_block(array, into, op);
}

/// Fails a call at all ranks; the Python class has found that its arguments are invalid.
pub(crate) fn fail(py: Python<'_>, world: &World) -> PyResult<()> {
    Calling::new(py, world).map(drop)
}

pub(crate) fn barrier(py: Python<'_>, world: &World) -> PyResult<()> {
    Calling::new(py, world)?.meet().map(drop)
}

pub(crate) fn broadcast(
    py: Python<'_>,
    world: &World,
    array: &Bound<'_, PyAny>,
    root: i64,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (root, is_root) = calling.root(root)?;
    let mut array = match is_root {
        true => PythonArray::to_read(array, "array")?,
        false => PythonArray::to_write(array, "array")?,
    };
    let bytes = array.len();
    if !array.is_writable() {
        // The operation needs a writable buffer, but does not write to it at the root.
        let mut copy = array.bytes().to_vec();
        return calling.together(bytes, |scope| scope.ibroadcast(&mut copy, root));
    }
    calling.together(bytes, |scope| scope.ibroadcast(array.bytes_mut(), root))
}

/// A reduction in place, of a writable array.
fn in_place(
    calling: &Calling<'_>,
    array: &Bound<'_, PyAny>,
    op: &str,
    reduction: impl for<'env> TypedStart<'env>,
) -> PyResult<()> {
    let mut array = PythonArray::to_write(array, "array")?;
    let computation = Computation::new(op, &array)?;
    reduce_with(calling, computation, array.bytes_mut(), &mut [], reduction)
}

pub(crate) fn reduce(
    py: Python<'_>,
    world: &World,
    array: &Bound<'_, PyAny>,
    op: &str,
    root: i64,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (root, is_root) = calling.root(root)?;
    if is_root {
        return in_place(&calling, array, op, Reduce { root });
    }
    // The contents that the operation leaves at ranks other than the root are unspecified.
    let array = PythonArray::to_read(array, "array")?;
    let computation = Computation::new(op, &array)?;
    let mut aligned = vec![0_u64; array.len().div_ceil(8)];
    let copy = &mut bytemuck::cast_slice_mut(&mut aligned)[..array.len()];
    copy.copy_from_slice(array.bytes());
    reduce_with(&calling, computation, copy, &mut [], Reduce { root })
}

pub(crate) fn allreduce(
    py: Python<'_>,
    world: &World,
    array: &Bound<'_, PyAny>,
    op: &str,
) -> PyResult<()> {
    in_place(&Calling::new(py, world)?, array, op, Allreduce {})
}

pub(crate) fn scan(
    py: Python<'_>,
    world: &World,
    array: &Bound<'_, PyAny>,
    op: &str,
    exclusive: bool,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    match exclusive {
        false => in_place(&calling, array, op, Scan {}),
        true => in_place(&calling, array, op, Exscan {}),
    }
}

pub(crate) fn reduce_scatter(
    py: Python<'_>,
    world: &World,
    data: &Bound<'_, PyAny>,
    into: &Bound<'_, PyAny>,
    op: &str,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (data, mut into) =
        (PythonArray::to_read(data, "data")?, PythonArray::to_write(into, "into")?);
    calling.check(&data, &into, ["data", "into"])?;
    let computation = Computation::new(op, &data)?;
    if into.element()? != data.element()? {
        return Err(PyTypeError::new_err("into: its elements are not those of data"));
    }
    // The operation computes in its array, and the program's array must stay unchanged.
    let mut aligned = vec![0_u64; data.len().div_ceil(8)];
    let copy = &mut bytemuck::cast_slice_mut(&mut aligned)[..data.len()];
    copy.copy_from_slice(data.bytes());
    reduce_with(&calling, computation, copy, into.bytes_mut(), ReduceScatter {})
}

pub(crate) fn gather(
    py: Python<'_>,
    world: &World,
    mine: &Bound<'_, PyAny>,
    into: Option<&Bound<'_, PyAny>>,
    root: i64,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (root, is_root) = calling.root(root)?;
    let mine = PythonArray::to_read(mine, "mine")?;
    let mut into = match into.filter(|_| is_root) {
        Some(into) => Some(PythonArray::to_write(into, "into")?),
        None if is_root => {
            return Err(PyTypeError::new_err("into: the root needs an array to gather into"));
        }
        None => None,
    };
    if let Some(into) = &into {
        calling.check(into, &mine, ["into", "mine"])?;
    }
    let into = into.as_mut().map_or(&mut [][..], PythonArray::bytes_mut);
    let bytes = mine.len().max(into.len());
    calling.together(bytes, |scope| scope.igather_into(mine.bytes(), into, root))
}

/// `into` has an array for each rank. It is ignored except at root.
pub(crate) fn gatherv(
    py: Python<'_>,
    world: &World,
    mine: &Bound<'_, PyAny>,
    into: Vec<Bound<'_, PyAny>>,
    root: i64,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (root, is_root) = calling.root(root)?;
    let mine = PythonArray::to_read(mine, "mine")?;
    let into = into.iter().filter(|_| is_root);
    let into: PyResult<Vec<_>> = into.map(|place| PythonArray::to_write(place, "into")).collect();
    let mut into = into?;
    let bytes = into.iter().map(PythonArray::len).fold(mine.len(), usize::max);
    calling.together(bytes, |scope| {
        let places = into.iter_mut().map(PythonArray::bytes_mut).collect();
        scope.igatherv_into(mine.bytes(), places, root)
    })
}

pub(crate) fn allgather(
    py: Python<'_>,
    world: &World,
    mine: &Bound<'_, PyAny>,
    into: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (mine, mut into) =
        (PythonArray::to_read(mine, "mine")?, PythonArray::to_write(into, "into")?);
    calling.check(&into, &mine, ["into", "mine"])?;
    calling.together(into.len(), |scope| scope.iallgather(mine.bytes(), into.bytes_mut()))
}

pub(crate) fn scatter(
    py: Python<'_>,
    world: &World,
    all: Option<&Bound<'_, PyAny>>,
    into: &Bound<'_, PyAny>,
    root: i64,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (root, is_root) = calling.root(root)?;
    let mut into = PythonArray::to_write(into, "into")?;
    let all = match all.filter(|_| is_root) {
        Some(all) => Some(PythonArray::to_read(all, "data")?),
        None if is_root => {
            return Err(PyTypeError::new_err("data: the root needs an array to scatter"));
        }
        None => None,
    };
    if let Some(all) = &all {
        calling.check(all, &into, ["data", "into"])?;
    }
    let all = all.as_ref().map_or(&[][..], PythonArray::bytes);
    let bytes = all.len().max(into.len());
    calling.together(bytes, |scope| scope.iscatter(all, into.bytes_mut(), root))
}

pub(crate) fn alltoall(
    py: Python<'_>,
    world: &World,
    data: &Bound<'_, PyAny>,
    into: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let (data, mut into) =
        (PythonArray::to_read(data, "data")?, PythonArray::to_write(into, "into")?);
    calling.check_rows(&data, "data")?;
    calling.check_rows(&into, "into")?;
    if data.len() != into.len() {
        return Err(PyValueError::new_err(format!(
            "data has {} bytes and into {}: they must be equal",
            data.len(),
            into.len()
        )));
    }
    calling.together(into.len(), |scope| scope.ialltoall(data.bytes(), into.bytes_mut()))
}

/// The list has one array per rank, each of them contiguous.
pub(crate) fn alltoallw(
    py: Python<'_>,
    world: &World,
    parts: Vec<Bound<'_, PyAny>>,
    into: Vec<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let calling = Calling::new(py, world)?;
    let size = calling.world.size() as usize;
    for (list, role) in [(&parts, "parts"), (&into, "into")] {
        if list.len() != size {
            let given = list.len();
            return Err(PyValueError::new_err(format!(
                "{role}: {given} arrays were given for {size} ranks: give one for each"
            )));
        }
    }
    let parts: PyResult<Vec<PythonArray>> =
        parts.iter().map(|part| PythonArray::to_read(part, "parts")).collect();
    let into: PyResult<Vec<PythonArray>> =
        into.iter().map(|place| PythonArray::to_write(place, "into")).collect();
    let (parts, mut into) = (parts?, into?);
    let bytes = parts.iter().chain(&into).map(PythonArray::len).sum();
    calling.together(bytes, |scope| {
        let places = into.iter_mut().map(PythonArray::bytes_mut).collect();
        scope.ialltoallv(parts.iter().map(PythonArray::bytes).collect(), places)
    })
}
