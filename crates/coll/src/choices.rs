//! Algorithms chosen by name, by a flag or an environment variable, in place of the table's choice.

use thiserror::Error;

use crate::algorithms::{
    allgather, allreduce, alltoall, alltoallw, barrier, broadcast, gather, reduce, reduce_scatter,
    scan, scatter,
};
use crate::names::Operation;
use crate::persistent::{Scheme, UnknownScheme};

/// Algorithms chosen by name; `None`: the table decides.
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
    /// For persistent operations.
    pub sessions: SessionChoices,
}

/// Operations whose persistent form shall use session queues where possible: those with the name
/// [`SESSION`]. Other forms of the operation, and calls that queues cannot serve, are not affected.
/// Also the scheme by which queues serve persistent exchanges with neighbours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionChoices {
    /// Persistent barriers.
    pub barrier: bool,
    /// Persistent broadcasts.
    pub broadcast: bool,
    /// Persistent allgathers.
    pub allgather: bool,
    /// Persistent allreduces.
    pub allreduce: bool,
    /// Persistent exchanges with neighbours for which the program has not chosen a scheme.
    pub exchange: Option<Scheme>,
}

/// The name that chooses session queues. It is not an algorithm of a call: see
/// [`crate::persistent`].
pub const SESSION: &str = "session";

/// The name of persistent exchanges where a [`Scheme`] is chosen for them. It is not an
/// [`Operation`]: the other forms of an exchange use messages and letters.
const EXCHANGE: &str = "exchange";

impl SessionChoices {
    /// All operations that can use session queues. Exchanges need no choice: they use queues unless
    /// another way is faster.
    pub const ALL: SessionChoices = SessionChoices {
        barrier: true,
        broadcast: true,
        allgather: true,
        allreduce: true,
        exchange: None,
    };

    /// The choice of an operation, if it can use session queues.
    fn of(&mut self, operation: Operation) -> Option<&mut bool> {
        match operation {
            Operation::Barrier => Some(&mut self.barrier),
            Operation::Broadcast => Some(&mut self.broadcast),
            Operation::Allgather => Some(&mut self.allgather),
            Operation::Allreduce => Some(&mut self.allreduce),
            _ => None,
        }
    }
}

/// The list of names that can be chosen for an operation.
fn names_of(operation: Operation) -> String {
    let mut names = operation.algorithms().to_vec();
    names.extend(SessionChoices::default().of(operation).map(|_| SESSION));
    names.join(", ")
}

/// A name that is not an operation, or not an algorithm of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownChoice {
    /// There is no such operation.
    #[error("`{name}` is not a collective operation: there are {}", operations())]
    Operation {
        /// The given name.
        name: String,
    },
    /// The operation has no such algorithm.
    #[error("`{name}` is not an algorithm of {}: there are {}", .operation.name(),
        names_of(*.operation))]
    Algorithm {
        /// The operation.
        operation: Operation,
        /// The given name.
        name: String,
    },
    /// There is no such scheme of exchanges.
    #[error(transparent)]
    Scheme(#[from] UnknownScheme),
    /// No call of the job could use it.
    #[error("{} by {name} {needs}: choose another algorithm or none", .operation.name())]
    Unsuitable {
        /// The operation.
        operation: Operation,
        /// The algorithm.
        name: String,
        /// The requirement that is not met.
        needs: &'static str,
    },
    /// It is not of the form `operation=algorithm`.
    #[error("`{given}` is not a choice: write operation=algorithm, such as allreduce=ring")]
    Form {
        /// The given text.
        given: String,
    },
}

fn operations() -> String {
    names().collect::<Vec<_>>().join(", ")
}

/// The names of all for which a choice exists.
fn names() -> impl Iterator<Item = &'static str> {
    Operation::ALL.into_iter().map(Operation::name).chain([EXCHANGE])
}

