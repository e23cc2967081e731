//! Ports in virtual time: the work of a rank itself, and the work of its conductor.
//!
//! A simulator runs the same ports. A rank accesses its own memory (its rings, its tables, its
//! queues' slots) itself, in no time or at the host's cost. Everything else takes time that only
//! the simulator knows:
//!
//! ```text
//!   rank                      conductor                        target's segment
//!   ----                      ---------                        ----------------
//!   post(send) ── carry ────► interface, network ── arrival ─► HostedPort::post, as the source
//!   post(put), get, fetch
//!        └─ go ─────────────► request in flight
//!        touches the memory itself, when its turn comes ─────► bytes
//!        └─ come_back ──────► reply in flight
//!   post_chain(puts) ── carry_put ► interface, network ── arrival ─► land_chained, as the source
//!        └─ end_chain ──────► answers in flight
//!   send_datagram ── carry_datagram ► interface, network ── arrival ─► next_datagram
//!   post_queue ── run ──────► HostedPort::help_queue; Host::ship ── arrival ─► land_put
//!   park, look_in_vain ─────► time passes for the others
//! ```
//!
//! One rank runs at a time, so there is no concurrency here. A rank's own time may run ahead of the
//! others' until it needs to know what they have done: its posts carry its time.
//!
//! A carried send lands later, through a port of the conductor that plays the source's interface.
//! That port keeps the source's position in the target's rings; the rank's own port only counts.

mod conductor;
mod deed;

pub use conductor::Conductor;
pub use deed::{
    ActionOutbox, ChainedPut, ConductorAnswer, ConductorRequest, Deed, OutboxContents, Posted,
    Shipped,
};

use super::{Host, HostedPort};
use crate::fabric::{
    ChainError, Command, FullCause, FullPolicy, Granularity, GroupPort, INLINE_BYTES, Notification,
    Operation, PostError, Rank, RemoteAddress, Reply, Space,
};

/// Bytes on the wire of a request without payload, a reply or an acknowledgement.
const FRAME_BYTES: u64 = 16;

