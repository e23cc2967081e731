//! How a rank waits when nothing has arrived, and how it is woken.
//!
//! **How long.** Spinning reacts fastest but occupies the processor; a yield lets another rank of
//! the same core run; a sleep costs nothing but takes some microseconds to end. The policy is the
//! pure function [`stage`]; its constants are in [`WaitTimes::DEFAULT`].
//!
//! **No wake-up is lost**: `hikyaku_nic::doorbell` explains why. It leaves two parts to its host,
//! which are here: the kernel's sleep on a word and the limits of sleeps.
//!
//! Where the barrier is not available (an old kernel, a filter), sleeps are bounded by
//! [`WaitTimes::unsure`] instead: a lost wake-up then costs that long.

use std::sync::OnceLock;
use std::time::Duration;

use hikyaku_nic::sync::{AtomicU32, AtomicU64};
use rustix::thread::futex::{self, Flags, Timespec};
use rustix::time::{ClockId, clock_gettime};

use crate::cpus::Company;
use crate::mapping::futex_word;

/// The clock that all processes of a host share: nanoseconds since a moment before the machine's
/// start.
#[inline]
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// How long a rank spins, yields and sleeps while nothing arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitTimes {
    /// The number of waits that spin without reading the clock, which costs as much as a message.
    pub(crate) untimed: u32,
    /// The end of the spins, unless another rank needs the processor.
    pub(crate) spin: Duration,
    /// The end of the yields.
    pub(crate) give_way: Duration,
    /// Longest single sleep.
    pub(crate) sleep: Duration,
    /// Longest single sleep without the barrier.
    pub(crate) unsure: Duration,
}

impl WaitTimes {
    /// - `spin`: three to four times the time of a wake-up between cores (14 µs). So an early reply
    ///   finds the rank awake, and a late one costs at most a few times the minimum.
    /// - `give_way`: yields are almost free while others work on the core, but not if it is idle;
    ///   half a millisecond keeps a blocked rank far below 1 % of a processor.
    /// - `sleep`: bounded only for improbable faults; ten polls a second cost 0.01 %.
    /// - `unsure`: a thousand polls a second cost about 0.5 %.
    pub(crate) const DEFAULT: WaitTimes = WaitTimes {
        untimed: 64,
        spin: Duration::from_micros(50),
        give_way: Duration::from_micros(500),
        sleep: Duration::from_millis(100),
        unsure: Duration::from_millis(1),
    };

    /// The times of a rank that is a process.
    pub(crate) fn of_process() -> WaitTimes {
        WaitTimes { sleep: longest_sleep(), ..WaitTimes::DEFAULT }
    }

    /// The times of a rank that is one of `ranks` on its host. All together poll no more often than
    /// [`SLEEPERS`] ranks do: 2,048 ranks with ten polls a second each keep one processor busy with
    /// nothing, and ranks that have work wait for it.
    pub(crate) fn among(self, ranks: u32) -> WaitTimes {
        let times = ranks.div_ceil(SLEEPERS).max(1);
        WaitTimes { sleep: self.sleep * times, unsure: self.unsure * times, ..self }
    }
}

/// The variable with the length of [`longest_sleep`] in seconds, for builds with assertions. If it
/// is long, a lost wake-up is a hang, and not a delay that no test detects.
const LONGEST_SLEEP: &str = "HIKYAKU_TEST_SLEEP";

/// The longest single sleep of a rank, or of one of its threads, that another one ends.
pub fn longest_sleep() -> Duration {
    static LONGEST: OnceLock<Duration> = OnceLock::new();
    *LONGEST.get_or_init(|| {
        let given = if cfg!(debug_assertions) { std::env::var(LONGEST_SLEEP).ok() } else { None };
        let seconds = given.and_then(|given| given.parse().ok());
        seconds.map_or(WaitTimes::DEFAULT.sleep, Duration::from_secs)
    })
}

/// The number of ranks of a host up to which sleeps are as long as [`WaitTimes::DEFAULT`] says.
const SLEEPERS: u32 = 256;

/// The next step of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitStage {
    /// Keep the processor and poll again.
    Spin,
    /// Let others run and poll again.
    Yield,
    /// Sleep until woken.
    Sleep,
}

