//! A host's part of a job: `hikyaku daemon`, which only the launcher starts.
//!
//! The daemon holds the ranks of its host and the job's memory there, starts the daemons of the
//! hosts behind it, and passes frames between them and the launcher. It makes only one decision:
//! when the launcher is gone, or silent for too long, it ends its ranks.

use std::{
    env,
    io::{self, Write},
    net::TcpStream,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use hikyaku_nic::fabric::Name;
use hikyaku_shm::{Hosts as HostsOfMemory, Job, JobConfig};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Signal,
};

use super::{
    bytes::Malformed,
    cards::CardGathering,
    frame::{ALL, Decoder, Frame},
    head::WINDOW,
    input::InputTarget,
    links::{
        self, DaemonLinks, GREETING_LIMIT, LinkNews, READ_BYTES, TellLink, beat, own_greeting,
    },
    plan::HostPlan,
    wire::{FrameSink, hang_up, knock},
};
use crate::{
    Bind, LaunchError,
    crew::{Crew, News, Tell},
    events::EventSet,
    interrupts::Interrupts,
    local::{LocalRanks, Start, allow_files},
    orphans::Orphans,
    placement::allowed_cpus,
};

/// Event tokens.
const LAUNCHER: u64 = 0;
const LOCAL: u64 = 1;
const LINKS: u64 = 2;
const SIGNALS: u64 = 3;
const INPUT: u64 = 4;

/// The interval at which the daemon polls the ranks' addresses, at first and at most.
const ASK_CARDS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// How long a daemon waits for its plan: the launcher sends it once all daemons have greeted.
const PLAN_LIMIT: Duration = GREETING_LIMIT.saturating_add(Duration::from_secs(10));

/// How long the launcher may take to read the last frames.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Runs the daemon of a host: sends a greeting on standard output, reads the plan from standard
/// input, and ends with the job. `of_host`: variables that ranks of this host get if they are not
/// set.
///
/// # Errors
/// The launcher is gone, or its frames are not valid for this program.
pub fn daemon(of_host: &[(&str, &str)]) -> Result<(), String> {
    let mut out = io::stdout();
    let greeted = out.write_all(own_greeting().line().as_bytes()).and_then(|()| out.flush());
    greeted.map_err(|error| format!("cannot greet the launcher: {error}"))?;
    let mut decoder = Decoder::default();
    let plan = await_plan(&mut decoder)?;
    let memory = |plan: &HostPlan| {
        let ranks = u32::try_from(plan.hosts_of_ranks().len()).unwrap_or(u32::MAX);
        let per_node = plan.job.ranks_per_node.unwrap_or(ranks).min(ranks);
        let of = plan.hosts_of_ranks();
        let names = plan.places.iter().map(|place| Name::new(&place.name)).collect();
        let (own, key) = (plan.own, plan.key);
        let beside = ranks_beside(plan, allowed_cpus().len());
        let hosts = HostsOfMemory { own, of, names, key, tells_ends: true, beside };
        let config = JobConfig::new(ranks, per_node);
        let config = if plan.places.len() > 1 { config.across(hosts) } else { config };
        Job::create(&JobConfig { long_stores: plan.launch().long_stores, ..config })
    };
    let failed = |error: &dyn std::fmt::Display| format!("cannot run the daemon: {error}");
    let channel = Channel::choose(&plan, decoder).map_err(|error| failed(&error))?;
    let mut daemon = Daemon::new(plan, channel).map_err(|error| failed(&error))?;
    match memory(&daemon.plan) {
        Ok(job) => {
            let started = daemon.start(&job, of_host);
            let local = daemon.refuse_unless(started);
            daemon.run(local, &job)
        }
        Err(error) => {
            daemon.refuse_unless::<()>(Err(error.into()));
            daemon.wait_for_the_end()
        }
    }
}

