//! Reductions: the predefined ones and the program's own (MPI 5.0 §6.9).

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::rc::Rc;

use hikyaku_coll::{Choices, Combination, Element, Reduction};
use hikyaku_msg::PACKET;
use hikyaku_nic::fabric::{Arithmetic, Combining, NumberType};
use hikyaku_rank::Communicator;

use crate::arguments::Operands;
use crate::callbacks;
use crate::datatype::{Basic, Class as BasicClass};
use crate::dialect::{Dialect, Handle, Object};
use crate::failure::{Class, Failure};
use crate::long_double::LongDouble;
use crate::raw::{Buffer, HandleAt, Out};
use crate::runtime::Mpi;
use crate::types::{Area, Type};

/// The alignment of operands in bytes: a line. That suits every type of C, and structures of a
/// program that it aligns to a line itself.
const LINE: usize = 64;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A predefined operation.
    Predefined(Predefined),
    /// An operation of the program.
    Own {
        /// Its function.
        function: usize,
        /// Whether the function takes large counts.
        is_large: bool,
        /// Whether the order of operands does not matter.
        commutes: bool,
    },
}

/// The predefined operations, with the standard's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predefined {
    /// MPI_SUM.
    Sum = 0x21,
    /// MPI_MIN.
    Min = 0x22,
    /// MPI_MAX.
    Max = 0x23,
    /// MPI_PROD.
    Product = 0x24,
    /// MPI_BAND.
    BitAnd = 0x28,
    /// MPI_BOR.
    BitOr = 0x29,
    /// MPI_BXOR.
    BitXor = 0x2a,
    /// MPI_LAND.
    And = 0x30,
    /// MPI_LOR.
    Or = 0x31,
    /// MPI_LXOR.
    Xor = 0x32,
    /// MPI_MINLOC.
    MinLoc = 0x38,
    /// MPI_MAXLOC.
    MaxLoc = 0x39,
    /// MPI_REPLACE.
    Replace = 0x3c,
    /// MPI_NO_OP.
    Nothing = 0x3d,
}

impl Predefined {
    /// The operation of a number.
    #[inline(always)]
    fn of_number(number: u32) -> Option<Predefined> {
        const FIRST: u32 = Predefined::Sum as u32;
        const BY_NUMBER: [Option<Predefined>; 29] = {
            let (mut all, mut at) = ([None; 29], 0);
            while at < Predefined::ALL.len() {
                let op = Predefined::ALL[at];
                all[(op as u32 - FIRST) as usize] = Some(op);
                at += 1;
            }
            all
        };
        *BY_NUMBER.get(number.wrapping_sub(FIRST) as usize)?
    }

    const ALL: [Predefined; 14] = [
        Predefined::Sum,
        Predefined::Min,
        Predefined::Max,
        Predefined::Product,
        Predefined::BitAnd,
        Predefined::BitOr,
        Predefined::BitXor,
        Predefined::And,
        Predefined::Or,
        Predefined::Xor,
        Predefined::MinLoc,
        Predefined::MaxLoc,
        Predefined::Replace,
        Predefined::Nothing,
    ];

    /// Its name in the standard.
    const fn name(self) -> &'static str {
        match self {
            Predefined::Sum => "MPI_SUM",
            Predefined::Min => "MPI_MIN",
            Predefined::Max => "MPI_MAX",
            Predefined::Product => "MPI_PROD",
            Predefined::BitAnd => "MPI_BAND",
            Predefined::BitOr => "MPI_BOR",
            Predefined::BitXor => "MPI_BXOR",
            Predefined::And => "MPI_LAND",
            Predefined::Or => "MPI_LOR",
            Predefined::Xor => "MPI_LXOR",
            Predefined::MinLoc => "MPI_MINLOC",
            Predefined::MaxLoc => "MPI_MAXLOC",
            Predefined::Replace => "MPI_REPLACE",
            Predefined::Nothing => "MPI_NO_OP",
        }
    }

    pub(crate) fn combination(self) -> Combination {
        match self {
            Predefined::Sum => Combination::SUM,
            Predefined::Product => Combination::PRODUCT,
            Predefined::Min => Combination::MIN,
            Predefined::Max => Combination::MAX,
            _ => Combination::OWN,
        }
    }
}

