//! The tests of the program and of its parts on simulated ranks, in one program.

mod ranks;
mod simulated;

/// Starts the jobs of `ranks`.
#[test]
fn launcher() {
    hikyaku_jobs::own::launch(env!("CARGO_BIN_EXE_cg"));
}
