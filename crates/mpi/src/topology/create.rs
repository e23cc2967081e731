//! The creation of communicators with a topology (MPI 5.0 §8.5).

use std::rc::Rc;
use std::sync::Arc;

use hikyaku_coll::topology::{self as coll, Cartesian, Edge, EdgeLists, Graph, TopologyError};
use hikyaku_rank::topology::{Agreed, Edges};

use super::{Shape, Topology, UNWEIGHTED, WEIGHTS_EMPTY};
use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle, UNDEFINED};
use crate::failure::{Class, Failure};
use crate::info::Info;
use crate::raw::{self, HandleAt, Numbers, Out, length};
use crate::runtime::Mpi;

/// Checks that the numbers of an argument are not negative. `class` is that of the error.
fn unsigned(
    numbers: &[i64],
    class: Class,
    (argument, what): (&str, &str),
) -> Result<Vec<u32>, Failure> {
    let number = |(at, number): (usize, &i64)| {
        u32::try_from(*number).map_err(|_| {
            let text = format!("{what} {at} is {number}: it is negative");
            Failure::new(class, text).named(argument)
        })
    };
    numbers.iter().enumerate().map(number).collect()
}

/// The extents of a grid, and whether each dimension is periodic.
fn dimensions(
    ndims: i32,
    dims: &Numbers,
    periods: &Numbers,
) -> Result<(Vec<u32>, Vec<bool>), Failure> {
    let ndims = raw::dimensions(ndims)?;
    let dims = unsigned(&dims.all(ndims, "dims")?, Class::Dims, ("dims", "dimension"))?;
    let periods = periods.all(ndims, "periods")?;
    Ok((dims, periods.iter().map(|wraps| *wraps != 0).collect()))
}

/// The end of each rank's neighbours in the list of a graph, and that list.
fn adjacency(
    nnodes: i32,
    index: &Numbers,
    edges: &Numbers,
) -> Result<(Vec<u32>, Vec<u32>), Failure> {
    let nodes = length(nnodes, "nnodes")?;
    let index =
        unsigned(&index.all(nodes, "indx")?, Class::Topology, ("indx", "the index at node"))?;
    let most = index.iter().max().copied().unwrap_or(0);
    let edges = unsigned(&edges.all(most as usize, "edges")?, Class::Rank, ("edges", "neighbour"))?;
    Ok((index, edges))
}

/// The given weights, or none.
enum Weights {
    None,
    Some(Vec<i64>),
}

impl Weights {
    fn read(given: &Numbers, edges: usize, argument: &str) -> Result<Weights, Failure> {
        let empty = |address| address == 0 || address == WEIGHTS_EMPTY;
        match given.address() {
            Some(UNWEIGHTED) => Ok(Weights::None),
            Some(address) if edges == 0 && empty(address) => Ok(Weights::Some(Vec::new())),
            Some(WEIGHTS_EMPTY) => {
                let text =
                    format!("`{argument}` is MPI_WEIGHTS_EMPTY, and there are {edges} edges");
                Err(Failure::argument(text))
            }
            _ => Ok(Weights::Some(given.all(edges, argument)?)),
        }
    }

    fn are_given(&self) -> bool {
        matches!(self, Weights::Some(_))
    }

    /// The edges to these ranks. An invalid rank or weight becomes a value that is always invalid,
    /// so that the agreement reports it to all ranks.
    fn edges(&self, ranks: &[i64]) -> Vec<Edge> {
        let edge = |(at, rank): (usize, &i64)| {
            let weight = match self {
                Weights::None => 1,
                Weights::Some(weights) => u32::try_from(weights[at]).unwrap_or(0),
            };
            Edge { rank: u32::try_from(*rank).unwrap_or(u32::MAX), weight }
        };
        ranks.iter().enumerate().map(edge).collect()
    }

