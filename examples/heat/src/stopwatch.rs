//! Where a rank's time goes: every moment of the run is booked to exactly one part.

use std::time::{Duration, Instant};

/// What a rank can be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Computing cells.
    Computing,
    /// Copying edges out of the block and into its frame.
    Copying,
    /// Exchanging edges: calls of the library, and waiting for data that is on its way.
    Moving,
    /// Waiting for a neighbour that has not started its exchange yet.
    Late,
    /// Agreeing on the largest change.
    Reduction,
}

/// How many parts there are.
pub const PARTS: usize = 5;

/// Their names, in order, as they stand under charts.
pub const NAMES: [&str; PARTS] =
    ["computing", "copying", "moving data", "late neighbour", "allreduce"];

/// Seconds for each [`Part`], in its order. Plain numbers, so that they can be gathered.
pub type Split = [f64; PARTS];

/// Books the time since its last booking to a part.
#[derive(Debug)]
pub struct Stopwatch {
    step_began: Instant,
    booked_to: Instant,
    parts: [Duration; PARTS],
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        let now = Instant::now();
        Stopwatch { step_began: now, booked_to: now, parts: [Duration::ZERO; PARTS] }
    }

    /// Begins a step; what came before it since the last booking counts nowhere.
    pub fn begin_step(&mut self) {
        self.step_began = Instant::now();
        self.booked_to = self.step_began;
    }

    /// The time since the last booking went to `part`.
    pub fn book(&mut self, part: Part) {
        let now = Instant::now();
        self.parts[part as usize] += now - self.booked_to;
        self.booked_to = now;
    }

    /// The time since the last booking went to an exchange, `late` of it to a late neighbour.
    pub fn book_exchange(&mut self, late: Duration) {
        let now = Instant::now();
        let all = now - self.booked_to;
        let late = late.min(all);
        self.parts[Part::Late as usize] += late;
        self.parts[Part::Moving as usize] += all - late;
        self.booked_to = now;
    }

    /// How long the step took, as far as it is booked.
    pub fn step(&self) -> Duration {
        self.booked_to - self.step_began
    }

    /// What was booked so far.
    pub fn split(&self) -> Split {
        self.parts.map(|part| part.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_step_add_up_to_the_step() {
        let mut watch = Stopwatch::start();
        watch.begin_step();
        for part in [Part::Computing, Part::Copying, Part::Reduction, Part::Computing] {
            watch.book(part);
        }
        watch.book_exchange(Duration::from_nanos(1));
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.step());
        let before = watch.parts;
        watch.begin_step();
        assert_eq!((watch.parts, watch.step()), (before, Duration::ZERO));
    }

    #[test]
    fn nobody_is_later_than_the_exchange_took() {
        let mut watch = Stopwatch::start();
        watch.begin_step();
        watch.book_exchange(Duration::MAX);
        assert_eq!(watch.parts[Part::Late as usize], watch.step());
        assert_eq!(watch.parts[Part::Moving as usize], Duration::ZERO);
    }
}
