//! The links of a process to all others of its job, and the bytes that each may have unread here:
//! bookkeeping without a provider.
//!
//! ```text
//!   first packet ──► window to give? ──yes──► landed, or held within the window
//!                      no
//!                      '──► landed, or held in the pool ── no room ──► refused; sent again when
//!                                                                      there is
//! ```
//!
//! For a host that has exchanged no packet with this process, the table has only four bytes of an
//! index.

use std::collections::VecDeque;

use hikyaku_nic::fabric::{DropCause, DroppedPackets};

use super::lane::{Admitted, DecodedPacket, HEADER, Land, LaneLink, cost};
use super::{Breach, Host, Key, LinkLayout};
use crate::{Error, Peer};

pub(super) struct LinkTable {
    own: Host,
    pub(super) key: Key,
    pub(super) layout: LinkLayout,
    /// The index of each host's first lane among the links, plus one; 0: the host has none.
    index: Vec<u32>,
    /// All lanes of each known host, one after the other.
    links: Vec<LaneLink>,
    /// Links that hold packets, and links whose sources are owed a credit report.
    holding: Vec<usize>,
    owing: Vec<usize>,
    /// By lane, links of which a packet was refused, in order.
    refused: Vec<VecDeque<usize>>,
    /// By lane, bytes of the pool that are occupied or reserved.
    pooled: Vec<usize>,
    /// Links whose kept packet is to be sent again.
    pub(super) again: Vec<usize>,
    /// Bytes of all windows as first granted, and bytes by which they have grown.
    windows: usize,
    grown: usize,
    /// Hosts whose links broke, with the reason, until the owner takes them.
    pub(super) broke: VecDeque<(Host, Breach)>,
    pub(super) drops: DroppedPackets,
}

impl LinkTable {
    pub(super) fn new((own, hosts): (Host, Host), layout: LinkLayout, key: Key) -> Self {
        let lanes = usize::from(layout.lanes);
        Self {
            own,
            key,
            layout,
            index: vec![0; hosts as usize],
            links: Vec::new(),
            holding: Vec::new(),
            owing: Vec::new(),
            refused: vec![VecDeque::new(); lanes],
            pooled: vec![0; lanes],
            again: Vec::new(),
            windows: 0,
            grown: 0,
            broke: VecDeque::new(),
            drops: DroppedPackets::default(),
        }
    }

    /// The index of a lane of a host, if the host is known.
    pub(super) fn place(&self, host: Host, lane: u8) -> Option<usize> {
        let first = self.index.get(host as usize)?.checked_sub(1)?;
        (lane < self.layout.lanes).then(|| first as usize + usize::from(lane))
    }

    /// The index of the host's first lane, which is added if necessary; `None`: there is no such
    /// host, or there are too many.
    fn enter(&mut self, host: Host) -> Option<usize> {
        let entry = self.index.get_mut(host as usize)?;
        if *entry == 0 {
            *entry = u32::try_from(self.links.len() + 1).ok()?;
            self.links.extend((0..self.layout.lanes).map(|lane| LaneLink::new(host, lane)));
        }
        Some(*entry as usize - 1)
    }

    pub(super) fn link(&self, host: Host, lane: u8) -> Option<&LaneLink> {
        self.links.get(self.place(host, lane)?)
    }

    pub(super) fn at(&self, at: usize) -> &LaneLink {
        &self.links[at]
    }

    pub(super) fn at_mut(&mut self, at: usize) -> &mut LaneLink {
        &mut self.links[at]
    }

    /// Checks that the host exists.
    pub(super) fn check(&self, host: Host) -> Result<(), Error> {
        match self.index.get(host as usize) {
            Some(_) => Ok(()),
            None => Err(Error::Invalid(format!("there is no host {host}"))),
        }
    }

    /// Records the address of a host.
    pub(super) fn connect(&mut self, host: Host, peer: Peer) {
        let Some(first) = self.enter(host) else { return };
        let lanes = usize::from(self.layout.lanes);
        self.links[first..first + lanes].iter_mut().for_each(|link| link.peer = Some(peer));
    }

    /// Bytes of all windows as first granted, and bytes by which they have grown.
    pub(super) fn given(&self) -> (usize, usize) {
        (self.windows, self.grown)
    }

