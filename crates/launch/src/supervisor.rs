//! Decides when and how a job ends. Pure: events and the time come in, actions come out.
//!
//! ```text
//!             a rank fails            launch's grace            500 ms
//!   Running ────────────────► Grace ───────────────► Asked ───────────────► Killed
//!      │                      (peers may report)     (SIGTERM sent)         (SIGKILL sent)
//!      ├── SIGINT, SIGQUIT, SIGHUP ──► Grace  (the signal is passed on)
//!      ├── SIGTERM, reader gone ────────────────────► Asked
//!      └── time is up, also within Grace ───────────► Asked
//!                                    any second signal ─────────────────────► Killed
//! ```
//!
//! The first thing that goes wrong is the job's verdict. Its consequences never replace it: peers
//! that fail because a rank is gone, ranks that die of the signals sent here, a time limit that
//! expires while ranks may still report.
//!
//! A rank that exits with code 0 without having left the job properly is no failure: it may be a
//! program without hikyaku (`hostname`), or one that called `exit` without closing its world. But
//! it will never answer again, so it is marked as gone. Peers that wait for it get an error instead
//! of a hang, and decide whether the job fails. Any other exit code fails the job, even of a rank
//! that left properly first: the program can have no other reason for it.

use std::{collections::VecDeque, time::Duration};

use hikyaku_nic::fabric::DeathCause;
use rustix::process::Signal;

use super::ending::{Ending, NamedSignal};

/// How long ranks may take to end by themselves: after a failure if the launch sets no other grace,
/// after an interrupt, and again after SIGTERM. Twice this leaves half of the two seconds within
/// which a job must be over.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// The exit code of a job that timed out, as of `timeout(1)`.
const TIMED_OUT: i32 = 124;

/// The exit code of a job that has lost a host.
const LOST: i32 = 1;

/// An action for the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LauncherAction {
    /// Report this rank's death to its peers.
    MarkDead { rank: u32, cause: DeathCause },
    /// The time limit has expired: ask what every rank waits in, before anything disturbs it.
    AskWaiting(Duration),
    /// Send this signal to every rank's process group.
    Send(Signal),
}

/// The reason why a job ended other than by success of all its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobVerdict {
    /// This rank failed first.
    Failed { rank: u32, pid: u32, ending: Ending },
    /// A host was lost first.
    Lost,
    /// This signal interrupted the launcher.
    Interrupted(Signal),
    /// The job did not end within this limit.
    TimedOut(Duration),
    /// The reader of its output is gone.
    Unread,
}

impl JobVerdict {
    /// The job's exit code.
    pub(super) fn code(&self) -> i32 {
        match self {
            JobVerdict::Failed { ending, .. } => ending.code(),
            JobVerdict::Lost => LOST,
            JobVerdict::Interrupted(signal) => 128 + signal.as_raw(),
            JobVerdict::TimedOut(_) => TIMED_OUT,
            JobVerdict::Unread => 128 + Signal::PIPE.as_raw(),
        }
    }

    /// The reason in one line. `host`: the failed rank's host if there are several.
    pub(super) fn reason(&self, host: Option<&str>) -> String {
        match self {
            JobVerdict::Failed { rank, pid, ending } => {
                let host = host.map(|host| format!(", host {host}")).unwrap_or_default();
                format!("rank {rank} (pid {pid}{host}) {ending}")
            }
            JobVerdict::Lost => "a host was lost".to_owned(),
            JobVerdict::Unread => "nobody reads the output: all ranks were ended".to_owned(),
            JobVerdict::Interrupted(signal) => {
                format!("interrupted by {}: all ranks were ended", NamedSignal(signal.as_raw()))
            }
            JobVerdict::TimedOut(limit) => {
                format!(
                    "the job did not end within {} s: all ranks were ended",
                    limit.as_secs_f64()
                )
            }
        }
    }
}

/// The progress of the job's ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndingPhase {
    Running,
    /// Ranks may end by themselves until this time.
    Grace(Duration),
    /// Ranks were asked to end, and have until this time.
    Asked(Duration),
    Killed,
}

/// The state of a job from its first rank's start to its last rank's end. All times are relative to
/// the job's start.
#[derive(Debug)]
pub(super) struct Supervisor {
    running: u32,
    limit: Option<Duration>,
    /// How long the other ranks may continue after a failure.
    grace: Duration,
    phase: EndingPhase,
    verdict: Option<JobVerdict>,
    /// Whether the verdict is provisional: a rank has failed after another had aborted the job. The
    /// verdict becomes the exit code of the rank that aborted, once that rank ends.
    is_passing: bool,
    actions: VecDeque<LauncherAction>,
}

