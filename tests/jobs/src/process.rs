//! Processes and their memory, from `/proc`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the memory of jobs, as `/proc` shows it.
const MEMORY: &str = "/memfd:hikyaku";

/// The state of a TCP socket that accepts connections, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// A line of this process's `/proc/self/status` that is in kB, in bytes: `VmRSS`, `VmHWM` (its
/// maximum so far), `RssShmem`.
pub fn own_memory(name: &str) -> u64 {
    field(Path::new("/proc/self/status"), name)
}

/// The memory of a job, given its `HIKYAKU_JOB`.
pub(crate) fn job_path(job: &str) -> String {
    let (launcher, rest) = job.split_once(':').unwrap();
    let (fd, _) = rest.split_once(':').unwrap();
    format!("/proc/{launcher}/fd/{fd}")
}

/// The size of the memory of this rank's job, bytes.
pub fn job_memory() -> u64 {
    let job = std::env::var("HIKYAKU_JOB").unwrap();
    fs::metadata(job_path(&job)).unwrap().blocks() * 512
}

/// Memory that is available to programs, bytes.
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
        let files = self.files().into_iter();
        let open = files.filter(|(_, target)| target.starts_with(MEMORY));
        let open = open.filter_map(|(path, _)| Some(fs::metadata(path).ok()?.ino()));
        mapped.chain(open).collect()
    }

    /// The targets of its descriptors.
    fn files(&self) -> Vec<(PathBuf, String)> {
        let files = fs::read_dir(self.path.join("fd")).into_iter().flatten().flatten();
        let named = |file: fs::DirEntry| {
            let target = fs::read_link(file.path()).ok()?;
            Some((file.path(), target.to_string_lossy().into_owned()))
        };
        files.filter_map(named).collect()
    }

    /// The job's memory, if it has that open.
    pub fn job_memory(&self) -> Option<File> {
        let (path, _) = self.files().into_iter().find(|(_, target)| target.starts_with(MEMORY))?;
        File::open(path).ok()
    }

    /// The ports at which it accepts TCP connections.
    pub fn ports(&self) -> Vec<u16> {
        let own: BTreeSet<String> = self.files().into_iter().map(|(_, target)| target).collect();
        let table = fs::read_to_string(self.path.join("net/tcp")).unwrap_or_default();
        let port = |line: &str| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, local, _, state, .., inode] = words.get(..10)? else { return None };
            let is_its = *state == LISTENS && own.contains(&format!("socket:[{inode}]"));
            let (_, port) = local.rsplit_once(':').filter(|_| is_its)?;
            u16::from_str_radix(port, 16).ok()
        };
        table.lines().filter_map(port).collect()
    }
}

/// The targets of this process's open descriptors.
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
