//! The programs in a small asynchronous model: any interleaving of starts, slots and deliveries.
//!
//! The programs are the only part of the implementation in it. Ranks start a round at any time
//! after the last one is complete, queues run a slot at any time after it may run, and puts are
//! delivered at any time and in any order. Checked: no rank gets stuck, and data is sent only after
//! its receiver has reported a place for it. Each constant one off shows that the model detects
//! wrong constants (TF-12).

use hikyaku_nic::random::Random;
use proptest::prelude::*;

use super::{
    Channel, CombinedRank, IncomingEnd, NodeRank, QueueLimits, QueueProgram, QueueStep, Scheme,
    combine,
};

/// How a faulty run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// No action is possible, but rounds are missing.
    Stuck,
    /// Data was sent before its receiver had a place, or before it had arrived at the relay.
    TooEarly,
    /// A wait returned before all data of the round had arrived.
    Incomplete,
}

/// One edge: an outgoing edge of a rank and the incoming edge that it meets.
#[derive(Debug, Clone, Copy)]
struct Edge {
    from: (usize, usize),
    to: (usize, usize),
    channel: Channel,
}

/// A queue and its three pointers.
struct Queue {
    program: QueueProgram,
    write: u64,
    read: u64,
    scheduling: u64,
    arrivals: u64,
}

impl Queue {
    /// The number of arrivals in a round: the edges whose RTRs this queue sends.
    fn incoming(&self) -> u64 {
        self.program.steps.iter().filter(|step| matches!(step, QueueStep::Ready(_))).count() as u64
    }

    fn may_run(&self) -> bool {
        self.read < self.write && (self.program.offset.is_none() || self.read < self.scheduling)
    }
}

/// A put in flight.
enum Put {
    Release { rank: usize, queue: usize, slots: u32 },
    Arrival { edge: usize },
}

/// A possible next action.
enum Action {
    Start(usize),
    Run(usize, usize),
    Deliver(usize),
}

struct Model {
    /// The edges of each rank, after those between nodes are combined.
    ranks: Vec<CombinedRank>,
    edges: Vec<Edge>,
    queues: Vec<Vec<Queue>>,
    started: Vec<u64>,
    under_way: Vec<Put>,
    /// RTRs sent and data sent, by edge. RTRs sent in advance are counted.
    ready: Vec<u64>,
    data: Vec<u64>,
    /// Data that has arrived, by edge.
    arrived: Vec<u64>,
    random: Random,
}

/// The properties of a graph's ranks that all ranks know.
fn told(ranks: usize, edges: &[(usize, usize)], job: &Job) -> Vec<NodeRank> {
    let slots = if job.wish == Some(Scheme::Combined) { 64 } else { 0 };
    let rank = |rank: usize| NodeRank {
        node: job.nodes.iter().take_while(|first| **first <= rank).count() as u32,
        room: QueueLimits { queues: 16, slots },
        outs: edges.iter().filter(|edge| edge.0 == rank).map(|edge| (edge.1 as u32, 8)).collect(),
        ins: edges
            .iter()
            .filter(|edge| edge.1 == rank)
            .map(|edge| IncomingEnd { rank: edge.0 as u32, bytes: 8, start: None })
            .collect(),
    };
    (0..ranks).map(rank).collect()
}

/// Matches the two ends of every edge.
fn ends(ranks: &[CombinedRank]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for (rank, own) in ranks.iter().enumerate() {
        for (at, out) in own.outs.iter().enumerate() {
            let (peer, channel) = (out.peer as usize, out.channel);
            let same =
                |edge: &&Edge| (edge.from.0, edge.to.0, edge.channel) == (rank, peer, channel);
            let before = edges.iter().filter(same).count();
            let into = ranks[peer].ins.iter().enumerate();
            let mut into =
                into.filter(|(_, end)| (end.peer as usize, end.channel) == (rank, channel));
            let to = (peer, into.nth(before).unwrap().0);
            edges.push(Edge { from: (rank, at), to, channel });
        }
    }
    edges
}

