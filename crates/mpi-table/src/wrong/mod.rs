//! Generates a program in C that calls every function wrongly, with one wrong argument at a time.
//!
//! The kinds of the arguments determine everything: a right value of each, and the wrong values
//! with the standard's error class for them ([`values`]). Each function is first called with right
//! values only, which must succeed. Only then does the refusal of one wrong value among them prove
//! anything. Lists state the exceptions, with a reason each ([`lists`]).
//!
//! `tests/mpi/wrong.h` is the other half: the objects that the values name, and the loop over the
//! trials.

mod lists;
mod values;

use std::fmt::Write as _;

use crate::{Argument, Function, Kind};
use lists::{ALONE, INSTEAD, UNCALLED, first};

/// One wrong value of one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wrong {
    /// The way in which it is wrong.
    how: &'static str,
    /// The value in C.
    value: String,
    /// The error class, without `MPI_`.
    class: &'static str,
}

/// A function in one of its forms.
#[derive(Debug, Clone, Copy)]
struct Form<'a> {
    function: &'a Function,
    large: bool,
}

impl Form<'_> {
    fn name(self) -> String {
        format!("MPI_{}{}", self.function.name, if self.large { "_c" } else { "" })
    }
}

/// The trials of the program, to be compiled after `tests/mpi/wrong.h`.
pub fn wrong_calls(table: &[Function]) -> String {
    let mut trials = Trials::default();
    let called = table.iter().filter(|it| it.is_built && it.returns.is_none());
    for function in called {
        for large in [false, true] {
            if (!large || function.has_large) && first(UNCALLED, function, "", "").is_none() {
                trials.add_all(Form { function, large });
            }
        }
    }
    let Trials { calls, rows, .. } = trials;
    format!("{calls}\nconst struct trial trials[] = {{\n{rows}{{0, 0, 0, 0, 0}}}};\n")
}

/// The generated text: functions that make one call each, and a table of them.
#[derive(Default)]
struct Trials {
    calls: String,
    rows: String,
    count: usize,
}

impl Trials {
    /// Adds all trials of a function: the right call first.
    fn add_all(&mut self, form: Form<'_>) {
        let alone = first(ALONE, form.function, "", "");
        let class = if alone.is_some() { "NOT_RUN" } else { "MPI_SUCCESS" };
        self.add(form, "", None, class);
        for (at, argument) in form.function.arguments.iter().enumerate() {
            for wrong in values::wrong(form, argument) {
                let said = first(INSTEAD, form.function, argument.name, wrong.how);
                let class = said.map_or(wrong.class, |row| row.instead);
                self.calls.extend(said.map(|row| format!("/* {} */\n", row.why)));
                if class != "-" {
                    let what = format!("{} {}", argument.name, wrong.how.replace('"', "'"));
                    self.add(form, &what, Some((at, &wrong.value)), &format!("MPI_{class}"));
                }
            }
        }
    }

    fn add(&mut self, form: Form<'_>, what: &str, wrong: Option<(usize, &str)>, class: &str) {
        let value = |(at, argument): (usize, &Argument)| match wrong {
            Some((other, value)) if other == at => value.to_owned(),
            _ => values::right(form, argument, wrong.is_none() || class == "MPI_SUCCESS"),
        };
        let given: Vec<String> = form.function.arguments.iter().enumerate().map(value).collect();
        let (name, given, number) = (form.name(), given.join(", "), self.count);
        let (before, after) = lists::around(form.function);
        let is_early = wrong.is_none() && !form.function.is_always_allowed();
        // Writing to a string cannot fail.
        let body = format!("{before}int code = {name}({given}); {after}return code;");
        let _ = writeln!(self.calls, "static int t{number}(void) {{ {body} }}");
        let _ = writeln!(
            self.rows,
            "    {{\"{name}\", \"{what}\", {class}, t{number}, {}}},",
            u8::from(is_early)
        );
        self.count += 1;
    }
}

/// Whether a function sends from memory or receives into it, so that its types must be committed.
fn communicates(function: &Function) -> bool {
    let is_buffer =
        |it: &Argument| matches!(it.kind, Kind::BufferIn | Kind::BufferOut | Kind::BufferInOut);
    function.arguments.iter().any(is_buffer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::table;

    #[test]
    fn every_argument_of_a_send_is_wrong_once() {
        let all = table().unwrap();
        let send: Vec<Function> = all.into_iter().filter(|it| it.name == "Send").collect();
        let text = wrong_calls(&send);
        for line in [
            "MPI_Send(in, 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_SELF)",
            "MPI_Send(in, -1, MPI_INT, 0, 7, MPI_COMM_SELF)",
            "MPI_Send_c(in, 1, freed.type, 0, 7, MPI_COMM_SELF)",
            "{\"MPI_Send\", \"tag negative\", MPI_ERR_TAG, ",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn every_line_of_the_lists_is_used() {
        let all = table().unwrap();
        assert_eq!(lists::unused(&all), Vec::<String>::new(), "nothing is as these lines say");
    }

    #[test]
    fn every_argument_is_wrong_in_some_way_or_cannot_be() {
        let mut without = Vec::new();
        let table = table().unwrap();
        let is_called = |it: &&Function| {
            it.is_built && it.returns.is_none() && first(UNCALLED, it, "", "").is_none()
        };
        for function in table.iter().filter(is_called) {
            for argument in &function.arguments {
                let form = Form { function, large: false };
                if values::wrong(form, argument).is_empty() && !lists::is_any(function, argument) {
                    without.push(format!("{}: {}", function.name, argument.name));
                }
            }
        }
        assert_eq!(without, Vec::<String>::new());
    }
}
