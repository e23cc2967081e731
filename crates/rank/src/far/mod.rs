//! The far side of a rank's port: ranks on other hosts, through libfabric.
//!
//! ```text
//!   post ──► Far::send ──► Links ═══ libfabric ═══► Links ──► arrive ──► HostedPort::land_from
//!            credit?       window                   held if              table, ring, record,
//!            parts                                  full                 credit, policies
//! ```
//!
//! The receiving rank's own progress delivers arrivals, by the functions of nic that a sender on
//! its host uses, under the sender's rank. A packet for which there is no room is held, in order,
//! and fills the window of its source. There are two lanes: sends in order, and packets that the
//! library needs for progress, which never wait behind sends.
//!
//! The sender counts its credit of messages, as on the near side. The receiver sends grants to
//! sources that have sent it something, and a source without credit reports once that it waits.
//!
//! Operations on memory (`memory.rs`) are carried out by the target's progress, and the caller
//! waits.
//!
//! This module does not detect deaths: the host's launcher records them in the job's memory, and
//! the near side reads that. A rank that leaves announces it itself, after its last message
//! (`parting.rs`). If the channel to a rank breaks, that rank counts as failed, with the reason; if
//! the provider fails as a whole, all ranks on other hosts do. Dropped packets are reported to the
//! launcher, for its report of a job that hangs.

#[cfg(test)]
mod conformance;
mod given;
mod landing;
mod lending;
mod mail;
mod memory;
mod parting;
mod peers;
#[cfg(test)]
mod providers;
mod size;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;

use hikyaku_msg::MEMORY_SLEEP;
use hikyaku_nic::fabric::{
    Command, DeathCause, DroppedPackets, Event, FullCause, Granularity, INLINE_BYTES, PeerFailure,
    PeerState, Port, PostError, Rank, Wake,
};
use hikyaku_nic::hosted::{Host, MissedStep, Rest, RestStart};
use hikyaku_nic::layer::Layer;
use hikyaku_nic::time::Time;
use hikyaku_ofi::link::{Breach, LinkLayout, Links};
use hikyaku_ofi::{Alarm, Error, PostResult, ProviderRequest, Survey, VARIABLE, choose};
use hikyaku_shm::Nap;

use crate::near::NearPort;
use landing::LandingState;
use mail::OpenLetter;
pub(crate) use memory::CallSteps;
use memory::Calls;
use parting::UseBits;
use peers::FarPeers;
pub use size::FarMemory;

/// Receive memory: for each rank on another host that has sent something a small window on each
/// lane, and more for those that send much. The size does not depend on the number of ranks.
const LAYOUT: LinkLayout = LinkLayout {
    payload: 32 << 10,
    pool: 512 << 10,
    window: 4 << 10,
    windows: 24 << 20,
    most: 512 << 10,
    budget: 16 << 20,
    lanes: 2,
};

/// Sends in order.
const SENDS: u8 = 0;

/// Packets that never wait behind sends.
const NEEDED: u8 = 1;

/// The longest sleep, in place of [`MEMORY_SLEEP`], while memory is read, since reads arrive
/// without a sign, unlike packets; and of a spare thread soon after an arrival, which may be one of
/// many.
const BUSY_NAP: Time = Time::from_nanoseconds(20_000);

/// The time without an arrival after which a rank sleeps on the provider's descriptor; before that
/// it only naps.
const AWAKE: Time = Time::from_nanoseconds(400_000);

/// Calls without an arrival after which the channel is polled only in every eighth.
pub(crate) const QUIET: u32 = 4096;

