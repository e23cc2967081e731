//! Real processes in virtual time: runs the programs of `hikyaku run` on a simulated machine.
//!
//! ```text
//!   launch thread                      conductor's thread              ranks' processes
//!   -------------                      ------------------              ----------------
//!   starts and watches the ranks       engine, network, interfaces     one runs at a time
//!        │   ends, deaths ───────────► (registry in shared memory) ◄──── hikyaku's calls
//!        └── input, output ◄──────────────────────────────────────────── print as ever
//! ```
//!
//! The job is in shared memory ([`hikyaku_shm`]). Its ranks hand over the processor where they
//! would wait. [`hikyaku_sim::port`] decides when each event happens. Launcher, conductor and ranks
//! share one processor, because only one of them has work at any time, and a handover between
//! processors takes several times as long.
//!
//! A rank's time is the sum of three parts: the costs of the host's steps, as stated by the machine
//! file; waiting; and computing, which is either stated by the program (`World::compute`) or
//! measured here and scaled ([`Computing`]).

mod ranks;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_nic::fabric::DeathCause;
use hikyaku_nic::time::Time;
use hikyaku_shm::{CostBySize, Doing, Job, JobConfig, JobEnd, LineCosts, Stage, Tally};
use hikyaku_sim::engine::{Progress, Simulation, Trace};
use hikyaku_sim::job::{Carrier, MemoryPath, PacketFormat, PlainInterface};
use hikyaku_sim::network::{LogGp, LogGpParameters, Network, Rate};
use hikyaku_sim::port::{Config, Ended, MachineConductor, RankTraffic};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::{Bind, JobMemory, JobOutcome, Launch, LaunchError};
use ranks::{AsTheyCome, OneByOne};

pub use hikyaku_sim::machine::Machine;

/// Bytes on the wire for a message's match bits, length and protocol.
const ENVELOPE_BYTES: u64 = 16;

/// Events between two checks whether to continue.
const INTERVAL: u64 = 1024;

/// The maximum number of ranks in virtual time: each has ports to all others, at both ends.
pub const MAX_RANKS: u32 = 1024;

/// The exit code of a job whose ranks wait for ever.
const STUCK: i32 = 3;

/// The virtual time that computing between calls takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Computing {
    /// The time that the program states with `World::compute`; otherwise none.
    #[default]
    Given,
    /// The processor time measured here, times this factor. Not reproducible.
    Measured(f64),
}

/// A job of processes on a simulated machine.
#[derive(Debug, Clone)]
pub struct Processes {
    /// The program, the number of ranks, and the settings. Ranks are not bound.
    pub launch: Launch,
    /// The simulated machine.
    pub machine: Machine,
    /// How messages travel within a node.
    pub memory: MemoryPath,
    /// The virtual time of computing.
    pub computing: Computing,
    /// The maximum number of trace records.
    pub trace: usize,
}

impl Processes {
    /// A job for tests: a switch of 100 Gb/s, no computing time, a full trace.
    ///
    /// # Panics
    /// Never: the machine is valid for any number of ranks that can be launched.
    pub fn on_a_test_machine(launch: Launch) -> Processes {
        let machine = Machine::parse("test", include_str!("test.toml"));
        let rate = Rate::bytes_per_second(10e9);
        Processes {
            launch,
            machine: machine.expect("a test reads it"),
            memory: MemoryPath { latency: Time::from_nanoseconds(200), rate },
            computing: Computing::Given,
            trace: 1 << 20,
        }
    }

