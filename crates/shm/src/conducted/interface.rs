//! nic's host for the ports through which a conductor plays the ranks' interfaces.
//!
//! Such a port only posts and runs queues: it lands data where a rank's own posts would land. It
//! never waits; it puts wake-ups and shipped puts into an [`Outbox`].

use std::sync::Arc;

use hikyaku_nic::fabric::{PostError, QueueAddress, QueueFault, QueuePut, Rank};
use hikyaku_nic::hosted::{Outbox, Shipped};

use crate::mapping::Mapping;

/// The interface of one rank.
#[derive(Debug)]
pub struct InterfaceHost {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) rank: Rank,
    pub(crate) outbox: Outbox,
}

impl InterfaceHost {
    /// Takes a put off a queue: copies its payload now, since the owner may change it as soon as
    /// the command is complete. Visible errors are returned now, errors on arrival later.
    pub(crate) fn take(
        &self,
        from: QueueAddress,
        index: u32,
        put: &QueuePut,
    ) -> Result<(), QueueFault> {
        let QueueAddress { rank, queue, generation } = put.to;
        let target = self.mapping.segment(rank).queue(queue);
        if target.is_none_or(|(_, setup)| setup.generation != generation) {
            return Err(QueueFault::NoSuchQueue { index, rank });
        }
        let absent = QueueFault::OutOfBounds { index, rank: from.rank };
        let inside = put.from.checked_add(put.length);
        let region = self.mapping.plan().region_bytes as u64;
        let length = inside.filter(|end| *end <= region).and(usize::try_from(put.length).ok());
        let mut payload = vec![0; length.ok_or(absent)?];
        if put.at.checked_add(put.length).is_none_or(|end| end > region) {
            return Err(QueueFault::OutOfBounds { index, rank });
        }
        self.mapping.read(from.rank, put.from, &mut payload).ok_or(absent)?;
        self.outbox.ship(Shipped { from, index, put: *put, payload });
        Ok(())
    }
}

/// The error of operations that ranks do themselves, not through an interface of ours.
pub(crate) fn not_an_interfaces() -> PostError {
    PostError::Unsupported("use memory other than regions as an interface in virtual time")
}
