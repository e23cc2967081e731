//! The machine under a port: one rank's place in a job's shared memory.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_nic::fabric::{
    DeathCause, GroupError, Name, PostError, Rank, RemoteAddress, RingId, Space, Wake,
};
use hikyaku_nic::hosted::{Conductor, Host, HostBeyond, Registry, Rest, RestStart, Sleeper};
use hikyaku_nic::random;
use hikyaku_nic::region::{RegionBuffer, RegionError};
use hikyaku_nic::ring::{Bytes, LongStores};
use hikyaku_nic::segment::{Segment, SegmentLayout};
use hikyaku_nic::sync::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use hikyaku_nic::time::Time;
use rustix::io::Errno;

use crate::barrier;
use crate::cgroup::Cgroup;
use crate::conducted::Conducted;
use crate::cpus::{Company, Mask};
use crate::fork::ForkedProcess;
use crate::header::{Beacon, JobEnd};
use crate::kernel_copy;
use crate::mapping::Mapping;
use crate::plan::Hosts;
use crate::protected::ProtectedMemory;
use crate::region::JobRegion;
use crate::wait::{self, Sleep, WaitStage, WaitTimes, Waiter};
use crate::watch::{Watch, WatchError};

/// The length from which a message may be copied out of its sender's memory: below it, two copies
/// take no longer than asking for one.
const READ_FROM: usize = 16 << 10;

/// The same limit for a region, if ranks share processors: the receiver finds the bytes in its own
/// caches.
const CROWDED_REGION_FROM: usize = 4 << 10;

/// The same limit for a copy by the kernel, if ranks share processors: the sender must wait until
/// the receiver has read a message, and each waiting rank costs a context switch. Eight ranks on
/// two cores exchanged 16 KiB in 14 us by rings and in 22 us by the kernel.
const CROWDED_PROCESS_FROM: usize = 64 << 10;

/// Whether the kernel copies between this process and a peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelReach {
    /// Not tried yet.
    Unknown,
    /// It does; the value is the peer's process id as seen from here.
    Yes(u32),
    /// It does not, with this error.
    No(Errno),
}

/// Wakes one rank of this process if it sleeps or is about to.
#[derive(Debug)]
pub struct RankWaker {
    region: Arc<JobRegion>,
    rank: Rank,
}

impl RankWaker {
    /// Wakes the rank.
    pub fn wake(&self) {
        self.region.mapping.segment(self.rank).doorbell().wake(wait::end_sleep);
    }
}

/// While some ranks have not announced themselves yet, the answer to "does another rank share my
/// processors?" is recomputed only once in this many queries.
const QUESTIONS: u32 = 64;

/// A rank's place in a job.
#[derive(Debug)]
pub struct ShmHost {
    region: Arc<JobRegion>,
    rank: Rank,
    /// The process that joined as the rank.
    process: ForkedProcess,
    origin: u64,
    /// The wake count, sampled before the caller last polled.
    seen: u64,
    waiting: Waiter,
    company: Cell<Company>,
    /// Queries about the company before it was settled.
    asked: Cell<u32>,
    quota: Option<u32>,
    mask: Mask,
    /// The numbers of waits that became long, of sleeps, and of sleeps that timed out.
    long_waits: u64,
    sleeps: u64,
    timeouts: u64,
    /// The word at the address that this rank announces to its peers.
    beacon: Box<AtomicU64>,
    reach: Vec<Cell<KernelReach>>,
    process_from: Option<usize>,
    /// The rank's state for virtual time.
    conducted: Option<Box<Conducted>>,
    /// The watch on the other ranks, if no launcher of ours watches them.
    others: RefCell<Option<Watch>>,
    protected: ProtectedMemory,
}

