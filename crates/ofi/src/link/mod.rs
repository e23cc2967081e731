//! Packets between hosts, in order and bounded by credits, over one endpoint a process.
//!
//! ```text
//!   send ──> slot of registered memory ──> provider ──> receive buffer ──> land ──> taken
//!     ^                                                                      │
//!     │                                                                     full: held, in order
//!     '── credit: bytes of this source that the receiver has taken  <────────'
//! ```
//!
//! The function that lands packets may report that it is full, as a rank's ring can be. Then the
//! packet is held here, and so are all later packets from the same source on the same lane. Other
//! sources and other lanes continue: packets that the library needs for progress must not queue
//! behind those of the program. On each lane a source sends at most a window of bytes that were not
//! taken, so this is the most that it can occupy in receive buffers or held. A source without
//! credit gets [`PostResult::Full`]: nothing queues up.
//!
//! A window takes receive memory whether it is used or not. So a source has none until it sends:
//! its first packet may come without a window. The receiver lands it, and grants the source a small
//! window as long as all windows together stay within a limit. A source without a window continues
//! packet by packet. If the receiver is full, such a packet is held in a pool that all sources
//! without a window share. If the pool is full as well, the packet is *refused*: it counts as not
//! arrived. Its sender keeps it until it has a window or the packet was taken, and is asked for it
//! again when there is room. A source that sends much gets a larger window, within a common limit.
//!
//! Every packet carries its source, a sequence number, the bytes that its sender has taken in the
//! other direction, that direction's window, and the key of the job. A packet with another key
//! comes from a stranger: it is counted and dropped. So is a packet with an impossible number, and
//! everything that follows from its source. A packet that is early by no more than a window is put
//! aside: some providers report a long message after the short ones behind it.
//!
//! Large data does not use packets: its owner registers the memory and sends its address, and the
//! receiver reads it ([`Links::fetch`]). If the kernel does that read for the provider, the memory
//! may be the program's own ([`Links::lend`]).

mod lane;
mod table;

use std::time::Duration;

use hikyaku_nic::fabric::DroppedPackets;

use lane::{AGAIN, CREDIT, DATA, HEADER, LANES, LaneLink, cost};
use table::{LinkTable, longest_in};

use crate::{
    Endpoint, EndpointCompletion, Error, LentMemory, Peer, PostResult, Region, Remote, Survey,
};

/// The number of a process of the job.
pub type Host = u32;

/// A secret of the job, which every packet carries.
pub type Key = [u8; 16];

/// Packets that may be posted and not complete.
const SLOTS: usize = 64;

/// Tokens of reads; those of sends are their slots.
const FETCH: u64 = 1 << 32;

/// The limits of a process's links. All processes of a job use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLayout {
    /// The longest payload, bytes. An endpoint's receive buffers have four times that and four
    /// packet headers.
    pub payload: usize,
    /// Bytes on each lane that packets of sources without a window may have unread.
    pub pool: usize,
    /// Bytes that each source may have unread on a lane, headers included, once it has sent
    /// something there.
    pub window: u32,
    /// Bytes that all such windows together may have. A source for which none are left has no
    /// window.
    pub windows: usize,
    /// The limit of the window of a source that sends much: its window doubles up to this.
    pub most: u32,
    /// Bytes by which all windows together may grow.
    pub budget: usize,
    /// The number of lanes: kinds of traffic that do not wait for each other.
    pub lanes: u8,
}

impl LinkLayout {
    /// The size of a receive buffer for [`Endpoint::open`], bytes.
    pub fn buffer_bytes(&self) -> usize {
        4 * (self.payload + HEADER)
    }

    /// Bytes that `others` hosts may have unread here in total. `windows`: bytes of all windows as
    /// first granted; `grown`: bytes by which they have grown.
    fn unread(&self, others: usize, (windows, grown): (usize, usize)) -> usize {
        let lanes = usize::from(self.lanes);
        let all = others.saturating_mul(lanes * self.window as usize);
        all.min(self.pool * lanes + windows) + grown
    }

    /// The number of receive buffers for them. A quarter of each may stay unused, and one more is
    /// being emptied.
    fn buffers(&self, others: usize, windows: (usize, usize)) -> usize {
        self.unread(others, windows).div_ceil(self.buffer_bytes() / 4 * 3) + 1
    }

