//! Tests of the launcher with real processes and without shared memory: its calls of the job's
//! memory, and the processes it leaves. Its visible output is tested on the built `hikyaku`.

#![allow(clippy::unwrap_used)]

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Mutex,
    time::Duration,
};

use hikyaku_nic::fabric::DeathCause;
use hikyaku_shm::JobEnd;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, test_kill_process},
};

use super::*;

/// A job memory that records the launcher's calls.
struct Notes {
    file: OwnedFd,
    started: Mutex<Vec<(u32, u32)>>,
    dead: Mutex<Vec<(u32, DeathCause)>>,
    /// Ranks that count as having left properly.
    left: Vec<u32>,
    end: Option<JobEnd>,
}

impl Notes {
    fn new(left: &[u32]) -> Notes {
        let file = memfd_create("notes", MemfdFlags::CLOEXEC).unwrap();
        Notes {
            file,
            started: Mutex::default(),
            dead: Mutex::default(),
            left: left.to_vec(),
            end: None,
        }
    }

    fn dead(&self) -> Vec<(u32, DeathCause)> {
        let mut dead = self.dead.lock().unwrap().clone();
        dead.sort_by_key(|&(rank, _)| rank);
        dead
    }

    /// Asserts that no process of the job is left, not even a zombie.
    fn assert_nothing_left(&self) {
        for &(rank, pid) in &*self.started.lock().unwrap() {
            let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            assert_eq!(test_kill_process(pid), Err(Errno::SRCH), "rank {rank}");
        }
    }
}

