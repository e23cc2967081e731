//! Two processes measure the network between them: 8 bytes one way, 1 MiB written and read.
//!
//! They meet over a TCP connection, over which each sends its provider and the address of its
//! endpoint. Then one measures and the other answers, until the measuring side ends the test.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::{
    Endpoint, EndpointCompletion, Error, Offer, Peer, PostResult, ProviderRequest, Region, Remote,
    Survey, choose,
};

/// The first bytes of a greeting.
const GREETING: &[u8; 17] = b"hikyaku fabric 1\n";

/// The longest word of a greeting.
const LONGEST_WORD: usize = 512;

/// How long a side waits for a sign of life. Providers do not report deaths.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most round trips in one timed batch, the intended time of a batch, and the number of
/// batches.
const ROUNDS: u32 = 200;
const BATCH: Duration = Duration::from_millis(50);
const BATCHES: usize = 21;

/// Round trips until connections are made and buffers warm.
const WARM_UP: u32 = 10;

/// Large transfers: length, number in a timed batch, and number in flight.
const LARGE: usize = 1 << 20;
const TRANSFERS: usize = 32;
const WINDOW: usize = 8;
const LARGE_BATCHES: usize = 7;

/// No batch of large transfers starts after this time: a slow network gets few.
const ENOUGH: Duration = Duration::from_secs(3);

/// Messages of the test, by their first byte.
const PING: u8 = 1;
const ALL_WRITTEN: u8 = 2;
const END: u8 = 3;

/// Tokens of operations.
const SENT: u64 = 0;
const TRANSFER: u64 = 1;

/// The minimum, the median and the maximum of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSpread {
    /// The minimum.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The maximum.
    pub most: f64,
}

impl ValueSpread {
    /// The spread of at least one value.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or_default();
        let last = values.len().saturating_sub(1);
        Self { least: at(0), median: at(last / 2), most: at(last) }
    }
}

/// The results of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricFigures {
    /// The offer that this side used.
    pub offer: Offer,
    /// Why it was chosen.
    pub reason: String,
    /// Microseconds of 8 bytes, one way: half a round trip.
    pub latency: ValueSpread,
    /// Megabytes (10^6) a second of 1 MiB, written into the peer's memory.
    pub written: ValueSpread,
    /// The same, read from it.
    pub read: ValueSpread,
}

/// Answers the peer at the other end of the connection until it has measured everything.
pub fn serve(
    survey: &Survey,
    request: &ProviderRequest,
    stream: &mut TcpStream,
) -> Result<(), Error> {
    let mut session = EndpointPair::meet(survey, request, stream)?;
    let mut written = 0;
    loop {
        let message = session.until(|event| match event {
            EndpointCompletion::Message { payload } => {
                Some(payload.first().copied().unwrap_or_default())
            }
            EndpointCompletion::Written { .. } => {
                written += 1;
                (written % TRANSFERS == 0).then_some(ALL_WRITTEN)
            }
            _ => None,
        })?;
        if message == END {
            return Ok(());
        }
        session.say(message)?;
    }
}

/// Measures, with the peer at the other end of the connection.
pub fn measure(
    survey: &Survey,
    request: &ProviderRequest,
    stream: &mut TcpStream,
) -> Result<FabricFigures, Error> {
    let mut session = EndpointPair::meet(survey, request, stream)?;
    session.round_trips(WARM_UP)?;
    let trip = session.round_trips(WARM_UP)?;
    let rounds = (BATCH.as_nanos() / trip.as_nanos().max(1)).clamp(1, ROUNDS.into()) as u32;
    let mut latency = Vec::new();
    for _ in 0..BATCHES {
        latency.push(session.round_trips(rounds)?.as_secs_f64() * 1e6 / 2.0);
    }
    let written = session.transfers(EndpointPair::write)?;
    let read = session.transfers(EndpointPair::read)?;
    session.say(END)?;
    session.flush();
    Ok(FabricFigures {
        offer: survey.offers()[session.offer].clone(),
        reason: session.reason,
        latency: ValueSpread::of(latency),
        written,
        read,
    })
}

/// Two endpoints that know each other.
struct EndpointPair {
    endpoint: Endpoint,
    offer: usize,
    reason: String,
    peer: Peer,
    own: Region,
    remote: Remote,
}

