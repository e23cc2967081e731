//! `udp`'s transport: one socket of this rank, and a link to each other rank. The socket is on
//! 127.0.0.1, or, in a job of several hosts, on the interface by which they are reached.
//!
//! Datagrams of other jobs and programs are dropped and counted: those from another address than
//! the rank that they name has announced, with another key than this rank's, or of another length
//! than they say. No datagram is sent to any other address.
//!
//! The paper multicasts owner changes. Here each rank gets its own datagram: each has to
//! acknowledge it anyhow, multicast on a loopback interface is not available everywhere, and what
//! is multicast can be read by every process that joins. `hikyaku simulate --what-if sharers` says
//! what it would save.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::link::{DatagramHead, HEAD_BYTES, MessageStream};
use hikyaku_nic::random::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most bytes of a message in one datagram. The paper does not say; the model of its baseline sends
/// this many.
pub(super) const MESSAGE_MOST: usize = (32 << 10) + 64;

/// With fault injection: datagrams in a thousand that are lost, duplicated, and overtaken.
const FAULTS: [u32; 3] = [100, 100, 100];

/// Timeout for a datagram to the socket that sent it.
const ITSELF_MOST: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Where a rank's socket is, and the key that others must send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct SocketPlace {
    pub(in super::super) address: SocketAddr,
    pub(in super::super) key: u64,
}

impl SocketPlace {
    /// As words for other ranks.
    pub(in super::super) fn to_words(self) -> [u64; 4] {
        let bits = match self.address.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        [(bits >> 64) as u64, bits as u64, self.address.port().into(), self.key]
    }

    /// From these words.
    pub(in super::super) fn from_words([high, low, port, key]: [u64; 4]) -> SocketPlace {
        let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        let address = SocketAddr::new(address.to_canonical(), port as u16);
        SocketPlace { address, key }
    }
}

/// The socket and what goes through it.
#[derive(Debug)]
pub(super) struct Sockets {
    socket: UdpSocket,
    rank: u32,
    /// The key that other ranks must send.
    key: u64,
    peers: RefCell<Vec<SocketPeer>>,
    faults: RefCell<Option<DatagramFaults>>,
    ignored: RefCell<u64>,
    /// The buffer for received datagrams.
    buffer: RefCell<Vec<u8>>,
    /// System calls that polled for a datagram.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
}

/// Another rank.
#[derive(Debug)]
struct SocketPeer {
    address: SocketAddr,
    key: u64,
    link: MessageStream,
}

/// Injects faults into outgoing datagrams, for tests.
#[derive(Debug)]
struct DatagramFaults {
    random: Random,
    /// Datagrams that others overtake.
    late: VecDeque<(Vec<u8>, SocketAddr)>,
}

impl DatagramFaults {
    /// The datagrams to send in place of this one.
    fn spoil(&mut self, datagram: Vec<u8>, to: SocketAddr) -> Vec<(Vec<u8>, SocketAddr)> {
        let mut out = Vec::new();
        if self.random.chance(FAULTS[2]) {
            self.late.push_back((datagram, to));
            return out;
        }
        if !self.random.chance(FAULTS[0]) {
            if self.random.chance(FAULTS[1]) {
                out.push((datagram.clone(), to));
            }
            out.push((datagram, to));
        }
        if self.random.chance(500) {
            out.extend(self.late.pop_front());
        }
        out
    }
}

/// Sends a datagram to the socket itself. Without this check, ranks of a container whose loopback
/// interface is down would wait for each other for ever.
fn reaches_itself(socket: &UdpSocket) -> io::Result<()> {
    let down = |error: io::Error| {
        let why = "the loopback interface does not carry it; bring it up (ip link set lo up)";
        io::Error::new(error.kind(), format!("{error}: {why}"))
    };
    socket.send_to(&[], socket.local_addr()?).map_err(down)?;
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&ITSELF_MOST))?;
    socket.recv_from(&mut [0]).map(drop).map_err(down)
}

