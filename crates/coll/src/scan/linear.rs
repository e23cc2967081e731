//! Scan from rank to rank: each adds its own to what came from the one before and passes it on.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(super) async fn inclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let rank = team.rank();
    if rank > 0 {
        let mut before = Scratch::new(data.len());
        team.recv(before.bytes(), rank - 1).await?;
        (reduction.combine)(before.bytes(), data);
    }
    if rank + 1 < team.size() { team.send(data, rank + 1).await } else { Ok(()) }
}

pub(super) async fn exclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, last) = (team.rank(), team.size() - 1);
    if rank == 0 {
        return if last > 0 { team.send(data, 1).await } else { Ok(()) };
    }
    let mut before = Scratch::new(data.len());
    team.recv(before.bytes(), rank - 1).await?;
    if rank < last {
        (reduction.combine)(before.bytes(), data);
        team.send(data, rank + 1).await?;
    }
    data.copy_from_slice(before.bytes());
    Ok(())
}
