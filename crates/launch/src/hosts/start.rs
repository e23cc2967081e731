//! The cost of a start on many hosts, computed from the steps of the code: the tree of daemons, the
//! frames along it, and their bytes. Pure.
//!
//! ```text
//!   launcher ── agent ──► daemon: greeting ──►       each process starts the agents of its part
//!            ◄──────────────────────────────         one after the other
//!            ── plan ──────► once all of the part have greeted: starts the agents behind it,
//!                            then its own ranks
//!            ◄─ started ──── each host's, passed on from daemon to daemon
//!            ◄─ cards ────── of a host and those behind it, once all are there
//!            ── cards of all ──► passed on piece by piece
//! ```
//!
//! The counts of frames and bytes hold for a start in which no rank is so late that the other cards
//! are passed on without its own. Times are a model: agents of different processes do not delay
//! each other, and a process sends one frame after the other.

use std::ops::Range;
use std::time::Duration;

use super::cards::{CARD_HEAD, PIECE};
use super::frame::Frame;
use super::plan::{HostPlan, PlanHost, PlannedJob};
use super::tree::{MOST_CHILDREN, parts_by};
use crate::Launch;

/// Bytes of a frame about several ranks beside the bytes per rank.
const FRAME_HEAD: u64 = 13;

/// The costs of the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartCosts {
    /// Latency between processes of two hosts.
    pub latency: Duration,
    /// Bytes per second that a host sends.
    pub bytes_per_second: f64,
    /// Time that a process spends on each frame.
    pub frame: Duration,
    /// Time that a process spends on each address.
    pub card: Duration,
    /// Time from the start of an agent to its daemon's greeting.
    pub agent: Duration,
    /// Time that a parent spends on starting one process.
    pub process: Duration,
    /// Time from the start of a rank until its address is known.
    pub program: Duration,
}

/// A job to start. The launcher's own host is not one of its hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedJob {
    /// Number of hosts.
    pub hosts: u32,
    /// Ranks per host.
    pub ranks: u32,
    /// Bytes of a rank's address.
    pub card_bytes: usize,
    /// Bytes of the launcher's environment.
    pub environment: usize,
    /// Maximum number of daemons that one process starts.
    pub fan_out: u32,
}

impl StartedJob {
    /// A job with the code's fan-out and an environment of 4096 bytes.
    pub fn new(hosts: u32, ranks: u32, card_bytes: usize) -> StartedJob {
        StartedJob { hosts, ranks, card_bytes, environment: 4096, fan_out: MOST_CHILDREN }
    }
}

/// The estimated cost of a start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartEstimate {
    /// Number of daemons between the launcher and the farthest host, that host's included.
    pub depth: u32,
    /// Maximum number of agents that one process starts.
    pub children: u32,
    /// Plan frames on all links.
    pub plans: u64,
    /// Frames on all links that report started ranks.
    pub started: u64,
    /// Frames on all links that carry addresses up.
    pub cards_up: u64,
    /// Frames on all links that carry addresses down.
    pub cards_down: u64,
    /// Frames that the launcher sends and receives, the most of all processes.
    pub at_launcher: u64,
    /// Bytes on all links.
    pub bytes: u64,
    /// Bytes sent by the host that sends the most.
    pub most_sent: u64,
    /// When all ranks run.
    pub running: Duration,
    /// When every host knows all addresses.
    pub known: Duration,
}

impl StartEstimate {
    /// Estimates the start of a job at these costs.
    pub fn of(job: &StartedJob, costs: &StartCosts) -> StartEstimate {
        let mut start = Start { job, costs, plan: plan_bytes(job), all: StartEstimate::default() };
        let known = start.process(0..job.hosts, Duration::ZERO, 0);
        let frames = pieces(job, job.hosts);
        let end = start.spread(0..job.hosts, known, frames);
        start.all.known = end;
        start.all
    }

    /// Frames on all links.
    pub fn frames(&self) -> u64 {
        self.plans + self.started + self.cards_up + self.cards_down
    }
}

