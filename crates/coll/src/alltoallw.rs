//! All-to-all of parts at arbitrary places: a layout for the data sent to each rank and one for the
//! data received from it (MPI_Alltoallw, MPI 5.0 §6.8).
//!
//! | algorithm | longest path | memory beside the arrays |
//! |---|---|---|
//! | pairwise | n - 1 exchanges of m, one after the other | the longest scattered part, each way |
//! | chained | n - 1 messages of m, all at once | all scattered parts, each way |
//!
//! A part without gaps is sent from and received in its place. A part with gaps is packed before it
//! is sent, and unpacked after it is received. Bruck's algorithm is not available: ranks would have
//! to know the lengths of others' parts.
//!
//! Layouts are in bytes, to which MPI's counts, displacements and types reduce. Layouts for
//! received data must not overlap: it is unspecified which rank's bytes would stay.

use std::future::Future;

use hikyaku_msg::{Layout, join};

use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::part::Place;
use crate::scratch::Scratch;
use crate::select;
use crate::signature::{Combination, Signature};

pub use crate::algorithms::alltoallw::Algorithm;

/// Copies the bytes that `parts[s]` of rank `r` selects from its `data` to those that `places[r]`
/// of rank `s` selects in its `into`. The two have the same length. Layouts are in bytes.
///
/// # Errors
/// [`crate::CollError`]: the number of layouts is not that of ranks, a layout reaches outside its
/// array, lengths differ, or a rank is gone or abandoned the call.
pub fn alltoallw<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a [G::Byte],
    parts: &'a [Layout],
    into: &'a mut [G::Byte],
    places: &'a [Layout],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_alltoallw(group));
    let call = Call::new(group, Signature::new(Operation::Alltoallw), algorithm as usize);
    call.run(async move |team| {
        check(team, "the list of layouts to send, one a rank,", parts, data.len())?;
        check(team, "the list of layouts to receive, one a rank,", places, into.len())?;
        own_part(team, data, parts, into, places)?;
        match algorithm {
            Algorithm::Pairwise => pairwise(team, data, parts, into, places).await,
            Algorithm::Chained => chained(team, data, parts, into, places).await,
        }
    })
}

/// [`alltoallw()`] where received data replaces sent data (MPI_IN_PLACE): the bytes of `layouts[s]`
/// at rank `r` and of `layouts[r]` at rank `s` have the same length and change places, in exchanges
/// between pairs of ranks.
///
/// # Errors
/// As [`alltoallw()`].
pub fn alltoallw_in_place<'a, G: Group>(
    group: &'a G,
    data: &'a mut [G::Byte],
    layouts: &'a [Layout],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let signature = Signature::new(Operation::Alltoallw).combination(Combination::IN_PLACE);
    let call = Call::new(group, signature, Algorithm::Pairwise as usize);
    call.run(async move |team| {
        check(team, "the list of layouts, one a rank,", layouts, data.len())?;
        in_place(team, data, layouts).await
    })
}

/// Checks that there is a layout for each rank, within an array of `length` bytes.
fn check<G: Group>(
    team: &Team<'_, G>,
    what: &'static str,
    layouts: &[Layout],
    length: usize,
) -> Result<(), Failure<G>> {
    team.check_argument(what, layouts.len(), team.size() as usize)?;
    (0..).zip(layouts).try_for_each(|(peer, layout)| team.check_within(peer, layout, length))
}

/// Moves this rank's part for itself.
fn own_part<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    parts: &[Layout],
    into: &mut [G::Byte],
    places: &[Layout],
) -> Result<(), Failure<G>> {
    let (part, place) = (&parts[team.rank() as usize], &places[team.rank() as usize]);
    team.check_argument("a rank's part for itself, in bytes,", place.len(), part.len())?;
    let mut aside = Scratch::new(length_aside(part));
    unpack(place, packed(part, data, aside.bytes()), into);
    Ok(())
}

/// The bytes of the buffer that a part needs to be contiguous; 0 if it already is.
fn length_aside(layout: &Layout) -> usize {
    if layout.as_range().is_some() { 0 } else { layout.len() }
}

/// The length of the longest such buffer.
fn longest_aside(layouts: &[Layout]) -> usize {
    layouts.iter().map(length_aside).max().unwrap_or(0)
}

const CHECKED: &str = "layouts were checked against their arrays";

/// A part as contiguous bytes: in its place, or packed into the front of `aside`.
fn packed<'b, B: Copy>(layout: &Layout, data: &'b [B], aside: &'b mut [B]) -> &'b [B] {
    if let Some(range) = layout.as_range() {
        return &data[range];
    }
    let aside = &mut aside[..layout.len()];
    layout.pack(data, aside).expect(CHECKED);
    aside
}

/// Copies contiguous received bytes to their places.
fn unpack<B: Copy>(layout: &Layout, bytes: &[B], into: &mut [B]) {
    layout.unpack(bytes, into).expect(CHECKED);
}

