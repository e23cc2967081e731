//! A layer that makes trouble between sender and landing, by a seeded generator: the same seed and
//! the same calls give the same faults.
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
//! What the rules of a fabric ask for still holds: per destination the order is kept, nothing is
//! lost or doubled, and full is an answer (a link holds a bounded number of packets). Two things
//! are as on any fabric that accepts before it knows the outcome:
//!
//! - An error that the port underneath gives to a held command is told by its completion event if
//!   it asked for one, and is otherwise the answer to the next post to that destination, which is
//!   not tried then.
//! - What is held when the port is dropped is sent before it leaves, for a bounded time. A killed
//!   rank's is gone ([`FaultInjector::discard`]).
//!
//! A command that needs credit is never held: only the port underneath knows whether there is
//! credit, and one that waited for it in the link would hold up what needs none. Where it would
//! have been held it is refused, for as long. So are `get` and `fetch`, which answer at once: what
//! was posted before them has its effect before them.
//!
//! Time is counted in calls of `post`, `poll` and `park`, so that a test steps it.
//!
//! A port of a job always has this layer over it, and mostly nothing in it
//! ([`FaultInjector::absent`]): each call that the layer changes then takes one branch, always
//! predicted, and the others none. So whole jobs can be run with faults without a second copy, for
//! ports of another type, of everything above the boundary.

mod held;
mod plan;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use held::{Held, after, completion};
pub use plan::{FaultCounts, Faults};

use super::pass_through;
use crate::fabric::multicast_by;
use crate::fabric::{
    Atomic, Capabilities, ChainError, Command, Event, FullCause, Granularity, GroupId,
    INLINE_BYTES, Operation, PeerState, Port, PostError, Rank, RemoteAddress, RingId, RingSlice,
    RingState, Short, TableError, Wait, Wake,
};
use crate::region::{RegionBuffer, RegionError};
use crate::sync::yield_now;
use crate::time::Time;
use plan::SplitMix;

/// Payloads above this are not held: they go straight on or wait with the caller.
const LONGEST_HELD: usize = 256 << 10;

/// How long a dropped port goes on sending what it holds.
const LEAVE_NANOSECONDS: u64 = 100_000_000;

/// A port with unreliable links.
#[derive(Debug)]
pub struct FaultInjector<P: Port> {
    port: P,
    /// Whether there is a layer at all.
    present: bool,
    faults: Faults,
    random: SplitMix,
    /// Calls so far.
    now: u64,
    links: Vec<Link>,
    counts: FaultCounts,
    /// Held commands that came to nothing, for those who asked to be told.
    told: VecDeque<Event>,
    /// The last answer was a refusal of this layer's: nobody will wake the caller for it.
    restless: bool,
}

/// The way to one destination.
#[derive(Debug, Default)]
struct Link {
    packets: VecDeque<Packet>,
    /// Number of the next packet that is accepted.
    next: u64,
    /// Number of the next packet that may arrive.
    expected: u64,
    /// Why the port underneath had no room for the first packet.
    cause: Option<FullCause>,
    /// An error that the next post shall have.
    late: Option<PostError>,
    /// Until when commands that need credit are refused.
    barred: u64,
}

/// A command on its way.
#[derive(Debug, Clone)]
struct Packet {
    number: u64,
    command: Held,
    /// Not before this call.
    ready: u64,
    /// It is lost when it arrives.
    lost: bool,
    /// It was lost and is sent again.
    again: bool,
}

/// What is going to happen to a command.
#[derive(Debug, Clone, Copy)]
struct Fate {
    wait: u64,
    lost: bool,
    twice: bool,
}

impl<P: Port> FaultInjector<P> {
    /// Puts unreliable links before `port`.
    pub fn new(port: P, faults: Faults) -> FaultInjector<P> {
        let mut layer = FaultInjector::absent(port);
        layer.meet(faults);
        layer
    }

    /// The port as it is.
    pub fn absent(port: P) -> FaultInjector<P> {
        let (faults, random, counts) = (Faults::NONE, SplitMix(0), FaultCounts::default());
        let (links, told) = (Vec::new(), VecDeque::new());
        let (present, restless) = (false, false);
        FaultInjector { port, present, faults, random, now: 0, links, counts, told, restless }
    }

