//! Cancelling operations: on request, and when a future is dropped.

use hikyaku_nic::fabric::CopyPort;
use hikyaku_nic::time::Time;

use super::wait::{Blocked, Pace};
use super::{Engine, PartTarget};
use crate::protocol::Control;
use crate::request::{ReceiveStage, RequestId, RequestState, SendBody, SendStage};

/// Longest wait for a rank that may still read memory which the program takes back.
const LAST_READ: Time = Time::from_nanoseconds(5_000_000_000);

/// The result of a request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The operation had no effect and its request is freed: do not ask for its result.
    Cancelled,
    /// The receiver was asked to withdraw the message. Wait for the request: its result is
    /// [`MsgError::Cancelled`](crate::MsgError::Cancelled), unless a receive was faster.
    Asked,
    /// The operation has matched or is complete: wait for it as if it had not been cancelled.
    TooLate,
}

impl<P: CopyPort> Engine<P> {
    /// Tries to cancel an operation (MPI 5.0 §3.8.4).
    pub fn cancel(&mut self, id: RequestId) -> CancelOutcome {
        if self.port.is_forked() {
            return CancelOutcome::TooLate;
        }
        match self.requests.get_mut(id) {
            Some(RequestState::Send(send)) => match send.stage {
                SendStage::Announced { cancelling } => {
                    let destination = send.destination;
                    send.stage = SendStage::Announced { cancelling: true };
                    if !cancelling {
                        self.post_control(destination, Control::Cancel { sender: id });
                    }
                    CancelOutcome::Asked
                }
                SendStage::Eager { posted: 0, .. } | SendStage::Announce { .. } => {
                    self.forget(id);
                    CancelOutcome::Cancelled
                }
                SendStage::Eager { .. } | SendStage::Stream { .. } => CancelOutcome::TooLate,
            },
            Some(RequestState::Receive(receive))
                if matches!(receive.stage, ReceiveStage::Posted) =>
            {
                self.forget(id);
                CancelOutcome::Cancelled
            }
            _ => CancelOutcome::TooLate,
        }
    }

    /// Abandons a request: its memory is not accessed any more and its result will not be taken.
    ///
    /// An eager message that was posted in part is finished from a copy of the rest, since its
    /// parts must follow each other. A stream that its receiver has cleared is stopped, and the
    /// receiver is informed. A message that has matched an abandoned receive is lost.
    pub fn abandon(&mut self, id: RequestId) {
        if self.port.is_forked() {
            return;
        }
        match self.requests.get(id) {
            None => {}
            Some(RequestState::Done(_)) => drop(self.requests.remove(id)),
            Some(RequestState::Send(_)) => self.abandon_send(id),
            Some(RequestState::Receive(_)) => self.abandon_receive(id),
        }
    }

    fn abandon_send(&mut self, id: RequestId) {
        let Some(send) = self.requests.send_mut(id) else { return };
        let destination = send.destination;
        match send.stage {
            SendStage::Eager { posted, .. } if posted > 0 => {
                let rest = match &mut send.body {
                    SendBody::Borrowed(buffer) => buffer.as_slice()[posted as usize..].to_vec(),
                    SendBody::Packed(data) => data.rest(posted as usize),
                    SendBody::Owned(rest) => std::mem::take(rest),
                    SendBody::Detached => Vec::new(),
                };
                send.body = SendBody::Owned(rest);
                send.abandoned = true;
            }
            SendStage::Eager { .. } | SendStage::Announce { .. } => self.forget(id),
            SendStage::Announced { .. } => {
                let body = std::mem::replace(&mut send.body, SendBody::Detached);
                send.abandoned = true;
                let mut is_read = send.lent.is_some();
                if is_read && let SendBody::Borrowed(buffer) = body {
                    // The receiver may be reading it.
                    let kept = buffer.as_slice().to_vec();
                    is_read = !self.port.replace_lent(destination, id.word(), &kept);
                    send.body = SendBody::Owned(kept);
                } else {
                    // A receiver on this node may read it before the CANCEL arrives.
                    self.is_revoked = true;
                    self.port.set_revoked(true);
                }
                self.cancel(id);
                if is_read {
                    self.outlast(id);
                }
            }
            SendStage::Stream { receiver, .. } => {
                self.forget(id);
                self.post_control(destination, Control::Abort { receiver });
            }
        }
    }

    /// Ends the mark of an abandoned message once its receiver has answered, or is gone.
    pub(super) fn restore(&mut self) {
        let is_open = |(_, request): (RequestId, &RequestState)| match request {
            RequestState::Send(send) => {
                send.abandoned && matches!(send.stage, SendStage::Announced { .. })
            }
            _ => false,
        };
        if self.is_revoked && !self.requests.iter().any(is_open) {
            self.is_revoked = false;
            self.port.set_revoked(false);
        }
    }

    /// Waits until the receiver of an abandoned message has fetched it or reports that it does not
    /// need it, since the fabric cannot lend a copy under the receiver's key. The receiver has to
    /// call the library for that. If it does not, or if its receive is in a future that is not
    /// polled, the wait ends after [`LAST_READ`]: its fetch fails, and it takes this rank for lost.
    #[cold]
    fn outlast(&mut self, id: RequestId) {
        let end = self.port.now() + LAST_READ;
        let mut blocked = Blocked::new(self.wait_of(id));
        while self.requests.get(id).is_some() && self.port.now() < end {
            self.pass(&mut blocked, Pace::Doorbell);
        }
        self.awake(&blocked);
        self.take_back(id);
    }

    fn abandon_receive(&mut self, id: RequestId) {
        self.retreat(id);
        let Some(receive) = self.requests.receive_mut(id) else { return };
        receive.buffer = None;
        match &mut receive.stage {
            // After the retreat no joint copy is left.
            ReceiveStage::Posted | ReceiveStage::Joint(_) => self.forget(id),
            ReceiveStage::Announced(announced) => {
                let (source, sender) = (announced.source, announced.rts.request);
                self.requests.remove(id);
                self.post_consumed(source, sender);
            }
            ReceiveStage::Incoming(incoming) if incoming.streamed => {
                incoming.parts.discard(&mut self.port);
                incoming.copied = incoming.arrived;
                receive.abandoned = true;
                if incoming.is_complete() {
                    self.requests.remove(id);
                }
            }
            ReceiveStage::Incoming(incoming) => {
                incoming.parts.discard(&mut self.port);
                let source = incoming.source;
                self.requests.remove(id);
                if let Some(message) = &mut self.sources[source as usize].assembling
                    && message.target == PartTarget::Request(id)
                {
                    message.target = PartTarget::Nowhere;
                }
            }
        }
    }

    /// Removes a request and every reference to it in this engine's queues.
    pub(super) fn forget(&mut self, id: RequestId) {
        self.unlist(id);
        self.requests.remove(id);
    }

    /// Removes every reference to a request in this engine's queues.
    pub(super) fn unlist(&mut self, id: RequestId) {
        self.take_back(id);
        match self.requests.get(id) {
            Some(RequestState::Send(send)) => {
                let lane = self.outbox.lane(send.destination);
                lane.ordered.retain(|other| *other != id);
                lane.streams.retain(|other| *other != id);
            }
            Some(RequestState::Receive(receive)) => {
                let selector = receive.selector;
                self.posted.remove(&selector, id);
            }
            _ => {}
        }
    }
}
