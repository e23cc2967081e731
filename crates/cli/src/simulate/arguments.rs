//! The command line of `hikyaku simulate`, and the built-in programs by name.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use hikyaku::{Operation, Time};
use hikyaku_nic::units;

use super::processes::ProcessOptions;

/// Limits of a sweep's runs, unless others are given.
const MOST_MESSAGES: u64 = 50_000;
const MOST_EVENTS: u64 = 4_000_000;

/// Run a program on a simulated machine, in virtual time
///
/// A file describes a machine; several files come with hikyaku (see 'hikyaku machine show'). The
/// ranks of a built-in program are tasks inside the simulator, up to hundreds of thousands; the
/// answer is checked. The same command gives the same result every time.
#[derive(Debug, Args)]
#[command(after_long_help = DETAILS, args_conflicts_with_subcommands = false)]
pub(crate) struct SimulateArguments {
    /// The machine file, or the name of a file that comes with hikyaku
    #[arg(short, long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,

    /// The number of ranks
    #[arg(short = 'n', long, value_name = "RANKS", allow_negative_numbers = true)]
    pub(crate) ranks: Option<u32>,

    /// The number of ranks on each node
    #[arg(long, value_name = "K", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) ranks_per_node: u32,

    /// Enlarge the machine's network, in its own shape, for at least so many nodes
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) nodes: Option<u32>,

    /// Send lengths without contents, for large jobs; answers are not checked
    #[arg(long)]
    pub(crate) lengths_only: bool,

    /// The seed of all random numbers of the run
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write a trace of the run for Perfetto (ui.perfetto.dev) and Chrome
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,

    /// Write a timeline of the run as a page (.html) or a picture (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,

    /// Run every collective with every algorithm on every machine, or on the given one, and report
    /// where hikyaku's choice of algorithm is wrong
    #[arg(long, conflicts_with = "what_if")]
    pub(crate) sweep: bool,

    /// Sizes of parts for --sweep, such as 8,1K,1M
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = message_size)]
    pub(crate) sizes: Vec<u64>,

    /// The number of messages after which a run of --sweep is abandoned
    #[arg(long, value_name = "COUNT", default_value_t = MOST_MESSAGES)]
    pub(crate) most_messages: u64,

    /// The number of events after which a run of --sweep is abandoned: long messages are many
    /// packets
    #[arg(long, value_name = "COUNT", default_value_t = MOST_EVENTS)]
    pub(crate) most_events: u64,

    /// Answer a question that no paper measured: halo, rings, broadcast, sharers, decompositions,
    /// matrix
    #[arg(long, value_name = "QUESTION")]
    pub(crate) what_if: Option<String>,

    /// The folder for the pages and CSV files of --sweep and --what-if
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,

    /// The program; for its options see 'hikyaku simulate PROGRAM --help'
    #[command(subcommand)]
    pub(crate) program: Option<BuiltinProgram>,

    #[command(flatten)]
    pub(crate) processes: ProcessOptions,

    /// A program that runs as processes, as with 'hikyaku run': everything after '--'
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl SimulateArguments {
    /// The first argument that has no effect beside the others, and those others.
    pub(crate) fn first_idle(&self) -> Option<(&'static str, &'static str)> {
        let of_sweeps = [
            (!self.sizes.is_empty(), "--sizes"),
            (self.most_messages != MOST_MESSAGES, "--most-messages"),
            (self.most_events != MOST_EVENTS, "--most-events"),
        ];
        let of_machines = [
            (self.machine.is_some(), "--machine"),
            (self.ranks.is_some(), "--ranks"),
            (self.seed != 1, "--seed"),
            (self.lengths_only, "--lengths-only"),
        ];
        let of_one_run = [
            (self.program.is_some(), "a built-in program"),
            (!self.command.is_empty(), "a command"),
            (self.nodes.is_some(), "--nodes"),
            (self.ranks_per_node != 1, "--ranks-per-node"),
            (self.trace.is_some(), "--trace"),
            (self.timeline.is_some(), "--timeline"),
        ];
        let given = |arguments: &[(bool, &'static str)]| {
            arguments.iter().find(|(is_given, _)| *is_given).map(|(_, name)| *name)
        };
        if self.what_if.is_some() {
            let idle = given(&of_one_run).or(given(&of_machines)).or(given(&of_sweeps));
            return Some((idle?, "--what-if"));
        }
        if self.sweep {
            return Some((given(&of_one_run)?, "--sweep"));
        }
        if let Some(idle) = given(&of_sweeps) {
            return Some((idle, "a run that is no --sweep"));
        }
        if self.output.as_os_str() != "." {
            return Some(("--output", "a run that is neither --sweep nor --what-if"));
        }
        match &self.program {
            Some(BuiltinProgram::Start(_)) => {
                Some((given(&of_one_run[4..]).or(given(&of_machines[2..]))?, "start"))
            }
            None if !self.command.is_empty() => Some((given(&of_machines[2..])?, "processes")),
            _ => None,
        }
    }
}

const DETAILS: &str = "\
Exit code:
  0      the program ended, and its answer is right
  1      the report could not be written
  2      the command line is invalid
  3      the program failed: a deadlock, a wrong answer, an unsuitable algorithm
  130    interrupted; the report covers the run up to then

Examples:
  The cost of starting 640,000 ranks on 10,000 hosts:
      hikyaku simulate --machine fat-tree-200g -n 640000 --ranks-per-node 64 --nodes 10000 start

  Latency between two neighbours on CP-PACS:
      hikyaku simulate --machine cp-pacs -n 2 pingpong --size 8

  A page with the timeline of a halo exchange:
      hikyaku simulate --machine cp-pacs -n 64 --timeline halo.html halo --steps 3

  The wrong choices of algorithms on a fat tree:
      hikyaku simulate --sweep --machine fat-tree-200g --output sweep

  Persistent halo exchanges on CP-PACS's network:
      hikyaku simulate --what-if halo

  A program of 64 processes, as with 'hikyaku run':
      hikyaku simulate --machine cp-pacs -n 64 -- ./heat demo.toml

  An allreduce of 1 MiB on 512 nodes of a fat tree, with the ring algorithm:
      hikyaku simulate --machine fat-tree-200g -n 512 allreduce --size 1M --algorithm ring
";

/// A built-in program.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum BuiltinProgram {
    /// A message that goes back and forth between the first rank and the last
    Pingpong {
        /// Bytes of a message, such as 8, 1K, 64KiB
        #[arg(long, default_value = "8", value_parser = message_size)]
        size: u64,
        /// The number of round trips
        #[arg(long, default_value_t = 100)]
        rounds: u32,
    },
    /// Every rank sends to the next rank and receives from the previous one
    Ring {
        /// Bytes of a message
        #[arg(long, default_value = "1K", value_parser = message_size)]
        size: u64,
        /// The number of repetitions
        #[arg(long, default_value_t = 10)]
        steps: u32,
    },
    /// A grid of ranks that swap faces with their neighbours and compute in between
    Halo {
        /// Dimensions of the grid, which is periodic
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3))]
        dims: u32,
        /// Bytes of a face
        #[arg(long, default_value = "8K", value_parser = message_size)]
        size: u64,
        /// The number of exchanges
        #[arg(long, default_value_t = 10)]
        steps: u32,
        /// The computing time of every rank after an exchange, such as 10us
        #[arg(long, default_value = "10us", value_parser = units::time)]
        compute: Time,
    },
    /// Every rank sends to random ranks at random times
    Random {
        /// Bytes of a message
        #[arg(long, default_value = "1K", value_parser = message_size)]
        size: u64,
        /// The number of messages that each rank sends
        #[arg(long, default_value_t = 100)]
        messages: u32,
        /// Mean gap between two messages of a rank
        #[arg(long, default_value = "10us", value_parser = units::time)]
        gap: Time,
    },
    /// The heat equation on a plane of square blocks: edges in every step, a reduction now and then
    Heat {
        /// Cells along a block's side
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8192))]
        side: u32,
        /// The number of steps
        #[arg(long, default_value_t = 100)]
        steps: u32,
        /// Steps between two checks of the largest change
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        check_every: u32,
        /// CPU time per cell and step
        #[arg(long, default_value = "1ns", value_parser = units::time)]
        per_cell: Time,
    },
    /// Conjugate gradients on the same plane: edges and two sums in every iteration
    Cg {
        /// Cells along a block's side
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8192))]
        side: u32,
        /// The maximum number of iterations
        #[arg(long, default_value_t = 100)]
        iterations: u32,
        /// CPU time per cell and iteration
        #[arg(long, default_value = "1ns", value_parser = units::time)]
        per_cell: Time,
    },
    /// The cost of starting the ranks, with trees of daemons of several fan-outs; nothing is run
    Start(StartArguments),
    /// Every rank waits for all others
    Barrier(CollectiveArguments),
    /// The data of one rank goes to all
    Broadcast(CollectiveArguments),
    /// The data of all ranks are combined at one
    Reduce(CollectiveArguments),
    /// The data of all ranks are combined at all
    Allreduce(CollectiveArguments),
    /// Every rank sends a part to one rank
    Gather(CollectiveArguments),
    /// One rank sends a part to each rank
    Scatter(CollectiveArguments),
    /// Every rank sends one part to all
    Allgather(CollectiveArguments),
    /// Every rank sends a different part to each rank
    Alltoall(CollectiveArguments),
    /// The same, with parts that lie in two pieces
    Alltoallw(CollectiveArguments),
    /// The data of all ranks are combined, and each rank gets a part
    #[command(name = "reduce_scatter")]
    ReduceScatter(CollectiveArguments),
    /// Each rank gets the combined data of the ranks up to itself
    Scan(CollectiveArguments),
    /// Each rank gets the combined data of the ranks before it
    Exscan(CollectiveArguments),
}

