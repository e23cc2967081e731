//! Persistent collectives: made once, started many times (MPI 5.0 §6.13).
//!
//! A persistent operation owns its buffers and lends them to the program while it is not in flight.
//! So it needs no scope: a forgotten operation keeps its buffers. Each has a communicator context
//! of its own, so several may be started in any order, and a start finds all constant data in
//! place.
//!
//! Operations that session queues support ([`DenseRounds`]) run by themselves after their start, if
//! that was chosen. The others advance in calls of the library, as operations in flight do.

use std::cell::Cell;
use std::ops::DerefMut;
use std::rc::Rc;

use hikyaku_coll::SessionChoices;
use hikyaku_msg::Layout;
use hikyaku_rank::persistent::{DenseCall, DenseOperation, DenseRounds};
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
    /// Makes the future of one start, which returns the buffers to `home`.
    begin: Box<dyn Fn(B) -> Task>,
    home: Rc<Cell<Option<B>>>,
    /// The buffers, unless it is in flight.
    buffers: Option<B>,
    task: Option<TaskId>,
    /// `None`: it runs as a task.
    session: Option<Box<Session<B>>>,
}

/// An operation on session queues, or why the ranks could not make it.
struct Session<B> {
    rounds: Result<DenseRounds, hikyaku_rank::Error>,
    own: Own<B>,
    room: Room<B>,
    /// The buffers while it is in flight.
    lent: Option<B>,
}

/// Selects this rank's contribution in the buffers.
type Own<B> = Box<dyn Fn(&B) -> &[u8]>;

/// Selects the place of the result in the buffers.
type Room<B> = fn(&mut B) -> &mut [u8];

impl<B> Session<B> {
    /// Starts a round and keeps the buffers.
    fn start(&mut self, mut buffers: B) -> Result<(), (B, hikyaku_rank::Error)> {
        let room = (self.room)(&mut buffers).len();
        let rounds = self.rounds.as_mut().map_err(|error| error.clone());
        match rounds.and_then(|rounds| rounds.start((self.own)(&buffers), room)) {
            Ok(()) => {
                self.lent = Some(buffers);
                Ok(())
            }
            Err(error) => Err((buffers, error)),
        }
    }

    /// Waits for the round, or polls once.
    fn end(&mut self, waits: bool) -> Option<Result<(), hikyaku_rank::Error>> {
        let rounds = match &mut self.rounds {
            Ok(rounds) => rounds,
            Err(error) => return Some(Err(error.clone())),
        };
        let done = if waits { rounds.wait().map(|()| true) } else { rounds.test() };
        if done.as_ref().is_ok_and(|done| !done) {
            return None;
        }
        if let (Ok(_), Some(buffers)) = (&done, &mut self.lent) {
            (self.room)(buffers).copy_from_slice(rounds.result());
        }
        Some(done.map(drop))
    }
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
        Persistent { name, world, begin, home, buffers, task: None, session: None }
    }

    /// Uses session queues if they support the operation: every rank decides the same.
    fn by_session(mut self, operation: DenseOperation, own: Own<B>, room: Room<B>) -> Self {
        let Some(buffers) = &mut self.buffers else { return self };
        let call = DenseCall { operation, bytes: own(buffers).len() };
        let rounds = DenseRounds::new(self.world.communicator(), call, room(buffers).len());
        let session = |rounds| Box::new(Session { rounds, own, room, lent: None });
        self.session = rounds.transpose().map(session);
        self
    }
}

impl<B> Persistent<B> {
    /// Starts the operation with the present contents of the buffers (MPI_Start).
    ///
    /// # Errors
    /// It was started before and has not been waited for.
    pub fn start(&mut self) -> Result<(), Error> {
        let buffers = self.buffers.take().ok_or(Error::InFlight { operation: self.name })?;
        if let Some(session) = &mut self.session {
            return session.start(buffers).map_err(|(buffers, error)| {
                self.buffers = Some(buffers);
                error.into()
            });
        }
        let id = self.world.tasks().add((self.begin)(buffers));
        self.task = Some(id);
        self.world.communicator().begin_task(id);
        Ok(())
    }

    /// Waits until this rank's part is done. Returns at once if it was not started.
    ///
    /// # Errors
    /// As the blocking call. It can be started again if all ranks do so; an operation on session
    /// queues cannot, and ends.
    pub fn wait(&mut self) -> Result<(), Error> {
        if self.is_lent() {
            return self.session_ended(true).unwrap_or(Ok(()));
        }
        let Some(id) = self.task else { return Ok(()) };
        let result = self.world.communicator().wait_for_task(id, 1);
        self.ended(result)
    }

