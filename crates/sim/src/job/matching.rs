//! The matching of messages and receives: two FIFO lists per rank.
//!
//! The compared fields are contiguous in the lists, 16 bytes per entry. The other fields are in
//! tables. So a list of a few receives takes one or two cache lines. Links through a table of whole
//! receives cost a miss each: on a halo of 100,000 ranks that was a third of the time. For the same
//! reason entries of the tables are half a cache line each, and aligned.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use hikyaku_nic::sync::prefetch_for_write;
use hikyaku_nic::time::Time;

use super::request::{ReceiveArrival, ReceivedMessage};
use crate::engine::{PrefetchStage, Wakeup};
use crate::slab::{NONE, Slab};

/// A message from its send to its receive.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct MessageInFlight {
    /// The destination's rank plus one, so that `Option` needs no extra word in the table.
    destination: NonZeroU32,
    /// The send request that waits for the departure; `NONE` if there is none.
    pub(super) send: u32,
    source: u32,
    tag: i32,
    bytes: u64,
    /// The payload, behind a pointer of one word, as most simulated messages have none.
    data: Option<Box<Box<[u8]>>>,
}

impl MessageInFlight {
    /// A message to a rank, without a waiting send request.
    pub(super) fn new(destination: u32, message: ReceivedMessage) -> MessageInFlight {
        let ReceivedMessage { source, tag, bytes, data } = message;
        let destination = NonZeroU32::MIN.saturating_add(destination);
        MessageInFlight { destination, send: NONE, source, tag, bytes, data: data.map(Box::new) }
    }

    pub(super) fn destination(&self) -> u32 {
        self.destination.get() - 1
    }

    pub(super) fn source(&self) -> u32 {
        self.source
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The message as the receiver gets it.
    fn into_message(self) -> ReceivedMessage {
        let MessageInFlight { source, tag, bytes, data, .. } = self;
        ReceivedMessage { source, tag, bytes, data: data.map(|data| *data) }
    }
}

/// The messages that a receive accepts; `None` accepts any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveSelector {
    pub(super) source: Option<u32>,
    pub(super) tag: Option<i32>,
}

/// A receive from its posting until its result is taken.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct PostedReceive {
    pub(super) wakeup: Option<Wakeup>,
    /// The time when the message was complete, if it is.
    complete: Time,
    /// The number of the matched message; `NONE` if there is none.
    message: u32,
}

impl Default for PostedReceive {
    fn default() -> Self {
        PostedReceive { wakeup: None, complete: Time::ZERO, message: NONE }
    }
}

impl PostedReceive {
    /// The number of the matched message, and the time when it was complete.
    fn matched(&self) -> Option<(u32, Time)> {
        (self.message != NONE).then_some((self.message, self.complete))
    }
}

/// The two lists of one rank.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Receives that wait for a message, oldest first.
    posted: VecDeque<WaitingReceive>,
    /// Messages that arrived before their receive, oldest first: MPI's unexpected queue.
    unexpected: VecDeque<UnexpectedMessage>,
}

/// A receive in the list, with its number in the table.
#[derive(Debug, Clone, Copy)]
struct WaitingReceive {
    /// The source; `ANY` accepts any.
    source: u32,
    tag: i32,
    any_tag: bool,
    receive: u32,
}

/// A message in the list, with its number in the table.
#[derive(Debug, Clone, Copy)]
struct UnexpectedMessage {
    source: u32,
    tag: i32,
    message: u32,
}

/// Any source. No job has a rank with this number.
const ANY: u32 = u32::MAX;

impl WaitingReceive {
    fn new(selector: ReceiveSelector, receive: u32) -> WaitingReceive {
        let ReceiveSelector { source, tag } = selector;
        let any_tag = tag.is_none();
        WaitingReceive { source: source.unwrap_or(ANY), tag: tag.unwrap_or(0), any_tag, receive }
    }

    fn takes(&self, source: u32, tag: i32) -> bool {
        (self.source == source || self.source == ANY) && (self.tag == tag || self.any_tag)
    }

    fn describe(&self) -> String {
        let source = match self.source {
            ANY => "any rank".into(),
            source => format!("rank {source}"),
        };
        match self.any_tag {
            false => format!("a message from {source} with tag {}", self.tag),
            true => format!("a message from {source}"),
        }
    }
}

