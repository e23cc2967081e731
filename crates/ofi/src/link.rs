//! Packets between hosts, in order and bounded by credits, over one endpoint a process.
//!
//! ```text
//!   send ──> slot of registered memory ──> provider ──> receive buffer ──> land ──> taken
//!     ^                                                                      │
//!     │                                                                     full: held, in order
//!     '── credit: bytes of this source that the receiver has taken  <────────'
//! ```
//!
//! What lands a packet may say that it is full, as a ring of a rank is. Then the packet is held
//! here, and so are all that follow from the same source on the same lane; other sources go on,
//! and so do other lanes: what the library needs in order to go on must not queue behind what the
//! program has sent. A source sends no more than a window of bytes that have not been taken, on
//! each lane, so that is what each may occupy, in receive buffers or held. A source without credit
//! gets [`Posted::Full`]: nothing queues up.
//!
//! Every packet carries its source, a number in sequence, and how much its sender has taken of the
//! other direction. A packet in which one of these is impossible is counted and dropped, and so is
//! everything that follows from that source: after a gap there is no order to keep.
//!
//! Large data does not go this way: its owner registers it and sends where it is, and the receiver
//! reads it ([`Links::fetch`]).

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Completion, Endpoint, Error, Peer, Posted, Region, Remote};

/// The number of a host of the job.
pub type Host = u32;

/// Bytes of a packet before its payload: kind, form, lane, nothing, source, number, credit.
const HEADER: usize = 16;

/// The form of packets, which both sides must have.
const FORM: u8 = 1;

const DATA: u8 = 1;
const CREDIT: u8 = 2;

/// Packets that may be on their way into the provider.
const SLOTS: usize = 64;

/// Tokens of reads; those of sends are their slots.
const FETCH: u64 = 1 << 32;

/// How the links of a process are laid out. All processes of a job have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the longest payload. An endpoint's receive buffers have four times as many for
    /// each packet with its header.
    pub payload: usize,
    /// Bytes of each source that may be unread on a lane, headers included.
    pub window: u32,
    /// Kinds of traffic that do not wait for each other.
    pub lanes: u8,
}

impl Layout {
    /// Bytes of a receive buffer for [`Endpoint::open`].
    pub fn buffer_bytes(&self) -> usize {
        4 * (self.payload + HEADER)
    }

    /// Receive buffers that hold the windows of so many other hosts, of which a quarter of each
    /// may stay unused, and one more that is being emptied.
    pub fn buffers(&self, others: usize) -> usize {
        let windows = others * usize::from(self.lanes) * self.window as usize;
        windows.div_ceil(self.buffer_bytes() / 4 * 3) + 1
    }
}

/// What happens on links.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A packet.
    Packet {
        /// Whose.
        source: Host,
        /// Of which kind.
        lane: u8,
        /// What it carries.
        payload: &'a [u8],
    },
    /// A read is done.
    Fetched {
        /// What [`Links::fetch`] was given.
        token: u32,
    },
}

/// Whether an arrival was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// It was.
    Taken,
    /// There is no room for this packet: it is offered again. A read is never full.
    Full,
}

/// One lane's view of another host. Counts are of bytes, modulo 2^32.
struct Link {
    peer: Peer,
    host: Host,
    lane: u8,
    /// Sent, and of that what the receiver has taken.
    sent: u32,
    acknowledged: u32,
    /// The next packet's number.
    number: u32,
    /// Received, what has been taken of it, and of that what the source knows.
    received: u32,
    taken: u32,
    told: u32,
    expected: u32,
    /// Packets that could not be landed.
    held: VecDeque<Box<[u8]>>,
    /// Whether it has sent what is impossible.
    broken: bool,
}

impl Link {
    fn new(peer: Peer, host: Host, lane: u8) -> Self {
        Self {
            peer,
            host,
            lane,
            sent: 0,
            acknowledged: 0,
            number: 0,
            received: 0,
            taken: 0,
            told: 0,
            expected: 0,
            held: VecDeque::new(),
            broken: false,
        }
    }

