//! The supervising loop: one thread that waits for everything at once and does what the
//! [`Supervisor`] says.
//!
//! ```text
//!   pidfd of each rank ───────────┐
//!   signals (pipe) ───────────────┤         ┌─► Supervisor ─► actions ─► ranks, job memory
//!   stdout set, stderr set ───────┼─ epoll ─┤
//!   "written" of the outputs ─────┤         └─► Intake ─► Outputs
//!   terminal ─────────────────────┘
//! ```
//!
//! It never blocks on anything else, so that a rank's death, Ctrl-C and the time limit are always
//! acted on. The kernel lists ready descriptors in the order in which they became ready, so ranks
//! are seen to end in the order in which they did: the first failure is the first.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use hikyaku_shm::End;
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
    process::{Rlimit, Signal, getpid, kill_process},
};

use super::{
    JobMemory, Launch, LaunchError, Outcome,
    ending::Ending,
    intake::Intake,
    interrupts::Interrupts,
    orphans::Orphans,
    outputs::{Failure, Outputs},
    placement::cpus_of,
    ranks::Ranks,
    spawn::{Inheritable, Recipe},
    stdin::{Pump, empty, of_rank_0},
    supervisor::{Action, GRACE, Supervisor, Verdict},
};

/// What an event is about: a rank's number, or one of these, which are no rank's.
const SIGNALS: u64 = u64::MAX;
const WRITTEN: u64 = u64::MAX - 1;
const TERMINAL: u64 = u64::MAX - 2;
const STREAM: [u64; 2] = [u64::MAX - 3, u64::MAX - 4];

/// A job being run.
pub(super) struct Engine<'a> {
    /// First, so that whatever happens the processes are gone before anything else is.
    ranks: Ranks,
    memory: &'a dyn JobMemory,
    supervisor: Supervisor,
    intakes: [Intake; 2],
    /// Which intakes are being read: not those whose output is full.
    reading: [bool; 2],
    outputs: Outputs,
    failure: Option<Failure>,
    pump: Option<Pump>,
    interrupts: Option<Interrupts>,
    orphans: Option<Orphans>,
    /// Whether a rank's end explains the next SIGCHLD.
    ended_lately: bool,
    pidfds: Vec<Option<OwnedFd>>,
    waiting: Vec<String>,
    /// When an interrupted job's last output is given up, once all its ranks have ended.
    last_words: Option<Duration>,
    events: OwnedFd,
    start: Instant,
}

impl<'a> Engine<'a> {
    /// Everything but the ranks.
    pub(super) fn new(launch: &Launch, memory: &'a dyn JobMemory) -> io::Result<Engine<'a>> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd, token| {
            let data = epoll::EventData::new_u64(token);
            epoll::add(&events, fd, data, epoll::EventFlags::IN)
        };
        let outputs = Outputs::new(launch.label)?;
        outputs.changes().try_for_each(|fd| watch(fd, WRITTEN))?;
        let intakes = [
            Intake::new(0, outputs.is_interactive(0))?,
            Intake::new(1, outputs.is_interactive(1))?,
        ];
        watch(intakes[0].as_fd(), STREAM[0])?;
        watch(intakes[1].as_fd(), STREAM[1])?;
        let (mut interrupts, mut orphans) = (None, None);
        if launch.owns_process {
            watch(interrupts.insert(Interrupts::catch()?).as_fd(), SIGNALS)?;
            orphans = Some(Orphans::adopt()?);
        }
        Ok(Engine {
            ranks: Ranks::default(),
            memory,
            supervisor: Supervisor::new(launch.timeout, launch.grace),
            intakes,
            reading: [true; 2],
            outputs,
            failure: None,
            pump: None,
            interrupts,
            orphans,
            ended_lately: false,
            pidfds: Vec::new(),
            waiting: Vec::new(),
            last_words: None,
            events,
            start: Instant::now(),
        })
    }

    /// Starts the ranks, all or, if a signal to end comes meanwhile, as many as there were then.
    pub(super) fn start_ranks(
        &mut self,
        launch: &Launch,
        files: Option<Rlimit>,
        allowed: &[usize],
    ) -> Result<(), LaunchError> {
        let system = |source| LaunchError::System { what: "prepare the ranks", source };
        let _inheritable = Inheritable::new(self.memory.fd()).map_err(system)?;
        let nothing = (launch.ranks > 1).then(empty).transpose()?;
        let programs = launch.all_programs();
        let each = programs.iter().flat_map(|program| (0..program.ranks).map(move |_| program));
        for (rank, program) in (0..launch.ranks).zip(each) {
            let stdin = match &nothing {
                Some(nothing) if rank > 0 => nothing.try_clone().map_err(system)?.into(),
                _ => {
                    let (stdin, pump) = of_rank_0().map_err(system)?;
                    self.pump = pump;
                    stdin
                }
            };
            let cpus = cpus_of(launch.bind, rank, launch.ranks, allowed);
            let mut environment = self.environment(rank, launch);
            environment.extend(program.variables.iter().cloned());
            let spawned = Recipe { program, files }
                .start(environment, stdin, cpus)
                .map_err(|error| error.at(rank, &program.program))?;
            let ended = self.ranks.add(spawned.pid).map_err(system)?;
            let data = epoll::EventData::new_u64(u64::from(rank));
            epoll::add(&self.events, &ended, data, epoll::EventFlags::IN)
                .map_err(|error| system(error.into()))?;
            self.pidfds.push(Some(ended));
            self.memory.mark_started(rank, spawned.pid.as_raw_pid().unsigned_abs());
            self.supervisor.handle_start();
            for (intake, pipe) in self.intakes.iter_mut().zip(spawned.outputs) {
                intake.add(pipe).map_err(system)?;
            }
            if self.interrupts.as_ref().is_some_and(Interrupts::is_ending) {
                break;
            }
        }
        self.run_pump().map_err(system)
    }

