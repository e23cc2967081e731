//! A job under test: all ports stepped by one thread, and the helpers of every body.

use std::collections::{BTreeMap, HashSet, VecDeque};

use hikyaku_nic::fabric::{Command, Event, FullCause, Landed, Port, PostError, Rank};
use hikyaku_nic::random::Random;

use crate::{Harness, Setup};

/// How often "full" must be the answer, with the sender's own port polled in between, before it
/// counts. A layer that refuses at random does not persist that long.
const STEADY: usize = 256;

/// Polls after which a missing event counts as lost.
const PATIENCE: usize = 1_000_000;

/// A record's content, read out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub source: Rank,
    /// The protocol it was posted with.
    pub protocol: u8,
    /// The header it was posted with.
    pub header: u64,
    /// Length of the whole message, bytes.
    pub total: u64,
    /// The offset of `bytes` in the message.
    pub offset: u64,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// All ports of a job, stepped by one thread.
#[derive(Debug)]
pub struct Job<'h, H: Harness> {
    harness: &'h H,
    /// The ports by rank; `None` once taken, left or dead.
    pub ports: Vec<Option<H::P>>,
    inbox: Vec<VecDeque<Event>>,
}

impl<'h, H: Harness> Job<'h, H> {
    /// Opens a job.
    pub fn open(harness: &'h H, setup: &Setup) -> Job<'h, H> {
        let ports: Vec<_> = harness.open(setup).into_iter().map(Some).collect();
        assert_eq!(ports.len(), setup.layout.ranks as usize, "one port a rank");
        let inbox = ports.iter().map(|_| VecDeque::new()).collect();
        Job { harness, ports, inbox }
    }

    /// A rank's port.
    pub fn port(&mut self, rank: Rank) -> &mut H::P {
        self.ports[rank as usize].as_mut().expect("the rank still has its port")
    }

    /// Lets a sender's port make progress, and keeps the events that arrive for it.
    pub fn drive(&mut self, rank: Rank) {
        self.settle(rank);
        if let Some(event) = self.port(rank).poll() {
            self.inbox[rank as usize].push_back(event);
        }
    }

    /// Brings accepted commands of the rank's port to their destination, while there is room.
    pub fn settle(&mut self, rank: Rank) {
        let harness = self.harness;
        harness.settle(self.port(rank));
    }

    /// Posts a command, accepting "full" as an answer only if it persists.
    ///
    /// # Errors
    /// The fabric's answer. A layer that took the command before it knew the answer reports it with
    /// a later post, so an error here may be that of an earlier command to the same rank.
    pub fn offer(&mut self, from: Rank, command: &Command<'_>) -> Result<usize, PostError> {
        let mut answer = self.port(from).post(command);
        for _ in 0..STEADY {
            if !matches!(answer, Err(PostError::Full { .. })) {
                break;
            }
            self.drive(from);
            answer = self.port(from).post(command);
        }
        self.settle(from);
        answer
    }

    /// The causes reported to a rank that keeps posting without room. A layer may add refusals of
    /// its own to the fabric's.
    pub fn full_causes(&mut self, from: Rank, command: &Command<'_>) -> HashSet<FullCause> {
        let mut causes = HashSet::new();
        for _ in 0..STEADY {
            match self.port(from).post(command) {
                Err(PostError::Full { cause, .. }) => _ = causes.insert(cause),
                other => panic!("expected no room, got {other:?}"),
            }
            self.drive(from);
        }
        causes
    }

    /// Posts a message whole, in as many posts as it takes.
    pub fn send(&mut self, from: Rank, command: &Command<'_>) {
        let taken = self.send_some(from, command).expect("there is room for all of it");
        assert_eq!(taken, command.payload.len(), "there is room for all of it");
    }

    /// Posts the bytes of a message that find room and returns their number.
    ///
    /// # Errors
    /// Why nothing was taken.
    pub fn send_some(&mut self, from: Rank, command: &Command<'_>) -> Result<usize, PostError> {
        let mut taken = self.offer(from, command)?;
        while taken < command.payload.len() {
            match self.offer(from, &part(command, taken)) {
                Ok(more) => taken += more,
                Err(PostError::Full { .. }) => break,
                Err(error) => panic!("the rest of a message is refused: {error}"),
            }
        }
        Ok(taken)
    }

    /// Posts an invalid command and returns its error.
    pub fn refused(&mut self, from: Rank, command: &Command<'_>) -> PostError {
        for _ in 0..STEADY {
            if let Err(error) = self.offer(from, command) {
                return error;
            }
        }
        panic!("a command that cannot be done was accepted {STEADY} times: {command:?}");
    }

    /// The next event of a rank, if there is one now.
    pub fn next(&mut self, rank: Rank) -> Option<Event> {
        let kept = self.inbox[rank as usize].pop_front();
        kept.or_else(|| self.port(rank).poll())
    }

    /// The next event of a rank, which must arrive; drives every sender.
    pub fn await_event(&mut self, rank: Rank) -> Event {
        for _ in 0..PATIENCE {
            if let Some(event) = self.next(rank) {
                return event;
            }
            for sender in 0..self.ports.len() {
                if self.ports[sender].is_some() && sender != rank as usize {
                    self.drive(sender as Rank);
                }
            }
        }
        panic!("rank {rank} waits for an event that does not come");
    }

    /// The next landed record of a rank, if there is one now; other events are skipped.
    pub fn landed(&mut self, rank: Rank) -> Option<Landed> {
        loop {
            match self.next(rank)? {
                Event::Landed(landed) => return Some(landed),
                Event::RingFull(_) | Event::StatusFull => {}
                other => panic!("rank {rank} expected a message and got {other:?}"),
            }
        }
    }

    /// Reads a record out and releases it.
    pub fn read_out(&mut self, rank: Rank, landed: Landed) -> Received {
        read_out(self.port(rank), landed)
    }

    /// The next landed record of a rank, read out, if there is one now.
    pub fn take(&mut self, rank: Rank) -> Option<Received> {
        let landed = self.landed(rank)?;
        Some(self.read_out(rank, landed))
    }

    /// Every record that a rank has now, read out.
    pub fn take_all(&mut self, rank: Rank) -> Vec<Received> {
        std::iter::from_fn(|| self.take(rank)).collect()
    }

    /// Whether the rank has an event now that `wanted` accepts; all others are dropped.
    pub fn is_told(&mut self, rank: Rank, wanted: impl Fn(&Event) -> bool) -> bool {
        while let Some(event) = self.next(rank) {
            if wanted(&event) {
                return true;
            }
        }
        false
    }

    /// Ends a rank as a kill would.
    pub fn kill(&mut self, rank: Rank) {
        let mut port = self.ports[rank as usize].take().expect("the rank still has its port");
        self.harness.kill(&mut port);
    }
}

/// The rest of a command after `taken` bytes of it.
pub fn part<'a>(command: &Command<'a>, taken: usize) -> Command<'a> {
    Command {
        payload: &command.payload[taken..],
        offset: command.offset + taken as u64,
        credited: command.credited && taken == 0,
        ..*command
    }
}

