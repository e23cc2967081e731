//! Two nodes joined by DIMMnet-1 boards and by Ethernet, and the processors' costs of a message.
//!
//! ```text
//!   AOTF   store ──270 ns──► word in the other node's memory      no processor there
//!   BOTF   copy into packets of up to 464 B ──1017 MB/s──► memory  no processor there
//!   UDP    system call ──frames, 100 Mb/s──► interrupt, stack, wake-up
//! ```
//!
//! A node's processor serves its program and its arrivals in the order of asking.

use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::costs::Costs;
use crate::engine::{Server, Sim};

/// One of the two nodes: 0 or 1.
pub type Side = usize;

/// The pair.
#[derive(Debug, Clone)]
pub struct Pair(Rc<PairState>);

#[derive(Debug)]
struct PairState {
    sim: Sim,
    costs: Costs,
    processors: [Server; 2],
    /// By sender.
    boards: [Server; 2],
    ethernet: [Server; 2],
}

impl Pair {
    /// Two idle nodes.
    pub fn new(sim: &Sim, costs: &Costs) -> Pair {
        let servers = || [Server::new(sim), Server::new(sim)];
        let (processors, boards, ethernet) = (servers(), servers(), servers());
        let state =
            PairState { sim: sim.clone(), costs: costs.clone(), processors, boards, ethernet };
        Pair(Rc::new(state))
    }

    /// The costs.
    pub fn costs(&self) -> &Costs {
        &self.0.costs
    }

    /// A node's processor works for this time.
    pub async fn work(&self, side: Side, time: Time) {
        self.0.processors[side].serve(time).await;
    }

    /// A node's processor copies shared data.
    pub async fn copy(&self, side: Side, bytes: u64) {
        self.work(side, self.0.costs.host.copy.time(bytes)).await;
    }

    /// A word of up to eight bytes is in the other node's memory (AOTF).
    pub async fn store(&self) {
        self.0.sim.delay(self.0.costs.interface.atomic).await;
    }

    /// The other node's program has seen a word and is ready to answer.
    pub async fn respond(&self, side: Side) {
        self.work(side, self.0.costs.host.response).await;
    }

    /// Data is in the other node's memory (BOTF), packet by packet.
    pub async fn blocks(&self, from: Side, bytes: u64) {
        self.packets(from, bytes).await;
        self.0.sim.delay(self.0.costs.interface.atomic).await;
    }

    /// Data has left the board, packet by packet: between two of them others' packets pass.
    pub(super) async fn packets(&self, from: Side, bytes: u64) {
        let interface = &self.0.costs.interface;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(interface.block_bytes);
            self.0.boards[from].serve(interface.block_rate.time(part)).await;
            left -= part;
        }
    }

    /// A datagram has been sent and taken in, frames and both processors included.
    pub async fn datagram(&self, from: Side, bytes: u64, on_the_wire: bool) {
        let ethernet = &self.0.costs.ethernet;
        self.work(from, ethernet.send).await;
        if on_the_wire {
            self.0.ethernet[from].serve(ethernet.on_the_wire(bytes)).await;
        }
        self.work(1 - from, ethernet.receive).await;
    }
}
