//! When a receive buffer that takes several messages may be posted again.

use std::ops::Range;

/// The reports on a receive buffer since it was posted.
///
/// Messages lie in it one behind the other, each where the one before it ends. A provider that
/// receives from several peers at once reports them in the order of their completion. Releases
/// before 1.20 report that a buffer is free ([`FI_MULTI_RECV`]) with the message that was *begun*
/// last ([libfabric #9420]): others may still be on their way into it. So unreported bytes before
/// the end of a message count as a message in progress.
///
/// A failed receive does not say which bytes were its own, so they cannot be told from a message
/// in progress: the buffer is never over, and not posted again.
///
/// [`FI_MULTI_RECV`]: https://ofiwg.github.io/libfabric/v1.17.0/man/fi_msg.3.html
/// [libfabric #9420]: https://github.com/ofiwg/libfabric/pull/9420
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BufferFill {
    /// Bytes of the messages that were reported, and the end of the last of them.
    reported: usize,
    end: usize,
    /// Whether the provider has said that no further message begins in it.
    is_released: bool,
    has_failed: bool,
}

impl BufferFill {
    /// A message has arrived whole.
    pub(super) fn note_message(&mut self, place: &Range<usize>) {
        self.reported += place.len();
        self.end = self.end.max(place.end);
    }

    /// No further message begins in it.
    pub(super) fn note_release(&mut self) {
        self.is_released = true;
    }

    /// A receive failed. Returns whether it is the first.
    pub(super) fn note_failure(&mut self) -> bool {
        !std::mem::replace(&mut self.has_failed, true)
    }

    /// Whether the provider writes no more into it.
    pub(super) fn is_over(&self) -> bool {
        self.is_released && self.reported == self.end && !self.has_failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each of these messages, whether the buffer is over after it. The buffer is released with
    /// the message that ends at 100.
    fn over(messages: &[Range<usize>]) -> Vec<bool> {
        let mut fill = BufferFill::default();
        let note = |place: &Range<usize>| {
            fill.note_message(place);
            if place.end == 100 {
                fill.note_release();
            }
            fill.is_over()
        };
        messages.iter().map(note).collect()
    }

    #[test]
    fn a_buffer_is_over_once_all_messages_are_whole() {
        assert_eq!(over(&[0..30, 30..60, 60..100]), [false, false, true]);
        // The last message begun is whole first, as if no packet of its peer was lost.
        assert_eq!(over(&[60..100, 0..30, 30..60]), [false, false, true]);
        assert_eq!(over(&[0..30, 60..100, 30..60]), [false, false, true]);
    }

    #[test]
    fn a_release_without_a_message_counts() {
        let mut fill = BufferFill::default();
        fill.note_message(&(0..30));
        assert!(!fill.is_over());
        fill.note_release();
        assert!(fill.is_over());
    }

    #[test]
    fn a_buffer_with_a_failed_message_is_never_over() {
        let mut fill = BufferFill::default();
        assert!(fill.note_failure() && !fill.note_failure());
        fill.note_message(&(0..100));
        fill.note_release();
        assert!(!fill.is_over());
    }
}
