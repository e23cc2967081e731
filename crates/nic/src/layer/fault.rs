//! A layer that injects faults between sender and landing. A seeded generator draws them: the same
//! seed and the same calls give the same faults.
//!
//! Between this port and each destination lies a *link*. A command in it is a packet with a
//! sequence number and a copy of its payload:
//!
//! ```text
//!   post ──► refuse? ──► link: 7 6 5 4 ──► 4 lost?  timer, then again; 5 6 7 wait
//!             Full        (delay: each      4 early? waits
//!                          from poll k on)  3 again? suppressed by its number, counted
//!                                           else ──► post on the port underneath
//! ```
//!
//! The rules of a fabric still hold: each destination receives its messages in order, none is lost
//! or duplicated, and full is a normal answer (a link holds a bounded number of packets). Two
//! things are as on any fabric that accepts a command before it knows the outcome:
//!
//! - If the port underneath refuses a held command, its completion event reports that, if it asked
//!   for one. Otherwise the next post to that destination returns the error and is not tried.
//! - A dropped port sends the packets that it holds before it leaves, for a bounded time. A killed
//!   rank's packets are gone ([`FaultInjector::discard`]).
//!
//! A command that needs credit is never held. Only the port underneath knows whether there is
//! credit, and a command that waited for it in the link would delay those that need none. Such a
//! command is refused for the time for which it would have been held. So are `get` and `fetch`,
//! which complete on return: earlier posts take effect before them. Operations that need no room
//! may pass only packets that found no room at the receiver: a port without this layer would have
//! refused those packets, and the receiver may wait for just that operation before it frees room.
//!
//! Time is counted in calls of `post`, `poll` and `park`, so that a test can step it.
//!
//! A job's port always has this layer, usually without faults ([`FaultInjector::absent`]). Then
//! each call that the layer changes takes one well-predicted branch, and the others none. So whole
//! jobs can run with faults without a second port type above the boundary.

mod plan;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use super::{Layer, pass_copies_through, pass_through};
use crate::fabric::{
    Atomic, Capabilities, ChainError, Command, Completed, CopyPort, Event, FullCause, Granularity,
    GroupId, GroupPort, INLINE_BYTES, JointCopy, MemoryPort, Operation, PeerState, Port, PostError,
    Rank, RemoteAddress, RingId, RingSlice, Short, Space, Wait, Wake, multicast_by,
};
use crate::hosted::{HostedPort, MissedStep, Rest, RestStart, Sleeper};
use crate::random::Random;
use crate::sync::yield_now;
use crate::time::Time;

pub use plan::{FaultCounts, Faults};

/// Longer payloads are not held: they are posted at once or wait with the caller.
const LONGEST_HELD: usize = 256 << 10;

/// How long a dropped port keeps sending the packets that it holds.
const LEAVE_NANOSECONDS: u64 = 100_000_000;

/// A port with unreliable links.
#[derive(Debug)]
pub struct FaultInjector<P: Port> {
    port: P,
    /// Whether faults are enabled.
    present: bool,
    faults: Faults,
    random: Random,
    /// The number of calls so far.
    now: u64,
    links: Vec<FaultyLink>,
    counts: FaultCounts,
    /// Failures of held commands whose senders asked for an event.
    told: VecDeque<Event>,
    /// Whether this layer refused the last post: then no event will wake the caller.
    restless: bool,
}

/// The link to one destination.
#[derive(Debug, Default)]
struct FaultyLink {
    packets: VecDeque<LinkPacket>,
    /// Number of the next packet that is accepted.
    next: u64,
    /// Number of the next packet that may arrive.
    expected: u64,
    /// Why the port underneath had no room for the first packet.
    cause: Option<FullCause>,
    /// An error for the next post to return.
    late: Option<PostError>,
    /// The call until which commands that need credit are refused.
    barred: u64,
}

/// A command in the link.
#[derive(Debug, Clone)]
struct LinkPacket {
    number: u64,
    command: HeldCommand,
    /// The first call at which it may arrive.
    ready: u64,
    /// Whether it is lost when it arrives.
    lost: bool,
    /// Whether it was lost and is sent again.
    again: bool,
}

/// The faults drawn for a command.
#[derive(Debug, Clone, Copy)]
struct Fate {
    wait: u64,
    lost: bool,
    twice: bool,
}

