//! Connections between ranks of different hosts, by which each detects the end of the other.
//!
//! Providers report no deaths, and other launchers report none to ranks. But a kernel closes the
//! connections of a process that ends, however it ends, and probes whether the other host still
//! answers (keep-alive).
//!
//! ```text
//!   listen, put the address ─── fence ─── connect to partners with higher ranks ┐
//!                                         accept those with lower ranks         ┴─ stop listening
//! ```
//!
//! A connection begins with the job's key and the rank of its maker, so that a stranger takes
//! nobody's place. Afterwards no port is open.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::time::{Duration, Instant};

use hikyaku_nic::fabric::{Name, Rank};
use hikyaku_shm::MOST_CONNECTIONS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use thiserror::Error;

use super::launcher::LauncherError;

/// The largest job in which each rank watches all ranks of other hosts.
const ALL: usize = 256;

/// How long the partners may take to connect. All have passed a fence just before.
const LIMIT: Duration = Duration::from_secs(20);

/// The interval of probes, seconds. The last one may be this much early.
const PROBES: Duration = Duration::from_secs(1);

/// The maximum number of connections whose makers have not proven themselves.
const MOST_GUESTS: usize = 64;

/// Bytes of the key, and of the message that begins a connection.
const KEY: usize = 16;
const HELLO: usize = KEY + size_of::<Rank>();

/// The silence after which another host counts as dead, if another launcher has started the job.
/// Zero: ranks of other hosts are not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostTimeout(Duration);

/// A text that is not a [`HostTimeout`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no time limit: give seconds, 1 or more, or 0 for none")]
pub(crate) struct NotATimeout {
    given: String,
}

impl HostTimeout {
    /// The variable that sets it.
    pub(crate) const VARIABLE: &'static str = "HIKYAKU_HOST_TIMEOUT";
}

impl Default for HostTimeout {
    fn default() -> HostTimeout {
        HostTimeout(Duration::from_secs(5))
    }
}

impl FromStr for HostTimeout {
    type Err = NotATimeout;

    fn from_str(given: &str) -> Result<HostTimeout, NotATimeout> {
        let seconds = given.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
        let may_be = |it: &Duration| *it == Duration::ZERO || *it >= PROBES;
        let seconds = seconds.filter(may_be).map(HostTimeout);
        seconds.ok_or_else(|| NotATimeout { given: given.to_owned() })
    }
}

/// The partners of `rank`: the ranks of other hosts that it watches, and that watch it. `of` gives
/// the host of each rank.
///
/// In a small job these are all. In a large one they are those that have the same place on their
/// host, modulo the number of ranks of the smallest host: so a rank of each host watches each rank
/// of the others. If these are too many as well, nobody watches.
fn partners(of: &[u32], rank: Rank) -> Vec<Rank> {
    let mut counts = BTreeMap::new();
    let next = |host: &u32| {
        let count: &mut u32 = counts.entry(*host).or_default();
        *count += 1;
        *count - 1
    };
    let places: Vec<u32> = of.iter().map(next).collect();
    let least = counts.values().copied().min().unwrap_or(1);
    let groups = if of.len() <= ALL { 1 } else { least };
    let group = |rank: Rank| places[rank as usize] % groups;
    // The first group is the largest.
    if places.iter().filter(|place| **place % groups == 0).count() > MOST_CONNECTIONS {
        return Vec::new();
    }
    let is_partner =
        |other: &Rank| of[*other as usize] != of[rank as usize] && group(*other) == group(rank);
    (0..of.len() as Rank).filter(is_partner).collect()
}

/// A rank's part in making the connections.
#[derive(Debug)]
pub(super) struct Meeting {
    own: Rank,
    partners: Vec<Rank>,
    /// `None`: no other rank can connect to this one.
    listener: Option<TcpListener>,
    key: [u8; KEY],
    timeout: Duration,
}

impl Meeting {
    /// Listens at `interface`, the address from which messages are sent, or, if the provider has
    /// none, at the address that leads to other networks.
    pub(super) fn open(
        own: Rank,
        of: &[u32],
        key: [u8; KEY],
        (interface, timeout): (Option<IpAddr>, HostTimeout),
    ) -> Meeting {
        let HostTimeout(timeout) = timeout;
        let partners = if timeout.is_zero() { Vec::new() } else { partners(of, own) };
        let mut meeting = Meeting { own, partners, listener: None, key, timeout };
        if meeting.partners.iter().any(|partner| *partner < own) {
            let address = interface.or_else(outgoing_address);
            meeting.listener = address.and_then(|it| TcpListener::bind((it, 0)).ok());
        }
        meeting
    }

    /// The address at which this rank listens, in words.
    pub(super) fn address(&self) -> String {
        let address = self.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        address.map_or_else(|| "none".to_owned(), |address| address.to_string())
    }