impl JobMemory for Notes {
    fn environment(&self, rank: u32) -> Vec<(String, String)> {
        vec![("NOTES_RANK".into(), rank.to_string())]
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn mark_started(&self, rank: u32, pid: u32) {
        self.started.lock().unwrap().push((rank, pid));
    }

    fn mark_dead(&self, rank: u32, cause: DeathCause) {
        self.dead.lock().unwrap().push((rank, cause));
    }

    fn has_left(&self, rank: u32) -> bool {
        self.left.contains(&rank)
    }

    fn waiting(&self, rank: u32) -> Option<String> {
        (rank == 1).then(|| "receive from rank 0, tag 7".into())
    }

    fn dropped(&self, rank: u32) -> Option<String> {
        (rank == 1).then(|| "2 packets without the job's key".into())
    }

    fn end(&self) -> Option<JobEnd> {
        self.end
    }
}

#[test]
fn what_a_rank_has_said_is_not_said_again() {
    let notes = Notes { end: Some(JobEnd::Failed), ..Notes::new(&[]) };
    let outcome = shell(2, "exit 7").run_in(&notes).unwrap();
    assert_eq!(outcome, JobOutcome { code: 7, ..JobOutcome::default() });
}

#[test]
fn a_job_that_is_aborted_with_code_0_ends() {
    let notes = Notes { end: Some(JobEnd::Aborted(1)), ..Notes::new(&[]) };
    let script = "if [ $NOTES_RANK = 1 ]; then exit 0; fi; exec sleep 1000";
    let outcome = shell(3, script).run_in(&notes).unwrap();
    assert_eq!(outcome, JobOutcome::default());
    notes.assert_nothing_left();
}

fn shell(ranks: u32, script: &str) -> Launch {
    Launch { args: vec!["-c".into(), script.into()], ..Launch::new(ranks, "sh") }
}

#[test]
fn every_rank_is_marked_started_once() {
    let notes = Notes::new(&[0, 1, 2]);
    let outcome = shell(3, "exit 0").run_in(&notes).unwrap();
    assert_eq!(outcome, JobOutcome::default());
    let ranks: Vec<u32> = notes.started.lock().unwrap().iter().map(|&(rank, _)| rank).collect();
    assert_eq!(ranks, [0, 1, 2]);
    assert_eq!(notes.dead(), [], "all left in order");
    notes.assert_nothing_left();
}

#[test]
fn ranks_that_exit_without_leaving_are_marked_but_no_failure() {
    let notes = Notes::new(&[1]);
    let outcome = shell(3, "exit 0").run_in(&notes).unwrap();
    assert_eq!(outcome.code, 0);
    assert_eq!(notes.dead(), [(0, DeathCause::Exit(0)), (2, DeathCause::Exit(0))]);
}

#[test]
fn a_killed_rank_is_told_first_and_its_peers_after() {
    let notes = Notes::new(&[]);
    let script = "if [ $NOTES_RANK = 1 ]; then kill -9 $$; fi; exec sleep 1000";
    let outcome = shell(3, script).run_in(&notes).unwrap();
    assert_eq!(outcome.code, 137);
    let pid = notes.started.lock().unwrap()[1].1;
    let reason = format!("rank 1 (pid {pid}) was killed by signal 9 (SIGKILL)");
    assert_eq!(outcome.reason, Some(reason));
    assert_eq!(notes.dead.lock().unwrap()[0], (1, DeathCause::Signal(9)));
    let asked = DeathCause::Signal(15);
    assert_eq!(notes.dead(), [(0, asked), (1, DeathCause::Signal(9)), (2, asked)]);
    notes.assert_nothing_left();
}

#[test]
fn what_ranks_have_started_ends_with_the_job() {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let notes = Notes { file: writer, ..Notes::new(&[]) };
    let outcome = shell(2, "sleep 1000 & exit 0").run_in(&notes).unwrap();
    assert_eq!(outcome.code, 0);
    // They are not children of this process, so it cannot wait for their end. But the pipe that
    // they inherited is closed when they have ended.
    drop(notes);
    assert_eq!(File::from(reader).read(&mut [0]).unwrap(), 0);
}

#[test]
fn time_up_says_what_each_rank_was_doing() {
    let notes = Notes::new(&[]);
    let script = "if [ $NOTES_RANK = 2 ]; then exit 0; fi; exec sleep 1000";
    let timeout = Some(Duration::from_millis(300));
    let outcome = Launch { timeout, ..shell(3, script) }.run_in(&notes).unwrap();
    assert_eq!(outcome.code, 124);
    let pids: Vec<u32> = notes.started.lock().unwrap().iter().map(|&(_, pid)| pid).collect();
    let expected = [
        format!("rank 0 (pid {}) is not waiting in a call of hikyaku", pids[0]),
        format!(
            "rank 1 (pid {}) waits in receive from rank 0, tag 7; it has dropped 2 packets without \
             the job's key",
            pids[1]
        ),
        format!("rank 2 (pid {}) has ended", pids[2]),
    ];
    assert_eq!(outcome.details, expected);
    notes.assert_nothing_left();
}

#[test]
fn a_program_that_cannot_run_is_the_callers_mistake_and_starts_nothing() {
    let notes = Notes::new(&[]);
    for (program, reason) in [
        ("no-such-program-anywhere", "there is no such program in PATH"),
        ("/no/such/file", "there is no such file"),
        ("/etc", "it is a directory"),
        ("/etc/passwd", "it is not executable"),
        ("/etc/passwd/x", "a part of its path is not a directory"),
        ("", "its name is empty"),
        ("nul\0byte", "its name or an argument contains a zero byte"),
    ] {
        let error = Launch::new(2, program).run_in(&notes).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot run {program:?}: {reason}"));
        assert_eq!(error.code(), 2);
    }
    assert!(notes.started.lock().unwrap().is_empty());
}

#[test]
fn counts_that_make_no_sense_are_refused() {
    let refused = |ranks, ranks_per_node| {
        let error = Launch { ranks_per_node, ..Launch::new(ranks, "true") }.run().unwrap_err();
        assert_eq!(error.code(), 2);
        error.to_string()
    };
    assert_eq!(refused(0, None), "a job needs at least one rank");
    assert_eq!(refused(100_000, None), "100000 ranks are too many: one machine takes at most 4096");
    assert_eq!(refused(2, Some(0)), "a node needs at least one rank");
}