impl ShmHost {
    /// The place of `rank`, which this process has just joined, in the job created at `origin`.
    pub(crate) fn new(
        region: Arc<JobRegion>,
        rank: Rank,
        origin: u64,
        patience: WaitTimes,
    ) -> ShmHost {
        let pid = std::process::id();
        let config = &region.mapping.plan().config;
        let (ranks, here) = (config.ranks, config.ranks_here());
        let beacon = Box::new(AtomicU64::new(beacon_value(pid, rank)));
        let quota = Cgroup::of_this_process().cpus();
        let mask = Mask::of_this_thread();
        let company = Company { cpus: mask.count(), confined: 1, quota, known: 0, ranks: here };
        let conducted = region.mapping.is_conducted();
        let mut host = ShmHost {
            conducted: None,
            protected: ProtectedMemory::new(Arc::clone(&region), rank),
            region,
            rank,
            process: ForkedProcess::this(),
            origin,
            seen: 0,
            waiting: Waiter::new(patience.among(here)),
            company: Cell::new(company),
            asked: Cell::new(0),
            quota,
            mask,
            long_waits: 0,
            sleeps: 0,
            timeouts: 0,
            // In virtual time the result must not depend on the system's permissions.
            process_from: (!conducted && kernel_copies(&beacon)).then_some(READ_FROM),
            beacon,
            reach: (0..ranks).map(|_| Cell::new(KernelReach::Unknown)).collect(),
            others: RefCell::new(None),
        };
        host.announce();
        host.count_company();
        if conducted {
            let part = Conducted::begin(Arc::clone(&host.region), rank);
            host.conducted = Some(Box::new(part));
        }
        host
    }

    /// The number of sleeps of this rank, and of those that timed out.
    pub fn sleeps(&self) -> (u64, u64) {
        (self.sleeps, self.timeouts)
    }

    /// Declares a rank dead, as the launcher does. For programs that watch each other, and for
    /// tests of the consequences. Returns whether that is new.
    pub fn fail(&self, rank: Rank, cause: DeathCause) -> bool {
        self.mapping().fail(rank, cause)
    }

    /// Leaves the job in order, before the port is dropped: the other ranks see this rank as gone,
    /// and their accesses to its memory continue.
    pub fn leave(&self) {
        self.mapping().leave(self.rank);
    }

    /// Watches the other ranks of this host, all of which have joined, and ranks of other hosts by
    /// their connections: for jobs without a launcher of ours. A thread records each end in the
    /// job's memory, where all ranks of this host find it, and kills this process when that of the
    /// launcher ends. Each of these takes a descriptor.
    ///
    /// A connection belongs to the process of one rank at either end. Neither writes to it, and it
    /// does not block.
    ///
    /// # Errors
    /// The system has no pidfds, or no descriptors or threads left.
    pub fn watch_others(
        &self,
        connections: Vec<(Rank, OwnedFd)>,
        launcher: Option<u32>,
    ) -> Result<(), WatchError> {
        let config = &self.mapping().plan().config;
        let others = (0..config.ranks).filter(|rank| config.is_here(*rank) && *rank != self.rank);
        let pid = |rank| (rank, self.mapping().registry().pid(rank));
        let processes: Vec<(Rank, u32)> = others.map(pid).collect();
        let watch = Watch::start(&self.region, &processes, connections, launcher)?;
        self.others.replace(Some(watch));
        Ok(())
    }