/// The far side of a port.
pub(crate) struct Far {
    links: Links,
    /// The address that it sends from, if it is an internet address.
    interface: Option<IpAddr>,
    own: Rank,
    state: LandingState,
    calls: Calls,
    /// Packets that wait for room, in order for each destination.
    out: VecDeque<(Rank, u8, Vec<u8>)>,
    letter: OpenLetter,
    /// The number of calls since the last arrival.
    quiet: u32,
    /// Whether the next call must poll, because the last one may have slept.
    slept: bool,
    /// Whether the network was polled since the last rest.
    looked: bool,
    /// How often a poll of the network has found something.
    arrivals: u64,
    /// The time since when this rank has napped without an arrival.
    idle_since: Option<Time>,
    alarm: SleepBy,
    /// Whether the last sleep had no time limit.
    sleeps_long: bool,
    /// The number of departures that the near side had counted.
    ends: u64,
    /// Memory of this rank that others still use when it leaves.
    kept: Vec<UseBits>,
    /// The drops of the links and of the landing side at the last report.
    told: [DroppedPackets; 2],
    /// The provider has failed.
    fault: Option<ProviderFault>,
    /// The error with which the provider shall fail.
    #[cfg(test)]
    to_fail: Option<Error>,
}

/// The provider has failed as a whole: no rank on another host can be reached any more.
#[derive(Debug)]
struct ProviderFault {
    cause: DeathCause,
    /// Ranks from this one on must still be reported as failed. There may be very many, most of
    /// which this rank never communicated with, so they are not kept in a list.
    next: Rank,
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Far").field("own", &self.own).finish_non_exhaustive()
    }
}

/// The way in which a rank sleeps that also waits for arrivals from other hosts.
enum SleepBy {
    /// It has not slept yet.
    Unknown,
    /// By short naps: the provider has no descriptor, or there is no thread.
    Naps,
    /// Until a thread wakes it.
    Alarm(Alarm),
}

/// The failure of a rank that is gone.
fn lost(near: &NearPort, rank: Rank, cause: DeathCause) -> PeerFailure {
    PeerFailure { rank, pid: 0, host: near.host_name(rank), cause }
}

/// The cause to report for a rank whose link broke.
fn cause_of(breach: Breach) -> DeathCause {
    match breach {
        Breach::Impossible => DeathCause::Malformed,
        Breach::Provider(code) => DeathCause::Unreachable(code.unwrap_or_default()),
        Breach::Local => DeathCause::Unknown,
    }
}

/// Rests in the calling thread, according to the result of [`Far::begin_rest`].
pub(crate) fn rest(near: &mut NearPort, rest: Rest<Nap>) -> Wake {
    match rest {
        Rest::Over(wake) => wake,
        Rest::Yield => {
            std::thread::yield_now();
            Wake::Look
        }
        Rest::Sleep(mut nap) => {
            nap.sleep();
            near.end_rest(nap)
        }
    }
}

impl Far {
    /// The far side of a port whose job has ranks on other hosts. `None`: it has none.
    ///
    /// # Errors
    /// There is no libfabric or no usable provider, or opening it fails.
    pub(crate) fn open(near: &NearPort) -> Result<Option<Far>, Error> {
        let Some(hosts) = near.host().hosts() else { return Ok(None) };
        let (own, size) = (near.rank(), near.size());
        let others = hosts.of.iter().filter(|host| **host != hosts.own).count();
        if others == 0 {
            return Ok(None);
        }
        #[cfg_attr(not(test), expect(unused_mut, reason = "tests change it"))]
        let mut survey = Survey::take()?;
        #[cfg(test)]
        providers::register_as_asked(&mut survey);
        let wanted = std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
        let request = wanted
            .map_or(Ok(ProviderRequest::default()), |value| ProviderRequest::parse(&value))?;
        // All hosts of a unit test are one.
        let request = ProviderRequest { one_host: cfg!(test), ..request };
        let offer = choose(survey.offers(), &request).offer(survey.offers(), &request)?;
        let links = Links::open(&survey, offer, (own, size, others), LAYOUT, hosts.key)?;
        if !near.host().publish_card(links.address()) {
            let length = links.address().len();
            let what = format!("an address of {length} bytes cannot be told to other hosts");
            return Err(Error::Invalid(what));
        }
        let credit = u64::from(near.host().layout().credit);
        let peers = FarPeers::new(&hosts.of, hosts.own, credit);
        Ok(Some(Far {
            own,
            state: LandingState::new(own, peers),
            calls: Calls::default(),
            out: VecDeque::new(),
            letter: OpenLetter::default(),
            quiet: 0,
            slept: true,
            looked: false,
            arrivals: 0,
            idle_since: None,
            alarm: SleepBy::Unknown,
            sleeps_long: false,
            ends: near.departures(),
            kept: Vec::new(),
            told: Default::default(),
            fault: None,
            #[cfg(test)]
            to_fail: None,
            interface: survey.offers().get(offer).and_then(|offer| offer.address),
            links,
        }))
    }