    /// Makes the connections, once all ranks have published their addresses. `address` returns
    /// that of a rank, and `host` the name of its host.
    pub(super) fn connect(
        self,
        mut address: impl FnMut(Rank) -> Result<String, LauncherError>,
        host: impl Fn(Rank) -> Name,
    ) -> Result<Vec<(Rank, OwnedFd)>, LauncherError> {
        let deadline = Instant::now() + LIMIT;
        let failed = |rank, address: &str, error: io::Error| LauncherError::Unwatched {
            rank,
            place: host(rank).as_place(),
            address: address.to_owned(),
            reason: error.to_string(),
        };
        let mut streams = Vec::new();
        for rank in self.partners.iter().copied().filter(|rank| *rank > self.own) {
            let address = address(rank)?;
            let Ok(to) = address.parse::<SocketAddr>() else { continue };
            let left = deadline.saturating_duration_since(Instant::now()).max(PROBES);
            let stream = TcpStream::connect_timeout(&to, left).and_then(|mut stream| {
                stream.write_all(&[&self.key[..], &self.own.to_le_bytes()].concat())?;
                Ok(stream)
            });
            streams.push((rank, stream.map_err(|error| failed(rank, &address, error))?));
        }
        if let Some(listener) = &self.listener {
            let lower = self.partners.iter().copied().filter(|rank| *rank < self.own).collect();
            let accepted = accept(listener, lower, &self.key, deadline);
            streams.extend(accepted.map_err(|(rank, error)| failed(rank, &self.address(), error))?);
        }
        let prepared = streams.into_iter().map(|(rank, stream)| {
            let prepared = prepare(&stream, self.timeout);
            prepared.map_err(|error| failed(rank, &self.address(), error))?;
            Ok((rank, OwnedFd::from(stream)))
        });
        prepared.collect()
    }
}

