//! Recovery when a node is gone: the stand-in for the owner, and the fate of requests.
//!
//! The paper does not define this. Here the lowest remaining node is the stand-in. It asks every
//! node whether it owns the variable. If no node does, and no ownership is in flight between two of
//! them, it gives the variable to the node with the newest copy.
//!
//! ```text
//!   requester              stand-in                     every node that is left
//!   Want, in doubt ──────► Survey ────────────────────► Account: owner? known? held?
//!                          no node owns it:
//!                          Adopt ─────────────────────► the node of the newest copy: notifies all
//!                          Want ──────────────────────►
//! ```
//!
//! A node with a request in flight sends it again, in doubt, because the first copy may have been
//! in the dead node's queue. If it was not, the request arrives twice, and its number shows that.
//!
//! The second copy may be granted after the first: to a node that wants nothing, and may have left.
//! So a node that leaves waits until its last granted ownership has arrived. Without that:
//!
//! ```text
//!   node 0: wants it, owns it ────► done, leaves          ┐
//!   node 1: has a second copy of 0's request              ├─► Contents and ownership end
//!           owns it ──── Grant ──────────► (0 is gone)    │   with both.
//!           does not know of 0's end, leaves              ┘
//! ```
//!
//! Asking when it leaves costs two messages then, and none in a grant or a write. If no node has
//! received the ownership ([`Mailbox::depart`]), the granter still has the contents, and reports
//! them in the survey.
//!
//! The driver guarantees two things. First, the messages that a node sent before its end are
//! handled before [`Mailbox::depart`] is called, or never. Second, a node handles a message only
//! when it knows of every end that the sender knew of.

use super::{Account, Copyset, Effect, Mailbox, MailboxMessage, MailboxStage, Want};
use crate::protocol::Patience;
use crate::word::{AccessKind, Mark, Version};

/// What a node knows about the gone nodes, and its state as a stand-in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct StandIn {
    /// The nodes that are gone.
    departed: Copyset,
    /// The gone nodes that did not leave in order.
    died: Copyset,
    /// The owner that was found since the last departure.
    found: Option<u32>,
    /// The answers so far, while a survey is under way.
    accounts: Option<Vec<(u32, Account)>>,
    /// Requests that wait for the end of the survey.
    waiting: Vec<Want>,
    /// Whether the ownership that this node passed last has arrived.
    arrival: Arrival,
}

/// What a node knows about the arrival of the ownership that it passed last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Arrival {
    /// It was granted. The node does not ask whether it arrives while it uses the variable.
    #[default]
    Unknown,
    /// It was granted. The node is about to leave and has asked the receiver.
    Asked,
    /// The receiver is gone. The request with this number searches for the owner.
    Sought { number: u32 },
    /// It was handed over, with these readers. The receiver answers when it takes it.
    HandedOver { readers: Copyset },
    /// It has arrived.
    Confirmed,
}

impl Mailbox {
    /// Handles the departure of a node. `died`: it did not leave in order.
    pub fn depart(&mut self, node: u32, died: bool, effects: &mut Vec<Effect>) {
        if self.is_gone(node) || node == self.node {
            return;
        }
        self.recovery.departed.insert(node);
        if died {
            self.recovery.died.insert(node);
        }
        self.recovery.found = None;
        self.readers.retain(|(reader, _)| *reader != node);
        self.copies.remove(node);
        self.queue.retain(|want| want.from != node);
        self.owed.retain(|(owner, _)| *owner != node);
        self.take_back(node, died, effects);
        if let MailboxStage::Clearing { left, .. } = &mut self.stage {
            left.remove(node);
            self.check_clear(effects);
        }
        if self.recovery.accounts.is_some() {
            self.survey(effects);
        }
        if let Some(kind) = self.pending {
            let patience = match self.stage {
                MailboxStage::Asked { patience, .. } => patience,
                _ => Patience::Try,
            };
            let want = Want { doubt: true, ..self.want(kind, patience) };
            self.forward(want, effects);
        }
        self.serve(effects);
    }

