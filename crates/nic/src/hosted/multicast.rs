//! Multicast: payload written once, in the sender's area, and read by all (paper 003 §4.9, CJ-14).
//!
//! ```text
//!   area   | free |## round 7 of channel 0 ##|## round 3 of channel 2 ##|   free   |
//!          '------ head ------------------------------------------ tail -----------'
//! ```
//!
//! That is for rounds. A multicast *command* has no area: it is posted to each member in turn,
//! lands in its rings or where its address register points, and costs what the posts do but for the
//! doorbell. What one member's tables refuse is an event at the sender; the others are served.
//!
//! A slot is used again when all members of its group have finished its round; slots come free in
//! the order in which they were taken. The gone hold up nothing.
//!
//! The area is gone round even if all of it is free. From the front again would be where the
//! readers have the last payload in their caches, from which it would have to be taken back (as
//! with letters, `ring/mail.rs`): 64 KiB between two ranks of a Xeon, from the front and round,
//! allgather 2.0 to 2.3 and 1.5 to 1.8 x the bare copies, broadcast 1.4 to 1.6 and 1.05 to 1.2 x.

use std::collections::VecDeque;

use super::group::Groups;
use super::{Host, HostedPort};
use crate::fabric::{
    Command, Completed, Event, FullCause, GroupError, GroupId, Key, PostError, Rank,
};
use crate::ring::GRANULE;

/// The book of a rank's multicast area: free-running positions, place = position mod size.
#[derive(Debug)]
pub(super) struct Stage {
    size: u64,
    head: u64,
    tail: u64,
    slots: VecDeque<Slot>,
}

/// Bytes that members of a group may be reading.
#[derive(Debug, Clone, Copy)]
struct Slot {
    end: u64,
    channel: u32,
    round: u64,
}

impl Stage {
    pub(super) fn new(size: u64) -> Stage {
        Stage { size, head: 0, tail: 0, slots: VecDeque::new() }
    }

    /// Takes a run of bytes, at whose start position there are `length` before the area's end.
    fn take(&mut self, length: u64, channel: u32, round: u64) -> Option<u64> {
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
        self.slots.push_back(Slot { end, channel, round });
        Some(start % self.size)
    }

    /// Whether a group has a slot.
    pub(super) fn is_used_by(&self, channel: u32) -> bool {
        self.slots.iter().any(|slot| slot.channel == channel)
    }
}

impl Groups {
    /// See [`crate::fabric::Port::set_registers`].
    pub(super) fn set_registers(
        &mut self,
        id: GroupId,
        registers: &[Key],
    ) -> Result<(), GroupError> {
        let joined = self.joined(id)?;
        let (place, members) = (registers.len(), joined.members.len());
        if place != members {
            return Err(GroupError::NoSuchMember { place, members });
        }
        joined.group.registers = registers.to_vec();
        Ok(())
    }
}

impl<H: Host> HostedPort<H> {
    /// A multicast's command for one member. Whatever comes of it, there is room to tell.
    pub(super) fn execute_one_of_many(
        &mut self,
        command: &Command<'_>,
    ) -> Result<usize, PostError> {
        if command.operation.is_remote() && !self.can_complete() {
            let (destination, cause) = (command.destination, FullCause::Outstanding);
            return Err(PostError::Full { destination, cause });
        }
        self.execute(command)
    }

    /// Tells this rank's program what became of a command; it always can.
    pub(super) fn tell_completed(&mut self, completed: Completed) -> bool {
        self.events.push_back(Event::Completed(completed));
        true
    }

    /// Writes a payload to this rank's area and answers where.
    pub(super) fn stage(
        &mut self,
        channel: u32,
        round: u64,
        payload: &[u8],
    ) -> Result<u64, GroupError> {
        let (length, limit) = (payload.len(), self.groups.stage.size as usize);
        if length > limit {
            return Err(GroupError::TooLarge { length, limit });
        }
        self.reclaim();
        let taken = self.groups.stage.take(length as u64, channel, round);
        let at = taken.ok_or(GroupError::Full)?;
        self.own.area().store(at as usize, payload);
        Ok(at)
    }

    /// Gives back the slots that everybody has read.
    pub(super) fn reclaim(&mut self) {
        while let Some(slot) = self.groups.stage.slots.front().copied() {
            if !self.all_finished(slot.channel, slot.round) {
                return;
            }
            self.groups.stage.slots.pop_front();
            self.groups.stage.head = slot.end;
        }
    }

    /// Whether bytes that a member names are in its area.
    pub(super) fn check_area(&self, rank: Rank, at: u64, length: u64) -> Result<(), GroupError> {
        let inside = at.checked_add(length).is_some_and(|end| end <= self.groups.stage.size);
        if inside { Ok(()) } else { Err(GroupError::Malformed { rank }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(stage: &mut Stage) {
        let slot = stage.slots.pop_front().unwrap();
        stage.head = slot.end;
    }

    #[test]
    fn slots_do_not_overlap_and_do_not_wrap() {
        let mut stage = Stage::new(1024);
        assert_eq!(stage.take(500, 0, 1), Some(0));
        assert_eq!(stage.take(300, 0, 2), Some(512));
        assert_eq!(stage.take(200, 1, 1), None, "192 bytes are left");
        free(&mut stage);
        assert_eq!(stage.take(512, 0, 3), Some(0), "not across the end");
        assert_eq!(stage.take(1, 0, 4), None);
        free(&mut stage);
        assert_eq!(stage.take(320, 0, 4), Some(512));
        assert!(stage.is_used_by(0) && !stage.is_used_by(1));
    }

    #[test]
    fn an_empty_area_is_used_whole_wherever_its_last_slot_was() {
        let mut stage = Stage::new(1024);
        for round in 0..100 {
            assert_eq!(stage.take(64, 0, round), Some(0));
            free(&mut stage);
            assert_eq!(stage.take(1024, 0, round), Some(0));
            assert_eq!(stage.take(64, 0, round), None);
            free(&mut stage);
        }
    }

    #[test]
    fn slots_go_round_an_area_that_is_free_each_time() {
        let mut stage = Stage::new(1024);
        for at in [0, 320, 640, 0, 320, 640, 0] {
            assert_eq!(stage.take(320, 0, 1), Some(at));
            assert_eq!(stage.take(1025, 0, 2), None);
            free(&mut stage);
        }
    }

    #[test]
    fn an_area_of_nothing_has_no_slots() {
        assert_eq!(Stage::new(1024).take(1025, 0, 1), None);
    }
}
