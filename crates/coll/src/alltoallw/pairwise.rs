//! All-to-all by layouts with one exchange at a time: in step k with the ranks k further on and k
//! back. No more than one part each way is beside its array.

use hikyaku_msg::Layout;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::scratch::Scratch;

use super::{longest_aside, packed, unpack};

pub(super) async fn run<G: Group>(
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
