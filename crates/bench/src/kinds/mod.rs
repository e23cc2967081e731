//! The kinds of measurement: one file per kind, each with the points it measures (the conductor's
//! side) and the body that the ranks run.
//!
//! A [`MeasuredPoint`] is one figure to be found: a kind, a message size or a rank count, the
//! command that measures it, and the limit of the bare hardware. Only the point converts
//! nanoseconds per repetition into its own unit.

mod bare;

pub(crate) mod bandwidth;
pub(crate) mod bidirectional;
pub(crate) mod latency;
pub(crate) mod rate;

pub(crate) mod barrier;
pub(crate) mod collectives;

pub(crate) mod dense;
pub(crate) mod exchange;
pub(crate) mod halo;
pub(crate) mod late;

pub(crate) mod nodes;
pub(crate) mod rows;
pub(crate) mod shared;

pub(crate) mod idle;
pub(crate) mod start;

use hikyaku::shared::Protocol;
use serde::Serialize;

pub(crate) use bare::{Bare, PartCounts};

use super::control::{BlockCommand, DataReuse, Verb};
use super::hardware::Cores;
use super::plan::Schedule;

/// A kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FigureKind {
    /// Half a round trip.
    Latency,
    /// Small messages per second.
    Rate,
    /// Bytes per second.
    Bandwidth,
    /// A message each way at the same time.
    Bidirectional,
    /// One barrier.
    Barrier,
    /// One allreduce.
    Allreduce,
    /// One broadcast.
    Broadcast,
    /// One gather.
    Gather,
    /// One scatter.
    Scatter,
    /// One reduction.
    Reduce,
    /// One allgather.
    Allgather,
    /// One allgather with a list of lengths.
    Allgatherv,
    /// One alltoall.
    Alltoall,
    /// One alltoall with lists of lengths.
    Alltoallv,
    /// One reduce_scatter.
    ReduceScatter,
    /// One scan.
    Scan,
    /// One exchange with both neighbours.
    Halo,
    /// The wait of an exchange that both sides have started long ago.
    Wait,
    /// The time an exchange takes from a program that computes meanwhile.
    Calls,
    /// The same in processor time.
    Processor,
    /// The time from the start of a late neighbour to the end of an exchange with it.
    Late,
    /// The wait of a persistent collective that both sides have started long ago.
    DenseWait,
    /// The time that it takes from a program that computes meanwhile.
    DenseCalls,
    /// Acquiring an unlocked shared variable, and releasing it.
    Acquire,
    /// Handing a shared variable over.
    HandOver,
    /// The same with another node.
    Apart,
    /// Handing one over between two nodes.
    Travel,
    /// Acquiring a variable that another node owns.
    Owner,
    /// All rows of an array change hands between two nodes.
    Rows,
    /// A job from start to end.
    Start,
    /// Resident memory of one rank.
    Memory,
    /// Processor use of blocked ranks.
    Idle,
}

/// The unit of a kind's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum FigureUnit {
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

