//! Jobs on two to four hosts in which something is killed, cut or frozen at a random moment.
//!
//! HIKYAKU_HOST_KILLS: the number of jobs (100 at length, else 4); HIKYAKU_HOST_KILLS_SEED: the
//! seed.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_jobs::net::{NETWORK, Net, address};
use hikyaku_jobs::{Random, at_length, number};

use super::hosts;
use super::started::Started;

/// Time limit for events that occur soon. Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(60);

const PROGRAMS: [&str; 4] = ["ring", "halo", "queue", "sums"];

/// The fault of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Blow {
    Rank(u32),
    Daemon(u32),
    Launcher,
    Cable(u32),
    /// The cable is repaired before any rank takes the host for dead, and then rank 0 is killed:
    /// only that is reported.
    Blip(u32, Duration),
    Frozen(u32),
}

#[test]
fn jobs_end_whatever_is_killed() {
    let Some((net, _alone)) = hosts(4) else { return };
    let runs = number("HIKYAKU_HOST_KILLS").unwrap_or(if at_length() { 100 } else { 4 });
    let first = number("HIKYAKU_HOST_KILLS_SEED").unwrap_or(1);
    for seed in first..first + runs {
        strike(&net, seed);
    }
}

#[expect(clippy::disallowed_methods, reason = "a blow at any moment is what is wanted")]
fn strike(net: &Net, seed: u64) {
    let mut random = Random::new(seed);
    let (hosts, per_host) = ([2, 3, 4][random.below(3)], 1 + random.below(2) as u32);
    let program = PROGRAMS[random.below(PROGRAMS.len())];
    let host = random.below(hosts as usize) as u32;
    let blow = match random.below(7) {
        0 | 1 => Blow::Rank(random.below((hosts * per_host) as usize) as u32),
        2 => Blow::Daemon(host),
        3 => Blow::Launcher,
        4 => Blow::Cable(host),
        5 => Blow::Blip(host, Duration::from_micros(random.below(400_000) as u64)),
        // Not the launcher's own host, because the reporter would be frozen too.
        _ => Blow::Frozen(1 + host % (hosts - 1)),
    };
    let delay = Duration::from_micros(random.below(150_000) as u64);
    // Every second job's daemons connect.
    let network = seed.is_multiple_of(2).then_some(NETWORK);
    let about = format!(
        "seed {seed}: {program} on {hosts}x{per_host} by {network:?}, {blow:?} after {delay:?}"
    );
    println!("{about}");
    let words = ["apart", program, "0"];
    let falls_silent = matches!(blow, Blow::Cable(_) | Blow::Frozen(_));
    let mut job = Started::connected(net, network, falls_silent, (hosts, per_host), &words);
    // A running rank: the program is about to begin, or has begun.
    if job.rank(net, hosts * per_host - 1).is_none() {
        panic!("{about}: it ended by itself: {:?}", job.end());
    }
    thread::sleep(delay);
    match blow {
        Blow::Rank(rank) => job.rank(net, rank).iter().for_each(|it| it.kill()),
        Blow::Daemon(host) => job.daemon(net, host).iter().for_each(|it| it.kill()),
        Blow::Launcher => job.launcher(net).iter().for_each(|it| it.kill()),
        Blow::Cable(host) => net.set_cable(host, false),
        Blow::Blip(host, time) => {
            net.set_cable(host, false);
            thread::sleep(time);
            net.set_cable(host, true);
            job.rank(net, 0).iter().for_each(|it| it.kill());
        }
        Blow::Frozen(host) => net.set_frozen(host, true),
    }
    let ended = job.end();
    let expected = match blow {
        Blow::Launcher => None,
        Blow::Rank(_) | Blow::Blip(..) => Some(137),
        _ => Some(1),
    };
    let words = &ended.errors;
    assert_eq!(ended.code, expected, "{about}: {words}");
    assert!(ended.lines.is_empty(), "{about}: {:?}", ended.lines);
    let lines = words.lines().filter(|line| line.starts_with("launch: ")).count();
    let is_launcher = blow == Blow::Launcher;
    assert_eq!(lines, usize::from(!is_launcher), "{about}: {words}");
    match blow {
        Blow::Cable(host) => {
            net.set_cable(host, true);
            (1..hosts).for_each(|host| wait_for_wire(net, host));
        }
        Blow::Frozen(host) => net.set_frozen(host, false),
        _ => {}
    }
    net.wait_for_silence(&about);
}

/// Waits until host 0 finds another one again: for a while after a cut it does not retry addresses
/// that it has not found.
fn wait_for_wire(net: &Net, host: u32) {
    let before = net.on(0);
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).args([env!("CARGO_BIN_EXE_reach"), &address(host), "true"]);
    let start = Instant::now();
    while !command.output().unwrap().status.success() {
        assert!(start.elapsed() < PATIENCE, "host {host} is not found");
    }
}
