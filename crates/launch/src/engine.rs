//! The supervising loop: one thread that waits for all events at once and carries out the actions
//! of the [`Supervisor`].
//!
//! ```text
//!   crew: ranks, their output ────┐
//!   signals (pipe) ───────────────┼─ epoll ─┬─► Supervisor ─► actions ─► crew
//!   "written" of the outputs ─────┘         └─► Outputs
//! ```
//!
//! The thread never blocks elsewhere, so that it always reacts to a rank's death, Ctrl-C and the
//! time limit. The ranks are a [`Crew`]: processes of this machine, or of several.

use std::{
    io,
    time::{Duration, Instant},
};

use hikyaku_shm::JobEnd;
use rustix::process::{Signal, getpid, kill_process};

use super::{
    JobOutcome, Launch, LaunchError,
    crew::{Crew, News, RankExit},
    ending::Ending,
    events::EventSet,
    interrupts::Interrupts,
    orphans::Orphans,
    outputs::{OutputFailure, Outputs},
    supervisor::{GRACE, JobVerdict, LauncherAction, Supervisor},
};

/// Event tokens.
const SIGNALS: u64 = 0;
const WRITTEN: u64 = 1;
const CREW: u64 = 2;

/// Standard output and standard error.
const STREAMS: usize = 2;

/// A running job.
pub(super) struct JobEngine<C> {
    /// The first field, so that the processes are always dropped before anything else.
    crew: C,
    desk: NewsDesk,
    /// Which streams are being read. A stream whose output is full is not.
    reading: [bool; STREAMS],
    failure: Option<OutputFailure>,
    interrupts: Option<Interrupts>,
    orphans: Option<Orphans>,
    /// Lines to print before the ranks' answers on what they wait in.
    besides: Option<String>,
    /// The deadline for writing an interrupted job's last output. Set once all ranks have ended.
    last_words: Option<Duration>,
    events: EventSet,
    start: Instant,
}

/// The receiver of the crew's news.
struct NewsDesk {
    supervisor: Supervisor,
    outputs: Outputs,
    /// Whether the next SIGCHLD is explained by a rank's end.
    ended_lately: bool,
    /// The reason of the first lost host.
    lost: Option<String>,
    /// The error of the first ranks that could not be started.
    refused: Option<LaunchError>,
}

impl NewsDesk {
    fn take_in(&mut self, news: News<'_>, now: Duration) {
        match news {
            News::Ended(RankExit { rank, pid, ending, left, end }) => {
                self.ended_lately = true;
                let by = match end {
                    Some(JobEnd::Aborted(by)) => Some(by),
                    _ => None,
                };
                let unread = (0..STREAMS).any(|stream| self.outputs.has_failed(stream));
                if unread && ending == Ending::Signal(Signal::PIPE.as_raw()) {
                    self.supervisor.handle_unread(now);
                    self.supervisor.handle_absence();
                } else {
                    self.supervisor.handle_end(rank, pid, ending, (left, by), now);
                }
            }
            News::Output { source, piece } => self.outputs.write(source, piece),
            News::Lost { ranks, reason } => {
                self.lost.get_or_insert(reason);
                ranks.into_iter().for_each(|rank| self.supervisor.handle_loss(rank, now));
            }
            News::Refused { ranks, error } => {
                self.refused.get_or_insert(error);
                ranks.iter().for_each(|_| self.supervisor.handle_absence());
                self.supervisor.kill();
            }
            News::Said(line) => self.outputs.say(&line),
        }
    }
}

/// The parts of a job that are prepared before there is a crew.
pub(super) struct Prepared {
    pub(super) outputs: Outputs,
    pub(super) interrupts: Option<Interrupts>,
    orphans: Option<Orphans>,
    start: Instant,
}

impl Prepared {
    /// Prepares outputs, signals and the adoption of orphans, and starts the clock.
    pub(super) fn new(launch: &Launch) -> io::Result<Prepared> {
        let outputs = Outputs::new(launch.label)?;
        let owned = launch.owns_process;
        let interrupts = owned.then(Interrupts::catch).transpose()?;
        let orphans = owned.then(Orphans::adopt).transpose()?;
        Ok(Prepared { outputs, interrupts, orphans, start: Instant::now() })
    }

