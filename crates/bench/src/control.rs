//! The line protocol between the conductor and the ranks it measures.
//!
//! The conductor (`hikyaku bench`) listens on a Unix socket in a directory of its own. Every rank,
//! ours and the peers', connects, introduces itself, and then sleeps in a read until it is told to
//! run a block. So all contestants can be alive at once without disturbing each other, and a block
//! of one can run directly after a block of another.
//!
//! ```text
//!   rank      -> conductor   {"rank":0,"size":2,"pid":17,"library":"hikyaku 0.1.0","cpus":[0]}
//!   conductor -> every rank  latency 8 0 1 50 5000 0
//!   every rank -> conductor  {"nanoseconds":[1023000,1019000,...]}
//!   conductor -> every rank  quit 0 0 0 0 0 0
//! ```
//!
//! A command is one line of seven words so that a C program reads it with one `sscanf`; an answer
//! is one line of JSON. The end of the stream means `quit`: when the conductor dies, so do its
//! ranks.

use std::fmt;
use std::io::{self, BufRead, Read};

use hikyaku::shared::Protocol;
use serde::{Deserialize, Serialize};

/// The longest line either side accepts, in bytes: the answer with the most batches fits.
pub(crate) const LINE_LIMIT: u64 = 64 * 1024;

/// The largest message a command may ask for: 1 GiB, as in peer.h.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// The largest window a command may ask for: the most shared variables that a job has. Peers,
/// which have none, take 1,024 messages.
pub(crate) const MOST_WINDOW: u32 = 8192;

/// The most batches a command may ask for, as in peer.h.
pub(crate) const MOST_BATCHES: u32 = 1000;

/// The place of a shared variable's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// On the node of the rank that acquires it.
    Here,
    /// On another node.
    There,
}

/// The use of messages' data between two messages; see [`super::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DataReuse {
    /// A rank sends the data that it has just received.
    #[default]
    Fresh,
    /// A rank sends the same untouched buffer and receives into another, which nothing reads.
    Warm,
}

impl DataReuse {
    /// Its name in tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DataReuse::Fresh => "fresh",
            DataReuse::Warm => "warm",
        }
    }
}

/// The task of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Ping-pong between rank 0 and rank 1; a repetition is a round trip.
    Latency,
    /// Windows of blocking sends, each window acknowledged; a repetition is a window.
    Send,
    /// Windows of non-blocking sends and receives, completed together.
    Isend,
    /// A message each way at the same time between rank 0 and rank 1.
    Bidirectional,
    /// Barriers of all ranks.
    Barrier,
    /// Sums of numbers over all ranks.
    Allreduce,
    /// Broadcasts whose roots alternate.
    Broadcast,
    /// A block of every rank to the root; roots alternate.
    Gather,
    /// A block from the root to every rank; roots alternate.
    Scatter,
    /// A sum of doubles at the root; roots alternate.
    Reduce,
    /// A block of every rank to every rank.
    Allgather,
    /// A block of every rank to every rank, with a list of lengths.
    Allgatherv,
    /// A block of every rank for each rank.
    Alltoall,
    /// The same with lists of lengths.
    Alltoallv,
    /// Sums of numbers over all ranks, a block of them to each.
    ReduceScatter,
    /// Sums of numbers over the ranks up to each, and down to each, alternating.
    Scan,
    /// Exchanges of every rank with its two neighbours in a ring.
    Exchange(Clock, ExchangeCalls),
    /// Persistent collectives.
    Dense(Clock, DenseForm),
    /// Acquisitions of a shared variable that no other rank wants, for writing.
    FreeWrite,
    /// The same, for reading.
    FreeRead,
    /// The same, for a variable whose queue is at this place, for writing.
    WriteAt(Home),
    /// The same, for reading.
    ReadAt(Home),
    /// Acquisitions of a shared variable by two ranks in turns.
    SharedTurns,
    /// The same with a primitive of Python's multiprocessing.
    TurnsBy(TurnPrimitive),
    /// A message one way, by a program without other work; a repetition is a round trip.
    OneWay(BareWay),
    /// A message each way at the same time, by that program.
    TwoWays(BareWay),
    /// Acquisitions by two ranks on two nodes in turns, by one of the protocols.
    Travel(Protocol),
    /// Acquisitions of a variable whose owner, a rank of another node, waits in a call.
    OwnerWaits(Protocol),
    /// The same, while the owner computes.
    OwnerComputes(Protocol),
    /// Rounds in which all rows of an array change hands.
    Rows(Protocol),
    /// Report the resident memory.
    Memory,
    /// Block in a receive until the other rank's `Release`.
    Block,
    /// Send the message that the other rank's `Block` waits for.
    Release,
    /// Leave.
    Quit,
}

