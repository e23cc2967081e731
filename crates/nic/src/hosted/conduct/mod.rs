//! Ports in virtual time: what a rank does itself, and what it hands to whoever conducts the job.
//!
//! A simulator runs the very same ports. What concerns a rank's own memory (its rings, its tables,
//! its queues' slots) the rank does itself, in no time or at the host's cost; what leaves it takes
//! time, which only the simulator knows:
//!
//! ```text
//!   rank                      conductor                        target's segment
//!   ----                      ---------                        ----------------
//!   post(send) ── carry ────► interface, network ── arrival ─► HostedPort::post, as the source
//!   post(put), get, fetch
//!        └─ go ─────────────► request under way
//!        touches the memory itself, when its turn comes ─────► bytes
//!        └─ come_back ──────► answer under way
//!   post_queue ── run ──────► HostedPort::help_queue; Host::ship ── arrival ─► land_put
//!   park, look_in_vain ─────► time passes for the others
//! ```
//!
//! One rank runs at a time, so nothing of this is concurrent. A rank's own time may run ahead of
//! the others' until it needs to know what they have done: what it posts carries its time.
//!
//! A send that was carried is landed later, by a port of the conductor's that plays the source's
//! interface: that one keeps the source's place in the target's rings, and this one only counts.

mod deed;

pub use deed::{Answer, Deed, Outbox, Outgoing, Posted, Request, Shipped};

use super::{Host, HostedPort};
use crate::fabric::{
    Command, FullCause, FullPolicy, Granularity, INLINE_BYTES, PostError, QueueAddress, Rank,
    RemoteAddress,
};
use crate::time::Time;

/// Whoever conducts a job in virtual time, as one rank sees it.
pub trait Conductor {
    /// Takes a send away, to be landed when it arrives; answers how many bytes of its payload were
    /// taken.
    ///
    /// # Errors
    /// As many are under way to that rank as can be, or what arrived there last found no room;
    /// never of one that [passes](Command::passes).
    fn carry(&mut self, command: &Command<'_>) -> Result<usize, FullCause>;

    /// Whether something that was sent to a rank has not landed there yet. Then this rank is woken
    /// when it has.
    fn awaits_landing(&mut self, to: Rank) -> bool;

    /// Leaves a notification's record at `to` for a command that has just been done there.
    fn announce(&mut self, to: Rank, protocol: u8, header: u64, length: u64, offset: u64);

    /// Returns when a command with so many bytes has come to another rank, after all that this one
    /// sent there before. It needs no room there: it does not wait for sends that found none.
    fn go(&mut self, to: Rank, bytes: u64);

    /// Returns when so many bytes of an answer have come back.
    fn come_back(&mut self, from: Rank, bytes: u64);

    /// A record was found, and so many bytes of its message are copied out. `begins`: it is the
    /// message's first, and so long is the whole.
    fn received(&mut self, from: Rank, bytes: u64, begins: Option<u64>);

    /// Bytes of a rank of the same node were read from its memory.
    fn near(&mut self, bytes: u64);

    /// Memory of this rank is looked at or changed that others change too: what they have done to
    /// it by now comes first.
    fn own(&mut self);

    /// The program computes for so long.
    fn compute(&mut self, span: Time);

    /// There was nothing to be found. A program that only looks must not stop the clock.
    fn look_in_vain(&mut self);

    /// Returns when all others have come to this rank's time: before it does what they see at once.
    fn catch_up(&mut self);

    /// A queue of this rank, or one that it has released, may have something to run.
    fn run(&mut self, queue: QueueAddress);
}

/// Bytes that a request without payload, an answer or an acknowledgement has on the wire.
const FRAME_BYTES: u64 = 16;

impl<H: Host> HostedPort<H> {
    /// A send in virtual time: what the tables say is checked now, room when it arrives.
    pub(super) fn hand_over(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        let length = command.payload.len();
        let whole = command.offset == 0 && command.total == length as u64;
        let destination = command.destination;
        if !self.as_post(destination).has_credit(command) {
            // A sender that is held up says so behind all that it has sent: a receiver believes
            // that it goes on when anything lands later (`held_up` of `Port`).
            let cause = FullCause::Credit;
            if self.host.conductor().is_some_and(|conductor| conductor.awaits_landing(destination))
            {
                return Err(PostError::Full { destination, cause });
            }
            return Err(self.as_post(destination).hold_up(command, cause));
        }
        let mut post = self.as_post(destination);
        if !whole || length > INLINE_BYTES {
            let (id, ring) = post.landing_ring(command)?;
            if command.granularity == Granularity::PerMessage {
                let packet = post.packet_bytes();
                post.check_one_record(command, id, &ring, packet)?;
            } else if length == 0 {
                return Ok(0);
            }
        }
        let Some(conductor) = self.host.conductor() else { return Ok(0) };
        let carried = conductor.carry(command);
        let taken = match carried {
            Ok(taken) => taken,
            Err(cause) => {
                self.count_refusal(command, cause);
                return Err(PostError::Full { destination, cause });
            }
        };
        let mut post = self.as_post(destination);
        post.count(command.credited);
        post.admitted();
        Ok(taken)
    }

