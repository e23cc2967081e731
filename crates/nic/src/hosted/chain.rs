//! Chains: commands behind one doorbell (paper 004's TCW chain, CP-06).
//!
//! Each command of a chain has the checks and the effects of a single one, in order. The work that
//! a single command does once for itself, a chain does once for a stretch of commands:
//!
//! ```text
//!   prefetch  the lines that the puts write
//!   enter     odd epoch at all ranks whose segments the stretch uses; one fence
//!   execute   command by command: tables, room, credit, bytes, word or record
//!   leave     even epochs
//!   wake      each rank that has something to poll, if it sleeps
//! ```
//!
//! A processor's stores become visible in order, so each store waits for the line of the store
//! before it. The prefetches fetch these lines in parallel, which fences would prevent.
//!
//! An owner that deregisters a segment waits for an odd epoch to change (`table/segment.rs`); so do
//! moving a ring (`route.rs`) and repair (`repair.rs`). So a stretch is bounded, in commands and in
//! bytes. Credit needs no such bound: a sender reads it only when it has used up all credit that it
//! knows of.

use super::remote::{checked_by_table, length_of};
use super::{Host, HostedPort};
use crate::fabric::{ChainError, Command, Notification, Operation, Rank, Rights, Space};
use crate::sync::prefetch_for_write;
use crate::table::segment;

/// Limit of commands of a stretch.
const STRETCH_COMMANDS: usize = 256;

/// Limit of bytes of a stretch of several commands.
const STRETCH_BYTES: u64 = 1 << 16;

/// Limit of lines of a stretch that are prefetched before its first command.
const PREFETCHED_LINES: usize = 64;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// A chain's state at a peer for one stretch of commands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stretch {
    /// The peer is among those of the stretch: it is woken at the end if necessary.
    is_open: bool,
    /// This rank's epoch at the peer stays odd.
    is_inside: bool,
    /// The peer has something to poll.
    must_wake: bool,
}

impl Stretch {
    /// Whether this rank's epoch at the peer is odd from the first to the last command.
    #[inline]
    pub(super) fn is_inside(self) -> bool {
        self.is_inside
    }

    /// Notes that the peer has something to poll. Returns whether it will be woken later.
    #[inline]
    pub(super) fn delay_wake(&mut self) -> bool {
        self.must_wake = self.is_open;
        self.is_open
    }
}

