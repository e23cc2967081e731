//! The command line of `hikyaku bench`, and its meaning as checked [`BenchSettings`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hikyaku_nic::units;
use thiserror::Error;

use super::control::{self, DataReuse};

/// The most ranks that a benchmark starts, as a guard against typing errors.
const MOST_RANKS: u32 = 1024;

/// The most rows of an array: the number of sync variables of a job.
const MOST_ROWS: u32 = 8192;

/// Measure messages, collectives, neighbour exchanges, start-up and idle cost, by ratio to the bare
/// hardware and, on request, side by side with other libraries
#[derive(Debug, Clone, Args)]
pub struct BenchArguments {
    /// What to measure
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kind: Selection,

    /// Ranks, for barrier, collectives, halo and start (several separated by commas)
    #[arg(short = 'n', long, value_name = "RANKS", value_delimiter = ',')]
    pub(crate) ranks: Vec<u32>,

    /// Message sizes for kinds that have messages, such as 8,1K,64KiB,1M
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = units::size)]
    pub(crate) sizes: Vec<u64>,

    /// Rows of the array, for rows (several separated by commas)
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub(crate) rows: Vec<u32>,

    /// The data of messages, for kinds with both forms: fresh, a rank sends what it has just
    /// received; warm, it sends the same untouched buffer each time [default: both]
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) data: Option<Forms>,

    /// Sample blocks per figure, each beside its own measurement of the bare hardware
    #[arg(long, value_name = "R", default_value_t = 11)]
    pub(crate) repetitions: u32,

    /// Length of a sample block, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50)]
    pub(crate) block: u64,

    /// Measure latency from buffers allocated through hikyaku too (the other kinds always do)
    #[arg(long)]
    pub(crate) allocated: bool,

    /// The calls with which hikyaku is measured: its own, or also MPI's, by the program that
    /// measures the libraries of --against
    #[arg(long, value_enum, value_name = "API", default_value = "rust")]
    pub(crate) api: Api,

    /// What to compare with in the same run: libraries, built with their own mpicc; for shared,
    /// other ways of mutual exclusion; for latency and bidirectional, a C program that only moves
    /// messages
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',')]
    pub(crate) against: Vec<Other>,

    /// A directory to search for a peer before PATH: one with bin/mpicc and bin/mpiexec, with
    /// bin/python3 or with bin/redis-server
    #[arg(long, value_name = "DIR")]
    pub(crate) peer_dir: Vec<PathBuf>,

    /// Abort a job that does not answer for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) time_limit: u64,

    /// Print one JSON document in place of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a page (.html) or the charts alone (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// The role of this process, when the benchmark starts itself
    #[arg(long, value_enum, hide = true)]
    pub(crate) role: Option<Role>,

    /// The conductor's socket, for the role of a rank
    #[arg(long, hide = true)]
    pub(crate) control: Option<PathBuf>,
}

/// The kinds that can be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Selection {
    /// Half a round trip between two ranks
    Latency,
    /// Messages of eight bytes per second, in windows of 64
    Rate,
    /// Bytes per second in windows of messages
    Bandwidth,
    /// Messages in both directions at the same time
    Bidirectional,
    /// Barriers, also of more ranks than cores
    Barrier,
    /// Barrier, allreduce, broadcast, gather, scatter, reduce, allgather(v), alltoall(v),
    /// reduce_scatter_block and scan, also of more ranks than cores
    Collectives,
    /// Exchanges of blocks with two neighbours
    Halo,
    /// The cost of waiting in exchanges during which the ranks compute, or one of them is late
    Late,
    /// Shared variables: acquiring an unlocked one, and hand-offs, also between virtual nodes
    Shared,
    /// Fig. 8 of paper 001 with its protocols and ours, as in its Figs. 9 to 12; not part of all
    Rows,
    /// Starting and stopping a job, and the memory of its ranks
    Start,
    /// Processor time of ranks blocked in a receive
    Idle,
    /// Everything but rows
    All,
}

