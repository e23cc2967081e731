//! Nonblocking calls that find nothing, as in a loop of MPI_Test.
//!
//! A rank that polls by such calls yields its processor if others need it. It also announces what
//! it polls for, as a blocking call does: only now and then, so that most unsuccessful calls pay
//! for a counter alone. The announcement is not withdrawn when the loop ends, because every
//! successful call would pay for that. It carries the time when it was made instead.
//!
//! ```text
//!   empty calls   ......?A......................?A........................................?A
//!                        ^ the next call is asked what it polls for, and that is announced
//! ```

use hikyaku_nic::fabric::{CopyPort, Wait};
use hikyaku_nic::time::Time;

use super::Engine;
use super::wait::Reports;

/// Consecutive unsuccessful calls after which a call yields its processor.
const VAIN_CALLS: u32 = 4;

/// Unsuccessful calls before the first announcement.
const FIRST_CALLS: u32 = 16;

/// Most unsuccessful calls between two announcements.
const MOST_CALLS: u32 = 1 << 16;

/// The intended time between two announcements.
const PERIOD: Time = Time::from_nanoseconds(10_000_000);

/// The calls that found nothing.
#[derive(Debug)]
pub(super) struct VainCalls {
    /// The number of consecutive ones without an event, and [`Engine::turns`] at the last of them.
    row: u32,
    turns: u64,
    /// Calls left before the next ask or announcement, and the length of this period.
    left: u32,
    period: u32,
    /// Whether the next call is asked what it polls for.
    is_asked: bool,
    /// The last announcement, and the number of messages sent and received at that time.
    announced: Option<(Wait, u64)>,
}

impl Default for VainCalls {
    fn default() -> VainCalls {
        let (row, turns, is_asked, announced) = (0, 0, false, None);
        VainCalls { row, turns, left: FIRST_CALLS, period: FIRST_CALLS, is_asked, announced }
    }
}

impl<P: CopyPort> Engine<P> {
    /// Records that a nonblocking call has found nothing. Returns whether several did so in a row,
    /// without an event in between, and the rank they poll for may need this processor.
    // Counted here, not by `idle_rounds`: a call that only reads memory makes no round.
    pub fn found_nothing(&mut self) -> bool {
        let vain = &mut self.vain;
        vain.row = if vain.turns == self.turns { vain.row.saturating_add(1) } else { 1 };
        vain.turns = self.turns;
        vain.left -= 1;
        if vain.left == 0 {
            self.note_vain_calls();
        }
        self.vain.row >= VAIN_CALLS && self.port.is_crowded()
    }

    /// Asks the next unsuccessful call what it polls for, or announces its answer.
    #[cold]
    fn note_vain_calls(&mut self) {
        self.vain.left = self.vain.period;
        let was_asked = std::mem::take(&mut self.vain.is_asked);
        // A blocking call, of another thread or around this one, makes its own reports.
        if self.waiting.is_some() {
            return;
        }
        if !was_asked && !self.reports.are_taken {
            self.reports.are_taken = true;
            (self.vain.is_asked, self.vain.left) = (true, 1);
        } else if was_asked {
            let reports = std::mem::take(&mut self.reports);
            let polled = reports.first.map(|first| Wait { open: reports.count, ..first });
            polled.into_iter().for_each(|wait| self.announce_polls(wait));
        }
    }

    fn announce_polls(&mut self, wait: Wait) {
        // In virtual time, reading the clock may itself cost time.
        let is_virtual = self.capabilities.virtual_time;
        let now = if is_virtual { Time::ZERO } else { self.port.now() };
        let before = self.vain.announced.take();
        if let Some(last) = before.and_then(|(before, _)| before.polled) {
            let (period, gap) = (u64::from(self.vain.period), now - last);
            self.vain.period = match gap > PERIOD {
                true => (period * PERIOD.nanoseconds() / gap.nanoseconds()).max(1) as u32,
                false => (2 * self.vain.period).min(MOST_CALLS),
            };
            self.vain.left = self.vain.period;
        }
        // While the program sends and receives no message, this is the same loop.
        let messages = self.statistics.messages_sent + self.statistics.messages_received;
        let same = before.filter(|(_, before)| *before == messages);
        let since = same.map_or(now, |(before, _)| before.since);
        let wait = Wait { since, polled: Some(now), ..wait };
        self.vain.announced = Some((wait, messages));
        self.port.announce_wait(Some(wait));
    }

    /// A blocking call begins: it is not asked what it polls.
    #[inline]
    pub(super) fn ask_no_polls(&mut self) {
        if self.vain.is_asked {
            self.vain.is_asked = false;
            self.reports = Reports::default();
        }
    }
}