    /// Runs the job until its processes have ended.
    ///
    /// # Errors
    /// The job could not be started, or the ranks do not fit the machine. No rank runs then.
    pub fn run(&self) -> Result<VirtualReport, LaunchError> {
        self.launch.check()?;
        let ranks = self.launch.ranks;
        if ranks > MAX_RANKS {
            return Err(LaunchError::TooManyVirtual { ranks, most: MAX_RANKS });
        }
        let per_node = self.launch.ranks_per_node.unwrap_or(1).min(ranks);
        let mut config = self.launch.landing(JobConfig::new(ranks, per_node)).in_virtual_time();
        if let Some(queues) = self.machine.queues_of_process(per_node) {
            config.layout.queues = queues;
        }
        let job = Job::create(&config)?;
        let system = |what| move |source| LaunchError::System { what, source };
        let absent = || system("map the job's memory")(std::io::ErrorKind::Unsupported.into());
        let stage = Arc::new(job.stage()?.ok_or_else(absent)?);
        let _bound = OnOneProcessor::bind();
        let began = Instant::now();
        let started = Arc::new(StartedProcesses::default());
        let conductor = {
            let (stage, started, this) = (Arc::clone(&stage), Arc::clone(&started), self.clone());
            let conduct = move || this.conduct(&stage, &started);
            let spawned = thread::Builder::new().name("hikyaku-conductor".into()).spawn(conduct);
            spawned.map_err(system("start the thread of the simulation"))?
        };
        let launch = Launch { bind: Bind::None, ..self.launch.clone() };
        let memory = VirtualMemory { job: &job, stage: &stage, started: &started };
        let outcome = launch.run_in(&memory);
        stage.end();
        let conducted = conductor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(conducted.into_report(outcome?, &stage, began.elapsed()))
    }

    /// The simulation, on its own thread.
    fn conduct(&self, stage: &Arc<Stage>, started: &StartedProcesses) -> ConductorResult {
        let simulation = Simulation::new(0);
        simulation.trace().records_on(self.trace);
        let carrier = self.machine.install(&simulation).carrier;
        // Ranks read the costs at their first turn.
        stage.set_costs(&costs_of(&*carrier, &self.memory, self.computing));
        let config = Config { memory: self.memory, envelope_bytes: ENVELOPE_BYTES };
        let ranks = OneByOne(Arc::clone(stage));
        let conductor = MachineConductor::new(&simulation, ranks, carrier, config);
        let conductor = match conductor {
            Ok(conductor) => conductor,
            Err(error) => {
                started.end(stage);
                return ConductorResult {
                    problem: Some(error.to_string()),
                    ..ConductorResult::default()
                };
            }
        };
        let observe = |_: &Progress| match stage.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let ended = conductor.run(INTERVAL, observe);
        let trace = std::mem::take(&mut *simulation.trace());
        let (traffic, events) = (conductor.traffic(), simulation.events());
        let mut conducted =
            ConductorResult { traffic, events, trace, ..ConductorResult::default() };
        if ended.is_ok() {
            conducted.problem = started.end_the_forgotten(stage);
        }
        if let Err(error) = ended
            && !stage.is_over()
        {
            conducted.problem = Some(error.to_string());
            if let Ended::Stuck { waiting, .. } = &error {
                conducted.waits =
                    waiting.iter().map(|rank| what_it_waits_in(stage, *rank)).collect();
            }
            started.end(stage);
        }
        conducted
    }
}

/// The results of the conductor's thread.
#[derive(Debug, Default)]
struct ConductorResult {
    traffic: Vec<hikyaku_sim::port::RankTraffic>,
    events: u64,
    trace: Trace,
    problem: Option<String>,
    waits: Vec<String>,
}

impl ConductorResult {
    fn into_report(self, outcome: JobOutcome, stage: &Stage, wall: Duration) -> VirtualReport {
        let joined = stage.ever_joined();
        let outcome = match self.problem {
            Some(problem) => {
                let (code, reason, details) = (STUCK, Some(problem), self.waits);
                JobOutcome { code, reason, details, ..JobOutcome::default() }
            }
            None => outcome,
        };
        let rank = |(rank, traffic): (u32, _)| RankReport::new(stage.tally(rank), traffic);
        let ranks = (0..).zip(self.traffic).map(rank).collect();
        let (events, trace) = (self.events, self.trace);
        VirtualReport { outcome, ranks, joined, events, trace, wall }
    }
}

