//! Scatter from the root to each rank, directly.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

/// The sends are one chain. Elsewhere than at the root `blocks` is not looked at.
pub(crate) async fn chained<G: Group>(
    team: &Team<'_, G>,
    blocks: &[&[G::Byte]],
    into: Option<&mut [G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    if !own_part(team, blocks, into, root).await? {
        return Ok(());
    }
    let others = (1..team.size()).map(|distance| team.after(distance));
    team.send_chain(others.map(|to| (to, blocks[to as usize])).collect()).await
}

/// One send after the other.
pub(super) async fn linear<G: Group>(
    team: &Team<'_, G>,
    blocks: &[&[G::Byte]],
    into: Option<&mut [G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    if !own_part(team, blocks, into, root).await? {
        return Ok(());
    }
    for to in (1..team.size()).map(|distance| team.after(distance)) {
        team.send(blocks[to as usize], to).await?;
    }
    Ok(())
}

/// Gets this rank's part. Says whether this rank is the root and has the others' to send.
async fn own_part<G: Group>(
    team: &Team<'_, G>,
    blocks: &[&[G::Byte]],
    into: Option<&mut [G::Byte]>,
    root: u32,
) -> Result<bool, Failure<G>> {
    let at_root = team.rank() == root;
    match into {
        Some(into) if at_root => {
            let mine = blocks[root as usize];
            team.check_argument("the root's own part, in bytes,", into.len(), mine.len())?;
            into.copy_from_slice(mine);
        }
        Some(into) => team.recv(into, root).await?,
        None => {}
    }
    Ok(at_root)
}