    /// The address that it sends from, if it is an internet address.
    pub(crate) fn interface(&self) -> Option<IpAddr> {
        self.interface
    }

    /// Whether a rank is on another host.
    #[inline]
    pub(crate) fn is_far(&self, rank: Rank) -> bool {
        self.state.peers.is_far(rank)
    }

    /// Handles arrivals and sends packets that waited for room. Returns whether anything arrived.
    pub(crate) fn progress(&mut self, near: &mut NearPort) -> bool {
        self.looked = true;
        if self.fault.is_some() {
            return false;
        }
        let came = match self.take_in(near) {
            Ok(came) => came,
            Err(error) => {
                self.fail(near, &error);
                return true;
            }
        };
        while let Some((rank, breach)) = self.links.take_broken() {
            self.lose(near, rank, cause_of(breach));
        }
        self.tell_drops(near);
        // A source may have sent something before its address is known here. The connection is
        // tried again; otherwise the source would wait for ever for the credit that it is owed.
        for rank in std::mem::take(&mut self.state.strangers) {
            let is_met = self.meet(near, rank) || self.links.is_broken(rank);
            if !is_met && !self.state.peers.is_deaf(rank) {
                self.state.strangers.push(rank);
            }
        }
        self.note_droppers(near);
        self.tell_grants();
        while let Some(rank) = self.state.parting.pop() {
            self.links.acknowledge(rank);
            // That was its last message on this lane.
            self.links.end_lane(rank, SENDS);
        }
        while let Some((rank, answer)) = self.state.answers.pop_front() {
            self.out.push_back((rank, NEEDED, answer));
        }
        self.state.lending.ask(&mut self.links);
        while let Some((rank, code)) = self.state.lending.take_broken() {
            self.links.break_link(rank, Breach::Provider(Some(code)));
        }
        self.flush(near);
        self.serve(near);
        self.quiet = if came { 0 } else { self.quiet.saturating_add(1) };
        if came {
            self.arrivals += 1;
            self.idle_since = None;
            // A letter, a put or an answer is no event of the near side, which counts idle waits
            // since the last event, and after many would sleep at once.
            near.inner_mut().begin_wait();
            if let SleepBy::Alarm(alarm) = &mut self.alarm {
                alarm.note_arrival();
            }
        }
        came
    }

    /// Handles arrivals. Returns whether there were any.
    ///
    /// # Errors
    /// The provider fails as a whole.
    fn take_in(&mut self, near: &mut NearPort) -> Result<bool, Error> {
        #[cfg(test)]
        if let Some(error) = self.to_fail.take() {
            return Err(error);
        }
        let now = near.now();
        let hosted = near.inner_mut();
        let (links, state, calls) = (&mut self.links, &mut self.state, &mut self.calls);
        links.progress(|arrival| state.arrive(hosted, calls, now, arrival))
    }

    /// Handles a failure of the provider: all ranks on other hosts count as failed, since no data
    /// from them or to them arrives any more.
    fn fail(&mut self, near: &NearPort, error: &Error) {
        let cause = cause_of(error.into());
        let known: Vec<Rank> = self.state.peers.known().iter().map(|peer| peer.rank).collect();
        known.into_iter().for_each(|rank| self.lose(near, rank, cause));
        // Unknown ranks have failed too: departures are counted, and then searched for.
        self.state.departures += 1;
        self.out.clear();
        self.state.serving.clear();
        self.fault = Some(ProviderFault { cause, next: 0 });
    }

