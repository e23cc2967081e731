//! The event queue: the earliest event first, and among equal times the one scheduled first.
//!
//! Virtual time never runs backwards, so no event is scheduled before the last popped one. That
//! makes a *radix heap* possible (Ahuja, Mehlhorn, Orlin, Tarjan 1990), laid out like a
//! hierarchical timing wheel. The level of an event is the highest 6-bit digit in which its time
//! differs from the last popped time. Its slot is the value of that digit.
//!
//! ```text
//!   level 2  [ .  .  #  .  # ... ]   slots of 4096 ps each
//!   level 1  [ .  .  .  #  . ... ]   slots of   64 ps
//!   level 0  [ .  #  .  .  . ... ]   slots of    1 ps: all events of a slot are due together
//!               ^ pop takes from here; when the level is empty, the first slot of the next
//!                 level that has one is spread over the levels below
//! ```
//!
//! Two events of one time always lie in one slot and are always moved together, in order. So FIFO
//! order among equal times needs no sequence number, and an event has 16 bytes.
//!
//! Why this queue: the hold model (pop one, push one) in ns per event, with 1,000 / 30,000 /
//! 300,000 events in the queue and the same random steps for each: this queue 28 / 37 / 42, binary
//! heap 43 / 81 / 358, calendar queue (Brown 1988) 30 / 70 / 208. If many events share a few
//! distances, as in modelled clocks, 30 / 25 / 48 against the heap's 57 / 103 / 305, and the
//! calendar queue slows down to microseconds. `cargo bench -p hikyaku-sim --bench queues` measures
//! again.

use hikyaku_nic::time::Time;

/// Bits of a digit: 64 slots per level, so one word says which are occupied.
const DIGIT_BITS: u32 = 6;
/// Slots per level.
const SLOTS: usize = 1 << DIGIT_BITS;
/// Levels: enough digits for 64 bits.
const LEVELS: usize = 64usize.div_ceil(DIGIT_BITS as usize);

/// Events by time, FIFO among equal times.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// The last popped time, ps. Levels and slots are relative to it.
    base: u64,
    levels: Vec<WheelLevel<E>>,
    /// Bit `l`: level `l` has an occupied slot.
    occupied: u32,
    /// The number of already popped events in the first slot of level 0.
    front: usize,
    len: usize,
    /// Empty vectors with capacity, the last emptied one at the end. A slot takes a vector for its
    /// first event and returns it with its last. So the memory is that of the maximum number of
    /// events at one time, and stays in the cache. When each slot kept its own vector, they took 10
    /// KiB for each of 4,096 ranks.
    spare: Vec<Vec<(u64, E)>>,
}

#[derive(Debug)]
struct WheelLevel<E> {
    /// Bit `s`: slot `s` is not empty.
    occupied: u64,
    slots: Vec<Vec<(u64, E)>>,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero.
    pub fn new() -> EventQueue<E> {
        let level = |_| WheelLevel { occupied: 0, slots: (0..SLOTS).map(|_| Vec::new()).collect() };
        EventQueue {
            base: 0,
            levels: (0..LEVELS).map(level).collect(),
            occupied: 0,
            front: 0,
            len: 0,
            spare: Vec::new(),
        }
    }

    /// The number of events in the queue.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. A time before the last popped time counts as that time.
    pub fn push(&mut self, time: Time, event: E) {
        self.len += 1;
        self.place(time.picoseconds().max(self.base), event);
    }

