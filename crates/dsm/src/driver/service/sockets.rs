//! `udp`'s transport: one socket of this rank, and a link to each other rank. The socket is on
//! 127.0.0.1. In a job of several hosts, it is on the interface by which they are reached.
//!
//! Datagrams of other jobs and programs are dropped and counted. A datagram is dropped if it comes
//! from another address than its rank has announced, if its key is not this rank's, or if its
//! length is wrong. No datagram is sent to an address outside the job.
//!
//! A letter that is due to several ranks at once, such as an owner change, leaves in one datagram
//! ([`MulticastGroup`]). Each receiver acknowledges it to its sender. A receiver that does not gets
//! the letter again alone: streams are between two ranks.
//!
//! In virtual time the streams are the same. Their datagrams take the time of the simulated network
//! and of the processors at both ends ([`DatagramCarrier::Network`]). A letter to several ranks
//! leaves in one datagram if that network copies messages, and one by one otherwise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};

use hikyaku_nic::random::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::LETTER;
use crate::link::{DatagramHead, HEAD_BYTES, MessageStream, MulticastDatagram, MulticastReceiver};

/// The maximum size of a message in one datagram. The paper gives no number. The model of its
/// baseline sends this many bytes.
pub(super) const MESSAGE_MOST: usize = (32 << 10) + 64;

/// With fault injection: lost, duplicated and overtaken datagrams per thousand.
const FAULTS: [u32; 3] = [100, 100, 100];

/// The timeout for a datagram to the socket that sent it.
const ITSELF_MOST: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The address of a rank's socket, and the key that others must send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct SocketPlace {
    pub(in super::super) address: SocketAddr,
    pub(in super::super) key: u64,
}

impl SocketPlace {
    /// Encodes the place as words for other ranks.
    pub(in super::super) fn to_words(self) -> [u64; 4] {
        let bits = match self.address.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        [(bits >> 64) as u64, bits as u64, self.address.port().into(), self.key]
    }

    /// Decodes these words.
    pub(in super::super) fn from_words([high, low, port, key]: [u64; 4]) -> SocketPlace {
        let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        let address = SocketAddr::new(address.to_canonical(), port as u16);
        SocketPlace { address, key }
    }
}

/// The keys of datagrams in virtual time: for datagrams to one rank, and to several.
const VIRTUAL_KEYS: [u64; 2] = [0, 1];

/// The carrier of a rank's datagrams.
#[derive(Debug)]
enum DatagramCarrier {
    /// The operating system.
    System {
        socket: UdpSocket,
        /// The ranks' group. `None` if it could not be joined.
        group: RefCell<Option<MulticastGroup>>,
        faults: RefCell<Option<DatagramFaults>>,
    },
    /// The simulated network of a job in virtual time. A rank's address is the unspecified address
    /// with its number as the port.
    Network {
        /// Whether the network copies a datagram to several ranks.
        copies: bool,
        /// Datagrams that are due, with their receivers.
        due: RefCell<Vec<DueDatagram>>,
    },
}

/// A datagram and its receivers.
pub(super) type DueDatagram = (Vec<u32>, Vec<u8>);

/// The socket of a rank, and the streams over it.
#[derive(Debug)]
pub(super) struct Sockets {
    carrier: DatagramCarrier,
    rank: u32,
    /// The key that other ranks must send.
    key: u64,
    peers: RefCell<Vec<SocketPeer>>,
    ignored: RefCell<u64>,
    /// The buffer for received datagrams.
    buffer: RefCell<Vec<u8>>,
    /// System calls that polled for a datagram.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
}

/// The state of the connection to another rank.
#[derive(Debug)]
struct SocketPeer {
    address: SocketAddr,
    key: u64,
    link: MessageStream,
    /// The number of the last message sent to it.
    sent: u32,
    /// Whether its last datagrams have said that this rank's multicasts reach it.
    hears: bool,
    /// Whether this rank has received a multicast of it.
    heard: bool,
}

/// A letter that is due to several ranks.
#[derive(Debug)]
struct DueLetter {
    letter: Vec<u8>,
    to: Vec<MulticastReceiver>,
}

