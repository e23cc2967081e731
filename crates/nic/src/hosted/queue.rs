//! Command queues. The rank that advances a scheduling pointer runs the commands that it released
//! (a design decision).
//!
//! ```text
//!   rank A, first                  rank B, later
//!   post [RTR, SD]                 post [RTR, SD]
//!     RTR: B's queue + 2             RTR: A's queue + 2 ──► A's queue can run: B runs it
//!     SD waits                         A's SD: copy from A's region to B's, B's arrivals + 1
//!   (computes, or sleeps)            SD: copy from B's region to A's, A's arrivals + 1
//! ```
//!
//! A command consists of plain copies and atomics in memory that every rank has mapped, so only the
//! last rank to arrive spends processor time. A queue that becomes runnable meanwhile is put on a
//! work list, never on the stack.
//!
//! Order on the list: commands that move no bytes go first, since other ranks wait for them. Of the
//! large copies, those that bring bytes to this rank go before those that take bytes away, which
//! the receiver may meanwhile fetch itself. While a queue waits on the list no rank holds it.
//!
//! Everything in a queue was written by another process and is checked before use: ranks, queues,
//! generations, offsets, lengths. The number of commands that one call runs is bounded. A queue
//! whose runner died is not taken over: it is unknown how far its command got.

use std::collections::VecDeque;

use super::{Host, HostedPort, MissedStep};
use crate::fabric::{
    Completion, PeerFailure, PeerState, PostError, QueueAddress, QueueCombine, QueueCommand,
    QueueError, QueueFault, QueueId, QueueMode, QueuePort, QueuePut, QueueState, Rank,
    RemoteAddress, Space,
};
use crate::ring::{CommandQueue, GENERATION_MASK, LongStores, ReleaseError, Setup};
use crate::segment::Segment;
use crate::sync::{Ordering, compiler_fence};

/// Copies of at least this size are deferred until all smaller work is done.
const LARGE: u64 = 2048;

/// Limit of commands that one call runs, over all queues. Correct programs stay far below: each
/// command is written by its owner before it runs. The owners run the rest when they wait.
const MAX_COMMANDS: u32 = 1 << 16;

/// Bytes that are combined at a time: three pieces stay in the first-level cache.
const PIECE: usize = 4096;

/// Limit of consecutive polls that find nothing to run although a rank has requested a run.
const MAX_POLLS: u32 = 1 << 10;

/// The command queues of one rank, with the owner's own records, and the work list.
#[derive(Debug)]
pub(super) struct Queues {
    own: Vec<OwnQueue>,
    /// The number of the owner's next wait, from 1.
    waits: u64,
    /// Queues to run: those not polled yet, then those whose next command is a large copy.
    fresh: VecDeque<QueueAddress>,
    large: VecDeque<QueueAddress>,
}

