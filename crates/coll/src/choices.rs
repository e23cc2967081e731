//! Algorithms chosen by name: what a flag or an environment variable says in place of the table.

use thiserror::Error;

use crate::names::Operation;
use crate::{allgather, allreduce, alltoall, alltoallw, barrier, broadcast};
use crate::{gather, reduce, reduce_scatter, scan, scatter};

/// Algorithms that somebody has chosen by name; `None`: the table decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choices {
    /// For [`crate::barrier()`].
    pub barrier: Option<barrier::Algorithm>,
    /// For [`crate::broadcast()`].
    pub broadcast: Option<broadcast::Algorithm>,
    /// For [`crate::reduce()`].
    pub reduce: Option<reduce::Algorithm>,
    /// For [`crate::allreduce()`].
    pub allreduce: Option<allreduce::Algorithm>,
    /// For [`crate::gather()`] and [`crate::gatherv`].
    pub gather: Option<gather::Algorithm>,
    /// For [`crate::scatter()`] and [`crate::scatterv`].
    pub scatter: Option<scatter::Algorithm>,
    /// For [`crate::allgather()`] and [`crate::allgatherv`].
    pub allgather: Option<allgather::Algorithm>,
    /// For [`crate::alltoall()`] and [`crate::alltoallv`].
    pub alltoall: Option<alltoall::Algorithm>,
    /// For [`crate::alltoallw()`].
    pub alltoallw: Option<alltoallw::Algorithm>,
    /// For [`crate::reduce_scatter()`] and [`crate::reduce_scatter_block`].
    pub reduce_scatter: Option<reduce_scatter::Algorithm>,
    /// For [`crate::scan()`].
    pub scan: Option<scan::Algorithm>,
    /// For [`crate::exscan`].
    pub exscan: Option<scan::Algorithm>,
}

/// A name that is no operation, or no algorithm of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownChoice {
    /// There is no such operation.
    #[error("`{name}` is not a collective operation: there are {}", operations())]
    Operation {
        /// What was given.
        name: String,
    },
    /// The operation has no such algorithm.
    #[error("`{name}` is not an algorithm of {}: there are {}", .operation.name(),
        .operation.algorithms().join(", "))]
    Algorithm {
        /// The operation.
        operation: Operation,
        /// What was given.
        name: String,
    },
    /// It is not of the form `operation=algorithm`.
    #[error("`{given}` is not a choice: write operation=algorithm, such as allreduce=ring")]
    Form {
        /// What was given.
        given: String,
    },
}

fn operations() -> String {
    Operation::ALL.map(Operation::name).join(", ")
}

impl Choices {
    /// Chooses an algorithm by name.
    ///
    /// # Errors
    /// The operation has no such algorithm; the error lists those it has.
    pub fn choose(&mut self, operation: Operation, name: &str) -> Result<(), UnknownChoice> {
        let known = match operation {
            Operation::Barrier => set(&mut self.barrier, barrier::Algorithm::from_name(name)),
            Operation::Broadcast => set(&mut self.broadcast, broadcast::Algorithm::from_name(name)),
            Operation::Reduce => set(&mut self.reduce, reduce::Algorithm::from_name(name)),
            Operation::Allreduce => set(&mut self.allreduce, allreduce::Algorithm::from_name(name)),
            Operation::Gather => set(&mut self.gather, gather::Algorithm::from_name(name)),
            Operation::Scatter => set(&mut self.scatter, scatter::Algorithm::from_name(name)),
            Operation::Allgather => set(&mut self.allgather, allgather::Algorithm::from_name(name)),
            Operation::Alltoall => set(&mut self.alltoall, alltoall::Algorithm::from_name(name)),
            Operation::Alltoallw => set(&mut self.alltoallw, alltoallw::Algorithm::from_name(name)),
            Operation::ReduceScatter => {
                set(&mut self.reduce_scatter, reduce_scatter::Algorithm::from_name(name))
            }
            Operation::Scan => set(&mut self.scan, scan::Algorithm::from_name(name)),
            Operation::Exscan => set(&mut self.exscan, scan::Algorithm::from_name(name)),
        };
        if known {
            return Ok(());
        }
        Err(UnknownChoice::Algorithm { operation, name: name.to_string() })
    }

    /// Chooses as `operation=algorithm` says.
    ///
    /// # Errors
    /// It says something else, or a name is unknown.
    pub fn choose_written(&mut self, written: &str) -> Result<(), UnknownChoice> {
        let Some((operation, name)) = written.split_once('=') else {
            return Err(UnknownChoice::Form { given: written.to_string() });
        };
        match Operation::from_name(operation) {
            Some(operation) => self.choose(operation, name),
            None => Err(UnknownChoice::Operation { name: operation.to_string() }),
        }
    }
}

/// Takes what was found, if anything was; says whether.
fn set<T>(choice: &mut Option<T>, found: Option<T>) -> bool {
    let known = found.is_some();
    if known {
        *choice = found;
    }
    known
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_name_of_every_operation_can_be_chosen() {
        for operation in Operation::ALL {
            for name in operation.algorithms() {
                let mut choices = Choices::default();
                choices.choose_written(&format!("{}={name}", operation.name())).unwrap();
                assert_ne!(choices, Choices::default());
            }
        }
    }

    #[test]
    fn an_unknown_name_is_one_line_that_lists_the_known_ones() {
        let mut choices = Choices::default();
        let line = |choices: &mut Choices, written: &str| {
            choices.choose_written(written).unwrap_err().to_string()
        };
        assert_eq!(
            line(&mut choices, "allreduce=rings"),
            "`rings` is not an algorithm of allreduce: there are recursive-doubling, ring, \
             two-level"
        );
        assert!(line(&mut choices, "all=ring").starts_with(
            "`all` is not a collective operation: there are barrier, broadcast, reduce"
        ));
        assert_eq!(
            line(&mut choices, "ring"),
            "`ring` is not a choice: write operation=algorithm, such as allreduce=ring"
        );
        assert_eq!(choices, Choices::default());
    }
}
