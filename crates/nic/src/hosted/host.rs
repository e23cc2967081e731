//! What a hosted port needs from its machine: where segments are, the clock, waking and waiting,
//! access to other memory.

use super::{Conductor, Registry};
use crate::fabric::{
    GroupError, Name, PeerFailure, PeerState, PostError, QueueAddress, QueueFault, QueuePut, Rank,
    RemoteAddress, RingId, Space, Wake,
};
use crate::region::{RegionBuffer, RegionError};
use crate::ring::LongStores;
use crate::segment::Segment;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::time::Time;

/// What a hosted port needs from its machine.
///
/// # Safety
/// [`Host::segment`] returns the same memory for a rank as long as the host exists, even if the
/// host is moved: ports keep the views.
pub unsafe trait Host {
    /// The fabric's name, for messages to the user.
    const NAME: &'static str;

    /// The bit by which a port on this host says that its rank waits for room. There are two: a
    /// rank in virtual time has a port of its own and one that plays its interface.
    const WAITS_AS: u64 = 1;

    /// This rank.
    fn rank(&self) -> Rank;

    /// The segment of a rank of this job. `rank` exists.
    fn segment(&self, rank: Rank) -> Segment<'_>;

    /// The state of every rank.
    fn registry(&self) -> Registry<'_>;

    /// The (virtual) node of a rank.
    fn node_of(&self, rank: Rank) -> u32;

    /// The host of a rank by name, in a job of several.
    fn host_name(&self, rank: Rank) -> Name {
        let _ = rank;
        Name::NONE
    }

    /// The state of a rank; of one that died also the host.
    fn state_of(&self, rank: Rank) -> PeerState {
        match self.registry().state(rank) {
            PeerState::Failed(failure) => {
                PeerState::Failed(PeerFailure { host: self.host_name(rank), ..failure })
            }
            state => state,
        }
    }

    /// Whether a rank's segment is in memory that this process reaches. The segments of others are
    /// not to be touched: their ranks are on other hosts.
    #[inline]
    fn is_here(&self, rank: Rank) -> bool {
        let _ = rank;
        true
    }

    /// Wakes a rank that says it sleeps. Not one of another host.
    fn wake(&self, rank: Rank);

    /// Waits a little: spins, yields or sleeps, depending on `idle`, the number of waits since the
    /// last event. Before it sleeps it says so in its doorbell and then calls `pending` once more.
    /// Returns at the deadline at the latest.
    fn wait(&mut self, idle: u32, deadline: Option<Time>, pending: impl Fn(&Self) -> bool) -> Wake;

    /// The clock.
    fn now(&self) -> Time;

    /// How this rank stores long payloads; `None`: in the way that is measured to be faster, for
    /// each peer.
    fn long_stores(&self) -> Option<LongStores> {
        None
    }

    /// Allocates from this rank's region.
    ///
    /// # Errors
    /// There is no region, or it is exhausted.
    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError>;

    /// Gives this rank's multicast area of a channel its memory: before it first writes there.
    ///
    /// # Errors
    /// [`GroupError::NoMemory`].
    fn commit_area(&self, channel: u32) -> Result<(), GroupError> {
        let _ = channel;
        Ok(())
    }

    /// Has memory for the lines of a source of another host at this rank
    /// ([`SegmentLayout::lines_of`](crate::segment::SegmentLayout::lines_of)). `false`: there is
    /// none.
    fn commit_source(&self, source: Rank) -> bool {
        let _ = source;
        true
    }

    /// Has memory for a landing ring of this rank. `false`: there is none.
    fn commit_ring(&self, ring: RingId) -> bool {
        let _ = ring;
        true
    }

    /// Orders a post's odd epoch before its look at the target's tables, for
    /// [`Host::barrier`] to rely on. Only for the compiler where that makes the barrier for both.
    #[inline]
    fn fence_post(&self) {
        fence(Ordering::SeqCst);
    }

