//! What a port says of itself, its rings, its peers and its waits: the values beside the calls.

use std::fmt;

use super::{PeerFailure, Rank};
use crate::time::Time;

/// What a landing ring or the status ring does with a message it has no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FullPolicy {
    /// It waits and the receiver is told (paper 000, DIMMnet-2).
    #[default]
    Stall,
    /// It is refused and the sender sends again (Martini's NACK, paper 000 §3).
    Refuse,
}

/// A landing ring as its owner sees it (IP-13: the host can read the AMT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingState {
    /// Capacity, bytes.
    pub size: u64,
    /// Free-running count of bytes released.
    pub head: u64,
    /// Free-running count of bytes landed.
    pub tail: u64,
    /// How many posts found it full and waited.
    pub stalls: u64,
    /// How many posts it refused.
    pub refusals: u64,
    /// What it does when full.
    pub policy: FullPolicy,
    /// Whether several sources may land in it.
    pub shared: bool,
}

/// What a fabric can do, so that the layers above choose without knowing its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The fabric's name, for messages to people.
    pub name: &'static str,
    /// Largest payload of one packet, bytes; larger posts become several.
    pub packet_bytes: usize,
    /// Messages that can wait in the status ring.
    pub status_slots: usize,
    /// Bytes of this rank's largest landing ring.
    pub ring_bytes: usize,
    /// Whether [`Port::read`](super::Port::read) and put reach
    /// [`Space::Region`](super::Space::Region) of every rank of the same node.
    pub region: bool,
    /// Whether they reach [`Space::Process`](super::Space::Process) as well, and from how many
    /// bytes that pays.
    pub process_from: Option<usize>,
    /// Commands with [`Reply::Event`](super::Reply::Event) whose event may be waiting
    /// (paper 003's rrid has six bits: 64).
    pub outstanding: usize,
}

/// How a peer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It has not opened its port yet. Messages to it land all the same.
    Starting,
    /// It is there.
    Running,
    /// It left in order; nothing further will come from it.
    Left,
    /// It died.
    Failed(PeerFailure),
}

/// What a rank is blocked in, for people who ask why a job stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// What it does.
    pub activity: Activity,
    /// What it does that with, in words: the collective or window operation, the shared variable.
    pub name: Name,
    /// The rank it waits for; `None` for any.
    pub peer: Option<Rank>,
    /// The message tag; `None` for any.
    pub tag: Option<i32>,
    /// How many operations it waits for. The other fields are of the first one.
    pub open: u32,
    /// The messages that nobody has asked for, if there are so many that senders have to wait.
    pub unmatched: Option<Unmatched>,
    /// Since when, on the fabric's clock. Whoever announces the wait fills it in.
    pub since: Time,
}

impl Wait {
    /// A wait for one operation, of which nothing more is known.
    pub const fn new(activity: Activity) -> Wait {
        Wait {
            activity,
            name: Name::NONE,
            peer: None,
            tag: None,
            open: 1,
            unmatched: None,
            since: Time::ZERO,
        }
    }

    /// The same for what has this name.
    #[must_use]
    pub const fn named(self, name: Name) -> Wait {
        Wait { name, ..self }
    }

    /// The same for this rank and tag; `None` for any.
    #[must_use]
    pub const fn with(self, peer: Option<Rank>, tag: Option<i32>) -> Wait {
        Wait { peer, tag, ..self }
    }
}

/// The kinds of blocking call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Sending: the receiver has no room, or has not posted the matching receive.
    Send = 1,
    /// Receiving.
    Receive = 2,
    /// Probing.
    Probe = 3,
    /// Polling a future of the program's own, in which no operation of the library is open.
    Future = 4,
    /// In a collective operation.
    Collective = 5,
    /// Acquiring a shared variable to write.
    AcquireToWrite = 6,
    /// Accessing a window.
    Window = 7,
    /// Leaving the job: what was sent is still to be posted.
    Leave = 8,
    /// Acquiring a shared variable to read.
    AcquireToRead = 9,
}

impl Activity {
    /// All of them.
    pub const ALL: [Activity; 9] = [
        Activity::Send,
        Activity::Receive,
        Activity::Probe,
        Activity::Future,
        Activity::Collective,
        Activity::AcquireToWrite,
        Activity::AcquireToRead,
        Activity::Window,
        Activity::Leave,
    ];
}

/// Messages at a rank that nobody has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmatched {
    /// How many.
    pub messages: u64,
    /// What they take, bytes.
    pub bytes: u64,
}

/// A short text that lies in itself: what is longer is cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; Name::BYTES]);

impl Name {
    /// Bytes of the longest.
    pub const BYTES: usize = 32;

    /// No text.
    pub const NONE: Name = Name([0; Name::BYTES]);

    /// As much of a text as there is room for.
    pub const fn new(text: &str) -> Name {
        let mut length = if text.len() < Name::BYTES { text.len() } else { Name::BYTES };
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let (mut bytes, mut at) = ([0; Name::BYTES], 0);
        while at < length {
            bytes[at] = text.as_bytes()[at];
            at += 1;
        }
        Name(bytes)
    }

    /// The text. What somebody else has written may not be one: nothing then.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Name::BYTES);
        let text = std::str::from_utf8(&self.0[..end]).unwrap_or("");
        if text.contains(char::is_control) { "" } else { text }
    }

    /// As words, to be kept where there are only words.
    pub fn to_words(self) -> [u64; Name::BYTES / 8] {
        std::array::from_fn(|at| {
            u64::from_le_bytes(std::array::from_fn(|byte| self.0[8 * at + byte]))
        })
    }

    /// The name of these words.
    pub fn from_words(words: [u64; Name::BYTES / 8]) -> Name {
        Name(std::array::from_fn(|at| words[at / 8].to_le_bytes()[at % 8]))
    }
}

impl From<fmt::Arguments<'_>> for Name {
    fn from(text: fmt::Arguments<'_>) -> Name {
        Name::new(&text.to_string())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What [`Port::receive_whole`](super::Port::receive_whole) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// The message, of so many bytes; it was taken.
    Taken(usize),
    /// Nothing has arrived from that source. Look again soon.
    Nothing,
    /// Something else, or nothing can be said: [`Port::poll`](super::Port::poll) tells.
    Other,
}

/// Why `park` returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// There may be something to poll, or it was only a short wait: look again.
    Look,
    /// The rank was asleep, perhaps for long: look again, also at what is looked at only now and
    /// then. Counting waits does not tell: a hundred of them are a microsecond or ten seconds.
    Slept,
    /// The deadline has passed.
    Deadline,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(Name::new("field").as_str(), "field");
        assert_eq!(Name::new(&"x".repeat(40)).as_str(), "x".repeat(32));
        assert_eq!(Name::new(&"飛".repeat(11)).as_str(), "飛".repeat(10));
        assert_eq!(Name::NONE.as_str(), "");
    }

    #[test]
    fn words_that_are_no_text_give_no_name() {
        let name = Name::new("row 7");
        assert_eq!(Name::from_words(name.to_words()), name);
        assert_eq!(Name::from_words([u64::MAX; 4]).as_str(), "");
        assert_eq!(Name::from_words([0x1b, 0, 0, 0]).as_str(), "");
    }
}