/// The policy: how to wait at wait number `idle` since the last event, `idle_for` after the first
/// of them.
pub(crate) fn stage(
    idle: u32,
    idle_for: Duration,
    company: &Company,
    patience: &WaitTimes,
) -> WaitStage {
    if !company.is_crowded() && (idle < patience.untimed || idle_for < patience.spin) {
        WaitStage::Spin
    } else if idle_for < patience.give_way {
        WaitStage::Yield
    } else {
        WaitStage::Sleep
    }
}

/// While spinning, reads of the clock (and yields, see [`Waiter::next`]) are this many spins apart:
/// some two microseconds, so that an event before that is found without either.
const CLOCK_EVERY: u32 = 64;

/// A yield that took less than this has found no other process to run. It takes 0.1 to 0.3 µs then;
/// the switch to another process and back takes more than 1 µs.
const SHORT_YIELD: u64 = 600;

/// A crowded rank spins this often after such a yield: half a microsecond, the time of a message
/// and its answer between far cores.
const SPINS_ALONE: u32 = 16;

/// Yields that have found another process are timed this rarely, because a reading of the clock
/// costs one fiftieth of the yield.
const TIMED_EVERY: u32 = 8;

/// One rank's waiting: counts and times for [`stage`].
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) patience: WaitTimes,
    /// The caller's count at the last wait, and at the first of this idle time.
    last: u32,
    first: u32,
    restart: bool,
    /// The first reading of the clock in this idle time, nanoseconds.
    since: Option<u64>,
    stage: WaitStage,
    /// The number of waits that still spin because the last timed yield was short.
    alone: u32,
    /// The number of yields since that one.
    yields: u32,
    /// The last reading of the clock.
    now: u64,
}

impl Waiter {
    pub(crate) fn new(patience: WaitTimes) -> Waiter {
        let (since, stage, restart) = (None, WaitStage::Spin, true);
        Waiter { patience, last: 0, first: 0, restart, since, stage, alone: 0, yields: 0, now: 0 }
    }

    /// Starts to spin again, after an event that the caller does not count.
    pub(crate) fn restart(&mut self) {
        self.restart = true;
    }

    /// How to wait now. `idle` is the caller's count of waits since its last event.
    ///
    /// The scheduler sometimes puts two unbound ranks on one processor for seconds, although the
    /// machine has room for both; then each would wait for the other's spin to end. So a rank that
    /// is not alone on its processors yields each time it reads the clock.
    #[inline]
    pub(crate) fn next(
        &mut self,
        idle: u32,
        company: &Company,
        clock: impl FnOnce() -> u64,
    ) -> WaitStage {
        if self.restart || idle == 0 || idle < self.last {
            self.restart = false;
            self.first = idle;
            self.since = None;
            self.stage = WaitStage::Spin;
        }
        self.last = idle;
        let waits = idle - self.first;
        let untimed = waits < self.patience.untimed || !waits.is_multiple_of(CLOCK_EVERY);
        if untimed && self.stage == WaitStage::Spin && !company.is_crowded() {
            return WaitStage::Spin;
        }
        if self.alone > 0 && self.stage != WaitStage::Sleep && company.is_crowded() {
            self.alone -= 1;
            return WaitStage::Spin;
        }
        let now = clock();
        self.now = now;
        let since = *self.since.get_or_insert(now);
        let idle_for = Duration::from_nanos(now.saturating_sub(since));
        self.stage = stage(waits, idle_for, company, &self.patience);
        match self.stage {
            WaitStage::Spin if !company.is_alone() => WaitStage::Yield,
            stage => stage,
        }
    }

    /// Accounts for a yield that [`Waiter::next`] asked for. A crowded rank spins a little after a
    /// short one: the other ranks sleep or have ended, and a message is found sooner.
    pub(crate) fn yielded(&mut self, clock: impl FnOnce() -> u64) {
        self.yields = self.yields.wrapping_add(1);
        if self.yields.is_multiple_of(TIMED_EVERY) {
            let is_short = clock().saturating_sub(self.now) < SHORT_YIELD;
            self.alone = if is_short { SPINS_ALONE } else { 0 };
            // The next yield is timed too.
            self.yields = self.yields.wrapping_sub(u32::from(is_short));
        }
    }
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// It did not begin: an event was pending.
    Refused,
    /// A rank woke us, or incremented the count before the sleep.
    Woken,
    /// It timed out.
    TimedOut,
}

