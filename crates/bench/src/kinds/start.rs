//! Start: a job from its launcher's start to its end, and the memory of its ranks.
//!
//! Each rank joins, passes one barrier and leaves. The limit of the hardware (here: the kernel) is
//! the same number of processes of the same binary that do nothing.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Instant;

use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::job::{ConnectedJob, ContestantError};
use crate::plan;

/// The rank counts whose start is timed.
const START_RANKS: [u32; 2] = [2, 8];

/// The rank counts whose memory is reported.
const MEMORY_RANKS: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// The rank counts whose start is timed.
pub(crate) fn start_ranks(settings: &BenchSettings) -> Vec<u32> {
    if settings.ranks.is_empty() { START_RANKS.into() } else { settings.ranks.clone() }
}

/// The rank counts whose memory is reported.
pub(crate) fn memory_ranks(settings: &BenchSettings) -> Vec<u32> {
    if settings.ranks.is_empty() { MEMORY_RANKS.into() } else { settings.ranks.clone() }
}

/// The time of `count` processes that do nothing, in milliseconds.
pub(crate) fn bare(executable: &Path, count: u32) -> io::Result<f64> {
    let start = Instant::now();
    let spawn = |_| {
        let mut process = Process::new(executable);
        process.args(["bench", "start", "--role", "nothing"]);
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let children: Vec<io::Result<_>> = (0..count).map(spawn).collect();
    for child in children {
        child?.wait()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// The ranks' side of memory: this process's figures of the kernel.
pub(crate) fn resident() -> io::Result<BlockAnswer> {
    let status = fs::read_to_string("/proc/self/status")?;
    parse_status(&status).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/self/status has no VmRSS in kB")
    })
}

/// `VmRSS` and `RssShmem`; kernels before 4.5 have no `RssShmem`, which then counts as 0.
fn parse_status(status: &str) -> Option<BlockAnswer> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    let shared_kib = field("RssShmem").unwrap_or(0);
    Some(BlockAnswer::Memory { resident_kib: field("VmRSS")?, shared_kib })
}

/// Resident memory and its shared part in MiB: the median over the ranks of a job.
pub(crate) fn memory(job: &mut ConnectedJob) -> Result<(f64, f64), ContestantError> {
    let (mut resident, mut shared) = (Vec::new(), Vec::new());
    for (rank, answer) in job.run(&BlockCommand::plain(Verb::Memory))?.into_iter().enumerate() {
        let BlockAnswer::Memory { resident_kib, shared_kib } = answer else {
            return Err(ContestantError::Answer { rank, answer: format!("{answer:?}") });
        };
        resident.push(resident_kib as f64 / 1024.0);
        shared.push(shared_kib as f64 / 1024.0);
    }
    plan::median(&resident)
        .zip(plan::median(&shared))
        .ok_or_else(|| ContestantError::Ended("it has no ranks".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_read() {
        let status = "Name:\tx\nVmRSS:\t    4096 kB\nRssAnon:\t 1 kB\nRssShmem:\t     128 kB\n";
        let expected = BlockAnswer::Memory { resident_kib: 4096, shared_kib: 128 };
        assert_eq!(parse_status(status), Some(expected));
        assert_eq!(
            parse_status("VmRSS:\t 8 kB\n"),
            Some(BlockAnswer::Memory { resident_kib: 8, shared_kib: 0 })
        );
        for wrong in ["", "VmRSS: 8\n", "VmRSS: x kB\n"] {
            assert_eq!(parse_status(wrong), None, "{wrong}");
        }
        assert!(matches!(resident(), Ok(BlockAnswer::Memory { resident_kib: 1.., .. })));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(bare(Path::new("/nonexistent/hikyaku"), 1).is_err());
    }
}
