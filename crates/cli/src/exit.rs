//! How commands end: exit codes, and messages of one line.
//!
//! | code | meaning |
//! |------|---------|
//! | 0 | success |
//! | 1 | the machine would not: no memory, no more processes, output that cannot be written |
//! | 2 | the command line asks for something that makes no sense |
//! | other | what the command itself says, such as the code of a failing rank |

use std::{fmt::Display, process::ExitCode};

use clap::error::ErrorKind;

/// The command line was at fault.
pub(crate) const USAGE: u8 = 2;

/// Says something on standard error, as one line that names its origin.
pub(crate) fn say(line: impl Display) {
    eprintln!("hikyaku: {line}");
}

/// Ends as the parser of the command line wants to: with help, or with one line on what is wrong.
pub(crate) fn of_command_line(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            // Nobody reads it: `hikyaku --help | true`.
            Err(_) => ExitCode::FAILURE,
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
