//! The owner: its queue, its grants, and the transfer of ownership.

use super::{Copyset, Effect, Mailbox, MailboxMessage, MailboxStage, Style, Want};
use crate::protocol::{Patience, Refusal};
use crate::word::{AccessKind, Mark, Version};

impl Mailbox {
    pub(super) fn on_want(&mut self, want: Want, effects: &mut Vec<Effect>) {
        let Want { from, number, patience, .. } = want;
        if self.is_gone(from) || self.is_stale(&want) {
            return;
        }
        let promised = !want.doubt && from != self.node && self.pending == Some(AccessKind::Write);
        if !self.owns && !promised {
            return self.forward(want, effects);
        }
        // A request that was sent again after a death may be queued already.
        match self.queue.iter_mut().find(|other| other.from == from) {
            Some(other) if other.number >= number => return,
            Some(other) => *other = want,
            None => self.queue.push_back(want),
        }
        self.serve(effects);
        if patience == Patience::Try {
            self.refuse_the_hasty(from, number, effects);
        }
    }

    /// Whether a request that was sent again after a death has already been answered.
    pub(super) fn is_stale(&self, want: &Want) -> bool {
        if want.from == self.node {
            return self.owns || self.pending.is_none() || want.number != self.number;
        }
        self.readers.iter().any(|(node, number)| *node == want.from && want.number <= *number)
    }

    /// Removes a request that does not wait from the queue, if it is still there, and refuses it.
    pub(super) fn refuse_the_hasty(&mut self, from: u32, number: u32, effects: &mut Vec<Effect>) {
        let hasty = |want: &Want| {
            want.from == from && want.number == number && want.patience == Patience::Try
        };
        let Some(at) = self.queue.iter().position(hasty) else { return };
        self.queue.remove(at);
        self.answer(from, number, Refusal::Busy, effects);
    }

    fn answer(&mut self, to: u32, number: u32, refusal: Refusal, effects: &mut Vec<Effect>) {
        if to != self.node {
            effects.push(Effect::Send(to, MailboxMessage::Refused { number, refusal }));
        } else if matches!(self.stage, MailboxStage::Asked { .. }) {
            self.refuse(refusal, effects);
        }
    }

    /// The mark of contents that are lost and must not be granted.
    pub(super) fn lost(&self) -> Option<Mark> {
        self.mark.filter(|_| !self.recoverable)
    }

    /// Serves the queue in order, as far as possible (FG-04).
    pub(super) fn serve(&mut self, effects: &mut Vec<Effect>) {
        if !self.owns {
            return;
        }
        while self.owns && !self.is_written() {
            let Some(want) = self.queue.front().copied() else { return };
            let reads_here = matches!(self.stage, MailboxStage::Inside { .. });
            let blocked = match want.kind {
                AccessKind::Write => !self.readers.is_empty() || reads_here,
                // The node has just released; its message is in flight.
                AccessKind::Read => self.readers.iter().any(|(node, _)| *node == want.from),
            };
            if let Some(mark) = self.lost() {
                self.queue.pop_front();
                self.answer(want.from, want.number, Refusal::Lost(mark), effects);
            } else if blocked {
                return;
            } else {
                self.queue.pop_front();
                self.grant(want, effects);
            }
        }
        if !self.owns {
            self.hand_on(effects);
        }
    }

    fn is_written(&self) -> bool {
        matches!(
            self.stage,
            MailboxStage::Inside { kind: AccessKind::Write, .. } | MailboxStage::Clearing { .. }
        )
    }

    /// Forwards all queued requests, perhaps one of this node among them, to the new owner, in
    /// order.
    pub(super) fn hand_on(&mut self, effects: &mut Vec<Effect>) {
        for want in std::mem::take(&mut self.queue) {
            if want.from == self.node {
                self.pending = Some(want.kind);
            }
            self.forward(want, effects);
        }
    }

    fn grant(&mut self, want: Want, effects: &mut Vec<Effect>) {
        let Want { from, number, kind, held, .. } = want;
        let version = self.known.position;
        if kind == AccessKind::Read && self.style == Style::Stores {
            self.readers.push((from, number));
        }
        if from == self.node {
            return match kind {
                AccessKind::Write => self.begin_writing(None, effects),
                AccessKind::Read => {
                    self.enter(kind, Some((from, number)), self.has_moved(), effects);
                }
            };
        }
        let valid = match self.style {
            Style::Stores => held == version,
            Style::Datagrams => self.copies.contains(from) && held == version,
        };
        if !valid {
            effects.push(Effect::Send(from, MailboxMessage::Contents(version, self.mark)));
        }
        self.copies.insert(from);
        let (copies, mark) = (self.copies, self.mark);
        effects.push(Effect::Send(
            from,
            MailboxMessage::Grant { number, kind, version, copies, mark },
        ));
        if kind == AccessKind::Write {
            self.pass_ownership(from);
            self.tell_of_owner(from, effects);
        }
    }

    /// Announces the owner change to all other nodes except the new owner.
    pub(super) fn tell_of_owner(&mut self, owner: u32, effects: &mut Vec<Effect>) {
        let version = self.known;
        for node in (0..self.nodes).filter(|node| *node != self.node && *node != owner) {
            if self.is_gone(node) {
                continue;
            }
            effects.push(match self.style {
                Style::Stores => Effect::Store(node, version),
                Style::Datagrams => {
                    Effect::Send(node, MailboxMessage::Told { version, answer: None })
                }
            });
        }
    }

