//! The links to the daemons that this process has started with an agent such as `ssh`. The agent's
//! standard input and output are the channel.
//!
//! ```text
//!   agent ends ──► pidfd ──┐
//!   frames ──► its stdout ─┼─ epoll ──► news: frames, lines, hosts that are lost
//!   lines ──► its stderr ──┘
//!   frames ◄── its stdin ◄── OutputSink, a thread that writes
//! ```
//!
//! A link begins with the daemon's greeting. The answer is the plan, once all daemons have greeted,
//! since only then is it known which hosts share processors. Other frames are queued until then. If
//! the plan names a network, frames stay queued until the daemon has connected to the gate, which
//! makes that connection the channel, or until its first frame comes through the agent. A link is
//! down when the agent has ended, the channel is closed or malformed, or the daemon is silent for
//! too long. Its failure takes all hosts behind it down, and is reported once.

use std::{
    ffi::OsString,
    io,
    net::{Shutdown, TcpStream},
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use hikyaku_shm::own_host_name;
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal},
    time::{ClockId, clock_gettime},
};

use super::{
    bytes::Malformed,
    frame::{ALL, Decoder, Frame},
    greeting::Greeting,
    network::DaemonNetwork,
    plan::{HostPlan, PlannedNetwork},
    tree::{MOST_CHILDREN, parts},
    wire::{Admitted, FrameSink, Gate, KNOCK_LIMIT},
};
use crate::{
    LaunchError, Program, ending::Ending, events::EventSet, intake::Intake, local::allow_files_of,
    placement::machine, ranks::RankProcesses, spawn::Recipe,
};

/// How long a daemon may take to greet. Agents that cannot reach a host report that earlier.
pub(super) const GREETING_LIMIT: Duration = Duration::from_secs(60);

/// The longest interval at which each end sends a beat.
const BEAT: Duration = Duration::from_secs(1);

/// How long to wait for an agent's exit code once its channel is closed, and the other way round.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The size of the buffer for reading a channel.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Descriptors of a link: both ends of the agent's channel, its errors, its end, and the news of
/// the sink. A connection has three more, beside the channel that it replaces.
const FILES_PER_LINK: [u64; 2] = [5, 8];

/// Event tokens. A link has two: twice its number, and one more for the end of its agent.
const ERRORS: u64 = u64::MAX;
const GATE: u64 = u64::MAX - 1;

/// An event from the daemons.
#[derive(Debug)]
pub(super) enum LinkNews {
    /// A frame from this host.
    Frame(u32, Frame),
    /// These hosts are lost.
    Lost(Range<u32>, String),
    /// One line of text for the user.
    Said(String),
}

/// The callback that receives link news.
pub(super) type TellLink<'t> = dyn FnMut(LinkNews) + 't;

/// The links to the daemons that this process has started, and through them to those behind.
pub(super) struct DaemonLinks {
    /// The first field, so that the agents are always dropped before anything else.
    agents: RankProcesses,
    links: Vec<DaemonLink>,
    errors: Intake,
    /// Where daemons connect, if the plan names a network.
    gate: Option<Gate>,
    plan: HostPlan,
    beat_at: Duration,
    events: EventSet,
}

