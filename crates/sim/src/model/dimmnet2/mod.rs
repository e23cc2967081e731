//! DIMMnet-2 (paper 000): a board in a memory slot whose receiving side lands messages.
//!
//! ```text
//!   host A          board A                       board B                     host B
//!   A issue ──► Prefetch Unit ─B─► switch ─C─► Receive Controller             F poll
//!               Window Controller              Write Unit ──► SO-DIMM         G status record
//!                                              D 20/24 clocks, E status  ──►  H read-out request
//!                                              I SO-DIMM ► Prefetch Window    J poll, K L copy
//! ```
//!
//! Letters are the rows of table 7. Send side and switch are the same for both primitives. IPUSH
//! has four more steps in the Write Unit (table 3), which come from the machine file. `nic`
//! performs the landing: the ring of the source, its head and tail, the record.

mod board;
mod carrier;
mod costs;
mod host;

pub use board::{Board, Primitive, Steps};
pub use carrier::{Boards, MOST_NODES};
pub use costs::{ControllerUnit, Costs, Host as HostCosts, Interface, MemoryEffect, Step};
pub use host::{Host, PrefetchWindow};

use std::rc::Rc;

use hikyaku_nic::fabric::FullPolicy;
use hikyaku_nic::segment::SegmentLayoutError;

use crate::engine::Sim;
use crate::model::landing::{LandingMemory, Sizes};

/// The minimum number of records of a status ring: those of the largest message, packet by packet,
/// while its receiver waits for the last one.
const RECORDS: u32 = 2048;

/// Two nodes on one switch: the paper's setup.
///
/// # Errors
/// `ring_bytes` is not a valid ring size.
pub fn pair(sim: &Sim, costs: &Costs, ring_bytes: u32) -> Result<[Host; 2], SegmentLayoutError> {
    let costs = Rc::new(costs.clone());
    let memory = LandingMemory::new(Sizes {
        nodes: 2,
        ring_bytes,
        packet_bytes: costs.interface.packet_bytes as u32,
        records: RECORDS,
        region_bytes: ring_bytes as usize,
        policy: FullPolicy::Stall,
    })?;
    Ok([0, 1].map(|node| {
        let board = Board::new(sim, &costs, node, memory.clone());
        Host::new(sim, &costs, node, memory.clone(), board)
    }))
}

#[cfg(test)]
mod tests;
