//! Connections of daemons to their parents: the gate at which a parent lets them in, the daemon's
//! knock, and the sink for frames.
//!
//! ```text
//!   connect ──► gate: hello, challenge, proof ──► let in: connection and seals
//!                 └──► refused: no proof, another secret, too late, too many, not expected
//! ```
//!
//! The gate is open as long as the job. An unauthenticated connection can only have sent a few
//! bytes, and no call of the gate blocks, so that a stranger delays nobody.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use super::{
    frame::Frame,
    plan::PlannedNetwork,
    random,
    seal::{CHALLENGE_BYTES, Challenge, HELLO_BYTES, Hello, SEAL_BYTES, Seal, Seals, Secret},
};
use crate::{
    events::EventSet,
    sink::{OutputSink, SinkError},
};

/// How long a new connection may take to authenticate.
const PROOF_LIMIT: Duration = Duration::from_secs(5);

/// How long a daemon tries to connect. The system sends the SYN four times in this time.
pub(super) const KNOCK_LIMIT: Duration = Duration::from_secs(8);

/// Maximum number of unauthenticated connections. A process starts fewer daemons.
const MOST_GUESTS: usize = 64;

/// Connections accepted per call, so that a flood leaves time for frames.
const MOST_AT_ONCE: usize = 16;

/// Event token of the listener. A guest's token is its place plus one.
const LISTENER: u64 = 0;

/// Accepts the connections of the daemons that this process has started.
pub(super) struct Gate {
    /// `None` once no connection can be accepted any more.
    listener: Option<TcpListener>,
    address: SocketAddr,
    secret: Secret,
    guests: Vec<Option<Guest>>,
    refused: u64,
    events: EventSet,
}

/// An unauthenticated connection.
struct Guest {
    stream: TcpStream,
    since: Duration,
    came: Vec<u8>,
    /// The challenge that answered its hello.
    challenge: Option<Challenge>,
}

/// An authenticated daemon's connection.
pub(super) struct Admitted {
    /// The daemon's host.
    pub(super) host: u32,
    pub(super) stream: TcpStream,
    pub(super) seals: Seals,
}

/// Any fault of a guest. The guest does not learn which.
struct Refused;

impl Gate {
    /// Listens at this address, on a port that the system chooses.
    pub(super) fn open(address: IpAddr, secret: &Secret) -> io::Result<Gate> {
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let events = EventSet::new()?;
        events.add(&listener, LISTENER)?;
        Ok(Gate {
            address: listener.local_addr()?,
            listener: Some(listener),
            secret: secret.clone(),
            guests: (0..MOST_GUESTS).map(|_| None).collect(),
            refused: 0,
            events,
        })
    }

    /// The address at which it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A warning about strangers, if there were any. An unauthenticated guest counts as one.
    pub(super) fn strangers(&self) -> Option<String> {
        let count = self.refused + self.guests.iter().flatten().count() as u64;
        let what = if count == 1 { "a connection" } else { "connections" };
        let number = if count == 1 { String::new() } else { format!("{count} ") };
        (count > 0).then(|| {
            let at = self.address;
            format!("refused {number}{what} to {at}: not by a daemon of this job")
        })
    }

    /// Handles ready events until a daemon is admitted: to be called until the result is `None`.
    /// `expects`: whether the daemon of a host may connect now.
    pub(super) fn handle_ready(
        &mut self,
        now: Duration,
        expects: &dyn Fn(u32) -> bool,
    ) -> io::Result<Option<Admitted>> {
        for token in self.events.ready()? {
            if token == LISTENER {
                self.accept(now)?;
                continue;
            }
            let place = usize::try_from(token - 1).expect("there are few");
            let Some(mut guest) = self.guests[place].take() else { continue };
            match guest.read(&self.secret, expects) {
                Ok(None) => self.guests[place] = Some(guest),
                Ok(Some((host, seals))) => {
                    self.events.remove(&guest.stream)?;
                    guest.stream.set_nonblocking(false)?;
                    return Ok(Some(Admitted { host, stream: guest.stream, seals }));
                }
                Err(Refused) => self.refused += 1,
            }
        }
        Ok(None)
    }

