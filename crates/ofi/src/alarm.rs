//! A thread that waits for a descriptor on behalf of a rank that sleeps on a futex.
//!
//! A rank sleeps on a futex, which other ranks of its host wake. A provider signals completions by
//! a descriptor, and no system call waits for both. So while the rank sleeps this thread waits for
//! the descriptor, and rings when it becomes readable:
//! ```text
//!   rank     set ─► nothing to poll? ─► sleep on its futex                 ─► poll, set, ...
//!   thread          sleep on the descriptor ······ readable ─► ring ─► idle until it is set again
//! ```
//!
//! The thread rings at most once each time the alarm is set, and never calls libfabric.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::Error;

/// Consecutive false rings after which a descriptor counts as always readable.
const FALSE_ALARMS: u32 = 16;

const IDLE: u32 = 0;
const SET: u32 = 1;
const OVER: u32 = 2;

/// The thread and its state. The thread ends when this is dropped.
pub struct Alarm {
    state: Arc<AtomicU32>,
    ender: OwnedFd,
    thread: Option<JoinHandle<()>>,
    /// Whether it was set and nothing has arrived since; and the number of consecutive false rings.
    is_set: bool,
    false_alarms: u32,
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Alarm {
    /// An alarm for `descriptor`. The thread calls `ring` to wake the sleeper.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn new(
        descriptor: BorrowedFd<'_>,
        ring: impl Fn() + Send + 'static,
    ) -> Result<Alarm, Error> {
        let said = |error: std::io::Error| Error::Wait(error.to_string());
        let descriptor = descriptor.try_clone_to_owned().map_err(said)?;
        let ender = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| said(errno.into()))?;
        let other_end = ender.try_clone().map_err(said)?;
        let state = Arc::new(AtomicU32::new(IDLE));
        let shared = Arc::clone(&state);
        let run = move || watch(&shared, &descriptor, &other_end, ring);
        let thread = thread::Builder::new().name("hikyaku-alarm".into()).spawn(run);
        let thread = Some(thread.map_err(said)?);
        Ok(Alarm { state, ender, thread, is_set: false, false_alarms: 0 })
    }

    /// Sets the alarm before a sleep. The caller must poll once more afterwards. `false`: the
    /// descriptor is always readable, so no one can sleep on it.
    pub fn set(&mut self) -> bool {
        if self.false_alarms >= FALSE_ALARMS {
            return false;
        }
        if self.state.swap(SET, Ordering::SeqCst) == IDLE {
            // It rang since it was last set, and nothing has arrived.
            self.false_alarms += u32::from(std::mem::replace(&mut self.is_set, true));
            if let Some(thread) = &self.thread {
                thread.thread().unpark();
            }
        }
        true
    }

    /// Something has arrived: the last ring was not a false one.
    pub fn note_arrival(&mut self) {
        (self.is_set, self.false_alarms) = (false, 0);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.state.store(OVER, Ordering::SeqCst);
        let woken = rustix::io::write(&self.ender, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take().filter(|_| woken.is_ok()) {
            thread.thread().unpark();
            // The thread has not panicked: it calls nothing that can.
            let _ = thread.join();
        }
    }
}

/// The body of the thread.
fn watch(state: &AtomicU32, descriptor: &OwnedFd, ender: &OwnedFd, ring: impl Fn()) {
    loop {
        match state.load(Ordering::SeqCst) {
            OVER => return,
            SET => {}
            _ => {
                thread::park();
                continue;
            }
        }
        let mut both = [descriptor, ender].map(|end| PollFd::new(end, PollFlags::IN));
        // If the descriptor fails, no one may sleep on it; ringing has that effect too.
        if poll(&mut both, None) == Err(Errno::INTR) {
            continue;
        }
        if state.compare_exchange(SET, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            ring();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Long enough for any machine.
    const LONG: Duration = Duration::from_secs(20);

    fn alarm() -> (Alarm, OwnedFd, mpsc::Receiver<()>) {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let (ring, rings) = mpsc::sync_channel(64);
        let alarm = Alarm::new(descriptor.as_fd(), move || ring.send(()).unwrap()).unwrap();
        (alarm, descriptor, rings)
    }

    #[test]
    fn it_rings_once_each_time_it_is_set() {
        let (mut alarm, descriptor, rings) = alarm();
        rustix::io::write(&descriptor, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(rings.try_recv(), Err(mpsc::TryRecvError::Empty), "it is not set");
        for _ in 0..3 {
            assert!(alarm.set());
            rings.recv_timeout(LONG).unwrap();
            alarm.note_arrival();
        }
        rustix::io::read(&descriptor, &mut [0; 8]).unwrap();
        // Set twice before the descriptor is readable.
        assert!(alarm.set() && alarm.set());
        rustix::io::write(&descriptor, &1_u64.to_ne_bytes()).unwrap();
        rings.recv_timeout(LONG).unwrap();
        drop(alarm);
        assert_eq!(rings.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn a_descriptor_that_is_always_readable_is_found_out() {
        let (mut alarm, descriptor, rings) = alarm();
        rustix::io::write(&descriptor, &1_u64.to_ne_bytes()).unwrap();
        let mut times = 0;
        while alarm.set() {
            rings.recv_timeout(LONG).unwrap();
            times += 1;
        }
        assert_eq!(times, FALSE_ALARMS + 1);
    }

    #[test]
    fn it_ends_while_it_sleeps() {
        let (mut alarm, _descriptor, rings) = alarm();
        alarm.set();
        drop(alarm);
        assert!(rings.recv_timeout(LONG).is_err(), "the thread has ended");
    }
}
