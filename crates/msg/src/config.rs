//! The sizes an engine is run with.

/// How an [`Engine`](crate::Engine) chooses protocols and bounds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Longest message, bytes, that is sent at once without asking the receiver. Every unmatched
    /// message up to this length lies in the receiver's landing ring.
    pub eager_limit: usize,
    /// Shortest message, bytes, for which the receiver copies straight out of a buffer that lies
    /// in the sender's region. Below, two copies through the ring are faster than the round trip.
    pub direct_from: usize,
    /// Messages of one source that may be unmatched at this rank. At least what the fabric's
    /// set-up granted at the start, or that is never renewed until so many are consumed.
    pub credit_window: u32,
    /// What unmatched messages may take that were moved out of the landing rings because this rank
    /// waits for others of their sources, bytes: their own, and 128 a message. Then the sources
    /// have to wait.
    pub unmatched_bytes: u64,
    /// Events taken from the port in one call of [`progress`](crate::Engine::progress).
    pub poll_budget: u32,
    /// Polls without result after which a blocking receive becomes a posted request and starts
    /// to account for its waiting.
    pub direct_rounds: u32,
}

impl EngineConfig {
    /// [`EngineConfig::unmatched_bytes`] of whoever does not choose.
    pub const UNMATCHED_BYTES: u64 = 64 << 20;
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            eager_limit: 64 << 10,
            direct_from: 4 << 10,
            credit_window: 256,
            unmatched_bytes: EngineConfig::UNMATCHED_BYTES,
            poll_budget: 256,
            direct_rounds: 64,
        }
    }
}
