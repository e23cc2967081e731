//! What all ranks do together: barrier, broadcast, allreduce, gather.
//!
//! Every rank of the communicator calls the same ones in the same order (MPI 5.0 §6.12).

use std::mem::size_of;

use hikyaku_coll as collective;
use hikyaku_msg::block_on;
use hikyaku_nic::fabric::Activity;

use crate::error::Error;
use crate::scalar::{Number, Op, Scalar, combine_bytes};
use crate::world::World;

impl World {
    /// Waits until every rank has come here (MPI_Barrier, MPI 5.0 §6.3).
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<(), Error> {
        Ok(self.together(collective::barrier(&self.endpoint()))?)
    }

    /// Gives every rank the data of `root` (MPI_Bcast, MPI 5.0 §6.4). Equal lengths everywhere.
    ///
    /// # Errors
    /// The root does not exist, a rank is gone, or lengths differ.
    pub fn broadcast<T: Scalar>(&self, data: &mut [T], root: u32) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice_mut(data);
        Ok(self.together(collective::broadcast(&self.endpoint(), bytes, root))?)
    }

    /// Combines the ranks' data element by element, in place at every rank (MPI_Allreduce,
    /// MPI 5.0 §6.9.6). Every rank gets the same bits, and gets them again in every run with the
    /// same number of ranks.
    ///
    /// # Errors
    /// A rank is gone, or lengths differ.
    pub fn allreduce<T: Number>(&self, data: &mut [T], op: Op) -> Result<(), Error> {
        let combine = combine_bytes::<T>(op);
        let combine = |left: &[u8], right: &mut [u8]| combine(right, left);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        // A convergence test reduces one number: no allocation for that.
        let (mut small, mut large) = ([0; 64], Vec::new());
        let scratch = match bytes.len() {
            length @ 0..=64 => &mut small[..length],
            length => {
                large.resize(length, 0);
                &mut large[..]
            }
        };
        Ok(self.together(collective::allreduce(&self.endpoint(), bytes, scratch, combine))?)
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
        self.together(collective::gather(
            &endpoint,
            bytemuck::cast_slice(&count),
            bytemuck::cast_slice_mut(&mut counts),
            root,
        ))?;
        let mut blocks: Vec<Vec<T>> =
            counts.iter().map(|count| vec![T::zeroed(); *count as usize]).collect();
        let places = blocks.iter_mut().map(|block| bytemuck::cast_slice_mut(block)).collect();
        let bytes = bytemuck::cast_slice(mine);
        self.together(collective::gather_blocks(&endpoint, bytes, places, root))?;
        Ok((rank == root).then_some(blocks))
    }

    fn together<F: Future>(&self, operation: F) -> F::Output {
        block_on(self.engine(), Activity::Collective, operation)
    }
}
