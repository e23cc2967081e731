//! Messages that arrived before a matching receive was posted.
//!
//! One queue per source: a receive that names its source searches only that source's messages
//! (IP-24). The payload stays in the landing ring, and an entry holds the claim on it, until it is
//! evacuated to ordinary memory. Entries are numbered by arrival, so that a wildcard receive takes
//! the earliest of all sources (IP-09).

use hikyaku_nic::by_rank::ByRank;
use hikyaku_nic::fabric::{Port, PostError, Rank, RingId, Space, Unmatched};

use crate::config::of_each_rank;
use crate::envelope::{Selector, any_tag_key};
use crate::line::{Keyed, MatchQueue};
use crate::parcel::{MessagePart, MessageParts};
use crate::protocol::ReadyToSend;
use crate::ways::MessageKind;

/// A message without a matching receive.
#[derive(Debug)]
pub(crate) struct UnexpectedEntry {
    pub(crate) source: Rank,
    pub(crate) bits: u64,
    /// Length of the message, bytes.
    pub(crate) total: u64,
    pub(crate) body: EntryBody,
    order: u64,
    /// Whether all of it is in ordinary memory, whose use is limited.
    is_evacuated: bool,
}

/// The part of a message that is here.
#[derive(Debug)]
pub(crate) enum EntryBody {
    /// The first `arrived` bytes. Only the last entry of a source may be incomplete.
    /// `kind`: the kind of a message that was put.
    Eager { arrived: u64, parts: MessageParts, kind: Option<MessageKind> },
    /// An announcement; the sender holds the bytes.
    Announced(ReadyToSend),
}

impl UnexpectedEntry {
    /// Whether everything that arrives without a request is here.
    pub(crate) fn is_complete(&self) -> bool {
        match self.body {
            EntryBody::Eager { arrived, .. } => arrived == self.total,
            EntryBody::Announced(_) => true,
        }
    }

    /// Whether all bytes of the message are here.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.body, EntryBody::Eager { arrived, .. } if arrived == self.total)
    }

    /// Its bytes that are here.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.body {
            EntryBody::Eager { parts, .. } => parts.bytes(),
            EntryBody::Announced(_) => 0,
        }
    }
}

impl Keyed for UnexpectedEntry {
    fn keys(&self) -> [u64; 2] {
        [self.bits, any_tag_key(self.bits)]
    }
}

/// The unexpected messages of one engine.
#[derive(Debug)]
pub(crate) struct UnexpectedMessages {
    by_source: ByRank<SourceQueue>,
    count: usize,
    next: u64,
    /// Messages that have arrived whole since the start, and announcements.
    come: u64,
    /// Evacuated messages that are still here.
    evacuated: Unmatched,
}

/// The messages of one source.
#[derive(Debug, Default)]
struct SourceQueue {
    line: MatchQueue<UnexpectedEntry>,
    /// Messages before this one are in ordinary memory.
    evacuated_to: u64,
}

impl UnexpectedMessages {
    pub(crate) fn new(ranks: u32) -> UnexpectedMessages {
        let by_source = of_each_rank(ranks, SourceQueue::default);
        let evacuated = Unmatched { messages: 0, bytes: 0 };
        UnexpectedMessages { by_source, count: 0, next: 0, come: 0, evacuated }
    }

    /// Adds a message of an existing source.
    pub(crate) fn push(&mut self, source: Rank, bits: u64, total: u64, body: EntryBody) {
        let (order, is_evacuated) = (self.next, false);
        let entry = UnexpectedEntry { source, bits, total, body, order, is_evacuated };
        self.next += 1;
        self.count += 1;
        self.come += u64::from(entry.is_complete());
        self.by_source[source as usize].line.push(entry);
    }

    /// Adds a part to the last message of a source, if it is the next part of that message.
    pub(crate) fn grow(&mut self, source: Rank, part: MessagePart) -> Grown {
        let queue = self.by_source.get_mut(source as usize);
        match queue.and_then(|queue| queue.line.back_mut()) {
            Some(UnexpectedEntry {
                total, body: EntryBody::Eager { arrived, parts, .. }, ..
            }) if *arrived < *total => {
                *arrived += part.len() as u64;
                parts.push(part);
                if *arrived < *total {
                    return Grown::Partial;
                }
                self.come += 1;
                Grown::Complete
            }
            _ => Grown::Refused(part),
        }
    }

