//! Counters of groups: every member adds one to the counter of every member. Paper 003 §4.9: a
//! barrier by atomic add, or by multicast of atomic add if a group has too many members for a sync
//! id (CJ-15).
//!
//! An addition is one atomic operation of its sender on the member's counter, which only grows. A
//! counter does not record who has added. So each rank also counts its own additions; the other
//! members read that count when a member is gone.
//!
//! **Which rank an addition wakes.** A rank that waits for its counter publishes the count that it
//! waits for, and that it waits for itself ([`crate::segment::Awaited`]). Only the addition that
//! reaches the count wakes it. For the proof that no rank is left asleep see `group.rs`.

use super::group::{AwaitedStep, GroupMember, MemberStep, gone};
use super::{Host, HostedPort};
use crate::fabric::{GroupError, GroupId, Rank};
use crate::sync::{Ordering, compiler_fence, fence};

/// Bytes of an addition on the wire.
const ADDITION_BYTES: u64 = 8;

impl<H: Host> HostedPort<H> {
    /// See [`crate::fabric::GroupPort::add`].
    pub(super) fn add_one(&mut self, group: GroupId, place: usize) -> Result<(), GroupError> {
        let joined = self.groups.joined(group)?;
        let members = joined.members.len();
        let Some(member) = joined.members.get(place) else {
            return Err(GroupError::NoSuchMember { place, members });
        };
        let rank = member.rank;
        self.doorbells += 1;
        self.reach_counters(
            (self.host.node_of(rank) != self.host.node_of(self.rank)).then_some(rank),
        );
        self.raise(group, place)
    }

    /// See [`crate::fabric::GroupPort::add_to_all`].
    pub(super) fn add_all(&mut self, group: GroupId) -> Result<(), GroupError> {
        let joined = self.groups.joined(group)?;
        let (members, own, foreign) = (joined.members.len(), joined.group.place(), joined.foreign);
        self.doorbells += 1;
        // In virtual time the network copies the command: it travels once.
        self.reach_counters(foreign);
        // Starts with the next member, so that not all members start with the same one.
        (1..=members).try_for_each(|distance| self.raise(group, (own + distance) % members))
    }

    /// Spends the time of an addition's travel to a rank of another node, in virtual time.
    fn reach_counters(&mut self, foreign: Option<Rank>) {
        match foreign {
            Some(rank) => self.go(rank, ADDITION_BYTES),
            None => self.catch_up(),
        }
    }

    fn raise(&mut self, group: GroupId, place: usize) -> Result<(), GroupError> {
        let joined = self.groups.joined(group)?;
        joined.added += 1;
        let own = &joined.members[joined.group.place()];
        let GroupMember { rank, counter, bell, awaited, .. } = joined.members[place];
        // Release: a rank that sees the counter complete sees this rank's earlier stores.
        let count = counter.count.fetch_add(1, Ordering::AcqRel) + 1;
        own.counter.own.added.store(joined.added, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if bell.sleeping.load(Ordering::Relaxed) != 0 && rank != self.rank {
            fence(Ordering::Acquire);
            let awaits = awaited.load(Ordering::Relaxed);
            let is_last = || count >= counter.own.wanted.load(Ordering::Relaxed);
            if awaits == 0 || awaits == u64::from(rank) + 1 && is_last() {
                self.host.wake(rank);
            }
        }
        Ok(())
    }

    /// See [`crate::fabric::GroupPort::counted`].
    pub(super) fn see_count(&mut self, group: GroupId, rounds: u64) -> Result<bool, GroupError> {
        let joined = self.groups.joined(group)?;
        let additions = rounds * joined.members.len() as u64;
        let (place, count) = (joined.group.place(), joined.counted + additions);
        let (own, enough) = (&joined.members[place], joined.first + additions);
        let step = MemberStep::Counted(count);
        if own.has_done(step) {
            self.idle = 0;
            self.found_near(0);
            return Ok(true);
        }
        own.counter.own.wanted.store(count, Ordering::Relaxed);
        // Release: a rank that sees this rank asleep sees this word.
        fence(Ordering::Release);
        self.missing::<()>(AwaitedStep { channel: group.channel(), place, step })?;
        if self.host.registry().ends() != 0 {
            self.lost_additions(group, enough)
        } else {
            Ok(false)
        }
    }

    /// An error if a departed member has not made its additions.
    #[cold]
    fn lost_additions(&mut self, group: GroupId, enough: u64) -> Result<bool, GroupError> {
        let joined = self.groups.joined(group)?;
        let lost = joined.members.iter().find_map(|member| {
            let gone = gone(self.host.state_of(member.rank), member.rank)?;
            // A departed member's last additions are visible by now.
            let added = member.counter.own.added.load(Ordering::Acquire);
            (added < enough).then_some(gone)
        });
        lost.map_or(Ok(false), Err)
    }
}
