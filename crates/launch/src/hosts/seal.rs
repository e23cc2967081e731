//! Proofs that both ends of a connection know the job's secret, and seals on its frames. Pure.
//!
//! ```text
//!   daemon                                          its parent
//!     │ hello: magic | host | nonce ─────────────────► │
//!     │ ◄───────── challenge: nonce | proof of "parent" │
//!     │ proof of "daemon" ───────────────────────────► │   then frames, a seal behind each
//! ```
//!
//! A proof is an HMAC-SHA256 (RFC 2104, FIPS 198-1), keyed with the secret, over the prover's role,
//! the host and both nonces. So no proof is valid for another connection, another host or the other
//! end. The keys of the seals, one for each direction, are derived in the same way. A seal covers
//! the frame's number and bytes: it does not match a frame that is changed, omitted, repeated or
//! inserted. Frames are not encrypted. Comparisons take constant time.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::bytes::{Malformed, Value, take_bytes};

/// The beginning of a hello. Changes with the format of the exchange.
const MAGIC: [u8; 8] = *b"hikyaku1";

/// Bytes of a nonce, of a proof and of a seal.
pub(super) const SEAL_BYTES: usize = 32;

/// Bytes of a daemon's first message.
pub(super) const HELLO_BYTES: usize = MAGIC.len() + 4 + SEAL_BYTES;

/// Bytes of the answer to it.
pub(super) const CHALLENGE_BYTES: usize = 2 * SEAL_BYTES;

/// A random number that is used once.
pub(super) type Nonce = [u8; SEAL_BYTES];

/// A secret that only the launcher and the daemons of a job know. It is not the key of the ranks'
/// packets, because each packet carries that key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) [u8; SEAL_BYTES]);

/// Plans appear in the messages of failed assertions, so this must not print the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Value for Secret {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(Secret(Value::take(from)?))
    }
}

/// A daemon's end of the exchange until it is authenticated.
pub(super) struct Hello {
    secret: Secret,
    host: u32,
    nonce: Nonce,
}

impl Hello {
    /// The hello of the daemon of this host. The nonce is random.
    pub(super) fn new(secret: &Secret, host: u32, nonce: Nonce) -> Hello {
        Hello { secret: secret.clone(), host, nonce }
    }

    /// The daemon's first message.
    pub(super) fn message(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        self.host.put(&mut out);
        self.nonce.put(&mut out);
        out
    }

    /// The answer to a challenge, if the other end knows the secret.
    ///
    /// # Errors
    /// The other end does not know the secret.
    pub(super) fn answer(&self, challenge: &[u8]) -> Result<(Nonce, Seals), Malformed> {
        let mut from = challenge;
        let (of_parent, proof) = <(Nonce, Nonce)>::take(&mut from)?;
        let exchange = Exchange::new(&self.secret, self.host, &self.nonce, &of_parent);
        verify(exchange.of("parent"), &proof)?;
        Ok((finish(exchange.of("daemon")), exchange.seals()))
    }
}

/// A parent's end of the exchange until the daemon is authenticated.
pub(super) struct Challenge {
    /// The host that the other end claims.
    pub(super) host: u32,
    nonce: Nonce,
    exchange: Exchange,
}

impl Challenge {
    /// The challenge for this hello. The nonce is random.
    ///
    /// # Errors
    /// The bytes are not a hello.
    pub(super) fn new(secret: &Secret, hello: &[u8], nonce: Nonce) -> Result<Challenge, Malformed> {
        let mut from = hello;
        if take_bytes(&mut from, MAGIC.len())? != MAGIC {
            return Err(Malformed("not a hello of a daemon"));
        }
        let (host, of_daemon) = <(u32, Nonce)>::take(&mut from)?;
        let exchange = Exchange::new(secret, host, &of_daemon, &nonce);
        Ok(Challenge { host, nonce, exchange })
    }

    /// The message that proves this end and asks for the daemon's proof.
    pub(super) fn message(&self) -> Vec<u8> {
        [self.nonce, finish(self.exchange.of("parent"))].concat()
    }

    /// Checks the daemon's proof.
    ///
    /// # Errors
    /// The daemon does not know the secret.
    pub(super) fn check(&self, proof: &[u8]) -> Result<Seals, Malformed> {
        verify(self.exchange.of("daemon"), proof)?;
        Ok(self.exchange.seals())
    }
}

/// The values that both ends of a connection have exchanged.
struct Exchange {
    /// Keyed with the secret.
    mac: Hmac<Sha256>,
    /// The host and both nonces, of a fixed length.
    said: Vec<u8>,
}

impl Exchange {
    fn new(secret: &Secret, host: u32, of_daemon: &Nonce, of_parent: &Nonce) -> Exchange {
        Exchange {
            mac: keyed(&secret.0),
            said: [&host.to_le_bytes()[..], of_daemon, of_parent].concat(),
        }
    }

    /// The authentication code for one purpose.
    fn of(&self, purpose: &str) -> Hmac<Sha256> {
        self.mac.clone().chain_update(purpose).chain_update(&self.said)
    }

    fn seals(&self) -> Seals {
        let of = |purpose| Seal { mac: keyed(&finish(self.of(purpose))), count: 0 };
        Seals { down: of("frames down"), up: of("frames up") }
    }
}

/// The seals of both directions of a connection.
pub(super) struct Seals {
    /// Towards the daemon.
    pub(super) down: Seal,
    /// Towards its parent.
    pub(super) up: Seal,
}

