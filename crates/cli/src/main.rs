//! The program `hikyaku`: the command line of the library in this crate.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    hikyaku_cli::run_command(env::args_os().collect())
}
