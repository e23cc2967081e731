//! Jobs whose shared memory another process overwrites.
//!
//! The overwriting may destroy what ranks told each other. It may not prevent their ends: each rank
//! ends, with or without an error, or waits in a call that the report of the job names.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_jobs::{Job, Random, Running, at_length};
use rustix::fs::{SeekFrom, seek};

use super::calls::SESSIONS;
use super::{RANK, job};

/// The number of jobs, at length and in the short form.
const RUNS: [u64; 2] = [300, 4];

/// Jobs at a time: most of them wait for their time to be up.
const AT_A_TIME: usize = 4;

/// The time of a job, whose ranks stop after two seconds if they wait for no rank.
const LIMIT: Duration = Duration::from_secs(10);

/// The time in which a job must end after its time is up: twice the launcher's grace, and a margin
/// for a busy machine.
const MARGIN: Duration = Duration::from_secs(8);

/// One test at a time: the jobs of both at once, whose ranks poll, keep the launchers from running.
static ALONE: Mutex<()> = Mutex::new(());

/// Rounds of the program.
const ROUNDS: &str = "1500";

const PAGE: u64 = 4096;
const WORD: u64 = 8;

/// The first seed, to repeat a run.
const FIRST: &str = "HIKYAKU_SCRIBBLE_SEED";

#[test]
fn overwritten_memory_ends_no_job_but_in_order() {
    scribble_many(&|ranks, words| job(ranks, &[words, &["direct,fagus,udp"]].concat()));
}

/// Whatever happens to turns, logs and progress, which the conductor reads.
#[test]
fn overwritten_memory_ends_no_job_in_virtual_time_but_in_order() {
    scribble_many(&|ranks, words| {
        let words = [words, &["direct,fagus"]].concat();
        Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, ranks, &words).ranks_per_node(2)
    });
}

/// Makes a job of this many ranks that run these words.
type NewJob = dyn Fn(u32, &[&str]) -> Job + Sync;

/// Overwrites the memory of many such jobs.
#[track_caller]
fn scribble_many(job: &NewJob) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let first = std::env::var(FIRST).ok().and_then(|text| text.parse().ok());
    let runs = if first.is_some() { 1 } else { RUNS[usize::from(!at_length())] };
    let first = first.unwrap_or_else(|| Random::fresh_seed() >> 20);
    let (next, written) = (AtomicU64::new(0), AtomicU64::new(0));
    let wrong: Vec<String> = thread::scope(|scope| {
        let one = || {
            let numbers = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < runs);
            let run = |at| {
                let wrote = scribble(first + at, job)?;
                written.fetch_add(u64::from(wrote > 0), Ordering::Relaxed);
                Ok(())
            };
            std::iter::from_fn(numbers).filter_map(|at| run(at).err()).collect()
        };
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(one)).collect();
        workers.into_iter().flat_map(|worker| -> Vec<_> { worker.join().unwrap() }).collect()
    });
    assert!(wrong.is_empty(), "{} of {runs}:\n{}", wrong.len(), wrong.join("\n"));
    let written = written.into_inner();
    assert!(2 * written >= runs, "only {written} of {runs} jobs were found before they ended");
}

/// Runs one job and overwrites words of its memory; returns their number.
fn scribble(seed: u64, job: &NewJob) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let ranks = 2 + random.below(3) as u32;
    let words = ["scribbled", &seed.to_string(), ROUNDS];
    let mut job = job(ranks, &words).timeout(LIMIT);
    if seed.is_multiple_of(2) {
        job = SESSIONS.iter().fold(job, |job, name| job.variable(name, "session"));
        job = job.variable("HIKYAKU_JOBS_RINGS", "1");
    }
    let mut running = job.start();
    let started = Instant::now();
    // On a loaded machine a job may be over before it is found.
    let wrote = Scribbler::new(&mut running, random).map_or(0, |mut it| it.run(&running));
    let ended = running.has_ended_within((LIMIT + MARGIN).saturating_sub(started.elapsed()));
    let about = format!("{FIRST}={seed}: {ranks} ranks, {wrote} words");
    if !ended {
        return Err(format!("{about}: it does not end"));
    }
    let end = running.end();
    let lines = |what: &str| end.stderr.lines().filter(|line| line.contains(what)).count();
    let waits = lines(" waits in ") + lines(" has ended") + lines(" polls for ever");
    let for_ever = format!(" {waits} ranks wait for ever: ");
    let is_in_order = match end.code {
        Some(0) => end.stderr.is_empty(),
        // Nothing was written.
        _ if wrote == 0 => false,
        Some(1) => true,
        Some(124) => waits == ranks as usize,
        // Nothing is in flight, the next event is beyond the end of virtual time, or a rank has no
        // turn.
        Some(3) => {
            let reasons = [&for_ever, "virtual time ends after", " and counts as gone: "];
            reasons.iter().any(|reason| end.stderr.contains(reason))
        }
        _ => false,
    };
    println!("{about}: {:?}", end.code);
    if is_in_order && !end.stderr.contains("panicked") {
        return Ok(wrote);
    }
    Err(format!("{about}: {:?}\n{}", end.code, end.stderr))
}