    /// The source of outgoing packets, and the job's key.
    pub(super) fn sender(&self) -> (Host, &Key) {
        (self.own, &self.key)
    }

    /// Handles a packet.
    pub(super) fn take_in(&mut self, bytes: &[u8], land: &mut impl Land) {
        match DecodedPacket::decode(bytes, &self.key) {
            Some(packet) => {
                if let Err(cause) = self.admit(&packet, land) {
                    self.drops.note(packet.source, cause);
                }
            }
            None => self.drops.note_strange(),
        }
    }

    /// # Errors
    /// Why the packet is dropped; `None`: the link to its source broke earlier.
    fn admit(
        &mut self,
        packet: &DecodedPacket<'_>,
        land: &mut impl Land,
    ) -> Result<(), Option<DropCause>> {
        if packet.source == self.own || packet.lane >= self.layout.lanes {
            return Err(Some(DropCause::Source));
        }
        let first = self.enter(packet.source).ok_or(Some(DropCause::Source))?;
        let at = first + usize::from(packet.lane);
        let (link, windows) = (&mut self.links[at], (self.layout.window, self.layout.most));
        if link.broken {
            return Err(None);
        }
        match link.admit(packet, windows) {
            Ok(Admitted::Payload(payload)) => {
                self.land(at, payload, land);
                while let Some(payload) = self.links[at].take_early() {
                    self.land(at, &payload, land);
                }
            }
            Ok(Admitted::Early | Admitted::Credit) => {}
            Ok(Admitted::Again) if self.again.contains(&at) => {}
            Ok(Admitted::Again) => self.again.push(at),
            Err(()) => {
                self.break_links(packet.source, Breach::Impossible);
                return Err(Some(DropCause::Number));
            }
        }
        self.note(at);
        Ok(())
    }

    /// Lands a packet, or holds it: within its window, or in the pool. If there is no room, it is
    /// refused, and its source is asked for it again when there is.
    fn land(&mut self, at: usize, payload: &[u8], land: &mut impl Land) {
        self.give_window(at);
        let link = &mut self.links[at];
        let (cost, lane) = (cost(payload.len()), usize::from(link.lane));
        if link.window > 0 || link.pooled >= cost {
            link.land(payload, land);
        } else if self.refused[lane].is_empty()
            && self.pooled[lane] + cost as usize <= self.layout.pool
        {
            link.pooled += cost;
            self.pooled[lane] += cost as usize;
            link.land(payload, land);
        } else if !link.land_now(payload, land) {
            link.refused = cost;
            self.refused[lane].push_back(at);
        }
        self.settle(at);
    }

    /// Grants a source its window, if it has none and there is memory for it.
    fn give_window(&mut self, at: usize) {
        let all = self.windows + self.layout.window as usize;
        let link = &mut self.links[at];
        if link.window == 0 && all <= self.layout.windows {
            link.widen(self.layout.window);
            self.windows = all;
        }
    }

    /// Widens the window of a source that sends much, if there is memory for it.
    pub(super) fn widen(&mut self, at: usize) {
        let link = &mut self.links[at];
        if !link.sends_much() {
            return;
        }
        let more = link.window.min(self.layout.most - link.window);
        let grown = self.grown + more as usize;
        if grown <= self.layout.budget {
            link.widen(more);
            self.grown = grown;
        }
    }

    /// Returns the pool's bytes of a source that needs them no longer, and the window of a source
    /// that sends nothing more.
    fn settle(&mut self, at: usize) {
        let link = &mut self.links[at];
        if link.held.is_empty() || link.window > 0 {
            self.pooled[usize::from(link.lane)] -= link.pooled as usize;
            link.pooled = 0;
        }
        if link.is_over && link.held.is_empty() {
            let first = link.window.min(self.layout.window);
            self.windows -= first as usize;
            self.grown -= (link.window - first) as usize;
            link.window = 0;
        }
    }

    /// A host sends nothing more on a lane. Its window goes to others once its held packets are
    /// taken.
    pub(super) fn end_lane(&mut self, host: Host, lane: u8) {
        if let Some(at) = self.place(host, lane) {
            self.links[at].is_over = true;
            self.settle(at);
        }
    }

