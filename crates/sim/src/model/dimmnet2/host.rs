//! The host: the steps of a program on the Pentium 4 that sends, polls, and reads out.
//!
//! The host reaches the board by uncached accesses only. It polls with one access after the other.
//! Each takes `access` and reads the register at its middle. So a change is detected between half
//! an access and one and a half accesses after it happened (table 7, rows F and J). Controller and
//! processor have different clocks. So the position of a change within an access is random,
//! uniformly distributed, from the simulation's seed.

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::time::Time;

use super::board::{Board, Primitive};
use super::costs::Costs;
use crate::engine::{Random, Sim};
use crate::model::landing::{Arrival, LandingMemory};

/// The mapping of the Prefetch Window (table 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchWindow {
    /// Cached: lines are flushed, prefetched and then read.
    WriteBack,
    /// Not cached: every load goes to the board.
    Uncached,
}

/// A program's view of one node.
#[derive(Debug, Clone)]
pub struct Host {
    sim: Sim,
    costs: Rc<Costs>,
    node: Rank,
    memory: LandingMemory,
    board: Board,
    random: Rc<RefCell<Random>>,
}

impl Host {
    pub(super) fn new(
        sim: &Sim,
        costs: &Rc<Costs>,
        node: Rank,
        memory: LandingMemory,
        board: Board,
    ) -> Host {
        let random = Rc::new(RefCell::new(sim.random(u64::from(node))));
        Host { sim: sim.clone(), costs: Rc::clone(costs), node, memory, board, random }
    }

    /// The number of this node.
    pub fn node(&self) -> Rank {
        self.node
    }

    /// The board of this node.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Memory registered for puts.
    pub fn memory(&self) -> &LandingMemory {
        &self.memory
    }

    /// Issues a send request (row A) and continues. The board does the rest.
    pub async fn send(&self, to: &Host, primitive: Primitive, message: &[u8]) {
        self.board.mark("Start", self.sim.now());
        self.sim.delay(self.costs.host.issue_send).await;
        self.board.mark("A issue send request", self.sim.now());
        self.board.request(&to.board, primitive, message);
    }

    /// Polls the status pointer until it shows `records` in total (row F).
    pub async fn detect(&self, records: u64) {
        self.poll(async { self.board.status().reaches(records).await }).await;
        self.board.mark("F detection by polling", self.sim.now());
    }

    /// Reads the status record of the last packet (row G) and returns all arrivals.
    pub async fn read_status(&self) -> Vec<Arrival> {
        self.sim.delay(self.costs.host.read_status).await;
        self.board.mark("G read status record", self.sim.now());
        self.take_arrivals()
    }

    /// Takes all arrivals, without the host's time. The data stays in SO-DIMM.
    pub fn take_arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        while let Some(arrival) = self.memory.next(self.node) {
            arrivals.push(arrival);
        }
        self.board.read_something_out();
        arrivals
    }

    /// Moves `bytes` from SO-DIMM into the Prefetch Window and copies them to main memory (rows H
    /// to L, and the time that table 7 leaves unexplained).
    pub async fn read_out(&self, bytes: u64, indirect: bool, window: PrefetchWindow) {
        let (interface, host) = (&self.costs.interface, &self.costs.host);
        let mut left = bytes;
        while left > 0 {
            let part = left.min(interface.window_bytes);
            self.sim.delay(host.issue_read_out).await;
            self.board.mark("H issue read-out request", self.sim.now());
            let head = if indirect { interface.head_update } else { Time::ZERO };
            let ready = self.sim.now() + interface.read_out + interface.further_words(part) + head;
            let sim = self.sim.clone();
            self.poll(async move {
                sim.delay_until(ready).await;
                self.board.mark("I SO-DIMM to Prefetch Window", sim.now());
            })
            .await;
            self.board.mark("J detect read-out completion", self.sim.now());
            self.sim.delay(self.costs.host.copy_time(part, window)).await;
            self.board.mark("K, L copy to main memory", self.sim.now());
            left -= part;
        }
        self.sim.delay(host.unexplained).await;
    }

    /// Waits until a polling loop detects `change`.
    async fn poll(&self, change: impl Future<Output = ()>) {
        let access = self.costs.host.access.picoseconds();
        let phase = self.random.borrow_mut().below(access);
        let first = self.sim.now().picoseconds() + phase + access / 2;
        change.await;
        let changed = self.sim.now().picoseconds();
        let looked = changed.saturating_sub(first).div_ceil(access);
        let seen = first + looked * access + access.div_ceil(2);
        self.sim.delay_until(Time::from_picoseconds(seen)).await;
    }
}
