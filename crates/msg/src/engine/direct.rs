//! The fast path: blocking send and receive without a request.
//!
//! A small message that finds room is one post; a blocking receive copies its message from the
//! status record to the caller's buffer. Neither allocates, hashes or touches the slab. All other
//! cases take the slow path.

use hikyaku_nic::fabric::{
    CopyPort, Event, INLINE_BYTES, Landed, PostError, Rank, SHORT_BYTES, Short, Wake,
};

use super::Engine;
use crate::envelope::{Envelope, Received, Selector, SendMode, match_bits, tag_of};
use crate::error::MsgError;
use crate::posted::PostedPlace;
use crate::protocol::{EAGER, EAGER_READY};
use crate::request::{RequestId, RequestState, outcome};

/// Polls of the place of the expected message before anything else is polled. Measured one way, far
/// cores, with 4 and 16: 290 and 274 ns.
const FIRST_POLLS: u32 = 16;

/// Polls of the place of the expected message between two polls of everything.
const EXPECTING_POLLS: u32 = 4;

/// Whether a nonblocking receive polls for its message before it becomes a request.
///
/// A poll that finds nothing has a cost: it takes the cache line of the next message away from the
/// core that is about to write it. Between far cores an exchange of 2 x 8 B by requests took 580 ns
/// with early polls and 504 without, one of 2 x 1 KiB 1.27 us and 1.12. But a window of 64 messages
/// that have mostly arrived first took 31 ns a message with early polls, 57 without. So after eight
/// polls that find nothing, and after each later one until a poll succeeds, 63 are skipped.
///
/// While earlier receives of the same source are posted, the next message belongs to one of them
/// and has most likely not arrived: after polls that find nothing, 1, 3, 7, ... are skipped. So the
/// first receives of a window wait, one of the next finds all messages that have arrived, and the
/// rest find their own.
#[derive(Debug, Default)]
pub(super) struct EarlyLooks {
    in_vain: u8,
    left_out: u8,
}

impl EarlyLooks {
    #[inline]
    fn is_due(&mut self) -> bool {
        let left = self.left_out.checked_sub(1);
        self.left_out = left.unwrap_or(0);
        left.is_none()
    }

    #[inline]
    fn note(&mut self, found: bool, is_behind: bool) {
        self.in_vain = if found { 0 } else { (self.in_vain + 1).min(8) };
        self.left_out = match (is_behind, self.in_vain) {
            (true, in_vain) => (1 << in_vain.min(6)) - 1,
            (false, 8) => 63,
            (false, _) => 0,
        };
    }
}

