//! The options of shared variables (protocol, elements, behaviour when a rank dies) and their
//! counters.

use std::fmt;
use std::str::FromStr;

use crate::Parts;
use thiserror::Error;

use super::faults::ProtocolFault;

/// The protocol that brings a shared variable to a rank that acquires it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Remote atomics and remote reads: no rank serves requests.
    #[default]
    Direct,
    /// Paper 001's version for DIMMnet: owners serve requests, which land in their rings. Owner
    /// change, invalidation and contents are remote stores.
    Fagus,
    /// Paper 001's baseline: all traffic is datagrams over UDP, acknowledged and handled by
    /// processors.
    Udp,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 3] = [Protocol::Direct, Protocol::Fagus, Protocol::Udp];

    /// The environment variable that chooses the protocol of a world.
    pub const VARIABLE: &'static str = "HIKYAKU_SHARED";

    /// The protocol's name: `direct`, `fagus`, `udp`.
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

/// The traffic of one rank to other ranks for shared variables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages to other ranks, handled by their processors. With `udp`, datagrams and
    /// acknowledgements.
    pub messages: u64,
    /// Operations on other ranks' memory, which need no processor there.
    pub remote: u64,
    /// The bytes of all these operations and of contents.
    pub bytes: u64,
}

/// The defaults for all shared variables of a rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// The protocol of variables that do not choose one.
    pub protocol: Protocol,
    /// The seed for fault injection, for tests; `None` for no faults.
    pub faults: Option<u64>,
    /// A fault to inject into the protocols, to test the tests themselves. Needs `faults`.
    pub wrong: Option<ProtocolFault>,
}

/// The type of a shared variable's elements, as compared between ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The type's name: a Rust type, or a code of the caller such as numpy's `<f8`.
    pub name: String,
    /// The size of an element in bytes.
    pub bytes: u32,
}

impl Element {
    /// The element type `T`.
    pub fn of<T>() -> Element {
        let name = std::any::type_name::<T>().to_owned();
        Element { name, bytes: u32::try_from(size_of::<T>()).unwrap_or(u32::MAX) }
    }
}

/// The options of a shared variable, beyond name, shape and type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedOptions {
    /// The division of the array among sync variables.
    pub parts: Parts,
    /// Whether it can be acquired again after a rank died while it held it. The guard then reports
    /// that its contents may be in the middle of an update (`mark` of [`crate::EntryResult`]).
    /// Otherwise the variable is lost, and every later acquisition is an error.
    pub recoverable: bool,
    /// Its protocol. `None` for the protocol that the world's environment chooses
    /// ([`Protocol::VARIABLE`]), or [`Protocol::Direct`] if it chooses none.
    pub protocol: Option<Protocol>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_rank::from_environment;

    use super::*;

    #[test]
    fn names_are_read_and_an_unknown_one_is_said() {
        let of = |value: Option<&str>| {
            from_environment::<Protocol>(Protocol::VARIABLE, |_| value.map(str::to_owned))
        };
        for protocol in Protocol::ALL {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
            assert_eq!(of(Some(protocol.name())), Ok(protocol));
        }
        assert_eq!(of(None), Ok(Protocol::Direct));
        assert_eq!(of(Some("")), Ok(Protocol::Direct));
        let error = of(Some("tcp")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`tcp` is no protocol of shared variables: there are direct, fagus and udp"
        );
    }
}
