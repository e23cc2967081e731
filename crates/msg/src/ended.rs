//! Tags that this rank has ended: later messages of them are dropped.
//!
//! Two ranks that exchange messages of a tag may end the exchange at different times. The rank that
//! ends it first sends the other one a note of that tag, and accepts no more messages of it:
//! messages in flight would stay unmatched and hold their ring space and credit until the rank
//! leaves.
//!
//! A note says that its sender has posted its last message of the tag. Between hosts the note may
//! overtake messages, so the last tags that both ends have ended are kept for some time.

use std::collections::{BTreeSet, VecDeque};

use hikyaku_nic::fabric::Rank;

use crate::envelope::context_of;

/// How many tags that both ends have ended are kept.
const CLOSED_MOST: usize = 64;

/// Ended tags: the other rank, and context and tag as match bits.
#[derive(Debug, Default)]
pub(crate) struct EndedTags {
    all: BTreeSet<(Rank, u64)>,
    /// Tags that the other rank has ended too, oldest first.
    closed: VecDeque<(Rank, u64)>,
}

impl EndedTags {
    /// This rank ends a tag with another rank.
    pub(crate) fn end(&mut self, source: Rank, bits: u64) {
        self.all.insert((source, bits));
    }

    /// The other rank has ended a tag. Returns whether this rank had ended it before.
    pub(crate) fn close(&mut self, source: Rank, bits: u64) -> bool {
        let is_ended = self.has(source, bits);
        if is_ended {
            self.closed.push_back((source, bits));
            if self.closed.len() > CLOSED_MOST
                && let Some(oldest) = self.closed.pop_front()
            {
                self.all.remove(&oldest);
            }
        }
        is_ended
    }

    /// Whether this rank has ended a tag.
    #[inline]
    pub(crate) fn has(&self, source: Rank, bits: u64) -> bool {
        !self.all.is_empty() && self.all.contains(&(source, bits))
    }

    /// Forgets contexts that have ended. Their numbers may be reused.
    pub(crate) fn drop_of(&mut self, is_over: impl Fn(u32) -> bool) {
        let stays = |(_, bits): &(Rank, u64)| !is_over(context_of(*bits));
        self.all.retain(stays);
        self.closed.retain(stays);
    }

    /// Forgets a rank that sends nothing more.
    pub(crate) fn drop_rank(&mut self, rank: Rank) {
        let stays = |(source, _): &(Rank, u64)| *source != rank;
        self.all.retain(stays);
        self.closed.retain(stays);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::match_bits;

    #[test]
    fn a_tag_counts_as_ended_for_some_time_after_both_ends() {
        let mut ended = EndedTags::default();
        let tags = || (0..10 + CLOSED_MOST as i32).map(|tag| match_bits(3, tag));
        assert!(!ended.close(1, match_bits(3, 0)), "this rank has not ended it");
        tags().for_each(|bits| ended.end(1, bits));
        assert!(!ended.has(2, match_bits(3, 0)) && !ended.has(1, match_bits(4, 0)));
        assert!(tags().all(|bits| ended.has(1, bits) && ended.close(1, bits)));
        let stay = tags().filter(|bits| ended.has(1, *bits));
        assert!(stay.eq(tags().skip(10)), "the last ones");
        ended.end(2, match_bits(3, 0));
        ended.drop_rank(1);
        assert_eq!((ended.all.len(), ended.closed.len()), (1, 0));
        ended.drop_of(|context| context == 3);
        assert!(ended.all.is_empty());
    }
}
