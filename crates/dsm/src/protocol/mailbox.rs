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
//! Of the two readings of the paper's RLOCK sentence (§3.3) this is the stricter: the owner enters
//! WLOCK, and gives ownership away, only when the count of readers is zero (FG-09).

use std::collections::VecDeque;

use crate::word::{INITIAL, Kind, Version};

/// In which of its two versions the protocol runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// DIMMnet: owner change and invalidation are remote stores to every node; readers are counted.
    Stores,
    /// UDP: they are messages to those whose copies are valid (the copyset), which travels with
    /// ownership; who has a valid copy reads without asking.
    Datagrams,
}

/// A set of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Copyset([u64; 2]);

impl Copyset {
    /// Most nodes.
    pub const MOST: u32 = 128;

    /// All of so many.
    pub fn all(nodes: u32) -> Copyset {
        let mut set = Copyset::default();
        (0..nodes).for_each(|node| set.insert(node));
        set
    }

    /// Adds one.
    pub fn insert(&mut self, node: u32) {
        self.0[node as usize / 64] |= 1 << (node % 64);
    }

    /// Whether it is in.
    pub fn contains(&self, node: u32) -> bool {
        self.0[node as usize / 64] & 1 << (node % 64) != 0
    }
}

/// A request for a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want {
    /// Who wants it.
    pub from: u32,
    /// What for.
    pub kind: Kind,
    /// The version that its copy holds.
    pub held: u64,
}

/// What nodes say to each other. Messages between two nodes arrive in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// A request, on its way to the owner.
    Want(Want),
    /// The contents, of this version.
    Contents(u64),
    /// The variable may be read, or is the receiver's own.
    Grant {
        /// What for.
        kind: Kind,
        /// The newest version.
        version: u64,
        /// Whose copies are valid; of ownership by datagrams.
        copies: Copyset,
    },
    /// A reader that was counted has finished.
    Done,
    /// The owner has changed, or copies are old: a version and its owner.
    Told(Version),
}

/// What is to be done, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send a message. Before [`Message::Contents`] goes the copy itself.
    Send(u32, Message),
    /// Store the owner's word at a node, by maximum, with no processor there.
    Store(u32, Version),
    /// The variable may be used.
    Entered {
        /// Whether the contents had to come.
        moved: bool,
    },
}

/// What a node has of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// Nothing.
    Free,
    /// A request under way; whether contents have come for it.
    Asked(Kind, bool),
    /// The variable; whether a reader was counted by an owner, and which.
    Inside(Kind, Option<u32>),
}

/// One node's side of the protocol, for one variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    node: u32,
    nodes: u32,
    style: Style,
    stage: Stage,
    /// Whether this node is the owner.
    owns: bool,
    /// The newest that was told: stored here by others, or handled.
    known: Version,
    /// The version that the copy holds.
    held: u64,
    /// Of the owner: how many nodes read, whose copies are valid, who waits.
    readers: u32,
    copies: Copyset,
    queue: VecDeque<Want>,
}

