//! Collectives that often complete without waiting: short data, among ranks of one node, on the
//! node's shared lines.
//!
//! Each is described once ([`Operation`]). A blocking function begins it without a future, and
//! creates one only if it has to wait ([`AtOnce::run`]). The non-blocking and persistent functions
//! use a future from the start ([`AtOnce::in_flight`]). A persistent operation may use session
//! queues instead ([`Mpi::keep_at_once`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use hikyaku_coll::{
    self as coll, Begun, CollError, Element, Operand, Part, Place, Reduction, begin_allgather,
    begin_allgatherv, begin_allreduce, begin_alltoall, begin_alltoallv, begin_barrier,
    begin_broadcast, begin_exscan, begin_gather, begin_reduce, begin_reduce_scatter,
    begin_reduce_scatter_block, begin_scan, begin_scatter,
};
use hikyaku_msg::MsgError;
use hikyaku_nic::ring::copy;
use hikyaku_rank::persistent::{DenseCall, DenseOperation, DenseRounds};
use hikyaku_rank::{Error, RankPort};

use crate::arguments::{Blocks, Elements, Given, Operands};
use crate::collectives::{root_of, unless_put};
use crate::communicators::Comm;
use crate::dialect::{Dialect, Status};
use crate::failure::Failure;
use crate::operations::{Kernel, Op, Reducing, choices_of, element_of, kernel};

use crate::raw::{Buffer, HandleAt, Numbers};
use crate::requests::{Outcome, Request, Round, starts};
use crate::runtime::Mpi;
use crate::types::{Area, Landing, Plain, Type};

/// The result of an operation.
pub(crate) type Done = Result<(), Error>;

/// The result of an operation in the terms of `coll`.
type Ended = Result<(), CollError<MsgError>>;

/// An operation on data with gaps.
type InPieces<'a> = Pin<Box<dyn Future<Output = Ended> + 'a>>;

/// The ranks of an operation.
type Ranks<'c> = coll::CommunicatorGroup<'c, RankPort>;

/// An operation that may complete when it begins.
pub(crate) trait Operation {
    fn comm(&self) -> &Comm;

    /// The type of the data's elements.
    fn element(&self) -> Element {
        Element::BYTE
    }

    /// This rank's contribution, unless it is already in the result's buffer.
    fn given(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The buffer of the result, with its present contents.
    fn landing(&self) -> Landing<'_>;

    /// The operation for session queues, if they were chosen for it.
    fn session(&self) -> Option<DenseOperation>;

    /// This rank's whole contribution, wherever it is. In a broadcast it is as long as the root's.
    fn part(&self) -> Cow<'_, [u8]>;

    /// The memory of the result.
    fn result(&self) -> &Area;

    /// Whether data have gaps and are longer than a packet. Such data are not copied as a whole.
    #[inline(always)]
    fn is_scattered(&self) -> bool {
        false
    }

    /// Runs the operation on such data.
    fn in_pieces<'a>(&'a self, ranks: &'a Ranks<'a>) -> InPieces<'a> {
        let _ = ranks;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Begins the operation.
    fn begin<'a>(
        &'a self,
        ranks: &'a Ranks<'a>,
        given: Option<&'a [u8]>,
        data: &'a mut [u8],
    ) -> Begun<Ended, impl Future<Output = Ended> + 'a>;
}

/// A described operation that may complete when it begins.
#[derive(Debug)]
pub struct AtOnce<T>(pub(crate) T);

#[expect(private_bounds, reason = "made here alone")]
impl<T: Operation> AtOnce<T> {
    /// Runs the operation to its end. A call that does nothing but wait polls more often before it
    /// yields.
    ///
    /// # Errors
    /// The operation's errors.
    #[inline(always)]
    pub fn run(self) -> Result<(), Failure> {
        let (operation, comm) = (&self.0, self.0.comm());
        let ranks = comm.inner.waiting_group().with_elements(operation.element());
        if operation.is_scattered() {
            return run_in_pieces(operation, &ranks);
        }
        let given = operation.given();
        let mut landing = operation.landing();
        let done = end(comm, operation.begin(&ranks, given.as_deref(), landing.bytes()));
        landing.finish();
        done
    }

