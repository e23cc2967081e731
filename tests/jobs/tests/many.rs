//! Jobs of very many ranks: they run, or are refused before they start, in one line that says how
//! many would fit.
//!
//! A test program of its own, whose tests run one at a time: cargo runs such programs one by one,
//! and a job of 4,096 ranks may need all of a machine's memory.

#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hikyaku_jobs::{End, Job, at_length};

/// The most that `hikyaku run` accepts.
const MOST: u32 = 4_096;

/// The test that holds this runs.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of ranks that runs on any machine: more than can share lines, which then belong to
/// several nodes, and in shorter rings.
fn many() -> u32 {
    if at_length() { 1_024 } else { 300 }
}

/// Ranks of a program that knows nothing of hikyaku.
fn idle(ranks: u32) -> Job {
    Job::new(env!("CARGO_BIN_EXE_launch"), "true", ranks, &[])
}

/// Ranks that meet in a barrier and an allreduce, and then run this word of `rank`.
fn ranks(ranks: u32, word: &str) -> Job {
    Job::new(env!("CARGO_BIN_EXE_launch"), env!("CARGO_BIN_EXE_rank"), ranks, &[word])
}

#[test]
fn a_thousand_ranks_start_and_end() {
    let _turn = turn();
    assert_eq!(idle(many()).succeed(), "");
}

#[test]
fn a_thousand_ranks_agree() {
    let _turn = turn();
    assert_eq!(ranks(many(), "agree").succeed(), "");
}

/// A refused job: the memory it needs and the available memory, MiB, and how many ranks would fit.
#[derive(Debug)]
struct Refused {
    wanted: u64,
    available: u64,
    fitting: u32,
}

impl Refused {
    /// Reads the one line.
    #[track_caller]
    fn of(ranks: u32, end: &End) -> Refused {
        let line = end.stderr.strip_prefix("launch: ").unwrap_or_else(|| panic!("{end:?}"));
        let shape = (end.code, line.lines().count(), end.stdout.as_str());
        assert_eq!(shape, (Some(1), 1, ""), "{line}");
        let before = |part: &str| -> u64 {
            let (before, _) = line.split_once(part).unwrap_or_else(|| panic!("{line}"));
            before.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert_eq!(before(" ranks take "), u64::from(ranks), "{line}");
        let (wanted, available) = (before(" MiB of memory and "), before(" MiB are available"));
        Refused { wanted, available, fitting: before(" would fit") as u32 }
    }
}

/// Starts the following words on a machine that reports this many MiB of available memory.
fn with_available(mebibytes: u32) -> Vec<String> {
    let script = format!(
        "file=$(mktemp) && echo 'MemAvailable: {} kB' > $file && mount --bind $file /proc/meminfo \
         && rm $file && exec \"$@\"",
        mebibytes << 10
    );
    let unshare = "unshare --mount --map-root-user sh -c".split(' ').map(str::to_owned);
    unshare.chain([script, "small".to_owned()]).collect()
}

/// The estimate matches the job's use: as many ranks as it reports do fit, and use most of the
/// room.
#[test]
fn what_is_said_to_fit_fits() {
    const ROOM: u32 = 512;
    let _turn = turn();
    let words = with_available(ROOM);
    let small: Vec<&str> = words.iter().map(String::as_str).collect();
    let may = Command::new(small[0]).args(&small[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: {} is not permitted here", small.join(" "));
        return;
    }
    for asked in [many(), MOST] {
        let refused = Refused::of(asked, &ranks(asked, "weigh").within(&small).run());
        println!("{asked} ranks: {refused:?}");
        assert_eq!(refused.available, u64::from(ROOM));
        assert!(refused.wanted > refused.available, "{refused:?}");
        let weight = ranks(refused.fitting, "weigh").within(&small).succeed();
        let weight = weight.trim_end().parse::<u64>().unwrap() >> 20;
        println!("{} ranks take {weight} MiB", refused.fitting);
        assert!(weight <= refused.available, "{weight} MiB: {refused:?}");
        assert!(weight > refused.available / 2, "{weight} MiB: {refused:?}");
        Refused::of(refused.fitting + 1, &ranks(refused.fitting + 1, "weigh").within(&small).run());
    }
}

#[test]
fn four_thousand_ranks_run_or_are_told_how_many_would_fit() {
    if !at_length() {
        println!("skipped: takes gigabytes and half a minute; HIKYAKU_LONG=1 runs it");
        return;
    }
    let _turn = turn();
    for job in [idle(MOST), ranks(MOST, "agree")] {
        let end = job.run();
        match end.code {
            Some(0) => assert_eq!((end.stdout.as_str(), end.stderr.as_str()), ("", "")),
            _ => println!("{MOST} ranks: {:?}", Refused::of(MOST, &end)),
        }
    }
}
