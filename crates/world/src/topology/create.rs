//! Making communicators with a topology.
//!
//! Every rank of the world calls. A mistake of one rank is the same error on all of them
//! (`rank/src/topology.rs`).

use std::cell::{Cell, RefCell};

use hikyaku_coll::topology::{Cartesian, Edge, EdgeLists, Graph, Topology};
use hikyaku_rank::persistent::Correspondence;
use hikyaku_rank::topology::{Agreed, Edges, all_same};

use super::{Distributed, Neighbourhood, Reorder};
use crate::error::Error;
use crate::world::World;

impl World {
    /// The first ranks of this world as a grid (MPI_Cart_create, MPI 5.0 §8.5.1); `None` on the
    /// other ranks. [`dims_create`](super::dims_create) finds balanced dimensions.
    ///
    /// # Errors
    /// An impossible grid, more ranks than there are, or arguments that differ between ranks: the
    /// same error on every rank. Or a rank is gone.
    pub fn cartesian(
        &self,
        dims: &[u32],
        periods: &[bool],
        reorder: Reorder,
    ) -> Result<Option<Neighbourhood<Cartesian>>, Error> {
        let world = self.try_duplicate()?;
        let agreed = world.communicator().agree_on_grid(dims, periods, reorder.is_allowed())?;
        Ok(world.with_shape(agreed))
    }

    /// The first ranks of this world as a graph that every rank knows completely
    /// (MPI_Graph_create, MPI 5.0 §8.5.3): the neighbours of rank `r` are
    /// `edges[index[r - 1]..index[r]]`. `None` on ranks beyond the graph's.
    ///
    /// For graphs of which each rank knows only its part, see [`World::dist_graph_adjacent`].
    ///
    /// # Errors
    /// The lists describe no graph, an edge has no counterpart, there are more ranks than in the
    /// world, or arguments differ between ranks: the same error on every rank. Or a rank is gone.
    pub fn graph(
        &self,
        index: &[u32],
        edges: &[u32],
        reorder: Reorder,
    ) -> Result<Option<Neighbourhood<Graph>>, Error> {
        let world = self.try_duplicate()?;
        let (rank, check) = (world.communicator(), Graph::check_both_ways);
        let agreed = rank.agree_on_graph(index, edges, reorder.is_allowed(), check)?;
        Ok(world.with_shape(agreed))
    }

    /// This world as a graph in which each rank knows its own edges
    /// (MPI_Dist_graph_create_adjacent, MPI 5.0 §8.5.4). Edges are ranks, or [`Edge`]s with a
    /// weight. The k-th edge of rank a to rank b is the k-th edge of rank b from rank a.
    ///
    /// # Errors
    /// An edge that its two ends do not agree about, or that leads to no rank: the same error on
    /// every rank, which names both ends. Or a rank is gone.
    pub fn dist_graph_adjacent<A: Copy + Into<Edge>, B: Copy + Into<Edge>>(
        &self,
        sources: &[A],
        destinations: &[B],
        reorder: Reorder,
    ) -> Result<Neighbourhood, Error> {
        let world = self.try_duplicate()?;
        let (sources, destinations) = (
            sources.iter().map(|edge| (*edge).into()),
            destinations.iter().map(|edge| (*edge).into()),
        );
        let how = reorder.how();
        let (agreed, _) = world.communicator().agree_on_adjacent(sources, destinations, how)?;
        agreed.topology.check_ends()?;
        agreed.topology.check_weights()?;
        Ok(world.with_edges(agreed))
    }

    /// This world as a graph in which every rank may name any edges: source, and destination with
    /// or without weight (MPI_Dist_graph_create, MPI 5.0 §8.5.4). A rank's edges are ordered by the
    /// rank that named them, then in the order of that list.
    ///
    /// # Errors
    /// An edge from or to no rank: the same error on every rank. Or a rank is gone.
    pub fn dist_graph<E: Copy + Into<Edge>>(
        &self,
        edges: &[(u32, E)],
        reorder: Reorder,
    ) -> Result<Neighbourhood, Error> {
        let world = self.try_duplicate()?;
        let edges = edges.iter().map(|(source, to)| (*source, (*to).into()));
        let (agreed, _) = world.communicator().agree_on_edges(edges, reorder.how())?;
        Ok(world.with_edges(agreed))
    }

