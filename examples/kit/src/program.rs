//! A command of several ranks: rank 0 does all input and output, and all ranks end in order.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use hikyaku::{Error, World};

/// The rank that does all input and output.
pub const ROOT: u32 = 0;

/// Exit code of a run that failed.
pub const FAILED: u8 = 1;

/// Exit code after bad input.
pub const BAD_INPUT: u8 = 2;

/// A program, by the name with which its lines begin.
#[derive(Debug, Clone, Copy)]
pub struct ExampleProgram(pub &'static str);

impl ExampleProgram {
    /// Joins the job and runs the program on this rank, with its parsed command line.
    pub fn run<A: Parser>(
        self,
        body: impl FnOnce(&World, &A) -> Result<ExitCode, Error>,
    ) -> ExitCode {
        let world = match World::init() {
            Ok(world) => world,
            Err(error) => {
                self.complain(&format!("cannot join the job: {error}"));
                return ExitCode::from(FAILED);
            }
        };
        let ended = match A::try_parse() {
            Ok(arguments) => body(&world, &arguments),
            Err(error) => self.answer_usage(&world, &error),
        };
        ended.unwrap_or_else(|error| {
            self.complain(&format!("rank {}: {error}", world.rank()));
            ExitCode::from(FAILED)
        })
    }

    /// Answers an invalid command line: every rank sees the same, rank 0 prints the error. The
    /// others wait for that, because the first rank that fails makes the launcher end the job.
    fn answer_usage(self, world: &World, error: &clap::Error) -> Result<ExitCode, Error> {
        if world.rank() == ROOT {
            if error.use_stderr() {
                let text = error.render().to_string();
                let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
                let line = lines.collect::<Vec<_>>().join(" ");
                let line = line.replacen("error: ", "", 1);
                self.complain(&format!("{line} (--help lists the options)"));
            } else {
                // Help or version; a failure to print it is ignored.
                let _ = error.print();
            }
        }
        world.barrier()?;
        Ok(ExitCode::from(if error.use_stderr() { BAD_INPUT } else { 0 }))
    }

    /// Writes a file and reports it. Returns whether it was written.
    pub fn write(self, path: &Path, bytes: impl AsRef<[u8]>) -> bool {
        let written = fs::write(path, bytes);
        match &written {
            Ok(()) => self.say(&format!("{}: wrote {}", self.0, path.display())),
            Err(error) => self.complain(&format!("{}: cannot be written: {error}", path.display())),
        }
        written.is_ok()
    }

    /// Prints a line of results. A failure to print is ignored.
    pub fn say(self, line: &str) {
        let _ = writeln!(io::stdout(), "{line}");
    }

    /// Prints a line about an error, or about progress.
    pub fn complain(self, line: &str) {
        let _ = writeln!(io::stderr(), "{}: {line}", self.0);
    }
}

/// Reads a whole file of at most `most` bytes. Opening a named pipe without a writer would wait for
/// ever, and a device may never end, so only regular files are read.
///
/// # Errors
/// One line with the file and the cause.
pub fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let wrong =
        |reason: &dyn std::fmt::Display| format!("{}: cannot be read: {reason}", path.display());
    let metadata = fs::metadata(path).map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(&"it is not a regular file"));
    }
    if metadata.len() > most {
        return Err(wrong(&format_args!("it is longer than {most} bytes")));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_longer_than_the_limit_is_refused() {
        let path = std::env::temp_dir().join(format!("kit-limit-{}", std::process::id()));
        fs::write(&path, b"1234").unwrap();
        let (whole, refused) = (read_file(&path, 4), read_file(&path, 3));
        fs::remove_file(&path).unwrap();
        assert_eq!(whole.unwrap(), b"1234");
        let line = format!("{}: cannot be read: it is longer than 3 bytes", path.display());
        assert_eq!(refused.unwrap_err(), line);
    }
}
