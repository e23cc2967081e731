//! Reduce: combines the data of all ranks at one rank (MPI 5.0 §6.9.1).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | binomial | log2 n messages of m | one more for ordered reductions, if the root is not rank 0 |
//! | linear | n - 1 messages of m at the root | needs memory at the root only |
//! | lines | the root polls all lines | all ranks on one node with lines; short data |
//!
//! Lines combine in the order of the binomial tree that they replace: the results have the same
//! bits.

use std::future::Future;

use hikyaku_nic::ring::copy;

use crate::call::{Begun, Call, Team};
use crate::combine::{Accumulator, Combine, PARTS, Reduction, combine_whole};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::rounds::{LineRounds, NEEDS_LINES, Stop, by_lines, starts};
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::reduce::Algorithm;

/// Combines `data` of all ranks; `data` of `root` becomes the result. On the other ranks the
/// contents of `data` are unspecified afterwards: ranks inside the tree combine in place.
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or abandoned the
/// call.
pub fn reduce<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_reduce(group, algorithm, Operand::Own(data), root, reduction).end()
}

/// A rank's contribution to a reduction.
#[derive(Debug)]
pub enum Operand<'a, B> {
    /// Combined in place: holds the result at the root of a reduce and at all ranks of an
    /// allreduce.
    Own(&'a mut [B]),
    /// Left unchanged. For ranks of a reduce other than the root; not for an allreduce.
    Lent(&'a [B]),
    /// Left unchanged, with a separate place for the result: at the root of a reduce and at all
    /// ranks of an allreduce.
    Apart {
        /// The contribution.
        from: &'a [B],
        /// The place of the result, of the same length.
        into: &'a mut [B],
    },
}

impl<'a, B: Copy> Operand<'a, B> {
    pub(crate) fn bytes(&self) -> &[B] {
        match self {
            Operand::Own(bytes) => bytes,
            Operand::Lent(bytes) | Operand::Apart { from: bytes, .. } => bytes,
        }
    }

    /// The contribution, unless it lies in the place of the result; and that place, empty if there
    /// is none.
    #[inline]
    pub(crate) fn apart(self) -> (Option<&'a [B]>, &'a mut [B]) {
        match self {
            Operand::Own(bytes) => (None, bytes),
            Operand::Lent(from) => (Some(from), &mut []),
            Operand::Apart { from, into } => (Some(from), into),
        }
    }

    /// The contribution, unless it lies in the place of the result; and that place, if there is
    /// one.
    fn result(&mut self) -> Option<(Option<&[B]>, &mut [B])> {
        match self {
            Operand::Own(bytes) => Some((None, bytes)),
            Operand::Lent(_) => None,
            Operand::Apart { from, into } => Some((Some(from), into)),
        }
    }

    /// The bytes to combine in. Lent bytes are copied.
    pub(crate) fn own<'b>(self, room: &'b mut Vec<B>) -> &'b mut [B]
    where
        'a: 'b,
    {
        match self {
            Operand::Own(bytes) => bytes,
            Operand::Apart { from, into } if from.len() == into.len() => {
                copy(from, into);
                into
            }
            Operand::Lent(bytes) | Operand::Apart { from: bytes, .. } => {
                room.extend_from_slice(bytes);
                room
            }
        }
    }
}

/// Starts [`reduce()`], which may complete at once.
///
/// # Errors
/// As [`reduce()`]. The root must not lend its bytes.
#[inline]
pub fn begin_reduce<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mut data: Operand<'a, G::Byte>,
    root: u32,
    mut reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let length = data.bytes().len();
    let is_lines = |by: &Algorithm| *by == Algorithm::Lines;
    let table = || select::for_reduce(group, length, reduction.is_exact(group.element()));
    let algorithm = select::resolve(group, algorithm, is_lines, table);
    let signature = Signature::new(Operation::Reduce)
        .root(root)
        .bytes(length)
        .combination(reduction.combination);
    let lines = algorithm == Algorithm::Lines;
    let act = |team: &Team<'_, G>| match check(team, &data, root, &reduction) {
        Ok(()) => at_once(team, &mut data, root, &mut reduction),
        Err(failure) => Some(Err(failure)),
    };
    Call::begin(group, signature, algorithm as usize, lines, act)
        .or_start(|call| start(call, algorithm, data, root, reduction))
}

async fn start<G: Group, F: Combine<G::Byte>>(
    call: Call<'_, G>,
    algorithm: Algorithm,
    mut data: Operand<'_, G::Byte>,
    root: u32,
    mut reduction: Reduction<F>,
) -> Result<(), Failure<G>> {
    call.run(async move |team| {
        check(team, &data, root, &reduction)?;
        let mut algorithm = algorithm;
        if algorithm == Algorithm::Lines {
            if by_lines(team, lines(team, &mut data, root, &mut reduction).await)?.is_some() {
                return Ok(());
            }
            algorithm = select::for_reduce_by_messages(team.group());
            team.without_lines(algorithm as usize)?;
        }
        let mut copy = Vec::new();
        match algorithm {
            Algorithm::Binomial => binomial_of(team, data, root, &mut reduction).await,
            Algorithm::Linear => linear(team, data.own(&mut copy), root, &mut reduction).await,
            Algorithm::Lines => team.require(false, NEEDS_LINES),
        }
    })
    .await
}