impl Model {
    fn new(ranks: usize, edges: &[(usize, usize)], job: &Job, seed: u64) -> Model {
        let combined = combine(&told(ranks, edges, job));
        let list = ends(&combined);
        let queues = combined.iter().enumerate().map(|(rank, edges)| {
            let limits = QueueLimits { queues: job.queues[rank % job.queues.len()], slots: 64 };
            let mut programs = edges.plan(limits, job.wish).unwrap();
            programs.extend(edges.relays.iter().map(|relay| relay.program.clone()));
            assert!(programs.iter().all(|program| program.steps.len() <= 64));
            let queue = |program: QueueProgram| {
                let program = (job.spoil)(program);
                let scheduling = program.offset.unwrap_or(0).into();
                Queue { program, write: 0, read: 0, scheduling, arrivals: 0 }
            };
            programs.into_iter().map(queue).collect()
        });
        let mut model = Model {
            queues: queues.collect(),
            started: vec![0; ranks],
            under_way: Vec::new(),
            ready: vec![0; list.len()],
            data: vec![0; list.len()],
            arrived: vec![0; list.len()],
            ranks: combined,
            edges: list,
            random: Random::new(seed),
        };
        model.give_second_places(job.ahead);
        model
    }

    /// Sends an RTR in advance for the second place of each edge that has two places, used in turn.
    fn give_second_places(&mut self, ahead: Ahead) {
        for (at, Edge { from, to, channel }) in self.edges.clone().into_iter().enumerate() {
            let sending = self.sending(from);
            let receiving = self.serving(to.0, QueueStep::Ready(to.1));
            let alone = channel == Channel::Direct
                && self.queues[from.0][sending].program.serves_one_neighbour()
                && self.queues[to.0][receiving].program.serves_one_neighbour();
            if ahead == Ahead::Always || ahead == Ahead::WhereRight && alone {
                let sending = &mut self.queues[from.0][sending];
                sending.scheduling += u64::from(sending.program.ready);
                self.ready[at] += 1;
            }
        }
    }

    /// Whether a rank's wait for its last round returns.
    fn is_over(&self, rank: usize) -> bool {
        self.queues[rank].iter().all(|queue| {
            queue.read == queue.write && queue.arrivals >= self.started[rank] * queue.incoming()
        })
    }

    /// Whether all data of a rank's last round has really arrived.
    fn is_whole(&self, rank: usize) -> bool {
        let mut edges = self.edges.iter().zip(&self.arrived);
        edges.all(|(edge, arrived)| edge.to.0 != rank || *arrived >= self.started[rank])
    }

    /// The queue that sends the data of an outgoing edge.
    fn sending(&self, (rank, out): (usize, usize)) -> usize {
        self.serving(rank, QueueStep::Data(self.ranks[rank].outs[out].puts.start))
    }

    /// The queue that has this step.
    fn serving(&self, rank: usize, step: QueueStep) -> usize {
        self.queues[rank].iter().position(|queue| queue.program.steps.contains(&step)).unwrap()
    }

    fn actions(&self, rounds: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        for rank in 0..self.queues.len() {
            if self.started[rank] < rounds && self.is_over(rank) {
                actions.push(Action::Start(rank));
            }
            let may_run = self.queues[rank].iter().enumerate().filter(|(_, q)| q.may_run());
            actions.extend(may_run.map(|(queue, _)| Action::Run(rank, queue)));
        }
        actions.extend((0..self.under_way.len()).map(Action::Deliver));
        actions
    }

    fn run(mut self, rounds: u64) -> Result<(), Wrong> {
        loop {
            let mut actions = self.actions(rounds);
            if actions.is_empty() {
                let all = (0..self.queues.len()).all(|rank| self.is_over(rank));
                let whole = all && self.started.iter().all(|started| *started == rounds);
                return if whole { Ok(()) } else { Err(Wrong::Stuck) };
            }
            let which = self.random.place(actions.len());
            match actions.swap_remove(which) {
                Action::Start(rank) => {
                    if !self.is_whole(rank) {
                        return Err(Wrong::Incomplete);
                    }
                    self.started[rank] += 1;
                    for queue in &mut self.queues[rank] {
                        queue.write += queue.program.steps.len() as u64;
                    }
                }
                Action::Run(rank, queue) => self.run_slot(rank, queue)?,
                Action::Deliver(which) => match self.under_way.swap_remove(which) {
                    Put::Arrival { edge } => {
                        let (rank, incoming) = self.edges[edge].to;
                        let queue = self.serving(rank, QueueStep::Ready(incoming));
                        let queue = &mut self.queues[rank][queue];
                        queue.arrivals += 1;
                        queue.scheduling += u64::from(self.edges[edge].channel.releases());
                        self.arrived[edge] += 1;
                    }
                    Put::Release { rank, queue, slots } => {
                        self.queues[rank][queue].scheduling += u64::from(slots);
                    }
                },
            }
        }
    }

