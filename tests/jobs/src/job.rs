//! A job as seen by its starter: words in, lines and an exit code out, processes meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::process::{self, Process};

/// The environment variable that identifies a job's processes.
const MARK: &str = "HIKYAKU_JOBS_MARK";

/// Time limit for events that occur soon, on a machine that is busy with other things. Only failing
/// tests reach it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A job to be started.
#[derive(Debug, Clone)]
pub struct Job {
    launcher: String,
    program: String,
    wrapper: Vec<String>,
    ranks: u32,
    ranks_per_node: u32,
    timeout: Duration,
    words: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Job {
    /// `ranks` ranks of `program` with these words, on one node, started by `launcher`.
    pub fn new(launcher: &str, program: &str, ranks: u32, words: &[&str]) -> Job {
        Job {
            launcher: launcher.to_owned(),
            program: program.to_owned(),
            wrapper: Vec::new(),
            ranks,
            ranks_per_node: 0,
            timeout: PATIENCE,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            variables: Vec::new(),
        }
    }

    /// The same with a variable in its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Job {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same on virtual nodes of this many ranks; 0: on one node.
    #[must_use]
    pub fn ranks_per_node(self, ranks_per_node: u32) -> Job {
        Job { ranks_per_node, ..self }
    }

    /// The same with another time limit: a hanging job is ended then, with code 124.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Job {
        Job { timeout, ..self }
    }

    /// The same with a launcher that `wrapper` starts: the launcher's words follow its own.
    #[must_use]
    pub fn within(self, wrapper: &[&str]) -> Job {
        Job { wrapper: wrapper.iter().map(|word| (*word).to_owned()).collect(), ..self }
    }

    /// Starts it.
    pub fn start(&self) -> Running {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
        let numbers = [self.ranks, self.ranks_per_node].map(|number| number.to_string());
        let mut words = self.wrapper.clone();
        words.push(self.launcher.clone());
        words.extend(numbers);
        words.extend([self.timeout.as_secs_f64().to_string(), self.program.clone()]);
        words.extend(self.words.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(MARK, &mark).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(launcher.stdout.take().unwrap());
        let stderr = collect(launcher.stderr.take().unwrap());
        Running { launcher, mark, stdout: Some(stdout), stderr: Some(stderr) }
    }

    /// Runs it to its end.
    pub fn run(&self) -> End {
        self.start().end()
    }

    /// Runs it to its end, which must be a success without output on standard error. Returns its
    /// standard output.
    #[track_caller]
    pub fn succeed(&self) -> String {
        let end = self.run();
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{self:?}:\n{}", end.stdout);
        end.stdout
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// How a job ended.
#[derive(Debug, Clone)]
pub struct End {
    /// The launcher's exit code; none if it was killed.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A running job.
#[derive(Debug)]
pub struct Running {
    launcher: Child,
    mark: String,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// The processes of the job, without zombies.
    pub fn processes(&self) -> Vec<Process> {
        let is_ours = |process: &Process| process.variable(MARK).as_ref() == Some(&self.mark);
        process::all().into_iter().filter(is_ours).collect()
    }

    /// The process of a rank, as soon as it runs its program, and the inode of the job's memory.
    pub fn rank(&mut self, rank: u32) -> (Process, u64) {
        self.rank_unless_over(rank).expect("the job ended early")
    }

    /// The same; `None`: the job has ended before it was found.
    fn rank_unless_over(&mut self, rank: u32) -> Option<(Process, u64)> {
        let start = Instant::now();
        loop {
            for process in self.processes() {
                let variable = process.variable("HIKYAKU_RANK").and_then(|text| text.parse().ok());
                let job = process.variable("HIKYAKU_JOB");
                if let (true, Some(job)) = (variable == Some(rank), job) {
                    let inode = job.rsplit(':').next().unwrap().parse().unwrap();
                    return Some((process, inode));
                }
            }
            assert!(start.elapsed() < PATIENCE, "rank {rank} never started");
            if self.launcher.try_wait().unwrap().is_some() {
                return None;
            }
        }
    }

    /// The job's memory, as soon as a rank runs its program, for writing past the ranks. `None`:
    /// the job has ended before.
    pub fn memory(&mut self) -> Option<File> {
        let (process, _) = self.rank_unless_over(0)?;
        let job = process.variable("HIKYAKU_JOB")?;
        let opened = OpenOptions::new().read(true).write(true).open(process::job_path(&job));
        match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened.unwrap()),
        }
    }

    /// Lets the job run for `time`, or to its end if that comes first. Returns whether it ended.
    pub fn has_ended_within(&self, time: Duration) -> bool {
        let ended = pidfd_open(Pid::from_child(&self.launcher), PidfdFlags::empty()).unwrap();
        let time = Timespec::try_from(time).unwrap();
        poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&time)).unwrap() == 1
    }

    /// Waits for the launcher's end.
    pub fn end(&mut self) -> End {
        let stdout = self.stdout.take().unwrap().join().unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        End { code: self.launcher.wait().unwrap().code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Cleans up after a failing test; the launcher's death ends the ranks.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

impl Process {
    /// Kills it.
    pub fn kill(&self) {
        let pid = Pid::from_raw(self.pid).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
}