/// The kinds in the order of their declaration, which is the order of output: the word of each on
/// the command line and in the JSON document, the unit of its figures, and the head of its table.
const KINDS: [(FigureKind, &str, FigureUnit, &str); 32] = {
    use FigureKind::*;
    use FigureUnit::{GigabytesPerSecond, Mebibytes, MillionsPerSecond, Percent};
    use FigureUnit::{Microseconds as Us, Milliseconds as Ms, Nanoseconds as Ns};
    [
        (Latency, "latency", Ns, "Latency, one way"),
        (Rate, "rate", MillionsPerSecond, "Message rate, 8 bytes in windows of 64"),
        (Bandwidth, "bandwidth", GigabytesPerSecond, "Bandwidth, windows of messages"),
        (
            Bidirectional,
            "bidirectional",
            Ns,
            "Both directions at once, an exchange of two messages",
        ),
        (Barrier, "barrier", Us, "Barrier"),
        (Allreduce, "allreduce", Us, "Allreduce, a sum of doubles"),
        (Broadcast, "broadcast", Us, "Broadcast, the roots in turn"),
        (Gather, "gather", Us, "Gather, message per rank, the roots in turn"),
        (Scatter, "scatter", Us, "Scatter, message per rank, the roots in turn"),
        (Reduce, "reduce", Us, "Reduce, a sum of doubles, the roots in turn"),
        (Allgather, "allgather", Us, "Allgather, message per rank"),
        (Allgatherv, "allgatherv", Us, "Allgatherv, message per rank, all of one length"),
        (Alltoall, "alltoall", Us, "Alltoall, message per pair of ranks"),
        (Alltoallv, "alltoallv", Us, "Alltoallv, message per pair of ranks, all of one length"),
        (ReduceScatter, "reducescatter", Us, "Reduce_scatter_block, a sum of doubles per rank"),
        (Scan, "scan", Us, "Scan, a sum of doubles, up and down the ranks in turns"),
        (Halo, "halo", Us, "Halo exchange with two neighbours"),
        (Wait, "wait", Ns, "Wait of an exchange, both started 50 µs ago"),
        (Calls, "calls", Us, "Start and wait of an exchange, without the 50 µs between"),
        (Processor, "processor", Us, "Processor time of start and wait of an exchange"),
        (Late, "late", Us, "End of an exchange after the start of a neighbour 100 µs late"),
        (DenseWait, "densewait", Us, "Wait of a persistent collective, both started long ago"),
        (
            DenseCalls,
            "densecalls",
            Us,
            "Start and wait of a persistent collective, without the 50 µs between",
        ),
        (Acquire, "acquire", Ns, "Shared variable: acquired and let go, free"),
        (HandOver, "handover", Ns, "Two ranks that write an array in turns, every byte each time"),
        (Apart, "apart", Ns, "Shared variable, two nodes: acquired and let go, free"),
        (Travel, "travel", Us, "Two ranks on two nodes that write an array in turns, every byte"),
        (
            Owner,
            "owner",
            Us,
            "Acquiring what a rank on another node owns, writing every byte of it",
        ),
        (
            Rows,
            "rows",
            Ms,
            "Rows of an array change hands: the program of paper 001's Fig. 8, a round",
        ),
        (Start, "start", Ms, "Start and stop of a job"),
        (Memory, "memory", Mebibytes, "Resident memory of a rank"),
        (Idle, "idle", Percent, "Processor use of two ranks blocked in a receive"),
    ]
};

impl FigureKind {
    /// All kinds, in the order of output.
    pub(crate) fn all() -> impl Iterator<Item = FigureKind> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }

    /// The unit of its figures.
    pub(crate) fn unit(self) -> FigureUnit {
        KINDS[self as usize].2
    }

    /// Its word, as on the command line and in the JSON document.
    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// The head of its table.
    pub(crate) fn title(self) -> &'static str {
        KINDS[self as usize].3
    }

    /// Whether less is better.
    pub(crate) fn lower_is_better(self) -> bool {
        !matches!(self, FigureKind::Rate | FigureKind::Bandwidth)
    }

    /// Whether its messages have fresh or warm data.
    pub(crate) fn has_data(self) -> bool {
        use FigureKind::{Allgather, Allreduce, Alltoall, Broadcast, Gather, Reduce, Scatter};
        use FigureKind::{Allgatherv, Alltoallv, ReduceScatter, Scan};
        use FigureKind::{Bandwidth, Bidirectional, Halo, Latency, Rate};
        matches!(self, Latency | Rate | Bandwidth | Bidirectional | Halo)
            || matches!(self, Allreduce | Broadcast | Allgather | Alltoall)
            || matches!(self, Gather | Scatter | Reduce)
            || matches!(self, Allgatherv | Alltoallv | ReduceScatter | Scan)
    }

    /// Whether it compares protocols of this library with each other.
    pub(crate) fn compares_protocols(self) -> bool {
        matches!(self, FigureKind::Travel | FigureKind::Owner | FigureKind::Rows)
    }
}