impl Sockets {
    /// A socket of this rank at an address of its host. `faults`: the seed by which datagrams are
    /// lost, duplicated and overtaken.
    pub(super) fn open(rank: u32, at: IpAddr, faults: Option<u64>) -> io::Result<Sockets> {
        let socket = UdpSocket::bind(SocketAddr::new(at, 0))?;
        socket.set_nonblocking(true)?;
        reaches_itself(&socket)?;
        // Other processes of the machine must not guess it: the hasher's keys are random.
        let key = RandomState::new().hash_one(rank);
        let random = |seed| Random::stream(seed, u64::from(rank));
        let faults =
            faults.map(|seed| DatagramFaults { random: random(seed), late: VecDeque::new() });
        let (peers, faults) = (RefCell::default(), RefCell::new(faults));
        let buffer = RefCell::new(vec![0; MESSAGE_MOST + HEAD_BYTES + 1]);
        Ok(Sockets {
            socket,
            rank,
            key,
            peers,
            faults,
            ignored: RefCell::default(),
            buffer,
            #[cfg(test)]
            looks: std::cell::Cell::default(),
        })
    }

    /// Its place, which the others have to know.
    pub(super) fn place(&self) -> io::Result<SocketPlace> {
        Ok(SocketPlace { address: self.socket.local_addr()?, key: self.key })
    }

    /// Sets the addresses of the others, by rank. Only the first call counts: a rank's socket
    /// stays.
    pub(super) fn connect(&self, places: &[SocketPlace]) {
        let mut peers = self.peers.borrow_mut();
        if peers.is_empty() {
            let peer = |&SocketPlace { address, key }: &_| SocketPeer {
                address,
                key,
                link: MessageStream::default(),
            };
            *peers = places.iter().map(peer).collect();
        }
    }

    /// Datagrams that were dropped as not of this job.
    #[cfg(test)]
    pub(super) fn ignored(&self) -> u64 {
        *self.ignored.borrow()
    }

    /// Queues a message, in order with others to the same rank.
    pub(super) fn send(&self, to: u32, message: Vec<u8>) {
        let mut peers = self.peers.borrow_mut();
        if let Some(peer) = peers.get_mut(to as usize) {
            peer.link.send(message);
        }
    }

    /// A rank is gone.
    pub(super) fn close(&self, rank: u32) {
        let mut peers = self.peers.borrow_mut();
        if let Some(peer) = peers.get_mut(rank as usize) {
            peer.link.close();
        }
    }

    /// Whether every message has been acknowledged.
    pub(super) fn is_quiet(&self) -> bool {
        self.peers.borrow().iter().all(|peer| peer.link.is_quiet())
    }

    /// Sends the datagrams that are due at `now`, nanoseconds; answers how many, and their bytes.
    pub(super) fn pump(&self, now: u64) -> (u64, u64) {
        let (mut datagrams, mut bytes) = (0, 0);
        let mut peers = self.peers.borrow_mut();
        for peer in peers.iter_mut() {
            while let Some((number, expected, message)) = peer.link.poll(now) {
                let (key, from, length) = (peer.key, self.rank, message.len() as u32);
                let head = DatagramHead { key, from, number, expected, length };
                let datagram = [&head.encode()[..], message].concat();
                datagrams += 1;
                bytes += datagram.len() as u64;
                self.emit(datagram, peer.address);
            }
        }
        (datagrams, bytes)
    }

    fn emit(&self, datagram: Vec<u8>, to: SocketAddr) {
        let mut faults = self.faults.borrow_mut();
        let out = match faults.as_mut() {
            Some(faults) => faults.spoil(datagram, to),
            None => vec![(datagram, to)],
        };
        for (datagram, to) in out {
            // A datagram that cannot be sent now is lost, as any may be, and retried.
            let _ = self.socket.send_to(&datagram, to);
        }
    }

