//! The ranks of several hosts as one crew: requests of the engine go to the daemons as frames, and
//! frames of the daemons become news.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use hikyaku_nic::fabric::DeathCause;
use hikyaku_shm::JobEnd;
use rustix::process::{Pid, Signal};

use super::{
    cards::CardGathering,
    frame::{ALL, Frame},
    input::InputSource,
    links::{DaemonLinks, LinkNews},
    plan::HostPlan,
};
use crate::{
    LaunchError,
    crew::{Crew, News, RankExit, Tell},
    events::EventSet,
    lines::OutputSource as Writer,
};

/// How many bytes of a stream a host may send before the launcher grants more.
pub(super) const WINDOW: u32 = 256 << 10;

/// How many bytes are consumed before the launcher grants as many again.
const TOLD_AT: u32 = 32 << 10;

/// The delay before the other hosts hear that a rank has left properly. They should know by then:
/// the rank itself sends a message when it leaves, and only that message may be lost. One frame
/// reports all ranks that leave in the meantime.
const TELL_LEFT: Duration = Duration::from_millis(50);

/// How long hosts may take to end remaining processes after their ranks have ended.
const CLEAR_LIMIT: Duration = Duration::from_secs(3);

/// How long it may take to send the daemons the news that the launcher stops.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Event tokens.
const LINKS: u64 = 0;
const INPUT: u64 = 1;
const TERMINAL: u64 = 2;

/// The ranks of all hosts.
pub(super) struct HostRanks {
    links: DaemonLinks,
    plan: HostPlan,
    hosts: Vec<HostState>,
    cards: CardGathering,
    ranks: Vec<KnownRank>,
    input: InputSource,
    reading: [bool; 2],
    /// How the job ends, if a rank has reported a reason.
    end: Option<JobEnd>,
    /// Whether the ranks were sent a signal. A start that fails after that is no error of its own.
    is_ending: bool,
    /// Whether the ranks were asked what they wait in.
    has_asked: bool,
    /// The deadline for hosts to end the remaining processes.
    clear_by: Option<Duration>,
    /// Ranks that have left properly and are not reported to hosts yet; the time of the first.
    left: Vec<u32>,
    left_since: Option<Duration>,
    now: Duration,
    events: EventSet,
}

/// The known state of a host.
#[derive(Debug, Clone, Default)]
struct HostState {
    ranks: Range<u32>,
    has_started: bool,
    /// Whether nothing of the job is left there.
    is_clear: bool,
    /// Consumed bytes of each stream that the host has no credit for yet.
    untold: [u32; 2],
}

/// The known state of a rank.
#[derive(Debug, Clone, Default)]
struct KnownRank {
    pid: u32,
    has_ended: bool,
    doing: Option<String>,
}

impl HostRanks {
    /// Starts the daemons.
    pub(super) fn start(plan: HostPlan, now: Duration) -> Result<HostRanks, LaunchError> {
        let system = |source| LaunchError::System { what: "prepare the launch", source };
        let count = u32::try_from(plan.places.len()).expect("there are at most MAX_RANKS");
        let events = EventSet::new().map_err(system)?;
        let links = DaemonLinks::start(&plan, 0..count, now)?;
        events.add(&links, LINKS).map_err(|errno| system(errno.into()))?;
        let host = |host| HostState { ranks: plan.ranks_of(host), ..HostState::default() };
        let hosts: Vec<HostState> = (0..count).map(host).collect();
        let total = hosts.last().map_or(0, |last| last.ranks.end);
        let mut hosts = HostRanks {
            links,
            plan,
            hosts,
            cards: CardGathering::new(total as usize),
            ranks: vec![KnownRank::default(); total as usize],
            input: InputSource::new().map_err(system)?,
            reading: [true; 2],
            end: None,
            is_ending: false,
            has_asked: false,
            clear_by: None,
            left: Vec::new(),
            left_since: None,
            now,
            events,
        };
        hosts.run_input().map_err(system)?;
        Ok(hosts)
    }

    fn run_input(&mut self) -> io::Result<()> {
        let links = &mut self.links;
        let send = |frame| links.send(0, &frame);
        self.input.run(&self.events, (INPUT, TERMINAL), self.now, send)
    }

    fn take_in(&mut self, news: LinkNews, tell: &mut Tell<'_>) -> io::Result<()> {
        match news {
            LinkNews::Frame(host, Frame::Lost(reason)) => self.lose(host..host + 1, &reason, tell),
            LinkNews::Frame(host, frame) => return self.handle(host, frame, tell),
            LinkNews::Lost(hosts, reason) => self.lose(hosts, &reason, tell),
            LinkNews::Said(line) => tell(News::Said(line)),
        }
        Ok(())
    }

