//! The offers of libfabric on this machine, as plain data.

use std::fmt;
use std::net::IpAddr;

/// How an endpoint communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// One connection to one peer (`FI_EP_MSG`).
    Connection,
    /// Packets that may be lost (`FI_EP_DGRAM`).
    Datagram,
    /// Reliable messages to any peer; the provider manages connections (`FI_EP_RDM`).
    Reliable,
    /// Another kind of libfabric.
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
    /// The interface or device by which it reaches the network.
    pub domain: String,
    /// The address that it would send from, if it uses internet addresses.
    pub address: Option<IpAddr>,
    /// The kind of endpoint.
    pub kind: EndpointKind,
    /// Whether it grants everything that the transport needs: ordered messages, multi-receive
    /// buffers, remote reads and writes with data.
    pub fits: bool,
    /// Whether it claims atomic operations. Some providers claim them and have none:
    /// [`Endpoint::try_atomics`](crate::Endpoint::try_atomics) tries them.
    pub claims_atomics: bool,
    /// Whether it makes progress only within calls, without a thread or hardware of its own.
    pub manual_progress: bool,
    /// The longest message that is sent without a completion, bytes.
    pub inject: usize,
    /// The longest message, bytes.
    pub max_message: usize,
}
