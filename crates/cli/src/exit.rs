//! How commands end: exit codes, messages of one line, and output to standard output and error.
//!
//! All output goes through [`print()`], [`say`] and [`say_as_it_is`]. The macros of the standard
//! library panic when the reader has gone, and a panic has another exit code.
//!
//! | code | meaning |
//! |------|---------|
//! | 0 | success |
//! | 1 | the machine refused: no memory, no more processes, output that cannot be written |
//! | 2 | the command line is invalid |
//! | 141 | the reader of standard output closed it first (`hikyaku machine show ... | head -1`) |
//! | other | the command's own, such as the code of a failing rank |

use std::{
    fmt::Display,
    fs::{self, OpenOptions},
    io::{self, ErrorKind as IoErrorKind, Write},
    path::Path,
    process::ExitCode,
};

use clap::error::ErrorKind;
use thiserror::Error;

/// The command line is invalid.
pub(crate) const USAGE: u8 = 2;

/// The exit code that a shell reports for a program ended by SIGPIPE.
const NOBODY_READS: u8 = 128 + 13;

/// Writes one line to standard error, preceded by the program's name. A line may quote a file or an
/// argument: control characters are shown as escapes, so that a terminal does not obey them.
pub(crate) fn say(line: impl Display) {
    let mut shown = String::new();
    for character in line.to_string().chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    say_as_it_is(format_args!("hikyaku: {shown}\n"));
}

/// Writes a text to standard error unchanged, in one piece: other processes write there too. A
/// failure is ignored: it cannot be reported anywhere.
pub(crate) fn say_as_it_is(text: impl Display) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Standard output could not be written.
#[derive(Debug, Error)]
#[error("cannot write standard output: {0}")]
pub(crate) struct PrintError(pub(crate) io::Error);

/// Prints a text and a line end to standard output.
pub(crate) fn print(text: impl Display) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(PrintError)
}

/// Makes a folder for results, and checks that this file can be written there: a long run that
/// cannot be written would be lost. If the file exists, it is not changed.
pub(crate) fn begin_results(folder: &Path, file: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    OpenOptions::new().append(true).create(true).open(folder.join(file)).map(drop)
}

impl PrintError {
    /// Whether the reader closed the pipe, as `head` does.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.kind() == IoErrorKind::BrokenPipe
    }

    /// Ends a command whose work was to print: without a message if the reader closed the pipe.
    pub(crate) fn end(&self) -> ExitCode {
        if self.is_closed() {
            return ExitCode::from(NOBODY_READS);
        }
        say(self);
        ExitCode::FAILURE
    }
}

/// Ends after a parse error: prints help if it was asked for, else one line with the error.
pub(crate) fn of_command_line(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => PrintError(error).end(),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // No command: the help goes to standard error, where a failure cannot be reported.
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ => {
            say(one_line(&error.render().to_string()));
            ExitCode::from(USAGE)
        }
    }
}

/// Joins the parser's paragraphs to one line: the error, and hints. Usage is left to `--help`.
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