    /// What a rank's environment has beyond the launcher's: two variables for scripts, what the
    /// launch says, and what the job's memory wants.
    fn environment(&self, rank: u32, launch: &Launch) -> Vec<(String, String)> {
        let mut environment = vec![
            ("HIKYAKU_RANK".to_owned(), rank.to_string()),
            ("HIKYAKU_SIZE".to_owned(), launch.ranks.to_string()),
        ];
        environment.extend(launch.variables.iter().cloned());
        environment.extend(self.memory.environment(rank));
        environment
    }

    /// Runs the job to its end.
    pub(super) fn run(mut self) -> io::Result<Outcome> {
        while !self.supervisor.is_over() {
            self.turn()?;
            self.act();
        }
        self.ranks.clear();
        if let Some(orphans) = &self.orphans {
            orphans.end();
        }
        if let Some(mut pump) = self.pump.take() {
            pump.stop(self.events.as_fd())?;
        }
        let (now, outputs) = (self.now(), &mut self.outputs);
        for intake in &mut self.intakes {
            intake.finish(now, |source, piece| outputs.write(source, piece));
        }
        while !self.outputs.is_done() && !self.is_given_up() {
            self.turn()?;
        }
        // The last write may have failed and ended the loop at once.
        self.handle_written();
        Ok(self.outcome())
    }

