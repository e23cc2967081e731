//! Prototypes for C: what `mpi.h` says of every function.

use std::fmt::Write as _;

use crate::Function;
use crate::kind::Object;

/// The prototypes of all functions, `MPI_` and `PMPI_`, as a header has them.
pub fn prototypes(table: &[Function]) -> String {
    let mut text = String::new();
    for prefix in ["MPI_", "PMPI_"] {
        for function in table {
            for large in [false, true] {
                if !large || function.has_large {
                    // Writing to a string cannot fail.
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
    format!("{result} {prefix}{}{suffix}({arguments});", function.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn prototypes_are_those_of_the_standard() {
        let text = prototypes(&crate::table().unwrap());
        for line in [
            "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, \
             MPI_Comm comm);",
            "int PMPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int \
             tag, MPI_Comm comm, MPI_Status *status);",
            "double MPI_Wtime(void);",
            "int MPI_Pcontrol(int level, ...);",
            "int MPI_Group_range_incl(MPI_Group group, int n, int (*ranges)[3], MPI_Group \
             *newgroup);",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}");
        }
    }
}
