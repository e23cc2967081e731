//! The values that a port reports: about itself, its rings, its peers and its waits.

use std::fmt;

use super::{PeerFailure, Rank};
use crate::time::Time;

/// The policy of a landing ring or the status ring when a message finds no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FullPolicy {
    /// The message waits and the receiver is notified (paper 000, DIMMnet-2).
    #[default]
    Stall,
    /// The message is refused and the sender sends again (Martini's NACK, paper 000 §3).
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
    /// The number of posts that found the ring full and waited.
    pub stalls: u64,
    /// The number of posts that the ring refused.
    pub refusals: u64,
    /// The policy when the ring is full.
    pub policy: FullPolicy,
    /// Whether several sources may land in it.
    pub shared: bool,
}

/// The abilities of a fabric, so that the layers above need not know its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The fabric's name, for messages to the user.
    pub name: &'static str,
    /// Largest payload of one packet, bytes; larger posts become several.
    pub packet_bytes: usize,
    /// Messages that can wait in the status ring.
    pub status_slots: usize,
    /// Bytes of this rank's largest landing ring.
    pub ring_bytes: usize,
    /// Whether [`CopyPort::read`](super::CopyPort::read) and put reach
    /// [`Space::Region`](super::Space::Region) of every rank of the same node.
    pub region: bool,
    /// The length in bytes from which read and put to [`Space::Process`](super::Space::Process) are
    /// worthwhile too. `None`: they do not reach it.
    pub process_from: Option<usize>,
    /// Whether ranks can open mailboxes now ([`MailboxPort`](super::MailboxPort)).
    pub mailboxes: bool,
    /// Whether time is virtual: it passes only for operations that a model knows.
    pub virtual_time: bool,
    /// Limit of commands with [`Reply::Event`](super::Reply::Event) whose event was not polled
    /// (paper 003's rrid has six bits: 64).
    pub outstanding: usize,
}

/// The state of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It has not opened its port yet. Messages to it land nevertheless.
    Starting,
    /// It runs.
    Running,
    /// It left in order and sends nothing more.
    Left,
    /// It died.
    Failed(PeerFailure),
}

/// Separates the object of a call from the communicator: no operation's name contains it.
const WITHIN: char = '@';

/// The reason why a rank is blocked, for users who ask why a job does not proceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The kind of call.
    pub activity: Activity,
    /// The object of the call, in words: the collective or window operation, or the shared
    /// variable. Once announced, it includes the communicator, if there is one ([`Wait::within`]).
    pub name: Name,
    /// The rank it waits for; `None` for any.
    pub peer: Option<Rank>,
    /// The message tag; `None` for any. Of a shared variable that has several parts, the part.
    pub tag: Option<i32>,
    /// The context of its messages, which identifies the communicator within a rank. Not announced.
    pub context: Option<u32>,
    /// The number of operations that it waits for. The other fields describe the first one.
    pub open: u32,
    /// The unmatched messages, if there are so many that senders have to wait.
    pub unmatched: Option<Unmatched>,
    /// The start of the wait, on the fabric's clock. The caller of `announce_wait` fills it in.
    pub since: Time,
    /// Set if the program is not in a blocking call but in a loop of polling calls: the time of the
    /// last poll that found nothing. The end of such a loop is not announced.
    pub polled: Option<Time>,
}

impl Wait {
    /// A wait for one operation, without details.
    pub const fn new(activity: Activity) -> Wait {
        Wait {
            activity,
            name: Name::NONE,
            peer: None,
            tag: None,
            context: None,
            open: 1,
            unmatched: None,
            since: Time::ZERO,
            polled: None,
        }
    }

    /// The same wait with this name.
    #[must_use]
    pub const fn named(self, name: Name) -> Wait {
        Wait { name, ..self }
    }

    /// The same wait with this rank and tag; `None` for any.
    #[must_use]
    pub const fn with(self, peer: Option<Rank>, tag: Option<i32>) -> Wait {
        Wait { peer, tag, ..self }
    }

    /// The same wait for messages of this context.
    #[must_use]
    pub const fn on(self, context: u32) -> Wait {
        Wait { context: Some(context), ..self }
    }

    /// The same wait within a communicator, whose name is cut to the bytes that the object leaves.
    #[must_use]
    pub fn within(self, communicator: Name) -> Wait {
        match communicator {
            Name::NONE => self,
            _ if !self.is_of_messages() => self,
            _ => self.named(format_args!("{}{WITHIN}{communicator}", self.name).into()),
        }
    }

    /// The object of the call and the communicator, in words; empty if there is none.
    pub fn names(&self) -> (&str, &str) {
        let name = self.name.as_str();
        let divided = name.split_once(WITHIN).filter(|_| self.is_of_messages());
        divided.unwrap_or((name, ""))
    }