    /// The hosts of the job. `None`: all ranks are on this host.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.mapping().plan().config.hosts.as_ref()
    }

    /// The host of a rank.
    pub fn host_of(&self, rank: Rank) -> u32 {
        self.hosts().and_then(|hosts| hosts.of.get(rank as usize).copied()).unwrap_or(0)
    }

    /// The sizes of every rank's rings.
    pub fn layout(&self) -> &SegmentLayout {
        &self.mapping().plan().config.layout
    }

    /// Whether ranks assign spare landing rings to frequent sources by themselves.
    pub fn moves_rings(&self) -> bool {
        self.mapping().plan().config.moves_rings
    }

    /// Publishes the address of this rank for other hosts; once. `false`: the address is empty or
    /// longer than 240 bytes, another one is published, or the job has one host.
    pub fn publish_card(&self, address: &[u8]) -> bool {
        self.mapping().card(self.rank).is_some_and(|card| card.publish(address))
    }

    /// The address of a rank for other hosts, once it is known.
    pub fn card(&self, rank: Rank) -> Option<Vec<u8>> {
        self.mapping().card(rank)?.read()
    }

    /// This rank's region, which keeps the job's memory alive.
    pub(crate) fn region(&self) -> &Arc<JobRegion> {
        &self.region
    }

    /// The job's memory.
    #[inline]
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.region.mapping
    }

    fn announce(&self) {
        let address = self.beacon.as_ptr().expose_provenance() as u64;
        let beacon = Beacon { address, value: self.beacon.load(Ordering::Relaxed) };
        self.mapping().note(self.rank).announce(beacon, &self.mask);
    }

    /// Counts the ranks that share this one's processors. All were started a moment ago: the
    /// launcher may bind them, and they may announce themselves, while this rank runs.
    fn count_company(&mut self) {
        let mask = Mask::of_this_thread();
        if mask != self.mask {
            self.mask = mask;
            self.announce();
        }
        self.count_announced();
    }

    /// Counts the ranks that have announced themselves so far.
    fn count_announced(&self) {
        let config = &self.mapping().plan().config;
        let here = (0..config.ranks).filter(|rank| config.is_here(*rank));
        let masks = here.filter_map(|rank| self.mapping().note(rank).mask());
        let beside = config.hosts.as_ref().map_or(0, |hosts| hosts.beside);
        let ranks = (self.company.get().ranks, beside);
        self.company.set(Company::count(&self.mask, self.quota, ranks, masks));
    }

    fn sleep(&mut self, deadline: Option<Time>, pending: impl Fn(&Self) -> bool) -> Wake {
        match self.begin_sleep(deadline, pending) {
            None => Wake::Look,
            Some(mut nap) => {
                nap.sleep();
                self.end_sleep(&nap)
            }
        }
    }

    /// Announces a sleep; `None`: an event was pending.
    fn begin_sleep(
        &mut self,
        deadline: Option<Time>,
        pending: impl Fn(&Self) -> bool,
    ) -> Option<Nap> {
        self.sleeps += 1;
        let note = self.mapping().note(self.rank);
        note.fall_asleep();
        let bell = self.mapping().segment(self.rank).doorbell();
        let Some(sure) = bell.begin_sleep(|| self.barrier(), || pending(self)) else {
            self.awake(Sleep::Refused);
            return None;
        };
        let until_deadline =
            deadline.map_or(Duration::MAX, |deadline| (deadline - self.now()).into());
        let patience = self.waiting.patience;
        let limit = if sure { patience.sleep } else { patience.unsure }.min(until_deadline);
        let region = Arc::clone(&self.region);
        Some(Nap { region, rank: self.rank, seen: self.seen, limit, ended: Sleep::Refused })
    }

    /// Ends a sleep that was announced.
    fn end_sleep(&mut self, nap: &Nap) -> Wake {
        self.mapping().segment(self.rank).doorbell().end_sleep();
        self.awake(nap.ended);
        Wake::Slept
    }

    fn awake(&mut self, ended: Sleep) {
        self.mapping().note(self.rank).wake_up();
        self.seen = self.mapping().segment(self.rank).doorbell().seen();
        match ended {
            Sleep::TimedOut => self.timeouts += 1,
            Sleep::Refused | Sleep::Woken => self.waiting.restart(),
        }
    }

    /// Whether a wake-up of the doorbell would call a thread that sleeps on it: not if one has been
    /// made already, nor if another thread has slept there since.
    pub fn is_bell_set(&self) -> bool {
        let bell = self.mapping().segment(self.rank).doorbell();
        bell.sleeping.load(Ordering::Relaxed) != 0
    }

    /// The number of wake-ups of this rank so far, whether or not it slept.
    pub fn wake_ups(&self) -> u64 {
        self.mapping().segment(self.rank).doorbell().seen()
    }

    /// Wakes all threads that sleep on this rank's doorbell.
    pub fn call_sleepers(&self) {
        self.mapping().segment(self.rank).doorbell().wake_unasked(wait::end_sleep);
    }

    /// The process id of a peer, if the kernel can copy its memory.
    fn reach(&self, rank: Rank) -> Result<u32, PostError> {
        let known = &self.reach[rank as usize];
        if known.get() == KernelReach::Unknown {
            let Some(beacon) = self.mapping().note(rank).beacon() else {
                // It has not started, so no rank can have an address of its memory yet.
                return Err(refused(rank, Errno::SRCH));
            };
            known.set(self.probe_peer(rank, beacon));
        }
        match known.get() {
            KernelReach::Yes(pid) => Ok(pid),
            KernelReach::No(errno) => Err(refused(rank, errno)),
            KernelReach::Unknown => Err(refused(rank, Errno::SRCH)),
        }
    }

    /// Reads the peer's beacon. This checks that the system allows it, and that the process with
    /// this id is the peer, which may be false in another container.
    fn probe_peer(&self, rank: Rank, beacon: Beacon) -> KernelReach {
        let pid = self.mapping().registry().pid(rank);
        let mut found = [0; 8];
        match kernel_copy::read(pid, beacon.address, &mut found) {
            Ok(()) if u64::from_ne_bytes(found) == beacon.value => KernelReach::Yes(pid),
            Ok(()) => KernelReach::No(Errno::SRCH),
            Err(errno) => KernelReach::No(errno),
        }
    }

    /// The bytes at an address, in a region or beyond the regions.
    #[inline]
    fn bytes(&self, at: RemoteAddress, length: usize, to_write: bool) -> Option<Bytes<'_>> {
        let region = self.mapping().bytes(at.rank, at.offset, length);
        region.or_else(|| {
            let (part, at) = self.protected.find(at.rank, at.offset)?;
            part.bytes(at, length, to_write)
        })
    }

    fn out_of_bounds(address: RemoteAddress, length: usize) -> PostError {
        let RemoteAddress { rank, offset, .. } = address;
        PostError::OutOfBounds { rank, offset, length: length as u64 }
    }

    fn copy_failed(address: RemoteAddress, length: usize, errno: Errno) -> PostError {
        match errno {
            Errno::FAULT => ShmHost::out_of_bounds(address, length),
            _ => refused(address.rank, errno),
        }
    }
}

