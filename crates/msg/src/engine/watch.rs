//! Waiting for something that is not a message: a group member's words in shared memory.
//!
//! The same loop as in every blocking call: messages progress meanwhile, a long wait is announced,
//! and the port that parks knows which polls found nothing.

use std::hint::spin_loop;

use hikyaku_nic::fabric::{Port, Wait};

use super::{Blocked, Engine, Pace};

/// Polls of `look` between two polls for messages. Whatever comes soon comes within these.
const POLLS: u32 = 4;

impl<P: Port> Engine<P> {
    /// Polls the port until `look` returns something; announces a long wait as `wait` says.
    ///
    /// `look` must end by itself when a rank that it needs is gone, as the calls of [`Port`] about
    /// groups do.
    #[inline]
    pub fn watch<R>(
        &mut self,
        wait: impl FnOnce() -> Wait,
        mut look: impl FnMut(&mut P) -> Option<R>,
    ) -> R {
        match look(&mut self.port) {
            Some(found) => found,
            None => self.watch_on(wait(), look),
        }
    }

    #[inline(never)]
    fn watch_on<R>(&mut self, wait: Wait, mut look: impl FnMut(&mut P) -> Option<R>) -> R {
        let mut blocked = Blocked::new(wait);
        let found = 'found: loop {
            // Others of this processor run while this rank parks, and not before.
            let crowded = self.port.is_crowded();
            for _ in 0..if crowded { 1 } else { POLLS } {
                if !crowded {
                    spin_loop();
                }
                if let Some(found) = look(&mut self.port) {
                    break 'found found;
                }
            }
            self.pass(&mut blocked, Pace::Doorbell);
        };
        self.idle_rounds = 0;
        self.awake(&blocked);
        found
    }
}