    /// The operation as a future.
    pub async fn in_flight(self) -> Done {
        let operation = &self.0;
        let ranks = operation.comm().inner.group().with_elements(operation.element());
        if operation.is_scattered() {
            return Ok(operation.in_pieces(&ranks).await?);
        }
        let given = operation.given();
        let mut landing = operation.landing();
        let done = operation.begin(&ranks, given.as_deref(), landing.bytes()).end().await;
        landing.finish();
        Ok(done?)
    }
}

/// An operation on session queues: set up once, and started repeatedly.
struct Kept<T> {
    rounds: RefCell<DenseRounds>,
    operation: T,
}

impl<T: Operation> Kept<T> {
    /// Sets up the queues on all ranks. `None` at every rank if queues cannot do the operation.
    fn new(operation: T, dense: DenseOperation) -> Result<Option<Kept<T>>, Error> {
        let call = DenseCall { operation: dense, bytes: operation.part().len() };
        let rounds = DenseRounds::new(&operation.comm().inner, call, operation.result().len())?;
        Ok(rounds.map(|rounds| Kept { rounds: RefCell::new(rounds), operation }))
    }

    fn start(&self) -> Result<(), Failure> {
        let room = self.operation.result().len();
        Ok(self.rounds.borrow_mut().start(&self.operation.part(), room)?)
    }

    fn land(&self) -> Status {
        self.operation.result().put(self.rounds.borrow().result());
        Status::EMPTY
    }
}

impl<T: Operation> Round for Kept<T> {
    fn wait(&self) -> Outcome {
        self.rounds.borrow_mut().wait()?;
        Ok(self.land())
    }