/// The address from which this host would send to another network. Nothing is sent.
fn outgoing_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address of documents (RFC 5737), which is routed like any other.
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Probes the other host each second, and fails after `timeout` without an answer.
fn prepare(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    // The limit is checked at a probe, so it must be over at the last one in time.
    let limit = timeout.saturating_sub(PROBES / 2).as_millis();
    sockopt::set_tcp_user_timeout(stream, u32::try_from(limit).unwrap_or(u32::MAX))?;
    sockopt::set_tcp_keepidle(stream, PROBES)?;
    sockopt::set_tcp_keepintvl(stream, PROBES)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

/// A connection whose maker has not proven itself.
struct Guest {
    stream: TcpStream,
    came: Vec<u8>,
}

impl Guest {
    /// Reads the available bytes. Returns the rank once it has proven itself; fails if the maker
    /// cannot be one.
    fn read(&mut self, key: &[u8; KEY]) -> io::Result<Option<Rank>> {
        let mut bytes = [0; HELLO];
        match self.stream.read(&mut bytes[self.came.len()..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.came.extend_from_slice(&bytes[self.came.len()..][..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        let Some((said, rank)) = self.came.split_at_checked(KEY) else { return Ok(None) };
        let Ok(rank) = rank.try_into() else { return Ok(None) };
        // In constant time, so that a stranger cannot find the key byte by byte.
        let differ = said.iter().zip(key).fold(0, |all, (said, byte)| all | said ^ byte);
        match differ {
            0 => Ok(Some(Rank::from_le_bytes(rank))),
            _ => Err(ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Accepts the connections of these ranks; or returns one that has not connected, and the reason.
fn accept(
    listener: &TcpListener,
    mut missing: Vec<Rank>,
    key: &[u8; KEY],
    deadline: Instant,
) -> Result<Vec<(Rank, TcpStream)>, (Rank, io::Error)> {
    let (mut streams, mut guests) = (Vec::new(), Vec::<Guest>::new());
    while let Some(&first) = missing.first() {
        let failed = |error| (first, error);
        wait_for(listener, &guests, deadline).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        while let Ok((stream, _)) = listener.accept() {
            // The oldest guest may be a stranger that says nothing.
            if guests.len() >= MOST_GUESTS + missing.len() {
                guests.remove(0);
            }
            stream.set_nonblocking(true).map_err(failed)?;
            guests.push(Guest { stream, came: Vec::new() });
        }
        for mut guest in std::mem::take(&mut guests) {
            match guest.read(key) {
                Ok(None) => guests.push(guest),
                Ok(Some(rank)) if missing.contains(&rank) => {
                    missing.retain(|other| *other != rank);
                    streams.push((rank, guest.stream));
                }
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }
    Ok(streams)
}

/// Waits until a connection or bytes of one have arrived.
fn wait_for(listener: &TcpListener, guests: &[Guest], deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    let left = Timespec::try_from(left).ok();
    let streams = guests.iter().map(|guest| PollFd::new(&guest.stream, PollFlags::IN));
    let mut all: Vec<PollFd<'_>> =
        [PollFd::new(listener, PollFlags::IN)].into_iter().chain(streams).collect();
    // A signal ends the wait early, which does no harm.
    let _ = poll(&mut all, left.as_ref());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use super::*;

    #[test]
    fn each_rank_is_watched_by_one_of_each_other_host() {
        for (hosts, each) in [(2, 1), (2, 2), (4, 64), (5, 64), (100, 64), (2, 128), (2, 129)] {
            // The last host has fewer ranks.
            let ranks = hosts * each - each / 2;
            let of: Vec<u32> = (0..ranks).map(|rank| rank / each).collect();
            for rank in [0, 1, each - 1, ranks - 1].into_iter().filter(|rank| *rank < ranks) {
                let all = partners(&of, rank);
                let about = format!("{hosts} x {each}, rank {rank}: {all:?}");
                assert!(all.len() <= MOST_CONNECTIONS, "{about}");
                for host in (0..hosts).filter(|host| *host != of[rank as usize]) {
                    assert!(all.iter().any(|other| of[*other as usize] == host), "{about}");
                }
                for other in all {
                    assert!(partners(&of, other).contains(&rank), "{about}: {other}");
                }
                if ranks as usize <= ALL {
                    let far = of.iter().filter(|host| **host != of[rank as usize]).count();
                    assert_eq!(partners(&of, rank).len(), far, "{about}");
                }
            }
        }
    }

    #[test]
    fn too_many_hosts_are_not_watched() {
        let of: Vec<u32> = (0..2 * MOST_CONNECTIONS as u32).collect();
        assert_eq!(partners(&of, 7), []);
    }

    #[test]
    fn a_timeout_is_read_and_anything_else_is_said() {
        for (text, seconds) in [("0", 0.0), ("1", 1.0), ("2.5", 2.5), ("60", 60.0)] {
            assert_eq!(text.parse(), Ok(HostTimeout(Duration::from_secs_f64(seconds))));
        }
        for bad in ["", "-1", "0.5", "5s", "nan", "1e30"] {
            let error = bad.parse::<HostTimeout>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is no time limit")), "{error}");
        }
    }

    /// The connections of two ranks on two hosts, and what `beside` does to the second before.
    fn connected(
        of_first: [u8; KEY],
        beside: impl FnOnce(SocketAddr),
    ) -> [Result<Vec<(Rank, OwnedFd)>, LauncherError>; 2] {
        let open = |rank, key| {
            let at = (Some(Ipv4Addr::LOCALHOST.into()), HostTimeout::default());
            Meeting::open(rank, &[0, 1], key, at)
        };
        let (first, second) = (open(0, of_first), open(1, [7; KEY]));
        assert_eq!(first.address(), "none", "no rank connects to the first");
        let address = second.address();
        beside(address.parse().unwrap());
        let name = |_| Name::NONE;
        thread::scope(|scope| {
            let first = scope.spawn(|| first.connect(|_| Ok(address.clone()), name));
            let second = second.connect(|_| panic!("no rank is higher"), name);
            [first.join().unwrap(), second]
        })
    }

    #[test]
    fn ranks_connect_and_strangers_take_no_place() {
        let mut strangers = Vec::new();
        let [first, second] = connected([7; KEY], |address| {
            for said in [&[b'x'; 1000][..], &[7; KEY], &[]] {
                let mut stranger = TcpStream::connect(address).unwrap();
                stranger.write_all(said).unwrap();
                strangers.push(stranger);
            }
            let mut other = TcpStream::connect(address).unwrap();
            other.write_all(&[&[8; KEY][..], &0_u32.to_le_bytes()].concat()).unwrap();
            strangers.push(other);
        });
        let ranks = |made: Result<Vec<(Rank, OwnedFd)>, LauncherError>| {
            made.unwrap().into_iter().map(|(rank, _)| rank).collect::<Vec<_>>()
        };
        assert_eq!((ranks(first), ranks(second)), (vec![1], vec![0]));
    }

    #[test]
    fn a_rank_that_is_gone_is_named() {
        let at = (Some(Ipv4Addr::LOCALHOST.into()), HostTimeout::default());
        let first = Meeting::open(0, &[0, 1], [7; KEY], at);
        let gone = Meeting::open(1, &[0, 1], [7; KEY], at).address();
        let error =
            first.connect(|_| Ok(gone.clone()), |_| Name::new("b")).unwrap_err().to_string();
        let begin = format!("cannot connect to rank 1 on host b at {gone}");
        assert!(error.starts_with(&begin), "{error}");
    }
}
