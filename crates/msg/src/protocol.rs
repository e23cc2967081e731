//! The packets of this layer: the meanings of [`Command::protocol`] and [`Command::header`].
//!
//! ```text
//!   protocol     header               payload                          credited
//!   EAGER        match bits           the message, in one or more parts  first part
//!   EAGER_READY  match bits           the same, sent in ready mode       first part
//!   RTS          match bits           total, sender's request, address   yes
//!   CTS          sender's request     receiver's request, bytes wanted   no
//!   JOIN         sender's request     address, bytes wanted, number      no
//!   DATA         receiver's request   part of the message                no
//!   FIN          sender's request     outcome                            no
//!   CANCEL       sender's request     none                               no
//!   ABORT        receiver's request   none                               no
//!   PUT          match bits           as EAGER, for a message asked for by PUT_NEXT  first part
//!   PUT_SHARED   match bits           the same, out of shared memory     first part
//!   PUT_NEXT     kind, count          none                               no
//!   NOTE         match bits           a note, or its last piece          no
//!   NOTE_PART    match bits           a piece of a note                  no
//! ```
//!
//! Control packets take one status record each and no credit, so they can always be sent while the
//! receiver polls its status ring. Decoding returns `None` for an invalid packet.
//!
//! [`Command::protocol`]: hikyaku_nic::fabric::Command::protocol
//! [`Command::header`]: hikyaku_nic::fabric::Command::header

use hikyaku_nic::fabric::{INLINE_BYTES, JointCopy, LentAddress, Rank, RemoteAddress, Space};

use crate::request::RequestId;
use crate::ways::{MessageKind, Trial, Way};

/// A message or the next part of one.
pub(crate) const EAGER: u8 = 1;
/// The same, in ready mode.
pub(crate) const EAGER_READY: u8 = 2;
/// Ready to send: announces a message that is sent only after it has matched.
pub(crate) const RTS: u8 = 3;
/// Clear to send.
pub(crate) const CTS: u8 = 4;
/// Asks the sender to copy a part of the message to its receiver, which copies the rest.
pub(crate) const JOIN: u8 = 11;
/// Asks a sender to put its next messages of a kind into this rank's ring, without announcements.
pub(crate) const PUT_NEXT: u8 = 12;
/// An eager message of a kind that is otherwise announced, out of memory of the sender's process.
pub(crate) const PUT: u8 = 13;
/// The same, out of memory that ranks share.
pub(crate) const PUT_SHARED: u8 = 14;
/// A part of a message that its receiver has cleared.
pub(crate) const DATA: u8 = 5;
/// The receiver needs no more of a message.
pub(crate) const FIN: u8 = 6;
/// The sender withdraws its RTS, unless it has matched.
pub(crate) const CANCEL: u8 = 7;
/// The sender stops in the middle of a message that was cleared.
pub(crate) const ABORT: u8 = 8;
/// A note of the library, or the last piece of one.
pub(crate) const NOTE: u8 = 9;
/// A piece of a note that is not the last.
pub(crate) const NOTE_PART: u8 = 10;

/// The announcement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadyToSend {
    /// Length of the message, bytes.
    pub(crate) total: u64,
    /// The sender's request.
    pub(crate) request: u64,
    /// The address where the receiver may read it.
    pub(crate) address: Option<(Space, u64)>,
    /// The fabric's address of the sender's memory, if it is lent. Then there is no other address.
    pub(crate) lent: Option<LentAddress>,
    /// Whether it was sent in ready mode.
    pub(crate) ready: bool,
    /// Whether it may be read before its receive is posted: its sender does not wait for the match.
    pub(crate) early: bool,
    /// The way that the sender tries or uses for messages in the other direction.
    pub(crate) trial: Option<Trial>,
    /// When it was announced ([`crate::late::stamp`]), if it has an address.
    pub(crate) announced: u32,
}

const RTS_BYTES: usize = 40;

/// Bits of the PUT_NEXT header that hold the count; the kind is above them.
const PUTS_BITS: u32 = 8;

/// The third word of an RTS: the space in bits 0..8, a [`Trial`]'s way in 16..24 and its number in
/// 24..32, the time of the announcement in 32..64.
const READY: u64 = 1 << 8;
const LENT: u64 = 1 << 9;
const EARLY: u64 = 1 << 10;
const TRIAL: u32 = 16;
const ANNOUNCED: u32 = 32;

