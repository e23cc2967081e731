//! Collectives of data with gaps that lie as they are: what goes to each rank and comes from it are
//! messages of their own, which are packed and unpacked a packet at a time.
//!
//! So it is where an algorithm only sends and receives a part; other ranks need not know of it. One
//! that keeps parts or sends them on, as a tree, wants them in one piece: then the caller packs
//! them.

use hikyaku_coll::{self as coll, Part, Place, alltoall, gather, scatter};
use hikyaku_rank::{Error, RankPort};

use crate::at_once::Done;
use crate::types::Area;

/// The ranks of an operation, and this one's place among them.
type Ranks<'c> = (&'c coll::CommunicatorGroup<'c, RankPort>, u32);

/// Whether some data with gaps are longer than a packet.
fn are_scattered<'a>(areas: impl IntoIterator<Item = &'a Area>) -> bool {
    areas.into_iter().any(Area::is_scattered)
}

/// Puts this rank's part for itself in its place. `false`: they differ in length.
fn put_own(part: &Area, place: &Area) -> bool {
    let fits = part.len() == place.len();
    if fits {
        part.copy_to(place);
    }
    fits
}

/// Gathers. `length` is what all parts have, if it is the same. `None`: the data go in one piece.
pub(crate) async fn gathered(
    (ranks, own): Ranks<'_>,
    (by, length): (Option<gather::Algorithm>, Option<usize>),
    mine: Option<&Area>,
    places: &[Area],
    root: u32,
) -> Option<Done> {
    let is_tree = by == Some(gather::Algorithm::Binomial);
    if is_tree || !are_scattered(mine.into_iter().chain(places)) {
        return None;
    }
    let mut mine = mine;
    if own == root
        && let Some(part) = mine.take()
        && !put_own(part, &places[own as usize])
    {
        return None;
    }
    let (mine, places) = (mine.map(Area::part), places.iter().map(Area::place).collect());
    let done = coll::gather_parts(ranks, by, length, mine, places, root).await;
    Some(done.map_err(Error::from))
}

/// Scatters, in the same way.
pub(crate) async fn scattered(
    (ranks, own): Ranks<'_>,
    (by, length): (Option<scatter::Algorithm>, Option<usize>),
    parts: &[Area],
    mine: Option<&Area>,
    root: u32,
) -> Option<Done> {
    let is_tree = by == Some(scatter::Algorithm::Binomial);
    if is_tree || !are_scattered(mine.into_iter().chain(parts)) {
        return None;
    }
    let mut mine = mine;
    if own == root
        && let Some(place) = mine.take()
        && !put_own(&parts[own as usize], place)
    {
        return None;
    }
    let (parts, mine) = (parts.iter().map(Area::part).collect(), mine.map(Area::place));
    let done = coll::scatter_parts(ranks, by, length, parts, mine, root).await;
    Some(done.map_err(Error::from))
}

/// Exchanges parts among all, in the same way.
pub(crate) async fn exchanged(
    (ranks, own): Ranks<'_>,
    (by, length): (Option<alltoall::Algorithm>, Option<usize>),
    parts: &[Area],
    places: &[Area],
) -> Option<Done> {
    let is_whole = matches!(by, Some(alltoall::Algorithm::Bruck | alltoall::Algorithm::Read));
    let own = own as usize;
    if is_whole || !are_scattered(parts.iter().chain(places)) || !put_own(&parts[own], &places[own])
    {
        return None;
    }
    let mut out: Vec<Part<'_, u8>> = parts.iter().map(Area::part).collect();
    let mut into: Vec<Place<'_, u8>> = places.iter().map(Area::place).collect();
    out[own] = Part::Whole(&[]);
    into[own] = Place::Whole(&mut []);
    let done = coll::alltoall_parts(ranks, by, length, out, into).await;
    Some(done.map_err(Error::from))
}
