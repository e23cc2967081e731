//! `cargo xtask measure [FOLDER]`: the size of the tree, counted the same way every time.
//!
//! ```text
//!   figure         what counts
//!   ------         -----------
//!   line           a line that holds a token: no blank line, no comment, no documentation
//!   source         lines that are not tests, of every member, examples and build scripts included
//!   tests          lines in `tests/` and `benches/`, in `#[cfg(test)]` items and in the files of
//!                  `#[cfg(test)] mod name;`; all lines of the members below `tests/`
//!   source file    a Rust file with a line of source
//!   length         lines of a file without its tests, but with comments and blank lines: all that
//!                  a reader scrolls through, as the rule of sizes counts them
//!   shared name    structs, enums, unions and traits of the source whose name another one has,
//!                  as a share of all of them
//!   circle         files that all reach each other by imports, from at least two folders
//! ```
//!
//! Lines are counted from tokens, so a line within a string counts and an attribute counts. A type
//! that a macro call declares is not seen; its lines count. `imports` defines an import.
//!
//! The budgets were set by a count with other tools of the tree of 2026-11-22 (d264135). For that
//! tree this count gives:
//!
//! ```text
//!                                     budgets      here
//!   lines of source                    61,800    61,360
//!   lines of tests                     34,000    34,411
//!   source files                          547       544
//!   median length                         119       123
//!   files under 100 lines                41 %      40 %
//!   shared names                         47 %      48 %
//!   crates/world                       11,900    11,817
//!   methods of Port                        70        61
//!   files in coll's circle                 47        47
//! ```

mod imports;

pub(crate) use imports::circles;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::{RustFile, Tree};

/// A shorter file should have a reason to be one.
const SMALL_FILE: usize = 80;

/// The number of shorter files is a figure.
const SHORT_FILE: usize = 100;

/// How many of the names shared by several types are printed.
const MOST_SHARED: usize = 20;

/// The trait whose methods are counted, and its file.
const PORT: (&str, &str) = ("Port", "crates/nic/src/fabric/port.rs");

/// The figures of a tree.
#[derive(Debug, Default, PartialEq)]
pub struct Figures {
    /// Length of each source file, by path.
    pub files: BTreeMap<String, usize>,
    /// Lines of source.
    pub source: usize,
    /// Lines of tests.
    pub tests: usize,
    /// Lines of source by the folder of the member.
    pub members: BTreeMap<String, usize>,
    /// Methods of the trait `Port`.
    pub port_methods: usize,
    /// How many types are declared.
    pub types: usize,
    /// Names that several types have, with the number of types.
    pub shared: BTreeMap<String, usize>,
    /// Files that import each other in a circle, each circle sorted.
    pub circles: Vec<Vec<String>>,
}

impl Figures {
    /// Counts `tree`.
    pub fn of(tree: &Tree) -> Figures {
        let mut figures = Figures::default();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for file in &tree.rust {
            let lines = code_lines(file);
            let for_tests = file.is_test || file.path.starts_with("tests/");
            let is_source = |line: &&usize| !for_tests && !file.is_test_line(**line);
            let source = lines.iter().filter(is_source).count();
            figures.tests += lines.len() - source;
            if source == 0 {
                continue;
            }
            let length = file.text.lines().count();
            let length = (1..=length).filter(|line| !file.is_test_line(*line)).count();
            figures.files.insert(file.path.clone(), length);
            figures.source += source;
            if let Some(member) = tree.members.iter().find(|m| within(&file.path, &m.folder)) {
                *figures.members.entry(member.folder.clone()).or_default() += source;
            }
            let mut types = Types { file, names: &mut names, port_methods: 0 };
            types.visit_file(&file.syntax);
            figures.port_methods += types.port_methods;
        }
        figures.types = names.values().sum();
        figures.shared = names.into_iter().filter(|(_, types)| *types > 1).collect();
        figures.circles = imports::circles(tree);
        figures
    }

    /// The median length of the files.
    pub fn median_file(&self) -> usize {
        let mut lengths: Vec<usize> = self.files.values().copied().collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied().unwrap_or_default()
    }

    /// How many files have fewer than `lines` lines.
    fn files_below(&self, lines: usize) -> usize {
        self.files.values().filter(|&&length| length < lines).count()
    }

    /// The number of types whose name another type has too.
    fn sharing(&self) -> usize {
        self.shared.values().sum()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: usize, whole: usize| format!("{} %", 100 * part / whole.max(1));
        let files = self.files.len();
        for (name, figure) in [
            ("lines of source", self.source.to_string()),
            ("lines of tests", self.tests.to_string()),
            ("source files", files.to_string()),
            ("  length, median", self.median_file().to_string()),
            ("  lines of source, mean", (self.source / files.max(1)).to_string()),
            ("  shorter than 100 lines", percent(self.files_below(SHORT_FILE), files)),
            ("methods of Port", self.port_methods.to_string()),
            ("types that share their name", percent(self.sharing(), self.types)),
            ("import circles across folders", self.circles.len().to_string()),
        ] {
            writeln!(f, "{name:<32}{figure:>8}")?;
        }
        writeln!(f, "\nlines of source by member")?;
        for (folder, lines) in &self.members {
            writeln!(f, "  {folder:<30}{lines:>8}")?;
        }
        for circle in &self.circles {
            writeln!(f, "\nimport circle of {} files\n  {}", circle.len(), circle.join("\n  "))?;
        }
        let mut shared: Vec<_> = self.shared.iter().collect();
        shared.sort_by_key(|(name, types)| (Reverse(**types), name.as_str()));
        writeln!(f, "\nnames of several types")?;
        for (name, types) in shared.iter().take(MOST_SHARED) {
            writeln!(f, "  {name:<30}{types:>8}")?;
        }
        writeln!(f, "\n{} files shorter than {SMALL_FILE} lines", self.files_below(SMALL_FILE))?;
        for (path, length) in self.files.iter().filter(|(_, length)| **length < SMALL_FILE) {
            writeln!(f, "  {path:<60}{length:>3}")?;
        }
        Ok(())
    }
}

