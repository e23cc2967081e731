//! A message to and fro between the first rank and the last.

use super::{ProgramError, check, start};
use crate::job::Rank;

/// Rank 0 sends, the last rank answers; the other ranks do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingPong {
    /// Bytes of each message.
    pub bytes: u64,
    /// Round trips.
    pub rounds: u32,
}

impl PingPong {
    /// One rank's part. In a job of one rank it ends at once.
    ///
    /// # Errors
    /// A call failed, or a message came back changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        let (me, last) = (rank.rank(), rank.size() - 1);
        if last == 0 || (me != 0 && me != last) {
            return Ok(());
        }
        let peer = if me == 0 { last } else { 0 };
        for number in 0..self.rounds {
            let _round = rank.enter("round trip");
            if me == 0 {
                start(&rank, peer, 0, (self.bytes, number))?.await;
            }
            let message = rank.recv(Some(peer), Some(0)).await;
            check(&rank, &message, self.bytes, number)?;
            if me == last {
                start(&rank, peer, 0, (self.bytes, number))?.await;
            }
        }
        Ok(())
    }
}
