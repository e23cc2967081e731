//! Random programs, in real and in virtual time on every machine there is.
//!
//! `HIKYAKU_PROGRAMS` says how many there are in all (`make test-all`: 2,000), and
//! `HIKYAKU_PROGRAMS_SEED` repeats a run. A failure names its seed, the fewest steps that fail and
//! what each rank waits in; the program `programs` runs others by hand.

#![allow(clippy::unwrap_used)]

use std::env;
use std::path::{Path, PathBuf};

use hikyaku_jobs::Random;
use hikyaku_jobs::generator::many::Many;

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, expected a number")))
}

/// The files of the simulated machines.
fn machines() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    assert_eq!(files.len(), 7, "{files:?}");
    files
}

#[test]
fn random_programs() {
    let count = number("HIKYAKU_PROGRAMS").unwrap_or(40);
    let seed = number("HIKYAKU_PROGRAMS_SEED").unwrap_or_else(|| Random::fresh_seed() >> 16);
    println!("programs: HIKYAKU_PROGRAMS_SEED={seed}");
    let programs = Path::new(env!("CARGO_BIN_EXE_generated")).parent().unwrap();
    let new = |share| Many::new(programs.to_owned(), seed, share);
    // Half of them for real, some of these with faults; a seventh of the others on each machine.
    let mut runs = vec![new(count * 3 / 8), Many { faults: true, ..new(count / 8) }];
    for machine in machines() {
        runs.push(Many { machine: Some(machine), ..new(count.div_ceil(14)) });
    }
    let failed = runs.iter().flat_map(|many| many.run(&|failure| print!("{failure}")));
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "from the seed {seed} on: {failed:?}");
}
