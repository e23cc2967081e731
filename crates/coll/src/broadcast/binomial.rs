//! Broadcast by a binomial tree.

use std::future::Future;

use hikyaku_nic::fabric::{Port, Rank};

use crate::check_length;
use hikyaku_msg::Endpoint;
use hikyaku_msg::MsgError;

/// Copies `data` of rank `root` to `data` of every other, which has the same length (MPI 5.0
/// §6.4).
///
/// Cost: log2(n) messages of m bytes on the longest path, n - 1 in all.
///
/// # Errors
/// [`MsgError`] of the messages it consists of: a rank is gone, `root` does not exist, or the root
/// has another number of bytes.
pub fn broadcast<'e, 'b, P: Port>(
    endpoint: &Endpoint<'e, P>,
    data: &'b mut [u8],
    root: Rank,
) -> impl Future<Output = Result<(), MsgError>> + use<'e, 'b, P> {
    let (endpoint, tag) = (*endpoint, endpoint.next_tag());
    async move {
        let size = endpoint.size();
        if root >= size {
            return Err(MsgError::NoSuchRank { rank: root, size });
        }
        // Ranks as seen from the root.
        let place = (endpoint.rank() + (size - root)) % size;
        let rank_at = |place: u64| ((place + u64::from(root)) % u64::from(size)) as Rank;
        let mut reach = 1;
        while reach < u64::from(size) && u64::from(place) & reach == 0 {
            reach <<= 1;
        }
        if place != 0 {
            let parent = rank_at(u64::from(place) - reach);
            let received = endpoint.recv(data, Some(parent), Some(tag)).await?;
            check_length(data.len(), received.bytes as usize)?;
        }
        while reach > 1 {
            reach >>= 1;
            let child = u64::from(place) + reach;
            if child < u64::from(size) {
                endpoint.send(data, rank_at(child), tag).await?;
            }
        }
        Ok(())
    }
}
