//! The daemon's greeting: a line of text that every version understands. Pure.
//!
//! ```text
//!   STX "hikyaku-daemon" protocol=1 version=0.1.0 build=x86_64-release byte-order=little clock=…
//!       machine=…
//! ```
//!
//! The parent skips any bytes before the line, such as a banner or the output of a shell's start-up
//! file. Frames follow the line.

use super::bytes::Malformed;

/// The version of the frame format. Changes with it.
const PROTOCOL: u32 = 3;

/// The beginning of the line. No banner contains the first byte.
const BEGIN: &str = "\u{2}hikyaku-daemon ";

/// Maximum bytes before and in the line. Anything longer is not from a daemon.
pub(super) const MOST_BYTES: usize = 64 << 10;

/// How far clocks may differ before a warning, in milliseconds.
const CLOCKS_APART_MS: u64 = 60_000;

/// A daemon's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    protocol: String,
    version: String,
    build: String,
    byte_order: String,
    /// Milliseconds since 1970.
    clock_ms: u64,
    /// Hosts with the same text, if it is not empty, share their processors.
    machine: String,
}

impl Greeting {
    /// The greeting of this program at this time, on these processors.
    pub(super) fn own(clock_ms: u64, machine: String) -> Greeting {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let byte_order = if cfg!(target_endian = "little") { "little" } else { "big" };
        Greeting {
            protocol: PROTOCOL.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: format!("{}-{profile}", std::env::consts::ARCH),
            byte_order: byte_order.to_owned(),
            clock_ms,
            machine,
        }
    }

    pub(super) fn line(&self) -> String {
        let Greeting { protocol, version, build, byte_order, clock_ms, machine } = self;
        format!(
            "{BEGIN}protocol={protocol} version={version} build={build} byte-order={byte_order} \
             clock={clock_ms} machine={machine}\n"
        )
    }

    /// Finds the line in the received bytes. Returns the greeting and the position of its end.
    ///
    /// # Errors
    /// The bytes are not from a daemon.
    pub(super) fn find(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, Malformed> {
        let begin = BEGIN.as_bytes();
        let at = bytes.windows(begin.len()).position(|window| window == begin);
        let whole = at.and_then(|at| {
            let length = bytes[at..].iter().position(|&byte| byte == b'\n')?;
            Some((&bytes[at + begin.len()..at + length], at + length + 1))
        });
        match whole {
            Some((line, end)) => Ok(Some((Greeting::parse(line)?, end))),
            None if bytes.len() > MOST_BYTES => Err(Malformed("much text and no greeting")),
            None => Ok(None),
        }
    }

    fn parse(line: &[u8]) -> Result<Greeting, Malformed> {
        let line = std::str::from_utf8(line).map_err(|_| Malformed("a greeting of no text"))?;
        let field = |name: &str| {
            let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.map(str::to_owned).ok_or(Malformed("a greeting that lacks a part"))
        };
        let clock = field("clock")?.parse();
        Ok(Greeting {
            protocol: field("protocol")?,
            version: field("version")?,
            build: field("build")?,
            byte_order: field("byte-order")?,
            clock_ms: clock.map_err(|_| Malformed("a greeting without the time"))?,
            // Daemons of protocol 2 and before do not say it, and must be recognised as such.
            machine: field("machine").unwrap_or_default(),
        })
    }

    /// The processors of its host; empty if they are not known.
    pub(super) fn machine(&self) -> &str {
        &self.machine
    }

    /// The reason why that daemon and this program cannot work together, if there is one.
    pub(super) fn differs(&self, own: &Greeting) -> Option<String> {
        let versions = |it: &Greeting| format!("{} (protocol {})", it.version, it.protocol);
        let differing = [
            ("version", versions(self), versions(own)),
            ("byte order", self.byte_order.clone(), own.byte_order.clone()),
            ("build", self.build.clone(), own.build.clone()),
        ];
        let (what, its, ours) = differing.into_iter().find(|(_, its, ours)| its != ours)?;
        Some(format!(
            "its hikyaku has {what} {its}, this one {ours}: install the same on all hosts"
        ))
    }

    /// A warning if the daemon's clock is too far from this program's.
    pub(super) fn clock_warning(&self, own: &Greeting) -> Option<String> {
        let apart = self.clock_ms.abs_diff(own.clock_ms);
        let how = if self.clock_ms < own.clock_ms { "behind" } else { "ahead of" };
        (apart >= CLOCKS_APART_MS)
            .then(|| format!("its clock is {} s {how} this host's", apart / 1000))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn it_is_found_behind_a_banner_and_in_pieces() {
        let own = Greeting::own(5, "m".into());
        let text = format!("Welcome!\nprompt> {}rest", own.line());
        for end in 0..text.len() {
            let found = Greeting::find(&text.as_bytes()[..end]).unwrap();
            let whole = end >= text.len() - "rest".len();
            assert_eq!(found, whole.then(|| (own.clone(), text.len() - 4)), "{end}");
        }
        assert_eq!(own.differs(&own), None);
    }

    #[test]
    fn what_differs_is_named() {
        let own = Greeting::own(1_000_000, String::new());
        let other = Greeting { version: "9.9".into(), ..own.clone() };
        assert!(other.differs(&own).unwrap().starts_with("its hikyaku has version 9.9 (protocol"));
        let other = Greeting { byte_order: "big".into(), ..own.clone() };
        assert!(other.differs(&own).unwrap().contains("byte order big, this one little"));
        let other = Greeting { clock_ms: 700_000, ..own.clone() };
        assert_eq!(other.differs(&own), None);
        let warning = other.clock_warning(&own).unwrap();
        assert_eq!(warning, "its clock is 300 s behind this host's");
        assert_eq!(own.clock_warning(&own), None);
    }

    #[test]
    fn what_is_no_greeting_ends_it() {
        assert!(Greeting::find(&vec![b'x'; MOST_BYTES + 1]).is_err());
        for bad in ["", "protocol=1 version=1", "protocol=1 version=1 build=b byte-order=l clock=x"]
        {
            assert!(Greeting::find(format!("{BEGIN}{bad}\n").as_bytes()).is_err(), "{bad}");
        }
    }
}
