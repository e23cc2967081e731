//! Queries about a topology (MPI 5.0 §8.5.2, §8.5.5).

use std::rc::Rc;

use hikyaku_coll::topology::{self as coll, Link, Topology as _};

use super::{Shape, UNWEIGHTED, WEIGHTS_EMPTY};
use crate::communicators::Comm;
use crate::dialect::{Dialect, PROC_NULL, UNDEFINED};
use crate::failure::{Class, Failure};
use crate::raw::{self, Numbers, NumbersAt, Out, length};
use crate::runtime::Mpi;

/// Checks that a rank exists.
fn rank_of(comm: &Comm, rank: i32) -> Result<u32, Failure> {
    let size = comm.inner.size();
    u32::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
        let text = format!("rank {rank} does not exist: there are ranks 0 to {}", size - 1);
        Failure::new(Class::Rank, text)
    })
}

/// Checks that there is room for the results.
fn room(most: i32, needed: usize, argument: &str) -> Result<(), Failure> {
    if i64::from(most) >= needed as i64 {
        return Ok(());
    }
    Err(Failure::argument(format!("`{argument}` is {most}: there are {needed}")))
}

impl<D: Dialect> Mpi<D> {
    /// MPI_Topo_test.
    pub fn topo_test(&self, comm: Rc<Comm>, status: Out<i32>) -> Result<(), Failure> {
        let [grid, graph, distributed] = D::TOPOLOGIES;
        status.set(match comm.shape() {
            None => UNDEFINED,
            Some(Shape::Grid(_)) => grid,
            Some(Shape::Graph(_)) => graph,
            Some(Shape::Distributed(_)) => distributed,
        });
        Ok(())
    }

    /// MPI_Dims_create.
    pub fn dims_create(&self, nodes: i32, ndims: i32, at: NumbersAt) -> Result<(), Failure> {
        self.world()?;
        let wrong = |argument, text: String| Failure::new(Class::Dims, text).named(argument);
        let ndims = raw::dimensions(ndims)?;
        let nodes = u32::try_from(nodes).ok().filter(|nodes| *nodes > 0).ok_or_else(|| {
            wrong("nnodes", format!("{nodes} nodes cannot be divided among dimensions"))
        })?;
        let given = at.to_read().all(ndims, "dims")?;
        let extent = |extent: &i64| {
            u32::try_from(*extent)
                .map_err(|_| wrong("dims", format!("a dimension is {extent}: it is negative")))
        };
        let mut dims = given.iter().map(extent).collect::<Result<Vec<u32>, _>>()?;
        coll::dims_create(nodes, &mut dims)?;
        at.fill(dims.iter().map(|extent| i64::from(*extent)), "dims")
    }

    /// MPI_Cartdim_get.
    pub fn cartdim_get(&self, comm: Rc<Comm>, ndims: Out<i32>) -> Result<(), Failure> {
        ndims.set(comm.grid()?.dims().len() as i32);
        Ok(())
    }

    /// MPI_Cart_get.
    pub fn cart_get(
        &self,
        comm: Rc<Comm>,
        most: i32,
        dims: NumbersAt,
        periods: NumbersAt,
        coords: NumbersAt,
    ) -> Result<(), Failure> {
        let grid = comm.grid()?;
        room(most, grid.dims().len(), "maxdims")?;
        dims.fill(grid.dims().iter().map(|extent| i64::from(*extent)), "dims")?;
        periods.fill(grid.periods().iter().map(|wraps| i64::from(*wraps)), "periods")?;
        let own = grid.coordinates(comm.inner.rank());
        coords.fill(own.iter().map(|at| i64::from(*at)), "coords")
    }

    /// MPI_Cart_rank.
    pub fn cart_rank(
        &self,
        comm: Rc<Comm>,
        coords: Numbers,
        rank: Out<i32>,
    ) -> Result<(), Failure> {
        let grid = comm.grid()?;
        rank.set(grid.rank_at(&coords.all(grid.dims().len(), "coords")?)? as i32);
        Ok(())
    }

    /// MPI_Cart_coords.
    pub fn cart_coords(
        &self,
        comm: Rc<Comm>,
        rank: i32,
        most: i32,
        coords: NumbersAt,
    ) -> Result<(), Failure> {
        let grid = comm.grid()?;
        let place = grid.coordinates(rank_of(&comm, rank)?);
        room(most, place.len(), "maxdims")?;
        coords.fill(place.iter().map(|at| i64::from(*at)), "coords")
    }