    /// Checks that no rank or weight is negative.
    fn check(&self, ranks: &[i64], [ends, weights]: [&str; 2]) -> Result<(), Failure> {
        unsigned(ranks, Class::Rank, (ends, "the rank of edge"))?;
        match self {
            Weights::None => Ok(()),
            Weights::Some(given) => {
                unsigned(given, Class::Arg, (weights, "the weight of edge")).map(drop)
            }
        }
    }
}

impl<D: Dialect> Mpi<D> {
    /// Creates the communicator of a topology. Its ranks are the members, in the topology's order.
    fn add_topology<T: coll::Topology>(
        &self,
        comm: &Comm,
        Agreed { topology, members }: Agreed<T>,
        (shape, usable): (impl FnOnce(T) -> Shape, Result<(), TopologyError>),
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let own = comm.inner.rank();
        let place = members.iter().position(|member| *member == own);
        let is_same = members.iter().copied().eq(0..comm.inner.size());
        let inner = if is_same {
            Some(comm.inner.try_duplicate()?)
        } else {
            // Slices of a grid are disjoint, so the first rank of each identifies it.
            let color = place.map(|_| members[0]);
            comm.inner.split(color, place.map_or(0, |at| at as i32))?
        };
        let (Some(inner), Some(place)) = (inner, place) else {
            into.set(Handle::COMM_NULL);
            return Ok(());
        };
        let made = self.add_comm(inner, comm.handler.get(), into)?;
        let (links, channels) = (topology.links(place as u32), topology.channels());
        // Succeeds: a new communicator has no topology.
        let _ = made.topology.set(Topology::of(shape(topology), links, channels, usable));
        Ok(())
    }

    /// MPI_Cart_create.
    pub fn cart_create(
        &self,
        comm: Rc<Comm>,
        ndims: i32,
        dims: Numbers,
        periods: Numbers,
        reorder: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let (dims, periods) = dimensions(ndims, &dims, &periods)?;
        let agreed = comm.one_group()?.agree_on_grid(&dims, &periods, reorder != 0)?;
        self.add_topology(&comm, agreed, (Shape::Grid, Ok(())), &into)
    }

    /// MPI_Cart_sub. Every rank is in one of the slices.
    pub fn cart_sub(
        &self,
        comm: Rc<Comm>,
        remain: Numbers,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let grid = comm.grid()?;
        let keep = remain.all(grid.dims().len(), "remain_dims")?;
        let keep: Vec<bool> = keep.iter().map(|keep| *keep != 0).collect();
        let agreed = comm.one_group()?.agree_on_slice(grid, &keep)?;
        self.add_topology(&comm, agreed, (Shape::Grid, Ok(())), &into)
    }

    /// MPI_Graph_create. Neighbours can exchange only if every edge has a reverse edge.
    pub fn graph_create(
        &self,
        comm: Rc<Comm>,
        nnodes: i32,
        index: Numbers,
        edges: Numbers,
        reorder: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let (index, edges) = adjacency(nnodes, &index, &edges)?;
        let agreed = comm.one_group()?.agree_on_graph(&index, &edges, reorder != 0, |_| Ok(()))?;
        let usable = agreed.topology.check_both_ways();
        self.add_topology(&comm, agreed, (Shape::Graph, usable), &into)
    }

    fn add_distributed(
        &self,
        comm: &Comm,
        (agreed, weighted): (Agreed<EdgeLists>, Option<bool>),
        own: bool,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let weighted = weighted.unwrap_or(own);
        let usable = agreed.topology.check_ends();
        self.add_topology(comm, agreed, (|_| Shape::Distributed(weighted), usable), into)
    }

