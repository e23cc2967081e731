//! Runs many random programs: `programs [WORDS]`, with `launch`, `simulate` and `generated` in the
//! same folder.
//!
//! - `--first SEED`, `--count N`: the seeds; by default from a new seed on, and 100.
//! - `--machine FILE`: in virtual time on this machine.
//! - `--faults`: faults are injected at the ranks' ports.
//! - `--without kind,kind`: without steps of these kinds.
//! - `--timeout SECONDS`, `--at-once N`, `--shrinking RUNS`.

#![allow(clippy::unwrap_used)]

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hikyaku_jobs::Random;
use hikyaku_jobs::generator::many::Many;

fn main() -> ExitCode {
    let own = env::current_exe().unwrap();
    let first = Random::fresh_seed() >> 16;
    let mut many = Many::new(own.parent().unwrap().to_owned(), first, 100);
    let mut words = env::args().skip(1);
    while let Some(flag) = words.next() {
        let mut word = || words.next().unwrap_or_else(|| panic!("{flag} needs a word"));
        match flag.as_str() {
            "--first" => many.first = word().parse().unwrap(),
            "--count" => many.count = word().parse().unwrap(),
            "--machine" => many.machine = Some(word().into()),
            "--faults" => many.faults = true,
            "--without" => many.without = word().split(',').map(str::to_owned).collect(),
            "--timeout" => many.timeout = Duration::from_secs_f64(word().parse().unwrap()),
            "--at-once" => many.at_once = word().parse().unwrap(),
            "--shrinking" => many.shrinking = word().parse().unwrap(),
            other => panic!("there is no {other}"),
        }
    }
    println!("programs {}..{}", many.first, many.first + many.count);
    let start = Instant::now();
    let failed = many.run(&|failure| print!("{failure}"));
    let count: usize = failed.values().map(Vec::len).sum();
    let (of, seconds) = (many.count, start.elapsed().as_secs_f64());
    println!("{count} of {of} programs failed in {seconds:.0} s");
    failed.iter().for_each(|(class, seeds)| println!("{class:?}: {seeds:?}"));
    ExitCode::from(u8::from(count > 0))
}
