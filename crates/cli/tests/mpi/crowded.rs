//! Ranks that share their processors with more ranks than these are.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

/// They use their lines for long data, and do not try messages, for which all of them would have to
/// run at the same time: the trace of their job has no message of a broadcast.
#[test]
fn ranks_that_share_a_processor_try_no_messages_for_long_data() {
    let folder = scratch("crowded");
    let program = compile(&root().join("tests/mpi/long_broadcasts.c"), &folder);
    let messages = |cpus: &str| {
        let trace = folder.join("trace");
        let mut job = Command::new("taskset");
        job.args(["-c", cpus, HIKYAKU, "run", "-n", "2", "--bind", "none", "--timeout", "100"]);
        job.arg("--trace").arg(&trace).arg("--").arg(&program);
        let output = job.output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(output.status.success() && said.is_empty(), "on {cpus}: {said}");
        let trace = fs::read_to_string(trace).unwrap();
        let rows = trace.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        rows.filter(|row| row.len() == 8).map(|row| row[3].parse::<u64>().unwrap()).sum::<u64>()
    };
    let cpus = fs::read_to_string("/proc/self/status").unwrap();
    let list = cpus.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let (list, first) = (list.trim(), list.trim().split([',', '-']).next().unwrap());
    let sent = messages(first);
    assert!(sent < 20, "{sent} messages");
    if list != first {
        assert!(messages(list) > 50, "ranks that have a processor each try both ways");
    }
    fs::remove_dir_all(folder).unwrap();
}
