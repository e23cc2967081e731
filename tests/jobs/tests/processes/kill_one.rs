//! A job of which one rank is killed: the actions and checks of every test of a death.

use std::time::Duration;

use hikyaku_jobs::Job;

/// Seconds after the kill in which survivors have to end by themselves. They take thousandths of
/// it; the rest is for machines on which other programs take the processors.
pub(super) const GRACE: &str = "20";

/// Time limit of a job after a rank was killed; its launcher ends it before that.
const IN_TIME: Duration = Duration::from_secs(25);

/// The output of a job's survivors.
pub(super) struct Survivors {
    /// All of it.
    pub(super) stdout: String,
    /// A line each: the rank, and what follows it.
    pub(super) lines: Vec<(u32, String)>,
}

/// Runs `job`, of `ranks` ranks, and kills `victim` after `delay`. The job has to end in time by
/// the victim's signal, and each of the other ranks has to write one line that begins with its
/// number.
#[track_caller]
pub(super) fn kill_one(
    job: Job,
    ranks: u32,
    victim: u32,
    delay: Duration,
    about: &str,
) -> Survivors {
    let mut running = job.variable("HIKYAKU_JOBS_GRACE", GRACE).start();
    let (process, _) = running.rank(victim);
    assert!(!running.has_ended_within(delay), "{about}: {:?}", running.end());
    process.kill();
    assert!(running.has_ended_within(IN_TIME), "{about}: it does not end");
    let end = running.end();
    assert_eq!(end.code, Some(137), "{about}: {}", end.stderr);
    let split = |line: &str| {
        let (rank, rest) = line.split_once(' ').unwrap();
        (rank.parse().unwrap(), rest.to_owned())
    };
    let lines: Vec<(u32, String)> = end.stdout.lines().map(split).collect();
    let mut told: Vec<u32> = lines.iter().map(|(rank, _)| *rank).collect();
    told.sort_unstable();
    let expected: Vec<u32> = (0..ranks).filter(|rank| *rank != victim).collect();
    assert_eq!(told, expected, "{about}: {} {}", end.stdout, end.stderr);
    Survivors { stdout: end.stdout, lines }
}
