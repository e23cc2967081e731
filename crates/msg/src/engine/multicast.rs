//! One message to every other member of a group, by one command of the port.
//!
//! Each member gets an eager message of this rank as if it had been sent to it alone, so it is
//! received like any other. Members that have no room are sent it one by one, as are all members
//! where a message is long, so that they read it when they have matched it, or where earlier
//! messages wait for room, which it must not overtake.

use hikyaku_nic::fabric::{ChainError, Command, GroupId, GroupPort, PostError, Rank};

use super::Engine;
use super::direct::refusal;
use crate::envelope::Envelope;
use crate::error::MsgError;
use crate::protocol::EAGER;
use crate::request::{RequestId, SendBody, SendStage};

/// What a multicast has left to be sent.
#[derive(Debug)]
pub(crate) struct MulticastRest {
    /// The request of a member that has taken a part.
    pub(crate) began: Option<RequestId>,
    /// Members that have taken nothing.
    pub(crate) whole: Vec<Rank>,
}

impl<P: GroupPort> Engine<P> {
    /// Sends a message to every other member of a group as far as there is room now.
    ///
    /// # Errors
    /// The tag is invalid, or a member is gone.
    pub(crate) fn multicast(
        &mut self,
        group: GroupId,
        bytes: &[u8],
        context: u32,
        tag: i32,
    ) -> Result<MulticastRest, MsgError> {
        let members = self.port.group(group).map(|group| group.members().to_vec());
        let members = members.unwrap_or_default();
        let envelope = |destination| Envelope { destination, context, tag };
        let own = self.rank;
        let others = |from: usize| members[from..].iter().copied().filter(move |to| *to != own);
        for to in others(0) {
            self.check_envelope(&envelope(to))?;
            if let Some(failure) = self.sources[to as usize].failed {
                return Err(MsgError::PeerFailed(failure));
            }
        }
        let at_once = bytes.len() <= self.config.eager_limit
            && self.traffic.is_none()
            && !self.port.is_forked()
            && others(0).all(|to| self.outbox.is_clear(to));
        if !at_once {
            return Ok(MulticastRest { began: None, whole: others(0).collect() });
        }
        let bits = envelope(own).bits();
        let command = Command { credited: true, ..Command::send(own, EAGER, bits, bytes) };
        let posted = self.port.multicast(group, &command, 0, 0);
        let (done, part) = match posted {
            Ok(()) => (members.len(), 0),
            Err(ChainError { done, bytes, error: PostError::Full { cause, .. } }) => {
                self.statistics.found_full(cause);
                (done, bytes)
            }
            Err(ChainError { error, .. }) => return Err(refusal(error)),
        };
        for _ in members[..done].iter().filter(|to| **to != own) {
            self.statistics.sent(bytes.len() as u64);
        }
        let began = (part > 0).then(|| {
            let stage = SendStage::Eager { posted: part as u64, protocol: EAGER };
            let total = bytes.len() as u64;
            self.queue_send(&envelope(members[done]), total, SendBody::Detached, stage)
        });
        let whole = others(done + usize::from(began.is_some())).collect();
        Ok(MulticastRest { began, whole })
    }
}