    fn test(&self, comm: &Comm) -> Option<Outcome> {
        comm.inner.attend();
        comm.inner.engine().borrow_mut().progress();
        // Otherwise another thread waits for it.
        let done = self.rounds.try_borrow_mut().ok()?.test();
        match done {
            Ok(false) => None,
            Ok(true) => Some(Ok(self.land())),
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// Fast paths of blocking calls on data without gaps. They need no description.
impl<D: Dialect> Mpi<D> {
    /// MPI_Allreduce with a predefined operation. `None`: call [`Mpi::allreduce`] instead.
    #[inline(always)]
    pub fn allreduce_at_once(
        &self,
        operands: Operands<&Given>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let Operands { out, into, count, datatype, op } = operands;
        let datatype = datatype.as_ref().ok()?;
        let (reduction, element) = reducing(op, datatype)?;
        let data = operand::<D>(out, into, count, datatype)?;
        let ranks = comm.inner.waiting_group().with_elements(element);
        let by = comm.inner.choices().allreduce;
        Some(end(comm, begin_allreduce(&ranks, by, data, reduction)))
    }

    /// MPI_Scan with a predefined operation. `None`: call [`Mpi::scan`] instead.
    #[inline(always)]
    pub fn scan_at_once(
        &self,
        operands: Operands<&Given>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let (place, reduction, element) = placed::<D>(operands)?;
        let ranks = comm.inner.waiting_group().with_elements(element);
        let by = comm.inner.choices().scan;
        Some(end(comm, begin_scan(&ranks, by, place.bytes_mut(), reduction)))
    }

    /// MPI_Exscan with a predefined operation. `None`: call [`Mpi::exscan`] instead.
    #[inline(always)]
    pub fn exscan_at_once(
        &self,
        operands: Operands<&Given>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let Operands { out, into, count, datatype, op } = operands;
        let datatype = datatype.as_ref().ok()?;
        let (reduction, element) = reducing(op, datatype)?;
        let place = Area::plain(into, count, datatype)?;
        let mut own = [0; SHORT];
        let data = match (out.is_in_place::<D>(), comm.inner.rank()) {
            (true, _) => place.bytes_mut(),
            // The result's buffer at rank 0 must not change.
            (false, 0) => {
                let data = own.get_mut(..place.len())?;
                copy(Area::plain(out, count, datatype)?.bytes(), data);
                data
            }
            (false, _) => {
                Area::plain(out, count, datatype)?.copy_to(place);
                place.bytes_mut()
            }
        };
        let ranks = comm.inner.waiting_group().with_elements(element);
        Some(end(comm, begin_exscan(&ranks, comm.inner.choices().exscan, data, reduction)))
    }

    /// MPI_Reduce_scatter_block out of place, with a predefined operation. `None`: call
    /// [`Mpi::reduce_scatter_block`] instead.
    #[inline(always)]
    pub fn reduce_scatter_block_at_once(
        &self,
        operands: Operands<&Given>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        if operands.are_in_place::<D>() {
            return None;
        }
        let Operands { out, into, count, datatype, op } = operands;
        let data = Operand::Lent(Elements::new(out, count, datatype).plain_of_all(comm)?.bytes());
        let datatype = datatype.as_ref().ok()?;
        let (reduction, element) = reducing(op, datatype)?;
        let place = Area::plain(into, count, datatype)?.bytes_mut();
        let ranks = comm.inner.waiting_group().with_elements(element);
        let by = comm.inner.choices().reduce_scatter;
        Some(end(comm, begin_reduce_scatter_block(&ranks, by, data, place, reduction)))
    }

    /// MPI_Reduce_scatter out of place, with a predefined operation. `None`: call
    /// [`Mpi::reduce_scatter`] instead.
    #[inline(always)]
    pub fn reduce_scatter_at_once(
        &self,
        operands: Operands<&Given, &Numbers>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        if operands.are_in_place::<D>() {
            return None;
        }
        let Operands { out, into, count: counts, datatype, op } = operands;
        let (datatype, size) = (datatype.as_ref().ok()?, comm.inner.size() as usize);
        let (reduction, element) = reducing(op, datatype)?;
        counts.check(size, "recvcounts").ok()?;
        let lengths = lengths_of(counts, size, datatype)?;
        let count = (0..size).try_fold(0_i64, |sum, rank| sum.checked_add(counts.get(rank)))?;
        let data = Operand::Lent(Area::plain(out, count, datatype)?.bytes());
        let own = counts.get(comm.inner.rank() as usize);
        let place = Area::plain(into, own, datatype)?.bytes_mut();
        let ranks = comm.inner.waiting_group().with_elements(element);
        let by = comm.inner.choices().reduce_scatter;
        Some(end(comm, begin_reduce_scatter(&ranks, by, data, lengths, place, reduction)))
    }

    /// MPI_Allgather. `None`: call [`Mpi::allgather`] instead.
    #[inline(always)]
    pub fn allgather_at_once(
        &self,
        out: Elements<&Given>,
        into: Elements<&Given>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let all = into.plain_of_all(comm)?;
        let given = match out.is_in_place::<D>() {
            true => None,
            false => Some(out.plain()?.bytes()),
        };
        let ranks = comm.inner.waiting_group();
        let by = comm.inner.choices().allgather;
        Some(end(comm, begin_allgather(&ranks, by, given, all.bytes_mut())))
    }

    /// MPI_Allgatherv of consecutive blocks. `None`: call [`Mpi::allgatherv`] instead.
    #[inline(always)]
    pub fn allgatherv_at_once(
        &self,
        out: Elements<&Given>,
        into: Blocks<&Given, &Numbers>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let Blocks { buffer, counts, displacements, datatype } = into;
        let (datatype, size) = (datatype.as_ref().ok()?, comm.inner.size() as usize);
        counts.check(size, "recvcounts").and(displacements.check(size, "displs")).ok()?;
        let first = displacements.get(0);
        let count = (0..size).try_fold(0_i64, |sum, rank| {
            let follows = displacements.get(rank).checked_sub(first) == Some(sum);
            sum.checked_add(counts.get(rank)).filter(|_| follows)
        })?;
        let lengths = lengths_of(counts, size, datatype)?;
        let start = buffer.at(first.checked_mul(datatype.extent())?);
        let all = Area::plain(start, count, datatype)?;
        let given = match out.is_in_place::<D>() {
            true => None,
            false => Some(out.plain()?.bytes()),
        };
        let ranks = comm.inner.waiting_group();
        let by = comm.inner.choices().for_unequal_parts().allgather;
        Some(end(comm, begin_allgatherv(&ranks, by, given, all.bytes_mut(), lengths)))
    }

    /// MPI_Alltoallv out of place among few ranks. `None`: call [`Mpi::alltoallv`] instead.
    #[inline(always)]
    pub fn alltoallv_at_once(
        &self,
        out: Blocks<&Given, &Numbers>,
        into: Blocks<&Given, &Numbers>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let size = comm.inner.size() as usize;
        if size > FEW || out.is_in_place::<D>() {
            return None;
        }
        let (mut parts, mut places) = ([NO_PART; FEW], [NO_PLACE; FEW]);
        let (parts, places) = (&mut parts[..size], &mut places[..size]);
        for (rank, part) in parts.iter_mut().enumerate() {
            *part = Part::Whole(out.plain(rank)?.bytes());
        }
        for (rank, place) in places.iter_mut().enumerate() {
            *place = Place::Whole(into.plain(rank)?.bytes_mut());
        }
        let ranks = comm.inner.waiting_group();
        let by = comm.inner.choices().for_unequal_parts().alltoall;
        Some(end(comm, begin_alltoallv(&ranks, by, parts, places)))
    }

    /// MPI_Alltoall out of place. `None`: call [`Mpi::alltoall`] instead.
    #[inline(always)]
    pub fn alltoall_at_once(
        &self,
        out: Elements<&Given>,
        into: Elements<&Given>,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        if out.is_in_place::<D>() {
            return None;
        }
        let parts = out.plain_of_all(comm)?;
        let places = into.plain_of_all(comm)?;
        let ranks = comm.inner.waiting_group();
        let by = comm.inner.choices().alltoall;
        Some(end(comm, begin_alltoall(&ranks, by, parts.bytes(), places.bytes_mut())))
    }

    /// MPI_Gather. `None`: call [`Mpi::gather`] instead.
    #[inline(always)]
    pub fn gather_at_once(
        &self,
        out: Elements<&Given>,
        into: Elements<&Given>,
        root: i32,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let root = root_of(comm, root).ok()?;
        let is_root = comm.inner.rank() == root;
        let given = match out.is_in_place::<D>() {
            true if is_root => None,
            true => return None,
            false => Some(out.plain()?.bytes()),
        };
        let all = match is_root {
            true => into.plain_of_all(comm)?.bytes_mut(),
            false => &mut [],
        };
        let ranks = comm.inner.waiting_group();
        let by = comm.inner.choices().gather;
        Some(end(comm, begin_gather(&ranks, by, given, all, root)))
    }

    /// MPI_Scatter. `None`: call [`Mpi::scatter`] instead.
    #[inline(always)]
    pub fn scatter_at_once(
        &self,
        out: Elements<&Given>,
        into: Elements<&Given>,
        root: i32,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let root = root_of(comm, root).ok()?;
        let is_root = comm.inner.rank() == root;
        let all = match is_root {
            true => out.plain_of_all(comm)?.bytes(),
            false => &[],
        };
        let place = match into.is_in_place::<D>() {
            true if is_root => None,
            true => return None,
            false => Some(into.plain()?.bytes_mut()),
        };
        let ranks = comm.inner.waiting_group();
        let by = comm.inner.choices().scatter;
        Some(end(comm, begin_scatter(&ranks, by, all, place, root)))
    }

    /// MPI_Reduce with a predefined operation. `None`: call [`Mpi::reduce`] instead.
    #[inline(always)]
    pub fn reduce_at_once(
        &self,
        operands: Operands<&Given>,
        root: i32,
        comm: &Rc<Comm>,
    ) -> Option<Result<(), Failure>> {
        let Operands { out, into, count, datatype, op } = operands;
        let (root, datatype) = (root_of(comm, root).ok()?, datatype.as_ref().ok()?);
        let (reduction, element) = reducing(op, datatype)?;
        let data = match (comm.inner.rank() == root, out.is_in_place::<D>()) {
            (true, _) => operand::<D>(out, into, count, datatype)?,
            (false, true) => return None,
            (false, false) => Operand::Lent(Area::plain(out, count, datatype)?.bytes()),
        };
        let ranks = comm.inner.waiting_group().with_elements(element);
        let by = comm.inner.choices().reduce;
        Some(end(comm, begin_reduce(&ranks, by, data, root, reduction)))
    }
}

/// Lists of parts for up to so many ranks need no allocation.
const FEW: usize = 8;

const NO_PART: Part<'static, u8> = Part::Whole(&[]);
const NO_PLACE: Place<'static, u8> = Place::Whole(&mut []);

/// Copies of up to so many bytes need no allocation.
const SHORT: usize = 256;

/// The operand of a reduction whose result this rank gets.
#[inline(always)]
fn operand<'a, D: Dialect>(
    out: Buffer,
    into: Buffer,
    count: i64,
    datatype: &Type,
) -> Option<Operand<'a, u8>> {
    let into = Area::plain(into, count, datatype)?.bytes_mut();
    Some(match out.is_in_place::<D>() {
        true => Operand::Own(into),
        false => Operand::Apart { from: Area::plain(out, count, datatype)?.bytes(), into },
    })
}

/// A reduction with a predefined operation, and its element type.
#[inline(always)]
fn reducing(op: Op, datatype: &Type) -> Option<(Reduction<Kernel>, Element)> {
    let Op::Predefined(op) = op else { return None };
    let basic = datatype.values()?;
    let (combine, combination) = (kernel(op, basic)?, op.combination());
    let width = datatype.size().max(1);
    Some((Reduction { combine, commutative: true, width, combination }, element_of(basic)))
}

/// The result's memory with this rank's data in it, the reduction, and its element type.
#[inline(always)]
fn placed<D: Dialect>(operands: Operands<&Given>) -> Option<(Plain, Reduction<Kernel>, Element)> {
    let Operands { out, into, count, datatype, op } = operands;
    let datatype = datatype.as_ref().ok()?;
    let (reduction, element) = reducing(op, datatype)?;
    let place = Area::plain(into, count, datatype)?;
    if !out.is_in_place::<D>() {
        Area::plain(out, count, datatype)?.copy_to(place);
    }
    Some((place, reduction, element))
}

/// The bytes of each count of elements.
#[inline(always)]
fn lengths_of(
    counts: &Numbers,
    size: usize,
    datatype: &Type,
) -> Option<impl ExactSizeIterator<Item = usize>> {
    let are_right = (0..size).all(|rank| datatype.bytes(counts.get(rank)).is_ok());
    let (width, counts) = (datatype.size(), counts.clone());
    are_right.then(|| (0..size).map(move |rank| counts.get(rank) as usize * width))
}

#[expect(private_bounds, reason = "made here alone")]
impl<D: Dialect> Mpi<D> {
    /// Keeps the description of an operation to be started, as [`Mpi::keep`] or on session queues.
    pub fn keep_at_once<T: Operation + 'static>(
        &self,
        comm: &Rc<Comm>,
        describe: impl Fn(&Mpi<D>, Rc<Comm>) -> Result<AtOnce<T>, Failure> + 'static,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let Some(dense) = describe(self, Rc::clone(comm))?.0.session() else {
            let future = move |mpi: &Mpi<D>, comm| Ok(describe(mpi, comm)?.in_flight());
            return self.keep(comm, future, request);
        };
        let apart = self.apart(comm)?;
        let start = match Kept::new(describe(self, Rc::clone(&apart))?.0, dense)? {
            Some(kept) => starts(kept, Kept::start),
            None => self.starts_task(apart, move |mpi, comm| Ok(describe(mpi, comm)?.in_flight())),
        };
        self.add_request(Request::persistent(Rc::clone(comm), start), &request)
    }
}

