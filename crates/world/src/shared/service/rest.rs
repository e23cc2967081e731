//! The rests of a wait for something that wakes nobody.

use hikyaku_nic::fabric::Port;
use hikyaku_nic::time::Time;

use super::EngineCell;

/// How long a wait gives way before it sleeps, nanoseconds; and for how long it sleeps. What is
/// waited for wakes nobody.
const GIVE_WAY: u64 = 500_000;
const SLEEP: Time = Time::from_nanoseconds(1_000_000);

/// The rests of a wait for something that wakes nobody.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    since: Option<Time>,
}

impl Rest {
    /// Whether it is time to sleep. `any`: something has happened.
    pub(crate) fn is_long(&mut self, now: Time, any: bool) -> bool {
        if any {
            self.since = None;
        }
        let since = *self.since.get_or_insert(now);
        now.nanoseconds() - since.nanoseconds() > GIVE_WAY
    }

    /// Gives way, or sleeps a little.
    pub(crate) fn pause(&mut self, engine: &EngineCell, any: bool) {
        let now = engine.borrow().port().now();
        if self.is_long(now, any) {
            engine.borrow_mut().port_mut().park(Some(now + SLEEP));
        } else {
            std::thread::yield_now();
        }
    }
}