/// The primitives of Python's multiprocessing for alternation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnPrimitive {
    /// A lock, with polling.
    Lock,
    /// A condition.
    Condition,
    /// A semaphore for each process.
    Semaphore,
}

impl TurnPrimitive {
    /// All.
    pub(crate) const ALL: [TurnPrimitive; 3] =
        [TurnPrimitive::Lock, TurnPrimitive::Condition, TurnPrimitive::Semaphore];

    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TurnPrimitive::Lock => "lock",
            TurnPrimitive::Condition => "condition",
            TurnPrimitive::Semaphore => "semaphore",
        }
    }
}

/// How a program without other work moves a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BareWay {
    /// Through a shared ring, with two copies.
    Ring,
    /// By the kernel, from ordinary memory, by the receiver.
    Kernel,
    /// The same, one half by each end.
    Both,
    /// Out of memory that both processes map, by the receiver.
    Shared,
    /// The same, one half by each end.
    SharedBoth,
}

impl BareWay {
    /// All.
    pub(crate) const ALL: [BareWay; 5] =
        [BareWay::Ring, BareWay::Kernel, BareWay::Both, BareWay::Shared, BareWay::SharedBoth];

    /// The name in tables, in which the ways are compared with each other.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BareWay::Ring => "C ring",
            BareWay::Kernel => "C kernel",
            BareWay::Both => "C both",
            BareWay::Shared => "C shared",
            BareWay::SharedBoth => "C shared both",
        }
    }
}

/// The part of an exchange that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// All of it, back to back.
    Whole,
    /// The wait, after both sides have started and computed.
    Wait,
    /// The start and the wait, without the computing between them.
    Calls,
    /// The processor time of the start, the wait and other work of the process for the exchange.
    Processor,
    /// From the start of a neighbour that is late to the end of the wait for it.
    Late,
}

/// The calls that make up an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeCalls {
    /// Two non-blocking receives, two non-blocking sends, and a wait for the four.
    Isend,
    /// One blocking call: MPI_Neighbor_alltoallw (MPI 5.0 §8.6.3).
    Blocking,
    /// Start and wait of a persistent operation: MPI_Neighbor_alltoallw_init (MPI 5.0 §8.8).
    Persistent,
}

/// A persistent collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DenseForm {
    /// MPI_Barrier_init.
    Barrier(DenseWay),
    /// MPI_Bcast_init.
    Broadcast(DenseWay),
    /// MPI_Allgather_init.
    Allgather(DenseWay),
    /// MPI_Allreduce_init, a sum.
    Allreduce(DenseWay),
}

/// How it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DenseWay {
    /// By the algorithm of the table.
    Usual,
    /// By session queues.
    Session,
}