    /// Handles a frame from a host. An invalid frame is dropped: it is a fault of the daemon, which
    /// can harm only its own ranks.
    fn handle(&mut self, host: u32, frame: Frame, tell: &mut Tell<'_>) -> io::Result<()> {
        let state = &mut self.hosts[host as usize];
        match frame {
            Frame::Started(pids) => {
                state.has_started = true;
                for (rank, pid) in state.ranks.clone().zip(pids) {
                    self.ranks[rank as usize].pid = pid;
                }
            }
            Frame::Refused(code, reason) => {
                let (host, ranks) = (self.plan.name(host).to_owned(), state.ranks.clone());
                self.refuse(ranks, LaunchError::Host { host, reason, code }, tell);
            }
            Frame::Ended(ended) if state.ranks.contains(&ended.rank) => {
                self.handle_end(ended, tell);
            }
            Frame::Output(rank, stream @ 0..2, piece) if state.ranks.contains(&rank) => {
                let stream = usize::from(stream);
                state.untold[stream] += u32::try_from(piece.len()).unwrap_or(u32::MAX);
                if !piece.is_empty() {
                    tell(News::Output { source: Writer { rank, stream }, piece: &piece });
                }
                self.tell_taken(stream, TOLD_AT);
            }
            Frame::Doing(doing) => {
                for (rank, pid, what) in doing {
                    if state.ranks.contains(&rank) {
                        let ranks = &mut self.ranks[rank as usize];
                        (ranks.pid, ranks.doing) = (pid, Some(what));
                    }
                }
            }
            Frame::Cards(cards) => {
                let ranks = self.plan.ranks_of_all(&self.links.part_of(host));
                if cards.iter().all(|(rank, _)| ranks.contains(rank)) {
                    self.cards.put(self.now, cards);
                    self.pass_cards();
                }
            }
            Frame::TookInput(count) if host == 0 => {
                self.input.handle_taken(&self.events, count)?;
                self.run_input()?;
            }
            Frame::Said(line) => {
                tell(News::Said(line));
            }
            Frame::Done => state.is_clear = true,
            _ => {}
        }
        Ok(())
    }

    /// Sends the gathered addresses to all hosts, if they are due.
    fn pass_cards(&mut self) {
        let frames = self.cards.take(self.now);
        frames.iter().for_each(|frame| self.links.send(ALL, frame));
    }

    fn handle_end(&mut self, ended: RankExit, tell: &mut Tell<'_>) {
        let rank = &mut self.ranks[ended.rank as usize];
        if !std::mem::replace(&mut rank.has_ended, true) {
            self.end = self.end.or(ended.end);
            if ended.left {
                self.left.push(ended.rank);
                self.left_since.get_or_insert(self.now);
            }
            tell(News::Ended(ended));
        }
    }

    /// Reports that the ranks of a host that have not ended will not start.
    fn refuse(&mut self, ranks: Range<u32>, error: LaunchError, tell: &mut Tell<'_>) {
        let ranks = self.take_running(ranks);
        tell(News::Refused { ranks, error });
    }

    /// Reports hosts as lost.
    fn lose(&mut self, hosts: Range<u32>, reason: &str, tell: &mut Tell<'_>) {
        let ranks = self.plan.ranks_of_all(&hosts);
        let had_started = hosts.clone().any(|host| self.hosts[host as usize].has_started);
        for host in hosts {
            self.hosts[host as usize].is_clear = true;
        }
        if !had_started && !self.is_ending {
            let (host, reason) = (String::new(), reason.to_owned());
            return self.refuse(ranks, LaunchError::Host { host, reason, code: 1 }, tell);
        }
        let reason = match ranks.end - ranks.start {
            1 => format!("{reason}; its rank was {}", ranks.start),
            _ => format!("{reason}; its ranks were {} to {}", ranks.start, ranks.end - 1),
        };
        let ranks = self.take_running(ranks);
        if !ranks.is_empty() {
            tell(News::Lost { ranks, reason });
        }
    }

    /// The ranks of this range that have not ended yet. Marks them as ended.
    fn take_running(&mut self, ranks: Range<u32>) -> Vec<u32> {
        let running = |rank: &u32| !self.ranks[*rank as usize].has_ended;
        let all: Vec<u32> = ranks.filter(running).collect();
        all.iter().for_each(|rank| self.ranks[*rank as usize].has_ended = true);
        all
    }

