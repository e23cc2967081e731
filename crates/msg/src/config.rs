//! The limits of an engine.

use hikyaku_nic::by_rank::ByRank;
use hikyaku_nic::fabric::{Command, Granularity, Port, PostError, Route};

use crate::ways::LongMessages;

/// How an [`Engine`](crate::Engine) chooses protocols and bounds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Longest message, bytes, that is sent at once without asking the receiver. Unmatched messages
    /// up to this length stay in the receiver's landing ring.
    pub eager_limit: usize,
    /// How long messages travel if the receiver can access the sender's memory.
    pub long_messages: LongMessages,
    /// The most unmatched messages of one source at this rank. At least the fabric's initial grant;
    /// with less, the grant is not renewed until as many are consumed.
    pub credit_window: u32,
    /// Limit, bytes, of unmatched messages that are evacuated from the landing rings because this
    /// rank waits for other messages of their sources. Counts their own bytes and 128 a message.
    /// Beyond it the sources have to wait.
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

/// In a job of more ranks, an engine keeps state only for ranks that it has communicated with. With
/// fewer ranks a full table is faster to look up. The tests of this crate use few ranks and the
/// sparse table.
const MANY_RANKS: u32 = if cfg!(test) { 1 } else { 1024 };

/// The engine's table of one `T` per rank.
pub(crate) fn of_each_rank<T>(ranks: u32, blank: impl Fn() -> T + Send + 'static) -> ByRank<T> {
    match ranks > MANY_RANKS {
        true => ByRank::few(ranks, move |_| blank()),
        false => Vec::from_iter((0..ranks).map(|_| blank())).into(),
    }
}

/// How this rank sends its messages to another rank. By default the receiver's table selects the
/// ring, and each packet has a status record.
///
/// The receiver decides where messages land. Paper 000 leaves two choices to the sender: whether a
/// message of several packets leaves one status record or one each (§3.3), and in the variant
/// without a table (Fig. 2) the landing ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderChoice {
    /// How many records an eager message leaves. It leaves several, whatever this says, if it is
    /// longer than its ring or if the ring is shared.
    pub granularity: Granularity,
    /// The ring in which it lands.
    pub route: Route,
}

impl SenderChoice {
    /// Posts a send as chosen. Each part of a message of several parts has records of its own.
    #[inline]
    pub(crate) fn post<P: Port>(
        self,
        port: &mut P,
        command: &Command<'_>,
    ) -> Result<usize, PostError> {
        if self == SenderChoice::default() {
            // The command is not copied: messages of 1 KiB pay for each store.
            return port.post(command);
        }
        let command = &Command { route: self.route, ..*command };
        let is_whole = command.offset == 0 && command.total == command.payload.len() as u64;
        if self.granularity == Granularity::PerMessage && is_whole {
            let one = Command { granularity: Granularity::PerMessage, ..*command };
            match port.post(&one) {
                Err(PostError::SharedRing { .. } | PostError::TooLarge { .. }) => {}
                posted => return posted,
            }
        }
        port.post(command)
    }
}