    fn accept(&mut self, now: Duration) -> io::Result<()> {
        for _ in 0..MOST_AT_ONCE {
            let Some(listener) = &self.listener else { return Ok(()) };
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                // No descriptors or no memory: the listener would stay ready for ever. Daemons
                // then fall back to their agents.
                Err(_) => {
                    self.events.remove(listener)?;
                    self.listener = None;
                    return Ok(());
                }
            };
            let free = self.guests.iter().position(Option::is_none);
            let watched = |place: &usize| {
                prepare(&stream).is_ok() && self.events.add(&stream, *place as u64 + 1).is_ok()
            };
            let Some(place) = free.filter(watched) else {
                self.refused += 1;
                continue;
            };
            let came = Vec::with_capacity(HELLO_BYTES);
            self.guests[place] = Some(Guest { stream, since: now, came, challenge: None });
        }
        Ok(())
    }

    /// Refuses guests that are late.
    pub(super) fn handle_time(&mut self, now: Duration) {
        for place in &mut self.guests {
            if place.as_ref().is_some_and(|guest| now >= guest.since + PROOF_LIMIT) {
                *place = None;
                self.refused += 1;
            }
        }
    }

    /// The next deadline at which `handle_time` has work to do.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        self.guests.iter().flatten().map(|guest| guest.since + PROOF_LIMIT).min()
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Guest {
    /// Reads the available bytes. Returns the host and the seals once the daemon is authenticated.
    fn read(
        &mut self,
        secret: &Secret,
        expects: &dyn Fn(u32) -> bool,
    ) -> Result<Option<(u32, Seals)>, Refused> {
        loop {
            let whole = if self.challenge.is_some() { SEAL_BYTES } else { HELLO_BYTES };
            let mut bytes = [0; HELLO_BYTES];
            // Read no further: frames may follow the proof.
            match self.stream.read(&mut bytes[..whole - self.came.len()]) {
                Ok(0) => return Err(Refused),
                Ok(count) => self.came.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Refused),
            }
            if self.came.len() < whole {
                continue;
            }
            let came = std::mem::take(&mut self.came);
            match self.challenge.take() {
                Some(challenge) if expects(challenge.host) => {
                    let seals = challenge.check(&came).map_err(|_| Refused)?;
                    return Ok(Some((challenge.host, seals)));
                }
                Some(_) => return Err(Refused),
                None => self.challenge = Some(self.ask(secret, &came, expects)?),
            }
        }
    }

    /// Answers a hello.
    fn ask(
        &mut self,
        secret: &Secret,
        hello: &[u8],
        expects: &dyn Fn(u32) -> bool,
    ) -> Result<Challenge, Refused> {
        let nonce = random().map_err(|_| Refused)?;
        let challenge = Challenge::new(secret, hello, nonce).map_err(|_| Refused)?;
        let message = challenge.message();
        // A new connection always has room for its first bytes.
        let sent = expects(challenge.host)
            && self.stream.write(&message).is_ok_and(|count| count == message.len());
        sent.then_some(challenge).ok_or(Refused)
    }
}

/// Sets the options of a parent's end: send each frame at once, never block.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// Connects the daemon of a host to its parent. After success the parent accepts frames from this
/// connection only; after a failure, from the agent.
pub(super) fn knock(network: &PlannedNetwork, host: u32) -> io::Result<(TcpStream, Seals)> {
    let start = Instant::now();
    let invalid =
        |error: &dyn std::fmt::Display| io::Error::new(ErrorKind::InvalidData, error.to_string());
    let address: SocketAddr = network.parent.parse().map_err(|error| invalid(&error))?;
    let mut stream = TcpStream::connect_timeout(&address, KNOCK_LIMIT)?;
    stream.set_nodelay(true)?;
    let left = KNOCK_LIMIT.saturating_sub(start.elapsed());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    let hello = Hello::new(&network.secret, host, random()?);
    stream.write_all(&hello.message())?;
    let mut challenge = [0; CHALLENGE_BYTES];
    stream.read_exact(&mut challenge).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        ErrorKind::UnexpectedEof => ErrorKind::ConnectionRefused.into(),
        _ => error,
    })?;
    let (proof, seals) = hello.answer(&challenge).map_err(|error| invalid(&error))?;
    stream.set_read_timeout(None)?;
    stream.write_all(&proof)?;
    Ok((stream, seals))
}

/// Ends a daemon's connection after its last frame. Closing a socket with unread input would reset
/// the connection, and data on its way to the other end would be lost.
pub(super) fn hang_up(mut stream: TcpStream, limit: Duration) {
    let start = Instant::now();
    // Fails if the other end has closed it.
    let _ = stream.shutdown(Shutdown::Write);
    let mut bytes = [0; 1024];
    loop {
        let left = limit.saturating_sub(start.elapsed());
        let waits = !left.is_zero() && stream.set_read_timeout(Some(left)).is_ok();
        if !waits || !matches!(stream.read(&mut bytes), Ok(1..)) {
            return;
        }
    }
}

/// The destination of frames; it seals them if that is a connection.
pub(super) struct FrameSink {
    sink: OutputSink,
    seal: Option<Seal>,
}

