//! Tables: which ranks may be addressed, and which of their memory accessed (paper 003 §4.7).
//!
//! ```text
//!   sender                                  target
//!   ------                                  ------
//!   node     logical number → rank, cid     context   open contexts; address registers
//!                                           segment   key → bytes of the region, rights
//! ```
//!
//! The sender's tables are in its own memory. The target's are in its segment of shared memory,
//! where the process that executes a command reads them; the owner's book behind them is out of
//! reach of other ranks. Everything here is plain data over atomics: only the tables themselves are
//! accessed. The source table of paper 000 and the credits are with the rings, in
//! [`crate::segment`].

pub mod context;
pub mod segment;

use crate::fabric::{ContextError, Member, PostError};

pub use context::{ClaimedPlace, ContextBook, ContextLine, PutRefusal, SharedContexts};
pub use segment::{Extent, Leaving, SegmentEntry};

/// The members of a context, by logical number.
///
/// The node table: logical number → (rank, context), with its bound (paper 003 §4.7, CJ-04).
///
/// It belongs to the sender: a task addresses partners by their number in the task, and reaches
/// only those in its table. It is in ordinary memory that no other rank reads.
#[derive(Debug, Default)]
pub struct NodeTable {
    members: Vec<Member>,
}

impl NodeTable {
    /// Fills the table for a job of `ranks` with `contexts` each.
    ///
    /// # Errors
    /// [`ContextError::BadMember`] for the first invalid member; the table is unchanged.
    pub fn fill(
        &mut self,
        members: &[Member],
        ranks: u32,
        contexts: u32,
    ) -> Result<(), ContextError> {
        let can_be =
            |member: &Member| member.rank < ranks && u32::from(member.context.0) < contexts;
        if let Some(index) = members.iter().position(|member| !can_be(member)) {
            return Err(ContextError::BadMember { index, member: members[index] });
        }
        self.members.clear();
        self.members.extend_from_slice(members);
        Ok(())
    }

    /// The member behind a logical number.
    ///
    /// # Errors
    /// [`PostError::NoSuchMember`].
    pub fn member(&self, logical: u32) -> Result<Member, PostError> {
        let members = self.members.len() as u32;
        let found = self.members.get(logical as usize);
        found.copied().ok_or(PostError::NoSuchMember { logical, members })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fabric::ContextId;

    #[test]
    fn cj_04_a_number_beyond_the_table_is_named() {
        let mut table = NodeTable::default();
        assert_eq!(table.member(0), Err(PostError::NoSuchMember { logical: 0, members: 0 }));
        let members = [5, 0, 5].map(|rank| Member { rank, context: ContextId(3) });
        table.fill(&members, 6, 4).unwrap();
        assert_eq!(table.member(2), Ok(members[2]), "a rank may be there twice");
        for logical in [3, 4096, u32::MAX] {
            let error = PostError::NoSuchMember { logical, members: 3 };
            assert_eq!(table.member(logical), Err(error));
        }
    }

    #[test]
    fn a_table_with_an_invalid_member_is_refused() {
        let mut table = NodeTable::default();
        let good = Member { rank: 1, context: ContextId(0) };
        table.fill(&[good], 2, 4).unwrap();
        for bad in [Member { rank: 2, ..good }, Member { context: ContextId(4), ..good }] {
            let error = ContextError::BadMember { index: 1, member: bad };
            assert_eq!(table.fill(&[good, bad], 2, 4), Err(error));
        }
        assert_eq!(table.member(0), Ok(good));
        assert!(table.member(1).is_err());
    }
}
