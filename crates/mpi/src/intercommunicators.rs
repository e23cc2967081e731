//! Intercommunicators, and the collectives between their groups (MPI 5.0 §7.6, §6.2.3).
//!
//! Data goes directly from group to group: one message from each contributing rank to each
//! receiving rank. For a reduction, each group first reduces among its own ranks with a collective,
//! and its first rank sends the result to the other group.

use std::ffi::OsString;
use std::rc::Rc;
use std::sync::Arc;

use hikyaku_coll as coll;
use hikyaku_nic::ring::copy;
use hikyaku_rank::{Bridge, Error, GroupExchange, Intercommunicator};

use crate::arguments::{BlockTypes, Blocks, Elements, Given, Operands, for_all};
use crate::at_once::Done;
use crate::collectives::{Described, landed};
use crate::communicators::{Comm, number_of};
use crate::dialect::{Dialect, Object, PROC_NULL, ROOT};
use crate::errors::Handling;
use crate::failure::{Class, Failure};
use crate::groups::Group;
use crate::info::Info;
use crate::operations::Reducing;
use crate::raw::{HandleAt, Numbers};
use crate::runtime::Mpi;
use crate::types::Area;

impl<D: Dialect> Mpi<D> {
    /// MPI_Intercomm_create.
    pub fn intercomm_create(
        &self,
        local: Rc<Comm>,
        leader: i32,
        peer: D::Handle,
        remote_leader: i32,
        tag: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let inner = local.intra()?;
        let leader = rank_in(leader, inner.size(), "the local leader")?;
        // The other arguments are significant at the leader only.
        let peer = if inner.rank() == leader { Some(self.comm(peer)?) } else { None };
        let bridge = match &peer {
            None => None,
            Some(peer) => {
                let over = &peer.inner;
                let leader = rank_in(remote_leader, over.size(), "the remote leader")?;
                Some(Bridge::Messages { over, leader, tag })
            }
        };
        let made = Intercommunicator::join(inner, leader, bridge, tag as u32)?;
        self.add_comm(made, local.handler.get(), &into).map(drop)
    }

    /// MPI_Intercomm_create_from_groups.
    #[allow(clippy::too_many_arguments)]
    pub fn intercomm_create_from_groups(
        &self,
        local: Rc<Group>,
        leader: i32,
        remote: D::Handle,
        remote_leader: i32,
        tag: OsString,
        info: Option<Arc<Info>>,
        handler: Rc<Handling>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let leader = rank_in(leader, local.ranks.len() as u32, "the local leader")?;
        let (job, tag) = (self.rank()?, number_of(&tag));
        let is_leader = local.ranks.get(leader as usize) == Some(&job.whole().rank());
        let remote = if is_leader { Some(self.group(remote)?) } else { None };
        if let Some(remote) = &remote {
            rank_in(remote_leader, remote.ranks.len() as u32, "the remote leader")?;
        }
        let bridge = remote.map(|remote| Bridge::Known(remote.ranks.clone()));
        let inner = job.run(job.whole().create_group_for(&local.ranks, tag))?;
        let made = Intercommunicator::join(&inner, leader, bridge, tag)?;
        let made = self.add_comm(made, handler.of(Object::Comm)?, &into)?;
        made.info.take_from(info.as_deref());
        Ok(())
    }

    /// MPI_Intercomm_merge.
    pub fn intercomm_merge(
        &self,
        comm: Rc<Comm>,
        high: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let merged = comm.local().run(comm.groups()?.merge_async(high != 0))?;
        self.add_comm(merged, comm.handler.get(), &into).map(drop)
    }
}

fn rank_in(rank: i32, size: u32, what: &str) -> Result<u32, Failure> {
    u32::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
        let text = format!("{what} cannot be rank {rank}: there are {size} ranks");
        Failure::new(Class::Rank, text)
    })
}

/// A rank's role in an operation with a root.
enum RootedPart {
    /// It is the root.
    Root,
    /// It is in the root's group, and has nothing to do.
    None,
    /// The root is this rank of the other group.
    With(u32),
}

impl RootedPart {
    fn of(comm: &Comm, root: i32) -> Result<RootedPart, Failure> {
        match root {
            ROOT => Ok(RootedPart::Root),
            PROC_NULL => Ok(RootedPart::None),
            root => {
                let found = rank_in(root, comm.inner.size(), "the root");
                found.map(RootedPart::With).map_err(|it| it.of_class(Class::Root))
            }
        }
    }
}

