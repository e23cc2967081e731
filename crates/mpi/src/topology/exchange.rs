//! What neighbours exchange (MPI 5.0 §8.6 to §8.8).
//!
//! Blocks lie in the order of the topology's edges. Beyond the border of a grid nothing is
//! exchanged: the block is there, and stays as it is.

use std::rc::Rc;

use hikyaku_coll::neighbour::{ExchangeError, Incoming, Outgoing, exchange};
use hikyaku_coll::topology::Link;
use hikyaku_msg::{MsgError, as_one};
use hikyaku_nic::fabric::{Activity, Name, Wait};
use hikyaku_rank::Error;

use super::Tags;
use crate::communicators::Comm;
use crate::dialect::Dialect;
use crate::failure::{Class, Failure};
use crate::raw::{Buffer, Handles, Numbers, count};
use crate::runtime::Mpi;
use crate::types::{Area, Type};

/// What waits for neighbours are announced as.
const NEIGHBOURS: Wait = Wait::new(Activity::Collective).named(Name::new("neighbour exchange"));

/// A datatype as it was given: wrong only if it is looked at.
type Given = Result<Rc<Type>, Failure>;

/// What goes along an edge that there is.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Place of the edge among those of its direction.
    pub(super) edge: usize,
    /// The rank at the other end.
    pub(super) rank: u32,
    pub(super) channel: u32,
    pub(super) area: Area,
}

/// A neighbour collective, described.
#[derive(Debug)]
pub struct Exchange {
    comm: Rc<Comm>,
    pub(super) outs: Vec<Block>,
    pub(super) ins: Vec<Block>,
}

/// What a side of a collective has: edges, and the buffer that blocks of each lie in.
struct Side<'c> {
    links: &'c [Link],
    buffer: Buffer,
}

impl Side<'_> {
    /// The blocks of the edges that there are; `area` is told the place of each.
    fn blocks(&self, area: impl Fn(usize) -> Result<Area, Failure>) -> Result<Vec<Block>, Failure> {
        let there = self.links.iter().enumerate();
        let there = there.filter_map(|(edge, link)| Some((edge, link.rank?, link.channel)));
        there
            .map(|(edge, rank, channel)| Ok(Block { edge, rank, channel, area: area(edge)? }))
            .collect()
    }

    /// The same block for every edge, or one after the other.
    fn even(&self, elements: i64, datatype: Given, apart: bool) -> Result<Vec<Block>, Failure> {
        count(elements)?;
        if self.links.is_empty() {
            return Ok(Vec::new());
        }
        let datatype = datatype?;
        let step = if apart { elements.saturating_mul(datatype.extent()) } else { 0 };
        let place = |edge: usize| self.buffer.at(step.saturating_mul(edge as i64));
        self.blocks(|edge| Area::new(place(edge), elements, &datatype))
    }

    /// Blocks at displacements, in elements.
    fn displaced(
        &self,
        (counts, displacements): (Numbers, Numbers),
        datatype: Given,
    ) -> Result<Vec<Block>, Failure> {
        if self.links.is_empty() {
            return Ok(Vec::new());
        }
        let (counts, places) = self.lists(&counts, &displacements)?;
        let datatype = datatype?;
        let place = |edge: usize| self.buffer.at(places[edge].saturating_mul(datatype.extent()));
        self.blocks(|edge| Area::new(place(edge), counts[edge], &datatype))
    }

    /// Blocks of a type each, at displacements in bytes.
    fn typed<D: Dialect>(
        &self,
        mpi: &Mpi<D>,
        (counts, displacements): (Numbers, Numbers),
        types: &Handles<D>,
    ) -> Result<Vec<Block>, Failure> {
        let (counts, places) = self.lists(&counts, &displacements)?;
        let types = types.all(self.links.len(), "types")?;
        self.blocks(|edge| {
            let datatype = mpi.datatype_of(types[edge])?;
            Area::new(self.buffer.at(places[edge]), counts[edge], &datatype)
        })
    }

    /// A count and a displacement for every edge.
    fn lists(
        &self,
        counts: &Numbers,
        displacements: &Numbers,
    ) -> Result<(Vec<i64>, Vec<i64>), Failure> {
        let counts = counts.all(self.links.len(), "counts")?;
        counts.iter().try_for_each(|number| count(*number).map(drop))?;
        Ok((counts, displacements.all(self.links.len(), "displs")?))
    }
}

