//! Persistent collectives: made once, started again and again (MPI 5.0 §6.13).
//!
//! A persistent operation owns its buffers and lends them to the program while it is not in flight.
//! So it needs no scope: a forgotten operation keeps its buffers. Each has a communicator context
//! of its own, so that several may be started in any order, and a start finds everything that does
//! not change in its place.

use std::cell::Cell;
use std::ops::DerefMut;
use std::rc::Rc;

use hikyaku_msg::Layout;
use hikyaku_rank::{Task, TaskId};

use super::CollectiveRanks;
use super::operations::in_bytes;
use crate::error::Error;
use crate::reducer::Reducer;
use crate::scalar::Scalar;
use crate::world::World;

/// Owned memory that a persistent operation works on: a `Vec`, a boxed slice, a
/// [`SharedBuffer`](crate::SharedBuffer).
pub trait Buffer<T>: DerefMut<Target = [T]> + 'static {}

impl<T, B: DerefMut<Target = [T]> + 'static> Buffer<T> for B {}

/// A collective that can be started again and again. `B` are its buffers.
///
/// All ranks make the same ones in the same order, and start each equally often; several in flight
/// may be started in any order. Dropping one in flight cancels it, which is an error at the other
/// ranks.
///
/// ```no_run
/// # use hikyaku::{Op, World};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let world = World::init()?;
/// let mut norm = world.allreduce_init(vec![0.0_f64], Op::Sum);
/// for step in 0..100 {
///     norm.buffers_mut()?[0] = f64::from(step);
///     norm.start()?;
///     // ... something else ...
///     norm.wait()?;
///     println!("{}", norm.buffers()?[0]);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Persistent<B> {
    name: &'static str,
    /// A communicator of its own.
    world: Rc<World>,
    /// Makes the future of one start, which puts the buffers back `home`.
    begin: Box<dyn Fn(B) -> Task>,
    home: Rc<Cell<Option<B>>>,
    /// The buffers, unless it is in flight.
    buffers: Option<B>,
    task: Option<TaskId>,
}

impl<B> std::fmt::Debug for Persistent<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Persistent { name, task, .. } = self;
        f.debug_struct("Persistent").field("name", name).field("task", task).finish_non_exhaustive()
    }
}

impl<B: 'static> Persistent<B> {
    fn new(
        world: &World,
        name: &'static str,
        buffers: B,
        operation: impl AsyncFn(&CollectiveRanks<'_>, &mut B) -> Result<(), hikyaku_rank::Error>
        + 'static,
    ) -> Persistent<B> {
        let world = Rc::new(world.duplicate());
        let home = Rc::new(Cell::new(None));
        let operation = Rc::new(operation);
        let begin = {
            let (world, home) = (Rc::clone(&world), Rc::clone(&home));
            move |mut buffers: B| -> Task {
                let (world, home) = (Rc::clone(&world), Rc::clone(&home));
                let operation = Rc::clone(&operation);
                Box::pin(async move {
                    let result = operation(&world.ranks(), &mut buffers).await;
                    home.set(Some(buffers));
                    result
                })
            }
        };
        let (begin, buffers) = (Box::new(begin), Some(buffers));
        Persistent { name, world, begin, home, buffers, task: None }
    }
}

impl<B> Persistent<B> {
    /// Starts the operation with what the buffers hold now (MPI_Start).
    ///
    /// # Errors
    /// It was started before and has not been waited for.
    pub fn start(&mut self) -> Result<(), Error> {
        let buffers = self.buffers.take().ok_or(Error::InFlight { operation: self.name })?;
        self.task = Some(self.world.communicator().start_task((self.begin)(buffers)));
        Ok(())
    }

    /// Waits until this rank's part is done. Returns at once if it was not started.
    ///
    /// # Errors
    /// What it failed with: as the blocking call. It can be started again if all ranks do.
    pub fn wait(&mut self) -> Result<(), Error> {
        let Some(id) = self.task else { return Ok(()) };
        let result = self.world.communicator().wait_for_task(id, 1);
        self.ended(result)
    }

