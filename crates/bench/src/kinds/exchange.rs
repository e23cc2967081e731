//! The exchange that [`super::halo`] and [`super::late`] measure: every rank of a ring sends one
//! block to the rank on its left and one to the rank on its right, and receives one from each.
//!
//! ```text
//!   rank 0              rank 1              rank 2         with two ranks, each is
//!   ... [L | R] <-----> [L | R] <-----> [L | R] ...        both neighbours of the other
//! ```
//!
//! Blocks lie in two sets. Fresh: every exchange sends the data that the one before it has
//! received, so every sent block has just been written, as in a program that computes. Warm: every
//! exchange sends the first set, which nothing writes, and receives into the second, which nothing
//! reads. Nothing else touches a block in either form. Before the measurement one exchange is
//! checked, byte by byte: a fast exchange of the wrong blocks would be no figure.

use std::time::{Duration, Instant};

use hikyaku::persistent::{Exchange as Shared, Neighbour, Neighbours as Edges, StagedExchange};
use hikyaku::topology::{Cartesian, Neighbourhood, Reorder};
use hikyaku::{Error, Layout, Op, World};

use super::{halo, late};
use crate::buffers::{MeasuredBuffer, Sets};
use crate::control::{BlockAnswer, BlockCommand, Clock, DataReuse, ExchangeCalls};
use crate::rank::{RankError, TAG};

/// The ranks on both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingNeighbours {
    rank: u32,
    left: u32,
    right: u32,
}

impl RingNeighbours {
    fn new(world: &World) -> RingNeighbours {
        let (rank, size) = (world.rank(), world.size());
        RingNeighbours { rank, left: (rank + size - 1) % size, right: (rank + 1) % size }
    }
}

/// An exchange that can be repeated.
pub(crate) trait RepeatableExchange {
    /// Starts one, runs `between`, and waits for it.
    fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Error>;

    /// The blocks that the next exchange will send: to the left, to the right.
    fn outgoing(&mut self) -> (&mut [u8], &mut [u8]);

    /// The blocks that the last exchange has received: from the left, from the right.
    fn incoming(&mut self) -> (&[u8], &[u8]);
}

/// The moments of an exchange with computing between its start and its wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    /// Before the start.
    pub(crate) begin: Instant,
    /// After the start.
    pub(crate) begun: Instant,
    /// Before the wait.
    pub(crate) computed: Instant,
    /// After the wait.
    pub(crate) end: Instant,
}

impl Lap {
    /// One exchange around `compute`.
    pub(crate) fn run(
        exchange: &mut impl RepeatableExchange,
        compute: impl FnOnce(),
    ) -> Result<Lap, Error> {
        Lap::around(|between| exchange.exchange(between), compute)
    }

    /// One round of anything around `compute`.
    pub(crate) fn around(
        round: impl FnOnce(&mut dyn FnMut()) -> Result<(), Error>,
        compute: impl FnOnce(),
    ) -> Result<Lap, Error> {
        let begin = Instant::now();
        let (mut begun, mut computed) = (begin, begin);
        let mut compute = Some(compute);
        round(&mut || {
            let Some(compute) = compute.take() else { return };
            begun = Instant::now();
            compute();
            computed = Instant::now();
        })?;
        Ok(Lap { begin, begun, computed, end: Instant::now() })
    }

    /// The time in the calls.
    pub(crate) fn calls(self) -> Duration {
        (self.begun - self.begin) + self.wait()
    }

    /// The time in the wait.
    pub(crate) fn wait(self) -> Duration {
        self.end - self.computed
    }
}

/// The ranks' side of every exchange.
pub(crate) fn serve(
    world: &World,
    command: &BlockCommand,
    clock: Clock,
    calls: ExchangeCalls,
) -> Result<BlockAnswer, RankError> {
    match calls {
        ExchangeCalls::Isend => measure(world, command, clock, &mut Messages::new(world, command)?),
        ExchangeCalls::Blocking => {
            measure(world, command, clock, &mut GridExchange::new(world, command)?)
        }
        ExchangeCalls::Persistent if command.allocated => {
            measure(world, command, clock, &mut DirectExchange::new(world, command)?)
        }
        ExchangeCalls::Persistent => {
            measure(world, command, clock, &mut PersistentExchange::new(world, command)?)
        }
    }
}