/// The longest message of a simulation: 1 GiB. Ranks whose messages carry their bytes hold them.
const MOST_BYTES: u64 = 1 << 30;

/// Parses the length of a message.
fn message_size(text: &str) -> Result<u64, String> {
    let size = units::size(text)?;
    (size <= MOST_BYTES).then_some(size).ok_or_else(|| format!("{size} is more than 1 GiB"))
}

/// The costs of the steps of a start, which machine files do not state.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct StartArguments {
    /// Fan-outs (daemons started by one process) to show besides the 16 of 'hikyaku run'
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4,64",
          value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) fan_out: Vec<u32>,
    /// Time from the start of an agent, such as ssh, to its daemon's greeting
    #[arg(long, default_value = "150ms", value_parser = units::time)]
    pub(crate) agent: Time,
    /// Cost to the parent of starting a process
    #[arg(long, default_value = "1ms", value_parser = units::time)]
    pub(crate) process: Time,
    /// Time from the start of a rank until its address is known
    #[arg(long, default_value = "30ms", value_parser = units::time)]
    pub(crate) init: Time,
    /// CPU time of a process for a frame that it forwards
    #[arg(long, default_value = "20us", value_parser = units::time)]
    pub(crate) frame: Time,
    /// CPU time of a process for a rank's address
    #[arg(long, default_value = "100ns", value_parser = units::time)]
    pub(crate) card: Time,
    /// Size of an address in bytes
    #[arg(long, default_value = "28", value_parser = message_size)]
    pub(crate) card_size: u64,
}

