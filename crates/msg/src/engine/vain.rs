//! Calls that do not wait and find nothing, as of a loop of MPI_Test.
//!
//! A rank that polls by such calls gives its processor away where others need it. And it announces
//! what it polls for, as a call does that waits: now and then, so that a call in vain pays for a
//! count. Nothing takes the announcement back when the loop ends, which would be paid for by each
//! call that finds something. It says instead when it was made.
//!
//! ```text
//!   calls in vain  ......?A......................?A........................................?A
//!                        ^ the next one is asked what it polls for, and that is announced
//! ```

use hikyaku_nic::fabric::{CopyPort, Wait};
use hikyaku_nic::time::Time;

use super::Engine;
use super::wait::Reports;

/// Calls in vain in a row after which one gives its processor away.
const VAIN_CALLS: u32 = 4;

/// Calls in vain before the first is announced.
const FIRST_CALLS: u32 = 16;

/// Most calls in vain between two announcements.
const MOST_CALLS: u32 = 1 << 16;

/// The time between two announcements that is aimed at.
const PERIOD: Time = Time::from_nanoseconds(10_000_000);

/// The calls that have found nothing.
#[derive(Debug)]
pub(super) struct VainCalls {
    /// How many in a row without an event in between, and [`Engine::turns`] at the last of them.
    row: u32,
    turns: u64,
    /// How many are left before something is to be done, and before they are announced again.
    left: u32,
    period: u32,
    /// Whether the next one is asked what it polls for.
    is_asked: bool,
    /// What was announced last, and how many messages had been sent and received then.
    announced: Option<(Wait, u64)>,
}

impl Default for VainCalls {
    fn default() -> VainCalls {
        let (row, turns, is_asked, announced) = (0, 0, false, None);
        VainCalls { row, turns, left: FIRST_CALLS, period: FIRST_CALLS, is_asked, announced }
    }
}

impl<P: CopyPort> Engine<P> {
    /// Notes that a call that does not wait has found nothing. Whether that was so several times
    /// in a row, without an event in between, and whoever it looks for may need this processor.
    // Counted here, not by `idle_rounds`: what looks at memory alone makes no round.
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

    /// Asks the next call in vain what it polls for, or announces what it has said.
    #[cold]
    fn note_vain_calls(&mut self) {
        self.vain.left = self.vain.period;
        let was_asked = std::mem::take(&mut self.vain.is_asked);
        // A call that waits, of another thread or around this one, has its own reports.
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
        // In virtual time a clock may cost some.
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
        // As long as no message of the program has gone or come, it is the same loop.
        let messages = self.statistics.messages_sent + self.statistics.messages_received;
        let same = before.filter(|(_, before)| *before == messages);
        let since = same.map_or(now, |(before, _)| before.since);
        let wait = Wait { since, polled: Some(now), ..wait };
        self.vain.announced = Some((wait, messages));
        self.port.announce_wait(Some(wait));
    }

    /// A call waits: it is not asked what it polls.
    #[inline]
    pub(super) fn ask_no_polls(&mut self) {
        if self.vain.is_asked {
            self.vain.is_asked = false;
            self.reports = Reports::default();
        }
    }
}
