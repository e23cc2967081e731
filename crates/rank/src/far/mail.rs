//! Letters to mailboxes of ranks on other hosts. They store the same bytes, stamps and ends as a
//! writer on the mailbox's own host, by operations without answers.
//!
//! The last bytes of a letter are kept until it is posted, and are sent with its stamp. A packet
//! costs a system call at both ends, and most letters then are one packet. The first packet to a
//! rank is sent alone, so a letter in two packets would wait for its acknowledgement.
//!
//! The start of a round waits for no rank (TF-10), so a letter for which there is no room is copied
//! and queued here. That is at most one round of letters: the next one is written after this one
//! has been read.

use hikyaku_nic::fabric::{
    Atomic, AtomicOp, Integer, MailEnd, MailboxAddress, PostError, Rank, RemoteAddress, Space,
};
use hikyaku_nic::hosted::Host;

use crate::near::NearPort;

use super::wire::{self, PutPart, Told, UNANSWERED, WireAddress};
use super::{Far, NEEDED};

/// Checks that bytes lie within the region of a rank. All ranks' regions have the same size.
fn within_region(near: &NearPort, rank: Rank, offset: u64, length: u64) -> Result<(), PostError> {
    let is_inside = offset.checked_add(length).is_some_and(|end| end <= near.host().region_bytes());
    if is_inside { Ok(()) } else { Err(PostError::OutOfBounds { rank, offset, length }) }
}

/// The address of a word of a mailbox.
fn word_in_region(
    near: &NearPort,
    MailboxAddress { rank, at: start, .. }: MailboxAddress,
    at: u64,
) -> Result<RemoteAddress, PostError> {
    let offset = start.saturating_add(at);
    within_region(near, rank, offset, 8)?;
    Ok(RemoteAddress { rank, space: Space::Region, offset })
}

/// The last bytes of the letter being written.
#[derive(Debug, Default)]
pub(super) struct OpenLetter {
    /// The mailbox, and the round.
    to: Option<(MailboxAddress, u64)>,
    /// Their offset in the region of that rank.
    offset: u64,
    bytes: Vec<u8>,
}

impl OpenLetter {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl Far {
    /// [`MailboxPort::write_mail`](hikyaku_nic::fabric::MailboxPort::write_mail). Does nothing for
    /// a rank that is gone.
    ///
    /// # Errors
    /// The bytes do not fit in the letter.
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
        if self.letter.to != Some((to, round)) || self.letter.end() != offset {
            self.push_letter(near, &[], Told::Not);
            (self.letter.to, self.letter.offset) = (Some((to, round)), offset);
        }
        let mut rest = bytes;
        loop {
            let longest = self.links.longest(rank, NEEDED) - wire::PUT_HEAD;
            let room = longest.saturating_sub(self.letter.bytes.len());
            if rest.len() <= room {
                break;
            }
            let (part, after) = rest.split_at(room);
            self.push_letter(near, part, Told::Not);
            rest = after;
        }
        self.letter.bytes.extend_from_slice(rest);
        Ok(())
    }

    /// Sends the kept bytes of the letter being written, followed by `more`.
    fn push_letter(&mut self, near: &NearPort, more: &[u8], told: Told) {
        let kept = std::mem::take(&mut self.letter.bytes);
        let total = (kept.len() + more.len()) as u64;
        if let Some((MailboxAddress { rank, .. }, _)) = self.letter.to.filter(|_| total > 0) {
            let offset = self.letter.offset;
            let to = WireAddress::of(RemoteAddress { rank, space: Space::Region, offset });
            let put = PutPart { call: UNANSWERED, told, to, total, done: 0, bytes: &[] };
            self.push(near, rank, &[&wire::put_head(&put), &kept, more]);
        }
        self.letter.offset += total;
        self.letter.bytes = kept;
        self.letter.bytes.clear();
    }

    /// [`MailboxPort::post_mail`](hikyaku_nic::fabric::MailboxPort::post_mail).
    ///
    /// # Errors
    /// The word lies outside the region.
    pub(crate) fn post_mail(
        &mut self,
        near: &NearPort,
        to: MailboxAddress,
        round: u64,
    ) -> Result<(), PostError> {
        let at = to.slots.stamp_at(round);
        if self.letter.to != Some((to, round)) || self.letter.bytes.is_empty() {
            return self.push_word(near, to, at, round);
        }
        let stamp = word_in_region(near, to, at)?;
        self.push_letter(near, &[], Told::Word { place: WireAddress::of(stamp), value: round });
        self.progress_out(near);
        Ok(())
    }

    /// [`MailboxPort::end_mail`](hikyaku_nic::fabric::MailboxPort::end_mail).
    pub(crate) fn end_mail(&mut self, near: &NearPort, to: MailboxAddress, end: MailEnd) {
        // Its memory may be reused afterwards.
        if self.letter.to.is_some_and(|(open, _)| open == to) {
            self.letter = OpenLetter::default();
        }
        // An invalid mailbox has no reader to notify.
        let _ = self.push_word(near, to, 0, end.to_word());
    }

    /// Whether all letters to a rank have been sent: none waits for room.
    pub(crate) fn has_sent_mail(&self, to: Rank) -> bool {
        !self.out.iter().any(|(rank, lane, _)| (*rank, *lane) == (to, NEEDED))
    }

    /// Stores a word of a mailbox, after all earlier writes.
    fn push_word(
        &mut self,
        near: &NearPort,
        to: MailboxAddress,
        at: u64,
        value: u64,
    ) -> Result<(), PostError> {
        let target = word_in_region(near, to, at)?;
        let (integer, operation) = (Integer::U64, AtomicOp::Swap);
        let swap = Atomic { target, integer, operation, operand: value, result: None };
        let packet = wire::atomic(UNANSWERED, Told::Not, WireAddress::of(target), &swap);
        self.push(near, to.rank, &[&packet]);
        self.progress_out(near);
        Ok(())
    }

    /// Sends what the library needs for progress, now or when there is room.
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
