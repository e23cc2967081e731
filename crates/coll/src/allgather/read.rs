//! Allgather by reading: everyone copies all others' parts out of their memory.

use crate::group::Group;
use crate::rounds::{Rounds, Stop};

/// Parts of `length` bytes; this rank's is in its place, and where the program gave it: untouched
/// since, it is copied faster from there. `false`: they cannot be read.
pub(super) async fn run<G: Group>(
    rounds: &Rounds<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    length: usize,
) -> Result<bool, Stop<G>> {
    let own = mine.unwrap_or(&data[rounds.place * length..][..length]);
    let Some(memory) = rounds.show(own).await? else { return Ok(false) };
    for place in rounds.others() {
        memory.read(place, 0, &mut data[place * length..][..length])?;
    }
    memory.end().await
}
