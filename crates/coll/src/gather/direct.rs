//! Gather: everybody to the root, directly.
//!
//! A tree would save the root messages and cost it nothing in bytes; for the few ranks of one host
//! the root's copies are the cost, and a tree copies more.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

/// All receives at once. Elsewhere than at the root `blocks` is not looked at.
pub(super) async fn chained<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    blocks: Vec<&mut [G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    let Some(others) = own_part(team, mine, blocks, root).await? else { return Ok(()) };
    team.recv_all(others).await
}

/// One receive after the other.
pub(super) async fn linear<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    blocks: Vec<&mut [G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    let Some(others) = own_part(team, mine, blocks, root).await? else { return Ok(()) };
    for (from, block) in others {
        team.recv(block, from).await?;
    }
    Ok(())
}

/// Brings this rank's part to the root. At the root, what is left to receive.
async fn own_part<'b, G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    blocks: Vec<&'b mut [G::Byte]>,
    root: u32,
) -> Result<Option<Vec<(u32, &'b mut [G::Byte])>>, Failure<G>> {
    if team.rank() != root {
        team.send(mine.unwrap_or_default(), root).await?;
        return Ok(None);
    }
    let mut others = Vec::with_capacity(blocks.len());
    for (rank, block) in (0..).zip(blocks) {
        match mine {
            Some(mine) if rank == root => {
                team.check_argument("the root's own part, in bytes,", mine.len(), block.len())?;
                block.copy_from_slice(mine);
            }
            None if rank == root => {}
            _ => others.push((rank, block)),
        }
    }
    Ok(Some(others))
}
