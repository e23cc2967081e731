//! The operations on typed slices: each once, for all three forms of a call.
//!
//! Each takes its place among the operations of its communicator when it is first polled. The code
//! that starts one polls it at once.

use hikyaku_coll::{
    self as coll, Choices, CommunicatorGroup, Element, Group, Operand, begin_reduce_scatter,
};
use hikyaku_msg::{Layout, MsgError};
use hikyaku_rank::{Error, RankPort};

use crate::reducer::{Reducer, on_bytes};
use crate::scalar::Scalar;

/// The ranks of a communicator and the choices for their collectives.
#[derive(Debug)]
pub(crate) struct CollectiveRanks<'w> {
    pub(crate) group: CommunicatorGroup<'w, RankPort>,
    pub(crate) choices: Choices,
}

impl<'w> CollectiveRanks<'w> {
    /// The same for blocking calls.
    #[inline]
    pub(super) fn waiting(self) -> CollectiveRanks<'w> {
        CollectiveRanks { group: self.group.waiting(), ..self }
    }

    /// The group, for a call on elements of this type.
    #[inline]
    pub(super) fn of<T: Scalar>(&self) -> CommunicatorGroup<'w, RankPort> {
        self.group.with_elements(Element::of::<T>())
    }

    /// The chosen algorithms, except those that cannot do this reduction.
    pub(super) fn reducing<T: Scalar>(&self, op: &impl Reducer<T>) -> Choices {
        if op.is_commutative() { self.choices } else { self.choices.for_ordered() }
    }

    pub(super) async fn barrier(&self) -> Result<(), Error> {
        Ok(coll::barrier(&self.group, self.choices.barrier).await?)
    }

    pub(super) async fn broadcast<T: Scalar>(
        &self,
        data: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice_mut(data);
        Ok(coll::broadcast(&self.of::<T>(), self.choices.broadcast, bytes, root).await?)
    }

    pub(super) async fn reduce<T: Scalar>(
        &self,
        data: &mut [T],
        op: &impl Reducer<T>,
        root: u32,
    ) -> Result<(), Error> {
        let (by, bytes) = (self.choices.reduce, bytemuck::cast_slice_mut(data));
        Ok(coll::reduce(&self.of::<T>(), by, bytes, root, on_bytes(op)).await?)
    }

    pub(super) async fn allreduce<T: Scalar>(
        &self,
        data: &mut [T],
        op: &impl Reducer<T>,
    ) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice_mut(data);
        Ok(coll::allreduce(&self.of::<T>(), self.reducing(op).allreduce, bytes, on_bytes(op))
            .await?)
    }

    pub(super) async fn gather<T: Scalar>(
        &self,
        mine: &[T],
        into: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let (mine, into) = (bytemuck::cast_slice(mine), bytemuck::cast_slice_mut(into));
        Ok(coll::gather(&self.of::<T>(), self.choices.gather, Some(mine), into, root).await?)
    }

    pub(super) async fn gatherv<T: Scalar>(
        &self,
        mine: &[T],
        blocks: Vec<&mut [T]>,
        root: u32,
    ) -> Result<(), Error> {
        let by = self.choices.for_unequal_parts().gather;
        let mine = Some(bytemuck::cast_slice(mine));
        Ok(coll::gatherv(&self.of::<T>(), by, mine, as_bytes_mut(blocks), root).await?)
    }

    /// Gathers blocks whose lengths only their own ranks know.
    pub(super) async fn gather_any<T: Scalar>(
        &self,
        mine: &[T],
        root: u32,
    ) -> Result<Option<Vec<Vec<T>>>, Error> {
        let (rank, size) = (self.group.rank(), self.group.size());
        let mut counts = vec![0u64; if rank == root { size as usize } else { 0 }];
        // A call of the library itself, by the default algorithm: the choice is for the program's
        // call.
        let counting = CollectiveRanks { group: self.group, choices: Choices::default() };
        let counted = counting.gather(&[mine.len() as u64], &mut counts, root).await;
        let room = counted.and_then(|()| rooms(&counts));
        // After an error the other ranks may not know of it and make the second call. A rank that
        // skipped it would be out of step with them from then on.
        let (mut blocks, failed) = match room {
            Ok(blocks) => (blocks, None),
            Err(error) => (counts.iter().map(|_| Vec::new()).collect(), Some(error)),
        };
        let gathered =
            self.gatherv(mine, blocks.iter_mut().map(Vec::as_mut_slice).collect(), root).await;
        failed.map_or(Ok(()), Err)?;
        gathered?;
        Ok((rank == root).then_some(blocks))
    }

    pub(super) async fn scatter<T: Scalar>(
        &self,
        all: &[T],
        into: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let (all, into) = (bytemuck::cast_slice(all), bytemuck::cast_slice_mut(into));
        Ok(coll::scatter(&self.of::<T>(), self.choices.scatter, all, Some(into), root).await?)
    }

    pub(super) async fn scatterv<T: Scalar>(
        &self,
        parts: &[&[T]],
        into: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let by = self.choices.for_unequal_parts().scatter;
        let into = bytemuck::cast_slice_mut(into);
        Ok(coll::scatterv(&self.of::<T>(), by, &as_bytes(parts), Some(into), root).await?)
    }

    /// `mine` is `None` if the block is in its place already.
    pub(super) async fn allgather<T: Scalar>(
        &self,
        mine: Option<&[T]>,
        all: &mut [T],
    ) -> Result<(), Error> {
        let (mine, bytes) = (mine.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(all));
        Ok(coll::allgather(&self.of::<T>(), self.choices.allgather, mine, bytes).await?)
    }

    pub(super) async fn allgatherv<T: Scalar>(
        &self,
        mine: &[T],
        all: &mut [T],
        counts: &[usize],
    ) -> Result<(), Error> {
        let (by, mine) =
            (self.choices.for_unequal_parts().allgather, Some(bytemuck::cast_slice(mine)));
        let (bytes, lengths) = (bytemuck::cast_slice_mut(all), lengths::<T>(counts));
        Ok(coll::begin_allgatherv(&self.of::<T>(), by, mine, bytes, lengths).end().await?)
    }

    pub(super) async fn alltoall<T: Scalar>(
        &self,
        data: &[T],
        into: &mut [T],
    ) -> Result<(), Error> {
        let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
        Ok(coll::alltoall(&self.of::<T>(), self.choices.alltoall, data, into).await?)
    }

    pub(super) async fn alltoall_in_place<T: Scalar>(&self, data: &mut [T]) -> Result<(), Error> {
        Ok(coll::alltoall_in_place(&self.of::<T>(), bytemuck::cast_slice_mut(data)).await?)
    }

    pub(super) async fn alltoallv<T: Scalar>(
        &self,
        parts: &[&[T]],
        into: Vec<&mut [T]>,
    ) -> Result<(), Error> {
        let by = self.choices.for_unequal_parts().alltoall;
        let into = as_bytes_mut(into);
        Ok(coll::alltoallv(&self.of::<T>(), by, &as_bytes(parts), into).await?)
    }

    /// Layouts are in bytes.
    pub(super) async fn alltoallw<T: Scalar>(
        &self,
        data: &[T],
        parts: &[Layout],
        into: &mut [T],
        places: &[Layout],
    ) -> Result<(), Error> {
        let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
        let by = self.choices.alltoallw;
        Ok(coll::alltoallw(&self.of::<T>(), by, data, parts, into, places).await?)
    }

    /// Layouts are in bytes.
    pub(super) async fn alltoallw_in_place<T: Scalar>(
        &self,
        data: &mut [T],
        layouts: &[Layout],
    ) -> Result<(), Error> {
        let data = bytemuck::cast_slice_mut(data);
        Ok(coll::alltoallw_in_place(&self.of::<T>(), data, layouts).await?)
    }

    pub(super) async fn reduce_scatter<T: Scalar>(
        &self,
        data: &mut [T],
        into: &mut [T],
        counts: &[usize],
        op: &impl Reducer<T>,
    ) -> Result<(), Error> {
        let (by, lengths) = (self.reducing(op).reduce_scatter, lengths::<T>(counts));
        let data = Operand::Own(bytemuck::cast_slice_mut(data));
        let (group, into) = (self.of::<T>(), bytemuck::cast_slice_mut(into));
        Ok(begin_reduce_scatter(&group, by, data, lengths, into, on_bytes(op)).end().await?)
    }

    pub(super) async fn reduce_scatter_block<T: Scalar>(
        &self,
        data: &mut [T],
        into: &mut [T],
        op: &impl Reducer<T>,
    ) -> Result<(), Error> {
        let by = self.reducing(op).reduce_scatter;
        let (data, into) = (bytemuck::cast_slice_mut(data), bytemuck::cast_slice_mut(into));
        Ok(coll::reduce_scatter_block(&self.of::<T>(), by, data, into, on_bytes(op)).await?)
    }

    pub(super) async fn scan<T: Scalar>(
        &self,
        data: &mut [T],
        op: &impl Reducer<T>,
    ) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice_mut(data);
        Ok(coll::scan(&self.of::<T>(), self.choices.scan, bytes, on_bytes(op)).await?)
    }

    pub(super) async fn exscan<T: Scalar>(
        &self,
        data: &mut [T],
        op: &impl Reducer<T>,
    ) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice_mut(data);
        Ok(coll::exscan(&self.of::<T>(), self.choices.exscan, bytes, on_bytes(op)).await?)
    }
}