/// Injects faults into outgoing datagrams, for tests.
#[derive(Debug)]
struct DatagramFaults {
    random: Random,
    /// Datagrams that later ones overtake.
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
    /// Opens a socket of this rank at an address of its host. `faults`: the seed for lost,
    /// duplicated and overtaken datagrams.
    pub(super) fn open(rank: u32, at: IpAddr, faults: Option<u64>) -> io::Result<Sockets> {
        let socket = UdpSocket::bind(SocketAddr::new(at, 0))?;
        socket.set_nonblocking(true)?;
        reaches_itself(&socket)?;
        // Other processes of the machine must not guess the key: the hasher's keys are random.
        let key = RandomState::new().hash_one(rank);
        let random = |seed| Random::stream(seed, u64::from(rank));
        let faults =
            faults.map(|seed| DatagramFaults { random: random(seed), late: VecDeque::new() });
        let (group, faults) = (RefCell::default(), RefCell::new(faults));
        Ok(Sockets::over(DatagramCarrier::System { socket, group, faults }, rank, key))
    }

    /// The same in virtual time. `copies`: the network copies a datagram to several ranks.
    pub(super) fn in_virtual_time(rank: u32, copies: bool) -> Sockets {
        let carrier = DatagramCarrier::Network { copies, due: RefCell::default() };
        Sockets::over(carrier, rank, VIRTUAL_KEYS[0])
    }

    fn over(carrier: DatagramCarrier, rank: u32, key: u64) -> Sockets {
        let buffer = match carrier {
            DatagramCarrier::System { .. } => MESSAGE_MOST + HEAD_BYTES + 1,
            DatagramCarrier::Network { .. } => 0,
        };
        Sockets {
            carrier,
            rank,
            key,
            peers: RefCell::default(),
            ignored: RefCell::default(),
            buffer: RefCell::new(vec![0; buffer]),
            #[cfg(test)]
            looks: std::cell::Cell::default(),
        }
    }

    /// The socket's place, for the other ranks.
    pub(super) fn place(&self) -> io::Result<SocketPlace> {
        let address = match &self.carrier {
            DatagramCarrier::System { socket, .. } => socket.local_addr()?,
            DatagramCarrier::Network { .. } => virtual_address(self.rank),
        };
        Ok(SocketPlace { address, key: self.key })
    }

    /// Whether datagrams wake their receiver, as those in virtual time do.
    pub(super) fn wake(&self) -> bool {
        matches!(self.carrier, DatagramCarrier::Network { .. })
    }

    /// Takes the datagrams that the simulated network has to carry.
    pub(super) fn take_due(&self) -> Vec<DueDatagram> {
        match &self.carrier {
            DatagramCarrier::System { .. } => Vec::new(),
            DatagramCarrier::Network { due, .. } => due.take(),
        }
    }

    /// Sets the addresses of the other ranks. Only the first call has an effect: a rank's socket
    /// stays.
    pub(super) fn connect(&self, places: &[SocketPlace]) {
        let mut peers = self.peers.borrow_mut();
        if peers.is_empty() {
            let peer = |&SocketPlace { address, key }: &_| SocketPeer {
                address,
                key,
                link: MessageStream::default(),
                sent: 0,
                hears: false,
                heard: false,
            };
            *peers = places.iter().map(peer).collect();
            let own = places.get(self.rank as usize).map(|place| place.address);
            if let DatagramCarrier::System { group, .. } = &self.carrier {
                let joined = own.and_then(|own| MulticastGroup::join(places, own).ok());
                *group.borrow_mut() = joined;
            }
        }
    }

    /// The number of dropped datagrams that are not of this job.
    #[cfg(test)]
    pub(super) fn ignored(&self) -> u64 {
        *self.ignored.borrow()
    }

    /// Queues a message, in order with other messages to the same rank.
    pub(super) fn send(&self, to: u32, message: Vec<u8>) {
        let mut peers = self.peers.borrow_mut();
        if let Some(peer) = peers.get_mut(to as usize) {
            peer.link.send(message);
        }
    }

    /// Closes the stream to a gone rank.
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

