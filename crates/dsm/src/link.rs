//! Reliable messages over datagrams that may be lost, duplicated and reordered: sequence numbers,
//! acknowledgements, retries.
//!
//! ```text
//!   send ──► | waiting | ──► | not acknowledged | ──► datagram ──► network
//!                                    ▲ retried after a timeout
//!   datagram ──► number seen? early? ──► messages, in order; an acknowledgement is owed
//! ```
//!
//! A link is one rank's end of a connection to one other rank. It knows neither sockets nor clocks:
//! its driver passes the time and carries the datagrams.

use std::collections::{BTreeMap, VecDeque};

/// The maximum of unacknowledged bytes in flight. One message of any size is always allowed.
const WINDOW: usize = 96 << 10;

/// The maximum of messages in flight.
const MESSAGES: u32 = 64;

/// The first timeout for an acknowledgement, nanoseconds: some hundred round trips within a host. A
/// rank that computes does not acknowledge meanwhile.
const PATIENCE: u64 = 5_000_000;

/// The longest timeout between two retries of one message, nanoseconds.
const PATIENCE_MOST: u64 = 100_000_000;

/// The size of the head in front of a message.
pub const HEAD_BYTES: usize = 24;

/// The head of a datagram, in front of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatagramHead {
    /// The receiver's key, which only ranks of the same job know.
    pub key: u64,
    /// The sender.
    pub from: u32,
    /// The number of the message; 0 for an acknowledgement without a message.
    pub number: u32,
    /// The sender has received all messages before this number.
    pub expected: u32,
    /// The length of the message in bytes, below 2^31.
    pub length: u32,
    /// Whether the sender has received a multicast datagram from the receiver.
    pub hears: bool,
}

/// The bit of [`DatagramHead::hears`] in the word of the length.
const HEARS: u32 = 1 << 31;

