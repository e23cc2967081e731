//! `hikyaku mpi-coverage`: the implemented functions of MPI.

use std::process::ExitCode;

use clap::Args;
use hikyaku_mpi_table::{Coverage, table};

use crate::exit;

/// Print how many functions of MPI are built, by chapter
///
/// A function that is not built answers MPI_ERR_UNSUPPORTED_OPERATION and names itself.
#[derive(Debug, Args)]
pub(crate) struct MpiArguments {
    /// Print the names of those that are not built instead
    #[arg(long)]
    missing: bool,
}

/// Prints the coverage or the missing names.
pub(crate) fn print_coverage(arguments: &MpiArguments) -> ExitCode {
    let coverage = match table() {
        Ok(table) => Coverage::of(&table),
        Err(error) => {
            exit::say(error);
            return ExitCode::FAILURE;
        }
    };
    let text = match arguments.missing {
        true => coverage.missing().trim_end().to_owned(),
        false => coverage.to_string(),
    };
    exit::print(text).map_or_else(|error| error.end(), |()| ExitCode::SUCCESS)
}
