//! All-to-all by layouts that replaces what it sends: in step k rank r exchanges with rank k - r.
//!
//! In each step the ranks are pairs (or alone), so a part has to be kept aside only while the two
//! of a pair exchange.

use hikyaku_msg::Layout;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::scratch::Scratch;

use super::{longest_aside, packed, unpack};

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    layouts: &[Layout],
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let mut going = Scratch::new(longest_aside(layouts));
    let mut coming = Scratch::new(layouts.iter().map(Layout::len).max().unwrap_or(0));
    for step in 0..size {
        let partner = (step + (size - rank)) % size;
        if partner == rank {
            continue;
        }
        let layout = &layouts[partner as usize];
        let comes = &mut coming.bytes()[..layout.len()];
        team.exchange(packed(layout, data, going.bytes()), partner, comes, partner).await?;
        unpack(layout, comes, data);
    }
    Ok(())
}
