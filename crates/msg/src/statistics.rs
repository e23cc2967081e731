//! What an engine counts.

use hikyaku_nic::time::Time;

/// Counters of one engine since its start. Only `unexpected_*` go down as well as up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages whose sending is complete.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages received whole.
    pub messages_received: u64,
    /// Their bytes, as far as they fitted.
    pub bytes_received: u64,
    /// Messages that wait unmatched now.
    pub unexpected_messages: u64,
    /// Bytes of them here now: in landing rings, in records, or evacuated.
    pub unexpected_bytes: u64,
    /// Most messages that ever waited unmatched.
    pub unexpected_messages_high: u64,
    /// Most bytes that ever waited unmatched.
    pub unexpected_bytes_high: u64,
    /// Ready-mode messages that found no posted receive.
    pub ready_unposted: u64,
    /// Posts that found no room or credit.
    pub held_up: u64,
    /// Times the unmatched messages of a source were copied to ordinary memory to let it go on.
    pub evacuations: u64,
    /// Bytes copied then.
    pub evacuated_bytes: u64,
    /// Messages sent by rendezvous.
    pub rendezvous_sent: u64,
    /// Messages copied straight out of the sender's memory.
    pub direct_reads: u64,
    /// Direct reads the fabric or the kernel refused; the sender streamed instead.
    pub refused_reads: u64,
    /// Packets that made no sense and were dropped.
    pub malformed: u64,
    /// Packets for a request that is no more, dropped.
    pub stray: u64,
    /// Time spent waiting in blocking calls, without the first moments of each.
    pub parked: Time,
}

impl Statistics {
    /// Notes that a message went out.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.messages_sent += 1;
        self.bytes_sent += bytes;
    }

    /// Notes that a message came in.
    #[inline]
    pub(crate) fn received(&mut self, bytes: u64) {
        self.messages_received += 1;
        self.bytes_received += bytes;
    }

    /// Notes that a message waits unmatched.
    pub(crate) fn unexpected_more(&mut self, messages: u64, bytes: u64) {
        self.unexpected_messages += messages;
        self.unexpected_bytes += bytes;
        self.unexpected_messages_high = self.unexpected_messages_high.max(self.unexpected_messages);
        self.unexpected_bytes_high = self.unexpected_bytes_high.max(self.unexpected_bytes);
    }

    /// Notes that a message waits no longer.
    pub(crate) fn unexpected_less(&mut self, bytes: u64) {
        self.unexpected_messages -= 1;
        self.unexpected_bytes -= bytes;
    }
}
