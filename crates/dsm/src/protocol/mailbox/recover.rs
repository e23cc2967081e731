//! When a node is gone: which node stands in for an owner, and what becomes of requests.
//!
//! The paper does not say. Here the lowest node that is left stands in. It asks every node whether
//! it owns the variable. If none does, and no ownership is in flight between two of them, it gives
//! the variable to the node with the newest copy.
//!
//! ```text
//!   requester              stand-in                     every node that is left
//!   Want, in doubt ──────► Survey ────────────────────► Account: owner? known? held?
//!                          no node owns it:
//!                          Adopt ─────────────────────► the node of the newest copy: notifies all
//!                          Want ──────────────────────►
//! ```
//!
//! A node with a request in flight sends it again, in doubt, because it may have been in the dead
//! node's queue. If it was not, it arrives twice, and its number shows that.
//!
//! The driver guarantees two things. What a node sent before its end is handled before
//! [`Mailbox::depart`] is called, or never. A node handles a message only when it knows of every
//! end that the sender knew of.

use super::{Account, Copyset, Effect, Mailbox, MailboxMessage, MailboxStage, Want};
use crate::protocol::Patience;
use crate::word::{AccessKind, Mark, Version};

/// What a node knows of the nodes that are gone, and its state as a stand-in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct StandIn {
    /// The nodes that are gone.
    departed: Copyset,
    /// The gone nodes that did not leave in order.
    died: Copyset,
    /// The owner that was found since the last node went.
    found: Option<u32>,
    /// The answers so far, while a survey is under way.
    accounts: Option<Vec<(u32, Account)>>,
    /// Requests that wait for the end of the survey.
    waiting: Vec<Want>,
    /// The node that this one has handed the variable over to, until it answers.
    heir: Option<Heir>,
}

/// The node that receives a variable by hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Heir {
    node: u32,
    /// The version of the hand-over.
    version: u64,
    /// The nodes that were counted as readers.
    readers: Copyset,
}

impl Mailbox {
    /// A node is gone; `died`: it did not leave in order.
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
                _ => Patience::Wait,
            };
            let want = Want { doubt: true, ..self.want(kind, patience) };
            self.forward(want, effects);
        }
        self.serve(effects);
    }

    /// Whether a node is gone, as far as this one knows.
    pub fn is_gone(&self, node: u32) -> bool {
        self.recovery.departed.contains(node)
    }

    /// Whether the others can do without this node: it holds no part of the variable, and nothing
    /// of it is in flight to this node.
    pub fn may_leave(&self) -> bool {
        !self.owns
            && !self.waits_for_heir()
            && self.pending.is_none()
            && self.stage == MailboxStage::Free
    }

    /// Whether this node owns the variable and may hand it over.
    pub fn may_hand_over(&self) -> bool {
        self.owns && self.stage == MailboxStage::Free
    }

    /// Whether the heir has not yet answered the hand-over.
    pub fn waits_for_heir(&self) -> bool {
        self.recovery.heir.is_some()
    }

    /// Hands the variable over to a node that stays: the contents, the readers and the queue. A
    /// node that is about to leave calls this, and may leave when the heir has answered.
    pub fn hand_over(&mut self, heir: u32, effects: &mut Vec<Effect>) {
        if !self.may_hand_over() || heir == self.node || self.is_gone(heir) {
            return;
        }
        let (position, mark) = (self.known.position, self.mark);
        let mut readers = Copyset::default();
        self.readers.drain(..).for_each(|(node, _)| readers.insert(node));
        // A reader has the newest contents, and no node stores into its copy.
        if !readers.contains(heir) {
            effects.push(Effect::Send(heir, MailboxMessage::Contents(position, mark)));
        }
        let version = position + 1;
        effects.push(Effect::Send(heir, MailboxMessage::Adopt { version, mark, readers }));
        effects.push(Effect::Send(heir, MailboxMessage::Survey));
        self.owns = false;
        self.known = Version { position: version, node: heir, shared: false };
        self.passed = self.known;
        self.recovery.heir = Some(Heir { node: heir, version, readers });
        self.hand_on(effects);
    }

    /// A node is gone. An heir that left in order without an answer never received the variable.
    fn take_back(&mut self, node: u32, died: bool, effects: &mut Vec<Effect>) {
        let Some(heir) = self.recovery.heir.take_if(|heir| heir.node == node) else { return };
        // If a later version was announced, a node got the variable from that heir.
        if !died && self.known.position == heir.version {
            self.adopt(heir.version + 1, None, heir.readers, effects);
        }
    }

    fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.nodes).filter(|node| !self.is_gone(*node))
    }

    fn stand_in(&self) -> u32 {
        self.living().next().unwrap_or(self.node)
    }

    /// Sends a request on to the owner, or to the stand-in that finds the owner.
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
            // It is in flight to this node.
            Some(_) if want.from == self.node => {}
            Some(_) => {
                let owner = self.known.node;
                let coming = self.pending == Some(AccessKind::Write) || self.is_gone(owner);
                if coming || owner == self.node {
                    self.queue.push_back(want);
                } else {
                    // The variable was here, and has been passed on.
                    effects.push(Effect::Send(owner, MailboxMessage::Want(want)));
                }
            }
        }
    }

    /// Asks every node; starts again when another node is gone.
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
        let position = account.known.position;
        self.recovery.heir.take_if(|heir| heir.node == from && position >= heir.version);
        // A node that knew less, or more, was asked before, or will be asked again.
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
        // The last node that received it from a living node holds it, or will, or has passed it on
        // and knows to which node.
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

    /// What is wrong with a copy of version `held`. `newest` is the last owner that was announced
    /// to any node; `sent`: a living node passed it the variable. An owner that died may have
    /// written; a node that never received the variable has not.
    fn judge(&self, newest: Version, sent: bool, held: u64) -> Option<Mark> {
        let StandIn { died, departed, .. } = &self.recovery;
        let node = newest.node;
        let never_had = !departed.contains(node) || (sent && !died.contains(node));
        let written = newest.position - u64::from(never_had);
        let victim = Some(node).filter(|node| departed.contains(*node)).or(departed.first());
        victim.filter(|_| held < written).map(|victim| Mark { victim, stale: true })
    }

    /// This node owns the variable now: its copy is the newest that is left.
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

    /// A node that read under the previous owner reports when it has finished. Nodes that are gone
    /// are not asked; the previous owner may not have known of them.
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