    /// The time since the preparation.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether a signal that ends the job has arrived.
    pub(super) fn is_ending(&self) -> bool {
        self.interrupts.as_ref().is_some_and(Interrupts::is_ending)
    }
}

impl<C: Crew> JobEngine<C> {
    /// Supervises the ranks of a crew.
    pub(super) fn new(
        launch: &Launch,
        prepared: Prepared,
        crew: C,
        ranks: u32,
    ) -> io::Result<JobEngine<C>> {
        let Prepared { outputs, interrupts, orphans, start } = prepared;
        let events = EventSet::new()?;
        outputs.changes().try_for_each(|fd| events.add(fd, WRITTEN))?;
        if let Some(interrupts) = &interrupts {
            events.add(interrupts, SIGNALS)?;
        }
        events.add(&crew, CREW)?;
        let mut supervisor = Supervisor::new(launch.timeout, launch.grace);
        (0..ranks).for_each(|_| supervisor.handle_start());
        let desk = NewsDesk { supervisor, outputs, ended_lately: false, lost: None, refused: None };
        Ok(JobEngine {
            crew,
            desk,
            reading: [true; STREAMS],
            failure: None,
            interrupts,
            orphans,
            besides: None,
            last_words: None,
            events,
            start,
        })
    }

    /// Runs the job to its end.
    pub(super) fn run(mut self) -> Result<JobOutcome, LaunchError> {
        let system = |source| LaunchError::System { what: "supervise the job", source };
        self.see_to_the_end().map_err(system)?;
        match self.desk.refused.take() {
            Some(error) => Err(error),
            None => Ok(self.outcome()),
        }
    }

    fn see_to_the_end(&mut self) -> io::Result<()> {
        while !self.desk.supervisor.is_over() {
            self.turn()?;
            self.act();
        }
        self.crew.clear();
        while !self.crew.is_clear() {
            self.turn()?;
        }
        // Except the crew's own children, such as agents of hosts: the crew reads their endings.
        if let Some(orphans) = &self.orphans {
            orphans.end_but(|pid| self.crew.contains(pid));
        }
        let (now, desk) = (self.now(), &mut self.desk);
        self.crew.finish(now, &mut |news| desk.take_in(news, now))?;
        if let Some(orphans) = &self.orphans {
            orphans.end();
        }
        while !self.desk.outputs.is_done() && !self.is_abandoned() {
            self.turn()?;
        }
        // The last write may have failed and ended the loop above at once.
        self.handle_written();
        Ok(())
    }

    /// Waits for the next event or deadline, and handles it.
    fn turn(&mut self) -> io::Result<()> {
        let left = self.deadline().map(|deadline| deadline.saturating_sub(self.now()));
        for token in self.events.wait(left)? {
            match token {
                SIGNALS => self.handle_signals(),
                WRITTEN => self.handle_written(),
                _ => {
                    let (now, desk) = (self.now(), &mut self.desk);
                    self.crew.handle_ready(now, &mut |news| desk.take_in(news, now))?;
                }
            }
        }
        let (now, desk) = (self.now(), &mut self.desk);
        self.crew.handle_time(now, &mut |news| desk.take_in(news, now))?;
        self.desk.supervisor.handle_time(now);
        self.choose_reading()
    }

    /// Carries out the supervisor's actions.
    fn act(&mut self) {
        while let Some(action) = self.desk.supervisor.poll_action() {
            match action {
                LauncherAction::MarkDead { rank, cause } => self.crew.mark_dead(rank, cause),
                LauncherAction::AskWaiting(limit) => self.ask_waiting(limit),
                LauncherAction::Send(signal) => self.crew.send(signal),
            }
        }
    }