    /// Sends the datagrams that are due at `now`, nanoseconds. Returns their number and their
    /// bytes.
    pub(super) fn pump(&self, now: u64) -> (u64, u64) {
        let mut peers = self.peers.borrow_mut();
        let (mut datagrams, mut bytes) = (0, 0);
        let mut letters: Vec<DueLetter> = Vec::new();
        for (rank, peer) in (0..).zip(peers.iter_mut()) {
            while let Some((number, expected, message)) = peer.link.poll(now) {
                let to = MulticastReceiver { rank, number, expected };
                let is_retry = number != 0 && number <= peer.sent;
                peer.sent = peer.sent.max(number);
                // After any loss, letters go to this rank alone until it hears a multicast again.
                peer.hears &= !is_retry;
                if message.first() != Some(&LETTER) || is_retry {
                    let head = self.head(peer.key, peer.heard, to, message);
                    bytes += self.emit_parts(&head, message, peer.address);
                    datagrams += 1;
                    continue;
                }
                match letters.iter_mut().find(|due| due.letter == message) {
                    Some(due) => due.to.push(to),
                    None => letters.push(DueLetter { letter: message.to_vec(), to: vec![to] }),
                }
            }
        }
        for DueLetter { letter, to } in letters {
            let has_left = to.len() > 1 && {
                let sent = self.multicast(&letter, &to);
                bytes += sent.unwrap_or(0);
                datagrams += u64::from(sent.is_some());
                sent.is_some()
            };
            for to in to {
                let SocketPeer { key, heard, hears, address, .. } = peers[to.rank as usize];
                if !(has_left && hears) {
                    bytes += self.emit_parts(&self.head(key, heard, to, &letter), &letter, address);
                    datagrams += 1;
                }
            }
        }
        (datagrams, bytes)
    }

    fn head(
        &self,
        key: u64,
        hears: bool,
        MulticastReceiver { number, expected, .. }: MulticastReceiver,
        message: &[u8],
    ) -> [u8; HEAD_BYTES] {
        let (from, length) = (self.rank, message.len() as u32);
        DatagramHead { key, from, number, expected, length, hears }.encode()
    }

    /// Sends a letter to the group. Returns its size.
    fn multicast(&self, letter: &[u8], to: &[MulticastReceiver]) -> Option<u64> {
        let encode = |key| {
            MulticastDatagram { key, from: self.rank, to: to.to_vec(), message: letter }.encode()
        };
        match &self.carrier {
            DatagramCarrier::System { group, .. } => {
                let group = group.borrow();
                let MulticastGroup { key, address, .. } = group.as_ref()?;
                Some(self.emit_parts(&encode(*key), &[], *address))
            }
            DatagramCarrier::Network { copies, due } => copies.then(|| {
                let datagram = encode(VIRTUAL_KEYS[1]);
                let bytes = datagram.len() as u64;
                due.borrow_mut().push((to.iter().map(|to| to.rank).collect(), datagram));
                bytes
            }),
        }
    }

    /// Sends a datagram. Returns its size.
    fn emit_parts(&self, head: &[u8], message: &[u8], to: SocketAddr) -> u64 {
        let datagram = [head, message].concat();
        let bytes = datagram.len() as u64;
        self.emit(datagram, to);
        bytes
    }

    fn emit(&self, datagram: Vec<u8>, to: SocketAddr) {
        let (socket, faults) = match &self.carrier {
            DatagramCarrier::System { socket, faults, .. } => (socket, faults),
            DatagramCarrier::Network { due, .. } => {
                return due.borrow_mut().push((vec![to.port().into()], datagram));
            }
        };
        let mut faults = faults.borrow_mut();
        let out = match faults.as_mut() {
            Some(faults) => faults.spoil(datagram, to),
            None => vec![(datagram, to)],
        };
        for (datagram, to) in out {
            // A datagram that cannot be sent now counts as lost, and is retried.
            let _ = socket.send_to(&datagram, to);
        }
    }

