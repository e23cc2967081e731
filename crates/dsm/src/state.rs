//! The four states of paper 001 (§3.3): the rights of a node on its copy.

use crate::word::{AccessKind, Version};

/// The rights of a node on its copy of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyState {
    /// Acquired for writing. No other node holds the variable.
    Wlock,
    /// Acquired for reading. Other nodes may read it too.
    Rlock,
    /// Not acquired, and the copy is the newest: acquiring moves no data.
    Clean,
    /// Not acquired, and the copy is old.
    Dirty,
}

impl CopyState {
    /// The state of a node that acquired the variable as `acquired`, whose copy holds the version
    /// `held`, and to which the version `owner` was announced.
    ///
    /// The node's own state and the announcements of other nodes are two words, so an invalidation
    /// cannot take away a lock (FG-21).
    pub fn of(acquired: Option<AccessKind>, held: Version, owner: Version) -> CopyState {
        match acquired {
            Some(AccessKind::Write) => CopyState::Wlock,
            Some(AccessKind::Read) => CopyState::Rlock,
            None if held.position >= owner.position => CopyState::Clean,
            None => CopyState::Dirty,
        }
    }

    /// Whether the copy may be read.
    pub fn may_read(self) -> bool {
        matches!(self, CopyState::Wlock | CopyState::Rlock)
    }

    /// Whether the copy may be written.
    pub fn may_write(self) -> bool {
        self == CopyState::Wlock
    }

    /// Whether acquiring the variable moves its contents.
    pub fn needs_data(self) -> bool {
        self == CopyState::Dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fg_01_four_states_with_the_rights_of_the_paper() {
        let version = |position| Version { position, node: 0, shared: false };
        let state = |acquired, held| CopyState::of(acquired, version(held), version(5));
        let table = [
            (Some(AccessKind::Write), 0, CopyState::Wlock, true, true, false),
            (Some(AccessKind::Read), 5, CopyState::Rlock, true, false, false),
            // An invalidation arrives while the node reads. The node continues to read (FG-21).
            (Some(AccessKind::Read), 4, CopyState::Rlock, true, false, false),
            (None, 5, CopyState::Clean, false, false, false),
            (None, 4, CopyState::Dirty, false, false, true),
        ];
        for (acquired, held, expected, read, write, data) in table {
            let found = state(acquired, held);
            assert_eq!(found, expected);
            assert_eq!(
                (found.may_read(), found.may_write(), found.needs_data()),
                (read, write, data)
            );
        }
    }
}
