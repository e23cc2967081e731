//! Mailboxes: what two ranks write into each other's region round by round.
//!
//! A mailbox that its owner has closed may still be written to, by a writer who has not ended it
//! and does not know. Its memory is kept until that one has, or is gone, and given back when the
//! next one is opened.
//!
//! A rank that is about to sleep looks whether a letter that it has asked for in vain has come
//! meanwhile. The writer looks at the reader's doorbell after the stamp, without a barrier: the
//! sleeper makes it, as for messages.

use super::{Host, HostedPort};
use crate::fabric::{
    MailEnd, MailboxAddress, MailboxId, PeerState, PostError, Rank, RemoteAddress, Space,
};
use crate::region::{RegionBuffer, RegionError};
use crate::ring::{Slots, Stamp};
use crate::sync::{AtomicU64, Ordering};

/// The mailboxes of one rank, by number.
#[derive(Debug, Default)]
pub(super) struct Mailboxes(Vec<Option<Mailbox>>);

/// A mailbox of this rank.
#[derive(Debug)]
struct Mailbox {
    memory: RegionBuffer,
    slots: Slots,
    /// Who writes.
    from: Rank,
    /// The round that was asked for in vain since the rank last waited; 0: none.
    awaited: u64,
    /// Its owner reads no more.
    closed: bool,
}

impl Mailboxes {
    /// Whether something has come that was asked for in vain: for a rank that is about to sleep.
    pub(super) fn have_moved<H: Host>(&self, host: &H) -> bool {
        let awaited = self.0.iter().flatten().filter(|mailbox| mailbox.awaited != 0);
        awaited.into_iter().any(|mailbox| {
            let word = |at| host.word64(host.rank(), mailbox.memory.offset() + at);
            let stamp = word(mailbox.slots.stamp_at(mailbox.awaited));
            stamp.is_some_and(|stamp| Stamp(stamp).has(mailbox.awaited))
                || word(0).is_some_and(|end| end.load(Ordering::Acquire) != 0)
        })
    }

    /// Forgets what was asked for: whoever still waits asks again.
    pub(super) fn after_park(&mut self) {
        self.0.iter_mut().flatten().for_each(|mailbox| mailbox.awaited = 0);
    }
}

impl<H: Host> HostedPort<H> {
    /// See [`crate::fabric::Port::open_mailbox`].
    pub(super) fn take_mailbox(
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
        let mailbox = Mailbox { memory, slots, from, awaited: 0, closed: false };
        let boxes = &mut self.mailboxes.0;
        let free = boxes.iter().position(Option::is_none).unwrap_or(boxes.len());
        if free == boxes.len() {
            boxes.push(None);
        }
        boxes[free] = Some(mailbox);
        Ok((free as MailboxId, address))
    }

    /// Memory for letters of `room` bytes: where there is little left, for as few as work.
    fn room_for_mail(&mut self, room: u32) -> Result<(RegionBuffer, Slots), RegionError> {
        let best = Slots::best(room);
        if let Ok(memory) = self.host.allocate(best.mailbox_bytes() as usize) {
            return Ok((memory, best));
        }
        let least = Slots::least(room);
        Ok((self.host.allocate(least.mailbox_bytes() as usize)?, least))
    }

    /// See [`crate::fabric::Port::close_mailbox`].
    pub(super) fn leave_mailbox(&mut self, id: MailboxId) {
        if let Some(mailbox) = self.mailboxes.0.get_mut(id as usize).and_then(Option::as_mut) {
            mailbox.closed = true;
            mailbox.awaited = 0;
        }
    }

    /// Gives back the memory of those that are closed and that nobody writes to any more.
    fn give_back_mailboxes(&mut self) {
        for at in 0..self.mailboxes.0.len() {
            let Some(mailbox) = &self.mailboxes.0[at] else { continue };
            let ended = self.end_of_mail(at as MailboxId).is_some();
            let state = self.host.registry().state(mailbox.from);
            let gone = matches!(state, PeerState::Failed(_) | PeerState::Left);
            if mailbox.closed && (ended || gone) {
                self.mailboxes.0[at] = None;
            }
        }
    }

    /// See [`crate::fabric::Port::write_mail`].
    #[inline]
    pub(super) fn write_letter(
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
        let fits =
            (at as usize).checked_add(bytes.len()).is_some_and(|end| end <= slots.room as usize);
        let offset = start.saturating_add(slots.letter_at(round, u64::from(at)));
        if !fits {
            return Err(PostError::OutOfBounds { rank, offset, length: bytes.len() as u64 });
        }
        self.host.write(RemoteAddress { rank, space: Space::Region, offset }, bytes)
    }