    /// Receives datagrams; `take` gets whole messages in order, with their senders.
    pub(super) fn take_in(&self, mut take: impl FnMut(u32, Vec<u8>)) {
        let mut buffer = self.buffer.borrow_mut();
        loop {
            #[cfg(test)]
            self.looks.set(self.looks.get() + 1);
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => self.arrive(&buffer[..length], from, &mut take),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // An earlier datagram found no socket: its rank is gone, which is reported
                // elsewhere.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn arrive(&self, datagram: &[u8], from: SocketAddr, take: &mut impl FnMut(u32, Vec<u8>)) {
        let mut peers = self.peers.borrow_mut();
        let known = DatagramHead::decode(datagram).filter(|(head, message)| {
            let peer = peers.get(head.from as usize);
            let sender = peer.is_some_and(|peer| peer.address == from);
            sender && head.key == self.key && message.len() <= MESSAGE_MOST
        });
        let Some((head, message)) = known else {
            *self.ignored.borrow_mut() += 1;
            return;
        };
        let link = &mut peers[head.from as usize].link;
        link.arrive(head.number, head.expected, message, |message| take(head.from, message));
    }

    /// Sleeps until a datagram has arrived, at most this many nanoseconds.
    pub(super) fn sleep(&self, most: u64) {
        let limit = Timespec { tv_sec: 0, tv_nsec: most.min(999_999_999) as i64 };
        let mut files = [PollFd::new(&self.socket, PollFlags::IN)];
        // A signal ends it too: the caller polls again.
        let _ = poll(&mut files, Some(&limit));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn places_read_as_written() {
        for address in ["10.221.0.2:7", "[2001:db8::1]:65535", "0.0.0.0:0"] {
            let place = SocketPlace { address: address.parse().unwrap(), key: u64::MAX - 5 };
            assert_eq!(SocketPlace::from_words(place.to_words()), place);
        }
    }

    fn pair(faults: Option<u64>) -> (Sockets, Sockets) {
        let open = |rank| Sockets::open(rank, HERE, faults).unwrap();
        let (a, b) = (open(0), open(1));
        let places = [a.place().unwrap(), b.place().unwrap()];
        a.connect(&places);
        b.connect(&places);
        (a, b)
    }

    fn heard(of: &Sockets) -> Vec<(u32, Vec<u8>)> {
        let mut heard = Vec::new();
        of.take_in(|from, message| heard.push((from, message)));
        heard
    }

    #[test]
    fn messages_come_and_are_acknowledged() {
        let (a, b) = pair(None);
        a.send(1, vec![7; 30_000]);
        assert!(!a.is_quiet());
        assert_eq!(a.pump(1), (1, 30_024));
        b.sleep(1_000_000_000);
        assert_eq!(heard(&b), [(0, vec![7; 30_000])]);
        assert_eq!(b.pump(1), (1, 24));
        a.sleep(1_000_000_000);
        assert!(heard(&a).is_empty() && a.is_quiet());
    }

    #[test]
    fn datagrams_of_strangers_are_ignored_and_counted() {
        let (a, b) = pair(None);
        let to = b.socket.local_addr().unwrap();
        let head = DatagramHead { key: b.key, from: 0, number: 1, expected: 1, length: 1 };
        let datagram = |head: DatagramHead| [&head.encode()[..], &[9]].concat();
        // The right bytes from the wrong port.
        let stranger = UdpSocket::bind(SocketAddr::new(HERE, 0)).unwrap();
        stranger.send_to(&datagram(head), to).unwrap();
        // From the right port: another key, length, or rank; no such rank, no bytes, too many.
        let wrong = [
            datagram(DatagramHead { key: b.key ^ 1, ..head }),
            datagram(DatagramHead { length: 2, ..head }),
            datagram(DatagramHead { from: 1, ..head }),
            datagram(DatagramHead { from: 99, ..head }),
            Vec::new(),
            vec![0; 60_000],
        ];
        for datagram in &wrong {
            a.socket.send_to(datagram, to).unwrap();
        }
        a.socket.send_to(&datagram(head), to).unwrap();
        let mut all = Vec::new();
        while all.is_empty() {
            b.sleep(1_000_000_000);
            all.extend(heard(&b));
        }
        assert_eq!(all, [(0, vec![9])]);
        assert_eq!(b.ignored(), 1 + wrong.len() as u64);
    }

    #[test]
    fn what_is_lost_doubled_and_overtaken_comes_all_the_same() {
        for seed in 1..6 {
            println!("seed {seed}");
            let (a, b) = pair(Some(seed));
            let mut all = Vec::new();
            (0..100u8).for_each(|number| a.send(1, vec![number; 500]));
            let mut now = 1;
            while all.len() < 100 || !a.is_quiet() {
                now += 1_000_000;
                a.pump(now);
                all.extend(heard(&b).into_iter().map(|(_, message)| message[0]));
                b.pump(now);
                heard(&a);
            }
            assert_eq!(all, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_rank_that_is_gone_is_not_waited_for() {
        let (a, b) = pair(None);
        drop(b);
        a.send(1, vec![1]);
        a.pump(1);
        assert!(heard(&a).is_empty() && !a.is_quiet());
        a.close(1);
        assert!(a.is_quiet());
        assert_eq!(a.pump(u64::MAX / 2), (0, 0));
    }
}
