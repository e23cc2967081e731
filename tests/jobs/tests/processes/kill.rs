//! A hundred jobs in which a rank is killed at a random moment.
//!
//! Each must end in time with the right messages, and leave nothing: no process, no file, no
//! memory.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku::Operation;
use hikyaku_jobs::{Job, Random, at_length, process};

use hikyaku_jobs::generator::many::WAYS;

use super::job;

/// The number of jobs, at length and in the short form.
const RUNS: [u32; 2] = [100, 27];

/// Jobs at a time: enough to keep the machine busy, as it is when ranks die.
const AT_A_TIME: usize = 3;

/// Time limit of a job after a rank was killed.
const IN_TIME: Duration = Duration::from_secs(4);

/// Time limit of the survivors, seconds: enough that a rank without a processor does not count as
/// hanging.
const GRACE: &str = "2";

const PROGRAMS: [&str; 11] = [
    "ping-pong",
    "allreduce",
    "groups",
    "alltoallw",
    "large",
    "blocked",
    "neighbours",
    "window",
    "protected",
    "persistent",
    "full",
];

#[test]
fn a_hundred_jobs_survive_the_death_of_a_rank() {
    let runs = RUNS[usize::from(!at_length())];
    let (next, memories) = (AtomicU32::new(0), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        return;
                    }
                    let memory = kill_one(number);
                    memories.lock().unwrap().insert(memory);
                }
            });
        }
    });
    let memories = memories.into_inner().unwrap();
    assert_eq!(memories.len(), runs as usize);
    for process in process::all() {
        let held: Vec<u64> = process.job_memories().intersection(&memories).copied().collect();
        assert!(held.is_empty(), "{} still holds memory of jobs {held:?}", process.command());
    }
    assert_eq!(process::named_memories(), [""; 0]);
}

/// Every rank of two nodes in turn, some of which represent their node in exchanges between them.
#[test]
fn the_death_of_a_rank_ends_exchanges_that_are_combined() {
    for victim in 0..5 {
        let delay = Duration::from_millis(40 + 13 * u64::from(victim));
        let about = format!("combined, rank {victim} of 5 after {delay:?}");
        let job = job(5, &["victim", "combined", "0"]).ranks_per_node(3);
        let job = job.variable("HIKYAKU_JOBS_GRACE", GRACE);
        kill_rank(&about, &job, ("combined", 5, victim), delay);
    }
}

/// Runs one job with one death in it; returns the inode of its memory.
fn kill_one(number: u32) -> u64 {
    let mut random = Random::new(u64::from(number));
    let program = PROGRAMS[number as usize % PROGRAMS.len()];
    let ranks = 2 + random.below(4) as u32;
    let victim = random.below(ranks as usize) as u32;
    // Every second victim while the ranks start and make communicators and windows.
    let within = if number.is_multiple_of(2) { 6_000 } else { 60_000 };
    let delay = Duration::from_micros(random.below(within) as u64);
    let way = WAYS[random.below(WAYS.len())];
    let barrier = Operation::Barrier.algorithms();
    let barrier = barrier[random.below(barrier.len())];
    let about = format!(
        "run {number}: {program} {way}, barriers by {barrier}, rank {victim} of {ranks} after \
         {delay:?}"
    );

    let job = job(ranks, &["victim", program, "0"])
        .variable("HIKYAKU_LONG_MESSAGES", way)
        .variable("HIKYAKU_COLL_BARRIER", barrier)
        .variable("HIKYAKU_COLL_BROADCAST", "multicast")
        .variable("HIKYAKU_JOBS_GRACE", GRACE);
    kill_rank(&about, &job, (program, ranks, victim), delay)
}

/// Runs a job and kills a rank after a delay; returns the inode of its memory.
fn kill_rank(
    about: &str,
    job: &Job,
    (program, ranks, victim): (&str, u32, u32),
    delay: Duration,
) -> u64 {
    let mut running = job.start();
    let (process, memory) = running.rank(victim);
    assert!(!running.has_ended_within(delay), "{about}: {:?}", running.end());
    process.kill();
    let killed = Instant::now();
    assert!(running.has_ended_within(IN_TIME), "{about}: it does not end");
    let took = killed.elapsed();
    let left: Vec<String> = running.processes().iter().map(process::Process::command).collect();
    assert_eq!(left, [""; 0], "{about}: processes are left");
    let end = running.end();
    assert!(took < IN_TIME, "{about}: took {took:?}");
    assert_eq!(end.code, Some(137), "{about}: {}", end.stderr);
    assert_eq!(end.stdout, "", "{about}");
    check_words(about, &end.stderr, victim, process.pid, program, ranks);
    memory
}

/// One line of the launcher, and a line of every survivor that depended on the victim: about its
/// death, or about another survivor that abandoned the call first.
fn check_words(about: &str, text: &str, victim: u32, pid: i32, program: &str, ranks: u32) {
    let verdict = format!("launch: rank {victim} (pid {pid}) was killed by signal 9 (SIGKILL)");
    let told = format!("rank {victim} (pid {pid}) died: killed by signal 9");
    let mut survivors = BTreeSet::new();
    let mut told_of_victim = 0;
    let mut verdicts = 0;
    for line in text.lines() {
        if line == verdict {
            verdicts += 1;
            continue;
        }
        let said = line.strip_prefix("rank ").and_then(|line| line.split_once(": "));
        let Some((rank, said)) = said else { panic!("{about}: unexpected line {line:?}") };
        assert!(survivors.insert(rank.parse::<u32>().unwrap()), "{about}: said twice: {text}");
        told_of_victim += u32::from(said == told);
        let follows =
            said.ends_with("has left the job: nothing further comes from it or is taken by it");
        // In a collective, a rank that gets the error tells the others.
        let gone = said.split_once(" abandoned it: rank ").filter(|_| said.contains(": rank "));
        let gone = gone.and_then(|(_, end)| end.strip_suffix(" is gone"));
        let relayed = gone.is_some();
        // Such a rank may continue, if it has the collective's result, and end by another error.
        told_of_victim += u32::from(gone.is_some_and(|rank| rank.parse() == Ok(victim)));
        assert!(said == told || follows || relayed, "{about}: unexpected line {line:?}");
    }
    assert_eq!(verdicts, 1, "{about}: {text}");
    // In `full` the others depend on rank 0 alone, and it depends on no rank.
    if program == "full" && victim != 0 {
        return;
    }
    let expected: BTreeSet<u32> = (0..ranks).filter(|rank| *rank != victim).collect();
    assert_eq!(survivors, expected, "{about}: not all survivors were told: {text}");
    assert!(told_of_victim > 0, "{about}: nobody was told whose death it was: {text}");
}
