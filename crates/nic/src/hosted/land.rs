//! Landing the messages from ranks of other hosts.
//!
//! A sender that reaches the segment of its target plays the target's interface. A sender on
//! another host does not reach it: then the target plays that part itself when it polls, separately
//! for each source. Tables, rings, records, credit and both policies are the same. But a message
//! without room is kept by the channel that brought it, not by the sender.

use super::send::elsewhere;
use super::{Host, HostedPort};
use crate::doorbell::HELD_UP;
use crate::fabric::{
    Atomic, Command, FullCause, Notification, Operation, PostError, Rank, RemoteAddress, Space,
};
use crate::sync::Ordering;

impl<H: Host> HostedPort<H> {
    /// Lands a send of a rank of another host, as that source. Returns the number of payload bytes
    /// taken, as [`Port::post`](crate::fabric::Port::post) does.
    ///
    /// # Errors
    /// As of `post` at the source.
    pub fn land_from(&mut self, source: Rank, command: &Command<'_>) -> Result<usize, PostError> {
        self.meet(source)?;
        let command = Command { operation: Operation::Send, destination: self.rank, ..*command };
        self.as_post(source).send(&command)
    }

    /// Checks that there is room for the record of a put, get or atomic operation of a rank of
    /// another host. Called before its execution, so that it has its whole effect or none.
    ///
    /// # Errors
    /// There is no room, or no such rank.
    pub fn room_for(&mut self, source: Rank) -> Result<(), PostError> {
        self.meet(source)?;
        self.room_for_record(&Command::send(source, 0, 0, &[]))
    }

    /// Leaves that record, for which [there is room](HostedPort::room_for).
    pub fn land_record(
        &mut self,
        source: Rank,
        (protocol, header): (u8, u64),
        (length, offset): (u64, u64),
    ) {
        let notification = Notification::Status;
        let command = Command::send(source, protocol, header, &[]);
        self.announce(&Command { notification, ..command }, length, offset);
    }

    /// Notes that a rank of another host waits for credit:
    /// [`Port::held_up`](crate::fabric::Port::held_up) will return it.
    pub fn waits_for_credit(&mut self, source: Rank) {
        if self.meet(source).is_ok() {
            let line = self.own.sender(source);
            let times = line.held_up.load(Ordering::Relaxed).wrapping_add(1);
            line.held_up.store(times, Ordering::Relaxed);
            self.own.doorbell().attention.fetch_or(HELD_UP, Ordering::Release);
        }
    }

    /// Reads memory that a rank of this host has given to the job ([`HostedPort::fetch_given`]).
    ///
    /// # Errors
    /// The rank is of another host, or the bytes are not in its region.
    pub fn get_given(&self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.check_given(from, into.len() as u64)?;
        self.host.read(from, into)
    }

    /// Writes memory that a rank of this host has given to the job ([`HostedPort::fetch_given`]).
    ///
    /// # Errors
    /// As [`HostedPort::get_given`].
    pub fn put_given(&self, to: RemoteAddress, payload: &[u8]) -> Result<(), PostError> {
        self.check_given(to, payload.len() as u64)?;
        self.host.write(to, payload, self.stores_for(to.rank, payload.len()))
    }

    /// Changes an integer in memory that a rank of this host has given to the job. The rank may
    /// have ended: its region stays. Returns the old value.
    ///
    /// # Errors
    /// As [`HostedPort::get_given`]; or the integer is not aligned.
    pub fn fetch_given(&self, atomic: &Atomic) -> Result<u64, PostError> {
        self.check_given(atomic.target, atomic.integer.size())?;
        self.apply(atomic, None).map(|(_, old)| old)
    }

    fn check_given(&self, place: RemoteAddress, length: u64) -> Result<(), PostError> {
        let RemoteAddress { rank, space, .. } = place;
        if rank >= self.size {
            return Err(PostError::NoSuchRank { rank, size: self.size });
        }
        if !self.host.is_here(rank) || space != Space::Region {
            return Err(elsewhere());
        }
        self.within_region(place, length)
    }

    /// Checks that a source is on another host and not known to be dead. From now on it has its
    /// lines at this rank and an entry.
    pub(super) fn meet(&mut self, source: Rank) -> Result<(), PostError> {
        if source >= self.size || self.host.is_here(source) {
            return Err(PostError::NoSuchRank { rank: source, size: self.size });
        }
        if !self.peers.has(source as usize) {
            if !self.host.commit_source(source) {
                let (destination, cause) = (self.rank, FullCause::RingStalled);
                return Err(PostError::Full { destination, cause });
            }
            self.own.set_up_source(source);
        }
        let failed = self.peers.get_mut(source as usize).and_then(|peer| peer.failed);
        failed.map_or(Ok(()), |failure| Err(PostError::PeerFailed(failure)))
    }
}
