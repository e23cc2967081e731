//! No borrow of a `RefCell` in the head of a `match`, `if let`, `while let` or `for`.
//!
//! A borrow in a head lasts to the end of the body (Rust reference, "Temporary scopes"): a body
//! that calls anything which borrows the same cell panics, but only when it is reached. A borrow in
//! a statement of its own ends where a reader sees it. A head that is only the borrow is fine: then
//! its pattern names the guard.
//!
//! Clippy's `significant_drop_in_scrutinee` checks locks only. Names are not resolved here:
//! `borrow` of any type counts.

use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprClosure, ExprForLoop, ExprLet, ExprMatch, ExprMethodCall};

use crate::{RustFile, Tree, Violation};

/// Methods that return a guard.
const BORROWS: [&str; 4] = ["borrow", "borrow_mut", "try_borrow", "try_borrow_mut"];

/// Checks every head outside tests.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust.iter().filter(|file| !file.is_test).flat_map(check_file).collect()
}

fn check_file(file: &RustFile) -> Vec<Violation> {
    let mut heads = Heads { lines: Vec::new() };
    heads.visit_file(&file.syntax);
    let lines = heads.lines.into_iter().filter(|line| !file.is_test_line(*line));
    let violation = |line| {
        let what = "a borrow in the head of a `match`, `let` or `for` lasts to its body's end";
        Violation::new(&file.path, line, what.to_owned(), "borrow in a statement before it")
    };
    lines.map(violation).collect()
}

/// The lines of heads that borrow.
struct Heads {
    lines: Vec<usize>,
}

impl Heads {
    fn look_at(&mut self, head: &Expr) {
        let mut borrows = Borrows { line: None };
        match head {
            Expr::MethodCall(call) if is_borrow(call) => borrows.visit_expr(&call.receiver),
            head => borrows.visit_expr(head),
        }
        self.lines.extend(borrows.line);
    }
}

impl<'ast> Visit<'ast> for Heads {
    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        self.look_at(&node.expr);
        visit::visit_expr_match(self, node);
    }

    fn visit_expr_let(&mut self, node: &'ast ExprLet) {
        self.look_at(&node.expr);
        visit::visit_expr_let(self, node);
    }

    fn visit_expr_for_loop(&mut self, node: &'ast ExprForLoop) {
        self.look_at(&node.expr);
        visit::visit_expr_for_loop(self, node);
    }
}

/// The first borrow in an expression, except in bodies of their own.
struct Borrows {
    line: Option<usize>,
}

impl<'ast> Visit<'ast> for Borrows {
    fn visit_expr_method_call(&mut self, node: &'ast ExprMethodCall) {
        if is_borrow(node) {
            self.line.get_or_insert(node.method.span().start().line);
        }
        visit::visit_expr_method_call(self, node);
    }

    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}

    fn visit_block(&mut self, _: &'ast Block) {}
}

fn is_borrow(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && BORROWS.iter().any(|name| call.method == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(body: &str) -> Vec<usize> {
        let text = format!("fn f() {{\n{body}\n}}\n");
        let tree = Tree::from_samples(&[("a.rs", &text)], Vec::new());
        assert!(tree.unparsed.is_empty(), "{body}");
        check(&tree).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_borrow_in_a_head_is_found() {
        for body in [
            "match act(cell.borrow_mut().port()) { _ => rest() }",
            "if let Some(x) = cell.borrow().first() { rest(x) }",
            "while let Some(x) = cell.borrow_mut().pop() { rest(x) }",
            "for x in &*cell.borrow() { rest(x) }",
            "if a && let Some(x) = cell.borrow().first() { rest(x) }",
            "call(|x| match &*x.borrow() { _ => rest() })",
        ] {
            assert_eq!(lines(body), [2], "{body}");
        }
    }

    #[test]
    fn what_ends_before_the_body_or_is_named_by_the_pattern_is_not() {
        for body in [
            "let x = cell.borrow_mut().pop(); if let Some(x) = x { rest(x) }",
            "if cell.borrow().is_empty() { rest() }",
            "if let Ok(guard) = cell.try_borrow_mut() { rest(guard) }",
            "match list.iter().map(|x| x.borrow().len()).sum() { _ => rest() }",
            "match { let x = cell.borrow().len(); x } { _ => rest() }",
        ] {
            assert!(lines(body).is_empty(), "{body}");
        }
    }
}