impl<H: Host> HostedPort<H> {
    /// Executes the commands of a chain in order, from the one at `first` on.
    pub(super) fn execute_chain(
        &mut self,
        chain: &[Command<'_>],
        first: usize,
    ) -> Result<(), ChainError> {
        let mut done = first;
        while done < chain.len() {
            let end = done + stretch_of(&chain[done..]);
            let ranks = self.enter_stretch(&chain[done..end]);
            let executed = (done..end).try_for_each(|at| self.execute_link(&chain[at], at));
            self.leave_stretch(ranks);
            executed?;
            done = end;
        }
        Ok(())
    }

    /// Executes the command at `done` of a chain.
    pub(super) fn execute_link(
        &mut self,
        command: &Command<'_>,
        done: usize,
    ) -> Result<(), ChainError> {
        let posted = command.post_whole(|rest| self.execute(rest));
        posted.map_err(|(bytes, error)| self.cut_chain(command, (done, bytes), error))
    }

    /// Prepares a stretch of commands. Returns the ranks that they access, each once.
    fn enter_stretch(&mut self, commands: &[Command<'_>]) -> Vec<Rank> {
        let mut ranks = std::mem::take(&mut self.stretch);
        // In virtual time other ranks may run in the middle of a command.
        if !self.is_conducted() && commands.len() > 1 {
            self.prefetch(commands);
            commands.iter().for_each(|command| self.list_ranks(command, &mut ranks));
        }
        let inside = ranks.iter().map(|rank| &self.peers[*rank as usize]);
        let inside = inside.filter(|peer| peer.stretch.is_inside);
        segment::enter(inside.map(|peer| peer.next_epoch(self.rank)));
        ranks
    }

    /// Prefetches the first lines that the puts will write, so that they are fetched in parallel.
    fn prefetch(&self, commands: &[Command<'_>]) {
        let mut left = PREFETCHED_LINES;
        for command in commands {
            let Operation::Put(target) = command.operation else { continue };
            if matches!(target.space, Space::Process | Space::Register(_)) {
                continue;
            }
            let bytes = length_of(command);
            let is_known = target.rank < self.size && self.host.is_here(target.rank);
            let place = is_known.then(|| self.locate(target, bytes, Rights::WRITE));
            let Some(Ok(place)) = place else { continue };
            if self.within_region(place, bytes).is_err() {
                continue;
            }
            for at in (place.offset & !(LINE - 1)..place.offset + bytes).step_by(LINE as usize) {
                if left == 0 {
                    return;
                }
                left -= 1;
                if let Some(word) = self.host.word64(place.rank, at) {
                    prefetch_for_write(std::ptr::from_ref(word));
                }
            }
        }
    }

    /// Adds the ranks of this host whose memory a command accesses.
    fn list_ranks(&mut self, command: &Command<'_>, ranks: &mut Vec<Rank>) {
        let mut list = |rank: Rank, is_inside: bool| {
            if rank >= self.size || !self.host.is_here(rank) {
                return;
            }
            let stretch = &mut self.peers[rank as usize].stretch;
            if !stretch.is_open {
                *stretch = Stretch { is_open: true, ..Stretch::default() };
                ranks.push(rank);
            }
            stretch.is_inside |= is_inside;
        };
        list(command.destination, false);
        let target = match command.operation {
            Operation::Put(target) => target,
            Operation::Get(get) => get.from,
            Operation::Atomic(atomic) => atomic.target,
            Operation::Send | Operation::Nop => return,
        };
        list(target.rank, checked_by_table(target).is_some());
        if let Notification::Word { address, .. } = command.notification {
            list(address.rank, checked_by_table(address).is_some());
        }
    }

    /// Finishes a stretch, however many of its commands were executed.
    fn leave_stretch(&mut self, mut ranks: Vec<Rank>) {
        for rank in &ranks {
            let peer = &mut self.peers[*rank as usize];
            let stretch = std::mem::take(&mut peer.stretch);
            if stretch.is_inside {
                peer.leave(self.rank);
            }
            if stretch.must_wake {
                self.ring_doorbell_of(*rank);
            }
        }
        ranks.clear();
        self.stretch = ranks;
    }
}

/// The number of commands in the first stretch of a chain.
fn stretch_of(chain: &[Command<'_>]) -> usize {
    let mut bytes = 0_u64;
    let fits = |command: &&Command<'_>| {
        bytes = bytes.saturating_add(length_of(command));
        bytes <= STRETCH_BYTES
    };
    chain.iter().take(STRETCH_COMMANDS).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Event, Key, MemoryPort, Port, PostError, RemoteAddress, Rights, Space};
    use crate::loopback::{LoopbackConfig, LoopbackPort, open};
    use crate::sync::Ordering;

    /// Three ranks, and a key for 64 KiB of each.
    fn job() -> (Vec<LoopbackPort>, Vec<Key>) {
        let mut ports = open(&LoopbackConfig::for_ranks(3)).unwrap();
        let register = |port: &mut LoopbackPort| {
            let context = port.open_context().unwrap();
            port.register(context, 0, 1 << 16, Rights::ALL).unwrap()
        };
        let keys = ports.iter_mut().map(register).collect();
        (ports, keys)
    }

    fn at(keys: &[Key], rank: Rank, offset: u64) -> RemoteAddress {
        RemoteAddress { rank, space: Space::Segment(keys[rank as usize]), offset }
    }

    /// Rank 0's epoch at a rank.
    fn epoch(ports: &[LoopbackPort], rank: Rank) -> u64 {
        ports[rank as usize].own.sender(0).epoch.load(Ordering::Relaxed)
    }

    /// The number of times that a rank was woken; marks it as sleeping.
    fn wakes(ports: &[LoopbackPort], rank: Rank) -> u64 {
        let doorbell = ports[rank as usize].own.doorbell();
        doorbell.sleeping.store(1, Ordering::Relaxed);
        doorbell.wakes.load(Ordering::Relaxed)
    }

    #[test]
    fn cp_06_puts_of_a_chain_enter_each_rank_once() {
        let (mut ports, keys) = job();
        let data = [7; 64];
        let put = |n: u64| {
            let rank = 1 + n as u32 % 2;
            let notification = Notification::Word { address: at(&keys, rank, 1024), value: n };
            Command { notification, ..Command::put(at(&keys, rank, 64 * n / 2), &data) }
        };
        let puts: Vec<_> = (0..32).map(put).collect();
        let seen =
            |ports: &[LoopbackPort]| [1, 2].map(|rank| (epoch(ports, rank), wakes(ports, rank)));
        assert_eq!(seen(&ports), [(0, 0); 2]);
        ports[0].post_chain(&puts).unwrap();
        assert_eq!(seen(&ports), [(2, 1); 2], "one access and one wake-up at each");
        puts.iter().for_each(|put| assert_eq!(ports[0].post(put), Ok(64)));
        assert_eq!(seen(&ports), [(2 + 32, 1 + 16); 2], "each one for itself");
    }

    #[test]
    fn cp_06_sends_of_a_chain_wake_each_rank_once() {
        let (mut ports, keys) = job();
        let payload = [3; 1000];
        let send = |n: u64| Command::send(1 + n as u32 % 2, 0, n, &payload[..n as usize * 60]);
        let mut chain: Vec<_> = (0..16).map(send).collect();
        // Between them a command that keeps the epoch odd, and one that leaves a record.
        chain.insert(5, Command::put(at(&keys, 1, 8), &payload));
        let notification = Notification::Status;
        chain.insert(9, Command { notification, ..Command::put(at(&keys, 1, 16), &payload) });
        let before = [1, 2].map(|rank| wakes(&ports, rank));
        ports[0].post_chain(&chain).unwrap();
        assert_eq!([1, 2].map(|rank| wakes(&ports, rank)), before.map(|wakes| wakes + 1));
        assert_eq!(epoch(&ports, 1), 2, "one access, sends and record within it");
        for (rank, told) in [(1, 1), (2, 0)] {
            let mut headers = Vec::new();
            let mut notified = 0;
            while let Some(event) = ports[rank].poll() {
                match event {
                    Event::Landed(landed) => headers.push(landed.header),
                    _ => notified += 1,
                }
            }
            let mut once = headers.clone();
            once.dedup();
            assert_eq!(once, Vec::from_iter((rank as u64 - 1..16).step_by(2)), "in order");
            assert_eq!(notified, told);
        }
    }

    #[test]
    fn a_chain_that_is_cut_leaves_and_wakes() {
        let (mut ports, keys) = job();
        let before = [1, 2].map(|rank| wakes(&ports, rank));
        let put = |rank, offset| {
            let notification = Notification::Word { address: at(&keys, rank, 0), value: 1 };
            Command { notification, ..Command::put(at(&keys, rank, offset), &[1; 8]) }
        };
        let chain = [put(1, 8), put(2, 1 << 16), put(1, 16), Command::nop(3)];
        let cut = ports[0].post_chain(&chain).unwrap_err();
        assert!(matches!(cut, ChainError { done: 1, error: PostError::OutOfBounds { .. }, .. }));
        assert_eq!([epoch(&ports, 1), epoch(&ports, 2)], [2, 2], "it is inside of neither");
        assert_eq!([1, 2].map(|rank| wakes(&ports, rank)), [before[0] + 1, before[1]]);
        assert_eq!(ports[0].post(&put(1, 24)), Ok(8));
        assert_eq!(epoch(&ports, 1), 4);
        assert_eq!(ports[1].deregister(keys[1]), Ok(()));
    }

    #[test]
    fn a_chain_to_the_end_of_addresses_is_an_error() {
        let (mut ports, keys) = job();
        let offset = u64::MAX - 10;
        for space in [Space::Region, Space::Segment(keys[1]), Space::Process] {
            let target = RemoteAddress { rank: 1, space, offset };
            let puts = [Command::put(target, &[1; 64]), Command::put(target, &[1; 5])];
            let cut = ports[0].post_chain(&puts).unwrap_err();
            assert_eq!((cut.done, cut.bytes), (0, 0), "{:?}", cut.error);
        }
    }

    #[test]
    fn a_long_chain_lets_the_owner_take_its_memory_back() {
        let (mut ports, keys) = job();
        let data = vec![5; 40 << 10];
        let puts = [Command::put(at(&keys, 1, 0), &data); 5];
        ports[0].post_chain(&puts).unwrap();
        assert_eq!(epoch(&ports, 1), 10, "two do not fit one stretch");
        let small = vec![Command::put(at(&keys, 1, 0), &[]); 3 * STRETCH_COMMANDS];
        ports[0].post_chain(&small).unwrap();
        assert_eq!(epoch(&ports, 1), 16);
    }
}
