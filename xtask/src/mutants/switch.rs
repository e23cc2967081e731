//! Many mutants in one program: each is behind a switch that a test turns on by a number.
//!
//! ```text
//!   a + b                     (if on(7) { a - b } else { a + b })
//!   fn f() -> u64 { g() }     fn f() -> u64 { if on(8) { return 0; } g() }
//!   Some(x) => ...            Some(x) if !on(9) => ...
//! ```
//!
//! An operator, a guard or a field becomes a choice of two expressions; nested ones are in the
//! `else`, since at most one mutant is on. Code that is evaluated at compile time cannot be
//! switched: constants, `const fn`, the length of an array. The compiler finds these. A chain of
//! `let` cannot be switched either, since it cannot be in parentheses.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::pick::{Genre, Mutant};

/// The environment variable that turns a mutant on, by its number.
pub(super) const MUTANT: &str = "XTASK_MUTANT";

/// The variable that names the file to which a program appends the numbers of the switches it
/// reaches.
pub(super) const REACHED: &str = "XTASK_REACHED";

/// The code that a crate needs for `count` switches, appended to its `lib.rs`.
///
/// The number is read once. It is not an argument, since a test starts other programs, and these
/// inherit the environment.
pub(super) fn module(count: usize) -> String {
    format!(
        r#"
#[allow(dead_code)]
mod mutant_switch {{
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{{AtomicBool, Ordering}};

    static ACTIVE: OnceLock<(usize, bool)> = OnceLock::new();
    static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];

    pub(crate) fn on(number: usize) -> bool {{
        let &(active, watched) = ACTIVE.get_or_init(|| {{
            let number = std::env::var("{MUTANT}").ok().and_then(|text| text.parse().ok());
            (number.unwrap_or(usize::MAX), std::env::var_os("{REACHED}").is_some())
        }});
        if watched && !SEEN[number].swap(true, Ordering::Relaxed) {{
            reached(number);
        }}
        active == number
    }}

    #[cold]
    fn reached(number: usize) {{
        let Some(path) = std::env::var_os("{REACHED}") else {{ return }};
        if let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(path) {{
            let _ = file.write_all(format!("{{number}}\n").as_bytes());
        }}
    }}
}}
"#
    )
}

/// A mutant and the number of its switch.
pub(super) type Numbered<'a> = (usize, &'a Mutant);

/// A changed source text.
#[derive(Debug, Default)]
pub(super) struct Edited {
    /// The text.
    pub(super) text: String,
    /// The places of the mutants in it.
    pub(super) places: Vec<Place>,
}

/// The place of a mutant in a changed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The mutant's number.
    pub(super) number: usize,
    /// Whether it deletes an arm of a match: then the compiler objects at the match.
    pub(super) is_arm: bool,
    /// The bytes that the compiler sees because of this mutant.
    pub(super) bytes: Range<usize>,
}

/// `source` with those of its `mutants` that can be switched.
pub(super) fn switched(source: &str, mutants: &[Numbered<'_>]) -> Edited {
    let mutants = mutants.iter().map(|&(number, mutant)| (mutant.bytes(source), number, mutant));
    let mutants: Vec<_> = mutants.collect();
    let mut finder = Finder { source, mutants: &mutants, edits: BTreeMap::new() };
    // cargo-mutants has parsed it: a text that cannot be parsed has no mutants.
    if let Ok(file) = syn::parse_file(source) {
        finder.visit_file(&file);
    }
    let mut edits: Vec<Edit> = finder.edits.into_values().collect();
    // An enclosing edit comes first.
    edits.sort_by_key(|edit| (edit.range.start, !edit.range.is_empty(), Reverse(edit.range.end)));
    let mut writer = Writer { source, edited: Edited::default() };
    writer.write(0..source.len(), &edits);
    writer.edited
}

/// A switch to be put into a text.
struct Edit {
    number: usize,
    /// The code under the switch; empty if code is only added.
    range: Range<usize>,
    is_arm: bool,
    text: Text,
}

enum Text {
    /// Added at the empty range.
    Added(String),
    /// The code that runs if the switch is on, and the code before the choice.
    Instead { before: String, mutated: String },
}

/// Finds the code that each mutant changes.
struct Finder<'a> {
    source: &'a str,
    /// With the bytes that each replaces.
    mutants: &'a [(Range<usize>, usize, &'a Mutant)],
    edits: BTreeMap<usize, Edit>,
}

