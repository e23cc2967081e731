//! The commands that the two mappings write into their queues at each start (paper 002 §4; digest
//! 3.5).
//!
//! ```text
//!   FAST   a queue per neighbour     RTR (sps 2) | SD/EOD                        offset 1
//!   MRC    one queue, n neighbours   RTR x n (sps 1) | NOP x (n-1) | RTR to itself (sps 2n)
//!                                    | SD/EOD x n                                offset n
//! ```
//!
//! RTR means "ready to receive" and releases slots of the neighbour's queue. SD/EOD is one put that
//! carries the data and raises an event. In FAST, one of the two slots that an RTR releases is the
//! RTR of the next iteration. In MRC, each arriving RTR releases one slot: the first n - 1 release
//! a NOP, the last one releases the RTR to the own queue, which releases the data and the next
//! iteration's RTRs.

use hikyaku_sim::model::tofu2::{DescriptorCommand, TofuQueueAddress};

/// Numbers of a mapping that a test may falsify (TF-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappingNumbers {
    /// Scheduling pointer ahead of the read pointer at the beginning.
    pub(crate) offset: u32,
    /// SPS of the RTR to a neighbour.
    pub(crate) ready: u32,
    /// SPS of the RTR to the own queue (MRC).
    pub(crate) own: u32,
    /// NOPs (MRC).
    pub(crate) nops: u32,
}

impl MappingNumbers {
    /// FAST with SD and EOD in one put.
    pub(crate) const FAST: MappingNumbers = MappingNumbers { offset: 1, ready: 2, own: 0, nops: 0 };

    /// MRC for `n` neighbours, with SD and EOD in one put.
    pub(crate) const fn mrc(n: u32) -> MappingNumbers {
        MappingNumbers { offset: n, ready: 1, own: 2 * n, nops: n - 1 }
    }
}

pub(super) fn ready(to: TofuQueueAddress, release: u32) -> DescriptorCommand {
    DescriptorCommand::Put { to, bytes: 0, release, notify: false }
}

pub(super) fn data(to: TofuQueueAddress, bytes: u64) -> DescriptorCommand {
    DescriptorCommand::Put { to, bytes, release: 0, notify: true }
}

/// One iteration of FAST on the queue for `neighbour`.
pub(crate) fn fast(
    mapping: MappingNumbers,
    neighbour: TofuQueueAddress,
    bytes: u64,
) -> Vec<DescriptorCommand> {
    vec![ready(neighbour, mapping.ready), data(neighbour, bytes)]
}

/// One iteration of MRC on the queue `own`.
pub(crate) fn mrc(
    mapping: MappingNumbers,
    own: TofuQueueAddress,
    neighbours: &[TofuQueueAddress],
    bytes: u64,
) -> Vec<DescriptorCommand> {
    let readies = neighbours.iter().map(|&to| ready(to, mapping.ready));
    let nops = (0..mapping.nops).map(|_| DescriptorCommand::Nop);
    let sends = neighbours.iter().map(|&to| data(to, bytes));
    readies.chain(nops).chain([ready(own, mapping.own)]).chain(sends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(node: u32) -> TofuQueueAddress {
        TofuQueueAddress { node, queue: 0 }
    }

    fn released(program: &[DescriptorCommand]) -> Vec<Option<u32>> {
        let release = |command: &DescriptorCommand| match command {
            DescriptorCommand::Nop | DescriptorCommand::Message { .. } => None,
            DescriptorCommand::Put { release, .. } => Some(*release),
        };
        program.iter().map(release).collect()
    }

    #[test]
    fn tf_08_fast_has_two_slots_a_neighbour() {
        let program = fast(MappingNumbers::FAST, queue(1), 64);
        assert_eq!(released(&program), [Some(2), Some(0)]);
    }

    #[test]
    fn tf_09_mrc_has_six_slots_for_two_neighbours_and_twelve_for_four() {
        let program = mrc(MappingNumbers::mrc(2), queue(0), &[queue(1), queue(2)], 64);
        assert_eq!(released(&program), [Some(1), Some(1), None, Some(4), Some(0), Some(0)]);
        let neighbours = [1, 2, 3, 4].map(queue);
        let program = mrc(MappingNumbers::mrc(4), queue(0), &neighbours, 64);
        assert_eq!((program.len(), released(&program)[7]), (12, Some(8)));
        assert_eq!(MappingNumbers::mrc(4).offset, 4);
    }
}