    /// See [`crate::fabric::Port::post_mail`].
    #[inline]
    pub(super) fn post_letter(&mut self, to: MailboxAddress, round: u64) -> Result<(), PostError> {
        Stamp(self.word_of_mail(to, to.slots.stamp_at(round))?).post(round);
        if to.rank != self.rank {
            self.alert(to.rank);
        }
        Ok(())
    }

    /// See [`crate::fabric::Port::has_mail`].
    #[inline]
    pub(super) fn see_letter(&mut self, id: MailboxId, round: u64) -> bool {
        let Some(Some(mailbox)) = self.mailboxes.0.get_mut(id as usize) else { return false };
        let at = mailbox.memory.offset() + mailbox.slots.stamp_at(round);
        let there = self.host.word64(self.rank, at).is_some_and(|word| Stamp(word).has(round));
        if !there {
            mailbox.awaited = round;
        }
        there
    }

    /// See [`crate::fabric::Port::read_mail`].
    #[inline]
    pub(super) fn read_letter(
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
        into.copy_from_slice(part.ok_or(outside)?);
        Ok(())
    }

    /// See [`crate::fabric::Port::end_mail`].
    pub(super) fn end_letters(&mut self, to: MailboxAddress, end: MailEnd) {
        if let Ok(word) = self.word_of_mail(to, 0) {
            word.store(end.to_word(), Ordering::Release);
            // Whatever its doorbell says: it happens once, and it may be about to sleep.
            self.host.wake(to.rank);
        }
    }

    /// See [`crate::fabric::Port::mail_end`].
    pub(super) fn end_of_mail(&self, id: MailboxId) -> Option<MailEnd> {
        let mailbox = self.mailboxes.0.get(id as usize)?.as_ref()?;
        let word = self.host.word64(self.rank, mailbox.memory.offset())?;
        MailEnd::from_word(word.load(Ordering::Acquire))
    }

    /// A word of a mailbox, which its owner's word says is there.
    #[inline]
    fn word_of_mail(&self, to: MailboxAddress, at: u64) -> Result<&AtomicU64, PostError> {
        let rank = to.rank;
        if rank >= self.size {
            return Err(PostError::NoSuchRank { rank, size: self.size });
        }
        let offset = to.at.saturating_add(at);
        let outside = PostError::OutOfBounds { rank, offset, length: 8 };
        self.host.word64(rank, offset).ok_or(outside)
    }
}

/// The calls of [`Port`](crate::fabric::Port) about mailboxes, as a hosted port answers them.
/// Within `impl Port for HostedPort`, whose imports it uses.
macro_rules! mail_calls {
    () => {
        fn has_mailboxes(&self) -> bool {
            // Letters are written past whoever conducts a job: they would take no time.
            self.host.region_bytes() > 0 && !self.host.is_conducted()
        }

        fn open_mailbox(
            &mut self,
            from: Rank,
            room: u32,
        ) -> Result<($crate::fabric::MailboxId, $crate::fabric::MailboxAddress), RegionError> {
            self.take_mailbox(from, room)
        }

        fn close_mailbox(&mut self, mailbox: $crate::fabric::MailboxId) {
            self.leave_mailbox(mailbox);
        }

        #[inline]
        fn write_mail(
            &mut self,
            to: $crate::fabric::MailboxAddress,
            round: u64,
            at: u32,
            bytes: &[u8],
        ) -> Result<(), PostError> {
            self.write_letter(to, round, at, bytes)
        }

        #[inline]
        fn post_mail(
            &mut self,
            to: $crate::fabric::MailboxAddress,
            round: u64,
        ) -> Result<(), PostError> {
            self.post_letter(to, round)
        }

        #[inline]
        fn has_mail(&mut self, mailbox: $crate::fabric::MailboxId, round: u64) -> bool {
            self.see_letter(mailbox, round)
        }

        #[inline]
        fn read_mail(
            &self,
            mailbox: $crate::fabric::MailboxId,
            round: u64,
            at: u32,
            into: &mut [u8],
        ) -> Result<(), PostError> {
            self.read_letter(mailbox, round, at, into)
        }

        fn end_mail(&mut self, to: $crate::fabric::MailboxAddress, end: $crate::fabric::MailEnd) {
            self.end_letters(to, end);
        }

        fn mail_end(&self, mailbox: $crate::fabric::MailboxId) -> Option<$crate::fabric::MailEnd> {
            self.end_of_mail(mailbox)
        }
    };
}
pub(super) use mail_calls;
