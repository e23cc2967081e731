//! `hikyaku run`: converts the command line to a [`Launch`], and its outcome to an exit code.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, io, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use hikyaku::shared::{NotASeed, Protocol};
use hikyaku::{
    Choices, LongMessages, ProgressThread, RingMoves, StoreCounts, UnknownChoice, UnmatchedLimit,
    WayTally,
};
use hikyaku_launch::{Bind, FullPolicy, HeapError, Launch, LongStores, OnHosts};
use hikyaku_nic::plan::TrafficTrace;
use thiserror::Error;

use crate::hosts::WrongHosts;
use crate::{exit, plan};

/// Start the ranks of a program on one or several machines and wait for them.
///
/// Starts PROGRAM N times. The processes of a program written with hikyaku find each other and
/// exchange messages; any other program simply runs N times. On this machine no set-up is needed,
/// and neither the network nor host names are used. Other hosts are reached by ssh.
#[derive(Debug, Args)]
#[command(override_usage = "hikyaku run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n       \
                      hikyaku run --hosts A:N,B:N [OPTIONS] [--] PROGRAM [ARGUMENTS]...")]
#[command(after_long_help = DETAILS)]
pub(crate) struct RunArguments {
    /// How many ranks to start
    ///
    /// From 1 to 4096. There may be more ranks than CPUs: ranks that wait sleep. The default is the
    /// number of slots of the hosts. Without hosts, in a Slurm allocation, it is the number of its
    /// tasks, or else of its CPUs.
    #[arg(short = 'n', value_name = "N", allow_negative_numbers = true)]
    ranks: Option<u32>,

    #[command(flatten)]
    hosts: crate::hosts::HostsArguments,

    /// How to tie ranks to CPUs [default: shares, if there are enough CPUs]
    ///
    /// By default, if there are at most as many ranks as CPUs, each rank gets an equal share of the
    /// CPUs for itself (one CPU each if the numbers are equal). With more ranks than CPUs the
    /// kernel decides. Only CPUs that the launcher itself may use are counted (taskset, cpusets).
    #[arg(long, value_enum, value_name = "HOW")]
    bind: Option<BindTo>,

    /// Split this machine into virtual nodes of K ranks
    ///
    /// Ranks of different nodes do not touch each other's memory, as on a cluster. For testing.
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    ranks_per_node: Option<u32>,

    #[allow(rustdoc::broken_intra_doc_links, reason = "a text of --help, not a link")]
    /// Start each line of output with "[rank] "
    #[arg(long)]
    label: bool,

    /// End the job after so many seconds (fractions allowed) and report what each rank waits for
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,

    /// Let the other ranks continue for so many seconds after one has failed [default: 0.5]
    ///
    /// For jobs that can continue without a rank, such as those with recoverable shared variables.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    grace: Option<Duration>,

    /// Use this algorithm for a collective operation, such as allreduce=ring; repeatable
    ///
    /// Equivalent to HIKYAKU_COLL_ALLREDUCE=ring in the environment. By default, the message size
    /// and the number of ranks decide. The algorithms `lines` and `read` are for nodes whose ranks
    /// share memory: `lines` uses shared lines, `read` copies from the other ranks' memory.
    /// `alltoall=two-level` is for several nodes of several ranks, on one or more hosts. For
    /// barrier, `atomic-add`, `multicast-add` and `sync` need ranks that share memory, as does
    /// `broadcast=multicast`; they are refused with several hosts. `session` applies only to the
    /// persistent forms of barrier, broadcast, allgather and allreduce, where ranks share memory.
    /// `exchange` applies to persistent exchanges with neighbours for which the program chooses no
    /// scheme: `fast`, `mrc` and `combined` use command queues, `messages` uses none.
    #[arg(long = "coll", value_name = "OPERATION=ALGORITHM", value_parser = choice)]
    choices: Vec<String>,

    /// How payloads of 4 KiB and more are stored [default: auto]
    ///
    /// Which way is faster depends on the machine, and may change. By default each rank measures it
    /// for each other rank while the job runs.
    #[arg(long, value_enum, value_name = "WAY")]
    long_stores: Option<Stores>,

    /// Transfer shared variables by this protocol: direct, fagus or udp
    ///
    /// Equivalent to HIKYAKU_SHARED=fagus in the environment. The last two are those of paper 001,
    /// for comparison.
    #[arg(long, value_name = "PROTOCOL")]
    shared: Option<Protocol>,

