//! Matching of messages and receives: two lists a rank, first in first out.

use hikyaku_nic::time::Time;

use super::request::Message;
use crate::chain::{Chain, Linked, Links};
use crate::engine::Wakeup;
use crate::slab::Slab;

/// A message from its sending to its being matched.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) destination: u32,
    /// What the receiver gets.
    pub(super) message: Message,
    /// The send request to be told of the departure; `NONE` if nobody asks.
    pub(super) send: u32,
    links: Links,
}

impl InFlight {
    pub(super) fn new(destination: u32, message: Message, send: u32) -> InFlight {
        InFlight { destination, message, send, links: Links::default() }
    }
}

impl Linked for InFlight {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Which messages a receive takes; `None` takes any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) source: Option<u32>,
    pub(super) tag: Option<i32>,
}

impl Selector {
    fn takes(&self, message: &Message) -> bool {
        self.source.is_none_or(|source| source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

/// A receive from its posting to its being asked for.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) selector: Selector,
    /// The message that it was matched with, and when that was complete.
    pub(super) matched: Option<(Message, Time)>,
    pub(super) wakeup: Option<Wakeup>,
    links: Links,
}

impl Linked for Posted {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The two lists of one rank.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Receives that wait for a message, oldest first.
    posted: Chain,
    /// Messages that arrived before their receive, oldest first: MPI's unexpected queue.
    unexpected: Chain,
}

/// What the lists of all ranks lie in.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) messages: Slab<InFlight>,
    pub(super) receives: Slab<Posted>,
}

impl Lists {
    /// A message has arrived: gives it to the oldest receive that takes it, and tells whom to wake;
    /// keeps it if there is none.
    pub(super) fn arrive(&mut self, tables: &mut Tables, key: u32, now: Time) -> Option<Wakeup> {
        let message = &tables.messages[key].message;
        let found = self.posted.find(&mut tables.receives, |posted| posted.selector.takes(message));
        let Some(receive) = found else {
            self.unexpected.push(&mut tables.messages, key);
            return None;
        };
        self.posted.unlink(&mut tables.receives, receive);
        let arrived = tables.messages.remove(key).map(|flight| (flight.message, now));
        let posted = &mut tables.receives[receive];
        posted.matched = arrived;
        posted.wakeup.take()
    }

    /// A receive is posted: the oldest unexpected message that it takes, or its number in the list.
    pub(super) fn post(&mut self, tables: &mut Tables, selector: Selector) -> Result<Message, u32> {
        let takes = |flight: &InFlight| selector.takes(&flight.message);
        if let Some(key) = self.unexpected.find(&mut tables.messages, takes) {
            self.unexpected.unlink(&mut tables.messages, key);
            if let Some(flight) = tables.messages.remove(key) {
                return Ok(flight.message);
            }
        }
        let posted = Posted { selector, matched: None, wakeup: None, links: Links::default() };
        let key = tables.receives.insert(posted);
        self.posted.push(&mut tables.receives, key);
        Err(key)
    }

    /// Takes a receive back that nobody will ask for.
    ///
    /// A message that it was matched with already is gone with it, as it is with a receive whose
    /// result is thrown away.
    pub(super) fn withdraw(&mut self, tables: &mut Tables, key: u32) {
        if tables.receives.get(key).is_some_and(|posted| posted.matched.is_none()) {
            self.posted.unlink(&mut tables.receives, key);
        }
        tables.receives.remove(key);
    }

