//! A parsed Rust file: its syntax tree, every path it names, and its lines that are tests.
//!
//! Paths are read from the *tokens*, not from the syntax tree: the parser does not look inside a
//! macro call, and `assert!(std::env::var("X").is_ok())` reads the environment all the same. Trees
//! of `use` declarations are unfolded, so `use std::{fs, time::Instant}` names `std::fs` and
//! `std::time::Instant`. Names are not resolved: an alias of an alias is not followed.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tree::TextFile;
use crate::violation::Violation;

/// A Rust source file.
pub struct RustFile {
    /// Path from the root of the workspace.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The syntax tree.
    pub syntax: syn::File,
    /// The tokens.
    pub tokens: TokenStream,
    /// Whether the whole file is test code: under `tests/` or `benches/` of its package, or the
    /// body of a module that its parent declares under `#[cfg(test)]`.
    pub is_test: bool,
    test_items: Vec<RangeInclusive<usize>>,
    test_children: Vec<String>,
}

impl RustFile {
    /// Parses `file`.
    ///
    /// # Errors
    /// A violation at the place where the parser stopped.
    pub fn parse(file: &TextFile) -> Result<RustFile, Violation> {
        let unparsable = |line: usize, error: String| {
            Violation::new(&file.path, line, format!("does not parse: {error}"), "mend the syntax")
        };
        let syntax = syn::parse_file(&file.text)
            .map_err(|error| unparsable(error.span().start().line, error.to_string()))?;
        let tokens: TokenStream = file
            .text
            .parse()
            .map_err(|e: proc_macro2::LexError| unparsable(e.span().start().line, e.to_string()))?;
        let mut tests = TestItems { folder: child_folder(&file.path), ..TestItems::default() };
        tests.visit_file(&syntax);
        Ok(RustFile {
            path: file.path.clone(),
            text: file.text.clone(),
            syntax,
            tokens,
            is_test: file.path.split('/').any(|part| part == "tests" || part == "benches")
                && !file.path.contains("/src/"),
            test_items: tests.items,
            test_children: tests.children,
        })
    }

    /// Whether `line` (from 1) is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_items.iter().any(|range| range.contains(&line))
    }

    /// Every path the file names, in the order of the tokens, macro bodies included.
    pub fn paths(&self) -> Vec<PathUse> {
        let mut paths = Vec::new();
        collect_paths(self.tokens.clone(), &[], &mut paths);
        paths
    }
}

/// A path as it is written somewhere, `use` trees unfolded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// Its segments without generic arguments.
    pub segments: Vec<String>,
    /// Whether `::*` follows.
    pub glob: bool,
    /// Whether it is alone after `use` and is renamed (`use std as s`).
    pub renamed: bool,
    /// Line of its last segment, from 1.
    pub line: usize,
}

impl PathUse {
    /// Whether this path names `target` or something in it, or imports so large a part of the way
    /// to it (`use std::time`, `use std::*`) that later uses could not be recognised. A single word
    /// names nothing: `rand` may be a variable, and `loom` a condition of compilation.
    pub fn reaches(&self, target: &str) -> bool {
        let target: Vec<&str> = target.split("::").collect();
        let common = self.segments.iter().zip(&target).take_while(|(a, b)| a == b).count();
        let names_it = common == target.len();
        let on_the_way = common == self.segments.len();
        let is_word = self.segments.len() < 2 && !self.glob && !self.renamed;
        (names_it || on_the_way) && !is_word
    }
}

/// Marks the files that are bodies of `#[cfg(test)] mod name;` declarations, and all files below.
pub(crate) fn mark_test_modules(files: &mut [RustFile]) {
    let bodies: BTreeSet<String> =
        files.iter().flat_map(|file| file.test_children.iter().cloned()).collect();
    for file in files {
        let stem = file.path.trim_end_matches(".rs");
        let is_body = bodies.iter().any(|body| {
            stem == body || stem.strip_prefix(body.as_str()).is_some_and(|s| s.starts_with('/'))
        });
        file.is_test |= is_body;
    }
}

