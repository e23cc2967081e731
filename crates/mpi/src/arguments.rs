//! Groups of arguments in MPI: the elements of a message, a block for each rank, and the operands
//! of a reduction.

use std::rc::Rc;

use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle, Object};
use crate::failure::{Class, Failure};
use crate::operations::{Op, Reducing};
use crate::raw::{Buffer, Handles, Numbers};
use crate::runtime::Mpi;
use crate::types::{Area, Plain, Type};

/// A datatype argument. An invalid one is an error only when it is used.
pub(crate) type Given = Result<Rc<Type>, Failure>;

/// An argument that should be a datatype.
pub trait Found {
    /// The datatype.
    ///
    /// # Errors
    /// The argument is not a datatype.
    fn found(&self) -> Result<&Type, Failure>;
}

impl Found for Given {
    #[inline(always)]
    fn found(&self) -> Result<&Type, Failure> {
        match self {
            Ok(datatype) => Ok(datatype),
            Err(failure) => Err(failure.clone()),
        }
    }
}

impl Found for Rc<Type> {
    #[inline(always)]
    fn found(&self) -> Result<&Type, Failure> {
        Ok(self)
    }
}

impl Found for Type {
    #[inline(always)]
    fn found(&self) -> Result<&Type, Failure> {
        Ok(self)
    }
}

impl<T: Found> Found for &T {
    #[inline(always)]
    fn found(&self) -> Result<&Type, Failure> {
        T::found(self)
    }
}

/// A number of elements of a type: `buf`, `count` and `datatype` of the standard.
#[derive(Debug, Clone, Copy)]
pub struct Elements<T = Given> {
    pub(crate) buffer: Buffer,
    pub(crate) count: i64,
    pub(crate) datatype: T,
}

impl<T: Found> Elements<T> {
    /// Wraps the program's arguments.
    #[inline(always)]
    pub fn new(buffer: Buffer, count: i64, datatype: T) -> Elements<T> {
        Elements { buffer, count, datatype }
    }

    /// Whether the buffer is MPI_IN_PLACE.
    #[inline(always)]
    pub(crate) fn is_in_place<D: Dialect>(&self) -> bool {
        self.buffer.is_in_place::<D>()
    }

    /// The memory of the elements.
    #[inline(always)]
    pub(crate) fn area(&self) -> Result<Area, Failure> {
        self.of_side(|failure| failure)
    }

    /// [`Elements::area`] of data to send.
    #[inline(always)]
    pub(crate) fn sent(&self) -> Result<Area, Failure> {
        self.of_side(Failure::sent)
    }

    /// [`Elements::area`] of data to receive.
    #[inline(always)]
    pub(crate) fn received(&self) -> Result<Area, Failure> {
        self.of_side(Failure::received)
    }

    #[inline(always)]
    fn of_side(&self, of_side: fn(Failure) -> Failure) -> Result<Area, Failure> {
        Area::of_side(self.buffer, self.count, self.datatype.found()?, of_side)
    }

    /// The memory of the elements, if it is contiguous.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Option<Plain> {
        Area::plain(self.buffer, self.count, self.datatype.found().ok()?)
    }

    /// [`Elements::plain`] of this many elements for each rank.
    #[inline(always)]
    pub(crate) fn plain_of_all(&self, comm: &Comm) -> Option<Plain> {
        let elements = self.count.checked_mul(comm.inner.size().into())?;
        Area::plain(self.buffer, elements, self.datatype.found().ok()?)
    }

    /// This many elements for each rank.
    pub(crate) fn of_all(&self, comm: &Comm) -> Result<Elements<&T>, Failure> {
        let Elements { buffer, count, ref datatype } = *self;
        Ok(Elements { buffer, count: for_all(comm, count)?, datatype })
    }

    /// This rank's contribution. `None`: it is already in its place, which is allowed if `may_be`.
    /// `of_side` marks a failure as one of the send side or of the receive side.
    #[inline(always)]
    pub(crate) fn own_part<D: Dialect>(
        &self,
        may_be: bool,
        of_side: fn(Failure) -> Failure,
    ) -> Result<Option<Area>, Failure> {
        if self.is_in_place::<D>() {
            return match may_be {
                true => Ok(None),
                false => Err(of_side(Failure::new(
                    Class::Buffer,
                    "MPI_IN_PLACE is for the root alone: this rank has to give its own part",
                ))),
            };
        }
        self.of_side(of_side).map(Some)
    }
}

