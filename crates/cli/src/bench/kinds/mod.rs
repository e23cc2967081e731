//! What is measured: one file per kind, each with the points it measures (the conductor's side)
//! and the body that the ranks run.
//!
//! A [`Point`] is one figure to be found: a kind, a message size or a rank count, the command that
//! measures it, and what the bare hardware gives for it. The point knows how to turn nanoseconds
//! per repetition into its own unit; nobody else converts.

pub(crate) mod bandwidth;
pub(crate) mod barrier;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod rate;
pub(crate) mod start;

use serde::Serialize;

use super::control::{Command, Verb};
use super::hardware::{self, Cores};
use super::plan::Schedule;

/// A kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Half a round trip.
    Latency,
    /// Small messages per second.
    Rate,
    /// Bytes per second.
    Bandwidth,
    /// One barrier.
    Barrier,
    /// A job from start to end.
    Start,
    /// Resident memory of one rank.
    Memory,
    /// Processor use of blocked ranks.
    Idle,
}

/// The unit of a kind's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Millions of messages per second.
    #[serde(rename = "M/s")]
    MillionsPerSecond,
    /// Gigabytes (10^9) per second.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Mebibytes (2^20).
    #[serde(rename = "MiB")]
    Mebibytes,
    /// Percent of one core.
    #[serde(rename = "%")]
    Percent,
}

impl Kind {
    /// The unit of its figures.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Kind::Latency => Unit::Nanoseconds,
            Kind::Rate => Unit::MillionsPerSecond,
            Kind::Bandwidth => Unit::GigabytesPerSecond,
            Kind::Barrier => Unit::Microseconds,
            Kind::Start => Unit::Milliseconds,
            Kind::Memory => Unit::Mebibytes,
            Kind::Idle => Unit::Percent,
        }
    }

    /// Whether less is better.
    pub(crate) fn lower_is_better(self) -> bool {
        !matches!(self, Kind::Rate | Kind::Bandwidth)
    }

    /// Its word, as on the command line and in the JSON document.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Latency => "latency",
            Kind::Rate => "rate",
            Kind::Bandwidth => "bandwidth",
            Kind::Barrier => "barrier",
            Kind::Start => "start",
            Kind::Memory => "memory",
            Kind::Idle => "idle",
        }
    }

    /// The head of its table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Latency => "Latency, one way",
            Kind::Rate => "Message rate, 8 bytes in windows of 64",
            Kind::Bandwidth => "Bandwidth, windows of messages",
            Kind::Barrier => "Barrier",
            Kind::Start => "Start and stop of a job",
            Kind::Memory => "Resident memory of a rank",
            Kind::Idle => "Processor use of two ranks blocked in a receive",
        }
    }
}

/// What the bare hardware gives for a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bare {
    /// One cache line one way: whatever fits into a line cannot be faster.
    Line,
    /// A cache line for the signal, then one copy of fresh data.
    LineAndCopy,
    /// One copy of fresh data, as a rate.
    CopyRate,
    /// A stream of cache lines in windows.
    Stream,
    /// The rounds of a dissemination barrier, each a cache line.
    LineRounds(u32),
    /// Threads of one core, each of which must run once.
    Switches(u32),
}

impl Bare {
    /// What it is, for the head of a column.
    pub(crate) fn description(self) -> String {
        match self {
            Bare::Line => "one cache line one way".into(),
            Bare::LineAndCopy => "beyond 64 B, one cache line and one copy of fresh data".into(),
            Bare::CopyRate => "one copy of data the other core has just written".into(),
            Bare::Stream => "a stream of cache lines in windows of 64".into(),
            Bare::LineRounds(1) => "one cache line one way".into(),
            Bare::LineRounds(rounds) => format!("{rounds} rounds of one cache line"),
            Bare::Switches(n) => format!("{n} switches between threads of one core"),
        }
    }
}

/// The largest message that counts as one cache line.
const LINE_BYTES: u64 = 64;

/// One figure to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    /// Its kind.
    pub(crate) kind: Kind,
    /// The command that measures it.
    pub(crate) verb: Verb,
    /// Ranks of the job.
    pub(crate) ranks: u32,
    /// Bytes of a message; zero for kinds without.
    pub(crate) bytes: u64,
    /// Messages in a window; one for kinds without.
    pub(crate) window: u32,
    /// Whether it is measured from allocated buffers too.
    pub(crate) allocated: bool,
    /// What the hardware gives.
    pub(crate) bare: Bare,
}

impl Point {
    /// The command for a block of it.
    pub(crate) fn command(&self, schedule: Schedule, allocated: bool) -> Command {
        let Schedule { batches, repetitions } = schedule;
        let (verb, bytes, window) = (self.verb, self.bytes, self.window);
        Command { verb, bytes, allocated, window, batches, repetitions }
    }

    /// The figure of `nanoseconds` per repetition of the command.
    pub(crate) fn value(&self, nanoseconds: f64) -> f64 {
        let window = f64::from(self.window.max(1));
        match self.kind {
            Kind::Latency => nanoseconds / 2.0,
            Kind::Rate => window * 1e3 / nanoseconds,
            Kind::Bandwidth => window * self.bytes as f64 / nanoseconds,
            Kind::Barrier => nanoseconds * 1e-3,
            Kind::Start | Kind::Memory | Kind::Idle => nanoseconds * 1e-6,
        }
    }

    /// Measures what the hardware gives for it, in its unit; `line` is the cache-line transfer
    /// measured at this moment, in nanoseconds.
    pub(crate) fn bare(&self, cores: Cores, line: f64) -> f64 {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        match self.bare {
            Bare::Line => line,
            Bare::LineAndCopy => line + hardware::fresh_copy(cores, bytes),
            Bare::CopyRate => bytes as f64 / hardware::fresh_copy(cores, bytes),
            Bare::Stream => 1e3 / hardware::stream(cores, self.window),
            Bare::LineRounds(rounds) => f64::from(rounds) * line * 1e-3,
            Bare::Switches(count) => f64::from(count) * hardware::switch(cores.first) * 1e-3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kind: Kind, bytes: u64, window: u32) -> Point {
        let (verb, bare) = (Verb::Latency, Bare::Line);
        Point { kind, verb, ranks: 2, bytes, window, allocated: false, bare }
    }

    #[test]
    fn a_repetition_becomes_the_kinds_unit() {
        assert_eq!(point(Kind::Latency, 8, 1).value(200.0), 100.0);
        assert_eq!(point(Kind::Rate, 8, 64).value(6_400.0), 10.0);
        assert_eq!(point(Kind::Bandwidth, 1 << 20, 16).value(1048576.0 * 2.0), 8.0);
        assert_eq!(point(Kind::Barrier, 0, 1).value(430.0), 0.43);
    }

    #[test]
    fn a_line_is_what_the_caller_measured() {
        let cores = Cores { first: 0, second: 0 };
        assert_eq!(point(Kind::Latency, 8, 1).bare(cores, 55.0), 55.0);
        let rounds = Point { bare: Bare::LineRounds(3), ..point(Kind::Barrier, 0, 1) };
        assert!((rounds.bare(cores, 50.0) - 0.15).abs() < 1e-12);
    }
}