/// Computes `left ∘ right` element by element and stores it in `right`.
pub(crate) type Kernel = fn(&[u8], &mut [u8]);

/// Applies a function to numbers that are stored as bytes.
fn each<const N: usize, T>(
    left: &[u8],
    right: &mut [u8],
    of: impl Fn([u8; N]) -> T,
    to: impl Fn(T) -> [u8; N],
    act: impl Fn(T, T) -> T,
) {
    let (left, _) = left.as_chunks::<N>();
    let (right, _) = right.as_chunks_mut::<N>();
    for (left, right) in left.iter().zip(right) {
        *right = to(act(of(*left), of(*right)));
    }
}

/// A kernel for a Rust type.
macro_rules! kernel {
    ($type:ty, $act:expr) => {
        Some(
            (|left, right| {
                each(left, right, <$type>::from_ne_bytes, <$type>::to_ne_bytes, $act);
            }) as Kernel,
        )
    };
}

macro_rules! integers {
    ($op:expr, $($type:ty),*) => {
        [$(match $op {
            Predefined::Sum => kernel!($type, <$type>::wrapping_add),
            Predefined::Product => kernel!($type, <$type>::wrapping_mul),
            Predefined::Min => kernel!($type, |a, b| if a < b { a } else { b }),
            Predefined::Max => kernel!($type, |a, b| if a > b { a } else { b }),
            Predefined::BitAnd => kernel!($type, |a, b| a & b),
            Predefined::BitOr => kernel!($type, |a, b| a | b),
            Predefined::BitXor => kernel!($type, |a, b| a ^ b),
            Predefined::And => kernel!($type, |a, b| (a != 0 && b != 0).into()),
            Predefined::Or => kernel!($type, |a, b| (a != 0 || b != 0).into()),
            Predefined::Xor => kernel!($type, |a, b| ((a != 0) != (b != 0)).into()),
            _ => None,
        }),*]
    };
}

macro_rules! floats {
    ($op:expr, $type:ty) => {
        match $op {
            Predefined::Sum => kernel!($type, |a, b| a + b),
            Predefined::Product => kernel!($type, |a, b| a * b),
            Predefined::Min => kernel!($type, |a, b| if a < b || a.is_nan() { a } else { b }),
            Predefined::Max => kernel!($type, |a, b| if a > b || a.is_nan() { a } else { b }),
            _ => None,
        }
    };
}

macro_rules! complexes {
    ($op:expr, $type:ty, $half:literal) => {{
        fn of(bytes: [u8; 2 * $half]) -> [$type; 2] {
            bytemuck::pod_read_unaligned(&bytes)
        }
        fn to(value: [$type; 2]) -> [u8; 2 * $half] {
            bytemuck::cast(value)
        }
        let kernel: Option<Kernel> = match $op {
            Predefined::Sum => {
                Some(|left, right| each(left, right, of, to, |[a, b], [c, d]| [a + c, b + d]))
            }
            Predefined::Product => Some(|left, right| {
                each(left, right, of, to, |[a, b], [c, d]| [a * c - b * d, a * d + b * c])
            }),
            _ => None,
        };
        kernel
    }};
}

