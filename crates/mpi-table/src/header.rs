//! `mpi.h`: types and callbacks from `mpi.h.in`, constants from `constants.txt`, prototypes from
//! the table of functions.

use std::fmt::Write as _;

use crate::kind::Object;
use crate::{Function, Unreadable};

/// The text around constants and functions.
const FRAME: &str = include_str!("../mpi.h.in");

/// The constants as text.
const CONSTANTS: &str = include_str!("../constants.txt");

/// A constant of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// Its name without `MPI_`.
    pub name: &'static str,
    /// Its type in C.
    pub of: &'static str,
    /// Its number, or its address if it is not a number.
    pub value: i64,
}

/// The text of `mpi.h`.
///
/// # Errors
/// A line of a table is invalid.
pub fn header() -> Result<String, Unreadable> {
    let functions = prototypes(&crate::table_with_removed()?);
    let mut defined = String::new();
    for constant in constants()? {
        // Writing to a string cannot fail.
        let _ = writeln!(defined, "{}", definition(&constant));
    }
    let frame = FRAME.replace("@constants@", defined.trim_end());
    Ok(frame.replace("@functions@", functions.trim_end()))
}

/// The definition of a constant. A number has no parentheses, so that the preprocessor can compare
/// it.
fn definition(Constant { name, of, value }: &Constant) -> String {
    match *of {
        "int" if *value < 0 => format!("#define MPI_{name} ({value})"),
        "int" => format!("#define MPI_{name} {value}"),
        "MPI_Offset" => format!("#define MPI_{name} ((MPI_Offset){value})"),
        pointer => format!("#define MPI_{name} (({pointer}){value:#x})"),
    }
}

/// All constants, in the order of their table.
///
/// # Errors
/// A line of the table is invalid.
pub fn constants() -> Result<Vec<Constant>, Unreadable> {
    read(CONSTANTS)
}

fn read(text: &'static str) -> Result<Vec<Constant>, Unreadable> {
    let mut all: Vec<Constant> = Vec::new();
    let mut of = "int";
    for (number, line) in (1..).zip(text.lines()) {
        let fail = |what: &str| Unreadable { line: number, what: what.to_owned() };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            of = name;
            continue;
        }
        if let Some((name, same)) = line.split_once('=') {
            let same = all.iter().find(|constant| constant.name == same);
            let same = *same.ok_or_else(|| fail("there is no constant of the second name"))?;
            all.push(Constant { name, ..same });
            continue;
        }
        let (first, names) = line.split_once(' ').ok_or_else(|| fail("it has no names"))?;
        let value = match first.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => first.parse(),
        };
        let first = value.map_err(|_| fail("it starts with no number"))?;
        let numbered = (first..).zip(names.split(' ')).filter(|(_, name)| *name != "-");
        all.extend(numbered.map(|(value, name)| Constant { name, of, value }));
    }
    Ok(all)
}

/// The prototypes of all functions, `MPI_` and `PMPI_`.
fn prototypes(table: &[Function]) -> String {
    let mut text = String::new();
    for prefix in ["MPI_", "PMPI_"] {
        for function in table {
            for large in [false, true] {
                if !large || function.has_large {
                    let _ = writeln!(text, "{}", prototype(function, prefix, large));
                }
            }
        }
    }
    text
}

fn prototype(function: &Function, prefix: &str, large: bool) -> String {
    let result = match function.returns {
        None | Some("int") => "int",
        Some("double") => "double",
        Some("address") => "MPI_Aint",
        Some(object) => Object::of(object).map_or("void", Object::in_c),
    };
    let declared = |argument: &crate::Argument| match argument.kind.in_c(large) {
        rest if rest == "..." => rest,
        ranges if ranges.contains("(*)") => ranges.replace("(*)", &format!("(*{})", argument.name)),
        pointer if pointer.ends_with('*') => format!("{pointer}{}", argument.name),
        other => format!("{other} {}", argument.name),
    };
    let arguments: Vec<String> = function.arguments.iter().map(declared).collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    let suffix = if large { "_c" } else { "" };
    let note = if function.is_removed() { " HIKYAKU_REMOVED" } else { "" };
    format!("{result} {prefix}{}{suffix}({arguments}){note};", function.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn prototypes_are_those_of_the_standard() {
        let text = header().unwrap();
        for line in [
            "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, \
             MPI_Comm comm);",
            "int PMPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int \
             tag, MPI_Comm comm, MPI_Status *status);",
            "double MPI_Wtime(void);",
            "int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement) HIKYAKU_REMOVED;",
            "int MPI_Pcontrol(int level, ...);",
            "int MPI_Group_range_incl(MPI_Group group, int n, int (*ranges)[3], MPI_Group \
             *newgroup);",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}");
        }
    }

    #[test]
    fn constants_are_there_once_with_their_type() {
        let all = constants().unwrap();
        let names: BTreeSet<&str> = all.iter().map(|constant| constant.name).collect();
        assert_eq!(names.len(), all.len());
        let text = header().unwrap();
        for line in [
            "#define MPI_ANY_SOURCE (-1)",
            "#define MPI_ERR_ABI 62",
            "#define MPI_COMM_SELF ((MPI_Comm)0x102)",
            "#define MPI_LONG_LONG_INT ((MPI_Datatype)0x20b)",
            "#define MPI_IN_PLACE ((void *)0x1)",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}");
        }
        assert!(!text.contains('@'));
    }

    #[test]
    fn a_line_that_says_nothing_known_is_named() {
        for (text, what) in [
            ("[int]\nONE", "it has no names"),
            ("one TWO", "it starts with no number"),
            ("1 ONE\nTWO=THREE", "there is no constant of the second name"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.what.as_str(), error.line), (what, text.lines().count()));
        }
    }
}