struct DaemonLink {
    /// The daemon's own host, and the hosts behind it.
    hosts: Range<u32>,
    phase: LinkPhase,
    /// The agent's output or the connection, until it ends.
    from: Option<OwnedFd>,
    decoder: Decoder,
    to: FrameSink,
    /// The agent's pipes after the daemon has connected. They stay open: agents may end with their
    /// input.
    unused: Option<(OwnedFd, FrameSink)>,
    /// Frames that wait until the link is up.
    queued: Vec<(u32, Frame)>,
    pidfd: Option<OwnedFd>,
    ended: Option<Ending>,
    /// When the last bytes arrived.
    heard: Duration,
    /// When the link counts as down, whatever arrives.
    down_at: Option<Duration>,
    /// Number of hosts on which something of the job may be left.
    open: u32,
    last_line: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LinkPhase {
    /// The bytes received before the greeting.
    Greeting(Vec<u8>),
    /// The daemon waits for its plan, until the others have greeted. The processors of its host.
    Greeted(String),
    /// The daemon has its plan, and may still connect.
    Joining,
    Up,
    Down,
}

impl DaemonLinks {
    /// Starts the daemons of these hosts; if they are many, only those of the first in each part.
    pub(super) fn start(
        plan: &HostPlan,
        hosts: Range<u32>,
        now: Duration,
    ) -> Result<DaemonLinks, LaunchError> {
        let system = |source| LaunchError::System { what: "prepare the other hosts", source };
        let events = EventSet::new().map_err(system)?;
        let errors = Intake::new(1, 0, false).map_err(system)?;
        let mut plan = plan.clone();
        let others = hosts.clone().any(|host| !plan.places[host as usize].is_own);
        plan.network = plan.network.filter(|_| others);
        let gate = plan.network.as_mut().map(open_gate).transpose()?;
        let mut links = DaemonLinks {
            agents: RankProcesses::default(),
            links: Vec::new(),
            errors,
            gate,
            beat_at: now + beat(&plan),
            plan,
            events,
        };
        links.events.add(&links.errors, ERRORS).map_err(|it| system(it.into()))?;
        if let Some(gate) = &links.gate {
            links.events.add(gate, GATE).map_err(|it| system(it.into()))?;
        }
        let all = parts(hosts, |host| links.plan.places[host as usize].is_own);
        all.into_iter().try_for_each(|hosts| links.add(hosts, now))?;
        Ok(links)
    }

    fn add(&mut self, hosts: Range<u32>, now: Duration) -> Result<(), LaunchError> {
        let system = |source: io::Error| LaunchError::System { what: "start an agent", source };
        let program = self.agent_of(hosts.start);
        let (input, to) = pipe_with(PipeFlags::CLOEXEC).map_err(|it| system(it.into()))?;
        let spawned = Recipe { program: &program, files: None, variables: &[] }
            .start(Vec::new(), input.into(), None)
            .map_err(|error| LaunchError::Host {
                host: self.plan.name(hosts.start).to_owned(),
                reason: error.at(0, &program.program).to_string(),
                code: 1,
            })?;
        let pidfd = self.agents.add(spawned.pid).map_err(system)?;
        let [from, errors] = spawned.outputs;
        let number = self.links.len() as u64;
        let nonblocking = fcntl_getfl(&from).map(|flags| flags | OFlags::NONBLOCK);
        nonblocking
            .and_then(|flags| fcntl_setfl(&from, flags))
            .and_then(|()| self.events.add(&from, 2 * number))
            .and_then(|()| self.events.add(&pidfd, 2 * number + 1))
            .map_err(|errno| system(errno.into()))?;
        self.errors.add(errors).map_err(system)?;
        self.links.push(DaemonLink {
            open: hosts.end - hosts.start,
            hosts,
            phase: LinkPhase::Greeting(Vec::new()),
            from: Some(from),
            decoder: Decoder::default(),
            to: FrameSink::to_agent(to).map_err(system)?,
            unused: None,
            queued: Vec::new(),
            pidfd: Some(pidfd),
            ended: None,
            heard: now,
            down_at: Some(now + GREETING_LIMIT),
            last_line: None,
        });
        Ok(())
    }

    /// The command that starts a daemon on a host.
    fn agent_of(&self, host: u32) -> Program {
        let place = &self.plan.places[host as usize];
        let words = match place.is_own {
            true => vec!["sh".into(), "-c".into(), format!("exec {}", self.plan.daemon).into()],
            false => {
                let mut words = self.plan.agent.clone();
                words.extend([&place.name, &self.plan.daemon].map(OsString::from));
                words
            }
        };
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        Program { ranks: 1, program, args: words.collect(), ..Program::default() }
    }

