//! Collectives of all ranks as programs of command queues, one queue per rank (paper 002, section
//! 4.4.1): `coll/src/persistent/tree.rs` has the programs.
//!
//! ```text
//!   start    copies the own part into this rank's region and writes the queue's commands
//!   ...      no calls: the rank whose put releases commands runs them, with the arithmetic of a
//!            reduction
//!   result   read from this rank's region
//! ```
//!
//! If one rank has no queue or no memory left, or the ranks are on several hosts, no rank has such
//! an operation: all know it when it is made, and use the usual algorithms.

use std::mem::ManuallyDrop;
use std::ops::Range;

use hikyaku_coll::persistent::{QueueProgram, TreePlace, TreeUpward};
use hikyaku_nic::fabric::{
    Activity, Combining, Name, QueueAddress, QueueCombine, QueueMode, QueuePort, Wait,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::ring::copy;

use super::error::PersistentError;
use super::rounds::Rounds;
use super::setup::{ExchangeWiring, IncomingEdge, OtherQueues, OutgoingEdge, RoundQueue};
use super::tables::{halves, long};
use crate::communicator::Communicator;
use crate::error::Error;

/// The alignment of places, so that no two share a cache line.
const PLACE: usize = 128;

/// A collective that can use queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenseOperation {
    /// Wait for all.
    Barrier,
    /// One to all, the same.
    Broadcast {
        /// The rank with the data.
        root: u32,
    },
    /// All to all, the same.
    Allgather,
    /// All combined, at all.
    Allreduce(Combining),
}

/// An operation with the bytes of each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseCall {
    /// The operation.
    pub operation: DenseOperation,
    /// The bytes of a rank's contribution; for a broadcast those of the root.
    pub bytes: usize,
}

impl DenseCall {
    fn root(self) -> u32 {
        if let DenseOperation::Broadcast { root } = self.operation { root } else { 0 }
    }

    fn name(self) -> Name {
        Name::new(match self.operation {
            DenseOperation::Barrier => "persistent barrier",
            DenseOperation::Broadcast { .. } => "persistent broadcast",
            DenseOperation::Allgather => "persistent allgather",
            DenseOperation::Allreduce(_) => "persistent allreduce",
        })
    }

    fn upward(self) -> TreeUpward {
        match self.operation {
            DenseOperation::Barrier | DenseOperation::Broadcast { .. } => TreeUpward::Nothing,
            DenseOperation::Allgather => TreeUpward::Blocks,
            DenseOperation::Allreduce(_) => TreeUpward::Elements,
        }
    }

    /// The properties that all ranks must agree on.
    fn to_words(self) -> [u32; 5] {
        let [low, high] = halves(self.bytes as u64);
        let (kind, combining) = match self.operation {
            DenseOperation::Barrier => (0, 0),
            DenseOperation::Broadcast { .. } => (1, 0),
            DenseOperation::Allgather => (2, 0),
            DenseOperation::Allreduce(combining) => (3, combining.code().into()),
        };
        [kind, self.root(), combining, low, high]
    }

    /// Whether a queue's commands can do it.
    fn fits(self, size: u32) -> bool {
        let whole = |combining: Combining| self.bytes.is_multiple_of(combining.width());
        self.root() < size
            && match self.operation {
                DenseOperation::Allreduce(combining) => {
                    whole(combining) && self.bytes as u64 <= QueueCombine::MOST
                }
                _ => true,
            }
    }
}

/// The layout of a rank's memory for an operation.
#[derive(Debug, Clone, Copy)]
struct DenseLayout {
    call: DenseCall,
    place: TreePlace,
    size: u32,
}

impl DenseLayout {
    fn new(call: DenseCall, size: u32, rank: u32) -> DenseLayout {
        DenseLayout { call, place: TreePlace::new(size, call.root(), rank), size }
    }

    fn program(&self) -> QueueProgram {
        self.place.program(self.call.upward())
    }

    fn combining(&self) -> Option<Combining> {
        match self.call.operation {
            DenseOperation::Allreduce(combining) => Some(combining),
            _ => None,
        }
    }

    /// The range of the result.
    fn result(&self) -> Range<usize> {
        match self.call.operation {
            DenseOperation::Allgather => 0..self.call.bytes.saturating_mul(self.size as usize),
            _ => 0..self.call.bytes,
        }
    }