impl DatagramHead {
    /// The head as bytes.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        let length = self.length | if self.hears { HEARS } else { 0 };
        for (at, value) in [self.from, self.number, self.expected, length].iter().enumerate() {
            bytes[8 + 4 * at..][..4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Decodes the head and the message of a datagram. `None` if it is not ours or truncated.
    pub fn decode(datagram: &[u8]) -> Option<(DatagramHead, &[u8])> {
        let (bytes, message) = datagram.split_first_chunk::<HEAD_BYTES>()?;
        let (key, words) = bytes.split_first_chunk::<8>()?;
        let word = |at: usize| {
            let word = words.get(4 * at..4 * at + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        let head = DatagramHead {
            key: u64::from_le_bytes(*key),
            from: word(0)?,
            number: word(1)?,
            expected: word(2)?,
            length: word(3)? & !HEARS,
            hears: word(3)? & HEARS != 0,
        };
        (head.length as usize == message.len()).then_some((head, message))
    }
}

/// A message to several ranks, sent as one datagram.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MulticastDatagram<'m> {
    /// The key of the group.
    pub key: u64,
    /// The sender.
    pub from: u32,
    /// The receivers.
    pub to: Vec<MulticastReceiver>,
    /// The message.
    pub message: &'m [u8],
}

/// A receiver of a multicast datagram, with the fields that a datagram to it alone would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MulticastReceiver {
    /// The rank.
    pub rank: u32,
    /// The number of the message in the stream to this rank.
    pub number: u32,
    /// The sender has received all messages of this rank before this number.
    pub expected: u32,
}

/// The size of a multicast datagram's head, and of each receiver in it.
const MULTICAST_HEAD: usize = 16;
const RECEIVER_BYTES: usize = 12;

impl<'m> MulticastDatagram<'m> {
    /// The datagram as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let length = MULTICAST_HEAD + RECEIVER_BYTES * self.to.len() + self.message.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(self.from.to_le_bytes());
        bytes.extend((self.to.len() as u32).to_le_bytes());
        for MulticastReceiver { rank, number, expected } in &self.to {
            for word in [rank, number, expected] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes.extend_from_slice(self.message);
        bytes
    }

    /// Decodes a multicast datagram. `None` if it is not ours or truncated.
    pub fn decode(datagram: &'m [u8]) -> Option<MulticastDatagram<'m>> {
        let (key, rest) = datagram.split_first_chunk::<8>()?;
        let (from, rest) = rest.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (to, message) = rest.split_at_checked(count.checked_mul(RECEIVER_BYTES)?)?;
        let (words, _) = to.as_chunks::<4>();
        let (words, _) = words.as_chunks::<3>();
        let receiver = |words: &[[u8; 4]; 3]| {
            let [rank, number, expected] = words.map(u32::from_le_bytes);
            MulticastReceiver { rank, number, expected }
        };
        let (key, from) = (u64::from_le_bytes(*key), u32::from_le_bytes(*from));
        Some(MulticastDatagram { key, from, to: words.iter().map(receiver).collect(), message })
    }
}

/// A message that has not been acknowledged.
#[derive(Debug, Clone)]
struct UnacknowledgedMessage {
    number: u32,
    message: Vec<u8>,
    /// The time when it is due to be sent or retried; 0 for at once.
    due: u64,
    patience: u64,
}

/// Counters of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Datagrams with messages, sent for the first time.
    pub sent: u64,
    /// Retries.
    pub again: u64,
    /// Acknowledgements sent.
    pub acknowledged: u64,
    /// Messages received more than once.
    pub doubled: u64,
}

/// One end of an ordered message stream with one other rank.
#[derive(Debug, Clone)]
pub struct MessageStream {
    next: u32,
    sent: VecDeque<UnacknowledgedMessage>,
    waiting: VecDeque<Vec<u8>>,
    expected: u32,
    early: BTreeMap<u32, Vec<u8>>,
    owes: bool,
    counts: LinkCounts,
}

impl Default for MessageStream {
    fn default() -> MessageStream {
        MessageStream {
            next: 1,
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            expected: 1,
            early: BTreeMap::new(),
            owes: false,
            counts: LinkCounts::default(),
        }
    }
}

impl MessageStream {
    /// Queues a message; [`MessageStream::poll`] returns it when it is due.
    pub fn send(&mut self, message: Vec<u8>) {
        self.waiting.push_back(message);
        self.fill();
    }

    fn fill(&mut self) {
        while let Some(message) = self.waiting.front() {
            let under_way: usize = self.sent.iter().map(|sent| sent.message.len()).sum();
            let full = under_way + message.len() > WINDOW || self.sent.len() as u32 >= MESSAGES;
            if full && !self.sent.is_empty() {
                return;
            }
            let Some(message) = self.waiting.pop_front() else { return };
            let (number, due, patience) = (self.next, 0, PATIENCE);
            self.next += 1;
            self.sent.push_back(UnacknowledgedMessage { number, message, due, patience });
        }
    }

    /// The next datagram to be sent now: its number, the number that it acknowledges, and its
    /// message. If only an acknowledgement is due, the number is 0 and the message empty. Times are
    /// nanoseconds of one clock, and greater than 0.
    pub fn poll(&mut self, now: u64) -> Option<(u32, u32, &[u8])> {
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.due <= now) {
            if sent.due == 0 {
                self.counts.sent += 1;
            } else {
                self.counts.again += 1;
                sent.patience = (2 * sent.patience).min(PATIENCE_MOST);
            }
            sent.due = now + sent.patience;
            self.owes = false;
            return Some((sent.number, self.expected, &sent.message));
        }
        if std::mem::take(&mut self.owes) {
            self.counts.acknowledged += 1;
            return Some((0, self.expected, &[]));
        }
        None
    }

    /// Handles a datagram. `take` receives the messages that are now in order.
    pub fn arrive(
        &mut self,
        number: u32,
        expected: u32,
        message: &[u8],
        mut take: impl FnMut(Vec<u8>),
    ) {
        while self.sent.front().is_some_and(|sent| sent.number < expected) {
            self.sent.pop_front();
        }
        self.fill();
        if number == 0 {
            return;
        }
        self.owes = true;
        if number < self.expected || self.early.contains_key(&number) {
            self.counts.doubled += 1;
            return;
        }
        if number - self.expected >= MESSAGES {
            // A correct sender is never so far ahead.
            return;
        }
        self.early.insert(number, message.to_vec());
        while let Some(message) = self.early.remove(&self.expected) {
            self.expected += 1;
            take(message);
        }
    }

    /// Whether all messages have been sent and acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.sent.is_empty() && self.waiting.is_empty()
    }

    /// Closes the stream, because the other end is gone. Nothing is sent any more.
    pub fn close(&mut self) {
        (self.sent, self.waiting, self.owes) = (VecDeque::new(), VecDeque::new(), false);
    }

    /// The counters.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_nic::random::Random;

    use super::*;

