//! Collective operations (MPI 5.0 chapter 6).
//!
//! Each is described once, as a future over memory of the program, or as what may be over before
//! there is one (`at_once`). A blocking function runs it to its end, a non-blocking one leaves it
//! in flight, a persistent one keeps what makes it. Which of the three a function does is written
//! into the shared libraries from the table.

use std::rc::Rc;

use hikyaku_coll as coll;
use hikyaku_rank::RankPort;

use crate::at_once::{Allgather, Allreduce, AtOnce, Barrier, Broadcast, Done};
use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle};
use crate::failure::{Class, Failure};
use crate::operations::{Op, Reducing, choices_of};
use crate::parts::{are_scattered, exchanged, exchanged_in_place, gathered, scattered, unless_put};
use crate::raw::{Buffer, HandleAt, Handles, Numbers};
use crate::requests::{Request, Start, State};
use crate::runtime::Mpi;
use crate::types::{Area, Type};

/// What comes of describing an operation: a future that does it, or what is wrong with the call.
pub(crate) type Described<F> = Result<F, Failure>;

/// A datatype as it was given: wrong only if it is looked at.
pub(crate) type Given = Result<Rc<Type>, Failure>;

/// A root that exists.
#[inline(always)]
pub(crate) fn root_of(comm: &Comm, root: i32) -> Result<u32, Failure> {
    let size = comm.inner.size();
    let found = u32::try_from(root).ok().filter(|root| *root < size);
    found.ok_or_else(|| {
        let text = format!("rank {root} cannot be the root: there are ranks 0 to {}", size - 1);
        Failure::new(Class::Root, text)
    })
}

/// Elements at displacements, a block a rank.
pub(crate) fn blocks(
    comm: &Comm,
    buffer: Buffer,
    (counts, displacements): (Numbers, Numbers),
    datatype: &Type,
) -> Result<Vec<Area>, Failure> {
    let size = comm.inner.size() as usize;
    let (counts, displacements) = (counts.all(size, "counts")?, displacements.all(size, "displs")?);
    let block =
        |(count, at): (&i64, &i64)| Area::new(buffer.at(at * datatype.extent()), *count, datatype);
    counts.iter().zip(&displacements).map(block).collect()
}

/// The same with a type for each rank, and displacements in bytes.
pub(crate) fn blocks_of_types<D: Dialect>(
    mpi: &Mpi<D>,
    comm: &Comm,
    buffer: Buffer,
    (counts, displacements): (Numbers, Numbers),
    types: &Handles<D>,
) -> Result<Vec<Area>, Failure> {
    let size = comm.inner.size() as usize;
    let (counts, displacements) = (counts.all(size, "counts")?, displacements.all(size, "displs")?);
    let types = types.all(size, "types")?;
    let block = |((count, at), number): ((&i64, &i64), &Handle)| {
        Area::new(buffer.at(*at), *count, &*mpi.datatype_of(*number)?)
    };
    counts.iter().zip(&displacements).zip(&types).map(block).collect()
}

/// How often a type is there for all ranks.
pub(crate) fn for_all(comm: &Comm, count: i64) -> Result<i64, Failure> {
    count.checked_mul(comm.inner.size().into()).ok_or_else(|| {
        Failure::new(Class::Count, format!("{count} elements a rank are more than can be counted"))
    })
}

/// An operation on elements that may be in flight.
pub(crate) async fn landed<R>(area: &Area, act: impl AsyncFnOnce(&mut [u8]) -> R) -> R {
    let mut landing = area.landing();
    let result = act(landing.bytes()).await;
    landing.finish();
    result
}