/// One end of one direction.
pub(super) struct Seal {
    mac: Hmac<Sha256>,
    /// Number of frames so far.
    count: u64,
}

impl Seal {
    /// The seal of the next frame.
    pub(super) fn next(&mut self, frame: &[u8]) -> [u8; SEAL_BYTES] {
        finish(self.of(frame))
    }

    /// Checks the seal of the next frame.
    ///
    /// # Errors
    /// The seal is wrong. Nothing that follows can be trusted.
    pub(super) fn check(&mut self, frame: &[u8], seal: &[u8]) -> Result<(), Malformed> {
        verify(self.of(frame), seal)
    }

    fn of(&mut self, frame: &[u8]) -> Hmac<Sha256> {
        let number = self.count;
        self.count += 1;
        self.mac.clone().chain_update(number.to_le_bytes()).chain_update(frame)
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key may have any length")
}

fn finish(mac: Hmac<Sha256>) -> Nonce {
    mac.finalize().into_bytes().into()
}

fn verify(mac: Hmac<Sha256>, code: &[u8]) -> Result<(), Malformed> {
    mac.verify_slice(code).map_err(|_| Malformed("not by who knows the job's secret"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SECRET: Secret = Secret([7; 32]);

    /// Both ends of a connection to the daemon of host 3, with nonces filled with these bytes.
    fn connected(of_daemon: u8, of_parent: u8) -> (Nonce, Seals, Seals) {
        let hello = Hello::new(&SECRET, 3, [of_daemon; 32]);
        let challenge = Challenge::new(&SECRET, &hello.message(), [of_parent; 32]).unwrap();
        assert_eq!(challenge.host, 3);
        let (proof, own) = hello.answer(&challenge.message()).unwrap();
        (proof, own, challenge.check(&proof).unwrap())
    }

    /// The expected value is from RFC 4231, test case 1.
    #[test]
    fn codes_are_those_of_the_standard() {
        let code = finish(keyed(&[0x0b; 20]).chain_update("Hi There"));
        let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[test]
    fn both_ends_that_know_the_secret_seal_alike() {
        let (_, mut daemon, mut parent) = connected(1, 2);
        for frame in [b"a", b"b", b"b"] {
            parent.up.check(frame, &daemon.up.next(frame)).unwrap();
            daemon.down.check(frame, &parent.down.next(frame)).unwrap();
        }
    }

    #[test]
    fn another_secret_is_refused_by_either_end() {
        let hello = Hello::new(&Secret([8; 32]), 3, [1; 32]);
        let challenge = Challenge::new(&SECRET, &hello.message(), [2; 32]).unwrap();
        assert!(hello.answer(&challenge.message()).is_err(), "the parent is a stranger");
        let own = Challenge::new(&Secret([8; 32]), &hello.message(), [2; 32]).unwrap();
        let (proof, _) = hello.answer(&own.message()).unwrap();
        assert!(challenge.check(&proof).is_err(), "the daemon is a stranger");
    }

    #[test]
    fn a_proof_fits_its_own_connection_host_and_end_only() {
        let (proof, ..) = connected(1, 2);
        let challenge = |host, of_daemon, of_parent| {
            let hello = Hello::new(&SECRET, host, [of_daemon; 32]);
            Challenge::new(&SECRET, &hello.message(), [of_parent; 32]).unwrap()
        };
        assert!(challenge(3, 1, 2).check(&proof).is_ok());
        for (host, of_daemon, of_parent) in [(4, 1, 2), (3, 9, 2), (3, 1, 9), (3, 2, 1)] {
            let refused = challenge(host, of_daemon, of_parent).check(&proof);
            assert!(refused.is_err(), "{host} {of_daemon} {of_parent}");
        }
        // A parent's own proof, reflected.
        let mirrored = challenge(3, 1, 2);
        assert!(mirrored.check(&mirrored.message()[SEAL_BYTES..]).is_err());
        // A challenge of another connection, sent to a daemon.
        let hello = Hello::new(&SECRET, 3, [5; 32]);
        assert!(hello.answer(&challenge(3, 1, 2).message()).is_err());
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        let hello = Hello::new(&SECRET, 3, [1; 32]);
        let message = hello.message();
        assert_eq!(message.len(), HELLO_BYTES);
        for end in 0..HELLO_BYTES {
            assert!(Challenge::new(&SECRET, &message[..end], [2; 32]).is_err(), "{end}");
        }
        assert!(Challenge::new(&SECRET, &[b'x'; HELLO_BYTES], [2; 32]).is_err());
        let challenge = Challenge::new(&SECRET, &message, [2; 32]).unwrap();
        let asked = challenge.message();
        assert_eq!(asked.len(), CHALLENGE_BYTES);
        let (proof, _) = hello.answer(&asked).unwrap();
        for at in 0..CHALLENGE_BYTES {
            assert!(hello.answer(&asked[..at]).is_err(), "{at}");
            let mut changed = asked.clone();
            changed[at] ^= 1;
            assert!(hello.answer(&changed).is_err(), "{at}");
        }
        for at in 0..SEAL_BYTES {
            assert!(challenge.check(&proof[..at]).is_err(), "{at}");
            let mut changed = proof;
            changed[at] ^= 0x80;
            assert!(challenge.check(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn a_secret_is_not_written_anywhere() {
        assert_eq!(format!("{SECRET:?}"), "Secret");
    }
}