    /// Whether this node knows that a node is gone.
    pub fn is_gone(&self, node: u32) -> bool {
        self.recovery.departed.contains(node)
    }

    /// Whether the other nodes can do without this one: it holds no part of the variable, nothing
    /// of the variable is in flight to it, and the ownership that it passed last has arrived.
    pub fn may_leave(&self) -> bool {
        !self.owns
            && !self.may_be_lost()
            && self.pending.is_none()
            && self.stage == MailboxStage::Free
    }

    /// Whether [`Mailbox::hand_over`] has something to do.
    pub fn may_hand_over(&self) -> bool {
        let may_ask = self.may_be_lost()
            && self.recovery.arrival == Arrival::Unknown
            && (self.pending.is_none() || !self.is_gone(self.passed.node));
        self.stage == MailboxStage::Free && (self.owns || may_ask)
    }

    /// Whether an answer to [`Mailbox::hand_over`] is still missing.
    pub fn waits_for_arrival(&self) -> bool {
        self.may_be_lost() && self.recovery.arrival != Arrival::Unknown
    }

    /// Prepares to leave. If this node owns the variable, contents, readers and queue go to `heir`,
    /// a node that stays. If it granted the variable, it finds out whether the ownership has
    /// arrived. It may leave after the answer ([`Mailbox::may_leave`]).
    pub fn hand_over(&mut self, heir: u32, effects: &mut Vec<Effect>) {
        if !self.may_hand_over() {
            return;
        }
        let receiver = self.passed.node;
        if self.owns {
            if heir != self.node && !self.is_gone(heir) {
                self.hand_over_to(heir, effects);
            }
        } else if self.is_gone(receiver) {
            // The stand-in finds the owner when it serves any request.
            self.ask(AccessKind::Read, Patience::Try, effects);
            self.recovery.arrival = Arrival::Sought { number: self.number };
        } else {
            effects.push(Effect::Send(receiver, MailboxMessage::Survey));
            self.recovery.arrival = Arrival::Asked;
        }
    }

    fn hand_over_to(&mut self, heir: u32, effects: &mut Vec<Effect>) {
        let (position, mark) = (self.known.position, self.mark);
        let mut readers = Copyset::default();
        self.readers.drain(..).for_each(|(node, _)| readers.insert(node));
        // A reader has the newest contents, and no node stores into a reader's copy.
        if !readers.contains(heir) {
            effects.push(Effect::Send(heir, MailboxMessage::Contents(position, mark)));
        }
        self.pass_ownership(heir);
        let version = self.known.position;
        effects.push(Effect::Send(heir, MailboxMessage::Adopt { version, mark, readers }));
        self.recovery.arrival = Arrival::HandedOver { readers };
        self.hand_on(effects);
    }

    /// Whether the ownership that this node passed last may not have arrived: no confirmation and
    /// no later owner is known. If this node leaves too, no node knows the newest contents.
    fn may_be_lost(&self) -> bool {
        self.passed == self.known && self.recovery.arrival != Arrival::Confirmed
    }

    /// Takes ownership back if its receiver is gone and cannot have used it. A receiver by hand-off
    /// that left in order without an answer never had it. A receiver by grant may have passed it
    /// on, and a receiver that died may have written.
    fn take_back(&mut self, node: u32, died: bool, effects: &mut Vec<Effect>) {
        if node != self.passed.node || !self.may_be_lost() {
            return;
        }
        match self.recovery.arrival {
            Arrival::HandedOver { readers } if !died => {
                self.adopt(self.passed.position + 1, None, readers, effects);
            }
            _ => self.recovery.arrival = Arrival::Unknown,
        }
    }

    /// Makes `to` the owner. The new version is the one that `to` is about to write, larger than
    /// any before.
    pub(super) fn pass_ownership(&mut self, to: u32) {
        self.owns = false;
        self.known = Version { position: self.known.position + 1, node: to, shared: false };
        self.passed = self.known;
        self.recovery.arrival = Arrival::Unknown;
    }