    /// Limit, in MiB per rank, for buffering unmatched messages that block others [default: 64]
    ///
    /// Equivalent to HIKYAKU_UNMATCHED=64 in the environment. A rank that waits for a message
    /// buffers the same sender's unmatched messages up to this limit; beyond it, the sender waits.
    #[arg(long, value_name = "MIB")]
    unmatched: Option<UnmatchedLimit>,

    /// Give each rank of an MPI program a thread that makes progress while the program computes
    ///
    /// Equivalent to HIKYAKU_PROGRESS_THREAD=1 in the environment. Calls then take a lock, as with
    /// MPI_THREAD_MULTIPLE. The thread sleeps until something arrives. Programs that use the Rust,
    /// Python or C interface make progress only in their calls, and report that when they start.
    #[arg(long)]
    progress_thread: bool,

    /// Transfer long messages this way: auto, ring, read, both or put [default: auto]
    ///
    /// Equivalent to HIKYAKU_LONG_MESSAGES=read in the environment. A message of 16 KiB or more (64
    /// KiB where ranks share cores) can go through the receiver's ring, be read by the receiver
    /// from the sender's memory, or be copied by both at once. A message of up to 64 KiB can be put
    /// into the ring before its receiver asks. By default each receiver measures which way is
    /// fastest, and adapts if that changes.
    #[arg(long, value_name = "WAY")]
    long_messages: Option<LongMessages>,

    /// Serve the program's allocations of 64 KiB and more from memory shared by the node's ranks
    ///
    /// Long messages from and into such buffers are copied once, without the kernel. For
    /// dynamically linked programs in any language that allocates with C's malloc. The manual
    /// states the costs.
    #[arg(long)]
    shared_heap: bool,

    /// Report at the end which ways the long messages of all ranks took, how often and why
    ///
    /// On standard error: a line for each class of lengths, and one on the landing and status rings
    /// that were given to frequent senders. Killed ranks are not counted.
    #[arg(long)]
    stats: bool,

    /// What happens to a message if its receiver has no room: stall or refuse [default: stall]
    ///
    /// The two policies of paper 000. A message that stalls waits, and counts once as held up. A
    /// refused message is sent again by its sender until there is room, and counts each time. In
    /// virtual time the policies cost different times: see 'hikyaku simulate --help'.
    #[arg(long, value_enum, value_name = "POLICY", conflicts_with = "where-ranks-run")]
    full: Option<WhenFull>,

    /// Write to this file how much each rank sent to each other, for 'hikyaku plan'
    ///
    /// Ranks append their rows when they leave, so the rows of killed ranks are missing. Short
    /// messages take a little longer while this is recorded.
    #[arg(long, value_name = "FILE", conflicts_with = "where-ranks-run")]
    trace: Option<PathBuf>,

    /// Give the ranks the landing rings of this file, written by 'hikyaku plan'
    #[arg(long, value_name = "FILE", conflicts_with = "where-ranks-run")]
    plan: Option<PathBuf>,

    /// Start with so many landing rings a rank [default: one for each rank up to 16, 8 beyond]
    ///
    /// Messages of rank s land in ring s % N of their receiver. With as many rings as ranks, each
    /// sender has its own ring. With fewer, senders share them; the receiver gives private rings to
    /// frequent senders, or as its program directs (World::landing).
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["where-ranks-run", "plan"]
    )]
    rings: Option<u32>,

    /// Leave senders in their first landing rings, unless the program moves them
    #[arg(long, conflicts_with_all = ["where-ranks-run", "plan"])]
    keep_rings: bool,

    /// Inject faults from this seed into the ranks' ports, for tests
    #[arg(long, value_name = "SEED", hide = true)]
    faults: Option<u64>,

    /// The program and its arguments; a program without a slash is searched in PATH
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// The values of `--bind`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum BindTo {
    /// Rank r runs on the r-th CPU only, starting over when there are more ranks
    Core,
    /// Ranks run on any CPU
    None,
}

/// The values of `--long-stores`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Stores {
    /// Whichever is measured as faster
    Auto,
    /// Into the caches, like short payloads
    Cached,
    /// To memory, bypassing the caches
    PastCaches,
}

/// The values of `--full`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WhenFull {
    /// The message waits until there is room
    Stall,
    /// The message is discarded; its sender is notified and sends it again
    Refuse,
}

impl From<WhenFull> for FullPolicy {
    fn from(full: WhenFull) -> FullPolicy {
        match full {
            WhenFull::Stall => FullPolicy::Stall,
            WhenFull::Refuse => FullPolicy::Refuse,
        }
    }
}