impl Finder<'_> {
    /// The mutants of this genre that begin at the byte `start`.
    fn mutants(&self, genre: Genre, start: usize) -> Vec<(usize, String)> {
        let all = self.mutants.iter();
        all.filter(|(bytes, _, mutant)| mutant.genre == genre && bytes.start == start)
            .map(|(_, number, mutant)| (*number, mutant.replacement.clone()))
            .collect()
    }

    fn choose(&mut self, number: usize, range: Range<usize>, before: String, mutated: String) {
        let text = Text::Instead { before, mutated };
        self.edits.insert(number, Edit { number, range, is_arm: false, text });
    }

    /// An operator of the expression at `range` is replaced or removed.
    fn operator(&mut self, genre: Genre, operator: Range<usize>, range: Range<usize>) {
        for (number, replacement) in self.mutants(genre, operator.start) {
            let (left, right) = (range.start..operator.start, operator.end..range.end);
            let mutated = [&self.source[left], &replacement, &self.source[right]].concat();
            self.choose(number, range.clone(), String::new(), mutated);
        }
    }

    /// A function returns another value at once. The innermost function has the mutant: a later
    /// call for the same mutant replaces the edit of an outer function.
    fn body(&mut self, block: &syn::Block) {
        let range = block.span().byte_range();
        let at = range.start + 1;
        for &(ref bytes, number, mutant) in self.mutants {
            let is_inside = range.start <= bytes.start && bytes.end <= range.end;
            if mutant.genre == Genre::FnValue && is_inside {
                let text = format!(" if {} {{ return {}; }} ", on(number), mutant.replacement);
                let (range, text) = (at..at, Text::Added(text));
                self.edits.insert(number, Edit { number, range, is_arm: false, text });
            }
        }
    }

    fn arm(&mut self, arm: &syn::Arm) {
        let guard = match &arm.pat {
            syn::Pat::Guard(pat) => Some(&*pat.guard),
            _ => None,
        };
        let deleted = self.mutants(Genre::MatchArm, arm.span().byte_range().start);
        let Some(guard) = guard else {
            let at = arm.pat.span().byte_range().end;
            for (number, _) in deleted {
                let text = Text::Added(format!(" if !{} ", on(number)));
                self.edits.insert(number, Edit { number, range: at..at, is_arm: true, text });
            }
            return;
        };
        if has_let(guard) {
            return;
        }
        let range = guard.span().byte_range();
        for (number, _) in deleted {
            self.choose(number, range.clone(), String::new(), "false".to_string());
        }
        for (number, value) in self.mutants(Genre::MatchArmGuard, range.start) {
            self.choose(number, range.clone(), String::new(), value);
        }
    }

    /// A deleted field takes the value of the base.
    fn fields(&mut self, expression: &syn::ExprStruct) {
        let Some(base) = &expression.rest else { return };
        let base = &self.source[base.span().byte_range()];
        let path = &self.source[expression.path.span().byte_range()];
        for field in &expression.fields {
            let syn::Member::Named(name) = &field.member else { continue };
            let before = match field.colon_token {
                Some(_) => String::new(),
                None => format!("{name}: "),
            };
            let start = field.span().byte_range().start;
            for (number, _) in self.mutants(Genre::StructField, start) {
                let mutated = format!("let base: {path} = {base}; base.{name}");
                self.choose(number, field.expr.span().byte_range(), before.clone(), mutated);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.body(&item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        if !has_let(&expression.left) && !has_let(&expression.right) {
            let (operator, range) = (expression.op.span(), expression.span());
            self.operator(Genre::BinaryOperator, operator.byte_range(), range.byte_range());
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        let (operator, range) = (expression.op.span(), expression.span());
        self.operator(Genre::UnaryOperator, operator.byte_range(), range.byte_range());
        visit::visit_expr_unary(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.arm(arm);
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        self.fields(expression);
        visit::visit_expr_struct(self, expression);
    }
}

/// Whether a chain of `&&` has a `let`.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The expression that tests whether a switch is on.
fn on(number: usize) -> String {
    format!("crate::mutant_switch::on({number})")
}

/// Puts switches into a text.
struct Writer<'a> {
    source: &'a str,
    edited: Edited,
}

impl Writer<'_> {
    /// Writes the `range` of the source with the `edits` in it.
    fn write(&mut self, range: Range<usize>, mut edits: &[Edit]) {
        let mut at = range.start;
        while let Some((edit, rest)) = edits.split_first() {
            self.push(&self.source[at..edit.range.start]);
            let start = self.edited.text.len();
            let place = |end| Place { number: edit.number, is_arm: edit.is_arm, bytes: start..end };
            let mut nested = 0;
            match &edit.text {
                Text::Added(text) => {
                    self.push(text);
                    self.edited.places.push(place(self.edited.text.len()));
                }
                Text::Instead { before, mutated } => {
                    let is_nested = |other: &&Edit| other.range.end <= edit.range.end;
                    nested = rest.iter().take_while(is_nested).count();
                    self.push(&format!("{before}(if {} {{ {mutated} }}", on(edit.number)));
                    self.edited.places.push(place(self.edited.text.len()));
                    self.push(" else { ");
                    self.write(edit.range.clone(), &rest[..nested]);
                    self.push(" })");
                }
            }
            at = edit.range.end;
            edits = &rest[nested..];
        }
        self.push(&self.source[at..range.end]);
    }

    fn push(&mut self, text: &str) {
        self.edited.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::pick::{Point, Span};

    /// A mutant of `text`, at its first occurrence in `source`.
    fn mutant(source: &str, genre: Genre, text: &str, replacement: &str) -> Mutant {
        let start = source.find(text).unwrap_or_else(|| panic!("{text} is not in {source}"));
        let point = |at: usize| {
            let line = source[..at].matches('\n').count();
            let column = source[..at].chars().rev().take_while(|&c| c != '\n').count();
            Point { line: line + 1, column: column + 1 }
        };
        let span = Span { start: point(start), end: point(start + text.len()) };
        let (file, replacement) = ("a.rs".to_string(), replacement.to_string());
        Mutant { name: format!("{file}:1:1: {text}"), file, genre, span, replacement }
    }

    /// The source with the mutants of these genres, texts and replacements switched; `on(N)` is
    /// written `N?`.
    fn switch(source: &str, changes: &[(Genre, &str, &str)]) -> String {
        let mutants: Vec<Mutant> =
            changes.iter().map(|&(genre, old, new)| mutant(source, genre, old, new)).collect();
        let numbered: Vec<Numbered<'_>> = mutants.iter().enumerate().collect();
        let text = switched(source, &numbered).text;
        (0..changes.len()).fold(text, |text, n| text.replace(&on(n), &format!("{n}?")))
    }

    #[test]
    fn each_genre_has_its_switch() {
        use Genre::{BinaryOperator, FnValue, MatchArm, MatchArmGuard, StructField, UnaryOperator};
        for (source, change, expected) in [
            (
                "fn f() { a < b }",
                (BinaryOperator, "<", ">="),
                "fn f() { (if 0? { a >= b } else { a < b }) }",
            ),
            (
                "fn f() { ä(); x += 1; }",
                (BinaryOperator, "+=", "-="),
                "fn f() { ä(); (if 0? { x -= 1 } else { x += 1 }); }",
            ),
            ("fn f() { !a }", (UnaryOperator, "!", ""), "fn f() { (if 0? { a } else { !a }) }"),
            (
                "fn f() -> u8 { g();\n 1 }",
                (FnValue, "g();\n 1", "0"),
                "fn f() -> u8 { if 0? { return 0; }  g();\n 1 }",
            ),
            (
                "fn f() { match a { 1 => b, _ => c } }",
                (MatchArm, "1 => b,", ""),
                "fn f() { match a { 1 if !0?  => b, _ => c } }",
            ),
            (
                "fn f() { match a { 1 if b => c, _ => d } }",
                (MatchArm, "1 if b => c,", ""),
                "fn f() { match a { 1 if (if 0? { false } else { b }) => c, _ => d } }",
            ),
            (
                "fn f() { match a { 1 if b => c, _ => d } }",
                (MatchArmGuard, "b", "true"),
                "fn f() { match a { 1 if (if 0? { true } else { b }) => c, _ => d } }",
            ),
            (
                "fn f() { A { x: 1, ..g() } }",
                (StructField, "x: 1,", ""),
                "fn f() { A { x: (if 0? { let base: A = g(); base.x } else { 1 }), ..g() } }",
            ),
            (
                "fn f() { A { x, ..g() } }",
                (StructField, "x,", ""),
                "fn f() { A { x: (if 0? { let base: A = g(); base.x } else { x }), ..g() } }",
            ),
        ] {
            assert_eq!(switch(source, &[change]), expected);
        }
    }

    #[test]
    fn nested_operators_stand_where_no_outer_one_is_on() {
        use Genre::BinaryOperator;
        let changes = [(BinaryOperator, "+", "-"), (BinaryOperator, "*", "/")];
        assert_eq!(
            switch("fn f() { a + b * c }", &changes),
            "fn f() { (if 0? { a - b * c } else { a + (if 1? { b / c } else { b * c }) }) }"
        );
    }

    #[test]
    fn an_operator_can_have_several_switches() {
        use Genre::{BinaryOperator, MatchArmGuard};
        let changes = [(BinaryOperator, "+", "-"), (BinaryOperator, "+", "*")];
        assert_eq!(
            switch("fn f() { a + b }", &changes),
            "fn f() { (if 0? { a - b } else { (if 1? { a * b } else { a + b }) }) }"
        );
        let changes = [(MatchArmGuard, "b < c", "true"), (BinaryOperator, "<", ">")];
        assert_eq!(
            switch("fn f() { match a { _ if b < c => 1 } }", &changes),
            "fn f() { match a { _ if (if 0? { true } else { (if 1? { b > c } else { b < c }) }) \
             => 1 } }"
        );
    }

    #[test]
    fn a_function_within_a_function_keeps_its_mutant() {
        let source = "fn f() { fn g() -> u8 { h() } g() }";
        assert_eq!(
            switch(source, &[(Genre::FnValue, "h()", "0")]),
            "fn f() { fn g() -> u8 { if 0? { return 0; }  h() } g() }"
        );
    }

    #[test]
    fn a_chain_of_let_has_no_switch() {
        let source = "fn f() { if a == 1 && let Some(b) = c { d } }";
        assert_eq!(switch(source, &[(Genre::BinaryOperator, "&&", "||")]), source);
        assert_eq!(
            switch(source, &[(Genre::BinaryOperator, "==", "!=")]),
            "fn f() { if (if 0? { a != 1 } else { a == 1 }) && let Some(b) = c { d } }"
        );
        let source = "fn f() { match a { 1 if let Some(b) = c => d, _ => e } }";
        assert_eq!(switch(source, &[(Genre::MatchArmGuard, "let Some(b) = c", "true")]), source);
    }

    #[test]
    fn a_place_is_what_a_mutant_has_added() {
        let source = "fn f() { a + b }";
        let plus = mutant(source, Genre::BinaryOperator, "+", "-");
        let edited = switched(source, &[(3, &plus)]);
        let [place] = &edited.places[..] else { panic!("{edited:?}") };
        assert_eq!(
            (place.number, &edited.text[place.bytes.clone()]),
            (3, "(if crate::mutant_switch::on(3) { a - b }")
        );
    }
}