/// Whether a queue is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum QueueUse {
    #[default]
    Free,
    Open,
    /// Free once its scheduling pointer is this far ahead.
    Retired {
        lead: i32,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct OwnQueue {
    stage: QueueUse,
    generation: u16,
    /// The number of completions reported.
    told: u64,
    /// Whether the fault was reported.
    told_fault: bool,
    /// The values that the owner last saw: commands run, arrivals, fault.
    seen: [u64; 3],
    /// The number of the owner's wait in which it saw them.
    seen_in: u64,
}

impl Queues {
    /// The given number of queues, all free.
    pub(super) fn new(queues: u32) -> Queues {
        let own = vec![OwnQueue::default(); queues as usize];
        Queues { own, waits: 1, fresh: VecDeque::new(), large: VecDeque::new() }
    }

    /// The number of queues that can still be created.
    pub(super) fn free(&self, own: &Segment<'static>) -> u32 {
        (0..self.own.len()).filter(|id| self.is_free(*id, own)).count() as u32
    }

    /// Whether a queue number is free. Closes a retired queue if that is possible.
    fn is_free(&self, id: usize, own: &Segment<'static>) -> bool {
        match self.own[id].stage {
            QueueUse::Free => true,
            QueueUse::Open => false,
            QueueUse::Retired { lead } => {
                own.queue(id as QueueId).is_none_or(|(queue, _)| queue.close(Some(lead)))
            }
        }
    }

    /// Whether a queue that its owner polls has changed since: for a rank about to sleep. A queue
    /// that this wait does not poll is ignored: its changes would keep the rank awake until the end
    /// of the wait.
    pub(super) fn have_moved(&self, own: &Segment<'static>) -> bool {
        let awaited = (0..).zip(&self.own).filter(|(_, known)| known.seen_in == self.waits);
        awaited.into_iter().any(|(id, known)| self.has_moved(own, id, known.seen))
    }

    /// Whether an open queue has other values than its owner has seen.
    pub(super) fn has_moved(&self, own: &Segment<'static>, id: QueueId, seen: [u64; 3]) -> bool {
        self.own[id as usize].stage == QueueUse::Open
            && own.queue(id).is_some_and(|(queue, _)| seen != progress(&queue))
    }

    /// Moves the queues polled in this wait, with the values seen, to the caller that polled them.
    pub(super) fn take_awaited(&mut self, into: &mut Vec<MissedStep>) {
        for (id, known) in (0..).zip(&mut self.own) {
            if known.seen_in == self.waits {
                known.seen_in = 0;
                into.push(MissedStep::Queue(id, known.seen));
            }
        }
    }

    /// Forgets which queues were polled: a rank that still waits polls again.
    pub(super) fn after_park(&mut self) {
        self.waits += 1;
    }

    /// Records the values that the owner found when it polled a queue.
    pub(super) fn see(&mut self, id: QueueId, seen: [u64; 3]) {
        let known = &mut self.own[id as usize];
        (known.seen, known.seen_in) = (seen, self.waits);
    }
}

/// The words that a waiting owner compares.
#[inline]
fn progress(queue: &CommandQueue<'_>) -> [u64; 3] {
    [queue.executed(), queue.arrivals(), queue.fault()]
}

/// A queue that this port runs.
struct RunningQueue<'q> {
    address: QueueAddress,
    queue: CommandQueue<'q>,
    /// Whether to defer a large copy.
    may_defer: bool,
}

impl<H: Host> QueuePort for HostedPort<H> {
    fn free_queues(&self) -> (u32, u32) {
        (self.queues.free(&self.own), self.own.layout().queue_slots)
    }

    fn create_queue(&mut self, mode: QueueMode, slots: u32) -> Result<QueueAddress, QueueError> {
        let (queues, limit) = (self.own.layout().queues, self.own.layout().queue_slots);
        if slots == 0 || slots > limit {
            return Err(QueueError::Slots { wanted: slots, limit });
        }
        let free = (0..queues as usize).find(|id| self.queues.is_free(*id, &self.own));
        let Some(free) = free else { return Err(QueueError::NoneFree { queues }) };
        let known = &mut self.queues.own[free];
        let generation = known.generation.wrapping_add(1) & GENERATION_MASK;
        *known = OwnQueue { stage: QueueUse::Open, generation, ..OwnQueue::default() };
        let (session, offset) = match mode {
            QueueMode::Normal => (false, 0),
            QueueMode::Session { offset } => (true, offset),
        };
        let queue = free as QueueId;
        self.own.queue_pointers(queue).open(Setup { session, generation, slots }, offset);
        Ok(QueueAddress { rank: self.rank, queue, generation })
    }

    fn destroy_queue(&mut self, id: QueueId) -> Result<(), QueueError> {
        let queue = self.own_queue(id)?;
        self.check_standing(id, &queue)?;
        if queue.executed() != queue.written() || !queue.close(None) {
            return Err(QueueError::Busy { queue: id });
        }
        self.queues.own[id as usize].stage = QueueUse::Free;
        Ok(())
    }

    fn post_queue(&mut self, id: QueueId, chain: &[QueueCommand]) -> Result<(), QueueError> {
        self.doorbells += 1;
        let queue = self.own_queue(id)?;
        self.check_standing(id, &queue)?;
        queue.write_each(chain.iter().map(|command| command.encode()))?;
        self.run(self.own_address(id));
        Ok(())
    }

    #[inline]
    fn repeat_queue(&mut self, id: QueueId, count: u32) -> Result<(), QueueError> {
        self.doorbells += 1;
        let queue = self.own_queue(id)?;
        self.check_standing(id, &queue)?;
        queue.repeat(u64::from(count))?;
        self.run(self.own_address(id));
        Ok(())
    }