/// Whether the file at `path` belongs to the member in `folder`.
fn within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The lines of a file that hold a token, without documentation.
fn code_lines(file: &RustFile) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    note_lines(file.tokens.clone(), &mut lines);
    lines
}

fn note_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut note = |span: Span| lines.extend(span.start().line..=span.end().line);
    let mut inner = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // A doc comment has become `#[doc = ".."]` or `#![doc = ".."]` here.
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let bang = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == '!');
                let bang = tokens.next_if(bang);
                if tokens.next_if(is_documentation).is_none() {
                    note(mark.span());
                    bang.iter().for_each(|bang| note(bang.span()));
                }
            }
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::None {
                    note(group.span_open());
                    note(group.span_close());
                }
                inner.push(group.stream());
            }
            other => note(other.span()),
        }
    }
    inner.into_iter().for_each(|stream| note_lines(stream, lines));
}

fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let mut inside = group.stream().into_iter();
    matches!(inside.next(), Some(TokenTree::Ident(name)) if name == "doc")
        && matches!(inside.next(), Some(TokenTree::Punct(equals)) if equals.as_char() == '=')
}

/// Collects the names of types, and the methods of [`PORT`].
struct Types<'a> {
    file: &'a RustFile,
    names: &'a mut BTreeMap<String, usize>,
    port_methods: usize,
}

impl Types<'_> {
    fn note(&mut self, name: &syn::Ident) {
        if !self.file.is_test_line(name.span().start().line) {
            *self.names.entry(name.to_string()).or_default() += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.note(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.note(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.note(&item.ident);
        if item.ident == PORT.0 && self.file.path == PORT.1 {
            let is_method = |item: &&syn::TraitItem| matches!(item, syn::TraitItem::Fn(_));
            self.port_methods += item.items.iter().filter(is_method).count();
        }
        visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkspaceMember;

    fn figures(files: &[(&str, &str)]) -> Figures {
        let member = |folder: &str| WorkspaceMember {
            name: folder.into(),
            folder: folder.into(),
            description: None,
            dependencies: Vec::new(),
        };
        let members = ["crates/a", "crates/nic", "tests/jobs"].map(member);
        Figures::of(&Tree::from_samples(files, members.into()))
    }

    fn source(text: &str) -> usize {
        figures(&[("crates/a/src/lib.rs", text)]).source
    }

    #[test]
    fn only_lines_with_code_count() {
        let cases = [
            ("//! What.\n\n// why\nfn f() {}\n", 1),
            ("/// Doc.\n///\n/* more\n   of it */\nfn f() {\n}\n", 2),
            ("#[inline]\nfn f() {} // why\n", 2),
            ("#![forbid(unsafe_code)]\n#[doc(hidden)]\nfn f() {}\n", 3),
            ("/** Doc\n    of two lines. */\nfn f() {}\n", 1),
            ("const A: &str = \"one\n\n// three\";\n", 3),
            ("macro_rules! m {\n    () => {\n        /// Doc.\n    };\n}\n", 4),
        ];
        for (text, lines) in cases {
            assert_eq!(source(text), lines, "{text}");
        }
    }

    #[test]
    fn tests_are_told_from_source() {
        let with_tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let found = figures(&[
            ("crates/a/src/lib.rs", with_tests),
            ("crates/a/src/oracle.rs", "#[cfg(test)]\nmod deep;\n"),
            ("crates/a/src/oracle/deep.rs", "fn h() {}\n"),
            ("crates/a/tests/all.rs", "fn i() {}\n"),
            ("tests/jobs/src/lib.rs", "fn j() {}\nfn k() {}\n"),
        ]);
        assert_eq!((found.source, found.tests), (1, 4 + 2 + 1 + 1 + 2));
        assert_eq!(found.members, BTreeMap::from([("crates/a".to_string(), 1)]));
        assert_eq!(found.files, BTreeMap::from([("crates/a/src/lib.rs".to_string(), 1)]));
    }

    #[test]
    fn a_length_has_comments_and_no_tests() {
        let text = "//! What.\n\nfn f() {}\n#[cfg(test)]\nmod tests {}\n";
        let found = figures(&[("crates/a/src/lib.rs", text)]);
        assert_eq!((found.median_file(), found.source), (3, 1));
    }

    #[test]
    fn names_are_shared_by_two_types_or_more() {
        let found = figures(&[
            ("crates/a/src/lib.rs", "struct State;\nenum Other {}\ntype State2 = State;\n"),
            ("crates/a/src/b.rs", "trait State {}\n#[cfg(test)]\nmod t { struct Other; }\n"),
        ]);
        assert_eq!(found.shared, BTreeMap::from([("State".to_string(), 2)]));
        assert_eq!((found.sharing(), found.types), (2, 3));
    }

    #[test]
    fn methods_of_the_port_are_counted() {
        let text = "pub trait Port {\n    const A: u8;\n    fn a();\n    fn b() {}\n}\n";
        assert_eq!(figures(&[(PORT.1, text)]).port_methods, 2);
        assert_eq!(figures(&[("crates/a/src/lib.rs", text)]).port_methods, 0);
    }

    #[test]
    fn an_empty_tree_has_figures() {
        let text = figures(&[]).to_string();
        assert!(text.starts_with("lines of source "), "{text}");
    }
}