const DETAILS: &str = "\
Input and output:
  Rank 0 gets standard input; that of the other ranks is empty. The ranks' standard output and
  standard error go to the same streams of hikyaku. Lines of different ranks never mix, as long as
  they are shorter than 64 KiB; a newline is added only between an unfinished line and another
  rank's output. On a terminal, an unfinished line (a prompt) is shown after 0.1 s.

How a job ends:
  It ends with its last rank. If a rank fails, by a signal or with an exit code other than 0, one
  line on standard error reports which rank and how. The calls in which other ranks wait return an
  error. After 0.5 s (or the time of --grace) the ranks are sent SIGTERM, after another 0.5 s
  SIGKILL. A rank that exits with code 0 without leaving the job in order is not a failure by
  itself, but ranks that wait for it get an error. SIGINT (Ctrl-C), SIGQUIT (Ctrl-\\), SIGTERM and
  SIGHUP to hikyaku are passed to all ranks, followed by SIGTERM and SIGKILL; a second signal kills
  at once. Processes that ranks have started end with the job. If hikyaku is killed with SIGKILL,
  the kernel kills the ranks, but not the processes that they have started.

Exit code:
  0      all ranks exited with code 0
  N      the first failing rank exited with code N, or was killed by signal N - 128
  1      the machine could not run the job or take its output (one line gives the reason)
  2      the command line is invalid, or the program cannot be run
  124    the job exceeded the time of --timeout
  129, 130, 131, 143    SIGHUP, SIGINT (Ctrl-C), SIGQUIT (Ctrl-\\) or SIGTERM ended the job
  141    its output is no longer read

Environment:
  HIKYAKU_RANK and HIKYAKU_SIZE are set for every rank, for scripts. These variables have the effect
  of an option: HIKYAKU_COLL_<OPERATION>=ALGORITHM of --coll (HIKYAKU_COLL_EXCHANGE=combined),
  HIKYAKU_SHARED of --shared, HIKYAKU_UNMATCHED of --unmatched, HIKYAKU_LONG_MESSAGES of
  --long-messages, and HIKYAKU_PROGRESS_THREAD=1 of --progress-thread.

Examples:
  Four ranks of a solver, each line labelled with its rank:
      hikyaku run -n 4 --label -- ./heat input.toml

  One rank on each CPU that this shell may use:
      hikyaku run -n $(nproc) --bind core -- ./heat input.toml

  Find out why a program hangs:
      hikyaku run -n 4 --timeout 10 -- ./solver

  A script that does something different on each rank:
      hikyaku run -n 3 -- sh -c 'gzip part-$HIKYAKU_RANK.csv'

  Input for rank 0, results to a file, messages to the terminal:
      hikyaku run -n 2 -- ./filter < input.dat > output.dat
";

/// The exit code of an invalid command line.
pub(crate) const WRONG_USE: u8 = 2;

/// Runs the job and ends with its exit code.
pub(crate) fn run(arguments: RunArguments) -> ExitCode {
    let stats = arguments.stats;
    let launch = match launch(arguments) {
        Ok(launch) => launch,
        Err(error) => {
            exit::say(&error);
            return ExitCode::from(WRONG_USE);
        }
    };
    see_to_its_end(&launch, stats)
}

/// Runs a job, reports its end and, if asked for, the statistics of its messages. Returns its exit
/// code.
pub(crate) fn see_to_its_end(launch: &Launch, stats: bool) -> ExitCode {
    match launch.run() {
        Ok(outcome) => {
            outcome.reason.iter().for_each(exit::say);
            outcome.details.iter().for_each(|line| exit::say(format_args!("  {line}")));
            if stats {
                counted(&outcome.counts).lines().for_each(exit::say);
            }
            // Codes of programs and signals fit into a byte; any other code must not become 0.
            ExitCode::from(u8::try_from(outcome.code).unwrap_or(u8::MAX))
        }
        Err(error) => {
            exit::say(&error);
            ExitCode::from(u8::try_from(error.code()).unwrap_or(u8::MAX))
        }
    }
}

/// Lines on the ways of long messages, on the stores of long payloads, and on the landing rings
/// that were given.
fn counted(counts: &[u64]) -> String {
    if counts.is_empty() {
        return "long messages are counted in jobs of one machine only".to_owned();
    }
    let ways = WayTally::of_words(counts);
    let moves = counts.get(WayTally::WORDS..).unwrap_or_default();
    let stores = StoreCounts::of_words(moves.get(RingMoves::WORDS..).unwrap_or_default());
    let moves = RingMoves::of_words(moves);
    let mut lines = ways.to_string();
    if stores != StoreCounts::default() {
        lines = format!("{lines}\n{stores}");
    }
    if moves == RingMoves::default() { lines } else { format!("{lines}\n{moves}") }
}

