//! The counters of an engine.

use hikyaku_nic::fabric::FullCause;
use hikyaku_nic::time::Time;

/// Counters of one engine since its start. Only `unexpected_*` go down as well as up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages sent completely.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages received whole.
    pub messages_received: u64,
    /// Their bytes, without those that did not fit the buffers.
    pub bytes_received: u64,
    /// Messages that are unmatched now.
    pub unexpected_messages: u64,
    /// Their bytes that are here now: in landing rings, in records, or evacuated.
    pub unexpected_bytes: u64,
    /// The most messages that were ever unmatched.
    pub unexpected_messages_high: u64,
    /// The most bytes that were ever unmatched.
    pub unexpected_bytes_high: u64,
    /// Ready-mode messages that found no posted receive.
    pub ready_unposted: u64,
    /// Posts that found no room or credit.
    pub held_up: u64,
    /// Those posts that a full ring refused, and that were sent again.
    pub refused: u64,
    /// Times that a source's unmatched messages were evacuated so that it could continue.
    pub evacuations: u64,
    /// Bytes that were evacuated.
    pub evacuated_bytes: u64,
    /// Messages sent by rendezvous.
    pub rendezvous_sent: u64,
    /// Messages copied directly from the sender's memory.
    pub direct_reads: u64,
    /// Messages copied by both ends, counted at the receiver.
    pub joint_copies: u64,
    /// Bytes that this rank, as the sender, has copied into its receivers' memory.
    pub joint_bytes: u64,
    /// Direct reads that the fabric or the kernel refused; the sender streamed instead.
    pub refused_reads: u64,
    /// Invalid packets that were dropped.
    pub malformed: u64,
    /// Packets for a freed request, dropped.
    pub stray: u64,
    /// Time spent waiting in blocking calls, without the first moments of each.
    pub parked: Time,
}

impl Statistics {
    /// Counts a post that found no room or credit.
    pub(crate) fn found_full(&mut self, cause: FullCause) {
        self.held_up += 1;
        let refused = matches!(cause, FullCause::RingRefused | FullCause::StatusRefused);
        self.refused += u64::from(refused);
    }

    /// Counts a message sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.messages_sent += 1;
        self.bytes_sent += bytes;
    }

    /// Counts a message received.
    #[inline]
    pub(crate) fn received(&mut self, bytes: u64) {
        self.messages_received += 1;
        self.bytes_received += bytes;
    }

    /// Counts an unmatched message.
    pub(crate) fn unexpected_more(&mut self, messages: u64, bytes: u64) {
        self.unexpected_messages += messages;
        self.unexpected_bytes += bytes;
        self.unexpected_messages_high = self.unexpected_messages_high.max(self.unexpected_messages);
        self.unexpected_bytes_high = self.unexpected_bytes_high.max(self.unexpected_bytes);
    }

    /// Counts a message that is no longer unmatched.
    pub(crate) fn unexpected_less(&mut self, bytes: u64) {
        self.unexpected_messages -= 1;
        self.unexpected_bytes -= bytes;
    }
}