/// Writes into the memory of a job.
struct Scribbler {
    memory: File,
    random: Random,
    /// The offsets of pages with contents, and of pages that change.
    used: Vec<u64>,
    changing: Vec<u64>,
}

impl Scribbler {
    /// `None`: the job has ended before its memory was found.
    fn new(running: &mut Running, mut random: Random) -> Option<Scribbler> {
        let memory = running.memory()?;
        let before = pages(&memory);
        running.has_ended_within(Duration::from_micros(random.below(60_000) as u64));
        let after = pages(&memory);
        let changes = |page: &&(u64, Vec<u8>)| {
            before.binary_search_by_key(&page.0, |(at, _)| *at).map(|at| &before[at].1)
                != Ok(&page.1)
        };
        let changing = after.iter().filter(changes).map(|(at, _)| *at).collect();
        let used = after.iter().map(|(at, _)| *at).collect();
        Some(Scribbler { memory, random, used, changing })
    }

    /// Overwrites some words, one after the other or in bursts; returns their number.
    fn run(&mut self, running: &Running) -> u64 {
        let most = self.random.pick(&[1, 4, 30, 300, 5_000]);
        let burst = self.random.pick(&[1, 1, 1, 8, 64]);
        let pause = self.random.pick(&[0, 10, 1_000]);
        for wrote in 0..most {
            let at = self.place();
            let kind = self.random.below(9);
            for word in 0..burst {
                self.write(at + word * WORD, kind);
            }
            if running.has_ended_within(Duration::from_micros(pause)) {
                return (wrote + 1) * burst;
            }
        }
        most * burst
    }

    /// The place of a word, more often on a page that changes than on another; mostly of one that
    /// is not 0.
    fn place(&mut self) -> u64 {
        let some = if self.random.below(3) > 0 { &self.changing } else { &self.used };
        let Some(page) = some.get(self.random.below(some.len().max(1))) else { return 0 };
        let mut at = page + self.random.below((PAGE / WORD) as usize) as u64 * WORD;
        for _ in 0..self.random.below(40) {
            if self.read(at) != 0 {
                break;
            }
            at = page + self.random.below((PAGE / WORD) as usize) as u64 * WORD;
        }
        at
    }

    fn write(&mut self, at: u64, kind: usize) {
        let old = self.read(at);
        let new = match kind {
            0 => 0,
            1 => u64::MAX,
            2 => old.wrapping_add(1),
            3 => old.wrapping_sub(1),
            4 => old ^ 1 << self.random.below(64),
            5 => self.random.below(100) as u64,
            6 => {
                let there = self.place();
                self.read(there)
            }
            7 => {
                let beside = at ^ WORD;
                let there = self.read(beside);
                self.store(beside, old);
                there
            }
            _ => self.random.draw(),
        };
        self.store(at, new);
    }

    fn read(&self, at: u64) -> u64 {
        let mut word = [0; WORD as usize];
        self.memory.read_exact_at(&mut word, at).unwrap();
        u64::from_ne_bytes(word)
    }

    fn store(&self, at: u64, word: u64) {
        // Past the end there is nothing, and the memory cannot grow.
        let _ = self.memory.write_all_at(&word.to_ne_bytes(), at);
    }
}

/// The pages of the memory that are not all zero, in order.
fn pages(memory: &File) -> Vec<(u64, Vec<u8>)> {
    let mut pages = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(memory, SeekFrom::Data(at)) {
        let end = seek(memory, SeekFrom::Hole(start)).unwrap();
        for page in (start..end).step_by(PAGE as usize) {
            let mut bytes = vec![0; PAGE as usize];
            memory.read_exact_at(&mut bytes, page).unwrap();
            if bytes.iter().any(|byte| *byte != 0) {
                pages.push((page, bytes));
            }
        }
        at = end;
    }
    pages
}