    /// Leaves the record of a put, get or atomic operation that was
    /// [announced](Conductor::announce), as its source.
    ///
    /// # Errors
    /// There is no room, or no such rank.
    pub fn leave_record(
        &mut self,
        to: Rank,
        (protocol, header): (u8, u64),
        (length, offset): (u64, u64),
    ) -> Result<(), PostError> {
        if to >= self.size {
            return Err(PostError::NoSuchRank { rank: to, size: self.size });
        }
        let command = Command::send(to, protocol, header, &[]);
        self.room_for_record(&command)?;
        self.announce(&command, length, offset);
        Ok(())
    }

    /// Where what has no room is refused, every attempt is.
    fn count_refusal(&mut self, command: &Command<'_>, cause: FullCause) {
        let mut post = self.as_post(command.destination);
        match cause {
            FullCause::RingRefused => {
                if let Ok((_, ring)) = post.landing_ring(command) {
                    ring.count_full(FullPolicy::Refuse);
                }
            }
            FullCause::StatusRefused => post.count_status_refusal(),
            _ => {}
        }
    }

    /// Whether this port's sends are carried by somebody else.
    #[inline]
    pub(super) fn is_conducted(&mut self) -> bool {
        self.host.conductor().is_some()
    }

    /// Whether somebody waits for room here although this rank has looked at everything: a rank in
    /// virtual time does not look again and again before it sleeps, so it is told here that it is
    /// time to do what is done now and then.
    pub(super) fn holds_up_somebody(&self) -> bool {
        self.eager && self.host.is_conducted()
    }

    /// A request with so many bytes of payload is on its way to where it will be carried out.
    #[inline]
    pub(super) fn go(&mut self, to: Rank, bytes: u64) {
        let from = self.rank;
        if let Some(conductor) = self.host.conductor()
            && to != from
        {
            conductor.go(to, bytes.saturating_add(FRAME_BYTES));
        }
    }

    /// Its answer is on its way back.
    #[inline]
    pub(super) fn come_back(&mut self, from: Rank, bytes: u64) {
        let to = self.rank;
        if let Some(conductor) = self.host.conductor()
            && to != from
        {
            conductor.come_back(from, bytes.saturating_add(FRAME_BYTES));
        }
    }

    /// A direct read of another rank's memory.
    #[inline]
    pub(super) fn spend_reading(&mut self, from: RemoteAddress, bytes: u64) {
        let own = self.rank;
        if let Some(conductor) = self.host.conductor()
            && from.rank != own
        {
            conductor.catch_up();
            conductor.near(bytes);
        }
    }

    /// In virtual time what others have done to this rank's memory by now comes before what it
    /// looks at next, which takes as long as a poll; in real time nothing.
    #[inline]
    pub fn look_at_own_memory(&mut self) {
        if let Some(conductor) = self.host.conductor() {
            conductor.own();
        }
    }

    /// What this rank does next is seen at once by the others.
    #[inline]
    pub(super) fn catch_up(&mut self) {
        if let Some(conductor) = self.host.conductor() {
            conductor.catch_up();
        }
    }

    /// What a neighbour left in shared memory was found.
    #[inline]
    pub(super) fn found_near(&mut self, bytes: u64) {
        if let Some(conductor) = self.host.conductor() {
            conductor.near(bytes);
        }
    }
}