/// Describes a rank that waits for ever.
fn what_it_waits_in(stage: &Stage, rank: u32) -> String {
    match stage.registry().wait(rank) {
        Some(wait) if wait.polled.is_some() => {
            format!("rank {rank} polls for ever: {}", Doing(&wait))
        }
        Some(wait) => {
            format!("rank {rank} waits in {}, since {} of virtual time", Doing(&wait), wait.since)
        }
        None => format!("rank {rank} polls for ever, in no call that waits"),
    }
}

/// The ranks' processes as started by the launcher. Only these get signals, because any rank can
/// overwrite the process ids in the job's memory.
#[derive(Debug, Default)]
struct StartedProcesses(Mutex<Pids>);

#[derive(Debug, Default)]
struct Pids {
    all: Vec<(u32, Pid)>,
    /// Whether all processes must end, those that start later included.
    are_ended: bool,
}

impl StartedProcesses {
    fn add(&self, rank: u32, pid: u32) {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.all.push((rank, pid));
        if started.are_ended {
            // Fails only if the process has ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Removes a dead rank, so that it gets no signals.
    fn remove(&self, rank: u32) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.all.retain(|(other, _)| *other != rank);
    }

    /// Until the job is over, kills ranks that wait for a turn although the memory says that all
    /// have left or died. Returns an error message about the first.
    fn end_the_forgotten(&self, stage: &Stage) -> Option<String> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = |rank| lock().all.iter().find(|(other, _)| *other == rank).map(|(_, pid)| *pid);
        let waits = |rank| stage.request(rank).is_some() && pid(rank).is_some();
        let mut problem = None;
        while let Some((rank, _)) = stage.await_any(waits) {
            if let Some(pid) = pid(rank) {
                let _ = kill_process(pid, Signal::KILL);
            }
            self.remove(rank);
            problem.get_or_insert_with(|| {
                format!(
                    "rank {rank} waits for its turn and counts as gone: a process has \
                     overwritten its state in the job's shared memory"
                )
            });
        }
        problem
    }

    /// Kills ranks that would wait for ever.
    fn end(&self, stage: &Stage) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.are_ended = true;
        for (_, pid) in started.all.iter().filter(|(rank, _)| stage.is_there(*rank)) {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

/// The job's memory for the launcher, with times of waiting in virtual time.
struct VirtualMemory<'j> {
    job: &'j Job,
    stage: &'j Stage,
    started: &'j StartedProcesses,
}

impl JobMemory for VirtualMemory<'_> {
    fn environment(&self, rank: u32) -> Vec<(String, String)> {
        self.job.environment(rank)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.job.fd()
    }

    fn mark_started(&self, rank: u32, pid: u32) {
        self.job.mark_started(rank, pid);
        self.started.add(rank, pid);
    }

    fn mark_dead(&self, rank: u32, cause: DeathCause) {
        self.started.remove(rank);
        self.job.mark_dead(rank, cause);
    }

    fn has_left(&self, rank: u32) -> bool {
        self.job.has_left(rank)
    }

    fn waiting(&self, rank: u32) -> Option<String> {
        // The entry of a polling loop may be stale: the loop's end is not announced.
        if let Some(wait) = self.stage.registry().wait(rank).filter(|wait| wait.polled.is_none()) {
            return Some(format!("{}, since {} of virtual time", Doing(&wait), wait.since));
        }
        let own = self.stage.request(rank)?.now;
        Some(format!("a call for the others to reach its time, {own} of virtual time"))
    }

    fn dropped(&self, rank: u32) -> Option<String> {
        self.job.dropped(rank)
    }

    fn end(&self) -> Option<JobEnd> {
        self.job.end()
    }
}

/// Binds this thread, and the processes it starts, to one processor. Restores the mask on drop.
struct OnOneProcessor(Option<CpuSet>);

impl OnOneProcessor {
    fn bind() -> OnOneProcessor {
        let Ok(before) = sched_getaffinity(None) else { return OnOneProcessor(None) };
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        // A failure only makes the simulation slower.
        OnOneProcessor(sched_setaffinity(None, &one).is_ok().then_some(before))
    }
}

