//! The messages between nodes, and the effects that a node has to carry out.

use super::Copyset;
use crate::protocol::{Patience, Refusal};
use crate::word::{AccessKind, Mark, Version};

/// A request for a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want {
    /// The node that wants it.
    pub from: u32,
    /// Its number among that node's requests.
    pub number: u32,
    /// What it wants to do.
    pub kind: AccessKind,
    /// Whether it may wait for others to release the variable.
    pub patience: Patience,
    /// The version that its copy holds; 0: none.
    pub held: u64,
    /// The owner may be gone: the stand-in must first find out which node it is.
    pub doubt: bool,
}

/// A node's answer to a [`MailboxMessage::Survey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account {
    /// Whether it owns the variable.
    pub owns: bool,
    /// The newest version that was announced to it.
    pub known: Version,
    /// The node to which it last passed ownership, with the position; 0: never.
    pub passed: Version,
    /// The version that its copy holds.
    pub held: u64,
    /// It reads, and was counted as a reader.
    pub reads: bool,
    /// The nodes that it knew to be gone when it answered.
    pub departed: Copyset,
}

/// The messages between nodes. Messages between two nodes arrive in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailboxMessage {
    /// A request, on its way to the owner.
    Want(Want),
    /// The contents of this version, and what is wrong with them.
    Contents(u64, Option<Mark>),
    /// The receiver may read the variable, or owns it now.
    Grant {
        /// The number of the granted request.
        number: u32,
        /// What it is granted for.
        kind: AccessKind,
        /// The newest version.
        version: u64,
        /// The nodes with valid copies, if ownership is granted by datagrams.
        copies: Copyset,
        /// What is wrong with the contents, because a node died.
        mark: Option<Mark>,
    },
    /// The request is over, for this reason.
    Refused {
        /// The number of the refused request.
        number: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// A reader that was counted has finished.
    Done {
        /// The number of its request.
        number: u32,
    },
    /// The owner has changed, or copies are old: a version and its owner.
    Told {
        /// Version and owner.
        version: Version,
        /// Whether the owner waits for [`MailboxMessage::Heard`], and then also for the end of
        /// reading.
        answer: Option<Patience>,
    },
    /// The sender no longer reads an older version.
    Heard {
        /// The position that was announced to it.
        position: u64,
        /// It does read, and the owner did not want to wait for that.
        busy: bool,
    },
    /// Asks every node whether it owns the variable.
    Survey,
    /// The answer to a survey.
    Account(Account),
    /// The receiver owns the variable from now on: its copy is the newest that is left.
    Adopt {
        /// The version of its copy.
        version: u64,
        /// What is wrong with it.
        mark: Option<Mark>,
        /// The nodes that were counted as readers.
        readers: Copyset,
    },
}

/// What the driver has to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send a message. The copy itself goes ahead of [`MailboxMessage::Contents`].
    Send(u32, MailboxMessage),
    /// Store the owner's word at a node, by maximum, without that node's processor.
    Store(u32, Version),
    /// The variable may be used.
    Entered {
        /// Whether the contents were moved.
        moved: bool,
        /// What is wrong with the contents.
        mark: Option<Mark>,
    },
    /// It may not be used, and the request is over.
    Refused(Refusal),
}
