//! Blocking send and receive without a request.
//!
//! A small message that finds room is one post; a receive that is waited for takes its message
//! out of the status record into the caller's buffer. Neither allocates, hashes or touches the
//! slab. Whatever is not that simple goes the general way.

use hikyaku_nic::fabric::{Command, Event, INLINE_BYTES, Landed, Port, PostError};

use super::Engine;
use crate::envelope::{Envelope, Received, Selector, SendMode};
use crate::error::MsgError;
use crate::parcel::Part;
use crate::protocol::{EAGER, EAGER_READY};
use crate::request::outcome;

impl<P: Port> Engine<P> {
    /// Sends a message and returns when `bytes` may be used again; in synchronous mode, when it
    /// has matched.
    ///
    /// A message longer than the eager limit waits for its receiver. To this rank itself, that
    /// cannot happen within the call: post the receive first, or get
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
        let Envelope { destination, tag, .. } = envelope;
        let simple = bytes.len() <= INLINE_BYTES && mode == SendMode::Standard && tag >= 0;
        if simple && self.outbox.is_clear(destination) {
            let command = Command {
                credited: true,
                ..Command::send(destination, EAGER, envelope.bits(), bytes)
            };
            match self.port.post(&command) {
                Ok(_) => {
                    self.statistics.sent(bytes.len() as u64);
                    return Ok(());
                }
                Err(PostError::Full { .. }) => {}
                Err(error) => return Err(refusal(error)),
            }
        }
        self.send_general(bytes, envelope, mode)
    }

    /// Any blocking send.
    fn send_general(
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
    /// rank that is needed is gone.
    #[inline]
    pub fn recv(&mut self, into: &mut [u8], selector: Selector) -> Result<Received, MsgError> {
        match self.recv_direct(into, &selector) {
            Some(result) => result,
            None => self.recv_general(into, selector),
        }
    }

    /// Receives a message that comes whole in one packet and is the next that fits. `None`: it is
    /// not that simple, and nothing was taken that the general way does not find.
    #[inline]
    fn recv_direct(
        &mut self,
        into: &mut [u8],
        selector: &Selector,
    ) -> Option<Result<Received, MsgError>> {
        if self.unexpected.find(selector).is_some() || self.first_failure.is_some() {
            return None;
        }
        self.check_selector(selector).ok()?;
        for _ in 0..self.config.direct_rounds {
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
                None if !self.outbox.is_empty() => return None,
                None => drop(self.port.park(None)),
            }
        }
        None
    }

    /// Whether a packet is a whole message that the selector takes and no older receive does.
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
        let copied = Part::from(data).deliver(&mut self.port, into);
        self.note_credited(source);
        self.consumed(source);
        self.statistics.received(copied as u64);
        outcome(source, header, total, into.len())
    }

    /// Any blocking receive.
    fn recv_general(&mut self, into: &mut [u8], selector: Selector) -> Result<Received, MsgError> {
        let id = self.start_recv_detached(into.len(), selector)?;
        self.lend_to_receive(id, into, |engine| engine.wait(id))
    }
}

/// What a post that took nothing, not for want of room, means for a message.
pub(super) fn refusal(error: PostError) -> MsgError {
    match error {
        PostError::PeerFailed(failure) => MsgError::PeerFailed(failure),
        PostError::NoSuchRank { rank, size } => MsgError::NoSuchRank { rank, size },
        other => MsgError::Fabric(other),
    }
}