    /// Sends a frame towards a host, or to all hosts.
    pub(super) fn send(&mut self, host: u32, frame: &Frame) {
        for link in &mut self.links {
            if host != ALL && !link.hosts.contains(&host) {
                continue;
            }
            match link.phase {
                LinkPhase::Up => link.to.push(host, frame),
                LinkPhase::Greeting(_) | LinkPhase::Greeted(_) | LinkPhase::Joining => {
                    link.queued.push((host, frame.clone()));
                }
                LinkPhase::Down => {}
            }
        }
    }

    /// The hosts behind the same link as this host.
    pub(super) fn part_of(&self, host: u32) -> Range<u32> {
        let all = self.links.iter().map(|link| &link.hosts);
        all.into_iter().find(|hosts| hosts.contains(&host)).cloned().unwrap_or_default()
    }

    /// Drops hosts that have no plan, because nothing is to be started any more.
    pub(super) fn cut_silent(&mut self, now: Duration) {
        for (number, link) in self.links.iter_mut().enumerate() {
            if matches!(link.phase, LinkPhase::Greeting(_) | LinkPhase::Greeted(_)) {
                link.down_at = Some(now);
                self.agents.send_to(number, Signal::KILL);
            }
        }
    }

    /// Waits until all frames are written, at most `limit`.
    pub(super) fn flush(&mut self, limit: Duration) {
        self.links.iter().for_each(|link| link.to.wait(limit));
    }

    /// Restarts the silence timers of all daemons: this process was stopped, not the daemons.
    pub(super) fn forgive(&mut self, now: Duration) {
        self.links.iter_mut().for_each(|link| link.heard = now);
    }

    /// Ends and reaps the agents, which have nothing left to report.
    pub(super) fn shut(&mut self) {
        self.agents.clear();
        for link in &mut self.links {
            link.close();
            (link.phase, link.pidfd) = (LinkPhase::Down, None);
        }
    }

    /// A warning about connections that were not from daemons, if there were any.
    pub(super) fn strangers(&self) -> Option<String> {
        self.gate.as_ref().and_then(Gate::strangers)
    }

    /// Whether every link is down.
    pub(super) fn are_down(&self) -> bool {
        self.links.iter().all(|link| link.phase == LinkPhase::Down)
    }

    /// Whether this child process is an agent.
    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.agents.contains(pid)
    }

