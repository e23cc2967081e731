//! Messages that both ends copy at once (`Way::Both`).
//!
//! The receiver opens the copy, tells the sender (JOIN), and copies from the back. The sender, if
//! it waits, copies from the front. While the sender copies a part, it uses the receiver's memory.
//! So code that takes this memory away first completes the copy ([`Engine::complete_joint`]) or
//! ends it ([`Engine::retreat`]), and waits no longer than for the sender's current part.

use hikyaku_nic::fabric::{Activity, CopyPort, JointCopy, Rank, RemoteAddress, Wait};
use hikyaku_nic::time::Time;

use super::Engine;
use super::rendezvous::check_revoked;
use crate::envelope::{context_of, tag_of};
use crate::protocol::Control;
use crate::request::{Announced, Joint, ReceiveStage, RequestId, SendStage};
use crate::ways::Way;

/// Rounds of a retreat that only spin, and rounds after which the wait is announced.
const SPINS: u32 = 1 << 10;
const ANNOUNCE: u32 = 1 << 16;

impl<P: CopyPort> Engine<P> {
    /// Opens a copy of a matched message and copies this end's part. `false`: it is not possible
    /// now.
    pub(super) fn begin_joint(
        &mut self,
        id: RequestId,
        announced: Announced,
        want: u64,
        began: Time,
    ) -> bool {
        if self.joint.is_some() {
            return false;
        }
        let Some(receive) = self.requests.receive_mut(id) else { return false };
        let Some(buffer) = &mut receive.buffer else { return false };
        let Some(into) = buffer.whole().and_then(|it| it.get_mut(..want as usize)) else {
            return false;
        };
        let Some(copy) = self.port.open_joint(into) else { return false };
        receive.stage = ReceiveStage::Joint(Box::new(Joint { announced, copy, began }));
        self.joint = Some(id);
        let Announced { source, rts, .. } = announced;
        self.post_control(source, Control::Join { sender: rts.request, copy });
        self.go_on_joint(id);
        true
    }

    /// Copies the bytes that the sender has not copied, and completes the receive if all are there.
    /// Returns whether the copy has ended.
    pub(super) fn go_on_joint(&mut self, id: RequestId) -> bool {
        let receive = self.requests.receive_mut(id);
        let parts = receive.and_then(|receive| match (&receive.stage, &mut receive.buffer) {
            (ReceiveStage::Joint(joint), Some(buffer)) => Some((**joint, buffer)),
            _ => None,
        });
        let Some((Joint { announced, copy, began }, buffer)) = parts else {
            // Its sender has died.
            self.joint = None;
            return true;
        };
        let Announced { source, rts, .. } = announced;
        let Some((space, offset)) = rts.address else { return false };
        let from = RemoteAddress { rank: source, space, offset };
        let Some(into) = buffer.whole().and_then(|it| it.get_mut(..copy.length as usize)) else {
            return false;
        };
        let length = into.len();
        let read = match self.port.read_jointly(from, into, &copy) {
            Ok(true) => check_revoked(&self.port, source, offset, length).map(|()| true),
            read => read,
        };
        match read {
            Ok(false) => false,
            Ok(true) => {
                self.joint = None;
                let kind = self.kind_of(&rts, copy.length);
                self.note_way(source, kind, (Way::Both, Way::Both), began);
                self.statistics.joint_copies += 1;
                self.finish_rendezvous(id, &announced, copy.length);
                true
            }
            Err(error) => {
                self.retreat(id);
                self.note_refusal(source, error);
                self.clear(id, &announced, copy.length, None);
                true
            }
        }
    }

    /// Handles a JOIN: copies a part of a message to its receiver. `false`: it is invalid.
    pub(super) fn joined(&mut self, sender: u64, copy: &JointCopy) -> bool {
        let send = self.requests.send_mut(RequestId::from_word(sender)).filter(|send| {
            let announced = matches!(send.stage, SendStage::Announced { .. });
            announced && send.destination == copy.into.rank
        });
        let Some(send) = send else {
            // The receiver has copied everything alone.
            self.statistics.stray += 1;
            return true;
        };
        if copy.length > send.total {
            return false;
        }
        let Some(bytes) = send.bytes_from(0) else {
            // A future lends its memory at its next poll. Until then the receiver copies alone.
            self.late_join = Some((sender, *copy));
            return true;
        };
        if let Some(bytes) = bytes.get(..copy.length as usize)
            && let Ok(written) = self.port.write_jointly(copy, bytes)
        {
            self.statistics.joint_bytes += written;
        }
        true
    }

    /// A send has its memory: the copy that its receiver requested begins, if it is still open.
    pub(super) fn join_late(&mut self, id: RequestId) {
        if let Some((sender, copy)) = self.late_join.take_if(|(late, _)| *late == id.word()) {
            self.joined(sender, &copy);
        }
    }

    /// Completes the joint copy of a receive, if there is one, without further help. On return this
    /// rank alone uses the memory. So a poll that lends memory needs no second copy.
    pub(super) fn complete_joint(&mut self, id: RequestId) {
        if self.joint != Some(id) {
            return;
        }
        if let Some(ReceiveStage::Joint(joint)) =
            self.requests.receive_mut(id).map(|receive| &receive.stage)
        {
            let Joint { announced, copy, .. } = **joint;
            self.leave_to(announced.source, announced.bits, &copy);
            self.go_on_joint(id);
        }
        // Its sender has died in the middle of a part.
        self.retreat(id);
    }

    /// Ends the joint copy of a receive, if there is one. On return this rank alone uses the
    /// memory, and the message counts as announced again.
    pub(super) fn retreat(&mut self, id: RequestId) {
        if self.joint != Some(id) {
            return;
        }
        self.joint = None;
        let Some(receive) = self.requests.receive_mut(id) else { return };
        let ReceiveStage::Joint(joint) = &receive.stage else { return };
        let Joint { announced, copy, .. } = **joint;
        receive.stage = ReceiveStage::Announced(Box::new(announced));
        self.leave_to(announced.source, announced.bits, &copy);
    }

    /// Waits until a sender has left this rank's memory: until its current part ends, or it dies.
    fn leave_to(&mut self, source: Rank, bits: u64, copy: &JointCopy) {
        let mut rounds = 0u32;
        while !self.port.close_joint(source, copy) {
            rounds = rounds.saturating_add(1);
            if rounds == ANNOUNCE {
                let wait = Wait::new(Activity::Receive).on(context_of(bits));
                let wait = wait.with(Some(source), Some(tag_of(bits)));
                let since = self.port.now();
                self.port.announce_wait(Some(Wait { since, ..wait }));
            }
            if rounds < SPINS {
                std::hint::spin_loop();
            } else {
                self.port.park(Some(self.port.now()));
            }
        }
        if rounds >= ANNOUNCE {
            self.port.announce_wait(None);
        }
    }
}
