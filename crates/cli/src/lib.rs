//! The command line as a library: `hikyaku run` starts jobs, `hikyaku plan` plans their landing
//! rings from a trace, `hikyaku bench` measures, `hikyaku machine` shows simulated machines,
//! `hikyaku reproduce` runs the papers' experiments on them, `hikyaku simulate` runs programs on
//! them, `hikyaku fabric` shows and measures networks, `hikyaku mpi-coverage` lists the implemented
//! functions of MPI. Under the name `mpiexec` or `mpirun` it takes those programs' options.
//!
//! The module of a command has its options and output; the libraries do its work. Exit codes and
//! the form of messages are in `exit`, the same for all commands.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod exit;
mod fabric;
mod hosts;
mod input;
mod machine;
mod mpi;
mod mpiexec;
mod plan;
mod reproduce;
mod run;
mod simulate;
pub mod simulated;

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::thread;

use clap::{Parser, Subcommand};
use exit::PrintError;
use hikyaku_bench::{BenchFailure, Console};

/// Message passing between processes, where the receiving side lands the messages.
#[derive(Debug, Parser)]
#[command(name = "hikyaku", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "See 'hikyaku COMMAND --help' for what a command does, with examples.")]
struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
enum CliCommand {
    Run(run::RunArguments),
    Plan(plan::PlanArguments),
    /// A host's part of a job; launchers start it
    #[command(hide = true)]
    Daemon,
    Bench(hikyaku_bench::BenchArguments),
    Machine(machine::MachineArguments),
    Fabric(fabric::FabricArguments),
    Reproduce(reproduce::ReproduceArguments),
    Simulate(simulate::SimulateArguments),
    MpiCoverage(mpi::MpiArguments),
}

/// With less stack than this (`ulimit -s`) the main thread starts another thread for the work.
const ENOUGH_STACK: u64 = 1 << 20;

/// The stack of that thread.
const STACK: usize = 4 << 20;

/// Runs the command on this command line, and returns the exit code of the process. The first word
/// is the program's own name. The binary `hikyaku` only calls this function.
pub fn run_command(words: Vec<OsString>) -> ExitCode {
    if stack_limit().is_none_or(|limit| limit >= ENOUGH_STACK) {
        return work(&words);
    }
    let worker = {
        let words = words.clone();
        thread::Builder::new().stack_size(STACK).spawn(move || work(&words))
    };
    match worker {
        Ok(worker) => worker.join().unwrap_or(ExitCode::from(PANICKED)),
        // The machine refuses a thread. Try with the existing stack.
        Err(_) => work(&words),
    }
}

/// The limit on the main thread's stack; `None` if there is none, or it is unknown. It is read from
/// a file, because the safe form of the system call panics if a filter refuses it.
fn stack_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max stack size"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The exit code of a program whose main thread has panicked.
const PANICKED: u8 = 101;

fn work(words: &[OsString]) -> ExitCode {
    // The name may be the program's or the first argument: a wheel has no links.
    if let Some(at) = words.iter().take(2).position(|word| mpiexec::is_name(word)) {
        return mpiexec::run(&words[at + 1..]);
    }
    match CommandLine::try_parse_from(words) {
        Ok(CommandLine { command: CliCommand::Run(arguments) }) => run::run(arguments),
        Ok(CommandLine { command: CliCommand::Plan(arguments) }) => plan::run(&arguments),
        Ok(CommandLine { command: CliCommand::Daemon }) => hosts::run_daemon(),
        Ok(CommandLine { command: CliCommand::Bench(arguments) }) => bench(&arguments),
        Ok(CommandLine { command: CliCommand::Machine(arguments) }) => machine::run(&arguments),
        Ok(CommandLine { command: CliCommand::Fabric(arguments) }) => fabric::run(&arguments),
        Ok(CommandLine { command: CliCommand::Reproduce(arguments) }) => reproduce::run(&arguments),
        Ok(CommandLine { command: CliCommand::Simulate(arguments) }) => simulate::run(&arguments),
        Ok(CommandLine { command: CliCommand::MpiCoverage(arguments) }) => {
            mpi::print_coverage(&arguments)
        }
        Err(error) => exit::of_command_line(&error),
    }
}

/// Runs `hikyaku bench`.
fn bench(arguments: &hikyaku_bench::BenchArguments) -> ExitCode {
    let console = Console {
        print: &|text| exit::print(text).map_err(|error| error.0),
        say: &|line| exit::say(line),
    };
    match hikyaku_bench::run(arguments, console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(BenchFailure::Output(error)) => PrintError(error).end(),
        Err(error) => {
            exit::say(format_args!("bench: {error}"));
            match error {
                BenchFailure::Usage(_) => ExitCode::from(exit::USAGE),
                _ => ExitCode::FAILURE,
            }
        }
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
