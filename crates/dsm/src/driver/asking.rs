//! Requests for a part: waiting, trying, with a time limit, as a future, or polled by the caller.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::{AccessKind, EntryResult, Patience, Refusal};
use hikyaku_nic::time::Time;

use super::direct::CallOutcome;
use super::error::{Error, SharedError};
use super::variable::{LOOKS, LongWait, Variable};

impl Variable {
    /// Acquires a part that [`Variable::enter_free`] did not acquire. Waits for its turn.
    ///
    /// # Errors
    /// This rank already holds the part, or the part was lost with a rank that died.
    #[inline(never)]
    pub fn enter(&self, part: u64, kind: AccessKind) -> Result<EntryResult, Error> {
        let entry = Asking::new(self, part, kind, Patience::Wait)?.finish(None)?;
        Ok(entry.expect("a wait without a limit never returns busy"))
    }

    /// Acquires a part if no other rank holds it or waits for it.
    ///
    /// # Errors
    /// The same as [`Variable::enter`].
    pub fn enter_now(&self, part: u64, kind: AccessKind) -> Result<Option<EntryResult>, Error> {
        if let Some(entry) = self.enter_free(part, kind) {
            return entry.map(Some);
        }
        self.look_around();
        // In some protocols the owner must answer first.
        let entry = Asking::new(self, part, kind, Patience::Try)?.finish(None)?;
        if entry.is_none() {
            self.found_nothing();
        }
        Ok(entry)
    }

    /// Acquires a part if its turn comes within `limit`.
    ///
    /// # Errors
    /// The same as [`Variable::enter`].
    pub fn enter_within(
        &self,
        part: u64,
        kind: AccessKind,
        limit: Duration,
    ) -> Result<Option<EntryResult>, Error> {
        if let Some(entry) = self.enter_free(part, kind) {
            return entry.map(Some);
        }
        let until = self.now() + limit.into();
        Asking::new(self, part, kind, Patience::Wait)?.finish(Some(until))
    }

    /// Acquires a part, as a future. Dropping it cancels the request.
    ///
    /// # Errors
    /// The same as [`Variable::enter`].
    pub async fn enter_async(&self, part: u64, kind: AccessKind) -> Result<EntryResult, Error> {
        if let Some(entry) = self.enter_free(part, kind) {
            return entry;
        }
        let mut asking = Asking::new(self, part, kind, Patience::Wait)?;
        poll_fn(|_| match asking.poll_standing() {
            Ok(Some(entry)) => {
                let entry = entry.expect("a wait without a limit never returns busy");
                Poll::Ready(Ok(entry))
            }
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        })
        .await
    }
}

/// A request for a part, with its place in the queue. Dropping it cancels the request, unless it
/// has an outcome.
#[derive(Debug)]
pub struct Asking<'v> {
    variable: &'v Variable,
    part: u64,
    kind: AccessKind,
    over: bool,
    /// The number of rests; whether the request stands back, and since when.
    turn: u32,
    stands_back: bool,
    since: Option<Time>,
    /// The wait, once it has polled memory in vain.
    wait: Option<Box<LongWait>>,
}

impl<'v> Asking<'v> {
    /// Requests a part.
    ///
    /// # Errors
    /// This rank holds the part or has requested it, or there is no such part.
    #[inline]
    pub fn new(
        variable: &'v Variable,
        part: u64,
        kind: AccessKind,
        patience: Patience,
    ) -> Result<Asking<'v>, Error> {
        variable.engine().borrow().check_process()?;
        variable.request(part, kind, patience)?;
        let (over, stands_back) = (false, false);
        let (since, wait) = (None, None);
        Ok(Asking { variable, part, kind, over, turn: 0, stands_back, since, wait })
    }

    /// Whether the request has an outcome.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The outcome; `None` if there is none yet. `Some(None)` if the request does not wait and
    /// other ranks hold the part.
    ///
    /// # Errors
    /// The part was lost with a rank that died.
    #[inline]
    pub fn poll(&mut self) -> Result<Option<Option<EntryResult>>, Error> {
        let outcome = self.variable.drive(self.part)?;
        self.stands_back = matches!(outcome, CallOutcome::StandBack);
        self.over = !self.stands_back && !matches!(outcome, CallOutcome::Wait);
        match outcome {
            CallOutcome::Wait | CallOutcome::StandBack | CallOutcome::Released => Ok(None),
            CallOutcome::Entered(entry) => Ok(Some(Some(entry))),
            CallOutcome::Refused(Refusal::Busy) => Ok(Some(None)),
            CallOutcome::Refused(Refusal::Lost(mark)) => {
                Err(SharedError::lost(self.variable.label(self.part), mark).into())
            }
            CallOutcome::Refused(Refusal::Overwritten) => {
                Err(SharedError::Overwritten { variable: self.variable.label(self.part) }.into())
            }
        }
    }

    /// Waits for the outcome, at most until `until`, if given.
    #[inline(always)]
    fn finish(&mut self, until: Option<Time>) -> Result<Option<EntryResult>, Error> {
        loop {
            if let Some(outcome) = self.poll()? {
                return Ok(outcome);
            }
            if until.is_some_and(|until| self.variable.now() >= until) {
                return Ok(None);
            }
            self.rest(until);
        }
    }

    /// Waits briefly.
    #[inline]
    fn rest(&mut self, until: Option<Time>) {
        let (asked, turn) = ((self.part, self.kind), self.turn);
        self.turn = turn.wrapping_add(1);
        if !self.stands_back {
            return self.variable.rest(asked, turn, until, &mut self.wait);
        }
        if !self.turn.is_multiple_of(LOOKS) && !self.variable.is_virtual() {
            return std::hint::spin_loop();
        }
        self.variable.stand_back(asked, &mut self.since, until, &mut self.wait);
    }

    /// The part of a rest that never sleeps. `false`: the request is over, or no word can be
    /// polled.
    #[inline]
    pub fn glance(&mut self) -> bool {
        let glanced = !self.stands_back && self.variable.glance(self.part, self.turn);
        self.turn += u32::from(glanced);
        glanced
    }

    /// The part of a rest that may sleep.
    pub fn rest_after_glances(&mut self) {
        self.turn = self.variable.after_glances(self.turn);
        self.rest(None);
    }

    /// [`Asking::poll`] within a future. The executor polls it when another rank wakes this one. No
    /// wake ends standing back, so this function waits for that in place.
    fn poll_standing(&mut self) -> Result<Option<Option<EntryResult>>, Error> {
        loop {
            let answer = self.poll()?;
            if !self.stands_back {
                if answer.is_none() {
                    self.variable.report((self.part, self.kind));
                }
                return Ok(answer);
            }
            self.rest(None);
        }
    }
}

impl Drop for Asking<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(wait) = &self.wait {
            self.variable.awake(wait);
        }
        if !self.over {
            self.variable.give(self.part, false);
        }
    }
}
