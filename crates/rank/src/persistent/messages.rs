//! Rounds by messages: for ranks without enough queues or memory, or on the program's request.
//!
//! ```text
//!   start   the elements of all edges to a neighbour are one message to it; its own is received
//!   wait    the received elements ──► the edges from it
//! ```
//!
//! Unlike queues and letters, messages move only in calls of the library, like the program's own.
//! As with letters, the buffers are read at the start and written when the round is waited for.
//!
//! A rank that frees its end sends every neighbour a note with the number of rounds it has sent,
//! and the missing rank if the exchange has failed. A note may overtake messages, so the number of
//! rounds decides. Messages that arrive for a freed end are dropped, until the neighbour's own note
//! arrives.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Range;
use std::rc::Rc;

use hikyaku_msg::{ContextEndpoint, MsgError, join, join_all};
use hikyaku_nic::fabric::QueueFault;
use hikyaku_nic::ring::copy;

use super::mail::{ExchangeSink, ExchangeSource};
use super::setup::{EdgeEnd, correspondents, runs_with};
use crate::communicator::Communicator;
use crate::error::Error;
use crate::port::RankPort;
use crate::tasks::TaskId;

/// A neighbour, the bytes of the program's buffer for it, and those from it.
#[derive(Debug)]
struct Messenger {
    rank: u32,
    outs: Vec<Range<usize>>,
    ins: Vec<Range<usize>>,
}

/// The data to a neighbour in a round, and the data from it.
#[derive(Debug, Default)]
struct MessagePair {
    out: Vec<u8>,
    into: Vec<u8>,
}

/// A neighbour's note that it has freed its end, with the number of its rounds.
#[derive(Debug, Clone, Copy)]
struct Farewell {
    /// The neighbour's rank in the job.
    from: u32,
    rounds: u64,
    /// The rank that it misses, in the job: itself if the exchange has not failed.
    missing: u32,
}

/// The messages of an exchange's rounds.
#[derive(Debug)]
pub(super) struct MessageRounds {
    /// The tag of its messages and notes, among those of its communicator's neighbours.
    tag: i32,
    neighbours: Vec<Messenger>,
    /// The data for each neighbour, while no round is in flight.
    pairs: Rc<RefCell<Vec<MessagePair>>>,
    /// The round in flight.
    task: Cell<Option<TaskId>>,
    farewells: RefCell<Vec<Farewell>>,
}

impl MessageRounds {
    pub(super) fn new(tag: i32, outs: &[EdgeEnd], ins: &[EdgeEnd]) -> MessageRounds {
        let messenger = |rank| {
            let runs = |ends| runs_with(ends, rank).cloned().collect();
            Messenger { rank, outs: runs(outs), ins: runs(ins) }
        };
        let neighbours = Vec::from_iter(correspondents(outs, ins).into_iter().map(messenger));
        let pair = |with: &Messenger| MessagePair {
            out: Vec::new(),
            into: vec![0; with.ins.iter().map(Range::len).sum()],
        };
        let pairs = Rc::new(RefCell::new(neighbours.iter().map(pair).collect()));
        let (task, farewells) = Default::default();
        MessageRounds { tag, neighbours, pairs, task, farewells }
    }

    /// Starts a round. The previous one is complete.
    pub(super) fn start(&self, world: &Communicator, data: &(impl ExchangeSource + ?Sized)) {
        let mut pairs = self.pairs.take();
        for (MessagePair { out, .. }, with) in pairs.iter_mut().zip(&self.neighbours) {
            out.clear();
            with.outs.iter().for_each(|run| out.extend_from_slice(data.run(run)));
        }
        let ranks: Vec<u32> = self.neighbours.iter().map(|with| with.rank).collect();
        let (tag, home, comm) = (self.tag, Rc::clone(&self.pairs), world.clone());
        let round = async move {
            let outcome = exchange(&endpoint(&comm), tag, &ranks, &mut pairs).await;
            home.replace(pairs);
            Ok(outcome?)
        };
        self.task.set(Some(world.start_task(Box::pin(round))));
    }