    /// Reports drops for the launcher's report.
    fn tell_drops(&mut self, near: &NearPort) {
        let (links, refused) = (self.links.drops(), self.state.refused);
        let before = std::mem::replace(&mut self.told, [links, refused]);
        if before == self.told {
            return;
        }
        let last = match refused == before[1] {
            true => links.last.or(refused.last),
            false => refused.last,
        };
        let wrong = links.wrong.saturating_add(refused.wrong);
        let dropped = DroppedPackets { strange: links.strange, wrong, last };
        near.host().registry().set_dropped(self.own, &dropped);
    }

    /// [`Far::progress`], if it is due: after a sleep, after a recent arrival, or from time to
    /// time. So waits for ranks on the own host take hardly longer.
    #[inline]
    pub(crate) fn progress_if_due(&mut self, near: &mut NearPort) -> bool {
        if self.quiet > QUIET && !self.slept && !self.quiet.is_multiple_of(8) {
            self.quiet = self.quiet.wrapping_add(1).max(QUIET);
            return false;
        }
        self.slept = false;
        self.progress(near)
    }

    /// Delivers all data from a rank that died before its death becomes known here.
    #[inline]
    pub(crate) fn before_poll(&mut self, near: &mut NearPort) {
        let now = near.departures();
        if now != self.ends {
            let before = std::mem::replace(&mut self.ends, now);
            self.land_all(near);
            self.note_ends(near, before..now);
        }
    }

    /// Delivers everything that has arrived.
    pub(crate) fn land_all(&mut self, near: &mut NearPort) {
        while self.progress(near) {}
    }

    /// Frees resources of ranks whose process has ended, according to the launcher.
    fn note_ends(&mut self, near: &NearPort, numbers: Range<u64>) {
        let ended = near.host().registry().ended_in(numbers);
        // Without that list all known ranks are checked.
        let all = |peers: &FarPeers| peers.known().iter().map(|peer| peer.rank).collect();
        for rank in ended.unwrap_or_else(|| all(&self.state.peers)) {
            let Some(peer) = self.state.peers.known_mut(rank) else { continue };
            if peer.left.is_some() && near.peer(rank) == PeerState::Left {
                peer.keeps = false;
                (0..LAYOUT.lanes).for_each(|lane| self.links.end_lane(rank, lane));
            }
        }
    }

    /// The next event of the far side.
    #[inline]
    pub(crate) fn take_event(&mut self, near: &NearPort) -> Option<Event> {
        match self.state.events.pop_front() {
            None if self.fault.is_some() => self.take_failure(near),
            event => event,
        }
    }

    /// After a fault of the provider, the failure of the next rank without any contact.
    fn take_failure(&mut self, near: &NearPort) -> Option<Event> {
        let fault = self.fault.as_mut()?;
        let is_due = |rank: &Rank| {
            let is_known = self.state.peers.get(*rank).is_some();
            self.state.peers.is_far(*rank) && !is_known && near.peer(*rank) != PeerState::Left
        };
        let rank = (fault.next..near.size()).find(is_due);
        fault.next = rank.map_or(near.size(), |rank| rank + 1);
        rank.map(|rank| Event::PeerFailed(lost(near, rank, fault.cause)))
    }

    /// Filters an event of the near side. `None`: it is known already, or of a rank that has left:
    /// whoever watches it may have learnt of its end only.
    pub(crate) fn filter(&mut self, event: Event) -> Option<Event> {
        let Event::PeerFailed(failure) = event else { return Some(event) };
        let Some(peer) = self.state.peers.enter(failure.rank) else { return Some(event) };
        if peer.left.is_some() || peer.fail(failure) {
            return None;
        }
        self.state.lending.end(failure.rank);
        self.links.break_link(failure.rank, Breach::Local);
        Some(event)
    }

    /// Rests like the near side, after a poll of the network if one is due.
    ///
    /// A poll is a system call, so as many polls as the near side spins take long. Others may need
    /// the processor meanwhile, also ranks of other hosts that share the machine: so a rank that
    /// has polled yields instead of spinning.
    pub(crate) fn begin_rest(
        &mut self,
        near: &mut NearPort,
        (deadline, start): (Option<Time>, RestStart),
        steps: impl Iterator<Item = MissedStep>,
    ) -> Rest<Nap> {
        if self.progress_if_due(near) {
            return Rest::Over(Wake::Look);
        }
        let looked = std::mem::take(&mut self.looked);
        let end = self.nap(near, deadline, start);
        let rest = near.begin_rest((end, start), steps);
        self.slept |= matches!(rest, Rest::Sleep(_));
        match rest {
            Rest::Over(Wake::Look) if looked => Rest::Yield,
            Rest::Over(Wake::Deadline) if deadline.is_none_or(|deadline| near.now() < deadline) => {
                Rest::Over(Wake::Slept)
            }
            rest => rest,
        }
    }