impl FigureKind {
    /// A description of its table, where titles and column heads do not suffice.
    pub(crate) fn explanation(self) -> Option<&'static str> {
        Some(match self {
            FigureKind::Latency => {
                "fresh: a rank answers from the buffer it has received into; warm: it sends the \
                 same untouched buffer each time and receives into another that nobody reads"
            }
            FigureKind::Rate | FigureKind::Bandwidth => {
                "fresh: windows go there and back, each sends what the one before has received; \
                 warm: rank 0 sends the same untouched window each time, nobody reads it"
            }
            FigureKind::Bidirectional => {
                "irecv, isend and one wait, both ranks at the same time; fresh: each sends what it \
                 has received the time before; warm: the same untouched buffer each time"
            }
            FigureKind::Halo => {
                "a block to and from each of two neighbours in a ring; isend: two irecv, two isend \
                 and one wait; blocking: neighbour alltoallw; persistent: start and wait of \
                 MPI_Neighbor_alltoallw_init; fresh: each exchange sends what the one before has \
                 received; warm: the same untouched blocks each time"
            }
            FigureKind::Wait => {
                "both ranks start an exchange, compute 50 µs, and wait: the wait alone"
            }
            FigureKind::Calls => "the same: start and wait, which the program cannot compute in",
            FigureKind::DenseCalls => "the same: start and wait, ranks late in turns",
            FigureKind::Processor => {
                "the same as the kernel counts it: of the whole process but for the computing, \
                 helper threads included, and no time asleep"
            }
            FigureKind::Late => {
                "rank 1 starts 100 µs late and computes 50 µs before it waits; from its start to \
                 the end of rank 0's wait"
            }
            FigureKind::DenseWait => "rank 1 starts 10 µs late, both compute 50 µs: rank 0's wait",
            FigureKind::HandOver => {
                "hikyaku: a shared variable; Python: shared_memory; pthread mutex: memory that \
                 both map; Redis: the array is an element of two lists; who is not at turn with \
                 a lock looks again"
            }
            FigureKind::Apart => {
                "by its last writer; home: its queue is on the same node; kept: on the other one"
            }
            FigureKind::Travel => {
                "two virtual nodes, which share no copies: each time contents and ownership travel"
            }
            FigureKind::Owner => {
                "both compute first; the owner waits in a call of the library when it is asked, or \
                 computes 100 µs more and calls none; from the request until the variable has been \
                 written and let go"
            }
            FigureKind::Rows => {
                "each row is a shared variable; in a round each of two ranks on two virtual nodes \
                 writes every other row, in the next one the others, with a barrier between"
            }
            _ => return self.explanation_of_collective(),
        })
    }

    /// The same for collectives.
    fn explanation_of_collective(self) -> Option<&'static str> {
        Some(match self {
            FigureKind::Allreduce => {
                "fresh: in place, each repetition on what the one before has left; warm: from one \
                 untouched buffer into another, to which hikyaku copies it first, within the time"
            }
            FigureKind::Broadcast => {
                "fresh: each root sends what it has received from the one before; warm: the same \
                 untouched buffer each time"
            }
            FigureKind::Gather => {
                "fresh: each rank gives what it has received when it was root last; warm: the same \
                 untouched buffer each time"
            }
            FigureKind::Scatter => {
                "fresh: the first block that a root gives it has received the time before; warm: \
                 the same untouched buffer each time"
            }
            FigureKind::Reduce => {
                "fresh: the sum in place, as for allreduce; warm: from one untouched buffer into \
                 another, to which hikyaku copies it first, within the time"
            }
            FigureKind::ReduceScatter => {
                "fresh: the first doubles that a rank gives it has received the time before; warm: \
                 the same untouched buffer each time, which hikyaku may write"
            }
            FigureKind::Scan => {
                "on a communicator and on one of the ranks in reverse; fresh, warm: as allreduce"
            }
            FigureKind::Allgather
            | FigureKind::Allgatherv
            | FigureKind::Alltoall
            | FigureKind::Alltoallv => {
                "fresh: each rank gives what it has received from another the time before; warm: \
                 the same untouched buffer each time"
            }
            _ => return None,
        })
    }
}

/// One way to measure a point: which calls, from which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasuredForm {
    /// The protocol, if protocols are compared: each of them counts as a contestant.
    pub(crate) protocol: Option<Protocol>,
    /// Its name in tables; empty if there is only one.
    pub(crate) name: &'static str,
    /// The command.
    pub(crate) verb: Verb,
    /// Whether the buffers come from `World::alloc`.
    pub(crate) allocated: bool,
}

