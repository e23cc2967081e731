//! Allreduce: all ranks' data combined, at all (MPI 5.0 §6.9.6).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m, two messages more if n is no power of two | |
//! | ring | 2 (n - 1) exchanges of m / n | commutative reductions; for large m |
//! | two-level | a reduce and a broadcast within the node, and between nodes as the first | |
//! | lines | a look at all of the node; between nodes as the first | needs shared lines |
//! | read | copies of 2 m (n - 1) / n out of others' memory | needs lines of one node |
//!
//! Whatever the algorithm, each element is combined in one expression whose value goes to all
//! ranks, or in the same expression at every rank: results are bitwise equal.

mod lines;
mod read;
pub(crate) mod recursive_doubling;
mod ring;
mod two_level;

use std::future::Future;

use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::reduction::Reduction;
use crate::rounds::{NEEDS_LINES, Stop};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::allreduce::Algorithm;

/// Combines `data` of all ranks; afterwards every rank's `data` is the result. All ranks have the
/// same number of bytes.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, a rank is gone or gave up, or `algorithm` cannot keep the
/// order of an ordered reduction.
pub fn allreduce<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_allreduce(group, algorithm, data, reduction).end()
}

/// Starts [`allreduce()`]: it may be over.
///
/// # Errors
/// As there.
#[inline]
pub fn begin_allreduce<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let algorithm = select::resolve(group, algorithm, needs_lines, || {
        select::for_allreduce(group, data.len(), reduction.commutative)
    });
    let signature =
        Signature::new(Operation::Allreduce).bytes(data.len()).combination(reduction.combination);
    if !needs_lines(&algorithm) {
        let call = Call::new(group, signature, algorithm as usize);
        return Begun::Waits(run(group, call, algorithm, data, reduction));
    }
    let act = |team: &Team<'_, G>| match algorithm {
        Algorithm::Lines => lines::at_once(team, data, &mut reduction),
        _ => None,
    };
    match Call::on_lines(group, signature, algorithm as usize, act) {
        Begun::Done(done) => Begun::Done(done),
        Begun::Waits(call) => Begun::Waits(run(group, call, algorithm, data, reduction)),
    }
}

fn run<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    call: Call<'a, G>,
    algorithm: Algorithm,
    data: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        team.check_elements(data.len(), reduction.width)?;
        let mut algorithm = algorithm;
        if matches!(algorithm, Algorithm::Lines | Algorithm::Read) {
            let reads = algorithm == Algorithm::Read;
            match lines::run(team, data, &mut reduction, reads).await {
                Err(Stop::Lost) => {
                    let commutative = reduction.commutative;
                    algorithm = select::for_allreduce_by_messages(group, data.len(), commutative);
                }
                Err(Stop::Failed(failure)) => return Err(failure),
                Ok(()) => return Ok(()),
            }
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::RecursiveDoubling => {
                recursive_doubling::run(team, data, &mut reduction).await
            }
            Algorithm::Ring => ring::run(team, data, &mut reduction).await,
            Algorithm::TwoLevel => two_level::run(team, data, &mut reduction).await,
            Algorithm::Lines | Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
}
