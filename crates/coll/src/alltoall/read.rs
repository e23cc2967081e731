//! All-to-all by reading: everyone copies its parts out of all others' memory.

use crate::call::Team;
use crate::group::Group;
use crate::rounds::{Rounds, Stop};

/// Parts of `length` bytes. `false`: they cannot be read.
pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    length: usize,
) -> Result<bool, Stop<G>> {
    let rounds = Rounds::begin(team).await?;
    let Some(memory) = rounds.show(data).await? else { return Ok(false) };
    let own = rounds.place * length;
    into[own..][..length].copy_from_slice(&data[own..][..length]);
    for place in rounds.others() {
        memory.read(place, own, &mut into[place * length..][..length])?;
    }
    memory.end().await
}
