//! A running job under the conductor: start it, tell its ranks what to run, stop it.
//!
//! Invariants: a job that its conductor drops is ended, in order if it listens and by signal if
//! not; no wait exceeds the time limit; a job's socket directory is removed as soon as all ranks
//! have connected, so that an interrupted benchmark leaves nothing behind.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use thiserror::Error;

use super::control::{BlockAnswer, BlockCommand, Hello, Verb, read_line};
use super::scratch::ScratchFolder;

/// How long a job may take to end after it was told to.
const GRACE: Duration = Duration::from_secs(5);

/// The most characters of a job's output that an error repeats.
const WORDS_LIMIT: usize = 200;

/// Why a contestant has no figure.
#[derive(Debug, Error)]
pub(crate) enum ContestantError {
    /// The launcher could not be run.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The launcher.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A system call of the conductor failed.
    #[error("{what}: {source}")]
    System {
        /// The action.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The job ended unexpectedly.
    #[error("the job ended early: {0}")]
    Ended(String),
    /// The job did not answer in time.
    #[error("no answer within {0} s (see --time-limit)")]
    Silent(u64),
    /// A rank reports that it cannot execute a command, and continues.
    #[error("rank {rank}: {error}")]
    Refused {
        /// The rank.
        rank: usize,
        /// Its reason.
        error: String,
    },
    /// A rank's answer is not in the protocol.
    #[error("rank {rank} answered {answer:?}")]
    Answer {
        /// The rank.
        rank: usize,
        /// The answer.
        answer: String,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ContestantError {
    move |source| ContestantError::System { what, source }
}

/// The conductor's connection to one rank.
struct ConnectedRank {
    stream: BufReader<UnixStream>,
    hello: Hello,
}

/// A job whose ranks have all connected and wait for commands.
pub(crate) struct ConnectedJob {
    child: Child,
    ranks: Vec<ConnectedRank>,
    time_limit: Duration,
}

impl ConnectedJob {
    /// Starts `ranks` ranks with the launcher command that `launcher` makes of the socket's path,
    /// and waits until every one has connected.
    pub(crate) fn start(
        ranks: u32,
        time_limit: Duration,
        launcher: impl FnOnce(&Path) -> Process,
    ) -> Result<ConnectedJob, ContestantError> {
        let scratch = ScratchFolder::new().map_err(system("cannot make a temporary directory"))?;
        let path = scratch.path().join("control");
        let listener = UnixListener::bind(&path).map_err(system("cannot make a socket"))?;
        listener.set_nonblocking(true).map_err(system("cannot make a socket"))?;
        let words = scratch.path().join("words");
        let child = spawn(launcher(&path), &words)?;
        let mut job = ConnectedJob { child, ranks: Vec::new(), time_limit };
        job.accept(&listener, ranks).map_err(|error| job.explain(error, &words))?;
        Ok(job)
    }

    /// The introductions of the ranks, in rank order.
    pub(crate) fn hello(&self) -> impl Iterator<Item = &Hello> {
        self.ranks.iter().map(|rank| &rank.hello)
    }

    /// Lets every rank run `command`. Returns the answers in rank order.
    pub(crate) fn run(
        &mut self,
        command: &BlockCommand,
    ) -> Result<Vec<BlockAnswer>, ContestantError> {
        for rank in 0..self.ranks.len() {
            self.tell(rank, command)?;
        }
        let deadline = Instant::now() + self.time_limit;
        // All answers are read before a refusal counts: then the job is in a known state.
        let answers: Vec<_> = (0..self.ranks.len()).map(|rank| self.hear(rank, deadline)).collect();
        answers.into_iter().collect()
    }

    /// Sends `command` to one rank, whose answer [`ConnectedJob::answer`] reads later.
    pub(crate) fn tell(
        &mut self,
        rank: usize,
        command: &BlockCommand,
    ) -> Result<(), ContestantError> {
        let mut stream = self.ranks[rank].stream.get_ref();
        writeln!(stream, "{command}").map_err(|error| ContestantError::Ended(error.to_string()))
    }

    /// The answer of one rank.
    pub(crate) fn answer(&mut self, rank: usize) -> Result<BlockAnswer, ContestantError> {
        self.hear(rank, Instant::now() + self.time_limit)
    }

    fn hear(&mut self, rank: usize, deadline: Instant) -> Result<BlockAnswer, ContestantError> {
        let line = read_until(&mut self.ranks[rank].stream, deadline, self.time_limit)?;
        match serde_json::from_str(&line) {
            Ok(BlockAnswer::Failed { error }) => Err(ContestantError::Refused { rank, error }),
            Ok(answer) => Ok(answer),
            Err(_) => Err(ContestantError::Answer { rank, answer: shorten(&line) }),
        }
    }

    fn accept(&mut self, listener: &UnixListener, ranks: u32) -> Result<(), ContestantError> {
        let deadline = Instant::now() + self.time_limit;
        let ended = watch(&self.child)?;
        while self.ranks.len() < ranks as usize {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut waiting = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
            ];
            wait(&mut waiting, left).map_err(system("cannot wait for ranks"))?;
            if waiting[0].revents().contains(PollFlags::IN) {
                let (stream, _) = listener.accept().map_err(system("cannot accept a rank"))?;
                self.ranks.push(greet(stream, deadline, self.time_limit)?);
            } else if !waiting[1].revents().is_empty() {
                let status = self.child.wait().map_err(system("cannot wait for the job"))?;
                return Err(ContestantError::Ended(status.to_string()));
            } else if left.is_zero() {
                return Err(ContestantError::Silent(self.time_limit.as_secs()));
            }
        }
        self.ranks.sort_by_key(|rank| rank.hello.rank);
        let in_order = self.ranks.iter().zip(0..).all(|(rank, number)| rank.hello.rank == number);
        in_order.then_some(()).ok_or_else(|| {
            ContestantError::Ended(format!("its ranks are not numbered from 0 to {}", ranks - 1))
        })
    }

    /// Adds the job's own output to an error, if there is any.
    fn explain(&mut self, error: ContestantError, words: &Path) -> ContestantError {
        match (error, first_words(words)) {
            (ContestantError::Ended(how), Some(said)) => {
                ContestantError::Ended(format!("{how}: {said}"))
            }
            (error, _) => error,
        }
    }
}

impl Drop for ConnectedJob {
    /// Ends the job: by command, then by SIGTERM (the launcher ends its ranks), then by SIGKILL.
    fn drop(&mut self) {
        for rank in 0..self.ranks.len() {
            let _ = self.tell(rank, &BlockCommand::plain(Verb::Quit));
        }
        let told = !self.ranks.is_empty();
        self.ranks.clear();
        stop(&mut self.child, if told { GRACE } else { Duration::ZERO });
    }
}

/// Runs `launcher` to its end and returns how long that took.
pub(crate) fn time_to_end(launcher: Process, limit: Duration) -> Result<Duration, ContestantError> {
    let scratch = ScratchFolder::new().map_err(system("cannot make a temporary directory"))?;
    let words = scratch.path().join("words");
    let start = Instant::now();
    let mut child = spawn(launcher, &words)?;
    let in_time = ends_within(&child, limit)?;
    let elapsed = start.elapsed();
    if !in_time {
        stop(&mut child, Duration::ZERO);
        return Err(ContestantError::Silent(limit.as_secs()));
    }
    let status = child.wait().map_err(system("cannot wait for the job"))?;
    match status.success() {
        true => Ok(elapsed),
        false => {
            let said = first_words(&words).unwrap_or_else(|| "it said nothing".to_owned());
            Err(ContestantError::Ended(format!("{status}: {said}")))
        }
    }
}

/// Ends a child: waits for `patience`, then sends SIGTERM, then SIGKILL.
fn stop(child: &mut Child, patience: Duration) {
    if !ends_within(child, patience).unwrap_or(false)
        && let Ok(Some(pid)) = pid_of(child)
    {
        let _ = kill_process(pid, Signal::TERM);
        if !ends_within(child, GRACE).unwrap_or(false) {
            let _ = child.kill();
        }
    }
    let _ = child.wait();
}

fn spawn(mut launcher: Process, words: &Path) -> Result<Child, ContestantError> {
    let stderr = File::create(words).map_err(system("cannot write to the temporary directory"))?;
    let child = launcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn();
    let program = || launcher.get_program().to_string_lossy().into_owned();
    child.map_err(|source| ContestantError::Spawn { program: program(), source })
}

/// The child's process id while it has not been waited for.
fn pid_of(child: &Child) -> Result<Option<Pid>, ContestantError> {
    Ok(i32::try_from(child.id()).ok().and_then(Pid::from_raw))
}

/// A descriptor that becomes readable when the child ends.
fn watch(child: &Child) -> Result<rustix::fd::OwnedFd, ContestantError> {
    let pid =
        pid_of(child)?.ok_or_else(|| ContestantError::Ended("it has no process id".into()))?;
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| system("cannot watch the job")(io::Error::from(error)))
}

fn ends_within(child: &Child, limit: Duration) -> Result<bool, ContestantError> {
    let ended = watch(child)?;
    let mut waiting = [PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)];
    wait(&mut waiting, limit).map_err(system("cannot wait for the job"))?;
    Ok(!waiting[0].revents().is_empty())
}

