//! The command line of `hikyaku simulate`, and the built-in programs by name.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use hikyaku::{Operation, Time};
use hikyaku_nic::units;

use super::processes::ProcessOptions;

/// Run a program on a machine that is not there, in virtual time
///
/// Machines are files; several come with hikyaku (see 'hikyaku machine show'). A built-in program
/// runs as tasks inside the simulator, by the hundred thousand; its answer is checked. The same
/// command gives the same result every time.
#[derive(Debug, Args)]
#[command(after_long_help = DETAILS, args_conflicts_with_subcommands = false)]
pub(crate) struct SimulateArguments {
    /// The machine file, or the name of one that comes with hikyaku
    #[arg(short, long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,

    /// How many ranks
    #[arg(short = 'n', long, value_name = "RANKS", allow_negative_numbers = true)]
    pub(crate) ranks: Option<u32>,

    /// How many of them share a node
    #[arg(long, value_name = "K", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) ranks_per_node: u32,

    /// The machine with its network made larger, in its own shape, for at least so many nodes
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) nodes: Option<u32>,

    /// Messages have lengths and no contents: for scale. Answers are not checked then
    #[arg(long)]
    pub(crate) lengths_only: bool,

    /// What all random numbers of the run follow from
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write what happened as a trace that Perfetto (ui.perfetto.dev) and Chrome open
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,

    /// Write what happened as a page (.html) or a picture (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,

    /// Run every collective by every algorithm on every machine, or on the one given, and say where
    /// hikyaku's choice of algorithm is wrong
    #[arg(long, conflicts_with = "what_if")]
    pub(crate) sweep: bool,

    /// Sizes of parts for --sweep, such as 8,1K,1M
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = units::size)]
    pub(crate) sizes: Vec<u64>,

    /// Messages after which a run of --sweep is abandoned
    #[arg(long, value_name = "COUNT", default_value_t = 50_000)]
    pub(crate) most_messages: u64,

    /// Events after which a run of --sweep is abandoned: long messages are many packets
    #[arg(long, value_name = "COUNT", default_value_t = 4_000_000)]
    pub(crate) most_events: u64,

    /// Answer a question that no paper measured: halo, rings, broadcast
    #[arg(long, value_name = "QUESTION")]
    pub(crate) what_if: Option<String>,

    /// Where --sweep and --what-if write pages and CSV files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,

    /// The program, and its own options: 'hikyaku simulate PROGRAM --help'
    #[command(subcommand)]
    pub(crate) program: Option<BuiltinProgram>,

    #[command(flatten)]
    pub(crate) processes: ProcessOptions,

    /// A program of processes, as 'hikyaku run' starts it: everything after '--'
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const DETAILS: &str = "\
Exit code:
  0      the program ended, and its answer is right
  1      the report could not be written
  2      the command line is invalid
  3      the program failed: a deadlock, a wrong answer, an algorithm that does not suit
  130    interrupted; the report covers the run up to then

Examples:
  What it takes to start 640,000 ranks on 10,000 hosts:
      hikyaku simulate --machine fat-tree-200g -n 640000 --ranks-per-node 64 --nodes 10000 start

  Latency between two neighbours on CP-PACS:
      hikyaku simulate --machine cp-pacs -n 2 pingpong --size 8

  What happens in a halo exchange, as a page:
      hikyaku simulate --machine cp-pacs -n 64 --timeline halo.html halo --steps 3

  Where the choice of an algorithm is wrong on a fat tree:
      hikyaku simulate --sweep --machine fat-tree-200g --output sweep

  Persistent halo exchanges on CP-PACS's network:
      hikyaku simulate --what-if halo
  A program as 'hikyaku run' starts it, as 64 processes:
      hikyaku simulate --machine cp-pacs -n 64 -- ./heat demo.toml

  An allreduce of a mebibyte on 512 nodes of a fat tree, by the ring:
      hikyaku simulate --machine fat-tree-200g -n 512 allreduce --size 1M --algorithm ring
";

