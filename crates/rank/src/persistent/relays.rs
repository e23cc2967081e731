//! One rank's part in edges between nodes that share a put (`coll/src/persistent/combined.rs`): its
//! edges that are combined, and the memory of its relays.

use hikyaku_coll::persistent::{CombinedRank, EdgePut, PutSource};
use hikyaku_nic::region::RegionBuffer;

use super::setup::{EdgeEnd, Places};
use crate::communicator::Communicator;
use crate::error::Error;

/// The alignment of a crossing's data, so that no two share a cache line.
const PLACE: u64 = 128;

/// A rank's ends as queues serve them: one for each put of its own edges, and one for each incoming
/// edge, with the runs of all program edges that it carries.
pub(super) fn arrange(
    own: &CombinedRank,
    outs: &[EdgeEnd],
    ins: &[EdgeEnd],
) -> (Vec<EdgeEnd>, Vec<EdgeEnd>) {
    let out = |put: &EdgePut| match put.from {
        PutSource::Edge(edge) => outs.get(edge).cloned(),
        PutSource::Relay(..) => None,
    };
    let outs = own.own_puts().iter().filter_map(out).collect();
    let ins = own.ins[..own.own.1].iter().map(|into| {
        let runs = into.edges.iter().flat_map(|edge| ins[*edge].runs.clone());
        EdgeEnd { rank: into.peer, runs: runs.collect() }
    });
    (outs, ins.collect())
}

/// The memory of a rank's relays, in its region.
#[derive(Debug, Default)]
pub(super) struct RelayMemory {
    /// Present if there are relays.
    pub(super) memory: Option<RegionBuffer>,
    /// The start of each relay's memory in the region.
    starts: Vec<u64>,
}

impl RelayMemory {
    /// Allocates the memory.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn take(world: &Communicator, own: &CombinedRank) -> Result<RelayMemory, Error> {
        if own.relays.is_empty() {
            return Ok(RelayMemory::default());
        }
        let mut end = 0u64;
        let starts = own.relays.iter().map(|relay| {
            let start = end;
            end = end.saturating_add(relay.bytes).next_multiple_of(PLACE);
            start
        });
        let starts: Vec<u64> = starts.collect();
        let memory = world.allocate(usize::try_from(end).unwrap_or(usize::MAX), 1)?;
        let at = memory.offset();
        let starts = starts.into_iter().map(|start| at + start).collect();
        Ok(RelayMemory { memory: Some(memory), starts })
    }

    /// The start of a relay's data: the same place in every round.
    pub(super) fn place(&self, relay: usize) -> Places {
        [self.starts[relay]; 2]
    }
}
