//! Helpers that start `hikyaku run` and find the processes it leaves behind.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const HIKYAKU: &str = env!("CARGO_BIN_EXE_hikyaku");

/// A limit for events that are soon, even on a busy machine. Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `hikyaku run` with these arguments.
pub(crate) fn run(words: &[&str]) -> Output {
    Command::new(HIKYAKU).arg("run").args(words).stdin(Stdio::null()).output().unwrap()
}

/// Runs a shell script with `hikyaku run`.
pub(crate) fn script(flags: &[&str], script: &str) -> Output {
    run(&[flags, &["--", "sh", "-c", script]].concat())
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The lines of a text, sorted: ranks write in no particular order.
pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A job in the background whose processes can be told from all others.
pub(crate) struct Job {
    pub(crate) launcher: Child,
    pub(crate) stdout: BufReader<std::process::ChildStdout>,
    mark: String,
}

impl Job {
    /// Starts a shell script as ranks. `with` are arguments for `env`, which becomes the launcher.
    ///
    /// First resets all signals to their defaults: the process that runs the tests may ignore some.
    pub(crate) fn start(with: &[&str], flags: &[&str], script: &str) -> Job {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("HIKYAKU_TEST_MARK={}-{number}.", std::process::id());
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,QUIT,HUP,TERM"]).args(with).arg(&mark);
        command.args([HIKYAKU, "run"]).args(flags).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut launcher = command.spawn().unwrap();
        let stdout = BufReader::new(launcher.stdout.take().unwrap());
        Job { launcher, stdout, mark }
    }

    /// Waits until so many lines have been written.
    pub(crate) fn wait_for_lines(&mut self, count: usize) -> Vec<String> {
        let mut line = || {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the job ended early");
            line.trim_end().to_owned()
        };
        (0..count).map(|_| line()).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.launcher), signal).unwrap();
    }

    /// Waits for the launcher's end. Returns its exit code (`None` if it was killed) and its
    /// standard error.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.launcher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.launcher.wait().unwrap().code(), text)
    }

    /// The processes of the job without zombies, which have no environment to identify them.
    pub(crate) fn survivors(&self) -> Vec<String> {
        let has_mark = |path: &std::path::Path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == self.mark.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        entries
            .filter(|path| has_mark(path))
            .map(|path| {
                let command = fs::read(path.join("cmdline")).unwrap_or_default();
                format!("{}: {}", path.display(), String::from_utf8_lossy(&command))
            })
            .collect()
    }

    /// Waits until no process of the job is left.
    pub(crate) fn wait_for_silence(&self) {
        let start = Instant::now();
        while !self.survivors().is_empty() {
            assert!(start.elapsed() < PATIENCE, "still there: {:?}", self.survivors());
            thread::yield_now();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // For the processes of a failing test: the launcher's death ends the ranks.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}