    /// Notes the answer to the pending request. A request that searched for an owner has found it.
    pub(super) fn on_answer(&mut self) {
        self.pending = None;
        if self.recovery.arrival == (Arrival::Sought { number: self.number }) {
            self.recovery.arrival = Arrival::Confirmed;
        }
    }

    fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.nodes).filter(|node| !self.is_gone(*node))
    }

    fn stand_in(&self) -> u32 {
        self.living().next().unwrap_or(self.node)
    }

    /// Forwards a request to the owner, or to the stand-in, which finds the owner.
    pub(super) fn forward(&mut self, want: Want, effects: &mut Vec<Effect>) {
        let owner = self.known.node;
        if !want.doubt && owner != self.node && !self.is_gone(owner) {
            return effects.push(Effect::Send(owner, MailboxMessage::Want(want)));
        }
        self.ask_stand_in(Want { doubt: true, ..want }, effects);
    }

    fn ask_stand_in(&mut self, want: Want, effects: &mut Vec<Effect>) {
        let stand_in = self.stand_in();
        if stand_in != self.node {
            return effects.push(Effect::Send(stand_in, MailboxMessage::Want(want)));
        }
        if self.owns || self.recovery.found.is_some() {
            return self.pass(want, effects);
        }
        self.recovery.waiting.push(want);
        if self.recovery.accounts.is_none() {
            self.survey(effects);
        }
    }

    /// Sends a request to the owner that was found.
    fn pass(&mut self, want: Want, effects: &mut Vec<Effect>) {
        if self.is_stale(&want) {
            return;
        }
        let want = Want { doubt: false, ..want };
        match self.recovery.found.filter(|_| !self.owns) {
            None => self.on_want(want, effects),
            Some(owner) if owner != self.node => {
                effects.push(Effect::Send(owner, MailboxMessage::Want(want)));
            }
            // The ownership is in flight to this node.
            Some(_) if want.from == self.node => {}
            Some(_) => {
                let owner = self.known.node;
                let coming = self.pending == Some(AccessKind::Write) || self.is_gone(owner);
                if coming || owner == self.node {
                    self.queue.push_back(want);
                } else {
                    // This node had the variable, and has passed it on.
                    effects.push(Effect::Send(owner, MailboxMessage::Want(want)));
                }
            }
        }
    }

    /// Asks every node. Starts again when another node is gone.
    fn survey(&mut self, effects: &mut Vec<Effect>) {
        self.recovery.accounts = Some(vec![(self.node, self.account())]);
        let others: Vec<u32> = self.living().filter(|node| *node != self.node).collect();
        effects.extend(others.into_iter().map(|node| Effect::Send(node, MailboxMessage::Survey)));
        self.check_answers(effects);
    }

    fn account(&self) -> Account {
        Account {
            owns: self.owns,
            known: self.known,
            passed: self.passed,
            held: self.held,
            reads: matches!(self.stage, MailboxStage::Inside { counted: Some(_), .. }),
            departed: self.recovery.departed,
        }
    }

    pub(super) fn on_survey(&mut self, from: u32, effects: &mut Vec<Effect>) {
        effects.push(Effect::Send(from, MailboxMessage::Account(self.account())));
    }

    pub(super) fn on_account(&mut self, from: u32, account: Account, effects: &mut Vec<Effect>) {
        if from == self.passed.node && account.known.position >= self.passed.position {
            self.recovery.arrival = Arrival::Confirmed;
        }
        // Only an answer with the same departures counts. Any other node was asked before a
        // departure, or will be asked again.
        let departed = self.recovery.departed;
        let Some(accounts) = &mut self.recovery.accounts else { return };
        if account.departed != departed || accounts.iter().any(|(node, _)| *node == from) {
            return;
        }
        accounts.push((from, account));
        self.check_answers(effects);
    }

    fn check_answers(&mut self, effects: &mut Vec<Effect>) {
        let living = self.living().count();
        let Some(accounts) = self.recovery.accounts.take_if(|all| all.len() == living) else {
            return;
        };
        self.decide(accounts, effects);
        for want in std::mem::take(&mut self.recovery.waiting) {
            self.pass(want, effects);
        }
    }

    /// Decides which node owns the variable, after all answers.
    fn decide(&mut self, mut accounts: Vec<(u32, Account)>, effects: &mut Vec<Effect>) {
        // This node's own account may have changed meanwhile.
        accounts[0].1 = self.account();
        let newest = accounts.iter().map(|(_, account)| account.known).max_by_key(|v| v.bits());
        let Some(newest) = newest else { return };
        let owner = accounts.iter().find(|(_, account)| account.owns).map(|(node, _)| *node);
        // The last node that received the variable from a living node holds it, or will hold it, or
        // has passed it on and knows the receiver.
        let given = accounts.iter().map(|(_, account)| account.passed);
        let given = given.max_by_key(|v| v.position).filter(|v| v.position > 0);
        let given = given.map(|v| v.node).filter(|node| !self.is_gone(*node));
        if let Some(owner) = owner.or(given) {
            self.recovery.found = Some(owner);
            return;
        }
        let mut heir = (self.node, self.held);
        for (node, account) in &accounts {
            if account.held > heir.1 || (account.held == heir.1 && *node < heir.0) {
                heir = (*node, account.held);
            }
        }
        let sent = accounts.iter().any(|(_, account)| account.passed == newest);
        let mark = self.judge(newest, sent, heir.1);
        let mut readers = Copyset::default();
        accounts.iter().filter(|(_, account)| account.reads).for_each(|(n, _)| readers.insert(*n));
        self.recovery.found = Some(heir.0);
        let version = newest.position.max(heir.1) + 1;
        if heir.0 == self.node {
            self.adopt(version, mark, readers, effects);
        } else {
            effects.push(Effect::Send(heir.0, MailboxMessage::Adopt { version, mark, readers }));
        }
    }

    /// The damage of a copy of version `held`. `newest` is the last owner that was announced to any
    /// node; `sent` says that a living node passed it the variable. An owner that died may have
    /// written. A node that never received the variable has not.
    fn judge(&self, newest: Version, sent: bool, held: u64) -> Option<Mark> {
        let StandIn { died, departed, .. } = &self.recovery;
        let node = newest.node;
        let never_had = !departed.contains(node) || (sent && !died.contains(node));
        let written = newest.position - u64::from(never_had);
        let victim = Some(node).filter(|node| departed.contains(*node)).or(departed.first());
        victim.filter(|_| held < written).map(|victim| Mark { victim, stale: true })
    }

    /// Makes this node the owner: its copy is the newest surviving one.
    pub(super) fn adopt(
        &mut self,
        version: u64,
        mark: Option<Mark>,
        readers: Copyset,
        effects: &mut Vec<Effect>,
    ) {
        self.owns = true;
        self.known = Version { position: version, node: self.node, shared: false };
        self.mark = mark.or(self.mark);
        if mark.is_none() || self.recoverable {
            self.held = version;
        }
        self.copies = Copyset::default();
        self.living().collect::<Vec<_>>().into_iter().for_each(|node| self.copies.insert(node));
        self.count_anew(readers, effects);
        self.tell_of_owner(self.node, effects);
        self.pending = None;
        if let MailboxStage::Asked { kind, patience, .. } = self.stage {
            self.number += 1;
            self.queue.push_front(self.want(kind, patience));
        }
        self.serve(effects);
    }

    /// Counts the readers of the previous owner: each reports when it has finished. Gone nodes are
    /// not asked; the previous owner may not have known that they are gone.
    fn count_anew(&mut self, readers: Copyset, effects: &mut Vec<Effect>) {
        let (version, answer) = (self.known, Some(Patience::Wait));
        self.readers.clear();
        let there = self.living().filter(|node| readers.contains(*node)).collect::<Vec<_>>();
        for node in there {
            if node != self.node {
                self.readers.push((node, 0));
                effects.push(Effect::Send(node, MailboxMessage::Told { version, answer }));
            }
        }
        if let MailboxStage::Inside { counted: Some(counted), .. } = &mut self.stage {
            *counted = (self.node, 0);
            self.readers.push(*counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;
    use crate::protocol::Refusal;

    #[test]
    fn an_end_counts_once_and_never_ones_own() {
        let mut node = Mailbox::new(Style::Stores, 1, 3, 0, false);
        let mut effects = Vec::new();
        node.acquire(AccessKind::Write, Patience::Wait, &mut effects);
        effects.clear();
        node.depart(2, true, &mut effects);
        let want = Want { doubt: true, ..node.want(AccessKind::Write, Patience::Wait) };
        assert_eq!(effects, [Effect::Send(0, MailboxMessage::Want(want))]);
        effects.clear();
        node.depart(2, true, &mut effects);
        node.depart(1, true, &mut effects);
        assert_eq!((&effects[..], node.is_gone(1)), (&[][..], false));
    }

    #[test]
    fn nothing_goes_to_the_gone_or_to_oneself() {
        let mut owner = Mailbox::new(Style::Stores, 0, 3, 0, false);
        let mut effects = Vec::new();
        owner.depart(2, false, &mut effects);
        for heir in [0, 2] {
            owner.hand_over(heir, &mut effects);
            assert!(owner.owns() && effects.is_empty(), "{heir}: {effects:?}");
        }
        owner.hand_over(1, &mut effects);
        assert!(!owner.owns() && owner.waits_for_arrival());
    }

    #[test]
    fn who_handed_over_to_a_node_that_died_leaves_when_an_owner_is_found() {
        for died in [false, true] {
            let mut effects = Vec::new();
            let mut owner = Mailbox::new(Style::Stores, 2, 3, 2, false);
            owner.hand_over(0, &mut effects);
            owner.depart(0, died, &mut effects);
            // A receiver that died may have written: no other node knows that it had the variable.
            assert_eq!(owner.owns(), !died);
            assert!(!owner.may_leave() && owner.may_hand_over());
            effects.clear();
            owner.hand_over(1, &mut effects);
            let want = Want { doubt: true, ..owner.want(AccessKind::Read, Patience::Try) };
            assert_eq!(effects == [Effect::Send(1, MailboxMessage::Want(want))], died);
        }
    }

    #[test]
    fn a_granter_leaves_when_the_grant_has_arrived() {
        let mut effects = Vec::new();
        let mut owner = Mailbox::new(Style::Stores, 2, 3, 2, false);
        let mut other = Mailbox::new(Style::Stores, 0, 3, 2, false);
        other.acquire(AccessKind::Write, Patience::Wait, &mut effects);
        let want = other.want(AccessKind::Write, Patience::Wait);
        owner.receive(0, MailboxMessage::Want(want), &mut effects);
        effects.clear();
        assert!(!owner.may_leave() && owner.may_hand_over() && !owner.waits_for_arrival());
        owner.hand_over(1, &mut effects);
        assert_eq!(effects, [Effect::Send(0, MailboxMessage::Survey)]);
        assert!(!owner.may_leave() && !owner.may_hand_over() && owner.waits_for_arrival());
        // An answer from before the grant proves nothing.
        let mut answer = other.account();
        owner.receive(0, MailboxMessage::Account(answer), &mut effects);
        assert!(!owner.may_leave());
        let mut left = owner.clone();
        answer.known.position = owner.known.position;
        owner.receive(0, MailboxMessage::Account(answer), &mut effects);
        assert!(owner.may_leave());

        // Instead, the receiver has left: the stand-in finds an owner.
        effects.clear();
        left.depart(0, false, &mut effects);
        assert!(effects.is_empty() && !left.may_leave() && left.may_hand_over());
        left.hand_over(1, &mut effects);
        let want = Want { doubt: true, ..left.want(AccessKind::Read, Patience::Try) };
        assert_eq!(effects, [Effect::Send(1, MailboxMessage::Want(want))]);
        assert!(!left.may_leave() && left.waits_for_arrival());
        let (number, refusal) = (want.number, Refusal::Busy);
        left.receive(1, MailboxMessage::Refused { number, refusal }, &mut effects);
        assert!(left.may_leave());
    }
}