    fn release_queue(&mut self, address: QueueAddress, slots: u32) -> Result<(), QueueError> {
        let QueueAddress { rank, queue: id, .. } = address;
        let queue = self.find_queue(address).ok_or(QueueError::NoSuchQueue { rank, queue: id })?;
        self.go(rank, 0);
        queue.release(slots)?;
        self.run(address);
        Ok(())
    }

    #[inline]
    fn help_queue(&mut self, address: QueueAddress) {
        let Some(queue) = self.find_queue(address) else { return };
        if self.is_conducted() || !queue.enter_to_help(self.rank) {
            return;
        }
        let mut budget = MAX_COMMANDS;
        self.run_queue(RunningQueue { address, queue, may_defer: false }, &mut budget);
        self.run_list(budget);
    }

    #[inline]
    fn queue_state(&mut self, address: QueueAddress) -> Result<QueueState, QueueError> {
        let QueueAddress { rank, queue: id, .. } = address;
        let queue = self.find_queue(address).ok_or(QueueError::NoSuchQueue { rank, queue: id })?;
        let seen = progress(&queue);
        let [executed, arrivals, _] = seen;
        if rank == self.rank {
            self.queues.see(id, seen);
        }
        let (written, ahead) = (queue.written(), queue.ahead_of(executed));
        Ok(QueueState { written, executed, ahead, arrivals, fault: self.fault_of(&queue) })
    }

    fn retire_queue(&mut self, id: QueueId, rounds: u64, lead: u32) {
        let Ok(queue) = self.own_queue(id) else { return };
        queue.fail(QueueFault::Retired { rounds: rounds as u32 }.to_word());
        let lead = i32::try_from(lead).unwrap_or(i32::MAX);
        self.queues.own[id as usize].stage = QueueUse::Retired { lead };
    }

    fn abandon_queue(&mut self, id: QueueId, missing: Rank, tell: &[Rank]) {
        let Ok(queue) = self.own_queue(id) else { return };
        queue.fail(QueueFault::Abandoned { rank: missing }.to_word());
        // Regardless of their doorbells: this happens once, and they may be about to sleep.
        tell.iter().filter(|rank| **rank < self.size).for_each(|rank| self.host.wake(*rank));
    }
}

/// The completion queue of paper 002 (TCQ), for programs: no layer of hikyaku uses it.
impl<H: Host> HostedPort<H> {
    /// The next completion of a queue of this rank; `None`: there is none now.
    pub fn completion(&mut self, id: QueueId) -> Option<Completion> {
        let queue = self.own_queue(id).ok()?;
        let seen = progress(&queue);
        let [executed, ..] = seen;
        self.queues.see(id, seen);
        let fault = self.fault_of(&queue);
        let known = &mut self.queues.own[id as usize];
        if known.told < executed {
            known.told += 1;
            return Some(Completion { index: known.told - 1, outcome: Ok(()) });
        }
        let fault = fault.filter(|_| !known.told_fault)?;
        known.told_fault = true;
        Some(Completion { index: executed, outcome: Err(fault) })
    }
}

impl<H: Host> HostedPort<H> {
    fn own_address(&self, queue: QueueId) -> QueueAddress {
        let generation = self.queues.own[queue as usize].generation;
        QueueAddress { rank: self.rank, queue, generation }
    }