/// `poll` with a limit; an interruption by a signal counts as "nothing yet".
fn wait(waiting: &mut [PollFd<'_>], limit: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
    match poll(waiting, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn greet(
    stream: UnixStream,
    deadline: Instant,
    limit: Duration,
) -> Result<ConnectedRank, ContestantError> {
    stream.set_nonblocking(false).map_err(system("cannot accept a rank"))?;
    let mut stream = BufReader::new(stream);
    let line = read_until(&mut stream, deadline, limit)?;
    let hello = serde_json::from_str(&line)
        .map_err(|_| ContestantError::Ended(format!("a rank said {:?}", shorten(&line))))?;
    Ok(ConnectedRank { stream, hello })
}

fn read_until(
    stream: &mut BufReader<UnixStream>,
    deadline: Instant,
    limit: Duration,
) -> Result<String, ContestantError> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.get_ref().set_read_timeout(Some(left)).map_err(system("cannot set a time limit"))?;
    match read_line(stream) {
        Ok(Some(line)) => Ok(line),
        Ok(None) => Err(ContestantError::Ended("a rank closed its connection".into())),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(ContestantError::Silent(limit.as_secs()))
        }
        Err(e) => Err(ContestantError::Ended(e.to_string())),
    }
}

/// The first line with letters in a job's standard error.
fn first_words(words: &Path) -> Option<String> {
    let said = String::from_utf8_lossy(&std::fs::read(words).ok()?).into_owned();
    let line = said.lines().find(|line| line.chars().any(char::is_alphabetic))?;
    Some(shorten(line))
}

fn shorten(text: &str) -> String {
    text.trim().chars().take(WORDS_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str, argument: Option<&Path>) -> Process {
        let mut process = Process::new("/bin/sh");
        process.arg("-c").arg(script).arg("sh").args(argument);
        process
    }

    fn failure(script: &str) -> String {
        let started = ConnectedJob::start(2, LIMIT, |_| shell(script, None));
        started.err().expect("the script never connects").to_string()
    }

    #[test]
    fn a_program_that_ends_before_its_ranks_connect_is_explained() {
        let error = failure("echo ------ >&2; echo no slots available >&2; exit 3");
        assert!(error.contains("ended early") && error.contains("no slots available"), "{error}");
        assert!(failure("exit 0").contains("ended early"));
    }

    #[test]
    fn a_launcher_that_is_not_there_is_named() {
        let error =
            ConnectedJob::start(2, LIMIT, |_| Process::new("/nonexistent/mpiexec")).err().unwrap();
        assert!(error.to_string().starts_with("cannot start /nonexistent/mpiexec"), "{error}");
    }

    #[test]
    fn a_job_that_never_connects_is_abandoned_and_ended() {
        let start =
            ConnectedJob::start(1, Duration::from_secs(1), |_| shell("exec sleep 600", None));
        assert!(matches!(start, Err(ContestantError::Silent(1))));
    }

    #[test]
    fn the_time_to_the_end_needs_success() {
        assert!(time_to_end(shell("exit 0", None), LIMIT).is_ok());
        let error = time_to_end(shell("echo broken >&2; exit 1", None), LIMIT).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        let error = time_to_end(shell("exec sleep 600", None), Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, ContestantError::Silent(1)), "{error}");
    }

    #[test]
    fn a_connected_job_answers_and_its_nonsense_is_an_error() {
        use std::thread;
        let mut rank = None;
        let mut job = ConnectedJob::start(1, LIMIT, |path| {
            let path = path.to_owned();
            rank = Some(thread::spawn(move || impersonate(&path)));
            shell("exec sleep 600", None)
        })
        .unwrap();
        assert_eq!(job.hello().next().unwrap().library, "test");
        let barrier = BlockCommand::plain(Verb::Barrier);
        let times = job.run(&barrier).unwrap();
        assert_eq!(times, [BlockAnswer::Times { nanoseconds: vec![5] }]);
        let refused = job.run(&barrier).unwrap_err();
        assert_eq!(refused.to_string(), "rank 0: no room");
        assert!(matches!(job.run(&barrier), Err(ContestantError::Answer { rank: 0, .. })));
        assert!(matches!(job.run(&barrier), Err(ContestantError::Ended(_))));
        // The child never listens to the conductor: dropping must end it by signal.
        job.ranks.clear();
        drop(job);
        rank.unwrap().join().unwrap();
    }

    fn impersonate(path: &Path) {
        let stream = UnixStream::connect(path).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let hello = r#"{"rank":0,"size":1,"pid":1,"library":"test","cpus":[0]}"#;
        writeln!(writer, "{hello}").unwrap();
        for answer in [r#"{"nanoseconds":[5]}"#, r#"{"error":"no room"}"#, "nonsense"] {
            let line = read_line(&mut reader).unwrap().unwrap();
            assert_eq!(BlockCommand::parse(&line).unwrap().verb, Verb::Barrier);
            writeln!(writer, "{answer}").unwrap();
        }
    }
}