/// Layouts in bytes of layouts in elements.
pub(super) fn in_bytes<T>(layouts: &[Layout]) -> Vec<Layout> {
    layouts.iter().map(|layout| layout.scaled(size_of::<T>())).collect()
}

/// Lengths in bytes of counts of elements.
pub(super) fn lengths<T>(counts: &[usize]) -> impl ExactSizeIterator<Item = usize> {
    counts.iter().map(|count| count * size_of::<T>())
}

fn as_bytes<'p, T: Scalar>(parts: &[&'p [T]]) -> Vec<&'p [u8]> {
    parts.iter().map(|part| bytemuck::cast_slice(part)).collect()
}

fn as_bytes_mut<T: Scalar>(blocks: Vec<&mut [T]>) -> Vec<&mut [u8]> {
    blocks.into_iter().map(|block| bytemuck::cast_slice_mut(block)).collect()
}

/// Buffers for as many elements as each rank has reported. A number too large for memory was
/// overwritten in transit.
fn rooms<T: Scalar>(counts: &[u64]) -> Result<Vec<Vec<T>>, Error> {
    let room = |(source_rank, count): (u32, &u64)| {
        let count = usize::try_from(*count).ok();
        let fits = count.filter(|count| Vec::<T>::new().try_reserve_exact(*count).is_ok());
        let malformed = MsgError::Malformed { source_rank };
        Ok(vec![T::zeroed(); fits.ok_or(malformed)?])
    };
    (0..).zip(counts).map(room).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_more_than_there_is_names_the_rank() {
        assert_eq!(rooms::<u64>(&[2, 0]), Ok(vec![vec![0; 2], Vec::new()]));
        for count in [u64::MAX, 1 << 61, 1 << 60] {
            let malformed = MsgError::Malformed { source_rank: 1 };
            assert_eq!(rooms::<u64>(&[2, count, 1]), Err(malformed.into()));
        }
    }
}
