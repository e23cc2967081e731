//! The conductor's side of a job in virtual time: it gives turns to ranks, and takes their deeds.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hikyaku_nic::fabric::{FullCause, PeerState, Rank};
use hikyaku_nic::hosted::{
    ActionOutbox, ConductorAnswer, ConductorRequest, Deed, HostedPort, Registry,
};
use hikyaku_nic::sync::Ordering;
use hikyaku_nic::time::Time;
use rustix::fs::fstat;
use rustix::thread::futex::Timespec;

use super::interface::InterfaceHost;
use super::line::{LineCosts, Tally};
use super::log;
use crate::mapping::Mapping;
use crate::watch;

/// Longest sleep between checks of whether the running rank has died, or the job is over.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Timeout for the end of a process that has left the job. An interpreter takes some hundredths of
/// a second.
const END_SOON: Duration = Duration::from_millis(100);

/// A rank that has yielded its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handed {
    /// The rank's own time.
    pub now: Time,
    /// Its request. A dead rank that has made none counts as leaving.
    pub request: ConductorRequest,
}

/// A job's ranks, as the conductor sees them.
#[derive(Debug)]
pub struct Stage {
    mapping: Arc<Mapping>,
    bounds: Arc<CopyBounds>,
}

/// Limits the copies of interfaces: an invalid command may contain a length up to that of a region.
#[derive(Debug)]
pub(crate) struct CopyBounds {
    over: AtomicBool,
    memory: OwnedFd,
}

