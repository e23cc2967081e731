//! One lane of a link, and packets as bytes.

use std::collections::VecDeque;

use super::{Acceptance, Host, Key, LaneCounts, LinkArrival};
use crate::Peer;

/// Header bytes before a packet's payload: kind and lane, form, payload length, source, number,
/// credit, window, key.
pub(super) const HEADER: usize = 36;

/// The version of the packet format, which must be equal on both sides.
const FORM: u8 = 4;

/// The number of lanes that fit in one byte together with the kind.
pub(super) const LANES: u8 = 16;

pub(super) const DATA: u8 = 1;
pub(super) const CREDIT: u8 = 2;
pub(super) const AGAIN: u8 = 3;

/// The state of one lane to another host. Counts are of bytes, modulo 2^32.
pub(super) struct LaneLink {
    /// `None`: the address of the host is not known yet, though the host may already have sent.
    pub(super) peer: Option<Peer>,
    pub(super) host: Host,
    pub(super) lane: u8,
    /// Bytes sent, bytes of these that the receiver has taken, and the bytes that it may have
    /// unread: 0 until the receiver grants a window.
    pub(super) sent: u32,
    pub(super) acknowledged: u32,
    pub(super) allowed: u32,
    /// The next packet's number.
    pub(super) number: u32,
    /// The packet that was sent without a window, until the receiver is known to have it.
    pub(super) kept: Option<Box<[u8]>>,
    /// Bytes received, bytes of these that were taken, and the count of taken bytes that the source
    /// knows.
    pub(super) received: u32,
    pub(super) taken: u32,
    told: u32,
    expected: u32,
    /// The bytes that the source may have unread here, the value of this that it knows, and the
    /// taken bytes when the window last grew.
    pub(super) window: u32,
    window_told: u32,
    since: u32,
    /// Packets that could not be landed.
    pub(super) held: VecDeque<Box<[u8]>>,
    /// Packets that arrived before an earlier one, by number.
    early: Vec<(u32, Box<[u8]>)>,
    /// For a source without a window: bytes of the pool that its packet occupies or has reserved,
    /// and bytes of a packet that was refused.
    pub(super) pooled: u32,
    pub(super) refused: u32,
    /// Whether the host violated the protocol or cannot be reached.
    pub(super) broken: bool,
    /// Whether the host sends nothing more, so that its window goes to others.
    pub(super) is_over: bool,
    /// Whether this is in the list of links that hold packets, and in that of links that owe
    /// credit.
    pub(super) is_holding: bool,
    pub(super) is_owing: bool,
}

/// The content of an accepted packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admitted<'a> {
    /// A credit or window update.
    Credit,
    /// A payload that is not counted yet.
    Payload(&'a [u8]),
    /// A payload that arrived before earlier ones and was put aside.
    Early,
    /// The packet that was sent without a window was refused, and has to be sent again.
    Again,
}

impl LaneLink {
    pub(super) fn new(host: Host, lane: u8) -> Self {
        Self {
            peer: None,
            host,
            lane,
            sent: 0,
            acknowledged: 0,
            allowed: 0,
            number: 0,
            kept: None,
            received: 0,
            taken: 0,
            told: 0,
            expected: 0,
            window: 0,
            window_told: 0,
            since: 0,
            held: VecDeque::new(),
            early: Vec::new(),
            pooled: 0,
            refused: 0,
            broken: false,
            is_over: false,
            is_holding: false,
            is_owing: false,
        }
    }