#[cold]
#[inline(never)]
fn run_in_pieces<T: Operation>(operation: &T, ranks: &Ranks<'_>) -> Result<(), Failure> {
    let comm = operation.comm();
    let done = comm.inner.drive(operation.in_pieces(ranks));
    comm.inner.drop_left_overs();
    Ok(done?)
}

/// Completes a blocking call. The result of an operation that completes at once is one word: moving
/// a larger result would cost as much as the rest.
#[inline(always)]
fn end(comm: &Comm, begun: Begun<Ended, impl Future<Output = Ended>>) -> Result<(), Failure> {
    let done = match begun {
        Begun::Done(Ok(())) => Ok(()),
        Begun::Done(Err(error)) => Err(Failure::from(error)),
        Begun::Waits(future) => wait(comm, future),
    };
    comm.inner.drop_left_overs();
    done
}

#[inline(never)]
fn wait(comm: &Comm, future: impl Future<Output = Ended>) -> Result<(), Failure> {
    Ok(comm.inner.drive(future)?)
}

/// MPI_Barrier.
#[derive(Debug)]
pub struct Barrier {
    pub(crate) comm: Rc<Comm>,
    /// An empty area.
    pub(crate) area: Area,
}

impl Operation for Barrier {
    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn landing(&self) -> Landing<'_> {
        self.area.landing()
    }

    fn session(&self) -> Option<DenseOperation> {
        self.comm.inner.choices().sessions.barrier.then_some(DenseOperation::Barrier)
    }

    fn part(&self) -> Cow<'_, [u8]> {
        self.area.data()
    }

    fn result(&self) -> &Area {
        &self.area
    }

    #[inline(always)]
    fn begin<'a>(
        &'a self,
        ranks: &'a Ranks<'a>,
        _: Option<&'a [u8]>,
        _: &'a mut [u8],
    ) -> Begun<Ended, impl Future<Output = Ended> + 'a> {
        begin_barrier(ranks, self.comm.inner.choices().barrier)
    }
}

