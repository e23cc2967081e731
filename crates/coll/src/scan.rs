//! Scan and exscan: the data of the ranks up to, or before, each combined (MPI 5.0 §6.11).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m; one more for exscan | |
//! | linear | n - 1 messages of m, from rank to rank | each rank combines once |
//!
//! Both keep the order of the ranks.

use std::future::Future;

use hikyaku_msg::join;

use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::reduction::Reduction;
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::scan::Algorithm;

/// Combines `data` of rank 0 to this rank into `data` (MPI_Scan).
///
/// # Errors
/// [`crate::CollError`]: lengths differ, or a rank is gone or gave up.
pub fn scan<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    start(group, Operation::Scan, algorithm, data, reduction)
}

/// Combines `data` of rank 0 to the one before this rank into `data`; at rank 0 it stays as it is
/// (MPI_Exscan).
///
/// # Errors
/// As [`scan()`].
pub fn exscan<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    start(group, Operation::Exscan, algorithm, data, reduction)
}

/// One of the two.
fn start<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    operation: Operation,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_scan(group));
    let signature = Signature::new(operation).bytes(data.len()).combination(reduction.combination);
    let call = Call::new(group, signature, algorithm as usize);
    call.run(async move |team| {
        team.check_elements(data.len(), reduction.width)?;
        match (algorithm, operation == Operation::Scan) {
            (Algorithm::RecursiveDoubling, true) => {
                doubling_inclusive(team, 0, data, &mut reduction).await
            }
            (Algorithm::RecursiveDoubling, false) => {
                doubling_exclusive(team, data, &mut reduction).await
            }
            (Algorithm::Linear, true) => linear_inclusive(team, data, &mut reduction).await,
            (Algorithm::Linear, false) => linear_exclusive(team, data, &mut reduction).await,
        }
    })
}

/// Scan in log2 n steps (Hillis, Steele 1986): after step k a rank has combined its own and the
/// 2^k - 1 before it, and hands that to the rank 2^k further on.
///
/// Among the ranks from `first` on; the others stand by.
async fn doubling_inclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    first: u32,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let Some(place) = rank.checked_sub(first) else { return Ok(()) };
    let mut scratch = Scratch::new(data.len());
    let mut distance = 1;
    while distance < size - first {
        let hand_on = async {
            if distance < size - rank { team.send(data, rank + distance).await } else { Ok(()) }
        };
        let take = async {
            if distance <= place {
                team.recv(scratch.bytes(), rank - distance).await
            } else {
                Ok(())
            }
        };
        let (handed_on, taken) = join(hand_on, take).await;
        handed_on.and(taken)?;
        if distance <= place {
            (reduction.combine)(scratch.bytes(), data);
        }
        distance = distance.saturating_mul(2);
    }
    Ok(())
}

/// Every rank hands its data to the next; then it is a scan among the ranks that got some.
async fn doubling_exclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, last) = (team.rank(), team.size() - 1);
    let mut before = Scratch::new(if rank > 0 { data.len() } else { 0 });
    let hand_on = async { if rank < last { team.send(data, rank + 1).await } else { Ok(()) } };
    let take = async { if rank > 0 { team.recv(before.bytes(), rank - 1).await } else { Ok(()) } };
    let (handed_on, taken) = join(hand_on, take).await;
    handed_on.and(taken)?;
    if rank > 0 {
        data.copy_from_slice(before.bytes());
    }
    doubling_inclusive(team, 1, data, reduction).await
}

/// Scan from rank to rank: each adds its own to what came from the one before and passes it on.
async fn linear_inclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let rank = team.rank();
    if rank > 0 {
        let mut before = Scratch::new(data.len());
        team.recv(before.bytes(), rank - 1).await?;
        (reduction.combine)(before.bytes(), data);
    }
    if rank + 1 < team.size() { team.send(data, rank + 1).await } else { Ok(()) }
}

async fn linear_exclusive<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, last) = (team.rank(), team.size() - 1);
    if rank == 0 {
        return if last > 0 { team.send(data, 1).await } else { Ok(()) };
    }
    let mut before = Scratch::new(data.len());
    team.recv(before.bytes(), rank - 1).await?;
    if rank < last {
        (reduction.combine)(before.bytes(), data);
        team.send(data, rank + 1).await?;
    }
    data.copy_from_slice(before.bytes());
    Ok(())
}