    fn header(&self, kind: u8, own: Host) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..3].copy_from_slice(&[kind, FORM, self.lane]);
        for (place, word) in [(4, own), (8, self.number), (12, self.taken)] {
            bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Takes in what a packet says: its payload, if it has one that may be landed.
    fn admit<'a>(&mut self, packet: &Packet<'a>, window: u32) -> Result<Option<&'a [u8]>, ()> {
        let fresh = packet.credit.wrapping_sub(self.acknowledged);
        if fresh > self.sent.wrapping_sub(self.acknowledged) {
            return Err(());
        }
        match packet.kind {
            CREDIT if packet.payload.is_empty() => {
                self.acknowledged = packet.credit;
                Ok(None)
            }
            DATA if packet.number == self.expected => {
                let unread = self.received.wrapping_sub(self.taken);
                let cost = cost(packet.payload.len());
                if unread.checked_add(cost).is_none_or(|unread| unread > window) {
                    return Err(());
                }
                self.acknowledged = packet.credit;
                self.expected = self.expected.wrapping_add(1);
                self.received = self.received.wrapping_add(cost);
                Ok(Some(packet.payload))
            }
            _ => Err(()),
        }
    }

    /// Hands a packet over, or holds it behind those that are held.
    fn land(&mut self, payload: &[u8], land: &mut impl Land) {
        if self.held.is_empty() && self.offer(payload, land) {
            return;
        }
        self.held.push_back(payload.into());
    }

    /// Offers what is held, in order: whether any was taken.
    fn offer_held(&mut self, land: &mut impl Land) -> bool {
        let mut taken = false;
        while let Some(payload) = self.held.pop_front() {
            if !self.offer(&payload, land) {
                self.held.push_front(payload);
                break;
            }
            taken = true;
        }
        taken
    }

    fn offer(&mut self, payload: &[u8], land: &mut impl Land) -> bool {
        let (source, lane) = (self.host, self.lane);
        let taken = land(Arrival::Packet { source, lane, payload }) == Landed::Taken;
        if taken {
            self.taken = self.taken.wrapping_add(cost(payload.len()));
        }
        taken
    }
}

/// What lands arrivals.
trait Land: FnMut(Arrival<'_>) -> Landed {}
impl<F: FnMut(Arrival<'_>) -> Landed> Land for F {}

/// What a packet costs of the window.
fn cost(payload: usize) -> u32 {
    u32::try_from(payload + HEADER).unwrap_or(u32::MAX)
}

/// A packet, decoded.
struct Packet<'a> {
    kind: u8,
    lane: u8,
    source: Host,
    number: u32,
    credit: u32,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Decodes it; `None`: it is none, or of another form.
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let [kind, FORM, lane, 0, ..] = *header else { return None };
        let (source, number, credit) = (word(4), word(8), word(12));
        Some(Self { kind, lane, source, number, credit, payload })
    }
}

/// The links of a process to other hosts.
pub struct Links {
    endpoint: Endpoint,
    own: Host,
    layout: Layout,
    /// Of each host all lanes, one after the other.
    links: Vec<Option<Link>>,
    slots: Region,
    free: Vec<usize>,
    malformed: u64,
}

impl Links {
    /// Links over an endpoint that was opened with the layout's buffers, of host `own` of `hosts`.
    pub fn new(endpoint: Endpoint, own: Host, hosts: Host, layout: Layout) -> Result<Self, Error> {
        // A quarter may be taken without the source knowing: the rest must do for any packet.
        if cost(layout.payload) > layout.window / 2 {
            return Err(Error::Invalid(format!(
                "a window of {} bytes is too small for packets of {}: two must fit",
                layout.window, layout.payload
            )));
        }
        if layout.lanes == 0 {
            return Err(Error::Invalid("links need at least one lane".to_owned()));
        }
        let slots = endpoint.region(SLOTS * (layout.payload + HEADER))?;
        Ok(Self {
            endpoint,
            own,
            layout,
            links: (0..hosts as usize * usize::from(layout.lanes)).map(|_| None).collect(),
            slots,
            free: (0..SLOTS).rev().collect(),
            malformed: 0,
        })
    }