    /// Puts unreliable links before the port, which had none.
    pub fn meet(&mut self, faults: Faults) {
        self.links = (0..self.port.size()).map(|_| Link::default()).collect();
        // Ranks of a job share the seed but not the faults.
        self.random = SplitMix(faults.seed ^ (u64::from(self.port.rank()) << 32));
        (self.faults, self.present) = (faults, true);
    }

    /// The port underneath.
    pub fn inner(&self) -> &P {
        &self.port
    }

    /// The port underneath, to drive it past the links.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// The faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Packets held in all links.
    pub fn held(&self) -> usize {
        self.links.iter().map(|link| link.packets.len()).sum()
    }

    /// Sends all that is held now, without further faults, as far as there is room; says whether
    /// nothing is left.
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

    /// Throws away all that is held, as the death of the process does.
    pub fn discard(&mut self) {
        for link in &mut self.links {
            self.counts.abandoned += link.packets.len() as u64;
            link.packets.clear();
        }
    }

    /// One call's worth of time.
    fn advance(&mut self) {
        self.now += 1;
        for destination in 0..self.links.len() {
            self.drive(destination);
        }
    }

    /// Brings to its end what has come to the end of a link.
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
                    break;
                }
                Err(error @ PostError::PeerFailed(_)) => {
                    // The next post learns it from the port underneath.
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

    /// A post, once time has moved on.
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
            // Nothing lands there any more, and the port underneath says so.
            link.abandon(&mut self.counts, &mut self.told, PostError::PeerFailed(failure));
            return self.port.post(command);
        }
        if self.random.chance(self.faults.refuse) {
            self.counts.refused += 1;
            return Err(self.full(destination, FullCause::RingRefused));
        }
        if command.passes && self.links[destination as usize].cause.is_some() {
            // The receiver may wait for it before it makes room for what the link holds.
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

    /// How many bytes of a command the link takes into a packet; `None` if it does not hold it.
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

    /// Posts a command that is not held: now, or not yet.
    fn post_straight(&mut self, command: &Command<'_>, fate: Fate) -> Result<usize, PostError> {
        self.bar(command.destination, fate)?;
        self.port.post(command)
    }

    /// Whether what cannot be held may go to `destination` now: nothing is before it, and its own
    /// fate has had its time.
    fn bar(&mut self, destination: Rank, fate: Fate) -> Result<(), PostError> {
        let link = &mut self.links[destination as usize];
        if self.now >= link.barred && fate.late() {
            link.barred = self.now + fate.wait.max(1);
            self.counts.delayed += 1;
        }
        if self.now < link.barred || !link.packets.is_empty() {
            let cause = link.cause.unwrap_or(FullCause::RingStalled);
            return Err(self.full(destination, cause));
        }
        Ok(())
    }

    /// The way of what answers at once: `get` and `fetch`.
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
        self.bar(destination, fate)
    }

    fn hold(&mut self, command: &Command<'_>, bytes: usize, fate: Fate) {
        let link = &mut self.links[command.destination as usize];
        let packet = Packet {
            number: link.next,
            command: Held::new(command, bytes),
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

impl Link {
    /// Gives up all that is held, since nobody will take it.
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
    fn post_inline(
        &mut self,
        destination: Rank,
        protocol: u8,
        header: u64,
        payload: &[u8],
        credited: bool,
    ) -> Result<(), PostError> {
        if !self.present {
            return self.port.post_inline(destination, protocol, header, payload, credited);
        }
        let command = Command { credited, ..Command::send(destination, protocol, header, payload) };
        self.post(&command).map(drop)
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

    fn multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError> {
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
    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.port.read(from, into)
    }

    #[inline]
    fn get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        if self.present {
            self.clear_way(from.rank)?;
        }
        self.port.get(from, into)
    }

    #[inline]
    fn fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        if self.present {
            self.clear_way(atomic.target.rank)?;
        }
        self.port.fetch(atomic)
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
        // The links' time is counted in calls: whoever waits must not sleep, but
        // whoever it waits for may need the processor.
        let now = self.port.now();
        self.port.park(Some(now));
        yield_now();
        match deadline {
            Some(deadline) if now >= deadline => Wake::Deadline,
            _ => Wake::Look,
        }
    }
}

/// What only the port underneath has, such as its host. Not a way past the links: every call of
/// [`Port`] is the layer's.
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
            // Deaths are learnt by polling; messages have no reader any more.
            while self.port.poll().is_some() {}
            let now = self.port.now();
            self.port.park(Some(now));
            yield_now();
        }
    }
}

#[cfg(test)]
mod tests;