impl EndpointPair {
    /// Opens an endpoint on the route to the peer, and exchanges addresses.
    fn meet(
        survey: &Survey,
        request: &ProviderRequest,
        stream: &mut TcpStream,
    ) -> Result<Self, Error> {
        let near = stream.local_addr().map_err(|error| lost(&error))?.ip().to_canonical();
        let one_host = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical() == near);
        let request = ProviderRequest { near: Some(near), one_host, ..request.clone() };
        let choice = choose(survey.offers(), &request);
        let offer = choice.offer(survey.offers(), &request)?;
        let mut endpoint = Endpoint::open(survey, offer, 4, 1 << 16)?;
        let own = endpoint.region(WINDOW * LARGE + size_of::<u64>())?;

        greet(stream, &endpoint, own.remote()).map_err(|error| lost(&error))?;
        let PeerGreeting { provider, address, remote } = PeerGreeting::read(stream)?;
        if provider != endpoint.provider() {
            return Err(Error::Peer(format!(
                "this side would use {} and the peer {provider}; set {} to the same on both",
                endpoint.provider(),
                crate::VARIABLE
            )));
        }
        let peer = endpoint.insert(&address)?;
        let reason = choice.reasons[offer].trim_start_matches("chosen: ").to_owned();
        Ok(Self { endpoint, offer, reason, peer, own, remote })
    }

    /// Polls until `take` accepts an event, while the peer gives signs of life.
    fn until<T>(
        &mut self,
        mut take: impl FnMut(EndpointCompletion<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        let mut since = Instant::now();
        let mut idle = 0_u32;
        loop {
            match self.endpoint.poll()? {
                Some(EndpointCompletion::Failed { error, .. }) => return Err(error),
                Some(event) => {
                    if let Some(taken) = take(event) {
                        return Ok(taken);
                    }
                    (since, idle) = (Instant::now(), 0);
                }
                None => {
                    idle += 1;
                    if idle.is_multiple_of(64) {
                        patient(since)?;
                        thread::yield_now();
                    }
                }
            }
        }
    }

    /// Posts until the provider accepts; drops other completions.
    fn post(
        &mut self,
        mut post: impl FnMut(&mut Self) -> Result<PostResult, Error>,
    ) -> Result<(), Error> {
        let since = Instant::now();
        while post(self)? == PostResult::Full {
            if let Some(EndpointCompletion::Failed { error, .. }) = self.endpoint.poll()? {
                return Err(error);
            }
            patient(since)?;
        }
        Ok(())
    }

    /// Sends a message of 8 bytes.
    fn say(&mut self, kind: u8) -> Result<(), Error> {
        let message = [kind; 8];
        if self.endpoint.inject_size() >= message.len() {
            return self.post(|session| session.endpoint.inject(session.peer, &message));
        }
        let place = WINDOW * LARGE;
        self.own.copy_in(place, &message);
        self.post(|session| {
            session.endpoint.send(session.peer, (&session.own, place, message.len()), SENT)
        })
    }

    /// Does `count` round trips. Returns the total time.
    fn round_trips(&mut self, count: u32) -> Result<Duration, Error> {
        let start = Instant::now();
        for _ in 0..count {
            self.say(PING)?;
            self.until(|event| matches!(event, EndpointCompletion::Message { .. }).then_some(()))?;
        }
        Ok(start.elapsed() / count)
    }

    /// Lets the provider send accepted messages: some make progress only within calls.
    fn flush(&mut self) {
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            if self.endpoint.poll().is_err() {
                return;
            }
        }
    }

    /// Times batches of large transfers.
    fn transfers(
        &mut self,
        batch: impl Fn(&mut Self) -> Result<(), Error>,
    ) -> Result<ValueSpread, Error> {
        batch(self)?;
        let mut rates = Vec::new();
        let begin = Instant::now();
        while rates.is_empty() || rates.len() < LARGE_BATCHES && begin.elapsed() < ENOUGH {
            let start = Instant::now();
            batch(self)?;
            rates.push((TRANSFERS * LARGE) as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
        Ok(ValueSpread::of(rates))
    }

    /// Writes a batch, until the peer reports that it has everything.
    fn write(&mut self) -> Result<(), Error> {
        let all = self.windows(|session, place, remote| {
            let from = (&session.own, place, LARGE);
            session.endpoint.write(session.peer, remote, from, Some(place as u64), TRANSFER)
        })?;
        if all {
            return Ok(());
        }
        self.until(|event| matches!(event, EndpointCompletion::Message { .. }).then_some(()))
    }

    /// Reads a batch.
    fn read(&mut self) -> Result<(), Error> {
        self.windows(|session, place, remote| {
            let into = (&session.own, place, LARGE);
            session.endpoint.read(session.peer, remote, into, TRANSFER)
        })?;
        Ok(())
    }

    /// Starts a batch of transfers, at most a window at a time, and waits for their completion.
    /// Returns whether a message of the peer arrived meanwhile.
    fn windows(
        &mut self,
        start: impl Fn(&mut Self, usize, Remote) -> Result<PostResult, Error>,
    ) -> Result<bool, Error> {
        let (mut started, mut done, mut message) = (0, 0, false);
        let mut since = Instant::now();
        while done < TRANSFERS {
            while started < TRANSFERS && started - done < WINDOW {
                let place = started % WINDOW * LARGE;
                let address = self.remote.address.wrapping_add(place as u64);
                let remote = Remote { address, key: self.remote.key };
                if start(self, place, remote)? == PostResult::Full {
                    break;
                }
                started += 1;
            }
            match self.endpoint.poll()? {
                Some(EndpointCompletion::Failed { error, .. }) => return Err(error),
                Some(EndpointCompletion::Done { token: TRANSFER }) => {
                    (done, since) = (done + 1, Instant::now());
                }
                Some(EndpointCompletion::Message { .. }) => message = true,
                Some(_) => {}
                None => patient(since)?,
            }
        }
        Ok(message)
    }
}

/// An error if nothing has arrived for too long.
fn patient(since: Instant) -> Result<(), Error> {
    if since.elapsed() < PATIENCE {
        return Ok(());
    }
    Err(Error::Peer(format!("the peer has been silent for {} s", PATIENCE.as_secs())))
}

fn lost(error: &io::Error) -> Error {
    Error::Peer(format!("the connection to the peer is lost: {error}"))
}

/// Sends this side's greeting: provider and addresses.
fn greet(stream: &mut TcpStream, endpoint: &Endpoint, remote: Remote) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = GREETING.to_vec();
    for word in [endpoint.provider().as_bytes(), endpoint.address()] {
        bytes.extend((word.len() as u16).to_le_bytes());
        bytes.extend(word);
    }
    bytes.extend(remote.to_bytes());
    stream.write_all(&bytes)
}