/// All-to-all by layouts with one exchange at a time: in step k with the ranks k further on and k
/// back. At most one part each way needs a buffer.
async fn pairwise<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    parts: &[Layout],
    into: &mut [G::Byte],
    places: &[Layout],
) -> Result<(), Failure<G>> {
    let mut going = Scratch::new(longest_aside(parts));
    let mut coming = Scratch::new(longest_aside(places));
    for step in 1..team.size() {
        let (to, from) = (team.after(step), team.before(step));
        let goes = packed(&parts[to as usize], data, going.bytes());
        let place = &places[from as usize];
        if let Some(range) = place.as_range() {
            team.exchange(goes, to, &mut into[range], from).await?;
        } else {
            let comes = &mut coming.bytes()[..place.len()];
            team.exchange(goes, to, comes, from).await?;
            unpack(place, comes, into);
        }
    }
    Ok(())
}

/// All-to-all by layouts at once: all receives are posted and all sends are one chain. Paper 004's
/// "chain".
async fn chained<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    parts: &[Layout],
    into: &mut [G::Byte],
    places: &[Layout],
) -> Result<(), Failure<G>> {
    let others = || (1..team.size()).map(|distance| team.after(distance));
    let mut going = Scratch::new(others().map(|to| length_aside(&parts[to as usize])).sum());
    let mut rest = going.bytes();
    let mut chain = Vec::with_capacity(parts.len());
    for to in others() {
        let part = &parts[to as usize];
        let (aside, after) = rest.split_at_mut(length_aside(part));
        chain.push((to, packed(part, data, aside)));
        rest = after;
    }
    let direct = direct(team.rank(), places);
    let aside: Vec<u32> = others().filter(|from| !direct.contains(from)).collect();
    let mut coming = Scratch::new(aside.iter().map(|from| places[*from as usize].len()).sum());
    let comes = cut(&direct, places, into).chain(cut_aside(&aside, places, coming.bytes()));
    // Receives are posted first, so that early arrivals find their place.
    let comes = comes.map(|(from, place)| (from, Place::Whole(place))).collect();
    let (received, sent) = join(team.recv_all(comes), team.send_chain(chain)).await;
    sent.and(received)?;
    let mut bytes = &*coming.bytes();
    for from in aside {
        let place = &places[from as usize];
        let (here, after) = bytes.split_at(place.len());
        unpack(place, here, into);
        bytes = after;
    }
    Ok(())
}

/// The ranks other than `own` whose places are contiguous and overlap no other place, in the order
/// of memory.
fn direct(own: u32, places: &[Layout]) -> Vec<u32> {
    let mut spans: Vec<_> = (0..)
        .zip(places)
        .filter(|(from, place)| *from != own && !place.is_empty())
        .map(|(from, place)| (place.span(), from))
        .collect();
    spans.sort_unstable_by_key(|(span, from)| (span.start, *from));
    let mut end = 0;
    let mut direct = Vec::with_capacity(spans.len());
    for (at, (span, from)) in spans.iter().enumerate() {
        let behind = spans.get(at + 1).is_none_or(|(next, _)| span.end <= next.start);
        if behind && span.start >= end && places[*from as usize].as_range().is_some() {
            direct.push(*from);
        }
        end = end.max(span.end);
    }
    direct
}

/// The places of these ranks in the array.
fn cut<'b, B>(
    direct: &[u32],
    places: &[Layout],
    array: &'b mut [B],
) -> impl Iterator<Item = (u32, &'b mut [B])> {
    let (mut rest, mut taken) = (array, 0);
    direct.iter().map(move |from| {
        let span = places[*from as usize].span();
        let (_, behind) = std::mem::take(&mut rest).split_at_mut(span.start - taken);
        let (place, behind) = behind.split_at_mut(span.len());
        (rest, taken) = (behind, span.end);
        (*from, place)
    })
}

/// Consecutive buffers for the places of these ranks.
fn cut_aside<'b, B>(
    aside: &[u32],
    places: &[Layout],
    array: &'b mut [B],
) -> impl Iterator<Item = (u32, &'b mut [B])> {
    let mut rest = array;
    aside.iter().map(move |from| {
        let (place, behind) = std::mem::take(&mut rest).split_at_mut(places[*from as usize].len());
        rest = behind;
        (*from, place)
    })
}

/// All-to-all by layouts that replaces the data it sends: in step k rank r exchanges with rank k -
/// r.
///
/// In each step the ranks form pairs (or are alone), so a part needs a buffer only while a pair
/// exchanges.
async fn in_place<G: Group>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_nothing_reaches_into_are_received_where_they_belong() {
        let range = |range: std::ops::Range<usize>| Layout::from(range);
        let column = Layout::vector(40, 3, 1, 3);
        let places = [range(8..10), range(0..4), range(3..5), range(5..8), column, range(0..0)];
        assert_eq!(direct(9, &places), [3, 0], "1 and 2 overlap, 4 is scattered, 5 is empty");
        assert_eq!(direct(2, &places), [1, 3, 0], "a rank's own place is no hindrance");
        let inside = [range(0..9), range(2..3), range(4..5), range(9..10)];
        assert_eq!(direct(9, &inside), [3]);
        assert_eq!(direct(0, &[]), [0; 0]);
    }
}
