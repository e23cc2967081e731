//! Every function of MPI 5.0 with the kinds of its arguments: one table, and the files generated
//! from it.
//!
//! ```text
//!   table.txt ──► rust.rs     the functions of both shared libraries (their build scripts)
//!                 header.rs   mpi.h, with constants.txt and mpi.h.in
//!                 coverage.rs what is built, by chapter
//!                 wrong/      a program that calls every function wrongly (tests)
//! ```
//!
//! A line of the table is a function without its `MPI_`; `+c` means that there is also a form with
//! large counts (MPI 5.0 §19.2), and `-` that the function is not implemented yet; `A = B` defines
//! another name for a function above. A kind states the purpose of an argument, and so its type in
//! C and in both forms: a `count` is an `int` or an `MPI_Count`. An argument of kind `rank` or
//! `tag` may be a constant, which differs between binary interfaces; one of kind `int` may not.

mod coverage;
mod header;
mod kind;
mod rust;
mod wrong;

use std::fmt;

pub use coverage::{Chapter, Coverage};
pub use header::{Constant, constants, header};
pub use kind::{Kind, Object};
pub use rust::functions;
pub use wrong::wrong_calls;

/// The table as text.
const TABLE: &str = include_str!("../table.txt");

/// A function of MPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name without `MPI_`.
    pub name: &'static str,
    /// The function that implements it, usually the function itself.
    pub does: &'static str,
    /// The chapter of the standard that contains it.
    pub chapter: &'static str,
    /// Its arguments in their order.
    pub arguments: Vec<Argument>,
    /// Its return type; `None` for an error code.
    pub returns: Option<&'static str>,
    /// Whether there is a form with large counts, whose name ends in `_c`.
    pub has_large: bool,
    /// Whether it is implemented.
    pub is_built: bool,
}

impl Function {
    /// Whether it was removed from the standard.
    pub fn is_removed(&self) -> bool {
        self.chapter == REMOVED
    }

    /// Whether it may be called before MPI_Init and after MPI_Finalize (MPI 5.0 §11.4.1). These are
    /// functions that begin MPI, or only convert a value.
    pub fn is_always_allowed(&self) -> bool {
        const NAMES: [&str; 9] = [
            "Init",
            "Init_thread",
            "Initialized",
            "Finalized",
            "Get_version",
            "Get_library_version",
            "Session_init",
            "Session_create_errhandler",
            "Errhandler_free",
        ];
        const STARTS: [&str; 6] =
            ["Abi_", "Info_", "Add_error_", "Remove_error_", "Error_", "Session_call"];
        self.returns.is_some()
            || NAMES.contains(&self.name)
            || STARTS.iter().any(|start| self.name.starts_with(start))
    }

    /// Whether any thread may call it while another thread is in MPI, whatever the level of thread
    /// support. These are the functions that are always allowed (MPI 5.0 §11.4.1), those by which a
    /// thread finds out whether it may call MPI, and the one that ends the job.
    pub fn is_for_any_thread(&self) -> bool {
        self.is_always_allowed() || ["Is_thread_main", "Query_thread", "Abort"].contains(&self.name)
    }
}

/// An argument of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the standard.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

impl Argument {
    /// The error class of a wrong value, as in `hikyaku_mpi::Class`. `None`: every value is right,
    /// or a wrong one is named where it is detected, as null pointers are.
    fn class(&self) -> Option<&'static str> {
        Some(match self.kind {
            Kind::Handle(object)
            | Kind::HandleOrNull(object)
            | Kind::HandleInOut(object)
            | Kind::HandlesIn(object)
            | Kind::HandlesInOut(object) => object.class(),
            Kind::Rank => "Rank",
            Kind::Root => "Root",
            Kind::Tag => "Tag",
            Kind::Keyval | Kind::KeyvalInOut => "Keyval",
            Kind::Count if self.name.ends_with("size") => "Arg",
            Kind::Int | Kind::Wide if self.name.ends_with("count") => "Count",
            Kind::Count | Kind::CountsIn => "Count",
            Kind::BufferIn | Kind::BufferOut | Kind::BufferInOut => "Buffer",
            Kind::Int | Kind::Wide | Kind::Code | Kind::Function(_) => "Arg",
            Kind::IntsIn | Kind::RangesIn | Kind::DisplacementsIn => "Arg",
            Kind::AddressesIn | Kind::ExtentsIn => "Arg",
            _ => return None,
        })
    }
}

/// A line of the table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The line number, from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the table of MPI's functions: {}", self.line, self.what)
    }
}

impl std::error::Error for Unreadable {}

/// The chapter of functions that were removed from the standard.
const REMOVED: &str = "removed";

/// All functions of the standard, in the order of the table.
///
/// # Errors
/// A line of the table is invalid.
pub fn table() -> Result<Vec<Function>, Unreadable> {
    let mut all = table_with_removed()?;
    all.retain(|function| !function.is_removed());
    Ok(all)
}

