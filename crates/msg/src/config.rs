//! The limits of an engine.

use hikyaku_nic::by_rank::ByRank;

use crate::ways::LongMessages;

/// How an [`Engine`](crate::Engine) chooses protocols and bounds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Longest message, bytes, that is sent at once without asking the receiver. Unmatched messages
    /// up to this length stay in the receiver's landing ring.
    pub eager_limit: usize,
    /// How long messages whose bytes the receiver can reach are carried.
    pub long_messages: LongMessages,
    /// Messages of one source that may be unmatched at this rank. At least the fabric's initial
    /// grant; with less, the grant is not renewed until as many are consumed.
    pub credit_window: u32,
    /// Limit, bytes, of unmatched messages evacuated from the landing rings because this rank waits
    /// for others of their sources. Counts their own bytes and 128 a message. Beyond it the sources
    /// have to wait.
    pub unmatched_bytes: u64,
    /// Events taken from the port in one call of [`progress`](crate::Engine::progress).
    pub poll_budget: u32,
    /// Polls without result after which a blocking receive becomes a posted request and starts to
    /// account for its waiting.
    pub direct_rounds: u32,
}

impl EngineConfig {
    /// The default of [`EngineConfig::unmatched_bytes`].
    pub const UNMATCHED_BYTES: u64 = 64 << 20;
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            eager_limit: 64 << 10,
            long_messages: LongMessages::default(),
            credit_window: 256,
            unmatched_bytes: EngineConfig::UNMATCHED_BYTES,
            poll_budget: 256,
            direct_rounds: 64,
        }
    }
}

/// In a job of more ranks an engine keeps something only of those that it has had to do with. Fewer
/// are looked up faster. The tests of this crate have few ranks and take the other way.
const MANY_RANKS: u32 = if cfg!(test) { 1 } else { 1024 };

/// What an engine keeps of each rank.
pub(crate) fn of_each_rank<T>(ranks: u32, blank: impl Fn() -> T + Send + 'static) -> ByRank<T> {
    match ranks > MANY_RANKS {
        true => ByRank::few(ranks, move |_| blank()),
        false => Vec::from_iter((0..ranks).map(|_| blank())).into(),
    }
}
