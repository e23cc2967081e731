//! Making communicators with a topology.
//!
//! Every rank of the world calls, and what each said is shared before anything is judged. So a
//! mistake of one rank is an error on all of them, the same one, and nobody is left waiting.

use std::cell::{Cell, RefCell};

use hikyaku_coll::topology::{Cartesian, Edge, EdgeLists, Graph, Topology, TopologyError, place};
use hikyaku_msg::MsgError;

use super::{Distributed, Neighbourhood, Reorder};
use crate::error::Error;
use crate::world::World;

/// Words that an edge is shared as.
const EDGE_WORDS: usize = 2;

impl World {
    /// The first ranks of this world as a grid (MPI_Cart_create, MPI 5.0 §8.5.1); `None` on those
    /// that do not fit in. [`dims_create`](super::dims_create) finds balanced dimensions.
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
        let mut words = vec![reorder.word(), dims.len() as u32];
        words.extend(dims);
        words.extend(periods.iter().map(|wraps| u32::from(*wraps)));
        let shared = world.communicator().share(&words)?;
        agree(&shared, "dimensions, periods and reordering")?;
        let shape = Cartesian::new(dims, periods)?;
        world.with_shape(shape, reorder)
    }

    /// The first ranks of this world as a graph of which every rank knows all
    /// (MPI_Graph_create, MPI 5.0 §8.5.3): the neighbours of rank `r` are
    /// `edges[index[r - 1]..index[r]]`. `None` on ranks beyond the graph's.
    ///
    /// For graphs of which ranks know their part only, see [`World::dist_graph_adjacent`].
    ///
    /// # Errors
    /// Lists that describe no graph, an edge without one back, more ranks than there are, or
    /// arguments that differ between ranks: the same error on every rank. Or a rank is gone.
    pub fn graph(
        &self,
        index: &[u32],
        edges: &[u32],
        reorder: Reorder,
    ) -> Result<Option<Neighbourhood<Graph>>, Error> {
        let world = self.try_duplicate()?;
        let mut words = vec![reorder.word(), index.len() as u32];
        words.extend(index);
        words.extend(edges);
        agree(&world.communicator().share(&words)?, "index, edges and reordering")?;
        let shape = Graph::new(index, edges)?;
        shape.check_both_ways()?;
        world.with_shape(shape, reorder)
    }

    /// This world as a graph whose ranks each know their own edges
    /// (MPI_Dist_graph_create_adjacent, MPI 5.0 §8.5.4). Edges are ranks, or [`Edge`]s with a
    /// weight. The k-th edge of rank a to rank b is the k-th edge of rank b from rank a.
    ///
    /// # Errors
    /// An edge that its two ends do not agree about, or that leads to no rank: the same error on
    /// every rank, which names both ends. Or a rank is gone.
    pub fn dist_graph_adjacent<A, B>(
        &self,
        sources: &[A],
        destinations: &[B],
        reorder: Reorder,
    ) -> Result<Neighbourhood, Error>
    where
        A: Copy + Into<Edge>,
        B: Copy + Into<Edge>,
    {
        let world = self.try_duplicate()?;
        let mut words = vec![reorder.word(), sources.len() as u32];
        let sources = sources.iter().map(|edge| (*edge).into());
        let edges = sources.chain(destinations.iter().map(|edge| (*edge).into()));
        words.extend(edges.flat_map(|Edge { rank, weight }| [rank, weight]));
        let shared = world.communicator().share(&words)?;
        same_reordering(&shared)?;
        let lists = (0..).zip(&shared).map(|(source_rank, words)| {
            let edge = |words: &[u32]| Edge { rank: words[0], weight: words[1] };
            let malformed = MsgError::Malformed { source_rank };
            let [_, count, words @ ..] = &words[..] else { return Err(malformed) };
            let edges: Vec<Edge> = words.chunks_exact(EDGE_WORDS).map(edge).collect();
            let lists = edges.split_at_checked(*count as usize).ok_or(malformed)?;
            Ok((lists.0.to_vec(), lists.1.to_vec()))
        });
        let edges = EdgeLists::from_adjacent(lists.collect::<Result<_, MsgError>>()?)?;
        world.with_edges(&edges, reorder)
    }

    /// This world as a graph of which every rank names any edges: source, and destination with or
    /// without weight (MPI_Dist_graph_create, MPI 5.0 §8.5.4). A rank's edges then come in the
    /// order of who named them, and as they were named.
    ///
    /// # Errors
    /// An edge from or to no rank: the same error on every rank. Or a rank is gone.
    pub fn dist_graph<E: Copy + Into<Edge>>(
        &self,
        edges: &[(u32, E)],
        reorder: Reorder,
    ) -> Result<Neighbourhood, Error> {
        let world = self.try_duplicate()?;
        let mut words = vec![reorder.word()];
        for (source, destination) in edges {
            let Edge { rank, weight } = (*destination).into();
            words.extend([*source, rank, weight]);
        }
        let shared = world.communicator().share(&words)?;
        same_reordering(&shared)?;
        let edge = |words: &[u32]| (words[0], words[1], words[2]);
        let named = shared.iter().map(|words| words[1..].chunks_exact(3).map(edge).collect());
        let edges = EdgeLists::from_edges(self.size(), &named.collect::<Vec<_>>())?;
        world.with_edges(&edges, reorder)
    }

    /// Gives every member the words of all, by place among the members. All have as many words,
    /// which pass through the first.
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

    fn with_edges(self, edges: &EdgeLists, reorder: Reorder) -> Result<Neighbourhood, Error> {
        let nodes = self.nodes_of_first(edges.size());
        let members = members(edges, &nodes, reorder);
        let own = self.rank();
        let rank = members.iter().position(|member| *member == own);
        let rank = rank.expect("a distributed graph has every rank of the world") as u32;
        Ok(Neighbourhood::new(self, Distributed, edges, members, rank))
    }

    /// This world, which nobody else uses, as the communicator of a shape that every rank knows.
    fn with_shape<S: Topology + Clone>(
        self,
        shape: S,
        reorder: Reorder,
    ) -> Result<Option<Neighbourhood<S>>, Error> {
        let (needed, size) = (shape.size(), self.size());
        if needed > size {
            return Err(TopologyError::TooManyRanks { needed: u64::from(needed), size }.into());
        }
        let members = members(&shape, &self.nodes_of_first(needed), reorder);
        let own = self.rank();
        let Some(rank) = members.iter().position(|member| *member == own) else { return Ok(None) };
        Ok(Some(Neighbourhood::new(self, shape.clone(), &shape, members, rank as u32)))
    }

    fn nodes_of_first(&self, count: u32) -> Vec<u32> {
        (0..count).map(|rank| self.node_of(rank)).collect()
    }
}

