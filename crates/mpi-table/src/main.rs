//! Prints `mpi.h`, which `scripts/mpi.sh` puts beside the libraries; with the argument
//! `wrong-calls`, the trials of the program that calls every function wrongly.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args().nth(1).as_deref() {
        Some("wrong-calls") => hikyaku_mpi_table::wrong_calls(&hikyaku_mpi_table::table()?),
        _ => hikyaku_mpi_table::header()?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
