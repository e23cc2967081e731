//! nic's host for the ports through which a conductor plays the ranks' interfaces.
//!
//! Such a port only posts and runs queues: it lands data where a rank's own posts would land. It
//! never waits; it puts wake-ups and carried puts into an [`ActionOutbox`].

use std::sync::Arc;

use hikyaku_nic::fabric::{
    PostError, QueueAddress, QueueFault, QueuePut, Rank, RemoteAddress, Space, Wake,
};
use hikyaku_nic::hosted::{ActionOutbox, Host, Registry, Shipped};
use hikyaku_nic::region::{RegionBuffer, RegionError};
use hikyaku_nic::ring::LongStores;
use hikyaku_nic::segment::Segment;
use hikyaku_nic::sync::{AtomicU32, AtomicU64, Ordering};
use hikyaku_nic::time::Time;

use super::stage::CopyBounds;
use crate::mapping::Mapping;

/// The number of bytes that are copied between two checks of whether the job is over.
const PIECE: usize = 16 << 20;

/// The interface of one rank.
#[derive(Debug)]
pub struct InterfaceHost {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) bounds: Arc<CopyBounds>,
    pub(crate) rank: Rank,
    pub(crate) outbox: ActionOutbox,
}

impl InterfaceHost {
    /// Takes a put off a queue: copies its payload now, since the owner may change it as soon as
    /// the command is complete. Errors visible now are returned now, errors on arrival later.
    fn take(&self, from: QueueAddress, index: u32, put: &QueuePut) -> Result<(), QueueFault> {
        let absent = QueueFault::OutOfBounds { index, rank: from.rank };
        if put.length > self.bounds.committed() {
            return Err(absent);
        }
        let QueueAddress { rank, queue, generation } = put.to;
        let target = self.mapping.segment(rank).queue(queue);
        if target.is_none_or(|(_, setup)| setup.generation != generation) {
            return Err(QueueFault::NoSuchQueue { index, rank });
        }
        let inside = put.from.checked_add(put.length);
        let region = self.mapping.plan().region_bytes as u64;
        let length = inside.filter(|end| *end <= region).and(usize::try_from(put.length).ok());
        let mut payload = vec![0; length.ok_or(absent)?];
        if put.at.checked_add(put.length).is_none_or(|end| end > region) {
            return Err(QueueFault::OutOfBounds { index, rank });
        }
        let starts = (put.from..).step_by(PIECE);
        for (start, piece) in starts.zip(payload.chunks_mut(PIECE)) {
            if self.bounds.is_over() {
                return Err(absent);
            }
            self.mapping.read(from.rank, start, piece).ok_or(absent)?;
        }
        self.outbox.ship(Shipped { from, index, put: *put, payload });
        Ok(())
    }
}

// SAFETY: a rank's segment is at a fixed offset of the mapping, which an interface holds from the
// start, never replaces, and keeps until it is dropped.
unsafe impl Host for InterfaceHost {
    const NAME: &'static str = "interface";

    const WAITS_AS: u64 = 2;

    fn rank(&self) -> Rank {
        self.rank
    }