    /// Whether it has polled the network since the last rest. Sixteen polls of a receive are as
    /// many system calls, during which no other rank has the processor.
    #[inline]
    pub(crate) fn has_looked(&self) -> bool {
        self.looked
    }

    /// How often a poll of the network has found something.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The end of a sleep, at most `deadline`. `None`: it lasts until it is woken.
    fn nap(&mut self, near: &NearPort, deadline: Option<Time>, start: RestStart) -> Option<Time> {
        let now = near.now();
        let since = *self.idle_since.get_or_insert(now);
        let is_fresh = now < since + AWAKE;
        let mut is_busy = self.state.lending.is_busy(now);
        self.sleeps_long = !is_fresh && !is_busy && self.is_woken(near);
        if self.sleeps_long {
            return deadline;
        }
        // A thread that begins a rest asleep polls no more often than it naps.
        is_busy |= is_fresh && start == RestStart::Asleep;
        let end = now + if is_busy { BUSY_NAP } else { MEMORY_SLEEP };
        Some(deadline.map_or(end, |deadline| deadline.min(end)))
    }

    /// Whether an arrival will wake this rank, so that it may sleep: none of its own packets is in
    /// flight, and the provider's descriptor reports arrivals.
    fn is_woken(&mut self, near: &NearPort) -> bool {
        let is_still = self.is_still();
        if let SleepBy::Unknown = self.alarm {
            let waker = near.host().waker();
            let descriptor = self.links.endpoint().descriptor();
            let alarm = descriptor.map(|descriptor| Alarm::new(descriptor, move || waker.wake()));
            self.alarm = alarm.and_then(Result::ok).map_or(SleepBy::Naps, SleepBy::Alarm);
        }
        match &mut self.alarm {
            SleepBy::Alarm(alarm) => is_still && alarm.set() && self.links.endpoint().may_sleep(),
            SleepBy::Unknown | SleepBy::Naps => false,
        }
    }

    /// Whether the last sleep may last longer than packets now in flight allow. Returns `true`
    /// once.
    pub(crate) fn is_overslept(&mut self) -> bool {
        let is_over = self.sleeps_long && !self.is_still();
        self.sleeps_long &= !is_over;
        is_over
    }

    /// Whether none of its own packets is in flight.
    fn is_still(&self) -> bool {
        self.out.is_empty() && self.state.serving.is_empty() && self.links.is_still()
    }

    /// The state of a rank, given its state on the near side.
    pub(crate) fn state_of(&self, rank: Rank, near: PeerState) -> PeerState {
        match self.state.peers.get(rank).map(|peer| (peer.left, peer.failed)) {
            Some((Some(_), _)) => PeerState::Left,
            Some((None, Some(failure))) => PeerState::Failed(failure),
            Some((None, None)) | None => near,
        }
    }

    /// The same. A rank on another host that has published its address has started.
    pub(crate) fn peer(&self, near: &NearPort, rank: Rank, state: PeerState) -> PeerState {
        let state = self.state_of(rank, state);
        let has_started = || {
            let peer = self.state.peers.get(rank);
            peer.is_some_and(|peer| peer.known) || near.host().card(rank).is_some()
        };
        match (state, &self.fault) {
            (PeerState::Starting | PeerState::Running, Some(fault)) if self.is_far(rank) => {
                PeerState::Failed(lost(near, rank, fault.cause))
            }
            (PeerState::Starting, _) if self.is_far(rank) && has_started() => PeerState::Running,
            (state, _) => state,
        }
    }

    /// The number of ranks on other hosts that have left, or whose channel broke.
    pub(crate) fn departures(&self) -> u64 {
        self.state.departures
    }

