//! Says of which build this crate is: libraries of one process share a rank only if they are of the
//! same (`src/copies.rs`), so that whatever the layout of its state depends on belongs to this.

use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates whose types the state of a rank consists of.
const CRATES: [&str; 6] = ["nic", "shm", "ofi", "msg", "coll", "rank"];

/// What cargo says of how they are compiled.
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
    let mut sum = Fnv1a::new();
    let sources = CRATES.map(|name| crates.join(name).join("src"));
    for sources in &sources {
        println!("cargo::rerun-if-changed={}", sources.display());
        let files = files(sources)?;
        files.iter().try_for_each(|file| fs::read(file).map(|text| sum.add(&text)))?;
    }
    // The versions of other people's crates.
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
    println!("cargo::rustc-env=HIKYAKU_BUILD={:016x}", sum.0);
    Ok(())
}

/// The files of a folder and of those within, in one order everywhere.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries: Result<Vec<PathBuf>, Error> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir() { found.extend(files(&entry)?) } else { found.push(entry) }
    }
    Ok(found)
}

/// FNV-1a over pieces and their lengths.
struct Fnv1a(u64);

impl Fnv1a {
    fn new() -> Fnv1a {
        Fnv1a(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