/// The sides of a collective: what goes out, and what comes in.
fn sides<D: Dialect>(
    comm: &Comm,
    out: Buffer,
    into: Buffer,
) -> Result<(Side<'_>, Side<'_>), Failure> {
    let topology = comm.topology()?;
    topology.usable.clone()?;
    if out.is_in_place::<D>() || into.is_in_place::<D>() {
        let text = "MPI_IN_PLACE is not for what neighbours exchange";
        return Err(Failure::new(Class::Buffer, text));
    }
    let (sources, destinations) = (&topology.links.sources, &topology.links.destinations);
    Ok((Side { links: destinations, buffer: out }, Side { links: sources, buffer: into }))
}

impl Exchange {
    /// Runs it once.
    ///
    /// # Errors
    /// A neighbour sent another size than is expected, or is gone.
    pub async fn run(self) -> Result<(), Error> {
        let Some(topology) = self.comm.topology.get() else { return Ok(()) };
        let tags = topology.next_run();
        self.go(tags).await
    }

    /// Runs it, with these tags.
    pub(super) async fn go(&self, tags: Tags) -> Result<(), Error> {
        let group = self.comm.inner.neighbours();
        let data: Vec<_> = self.outs.iter().map(|block| block.area.data()).collect();
        let outgoing = self.outs.iter().zip(&data).map(|(block, bytes)| Outgoing {
            to: block.rank,
            tag: tags.of(block.channel),
            bytes,
        });
        let mut landings: Vec<_> = self.ins.iter().map(|block| block.area.room()).collect();
        let incoming = self.ins.iter().zip(&mut landings).map(|(block, landing)| Incoming {
            from: block.rank,
            tag: tags.of(block.channel),
            into: landing.bytes(),
        });
        let exchange = exchange(&group, outgoing, incoming);
        let done = as_one(self.comm.inner.engine(), NEIGHBOURS, exchange).await;
        done.map_err(|error| self.explained(error))?;
        landings.into_iter().for_each(|landing| landing.finish());
        Ok(())
    }

    /// An exchange's failure in the terms of this communicator.
    fn explained(&self, error: ExchangeError<MsgError>) -> Error {
        match error {
            ExchangeError::Message(error) => error.into(),
            ExchangeError::Size { edge: at, sent, expected } => {
                let Block { edge, rank: source_rank, .. } = self.ins[at];
                let rank = self.comm.inner.rank();
                Error::UnequalEdge { edge, source_rank, sent, rank, expected }
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
impl<D: Dialect> Mpi<D> {
    /// MPI_Neighbor_allgather.
    pub fn neighbor_allgather(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out, into)?;
        let outs = outgoing.even(out_count, out_type, false)?;
        let ins = incoming.even(in_count, in_type, true)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_allgatherv.
    pub fn neighbor_allgatherv(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out, into)?;
        let outs = outgoing.even(out_count, out_type, false)?;
        let ins = incoming.displaced((counts, displacements), in_type)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_alltoall.
    pub fn neighbor_alltoall(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out, into)?;
        let outs = outgoing.even(out_count, out_type, true)?;
        let ins = incoming.even(in_count, in_type, true)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_alltoallv.
    pub fn neighbor_alltoallv(
        &self,
        out: Buffer,
        out_counts: Numbers,
        out_displacements: Numbers,
        out_type: Given,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out, into)?;
        let outs = outgoing.displaced((out_counts, out_displacements), out_type)?;
        let ins = incoming.displaced((counts, displacements), in_type)?;
        Ok(Exchange { comm, outs, ins })
    }

    /// MPI_Neighbor_alltoallw.
    pub fn neighbor_alltoallw(
        &self,
        out: Buffer,
        out_counts: Numbers,
        out_displacements: Numbers,
        out_types: Handles<D>,
        into: Buffer,
        counts: Numbers,
        displacements: Numbers,
        in_types: Handles<D>,
        comm: Rc<Comm>,
    ) -> Result<Exchange, Failure> {
        let (outgoing, incoming) = sides::<D>(&comm, out, into)?;
        let outs = outgoing.typed(self, (out_counts, out_displacements), &out_types)?;
        let ins = incoming.typed(self, (counts, displacements), &in_types)?;
        Ok(Exchange { comm, outs, ins })
    }
}
