//! All-to-all by Bruck's algorithm (Bruck et al. 1997): ⌈log2 n⌉ messages instead of n - 1.
//!
//! A part that has to go `d` ranks further goes in steps of the powers of two that make up `d`; all
//! parts that take the same step go in one message. Each part is sent about log2(n) / 2 times, so
//! this is for parts that are short against the cost of a message.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    length: usize,
) -> Result<(), Failure<G>> {
    let size = team.size();
    let block = |index: u32| index as usize * length..(index as usize + 1) * length;
    // Part `d` has to go `d` ranks further.
    let mut parts = vec![G::Byte::default(); data.len()];
    for distance in 0..size {
        parts[block(distance)].copy_from_slice(&data[block(team.after(distance))]);
    }
    let (mut going, mut coming) = (Vec::with_capacity(data.len()), Vec::new());
    let mut step = 1;
    while step < size {
        let those = || (0..size).filter(|distance| distance & step != 0);
        going.clear();
        those().for_each(|distance| going.extend_from_slice(&parts[block(distance)]));
        coming.resize(going.len(), G::Byte::default());
        team.exchange(&going, team.after(step), &mut coming, team.before(step)).await?;
        for (distance, place) in those().zip(0..) {
            parts[block(distance)].copy_from_slice(&coming[block(place)]);
        }
        step = step.saturating_mul(2);
    }
    // What had to go `d` ranks further has come from `d` ranks back.
    for distance in 0..size {
        into[block(team.before(distance))].copy_from_slice(&parts[block(distance)]);
    }
    Ok(())
}