    /// Grants credit to hosts of which at least `least` bytes of a stream were consumed.
    fn tell_taken(&mut self, stream: usize, least: u32) {
        if !self.reading[stream] {
            return;
        }
        for (host, state) in (0..).zip(&mut self.hosts) {
            if state.untold[stream] >= least {
                let taken = std::mem::take(&mut state.untold[stream]);
                self.links.send(host, &Frame::Taken(stream as u8, taken));
            }
        }
    }
}

impl AsFd for HostRanks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Crew for HostRanks {
    fn handle_ready(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()> {
        self.now = now;
        for token in self.events.ready()? {
            if token != LINKS {
                self.run_input()?;
                continue;
            }
            let mut all = Vec::new();
            self.links.handle_ready(now, &mut |news| all.push(news))?;
            all.into_iter().try_for_each(|news| self.take_in(news, tell))?;
        }
        Ok(())
    }

    fn handle_time(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()> {
        self.now = now;
        let mut all = Vec::new();
        self.links.handle_time(now, &mut |news| all.push(news))?;
        all.into_iter().try_for_each(|news| self.take_in(news, tell))?;
        if self.input.poll_deadline().is_some_and(|deadline| now >= deadline) {
            self.run_input()?;
        }
        self.pass_cards();
        if self.left_since.is_some_and(|since| now >= since + TELL_LEFT) {
            self.left_since = None;
            self.links.send(ALL, &Frame::Left(std::mem::take(&mut self.left)));
        }
        Ok(())
    }

    fn poll_deadline(&self) -> Option<Duration> {
        let input = self.input.poll_deadline();
        let left = self.left_since.map(|since| since + TELL_LEFT);
        let cards = self.cards.poll_deadline();
        [self.links.poll_deadline(), input, self.clear_by, left, cards].into_iter().flatten().min()
    }

    fn set_reading(&mut self, stream: usize, wanted: bool) -> io::Result<()> {
        self.reading[stream] = wanted;
        self.tell_taken(stream, 1);
        Ok(())
    }

    fn close(&mut self, stream: usize) {
        self.links.send(ALL, &Frame::Close(stream as u8));
    }

    fn mark_dead(&mut self, rank: u32, cause: DeathCause) {
        let pid = self.ranks[rank as usize].pid;
        self.links.send(ALL, &Frame::Dead(rank, pid, cause));
    }

    fn send(&mut self, signal: Signal) {
        self.links.send(ALL, &Frame::Signal(signal.as_raw()));
        match signal {
            // The launcher itself is about to stop.
            Signal::STOP => self.links.flush(STOP_LIMIT),
            Signal::CONT => self.links.forgive(self.now),
            _ => {
                self.is_ending = true;
                self.links.cut_silent(self.now);
            }
        }
    }

    fn ask_waiting(&mut self) {
        self.has_asked = true;
        self.links.send(ALL, &Frame::Ask);
    }

    fn take_waiting(&mut self) -> Vec<String> {
        if !self.has_asked {
            return Vec::new();
        }
        let hosts = self.plan.hosts_of_ranks();
        let ranks = (0u32..).zip(&self.ranks).zip(hosts).map(|((rank, state), host)| {
            let host = self.plan.name(host);
            match &state.doing {
                Some(doing) => format!("rank {rank} (pid {}, host {host}) {doing}", state.pid),
                None => format!("rank {rank} (host {host}) is on a host that gave no answer"),
            }
        });
        ranks.collect()
    }

    fn clear(&mut self) {
        self.links.send(ALL, &Frame::End);
        self.clear_by = Some(self.now + CLEAR_LIMIT);
    }

    fn is_clear(&self) -> bool {
        let late = self.clear_by.is_some_and(|by| self.now >= by);
        late || self.links.are_down() || self.hosts.iter().all(|host| host.is_clear)
    }

    fn finish(&mut self, _now: Duration, tell: &mut Tell<'_>) -> io::Result<()> {
        self.links.strangers().into_iter().for_each(|line| tell(News::Said(line)));
        self.links.shut();
        Ok(())
    }

    fn contains(&self, pid: Pid) -> bool {
        self.links.contains(pid)
    }

    fn end(&self) -> Option<JobEnd> {
        self.end
    }

    fn host_of(&self, rank: u32) -> Option<&str> {
        let host = self.plan.hosts_of_ranks().get(rank as usize).copied()?;
        Some(self.plan.name(host))
    }
}
