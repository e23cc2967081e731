//! Imports between files, and circles of files that import each other.
//!
//! A file imports another if a path in its source leads there: a path of a `use`, a call, a type or
//! the arguments of a macro. A path that begins with `crate`, `self`, `super`, a child module or an
//! imported name is followed, through re-exports, to the file that declares what it names.
//! `mod name;` alone imports nothing. Paths into other crates are left out: cargo allows no circle
//! of crates.

use std::collections::{BTreeMap, BTreeSet};

use crate::{RustFile, Tree};

/// The most re-exports that a path is followed through. A longer path is left unresolved.
const MOST_STEPS: usize = 16;

/// The circles among the tree's sources that span several folders: the largest sets of files in
/// which each file reaches every other.
pub(crate) fn circles(tree: &Tree) -> Vec<Vec<String>> {
    let mut crates: BTreeMap<&str, Vec<&RustFile>> = BTreeMap::new();
    let is_source = |file: &&RustFile| !file.is_test && !file.path.starts_with("tests/");
    for file in tree.rust.iter().filter(is_source) {
        if let Some(root) = root_of(&file.path) {
            crates.entry(root).or_default().push(file);
        }
    }
    let mut found = Vec::new();
    for (root, files) in crates {
        let modules = Modules::of(root, &files);
        let imports: Vec<BTreeSet<usize>> =
            (0..files.len()).map(|at| modules.imports_of(at)).collect();
        for circle in components(&imports) {
            let paths: Vec<String> = circle.iter().map(|&at| files[at].path.clone()).collect();
            let folders: BTreeSet<&str> = paths.iter().map(|path| folder_of(path)).collect();
            if folders.len() > 1 {
                found.push(paths);
            }
        }
    }
    found
}

/// The folder of the crate's modules: up to and including `/src/`.
fn root_of(path: &str) -> Option<&str> {
    path.find("/src/").map(|at| &path[..at + "/src/".len()])
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path as a list of names.
type Segments = Vec<String>;

/// The modules of a crate by path from its root, and the names that each has in scope.
struct Modules<'a> {
    files: &'a [&'a RustFile],
    by_path: BTreeMap<Segments, usize>,
    own_path: Vec<Segments>,
    /// The names that `use` brings into each file; for globs the paths that they open.
    scope: Vec<BTreeMap<String, Segments>>,
    globs: Vec<Vec<Segments>>,
    /// Names of the items that each file declares.
    items: Vec<BTreeSet<String>>,
}

impl<'a> Modules<'a> {
    fn of(root: &str, files: &'a [&'a RustFile]) -> Modules<'a> {
        let own_path: Vec<Segments> = files.iter().map(|file| module_path(root, file)).collect();
        let by_path = own_path.iter().cloned().zip(0..).collect();
        let mut modules = Modules {
            files,
            by_path,
            own_path,
            scope: Vec::new(),
            globs: Vec::new(),
            items: Vec::new(),
        };
        for file in files {
            let (mut scope, mut globs) = (BTreeMap::new(), Vec::new());
            let mut items = BTreeSet::new();
            for item in &file.syntax.items {
                match item {
                    syn::Item::Use(item) => unfold(&item.tree, &[], &mut scope, &mut globs),
                    other => items.extend(name_of(other)),
                }
            }
            modules.scope.push(scope);
            modules.globs.push(globs);
            modules.items.push(items);
        }
        modules
    }

    /// The files that paths in the source of file `at` lead to.
    fn imports_of(&self, at: usize) -> BTreeSet<usize> {
        let file = self.files[at];
        let mut found = BTreeSet::new();
        for path in file.paths().into_iter().filter(|path| !file.is_test_line(path.line)) {
            if path.segments.len() > 1 || path.glob {
                found.extend(self.resolve(at, &path.segments, MOST_STEPS));
            }
        }
        found.remove(&at);
        found
    }

    /// The file that declares the item which `path` names in file `at`.
    fn resolve(&self, at: usize, path: &[String], steps: usize) -> Option<usize> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let own = &self.own_path[at];
        let mut module: Segments = match first.as_str() {
            "crate" => Vec::new(),
            "self" => own.clone(),
            "super" => own[..own.len().checked_sub(1)?].to_vec(),
            name => {
                let mut child = own.clone();
                child.push(name.to_string());
                if self.by_path.contains_key(&child) {
                    child
                } else {
                    let mut full = self.scope[at].get(name)?.clone();
                    // A name that is imported under itself belongs to another crate.
                    if full.first() == Some(first) {
                        return None;
                    }
                    full.extend_from_slice(rest);
                    return self.resolve(at, &full, steps);
                }
            }
        };
        for (done, name) in rest.iter().enumerate() {
            if name == "super" {
                module.pop();
                continue;
            }
            module.push(name.clone());
            if self.by_path.contains_key(&module) {
                continue;
            }
            module.pop();
            let holder = *self.by_path.get(&module)?;
            return self.declared(holder, &rest[done..], steps).or(Some(holder));
        }
        self.by_path.get(&module).copied()
    }

    /// The file that declares `path`, which file `holder` makes visible.
    fn declared(&self, holder: usize, path: &[String], steps: usize) -> Option<usize> {
        let name = &path[0];
        if self.items[holder].contains(name) {
            return Some(holder);
        }
        let follow = |base: &Segments, rest: &[String]| {
            let full: Segments = base.iter().chain(rest).cloned().collect();
            self.resolve(holder, &full, steps)
        };
        if let Some(base) = self.scope[holder].get(name) {
            return follow(base, &path[1..]);
        }
        self.globs[holder].iter().find_map(|base| {
            let file = follow(base, path)?;
            self.items[file].contains(name).then_some(file)
        })
    }
}

