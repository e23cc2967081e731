//! Making an exchange: queues are taken, every rank says what its ends of edges are, and the two
//! ends of each edge are put together. Addresses go round here and never again (TF-06).
//!
//! What each rank says is shared by all before anything is judged, so that a mistake, or a want of
//! memory or queues, on one rank is an error on every rank and nobody is left waiting.

use hikyaku_coll::persistent::{Limits, Program, Step, plan};
use hikyaku_nic::fabric::{Port, QueueAddress, QueueMode};

use super::edges::Neighbours;
use super::error::PersistentError;
use crate::error::Error;
use crate::world::World;

/// This rank's end of an edge, before it is known who is at the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) rank: u32,
    pub(super) bytes: u64,
    /// Where the data is, or goes, in this rank's region. An incoming edge may have two places.
    pub(super) at: [u64; 2],
}

/// An edge that leads away, complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Out {
    pub(super) bytes: u64,
    /// Where the data is in this rank's region, and where it goes in the other's, by turns.
    pub(super) from: u64,
    pub(super) at: [u64; 2],
    /// The queue that counts its arrival.
    pub(super) event: QueueAddress,
    /// Whether it has two places at the other end, used in turn.
    pub(super) ahead: bool,
}

/// An edge that leads here, complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct In {
    /// The queue that waits for this rank's READY-TO-RECV, and how many slots that releases.
    pub(super) queue: QueueAddress,
    pub(super) ready: u32,
    /// Whether there are two places for its data, used in turn.
    pub(super) ahead: bool,
}

/// A command queue of this rank and what it does in a round.
#[derive(Debug)]
pub(super) struct OwnQueue {
    pub(super) address: QueueAddress,
    pub(super) program: Program,
    /// Arrivals of a round.
    pub(super) arrivals: u64,
}

/// Everything that a rank needs to know for its rounds.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) queues: Vec<OwnQueue>,
    pub(super) outs: Vec<Out>,
    pub(super) ins: Vec<In>,
}

/// One end of an edge, as its rank tells the others.
#[derive(Debug, Clone, Copy)]
struct Told {
    peer: u32,
    bytes: u64,
    at: [u64; 2],
    queue: QueueAddress,
    /// Of an outgoing edge: what its READY-TO-RECV releases.
    ready: u32,
    /// Whether its queue serves no other neighbour.
    alone: bool,
}

/// What one rank tells.
#[derive(Debug, Default)]
struct Table {
    outs: Vec<Told>,
    ins: Vec<Told>,
}

/// Makes an exchange whose ends `prepared` are, or whatever kept this rank from having any. Every
/// rank of `world` calls.
pub(super) fn set_up(
    world: &World,
    neighbours: &Neighbours,
    prepared: Result<(Vec<End>, Vec<End>), Error>,
) -> Result<Wiring, Error> {
    let ours = prepared.and_then(|(outs, ins)| {
        let queues = take_queues(world, neighbours)?;
        Ok((outs, ins, queues))
    });
    let words = ours.as_ref().map_or(vec![0], |(outs, ins, queues)| tell(outs, ins, queues));
    let shared = world.share(&words);
    let (outs, _, queues) = ours?;
    let wired = shared.and_then(|shared| wire(world.rank(), &outs, &shared));
    match wired {
        Ok((outs, ins)) => Ok(Wiring { queues, outs, ins }),
        Err(error) => {
            give_back(world, &queues);
            Err(error)
        }
    }
}

/// Destroys queues in which nothing has been written.
fn give_back(world: &World, queues: &[OwnQueue]) {
    let mut engine = world.engine().borrow_mut();
    for queue in queues {
        // Nobody else knows them yet, or has written to them: it cannot be refused.
        let _ = engine.port_mut().destroy_queue(queue.address.queue);
    }
}

fn take_queues(world: &World, neighbours: &Neighbours) -> Result<Vec<OwnQueue>, Error> {
    let ranks = |list: &[super::Neighbour]| list.iter().map(|edge| edge.rank).collect::<Vec<_>>();
    let (sources, destinations) = (ranks(&neighbours.sources), ranks(&neighbours.destinations));
    let (queues, slots) = world.engine().borrow().port().free_queues();
    let programs = plan(&sources, &destinations, Limits { queues, slots }, neighbours.scheme)
        .map_err(PersistentError::Plan)?;
    let mut taken = Vec::with_capacity(programs.len());
    for program in programs {
        let mode = match program.offset {
            None => QueueMode::Normal,
            Some(offset) => QueueMode::Session { offset },
        };
        let slots = program.steps.len() as u32;
        let made = world.engine().borrow_mut().port_mut().create_queue(mode, slots);
        match made {
            Ok(address) => {
                let ready = program.steps.iter().filter(|step| matches!(step, Step::Ready(_)));
                taken.push(OwnQueue { address, arrivals: ready.count() as u64, program });
            }
            Err(error) => {
                give_back(world, &taken);
                return Err(PersistentError::Queue(error).into());
            }
        }
    }
    Ok(taken)
}