/// An announced sleep on this rank's doorbell, which does not need the host.
#[derive(Debug)]
pub struct Nap {
    region: Arc<JobRegion>,
    rank: Rank,
    /// The wake count, sampled before the rank last polled.
    seen: u64,
    limit: Duration,
    ended: Sleep,
}

impl Nap {
    /// Sleeps. Other threads may use the port meanwhile.
    pub fn sleep(&mut self) {
        let bell = self.region.mapping.segment(self.rank).doorbell();
        self.ended = wait::sleep_on(&bell.wakes, self.seen, self.limit);
    }
}

impl Drop for ShmHost {
    fn drop(&mut self) {
        if self.is_forked() {
            // A forked child has a copy of the port, but is not the rank.
            return;
        }
        if std::thread::panicking() {
            // A rank that panics has not left in order. The launcher reports its end to its peers
            // once the process has ended; where ranks are threads of one process, none reports it.
            if self.shares_process() {
                self.fail(self.rank, DeathCause::Unknown);
            }
            return;
        }
        if let Some(conducted) = &self.conducted {
            conducted.await_landing();
        }
        self.mapping().leave(self.rank);
        if let Some(watch) = self.others.get_mut() {
            watch.say_left();
        }
        if let Some(conducted) = &self.conducted {
            conducted.leave();
        }
    }
}

/// A value that distinguishes this process from others.
fn beacon_value(pid: u32, rank: Rank) -> u64 {
    let word = wait::monotonic() ^ u64::from(pid) << 40 ^ u64::from(rank) << 20;
    random::mix(word) | 1
}

/// Whether the kernel copies between processes at all. Success within this process does not prove
/// success with others, but failure excludes it.
fn kernel_copies(beacon: &AtomicU64) -> bool {
    let address = beacon.as_ptr().expose_provenance() as u64;
    let mut found = [0; 8];
    let done = kernel_copy::read(std::process::id(), address, &mut found);
    done.is_ok() && u64::from_ne_bytes(found) == beacon.load(Ordering::Relaxed)
}

/// The error for an unresolved key: the port resolves keys before it calls its host.
fn unresolved() -> PostError {
    PostError::Unsupported("reach a segment or register without looking into its table")
}

fn refused(rank: Rank, errno: Errno) -> PostError {
    PostError::Refused { rank, code: errno.raw_os_error() }
}

/// Waiting, and the records about the whole job.
impl ShmHost {
    /// The next stage of a wait. `Err`: the wait is over, or was a spin.
    #[inline]
    fn next_stage(
        &mut self,
        idle: u32,
        deadline: Option<Time>,
        start: RestStart,
    ) -> Result<WaitStage, Wake> {
        let wakes = self.mapping().segment(self.rank).doorbell().seen();
        if wakes != self.seen {
            self.seen = wakes;
            self.waiting.restart();
            return Err(Wake::Look);
        }
        if deadline.is_some_and(|deadline| self.now() >= deadline) {
            return Err(Wake::Deadline);
        }
        if start == RestStart::Asleep {
            return Ok(WaitStage::Sleep);
        }
        match self.waiting.next(idle, &self.company.get(), wait::monotonic) {
            WaitStage::Spin => std::hint::spin_loop(),
            stage => return Ok(stage),
        }
        Err(Wake::Look)
    }

