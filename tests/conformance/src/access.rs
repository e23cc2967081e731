//! Shared by the bodies about remote operations: memory to work on, and calls that retry until they
//! are answered.

use hikyaku_nic::fabric::{
    Atomic, AtomicOp, Completed, ContextId, Event, Integer, Key, MemoryPort, PostError, Rank,
    RemoteAddress, Rights, Space,
};
use hikyaku_nic::region::RegionBuffer;

use crate::{Harness, Job, TablePort};

/// How often "full" may be the answer to an operation that is possible.
const TRIES: usize = 100_000;

/// Registered memory of a rank.
#[derive(Debug)]
pub struct Area {
    /// The memory, with a margin on both sides of the registered part.
    pub buffer: RegionBuffer,
    /// Its context.
    pub context: ContextId,
    /// Its key.
    pub key: Key,
    rank: Rank,
}

/// Bytes before and after a registered area that no rank may touch.
pub const MARGIN: usize = 64;

/// Their contents.
const CANARY: u8 = 0xc7;

impl Area {
    /// Registers `length` zeros of a rank in a context of its own.
    pub fn new<H: Harness>(
        job: &mut Job<'_, H>,
        rank: Rank,
        length: usize,
        rights: Rights,
    ) -> Area {
        let context = job.port(rank).open_context().expect("a context is free");
        Area::within(job, rank, context, length, rights)
    }

    /// The same in an open context.
    pub fn within<H: Harness>(
        job: &mut Job<'_, H>,
        rank: Rank,
        context: ContextId,
        length: usize,
        rights: Rights,
    ) -> Area {
        let port = job.port(rank);
        let mut buffer = port.allocate(length + 2 * MARGIN).expect("the region has room");
        buffer.fill(CANARY);
        buffer[MARGIN..MARGIN + length].fill(0);
        let offset = buffer.offset() + MARGIN as u64;
        let key = port.register(context, offset, length as u64, rights);
        let key = key.expect("the context has room for a segment");
        Area { buffer, context, key, rank }
    }

    /// An offset in it, as others address it.
    pub fn at(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { rank: self.rank, space: Space::Segment(self.key), offset }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[MARGIN..self.buffer.len() - MARGIN]
    }

    /// Its bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let end = self.buffer.len() - MARGIN;
        &mut self.buffer[MARGIN..end]
    }

    /// A word of it.
    pub fn word(&self, offset: usize) -> u64 {
        let bytes = self.bytes()[offset..offset + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    }

    /// Checks that nothing was written beside it.
    pub fn check_margins(&self) {
        let end = self.buffer.len() - MARGIN;
        let margins = self.buffer[..MARGIN].iter().chain(&self.buffer[end..]);
        assert!(margins.copied().all(|byte| byte == CANARY), "bytes beside a segment were written");
    }
}

/// A register of a rank, as others address it.
pub fn register<H: Harness>(
    job: &mut Job<'_, H>,
    rank: Rank,
    context: ContextId,
    which: u8,
) -> RemoteAddress {
    let key = job.port(rank).register_key(context, which).expect("the register exists");
    RemoteAddress { rank, space: Space::Register(key), offset: 0 }
}

/// An atomic operation that stores its old value nowhere.
pub fn atomic(
    target: RemoteAddress,
    integer: Integer,
    operation: AtomicOp,
    operand: u64,
) -> Atomic {
    Atomic { target, integer, operation, operand, result: None }
}

/// [`MemoryPort::fetch`], with retries.
pub fn fetch<H: Harness>(
    job: &mut Job<'_, H>,
    from: Rank,
    atomic: &Atomic,
) -> Result<u64, PostError> {
    again(job, from, |port| port.fetch(atomic))
}

/// [`MemoryPort::get`], with retries.
pub fn get<H: Harness>(
    job: &mut Job<'_, H>,
    from: Rank,
    address: RemoteAddress,
    into: &mut [u8],
) -> Result<(), PostError> {
    again(job, from, |port| port.get(address, into))
}

fn again<H: Harness, R>(
    job: &mut Job<'_, H>,
    from: Rank,
    mut call: impl FnMut(&mut H::P) -> Result<R, PostError>,
) -> Result<R, PostError> {
    for _ in 0..TRIES {
        match call(job.port(from)) {
            Err(PostError::Full { .. }) => job.drive(from),
            answer => return answer,
        }
    }
    panic!("rank {from} never finds room for what can be done");
}

/// The next completion of a rank, which must arrive.
pub fn completed<H: Harness>(job: &mut Job<'_, H>, rank: Rank) -> Completed {
    match job.await_event(rank) {
        Event::Completed(completed) => completed,
        other => panic!("rank {rank} expected a completion and got {other:?}"),
    }
}