    /// The range of this rank's put upward, which includes the data of its subtree.
    fn upward(&self) -> Range<usize> {
        let bytes = self.call.bytes;
        match self.call.upward() {
            TreeUpward::Nothing => 0..0,
            TreeUpward::Blocks => {
                let below = self.place.below();
                self.block(below.start)..self.block(below.end)
            }
            TreeUpward::Elements => 0..bytes,
        }
    }

    /// The offset where a block is gathered, after the result.
    fn block(&self, rank: u32) -> usize {
        self.stride() + rank as usize * self.call.bytes
    }

    /// The target offset of a child's put upward.
    fn place_of_child(&self, child: &DenseLayout) -> usize {
        match self.call.upward() {
            TreeUpward::Elements => (child.place.as_child() + 1) * self.stride(),
            _ => child.upward().start,
        }
    }

    /// The size of a place for the result, or for as many bytes.
    fn stride(&self) -> usize {
        self.result().end.checked_next_multiple_of(PLACE).unwrap_or(usize::MAX)
    }

    /// The total size, in bytes.
    fn bytes(&self) -> usize {
        let places = match self.call.upward() {
            TreeUpward::Nothing => 1,
            TreeUpward::Blocks => 2,
            TreeUpward::Elements => 1 + self.place.child_count(),
        };
        self.stride().saturating_mul(places)
    }
}

/// The rounds of an operation.
#[derive(Debug)]
pub struct DenseRounds {
    rounds: Rounds,
    layout: DenseLayout,
    rank: u32,
    /// Present until it is dropped.
    memory: Option<RegionBuffer>,
}

/// The resources that a rank takes for an operation before others know of it.
#[derive(Debug)]
struct Taken {
    queue: QueueAddress,
    memory: RegionBuffer,
}

/// The number of words in which a rank announces its resources and its call.
const WORDS: usize = 10;

impl DenseRounds {
    /// Makes an operation with a result of `room` bytes, which all ranks of `world` call. `None` at
    /// every rank if queues cannot do it, or the ranks have not made the same call.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn new(
        world: &Communicator,
        call: DenseCall,
        room: usize,
    ) -> Result<Option<DenseRounds>, Error> {
        let size = world.size();
        if size < 2 || are_of_hosts(world) {
            return Ok(None);
        }
        let layout = DenseLayout::new(call, size, world.rank());
        let fits = call.fits(size) && room == layout.result().len();
        let taken = fits.then(|| take(world, &layout)).flatten();
        let mut words = vec![u32::from(taken.is_some())];
        words.extend(call.to_words());
        let [low, high] = halves(taken.as_ref().map_or(0, |taken| taken.memory.offset()));
        let queue = taken.as_ref().map_or((0, 0), |it| (it.queue.queue, it.queue.generation));
        words.extend([queue.0, queue.1.into(), low, high]);
        let shared = world.share(&words);
        let told = shared.as_ref().ok().filter(|shared| {
            let is_alike = |told: &Vec<u32>| told.len() == WORDS && told[..6] == words[..6];
            shared.len() == size as usize && shared.iter().all(is_alike)
        });
        match (taken, told) {
            (Some(taken), Some(told)) => {
                let wiring = wire(world, &layout, &taken, told)?;
                let memory = Some(taken.memory);
                let rounds = Rounds::new(world.clone(), wiring);
                Ok(Some(DenseRounds { rounds, layout, rank: world.rank(), memory }))
            }
            (taken, _) => {
                if let Some(taken) = taken {
                    let mut engine = world.engine().borrow_mut();
                    // No rank has written to it, so this cannot be refused.
                    let _ = engine.port_mut().destroy_queue(taken.queue.queue);
                }
                shared.map(|_| None)
            }
        }
    }

    /// Starts a round with this rank's part (MPI_Start) and a result of `room` bytes.
    ///
    /// # Errors
    /// It is already started, has other lengths than at its creation, or an earlier round failed.
    pub fn start(&mut self, own: &[u8], room: usize) -> Result<(), Error> {
        self.rounds.check_idle()?;
        let result = self.layout.result();
        let bytes = self.layout.call.bytes;
        for (given, needed) in [(own.len(), bytes), (room, result.len())] {
            if given != needed {
                return Err(PersistentError::Resized { given, needed }.into());
            }
        }
        let memory = self.memory.as_mut().expect("there until it is dropped");
        match self.layout.call.operation {
            DenseOperation::Broadcast { root } if root != self.rank => {}
            DenseOperation::Allgather => {
                copy(own, &mut memory[self.layout.block(self.rank)..][..bytes]);
            }
            _ => copy(own, &mut memory[..bytes]),
        }
        self.rounds.start(&[][..])
    }

    /// Waits for the round (MPI_Wait).
    ///
    /// # Errors
    /// It was not started; or a rank is gone, and with it the operation.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.rounds.wait()
    }

    /// Whether the round is complete (MPI_Test).
    ///
    /// # Errors
    /// As [`DenseRounds::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        self.rounds.test()
    }

    /// The result of a complete round.
    pub fn result(&self) -> &[u8] {
        &self.memory.as_ref().expect("there until it is dropped")[self.layout.result()]
    }
}

