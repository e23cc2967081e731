//! Computes the build of this crate. Libraries of one process share a rank only if their builds are
//! equal (`src/copies.rs`), so everything that the layout of its state depends on is part of the
//! build.

#[path = "../shm/build/sources.rs"]
mod sources;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sources::Sum;

/// The crates whose types form the state of a rank.
const CRATES: [&str; 6] = ["nic", "shm", "ofi", "msg", "coll", "rank"];

/// The variables of cargo that describe how they are compiled.
const VARIABLES: [&str; 7] = [
    "TARGET",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_CFG_DEBUG_ASSERTIONS",
    "CARGO_CFG_TARGET_FEATURE",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let crates = own.parent().ok_or("the crate has no folder around it")?;
    let mut sum = Sum::of_sources(crates, &CRATES)?;
    // The versions of third-party crates.
    for lock in crates.ancestors().map(|folder| folder.join("Cargo.lock")) {
        if lock.exists() {
            println!("cargo::rerun-if-changed={}", lock.display());
            sum.add(&fs::read(lock)?);
            break;
        }
    }
    for variable in VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
        sum.add(std::env::var(variable).unwrap_or_default().as_bytes());
    }
    let compiler = Command::new(std::env::var("RUSTC")?).arg("-vV").output()?;
    sum.add(&compiler.stdout);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../shm/build/sources.rs");
    println!("cargo::rustc-env=HIKYAKU_BUILD={:016x}", sum.0);
    Ok(())
}