    /// Whether the activity concerns messages: then the library chose the object's name (it may be
    /// empty), and a communicator may follow it.
    fn is_of_messages(&self) -> bool {
        use Activity::{Collective, Probe, Receive, Send};
        matches!(self.activity, Send | Receive | Probe | Collective)
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
    /// Polling a future of the program's own, with no operation of the library in progress.
    Future = 4,
    /// In a collective operation.
    Collective = 5,
    /// Acquiring a shared variable to write.
    AcquireToWrite = 6,
    /// Accessing a window.
    Window = 7,
    /// Leaving the job: some sends have not been posted yet.
    Leave = 8,
    /// Acquiring a shared variable to read.
    AcquireToRead = 9,
    /// Accessing memory of a shared variable: a command to another rank finds no room.
    Shared = 10,
}

impl Activity {
    /// All activities.
    pub const ALL: [Activity; 10] = [
        Activity::Send,
        Activity::Receive,
        Activity::Probe,
        Activity::Future,
        Activity::Collective,
        Activity::AcquireToWrite,
        Activity::AcquireToRead,
        Activity::Shared,
        Activity::Window,
        Activity::Leave,
    ];
}

/// Messages that arrived at a rank before a matching receive was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmatched {
    /// The number of messages.
    pub messages: u64,
    /// Their size, bytes.
    pub bytes: u64,
}

/// Packets from other hosts that a rank has dropped, for users who ask why a job does not proceed:
/// a rank that waits for the content of such a packet waits for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedPackets {
    /// Packets without the job's key or with another format, and packets that the provider could
    /// not receive or did not expect. Their sources are unknown.
    pub strange: u32,
    /// Packets that name a rank of the job as their source.
    pub wrong: u32,
    /// The source that the last of these named, and why it was dropped.
    pub last: Option<(Rank, DropCause)>,
}

impl DroppedPackets {
    /// Counts a packet that names a rank of the job. `None`: it follows from one counted before.
    pub fn note(&mut self, source: Rank, cause: Option<DropCause>) {
        self.wrong = self.wrong.saturating_add(1);
        self.last = cause.map(|cause| (source, cause)).or(self.last);
    }

    /// Counts a packet whose source is unknown.
    pub fn note_strange(&mut self) {
        self.strange = self.strange.saturating_add(1);
    }
}

/// Why a packet of a rank of the job was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DropCause {
    /// It names a source or a lane that does not exist.
    Source = 1,
    /// A number in it is impossible. The link to its source broke with it.
    Number = 2,
    /// It is neither a message nor a reply nor a request.
    Content = 3,
    /// The tables of its receiver refuse its request.
    Refused = 4,
}

impl DropCause {
    /// All causes.
    pub const ALL: [DropCause; 4] =
        [DropCause::Source, DropCause::Number, DropCause::Content, DropCause::Refused];
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DropCause::Source => "its source cannot be",
            DropCause::Number => "a number in it is impossible",
            DropCause::Content => "its content means nothing",
            DropCause::Refused => "the receiver's tables refuse it",
        })
    }
}

/// A short text stored in place. A longer one is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; Name::BYTES]);

impl Name {
    /// Length of the longest text, bytes.
    pub const BYTES: usize = 32;

    /// No text.
    pub const NONE: Name = Name([0; Name::BYTES]);

    /// The start of a text, as much as fits.
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

    /// The text; empty if the bytes, which another process may have written, are not UTF-8.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Name::BYTES);
        let text = std::str::from_utf8(&self.0[..end]).unwrap_or("");
        if text.contains(char::is_control) { "" } else { text }
    }

    /// " on host NAME" if this is the name of a host; nothing if it is no text.
    pub fn as_place(&self) -> String {
        match self.as_str() {
            "" => String::new(),
            host => format!(" on host {host}"),
        }
    }

    /// The text as words, for memory that is made of words.
    pub fn to_words(self) -> [u64; Name::BYTES / 8] {
        std::array::from_fn(|at| {
            u64::from_le_bytes(std::array::from_fn(|byte| self.0[8 * at + byte]))
        })
    }

    /// The name in these words.
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

/// The result of [`Port::receive_whole`](super::Port::receive_whole).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// The message was taken; its length, bytes.
    Taken(usize),
    /// Nothing has arrived from that source. Retry soon.
    Nothing,
    /// The next record of that source has this other header.
    Differs(u64),
    /// A record of another kind, or unknown: call [`Port::poll`](super::Port::poll).
    Other,
}

/// Why `park` returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// There may be an event, or the wait was only short: poll again.
    Look,
    /// The rank was asleep, perhaps for long: poll again, including whatever is polled only rarely.
    /// Counting waits does not show this: a hundred waits take a microsecond or ten seconds.
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
    fn a_communicator_takes_what_the_object_of_a_call_leaves() {
        let within = |activity, object: &str, communicator: &str| {
            let wait = Wait::new(activity).named(Name::new(object));
            let wait = wait.within(Name::new(communicator));
            let (object, communicator) = wait.names();
            (object.to_owned(), communicator.to_owned())
        };
        let is = |object: &str, communicator: &str| (object.to_owned(), communicator.to_owned());
        assert_eq!(within(Activity::Receive, "", "a@b"), is("", "a@b"));
        assert_eq!(within(Activity::Collective, "barrier", ""), is("barrier", ""));
        let (long, rest) = ("reduce (root 4095)", "x".repeat(13));
        assert_eq!(within(Activity::Collective, long, &"x".repeat(32)), is(long, &rest));
        assert_eq!(within(Activity::AcquireToRead, "a@b", ""), is("a@b", ""));
        assert_eq!(within(Activity::Window, "get", "rows"), is("get", ""));
    }

    #[test]
    fn invalid_utf8_gives_an_empty_name() {
        let name = Name::new("row 7");
        assert_eq!(Name::from_words(name.to_words()), name);
        assert_eq!(Name::from_words([u64::MAX; 4]).as_str(), "");
        assert_eq!(Name::from_words([0x1b, 0, 0, 0]).as_str(), "");
    }
}