impl<P: Port> FaultInjector<P> {
    /// Puts links with faults in front of `port`.
    pub fn new(port: P, faults: Faults) -> FaultInjector<P> {
        let mut layer = FaultInjector::absent(port);
        layer.meet(faults);
        layer
    }

    /// The port without faults.
    pub fn absent(port: P) -> FaultInjector<P> {
        let (faults, random, counts) = (Faults::NONE, Random::new(0), FaultCounts::default());
        let (links, told) = (Vec::new(), VecDeque::new());
        let (present, restless) = (false, false);
        FaultInjector { port, present, faults, random, now: 0, links, counts, told, restless }
    }

    /// Puts links with faults in front of a port that had none.
    pub fn meet(&mut self, faults: Faults) {
        self.links = (0..self.port.size()).map(|_| FaultyLink::default()).collect();
        // Ranks of a job share the seed but not the faults.
        self.random = Random::new(faults.seed ^ (u64::from(self.port.rank()) << 32));
        (self.faults, self.present) = (faults, true);
    }

    /// The faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Packets held in all links.
    pub fn held(&self) -> usize {
        self.links.iter().map(|link| link.packets.len()).sum()
    }

    /// Sends all held packets now, without further faults, within the free room. Returns whether
    /// no packet is left.
    pub fn flush(&mut self) -> bool {
        let now = self.now;
        for destination in 0..self.links.len() {
            for packet in &mut self.links[destination].packets {
                (packet.ready, packet.lost) = (now, false);
            }
            self.drive(destination);
        }
        self.held() == 0
    }

    /// Discards all held packets, like the death of the process.
    pub fn discard(&mut self) {
        for link in &mut self.links {
            self.counts.abandoned += link.packets.len() as u64;
            link.packets.clear();
        }
    }

    /// Advances time by one call.
    fn advance(&mut self) {
        self.now += 1;
        for destination in 0..self.links.len() {
            self.drive(destination);
        }
    }

    /// Delivers the packets that have reached the end of a link.
    fn drive(&mut self, destination: usize) {
        let FaultInjector { port, faults, random, now, links, counts, told, .. } = self;
        let link = &mut links[destination];
        while let Some(packet) = link.packets.front_mut().filter(|packet| packet.ready <= *now) {
            if packet.number < link.expected {
                counts.suppressed += 1;
                link.packets.pop_front();
                continue;
            }
            if packet.lost {
                counts.dropped += 1;
                packet.ready = *now + u64::from(faults.retransmit_polls.max(1));
                packet.lost = random.chance(faults.drop);
                packet.again = true;
                break;
            }
            if std::mem::take(&mut packet.again) {
                counts.retransmitted += 1;
            }
            match port.post(&packet.command.rest()) {
                Ok(taken) => {
                    link.cause = None;
                    packet.command.taken += taken;
                    if !packet.command.is_whole() {
                        continue;
                    }
                }
                Err(PostError::Full { cause, .. }) => {
                    link.cause = Some(cause);
                    link.let_pass(port, counts);
                    break;
                }
                Err(error @ PostError::PeerFailed(_)) => {
                    // The port underneath reports the failure to the next post.
                    link.abandon(counts, told, error);
                    break;
                }
                Err(error) => {
                    counts.abandoned += 1;
                    match completion(&packet.command.frame, error) {
                        Some(event) => told.push_back(event),
                        None => _ = link.late.get_or_insert(error),
                    }
                }
            }
            link.expected = packet.number + 1;
            link.packets.pop_front();
        }
    }

    /// Executes a post, after time has advanced.
    fn submit(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        let destination = command.destination;
        let Some(link) = self.links.get_mut(destination as usize) else {
            return self.port.post(command);
        };
        if let Some(error) = link.late.take() {
            return Err(error);
        }
        if command.operation == Operation::Nop || self.faults.are_off() && link.packets.is_empty() {
            return self.port.post(command);
        }
        if let PeerState::Failed(failure) = self.port.peer(destination) {
            // Nothing lands there any more; the port underneath reports that.
            link.abandon(&mut self.counts, &mut self.told, PostError::PeerFailed(failure));
            return self.port.post(command);
        }
        if self.random.chance(self.faults.refuse) {
            self.counts.refused += 1;
            return Err(self.full(destination, FullCause::RingRefused));
        }
        if command.passes && self.links[destination as usize].may_be_passed() {
            return self.port.post(command);
        }
        let fate = self.fate();
        let Some(bytes) = self.bytes_to_hold(command) else {
            return self.post_straight(command, fate);
        };
        let link = &mut self.links[destination as usize];
        if link.packets.is_empty() && fate.is_none() {
            return self.port.post(command);
        }
        if link.packets.len() >= self.faults.window.max(1) {
            let cause = link.cause.unwrap_or(FullCause::RingStalled);
            return Err(self.full(destination, cause));
        }
        self.hold(command, bytes, fate);
        self.drive(destination as usize);
        Ok(bytes)
    }

