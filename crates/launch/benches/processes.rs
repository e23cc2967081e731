//! Benchmark: calls per second of real processes in virtual time.
//!
//! `cargo bench -p hikyaku-launch --bench processes`. The ranks are processes of this program, on
//! the machine `fat-tree-200g`. They pass eight bytes around a ring and call allreduce in every
//! tenth round. The calls are small, so that the benchmark measures the handover between ranks and
//! simulator. Runs of all sizes take turns, three times; the median is printed. Seconds are real
//! time from the first process's start to the last one's end: only one process runs at a time, and
//! the kernel's work in between counts. Calls are counted as in the reports of `hikyaku simulate`:
//! commands, finds, waits. The last column is the rate divided by the project's target.

use std::error::Error;

use hikyaku::{Op, World};
use hikyaku_launch::Launch;
use hikyaku_launch::processes::{Machine, Processes};

/// Numbers of ranks, and the project's target for each: calls a second.
const RANKS: [(u32, Option<f64>); 4] = [(2, None), (16, None), (64, Some(3e4)), (256, None)];

/// Rounds times ranks: the same total for every size, so that runs take about equally long.
const ROUNDS: u32 = 100_000;

/// The first argument of a process that is to run as a rank.
const RANK: &str = "as-a-rank";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [rank, rounds] if rank == RANK => ring(rounds.parse()?),
        _ => measure(),
    }
}

/// The work of one rank.
fn ring(rounds: u32) -> Result<(), Box<dyn Error>> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut token = [u64::from(rank)];
    for round in 1..=rounds {
        let mut heard = [0];
        world.sendrecv(&token, next, 0, &mut heard, previous, 0)?;
        token = [heard[0] + 1];
        if round % 10 == 0 {
            let mut sum = token;
            world.allreduce(&mut sum, Op::Sum)?;
            let ranks = u64::from(size);
            assert_eq!(sum[0], ranks * (ranks - 1) / 2 + ranks * u64::from(round));
        }
    }
    Ok(())
}

/// The number of calls, and calls per second.
fn run(ranks: u32) -> Result<(u64, f64), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let args = [RANK.to_owned(), (ROUNDS / ranks).to_string()].map(Into::into).to_vec();
    let launch = Launch { args, owns_process: true, ..Launch::new(ranks, program) };
    let text = include_str!("../../../machines/fat-tree-200g.toml");
    let machine = Machine::parse("fat-tree-200g", text)?;
    let report = Processes { machine, trace: 0, ..Processes::on_a_test_machine(launch) }.run()?;
    match report.outcome.code {
        0 => Ok((report.calls(), report.calls_per_second())),
        code => Err(format!("{ranks} ranks ended with code {code}: {:?}", report.outcome).into()),
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average {}", load.split_whitespace().next().unwrap_or("unknown"));
    println!("{:28} {:>12} {:>12} {:>9}", "processes", "calls", "calls/s", "of target");
    let mut found = RANKS.map(|_| Vec::new());
    for _ in 0..3 {
        for ((ranks, _), all) in RANKS.iter().zip(&mut found) {
            all.push(run(*ranks)?);
        }
    }
    for ((ranks, target), mut all) in RANKS.into_iter().zip(found) {
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (calls, rate) = all[1];
        let met = target.map(|target| format!("{:8.2}x", rate / target)).unwrap_or_default();
        println!("{:28} {calls:12} {rate:12.0} {met:>9}", format!("ring-processes-{ranks}"));
    }
    Ok(())
}