    /// The next deadline at which `handle_time` has work to do.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        let live = self.links.iter().filter(|link| link.phase != LinkPhase::Down);
        let silent =
            |link: &DaemonLink| (link.phase == LinkPhase::Up).then(|| link.heard + self.patience());
        let each = live.flat_map(|link| [link.down_at, silent(link), Some(self.beat_at)]);
        let guests = self.gate.as_ref().and_then(Gate::poll_deadline);
        each.flatten().chain(guests).min()
    }

    fn patience(&self) -> Duration {
        self.plan.patience()
    }

    /// Handles the events that are ready.
    pub(super) fn handle_ready(
        &mut self,
        now: Duration,
        tell: &mut TellLink<'_>,
    ) -> io::Result<()> {
        for token in self.events.ready()? {
            match token {
                ERRORS => self.read_errors(now, tell)?,
                GATE => self.let_in(now)?,
                token if token % 2 == 0 => self.read((token / 2) as usize, now, tell)?,
                token => self.handle_end((token / 2) as usize, now, tell)?,
            }
        }
        Ok(())
    }

    /// Sends beats, and takes down the links that are silent or past their deadline.
    pub(super) fn handle_time(&mut self, now: Duration, tell: &mut TellLink<'_>) -> io::Result<()> {
        if now >= self.beat_at {
            self.beat_at = now + beat(&self.plan);
            for link in self.links.iter_mut().filter(|link| link.phase == LinkPhase::Up) {
                link.to.push(ALL, &Frame::Beat);
            }
        }
        if let Some(gate) = &mut self.gate {
            gate.handle_time(now);
        }
        for number in 0..self.links.len() {
            let error = self.links[number].to.take_error();
            let link = &self.links[number];
            if link.phase == LinkPhase::Down {
                continue;
            }
            if let Some(error) = error {
                self.take_down(number, &format!("this host {error}"), tell);
            } else if link.down_at.is_some_and(|at| now >= at) {
                self.read_errors(now, tell)?;
                self.take_down(number, &self.last_words_of(number), tell);
            } else if link.phase == LinkPhase::Up && now >= link.heard + self.patience() {
                let seconds = self.patience().as_secs_f64();
                let what = format!("nothing came from it for {seconds} s (see --host-timeout)");
                self.take_down(number, &what, tell);
            }
        }
        Ok(())
    }

    fn read(&mut self, number: usize, now: Duration, tell: &mut TellLink<'_>) -> io::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        let link = &mut self.links[number];
        let Some(from) = &link.from else { return Ok(()) };
        let count = match rustix::io::read(from, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Ok(count) => count,
            Err(_) => 0,
        };
        if count == 0 {
            self.events.remove(from)?;
            link.close();
            link.down_at = Some(if link.ended.is_some() { now } else { now + LAST_WORDS });
            return Ok(());
        }
        link.heard = now;
        if let Err(error) = self.take_in(number, &bytes[..count], now, tell) {
            self.take_down(number, &format!("what came from it is {error}"), tell);
        }
        Ok(())
    }

    /// Decodes and handles the next bytes of a channel.
    fn take_in(
        &mut self,
        number: usize,
        bytes: &[u8],
        now: Duration,
        tell: &mut TellLink<'_>,
    ) -> Result<(), Malformed> {
        let link = &mut self.links[number];
        match &mut link.phase {
            LinkPhase::Down => return Ok(()),
            LinkPhase::Up | LinkPhase::Joining | LinkPhase::Greeted(_) => link.decoder.feed(bytes),
            LinkPhase::Greeting(before) => {
                before.extend_from_slice(bytes);
                let Some((greeting, end)) = Greeting::find(before)? else { return Ok(()) };
                let rest = before.split_off(end);
                link.decoder.feed(&rest);
                if let Err(what) = self.greet(number, &greeting, tell) {
                    self.take_down(number, &what, tell);
                    return Ok(());
                }
                self.send_plans(now);
            }
        }
        let link = &mut self.links[number];
        while let Some((host, frame)) = link.decoder.next()? {
            if matches!(link.phase, LinkPhase::Greeted(_)) {
                return Err(Malformed("a frame before the plan"));
            }
            link.come_up();
            if frame == Frame::Beat {
                continue;
            }
            if !link.hosts.contains(&host) {
                return Err(Malformed("a frame of another host"));
            }
            if matches!(frame, Frame::Done | Frame::Lost(_)) {
                link.open = link.open.saturating_sub(1);
            }
            tell(LinkNews::Frame(host, frame));
        }
        Ok(())
    }

    /// Takes in a greeting; or returns why the daemon cannot be used.
    fn greet(
        &mut self,
        number: usize,
        greeting: &Greeting,
        tell: &mut TellLink<'_>,
    ) -> Result<(), String> {
        let own = own_greeting();
        if let Some(differs) = greeting.differs(&own) {
            return Err(differs);
        }
        let link = &mut self.links[number];
        let name = self.plan.name(link.hosts.start);
        let lines = [link.last_line.take(), greeting.clock_warning(&own)];
        for line in lines.into_iter().flatten() {
            tell(LinkNews::Said(format!("host {name}: {line}")));
        }
        link.phase = LinkPhase::Greeted(greeting.machine().to_owned());
        link.down_at = link.down_at.filter(|_| link.ended.is_some());
        Ok(())
    }

    /// Sends the daemons their plans, once all have greeted.
    fn send_plans(&mut self, now: Duration) {
        let machine = |link: &DaemonLink| match &link.phase {
            LinkPhase::Greeted(machine) => Some((machine.clone(), link.hosts.start)),
            _ => None,
        };
        let Some(machines) = self.links.iter().map(machine).collect::<Option<Vec<_>>>() else {
            return;
        };
        for (number, link) in self.links.iter_mut().enumerate() {
            let (machine, own) = &machines[number];
            let ranks_there = |others: &[(String, u32)]| {
                let same = others.iter().filter(|(other, _)| !other.is_empty() && other == machine);
                same.map(|(_, host)| self.plan.places[*host as usize].ranks).sum()
            };
            let mut plan = self.plan.clone();
            (plan.own, plan.until) = (link.hosts.start, link.hosts.end);
            plan.beside = (ranks_there(&machines[..number]), ranks_there(&machines[number + 1..]));
            // The own host has no agent that could be slow.
            plan.network = plan.network.filter(|_| !self.plan.places[*own as usize].is_own);
            let connects = plan.network.is_some();
            link.phase = LinkPhase::Joining;
            link.down_at = Some(now + KNOCK_LIMIT + plan.patience());
            link.to.push(link.hosts.start, &Frame::Plan(Box::new(plan)));
            if !connects {
                link.come_up();
            }
        }
    }

    /// Makes the connections of daemons the channels of their links.
    fn let_in(&mut self, now: Duration) -> io::Result<()> {
        let Some(gate) = &mut self.gate else { return Ok(()) };
        let links = &mut self.links;
        loop {
            let expects = |host| links.iter().any(|link| link.expects(host));
            let Some(Admitted { host, stream, seals }) = gate.handle_ready(now, &expects)? else {
                return Ok(());
            };
            let number = links.iter().position(|link| link.expects(host));
            let (number, link) = number.map(|at| (at, &mut links[at])).expect("it was expected");
            let to = std::mem::replace(&mut link.to, FrameSink::to_daemon(&stream, seals.down)?);
            let from = link.from.replace(stream.into()).expect("it was expected");
            self.events.remove(&from)?;
            self.events.add(link.from.as_ref().expect("it was put there"), 2 * number as u64)?;
            link.unused = Some((from, to));
            (link.decoder, link.heard) = (Decoder::sealed(seals.up), now);
            link.come_up();
        }
    }

    /// Passes on lines of the agents, except the last line of an agent that may be about to fail.
    fn read_errors(&mut self, now: Duration, tell: &mut TellLink<'_>) -> io::Result<()> {
        let (links, plan) = (&mut self.links, &self.plan);
        self.errors.read_ready(now, |source, piece| {
            let Some(link) = links.get_mut(source.rank as usize) else { return };
            for line in String::from_utf8_lossy(piece).lines() {
                let said = match link.phase {
                    LinkPhase::Greeting(_) => link.last_line.replace(line.trim_end().to_owned()),
                    _ => Some(line.to_owned()),
                };
                if let Some(said) = said {
                    let name = plan.name(link.hosts.start);
                    tell(LinkNews::Said(format!("host {name}: {said}")));
                }
            }
        })
    }

    fn handle_end(
        &mut self,
        number: usize,
        now: Duration,
        tell: &mut TellLink<'_>,
    ) -> io::Result<()> {
        let index = u32::try_from(number).expect("there are few");
        let Some(ending) = self.agents.take_ending(index)? else { return Ok(()) };
        let link = &mut self.links[number];
        if let Some(pidfd) = link.pidfd.take() {
            self.events.remove(pidfd)?;
        }
        link.ended = Some(ending);
        // A process that the agent has started may hold the channel open.
        let limit = if link.from.is_some() { LAST_WORDS } else { Duration::ZERO };
        let down_at = link.down_at.map_or(now + limit, |at| at.min(now + limit));
        link.down_at = Some(down_at);
        self.handle_time(now, tell)
    }

    /// Why a link is down: its agent has ended, its channel is closed, or it is late.
    fn last_words_of(&self, number: usize) -> String {
        let link = &self.links[number];
        let program = self.agent_of(link.hosts.start).program;
        let agent = match self.plan.places[link.hosts.start as usize].is_own {
            true => "its daemon".to_owned(),
            false => format!("its agent {}", program.to_string_lossy()),
        };
        let what = match (&link.ended, &link.from) {
            (Some(ending), _) => format!("{agent} {ending}"),
            (None, None) => format!("{agent} has closed the connection"),
            (None, Some(_)) => {
                let limit = match link.phase {
                    LinkPhase::Greeting(_) => GREETING_LIMIT,
                    _ => KNOCK_LIMIT + self.patience(),
                };
                format!("it gave no answer within {} s", limit.as_secs_f64())
            }
        };
        match &link.last_line {
            Some(line) => format!("{what}: {line}"),
            None => what,
        }
    }

    /// Ends a link, and reports its hosts as lost if something of the job may be left there.
    fn take_down(&mut self, number: usize, what: &str, tell: &mut TellLink<'_>) {
        let link = &mut self.links[number];
        let was = std::mem::replace(&mut link.phase, LinkPhase::Down);
        self.agents.send_to(number, Signal::KILL);
        if let Some(from) = &link.from {
            // Fails if it is not in the set, which does no harm.
            let _ = self.events.remove(from);
        }
        link.close();
        if link.open == 0 {
            return;
        }
        let name = self.plan.name(link.hosts.start);
        let behind = match link.hosts.end - link.hosts.start - 1 {
            0 => String::new(),
            1 => " and the one behind it".to_owned(),
            count => format!(" and {count} behind it"),
        };
        let lost = if was == LinkPhase::Up { "lost host" } else { "no daemon on host" };
        let reason = format!("{lost} {name}{behind}: {what}");
        tell(LinkNews::Lost(link.hosts.clone(), reason));
    }
}