    /// Where others reach this process.
    pub fn address(&self) -> &[u8] {
        self.endpoint.address()
    }

    /// Adds the link to a host, by the address that it has said.
    pub fn connect(&mut self, host: Host, address: &[u8]) -> Result<(), Error> {
        let lanes = usize::from(self.layout.lanes);
        let start = host as usize * lanes;
        let Some(places) = self.links.get_mut(start..start + lanes) else {
            return Err(Error::Invalid(format!("there is no host {host}")));
        };
        let peer = self.endpoint.insert(address)?;
        for (place, lane) in places.iter_mut().zip(0..) {
            *place = Some(Link::new(peer, host, lane));
        }
        Ok(())
    }

    /// Packets that were dropped, since they could not be what their sender should have sent.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether a host has sent such a packet. Nothing more is taken from it.
    pub fn is_broken(&self, host: Host) -> bool {
        self.link(host, 0).is_some_and(|link| link.broken)
    }

    /// Bytes of a source that lie here on a lane and have not been taken.
    pub fn unread(&self, source: Host, lane: u8) -> u32 {
        self.link(source, lane).map_or(0, |link| link.received.wrapping_sub(link.taken))
    }

    fn link(&self, host: Host, lane: u8) -> Option<&Link> {
        self.links.get(place(host, lane, self.layout.lanes)?)?.as_ref()
    }