/// Checks the arguments.
#[inline]
fn check<G: Group, F>(
    team: &Team<'_, G>,
    data: &Operand<'_, G::Byte>,
    root: u32,
    reduction: &Reduction<F>,
) -> Result<(), Failure<G>> {
    team.check_root(root)?;
    let has_place = team.rank() != root || !matches!(data, Operand::Lent(_));
    if let Operand::Apart { from, into } = data {
        team.check_argument("the place of the result, in bytes,", into.len(), from.len())?;
    }
    team.check_argument("the root's place for the result", usize::from(has_place), 1)?;
    team.check_elements(data.bytes().len(), reduction.width)
}

/// Reduce by lines: every rank writes its elements and returns; the root reads and combines all.
async fn lines<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut Operand<'_, G::Byte>,
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin_all(team).await?;
    let (length, part) = (data.bytes().len(), rounds.part(PARTS, reduction.width));
    for from in starts(length, part) {
        let part = from..length.min(from.saturating_add(part));
        match data.result().filter(|_| team.rank() == root) {
            Some((own, data)) => {
                let own = own.map(|own| &own[part.clone()]);
                let data = &mut data[part];
                // Earlier parts are combined already and must not be combined again.
                rounds.await_others().await.map_err(|stop| match from {
                    0 => stop,
                    _ => Stop::Failed(stop.into_failure(team)),
                })?;
                combine_part(&rounds, own, data, root, reduction)?;
            }
            None => rounds.give(&data.bytes()[part]).await?,
        }
    }
    Ok(())
}

/// The same without waiting, if the data are one part. The root also needs that all have written.
#[inline(always)]
fn at_once<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut Operand<'_, G::Byte>,
    root: u32,
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    if !rounds.is_one_part(data.bytes().len(), PARTS, reduction.width) {
        return None;
    }
    match data.result().filter(|_| team.rank() == root) {
        Some((own, data)) => match rounds.try_others() {
            Ok(all) => all.then(|| combine_part(&rounds, own, data, root, reduction)),
            Err(failure) => Some(Err(failure)),
        },
        None => rounds.try_give(data.bytes()),
    }
}

/// Combines the contributions of all others with the root's own, in the order of [`binomial`].
#[inline(always)]
fn combine_part<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    own: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let first = if reduction.commutative { root as usize } else { 0 };
    combine_whole(rounds, own, data, first, reduction)
}

/// Reduce up a binomial tree.
///
/// In round k, every rank whose place has bit k set sends its part to the place without that bit.
/// Parts cover consecutive places, so they are combined in the order of places. Places are counted
/// from the root for a commutative reduction, and from rank 0 for an ordered one, which then sends
/// the result to the root.
pub(crate) async fn binomial<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let top = if reduction.commutative { root } else { 0 };
    up_to(team, data, (top, 1), reduction).await?;
    to_root(team, data, top, root).await
}

/// Sends the result from the top of the tree to the root.
async fn to_root<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    top: u32,
    root: u32,
) -> Result<(), Failure<G>> {
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

/// The same without needless copies: a rank without children sends its lent bytes directly, and the
/// first contribution is received in the place of the result.
async fn binomial_of<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: Operand<'_, G::Byte>,
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let top = if reduction.commutative { root } else { 0 };
    let has_children = has_child(team, top, 1);
    match data {
        Operand::Lent(bytes) if !has_children => {
            let distance = 1 << team.before(top).trailing_zeros();
            team.send(bytes, team.before(distance)).await
        }
        Operand::Apart { from, into } if has_children => {
            team.recv(into, team.after(1)).await?;
            (reduction.combine)(from, into);
            up_to(team, into, (top, 2), reduction).await?;
            to_root(team, into, top, root).await
        }
        other => {
            let mut copy = Vec::new();
            binomial(team, other.own(&mut copy), root, reduction).await
        }
    }
}

/// Whether a rank `distance` places further on, counted from `top`, sends to this one.
fn has_child<G: Group>(team: &Team<'_, G>, top: u32, distance: u32) -> bool {
    let place = team.before(top);
    place.is_multiple_of(2 * distance) && distance < team.size() - place
}

/// Combines in the order of places, counted from `top`. `data` already holds the contributions of
/// places less than `distance` further on.
async fn up_to<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    (top, mut distance): (u32, u32),
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let place = team.before(top);
    let has_children = has_child(team, top, distance);
    let mut scratch = Scratch::new(if has_children { data.len() } else { 0 });
    let mut value = Accumulator::new(data, scratch.bytes());
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
/// From the last rank to the first, because the left operand needs no copy.
async fn linear<G: Group, F: Combine<G::Byte>>(
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
            (true, true) => copy(data, value.bytes()),
            (true, false) => (reduction.combine)(data, value.bytes()),
            (false, true) => team.recv(value.bytes(), rank).await?,
            (false, false) => {
                team.recv(part.bytes(), rank).await?;
                (reduction.combine)(part.bytes(), value.bytes());
            }
        }
    }
    copy(value.bytes(), data);
    Ok(())
}