    /// Allows a source to send `messages` messages in total.
    pub(crate) fn grant(&mut self, source: Rank, messages: u64) {
        if self.state.peers.may_send(source, messages) {
            return;
        }
        if let Some(peer) = self.state.peers.enter(source) {
            peer.granted = messages;
            if peer.known {
                self.state.granting.push(source);
            }
        }
    }

    fn tell_grants(&mut self) {
        while let Some(rank) = self.state.granting.pop() {
            if let Some(peer) = self.state.peers.enter(rank)
                && peer.granted > peer.told
            {
                peer.told = peer.granted;
                self.out.push_back((rank, NEEDED, wire::grant(peer.granted)));
            }
        }
    }

    /// The known reason why no data can be sent to a rank any more; `None` if none is known.
    fn failure(&self, near: &NearPort, rank: Rank) -> Option<PeerFailure> {
        let known = self.state.peers.get(rank).and_then(|peer| peer.failed);
        let fault = || self.fault.as_ref().map(|fault| lost(near, rank, fault.cause));
        known.or_else(|| match near.peer(rank) {
            PeerState::Failed(failure) => Some(failure),
            _ => fault(),
        })
    }

    /// Records that the channel to a rank broke.
    fn lose(&mut self, near: &NearPort, rank: Rank, cause: DeathCause) {
        let Some(peer) = self.state.peers.enter(rank).filter(|peer| !peer.is_gone()) else {
            return;
        };
        let failure = match near.peer(rank) {
            PeerState::Failed(failure) => failure,
            _ => lost(near, rank, cause),
        };
        peer.fail(failure);
        self.state.lending.end(rank);
        self.state.departures += 1;
        self.state.events.push_back(Event::PeerFailed(failure));
    }

    /// Records ranks that have dropped a send: a wait for one of them may be for the answer to that
    /// send.
    fn note_droppers(&mut self, near: &NearPort) {
        while let Some(rank) = self.state.droppers.pop() {
            let failure = lost(near, rank, DeathCause::Dropped);
            if let Some(peer) = self.state.peers.enter(rank).filter(|peer| !peer.is_gone())
                && peer.dropped.replace(failure).is_none()
            {
                self.state.events.push_back(Event::PeerFailed(failure));
            }
        }
    }

    /// Whether there is a link to a rank. It is made when the rank's address is known.
    fn meet(&mut self, near: &NearPort, rank: Rank) -> bool {
        if self.links.is_connected(rank) {
            return true;
        }
        let Some(card) = near.host().card(rank) else { return false };
        let met = self.links.connect(rank, &card);
        if let Err(error) = &met {
            self.links.break_link(rank, error.into());
        }
        met.is_ok()
    }

    /// Sends packets that wait for room, in order for each rank and lane.
    fn flush(&mut self, near: &NearPort) {
        let mut full: Vec<(Rank, u8)> = Vec::new();
        for _ in 0..self.out.len() {
            let Some((rank, lane, packet)) = self.out.pop_front() else { break };
            if self.state.peers.is_deaf(rank) {
                continue;
            }
            let waits = full.contains(&(rank, lane)) || !self.meet(near, rank);
            if waits || !self.offer(rank, lane, &[&packet]) {
                full.push((rank, lane));
                self.out.push_back((rank, lane, packet));
            }
        }
    }

    /// Passes a packet to the links. Returns whether it is done with.
    fn offer(&mut self, rank: Rank, lane: u8, parts: &[&[u8]]) -> bool {
        match self.links.send(rank, lane, parts) {
            Ok(posted) => posted == PostResult::Accepted,
            Err(error) => {
                self.links.break_link(rank, (&error).into());
                true
            }
        }
    }

