//! A hash of the source text of crates, for build scripts.

use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};

/// FNV-1a over pieces and their lengths.
pub(crate) struct Sum(pub(crate) u64);

impl Sum {
    /// The hash of the source files of these folders in `crates`. Cargo runs the build script again
    /// when one changes.
    pub(crate) fn of_sources(crates: &Path, names: &[&str]) -> Result<Sum, Error> {
        let mut sum = Sum(0xCBF2_9CE4_8422_2325);
        for name in names {
            let sources = crates.join(name).join("src");
            println!("cargo::rerun-if-changed={}", sources.display());
            for file in files(&sources)? {
                sum.add(&fs::read(file)?);
            }
        }
        Ok(sum)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

/// The files of a folder and of its subfolders, in the same order on every machine.
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
