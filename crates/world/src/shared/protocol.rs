//! The protocols that bring shared variables to ranks.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How a shared variable comes to a rank that acquires it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Remote atomics and remote reads: no rank serves requests.
    #[default]
    Direct,
    /// Paper 001's version for DIMMnet: owners serve requests, which land in their rings; owner
    /// change, invalidation and contents are remote stores.
    Fagus,
    /// Paper 001's baseline: everything is datagrams over UDP, acknowledged and handled by
    /// processors.
    Udp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Direct, Protocol::Fagus, Protocol::Udp];

    /// The environment variable that chooses the protocol of a world.
    pub const VARIABLE: &'static str = "HIKYAKU_SHARED";

    /// Its name: `direct`, `fagus`, `udp`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Direct => "direct",
            Protocol::Fagus => "fagus",
            Protocol::Udp => "udp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for an unknown protocol name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no protocol of shared variables: there are direct, fagus and udp")]
pub struct UnknownProtocol {
    /// The given name.
    pub given: String,
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Protocol, UnknownProtocol> {
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
        found.ok_or_else(|| UnknownProtocol { given: name.to_owned() })
    }
}

/// The protocol that the environment chooses; an empty variable chooses none.
///
/// # Errors
/// It names no protocol.
pub(crate) fn from_environment(
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<Protocol, UnknownProtocol> {
    let value = value_of(Protocol::VARIABLE).filter(|value| !value.is_empty());
    value.map_or(Ok(Protocol::default()), |value| value.parse())
}

/// What one rank has sent to others for shared variables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages to other ranks, which their processors have to handle; datagrams and
    /// acknowledgements, with `udp`.
    pub messages: u64,
    /// Operations on other ranks' memory, which need no processor of theirs.
    pub remote: u64,
    /// Bytes of all these and of contents.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_are_read_and_an_unknown_one_is_said() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
            assert_eq!(from_environment(|_| Some(protocol.name().into())), Ok(protocol));
        }
        assert_eq!(from_environment(|_| None), Ok(Protocol::Direct));
        assert_eq!(from_environment(|_| Some(String::new())), Ok(Protocol::Direct));
        let error = from_environment(|_| Some("tcp".into())).unwrap_err();
        assert_eq!(
            crate::InitError::Protocol { error }.to_string(),
            "HIKYAKU_SHARED: `tcp` is no protocol of shared variables: there are direct, fagus \
             and udp"
        );
    }
}
