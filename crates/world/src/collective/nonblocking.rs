//! Collectives within a scope: started, in flight, and waited for later (MPI 5.0 §6.12).
//!
//! They make progress during any call of this library, and complete in any order: ranks that wait
//! for one of them advance the others.

use std::pin::Pin;
use std::task::{Context, Poll};

use hikyaku_msg::Layout;
use hikyaku_rank::TaskId;

use super::operations::in_bytes;
use crate::error::Error;
use crate::reducer::Reducer;
use crate::scalar::Scalar;
use crate::scope::{Core, Scope};

/// A collective that was started and has not been waited for.
///
/// Dropping it does not undo it: the scope waits for it at its end. It cannot be cancelled (MPI 5.0
/// §3.8.4); if the scope fails, all ranks in the operation get an error.
///
/// It can also be awaited, within [`World::block_on`](crate::World::block_on). It makes progress
/// whether it is polled or not.
#[derive(Debug)]
#[must_use = "it ends when it is waited for, or with its scope"]
pub struct Collective<'scope> {
    scope: &'scope Core<'scope>,
    id: TaskId,
}

impl Collective<'_> {
    /// Waits until this rank's part is done.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn wait(self) -> Result<(), Error> {
        self.scope.end_collective(self.id, true).unwrap_or(Ok(()))
    }

    /// Its result if this rank's part is done, or the operation again.
    ///
    /// # Errors
    /// As [`Collective::wait`].
    pub fn test(self) -> Result<Result<(), Self>, Error> {
        match self.scope.end_collective(self.id, false) {
            None => {
                self.scope.world.found_nothing();
                Ok(Err(self))
            }
            Some(result) => result.map(Ok),
        }
    }
}

impl<'scope> IntoFuture for Collective<'scope> {
    type Output = Result<(), Error>;
    type IntoFuture = CollectiveFuture<'scope>;

    fn into_future(self) -> CollectiveFuture<'scope> {
        CollectiveFuture(self)
    }
}

/// The end of a collective that was started; as [`Collective::wait`]. Dropping it changes nothing.
#[derive(Debug)]
pub struct CollectiveFuture<'scope>(Collective<'scope>);

