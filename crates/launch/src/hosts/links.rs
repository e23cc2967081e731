//! The daemons that this process has started: by an agent such as `ssh`, whose standard input and
//! output are the channel.
//!
//! ```text
//!   agent ends ──► pidfd ──┐
//!   frames ──► its stdout ─┼─ epoll ──► news: frames, lines, hosts that are lost
//!   lines ──► its stderr ──┘
//!   frames ◄── its stdin ◄── OutputSink, a thread that writes
//! ```
//!
//! A link begins with the daemon's greeting; frames for it wait for that. It is down when the agent
//! has ended, the channel is closed or malformed, or nothing has come for too long. A link that
//! goes down takes all hosts behind it with it, and is reported once.

use std::{
    ffi::OsString,
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

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
    plan::HostPlan,
    tree::parts,
};
use crate::{
    LaunchError, Program, ending::Ending, events::EventSet, intake::Intake, ranks::RankProcesses,
    sink::OutputSink, spawn::Recipe,
};

/// How long a daemon may take to greet. Agents that reach no host report that, and sooner.
pub(super) const GREETING_LIMIT: Duration = Duration::from_secs(60);

/// How often each end says that it is there, at most.
const BEAT: Duration = Duration::from_secs(1);

/// How long to wait for an agent's exit code once its channel is closed, and the other way round.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What a channel is read by.
pub(super) const READ_BYTES: usize = 64 << 10;

/// What an event is about: twice a link's number, and one more if its agent has ended.
const ERRORS: u64 = u64::MAX;

/// What comes from the daemons.
#[derive(Debug)]
pub(super) enum LinkNews {
    /// A frame from this host.
    Frame(u32, Frame),
    /// These hosts are gone.
    Lost(Range<u32>, String),
    /// One line for a person.
    Said(String),
}

/// Where it goes.
pub(super) type TellLink<'t> = dyn FnMut(LinkNews) + 't;

/// Daemons and those behind them.
pub(super) struct DaemonLinks {
    /// First, so that whatever happens the agents are gone before anything else is.
    agents: RankProcesses,
    links: Vec<DaemonLink>,
    errors: Intake,
    plan: HostPlan,
    beat_at: Duration,
    events: EventSet,
}

