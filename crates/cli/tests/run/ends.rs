//! Tests of how a job ends when its ranks end: exit codes, the reason, and no process left.

use std::{collections::BTreeSet, process::Command};

use super::support::{HIKYAKU, Job, run, script, sorted, stderr, stdout};

#[test]
fn programs_that_know_nothing_of_hikyaku_simply_run() {
    let output = run(&["-n", "4", "--", "pwd"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
    let here = std::env::current_dir().unwrap();
    assert_eq!(stdout(&output), format!("{}\n", here.display()).repeat(4));
}

#[test]
fn what_long_messages_have_done_is_said_when_asked_for() {
    let output = run(&["-n", "2", "--stats", "--", "true"]);
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), ""));
    assert_eq!(stderr(&output), "hikyaku: no long messages\n");
}

#[test]
fn scripts_are_told_rank_and_size() {
    let output = script(&["-n", "3"], "echo $HIKYAKU_RANK of $HIKYAKU_SIZE");
    assert_eq!(sorted(&stdout(&output)), ["0 of 3", "1 of 3", "2 of 3"]);
}

#[test]
fn many_more_ranks_than_cpus() {
    let output = script(&["-n", "64"], "echo $HIKYAKU_RANK");
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    let ranks: BTreeSet<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ranks, (0..64).collect());
}

#[test]
fn the_first_failing_rank_gives_the_exit_code_and_ends_the_others() {
    let mut job = Job::start(
        &[],
        &["-n", "3"],
        "[ $HIKYAKU_RANK = 1 ] && { echo $$; exit 7; }; exec sleep 1000",
    );
    let pid = job.wait_for_lines(1).remove(0);
    let (code, message) = job.end();
    assert_eq!(code, Some(7));
    assert_eq!(message, format!("hikyaku: rank 1 (pid {pid}) exited with code 7\n"));
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn a_rank_killed_by_a_signal_is_named_with_it() {
    let mut job = Job::start(
        &[],
        &["-n", "4"],
        "[ $HIKYAKU_RANK = 3 ] && { echo $$; kill -9 $$; }; exec sleep 1000",
    );
    let pid = job.wait_for_lines(1).remove(0);
    let (code, message) = job.end();
    assert_eq!(code, Some(137));
    let expected = format!("hikyaku: rank 3 (pid {pid}) was killed by signal 9 (SIGKILL)\n");
    assert_eq!(message, expected);
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn ranks_that_will_not_end_are_killed() {
    let stubborn = "trap '' TERM INT HUP
        if [ $HIKYAKU_RANK = 0 ]; then exit 3; fi; while :; do sleep 0.1; done";
    let mut job = Job::start(&[], &["-n", "3"], stubborn);
    assert_eq!(job.end().0, Some(3));
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn stopped_ranks_are_ended_too() {
    let script = "if [ $HIKYAKU_RANK = 0 ]; then exit 3; fi; kill -STOP $$";
    let mut job = Job::start(&[], &["-n", "3"], script);
    assert_eq!(job.end().0, Some(3));
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn what_ranks_have_started_ends_with_them() {
    let script = "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000; :' &) ; exit 0";
    let mut job = Job::start(&[], &["-n", "2"], script);
    assert_eq!(job.end(), (Some(0), String::new()));
    assert_eq!(job.survivors(), [""; 0], "not even what made itself a session");
}

#[test]
fn time_up_gives_124_and_a_line_for_each_rank() {
    let mut job = Job::start(
        &[],
        &["-n", "3", "--timeout", "0.4"],
        "echo $$; [ $HIKYAKU_RANK = 2 ] || exec sleep 1000",
    );
    let (code, message) = job.end();
    assert_eq!(code, Some(124));
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "hikyaku: the job did not end within 0.4 s: all ranks were ended");
    assert_eq!(lines.len(), 4, "{message}");
    for (rank, line) in lines[1..].iter().enumerate() {
        assert!(line.starts_with(&format!("hikyaku:   rank {rank} (pid ")), "{line}");
    }
    assert!(lines[3].ends_with("has ended"), "{message}");
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn time_up_also_ends_a_job_whose_others_go_on_after_a_failure() {
    let flags = ["-n", "3", "--timeout", "0.4", "--grace", "1000"];
    let script = "[ $HIKYAKU_RANK = 1 ] && { echo $$; exit 7; }; exec sleep 1000";
    let mut job = Job::start(&[], &flags, script);
    let pid = job.wait_for_lines(1).remove(0);
    let (code, message) = job.end();
    assert_eq!(code, Some(7), "the first failure gives the code: {message}");
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], format!("hikyaku: rank 1 (pid {pid}) exited with code 7"));
    let up = "hikyaku:   the job did not end within 0.4 s: all ranks were ended";
    assert_eq!(lines[1], up);
    assert_eq!(lines.len(), 5, "{message}");
    for (rank, line) in lines[2..].iter().enumerate() {
        assert!(line.starts_with(&format!("hikyaku:   rank {rank} (pid ")), "{line}");
    }
    assert!(lines[3].ends_with("has ended"), "{message}");
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn time_enough_is_no_matter() {
    let output = run(&["-n", "2", "--timeout", "1000", "true"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn bound_ranks_have_one_cpu_each() {
    let cpus = "grep Cpus_allowed_list /proc/self/status | cut -f 2";
    let output = script(&["-n", "3", "--bind", "core"], cpus);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for list in stdout(&output).lines() {
        assert!(list.parse::<u32>().is_ok(), "one CPU, not {list:?}");
    }
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    let output = script(&["-n", "2", "--bind", "none"], cpus);
    assert_eq!(stdout(&output), format!("{own}\n{own}\n"));
}

/// The launcher may raise its own limit on open files; ranks keep the original one.
#[test]
fn limits_on_open_files_are_raised_for_the_launcher_only() {
    let limited = |kind: &str| {
        let line = format!("ulimit {kind} 80; exec \"$@\"");
        let words = ["-c", &line, "limited", HIKYAKU, "run", "-n", "20", "--"];
        let mut command = Command::new("bash");
        command.args(words).args(["sh", "-c", "ulimit -n"]).output().unwrap()
    };
    let output = limited("-Sn");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "80\n".repeat(20));
    let output = limited("-n");
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains(" open files and the limit is 80: raise it"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

/// Even if the job's memory alone fits within the limit, but not beside the launcher's own.
#[test]
fn a_limit_on_address_space_is_named() {
    let under_limit = |ranks: u32| {
        let line = "ulimit -v 200000; exec \"$@\"";
        let ranks = ranks.to_string();
        let words = ["-c", line, "limited", HIKYAKU, "run", "-n", &ranks, "true"];
        let output = Command::new("bash").args(words).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let ends: Vec<_> = (16..=64).map(under_limit).collect();
    let refused: Vec<_> = ends.into_iter().filter(|(code, _)| *code != Some(0)).collect();
    assert!(refused.iter().any(|(_, message)| message.contains("beside what the program has")));
    for (code, message) in refused {
        assert_eq!((code, message.lines().count()), (Some(1), 1), "{message}");
        let limit = "does not fit into the limit on address space of 204800000 bytes";
        assert!(message.contains(limit), "{message}");
    }
}

/// The launcher needs more stack than some limits allow, and uses another thread's.
#[test]
fn a_small_stack_is_enough() {
    let words = ["-c", "ulimit -s 64; exec \"$@\"", "limited", HIKYAKU, "run", "-n", "2", "true"];
    let output = Command::new("bash").args(words).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}