/// The folder in which the file at `path` keeps its child modules.
fn child_folder(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder.into(),
        _ => stem.into(),
    }
}

/// Finds items that are compiled for tests only.
#[derive(Default)]
struct TestItems {
    folder: String,
    items: Vec<RangeInclusive<usize>>,
    children: Vec<String>,
}

impl TestItems {
    fn note(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) {
        if attributes.iter().any(is_cfg_test) {
            let span = item.span();
            self.items.push(span.start().line..=span.end().line);
        }
    }
}

impl<'ast> Visit<'ast> for TestItems {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.note(&module.attrs, module);
        if module.content.is_none() && module.attrs.iter().any(is_cfg_test) {
            self.children.push(format!("{}/{}", self.folder, module.ident));
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note(&function.attrs, function);
        visit::visit_item_fn(self, function);
    }

    fn visit_item_use(&mut self, declaration: &'ast syn::ItemUse) {
        self.note(&declaration.attrs, declaration);
    }

    fn visit_item_impl(&mut self, implementation: &'ast syn::ItemImpl) {
        self.note(&implementation.attrs, implementation);
        visit::visit_item_impl(self, implementation);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note(&function.attrs, function);
        visit::visit_impl_item_fn(self, function);
    }
}

/// Whether the attribute is `#[cfg(test)]` or `#[cfg(all(.., test, ..))]`. With `any` or `not` the
/// item may be part of the product, so it does not count as a test.
fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    fn requires_test(meta: &syn::Meta) -> bool {
        match meta {
            syn::Meta::Path(path) => path.is_ident("test"),
            syn::Meta::List(list) if list.path.is_ident("all") => nested(list),
            _ => false,
        }
    }
    fn nested(list: &syn::MetaList) -> bool {
        let separated = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
        list.parse_args_with(separated).is_ok_and(|metas| metas.iter().any(requires_test))
    }
    match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => nested(list),
        _ => false,
    }
}

/// Walks one level of tokens; `prefix` is the path before the braces of a `use` tree, else empty.
fn collect_paths(stream: TokenStream, prefix: &[String], paths: &mut Vec<PathUse>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => collect_paths(group.stream(), &[], paths),
            TokenTree::Ident(name) if name == "as" && !prefix.is_empty() => at += 1,
            // The path of a visibility is no use of that module.
            TokenTree::Ident(name) if name == "pub" && tokens.get(at + 1).is_some_and(is_place) => {
                at += 1;
            }
            TokenTree::Ident(_) => at = collect_path(&tokens, at, prefix, paths),
            TokenTree::Punct(star) if star.as_char() == '*' && !prefix.is_empty() => {
                let line = star.span().start().line;
                paths.push(PathUse { segments: prefix.into(), glob: true, renamed: false, line });
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
}

/// Whether this is the `(in path)` of a visibility.
fn is_place(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(word)) if word == "in")
}

