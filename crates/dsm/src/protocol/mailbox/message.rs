//! What nodes say to each other, and what a node has to do.

use super::Copyset;
use crate::protocol::{Patience, Refusal};
use crate::word::{Kind, Mark, Version};

/// A request for a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want {
    /// Who wants it.
    pub from: u32,
    /// Its number among that node's requests.
    pub number: u32,
    /// What for.
    pub kind: Kind,
    /// Whether it may wait for others to let the variable go.
    pub patience: Patience,
    /// The version that its copy holds; 0: none.
    pub held: u64,
    /// Somebody is gone who may have been the owner: whoever stands in has to look who is.
    pub doubt: bool,
}

/// What a node says of itself when it is asked who owns a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account {
    /// It does.
    pub owns: bool,
    /// The newest that it was told.
    pub known: Version,
    /// To whom it last gave ownership away, and under which position; 0: never.
    pub passed: Version,
    /// The version that its copy holds.
    pub held: u64,
    /// It reads, and was counted.
    pub reads: bool,
    /// Who was gone when it was asked.
    pub departed: Copyset,
}

/// What nodes say to each other. Messages between two nodes arrive in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// A request, on its way to the owner.
    Want(Want),
    /// The contents, of this version, and what is wrong with them.
    Contents(u64, Option<Mark>),
    /// The variable may be read, or is the receiver's own.
    Grant {
        /// Which request is answered.
        number: u32,
        /// What for.
        kind: Kind,
        /// The newest version.
        version: u64,
        /// Whose copies are valid; of ownership by datagrams.
        copies: Copyset,
        /// What is wrong with the contents, because a node died.
        mark: Option<Mark>,
    },
    /// The request is over, and this is why.
    Refused {
        /// Which.
        number: u32,
        /// Why.
        refusal: Refusal,
    },
    /// A reader that was counted has finished.
    Done {
        /// Which of its requests that was.
        number: u32,
    },
    /// The owner has changed, or copies are old: a version and its owner.
    Told {
        /// Version and owner.
        version: Version,
        /// Whether the owner waits for [`Message::Heard`], and if so, also for the end of reading.
        answer: Option<Patience>,
    },
    /// The sender does not read an older version any more.
    Heard {
        /// The position that it was told.
        position: u64,
        /// It does read, and the owner did not want to wait for that.
        busy: bool,
    },
    /// Asks everybody who owns the variable.
    Survey,
    /// The answer.
    Account(Account),
    /// The receiver owns the variable from now on: its copy is the newest that is left.
    Adopt {
        /// The version under which.
        version: u64,
        /// What is wrong with it.
        mark: Option<Mark>,
        /// Who was counted as a reader.
        readers: Copyset,
    },
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
        /// What is wrong with them.
        mark: Option<Mark>,
    },
    /// It may not, and the request is over.
    Refused(Refusal),
}
