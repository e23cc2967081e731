//! The ranks of this machine as a crew: it starts, watches, reads and ends them.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::Stdio,
    time::Duration,
};

use hikyaku_nic::fabric::DeathCause;
use hikyaku_shm::{JobEnd, limits_on};
use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit};

use super::{
    JobMemory, Launch, LaunchError, Program,
    crew::{Crew, News, RankExit, Tell},
    events::EventSet,
    intake::Intake,
    placement::cpus_of,
    ranks::RankProcesses,
    spawn::{Inheritable, Recipe, Variables},
    stdin::{Pump, empty, of_rank_0},
};

/// Descriptors that the launcher needs per rank: its pidfd and its two streams.
const FILES_PER_RANK: u64 = 3;

/// Other descriptors that the launcher opens, at most: its epoll set (1), the ranks' output (6),
/// signals (9), a terminal as input (3), and temporary ones of a start (6).
const FILES_BESIDE: u64 = 25;

/// Event tokens: the index of a rank here, or one of these.
const TERMINAL: u64 = u64::MAX;
const STREAM: [u64; 2] = [u64::MAX - 1, u64::MAX - 2];

/// The ranks of this machine.
pub(super) struct LocalRanks<'a> {
    /// The first field, so that the processes are always dropped before anything else.
    ranks: RankProcesses,
    memory: &'a dyn JobMemory,
    /// The first rank here.
    first: u32,
    intakes: [Intake; 2],
    pump: Option<Pump>,
    pidfds: Vec<Option<OwnedFd>>,
    waiting: Vec<String>,
    events: EventSet,
}

/// The settings of a start.
pub(super) struct Start<'s> {
    pub(super) launch: &'s Launch,
    /// The programs of all ranks of the job.
    pub(super) programs: &'s [Program],
    /// The number of ranks to start, from the crew's first.
    pub(super) count: u32,
    /// Standard input of the first of them. `None`: the launcher's, if that is rank 0.
    pub(super) stdin: Option<Stdio>,
    /// The limit on open files for the ranks.
    pub(super) files: Option<Rlimit>,
    /// Ranks of other hosts that use the same CPUs: of hosts before this one, and after it.
    pub(super) beside: (u32, u32),
    /// CPUs that ranks may use.
    pub(super) allowed: &'s [usize],
    /// Variables that replace this process's own.
    pub(super) variables: &'s Variables,
}

impl Start<'_> {
    /// The CPUs of the rank with this index. `None`: it is not bound.
    pub(super) fn cpus_of(&self, index: u32) -> Option<&[usize]> {
        let (before, after) = self.beside;
        let ranks = before + self.count + after;
        cpus_of(self.launch.bind, before + index, ranks, self.allowed)
    }
}

