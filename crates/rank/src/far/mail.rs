//! Letters to mailboxes of ranks of other hosts. They store the same bytes, stamps and ends as a
//! writer on the mailbox's own host, by operations that are not answered.
//!
//! Starting a round waits for nobody (TF-10), so a letter that finds no room is copied and waits
//! here. That is one round of letters at most: the next one is written when this one has been read.

use hikyaku_nic::fabric::{
    Atomic, AtomicOp, Integer, MailEnd, MailboxAddress, PostError, Rank, RemoteAddress, Space,
};
use hikyaku_nic::hosted::Host;

use crate::near::NearPort;

use super::wire::{self, PutPart, Told, UNANSWERED, WireAddress};
use super::{Far, NEEDED};

/// Checks that bytes are within the region of a rank: all ranks' are as large as each other.
fn within_region(near: &NearPort, rank: Rank, offset: u64, length: u64) -> Result<(), PostError> {
    let is_inside = offset.checked_add(length).is_some_and(|end| end <= near.host().region_bytes());
    if is_inside { Ok(()) } else { Err(PostError::OutOfBounds { rank, offset, length }) }
}

impl Far {
    /// [`MailboxPort::write_mail`](hikyaku_nic::fabric::MailboxPort::write_mail). A rank that is
    /// gone reads nothing.
    ///
    /// # Errors
    /// The bytes do not fit the letter.
    pub(crate) fn write_mail(
        &mut self,
        near: &NearPort,
        to: MailboxAddress,
        (round, at): (u64, u32),
        bytes: &[u8],
    ) -> Result<(), PostError> {
        let MailboxAddress { rank, at: start, slots } = to;
        let (end, length) = ((at as usize).checked_add(bytes.len()), bytes.len() as u64);
        let offset = start.saturating_add(slots.letter_at(round, u64::from(at)));
        if end.is_none_or(|end| end > slots.room as usize) {
            return Err(PostError::OutOfBounds { rank, offset, length });
        }
        within_region(near, rank, offset, length)?;
        let to = WireAddress::of(RemoteAddress { rank, space: Space::Region, offset });
        let (mut done, told, call) = (0, Told::Not, UNANSWERED);
        while done < bytes.len() {
            let longest = self.links.longest(rank, NEEDED) - wire::PUT_HEAD;
            let part = &bytes[done..bytes.len().min(done + longest)];
            let put = PutPart { call, told, to, total: length, done: done as u64, bytes: part };
            self.push(near, rank, &[&wire::put_head(&put), part]);
            done += part.len();
        }
        Ok(())
    }

    /// [`MailboxPort::post_mail`](hikyaku_nic::fabric::MailboxPort::post_mail).
    ///
    /// # Errors
    /// The word is outside of the region.
    pub(crate) fn post_mail(
        &mut self,
        near: &NearPort,
        to: MailboxAddress,
        round: u64,
    ) -> Result<(), PostError> {
        self.push_word(near, to, to.slots.stamp_at(round), round)
    }

    /// [`MailboxPort::end_mail`](hikyaku_nic::fabric::MailboxPort::end_mail).
    pub(crate) fn end_mail(&mut self, near: &NearPort, to: MailboxAddress, end: MailEnd) {
        // Nobody is told of a mailbox that cannot be.
        let _ = self.push_word(near, to, 0, end.to_word());
    }

    /// Whether all letters to a rank are on their way: none waits for room.
    pub(crate) fn has_sent_mail(&self, to: Rank) -> bool {
        !self.out.iter().any(|(rank, lane, _)| (*rank, *lane) == (to, NEEDED))
    }

    /// Stores a word of a mailbox, behind what has been written before.
    fn push_word(
        &mut self,
        near: &NearPort,
        to: MailboxAddress,
        at: u64,
        value: u64,
    ) -> Result<(), PostError> {
        let (rank, offset) = (to.rank, to.at.saturating_add(at));
        within_region(near, rank, offset, 8)?;
        let target = RemoteAddress { rank, space: Space::Region, offset };
        let (integer, operation) = (Integer::U64, AtomicOp::Swap);
        let swap = Atomic { target, integer, operation, operand: value, result: None };
        let packet = wire::atomic(UNANSWERED, Told::Not, WireAddress::of(target), &swap);
        self.push(near, rank, &[&packet]);
        self.progress_out(near);
        Ok(())
    }

    /// Sends what the library needs to go on, now or when there is room.
    fn push(&mut self, near: &NearPort, to: Rank, parts: &[&[u8]]) {
        if self.state.peers.is_deaf(to) {
            return;
        }
        let is_first = !self.out.iter().any(|(rank, lane, _)| (*rank, *lane) == (to, NEEDED));
        if !(is_first && self.meet(near, to) && self.offer(to, NEEDED, parts)) {
            self.out.push_back((to, NEEDED, parts.concat()));
        }
    }
}
