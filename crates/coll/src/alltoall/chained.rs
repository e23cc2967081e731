//! All-to-all at once: all receives are posted, all sends are one chain. Paper 004's "chain".

use hikyaku_msg::join;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

use super::own_part;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    parts: &[&[G::Byte]],
    mut into: Vec<&mut [G::Byte]>,
) -> Result<(), Failure<G>> {
    own_part(team, parts, &mut into)?;
    let others = (1..team.size()).map(|distance| team.after(distance));
    let chain = others.map(|to| (to, parts[to as usize])).collect();
    let places = (0..).zip(into).filter(|(from, _)| *from != team.rank()).collect();
    // Receives first: what comes meanwhile finds its place.
    let (received, sent) = join(team.recv_all(places), team.send_chain(chain)).await;
    sent.and(received)
}
