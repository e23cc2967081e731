//! Broadcast by reading: everyone copies out of the root's memory.

use crate::group::Group;
use crate::rounds::{LineRounds, Stop};

/// `false`: it cannot be read, and `data` of the root is as before.
pub(super) async fn run<G: Group>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    root: usize,
) -> Result<bool, Stop<G>> {
    let Some(memory) = rounds.show_root(data, root).await? else { return Ok(false) };
    if rounds.place != root {
        memory.read(root, 0, data)?;
    }
    memory.end().await
}
