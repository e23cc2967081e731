//! What a port says of itself, its rings, its peers and its waits: the values beside the calls.

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
    /// The rank it waits for; `None` for any.
    pub peer: Option<Rank>,
    /// The message tag; `None` for any.
    pub tag: Option<i32>,
    /// Since when, on the fabric's clock.
    pub since: Time,
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
    /// Waiting for one of several requests.
    Requests = 4,
    /// In a collective operation.
    Collective = 5,
    /// Acquiring a shared variable.
    Acquire = 6,
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