impl Choices {
    /// Chooses an algorithm by name. [`SESSION`] affects only the persistent form.
    ///
    /// # Errors
    /// The operation has no such algorithm; the error lists those it has.
    pub fn choose(&mut self, operation: Operation, name: &str) -> Result<(), UnknownChoice> {
        if let Some(chosen) = self.sessions.of(operation).filter(|_| name == SESSION) {
            *chosen = true;
            return Ok(());
        }
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

    /// The choices that are possible for calls whose parts differ in length; the table decides the
    /// rest.
    #[must_use]
    pub fn for_unequal_parts(self) -> Choices {
        Choices {
            gather: self
                .gather
                .filter(|by| matches!(by, gather::Algorithm::Chained | gather::Algorithm::Linear)),
            scatter: self.scatter.filter(|by| {
                matches!(by, scatter::Algorithm::Chained | scatter::Algorithm::Linear)
            }),
            allgather: self.allgather.filter(|by| *by != allgather::Algorithm::Read),
            alltoall: self.alltoall.filter(|by| {
                use alltoall::Algorithm::{Chained, Lines, Pairwise};
                matches!(by, Pairwise | Chained | Lines)
            }),
            ..self
        }
    }

    /// The choices that are possible where ranks share no lines; the table decides the rest.
    #[must_use]
    pub fn without_lines(self) -> Choices {
        Choices {
            barrier: self.barrier.filter(|by| *by != barrier::Algorithm::Lines),
            broadcast: self.broadcast.filter(|by| {
                !matches!(by, broadcast::Algorithm::Lines | broadcast::Algorithm::Read)
            }),
            reduce: self.reduce.filter(|by| *by != reduce::Algorithm::Lines),
            allreduce: self.allreduce.filter(|by| {
                !matches!(by, allreduce::Algorithm::Lines | allreduce::Algorithm::Read)
            }),
            gather: self.gather.filter(|by| *by != gather::Algorithm::Lines),
            scatter: self.scatter.filter(|by| *by != scatter::Algorithm::Lines),
            allgather: self.allgather.filter(|by| {
                !matches!(by, allgather::Algorithm::Lines | allgather::Algorithm::Read)
            }),
            alltoall: self
                .alltoall
                .filter(|by| !matches!(by, alltoall::Algorithm::Lines | alltoall::Algorithm::Read)),
            reduce_scatter: self.reduce_scatter.filter(|by| {
                !matches!(by, reduce_scatter::Algorithm::Lines | reduce_scatter::Algorithm::Read)
            }),
            scan: self.scan.filter(|by| *by != scan::Algorithm::Lines),
            exscan: self.exscan.filter(|by| *by != scan::Algorithm::Lines),
            ..self
        }
    }

    /// The choices that are possible for reductions in rank order; the table decides the rest.
    #[must_use]
    pub fn for_ordered(self) -> Choices {
        use reduce_scatter::Algorithm as Scattered;
        Choices {
            allreduce: self.allreduce.filter(|by| *by != allreduce::Algorithm::Ring),
            reduce_scatter: self
                .reduce_scatter
                .filter(|by| matches!(by, Scattered::ReduceThenScatter | Scattered::Lines)),
            ..self
        }
    }

    /// Applies a choice written as `operation=algorithm`.
    ///
    /// # Errors
    /// The text has another form, or a name is unknown.
    pub fn choose_written(&mut self, written: &str) -> Result<(), UnknownChoice> {
        let (operation, name) = parts(written)?;
        self.choose_by_name(operation, name)
    }

    fn choose_by_name(&mut self, operation: &str, name: &str) -> Result<(), UnknownChoice> {
        if operation == EXCHANGE {
            self.sessions.exchange = Some(name.parse()?);
            return Ok(());
        }
        match Operation::from_name(operation) {
            Some(operation) => self.choose(operation, name),
            None => Err(UnknownChoice::Operation { name: operation.to_string() }),
        }
    }
}

/// The two names in `operation=algorithm`.
fn parts(written: &str) -> Result<(&str, &str), UnknownChoice> {
    let form = || UnknownChoice::Form { given: written.to_owned() };
    written.split_once('=').ok_or_else(form)
}

/// Choices by environment variables: `HIKYAKU_COLL_ALLREDUCE=ring`.
impl Choices {
    /// The environment variable, with its value, that passes `operation=algorithm` to the ranks of
    /// a job.
    ///
    /// # Errors
    /// The text has another form, a name is unknown, or `ranks` ranks on `hosts` hosts cannot use
    /// it.
    pub fn as_variable(
        written: &str,
        ranks: u32,
        hosts: usize,
    ) -> Result<(String, String), UnknownChoice> {
        Choices::default().choose_written(written)?;
        let (operation, name) = parts(written)?;
        if let Some(operation) = Operation::from_name(operation) {
            check_in_job(operation, name, ranks, hosts)?;
        }
        Ok((variable(operation), name.to_owned()))
    }

