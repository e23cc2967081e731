//! Broadcast by reading: everyone copies out of the root's memory.

use crate::group::Group;
use crate::part::Data;
use crate::rounds::{LineRounds, Stop};

/// `false`: it cannot be read, and `data` of the root is as before.
pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    rounds: &LineRounds<'_, G>,
    data: &mut D,
    root: usize,
) -> Result<bool, Stop<G>> {
    let Some(memory) = rounds.show_root(data.whole(), root).await? else { return Ok(false) };
    if rounds.place != root {
        memory.read_into(root, 0, data, 0..data.length())?;
    }
    memory.end().await
}