    /// MPI_Cart_shift.
    pub fn cart_shift(
        &self,
        comm: Rc<Comm>,
        direction: i32,
        displacement: i32,
        source: Out<i32>,
        destination: Out<i32>,
    ) -> Result<(), Failure> {
        let grid = comm.grid()?;
        let dimension = usize::try_from(direction).map_err(|_| {
            Failure::new(Class::Dims, format!("the direction is {direction}: it is negative"))
        })?;
        let shift = grid
            .shift(comm.inner.rank(), dimension, displacement.into())
            .map_err(|it| Failure::from(it).named("direction"))?;
        let number = |rank: Option<u32>| rank.map_or(PROC_NULL, |rank| rank as i32);
        source.set(number(shift.source));
        destination.set(number(shift.destination));
        Ok(())
    }

    /// MPI_Graphdims_get.
    pub fn graphdims_get(
        &self,
        comm: Rc<Comm>,
        nodes: Out<i32>,
        edges: Out<i32>,
    ) -> Result<(), Failure> {
        let graph = comm.graph()?;
        nodes.set(graph.size() as i32);
        edges.set(graph.edges().len() as i32);
        Ok(())
    }

    /// MPI_Graph_get.
    pub fn graph_get(
        &self,
        comm: Rc<Comm>,
        most_index: i32,
        most_edges: i32,
        index: NumbersAt,
        edges: NumbersAt,
    ) -> Result<(), Failure> {
        let graph = comm.graph()?;
        room(most_index, graph.index().len(), "maxindex")?;
        room(most_edges, graph.edges().len(), "maxedges")?;
        index.fill(graph.index().iter().map(|end| i64::from(*end)), "indx")?;
        edges.fill(graph.edges().iter().map(|rank| i64::from(*rank)), "edges")
    }

    /// MPI_Graph_neighbors_count.
    pub fn graph_neighbors_count(
        &self,
        comm: Rc<Comm>,
        rank: i32,
        neighbors: Out<i32>,
    ) -> Result<(), Failure> {
        let graph = comm.graph()?;
        neighbors.set(graph.neighbours(rank_of(&comm, rank)?).len() as i32);
        Ok(())
    }

    /// MPI_Graph_neighbors.
    pub fn graph_neighbors(
        &self,
        comm: Rc<Comm>,
        rank: i32,
        most: i32,
        neighbors: NumbersAt,
    ) -> Result<(), Failure> {
        let graph = comm.graph()?;
        let found = graph.neighbours(rank_of(&comm, rank)?);
        room(most, found.len(), "maxneighbors")?;
        neighbors.fill(found.iter().map(|rank| i64::from(*rank)), "neighbors")
    }

    /// MPI_Dist_graph_neighbors_count.
    pub fn dist_graph_neighbors_count(
        &self,
        comm: Rc<Comm>,
        indegree: Out<i32>,
        outdegree: Out<i32>,
        weighted: Out<i32>,
    ) -> Result<(), Failure> {
        let (links, has_weights) = comm.distributed()?;
        indegree.set(links.sources.len() as i32);
        outdegree.set(links.destinations.len() as i32);
        weighted.set_flag(has_weights);
        Ok(())
    }

    /// MPI_Dist_graph_neighbors: writes as many as there is room for.
    #[allow(clippy::too_many_arguments)]
    pub fn dist_graph_neighbors(
        &self,
        comm: Rc<Comm>,
        most_sources: i32,
        sources: NumbersAt,
        source_weights: NumbersAt,
        most_destinations: i32,
        destinations: NumbersAt,
        destination_weights: NumbersAt,
    ) -> Result<(), Failure> {
        let (links, weighted) = comm.distributed()?;
        let write = |links: &[Link], most: usize, ranks: NumbersAt, weights: NumbersAt, name| {
            let links = &links[..links.len().min(most)];
            let number = |link: &Link| link.rank.map_or(PROC_NULL.into(), i64::from);
            ranks.fill(links.iter().map(number), name)?;
            if weighted && ![UNWEIGHTED, WEIGHTS_EMPTY].contains(&weights.address()) {
                weights.fill(links.iter().map(|link| link.weight.into()), "weights")?;
            }
            Ok(())
        };
        let most_sources = length(most_sources, "maxindegree")?;
        let most = length(most_destinations, "maxoutdegree")?;
        write(&links.sources, most_sources, sources, source_weights, "sources")?;
        write(&links.destinations, most, destinations, destination_weights, "destinations")
    }
}
