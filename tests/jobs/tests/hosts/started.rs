//! A job on hosts, observed while it runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hikyaku_jobs::net::Net;
use hikyaku_jobs::process::Process;

const LAUNCH: &str = env!("CARGO_BIN_EXE_launch");
const RANK: &str = env!("CARGO_BIN_EXE_rank");

/// The variables with a rank's number, of our launcher and of others.
const RANKS: [&str; 3] = ["HIKYAKU_RANK", "PMI_RANK", "PMIX_RANK"];

/// The silence after which a silent host counts as dead, seconds. Less than the default, to be
/// quick.
pub(super) const HOST_TIMEOUT: f64 = 2.0;

/// How much later than its limit a report may arrive, on a busy machine, seconds.
const BUSY: f64 = 8.0;

/// Time limit of a job that does not end by itself, seconds.
pub(super) const LIMIT: &str = "120";

/// Time limit for events that occur soon. Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job whose launcher is a process of host 0.
pub(super) struct Started {
    launcher: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    per_host: u32,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The launcher's exit code; `None` if it was killed: the process that has entered its host for
    /// it ends in the same way.
    pub(super) code: Option<i32>,
    /// Lines of ranks that were not taken.
    pub(super) lines: Vec<String>,
    /// The launcher's and ranks' standard error.
    pub(super) errors: String,
}

impl Started {
    /// Starts `per_host` ranks on each of the first hosts, with these words for the program `rank`.
    /// A host that gets no processor for long does not count as dead.
    pub(super) fn new(net: &Net, hosts: u32, per_host: u32, words: &[&str]) -> Started {
        Started::with((LIMIT, &[]), net, (hosts, per_host), words)
    }

    /// The same if daemons connect over this network, if one is named, and with or without a host
    /// that falls silent.
    pub(super) fn connected(
        net: &Net,
        network: Option<&str>,
        falls_silent: bool,
        (hosts, per_host): (u32, u32),
        words: &[&str],
    ) -> Started {
        let timeout = ("HIKYAKU_JOBS_HOST_TIMEOUT", HOST_TIMEOUT.to_string());
        let network = network.map(|network| ("HIKYAKU_JOBS_NETWORK", network.to_owned()));
        let variables = falls_silent.then_some(timeout).into_iter().chain(network);
        let variables: Vec<(&str, String)> = variables.collect();
        Started::with((LIMIT, &variables), net, (hosts, per_host), words)
    }

    /// The same with another limit, in seconds, and with variables of the job.
    pub(super) fn with(
        (limit, variables): (&str, &[(&str, String)]),
        net: &Net,
        (hosts, per_host): (u32, u32),
        words: &[&str],
    ) -> Started {
        let before = net.on(0);
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).arg(LAUNCH);
        command.args([(hosts * per_host).to_string().as_str(), "0", limit, RANK]).args(words);
        command.env("HIKYAKU_JOBS_HOSTS", net.places(hosts, per_host));
        command.env("HIKYAKU_JOBS_AGENT", env!("CARGO_BIN_EXE_reach"));
        command.env("HIKYAKU_JOBS_HOST_TIMEOUT", PATIENCE.as_secs().to_string());
        command.env("HIKYAKU_JOBS_GRACE", "10");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Started::by(command, per_host)
    }

    /// A job that this command starts on hosts with so many ranks each.
    pub(super) fn by(mut command: Command, per_host: u32) -> Started {
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = pass_lines(launcher.stdout.take().unwrap());
        let mut errors = launcher.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut bytes = Vec::new();
            errors.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Started { launcher, lines, errors: Some(errors), per_host }
    }

    /// The next line of a rank; `None`: there are no more.
    #[track_caller]
    pub(super) fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing is written: {:?}", self.end()),
        }
    }

    /// Waits until so many ranks of the program `wait-for` wait.
    pub(super) fn all_wait(&mut self, ranks: u32) {
        for _ in 0..ranks {
            let line = self.line();
            assert!(line.as_ref().is_some_and(|it| it.starts_with("waits ")), "{line:?}");
        }
    }

    /// The process of a rank, as soon as it runs its program; `None`: the job has ended before.
    pub(super) fn rank(&mut self, net: &Net, rank: u32) -> Option<Process> {
        let start = Instant::now();
        loop {
            let is_it = |process: &Process| {
                let mut numbers = RANKS.into_iter().filter_map(|name| process.variable(name));
                let is_it = numbers.any(|number| number == rank.to_string());
                is_it && process.command().starts_with(RANK)
            };
            if let Some(found) = net.processes(rank / self.per_host).into_iter().find(is_it) {
                return Some(found);
            }
            if self.launcher.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(start.elapsed() < PATIENCE, "rank {rank} never started");
        }
    }

    /// The daemon of a host, if it runs.
    pub(super) fn daemon(&self, net: &Net, host: u32) -> Option<Process> {
        let is_it = |process: &Process| process.command().starts_with(&format!("{LAUNCH} daemon"));
        net.processes(host).into_iter().find(is_it)
    }

    /// The launcher, if it runs. The started process is the one that enters its host.
    pub(super) fn launcher(&self, net: &Net) -> Option<Process> {
        let of_it = format!("{LAUNCH} ");
        let daemon = format!("{LAUNCH} daemon");
        let is_it = |process: &Process| {
            let command = process.command();
            command.starts_with(&of_it) && !command.starts_with(&daemon)
        };
        net.processes(0).into_iter().find(is_it)
    }

    /// Waits for the launcher's end.
    pub(super) fn end(&mut self) -> Ended {
        let errors = self.errors.take().unwrap().join().unwrap();
        let lines = self.lines.iter().collect();
        Ended { code: self.launcher.wait().unwrap().code(), lines, errors }
    }
}

impl Ended {
    /// The ranks of the program `wait-for` that were told, in order, except those that are gone
    /// themselves. Each was told that one of these has died, on this host, within `limit` seconds
    /// after `at`.
    #[track_caller]
    pub(super) fn told(&self, at: Duration, (gone, host): (&[u32], &str), limit: f64) -> Vec<u32> {
        let mut told = Vec::new();
        for line in &self.lines {
            let words = line.splitn(4, ' ').collect::<Vec<_>>();
            // Other launchers write lines of their own.
            let ["told", rank, time, said] = words[..] else { continue };
            let rank: u32 = rank.parse().unwrap();
            let later = Duration::from_millis(time.parse().unwrap()).saturating_sub(at);
            println!("rank {rank} was told after {:.3} s: {said}", later.as_secs_f64());
            if gone.contains(&rank) {
                // It continued, and was told that its neighbour abandoned the call, or that others
                // have died.
                continue;
            }
            // On a lost host either rank may be detected first.
            let named = gone.iter().any(|gone| said.contains(&format!("rank {gone} ")));
            assert!(named && said.contains(&format!(" on host {host} died: ")), "{line}");
            assert!(later.as_secs_f64() < limit + BUSY, "{line}");
            told.push(rank);
        }
        told.sort_unstable();
        told
    }
}

fn pass_lines(stream: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(1024);
    thread::spawn(move || {
        let lines = BufReader::new(stream).lines();
        lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

impl Drop for Started {
    fn drop(&mut self) {
        // Cleans up after a failing test; the hosts end with the test.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}