    /// Makes this node the owner. `from` was the owner, and does not read.
    pub(super) fn on_ownership(&mut self, from: u32, version: u64, effects: &mut Vec<Effect>) {
        self.owns = true;
        self.pending = None;
        self.known = Version { position: version, node: self.node, shared: false };
        match self.stage {
            MailboxStage::Asked { kind: AccessKind::Write, .. } => {
                // Requests that waited for this node's ownership now wait for its release.
                return self.begin_writing(Some(from), effects);
            }
            MailboxStage::Asked { kind, patience, .. } => {
                self.number += 1;
                self.queue.push_front(self.want(kind, patience));
            }
            _ => {}
        }
        // The promised version is used without a write.
        self.known.position += 1;
        self.held = self.known.position;
        self.tell_of_owner(self.node, effects);
        self.serve(effects);
    }

    fn has_moved(&self) -> bool {
        matches!(self.stage, MailboxStage::Asked { moved: true, .. })
    }

    /// Begins to enter WLOCK as the owner: its version is new, and the other copies are old.
    fn begin_writing(&mut self, granter: Option<u32>, effects: &mut Vec<Effect>) {
        let moved = self.has_moved();
        let version = Version { position: self.known.position + 1, node: self.node, shared: false };
        self.known = version;
        self.held = version.position;
        let others = (0..self.nodes).filter(|node| *node != self.node && !self.is_gone(*node));
        if self.style == Style::Stores {
            effects.extend(others.map(|node| Effect::Store(node, version)));
            return self.enter(AccessKind::Write, None, moved, effects);
        }
        let MailboxStage::Asked { patience, .. } = self.stage else { return };
        let mut left = Copyset::default();
        for node in others.filter(|node| self.copies.contains(*node)) {
            // The node that has just passed ownership does not read.
            let answer = (granter != Some(node)).then_some(patience);
            if answer.is_some() {
                left.insert(node);
            }
            effects.push(Effect::Send(node, MailboxMessage::Told { version, answer }));
        }
        self.copies = Copyset::default();
        self.copies.insert(self.node);
        self.stage = MailboxStage::Clearing { patience, moved, left };
        self.check_clear(effects);
    }

    pub(super) fn check_clear(&mut self, effects: &mut Vec<Effect>) {
        if let MailboxStage::Clearing { moved, left, .. } = self.stage
            && left.is_empty()
        {
            self.enter(AccessKind::Write, None, moved, effects);
        }
    }

    pub(super) fn on_heard(
        &mut self,
        from: u32,
        position: u64,
        busy: bool,
        effects: &mut Vec<Effect>,
    ) {
        if self.style == Style::Stores {
            // This node read when the previous owner died or handed the variable over.
            if position == self.known.position {
                self.on_done(from, 0, effects);
            }
            return;
        }
        let MailboxStage::Clearing { left, .. } = &mut self.stage else { return };
        if position != self.known.position {
            return;
        }
        if busy {
            self.stop_clearing(effects);
            return effects.push(Effect::Refused(Refusal::Busy));
        }
        left.remove(from);
        self.check_clear(effects);
    }

    /// Stops waiting. A node that has not answered may still read, so the next write notifies it
    /// again.
    pub(super) fn stop_clearing(&mut self, effects: &mut Vec<Effect>) {
        let MailboxStage::Clearing { left, .. } = self.stage else { return };
        self.copies = self.copies.with(&left);
        self.stage = MailboxStage::Free;
        self.serve(effects);
    }

    pub(super) fn on_done(&mut self, from: u32, number: u32, effects: &mut Vec<Effect>) {
        self.readers.retain(|reader| *reader != (from, number));
        self.serve(effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_answered_before_is_not_sent_on() {
        let mut reader = Mailbox::new(Style::Stores, 1, 3, 0, false);
        let mut effects = Vec::new();
        reader.acquire(AccessKind::Read, Patience::Wait, &mut effects);
        let want = reader.want(AccessKind::Read, Patience::Wait);
        assert_eq!(effects, [Effect::Send(0, MailboxMessage::Want(want))]);
        let (kind, version, copies) = (AccessKind::Read, reader.held(), Copyset::default());
        let grant =
            MailboxMessage::Grant { number: want.number, kind, version, copies, mark: None };
        reader.receive(0, grant, &mut effects);
        assert_eq!(reader.inside(), Some(AccessKind::Read));
        effects.clear();
        reader.receive(2, MailboxMessage::Want(Want { doubt: true, ..want }), &mut effects);
        assert_eq!(effects, []);
    }

    #[test]
    fn an_owner_enters_without_contents_that_moved() {
        for kind in [AccessKind::Write, AccessKind::Read] {
            let mut owner = Mailbox::new(Style::Stores, 0, 2, 0, false);
            let mut effects = Vec::new();
            owner.acquire(kind, Patience::Wait, &mut effects);
            assert_eq!(effects.last(), Some(&Effect::Entered { moved: false, mark: None }));
        }
    }
}
