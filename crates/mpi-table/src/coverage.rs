//! The number of implemented MPI functions, by chapter.

use std::fmt::{self, Write as _};

use crate::Function;

/// A chapter of the standard. Forms with large counts are counted as separate functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chapter {
    /// Its name in the table.
    pub name: &'static str,
    /// The number of implemented functions.
    pub built: usize,
    /// The number of all functions.
    pub all: usize,
    /// The names of functions that are not implemented, without `MPI_`.
    pub missing: Vec<String>,
}

/// The coverage of a table of functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage(pub Vec<Chapter>);

impl Coverage {
    /// Counts these functions, with chapters in their order.
    pub fn of(table: &[Function]) -> Coverage {
        let mut chapters: Vec<Chapter> = Vec::new();
        for function in table {
            let known = chapters.iter().position(|chapter| chapter.name == function.chapter);
            let at = known.unwrap_or_else(|| {
                let (name, missing) = (function.chapter, Vec::new());
                chapters.push(Chapter { name, built: 0, all: 0, missing });
                chapters.len() - 1
            });
            let forms = 1 + usize::from(function.has_large);
            chapters[at].all += forms;
            if function.is_built {
                chapters[at].built += forms;
            } else {
                chapters[at].missing.push(function.name.to_owned());
            }
        }
        Coverage(chapters)
    }

    /// The numbers of implemented functions and of all functions.
    pub fn total(&self) -> (usize, usize) {
        self.0.iter().fold((0, 0), |(built, all), it| (built + it.built, all + it.all))
    }

    /// One line per chapter with the names of functions that are not implemented.
    pub fn missing(&self) -> String {
        let mut text = String::new();
        for Chapter { name, missing, .. } in self.0.iter().filter(|it| !it.missing.is_empty()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {}", missing.join(", "));
        }
        text
    }
}

/// The table of docs/mpi.md.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| chapter | built | of |\n|---|---|---|")?;
        for Chapter { name, built, all, .. } in &self.0 {
            writeln!(f, "| {} | {built} | {all} |", name.replace('_', "-"))?;
        }
        let (built, all) = self.total();
        write!(f, "| all | {built} | {all} |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_are_counted_with_their_large_forms() {
        let of = |name, chapter, has_large, is_built| Function {
            name,
            does: name,
            chapter,
            arguments: Vec::new(),
            returns: None,
            has_large,
            is_built,
        };
        let coverage = Coverage::of(&[
            of("Send", "messages", true, true),
            of("Wait", "messages", false, false),
            of("Put", "one_sided", true, false),
        ]);
        assert_eq!(coverage.total(), (2, 5));
        assert_eq!(coverage.missing(), "messages: Wait\none_sided: Put\n");
        let rows = "| messages | 2 | 3 |\n| one-sided | 0 | 2 |\n| all | 2 | 5 |";
        assert!(coverage.to_string().ends_with(rows));
    }
}
