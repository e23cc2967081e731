//! A launcher: the same as `hikyaku run`, with the numbers in fixed places.
//!
//! `launch RANKS RANKS_PER_NODE TIMEOUT PROGRAM [ARGUMENTS]`; no nodes if RANKS_PER_NODE is 0.
//! HIKYAKU_JOBS_FULL=refuse: full rings refuse. HIKYAKU_JOBS_RINGS: landing rings to start in.
//! HIKYAKU_JOBS_KEEP_RINGS: senders stay there.
//! HIKYAKU_JOBS_GRACE: seconds that the others have after one has failed. HIKYAKU_JOBS_HOSTS: the
//! hosts, as for `hikyaku run`; HIKYAKU_JOBS_AGENT: the program that reaches them;
//! HIKYAKU_JOBS_HOST_TIMEOUT: seconds that a host may be silent; HIKYAKU_JOBS_NETWORK: the network
//! over which daemons connect. `launch daemon` is the daemon of a host.
//! The tests of whole jobs are about ranks and messages; the command line has tests of its own.

#![allow(clippy::unwrap_used)]

use std::process::ExitCode;
use std::time::Duration;

use hikyaku_launch::hosts::{HostEntry, assign, daemon};
use hikyaku_launch::{Launch, OnHosts};

/// The hosts of the ranks, if the environment names some.
fn hosts(ranks: u32) -> Option<OnHosts> {
    let variable = |name: &str| std::env::var(name).ok();
    let hosts = HostEntry::list(&variable("HIKYAKU_JOBS_HOSTS")?).unwrap();
    let mut hosts = OnHosts::new(assign(&hosts, Some(ranks), None).unwrap());
    hosts.agent = vec![variable("HIKYAKU_JOBS_AGENT").unwrap().into()];
    if let Some(seconds) = variable("HIKYAKU_JOBS_HOST_TIMEOUT") {
        hosts.timeout = Duration::from_secs_f64(seconds.parse().unwrap());
    }
    hosts.network = variable("HIKYAKU_JOBS_NETWORK").map(|network| network.parse().unwrap());
    Some(hosts)
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let first = words.next().unwrap();
    if first == "daemon" {
        return match daemon(&[]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("launch: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let ranks = first.parse().unwrap();
    let ranks_per_node = words.next().unwrap().parse().unwrap();
    let timeout = Duration::from_secs_f64(words.next().unwrap().parse().unwrap());
    let mut launch = Launch {
        ranks_per_node: (ranks_per_node > 0).then_some(ranks_per_node),
        timeout: Some(timeout),
        owns_process: true,
        hosts: hosts(ranks),
        full: hikyaku_jobs::when_full(),
        rings: hikyaku_jobs::number("HIKYAKU_JOBS_RINGS").map(|rings| rings as u32),
        keeps_rings: std::env::var_os("HIKYAKU_JOBS_KEEP_RINGS").is_some(),
        ..Launch::new(ranks, words.next().unwrap())
    };
    if let Ok(seconds) = std::env::var("HIKYAKU_JOBS_GRACE") {
        launch.grace = Duration::from_secs_f64(seconds.parse().unwrap());
    }
    match (Launch { args: words.map(Into::into).collect(), ..launch }).run() {
        Ok(outcome) => {
            outcome.reason.iter().for_each(|line| eprintln!("launch: {line}"));
            outcome.details.iter().for_each(|line| eprintln!("launch:   {line}"));
            ExitCode::from(u8::try_from(outcome.code).unwrap())
        }
        Err(error) => {
            eprintln!("launch: {error}");
            ExitCode::from(u8::try_from(error.code()).unwrap())
        }
    }
}