    fn handle_signals(&mut self) {
        let signals = self.interrupts.as_ref().map(Interrupts::take).unwrap_or_default();
        for signal in signals {
            match signal {
                // Ranks are not in the terminal's foreground group: Ctrl-Z reaches them from here.
                Signal::TSTP => {
                    self.crew.send(Signal::STOP);
                    // Cannot fail: a process may always stop itself.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                Signal::CONT => self.crew.send(Signal::CONT),
                Signal::CHILD => {
                    if let (false, Some(orphans)) = (self.desk.ended_lately, &self.orphans) {
                        orphans.reap(|pid| self.crew.contains(pid));
                    }
                    self.desk.ended_lately = false;
                }
                signal => {
                    let now = self.now();
                    if self.is_interrupted() && self.desk.supervisor.is_over() {
                        self.last_words = Some(now);
                    }
                    self.desk.supervisor.handle_signal(signal, now);
                }
            }
        }
    }

    fn handle_written(&mut self) {
        self.desk.outputs.acknowledge();
        while let Some(failure) = self.desk.outputs.take_failure() {
            self.failure.get_or_insert(failure);
        }
        if self.failure.as_ref().is_some_and(|failure| failure.reader_left) {
            let now = self.now();
            self.desk.supervisor.handle_unread(now);
            // Do not close the pipes: a rank that ignores SIGPIPE would report a write error.
            return;
        }
        for stream in 0..self.reading.len() {
            // The ranks' own writes then fail, as they would without a launcher.
            if self.desk.outputs.has_failed(stream) {
                self.crew.close(stream);
            }
        }
    }

    /// Stops reading streams whose output is full, and resumes the others.
    fn choose_reading(&mut self) -> io::Result<()> {
        for stream in 0..self.reading.len() {
            let wanted = !self.desk.outputs.is_full(stream);
            if wanted != self.reading[stream] {
                self.crew.set_reading(stream, wanted)?;
                self.reading[stream] = wanted;
            }
        }
        Ok(())
    }

    /// Asks every rank for its current call because the job's time is up. If the job ends for
    /// another reason, a line that reports the timeout precedes the answers.
    fn ask_waiting(&mut self, limit: Duration) {
        let up = JobVerdict::TimedOut(limit);
        let is_other = self.desk.supervisor.verdict() != Some(up);
        self.besides = is_other.then(|| up.reason(None));
        self.crew.ask_waiting();
    }

    fn deadline(&self) -> Option<Duration> {
        let supervisor = &self.desk.supervisor;
        let supervisor = (!supervisor.is_over()).then(|| supervisor.poll_deadline());
        [self.crew.poll_deadline(), supervisor.flatten(), self.last_words]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether to drop output that is still unwritten after all ranks have ended. A user who
    /// interrupts a job wants to see its last output, but does not want to wait for a reader that
    /// has stopped reading.
    fn is_abandoned(&mut self) -> bool {
        if !self.is_interrupted() {
            return false;
        }
        let now = self.now();
        now >= *self.last_words.get_or_insert(now + GRACE)
    }

    fn is_interrupted(&self) -> bool {
        matches!(self.desk.supervisor.verdict(), Some(JobVerdict::Interrupted(_)))
    }

    fn outcome(&mut self) -> JobOutcome {
        let details = self.besides.take().into_iter().chain(self.crew.take_waiting()).collect();
        let unwritable = self.failure.take().filter(|failure| !failure.reader_left);
        let verdict = self.desk.supervisor.verdict();
        // This verdict needs no line of its own: `hikyaku run ... | head`.
        let unread = verdict == Some(JobVerdict::Unread);
        match (verdict, unwritable) {
            (None, None) => JobOutcome { details, ..JobOutcome::default() },
            (Some(verdict), None) => {
                let by_rank = matches!(verdict, JobVerdict::Failed { .. });
                let said = by_rank && self.crew.end().is_some() || unread;
                let reason = (!said).then(|| self.reason(verdict));
                JobOutcome { code: verdict.code(), reason, details, ..JobOutcome::default() }
            }
            (Some(verdict), Some(_)) if !unread => {
                let (code, reason) = (verdict.code(), Some(self.reason(verdict)));
                JobOutcome { code, reason, details, ..JobOutcome::default() }
            }
            (_, Some(failure)) => {
                let reason = Some(failure.reason);
                JobOutcome { code: 1, reason, details, ..JobOutcome::default() }
            }
        }
    }

    fn reason(&self, verdict: JobVerdict) -> String {
        match (verdict, &self.desk.lost) {
            (JobVerdict::Lost, Some(reason)) => reason.clone(),
            (JobVerdict::Failed { rank, .. }, _) => verdict.reason(self.crew.host_of(rank)),
            _ => verdict.reason(None),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}
