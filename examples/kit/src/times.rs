//! The use of a solution's time, on every rank, and its display on a page.

use std::time::{Duration, Instant};

use hikyaku::{Error, World};
use hikyaku_report::{Cell, StackedBars, Table, Unit};

use crate::exchange::ExchangeKind;
use crate::program::ROOT;

/// Bars of ranks on a page; more would not be read.
const BARS: usize = 64;

/// The parts of a rank's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePart {
    /// Computing.
    Computing,
    /// Copying outgoing data to the exchange's buffer, and incoming data out of it.
    Copying,
    /// Exchanging edges: calls of the library, and waiting for data in transit.
    Moving,
    /// Waiting for a neighbour that has not started its exchange yet.
    Late,
    /// Agreeing on a number that all ranks need.
    Reduction,
}

/// The names of the parts, in order.
pub const PARTS: [&str; 5] = ["computing", "copying", "moving data", "late neighbour", "allreduce"];

/// The meaning of the parts, for the reader of a page.
pub const PARTS_NOTE: &str = "Each rank books every moment of every step to one part. Copying \
     brings edges to where they are sent from, and what came to where it is used. Moving data is \
     the exchange itself: calls of the library, and waiting for data on its way. Late neighbour is \
     waiting for one that had not begun its exchange: every message says when it was ready to go. \
     With more ranks than cores, both include the time in which other ranks have the core. There \
     are bars for the first 64 ranks.";

/// Seconds for each [`TimePart`], in its order. Plain numbers, so that they can be gathered.
pub type Split = [f64; PARTS.len()];

/// Books every moment of a run to exactly one part.
#[derive(Debug)]
pub struct Stopwatch {
    booked_to: Instant,
    parts: [Duration; PARTS.len()],
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch { booked_to: Instant::now(), parts: [Duration::ZERO; PARTS.len()] }
    }

    /// Books the time since the last booking to `part`.
    pub fn book(&mut self, part: TimePart) {
        let now = Instant::now();
        self.parts[part as usize] += now - self.booked_to;
        self.booked_to = now;
    }

    /// Books the time since the last booking to an exchange, `late` of it to a late neighbour.
    pub fn book_exchange(&mut self, late: Duration) {
        let before = self.parts[TimePart::Moving as usize];
        self.book(TimePart::Moving);
        let late = late.min(self.parts[TimePart::Moving as usize] - before);
        self.parts[TimePart::Moving as usize] -= late;
        self.parts[TimePart::Late as usize] += late;
    }

    /// The booked times so far.
    pub fn split(&self) -> Split {
        self.parts.map(|part| part.as_secs_f64())
    }
}

/// The time of a solution by one exchange.
#[derive(Debug, Clone)]
pub struct Times {
    /// The kind of exchange.
    pub exchange: ExchangeKind,
    /// Steps made.
    pub steps: u64,
    /// The use of each rank's time.
    pub splits: Vec<Split>,
    /// From the first step to the last.
    pub elapsed: Duration,
}

impl Times {
    /// Gathers the use of each rank's time on rank 0; `None` elsewhere.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn gather(
        world: &World,
        exchange: ExchangeKind,
        steps: u64,
        split: &Split,
        elapsed: Duration,
    ) -> Result<Option<Times>, Error> {
        let seconds = world.gather(split, ROOT)?;
        let splits = seconds.map(|seconds| seconds.as_chunks().0.to_vec());
        Ok(splits.map(|splits| Times { exchange, steps, splits, elapsed }))
    }

    /// Seconds a step.
    pub fn per_step(&self) -> f64 {
        self.elapsed.as_secs_f64() / self.steps.max(1) as f64
    }

    /// A bar for each rank.
    pub fn bars(&self) -> StackedBars {
        let title = format!("Where each rank's time went, {}", self.exchange.name());
        let bars = StackedBars::new(title, "time", Unit::Seconds, PARTS);
        let ranks = self.splits.iter().enumerate().take(BARS);
        ranks.fold(bars, |bars, (rank, split)| bars.with(format!("rank {rank}"), split.to_vec()))
    }

    /// Compares exchanges in a table. `step` is the word for a step, such as "iteration".
    pub fn side_by_side<'a>(step: &str, times: impl Iterator<Item = &'a Times>) -> Table {
        let columns =
            ["exchange".into(), "run time".into(), format!("{step}s"), format!("one {step}")];
        let title = format!("Exchanges side by side: parts of one {step}, mean over ranks");
        let mut table = Table::new(title, columns.into_iter().chain(PARTS.map(Into::into)));
        for times in times {
            let all = (times.splits.len() as f64 * times.steps as f64).max(1.0);
            let mean = |part| times.splits.iter().map(|split| split[part]).sum::<f64>() / all;
            let numbers = [
                Cell::from(times.exchange.name()),
                Cell::number(times.elapsed.as_secs_f64(), Unit::Seconds),
                Cell::number(times.steps as f64, Unit::Number),
                Cell::number(times.per_step(), Unit::Seconds),
            ];
            let parts = (0..PARTS.len()).map(|part| Cell::number(mean(part), Unit::Seconds));
            table.push(numbers.into_iter().chain(parts));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_booked_and_nobody_is_later_than_the_exchange_took() {
        let mut watch = Stopwatch::start();
        let began = watch.booked_to;
        for part in
            [TimePart::Computing, TimePart::Copying, TimePart::Reduction, TimePart::Computing]
        {
            watch.book(part);
        }
        watch.book_exchange(Duration::from_nanos(1));
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.booked_to - began);
        let moving = watch.parts[TimePart::Moving as usize];
        watch.book_exchange(Duration::MAX);
        assert_eq!(watch.parts[TimePart::Moving as usize], moving);
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.booked_to - began);
    }
}