impl FrameSink {
    /// A sink into an agent's input, or from a daemon to its agent.
    pub(super) fn to_agent(pipe: OwnedFd) -> io::Result<FrameSink> {
        Ok(FrameSink { sink: OutputSink::new(pipe.into())?, seal: None })
    }

    /// A sink into a connection.
    pub(super) fn to_daemon(stream: &TcpStream, seal: Seal) -> io::Result<FrameSink> {
        let stream = File::from(OwnedFd::from(stream.try_clone()?));
        Ok(FrameSink { sink: OutputSink::new(stream)?, seal: Some(seal) })
    }

    /// Sends a frame. Drops it if an earlier frame could not be sent.
    pub(super) fn push(&mut self, host: u32, frame: &Frame) {
        let seal = &mut self.seal;
        self.sink.push(|out| {
            let at = out.len();
            frame.put(host, out);
            if let Some(seal) = seal {
                let seal = seal.next(&out[at..]);
                out.extend_from_slice(&seal);
            }
        });
    }

    /// Takes the error if there is no thread that sends. Returned once. An error of a write is not
    /// returned, as the end of the channel follows it.
    pub(super) fn take_error(&mut self) -> Option<String> {
        match self.sink.take_error()? {
            SinkError::Thread(error) => Some(format!("cannot start a thread that sends: {error}")),
            SinkError::Write(_) => None,
        }
    }

    /// Whether everything is sent, or nothing further will be.
    pub(super) fn is_done(&self) -> bool {
        self.sink.is_done()
    }

    /// Waits until everything is sent, at most `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        self.sink.wait(limit);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{net::Ipv4Addr, thread};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::hosts::frame::{ALL, Decoder};

    const SECRET: Secret = Secret([7; 32]);