    /// Sends a packet of these bytes, one part after the other. [`Posted::Full`]: the receiver has
    /// no room, or the provider; go on with [`Self::progress`] and try again.
    pub fn send(&mut self, to: Host, lane: u8, parts: &[&[u8]]) -> Result<Posted, Error> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Some(link) = self.link(to, lane) else {
            return Err(Error::Invalid(format!("there is no link to host {to} on lane {lane}")));
        };
        if length > self.layout.payload {
            let most = self.layout.payload;
            return Err(Error::Invalid(format!("a packet of {length} bytes exceeds {most}")));
        }
        let unread = link.sent.wrapping_sub(link.acknowledged);
        if unread + cost(length) > self.layout.window {
            return Ok(Posted::Full);
        }
        let header = link.header(DATA, self.own);
        let (peer, told) = (link.peer, link.taken);
        let posted = self.post(peer, &header, parts, length)?;
        if posted == Posted::Accepted
            && let Some(at) = place(to, lane, self.layout.lanes)
            && let Some(link) = &mut self.links[at]
        {
            link.number = link.number.wrapping_add(1);
            link.sent = link.sent.wrapping_add(cost(length));
            link.told = told;
        }
        Ok(posted)
    }

    /// Gives the provider a packet: short ones at once, others from a slot.
    fn post(
        &mut self,
        peer: Peer,
        header: &[u8; HEADER],
        parts: &[&[u8]],
        length: usize,
    ) -> Result<Posted, Error> {
        const SHORT: usize = 256;
        let whole = HEADER + length;
        let all = [&header[..]].into_iter().chain(parts.iter().copied());
        if whole <= SHORT.min(self.endpoint.inject_size()) {
            let (mut bytes, mut end) = ([0; SHORT], 0);
            for part in all {
                bytes[end..end + part.len()].copy_from_slice(part);
                end += part.len();
            }
            return self.endpoint.inject(peer, &bytes[..end]);
        }
        let Some(&slot) = self.free.last() else { return Ok(Posted::Full) };
        let start = slot * (self.layout.payload + HEADER);
        let mut end = start;
        for part in all {
            self.slots.copy_in(end, part);
            end += part.len();
        }
        let posted = self.endpoint.send(peer, (&self.slots, start, whole), slot as u64)?;
        if posted == Posted::Accepted {
            self.free.pop();
        }
        Ok(posted)
    }

    /// Registers memory that other hosts may read.
    pub fn region(&self, bytes: usize) -> Result<Region, Error> {
        self.endpoint.region(bytes)
    }

    /// Starts to read memory of a host into a region; [`Arrival::Fetched`] says that it is there.
    pub fn fetch(
        &mut self,
        from: Host,
        remote: Remote,
        into: (&Region, usize, usize),
        token: u32,
    ) -> Result<Posted, Error> {
        let Some(link) = self.link(from, 0) else {
            return Err(Error::Invalid(format!("there is no link to host {from}")));
        };
        self.endpoint.read(link.peer, remote, into, FETCH | u64::from(token))
    }

    /// Takes in what has come and hands it to `land`, what was held first. Returns whether there
    /// was anything. `land` may be called for the packets of one window of each source.
    pub fn progress(&mut self, mut land: impl FnMut(Arrival<'_>) -> Landed) -> Result<bool, Error> {
        let mut any = false;
        for link in self.links.iter_mut().flatten() {
            any |= link.offer_held(&mut land);
        }
        // As many as all windows may hold of the shortest packets would be too many at once.
        for _ in 0..2 * SLOTS {
            match self.endpoint.poll()? {
                None => break,
                Some(Completion::Message { payload }) => {
                    if !take_in(&mut self.links, payload, self.layout, &mut land) {
                        self.malformed += 1;
                    }
                }
                Some(Completion::Done { token }) if token & FETCH != 0 => {
                    land(Arrival::Fetched { token: token as u32 });
                }
                Some(Completion::Done { token }) => self.free.push(token as usize),
                // Nobody is asked to write with data here.
                Some(Completion::Written { .. }) => self.malformed += 1,
                Some(Completion::Failed { token, error }) => {
                    self.free
                        .extend(token.filter(|token| token & FETCH == 0).map(|at| at as usize));
                    return Err(error);
                }
            }
            any = true;
        }
        self.give_credit()?;
        Ok(any)
    }

    /// Tells sources how much of theirs has been taken, a quarter of a window at a time: a source
    /// that is told later still has the rest to send.
    fn give_credit(&mut self) -> Result<(), Error> {
        for at in 0..self.links.len() {
            let Some(link) = &self.links[at] else { continue };
            let taken = link.taken;
            if taken.wrapping_sub(link.told) < self.layout.window / 4 {
                continue;
            }
            let (peer, header) = (link.peer, link.header(CREDIT, self.own));
            if self.post(peer, &header, &[], 0)? == Posted::Accepted
                && let Some(link) = &mut self.links[at]
            {
                link.told = taken;
            }
        }
        Ok(())
    }

    /// Sleeps until something may have come, or for so long. Call it when [`Self::progress`] has
    /// found nothing.
    pub fn wait(&mut self, at_most: Duration) -> Result<(), Error> {
        self.endpoint.wait(at_most)
    }

    /// The endpoint, for what a sleeper needs to know of it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Where a lane of a host stands; `None`: there is no such lane.
fn place(host: Host, lane: u8, lanes: u8) -> Option<usize> {
    (lane < lanes).then(|| host as usize * usize::from(lanes) + usize::from(lane))
}

/// Takes in a packet; `false`: it cannot be one of its source's, from which nothing more is taken
/// then.
fn take_in(links: &mut [Option<Link>], bytes: &[u8], layout: Layout, land: &mut impl Land) -> bool {
    let Some(packet) = Packet::decode(bytes) else { return false };
    let Some(at) = place(packet.source, packet.lane, layout.lanes) else { return false };
    let Some(Some(link)) = links.get_mut(at) else { return false };
    if link.broken {
        return false;
    }
    match link.admit(&packet, layout.window) {
        Ok(Some(payload)) => link.land(payload, land),
        Ok(None) => {}
        Err(()) => {
            let lanes = links.iter_mut().flatten().filter(|link| link.host == packet.source);
            lanes.for_each(|link| link.broken = true);
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 1024;

    /// A packet as its sender would make it.
    fn packet(kind: u8, number: u32, credit: u32, payload: &[u8]) -> Packet<'_> {
        Packet { kind, lane: 0, source: 1, number, credit, payload }
    }

    #[test]
    fn packets_in_sequence_within_the_window_are_admitted() {
        let mut link = Link::new(Peer(0), 1, 0);
        for number in 0..3 {
            let admitted = link.admit(&packet(DATA, number, 0, &[7; 100]), WINDOW);
            assert_eq!(admitted, Ok(Some(&[7; 100][..])));
        }
        assert_eq!(link.received, 3 * 116);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let wrong = [
            ("a gap", packet(DATA, 2, 0, &[1])),
            ("the same again", packet(DATA, 0, 0, &[1])),
            ("more than the window", packet(DATA, 1, 0, &[1; 1000])),
            ("more taken than was sent", packet(CREDIT, 0, 51, &[])),
            ("less taken than before", packet(CREDIT, 0, 19, &[])),
            ("credit with a payload", packet(CREDIT, 0, 30, &[1])),
            ("another kind", packet(3, 1, 30, &[])),
        ];
        for (what, packet) in wrong {
            let mut link = Link::new(Peer(0), 1, 0);
            (link.sent, link.acknowledged) = (50, 20);
            link.admit(&self::packet(DATA, 0, 20, &[1]), WINDOW).unwrap();
            assert_eq!(link.admit(&packet, WINDOW), Err(()), "{what}");
            assert_eq!((link.acknowledged, link.expected, link.received), (20, 1, 17), "{what}");
        }
    }

    #[test]
    fn counters_pass_their_end() {
        let mut link = Link::new(Peer(0), 1, 0);
        let start = u32::MAX - 10;
        (link.sent, link.acknowledged) = (start.wrapping_add(100), start);
        (link.received, link.taken, link.told) = (start, start, start);
        link.expected = u32::MAX;
        let first = link.admit(&packet(DATA, u32::MAX, start.wrapping_add(60), &[1; 50]), WINDOW);
        assert_eq!(first, Ok(Some(&[1; 50][..])));
        assert_eq!((link.expected, link.acknowledged), (0, start.wrapping_add(60)));
        assert!(link.admit(&packet(DATA, 0, 49, &[2; 50]), WINDOW).is_ok());
        assert_eq!(link.received.wrapping_sub(link.taken), 132);
    }

    #[test]
    fn packets_are_held_in_order_until_there_is_room() {
        let mut link = Link::new(Peer(0), 1, 0);
        let mut seen = Vec::new();
        link.land(b"a", &mut |_| Landed::Full);
        link.land(b"b", &mut |_| panic!("overtakes a packet that is held"));
        assert_eq!(link.taken, 0);
        let mut room = 1;
        let mut land = |arrival: Arrival<'_>| {
            let Arrival::Packet { payload, .. } = arrival else { panic!() };
            if room == 0 {
                return Landed::Full;
            }
            room -= 1;
            seen.push(payload.to_vec());
            Landed::Taken
        };
        assert!(link.offer_held(&mut land));
        assert!(!link.offer_held(&mut land));
        assert_eq!((seen, link.taken, link.held.len()), (vec![b"a".to_vec()], 17, 1));
    }

    #[test]
    fn bytes_that_are_no_packet_are_refused() {
        let link = Link::new(Peer(0), 1, 0);
        let good = link.header(DATA, 3);
        assert!(Packet::decode(&good).is_some_and(|packet| packet.source == 3));
        assert!(Packet::decode(&good[..15]).is_none());
        for place in [1, 3] {
            let mut wrong = good;
            wrong[place] ^= 0x40;
            assert!(Packet::decode(&wrong).is_none(), "byte {place}");
        }
    }
}
