//! A launcher in virtual time: the same as `hikyaku simulate … -- PROGRAM`, with the numbers in
//! fixed places and a line about the run for tests.
//!
//! `simulate RANKS RANKS_PER_NODE TIMEOUT PROGRAM [ARGUMENTS]`; one rank to a node if
//! RANKS_PER_NODE is 0. The machine is the tests' own, or that of the file in `SIMULATE_MACHINE`.
//! HIKYAKU_JOBS_FULL=refuse: full rings refuse. HIKYAKU_JOBS_RINGS: landing rings to start in.
//! HIKYAKU_JOBS_KEEP_RINGS: senders stay there.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use hikyaku_launch::Launch;
use hikyaku_launch::processes::{Machine, Processes, VirtualReport};
use hikyaku_sim::engine::RecordKind;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let ranks = words.next().unwrap().parse().unwrap();
    let per_node: u32 = words.next().unwrap().parse().unwrap();
    let timeout = Duration::from_secs_f64(words.next().unwrap().parse().unwrap());
    let launch = Launch {
        ranks_per_node: Some(per_node.max(1)),
        timeout: Some(timeout),
        owns_process: true,
        full: hikyaku_jobs::when_full(),
        rings: hikyaku_jobs::number("HIKYAKU_JOBS_RINGS").map(|rings| rings as u32),
        keeps_rings: std::env::var_os("HIKYAKU_JOBS_KEEP_RINGS").is_some(),
        ..Launch::new(ranks, words.next().unwrap())
    };
    let launch = Launch { args: words.map(Into::into).collect(), ..launch };
    let mut processes = Processes::on_a_test_machine(launch);
    if let Some(file) = std::env::var_os("SIMULATE_MACHINE") {
        processes.machine = Machine::parse("machine", &fs::read_to_string(file).unwrap()).unwrap();
    }
    match processes.run() {
        Ok(report) => tell(&report, per_node.max(1)),
        Err(error) => {
            eprintln!("simulate: {error}");
            ExitCode::from(u8::try_from(error.code()).unwrap())
        }
    }
}

/// The number of messages of every kind that the machine has carried between nodes.
fn between_nodes(report: &VirtualReport, per_node: u32) -> usize {
    let sent = report.trace.records().iter().filter(|record| record.kind == RecordKind::Send);
    sent.filter(|record| record.who / per_node != record.whom / per_node).count()
}

fn tell(report: &VirtualReport, per_node: u32) -> ExitCode {
    let (end, digest, joined) = (report.end().picoseconds(), report.trace.digest(), report.joined);
    let records = report.trace.records().len();
    let messages: u64 = report.ranks.iter().map(|rank| rank.messages).sum();
    println!("messages {messages}");
    println!("between nodes {}", between_nodes(report, per_node));
    println!("end {end} digest {digest:x} records {records} joined {joined}");
    let outcome = &report.outcome;
    outcome.reason.iter().for_each(|line| eprintln!("simulate: {line}"));
    outcome.details.iter().for_each(|line| eprintln!("simulate:   {line}"));
    ExitCode::from(u8::try_from(outcome.code).unwrap())
}