    /// Whether there are no messages.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many messages have arrived since the start without a matching receive.
    #[inline]
    pub(crate) fn come(&self) -> u64 {
        self.come
    }

    /// The sources that have wanted messages.
    pub(crate) fn sources_of(&self, wanted: impl Fn(&UnexpectedEntry) -> bool) -> Vec<Rank> {
        let has_some = |queue: &SourceQueue| queue.line.iter().any(&wanted);
        let of_source = self.by_source.iter().filter(|(_, queue)| has_some(queue));
        of_source.map(|(source, _)| source).collect()
    }

    /// The earliest message that the selector matches.
    #[inline]
    pub(crate) fn find(&self, selector: &Selector) -> Option<&UnexpectedEntry> {
        let (source, at) = self.place(selector)?;
        self.by_source[source as usize].line.get(at)
    }

    /// The earliest message with wanted match bits, among those of the context in `bits`.
    pub(crate) fn find_any(
        &self,
        bits: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<&UnexpectedEntry> {
        if self.count == 0 {
            return None;
        }
        let of_source = self.by_source.iter().filter_map(|(_, queue)| {
            queue.line.of_key(any_tag_key(bits)).find(|entry| wanted(entry.bits))
        });
        of_source.min_by_key(|entry| entry.order)
    }

    /// A message with wanted match bits, among the first ones of each source.
    pub(crate) fn find_first(&self, wanted: impl Fn(u64) -> bool) -> Option<&UnexpectedEntry> {
        if self.count == 0 {
            return None;
        }
        let firsts = self.by_source.iter().filter_map(|(_, queue)| queue.line.front());
        firsts.into_iter().find(|entry| wanted(entry.bits))
    }

    /// Takes the earliest message that the selector matches.
    #[inline]
    pub(crate) fn take(&mut self, selector: &Selector) -> Option<UnexpectedEntry> {
        let (source, at) = self.place(selector)?;
        self.count -= 1;
        let queue = &mut self.by_source[source as usize];
        let entry = queue.line.remove(at)?;
        if entry.is_evacuated {
            self.evacuated.messages -= 1;
            self.evacuated.bytes -= entry.bytes();
        }
        Some(entry)
    }

    /// Takes the messages of a source that `keep` rejects.
    pub(crate) fn take_unless(
        &mut self,
        source: Rank,
        keep: impl Fn(&UnexpectedEntry) -> bool,
    ) -> Vec<UnexpectedEntry> {
        let Some(queue) = self.by_source.get_mut(source as usize) else { return Vec::new() };
        let mut taken = Vec::new();
        for entry in queue.line.drain() {
            if keep(&entry) {
                queue.line.push(entry);
                continue;
            }
            if entry.is_evacuated {
                self.evacuated.messages -= 1;
                self.evacuated.bytes -= entry.bytes();
            }
            taken.push(entry);
        }
        self.count -= taken.len();
        taken
    }

    /// Moves a source's bytes in one ring to ordinary memory. Returns their number.
    pub(crate) fn evacuate_from<P: Port>(
        &mut self,
        source: Rank,
        ring: RingId,
        port: &mut P,
    ) -> u64 {
        let Some(queue) = self.by_source.get_mut(source as usize) else { return 0 };
        let before = queue.evacuated_to;
        let news = queue.line.iter_mut_back().take_while(|entry| entry.order >= before);
        let moved = news.map(|entry| match &mut entry.body {
            EntryBody::Eager { parts, .. } => parts.evacuate(Some(ring), port),
            EntryBody::Announced(_) => 0,
        });
        moved.sum()
    }

    /// Moves the ring bytes of one source's messages to ordinary memory. Returns their number.
    /// Skips messages that were moved before.
    pub(crate) fn evacuate<P: Port>(&mut self, source: Rank, port: &mut P) -> u64 {
        let Some(queue) = self.by_source.get_mut(source as usize) else { return 0 };
        let before = queue.evacuated_to;
        let mut moved = 0;
        queue.evacuated_to = self.next;
        let news = queue.line.iter_mut_back().take_while(|entry| entry.order >= before);
        for entry in news {
            if let EntryBody::Eager { parts, .. } = &mut entry.body {
                moved += parts.evacuate(None, port);
            }
            if entry.is_evacuated {
                continue;
            }
            if entry.is_complete() {
                entry.is_evacuated = true;
                self.evacuated.messages += 1;
                self.evacuated.bytes += entry.bytes();
            } else {
                // The last message: more of it will arrive.
                queue.evacuated_to = entry.order;
            }
        }
        moved
    }

    /// Lets `read` fill memory with an announced message of this source that may be read early, of
    /// up to `longest` bytes. `None`: there is none. A message that cannot be read stays announced,
    /// and is not found again.
    pub(crate) fn bring_early(
        &mut self,
        source: Rank,
        longest: u64,
        read: impl FnOnce((Space, u64), &mut [u8]) -> Result<(), PostError>,
    ) -> Option<Result<ReadyToSend, PostError>> {
        let queue = self.by_source.get_mut(source as usize)?;
        let may_be = |entry: &UnexpectedEntry| match &entry.body {
            EntryBody::Announced(rts) => rts.early && rts.total <= longest,
            EntryBody::Eager { .. } => false,
        };
        let entry = queue.line.iter_mut_back().find(|entry| may_be(entry))?;
        let EntryBody::Announced(rts) = &mut entry.body else { return None };
        rts.early = false;
        let (rts, address) = (*rts, rts.address?);
        let mut bytes = vec![0; rts.total as usize].into_boxed_slice();
        if let Err(error) = read(address, &mut bytes) {
            return Some(Err(error));
        }
        let parts = MessageParts::one(MessagePart::Heap(bytes));
        entry.body = EntryBody::Eager { arrived: rts.total, parts, kind: None };
        entry.is_evacuated = true;
        self.evacuated.messages += 1;
        self.evacuated.bytes += rts.total;
        Some(Ok(rts))
    }

    /// Evacuated messages that are still here.
    pub(crate) fn evacuated(&self) -> Unmatched {
        self.evacuated
    }

    #[inline]
    fn place(&self, selector: &Selector) -> Option<(Rank, usize)> {
        if self.count == 0 {
            return None;
        }
        let pattern = selector.pattern();
        let first = |source: Rank| {
            let line = &self.by_source.get(source as usize)?.line;
            let at = line.find(&[pattern.key()], |entry| pattern.takes(entry.bits))?;
            Some((line.get(at)?.order, source, at))
        };
        let found = match selector.source {
            Some(source) => first(source),
            None => self.by_source.iter().filter_map(|(source, _)| first(source)).min(),
        };
        found.map(|(_, source, at)| (source, at))
    }
}

/// The result of adding a part.
#[derive(Debug)]
pub(crate) enum Grown {
    /// Its message is still incomplete.
    Partial,
    /// Its message is whole now.
    Complete,
    /// It is not the next part of a message.
    Refused(MessagePart),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::Envelope;