    /// Whether this rank's part is done, or was never started.
    ///
    /// # Errors
    /// As [`Persistent::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        let Some(id) = self.task else { return Ok(true) };
        match self.world.communicator().test_task(id) {
            None => Ok(false),
            Some(result) => self.ended(result).map(|()| true),
        }
    }

    /// The buffers: after a wait, the result.
    ///
    /// # Errors
    /// It is in flight.
    pub fn buffers(&self) -> Result<&B, Error> {
        self.buffers.as_ref().ok_or(Error::InFlight { operation: self.name })
    }

    /// The buffers, to put in what the next start sends.
    ///
    /// # Errors
    /// It is in flight.
    pub fn buffers_mut(&mut self) -> Result<&mut B, Error> {
        self.buffers.as_mut().ok_or(Error::InFlight { operation: self.name })
    }

    fn ended(&mut self, result: Result<(), hikyaku_rank::Error>) -> Result<(), Error> {
        self.task = None;
        self.buffers = self.home.take();
        Ok(result?)
    }
}

impl<B> Drop for Persistent<B> {
    fn drop(&mut self) {
        if let Some(id) = self.task {
            self.world.tasks().remove(id);
        }
        self.world.communicator().retire();
    }
}

impl World {
    /// Makes a persistent [`World::barrier`] (MPI_Barrier_init).
    pub fn barrier_init(&self) -> Persistent<()> {
        Persistent::new(self, "barrier", (), async move |ranks, _| ranks.barrier().await)
    }

    /// Makes a persistent [`World::broadcast`] (MPI_Bcast_init).
    pub fn broadcast_init<T: Scalar, D: Buffer<T>>(&self, data: D, root: u32) -> Persistent<D> {
        Persistent::new(self, "broadcast", data, async move |ranks, data| {
            ranks.broadcast(data, root).await
        })
    }

    /// Makes a persistent [`World::reduce`] (MPI_Reduce_init).
    pub fn reduce_init<T: Scalar, D: Buffer<T>>(
        &self,
        data: D,
        op: impl Reducer<T> + 'static,
        root: u32,
    ) -> Persistent<D> {
        Persistent::new(self, "reduce", data, async move |ranks, data| {
            ranks.reduce(data, &op, root).await
        })
    }

    /// Makes a persistent [`World::allreduce`] (MPI_Allreduce_init).
    pub fn allreduce_init<T: Scalar, D: Buffer<T>>(
        &self,
        data: D,
        op: impl Reducer<T> + 'static,
    ) -> Persistent<D> {
        Persistent::new(self, "allreduce", data, async move |ranks, data| {
            ranks.allreduce(data, &op).await
        })
    }

