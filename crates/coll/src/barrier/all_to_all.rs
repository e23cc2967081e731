//! Barrier by n (n - 1) messages: paper 003's A, which grows with n at every rank.

use hikyaku_msg::join;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Place;

pub(super) async fn run<G: Group>(team: &Team<'_, G>) -> Result<(), Failure<G>> {
    // From the next rank on, so that not everyone tells rank 0 first.
    let others = || (1..team.size()).map(|distance| team.after(distance));
    let news = others().map(|to| (to, &[][..])).collect();
    let places = others().map(|from| (from, Place::Whole(&mut []))).collect();
    let (told, heard) = join(team.send_chain(news), team.recv_all(places)).await;
    told.and(heard)
}