/// The words of the protocol; peer.h has room for fifteen characters.
const WORDS: [(Verb, &str); 79] = [
    (Verb::Latency, "latency"),
    (Verb::Send, "send"),
    (Verb::Isend, "isend"),
    (Verb::Bidirectional, "bidirectional"),
    (Verb::Barrier, "barrier"),
    (Verb::Allreduce, "allreduce"),
    (Verb::Broadcast, "broadcast"),
    (Verb::Gather, "gather"),
    (Verb::Scatter, "scatter"),
    (Verb::Reduce, "reduce"),
    (Verb::Allgather, "allgather"),
    (Verb::Allgatherv, "allgatherv"),
    (Verb::Alltoall, "alltoall"),
    (Verb::Alltoallv, "alltoallv"),
    (Verb::ReduceScatter, "reducescatter"),
    (Verb::Scan, "scan"),
    (Verb::Exchange(Clock::Whole, ExchangeCalls::Isend), "halo-isend"),
    (Verb::Exchange(Clock::Whole, ExchangeCalls::Blocking), "halo-blocking"),
    (Verb::Exchange(Clock::Whole, ExchangeCalls::Persistent), "halo-persist"),
    (Verb::Exchange(Clock::Wait, ExchangeCalls::Isend), "wait-isend"),
    (Verb::Exchange(Clock::Wait, ExchangeCalls::Persistent), "wait-persist"),
    (Verb::Exchange(Clock::Calls, ExchangeCalls::Isend), "calls-isend"),
    (Verb::Exchange(Clock::Calls, ExchangeCalls::Persistent), "calls-persist"),
    (Verb::Exchange(Clock::Processor, ExchangeCalls::Isend), "cpu-isend"),
    (Verb::Exchange(Clock::Processor, ExchangeCalls::Persistent), "cpu-persist"),
    (Verb::Exchange(Clock::Late, ExchangeCalls::Isend), "late-isend"),
    (Verb::Exchange(Clock::Late, ExchangeCalls::Persistent), "late-persist"),
    (Verb::Dense(Clock::Wait, DenseForm::Barrier(DenseWay::Usual)), "wait-bar-u"),
    (Verb::Dense(Clock::Wait, DenseForm::Barrier(DenseWay::Session)), "wait-bar-s"),
    (Verb::Dense(Clock::Wait, DenseForm::Broadcast(DenseWay::Usual)), "wait-bcast-u"),
    (Verb::Dense(Clock::Wait, DenseForm::Broadcast(DenseWay::Session)), "wait-bcast-s"),
    (Verb::Dense(Clock::Wait, DenseForm::Allgather(DenseWay::Usual)), "wait-gath-u"),
    (Verb::Dense(Clock::Wait, DenseForm::Allgather(DenseWay::Session)), "wait-gath-s"),
    (Verb::Dense(Clock::Wait, DenseForm::Allreduce(DenseWay::Usual)), "wait-red-u"),
    (Verb::Dense(Clock::Wait, DenseForm::Allreduce(DenseWay::Session)), "wait-red-s"),
    (Verb::Dense(Clock::Calls, DenseForm::Barrier(DenseWay::Usual)), "calls-bar-u"),
    (Verb::Dense(Clock::Calls, DenseForm::Barrier(DenseWay::Session)), "calls-bar-s"),
    (Verb::Dense(Clock::Calls, DenseForm::Broadcast(DenseWay::Usual)), "calls-bcast-u"),
    (Verb::Dense(Clock::Calls, DenseForm::Broadcast(DenseWay::Session)), "calls-bcast-s"),
    (Verb::Dense(Clock::Calls, DenseForm::Allgather(DenseWay::Usual)), "calls-gath-u"),
    (Verb::Dense(Clock::Calls, DenseForm::Allgather(DenseWay::Session)), "calls-gath-s"),
    (Verb::Dense(Clock::Calls, DenseForm::Allreduce(DenseWay::Usual)), "calls-red-u"),
    (Verb::Dense(Clock::Calls, DenseForm::Allreduce(DenseWay::Session)), "calls-red-s"),
    (Verb::FreeWrite, "free-write"),
    (Verb::FreeRead, "free-read"),
    (Verb::WriteAt(Home::Here), "write-here"),
    (Verb::WriteAt(Home::There), "write-there"),
    (Verb::ReadAt(Home::Here), "read-here"),
    (Verb::ReadAt(Home::There), "read-there"),
    (Verb::SharedTurns, "shared-turns"),
    (Verb::TurnsBy(TurnPrimitive::Lock), "turns-lock"),
    (Verb::TurnsBy(TurnPrimitive::Condition), "turns-cond"),
    (Verb::TurnsBy(TurnPrimitive::Semaphore), "turns-sem"),
    (Verb::OneWay(BareWay::Ring), "one-ring"),
    (Verb::OneWay(BareWay::Kernel), "one-kernel"),
    (Verb::OneWay(BareWay::Both), "one-both"),
    (Verb::OneWay(BareWay::Shared), "one-shared"),
    (Verb::OneWay(BareWay::SharedBoth), "one-shared-both"),
    (Verb::TwoWays(BareWay::Ring), "two-ring"),
    (Verb::TwoWays(BareWay::Kernel), "two-kernel"),
    (Verb::TwoWays(BareWay::Both), "two-both"),
    (Verb::TwoWays(BareWay::Shared), "two-shared"),
    (Verb::TwoWays(BareWay::SharedBoth), "two-shared-both"),
    (Verb::Travel(Protocol::Direct), "travel-direct"),
    (Verb::Travel(Protocol::Fagus), "travel-fagus"),
    (Verb::Travel(Protocol::Udp), "travel-udp"),
    (Verb::OwnerWaits(Protocol::Direct), "waits-direct"),
    (Verb::OwnerWaits(Protocol::Fagus), "waits-fagus"),
    (Verb::OwnerWaits(Protocol::Udp), "waits-udp"),
    (Verb::OwnerComputes(Protocol::Direct), "computes-direct"),
    (Verb::OwnerComputes(Protocol::Fagus), "computes-fagus"),
    (Verb::OwnerComputes(Protocol::Udp), "computes-udp"),
    (Verb::Rows(Protocol::Direct), "rows-direct"),
    (Verb::Rows(Protocol::Fagus), "rows-fagus"),
    (Verb::Rows(Protocol::Udp), "rows-udp"),
    (Verb::Memory, "memory"),
    (Verb::Block, "block"),
    (Verb::Release, "release"),
    (Verb::Quit, "quit"),
];