    /// Gives every member the words of all, by place among the members. Every member contributes
    /// the same number of words; they pass through the first member.
    pub(super) fn share_among(
        &self,
        members: &[u32],
        words: &[u32],
        tag: i32,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let endpoint = self.messages();
        let mut all = words.repeat(members.len());
        let root = members[0];
        self.block_on(async {
            if self.rank() != root {
                endpoint.send(bytemuck::cast_slice(words), root, tag).await?;
                let into = bytemuck::cast_slice_mut(&mut all);
                return endpoint.recv(into, Some(root), Some(tag)).await.map(drop);
            }
            for (member, block) in members.iter().zip(all.chunks_mut(words.len())).skip(1) {
                let into = bytemuck::cast_slice_mut(block);
                endpoint.recv(into, Some(*member), Some(tag)).await?;
            }
            for member in &members[1..] {
                endpoint.send(bytemuck::cast_slice(&all), *member, tag).await?;
            }
            Ok(())
        })?;
        Ok(all.chunks(words.len()).map(<[u32]>::to_vec).collect())
    }

    fn with_edges(self, agreed: Agreed<EdgeLists>) -> Neighbourhood {
        let Agreed { topology, members } = agreed;
        let own = self.rank();
        let rank = members.iter().position(|member| *member == own);
        let rank = rank.expect("a distributed graph has every rank of the world") as u32;
        Neighbourhood::new(self, Distributed, &topology, members, rank)
    }

    /// This unshared world as the communicator of a shape that every rank knows.
    fn with_shape<S: Topology + Clone>(self, agreed: Agreed<S>) -> Option<Neighbourhood<S>> {
        let Agreed { topology, members } = agreed;
        let own = self.rank();
        let rank = members.iter().position(|member| *member == own)? as u32;
        Some(Neighbourhood::new(self, topology.clone(), &topology, members, rank))
    }
}

impl Reorder {
    fn is_allowed(self) -> bool {
        self == Reorder::Allow
    }

    fn how(self) -> Edges {
        Edges { reorder: self.is_allowed(), weighted: None }
    }
}

impl<S> Neighbourhood<S> {
    fn new(
        world: World,
        shape: S,
        topology: &impl Topology,
        members: Vec<u32>,
        rank: u32,
    ) -> Neighbourhood<S> {
        let links = topology.links(rank);
        Neighbourhood {
            world,
            shape,
            rank,
            members,
            sources: links.sources,
            destinations: links.destinations,
            channels: topology.channels(),
            calls: Cell::new(0),
            route: RefCell::default(),
            correspondence: Correspondence::default(),
        }
    }
}

impl Neighbourhood<Cartesian> {
    /// The grid of the ranks that differ from this one only in the dimensions that are kept
    /// (MPI_Cart_sub, MPI 5.0 §8.5.5). Every rank of this grid calls it.
    ///
    /// # Errors
    /// The number of choices is not that of dimensions, or choices differ between ranks: the same
    /// error on every rank. Or a rank is gone.
    pub fn sub(&self, keep: &[bool]) -> Result<Neighbourhood<Cartesian>, Error> {
        self.agree_to_keep(keep)?;
        let (shape, ranks) = self.shape.sub(self.rank, keep)?;
        let members: Vec<u32> = ranks.iter().map(|rank| self.members[*rank as usize]).collect();
        let rank = ranks.iter().position(|rank| *rank == self.rank);
        let rank = rank.expect("a rank is part of its own slice") as u32;
        let world = self.world.apart_among(&members)?;
        Ok(Neighbourhood::new(world, shape.clone(), &shape, members, rank))
    }

    /// Checks that all ranks want the same slices.
    fn agree_to_keep(&self, keep: &[bool]) -> Result<(), Error> {
        let mut words = vec![keep.len() as u32];
        words.extend(keep.iter().map(|keep| u32::from(*keep)));
        // With too many or too few choices, the count differs.
        words.resize(1 + self.shape.dims().len(), 0);
        let tag = self.next_call().first();
        let choices = self.world.share_among(&self.members, &words, tag)?;
        Ok(all_same(&choices, "dimensions to keep")?)
    }
}
