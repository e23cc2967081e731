//! The services that a hosted port needs from its machine: addresses of segments, the clock, waking
//! and waiting, access to other memory.

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

/// The services that a hosted port needs from its machine.
///
/// # Safety
/// [`Host::segment`] returns the same memory for a rank as long as the host exists, even if the
/// host is moved: ports keep the views.
pub unsafe trait Host {
    /// The fabric's name, for messages to the user.
    const NAME: &'static str;

    /// The bit by which a port on this host marks that its rank waits for room. There are two: a
    /// rank in virtual time has its own port and one that plays its interface.
    const WAITS_AS: u64 = 1;

    /// This rank.
    fn rank(&self) -> Rank;

    /// The segment of a rank of this job. `rank` exists.
    fn segment(&self, rank: Rank) -> Segment<'_>;

    /// The state of every rank.
    fn registry(&self) -> Registry<'_>;

    /// The (virtual) node of a rank.
    fn node_of(&self, rank: Rank) -> u32;

    /// The host name of a rank, in a job of several hosts.
    fn host_name(&self, rank: Rank) -> Name {
        let _ = rank;
        Name::NONE
    }

    /// The state of a rank, with the host name if it died.
    fn state_of(&self, rank: Rank) -> PeerState {
        match self.registry().state(rank) {
            PeerState::Failed(failure) => {
                PeerState::Failed(PeerFailure { host: self.host_name(rank), ..failure })
            }
            state => state,
        }
    }

    /// Whether a rank's segment is in memory that this process reaches. The other segments must not
    /// be accessed: their ranks are on other hosts.
    #[inline]
    fn is_here(&self, rank: Rank) -> bool {
        let _ = rank;
        true
    }

    /// Wakes a rank whose flag says that it sleeps. The rank must be on this host.
    fn wake(&self, rank: Rank);

    /// Waits a little: spins, yields or sleeps, depending on `idle`, the number of waits since the
    /// last event. Before it sleeps it announces that in its doorbell and then calls `pending` once
    /// more. Returns at the deadline at the latest.
    fn wait(&mut self, idle: u32, deadline: Option<Time>, pending: impl Fn(&Self) -> bool) -> Wake;

    /// The clock.
    fn now(&self) -> Time;

    /// How this rank stores long payloads; `None`: for each peer, in the way that measurements show
    /// to be faster.
    fn long_stores(&self) -> Option<LongStores> {
        None
    }

    /// Allocates from this rank's region.
    ///
    /// # Errors
    /// There is no region, or it is exhausted.
    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError>;

    /// Commits the memory of this rank's multicast area of a channel, before the first write there.
    ///
    /// # Errors
    /// [`GroupError::NoMemory`].
    fn commit_area(&self, channel: u32) -> Result<(), GroupError> {
        let _ = channel;
        Ok(())
    }

    /// Commits memory for the lines of a source of another host at this rank
    /// ([`SegmentLayout::lines_of`](crate::segment::SegmentLayout::lines_of)). `false`: no memory
    /// is left.
    fn commit_source(&self, source: Rank) -> bool {
        let _ = source;
        true
    }

    /// Commits memory for a landing ring of this rank. `false`: no memory is left.
    fn commit_ring(&self, ring: RingId) -> bool {
        let _ = ring;
        true
    }

    /// Orders a post's odd epoch before its read of the target's tables; [`Host::barrier`] relies
    /// on it. It is only a compiler fence where the barrier serves both sides.
    #[inline]
    fn fence_post(&self) {
        fence(Ordering::SeqCst);
    }

    /// Executes a full memory barrier on every processor that runs a rank. `false`: not possible.
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

    /// Copies `payload` to another rank's memory, in this `way` if it is long and the host stores
    /// it.
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

    /// Whether this process maps `length` bytes of a rank at an offset beyond its region: memory
    /// that only some ranks map ([`HostBeyond`]). The mapping may be read-only.
    #[cold]
    fn has_beyond(&self, rank: Rank, offset: u64, length: u64) -> bool {
        let _ = (rank, offset, length);
        false
    }

    /// Loads an aligned integer of `size` bytes beyond a rank's region, which this process may only
    /// read.
    #[cold]
    fn load_beyond(&self, rank: Rank, offset: u64, size: u64) -> Option<u64> {
        let _ = (rank, offset, size);
        None
    }

    /// Copies `length` bytes from one rank's region to another's; neither need be this rank's. For
    /// running command queues. Nothing is copied unless both ranges are inside.
    ///
    /// # Errors
    /// [`PostError::OutOfBounds`], naming the rank whose region does not contain the bytes.
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

    /// Takes a put of a command queue, to land it on arrival
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

/// A host with memory beyond the regions that only some ranks map.
pub trait HostBeyond: Host {
    /// The record of that memory.
    type Beyond;

    /// The part of that memory that this process maps.
    fn beyond_mut(&mut self) -> &mut Self::Beyond;
}