/// MPI_Bcast.
#[derive(Debug)]
pub struct Broadcast {
    pub(crate) comm: Rc<Comm>,
    pub(crate) area: Area,
    pub(crate) root: u32,
}

impl Operation for Broadcast {
    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn landing(&self) -> Landing<'_> {
        self.area.landing()
    }

    fn session(&self) -> Option<DenseOperation> {
        let root = self.root;
        let chosen = self.comm.inner.choices().sessions.broadcast;
        chosen.then_some(DenseOperation::Broadcast { root })
    }

    fn part(&self) -> Cow<'_, [u8]> {
        self.area.data()
    }

    fn result(&self) -> &Area {
        &self.area
    }

    #[inline(always)]
    fn is_scattered(&self) -> bool {
        self.area.is_scattered()
    }

    fn in_pieces<'a>(&'a self, ranks: &'a Ranks<'a>) -> InPieces<'a> {
        Box::pin(async move {
            let (by, mut data) = (self.comm.inner.choices().broadcast, self.area.place());
            coll::broadcast_scattered(ranks, by, &mut data, self.root).await
        })
    }

    #[inline(always)]
    fn begin<'a>(
        &'a self,
        ranks: &'a Ranks<'a>,
        _: Option<&'a [u8]>,
        data: &'a mut [u8],
    ) -> Begun<Ended, impl Future<Output = Ended> + 'a> {
        begin_broadcast(ranks, self.comm.inner.choices().broadcast, data, self.root)
    }
}

