//! How commands end: exit codes, messages of one line, and the way to standard output and error.
//!
//! Everything goes through [`print()`], [`say`] and [`say_as_it_is`]: the macros of the standard
//! library panic where nobody takes what they write, and that would be another exit code.
//!
//! | code | meaning |
//! |------|---------|
//! | 0 | success |
//! | 1 | the machine would not: no memory, no more processes, output that cannot be written |
//! | 2 | the command line asks for something that makes no sense |
//! | 141 | whoever read standard output went away first (`hikyaku machine show ... | head -1`) |
//! | other | what the command itself says, such as the code of a failing rank |

use std::{
    fmt::Display,
    io::{self, ErrorKind as IoErrorKind, Write},
    process::ExitCode,
};

use clap::error::ErrorKind;
use thiserror::Error;

/// The command line was at fault.
pub(crate) const USAGE: u8 = 2;

/// What a shell makes of a program that SIGPIPE ended.
const NOBODY_READS: u8 = 128 + 13;

/// Says something on standard error, as one line that names its origin.
pub(crate) fn say(line: impl Display) {
    say_as_it_is(format_args!("hikyaku: {line}\n"));
}

/// Writes something on standard error as it is. Where that is not possible there is nobody to tell,
/// and it is no reason to end otherwise.
pub(crate) fn say_as_it_is(text: impl Display) {
    let _ = write!(io::stderr(), "{text}");
}

/// Why what was printed has not arrived.
#[derive(Debug, Error)]
#[error("cannot write standard output: {0}")]
pub(crate) struct PrintError(pub(crate) io::Error);

/// Prints a text and the end of a line on standard output.
pub(crate) fn print(text: impl Display) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(PrintError)
}

impl PrintError {
    /// Whether the reader went away, as `head` does when it has seen enough.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.kind() == IoErrorKind::BrokenPipe
    }

    /// Ends a command whose work was to print: without a word if the reader has seen enough.
    pub(crate) fn end(&self) -> ExitCode {
        if self.is_closed() {
            return ExitCode::from(NOBODY_READS);
        }
        say(self);
        ExitCode::FAILURE
    }
}

/// Ends as the parser of the command line wants to: with help, or with one line on what is wrong.
pub(crate) fn of_command_line(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => PrintError(error).end(),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nothing was asked: the help goes to standard error, and failing to write it there
            // could be told nowhere.
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ => {
            say(one_line(&error.render().to_string()));
            ExitCode::from(USAGE)
        }
    }
}

/// The parser explains itself in paragraphs: what is wrong, usage, a hint. The first, and hints,
/// are what one line can hold; `--help` has the rest.
fn one_line(message: &str) -> String {
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = message.split("\n\n").map(words);
    let what = paragraphs.next().unwrap_or_default();
    let mut line = what.strip_prefix("error: ").unwrap_or(&what).to_owned();
    for hints in paragraphs.filter(|text| text.starts_with("tip: ")) {
        for hint in hints.split("tip: ").map(str::trim).filter(|hint| !hint.is_empty()) {
            line.push_str("; ");
            line.push_str(hint);
        }
    }
    line.push_str(" (see --help)");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_one_line() {
        let message = "error: unexpected argument '--lable' found\n\n  tip: a similar argument \
                       exists: '--label'\n\nUsage: hikyaku run [OPTIONS]\n\nFor more information, \
                       try '--help'.\n";
        assert_eq!(
            one_line(message),
            "unexpected argument '--lable' found; a similar argument exists: '--label' (see --help)"
        );
        let message =
            "error: unexpected argument '--l' found\n\n  tip: one\n  tip: another\n\nUsage: x\n";
        assert_eq!(one_line(message), "unexpected argument '--l' found; one; another (see --help)");
        let message = "error: the following required arguments were not provided:\n  -n <N>\n  \
                       <PROGRAM>...\n\nUsage: x\n";
        assert_eq!(
            one_line(message),
            "the following required arguments were not provided: -n <N> <PROGRAM>... (see --help)"
        );
        assert_eq!(one_line(""), " (see --help)");
    }
}