    /// Whether this rank's part is done, or was never started.
    ///
    /// # Errors
    /// As [`Persistent::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        let ended = if self.is_lent() {
            self.session_ended(false)
        } else {
            let Some(id) = self.task else { return Ok(true) };
            self.world.communicator().test_task(id).map(|result| self.ended(result))
        };
        let Some(ended) = ended else {
            self.world.found_nothing();
            return Ok(false);
        };
        ended.map(|()| true)
    }

    /// The buffers: after a wait, the result.
    ///
    /// # Errors
    /// It is in flight.
    pub fn buffers(&self) -> Result<&B, Error> {
        self.buffers.as_ref().ok_or(Error::InFlight { operation: self.name })
    }

    /// The buffers, to be filled for the next start.
    ///
    /// # Errors
    /// It is in flight.
    pub fn buffers_mut(&mut self) -> Result<&mut B, Error> {
        self.buffers.as_mut().ok_or(Error::InFlight { operation: self.name })
    }

    /// Whether session queues hold the buffers.
    fn is_lent(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.lent.is_some())
    }

    fn session_ended(&mut self, waits: bool) -> Option<Result<(), Error>> {
        if !waits {
            // Other ranks may wait for operations that this rank has in flight.
            self.world.communicator().attend();
            self.world.engine().borrow_mut().progress();
        }
        let session = self.session.as_mut()?;
        let ended = session.end(waits)?;
        self.buffers = session.lent.take();
        Some(ended.map_err(Error::from))
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
    /// The operations whose persistent form uses session queues.
    fn sessions(&self) -> SessionChoices {
        self.communicator().choices().sessions
    }

    /// Makes a persistent [`World::barrier`] (MPI_Barrier_init).
    pub fn barrier_init(&self) -> Persistent<()> {
        let made =
            Persistent::new(self, "barrier", (), async move |ranks, _| ranks.barrier().await);
        match self.sessions().barrier {
            true => made.by_session(DenseOperation::Barrier, Box::new(|()| &[]), |()| &mut []),
            false => made,
        }
    }

    /// Makes a persistent [`World::broadcast`] (MPI_Bcast_init).
    pub fn broadcast_init<T: Scalar, D: Buffer<T>>(&self, data: D, root: u32) -> Persistent<D> {
        let made = Persistent::new(self, "broadcast", data, async move |ranks, data: &mut D| {
            ranks.broadcast(data, root).await
        });
        match self.sessions().broadcast {
            true => made.by_session(DenseOperation::Broadcast { root }, whole(), whole_mut),
            false => made,
        }
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
        let combining = op.combining().filter(|_| self.sessions().allreduce);
        let made = Persistent::new(self, "allreduce", data, async move |ranks, data: &mut D| {
            ranks.allreduce(data, &op).await
        });
        match combining {
            Some(by) => made.by_session(DenseOperation::Allreduce(by), whole(), whole_mut),
            None => made,
        }
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
        let both = (mine, all);
        let made =
            Persistent::new(self, "allgather", both, async move |ranks, both: &mut (D, E)| {
                ranks.allgather(Some(&*both.0), &mut both.1).await
            });
        if !self.sessions().allgather {
            return made;
        }
        let own: Own<(D, E)> = Box::new(|(mine, _)| bytemuck::cast_slice(mine));
        made.by_session(DenseOperation::Allgather, own, |(_, all)| bytemuck::cast_slice_mut(all))
    }

    /// Makes a persistent [`World::allgather_in_place`] (MPI_Allgather_init with MPI_IN_PLACE).
    pub fn allgather_in_place_init<T: Scalar, D: Buffer<T>>(&self, all: D) -> Persistent<D> {
        let made = Persistent::new(self, "allgather", all, async move |ranks, all: &mut D| {
            ranks.allgather(None, all).await
        });
        if !self.sessions().allgather {
            return made;
        }
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let own: Own<D> = Box::new(move |all| {
            let block = all.len() / size;
            bytemuck::cast_slice(&all[rank * block..][..block])
        });
        made.by_session(DenseOperation::Allgather, own, whole_mut)
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

/// All of a buffer.
fn whole<T: Scalar, D: Buffer<T>>() -> Own<D> {
    Box::new(|data| bytemuck::cast_slice(data))
}

fn whole_mut<T: Scalar, D: Buffer<T>>(data: &mut D) -> &mut [u8] {
    bytemuck::cast_slice_mut(data)
}

fn slices<T, D: Buffer<T>>(parts: &[D]) -> Vec<&[T]> {
    parts.iter().map(|part| &**part).collect()
}

fn slices_mut<T, D: Buffer<T>>(blocks: &mut [D]) -> Vec<&mut [T]> {
    blocks.iter_mut().map(|block| &mut **block).collect()
}
