//! Posting: the steps of the receive controller, taken by the sender (paper 000 §3).

use super::{Host, HostedPort, PeerEntry};
use crate::doorbell::{Doorbell, HELD_UP};
use crate::fabric::{
    Command, FullCause, FullPolicy, Granularity, INLINE_BYTES, Operation, PostError, Rank,
    RemoteAddress, RingId, Route, SHORT_BYTES,
};
use crate::ring::{Claim, LandingRing, StatusRing, records_of};
use crate::segment::Segment;
use crate::sync::{Ordering, compiler_fence};
use crate::wire::StatusKind;

impl<H: Host> HostedPort<H> {
    /// Executes one command. Returns the number of payload bytes taken.
    #[inline]
    pub(super) fn execute(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        self.execute_as(command, false)
    }

    /// As [`HostedPort::execute`]. `is_copy`: it is of the same multicast as the command before.
    #[inline]
    pub(super) fn execute_as(
        &mut self,
        command: &Command<'_>,
        is_copy: bool,
    ) -> Result<usize, PostError> {
        let destination = command.destination;
        let Some(peer) = self.peers.get_mut(destination as usize) else {
            return Err(PostError::NoSuchRank { rank: destination, size: self.size });
        };
        if let Some(failure) = peer.failed {
            return Err(PostError::PeerFailed(failure));
        }
        match command.operation {
            Operation::Send if destination != self.rank && self.host.conductor().is_some() => {
                self.hand_off(command, is_copy)
            }
            Operation::Send if !self.host.is_here(destination) => Err(elsewhere()),
            Operation::Send => {
                let (host, clock) = (&self.host, &mut self.clock);
                let (rank, target, heard) = (self.rank, peer.target, self.heard);
                let mut post = Post { host, rank, target, peer, clock, heard };
                let taken = post.send(command)?;
                if destination == self.rank {
                    self.found_near(taken as u64);
                }
                Ok(taken)
            }
            Operation::Nop => Ok(0),
            _ => self.remote(command),
        }
    }

