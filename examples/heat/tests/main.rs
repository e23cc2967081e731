//! The tests of the program and of its parts on simulated ranks, in one program.

mod command_line;
mod ranks;
mod simulated;

use std::path::PathBuf;

/// How every PNG file begins.
const PNG_MAGIC: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

/// A directory of its own for each test. Those of all packages lie in one folder.
fn directory(name: &str) -> PathBuf {
    hikyaku_jobs::own::directory(env!("CARGO_TARGET_TMPDIR"), &format!("heat-{name}"))
}

/// Starts the jobs of `ranks`.
#[test]
fn launcher() {
    hikyaku_jobs::own::launch(env!("CARGO_BIN_EXE_heat"));
}