    /// Offers the held packets, in order within each lane. Returns whether any was taken.
    pub(super) fn offer_held(&mut self, land: &mut impl Land) -> bool {
        if self.holding.is_empty() {
            return false;
        }
        let (mut any, mut all) = (false, std::mem::take(&mut self.holding));
        // Later lanes first: the library needs them for progress.
        all.sort_unstable_by_key(|at| usize::MAX - at % usize::from(self.layout.lanes));
        for at in all {
            let link = &mut self.links[at];
            link.is_holding = false;
            any |= link.offer_held(land);
            self.settle(at);
            self.note(at);
        }
        any
    }

    /// Updates the lists of links that hold packets or owe credit.
    fn note(&mut self, at: usize) {
        let link = &mut self.links[at];
        if !link.held.is_empty() && !std::mem::replace(&mut link.is_holding, true) {
            self.holding.push(at);
        }
        if link.owes_credit() {
            self.owe(at);
        }
    }

    fn owe(&mut self, at: usize) {
        if !std::mem::replace(&mut self.links[at].is_owing, true) {
            self.owing.push(at);
        }
    }

    /// Takes the list of links that owe credit.
    pub(super) fn take_owing(&mut self) -> Vec<usize> {
        let all = std::mem::take(&mut self.owing);
        all.iter().for_each(|at| self.links[*at].is_owing = false);
        all
    }

    /// Puts links back that still owe credit.
    pub(super) fn owe_still(&mut self, all: impl IntoIterator<Item = usize>) {
        all.into_iter().for_each(|at| self.owe(at));
    }

    /// Schedules a report of all taken bytes to a host that waits for it.
    pub(super) fn acknowledge(&mut self, host: Host) {
        for lane in 0..self.layout.lanes {
            if let Some(at) = self.place(host, lane)
                && self.links[at].untold() > 0
            {
                self.owe(at);
            }
        }
    }

    /// Sources to ask for a refused packet, for which there is room now. The room stays reserved;
    /// the caller returns a source that cannot be asked yet ([`Self::refuse_still`]).
    pub(super) fn take_invited(&mut self) -> Vec<usize> {
        let mut invited = Vec::new();
        for (refused, pooled) in self.refused.iter_mut().zip(&mut self.pooled).rev() {
            while let Some(at) = refused.front() {
                let link = &mut self.links[*at];
                let cost = link.refused as usize;
                // A source that could not be asked before has its room already.
                if link.pooled == 0 && *pooled + cost > self.layout.pool {
                    break;
                }
                if link.pooled == 0 {
                    (link.pooled, *pooled) = (link.refused, *pooled + cost);
                }
                invited.push(*at);
                refused.pop_front();
            }
        }
        invited
    }

    /// Puts a source back that could not be asked for its packet.
    pub(super) fn refuse_still(&mut self, at: usize) {
        self.refused[usize::from(self.links[at].lane)].push_back(at);
    }

    /// Takes and holds nothing more from a host, and resends nothing to it.
    pub(super) fn break_links(&mut self, host: Host, breach: Breach) {
        let Some(first) = self.enter(host) else { return };
        for at in first..first + usize::from(self.layout.lanes) {
            let link = &mut self.links[at];
            if !std::mem::replace(&mut link.broken, true) && link.lane == 0 {
                self.broke.push_back((host, breach));
            }
            link.is_over = true;
            link.clear();
            link.kept = None;
            self.refused[usize::from(link.lane)].retain(|refused| *refused != at);
            link.refused = 0;
            self.settle(at);
        }
    }

    /// Whether no packet is held, no credit is owed and nothing has to be sent again.
    pub(super) fn is_still(&self) -> bool {
        self.holding.is_empty()
            && self.owing.is_empty()
            && self.again.is_empty()
            && self.refused.iter().all(VecDeque::is_empty)
    }

    /// Bytes of this table in a job of `hosts`, of which `known` are known.
    pub(super) fn bytes(layout: &LinkLayout, hosts: usize, known: usize) -> usize {
        // A growing list may have twice the capacity that it needs.
        hosts * size_of::<u32>() + 2 * known * usize::from(layout.lanes) * size_of::<LaneLink>()
    }
}

