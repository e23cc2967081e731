//! Broadcast through a chain of all ranks, in segments that follow each other.
//!
//! ```text
//!   root   s0 s1 s2 s3
//!   next      s0 s1 s2 s3
//!   next         s0 s1 s2 s3
//! ```
//!
//! The last segment is always shorter than the others, if need be empty. So ranks that disagree on
//! the length meet a segment of the wrong length and do not wait for one that never comes.

use hikyaku_msg::join;

use crate::algorithms::broadcast::SEGMENT;
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Data;

pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let place = team.before(root);
    let previous = (place > 0).then(|| team.before(1));
    let next = (place + 1 < team.size()).then(|| team.after(1));
    let segments = data.length() / SEGMENT + 1;
    for step in 0..=segments {
        let segment = |number: usize| {
            let start = data.length().min(number * SEGMENT);
            start..data.length().min(start + SEGMENT)
        };
        let here = if step > 0 { segment(step - 1) } else { 0..0 };
        let (here, coming) = data.disjoint(here, segment(step));
        let receive = async {
            match previous {
                Some(previous) if step < segments => team.recv_part(coming, previous).await,
                _ => Ok(()),
            }
        };
        let pass_on = async {
            match next {
                Some(next) if step > 0 => team.send_part(here, next).await,
                _ => Ok(()),
            }
        };
        let (received, passed_on) = join(receive, pass_on).await;
        received.and(passed_on)?;
    }
    Ok(())
}
