//! The paper's program (figures 7 and 8) as the messages that its protocols exchange.
//!
//! Two nodes; in every round each acquires the rows of one parity for writing, the other parity in
//! the next, and they pass a barrier in between: from the second round on every acquire moves
//! ownership and data from the other node. What the protocols do with the variables is the
//! business of the shared-memory crate; here they cost their messages and copies.
//!
//! ```text
//!   UDP       request ► data ► ownership, owner change told ► invalidation; each with an ACK, each
//!             handled by a processor at both ends
//!   DIMMnet   AOTF request ► BOTF data ► AOTF ownership, owner notice ► AOTF invalidation; only
//!             the request needs the owner's processor
//! ```

use hikyaku_sim::engine::{Signal, Simulation, TaskName};
use hikyaku_sim::machine::Interface;
use hikyaku_sim::model::dimmnet1::{Costs, Pair, Side};

use crate::machine;

/// Which version of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Udp,
    Dimmnet,
}

/// Which costs a byte has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Copies and links, as the machine file says.
    Physical,
    /// Copies only, at the same rate in both versions: the paper's explanation of its figures.
    CopyBound,
}

/// Rounds that move data; the paper does not say how many it ran.
const ROUNDS: u64 = 2;

/// Bytes of a request, an answer, an ACK.
const SMALL: u64 = 64;

/// Most bytes of a UDP datagram's payload that the version sends.
const DATAGRAM: u64 = 32 << 10;

fn costs() -> Costs {
    let Interface::Dimmnet1(costs) = machine("dimmnet1").interface else {
        unreachable!("the file says which interface it describes")
    };
    *costs
}

/// Seconds of the program with so many variables of so many bytes.
pub(super) fn run(version: Version, bytes: Bytes, variables: u64, size: u64) -> f64 {
    let simulation = Simulation::new(0xfa605);
    let pair = Pair::new(&simulation, &costs());
    let arrived = Signal::new(&simulation, "the other node at the barrier");
    for side in [0, 1] {
        let (pair, arrived) = (pair.clone(), arrived.clone());
        let name = TaskName { kind: "node", index: side as u32 };
        simulation.spawn(name, async move {
            for round in 1..=ROUNDS {
                for _ in 0..variables / 2 {
                    match version {
                        Version::Udp => acquire_by_udp(&pair, side, size, bytes).await,
                        Version::Dimmnet => acquire_by_stores(&pair, side, size, bytes).await,
                    }
                }
                arrived.raise();
                arrived.reaches(2 * round).await;
            }
        });
    }
    simulation.run().expect("the program ends");
    simulation.now().seconds()
}

/// A message and its ACK.
async fn acknowledged(pair: &Pair, from: Side, bytes: u64, wire: bool) {
    pair.datagram(from, bytes, wire).await;
    pair.datagram(1 - from, SMALL, true).await;
}

async fn acquire_by_udp(pair: &Pair, me: Side, size: u64, bytes: Bytes) {
    let (owner, bookkeeping) = (1 - me, pair.costs().host.bookkeeping);
    acknowledged(pair, me, SMALL, true).await;
    pair.work(owner, bookkeeping).await;
    pair.copy(owner, size).await;
    let mut left = size;
    while left > 0 {
        let part = left.min(DATAGRAM);
        acknowledged(pair, owner, part, bytes == Bytes::Physical).await;
        left -= part;
    }
    pair.copy(me, size).await;
    // Ownership, and the change of owner told to all nodes: the two are one message here.
    acknowledged(pair, owner, SMALL, true).await;
    pair.work(me, bookkeeping).await;
    acknowledged(pair, me, SMALL, true).await;
    pair.work(owner, bookkeeping).await;
}

async fn acquire_by_stores(pair: &Pair, me: Side, size: u64, bytes: Bytes) {
    let (owner, bookkeeping) = (1 - me, pair.costs().host.bookkeeping);
    pair.store().await;
    pair.respond(owner).await;
    pair.copy(owner, size).await;
    if bytes == Bytes::Physical {
        pair.blocks(owner, size).await;
    }
    pair.copy(me, size).await;
    pair.work(owner, bookkeeping).await;
    pair.store().await;
    pair.respond(me).await;
    // Owner notice and invalidation change words of the other node; its processor does nothing.
    pair.work(me, bookkeeping).await;
    pair.store().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fg_18_time_is_proportional_to_the_number_of_variables() {
        for version in [Version::Udp, Version::Dimmnet] {
            let time = |variables| run(version, Bytes::Physical, variables, 4096);
            let ratio = time(512) / time(64);
            assert!((ratio / 8.0 - 1.0).abs() < 0.02, "{ratio}");
        }
    }
}
