//! Collective operations (MPI 5.0 chapter 6).
//!
//! Each is described once, as a future over memory of the program, or as an operation that may
//! complete before it needs one (`at_once`). A blocking function runs it to its end, a non-blocking
//! function leaves it in flight, and a persistent function keeps the description. The table states
//! which of the three each function of the shared libraries does.

use std::borrow::Cow;
use std::rc::Rc;

use hikyaku_coll::{self as coll, Part, Place, alltoall, gather, scatter};
use hikyaku_rank::{Error, RankPort};

use crate::arguments::{BlockTypes, Blocks, Elements, Given, Operands, for_all};
use crate::at_once::{Allgather, Allreduce, AtOnce, Barrier, Broadcast, Done};
use crate::communicators::Comm;
use crate::dialect::Dialect;
use crate::failure::{Class, Failure};
use crate::operations::{Reducing, choices_of};
use crate::raw::{HandleAt, Numbers};
use crate::requests::{Request, RequestState, Start};
use crate::runtime::Mpi;
use crate::types::Area;

/// A described operation: a future that runs it, or the error in the call's arguments.
pub(crate) type Described<F> = Result<F, Failure>;

/// Checks the rank of a root.
#[inline(always)]
pub(crate) fn root_of(comm: &Comm, root: i32) -> Result<u32, Failure> {
    let size = comm.inner.size();
    let found = u32::try_from(root).ok().filter(|root| *root < size);
    found.ok_or_else(|| {
        let text = format!("rank {root} cannot be the root: there are ranks 0 to {}", size - 1);
        Failure::new(Class::Root, text)
    })
}

/// Runs an operation on elements that may be in flight.
pub(crate) async fn landed<R>(area: &Area, act: impl AsyncFnOnce(&mut [u8]) -> R) -> R {
    let mut landing = area.landing();
    let result = act(landing.bytes()).await;
    landing.finish();
    result
}

/// [`landed`] for elements that may be absent.
async fn landed_if<R>(area: Option<&Area>, act: impl AsyncFnOnce(Option<&mut [u8]>) -> R) -> R {
    match area {
        None => act(None).await,
        Some(area) => landed(area, async |data| act(Some(data)).await).await,
    }
}

