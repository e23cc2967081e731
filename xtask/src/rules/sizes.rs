//! Sizes of files, functions and lines, with a ratchet.
//!
//! Limits: a file has at most 1,000 lines, a function 70 lines, a line of Rust 100 columns. Larger
//! ones of today are listed in `xtask/ratchet.toml` with their present size. An entry may only
//! shrink: growing past it fails, and so does an entry that is larger than its item. The message
//! names the line to write instead. The same holds for the lists of external tests that are not run
//! here, or do not pass: none may be added.
//!
//! A file's tests (items under `#[cfg(test)]`) do not count, but all lines of a file of tests do.
//! A function is measured from its signature to its closing brace; its documentation does not
//! count. A line may be as long as the URL in it.
//!
//! A short file is not a violation, since some have a reason: the algorithms of a collective have a
//! file each. `cargo xtask measure` lists those under 80 lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use toml::Spanned as Located;

use crate::{RustFile, Tree, Violation};

const RATCHET: &str = "xtask/ratchet.toml";
const FILE_LINES: usize = 1_000;
const FUNCTION_LINES: usize = 70;
const LINE_COLUMNS: usize = 100;

/// Lists of external tests that do not pass here: one per line, besides comments.
const LISTS: [&str; 2] = ["tests/mpi4py/exclusions.txt", "tests/mpich/expected.txt"];

/// The kinds of size, each a table of the ratchet.
const TABLES: [RatchetTable; 4] = [
    RatchetTable {
        name: "files",
        limit: FILE_LINES,
        noun: "lines without tests",
        remedy: "move a part of it to a module of its own",
    },
    RatchetTable {
        name: "functions",
        limit: FUNCTION_LINES,
        noun: "lines in a function",
        remedy: "extract a step that has a name",
    },
    RatchetTable {
        name: "wide_lines",
        limit: 0,
        noun: "lines wider than 100 columns",
        remedy: "break them",
    },
    RatchetTable {
        name: "lists",
        limit: 0,
        noun: "tests that do not pass",
        remedy: "let them pass",
    },
];

struct RatchetTable {
    name: &'static str,
    /// The largest size that needs no entry.
    limit: usize,
    noun: &'static str,
    remedy: &'static str,
}

/// A measurement: the place, and the size.
struct Measured {
    path: String,
    line: usize,
    size: usize,
}

/// Sizes by key: the path of a file, with `::name` appended for a function.
type Sizes = BTreeMap<String, Measured>;
type Allowances = BTreeMap<String, Located<usize>>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Ratchet {
    files: Allowances,
    functions: Allowances,
    wide_lines: Allowances,
    lists: Allowances,
}

/// Compares every size with its limit or its allowance.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let text = tree.text(RATCHET).unwrap_or_default();
    let ratchet: Ratchet = match toml::from_str(text) {
        Ok(ratchet) => ratchet,
        Err(error) => {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            return vec![Violation::new(RATCHET, line, error.message(), "mend the entry")];
        }
    };
    let allowances = [&ratchet.files, &ratchet.functions, &ratchet.wide_lines, &ratchet.lists];
    let mut found = Vec::new();
    for ((table, sizes), allowed) in TABLES.iter().zip(measure(tree)).zip(allowances) {
        check_sizes(table, &sizes, allowed, text, &mut found);
        check_entries(table, &sizes, allowed, text, &mut found);
    }
    found
}