/// The names that lead from the crate's root to the module of `file`.
fn module_path(root: &str, file: &RustFile) -> Segments {
    let inner = file.path[root.len()..].trim_end_matches(".rs");
    let mut path: Segments = inner.split('/').map(ToString::to_string).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

fn unfold(
    tree: &syn::UseTree,
    prefix: &[String],
    scope: &mut BTreeMap<String, Segments>,
    globs: &mut Vec<Segments>,
) {
    let with = |name: &syn::Ident| {
        let mut path = prefix.to_vec();
        if name != "self" || prefix.is_empty() {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        syn::UseTree::Path(path) => unfold(&path.tree, &with(&path.ident), scope, globs),
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| unfold(tree, prefix, scope, globs));
        }
        syn::UseTree::Glob(_) => globs.push(prefix.to_vec()),
        syn::UseTree::Rename(rename) => {
            scope.insert(rename.rename.to_string(), with(&rename.ident));
        }
        syn::UseTree::Name(name) => {
            let path = with(&name.ident);
            if let Some(last) = path.last() {
                scope.insert(last.clone(), path);
            }
        }
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// The strongly connected components of more than one file.
fn components(imports: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..imports.len())
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut left: Vec<usize> = imports[start].iter().copied().collect();
            while let Some(at) = left.pop() {
                if seen.insert(at) {
                    left.extend(&imports[at]);
                }
            }
            seen
        })
        .collect();
    let mut placed = BTreeSet::new();
    let mut found = Vec::new();
    for at in 0..imports.len() {
        let mutual = |&other: &usize| reached[other].contains(&at);
        let circle: Vec<usize> = reached[at].iter().copied().filter(mutual).collect();
        if circle.len() > 1 && placed.insert(circle.clone()) {
            found.push(circle);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        let circles = circles(&Tree::from_samples(&files, Vec::new()));
        let short = |path: &String| path.trim_start_matches("crates/a/src/").to_string();
        circles.iter().map(|circle| circle.iter().map(short).collect()).collect()
    }

    const B_MOD: (&str, &str) = ("b/mod.rs", "mod c;\nuse crate::d::D;\n");

    #[test]
    fn files_that_reach_each_other_are_a_circle() {
        let circle = vec![vec!["b/mod.rs".to_string(), "d.rs".into()]];
        for back in [
            "use crate::b::X;",
            "use super::b::{self, Y};",
            "fn f() { crate::b::f(); }",
            "fn f() { assert!(crate::b::f()); }",
            "use crate::b as other;\nfn f() { other::f(); }",
            "use crate::b::*;",
        ] {
            assert_eq!(
                found(&[B_MOD, ("d.rs", back), ("lib.rs", "mod b; mod d;")]),
                circle,
                "{back}"
            );
        }
    }

    #[test]
    fn one_way_is_no_circle() {
        for other in [
            "",
            "use std::fmt;",
            "mod e;",
            "#[cfg(test)]\nmod t { use crate::b::X; }",
            "pub(in crate::b) struct D;",
        ] {
            assert_eq!(found(&[B_MOD, ("d.rs", other)]), [[""; 0]; 0], "{other}");
        }
    }

    #[test]
    fn a_circle_within_a_folder_is_none() {
        let files = [("b/mod.rs", "mod c;\nuse c::C;"), ("b/c.rs", "use super::B;")];
        assert_eq!(found(&files), [[""; 0]; 0]);
    }

    #[test]
    fn a_re_export_leads_to_what_it_names() {
        let lib = ("lib.rs", "pub use b::X;\npub use d::*;");
        let b = ("b/mod.rs", "pub struct X;\nfn f(_: crate::D) {}");
        // d uses X by the root's name: the circle consists of b and d, without the root.
        let d = ("d.rs", "use crate::X;\npub struct D;");
        assert_eq!(found(&[lib, b, d]), [["b/mod.rs", "d.rs"]]);
    }

    #[test]
    fn names_that_stand_for_themselves_end() {
        let files = [("lib.rs", "use b::X;"), ("b/mod.rs", "pub use crate::X;\npub use crate::*;")];
        assert_eq!(found(&files), [[""; 0]; 0]);
    }
}
