//! The paper's two protocols, in which the owner answers requests: `fagus` (DIMMnet, §5.3) and
//! `udp` (the baseline, §4.2).
//!
//! ```text
//!   requester               owner                            the others
//!   ---------               -----                            ----------
//!   Want ─────────────────► held? queue. readers? queue.
//!        ◄───────────────── Contents, if the copy is old
//!        ◄───────────────── Grant: version, reader count or ownership
//!                           announces the owner ───────────► fagus: a store (no processor)
//!   invalidation ──────────────────────────────────────────► udp: a message each, handled
//!        ◄────────────────────────────────────────────────── udp: Heard, when reading has ended
//!   Done (a reader) ──────► one reader less; next of the queue
//! ```
//!
//! The two differ in [`Style`]. It decides which side finds out whether data is needed, and whether
//! a reader with a valid copy asks at all. It also decides whether owner change and invalidation
//! are stores of one word at every node, or messages to the nodes that have copies.
//!
//! Versions close the hazards that the paper leaves open. Each write is a version, and a request
//! names the version of the requester's copy, so a stale belief that a copy is CLEAN cannot last.
//! The stored word has the version in its upper bits and is stored by maximum. A node that is not
//! the owner forwards requests to the owner that it knows of. A node that has been promised the
//! ownership queues them. Contents are sent before the grant, on the same path.
//!
//! The paper's RLOCK sentence (§3.3) can be read in two ways. Both protocols take the stricter one:
//! the owner enters WLOCK, and passes ownership on, only when no node reads (FG-09). By stores,
//! readers are counted. By datagrams a reader with a valid copy asks no node, so the owner waits
//! until each node that it has notified answers that it does not read. (The paper's baseline does
//! not wait. There a barrier can overtake an invalidation, and a read after it returns old
//! contents.)
//!
//! A cancelled request stays in flight, and the node never sends a second one. If the answer is
//! ownership, the node takes it; it declines a reader's grant. `recover.rs` handles the remains of
//! a dead node.

mod message;
mod recover;
mod serve;
mod wire;

use std::collections::VecDeque;

use recover::StandIn;

use crate::protocol::{Patience, Refusal};
use crate::word::{AccessKind, INITIAL, Mark, Version};

pub use message::{Account, Effect, MailboxMessage, Want};
pub use wire::{LETTER_MOST, Letter};

/// Which of the paper's two protocols runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// DIMMnet: owner change and invalidation are remote stores to every node; readers are counted.
    Stores,
    /// UDP: owner change and invalidation are messages to the nodes with valid copies. This set of
    /// nodes (the copyset) travels with ownership. A node with a valid copy reads without asking.
    Datagrams,
}

/// The state of a node's request for a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MailboxStage {
    /// The node neither holds nor requests the variable.
    Free,
    /// The node waits for the variable. `moved`: contents have arrived for it.
    Asked { kind: AccessKind, patience: Patience, moved: bool },
    /// The node owns the variable and waits until the nodes in `left` no longer read.
    Clearing { patience: Patience, moved: bool, left: Copyset },
    /// The node holds the variable. `counted`: the node that counted it as a reader, and the
    /// number.
    Inside { kind: AccessKind, counted: Option<(u32, u32)> },
}

/// One node's state of the protocol for one variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    node: u32,
    nodes: u32,
    style: Style,
    recoverable: bool,
    stage: MailboxStage,
    /// The number of the last request.
    number: u32,
    /// The kind of the request that has been sent and not answered, cancelled or not.
    pending: Option<AccessKind>,
    /// Whether this node is the owner.
    owns: bool,
    /// The newest announced version: stored here by other nodes, or received in a message.
    known: Version,
    /// The version that the copy holds; 0 for none.
    held: u64,
    /// The damage of the copy.
    mark: Option<Mark>,
    /// The node to which this one last passed ownership, with the position.
    passed: Version,
    /// For the owner: its readers, with the numbers of their requests.
    readers: Vec<(u32, u32)>,
    /// For the owner: the nodes with valid copies.
    copies: Copyset,
    /// The queue, if this node is the owner or will be.
    queue: VecDeque<Want>,
    /// The nodes to notify when this node no longer reads, with the positions.
    owed: Vec<(u32, u64)>,
    recovery: StandIn,
}

impl Mailbox {
    /// The state of one of `nodes`; `home` is the first owner. Every copy is valid at first: zeros.
    /// If the variable is not `recoverable`, it is never granted again once its newest contents may
    /// have died with their node.
    pub fn new(style: Style, node: u32, nodes: u32, home: u32, recoverable: bool) -> Mailbox {
        debug_assert!(nodes <= Copyset::MOST);
        Mailbox {
            node,
            nodes,
            style,
            recoverable,
            stage: MailboxStage::Free,
            number: 0,
            pending: None,
            owns: node == home,
            known: Version { position: INITIAL, node: home, shared: false },
            held: INITIAL,
            mark: None,
            passed: Version { position: 0, node, shared: false },
            readers: Vec::new(),
            copies: Copyset::all(nodes),
            queue: VecDeque::new(),
            owed: Vec::new(),
            recovery: StandIn::default(),
        }
    }