    /// A limit for events that are immediate, even on a busy machine. Only failing tests reach it.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn gate() -> Gate {
        Gate::open(Ipv4Addr::LOCALHOST.into(), &SECRET).unwrap()
    }

    fn network(gate: &Gate, secret: Secret) -> PlannedNetwork {
        PlannedNetwork { name: "lo".into(), secret, parent: gate.address().to_string() }
    }

    /// Waits for an event and handles it. Only the daemon of host 1 is expected.
    fn step(gate: &mut Gate) -> Option<Admitted> {
        let limit = Timespec::try_from(PATIENCE).unwrap();
        let count = poll(&mut [PollFd::new(&*gate, PollFlags::IN)], Some(&limit)).unwrap();
        assert!(count > 0, "nothing comes");
        gate.handle_ready(Duration::ZERO, &|host| host == 1).unwrap()
    }

    /// Handles events until so many connections are refused and so many are guests.
    fn until_strangers(gate: &mut Gate, refused: u64, guests: usize) {
        let start = Instant::now();
        while (gate.refused, gate.guests.iter().flatten().count()) != (refused, guests) {
            assert!(step(gate).is_none(), "a stranger was let in");
            assert!(start.elapsed() < PATIENCE, "not {refused} refused and {guests} guests");
        }
    }

    fn until_admitted(gate: &mut Gate) -> Admitted {
        let start = Instant::now();
        loop {
            if let Some(admitted) = step(gate) {
                admitted.stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return admitted;
            }
            assert!(start.elapsed() < PATIENCE, "no daemon is let in");
        }
    }

    /// Connects to the gate and sends bytes.
    fn say(gate: &Gate, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(gate.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// Sends a daemon's hello, and returns its proof as the answer to the gate's challenge.
    fn prove(gate: &mut Gate, host: u32, nonce: [u8; 32]) -> (TcpStream, Vec<u8>) {
        let hello = Hello::new(&SECRET, host, nonce);
        let mut stream = say(gate, &hello.message());
        let mut challenge = [0; CHALLENGE_BYTES];
        while gate.guests.iter().flatten().all(|guest| guest.challenge.is_none()) {
            assert!(step(gate).is_none());
        }
        stream.read_exact(&mut challenge).unwrap();
        let (proof, _) = hello.answer(&challenge).unwrap();
        (stream, proof.to_vec())
    }

    #[test]
    fn a_daemon_is_let_in_and_frames_go_both_ways() {
        let mut gate = gate();
        let network = network(&gate, SECRET);
        let daemon = thread::spawn(move || {
            let (stream, seals) = knock(&network, 1).unwrap();
            let mut up = FrameSink::to_daemon(&stream, seals.up).unwrap();
            (0..3).for_each(|_| up.push(1, &Frame::Done));
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let down = read_frames(&stream, Decoder::sealed(seals.down), 2);
            up.wait(PATIENCE);
            hang_up(stream, PATIENCE);
            down
        });
        let Admitted { host, stream, seals } = until_admitted(&mut gate);
        assert_eq!((host, gate.strangers()), (1, None));
        let mut down = FrameSink::to_daemon(&stream, seals.down).unwrap();
        down.push(ALL, &Frame::Beat);
        down.push(1, &Frame::End);
        let up = read_frames(&stream, Decoder::sealed(seals.up), 3);
        assert_eq!(up, [const { (1, Frame::Done) }; 3]);
        assert_eq!((&stream).read(&mut [0]).unwrap(), 0, "the daemon has hung up");
        stream.shutdown(Shutdown::Both).unwrap();
        assert_eq!(daemon.join().unwrap(), [(ALL, Frame::Beat), (1, Frame::End)]);
    }

    fn read_frames(
        mut stream: &TcpStream,
        mut decoder: Decoder,
        count: usize,
    ) -> Vec<(u32, Frame)> {
        let (mut frames, mut bytes) = (Vec::new(), [0; 7]);
        while frames.len() < count {
            let came = stream.read(&mut bytes).unwrap();
            assert!(came > 0, "{frames:?}");
            decoder.feed(&bytes[..came]);
            while let Some(frame) = decoder.next().unwrap() {
                frames.push(frame);
            }
        }
        frames
    }

    #[test]
    fn strangers_are_refused_and_counted() {
        let mut gate = gate();
        let hello = Hello::new(&SECRET, 1, [1; 32]).message();
        let garbage = say(&gate, &[b'x'; 1000]);
        until_strangers(&mut gate, 1, 0);
        drop(say(&gate, &hello[..HELLO_BYTES / 2]));
        until_strangers(&mut gate, 2, 0);
        let other = say(&gate, &Hello::new(&SECRET, 2, [1; 32]).message());
        until_strangers(&mut gate, 3, 0);
        drop(say(&gate, &hello));
        until_strangers(&mut gate, 4, 0);
        let (mut wrong, mut proof) = prove(&mut gate, 1, [1; 32]);
        proof[31] ^= 1;
        wrong.write_all(&proof).unwrap();
        until_strangers(&mut gate, 5, 0);
        for mut stream in [garbage, other, wrong] {
            let ended = stream.read(&mut [0; 1]);
            let reset = |error: io::Error| error.kind() == ErrorKind::ConnectionReset;
            assert!(ended.map_or_else(reset, |count| count == 0), "it is not closed");
        }
        let said = gate.strangers().unwrap();
        assert_eq!(
            said,
            format!("refused 5 connections to {}: not by a daemon of this job", gate.address())
        );
    }

    #[test]
    fn a_proof_that_was_seen_on_another_connection_lets_nobody_in() {
        let mut gate = gate();
        let (mut honest, proof) = prove(&mut gate, 1, [1; 32]);
        honest.write_all(&proof).unwrap();
        assert_eq!(until_admitted(&mut gate).host, 1);
        let (mut stranger, _) = prove(&mut gate, 1, [1; 32]);
        stranger.write_all(&proof).unwrap();
        until_strangers(&mut gate, 1, 0);
    }

    #[test]
    fn a_daemon_does_not_take_a_stranger_for_its_parent() {
        let gate = gate();
        let network = network(&gate, Secret([8; 32]));
        let mut stranger = gate;
        let daemon = thread::spawn(move || knock(&network, 1).map(|_| ()).unwrap_err());
        until_strangers(&mut stranger, 1, 0);
        let error = daemon.join().unwrap().to_string();
        assert!(error.contains("not by who knows the job's secret"), "{error}");
    }

    #[test]
    fn who_is_silent_or_too_many_delays_nobody_for_long() {
        let mut gate = gate();
        let crowd: Vec<TcpStream> = (0..=MOST_GUESTS).map(|_| say(&gate, b"")).collect();
        until_strangers(&mut gate, 1, MOST_GUESTS);
        assert_eq!(gate.poll_deadline(), Some(PROOF_LIMIT));
        gate.handle_time(PROOF_LIMIT - Duration::from_nanos(1));
        until_strangers(&mut gate, 1, MOST_GUESTS);
        gate.handle_time(PROOF_LIMIT);
        until_strangers(&mut gate, 1 + MOST_GUESTS as u64, 0);
        assert_eq!(gate.poll_deadline(), None);
        // Half the crowd comes back, with a daemon after it.
        let half: Vec<TcpStream> = (0..MOST_GUESTS / 2).map(|_| say(&gate, b"hik")).collect();
        let (mut honest, proof) = prove(&mut gate, 1, [1; 32]);
        honest.write_all(&proof).unwrap();
        assert_eq!(until_admitted(&mut gate).host, 1);
        drop((crowd, half));
    }
}