    /// Receives datagrams. `take` gets whole messages in order, with their senders. `next`: in
    /// virtual time, the next datagram that the simulated network has delivered.
    pub(super) fn take_in(
        &self,
        mut next: impl FnMut() -> Option<(u32, Vec<u8>)>,
        mut take: impl FnMut(u32, Vec<u8>),
    ) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let (socket, group) = match &self.carrier {
            DatagramCarrier::System { socket, group, .. } => (socket, group.borrow()),
            DatagramCarrier::Network { .. } => {
                let [_, key] = VIRTUAL_KEYS;
                while let Some((from, datagram)) = next() {
                    let from = virtual_address(from);
                    match datagram.starts_with(&key.to_le_bytes()) {
                        true => self.arrive_by_group(key, &datagram, from, &mut take),
                        false => self.arrive(&datagram, from, &mut take),
                    }
                }
                return;
            }
        };
        let mut buffer = self.buffer.borrow_mut();
        while let Some((length, from)) = next_datagram(socket, &mut buffer) {
            self.arrive(&buffer[..length], from, &mut take);
        }
        let Some(group) = group.as_ref() else { return };
        while let Some((length, from)) = next_datagram(&group.socket, &mut buffer) {
            self.arrive_by_group(group.key, &buffer[..length], from, &mut take);
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
        let peer = &mut peers[head.from as usize];
        peer.hears |= head.hears;
        peer.link.arrive(head.number, head.expected, message, |message| take(head.from, message));
    }

    fn arrive_by_group(
        &self,
        key: u64,
        datagram: &[u8],
        from: SocketAddr,
        take: &mut impl FnMut(u32, Vec<u8>),
    ) {
        let mut peers = self.peers.borrow_mut();
        let known = MulticastDatagram::decode(datagram).filter(|sent| {
            let peer = peers.get(sent.from as usize);
            peer.is_some_and(|peer| peer.address == from) && sent.key == key
        });
        let Some(MulticastDatagram { from, to, message, .. }) = known else {
            *self.ignored.borrow_mut() += 1;
            return;
        };
        let peer = &mut peers[from as usize];
        peer.heard = true;
        for to in to.iter().filter(|to| to.rank == self.rank) {
            peer.link.arrive(to.number, to.expected, message, |message| take(from, message));
        }
    }

    #[cfg(test)]
    fn socket(&self) -> &UdpSocket {
        let DatagramCarrier::System { socket, .. } = &self.carrier else { panic!("no socket") };
        socket
    }

    #[cfg(test)]
    fn group(&self) -> std::cell::RefMut<'_, Option<MulticastGroup>> {
        let DatagramCarrier::System { group, .. } = &self.carrier else { panic!("no socket") };
        group.borrow_mut()
    }

    /// Sleeps until a datagram arrives, at most this many nanoseconds.
    pub(super) fn sleep(&self, most: u64) {
        let limit = Timespec { tv_sec: 0, tv_nsec: most.min(999_999_999) as i64 };
        let DatagramCarrier::System { socket, group, .. } = &self.carrier else { return };
        let mut files = vec![PollFd::new(socket, PollFlags::IN)];
        let group = group.borrow();
        files.extend(group.iter().map(|group| PollFd::new(&group.socket, PollFlags::IN)));
        // A signal ends the wait too: the caller polls again.
        let _ = poll(&mut files, Some(&limit));
    }
}

/// The address of a rank in virtual time.
fn virtual_address(rank: u32) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), rank as u16)
}

