//! What `/proc` says about processes and their memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the memory of jobs, as `/proc` shows it.
const MEMORY: &str = "/memfd:hikyaku";

/// A line of this process's `/proc/self/status` that is in kB, in bytes: `VmRSS`, `VmHWM` (the
/// most there ever was), `RssShmem`.
pub fn own_memory(name: &str) -> u64 {
    field(Path::new("/proc/self/status"), name)
}

/// The memory of a job, given its `HIKYAKU_JOB`.
pub(crate) fn job_path(job: &str) -> String {
    let (launcher, rest) = job.split_once(':').unwrap();
    let (fd, _) = rest.split_once(':').unwrap();
    format!("/proc/{launcher}/fd/{fd}")
}

/// What the memory of this rank's job takes, bytes.
pub fn job_memory() -> u64 {
    let job = std::env::var("HIKYAKU_JOB").unwrap();
    fs::metadata(job_path(&job)).unwrap().blocks() * 512
}

/// Memory that programs can still have, bytes.
pub fn available_memory() -> u64 {
    field(Path::new("/proc/meminfo"), "MemAvailable")
}

fn field(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("{} has no {name}", path.display()));
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// One process, which may end at any time: then it has no variables and no descriptors.
#[derive(Debug, Clone)]
pub struct Process {
    path: PathBuf,
    /// Its process id.
    pub pid: i32,
}

/// All processes.
pub fn all() -> Vec<Process> {
    let numbered = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some(Process { path: entry.path(), pid })
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(numbered).collect()
}

impl Process {
    /// A variable of its environment as it was when the program started. Zombies have none.
    pub fn variable(&self, name: &str) -> Option<String> {
        let environment = fs::read(self.path.join("environ")).ok()?;
        environment.split(|byte| *byte == 0).find_map(|variable| {
            let text = String::from_utf8_lossy(variable);
            Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned())
        })
    }

    /// Its words.
    pub fn command(&self) -> String {
        let words = fs::read(self.path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ")
    }

    /// Inodes of the job memories that it has mapped or open.
    pub fn job_memories(&self) -> BTreeSet<u64> {
        let maps = fs::read_to_string(self.path.join("maps")).unwrap_or_default();
        let mapped = maps.lines().filter(|line| line.contains(MEMORY));
        let mapped = mapped.filter_map(|line| line.split_ascii_whitespace().nth(4)?.parse().ok());
        let files = fs::read_dir(self.path.join("fd")).into_iter().flatten().flatten();
        let open = files.filter_map(|file| {
            let target = fs::read_link(file.path()).ok()?;
            let is_memory = target.to_string_lossy().starts_with(MEMORY);
            is_memory.then(|| fs::metadata(file.path()).ok().map(|file| file.ino()))?
        });
        mapped.chain(open).collect()
    }
}

/// What this process holds open, by what it is.
pub fn own_files() -> Vec<String> {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).collect()
}

/// Names under `/dev/shm` that could be ours.
pub fn named_memories() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("hikyaku")).collect()
}
