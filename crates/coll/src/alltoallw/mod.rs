//! All-to-all of parts that lie anywhere: a layout for what goes to each rank and one for what
//! comes from it (MPI_Alltoallw, MPI 5.0 §6.8).
//!
//! | algorithm | longest path | memory beside the arrays |
//! |---|---|---|
//! | pairwise | n - 1 exchanges of m, one after the other | the longest scattered part, each way |
//! | chained | n - 1 messages of m, all at once | all scattered parts, each way |
//!
//! A part that lies in one piece goes from and to its place. One that does not is packed before it
//! is sent, and unpacked when it has come. Bruck's algorithm is not among them: ranks would have to
//! know the lengths of others' parts.
//!
//! Layouts are in bytes, which is what MPI's counts, displacements and types come to. Those of what
//! comes must not overlap: which rank's bytes would stay is not said.

mod chained;
mod in_place;
mod pairwise;

use std::future::Future;

use hikyaku_msg::Layout;

use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::alltoallw::Algorithm;

/// Copies what `parts[s]` of rank `r` says of its `data` to where `places[r]` of rank `s` says in
/// its `into`. The two have the same length. Layouts are in bytes.
///
/// # Errors
/// [`crate::CollError`]: another number of layouts than ranks, one that reaches outside its array,
/// lengths that differ, or a rank is gone or gave up.
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
            Algorithm::Pairwise => pairwise::run(team, data, parts, into, places).await,
            Algorithm::Chained => chained::run(team, data, parts, into, places).await,
        }
    })
}

/// [`alltoallw()`] where what comes replaces what goes (MPI_IN_PLACE): what `layouts[s]` of rank
/// `r` and `layouts[r]` of rank `s` say are as long and change places. By pairs of ranks.
///
/// # Errors
/// As [`alltoallw()`].
pub fn alltoallw_in_place<'a, G: Group>(
    group: &'a G,
    data: &'a mut [G::Byte],
    layouts: &'a [Layout],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let call = Call::new(group, Signature::new(Operation::Alltoallw), Algorithm::Pairwise as usize);
    call.run(async move |team| {
        check(team, "the list of layouts, one a rank,", layouts, data.len())?;
        in_place::run(team, data, layouts).await
    })
}

/// Whether there is a layout for each rank, within an array of `length` bytes.
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

/// Bytes that a part needs beside its array to be in one piece.
fn length_aside(layout: &Layout) -> usize {
    if layout.as_range().is_some() { 0 } else { layout.len() }
}

/// The longest of parts that need a place beside their array.
fn longest_aside(layouts: &[Layout]) -> usize {
    layouts.iter().map(length_aside).max().unwrap_or(0)
}

const CHECKED: &str = "layouts were checked against their arrays";

/// A part in one piece: where it lies, or packed into the front of `aside`.
fn packed<'b, B: Copy>(layout: &Layout, data: &'b [B], aside: &'b mut [B]) -> &'b [B] {
    if let Some(range) = layout.as_range() {
        return &data[range];
    }
    let aside = &mut aside[..layout.len()];
    layout.pack(data, aside).expect(CHECKED);
    aside
}

/// Puts what came in one piece to where it belongs.
fn unpack<B: Copy>(layout: &Layout, bytes: &[B], into: &mut [B]) {
    layout.unpack(bytes, into).expect(CHECKED);
}
