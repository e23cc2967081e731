//! The messages between nodes, and the effects that the driver carries out.

use super::Copyset;
use crate::protocol::{Patience, Refusal};
use crate::word::{AccessKind, Mark, Version};

/// A request for a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want {
    /// The requesting node.
    pub from: u32,
    /// The number of the request among those of its node.
    pub number: u32,
    /// The access that it wants.
    pub kind: AccessKind,
    /// Whether the request may wait for others to release the variable.
    pub patience: Patience,
    /// The version that the requester's copy holds; 0 for none.
    pub held: u64,
    /// The owner may be gone: the stand-in must first find the owner.
    pub doubt: bool,
}

/// A node's answer to a [`MailboxMessage::Survey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account {
    /// Whether the node owns the variable.
    pub owns: bool,
    /// The newest version that was announced to the node.
    pub known: Version,
    /// The node to which it last passed ownership, with the position; 0 for never.
    pub passed: Version,
    /// The version that the node's copy holds.
    pub held: u64,
    /// Whether the node reads and was counted as a reader.
    pub reads: bool,
    /// The nodes that it knew to be gone when it answered.
    pub departed: Copyset,
}

/// The messages between nodes. Messages between two nodes arrive in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailboxMessage {
    /// A request, on its way to the owner.
    Want(Want),
    /// The version of the contents that precede this message, and their damage.
    Contents(u64, Option<Mark>),
    /// The receiver may read the variable, or owns it now.
    Grant {
        /// The number of the granted request.
        number: u32,
        /// The kind of access.
        kind: AccessKind,
        /// The newest version.
        version: u64,
        /// The nodes with valid copies, if ownership is granted by datagrams.
        copies: Copyset,
        /// The damage of the contents, because a node died.
        mark: Option<Mark>,
    },
    /// The request is refused.
    Refused {
        /// The number of the refused request.
        number: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// A counted reader has finished.
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
        /// Whether the sender still reads. Only if the owner did not want to wait for that.
        busy: bool,
    },
    /// Asks every node whether it owns the variable.
    Survey,
    /// The answer to a survey.
    Account(Account),
    /// The receiver owns the variable from now on: its copy is the newest surviving one.
    Adopt {
        /// The version of its copy.
        version: u64,
        /// The damage of that copy.
        mark: Option<Mark>,
        /// The nodes that were counted as readers.
        readers: Copyset,
    },
}

/// The effects of one step, which the driver carries out in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send a message. The driver sends the contents before [`MailboxMessage::Contents`].
    Send(u32, MailboxMessage),
    /// Store the owner's word at a node, by maximum, without that node's processor.
    Store(u32, Version),
    /// The variable has been acquired.
    Entered {
        /// Whether the contents were moved.
        moved: bool,
        /// The damage of the contents.
        mark: Option<Mark>,
    },
    /// The request is over without the variable.
    Refused(Refusal),
}