    /// What a rank waits for, in words.
    pub(super) fn describe(&self, tables: &mut Tables) -> String {
        let mut words = Vec::new();
        self.posted.find(&mut tables.receives, |posted| {
            words.push(posted.selector.describe());
            false
        });
        let count = words.len();
        words.truncate(3);
        match count {
            0 => "a message to leave".into(),
            1..=3 => words.join(" and "),
            _ => format!("{} and {} more", words.join(", "), count - words.len()),
        }
    }
}

impl Selector {
    fn describe(&self) -> String {
        let source = match self.source {
            Some(source) => format!("rank {source}"),
            None => "any rank".into(),
        };
        match self.tag {
            Some(tag) => format!("a message from {source} with tag {tag}"),
            None => format!("a message from {source}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::NONE;
    use proptest::prelude::*;

    fn message(source: u32, tag: i32, bytes: u64) -> Message {
        Message { source, tag, bytes, data: None }
    }

    fn select(source: Option<u32>, tag: Option<i32>) -> Selector {
        Selector { source, tag }
    }

    #[test]
    fn a_withdrawn_receive_takes_nothing() {
        let (mut lists, mut tables) = (Lists::default(), Tables::default());
        let any = select(None, None);
        let first = lists.post(&mut tables, any).unwrap_err();
        let second = lists.post(&mut tables, any).unwrap_err();
        lists.withdraw(&mut tables, first);
        let key = tables.messages.insert(InFlight::new(0, message(1, 2, 3), NONE));
        assert!(lists.arrive(&mut tables, key, Time::ZERO).is_none());
        assert_eq!(tables.receives[second].matched, Some((message(1, 2, 3), Time::ZERO)));
        lists.withdraw(&mut tables, second);
        assert_eq!((tables.messages.len(), tables.receives.len()), (0, 0));
    }

    #[test]
    fn waiting_is_told_in_words() {
        let (mut lists, mut tables) = (Lists::default(), Tables::default());
        assert_eq!(lists.describe(&mut tables), "a message to leave");
        for selector in [select(Some(3), Some(7)), select(None, None)] {
            let _ = lists.post(&mut tables, selector);
        }
        let two = "a message from rank 3 with tag 7 and a message from any rank";
        assert_eq!(lists.describe(&mut tables), two);
        for source in 0..3 {
            let _ = lists.post(&mut tables, select(Some(source), None));
        }
        assert!(lists.describe(&mut tables).ends_with(", a message from rank 0 and 2 more"));
    }

    proptest! {
        /// What is matched with what does not depend on how posts and arrivals interleave: what a
        /// rank's own time ahead of the engine's rests on.
        #[test]
        fn interleaving_does_not_change_the_matching(
            arrivals in prop::collection::vec((0u32..3, 0i32..3), 0..20),
            posts in prop::collection::vec((0u32..4, 0i32..4), 0..20),
            order in prop::collection::vec(any::<bool>(), 40),
        ) {
            // Bytes number the messages; 3 is the wildcard.
            let run = |order: &[bool]| {
                let (mut lists, mut tables) = (Lists::default(), Tables::default());
                let (mut at, mut pt) = (arrivals.iter().zip(0..), posts.iter());
                let mut taken = Vec::new();
                for &post in order {
                    if post {
                        let Some(&(source, tag)) = pt.next() else { continue };
                        let selector = select((source < 3).then_some(source), (tag < 3).then_some(tag));
                        taken.push(lists.post(&mut tables, selector));
                    } else if let Some((&(source, tag), number)) = at.next() {
                        let flight = InFlight::new(0, message(source, tag, number), NONE);
                        let key = tables.messages.insert(flight);
                        lists.arrive(&mut tables, key, Time::ZERO);
                    }
                }
                let number = |taken: Result<Message, u32>| match taken {
                    Ok(message) => Some(message.bytes),
                    Err(key) => tables.receives[key].matched.as_ref().map(|(message, _)| message.bytes),
                };
                taken.into_iter().map(number).collect::<Vec<_>>()
            };
            let mixed: Vec<bool> = order.iter().copied().chain([true; 40]).chain([false; 40]).collect();
            let posts_first: Vec<bool> = [[true; 40], [false; 40]].concat();
            let arrivals_first: Vec<bool> = [[false; 40], [true; 40]].concat();
            prop_assert_eq!(run(&mixed), run(&posts_first));
            prop_assert_eq!(run(&mixed), run(&arrivals_first));
        }
    }
}
