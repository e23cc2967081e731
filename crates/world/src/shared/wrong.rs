//! Tests that faulty protocols are detected and correct ones hold, on ranks that are threads.
//!
//! `tests/jobs` runs the same tests with real processes. Here the protocols have faults, which a
//! process cannot be made to have. The checks inside the guards must detect each fault: tests that
//! missed them would prove nothing about the correct protocols.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_coll::Choices;
use hikyaku_dsm::driver::{ProtocolFault, Settings};
use hikyaku_rank::Communicator;
use hikyaku_shm::{JobConfig, open_all};

use super::Protocol;
use crate::World;
use torture::{Plan, Verdict};

#[allow(dead_code, unreachable_pub, reason = "of a package that uses all of it")]
#[path = "../../../../tests/jobs/src/random.rs"]
mod random;
#[allow(unreachable_pub, reason = "of a package where it is reached")]
#[path = "../../../../tests/jobs/src/torture.rs"]
mod torture;

/// Runs `ranks` ranks as threads, `ranks_per_node` to a node; returns the errors that they found.
fn torture(
    protocol: Protocol,
    (ranks, ranks_per_node): (u32, u32),
    (seed, turns): (u64, u32),
    wrong: Option<ProtocolFault>,
) -> Vec<Verdict> {
    println!("{protocol}, {ranks} ranks, {ranks_per_node} a node, seed {seed}, wrong: {wrong:?}");
    let plan = Plan { turns, elements: 700, patience: Duration::from_secs(5) };
    thread::scope(|scope| {
        let rank = |port| {
            scope.spawn(move || {
                let rank = Communicator::over(port, Choices::default());
                let world = World::over(rank, Settings { protocol, faults: Some(seed), wrong });
                torture::run(&world, seed, plan).unwrap()
            })
        };
        let ports = open_all(&JobConfig::new(ranks, ranks_per_node)).unwrap();
        let ranks: Vec<_> = ports.into_iter().map(rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// The environment variable with the seed of a child process with a fault.
const CHILD: &str = "HIKYAKU_WRONG_BY_SEED";

/// A process that has not reported the fault by then never will: an unanswered request is reported
/// after 5 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of processes, and how many must report the fault; each of the others must hang:
/// without atomic swaps, a protocol may repeat its next step for ever.
const PROCESSES: u64 = 12;
const NOTICED: usize = 3;

/// Runs `wrong` in child processes, which may end by an assertion, or never: the seed decides the
/// state in which the fault occurs. They print one of the words.
fn is_noticed(protocol: Protocol, ranks_per_node: u32, wrong: ProtocolFault, words: &[&str]) {
    let about = format!("{protocol:?} {ranks_per_node} {wrong:?} ");
    if let Ok(child) = std::env::var(CHILD) {
        let Some(seed) = child.strip_prefix(&about) else { return };
        let seed = (seed.parse().unwrap(), 2000);
        torture(protocol, (4, ranks_per_node), seed, Some(wrong));
        return;
    }
    let name = thread::current().name().unwrap().to_owned();
    let said = |seed: u64| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([&name, "--exact", "--nocapture", "--test-threads", "1"]);
        let said = first_line(child.env(CHILD, format!("{about}{seed}")), words);
        let line = match &said {
            Said::Word(line) => line,
            Said::Nothing(text) => panic!("{about}{seed} was not noticed:\n{text}"),
            Said::Hangs => "hangs",
        };
        println!("{about}{seed}: {line}");
        matches!(said, Said::Word(_))
    };
    let noticed = (1..=PROCESSES).filter(|seed| said(*seed)).take(NOTICED).count();
    assert_eq!(noticed, NOTICED, "{about}: most hang");
}

/// The output of a process on its standard error.
enum Said {
    /// A line with one of the words.
    Word(String),
    /// This output without any of the words, and the process has ended.
    Nothing(String),
    /// None of the words, and the process does not end.
    Hangs,
}

/// Runs a program until it prints one of the words.
fn first_line(program: &mut Command, words: &[&str]) -> Said {
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (send, lines) = mpsc::sync_channel(64);
    let mut stderr = stderr.lines().map_while(Result::ok);
    let reader = thread::spawn(move || stderr.try_for_each(|line| send.send(line)).is_ok());
    let (end, mut text) = (Instant::now() + PATIENCE, String::new());
    let said = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) if words.iter().any(|word| line.contains(word)) => break Said::Word(line),
            Ok(line) => text += &format!("{line}\n"),
            Err(RecvTimeoutError::Disconnected) => break Said::Nothing(text),
            Err(RecvTimeoutError::Timeout) => break Said::Hangs,
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    drop(lines);
    reader.join().unwrap();
    said
}

#[test]
fn a_writer_that_does_not_wait_for_readers_is_noticed() {
    for ranks_per_node in [4, 2] {
        // A reader of another node detects it too: its copy is outdated before it has checked it.
        let words = ["beside a", "was the last"];
        is_noticed(Protocol::Direct, ranks_per_node, ProtocolFault::PassesReaders, &words);
    }
}

#[test]
fn a_turn_that_two_ranks_have_is_noticed() {
    // Two ranks are inside; or a waiting rank sees its turn pass, and takes it for overwritten.
    let words = ["BROKEN: ", "has overwritten its words"];
    for ranks_per_node in [4, 1] {
        is_noticed(Protocol::Direct, ranks_per_node, ProtocolFault::SwapsInTwo, &words);
    }
}

#[test]
fn contents_that_did_not_come_are_noticed() {
    for protocol in [Protocol::Direct, Protocol::Fagus] {
        is_noticed(protocol, 1, ProtocolFault::MovesNothing, &["was the last"]);
        is_noticed(protocol, 1, ProtocolFault::LosesAPiece, &["was the last"]);
    }
}

#[test]
fn with_nothing_wrong_everything_holds() {
    for protocol in [Protocol::Direct, Protocol::Fagus] {
        for ranks_per_node in [1, 2, 4] {
            let seed = u64::from(ranks_per_node);
            for verdict in torture(protocol, (4, ranks_per_node), (seed, 100), None) {
                assert_eq!(verdict.broken, None);
                assert!(verdict.writes > 0 && verdict.reads > 0, "{verdict:?}");
            }
        }
    }
}