    fn push(queue: &mut UnexpectedMessages, source: Rank, tag: i32) {
        let bits = Envelope { destination: 0, context: 0, tag }.bits();
        queue.push(
            source,
            bits,
            0,
            EntryBody::Eager { arrived: 0, parts: MessageParts::default(), kind: None },
        );
    }

    fn take(
        queue: &mut UnexpectedMessages,
        source: Option<Rank>,
        tag: Option<i32>,
    ) -> Option<(Rank, u64)> {
        let entry = queue.take(&Selector { source, tag, context: 0 })?;
        Some((entry.source, entry.bits))
    }

    #[test]
    fn a_wildcard_takes_in_order_of_arrival() {
        let mut queue = UnexpectedMessages::new(3);
        for (source, tag) in [(2, 1), (0, 2), (2, 2), (1, 1)] {
            push(&mut queue, source, tag);
        }
        assert_eq!(take(&mut queue, None, Some(2)), Some((0, 2)));
        assert_eq!(take(&mut queue, Some(2), None), Some((2, 1)));
        assert_eq!(take(&mut queue, None, None), Some((2, 2)));
        assert_eq!(take(&mut queue, Some(2), None), None);
        assert_eq!(take(&mut queue, None, None), Some((1, 1)));
        assert_eq!(take(&mut queue, None, None), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_invalid_source_has_no_messages() {
        let mut queue = UnexpectedMessages::new(1);
        push(&mut queue, 0, 0);
        assert_eq!(take(&mut queue, Some(7), None), None);
        assert!(queue.take_unless(7, |_| false).is_empty());
        assert_eq!(queue.take_unless(0, |_| false).len(), 1);
        assert!(queue.find(&Selector { source: None, tag: None, context: 0 }).is_none());
    }
}
