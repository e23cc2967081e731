//! Scan and exscan: the data of the ranks up to, or before, each combined (MPI 5.0 §6.11).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m; one more for exscan | |
//! | linear | n - 1 messages of m, from rank to rank | each rank combines once |
//!
//! Both keep the order of the ranks.

mod linear;
mod recursive_doubling;

use std::future::Future;

use crate::call::Call;
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::reduction::Reduction;
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
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_scan(group));
    let call = Call::new(
        group,
        Signature::new(Operation::Scan).bytes(data.len()).combination(reduction.combination),
        algorithm as usize,
    );
    call.run(async move |team| {
        team.check_elements(data.len(), reduction.width)?;
        match algorithm {
            Algorithm::RecursiveDoubling => {
                recursive_doubling::inclusive(team, 0, data, &mut reduction).await
            }
            Algorithm::Linear => linear::inclusive(team, data, &mut reduction).await,
        }
    })
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
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_scan(group));
    let call = Call::new(
        group,
        Signature::new(Operation::Exscan).bytes(data.len()).combination(reduction.combination),
        algorithm as usize,
    );
    call.run(async move |team| {
        team.check_elements(data.len(), reduction.width)?;
        match algorithm {
            Algorithm::RecursiveDoubling => {
                recursive_doubling::exclusive(team, data, &mut reduction).await
            }
            Algorithm::Linear => linear::exclusive(team, data, &mut reduction).await,
        }
    })
}