impl<H: Host> HostedPort<H> {
    /// Posts a send in virtual time: tables are checked now, room on arrival. `is_copy`: it belongs
    /// to the same multicast as the send before it.
    pub(super) fn hand_off(
        &mut self,
        command: &Command<'_>,
        is_copy: bool,
    ) -> Result<usize, PostError> {
        let length = command.payload.len();
        let whole = command.offset == 0 && command.total == length as u64;
        let destination = command.destination;
        if !self.as_post(destination).has_credit(command) {
            // A rank that waits for credit reports that after its last send has landed: the
            // receiver takes any later landing as a sign that it continues (`held_up` of `Port`).
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
        let carried =
            if is_copy { conductor.carry_copy(command) } else { conductor.carry(command) };
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

    /// Posts a chain in virtual time: its puts are in flight at the same time.
    pub(super) fn conduct_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        let mut carried = Vec::new();
        self.set_chained(true);
        let posted = self.hand_off_chain(chain, &mut carried);
        let refused = self.host.conductor().and_then(|conductor| conductor.end_chain());
        match refused.and_then(|number| carried.get(number as usize)) {
            // A put refused on arrival is refused again here, with the error of a single put.
            Some(place) => self.execute_chain(chain, *place),
            None => posted,
        }
    }

    /// Hands off the puts of a chain and executes its other commands; `carried` gets the places of
    /// the puts.
    fn hand_off_chain(
        &mut self,
        chain: &[Command<'_>],
        carried: &mut Vec<usize>,
    ) -> Result<(), ChainError> {
        for (done, command) in chain.iter().enumerate() {
            match self.hand_off_put(command, &chain[done + 1..]) {
                Some(Ok(())) => carried.push(done),
                Some(Err(error)) => return Err(self.cut_chain(command, (done, 0), error)),
                None => self.execute_link(command, done)?,
            }
        }
        Ok(())
    }

    /// Hands off a put of a chain in virtual time, with the commands `rest` behind it. Its tables
    /// are checked now and when it lands. `None`: it is executed like a single command.
    fn hand_off_put(
        &mut self,
        put: &Command<'_>,
        rest: &[Command<'_>],
    ) -> Option<Result<(), PostError>> {
        let Operation::Put(target) = put.operation else { return None };
        let is_plain = matches!(target.space, Space::Region | Space::Segment(_))
            && matches!(put.reply, Reply::None | Reply::Failure)
            && match put.notification {
                Notification::None => true,
                Notification::Word { address, .. } => address.rank == target.rank,
                Notification::Status => false,
            };
        if !is_plain || target.rank == self.rank || !self.is_conducted() {
            return None;
        }
        if let Err(refusal) = self.check_put(put, target) {
            return Some(Err(refusal));
        }
        let is_to = |other: &Command<'_>| {
            other.destination == target.rank && matches!(other.operation, Operation::Put(_))
        };
        let is_last = !rest.iter().any(is_to);
        let taken =
            self.host.conductor().is_some_and(|conductor| conductor.carry_put(put, is_last));
        taken.then_some(Ok(()))
    }

    /// Lands a put of a chain as its source, without a conductor of its own.
    ///
    /// # Errors
    /// The target's tables have changed since it was posted. Nothing was written.
    pub fn land_chained(&mut self, put: &ChainedPut) -> Result<(), PostError> {
        self.remote(&put.command()).map(drop)
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

    /// Counts each refused attempt, if a full ring's policy is to refuse.
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

    /// Whether a conductor carries this port's sends.
    #[inline]
    pub(super) fn is_conducted(&mut self) -> bool {
        self.host.conductor().is_some()
    }

    /// Whether a sender waits for room here after this rank has polled everything. A rank in
    /// virtual time does not poll repeatedly before it sleeps, so this triggers its periodic work.
    pub(super) fn holds_up_somebody(&self) -> bool {
        self.eager && self.host.is_conducted()
    }

    /// Sends a request with `bytes` of payload to the rank that executes it.
    #[inline]
    pub(super) fn go(&mut self, to: Rank, bytes: u64) {
        let from = self.rank;
        if let Some(conductor) = self.host.conductor()
            && to != from
        {
            conductor.go(to, bytes.saturating_add(FRAME_BYTES));
        }
    }

    /// Sends the reply back.
    #[inline]
    pub(super) fn come_back(&mut self, from: Rank, bytes: u64) {
        let to = self.rank;
        if let Some(conductor) = self.host.conductor()
            && to != from
        {
            conductor.come_back(from, bytes.saturating_add(FRAME_BYTES));
        }
    }

    /// Spends the time of a direct read of another rank's memory.
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

    /// Sends a datagram to other ranks in virtual time. Does nothing in real time, where datagrams
    /// are the operating system's.
    pub fn send_datagram(&mut self, to: &[Rank], datagram: &[u8]) {
        if let Some(conductor) = self.host.conductor() {
            conductor.carry_datagram(to, datagram);
        }
    }

    /// The next datagram that has arrived here in virtual time, and its sender.
    pub fn next_datagram(&mut self) -> Option<(Rank, Vec<u8>)> {
        self.host.conductor()?.find_datagram()
    }

    /// Whether a datagram to several ranks leaves this rank once, in virtual time.
    pub fn network_copies(&mut self) -> bool {
        self.host.conductor().is_some_and(|conductor| conductor.network_copies())
    }

    /// Makes the changes of other ranks to this rank's memory up to now take effect before its next
    /// read, and spends the time of a poll. Does nothing in real time.
    #[inline]
    pub fn look_at_own_memory(&mut self) {
        if let Some(conductor) = self.host.conductor() {
            conductor.own();
        }
    }

    /// Lets the other ranks catch up: they see this rank's next action at once.
    #[inline]
    pub(super) fn catch_up(&mut self) {
        if let Some(conductor) = self.host.conductor() {
            conductor.catch_up();
        }
    }

    /// Spends the time of reading a neighbour's data in shared memory.
    #[inline]
    pub(super) fn found_near(&mut self, bytes: u64) {
        if let Some(conductor) = self.host.conductor() {
            conductor.near(bytes);
        }
    }
}