    /// The bytes of a command that the link holds as a packet; `None` if it does not hold it.
    fn bytes_to_hold(&self, command: &Command<'_>) -> Option<usize> {
        let packet = self.port.capabilities().packet_bytes.clamp(INLINE_BYTES, LONGEST_HELD);
        let length = command.payload.len();
        if command.credited || command.operation.is_remote() && !self.faults.hold_remote {
            return None;
        }
        let in_parts =
            command.operation == Operation::Send && command.granularity == Granularity::PerPacket;
        match length {
            0..=LONGEST_HELD if !in_parts => Some(length),
            _ if in_parts => Some(length.min(packet)),
            _ => None,
        }
    }

    /// Posts a command that must not be held, or refuses it.
    fn post_straight(&mut self, command: &Command<'_>, fate: Fate) -> Result<usize, PostError> {
        self.bar(command.destination, fate, command.operation.is_remote())?;
        self.port.post(command)
    }

    /// Checks that a command that is never held may go to `destination` now: its delay is over, and
    /// the link is empty, or its first packet found no room and the command needs none (`remote`).
    fn bar(&mut self, destination: Rank, fate: Fate, remote: bool) -> Result<(), PostError> {
        let link = &mut self.links[destination as usize];
        if self.now >= link.barred && fate.late() {
            link.barred = self.now + fate.wait.max(1);
            self.counts.delayed += 1;
        }
        let passes = remote && link.cause.is_some();
        if self.now < link.barred || !(passes || link.packets.is_empty()) {
            let cause = link.cause.unwrap_or(FullCause::RingStalled);
            return Err(self.full(destination, cause));
        }
        Ok(())
    }

    /// Admits a command that completes on return: `get` or `fetch`.
    fn clear_way(&mut self, destination: Rank) -> Result<(), PostError> {
        self.advance();
        let Some(link) = self.links.get_mut(destination as usize) else { return Ok(()) };
        if let Some(error) = link.late.take() {
            return Err(error);
        }
        if let PeerState::Failed(failure) = self.port.peer(destination) {
            link.abandon(&mut self.counts, &mut self.told, PostError::PeerFailed(failure));
            return Ok(());
        }
        if self.random.chance(self.faults.refuse) {
            self.counts.refused += 1;
            return Err(self.full(destination, FullCause::RingRefused));
        }
        let fate = self.fate();
        self.bar(destination, fate, true)
    }

    fn hold(&mut self, command: &Command<'_>, bytes: usize, fate: Fate) {
        let link = &mut self.links[command.destination as usize];
        let packet = LinkPacket {
            number: link.next,
            command: HeldCommand::new(command, bytes),
            ready: self.now + fate.wait,
            lost: fate.lost,
            again: false,
        };
        link.next += 1;
        if link.packets.is_empty() {
            link.expected = packet.number;
        }
        self.counts.delayed += u64::from(fate.wait > 0);
        let copy = fate.twice.then(|| packet.clone());
        self.counts.duplicated += u64::from(fate.twice);
        link.packets.push_back(packet);
        link.packets.extend(copy);
    }

    fn fate(&mut self) -> Fate {
        let Faults { delay, delay_polls, drop, duplicate, .. } = self.faults;
        let delayed = self.random.chance(delay);
        let wait = if delayed { 1 + self.random.below(u64::from(delay_polls.max(1))) } else { 0 };
        Fate { wait, lost: self.random.chance(drop), twice: self.random.chance(duplicate) }
    }

    fn full(&mut self, destination: Rank, cause: FullCause) -> PostError {
        self.restless = true;
        PostError::Full { destination, cause }
    }
}