/// Bytes of a plan, which names all hosts.
fn plan_bytes(job: &StartedJob) -> u64 {
    let place = |host| PlanHost { name: format!("host{host:05}"), ranks: job.ranks, is_own: false };
    let variable = ("ENVIRONMENT".into(), "x".repeat(job.environment).into());
    let plan = HostPlan {
        own: 0,
        until: job.hosts,
        places: (0..job.hosts).map(place).collect(),
        beside: (0, 0),
        key: [0; 16],
        network: None,
        agent: vec!["ssh".into()],
        daemon: "hikyaku daemon".into(),
        patience_ms: 5000,
        interactive: (false, false),
        variables: vec![variable],
        job: PlannedJob::new(&Launch::new(job.hosts * job.ranks, "program"), &"/".into()),
    };
    let mut bytes = Vec::new();
    Frame::Plan(Box::new(plan)).put(0, &mut bytes);
    bytes.len() as u64
}

/// Bytes of the address frames of so many hosts.
fn card_bytes(job: &StartedJob, hosts: u32) -> u64 {
    let ranks = u64::from(hosts) * u64::from(job.ranks);
    ranks * (CARD_HEAD + job.card_bytes) as u64 + pieces(job, hosts) * FRAME_HEAD
}

fn pieces(job: &StartedJob, hosts: u32) -> u64 {
    let in_piece = (PIECE / (CARD_HEAD + job.card_bytes)).max(1) as u64;
    (u64::from(hosts) * u64::from(job.ranks)).div_ceil(in_piece)
}

struct Start<'a> {
    job: &'a StartedJob,
    costs: &'a StartCosts,
    plan: u64,
    all: StartEstimate,
}