/// MPI_Allgather.
#[derive(Debug)]
pub struct Allgather {
    pub(crate) comm: Rc<Comm>,
    /// This rank's part, unless it is already in its place.
    pub(crate) mine: Option<Area>,
    pub(crate) all: Area,
}

impl Operation for Allgather {
    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn given(&self) -> Option<Cow<'_, [u8]>> {
        self.mine.as_ref().map(Area::data)
    }

    fn landing(&self) -> Landing<'_> {
        self.all.landing()
    }

    fn session(&self) -> Option<DenseOperation> {
        self.comm.inner.choices().sessions.allgather.then_some(DenseOperation::Allgather)
    }

    fn part(&self) -> Cow<'_, [u8]> {
        let Comm { inner, .. } = &*self.comm;
        match &self.mine {
            Some(mine) => mine.data(),
            None => {
                let own = self.all.block(inner.size(), inner.rank());
                own.data().into_owned().into()
            }
        }
    }

    fn result(&self) -> &Area {
        &self.all
    }

    #[inline(always)]
    fn is_scattered(&self) -> bool {
        self.all.is_scattered() || self.mine.as_ref().is_some_and(Area::is_scattered)
    }

    fn in_pieces<'a>(&'a self, ranks: &'a Ranks<'a>) -> InPieces<'a> {
        Box::pin(async move {
            let (by, inner) = (self.comm.inner.choices().allgather, &self.comm.inner);
            let mine = unless_put(self.mine.as_ref(), &self.all.block(inner.size(), inner.rank()));
            let mut all = self.all.place();
            coll::allgather_scattered(ranks, by, mine.as_deref(), &mut all).await
        })
    }

    #[inline(always)]
    fn begin<'a>(
        &'a self,
        ranks: &'a Ranks<'a>,
        given: Option<&'a [u8]>,
        data: &'a mut [u8],
    ) -> Begun<Ended, impl Future<Output = Ended> + 'a> {
        begin_allgather(ranks, self.comm.inner.choices().allgather, given, data)
    }
}

