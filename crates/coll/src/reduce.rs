//! Reduce: all ranks' data combined, at one (MPI 5.0 §6.9.1).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | binomial | log2 n messages of m | one more for ordered reductions, if the root is not rank 0 |
//! | linear | n - 1 messages of m at the root | nothing but the root's memory |

use std::future::Future;

use crate::accumulator::Accumulator;
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::reduction::Reduction;
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::reduce::Algorithm;

/// Combines `data` of all ranks; afterwards `data` of `root` is the result. What `data` of the
/// others is then is not said: ranks within a tree combine in it.
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or gave up.
pub fn reduce<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_reduce(group));
    let call = Call::new(
        group,
        Signature::new(Operation::Reduce)
            .root(root)
            .bytes(data.len())
            .combination(reduction.combination),
        algorithm as usize,
    );
    call.run(async move |team| {
        team.check_root(root)?;
        team.check_elements(data.len(), reduction.width)?;
        match algorithm {
            Algorithm::Binomial => binomial(team, data, root, &mut reduction).await,
            Algorithm::Linear => linear(team, data, root, &mut reduction).await,
        }
    })
}

/// Reduce up a binomial tree.
///
/// In round k, every rank whose place has bit k set hands its part to the place without that bit:
/// parts are of consecutive places, so they are combined in the order of places. For a commutative
/// reduction places are counted from the root; for an ordered one from rank 0, whose result is
/// then sent to the root.
pub(crate) async fn binomial<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
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

/// Reduce at the root, one rank after the other: `x0 ∘ (x1 ∘ (x2 ∘ …))`.
///
/// From the last rank to the first, because what is combined on the left needs no copy.
async fn linear<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    if team.rank() != root {
        return team.send(data, root).await;
    }
    let (mut value, mut part) = (Scratch::new(data.len()), Scratch::new(data.len()));
    let last = team.size() - 1;
    for rank in (0..team.size()).rev() {
        match (rank == root, rank == last) {
            (true, true) => value.bytes().copy_from_slice(data),
            (true, false) => (reduction.combine)(data, value.bytes()),
            (false, true) => team.recv(value.bytes(), rank).await?,
            (false, false) => {
                team.recv(part.bytes(), rank).await?;
                (reduction.combine)(part.bytes(), value.bytes());
            }
        }
    }
    data.copy_from_slice(value.bytes());
    Ok(())
}
