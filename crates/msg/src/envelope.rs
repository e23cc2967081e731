//! The envelope of a message: its ranks, communicator context and tag.
//!
//! Context and tag travel as one word, the *match bits*: the context in the upper half, the tag in
//! the lower. A receive compares one word under a mask, with or without a wildcard tag.

use hikyaku_nic::fabric::Rank;

/// The address of a message to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The receiving rank.
    pub destination: Rank,
    /// The communicator context: only receives of the same context match.
    pub context: u32,
    /// The tag, 0 or above (MPI 5.0 §3.2.3).
    pub tag: i32,
}

/// The messages that a receive or probe accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    /// From this rank; `None`: from any rank (MPI_ANY_SOURCE).
    pub source: Option<Rank>,
    /// With this tag; `None`: with any tag (MPI_ANY_TAG).
    pub tag: Option<i32>,
    /// Of this communicator context.
    pub context: u32,
}

/// The result of a completed operation. For a send: its own rank, its tag, its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length, bytes.
    pub bytes: u64,
}

impl Received {
    /// The same value, copied word by word. A copy of the whole waits until its words have left the
    /// store buffer, where messages that were just sent are queued before them.
    #[inline(always)]
    pub fn copied(&self) -> Received {
        let Received { source, tag, bytes } = *self;
        Received { source, tag, bytes }
    }
}

/// When a send is complete (MPI 5.0 §3.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SendMode {
    /// When the buffer may be used again.
    #[default]
    Standard,
    /// When the receive has matched.
    Synchronous,
    /// As standard; the program asserts that the receive is posted. If it is not, the message is
    /// delivered nevertheless and the receiver counts it ([`crate::Statistics::ready_unposted`]).
    Ready,
}

impl Envelope {
    /// The word that receives compare.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        match_bits(self.context, self.tag)
    }
}

impl Selector {
    /// The comparison for this selector.
    #[inline]
    pub(crate) fn pattern(&self) -> MatchPattern {
        let mask = if self.tag.is_some() { u64::MAX } else { !u64::from(u32::MAX) };
        MatchPattern { bits: match_bits(self.context, self.tag.unwrap_or(0)), mask }
    }

    /// Whether this selector matches a message of `source` with these match bits.
    #[inline]
    pub(crate) fn takes(&self, source: Rank, bits: u64) -> bool {
        self.source.is_none_or(|wanted| wanted == source) && self.pattern().takes(bits)
    }
}

/// Match bits and a mask of the ones to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatchPattern {
    bits: u64,
    mask: u64,
}

impl MatchPattern {
    /// The match bits; for any tag, those with tag 0.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Whether the pattern matches these bits.
    #[inline]
    pub(crate) fn takes(&self, bits: u64) -> bool {
        (self.bits ^ bits) & self.mask == 0
    }

    /// The index key: its match bits, or the key for any tag.
    #[inline]
    pub(crate) fn key(&self) -> u64 {
        if self.mask == u64::MAX { self.bits } else { any_tag_key(self.bits) }
    }
}

/// The index key of these match bits for receives of any tag: no real tag sets bit 31.
#[inline]
pub(crate) fn any_tag_key(bits: u64) -> u64 {
    bits >> 32 << 32 | 1 << 31
}

#[inline]
pub(crate) fn match_bits(context: u32, tag: i32) -> u64 {
    u64::from(context) << 32 | u64::from(tag as u32)
}

/// The context in match bits.
#[inline]
pub(crate) fn context_of(bits: u64) -> u32 {
    (bits >> 32) as u32
}

/// The tag in match bits.
#[inline]
pub(crate) fn tag_of(bits: u64) -> i32 {
    bits as u32 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_tag_compares_the_context() {
        let any = Selector { source: None, tag: None, context: 7 };
        let of = |context, tag| Envelope { destination: 0, context, tag }.bits();
        assert!(any.takes(3, of(7, 0)) && any.takes(0, of(7, i32::MAX)));
        assert!(!any.takes(3, of(8, 0)));
        let one = Selector { source: Some(1), tag: Some(5), context: 7 };
        assert!(one.takes(1, of(7, 5)));
        assert!(!one.takes(2, of(7, 5)) && !one.takes(1, of(7, 4)) && !one.takes(1, of(6, 5)));
    }

    #[test]
    fn match_bits_preserve_the_tag() {
        for tag in [0, 1, i32::MAX] {
            assert_eq!(tag_of(match_bits(u32::MAX, tag)), tag);
        }
    }

    #[test]
    fn each_context_has_a_key_for_any_tag() {
        let of = |context, tag| Envelope { destination: 0, context, tag }.bits();
        let key = any_tag_key(of(7, 3));
        assert_eq!(key, any_tag_key(of(7, 0)));
        assert_ne!(key, any_tag_key(of(8, 3)));
        assert!([0, 3, i32::MAX].iter().all(|tag| of(7, *tag) != key), "no tag has it");
    }
}