impl MeasuredForm {
    /// From ordinary memory.
    pub(crate) fn heap(name: &'static str, verb: Verb) -> MeasuredForm {
        MeasuredForm { protocol: None, name, verb, allocated: false }
    }

    /// By a protocol of shared variables.
    pub(crate) fn by(protocol: Protocol, name: &'static str, verb: Verb) -> MeasuredForm {
        MeasuredForm { protocol: Some(protocol), ..MeasuredForm::heap(name, verb) }
    }

    /// From memory that the other ranks access directly.
    pub(crate) fn allocated(name: &'static str, verb: Verb) -> MeasuredForm {
        MeasuredForm { protocol: None, name, verb, allocated: true }
    }
}

/// One figure to be found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeasuredPoint {
    /// Its kind.
    pub(crate) kind: FigureKind,
    /// Ranks of the job.
    pub(crate) ranks: u32,
    /// Whether each rank is a node of its own.
    pub(crate) apart: bool,
    /// Bytes of a message; zero for kinds without.
    pub(crate) bytes: u64,
    /// Messages in a window, or rows of an array; one for kinds without.
    pub(crate) window: u32,
    /// The part of a repetition that is not reported, in nanoseconds: computing, being late.
    pub(crate) unreported: u64,
    /// The form of the messages' data, for kinds that have both; the others use fresh data.
    pub(crate) data: Option<DataReuse>,
    /// The schedule of a block, if it is fixed in advance.
    pub(crate) fixed: Option<Schedule>,
    /// The forms in which hikyaku is measured.
    pub(crate) ours: Vec<MeasuredForm>,
    /// The forms in which the others are measured.
    pub(crate) theirs: Vec<MeasuredForm>,
    /// The limit of the hardware.
    pub(crate) bare: Bare,
}

impl MeasuredPoint {
    /// A point with one message, all of which is timed.
    pub(crate) fn new(kind: FigureKind, ranks: u32, bytes: u64, bare: Bare) -> MeasuredPoint {
        let (ours, theirs) = (Vec::new(), Vec::new());
        let (apart, window, unreported, data, fixed) = (false, 1, 0, None, None);
        MeasuredPoint {
            kind,
            ranks,
            apart,
            bytes,
            window,
            unreported,
            data,
            fixed,
            ours,
            theirs,
            bare,
        }
    }

    /// One point for each of `forms`, or itself if its kind has no data.
    pub(crate) fn in_forms(self, forms: &[DataReuse]) -> Vec<MeasuredPoint> {
        match self.kind.has_data() {
            true => {
                let of = |data: &DataReuse| MeasuredPoint { data: Some(*data), ..self.clone() };
                forms.iter().map(of).collect()
            }
            false => vec![self],
        }
    }

    /// The use of a rank's data between messages.
    fn data(&self) -> DataReuse {
        self.data.unwrap_or_default()
    }

    /// Rounds the repetitions of a batch up: in broadcasts every rank must be root equally often,
    /// because a rank that is not waits for the roots before it, and the root waits for no rank.
    pub(crate) fn whole_rounds(&self, schedule: Schedule) -> Schedule {
        let round =
            if self.kind == FigureKind::Broadcast { u64::from(self.ranks.max(1)) } else { 1 };
        Schedule { repetitions: schedule.repetitions.next_multiple_of(round), ..schedule }
    }

    /// The command for a block of it in one of its forms.
    pub(crate) fn command(&self, schedule: Schedule, form: MeasuredForm) -> BlockCommand {
        let Schedule { batches, repetitions } = schedule;
        let (bytes, window) = (self.bytes, self.window);
        let MeasuredForm { verb, allocated, .. } = form;
        let data = self.data();
        BlockCommand { verb, bytes, allocated, window, batches, repetitions, data }
    }

    /// The figure of `nanoseconds` per repetition of the command.
    pub(crate) fn value(&self, nanoseconds: f64) -> f64 {
        let window = f64::from(self.window.max(1));
        match self.kind {
            FigureKind::Latency | FigureKind::HandOver => nanoseconds / 2.0,
            FigureKind::Travel => nanoseconds / 2e3,
            FigureKind::Rate => window * 1e3 / nanoseconds,
            FigureKind::Bandwidth => window * self.bytes as f64 / nanoseconds,
            kind => kind.of_nanoseconds(nanoseconds),
        }
    }

