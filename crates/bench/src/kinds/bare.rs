//! The limit of the bare hardware for a figure: the least cost of any messages there.
//!
//! Most figures are sums of three parts, each of which a probe of [`hardware`] measures: a cache
//! line from one core to the other, a copy of data that the other core has just written (or, for
//! warm data, has copied as well), and a switch between threads of one core. So the least cost of a
//! collective follows by counting.

use crate::control::DataReuse;
use crate::hardware::{self, Cores, ProbeClock};

/// The limit of the bare hardware for a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bare {
    /// A sum of parts, as a time.
    Parts(PartCounts),
    /// The same as processor time of the rank that waits for the lines and does the copies.
    Work(PartCounts),
    /// One copy of the data, as a rate.
    CopyRate,
    /// A stream of cache lines in windows.
    Stream,
    /// Two threads that copy the message to one place alternately, spinning in between.
    Turns,
}

/// The numbers of parts, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PartCounts {
    /// Cache lines one way.
    pub(crate) lines: u32,
    /// Copies of the message, a part of which another core has; a fraction if ranks share a copy.
    pub(crate) copies: f64,
    /// Switches of a core, on which each thread must run once; a fraction if cores switch in
    /// parallel.
    pub(crate) switches: f64,
}

/// The largest message that counts as one cache line and as no copy.
const LINE_BYTES: u64 = 64;

impl PartCounts {
    /// A signal that all `ranks` wait for on `cores` cores: rounds of cache lines, each of which
    /// doubles the ranks that know it, or with more ranks than cores, a run of each rank of a core.
    pub(crate) fn signal(ranks: u32, cores: u32) -> PartCounts {
        match ranks <= cores {
            true => PartCounts {
                lines: ranks.next_power_of_two().ilog2().max(1),
                ..PartCounts::default()
            },
            false => PartCounts { switches: sharing(ranks, cores), ..PartCounts::default() },
        }
    }

    /// A signal that one other rank waits for: a cache line, or with more ranks than cores a run of
    /// that rank, while the other cores can switch to the next ones.
    pub(crate) fn hop(ranks: u32, cores: u32) -> PartCounts {
        match ranks <= cores {
            true => PartCounts { lines: 1, ..PartCounts::default() },
            false => {
                PartCounts { switches: 1.0 / f64::from(cores.max(1)), ..PartCounts::default() }
            }
        }
    }

    /// These parts, and `copies` of a message of `bytes` by each rank, the ranks of a core in turn.
    /// A message that fits into a line travels with the signal.
    pub(crate) fn with_copies(self, copies: f64, bytes: u64, ranks: u32, cores: u32) -> PartCounts {
        let carried = bytes <= LINE_BYTES;
        let copies = if carried { 0.0 } else { copies * sharing(ranks, cores) };
        PartCounts { copies, ..self }
    }
}

/// How many ranks share a core.
fn sharing(ranks: u32, cores: u32) -> f64 {
    f64::from(ranks.div_ceil(cores.max(1)))
}

impl Bare {
    /// One cache line one way.
    pub(crate) const LINE: Bare = Bare::Parts(PartCounts { lines: 1, copies: 0.0, switches: 0.0 });

    /// The time or rate for messages of `bytes` in windows of `window`: nanoseconds, GB/s, or
    /// millions of messages per second; `line` is the cache-line transfer measured at this moment,
    /// in nanoseconds.
    pub(crate) fn measure(
        self,
        cores: Cores,
        line: f64,
        bytes: u64,
        window: u32,
        data: DataReuse,
    ) -> f64 {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self {
            Bare::CopyRate => bytes as f64 / hardware::copy(cores, bytes, ProbeClock::Wall, data),
            Bare::Stream => 1e3 / hardware::stream(cores, window),
            Bare::Turns => hardware::turns(cores, bytes),
            Bare::Parts(parts) | Bare::Work(parts) => {
                let PartCounts { lines, copies, switches } = parts;
                let work = matches!(self, Bare::Work(_));
                let clock = if work { ProbeClock::Processor } else { ProbeClock::Wall };
                let copy =
                    if copies > 0.0 { hardware::copy(cores, bytes, clock, data) } else { 0.0 };
                let switch = if switches > 0.0 { hardware::switch(cores.first) } else { 0.0 };
                f64::from(lines) * line + copies * copy + switches * switch
            }
        }
    }

