//! Generates the functions of the library from the table of all functions of MPI, and sets the name
//! by which programs find the library.

use std::path::PathBuf;

use hikyaku_mpi_table::{functions, table_with_removed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let into = PathBuf::from(std::env::var("OUT_DIR")?).join("functions.rs");
    std::fs::write(into, functions(&table_with_removed()?))?;
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
