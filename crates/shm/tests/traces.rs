//! A job leaves nothing behind, even when every rank is killed. This test has its own binary, since
//! it checks all descriptors and mappings of this process.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use hikyaku_shm::{Job, JobConfig};

/// All names in the folder of named shared memory.
fn named() -> BTreeSet<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return BTreeSet::new() };
    let ours = |name: &std::ffi::OsString| name.to_string_lossy().contains("hikyaku");
    entries.map(|entry| entry.unwrap().file_name()).filter(ours).collect()
}

/// Whether this process still has a job's memory open or mapped.
fn holds_memory() -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap().any(|entry| {
        let target = fs::read_link(entry.unwrap().path()).unwrap_or_default();
        target.to_string_lossy().contains("memfd:hikyaku")
    });
    open || fs::read_to_string("/proc/self/maps").unwrap().contains("memfd:hikyaku")
}

#[test]
fn a_killed_job_leaves_nothing() {
    let before = named();
    let job = Job::create(&JobConfig::new(4, 4)).unwrap();
    assert!(holds_memory());
    // These processes have inherited the memory and never release it themselves.
    let start = |rank| {
        let mut program = Command::new("cat");
        program.stdin(Stdio::piped()).envs(job.environment(rank)).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..4).map(start).collect();
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(named(), before);
    drop(job);
    assert!(!holds_memory());
    assert_eq!(named(), before);
}
