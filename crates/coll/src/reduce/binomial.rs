//! Reduce up a binomial tree.
//!
//! In round k, every rank whose place has bit k set hands its part to the place without that bit:
//! parts are of consecutive places, so they are combined in the order of places. For a commutative
//! reduction places are counted from the root; for an ordered one from rank 0, whose result is
//! then sent to the root.

use crate::accumulator::Accumulator;
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(crate) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let top = if reduction.commutative { root } else { 0 };
    up_to(team, data, top, reduction).await?;
    if top == root {
        return Ok(());
    }
    if team.rank() == top {
        team.send(data, root).await
    } else if team.rank() == root {
        team.recv(data, top).await
    } else {
        Ok(())
    }
}

/// Combines in the order of places as seen from `top`.
async fn up_to<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    top: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let place = team.before(top);
    let has_children = place.is_multiple_of(2) && place + 1 < team.size();
    let mut scratch = Scratch::new(if has_children { data.len() } else { 0 });
    let mut value = Accumulator::new(data, scratch.bytes());
    let mut distance = 1;
    while distance < team.size() {
        if place & distance != 0 {
            return team.send(value.parts().0, team.before(distance)).await;
        }
        if distance < team.size() - place {
            team.recv(value.parts().1, team.after(distance)).await?;
            value.append(&mut reduction.combine);
        }
        distance = distance.saturating_mul(2);
    }
    value.finish();
    Ok(())
}