    /// Whether the round is complete.
    ///
    /// # Errors
    /// A neighbour is gone.
    pub(super) fn is_there(&self, world: &Communicator) -> Result<bool, Error> {
        let Some(id) = self.task.get() else { return Ok(true) };
        let Some(outcome) = world.test_task(id) else { return Ok(false) };
        self.task.set(None);
        outcome.map(|()| true)
    }

    /// Copies the data of a complete round into `data`.
    pub(super) fn take(&self, data: &mut (impl ExchangeSink + ?Sized)) {
        let pairs = self.pairs.borrow();
        for (MessagePair { into, .. }, with) in pairs.iter().zip(&self.neighbours) {
            let mut rest = &into[..];
            for run in &with.ins {
                let (part, after) = rest.split_at(run.len());
                copy(part, data.run_mut(run));
                rest = after;
            }
        }
    }

    /// A neighbour that no longer takes part in a round, with the reason.
    pub(super) fn missing(&self, world: &Communicator, round: u64) -> Option<(u32, QueueFault)> {
        let farewells = self.hear_farewells(world);
        let gone = farewells.iter().find(|farewell| farewell.rounds < round)?;
        Some((gone.from, QueueFault::Abandoned { rank: gone.missing }))
    }

    /// The notes of neighbours, including those that have just arrived.
    fn hear_farewells(&self, world: &Communicator) -> RefMut<'_, Vec<Farewell>> {
        let mut farewells = self.farewells.borrow_mut();
        while let Some((note, bytes)) = endpoint(world).take_note(|tag| tag == self.tag) {
            let words = bytes.first_chunk().zip(bytes.last_chunk());
            let Some((rounds, missing)) = words.filter(|_| bytes.len() == 12) else { continue };
            let Ok(from) = world.in_job(note.source) else { continue };
            let (rounds, missing) = (u64::from_le_bytes(*rounds), u32::from_le_bytes(*missing));
            farewells.push(Farewell { from, rounds, missing });
        }
        farewells
    }

    /// Reports to the neighbours that this end has sent its last round, after `rounds` of them. A
    /// round in flight is cancelled. Data that they have sent for it, and send until they end too,
    /// is dropped.
    pub(super) fn end(&self, world: &Communicator, rounds: u64, missing: u32) {
        if let Some(id) = self.task.take() {
            world.tasks().remove(id);
        }
        let mut words = [0; 12];
        words[..8].copy_from_slice(&rounds.to_le_bytes());
        words[8..].copy_from_slice(&missing.to_le_bytes());
        let farewells = self.hear_farewells(world);
        let endpoint = endpoint(world);
        for Messenger { rank, .. } in &self.neighbours {
            // A rank that is gone need not know, and sends nothing.
            let _ = endpoint.send_note(&words, *rank, self.tag);
            let is_it = |from: u32| world.in_job(*rank).is_ok_and(|rank| rank == from);
            let is_last = farewells.iter().any(|farewell| is_it(farewell.from));
            let _ = endpoint.end_tag(*rank, self.tag, is_last);
        }
    }
}

/// The endpoint of the messages between a communicator's neighbours.
fn endpoint(world: &Communicator) -> ContextEndpoint<'_, RankPort> {
    ContextEndpoint::new(world.engine(), world.neighbour_context()).among(world.members())
}

/// One round. Both ends know the length of each message, and an empty one is not sent.
async fn exchange(
    endpoint: &ContextEndpoint<'_, RankPort>,
    tag: i32,
    ranks: &[u32],
    pairs: &mut [MessagePair],
) -> Result<(), MsgError> {
    let (mut receives, mut sends) = (Vec::new(), Vec::new());
    for (MessagePair { out, into }, rank) in pairs.iter_mut().zip(ranks) {
        if !into.is_empty() {
            receives.push(endpoint.recv(into, Some(*rank), Some(tag)));
        }
        if !out.is_empty() {
            sends.push(endpoint.send(out, *rank, tag));
        }
    }
    let (received, sent) = join(join_all(receives), join_all(sends)).await;
    received.into_iter().try_for_each(|received| received.map(drop))?;
    sent.into_iter().try_for_each(|sent| sent.map(drop))
}