impl<'a> LocalRanks<'a> {
    /// A crew without ranks. Unfinished lines are shown after a while on interactive streams.
    pub(super) fn new(
        memory: &'a dyn JobMemory,
        first: u32,
        interactive: [bool; 2],
    ) -> io::Result<LocalRanks<'a>> {
        let events = EventSet::new()?;
        let intakes =
            [Intake::new(0, first, interactive[0])?, Intake::new(1, first, interactive[1])?];
        let local = LocalRanks {
            ranks: RankProcesses::default(),
            memory,
            first,
            intakes,
            pump: None,
            pidfds: Vec::new(),
            waiting: Vec::new(),
            events,
        };
        local.events.add(&local.intakes[0], STREAM[0])?;
        local.events.add(&local.intakes[1], STREAM[1])?;
        Ok(local)
    }

    /// Starts the ranks. If `is_ending` becomes true, the rank just started is the last.
    pub(super) fn start(
        &mut self,
        mut start: Start<'_>,
        is_ending: impl Fn() -> bool,
    ) -> Result<(), LaunchError> {
        let system = |source| LaunchError::System { what: "prepare the ranks", source };
        let _inheritable = Inheritable::new(self.memory.fd()).map_err(system)?;
        let given = start.stdin.is_some() || self.first == 0;
        let nothing = (start.count > 1 || !given).then(empty).transpose()?;
        let each =
            start.programs.iter().flat_map(|program| (0..program.ranks).map(move |_| program));
        for (index, program) in (0..start.count).zip(each.skip(self.first as usize)) {
            let rank = self.first + index;
            let stdin = match (&nothing, start.stdin.take()) {
                (_, Some(stdin)) => stdin,
                (Some(nothing), None) if rank > 0 => nothing.try_clone().map_err(system)?.into(),
                _ => {
                    let (stdin, pump) = of_rank_0().map_err(system)?;
                    self.pump = pump;
                    stdin
                }
            };
            let cpus = start.cpus_of(index);
            let mut environment = self.environment(rank, start.launch);
            environment.extend(program.variables.iter().cloned());
            let spawned = Recipe { program, files: start.files, variables: start.variables }
                .start(environment, stdin, cpus)
                .map_err(|error| error.at(rank, &program.program))?;
            let ended = self.ranks.add(spawned.pid).map_err(system)?;
            self.events.add(&ended, u64::from(index)).map_err(|error| system(error.into()))?;
            self.pidfds.push(Some(ended));
            self.memory.mark_started(rank, spawned.pid.as_raw_pid().unsigned_abs());
            for (intake, pipe) in self.intakes.iter_mut().zip(spawned.outputs) {
                intake.add(pipe).map_err(system)?;
            }
            if is_ending() {
                break;
            }
        }
        self.run_pump(Duration::ZERO).map_err(system)
    }

    /// The number of ranks that have been started.
    pub(super) fn started(&self) -> u32 {
        self.ranks.started()
    }

    /// The process ids of the ranks, in order.
    pub(super) fn pids(&self) -> Vec<u32> {
        (0..self.started()).map(|index| self.pid(index)).collect()
    }

    /// The variables added to a rank's environment: two for scripts, those of the launch, and those
    /// of the job's memory.
    fn environment(&self, rank: u32, launch: &Launch) -> Vec<(String, String)> {
        let mut environment = vec![
            ("HIKYAKU_RANK".to_owned(), rank.to_string()),
            ("HIKYAKU_SIZE".to_owned(), launch.ranks.to_string()),
        ];
        environment.extend(launch.variables.iter().cloned());
        environment.extend(self.memory.environment(rank));
        environment
    }

    fn pid(&self, index: u32) -> u32 {
        self.ranks.pid(index).as_raw_pid().unsigned_abs()
    }

    fn handle_end(&mut self, token: u64, tell: &mut Tell<'_>) -> io::Result<()> {
        let index = u32::try_from(token).expect("it was made from an index");
        let Some(ending) = self.ranks.take_ending(index)? else { return Ok(()) };
        if let Some(pidfd) = self.pidfds[index as usize].take() {
            self.events.remove(pidfd)?;
        }
        let (rank, pid) = (self.first + index, self.pid(index));
        let (left, end) = (self.memory.has_left(rank), self.memory.end());
        tell(News::Ended(RankExit { rank, pid, ending, left, end }));
        Ok(())
    }

    fn run_pump(&mut self, now: Duration) -> io::Result<()> {
        let Some(pump) = &mut self.pump else { return Ok(()) };
        if !pump.run(&self.events, TERMINAL, now)? {
            self.pump = None;
        }
        Ok(())
    }

    /// Each rank's current activity: rank, process id, and the rest of a sentence.
    pub(super) fn doing(&self) -> Vec<(u32, u32, String)> {
        let ranks = (0..self.started()).map(|index| {
            let (rank, pid) = (self.first + index, self.pid(index));
            let mut what = match (self.memory.waiting(rank), is_stopped(pid)) {
                _ if self.ranks.has_ended(index) => "has ended".to_owned(),
                (Some(what), false) => format!("waits in {what}"),
                (Some(what), true) => format!("is stopped by a signal, in {what}"),
                (None, true) => "is stopped by a signal".to_owned(),
                (None, false) => "is not waiting in a call of hikyaku".to_owned(),
            };
            if let Some(dropped) = self.memory.dropped(rank) {
                what += &format!("; it has dropped {dropped}");
            }
            (rank, pid, what)
        });
        ranks.collect()
    }
}

/// Whether a signal or a debugger has stopped a process. `false` if `/proc` does not tell.
fn is_stopped(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may itself contain some.
    let name = stat.iter().rposition(|&byte| byte == b')');
    name.and_then(|end| stat.get(end + 2)).is_some_and(|state| b"Tt".contains(state))
}

