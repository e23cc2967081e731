//! Neighbour collectives (MPI 5.0 §8.6 to §8.8).
//!
//! Blocks are in the order of the topology's edges. There is no exchange across the border of a
//! grid: the block exists, and does not change.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hikyaku_coll::topology::Link;
use hikyaku_msg::{Envelope, MsgError, Received, RequestId, Selector, SendMode};
use hikyaku_rank::Error;
use hikyaku_rank::persistent::NEIGHBOURS;

use super::{Tags, letters};
use crate::arguments::{BlockTypes, Blocks, Elements};
use crate::communicators::Comm;
use crate::dialect::{Dialect, Status};
use crate::failure::{Class, Failure};
use crate::messages::{Incoming, Outgoing};
use crate::raw::{Buffer, count};
use crate::requests::{Outcome, RequestState, Round, Staged};
use crate::runtime::Mpi;
use crate::types::Area;

/// The data for an existing edge.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Index of the edge among those of its direction.
    pub(super) edge: usize,
    /// The rank at the other end.
    pub(super) rank: u32,
    pub(super) channel: u32,
    pub(super) area: Area,
}

/// The description of a neighbour collective.
#[derive(Debug)]
pub struct Exchange {
    pub(super) comm: Rc<Comm>,
    pub(super) outs: Vec<Block>,
    pub(super) ins: Vec<Block>,
}

/// The edges of one side of a collective.
struct EdgeSide<'c>(&'c [Link]);

impl EdgeSide<'_> {
    /// The blocks of the existing edges; `area` gets the index of each.
    fn blocks(&self, area: impl Fn(usize) -> Result<Area, Failure>) -> Result<Vec<Block>, Failure> {
        let mut blocks = Vec::with_capacity(self.0.len());
        for (edge, link) in self.0.iter().enumerate() {
            if let Some(rank) = link.rank {
                blocks.push(Block { edge, rank, channel: link.channel, area: area(edge)? });
            }
        }
        Ok(blocks)
    }

    /// The same block for every edge, or consecutive blocks if `apart`.
    fn even(&self, elements: Elements, apart: bool) -> Result<Vec<Block>, Failure> {
        let Elements { buffer, count: elements, datatype } = elements;
        count(elements)?;
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let datatype = datatype?;
        let step = if apart { elements.saturating_mul(datatype.extent()) } else { 0 };
        let place = |edge: usize| buffer.at(step.saturating_mul(edge as i64));
        self.blocks(|edge| Area::new(place(edge), elements, &datatype))
    }

    /// Blocks at displacements in elements.
    fn displaced(&self, blocks: Blocks) -> Result<Vec<Block>, Failure> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        self.check_lists(&blocks)?;
        let Blocks { buffer, counts, displacements, datatype } = blocks;
        let datatype = datatype?;
        let at = |edge: usize| displacements.get(edge).saturating_mul(datatype.extent());
        self.blocks(|edge| Area::new(buffer.at(at(edge)), counts.get(edge), &datatype))
    }

    /// Blocks with a type each, at displacements in bytes.
    fn typed<D: Dialect>(
        &self,
        mpi: &Mpi<D>,
        blocks: Blocks<BlockTypes<D>>,
    ) -> Result<Vec<Block>, Failure> {
        self.check_lists(&blocks)?;
        let Blocks { buffer, counts, displacements, datatype: types } = blocks;
        types.check(self.0.len(), "types")?;
        self.blocks(|edge| {
            types.area(mpi, edge, (buffer.at(displacements.get(edge)), counts.get(edge)))
        })
    }

    /// Checks that there are a count and a displacement for every edge.
    fn check_lists<T>(&self, blocks: &Blocks<T>) -> Result<(), Failure> {
        let (edges, Blocks { counts, displacements, .. }) = (self.0.len(), blocks);
        counts.check(edges, "counts")?;
        (0..edges).try_for_each(|edge| count(counts.get(edge)).map(drop))?;
        displacements.check(edges, "displs")
    }
}

