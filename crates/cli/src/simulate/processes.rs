//! `hikyaku simulate … -- ./program`: real processes in virtual time.

use std::ffi::OsString;
use std::process::ExitCode;

use super::Setting;
use crate::exit::{USAGE, say};

/// Runs the processes of a command on a simulated machine.
pub(crate) fn run(setting: &Setting, command: &[OsString]) -> ExitCode {
    let name = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    say(format_args!(
        "cannot run processes ({name}) on {}: name a built-in program, see hikyaku simulate --help",
        setting.machine.name
    ));
    ExitCode::from(USAGE)
}
