//! One lane of a link, and packets as bytes.

use std::collections::VecDeque;

use super::{Acceptance, Host, Key, LinkArrival};
use crate::Peer;

/// Bytes of a packet before its payload: kind, form, lane, nothing, source, number, credit, window,
/// key.
pub(super) const HEADER: usize = 36;

/// The form of packets, which both sides must have.
const FORM: u8 = 2;

pub(super) const DATA: u8 = 1;
pub(super) const CREDIT: u8 = 2;

/// One lane's view of another host. Counts are of bytes, modulo 2^32.
pub(super) struct LaneLink {
    /// `None`: it may have sent already, and where it is reached is not known yet.
    pub(super) peer: Option<Peer>,
    pub(super) host: Host,
    pub(super) lane: u8,
    /// Sent, of that what the receiver has taken, and how much it may have unread.
    pub(super) sent: u32,
    pub(super) acknowledged: u32,
    pub(super) allowed: u32,
    /// The next packet's number.
    pub(super) number: u32,
    /// Received, what has been taken of it, and of that what the source knows.
    pub(super) received: u32,
    pub(super) taken: u32,
    pub(super) told: u32,
    pub(super) expected: u32,
    /// What it may have unread here, and what had been taken when that last changed.
    pub(super) window: u32,
    pub(super) since: u32,
    /// Packets that could not be landed.
    pub(super) held: VecDeque<Box<[u8]>>,
    /// Whether it has sent what is impossible, or cannot be reached.
    pub(super) broken: bool,
}

impl LaneLink {
    pub(super) fn new(peer: Option<Peer>, host: Host, lane: u8, window: u32) -> Self {
        Self {
            peer,
            host,
            lane,
            sent: 0,
            acknowledged: 0,
            allowed: window,
            number: 0,
            received: 0,
            taken: 0,
            told: 0,
            expected: 0,
            window,
            since: 0,
            held: VecDeque::new(),
            broken: false,
        }
    }

    pub(super) fn header(&self, kind: u8, own: Host, key: &Key) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..3].copy_from_slice(&[kind, FORM, self.lane]);
        for (place, word) in [(4, own), (8, self.number), (12, self.taken), (16, self.window)] {
            bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[20..].copy_from_slice(key);
        bytes
    }

    /// Takes in what a packet says: its payload, if it has one that may be landed.
    pub(super) fn admit<'a>(
        &mut self,
        packet: &DecodedPacket<'a>,
        most: u32,
    ) -> Result<Option<&'a [u8]>, ()> {
        let fresh = packet.credit.wrapping_sub(self.acknowledged);
        if fresh > self.sent.wrapping_sub(self.acknowledged) {
            return Err(());
        }
        if packet.window < self.allowed || packet.window > most {
            return Err(());
        }
        let payload = match packet.kind {
            CREDIT if packet.payload.is_empty() => None,
            DATA if packet.number == self.expected => {
                let unread = self.received.wrapping_sub(self.taken);
                let cost = cost(packet.payload.len());
                if unread.checked_add(cost).is_none_or(|unread| unread > self.window) {
                    return Err(());
                }
                self.expected = self.expected.wrapping_add(1);
                self.received = self.received.wrapping_add(cost);
                Some(packet.payload)
            }
            _ => return Err(()),
        };
        (self.acknowledged, self.allowed) = (packet.credit, packet.window);
        Ok(payload)
    }

    /// Hands a packet over, or holds it behind those that are held.
    pub(super) fn land(&mut self, payload: &[u8], land: &mut impl Land) {
        if self.held.is_empty() && self.offer(payload, land) {
            return;
        }
        self.held.push_back(payload.into());
    }

    /// Offers what is held, in order: whether any was taken.
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

    pub(super) fn offer(&mut self, payload: &[u8], land: &mut impl Land) -> bool {
        let (source, lane) = (self.host, self.lane);
        let taken = land(LinkArrival::Packet { source, lane, payload }) == Acceptance::Taken;
        if taken {
            self.taken = self.taken.wrapping_add(cost(payload.len()));
        }
        taken
    }

    /// Whether its source is to be told how much has been taken: a quarter of the window at a
    /// time, as a source that is told later still has the rest to send.
    pub(super) fn owes_credit(&self) -> bool {
        self.taken.wrapping_sub(self.told) >= self.window / 4
    }

    /// Whether its source sends much: two windows since the last one grew.
    pub(super) fn sends_much(&self) -> bool {
        self.taken.wrapping_sub(self.since) / 2 >= self.window
    }
}

