//! Gather: all ranks' parts side by side at one (MPI 5.0 §6.5).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | chained | n - 1 messages of m at the root, in whatever order they come | |
//! | linear | the same, in the order of ranks: one receive at a time | |
//! | binomial | log2 n messages, of m to n m / 2 | equal parts; for small ones |

use std::future::Future;

use crate::blocks::split_mut;
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::gather::Algorithm;

/// Collects `mine` of every rank at `root`, in rank order, in `into`, which has room for as many
/// bytes of each; elsewhere `into` is not looked at. `None` at the root: its part is in its place
/// already (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or gave up.
pub fn gather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    into: &'a mut [G::Byte],
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let size = group.size();
    let length = mine.map_or(into.len() / size as usize, <[G::Byte]>::len);
    let algorithm = algorithm.unwrap_or_else(|| select::for_gather(group, length));
    let call = Call::new(
        group,
        Signature::new(Operation::Gather).root(root).bytes(length),
        algorithm as usize,
    );
    call.run(async move |team| {
        check(team, mine, root)?;
        let at_root = team.rank() == root;
        if at_root {
            team.share("the buffer for all parts", into.len())?;
            let what = "the buffer for all parts, in bytes,";
            team.check_argument(what, into.len(), length * size as usize)?;
        }
        let blocks = if at_root { size } else { 0 };
        match algorithm {
            Algorithm::Binomial => binomial(team, mine, into, length, root).await,
            Algorithm::Chained => chained(team, mine, split_mut(into, length, blocks), root).await,
            Algorithm::Linear => linear(team, mine, split_mut(into, length, blocks), root).await,
        }
    })
}

/// The same with any length per rank (MPI_Gatherv): block `r` of `blocks` gets what rank `r` has,
/// and is as long. Elsewhere than at the root `blocks` is not looked at.
///
/// # Errors
/// As [`gather()`]; and the binomial tree, in which ranks would have to know others' lengths.
pub fn gatherv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    blocks: Vec<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_gatherv(group));
    let call = Call::new(group, Signature::new(Operation::Gather).root(root), algorithm as usize);
    call.run(async move |team| {
        check(team, mine, root)?;
        if team.rank() == root {
            let needed = team.size() as usize;
            team.check_argument("the list of blocks, one a rank,", blocks.len(), needed)?;
        }
        match algorithm {
            Algorithm::Chained => chained(team, mine, blocks, root).await,
            Algorithm::Linear => linear(team, mine, blocks, root).await,
            Algorithm::Binomial => team.require(false, "needs parts of one length"),
        }
    })
}

fn check<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    team.check_root(root)?;
    team.unless_in_place(mine, root).map(drop)
}

/// Everybody to the root, all receives at once. Elsewhere than at the root `blocks` is not looked
/// at.
async fn chained<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    blocks: Vec<&mut [G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    let Some(others) = own_part(team, mine, blocks, root).await? else { return Ok(()) };
    team.recv_all(others).await
}

/// One receive after the other.
async fn linear<G: Group>(
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

/// Gather up a binomial tree: each rank collects the parts of its subtree, which are those of
/// consecutive places as seen from the root, and sends them on as one message.
async fn binomial<G: Group>(
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