impl Supervisor {
    /// A job that has no ranks yet. `limit`: its time limit; `grace`: how long the other ranks may
    /// continue after a failure.
    pub(super) fn new(limit: Option<Duration>, grace: Duration) -> Supervisor {
        let actions = VecDeque::new();
        let (phase, verdict) = (EndingPhase::Running, None);
        Supervisor { running: 0, limit, grace, phase, verdict, is_passing: false, actions }
    }

    /// Counts a rank that has started.
    pub(super) fn handle_start(&mut self) {
        self.running += 1;
    }

    /// A rank has ended; `left`: whether it left the job properly before. If a rank has `aborted`
    /// the job, the job ends with that rank's exit code, even if other ranks end before it.
    pub(super) fn handle_end(
        &mut self,
        rank: u32,
        pid: u32,
        ending: Ending,
        (left, aborted): (bool, Option<u32>),
        now: Duration,
    ) {
        assert!(self.running > 0, "a rank ends once, after it has started");
        self.running -= 1;
        if !left && self.verdict != Some(JobVerdict::Unread) {
            self.actions.push_back(LauncherAction::MarkDead { rank, cause: ending.cause() });
        }
        let aborts = aborted == Some(rank);
        let is_first = self.verdict.is_none() && (aborts || !ending.is_success());
        if is_first {
            self.phase = EndingPhase::Grace(now.saturating_add(self.grace));
        }
        if is_first || aborts && self.is_passing {
            self.verdict = Some(JobVerdict::Failed { rank, pid, ending });
            self.is_passing = aborted.is_some() && !aborts;
        }
    }

    /// The reader of the job's output is gone. All ranks end. They get no reports of deaths: their
    /// error messages would not interest a reader that has seen enough.
    pub(super) fn handle_unread(&mut self, now: Duration) {
        if self.running == 0 {
            return;
        }
        self.verdict.get_or_insert(JobVerdict::Unread);
        if matches!(self.phase, EndingPhase::Running | EndingPhase::Grace(_)) {
            self.ask(now);
        }
    }

    /// A rank's host is lost, and the rank with it.
    pub(super) fn handle_loss(&mut self, rank: u32, now: Duration) {
        self.handle_absence();
        self.actions.push_back(LauncherAction::MarkDead { rank, cause: DeathCause::Unknown });
        if self.verdict.is_none() {
            self.verdict = Some(JobVerdict::Lost);
            self.phase = EndingPhase::Grace(now.saturating_add(self.grace));
        }
    }

    /// A rank will not start, or has ended and is not to be reported to the others.
    pub(super) fn handle_absence(&mut self) {
        assert!(self.running > 0, "a rank ends once, after it has started");
        self.running -= 1;
    }

    /// The launcher was sent SIGINT, SIGQUIT, SIGHUP or SIGTERM.
    pub(super) fn handle_signal(&mut self, signal: Signal, now: Duration) {
        if matches!(self.verdict, Some(JobVerdict::Interrupted(_))) {
            self.kill();
            return;
        }
        // A job that is failing already keeps its verdict, but ends faster.
        self.verdict.get_or_insert(JobVerdict::Interrupted(signal));
        match self.phase {
            EndingPhase::Running if signal != Signal::TERM => {
                self.actions.push_back(LauncherAction::Send(signal));
                self.phase = EndingPhase::Grace(now + GRACE);
            }
            EndingPhase::Running | EndingPhase::Grace(_) => self.ask(now),
            EndingPhase::Asked(_) | EndingPhase::Killed => self.kill(),
        }
    }

    /// Handles deadlines that have passed.
    pub(super) fn handle_time(&mut self, now: Duration) {
        let time_is_up = self.limit.filter(|&limit| now >= limit && self.running > 0);
        match (self.phase, time_is_up) {
            (EndingPhase::Running | EndingPhase::Grace(_), Some(limit)) => {
                self.verdict.get_or_insert(JobVerdict::TimedOut(limit));
                self.actions.push_back(LauncherAction::AskWaiting(limit));
                self.ask(now);
            }
            (EndingPhase::Grace(until), None) if now >= until => self.ask(now),
            (EndingPhase::Asked(until), _) if now >= until => self.kill(),
            (
                EndingPhase::Running
                | EndingPhase::Grace(_)
                | EndingPhase::Asked(_)
                | EndingPhase::Killed,
                _,
            ) => {}
        }
    }

