//! The command line: `hikyaku run` starts jobs, `hikyaku bench` measures, `hikyaku machine` shows
//! simulated machines, `hikyaku reproduce` runs the papers' experiments on them, `hikyaku simulate`
//! programs.
//!
//! A door, no room: what a command does lives in its module, and what that stands on in the
//! libraries. Exit codes and the form of messages are in [`exit`], the same for all commands.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod exit;
mod machine;
mod reproduce;
mod run;
mod simulate;

use std::fs;
use std::process::ExitCode;
use std::thread;

use clap::{Parser, Subcommand};

/// Message passing between processes, where the receiving side lands the messages.
#[derive(Debug, Parser)]
#[command(name = "hikyaku", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "See 'hikyaku COMMAND --help' for what a command does, with examples.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
enum Command {
    Run(run::Arguments),
    Bench(bench::Arguments),
    Machine(machine::Arguments),
    Reproduce(reproduce::Arguments),
    Simulate(simulate::Arguments),
}

/// A main thread with less room for its stack than this (`ulimit -s`) has another one work.
const ENOUGH_STACK: u64 = 1 << 20;

/// What the other one has.
const STACK: usize = 4 << 20;

fn main() -> ExitCode {
    if stack_limit().is_none_or(|limit| limit >= ENOUGH_STACK) {
        return work();
    }
    let worker = thread::Builder::new().stack_size(STACK).spawn(work);
    // Without a thread, or if it has panicked and said so: try here, or end as a panic does.
    worker.map_or_else(|_| work(), |worker| worker.join().unwrap_or(ExitCode::from(PANICKED)))
}

/// The limit on the main thread's stack; `None`: there is none, or nobody tells. Read, since the
/// safe form of the system call panics where a filter refuses it.
fn stack_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max stack size"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Exit code of a program whose main thread has panicked.
const PANICKED: u8 = 101;

fn work() -> ExitCode {
    match CommandLine::try_parse() {
        Ok(CommandLine { command: Command::Run(arguments) }) => run::run(arguments),
        Ok(CommandLine { command: Command::Bench(arguments) }) => bench::run(&arguments),
        Ok(CommandLine { command: Command::Machine(arguments) }) => machine::run(&arguments),
        Ok(CommandLine { command: Command::Reproduce(arguments) }) => reproduce::run(&arguments),
        Ok(CommandLine { command: Command::Simulate(arguments) }) => simulate::run(&arguments),
        Err(error) => exit::of_command_line(&error),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
