//! Scatter down a binomial tree: each rank gets the parts of its subtree as one message, keeps its
//! own and hands on the others.

use crate::call::Team;
use crate::error::Failure;
use crate::gather::binomial::{lowest_bit, subtree};
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    all: &[G::Byte],
    into: Option<&mut [G::Byte]>,
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    let (place, size) = (team.before(root), team.size());
    if place == 0 && root == 0 {
        if let Some(into) = into {
            into.copy_from_slice(&all[..length]);
        }
        return hand_on(team, all, length, place).await;
    }
    let mut parts = vec![G::Byte::default(); subtree(place, size) as usize * length];
    if place == 0 {
        // From ranks to places: what comes before the root goes to the end.
        let (before_root, from_root) = all.split_at(root as usize * length);
        parts[..from_root.len()].copy_from_slice(from_root);
        parts[from_root.len()..].copy_from_slice(before_root);
    } else {
        team.recv(&mut parts, team.before(lowest_bit(place))).await?;
    }
    if let Some(into) = into {
        into.copy_from_slice(&parts[..length]);
    }
    hand_on(team, &parts, length, place).await
}

/// Sends the parts of the places below this one, the largest subtree first.
async fn hand_on<G: Group>(
    team: &Team<'_, G>,
    parts: &[G::Byte],
    length: usize,
    place: u32,
) -> Result<(), Failure<G>> {
    let places = subtree(place, team.size());
    let mut distance = places.next_power_of_two() >> 1;
    while distance > 0 {
        let count = subtree(place + distance, team.size()) as usize;
        let theirs = distance as usize * length..(distance as usize + count) * length;
        team.send(&parts[theirs], team.after(distance)).await?;
        distance >>= 1;
    }
    Ok(())
}