/// The next datagram of a socket: its length and its sender.
fn next_datagram(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Ok(datagram) => return Some(datagram),
            // An earlier datagram found no socket: its rank is gone, which is reported elsewhere.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// A job's multicast group at one rank. A message to several ranks leaves its sender once, as the
/// owner changes of paper 001's baseline do.
///
/// Each rank has a second socket, which has joined the job's group on the interface of the first. A
/// multicast datagram names its receivers, each with the number of the message in the stream to
/// that rank. The streams stay unchanged, and retries go to one rank.
///
/// ```text
///   streams to 1, 2, 3: the same letter is due ──► | 1: no. 7 | 2: no. 4 | 3: no. 9 | letter |
///   rank 2: its stream takes no. 4, and says with its next datagram that it hears this sender
///   rank 3: none of its datagrams has said so: it gets one of its own as well
/// ```
///
/// So the ranks need no agreement. If the network carries no multicast, or a rank cannot join,
/// ranks never hear a multicast of each other and get datagrams of their own.
///
/// Only letters are multicast: who owns what, and whose copy is old. Contents are not, because any
/// process that joins on another host of the network can read multicasts. On this host only
/// processes of the same user can join: the kernel lets only their sockets share the port.
#[derive(Debug)]
pub(super) struct MulticastGroup {
    pub(super) socket: UdpSocket,
    pub(super) address: SocketAddr,
    /// The key of its datagrams. Other jobs may have chosen the same group.
    pub(super) key: u64,
}

impl MulticastGroup {
    /// Joins the group of the ranks at these places, on the interface of the rank at `own`.
    pub(super) fn join(places: &[SocketPlace], own: SocketAddr) -> io::Result<MulticastGroup> {
        let (SocketAddr::V4(own), Some(first)) = (own, places.first()) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // Derived from the first rank's key, which the group's address and key do not reveal.
        let [chosen, key] = [0, 1].map(|which: u8| {
            let mut hasher = DefaultHasher::new();
            (first.key, which).hash(&mut hasher);
            hasher.finish()
        });
        // An address of the block for use within a site, and a port that no service has.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
        of.take_in(|| None, |from, message| heard.push((from, message)));
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
        let to = b.socket().local_addr().unwrap();
        let head =
            DatagramHead { key: b.key, from: 0, number: 1, expected: 1, length: 1, hears: false };
        let datagram = |head: DatagramHead| [&head.encode()[..], &[9]].concat();
        // The right bytes from the wrong port.
        let stranger = UdpSocket::bind(SocketAddr::new(HERE, 0)).unwrap();
        stranger.send_to(&datagram(head), to).unwrap();
        // From the right port: wrong key, length or rank; an unknown rank; no bytes; too many
        // bytes.
        let wrong = [
            datagram(DatagramHead { key: b.key ^ 1, ..head }),
            datagram(DatagramHead { length: 2, ..head }),
            datagram(DatagramHead { from: 1, ..head }),
            datagram(DatagramHead { from: 99, ..head }),
            Vec::new(),
            vec![0; 60_000],
        ];
        for datagram in &wrong {
            a.socket().send_to(datagram, to).unwrap();
        }
        a.socket().send_to(&datagram(head), to).unwrap();
        let mut all = Vec::new();
        while all.is_empty() {
            b.sleep(1_000_000_000);
            all.extend(heard(&b));
        }
        assert_eq!(all, [(0, vec![9])]);
        assert_eq!(b.ignored(), 1 + wrong.len() as u64);
    }

    /// A letter with this content.
    fn letter(content: u8) -> Vec<u8> {
        vec![LETTER, content]
    }

    /// The sockets of this many ranks.
    fn ranks(count: u32, faults: Option<u64>) -> Vec<Sockets> {
        let open = |rank| Sockets::open(rank, HERE, faults).unwrap();
        let all: Vec<Sockets> = (0..count).map(open).collect();
        let places: Vec<SocketPlace> = all.iter().map(|one| one.place().unwrap()).collect();
        all.iter().for_each(|one| one.connect(&places));
        all
    }

    /// Sends a letter from rank 0 to all others, which receive and acknowledge it.
    fn tell_all(ranks: &[Sockets], content: u8) {
        let (sender, others) = ranks.split_first().unwrap();
        others.iter().for_each(|other| sender.send(other.rank, letter(content)));
        sender.pump(1);
        for other in others {
            assert_eq!(heard(other), [(0, letter(content))]);
            other.pump(1);
        }
        assert!(heard(sender).is_empty() && sender.is_quiet());
    }

    /// The number of datagrams at a socket that were not received.
    fn waiting(socket: &UdpSocket) -> usize {
        std::iter::from_fn(|| next_datagram(socket, &mut [0; 256])).count()
    }

    /// Another socket of the group. It sees the datagrams on the wire.
    fn listener(of: &Sockets) -> UdpSocket {
        let places: Vec<SocketPlace> = of
            .peers
            .borrow()
            .iter()
            .map(|peer| SocketPlace { address: peer.address, key: peer.key })
            .collect();
        MulticastGroup::join(&places, places[0].address).unwrap().socket
    }

    /// Datagrams are counted where they arrive: at a socket of no rank, and at the receivers'.
    #[test]
    fn fg_15_a_letter_to_several_leaves_its_sender_once() {
        let all = ranks(5, None);
        tell_all(&all, 1);
        let listener = listener(&all[0]);
        tell_all(&all, 2);
        assert_eq!(waiting(&listener), 1);
        (1..5).for_each(|to| all[0].send(to, letter(3)));
        all[0].pump(1);
        assert_eq!(waiting(&listener), 1);
        for one in &all {
            assert_eq!(waiting(one.socket()), 0, "nothing came to it alone");
        }
        // A letter to one rank is a datagram to that rank.
        all[0].send(1, letter(4));
        all[0].pump(1);
        assert_eq!((waiting(&listener), waiting(all[1].socket())), (0, 1));
    }

    #[test]
    fn contents_and_retries_are_not_multicast() {
        let all = ranks(3, None);
        tell_all(&all, 1);
        let listener = listener(&all[0]);
        (1..3).for_each(|to| all[0].send(to, vec![LETTER + 1, 7]));
        all[0].pump(1);
        assert_eq!((waiting(&listener), waiting(all[1].socket())), (0, 1));
        all[0].pump(1_000_000_000);
        assert_eq!((waiting(&listener), waiting(all[1].socket())), (0, 1));
    }

    /// One rank leaves the group, as if the network carried no multicast, and then returns.
    #[test]
    fn fg_15_who_hears_no_multicast_gets_letters_alone_until_it_does() {
        let all = ranks(4, None);
        let group = all[3].group().take();
        tell_all(&all, 1);
        tell_all(&all, 2);
        *all[3].group() = group;
        // These are the letters that it has already received.
        tell_all(&all, 3);
        tell_all(&all, 4);
        (1..4).for_each(|to| all[0].send(to, letter(5)));
        all[0].pump(1);
        assert_eq!(waiting(all[3].socket()), 0);
        assert_eq!(heard(&all[3]), [(0, letter(5))]);
    }

    #[test]
    fn fg_15_a_sharer_that_dies_keeps_no_letter_from_the_others() {
        let mut all = ranks(4, None);
        tell_all(&all, 1);
        (1..4).for_each(|to| all[0].send(to, letter(2)));
        all[0].pump(1);
        drop(all.remove(2));
        for other in [1, 2] {
            assert_eq!(heard(&all[other]), [(0, letter(2))]);
            all[other].pump(1);
        }
        assert!(heard(&all[0]).is_empty() && !all[0].is_quiet());
        all[0].close(2);
        assert!(all[0].is_quiet());
        for to in [1, 3] {
            all[0].send(to, letter(3));
        }
        all[0].pump(1);
        assert_eq!([heard(&all[1]), heard(&all[2])], [[(0, letter(3))], [(0, letter(3))]]);
    }

    #[test]
    fn fg_15_multicasts_of_strangers_are_ignored() {
        let all = ranks(3, None);
        tell_all(&all, 1);
        let (key, address) = all[1].group().as_ref().map(|at| (at.key, at.address)).unwrap();
        let to = vec![MulticastReceiver { rank: 1, number: 2, expected: 1 }];
        let frame = MulticastDatagram { key, from: 0, to, message: &letter(9) };
        let stranger = UdpSocket::bind(SocketAddr::new(HERE, 0)).unwrap();
        stranger.send_to(&frame.encode(), address).unwrap();
        let other_key = MulticastDatagram { key: key ^ 1, ..frame.clone() };
        all[0].socket().send_to(&other_key.encode(), address).unwrap();
        all[0].socket().send_to(&[], address).unwrap();
        assert!(heard(&all[1]).is_empty());
        assert_eq!(all[1].ignored(), 3);
        all[0].socket().send_to(&frame.encode(), address).unwrap();
        assert_eq!(heard(&all[1]), [(0, letter(9))]);
    }

    #[test]
    fn fg_15_letters_to_all_come_once_and_in_order_with_faults() {
        for seed in 1..4 {
            println!("seed {seed}");
            let all = ranks(4, Some(seed));
            for content in 0..100 {
                (1..4).for_each(|to| all[0].send(to, letter(content)));
            }
            let mut all_heard = vec![Vec::new(); 4];
            let mut now = 1;
            while all_heard[1..].iter().any(|one| one.len() < 100) || !all[0].is_quiet() {
                now += 1_000_000;
                all[0].pump(now);
                for (one, so_far) in all.iter().zip(&mut all_heard) {
                    so_far.extend(heard(one).into_iter().map(|(_, message)| message[1]));
                    one.pump(now);
                }
            }
            assert!(all_heard[1..].iter().all(|one| *one == (0..100).collect::<Vec<u8>>()));
        }
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
