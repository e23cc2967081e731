//! What came of a job in virtual time.

use std::time::Duration;

use hikyaku_nic::time::Time;
use hikyaku_shm::Tally;
use hikyaku_sim::engine::Trace;
use hikyaku_sim::port::RankTraffic;

use crate::JobOutcome;

/// What came of a job in virtual time.
#[derive(Debug, Clone)]
pub struct VirtualReport {
    /// How its processes ended.
    pub outcome: JobOutcome,
    /// Each rank's time; empty if there was no simulation.
    pub ranks: Vec<RankReport>,
    /// How many ranks have ever joined the job: the others' programs know nothing of hikyaku.
    pub joined: u32,
    /// Events of the simulation.
    pub events: u64,
    /// What happened, as far as it was kept: the trace of every simulation. Its digest is equal for
    /// two runs that did the same.
    pub trace: Trace,
    /// How long it took, in real time.
    pub wall: Duration,
}

/// Where a rank's time went, and what it sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankReport {
    /// When it left the job, or how far its time had come.
    pub time: Time,
    /// Computing.
    pub computing: Time,
    /// Waiting for others.
    pub waiting: Time,
    /// Commands that left it: sends, puts, gets, and answers to its requests.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
    /// Calls of its port that were served: commands, finds, waits.
    pub calls: u64,
    /// Whether it has left the job, in order or not.
    pub gone: bool,
}

impl RankReport {
    pub(super) fn new(tally: Tally, traffic: RankTraffic) -> RankReport {
        let Tally { computing, waiting, calls, .. } = tally;
        let RankTraffic { messages, bytes, now, gone } = traffic;
        RankReport { time: now, computing, waiting, messages, bytes, calls, gone }
    }

    /// The rest of its time: the host's steps in calls.
    pub fn in_calls(&self) -> Time {
        self.time - (self.computing + self.waiting)
    }
}

impl VirtualReport {
    /// When the last rank ended.
    pub fn end(&self) -> Time {
        self.ranks.iter().map(|rank| rank.time).max().unwrap_or_default()
    }

    /// Calls of all ranks.
    pub fn calls(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.calls).sum()
    }

    /// Calls served a second of real time.
    pub fn calls_per_second(&self) -> f64 {
        self.calls() as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}