impl FaultyLink {
    /// Whether a command that may pass is posted at once. It is if the first packet found no room:
    /// the receiver may need the command before it frees room. Commands that may pass keep their
    /// order.
    fn may_be_passed(&self) -> bool {
        self.cause.is_some() && !self.packets.iter().any(|packet| packet.command.frame.passes)
    }

    /// Delivers the packets that may pass the first one, which has found no room. They were
    /// accepted before that was known.
    fn let_pass<P: Port>(&mut self, port: &mut P, counts: &mut FaultCounts) {
        let (mut delivered, mut is_open) = (None, true);
        self.packets.retain(|packet| {
            if delivered == Some(packet.number) {
                counts.suppressed += 1;
                return false;
            }
            if packet.command.frame.passes && is_open {
                is_open = port.post(&packet.command.rest()).is_ok();
                delivered = is_open.then_some(packet.number);
                return !is_open;
            }
            true
        });
    }

    /// Abandons all held packets: the destination will accept none.
    fn abandon(&mut self, counts: &mut FaultCounts, told: &mut VecDeque<Event>, error: PostError) {
        counts.abandoned += self.packets.len() as u64;
        // The second copy of a packet is not another command.
        let mut last = None;
        for packet in self.packets.drain(..) {
            if packet.number >= self.expected && last.replace(packet.number) != Some(packet.number)
            {
                told.extend(completion(&packet.command.frame, error));
            }
        }
        self.cause = None;
    }
}

impl Fate {
    fn is_none(self) -> bool {
        !self.late() && !self.twice
    }

    fn late(self) -> bool {
        self.wait > 0 || self.lost
    }
}

impl<P: Port> Layer for FaultInjector<P> {
    type Inner = P;

    #[inline(always)]
    fn inner(&self) -> &P {
        &self.port
    }

    #[inline(always)]
    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn layered_multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError>
    where
        P: GroupPort,
    {
        if !self.present {
            return self.port.multicast(group, command, done, bytes);
        }
        self.advance();
        if self.faults.are_off() && self.held() == 0 {
            return self.port.multicast(group, command, done, bytes);
        }
        let most = self.port.capabilities().outstanding;
        let post = |layer: &mut Self, one: &Command<'_>| match one.operation.is_remote() {
            true if layer.told.len() >= most => {
                Err(layer.full(one.destination, FullCause::Outstanding))
            }
            _ => layer.submit(one),
        };
        let tell = |layer: &mut Self, completed| {
            layer.told.push_back(Event::Completed(completed));
            true
        };
        multicast_by(self, group, command, (done, bytes), post, tell)
    }

    #[inline]
    fn layered_get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>
    where
        P: MemoryPort,
    {
        if self.present {
            self.clear_way(from.rank)?;
        }
        self.port.get(from, into)
    }

    #[inline]
    fn layered_fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError>
    where
        P: MemoryPort,
    {
        if self.present {
            self.clear_way(atomic.target.rank)?;
        }
        self.port.fetch(atomic)
    }
}

impl<P: CopyPort> CopyPort for FaultInjector<P> {
    pass_copies_through!(port);

    #[inline]
    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.port.read(from, into)
    }
}

impl<P: Port> Port for FaultInjector<P> {
    pass_through!(port);

