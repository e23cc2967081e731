//! Each rank sends to the next and receives from the one before: nearest-neighbour traffic.

use super::{ProgramError, check, start};
use crate::job::Rank;

/// A ring of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Bytes of each message.
    pub bytes: u64,
    /// The number of rounds.
    pub steps: u32,
}

impl Ring {
    /// One rank's part.
    ///
    /// # Errors
    /// A call failed, or a message arrived changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        let (me, size) = (rank.rank(), rank.size());
        for number in 0..self.steps {
            let _step = rank.enter("step");
            let incoming = rank.irecv(Some((me + size - 1) % size), Some(0));
            let outgoing = start(&rank, (me + 1) % size, 0, (self.bytes, number))?;
            check(&rank, &incoming.await, self.bytes, number)?;
            outgoing.await;
        }
        Ok(())
    }
}
