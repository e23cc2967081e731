//! How a rank waits when nothing has arrived, and how it is woken.
//!
//! **How long what.** Spinning answers fastest and keeps others from the processor; a yield lets
//! another rank of the same core go on; a sleep costs nothing and some microseconds to end. The
//! policy is the pure function [`stage`]; its constants are in [`Patience::DEFAULT`].
//!
//! **No wake-up is lost**: `hikyaku_nic::doorbell` says why. Here are what it leaves to its host,
//! the kernel's sleep on a word and the limits of sleeps.
//!
//! Where the barrier cannot be had (an old kernel, a filter), sleeps are bounded by
//! [`Patience::unsure`] instead: a lost wake-up then costs that long.

use std::time::Duration;

use hikyaku_nic::doorbell::Doorbell;
use hikyaku_nic::sync::AtomicU64;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::cpus::Company;
use crate::mapping::futex_word;

/// How long a rank does what while nothing arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Waits that spin without even looking at the clock, which costs as much as a message.
    pub(crate) untimed: u32,
    /// Spins until then, if nobody else needs the processor.
    pub(crate) spin: Duration,
    /// Yields until then.
    pub(crate) give_way: Duration,
    /// Longest single sleep.
    pub(crate) sleep: Duration,
    /// Longest single sleep without the barrier.
    pub(crate) unsure: Duration,
}

impl Patience {
    /// Spin: three to four times what a wake-up between cores takes (14 µs), so that an answer
    /// that comes soon finds us awake, and a late one costs at most a few times the best.
    /// Give way: yields are almost free while others work on the core, but not while it is idle;
    /// half a millisecond keeps a blocked rank far below 1 % of a processor.
    /// Sleep: bounded for the sake of the improbable only; ten looks a second cost 0.01 %.
    /// Unsure: a thousand looks a second cost about 0.5 %.
    pub(crate) const DEFAULT: Patience = Patience {
        untimed: 64,
        spin: Duration::from_micros(50),
        give_way: Duration::from_micros(500),
        sleep: Duration::from_millis(100),
        unsure: Duration::from_millis(1),
    };
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Keep the processor and look again.
    Spin,
    /// Let others run and look again.
    Yield,
    /// Sleep until woken.
    Sleep,
}

/// The policy: what to do at wait number `idle` since something last happened, `idle_for` after
/// the first of them.
pub(crate) fn stage(
    idle: u32,
    idle_for: Duration,
    company: &Company,
    patience: &Patience,
) -> Stage {
    if !company.is_crowded() && (idle < patience.untimed || idle_for < patience.spin) {
        Stage::Spin
    } else if idle_for < patience.give_way {
        Stage::Yield
    } else {
        Stage::Sleep
    }
}

/// While spinning, looks at the clock (and yields, see [`Waiting::next`]) are this many spins
/// apart: some two microseconds, so that what comes sooner is found without either.
const CLOCK_EVERY: u32 = 64;

/// One rank's waiting: counts and times what [`stage`] decides by.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) patience: Patience,
    /// The caller's count at the last wait, and at the first of this idle time.
    last: u32,
    first: u32,
    restart: bool,
    /// When this idle time was first looked at the clock, nanoseconds.
    since: Option<u64>,
    stage: Stage,
}

impl Waiting {
    pub(crate) fn new(patience: Patience) -> Waiting {
        Waiting { patience, last: 0, first: 0, restart: true, since: None, stage: Stage::Spin }
    }

    /// Something happened that the caller does not count: be quick again.
    pub(crate) fn restart(&mut self) {
        self.restart = true;
    }

    /// What to do now. `idle` is the caller's count of waits since something happened to it.
    ///
    /// Two unbound ranks on a machine with room for both are now and then put on one processor
    /// and left there for seconds; then each would wait for the other's spin to end. So a rank
    /// that is not alone on its processors gives way each time it looks at the clock.
    #[inline]
    pub(crate) fn next(
        &mut self,
        idle: u32,
        company: &Company,
        clock: impl FnOnce() -> u64,
    ) -> Stage {
        if self.restart || idle == 0 || idle < self.last {
            self.restart = false;
            self.first = idle;
            self.since = None;
            self.stage = Stage::Spin;
        }
        self.last = idle;
        let waits = idle - self.first;
        let untimed = waits < self.patience.untimed || !waits.is_multiple_of(CLOCK_EVERY);
        if untimed && self.stage == Stage::Spin && !company.is_crowded() {
            return Stage::Spin;
        }
        let now = clock();
        let since = *self.since.get_or_insert(now);
        let idle_for = Duration::from_nanos(now.saturating_sub(since));
        self.stage = stage(waits, idle_for, company, &self.patience);
        match self.stage {
            Stage::Spin if !company.is_alone() => Stage::Yield,
            stage => stage,
        }
    }
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// It did not begin: there was something.
    Refused,
    /// Somebody woke us, or counted before we slept.
    Woken,
    /// The time was up.
    TimedOut,
}

