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

use std::process::ExitCode;

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

fn main() -> ExitCode {
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