/// The number of ranks of other hosts with which the ranks of this one compete for its `cpus` CPUs.
/// Ranks that are bound to CPUs of their own compete with none.
fn ranks_beside(plan: &HostPlan, cpus: usize) -> u32 {
    let (before, after) = plan.beside;
    let all = before + plan.places[plan.own as usize].ranks + after;
    let is_bound = plan.launch().bind != Bind::None && all as usize <= cpus;
    if is_bound { 0 } else { before + after }
}

/// Waits for the launcher's plan.
fn await_plan(decoder: &mut Decoder) -> Result<HostPlan, String> {
    let start = Instant::now();
    let stdin = io::stdin();
    loop {
        match decoder.next() {
            Ok(Some((host, Frame::Plan(plan)))) if host == plan.own => {
                plan.check().map_err(|error| format!("what the launcher says is {error}"))?;
                return Ok(*plan);
            }
            Ok(Some(_)) => return Err("the launcher does not say what to start".into()),
            Ok(None) => {}
            Err(error) => return Err(format!("what the launcher says is {error}")),
        }
        let left = PLAN_LIMIT.saturating_sub(start.elapsed());
        let left = Timespec::try_from(left).ok();
        let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], left.as_ref());
        let mut bytes = vec![0; READ_BYTES];
        match ready.and_then(|count| match count {
            0 => Err(Errno::TIMEDOUT),
            _ => rustix::io::read(&stdin, &mut bytes),
        }) {
            Ok(0) => return Err("the launcher has gone".into()),
            Ok(count) => decoder.feed(&bytes[..count]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("cannot read what the launcher says: {error}")),
        }
    }
}

/// The channel to the launcher, or to the daemon in between.
struct Channel {
    from: OwnedFd,
    decoder: Decoder,
    up: FrameSink,
    /// Whether it is a TCP connection and not the agent.
    is_connection: bool,
}

impl Channel {
    /// A connection if the plan names a network and it can be made; else the agent. If the
    /// connection fails, the launcher receives the reason.
    fn choose(plan: &HostPlan, decoder: Decoder) -> io::Result<Channel> {
        let connection = plan.network.as_ref().map(|network| knock(network, plan.own));
        if let Some(Ok((stream, seals))) = connection {
            let up = FrameSink::to_daemon(&stream, seals.up)?;
            let (from, decoder) = (stream.into(), Decoder::sealed(seals.down));
            return Ok(Channel { from, decoder, up, is_connection: true });
        }
        let from = io::stdin().as_fd().try_clone_to_owned()?;
        let mut up = FrameSink::to_agent(io::stdout().as_fd().try_clone_to_owned()?)?;
        if let (Some(network), Some(Err(error))) = (&plan.network, connection) {
            let (name, at) = (plan.name(plan.own), &network.parent);
            let agent = plan.agent.first().map(|it| it.to_string_lossy()).unwrap_or_default();
            let line = format!("host {name}: cannot connect to {at} ({error}), goes on by {agent}");
            up.push(plan.own, &Frame::Said(line));
        }
        Ok(Channel { from, decoder, up, is_connection: false })
    }
}