    /// Whether this node is the owner.
    pub fn owns(&self) -> bool {
        self.owns
    }

    /// The owner, to this node's knowledge, without asking (FG-07).
    pub fn owner(&self) -> u32 {
        if self.owns { self.node } else { self.known.node }
    }

    /// The node that this one believes it waits for: the owner, or for its own variable a node that
    /// reads. `None` if it waits for no other node.
    pub fn holder(&self) -> Option<u32> {
        if !self.owns {
            return Some(self.known.node).filter(|node| *node != self.node);
        }
        let mut readers = self.readers.iter().map(|(node, _)| *node);
        match self.stage {
            MailboxStage::Clearing { left, .. } => left.first(),
            _ => readers.find(|node| *node != self.node),
        }
    }

    /// The newest version that this node knows of.
    pub fn known(&self) -> Version {
        self.known
    }

    /// The kind of access for which this node has acquired the variable; `None` if it has not.
    pub fn inside(&self) -> Option<AccessKind> {
        match self.stage {
            MailboxStage::Inside { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Whether the copy is CLEAN: this node knows of no newer version. Otherwise it is DIRTY.
    pub fn is_clean(&self) -> bool {
        self.held >= self.known.position
    }

    /// The version of the copy; 0 for none.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Requests the variable. This node must neither hold nor request it.
    pub fn acquire(&mut self, kind: AccessKind, patience: Patience, effects: &mut Vec<Effect>) {
        debug_assert_eq!(self.stage, MailboxStage::Free);
        let alone = self.style == Style::Datagrams && kind == AccessKind::Read && self.is_clean();
        if alone && !self.owns && self.lost().is_none() {
            return self.enter(kind, None, false, effects);
        }
        self.stage = MailboxStage::Asked { kind, patience, moved: false };
        if self.owns {
            self.ask_own(kind, patience, effects);
        } else if self.pending.is_none() {
            self.ask(kind, patience, effects);
        } else if patience == Patience::Try {
            // The cancelled request is still in a queue: other nodes hold the variable.
            self.refuse(Refusal::Busy, effects);
        }
    }

    /// Cancels the request.
    pub fn cancel(&mut self, effects: &mut Vec<Effect>) {
        match self.stage {
            MailboxStage::Asked { .. } => {
                self.stage = MailboxStage::Free;
                if self.owns {
                    self.queue.retain(|want| want.from != self.node);
                    self.serve(effects);
                }
            }
            MailboxStage::Clearing { .. } => self.stop_clearing(effects),
            MailboxStage::Free | MailboxStage::Inside { .. } => {}
        }
    }

    /// Releases the variable.
    pub fn release(&mut self, effects: &mut Vec<Effect>) {
        let MailboxStage::Inside { kind, counted } = self.stage else {
            debug_assert!(false, "only a held variable is released");
            return;
        };
        self.stage = MailboxStage::Free;
        if kind == AccessKind::Write {
            // Contents that were written again are whole: clear the mark.
            self.mark = None;
        }
        match counted {
            Some((owner, number)) if owner == self.node => {
                self.on_done(owner, number, effects);
            }
            // If the owner is gone, the next owner asks.
            Some((owner, number)) if !self.is_gone(owner) => {
                effects.push(Effect::Send(owner, MailboxMessage::Done { number }));
            }
            _ => {}
        }
        for (owner, position) in std::mem::take(&mut self.owed) {
            effects.push(Effect::Send(owner, MailboxMessage::Heard { position, busy: false }));
        }
        self.serve(effects);
    }

    /// Handles a message of another node, on this node's processor.
    pub fn receive(&mut self, from: u32, message: MailboxMessage, effects: &mut Vec<Effect>) {
        if self.is_gone(from) {
            // Of a gone node's messages, only those count that arrived before its end was known.
            return;
        }
        match message {
            MailboxMessage::Want(want) => self.on_want(want, effects),
            MailboxMessage::Contents(version, mark) => self.on_contents(version, mark),
            MailboxMessage::Grant { number, kind: AccessKind::Read, version, mark, .. } => {
                self.on_read_grant((from, number), version, mark, effects);
            }
            MailboxMessage::Grant { kind: AccessKind::Write, version, copies, mark, .. } => {
                self.mark = mark;
                self.copies = copies;
                self.on_ownership(from, version, effects);
            }
            MailboxMessage::Refused { number, refusal } => {
                self.on_refusal(number, refusal, effects);
            }
            MailboxMessage::Done { number } => self.on_done(from, number, effects),
            MailboxMessage::Told { version, answer } => {
                self.told(version);
                if let Some(patience) = answer {
                    self.hear(from, version.position, patience, effects);
                }
            }
            MailboxMessage::Heard { position, busy } => {
                self.on_heard(from, position, busy, effects);
            }
            MailboxMessage::Survey => self.on_survey(from, effects),
            MailboxMessage::Account(account) => self.on_account(from, account, effects),
            MailboxMessage::Adopt { version, mark, readers } => {
                self.adopt(version, mark, readers, effects);
                self.on_survey(from, effects);
            }
        }
    }

    /// Notes a store of another node that has landed here. The store itself already has this
    /// effect: the other nodes do not depend on this call.
    pub fn told(&mut self, version: Version) {
        if version.bits() > self.known.bits() {
            self.known = version;
        }
    }

    /// Sets the version that the copy holds; 0 for none. By stores, the node that fills the copy
    /// writes this word, before and after. If the contents are damaged it does so only before. Then
    /// the copy holds nothing until the message with the mark arrives.
    pub fn hold(&mut self, version: u64) {
        self.held = version;
    }

    /// Whether to copy contents of this version, received in a message, into the copy.
    pub fn takes(&self, version: u64) -> bool {
        !matches!(self.stage, MailboxStage::Inside { .. }) && version > self.held
    }

    /// Sends a request to the owner.
    fn ask(&mut self, kind: AccessKind, patience: Patience, effects: &mut Vec<Effect>) {
        self.number += 1;
        self.pending = Some(kind);
        let want = self.want(kind, patience);
        self.forward(want, effects);
    }

    fn want(&self, kind: AccessKind, patience: Patience) -> Want {
        let (from, number, held) = (self.node, self.number, self.held);
        Want { from, number, kind, patience, held, doubt: false }
    }

    /// Queues the owner's own request with those of other nodes.
    fn ask_own(&mut self, kind: AccessKind, patience: Patience, effects: &mut Vec<Effect>) {
        self.number += 1;
        self.queue.push_back(self.want(kind, patience));
        self.serve(effects);
        self.refuse_the_hasty(self.node, self.number, effects);
    }

    fn on_contents(&mut self, version: u64, mark: Option<Mark>) {
        if self.style == Style::Datagrams {
            if !self.takes(version) {
                // Not requested, or overtaken by newer contents.
                return;
            }
            self.held = version;
        } else if mark.is_some() {
            self.held = version;
        }
        self.mark = mark;
        if let MailboxStage::Asked { moved, .. } = &mut self.stage {
            *moved = true;
        }
    }

    fn on_read_grant(
        &mut self,
        counted: (u32, u32),
        version: u64,
        mark: Option<Mark>,
        effects: &mut Vec<Effect>,
    ) {
        if matches!(self.stage, MailboxStage::Inside { counted: Some(own), .. } if own == counted) {
            return;
        }
        let asked = self.pending.is_some() && counted.1 == self.number;
        if asked {
            self.on_answer();
        }
        self.told(Version { position: version, node: counted.0, shared: false });
        // By stores: the owner has handed the variable over meanwhile, and has told the next owner
        // that no node reads here.
        let overtaken = version < self.known.position;
        match self.stage {
            MailboxStage::Asked { kind: AccessKind::Read, moved, .. } if asked && !overtaken => {
                self.mark = mark;
                self.enter(AccessKind::Read, Some(counted), moved, effects);
            }
            stage => {
                if self.style == Style::Stores {
                    let done = MailboxMessage::Done { number: counted.1 };
                    effects.push(Effect::Send(counted.0, done));
                }
                // If this node owns the variable, its own request is in its queue.
                if let MailboxStage::Asked { kind, patience, .. } = stage
                    && self.pending.is_none()
                    && !self.owns
                {
                    self.ask(kind, patience, effects);
                }
            }
        }
    }

    fn on_refusal(&mut self, number: u32, refusal: Refusal, effects: &mut Vec<Effect>) {
        if self.pending.is_none() || number != self.number {
            return;
        }
        self.on_answer();
        self.hand_on(effects);
        match (self.stage, refusal) {
            (MailboxStage::Asked { kind, patience: Patience::Wait, .. }, Refusal::Busy) => {
                self.ask(kind, Patience::Wait, effects);
            }
            (MailboxStage::Asked { .. }, _) => self.refuse(refusal, effects),
            _ => {}
        }
    }

    fn refuse(&mut self, refusal: Refusal, effects: &mut Vec<Effect>) {
        self.stage = MailboxStage::Free;
        effects.push(Effect::Refused(refusal));
    }

    fn enter(
        &mut self,
        kind: AccessKind,
        counted: Option<(u32, u32)>,
        moved: bool,
        effects: &mut Vec<Effect>,
    ) {
        let counted = counted.filter(|_| self.style == Style::Stores);
        self.stage = MailboxStage::Inside { kind, counted };
        effects.push(Effect::Entered { moved, mark: self.mark });
    }

    /// Answers the owner when this node no longer reads an older version.
    fn hear(&mut self, owner: u32, position: u64, patience: Patience, effects: &mut Vec<Effect>) {
        let reads = matches!(self.stage, MailboxStage::Inside { .. });
        if reads && patience == Patience::Wait {
            return self.owed.push((owner, position));
        }
        effects.push(Effect::Send(owner, MailboxMessage::Heard { position, busy: reads }));
    }
}

/// A set of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Copyset([u64; 2]);

impl Copyset {
    /// The maximum number of nodes in a set.
    pub const MOST: u32 = 128;

    /// The set of nodes `0..nodes`.
    pub fn all(nodes: u32) -> Copyset {
        let mut set = Copyset::default();
        (0..nodes).for_each(|node| set.insert(node));
        set
    }

    /// The set with these bits.
    pub fn of(words: [u64; 2]) -> Copyset {
        Copyset(words)
    }

    /// A bit for each node.
    pub fn words(&self) -> [u64; 2] {
        self.0
    }

    /// Adds a node.
    pub fn insert(&mut self, node: u32) {
        self.0[node as usize / 64] |= 1 << (node % 64);
    }

    /// Removes a node.
    pub fn remove(&mut self, node: u32) {
        self.0[node as usize / 64] &= !(1 << (node % 64));
    }

    /// Whether a node is in the set.
    pub fn contains(&self, node: u32) -> bool {
        self.0[node as usize / 64] & 1 << (node % 64) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 2]
    }

    /// Whether every node of the set is in `other`.
    pub fn is_within(&self, other: &Copyset) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| own & !other == 0)
    }

