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
//! gets [`PostResult::Full`]: nothing queues up.
//!
//! A window takes receive memory whether it is used or not. So a source has none until it sends
//! something: its first packet may come without. The receiver lands it, and gives the source a
//! small window as long as all together stay within a limit. A source that gets none goes on packet
//! by packet. What such a packet finds full is held in a pool that all sources without a
//! window share; if that is full as well, the packet is *refused*: it is as if it had not come, and
//! its sender, which keeps it until it has a window or the packet was taken, is asked for it again
//! when there is room. A source that sends much gets a larger window, within a limit for all.
//!
//! Every packet carries its source, a number in sequence, how much its sender has taken of the
//! other direction and how large that one's window is, and the key of the job. A packet with
//! another key is a stranger's: it is counted and dropped. One in which a number is impossible is
//! too, and so is everything that follows from that source. One that is early by no more than fit
//! into a window is put aside: some providers report a long message after the short ones behind it.
//!
//! Large data does not go this way: its owner registers it and sends where it is, and the receiver
//! reads it ([`Links::fetch`]). Where the provider has the kernel read it, that may be memory of
//! the program itself ([`Links::lend`]).

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

/// Packets that may be on their way into the provider.
const SLOTS: usize = 64;

/// Tokens of reads; those of sends are their slots.
const FETCH: u64 = 1 << 32;

/// How the links of a process are laid out. All processes of a job have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLayout {
    /// Bytes of the longest payload. An endpoint's receive buffers have four times as many for
    /// each packet with its header.
    pub payload: usize,
    /// Bytes of each lane that packets of sources without a window may have unread.
    pub pool: usize,
    /// Bytes of each source that may be unread on a lane, headers included, once it has sent
    /// something there.
    pub window: u32,
    /// Bytes that such windows may have in all. A source for which there are none left has no
    /// window.
    pub windows: usize,
    /// The same as `window` for a source that sends much: its window doubles until then.
    pub most: u32,
    /// Bytes by which all windows together may have grown.
    pub budget: usize,
    /// Kinds of traffic that do not wait for each other.
    pub lanes: u8,
}

impl LinkLayout {
    /// Bytes of a receive buffer for [`Endpoint::open`].
    pub fn buffer_bytes(&self) -> usize {
        4 * (self.payload + HEADER)
    }

    /// Bytes that so many other hosts may have unread here in all, of which windows have so many
    /// and by how many they have grown.
    fn unread(&self, others: usize, (windows, grown): (usize, usize)) -> usize {
        let lanes = usize::from(self.lanes);
        let all = others.saturating_mul(lanes * self.window as usize);
        all.min(self.pool * lanes + windows) + grown
    }

    /// Receive buffers for them. A quarter of each may stay unused, and one more is being emptied.
    fn buffers(&self, others: usize, windows: (usize, usize)) -> usize {
        self.unread(others, windows).div_ceil(self.buffer_bytes() / 4 * 3) + 1
    }

    /// Bytes of memory that a process needs for its links in a job of so many, of which it may have
    /// links to `others`, and so many have sent it something, or have been sent something: in
    /// receive buffers, in what is held beside them if nothing can be landed, for packets on their
    /// way out, and for the links.
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
        // A quarter may be taken without the source knowing: the rest must do for any packet.
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

/// What [`LinkLayout::bytes`] answers: the most, if all that may be unread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBytes {
    /// Receive buffers.
    pub buffers: usize,
    /// Copies of packets that could not be landed.
    pub held: usize,
    /// Packets on their way out.
    pub slots: usize,
    /// The links themselves.
    pub links: usize,
}

/// What happens on links.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkArrival<'a> {
    /// A packet.
    Packet {
        /// Whose.
        source: Host,
        /// Of which kind.
        lane: u8,
        /// What it carries.
        payload: &'a [u8],
    },
    /// A read is over.
    Fetched {
        /// What [`Links::fetch`] was given.
        token: u32,
        /// `None`: the bytes are there. Else the error number of libfabric.
        error: Option<i32>,
    },
}

/// Why a link broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The other side has sent what is impossible.
    Impossible,
    /// The provider cannot reach it: the error number of libfabric, if there is one.
    Provider(Option<i32>),
    /// The owner of the links wants nothing more of it.
    Local,
}

impl From<&Error> for Breach {
    fn from(error: &Error) -> Breach {
        Breach::Provider(error.code())
    }
}

/// What [`Links::counts`] answers: bytes of a lane, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Sent.
    pub sent: u32,
    /// What the receiver is known to have taken, and what it allows unread.
    pub known: (u32, u32),
    /// Received.
    pub received: u32,
    /// What the sender was told to be taken, and what it was told to be allowed.
    pub told: (u32, u32),
}

/// Whether an arrival was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It was.
    Taken,
    /// There is no room for this packet: it is offered again. A read is never full.
    Full,
}

/// The links of a process to others of its job.
pub struct Links {
    endpoint: Endpoint,
    others: usize,
    table: LinkTable,
    slots: Region,
    /// To whom the packets in the slots go.
    bound: Vec<Host>,
    free: Vec<usize>,
    /// Whether short packets go from slots as well.
    follows_all: bool,
}

impl Links {
    /// Opens an endpoint by an offer of a survey, for host `own` of `hosts`, of which it may have
    /// links to so many others. It knows none yet, and takes in what those with the key send.
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