    /// Yields or sleeps.
    fn wait_long(
        &mut self,
        stage: WaitStage,
        deadline: Option<Time>,
        pending: impl Fn(&Self) -> bool,
    ) -> Wake {
        self.count_company_sometimes();
        match stage {
            WaitStage::Sleep => self.sleep(deadline, pending),
            WaitStage::Yield | WaitStage::Spin => {
                rustix::thread::sched_yield();
                self.waiting.yielded(wait::monotonic);
                Wake::Look
            }
        }
    }

    /// In long waits there is time to check for other ranks: until all have announced their
    /// processors, and from time to time for ranks that were bound later.
    fn count_company_sometimes(&mut self) {
        self.long_waits += 1;
        if !self.company.get().is_settled() || self.long_waits.is_power_of_two() {
            self.count_company();
        }
    }

    /// A rank that only polls never waits for long: it counts the others at its queries.
    #[cold]
    fn count_as_asked(&self) {
        let asked = self.asked.get();
        self.asked.set(asked.wrapping_add(1));
        if asked.is_multiple_of(QUESTIONS) {
            self.count_announced();
        }
    }

    /// The process that joined as the rank.
    pub fn process(&self) -> ForkedProcess {
        self.process
    }

    /// Whether another rank is a thread of this process.
    fn shares_process(&self) -> bool {
        let (registry, own) = (self.mapping().registry(), std::process::id());
        let config = &self.mapping().plan().config;
        let mut here = (0..config.ranks).filter(|rank| config.is_here(*rank));
        here.any(|rank| rank != self.rank && registry.pid(rank) == own)
    }

    /// A handle that wakes this rank from any thread of its process.
    pub fn waker(&self) -> RankWaker {
        RankWaker { region: Arc::clone(&self.region), rank: self.rank }
    }

    /// Adds this rank's counts to the sums of all ranks of this host, for the launcher: word by
    /// word, the first [`COUNTS`](crate::COUNTS).
    pub fn add_counts(&self, counts: impl IntoIterator<Item = u64>) {
        self.mapping().header().add_counts(counts);
    }

    /// Records how the job ends, before this rank ends it and reports the reason. `false`: another
    /// rank has recorded it before, and only that rank's reason counts.
    pub fn end_job(&self, end: JobEnd) -> bool {
        self.mapping().header().end_job(end)
    }

    /// Whether the job runs in virtual time.
    pub fn is_conducted(&self) -> bool {
        self.conducted.is_some()
    }
}

// SAFETY: a rank's segment is at a fixed offset of the mapping, which a host holds from the start,
// never replaces, and keeps until it is dropped.
unsafe impl Host for ShmHost {
    const NAME: &'static str = "shm";

    #[inline]
    fn rank(&self) -> Rank {
        self.rank
    }

