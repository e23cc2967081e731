//! The costs of messages on a simulated machine, measured on its model with a few messages.
//!
//! Each pattern runs on a machine at rest, between rank 0, the ranks next to it and one in the
//! middle of the machine:
//!
//! ```text
//!   one way      0 ─► p              from the start of the send to the end of the receive
//!   send, chain  0 ─► p, q, r, …     minus one way: the cost of each further message
//!   receive      p, q, r, … ─► 0     the same
//!   exchange     0 ◄─► p, q, r, …    the same
//! ```
//!
//! The number of messages that share a link is counted along the routes of the machine's network.
//! It is not measured with all ranks at once: a few ranks that are neither neighbours nor evenly
//! spread block each other more than the whole machine does (on cp-pacs 9 ranks for twice as long a
//! message as 64).

use std::rc::Rc;

use hikyaku_coll::{Costs, MessageCosts, Sharing};
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{ChainPlace, Content, Job, JobConfig, Payload, Rank};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::topology::Topology;

/// The measured lengths, bytes. Longer messages follow the line through the last two.
const LENGTHS: [usize; 4] = [8, 1 << 10, 32 << 10, 256 << 10];

/// Ranks beside rank 0 in a pattern, at most.
const PEERS: u32 = 8;

/// The maximum number of ranks for which costs are measured; larger jobs use the table.
const MOST_RANKS: u32 = 4096;

/// The maximum number of distances at which all-to-all messages are counted.
const DISTANCES: u32 = 256;

/// The messages that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Send,
    Chain,
    Receive,
    Exchange,
}

/// The costs of messages between ranks that each have a node of this machine.
///
/// `None`: there are no costs to choose by, because there is one rank, or more than 4,096, or the
/// machine has too few nodes.
pub fn message_costs(machine: &Machine, ranks: u32) -> Option<Costs> {
    if !(2..=MOST_RANKS.min(machine.nodes)).contains(&ranks) {
        return None;
    }
    let lengths: Result<Vec<MessageCosts>, SimError> =
        LENGTHS.iter().map(|&bytes| measured(machine, ranks, bytes)).collect();
    let byte = 1.0 / machine.links.rate.as_bytes_per_second();
    Costs::new(lengths.ok()?, sharing(&*machine.topology(), ranks, byte))
}

/// The costs of messages of one length.
fn measured(machine: &Machine, ranks: u32, bytes: usize) -> Result<MessageCosts, SimError> {
    // The next ranks, which share few links, and last the rank that `one_way` measures.
    let count = PEERS.min(ranks - 1);
    let middle = count.max(ranks / 2);
    let alone: Rc<[u32]> = Rc::from([middle]);
    let peers: Rc<[u32]> = (1..count).chain([middle]).collect();
    let one_way = time(machine, ranks, Pattern::Send, &alone, bytes)?;
    let further = |pattern| {
        let all = time(machine, ranks, pattern, &peers, bytes)?;
        Ok::<f64, SimError>((all - one_way).max(0.0) / f64::from((count - 1).max(1)))
    };
    Ok(MessageCosts {
        bytes,
        one_way,
        send: further(Pattern::Send)?,
        chained: further(Pattern::Chain)?,
        receive: further(Pattern::Receive)?,
        exchange: further(Pattern::Exchange)?,
    })
}

/// The virtual time of a pattern in seconds.
fn time(
    machine: &Machine,
    ranks: u32,
    pattern: Pattern,
    peers: &Rc<[u32]>,
    bytes: usize,
) -> Result<f64, SimError> {
    let simulation = Simulation::new(0);
    let carrier = machine.install(&simulation).carrier;
    let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(ranks) };
    let job = Job::new(&simulation, config, carrier)?;
    let report = job.run(|rank| take_part(rank, pattern, Rc::clone(peers), bytes))?;
    report.results.into_iter().collect::<Result<(), SimError>>()?;
    Ok(report.end.seconds())
}

/// A rank's part in a pattern.
async fn take_part(
    rank: Rank,
    pattern: Pattern,
    peers: Rc<[u32]>,
    bytes: usize,
) -> Result<(), SimError> {
    let me = rank.rank();
    let others = match me {
        0 => peers.to_vec(),
        _ if peers.contains(&me) => vec![0],
        _ => return Ok(()),
    };
    let (to, from) = match (pattern, me) {
        (Pattern::Exchange, _) => (others.clone(), others),
        (Pattern::Send | Pattern::Chain, 0) | (Pattern::Receive, 1..) => (others, Vec::new()),
        (Pattern::Send | Pattern::Chain, 1..) | (Pattern::Receive, 0) => (Vec::new(), others),
    };
    let mut receives = from.into_iter().map(|from| rank.irecv(Some(from), None)).collect();
    let (mut place, mut sends) = (ChainPlace::First, Vec::new());
    let content = || Content::Length(bytes as u64);
    for to in to {
        if pattern == Pattern::Send {
            rank.send(to, 0, content()).await?;
            continue;
        }
        sends.push(rank.isend_at(to, 0, content(), place)?);
        place = ChainPlace::Chained;
    }
    for send in sends {
        send.await;
    }
    rank.wait_all(&mut receives).await;
    Ok(())
}

/// How messages share the links of a network if its first `ranks` nodes send at the same time.
fn sharing(topology: &dyn Topology, ranks: u32, byte: f64) -> Sharing {
    let mut route = Vec::new();
    // Adds `count` for each message of a shift.
    let mut shift = |far: u32, count: u32, messages: &mut [u32]| {
        for from in 0..ranks {
            route.clear();
            topology.route(from, (from + far) % ranks, &mut route);
            route.iter().for_each(|channel| messages[topology.link_of(*channel) as usize] += count);
        }
    };
    let none = || vec![0u32; topology.links() as usize];
    let busiest = |messages: Vec<u32>| messages.into_iter().max().unwrap_or_default();
    let doubling = std::iter::successors(Some(1u32), |far| far.checked_mul(2));
    let mut shifts = Vec::new();
    for far in doubling.take_while(|far| *far < ranks) {
        let mut messages = none();
        shift(far, 1, &mut messages);
        shifts.push(busiest(messages));
    }
    // If there are many distances, a sample stands for the others.
    let step = ranks.div_ceil(DISTANCES);
    let mut messages = none();
    for far in (1..ranks).step_by(step as usize) {
        shift(far, step.min(ranks - far), &mut messages);
    }
    Sharing { shifts, all_to_all: f64::from(busiest(messages)), byte }
}