/// The data that a rank sends to ranks of the other group, and receives from them.
#[derive(Default)]
struct Parcels {
    out: Vec<(u32, Area)>,
    into: Vec<(u32, Area)>,
}

impl Parcels {
    async fn exchange(self, by: GroupExchange<'_>) -> Result<(), Error> {
        let data: Vec<_> = self.out.iter().map(|(to, area)| (*to, area.data())).collect();
        let out: Vec<(u32, &[u8])> = data.iter().map(|(to, data)| (*to, &**data)).collect();
        let mut landings: Vec<_> =
            self.into.iter().map(|(from, area)| (*from, area.landing())).collect();
        let into = landings.iter_mut().map(|(from, landing)| (*from, landing.bytes()));
        let done = by.run(out, into).await;
        landings.into_iter().for_each(|(_, landing)| landing.finish());
        done
    }
}

/// An area for every rank of the other group.
fn numbered(areas: Vec<Area>) -> Vec<(u32, Area)> {
    (0..).zip(areas).collect()
}

/// The same area for every rank of the other group.
fn to_all(comm: &Comm, area: Area) -> Vec<(u32, Area)> {
    (0..comm.inner.size()).map(|to| (to, area.clone())).collect()
}

/// Consecutive parts of equal length, one for every rank of the other group.
fn parts(comm: &Comm, elements: Elements) -> Result<Vec<(u32, Area)>, Failure> {
    let (datatype, count) = (elements.datatype?, elements.count);
    for_all(comm, count)?;
    let each = count.saturating_mul(datatype.extent());
    let part = |at: i64| Area::new(elements.buffer.at(at * each), count, &datatype);
    let areas: Result<Vec<_>, _> = (0..i64::from(comm.inner.size())).map(part).collect();
    Ok(numbered(areas?))
}

impl Parcels {
    /// The parcels of an operation in which the root sends to each rank of the other group. `all`:
    /// the root's areas; `one`: the area of each receiver.
    fn from_root(
        comm: &Comm,
        root: i32,
        all: impl FnOnce() -> Result<Vec<(u32, Area)>, Failure>,
        one: impl FnOnce() -> Result<Area, Failure>,
    ) -> Result<Parcels, Failure> {
        Ok(match RootedPart::of(comm, root)? {
            RootedPart::None => Parcels::default(),
            RootedPart::Root => Parcels { out: all()?, into: Vec::new() },
            RootedPart::With(root) => Parcels { out: Vec::new(), into: vec![(root, one()?)] },
        })
    }

    /// The parcels of an operation in which the root receives from each rank of the other group.
    fn to_root(
        comm: &Comm,
        root: i32,
        all: impl FnOnce() -> Result<Vec<(u32, Area)>, Failure>,
        one: impl FnOnce() -> Result<Area, Failure>,
    ) -> Result<Parcels, Failure> {
        let Parcels { out, into } = Parcels::from_root(comm, root, all, one)?;
        Ok(Parcels { out: into, into: out })
    }
}

/// An exchange. It is numbered when it first runs.
fn exchanged(comm: Rc<Comm>, parcels: Parcels) -> Described<impl Future<Output = Done> + 'static> {
    Ok(async move { parcels.exchange(comm.groups_of()?.exchange()).await })
}

impl<D: Dialect> Mpi<D> {
    /// MPI_Barrier.
    pub fn inter_barrier(&self, comm: Rc<Comm>) -> Described<impl Future<Output = Done> + use<D>> {
        Ok(async move {
            let groups = comm.groups_of()?;
            let _turn = groups.turn().await;
            Ok(coll::barrier(&groups.both().group(), None).await?)
        })
    }

    /// MPI_Bcast.
    pub fn inter_bcast(
        &self,
        data: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = || Ok(to_all(&comm, data.area()?));
        let parcels = Parcels::from_root(&comm, root, all, || data.area())?;
        exchanged(comm, parcels)
    }

    /// MPI_Gather.
    pub fn inter_gather(
        &self,
        out: Elements,
        into: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = || parts(&comm, into).map_err(Failure::received);
        let parcels = Parcels::to_root(&comm, root, all, || out.sent())?;
        exchanged(comm, parcels)
    }

