//! A layer that reports to a sink what passes through it, with the time: every post, every event
//! that `poll` yields, every release and every read.
//!
//! It changes and delays nothing. It does not report polls that yield nothing: an idle rank would
//! fill any trace with them. The clock is the caller's, or the port's own.

use std::collections::VecDeque;
use std::fmt;

use super::{Layer, pass_copies_through, pass_through};
use crate::fabric::{
    Atomic, Capabilities, ChainError, Command, Completed, CopyPort, Event, GroupId, GroupPort,
    JointCopy, Landing, MemoryPort, Notified, Operation, PeerFailure, PeerState, Port, PostError,
    Rank, RemoteAddress, RingId, RingSlice, Short, Space, Wait, Wake,
};
use crate::time::Time;

/// One line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEntry {
    /// When it happened.
    pub time: Time,
    /// What happened.
    pub action: TracedAction,
}

/// What passed through a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedAction {
    /// A command was posted: a send, a put, a get, an atomic operation or a nop.
    Post {
        /// [`Command::operation`].
        operation: Operation,
        /// [`Command::destination`].
        destination: Rank,
        /// [`Command::protocol`].
        protocol: u8,
        /// [`Command::header`].
        header: u64,
        /// Payload bytes offered.
        bytes: usize,
        /// Payload bytes taken, or why none were.
        outcome: Result<usize, PostError>,
    },
    /// A doorbell for several commands; one [`TracedAction::Post`] follows for each that was tried.
    Chain {
        /// Commands in the chain.
        commands: usize,
    },
    /// A command for every other member of a group was posted.
    Multicast {
        /// Which group.
        group: GroupId,
        /// [`Command::operation`].
        operation: Operation,
        /// Payload bytes for each.
        bytes: usize,
        /// Whether it reached all of them.
        outcome: Result<(), ChainError>,
    },
    /// `poll` or `receive_whole` yielded a message or packet.
    Landed {
        /// The sender.
        source: Rank,
        /// As posted.
        protocol: u8,
        /// As posted.
        header: u64,
        /// Where in the message it starts, bytes.
        offset: u64,
        /// Length of the whole message, bytes.
        total: u64,
        /// Bytes of this record.
        bytes: usize,
        /// The landing ring it is in; `None` if it rode in the record.
        ring: Option<RingId>,
    },
    /// `poll` yielded the notification of a put.
    Notified(Notified),
    /// `poll` yielded the completion of a command.
    Completed(Completed),
    /// `poll` reported a full landing ring.
    RingFull(RingId),
    /// `poll` reported a full status ring.
    StatusFull,
    /// `poll` reported a death.
    PeerFailed(PeerFailure),
    /// `poll` reported an invalid record.
    Malformed {
        /// The source it claims.
        source: Rank,
    },
    /// Bytes of a landing ring were given back.
    Release {
        /// Which ring.
        ring: RingId,
        /// How many.
        bytes: usize,
        /// Whether they were copied out in the same request.
        read_out: bool,
    },
    /// Another rank's memory was read.
    Read {
        /// Where.
        from: RemoteAddress,
        /// How many bytes were asked for.
        bytes: usize,
        /// Whether it succeeded.
        outcome: Result<(), PostError>,
    },
    /// Another rank's memory was read by a blocking get.
    Get {
        /// Where.
        from: RemoteAddress,
        /// How many bytes were asked for.
        bytes: usize,
        /// Whether it succeeded.
        outcome: Result<(), PostError>,
    },
    /// An integer of another rank was changed by a blocking atomic operation.
    Fetch {
        /// Which operation, and where.
        atomic: Atomic,
        /// The old value, or why it failed.
        outcome: Result<u64, PostError>,
    },
}

/// The destination of a trace.
pub trait Sink {
    /// Takes one line. Called inside the traced call, so it should be quick.
    fn record(&mut self, entry: TraceEntry);
}

/// A sink in memory that keeps the latest entries, like a flight recorder, and counts those it
/// dropped.
#[derive(Debug)]
pub struct Recording {
    entries: VecDeque<TraceEntry>,
    capacity: usize,
    dropped: u64,
}

impl Recording {
    /// A recording of at most `capacity` entries.
    pub fn new(capacity: usize) -> Recording {
        Recording { entries: VecDeque::new(), capacity, dropped: 0 }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &TraceEntry> {
        self.entries.iter()
    }

    /// How many older entries it dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Sink for Recording {
    fn record(&mut self, entry: TraceEntry) {
        if self.entries.len() == self.capacity {
            self.dropped += 1;
            if self.entries.pop_front().is_none() {
                return;
            }
        }
        self.entries.push_back(entry);
    }
}

/// A clock that is not the port's.
type Clock = Box<dyn Fn() -> Time + Send>;

/// A port that reports to a sink what passes through it.
pub struct Tracer<P, S> {
    port: P,
    sink: S,
    clock: Option<Clock>,
}

impl<P: fmt::Debug, S: fmt::Debug> fmt::Debug for Tracer<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tracer { port, sink, clock: _ } = self;
        f.debug_struct("Tracer").field("port", port).field("sink", sink).finish_non_exhaustive()
    }
}