    /// Measures the limit of the hardware for it, in its unit; `line` is the cache-line transfer
    /// measured at this moment, in nanoseconds.
    pub(crate) fn bare(&self, cores: Cores, line: f64) -> f64 {
        let measured = self.bare.measure(cores, line, self.bytes, self.window, self.data());
        match self.bare {
            Bare::Parts(_) | Bare::Work(_) | Bare::Turns => self.kind.of_nanoseconds(measured),
            Bare::CopyRate | Bare::Stream => measured,
        }
    }
}

impl MeasuredPoint {
    /// The limit of the hardware, in words.
    pub(crate) fn bare_is(&self) -> String {
        self.bare.description(self.data())
    }
}

impl FigureKind {
    /// Converts nanoseconds into the unit of a kind that is a time.
    fn of_nanoseconds(self, nanoseconds: f64) -> f64 {
        match self.unit() {
            FigureUnit::Microseconds => nanoseconds * 1e-3,
            FigureUnit::Milliseconds => nanoseconds * 1e-6,
            _ => nanoseconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kind: FigureKind, bytes: u64, window: u32) -> MeasuredPoint {
        MeasuredPoint { window, ..MeasuredPoint::new(kind, 2, bytes, Bare::LINE) }
    }

    #[test]
    fn a_repetition_becomes_the_kinds_unit() {
        assert_eq!(point(FigureKind::Latency, 8, 1).value(200.0), 100.0);
        assert_eq!(point(FigureKind::Rate, 8, 64).value(6_400.0), 10.0);
        assert_eq!(point(FigureKind::Bandwidth, 1 << 20, 16).value(1048576.0 * 2.0), 8.0);
        assert_eq!(point(FigureKind::Barrier, 0, 1).value(430.0), 0.43);
        assert_eq!(point(FigureKind::Wait, 8, 1).value(430.0), 430.0);
    }

    #[test]
    fn a_line_is_what_the_caller_measured_in_the_points_unit() {
        let cores = Cores { first: 0, second: 0 };
        assert_eq!(point(FigureKind::Latency, 8, 1).bare(cores, 55.0), 55.0);
        assert_eq!(point(FigureKind::Barrier, 0, 1).bare(cores, 50.0), 0.05);
    }

    #[test]
    fn broadcasts_come_in_whole_rounds_of_roots() {
        let of = |kind, ranks| {
            let point = MeasuredPoint { ranks, ..point(kind, 8, 1) };
            point.whole_rounds(Schedule { batches: 3, repetitions: 10 })
        };
        assert_eq!(of(FigureKind::Broadcast, 8), Schedule { batches: 3, repetitions: 16 });
        assert_eq!(of(FigureKind::Broadcast, 5).repetitions, 10);
        assert_eq!(of(FigureKind::Barrier, 8).repetitions, 10);
    }

    #[test]
    fn a_point_with_data_is_measured_in_each_form() {
        let forms = [DataReuse::Fresh, DataReuse::Warm];
        let told =
            |point: MeasuredPoint, forms: &[DataReuse]| -> Vec<(Option<DataReuse>, String)> {
                let points = point.in_forms(forms).into_iter();
                points.map(|point| (point.data, point.bare_is())).collect()
            };
        let parts = Bare::Parts(PartCounts::signal(2, 2).with_copies(1.0, 1 << 10, 2, 2));
        let halo = MeasuredPoint { bare: parts, ..point(FigureKind::Halo, 1 << 10, 1) };
        let words = |data: &str| format!("a cache line one way and 1 copy of {data} data");
        let both =
            [(Some(DataReuse::Fresh), words("fresh")), (Some(DataReuse::Warm), words("warm"))];
        assert_eq!(told(halo.clone(), &forms), both);
        assert_eq!(told(halo, &forms[1..]), both[1..]);
        let barrier = point(FigureKind::Barrier, 0, 1);
        assert_eq!(barrier.clone().in_forms(&forms), [barrier]);
    }

    #[test]
    fn every_kind_has_its_row() {
        for (place, (kind, word, ..)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place);
            assert_eq!(serde_json::to_value(kind).ok(), Some((*word).into()));
        }
    }
}