    /// A description with this form of data, for the line under a table.
    pub(crate) fn description(self, data: DataReuse) -> String {
        let PartCounts { lines, copies, switches } = match self {
            Bare::CopyRate => {
                return match data {
                    DataReuse::Fresh => "one copy of data the other core has just written".into(),
                    DataReuse::Warm => "one copy of data that nobody writes in between".into(),
                };
            }
            Bare::Stream => return "a stream of cache lines in windows of 64".into(),
            Bare::Turns => {
                return "two threads that spin for their turn and copy as many bytes to one place"
                    .into();
            }
            Bare::Parts(parts) => parts,
            Bare::Work(parts) => {
                let parts = Bare::Parts(parts).description(data);
                return format!("the processor time of {parts}");
            }
        };
        let mut parts = Vec::new();
        match lines {
            0 => {}
            1 => parts.push("a cache line one way".to_owned()),
            _ => parts.push(format!("{lines} cache lines one after the other")),
        }
        let counted = |count: f64, one: &str, several: &str| {
            let digits = if count.fract() == 0.0 { 0 } else { 2 };
            format!("{count:.digits$} {}", if count == 1.0 { one } else { several })
        };
        if switches > 0.0 {
            parts.push(counted(switches, "switch of threads", "switches of threads"));
        }
        if copies > 0.0 {
            let data = data.name();
            let (one, several) = (format!("copy of {data} data"), format!("copies of {data} data"));
            parts.push(counted(copies, &one, &several));
        }
        parts.join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_rounds_on_cores_of_their_own_and_switches_otherwise() {
        let parts = |lines, switches| PartCounts { lines, copies: 0.0, switches };
        assert_eq!(PartCounts::signal(1, 2), parts(1, 0.0));
        assert_eq!(PartCounts::signal(2, 2), parts(1, 0.0));
        assert_eq!(PartCounts::signal(5, 8), parts(3, 0.0));
        assert_eq!(PartCounts::signal(8, 2), parts(0, 4.0));
        assert_eq!(PartCounts::signal(3, 2), parts(0, 2.0));
        assert_eq!((PartCounts::hop(8, 8), PartCounts::hop(8, 2)), (parts(1, 0.0), parts(0, 0.5)));
    }

    #[test]
    fn copies_are_counted_by_core_and_only_beyond_a_line() {
        let signal = PartCounts::signal(4, 2);
        assert_eq!(signal.with_copies(3.0, 64, 4, 2), signal);
        assert_eq!(signal.with_copies(3.0, 65, 4, 2).copies, 6.0);
    }

    #[test]
    fn the_parts_add_up() {
        let cores = Cores { first: 0, second: 0 };
        assert_eq!(Bare::LINE.measure(cores, 55.0, 8, 1, DataReuse::Fresh), 55.0);
        let rounds = Bare::Parts(PartCounts { lines: 3, ..PartCounts::default() });
        assert_eq!(rounds.measure(cores, 50.0, 0, 1, DataReuse::Fresh), 150.0);
        let all = Bare::Parts(PartCounts { lines: 1, copies: 2.0, switches: 1.0 });
        assert!(all.measure(cores, 50.0, 1 << 16, 1, DataReuse::Fresh) > 50.0);
        assert!(all.measure(cores, 50.0, 1 << 16, 1, DataReuse::Warm) > 50.0);
    }

    #[test]
    fn each_is_described_in_words() {
        let parts = |lines, copies, switches| Bare::Parts(PartCounts { lines, copies, switches });
        let cases = [
            (Bare::LINE, "a cache line one way"),
            (parts(3, 0.0, 0.0), "3 cache lines one after the other"),
            (parts(0, 0.0, 0.5), "0.50 switches of threads"),
            (parts(0, 0.0, 1.0), "1 switch of threads"),
            (parts(0, 6.0, 4.0), "4 switches of threads and 6 copies of fresh data"),
            (parts(1, 1.0, 0.0), "a cache line one way and 1 copy of fresh data"),
            (parts(1, 1.5, 0.0), "a cache line one way and 1.50 copies of fresh data"),
        ];
        for (bare, words) in cases {
            assert_eq!(bare.description(DataReuse::Fresh), words);
            let warm = words.replace("fresh", "warm");
            assert_eq!(bare.description(DataReuse::Warm), warm);
        }
        let work = Bare::Work(PartCounts { lines: 0, copies: 2.0, switches: 0.0 });
        let words = "the processor time of 2 copies of fresh data";
        assert_eq!(work.description(DataReuse::Fresh), words);
        let cores = Cores { first: 0, second: 0 };
        assert!(work.measure(cores, 50.0, 1 << 16, 1, DataReuse::Fresh) > 0.0);
    }
}