    /// The choices of the environment. An empty variable chooses nothing.
    ///
    /// # Errors
    /// A variable names no algorithm of its operation; the error is returned with its name.
    pub fn from_environment(
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Choices, (String, UnknownChoice)> {
        let mut choices = Choices::default();
        for operation in names() {
            let variable = variable(operation);
            if let Some(name) = value_of(&variable).filter(|name| !name.is_empty()) {
                choices.choose_by_name(operation, &name).map_err(|error| (variable, error))?;
            }
        }
        Ok(choices)
    }
}

/// The variable of the operation with this name.
fn variable(operation: &str) -> String {
    format!("HIKYAKU_COLL_{}", operation.to_ascii_uppercase())
}

/// Checks whether a job of `ranks` ranks on `hosts` hosts can run an operation by an algorithm.
///
/// # Errors
/// No call of the job can; the error says what the algorithm needs.
pub fn check_in_job(
    operation: Operation,
    name: &str,
    ranks: u32,
    hosts: usize,
) -> Result<(), UnknownChoice> {
    let needs = match (operation, name) {
        (Operation::Barrier, "atomic-add" | "multicast-add" | "sync")
        | (Operation::Broadcast, "multicast")
            if hosts > 1 =>
        {
            "needs ranks that share memory, which those of several hosts do not"
        }
        (Operation::Broadcast, "binary-tree") if !ranks.is_power_of_two() => {
            "needs a number of ranks that is a power of two"
        }
        _ => return Ok(()),
    };
    Err(UnknownChoice::Unsuitable { operation, name: name.to_owned(), needs })
}

/// Sets `choice` to `found`, if it is `Some`; returns whether it is.
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
            for name in names_of(operation).split(", ") {
                let mut choices = Choices::default();
                choices.choose_written(&format!("{}={name}", operation.name())).unwrap();
                assert_ne!(choices, Choices::default());
            }
        }
    }

    #[test]
    fn session_queues_are_chosen_for_persistent_calls_alone() {
        let mut choices = Choices::default();
        choices.choose_written("allreduce=ring").unwrap();
        choices.choose_written("allreduce=session").unwrap();
        assert_eq!(choices.allreduce, Some(allreduce::Algorithm::Ring));
        assert!(choices.sessions.allreduce && !choices.sessions.barrier);
        let error = choices.choose_written("gather=session").unwrap_err().to_string();
        assert!(!error.ends_with("session"), "{error}");
        let error = choices.choose_written("barrier=session!").unwrap_err().to_string();
        assert!(error.ends_with("lines, session"), "{error}");
    }

    #[test]
    fn exchanges_have_schemes_by_the_same_variables() {
        let mut choices = Choices::default();
        choices.choose_written("exchange=combined").unwrap();
        let combined = SessionChoices { exchange: Some(Scheme::Combined), ..Default::default() };
        assert_eq!(choices, Choices { sessions: combined, ..Choices::default() });
        let pair = Choices::as_variable("exchange=mrc", 6, 2).unwrap();
        assert_eq!(pair, ("HIKYAKU_COLL_EXCHANGE".into(), "mrc".into()));
        let set = |name: &str| (name == "HIKYAKU_COLL_EXCHANGE").then(|| "mrc".to_owned());
        let chosen = Choices::from_environment(set).unwrap().sessions.exchange;
        assert_eq!(chosen, Some(Scheme::Mrc));
        let wrong = |name: &str| (name == "HIKYAKU_COLL_EXCHANGE").then(|| "tree".to_owned());
        let (variable, error) = Choices::from_environment(wrong).unwrap_err();
        let line = "`tree` is no scheme of exchanges: there are fast, mrc, combined and \
                    messages";
        assert_eq!((&*variable, &*error.to_string()), ("HIKYAKU_COLL_EXCHANGE", line));
        assert_eq!(choices.choose_written("exchange=tree").unwrap_err(), error);
        let error = choices.choose_written("exchanges=mrc").unwrap_err().to_string();
        assert!(error.ends_with(", exscan, exchange"), "{error}");
    }

    #[test]
    fn what_no_call_could_do_is_refused_and_what_some_cannot_is_left_to_the_table() {
        let refused = |operation, name, ranks, hosts| {
            check_in_job(operation, name, ranks, hosts).err().map(|error| error.to_string())
        };
        let line = refused(Operation::Broadcast, "multicast", 4, 2).unwrap();
        assert!(line.starts_with("broadcast by multicast needs ranks that share memory"), "{line}");
        assert_eq!(refused(Operation::Broadcast, "multicast", 4, 1), None);
        for name in ["atomic-add", "multicast-add", "sync"] {
            assert!(refused(Operation::Barrier, name, 2, 2).is_some());
            assert_eq!(refused(Operation::Barrier, name, 2, 1), None);
        }
        assert!(refused(Operation::Broadcast, "binary-tree", 6, 1).is_some());
        assert_eq!(refused(Operation::Broadcast, "binary-tree", 8, 1), None);
        assert_eq!(refused(Operation::Gather, "binomial", 3, 2), None);
        let mut choices = Choices::default();
        for written in ["gather=binomial", "scatter=binomial", "alltoall=bruck", "allreduce=ring"] {
            choices.choose_written(written).unwrap();
        }
        choices.choose_written("reduce_scatter=ring").unwrap();
        let left = choices.for_unequal_parts();
        assert_eq!((left.gather, left.scatter, left.alltoall), (None, None, None));
        assert_eq!(left.allreduce, choices.allreduce);
        choices.choose_written("alltoall=two-level").unwrap();
        assert_eq!(choices.for_unequal_parts().alltoall, None);
        let left = choices.for_ordered();
        assert_eq!((left.allreduce, left.reduce_scatter), (None, None));
        assert_eq!(left.gather, choices.gather);
        assert_eq!(choices.without_lines(), choices);
        for (operation, name) in
            Operation::ALL.into_iter().flat_map(|it| [(it, "lines"), (it, "read")])
        {
            let mut lines = choices;
            if lines.choose(operation, name).is_ok() {
                let mut left = lines.without_lines();
                assert_ne!(left, lines);
                left.choose(operation, name).unwrap();
                assert_eq!(left, lines);
            }
        }
        choices.choose_written("gather=linear").unwrap();
        choices.choose_written("reduce_scatter=reduce-then-scatter").unwrap();
        assert_eq!(choices.for_unequal_parts().gather, choices.gather);
        assert_eq!(choices.for_ordered().reduce_scatter, choices.reduce_scatter);
        for (name, stays) in [("lines", true), ("read", false), ("ring", true)] {
            choices.choose(Operation::Allgather, name).unwrap();
            assert_eq!(choices.for_unequal_parts().allgather.is_some(), stays, "{name}");
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
             two-level, lines, read, session"
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

    #[test]
    fn each_operation_has_a_variable_and_an_unknown_name_is_named_with_it() {
        let set = |name: &str| match name {
            "HIKYAKU_COLL_REDUCE_SCATTER" => Some("ring".to_string()),
            "HIKYAKU_COLL_BARRIER" => Some(String::new()),
            _ => None,
        };
        let choices = Choices::from_environment(set).unwrap();
        let ring = reduce_scatter::Algorithm::Ring;
        assert_eq!(choices, Choices { reduce_scatter: Some(ring), ..Choices::default() });
        let (variable, error) = Choices::from_environment(|_| Some("none".into())).unwrap_err();
        assert_eq!(variable, "HIKYAKU_COLL_BARRIER");
        assert!(error.to_string().starts_with("`none` is not an algorithm of barrier: there are"));
        let pair = Choices::as_variable("reduce_scatter=ring", 3, 1).unwrap();
        assert_eq!(pair, ("HIKYAKU_COLL_REDUCE_SCATTER".into(), "ring".into()));
        assert!(Choices::as_variable("broadcast=binary-tree", 6, 1).is_err());
        assert!(Choices::as_variable("ring", 6, 1).is_err());
    }
}
