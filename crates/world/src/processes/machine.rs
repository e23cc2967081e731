//! What a machine file says of the host's steps.

use hikyaku_nic::time::Time;
use hikyaku_shm::Costs;
use hikyaku_sim::job::MemoryPath;
use hikyaku_sim::machine::{Interface, Machine};

use super::Computing;

/// What a rank's own steps cost on a machine.
///
/// Copying is charged at the rate of messages within a node: machine files state no other.
pub fn costs_of(machine: &Machine, memory: &MemoryPath, computing: Computing) -> Costs {
    let (post, poll) = steps(&machine.interface);
    let measured = match computing {
        Computing::Given => 0,
        Computing::Measured(factor) => (factor * 1e3).round().clamp(1.0, 1e9) as u32,
    };
    let (copy, near) = (memory.rate.time(1024), memory.latency);
    Costs { post, poll, copy, near, measured, at_once: false }
}

/// Posting a command, and finding what has arrived.
fn steps(interface: &Interface) -> (Time, Time) {
    match interface {
        Interface::Rdma(costs) => (costs.post, costs.poll),
        Interface::Tofu2(costs) => (costs.describe + costs.doorbell, costs.poll),
        Interface::CpPacs(costs) => (costs.start, costs.detect),
        Interface::Cenju4(costs) => (costs.host.register, costs.host.poll),
        Interface::Dimmnet1(costs) => (costs.host.response, costs.host.bookkeeping),
        Interface::Dimmnet2(costs) => (costs.host.issue_send, costs.host.access),
    }
}