/// Sleeps on a doorbell's word, which was `seen` before the caller last polled. The order: announce
/// the sleep, execute the barrier, check once more ([`Doorbell::begin_sleep`]), then this.
///
/// [`Doorbell::begin_sleep`]: hikyaku_nic::doorbell::Doorbell::begin_sleep
pub(crate) fn sleep_on(wakes: &AtomicU64, seen: u64, limit: Duration) -> Sleep {
    match futex::wait(futex_word(wakes), Flags::empty(), seen as u32, Some(&timespec(limit))) {
        Err(rustix::io::Errno::TIMEDOUT) => Sleep::TimedOut,
        // Woken, incremented before (EAGAIN), or a signal (EINTR): the caller polls in every case.
        _ => Sleep::Woken,
    }
}

/// Sleeps while a word of this process has a value, for at most `limit`.
pub fn sleep_while(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(timespec);
    // Woken, changed before, or a signal: the caller polls in every case.
    let _ = futex::wait(word, Flags::PRIVATE, value, limit.as_ref());
}

/// Ends one sleep on a word of this process.
pub fn wake_one(word: &AtomicU32) {
    // It can fail only for an invalid address; a word's address is valid.
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

/// Ends the sleeps on a doorbell's word.
pub(crate) fn end_sleep(wakes: &AtomicU64) {
    // It can fail only for an invalid address; a doorbell's address is valid.
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
    use hikyaku_nic::doorbell::Doorbell;
    use hikyaku_nic::sync::Ordering;
    use std::cell::Cell;

    const ALONE: Company = Company { cpus: 2, confined: 1, quota: None, known: 2, ranks: 2 };
    const CROWDED: Company = Company { cpus: 2, confined: 3, quota: None, known: 3, ranks: 3 };

    fn after(idle: u32, microseconds: u64, company: &Company) -> WaitStage {
        stage(idle, Duration::from_micros(microseconds), company, &WaitTimes::DEFAULT)
    }

    #[test]
    fn an_uncrowded_rank_spins_yields_then_sleeps() {
        assert_eq!(after(0, 0, &ALONE), WaitStage::Spin);
        assert_eq!(after(1000, 49, &ALONE), WaitStage::Spin);
        assert_eq!(after(1000, 50, &ALONE), WaitStage::Yield);
        assert_eq!(after(1000, 499, &ALONE), WaitStage::Yield);
        assert_eq!(after(1000, 500, &ALONE), WaitStage::Sleep);
    }

    #[test]
    fn ranks_of_a_host_sleep_the_longer_the_more_they_are() {
        let patience = WaitTimes::DEFAULT;
        for ranks in [0, 1, 256] {
            assert_eq!(patience.among(ranks), patience, "{ranks} ranks");
        }
        for (ranks, tenths) in [(257, 2), (512, 2), (2_048, 8), (4_096, 16)] {
            let sleep = Duration::from_millis(100 * tenths);
            let expected = WaitTimes { sleep, unsure: Duration::from_millis(tenths), ..patience };
            assert_eq!(patience.among(ranks), expected, "{ranks} ranks");
        }
    }

    #[test]
    fn a_crowded_rank_never_spins() {
        let quota = Company { quota: Some(1), ..ALONE };
        for company in [CROWDED, quota] {
            assert_eq!(after(0, 0, &company), WaitStage::Yield);
            assert_eq!(after(9, 499, &company), WaitStage::Yield);
            assert_eq!(after(10, 500, &company), WaitStage::Sleep);
        }
    }

    /// The number of reads of the clock and of yields, over a spin of ten reads.
    fn reads_and_yields(company: &Company) -> (u32, u32) {
        let mut waiting = Waiter::new(WaitTimes::DEFAULT);
        let (looks, mut yields) = (Cell::new(0), 0);
        for idle in 0..WaitTimes::DEFAULT.untimed + 10 * CLOCK_EVERY {
            let clock = || {
                looks.set(looks.get() + 1);
                1000
            };
            yields += u32::from(waiting.next(idle, company, clock) == WaitStage::Yield);
        }
        (looks.get(), yields)
    }

    #[test]
    fn the_clock_is_read_rarely_while_spinning() {
        assert_eq!(reads_and_yields(&ALONE), (10, 0));
    }

    #[test]
    fn ranks_that_may_share_a_processor_yield() {
        let together = Company { confined: 2, ..ALONE };
        assert_eq!(reads_and_yields(&together), (10, 10));
    }

    /// The stages of so many waits of a crowded rank, whose yields take so many nanoseconds each.
    fn spins_and_yields(waiting: &mut Waiter, waits: u32, yield_takes: u64) -> (u32, u32) {
        let (mut now, mut spins, mut yields) = (0, 0, 0);
        for _ in 0..waits {
            match waiting.next(0, &CROWDED, || now) {
                WaitStage::Spin => spins += 1,
                _ => {
                    yields += 1;
                    now += yield_takes;
                    waiting.yielded(|| now);
                }
            }
        }
        (spins, yields)
    }

    #[test]
    fn a_crowded_rank_spins_while_its_yields_find_nobody() {
        let mut waiting = Waiter::new(WaitTimes::DEFAULT);
        // The first yields are not timed.
        assert_eq!(spins_and_yields(&mut waiting, TIMED_EVERY, SHORT_YIELD - 1), (0, TIMED_EVERY));
        let each = SPINS_ALONE + 1;
        assert_eq!(spins_and_yields(&mut waiting, 3 * each, SHORT_YIELD - 1), (3 * SPINS_ALONE, 3));
        // Others run again: spins end with the next yield.
        let waits = SPINS_ALONE + 50;
        assert_eq!(spins_and_yields(&mut waiting, waits, SHORT_YIELD), (SPINS_ALONE, 50));
    }

    #[test]
    fn idle_time_restarts_after_events_and_wakes() {
        let mut waiting = Waiter::new(WaitTimes::DEFAULT);
        assert_eq!(waiting.next(0, &CROWDED, || 0), WaitStage::Yield);
        assert_eq!(waiting.next(1, &CROWDED, || 600_000), WaitStage::Sleep);
        assert_eq!(waiting.next(2, &CROWDED, || 700_000), WaitStage::Sleep);
        waiting.restart();
        assert_eq!(waiting.next(3, &CROWDED, || 800_000), WaitStage::Yield);
        assert_eq!(waiting.next(4, &CROWDED, || 1_400_000), WaitStage::Sleep);
        assert_eq!(waiting.next(0, &CROWDED, || 1_500_000), WaitStage::Yield);
        assert_eq!(waiting.next(u32::MAX, &CROWDED, || 2_500_000), WaitStage::Sleep);
        assert_eq!(waiting.next(u32::MAX, &CROWDED, || 2_600_000), WaitStage::Sleep);
    }

    /// Sleeps as a host does.
    fn sleep(bell: &Doorbell, seen: u64, limit: Duration, pending: impl FnOnce() -> bool) -> Sleep {
        if bell.begin_sleep(|| true, pending).is_none() {
            return Sleep::Refused;
        }
        let ended = sleep_on(&bell.wakes, seen, limit);
        bell.end_sleep();
        ended
    }

    #[test]
    fn a_wake_before_the_sleep_is_not_lost() {
        let bell = Doorbell::default();
        let forever = Duration::from_secs(3600);
        let seen = bell.seen();
        bell.wake(end_sleep);
        assert_eq!(sleep(&bell, seen, forever, || false), Sleep::Woken);
        assert_eq!(sleep(&bell, bell.seen(), forever, || true), Sleep::Refused);
        // A wake-up between the last check and the sleep.
        let last_look = || {
            bell.wake(end_sleep);
            false
        };
        assert_eq!(sleep(&bell, bell.seen(), forever, last_look), Sleep::Woken);
        assert_eq!(bell.sleeping.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_sleep_ends_at_its_limit() {
        let bell = Doorbell::default();
        let soon = Duration::from_nanos(1);
        assert_eq!(sleep(&bell, 0, soon, || false), Sleep::TimedOut);
        // A host takes a shorter limit if the barrier failed.
        assert_eq!(bell.begin_sleep(|| false, || false), Some(false));
        bell.end_sleep();
        sleep_while(&AtomicU32::new(7), 7, Some(soon));
    }
}