/// A program that comes along.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum BuiltinProgram {
    /// A message to and fro between the first rank and the last
    Pingpong {
        /// Bytes of a message, such as 8, 1K, 64KiB
        #[arg(long, default_value = "8", value_parser = units::size)]
        size: u64,
        /// Round trips
        #[arg(long, default_value_t = 100)]
        rounds: u32,
    },
    /// Everyone sends to the next rank and receives from the one before
    Ring {
        /// Bytes of a message
        #[arg(long, default_value = "1K", value_parser = units::size)]
        size: u64,
        /// How often
        #[arg(long, default_value_t = 10)]
        steps: u32,
    },
    /// A grid of ranks that swap faces with their neighbours and compute in between
    Halo {
        /// Dimensions of the grid, which wraps round
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3))]
        dims: u32,
        /// Bytes of a face
        #[arg(long, default_value = "8K", value_parser = units::size)]
        size: u64,
        /// Exchanges
        #[arg(long, default_value_t = 10)]
        steps: u32,
        /// What every rank computes after an exchange, such as 10us
        #[arg(long, default_value = "10us", value_parser = units::time)]
        compute: Time,
    },
    /// Everyone sends to anyone at random times
    Random {
        /// Bytes of a message
        #[arg(long, default_value = "1K", value_parser = units::size)]
        size: u64,
        /// Messages that each rank sends
        #[arg(long, default_value_t = 100)]
        messages: u32,
        /// Mean gap between two messages of a rank
        #[arg(long, default_value = "10us", value_parser = units::time)]
        gap: Time,
    },
    /// The heat equation on a plane of square blocks: edges in every step, a number now and then
    Heat {
        /// Cells along a block's side
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8192))]
        side: u32,
        /// Steps
        #[arg(long, default_value_t = 100)]
        steps: u32,
        /// Steps from one look at the largest change to the next
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        check_every: u32,
        /// What a cell of a step costs the processor
        #[arg(long, default_value = "1ns", value_parser = units::time)]
        per_cell: Time,
    },
    /// Conjugate gradients on the same plane: edges and two sums in every iteration
    Cg {
        /// Cells along a block's side
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8192))]
        side: u32,
        /// The most iterations
        #[arg(long, default_value_t = 100)]
        iterations: u32,
        /// What a cell of an iteration costs the processor
        #[arg(long, default_value = "1ns", value_parser = units::time)]
        per_cell: Time,
    },
    /// What starting the ranks takes, by trees of daemons of several fan-outs; nothing is run
    Start(StartArguments),
    /// Wait for all
    Barrier(CollectiveArguments),
    /// One rank's data to all
    Broadcast(CollectiveArguments),
    /// All ranks' data combined, at one
    Reduce(CollectiveArguments),
    /// All ranks' data combined, at all
    Allreduce(CollectiveArguments),
    /// A part of each to one
    Gather(CollectiveArguments),
    /// A part to each from one
    Scatter(CollectiveArguments),
    /// A part of each to all
    Allgather(CollectiveArguments),
    /// A part of each to each
    Alltoall(CollectiveArguments),
    /// The same, of parts that lie in two pieces
    Alltoallw(CollectiveArguments),
    /// All ranks' data combined, a part at each
    #[command(name = "reduce_scatter")]
    ReduceScatter(CollectiveArguments),
    /// Data of all ranks up to this one combined
    Scan(CollectiveArguments),
    /// Data of all ranks before this one combined
    Exscan(CollectiveArguments),
}

/// What the steps of a start cost, which machine files do not say.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct StartArguments {
    /// Daemons that one process starts, beside the 16 of 'hikyaku run'
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4,64",
          value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) fan_out: Vec<u32>,
    /// From the start of an agent to its daemon's greeting, as of ssh
    #[arg(long, default_value = "150ms", value_parser = units::time)]
    pub(crate) agent: Time,
    /// What starting a process costs who starts it
    #[arg(long, default_value = "1ms", value_parser = units::time)]
    pub(crate) process: Time,
    /// From the start of a rank until its address is known
    #[arg(long, default_value = "30ms", value_parser = units::time)]
    pub(crate) init: Time,
    /// What a process has to do for a frame that it passes on
    #[arg(long, default_value = "20us", value_parser = units::time)]
    pub(crate) frame: Time,
    /// What it has to do for a rank's address
    #[arg(long, default_value = "100ns", value_parser = units::time)]
    pub(crate) card: Time,
    /// Bytes of an address
    #[arg(long, default_value = "28", value_parser = units::size)]
    pub(crate) card_size: u64,
}

/// How a collective is run.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct CollectiveArguments {
    /// Bytes of a part: what a rank contributes, or gives to each other rank
    #[arg(long, default_value = "8", value_parser = units::size)]
    pub(crate) size: u64,
    /// The algorithm; without it, hikyaku chooses, and the report says by what
    ///
    /// An unknown name is answered with those there are. A barrier by `sync` needs a network that
    /// synchronises, a broadcast by `multicast` one that copies messages: cenju4 with one rank on
    /// each node, of at most 64 for `sync`. No machine here has the counters of atomic-add and
    /// multicast-add; `lines` and `read` are for ranks that share memory ('hikyaku run', and
    /// programs of their own under 'hikyaku simulate'). An alltoall by `two-level` runs anywhere,
    /// and saves messages where nodes have several ranks (--ranks-per-node).
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Option<String>,
    /// How often
    #[arg(long, default_value_t = 1)]
    pub(crate) repeat: u32,
}

impl BuiltinProgram {
    /// The collective that the program runs, if it is one.
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