impl<D: Dialect> Mpi<D> {
    /// The ranks of a communicator as an operation sees them. A call that does nothing but wait
    /// looks more often before it lets others go on.
    #[inline]
    fn ranks_of<'c>(&self, comm: &'c Comm) -> coll::CommunicatorGroup<'c, RankPort> {
        let group = comm.inner.group();
        if self.is_waiting { group.waiting() } else { group }
    }

    /// Runs an operation to its end.
    #[inline]
    pub fn run(&self, comm: &Comm, operation: impl Future<Output = Done>) -> Result<(), Failure> {
        let done = comm.inner.drive(operation);
        comm.inner.drop_left_overs();
        Ok(done?)
    }

    /// Leaves it in flight.
    pub fn leave(
        &self,
        comm: &Rc<Comm>,
        operation: impl Future<Output = Done> + 'static,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let task = comm.inner.start_task(Box::pin(operation));
        self.add_request(Request::new(Rc::clone(comm), State::Task(task)), &request)
    }

    /// Keeps what describes it, to be started. It has contexts of its own: ranks make such
    /// operations in the same order, and may start them in any (MPI 4.1 §7.13).
    pub fn keep<F: Future<Output = Done> + 'static>(
        &self,
        comm: &Rc<Comm>,
        describe: impl Fn(&Mpi<D>, Rc<Comm>) -> Described<F> + 'static,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        // What is wrong with the call is said now.
        describe(self, Rc::clone(comm))?;
        let start = self.starts_task(self.apart(comm)?, describe);
        self.add_request(Request::persistent(Rc::clone(comm), start), &request)
    }

    /// What starts such an operation, on contexts of its own.
    pub(crate) fn starts_task<F: Future<Output = Done> + 'static>(
        &self,
        apart: Rc<Comm>,
        describe: impl Fn(&Mpi<D>, Rc<Comm>) -> Described<F> + 'static,
    ) -> Start {
        let mpi = *self;
        Box::new(move || {
            let operation = describe(&mpi, Rc::clone(&apart))?;
            Ok(State::Task(apart.local().start_task(Box::pin(operation))))
        })
    }

    /// MPI_Barrier.
    #[inline]
    pub fn barrier(&self, comm: Rc<Comm>) -> Described<AtOnce<Barrier>> {
        Ok(AtOnce(Barrier { comm, area: Area::NOTHING }))
    }

    /// MPI_Bcast.
    #[inline(always)]
    pub fn bcast(
        &self,
        buffer: Buffer,
        count: i64,
        datatype: Given,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<AtOnce<Broadcast>> {
        let (area, root) = (Area::new(buffer, count, &*datatype?)?, root_of(&comm, root)?);
        Ok(AtOnce(Broadcast { comm, area, root }))
    }

    /// MPI_Gather.
    #[allow(clippy::too_many_arguments)]
    pub fn gather(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = own_part::<D>(out, out_count, out_type, is_root, Failure::sent)?;
        let all = match is_root {
            true => Area::received(into, for_all(&comm, in_count)?, &*in_type?)?,
            false => Area::NOTHING,
        };
        let mpi = *self;
        Ok(async move {
            let (by, group) = (comm.inner.choices().gather, mpi.ranks_of(&comm));
            if are_scattered(mine.iter().chain([&all])) {
                let (mine, mut all) = (mine.as_ref().map(Area::part), all.place());
                return Ok(coll::gather_scattered(&group, by, mine.as_ref(), &mut all, root).await?);
            }
            let mine = mine.as_ref().map(Area::data);
            landed(
                &all,
                async |all| Ok(coll::gather(&group, by, mine.as_deref(), all, root).await?),
            )
            .await
        })
    }

    /// MPI_Gatherv.
    #[allow(clippy::too_many_arguments)]
    pub fn gatherv(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_type: Given,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = own_part::<D>(out, out_count, out_type, is_root, Failure::sent)?;
        let places = match is_root {
            true => blocks(&comm, into, (counts, displacements), &*in_type?)
                .map_err(Failure::received)?,
            false => Vec::new(),
        };
        let mpi = *self;
        Ok(async move {
            let by = comm.inner.choices().for_unequal_parts().gather;
            let group = mpi.ranks_of(&comm);
            let ranks = (&group, comm.inner.rank());
            if let Some(done) = gathered(ranks, by, mine.as_ref(), &places, root).await {
                return done;
            }
            let mut landings: Vec<_> = places.iter().map(Area::landing).collect();
            let blocks = landings.iter_mut().map(|landing| landing.bytes()).collect();
            let mine = mine.as_ref().map(Area::data);
            let done = coll::gatherv(&group, by, mine.as_deref(), blocks, root).await;
            landings.into_iter().for_each(|landing| landing.finish());
            Ok(done?)
        })
    }

    /// MPI_Scatter.
    #[allow(clippy::too_many_arguments)]
    pub fn scatter(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = own_part::<D>(into, in_count, in_type, is_root, Failure::received)?;
        let all = match is_root {
            true => Area::sent(out, for_all(&comm, out_count)?, &*out_type?)?,
            false => Area::NOTHING,
        };
        let mpi = *self;
        Ok(async move {
            let (by, group) = (comm.inner.choices().scatter, mpi.ranks_of(&comm));
            if are_scattered(mine.iter().chain([&all])) {
                let (all, mut mine) = (all.part(), mine.as_ref().map(Area::place));
                return Ok(coll::scatter_scattered(&group, by, &all, mine.as_mut(), root).await?);
            }
            let all = all.data();
            match mine {
                None => Ok(coll::scatter(&group, by, &all, None, root).await?),
                Some(mine) => {
                    landed(&mine, async |mine| {
                        Ok(coll::scatter(&group, by, &all, Some(mine), root).await?)
                    })
                    .await
                }
            }
        })
    }

    /// MPI_Scatterv.
    #[allow(clippy::too_many_arguments)]
    pub fn scatterv(
        &self,
        out: Buffer,
        counts: Numbers,
        displacements: Numbers,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = own_part::<D>(into, in_count, in_type, is_root, Failure::received)?;
        let parts = match is_root {
            true => {
                blocks(&comm, out, (counts, displacements), &*out_type?).map_err(Failure::sent)?
            }
            false => Vec::new(),
        };
        let mpi = *self;
        Ok(async move {
            let by = comm.inner.choices().for_unequal_parts().scatter;
            let group = mpi.ranks_of(&comm);
            let ranks = (&group, comm.inner.rank());
            if let Some(done) = scattered(ranks, by, &parts, mine.as_ref(), root).await {
                return done;
            }
            let data: Vec<_> = parts.iter().map(Area::data).collect();
            let parts: Vec<&[u8]> = data.iter().map(|part| &**part).collect();
            match mine {
                None => Ok(coll::scatterv(&group, by, &parts, None, root).await?),
                Some(mine) => {
                    landed(&mine, async |mine| {
                        Ok(coll::scatterv(&group, by, &parts, Some(mine), root).await?)
                    })
                    .await
                }
            }
        })
    }

    /// MPI_Allgather.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub fn allgather(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Described<AtOnce<Allgather>> {
        let mine = own_part::<D>(out, out_count, out_type, true, Failure::sent)?;
        let all = Area::received(into, for_all(&comm, in_count)?, &*in_type?)?;
        Ok(AtOnce(Allgather { comm, mine, all }))
    }

    /// MPI_Allgatherv.
    #[allow(clippy::too_many_arguments)]
    pub fn allgatherv(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let mine = own_part::<D>(out, out_count, out_type, true, Failure::sent)?;
        let places =
            blocks(&comm, into, (counts, displacements), &*in_type?).map_err(Failure::received)?;
        let mpi = *self;
        Ok(async move {
            let by = comm.inner.choices().for_unequal_parts().allgather;
            let (group, own) = (mpi.ranks_of(&comm), comm.inner.rank() as usize);
            let lengths: Vec<usize> = places.iter().map(Area::len).collect();
            let mine = unless_put(mine.as_ref(), &places[own]);
            let (mine, mut all) = (mine.as_deref(), Area::places(&places));
            Ok(coll::allgatherv_scattered(&group, by, mine, &mut all, &lengths).await?)
        })
    }

    /// MPI_Alltoall.
    #[allow(clippy::too_many_arguments)]
    pub fn alltoall(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = Area::received(into, for_all(&comm, in_count)?, &*in_type?)?;
        let parts = match out.is_in_place::<D>() {
            true => None,
            false => Some(Area::sent(out, for_all(&comm, out_count)?, &*out_type?)?),
        };
        let mpi = *self;
        Ok(async move {
            let by = comm.inner.choices().alltoall;
            let group = mpi.ranks_of(&comm);
            if are_scattered(parts.iter().chain([&all])) {
                let mut all = all.place();
                let done = match parts.as_ref().map(Area::part) {
                    None => coll::alltoall_in_place_scattered(&group, &mut all).await,
                    Some(parts) => coll::alltoall_scattered(&group, by, &parts, &mut all).await,
                };
                return Ok(done?);
            }
            let parts = parts.as_ref().map(Area::data);
            landed(&all, async |all| match parts {
                None => Ok(coll::alltoall_in_place(&group, all).await?),
                Some(parts) => Ok(coll::alltoall(&group, by, &parts, all).await?),
            })
            .await
        })
    }

    /// MPI_Alltoallv.
    #[allow(clippy::too_many_arguments)]
    pub fn alltoallv(
        &self,
        out: Buffer,
        out_counts: Numbers,
        out_displacements: Numbers,
        out_type: Given,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let places =
            blocks(&comm, into, (counts, displacements), &*in_type?).map_err(Failure::received)?;
        let parts = match out.is_in_place::<D>() {
            true => None,
            false => Some(
                blocks(&comm, out, (out_counts, out_displacements), &*out_type?)
                    .map_err(Failure::sent)?,
            ),
        };
        Ok(exchange(comm, parts, places))
    }

    /// MPI_Alltoallw.
    #[allow(clippy::too_many_arguments)]
    pub fn alltoallw(
        &self,
        out: Buffer,
        out_counts: Numbers,
        out_displacements: Numbers,
        out_types: Handles<D>,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_types: Handles<D>,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let places = blocks_of_types(self, &comm, into, (counts, displacements), &in_types)
            .map_err(Failure::received)?;
        let given = (out_counts, out_displacements);
        let parts = match out.is_in_place::<D>() {
            true => None,
            false => {
                Some(blocks_of_types(self, &comm, out, given, &out_types).map_err(Failure::sent)?)
            }
        };
        Ok(exchange(comm, parts, places))
    }

    /// What is reduced: this rank's elements beside the memory where the result goes.
    #[inline(always)]
    pub(crate) fn operands(
        &self,
        (out, into): (Buffer, Buffer),
        count: i64,
        datatype: &Rc<Type>,
        op: Op,
    ) -> Result<(Area, Area, Reducing<D>), Failure> {
        let reducing = Reducing::<D>::new(op, datatype)?;
        let into = Area::received(into, count, datatype)?;
        let from = match out.is_in_place::<D>() {
            true => into.clone(),
            false => Area::sent(out, count, datatype)?,
        };
        Ok((from, into, reducing))
    }

    /// MPI_Allreduce.
    #[inline(always)]
    pub fn allreduce(
        &self,
        out: Buffer,
        into: Buffer,
        count: i64,
        datatype: Given,
        op: Op,
        comm: Rc<Comm>,
    ) -> Described<AtOnce<Allreduce<D>>> {
        let (from, into, reducing) = self.operands((out, into), count, &datatype?, op)?;
        Ok(AtOnce(Allreduce { comm, from, into, reducing }))
    }

    /// MPI_Reduce.
    #[allow(clippy::too_many_arguments)]
    pub fn reduce(
        &self,
        out: Buffer,
        into: Buffer,
        count: i64,
        datatype: Given,
        op: Op,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        // Elsewhere than at the root there is nowhere to put a result.
        let into = if is_root { into } else { out };
        let (from, into, reducing) = self.operands((out, into), count, &datatype?, op)?;
        let mpi = *self;
        Ok(async move {
            let by = choices_of(&comm.inner, &reducing).reduce;
            let group = mpi.ranks_of(&comm).with_elements(reducing.element());
            let mut data = from.data().into_owned();
            let done = coll::reduce(&group, by, &mut data, root, reducing.as_reduction()).await;
            if is_root && done.is_ok() {
                into.put(&data);
            }
            Ok(done?)
        })
    }

    /// MPI_Scan.
    pub fn scan(
        &self,
        out: Buffer,
        into: Buffer,
        count: i64,
        datatype: Given,
        op: Op,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let (from, into, reducing) = self.operands((out, into), count, &datatype?, op)?;
        let mpi = *self;
        Ok(async move {
            let by = choices_of(&comm.inner, &reducing).scan;
            let group = mpi.ranks_of(&comm).with_elements(reducing.element());
            from.copy_to(&into);
            landed(&into, async |data| {
                Ok(coll::scan(&group, by, data, reducing.as_reduction()).await?)
            })
            .await
        })
    }

    /// MPI_Exscan. What is at rank 0 stays as it was.
    pub fn exscan(
        &self,
        out: Buffer,
        into: Buffer,
        count: i64,
        datatype: Given,
        op: Op,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let (from, into, reducing) = self.operands((out, into), count, &datatype?, op)?;
        let mpi = *self;
        Ok(async move {
            let by = choices_of(&comm.inner, &reducing).exscan;
            let group = mpi.ranks_of(&comm).with_elements(reducing.element());
            let mut data = from.data().into_owned();
            let done = coll::exscan(&group, by, &mut data, reducing.as_reduction()).await;
            if comm.inner.rank() > 0 && done.is_ok() {
                into.put(&data);
            }
            Ok(done?)
        })
    }

    /// MPI_Reduce_scatter_block.
    pub fn reduce_scatter_block(
        &self,
        out: Buffer,
        into: Buffer,
        count: i64,
        datatype: Given,
        op: Op,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let in_place = out.is_in_place::<D>();
        let all = if in_place { into } else { out };
        let into = Area::received(into, count, &datatype)?;
        let from = Area::sent(all, for_all(&comm, count)?, &datatype)?;
        let mpi = *self;
        Ok(async move {
            let by = choices_of(&comm.inner, &reducing).reduce_scatter;
            let group = mpi.ranks_of(&comm).with_elements(reducing.element());
            let mut data = from.data().into_owned();
            landed(&into, async |into| {
                let reduction = reducing.as_reduction();
                Ok(coll::reduce_scatter_block(&group, by, &mut data, into, reduction).await?)
            })
            .await
        })
    }

    /// MPI_Reduce_scatter.
    pub fn reduce_scatter(
        &self,
        out: Buffer,
        into: Buffer,
        counts: Numbers,
        datatype: Given,
        op: Op,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let counts = counts.all(comm.inner.size() as usize, "recvcounts")?;
        let all = if out.is_in_place::<D>() { into } else { out };
        let own = counts[comm.inner.rank() as usize];
        let lengths: Result<Vec<usize>, _> = counts.iter().map(|it| datatype.bytes(*it)).collect();
        let (into, lengths) = (Area::received(into, own, &datatype)?, lengths?);
        let from = Area::sent(all, counts.iter().sum(), &datatype)?;
        let mpi = *self;
        Ok(async move {
            let by = choices_of(&comm.inner, &reducing).reduce_scatter;
            let group = mpi.ranks_of(&comm).with_elements(reducing.element());
            let mut data = from.data().into_owned();
            landed(&into, async |into| {
                let reduction = reducing.as_reduction();
                Ok(coll::reduce_scatter(&group, by, &mut data, &lengths, into, reduction).await?)
            })
            .await
        })
    }
}