    fn run_slot(&mut self, rank: usize, queue: usize) -> Result<(), Wrong> {
        let running = &mut self.queues[rank][queue];
        let length = running.program.steps.len() as u64;
        let step = running.program.steps[(running.read % length) as usize];
        let own = running.program.own;
        running.read += 1;
        match step {
            QueueStep::Nop | QueueStep::Combine(_) => {}
            QueueStep::Own => self.under_way.push(Put::Release { rank, queue, slots: own }),
            QueueStep::Ready(incoming) => {
                let edge = self.find(|edge| edge.to == (rank, incoming));
                let (source, outgoing) = self.edges[edge].from;
                let queue = self.sending((source, outgoing));
                let slots = self.queues[source][queue].program.ready;
                self.ready[edge] += 1;
                self.under_way.push(Put::Release { rank: source, queue, slots });
            }
            QueueStep::Data(put) => {
                let outs = &self.ranks[rank].outs;
                let out = outs.iter().position(|out| out.puts.contains(&put)).unwrap();
                let (first, end) = (outs[out].puts.start, outs[out].puts.end);
                let edge = self.find(|edge| edge.from == (rank, out));
                self.data[edge] += u64::from(put == first);
                if self.data[edge] > self.ready[edge] || !self.has_come(rank, queue, edge) {
                    return Err(Wrong::TooEarly);
                }
                if put + 1 == end {
                    self.under_way.push(Put::Arrival { edge });
                }
            }
        }
        Ok(())
    }

    /// Whether a relay has received the data that it sends now along an edge.
    fn has_come(&self, rank: usize, queue: usize, edge: usize) -> bool {
        let CombinedRank { outs, own, .. } = &self.ranks[rank];
        if outs.len() == own.0 || self.edges[edge].from.1 < own.0 {
            return true;
        }
        let steps = &self.queues[rank][queue].program.steps;
        let mut into =
            self.edges.iter().zip(&self.arrived).filter(|(into, _)| {
                into.to.0 == rank && steps.contains(&QueueStep::Ready(into.to.1))
            });
        into.all(|(_, arrived)| *arrived >= self.data[edge])
    }

    fn find(&self, wanted: impl Fn(&Edge) -> bool) -> usize {
        self.edges.iter().position(wanted).unwrap()
    }
}

/// The edges that have two places for their data, used in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Never,
    /// Edges whose queues at both ends serve no other edge.
    WhereRight,
    Always,
}

/// How the ranks of a model plan.
struct Job {
    wish: Option<Scheme>,
    /// Queues per rank; the list is repeated over the ranks.
    queues: Vec<u32>,
    ahead: Ahead,
    /// The first rank of each node but the first.
    nodes: Vec<usize>,
    /// A change to each program.
    spoil: fn(QueueProgram) -> QueueProgram,
}

impl Job {
    fn honest(wish: Option<Scheme>, ahead: Ahead) -> Job {
        Job { wish, queues: vec![64], ahead, nodes: Vec::new(), spoil: |program| program }
    }

    /// Ranks on nodes that begin at these ranks, with the edges between nodes combined.
    fn combined(nodes: &[usize]) -> Job {
        Job { nodes: nodes.into(), ..Job::honest(Some(Scheme::Combined), Ahead::WhereRight) }
    }
}

fn ring(ranks: usize) -> Vec<(usize, usize)> {
    (0..ranks).flat_map(|rank| [(rank, (rank + 1) % ranks), ((rank + 1) % ranks, rank)]).collect()
}