    #[test]
    fn messages_arrive_once_and_in_order() {
        for seed in 1..200_u64 {
            println!("seed {seed}");
            let mut random = Random::new(seed);
            let (mut a, mut b) = (MessageStream::default(), MessageStream::default());
            let (mut air, mut heard, mut now) = (Vec::new(), Vec::new(), 1);
            let mut said = 0_u32;
            while heard.len() < 200 {
                now += random.below(2_000_000);
                if said < 200 && random.below(2) == 0 {
                    let length = random.place(40_000);
                    let message = [&said.to_le_bytes()[..], &vec![7; length]].concat();
                    a.send(message);
                    said += 1;
                }
                for (to, end) in [(1, &mut a), (0, &mut b)] {
                    while let Some((number, expected, message)) = end.poll(now) {
                        let copies = [0, 1, 1, 1, 2][random.place(5)];
                        let datagram = (to, number, expected, message.to_vec());
                        (0..copies).for_each(|_| air.push(datagram.clone()));
                    }
                }
                while !air.is_empty() && random.below(3) > 0 {
                    let at = random.place(air.len());
                    let (to, number, expected, message) = air.swap_remove(at);
                    let end = if to == 1 { &mut b } else { &mut a };
                    end.arrive(number, expected, &message, |message| {
                        heard.push(u32::from_le_bytes(message[..4].try_into().unwrap()));
                    });
                }
            }
            assert_eq!(heard, (0..200).collect::<Vec<_>>());
            assert!(a.counts().again > 0 && b.counts().doubled > 0);
        }
    }

    #[test]
    fn acknowledgements_end_retries_and_silence_slows_them() {
        let (mut a, mut b) = (MessageStream::default(), MessageStream::default());
        a.send(vec![1]);
        assert_eq!(a.poll(1), Some((1, 1, &[1][..])));
        assert_eq!(a.poll(1 + PATIENCE - 1), None);
        let mut times = 0;
        for now in (0..10_000).map(|at| at * 1_000_000 + PATIENCE) {
            times += u32::from(a.poll(now).is_some());
        }
        assert!((80..=110).contains(&times), "{times} in ten seconds");
        b.arrive(1, 1, &[1], |message| assert_eq!(message, [1]));
        assert_eq!(b.poll(9), Some((0, 2, &[][..])));
        assert!(!a.is_quiet());
        a.arrive(0, 2, &[], |_| panic!("nothing was said"));
        assert!(a.is_quiet() && a.poll(u64::MAX).is_none());
        a.send(vec![2]);
        a.close();
        assert!(a.is_quiet() && a.poll(u64::MAX).is_none());
    }

    #[test]
    fn a_head_survives_encoding_and_malformed_ones_fail() {
        let head = DatagramHead {
            key: u64::MAX - 1,
            from: 3,
            number: 9,
            expected: 8,
            length: 2,
            hears: false,
        };
        for head in [head, DatagramHead { hears: true, ..head }] {
            let datagram = [&head.encode()[..], &[5, 6]].concat();
            assert_eq!(DatagramHead::decode(&datagram), Some((head, &[5, 6][..])));
        }
        let datagram = [&head.encode()[..], &[5, 6]].concat();
        for length in 0..datagram.len() {
            assert_eq!(DatagramHead::decode(&datagram[..length]), None);
        }
        assert_eq!(DatagramHead::decode(&[&datagram[..], &[0]].concat()), None);
        let mut link = MessageStream::default();
        link.arrive(u32::MAX, u32::MAX, &[0; 9], |_| panic!("nobody sends so far ahead"));
    }

    #[test]
    fn a_multicast_datagram_survives_encoding_and_malformed_ones_fail() {
        let receiver = |rank| MulticastReceiver { rank, number: 9 + rank, expected: u32::MAX };
        let to = vec![receiver(0), receiver(127)];
        let sent = MulticastDatagram { key: 7, from: 3, to, message: &[5, 6] };
        let bytes = sent.encode();
        assert_eq!(bytes.len(), 42);
        assert_eq!(MulticastDatagram::decode(&bytes), Some(sent));
        for length in 0..40 {
            assert_eq!(MulticastDatagram::decode(&bytes[..length]), None);
        }
        let mut many = bytes.clone();
        many[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(MulticastDatagram::decode(&many), None);
    }

    #[test]
    fn a_window_is_filled_to_its_last_byte() {
        let mut link = MessageStream::default();
        [WINDOW - 1, 1, 1].into_iter().for_each(|length| link.send(vec![7; length]));
        let sent: Vec<usize> =
            std::iter::from_fn(|| link.poll(1).map(|(.., message)| message.len())).collect();
        assert_eq!(sent, [WINDOW - 1, 1]);
    }
}