impl DaemonLink {
    /// Whether the daemon of this host may still connect.
    fn expects(&self, host: u32) -> bool {
        let is_there = self.from.is_some() && self.ended.is_none();
        self.hosts.start == host && self.phase == LinkPhase::Joining && is_there
    }

    /// Marks the link as up, now that the channel is known, and sends the queued frames.
    fn come_up(&mut self) {
        if self.phase == LinkPhase::Joining {
            self.phase = LinkPhase::Up;
            self.down_at = self.down_at.filter(|_| self.ended.is_some());
            let queued = std::mem::take(&mut self.queued);
            queued.iter().for_each(|(host, frame)| self.to.push(*host, frame));
        }
    }

    /// Closes the channel, a connection in both directions: the other end may wait for that, and
    /// the thread that writes may wait for the other end.
    fn close(&mut self) {
        if let Some(from) = self.from.take()
            && self.unused.is_some()
        {
            // Fails if it is closed already.
            let _ = TcpStream::from(from).shutdown(Shutdown::Both);
        }
    }
}

/// Makes sure that this process may open enough files for its links to so many hosts.
pub(super) fn allow_files(hosts: usize, by_network: bool) -> Result<(), LaunchError> {
    let links = u32::try_from(hosts).unwrap_or(u32::MAX).min(2 * MOST_CHILDREN);
    allow_files_of("daemons", links, FILES_PER_LINK[usize::from(by_network)]).map(drop)
}