impl Verb {
    /// The word of the protocol. A verb without one gets a word that no rank knows.
    pub(crate) fn word(self) -> &'static str {
        WORDS.iter().find(|(verb, _)| *verb == self).map_or("unknown", |(_, word)| word)
    }

    fn of_word(word: &str) -> Option<Verb> {
        WORDS.iter().find(|(_, known)| *known == word).map(|(verb, _)| *verb)
    }
}

/// One block of work, the same for every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockCommand {
    /// The operation.
    pub(crate) verb: Verb,
    /// Bytes of one message.
    pub(crate) bytes: u64,
    /// Whether the buffer comes from `World::alloc` and not from the heap.
    pub(crate) allocated: bool,
    /// Messages in a window; rows of an array.
    pub(crate) window: u32,
    /// Timed batches.
    pub(crate) batches: u32,
    /// Repetitions in each batch.
    pub(crate) repetitions: u64,
    /// The use of the data between messages.
    pub(crate) data: DataReuse,
}

impl BlockCommand {
    /// A command without parameters.
    pub(crate) fn plain(verb: Verb) -> BlockCommand {
        let (allocated, data) = (false, DataReuse::Fresh);
        BlockCommand { verb, bytes: 0, allocated, window: 0, batches: 0, repetitions: 0, data }
    }

    /// Parses a command line; the error describes what is invalid.
    pub(crate) fn parse(line: &str) -> Result<BlockCommand, String> {
        let malformed = || format!("malformed command {:?}", line.trim_end());
        let words: Vec<&str> = line.split_whitespace().collect();
        let [verb, numbers @ ..] = words.as_slice() else { return Err(malformed()) };
        let verb = Verb::of_word(verb).ok_or_else(malformed)?;
        let numbers: Option<Vec<u64>> = numbers.iter().map(|word| word.parse().ok()).collect();
        let Some(&[bytes, allocated, window, batches, repetitions, warm]) = numbers.as_deref()
        else {
            return Err(malformed());
        };
        let limit = |value: u64, most: u32| u32::try_from(value).ok().filter(|v| *v <= most);
        let window = limit(window, MOST_WINDOW).ok_or_else(malformed)?;
        let batches = limit(batches, MOST_BATCHES).ok_or_else(malformed)?;
        if bytes > MOST_BYTES || allocated > 1 || warm > 1 {
            return Err(malformed());
        }
        let data = if warm == 1 { DataReuse::Warm } else { DataReuse::Fresh };
        Ok(BlockCommand {
            verb,
            bytes,
            allocated: allocated == 1,
            window,
            batches,
            repetitions,
            data,
        })
    }
}

impl fmt::Display for BlockCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockCommand { verb, bytes, allocated, window, batches, repetitions, data } = *self;
        let (verb, allocated) = (verb.word(), u32::from(allocated));
        let warm = u32::from(data == DataReuse::Warm);
        write!(f, "{verb} {bytes} {allocated} {window} {batches} {repetitions} {warm}")
    }
}

