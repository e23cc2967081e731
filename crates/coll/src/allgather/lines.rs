//! Allgather by lines: everybody writes its part, everybody reads all.

use std::ops::Range;

use hikyaku_nic::ring::LINE_BYTES;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::rounds::{Rounds, Stop, starts};

use super::read;

/// A piece is this part of the longest contribution: all wait for each other anyway.
const PIECES: usize = 4;

/// Parts of `length` bytes; this rank's is in its place.
#[inline(always)]
pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    length: usize,
    (reads, mine): (bool, Option<&[G::Byte]>),
) -> Result<(), Stop<G>> {
    let rounds = Rounds::begin(team).await?;
    team.require(rounds.mates.are_all(), "needs all ranks on one node")?;
    if reads && read::run(&rounds, mine, data, length).await? {
        return Ok(());
    }
    let own = rounds.place;
    let piece = rounds.part(PIECES, 1);
    for from in starts(length, piece) {
        let to = length.min(from + piece);
        rounds.meet(&data[own * length..][from..to]).await?;
        collect(&rounds, data, length, from..to)?;
    }
    Ok(())
}

/// The same without waiting, if it is one piece and all are there.
#[inline(always)]
pub(super) fn at_once<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    length: usize,
) -> Option<Result<(), Failure<G>>> {
    let rounds = Rounds::at_once(team)?;
    if length > LINE_BYTES && length > rounds.part(PIECES, 1) {
        return None;
    }
    match rounds.try_meet(&data[rounds.place * length..][..length]) {
        Ok(met) => met.map(|_| collect(&rounds, data, length, 0..length)),
        Err(failure) => Some(Err(failure)),
    }
}

/// One piece of everybody's part.
#[inline(always)]
fn collect<G: Group>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    length: usize,
    piece: Range<usize>,
) -> Result<(), Failure<G>> {
    let mut others = rounds.others();
    let mut read = |place: usize| rounds.read(place, 0, &mut data[place * length..][piece.clone()]);
    rounds.finish(others.try_for_each(&mut read))
}
