//! What a machine's interface says of the host's steps, as ranks in processes are charged for it.

use hikyaku_shm::{CostBySize, LineCosts};
use hikyaku_sim::job::{Carrier, MemoryPath};

use super::{Computing, ENVELOPE_BYTES};

/// What a rank's own steps cost on a machine: the very costs that its carrier states for ranks that
/// are tasks, for messages as long as they are on the wire. Where each constant comes from is said
/// in the machine's file (`hikyaku machine show`).
///
/// Copying is charged at the rate of messages within a node: machine files state no other.
pub fn costs_of(carrier: &dyn Carrier, memory: &MemoryPath, computing: Computing) -> LineCosts {
    let measured = match computing {
        Computing::Given => 0,
        Computing::Measured(factor) => (factor * 1e3).round().clamp(1.0, 1e9) as u32,
    };
    let host = |bytes: u64| carrier.host(bytes.saturating_add(ENVELOPE_BYTES));
    LineCosts {
        send: CostBySize::of(|bytes| host(bytes).send),
        chained: CostBySize::of(|bytes| carrier.chained(bytes.saturating_add(ENVELOPE_BYTES))),
        receive: CostBySize::of(|bytes| host(bytes).receive),
        look: carrier.look(),
        copy: memory.rate.time(1024),
        near: memory.latency,
        measured,
        at_once: false,
        copies: carrier.multicast().is_some(),
    }
}