    fn segment(&self, rank: Rank) -> Segment<'_> {
        self.mapping.segment(rank)
    }

    fn registry(&self) -> Registry<'_> {
        self.mapping.registry()
    }

    fn node_of(&self, rank: Rank) -> u32 {
        self.mapping.node_of(rank)
    }

    fn wake(&self, rank: Rank) {
        self.outbox.wake(rank);
    }

    fn wait(&mut self, _: u32, _: Option<Time>, _: impl Fn(&Self) -> bool) -> Wake {
        Wake::Look
    }

    fn now(&self) -> Time {
        Time::ZERO
    }

    fn long_stores(&self) -> Option<LongStores> {
        Some(LongStores::Cached)
    }

    fn allocate(&mut self, _bytes: usize) -> Result<RegionBuffer, RegionError> {
        Err(RegionError::Unsupported)
    }

    fn expose(&self, _bytes: &[u8]) -> Option<RemoteAddress> {
        None
    }

    fn read(&self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let RemoteAddress { rank, space, offset } = from;
        if space != Space::Region || self.bounds.is_over() {
            return Err(not_an_interfaces());
        }
        let length = into.len() as u64;
        let outside = PostError::OutOfBounds { rank, offset, length };
        self.mapping.read(rank, offset, into).ok_or(outside)
    }

    fn write(&self, to: RemoteAddress, payload: &[u8], way: LongStores) -> Result<(), PostError> {
        let RemoteAddress { rank, space, offset } = to;
        if space != Space::Region {
            return Err(not_an_interfaces());
        }
        let length = payload.len() as u64;
        let outside = PostError::OutOfBounds { rank, offset, length };
        self.mapping.bytes(rank, offset, payload.len()).ok_or(outside)?.write(0, payload, way);
        Ok(())
    }

    fn write_word(&self, to: RemoteAddress, value: u64) -> Result<(), PostError> {
        let RemoteAddress { rank, space, offset } = to;
        if space != Space::Region || self.bounds.is_over() {
            return Err(not_an_interfaces());
        }
        let word = self.mapping.word64(rank, offset);
        let word = word.ok_or(PostError::OutOfBounds { rank, offset, length: 8 })?;
        word.store(value, Ordering::Release);
        Ok(())
    }

    fn region_bytes(&self) -> u64 {
        self.mapping.plan().region_bytes as u64
    }

    fn copy_between(
        &self,
        _from: RemoteAddress,
        _to: RemoteAddress,
        _length: u64,
        _way: LongStores,
    ) -> Result<(), PostError> {
        Err(not_an_interfaces())
    }

    fn word32(&self, _rank: Rank, _offset: u64) -> Option<&AtomicU32> {
        None
    }

    fn word64(&self, _rank: Rank, _offset: u64) -> Option<&AtomicU64> {
        None
    }

    fn copies_from(&self, _space: Space) -> Option<usize> {
        None
    }

    fn ship(
        &self,
        from: QueueAddress,
        index: u32,
        put: &QueuePut,
    ) -> Option<Result<(), QueueFault>> {
        Some(self.take(from, index, put))
    }
}

/// The error of operations that ranks execute themselves, not through a conductor's interface.
fn not_an_interfaces() -> PostError {
    PostError::Unsupported("use memory other than regions as an interface in virtual time")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_nic::fabric::{CopyPort, Port};

    use super::*;
    use crate::{Job, JobConfig};

    /// The region is as long as the machine's memory, but only a small part of it is committed.
    #[test]
    fn no_more_is_taken_off_a_queue_than_there_is() {
        let job = Job::create(&JobConfig::new(2, 1).in_virtual_time()).unwrap();
        let stage = job.stage().unwrap().unwrap();
        let outbox = ActionOutbox::default();
        let port = stage.interface(0, &outbox);
        let [from, to] = [0, 1].map(|rank| QueueAddress { rank, queue: 0, generation: 0 });
        let take = |length| {
            let put = QueuePut { from: 0, at: 0, length, to, notify: false, release: 0 };
            port.host().take(from, 3, &put)
        };
        assert_eq!(take(64), Err(QueueFault::NoSuchQueue { index: 3, rank: 1 }));
        assert_eq!(take(1 << 40), Err(QueueFault::OutOfBounds { index: 3, rank: 0 }));
        let region = stage.rank_bytes() / 2;
        assert_eq!(take(region), Err(QueueFault::OutOfBounds { index: 3, rank: 0 }));
    }

    #[test]
    fn an_interface_knows_nodes_and_copies_from_nobody() {
        let job = Job::create(&JobConfig::new(4, 2).in_virtual_time()).unwrap();
        let port = job.stage().unwrap().unwrap().interface(0, &ActionOutbox::default());
        assert_eq!([0, 1, 2, 3].map(|rank| port.node_of(rank)), [0, 0, 1, 1]);
        for space in [Space::Region, Space::Process] {
            assert_eq!(port.copies_from(space), None);
        }
    }
}