impl Selection {
    /// Whether this selection covers `kind`.
    pub(crate) fn covers(self, kind: Selection) -> bool {
        let part = self == Selection::Collectives && kind == Selection::Barrier;
        let all = self == Selection::All && kind != Selection::Rows;
        self == kind || all || part
    }
}

/// The forms of messages' data that can be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Forms {
    /// A rank sends what it has just received, like a program that computes
    Fresh,
    /// A rank sends the same untouched buffer again and again, like most benchmarks
    Warm,
    /// Both, one after the other
    Both,
}

impl Forms {
    fn data(self) -> Vec<DataReuse> {
        match self {
            Forms::Fresh => vec![DataReuse::Fresh],
            Forms::Warm => vec![DataReuse::Warm],
            Forms::Both => vec![DataReuse::Fresh, DataReuse::Warm],
        }
    }
}

/// The calls with which hikyaku is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// The calls of the Rust package
    Rust,
    /// The calls of the Rust package, and MPI's from C
    Mpi,
}

/// The libraries and programs to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Other {
    /// Open MPI
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH and its descendants with the same launcher
    Mpich,
    /// Shared variables: Python's multiprocessing lock, condition and semaphore
    Python,
    /// Shared variables: a robust pthread mutex, polled
    Mutex,
    /// Shared variables: a Redis server on loopback, with blocking pops
    Redis,
    /// The hardware's limit: two C processes that only move a message, in five ways
    Limit,
}

/// The libraries that this tool can build against and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerKind {
    /// Hikyaku, through its library for MPI programs.
    Own,
    /// Open MPI.
    OpenMpi,
    /// MPICH and its descendants with the same launcher.
    Mpich,
}

/// The role of a process of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// A rank that runs the conductor's commands
    Rank,
    /// A rank that joins, passes a barrier and leaves
    Start,
    /// A process that does nothing: the minimum cost of a process
    Nothing,
}

/// The reason why a command line is invalid: the user's mistake, exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ArgumentError {
    /// A number out of its range.
    #[error("{flag} must be between {least} and {most}, not {given}")]
    Range {
        /// The flag.
        flag: &'static str,
        /// The given value.
        given: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// Rank counts for a kind that always uses two ranks.
    #[error(
        "-n has no meaning for {0}: it is measured between two ranks; use it with barrier, \
         collectives, halo or start"
    )]
    RanksFixed(&'static str),
    /// Sizes for a kind without messages.
    #[error(
        "--sizes has no meaning for {0}; use it with latency, bandwidth, bidirectional, \
         collectives, halo, late, shared or rows"
    )]
    SizesUnused(&'static str),
    /// A form of data for a kind that has only one.
    #[error(
        "--data has no meaning for {0}; use it with latency, rate, bandwidth, bidirectional, \
         collectives or halo"
    )]
    DataUnused(&'static str),
    /// Rows for a kind without.
    #[error("--rows has no meaning for {0}; use it with rows")]
    RowsUnused(&'static str),
    /// A report file whose name ends in neither .html nor .svg.
    #[error("--report {}: the name must end in .html or .svg", .0.display())]
    ReportName(PathBuf),
    /// A rank started by hand.
    #[error("--role rank needs --control SOCKET; both are for hikyaku bench itself")]
    NoControl,
}

/// A command line whose every value has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BenchSettings {
    /// The kinds to measure.
    pub(crate) selection: Selection,
    /// The requested numbers of ranks; empty: each kind's default.
    pub(crate) ranks: Vec<u32>,
    /// The requested message sizes, in bytes; empty: each kind's default.
    pub(crate) sizes: Vec<u64>,
    /// The requested numbers of rows; empty: the paper's.
    pub(crate) rows: Vec<u32>,
    /// The forms of messages' data.
    pub(crate) data: Vec<DataReuse>,
    /// Blocks per figure.
    pub(crate) blocks: u32,
    /// Length of a block.
    pub(crate) block: Duration,
    /// Whether latency is measured from allocated buffers too.
    pub(crate) allocated: bool,
    /// How long a job may stay silent.
    pub(crate) time_limit: Duration,
}