/// The queue that serves an end of an edge.
fn serving(queues: &[OwnQueue], step: Step) -> &OwnQueue {
    let found = queues.iter().find(|queue| queue.program.steps.contains(&step));
    found.expect("a plan serves every edge")
}

/// Words in which an end of an edge is told.
const END_WORDS: usize = 11;

/// What this rank tells the others: how many edges it has, and each.
fn tell(outs: &[End], ins: &[End], queues: &[OwnQueue]) -> Vec<u32> {
    let mut words = vec![1, outs.len() as u32, ins.len() as u32];
    let out = outs.iter().enumerate().map(|(edge, end)| (end, Step::Data(edge)));
    let into = ins.iter().enumerate().map(|(edge, end)| (end, Step::Ready(edge)));
    for (end, step) in out.chain(into) {
        let OwnQueue { address, program, .. } = serving(queues, step);
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        words.push(end.rank);
        words.extend([end.bytes, end.at[0], end.at[1]].map(halves).as_flattened());
        words.extend([address.queue, address.generation.into(), program.ready]);
        words.push(u32::from(program.serves_one_neighbour()));
    }
    words
}

/// What a rank has told; `None`: it could not take part.
fn hear(rank: u32, words: &[u32]) -> Option<Table> {
    let [1, outs, ins, ends @ ..] = words else { return None };
    if ends.len() != (*outs as usize + *ins as usize) * END_WORDS {
        return None;
    }
    let long = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let told = ends.chunks_exact(END_WORDS).map(|w| Told {
        peer: w[0],
        bytes: long(w[1], w[2]),
        at: [long(w[3], w[4]), long(w[5], w[6])],
        queue: QueueAddress { rank, queue: w[7], generation: w[8] as u16 },
        ready: w[9],
        alone: w[10] != 0,
    });
    let mut told = told.collect::<Vec<_>>();
    let ins = told.split_off(*outs as usize);
    Some(Table { outs: told, ins })
}

/// Judges all edges, and puts together those of this rank.
fn wire(rank: u32, outs: &[End], shared: &[Vec<u32>]) -> Result<(Vec<Out>, Vec<In>), Error> {
    let mut tables = Vec::with_capacity(shared.len());
    for (rank, words) in (0..).zip(shared) {
        tables.push(hear(rank, words).ok_or(PersistentError::Elsewhere { rank })?);
    }
    judge(&tables)?;
    let own = &tables[rank as usize];
    let out = own.outs.iter().enumerate().map(|(edge, told)| {
        let theirs = other_end(&own.outs, edge, &tables[told.peer as usize].ins, rank);
        let ahead = told.alone && theirs.alone && theirs.at[0] != theirs.at[1];
        let at = if ahead { theirs.at } else { [theirs.at[0]; 2] };
        Out { bytes: told.bytes, from: outs[edge].at[0], at, event: theirs.queue, ahead }
    });
    let into = own.ins.iter().enumerate().map(|(edge, told)| {
        let theirs = other_end(&own.ins, edge, &tables[told.peer as usize].outs, rank);
        let ahead = told.alone && theirs.alone && told.at[0] != told.at[1];
        In { queue: theirs.queue, ready: theirs.ready, ahead }
    });
    Ok((out.collect(), into.collect()))
}

/// The other end of the edge at a place of `ends`, which are `rank`'s: of several between the two
/// ranks, the one that is as far down among the peer's.
fn other_end<'t>(ends: &[Told], edge: usize, theirs: &'t [Told], rank: u32) -> &'t Told {
    let peer = ends[edge].peer;
    let before = ends[..edge].iter().filter(|end| end.peer == peer).count();
    let found = theirs.iter().filter(|end| end.peer == rank).nth(before);
    found.expect("as many edges were counted at both ends")
}

/// Whether the ends of all edges agree.
fn judge(tables: &[Table]) -> Result<(), PersistentError> {
    for (source_rank, table) in (0..).zip(tables) {
        for rank in 0..tables.len() as u32 {
            let theirs = &tables[rank as usize].ins;
            let out: Vec<_> = table.outs.iter().filter(|end| end.peer == rank).collect();
            let into: Vec<_> = theirs.iter().filter(|end| end.peer == source_rank).collect();
            if out.len() != into.len() {
                let (sent, expected) = (out.len() as u64, into.len() as u64);
                return Err(PersistentError::Edges { source_rank, sent, rank, expected });
            }
            let unequal = out.iter().zip(&into).position(|(out, into)| out.bytes != into.bytes);
            if let Some(edge) = unequal {
                let (sent, expected) = (out[edge].bytes, into[edge].bytes);
                return Err(PersistentError::Sizes { source_rank, sent, edge, rank, expected });
            }
        }
    }
    Ok(())
}
