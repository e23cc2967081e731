//! The command queue: descriptors that the host writes and the interface runs, in order.
//!
//! ```text
//!     read ≤ write                          normal mode:  slot i runs iff i < write
//!     read ≤ scheduling                     session mode: slot i runs iff i < write
//!                                                                    and i < scheduling
//! ```
//!
//! This is the TOQ of paper 002. Its three pointers are free-running counters here; the scheduling
//! pointer may lead the write pointer (TF-03). Writing several descriptors and moving the write
//! pointer once is paper 004's TCW chain: one doorbell, one start-up cost (CP-06).
//!
//! One host writes. The interface is the process that has just made a command runnable: the host
//! that moved the write pointer, or the process whose arrival moved the scheduling pointer. Only
//! one may run the queue at a time, and no command may be left behind. So both use one word:
//!
//! ```text
//!   control   | use (6) | closed (1) | again (1) | runner: rank + 1, or 0 (24) | scheduling (32) |
//!
//!   make runnable, then enter                free → taken        : run, then leave
//!                                            held → again is set : the runner polls once more
//!   leave     clears the runner only if the word is as it was before the last poll
//! ```
//!
//! Release, enter and leave are read-modify-writes of one word, so they have one order, and each
//! sees the effects of those before it. Either the leave that follows an enter sees what the enter
//! announced, or the enter found the queue free. No fence and no second word are needed. The word
//! holds the runner's rank, to detect its death, and the low bits of the generation, so that a
//! process that found the queue before it was closed and reopened does not change the new one.
//!
//! All words of a queue are in one line: the last rank of an exchange needs most of them, and each
//! further line is a further transfer between caches.

use thiserror::Error;

use crate::sync::{AtomicU64, Ordering};

/// Words of a descriptor.
pub(crate) const WORDS: usize = 8;

/// An encoded command as stored in memory: a cache line of words. `fabric::queue` encodes and
/// decodes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor(pub [u64; WORDS]);

/// The place of a [`Descriptor`] in memory.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CommandSlot([AtomicU64; WORDS]);

/// The queue has too few free slots for the chain. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the command queue has {free} free slots, the chain needs {wanted}")]
pub struct QueueFull {
    /// The number of free slots.
    pub free: u64,
    /// The number of commands in the chain.
    pub wanted: u64,
}

/// Why no slots were released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReleaseError {
    /// The scheduling pointer would lead so far that the difference would appear negative.
    #[error("the scheduling pointer cannot lead by more than {} slots", MAX_LEAD)]
    TooFarAhead,
    /// The queue has been closed.
    #[error("the queue is closed")]
    Closed,
}

/// Limit of attempts to change a queue's control word. Each failure is another rank's success, so
/// this many consecutive failures mean a process that overwrites the word all the time.
const TRIES: u32 = 1 << 16;

/// Limit of the scheduling pointer's lead over the read pointer: far below half of its range.
pub const MAX_LEAD: u32 = 1 << 24;

/// The words of a queue as stored in memory. All zero is a closed, empty queue.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct QueuePointers {
    /// See the description of the control word at the head of this file.
    control: AtomicU64,
    /// The number of descriptors ever written; the doorbell. Written by the host.
    write: AtomicU64,
    /// The number of descriptors ever run. Written by the runner.
    read: AtomicU64,
    /// The number of notified puts that arrived here; paper 002's MRQ would have a record for each.
    arrivals: AtomicU64,
    /// See [`Setup`]. Written by the host.
    setup: AtomicU64,
    /// Why the queue has stopped, as encoded by `fabric::queue`; 0: it runs.
    fault: AtomicU64,
}

/// The parameters with which a queue was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Whether the scheduling pointer counts (TF-04).
    pub session: bool,
    /// Distinguishes this use of the queue's number from earlier ones: 14 bits.
    pub generation: u16,
    /// The number of slots.
    pub slots: u32,
}

/// Bits of a generation.
pub const GENERATION_MASK: u16 = (1 << 14) - 1;

const OPEN: u64 = 1 << 63;
const SESSION: u64 = 1 << 62;

const AGAIN: u64 = 1 << 56;
const CLOSED: u64 = 1 << 57;
const RUNNER_SHIFT: u32 = 32;
const RUNNER_MASK: u64 = 0xff_ffff << RUNNER_SHIFT;
const USE_SHIFT: u32 = 58;
const USE_MASK: u64 = 0x3f << USE_SHIFT;