    /// A post to a rank of this host, or a post of a rank of another host to this one.
    pub(super) fn as_post(&mut self, destination: Rank) -> Post<'_, H> {
        let (host, clock) = (&self.host, &mut self.clock);
        let rank = if host.is_here(destination) { self.rank } else { destination };
        let peer = &mut self.peers[destination as usize];
        Post { host, rank, target: peer.target, peer, clock, heard: self.heard }
    }

    /// Posts an inline message by the fast path, if `allowed` permits it and the message fits.
    /// Returns whether it did.
    ///
    /// It makes as few stores as possible. The processor keeps stores in order, so all stores of a
    /// message wait for the line of its record. Its store buffer holds some sixty, which limits the
    /// number of messages in flight. Measured in a bare ring with far cores: 4 stores per message
    /// 50 M/s, 12 30 M/s, 20 17 M/s, 44 9 M/s, regardless of prefetching.
    #[inline(always)]
    pub(super) fn post_fast(
        &mut self,
        destination: Rank,
        protocol: u8,
        header: u64,
        payload: &[u8],
    ) -> bool {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return false };
        let index = peer.poster.posted;
        if index >= peer.allowed || payload.len() > INLINE_BYTES {
            return false;
        }
        peer.poster.posted = index + 1;
        let doorbell = peer.target.doorbell();
        let words = [header, arrival_time(doorbell, &mut self.clock)];
        peer.status.publish_inline(index, protocol, self.rank, words, payload);
        peer.prefetch_next(index, 1, self.heard);
        if sleeps(doorbell) {
            wake(&self.host, destination);
        }
        true
    }

    /// [`Port::post_short`](crate::fabric::Port::post_short) of a payload longer than one record.
    #[inline(never)]
    pub(super) fn post_several(
        &mut self,
        destination: Rank,
        protocol: u8,
        header: u64,
        payload: &[u8],
    ) -> bool {
        let records = records_of(payload.len());
        let allowed = |peer: &PeerEntry| peer.poster.posted.saturating_add(records) <= peer.allowed;
        let fits = payload.len() <= SHORT_BYTES
            && (self.peers.get(destination as usize).is_some_and(allowed)
                || self.allow_several(destination, records));
        if !fits {
            return false;
        }
        let mut post = self.as_post(destination);
        let index = post.peer.poster.posted;
        post.peer.poster.posted = index + records;
        // The message takes one credit, for its first record.
        post.peer.uncredited = post.peer.uncredited.wrapping_add(records - 1);
        let (status, words) = (post.peer.status, [header, post.arrival_time()]);
        status.publish_short(index, protocol, post.rank, words, payload);
        post.peer.prefetch_next(index, records, post.heard);
        post.ring_doorbell(destination);
        true
    }

    /// The slow path of [`Port::post_short`](crate::fabric::Port::post_short), out of line: saving
    /// the registers that it needs would add stores to every message.
    #[cold]
    #[inline(never)]
    pub(super) fn post_slow(
        &mut self,
        destination: Rank,
        protocol: u8,
        header: u64,
        payload: &[u8],
    ) -> bool {
        if self.allow(destination) && self.post_fast(destination, protocol, header, payload) {
            return true;
        }
        let command = Command::send(destination, protocol, header, payload);
        self.execute(&Command { credited: true, ..command }).is_ok()
    }

    /// Whether a message of this many records may be posted now. `allowed` counts one credit for
    /// each record, but the message needs only one.
    #[cold]
    fn allow_several(&mut self, destination: Rank, records: u64) -> bool {
        self.allow(destination) && {
            let peer = &mut self.peers[destination as usize];
            peer.status.has_room_for(records, &mut peer.poster)
        }
    }

    /// Recomputes how many records the fast path may post. Returns whether it may post one.
    #[cold]
    fn allow(&mut self, destination: Rank) -> bool {
        if destination >= self.size || self.is_conducted() || !self.host.is_here(destination) {
            return false;
        }
        let mut post = self.as_post(destination);
        post.follow();
        post.peer.allow(post.rank)
    }

    /// Checks that this rank can address that memory at all.
    pub(super) fn reachable(&self, address: RemoteAddress) -> Result<(), PostError> {
        if address.rank >= self.size {
            return Err(PostError::NoSuchRank { rank: address.rank, size: self.size });
        }
        if self.host.node_of(address.rank) != self.host.node_of(self.rank) {
            return Err(PostError::Unsupported("reach the memory of another node directly"));
        }
        match self.peers[address.rank as usize].failed {
            Some(failure) => Err(PostError::PeerFailed(failure)),
            None => Ok(()),
        }
    }

    /// Wakes a rank if it sleeps.
    pub(super) fn ring_doorbell_of(&self, rank: Rank) {
        if sleeps(self.peers[rank as usize].target.doorbell()) {
            wake(&self.host, rank);
        }
    }

    /// Checks that a put's status record has room. Called before the payload is written, so that a
    /// put has its whole effect or none.
    pub(super) fn room_for_record(&mut self, command: &Command<'_>) -> Result<(), PostError> {
        if self.is_conducted() {
            // The conductor keeps the record until there is room.
            return Ok(());
        }
        let mut post = self.as_post(command.destination);
        let status = post.peer.status;
        match status.has_room(&mut post.peer.poster) {
            true => Ok(()),
            false => Err(post.status_full(command)),
        }
    }

    /// Publishes the record of a completed put, get or atomic operation.
    pub(super) fn announce(&mut self, command: &Command<'_>, length: u64, offset: u64) {
        let Command { destination, protocol, header, .. } = *command;
        if let Some(conductor) = self.host.conductor() {
            return conductor.announce(destination, protocol, header, length, offset);
        }
        let mut post = self.as_post(destination);
        let rank = post.rank;
        let status = post.peer.status;
        post.begin();
        let index = status.reserve(&mut post.peer.poster);
        post.peer.uncredited = post.peer.uncredited.wrapping_add(1);
        let body = [header, post.arrival_time(), length, offset];
        status.publish(index, StatusKind::Put, protocol, 0, rank, &body);
        post.end();
        post.admitted();
        post.ring_doorbell(destination);
    }
}

/// One post in progress: the sender's interface talking to the target's.
pub(super) struct Post<'p, H: Host> {
    host: &'p H,
    pub(super) rank: u32,
    pub(super) peer: &'p mut PeerEntry,
    pub(super) target: Segment<'static>,
    /// The port's arrival clock.
    clock: &'p mut u64,
    /// The number of messages that the port has read.
    heard: u64,
}