/// Reads the path that starts at `tokens[start]`; returns the index of its last token.
fn collect_path(
    tokens: &[TokenTree],
    start: usize,
    prefix: &[String],
    paths: &mut Vec<PathUse>,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut at = start;
    let mut glob = false;
    while let TokenTree::Ident(name) = &tokens[at] {
        // `{self, ..}` in a `use` tree names the path before the braces.
        if name != "self" || prefix.is_empty() {
            segments.push(name.to_string().trim_start_matches("r#").to_string());
        }
        if !is_path_separator(tokens, at + 1) {
            break;
        }
        match tokens.get(at + 3) {
            Some(TokenTree::Ident(_)) => at += 3,
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                collect_paths(group.stream(), &segments, paths);
                return at + 3;
            }
            Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
                glob = true;
                at += 3;
                break;
            }
            _ => break,
        }
    }
    let is_ident = |index: usize, word: &str| match tokens.get(index) {
        Some(TokenTree::Ident(name)) => name == word,
        _ => false,
    };
    let renamed = start > 0 && is_ident(start - 1, "use") && is_ident(at + 1, "as");
    paths.push(PathUse { segments, glob, renamed, line: tokens[at].span().start().line });
    at
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |token: &TokenTree, spacing: Option<Spacing>| match token {
        TokenTree::Punct(punct) => {
            punct.as_char() == ':' && spacing.is_none_or(|wanted| punct.spacing() == wanted)
        }
        _ => false,
    };
    tokens.get(at).is_some_and(|token| is_colon(token, Some(Spacing::Joint)))
        && tokens.get(at + 1).is_some_and(|token| is_colon(token, None))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tree::Tree;

    fn paths(text: &str) -> Vec<String> {
        let file = TextFile { path: "a.rs".into(), text: text.into() };
        let found = RustFile::parse(&file).unwrap().paths();
        found.iter().filter(|p| p.segments.len() > 1).map(|p| p.segments.join("::")).collect()
    }

    #[test]
    fn unfolds_use_trees() {
        let found = paths("use std::{fs, time::{self, Instant as I}, io::*, net};");
        let expected = ["std::fs", "std::time", "std::time::Instant", "std::io", "std::net"];
        assert_eq!(found, expected);
    }

    #[test]
    fn sees_paths_in_types_calls_and_macro_bodies() {
        let found =
            paths("fn f(a: &::std::fs::File) { g::<u8>(); assert!(std::env::var(\"x\")); }");
        assert_eq!(found, ["std::fs::File", "std::env::var"]);
    }

    #[test]
    fn a_path_reaches_what_it_names_contains_or_brings_in_whole() {
        let reaches = |text: &str, target: &str| {
            let file = TextFile { path: "a.rs".into(), text: text.into() };
            RustFile::parse(&file).unwrap().paths().iter().any(|path| path.reaches(target))
        };
        assert!(reaches("use std::time::Instant;", "std::time::Instant"));
        assert!(reaches("use std::fs::File;", "std::fs"));
        assert!(reaches("use std::time;", "std::time::Instant"));
        assert!(reaches("use std::time::*;", "std::time::Instant"));
        assert!(reaches("use std as s;", "std::fs"));
        assert!(reaches("use std::*;", "std::fs"));
        assert!(!reaches("use std::time::Duration;", "std::time::Instant"));
        assert!(!reaches("fn f(std: f64) -> f32 { std as f32 }", "std::fs"));
        assert!(!reaches("use crate::std::fs;", "std::fs"));
        assert!(reaches("use loom::cell::Cell;", "loom"));
        assert!(reaches("use loom as l;", "loom"));
        assert!(!reaches("#[cfg(loom)] fn f(loom: u8) {}", "loom"));
    }

    #[test]
    fn tells_test_items_from_product() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n\
                    #[cfg(all(test, not(loom)))]\nfn c() {}\n#[cfg(any(test, x))]\nfn d() {}\n";
        let file = RustFile::parse(&TextFile { path: "a.rs".into(), text: text.into() }).unwrap();
        let lines: Vec<usize> = (1..=9).filter(|line| file.is_test_line(*line)).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn follows_test_modules_into_their_files() {
        let tree = Tree::from_samples(
            &[
                ("crates/x/src/lib.rs", "#[cfg(test)]\nmod oracle;\nmod ring;"),
                ("crates/x/src/oracle.rs", "mod deep;"),
                ("crates/x/src/oracle/deep.rs", ""),
                ("crates/x/src/ring.rs", "#[cfg(test)]\nmod tests;"),
                ("crates/x/src/ring/tests.rs", ""),
                ("crates/x/src/ring/slot.rs", ""),
                ("crates/x/tests/a.rs", ""),
                ("tests/conformance/src/lib.rs", ""),
            ],
            Vec::new(),
        );
        let tests: Vec<_> = tree.rust.iter().filter(|f| f.is_test).map(|f| &f.path).collect();
        let expected = ["src/oracle.rs", "src/oracle/deep.rs", "src/ring/tests.rs", "tests/a.rs"];
        assert_eq!(tests, expected.map(|path| format!("crates/x/{path}")).each_ref());
    }
}