impl Mailbox {
    /// One of `nodes`; `home` is the owner at first. Everybody's copy is valid: zeros.
    pub fn new(style: Style, node: u32, nodes: u32, home: u32) -> Mailbox {
        debug_assert!(nodes <= Copyset::MOST);
        Mailbox {
            node,
            nodes,
            style,
            stage: Stage::Free,
            owns: node == home,
            known: Version { position: INITIAL, node: home, shared: false },
            held: INITIAL,
            readers: 0,
            copies: Copyset::all(nodes),
            queue: VecDeque::new(),
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

    /// Whether the variable is acquired here, and what for.
    pub fn inside(&self) -> Option<Kind> {
        match self.stage {
            Stage::Inside(kind, _) => Some(kind),
            Stage::Free | Stage::Asked(..) => None,
        }
    }

    /// Whether the copy is the newest, as far as is known here: CLEAN, else DIRTY.
    pub fn is_clean(&self) -> bool {
        self.held >= self.known.position
    }

    /// The version of the copy.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Wants the variable. Nothing must be wanted or had.
    pub fn acquire(&mut self, kind: Kind, effects: &mut Vec<Effect>) {
        debug_assert_eq!(self.stage, Stage::Free);
        let want = Want { from: self.node, kind, held: self.held };
        let reads_alone = self.style == Style::Datagrams && kind == Kind::Read && self.is_clean();
        if reads_alone && !self.owns {
            return self.enter(kind, None, false, effects);
        }
        self.stage = Stage::Asked(kind, false);
        if self.owns {
            self.queue.push_back(want);
            return self.serve(effects);
        }
        effects.push(Effect::Send(self.known.node, Message::Want(want)));
    }

    /// Lets it go.
    pub fn release(&mut self, effects: &mut Vec<Effect>) {
        let Stage::Inside(_, counted) = self.stage else {
            debug_assert!(false, "what is let go was had");
            return;
        };
        self.stage = Stage::Free;
        match counted {
            Some(owner) if owner != self.node => effects.push(Effect::Send(owner, Message::Done)),
            Some(_) => self.readers -= 1,
            None => {}
        }
        self.serve(effects);
    }

    /// A message of another node has come: the processor has to handle it.
    pub fn receive(&mut self, from: u32, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Want(want) => self.on_want(want, effects),
            Message::Contents(version) => {
                self.held = version;
                if let Stage::Asked(_, moved) = &mut self.stage {
                    *moved = true;
                }
            }
            Message::Grant { kind: Kind::Read, version: _, copies: _ } => {
                self.on_read_grant(from, effects);
            }
            Message::Grant { kind: Kind::Write, version, copies } => {
                self.on_ownership(version, copies, effects);
            }
            Message::Done => {
                self.readers -= 1;
                self.serve(effects);
            }
            Message::Told(version) => self.told(version),
        }
    }

    /// A word has been stored here by another node. This is what the store does: nobody has to
    /// call it for the others to go on.
    pub fn told(&mut self, version: Version) {
        if version.bits() > self.known.bits() {
            self.known = version;
        }
    }

    fn on_want(&mut self, want: Want, effects: &mut Vec<Effect>) {
        if self.owns {
            self.queue.push_back(want);
            return self.serve(effects);
        }
        if matches!(self.stage, Stage::Asked(Kind::Write, _)) {
            // It will be the owner. That two nodes wait in each other's queue cannot be: each would
            // have been told of the other's ownership as the later one.
            return self.queue.push_back(want);
        }
        effects.push(Effect::Send(self.known.node, Message::Want(want)));
    }

    fn on_read_grant(&mut self, owner: u32, effects: &mut Vec<Effect>) {
        let Stage::Asked(Kind::Read, moved) = self.stage else { return };
        self.enter(Kind::Read, Some(owner), moved, effects);
    }

    fn on_ownership(&mut self, version: u64, copies: Copyset, effects: &mut Vec<Effect>) {
        let Stage::Asked(Kind::Write, moved) = self.stage else { return };
        self.owns = true;
        self.known = Version { position: version, node: self.node, shared: false };
        self.copies = copies;
        // What waited for this node to be the owner waits for it to let go.
        self.begin_writing(moved, effects);
    }

    fn enter(&mut self, kind: Kind, owner: Option<u32>, moved: bool, effects: &mut Vec<Effect>) {
        let counted = owner.filter(|_| self.style == Style::Stores);
        self.stage = Stage::Inside(kind, counted);
        effects.push(Effect::Entered { moved });
    }

    /// The owner enters WLOCK: its version is a new one, and the others' copies are old.
    fn begin_writing(&mut self, moved: bool, effects: &mut Vec<Effect>) {
        let version = Version { position: self.known.position + 1, node: self.node, shared: false };
        self.known = version;
        self.held = version.position;
        let others = (0..self.nodes).filter(|node| *node != self.node);
        match self.style {
            Style::Stores => effects.extend(others.map(|node| Effect::Store(node, version))),
            Style::Datagrams => {
                let told = others.filter(|node| self.copies.contains(*node));
                effects.extend(told.map(|node| Effect::Send(node, Message::Told(version))));
                self.copies = Copyset::default();
                self.copies.insert(self.node);
            }
        }
        self.enter(Kind::Write, None, moved, effects);
    }

    /// Serves the queue, in order, as far as may be.
    fn serve(&mut self, effects: &mut Vec<Effect>) {
        if !self.owns {
            return;
        }
        while self.owns && !matches!(self.stage, Stage::Inside(Kind::Write, _)) {
            let Some(want) = self.queue.front().copied() else { return };
            let reads_here = matches!(self.stage, Stage::Inside(Kind::Read, _));
            match want.kind {
                Kind::Read => {}
                Kind::Write if self.readers > 0 || reads_here => return,
                Kind::Write => {}
            }
            self.queue.pop_front();
            self.grant(want, effects);
        }
        if !self.owns {
            // Ownership is gone: who still waits here, perhaps this node too, waits there, in the
            // same order.
            let owner = self.known.node;
            let waiting = self.queue.drain(..).map(|want| Effect::Send(owner, Message::Want(want)));
            effects.extend(waiting);
        }
    }

    fn grant(&mut self, want: Want, effects: &mut Vec<Effect>) {
        let Want { from, kind, held } = want;
        let version = self.known.position;
        if from == self.node {
            match kind {
                Kind::Write => self.begin_writing(false, effects),
                Kind::Read => {
                    self.readers += u32::from(self.style == Style::Stores);
                    self.enter(kind, Some(from), false, effects);
                }
            }
            return;
        }
        let valid = match self.style {
            Style::Stores => held == version,
            Style::Datagrams => self.copies.contains(from) && held == version,
        };
        if !valid {
            effects.push(Effect::Send(from, Message::Contents(version)));
        }
        self.copies.insert(from);
        let grant = Message::Grant { kind, version, copies: self.copies };
        effects.push(Effect::Send(from, grant));
        match kind {
            Kind::Read => self.readers += u32::from(self.style == Style::Stores),
            Kind::Write => {
                self.owns = false;
                // The version that the new owner is about to write: a later word than any before.
                self.known = Version { position: version + 1, node: from, shared: false };
                self.tell_of_owner(from, effects);
            }
        }
    }

    /// The owner change is told to all nodes, at the same time as to the new owner.
    fn tell_of_owner(&mut self, owner: u32, effects: &mut Vec<Effect>) {
        let change = self.known;
        let others = (0..self.nodes).filter(|node| *node != self.node && *node != owner);
        match self.style {
            Style::Stores => effects.extend(others.map(|node| Effect::Store(node, change))),
            Style::Datagrams => {
                effects.extend(others.map(|node| Effect::Send(node, Message::Told(change))));
            }
        }
    }
}