    /// The union of both sets.
    pub fn with(&self, other: &Copyset) -> Copyset {
        Copyset([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The lowest node.
    pub fn first(&self) -> Option<u32> {
        (0..Copyset::MOST).find(|node| self.contains(*node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_contents_are_taken_and_none_inside() {
        let mut node = Mailbox::new(Style::Datagrams, 1, 2, 0, false);
        let takes = |node: &Mailbox| [INITIAL, INITIAL + 1].map(|version| node.takes(version));
        assert_eq!(takes(&node), [false, true]);
        node.acquire(AccessKind::Read, Patience::Wait, &mut Vec::new());
        assert_eq!((node.inside(), takes(&node)), (Some(AccessKind::Read), [false, false]));
    }

    #[test]
    fn a_copy_of_lost_contents_is_not_read_alone() {
        let mark = Some(Mark { victim: 2, stale: true });
        for recoverable in [false, true] {
            let mut node = Mailbox::new(Style::Datagrams, 1, 3, 0, recoverable);
            let mut effects = Vec::new();
            node.receive(0, MailboxMessage::Contents(9, mark), &mut effects);
            node.acquire(AccessKind::Read, Patience::Wait, &mut effects);
            assert_eq!(node.inside().is_some(), recoverable, "{effects:?}");
        }
    }

    #[test]
    fn an_owner_never_asks_another_for_its_variable() {
        let mut node = Mailbox::new(Style::Stores, 1, 3, 0, false);
        let mut effects = Vec::new();
        node.acquire(AccessKind::Read, Patience::Wait, &mut effects);
        node.cancel(&mut effects);
        let mut readers = Copyset::default();
        readers.insert(2);
        node.receive(0, MailboxMessage::Adopt { version: 9, mark: None, readers }, &mut effects);
        node.acquire(AccessKind::Write, Patience::Wait, &mut effects);
        effects.clear();
        // The grant of the cancelled request arrives while this node waits for the reader.
        let (kind, copies) = (AccessKind::Read, Copyset::default());
        let grant = MailboxMessage::Grant { number: 1, kind, version: 7, copies, mark: None };
        node.receive(0, grant, &mut effects);
        assert_eq!(effects, [Effect::Send(0, MailboxMessage::Done { number: 1 })]);
    }

    #[test]
    fn nodes_are_in_as_long_as_they_were_put_in() {
        let mut set = Copyset::default();
        for node in [0, 63, 64, 127] {
            assert!(!set.contains(node));
            set.insert(node);
            assert!(set.contains(node) && set.is_within(&Copyset::all(128)));
        }
        assert_eq!((set.first(), Copyset::of(set.words())), (Some(0), set));
        assert!(!set.is_within(&Copyset::all(127)));
        set.remove(0);
        assert_eq!(set.first(), Some(63));
        assert_eq!(set.with(&Copyset::all(2)).first(), Some(0));
        assert!(Copyset::default().is_empty() && Copyset::default().first().is_none());
    }
}