    /// Bytes of memory that a process needs for its links in a job of `hosts`. It may have links to
    /// `others`; `partners` of them have sent to it or received from it. Counts receive buffers,
    /// held copies if nothing can be landed, outgoing packets, and the links.
    pub fn bytes(&self, (hosts, others): (usize, usize), partners: usize) -> LinkBytes {
        let partners = partners.min(others);
        let wanted = partners * usize::from(self.lanes) * self.window as usize;
        let windows = (wanted.min(self.windows), if partners == 0 { 0 } else { self.budget });
        let buffers = self.buffers(others, windows);
        LinkBytes {
            buffers: buffers * self.buffer_bytes(),
            held: if partners == 0 { 0 } else { self.unread(others, windows) },
            slots: SLOTS * (self.payload + HEADER),
            links: LinkTable::bytes(self, hosts, partners),
        }
    }

    fn check(&self) -> Result<(), Error> {
        // A quarter may be taken before the source knows: the rest must suffice for any packet.
        if cost(self.payload) > self.most / 2 || cost(0) > self.window / 4 {
            return Err(Error::Invalid(format!(
                "windows of {} to {} bytes are too small for packets of {}: two must fit",
                self.window, self.most, self.payload
            )));
        }
        if self.payload > usize::from(u16::MAX) || self.lanes > LANES {
            return Err(Error::Invalid("packets are too long, or lanes too many".to_owned()));
        }
        if self.lanes == 0 || self.window > self.most {
            return Err(Error::Invalid("links need a lane, and windows that grow".to_owned()));
        }
        if self.pool < self.window as usize / 2 {
            let what = format!("a pool of {} bytes is too small for a first packet", self.pool);
            return Err(Error::Invalid(what));
        }
        Ok(())
    }
}

/// The result of [`LinkLayout::bytes`]: the most, if everything allowed is unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBytes {
    /// Receive buffers.
    pub buffers: usize,
    /// Copies of packets that could not be landed.
    pub held: usize,
    /// Outgoing packets.
    pub slots: usize,
    /// The links themselves.
    pub links: usize,
}

/// An event on the links.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkArrival<'a> {
    /// A packet.
    Packet {
        /// The source.
        source: Host,
        /// The lane.
        lane: u8,
        /// The payload.
        payload: &'a [u8],
    },
    /// A read has ended.
    Fetched {
        /// The token that was passed to [`Links::fetch`].
        token: u32,
        /// `None`: the bytes have arrived. Otherwise the error number of libfabric.
        error: Option<i32>,
    },
}

/// Why a link broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The other side has violated the protocol.
    Impossible,
    /// The provider cannot reach the host; with libfabric's error number, if there is one.
    Provider(Option<i32>),
    /// The owner of the links has ended the link.
    Local,
}

impl From<&Error> for Breach {
    fn from(error: &Error) -> Breach {
        Breach::Provider(error.code())
    }
}

/// The result of [`Links::counts`]: bytes of a lane, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Sent.
    pub sent: u32,
    /// The bytes that the receiver is known to have taken, and those that it allows unread.
    pub known: (u32, u32),
    /// Received.
    pub received: u32,
    /// The taken bytes and the allowed bytes, as last reported to the sender.
    pub told: (u32, u32),
}

/// Whether an arrival was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The arrival was taken.
    Taken,
    /// There is no room for this packet: it will be offered again. A read is never full.
    Full,
}

/// The links of a process to other processes of its job.
pub struct Links {
    endpoint: Endpoint,
    others: usize,
    table: LinkTable,
    slots: Region,
    /// The destinations of the packets in the slots.
    bound: Vec<Host>,
    free: Vec<usize>,
    /// Whether short packets use slots as well.
    follows_all: bool,
}

impl Links {
    /// Opens an endpoint on an offer of a survey, for host `own` of `hosts`, with links to at most
    /// `others` of them. It knows no host yet, and accepts packets from all that have the key.
    pub fn open(
        survey: &Survey,
        offer: usize,
        (own, hosts, others): (Host, Host, usize),
        layout: LinkLayout,
        key: Key,
    ) -> Result<Self, Error> {
        layout.check()?;
        let most = layout.buffers(others, (layout.windows, layout.budget));
        let buffers = (layout.buffers(others, (0, 0)), most);
        let endpoint = Endpoint::open_to_grow(survey, offer, buffers, layout.buffer_bytes())?;
        let slots = endpoint.region(SLOTS * (layout.payload + HEADER))?;
        Ok(Self {
            endpoint,
            others,
            table: LinkTable::new((own, hosts), layout, key),
            slots,
            bound: vec![own; SLOTS],
            free: (0..SLOTS).rev().collect(),
            follows_all: false,
        })
    }