    /// The header of a packet with `payload` bytes. After posting it, call [`Self::has_told`] to
    /// record what it reports.
    pub(super) fn header(
        &self,
        (kind, number): (u8, u32),
        payload: usize,
        (own, key): (Host, &Key),
    ) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&[kind * LANES + self.lane, FORM]);
        bytes[2..4].copy_from_slice(&(payload as u16).to_le_bytes());
        for (place, word) in [(4, own), (8, number), (12, self.taken), (16, self.announced())] {
            bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[20..].copy_from_slice(key);
        bytes
    }

    pub(super) fn counts(&self) -> LaneCounts {
        LaneCounts {
            sent: self.sent,
            known: (self.acknowledged, self.allowed),
            received: self.received,
            told: (self.told, self.window_told),
        }
    }

    /// Records that the other side knows the values of the last header.
    pub(super) fn has_told(&mut self) {
        (self.told, self.window_told) = (self.taken, self.announced());
    }

    /// The window as reported to the source: it never shrinks.
    fn announced(&self) -> u32 {
        self.window.max(self.window_told)
    }

    /// Whether a packet of this cost may be sent now: within the window, or alone.
    pub(super) fn may_send(&self, cost: u32) -> bool {
        let unread = self.sent.wrapping_sub(self.acknowledged);
        if self.allowed == 0 { unread == 0 } else { unread + cost <= self.allowed }
    }

    /// Records that a packet was posted. A packet that may be refused is kept.
    pub(super) fn has_sent(&mut self, parts: &[&[u8]], cost: u32) {
        if self.allowed == 0 {
            self.kept = Some(parts.concat().into());
        }
        self.number = self.number.wrapping_add(1);
        self.sent = self.sent.wrapping_add(cost);
        self.has_told();
    }

    /// Accepts a packet and its report of credit.
    ///
    /// Messages arrive in order, but a provider may report a long one after the short ones behind
    /// it, as ofi_rxm does. So a packet may be early, and the credit in a late one is outdated.
    pub(super) fn admit<'a>(
        &mut self,
        packet: &DecodedPacket<'a>,
        (least, most): (u32, u32),
    ) -> Result<Admitted<'a>, ()> {
        let fresh = packet.credit.wrapping_sub(self.acknowledged);
        let is_old = fresh > u32::MAX / 2 || packet.window < self.allowed;
        if !is_old && fresh > self.sent.wrapping_sub(self.acknowledged) {
            return Err(());
        }
        let is_window = packet.window == 0 || (least..=most).contains(&packet.window);
        if !is_window {
            return Err(());
        }
        let admitted = match packet.kind {
            CREDIT if packet.payload.is_empty() => Admitted::Credit,
            AGAIN if packet.payload.is_empty() && self.kept.is_some() && packet.window == 0 => {
                Admitted::Again
            }
            DATA if self.is_due(packet.number) && !self.is_over => {
                let early = self.early.iter().map(|(_, payload)| cost(payload.len()));
                let unread = self.received.wrapping_sub(self.taken) + early.sum::<u32>();
                let cost = cost(packet.payload.len());
                let fits = match self.window {
                    0 => unread == 0 && cost <= least / 2 && self.refused == 0,
                    window => unread.checked_add(cost).is_some_and(|unread| unread <= window),
                };
                if !fits {
                    return Err(());
                }
                if packet.number == self.expected {
                    Admitted::Payload(packet.payload)
                } else if self.window > 0 {
                    self.early.push((packet.number, packet.payload.into()));
                    Admitted::Early
                } else {
                    return Err(());
                }
            }
            _ => return Err(()),
        };
        if is_old {
            return Ok(admitted);
        }
        (self.acknowledged, self.allowed) = (packet.credit, packet.window);
        // The receiver grants a window only to a source whose packet it has accepted.
        if self.allowed > 0 || self.acknowledged == self.sent {
            self.kept = None;
        }
        Ok(admitted)
    }

    /// Whether a packet of this number is still expected: it is the next one, or early by no more
    /// packets than fit into a window.
    fn is_due(&self, number: u32) -> bool {
        number.wrapping_sub(self.expected) <= self.window / cost(0)
            && self.early.iter().all(|(early, _)| *early != number)
    }

    /// The next packet, if it arrived early.
    pub(super) fn take_early(&mut self) -> Option<Box<[u8]>> {
        let next = self.early.iter().position(|(number, _)| *number == self.expected)?;
        Some(self.early.swap_remove(next).1)
    }

    /// Drops packets that have arrived and were not landed.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.early.clear();
    }

    /// Delivers the next packet, or holds it behind those that are held.
    pub(super) fn land(&mut self, payload: &[u8], land: &mut impl Land) {
        self.count(payload);
        if self.held.is_empty() && self.offer(payload, land) {
            return;
        }
        self.held.push_back(payload.into());
    }

    /// Delivers the next packet; `false`: it was not landed, and counts as not arrived.
    pub(super) fn land_now(&mut self, payload: &[u8], land: &mut impl Land) -> bool {
        let landed = self.offer(payload, land);
        if landed {
            self.count(payload);
        }
        landed
    }

    fn count(&mut self, payload: &[u8]) {
        self.expected = self.expected.wrapping_add(1);
        self.received = self.received.wrapping_add(cost(payload.len()));
    }

    /// Offers the held packets again, in order. Returns whether any was taken.
    pub(super) fn offer_held(&mut self, land: &mut impl Land) -> bool {
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
        let taken = land(LinkArrival::Packet { source, lane, payload }) == Acceptance::Taken;
        if taken {
            self.taken = self.taken.wrapping_add(cost(payload.len()));
        }
        taken
    }

    /// Whether to report credit to the source: either a quarter of the window was taken since the
    /// last report, so that the source still has the rest to send; or it has a window that it does
    /// not know of.
    pub(super) fn owes_credit(&self) -> bool {
        self.untold() >= (self.window / 4).max(1) || self.window_told == 0 && self.window > 0
    }

    /// Taken bytes that the source does not know of.
    pub(super) fn untold(&self) -> u32 {
        self.taken.wrapping_sub(self.told)
    }

    /// Grants the source a window, or a larger one.
    pub(super) fn widen(&mut self, more: u32) {
        self.window += more;
    }

    /// Whether the source has sent two windows since its window last grew. `true` starts a new
    /// count.
    pub(super) fn sends_much(&mut self) -> bool {
        let much = self.window > 0 && self.taken.wrapping_sub(self.since) / 2 >= self.window;
        if much {
            self.since = self.taken;
        }
        much
    }
}

