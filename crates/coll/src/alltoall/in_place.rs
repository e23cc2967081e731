//! All-to-all that replaces what it sends: in step k rank r exchanges with rank k - r.
//!
//! In each step the ranks are pairs (or alone), so a part has to be kept aside only while the two
//! of a pair exchange.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::scratch::Scratch;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    mut blocks: Vec<&mut [G::Byte]>,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let longest = blocks.iter().map(|block| block.len()).max().unwrap_or(0);
    let mut scratch = Scratch::new(longest);
    for step in 0..size {
        let partner = (step + (size - rank)) % size;
        if partner == rank {
            continue;
        }
        let block = &mut *blocks[partner as usize];
        let comes = &mut scratch.bytes()[..block.len()];
        team.exchange(block, partner, comes, partner).await?;
        block.copy_from_slice(comes);
    }
    Ok(())
}