    /// MPI_Gatherv.
    pub fn inter_gatherv(
        &self,
        out: Elements,
        into: Blocks,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = || Ok(numbered(into.areas(&comm, Failure::received)?));
        let parcels = Parcels::to_root(&comm, root, all, || out.sent())?;
        exchanged(comm, parcels)
    }

    /// MPI_Scatter.
    pub fn inter_scatter(
        &self,
        out: Elements,
        into: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = || parts(&comm, out).map_err(Failure::sent);
        let parcels = Parcels::from_root(&comm, root, all, || into.received())?;
        exchanged(comm, parcels)
    }

    /// MPI_Scatterv.
    pub fn inter_scatterv(
        &self,
        out: Blocks,
        into: Elements,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let all = || Ok(numbered(out.areas(&comm, Failure::sent)?));
        let parcels = Parcels::from_root(&comm, root, all, || into.received())?;
        exchanged(comm, parcels)
    }

    /// MPI_Allgather.
    pub fn inter_allgather(
        &self,
        out: Elements,
        into: Elements,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let out = to_all(&comm, out.sent()?);
        let into = parts(&comm, into).map_err(Failure::received)?;
        exchanged(comm, Parcels { out, into })
    }

    /// MPI_Allgatherv.
    pub fn inter_allgatherv(
        &self,
        out: Elements,
        into: Blocks,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let out = to_all(&comm, out.sent()?);
        let into = numbered(into.areas(&comm, Failure::received)?);
        exchanged(comm, Parcels { out, into })
    }

    /// MPI_Alltoall.
    pub fn inter_alltoall(
        &self,
        out: Elements,
        into: Elements,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let out = parts(&comm, out).map_err(Failure::sent)?;
        let into = parts(&comm, into).map_err(Failure::received)?;
        exchanged(comm, Parcels { out, into })
    }

    /// MPI_Alltoallv.
    pub fn inter_alltoallv(
        &self,
        out: Blocks,
        into: Blocks,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let out = numbered(out.areas(&comm, Failure::sent)?);
        let into = numbered(into.areas(&comm, Failure::received)?);
        exchanged(comm, Parcels { out, into })
    }

    /// MPI_Alltoallw.
    pub fn inter_alltoallw(
        &self,
        out: Blocks<BlockTypes<D>>,
        into: Blocks<BlockTypes<D>>,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let out = numbered(out.areas(self, &comm, Failure::sent)?);
        let into = numbered(into.areas(self, &comm, Failure::received)?);
        exchanged(comm, Parcels { out, into })
    }

    /// MPI_Reduce: reduces the elements of the other group.
    pub fn inter_reduce(
        &self,
        operands: Operands,
        root: i32,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let Operands { out, into, count, datatype, op } = operands;
        let part = RootedPart::of(&comm, root)?;
        let (mut from, mut parcels, mut reducing) = (None, Parcels::default(), None);
        match part {
            RootedPart::None => {}
            RootedPart::Root => parcels.into.push((0, Area::received(into, count, &*datatype?)?)),
            RootedPart::With(_) => {
                let datatype = datatype?;
                from = Some(Area::sent(out, count, &datatype)?);
                reducing = Some(Reducing::<D>::new(op, &datatype)?);
            }
        }
        Ok(async move {
            let groups = comm.groups_of()?;
            let by = groups.exchange();
            let (Some(from), Some(reducing), RootedPart::With(root)) = (from, reducing, part)
            else {
                return parcels.exchange(by).await;
            };
            let _turn = groups.turn().await;
            let data = reduced(groups, &from, &reducing).await?;
            let out = (groups.local().rank() == 0).then_some((root, &data[..]));
            by.run(out, []).await
        })
    }

    /// MPI_Allreduce: each group gets the result of the other group's elements.
    pub fn inter_allreduce(
        &self,
        operands: Operands,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let Operands { out, into, count, datatype, op } = operands;
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let (from, into) =
            (Area::sent(out, count, &datatype)?, Area::received(into, count, &datatype)?);
        Ok(async move {
            let groups = comm.groups_of()?;
            let by = groups.exchange();
            let _turn = groups.turn().await;
            let swapped = swap(groups, by, &from, &reducing).await;
            let local = groups.local().group();
            let (mut data, failed) = given(swapped, into.len());
            landed(&into, async |into| {
                let told = told(failed, coll::broadcast(&local, None, &mut data, 0)).await;
                copy(&data, into);
                told
            })
            .await
        })
    }