impl<P: Port, S: Sink> Tracer<P, S> {
    /// Traces `port` into `sink` by the port's own clock.
    pub fn new(port: P, sink: S) -> Tracer<P, S> {
        Tracer { port, sink, clock: None }
    }

    /// Traces `port` into `sink` by another clock.
    pub fn with_clock(port: P, sink: S, clock: impl Fn() -> Time + Send + 'static) -> Tracer<P, S> {
        Tracer { port, sink, clock: Some(Box::new(clock)) }
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The port and the sink.
    pub fn into_parts(self) -> (P, S) {
        (self.port, self.sink)
    }

    fn tell(&mut self, action: TracedAction) {
        let time = self.clock.as_ref().map_or_else(|| self.port.now(), |clock| clock());
        self.sink.record(TraceEntry { time, action });
    }
}

impl<P: Port, S: Sink> Layer for Tracer<P, S> {
    type Inner = P;

    #[inline(always)]
    fn inner(&self) -> &P {
        &self.port
    }

    #[inline(always)]
    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn layered_multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError>
    where
        P: GroupPort,
    {
        let outcome = self.port.multicast(group, command, done, bytes);
        let (operation, bytes) = (command.operation, command.payload.len());
        self.tell(TracedAction::Multicast { group, operation, bytes, outcome });
        outcome
    }

    fn layered_get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>
    where
        P: MemoryPort,
    {
        let outcome = self.port.get(from, into);
        self.tell(TracedAction::Get { from, bytes: into.len(), outcome });
        outcome
    }

    fn layered_fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError>
    where
        P: MemoryPort,
    {
        let outcome = self.port.fetch(atomic);
        self.tell(TracedAction::Fetch { atomic: *atomic, outcome });
        outcome
    }
}

impl<P: Port, S: Sink> CopyPort for Tracer<P, S> {
    pass_copies_through!(port);

    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let outcome = self.port.read(from, into);
        self.tell(TracedAction::Read { from, bytes: into.len(), outcome });
        outcome
    }
}

impl<P: Port, S: Sink> Port for Tracer<P, S> {
    pass_through!(port);

    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        let outcome = self.port.post(command);
        self.tell(posted(command, outcome));
        outcome
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        let outcome = self.port.post_chain(chain);
        self.tell(TracedAction::Chain { commands: chain.len() });
        let done = outcome.map_or_else(|cut| cut.done, |()| chain.len());
        for command in &chain[..done] {
            self.tell(posted(command, Ok(command.payload.len())));
        }
        if let (Err(cut), Some(command)) = (outcome, chain.get(done)) {
            let taken = if cut.bytes > 0 { Ok(cut.bytes) } else { Err(cut.error) };
            self.tell(posted(command, taken));
        }
        outcome
    }

    fn poll(&mut self) -> Option<Event> {
        let event = self.port.poll()?;
        let action = arrived(&event);
        self.tell(action);
        Some(event)
    }

    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        let answer = self.port.receive_whole(source, protocol, header, into);
        if let Short::Taken(bytes) = answer {
            let (offset, total, ring) = (0, bytes as u64, None);
            self.tell(TracedAction::Landed {
                source,
                protocol,
                header,
                offset,
                total,
                bytes,
                ring,
            });
        }
        answer
    }

    fn release(&mut self, slice: RingSlice) {
        let (ring, bytes) = (slice.ring(), slice.len());
        self.port.release(slice);
        self.tell(TracedAction::Release { ring, bytes, read_out: false });
    }

    fn read_out(&mut self, slice: RingSlice, into: &mut [u8]) -> usize {
        let (ring, bytes) = (slice.ring(), slice.len());
        let copied = self.port.read_out(slice, into);
        self.tell(TracedAction::Release { ring, bytes, read_out: true });
        copied
    }

    fn park(&mut self, deadline: Option<Time>) -> Wake {
        self.port.park(deadline)
    }
}

fn posted(command: &Command<'_>, outcome: Result<usize, PostError>) -> TracedAction {
    let Command { operation, destination, protocol, header, payload, .. } = *command;
    TracedAction::Post { operation, destination, protocol, header, bytes: payload.len(), outcome }
}