fn measure(
    world: &World,
    command: &BlockCommand,
    clock: Clock,
    exchange: &mut impl RepeatableExchange,
) -> Result<BlockAnswer, RankError> {
    check(world, exchange)?;
    match clock {
        Clock::Whole => halo::whole(world, command, exchange),
        Clock::Wait => late::laps(world, command, exchange, Lap::wait),
        Clock::Calls => late::laps(world, command, exchange, Lap::calls),
        Clock::Processor => late::processor(world, command, exchange),
        Clock::Late => late::late(world, command, exchange),
    }
}

/// Makes one exchange of marked blocks and checks the result. All ranks agree on the answer, so
/// that none continues alone to the measurement.
fn check(world: &World, exchange: &mut impl RepeatableExchange) -> Result<(), RankError> {
    let ring = RingNeighbours::new(world);
    let (to_left, to_right) = exchange.outgoing();
    to_left.fill(mark(ring.rank, 0));
    to_right.fill(mark(ring.rank, 1));
    exchange.exchange(|| {})?;
    let (from_left, from_right) = exchange.incoming();
    // The right block of the left neighbour comes from the left.
    let right = from_left.iter().all(|byte| *byte == mark(ring.left, 1))
        && from_right.iter().all(|byte| *byte == mark(ring.right, 0));
    let mut all = [u32::from(right)];
    world.allreduce(&mut all, Op::Min)?;
    match all {
        [0] => Err(RankError::Command("an exchange brought a wrong block".into())),
        _ => Ok(()),
    }
}

/// The content of the block that `rank` sends to its left (0) or right (1); never zero.
fn mark(rank: u32, side: u32) -> u8 {
    (1 + (2 * rank + side) % 127) as u8
}

/// The two blocks of a set.
fn halves(set: &mut [u8]) -> (&mut [u8], &mut [u8]) {
    set.split_at_mut(set.len() / 2)
}

/// The two blocks of a set that has been received.
fn received(sets: &mut Sets) -> (&[u8], &[u8]) {
    let (left, right) = halves(sets.received());
    (left, right)
}

/// The exchange of two non-blocking receives, two non-blocking sends, and one wait for the four.
struct Messages<'w> {
    world: &'w World,
    ring: RingNeighbours,
    blocks: Sets,
}

impl<'w> Messages<'w> {
    fn new(world: &'w World, command: &BlockCommand) -> Result<Messages<'w>, RankError> {
        Ok(Messages {
            world,
            ring: RingNeighbours::new(world),
            blocks: Sets::in_turns(world, command, 2, 0)?,
        })
    }
}

impl RepeatableExchange for Messages<'_> {
    #[inline]
    fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Error> {
        let (world, ring) = (self.world, self.ring);
        let (send, receive) = self.blocks.both();
        let (to_left, to_right) = send.split_at(send.len() / 2);
        let (from_left, from_right) = receive.split_at_mut(receive.len() / 2);
        // The tag is the side on which a block leaves: two ranks are neighbours on both sides.
        let (leftward, rightward) = (TAG, TAG + 1);
        world.scope(|scope| {
            scope.irecv::<u8>(from_left, ring.left, rightward)?;
            scope.irecv::<u8>(from_right, ring.right, leftward)?;
            scope.isend::<u8>(to_left, ring.left, leftward)?;
            scope.isend::<u8>(to_right, ring.right, rightward)?;
            between();
            scope.wait_all()
        })?;
        self.blocks.turn();
        Ok(())
    }

    fn outgoing(&mut self) -> (&mut [u8], &mut [u8]) {
        halves(self.blocks.send())
    }

    fn incoming(&mut self) -> (&[u8], &[u8]) {
        received(&mut self.blocks)
    }
}

/// The exchange of one blocking call on a periodic grid of one dimension.
struct GridExchange {
    grid: Neighbourhood<Cartesian>,
    layouts: [Layout; 2],
    blocks: Sets,
}

impl GridExchange {
    fn new(world: &World, command: &BlockCommand) -> Result<GridExchange, RankError> {
        let mut blocks = Sets::in_turns(world, command, 2, 0)?;
        let bytes = blocks.send().len() / 2;
        let layouts = [Layout::contiguous(0, bytes), Layout::contiguous(bytes, bytes)];
        let grid = world.cartesian(&[world.size()], &[true], Reorder::Keep)?;
        let grid = grid.ok_or_else(|| RankError::Command("the grid leaves a rank out".into()))?;
        Ok(GridExchange { grid, layouts, blocks })
    }
}