/// MPI_Allreduce.
#[derive(Debug)]
pub struct Allreduce<D: Dialect> {
    pub(crate) comm: Rc<Comm>,
    /// This rank's elements, and the memory of the result.
    pub(crate) from: Area,
    pub(crate) into: Area,
    pub(crate) reducing: Reducing<D>,
}

impl<D: Dialect> Operation for Allreduce<D> {
    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn element(&self) -> Element {
        self.reducing.element()
    }

    fn landing(&self) -> Landing<'_> {
        self.from.copy_to(&self.into);
        self.into.landing()
    }

    fn session(&self) -> Option<DenseOperation> {
        let chosen = self.comm.inner.choices().sessions.allreduce;
        self.reducing.combining().filter(|_| chosen).map(DenseOperation::Allreduce)
    }

    fn part(&self) -> Cow<'_, [u8]> {
        self.from.data()
    }

    fn result(&self) -> &Area {
        &self.into
    }

    #[inline(always)]
    fn is_scattered(&self) -> bool {
        self.into.is_scattered()
    }

    fn in_pieces<'a>(&'a self, ranks: &'a Ranks<'a>) -> InPieces<'a> {
        Box::pin(async move {
            self.from.copy_to(&self.into);
            let by = choices_of(&self.comm.inner, &self.reducing).allreduce;
            let (mut data, reduction) = (self.into.place(), self.reducing.as_reduction());
            coll::allreduce_scattered(ranks, by, &mut data, reduction).await
        })
    }

    #[inline(always)]
    fn begin<'a>(
        &'a self,
        ranks: &'a Ranks<'a>,
        _: Option<&'a [u8]>,
        data: &'a mut [u8],
    ) -> Begun<Ended, impl Future<Output = Ended> + 'a> {
        let by = choices_of(&self.comm.inner, &self.reducing).allreduce;
        begin_allreduce(ranks, by, Operand::Own(data), self.reducing.as_reduction())
    }
}