struct DaemonLink {
    /// Its own host, and those behind it.
    hosts: Range<u32>,
    phase: LinkPhase,
    /// The agent's output until it ends.
    from: Option<OwnedFd>,
    decoder: Decoder,
    to: OutputSink,
    /// Frames that wait for the greeting.
    queued: Vec<u8>,
    pidfd: Option<OwnedFd>,
    ended: Option<Ending>,
    /// When something last came.
    heard: Duration,
    /// When it counts as down, whatever comes.
    down_at: Option<Duration>,
    /// Hosts of which something may be left.
    open: u32,
    last_line: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LinkPhase {
    /// What came before the greeting.
    Greeting(Vec<u8>),
    Up,
    Down,
}

impl DaemonLinks {
    /// Starts the daemons of these hosts, or of as many that the others follow.
    pub(super) fn start(
        plan: &HostPlan,
        hosts: Range<u32>,
        now: Duration,
    ) -> Result<DaemonLinks, LaunchError> {
        let system = |source| LaunchError::System { what: "prepare the other hosts", source };
        let events = EventSet::new().map_err(system)?;
        let errors = Intake::new(1, 0, false).map_err(system)?;
        let mut links = DaemonLinks {
            agents: RankProcesses::default(),
            links: Vec::new(),
            errors,
            plan: plan.clone(),
            beat_at: now + beat(plan),
            events,
        };
        links.events.add(&links.errors, ERRORS).map_err(|it| system(it.into()))?;
        let is_own = |host: u32| plan.places[host as usize].is_own;
        for hosts in parts(hosts, is_own) {
            links.add(hosts, now)?;
        }
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
            to: OutputSink::new(to.into()).map_err(system)?,
            queued: Vec::new(),
            pidfd: Some(pidfd),
            ended: None,
            heard: now,
            down_at: Some(now + GREETING_LIMIT),
            last_line: None,
        });
        Ok(())
    }

    /// What is run to have a daemon on a host.
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

    /// Sends a frame towards a host, or to all.
    pub(super) fn send(&mut self, host: u32, frame: &Frame) {
        for link in &mut self.links {
            if host != ALL && !link.hosts.contains(&host) {
                continue;
            }
            match link.phase {
                LinkPhase::Up => link.to.push(|out| frame.put(host, out)),
                LinkPhase::Greeting(_) => frame.put(host, &mut link.queued),
                LinkPhase::Down => {}
            }
        }
    }

    /// The hosts that are reached as this one is.
    pub(super) fn part_of(&self, host: u32) -> Range<u32> {
        let all = self.links.iter().map(|link| &link.hosts);
        all.into_iter().find(|hosts| hosts.contains(&host)).cloned().unwrap_or_default()
    }

    /// Drops hosts that have not greeted: nothing is to start any more.
    pub(super) fn cut_silent(&mut self, now: Duration) {
        for (number, link) in self.links.iter_mut().enumerate() {
            if matches!(link.phase, LinkPhase::Greeting(_)) {
                link.down_at = Some(now);
                self.agents.send_to(number, Signal::KILL);
            }
        }
    }

    /// Waits until everything is written, but not longer than this.
    pub(super) fn flush(&mut self, limit: Duration) {
        self.links.iter().for_each(|link| link.to.wait(limit));
    }

    /// Counts as having heard from all daemons: this process was stopped, not they.
    pub(super) fn forgive(&mut self, now: Duration) {
        self.links.iter_mut().for_each(|link| link.heard = now);
    }

    /// Ends and reaps the agents: they have nothing left to report.
    pub(super) fn shut(&mut self) {
        self.agents.clear();
        for link in &mut self.links {
            (link.phase, link.from, link.pidfd) = (LinkPhase::Down, None, None);
        }
    }

    /// Whether no link is left.
    pub(super) fn are_down(&self) -> bool {
        self.links.iter().all(|link| link.phase == LinkPhase::Down)
    }

    /// Whether this child is an agent.
    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.agents.contains(pid)
    }

    /// When `handle_time` has something to do next.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        let live = self.links.iter().filter(|link| link.phase != LinkPhase::Down);
        let silent =
            |link: &DaemonLink| (link.phase == LinkPhase::Up).then(|| link.heard + self.patience());
        let each = live.flat_map(|link| [link.down_at, silent(link), Some(self.beat_at)]);
        each.flatten().min()
    }

    fn patience(&self) -> Duration {
        self.plan.patience()
    }

    /// Takes in what has come.
    pub(super) fn handle_ready(
        &mut self,
        now: Duration,
        tell: &mut TellLink<'_>,
    ) -> io::Result<()> {
        for token in self.events.ready()? {
            match token {
                ERRORS => self.read_errors(now, tell)?,
                token if token % 2 == 0 => self.read((token / 2) as usize, now, tell)?,
                token => self.handle_end((token / 2) as usize, now, tell)?,
            }
        }
        Ok(())
    }

    /// Reports that this end is alive, and takes down the links whose other end is not.
    pub(super) fn handle_time(&mut self, now: Duration, tell: &mut TellLink<'_>) -> io::Result<()> {
        if now >= self.beat_at {
            self.beat_at = now + beat(&self.plan);
            for link in self.links.iter_mut().filter(|link| link.phase == LinkPhase::Up) {
                link.to.push(|out| Frame::Beat.put(ALL, out));
            }
        }
        for number in 0..self.links.len() {
            let link = &self.links[number];
            if link.phase == LinkPhase::Down {
                continue;
            }
            if link.down_at.is_some_and(|at| now >= at) {
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
            if let Some(from) = link.from.take() {
                self.events.remove(from)?;
            }
            link.down_at = Some(if link.ended.is_some() { now } else { now + LAST_WORDS });
            return Ok(());
        }
        link.heard = now;
        if let Err(error) = self.take_in(number, &bytes[..count], tell) {
            self.take_down(number, &format!("what came from it is {error}"), tell);
        }
        Ok(())
    }

    /// Takes in the next bytes of a channel.
    fn take_in(
        &mut self,
        number: usize,
        bytes: &[u8],
        tell: &mut TellLink<'_>,
    ) -> Result<(), Malformed> {
        let link = &mut self.links[number];
        match &mut link.phase {
            LinkPhase::Down => return Ok(()),
            LinkPhase::Up => link.decoder.feed(bytes),
            LinkPhase::Greeting(before) => {
                before.extend_from_slice(bytes);
                let Some((greeting, end)) = Greeting::find(before)? else { return Ok(()) };
                let rest = before.split_off(end);
                link.decoder.feed(&rest);
                if let Some(what) = self.greet(number, &greeting, tell) {
                    self.take_down(number, &what, tell);
                    return Ok(());
                }
            }
        }
        let link = &mut self.links[number];
        while let Some((host, frame)) = link.decoder.next()? {
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

    /// Answers a greeting with the plan; or says why not.
    fn greet(
        &mut self,
        number: usize,
        greeting: &Greeting,
        tell: &mut TellLink<'_>,
    ) -> Option<String> {
        let own = own_greeting();
        if let Some(differs) = greeting.differs(&own) {
            return Some(differs);
        }
        let link = &mut self.links[number];
        let name = self.plan.name(link.hosts.start);
        let lines = [link.last_line.take(), greeting.clock_warning(&own)];
        for line in lines.into_iter().flatten() {
            tell(LinkNews::Said(format!("host {name}: {line}")));
        }
        (self.plan.own, self.plan.until) = (link.hosts.start, link.hosts.end);
        link.phase = LinkPhase::Up;
        link.down_at = None;
        let plan = Frame::Plan(Box::new(self.plan.clone()));
        let queued = std::mem::take(&mut link.queued);
        link.to.push(|out| {
            plan.put(link.hosts.start, out);
            out.extend_from_slice(&queued);
        });
        None
    }

    /// Passes on what agents say, all but the last line of one that may be about to fail.
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
        // Something that it has started may hold the channel open.
        let limit = if link.from.is_some() { LAST_WORDS } else { Duration::ZERO };
        let down_at = link.down_at.map_or(now + limit, |at| at.min(now + limit));
        link.down_at = Some(down_at);
        self.handle_time(now, tell)
    }

    /// Why a link is down whose agent has ended or whose channel is closed.
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
                format!("it gave no answer within {} s", GREETING_LIMIT.as_secs_f64())
            }
        };
        match &link.last_line {
            Some(line) => format!("{what}: {line}"),
            None => what,
        }
    }

    /// Ends a link, and reports its hosts as lost if something of theirs may be left.
    fn take_down(&mut self, number: usize, what: &str, tell: &mut TellLink<'_>) {
        let link = &mut self.links[number];
        let was = std::mem::replace(&mut link.phase, LinkPhase::Down);
        self.agents.send_to(number, Signal::KILL);
        if let Some(from) = link.from.take() {
            // Fails for one that is not in the set.
            let _ = self.events.remove(from);
        }
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

impl AsFd for DaemonLinks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// How often each end says that it is there.
pub(super) fn beat(plan: &HostPlan) -> Duration {
    BEAT.min(plan.patience() / 4)
}

/// What this program says of itself now.
pub(super) fn own_greeting() -> Greeting {
    let clock = Duration::try_from(clock_gettime(ClockId::Realtime)).unwrap_or_default();
    Greeting::own(u64::try_from(clock.as_millis()).unwrap_or(u64::MAX))
}