    /// The earliest event with its time. Among equal times, the event pushed first.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        loop {
            let level = self.occupied.trailing_zeros() as usize;
            if level >= LEVELS {
                return None;
            }
            let slot = self.levels[level].occupied.trailing_zeros() as usize;
            let found = match level {
                0 => Some(self.pop_due(slot)),
                _ => self.spread(level, slot),
            };
            if let Some((time, event)) = found {
                self.len -= 1;
                self.base = time;
                return Some((Time::from_picoseconds(time), event));
            }
        }
    }

    /// The events at the last popped time, in the order of popping, and the number of those already
    /// popped. Only events that are known without a search.
    pub fn due(&self) -> (&[(u64, E)], usize) {
        let due = &self.levels[0].slots[self.base as usize % SLOTS];
        match due.get(self.front) {
            Some(next) if next.0 == self.base => (&due[self.front..], self.front),
            _ => (&[], 0),
        }
    }

    /// Takes the next event of a slot of level 0. All its events are due at the same time.
    fn pop_due(&mut self, slot: usize) -> (u64, E) {
        let due = &mut self.levels[0].slots[slot];
        let event = due[self.front];
        self.front += 1;
        if self.front == due.len() {
            due.clear();
            self.spare.push(std::mem::take(due));
            self.front = 0;
            self.vacate(0, slot);
        }
        event
    }

    /// Moves the events of a slot to the levels below. A lone event is returned directly.
    fn spread(&mut self, level: usize, slot: usize) -> Option<(u64, E)> {
        self.vacate(level, slot);
        let from = &mut self.levels[level].slots[slot];
        let mut events = std::mem::take(from);
        if events.len() == 1 {
            let lone = events.pop();
            self.spare.push(events);
            return lone;
        }
        // Relative to its earliest event, the slot skips every level on which its events agree.
        self.base = events.iter().map(|event| event.0).min().unwrap_or(self.base);
        for &(time, event) in &events {
            self.place(time, event);
        }
        events.clear();
        self.spare.push(events);
        None
    }

    fn place(&mut self, time: u64, event: E) {
        let differs = (time ^ self.base) | 1;
        let level = ((u64::BITS - 1 - differs.leading_zeros()) / DIGIT_BITS) as usize;
        let slot = (time >> (level as u32 * DIGIT_BITS)) as usize % SLOTS;
        let events = &mut self.levels[level].slots[slot];
        if events.capacity() == 0 {
            *events = self.spare.pop().unwrap_or_default();
        }
        events.push((time, event));
        self.levels[level].occupied |= 1 << slot;
        self.occupied |= 1 << level;
    }

    fn vacate(&mut self, level: usize, slot: usize) {
        self.levels[level].occupied &= !(1 << slot);
        if self.levels[level].occupied == 0 {
            self.occupied &= !(1 << level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ps(time: u64) -> Time {
        Time::from_picoseconds(time)
    }

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = EventQueue::new();
        for event in 0..10 {
            queue.push(ps(5_000), event);
        }
        queue.push(ps(1), 99);
        assert_eq!(queue.pop(), Some((ps(1), 99)));
        // A second batch for the same time, pushed from a nearer base, queues behind the first
        // batch.
        queue.push(ps(5_000), 10);
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, (0..=10).collect::<Vec<_>>());
        assert!(queue.is_empty());
    }

    #[test]
    fn events_may_be_pushed_for_the_time_being_popped() {
        let mut queue = EventQueue::new();
        queue.push(ps(7), 'a');
        queue.push(ps(7), 'b');
        assert_eq!(queue.pop(), Some((ps(7), 'a')));
        queue.push(ps(7), 'c');
        assert_eq!(queue.pop(), Some((ps(7), 'b')));
        assert_eq!(queue.pop(), Some((ps(7), 'c')));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn past_times_count_as_now() {
        let mut queue = EventQueue::new();
        queue.push(ps(100), 0);
        queue.push(ps(u64::MAX), 1);
        assert_eq!(queue.pop(), Some((ps(100), 0)));
        queue.push(ps(50), 2);
        assert_eq!(queue.pop(), Some((ps(100), 2)));
        assert_eq!(queue.pop(), Some((ps(u64::MAX), 1)));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn due_events_are_known_and_slots_return_memory() {
        let mut queue = EventQueue::new();
        for round in 1..200 {
            // Far apart and uneven, so that every round uses other slots of other levels.
            let time = round * 1_234_567;
            (0..100).for_each(|event| queue.push(ps(time), event));
            assert_eq!(queue.pop(), Some((ps(time), 0)));
            let (due, done) = queue.due();
            assert_eq!((due.len(), done, due[0]), (99, 1, (time, 1)));
            while queue.pop().is_some() {}
            assert_eq!(queue.due().0, []);
        }
        let slots = queue.levels.iter().flat_map(|level| &level.slots);
        let room: usize = slots.chain(&queue.spare).map(Vec::capacity).sum();
        assert!(room < 1_000, "room for {room} events where there were 100 at a time");
    }

    proptest! {
        /// Compares with a stable sort: any mix of pushes (steps of any size) and pops.
        #[test]
        fn agrees_with_a_sorted_list(
            steps in prop::collection::vec((any::<bool>(), 0u32..48, any::<u64>()), 1..400)
        ) {
            let (mut queue, mut oracle) = (EventQueue::new(), Vec::<(u64, usize)>::new());
            let mut now = 0u64;
            for (number, (pop, bits, random)) in steps.into_iter().enumerate() {
                if pop {
                    oracle.sort_by_key(|&(time, _)| time);
                    let expected = (!oracle.is_empty()).then(|| oracle.remove(0));
                    let found = queue.pop().map(|(time, event)| (time.picoseconds(), event));
                    prop_assert_eq!(found, expected);
                    now = found.map_or(now, |(time, _)| time);
                } else {
                    let time = now + (random & ((1 << bits) - 1));
                    queue.push(ps(time), number);
                    oracle.push((time, number));
                }
                prop_assert_eq!(queue.len(), oracle.len());
            }
        }
    }
}
