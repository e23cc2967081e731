//! Where a rank's time goes: every moment of the solution is booked to exactly one part.

use std::time::{Duration, Instant};

/// What a rank can be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Multiplying and adding.
    Computing,
    /// Exchanging entries of the vector: packing, calls, waiting.
    Exchange,
    /// Sums over all ranks.
    Reduction,
}

/// Their names, in order.
pub const NAMES: [&str; 3] = ["computing", "exchange", "allreduce"];

/// Seconds for each [`Part`], in its order.
pub type Split = [f64; 3];

/// Books the time since its last booking to a part.
#[derive(Debug)]
pub struct Stopwatch {
    booked_to: Instant,
    parts: [Duration; 3],
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch { booked_to: Instant::now(), parts: [Duration::ZERO; 3] }
    }

    /// The time since the last booking went to `part`.
    pub fn book(&mut self, part: Part) {
        let now = Instant::now();
        self.parts[part as usize] += now - self.booked_to;
        self.booked_to = now;
    }

    /// What was booked so far.
    pub fn split(&self) -> Split {
        self.parts.map(|part| part.as_secs_f64())
    }
}
