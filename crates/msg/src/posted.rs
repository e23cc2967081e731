//! Posted receives that no message has matched.
//!
//! One queue per source and one for wildcard sources. A message of source `s` may match the
//! oldest fitting receive of queue `s` or of the wildcards, whichever was posted first (MPI 5.0
//! §3.5).

use hikyaku_nic::by_rank::ByRank;
use hikyaku_nic::fabric::Rank;

use crate::config::of_each_rank;
use crate::envelope::{MatchPattern, Selector, any_tag_key};
use crate::line::{Keyed, MatchQueue};
use crate::request::RequestId;

/// The posted receives of one engine.
#[derive(Debug)]
pub(crate) struct PostedReceives {
    by_source: ByRank<MatchQueue<PostedEntry>>,
    any_source: MatchQueue<PostedEntry>,
    count: usize,
    next: u64,
}

#[derive(Debug)]
struct PostedEntry {
    /// The number of posts before it.
    order: u64,
    pattern: MatchPattern,
    id: RequestId,
}

/// A posted receive that names its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostedPlace {
    pub(crate) id: RequestId,
    /// The match bits of a message that it takes. A receive of any tag also takes others.
    pub(crate) bits: u64,
}

impl Keyed for PostedEntry {
    fn keys(&self) -> [u64; 2] {
        [self.pattern.key(); 2]
    }
}

impl PostedReceives {
    pub(crate) fn new(ranks: u32) -> PostedReceives {
        let by_source = of_each_rank(ranks, MatchQueue::default);
        PostedReceives { by_source, any_source: MatchQueue::default(), count: 0, next: 0 }
    }

    /// Adds a receive. Its source, if it names one, must exist.
    #[inline(always)]
    pub(crate) fn push(&mut self, selector: &Selector, id: RequestId) {
        let entry = PostedEntry { order: self.next, pattern: selector.pattern(), id };
        self.next += 1;
        self.count += 1;
        self.line(selector.source).push(entry);
    }

    /// Takes the oldest receive that fits a message.
    #[inline]
    pub(crate) fn take(&mut self, source: Rank, bits: u64) -> Option<RequestId> {
        if self.count == 0 {
            return None;
        }
        let (wildcard, at) = self.find(source, bits)?;
        self.count -= 1;
        self.line(if wildcard { None } else { Some(source) }).remove(at).map(|entry| entry.id)
    }

    /// Whether no receive is posted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a receive fits a message.
    #[inline]
    pub(crate) fn fits(&self, source: Rank, bits: u64) -> bool {
        self.count != 0 && self.find(source, bits).is_some()
    }

    /// Removes a receive.
    pub(crate) fn remove(&mut self, selector: &Selector, id: RequestId) -> bool {
        let line = self.line(selector.source);
        let found = line.find(&[selector.pattern().key()], |entry| entry.id == id);
        if let Some(at) = found {
            line.remove(at);
            self.count -= 1;
        }
        found.is_some()
    }

    /// Whether every receive names its source.
    #[inline]
    pub(crate) fn names_all_sources(&self) -> bool {
        self.any_source.is_empty()
    }

    /// The oldest receive that names this source.
    #[inline(always)]
    pub(crate) fn first_of(&self, source: Rank) -> Option<PostedPlace> {
        let first = self.by_source.get(source as usize)?.front()?;
        Some(PostedPlace { id: first.id, bits: first.pattern.bits() })
    }

    /// The oldest receive that names this source and fits a message, with its place in the queue.
    #[inline]
    pub(crate) fn first_for(&self, source: Rank, bits: u64) -> Option<(usize, RequestId)> {
        let line = self.by_source.get(source as usize)?;
        let (_, at) = first_in(line, bits)?;
        Some((at, line.get(at)?.id))
    }

    /// Removes a receive that names this source, by its place.
    #[inline(always)]
    pub(crate) fn take_at(&mut self, source: Rank, at: usize) {
        self.count -= usize::from(self.by_source[source as usize].discard(at));
    }

    /// Whether a receive may take a message of this source.
    pub(crate) fn wants(&self, source: Rank) -> bool {
        let own = self.by_source.get(source as usize);
        !self.any_source.is_empty() || own.is_some_and(|line| !line.is_empty())
    }

    /// The place of the oldest receive that fits, and whether it is a receive from any source.
    #[inline]
    fn find(&self, source: Rank, bits: u64) -> Option<(bool, usize)> {
        let own = self.by_source.get(source as usize).and_then(|line| first_in(line, bits));
        let any = first_in(&self.any_source, bits);
        match (own, any) {
            (Some((own, _)), Some((any, at))) if any < own => Some((true, at)),
            (Some((_, at)), _) => Some((false, at)),
            (None, Some((_, at))) => Some((true, at)),
            (None, None) => None,
        }
    }

    #[inline(always)]
    fn line(&mut self, source: Option<Rank>) -> &mut MatchQueue<PostedEntry> {
        match source {
            Some(source) => &mut self.by_source[source as usize],
            None => &mut self.any_source,
        }
    }
}

#[inline]
fn first_in(line: &MatchQueue<PostedEntry>, bits: u64) -> Option<(u64, usize)> {
    let at = line.find(&[bits, any_tag_key(bits)], |entry| entry.pattern.takes(bits))?;
    Some((line.get(at)?.order, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Envelope;

    fn id(word: u64) -> RequestId {
        RequestId::from_word(word)
    }

    fn selector(source: Option<Rank>, tag: Option<i32>) -> Selector {
        Selector { source, tag, context: 0 }
    }

    fn bits(tag: i32) -> u64 {
        Envelope { destination: 0, context: 0, tag }.bits()
    }

    #[test]
    fn the_receive_posted_first_wins_in_either_queue() {
        let mut posted = PostedReceives::new(2);
        posted.push(&selector(Some(1), Some(9)), id(0));
        posted.push(&selector(None, Some(5)), id(1));
        posted.push(&selector(Some(1), Some(5)), id(2));
        posted.push(&selector(Some(1), None), id(3));
        assert_eq!(posted.take(1, bits(5)), Some(id(1)));
        assert_eq!(posted.take(1, bits(5)), Some(id(2)));
        assert_eq!(posted.take(1, bits(5)), Some(id(3)));
        assert_eq!(posted.take(1, bits(5)), None);
        assert!(posted.wants(1) && !posted.wants(0));
        assert_eq!(posted.take(1, bits(9)), Some(id(0)));
        assert!(!posted.wants(1));
    }

    #[test]
    fn a_removed_receive_matches_nothing() {
        let mut posted = PostedReceives::new(1);
        let any = selector(None, None);
        posted.push(&any, id(4));
        assert!(posted.fits(0, bits(1)));
        assert!(posted.remove(&any, id(4)) && !posted.remove(&any, id(4)));
        assert!(!posted.fits(0, bits(1)) && posted.is_empty());
    }

    #[test]
    fn a_long_queue_finds_receives_by_tag() {
        let mut posted = PostedReceives::new(1);
        (10..1000).for_each(|tag| posted.push(&selector(Some(0), Some(tag)), id(tag as u64)));
        posted.push(&selector(Some(0), None), id(1));
        assert_eq!(posted.take(0, bits(999)), Some(id(999)));
        assert_eq!(posted.take(0, bits(5)), Some(id(1)));
        assert!(posted.remove(&selector(Some(0), Some(500)), id(500)));
    }
}