impl Elements<Rc<Type>> {
    /// Borrows the datatype, for a function that need not keep it.
    #[inline(always)]
    pub(crate) fn lent(&self) -> Elements<&Type> {
        Elements { buffer: self.buffer, count: self.count, datatype: &self.datatype }
    }
}

/// The number of elements for all ranks, at `count` each.
pub(crate) fn for_all(comm: &Comm, count: i64) -> Result<i64, Failure> {
    count.checked_mul(comm.inner.size().into()).ok_or_else(|| {
        Failure::new(Class::Count, format!("{count} elements a rank are more than can be counted"))
    })
}

/// A block for each rank, of one type or of a type each: `buf`, `counts`, `displs` and `datatype`
/// or `types` of the standard. Displacements are in elements, or in bytes with a type for each.
#[derive(Debug, Clone)]
pub struct Blocks<T = Given, N = Numbers> {
    pub(crate) buffer: Buffer,
    pub(crate) counts: N,
    pub(crate) displacements: N,
    pub(crate) datatype: T,
}

impl<T, N> Blocks<T, N> {
    /// Wraps the program's arguments.
    #[inline(always)]
    pub fn new(buffer: Buffer, counts: N, displacements: N, datatype: T) -> Blocks<T, N> {
        Blocks { buffer, counts, displacements, datatype }
    }

    /// Whether the buffer is MPI_IN_PLACE.
    #[inline(always)]
    pub(crate) fn is_in_place<D: Dialect>(&self) -> bool {
        self.buffer.is_in_place::<D>()
    }
}

impl Blocks {
    /// The memory of all blocks. `of_side` marks a failure as one of the send or receive side.
    pub(crate) fn areas(
        &self,
        comm: &Comm,
        of_side: fn(Failure) -> Failure,
    ) -> Result<Vec<Area>, Failure> {
        let datatype = self.datatype.found()?;
        let block =
            |_, count, at: i64| Area::new(self.buffer.at(at * datatype.extent()), count, datatype);
        self.each(comm, block).map_err(of_side)
    }
}

/// The types of blocks that have a type each.
#[derive(Debug)]
pub enum BlockTypes<D: Dialect> {
    /// Handles in the program's memory.
    Given(Handles<D>),
    /// The types themselves, for an operation that starts after the call: the program may have
    /// freed the handles by then. `None`: the null handle.
    Kept(Rc<[Option<Given>]>),
}

impl<D: Dialect> Clone for BlockTypes<D> {
    fn clone(&self) -> Self {
        match self {
            BlockTypes::Given(handles) => BlockTypes::Given(handles.clone()),
            BlockTypes::Kept(types) => BlockTypes::Kept(Rc::clone(types)),
        }
    }
}