/// The kernels of `long double`.
fn long_double(op: Predefined) -> Option<Kernel> {
    fn by(left: &[u8], right: &mut [u8], act: fn(LongDouble, LongDouble) -> LongDouble) {
        each(left, right, LongDouble::of, LongDouble::to_bytes, act);
    }
    fn or(left: LongDouble, right: LongDouble, wins: Ordering) -> LongDouble {
        if left.compare(right) == Some(wins) { left } else { right }
    }
    match op {
        Predefined::Sum => Some(|left, right| by(left, right, LongDouble::plus)),
        Predefined::Product => Some(|left, right| by(left, right, LongDouble::times)),
        Predefined::Min => Some(|left, right| by(left, right, |a, b| or(a, b, Ordering::Less))),
        Predefined::Max => Some(|left, right| by(left, right, |a, b| or(a, b, Ordering::Greater))),
        _ => None,
    }
}

/// The kernels of a complex number of two `long double`.
fn long_double_complex(op: Predefined) -> Option<Kernel> {
    type Pair = [LongDouble; 2];
    fn of(bytes: [u8; 32]) -> Pair {
        let (halves, _) = bytes.as_chunks::<16>();
        [LongDouble::of(halves[0]), LongDouble::of(halves[1])]
    }
    fn to([real, imaginary]: Pair) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&real.to_bytes());
        bytes[16..].copy_from_slice(&imaginary.to_bytes());
        bytes
    }
    match op {
        Predefined::Sum => Some(|left, right| {
            each(left, right, of, to, |[a, b], [c, d]| [a.plus(c), b.plus(d)]);
        }),
        Predefined::Product => Some(|left, right| {
            each(left, right, of, to, |[a, b], [c, d]| {
                [a.times(c).minus(b.times(d)), a.times(d).plus(b.times(c))]
            });
        }),
        _ => None,
    }
}

/// The kernels of a packed `long double` and an index.
fn long_double_pair(op: Predefined) -> Option<Kernel> {
    fn by(left: &[u8], right: &mut [u8], wins: Ordering) {
        fn parts(bytes: [u8; 20]) -> (LongDouble, i32) {
            let mut value = [0; 16];
            value.copy_from_slice(&bytes[..16]);
            (LongDouble::of(value), bytemuck::pod_read_unaligned(&bytes[16..]))
        }
        each(
            left,
            right,
            |it| it,
            |it| it,
            |a: [u8; 20], b| {
                let ((one, first), (other, second)) = (parts(a), parts(b));
                match one.compare(other) {
                    Some(Ordering::Equal) if first < second => a,
                    Some(order) if order == wins => a,
                    _ => b,
                }
            },
        );
    }
    match op {
        Predefined::MinLoc => Some(|left, right| by(left, right, Ordering::Less)),
        Predefined::MaxLoc => Some(|left, right| by(left, right, Ordering::Greater)),
        _ => None,
    }
}

/// The kernels of a value and an index: if values are equal, the smaller index (MPI 5.0 §6.9.4).
macro_rules! pairs {
    ($op:expr, $value:ty, $index:ty, $width:literal, $at:literal) => {{
        fn parts(bytes: [u8; $width]) -> ($value, $index) {
            const VALUE: usize = size_of::<$value>();
            const INDEX: usize = size_of::<$index>();
            let value = bytemuck::pod_read_unaligned(&bytes[..VALUE]);
            (value, bytemuck::pod_read_unaligned(&bytes[$at..$at + INDEX]))
        }
        fn choose(one: [u8; $width], other: [u8; $width], first: bool) -> [u8; $width] {
            let (left, right) = (parts(one), parts(other));
            let left_wins = if left.0 == right.0 { left.1 < right.1 } else { first };
            if left_wins { one } else { other }
        }
        let kernel: Option<Kernel> = match $op {
            Predefined::MinLoc => Some(|left, right| {
                each(left, right, |it| it, |it| it, |a, b| choose(a, b, parts(a).0 < parts(b).0))
            }),
            Predefined::MaxLoc => Some(|left, right| {
                each(left, right, |it| it, |it| it, |a, b| choose(a, b, parts(a).0 > parts(b).0))
            }),
            _ => None,
        };
        kernel
    }};
}

