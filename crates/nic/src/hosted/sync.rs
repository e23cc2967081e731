//! The network barrier: sync ids, several in progress at once (paper 003 §4.9, CJ-15).
//!
//! In Cenju-4 each member sends one sync packet and the switches count them in a table by sync id.
//! Here the table is distributed over the members: each has a count for each id, which only its own
//! interface increments, and a barrier is complete when all counts are equal. So no rank's packet
//! waits for another's, and the count of a departed member shows whether it entered.

use super::group::{AwaitedStep, MemberStep};
use super::{Host, HostedPort};
use crate::fabric::{GroupError, GroupId, SYNC_IDS, SYNC_MEMBERS};
use crate::sync::Ordering;

/// The state of one sync id of a group, at this rank.
#[derive(Debug, Clone)]
pub(super) struct SyncState {
    /// Barriers that this rank has entered.
    pub(super) count: u64,
    /// The number of members seen to have entered the last of them.
    seen: usize,
    /// Whether this rank has not yet seen the last one complete.
    running: bool,
}

impl SyncState {
    /// All ids of a group that starts counting at `first`.
    pub(super) fn all(first: u64) -> Vec<SyncState> {
        vec![SyncState { count: first, seen: 0, running: false }; SYNC_IDS as usize]
    }
}

impl<H: Host> HostedPort<H> {
    /// See [`crate::fabric::GroupPort::sync`].
    pub(super) fn send_sync(&mut self, group: GroupId, id: u32) -> Result<(), GroupError> {
        self.catch_up();
        let joined = self.groups.joined(group)?;
        let (members, limit) = (joined.members.len(), SYNC_MEMBERS);
        if members > limit {
            return Err(GroupError::TooMany { members, limit });
        }
        let Some(state) = joined.syncs.get_mut(id as usize) else {
            return Err(GroupError::NoSuchSyncId { id });
        };
        if state.running {
            return Err(GroupError::SyncInProgress { id });
        }
        *state = SyncState { count: state.count + 1, seen: 0, running: true };
        let own = &joined.members[joined.group.place];
        // Release: a rank that sees the barrier complete sees this rank's earlier stores.
        own.counts[id as usize].store(state.count, Ordering::Release);
        self.ring_members(group.0);
        Ok(())
    }

    /// See [`crate::fabric::GroupPort::synced`].
    pub(super) fn see_sync(&mut self, group: GroupId, id: u32) -> Result<bool, GroupError> {
        let joined = self.groups.joined(group)?;
        let Some(state) = joined.syncs.get_mut(id as usize) else {
            return Err(GroupError::NoSuchSyncId { id });
        };
        if !state.running {
            return Ok(true);
        }
        while let Some(member) = joined.members.get(state.seen) {
            if member.counts[id as usize].load(Ordering::Acquire) < state.count {
                let step = MemberStep::Sync(id, state.count);
                let want = AwaitedStep { channel: group.0, place: state.seen, step };
                return self.missing::<()>(want).map(|_| false);
            }
            state.seen += 1;
        }
        state.running = false;
        let foreign = joined.foreign;
        self.idle = 0;
        if let Some(rank) = foreign {
            // In virtual time: the last packet's travel, from the detection of its arrival.
            self.come_back(rank, 0);
        }
        Ok(true)
    }
}