/// The longest payload of a packet in a window of `window` bytes: two packets fit.
pub(super) fn longest_in(window: u32) -> usize {
    window as usize / 2 - HEADER
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::lane::{AGAIN, CREDIT, DATA};
    use super::super::{Acceptance, LinkArrival};
    use super::*;

    const KEY: Key = [5; 16];
    const SOURCES: Host = 20;

    fn dropped(table: &LinkTable) -> u32 {
        table.drops.strange + table.drops.wrong
    }

    /// Room for the first packets of three sources of `PACKET` bytes, and `windows` windows.
    fn layout(windows: usize) -> LinkLayout {
        let (window, pool) = (1024, 512);
        let windows = windows * window as usize;
        LinkLayout { payload: 1000, pool, window, windows, most: 4096, budget: 0, lanes: 2 }
    }

    const PACKET: [u8; 100] = [7; 100];

    /// The receiver: host 0, besides the sources.
    fn receiver(windows: usize) -> LinkTable {
        LinkTable::new((0, SOURCES + 1), layout(windows), KEY)
    }

    /// A packet of a source.
    fn packet(source: Host, number: u32) -> Vec<u8> {
        let head = LaneLink::new(0, 0).header((DATA, number), PACKET.len(), (source, &KEY));
        [&head[..], &PACKET].concat()
    }

    fn full(_: LinkArrival<'_>) -> Acceptance {
        Acceptance::Full
    }

    /// Asks sources for their packets again. Returns the sources.
    fn invite(table: &mut LinkTable) -> Vec<Host> {
        let invited = table.take_invited();
        invited.iter().for_each(|at| table.at_mut(*at).refused = 0);
        invited.iter().map(|at| table.at(*at).host).collect()
    }

    /// Takes all held packets. Returns their sources.
    fn drain(table: &mut LinkTable) -> Vec<Host> {
        let mut from = Vec::new();
        table.offer_held(&mut |arrival: LinkArrival<'_>| {
            let LinkArrival::Packet { source, .. } = arrival else { panic!() };
            from.push(source);
            Acceptance::Taken
        });
        from
    }

    #[test]
    fn more_first_packets_than_there_is_room_for_are_asked_for_again_in_turn() {
        let mut table = receiver(0);
        (1..=SOURCES).for_each(|source| table.take_in(&packet(source, 0), &mut full));
        assert!(invite(&mut table).is_empty(), "there is no room yet");
        let (mut came, mut rounds) = (Vec::new(), 0);
        while came.len() < SOURCES as usize {
            came.extend(drain(&mut table));
            for source in invite(&mut table) {
                // The room is reserved for it: a new source on this lane cannot take it.
                table.take_in(&packet(source, 0), &mut full);
            }
            assert!(table.pooled[0] <= 512, "{} bytes of the pool", table.pooled[0]);
            rounds += 1;
            assert!(rounds <= 7, "three at a time: {came:?}");
        }
        assert_eq!(came, Vec::from_iter(1..=SOURCES));
        assert_eq!((dropped(&table), table.pooled[0], table.windows), (0, 0, 0));
        assert!(table.take_owing().len() == SOURCES as usize && table.is_still());
    }

    #[test]
    fn windows_go_to_those_who_send_as_long_as_there_are_any() {
        let mut table = receiver(4);
        assert_eq!((table.links.len(), table.given()), (0, (0, 0)));
        for source in 1..=SOURCES {
            table.take_in(&packet(source, 0), &mut |_: LinkArrival<'_>| Acceptance::Taken);
        }
        let windows: Vec<u32> =
            (1..=6).map(|source| table.link(source, 0).unwrap().window).collect();
        assert_eq!(windows, [1024, 1024, 1024, 1024, 0, 0]);
        assert_eq!(table.given(), (4096, 0));
        // A source without a window continues packet by packet; a dead one frees its window.
        table.break_links(2, Breach::Local);
        assert_eq!(table.given(), (3072, 0));
        table.take_in(&packet(5, 1), &mut |_: LinkArrival<'_>| Acceptance::Taken);
        table.take_in(&packet(6, 1), &mut |_: LinkArrival<'_>| Acceptance::Taken);
        let windows = [5, 6].map(|source| table.link(source, 0).unwrap().window);
        assert_eq!((windows, dropped(&table)), ([1024, 0], 0));
    }

    #[test]
    fn who_sends_nothing_more_leaves_its_window_to_another() {
        let taken = |_: LinkArrival<'_>| Acceptance::Taken;
        let mut table = receiver(2);
        table.take_in(&packet(1, 0), &mut &taken);
        table.take_in(&packet(2, 0), &mut full);
        assert_eq!(table.given(), (2048, 0));
        // Its packets are kept until they are taken, and so is its window.
        table.end_lane(1, 0);
        table.end_lane(2, 0);
        table.end_lane(3, 0);
        assert_eq!(table.given(), (1024, 0));
        assert_eq!(drain(&mut table), [2]);
        assert_eq!(table.given(), (0, 0));
        table.take_in(&packet(3, 0), &mut &taken);
        assert_eq!(table.given(), (1024, 0));
        // Its other lane continues.
        let mut other = packet(1, 0);
        other[0] += 1;
        table.take_in(&other, &mut &taken);
        assert_eq!(dropped(&table), 0);
        // The link of a source that still sends is broken, and returns its window once.
        table.take_in(&packet(2, 1), &mut full);
        assert_eq!((dropped(&table), table.given()), (1, (2048, 0)));
        table.break_links(1, Breach::Local);
        assert_eq!(table.given(), (1024, 0));
    }

    #[test]
    fn who_dies_before_its_packet_is_asked_for_takes_no_room() {
        let mut table = receiver(0);
        (1..=8).for_each(|source| table.take_in(&packet(source, 0), &mut full));
        // A source whose packet is held, one that waits, and one that was asked and never answers.
        table.break_links(1, Breach::Local);
        table.break_links(4, Breach::Local);
        assert_eq!(invite(&mut table), [5]);
        table.break_links(5, Breach::Local);
        assert_eq!(invite(&mut table), [6]);
        table.take_in(&packet(5, 0), &mut |_: LinkArrival<'_>| panic!("of a dead rank"));
        table.take_in(&packet(6, 0), &mut full);
        assert_eq!(drain(&mut table), [2, 3, 6]);
        assert_eq!(invite(&mut table), [7, 8]);
        assert_eq!(table.pooled[0], 2 * 136);
        assert_eq!(Vec::from_iter(table.broke), [1, 4, 5].map(|host| (host, Breach::Local)));
    }

    #[test]
    fn a_source_that_does_not_wait_to_be_asked_is_broken_and_no_other() {
        let mut table = receiver(0);
        (1..=5).for_each(|source| table.take_in(&packet(source, 0), &mut full));
        table.take_in(&packet(4, 0), &mut full);
        table.take_in(&packet(2, 1), &mut full);
        assert_eq!((dropped(&table), drain(&mut table)), (2, vec![1, 3]));
        assert_eq!(invite(&mut table), [5]);
    }

    #[test]
    fn lanes_have_pools_of_their_own() {
        let mut table = receiver(0);
        (1..=5).for_each(|source| table.take_in(&packet(source, 0), &mut full));
        let mut other = packet(1, 0);
        other[0] += 1;
        table.take_in(&other, &mut full);
        assert_eq!((table.pooled[0], table.pooled[1], table.refused[1].len()), (408, 136, 0));
    }

    #[test]
    fn what_is_asked_for_again_is_sent_again_once() {
        let mut table = receiver(0);
        table.connect(3, Peer(0));
        let at = table.place(3, 0).unwrap();
        table.at_mut(at).has_sent(&[&PACKET], 136);
        let say = |kind| LaneLink::new(0, 0).header((kind, 0), 0, (3, &KEY));
        table.take_in(&say(CREDIT), &mut full);
        assert!(table.again.is_empty());
        table.take_in(&say(AGAIN), &mut full);
        table.take_in(&say(AGAIN), &mut full);
        assert_eq!((&table.again[..], dropped(&table), table.is_still()), (&[at][..], 0, false));
    }

    /// A rank of a job of 640,000 has an index of that many entries, and no other table as long.
    #[test]
    fn ranks_that_say_nothing_take_four_bytes_each() {
        let bytes = |partners| LinkTable::bytes(&layout(0), 640_000, partners);
        assert_eq!(bytes(0), 4 * 640_000);
        let mut table = LinkTable::new((0, 640_000), layout(4), KEY);
        (1..100).for_each(|source| {
            table.take_in(&packet(source * 6000, 0), &mut full);
        });
        let there = 4 * table.index.len() + table.links.capacity() * size_of::<LaneLink>();
        assert!((bytes(0)..=bytes(99)).contains(&there), "{there} bytes");
    }
}