    #[inline]
    fn segment(&self, rank: Rank) -> Segment<'_> {
        self.mapping().segment(rank)
    }

    #[inline]
    fn registry(&self) -> Registry<'_> {
        self.mapping().registry()
    }

    fn node_of(&self, rank: Rank) -> u32 {
        self.mapping().node_of(rank)
    }

    fn host_name(&self, rank: Rank) -> Name {
        let name = self.hosts().and_then(|hosts| hosts.names.get(self.host_of(rank) as usize));
        name.copied().unwrap_or(Name::NONE)
    }

    #[inline]
    fn is_here(&self, rank: Rank) -> bool {
        self.mapping().plan().config.is_here(rank)
    }

    fn wake(&self, rank: Rank) {
        if let Some(conducted) = &self.conducted {
            return conducted.wake(rank);
        }
        if self.is_here(rank) {
            self.mapping().segment(rank).doorbell().wake(wait::end_sleep);
        }
    }

    #[inline]
    fn wait(&mut self, idle: u32, deadline: Option<Time>, pending: impl Fn(&Self) -> bool) -> Wake {
        if let Some(conducted) = &self.conducted {
            return conducted.park(deadline, || pending(self));
        }
        match self.next_stage(idle, deadline, RestStart::Awake) {
            Ok(stage) => self.wait_long(stage, deadline, pending),
            Err(wake) => wake,
        }
    }

    #[inline]
    fn now(&self) -> Time {
        if let Some(conducted) = &self.conducted {
            return conducted.now();
        }
        Time::from_nanoseconds(wait::monotonic().saturating_sub(self.origin))
    }

    fn long_stores(&self) -> Option<LongStores> {
        // In virtual time there is nothing to measure.
        let conducted = self.mapping().is_conducted().then(LongStores::default);
        self.mapping().plan().config.long_stores.or(conducted)
    }

    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError> {
        self.region.allocate(bytes)
    }

    fn commit_area(&self, channel: u32) -> Result<(), GroupError> {
        self.region.commit_area(channel)
    }

    fn commit_source(&self, source: Rank) -> bool {
        self.region.commit_source(source)
    }

    fn commit_ring(&self, ring: RingId) -> bool {
        self.region.commit_ring(ring)
    }

    #[inline]
    fn fence_post(&self) {
        // The owner of the tables executes the barrier for both sides.
        compiler_fence(Ordering::SeqCst);
    }

    fn barrier(&self) -> bool {
        // A rank that the barrier does not reach marks this in the header before its first post.
        barrier::everywhere() && self.mapping().header().unsure.load(Ordering::Acquire) == 0
    }

    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
        let rank = self.rank;
        if let Some(offset) = self.mapping().offset_in_region(rank, bytes) {
            return Some(RemoteAddress { rank, space: Space::Region, offset });
        }
        let pays = self.process_from.is_some_and(|from| bytes.len() >= from);
        let offset = bytes.as_ptr().expose_provenance() as u64;
        pays.then_some(RemoteAddress { rank, space: Space::Process, offset })
    }

    fn read(&self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let RemoteAddress { rank, space, offset } = from;
        match space {
            Space::Region => self
                .mapping()
                .read(rank, offset, into)
                .or_else(|| {
                    let (part, at) = self.protected.find(rank, offset)?;
                    part.bytes(at, into.len(), false).map(|bytes| bytes.load(0, into))
                })
                .ok_or_else(|| ShmHost::out_of_bounds(from, into.len())),
            Space::Process => kernel_copy::read(self.reach(rank)?, offset, into)
                .map_err(|errno| ShmHost::copy_failed(from, into.len(), errno)),
            Space::Segment(_) | Space::Register(_) => Err(unresolved()),
        }
    }

    fn write(&self, to: RemoteAddress, payload: &[u8], way: LongStores) -> Result<(), PostError> {
        let RemoteAddress { rank, space, offset } = to;
        match space {
            Space::Region => {
                let bytes = self.bytes(to, payload.len(), true);
                let bytes = bytes.ok_or_else(|| ShmHost::out_of_bounds(to, payload.len()))?;
                bytes.write(0, payload, way);
                Ok(())
            }
            Space::Process => kernel_copy::write(self.reach(rank)?, offset, payload)
                .map_err(|errno| ShmHost::copy_failed(to, payload.len(), errno)),
            Space::Segment(_) | Space::Register(_) => Err(unresolved()),
        }
    }

    fn write_word(&self, to: RemoteAddress, value: u64) -> Result<(), PostError> {
        if to.space != Space::Region {
            return Err(PostError::Unsupported("notify by a word outside of a region"));
        }
        if !to.offset.is_multiple_of(8) {
            return Err(PostError::Unsupported("notify at an address that is not 8-byte aligned"));
        }
        let word = self.word64(to.rank, to.offset);
        word.ok_or_else(|| ShmHost::out_of_bounds(to, 8))?.store(value, Ordering::Release);
        Ok(())
    }

    fn region_bytes(&self) -> u64 {
        self.mapping().plan().region_bytes as u64
    }

    fn has_beyond(&self, rank: Rank, offset: u64, length: u64) -> bool {
        self.protected.has(rank, offset, length)
    }

    fn load_beyond(&self, rank: Rank, offset: u64, size: u64) -> Option<u64> {
        let (part, at) = self.protected.find(rank, offset)?;
        part.load(at, size)
    }

    #[inline]
    fn copy_between(
        &self,
        from: RemoteAddress,
        to: RemoteAddress,
        length: u64,
        way: LongStores,
    ) -> Result<(), PostError> {
        if from.space != Space::Region || to.space != Space::Region {
            return Err(PostError::Unsupported("copy between ranks outside of their regions"));
        }
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let part = |at, to_write| {
            self.bytes(at, bytes, to_write).ok_or_else(|| ShmHost::out_of_bounds(at, bytes))
        };
        let origin = part(from, false)?;
        part(to, true)?.copy(0, origin, way);
        Ok(())
    }

    fn word32(&self, rank: Rank, offset: u64) -> Option<&AtomicU32> {
        self.mapping().word32(rank, offset).or_else(|| {
            let (part, at) = self.protected.find(rank, offset)?;
            part.word32(at)
        })
    }

    fn word64(&self, rank: Rank, offset: u64) -> Option<&AtomicU64> {
        self.mapping().word64(rank, offset).or_else(|| {
            let (part, at) = self.protected.find(rank, offset)?;
            part.word64(at)
        })
    }

    fn copies_from(&self, space: Space) -> Option<usize> {
        // In virtual time the result must not depend on which ranks have announced themselves.
        let is_crowded = self.conducted.is_some() || self.company.get().is_crowded();
        match space {
            Space::Region => Some(if is_crowded { CROWDED_REGION_FROM } else { READ_FROM }),
            Space::Process if is_crowded => self.process_from.map(|_| CROWDED_PROCESS_FROM),
            Space::Process => self.process_from,
            Space::Segment(_) | Space::Register(_) => None,
        }
    }

    #[inline]
    fn conductor(&mut self) -> Option<&mut dyn Conductor> {
        self.conducted.as_deref_mut().map(|conducted| conducted as &mut dyn Conductor)
    }

    #[inline]
    fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        if !self.company.get().is_settled() {
            self.count_as_asked();
        }
        self.company.get().is_crowded()
    }

    #[inline]
    fn is_conducted(&self) -> bool {
        ShmHost::is_conducted(self)
    }
}