impl Start<'_> {
    fn parts(&self, hosts: Range<u32>) -> Vec<Range<u32>> {
        parts_by(self.job.fan_out, hosts, &|_| false)
    }

    /// The time to send so many bytes from a host.
    fn wire(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.costs.bytes_per_second)
    }

    /// Models a process that starts the daemons of these hosts from `now` on. Returns when it has
    /// the addresses of all their ranks.
    fn process(&mut self, hosts: Range<u32>, now: Duration, depth: u32) -> Duration {
        let (job, costs) = (*self.job, *self.costs);
        let parts = self.parts(hosts);
        let all = &mut self.all;
        (all.depth, all.children) = (all.depth.max(depth), all.children.max(parts.len() as u32));
        let begun = now + costs.process * parts.len() as u32;
        let (mut busy, mut known) = (begun + costs.agent + costs.latency, now);
        for part in parts {
            let count = part.end - part.start;
            busy += costs.frame + self.wire(self.plan);
            let begun = busy + costs.latency + costs.frame;
            self.all.plans += 1;
            // The daemon starts the daemons behind it, then its own ranks.
            let behind = self.process(part.start + 1..part.end, begun, depth + 1);
            let agents = self.parts(part.start + 1..part.end).len() as u32;
            let started = begun + costs.process * (agents + job.ranks);
            self.all.running = self.all.running.max(started + costs.program);
            self.all.started += u64::from(depth) + 1;
            let (frames, bytes) = (pieces(&job, count), card_bytes(&job, count));
            self.all.cards_up += frames;
            let told = behind.max(started + costs.program) + self.wire(bytes) + costs.latency;
            known = known.max(told);
            let own = u64::from(job.ranks) * 4 + FRAME_HEAD;
            self.all.bytes += self.plan + own * (u64::from(depth) + 1) + bytes;
            if depth == 0 {
                self.all.at_launcher += 1 + u64::from(count) + frames;
            }
            let frames = u32::try_from(frames).unwrap_or(u32::MAX);
            known += costs.frame * frames + costs.card * (count * job.ranks);
        }
        known
    }

    /// Models how the addresses of all ranks spread, in so many frames, from a process that has the
    /// first frame at `now` to these hosts. Returns when the last host has all.
    fn spread(&mut self, hosts: Range<u32>, now: Duration, frames: u64) -> Duration {
        let (job, costs) = (*self.job, *self.costs);
        let parts = self.parts(hosts.clone());
        if parts.is_empty() {
            return now;
        }
        let is_launcher = hosts == (0..job.hosts);
        let (links, bytes) = (parts.len() as u64, card_bytes(&job, job.hosts));
        self.all.cards_down += links * frames;
        self.all.bytes += links * bytes;
        self.all.most_sent = self.all.most_sent.max(links * (bytes + self.plan));
        if is_launcher {
            self.all.at_launcher += links * frames;
        }
        let each = |count: u64| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.wire(bytes / frames) * count + costs.frame * count
        };
        // A daemon passes a frame on as soon as it has it. The last host of the last part gets its
        // first frame after one frame to each part, and its last one when its parent has sent all.
        let (first, whole) = (now + each(links) + costs.latency, now + each(links * frames));
        let taken = costs.card * job.hosts * job.ranks;
        let mut end = whole + costs.latency + taken;
        for part in parts {
            end = end.max(self.spread(part.start + 1..part.end, first, frames));
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: StartCosts = StartCosts {
        latency: Duration::from_micros(2),
        bytes_per_second: 1e9,
        frame: Duration::from_micros(20),
        card: Duration::from_nanos(100),
        agent: Duration::from_millis(100),
        process: Duration::from_millis(1),
        program: Duration::from_millis(20),
    };

    fn of(hosts: u32, ranks: u32, fan_out: u32) -> StartEstimate {
        let job = StartedJob { fan_out, ..StartedJob::new(hosts, ranks, 28) };
        StartEstimate::of(&job, &COSTS)
    }

    /// No count grows with the square of hosts or ranks, except that each host gets all addresses.
    #[test]
    fn frames_follow_the_hosts() {
        for fan_out in [2, 4, 16, 64] {
            for hosts in [1, 2, 16, 17, 100, 1000, 10_000] {
                for ranks in [1, 8, 64] {
                    let start = of(hosts, ranks, fan_out);
                    let whole = pieces(&StartedJob::new(hosts, ranks, 28), hosts);
                    let (hosts, depth) = (u64::from(hosts), u64::from(start.depth));
                    let about = format!("{hosts} x {ranks} by {fan_out}: {start:?}");
                    assert_eq!((start.plans, start.cards_down), (hosts, hosts * whole), "{about}");
                    assert!(start.started <= hosts * depth, "{about}");
                    assert!(start.cards_up <= hosts + depth * whole, "{about}");
                    assert!(u64::from(start.children) <= u64::from(fan_out), "{about}");
                    let widest = u64::from(start.children) * whole;
                    assert!(start.at_launcher <= 2 * hosts + 2 * widest + whole + 64, "{about}");
                    assert!(start.known >= start.running, "{about}");
                }
            }
        }
    }

    #[test]
    fn the_tree_is_as_deep_as_its_fan_out_says() {
        for (hosts, fan_out, depth) in [(1, 16, 1), (16, 16, 1), (17, 16, 2), (272, 16, 2)] {
            assert_eq!(of(hosts, 1, fan_out).depth, depth, "{hosts} by {fan_out}");
        }
        assert_eq!((of(10_000, 64, 16).depth, of(10_000, 64, 10_000).depth), (4, 1));
    }

    #[test]
    fn ten_thousand_hosts_start_faster_by_a_tree_than_from_one_place() {
        let (tree, one) = (of(10_000, 64, 16), of(10_000, 64, 10_000));
        assert!(tree.running < one.running / 4, "{tree:?} {one:?}");
        assert!(tree.most_sent < one.most_sent / 100, "{tree:?} {one:?}");
        // Twice the hosts take little longer until all ranks run.
        let twice = of(20_000, 64, 16);
        assert!(twice.running < tree.running * 3 / 2, "{twice:?}");
    }
}