/// How a collective is run.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct CollectiveArguments {
    /// Bytes of a part: what a rank contributes, or gives to each other rank
    #[arg(long, default_value = "8", value_parser = message_size)]
    pub(crate) size: u64,
    /// The algorithm [default: hikyaku chooses, and reports by which criterion]
    ///
    /// The error for an unknown name lists the names that run. The barrier `sync` needs a network
    /// that synchronises, the broadcast `multicast` one that copies messages: cenju4 with one rank
    /// on each node, and at most 64 nodes for `sync`. The alltoall `two-level` runs anywhere, and
    /// saves messages where nodes have several ranks (--ranks-per-node). The barriers atomic-add
    /// and multicast-add, `lines` and `read` need memory that ranks share. They run in a program
    /// after `--`, as with 'hikyaku run --coll' or with HIKYAKU_COLL_BARRIER=atomic-add.
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Option<String>,
    /// The number of repetitions
    #[arg(long, default_value_t = 1)]
    pub(crate) repeat: u32,
}

impl BuiltinProgram {
    /// The collective that the program runs, if it runs one.
    pub(crate) fn collective(&self) -> Option<(Operation, &CollectiveArguments)> {
        let operation = match self {
            BuiltinProgram::Barrier(_) => Operation::Barrier,
            BuiltinProgram::Broadcast(_) => Operation::Broadcast,
            BuiltinProgram::Reduce(_) => Operation::Reduce,
            BuiltinProgram::Allreduce(_) => Operation::Allreduce,
            BuiltinProgram::Gather(_) => Operation::Gather,
            BuiltinProgram::Scatter(_) => Operation::Scatter,
            BuiltinProgram::Allgather(_) => Operation::Allgather,
            BuiltinProgram::Alltoall(_) => Operation::Alltoall,
            BuiltinProgram::Alltoallw(_) => Operation::Alltoallw,
            BuiltinProgram::ReduceScatter(_) => Operation::ReduceScatter,
            BuiltinProgram::Scan(_) => Operation::Scan,
            BuiltinProgram::Exscan(_) => Operation::Exscan,
            BuiltinProgram::Pingpong { .. } | BuiltinProgram::Ring { .. } => return None,
            BuiltinProgram::Halo { .. } | BuiltinProgram::Random { .. } => return None,
            BuiltinProgram::Heat { .. } | BuiltinProgram::Cg { .. } => return None,
            BuiltinProgram::Start(_) => return None,
        };
        match self {
            BuiltinProgram::Barrier(how)
            | BuiltinProgram::Broadcast(how)
            | BuiltinProgram::Reduce(how)
            | BuiltinProgram::Allreduce(how)
            | BuiltinProgram::Gather(how)
            | BuiltinProgram::Scatter(how)
            | BuiltinProgram::Allgather(how)
            | BuiltinProgram::Alltoall(how)
            | BuiltinProgram::Alltoallw(how)
            | BuiltinProgram::ReduceScatter(how)
            | BuiltinProgram::Scan(how)
            | BuiltinProgram::Exscan(how) => Some((operation, how)),
            _ => None,
        }
    }

