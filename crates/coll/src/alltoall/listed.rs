//! All-to-all by lines where only its two ranks know a part's length.
//!
//! Every rank writes its parts for others, with the list of their lengths in front, and reads its
//! own parts from all others. A rank whose parts are too long for that, or have gaps, writes a list
//! that reports it. Every rank reads all lists: so all agree whether they fall back to messages.

use hikyaku_nic::ring::copy;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::list;
use crate::part::{Part, Place};
use crate::rounds::{LineRounds, Stop};
use crate::scratch::Scratch;

use super::{OWN_PART, PIECES};

/// `false` at all ranks: some parts are too long or have gaps.
pub(super) async fn lines<G: Group>(
    team: &Team<'_, G>,
    parts: &[Part<'_, G::Byte>],
    into: &mut [Place<'_, G::Byte>],
) -> Result<bool, Stop<G>> {
    check_own(team, parts, into)?;
    let rounds = LineRounds::begin_all(team).await?;
    let list = list::bytes_of(rounds.size);
    team.require(list <= rounds.part(1, 1), "needs longer lines for so many ranks")?;
    let fits = fits(&rounds, parts, into);
    let mut list = list_of(&rounds, parts, fits);
    let mut pieces = vec![&[][..]; rounds.size + 1];
    rounds.meet(contribution(&mut pieces, &rounds, list.bytes(), parts, fits)).await?;
    let done = rounds.finish(collect(&rounds, fits, into))?;
    if done {
        put_own(team, parts, into);
    }
    Ok(done)
}

/// The same without waiting, if all have contributed and no parts are too long.
#[inline(always)]
pub(super) fn at_once<G: Group>(
    team: &Team<'_, G>,
    parts: &[Part<'_, G::Byte>],
    into: &mut [Place<'_, G::Byte>],
) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    if rounds.size > list::MOST_LISTED {
        return None;
    }
    if let Err(failure) = check_own(team, parts, into) {
        return Some(Err(failure));
    }
    let fits = fits(&rounds, parts, into);
    let mut list = list_of(&rounds, parts, fits);
    let mut pieces = [&[][..]; list::MOST_LISTED + 1];
    match rounds.try_meet(contribution(&mut pieces, &rounds, list.bytes(), parts, fits)) {
        Ok(met) => met?,
        Err(failure) => return Some(Err(failure)),
    }
    match collect(&rounds, fits, into) {
        // The slow path ends the round.
        Ok(false) => None,
        Ok(true) => {
            put_own(team, parts, into);
            Some(rounds.finish(Ok(())))
        }
        Err(failure) => Some(rounds.finish(Err(failure))),
    }
}

/// Checks that this rank's part for itself fits.
fn check_own<G: Group>(
    team: &Team<'_, G>,
    parts: &[Part<'_, G::Byte>],
    into: &[Place<'_, G::Byte>],
) -> Result<(), Failure<G>> {
    let own = team.rank() as usize;
    match (&parts[own], &into[own]) {
        (Part::Whole(part), Place::Whole(place)) => {
            team.check_argument(OWN_PART, place.len(), part.len())
        }
        _ => Ok(()),
    }
}

/// Moves this rank's part for itself, which fits. Called only after messages are ruled out, since
/// the part may be long.
fn put_own<G: Group>(
    team: &Team<'_, G>,
    parts: &[Part<'_, G::Byte>],
    into: &mut [Place<'_, G::Byte>],
) {
    let own = team.rank() as usize;
    if let (Part::Whole(part), Place::Whole(place)) = (&parts[own], &mut into[own]) {
        copy(part, place);
    }
}

/// Whether this rank's parts follow its list.
fn fits<G: Group>(
    rounds: &LineRounds<'_, G>,
    parts: &[Part<'_, G::Byte>],
    into: &[Place<'_, G::Byte>],
) -> bool {
    let others = others(rounds.place, parts);
    let length =
        others.fold(list::bytes_of(rounds.size), |sum, part| sum.saturating_add(part.len()));
    parts.iter().all(|part| matches!(part, Part::Whole(_)))
        && into.iter().all(|place| matches!(place, Place::Whole(_)))
        && rounds.is_one_part(length, PIECES, 1)
}

/// This rank's parts for all; the one for itself is empty.
fn others<'p, B>(own: usize, parts: &'p [Part<'_, B>]) -> impl Iterator<Item = &'p [B]> {
    parts.iter().enumerate().map(move |(to, part)| match part {
        Part::Whole(bytes) if to != own => *bytes,
        _ => &[],
    })
}

/// The list in front of this rank's parts, or one that marks them as missing.
fn list_of<G: Group>(
    rounds: &LineRounds<'_, G>,
    parts: &[Part<'_, G::Byte>],
    fits: bool,
) -> Scratch<G::Byte> {
    let mut list = Scratch::new(list::bytes_of(rounds.size));
    if !fits {
        list::write_too_long(list.bytes());
        return list;
    }
    let ends = others(rounds.place, parts).scan(0, |end, part| {
        *end += part.len();
        Some(*end)
    });
    list::write(list.bytes(), ends);
    list
}

/// This rank's contribution: its list and, if `follow` is set, its parts.
fn contribution<'s, 'p, G: Group>(
    pieces: &'s mut [&'p [G::Byte]],
    rounds: &LineRounds<'_, G>,
    list: &'p [G::Byte],
    parts: &'p [Part<'_, G::Byte>],
    follow: bool,
) -> &'s [&'p [G::Byte]] {
    let all = std::iter::once(list).chain(others(rounds.place, parts));
    pieces.iter_mut().zip(all).for_each(|(piece, part)| *piece = part);
    let count = if follow { rounds.size + 1 } else { 1 };
    &pieces[..count]
}

/// Reads all contributions to this rank. `fits`: this rank has contributed its parts. Returns
/// `false` if some parts are missing.
fn collect<G: Group>(
    rounds: &LineRounds<'_, G>,
    mut fits: bool,
    into: &mut [Place<'_, G::Byte>],
) -> Result<bool, Failure<G>> {
    let front = list::bytes_of(rounds.size);
    let mut differs = None;
    for place in rounds.others() {
        let entries = list::entries_of(rounds.place);
        let mut said = Scratch::new(entries.len());
        rounds.read(place, entries.start, said.bytes())?;
        match (list::part_of(said.bytes()), &mut into[place]) {
            (Some((start, length)), Place::Whole(room)) if length == room.len() => {
                rounds.read(place, front + start, room)?;
            }
            (Some((_, length)), Place::Whole(room)) => {
                differs.get_or_insert((place, length, room.len()));
            }
            _ => fits = false,
        }
    }
    // Messages will check the lengths again.
    match differs.filter(|_| fits) {
        Some((place, length, own)) => Err(rounds.lengths_differ(place, length, own)),
        None => Ok(fits),
    }
}