fn torus(side: usize) -> Vec<(usize, usize)> {
    let at = |row: usize, column: usize| row % side * side + column % side;
    let steps = |cell: usize| {
        let (row, column) = (cell / side, cell % side);
        [(row + 1, column), (row + side - 1, column), (row, column + 1), (row, column + side - 1)]
            .map(|(row, column)| (cell, at(row, column)))
    };
    (0..side * side).flat_map(steps).collect()
}

const SEEDS: u64 = 60;

#[test]
fn tf_11_rings_and_tori_go_on_under_any_interleaving() {
    let (fast, mrc) = (Scheme::Fast, Scheme::Mrc);
    let kinds = [(fast, Ahead::Never), (fast, Ahead::WhereRight), (mrc, Ahead::WhereRight)];
    for (wish, ahead) in kinds {
        for (ranks, edges) in [(5, ring(5)), (2, ring(2)), (1, ring(1)), (16, torus(4))] {
            for seed in 0..SEEDS {
                let job = Job::honest(Some(wish), ahead);
                let ended = Model::new(ranks, &edges, &job, seed).run(6);
                assert_eq!(ended, Ok(()), "{wish:?}, {ahead:?}, {ranks} ranks, seed {seed}");
            }
        }
    }
}

/// Every seed must fail, with this error.
fn fails(wish: Scheme, expected: Wrong, spoil: fn(QueueProgram) -> QueueProgram) {
    for seed in 0..SEEDS {
        let job = Job { spoil, ..Job::honest(Some(wish), Ahead::Never) };
        let ended = Model::new(5, &ring(5), &job, seed).run(20);
        assert_eq!(ended, Err(expected), "seed {seed}");
    }
}

fn offset_by(program: QueueProgram, by: i32) -> QueueProgram {
    let offset = program.offset.map(|offset| offset.wrapping_add_signed(by));
    QueueProgram { offset, ..program }
}

#[test]
fn tf_12_fast_with_a_constant_that_is_one_off_fails() {
    fails(Scheme::Fast, Wrong::Stuck, |p| QueueProgram { ready: p.ready - 1, ..p });
    fails(Scheme::Fast, Wrong::Stuck, |p| offset_by(p, -1));
    fails(Scheme::Fast, Wrong::TooEarly, |p| offset_by(p, 1));
}

#[test]
fn tf_12_mrc_with_a_constant_that_is_off_fails() {
    fails(Scheme::Mrc, Wrong::Stuck, |p| QueueProgram { own: p.own - 2, ..p });
    fails(Scheme::Mrc, Wrong::TooEarly, |p| QueueProgram { own: p.own + 1, ..p });
    fails(Scheme::Mrc, Wrong::TooEarly, |p| offset_by(p, 1));
    fails(Scheme::Mrc, Wrong::TooEarly, |mut p| {
        p.steps.retain(|step| *step != QueueStep::Nop);
        p
    });
}

/// All ranks of different nodes exchange with each other.
fn between(nodes: &[usize], ranks: usize) -> Vec<(usize, usize)> {
    let node = |rank: usize| nodes.iter().take_while(|first| **first <= rank).count();
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    pairs.filter(|(from, to)| node(*from) != node(*to)).collect()
}

#[test]
fn tf_11_combined_edges_go_on_under_any_interleaving() {
    let every_other = [2, 4, 6, 8, 10, 12, 14];
    let lone = [1, 2, 3, 4];
    let uneven = [1, 5];
    for (nodes, ranks, edges) in [
        (&every_other[..2], 6, between(&every_other[..2], 6)),
        (&every_other[..], 16, torus(4)),
        (&every_other[..2], 5, ring(5)),
        (&lone[..], 5, ring(5)),
        (&uneven[..], 7, between(&uneven, 7)),
        // One edge twice, and one direction only.
        (&[3][..], 6, [(0, 3), (0, 3), (1, 3), (2, 5), (5, 5)].into()),
    ] {
        for seed in 0..SEEDS {
            let ended = Model::new(ranks, &edges, &Job::combined(nodes), seed).run(6);
            assert_eq!(ended, Ok(()), "{nodes:?}, {ranks} ranks, seed {seed}");
        }
    }
}

