//! Mailboxes: data that two ranks write into each other's region, round by round.
//!
//! The writer of a closed mailbox may still write to it until it learns that it is closed. The
//! memory is kept until the writer has ended the mailbox, or is gone. It is freed when the next
//! mailbox is opened.
//!
//! A rank about to sleep checks once more for the letters it has polled for. The writer loads the
//! reader's doorbell after its stamp without a barrier: the sleeper executes it, as for messages.

use std::mem::take;

use super::send::elsewhere;
use super::{Host, HostedPort, MissedStep};
use crate::fabric::{
    MailEnd, MailboxAddress, MailboxId, MailboxPort, PeerState, PostError, Rank, RemoteAddress,
    Space,
};
use crate::region::{RegionBuffer, RegionError};
use crate::ring::{MailSlots, SlotStamp, copy};
use crate::sync::{AtomicU64, Ordering};

/// The mailboxes of one rank, by number.
#[derive(Debug, Default)]
pub(super) struct Mailboxes(Vec<Option<OwnMailbox>>);

/// A mailbox of this rank.
#[derive(Debug)]
struct OwnMailbox {
    memory: RegionBuffer,
    slots: MailSlots,
    /// The writer.
    from: Rank,
    /// The round polled for since the rank last waited; 0: none.
    awaited: u64,
    /// Its owner has stopped reading.
    closed: bool,
}

impl OwnMailbox {
    /// Whether the letter of a round has arrived, or none will.
    fn has<H: Host>(&self, host: &H, round: u64) -> bool {
        let word = |at| host.word64(host.rank(), self.memory.offset() + at);
        let stamp = word(self.slots.stamp_at(round));
        stamp.is_some_and(|stamp| SlotStamp(stamp).has(round))
            || word(0).is_some_and(|end| end.load(Ordering::Acquire) != 0)
    }
}

impl Mailboxes {
    /// Whether an awaited letter has arrived: for a rank that is about to sleep.
    pub(super) fn have_moved<H: Host>(&self, host: &H) -> bool {
        let awaited = self.0.iter().flatten().filter(|mailbox| mailbox.awaited != 0);
        awaited.into_iter().any(|mailbox| mailbox.has(host, mailbox.awaited))
    }

    /// Whether the letter of a round has arrived in a mailbox, or none will.
    pub(super) fn has<H: Host>(&self, host: &H, id: MailboxId, round: u64) -> bool {
        let mailbox = self.0.get(id as usize).and_then(Option::as_ref);
        mailbox.is_some_and(|mailbox| !mailbox.closed && mailbox.has(host, round))
    }

    /// Records that this rank waits for the letter of a round.
    pub(super) fn ask(&mut self, id: MailboxId, round: u64) {
        if let Some(Some(mailbox)) = self.0.get_mut(id as usize)
            && !mailbox.closed
        {
            mailbox.awaited = round;
        }
    }

    /// Moves the letters that polls have missed to the caller that made the polls.
    pub(super) fn take_awaited(&mut self, into: &mut Vec<MissedStep>) {
        for (id, mailbox) in (0..).zip(&mut self.0) {
            let round = mailbox.as_mut().map_or(0, |mailbox| take(&mut mailbox.awaited));
            if round != 0 {
                into.push(MissedStep::Letter(id, round));
            }
        }
    }

    /// Forgets the awaited rounds: a rank that still waits polls again.
    pub(super) fn after_park(&mut self) {
        self.0.iter_mut().flatten().for_each(|mailbox| mailbox.awaited = 0);
    }
}

impl<H: Host> MailboxPort for HostedPort<H> {
    fn open_mailbox(
        &mut self,
        from: Rank,
        room: u32,
    ) -> Result<(MailboxId, MailboxAddress), RegionError> {
        if self.host.is_conducted() {
            return Err(RegionError::NoMailboxes);
        }
        self.give_back_mailboxes();
        let (mut memory, slots) = self.room_for_mail(room)?;
        memory.fill(0);
        let address = MailboxAddress { rank: self.rank, at: memory.offset(), slots };
        let mailbox = OwnMailbox { memory, slots, from, awaited: 0, closed: false };
        let boxes = &mut self.mailboxes.0;
        let free = boxes.iter().position(Option::is_none).unwrap_or(boxes.len());
        if free == boxes.len() {
            boxes.push(None);
        }
        boxes[free] = Some(mailbox);
        Ok((free as MailboxId, address))
    }

    fn close_mailbox(&mut self, id: MailboxId) {
        if let Some(mailbox) = self.mailboxes.0.get_mut(id as usize).and_then(Option::as_mut) {
            mailbox.closed = true;
            mailbox.awaited = 0;
        }
    }

