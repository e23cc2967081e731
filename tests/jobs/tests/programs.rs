//! Random programs, in real and in virtual time on every machine that exists.
//!
//! `HIKYAKU_PROGRAMS` is the total number of programs (`make test-all`: 1,000). They are the same
//! in each run, so that a change is judged by its effect; `HIKYAKU_PROGRAMS_SEED` chooses others,
//! and
//! `make programs` new ones. A failure names its seed, the fewest steps that fail and the call that
//! each rank waits in; the program `programs` runs others by hand.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use hikyaku_jobs::generator::Kept;
use hikyaku_jobs::generator::many::Many;
use hikyaku_jobs::{machines, number};

/// The seed of the programs of every run.
const SEED: u64 = 1_000_000;

#[test]
fn random_programs() {
    let count = number("HIKYAKU_PROGRAMS").unwrap_or(40);
    let seed = number("HIKYAKU_PROGRAMS_SEED").unwrap_or(SEED);
    println!("programs: HIKYAKU_PROGRAMS_SEED={seed}");
    let programs = Path::new(env!("CARGO_BIN_EXE_generated")).parent().unwrap();
    let new = |share| Many::new(programs.to_owned(), seed, share);
    // Half of them in real time, the others on the machines in equal parts; some of both with
    // faults.
    let mut runs = vec![new(count * 3 / 8), Many { faults: true, ..new(count / 8) }];
    let machines = machines();
    let of_each = (count / 2).div_ceil(machines.len() as u64);
    for machine in machines {
        let machine = Some(machine);
        runs.push(Many { machine: machine.clone(), ..new(of_each * 3 / 4) });
        runs.push(Many { machine, faults: true, ..new(of_each.div_ceil(4)) });
    }
    let failed = runs.iter().flat_map(|many| many.run(&|failure| print!("{failure}")));
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "from the seed {seed} on: {failed:?}");
}

/// Programs that once waited for ever or panicked: the machine, if any, whether faults were
/// injected, the seed, the steps that suffice, and their kinds.
type Once = (&'static str, bool, u64, &'static [u32], &'static [&'static str]);
const ONCE: &[Once] = &[
    ("", false, 1019, &[25, 26, 27], &["collective", "acquire", "unmatched"]),
    ("", false, 263_853_796_241_317, &[9, 10], &["flight", "collective"]),
    ("", true, 28, &[16, 17], &["acquire", "unmatched"]),
    ("", true, 1_000_080, &[9, 10, 11], &["to-one", "acquire", "to-one"]),
    ("cenju4", false, 8, &[1, 2], &["unmatched", "signal"]),
    ("cenju4", false, 25, &[22, 23, 26, 27], &["pause", "unmatched", "puts", "flight"]),
    ("cenju4", false, 9_700_006, &[6, 3], &["leave", "messages"]),
    ("cenju4", false, 9, &[7, 9], &["unmatched", "messages"]),
    ("cp-pacs", false, 7, &[1, 2], &["unmatched", "grid"]),
    ("cp-pacs", false, 9, &[7, 10], &["unmatched", "acquire"]),
    ("dimmnet1", false, 265_989_822_813_529, &[9, 11, 12], &["unmatched", "exchange", "signal"]),
    ("dimmnet1", false, 23, &[5, 6], &["unmatched", "atomics"]),
    ("dimmnet2", false, 120_317_068_677_995, &[12, 13, 14], &["collective", "unmatched", "to-one"]),
    ("dimmnet2", false, 28, &[19, 20], &["unmatched", "around"]),
    ("dragonfly-200g", false, 24, &[8, 11, 12], &["collective", "unmatched", "cancelled"]),
    ("dragonfly-200g", false, 28, &[16, 17, 18], &["acquire", "unmatched", "messages"]),
    ("fx100-tofu2", false, 28, &[17, 18], &["unmatched", "messages"]),
    ("fx100-tofu2", false, 27, &[15], &["leave"]),
];

#[test]
fn programs_that_failed_once() {
    let programs = Path::new(env!("CARGO_BIN_EXE_generated")).parent().unwrap();
    let machines = machines();
    for (machine, faults, seed, steps, kinds) in ONCE {
        let of_the_name = |file: &&PathBuf| file.file_stem().unwrap() == *machine;
        let machine = machines.iter().find(of_the_name).cloned();
        let many = Many { machine, faults: *faults, ..Many::new(programs.to_owned(), 0, 0) };
        let kept = Kept { steps: Some(steps.to_vec()), without: Vec::new() };
        let program = many.program(*seed, &kept);
        let drawn: Vec<_> = program.all_steps().iter().map(|step| step.kind()).collect();
        assert_eq!(drawn, *kinds, "the generator draws another program from {seed} by now");
        if let Some(failure) = many.only(*seed, steps) {
            panic!("{failure}");
        }
    }
}
