//! `udp`'s multicast group: what goes to several ranks leaves its sender once, as the owner changes
//! of paper 001's baseline do.
//!
//! Each rank has a second socket, which has joined the job's group on the interface of its first.
//! A multicast datagram names its receivers, each with the number of the message in the stream to
//! that rank: the streams stay what they are, and retry from one to one.
//!
//! ```text
//!   streams to 1, 2, 3: the same letter is due ──► | 1: no. 7 | 2: no. 4 | 3: no. 9 | letter |
//!   rank 2: its stream takes no. 4, and says with its next datagram that it hears this sender
//!   rank 3, of which no datagram has said so: gets one of its own as well
//! ```
//!
//! So nothing has to be agreed on. Where the network carries no multicast, or a rank cannot join,
//! ranks never hear of each other by it and get datagrams of their own.
//!
//! Only letters go this way: who owns what, and whose copy is old. Contents do not, because
//! whoever joins on another host of the network can read what is multicast. On this one only
//! processes of the same user can join: the sockets share their port among those alone.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::sockets::SocketPlace;

/// A job's group at one rank.
#[derive(Debug)]
pub(super) struct MulticastGroup {
    pub(super) socket: UdpSocket,
    pub(super) address: SocketAddr,
    /// The key of its datagrams: other jobs may have chosen the same group.
    pub(super) key: u64,
}

impl MulticastGroup {
    /// Joins the group of the ranks at these places, on the interface of the rank at `own`.
    pub(super) fn join(places: &[SocketPlace], own: SocketAddr) -> io::Result<MulticastGroup> {
        let (SocketAddr::V4(own), Some(first)) = (own, places.first()) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // From the first rank's key, which they do not reveal.
        let [chosen, key] = [0, 1].map(|which: u8| {
            let mut hasher = DefaultHasher::new();
            (first.key, which).hash(&mut hasher);
            hasher.finish()
        });
        // The block for use within a site, and ports that no service has.
        let [.., a, b, c] = (chosen as u32).to_be_bytes();
        let port = 49152 + (chosen >> 32) as u16 % 16384;
        let address = SocketAddrV4::new(Ipv4Addr::new(239, a, b, c), port);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        set_socket_reuseport(&socket, true)?;
        bind(&socket, &address)?;
        let socket = UdpSocket::from(socket);
        socket.join_multicast_v4(address.ip(), own.ip())?;
        Ok(MulticastGroup { socket, address: address.into(), key })
    }
}