    #[inline]
    fn write_mail(
        &mut self,
        to: MailboxAddress,
        round: u64,
        at: u32,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        let MailboxAddress { rank, at: start, slots } = to;
        if rank >= self.size {
            return Err(PostError::NoSuchRank { rank, size: self.size });
        }
        if !self.host.is_here(rank) {
            return Err(elsewhere());
        }
        let fits =
            (at as usize).checked_add(bytes.len()).is_some_and(|end| end <= slots.room as usize);
        let offset = start.saturating_add(slots.letter_at(round, u64::from(at)));
        if !fits {
            return Err(PostError::OutOfBounds { rank, offset, length: bytes.len() as u64 });
        }
        let to = RemoteAddress { rank, space: Space::Region, offset };
        self.host.write(to, bytes, self.stores_for(rank, bytes.len()))
    }

    #[inline]
    fn post_mail(&mut self, to: MailboxAddress, round: u64) -> Result<(), PostError> {
        SlotStamp(self.word_of_mail(to, to.slots.stamp_at(round))?).post(round);
        if to.rank != self.rank {
            self.alert(to.rank);
        }
        Ok(())
    }

    #[inline]
    fn has_mail(&mut self, id: MailboxId, round: u64) -> bool {
        let Some(Some(mailbox)) = self.mailboxes.0.get_mut(id as usize) else { return false };
        let at = mailbox.memory.offset() + mailbox.slots.stamp_at(round);
        let there = self.host.word64(self.rank, at).is_some_and(|word| SlotStamp(word).has(round));
        if !there {
            mailbox.awaited = round;
        }
        there
    }

    #[inline]
    fn read_mail(
        &self,
        id: MailboxId,
        round: u64,
        at: u32,
        into: &mut [u8],
    ) -> Result<(), PostError> {
        let (rank, length) = (self.rank, into.len());
        let found = self.mailboxes.0.get(id as usize).and_then(Option::as_ref);
        let part = found.and_then(|mailbox| {
            let start = mailbox.slots.letter_at(round, u64::from(at)) as usize;
            let inside = at as usize + length <= mailbox.slots.room as usize;
            inside.then(|| &mailbox.memory[start..start + length])
        });
        let outside = PostError::OutOfBounds { rank, offset: at.into(), length: length as u64 };
        copy(part.ok_or(outside)?, into);
        Ok(())
    }

    fn end_mail(&mut self, to: MailboxAddress, end: MailEnd) {
        if let Ok(word) = self.word_of_mail(to, 0) {
            word.store(end.to_word(), Ordering::Release);
            // Regardless of its doorbell: this happens once, and the rank may be about to sleep.
            self.host.wake(to.rank);
        }
    }

    fn mail_end(&self, id: MailboxId) -> Option<MailEnd> {
        let mailbox = self.mailboxes.0.get(id as usize)?.as_ref()?;
        let word = self.host.word64(self.rank, mailbox.memory.offset())?;
        MailEnd::from_word(word.load(Ordering::Acquire))
    }
}

impl<H: Host> HostedPort<H> {
    /// Allocates memory for letters of `room` bytes, with the fewest slots if memory is short.
    fn room_for_mail(&mut self, room: u32) -> Result<(RegionBuffer, MailSlots), RegionError> {
        let best = MailSlots::best(room);
        if let Ok(memory) = self.host.allocate(best.mailbox_bytes() as usize) {
            return Ok((memory, best));
        }
        let least = MailSlots::least(room);
        Ok((self.host.allocate(least.mailbox_bytes() as usize)?, least))
    }

    /// Frees the memory of closed mailboxes whose writers have ended them.
    fn give_back_mailboxes(&mut self) {
        for at in 0..self.mailboxes.0.len() {
            let Some(mailbox) = &self.mailboxes.0[at] else { continue };
            let ended = self.mail_end(at as MailboxId).is_some();
            let state = self.host.registry().state(mailbox.from);
            let gone = matches!(state, PeerState::Failed(_) | PeerState::Left);
            if mailbox.closed && (ended || gone) {
                self.mailboxes.0[at] = None;
            }
        }
    }

    /// A word of a mailbox that its owner has opened.
    #[inline]
    fn word_of_mail(&self, to: MailboxAddress, at: u64) -> Result<&AtomicU64, PostError> {
        if !self.host.is_here(to.rank) {
            return Err(elsewhere());
        }
        let rank = to.rank;
        if rank >= self.size {
            return Err(PostError::NoSuchRank { rank, size: self.size });
        }
        let offset = to.at.saturating_add(at);
        let outside = PostError::OutOfBounds { rank, offset, length: 8 };
        self.host.word64(rank, offset).ok_or(outside)
    }
}