impl Drop for DenseRounds {
    fn drop(&mut self) {
        if !self.rounds.end() {
            // A rank may still write to it, so it is not freed.
            let _kept = ManuallyDrop::new(self.memory.take());
        }
    }
}

/// Whether some ranks are on other hosts, which no queue reaches. Every rank gets the same answer.
fn are_of_hosts(world: &Communicator) -> bool {
    let engine = world.engine().borrow();
    let host = engine.port().host();
    let host_of = |rank| world.in_job(rank).map_or(0, |rank| host.host_of(rank));
    host.hosts().is_some() && (1..world.size()).any(|rank| host_of(rank) != host_of(0))
}

/// Takes a queue and memory, if this rank has both left.
fn take(world: &Communicator, layout: &DenseLayout) -> Option<Taken> {
    let program = layout.program();
    let mode = match program.offset {
        None => QueueMode::Normal,
        Some(offset) => QueueMode::Session { offset },
    };
    let memory = world.allocate(layout.bytes().max(1), 1).ok()?;
    let mut engine = world.engine().borrow_mut();
    let queue = engine.port_mut().create_queue(mode, program.steps.len() as u32).ok()?;
    Some(Taken { queue, memory })
}

/// Combines the announcements of all ranks into this rank's wiring.
fn wire(
    world: &Communicator,
    layout: &DenseLayout,
    taken: &Taken,
    told: &[Vec<u32>],
) -> Result<ExchangeWiring, Error> {
    let &DenseLayout { call, place, size } = layout;
    let told = |rank: u32| -> Result<(QueueAddress, u64), Error> {
        let words = &told[rank as usize];
        let (rank, generation) = (world.in_job(rank)?, words[7] as u16);
        Ok((QueueAddress { rank, queue: words[6], generation }, long(words[8], words[9])))
    };
    let own = taken.memory.offset();
    let edge = |other: u32, from: usize, at: usize, (bytes, release): (usize, u32)| {
        let (event, theirs) = told(other)?;
        let (from, at) = ([own + from as u64; 2], [theirs + at as u64; 2]);
        let (bytes, ahead, notify) = (bytes as u64, false, true);
        Ok::<_, Error>(OutgoingEdge { bytes, from, at, event, ahead, notify, release })
    };
    let other = |rank| DenseLayout::new(call, size, rank);
    let mut outs = Vec::new();
    if let Some(to) = place.upward(call.upward()) {
        let upward = layout.upward();
        let at = place.parent().map_or(0, |parent| other(parent).place_of_child(layout));
        outs.push(edge(to, upward.start, at, (upward.len(), place.releases()))?);
    }
    for child in place.children() {
        let released = other(child).place.released();
        outs.push(edge(child, 0, 0, (layout.result().len(), released))?);
    }
    let from = |event: QueueAddress| IncomingEdge { queue: event, ready: 0, ahead: false };
    let ins: Vec<IncomingEdge> = outs.iter().map(|edge| from(edge.event)).collect();
    let combine = |child: u32| {
        let right = own + layout.place_of_child(&other(child)) as u64;
        let combining = layout.combining()?;
        let length = call.bytes as u64;
        Some(QueueCombine { left: own, right, into: own, length, combining })
    };
    let combines = place.children().filter_map(combine).collect();
    let program = layout.program();
    let arrivals = ins.len() as u64;
    let queues = vec![RoundQueue { address: taken.queue, program, arrivals }];
    let wait = Wait::new(Activity::Collective).named(call.name());
    let own = outs.len();
    let others = OtherQueues::new(&outs, &ins, Vec::new());
    let nothing = ExchangeWiring::nothing();
    Ok(ExchangeWiring { queues, outs, own, ins, combines, others, wait, ..nothing })
}
