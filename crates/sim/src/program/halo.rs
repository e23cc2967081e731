//! Halo exchange: a grid of ranks that swap faces with their neighbours and compute in between.

use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::{ProgramError, check, start};
use crate::job::Rank;
use crate::topology::Grid;

/// An exchange with two neighbours in every dimension of a torus of ranks.
#[derive(Debug, Clone)]
pub struct Halo {
    grid: Rc<Grid>,
    /// Bytes of a face.
    bytes: u64,
    steps: u32,
    /// Computing time of a step.
    compute: Time,
}

impl Halo {
    /// `steps` exchanges of `bytes` a face; every rank computes for a time after each. Ranks are
    /// numbered along `extent`, first dimension fastest.
    pub fn new(extent: &[u32], bytes: u64, steps: u32, compute: Time) -> Halo {
        Halo { grid: Rc::new(Grid::torus(extent)), bytes, steps, compute }
    }

    /// One rank's part.
    ///
    /// # Errors
    /// A call failed, or a message arrived changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        // Faces by tag: dimension and direction of travel. An extent of one has no neighbours.
        let sizes = self.grid.dimensions().iter().map(|dimension| dimension.size);
        let faces: Vec<(usize, bool)> = sizes
            .enumerate()
            .filter(|(_, size)| *size > 1)
            .flat_map(|(d, _)| [(d, false), (d, true)])
            .collect();
        let tag = |(d, up): (usize, bool)| d as i32 * 2 + i32::from(up);
        let other = |d, up| self.grid.neighbour(rank.rank(), d, up).unwrap_or(rank.rank());
        let mut incoming = Vec::with_capacity(faces.len());
        let mut outgoing = Vec::with_capacity(faces.len());
        for step in 0..self.steps {
            let exchange = rank.enter("exchange");
            let posts =
                faces.iter().map(|&(d, up)| rank.irecv(Some(other(d, !up)), Some(tag((d, up)))));
            incoming.extend(posts);
            for &(d, up) in &faces {
                let number = step * 8 + tag((d, up)) as u32;
                outgoing.push(start(&rank, other(d, up), tag((d, up)), (self.bytes, number))?);
            }
            for (message, &face) in rank.wait_all(&mut incoming).await.iter().zip(&faces) {
                let number = step * 8 + tag(face) as u32;
                check(&rank, message, self.bytes, number)?;
            }
            for request in outgoing.drain(..) {
                request.await;
            }
            drop(exchange);
            rank.compute(self.compute);
        }
        Ok(())
    }
}

/// Extents of a grid of this many dimensions for `ranks` ranks, as equal as the number allows, the
/// largest first.
pub fn balanced(ranks: u32, dimensions: u32) -> Vec<u32> {
    let mut extent = Vec::new();
    let mut rest = ranks.max(1);
    for left in (1..=dimensions.max(1)).rev() {
        // The largest divisor that is not above the root that the rest of the dimensions share.
        let fits = |d: u32| d.checked_pow(left).is_some_and(|power| power <= rest);
        let divisor =
            (1..=rest).take_while(|&d| fits(d)).filter(|&d| rest.is_multiple_of(d)).last();
        let divisor = if left == 1 { rest } else { divisor.unwrap_or(1) };
        extent.push(divisor);
        rest /= divisor;
    }
    extent.sort_unstable_by(|one, other| other.cmp(one));
    extent
}