/// What lands arrivals.
pub(super) trait Land: FnMut(LinkArrival<'_>) -> Acceptance {}
impl<F: FnMut(LinkArrival<'_>) -> Acceptance> Land for F {}

/// What a packet costs of the window.
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
    /// Decodes it; `None`: it is none, of another form, or a stranger's.
    pub(super) fn decode(bytes: &'a [u8], key: &Key) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let [kind, FORM, lane, 0, ..] = *header else { return None };
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

    /// A packet as its sender would make it.
    fn packet(kind: u8, number: u32, credit: u32, payload: &[u8]) -> DecodedPacket<'_> {
        DecodedPacket { kind, lane: 0, source: 1, number, credit, window: WINDOW, payload }
    }

    #[test]
    fn packets_in_sequence_within_the_window_are_admitted() {
        let mut link = LaneLink::new(Some(Peer(0)), 1, 0, WINDOW);
        for number in 0..3 {
            let admitted = link.admit(&packet(DATA, number, 0, &[7; 100]), WINDOW);
            assert_eq!(admitted, Ok(Some(&[7; 100][..])));
        }
        assert_eq!(link.received, 3 * 136);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let wrong = [
            ("a gap", packet(DATA, 2, 0, &[1])),
            ("the same again", packet(DATA, 0, 0, &[1])),
            ("more than the window", packet(DATA, 1, 20, &[1; 960])),
            ("more taken than was sent", packet(CREDIT, 0, 51, &[])),
            ("less taken than before", packet(CREDIT, 0, 19, &[])),
            ("credit with a payload", packet(CREDIT, 0, 30, &[1])),
            ("another kind", packet(3, 1, 30, &[])),
            ("a smaller window", DecodedPacket { window: WINDOW - 1, ..packet(DATA, 1, 30, &[]) }),
            (
                "too large a window",
                DecodedPacket { window: 2 * WINDOW, ..packet(DATA, 1, 30, &[]) },
            ),
        ];
        for (what, packet) in wrong {
            let mut link = LaneLink::new(Some(Peer(0)), 1, 0, WINDOW);
            (link.sent, link.acknowledged) = (50, 20);
            link.admit(&self::packet(DATA, 0, 20, &[1]), WINDOW).unwrap();
            assert_eq!(link.admit(&packet, WINDOW), Err(()), "{what}");
            assert_eq!((link.acknowledged, link.expected, link.received), (20, 1, 37), "{what}");
        }
    }

    #[test]
    fn counters_pass_their_end() {
        let mut link = LaneLink::new(Some(Peer(0)), 1, 0, WINDOW);
        let start = u32::MAX - 10;
        (link.sent, link.acknowledged) = (start.wrapping_add(100), start);
        (link.received, link.taken, link.told) = (start, start, start);
        link.expected = u32::MAX;
        let first = link.admit(&packet(DATA, u32::MAX, start.wrapping_add(60), &[1; 50]), WINDOW);
        assert_eq!(first, Ok(Some(&[1; 50][..])));
        assert_eq!((link.expected, link.acknowledged), (0, start.wrapping_add(60)));
        assert!(link.admit(&packet(DATA, 0, 49, &[2; 50]), WINDOW).is_ok());
        assert_eq!(link.received.wrapping_sub(link.taken), 172);
    }

    #[test]
    fn packets_are_held_in_order_until_there_is_room() {
        let mut link = LaneLink::new(Some(Peer(0)), 1, 0, WINDOW);
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
    fn bytes_that_are_no_packet_are_refused() {
        let link = LaneLink::new(Some(Peer(0)), 1, 0, WINDOW);
        let key = [9; 16];
        let good = link.header(DATA, 3, &key);
        assert!(DecodedPacket::decode(&good, &key).is_some_and(|packet| packet.source == 3));
        assert!(DecodedPacket::decode(&good[..35], &key).is_none());
        for place in [1, 3, 20, 35] {
            let mut wrong = good;
            wrong[place] ^= 0x40;
            assert!(DecodedPacket::decode(&wrong, &key).is_none(), "byte {place}");
        }
    }
}