/// The kernel of an operation on a basic type; `None` if the standard does not define it, or the
/// type is not supported here.
pub(crate) fn kernel(op: Predefined, basic: Basic) -> Option<Kernel> {
    let logical = matches!(op, Predefined::And | Predefined::Or | Predefined::Xor);
    let bits = matches!(op, Predefined::BitAnd | Predefined::BitOr | Predefined::BitXor);
    let at = basic.size().trailing_zeros() as usize;
    match basic.class() {
        BasicClass::Signed if op as i32 <= Predefined::Xor as i32 => {
            integers!(op, i8, i16, i32, i64, i128).get(at).copied().flatten()
        }
        // In the standard MPI_CHAR is text, which has no sum; but programs have always relied on
        // one.
        BasicClass::Character if basic == Basic::Char => integers!(op, i8)[0],
        // The standard has no logical operations on addresses; MPICH and Open MPI have.
        BasicClass::Address => integers!(op, i8, i16, i32, i64).get(at).copied().flatten(),
        BasicClass::Unsigned => integers!(op, u8, u16, u32, u64, u128).get(at).copied().flatten(),
        BasicClass::Byte if bits => integers!(op, u8)[0],
        BasicClass::Logical if logical => {
            integers!(op, u8, u16, u32, u64, u128).get(at).copied().flatten()
        }
        BasicClass::Float => match basic.size() {
            4 => floats!(op, f32),
            8 => floats!(op, f64),
            16 if basic == Basic::LongDouble => long_double(op),
            _ => None,
        },
        BasicClass::Complex => match basic.size() {
            8 => complexes!(op, f32, 4),
            16 => complexes!(op, f64, 8),
            32 if basic != Basic::Complex32 => long_double_complex(op),
            _ => None,
        },
        BasicClass::Pair => match basic {
            Basic::FloatInt => pairs!(op, f32, i32, 8, 4),
            Basic::TwoInt | Basic::TwoInteger => pairs!(op, i32, i32, 8, 4),
            Basic::TwoReal => pairs!(op, f32, f32, 8, 4),
            Basic::TwoDoublePrecision => pairs!(op, f64, f64, 16, 8),
            // The other pairs have gaps: their elements arrive packed.
            Basic::DoubleInt => pairs!(op, f64, i32, 12, 8),
            Basic::LongInt => pairs!(op, i64, i32, 12, 8),
            Basic::ShortInt => pairs!(op, i16, i32, 6, 2),
            Basic::LongDoubleInt => long_double_pair(op),
            _ => None,
        },
        _ => None,
    }
}

/// The element type of a basic type, for the ranks' comparison of their arguments.
pub(crate) fn element_of(basic: Basic) -> Element {
    match (basic.class(), basic.size()) {
        (BasicClass::Float, 4) => Element::of::<f32>(),
        (BasicClass::Float, 8) => Element::of::<f64>(),
        (BasicClass::Signed, 4) => Element::of::<i32>(),
        (BasicClass::Signed, 8) => Element::of::<i64>(),
        (BasicClass::Unsigned, 4) => Element::of::<u32>(),
        (BasicClass::Unsigned, 8) => Element::of::<u64>(),
        _ => Element::BYTE,
    }
}

#[cold]
fn not_defined(op: Predefined, what: &str) -> Failure {
    Failure::new(
        Class::Op,
        match op {
            Predefined::Replace | Predefined::Nothing => {
                format!("{} is for accumulates alone (MPI 5.0 §12.3.4)", op.name())
            }
            _ => format!("{} is not defined for {what}", op.name()),
        },
    )
}

/// A reduction of elements of a type.
#[derive(Debug, Clone)]
pub(crate) struct Reducing<D: Dialect> {
    dialect: PhantomData<D>,
    op: Op,
    datatype: Rc<Type>,
    kernel: Option<Kernel>,
}