/// Sleeps on one's own doorbell. `seen` is the count of wakes as of before the caller last looked;
/// `barrier` is made after the doorbell says that we sleep, and then `pending` asked once more.
pub(crate) fn sleep(
    bell: &Doorbell,
    seen: u64,
    limit: impl FnOnce(bool) -> Duration,
    barrier: impl FnOnce() -> bool,
    pending: impl FnOnce() -> bool,
) -> Sleep {
    let wait = |wakes: &AtomicU64, sure| {
        let limit = timespec(limit(sure));
        match futex::wait(futex_word(wakes), Flags::empty(), seen as u32, Some(&limit)) {
            Err(rustix::io::Errno::TIMEDOUT) => Sleep::TimedOut,
            // Woken, counted before (EAGAIN), or a signal (EINTR): look in every case.
            _ => Sleep::Woken,
        }
    };
    bell.sleep(barrier, pending, wait).unwrap_or(Sleep::Refused)
}

/// Ends the sleep of whoever waits on a doorbell's word.
pub(crate) fn end_sleep(wakes: &AtomicU64) {
    // It can only fail for an address that is none, which a doorbell's is not.
    let _ = futex::wake(futex_word(wakes), Flags::empty(), i32::MAX as u32);
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_nic::sync::Ordering;
    use std::cell::Cell;

    const ALONE: Company = Company { cpus: 2, confined: 1, quota: None, known: 2, ranks: 2 };
    const CROWDED: Company = Company { cpus: 2, confined: 3, quota: None, known: 3, ranks: 3 };

    fn after(idle: u32, microseconds: u64, company: &Company) -> Stage {
        stage(idle, Duration::from_micros(microseconds), company, &Patience::DEFAULT)
    }

    #[test]
    fn with_room_it_spins_then_yields_then_sleeps() {
        assert_eq!(after(0, 0, &ALONE), Stage::Spin);
        assert_eq!(after(1000, 49, &ALONE), Stage::Spin);
        assert_eq!(after(1000, 50, &ALONE), Stage::Yield);
        assert_eq!(after(1000, 499, &ALONE), Stage::Yield);
        assert_eq!(after(1000, 500, &ALONE), Stage::Sleep);
    }

    #[test]
    fn crowded_it_never_spins() {
        let quota = Company { quota: Some(1), ..ALONE };
        for company in [CROWDED, quota] {
            assert_eq!(after(0, 0, &company), Stage::Yield);
            assert_eq!(after(9, 499, &company), Stage::Yield);
            assert_eq!(after(10, 500, &company), Stage::Sleep);
        }
    }

    /// Over a spin of ten looks at the clock: how many there were, and how many yields.
    fn looks_and_yields(company: &Company) -> (u32, u32) {
        let mut waiting = Waiting::new(Patience::DEFAULT);
        let (looks, mut yields) = (Cell::new(0), 0);
        for idle in 0..Patience::DEFAULT.untimed + 10 * CLOCK_EVERY {
            let clock = || {
                looks.set(looks.get() + 1);
                1000
            };
            yields += u32::from(waiting.next(idle, company, clock) == Stage::Yield);
        }
        (looks.get(), yields)
    }

    #[test]
    fn the_clock_is_looked_at_rarely_while_spinning() {
        assert_eq!(looks_and_yields(&ALONE), (10, 0));
    }

    #[test]
    fn who_may_share_a_processor_gives_way_now_and_then() {
        let together = Company { confined: 2, ..ALONE };
        assert_eq!(looks_and_yields(&together), (10, 10));
    }

    #[test]
    fn idle_time_begins_anew_after_an_event_and_after_a_wake() {
        let mut waiting = Waiting::new(Patience::DEFAULT);
        assert_eq!(waiting.next(0, &CROWDED, || 0), Stage::Yield);
        assert_eq!(waiting.next(1, &CROWDED, || 600_000), Stage::Sleep);
        assert_eq!(waiting.next(2, &CROWDED, || 700_000), Stage::Sleep);
        waiting.restart();
        assert_eq!(waiting.next(3, &CROWDED, || 800_000), Stage::Yield);
        assert_eq!(waiting.next(4, &CROWDED, || 1_400_000), Stage::Sleep);
        assert_eq!(waiting.next(0, &CROWDED, || 1_500_000), Stage::Yield);
        assert_eq!(waiting.next(u32::MAX, &CROWDED, || 2_500_000), Stage::Sleep);
        assert_eq!(waiting.next(u32::MAX, &CROWDED, || 2_600_000), Stage::Sleep);
    }

    #[test]
    fn a_wake_before_the_sleep_is_not_lost() {
        let bell = Doorbell::default();
        let forever = |_| Duration::from_secs(3600);
        let seen = bell.seen();
        bell.wake(end_sleep);
        assert_eq!(sleep(&bell, seen, forever, || true, || false), Sleep::Woken);
        assert_eq!(sleep(&bell, bell.seen(), forever, || true, || true), Sleep::Refused);
        // A wake between the last look and the sleep.
        let last_look = || {
            bell.wake(end_sleep);
            false
        };
        assert_eq!(sleep(&bell, bell.seen(), forever, || true, last_look), Sleep::Woken);
        assert_eq!(bell.sleeping.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_sleep_ends_at_its_limit_which_knows_of_the_barrier() {
        let bell = Doorbell::default();
        let limit = |sure: bool| {
            assert!(!sure);
            Duration::from_nanos(1)
        };
        assert_eq!(sleep(&bell, 0, limit, || false, || false), Sleep::TimedOut);
    }
}