    /// The address of this process, for others.
    pub fn address(&self) -> &[u8] {
        self.endpoint.address()
    }

    /// Adds the link to a host at the address that the host has given.
    pub fn connect(&mut self, host: Host, address: &[u8]) -> Result<(), Error> {
        self.table.check(host)?;
        let peer = self.endpoint.insert(address)?;
        self.table.connect(host, peer);
        Ok(())
    }

    /// Whether there is a link to a host.
    pub fn is_connected(&self, host: Host) -> bool {
        self.table.link(host, 0).is_some_and(|link| link.peer.is_some())
    }

    /// The dropped packets. Those that arrive after a link broke are counted, but do not replace
    /// the last cause.
    pub fn drops(&self) -> DroppedPackets {
        self.table.drops
    }

    /// Whether the link to a host broke: a packet was invalid, or the host cannot be reached.
    /// Nothing more is taken from it.
    pub fn is_broken(&self, host: Host) -> bool {
        self.table.link(host, 0).is_some_and(|link| link.broken)
    }

    /// A host to which the link broke, and why. Each is returned once.
    pub fn take_broken(&mut self) -> Option<(Host, Breach)> {
        self.table.broke.pop_front()
    }

    /// Bytes of a source on a lane that are here and were not taken.
    pub fn unread(&self, source: Host, lane: u8) -> u32 {
        self.table.link(source, lane).map_or(0, |link| link.received.wrapping_sub(link.taken))
    }

    /// The counts of a lane at this side, for a caller that can compare both sides.
    pub fn counts(&self, host: Host, lane: u8) -> LaneCounts {
        self.table.link(host, lane).map_or_else(LaneCounts::default, LaneLink::counts)
    }

    /// Whether a lane holds packets of a source that could not be landed.
    pub fn holds(&self, source: Host, lane: u8) -> bool {
        self.table.link(source, lane).is_some_and(|link| !link.held.is_empty())
    }

    /// Bytes sent to a host on a lane that the host has not reported as taken.
    pub fn unacknowledged(&self, to: Host, lane: u8) -> u32 {
        self.table.link(to, lane).map_or(0, |link| link.sent.wrapping_sub(link.acknowledged))
    }

    /// The bytes that a source may have unread here on a lane; 0: one packet at a time.
    pub fn window(&self, source: Host, lane: u8) -> u32 {
        self.table.link(source, lane).map_or(0, |link| link.window)
    }

