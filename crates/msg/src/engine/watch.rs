//! Waiting for something that is not a message: what a group's members say in shared memory.
//!
//! The same loop as every blocking call: messages make progress meanwhile, the wait is announced
//! when it becomes long, and it parks through the port, which knows what was looked for in vain.

use std::hint::spin_loop;

use hikyaku_nic::fabric::{Port, Wait};

use super::{Blocked, Engine};

/// Looks between two polls for messages. What comes at all soon comes within these.
const LOOKS: u32 = 4;

impl<P: Port> Engine<P> {
    /// Looks at the port until `look` finds something; a wait for it is announced as `wait` says.
    ///
    /// `look` must come to an end by itself when a rank that it needs is gone, as the calls of
    /// [`Port`] about groups do.
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
            for _ in 0..LOOKS {
                spin_loop();
                if let Some(found) = look(&mut self.port) {
                    break 'found found;
                }
            }
            if !self.progress() && !self.attend(None) {
                self.rest(&mut blocked);
            }
        };
        self.idle_rounds = 0;
        self.awake(&blocked);
        found
    }
}
