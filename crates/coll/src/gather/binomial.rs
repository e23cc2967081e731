//! Gather up a binomial tree: each rank collects the parts of its subtree, which are those of
//! consecutive places as seen from the root, and sends them on as one message.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    into: &mut [G::Byte],
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    let (place, size) = (team.before(root), team.size());
    if place == 0 {
        let at = root as usize * length;
        if let Some(mine) = mine {
            into[at..at + length].copy_from_slice(mine);
        }
        if root == 0 {
            return collect(team, into, length, place).await;
        }
        let mut parts = vec![G::Byte::default(); size as usize * length];
        parts[..length].copy_from_slice(&into[at..at + length]);
        collect(team, &mut parts, length, place).await?;
        // From places to ranks: what comes before the root stands at the end.
        let (from_root, before_root) = parts.split_at((size - root) as usize * length);
        into[at..].copy_from_slice(from_root);
        into[..at].copy_from_slice(before_root);
        return Ok(());
    }
    let mut parts = vec![G::Byte::default(); subtree(place, size) as usize * length];
    parts[..length].copy_from_slice(mine.unwrap_or_default());
    collect(team, &mut parts, length, place).await?;
    team.send(&parts, team.before(lowest_bit(place))).await
}

/// Receives the parts of the places below this one.
async fn collect<G: Group>(
    team: &Team<'_, G>,
    parts: &mut [G::Byte],
    length: usize,
    place: u32,
) -> Result<(), Failure<G>> {
    let mut distance = 1;
    while distance < team.size() - place && place & distance == 0 {
        let count = subtree(place + distance, team.size()) as usize;
        let theirs = distance as usize * length..(distance as usize + count) * length;
        team.recv(&mut parts[theirs], team.after(distance)).await?;
        distance <<= 1;
    }
    Ok(())
}

/// How many places the subtree of a place other than the root's, or the whole tree, has.
pub(crate) fn subtree(place: u32, size: u32) -> u32 {
    if place == 0 { size } else { lowest_bit(place).min(size - place) }
}

/// How far below a place its parent is.
pub(crate) fn lowest_bit(place: u32) -> u32 {
    place & place.wrapping_neg()
}