    /// Bytes of all receive buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.endpoint.buffers() * self.table.layout.buffer_bytes()
    }

    /// The longest payload that a packet to a host may have now, bytes: two packets fit into the
    /// window.
    pub fn longest(&self, to: Host, lane: u8) -> usize {
        let LinkLayout { payload, window, .. } = self.table.layout;
        let allowed = self.table.link(to, lane).map_or(0, |link| link.allowed);
        payload.min(longest_in(allowed.max(window)))
    }

    /// Sends a packet of these bytes, one part after the other. [`PostResult::Full`]: the receiver
    /// or the provider has no room; call [`Self::progress`] and try again.
    pub fn send(&mut self, to: Host, lane: u8, parts: &[&[u8]]) -> Result<PostResult, Error> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let place = self.table.place(to, lane);
        let met = place.and_then(|at| Some((at, self.table.at(at).peer?)));
        let Some((at, peer)) = met else {
            return Err(Error::Invalid(format!("there is no link to host {to} on lane {lane}")));
        };
        let most = self.longest(to, lane);
        if length > most {
            return Err(Error::Invalid(format!("a packet of {length} bytes exceeds {most}")));
        }
        let link = self.table.at(at);
        if !link.may_send(cost(length)) {
            return Ok(PostResult::Full);
        }
        let header = link.header((DATA, link.number), length, self.table.sender());
        let posted = self.post((to, peer), &header, parts, length)?;
        if posted == PostResult::Accepted {
            self.table.at_mut(at).has_sent(parts, cost(length));
        }
        Ok(posted)
    }

    /// Posts a packet: a short one without a slot, others from a slot.
    fn post(
        &mut self,
        (to, peer): (Host, Peer),
        header: &[u8; HEADER],
        parts: &[&[u8]],
        length: usize,
    ) -> Result<PostResult, Error> {
        const SHORT: usize = 256;
        let whole = HEADER + length;
        let all = [&header[..]].into_iter().chain(parts.iter().copied());
        if !self.follows_all && whole <= SHORT.min(self.endpoint.inject_size()) {
            let (mut bytes, mut end) = ([0; SHORT], 0);
            for part in all {
                bytes[end..end + part.len()].copy_from_slice(part);
                end += part.len();
            }
            return self.endpoint.inject(peer, &bytes[..end]);
        }
        let Some(&slot) = self.free.last() else { return Ok(PostResult::Full) };
        let start = slot * (self.table.layout.payload + HEADER);
        let mut end = start;
        for part in all {
            self.slots.copy_in(end, part);
            end += part.len();
        }
        let posted = self.endpoint.send(peer, (&self.slots, start, whole), slot as u64)?;
        if posted == PostResult::Accepted {
            self.bound[slot] = to;
            self.free.pop();
        }
        Ok(posted)
    }

    /// Registers memory that other hosts may read.
    pub fn region(&self, bytes: usize) -> Result<Region, Error> {
        self.endpoint.region(bytes)
    }

    /// Starts to read memory of a host into a region; [`LinkArrival::Fetched`] reports the end.
    pub fn fetch(
        &mut self,
        from: Host,
        remote: Remote,
        into: (&Region, usize, usize),
        token: u32,
    ) -> Result<PostResult, Error> {
        let Some(peer) = self.table.link(from, 0).and_then(|link| link.peer) else {
            return Err(Error::Invalid(format!("there is no link to host {from}")));
        };
        self.endpoint.read(peer, remote, into, FETCH | u64::from(token))
    }

    /// Whether memory of the program can be lent: [`Endpoint::lends`].
    pub fn lends(&self) -> bool {
        self.endpoint.lends()
    }

    /// Lends memory of the program to the job's other hosts until the result is dropped. The caller
    /// tells them its address ([`LentMemory::remote`]). Names must differ, and be below 2^63. Only
    /// if [`Self::lends`].
    pub fn lend(&self, name: u64, bytes: &[u8]) -> Result<LentMemory, Error> {
        // A host that was not told the key, and lacks the job's secret, cannot guess it.
        let secret = u64::from_le_bytes(std::array::from_fn(|byte| self.table.key[byte]));
        self.endpoint.lend(name ^ (secret >> 1), bytes)
    }

    /// Whether other memory may be lent under a name that is being read:
    /// [`Endpoint::replaces_lent`].
    pub fn replaces_lent(&self) -> bool {
        self.endpoint.replaces_lent()
    }

    /// Handles arrivals and passes them to `land`, held packets first. Returns whether there was
    /// any. `land` may be called for the packets of one window of each source.
    pub fn progress(
        &mut self,
        mut land: impl FnMut(LinkArrival<'_>) -> Acceptance,
    ) -> Result<bool, Error> {
        let mut any = self.table.offer_held(&mut land);
        // Limited: all windows full of the shortest packets would be too many at once.
        for _ in 0..2 * SLOTS {
            match self.endpoint.poll()? {
                None => break,
                Some(EndpointCompletion::Message { payload }) => {
                    self.table.take_in(payload, &mut land);
                }
                Some(EndpointCompletion::Done { token }) if token & FETCH != 0 => {
                    land(LinkArrival::Fetched { token: token as u32, error: None });
                }
                Some(EndpointCompletion::Done { token }) => self.free.push(token as usize),
                // No peer is asked to write with data here.
                Some(EndpointCompletion::Written { .. }) => self.table.drops.note_strange(),
                Some(EndpointCompletion::Failed { token: Some(token), error })
                    if token & FETCH != 0 =>
                {
                    let error = Some(error.code().unwrap_or_default());
                    land(LinkArrival::Fetched { token: token as u32, error });
                }
                Some(EndpointCompletion::Failed { token, error }) => self.fail(token, &error),
            }
            any = true;
        }
        self.give_credit()?;
        self.send_again();
        Ok(any)
    }

    /// A packet was lost, or a receive has failed.
    fn fail(&mut self, token: Option<u64>, error: &Error) {
        let Some(slot) = token.map(|token| token as usize) else {
            self.table.drops.note_strange();
            return;
        };
        self.free.push(slot);
        self.break_link(self.bound[slot], error.into());
    }

    /// Breaks the link to a host: nothing more is taken from it or held for it.
    pub fn break_link(&mut self, host: Host, breach: Breach) {
        self.table.break_links(host, breach);
    }

    /// The host has said that it sends nothing more on a lane: its window goes to others. Packets
    /// that have arrived stay.
    pub fn end_lane(&mut self, host: Host, lane: u8) {
        self.table.end_lane(host, lane);
    }

    /// Reports to sources how many of their bytes were taken, their windows, and the packets to
    /// send again. Receive buffers are added first.
    fn give_credit(&mut self) -> Result<(), Error> {
        let mut owing = self.table.take_owing();
        let invited = self.table.take_invited();
        if owing.is_empty() && invited.is_empty() {
            return Ok(());
        }
        owing.iter().for_each(|at| self.table.widen(*at));
        let windows = self.table.given();
        let grown = self.endpoint.grow(self.table.layout.buffers(self.others, windows));
        if grown.is_ok() {
            owing.retain(|at| !self.tell(CREDIT, *at));
            for at in invited {
                match self.tell(AGAIN, at) {
                    true => self.table.at_mut(at).refused = 0,
                    false => self.table.refuse_still(at),
                }
            }
        }
        self.table.owe_still(owing);
        grown
    }

    /// Reports to one source. Returns whether it was told, or cannot be told.
    fn tell(&mut self, kind: u8, at: usize) -> bool {
        let link = self.table.at(at);
        let (host, peer) = (link.host, link.peer);
        if link.broken {
            return true;
        }
        let Some(peer) = peer else { return false };
        let header = link.header((kind, link.number), 0, self.table.sender());
        match self.post((host, peer), &header, &[], 0) {
            Ok(PostResult::Full) => false,
            Ok(PostResult::Accepted) => {
                self.table.at_mut(at).has_told();
                true
            }
            Err(error) => {
                self.break_link(host, (&error).into());
                true
            }
        }
    }

    /// Sends packets again that their receivers had refused.
    fn send_again(&mut self) {
        for at in std::mem::take(&mut self.table.again) {
            let kept = self.table.at_mut(at).kept.take();
            let link = self.table.at(at);
            let (Some(peer), Some(packet)) = (link.peer, kept) else { continue };
            let (host, number) = (link.host, link.number.wrapping_sub(1));
            let header = link.header((DATA, number), packet.len(), self.table.sender());
            let posted = self.post((host, peer), &header, &[&packet], packet.len());
            let link = self.table.at_mut(at);
            match posted {
                Ok(PostResult::Accepted) => link.has_told(),
                Ok(PostResult::Full) => self.table.again.push(at),
                Err(error) => self.break_link(host, (&error).into()),
            }
            let link = self.table.at_mut(at);
            link.kept = (!link.broken).then_some(packet);
        }
    }

    /// Reports all taken bytes to a host at the next progress, because the host waits for that.
    pub fn acknowledge(&mut self, host: Host) {
        self.table.acknowledge(host);
    }

    /// From now on [`Self::is_still`] counts short packets too. Otherwise a provider takes them and
    /// reports nothing more, and closing the endpoint may lose them.
    pub fn follow_all(&mut self) {
        self.follows_all = true;
    }

    /// Whether nothing is in flight from here: no packet in the provider, none held, no credit
    /// owed. A short packet that the provider has taken is not counted ([`Self::follow_all`]).
    pub fn is_still(&self) -> bool {
        self.endpoint.in_flight() == 0 && self.table.is_still()
    }

    /// Sleeps until something may have arrived, or for at most `at_most`. Call it when
    /// [`Self::progress`] has found nothing.
    pub fn wait(&mut self, at_most: Duration) -> Result<(), Error> {
        self.endpoint.wait(at_most)
    }

    /// The endpoint, for callers that sleep on it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}