impl<H: Host> Post<'_, H> {
    #[inline]
    pub(super) fn send(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        self.follow();
        if !self.has_credit(command) {
            return Err(self.hold_up(command, FullCause::Credit));
        }
        let status = self.peer.status;
        if !status.has_room(&mut self.peer.poster) {
            return Err(self.status_full(command));
        }
        let before = self.peer.poster.posted;
        let length = command.payload.len();
        let whole = command.offset == 0 && command.total == length as u64;
        let taken = if whole && length <= INLINE_BYTES {
            self.publish_inline(status, command.protocol, command.header, command.payload);
            length
        } else {
            self.send_ring(command, status)?
        };
        // Credit pays for one of the message's records.
        let records = self.peer.poster.posted - before;
        let uncredited = records.saturating_sub(u64::from(command.credited));
        self.peer.uncredited = self.peer.uncredited.wrapping_add(uncredited);
        self.admitted();
        self.ring_doorbell(command.destination);
        Ok(taken)
    }

    /// Whether the message has credit, if it needs any.
    #[inline]
    pub(super) fn has_credit(&mut self, command: &Command<'_>) -> bool {
        if !command.credited || self.peer.sent() < self.peer.credit {
            return true;
        }
        self.peer.credit = self.target.source(self.rank).credit();
        self.peer.sent() < self.peer.credit
    }

    /// Counts a message that another port lands.
    pub(super) fn count(&mut self, credited: bool) {
        self.peer.poster.posted += 1;
        let uncredited = self.peer.uncredited.wrapping_add(u64::from(!credited));
        self.peer.uncredited = uncredited;
    }

    /// Counts an attempt that a full status ring refused.
    pub(super) fn count_status_refusal(&mut self) {
        self.peer.status.count_full();
    }

    /// Payload bytes of a packet at the target.
    pub(super) fn packet_bytes(&self) -> usize {
        self.target.layout().packet_bytes as usize
    }

    /// There was room: clears the mark that this source waits.
    #[inline]
    pub(super) fn admitted(&mut self) {
        if self.peer.held_up {
            self.peer.held_up = false;
            let waiting = &self.target.sender(self.rank).waiting;
            waiting.store(waiting.load(Ordering::Relaxed) & !H::WAITS_AS, Ordering::Release);
        }
    }

    /// Publishes the whole message in its status record: one cache line moves.
    ///
    /// It makes only the necessary stores. Stores after a record wait for its line, so the number
    /// of stores per message limits how many are in flight. A private ring publishes without a
    /// reservation, so no epoch is needed either.
    #[inline(always)]
    fn publish_inline(
        &mut self,
        status: StatusRing<'static>,
        protocol: u8,
        header: u64,
        payload: &[u8],
    ) {
        let time = self.arrival_time();
        if !status.is_private() {
            self.begin();
        }
        let index = status.reserve(&mut self.peer.poster);
        status.publish_inline(index, protocol, self.rank, [header, time], payload);
        if !status.is_private() {
            self.end();
        }
        self.peer.prefetch_next(index, 1, self.heard);
    }

    /// Lands the payload in a ring.
    ///
    /// The whole post is one epoch, which begins before the read of the source table: the owner of
    /// the rings relies on that when it assigns a ring to another source (`hosted/route.rs`).
    fn send_ring(
        &mut self,
        command: &Command<'_>,
        status: StatusRing<'static>,
    ) -> Result<usize, PostError> {
        self.begin();
        self.host.fence_post();
        let sent = self.fill_ring(command, status);
        self.end();
        sent
    }

    /// Lands the message packet by packet, or as a whole.
    #[inline]
    fn fill_ring(
        &mut self,
        command: &Command<'_>,
        status: StatusRing<'static>,
    ) -> Result<usize, PostError> {
        let (id, ring) = self.landing_ring(command)?;
        let length = command.payload.len();
        let packet = self.target.layout().packet_bytes as usize;
        if command.granularity == Granularity::PerMessage {
            self.check_one_record(command, id, &ring, packet)?;
            return match self.land(command, status, id, &ring, 0, length) {
                true => Ok(length),
                false => Err(self.ring_full(command, &ring)),
            };
        }
        if length == 0 {
            // A part without bytes adds nothing to the message.
            return Ok(0);
        }
        let mut taken = 0;
        while taken < length {
            let room = taken == 0 || status.has_room(&mut self.peer.poster);
            let end = length.min(taken + packet);
            if !room || !self.land(command, status, id, &ring, taken, end) {
                break;
            }
            taken = end;
            if taken < length {
                self.ring_doorbell(command.destination);
            }
        }
        if taken == 0 { Err(self.ring_full(command, &ring)) } else { Ok(taken) }
    }

    /// Lands one packet: claim, store, commit, record. Only this order is safe for readers.
    #[inline]
    fn land(
        &mut self,
        command: &Command<'_>,
        status: StatusRing<'static>,
        id: RingId,
        ring: &LandingRing<'_>,
        from: usize,
        to: usize,
    ) -> bool {
        let length = (to - from) as u32;
        let Some(claim) = ring.claim(length, length, &mut self.peer.ring_head) else {
            return false;
        };
        let payload = &command.payload[from..to];
        let (host, stores) = (self.host, &mut self.peer.stores);
        let source = self.target.source(self.rank);
        let storing = stores.begin(payload.len(), source, || host.now());
        ring.store(claim, payload, storing.way);
        stores.end(storing, payload.len(), || host.now());
        ring.commit(claim);
        let index = status.reserve(&mut self.peer.poster);
        let body = record(command, self.arrival_time(), claim, id, from as u64);
        let (protocol, sample) = (command.protocol, storing.sample());
        status.publish(index, StatusKind::Ring, protocol, sample, self.rank, &body);
        self.peer.prefetch_next(index, 1, self.heard);
        true
    }

    /// The landing ring of this message, chosen by the receiver's table or by the sender.
    #[inline]
    pub(super) fn landing_ring(
        &mut self,
        command: &Command<'_>,
    ) -> Result<(RingId, LandingRing<'static>), PostError> {
        let destination = command.destination;
        let mapped = self.target.source(self.rank).ring();
        let ring = match command.route {
            Route::Table => mapped,
            Route::Ring(ring) => Some(ring),
        };
        let Some(ring) = ring else {
            return Err(PostError::Unmapped { destination, source_rank: self.rank });
        };
        if ring >= self.target.layout().rings {
            return Err(PostError::NoSuchRing { destination, ring });
        }
        let view = self.target.ring(ring);
        if !view.is_shared() && mapped != Some(ring) {
            // A private ring has one writer: the source in the table.
            return Err(PostError::Unmapped { destination, source_rank: self.rank });
        }
        if self.peer.ring != Some(ring) {
            self.peer.ring = Some(ring);
            self.peer.ring_head = view.head();
        }
        Ok((ring, view))
    }

    /// Checks that a message may have one record for all its packets.
    pub(super) fn check_one_record(
        &self,
        command: &Command<'_>,
        id: RingId,
        ring: &LandingRing<'_>,
        packet: usize,
    ) -> Result<(), PostError> {
        let length = command.payload.len() as u64;
        if command.offset != 0 || command.total != length {
            return Err(PostError::Unsupported("send one record for a message in parts"));
        }
        if length > ring.size() {
            return Err(PostError::TooLarge { length, limit: ring.size() });
        }
        if ring.is_shared() && length > packet as u64 {
            return Err(PostError::SharedRing { destination: command.destination, ring: id });
        }
        Ok(())
    }

    fn status_full(&mut self, command: &Command<'_>) -> PostError {
        let cause = match self.target.layout().status_policy {
            FullPolicy::Stall => FullCause::StatusStalled,
            FullPolicy::Refuse => FullCause::StatusRefused,
        };
        if !self.peer.held_up || cause == FullCause::StatusRefused {
            self.peer.status.count_full();
        }
        self.hold_up(command, cause)
    }

    fn ring_full(&mut self, command: &Command<'_>, ring: &LandingRing<'_>) -> PostError {
        let named = match command.route {
            Route::Table => 0,
            Route::Ring(ring) => u64::from(ring) + 1,
        };
        let line = self.target.sender(self.rank);
        if line.named.load(Ordering::Relaxed) != named {
            line.named.store(named, Ordering::Release);
        }
        let policy = ring.policy();
        // A stalled message counts as one full post, no matter how often it is retried. A refused
        // message counts again at each retry.
        if !self.peer.held_up || policy == FullPolicy::Refuse {
            ring.count_full(policy);
        }
        let cause = match policy {
            FullPolicy::Stall => FullCause::RingStalled,
            FullPolicy::Refuse => FullCause::RingRefused,
        };
        self.hold_up(command, cause)
    }

    /// Notifies the receiver that this source waits: the "full" indication of IP-10.
    pub(super) fn hold_up(&mut self, command: &Command<'_>, cause: FullCause) -> PostError {
        if !self.peer.held_up {
            self.peer.held_up = true;
            self.peer.allowed = 0;
            let line = self.target.sender(self.rank);
            let times = line.held_up.load(Ordering::Relaxed).wrapping_add(1);
            line.held_up.store(times, Ordering::Relaxed);
            let waiting = line.waiting.load(Ordering::Relaxed) | H::WAITS_AS;
            line.waiting.store(waiting, Ordering::Release);
            self.target.doorbell().attention.fetch_or(HELD_UP, Ordering::Release);
            self.ring_doorbell(command.destination);
        }
        PostError::Full { destination: command.destination, cause }
    }

    /// Wakes the target if it sleeps.
    #[inline]
    fn ring_doorbell(&mut self, destination: u32) {
        if !self.peer.stretch.delay_wake() && sleeps(self.target.doorbell()) {
            wake(self.host, destination);
        }
    }

    #[inline]
    pub(super) fn arrival_time(&mut self) -> u64 {
        arrival_time(self.target.doorbell(), self.clock)
    }

    /// Between `begin` and `end` this source may hold a claim that no record announces yet.
    #[inline]
    pub(super) fn begin(&mut self) {
        // Inside a stretch the epoch is odd already.
        let (epoch, odd) = self.peer.next_epoch(self.rank);
        epoch.store(odd, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn end(&mut self) {
        if !self.peer.stretch.is_inside() {
            self.peer.leave(self.rank);
        }
    }
}

/// The error for a rank of another host: such a message goes through a network channel.
#[cold]
pub(super) fn elsewhere() -> PostError {
    PostError::Unsupported("reach a rank of another host by memory")
}

/// Whether a rank must be woken, after a record has been stored for it.
///
/// There is no fence between the record's store and this load. A target that goes to sleep executes
/// the barrier for both sides (see `Host::wait`): it has time for it, unlike the sender.
#[inline]
fn sleeps(doorbell: &Doorbell) -> bool {
    // The processor needs no fence; the compiler must not move the load above the record's store.
    compiler_fence(Ordering::SeqCst);
    doorbell.sleeping.load(Ordering::Relaxed) != 0
}

/// Wakes a rank. A system call, kept out of the path of messages that need none.
#[cold]
#[inline(never)]
fn wake<H: Host>(host: &H, rank: Rank) {
    host.wake(rank);
}

/// The arrival time of the next record: later than all records that this rank has sent or received,
/// and than all visible records that others have sent to the target.
///
/// The first condition always makes the order causal. The second makes it the order of the posts,
/// even between ranks that have not communicated. Two ranks that post at the same time may
/// overwrite each other's count, and either order is right for them. So a plain load and store
/// suffice; a locked add would wait for the stores of the message before.
#[inline]
fn arrival_time(doorbell: &Doorbell, clock: &mut u64) -> u64 {
    let arrivals = &doorbell.arrivals;
    let time = arrivals.load(Ordering::Relaxed).max(*clock).saturating_add(1);
    arrivals.store(time, Ordering::Relaxed);
    *clock = time;
    time
}

/// The body of a record whose payload is in a landing ring.
#[inline]
fn record(command: &Command<'_>, time: u64, claim: Claim, ring: RingId, from: u64) -> [u64; 6] {
    [
        command.header,
        time,
        command.total,
        command.offset + from,
        claim.position,
        u64::from(ring) << 32 | u64::from(claim.length),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Event, Port, Short};
    use crate::loopback::{LoopbackConfig, open};

    #[test]
    fn inline_messages_use_up_credit_on_either_path() {
        // Private status rings have the fast path, a shared one does not.
        for status_rings in [2, 1] {
            let mut config = LoopbackConfig::for_ranks(2);
            (config.layout.credit, config.layout.status_rings) = (3, status_rings);
            let mut ports = open(&config).unwrap();
            let mut post = || ports[0].post_short(1, 0, 0, &[]);
            assert_eq!([(); 4].map(|()| post()), [true, true, true, false]);
            assert_eq!(ports[0].post(&Command::send(1, 0, 0, &[])), Ok(0), "it needs none");
        }
    }

    /// Sends short messages and receives them in both ways: without an event and by one.
    #[test]
    fn short_messages_are_records_alone_in_order_with_all_others() {
        let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap();
        for by_event in [false, true] {
            for (header, length) in (0..).zip(0..=SHORT_BYTES) {
                let payload: Vec<u8> = (0..length).map(|n| (n ^ length) as u8).collect();
                assert!(ports[0].post_short(1, 3, header, &payload));
                ports[0].post(&Command::send(1, 3, 1000, b"behind it")).unwrap();
                let mut into = [0; SHORT_BYTES];
                if by_event {
                    let Some(Event::Landed(landed)) = ports[1].poll() else { panic!("{length}") };
                    assert_eq!((landed.source, landed.protocol, landed.header), (0, 3, header));
                    assert_eq!((landed.offset, landed.total), (0, length as u64));
                    assert_eq!(landed.data.read_out(&mut ports[1], &mut into), length);
                } else {
                    let less = length.saturating_sub(1);
                    if length > 0 {
                        let short = ports[1].receive_whole(0, 3, header, &mut into[..less]);
                        assert_eq!(short, Short::Other, "there is no room");
                    }
                    assert_eq!(
                        ports[1].receive_whole(0, 3, 9999, &mut into),
                        Short::Differs(header)
                    );
                    assert_eq!(
                        ports[1].receive_whole(0, 3, header, &mut into),
                        Short::Taken(length)
                    );
                }
                assert_eq!(into[..length], payload);
                assert_eq!(ports[1].receive_whole(0, 3, 1000, &mut into), Short::Taken(9));
                let granted = ports[1].peers[0].granted;
                ports[1].grant(0, granted + 1);
            }
        }
        assert_eq!(ports[1].own.ring(0).tail(), 0, "nothing has landed in a ring");
    }

    #[test]
    fn short_messages_take_room_of_records_and_credit_of_one() {
        let mut config = LoopbackConfig::for_ranks(2);
        (config.layout.credit, config.layout.status_slots) = (5, 16);
        let mut ports = open(&config).unwrap();
        let long = [7; SHORT_BYTES];
        assert_eq!(
            [(); 4].map(|()| ports[0].post_short(1, 0, 0, &long)),
            [true, true, true, false]
        );
        assert_eq!(ports[0].peers[1].sent(), 3, "no record is left for a fourth");
        assert!(!ports[0].post_short(1, 0, 0, &[0; SHORT_BYTES + 1]), "it is too long");
        for _ in 0..3 {
            assert_eq!(ports[1].receive_whole(0, 0, 0, &mut [0; 512]), Short::Taken(SHORT_BYTES));
        }
        let posted = [(); 3].map(|()| ports[0].post_short(1, 0, 0, &long[..41]));
        assert_eq!(posted, [true, true, false], "five in all have credit");
    }

    #[test]
    fn a_shared_status_ring_takes_no_message_of_several_records() {
        let mut config = LoopbackConfig::for_ranks(3);
        config.layout.status_rings = 1;
        let mut ports = open(&config).unwrap();
        assert!(!ports[1].post_short(0, 0, 0, &[0; 41]));
        assert!(ports[1].post_short(0, 0, 0, &[0; 40]));
        assert!(matches!(ports[0].poll(), Some(Event::Landed(_))));
        // A short message in a shared ring is its sender's fault; the next record is another's.
        let status = ports[1].peers[0].status;
        let index = status.reserve(&mut ports[1].peers[0].poster);
        status.publish_short(index, 0, 1, [0; 2], &[0; 41]);
        let next = status.reserve(&mut ports[2].peers[0].poster);
        status.publish_inline(next, 0, 2, [5, 0], b"mine");
        assert!(matches!(ports[0].receive_whole(1, 0, 0, &mut [0; 64]), Short::Other));
        assert!(matches!(ports[0].poll(), Some(Event::Malformed { source: 1 })));
        let Some(Event::Landed(landed)) = ports[0].poll() else { panic!("it is lost") };
        assert_eq!((landed.source, landed.header), (2, 5));
    }
}