/// The outgoing and incoming sides of a collective.
fn sides<D: Dialect>(
    comm: &Comm,
    out: Buffer,
    into: Buffer,
) -> Result<(EdgeSide<'_>, EdgeSide<'_>), Failure> {
    let topology = comm.topology()?;
    topology.usable.clone()?;
    let text = "MPI_IN_PLACE is not for what neighbours exchange";
    if out.is_in_place::<D>() {
        return Err(Failure::new(Class::Buffer, text).sent());
    }
    if into.is_in_place::<D>() {
        return Err(Failure::new(Class::Buffer, text).received());
    }
    Ok((EdgeSide(&topology.links.destinations), EdgeSide(&topology.links.sources)))
}

impl Exchange {
    /// Runs the exchange once and waits.
    ///
    /// # Errors
    /// A neighbour sent an unexpected length, or is gone.
    pub fn run(self) -> Result<(), Failure> {
        let comm = Rc::clone(&self.comm);
        let topology = comm.topology()?;
        let way = topology.way(&comm);
        let tags = topology.next_run();
        match way? {
            Some(letters) => letters::run(&mut letters.borrow_mut(), self, tags),
            None => InFlight::start(Rc::new(self), tags, |_| true).wait().map(drop),
        }
    }
}

/// An exchange in flight that uses messages.
#[derive(Debug)]
pub(crate) struct InFlight {
    exchange: Rc<Exchange>,
    open: RefCell<VecDeque<ExchangeMessage>>,
    /// The first failure. It is reported when all messages have ended.
    failed: RefCell<Option<Failure>>,
}

/// A message of an exchange.
#[derive(Debug)]
struct ExchangeMessage {
    id: RequestId,
    staged: Option<Box<Staged>>,
    /// The index of the incoming block; `None` for an outgoing message.
    incoming: Option<usize>,
}

impl InFlight {
    /// Starts the exchange of the blocks that `go` selects, with these tags.
    pub(super) fn start(
        exchange: Rc<Exchange>,
        tags: Tags,
        go: impl Fn(&Block) -> bool,
    ) -> InFlight {
        let comm = &exchange.comm;
        let context = comm.inner.neighbour_context();
        let (mut open, mut failed) = (VecDeque::with_capacity(exchange.ins.len()), None);
        let mut keep = |started: Result<RequestState, Failure>, incoming| match started {
            Ok(RequestState::Message { id, staged, .. }) => {
                open.push_back(ExchangeMessage { id, staged, incoming });
            }
            Ok(_) => {}
            Err(failure) => drop(failed.get_or_insert(failure)),
        };
        let ins = exchange.ins.iter().enumerate().filter(|(_, block)| go(block));
        for (at, Block { rank, channel, area, .. }) in ins {
            let source = comm.inner.in_job(*rank).map(Some).map_err(Failure::from);
            let tag = Some(tags.of(*channel));
            let start = |source| {
                let from = Some(Selector { source, tag, context });
                Incoming { area: area.clone(), from }.start(comm)
            };
            keep(source.and_then(start), Some(at));
        }
        for Block { rank, channel, area, .. } in exchange.outs.iter().filter(|block| go(block)) {
            let destination = comm.inner.in_job(*rank).map_err(Failure::from);
            let start = |destination| {
                let to = Some(Envelope { destination, context, tag: tags.of(*channel) });
                Outgoing { area: area.clone(), to }.start(comm, SendMode::Standard)
            };
            keep(destination.and_then(start), None);
        }
        let (open, failed) = (RefCell::new(open), RefCell::new(failed));
        InFlight { exchange, open, failed }
    }

    /// Abandons messages, which then touch no memory any more. `which` selects them, given the
    /// index of an incoming block.
    pub(super) fn abandon(&self, which: impl Fn(Option<usize>) -> bool) {
        let mut engine = self.exchange.comm.inner.engine().borrow_mut();
        let (gone, kept): (VecDeque<_>, _) =
            self.open.take().into_iter().partition(|part| which(part.incoming));
        self.open.replace(kept);
        gone.iter().for_each(|part| engine.abandon(part.id));
    }

    /// Receives and drops a message for which there is no room, because its sender waits for that.
    pub(super) fn drop_message(&self, place: usize, tags: Tags) {
        let Exchange { comm, ins, .. } = &*self.exchange;
        let Block { rank, channel, .. } = ins[place];
        let Ok(source) = comm.inner.in_job(rank) else { return };
        let (tag, context) = (Some(tags.of(channel)), comm.inner.neighbour_context());
        let from = Some(Selector { source: Some(source), tag, context });
        let started = Incoming { area: Area::NOTHING, from }.start(comm);
        if let Ok(RequestState::Message { id, .. }) = started {
            self.open.borrow_mut().push_back(ExchangeMessage { id, staged: None, incoming: None });
        }
    }