impl AsFd for LocalRanks<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Crew for LocalRanks<'_> {
    /// The kernel lists ready descriptors in the order in which they became ready, so ranks are
    /// reported in the order in which they ended.
    fn handle_ready(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()> {
        for token in self.events.ready()? {
            match token {
                TERMINAL => self.run_pump(now)?,
                token => match STREAM.iter().position(|stream| *stream == token) {
                    Some(stream) => self.intakes[stream]
                        .read_ready(now, |source, piece| tell(News::Output { source, piece }))?,
                    None => self.handle_end(token, tell)?,
                },
            }
        }
        Ok(())
    }

    fn handle_time(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()> {
        for intake in &mut self.intakes {
            intake.show_held(now, |source, piece| tell(News::Output { source, piece }));
        }
        let due = |pump: &Pump| pump.poll_deadline().is_some_and(|deadline| now >= deadline);
        if self.pump.as_ref().is_some_and(due) {
            self.run_pump(now)?;
        }
        Ok(())
    }

    fn poll_deadline(&self) -> Option<Duration> {
        let intakes = self.intakes.iter().map(Intake::poll_deadline);
        let pump = self.pump.as_ref().and_then(Pump::poll_deadline);
        intakes.chain([pump]).flatten().min()
    }

    fn set_reading(&mut self, stream: usize, wanted: bool) -> io::Result<()> {
        match wanted {
            true => self.events.add(&self.intakes[stream], STREAM[stream])?,
            false => self.events.remove(&self.intakes[stream])?,
        }
        Ok(())
    }

    fn close(&mut self, stream: usize) {
        self.intakes[stream].close();
    }

    fn mark_dead(&mut self, rank: u32, cause: DeathCause) {
        self.memory.mark_dead(rank, cause);
    }

    fn send(&mut self, signal: Signal) {
        self.ranks.send(signal);
    }

    fn ask_waiting(&mut self) {
        let doing = self.doing();
        let line = |(rank, pid, what)| format!("rank {rank} (pid {pid}) {what}");
        self.waiting = doing.into_iter().map(line).collect();
    }

    fn take_waiting(&mut self) -> Vec<String> {
        std::mem::take(&mut self.waiting)
    }

    fn clear(&mut self) {
        self.ranks.clear();
    }

    fn is_clear(&self) -> bool {
        true
    }

    fn finish(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()> {
        if let Some(mut pump) = self.pump.take() {
            pump.stop(&self.events)?;
        }
        for intake in &mut self.intakes {
            intake.finish(now, |source, piece| tell(News::Output { source, piece }));
        }
        Ok(())
    }

    fn contains(&self, pid: Pid) -> bool {
        self.ranks.contains(pid)
    }

    fn end(&self) -> Option<JobEnd> {
        self.memory.end()
    }

    fn host_of(&self, _rank: u32) -> Option<&str> {
        None
    }
}

/// Makes sure that the launcher may open enough files for so many ranks. If the limits had to be
/// raised, returns the previous ones, to be restored in the ranks.
pub(super) fn allow_files(ranks: u32) -> Result<Option<Rlimit>, LaunchError> {
    allow_files_of("ranks", ranks, FILES_PER_RANK)
}

/// [`allow_files`] for `count` of `what`, which need so many files each.
pub(super) fn allow_files_of(
    what: &'static str,
    count: u32,
    each: u64,
) -> Result<Option<Rlimit>, LaunchError> {
    let before = limits_on(Resource::Nofile);
    let needed = open_files() + FILES_BESIDE + u64::from(count) * each;
    if before.current.is_none_or(|current| current >= needed) {
        return Ok(None);
    }
    if let Some(limit) = before.maximum.filter(|&limit| limit < needed) {
        return Err(LaunchError::Files { count, what, needed, limit });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..before }).map_err(|error| {
        LaunchError::System { what: "raise the limit on open files", source: error.into() }
    })?;
    Ok(Some(before))
}

/// The number of files that this process has open. Without `/proc`, 4: standard input, output and
/// error, and the job's memory.
fn open_files() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(4, |files| files.count() as u64)
}