    /// MPI_Reduce_scatter_block.
    pub fn inter_reduce_scatter_block(
        &self,
        operands: Operands,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let Operands { out, into, count, datatype, op } = operands;
        let counts = vec![count; comm.local().size() as usize];
        self.scattered(Operands { out, into, count: counts, datatype, op }, comm)
    }

    /// MPI_Reduce_scatter.
    pub fn inter_reduce_scatter(
        &self,
        operands: Operands<Given, Numbers>,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let Operands { out, into, count, datatype, op } = operands;
        let counts = count.all(comm.local().size() as usize, "recvcounts")?;
        self.scattered(Operands { out, into, count: counts, datatype, op }, comm)
    }

    fn scattered(
        &self,
        operands: Operands<Given, Vec<i64>>,
        comm: Rc<Comm>,
    ) -> Described<impl Future<Output = Done> + use<D>> {
        let Operands { out, into, count: counts, datatype, op } = operands;
        let datatype = datatype?;
        let reducing = Reducing::<D>::new(op, &datatype)?;
        let from = Area::sent(out, counts.iter().sum(), &datatype)?;
        let own = counts[comm.local().rank() as usize];
        let lengths: Result<Vec<usize>, _> = counts.iter().map(|it| datatype.bytes(*it)).collect();
        let (into, lengths) = (Area::received(into, own, &datatype)?, lengths?);
        Ok(async move {
            let groups = comm.groups_of()?;
            let by = groups.exchange();
            let _turn = groups.turn().await;
            let swapped = swap(groups, by, &from, &reducing).await;
            let local = groups.local().group();
            let (data, failed) = given(swapped, from.len());
            let mut rest = &data[..];
            let mut block = |length: &usize| {
                let (block, after) = rest.split_at(*length);
                rest = after;
                block
            };
            let blocks: Vec<&[u8]> = match groups.local().rank() {
                0 => lengths.iter().map(&mut block).collect(),
                _ => Vec::new(),
            };
            landed(&into, async |into| {
                told(failed, coll::scatterv(&local, None, &blocks, Some(into), 0)).await
            })
            .await
        })
    }

    /// MPI_Scan: not defined for intercommunicators.
    pub fn inter_scan(&self, _: Operands, comm: Rc<Comm>) -> Described<std::future::Ready<Done>> {
        comm.intra()?;
        Ok(std::future::ready(Ok(())))
    }

    /// MPI_Exscan: not defined for intercommunicators.
    pub fn inter_exscan(
        &self,
        operands: Operands,
        comm: Rc<Comm>,
    ) -> Described<std::future::Ready<Done>> {
        self.inter_scan(operands, comm)
    }
}

/// Reduces the elements of this rank's group. The result is at its first rank.
async fn reduced<D: Dialect>(
    groups: &Intercommunicator,
    from: &Area,
    reducing: &Reducing<D>,
) -> Result<Vec<u8>, Error> {
    let local = groups.local().group().with_elements(reducing.element());
    let mut data = from.data().into_owned();
    coll::reduce(&local, None, &mut data, 0, reducing.as_reduction()).await?;
    Ok(data)
}

/// [`reduced`], then the first ranks of both groups exchange their results.
async fn swap<D: Dialect>(
    groups: &Intercommunicator,
    by: GroupExchange<'_>,
    from: &Area,
    reducing: &Reducing<D>,
) -> Result<Vec<u8>, Error> {
    let mut data = reduced(groups, from, reducing).await?;
    if groups.local().rank() == 0 {
        let ours = data.clone();
        by.run([(0, &ours[..])], [(0, &mut data[..])]).await?;
    }
    Ok(data)
}

/// The data for the next step, or zeros and the error if there are none.
fn given(data: Result<Vec<u8>, Error>, length: usize) -> (Vec<u8>, Option<Error>) {
    match data {
        Ok(data) => (data, None),
        Err(error) => (vec![0; length], Some(error)),
    }
}

/// Runs a second step. A rank that failed in the first abandons it, so that the others detect that.
async fn told<E: Into<Error>>(
    failed: Option<Error>,
    step: impl Future<Output = Result<(), E>>,
) -> Result<(), Error> {
    match failed {
        None => step.await.map_err(Into::into),
        Some(error) => {
            drop(step);
            Err(error)
        }
    }
}