impl<D: Dialect> Reducing<D> {
    /// The reduction of an operation on a type.
    #[inline]
    pub(crate) fn new(op: Op, datatype: &Rc<Type>) -> Result<Self, Failure> {
        if !datatype.datatype.is_committed() {
            return Err(Failure::new(Class::Type, "the datatype was not committed"));
        }
        let kernel = match (op, datatype.values()) {
            (Op::Predefined(op), Some(basic)) => {
                let Some(found) = kernel(op, basic) else {
                    return Err(not_defined(op, basic.name()));
                };
                Some(found)
            }
            (Op::Predefined(op), None) => return Err(not_defined(op, "derived datatypes")),
            (Op::Own { .. }, _) => None,
        };
        Ok(Reducing { dialect: PhantomData, op, datatype: Rc::clone(datatype), kernel })
    }

    /// Whether the order of operands does not matter.
    pub(crate) fn commutes(&self) -> bool {
        !matches!(self.op, Op::Own { commutes: false, .. })
    }

    /// The element type, for the ranks' comparison of their arguments.
    pub(crate) fn element(&self) -> Element {
        self.datatype.values().map_or(Element::BYTE, element_of)
    }

    /// The combining operation for a command queue; `None` if only this rank can compute it.
    pub(crate) fn combining(&self) -> Option<Combining> {
        let (Op::Predefined(op), basic) = (self.op, self.datatype.values()?) else { return None };
        let (number, is_float) = match (basic.class(), basic.size()) {
            (BasicClass::Signed | BasicClass::Address, 1) | (BasicClass::Character, 1) => {
                (NumberType::I8, false)
            }
            (BasicClass::Signed | BasicClass::Address, 2) => (NumberType::I16, false),
            (BasicClass::Signed | BasicClass::Address, 4) => (NumberType::I32, false),
            (BasicClass::Signed | BasicClass::Address, 8) => (NumberType::I64, false),
            (BasicClass::Unsigned | BasicClass::Byte, 1) => (NumberType::U8, false),
            (BasicClass::Unsigned, 2) => (NumberType::U16, false),
            (BasicClass::Unsigned, 4) => (NumberType::U32, false),
            (BasicClass::Unsigned, 8) => (NumberType::U64, false),
            (BasicClass::Float, 4) => (NumberType::F32, true),
            (BasicClass::Float, 8) => (NumberType::F64, true),
            _ => return None,
        };
        let operation = match op {
            Predefined::Sum => Arithmetic::Sum,
            Predefined::Product => Arithmetic::Product,
            Predefined::Min if is_float => Arithmetic::MinOrNan,
            Predefined::Max if is_float => Arithmetic::MaxOrNan,
            Predefined::Min => Arithmetic::Min,
            Predefined::Max => Arithmetic::Max,
            Predefined::BitAnd => Arithmetic::And,
            Predefined::BitOr => Arithmetic::Or,
            Predefined::BitXor => Arithmetic::Xor,
            _ => return None,
        };
        Combining::new(operation, number)
    }

    /// The reduction in the form of the collectives.
    pub(crate) fn as_reduction(&self) -> Reduction<impl FnMut(&[u8], &mut [u8])> {
        let combination = match self.op {
            Op::Predefined(op) => op.combination(),
            Op::Own { .. } => Combination::OWN,
        };
        Reduction {
            combine: |left: &[u8], right: &mut [u8]| self.combine(left, right),
            commutative: self.commutes(),
            width: self.datatype.size().max(1),
            combination,
        }
    }

    /// Computes `left ∘ right` and stores it in `right`.
    pub(crate) fn combine(&self, left: &[u8], right: &mut [u8]) {
        if let Some(kernel) = self.kernel {
            return kernel(left, right);
        }
        // A function of the program works on single elements (MPI 5.0 §6.9.5), and gets as many at
        // a time as fit in a packet.
        let (size, span) = (self.datatype.size().max(1), self.datatype.extent().unsigned_abs());
        let bytes = (PACKET / size.max(span as usize)).max(1) * size;
        for (left, right) in left.chunks(bytes).zip(right.chunks_mut(bytes)) {
            self.combine_by_function(left, right);
        }
    }