    /// A queue that this rank has created.
    #[inline]
    fn own_queue(&self, id: QueueId) -> Result<CommandQueue<'static>, QueueError> {
        let known = self.queues.own.get(id as usize).filter(|known| known.stage == QueueUse::Open);
        let found = known.and_then(|_| self.own.queue(id));
        let absent = QueueError::NoSuchQueue { rank: self.rank, queue: id };
        found.map(|(queue, _)| queue).ok_or(absent)
    }

    /// A queue by its address, if it is open and of that generation.
    #[inline]
    fn find_queue(&self, address: QueueAddress) -> Option<CommandQueue<'static>> {
        let peer = self.peers.get(address.rank as usize)?;
        if !self.host.is_here(address.rank) {
            return None;
        }
        let (queue, setup) = peer.target.queue(address.queue)?;
        (setup.generation == address.generation).then_some(queue)
    }

    /// Returns an error if the queue has stopped for good.
    #[inline]
    fn check_standing(&self, id: QueueId, queue: &CommandQueue<'_>) -> Result<(), QueueError> {
        let failed = |fault| Err(QueueError::Failed { queue: id, fault });
        self.fault_of(queue).map_or(Ok(()), failed)
    }

    /// The reason why a queue has stopped: its own fault word, or the death of its runner.
    #[inline]
    fn fault_of(&self, queue: &CommandQueue<'_>) -> Option<QueueFault> {
        let word = queue.fault();
        if word != 0 {
            return QueueFault::from_word(word);
        }
        let runner = queue.runner()?;
        match self.death_of(runner) {
            // A runner that is not a rank cannot be waited for.
            None if runner >= self.size => Some(QueueFault::NoSuchRank { index: 0 }),
            death => death.map(QueueFault::RunnerDied),
        }
    }

    fn death_of(&self, rank: Rank) -> Option<PeerFailure> {
        if rank >= self.size || self.host.registry().ends() == 0 {
            return None;
        }
        match self.host.state_of(rank) {
            PeerState::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Runs a queue that may have become runnable, and all queues that become runnable thereby.
    #[inline]
    fn run(&mut self, first: QueueAddress) {
        if let Some(conductor) = self.host.conductor() {
            return conductor.run(first);
        }
        self.queues.fresh.push_back(first);
        self.run_list(MAX_COMMANDS);
    }

    fn run_list(&mut self, mut budget: u32) {
        while budget > 0 {
            let queues = &mut self.queues;
            let (next, may_defer) = match queues.fresh.pop_front() {
                Some(address) => (address, true),
                None => match queues.large.pop_front() {
                    Some(address) => (address, false),
                    None => return,
                },
            };
            let Some(queue) = self.find_queue(next) else { continue };
            if queue.enter(self.rank) {
                self.run_queue(RunningQueue { address: next, queue, may_defer }, &mut budget);
            }
        }
        self.queues.fresh.clear();
        self.queues.large.clear();
    }

    /// Runs a queue that this rank has entered, until none of its commands can run.
    #[inline]
    fn run_queue(&mut self, mut run: RunningQueue<'static>, budget: &mut u32) {
        let mut polls = MAX_POLLS;
        let before = run.queue.executed();
        let left = loop {
            while let Some(descriptor) = run.queue.next() {
                let command = QueueCommand::decode(descriptor);
                if run.may_defer && self.put_off(&run, command) {
                    return;
                }
                run.may_defer = command.is_some_and(|command| command.length() >= LARGE);
                let index = run.queue.executed() as u32;
                match self.perform(run.address, index, command) {
                    Ok(()) => run.queue.complete(),
                    Err(fault) => run.queue.fail(fault.to_word()),
                }
                *budget = budget.saturating_sub(1);
                if *budget == 0 {
                    break;
                }
            }
            polls -= 1;
            if *budget == 0 || polls == 0 {
                run.queue.put_off();
                break false;
            }
            if run.queue.leave() {
                break true;
            }
        };
        let moved = !left || run.queue.executed() != before || run.queue.fault() != 0;
        if moved && run.address.rank != self.rank {
            self.alert(run.address.rank);
        }
    }

    /// Defers a queue whose next command is a large copy until the rest of the list is done, if
    /// there is a rest. Returns whether it did.
    fn put_off(&mut self, run: &RunningQueue<'_>, command: Option<QueueCommand>) -> bool {
        let queues = &mut self.queues;
        let alone = queues.fresh.is_empty() && queues.large.is_empty();
        let Some(QueueCommand::Put(put)) = command else { return false };
        if alone || put.length < LARGE {
            return false;
        }
        if put.to.rank == self.rank {
            queues.large.push_front(run.address);
        } else {
            queues.large.push_back(run.address);
        }
        run.queue.put_off();
        true
    }

    /// Runs one command.
    #[inline]
    fn perform(
        &mut self,
        owner: QueueAddress,
        index: u32,
        command: Option<QueueCommand>,
    ) -> Result<(), QueueFault> {
        let put = match command {
            None => return Err(QueueFault::Malformed { index }),
            Some(QueueCommand::Nop) => return Ok(()),
            Some(QueueCommand::Combine(combine)) => {
                let rank = owner.rank;
                let combined = self.combine(rank, &combine);
                return combined.ok_or(QueueFault::OutOfBounds { index, rank });
            }
            Some(QueueCommand::Put(put)) => put,
        };
        if put.to.rank >= self.size {
            return Err(QueueFault::NoSuchRank { index });
        }
        match self.host.ship(owner, index, &put) {
            Some(shipped) => shipped,
            None => self.land(owner.rank, index, &put, None),
        }
    }

    /// Combines elements of a rank's region. `None`: a range is not inside the region; nothing
    /// outside was accessed.
    fn combine(&self, rank: Rank, combine: &QueueCombine) -> Option<()> {
        let QueueCombine { left, right, into, length, combining } = *combine;
        let address = |offset| RemoteAddress { rank, space: Space::Region, offset };
        let region = self.host.region_bytes();
        let inside = |at: u64| at.checked_add(length).is_some_and(|end| end <= region);
        if ![left, right, into].into_iter().all(inside) {
            return None;
        }
        let (mut lefts, mut rights) = ([0; PIECE], [0; PIECE]);
        for start in (0..length).step_by(PIECE) {
            let piece = (length - start).min(PIECE as u64) as usize;
            let (lefts, rights) = (&mut lefts[..piece], &mut rights[..piece]);
            self.host.read(address(left + start), lefts).ok()?;
            self.host.read(address(right + start), rights).ok()?;
            combining.combine(lefts, rights);
            self.host.write(address(into + start), rights, LongStores::Cached).ok()?;
        }
        Some(())
    }

    /// Lands a put of a command queue that was [shipped](Host::ship) and has arrived with its
    /// payload. Then runs the commands that it released. If it cannot land, its queue stops.
    pub fn land_put(&mut self, from: QueueAddress, index: u32, put: &QueuePut, payload: &[u8]) {
        match self.land(from.rank, index, put, Some(payload)) {
            Ok(()) => self.run_list(MAX_COMMANDS),
            Err(fault) => {
                if let Some(queue) = self.find_queue(from) {
                    queue.fail(fault.to_word());
                }
            }
        }
    }

    /// Lands one put: payload, then notification, then release.
    #[inline]
    fn land(
        &mut self,
        owner: Rank,
        index: u32,
        put: &QueuePut,
        payload: Option<&[u8]>,
    ) -> Result<(), QueueFault> {
        let QueuePut { from, at, length, to, notify, release } = *put;
        let rank = to.rank;
        let Some(target) = self.find_queue(to) else {
            return Err(QueueFault::NoSuchQueue { index, rank });
        };
        if length > 0 {
            // A stopped queue expects nothing, and its memory may have been reused by now.
            if let Some(fault) = QueueFault::from_word(target.fault()) {
                return Err(match fault {
                    QueueFault::Abandoned { .. } => fault,
                    _ => QueueFault::NoSuchQueue { index, rank },
                });
            }
            let address = |rank, offset| RemoteAddress { rank, space: Space::Region, offset };
            let (to, bytes) = (address(rank, at), usize::try_from(length).unwrap_or(usize::MAX));
            let storing = self.begin_store(rank, bytes);
            let copied = match payload {
                Some(payload) => self.host.write(to, payload, storing.way),
                None => self.host.copy_between(address(owner, from), to, length, storing.way),
            };
            if copied.is_ok() {
                self.end_store(rank, bytes, storing);
            }
            copied.map_err(|error| match error {
                PostError::OutOfBounds { rank, .. } => QueueFault::OutOfBounds { index, rank },
                _ => QueueFault::Refused { index, rank },
            })?;
        }
        if notify {
            target.notify();
            if rank != self.rank {
                self.alert(rank);
            }
        }
        if release > 0 {
            target.release(release).map_err(|error| match error {
                ReleaseError::TooFarAhead => QueueFault::TooFarAhead { index, rank },
                ReleaseError::Closed => QueueFault::NoSuchQueue { index, rank },
            })?;
            self.queues.fresh.push_back(to);
        }
        Ok(())
    }

    /// Wakes a sleeping rank: an event that it may wait for has happened.
    #[inline]
    pub(super) fn alert(&self, rank: Rank) {
        // As for a message: the sleeper executes the barrier (see `Host::wait`).
        compiler_fence(Ordering::SeqCst);
        let doorbell = self.peers[rank as usize].target.doorbell();
        if doorbell.sleeping.load(Ordering::Relaxed) != 0 {
            self.host.wake(rank);
        }
    }
}

#[cfg(test)]
mod tests;