/// For both relays: every seed must fail, with one of these errors.
fn relay_fails(expected: &[Wrong], spoil: fn(QueueProgram) -> QueueProgram) {
    let (nodes, ranks) = ([3], 6);
    for seed in 0..SEEDS {
        let job = Job { spoil, ..Job::combined(&nodes) };
        let ended = Model::new(ranks, &between(&nodes, ranks), &job, seed).run(20);
        assert!(ended.is_err_and(|wrong| expected.contains(&wrong)), "seed {seed}: {ended:?}");
    }
}

fn gathers(program: &QueueProgram) -> bool {
    is_relay(program)
        && program.steps.iter().filter(|it| matches!(it, QueueStep::Data(_))).count() == 1
}

fn is_relay(program: &QueueProgram) -> bool {
    program.cleared == u32::MAX
}

fn scatters(program: &QueueProgram) -> bool {
    is_relay(program) && !gathers(program)
}

#[test]
fn tf_12_a_relay_with_a_constant_that_is_one_off_fails() {
    use Wrong::{Stuck, TooEarly};
    macro_rules! each_fails {
        ($expected:expr, $program:ident => $spoilt:expr) => {
            relay_fails($expected, |$program| if gathers(&$program) { $spoilt } else { $program });
            relay_fails($expected, |$program| if scatters(&$program) { $spoilt } else { $program });
        };
    }
    each_fails!(&[Stuck], p => QueueProgram { own: p.own - 1, ..p });
    each_fails!(&[TooEarly], p => QueueProgram { own: p.own + 1, ..p });
    each_fails!(&[Stuck], p => QueueProgram { ready: p.ready - 1, ..p });
    each_fails!(&[TooEarly], p => QueueProgram { ready: p.ready + 1, ..p });
    each_fails!(&[Stuck], p => offset_by(p, -1));
    each_fails!(&[TooEarly], p => offset_by(p, 1));
    each_fails!(&[TooEarly], p => less_a_nop(p));
    each_fails!(&[Stuck], p => more_a_nop(p));
}

fn less_a_nop(mut program: QueueProgram) -> QueueProgram {
    let at = program.steps.iter().position(|step| *step == QueueStep::Nop).unwrap();
    program.steps.remove(at);
    program
}

fn more_a_nop(mut program: QueueProgram) -> QueueProgram {
    let at = program.steps.iter().position(|step| *step == QueueStep::Nop).unwrap();
    program.steps.insert(at, QueueStep::Nop);
    program
}

/// A queue with several incoming edges must not run a round ahead: it counts arrivals without their
/// origin, and would take one source's second for another's first.
#[test]
fn a_count_of_arrivals_is_not_enough_for_several_sources_a_round_ahead() {
    let ended = (0..SEEDS).map(|seed| {
        let job = Job::honest(Some(Scheme::Mrc), Ahead::Always);
        Model::new(5, &ring(5), &job, seed).run(20)
    });
    assert!(ended.into_iter().any(|ended| ended != Ok(())));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// TF-13: multi-edges, self loops, isolated ranks, ranks that only send or only receive, and
    /// ranks that choose differently.
    #[test]
    fn tf_13_any_digraph_goes_on(
        ranks in 1..7usize,
        edges in prop::collection::vec((0..7usize, 0..7usize), 0..14),
        wish in prop_oneof![
            Just(None),
            Just(Some(Scheme::Fast)),
            Just(Some(Scheme::Mrc)),
            Just(Some(Scheme::Combined)),
        ],
        nodes in prop::collection::btree_set(1..7usize, 1..5),
        queues in prop::collection::vec(1..9u32, 1..4),
        ahead in prop_oneof![Just(Ahead::Never), Just(Ahead::WhereRight)],
        seed: u64,
    ) {
        let edges: Vec<_> = edges.iter().map(|(from, to)| (from % ranks, to % ranks)).collect();
        let nodes = nodes.into_iter().collect();
        let job = Job { queues, nodes, ..Job::honest(wish, ahead) };
        prop_assert_eq!(Model::new(ranks, &edges, &job, seed).run(6), Ok(()));
    }
}
