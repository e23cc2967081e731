//! Allreduce by recursive doubling.
//!
//! Each round, pairs of ranks exchange what they have and both combine the two halves in the same
//! order, lower ranks left. So every rank computes the very same expression: results are bitwise
//! equal on all ranks and in every run with the same number of ranks, also where the operation is
//! not associative in its last bits, as floating-point addition is not. The order is that of the
//! ranks, so the operation need not be commutative.
//!
//! When the number of ranks is not a power of two, the first even ranks hand their data to their
//! odd neighbours, stand by, and get the result at the end.

use std::future::Future;

use hikyaku_nic::fabric::{Port, Rank};

use crate::check_length;
use hikyaku_msg::Endpoint;
use hikyaku_msg::MsgError;
use hikyaku_msg::join;

/// Combines `data` of all ranks; afterwards every rank's `data` is the result (MPI 5.0 §6.9.6).
///
/// `combine(left, right)` puts `left ∘ right` into `right`. All ranks have the same number of
/// bytes; `scratch` has as many and is aligned as `combine` needs it, and so is `data`.
///
/// Cost: log2(n) exchanges of m bytes, two more when n is not a power of two.
///
/// # Errors
/// [`MsgError`] of the messages it consists of: a rank is gone, or the lengths differ.
pub fn allreduce<'e, 'b, P: Port, F: FnMut(&[u8], &mut [u8])>(
    endpoint: &Endpoint<'e, P>,
    data: &'b mut [u8],
    scratch: &'b mut [u8],
    mut combine: F,
) -> impl Future<Output = Result<(), MsgError>> + use<'e, 'b, P, F> {
    let (endpoint, tag) = (*endpoint, endpoint.next_tag());
    async move {
        check_length(scratch.len(), data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let pairs = Pairs::new(endpoint.size());
        let rank = endpoint.rank();
        let Some(place) = pairs.place_of(rank) else {
            endpoint.send(data, rank + 1, tag).await?;
            let received = endpoint.recv(data, Some(rank + 1), Some(tag)).await?;
            return check_length(data.len(), received.bytes as usize);
        };
        let stands_in = rank < 2 * pairs.folded;
        if stands_in {
            let received = endpoint.recv(scratch, Some(rank - 1), Some(tag)).await?;
            check_length(scratch.len(), received.bytes as usize)?;
            combine(scratch, data);
        }
        let mut distance = 1;
        while distance < pairs.places {
            let other = place ^ distance;
            let partner = pairs.rank_of(other);
            let receive = endpoint.recv(scratch, Some(partner), Some(tag));
            let (sent, received) = join(endpoint.send(data, partner, tag), receive).await;
            sent?;
            check_length(scratch.len(), received?.bytes as usize)?;
            if other < place {
                combine(scratch, data);
            } else {
                combine(data, scratch);
                data.copy_from_slice(scratch);
            }
            distance <<= 1;
        }
        if stands_in {
            endpoint.send(data, rank - 1, tag).await?;
        }
        Ok(())
    }
}

/// Who exchanges with whom: as many places as the largest power of two, and the ranks in them.
struct Pairs {
    places: u32,
    /// Pairs of neighbours, from rank 0 on, that share a place.
    folded: u32,
}

impl Pairs {
    fn new(size: u32) -> Pairs {
        let places = 1 << size.ilog2();
        Pairs { places, folded: size - places }
    }

    /// The place of a rank; `None` if its upper neighbour stands in for it.
    fn place_of(&self, rank: Rank) -> Option<u32> {
        if rank >= 2 * self.folded {
            return Some(rank - self.folded);
        }
        (rank % 2 == 1).then_some(rank / 2)
    }

    fn rank_of(&self, place: u32) -> Rank {
        if place < self.folded { 2 * place + 1 } else { place + self.folded }
    }
}