impl<D: Dialect> BlockTypes<D> {
    /// The same types, kept.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub fn kept(&self, mpi: &Mpi<D>, count: usize, argument: &str) -> Result<Self, Failure> {
        self.check(count, argument)?;
        Ok(BlockTypes::Kept((0..count).map(|at| self.get(mpi, at)).collect()))
    }

    /// Checks that `count` types can be read.
    pub(crate) fn check(&self, count: usize, argument: &str) -> Result<(), Failure> {
        match self {
            BlockTypes::Given(handles) => handles.check(count, argument),
            BlockTypes::Kept(_) => Ok(()),
        }
    }

    /// One type, after [`BlockTypes::check`]; `None`: the null handle.
    fn get(&self, mpi: &Mpi<D>, at: usize) -> Option<Given> {
        match self {
            BlockTypes::Given(handles) => match handles.get(at) {
                Handle::DATATYPE_NULL => None,
                number => Some(mpi.datatype_of(number)),
            },
            BlockTypes::Kept(types) => types[at].clone(),
        }
    }

    /// The memory of one block, after [`BlockTypes::check`]. A block without elements needs no
    /// type: programs give the null handle where ranks exchange nothing, as MPICH allows.
    pub(crate) fn area(
        &self,
        mpi: &Mpi<D>,
        at: usize,
        (buffer, count): (Buffer, i64),
    ) -> Result<Area, Failure> {
        match self.get(mpi, at) {
            None if count == 0 => Ok(Area::NOTHING),
            None => Err(mpi.no_such(Object::Type, Handle::DATATYPE_NULL)),
            Some(datatype) => Area::new(buffer, count, &*datatype?),
        }
    }
}

impl<D: Dialect> Blocks<BlockTypes<D>> {
    /// The memory of all blocks, with a type for each.
    pub(crate) fn areas(
        &self,
        mpi: &Mpi<D>,
        comm: &Comm,
        of_side: fn(Failure) -> Failure,
    ) -> Result<Vec<Area>, Failure> {
        let types = &self.datatype;
        let block = |rank, count, at| {
            types.check(rank + 1, "types")?;
            types.area(mpi, rank, (self.buffer.at(at), count))
        };
        self.each(comm, block).map_err(of_side)
    }
}

impl<T> Blocks<T> {
    /// Calls `area` for each rank with its count and displacement.
    fn each(
        &self,
        comm: &Comm,
        area: impl Fn(usize, i64, i64) -> Result<Area, Failure>,
    ) -> Result<Vec<Area>, Failure> {
        let size = comm.inner.size() as usize;
        self.counts.check(size, "counts")?;
        self.displacements.check(size, "displs")?;
        let block = |rank| area(rank, self.counts.get(rank), self.displacements.get(rank));
        (0..size).map(block).collect()
    }
}

impl Blocks<&Given, &Numbers> {
    /// The block of a rank, if it is contiguous.
    #[inline(always)]
    pub(crate) fn plain(&self, rank: usize) -> Option<Plain> {
        let Blocks { buffer, counts, displacements, datatype } = self;
        counts.check(rank + 1, "counts").and(displacements.check(rank + 1, "displs")).ok()?;
        let datatype = datatype.as_ref().ok()?;
        let at = displacements.get(rank).checked_mul(datatype.extent())?;
        Area::plain(buffer.at(at), counts.get(rank), datatype)
    }
}

/// The operands and the operation of a reduction: `sendbuf`, `recvbuf`, `count` or `recvcounts`,
/// `datatype` and `op` of the standard.
#[derive(Debug, Clone, Copy)]
pub struct Operands<T = Given, N = i64> {
    pub(crate) out: Buffer,
    pub(crate) into: Buffer,
    pub(crate) count: N,
    pub(crate) datatype: T,
    pub(crate) op: Op,
}

impl<T, N> Operands<T, N> {
    /// Wraps the program's arguments.
    #[inline(always)]
    pub fn new(out: Buffer, into: Buffer, count: N, datatype: T, op: Op) -> Operands<T, N> {
        Operands { out, into, count, datatype, op }
    }

    /// Whether the operand is in the result's buffer.
    #[inline(always)]
    pub(crate) fn are_in_place<D: Dialect>(&self) -> bool {
        self.out.is_in_place::<D>()
    }
}

impl Operands {
    /// This rank's elements, and the memory of the result.
    #[inline(always)]
    pub(crate) fn areas<D: Dialect>(self) -> Result<(Area, Area, Reducing<D>), Failure> {
        let in_place = self.are_in_place::<D>();
        let Operands { out, into, count, datatype, op } = self;
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let into = Area::received(into, count, &datatype)?;
        let from = if in_place { into.clone() } else { Area::sent(out, count, &datatype)? };
        Ok((from, into, reducing))
    }
}