impl BenchArguments {
    /// Checks the values against each other.
    pub(crate) fn settings(&self) -> Result<BenchSettings, ArgumentError> {
        range("-n", self.ranks.iter().map(|n| u64::from(*n)), 1, u64::from(MOST_RANKS))?;
        range("--sizes", self.sizes.iter().copied(), 0, control::MOST_BYTES)?;
        range("--repetitions", [u64::from(self.repetitions)], 1, 10_000)?;
        range("--block", [self.block], 1, 10_000)?;
        range("--time-limit", [self.time_limit], 1, 86_400)?;
        let name = self.kind.name();
        let multiple = self.kind.takes_ranks();
        if !multiple && self.ranks.iter().any(|n| *n != 2) {
            return Err(ArgumentError::RanksFixed(name));
        }
        if !self.kind.takes_sizes() && !self.sizes.is_empty() {
            return Err(ArgumentError::SizesUnused(name));
        }
        if !self.kind.takes_data() && self.data.is_some() {
            return Err(ArgumentError::DataUnused(name));
        }
        range("--rows", self.rows.iter().map(|n| u64::from(*n)), 1, u64::from(MOST_ROWS))?;
        if self.kind != Selection::Rows && !self.rows.is_empty() {
            return Err(ArgumentError::RowsUnused(name));
        }
        if let Some(path) = &self.report
            && !path.extension().is_some_and(|end| end == "html" || end == "svg")
        {
            return Err(ArgumentError::ReportName(path.clone()));
        }
        if self.role == Some(Role::Rank) && self.control.is_none() {
            return Err(ArgumentError::NoControl);
        }
        Ok(BenchSettings {
            selection: self.kind,
            ranks: if multiple { self.ranks.clone() } else { Vec::new() },
            sizes: self.sizes.clone(),
            rows: self.rows.clone(),
            data: self.data.unwrap_or(Forms::Both).data(),
            blocks: self.repetitions,
            block: Duration::from_millis(self.block),
            allocated: self.allocated || self.kind == Selection::All,
            time_limit: Duration::from_secs(self.time_limit),
        })
    }
}

impl Selection {
    /// Whether rank counts can be chosen.
    fn takes_ranks(self) -> bool {
        use Selection::{All, Barrier, Collectives, Halo, Start};
        matches!(self, Barrier | Collectives | Halo | Start | All)
    }

    /// Whether it has messages of selectable size.
    fn takes_sizes(self) -> bool {
        use Selection::{Barrier, Idle, Rate, Start};
        !matches!(self, Rate | Barrier | Start | Idle)
    }

    /// Whether its messages have fresh or warm data.
    fn takes_data(self) -> bool {
        use Selection::{Barrier, Idle, Late, Rows, Shared, Start};
        !matches!(self, Barrier | Late | Shared | Rows | Start | Idle)
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Selection::Latency => "latency",
            Selection::Rate => "rate",
            Selection::Bandwidth => "bandwidth",
            Selection::Bidirectional => "bidirectional",
            Selection::Barrier => "barrier",
            Selection::Collectives => "collectives",
            Selection::Halo => "halo",
            Selection::Late => "late",
            Selection::Shared => "shared",
            Selection::Rows => "rows",
            Selection::Start => "start",
            Selection::Idle => "idle",
            Selection::All => "all",
        }
    }
}

