//! Multicast: payload written once, in the sender's area, and read by all (paper 003 §4.9, CJ-14).
//!
//! ```text
//!   area   | free |##### round 7 #####|##### round 8 #####|   free   |
//!          '------ head ---------------------------------- tail -----'
//! ```
//!
//! The area is for rounds. Each channel has its own area, because calls of several communicators
//! are in flight at once, in another order at each rank. In a common area the payloads of one could
//! wait for room that those of another hold, and the reverse at another rank: a deadlock.
//!
//! A multicast *command* uses no area: it is posted to each member in turn, and lands in the
//! member's rings or where its address register points. It costs as much as the posts, less the
//! doorbells; in virtual time a send leaves once if the machine's network copies messages. A
//! refusal by a member's tables is an event at the sender; the other members are served.
//!
//! A slot is reused when all members have finished its round. Slots are freed in the order of their
//! allocation. Departed members delay nothing.
//!
//! Allocation goes round the area even if all of it is free. At the front the readers have the last
//! payload in their caches, and the writer would have to take those lines back (as with letters,
//! `ring/mail.rs`). 64 KiB between two ranks of a Xeon, always from the front or going round:
//! allgather 2.0 to 2.3 or 1.5 to 1.8 x the bare copies, broadcast 1.4 to 1.6 or 1.05 to 1.2 x.

use std::collections::VecDeque;

use super::group::Joined;
use super::{Host, HostedPort};
use crate::fabric::{
    Command, Completed, Event, FullCause, GroupError, GroupId, Key, PostError, Rank,
};
use crate::ring::GRANULE;

/// Allocation in a rank's area of a channel: free-running positions, place = position mod size.
#[derive(Debug)]
pub(super) struct AreaBook {
    size: u64,
    head: u64,
    tail: u64,
    slots: VecDeque<AreaSlot>,
    /// Whether the area's memory is committed. Most communicators never need it.
    has_memory: bool,
}

/// Bytes that members may be reading.
#[derive(Debug, Clone, Copy)]
struct AreaSlot {
    end: u64,
    round: u64,
}

impl AreaBook {
    pub(super) fn new(size: u64) -> AreaBook {
        AreaBook { size, head: 0, tail: 0, slots: VecDeque::new(), has_memory: false }
    }

    /// Allocates `length` contiguous bytes that do not wrap round the area's end.
    fn take(&mut self, length: u64, round: u64) -> Option<u64> {
        let length = length.next_multiple_of(GRANULE);
        let at = self.tail % self.size;
        let start = if at + length > self.size { self.tail + self.size - at } else { self.tail };
        let end = start + length;
        if self.slots.is_empty() {
            self.head = start;
        }
        if end - self.head > self.size {
            return None;
        }
        self.tail = end;
        self.slots.push_back(AreaSlot { end, round });
        Some(start % self.size)
    }

    /// Frees the slots of the rounds up to this one.
    fn free(&mut self, settled: u64) {
        while let Some(slot) = self.slots.front().filter(|slot| slot.round <= settled) {
            self.head = slot.end;
            self.slots.pop_front();
        }
    }

    /// Checks that the bytes a member names are in its area.
    pub(super) fn check(&self, rank: Rank, at: u64, length: u64) -> Result<(), GroupError> {
        let inside = at.checked_add(length).is_some_and(|end| end <= self.size);
        if inside { Ok(()) } else { Err(GroupError::Malformed { rank }) }
    }
}

impl Joined {
    /// Allocates room in this rank's area, without asking the members. Asking which rounds they
    /// have finished takes a line from each member, which it has to take back.
    fn take_room(&mut self, length: u64, round: u64) -> Option<u64> {
        self.stage.free(self.settled);
        self.stage.take(length, round)
    }
}

impl<H: Host> HostedPort<H> {
    /// Sets, for each member of a group, the context in which multicast puts find its address
    /// registers, as the key of any of them ([`HostedPort::register_key`]). Paper 003's multicast
    /// header identifies its receivers in the same way. Each member may redirect its registers at
    /// any time.
    ///
    /// # Errors
    /// The group was not joined, or there are not as many keys as members.
    pub fn set_registers(&mut self, group: GroupId, registers: &[Key]) -> Result<(), GroupError> {
        let joined = self.groups.joined(group)?;
        let (place, members) = (registers.len(), joined.members.len());
        if place != members {
            return Err(GroupError::NoSuchMember { place, members });
        }
        joined.group.registers = registers.to_vec();
        Ok(())
    }

