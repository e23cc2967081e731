//! What is on the outside of a message: who, which communicator, which tag.
//!
//! Context and tag travel as one word, the *match bits*: the context in the upper half, the tag in
//! the lower. A receive compares one word under a mask, whether it has a wildcard tag or not.

use hikyaku_nic::fabric::Rank;

/// The address of a message that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The rank that is to receive it.
    pub destination: Rank,
    /// The communicator context: only receives of the same context match.
    pub context: u32,
    /// The tag, 0 or above (MPI 5.0 §3.2.3).
    pub tag: i32,
}

/// Which messages a receive or probe takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    /// From this rank; `None`: from any (MPI_ANY_SOURCE).
    pub source: Option<Rank>,
    /// With this tag; `None`: with any (MPI_ANY_TAG).
    pub tag: Option<i32>,
    /// Of this communicator context.
    pub context: u32,
}

/// What a completed operation says. For a send: its own rank, its tag, its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Who sent the message.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length, bytes.
    pub bytes: u64,
}

/// When a send is complete (MPI 5.0 §3.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SendMode {
    /// When the buffer may be used again.
    #[default]
    Standard,
    /// When the receive has matched.
    Synchronous,
    /// As standard; the program says that the receive is posted. If it is not, the message is
    /// delivered all the same and the receiver counts it ([`crate::Statistics::ready_unposted`]).
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
    /// The comparison this selector stands for.
    #[inline]
    pub(crate) fn pattern(&self) -> Pattern {
        let mask = if self.tag.is_some() { u64::MAX } else { !u64::from(u32::MAX) };
        Pattern { bits: match_bits(self.context, self.tag.unwrap_or(0)), mask }
    }

    /// Whether a message of `source` with these match bits is one of those.
    #[inline]
    pub(crate) fn takes(&self, source: Rank, bits: u64) -> bool {
        self.source.is_none_or(|wanted| wanted == source) && self.pattern().takes(bits)
    }
}

/// Match bits and which of them count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    bits: u64,
    mask: u64,
}

impl Pattern {
    /// Whether these match bits fit.
    #[inline]
    pub(crate) fn takes(&self, bits: u64) -> bool {
        (self.bits ^ bits) & self.mask == 0
    }

    /// What it is indexed under: its match bits, or those of any tag.
    #[inline]
    pub(crate) fn key(&self) -> u64 {
        if self.mask == u64::MAX { self.bits } else { any_tag_key(self.bits) }
    }
}

/// What messages with these match bits and receives of any tag are indexed under: no tag has this
/// bit.
#[inline]
pub(crate) fn any_tag_key(bits: u64) -> u64 {
    bits >> 32 << 32 | 1 << 31
}

#[inline]
pub(crate) fn match_bits(context: u32, tag: i32) -> u64 {
    u64::from(context) << 32 | u64::from(tag as u32)
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
    fn a_wildcard_tag_still_compares_the_context() {
        let any = Selector { source: None, tag: None, context: 7 };
        let of = |context, tag| Envelope { destination: 0, context, tag }.bits();
        assert!(any.takes(3, of(7, 0)) && any.takes(0, of(7, i32::MAX)));
        assert!(!any.takes(3, of(8, 0)));
        let one = Selector { source: Some(1), tag: Some(5), context: 7 };
        assert!(one.takes(1, of(7, 5)));
        assert!(!one.takes(2, of(7, 5)) && !one.takes(1, of(7, 4)) && !one.takes(1, of(6, 5)));
    }

    #[test]
    fn the_tag_comes_back_out_of_the_match_bits() {
        for tag in [0, 1, i32::MAX] {
            assert_eq!(tag_of(match_bits(u32::MAX, tag)), tag);
        }
    }
}
