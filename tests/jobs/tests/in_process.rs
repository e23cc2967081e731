//! `Launch` as a library, many times in one process: a job leaves nothing behind in it.
//!
//! The only test of its file, so that no other test opens descriptors in this process.

#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::{Duration, Instant};

use hikyaku_jobs::process::{self, own_files};
use hikyaku_launch::Launch;

/// Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of descriptors of this process once the threads that write the ranks' output, which
/// no launch waits for, have ended, and no more than `expected` are open.
fn settled(expected: usize) -> usize {
    let start = Instant::now();
    loop {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names =
            threads.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        let writing = names.filter(|name| name.starts_with("hikyaku")).count();
        let open = own_files().len();
        if (writing == 0 && open <= expected) || start.elapsed() > PATIENCE {
            return open;
        }
        thread::yield_now();
    }
}

#[test]
fn jobs_leave_no_descriptor_memory_or_child_in_their_launcher() {
    let run = |words: &[&str]| {
        let launch = Launch::new(3, env!("CARGO_BIN_EXE_rank"));
        let args = words.iter().map(|word| (*word).into()).collect();
        Launch { args, ..launch }.run().unwrap()
    };
    let mut before = None;
    for program in ["ping-pong", "allreduce", "large"] {
        for moment in ["1", "2", "10", "40"] {
            let outcome = run(&["victim", program, moment]);
            assert_eq!(outcome.code, 137);
            let reason = outcome.reason.unwrap();
            assert!(reason.starts_with("rank 2 (pid "), "{reason}");
            assert!(reason.ends_with(") was killed by signal 9 (SIGKILL)"), "{reason}");
            // Descriptors that all launches share are open after the first.
            let before = *before.get_or_insert_with(|| settled(usize::MAX));
            assert_eq!(settled(before), before, "{:#?}", own_files());
            let memories = own_files().into_iter().filter(|file| file.contains("hikyaku"));
            assert_eq!(memories.count(), 0);
        }
    }
    let own = std::process::id() as i32;
    let me = process::all().into_iter().find(|process| process.pid == own).unwrap();
    assert!(me.job_memories().is_empty(), "a job's memory is still mapped");
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
    assert_eq!(children, "", "children are left");
}