/// Opens a gate at this host's address in the network, and writes its address into `network`.
fn open_gate(network: &mut PlannedNetwork) -> Result<Gate, LaunchError> {
    let refused = |reason| {
        let host = String::new();
        let reason = format!("host {}: {reason} (see --daemon-network)", own_host_name());
        LaunchError::Host { host, reason, code: 1 }
    };
    let named = network.name.parse::<DaemonNetwork>().map_err(|it| refused(it.to_string()))?;
    let address = named.own_address();
    let address =
        address.ok_or_else(|| refused(format!("it has no address in {}", network.name)))?;
    let gate = Gate::open(address, &network.secret)
        .map_err(|error| refused(format!("it cannot listen at {address}: {error}")))?;
    network.parent = gate.address().to_string();
    Ok(gate)
}

impl AsFd for DaemonLinks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// The interval at which each end sends a beat.
pub(super) fn beat(plan: &HostPlan) -> Duration {
    BEAT.min(plan.patience() / 4)
}

/// This program's greeting now.
pub(super) fn own_greeting() -> Greeting {
    let clock = Duration::try_from(clock_gettime(ClockId::Realtime)).unwrap_or_default();
    let clock_ms = u64::try_from(clock.as_millis()).unwrap_or(u64::MAX);
    Greeting::own(clock_ms, machine().unwrap_or_default())
}