/// The daemon's state without the ranks.
struct Daemon {
    plan: HostPlan,
    channel: Channel,
    links: Option<DaemonLinks>,
    interrupts: Interrupts,
    orphans: Orphans,
    input: Option<InputTarget>,
    /// Bytes of each stream that the daemon may still send.
    windows: [i64; 2],
    reading: [bool; 2],
    /// When the last bytes of the launcher arrived.
    heard: Duration,
    /// Whether the launcher has announced that it stops, and is silent for that reason.
    is_stopped: bool,
    beat_at: Duration,
    /// When to poll the ranks' addresses next, and the interval after that.
    ask_cards: Option<(Duration, Duration)>,
    /// Ranks of this host whose address is not known yet.
    without_card: Vec<u32>,
    /// Addresses of ranks here and on the hosts behind, for the launcher.
    cards: CardGathering,
    phase: DaemonPhase,
    events: EventSet,
    start: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DaemonPhase {
    Running,
    /// The job is over.
    Ending,
    /// The launcher is gone, or sends invalid frames.
    Abandoned(String),
}

impl Daemon {
    fn new(plan: HostPlan, channel: Channel) -> io::Result<Daemon> {
        let events = EventSet::new()?;
        let (interrupts, orphans) = (Interrupts::catch()?, Orphans::adopt()?);
        events.add(&channel.from, LAUNCHER)?;
        events.add(&interrupts, SIGNALS)?;
        let mut daemon = Daemon {
            channel,
            links: None,
            interrupts,
            orphans,
            input: None,
            windows: [i64::from(WINDOW); 2],
            reading: [true; 2],
            heard: Duration::ZERO,
            is_stopped: false,
            beat_at: beat(&plan),
            ask_cards: None,
            without_card: Vec::new(),
            cards: CardGathering::new(plan.ranks_of_all(&(plan.own..plan.until)).len()),
            phase: DaemonPhase::Running,
            events,
            start: Instant::now(),
            plan,
        };
        let behind = daemon.plan.own + 1..daemon.plan.until;
        if !behind.is_empty() {
            let _ = links::allow_files(behind.len(), daemon.plan.network.is_some());
            match DaemonLinks::start(&daemon.plan, behind.clone(), Duration::ZERO) {
                Ok(links) => {
                    daemon.events.add(&links, LINKS)?;
                    daemon.links = Some(links);
                }
                Err(error) => daemon.report_lost(behind, &error.to_string()),
            }
        }
        Ok(daemon)
    }

