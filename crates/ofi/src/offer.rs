//! What libfabric offers on this machine, as plain data that a choice can be made from.

use std::fmt;
use std::net::IpAddr;

/// How an endpoint talks to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// One connection to one peer (`FI_EP_MSG`).
    Connection,
    /// Packets that may be lost (`FI_EP_DGRAM`).
    Datagram,
    /// Reliable messages to any peer, without connections to look after (`FI_EP_RDM`).
    Reliable,
    /// A kind that libfabric has and we do not know.
    Other,
}

impl fmt::Display for EndpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "msg",
            Self::Datagram => "dgram",
            Self::Reliable => "rdm",
            Self::Other => "other",
        })
    }
}

/// One endpoint that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The provider by libfabric's name, with its layers: `tcp`, `udp;ofi_rxd`.
    pub provider: String,
    /// What it reaches the network by: an interface, a device.
    pub domain: String,
    /// The address it would send from, if it goes by addresses of the internet.
    pub address: Option<IpAddr>,
    /// How it talks.
    pub kind: EndpointKind,
    /// Whether it grants all that the transport asks for: ordered messages, multi-receive
    /// buffers, remote reads and writes with data.
    pub fits: bool,
    /// Whether it claims atomic operations. Some claim them and have none:
    /// [`Endpoint::try_atomics`](crate::Endpoint::try_atomics) tells.
    pub claims_atomics: bool,
    /// Whether it goes on only within calls, without a thread or hardware of its own.
    pub manual_progress: bool,
    /// Bytes of a message that are sent without a completion.
    pub inject: usize,
    /// Bytes of the longest message.
    pub max_message: usize,
}