impl Future for CollectiveFuture<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Collective { scope, id } = self.0;
        match scope.end_collective(id, false) {
            Some(result) => Poll::Ready(result),
            None => {
                // Every poll makes it progress.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    fn collective(
        &'scope self,
        operation: impl Future<Output = Result<(), hikyaku_rank::Error>> + 'scope,
    ) -> Collective<'scope> {
        Collective { scope: &self.core, id: self.begin(operation) }
    }

    /// Starts [`World::barrier`](crate::World::barrier) (MPI_Ibarrier).
    pub fn ibarrier(&'scope self) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().barrier().await })
    }

    /// Starts [`World::broadcast`](crate::World::broadcast) (MPI_Ibcast).
    pub fn ibroadcast<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        root: u32,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().broadcast(data, root).await })
    }

    /// Starts [`World::reduce`](crate::World::reduce) (MPI_Ireduce).
    pub fn ireduce<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        op: impl Reducer<T> + 'scope,
        root: u32,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().reduce(data, &op, root).await })
    }

    /// Starts [`World::allreduce`](crate::World::allreduce) (MPI_Iallreduce).
    pub fn iallreduce<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        op: impl Reducer<T> + 'scope,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().allreduce(data, &op).await })
    }

    /// Starts [`World::gather_into`](crate::World::gather_into) (MPI_Igather).
    pub fn igather_into<T: Scalar>(
        &'scope self,
        mine: &'scope [T],
        into: &'scope mut [T],
        root: u32,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().gather(mine, into, root).await })
    }

    /// Starts [`World::gatherv_into`](crate::World::gatherv_into) (MPI_Igatherv).
    pub fn igatherv_into<T: Scalar>(
        &'scope self,
        mine: &'scope [T],
        blocks: Vec<&'scope mut [T]>,
        root: u32,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().gatherv(mine, blocks, root).await })
    }

    /// Starts [`World::scatter`](crate::World::scatter) (MPI_Iscatter).
    pub fn iscatter<T: Scalar>(
        &'scope self,
        all: &'scope [T],
        into: &'scope mut [T],
        root: u32,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().scatter(all, into, root).await })
    }

    /// Starts [`World::scatterv`](crate::World::scatterv) (MPI_Iscatterv).
    pub fn iscatterv<T: Scalar>(
        &'scope self,
        parts: Vec<&'scope [T]>,
        into: &'scope mut [T],
        root: u32,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().scatterv(&parts, into, root).await })
    }

    /// Starts [`World::allgather`](crate::World::allgather) (MPI_Iallgather).
    pub fn iallgather<T: Scalar>(
        &'scope self,
        mine: &'scope [T],
        all: &'scope mut [T],
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().allgather(Some(mine), all).await })
    }

    /// Starts [`World::allgather_in_place`](crate::World::allgather_in_place)
    /// (MPI_Iallgather with MPI_IN_PLACE).
    pub fn iallgather_in_place<T: Scalar>(
        &'scope self,
        all: &'scope mut [T],
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().allgather(None, all).await })
    }

    /// Starts [`World::allgatherv`](crate::World::allgatherv) (MPI_Iallgatherv).
    pub fn iallgatherv<T: Scalar>(
        &'scope self,
        mine: &'scope [T],
        all: &'scope mut [T],
        counts: Vec<usize>,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().allgatherv(mine, all, &counts).await })
    }

    /// Starts [`World::alltoall`](crate::World::alltoall) (MPI_Ialltoall).
    pub fn ialltoall<T: Scalar>(
        &'scope self,
        data: &'scope [T],
        into: &'scope mut [T],
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().alltoall(data, into).await })
    }

    /// Starts [`World::alltoall_in_place`](crate::World::alltoall_in_place)
    /// (MPI_Ialltoall with MPI_IN_PLACE).
    pub fn ialltoall_in_place<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().alltoall_in_place(data).await })
    }

    /// Starts [`World::alltoallv`](crate::World::alltoallv) (MPI_Ialltoallv).
    pub fn ialltoallv<T: Scalar>(
        &'scope self,
        parts: Vec<&'scope [T]>,
        into: Vec<&'scope mut [T]>,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().alltoallv(&parts, into).await })
    }

    /// Starts [`World::alltoallw`](crate::World::alltoallw) (MPI_Ialltoallw).
    pub fn ialltoallw<T: Scalar>(
        &'scope self,
        data: &'scope [T],
        parts: &[Layout],
        into: &'scope mut [T],
        places: &[Layout],
    ) -> Collective<'scope> {
        let world = self.world();
        let (parts, places) = (in_bytes::<T>(parts), in_bytes::<T>(places));
        self.collective(async move { world.ranks().alltoallw(data, &parts, into, &places).await })
    }

    /// Starts [`World::alltoallw_in_place`](crate::World::alltoallw_in_place)
    /// (MPI_Ialltoallw with MPI_IN_PLACE).
    pub fn ialltoallw_in_place<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        layouts: &[Layout],
    ) -> Collective<'scope> {
        let (world, layouts) = (self.world(), in_bytes::<T>(layouts));
        self.collective(async move { world.ranks().alltoallw_in_place(data, &layouts).await })
    }

    /// Starts [`World::reduce_scatter`](crate::World::reduce_scatter) (MPI_Ireduce_scatter).
    pub fn ireduce_scatter<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        into: &'scope mut [T],
        counts: Vec<usize>,
        op: impl Reducer<T> + 'scope,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().reduce_scatter(data, into, &counts, &op).await })
    }

    /// Starts [`World::reduce_scatter_block`](crate::World::reduce_scatter_block)
    /// (MPI_Ireduce_scatter_block).
    pub fn ireduce_scatter_block<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        into: &'scope mut [T],
        op: impl Reducer<T> + 'scope,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().reduce_scatter_block(data, into, &op).await })
    }

    /// Starts [`World::scan`](crate::World::scan) (MPI_Iscan).
    pub fn iscan<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        op: impl Reducer<T> + 'scope,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().scan(data, &op).await })
    }

    /// Starts [`World::exscan`](crate::World::exscan) (MPI_Iexscan).
    pub fn iexscan<T: Scalar>(
        &'scope self,
        data: &'scope mut [T],
        op: impl Reducer<T> + 'scope,
    ) -> Collective<'scope> {
        let world = self.world();
        self.collective(async move { world.ranks().exscan(data, &op).await })
    }
}
