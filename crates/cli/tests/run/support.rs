//! Starting `hikyaku run`, and finding what it leaves behind.

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

/// How long something that happens soon may take on a machine that is busy with other things.
/// Reached only by failing tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// `hikyaku run` with these words.
pub(crate) fn run(words: &[&str]) -> Output {
    Command::new(HIKYAKU).arg("run").args(words).stdin(Stdio::null()).output().unwrap()
}

/// `hikyaku run` of a shell script.
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
    /// Starts a shell script as ranks. `with` are words for `env`, which becomes the launcher.
    ///
    /// Signals are back to their defaults first: whoever runs the tests may ignore some.
    pub(crate) fn start(with: &[&str], flags: &[&str], script: &str) -> Job {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("HIKYAKU_TEST_MARK={}-{number}.", std::process::id());
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,HUP,TERM"]).args(with).arg(&mark);
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

    /// Waits for the launcher's end; its exit code (none if it was killed) and what it wrote to
    /// standard error.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.launcher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.launcher.wait().unwrap().code(), text)
    }

    /// Processes of the job, zombies not counted: they have no environment to be found by.
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
        // Whatever a failing test leaves; the launcher's death ends the ranks.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}