/// The reason why a command line is not a job.
#[derive(Debug, Error)]
enum RunError {
    /// The chosen algorithm does not suit the number of ranks.
    #[error(transparent)]
    Choice(#[from] UnknownChoice),
    #[error(transparent)]
    Hosts(#[from] WrongHosts),
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The trace cannot be written.
    #[error("cannot write the trace {}: {error}", file.display())]
    Trace { file: PathBuf, error: io::Error },
    #[error(transparent)]
    Plan(#[from] plan::TraceLoadError),
}

fn launch(arguments: RunArguments) -> Result<Launch, RunError> {
    let hosts = arguments.hosts.places(arguments.ranks)?;
    let of_hosts = |hosts: &OnHosts| hosts.places.iter().map(|(_, ranks)| ranks).sum();
    let ranks = hosts.as_ref().map(of_hosts).or(arguments.ranks).unwrap_or_default();
    let mut words = arguments.program.into_iter();
    let program = words.next().unwrap_or_default();
    let mut launch = Launch {
        args: words.collect(),
        bind: match arguments.bind {
            None => Bind::Auto,
            Some(BindTo::Core) => Bind::Core,
            Some(BindTo::None) => Bind::None,
        },
        ranks_per_node: arguments.ranks_per_node,
        label: arguments.label,
        timeout: arguments.timeout,
        owns_process: true,
        long_stores: match arguments.long_stores {
            None | Some(Stores::Auto) => None,
            Some(Stores::Cached) => Some(LongStores::Cached),
            Some(Stores::PastCaches) => Some(LongStores::PastCaches),
        },
        full: arguments.full.map(FullPolicy::from).unwrap_or_default(),
        rings: arguments.rings,
        keeps_rings: arguments.keep_rings,
        hosts,
        ..Launch::new(ranks, program)
    };
    launch.offer_mpi();
    if arguments.shared_heap {
        launch.share_heap()?;
    }
    launch.grace = arguments.grace.unwrap_or(launch.grace);
    let hosts = launch.hosts.as_ref().map_or(1, |hosts| hosts.places.len());
    for choice in &arguments.choices {
        let (variable, algorithm) = Choices::as_variable(choice, launch.ranks, hosts)?;
        launch.set(variable, algorithm);
    }
    if let Some(protocol) = arguments.shared {
        launch.set(Protocol::VARIABLE, protocol);
    }
    if let Some(limit) = arguments.unmatched {
        launch.set(UnmatchedLimit::VARIABLE, limit);
    }
    if arguments.progress_thread {
        launch.set(ProgressThread::VARIABLE, 1);
    }
    if let Some(ways) = arguments.long_messages {
        launch.set(LongMessages::VARIABLE, ways);
    }
    if let Some(file) = arguments.plan {
        launch.plan = Some(plan::load(&file)?);
    }
    if let Some(file) = arguments.trace {
        let path =
            begin_trace(&file, launch.ranks).map_err(|error| RunError::Trace { file, error })?;
        launch.set(TrafficTrace::VARIABLE, path.display());
    }
    if let Some(seed) = arguments.faults {
        launch.set(NotASeed::OF_PORTS, seed);
    }
    Ok(launch)
}

/// Begins a trace to which the ranks append from any folder. The file's old contents are lost.
fn begin_trace(file: &Path, ranks: u32) -> io::Result<PathBuf> {
    fs::write(file, TrafficTrace::head(ranks))?;
    fs::canonicalize(file)
}

/// Checks the choice of an algorithm.
fn choice(text: &str) -> Result<String, UnknownChoice> {
    Choices::default().choose_written(text).map(|()| text.to_owned())
}

/// Parses a time in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("the time must be more than 0 seconds"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: RunArguments,
    }

    fn parse(words: &str) -> Result<Launch, clap::Error> {
        let words = std::iter::once("run").chain(words.split_whitespace());
        let line = Line::try_parse_from(words)?;
        launch(line.arguments)
            .map_err(|error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error))
    }