impl Drop for OnOneProcessor {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// The costs of a rank's own steps on a machine. They equal those of its carrier for ranks that are
/// tasks, for messages as long as on the wire. The machine's file (`hikyaku machine show`) states
/// the source of each constant.
///
/// Copies are charged at the rate of messages within a node: machine files state no other.
pub fn costs_of(carrier: &dyn Carrier, memory: &MemoryPath, computing: Computing) -> LineCosts {
    let measured = match computing {
        Computing::Given => 0,
        Computing::Measured(factor) => (factor * 1e3).round().clamp(1.0, 1e9) as u32,
    };
    let host = |bytes: u64| carrier.host(bytes.saturating_add(ENVELOPE_BYTES));
    LineCosts {
        send: CostBySize::of(|bytes| host(bytes).send),
        chained: CostBySize::of(|bytes| carrier.chained(bytes.saturating_add(ENVELOPE_BYTES))),
        receive: CostBySize::of(|bytes| host(bytes).receive),
        look: carrier.look(),
        copy: memory.rate.time(1024),
        near: memory.latency,
        measured,
        at_once: false,
        copies: carrier.multicast().is_some(),
    }
}

/// The result of a job in virtual time.
#[derive(Debug, Clone)]
pub struct VirtualReport {
    /// How its processes ended.
    pub outcome: JobOutcome,
    /// Each rank's report; empty if there was no simulation.
    pub ranks: Vec<RankReport>,
    /// How many ranks have ever joined the job. The other ranks' programs do not use hikyaku.
    pub joined: u32,
    /// Number of events of the simulation.
    pub events: u64,
    /// The trace of the simulation, with the events up to a limit. Two runs that did the same have
    /// the same digest.
    pub trace: Trace,
    /// Real time of the run.
    pub wall: Duration,
}

/// How a rank spent its time, and what it sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankReport {
    /// The virtual time at which it left the job, or that it has reached.
    pub time: Time,
    /// Time spent computing.
    pub computing: Time,
    /// Time spent waiting for other ranks.
    pub waiting: Time,
    /// Commands that it sent: sends, puts, gets, and answers to get requests.
    pub messages: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Served calls of its port: commands, finds, waits.
    pub calls: u64,
    /// Whether it has left the job, properly or not.
    pub gone: bool,
}

impl RankReport {
    pub(super) fn new(tally: Tally, traffic: RankTraffic) -> RankReport {
        let Tally { computing, waiting, calls, .. } = tally;
        let RankTraffic { messages, bytes, now, gone } = traffic;
        RankReport { time: now, computing, waiting, messages, bytes, calls, gone }
    }

    /// The rest of its time: the host's steps in calls.
    pub fn in_calls(&self) -> Time {
        self.time - (self.computing + self.waiting)
    }
}

impl VirtualReport {
    /// The virtual time at which the last rank ended.
    pub fn end(&self) -> Time {
        self.ranks.iter().map(|rank| rank.time).max().unwrap_or_default()
    }

    /// The calls of all ranks.
    pub fn calls(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.calls).sum()
    }

    /// Calls served per second of real time.
    pub fn calls_per_second(&self) -> f64 {
        self.calls() as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}

/// Conducts the ranks of [`hikyaku_shm::open_conducted`] until they are gone, on a network of one
/// microsecond and 10 GB/s between nodes, a tenth of that latency within. For tests of the fabric,
/// and for programs whose ranks are threads.
///
/// The conductor cannot control here which rank runs: one thread may hold several ports, or each
/// thread one. So it serves requests in order of arrival, and completes everything in flight before
/// it answers. Time passes, and messages take the same path as between processes, but ranks are not
/// held back until their turn.
pub fn conduct_threads(stage: Stage) {
    let ns = Time::from_nanoseconds;
    let costs = LineCosts {
        send: CostBySize::of(|_| ns(50)),
        chained: CostBySize::of(|_| ns(10)),
        receive: CostBySize::of(|_| ns(20)),
        look: ns(20),
        copy: ns(100),
        near: ns(100),
        at_once: true,
        ..LineCosts::default()
    };
    stage.set_costs(&costs);
    // The thread ends with the ranks.
    let _ = thread::spawn(move || conduct(stage));
}