    fn first_open(&self) -> Option<RequestId> {
        self.open.borrow().front().map(|part| part.id)
    }

    fn result(&self) -> Outcome {
        self.failed.take().map_or(Ok(Status::EMPTY), Err)
    }

    /// Records the end of a message, unless another thread has.
    fn end(&self, id: RequestId, result: Result<Received, MsgError>) {
        let mut open = self.open.borrow_mut();
        let at = open.iter().position(|part| part.id == id);
        let Some(part) = at.and_then(|at| open.remove(at)) else { return };
        drop(open);
        if let Err(failure) = self.outcome(&part, self.exchange.comm.inner.told(result)) {
            self.failed.borrow_mut().get_or_insert(failure);
        }
    }

    fn outcome(
        &self,
        part: &ExchangeMessage,
        result: Result<Received, MsgError>,
    ) -> Result<(), Failure> {
        let Some(at) = part.incoming else { return Ok(result.map(drop)?) };
        let Block { edge, rank: source_rank, ref area, .. } = self.exchange.ins[at];
        let expected = area.len() as u64;
        let sent = match result {
            Ok(received) => received.bytes,
            Err(MsgError::Truncated { sent, .. }) => sent,
            Err(error) => return Err(error.into()),
        };
        if sent != expected {
            let rank = self.exchange.comm.inner.rank();
            return Err(Error::UnequalEdge { edge, source_rank, sent, rank, expected }.into());
        }
        match &part.staged {
            Some(staged) => staged.land(result).map(drop),
            None => Ok(()),
        }
    }
}

impl Round for InFlight {
    fn wait(&self) -> Outcome {
        let comm = &self.exchange.comm.inner;
        let engine = comm.engine();
        engine.borrow_mut().set_whole(Some(NEIGHBOURS));
        // They stay open during the waits: another thread may ask for the status.
        while let Some(id) = self.first_open() {
            self.end(id, comm.wait_for(id, 1));
        }
        engine.borrow_mut().set_whole(None);
        self.result()
    }

    fn test(&self, _: &Comm) -> Option<Outcome> {
        let ids: Vec<RequestId> = self.open.borrow().iter().map(|part| part.id).collect();
        for id in ids {
            if let Some(result) = self.exchange.comm.inner.test(id) {
                self.end(id, result);
            }
        }
        self.first_open().is_none().then(|| self.result())
    }
}

impl<D: Dialect> Mpi<D> {
    /// MPI_Neighbor_allgather.
    pub fn neighbor_allgather(
        &self,
        out: Elements,
        into: Elements,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out.buffer, into.buffer)?;
        let outs = outgoing.even(out, false).map_err(Failure::sent)?;
        let ins = incoming.even(into, true).map_err(Failure::received)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_allgatherv.
    pub fn neighbor_allgatherv(
        &self,
        out: Elements,
        into: Blocks,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out.buffer, into.buffer)?;
        let outs = outgoing.even(out, false).map_err(Failure::sent)?;
        let ins = incoming.displaced(into).map_err(Failure::received)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_alltoall.
    pub fn neighbor_alltoall(
        &self,
        out: Elements,
        into: Elements,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out.buffer, into.buffer)?;
        let outs = outgoing.even(out, true).map_err(Failure::sent)?;
        let ins = incoming.even(into, true).map_err(Failure::received)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_alltoallv.
    pub fn neighbor_alltoallv(
        &self,
        out: Blocks,
        into: Blocks,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out.buffer, into.buffer)?;
        let outs = outgoing.displaced(out).map_err(Failure::sent)?;
        let ins = incoming.displaced(into).map_err(Failure::received)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_alltoallw.
    pub fn neighbor_alltoallw(
        &self,
        out: Blocks<BlockTypes<D>>,
        into: Blocks<BlockTypes<D>>,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out.buffer, into.buffer)?;
        let outs = outgoing.typed(self, out).map_err(Failure::sent)?;
        let ins = incoming.typed(self, into).map_err(Failure::received)?;
        Ok(Exchange { comm, outs, ins })
    }
}