    /// The next deadline at which `handle_time` has work to do.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        match self.phase {
            EndingPhase::Running => self.limit,
            EndingPhase::Grace(until) => Some(self.limit.map_or(until, |limit| limit.min(until))),
            EndingPhase::Asked(until) => Some(until),
            EndingPhase::Killed => None,
        }
    }

    /// The next action. Call this until it returns `None`.
    pub(super) fn poll_action(&mut self) -> Option<LauncherAction> {
        self.actions.pop_front()
    }

    /// Whether every rank that started has ended.
    pub(super) fn is_over(&self) -> bool {
        self.running == 0
    }

    /// The reason why the job ended; `None` if all its ranks succeeded.
    pub(super) fn verdict(&self) -> Option<JobVerdict> {
        self.verdict
    }

    fn ask(&mut self, now: Duration) {
        self.actions.push_back(LauncherAction::Send(Signal::TERM));
        // A stopped process acts on SIGTERM only once it runs again.
        self.actions.push_back(LauncherAction::Send(Signal::CONT));
        self.phase = EndingPhase::Asked(now + GRACE);
    }

    /// Kills all ranks at once.
    pub(super) fn kill(&mut self) {
        self.actions.push_back(LauncherAction::Send(Signal::KILL));
        self.phase = EndingPhase::Killed;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn job(ranks: u32, limit: Option<Duration>) -> Supervisor {
        let mut supervisor = Supervisor::new(limit, GRACE);
        (0..ranks).for_each(|_| supervisor.handle_start());
        supervisor
    }

    fn end(supervisor: &mut Supervisor, rank: u32, ending: Ending, left: bool, at: Duration) {
        supervisor.handle_end(rank, 100 + rank, ending, (left, None), at);
    }

    /// [`end`] after rank 0 has aborted the job.
    fn end_aborted(supervisor: &mut Supervisor, rank: u32, code: i32) {
        supervisor.handle_end(rank, 100 + rank, Ending::Code(code), (true, Some(0)), MS);
    }

    fn actions(supervisor: &mut Supervisor) -> Vec<LauncherAction> {
        std::iter::from_fn(|| supervisor.poll_action()).collect()
    }

    const ASK: [LauncherAction; 2] =
        [LauncherAction::Send(Signal::TERM), LauncherAction::Send(Signal::CONT)];
    const KILL: [LauncherAction; 1] = [LauncherAction::Send(Signal::KILL)];

    #[test]
    fn a_job_that_nobody_reads_ends_in_silence() {
        let mut job = job(3, None);
        job.handle_unread(MS);
        assert_eq!(actions(&mut job), ASK);
        job.handle_unread(MS);
        end(&mut job, 1, Ending::Signal(15), false, MS);
        end(&mut job, 2, Ending::Code(101), false, MS);
        assert_eq!(actions(&mut job), []);
        job.handle_time(MS + GRACE);
        assert_eq!(actions(&mut job), KILL);
        end(&mut job, 0, Ending::Signal(9), false, MS);
        assert_eq!((job.is_over(), job.verdict()), (true, Some(JobVerdict::Unread)));
    }

    #[test]
    fn what_nobody_reads_of_a_job_that_is_over_is_no_failure() {
        let mut job = job(1, None);
        end(&mut job, 0, Ending::Code(0), true, MS);
        job.handle_unread(MS);
        assert_eq!(job.verdict(), None);
    }

    #[test]
    fn success_of_all_is_success() {
        let mut job = job(2, None);
        end(&mut job, 0, Ending::Code(0), true, MS);
        assert!(!job.is_over());
        end(&mut job, 1, Ending::Code(0), true, MS);
        assert!(job.is_over());
        assert_eq!((job.verdict(), job.poll_deadline()), (None, None));
        assert_eq!(actions(&mut job), []);
    }

    #[test]
    fn a_job_that_was_aborted_has_the_code_of_who_did() {
        for (code, others) in [(8, [0, 0]), (0, [0, 0]), (8, [0, 3]), (0, [3, 5])] {
            let mut job = job(3, None);
            // The others end first: the rank that aborts reports that before it ends.
            end_aborted(&mut job, 1, others[0]);
            end_aborted(&mut job, 2, others[1]);
            end_aborted(&mut job, 0, code);
            let verdict = job.verdict().unwrap();
            assert_eq!(verdict.code(), code, "{others:?}");
            assert!(matches!(verdict, JobVerdict::Failed { rank: 0, .. }));
        }
        // An earlier failure remains the verdict.
        let mut job = job(2, None);
        end(&mut job, 1, Ending::Code(3), false, MS);
        end_aborted(&mut job, 0, 8);
        assert_eq!(job.verdict().unwrap().code(), 3);
    }

    #[test]
    fn exit_0_without_leaving_marks_the_rank_but_fails_nothing() {
        let mut job = job(2, None);
        end(&mut job, 1, Ending::Code(0), false, MS);
        let cause = DeathCause::Exit(0);
        assert_eq!(actions(&mut job), [LauncherAction::MarkDead { rank: 1, cause }]);
        assert_eq!((job.verdict(), job.poll_deadline()), (None, None));
    }

    #[test]
    fn who_is_to_go_on_without_the_failed_has_the_time_that_the_launch_says() {
        let mut job = Supervisor::new(None, 3000 * MS);
        (0..3).for_each(|_| job.handle_start());
        end(&mut job, 2, Ending::Signal(9), false, 10 * MS);
        actions(&mut job);
        assert_eq!(job.poll_deadline(), Some(3010 * MS));
        // A second failure does not shorten the grace; an interrupt ends it.
        end(&mut job, 1, Ending::Code(1), true, 500 * MS);
        assert_eq!(job.poll_deadline(), Some(3010 * MS));
        job.handle_signal(Signal::INT, 600 * MS);
        assert_eq!(actions(&mut job), ASK);
        assert_eq!(job.poll_deadline(), Some(600 * MS + GRACE));
    }

    #[test]
    fn a_failure_is_told_then_asked_then_killed_within_two_seconds() {
        let mut job = job(3, None);
        end(&mut job, 2, Ending::Signal(9), false, 10 * MS);
        let cause = DeathCause::Signal(9);
        assert_eq!(actions(&mut job), [LauncherAction::MarkDead { rank: 2, cause }]);
        assert_eq!(job.poll_deadline(), Some(10 * MS + GRACE));
        job.handle_time(9 * MS + GRACE);
        assert_eq!(actions(&mut job), []);
        job.handle_time(10 * MS + GRACE);
        assert_eq!(actions(&mut job), ASK);
        job.handle_time(10 * MS + 2 * GRACE);
        assert_eq!(actions(&mut job), KILL);
        assert!(10 * MS + 2 * GRACE < Duration::from_secs(2));
        assert_eq!(job.poll_deadline(), None, "after SIGKILL there is only waiting");
    }

    #[test]
    fn the_first_failure_is_the_verdict() {
        let mut job = job(3, None);
        end(&mut job, 1, Ending::Code(7), false, MS);
        end(&mut job, 0, Ending::Signal(6), false, 2 * MS);
        end(&mut job, 2, Ending::Code(0), true, 2 * MS);
        let verdict = job.verdict().unwrap();
        assert_eq!(verdict.code(), 7);
        assert_eq!(verdict.reason(None), "rank 1 (pid 101) exited with code 7");
    }

    #[test]
    fn a_nonzero_code_fails_the_job_even_after_leaving_in_order() {
        let mut job = job(2, None);
        end(&mut job, 0, Ending::Code(1), true, MS);
        assert_eq!(actions(&mut job), [], "peers were told by the rank itself");
        assert_eq!(job.verdict().map(|verdict| verdict.code()), Some(1));
    }

    #[test]
    fn interrupts_are_passed_on_and_the_second_kills() {
        for (signal, code) in [(Signal::INT, 130), (Signal::QUIT, 131), (Signal::HUP, 129)] {
            let mut job = job(2, None);
            job.handle_signal(signal, MS);
            assert_eq!(actions(&mut job), [LauncherAction::Send(signal)]);
            job.handle_signal(signal, 2 * MS);
            assert_eq!(actions(&mut job), KILL);
            end(&mut job, 0, Ending::Signal(9), false, 3 * MS);
            end(&mut job, 1, Ending::Signal(9), false, 3 * MS);
            assert!(job.is_over());
            assert_eq!(job.verdict().map(|verdict| verdict.code()), Some(code));
        }
    }

    #[test]
    fn sigterm_asks_at_once() {
        let mut job = job(1, None);
        job.handle_signal(Signal::TERM, MS);
        assert_eq!(actions(&mut job), ASK);
        job.handle_time(MS + GRACE);
        assert_eq!(actions(&mut job), KILL);
        assert_eq!(job.verdict().map(|verdict| verdict.code()), Some(143));
    }

    #[test]
    fn an_ignored_interrupt_is_followed_by_sigterm_and_sigkill() {
        let mut job = job(1, None);
        job.handle_signal(Signal::INT, MS);
        job.handle_time(MS + GRACE);
        job.handle_time(MS + 2 * GRACE);
        let expected = [&[LauncherAction::Send(Signal::INT)], &ASK[..], &KILL].concat();
        assert_eq!(actions(&mut job), expected);
    }

    #[test]
    fn an_interrupt_hurries_a_failing_job_but_does_not_change_its_verdict() {
        let mut job = job(2, None);
        end(&mut job, 0, Ending::Code(3), false, MS);
        let _ = actions(&mut job);
        job.handle_signal(Signal::INT, 2 * MS);
        assert_eq!(actions(&mut job), ASK);
        job.handle_signal(Signal::INT, 3 * MS);
        assert_eq!(actions(&mut job), KILL);
        assert_eq!(job.verdict().map(|verdict| verdict.code()), Some(3));
    }

    #[test]
    fn time_up_asks_what_ranks_wait_in_before_it_disturbs_them() {
        let limit = 1500 * MS;
        let mut job = job(2, Some(limit));
        assert_eq!(job.poll_deadline(), Some(limit));
        job.handle_time(limit - MS);
        assert_eq!(actions(&mut job), []);
        job.handle_time(limit);
        assert_eq!(actions(&mut job), [&[LauncherAction::AskWaiting(limit)], &ASK[..]].concat());
        let verdict = job.verdict().unwrap();
        assert_eq!(verdict.code(), 124);
        assert_eq!(verdict.reason(None), "the job did not end within 1.5 s: all ranks were ended");
    }

    #[test]
    fn time_up_ends_what_the_others_have_after_a_failure() {
        let limit = 2000 * MS;
        let mut job = Supervisor::new(Some(limit), 10_000 * MS);
        (0..2).for_each(|_| job.handle_start());
        end(&mut job, 0, Ending::Code(3), true, MS);
        assert_eq!(job.poll_deadline(), Some(limit));
        job.handle_time(limit);
        assert_eq!(actions(&mut job), [&[LauncherAction::AskWaiting(limit)], &ASK[..]].concat());
        assert_eq!(job.poll_deadline(), Some(limit + GRACE));
        job.handle_time(limit + GRACE);
        assert_eq!(actions(&mut job), KILL);
        assert_eq!(job.verdict().map(|verdict| verdict.code()), Some(3), "the first failure");
        // A grace that ends before the limit is not affected by it.
        let mut job = Supervisor::new(Some(limit), 500 * MS);
        (0..2).for_each(|_| job.handle_start());
        end(&mut job, 0, Ending::Code(3), true, MS);
        job.handle_time(501 * MS);
        assert_eq!(actions(&mut job), ASK);
    }

    #[test]
    fn a_lost_host_fails_the_job_and_its_ranks_are_reported() {
        let mut job = job(3, None);
        job.handle_loss(1, MS);
        job.handle_loss(2, MS);
        let dead = |rank| LauncherAction::MarkDead { rank, cause: DeathCause::Unknown };
        assert_eq!(actions(&mut job), [dead(1), dead(2)]);
        assert_eq!(job.verdict().map(|verdict| verdict.code()), Some(1));
        assert_eq!(job.poll_deadline(), Some(MS + GRACE));
        end(&mut job, 0, Ending::Code(3), true, 2 * MS);
        assert_eq!(job.verdict(), Some(JobVerdict::Lost), "the first failure");
        assert!(job.is_over());
    }

    #[test]
    fn a_rank_that_never_started_is_no_failure() {
        let mut job = job(2, None);
        job.handle_absence();
        end(&mut job, 0, Ending::Code(0), true, MS);
        assert!(job.is_over());
        assert_eq!(job.verdict(), None);
    }

    #[test]
    fn time_does_not_run_out_for_a_job_that_is_over() {
        let mut job = job(1, Some(MS));
        end(&mut job, 0, Ending::Code(0), true, MS);
        job.handle_time(2 * MS);
        assert_eq!(job.verdict(), None);
    }
}