    /// Starts the ranks of this host.
    fn start<'j>(
        &mut self,
        job: &'j Job,
        of_host: &[(&str, &str)],
    ) -> Result<LocalRanks<'j>, LaunchError> {
        let system = |source| LaunchError::System { what: "prepare the ranks", source };
        let ranks = self.plan.ranks_of(self.plan.own);
        let count = ranks.end - ranks.start;
        let (launch, programs) = (self.plan.launch(), self.plan.programs());
        let before = (0..).zip(&programs);
        for (_, program) in before {
            let folder = program.folder.as_deref().unwrap_or(std::path::Path::new("/"));
            if !folder.is_dir() {
                let reason = "its folder does not exist there: start it from one that all have";
                return Err(LaunchError::Program { program: folder.into(), reason });
            }
        }
        let files = allow_files(count)?;
        let (out, err) = self.plan.interactive;
        let mut local = LocalRanks::new(job, ranks.start, [out, err]).map_err(system)?;
        let mut stdin = None;
        if ranks.start == 0 {
            let (reader, target) = InputTarget::new().map_err(system)?;
            (stdin, self.input) = (Some(reader), Some(target));
        }
        let allowed = &allowed_cpus()[..];
        let mut variables = self.plan.variables.clone();
        let is_set = |name: &str| {
            env::var_os(name).is_some() || self.plan.variables.iter().any(|(set, _)| set == name)
        };
        let unset = of_host.iter().filter(|(name, _)| !is_set(name));
        variables.extend(unset.map(|(name, value)| (name.into(), value.into())));
        let variables = &variables[..];
        let start = Start {
            launch: &launch,
            programs: &programs,
            count,
            stdin,
            files,
            beside: self.plan.beside,
            allowed,
            variables,
        };
        local.start(start, || false)?;
        self.events.add(&local, LOCAL).map_err(|errno| system(errno.into()))?;
        self.tell(&Frame::Started(local.pids()));
        if self.plan.places.len() > 1 {
            self.without_card = ranks.collect();
            self.ask_cards = Some((self.now(), ASK_CARDS[0]));
        }
        Ok(local)
    }

    /// Reports to the launcher why there are no ranks.
    fn refuse_unless<T>(&mut self, started: Result<T, LaunchError>) -> Option<T> {
        let refused = |error: &LaunchError| Frame::Refused(error.code(), error.to_string());
        started.inspect_err(|error| self.tell(&refused(error))).ok()
    }

    /// Waits for the job's end without ranks of its own.
    fn wait_for_the_end(self) -> Result<(), String> {
        let job = Job::create(&JobConfig::new(1, 1));
        match job {
            Ok(job) => self.run(None, &job),
            // No shared memory can be created, which the launcher has been told.
            Err(_) => {
                self.channel.up.wait(FLUSH_LIMIT);
                Ok(())
            }
        }
    }

    /// Runs until the job is over and nothing of it is left on this host.
    fn run(mut self, mut local: Option<LocalRanks<'_>>, job: &Job) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot supervise the ranks: {error}");
        // Frames that arrived behind the plan.
        self.take_in(&mut local, job).map_err(failed)?;
        while self.phase == DaemonPhase::Running {
            self.turn(&mut local, job).map_err(failed)?;
        }
        if let DaemonPhase::Abandoned(why) = self.phase {
            drop(local);
            self.orphans.end();
            return Err(why);
        }
        if let Some(local) = &mut local {
            local.clear();
            self.orphans.end_but(|pid| self.links.as_ref().is_some_and(|it| it.contains(pid)));
            let (now, own, up) = (self.now(), self.plan.own, &mut self.channel.up);
            let finish = local.finish(now, &mut |news| pass_on(news, own, up));
            finish.map_err(failed)?;
        }
        drop(local);
        let mut nobody = None;
        if let Some(line) = self.links.as_ref().and_then(DaemonLinks::strangers) {
            self.tell(&Frame::Said(format!("host {}: {line}", self.plan.name(self.plan.own))));
        }
        self.tell(&Frame::Done);
        while self.links.as_ref().is_some_and(|links| !links.are_down())
            && self.phase == DaemonPhase::Ending
        {
            self.turn(&mut nobody, job).map_err(failed)?;
        }
        self.channel.up.wait(FLUSH_LIMIT);
        if self.channel.is_connection {
            hang_up(TcpStream::from(self.channel.from), FLUSH_LIMIT);
        }
        Ok(())
    }

    /// Waits for the next event or deadline, and handles it.
    fn turn(&mut self, local: &mut Option<LocalRanks<'_>>, job: &Job) -> io::Result<()> {
        let left = self.deadline(local.as_ref()).saturating_sub(self.now());
        for token in self.events.wait(Some(left))? {
            match token {
                LAUNCHER => self.read(local, job)?,
                LINKS => self.run_links(DaemonLinks::handle_ready)?,
                SIGNALS => self.handle_signals(local.as_ref()),
                INPUT => self.run_input()?,
                _ => self.run_local(local, job, LocalRanks::handle_ready)?,
            }
        }
        self.run_links(DaemonLinks::handle_time)?;
        self.run_local(local, job, LocalRanks::handle_time)?;
        self.handle_time(job);
        Ok(())
    }

    fn deadline(&self, local: Option<&LocalRanks<'_>>) -> Duration {
        let silent = (!self.is_stopped).then(|| self.heard + self.plan.patience());
        let links = self.links.as_ref().and_then(DaemonLinks::poll_deadline);
        let local = local.and_then(LocalRanks::poll_deadline);
        let cards = self.ask_cards.map(|(at, _)| at);
        let gathered = self.cards.poll_deadline();
        [silent, links, local, cards, gathered]
            .into_iter()
            .flatten()
            .fold(self.beat_at, Duration::min)
    }

    fn handle_time(&mut self, job: &Job) {
        let now = self.now();
        if now >= self.beat_at {
            self.beat_at = now + beat(&self.plan);
            // If the other end does not read, the previous beat is still unsent.
            if self.channel.up.is_done() {
                self.channel.up.push(ALL, &Frame::Beat);
            }
        }
        if let Some(error) = self.channel.up.take_error() {
            self.abandon(error);
        }
        if !self.is_stopped && now >= self.heard + self.plan.patience() {
            let seconds = self.plan.patience().as_secs_f64();
            self.abandon(format!("nothing came from the launcher for {seconds} s"));
        }
        if let Some((at, after)) = self.ask_cards
            && now >= at
        {
            self.pass_cards(job);
            let next = (now + after, (2 * after).min(ASK_CARDS[1]));
            self.ask_cards = (!self.without_card.is_empty()).then_some(next);
        }
        for frame in self.cards.take(now) {
            self.tell(&frame);
        }
    }

    /// Gathers new addresses of ranks to be passed on.
    fn pass_cards(&mut self, job: &Job) {
        let mut cards = Vec::new();
        self.without_card.retain(|&rank| match job.card(rank) {
            Some(card) => {
                cards.push((rank, card));
                false
            }
            None => true,
        });
        if !cards.is_empty() {
            self.cards.put(self.now(), cards);
        }
    }

    fn read(&mut self, local: &mut Option<LocalRanks<'_>>, job: &Job) -> io::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        match rustix::io::read(&self.channel.from, &mut bytes) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Ok(0) | Err(_) => self.abandon("the launcher has gone".into()),
            Ok(count) => {
                self.heard = self.now();
                self.is_stopped = false;
                self.channel.decoder.feed(&bytes[..count]);
                self.take_in(local, job)?;
            }
        }
        Ok(())
    }

    fn take_in(&mut self, local: &mut Option<LocalRanks<'_>>, job: &Job) -> io::Result<()> {
        loop {
            match self.channel.decoder.next() {
                Ok(Some((host, frame))) => self.handle(host, frame, local, job)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.abandon(format!("what the launcher says is {error}"));
                    return Ok(());
                }
            }
        }
    }

    /// Passes a frame on to the hosts behind, and carries it out if it is for this host.
    fn handle(
        &mut self,
        host: u32,
        frame: Frame,
        local: &mut Option<LocalRanks<'_>>,
        job: &Job,
    ) -> io::Result<()> {
        let own = self.plan.own;
        if host != own
            && frame != Frame::Beat
            && let Some(links) = &mut self.links
        {
            links.send(host, &frame);
        }
        if host != own && host != ALL {
            return Ok(());
        }
        match frame {
            Frame::Signal(number) => self.send_signal(number, local.as_mut()),
            Frame::Ask => {
                if let Some(local) = local {
                    self.tell(&Frame::Doing(local.doing()));
                }
            }
            Frame::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.feed(&bytes);
                }
                self.run_input()?;
            }
            Frame::Taken(stream @ 0..2, count) => {
                self.windows[usize::from(stream)] += i64::from(count);
                self.choose_reading(local.as_mut())?;
            }
            Frame::Close(stream @ 0..2) => {
                if let Some(local) = local {
                    local.close(usize::from(stream));
                }
            }
            Frame::Dead(rank, pid, cause) if rank < job.ranks() => {
                job.mark_started(rank, pid);
                job.mark_dead(rank, cause);
            }
            Frame::Left(ranks) => ranks.into_iter().for_each(|rank| job.mark_left(rank)),
            Frame::Cards(cards) => {
                for (rank, card) in cards.iter().filter(|(rank, _)| *rank < job.ranks()) {
                    if !job.is_here(*rank) {
                        job.set_card(*rank, card);
                    }
                }
            }
            Frame::End => self.phase = DaemonPhase::Ending,
            Frame::Beat => {}
            _ => self.abandon(format!("what the launcher says is {}", Malformed("out of place"))),
        }
        Ok(())
    }

    fn send_signal(&mut self, number: i32, local: Option<&mut LocalRanks<'_>>) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        if let Some(local) = local {
            local.send(signal);
        }
        match signal {
            Signal::STOP => self.is_stopped = true,
            Signal::CONT => {
                let now = self.now();
                self.links.iter_mut().for_each(|links| links.forgive(now));
            }
            _ => {
                let now = self.now();
                self.links.iter_mut().for_each(|links| links.cut_silent(now));
            }
        }
        if signal == Signal::STOP
            && let Some(links) = &mut self.links
        {
            links.flush(Duration::from_millis(100));
        }
    }

    fn handle_signals(&mut self, local: Option<&LocalRanks<'_>>) {
        for signal in self.interrupts.take() {
            match signal {
                Signal::CHILD => {
                    let links = self.links.as_ref();
                    self.orphans.reap(|pid| {
                        local.is_some_and(|local| local.contains(pid))
                            || links.is_some_and(|links| links.contains(pid))
                    });
                }
                // The launcher's terminal signals arrive as frames.
                Signal::TSTP | Signal::CONT => {}
                signal => self.abandon(format!(
                    "the daemon was sent {}",
                    crate::ending::NamedSignal(signal.as_raw())
                )),
            }
        }
    }

    fn run_input(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        if let Some(taken) = input.run(&self.events, INPUT)? {
            self.tell(&Frame::TookInput(taken));
        }
        Ok(())
    }

    fn run_links(
        &mut self,
        run: impl FnOnce(&mut DaemonLinks, Duration, &mut TellLink<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (now, mut all) = (self.now(), Vec::new());
        let Some(links) = &mut self.links else { return Ok(()) };
        run(links, now, &mut |news| all.push(news))?;
        for news in all {
            match news {
                LinkNews::Frame(_, Frame::Cards(cards)) => self.cards.put(now, cards),
                LinkNews::Frame(host, frame) => self.channel.up.push(host, &frame),
                LinkNews::Lost(hosts, reason) => self.report_lost(hosts, &reason),
                LinkNews::Said(line) => self.tell(&Frame::Said(line)),
            }
        }
        Ok(())
    }

    fn report_lost(&mut self, hosts: std::ops::Range<u32>, reason: &str) {
        for host in hosts {
            self.channel.up.push(host, &Frame::Lost(reason.to_owned()));
        }
    }

    fn run_local<'j>(
        &mut self,
        local: &mut Option<LocalRanks<'j>>,
        job: &Job,
        run: impl FnOnce(&mut LocalRanks<'j>, Duration, &mut Tell<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (now, own) = (self.now(), self.plan.own);
        let Some(local) = local else { return Ok(()) };
        let (up, windows, cards) = (&mut self.channel.up, &mut self.windows, &mut self.cards);
        let mut without_card = std::mem::take(&mut self.without_card);
        run(local, now, &mut |news| {
            match &news {
                News::Ended(ended) => {
                    let known = without_card.len();
                    without_card.retain(|rank| *rank != ended.rank);
                    (without_card.len()..known).for_each(|_| cards.miss());
                    if !ended.left {
                        // Ranks of this host need not wait for the launcher's report.
                        job.mark_dead(ended.rank, ended.ending.cause());
                    }
                }
                News::Output { source, piece } => windows[source.stream] -= piece.len() as i64,
                _ => {}
            }
            pass_on(news, own, up);
        })?;
        self.without_card = without_card;
        self.choose_reading(Some(local))
    }

    /// Stops reading streams for which the launcher has no room, and resumes the others.
    fn choose_reading(&mut self, local: Option<&mut LocalRanks<'_>>) -> io::Result<()> {
        let Some(local) = local else { return Ok(()) };
        for stream in 0..2 {
            let wanted = self.windows[stream] > 0;
            if wanted != self.reading[stream] {
                local.set_reading(stream, wanted)?;
                self.reading[stream] = wanted;
            }
        }
        Ok(())
    }

    fn abandon(&mut self, why: String) {
        if !matches!(self.phase, DaemonPhase::Abandoned(_)) {
            self.phase = DaemonPhase::Abandoned(why);
        }
    }

    fn tell(&mut self, frame: &Frame) {
        self.channel.up.push(self.plan.own, frame);
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Sends news of this host's ranks as a frame.
fn pass_on(news: News<'_>, own: u32, up: &mut FrameSink) {
    let frame = match news {
        News::Ended(ended) => Frame::Ended(ended),
        News::Output { source, piece } => {
            let stream = u8::try_from(source.stream).expect("there are two");
            Frame::Output(source.rank, stream, piece.to_vec())
        }
        News::Said(line) => Frame::Said(line),
        // Reported by crews of several hosts only.
        News::Lost { .. } | News::Refused { .. } => return,
    };
    up.push(own, &frame);
}