    #[inline]
    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        if !self.present {
            return self.port.post(command);
        }
        self.advance();
        self.submit(command)
    }

    #[inline(always)]
    fn post_short(&mut self, destination: Rank, protocol: u8, header: u64, payload: &[u8]) -> bool {
        // With faults the message is posted as a command, like all others.
        !self.present && self.port.post_short(destination, protocol, header, payload)
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        if !self.present {
            return self.port.post_chain(chain);
        }
        self.advance();
        let late = self.links.iter().any(|link| link.late.is_some());
        if self.faults.are_off() && self.held() == 0 && !late {
            return self.port.post_chain(chain);
        }
        for (done, command) in chain.iter().enumerate() {
            let mut bytes = 0;
            loop {
                let rest = after(command, command.payload, bytes);
                bytes += match self.submit(&rest) {
                    Ok(taken) => taken,
                    Err(error) => {
                        let full = matches!(error, PostError::Full { .. });
                        self.told.extend(completion(command, error).filter(|_| !full));
                        return Err(ChainError { done, bytes, error });
                    }
                };
                if bytes == command.payload.len() || command.operation == Operation::Nop {
                    break;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self) -> Option<Event> {
        if !self.present {
            return self.port.poll();
        }
        self.advance();
        self.told.pop_front().or_else(|| self.port.poll())
    }

    #[inline(always)]
    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        if self.present {
            self.advance();
        }
        self.port.receive_whole(source, protocol, header, into)
    }

    #[inline]
    fn release(&mut self, slice: RingSlice) {
        self.port.release(slice);
    }

    #[inline]
    fn read_out(&mut self, slice: RingSlice, into: &mut [u8]) -> usize {
        self.port.read_out(slice, into)
    }

    #[inline]
    fn park(&mut self, deadline: Option<Time>) -> Wake {
        if !self.present {
            return self.port.park(deadline);
        }
        self.advance();
        if !self.told.is_empty() {
            return Wake::Look;
        }
        let restless = std::mem::take(&mut self.restless);
        if !restless && self.held() == 0 {
            return self.port.park(deadline);
        }
        // The links' time is counted in calls, so the caller must not sleep. But the rank that it
        // waits for may need the processor.
        let now = self.port.now();
        self.port.park(Some(now));
        yield_now();
        match deadline {
            Some(deadline) if now >= deadline => Wake::Deadline,
            _ => Wake::Look,
        }
    }
}

impl<H: Sleeper> FaultInjector<HostedPort<H>> {
    /// [`HostedPort::begin_rest`]. While commands are held it only yields.
    pub fn begin_rest(
        &mut self,
        limits: (Option<Time>, RestStart),
        steps: impl Iterator<Item = MissedStep>,
    ) -> Rest<H::Nap> {
        if self.present {
            self.advance();
            let restless = std::mem::take(&mut self.restless);
            if !self.told.is_empty() || restless || self.held() > 0 {
                return Rest::Yield;
            }
        }
        self.port.begin_rest(limits, steps)
    }
}

/// Access to methods that only the port underneath has, such as its host. It does not bypass the
/// links: every call of [`Port`] goes through the layer.
impl<P: Port> Deref for FaultInjector<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.port
    }
}

impl<P: Port> DerefMut for FaultInjector<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.port
    }
}

impl<P: Port> Drop for FaultInjector<P> {
    fn drop(&mut self) {
        if self.held() == 0 {
            return;
        }
        let last = self.port.now() + Time::from_nanoseconds(LEAVE_NANOSECONDS);
        while !self.flush() && self.port.now() < last {
            // Polling reports deaths; messages have no reader any more.
            while self.port.poll().is_some() {}
            let now = self.port.now();
            self.port.park(Some(now));
            yield_now();
        }
    }
}

/// A command that a link holds. It owns its payload, since the caller's is borrowed only for the
/// post. It needs no credit.
#[derive(Debug, Clone)]
pub(super) struct HeldCommand {
    /// The command without its payload.
    pub(super) frame: Command<'static>,
    payload: Vec<u8>,
    /// Payload bytes that the port underneath has taken.
    pub(super) taken: usize,
}

impl HeldCommand {
    /// A copy of the first `bytes` of a command.
    pub(super) fn new(command: &Command<'_>, bytes: usize) -> HeldCommand {
        let payload = command.payload[..bytes].to_vec();
        let Command { operation, destination, protocol, header, total, offset, .. } = *command;
        let Command { granularity, route, credited, passes, notification, reply, .. } = *command;
        let frame = Command {
            operation,
            destination,
            protocol,
            header,
            payload: &[],
            total,
            offset,
            granularity,
            route,
            credited,
            passes,
            notification,
            reply,
        };
        HeldCommand { frame, payload, taken: 0 }
    }

    /// The part still to post.
    pub(super) fn rest(&self) -> Command<'_> {
        after(&self.frame, &self.payload, self.taken)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.taken == self.payload.len()
    }
}

/// The command `frame` with the payload that remains after `taken` bytes.
pub(super) fn after<'a>(frame: &Command<'a>, payload: &'a [u8], taken: usize) -> Command<'a> {
    Command { payload, ..*frame }.rest(taken)
}

/// The completion event of a held command that failed, if its sender asked for one.
pub(super) fn completion(command: &Command<'_>, error: PostError) -> Option<Event> {
    let Command { destination, protocol, header, .. } = *command;
    let completed = Completed { destination, protocol, header, outcome: Err(error) };
    command.reply.tells_failure().then_some(Event::Completed(completed))
}

#[cfg(test)]
mod tests;