    /// MPI_Dist_graph_create_adjacent. Neighbours can exchange only if both ends list every edge.
    #[allow(clippy::too_many_arguments)]
    pub fn dist_graph_create_adjacent(
        &self,
        comm: Rc<Comm>,
        indegree: i32,
        sources: Numbers,
        source_weights: Numbers,
        outdegree: i32,
        destinations: Numbers,
        destination_weights: Numbers,
        _: Option<Arc<Info>>,
        reorder: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let (indegree, outdegree) =
            (length(indegree, "indegree")?, length(outdegree, "outdegree")?);
        let sources = sources.all(indegree, "sources")?;
        let destinations = destinations.all(outdegree, "destinations")?;
        let in_weights = Weights::read(&source_weights, indegree, "sourceweights")?;
        let out_weights = Weights::read(&destination_weights, outdegree, "destweights")?;
        let (given, other) = (in_weights.are_given(), out_weights.are_given());
        let mixed = given != other && indegree > 0 && outdegree > 0;
        let own = if indegree > 0 { given } else { other };
        let said = (indegree + outdegree > 0).then_some(own);
        let how = Edges { reorder: reorder != 0, weighted: said };
        let (ins, outs) = (in_weights.edges(&sources), out_weights.edges(&destinations));
        let agreed = comm.one_group()?.agree_on_adjacent(ins.into_iter(), outs.into_iter(), how);
        in_weights.check(&sources, ["sources", "sourceweights"])?;
        out_weights.check(&destinations, ["destinations", "destweights"])?;
        if mixed {
            let text = "MPI_UNWEIGHTED was given for sources or destinations, and not for both";
            return Err(Failure::argument(text));
        }
        self.add_distributed(&comm, agreed?, own, &into)
    }

    /// MPI_Dist_graph_create.
    #[allow(clippy::too_many_arguments)]
    pub fn dist_graph_create(
        &self,
        comm: Rc<Comm>,
        n: i32,
        sources: Numbers,
        degrees: Numbers,
        destinations: Numbers,
        weights: Numbers,
        _: Option<Arc<Info>>,
        reorder: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let n = length(n, "n")?;
        let sources = sources.all(n, "sources")?;
        let degrees = unsigned(&degrees.all(n, "degrees")?, Class::Arg, ("degrees", "degree"))?;
        let total = degrees.iter().map(|degree| *degree as usize).sum();
        let destinations = destinations.all(total, "destinations")?;
        let weights = Weights::read(&weights, total, "weights")?;
        let from = sources.iter().zip(&degrees);
        let from = from.flat_map(|(source, degree)| (0..*degree).map(move |_| *source));
        let from: Vec<i64> = from.collect();
        let own = weights.are_given();
        let how = Edges { reorder: reorder != 0, weighted: (total > 0).then_some(own) };
        let numbers = from.iter().map(|source| u32::try_from(*source).unwrap_or(u32::MAX));
        let named = numbers.zip(weights.edges(&destinations));
        let agreed = comm.one_group()?.agree_on_edges(named, how);
        unsigned(&from, Class::Rank, ("sources", "the source of edge"))?;
        weights.check(&destinations, ["destinations", "weights"])?;
        self.add_distributed(&comm, agreed?, own, &into)
    }

    /// The rank that this one would get in a topology that may reorder the ranks.
    fn mapped(comm: &Comm, topology: impl coll::Topology, rank: Out<i32>) -> Result<(), Failure> {
        let Agreed { members, .. } = comm.inner.placed(topology, true)?;
        let own = comm.inner.rank();
        let place = members.iter().position(|member| *member == own);
        rank.set(place.map_or(UNDEFINED, |at| at as i32));
        Ok(())
    }

    /// MPI_Cart_map.
    pub fn cart_map(
        &self,
        comm: Rc<Comm>,
        ndims: i32,
        dims: Numbers,
        periods: Numbers,
        rank: Out<i32>,
    ) -> Result<(), Failure> {
        let (dims, periods) = dimensions(ndims, &dims, &periods)?;
        Self::mapped(&comm, Cartesian::new(&dims, &periods)?, rank)
    }

    /// MPI_Graph_map.
    pub fn graph_map(
        &self,
        comm: Rc<Comm>,
        nnodes: i32,
        index: Numbers,
        edges: Numbers,
        rank: Out<i32>,
    ) -> Result<(), Failure> {
        let (index, edges) = adjacency(nnodes, &index, &edges)?;
        Self::mapped(&comm, Graph::new(&index, &edges)?, rank)
    }
}
