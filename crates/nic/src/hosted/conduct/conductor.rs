//! The interface between a rank in virtual time and its conductor.

use crate::fabric::{Command, FullCause, QueueAddress, Rank};
use crate::time::Time;

/// The conductor of a job in virtual time, as one rank sees it.
pub trait Conductor {
    /// Takes a send, to land it on arrival. Returns how many payload bytes were taken.
    ///
    /// # Errors
    /// The limit of messages in flight to that rank is reached, or the last arrival there found no
    /// room. Never for a send that [passes](Command::passes).
    fn carry(&mut self, command: &Command<'_>) -> Result<usize, FullCause>;

    /// Takes a send of a multicast. It has the same bytes and header as the send taken before, but
    /// another destination. Where the network copies messages, one command sends both.
    ///
    /// # Errors
    /// As [`Conductor::carry`].
    fn carry_copy(&mut self, command: &Command<'_>) -> Result<usize, FullCause> {
        self.carry(command)
    }

    /// A chain begins: the processor starts its first command, and for each command behind it does
    /// the work that the interface requires per command of a chain (paper 004's TCW chain).
    fn begin_chain(&mut self);

    /// Takes a put of a chain, to land on arrival. `is_last`: the chain has no later put to that
    /// rank, so the answer to this one covers all of them. `false`: the conductor does not take so
    /// many bytes.
    fn carry_put(&mut self, put: &Command<'_>, is_last: bool) -> bool;

    /// Ends the chain: returns when its puts have landed and the last ones were answered. Returns
    /// the first put that its target has refused, by its number among those carried. Later puts to
    /// the same rank were not written either.
    fn end_chain(&mut self) -> Option<u32>;

    /// Takes a datagram for other ranks, each of which [finds](Conductor::find_datagram) it once it
    /// has arrived. It needs no room there and no credit, does not overtake another to the same
    /// rank, and wakes its receivers. Where the network [copies](Conductor::network_copies)
    /// messages, it leaves this rank once.
    fn carry_datagram(&mut self, to: &[Rank], datagram: &[u8]) {
        let _ = (to, datagram);
    }

    /// The oldest unread datagram at this rank, and its sender.
    fn find_datagram(&mut self) -> Option<(Rank, Vec<u8>)> {
        None
    }

    /// Whether the network copies a message to several nodes.
    fn network_copies(&self) -> bool {
        false
    }

    /// Whether a send to a rank has not landed there yet. If so, this rank is woken when it lands.
    fn awaits_landing(&mut self, to: Rank) -> bool;

    /// Leaves a notification's record at `to` for a command that was just executed there.
    fn announce(&mut self, to: Rank, protocol: u8, header: u64, length: u64, offset: u64);

    /// Returns when a command of `bytes` has reached another rank, after all earlier sends of this
    /// rank to it. It needs no room there: it does not wait for sends that found no room.
    fn go(&mut self, to: Rank, bytes: u64);

    /// Returns when `bytes` of a reply have come back.
    fn come_back(&mut self, from: Rank, bytes: u64);

    /// A record was found, and `bytes` of its message are copied out. `begins`: it is the message's
    /// first record, and this is the length of the whole.
    fn received(&mut self, from: Rank, bytes: u64, begins: Option<u64>);

    /// `bytes` were read from the memory of a rank of the same node.
    fn near(&mut self, bytes: u64);

    /// This rank is about to read or change its own memory that others change too. Their changes up
    /// to this time are made first.
    fn own(&mut self);

    /// The program computes for `span`.
    fn compute(&mut self, span: Time);

    /// A poll found nothing. The clock must advance even if a program only polls.
    fn look_in_vain(&mut self);

    /// Returns when all others have reached this rank's time: before actions they see at once.
    fn catch_up(&mut self);

    /// A queue of this rank, or one that it has released, may have become runnable.
    fn run(&mut self, queue: QueueAddress);
}
