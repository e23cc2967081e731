//! Event queues side by side: the engine's, a binary heap, a calendar queue.
//!
//! `cargo bench -p hikyaku-sim --bench queues`. The benchmark is the hold model: a queue of a fixed
//! number of events; pop the earliest, push one a random span later. Each queue gets the same
//! spans, and the sum over the popped events must be equal too. It prints nanoseconds per event,
//! the median of five alternating runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use hikyaku_nic::time::Time;
use hikyaku_sim::engine::{EventQueue, Random};

/// The interface of all compared queues.
trait Queue {
    fn push(&mut self, time: u64, event: u64);
    fn pop(&mut self) -> (u64, u64);
}

impl Queue for EventQueue<u64> {
    fn push(&mut self, time: u64, event: u64) {
        EventQueue::push(self, Time::from_picoseconds(time), event);
    }

    fn pop(&mut self) -> (u64, u64) {
        let (time, event) = EventQueue::pop(self).expect("the hold model never empties it");
        (time.picoseconds(), event)
    }
}

/// The standard library's heap, with a sequence number for FIFO order among equal times.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    sequence: u64,
}

impl Queue for Heap {
    fn push(&mut self, time: u64, event: u64) {
        self.sequence += 1;
        self.heap.push(Reverse((time, self.sequence, event)));
    }

    fn pop(&mut self) -> (u64, u64) {
        let Reverse((time, _, event)) = self.heap.pop().expect("the hold model never empties it");
        (time, event)
    }
}

/// A calendar queue (Brown 1988): days of equal width, sorted within, resized by powers of two.
struct Calendar {
    days: Vec<Vec<(u64, u64, u64)>>,
    width: u64,
    today: usize,
    end_of_today: u64,
    last: u64,
    len: usize,
    sequence: u64,
}

impl Calendar {
    fn new() -> Calendar {
        let days = vec![Vec::new(); 2];
        Calendar { days, width: 1_000, today: 0, end_of_today: 1_000, last: 0, len: 0, sequence: 0 }
    }

    fn insert(&mut self, entry: (u64, u64, u64)) {
        let day = (entry.0 / self.width) as usize & (self.days.len() - 1);
        let day = &mut self.days[day];
        // Sorted latest first, so that the earliest event is popped from the end.
        let place = day.partition_point(|other| (other.0, other.1) > (entry.0, entry.1));
        day.insert(place, entry);
    }

    fn resize(&mut self, days: usize) {
        let mut all: Vec<_> = self.days.drain(..).flatten().collect();
        all.sort_unstable();
        let sample = all.len().min(64);
        if sample > 2 {
            self.width = ((all[sample - 1].0 - all[0].0) / (sample as u64 - 1) * 3).max(1);
        }
        self.days = vec![Vec::new(); days];
        self.turn_to(self.last);
        all.into_iter().for_each(|entry| self.insert(entry));
    }

    fn turn_to(&mut self, time: u64) {
        self.today = (time / self.width) as usize & (self.days.len() - 1);
        self.end_of_today = (time / self.width + 1) * self.width;
    }

    fn take_from(&mut self, day: usize) -> (u64, u64) {
        let (time, _, event) = self.days[day].pop().expect("the day was seen to have one");
        self.len -= 1;
        self.last = time;
        (time, event)
    }
}

impl Queue for Calendar {
    fn push(&mut self, time: u64, event: u64) {
        self.sequence += 1;
        self.len += 1;
        self.insert((time, self.sequence, event));
        if self.len > 2 * self.days.len() {
            self.resize(2 * self.days.len());
        }
    }

    fn pop(&mut self) -> (u64, u64) {
        for _ in 0..self.days.len() {
            let due = self.days[self.today].last().is_some_and(|first| first.0 < self.end_of_today);
            if due {
                return self.take_from(self.today);
            }
            self.today = (self.today + 1) & (self.days.len() - 1);
            self.end_of_today += self.width;
        }
        // No event is due within a year: search all days for the earliest.
        let days = (0..self.days.len()).filter(|&day| !self.days[day].is_empty());
        let first = days.min_by_key(|&day| self.days[day].last().copied());
        let first = first.expect("the hold model never empties it");
        let found = self.take_from(first);
        self.turn_to(found.0);
        found
    }
}

/// A random span for a kind of traffic, ps.
fn span(kind: usize, random: &mut Random) -> u64 {
    match kind {
        // Uniform up to 2 µs.
        0 => random.below(2_000_000),
        // A few distances, as in modelled clocks.
        1 => [1_000, 5_000, 125_000, 3_500_000][random.below(4) as usize],
        // Mostly near, some far.
        _ if random.below(10) == 0 => random.below(100_000_000),
        _ => random.below(10_000),
    }
}

/// Nanoseconds per event, and the sum over the popped events.
fn hold(queue: &mut dyn Queue, events: u64, kind: usize) -> (f64, u64) {
    const ROUNDS: u64 = 1_000_000;
    let mut random = Random::new(1);
    (0..events).for_each(|event| queue.push(span(kind, &mut random), event));
    let mut sum = 0u64;
    let mut turn = |rounds| {
        for _ in 0..rounds {
            let (time, event) = queue.pop();
            sum = sum.wrapping_mul(31).wrapping_add(time ^ event);
            queue.push(time + span(kind, &mut random), event);
        }
    };
    turn(3 * events);
    let start = Instant::now();
    turn(ROUNDS);
    (start.elapsed().as_nanos() as f64 / ROUNDS as f64, sum)
}

fn main() {
    println!("{:>8} {:>10} {:>8} {:>8} {:>9}", "events", "spans", "radix", "heap", "calendar");
    for events in [10, 1_000, 30_000, 300_000] {
        for (kind, name) in ["uniform", "few", "near, far"].into_iter().enumerate() {
            let mut samples = [Vec::new(), Vec::new(), Vec::new()];
            for _ in 0..5 {
                let found = [
                    hold(&mut EventQueue::new(), events, kind),
                    hold(&mut Heap::default(), events, kind),
                    hold(&mut Calendar::new(), events, kind),
                ];
                assert!(found.iter().all(|one| one.1 == found[0].1), "all in the same order");
                found.iter().zip(&mut samples).for_each(|(one, all)| all.push(one.0));
            }
            let [radix, heap, calendar] = samples.map(|mut all| {
                all.sort_by(f64::total_cmp);
                all[2]
            });
            println!("{events:8} {name:>10} {radix:8.1} {heap:8.1} {calendar:9.1}");
        }
    }
}
