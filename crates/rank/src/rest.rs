//! The rests of a wait for something that wakes nobody.

use std::cell::RefCell;

use hikyaku_msg::Engine;
use hikyaku_nic::fabric::Port;
use hikyaku_nic::time::Time;

use crate::waiting::LOOK_AGAIN;

/// How long a wait gives way before it sleeps, nanoseconds.
const GIVE_WAY: u64 = 500_000;

/// The rests of a wait for something that wakes nobody.
#[derive(Debug, Default)]
pub struct Rest {
    since: Option<Time>,
}

impl Rest {
    /// Whether it is time to sleep. `any`: something has happened.
    pub fn is_long(&mut self, now: Time, any: bool) -> bool {
        if any {
            self.since = None;
        }
        let since = *self.since.get_or_insert(now);
        now.nanoseconds() - since.nanoseconds() > GIVE_WAY
    }

    /// Gives way, or sleeps a little.
    pub fn pause<P: Port>(&mut self, engine: &RefCell<Engine<P>>, any: bool) {
        let now = engine.borrow().port().now();
        if self.is_long(now, any) {
            engine.borrow_mut().port_mut().park(Some(now + LOOK_AGAIN));
        } else {
            std::thread::yield_now();
        }
    }
}