/// Reads a record out and releases it.
pub fn read_out(port: &mut impl Port, landed: Landed) -> Received {
    let mut bytes = vec![0; landed.len()];
    let Landed { source, protocol, header, total, offset, data } = landed;
    let copied = data.read_out(port, &mut bytes);
    assert_eq!(copied, bytes.len(), "a record is copied whole");
    Received { source, protocol, header, total, offset, bytes }
}

/// Bytes that differ from those of any other seed, at any offset.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
    let mut random = Random::new(seed);
    while bytes.len() < length {
        bytes.extend(random.word().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Messages assembled from their packets, by source and header.
#[derive(Debug, Default)]
pub struct Assembly {
    open: BTreeMap<(Rank, u64), (Vec<u8>, u64)>,
}

impl Assembly {
    /// Adds a record. Returns the message if it is complete now.
    pub fn enter(&mut self, record: Received) -> Option<Received> {
        let Received { source, protocol, header, total, offset, bytes } = record;
        let (message, filled) =
            self.open.entry((source, header)).or_insert_with(|| (vec![0; total as usize], 0));
        assert_eq!(message.len() as u64, total, "all packets of a message agree on its length");
        assert_eq!(*filled, offset, "the packets of a message come in order, none twice");
        message[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        *filled += bytes.len() as u64;
        if *filled < total {
            return None;
        }
        let (bytes, _) = self.open.remove(&(source, header))?;
        Some(Received { source, protocol, header, total, offset: 0, bytes })
    }

    /// Whether no message is incomplete.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
