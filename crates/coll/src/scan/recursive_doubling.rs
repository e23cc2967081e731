//! Scan in log2 n steps (Hillis, Steele 1986): after step k a rank has combined its own and the
//! 2^k - 1 before it, and hands that to the rank 2^k further on.

use hikyaku_msg::join;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

/// Among the ranks from `first` on; the others stand by.
pub(super) async fn inclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    first: u32,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let Some(place) = rank.checked_sub(first) else { return Ok(()) };
    let mut scratch = Scratch::new(data.len());
    let mut distance = 1;
    while distance < size - first {
        let hand_on = async {
            if distance < size - rank { team.send(data, rank + distance).await } else { Ok(()) }
        };
        let take = async {
            if distance <= place {
                team.recv(scratch.bytes(), rank - distance).await
            } else {
                Ok(())
            }
        };
        let (handed_on, taken) = join(hand_on, take).await;
        handed_on.and(taken)?;
        if distance <= place {
            (reduction.combine)(scratch.bytes(), data);
        }
        distance = distance.saturating_mul(2);
    }
    Ok(())
}

/// Every rank hands its data to the next; then it is a scan among the ranks that got some.
pub(super) async fn exclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, last) = (team.rank(), team.size() - 1);
    let mut before = Scratch::new(if rank > 0 { data.len() } else { 0 });
    let hand_on = async { if rank < last { team.send(data, rank + 1).await } else { Ok(()) } };
    let take = async { if rank > 0 { team.recv(before.bytes(), rank - 1).await } else { Ok(()) } };
    let (handed_on, taken) = join(hand_on, take).await;
    handed_on.and(taken)?;
    if rank > 0 {
        data.copy_from_slice(before.bytes());
    }
    inclusive(team, 1, data, reduction).await
}