impl RepeatableExchange for GridExchange {
    /// A blocking call has no middle: `between` runs after it.
    #[inline]
    fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Error> {
        let (send, receive) = self.blocks.both();
        self.grid.neighbour_alltoallw::<u8>(send, &self.layouts, receive, &self.layouts)?;
        self.blocks.turn();
        between();
        Ok(())
    }

    fn outgoing(&mut self) -> (&mut [u8], &mut [u8]) {
        halves(self.blocks.send())
    }

    fn incoming(&mut self) -> (&[u8], &[u8]) {
        received(&mut self.blocks)
    }
}

/// The edges of the ring for a persistent exchange: blocks to the left and to the right.
fn edges(ring: RingNeighbours, bytes: usize) -> Edges {
    let edge = |rank, block| Neighbour { rank, elements: block * bytes..(block + 1) * bytes };
    // With two ranks, the first edge of one is the first of the other: data that leaves to the left
    // comes from the right.
    Edges {
        destinations: vec![edge(ring.left, 0), edge(ring.right, 1)],
        sources: vec![edge(ring.right, 1), edge(ring.left, 0)],
        scheme: None,
    }
}

/// Start and wait of a persistent exchange from ordinary memory.
struct PersistentExchange {
    exchange: StagedExchange<u8>,
    blocks: Sets,
}

impl PersistentExchange {
    fn new(world: &World, command: &BlockCommand) -> Result<PersistentExchange, RankError> {
        let mut blocks = Sets::in_turns(world, command, 2, 0)?;
        let edges = edges(RingNeighbours::new(world), blocks.send().len() / 2);
        Ok(PersistentExchange { exchange: world.staged_exchange_init(&edges)?, blocks })
    }
}

impl RepeatableExchange for PersistentExchange {
    #[inline]
    fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Error> {
        let (send, receive) = self.blocks.both();
        self.exchange.start_from(send)?;
        between();
        self.exchange.wait_into(receive)?;
        self.blocks.turn();
        Ok(())
    }

    fn outgoing(&mut self) -> (&mut [u8], &mut [u8]) {
        halves(self.blocks.send())
    }

    fn incoming(&mut self) -> (&[u8], &[u8]) {
        received(&mut self.blocks)
    }
}

/// The same between buffers that other ranks access, which alternate for fresh data.
struct DirectExchange {
    exchange: Shared<u8>,
}

impl DirectExchange {
    fn new(world: &World, command: &BlockCommand) -> Result<DirectExchange, RankError> {
        let bytes = command.bytes.saturating_mul(2);
        let buffer = || MeasuredBuffer::new(world, command.allocated, bytes, 0);
        let (MeasuredBuffer::Allocated(one), MeasuredBuffer::Allocated(other)) =
            (buffer()?, buffer()?)
        else {
            return Err(RankError::Command("buffers of an exchange are allocated".into()));
        };
        let edges = edges(RingNeighbours::new(world), one.len() / 2);
        let exchange = match command.data {
            DataReuse::Fresh => world.exchange_turning_init(&edges, one, other)?,
            DataReuse::Warm => world.exchange_init(&edges, one, other)?,
        };
        Ok(DirectExchange { exchange })
    }
}

impl RepeatableExchange for DirectExchange {
    #[inline]
    fn exchange(&mut self, between: impl FnOnce()) -> Result<(), Error> {
        self.exchange.start()?;
        between();
        self.exchange.wait()
    }

    fn outgoing(&mut self) -> (&mut [u8], &mut [u8]) {
        halves(self.exchange.outgoing_mut().unwrap_or_default())
    }

    fn incoming(&mut self) -> (&[u8], &[u8]) {
        let blocks = self.exchange.incoming().unwrap_or_default();
        blocks.split_at(blocks.len() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_the_calls_leaves_the_computing_out() {
        let begin = Instant::now();
        let after = |us| begin + Duration::from_micros(us);
        let lap = Lap { begin, begun: after(2), computed: after(52), end: after(53) };
        assert_eq!(lap.calls(), Duration::from_micros(3));
        assert_eq!(lap.wait(), Duration::from_micros(1));
    }

    #[test]
    fn no_two_blocks_of_neighbours_are_marked_alike() {
        let marks: Vec<u8> = (0..8).flat_map(|rank| [mark(rank, 0), mark(rank, 1)]).collect();
        for (place, one) in marks.iter().enumerate() {
            assert!(*one != 0 && !marks[..place].contains(one));
        }
    }
}