/// What a rank gives; `None`: it is in its place already, which `may_be` so. `of_side` says of a
/// failure what it is about.
#[inline(always)]
pub(crate) fn own_part<D: Dialect>(
    buffer: Buffer,
    count: i64,
    datatype: Given,
    may_be: bool,
    of_side: fn(Failure) -> Failure,
) -> Result<Option<Area>, Failure> {
    if buffer.is_in_place::<D>() {
        return match may_be {
            true => Ok(None),
            false => Err(of_side(Failure::new(
                Class::Buffer,
                "MPI_IN_PLACE is for the root alone: this rank has to give its own part",
            ))),
        };
    }
    Area::of_side(buffer, count, &*datatype?, of_side).map(Some)
}

/// Blocks of any kind from all to all.
async fn exchange(comm: Rc<Comm>, parts: Option<Vec<Area>>, places: Vec<Area>) -> Done {
    let by = comm.inner.choices().for_unequal_parts().alltoall;
    let group = comm.inner.group();
    let done = match &parts {
        Some(parts) => exchanged((&group, comm.inner.rank()), by, parts, &places).await,
        None => exchanged_in_place(&group, &places).await,
    };
    if let Some(done) = done {
        return done;
    }
    let mut landings: Vec<_> = places.iter().map(Area::landing).collect();
    let into: Vec<&mut [u8]> = landings.iter_mut().map(|landing| landing.bytes()).collect();
    let done = match parts {
        None => coll::alltoallv_in_place(&group, into).await,
        Some(parts) => {
            let data: Vec<_> = parts.iter().map(Area::data).collect();
            let parts: Vec<&[u8]> = data.iter().map(|part| &**part).collect();
            coll::alltoallv(&group, by, &parts, into).await
        }
    };
    landings.into_iter().for_each(|landing| landing.finish());
    Ok(done?)
}