    /// The least number of bytes that all ranks together hold at one time, if messages carry their
    /// contents: the arrays of a collective, the faces or blocks of a grid.
    pub(crate) fn held(&self, ranks: u32) -> u64 {
        let ranks = u64::from(ranks);
        let square = |side: u32| 16 * u64::from(side) * u64::from(side);
        let each = match self {
            BuiltinProgram::Pingpong { size, .. } => return *size,
            BuiltinProgram::Ring { size, .. } => *size,
            BuiltinProgram::Halo { size, dims, .. } => size.saturating_mul(u64::from(2 * dims)),
            BuiltinProgram::Heat { side, .. } | BuiltinProgram::Cg { side, .. } => square(*side),
            _ => match self.collective() {
                None => 0,
                Some((Operation::Alltoall | Operation::Alltoallw, how)) => {
                    how.size.saturating_mul(2 * ranks)
                }
                Some((Operation::Allgather | Operation::ReduceScatter, how)) => {
                    how.size.saturating_mul(1 + ranks)
                }
                Some((Operation::Barrier, _)) => 0,
                Some((_, how)) => how.size,
            },
        };
        each.saturating_mul(ranks)
    }

    /// Its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            BuiltinProgram::Pingpong { .. } => "pingpong",
            BuiltinProgram::Ring { .. } => "ring",
            BuiltinProgram::Halo { .. } => "halo",
            BuiltinProgram::Random { .. } => "random",
            BuiltinProgram::Heat { .. } => "heat",
            BuiltinProgram::Cg { .. } => "cg",
            other => other.collective().map_or("", |(operation, _)| operation.name()),
        }
    }
}
