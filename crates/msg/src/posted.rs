//! Posted receives that nothing has matched.
//!
//! One queue per source and one for wildcard sources. A message of source `s` may match the
//! oldest fitting receive of queue `s` or of the wildcards, whichever was posted first (MPI 5.0
//! §3.5).

use hikyaku_nic::fabric::Rank;

use crate::envelope::{Pattern, Selector, any_tag_key};
use crate::line::{Keyed, Line};
use crate::request::RequestId;

/// The posted receives of one engine.
#[derive(Debug)]
pub(crate) struct Posted {
    by_source: Vec<Line<Entry>>,
    any_source: Line<Entry>,
    count: usize,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    /// When it was posted, in posts.
    order: u64,
    pattern: Pattern,
    id: RequestId,
}

impl Keyed for Entry {
    fn keys(&self) -> [u64; 2] {
        [self.pattern.key(); 2]
    }
}

impl Posted {
    pub(crate) fn new(ranks: u32) -> Posted {
        let by_source = (0..ranks).map(|_| Line::default()).collect();
        Posted { by_source, any_source: Line::default(), count: 0, next: 0 }
    }

    /// Adds a receive. Its source, if it names one, exists.
    #[inline]
    pub(crate) fn push(&mut self, selector: &Selector, id: RequestId) {
        let entry = Entry { order: self.next, pattern: selector.pattern(), id };
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

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a receive fits a message.
    #[inline]
    pub(crate) fn fits(&self, source: Rank, bits: u64) -> bool {
        self.count != 0 && self.find(source, bits).is_some()
    }

    /// Takes a receive out.
    pub(crate) fn remove(&mut self, selector: &Selector, id: RequestId) -> bool {
        let line = self.line(selector.source);
        let found = line.find(&[selector.pattern().key()], |entry| entry.id == id);
        if let Some(at) = found {
            line.remove(at);
            self.count -= 1;
        }
        found.is_some()
    }

    /// Whether the next message of a source is this receive's, if it fits at all: nothing that
    /// was posted before it can take it.
    #[inline]
    pub(crate) fn is_next(&self, source: Rank, id: RequestId) -> bool {
        let first = self.by_source.get(source as usize).and_then(Line::front);
        self.any_source.is_empty() && first.is_some_and(|entry| entry.id == id)
    }

    /// Takes the oldest receive that names a source.
    #[inline]
    pub(crate) fn take_next(&mut self, source: Rank) {
        if self.by_source[source as usize].remove(0).is_some() {
            self.count -= 1;
        }
    }

    /// Whether some receive may take a message of this source.
    pub(crate) fn wants(&self, source: Rank) -> bool {
        let own = self.by_source.get(source as usize);
        !self.any_source.is_empty() || own.is_some_and(|line| !line.is_empty())
    }

    /// Whether the oldest receive that fits is one from any source, and its place.
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

    #[inline]
    fn line(&mut self, source: Option<Rank>) -> &mut Line<Entry> {
        match source {
            Some(source) => &mut self.by_source[source as usize],
            None => &mut self.any_source,
        }
    }
}

#[inline]
fn first_in(line: &Line<Entry>, bits: u64) -> Option<(u64, usize)> {
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
    fn the_receive_posted_first_wins_whatever_queue_it_is_in() {
        let mut posted = Posted::new(2);
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
    fn a_receive_taken_out_matches_nothing() {
        let mut posted = Posted::new(1);
        let any = selector(None, None);
        posted.push(&any, id(4));
        assert!(posted.fits(0, bits(1)));
        assert!(posted.remove(&any, id(4)) && !posted.remove(&any, id(4)));
        assert!(!posted.fits(0, bits(1)));
    }
}
