//! Tests of signals to the launcher: they end the whole job.

use rustix::process::{Pid, Signal, kill_process};

use super::support::Job;

const SLEEP: &str = "echo ready; exec sleep 1000";

/// A job of three ranks that have all started.
fn job(with: &[&str], script: &str) -> Job {
    let mut job = Job::start(with, &["-n", "3"], script);
    assert_eq!(job.wait_for_lines(3), ["ready"; 3]);
    job
}

#[test]
fn signals_that_end_the_job_leave_nothing() {
    for (signal, code, name) in [
        (Signal::INT, 130, "signal 2 (SIGINT)"),
        (Signal::TERM, 143, "signal 15 (SIGTERM)"),
        (Signal::HUP, 129, "signal 1 (SIGHUP)"),
        (Signal::QUIT, 131, "signal 3 (SIGQUIT)"),
    ] {
        let mut job = job(&[], SLEEP);
        job.signal(signal);
        let expected = format!("hikyaku: interrupted by {name}: all ranks were ended\n");
        assert_eq!(job.end(), (Some(code), expected));
        assert_eq!(job.survivors(), [""; 0]);
    }
}

#[test]
fn ranks_may_catch_ctrl_c_and_tidy_up() {
    let mut job =
        job(&[], "trap 'echo tidy; exit 0' INT; echo ready; while :; do sleep 0.05; done");
    job.signal(Signal::INT);
    assert_eq!(job.wait_for_lines(3), ["tidy"; 3]);
    assert_eq!(job.end().0, Some(130));
}

/// All of the output is written, even if the reader is slower than the end of the ranks.
#[test]
fn the_last_words_of_an_interrupted_job_are_written() {
    let speech = "trap 'seq 20000; exit 0' INT; echo ready; while :; do sleep 0.05; done";
    let mut job = job(&[], speech);
    job.signal(Signal::INT);
    let told = job.wait_for_lines(3 * 20_000);
    assert_eq!(told.iter().filter(|line| *line == "20000").count(), 3);
    assert_eq!(job.end().0, Some(130));
}

/// The ranks ignore every signal that can be ignored, so the first Ctrl-C does not end them. The
/// second kills them at once.
#[test]
fn a_second_ctrl_c_kills() {
    let stubborn = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done";
    let mut job = job(&[], stubborn);
    job.signal(Signal::INT);
    job.signal(Signal::INT);
    assert_eq!(job.end().0, Some(130));
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn what_the_launcher_was_told_to_ignore_stays_ignored() {
    // As under nohup. SIGTERM then proves that the job was still there.
    let mut job = job(&["--ignore-signal=HUP"], SLEEP);
    job.signal(Signal::HUP);
    job.signal(Signal::TERM);
    assert_eq!(job.end().0, Some(143));
}

/// Some programs that start others ignore SIGCHLD, and hand that down.
#[test]
fn ends_of_ranks_are_known_though_sigchld_was_ignored() {
    for flags in [&["-n", "2"][..], &["--hosts", "localhost:2"]] {
        let mut job = Job::start(&["--ignore-signal=CHLD"], flags, "exit 7");
        let (code, message) = job.end();
        assert!(
            code == Some(7) && message.ends_with(" exited with code 7\n"),
            "{code:?} {message}"
        );
    }
}

#[test]
fn a_launcher_that_is_killed_takes_its_ranks_with_it() {
    let mut job = job(&[], SLEEP);
    job.signal(Signal::KILL);
    assert_eq!(job.launcher.wait().unwrap().code(), None);
    job.wait_for_silence();
}

#[test]
fn a_blocked_reader_does_not_make_the_launcher_deaf() {
    // Only the first lines are read: pipes and queues fill up and all writing stops.
    let mut job = Job::start(&[], &["-n", "3"], "echo ready; exec yes");
    let mut ready = 0;
    while ready < 3 {
        ready += usize::from(job.wait_for_lines(1) == ["ready"]);
    }
    job.signal(Signal::TERM);
    assert_eq!(job.end().0, Some(143));
    assert_eq!(job.survivors(), [""; 0]);
}

#[test]
fn ctrl_z_stops_the_ranks_and_continuing_continues_them() {
    let mut job = Job::start(&[], &["-n", "2"], "echo $$; exec sleep 1000");
    let pids = job.wait_for_lines(2);
    let states = || -> Vec<char> {
        let launcher = job.launcher.id().to_string();
        let state = |pid: &String| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
        };
        pids.iter().chain([&launcher]).map(state).collect()
    };
    job.signal(Signal::TSTP);
    while states() != ['T'; 3] {
        std::thread::yield_now();
    }
    job.signal(Signal::CONT);
    while states().contains(&'T') {
        std::thread::yield_now();
    }
    for pid in &pids {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    assert_eq!(job.end().0, Some(137));
}