/// A function that lands arrivals.
pub(super) trait Land: FnMut(LinkArrival<'_>) -> Acceptance {}
impl<F: FnMut(LinkArrival<'_>) -> Acceptance> Land for F {}

/// The bytes of the window that a packet uses.
pub(super) fn cost(payload: usize) -> u32 {
    u32::try_from(payload + HEADER).unwrap_or(u32::MAX)
}

/// A packet, decoded.
pub(super) struct DecodedPacket<'a> {
    pub(super) kind: u8,
    pub(super) lane: u8,
    pub(super) source: Host,
    pub(super) number: u32,
    pub(super) credit: u32,
    pub(super) window: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> DecodedPacket<'a> {
    /// Decodes a packet. `None`: it is not a packet, of another format, or of a stranger. Bytes
    /// behind the payload are ignored: a provider may report more bytes than were sent.
    pub(super) fn decode(bytes: &'a [u8], key: &Key) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let [kind, FORM, low, high, ..] = *header else { return None };
        let (kind, lane) = (kind / LANES, kind % LANES);
        let payload = payload.get(..usize::from(u16::from_le_bytes([low, high])))?;
        let (source, number, credit, window) = (word(4), word(8), word(12), word(16));
        (header[20..] == *key).then_some(Self {
            kind,
            lane,
            source,
            number,
            credit,
            window,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 1024;
    const WINDOWS: (u32, u32) = (WINDOW, WINDOW);

    /// A packet as its sender would build it.
    fn packet(kind: u8, number: u32, credit: u32, payload: &[u8]) -> DecodedPacket<'_> {
        DecodedPacket { kind, lane: 0, source: 1, number, credit, window: WINDOW, payload }
    }

    /// A link whose source has a window.
    fn with_window() -> LaneLink {
        let mut link = LaneLink::new(1, 0);
        link.widen(WINDOW);
        link
    }

    /// Admits a packet and counts it as held.
    fn hold(link: &mut LaneLink, packet: &DecodedPacket<'_>) -> Result<(), ()> {
        let admitted = link.admit(packet, WINDOWS)?;
        if let Admitted::Payload(payload) = admitted {
            link.land(payload, &mut |_| Acceptance::Full);
        }
        Ok(())
    }

    #[test]
    fn packets_in_sequence_within_the_window_are_admitted() {
        let mut link = with_window();
        for number in 0..3 {
            let packet = packet(DATA, number, 0, &[7; 100]);
            assert_eq!(link.admit(&packet, WINDOWS), Ok(Admitted::Payload(&[7; 100])));
            hold(&mut link, &packet).unwrap();
        }
        assert_eq!(link.received, 3 * 136);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let window = |window| DecodedPacket { window, ..packet(DATA, 1, 30, &[]) };
        let wrong = [
            ("too great a gap", packet(DATA, 30, 20, &[1])),
            ("the same again", packet(DATA, 0, 20, &[1])),
            ("more than the window", packet(DATA, 1, 20, &[1; 960])),
            ("more taken than was sent", packet(CREDIT, 0, 51, &[])),
            ("credit with a payload", packet(CREDIT, 0, 30, &[1])),
            ("another kind", packet(9, 1, 30, &[])),
            ("a window that is none", window(WINDOW - 1)),
            ("too large a window", window(2 * WINDOW)),
            ("nothing was kept to be sent again", packet(AGAIN, 0, 30, &[])),
        ];
        for (what, packet) in wrong {
            let mut link = with_window();
            (link.sent, link.acknowledged) = (50, 20);
            hold(&mut link, &self::packet(DATA, 0, 20, &[1])).unwrap();
            assert_eq!(link.admit(&packet, WINDOWS), Err(()), "{what}");
            assert_eq!((link.acknowledged, link.expected, link.received), (20, 1, 37), "{what}");
        }
    }

    #[test]
    fn what_comes_early_waits_for_what_is_late() {
        let mut link = with_window();
        (link.sent, link.acknowledged, link.allowed) = (50, 0, 0);
        let early =
            |number, credit, length: usize| packet(DATA, number, credit, &[9; 400][..length]);
        assert_eq!(link.admit(&early(2, 40, 300), WINDOWS), Ok(Admitted::Early));
        assert_eq!(link.admit(&early(2, 40, 300), WINDOWS), Err(()), "twice");
        assert_eq!(link.admit(&early(1, 30, 300), WINDOWS), Ok(Admitted::Early));
        assert_eq!(link.admit(&early(3, 40, 400), WINDOWS), Err(()), "more than the window");
        assert_eq!((link.received, link.take_early()), (0, None));
        // The credit in the late packet is outdated.
        let late = DecodedPacket { window: 0, ..early(0, 10, 200) };
        let Ok(Admitted::Payload(payload)) = link.admit(&late, WINDOWS) else { panic!() };
        assert_eq!((link.acknowledged, link.allowed), (40, WINDOW));
        let mut lengths = Vec::new();
        let mut land = |arrival: LinkArrival<'_>| {
            let LinkArrival::Packet { payload, .. } = arrival else { panic!() };
            lengths.push(payload.len());
            Acceptance::Taken
        };
        link.land(payload, &mut land);
        while let Some(payload) = link.take_early() {
            link.land(&payload, &mut land);
        }
        assert_eq!((lengths, link.expected), (vec![200, 300, 300], 3));
        // Later, a credit packet with an old number is outdated too.
        assert_eq!(link.admit(&packet(CREDIT, 0, 19, &[]), WINDOWS), Ok(Admitted::Credit));
        assert_eq!(link.acknowledged, 40);
    }

    #[test]
    fn without_a_window_packets_come_one_at_a_time() {
        let mut link = LaneLink::new(1, 0);
        let first = DecodedPacket { window: 0, ..packet(DATA, 0, 0, &[1; 476]) };
        let second = DecodedPacket { number: 1, ..first };
        let wrong = [
            ("too long", DecodedPacket { payload: &[1; 477], ..first }),
            ("a window that is none", DecodedPacket { window: 1, ..first }),
        ];
        for (what, packet) in wrong {
            assert_eq!(link.admit(&packet, WINDOWS), Err(()), "{what}");
        }
        hold(&mut link, &first).unwrap();
        assert_eq!(link.admit(&second, WINDOWS), Err(()));
        assert!(link.offer_held(&mut |_| Acceptance::Taken) && link.owes_credit());
        assert!(link.admit(&second, WINDOWS).is_ok());
        link.refused = 512;
        assert_eq!(link.admit(&second, WINDOWS), Err(()), "it has not been asked for again");
    }

    #[test]
    fn a_packet_is_kept_until_it_was_taken_or_there_is_a_window() {
        let credit = |credit, window| DecodedPacket { window, ..packet(CREDIT, 0, credit, &[]) };
        for (what, answer, allowed) in
            [("taken", credit(39, 0), 0), ("window", credit(0, WINDOW), WINDOW)]
        {
            let mut link = LaneLink::new(1, 0);
            assert!(link.may_send(500));
            link.has_sent(&[b"ab", b"c"], 39);
            assert!(!link.may_send(1) && link.kept.as_deref() == Some(b"abc"), "{what}");
            assert_eq!(link.admit(&credit(0, 0), WINDOWS), Ok(Admitted::Credit));
            let again = DecodedPacket { window: 0, ..packet(AGAIN, 0, 0, &[]) };
            assert_eq!(link.admit(&again, WINDOWS), Ok(Admitted::Again));
            assert!(link.kept.is_some(), "{what}");
            link.admit(&answer, WINDOWS).unwrap();
            assert_eq!((&link.kept, link.allowed, link.may_send(36)), (&None, allowed, true));
            link.has_sent(&[b"d"], 37);
            assert_eq!(link.kept.is_some(), allowed == 0, "{what}");
        }
    }

    #[test]
    fn counters_pass_their_end() {
        let mut link = with_window();
        let start = u32::MAX - 10;
        (link.sent, link.acknowledged) = (start.wrapping_add(100), start);
        (link.received, link.taken, link.told) = (start, start, start);
        link.expected = u32::MAX;
        hold(&mut link, &packet(DATA, u32::MAX, start.wrapping_add(60), &[1; 50])).unwrap();
        assert_eq!((link.expected, link.acknowledged), (0, start.wrapping_add(60)));
        hold(&mut link, &packet(DATA, 0, 49, &[2; 50])).unwrap();
        assert_eq!(link.received.wrapping_sub(link.taken), 172);
    }

    #[test]
    fn packets_are_held_in_order_until_there_is_room() {
        let mut link = with_window();
        let mut seen = Vec::new();
        link.land(b"a", &mut |_| Acceptance::Full);
        link.land(b"b", &mut |_| panic!("overtakes a packet that is held"));
        assert_eq!(link.taken, 0);
        let mut room = 1;
        let mut land = |arrival: LinkArrival<'_>| {
            let LinkArrival::Packet { payload, .. } = arrival else { panic!() };
            if room == 0 {
                return Acceptance::Full;
            }
            room -= 1;
            seen.push(payload.to_vec());
            Acceptance::Taken
        };
        assert!(link.offer_held(&mut land));
        assert!(!link.offer_held(&mut land));
        assert_eq!((seen, link.taken, link.held.len()), (vec![b"a".to_vec()], 37, 1));
    }

    #[test]
    fn no_source_is_told_of_a_smaller_window() {
        let mut link = with_window();
        let told = |link: &LaneLink| {
            let header = link.header((CREDIT, 0), 0, (0, &[0; 16]));
            DecodedPacket::decode(&header, &[0; 16]).map(|packet| packet.window)
        };
        link.has_told();
        link.window = 0;
        assert_eq!(told(&link), Some(WINDOW));
        link.has_told();
        assert_eq!((told(&link), link.owes_credit()), (Some(WINDOW), false));
        link.is_over = true;
        assert_eq!(link.admit(&packet(DATA, 0, 0, &[1]), WINDOWS), Err(()));
        assert_eq!(link.admit(&packet(CREDIT, 0, 0, &[]), WINDOWS), Ok(Admitted::Credit));
    }

    #[test]
    fn bytes_that_are_no_packet_are_refused() {
        let link = LaneLink::new(1, 0);
        let key = [9; 16];
        let good = link.header((DATA, 0), 0, (3, &key));
        assert!(DecodedPacket::decode(&good, &key).is_some_and(|packet| packet.source == 3));
        assert!(DecodedPacket::decode(&good[..35], &key).is_none());
        for place in [1, 3, 20, 35] {
            let mut wrong = good;
            wrong[place] ^= 0x40;
            assert!(DecodedPacket::decode(&wrong, &key).is_none(), "byte {place}");
        }
    }

    #[test]
    fn bytes_behind_a_payload_are_none_of_it() {
        let (link, key) = (LaneLink::new(1, 3), [9; 16]);
        let header = link.header((DATA, 0), 5, (3, &key));
        let longer = [&header[..], b"sent, and what a provider adds"].concat();
        let packet = DecodedPacket::decode(&longer, &key);
        let packet = packet.map(|packet| (packet.kind, packet.lane, packet.payload));
        assert_eq!(packet, Some((DATA, 3, &b"sent,"[..])));
        assert!(DecodedPacket::decode(&longer[..HEADER + 4], &key).is_none());
    }
}
