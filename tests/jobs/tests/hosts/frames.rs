//! The frames sent when many hosts start, counted on every link, compared with the calculation.
//!
//! Hosts are simulated by processes, so this needs no root.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use hikyaku_launch::hosts::{StartCosts, StartEstimate, StartedJob};

/// Kinds of frames.
const PLAN: u8 = 1;
const CARDS: u8 = 9;
const STARTED: u8 = 11;

/// How often one process may pass on addresses that arrive later: each time it waits twice as long
/// as before for more, up to a quarter of a second.
const AT_ONCE: u64 = 8;
const LATER: Duration = Duration::from_millis(256);

/// The number of frames of a kind in the record of a link.
fn count(mut bytes: &[u8], kind: u8) -> u64 {
    let mut found = 0;
    while let [a, b, c, d, this, ..] = *bytes {
        found += u64::from(this == kind);
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        bytes = bytes.get(4 + length..).unwrap_or_default();
    }
    found
}

/// Counts a kind on the links to all hosts, down or up, for each link.
fn counts(folder: &Path, hosts: u32, way: &str, kind: u8) -> Vec<u64> {
    let of = |host: u32| {
        let mut bytes = fs::read(folder.join(format!("h{host}.{way}"))).unwrap();
        if way == "up" {
            let greeting = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            bytes.drain(..=greeting);
        }
        count(&bytes, kind)
    };
    (0..hosts).map(of).collect()
}

#[test]
fn a_start_sends_what_is_calculated() {
    const HOSTS: u32 = 40;
    let _alone = super::alone();
    if let Err(error) = hikyaku_ofi::Survey::take() {
        return eprintln!("skipped: {error}");
    }
    let folder = env::temp_dir().join(format!("hikyaku-frames-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let agent = folder.join("agent");
    let place = folder.display();
    let script = format!("tee '{place}'/\"$1\".down | sh -c \"$2\" | tee '{place}'/\"$1\".up");
    fs::write(&agent, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mode = Command::new("chmod").arg("755").arg(&agent).status().unwrap();
    assert!(mode.success());

    let places: Vec<String> = (0..HOSTS).map(|host| format!("h{host}:1")).collect();
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_launch"))
        .args([&HOSTS.to_string(), "0", "120", env!("CARGO_BIN_EXE_rank"), "apart", "ring", "1"])
        .env("HIKYAKU_JOBS_HOSTS", places.join(","))
        .env("HIKYAKU_JOBS_AGENT", &agent)
        .env("HIKYAKU_JOBS_HOST_TIMEOUT", "60")
        .env("HIKYAKU_FABRIC", "/lo")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");

    let costs = StartCosts {
        latency: Duration::ZERO,
        bytes_per_second: 1e9,
        frame: Duration::ZERO,
        card: Duration::ZERO,
        agent: Duration::ZERO,
        process: Duration::ZERO,
        program: Duration::ZERO,
    };
    let all = StartEstimate::of(&StartedJob::new(HOSTS, 1, 28), &costs);
    assert_eq!(all.depth, 2);
    let on = |way: &str, kind| counts(&folder, HOSTS, way, kind);
    assert_eq!(on("down", PLAN), vec![1; HOSTS as usize]);
    assert_eq!(on("up", STARTED).iter().sum::<u64>(), all.started);
    // Late addresses are passed on separately: at least the calculated frames, and not one per
    // host.
    let passes = AT_ONCE + took.as_millis() as u64 / LATER.as_millis() as u64;
    let (up, down) = (on("up", CARDS), on("down", CARDS));
    eprintln!("{took:?}: addresses up {up:?}, down {down:?}");
    assert!(passes >= u64::from(HOSTS) || down[0] <= passes, "{down:?} in {took:?}");
    assert!(down.iter().all(|it| *it == down[0]), "{down:?}");
    assert!(down.iter().sum::<u64>() >= all.cards_down && up.iter().sum::<u64>() >= all.cards_up);
    assert!(up.iter().all(|it| (1..=passes).contains(it)), "{up:?} in {took:?}");
    fs::remove_dir_all(&folder).unwrap();
}