/// The entries that the lists of all ranks refer to.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) messages: Slab<MessageInFlight>,
    pub(super) receives: Slab<PostedReceive>,
}

impl Lists {
    /// Handles the arrival of a message. The oldest receive that accepts it gets it, and its task
    /// is returned to be woken. Without such a receive the message is kept.
    pub(super) fn arrive(&mut self, tables: &mut Tables, key: u32, now: Time) -> Option<Wakeup> {
        let MessageInFlight { source, tag, .. } = tables.messages[key];
        let found = self.posted.iter().position(|waiting| waiting.takes(source, tag));
        let Some(waiting) = found.and_then(|place| self.posted.remove(place)) else {
            self.unexpected.push_back(UnexpectedMessage { source, tag, message: key });
            return None;
        };
        let posted = &mut tables.receives[waiting.receive];
        (posted.message, posted.complete) = (key, now);
        posted.wakeup.take()
    }

    /// Posts a receive. Returns the oldest unexpected message that it accepts, or the receive's
    /// number in the table.
    pub(super) fn post(
        &mut self,
        tables: &mut Tables,
        selector: ReceiveSelector,
    ) -> ReceiveArrival {
        let waiting = WaitingReceive::new(selector, tables.receives.next_key());
        let takes = |message: &UnexpectedMessage| waiting.takes(message.source, message.tag);
        let found = self.unexpected.iter().position(takes);
        if let Some(entry) = found.and_then(|place| self.unexpected.remove(place)) {
            return ReceiveArrival::Here(entry.message);
        }
        self.posted.push_back(waiting);
        ReceiveArrival::Awaited(tables.receives.insert(PostedReceive::default()))
    }

    /// Withdraws a receive whose result is not wanted.
    ///
    /// If the receive already has a message, the message is dropped too, as if its result had been
    /// dropped.
    pub(super) fn withdraw(&mut self, tables: &mut Tables, key: u32) {
        match tables.receives.remove(key).and_then(|posted| posted.matched()) {
            Some((message, _)) => drop(tables.messages.remove(message)),
            None => self.posted.retain(|waiting| waiting.receive != key),
        }
    }

    /// Prefetches the memory that the arrival of a message needs: first the list, then the receive
    /// that will match unless another message arrives in between, and the receive behind it, which
    /// the rank may wait for next.
    pub(super) fn prepare(&self, tables: &Tables, key: u32, stage: PrefetchStage) {
        match (stage, self.posted.front(), tables.messages.get(key)) {
            (PrefetchStage::Third, Some(first), _) => prefetch_for_write(first),
            (PrefetchStage::Fourth, _, Some(&MessageInFlight { source, tag, .. })) => {
                let others = self.posted.iter().skip_while(|waiting| !waiting.takes(source, tag));
                others.take(2).for_each(|waiting| tables.receives.prepare(waiting.receive));
            }
            _ => {}
        }
    }

    /// The wait of a rank in words, for a deadlock report.
    pub(super) fn describe(&self) -> String {
        let words: Vec<String> = self.posted.iter().take(3).map(WaitingReceive::describe).collect();
        match self.posted.len() {
            0 => "a message to leave".into(),
            1..=3 => words.join(" and "),
            count => format!("{} and {} more", words.join(", "), count - words.len()),
        }
    }
}

impl Tables {
    /// Takes a message that arrived before its receive.
    pub(super) fn unexpected(&mut self, key: u32) -> Option<ReceivedMessage> {
        self.messages.remove(key).map(MessageInFlight::into_message)
    }

    /// Whether a receive has been matched.
    pub(super) fn is_matched(&self, receive: u32) -> bool {
        self.receives[receive].message != NONE
    }