/// The text of a ratchet that allows exactly the present sizes.
pub fn present_ratchet(tree: &Tree) -> String {
    let mut text = String::new();
    for (table, sizes) in TABLES.iter().zip(measure(tree)) {
        let _ = writeln!(text, "[{}]", table.name);
        for (key, measured) in sizes.iter().filter(|(_, measured)| measured.size > table.limit) {
            let _ = writeln!(text, "\"{key}\" = {}", measured.size);
        }
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}

/// Reports items that exceed their limit and have no sufficient allowance.
fn check_sizes(
    table: &RatchetTable,
    sizes: &Sizes,
    allowed: &Allowances,
    text: &str,
    found: &mut Vec<Violation>,
) {
    for (key, measured) in sizes {
        let entry = allowed.get(key);
        let allowance = entry.map_or(table.limit, |entry| *entry.get_ref());
        if measured.size <= allowance.max(table.limit) {
            continue;
        }
        let what = format!("{} {}, {allowance} are allowed", measured.size, table.noun);
        let or = match entry {
            Some(entry) => format!(" (or raise {RATCHET}:{})", line_of(text, entry)),
            None => format!(" (or add `\"{key}\" = {}` to {RATCHET})", measured.size),
        };
        found.push(Violation::new(
            &measured.path,
            measured.line,
            what,
            format!("{}{or}", table.remedy),
        ));
    }
}

/// Reports entries of the ratchet that allow more than the present size.
fn check_entries(
    table: &RatchetTable,
    sizes: &Sizes,
    allowed: &Allowances,
    text: &str,
    found: &mut Vec<Violation>,
) {
    for (key, entry) in allowed {
        let size = sizes.get(key).map_or(0, |measured| measured.size);
        if size >= *entry.get_ref() && size > table.limit {
            continue;
        }
        let what = format!("`{key}` is allowed {} {}, it has {size}", entry.get_ref(), table.noun);
        let remedy = if size > table.limit {
            format!("write `\"{key}\" = {size}`")
        } else {
            "delete the entry".into()
        };
        found.push(Violation::new(RATCHET, line_of(text, entry), what, remedy));
    }
}

/// Sizes of all files, functions, wide lines and lists, in the order of [`TABLES`].
fn measure(tree: &Tree) -> [Sizes; 4] {
    let [mut files, mut functions, mut wide, mut lists] = [const { Sizes::new() }; 4];
    for file in &tree.rust {
        let path = || file.path.clone();
        let lines = 1..=file.text.lines().count();
        let size = lines.filter(|line| file.is_test || !file.is_test_line(*line)).count();
        files.insert(path(), Measured { path: path(), line: 1, size });
        let mut visitor = Functions { file, scope: Vec::new(), sizes: &mut functions };
        visitor.visit_file(&file.syntax);
        let too_wide = |line: &str| line.chars().count() > LINE_COLUMNS && !line.contains("://");
        let mut lines = file.text.lines().enumerate().filter(|(_, line)| too_wide(line));
        if let Some((at, _)) = lines.next() {
            let size = 1 + lines.count();
            wide.insert(path(), Measured { path: path(), line: at + 1, size });
        }
    }
    for path in LISTS {
        let lines = tree.text(path).unwrap_or_default().lines();
        let size = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        lists.insert(path.into(), Measured { path: path.into(), line: 1, size });
    }
    [files, functions, wide, lists]
}

/// Measures the functions of a file, methods and nested functions included.
struct Functions<'a> {
    file: &'a RustFile,
    /// Names of the modules, types and functions around the present place.
    scope: Vec<String>,
    sizes: &'a mut Sizes,
}

