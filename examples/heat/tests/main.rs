//! The tests of the program and of its parts on simulated ranks, in one program.

mod command_line;
mod ranks;
mod simulated;

use std::path::PathBuf;

/// The first bytes of every PNG file.
const PNG_MAGIC: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

/// A separate directory for each test. Those of all packages are in one folder.
fn directory(name: &str) -> PathBuf {
    hikyaku_jobs::own::directory(env!("CARGO_TARGET_TMPDIR"), &format!("heat-{name}"))
}

/// Starts the jobs of `ranks`.
#[test]
fn launcher() {
    hikyaku_jobs::own::launch(env!("CARGO_BIN_EXE_heat"));
}
