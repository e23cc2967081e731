//! Where a rank's time goes: every moment of the run is booked to exactly one part.

use std::time::{Duration, Instant};

/// What a rank can be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Computing cells and packing columns.
    Computing,
    /// Starting and completing the halo exchange: what the overlap does not hide.
    Exchange,
    /// Agreeing on the largest change.
    Reduction,
}

/// Seconds for each [`Part`], in its order. Plain numbers, so that they can be gathered.
pub type Split = [f64; 3];

/// Books the time since its last booking to a part.
#[derive(Debug)]
pub struct Stopwatch {
    step_began: Instant,
    booked_to: Instant,
    parts: [Duration; 3],
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        let now = Instant::now();
        Stopwatch { step_began: now, booked_to: now, parts: [Duration::ZERO; 3] }
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
        for part in [Part::Computing, Part::Exchange, Part::Reduction, Part::Computing] {
            watch.book(part);
        }
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.step());
        let before = watch.parts;
        watch.begin_step();
        assert_eq!((watch.parts, watch.step()), (before, Duration::ZERO));
    }
}