    /// Takes the message of a matched receive, with the time when it was complete.
    pub(super) fn collect(&mut self, receive: u32) -> Option<(ReceivedMessage, Time)> {
        let (key, time) = self.receives[receive].matched()?;
        self.receives.remove(receive);
        self.messages.remove(key).map(|flight| (flight.into_message(), time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(source: u32, tag: i32, bytes: u64) -> ReceivedMessage {
        ReceivedMessage { source, tag, bytes, data: None }
    }

    fn flight(message: ReceivedMessage) -> MessageInFlight {
        MessageInFlight::new(0, message)
    }

    /// The number of a receive that found no message.
    fn number(arrival: ReceiveArrival) -> u32 {
        let ReceiveArrival::Awaited(number) = arrival else { panic!("{arrival:?}") };
        number
    }

    fn select(source: Option<u32>, tag: Option<i32>) -> ReceiveSelector {
        ReceiveSelector { source, tag }
    }

    #[test]
    fn a_withdrawn_receive_takes_nothing() {
        let (mut lists, mut tables) = (Lists::default(), Tables::default());
        let any = select(None, None);
        let first = number(lists.post(&mut tables, any));
        let second = number(lists.post(&mut tables, any));
        lists.withdraw(&mut tables, first);
        let key = tables.messages.insert(flight(message(1, 2, 3)));
        assert!(lists.arrive(&mut tables, key, Time::ZERO).is_none());
        assert_eq!(tables.receives[second].matched(), Some((key, Time::ZERO)));
        assert_eq!(tables.messages.len(), 1);
        lists.withdraw(&mut tables, second);
        assert_eq!((tables.messages.len(), tables.receives.len()), (0, 0));
    }

    #[test]
    fn entries_of_the_tables_are_half_a_cache_line() {
        assert_eq!(
            [Slab::<MessageInFlight>::PLACE_BYTES, Slab::<PostedReceive>::PLACE_BYTES],
            [32; 2]
        );
        let data = Some(vec![1, 2, 3].into_boxed_slice());
        let whole = ReceivedMessage { source: 5, tag: -1, bytes: 3, data };
        let kept = MessageInFlight::new(u32::MAX - 1, whole.clone());
        assert_eq!((kept.destination(), kept.source(), kept.bytes()), (u32::MAX - 1, 5, 3));
        assert_eq!(kept.into_message(), whole);
    }

    #[test]
    fn waiting_is_told_in_words() {
        let (mut lists, mut tables) = (Lists::default(), Tables::default());
        assert_eq!(lists.describe(), "a message to leave");
        for selector in [select(Some(3), Some(7)), select(None, None)] {
            let _ = lists.post(&mut tables, selector);
        }
        let two = "a message from rank 3 with tag 7 and a message from any rank";
        assert_eq!(lists.describe(), two);
        for source in 0..3 {
            let _ = lists.post(&mut tables, select(Some(source), None));
        }
        assert!(lists.describe().ends_with(", a message from rank 0 and 2 more"));
    }

    proptest! {
        /// The matching does not depend on how posts and arrivals interleave. A rank's own time,
        /// ahead of the engine's, depends on that.
        #[test]
        fn interleaving_does_not_change_the_matching(
            arrivals in prop::collection::vec((0u32..3, 0i32..3), 0..20),
            posts in prop::collection::vec((0u32..4, 0i32..4), 0..20),
            order in prop::collection::vec(any::<bool>(), 40),
        ) {
            // The bytes number the messages; 3 is the wildcard.
            let run = |order: &[bool]| {
                let (mut lists, mut tables) = (Lists::default(), Tables::default());
                let (mut at, mut pt) = (arrivals.iter().zip(0..), posts.iter());
                let mut taken = Vec::new();
                for &post in order {
                    if post {
                        let Some(&(source, tag)) = pt.next() else { continue };
                        let (source, tag) =
                            ((source < 3).then_some(source), (tag < 3).then_some(tag));
                        let selector = select(source, tag);
                        taken.push(lists.post(&mut tables, selector));
                    } else if let Some((&(source, tag), number)) = at.next() {
                        let key = tables.messages.insert(flight(message(source, tag, number)));
                        lists.arrive(&mut tables, key, Time::ZERO);
                    }
                }
                let number = |taken: ReceiveArrival| match taken {
                    ReceiveArrival::Here(key) => tables.unexpected(key).map(|found| found.bytes),
                    ReceiveArrival::Awaited(key) => {
                        tables.collect(key).map(|(message, _)| message.bytes)
                    }
                    ReceiveArrival::Taken => None,
                };
                taken.into_iter().map(number).collect::<Vec<_>>()
            };
            let posts_first = [[true; 40], [false; 40]].concat();
            let arrivals_first = [[false; 40], [true; 40]].concat();
            let mixed = [&order[..], &posts_first].concat();
            prop_assert_eq!(run(&mixed), run(&posts_first));
            prop_assert_eq!(run(&mixed), run(&arrivals_first));
        }
    }
}