impl<D: Dialect> Mpi<D> {
    /// The ranks of a communicator for an operation. A call that does nothing but wait polls more
    /// often before it yields.
    #[inline]
    fn ranks_of<'c>(&self, comm: &'c Comm) -> coll::CommunicatorGroup<'c, RankPort> {
        if self.is_waiting { comm.inner.waiting_group() } else { comm.inner.group() }
    }

    /// Runs an operation to its end.
    #[inline]
    pub fn run(&self, comm: &Comm, operation: impl Future<Output = Done>) -> Result<(), Failure> {
        let done = comm.inner.drive(operation);
        comm.inner.drop_left_overs();
        Ok(done?)
    }

    /// Leaves an operation in flight.
    pub fn leave(
        &self,
        comm: &Rc<Comm>,
        operation: impl Future<Output = Done> + 'static,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let task = comm.inner.start_task(Box::pin(operation));
        self.add_request(Request::new(Rc::clone(comm), RequestState::Task(task)), &request)
    }

    /// Keeps the description of an operation to be started. It has contexts of its own: ranks
    /// create such operations in the same order, but may start them in any order (MPI 4.1 §7.13).
    pub fn keep<F: Future<Output = Done> + 'static>(
        &self,
        comm: &Rc<Comm>,
        describe: impl Fn(&Mpi<D>, Rc<Comm>) -> Described<F> + 'static,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        // Report errors in the arguments now.
        describe(self, Rc::clone(comm))?;
        let start = self.starts_task(self.apart(comm)?, describe);
        self.add_request(Request::persistent(Rc::clone(comm), start), &request)
    }

    /// The function that starts such an operation, on contexts of its own.
    pub(crate) fn starts_task<F: Future<Output = Done> + 'static>(
        &self,
        apart: Rc<Comm>,
        describe: impl Fn(&Mpi<D>, Rc<Comm>) -> Described<F> + 'static,
    ) -> Start {
        let mpi = *self;
        Box::new(move || {
            let operation = describe(&mpi, Rc::clone(&apart))?;
            Ok(RequestState::Task(apart.local().start_task(Box::pin(operation))))
        })
    }

    /// MPI_Barrier.
    #[inline]
    pub fn barrier(&self, comm: Rc<Comm>) -> Described<AtOnce<Barrier>> {
        Ok(AtOnce(Barrier { comm, area: Area::NOTHING }))
    }

    /// MPI_Bcast.
    #[inline(always)]
    pub fn bcast(&self, data: Elements, root: i32, comm: Rc<Comm>) -> Described<AtOnce<Broadcast>> {
        let (area, root) = (data.area()?, root_of(&comm, root)?);
        Ok(AtOnce(Broadcast { comm, area, root }))
    }

    /// MPI_Gather.
    pub fn gather(
        &self,
        out: Elements,
        into: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = out.own_part::<D>(is_root, Failure::sent)?;
        let all = if is_root { into.of_all(&comm)?.received()? } else { Area::NOTHING };
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
    pub fn gatherv(
        &self,
        out: Elements,
        into: Blocks,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = out.own_part::<D>(is_root, Failure::sent)?;
        let places = if is_root { into.areas(&comm, Failure::received)? } else { Vec::new() };
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
    pub fn scatter(
        &self,
        out: Elements,
        into: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = into.own_part::<D>(is_root, Failure::received)?;
        let all = if is_root { out.of_all(&comm)?.sent()? } else { Area::NOTHING };
        let mpi = *self;
        Ok(async move {
            let (by, group) = (comm.inner.choices().scatter, mpi.ranks_of(&comm));
            if are_scattered(mine.iter().chain([&all])) {
                let (all, mut mine) = (all.part(), mine.as_ref().map(Area::place));
                return Ok(coll::scatter_scattered(&group, by, &all, mine.as_mut(), root).await?);
            }
            let all = all.data();
            landed_if(mine.as_ref(), async |mine| {
                Ok(coll::scatter(&group, by, &all, mine, root).await?)
            })
            .await
        })
    }

    /// MPI_Scatterv.
    pub fn scatterv(
        &self,
        out: Blocks,
        into: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        let mine = into.own_part::<D>(is_root, Failure::received)?;
        let parts = if is_root { out.areas(&comm, Failure::sent)? } else { Vec::new() };
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
            landed_if(mine.as_ref(), async |mine| {
                Ok(coll::scatterv(&group, by, &parts, mine, root).await?)
            })
            .await
        })
    }

    /// MPI_Allgather.
    #[inline(always)]
    pub fn allgather(
        &self,
        out: Elements,
        into: Elements,
        comm: Rc<Comm>,
    ) -> Described<AtOnce<Allgather>> {
        let mine = out.own_part::<D>(true, Failure::sent)?;
        let all = into.of_all(&comm)?.received()?;
        Ok(AtOnce(Allgather { comm, mine, all }))
    }

    /// MPI_Allgatherv.
    pub fn allgatherv(
        &self,
        out: Elements,
        into: Blocks,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let mine = out.own_part::<D>(true, Failure::sent)?;
        let places = into.areas(&comm, Failure::received)?;
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
    pub fn alltoall(
        &self,
        out: Elements,
        into: Elements,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = into.of_all(&comm)?.received()?;
        let given = (!out.is_in_place::<D>()).then(|| out.of_all(&comm)?.sent());
        let (parts, mpi) = (given.transpose()?, *self);
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
    pub fn alltoallv(
        &self,
        out: Blocks,
        into: Blocks,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let places = into.areas(&comm, Failure::received)?;
        let given = (!out.is_in_place::<D>()).then(|| out.areas(&comm, Failure::sent));
        Ok(exchange(comm, given.transpose()?, places))
    }

    /// MPI_Alltoallw.
    pub fn alltoallw(
        &self,
        out: Blocks<BlockTypes<D>>,
        into: Blocks<BlockTypes<D>>,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let places = into.areas(self, &comm, Failure::received)?;
        let given = (!out.is_in_place::<D>()).then(|| out.areas(self, &comm, Failure::sent));
        Ok(exchange(comm, given.transpose()?, places))
    }

    /// MPI_Allreduce.
    #[inline(always)]
    pub fn allreduce(&self, operands: Operands, comm: Rc<Comm>) -> Described<AtOnce<Allreduce<D>>> {
        let (from, into, reducing) = operands.areas()?;
        Ok(AtOnce(Allreduce { comm, from, into, reducing }))
    }

    /// MPI_Reduce.
    pub fn reduce(
        &self,
        mut operands: Operands,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let root = root_of(&comm, root)?;
        let is_root = comm.inner.rank() == root;
        if !is_root {
            // This rank has no result buffer.
            operands.into = operands.out;
        }
        let (from, into, reducing) = operands.areas::<D>()?;
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
        operands: Operands,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let (from, into, reducing) = operands.areas::<D>()?;
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

    /// MPI_Exscan. The buffer of rank 0 does not change.
    pub fn exscan(
        &self,
        operands: Operands,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let (from, into, reducing) = operands.areas::<D>()?;
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
        operands: Operands,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = if operands.are_in_place::<D>() { operands.into } else { operands.out };
        let Operands { into, count, datatype, op, .. } = operands;
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
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
        operands: Operands<Given, Numbers>,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = if operands.are_in_place::<D>() { operands.into } else { operands.out };
        let Operands { into, count: counts, datatype, op, .. } = operands;
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let counts = counts.all(comm.inner.size() as usize, "recvcounts")?;
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

/// Exchanges blocks of any kind among all ranks.
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

// Collectives on data with gaps that stay in place: the data for and from each rank are packed and
// unpacked one packet at a time. Other ranks need not know of it.

/// The ranks of an operation, and this rank's index.
type Ranks<'c> = (&'c coll::CommunicatorGroup<'c, RankPort>, u32);

/// Whether some data with gaps are longer than a packet.
pub(crate) fn are_scattered<'a>(areas: impl IntoIterator<Item = &'a Area>) -> bool {
    areas.into_iter().any(Area::is_scattered)
}

/// Copies this rank's part for itself to its place and returns `None`, if it has gaps and fits.
/// Otherwise returns the data, and the algorithm copies it or reports the wrong length.
pub(crate) fn unless_put<'a>(part: Option<&'a Area>, place: &Area) -> Option<Cow<'a, [u8]>> {
    let part = part?;
    if part.memory().is_none() && part.len() == place.len() {
        part.copy_to(place);
        return None;
    }
    Some(part.data())
}

/// Copies this rank's part for itself to its place. `false` if their lengths differ.
fn put_own(part: &Area, place: &Area) -> bool {
    let fits = part.len() == place.len();
    if fits {
        part.copy_to(place);
    }
    fits
}

/// Gathers blocks of any lengths with gaps. `None`: gather them as contiguous data.
pub(crate) async fn gathered(
    (ranks, own): Ranks<'_>,
    by: Option<gather::Algorithm>,
    mine: Option<&Area>,
    places: &[Area],
    root: u32,
) -> Option<Done> {
    if !are_scattered(mine.into_iter().chain(places)) {
        return None;
    }
    let mut mine = mine;
    if own == root
        && let Some(part) = mine.take()
        && !put_own(part, &places[own as usize])
    {
        return None;
    }
    let (mine, places) = (mine.map(Area::part), places.iter().map(Area::place).collect());
    let done = coll::gatherv_parts(ranks, by, mine, places, root).await;
    Some(done.map_err(Error::from))
}

/// Scatters blocks of any lengths with gaps. `None`: scatter them as contiguous data.
pub(crate) async fn scattered(
    (ranks, own): Ranks<'_>,
    by: Option<scatter::Algorithm>,
    parts: &[Area],
    mine: Option<&Area>,
    root: u32,
) -> Option<Done> {
    if !are_scattered(mine.into_iter().chain(parts)) {
        return None;
    }
    let mut mine = mine;
    if own == root
        && let Some(place) = mine.take()
        && !put_own(&parts[own as usize], place)
    {
        return None;
    }
    let (parts, mine) = (parts.iter().map(Area::part).collect(), mine.map(Area::place));
    let done = coll::scatterv_parts(ranks, by, parts, mine, root).await;
    Some(done.map_err(Error::from))
}

/// Exchanges parts with gaps among all ranks. `None`: exchange them as contiguous data.
pub(crate) async fn exchanged(
    (ranks, own): Ranks<'_>,
    by: Option<alltoall::Algorithm>,
    parts: &[Area],
    places: &[Area],
) -> Option<Done> {
    let own = own as usize;
    if !are_scattered(parts.iter().chain(places)) || !put_own(&parts[own], &places[own]) {
        return None;
    }
    let mut out: Vec<Part<'_, u8>> = parts.iter().map(Area::part).collect();
    let mut into: Vec<Place<'_, u8>> = places.iter().map(Area::place).collect();
    out[own] = Part::Whole(&[]);
    into[own] = Place::Whole(&mut []);
    let done = coll::alltoallv_parts(ranks, by, out, into).await;
    Some(done.map_err(Error::from))
}

/// [`exchanged`] in place.
pub(crate) async fn exchanged_in_place(
    ranks: &coll::CommunicatorGroup<'_, RankPort>,
    places: &[Area],
) -> Option<Done> {
    if !are_scattered(places) {
        return None;
    }
    let mut places: Vec<Place<'_, u8>> = places.iter().map(Area::place).collect();
    let done = coll::alltoallv_in_place_scattered(ranks, places.iter_mut().collect()).await;
    Some(done.map_err(Error::from))
}