fn range(
    flag: &'static str,
    values: impl IntoIterator<Item = u64>,
    least: u64,
    most: u64,
) -> Result<(), ArgumentError> {
    match values.into_iter().find(|value| !(least..=most).contains(value)) {
        Some(given) => Err(ArgumentError::Range { flag, given, least, most }),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Door {
        #[command(flatten)]
        arguments: BenchArguments,
    }

    /// The arguments of a command line `hikyaku bench LINE`.
    pub(crate) fn parse(line: &str) -> Result<BenchArguments, clap::Error> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Door::try_parse_from(words).map(|door| door.arguments)
    }

    #[test]
    fn a_full_command_line_has_its_meaning() {
        let line = "all -n 2,4 --sizes 0,8,1K --repetitions 3 --against openmpi,mpich \
                    --peer-dir /a --peer-dir /b --json --report out.html";
        let arguments = parse(line).unwrap();
        assert_eq!(arguments.against, [Other::OpenMpi, Other::Mpich]);
        assert_eq!(arguments.peer_dir.len(), 2);
        let settings = arguments.settings().unwrap();
        assert_eq!(settings.ranks, [2, 4]);
        assert_eq!(settings.sizes, [0, 8, 1024]);
        assert_eq!((settings.blocks, settings.allocated), (3, true));
        assert_eq!(settings.data, [DataReuse::Fresh, DataReuse::Warm]);
    }

    #[test]
    fn clap_refuses_what_is_no_value() {
        for line in [
            "",
            "speed",
            "latency --sizes x",
            "latency --against mvapich,redis",
            "latency -n x",
            "latency --data hot",
            "latency --data fresh,warm",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn invalid_values_are_named_in_one_line() {
        let cases = [
            ("barrier -n 0", "-n must be between 1 and 1024, not 0"),
            ("barrier -n 100000", "-n must be between 1 and 1024, not 100000"),
            ("latency -n 4", "-n has no meaning for latency"),
            ("late -n 4", "-n has no meaning for late"),
            ("rate --sizes 8", "--sizes has no meaning for rate"),
            ("barrier --sizes 8", "--sizes has no meaning for barrier"),
            ("latency --sizes 2G", "--sizes must be between 0 and 1073741824"),
            ("late --data warm", "--data has no meaning for late; use it with latency"),
            ("barrier --data both", "--data has no meaning for barrier"),
            ("rows --rows 0", "--rows must be between 1 and 8192, not 0"),
            ("rows --rows 8193", "--rows must be between 1 and 8192, not 8193"),
            ("rows -n 4", "-n has no meaning for rows"),
            ("shared --rows 4", "--rows has no meaning for shared; use it with rows"),
            ("latency --repetitions 0", "--repetitions must be between 1 and 10000, not 0"),
            ("latency --block 0", "--block must be between"),
            ("latency --time-limit 0", "--time-limit must be between"),
            ("latency --report out.pdf", "must end in .html or .svg"),
            ("latency --role rank", "--role rank needs --control"),
        ];
        for (line, message) in cases {
            let error = parse(line).unwrap().settings().unwrap_err().to_string();
            assert!(error.contains(message), "{line}: {error}");
            assert_eq!(error.lines().count(), 1);
        }
        for line in ["latency -n 2", "collectives -n 3,5 --sizes 8", "halo -n 4", "late --sizes 8"]
        {
            assert!(parse(line).unwrap().settings().is_ok(), "{line}");
        }
    }

    #[test]
    fn data_is_fresh_and_warm_unless_one_is_chosen() {
        let data = |line| parse(line).unwrap().settings().unwrap().data;
        let cases = [
            ("bidirectional", &[DataReuse::Fresh, DataReuse::Warm][..]),
            ("latency --data both", &[DataReuse::Fresh, DataReuse::Warm]),
            ("halo --data fresh", &[DataReuse::Fresh]),
            ("all --data warm", &[DataReuse::Warm]),
        ];
        for (line, forms) in cases {
            assert_eq!(data(line), forms, "{line}");
        }
    }

    #[test]
    fn collectives_are_barriers_too() {
        assert!(Selection::Collectives.covers(Selection::Barrier));
        assert!(!Selection::Barrier.covers(Selection::Collectives));
        assert!(!Selection::All.covers(Selection::Rows) && Selection::Rows.covers(Selection::Rows));
        assert!(Selection::All.covers(Selection::Late) && !Selection::Halo.covers(Selection::Late));
    }
}