/// The peer's greeting.
#[derive(Debug, PartialEq, Eq)]
struct PeerGreeting {
    provider: String,
    address: Vec<u8>,
    remote: Remote,
}

impl PeerGreeting {
    fn read(stream: &mut impl Read) -> Result<Self, Error> {
        let mut start = [0; GREETING.len()];
        stream.read_exact(&mut start).map_err(|error| lost(&error))?;
        if start != *GREETING {
            return Err(Error::Peer(
                "whoever is at the other end is no `hikyaku fabric test` of this version".into(),
            ));
        }
        let provider = String::from_utf8_lossy(&word(stream)?).into_owned();
        let address = word(stream)?;
        let mut remote = [0; 16];
        stream.read_exact(&mut remote).map_err(|error| lost(&error))?;
        Ok(Self { provider, address, remote: Remote::from_bytes(remote) })
    }
}

fn word(stream: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).map_err(|error| lost(&error))?;
    let length = usize::from(u16::from_le_bytes(length));
    if length > LONGEST_WORD {
        return Err(Error::Peer(format!("the peer says a word of {length} bytes")));
    }
    let mut word = vec![0; length];
    stream.read_exact(&mut word).map_err(|error| lost(&error))?;
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_that_is_none_is_refused() {
        let mut good = GREETING.to_vec();
        good.extend(b"\x03\0tcp\x02\0ab");
        good.extend([1; 16]);
        let read = PeerGreeting::read(&mut &good[..]).unwrap();
        assert_eq!((read.provider.as_str(), &read.address[..]), ("tcp", &b"ab"[..]));
        assert_eq!(read.remote.to_bytes(), [1; 16]);
        for end in 0..good.len() {
            assert!(PeerGreeting::read(&mut &good[..end]).is_err(), "{end} bytes");
        }
        let refusal = |bytes: &[u8]| PeerGreeting::read(&mut &bytes[..]).unwrap_err().to_string();
        assert!(refusal(b"GET / HTTP/1.1\r\n\r\n").contains("no `hikyaku fabric test`"));
        let long = [&GREETING[..], &[0xff; 600]].concat();
        assert!(refusal(&long).contains("65535 bytes"));
    }

    #[test]
    fn a_spread_has_its_median_in_the_middle() {
        let spread = ValueSpread::of(vec![3.0, 1.0, 9.0]);
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 3.0, 9.0));
    }
}
