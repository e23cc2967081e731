//! Collectives of data with gaps that lie as they are: what goes to each rank and comes from it is
//! packed and unpacked a packet at a time. Other ranks need not know of it.

use std::borrow::Cow;

use hikyaku_coll::{self as coll, Part, Place, alltoall, gather, scatter};
use hikyaku_rank::{Error, RankPort};

use crate::at_once::Done;
use crate::types::Area;

/// The ranks of an operation, and this one's place among them.
type Ranks<'c> = (&'c coll::CommunicatorGroup<'c, RankPort>, u32);

/// Whether some data with gaps are longer than a packet.
pub(crate) fn are_scattered<'a>(areas: impl IntoIterator<Item = &'a Area>) -> bool {
    areas.into_iter().any(Area::is_scattered)
}

/// Puts this rank's part for itself in its place, if it has gaps and fits. What an algorithm puts
/// there otherwise, or calls wrong.
pub(crate) fn unless_put<'a>(part: Option<&'a Area>, place: &Area) -> Option<Cow<'a, [u8]>> {
    let part = part?;
    if part.memory().is_none() && part.len() == place.len() {
        part.copy_to(place);
        return None;
    }
    Some(part.data())
}

/// Puts this rank's part for itself in its place. `false`: they differ in length.
fn put_own(part: &Area, place: &Area) -> bool {
    let fits = part.len() == place.len();
    if fits {
        part.copy_to(place);
    }
    fits
}

/// Gathers blocks of any lengths. `None`: the data go in one piece.
pub(crate) async fn gathered(
    (ranks, own): Ranks<'_>,
    by: Option<gather::Algorithm>,
    mine: Option<&Area>,
    places: &[Area],
    root: u32,
) -> Option<Done> {
    if !are_scattered(mine.into_iter().chain(places)) {
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
    let done = coll::gatherv_parts(ranks, by, mine, places, root).await;
    Some(done.map_err(Error::from))
}

/// Scatters, in the same way.
pub(crate) async fn scattered(
    (ranks, own): Ranks<'_>,
    by: Option<scatter::Algorithm>,
    parts: &[Area],
    mine: Option<&Area>,
    root: u32,
) -> Option<Done> {
    if !are_scattered(mine.into_iter().chain(parts)) {
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
    let done = coll::scatterv_parts(ranks, by, parts, mine, root).await;
    Some(done.map_err(Error::from))
}

/// Exchanges parts among all, in the same way.
pub(crate) async fn exchanged(
    (ranks, own): Ranks<'_>,
    by: Option<alltoall::Algorithm>,
    parts: &[Area],
    places: &[Area],
) -> Option<Done> {
    let own = own as usize;
    if !are_scattered(parts.iter().chain(places)) || !put_own(&parts[own], &places[own]) {
        return None;
    }
    let mut out: Vec<Part<'_, u8>> = parts.iter().map(Area::part).collect();
    let mut into: Vec<Place<'_, u8>> = places.iter().map(Area::place).collect();
    out[own] = Part::Whole(&[]);
    into[own] = Place::Whole(&mut []);
    let done = coll::alltoallv_parts(ranks, by, out, into).await;
    Some(done.map_err(Error::from))
}

/// Exchanges parts among all in their place, in the same way.
pub(crate) async fn exchanged_in_place(
    ranks: &coll::CommunicatorGroup<'_, RankPort>,
    places: &[Area],
) -> Option<Done> {
    if !are_scattered(places) {
        return None;
    }
    let mut places: Vec<Place<'_, u8>> = places.iter().map(Area::place).collect();
    let done = coll::alltoallv_in_place_scattered(ranks, places.iter_mut().collect()).await;
    Some(done.map_err(Error::from))
}
