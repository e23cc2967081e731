//! Collectives that return when this rank's part is done.

use std::mem::size_of;

use hikyaku_coll::{
    Begun, CollError, Operand, Part, Place, begin_allgather, begin_allgatherv, begin_allreduce,
    begin_alltoall, begin_alltoallv, begin_barrier, begin_broadcast, begin_exscan, begin_gather,
    begin_reduce, begin_reduce_scatter, begin_reduce_scatter_block, begin_scan, begin_scatter,
};
use hikyaku_msg::{Layout, MsgError};

use super::CollectiveRanks;
use super::operations::{in_bytes, lengths};
use crate::error::Error;
use crate::reducer::{Reducer, on_bytes};
use crate::scalar::Scalar;
use crate::world::World;

impl World {
    /// Waits until every rank has called it (MPI_Barrier, MPI 5.0 §6.3).
    ///
    /// # Errors
    /// A rank is gone or abandoned the call.
    pub fn barrier(&self) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        self.end(begin_barrier(&ranks.group, ranks.choices.barrier))
    }

    /// Gives every rank the data of `root` (MPI_Bcast, MPI 5.0 §6.4). Equal lengths everywhere.
    ///
    /// # Errors
    /// The root does not exist, a rank is gone or abandoned the call, or lengths differ.
    pub fn broadcast<T: Scalar>(&self, data: &mut [T], root: u32) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let bytes = bytemuck::cast_slice_mut(data);
        self.end(begin_broadcast(&ranks.of::<T>(), ranks.choices.broadcast, bytes, root))
    }

    /// Combines the ranks' data element by element, in place at `root` (MPI_Reduce, MPI 5.0
    /// §6.9.1). The `data` of other ranks is unspecified afterwards.
    ///
    /// # Errors
    /// As [`World::broadcast`].
    pub fn reduce<T: Scalar>(
        &self,
        data: &mut [T],
        op: impl Reducer<T>,
        root: u32,
    ) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (by, data) = (ranks.choices.reduce, Operand::Own(bytemuck::cast_slice_mut(data)));
        self.end(begin_reduce(&ranks.of::<T>(), by, data, root, on_bytes(&op)))
    }

    /// Combines the ranks' data element by element, in place at every rank (MPI_Allreduce,
    /// MPI 5.0 §6.9.6). Every rank gets the same bits, and the same in every form of the call and
    /// in every run with as many ranks on each node.
    ///
    /// Floating-point numbers are added in the order of the algorithm, which depends on the ranks
    /// of each node. `--coll allreduce=recursive-doubling` adds in one order on any nodes.
    ///
    /// # Errors
    /// A rank is gone or abandoned the call, or lengths differ.
    pub fn allreduce<T: Scalar>(&self, data: &mut [T], op: impl Reducer<T>) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let data = Operand::Own(bytemuck::cast_slice_mut(data));
        let by = ranks.reducing(&op).allreduce;
        self.end(begin_allreduce(&ranks.of::<T>(), by, data, on_bytes(&op)))
    }

    /// Brings equal blocks of all ranks to `root`, in rank order (MPI_Gather, MPI 5.0 §6.5).
    /// `Some` at the root.
    ///
    /// # Errors
    /// The root does not exist, a rank is gone or abandoned the call, or lengths differ.
    pub fn gather<T: Scalar>(&self, mine: &[T], root: u32) -> Result<Option<Vec<T>>, Error> {
        if self.communicator().choices().gather.is_some() {
            // The chosen algorithm may need equal parts.
            let is_root = self.rank() == root;
            let parts = if is_root { self.size() as usize } else { 0 };
            let mut all = vec![T::zeroed(); parts * mine.len()];
            self.gather_into(mine, &mut all, root)?;
            return Ok(is_root.then_some(all));
        }
        let blocks = self.gatherv(mine, root)?;
        let Some(blocks) = blocks else { return Ok(None) };
        if let Some(rank) = blocks.iter().position(|block| block.len() != mine.len()) {
            let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
            return Err(Error::UnequalBlocks {
                rank: rank as u32,
                given: bytes(blocks[rank].len()),
                root,
                expected: bytes(mine.len()),
            });
        }
        Ok(Some(blocks.concat()))
    }

    /// Brings blocks of any lengths to `root`, in rank order (MPI_Gatherv). `Some` at the root,
    /// which need not know the lengths: they are gathered first.
    ///
    /// # Errors
    /// The root does not exist, or a rank is gone or abandoned the call.
    pub fn gatherv<T: Scalar>(&self, mine: &[T], root: u32) -> Result<Option<Vec<Vec<T>>>, Error> {
        self.together(async |ranks| ranks.gather_any(mine, root).await)
    }

    /// [`World::gather`] into a buffer of the caller: `into` of the root has room for a block of
    /// each rank. Other ranks ignore it.
    ///
    /// # Errors
    /// As [`World::gather`].
    pub fn gather_into<T: Scalar>(
        &self,
        mine: &[T],
        into: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (mine, into) = (bytemuck::cast_slice(mine), bytemuck::cast_slice_mut(into));
        self.end(begin_gather(&ranks.of::<T>(), ranks.choices.gather, Some(mine), into, root))
    }

    /// [`World::gatherv`] into buffers of the caller: `blocks` of the root are as long as the
    /// ranks' data. Other ranks ignore them.
    ///
    /// # Errors
    /// As [`World::gather`].
    pub fn gatherv_into<T: Scalar>(
        &self,
        mine: &[T],
        blocks: Vec<&mut [T]>,
        root: u32,
    ) -> Result<(), Error> {
        self.together(async |ranks| ranks.gatherv(mine, blocks, root).await)
    }

    /// Gives each rank its block of `all` of `root` (MPI_Scatter, MPI 5.0 §6.6). Blocks have the
    /// length of `into`. Other ranks ignore `all`.
    ///
    /// # Errors
    /// As [`World::gather`].
    pub fn scatter<T: Scalar>(&self, all: &[T], into: &mut [T], root: u32) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (all, into) = (bytemuck::cast_slice(all), bytemuck::cast_slice_mut(into));
        self.end(begin_scatter(&ranks.of::<T>(), ranks.choices.scatter, all, Some(into), root))
    }

    /// The same with blocks of any lengths (MPI_Scatterv): `parts` of the root has one for each
    /// rank, as long as its `into`.
    ///
    /// # Errors
    /// As [`World::gather`].
    pub fn scatterv<T: Scalar>(
        &self,
        parts: &[&[T]],
        into: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.together(async |ranks| ranks.scatterv(parts, into, root).await)
    }

    /// Brings equal blocks of all ranks to all, in rank order (MPI_Allgather, MPI 5.0 §6.7).
    ///
    /// # Errors
    /// A rank is gone or abandoned the call, or lengths differ.
    pub fn allgather<T: Scalar>(&self, mine: &[T], all: &mut [T]) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (mine, bytes) = (bytemuck::cast_slice(mine), bytemuck::cast_slice_mut(all));
        self.end(begin_allgather(&ranks.of::<T>(), ranks.choices.allgather, Some(mine), bytes))
    }

    /// [`World::allgather`] of a block that is already in its place in `all` (MPI_IN_PLACE).
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn allgather_in_place<T: Scalar>(&self, all: &mut [T]) -> Result<(), Error> {
        self.together(async |ranks| ranks.allgather(None, all).await)
    }

    /// [`World::allgather`] with blocks of any lengths: `counts[r]` elements of rank `r`, the same
    /// list at all ranks (MPI_Allgatherv).
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn allgatherv<T: Scalar>(
        &self,
        mine: &[T],
        all: &mut [T],
        counts: &[usize],
    ) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (mine, bytes) = (Some(bytemuck::cast_slice(mine)), bytemuck::cast_slice_mut(all));
        let (by, lengths) = (ranks.choices.for_unequal_parts().allgather, lengths::<T>(counts));
        self.end(begin_allgatherv(&ranks.of::<T>(), by, mine, bytes, lengths))
    }

    /// Gives block `s` of every rank's `data` to rank `s`, which gets them in rank order
    /// (MPI_Alltoall, MPI 5.0 §6.8). All blocks are of one length.
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn alltoall<T: Scalar>(&self, data: &[T], into: &mut [T]) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
        self.end(begin_alltoall(&ranks.of::<T>(), ranks.choices.alltoall, data, into))
    }

    /// [`World::alltoall`] within one buffer: received blocks replace those sent (MPI_IN_PLACE).
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn alltoall_in_place<T: Scalar>(&self, data: &mut [T]) -> Result<(), Error> {
        self.together(async |ranks| ranks.alltoall_in_place(data).await)
    }

    /// [`World::alltoall`] with blocks of any lengths (MPI_Alltoallv): the block of rank `r` for
    /// rank `s` is as long as the buffer that `s` has for it.
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn alltoallv<'a, T: Scalar>(
        &self,
        parts: &[&'a [T]],
        into: Vec<&'a mut [T]>,
    ) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let by = ranks.choices.for_unequal_parts().alltoall;
        let part = |part: &&'a [T]| Part::Whole(bytemuck::cast_slice(part));
        let place = |place: &'a mut [T]| Place::Whole(bytemuck::cast_slice_mut(place));
        let parts: Vec<Part<'_, u8>> = parts.iter().map(part).collect();
        let into: Vec<Place<'_, u8>> = into.into_iter().map(place).collect();
        self.end(begin_alltoallv(&ranks.of::<T>(), by, parts, into))
    }

    /// [`World::alltoall`] with parts at any places (MPI_Alltoallw): rank `s` gets the elements
    /// that `parts[s]` selects in the `data` of rank `r`, at the elements that its own `places[r]`
    /// selects in `into`, which are as many. Layouts of `into` must not overlap, or the result is
    /// unspecified.
    ///
    /// Elements have one type; for several, exchange bytes (`bytemuck::cast_slice`), which layouts
    /// then count.
    ///
    /// # Errors
    /// As [`World::allgather`]; or the number of layouts is not the number of ranks, or one reaches
    /// outside.
    pub fn alltoallw<T: Scalar>(
        &self,
        data: &[T],
        parts: &[Layout],
        into: &mut [T],
        places: &[Layout],
    ) -> Result<(), Error> {
        let (parts, places) = (in_bytes::<T>(parts), in_bytes::<T>(places));
        self.together(async |ranks| ranks.alltoallw(data, &parts, into, &places).await)
    }

    /// [`World::alltoallw`] within one buffer: received elements replace those sent (MPI_IN_PLACE).
    /// Rank `r` has as many for rank `s` as `s` has for `r`.
    ///
    /// # Errors
    /// As [`World::alltoallw`].
    pub fn alltoallw_in_place<T: Scalar>(
        &self,
        data: &mut [T],
        layouts: &[Layout],
    ) -> Result<(), Error> {
        let layouts = in_bytes::<T>(layouts);
        self.together(async |ranks| ranks.alltoallw_in_place(data, &layouts).await)
    }

    /// Combines the ranks' `data`, of which `counts[r]` elements are for rank `r`; `into` is this
    /// rank's part of the result (MPI_Reduce_scatter, MPI 5.0 §6.10). All ranks give the same
    /// `counts`. Afterwards `data` is unspecified.
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn reduce_scatter<T: Scalar>(
        &self,
        data: &mut [T],
        into: &mut [T],
        counts: &[usize],
        op: impl Reducer<T>,
    ) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (by, lengths) = (ranks.reducing(&op).reduce_scatter, lengths::<T>(counts));
        let data = Operand::Own(bytemuck::cast_slice_mut(data));
        let (group, into) = (ranks.of::<T>(), bytemuck::cast_slice_mut(into));
        self.end(begin_reduce_scatter(&group, by, data, lengths, into, on_bytes(&op)))
    }

    /// [`World::reduce_scatter`] with equally many elements for each rank
    /// (MPI_Reduce_scatter_block).
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn reduce_scatter_block<T: Scalar>(
        &self,
        data: &mut [T],
        into: &mut [T],
        op: impl Reducer<T>,
    ) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let (by, data) = (ranks.reducing(&op).reduce_scatter, bytemuck::cast_slice_mut(data));
        let (group, into) = (ranks.of::<T>(), bytemuck::cast_slice_mut(into));
        let data = Operand::Own(data);
        self.end(begin_reduce_scatter_block(&group, by, data, into, on_bytes(&op)))
    }

    /// Combines the data of ranks 0 to this one, in place (MPI_Scan, MPI 5.0 §6.11.1).
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn scan<T: Scalar>(&self, data: &mut [T], op: impl Reducer<T>) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let bytes = bytemuck::cast_slice_mut(data);
        self.end(begin_scan(&ranks.of::<T>(), ranks.choices.scan, bytes, on_bytes(&op)))
    }

    /// Combines the data of all ranks before this one, in place; at rank 0 it stays unchanged
    /// (MPI_Exscan, MPI 5.0 §6.11.2).
    ///
    /// # Errors
    /// As [`World::allgather`].
    pub fn exscan<T: Scalar>(&self, data: &mut [T], op: impl Reducer<T>) -> Result<(), Error> {
        let ranks = self.ranks().waiting();
        let bytes = bytemuck::cast_slice_mut(data);
        self.end(begin_exscan(&ranks.of::<T>(), ranks.choices.exscan, bytes, on_bytes(&op)))
    }

    /// Ends a call, which is usually complete already.
    #[inline(always)]
    fn end<F: Future<Output = Result<(), CollError<MsgError>>>>(
        &self,
        begun: Begun<F::Output, F>,
    ) -> Result<(), Error> {
        let result = match begun {
            Begun::Done(result) => result,
            Begun::Waits(future) => self.wait_for_end(future),
        };
        self.communicator().drop_left_overs();
        Ok(result?)
    }

    #[inline(never)]
    fn wait_for_end<F: Future>(&self, future: F) -> F::Output {
        self.block_on(future)
    }

    fn together<R>(
        &self,
        operation: impl AsyncFnOnce(&CollectiveRanks<'_>) -> Result<R, hikyaku_rank::Error>,
    ) -> Result<R, Error> {
        let ranks = self.ranks().waiting();
        let result = self.block_on(operation(&ranks));
        self.communicator().drop_left_overs();
        Ok(result?)
    }
}