    /// Makes a persistent [`World::gather_into`] (MPI_Gather_init).
    pub fn gather_into_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        mine: D,
        into: E,
        root: u32,
    ) -> Persistent<(D, E)> {
        Persistent::new(self, "gather", (mine, into), async move |ranks, (mine, into)| {
            ranks.gather(mine, into, root).await
        })
    }

    /// Makes a persistent [`World::gatherv_into`] (MPI_Gatherv_init).
    pub fn gatherv_into_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        mine: D,
        blocks: Vec<E>,
        root: u32,
    ) -> Persistent<(D, Vec<E>)> {
        Persistent::new(self, "gatherv", (mine, blocks), async move |ranks, (mine, blocks)| {
            ranks.gatherv(mine, slices_mut(blocks), root).await
        })
    }

    /// Makes a persistent [`World::scatter`] (MPI_Scatter_init).
    pub fn scatter_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        all: D,
        into: E,
        root: u32,
    ) -> Persistent<(D, E)> {
        Persistent::new(self, "scatter", (all, into), async move |ranks, (all, into)| {
            ranks.scatter(all, into, root).await
        })
    }

    /// Makes a persistent [`World::scatterv`] (MPI_Scatterv_init).
    pub fn scatterv_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        parts: Vec<D>,
        into: E,
        root: u32,
    ) -> Persistent<(Vec<D>, E)> {
        Persistent::new(self, "scatterv", (parts, into), async move |ranks, (parts, into)| {
            ranks.scatterv(&slices(parts), into, root).await
        })
    }

    /// Makes a persistent [`World::allgather`] (MPI_Allgather_init).
    pub fn allgather_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        mine: D,
        all: E,
    ) -> Persistent<(D, E)> {
        Persistent::new(self, "allgather", (mine, all), async move |ranks, (mine, all)| {
            ranks.allgather(Some(&**mine), all).await
        })
    }

    /// Makes a persistent [`World::allgather_in_place`] (MPI_Allgather_init with MPI_IN_PLACE).
    pub fn allgather_in_place_init<T: Scalar, D: Buffer<T>>(&self, all: D) -> Persistent<D> {
        Persistent::new(self, "allgather", all, async move |ranks, all| {
            ranks.allgather(None, all).await
        })
    }

    /// Makes a persistent [`World::allgatherv`] (MPI_Allgatherv_init).
    pub fn allgatherv_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        mine: D,
        all: E,
        counts: Vec<usize>,
    ) -> Persistent<(D, E)> {
        Persistent::new(self, "allgatherv", (mine, all), async move |ranks, (mine, all)| {
            ranks.allgatherv(mine, all, &counts).await
        })
    }

    /// Makes a persistent [`World::alltoall`] (MPI_Alltoall_init).
    pub fn alltoall_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        data: D,
        into: E,
    ) -> Persistent<(D, E)> {
        Persistent::new(self, "alltoall", (data, into), async move |ranks, (data, into)| {
            ranks.alltoall(data, into).await
        })
    }

    /// Makes a persistent [`World::alltoall_in_place`] (MPI_Alltoall_init with MPI_IN_PLACE).
    pub fn alltoall_in_place_init<T: Scalar, D: Buffer<T>>(&self, data: D) -> Persistent<D> {
        Persistent::new(self, "alltoall", data, async move |ranks, data| {
            ranks.alltoall_in_place(data).await
        })
    }

    /// Makes a persistent [`World::alltoallv`] (MPI_Alltoallv_init).
    pub fn alltoallv_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        parts: Vec<D>,
        into: Vec<E>,
    ) -> Persistent<(Vec<D>, Vec<E>)> {
        Persistent::new(self, "alltoallv", (parts, into), async move |ranks, (parts, into)| {
            ranks.alltoallv(&slices(parts), slices_mut(into)).await
        })
    }

    /// Makes a persistent [`World::alltoallw`] (MPI_Alltoallw_init).
    pub fn alltoallw_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        data: D,
        parts: &[Layout],
        into: E,
        places: &[Layout],
    ) -> Persistent<(D, E)> {
        let (parts, places) = (in_bytes::<T>(parts), in_bytes::<T>(places));
        Persistent::new(self, "alltoallw", (data, into), async move |ranks, (data, into)| {
            ranks.alltoallw(data, &parts, into, &places).await
        })
    }

    /// Makes a persistent [`World::alltoallw_in_place`] (MPI_Alltoallw_init with MPI_IN_PLACE).
    pub fn alltoallw_in_place_init<T: Scalar, D: Buffer<T>>(
        &self,
        data: D,
        layouts: &[Layout],
    ) -> Persistent<D> {
        let layouts = in_bytes::<T>(layouts);
        Persistent::new(self, "alltoallw", data, async move |ranks, data| {
            ranks.alltoallw_in_place(data, &layouts).await
        })
    }

    /// Makes a persistent [`World::reduce_scatter`] (MPI_Reduce_scatter_init).
    pub fn reduce_scatter_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        data: D,
        into: E,
        counts: Vec<usize>,
        op: impl Reducer<T> + 'static,
    ) -> Persistent<(D, E)> {
        Persistent::new(self, "reduce_scatter", (data, into), async move |ranks, (data, into)| {
            ranks.reduce_scatter(data, into, &counts, &op).await
        })
    }

    /// Makes a persistent [`World::reduce_scatter_block`] (MPI_Reduce_scatter_block_init).
    pub fn reduce_scatter_block_init<T: Scalar, D: Buffer<T>, E: Buffer<T>>(
        &self,
        data: D,
        into: E,
        op: impl Reducer<T> + 'static,
    ) -> Persistent<(D, E)> {
        Persistent::new(
            self,
            "reduce_scatter_block",
            (data, into),
            async move |ranks, (data, into)| ranks.reduce_scatter_block(data, into, &op).await,
        )
    }

    /// Makes a persistent [`World::scan`] (MPI_Scan_init).
    pub fn scan_init<T: Scalar, D: Buffer<T>>(
        &self,
        data: D,
        op: impl Reducer<T> + 'static,
    ) -> Persistent<D> {
        Persistent::new(self, "scan", data, async move |ranks, data| ranks.scan(data, &op).await)
    }

    /// Makes a persistent [`World::exscan`] (MPI_Exscan_init).
    pub fn exscan_init<T: Scalar, D: Buffer<T>>(
        &self,
        data: D,
        op: impl Reducer<T> + 'static,
    ) -> Persistent<D> {
        Persistent::new(self, "exscan", data, async move |ranks, data| {
            ranks.exscan(data, &op).await
        })
    }
}

fn slices<T, D: Buffer<T>>(parts: &[D]) -> Vec<&[T]> {
    parts.iter().map(|part| &**part).collect()
}

fn slices_mut<T, D: Buffer<T>>(blocks: &mut [D]) -> Vec<&mut [T]> {
    blocks.iter_mut().map(|block| &mut **block).collect()
}
