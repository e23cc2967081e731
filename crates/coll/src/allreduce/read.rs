//! Allreduce by reading: every rank combines one share of all ranks' memory into the place of the
//! result, in the order of [`super::lines`]; then every rank copies the others' shares.

use hikyaku_nic::ring::copy;

use crate::combine::{Combine, PARTS, PIECE, Reduction, combine_tree, combine_two, digits};
use crate::error::Failure;
use crate::group::{CopyReach, Group};
use crate::rounds::{LineRounds, Stop, starts};

use super::lines::share;

/// Bytes that are combined at a time where the kernel copies: they fit the caches, and are long
/// compared with the cost of a call.
const KERNEL_PIECE: usize = 64 << 10;

/// `false`: the memory cannot be read, and `data` is unchanged.
pub(super) async fn run<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    from: Option<&[G::Byte]>,
    data: Option<&mut [G::Byte]>,
    reduction: &mut Reduction<F>,
) -> Result<bool, Stop<G>> {
    // Others read this rank's contribution, and then its share of the result.
    let whole = data.as_deref().filter(|data| rounds.can_show(data));
    let shown = rounds.show(whole.map(|data| from.unwrap_or(data))).await?;
    // Data with gaps was not exposed, so there is nothing to read.
    let (Some(mut memory), Some(data)) = (shown, data) else { return Ok(false) };
    let (size, width, length) = (rounds.size, reduction.width, data.len());
    let share = |place| share(length, width, place, size);
    let own = share(rounds.place);
    let begun = |stop: Stop<G>| Stop::Failed(stop.into_failure(rounds.team));
    // If the kernel refuses, all start again by another way.
    let by_kernel = memory.reach() == CopyReach::Process;
    let may_restart = by_kernel && from.is_none();
    let before = if may_restart { data[own.clone()].to_vec() } else { Vec::new() };
    let piece = if by_kernel { KERNEL_PIECE } else { PIECE };
    let piece = (piece / width * width).max(width).min(own.len().max(1));
    // This rank's part, and others' on their way up the tree.
    let depth = if size == 2 { 1 } else { digits(size) };
    let mut scratch = vec![G::Byte::default(); (1 + depth) * piece];
    for at in starts(own.len(), piece).map(|from| own.start + from) {
        let out = &mut data[at..own.end.min(at + piece)];
        let (mine, others) = scratch.split_at_mut(out.len());
        if let Some(from) = from {
            copy(&from[at..][..out.len()], out);
        }
        copy(out, mine);
        let read = |place, into: &mut [G::Byte]| memory.read(place, at, into);
        if size == 2 {
            let theirs = &mut others[..out.len()];
            combine_two(rounds.place, mine, out, theirs, reduction, read)?;
        } else {
            combine_tree(rounds.place, size, mine, out, others, reduction, read)?;
        }
    }
    if !memory.all_show(data).await.map_err(begun)? {
        if !by_kernel {
            // An address outside of shared memory is malformed, and nothing was saved for a
            // restart.
            let outside = G::unsupported("read where a rank says that its data are");
            return Err(Failure::<G>::from(outside).into());
        }
        if may_restart {
            copy(&before, &mut data[own]);
        }
        return Ok(false);
    }
    for place in rounds.others() {
        memory.read(place, share(place).start, &mut data[share(place)])?;
    }
    if !memory.end().await.map_err(begun)? {
        // The kernel may also refuse late.
        collect(rounds, data, width).await.map_err(begun)?;
    }
    Ok(true)
}

/// Every rank receives the others' shares by lines.
#[cold]
async fn collect<G: Group>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    width: usize,
) -> Result<(), Stop<G>> {
    let length = data.len();
    let part = rounds.part(PARTS, width);
    let cut = |place, from| {
        let share = share(length, width, place, rounds.size);
        let start = share.end.min(share.start + from);
        start..share.end.min(start + part)
    };
    // The last share is the longest.
    let longest = share(length, width, rounds.size - 1, rounds.size).len();
    for from in starts(longest, part) {
        rounds.meet(&[&data[cut(rounds.place, from)]]).await?;
        let mut others = rounds.others();
        let read = others.try_for_each(|place| rounds.read(place, 0, &mut data[cut(place, from)]));
        rounds.finish(read)?;
    }
    Ok(())
}
