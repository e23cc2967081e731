//! What all ranks do together: barrier, broadcast, allreduce, gather.
//!
//! Every rank of the communicator calls the same ones in the same order (MPI 5.0 §6.12).

use std::mem::size_of;

use hikyaku_coll::{self as coll, Reduction};
use hikyaku_msg::{MsgError, block_on};
use hikyaku_nic::fabric::Activity;

use crate::error::Error;
use crate::node::WIDEST;
use crate::scalar::{Number, Op, Scalar, combine_bytes};
use crate::world::World;

impl World {
    /// Waits until every rank has come here (MPI_Barrier, MPI 5.0 §6.3).
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<(), Error> {
        if let Some(done) = self.on_node(|node| node.barrier()) {
            return done;
        }
        Ok(self.together(coll::barrier(&self.endpoint(), None))?)
    }

    /// Gives every rank the data of `root` (MPI_Bcast, MPI 5.0 §6.4). Equal lengths everywhere.
    ///
    /// # Errors
    /// The root does not exist, a rank is gone, or lengths differ.
    pub fn broadcast<T: Scalar>(&self, data: &mut [T], root: u32) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice_mut(data);
        if root < self.size()
            && let Some(done) = self.on_node(|node| node.broadcast(bytes, root))
        {
            return done;
        }
        Ok(self.together(coll::broadcast(&self.endpoint(), None, bytes, root))?)
    }

    /// Combines the ranks' data element by element, in place at every rank (MPI_Allreduce,
    /// MPI 5.0 §6.9.6). Every rank gets the same bits, and gets them again in every run with the
    /// same number of ranks.
    ///
    /// # Errors
    /// A rank is gone, or lengths differ.
    pub fn allreduce<T: Number>(&self, data: &mut [T], op: Op) -> Result<(), Error> {
        let combine = combine_bytes::<T>(op);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        if size_of::<T>() <= WIDEST
            && let Some(done) = self.on_node(|node| node.allreduce(bytes, size_of::<T>(), combine))
        {
            return done;
        }
        let reduction = Reduction::commutative(size_of::<T>(), combine);
        Ok(self.together(coll::allreduce(&self.endpoint(), None, bytes, reduction))?)
    }

    /// Brings equal blocks of all ranks to all of them, in rank order: `all` has room for as many
    /// (MPI_Allgather, MPI 5.0 §6.7).
    ///
    /// # Errors
    /// A rank is gone, or lengths differ.
    pub fn allgather<T: Scalar>(&self, mine: &[T], all: &mut [T]) -> Result<(), Error> {
        let (given, needed) = (all.len(), mine.len() * self.size() as usize);
        if given != needed {
            let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
            let (given, needed) = (bytes(given), bytes(needed));
            return Err(MsgError::InvalidLength { given, needed }.into());
        }
        let bytes = bytemuck::cast_slice_mut(all);
        let near = self.on_node(|node| node.allgather(bytemuck::cast_slice(mine), bytes));
        if let Some(done) = near.flatten() {
            return done;
        }
        let own = self.rank() as usize * size_of_val(mine);
        bytes[own..][..size_of_val(mine)].copy_from_slice(bytemuck::cast_slice(mine));
        Ok(self.together(coll::allgather(&self.endpoint(), None, bytes))?)
    }

    /// Brings equal blocks of all ranks to `root`, in rank order (MPI_Gather, MPI 5.0 §6.5).
    /// `Some` at the root.
    ///
    /// # Errors
    /// The root does not exist, a rank is gone, or lengths differ.
    pub fn gather<T: Scalar>(&self, mine: &[T], root: u32) -> Result<Option<Vec<T>>, Error> {
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

    /// Brings blocks of any lengths to `root`, in rank order (MPI_Gatherv). `Some` at the root.
    ///
    /// # Errors
    /// The root does not exist or a rank is gone.
    pub fn gatherv<T: Scalar>(&self, mine: &[T], root: u32) -> Result<Option<Vec<Vec<T>>>, Error> {
        let (rank, size) = (self.rank(), self.size());
        let mut counts = vec![0u64; if rank == root { size as usize } else { 0 }];
        let count = [mine.len() as u64];
        let endpoint = self.endpoint();
        self.together(coll::gather(
            &endpoint,
            None,
            Some(bytemuck::cast_slice(&count)),
            bytemuck::cast_slice_mut(&mut counts),
            root,
        ))?;
        let mut blocks: Vec<Vec<T>> =
            counts.iter().map(|count| vec![T::zeroed(); *count as usize]).collect();
        let places = blocks.iter_mut().map(|block| bytemuck::cast_slice_mut(block)).collect();
        let bytes = bytemuck::cast_slice(mine);
        self.together(coll::gatherv(&endpoint, None, Some(bytes), places, root))?;
        Ok((rank == root).then_some(blocks))
    }

    fn together<F: Future>(&self, operation: F) -> F::Output {
        block_on(self.engine(), Activity::Collective, operation)
    }
}
