//! Checks of the source tree that neither the compiler nor clippy can make.
//!
//! `cargo xtask tidy` runs them from the command line and `xtask/tests/tidy.rs` runs them under
//! `cargo test`, so that a change which breaks the architecture fails where every other mistake
//! fails. A rule is one module of [`rules`]: a pure function from a [`Tree`] to the violations that
//! it finds, with a good and a bad sample in its tests, which show that the rule can fail.
//!
//! ```text
//!   git ls-files ────┐
//!   file texts ──────┼──► Tree ──► rules::RULES ──► [Violation] ──► `path:line: what; what to do`
//!   cargo metadata ──┘
//! ```
//!
//! Of these only [`Tree::load`] touches files and processes; all else is a function of the tree.
//! One rule is also a writer: `cargo xtask checklist` updates docs/checklist.md from the tests.
//! Two tools are not rules: [`measure`] prints the size of the tree, and [`mutants`] how many
//! changes of the code the tests detect.

#![forbid(unsafe_code)]

pub mod measure;
pub mod mutants;
pub mod rules;
mod rust;
mod tree;
mod violation;
mod workspace;

pub use rust::{PathUse, RustFile};
pub use tree::{TextFile, Tree, TreeError};
pub use violation::Violation;
pub use workspace::{Dependency, DependencyKind, WorkspaceMember};

/// Everything that the rules find in `tree`, sorted by path and line.
pub fn tidy(tree: &Tree) -> Vec<Violation> {
    let mut found: Vec<Violation> = tree.unparsed.clone();
    for rule in rules::RULES {
        found.extend((rule.check)(tree));
    }
    found.sort();
    found
}