    fn combine_by_function(&self, left: &[u8], right: &mut [u8]) {
        let Op::Own { function, is_large, .. } = self.op else { return };
        let elements = (left.len() / self.datatype.size().max(1)) as i64;
        // The function may write to both.
        let mut one = Operand::new(&self.datatype, elements, left);
        let mut other = Operand::new(&self.datatype, elements, right);
        let operands = (one.start(), other.start());
        self.datatype.with_handle(|datatype| {
            callbacks::reduce::<D>(function, is_large, operands, elements, datatype);
        });
        right.copy_from_slice(&other.area(&self.datatype).data());
    }
}

/// One operand of a function of the program. Its memory is aligned to a line and extends from bound
/// to bound, because a function may assign whole structures including their padding. The gaps of
/// the type are zero.
struct Operand {
    /// Bytes, which the allocator zeroes: of a large span only the pages with data are touched.
    memory: Vec<u8>,
    /// The offset of displacement 0 in the memory. It is outside of it for some types.
    origin: i64,
    elements: i64,
}

/// Why an operand's size fits: it has no more elements than the program has in memory.
const FITS: &str = "as many elements are in the program's memory";

impl Operand {
    fn new(datatype: &Type, elements: i64, data: &[u8]) -> Operand {
        let span = datatype.datatype.span(elements as u64).expect(FITS);
        let (low, high) = span.unwrap_or((0, 0));
        // Elements are aligned as if they were at displacement 0 of an aligned address.
        let before = low.rem_euclid(LINE as i64) as usize;
        let bytes = usize::try_from(high.abs_diff(low)).expect(FITS) + before;
        let memory = vec![0; bytes + LINE];
        let first = memory.as_ptr().align_offset(LINE) + before;
        let mut operand = Operand { memory, origin: first as i64 - low, elements };
        operand.area(datatype).put(data);
        operand
    }

    fn start(&mut self) -> Buffer {
        Buffer::new(self.memory.as_mut_ptr()).at(self.origin)
    }

    fn area(&mut self, datatype: &Type) -> Area {
        Area::new(self.start(), self.elements, datatype).expect(FITS)
    }
}

impl<D: Dialect> Mpi<D> {
    /// The operation of a handle.
    #[inline(always)]
    pub fn op(&self, handle: D::Handle) -> Result<Op, Failure> {
        let number = D::number(Object::Op, handle);
        if let Some(op) = Predefined::of_number(number.0) {
            return Ok(Op::Predefined(op));
        }
        Ok(*self.own_op(number)?)
    }

    #[inline(never)]
    fn own_op(&self, number: Handle) -> Result<Rc<Op>, Failure> {
        self.state.ops.get(number).ok_or_else(|| self.no_such(Object::Op, number))
    }

    /// MPI_Op_create.
    pub fn op_create(
        &self,
        function: usize,
        commutes: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let function = callbacks::function(function, "user_fn")?;
        let op = Op::Own { function, is_large: self.is_large, commutes: commutes != 0 };
        self.state.has_own_ops.set(true);
        into.set(self.state.ops.add(Rc::new(op))?);
        Ok(())
    }

    /// MPI_Op_free.
    pub fn op_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        if self.state.ops.remove(number).is_none() {
            return Err(match Predefined::ALL.iter().any(|op| *op as u32 == number.0) {
                true => Failure::new(Class::Op, "a predefined operation cannot be freed"),
                false => self.no_such(Object::Op, number),
            });
        }
        handle.set(Handle::OP_NULL);
        Ok(())
    }

    /// MPI_Op_commutative.
    pub fn op_commutative(&self, op: Op, flag: Out<i32>) -> Result<(), Failure> {
        flag.set_flag(!matches!(op, Op::Own { commutes: false, .. }));
        Ok(())
    }

    /// MPI_Reduce_local.
    pub fn reduce_local(&self, operands: Operands<Rc<Type>>) -> Result<(), Failure> {
        let Operands { out, into, count, datatype, op } = operands;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let of =
            |buffer, name| Area::new(buffer, count, &datatype).map_err(|it| it.of_buffer(name));
        let (from, into) = (of(out, "inbuf")?, of(into, "inoutbuf")?);
        let mut result = into.landing();
        reducing.combine(&from.data(), result.bytes());
        result.finish();
        Ok(())
    }
}

