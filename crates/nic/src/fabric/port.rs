//! The port: one rank's side of a fabric.

use super::{
    Capabilities, ChainError, Command, Event, FullPolicy, Name, PeerState, PostError, Rank, RingId,
    RingSlice, RingState, Short, TableError, Wait, Wake,
};
use crate::time::Time;

/// One rank's side of a fabric: its doorbell, its status ring, its clock.
///
/// A port belongs to one thread at a time. Not async: the layers above turn it into futures.
///
/// Every fabric must have these operations. Optional ones are capability traits beside it:
/// [`RingPort`], [`CopyPort`](super::CopyPort), [`MemoryPort`](super::MemoryPort),
/// [`QueuePort`](super::QueuePort), [`MailboxPort`](super::MailboxPort),
/// [`GroupPort`](super::GroupPort). A fabric that implements one may still lack room for it in a
/// job: the layout gives the number of queues and groups, and [`Capabilities::mailboxes`] says
/// whether mailboxes work.
pub trait Port {
    /// This rank.
    fn rank(&self) -> Rank;

    /// The number of ranks of the job.
    fn size(&self) -> u32;

    /// The (possibly virtual) node a rank lives on. Ranks of different nodes reach each other
    /// only through commands, never by copies ([`CopyPort`](super::CopyPort)).
    fn node_of(&self, rank: Rank) -> u32;

    /// The host name of a rank, in a job of several hosts.
    fn host_name(&self, rank: Rank) -> Name {
        let _ = rank;
        Name::NONE
    }

    /// The abilities of this fabric.
    fn capabilities(&self) -> Capabilities;

    /// Rings the doorbell for one command.
    ///
    /// Returns how many payload bytes were taken. That is all of them or, for a send with a record
    /// per packet, as many as found room (at least one); the caller posts the rest later with an
    /// advanced `offset`. With [`Granularity::PerMessage`](super::Granularity::PerMessage) it is
    /// all or nothing.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError>;

    /// Sends a whole message, which needs credit, in its status record alone or, up to
    /// [`SHORT_BYTES`](super::SHORT_BYTES), in a few records. This is the fast path: it writes only
    /// those records. Returns whether that was possible now. If not, nothing was taken;
    /// [`Port::post`] sends the message or returns the reason.
    fn post_short(&mut self, destination: Rank, protocol: u8, header: u64, payload: &[u8]) -> bool {
        let _ = (destination, protocol, header, payload);
        false
    }

    /// Rings the doorbell once for several commands, executed in order (paper 004's TCW chain).
    ///
    /// # Errors
    /// Returns how many commands (and bytes of the next) were taken.
    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError>;

    /// The next event, in order of arrival. `None`: nothing has arrived.
    fn poll(&mut self) -> Option<Event>;

    /// Takes the next record of `source` and copies it to `into`, if it is a whole message with
    /// exactly this protocol and header and fits.
    ///
    /// The fast path of a receive that names its source: it reads only that source's line and makes
    /// no event. It may overtake other sources' records, never the same source's.
    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        let _ = (source, protocol, header, into);
        Short::Other
    }

    /// Copies payload bytes out of a landing ring, from byte `offset` of the slice on, until `into`
    /// is full or the slice ends. Returns the number of bytes copied.
    fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize;

    /// Returns the bytes to the ring (the host advances the head, IP-12).
    fn release(&mut self, slice: RingSlice);

    /// Copies out and releases in one request; the interface advances the head on completion
    /// (IP-12's second form). Returns the number of bytes copied.
    fn read_out(&mut self, slice: RingSlice, into: &mut [u8]) -> usize {
        let copied = self.copy_out(&slice, 0, into);
        self.release(slice);
        copied
    }

    /// Allows `source` to have sent `messages` credited sends in total since the start. Never
    /// lowers an earlier grant. Every source starts with the credit of the fabric's set-up.
    fn grant(&mut self, source: Rank, messages: u64);

    /// The next source that has waited for credit or room since this call last returned it. Cheap
    /// when none has, for any number of ranks.
    fn held_up(&mut self) -> Option<Rank>;

    /// The ring in which messages of `source` land.
    fn route_of(&self, source: Rank) -> Option<RingId>;

    /// The ring in which a source waits for room, if it waits. The source may have named another
    /// ring than [`Port::route_of`] returns.
    fn awaited_ring(&self, source: Rank) -> Option<RingId> {
        self.route_of(source)
    }

    /// The state of a peer. Cheap, but not free: for waiting loops, not for every message.
    fn peer(&self, rank: Rank) -> PeerState;

    /// How many ranks have left or died so far. Cheap enough for every turn of a waiting loop. A
    /// fabric that does not count returns a number above zero.
    fn departures(&self) -> u64 {
        1
    }

    /// Whether this is a copy of the port in a forked child of the rank's process. The child is not
    /// a rank and must not use the port. Cheap enough for every message.
    fn is_forked(&self) -> bool {
        false
    }

    /// Whether more ranks share this rank's processors than there are processors. Then a peer that
    /// it waits for most likely cannot run before this rank parks, so the rank polls once and
    /// parks. Also true if the last poll was a system call, as polling a network is. Cheap enough
    /// for every unsuccessful poll.
    fn is_crowded(&self) -> bool {
        false
    }

    /// The fabric's clock.
    fn now(&self) -> Time;

    /// Announces the reason why this rank is blocked; `None` ends that. For waits that have become
    /// long: it costs a cache line.
    fn announce_wait(&self, wait: Option<Wait>);

    /// Waits a little for an event: spins, yields or sleeps, longer the longer the caller has been
    /// idle. Call it when `poll` returned nothing, then poll again.
    fn park(&mut self, deadline: Option<Time>) -> Wake;
}

/// A port that lets the program assign landing rings to sources (paper 000's AMT).
pub trait RingPort: Port {
    /// Directs later messages of `source` to `ring`; `None` unmaps it (IP-13, IP-25). Messages that
    /// have landed stay where they are, and messages keep their order, which is the order of the
    /// records, whatever ring their payloads are in. A private ring can be reassigned once its last
    /// source has finished every post that began before it was directed elsewhere.
    ///
    /// # Errors
    /// The source or ring does not exist, the ring is or was private to another source, or there is
    /// no memory for it. Nothing has changed then.
    fn route(&mut self, source: Rank, ring: Option<RingId>) -> Result<(), TableError>;

    /// Sets the policy of a ring of this rank when it is full (IP-10, IP-11).
    ///
    /// # Errors
    /// The ring does not exist.
    fn set_full(&mut self, ring: RingId, policy: FullPolicy) -> Result<(), TableError>;

    /// A landing ring of this rank.
    fn ring(&self, ring: RingId) -> Option<RingState>;
}