    /// Executes a multicast's command for one member. There is always room to report the result.
    /// `is_copy`: the member before has taken the same bytes.
    pub(super) fn execute_one_of_many(
        &mut self,
        command: &Command<'_>,
        is_copy: bool,
    ) -> Result<usize, PostError> {
        if command.operation.is_remote() && !self.can_complete() {
            let (destination, cause) = (command.destination, FullCause::Outstanding);
            return Err(PostError::Full { destination, cause });
        }
        self.execute_as(command, is_copy)
    }

    /// Reports a command's result to this rank's program. Always succeeds.
    pub(super) fn tell_completed(&mut self, completed: Completed) -> bool {
        self.events.push_back(Event::Completed(completed));
        true
    }

    /// Writes a payload of `length` bytes to this rank's area. Returns its place, and whether its
    /// load shall be timed.
    pub(super) fn stage(
        &mut self,
        group: GroupId,
        round: u64,
        payload: &[&[u8]],
        length: usize,
    ) -> Result<(u64, u8), GroupError> {
        let limit = self.groups.joined(group)?.stage.size as usize;
        if length > limit {
            return Err(GroupError::TooLarge { length, limit });
        }
        if !self.groups.joined(group)?.stage.has_memory {
            self.host.commit_area(group.0)?;
            self.groups.joined(group)?.stage.has_memory = true;
        }
        let at = match self.groups.joined(group)?.take_room(length as u64, round) {
            Some(at) => at,
            None => self.reclaim(group, length as u64, round)?,
        };
        // Stored in the way for the next member, which times its loads: all share one area.
        let next = self.groups.joined(group)?.next_member();
        let storing = self.begin_store(next, length);
        let (area, mut end) = (self.own.area(group.0), at as usize);
        for piece in payload {
            area.store(end, piece, storing.way);
            end += piece.len();
        }
        self.end_store(next, length, storing);
        Ok((at, storing.sample()))
    }

    /// Allocates after asking the members which rounds they have finished.
    #[cold]
    fn reclaim(&mut self, group: GroupId, length: u64, round: u64) -> Result<u64, GroupError> {
        let oldest = self.groups.joined(group)?.stage.slots.front().map(|slot| slot.round);
        if oldest.is_some_and(|oldest| !self.all_finished(group.0, oldest)) {
            return Err(GroupError::Full);
        }
        self.groups.joined(group)?.take_room(length, round).ok_or(GroupError::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frees the oldest slot.
    fn free(stage: &mut AreaBook) {
        stage.free(stage.slots[0].round);
    }

    #[test]
    fn slots_do_not_overlap_and_do_not_wrap() {
        let mut stage = AreaBook::new(1024);
        assert_eq!(stage.take(500, 1), Some(0));
        assert_eq!(stage.take(300, 2), Some(512));
        assert_eq!(stage.take(200, 1), None, "192 bytes are left");
        free(&mut stage);
        assert_eq!(stage.take(512, 3), Some(0), "not across the end");
        assert_eq!(stage.take(1, 4), None);
        free(&mut stage);
        assert_eq!(stage.take(320, 4), Some(512));
    }

    #[test]
    fn an_empty_area_fits_a_full_slot() {
        let mut stage = AreaBook::new(1024);
        for round in 0..100 {
            assert_eq!(stage.take(64, round), Some(0));
            free(&mut stage);
            assert_eq!(stage.take(1024, round), Some(0));
            assert_eq!(stage.take(64, round), None);
            free(&mut stage);
        }
    }

    #[test]
    fn slots_go_round_even_a_free_area() {
        let mut stage = AreaBook::new(1024);
        for at in [0, 320, 640, 0, 320, 640, 0] {
            assert_eq!(stage.take(320, 1), Some(at));
            assert_eq!(stage.take(1025, 2), None);
            free(&mut stage);
        }
    }

    #[test]
    fn slots_of_settled_rounds_are_freed_together() {
        let mut stage = AreaBook::new(1024);
        assert_eq!([1, 2, 5].map(|round| stage.take(320, round)), [Some(0), Some(320), Some(640)]);
        stage.free(0);
        assert_eq!(stage.take(320, 6), None);
        stage.free(4);
        assert_eq!([6, 7].map(|round| stage.take(320, round)), [Some(0), Some(320)]);
        assert_eq!(stage.take(320, 8), None);
    }

    #[test]
    fn an_area_of_no_bytes_has_no_slots() {
        assert_eq!(AreaBook::new(1024).take(1025, 1), None);
    }

    #[test]
    fn a_slot_may_end_where_the_area_does() {
        let mut stage = AreaBook::new(1024);
        assert_eq!([1, 2, 3].map(|round| stage.take(512, round)), [Some(0), Some(512), None]);
    }
}
