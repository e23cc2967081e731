//! Prints `mpi.h`; `scripts/mpi.sh` puts it beside the libraries.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::io::stdout().write_all(hikyaku_mpi_table::header()?.as_bytes())?;
    Ok(())
}
