//! The spare thread of a rank: it makes progress while no thread of the program is inside a call.
//!
//! Where a provider makes progress in calls only, or the receiver copies, a message makes no
//! progress while the program computes. A thread of the library then attends, like a waiting thread
//! of the program (`threads.rs`): it sleeps on the doorbell, which arrivals from this host and from
//! others ring, and enters the gate when the doorbell rings.
//!
//! ```text
//!   attends ── a wait of the program claims ──► naps, until the program has not waited for
//!      ▲                                        QUIET ──► attends
//!      │                                          │ one wait lasts for QUIET
//!      '──────────────── it ends ◄── sleeps ◄─────'
//! ```
//!
//! A program that waits often keeps the thread asleep: waking it costs as much as a message, so
//! short waits do not wake it, only a long one does. It polls no more than a wait does, and it
//! never spins.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hikyaku_nic::hosted::{Rest, RestStart};
use hikyaku_nic::threads::{Attendant, Berth, ClaimOrder};
use hikyaku_shm::{longest_sleep, sleep_while, wake_one};
use thiserror::Error;

use crate::communicator::Communicator;
use crate::rank::Rank;
use crate::threads::{Gate, Outside, Wants};
use crate::waiting::unreported;

/// The time without a start or an end of a wait after which the spare thread attends, or sleeps
/// until the current wait has ended. A nap of that length takes some 10 us of a processor.
const QUIET: Duration = Duration::from_millis(1);

/// The state of a spare thread, with the request to end.
#[derive(Debug, Default)]
pub struct SpareThread {
    berth: Arc<Berth>,
    is_over: AtomicBool,
}

/// Whether a program shall have a spare thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressThread(pub bool);

impl ProgressThread {
    /// The variable that sets it, for programs that make a spare thread: `1` or `0`.
    pub const VARIABLE: &'static str = "HIKYAKU_PROGRESS_THREAD";
}

impl FromStr for ProgressThread {
    type Err = NotASwitch;

    fn from_str(given: &str) -> Result<ProgressThread, NotASwitch> {
        match given {
            "0" => Ok(ProgressThread(false)),
            "1" => Ok(ProgressThread(true)),
            _ => Err(NotASwitch { given: given.to_owned() }),
        }
    }
}

/// An invalid value of [`ProgressThread::VARIABLE`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is neither 1 nor 0: 1 gives MPI programs a progress thread")]
pub struct NotASwitch {
    /// The value.
    pub given: String,
}

impl SpareThread {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Sleeps in its berth.
    fn sleep(&self, at_most: Duration) {
        self.berth.sleep(|word, value| sleep_while(word, value, Some(at_most)));
    }
}

/// The attendant and the number of waits. If both are unchanged, no wait has begun or ended.
type Waits = (Option<Attendant>, u64);

impl Communicator {
    /// Makes progress while no other thread of this rank waits, until [`Communicator::end_spare`].
    /// For a thread inside the gate that waits for nothing; it leaves the gate meanwhile. `polls`
    /// returns whether it may also poll the operations in flight.
    pub fn attend_as_spare(&self, spare: &SpareThread, polls: impl Fn() -> bool) {
        let rank = &self.rank;
        let Some(gate) = rank.threads.gate() else { return };
        let mut before = None;
        while !spare.is_over() {
            if rank.may_attend_as_spare(before) {
                before = None;
                rank.attend_once_as_spare(gate, polls());
            } else {
                before = Some(rank.lie_as_spare(gate, spare, before));
            }
        }
        rank.threads.crew.borrow_mut().end_spare();
    }

    /// Requests its end. For a thread inside the gate, which then has to leave it.
    pub fn end_spare(&self, spare: &SpareThread) {
        spare.is_over.store(true, Ordering::Release);
        spare.berth.call(wake_one);
        self.rank.call_from_bell();
    }
}

impl Rank {
    /// Whether the spare thread shall attend now. `before`: the state before its last sleep, if
    /// any.
    fn may_attend_as_spare(&self, before: Option<Waits>) -> bool {
        let now = self.waits();
        let is_quiet = before.is_none_or(|before| before.1 == now.1);
        is_quiet && self.threads.crew.borrow_mut().attend_as_spare()
    }

    fn waits(&self) -> Waits {
        (self.threads.crew.borrow().attendant(), self.threads.waits())
    }

    /// One turn of the spare thread while it attends.
    fn attend_once_as_spare(&self, gate: &'static Gate, polls: bool) {
        let mut any = self.engine.borrow_mut().progress();
        if polls && !self.tasks.are_none() {
            let ended = self.tasks.ended();
            unreported(&self.engine, || self.tasks.poll_all());
            any |= self.tasks.have_stirred() || ended != self.tasks.ended();
        }
        self.tell();
        if any {
            drop(Outside::new(self, gate));
            return;
        }
        let limits = (None, RestStart::Asleep);
        let rest = self.engine.borrow_mut().port_mut().begin_rest(limits, std::iter::empty());
        match rest {
            Rest::Over(_) => drop(Outside::new(self, gate)),
            Rest::Yield => self.let_others_in(gate),
            Rest::Sleep(mut nap) => {
                let wants = Wants::nothing(&self.engine.borrow(), &self.tasks);
                self.sleep_on_bell(gate, &mut nap, wants);
                self.engine.borrow_mut().port_mut().end_rest(nap);
            }
        }
    }

    /// A sleep of the spare thread while others wait, or did just now. Returns the state before it.
    fn lie_as_spare(
        &self,
        gate: &'static Gate,
        spare: &SpareThread,
        before: Option<Waits>,
    ) -> Waits {
        let now = self.waits();
        let is_long = is_wait(now.0) && before == Some(now);
        match is_long {
            true => self.threads.crew.borrow_mut().lie_down_as_spare(&spare.berth),
            false => spare.berth.make(),
        }
        let outside = Outside::new(self, gate);
        spare.sleep(if is_long { longest_sleep() } else { QUIET });
        drop(outside);
        self.threads.crew.borrow_mut().get_up_as_spare();
        now
    }

    /// Whether the spare thread attends, or is about to, so that wait `me` must not sleep: the
    /// spare thread is then about to leave.
    pub(crate) fn claim_attendance(&self, me: u64) -> bool {
        let claim = self.threads.crew.borrow_mut().claim(me);
        if claim == Some(ClaimOrder::First) {
            self.call_from_bell();
        }
        claim.is_some()
    }
}

fn is_wait(attendant: Option<Attendant>) -> bool {
    matches!(attendant, Some(Attendant::Wait(_)))
}
