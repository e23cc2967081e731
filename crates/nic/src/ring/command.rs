//! The command queue: descriptors that the host writes and the interface runs, in order.
//!
//! ```text
//!     read ≤ write                          normal mode:  slot i runs iff i < write
//!     read ≤ scheduling                     session mode: slot i runs iff i < write
//!                                                                    and i < scheduling
//! ```
//!
//! This is the TOQ of paper 002 with its three pointers, as free-running counters: the scheduling
//! pointer may lead the write pointer (TF-03). Writing several descriptors and moving the write
//! pointer once is paper 004's TCW chain: one doorbell, one start-up cost (CP-06).
//!
//! One host writes and one interface reads at a time.

use thiserror::Error;

use crate::sync::{AtomicU64, Line, Ordering};

/// Words of a descriptor.
const WORDS: usize = 8;

/// A command in the form in which it can wait in memory: every address is in a region, so that
/// nothing is borrowed.
///
/// ```text
///   word 0   operation (8) | notification (8) | granularity (8) | protocol (8) | destination (32)
///   word 1   header
///   word 2   source offset           word 3   length
///   word 4   target offset           word 5   notification offset
///   word 6   notification value      word 7   release count (sps)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor(pub [u64; WORDS]);

/// The queue has no slot for all of the chain. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the command queue has {free} free slots, the chain needs {wanted}")]
pub struct QueueFull {
    /// Slots that are free.
    pub free: u64,
    /// Commands in the chain.
    pub wanted: u64,
}

/// The three pointers of a queue as they lie in memory. All zero is an empty queue.
#[derive(Debug, Default)]
#[repr(C)]
pub struct QueuePointers {
    /// Descriptors ever written; the doorbell. Written by the host.
    write: Line<AtomicU64>,
    /// Descriptors ever run. Written by the interface.
    read: Line<AtomicU64>,
    /// Slots ever released by arrivals; only in session mode. Written by arrivals.
    scheduling: Line<AtomicU64>,
}

/// A command queue over shared memory. A view: cheap to copy, owns nothing.
#[derive(Debug, Clone, Copy)]
pub struct CommandQueue<'m> {
    pointers: &'m QueuePointers,
    slots: &'m [[AtomicU64; WORDS]],
    session: bool,
}

impl<'m> CommandQueue<'m> {
    /// A queue of `slots` (a power of two) in normal or session mode (TF-04).
    pub fn new(
        pointers: &'m QueuePointers,
        slots: &'m [[AtomicU64; WORDS]],
        session: bool,
    ) -> CommandQueue<'m> {
        debug_assert!(slots.len().is_power_of_two());
        CommandQueue { pointers, slots, session }
    }

    /// Writes a chain of descriptors and rings the doorbell once. Host side.
    ///
    /// # Errors
    /// [`QueueFull`] if not all of them fit; none is written then.
    pub fn write(&self, chain: &[Descriptor]) -> Result<(), QueueFull> {
        let write = self.pointers.write.load(Ordering::Relaxed);
        // Acquire: the interface's reads of a slot come before it is written anew.
        let read = self.pointers.read.load(Ordering::Acquire);
        let free = self.slots.len() as u64 - write.wrapping_sub(read);
        let wanted = chain.len() as u64;
        if wanted > free {
            return Err(QueueFull { free, wanted });
        }
        for (index, descriptor) in (write..).zip(chain) {
            for (place, word) in self.slot(index).iter().zip(descriptor.0) {
                place.store(word, Ordering::Relaxed);
            }
        }
        // Release: the descriptors are visible before the doorbell.
        self.pointers.write.store(write.wrapping_add(wanted), Ordering::Release);
        Ok(())
    }

    /// Releases `slots` more of them, as an arriving put with that count does (TF-02).
    pub fn release(&self, slots: u64) {
        self.pointers.scheduling.fetch_add(slots, Ordering::AcqRel);
    }

    /// The next command that may run. Interface side; call [`CommandQueue::complete`] after it
    /// has.
    pub fn next(&self) -> Option<Descriptor> {
        let read = self.pointers.read.load(Ordering::Relaxed);
        // Acquire: pairs with the doorbell.
        let write = self.pointers.write.load(Ordering::Acquire);
        if write == read || self.session && self.scheduling() == read {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(self.slot(read)) {
            *word = place.load(Ordering::Relaxed);
        }
        Some(Descriptor(words))
    }

    /// Retires the command that [`CommandQueue::next`] gave. Interface side.
    pub fn complete(&self) {
        let read = self.pointers.read.load(Ordering::Relaxed);
        // Release: the slot was read before the host may reuse it.
        self.pointers.read.store(read.wrapping_add(1), Ordering::Release);
    }

    /// Where the scheduling pointer is.
    pub fn scheduling(&self) -> u64 {
        self.pointers.scheduling.load(Ordering::Acquire)
    }

    fn slot(&self, index: u64) -> &'m [AtomicU64; WORDS] {
        &self.slots[(index & (self.slots.len() as u64 - 1)) as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slots(count: usize) -> Vec<[AtomicU64; WORDS]> {
        (0..count).map(|_| Default::default()).collect()
    }

    fn command(number: u64) -> Descriptor {
        Descriptor([number; WORDS])
    }

    #[test]
    fn cp_06_a_chain_is_visible_whole_after_one_doorbell() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, false);
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        for number in 1..=3 {
            assert_eq!(queue.next(), Some(command(number)));
            queue.complete();
        }
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_chain_that_does_not_fit_writes_nothing() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, false);
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        let refused = queue.write(&[command(4), command(5)]);
        assert_eq!(refused, Err(QueueFull { free: 1, wanted: 2 }));
        queue.write(&[command(4)]).unwrap();
        for number in 1..=4 {
            assert_eq!(queue.next(), Some(command(number)));
            queue.complete();
        }
    }

    #[test]
    fn tf_01_tf_03_a_session_slot_runs_when_written_and_released_in_either_order() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, true);
        queue.release(2);
        assert_eq!(queue.next(), None, "released, not yet written");
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        for number in 1..=2 {
            assert_eq!(queue.next(), Some(command(number)));
            queue.complete();
        }
        assert_eq!(queue.next(), None, "written, not yet released");
        queue.release(1);
        assert_eq!(queue.next(), Some(command(3)));
    }
}
