//! The paper's two protocols, in which the owner answers requests: `fagus` (DIMMnet, §5.3) and
//! `udp` (the baseline, §4.2).
//!
//! ```text
//!   requester               owner                            the others
//!   ---------               -----                            ----------
//!   Want ─────────────────► has it? queue. readers? queue.
//!        ◄───────────────── Contents, if the copy is old
//!        ◄───────────────── Grant: version, reader count or ownership
//!                           told of the new owner ─────────► fagus: a store (no processor)
//!   invalidation ──────────────────────────────────────────► udp: a message each, handled
//!        ◄────────────────────────────────────────────────── udp: Heard, when nobody reads there
//!   Done (a reader) ──────► one reader less; next of the queue
//! ```
//!
//! Where the two differ is [`Style`]: who decides whether data is needed, whether a reader with a
//! valid copy asks at all, and whether owner change and invalidation are stores of one word at
//! every node or messages to those that have copies.
//!
//! The hazards that the paper leaves open are closed by versions. Each write is a version, and
//! requests say which the requester's copy holds: a stale belief that it is CLEAN cannot last. The
//! word that is stored has the version in front and is stored by maximum. Requests that come to a
//! node that is not the owner go on to the one it knows of; a node that has been promised the
//! ownership queues them. Contents are sent before the grant on the same way.
//!
//! Of the two readings of the paper's RLOCK sentence (§3.3) this is the stricter, for both: the
//! owner enters WLOCK, and gives ownership away, only when nobody reads (FG-09). By stores readers
//! are counted; by datagrams, where a reader with a valid copy asks nobody, the owner waits until
//! each that it has told says that it does not read. (The paper's baseline does not wait. Then an
//! invalidation can be overtaken by a barrier, and what is read after that is old.)
//!
//! A request that is given up stays under way, and there is never a second one: what comes of it is
//! taken (ownership) or declined (a reader's grant). What a dead node leaves behind is in
//! `recover.rs`.

mod copyset;
mod message;
mod recover;
mod serve;
mod wire;

use std::collections::VecDeque;

use crate::protocol::{Patience, Refusal};
use crate::word::{INITIAL, Kind, Mark, Version};

pub use copyset::Copyset;
pub use message::{Account, Effect, Message, Want};
use recover::Recovery;
pub use wire::{LETTER_MOST, Letter};

/// In which of its two versions the protocol runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// DIMMnet: owner change and invalidation are remote stores to every node; readers are counted.
    Stores,
    /// UDP: they are messages to those whose copies are valid (the copyset), which travels with
    /// ownership; who has a valid copy reads without asking.
    Datagrams,
}

/// What a node has of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// Nothing.
    Free,
    /// It waits for the variable; whether contents have come for that.
    Asked { kind: Kind, patience: Patience, moved: bool },
    /// It owns the variable and waits until these do not read any more.
    Clearing { patience: Patience, moved: bool, left: Copyset },
    /// The variable; by whom the reader was counted, and under which number.
    Inside { kind: Kind, counted: Option<(u32, u32)> },
}

/// One node's side of the protocol, for one variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    node: u32,
    nodes: u32,
    style: Style,
    recoverable: bool,
    stage: Stage,
    /// The number of the last request.
    number: u32,
    /// The request that has been sent and not answered, given up or not.
    pending: Option<Kind>,
    /// Whether this node is the owner.
    owns: bool,
    /// The newest that was told: stored here by others, or handled.
    known: Version,
    /// The version that the copy holds; 0: none.
    held: u64,
    /// What is wrong with the copy.
    mark: Option<Mark>,
    /// To whom this node last gave ownership away, and under which position.
    passed: Version,
    /// Of the owner: who reads, and under which number.
    readers: Vec<(u32, u32)>,
    /// Of the owner: whose copies are valid.
    copies: Copyset,
    /// Of the owner, or of whoever will be: who waits.
    queue: VecDeque<Want>,
    /// Who is to hear that this node does not read any more, and of which position.
    owed: Vec<(u32, u64)>,
    recovery: Recovery,
}

impl Mailbox {
    /// One of `nodes`; `home` is the owner at first. Everybody's copy is valid: zeros. Of a
    /// variable that is not `recoverable` nothing is handed out any more when its newest contents
    /// may have died with their node.
    pub fn new(style: Style, node: u32, nodes: u32, home: u32, recoverable: bool) -> Mailbox {
        debug_assert!(nodes <= Copyset::MOST);
        Mailbox {
            node,
            nodes,
            style,
            recoverable,
            stage: Stage::Free,
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
            recovery: Recovery::default(),
        }
    }