    /// Sends to a rank on another host, like [`Port::post`].
    pub(crate) fn send(
        &mut self,
        near: &NearPort,
        command: &Command<'_>,
    ) -> Result<usize, PostError> {
        let destination = command.destination;
        let Some(peer) = self.state.peers.enter(destination) else {
            return Err(PostError::Unsupported("reach a rank of the own host from afar"));
        };
        if let Some(failure) = peer.failed.or(peer.dropped) {
            return Err(PostError::PeerFailed(failure));
        }
        if let Some(fault) = &self.fault {
            return Err(PostError::PeerFailed(lost(near, destination, fault.cause)));
        }
        if peer.left.is_some() {
            // As on the near side: it has no reader.
            return Ok(command.payload.len());
        }
        let full = |cause| PostError::Full { destination, cause };
        if command.credited && peer.sent >= peer.credit {
            if !std::mem::replace(&mut peer.waiting, true) {
                self.out.push_back((destination, NEEDED, wire::held()));
            }
            self.progress_out(near);
            return Err(full(FullCause::Credit));
        }
        if !self.meet(near, destination) {
            return Err(full(FullCause::RingStalled));
        }
        let taken = match command.granularity {
            Granularity::PerMessage => self.send_as_one(near, command)?,
            Granularity::PerPacket => self.send_parts(near, command),
        };
        let taken = taken.ok_or_else(|| full(FullCause::RingStalled))?;
        if let Some(peer) = self.state.peers.enter(destination) {
            peer.sent += u64::from(command.credited);
        }
        Ok(taken)
    }

    fn progress_out(&mut self, near: &NearPort) {
        if !self.out.is_empty() {
            self.flush(near);
        }
    }

    /// Sends as many parts as there is room for. `None`: there was room for none.
    fn send_parts(&mut self, near: &NearPort, command: &Command<'_>) -> Option<usize> {
        let (destination, payload) = (command.destination, command.payload);
        let whole = command.offset == 0 && command.total == payload.len() as u64;
        let passes = command.passes && whole && payload.len() <= INLINE_BYTES;
        let lane = if passes { NEEDED } else { SENDS };
        // Waiting packets are sent first.
        if self.out.iter().any(|(rank, of, _)| (*rank, *of) == (destination, lane)) {
            return None;
        }
        if payload.is_empty() && !whole {
            return Some(0);
        }
        let mut taken = 0;
        loop {
            let end = payload.len().min(taken + self.longest_part(near, destination, lane));
            let part = Command {
                offset: command.offset + taken as u64,
                credited: command.credited && taken == 0,
                ..*command
            };
            let (head, length) = wire::send_head(&part, end - taken);
            if !self.offer(destination, lane, &[&head[..length], &payload[taken..end]]) {
                return (taken > 0).then_some(taken);
            }
            taken = end;
            if taken == payload.len() {
                return Some(taken);
            }
        }
    }

    /// Bytes of the longest part of a message now: whole packets of its receiver's rings, if one
    /// fits.
    fn longest_part(&self, near: &NearPort, to: Rank, lane: u8) -> usize {
        let longest = self.links.longest(to, lane) - wire::SEND_HEAD;
        let packet = near.host().layout().packet_bytes as usize;
        if longest > packet { longest - longest % packet } else { longest }
    }

    /// Sends a message with one record: all of it, or nothing.
    fn send_as_one(
        &mut self,
        near: &NearPort,
        command: &Command<'_>,
    ) -> Result<Option<usize>, PostError> {
        let (destination, payload) = (command.destination, command.payload);
        let (length, limit) = (payload.len() as u64, near.capabilities().ring_bytes as u64);
        if command.offset != 0 || command.total != length {
            return Err(PostError::Unsupported("send one record for a message in parts"));
        }
        if length > limit {
            return Err(PostError::TooLarge { length, limit });
        }
        if self.out.iter().any(|(rank, lane, _)| (*rank, *lane) == (destination, SENDS)) {
            return Ok(None);
        }
        let longest = self.links.longest(destination, SENDS) - wire::SEND_HEAD;
        let mut offset = 0;
        for bytes in payload.chunks(longest).chain(payload.is_empty().then_some(payload)) {
            let part = Command { offset, credited: command.credited && offset == 0, ..*command };
            let (head, end) = wire::send_head(&part, bytes.len());
            self.out.push_back((destination, SENDS, [&head[..end], bytes].concat()));
            offset += bytes.len() as u64;
        }
        self.flush(near);
        Ok(Some(payload.len()))
    }
}