impl ReadyToSend {
    pub(crate) fn encode(&self) -> [u8; RTS_BYTES] {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let (place, offset, key) = match self.lent {
            Some(LentAddress { address, key }) => (LENT, address, key),
            None => {
                let (space, offset) = encode_address(self.address);
                (space, offset, 0)
            }
        };
        let flags = place
            | flag(self.ready, READY)
            | flag(self.early, EARLY)
            | encode_trial(self.trial) << TRIAL
            | u64::from(self.announced) << ANNOUNCED;
        let mut bytes = [0; RTS_BYTES];
        for (chunk, word) in
            bytes.chunks_exact_mut(8).zip([self.total, self.request, flags, offset, key])
        {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<ReadyToSend> {
        let [total, request, flags, offset, key] = words(payload)?;
        let (announced, flags) = ((flags >> ANNOUNCED) as u32, flags & ((1 << ANNOUNCED) - 1));
        let trial = decode_trial(flags >> TRIAL)?;
        let (ready, early) = (flags & READY != 0, flags & EARLY != 0);
        let (address, lent) = match flags & ((1 << TRIAL) - 1) & !(READY | EARLY) {
            LENT => (None, Some(LentAddress { address: offset, key })),
            space => (decode_address(space, offset)?, None),
        };
        Some(ReadyToSend { total, request, address, lent, ready, early, trial, announced })
    }
}

/// A try as a number; 0: none.
fn encode_trial(trial: Option<Trial>) -> u64 {
    trial.map_or(0, |Trial { way, number }| u64::from(number) << 8 | (way as u64 + 1))
}

fn decode_trial(word: u64) -> Option<Option<Trial>> {
    if word == 0 {
        return Some(None);
    }
    let number = u8::try_from(word >> 8).ok()?;
    let way = Way::ALL.into_iter().find(|way| *way as u64 + 1 == word & 0xff)?;
    Some(Some(Trial { way, number }))
}

/// An address of the sender or receiver as two words.
fn encode_address(address: Option<(Space, u64)>) -> (u64, u64) {
    match address {
        Some((Space::Region, offset)) => (1, offset),
        Some((Space::Process, offset)) => (2, offset),
        // Keys never name a buffer.
        None | Some((Space::Segment(_) | Space::Register(_), _)) => (0, 0),
    }
}

fn decode_address(space: u64, offset: u64) -> Option<Option<(Space, u64)>> {
    match space {
        0 => Some(None),
        1 => Some(Some((Space::Region, offset))),
        2 => Some(Some((Space::Process, offset))),
        _ => None,
    }
}

/// The outcome of a message at its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    /// It matched and was received.
    Consumed = 0,
    /// Its sender withdrew it before it matched.
    Withdrawn = 1,
}

/// A packet without message data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Send the first `want` bytes to my request.
    ClearToSend { sender: u64, receiver: RequestId, want: u64 },
    /// Copy to my memory the bytes that I have not copied.
    Join { sender: u64, copy: JointCopy },
    /// The message is finished.
    Finish { sender: u64, outcome: MessageOutcome },
    /// Put your next `messages` messages of a kind ([`MessageKind::word`]).
    PutNext { kind: u64, messages: u8 },
    /// Withdraw my message.
    Cancel { sender: RequestId },
    /// No more data for your request.
    Abort { receiver: u64 },
    /// A piece of a note.
    Note { bits: u64, payload: [u8; INLINE_BYTES], length: u8, last: bool },
}

/// A control packet, ready to be posted.
#[derive(Debug)]
pub(crate) struct ControlPacket {
    pub(crate) protocol: u8,
    pub(crate) header: u64,
    payload: [u8; INLINE_BYTES],
    length: usize,
}

impl ControlPacket {
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload[..self.length]
    }
}

impl Control {
    /// Whether it may overtake messages that wait for room: the receiver needs it to make that
    /// room, or it belongs to no message. A packet that ends a message stays behind that message's
    /// parts.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Control::ClearToSend { .. }
            | Control::Join { .. }
            | Control::Finish { .. }
            | Control::PutNext { .. }
            | Control::Note { .. } => true,
            Control::Cancel { .. } | Control::Abort { .. } => false,
        }
    }

    pub(crate) fn packet(&self) -> ControlPacket {
        let mut payload = [0; INLINE_BYTES];
        let (protocol, header, length) = match *self {
            Control::ClearToSend { sender, receiver, want } => {
                payload[..8].copy_from_slice(&receiver.word().to_le_bytes());
                payload[8..16].copy_from_slice(&want.to_le_bytes());
                (CTS, sender, 16)
            }
            Control::Join { sender, copy: JointCopy { into, length, number } } => {
                let (space, offset) = encode_address(Some((into.space, into.offset)));
                for (chunk, word) in
                    payload.chunks_exact_mut(8).zip([space, offset, length, number.into()])
                {
                    chunk.copy_from_slice(&word.to_le_bytes());
                }
                (JOIN, sender, 32)
            }
            Control::Finish { sender, outcome } => {
                payload[..8].copy_from_slice(&(outcome as u64).to_le_bytes());
                (FIN, sender, 8)
            }
            Control::PutNext { kind, messages } => {
                (PUT_NEXT, kind << PUTS_BITS | u64::from(messages), 0)
            }
            Control::Cancel { sender } => (CANCEL, sender.word(), 0),
            Control::Abort { receiver } => (ABORT, receiver, 0),
            Control::Note { bits, payload: piece, length, last } => {
                payload = piece;
                (if last { NOTE } else { NOTE_PART }, bits, usize::from(length))
            }
        };
        ControlPacket { protocol, header, payload, length }
    }
}