    /// Makes a full memory barrier on every processor that runs a rank. `false`: it cannot.
    fn barrier(&self) -> bool {
        fence(Ordering::SeqCst);
        true
    }

    /// The address by which other ranks may reach these bytes.
    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress>;

    /// Copies another rank's bytes into `into`.
    ///
    /// # Errors
    /// Out of bounds, refused by the system, or not possible on this host.
    fn read(&self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;

    /// Copies `payload` to another rank's memory, in this way if it is long and the host stores it.
    ///
    /// # Errors
    /// Out of bounds, refused by the system, or not possible on this host.
    fn write(&self, to: RemoteAddress, payload: &[u8], way: LongStores) -> Result<(), PostError>;

    /// Stores one aligned word in another rank's region, after all earlier writes.
    ///
    /// # Errors
    /// Out of bounds or not aligned.
    fn write_word(&self, to: RemoteAddress, value: u64) -> Result<(), PostError>;

    /// Bytes of each rank's region.
    fn region_bytes(&self) -> u64;

    /// Whether this process has so many bytes of a rank at an offset beyond its region: memory that
    /// only some ranks have ([`HostBeyond`]). It may have them for reading only.
    #[cold]
    fn has_beyond(&self, rank: Rank, offset: u64, length: u64) -> bool {
        let _ = (rank, offset, length);
        false
    }

    /// An aligned integer of so many bytes beyond a rank's region, which this process may only
    /// read.
    #[cold]
    fn load_beyond(&self, rank: Rank, offset: u64, size: u64) -> Option<u64> {
        let _ = (rank, offset, size);
        None
    }

    /// Copies `length` bytes from one rank's region to another's; neither need be this rank's. For
    /// running command queues. Nothing is copied unless both are inside.
    ///
    /// # Errors
    /// [`PostError::OutOfBounds`], naming the rank in whose region there are no such bytes.
    fn copy_between(
        &self,
        from: RemoteAddress,
        to: RemoteAddress,
        length: u64,
        way: LongStores,
    ) -> Result<(), PostError>;

    /// Four bytes of a rank's region as an atomic; `None` if they are not inside and aligned.
    fn word32(&self, rank: Rank, offset: u64) -> Option<&AtomicU32>;

    /// Eight bytes of a rank's region as an atomic; `None` if they are not inside and aligned.
    fn word64(&self, rank: Rank, offset: u64) -> Option<&AtomicU64>;

    /// See [`CopyPort::copies_from`](crate::fabric::CopyPort::copies_from).
    fn copies_from(&self, space: Space) -> Option<usize>;

    /// The conductor of the job, if the job runs in virtual time.
    #[inline]
    fn conductor(&mut self) -> Option<&mut dyn Conductor> {
        None
    }

    /// See [`Port::is_forked`](crate::fabric::Port::is_forked).
    #[inline]
    fn is_forked(&self) -> bool {
        false
    }

    /// See [`Port::is_crowded`](crate::fabric::Port::is_crowded).
    #[inline]
    fn is_crowded(&self) -> bool {
        false
    }

    /// Whether the job has a conductor.
    #[inline]
    fn is_conducted(&self) -> bool {
        false
    }

    /// Takes away a put of a command queue, to land it on arrival
    /// ([`HostedPort::land_put`](super::HostedPort::land_put)). `None`: the port executes the put
    /// itself, at once.
    ///
    /// # Errors
    /// Its payload cannot be read, or its destination cannot be written.
    fn ship(
        &self,
        from: QueueAddress,
        index: u32,
        put: &QueuePut,
    ) -> Option<Result<(), QueueFault>> {
        let _ = (from, index, put);
        None
    }
}

/// A host with memory beyond the regions, which only some ranks have.
pub trait HostBeyond: Host {
    /// The book of it.
    type Beyond;

    /// What this process has of it.
    fn beyond_mut(&mut self) -> &mut Self::Beyond;
}
