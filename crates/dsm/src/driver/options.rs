//! What is chosen for shared variables: protocol, elements, behaviour when a rank dies; and what is
//! counted of them.

use std::fmt;
use std::str::FromStr;

use crate::Parts;
use thiserror::Error;

use super::faults::ProtocolFault;

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

/// What holds for all shared variables of a rank, unless they choose otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// The protocol of variables that do not choose one.
    pub protocol: Protocol,
    /// Faults are injected by this seed, for tests.
    pub faults: Option<u64>,
    /// With them the protocols have this fault, for tests of those tests.
    pub wrong: Option<ProtocolFault>,
}

/// The type of a shared variable's elements, as ranks compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its name: a Rust type, or a code of the caller's such as numpy's `<f8`.
    pub name: String,
    /// Its size, bytes.
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
    /// How the array is divided among sync variables.
    pub parts: Parts,
    /// Whether it can be acquired again after a rank died while it held it: the guard then says
    /// that its contents may be in the middle of an update (`mark` of [`crate::EntryResult`]).
    /// Otherwise it is lost, and acquiring it is an error from then on.
    pub recoverable: bool,
    /// Its protocol; `None`: the one of the world's environment ([`Protocol::VARIABLE`]), which is
    /// [`Protocol::Direct`] if that chooses none.
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