    #[test]
    fn counts_of_stores_and_landing_rings_are_lines_of_their_own() {
        let mut counts = vec![0; WayTally::WORDS];
        assert_eq!(counted(&counts), "no long messages");
        let moves = RingMoves { given: 5, taken_back: 2, status_given: 7, status_taken_back: 1 };
        counts.extend(moves.words());
        let rings =
            "landing rings: 5 given to frequent senders, 2 of them another's; status rings: 7, 1";
        assert_eq!(counted(&counts), format!("no long messages\n{rings}"));
        let stores = StoreCounts::of_words(&[3, 4, 1]);
        counts.extend(stores.words());
        assert_eq!(counted(&counts), format!("no long messages\n{stores}\n{rings}"));
        assert!(counted(&[]).contains("one machine only"));
    }

    #[test]
    fn senders_stay_in_their_rings_if_asked_for() {
        assert!(!parse("-n 4 --rings 1 -- prog").unwrap().keeps_rings);
        assert!(parse("-n 4 --rings 1 --keep-rings -- prog").unwrap().keeps_rings);
        assert!(parse("-n 4 --keep-rings --plan p -- prog").is_err());
    }

    #[test]
    fn flags_arrive_in_the_launch() {
        let launch =
            parse("-n 4 --bind core --ranks-per-node 2 --label --timeout 1.5 -- prog --label -n 9")
                .unwrap();
        assert_eq!((launch.ranks, launch.bind), (4, Bind::Core));
        assert_eq!(launch.ranks_per_node, Some(2));
        assert!(launch.label && launch.owns_process);
        assert_eq!(launch.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(launch.program, "prog");
        assert_eq!(launch.args, ["--label", "-n", "9"]);
    }

    #[test]
    fn chosen_algorithms_become_variables_of_the_ranks() {
        let chosen = "--coll allreduce=ring --coll barrier=dissemination --coll exchange=mrc";
        let launch = parse(&format!("-n 2 {chosen} true")).unwrap();
        let expected = [("ALLREDUCE", "ring"), ("BARRIER", "dissemination"), ("EXCHANGE", "mrc")];
        let variable = |(name, value): (&str, &str)| (format!("HIKYAKU_COLL_{name}"), value.into());
        assert_eq!(launch.variables, expected.map(variable));
        for (bad, part) in [("allreduce=rong", "there are"), ("ring", "write"), ("a=b", "`a`")] {
            let error = parse(&format!("-n 2 --coll {bad} true")).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn an_algorithm_that_no_call_could_do_is_refused_before_the_job_starts() {
        for (bad, part) in [
            ("--hosts a:1,b:1 --coll broadcast=multicast true", "needs ranks that share memory"),
            ("--hosts a:1,b:1 --coll barrier=sync true", "needs ranks that share memory"),
            ("-n 6 --coll broadcast=binary-tree true", "a power of two"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(parse("-n 8 --coll broadcast=binary-tree --coll gather=binomial true").is_ok());
        assert!(parse("--hosts a:2 --coll barrier=sync --coll broadcast=multicast true").is_ok());
    }

    #[test]
    fn options_become_variables_of_the_ranks() {
        for (option, name, value) in [
            ("--shared fagus", "HIKYAKU_SHARED", "fagus"),
            ("--unmatched 3", "HIKYAKU_UNMATCHED", "3"),
            ("--progress-thread", "HIKYAKU_PROGRESS_THREAD", "1"),
            ("--faults 7", "HIKYAKU_FAULTS", "7"),
        ] {
            let launch = parse(&format!("-n 2 {option} true")).unwrap();
            assert_eq!(launch.variables, [(name.into(), value.into())]);
        }
        for (bad, part) in [
            ("--shared tcp", "there are direct, fagus and udp"),
            ("--unmatched 3M", "a whole number"),
            ("--faults often", "often"),
        ] {
            let error = parse(&format!("-n 2 {bad} true")).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn defaults_are_quiet() {
        let launch = parse("-n 1 true").unwrap();
        assert_eq!((launch.bind, launch.timeout, launch.label), (Bind::Auto, None, false));
    }

    #[test]
    fn words_after_the_program_are_its_own_even_without_dashes() {
        let launch = parse("-n 2 prog -x --timeout").unwrap();
        assert_eq!(launch.args, ["-x", "--timeout"]);
        let launch = parse("-n 2 -- prog -- -x").unwrap();
        assert_eq!(launch.args, ["--", "-x"]);
    }

    #[test]
    fn invalid_times_are_refused() {
        for bad in ["0", "-1", "nan", "inf", "1e300", "soon", "", "0.0000000001"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
    }
}
