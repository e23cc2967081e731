//! Jobs on two to four hosts of which something is killed, cut or frozen at a random moment.
//!
//! HIKYAKU_HOST_KILLS: how many jobs (20 at length, else 4); HIKYAKU_HOST_KILLS_SEED: which.

use std::thread;
use std::time::Duration;

use hikyaku_jobs::net::Net;
use hikyaku_jobs::{Random, at_length, number};

use super::hosts;
use super::started::Started;

const PROGRAMS: [&str; 4] = ["ring", "halo", "queue", "sums"];

/// What is done to a job.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Blow {
    Rank(u32),
    Daemon(u32),
    Launcher,
    Cable(u32),
    Frozen(u32),
}

#[test]
fn jobs_end_whatever_is_killed() {
    let Some((net, _alone)) = hosts(4) else { return };
    let runs = number("HIKYAKU_HOST_KILLS").unwrap_or(if at_length() { 20 } else { 4 });
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
    let blow = match random.below(6) {
        0 | 1 => Blow::Rank(random.below((hosts * per_host) as usize) as u32),
        2 => Blow::Daemon(host),
        3 => Blow::Launcher,
        // Not the launcher's own: it would be as if all others had been cut off.
        4 => Blow::Cable(1 + host % (hosts - 1)),
        _ => Blow::Frozen(1 + host % (hosts - 1)),
    };
    let delay = Duration::from_micros(random.below(150_000) as u64);
    let about = format!("seed {seed}: {program} on {hosts}x{per_host}, {blow:?} after {delay:?}");
    println!("{about}");
    let words = ["apart", program, "0"];
    let mut job = match blow {
        Blow::Cable(_) | Blow::Frozen(_) => Started::to_be_silent(net, hosts, per_host, &words),
        _ => Started::new(net, hosts, per_host, &words),
    };
    // A rank that is there: what it is about begins, or has begun.
    if job.rank(net, hosts * per_host - 1).is_none() {
        panic!("{about}: it ended by itself: {:?}", job.end());
    }
    thread::sleep(delay);
    match blow {
        Blow::Rank(rank) => job.rank(net, rank).iter().for_each(|it| it.kill()),
        Blow::Daemon(host) => job.daemon(net, host).iter().for_each(|it| it.kill()),
        Blow::Launcher => job.launcher(net).iter().for_each(|it| it.kill()),
        Blow::Cable(host) => net.set_cable(host, false),
        Blow::Frozen(host) => net.set_frozen(host, true),
    }
    let ended = job.end();
    let expected = match blow {
        Blow::Launcher => None,
        Blow::Rank(_) => Some(137),
        _ => Some(1),
    };
    let words = &ended.errors;
    assert_eq!(ended.code, expected, "{about}: {words}");
    assert!(ended.lines.is_empty(), "{about}: {:?}", ended.lines);
    let lines = words.lines().filter(|line| line.starts_with("launch: ")).count();
    let is_launcher = blow == Blow::Launcher;
    assert_eq!(lines, usize::from(!is_launcher), "{about}: {words}");
    match blow {
        Blow::Cable(host) => net.set_cable(host, true),
        Blow::Frozen(host) => net.set_frozen(host, false),
        _ => {}
    }
    net.wait_for_silence(&about);
}