impl Functions<'_> {
    fn note(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.span().start().line;
        let size = body.span().end().line - line + 1;
        self.scope.push(signature.ident.to_string());
        let key = format!("{}::{}", self.file.path, self.scope.join("::"));
        self.scope.pop();
        // Methods of the same name in several impls of one type share a key: the largest counts.
        let measured = Measured { path: self.file.path.clone(), line, size };
        let entry = self.sizes.entry(key).or_insert(Measured { size: 0, ..measured });
        if size > entry.size {
            *entry = Measured { path: self.file.path.clone(), line, size };
        }
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note(&function.sig, &function.block);
        let name = function.sig.ident.to_string();
        self.within(name, |this| visit::visit_item_fn(this, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note(&function.sig, &function.block);
        let name = function.sig.ident.to_string();
        self.within(name, |this| visit::visit_impl_item_fn(this, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.note(&function.sig, body);
        }
        let name = function.sig.ident.to_string();
        self.within(name, |this| visit::visit_trait_item_fn(this, function));
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.within(module.ident.to_string(), |this| visit::visit_item_mod(this, module));
    }

    fn visit_item_impl(&mut self, implementation: &'ast syn::ItemImpl) {
        let name = match &*implementation.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within(name.unwrap_or_else(|| "impl".into()), |this| {
            visit::visit_item_impl(this, implementation);
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |this| visit::visit_item_trait(this, item));
    }
}

fn line_of(text: &str, entry: &Located<usize>) -> usize {
    line_at(text, entry.span().start)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ratchet: &str, path: &str, text: &str) -> Vec<String> {
        let tree = Tree::from_samples(&[(RATCHET, ratchet), (path, text)], Vec::new());
        check(&tree).iter().map(ToString::to_string).collect()
    }

    fn file_of(lines: usize) -> String {
        "// a line\n".repeat(lines)
    }

    /// A method of so many lines, on line 2.
    fn method_of(lines: usize) -> String {
        format!("impl A {{\n    fn f() {{\n{}    }}\n}}\n", "        g();\n".repeat(lines - 2))
    }

    #[test]
    fn what_keeps_the_limits_passes() {
        assert_eq!(found("", "a.rs", &file_of(1_000)), [""; 0]);
        assert_eq!(found("", "a.rs", &method_of(70)), [""; 0]);
        assert_eq!(found("", "a.rs", &format!("//{}\n", "é".repeat(98))), [""; 0]);
        assert_eq!(found("", "a.rs", &format!("// https://{}\n", "x".repeat(98))), [""; 0]);
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", file_of(300));
        assert_eq!(found("", "a.rs", &(file_of(1_000) + &tests)), [""; 0]);
        assert_eq!(found("", "a.rs", &(file_of(1_001) + &tests)).len(), 1);
        assert_eq!(found("", "crates/a/tests/b.rs", &file_of(1_000)), [""; 0]);
        assert_eq!(found("", "crates/a/tests/b.rs", &file_of(1_001)).len(), 1);
    }

    #[test]
    fn what_exceeds_a_limit_is_reported_with_the_entry_to_add() {
        assert_eq!(
            found("", "a.rs", &method_of(71)),
            ["a.rs:2: 71 lines in a function, 70 are allowed; extract a step that has a name (or \
              add `\"a.rs::A::f\" = 71` to xtask/ratchet.toml)"]
        );
        let wide = format!("\n//{}\n", "x".repeat(99));
        assert!(found("", "a.rs", &wide)[0].starts_with("a.rs:2: 1 lines wider than 100"));
    }

    #[test]
    fn functions_are_found_wherever_they_stand() {
        let body = format!("{{\n{}}}\n", "g();\n".repeat(70));
        let in_trait = format!("trait T {{ fn f() {body} }}");
        assert!(found("", "a.rs", &in_trait)[0].contains("a.rs::T::f"));
        let nested = format!("mod m {{ impl X for &A {{ fn o() {{ fn f() {body} }} }} }}");
        assert!(found("", "a.rs", &nested).iter().any(|line| line.contains("m::impl::o::f")));
    }

    #[test]
    fn an_exact_entry_excuses_and_a_smaller_one_does_not() {
        let entry = |size| format!("[functions]\n\"a.rs::A::f\" = {size}\n");
        assert_eq!(found(&entry(80), "a.rs", &method_of(80)), [""; 0]);
        let grown = found(&entry(79), "a.rs", &method_of(80));
        assert_eq!(grown.len(), 1);
        assert!(grown[0].contains("79 are allowed") && grown[0].contains("ratchet.toml:2"));
    }

    #[test]
    fn a_generous_or_idle_entry_is_reported_with_the_line_to_write() {
        let ratchet = "[functions]\n\"a.rs::A::f\" = 90\n";
        assert_eq!(
            found(ratchet, "a.rs", &method_of(80)),
            ["xtask/ratchet.toml:2: `a.rs::A::f` is allowed 90 lines in a function, it has 80; \
              write `\"a.rs::A::f\" = 80`"]
        );
        for idle in [method_of(70), "fn g() {}\n".into()] {
            let found = found(ratchet, "a.rs", &idle);
            assert!(found[0].ends_with("delete the entry"), "{found:?}");
        }
    }

    #[test]
    fn a_list_of_tests_that_do_not_pass_only_shrinks() {
        let entry = |size| format!("[lists]\n\"tests/mpi4py/exclusions.txt\" = {size}\n");
        let list = "# Not built.\n\ntest_win  windows\ntest_io  files\n";
        assert_eq!(found(&entry(2), LISTS[0], list), [""; 0]);
        let grown = found(&entry(1), LISTS[0], list);
        assert!(grown[0].starts_with("tests/mpi4py/exclusions.txt:1: 2 tests that do not pass"));
        assert!(found(&entry(3), LISTS[0], list)[0].contains("write `"));
        assert!(found("", LISTS[0], list)[0].contains("0 are allowed"));
    }

    #[test]
    fn a_malformed_ratchet_is_reported_at_its_line() {
        assert!(
            found("\n[file]\n", "a.rs", "")[0].starts_with("xtask/ratchet.toml:2: unknown field")
        );
        assert!(found("[files]\n\"a\" = -1\n", "a.rs", "")[0].starts_with("xtask/ratchet.toml:2"));
    }

    #[test]
    fn the_present_ratchet_excuses_the_present_tree() {
        let text = method_of(90) + &file_of(1_100) + &format!("//{}\n", "x".repeat(99));
        let tree = Tree::from_samples(&[("a.rs", &text)], Vec::new());
        let ratchet = present_ratchet(&tree);
        assert_eq!(ratchet.lines().filter(|line| line.starts_with('"')).count(), 3);
        assert_eq!(found(&ratchet, "a.rs", &text), [""; 0]);
    }
}