fn conduct(stage: Stage) {
    let (ranks, rate) = (stage.ranks(), Rate::bytes_per_second(10e9));
    let nodes = stage.node_of(ranks - 1) + 1;
    let simulation = Simulation::new(0);
    let latency = Time::from_nanoseconds(1_000);
    let model = LogGp::new(nodes, LogGpParameters { latency, gap: Time::ZERO, rate });
    let network = Network::new(&simulation, Box::new(model));
    let carrier = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let memory = MemoryPath { latency: Time::from_nanoseconds(100), rate };
    let config = Config { memory, envelope_bytes: ENVELOPE_BYTES };
    let running = Rc::new(RefCell::new(vec![true; ranks as usize]));
    let ranks = AsTheyCome { stage: Rc::new(stage), running, answered: Rc::default() };
    let as_they_come = ranks.clone();
    let AsTheyCome { stage, running, .. } = &as_they_come;
    let Ok(conductor) = MachineConductor::new(&simulation, ranks, carrier, config) else { return };
    while conductor.traffic().iter().any(|rank| !rank.gone) {
        let whose = |rank: u32| running.borrow()[rank as usize];
        let Some((rank, handed)) = stage.await_any(whose) else { return };
        running.borrow_mut()[rank as usize] = false;
        let served = conductor.serve(rank, handed.now, handed.request);
        as_they_come.go_on();
        if served.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};
    use std::sync::mpsc;

    use hikyaku_nic::hosted::ConductorAnswer;
    use hikyaku_shm::open_conducted;

    use super::*;

    fn child() -> (Child, u32) {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        (child, pid)
    }

    #[test]
    fn only_what_the_launcher_has_started_is_signalled() {
        let job = Job::create(&JobConfig::new(2, 1).in_virtual_time()).unwrap();
        let stage = job.stage().unwrap().unwrap();
        let started = StartedProcesses::default();
        let memory = VirtualMemory { job: &job, stage: &stage, started: &started };
        let [(early, first), (late, second), (stranger, other)] = [(); 3].map(|()| child());
        memory.mark_started(0, first);
        // Any rank can write this.
        job.mark_started(0, other);
        started.end(&stage);
        memory.mark_started(1, second);
        let ends = [early, late, stranger].map(|mut child| {
            // If the process was killed before, the earlier signal is its cause of death.
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            child.wait().unwrap().signal()
        });
        let [killed, left] = [Signal::KILL, Signal::TERM].map(|signal| Some(signal.as_raw()));
        assert_eq!(ends, [killed, killed, left]);
    }

    #[test]
    fn who_waits_for_a_turn_after_the_last_is_ended_and_named() {
        let config = JobConfig::new(1, 1).in_virtual_time();
        let (tell, told) = mpsc::sync_channel(1);
        let begin = move || open_conducted(&config, |stage| tell.send(stage).unwrap()).map(drop);
        let rank = thread::spawn(begin);
        let stage = told.recv().unwrap();
        while stage.request(0).is_none() {
            thread::yield_now();
        }
        let started = StartedProcesses::default();
        let (mut process, pid) = child();
        started.add(0, pid);
        let problem = thread::scope(|scope| {
            let looking = scope.spawn(|| started.end_the_forgotten(&stage));
            assert_eq!(process.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
            // The launcher does this when all processes have ended.
            stage.end();
            looking.join().unwrap()
        });
        let problem = problem.unwrap();
        assert!(problem.starts_with("rank 0 waits for its turn and counts as gone"), "{problem}");
        stage.give(0, Time::ZERO, ConductorAnswer::GoOn);
        rank.join().unwrap().unwrap();
        assert_eq!(stage.request(0), None, "it has left");
    }
}
