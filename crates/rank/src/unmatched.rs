//! How much of the messages that nobody has asked for a rank keeps in its own memory.

use std::fmt;
use std::str::FromStr;

use hikyaku_msg::EngineConfig;
use thiserror::Error;

/// What a rank's unmatched messages may take that were moved out of the way of others: messages of
/// senders from whom the rank waits for something else. Beyond it those senders wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnmatchedLimit {
    bytes: u64,
}

/// A text that is no [`UnmatchedLimit`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no limit of unmatched messages: give mebibytes a rank, a whole number")]
pub struct NotALimit {
    given: String,
}

impl UnmatchedLimit {
    /// The variable that chooses it.
    pub const VARIABLE: &'static str = "HIKYAKU_UNMATCHED";

    /// What the environment chooses; an empty variable chooses nothing.
    ///
    /// # Errors
    /// The variable is no limit.
    pub fn from_environment(
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<UnmatchedLimit, NotALimit> {
        let value = value_of(UnmatchedLimit::VARIABLE).filter(|value| !value.is_empty());
        value.map_or(Ok(UnmatchedLimit::default()), |value| value.parse())
    }

    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }
}

impl Default for UnmatchedLimit {
    fn default() -> UnmatchedLimit {
        UnmatchedLimit { bytes: EngineConfig::UNMATCHED_BYTES }
    }
}

impl FromStr for UnmatchedLimit {
    type Err = NotALimit;

    fn from_str(given: &str) -> Result<UnmatchedLimit, NotALimit> {
        let bytes = given.parse().ok().and_then(|mebibytes: u64| mebibytes.checked_mul(1 << 20));
        bytes.map(|bytes| UnmatchedLimit { bytes }).ok_or(NotALimit { given: given.to_owned() })
    }
}

impl fmt::Display for UnmatchedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.bytes >> 20).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn mebibytes_are_read_and_anything_else_is_said() {
        let of = |value: &str| UnmatchedLimit::from_environment(|_| Some(value.to_owned()));
        assert_eq!(of("3").unwrap().bytes(), 3 << 20);
        assert_eq!((of("3").unwrap().to_string().as_str(), of("")), ("3", Ok(Default::default())));
        for bad in ["-1", "64M", "0x10", "99999999999999999999", "17592186044416"] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is no limit")), "{error}");
        }
    }
}
