//! The tests of the crate's public interface, in one program: all experiments run once for both.

mod mutants;
mod results;

use std::sync::OnceLock;

use hikyaku_reproduce::{PaperItem, Report, items, run};

/// All experiments on the machines of the tree, with the ranges.
fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| {
        let all: Vec<&'static PaperItem> = items().iter().collect();
        run(&all, is_long(), |_, _, _| ())
    })
}

/// Whether tests may take minutes.
fn is_long() -> bool {
    std::env::var_os("HIKYAKU_LONG").is_some()
}
