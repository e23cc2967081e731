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
//! Windows are small at first, since each takes receive memory whether it is used or not. A source
//! that sends much gets a larger one, as long as all together stay within a budget; it keeps it.
//!
//! Every packet carries its source, a number in sequence, how much its sender has taken of the
//! other direction and how large that one's window is, and the key of the job. A packet with
//! another key is a stranger's: it is counted and dropped. One in which a number is impossible is
//! too, and so is everything that follows from that source: after a gap there is no order to keep.
//!
//! Large data does not go this way: its owner registers it and sends where it is, and the receiver
//! reads it ([`Links::fetch`]). Where the provider has the kernel read it, that may be memory of
//! the program itself ([`Links::lend`]).

mod lane;

use std::collections::VecDeque;
use std::time::Duration;

use lane::{CREDIT, DATA, DecodedPacket, HEADER, Land, LaneLink, cost};

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
    /// Bytes of each source that may be unread on a lane at first, headers included.
    pub window: u32,
    /// The same for a source that sends much: its window doubles until then.
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

    /// Receive buffers that hold the windows of so many other hosts, and by how many bytes they
    /// have grown. A quarter of each may stay unused, and one more is being emptied.
    pub fn buffers(&self, others: usize, grown: usize) -> usize {
        let windows = others * usize::from(self.lanes) * self.window as usize + grown;
        windows.div_ceil(self.buffer_bytes() / 4 * 3) + 1
    }

    fn check(&self) -> Result<(), Error> {
        // A quarter may be taken without the source knowing: the rest must do for any packet.
        if cost(self.payload) > self.most / 2 || cost(0) > self.window / 4 {
            return Err(Error::Invalid(format!(
                "windows of {} to {} bytes are too small for packets of {}: two must fit",
                self.window, self.most, self.payload
            )));
        }
        if self.lanes == 0 || self.window > self.most {
            return Err(Error::Invalid("links need a lane, and windows that grow".to_owned()));
        }
        Ok(())
    }
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
        /// Whether the bytes are there.
        whole: bool,
    },
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
    own: Host,
    others: usize,
    key: Key,
    layout: LinkLayout,
    /// Of each host all lanes, one after the other.
    links: Vec<Option<LaneLink>>,
    /// Links that hold packets, and those whose sources are to be told what has been taken; each
    /// once.
    holding: Vec<usize>,
    owing: Vec<usize>,
    /// By how many bytes windows have grown.
    grown: usize,
    slots: Region,
    /// To whom the packets in the slots go.
    bound: Vec<Host>,
    free: Vec<usize>,
    /// Hosts whose links broke and that were not asked for yet.
    broke: VecDeque<Host>,
    malformed: u64,
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
        let buffers = (layout.buffers(others, 0), layout.buffers(others, layout.budget));
        let endpoint = Endpoint::open_to_grow(survey, offer, buffers, layout.buffer_bytes())?;
        let slots = endpoint.region(SLOTS * (layout.payload + HEADER))?;
        Ok(Self {
            endpoint,
            own,
            others,
            key,
            layout,
            links: (0..hosts as usize * usize::from(layout.lanes)).map(|_| None).collect(),
            holding: Vec::new(),
            owing: Vec::new(),
            grown: 0,
            slots,
            bound: vec![own; SLOTS],
            free: (0..SLOTS).rev().collect(),
            broke: VecDeque::new(),
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
            let link =
                place.get_or_insert_with(|| LaneLink::new(None, host, lane, self.layout.window));
            link.peer = Some(peer);
        }
        Ok(())
    }

    /// Whether there is a link to a host.
    pub fn is_connected(&self, host: Host) -> bool {
        self.link(host, 0).is_some_and(|link| link.peer.is_some())
    }

    /// Packets that were dropped, since they could not be what their sender should have sent.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether a host has sent such a packet, or cannot be reached. Nothing more is taken from it.
    pub fn is_broken(&self, host: Host) -> bool {
        self.link(host, 0).is_some_and(|link| link.broken)
    }

    /// A host to which the link broke, each once.
    pub fn take_broken(&mut self) -> Option<Host> {
        self.broke.pop_front()
    }

    /// Bytes of a source that lie here on a lane and have not been taken.
    pub fn unread(&self, source: Host, lane: u8) -> u32 {
        self.link(source, lane).map_or(0, |link| link.received.wrapping_sub(link.taken))
    }

    /// Whether a lane holds packets of a source that could not be landed.
    pub fn holds(&self, source: Host, lane: u8) -> bool {
        self.link(source, lane).is_some_and(|link| !link.held.is_empty())
    }

    /// Bytes sent to a host on a lane that it has not said to have taken.
    pub fn unacknowledged(&self, to: Host, lane: u8) -> u32 {
        self.link(to, lane).map_or(0, |link| link.sent.wrapping_sub(link.acknowledged))
    }

    /// What a source may have unread here on a lane.
    pub fn window(&self, source: Host, lane: u8) -> u32 {
        self.link(source, lane).map_or(self.layout.window, |link| link.window)
    }

    fn link(&self, host: Host, lane: u8) -> Option<&LaneLink> {
        self.links.get(place(host, lane, self.layout.lanes)?)?.as_ref()
    }

    fn link_mut(&mut self, host: Host, lane: u8) -> Option<&mut LaneLink> {
        self.links.get_mut(place(host, lane, self.layout.lanes)?)?.as_mut()
    }

    /// Bytes of the longest payload that a packet to a host may have now: two packets fit into the
    /// window.
    pub fn longest(&self, to: Host, lane: u8) -> usize {
        let allowed = self.link(to, lane).map_or(self.layout.window, |link| link.allowed);
        self.layout.payload.min(allowed as usize / 2 - HEADER)
    }

    /// Sends a packet of these bytes, one part after the other. [`PostResult::Full`]: the receiver
    /// has no room, or the provider; go on with [`Self::progress`] and try again.
    pub fn send(&mut self, to: Host, lane: u8, parts: &[&[u8]]) -> Result<PostResult, Error> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let link = self.link(to, lane).and_then(|link| Some((link, link.peer?)));
        let Some((link, peer)) = link else {
            return Err(Error::Invalid(format!("there is no link to host {to} on lane {lane}")));
        };
        let most = self.longest(to, lane);
        if length > most {
            return Err(Error::Invalid(format!("a packet of {length} bytes exceeds {most}")));
        }
        let unread = link.sent.wrapping_sub(link.acknowledged);
        if unread + cost(length) > link.allowed {
            return Ok(PostResult::Full);
        }
        let header = link.header(DATA, self.own, &self.key);
        let told = link.taken;
        let posted = self.post((to, peer), &header, parts, length)?;
        if posted == PostResult::Accepted
            && let Some(link) = self.link_mut(to, lane)
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
        (to, peer): (Host, Peer),
        header: &[u8; HEADER],
        parts: &[&[u8]],
        length: usize,
    ) -> Result<PostResult, Error> {
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
        let Some(&slot) = self.free.last() else { return Ok(PostResult::Full) };
        let start = slot * (self.layout.payload + HEADER);
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
        let Some(peer) = self.link(from, 0).and_then(|link| link.peer) else {
            return Err(Error::Invalid(format!("there is no link to host {from}")));
        };
        self.endpoint.read(peer, remote, into, FETCH | u64::from(token))
    }

    /// Whether memory of the program can be lent: [`Endpoint::lends`].
    pub fn lends(&self) -> bool {
        self.endpoint.lends()
    }

    /// Lends memory of the program to the job's other hosts by a name, which they must know, until
    /// the answer is dropped. Only if [`Self::lends`].
    pub fn lend(&self, name: u64, bytes: &[u8]) -> Result<LentMemory, Error> {
        self.endpoint.lend(self.secret_name(name), bytes)
    }

    /// [`Self::fetch`] of bytes from `offset` on that a host lends by a name.
    pub fn fetch_lent(
        &mut self,
        from: Host,
        (name, offset): (u64, u64),
        into: (&Region, usize, usize),
        token: u32,
    ) -> Result<PostResult, Error> {
        self.fetch(from, Remote::lent(self.secret_name(name), offset), into, token)
    }

    /// The name by which a provider knows it: only who has the job's key can tell. Names are below
    /// 2^63.
    fn secret_name(&self, name: u64) -> u64 {
        let secret = u64::from_le_bytes(std::array::from_fn(|byte| self.key[byte]));
        name ^ (secret >> 1)
    }

    /// Takes in what has come and hands it to `land`, what was held first. Returns whether there
    /// was anything. `land` may be called for the packets of one window of each source.
    pub fn progress(
        &mut self,
        mut land: impl FnMut(LinkArrival<'_>) -> Acceptance,
    ) -> Result<bool, Error> {
        let mut any = self.offer_held(&mut land);
        // As many as all windows may hold of the shortest packets would be too many at once.
        for _ in 0..2 * SLOTS {
            match self.endpoint.poll()? {
                None => break,
                Some(EndpointCompletion::Message { payload }) => {
                    let (links, layout) = (&mut self.links, &self.layout);
                    match take_in(links, payload, (layout, self.own, &self.key), &mut land) {
                        Ok(at) => {
                            note(&mut self.holding, at, |at| holds(links, at));
                            note(&mut self.owing, at, |at| owes(links, at));
                        }
                        Err(Dropped { breaks }) => {
                            self.malformed += 1;
                            self.broke.extend(breaks);
                        }
                    }
                }
                Some(EndpointCompletion::Done { token }) if token & FETCH != 0 => {
                    land(LinkArrival::Fetched { token: token as u32, whole: true });
                }
                Some(EndpointCompletion::Done { token }) => self.free.push(token as usize),
                // Nobody is asked to write with data here.
                Some(EndpointCompletion::Written { .. }) => self.malformed += 1,
                Some(EndpointCompletion::Failed { token: Some(token), .. })
                    if token & FETCH != 0 =>
                {
                    land(LinkArrival::Fetched { token: token as u32, whole: false });
                }
                Some(EndpointCompletion::Failed { token, .. }) => self.fail(token),
            }
            any = true;
        }
        self.give_credit()?;
        Ok(any)
    }

    /// A packet was lost, or a receive has failed.
    fn fail(&mut self, token: Option<u64>) {
        let Some(slot) = token.map(|token| token as usize) else {
            self.malformed += 1;
            return;
        };
        self.free.push(slot);
        self.break_link(self.bound[slot]);
    }

    /// Takes and holds nothing more of a host.
    pub fn break_link(&mut self, host: Host) {
        if !self.is_broken(host) {
            self.broke.push_back(host);
        }
        break_links(&mut self.links, host);
    }

    /// Offers the packets that are held, lane by lane in order.
    fn offer_held(&mut self, land: &mut impl Land) -> bool {
        if self.holding.is_empty() {
            return false;
        }
        let (mut any, mut all) = (false, std::mem::take(&mut self.holding));
        // Later lanes first: what the library needs to go on.
        all.sort_unstable_by_key(|at| usize::MAX - at % usize::from(self.layout.lanes));
        for at in &all {
            if let Some(link) = &mut self.links[*at] {
                any |= link.offer_held(land);
            }
        }
        let links = &self.links;
        all.iter().for_each(|at| note(&mut self.owing, *at, |at| owes(links, at)));
        all.retain(|at| holds(links, *at));
        self.holding = all;
        any
    }

    /// Tells sources how much of theirs has been taken.
    fn give_credit(&mut self) -> Result<(), Error> {
        if self.owing.is_empty() {
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.owing);
        let mut outcome = Ok(());
        all.retain(|at| match self.give_credit_to(*at) {
            Ok(done) => !done,
            Err(error) => {
                outcome = Err(error);
                true
            }
        });
        self.owing = all;
        outcome
    }

    /// Tells one source; whether it knows now, or cannot be told.
    fn give_credit_to(&mut self, at: usize) -> Result<bool, Error> {
        self.widen(at)?;
        let Some(link) = &self.links[at] else { return Ok(true) };
        let Some(peer) = link.peer else { return Ok(false) };
        if link.broken {
            return Ok(true);
        }
        let (taken, host) = (link.taken, link.host);
        let header = link.header(CREDIT, self.own, &self.key);
        match self.post((host, peer), &header, &[], 0) {
            Ok(PostResult::Full) => Ok(false),
            Ok(PostResult::Accepted) => {
                if let Some(link) = &mut self.links[at] {
                    link.told = taken;
                }
                Ok(true)
            }
            Err(_) => {
                self.break_link(host);
                Ok(true)
            }
        }
    }

    /// Lets a source that sends much have more unread, as far as there is memory for it.
    fn widen(&mut self, at: usize) -> Result<(), Error> {
        let Some(link) = self.links[at].as_mut().filter(|link| link.sends_much()) else {
            return Ok(());
        };
        link.since = link.taken;
        let more = link.window.min(self.layout.most - link.window);
        let grown = self.grown + more as usize;
        if more == 0 || grown > self.layout.budget {
            return Ok(());
        }
        link.window += more;
        self.grown = grown;
        self.endpoint.grow(self.layout.buffers(self.others, grown))
    }

    /// Tells a host at the next progress all that has been taken of it: it waits for that.
    pub fn acknowledge(&mut self, host: Host) {
        for lane in 0..self.layout.lanes {
            if let Some(at) = place(host, lane, self.layout.lanes)
                && self.link(host, lane).is_some_and(|link| link.told != link.taken)
            {
                note(&mut self.owing, at, |_| true);
            }
        }
    }

    /// Whether nothing of its own is under way: no packet in the provider, none held, no credit
    /// owed.
    pub fn is_still(&self) -> bool {
        self.endpoint.in_flight() == 0 && self.holding.is_empty() && self.owing.is_empty()
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

/// Notes a link in a list, once, if it belongs there.
fn note(list: &mut Vec<usize>, at: usize, belongs: impl Fn(usize) -> bool) {
    if belongs(at) && !list.contains(&at) {
        list.push(at);
    }
}

fn holds(links: &[Option<LaneLink>], at: usize) -> bool {
    links[at].as_ref().is_some_and(|link| !link.held.is_empty())
}

fn owes(links: &[Option<LaneLink>], at: usize) -> bool {
    links[at].as_ref().is_some_and(LaneLink::owes_credit)
}

fn break_links(links: &mut [Option<LaneLink>], host: Host) {
    for link in links.iter_mut().flatten().filter(|link| link.host == host) {
        link.broken = true;
        link.held.clear();
    }
}

/// A packet that was dropped.
struct Dropped {
    /// It seems to be of this host, and cannot be: nothing more is taken from it.
    breaks: Option<Host>,
}

/// Takes in a packet; returns its link.
fn take_in(
    links: &mut [Option<LaneLink>],
    bytes: &[u8],
    (layout, own, key): (&LinkLayout, Host, &Key),
    land: &mut impl Land,
) -> Result<usize, Dropped> {
    const STRANGE: Dropped = Dropped { breaks: None };
    let packet = DecodedPacket::decode(bytes, key).ok_or(STRANGE)?;
    let at = place(packet.source, packet.lane, layout.lanes).ok_or(STRANGE)?;
    if packet.source == own {
        return Err(STRANGE);
    }
    let place = links.get_mut(at).ok_or(STRANGE)?;
    let (source, lane) = (packet.source, packet.lane);
    let link = place.get_or_insert_with(|| LaneLink::new(None, source, lane, layout.window));
    if link.broken {
        return Err(STRANGE);
    }
    match link.admit(&packet, layout.most) {
        Ok(Some(payload)) => link.land(payload, land),
        Ok(None) => {}
        Err(()) => {
            break_links(links, source);
            return Err(Dropped { breaks: Some(source) });
        }
    }
    Ok(at)
}
