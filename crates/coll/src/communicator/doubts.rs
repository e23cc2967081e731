//! Handles calls that disagree between ranks, and calls that have failed: the questions to other
//! ranks, the answers, and left-over messages that no rank will receive.
//!
//! [`crate::questions`] has the reasons, and the questions and records as values. Here they meet
//! the communicator's messages. Notices of failed calls, and questions, are notes of its context
//! with their own tags, so that no message of the program delays them.

use std::cell::Cell;

use hikyaku_msg::Received;
use hikyaku_nic::fabric::{CopyPort, GroupPort, PeerState};
use hikyaku_nic::time::Time;

use crate::error::{Caller, Cause};
use crate::group::{Group, Notice};
use crate::names::{LOSS_TAG, is_of_call, is_question, is_to_come, notice_tag_of, question_tag_of};
use crate::questions::{Asked, Doubt, LONG_PATIENCE, Made, Question};
use crate::turns::{Loss, is_before};

use super::CommunicatorGroup;

impl<P: CopyPort + GroupPort> CommunicatorGroup<'_, P> {
    /// Drops messages and notes of calls that have ended here. Every call does so at its end; for a
    /// communicator without further calls the owner has to call it.
    pub fn drop_left_overs(&self) {
        if self.endpoint.has_left_overs() {
            // Failures are rare. After one, every unexpected message is checked.
            self.look_for_left_overs(self.book.any_failed.get());
        }
    }

    /// The same. `all`: checks also messages behind those of other calls.
    #[cold]
    fn look_for_left_overs(&self, all: bool) {
        self.hear();
        let left_over = |tag| self.book.is_left_over(tag);
        while let Some((note, _)) = self.endpoint.take_note(left_over) {
            // That call has failed elsewhere, and all ranks receive the notice.
            if let Some((number, ..)) = self.book.questions.of_tag(note.tag) {
                self.book.note_failure(number);
                // Both ranks know the difference, and the other has failed in a later call.
                let is_known = |doubt: &Doubt| doubt.cause.is_some();
                self.book.end_doubt(|doubt| doubt.number == number && !is_known(doubt));
            }
        }
        loop {
            let found = match all {
                true => self.endpoint.unexpected(left_over),
                false => self.endpoint.oldest_unexpected(left_over),
            };
            let Some(found) = found else { return };
            // A message that has not fully arrived is withdrawn by its sender, whose call has
            // failed too.
            if self.endpoint.take_unexpected(&mut [], found.source, found.tag).is_none() {
                return;
            }
            self.doubt(found);
        }
    }

    /// Reads reports of lost lines and forwards new ones; answers questions.
    pub(super) fn hear(&self) {
        while let Some((_, bytes)) = self.endpoint.take_note(|tag| tag == LOSS_TAG) {
            let Some(heard) = Loss::from_bytes(&bytes) else { continue };
            self.book.any_failed.set(true);
            let news = self.book.turns.borrow_mut().hear(heard);
            if let Some(loss) = news {
                self.tell(&loss.to_bytes(), LOSS_TAG);
            }
        }
        let is_own = |tag| is_question(tag) && self.book.concerns(tag);
        while let Some((from, bytes)) = self.endpoint.take_note(is_own) {
            let Some(question) = Question::from_bytes(&bytes) else { continue };
            if is_to_come(notice_tag_of(question.number), self.book.started.get()) {
                self.book.questions.keep(from.source, question);
            } else {
                self.answer(from.source, question);
            }
        }
    }

    /// Answers a rank that has made a different call.
    fn answer(&self, to: u32, question: Question) {
        let Question { number, made, is_over } = question;
        let Some(own) = self.book.questions.differs(number, &made) else { return };
        let one = Caller { rank: self.rank(), call: own.call };
        let other = Caller { rank: to, call: made.call };
        let cause = Cause::Differ { one, other };
        let is_open = || self.book.open.borrow().contains(&number);
        if is_over && (is_open() || self.book.has_ended_well(number)) {
            let doubt = Doubt { number, rank: to, since: Time::ZERO, cause: Some(cause) };
            return self.agree(doubt, own);
        }
        // A rank that cannot be reached is gone, and need not know.
        let _ = self.endpoint.send_note(&cause.to_bytes(), to, notice_tag_of(number));
    }

    #[cold]
    pub(super) fn answer_early(&self, number: u32) {
        for (rank, question) in self.book.questions.about(number) {
            self.answer(rank, question);
        }
    }

    #[cold]
    pub(super) fn look_for_doubts(&self) {
        // A note may say that the call in doubt has failed elsewhere.
        let is_in_doubt = self.book.doubt.get().is_some();
        if is_in_doubt || self.endpoint.unexpected(|tag| self.book.is_left_over(tag)).is_some() {
            self.look_for_left_overs(true);
        }
    }

    /// Asks the sender of a left-over message whether it has made the call that the tag names.
    fn doubt(&self, found: Received) {
        let Some((number, made, differs)) = self.book.questions.of_tag(found.tag) else { return };
        // After a loss of lines, ranks that learn of it late send messages for calls that others
        // did by lines.
        let may_be_late = self.book.turns.borrow().are_lost();
        if may_be_late || !self.book.has_ended_well(number) || self.book.doubt.get().is_some() {
            return;
        }
        self.question(found.source, Question { number, made, is_over: true });
        // After such a loss a call by lines may have messages of another tag: only an answer
        // counts.
        if differs {
            let since = self.endpoint.with_port(|port| port.now());
            self.book.doubt.set(Some(Doubt { number, rank: found.source, since, cause: None }));
        }
    }

    /// Two ranks have made different calls, and the other's has succeeded. If this rank's has too,
    /// the next call fails at both. Otherwise this call fails, and all ranks are notified.
    fn agree(&self, doubt: Doubt, made: Made) {
        if self.book.doubt.get().is_some_and(|known| known.cause.is_some()) {
            return;
        }
        self.book.doubt.set(Some(doubt));
        if self.book.has_ended_well(doubt.number) {
            self.question(doubt.rank, Question { number: doubt.number, made, is_over: true });
        }
    }

    /// The notice about a rank that was asked about a call up to `number` and does not answer.
    fn unanswered(&self, number: u32) -> Option<Notice> {
        let doubt = self.book.doubt_for(number).filter(|doubt| doubt.cause.is_none())?;
        let now = self.endpoint.with_port(|port| port.now());
        let is_gone =
            matches!(self.endpoint.peer(doubt.rank), PeerState::Left | PeerState::Failed(_));
        let is_over = is_gone || now > doubt.since + LONG_PATIENCE;
        is_over.then_some(Notice { rank: doubt.rank, cause: Cause::OtherCall })
    }

    /// Sends a note to all other ranks.
    fn tell(&self, note: &[u8], tag: i32) {
        for rank in (0..self.size()).filter(|rank| *rank != self.rank()) {
            // A rank that cannot be reached is gone, and need not know.
            let _ = self.endpoint.send_note(note, rank, tag);
        }
    }

    /// [`Group::doubt_past`].
    pub(super) fn doubt_calls_before(&self, number: u32, rank: u32) -> bool {
        let mut last = None;
        for (number, made) in self.book.questions.ahead(number) {
            last = last.or(Some(number));
            self.question(rank, Question { number, made, is_over: true });
        }
        if let (Some(number), None) = (last, self.book.doubt.get()) {
            let since = self.endpoint.with_port(|port| port.now());
            self.book.doubt.set(Some(Doubt { number, rank, since, cause: None }));
        }
        last.is_some()
    }

    /// [`Group::notice`].
    pub(super) fn told(&self, number: u32) -> Option<Notice> {
        if let Some(Doubt { rank, cause: Some(cause), .. }) = self.book.doubt_for(number) {
            return Some(Notice { rank, cause });
        }
        if !self.endpoint.has_left_overs() && !self.book.any_failed.get() {
            return None;
        }
        self.hear();
        let ends = self.book.turns.borrow().ends(number);
        if let Some(loss) = ends {
            return Some(Notice { rank: loss.rank, cause: loss.cause });
        }
        let about = notice_tag_of(number);
        let (found, words) = self.endpoint.take_note(|tag| tag == about)?;
        let cause = Cause::from_bytes(&words).unwrap_or(Cause::Failed);
        Some(Notice { rank: found.source, cause })
    }

    /// [`Group::ask`].
    #[inline]
    pub(super) fn ask_others(
        &self,
        number: u32,
        tag: i32,
        made: Made,
        asked: &Cell<Asked>,
    ) -> Option<Notice> {
        if let Some((since, now)) = self.endpoint.long_wait() {
            let mut state = asked.get();
            for distance in state.next(self.size(), since, now) {
                let to = (u64::from(self.rank()) + u64::from(distance)) % u64::from(self.size());
                self.question(to as u32, Question { number, made, is_over: false });
            }
            asked.set(state);
        }
        if let Some(notice) = self.unanswered(number) {
            return Some(notice);
        }
        if !self.endpoint.has_left_overs() {
            return None;
        }
        self.look_for_doubts();
        let contradicts = |other: i32| is_of_call(other, number) && other != tag;
        let found = self.endpoint.unexpected(contradicts)?;
        let now = self.endpoint.with_port(|port| port.now());
        match asked.get().contradicted {
            None => {
                asked.set(Asked { contradicted: Some(now), ..asked.get() });
                self.question(found.source, Question { number, made, is_over: false });
                None
            }
            // Elsewhere a call by lines may have fallen back to messages; this rank will receive a
            // notice.
            Some(then) if made.algorithm.is_some() && now > then + LONG_PATIENCE => {
                Some(Notice { rank: found.source, cause: Cause::OtherCall })
            }
            Some(_) => None,
        }
    }

    #[cold]
    fn question(&self, to: u32, question: Question) {
        // A rank that cannot be asked is gone; its messages report that.
        let tag = question_tag_of(question.number);
        let _ = self.endpoint.send_note(&question.to_bytes(), to, tag);
    }

    /// Handles the failure of a call here. `is_new`: the other ranks must be notified.
    #[cold]
    pub(super) fn failed(&self, number: u32, cause: Cause, is_new: bool) {
        self.book.any_failed.set(true);
        self.book.note_failure(number);
        self.book.end_doubt(|doubt| !is_before(number, doubt.number));
        let loss = self.book.turns.borrow_mut().fail(number, self.rank(), cause);
        if let Some(loss) = loss {
            self.tell(&loss.to_bytes(), LOSS_TAG);
        } else if is_new {
            self.tell(&cause.to_bytes(), notice_tag_of(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Caller;
    use crate::names::Operation;
    use crate::signature::Signature;

    #[test]
    fn a_notice_says_what_it_was_told_and_nonsense_says_nothing() {
        let rank = u32::MAX;
        let call = Signature::new(Operation::Reduce).root(3).bytes(1 << 28);
        let one = Caller { rank, call };
        let other = Caller { rank: 0, call: Signature::new(Operation::Barrier) };
        for cause in
            [Cause::Failed, Cause::Dropped, Cause::Gone { rank }, Cause::Differ { one, other }]
        {
            assert_eq!(Cause::from_bytes(&cause.to_bytes()), Some(cause));
            let loss = Loss { from: rank, until: 3, rank: 7, cause };
            assert_eq!(Loss::from_bytes(&loss.to_bytes()), Some(loss));
        }
        for length in 0..40 {
            assert_eq!(Cause::from_bytes(&vec![0xFF; length]), None);
            assert_eq!(Loss::from_bytes(&vec![0xFF; length]), None);
        }
    }
}