    /// Where others reach this process.
    pub fn address(&self) -> &[u8] {
        self.endpoint.address()
    }

    /// Adds the link to a host, by the address that it has said.
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

    /// What was dropped. What came after a link broke says nothing new: it is counted, and is not
    /// the last.
    pub fn drops(&self) -> DroppedPackets {
        self.table.drops
    }

    /// Whether a host has sent such a packet, or cannot be reached. Nothing more is taken from it.
    pub fn is_broken(&self, host: Host) -> bool {
        self.table.link(host, 0).is_some_and(|link| link.broken)
    }

    /// A host to which the link broke, each once, and why.
    pub fn take_broken(&mut self) -> Option<(Host, Breach)> {
        self.table.broke.pop_front()
    }

    /// Bytes of a source that lie here on a lane and have not been taken.
    pub fn unread(&self, source: Host, lane: u8) -> u32 {
        self.table.link(source, lane).map_or(0, |link| link.received.wrapping_sub(link.taken))
    }

    /// What this side of a lane has sent and knows, and what it has received and told: for who sees
    /// both sides.
    pub fn counts(&self, host: Host, lane: u8) -> LaneCounts {
        self.table.link(host, lane).map_or_else(LaneCounts::default, LaneLink::counts)
    }

    /// Whether a lane holds packets of a source that could not be landed.
    pub fn holds(&self, source: Host, lane: u8) -> bool {
        self.table.link(source, lane).is_some_and(|link| !link.held.is_empty())
    }

    /// Bytes sent to a host on a lane that it has not said to have taken.
    pub fn unacknowledged(&self, to: Host, lane: u8) -> u32 {
        self.table.link(to, lane).map_or(0, |link| link.sent.wrapping_sub(link.acknowledged))
    }

    /// What a source may have unread here on a lane; 0: one packet at a time.
    pub fn window(&self, source: Host, lane: u8) -> u32 {
        self.table.link(source, lane).map_or(0, |link| link.window)
    }

    /// Bytes of the receive buffers that there are.
    pub fn buffer_bytes(&self) -> usize {
        self.endpoint.buffers() * self.table.layout.buffer_bytes()
    }

    /// Bytes of the longest payload that a packet to a host may have now: two packets fit into the
    /// window.
    pub fn longest(&self, to: Host, lane: u8) -> usize {
        let LinkLayout { payload, window, .. } = self.table.layout;
        let allowed = self.table.link(to, lane).map_or(0, |link| link.allowed);
        payload.min(longest_in(allowed.max(window)))
    }

    /// Sends a packet of these bytes, one part after the other. [`PostResult::Full`]: the receiver
    /// has no room, or the provider; go on with [`Self::progress`] and try again.
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

    /// Gives the provider a packet: short ones at once, others from a slot.
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

    /// Starts to read memory of a host into a region; [`LinkArrival::Fetched`] says that it is
    /// there.
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

    /// Lends memory of the program to the job's other hosts, which are to be told where it is
    /// ([`LentMemory::remote`]), until the answer is dropped. Names are unlike each other, and
    /// below 2^63. Only if [`Self::lends`].
    pub fn lend(&self, name: u64, bytes: &[u8]) -> Result<LentMemory, Error> {
        // Who has not been told a key and lacks the job's cannot guess it.
        let secret = u64::from_le_bytes(std::array::from_fn(|byte| self.table.key[byte]));
        self.endpoint.lend(name ^ (secret >> 1), bytes)
    }

    /// Whether other memory may be lent by a name under which some is read:
    /// [`Endpoint::replaces_lent`].
    pub fn replaces_lent(&self) -> bool {
        self.endpoint.replaces_lent()
    }

    /// Takes in what has come and hands it to `land`, what was held first. Returns whether there
    /// was anything. `land` may be called for the packets of one window of each source.
    pub fn progress(
        &mut self,
        mut land: impl FnMut(LinkArrival<'_>) -> Acceptance,
    ) -> Result<bool, Error> {
        let mut any = self.table.offer_held(&mut land);
        // As many as all windows may hold of the shortest packets would be too many at once.
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
                // Nobody is asked to write with data here.
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

    /// Takes and holds nothing more of a host.
    pub fn break_link(&mut self, host: Host, breach: Breach) {
        self.table.break_links(host, breach);
    }

    /// Nothing more comes of a host on a lane, as it has said: what it may have unread there is
    /// others'. What has come of it stays.
    pub fn end_lane(&mut self, host: Host, lane: u8) {
        self.table.end_lane(host, lane);
    }

    /// Tells sources how much of theirs has been taken, what windows they have, and what they are
    /// to send again. Receive buffers come first.
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

    /// Tells one source; whether it knows now, or cannot be told.
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

    /// Sends packets again that their receivers had no room for.
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

    /// Tells a host at the next progress all that has been taken of it: it waits for that.
    pub fn acknowledge(&mut self, host: Host) {
        self.table.acknowledge(host);
    }

    /// From now on [`Self::is_still`] counts short packets too: else a provider takes them and says
    /// no more of them, and an endpoint that is closed may take them along.
    pub fn follow_all(&mut self) {
        self.follows_all = true;
    }

    /// Whether nothing of its own is under way: no packet in the provider, none held, no credit
    /// owed. A short packet that the provider has taken is not counted ([`Self::follow_all`]).
    pub fn is_still(&self) -> bool {
        self.endpoint.in_flight() == 0 && self.table.is_still()
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