/// The low bits of a generation, shifted to their place in the control word.
#[inline]
fn use_bits(generation: u16) -> u64 {
    u64::from(generation) << USE_SHIFT
}

impl QueuePointers {
    /// The parameters with which the queue was opened; `None` if it is closed.
    #[inline]
    pub fn setup(&self) -> Option<Setup> {
        // Acquire: a process that sees the queue open sees its set-up.
        let word = self.setup.load(Ordering::Acquire);
        (word & OPEN != 0).then_some(Setup {
            session: word & SESSION != 0,
            generation: (word >> 32) as u16 & GENERATION_MASK,
            slots: word as u32,
        })
    }

    /// Opens the queue, empty, with its scheduling pointer `offset` slots ahead (paper 002's
    /// session offset). Host side, while the queue is closed.
    pub fn open(&self, setup: Setup, offset: u32) {
        for word in [&self.write, &self.read, &self.arrivals, &self.fault] {
            word.store(0, Ordering::Relaxed);
        }
        let in_use = use_bits(setup.generation);
        self.control.store(in_use | u64::from(offset), Ordering::Relaxed);
        let Setup { session, generation, slots } = setup;
        let mode = if session { SESSION } else { 0 };
        let generation = u64::from(generation & GENERATION_MASK);
        let word = OPEN | mode | generation << 32 | u64::from(slots);
        self.setup.store(word, Ordering::Release);
    }
}

/// A command queue over shared memory. A view: cheap to copy, owns nothing.
#[derive(Debug, Clone, Copy)]
pub struct CommandQueue<'m> {
    pointers: &'m QueuePointers,
    slots: &'m [CommandSlot],
    session: bool,
    /// The generation's bits that the control word must have.
    in_use: u64,
}