/// The first line of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The rank.
    pub(crate) rank: u32,
    /// The ranks of its job.
    pub(crate) size: u32,
    /// Its process.
    pub(crate) pid: u32,
    /// The library it runs on, with version.
    pub(crate) library: String,
    /// The CPUs it may run on, ascending.
    pub(crate) cpus: Vec<usize>,
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum BlockAnswer {
    /// The time of each batch.
    Times {
        /// Nanoseconds per batch.
        nanoseconds: Vec<u64>,
    },
    /// The memory of the rank.
    Memory {
        /// `VmRSS` of /proc/self/status, in KiB.
        resident_kib: u64,
        /// `RssShmem`, the shared part of it, in KiB.
        shared_kib: u64,
    },
    /// The rank failed.
    Failed {
        /// The reason.
        error: String,
    },
}

/// Reads one line of at most [`LINE_LIMIT`] bytes; `None` at the end of the stream.
pub(crate) fn read_line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    stream.by_ref().take(LINE_LIMIT).read_line(&mut line)?;
    match line.ends_with('\n') {
        true => Ok(Some(line)),
        false if line.is_empty() => Ok(None),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_command_reads_back_as_written() {
        for (verb, word) in WORDS {
            assert!(word.len() <= 15, "{word} does not fit into a peer's command");
            let command = BlockCommand {
                verb,
                bytes: 1 << 20,
                allocated: true,
                window: 64,
                batches: 200,
                repetitions: 10_000_000,
                data: DataReuse::Warm,
            };
            assert_eq!(BlockCommand::parse(&format!("{command}\n")), Ok(command));
            assert_eq!(
                BlockCommand::parse(&BlockCommand::plain(verb).to_string()),
                Ok(BlockCommand::plain(verb))
            );
        }
    }

    #[test]
    fn what_no_rank_can_do_has_a_word_that_none_knows() {
        let wait = Verb::Exchange(Clock::Wait, ExchangeCalls::Blocking);
        assert!(BlockCommand::parse(&BlockCommand::plain(wait).to_string()).is_err());
    }

    #[test]
    fn malformed_commands_are_refused() {
        let cases = [
            "",
            "\n",
            "latency",
            "latency 8 0 1 1 1",
            "latency 8 0 1 1 1 0 1",
            "latency 8 0 1 1 1 warm",
            "latency 8 0 1 1 1 2",
            "Latency 8 0 1 1 1 0",
            "latency -8 0 1 1 1 0",
            "latency 8 2 1 1 1 0",
            "latency 1073741825 0 1 1 1 0",
            "latency 8 0 8193 1 1 0",
            "latency 8 0 1 1001 1 0",
            "latency 8 0 4294967297 1 1 0",
            "latency 99999999999999999999 0 1 1 1 0",
        ];
        for case in cases {
            assert!(
                BlockCommand::parse(case).unwrap_err().starts_with("malformed command"),
                "{case}"
            );
        }
    }

    #[test]
    fn answers_of_a_peer_are_understood() {
        let times: BlockAnswer = serde_json::from_str("{\"nanoseconds\":[12,13]}\n").unwrap();
        assert_eq!(times, BlockAnswer::Times { nanoseconds: vec![12, 13] });
        let memory: BlockAnswer =
            serde_json::from_str("{\"resident_kib\":14532,\"shared_kib\":128}").unwrap();
        assert_eq!(memory, BlockAnswer::Memory { resident_kib: 14532, shared_kib: 128 });
        let failed: BlockAnswer =
            serde_json::from_str("{\"error\":\"an unknown command\"}").unwrap();
        assert_eq!(failed, BlockAnswer::Failed { error: "an unknown command".into() });
        for malformed in ["", "{}", "{\"nanoseconds\":[-1]}", "{\"nanoseconds\":[1],\"x\":2}", "7"]
        {
            assert!(serde_json::from_str::<BlockAnswer>(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn lines_are_bounded_and_whole() {
        let mut stream: &[u8] = b"one\ntwo\nthr";
        assert_eq!(read_line(&mut stream).unwrap().as_deref(), Some("one\n"));
        assert_eq!(read_line(&mut stream).unwrap().as_deref(), Some("two\n"));
        assert!(read_line(&mut stream).is_err());
        assert_eq!(read_line(&mut stream).unwrap(), None);
        let long = vec![b'x'; LINE_LIMIT as usize + 1];
        assert!(read_line(&mut long.as_slice()).is_err());
        assert!(read_line(&mut [0xff_u8, b'\n'].as_slice()).is_err());
    }
}