fn arrived(event: &Event) -> TracedAction {
    match event {
        Event::Landed(landed) => TracedAction::Landed {
            source: landed.source,
            protocol: landed.protocol,
            header: landed.header,
            offset: landed.offset,
            total: landed.total,
            bytes: landed.len(),
            ring: match &landed.data {
                Landing::Inline(_) => None,
                Landing::Ring(slice) => Some(slice.ring()),
            },
        },
        Event::Notified(notified) => TracedAction::Notified(*notified),
        Event::Completed(completed) => TracedAction::Completed(*completed),
        Event::RingFull(ring) => TracedAction::RingFull(*ring),
        Event::StatusFull => TracedAction::StatusFull,
        Event::PeerFailed(failure) => TracedAction::PeerFailed(*failure),
        Event::Malformed { source } => TracedAction::Malformed { source: *source },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::fabric::{AtomicOp, Integer, Reply, Rights, Space};
    use crate::loopback::{LoopbackConfig, LoopbackPort, open};

    fn traced() -> (Tracer<LoopbackPort, Recording>, Tracer<LoopbackPort, Recording>) {
        let clock = Arc::new(AtomicU64::new(0));
        let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap().into_iter().map(|port| {
            let clock = Arc::clone(&clock);
            let tick = move || Time::from_picoseconds(clock.fetch_add(1, Ordering::Relaxed));
            Tracer::with_clock(port, Recording::new(16), tick)
        });
        (ports.next().unwrap(), ports.next().unwrap())
    }

    #[test]
    fn actions_are_traced_in_order_and_timed() {
        let (mut a, mut b) = traced();
        let payload = [1; 100];
        a.post(&Command::send(1, 5, 9, &payload)).unwrap();
        a.post(&Command::nop(7)).unwrap_err();
        let Some(Event::Landed(landed)) = b.poll() else { panic!("it has landed") };
        let Landing::Ring(slice) = landed.data else { panic!("it needs a ring") };
        b.read_out(slice, &mut [0; 100]);
        assert!(b.poll().is_none(), "which is not told");
        let times: Vec<u64> =
            a.sink().entries().chain(b.sink().entries()).map(|e| e.time.picoseconds()).collect();
        assert_eq!(times, [0, 1, 2, 3]);
        let post = |operation, destination, protocol, header, bytes, outcome| TracedAction::Post {
            operation,
            destination,
            protocol,
            header,
            bytes,
            outcome,
        };
        let missing = Err(PostError::NoSuchRank { rank: 7, size: 2 });
        let sent: Vec<TracedAction> = a.sink().entries().map(|entry| entry.action).collect();
        assert_eq!(
            sent,
            [
                post(Operation::Send, 1, 5, 9, 100, Ok(100)),
                post(Operation::Nop, 7, 0, 0, 0, missing)
            ]
        );
        let received: Vec<TracedAction> = b.sink().entries().map(|entry| entry.action).collect();
        let landed = TracedAction::Landed {
            source: 0,
            protocol: 5,
            header: 9,
            offset: 0,
            total: 100,
            bytes: 100,
            ring: Some(0),
        };
        assert_eq!(
            received,
            [landed, TracedAction::Release { ring: 0, bytes: 100, read_out: true }]
        );
    }

    #[test]
    fn a_chain_is_traced_with_its_commands() {
        let (mut a, _b) = traced();
        let chain = [Command::nop(1), Command::send(9, 0, 0, &[]), Command::nop(1)];
        a.post_chain(&chain).unwrap_err();
        let actions: Vec<TracedAction> = a.sink().entries().map(|entry| entry.action).collect();
        assert_eq!(actions.len(), 3, "the third was not tried");
        assert_eq!(actions[0], TracedAction::Chain { commands: 3 });
        assert!(matches!(actions[2], TracedAction::Post { outcome: Err(_), destination: 9, .. }));
    }

    #[test]
    fn remote_operations_are_traced_with_their_results() {
        let (mut a, mut b) = traced();
        let context = b.open_context().unwrap();
        let key = b.register(context, 0, 64, Rights::ALL).unwrap();
        let target = RemoteAddress { rank: 1, space: Space::Segment(key), offset: 8 };
        let (integer, operation) = (Integer::U32, AtomicOp::Add);
        let atomic = Atomic { target, integer, operation, operand: 2, result: None };
        a.fetch(&atomic).unwrap();
        a.get(target, &mut [0; 4]).unwrap();
        a.post(&Command { reply: Reply::Event, ..Command::atomic(atomic) }).unwrap();
        while a.poll().is_some() {}
        let told: Vec<TracedAction> = a.sink().entries().map(|entry| entry.action).collect();
        assert_eq!(told[0], TracedAction::Fetch { atomic, outcome: Ok(0) });
        assert_eq!(told[1], TracedAction::Get { from: target, bytes: 4, outcome: Ok(()) });
        assert!(matches!(told[2], TracedAction::Post { operation: Operation::Atomic(_), .. }));
        let TracedAction::Completed(completed) = told[3] else { panic!("its reply was polled") };
        assert_eq!((completed.outcome, told.len()), (Ok(2), 4));
    }

    #[test]
    fn a_full_recording_keeps_the_latest() {
        for (capacity, kept) in [(0, 0), (3, 3), (20, 10)] {
            let mut recording = Recording::new(capacity);
            for time in 0..10 {
                let time = Time::from_picoseconds(time);
                recording.record(TraceEntry { time, action: TracedAction::StatusFull });
            }
            assert_eq!(recording.dropped(), 10 - kept as u64);
            let first = recording.entries().next().map(|entry| entry.time.picoseconds());
            assert_eq!(first, (kept > 0).then(|| 10 - kept as u64));
        }
    }
}