impl Reorder {
    fn word(self) -> u32 {
        u32::from(self == Reorder::Allow)
    }
}

/// The rank of the world that plays each rank of the topology.
fn members(topology: &impl Topology, nodes: &[u32], reorder: Reorder) -> Vec<u32> {
    match reorder {
        Reorder::Keep => (0..topology.size()).collect(),
        Reorder::Allow => place(topology, nodes),
    }
}

/// Whether every rank said the same.
fn agree(shared: &[Vec<u32>], what: &'static str) -> Result<(), TopologyError> {
    match shared.iter().position(|words| *words != shared[0]) {
        Some(rank) => Err(TopologyError::Disagreement { rank: rank as u32, what }),
        None => Ok(()),
    }
}

/// Whether every rank said the same about reordering, which is its first word.
fn same_reordering(shared: &[Vec<u32>]) -> Result<(), TopologyError> {
    match shared.iter().position(|words| words[0] != shared[0][0]) {
        Some(rank) => {
            Err(TopologyError::Disagreement { rank: rank as u32, what: "choice of reordering" })
        }
        None => Ok(()),
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
        }
    }
}

impl Neighbourhood<Cartesian> {
    /// The grid of the ranks that differ from this one in the dimensions that are kept only
    /// (MPI_Cart_sub, MPI 5.0 §8.5.5). Every rank of this grid calls it.
    ///
    /// # Errors
    /// Another number of choices than of dimensions, or choices that differ between ranks: the
    /// same error on every rank. Or a rank is gone.
    pub fn sub(&self, keep: &[bool]) -> Result<Neighbourhood<Cartesian>, Error> {
        self.agree_to_keep(keep)?;
        let (shape, ranks) = self.shape.sub(self.rank, keep)?;
        let members: Vec<u32> = ranks.iter().map(|rank| self.members[*rank as usize]).collect();
        let rank = ranks.iter().position(|rank| *rank == self.rank);
        let rank = rank.expect("a rank is part of its own slice") as u32;
        let world = self.world.apart_among(&members)?;
        Ok(Neighbourhood::new(world, shape.clone(), &shape, members, rank))
    }

    /// Whether all ranks want the same slices.
    fn agree_to_keep(&self, keep: &[bool]) -> Result<(), Error> {
        let mut words = vec![keep.len() as u32];
        words.extend(keep.iter().map(|keep| u32::from(*keep)));
        // Too many or too few choices: their number tells.
        words.resize(1 + self.shape.dims().len(), 0);
        let tag = self.next_call().first();
        let choices = self.world.share_among(&self.members, &words, tag)?;
        Ok(agree(&choices, "dimensions to keep")?)
    }
}