impl CopyBounds {
    /// Committed bytes of the job's memory, of all ranks together: the limit of a payload.
    pub(crate) fn committed(&self) -> u64 {
        const BLOCK: u64 = 512;
        fstat(&self.memory).map_or(u64::MAX, |file| file.st_blocks.unsigned_abs() * BLOCK)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl Stage {
    pub(crate) fn new(mapping: Mapping, memory: OwnedFd) -> Stage {
        let bounds = Arc::new(CopyBounds { over: AtomicBool::new(false), memory });
        Stage { mapping: Arc::new(mapping), bounds }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.mapping.plan().config.ranks
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: Rank) -> u32 {
        rank / self.mapping.plan().config.ranks_per_node
    }

    /// Bytes of the job's memory for each rank.
    pub fn rank_bytes(&self) -> u64 {
        self.mapping.plan().total as u64 / u64::from(self.ranks())
    }

    /// The state of every rank.
    pub fn registry(&self) -> Registry<'_> {
        self.mapping.registry()
    }

    /// Sets the costs that ranks are charged. Call it before any rank starts.
    pub fn set_costs(&self, costs: &LineCosts) {
        (0..self.ranks()).for_each(|rank| self.mapping.line(rank).set_costs(costs));
    }

    /// The port through which a rank's interface lands the rank's sends.
    pub fn interface(&self, rank: Rank, outbox: &ActionOutbox) -> HostedPort<InterfaceHost> {
        let (mapping, bounds) = (Arc::clone(&self.mapping), Arc::clone(&self.bounds));
        HostedPort::new(InterfaceHost { mapping, bounds, rank, outbox: outbox.clone() })
    }

    /// Gives the turn to a rank, at time `now`.
    pub fn give(&self, rank: Rank, now: Time, answer: ConductorAnswer) {
        self.mapping.line(rank).give(now, answer);
    }

    /// Sleeps until a rank has yielded its turn, or died.
    pub fn await_rank(&self, rank: Rank) -> Handed {
        let line = self.mapping.line(rank);
        loop {
            if let Some((now, request)) = line.asked() {
                return Handed { now, request };
            }
            if self.is_over() || !self.is_there(rank) {
                // Returns its last request if it made one; otherwise it ended without a request.
                let gone = Handed { now: line.tally().now, request: ConductorRequest::Leave };
                return line.asked().map_or(gone, |(now, request)| Handed { now, request });
            }
            line.await_request(POLL_INTERVAL);
        }
    }

    /// The request of a rank that waits for its turn.
    pub fn request(&self, rank: Rank) -> Option<Handed> {
        let asked = self.mapping.line(rank).asked();
        let handed = asked.map(|(now, request)| Handed { now, request });
        handed.filter(|handed| handed.request != ConductorRequest::Leave)
    }

    /// Waits, up to a timeout, for the end of the process of a rank that has left the job. While it
    /// runs it may still exit with its own error code. That error must be reported before those of
    /// the other ranks, which its leaving ends.
    pub fn see_end(&self, rank: Rank) {
        let pid = self.registry().pid(rank);
        if pid != 0 && pid != std::process::id() {
            watch::await_end(pid, END_SOON);
        }
    }

    /// Sleeps until any rank has yielded its turn. `None` when the job is over.
    pub fn await_any(&self, running: impl Fn(Rank) -> bool) -> Option<(Rank, Handed)> {
        loop {
            let seen = self.mapping.line(0).bell();
            if self.is_over() {
                return None;
            }
            let asked = |rank| Some((rank, self.mapping.line(rank).asked()?));
            let mut ranks = (0..self.ranks()).filter(|rank| running(*rank));
            if let Some((rank, (now, request))) = ranks.find_map(asked) {
                return Some((rank, Handed { now, request }));
            }
            self.mapping.line(0).await_bell(seen, POLL_INTERVAL);
        }
    }

    /// The number of ranks that have ever begun.
    pub fn ever_joined(&self) -> u32 {
        (0..self.ranks()).filter(|rank| self.mapping.line(*rank).has_begun()).count() as u32
    }

    /// Whether a rank is starting or running.
    pub fn is_there(&self, rank: Rank) -> bool {
        matches!(self.registry().state(rank), PeerState::Starting | PeerState::Running)
    }

    /// Takes the deeds of a rank since its last turn.
    pub fn take_deeds(&self, rank: Rank, into: &mut Vec<(Time, Deed)>) {
        let line = self.mapping.line(rank);
        let used = line.used.swap(0, Ordering::Relaxed);
        let used = usize::try_from(used).unwrap_or(usize::MAX).min(self.mapping.log_bytes());
        if used == 0 {
            return;
        }
        let mut bytes = vec![0; used];
        self.mapping.read_log(rank, &mut bytes);
        log::read(&bytes, into);
    }

    /// Leaves a datagram in the inbox of a rank that waits for its turn; `false`: it has no room.
    pub fn leave_datagram(&self, from: Rank, to: Rank, datagram: &[u8]) -> bool {
        let line = self.mapping.line(to);
        let used = line.arrived.load(Ordering::Relaxed) as usize;
        let bytes = log::arrived(from, datagram);
        let room = self.mapping.log_bytes().saturating_sub(used);
        if bytes.len() > room {
            return false;
        }
        self.mapping.write_inbox(to, used, &bytes);
        line.arrived.store((used + bytes.len()) as u64, Ordering::Relaxed);
        true
    }

    /// Records that a send of `from` to `to` has landed, or failed.
    pub fn landed(&self, from: Rank, to: Rank) {
        self.mapping.way(from, to).landed.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the reason why nothing of `from` can land at `to` now; `None`: it can again.
    pub fn set_blocked(&self, from: Rank, to: Rank, cause: Option<FullCause>) {
        self.mapping.way(from, to).set_blocked(cause);
    }

    /// Whether a send or a command of a rank was refused since it last parked.
    pub fn was_refused(&self, rank: Rank) -> bool {
        self.mapping.line(rank).refused.load(Ordering::Relaxed) != 0
    }

    /// The time that a rank has spent, by kind, up to the last time that it yielded its turn.
    pub fn tally(&self, rank: Rank) -> Tally {
        self.mapping.line(rank).tally()
    }

    /// Ends the job: the conductor waits for no rank any more.
    pub fn end(&self) {
        self.bounds.over.store(true, Ordering::Release);
    }

    /// Whether the job was ended.
    pub fn is_over(&self) -> bool {
        self.bounds.is_over()
    }
}