/// [`table`] with the functions of MPI 1 that MPI 3.0 removed: programs may still call them.
///
/// # Errors
/// As [`table`].
pub fn table_with_removed() -> Result<Vec<Function>, Unreadable> {
    read(TABLE)
}

fn read(text: &'static str) -> Result<Vec<Function>, Unreadable> {
    let mut functions = Vec::new();
    let mut chapter = None;
    for (number, line) in (1..).zip(text.lines()) {
        let fail = |what: String| Unreadable { line: number, what };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            chapter = Some(name);
            continue;
        }
        let chapter = chapter.ok_or_else(|| fail("it stands before the first chapter".into()))?;
        let read = match line.split_once(" = ") {
            Some((name, other)) => same_as(&functions, name, other, chapter),
            None => function(line, chapter),
        };
        functions.push(read.map_err(fail)?);
    }
    Ok(functions)
}

/// A function under another name.
fn same_as(
    known: &[Function],
    name: &'static str,
    other: &str,
    chapter: &'static str,
) -> Result<Function, String> {
    let found = known.iter().find(|function| function.name == other);
    let found = found.ok_or(format!("there is no function `{other}` above"))?;
    Ok(Function { name, chapter, has_large: false, ..found.clone() })
}

fn function(line: &'static str, chapter: &'static str) -> Result<Function, String> {
    let (is_built, line) = line.strip_prefix("- ").map_or((true, line), |rest| (false, rest));
    let (head, rest) = line.split_once('(').ok_or("it has no arguments")?;
    let (inside, tail) = rest.rsplit_once(')').ok_or("its arguments do not end")?;
    let (name, has_large) = head.strip_suffix(" +c").map_or((head, false), |name| (name, true));
    let returns = match tail.trim() {
        "" => None,
        other => Some(other.strip_prefix("-> ").ok_or(format!("`{other}` is no result"))?),
    };
    let argument = |text: &'static str| {
        let (name, kind) = text.split_once(": ").ok_or(format!("`{text}` has no kind"))?;
        let kind = Kind::of(kind).ok_or(format!("there is no kind `{kind}`"))?;
        Ok::<_, String>(Argument { name, kind })
    };
    let listed = inside.split(", ").filter(|text| !text.is_empty());
    let arguments = listed.map(argument).collect::<Result<_, _>>()?;
    Ok(Function { name, does: name, chapter, arguments, returns, has_large, is_built })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_function_of_the_standard_is_there_once() {
        let table = table().unwrap();
        let names: BTreeSet<&str> = table.iter().map(|function| function.name).collect();
        assert_eq!(names.len(), table.len());
        // MPI 5.0: 662 prototypes with the large ones, as in `mpi_abi.h` of MPICH 5.0.2. Two pairs
        // differ in more than counts, and so have lines of their own.
        let forms: usize = table.iter().map(|function| 1 + usize::from(function.has_large)).sum();
        assert_eq!(forms, 662);
        for name in ["Send", "Init_thread", "Type_get_contents_c", "Session_get_pset_info"] {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn what_was_removed_is_apart_and_does_what_its_successor_does() {
        let all = table_with_removed().unwrap();
        let removed: Vec<_> = all.iter().filter(|function| function.is_removed()).collect();
        assert_eq!(removed.len(), 10);
        assert_eq!(all.len(), removed.len() + table().unwrap().len());
        let old = removed.iter().find(|function| function.name == "Type_struct").unwrap();
        let new = all.iter().find(|function| function.name == "Type_create_struct").unwrap();
        assert_eq!((old.does, &old.arguments), ("Type_create_struct", &new.arguments));
        assert!(!old.has_large && old.is_built);
    }

    #[test]
    fn a_line_says_all_of_a_function() {
        let text = "[messages]\n# a remark\n- Recv +c(buf: buffer_out, count: count) -> double";
        let [recv] = &read(text).unwrap()[..] else { panic!() };
        assert_eq!((recv.name, recv.chapter, recv.returns), ("Recv", "messages", Some("double")));
        assert!(recv.has_large && !recv.is_built);
        assert_eq!(recv.arguments[1], Argument { name: "count", kind: Kind::Count });
    }

    #[test]
    fn what_is_not_known_names_its_line() {
        for (text, what) in [
            ("Send(buf: buffer_in)", "it stands before the first chapter"),
            ("[a]\n\nSend", "it has no arguments"),
            ("[a]\n\nSend(buf: spam)", "there is no kind `spam`"),
            ("[a]\n\nSend(buf)", "`buf` has no kind"),
            ("[a]\n\nSend() int", "`int` is no result"),
            ("[a]\n\nSend = Recv", "there is no function `Recv` above"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.what, what);
            assert_eq!(error.line, text.lines().count());
            assert!(error.to_string().starts_with("line "));
        }
    }
}
