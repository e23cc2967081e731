//! Whose message and which: the selectors of receives and probes.

/// The rank a receive takes messages from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(pub(crate) Option<u32>);

/// Any rank's messages, in order of arrival (MPI_ANY_SOURCE, MPI 5.0 §3.2.4).
pub const ANY_SOURCE: Source = Source(None);

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source(Some(rank))
    }
}

/// The tag a receive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub(crate) Option<i32>);

/// Any tag (MPI_ANY_TAG, MPI 5.0 §3.2.4).
pub const ANY_TAG: Tag = Tag(None);

impl From<i32> for Tag {
    fn from(tag: i32) -> Tag {
        Tag(Some(tag))
    }
}