/// The algorithms chosen by name, restricted to those that can do this reduction.
pub(crate) fn choices_of<D: Dialect>(comm: &Communicator, reducing: &Reducing<D>) -> Choices {
    if reducing.commutes() { comm.choices() } else { comm.choices().for_ordered() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn apply<T: bytemuck::Pod>(op: Predefined, basic: Basic, left: &[T], right: &[T]) -> Vec<T> {
        let mut result: Vec<u8> = bytemuck::cast_slice(right).to_vec();
        kernel(op, basic).unwrap()(bytemuck::cast_slice(left), &mut result);
        result.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }

    #[test]
    fn operations_do_what_the_standard_says() {
        use Predefined::{And, BitXor, Max, Min, Or, Product, Sum, Xor};
        assert_eq!(apply(Sum, Basic::Int, &[i32::MAX, 2], &[1, 3]), [i32::MIN, 5]);
        assert_eq!(apply(Product, Basic::Double, &[1.5, -2.0], &[2.0, 4.0]), [3.0, -8.0]);
        assert_eq!(apply(Min, Basic::SignedChar, &[-1i8, 5], &[3, 2]), [-1, 2]);
        assert_eq!(apply(Max, Basic::UnsignedChar, &[255u8, 5], &[3, 6]), [255, 6]);
        assert_eq!(apply(And, Basic::Int, &[7, 0], &[9, 9]), [1, 0]);
        assert_eq!(apply(Or, Basic::CBool, &[0u8, 1], &[0, 0]), [0, 1]);
        assert_eq!(apply(Xor, Basic::Logical, &[5, 0], &[9, 9]), [0, 1]);
        assert_eq!(apply(BitXor, Basic::Byte, &[0b1100u8], &[0b1010]), [0b0110]);
        // (1 + 2i)(3 - i) = 5 + 5i.
        let product = apply(Product, Basic::CDoubleComplex, &[[1.0, 2.0]], &[[3.0, -1.0]]);
        assert_eq!(product, [[5.0, 5.0]]);
    }

    #[test]
    fn the_place_of_the_extreme_is_the_smaller_where_values_are_equal() {
        use Predefined::{MaxLoc, MinLoc};
        let (left, right) = ([[3, 7], [1, 1]], [[3, 2], [5, 0]]);
        assert_eq!(apply(MaxLoc, Basic::TwoInt, &left, &right), [[3, 2], [5, 0]]);
        assert_eq!(apply(MinLoc, Basic::TwoInt, &left, &right), [[3, 2], [1, 1]]);
    }

    #[test]
    fn what_the_standard_does_not_have_is_refused() {
        for (op, basic) in [
            (Predefined::BitAnd, Basic::Double),
            (Predefined::And, Basic::Float),
            (Predefined::Max, Basic::CDoubleComplex),
            (Predefined::Sum, Basic::Byte),
            (Predefined::Sum, Basic::CBool),
            (Predefined::Sum, Basic::Wchar),
            (Predefined::MinLoc, Basic::Int),
            (Predefined::Replace, Basic::Int),
            (Predefined::Nothing, Basic::TwoInt),
        ] {
            assert!(kernel(op, basic).is_none(), "{op:?} {}", basic.name());
        }
        let failure = not_defined(Predefined::BitAnd, Basic::Double.name());
        assert_eq!(failure.to_string(), "MPI_BAND is not defined for MPI_DOUBLE");
    }
}