/// The kind in a PUT_NEXT, and the number of messages.
pub(crate) fn decode_put_next(header: u64) -> (u64, u8) {
    (header >> PUTS_BITS, header as u8)
}

/// Whether a protocol is eager.
#[inline(always)]
pub(crate) fn is_eager(protocol: u8) -> bool {
    matches!(protocol, EAGER | EAGER_READY | PUT | PUT_SHARED)
}

/// The kind of an eager message that could have been announced.
#[inline(always)]
pub(crate) fn put_kind(protocol: u8, length: u64) -> Option<MessageKind> {
    let is_shared = match protocol {
        PUT => false,
        PUT_SHARED => true,
        _ => return None,
    };
    Some(MessageKind { length, is_shared, is_eager: true })
}

/// The receiver's request and the bytes wanted of a CTS.
pub(crate) fn decode_clear_to_send(payload: &[u8]) -> Option<(u64, u64)> {
    let [receiver, want] = words(payload)?;
    Some((receiver, want))
}

/// The copy of a JOIN from `rank`.
pub(crate) fn decode_join(rank: Rank, payload: &[u8]) -> Option<JointCopy> {
    let [space, offset, length, number] = words(payload)?;
    let (space, offset) = decode_address(space, offset)??;
    let into = RemoteAddress { rank, space, offset };
    Some(JointCopy { into, length, number: number.try_into().ok()? })
}

/// The outcome of a FIN.
pub(crate) fn decode_finish(payload: &[u8]) -> Option<MessageOutcome> {
    match words(payload)? {
        [0] => Some(MessageOutcome::Consumed),
        [1] => Some(MessageOutcome::Withdrawn),
        _ => None,
    }
}

/// Exactly `N` words.
fn words<const N: usize>(payload: &[u8]) -> Option<[u64; N]> {
    let (chunks, rest) = payload.as_chunks::<8>();
    let chunks: &[[u8; 8]; N] = chunks.try_into().ok()?;
    rest.is_empty().then(|| chunks.map(u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_announcement_survives_the_wire(
            total: u64, request: u64, offset: u64, key: u64, space in 0..4, ready: bool,
            early: bool, tried in 0..5_usize, number: u8, announced: u32
        ) {
            let (address, lent) = match space {
                0 => (None, None),
                1 => (Some((Space::Region, offset)), None),
                2 => (Some((Space::Process, offset)), None),
                _ => (None, Some(LentAddress { address: offset, key })),
            };
            let trial = Way::ALL.get(tried).map(|way| Trial { way: *way, number });
            let rts =
                ReadyToSend { total, request, address, lent, ready, early, trial, announced };
            prop_assert_eq!(ReadyToSend::decode(&rts.encode()), Some(rts));
        }

        #[test]
        fn arbitrary_payloads_decode_or_do_not(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let decoded = ReadyToSend::decode(&bytes);
            prop_assert!(decoded.is_none() || bytes.len() == RTS_BYTES);
            prop_assert!(decode_clear_to_send(&bytes).is_none() || bytes.len() == 16);
            prop_assert!(decode_join(0, &bytes).is_none() || bytes.len() == 32);
            prop_assert!(decode_finish(&bytes).is_none() || bytes.len() == 8);
        }
    }

    #[test]
    fn control_packets_decode_as_encoded() {
        let receiver = RequestId::from_word(77 << 32 | 5);
        let packet = Control::ClearToSend { sender: 9, receiver, want: 1 << 40 }.packet();
        assert_eq!((packet.protocol, packet.header), (CTS, 9));
        assert_eq!(decode_clear_to_send(packet.payload()), Some((receiver.word(), 1 << 40)));
        let into = RemoteAddress { rank: 3, space: Space::Process, offset: 1 << 47 };
        let copy = JointCopy { into, length: 1 << 33, number: 7 };
        let packet = Control::Join { sender: 9, copy }.packet();
        assert_eq!((packet.protocol, packet.header), (JOIN, 9));
        assert_eq!(decode_join(3, packet.payload()), Some(copy));
        for outcome in [MessageOutcome::Consumed, MessageOutcome::Withdrawn] {
            let packet = Control::Finish { sender: 3, outcome }.packet();
            assert_eq!(decode_finish(packet.payload()), Some(outcome));
        }
        let packet = Control::PutNext { kind: 0x103, messages: 200 }.packet();
        assert_eq!(packet.protocol, PUT_NEXT);
        assert_eq!(decode_put_next(packet.header), (0x103, 200));
        assert_eq!(decode_finish(&[2, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