impl HostBeyond for ShmHost {
    type Beyond = ProtectedMemory;

    fn beyond_mut(&mut self) -> &mut ProtectedMemory {
        &mut self.protected
    }
}

impl Sleeper for ShmHost {
    type Nap = Nap;

    fn begin_wait(
        &mut self,
        idle: u32,
        (deadline, start): (Option<Time>, RestStart),
        pending: impl Fn(&Self) -> bool,
    ) -> Rest<Nap> {
        if self.conducted.is_some() {
            return Rest::Over(self.wait(idle, deadline, pending));
        }
        match self.next_stage(idle, deadline, start) {
            Err(wake) => Rest::Over(wake),
            Ok(stage) => {
                self.count_company_sometimes();
                match stage {
                    WaitStage::Sleep => self
                        .begin_sleep(deadline, pending)
                        .map_or(Rest::Over(Wake::Look), Rest::Sleep),
                    WaitStage::Yield | WaitStage::Spin => Rest::Yield,
                }
            }
        }
    }

    fn end_wait(&mut self, nap: Nap) -> Wake {
        self.end_sleep(&nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShmPort;
    use crate::job::{open_all, open_all_with};
    use crate::plan::JobConfig;
    use crate::wait::WaitTimes;
    use hikyaku_nic::fabric::{CopyPort, GroupPort, Port};
    use hikyaku_nic::hosted::Host;

    #[test]
    fn a_foreign_process_is_not_read() {
        let mut ports = open_all(&JobConfig::new(2, 2)).unwrap();
        let word = AtomicU64::new(1);
        let address = word.as_ptr().expose_provenance() as u64;
        // The word in this process differs from the beacon of rank 1.
        let mask = Mask::of_this_thread();
        let note = ports[0].host().mapping().note(1);
        note.announce(Beacon { address, value: 2 }, &mask);
        let from = RemoteAddress { rank: 1, space: Space::Process, offset: address };
        for _ in 0..2 {
            let error = ports[0].read(from, &mut [0; 8]).unwrap_err();
            let code = Errno::SRCH.raw_os_error();
            assert_eq!(error, PostError::Refused { rank: 1, code });
        }
    }

    #[test]
    fn heap_buffers_are_exposed_from_a_size_on() {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap().count();
        let alone = open_all(&JobConfig::new(1, 1)).unwrap().remove(0);
        let heap = vec![7; READ_FROM];
        assert_eq!(alone.copies_from(Space::Region), Some(READ_FROM));
        let mut ports = open_all(&JobConfig::new(cpus + 1, 1)).unwrap();
        // It was the first rank, and has not waited since.
        assert!((0..=QUESTIONS).any(|_| ports[0].is_crowded()));
        let mut port = ports.pop().unwrap();
        assert_eq!(port.copies_from(Space::Region), Some(CROWDED_REGION_FROM));
        assert_eq!((alone.is_crowded(), port.is_crowded()), (false, true));
        assert_eq!(port.expose(&heap[1..]), None);
        // Within one process the kernel copies wherever tests run, as in `kernel_copy.rs`.
        let address = port.expose(&heap).unwrap();
        assert_eq!(address.space, Space::Process);
        let mut copy = vec![0; heap.len()];
        port.read(address, &mut copy).unwrap();
        assert_eq!(copy, heap);
        let word = port.host().write_word(address, 1).unwrap_err();
        assert!(matches!(word, PostError::Unsupported(_)));
    }

    #[test]
    fn without_the_barrier_sleeps_time_out() {
        let mut host = open_host(WaitTimes {
            untimed: 0,
            spin: Duration::ZERO,
            give_way: Duration::ZERO,
            sleep: Duration::from_secs(3600),
            unsure: Duration::from_nanos(1),
        });
        host.mapping().header().unsure.fetch_add(1, Ordering::SeqCst);
        assert_eq!(host.wait(0, None, |_| false), Wake::Slept);
        assert_eq!(host.sleeps(), (1, 1));
        // It sleeps neither past a deadline nor when an event is pending.
        let late = host.now() + Time::from_nanoseconds(3_600_000_000_000);
        assert_eq!(host.wait(1, Some(late), |_| true), Wake::Look);
        let soon = host.now() + Time::from_nanoseconds(1000);
        while host.wait(2, Some(soon), |_| false) != Wake::Deadline {}
    }

    /// Ranks that sleep, for up to an hour, whenever there is no event: a missed wake-up would hang
    /// this test.
    #[test]
    fn no_rank_sleeps_through_a_contribution() {
        const ROUNDS: u64 = 2000;
        const RANKS: u32 = 4;
        let patience = WaitTimes {
            untimed: 0,
            spin: Duration::ZERO,
            give_way: Duration::ZERO,
            sleep: Duration::from_secs(3600),
            unsure: Duration::from_millis(1),
        };
        let rounds = |mut port: ShmPort| {
            let group = port.join(0, &[3, 1, 0, 2], 0).unwrap();
            let wait = |port: &mut ShmPort, done: &mut dyn FnMut(&mut ShmPort) -> bool| {
                while !done(port) {
                    port.park(None);
                }
            };
            for round in 0..ROUNDS {
                // All members contribute; one does, after waiting for room; and a barrier.
                port.contribute(group, round, &[]).unwrap();
                wait(&mut port, &mut |port| port.all_contributed(group, round).unwrap().is_some());
                port.finish_round(group).unwrap();
                let root = (round % 4) as usize;
                if port.group(group).unwrap().place() == root {
                    wait(&mut port, &mut |port| port.contribute(group, 1, &[&[7; 70_000]]).is_ok());
                } else {
                    let seen =
                        |port: &mut ShmPort| port.contribution(group, root).unwrap().is_some();
                    wait(&mut port, &mut { seen });
                }
                port.finish_round(group).unwrap();
                let id = (round % 128) as u32;
                port.sync(group, id).unwrap();
                wait(&mut port, &mut |port| port.synced(group, id).unwrap());
            }
            port.host().sleeps().0
        };
        let slept: u64 = std::thread::scope(|scope| {
            let rounds = &rounds;
            let ports = open_all_with(&JobConfig::new(RANKS, RANKS), patience).unwrap();
            let start = |port| scope.spawn(move || rounds(port));
            let ranks: Vec<_> = ports.into_iter().map(start).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).sum()
        });
        assert!(slept > 0, "this is about sleeping");
    }

    /// The host of a job of one rank, with the given wait times.
    fn open_host(patience: WaitTimes) -> ShmHost {
        let plan = crate::plan::MemoryPlan::new(&JobConfig::new(1, 1)).unwrap();
        let memory = crate::memory::create(&plan).unwrap();
        let inode = rustix::fs::fstat(&memory).unwrap().st_ino;
        let mapping = Mapping::new(&memory, plan).unwrap();
        mapping.segment(0).set_up();
        mapping.registry().join(0, std::process::id()).unwrap();
        ShmHost::new(Arc::new(JobRegion::new(mapping, memory, inode, 0)), 0, 0, patience)
    }
}