impl<'m> CommandQueue<'m> {
    /// A queue over these slots (at least one), in normal or session mode (TF-04).
    #[inline]
    pub fn new(
        pointers: &'m QueuePointers,
        slots: &'m [CommandSlot],
        session: bool,
    ) -> CommandQueue<'m> {
        debug_assert!(!slots.is_empty());
        CommandQueue { pointers, slots, session, in_use: 0 }
    }

    /// The same queue, for this generation only: operations on a later generation do nothing.
    #[inline]
    #[must_use]
    pub fn of_generation(self, generation: u16) -> CommandQueue<'m> {
        CommandQueue { in_use: use_bits(generation), ..self }
    }

    /// Whether a control word is that of a closed queue, or of another generation.
    #[inline]
    fn is_over(&self, control: u64) -> bool {
        control & (CLOSED | USE_MASK) != self.in_use
    }

    /// Writes a chain of descriptors and rings the doorbell once. Host side; then
    /// [`CommandQueue::enter`].
    ///
    /// # Errors
    /// [`QueueFull`] if not all of them fit; none was written.
    pub fn write(&self, chain: &[Descriptor]) -> Result<(), QueueFull> {
        self.write_each(chain.iter().copied())
    }

    /// [`CommandQueue::write`] for a chain that is generated while it is written.
    ///
    /// # Errors
    /// As [`CommandQueue::write`].
    #[inline]
    pub fn write_each(
        &self,
        chain: impl ExactSizeIterator<Item = Descriptor>,
    ) -> Result<(), QueueFull> {
        let (write, wanted) = self.room_for(chain.len() as u64)?;
        for (index, descriptor) in (write..).zip(chain) {
            for (place, word) in self.slot(index).0.iter().zip(descriptor.0) {
                place.store(word, Ordering::Relaxed);
            }
        }
        // Release: the descriptors are visible before the doorbell.
        self.pointers.write.store(write.wrapping_add(wanted), Ordering::Release);
        Ok(())
    }

    /// Rings the doorbell for the next `count` slots without writing them: runs the commands of the
    /// previous lap again, without moving a slot's line between caches.
    ///
    /// # Errors
    /// [`QueueFull`], as for [`CommandQueue::write`].
    #[inline]
    pub fn repeat(&self, count: u64) -> Result<(), QueueFull> {
        let (write, wanted) = self.room_for(count)?;
        self.pointers.write.store(write.wrapping_add(wanted), Ordering::Release);
        Ok(())
    }

    /// The write pointer and `wanted`, if that many slots are free.
    #[inline]
    fn room_for(&self, wanted: u64) -> Result<(u64, u64), QueueFull> {
        let write = self.pointers.write.load(Ordering::Relaxed);
        // Acquire: the interface's reads of a slot come before the slot is overwritten.
        let read = self.pointers.read.load(Ordering::Acquire);
        let free = (self.slots.len() as u64).saturating_sub(write.wrapping_sub(read));
        if wanted > free { Err(QueueFull { free, wanted }) } else { Ok((write, wanted)) }
    }

    /// Releases `slots` more slots, as an arriving put with that count does (TF-02). Then
    /// [`CommandQueue::enter`].
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing was released.
    #[inline]
    pub fn release(&self, slots: u32) -> Result<(), ReleaseError> {
        let control = &self.pointers.control;
        let mut seen = control.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if self.is_over(seen) {
                break;
            }
            let ahead = self.lead(seen).max(0) as u32;
            if slots > MAX_LEAD || ahead + slots > MAX_LEAD {
                return Err(ReleaseError::TooFarAhead);
            }
            let next = seen & !0xffff_ffff | u64::from((seen as u32).wrapping_add(slots));
            // Release: the runner of the released slots sees the data of the arrival.
            match control.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => seen = other,
            }
        }
        Err(ReleaseError::Closed)
    }

    /// Takes the queue to run it, as `runner`. If another rank runs it, asks that rank to poll once
    /// more. Returns whether the queue was taken.
    #[inline]
    pub fn enter(&self, runner: u32) -> bool {
        let control = &self.pointers.control;
        let mut seen = control.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if self.is_over(seen) {
                return false;
            }
            let free = seen & RUNNER_MASK == 0;
            let next = if free { seen | runner_bits(runner) } else { seen | AGAIN };
            // Even if `again` is already set: the runner must see our earlier stores.
            match control.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return free,
                Err(other) => seen = other,
            }
        }
        false
    }

    /// Takes the queue if it is free and has a runnable command. For ranks that help without having
    /// made anything runnable.
    #[inline]
    pub fn enter_to_help(&self, runner: u32) -> bool {
        let control = &self.pointers.control;
        let seen = control.load(Ordering::Acquire);
        if seen & RUNNER_MASK != 0 || self.is_over(seen) || !self.is_runnable(seen) {
            return false;
        }
        let next = seen | runner_bits(runner);
        control.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Leaves the queue if nothing is runnable; otherwise keeps it: poll again. Runner only.
    #[inline]
    pub fn leave(&self) -> bool {
        let control = &self.pointers.control;
        let seen = control.load(Ordering::Acquire);
        if seen & AGAIN != 0 {
            // Cleared before the poll, so that a later `again` is seen.
            control.fetch_and(!AGAIN, Ordering::AcqRel);
            return false;
        }
        if self.is_runnable(seen) {
            return false;
        }
        let next = seen & !RUNNER_MASK;
        control.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Closes the queue if no rank runs it and, in session mode, its scheduling pointer is ahead by
    /// exactly `lead`: then no release is outstanding and no rank finds the queue. A release either
    /// comes before and counts, or fails. Host side. Returns whether it was closed.
    pub fn close(&self, lead: Option<i32>) -> bool {
        let control = &self.pointers.control;
        let seen = control.load(Ordering::Acquire);
        let expected = lead.is_none_or(|lead| !self.session || self.lead(seen) == lead);
        if seen & RUNNER_MASK != 0 || !expected {
            return false;
        }
        let next = seen | CLOSED;
        let closed = control.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed);
        if closed.is_ok() {
            self.pointers.setup.store(0, Ordering::Release);
        }
        closed.is_ok()
    }

    /// Leaves the queue even if a command is runnable: the runner enters again later. Runner only.
    pub fn put_off(&self) {
        self.pointers.control.fetch_and(!(RUNNER_MASK | AGAIN), Ordering::AcqRel);
    }

    /// The rank that runs the queue, if any.
    #[inline]
    pub fn runner(&self) -> Option<u32> {
        let control = self.pointers.control.load(Ordering::Acquire);
        (((control & RUNNER_MASK) >> RUNNER_SHIFT) as u32).checked_sub(1)
    }

    /// The next runnable command. Runner only; call [`CommandQueue::complete`] after it.
    #[inline]
    pub fn next(&self) -> Option<Descriptor> {
        if !self.is_runnable(self.pointers.control.load(Ordering::Acquire)) {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(&self.slot(self.executed()).0) {
            *word = place.load(Ordering::Relaxed);
        }
        Some(Descriptor(words))
    }

    /// Retires the command that [`CommandQueue::next`] returned. Runner only.
    #[inline]
    pub fn complete(&self) {
        let read = self.pointers.read.load(Ordering::Relaxed);
        // Release: the slot was read before the host may reuse it, and the command's effects are
        // visible once it counts as run.
        self.pointers.read.store(read.wrapping_add(1), Ordering::Release);
    }

    /// Counts the arrival of a notified put, after its payload.
    #[inline]
    pub fn notify(&self) {
        self.pointers.arrivals.fetch_add(1, Ordering::Release);
    }

    /// The number of notified puts that have arrived.
    #[inline]
    pub fn arrivals(&self) -> u64 {
        self.pointers.arrivals.load(Ordering::Acquire)
    }

    /// Stops the queue for good, unless it has stopped for another reason. `fault` is not zero.
    pub fn fail(&self, fault: u64) {
        let word = &self.pointers.fault;
        let _ = word.compare_exchange(0, fault, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Why the queue has stopped; 0 if it has not.
    #[inline]
    pub fn fault(&self) -> u64 {
        self.pointers.fault.load(Ordering::Acquire)
    }

    /// The number of commands ever written: the write pointer.
    #[inline]
    pub fn written(&self) -> u64 {
        self.pointers.write.load(Ordering::Acquire)
    }

    /// The number of commands ever run: the read pointer.
    #[inline]
    pub fn executed(&self) -> u64 {
        self.pointers.read.load(Ordering::Acquire)
    }

    /// How far the scheduling pointer is ahead of the read pointer; negative in normal mode.
    #[inline]
    pub fn ahead(&self) -> i32 {
        self.ahead_of(self.executed())
    }

    /// How far the scheduling pointer is ahead of `executed`, an earlier value of the read pointer.
    /// Together they give the scheduling pointer at one moment, however far others have moved it
    /// since.
    #[inline]
    pub fn ahead_of(&self, executed: u64) -> i32 {
        let control = self.pointers.control.load(Ordering::Acquire);
        (control as u32).wrapping_sub(executed as u32).cast_signed()
    }

    #[inline]
    fn lead(&self, control: u64) -> i32 {
        (control as u32).wrapping_sub(self.executed() as u32).cast_signed()
    }

    /// Whether the command at the read pointer is runnable. A write pointer that is further than
    /// the queue's length from the read pointer is invalid: then nothing is runnable.
    #[inline]
    fn is_runnable(&self, control: u64) -> bool {
        // Acquire: pairs with the doorbell.
        let pending = self.written().wrapping_sub(self.executed());
        pending != 0
            && pending <= self.slots.len() as u64
            && (!self.session || self.lead(control) > 0)
            && self.fault() == 0
    }

    #[inline]
    fn slot(&self, index: u64) -> &'m CommandSlot {
        &self.slots[(index % self.slots.len() as u64) as usize]
    }
}

#[inline]
fn runner_bits(runner: u32) -> u64 {
    (u64::from(runner) + 1) << RUNNER_SHIFT & RUNNER_MASK
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slots(count: usize) -> Vec<CommandSlot> {
        (0..count).map(|_| Default::default()).collect()
    }

    fn command(number: u64) -> Descriptor {
        Descriptor([number; WORDS])
    }

    /// Runs all runnable commands, as rank 0.
    fn run(queue: &CommandQueue<'_>) -> Vec<u64> {
        assert!(queue.enter(0));
        let mut done = Vec::new();
        while !queue.leave() {
            while let Some(command) = queue.next() {
                done.push(command.0[0]);
                queue.complete();
            }
        }
        done
    }

    #[test]
    fn cp_06_one_doorbell_publishes_a_chain() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, false);
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        assert_eq!(run(&queue), [1, 2, 3]);
        assert_eq!(run(&queue), []);
    }

    #[test]
    fn a_chain_that_does_not_fit_writes_nothing() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, false);
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        let refused = queue.write(&[command(4), command(5)]);
        assert_eq!(refused, Err(QueueFull { free: 1, wanted: 2 }));
        queue.write(&[command(4)]).unwrap();
        assert_eq!(run(&queue), [1, 2, 3, 4]);
    }

    #[test]
    fn slots_can_run_again_unchanged() {
        let (pointers, slots) = (QueuePointers::default(), slots(3));
        let queue = CommandQueue::new(&pointers, &slots, false);
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        assert_eq!(queue.repeat(1), Err(QueueFull { free: 0, wanted: 1 }));
        assert_eq!(run(&queue), [1, 2, 3]);
        queue.repeat(2).unwrap();
        assert_eq!(run(&queue), [1, 2]);
        queue.repeat(3).unwrap();
        assert_eq!(run(&queue), [3, 1, 2]);
    }

    #[test]
    fn tf_01_tf_03_a_session_slot_needs_write_and_release() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, true);
        queue.release(2).unwrap();
        assert_eq!(run(&queue), [], "released, not yet written");
        assert_eq!(queue.ahead(), 2);
        queue.write(&[command(1), command(2), command(3)]).unwrap();
        assert_eq!(run(&queue), [1, 2], "the third is written and not yet released");
        queue.release(1).unwrap();
        assert_eq!(run(&queue), [3]);
    }

    #[test]
    fn tf_02_the_scheduling_pointer_wraps_within_its_lead() {
        let (pointers, slots) = (QueuePointers::default(), slots(2));
        let setup = Setup { session: true, generation: 7, slots: 2 };
        pointers.open(setup, u32::MAX - 1);
        assert_eq!(pointers.setup(), Some(setup));
        let queue = CommandQueue::new(&pointers, &slots, true).of_generation(7);
        pointers.read.store(u64::from(u32::MAX - 1), Ordering::Relaxed);
        pointers.write.store(u64::from(u32::MAX - 1), Ordering::Relaxed);
        queue.write(&[command(1), command(2)]).unwrap();
        assert_eq!(run(&queue), []);
        queue.release(5).unwrap();
        assert_eq!(run(&queue), [1, 2]);
        assert_eq!(queue.ahead(), 3);
        assert_eq!(queue.release(MAX_LEAD - 2), Err(ReleaseError::TooFarAhead));
        assert_eq!(queue.release(u32::MAX), Err(ReleaseError::TooFarAhead));
        queue.release(MAX_LEAD - 3).unwrap();
        queue.release(0).unwrap();
        assert_eq!(queue.ahead(), MAX_LEAD as i32);
        assert!(!queue.close(Some(3)), "it is further ahead");
        assert!(queue.enter(1));
        assert!(!queue.close(None), "somebody runs it");
        assert!(queue.leave());
        assert!(queue.close(Some(MAX_LEAD as i32)));
        assert_eq!(pointers.setup(), None);
        assert_eq!(queue.release(1), Err(ReleaseError::Closed));
        assert!(!queue.enter(1));
    }

    #[test]
    fn one_runner_polls_again_when_asked() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, true);
        assert!(queue.enter(5));
        assert_eq!(queue.runner(), Some(5));
        queue.write(&[command(1)]).unwrap();
        assert!(!queue.enter(6), "taken");
        assert!(!queue.leave(), "asked to look");
        assert_eq!(queue.next(), None, "not released");
        queue.release(1).unwrap();
        assert!(!queue.leave(), "something may run");
        assert_eq!(queue.next(), Some(command(1)));
        queue.complete();
        assert!(queue.leave());
        assert_eq!(queue.runner(), None);
        assert!(!queue.enter_to_help(6), "nothing to do");
        queue.release(1).unwrap();
        queue.write(&[command(2)]).unwrap();
        assert!(queue.enter_to_help(6));
        assert!(!queue.enter_to_help(7));
        queue.put_off();
        assert!(queue.enter(7));
    }

    #[test]
    fn a_stale_view_leaves_the_next_generation_alone() {
        let (pointers, slots) = (QueuePointers::default(), slots(2));
        let open = |generation| {
            pointers.open(Setup { session: true, generation, slots: 2 }, 1);
            CommandQueue::new(&pointers, &slots, true).of_generation(generation)
        };
        let old = open(GENERATION_MASK);
        assert!(old.close(Some(1)));
        let new = open(0);
        new.write(&[command(1)]).unwrap();
        assert!(!old.enter(3) && !old.enter_to_help(3));
        assert_eq!(old.release(1), Err(ReleaseError::Closed));
        assert_eq!((new.ahead(), new.runner()), (1, None));
        assert_eq!(run(&new), [1]);
    }

    #[test]
    fn a_failed_queue_keeps_its_first_reason() {
        let (pointers, slots) = (QueuePointers::default(), slots(4));
        let queue = CommandQueue::new(&pointers, &slots, false);
        queue.write(&[command(1), command(2)]).unwrap();
        queue.fail(9);
        queue.fail(10);
        assert_eq!(run(&queue), []);
        assert_eq!((queue.fault(), queue.executed(), queue.written()), (9, 0, 2));
    }
}
