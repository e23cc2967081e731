//! Reduce: all ranks' data combined, at one (MPI 5.0 §6.9.1).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | binomial | log2 n messages of m | one more for ordered reductions, if the root is not rank 0 |
//! | linear | n - 1 messages of m at the root | nothing but the root's memory |

mod binomial;
mod linear;

use std::future::Future;

use crate::call::Call;
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::reduction::Reduction;
use crate::select;
use crate::signature::Signature;

pub(crate) use binomial::run as by_binomial;

pub use crate::algorithms::reduce::Algorithm;

/// Combines `data` of all ranks; afterwards `data` of `root` is the result. What `data` of the
/// others is then is not said: ranks within a tree combine in it.
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or gave up.
pub fn reduce<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_reduce(group));
    let call = Call::new(
        group,
        Signature::new(Operation::Reduce)
            .root(root)
            .bytes(data.len())
            .combination(reduction.combination),
        algorithm as usize,
    );
    call.run(async move |team| {
        team.check_root(root)?;
        team.check_elements(data.len(), reduction.width)?;
        match algorithm {
            Algorithm::Binomial => binomial::run(team, data, root, &mut reduction).await,
            Algorithm::Linear => linear::run(team, data, root, &mut reduction).await,
        }
    })
}
