//! All-to-all by layouts at once: all receives are posted, all sends are one chain. Paper 004's
//! "chain".

use hikyaku_msg::{Layout, join};

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::scratch::Scratch;

use super::{length_aside, packed, unpack};

pub(super) async fn run<G: Group>(
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
    // Receives first: what comes meanwhile finds its place.
    let (received, sent) = join(team.recv_all(comes.collect()), team.send_chain(chain)).await;
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

/// The ranks, other than `own`, whose places lie in one piece that no other place reaches into: in
/// the order of memory.
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

/// Their places in the array.
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

/// Places beside the array, one after the other.
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
