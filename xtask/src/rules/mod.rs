//! The rules, one module each, in reading order.
//!
//! A rule is a pure function of the [`Tree`]. Exceptions are in the module of their rule, each with
//! its reason; an exception for unsafe code that is not needed any more is a violation too. Only
//! sizes, which change often, are kept elsewhere: `xtask/ratchet.toml`.

use crate::{Tree, Violation};

pub mod borrows;
pub mod checklist;
pub mod circles;
pub mod dependencies;
pub mod headers;
pub mod manifests;
pub mod markdown;
pub mod purity;
pub mod sizes;
pub mod unsafety;
pub mod words;

/// A check with its name.
pub struct Rule {
    /// The name that the command line prints.
    pub name: &'static str,
    /// Finds every breach in the tree.
    pub check: fn(&Tree) -> Vec<Violation>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule { name: "dependencies", check: dependencies::check },
    Rule { name: "manifests", check: manifests::check },
    Rule { name: "headers", check: headers::check },
    Rule { name: "sizes", check: sizes::check },
    Rule { name: "purity", check: purity::check },
    Rule { name: "borrows", check: borrows::check },
    Rule { name: "circles", check: circles::check },
    Rule { name: "unsafety", check: unsafety::check },
    Rule { name: "words", check: words::check },
    Rule { name: "markdown", check: markdown::check },
    Rule { name: "checklist", check: checklist::check },
];

/// Whether `pattern` covers `path`: the same path, or, when it ends in `/`, the folder above it.
pub(crate) fn covers(pattern: &str, path: &str) -> bool {
    path == pattern || pattern.ends_with('/') && path.starts_with(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_a_file_or_a_folder() {
        assert!(covers("a/b.rs", "a/b.rs"));
        assert!(covers("a/ring/", "a/ring/slot.rs"));
        assert!(!covers("a/ring", "a/ring/slot.rs"));
        assert!(!covers("a/ring/", "a/ringside.rs"));
    }
}