    /// Whether this node is the owner.
    pub fn owns(&self) -> bool {
        self.owns
    }

    /// The owner as far as this node knows, without asking (FG-07).
    pub fn owner(&self) -> u32 {
        if self.owns { self.node } else { self.known.node }
    }

    /// Who has what this node waits for, as far as it knows: the owner, or of its own variable a
    /// node that reads. `None`: nobody else.
    pub fn holder(&self) -> Option<u32> {
        if !self.owns {
            return Some(self.known.node).filter(|node| *node != self.node);
        }
        let mut readers = self.readers.iter().map(|(node, _)| *node);
        match self.stage {
            Stage::Clearing { left, .. } => left.first(),
            _ => readers.find(|node| *node != self.node),
        }
    }

    /// The newest version that this node knows of.
    pub fn known(&self) -> Version {
        self.known
    }

    /// Whether the variable is acquired here, and what for.
    pub fn inside(&self) -> Option<Kind> {
        match self.stage {
            Stage::Inside { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Whether this node has the variable or waits for it.
    pub fn is_taken(&self) -> bool {
        self.stage != Stage::Free
    }

    /// Whether the copy is the newest, as far as is known here: CLEAN, else DIRTY.
    pub fn is_clean(&self) -> bool {
        self.held >= self.known.position
    }

    /// The version of the copy; 0: it holds none.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Wants the variable. Nothing must be wanted or had.
    pub fn acquire(&mut self, kind: Kind, patience: Patience, effects: &mut Vec<Effect>) {
        debug_assert_eq!(self.stage, Stage::Free);
        let alone = self.style == Style::Datagrams && kind == Kind::Read && self.is_clean();
        if alone && !self.owns {
            return self.enter(kind, None, false, effects);
        }
        self.stage = Stage::Asked { kind, patience, moved: false };
        if self.owns {
            self.ask_own(kind, patience, effects);
        } else if self.pending.is_none() {
            self.ask(kind, patience, effects);
        } else if patience == Patience::Try {
            // What was given up is still in a queue somewhere: others have the variable.
            self.refuse(Refusal::Busy, effects);
        }
    }

    /// Gives up what is waited for.
    pub fn cancel(&mut self, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Asked { .. } => {
                self.stage = Stage::Free;
                if self.owns {
                    self.queue.retain(|want| want.from != self.node);
                    self.serve(effects);
                }
            }
            Stage::Clearing { .. } => self.stop_clearing(effects),
            Stage::Free | Stage::Inside { .. } => {}
        }
    }

    /// Lets it go.
    pub fn release(&mut self, effects: &mut Vec<Effect>) {
        let Stage::Inside { kind, counted } = self.stage else {
            debug_assert!(false, "what is let go was had");
            return;
        };
        self.stage = Stage::Free;
        if kind == Kind::Write {
            // What is written anew is whole.
            self.mark = None;
        }
        match counted {
            Some((owner, number)) if owner == self.node => {
                self.on_done(owner, number, effects);
            }
            // Whoever comes after an owner that is gone asks.
            Some((owner, number)) if !self.is_gone(owner) => {
                effects.push(Effect::Send(owner, Message::Done { number }));
            }
            _ => {}
        }
        for (owner, position) in std::mem::take(&mut self.owed) {
            effects.push(Effect::Send(owner, Message::Heard { position, busy: false }));
        }
        self.serve(effects);
    }

    /// A message of another node has come: the processor has to handle it.
    pub fn receive(&mut self, from: u32, message: Message, effects: &mut Vec<Effect>) {
        if self.is_gone(from) {
            // Of somebody who is gone only what has come before that was known counts.
            return;
        }
        match message {
            Message::Want(want) => self.on_want(want, effects),
            Message::Contents(version, mark) => self.on_contents(version, mark),
            Message::Grant { number, kind: Kind::Read, version, mark, .. } => {
                self.on_read_grant((from, number), version, mark, effects);
            }
            Message::Grant { kind: Kind::Write, version, copies, mark, .. } => {
                self.mark = mark;
                self.copies = copies;
                self.on_ownership(from, version, effects);
            }
            Message::Refused { number, refusal } => self.on_refusal(number, refusal, effects),
            Message::Done { number } => self.on_done(from, number, effects),
            Message::Told { version, answer } => {
                self.told(version);
                if let Some(patience) = answer {
                    self.hear(from, version.position, patience, effects);
                }
            }
            Message::Heard { position, busy } => self.on_heard(from, position, busy, effects),
            Message::Survey => self.on_survey(from, effects),
            Message::Account(account) => self.on_account(from, account, effects),
            Message::Adopt { version, mark, readers } => {
                self.adopt(version, mark, readers, effects);
            }
        }
    }

    /// A word has been stored here by another node. This is what the store does: nobody has to
    /// call it for the others to go on.
    pub fn told(&mut self, version: Version) {
        if version.bits() > self.known.bits() {
            self.known = version;
        }
    }

    /// The copy holds this version from now on, 0 for none: by stores, whoever fills it writes that
    /// here, before and after. Only before, if something is wrong with the contents: they hold
    /// nothing until the message has come that says so.
    pub fn hold(&mut self, version: u64) {
        self.held = version;
    }

    /// Whether contents of this version, which have come in a message, are to be put into the copy.
    pub fn takes(&self, version: u64) -> bool {
        !matches!(self.stage, Stage::Inside { .. }) && version > self.held
    }

    /// Sends a request to the owner.
    fn ask(&mut self, kind: Kind, patience: Patience, effects: &mut Vec<Effect>) {
        self.number += 1;
        self.pending = Some(kind);
        let want = self.want(kind, patience);
        self.forward(want, effects);
    }

    fn want(&self, kind: Kind, patience: Patience) -> Want {
        let (from, number, held) = (self.node, self.number, self.held);
        Want { from, number, kind, patience, held, doubt: false }
    }

    /// The owner's own request waits in line with the others'.
    fn ask_own(&mut self, kind: Kind, patience: Patience, effects: &mut Vec<Effect>) {
        self.number += 1;
        self.queue.push_back(self.want(kind, patience));
        self.serve(effects);
        self.refuse_the_hasty(self.node, self.number, effects);
    }

    fn on_contents(&mut self, version: u64, mark: Option<Mark>) {
        if self.style == Style::Datagrams {
            if !self.takes(version) {
                // Not asked for, or overtaken.
                return;
            }
            self.held = version;
        } else if mark.is_some() {
            self.held = version;
        }
        self.mark = mark;
        if let Stage::Asked { moved, .. } = &mut self.stage {
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
        if matches!(self.stage, Stage::Inside { counted: Some(own), .. } if own == counted) {
            return;
        }
        let asked = self.pending.is_some() && counted.1 == self.number;
        if asked {
            self.pending = None;
        }
        self.told(Version { position: version, node: counted.0, shared: false });
        // By stores: the owner has handed the variable over meanwhile, and the next one has been
        // told that nobody reads here.
        let overtaken = version < self.known.position;
        match self.stage {
            Stage::Asked { kind: Kind::Read, moved, .. } if asked && !overtaken => {
                self.mark = mark;
                self.enter(Kind::Read, Some(counted), moved, effects);
            }
            stage => {
                if self.style == Style::Stores {
                    let done = Message::Done { number: counted.1 };
                    effects.push(Effect::Send(counted.0, done));
                }
                if let (Stage::Asked { kind, patience, .. }, None) = (stage, self.pending) {
                    self.ask(kind, patience, effects);
                }
            }
        }
    }

    fn on_refusal(&mut self, number: u32, refusal: Refusal, effects: &mut Vec<Effect>) {
        if self.pending.is_none() || number != self.number {
            return;
        }
        self.pending = None;
        self.hand_on(effects);
        match (self.stage, refusal) {
            (Stage::Asked { kind, patience: Patience::Wait, .. }, Refusal::Busy) => {
                self.ask(kind, Patience::Wait, effects);
            }
            (Stage::Asked { .. }, _) => self.refuse(refusal, effects),
            _ => {}
        }
    }

    fn refuse(&mut self, refusal: Refusal, effects: &mut Vec<Effect>) {
        self.stage = Stage::Free;
        effects.push(Effect::Refused(refusal));
    }

    fn enter(
        &mut self,
        kind: Kind,
        counted: Option<(u32, u32)>,
        moved: bool,
        effects: &mut Vec<Effect>,
    ) {
        let counted = counted.filter(|_| self.style == Style::Stores);
        self.stage = Stage::Inside { kind, counted };
        effects.push(Effect::Entered { moved, mark: self.mark });
    }

    /// The owner wants to know when nobody reads an older version here.
    fn hear(&mut self, owner: u32, position: u64, patience: Patience, effects: &mut Vec<Effect>) {
        let reads = matches!(self.stage, Stage::Inside { .. });
        if reads && patience == Patience::Wait {
            return self.owed.push((owner, position));
        }
        effects.push(Effect::Send(owner, Message::Heard { position, busy: reads }));
    }
}
