//! Deeds as bytes in a rank's log: eight words each, followed by the payload of a send.
//!
//! The rank appends deeds, and the conductor takes the whole log at each of its turns. The log was
//! written by another process: an invalid deed ends the reading.
//!
//! Datagrams that have arrived are in an inbox after the log. The conductor appends them, and the
//! rank takes the whole inbox: sender, length and bytes of each.

use hikyaku_nic::fabric::{
    Command, Granularity, Key, Notification, Operation, QueueAddress, Rank, RemoteAddress, Route,
    Space,
};
use hikyaku_nic::hosted::{ChainedPut, Deed, Posted};
use hikyaku_nic::time::Time;

/// The number of bytes before the payload.
pub(crate) const HEAD: usize = 64;

const SEND: u8 = 1;
const ANNOUNCE: u8 = 2;
const RUN: u8 = 3;
const WAKE: u8 = 4;
const PUT: u8 = 5;
const DATAGRAM: u8 = 6;

// The flags of a put.
const IS_LAST: u8 = 1;
const HAS_WORD: u8 = 2;
const TO_SEGMENT: u8 = 4;
const WORD_IN_SEGMENT: u8 = 8;

/// The words of a deed, as bytes.
pub(crate) type DeedHead = [u8; HEAD];

fn head(kind: u8, flags: [u8; 3], to: Rank, words: [u64; 7]) -> DeedHead {
    let [a, b, c] = flags;
    let first = u64::from(u32::from_le_bytes([kind, a, b, c])) | u64::from(to) << 32;
    let mut bytes = [0; HEAD];
    let words = std::iter::once(first).chain(words);
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The head of a send, followed by `taken` bytes of payload.
pub(crate) fn send(command: &Command<'_>, taken: usize, now: Time) -> DeedHead {
    send_as(command, taken, now, false)
}

/// The head of a send that has no bytes in the log: its bytes are those of the last send before it.
pub(crate) fn copy(command: &Command<'_>, now: Time) -> DeedHead {
    send_as(command, command.payload.len(), now, true)
}

fn send_as(command: &Command<'_>, taken: usize, now: Time, copy: bool) -> DeedHead {
    let route = match command.route {
        Route::Table => 0,
        Route::Ring(ring) => u64::from(ring) + 1,
    };
    let one_record = u8::from(command.granularity == Granularity::PerMessage);
    let claims = u8::from(command.credited) | u8::from(command.passes) << 1 | u8::from(copy) << 2;
    let flags = [command.protocol, one_record, claims];
    let Command { destination, header, total, offset, .. } = *command;
    let time = now.picoseconds();
    head(SEND, flags, destination, [time, header, total, offset, route, taken as u64, 0])
}

/// The head of a put of a chain, followed by its payload; `None`: it is not a put into memory
/// addressed by keys or offsets.
pub(crate) fn put(put: &Command<'_>, is_last: bool, now: Time) -> Option<DeedHead> {
    let Operation::Put(to) = put.operation else { return None };
    let (to_key, to_segment) = key_of(to)?;
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let mut flags = flag(is_last, IS_LAST) | flag(to_segment, TO_SEGMENT);
    let mut word = [0; 3];
    if let Notification::Word { address, value } = put.notification {
        let (key, in_segment) = key_of(address)?;
        flags |= HAS_WORD | flag(in_segment, WORD_IN_SEGMENT);
        word = [address.offset, key, value];
    }
    let ([at, key, value], length) = (word, put.payload.len() as u64);
    let words = [now.picoseconds(), to.offset, to_key, at, key, length, value];
    Some(head(PUT, [0, 0, flags], to.rank, words))
}

/// The key of an address, and whether it has one.
fn key_of(address: RemoteAddress) -> Option<(u64, bool)> {
    match address.space {
        Space::Region => Some((0, false)),
        Space::Segment(key) => Some((key.to_bits(), true)),
        Space::Register(_) | Space::Process => None,
    }
}

fn address(rank: Rank, offset: u64, key: u64, in_segment: bool) -> Option<RemoteAddress> {
    let space = if in_segment { Space::Segment(Key::from_bits(key)?) } else { Space::Region };
    Some(RemoteAddress { rank, space, offset })
}

/// The head of the record of an executed command.
pub(crate) fn announce(
    to: Rank,
    (protocol, header): (u8, u64),
    (length, offset): (u64, u64),
    now: Time,
) -> DeedHead {
    let words = [now.picoseconds(), header, length, offset, 0, 0, 0];
    head(ANNOUNCE, [protocol, 0, 0], to, words)
}

/// The head of a queue's run.
pub(crate) fn run(queue: QueueAddress, now: Time) -> DeedHead {
    let words = [now.picoseconds(), u64::from(queue.queue), u64::from(queue.generation)];
    let [time, id, generation] = words;
    head(RUN, [0; 3], queue.rank, [time, id, generation, 0, 0, 0, 0])
}

/// The head of a wake-up.
pub(crate) fn wake(rank: Rank, now: Time) -> DeedHead {
    head(WAKE, [0; 3], rank, [now.picoseconds(), 0, 0, 0, 0, 0, 0])
}

/// The head of a datagram of `length` bytes for `to` ranks. Their numbers follow, then the bytes.
pub(crate) fn datagram(to: usize, length: usize, now: Time) -> DeedHead {
    let whole = (RANK_BYTES * to + length) as u64;
    head(DATAGRAM, [0; 3], to as Rank, [now.picoseconds(), 0, 0, 0, 0, whole, 0])
}

/// Bytes of a rank's number before a datagram.
pub(crate) const RANK_BYTES: usize = 4;

/// Bytes before a datagram in an inbox.
const ARRIVED_HEAD: usize = 8;

/// A datagram in the format of an inbox.
pub(crate) fn arrived(from: Rank, datagram: &[u8]) -> Vec<u8> {
    let head = u64::from(from) | (datagram.len() as u64) << 32;
    [&head.to_le_bytes()[..], datagram].concat()
}

/// The first datagram of an inbox, its sender, and the rest.
pub(crate) fn first_arrived(inbox: &[u8]) -> Option<(Rank, &[u8], &[u8])> {
    let (head, rest) = inbox.split_first_chunk::<ARRIVED_HEAD>()?;
    let head = u64::from_le_bytes(*head);
    let (datagram, rest) = rest.split_at_checked((head >> 32) as usize)?;
    Some((head as Rank, datagram, rest))
}

/// The size of a deed with `payload` bytes of payload.
pub(crate) fn room(payload: usize) -> usize {
    HEAD + payload.next_multiple_of(8)
}

/// Decodes a log.
pub(crate) fn read(mut log: &[u8], into: &mut Vec<(Time, Deed)>) {
    while let Some((deed, rest)) = next(log, into) {
        into.push(deed);
        log = rest;
    }
}

fn next<'l>(log: &'l [u8], before: &[(Time, Deed)]) -> Option<((Time, Deed), &'l [u8])> {
    let (head, rest) = log.split_at_checked(HEAD)?;
    let mut words = [0; 8];
    for (word, chunk) in words.iter_mut().zip(head.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    let [first, time, header, total, offset, route, length, last] = words;
    let [kind, protocol, one_record, claims, ..] = first.to_le_bytes();
    let to = (first >> 32) as Rank;
    let copy = claims & 4 != 0;
    let length =
        usize::try_from(if matches!(kind, SEND | PUT | DATAGRAM) { length } else { 0 }).ok()?;
    if kind == SEND && offset.checked_add(length as u64).is_none_or(|end| end > total) {
        return None;
    }
    let (payload, rest) = match kind {
        SEND if copy => (payload_of_last(before).filter(|last| last.len() == length)?, rest),
        _ => {
            let (payload, _) = rest.split_at_checked(length)?;
            (payload, rest.get(length.checked_next_multiple_of(8)?..).unwrap_or_default())
        }
    };
    let deed = match kind {
        SEND => Deed::Send(Posted {
            destination: to,
            protocol,
            header,
            total,
            offset,
            granularity: [Granularity::PerPacket, Granularity::PerMessage]
                [usize::from(one_record != 0)],
            route: route.checked_sub(1).map_or(Route::Table, |ring| Route::Ring(ring as u32)),
            credited: claims & 1 != 0,
            passes: claims & 2 != 0,
            copy,
            payload: payload.to_vec(),
        }),
        PUT => {
            let has = |flag| claims & flag != 0;
            let word = match has(HAS_WORD) {
                true => Some((address(to, offset, route, has(WORD_IN_SEGMENT))?, last)),
                false => None,
            };
            let (to, is_last) = (address(to, header, total, has(TO_SEGMENT))?, has(IS_LAST));
            Deed::Put(ChainedPut { to, word, is_last, payload: payload.to_vec() })
        }
        DATAGRAM => {
            let (ranks, payload) = payload.split_at_checked(to as usize * RANK_BYTES)?;
            let (ranks, _) = ranks.as_chunks::<RANK_BYTES>();
            let to = ranks.iter().map(|rank| Rank::from_le_bytes(*rank)).collect();
            Deed::Datagram { to, payload: payload.to_vec() }
        }
        ANNOUNCE => Deed::Announce { to, protocol, header, length: total, offset },
        RUN => Deed::Run(QueueAddress {
            rank: to,
            queue: header.try_into().ok()?,
            generation: total.try_into().ok()?,
        }),
        WAKE => Deed::Wake(to),
        _ => return None,
    };
    Some(((Time::from_picoseconds(time), deed), rest))
}

fn payload_of_last(before: &[(Time, Deed)]) -> Option<&[u8]> {
    before.iter().rev().find_map(|(_, deed)| match deed {
        Deed::Send(posted) => Some(&*posted.payload),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn deeds_round_trip() {
        let now = Time::from_nanoseconds(5);
        let command = Command {
            total: 100,
            offset: 3,
            granularity: Granularity::PerMessage,
            route: Route::Ring(0),
            credited: true,
            passes: true,
            ..Command::send(7, 200, 0xfeed, b"hello")
        };
        let queue = QueueAddress { rank: 2, queue: 3, generation: 4 };
        let mut log = send(&command, 5, now).to_vec();
        log.extend_from_slice(b"hello\0\0\0");
        assert_eq!(log.len(), room(5));
        log.extend_from_slice(&copy(&Command { destination: 8, ..command }, now));
        log.extend_from_slice(&announce(1, (9, 8), (7, 6), now));
        log.extend_from_slice(&run(queue, now));
        log.extend_from_slice(&wake(5, now));
        let mut deeds = Vec::new();
        read(&log, &mut deeds);
        let posted = Posted {
            destination: 7,
            protocol: 200,
            header: 0xfeed,
            total: 100,
            offset: 3,
            granularity: Granularity::PerMessage,
            route: Route::Ring(0),
            credited: true,
            passes: true,
            copy: false,
            payload: b"hello".to_vec(),
        };
        let other = Posted { destination: 8, copy: true, ..posted.clone() };
        let expected = [
            Deed::Send(posted),
            Deed::Send(other),
            Deed::Announce { to: 1, protocol: 9, header: 8, length: 7, offset: 6 },
            Deed::Run(queue),
            Deed::Wake(5),
        ];
        assert_eq!(deeds, expected.map(|deed| (now, deed)));
    }

    #[test]
    fn puts_round_trip() {
        let key = Key { context: hikyaku_nic::fabric::ContextId(3), index: 4, generation: 5 };
        let at = |space, offset| RemoteAddress { rank: 6, space, offset };
        let (region, segment) = (at(Space::Region, 8), at(Space::Segment(key), 16));
        for (to, word, is_last) in [
            (region, None, true),
            (segment, Some((region, 7)), false),
            (region, Some((segment, 9)), true),
        ] {
            let notification = word.map_or(Notification::None, |(address, value)| {
                Notification::Word { address, value }
            });
            let command = Command { notification, ..Command::put(to, b"abc") };
            let mut log = put(&command, is_last, Time::ZERO).unwrap().to_vec();
            log.extend_from_slice(b"abc\0\0\0\0\0");
            let mut deeds = Vec::new();
            read(&log, &mut deeds);
            let expected = ChainedPut { to, word, is_last, payload: b"abc".to_vec() };
            assert_eq!(deeds, [(Time::ZERO, Deed::Put(expected))]);
        }
        let process = Command::put(at(Space::Process, 0), b"abc");
        assert_eq!(put(&process, true, Time::ZERO), None);
    }

    #[test]
    fn datagrams_round_trip_to_all_they_are_for() {
        let now = Time::from_nanoseconds(5);
        let (to, payload) = (vec![3, 70_000], b"abcde".to_vec());
        let mut log = datagram(2, 5, now).to_vec();
        to.iter().for_each(|rank: &Rank| log.extend(rank.to_le_bytes()));
        log.extend(b"abcde\0\0\0");
        let mut deeds = Vec::new();
        read(&log, &mut deeds);
        assert_eq!(deeds, [(now, Deed::Datagram { to, payload })]);
        // More ranks than numbers in the log.
        log[4..8].copy_from_slice(&4_u32.to_le_bytes());
        deeds.clear();
        read(&log, &mut deeds);
        assert!(deeds.is_empty());
    }

    #[test]
    fn an_inbox_is_read_to_its_end_and_not_beyond() {
        let inbox = [arrived(2, b"abc"), arrived(7, b"")].concat();
        let (from, datagram, rest) = first_arrived(&inbox).unwrap();
        assert_eq!((from, datagram), (2, &b"abc"[..]));
        assert_eq!(first_arrived(rest), Some((7, &b""[..], &b""[..])));
        assert_eq!(first_arrived(&[]), None);
        for length in 0..11 {
            assert_eq!(first_arrived(&inbox[..length]), None);
        }
    }

    #[test]
    fn a_copy_of_nothing_or_of_other_bytes_is_no_deed() {
        let command = Command::send(7, 200, 0, b"12345678");
        for before in [None, Some(7), Some(8)] {
            let mut log = Vec::new();
            if let Some(length) = before {
                let first = Command { total: length as u64, ..command };
                log.extend_from_slice(&send(&first, length, Time::ZERO));
                log.extend_from_slice(b"12345678");
            }
            log.extend_from_slice(&copy(&command, Time::ZERO));
            let mut deeds = Vec::new();
            read(&log, &mut deeds);
            let found = usize::from(before.is_some()) + usize::from(before == Some(8));
            assert_eq!(deeds.len(), found, "{before:?}");
        }
    }

    /// The source's interface counts from the offset on.
    #[test]
    fn a_part_beyond_the_end_of_its_message_is_no_deed() {
        for (offset, total, is_one) in [(92, 100, true), (93, 100, false), (u64::MAX, 100, false)] {
            let command = Command { total, offset, ..Command::send(7, 200, 0, b"12345678") };
            let mut log = send(&command, 8, Time::ZERO).to_vec();
            log.extend_from_slice(b"12345678");
            let mut deeds = Vec::new();
            read(&log, &mut deeds);
            assert_eq!(deeds.len(), usize::from(is_one), "at {offset}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(log in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut deeds = Vec::new();
            read(&log, &mut deeds);
            prop_assert!(deeds.len() <= log.len() / HEAD);
        }
    }
}
