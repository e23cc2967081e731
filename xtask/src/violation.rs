//! The report of a rule: a place, the violation there and the remedy.
//!
//! The form is `path:line: what; what to do`, which editors and terminals turn into a link.

use std::fmt;

/// One breach of one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Path from the root of the workspace.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The violation.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl Violation {
    /// A violation at `path:line`.
    pub fn new(
        path: impl Into<String>,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Violation {
        Violation { path: path.into(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_a_place_then_the_fault_then_the_remedy() {
        let violation = Violation::new("a/b.rs", 7, "too long", "split it");
        assert_eq!(violation.to_string(), "a/b.rs:7: too long; split it");
    }

    #[test]
    fn sorts_by_path_then_by_line_as_a_number() {
        let mut found = [
            Violation::new("b.rs", 1, "", ""),
            Violation::new("a.rs", 10, "", ""),
            Violation::new("a.rs", 9, "", ""),
        ];
        found.sort();
        let order: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.line)).collect();
        assert_eq!(order, [("a.rs", 9), ("a.rs", 10), ("b.rs", 1)]);
    }
}