impl<P: CopyPort> Engine<P> {
    /// Sends a message and returns when `bytes` may be reused; in synchronous mode, when the
    /// message has matched.
    ///
    /// A message longer than the eager limit waits for its receiver. If that is this rank itself,
    /// it cannot match within the call: post the receive first, or get
    /// [`MsgError::WaitsForItself`].
    ///
    /// # Errors
    /// [`MsgError`]: the envelope names no rank or tag, or the receiver is gone.
    #[inline]
    pub fn send(
        &mut self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<(), MsgError> {
        match self.send_directly(bytes, &envelope, mode) {
            true => Ok(()),
            false => self.send_slow(bytes, envelope, mode),
        }
    }

    /// Sends a message as one inline post. Returns whether that was possible. If not, nothing was
    /// sent, and the slow path finds out why.
    ///
    /// The result is a `bool`, which stays in a register. A result with errors was written to the
    /// stack in parts and read back as a whole. The processor can do that only after each part has
    /// left its store buffer, and the record of the message is queued there first, waiting for its
    /// cache line. So two messages were never in flight at once.
    #[inline(always)]
    pub fn send_directly(&mut self, bytes: &[u8], envelope: &Envelope, mode: SendMode) -> bool {
        let Envelope { destination, tag, .. } = *envelope;
        // The sender's choices apply to messages in rings.
        let most = if self.choices.is_empty() { SHORT_BYTES } else { INLINE_BYTES };
        let simple = bytes.len() <= most && mode == SendMode::Standard && tag >= 0;
        let counted = self.traffic.is_some();
        if !simple || counted || !self.outbox.is_clear(destination) || self.port.is_forked() {
            return false;
        }
        let sent = self.port.post_short(destination, EAGER, envelope.bits(), bytes);
        if sent {
            self.statistics.sent(bytes.len() as u64);
        }
        sent
    }

    /// The slow path of a blocking send.
    #[cold]
    fn send_slow(
        &mut self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<(), MsgError> {
        let opened = self.open_send(bytes, envelope, mode, true)?;
        let Some(id) = opened else { return Ok(()) };
        self.lend_to_send(id, bytes, |engine| engine.wait(id)).map(drop)
    }

    /// Waits for a message and receives it into the front of `into`.
    ///
    /// # Errors
    /// [`MsgError`]: the message is too long for `into`, the selector names no rank or tag, or a
    /// required rank is gone.
    #[inline]
    pub fn recv(&mut self, into: &mut [u8], selector: Selector) -> Result<Received, MsgError> {
        if let (Some(source), Some(tag)) = (selector.source, selector.tag)
            && let Some(bytes) = self.recv_at_once(into, source, selector.context, tag)
        {
            return Ok(Received { source, tag, bytes });
        }
        self.recv_direct(into, selector)
    }

    /// The fast path of a receive that names source and tag: takes an arrived message if nothing
    /// unexpected, posted or pending precedes it. Returns its length.
    ///
    /// It is short because a processor has as many cache lines in flight as there are loads in its
    /// window of a few hundred instructions. With 166 instructions a message, one line was in
    /// flight, and messages arrived at the rate of single lines. The result is in a register, for
    /// the reason in [`Engine::send_directly`].
    #[inline(always)]
    pub fn recv_at_once(
        &mut self,
        into: &mut [u8],
        source: Rank,
        context: u32,
        tag: i32,
    ) -> Option<u64> {
        if !self.posted.is_empty() || !self.is_next_to_look_at(source, tag) {
            return None;
        }
        self.take_expected(source, match_bits(context, tag), into, FIRST_POLLS)
    }

    /// [`Engine::recv_at_once`] for a nonblocking call: a single poll, or none if recent polls
    /// found nothing. Earlier receives of this source come first, and are completed by the messages
    /// that have arrived for them.
    #[inline]
    pub fn recv_if_there(
        &mut self,
        into: &mut [u8],
        source: Rank,
        context: u32,
        tag: i32,
    ) -> Option<u64> {
        if !self.early_looks.is_due() || !self.is_next_to_look_at(source, tag) {
            return None;
        }
        let is_behind = !self.posted.is_empty();
        let mut any = false;
        if is_behind && !self.serve_posted(source, &mut any) {
            self.early_looks.note(any, true);
            return None;
        }
        let taken = self.take_expected(source, match_bits(context, tag), into, 1);
        self.early_looks.note(any || taken.is_some(), is_behind);
        taken
    }

    /// Completes the receives that name this source with its messages that have arrived, until one
    /// is missing or not whole. Returns whether no receive is left that its next message may match.
    #[inline(never)]
    fn serve_posted(&mut self, source: Rank, any: &mut bool) -> bool {
        if !self.posted.names_all_sources() {
            return false;
        }
        while let Some(first) = self.posted.first_of(source) {
            let Some((id, done)) = self.take_posted(source, first, 1) else { return false };
            self.requests.complete(id, Ok(done));
            *any = true;
        }
        true
    }

    /// Whether only posted receives precede the next message of this source, and nothing has to be
    /// handled before it.
    #[inline(always)]
    fn is_next_to_look_at(&self, source: Rank, tag: i32) -> bool {
        self.unexpected.is_empty()
            && self.outbox.is_empty()
            && self.first_failure.is_none()
            && !self.port.is_forked()
            && tag >= 0
            && self.sources.get(source as usize).is_some_and(|it| it.assembling.is_none())
    }

    /// Receives a message of one packet that has arrived, if nothing older precedes it. `None`: one
    /// of these conditions fails, and nothing was taken.
    #[inline]
    pub(crate) fn recv_directly(
        &mut self,
        into: &mut [u8],
        selector: &Selector,
    ) -> Option<Received> {
        if self.check_selector(selector).is_err() || self.unexpected.find(selector).is_some() {
            return None;
        }
        let (source, bits) = self.expected(selector)?;
        let bytes = self.take_expected(source, bits, into, 1)?;
        Some(Received { source, tag: tag_of(bits), bytes })
    }

    /// A blocking receive by the fast path, or else by a request.
    #[inline(never)]
    fn recv_direct(&mut self, into: &mut [u8], selector: Selector) -> Result<Received, MsgError> {
        match self.recv_waiting(into, &selector) {
            Some(result) => result,
            None => self.recv_slow(into, selector),
        }
    }

    /// Waits for the next message that matches, if it is a single packet. `None`: it is not, and
    /// the slow path finds everything as it was.
    fn recv_waiting(
        &mut self,
        into: &mut [u8],
        selector: &Selector,
    ) -> Option<Result<Received, MsgError>> {
        if self.port.is_forked() {
            return None;
        }
        if let Some(entry) = self.unexpected.find(selector) {
            let entry =
                if entry.is_here() { self.unexpected.take(selector)? } else { return None };
            return Some(self.take_entry(entry, into));
        }
        if self.first_failure.is_some() || self.check_selector(selector).is_err() {
            return None;
        }
        let expected = self.expected(selector);
        for _ in 0..self.config.direct_rounds {
            if let Some((source, bits)) = expected
                && let Some(bytes) = self.take_expected(source, bits, into, EXPECTING_POLLS)
            {
                return Some(Ok(Received { source, tag: tag_of(bits), bytes }));
            }
            match self.port.poll() {
                Some(Event::Landed(landed)) if self.is_simple(&landed, selector) => {
                    return Some(self.take_simple(landed, into));
                }
                Some(event) => {
                    self.handle(event);
                    if self.unexpected.find(selector).is_some() || self.first_failure.is_some() {
                        return None;
                    }
                }
                // This receive may need a source that is held up; the slow path relieves it.
                None if !self.outbox.is_empty() || self.holds_up_somebody() => return None,
                // A check for departed and waiting ranks is due; the slow path does it.
                None if self.park() == Wake::Slept => return None,
                None => {}
            }
        }
        None
    }

    /// The only message that a selector without wildcards can take next, if no older receive and no
    /// incomplete message precedes it.
    #[inline]
    fn expected(&self, selector: &Selector) -> Option<(Rank, u64)> {
        let source = selector.source?;
        let bits = match_bits(selector.context, selector.tag?);
        let first = self.sources[source as usize].assembling.is_none()
            && !self.posted.fits(source, bits)
            && self.outbox.is_empty();
        first.then_some((source, bits))
    }

    /// Takes the expected message from the place where it landed, if it has arrived whole: the port
    /// reads one cache line for that. Polls several times, because the line of a message in flight
    /// reaches a reader that loads little else sooner. Returns the length, in a register.
    #[inline(always)]
    fn take_expected(
        &mut self,
        source: Rank,
        bits: u64,
        into: &mut [u8],
        polls: u32,
    ) -> Option<u64> {
        let Short::Taken(length) = look_for(&mut self.port, source, bits, into, polls) else {
            return None;
        };
        Some(self.note_taken(source, bits, length as u64).bytes)
    }

    /// Accounts for a message that was taken from the place where it landed.
    #[inline(always)]
    fn note_taken(&mut self, source: Rank, bits: u64, bytes: u64) -> Received {
        self.statistics.received(bytes);
        let state = &mut self.sources[source as usize];
        state.note_credited();
        if let Some(grant) = state.credit.consume() {
            self.publish_grant(source, grant);
        }
        Received { source, tag: tag_of(bits), bytes }
    }

    /// Takes the result of a request that has succeeded, or completes a posted receive with the
    /// next message of its source that fits, if that is whole and arrives within a few polls: like
    /// [`Engine::recv_at_once`], without an event. Earlier messages complete the receives that they
    /// match. `None`: neither; call [`Engine::wait`].
    #[inline(always)]
    pub fn wait_for_next(&mut self, id: RequestId) -> Option<Received> {
        let source = match self.requests.get(id)? {
            RequestState::Receive(receive) => receive.selector.source?,
            RequestState::Done(Ok(received)) => {
                let received = received.copied();
                self.requests.release(id);
                return Some(received);
            }
            _ => return None,
        };
        let free = self.posted.names_all_sources()
            && self.outbox.is_empty()
            && self.first_failure.is_none()
            && !self.port.is_forked()
            && self.sources.get(source as usize)?.assembling.is_none();
        if !free {
            return None;
        }
        loop {
            let first = self.posted.first_of(source)?;
            let (taken, done) = self.take_posted(source, first, FIRST_POLLS)?;
            if taken == id {
                self.requests.release(id);
                return Some(done);
            }
            self.requests.complete(taken, Ok(done));
        }
    }

    /// Takes the next message of a source for the receive that it matches, if that receive has
    /// memory. That is most likely `first`, the oldest receive that names the source. No receive
    /// for any source is posted. Returns the request of the receive, for the caller to complete or
    /// release.
    #[inline(always)]
    fn take_posted(
        &mut self,
        source: Rank,
        first: PostedPlace,
        polls: u32,
    ) -> Option<(RequestId, Received)> {
        match self.take_for(source, first, polls) {
            Short::Taken(length) => {
                self.posted.take_at(source, 0);
                Some((first.id, self.note_taken(source, first.bits, length as u64)))
            }
            Short::Differs(bits) => {
                let (id, length) = self.take_posted_behind(source, bits)?;
                Some((id, self.note_taken(source, bits, length)))
            }
            Short::Nothing | Short::Other => None,
        }
    }

    /// The same if the next message has these match bits. Returns the request and the length.
    #[inline(never)]
    fn take_posted_behind(&mut self, source: Rank, bits: u64) -> Option<(RequestId, u64)> {
        let (at, id) = self.posted.first_for(source, bits)?;
        let Short::Taken(length) = self.take_for(source, PostedPlace { id, bits }, 1) else {
            return None;
        };
        self.posted.take_at(source, at);
        Some((id, length as u64))
    }

    /// Takes a message of a source into the memory of a posted receive.
    #[inline(always)]
    fn take_for(
        &mut self,
        source: Rank,
        PostedPlace { id, bits }: PostedPlace,
        polls: u32,
    ) -> Short {
        match self.requests.posted_memory(id) {
            Some(into) => look_for(&mut self.port, source, bits, into, polls),
            None => Short::Other,
        }
    }

    /// Whether a packet is a whole message that matches the selector and no older receive.
    #[inline]
    fn is_simple(&self, landed: &Landed, selector: &Selector) -> bool {
        matches!(landed.protocol, EAGER | EAGER_READY)
            && landed.offset == 0
            && landed.len() as u64 == landed.total
            && selector.takes(landed.source, landed.header)
            && self.sources.get(landed.source as usize).is_some_and(|s| s.assembling.is_none())
            && !self.posted.fits(landed.source, landed.header)
    }

    #[inline]
    fn take_simple(&mut self, landed: Landed, into: &mut [u8]) -> Result<Received, MsgError> {
        let Landed { source, header, total, data, .. } = landed;
        let copied = data.read_out(&mut self.port, into);
        self.note_credited(source);
        self.consumed(source);
        self.statistics.received(copied as u64);
        outcome(source, header, total, into.len())
    }

    /// The slow path of a blocking receive, with a request.
    fn recv_slow(&mut self, into: &mut [u8], selector: Selector) -> Result<Received, MsgError> {
        let id = self.start_recv_detached(into.len(), selector)?;
        self.lend_to_receive(id, into, |engine| engine.wait(id))
    }
}

/// The error of a message whose post failed for a reason other than room.
pub(super) fn refusal(error: PostError) -> MsgError {
    match error {
        PostError::PeerFailed(failure) => MsgError::PeerFailed(failure),
        PostError::NoSuchRank { rank, size } => MsgError::NoSuchRank { rank, size },
        other => MsgError::Fabric(other),
    }
}

/// Polls for a whole message at the place where the next message of its source lands. Polls only
/// once if the source may need this rank's processor. The result fits a register, for the reason in
/// [`Engine::send_directly`].
#[inline(always)]
fn look_for<P: CopyPort>(
    port: &mut P,
    source: Rank,
    bits: u64,
    into: &mut [u8],
    polls: u32,
) -> Short {
    for _ in 0..polls {
        match port.receive_whole(source, EAGER, bits, into) {
            Short::Nothing if port.is_crowded() => break,
            Short::Nothing => std::hint::spin_loop(),
            found => return found,
        }
    }
    Short::Nothing
}