    /// Waits for something to happen, or for the next deadline, and takes it in.
    fn turn(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        let left = self.deadline().map(|deadline| deadline.saturating_sub(self.now()));
        // A limit the kernel cannot count to is no limit for now; the next turn asks again.
        let left = left.and_then(|left| Timespec::try_from(left.min(A_DAY)).ok());
        match epoll::wait(&self.events, spare_capacity(&mut events), left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                SIGNALS => self.handle_signals(),
                WRITTEN => self.handle_written(),
                TERMINAL => self.run_pump()?,
                token if token == STREAM[0] => self.read(0)?,
                token if token == STREAM[1] => self.read(1)?,
                rank => self.handle_end(rank)?,
            }
        }
        let (now, outputs) = (self.now(), &mut self.outputs);
        for intake in &mut self.intakes {
            intake.show_held(now, |source, piece| outputs.write(source, piece));
        }
        let due = |pump: &Pump| pump.poll_deadline().is_some_and(|deadline| now >= deadline);
        if self.pump.as_ref().is_some_and(due) {
            self.run_pump()?;
        }
        self.supervisor.handle_time(now);
        self.choose_reading()
    }

    /// Does what the supervisor wants done.
    fn act(&mut self) {
        while let Some(action) = self.supervisor.poll_action() {
            match action {
                Action::MarkDead { rank, cause } => self.memory.mark_dead(rank, cause),
                Action::AskWaiting(limit) => self.ask_waiting(limit),
                Action::Send(signal) => self.ranks.send(signal),
            }
        }
    }

    fn handle_end(&mut self, token: u64) -> io::Result<()> {
        let rank = u32::try_from(token).expect("it was made from a rank");
        let Some(ending) = self.ranks.take_ending(rank)? else { return Ok(()) };
        if let Some(pidfd) = self.pidfds[rank as usize].take() {
            epoll::delete(&self.events, pidfd)?;
        }
        self.ended_lately = true;
        let pid = self.ranks.pid(rank).as_raw_pid().unsigned_abs();
        let left = self.memory.has_left(rank);
        let aborted = self.memory.end() == Some(End::Aborted);
        self.supervisor.handle_end(rank, pid, ending, (left, aborted), self.now());
        Ok(())
    }

    fn handle_signals(&mut self) {
        let signals = self.interrupts.as_ref().map(Interrupts::take).unwrap_or_default();
        for signal in signals {
            match signal {
                // Ranks are not in the terminal's foreground group: Ctrl-Z reaches them from here.
                Signal::TSTP => {
                    self.ranks.send(Signal::STOP);
                    // Cannot fail: a process may always stop itself.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                Signal::CONT => self.ranks.send(Signal::CONT),
                Signal::CHILD => {
                    if let (false, Some(orphans)) = (self.ended_lately, &self.orphans) {
                        orphans.reap(|pid| self.ranks.contains(pid));
                    }
                    self.ended_lately = false;
                }
                signal => {
                    let now = self.now();
                    if self.is_interrupted() && self.supervisor.is_over() {
                        self.last_words = Some(now);
                    }
                    self.supervisor.handle_signal(signal, now);
                }
            }
        }
    }

    fn handle_written(&mut self) {
        self.outputs.acknowledge();
        while let Some(failure) = self.outputs.take_failure() {
            self.failure.get_or_insert(failure);
        }
        for (stream, intake) in self.intakes.iter_mut().enumerate() {
            // Ranks then learn from their own writes that nobody reads, as they would directly.
            if self.outputs.has_failed(stream) {
                intake.close();
            }
        }
    }

    fn read(&mut self, stream: usize) -> io::Result<()> {
        let (now, outputs) = (self.now(), &mut self.outputs);
        self.intakes[stream].read_ready(now, |source, piece| outputs.write(source, piece))
    }

    /// Stops reading what cannot be written, and resumes.
    fn choose_reading(&mut self) -> io::Result<()> {
        for (stream, token) in STREAM.into_iter().enumerate() {
            let wanted = !self.outputs.is_full(stream);
            if wanted == self.reading[stream] {
                continue;
            }
            let intake = self.intakes[stream].as_fd();
            match wanted {
                true => {
                    let data = epoll::EventData::new_u64(token);
                    epoll::add(&self.events, intake, data, epoll::EventFlags::IN)?;
                }
                false => epoll::delete(&self.events, intake)?,
            }
            self.reading[stream] = wanted;
        }
        Ok(())
    }

    fn run_pump(&mut self) -> io::Result<()> {
        let now = self.now();
        let Some(pump) = &mut self.pump else { return Ok(()) };
        if !pump.run(self.events.as_fd(), TERMINAL, now)? {
            self.pump = None;
        }
        Ok(())
    }

    /// One line for each rank, of what it is doing now that its time is up, and one before them
    /// that says so if the job ends for another reason.
    fn ask_waiting(&mut self, limit: Duration) {
        let up = Verdict::TimedOut(limit);
        let besides = (self.supervisor.verdict() != Some(up)).then(|| up.reason());
        let ranks = (0..self.ranks.started()).map(|rank| {
            let pid = self.ranks.pid(rank).as_raw_pid();
            if self.ranks.has_ended(rank) {
                return format!("rank {rank} (pid {pid}) has ended");
            }
            match self.memory.waiting(rank) {
                Some(what) => format!("rank {rank} (pid {pid}) waits in {what}"),
                None => format!("rank {rank} (pid {pid}) is not waiting in a call of hikyaku"),
            }
        });
        self.waiting = besides.into_iter().chain(ranks).collect();
    }

    fn deadline(&self) -> Option<Duration> {
        let intakes = self.intakes.iter().map(Intake::poll_deadline);
        let pump = self.pump.as_ref().and_then(Pump::poll_deadline);
        let supervisor = (!self.supervisor.is_over()).then(|| self.supervisor.poll_deadline());
        intakes.chain([pump, supervisor.flatten(), self.last_words]).flatten().min()
    }

    /// Whether what is still to be written when all ranks have ended is given up: whoever
    /// interrupted the job wants to see its last words, but not to wait for a reader that takes
    /// none.
    fn is_given_up(&mut self) -> bool {
        if !self.is_interrupted() {
            return false;
        }
        let now = self.now();
        now >= *self.last_words.get_or_insert(now + GRACE)
    }

    fn is_interrupted(&self) -> bool {
        matches!(self.supervisor.verdict(), Some(Verdict::Interrupted(_)))
    }

    fn outcome(&mut self) -> Outcome {
        let details = std::mem::take(&mut self.waiting);
        let failure = self.failure.take();
        let reader_left = failure.as_ref().is_some_and(|failure| failure.reader_left);
        let unwritable = failure.filter(|failure| !failure.reader_left);
        let verdict = self.supervisor.verdict();
        // When nobody reads, dying of SIGPIPE is how programs stop, and no news of its own.
        let sigpipe = Ending::Signal(Signal::PIPE.as_raw());
        let expected = matches!(verdict, Some(Verdict::Failed { ending, .. }) if ending == sigpipe);
        match (verdict, unwritable) {
            (None, None) => Outcome { code: 0, reason: None, details },
            (Some(verdict), None) => {
                // `hikyaku run ... | head`
                let by_rank = matches!(verdict, Verdict::Failed { .. });
                let said = by_rank && self.memory.end().is_some() || reader_left && expected;
                let reason = (!said).then(|| verdict.reason());
                Outcome { code: verdict.code(), reason, details }
            }
            (Some(verdict), Some(_)) if !expected => {
                Outcome { code: verdict.code(), reason: Some(verdict.reason()), details }
            }
            (_, Some(failure)) => Outcome { code: 1, reason: Some(failure.reason), details },
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Longest single wait.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
