//! A rank's view of its job: its rank and size, and messages to and from the others.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::mem::size_of;
use std::rc::Rc;
use std::time::Duration;

use hikyaku_coll::SessionChoices;
use hikyaku_dsm::driver::{Protocol, Settings, Variables};
use hikyaku_msg::{
    ContextEndpoint, Engine, Envelope, RecvFuture, Selector, SendFuture, SendMode, Statistics,
};
use hikyaku_nic::fabric::{Capabilities, Port};
use hikyaku_nic::time::Time;
use hikyaku_rank::{
    Communicator, Inside, NotASeed, ProgressThread, RankPort, Tasks, WorkEnd, from_environment,
};

use crate::buffer::SharedBuffer;
use crate::collective::CollectiveRanks;
use crate::error::{Error, InitError};
use crate::exchange::Open;
use crate::scalar::Scalar;

/// A communicator: all ranks of the job (MPI_COMM_WORLD and its duplicates), or some of them
/// ([`World::split`], [`World::create_group`]), numbered from 0.
///
/// Every rank that a method takes or returns is a number in this communicator. Only errors about
/// the end of a process ([`MsgError::PeerFailed`](crate::MsgError), `PeerLeft`) and reports of jobs
/// that hang name ranks of the whole job.
///
/// Not `Send`: a rank is one thread. When the last handle is dropped, the rank leaves the job in
/// order: its pending posts are posted first. If a panic drops it, the rank has died instead, and
/// its peers get an error when its process ends.
#[derive(Debug)]
pub struct World {
    /// Dropped before the communicator: other ranks are served to the end.
    variables: Rc<Variables>,
    communicator: Communicator,
    /// An empty list for a scope's open operations, kept for its memory.
    spare_list: SpareList,
}

/// See [`World::spare_list`].
#[derive(Default)]
struct SpareList(Cell<VecDeque<Open>>);

impl fmt::Debug for SpareList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpareList").finish_non_exhaustive()
    }
}

/// The message that a receive or probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length, bytes.
    pub bytes: u64,
}

impl Received {
    /// How many elements of type `T` the message holds (MPI_Get_count).
    pub fn count<T: Scalar>(&self) -> usize {
        self.bytes as usize / size_of::<T>().max(1)
    }
}

impl From<hikyaku_msg::Received> for Received {
    fn from(received: hikyaku_msg::Received) -> Received {
        let hikyaku_msg::Received { source, tag, bytes } = received;
        Received { source, tag, bytes }
    }
}

/// The rank a receive takes messages from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(pub(crate) Option<u32>);

/// Any rank's messages, in order of arrival (MPI_ANY_SOURCE, MPI 5.0 §3.2.4).
pub const ANY_SOURCE: Source = Source(None);

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source(Some(rank))
    }
}

/// The tag a receive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub(crate) Option<i32>);

/// Any tag (MPI_ANY_TAG, MPI 5.0 §3.2.4).
pub const ANY_TAG: Tag = Tag(None);

impl From<i32> for Tag {
    fn from(tag: i32) -> Tag {
        Tag(Some(tag))
    }
}

impl World {
    /// Joins the job in which `hikyaku run` started this program. A program that was started
    /// directly is a world of one rank.
    ///
    /// # Errors
    /// [`InitError`]: the job cannot be joined, for example because this rank already has. Or an
    /// environment variable is invalid: `HIKYAKU_COLL_...` or `HIKYAKU_SHARED` names no algorithm
    /// or protocol, `HIKYAKU_SHARED_FAULTS` or `HIKYAKU_FAULTS` is no seed, `HIKYAKU_UNMATCHED` no
    /// number, `HIKYAKU_LONG_MESSAGES` no way, or `HIKYAKU_PROGRESS_THREAD` neither 1 nor 0.
    pub fn init() -> Result<World, InitError> {
        World::of(Communicator::init)
    }

    /// As [`World::init`], but a process that is already a rank through another front end, such as
    /// MPI's, of this library or of another one, is the same rank here: both share the messages.
    ///
    /// # Errors
    /// As [`World::init`]; or the other library is of another build.
    pub fn join() -> Result<World, InitError> {
        World::of(Communicator::join)
    }

    fn of(join: fn() -> Result<Communicator, InitError>) -> Result<World, InitError> {
        let value_of = |name: &str| std::env::var(name).ok();
        let protocol = from_environment(Protocol::VARIABLE, value_of)
            .map_err(InitError::of(Protocol::VARIABLE))?;
        let faults = NotASeed::seed(NotASeed::VARIABLE, value_of)
            .map_err(InitError::of(NotASeed::VARIABLE))?;
        let settings = Settings { protocol, faults, wrong: None };
        let variable = ProgressThread::VARIABLE;
        let thread: ProgressThread =
            from_environment(variable, value_of).map_err(InitError::of(variable))?;
        let joined = join()?;
        let _inside = Inside::enter();
        if thread.0 && !joined.is_shared() && joined.whole().rank() == 0 {
            // Here a rank's state belongs to one thread, and no call of a program goes through a
            // lock.
            eprintln!(
                "hikyaku: {variable} (--progress-thread) is for MPI programs: this one makes \
                 progress in its calls only, for example in World.overlap"
            );
        }
        Ok(World::over(joined, settings))
    }

    /// A second communicator of all ranks, for a front end that needs one from the start. It may
    /// make it once; ranks need not call at the same time.
    #[doc(hidden)]
    pub fn beside(&self) -> World {
        World::new(Rc::clone(&self.variables), self.communicator.beside())
    }

    /// Runs `act` outside the gate, if threads share this rank: `act` may take any time or call
    /// anything. For callers inside the gate.
    #[doc(hidden)]
    pub fn outside<R>(&self, act: impl FnOnce() -> R) -> R {
        self.communicator.outside(act)
    }

    /// The world of a rank that has just joined its job.
    pub(crate) fn over(communicator: Communicator, settings: Settings) -> World {
        World::new(Variables::new(communicator.clone(), settings), communicator)
    }

    /// A communicator of the same ranks whose messages match none of this one's (MPI_Comm_dup).
    /// Every rank calls it, in the same order as other duplications.
    ///
    /// If one of the ranks dies meanwhile, every use of the duplicate may be an error.
    pub fn duplicate(&self) -> World {
        World::new(Rc::clone(&self.variables), self.communicator.duplicate())
    }

    /// A duplicate whose persistent collectives use session queues as `sessions` says, instead of
    /// `--coll`, and whose exchanges with neighbours use the scheme that it names. Its own
    /// duplicates inherit that. All ranks pass the same choices.
    ///
    /// Such a collective runs by itself from its start, whatever the ranks compute meanwhile.
    pub fn with_sessions(&self, sessions: SessionChoices) -> World {
        let communicator = self.communicator.duplicate().with_sessions(sessions);
        World::new(Rc::clone(&self.variables), communicator)
    }

    /// Divides the ranks by color (MPI_Comm_split, MPI 5.0 §7.4.2). Ranks of one color are numbered
    /// by key, and by rank where keys are equal; a rank without a color gets `None`. Every rank
    /// calls it.
    ///
    /// ```no_run
    /// # use hikyaku::{Op, World};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let world = World::init()?;
    /// let columns = 4;
    /// let row = world.split(world.rank() / columns, 0)?.expect("every rank has a row");
    /// let mut sum = [f64::from(world.rank())];
    /// row.allreduce(&mut sum, Op::Sum)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A rank is gone or abandoned the call, or a rank has too many communicators.
    pub fn split(&self, color: impl Into<Option<u32>>, key: i32) -> Result<Option<World>, Error> {
        let made = self.communicator.split(color.into(), key)?;
        Ok(made.map(|made| World::new(Rc::clone(&self.variables), made)))
    }

    /// [`World::split`] as a future. Dropping it tells the other ranks.
    ///
    /// # Errors
    /// As [`World::split`].
    pub async fn split_async(
        &self,
        color: impl Into<Option<u32>>,
        key: i32,
    ) -> Result<Option<World>, Error> {
        let made = self.communicator.split_async(color.into(), key).await?;
        Ok(made.map(|made| World::new(Rc::clone(&self.variables), made)))
    }

    /// A communicator of the ranks of a list, in its order (MPI_Comm_create_group, MPI 5.0 §7.4.2).
    /// Only these call it, all with the same list. Ranks in several lists call in the same order.
    ///
    /// # Errors
    /// The list names a rank twice, does not include this rank, names one that does not exist, or
    /// differs between ranks; or as [`World::split`].
    pub fn create_group(&self, ranks: &[u32]) -> Result<World, Error> {
        let made = self.communicator.create_group(ranks)?;
        Ok(World::new(Rc::clone(&self.variables), made))
    }

    /// [`World::create_group`] as a future. Dropping it tells the other ranks.
    ///
    /// # Errors
    /// As [`World::create_group`].
    pub async fn create_group_async(&self, ranks: &[u32]) -> Result<World, Error> {
        let made = self.communicator.create_group_async(ranks).await?;
        Ok(World::new(Rc::clone(&self.variables), made))
    }

    /// [`World::duplicate`] as a future. Dropping it tells the other ranks.
    ///
    /// # Errors
    /// For some ranks of the job: as [`World::split`]. For all ranks: none.
    pub async fn duplicate_async(&self) -> Result<World, Error> {
        let made = self.communicator.try_duplicate_async().await?;
        Ok(World::new(Rc::clone(&self.variables), made))
    }

    /// This world with other contexts, which these ranks agree on and use among themselves.
    pub(crate) fn apart_among(&self, ranks: &[u32]) -> Result<World, Error> {
        Ok(World::new(Rc::clone(&self.variables), self.communicator.apart_among(ranks)?))
    }

    /// [`World::duplicate`], with an error if it cannot be made.
    pub(crate) fn try_duplicate(&self) -> Result<World, Error> {
        Ok(World::new(Rc::clone(&self.variables), self.communicator.try_duplicate()?))
    }

    /// Another handle on this communicator, for messages only.
    pub(crate) fn handle(&self) -> World {
        World::new(Rc::clone(&self.variables), self.communicator.clone())
    }

    /// The empty list of the previous scope: making a new one costs as much as a message.
    pub(crate) fn spare_list(&self) -> &Cell<VecDeque<Open>> {
        &self.spare_list.0
    }

    fn new(variables: Rc<Variables>, communicator: Communicator) -> World {
        World { variables, communicator, spare_list: SpareList::default() }
    }

    /// The untyped communicator.
    #[inline]
    pub(crate) fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    #[inline]
    pub(crate) fn engine(&self) -> &RefCell<Engine<RankPort>> {
        self.communicator.engine()
    }

    /// This rank's shared variables.
    pub(crate) fn variables(&self) -> &Rc<Variables> {
        &self.variables
    }

    #[inline]
    pub(crate) fn context(&self) -> u32 {
        self.communicator.context()
    }

    /// This communicator as its collectives see it.
    pub(crate) fn ranks(&self) -> CollectiveRanks<'_> {
        CollectiveRanks { group: self.communicator.group(), choices: self.communicator.choices() }
    }

    /// The operations in flight at this rank that progress only when polled.
    #[inline]
    pub(crate) fn tasks(&self) -> &Tasks {
        self.communicator.tasks()
    }

    /// [`World::block_on`] for a future that waits for memory that other ranks change, of windows
    /// and shared variables. Such a change may wake no rank, so no sleep is longer than a
    /// millisecond, and most polls are of that memory alone.
    pub fn block_on_memory<F: Future>(&self, future: F) -> F::Output {
        self.communicator.block_on_memory(future)
    }

    /// Polls something that the program does not wait for.
    #[doc(hidden)]
    pub fn unreported<R>(&self, poll: impl FnOnce() -> R) -> R {
        self.communicator.unreported(poll)
    }

    /// Records that a nonblocking call, of this crate or of one above it, has found nothing.
    #[doc(hidden)]
    pub fn found_nothing(&self) {
        self.communicator.found_nothing();
    }

    /// Fails the collective that the program is calling at all ranks: a language above this one has
    /// failed before the collective could begin here.
    #[doc(hidden)]
    pub fn fail_collective(&self) {
        self.communicator.fail_collective();
    }

    /// This rank, `0..size`.
    pub fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.communicator.size()
    }

    /// The (virtual) node this rank runs on; see `hikyaku run --ranks-per-node`.
    pub fn node(&self) -> u32 {
        self.node_of(self.rank())
    }

    /// The (virtual) node a rank runs on. Ranks start at 0; `rank` is below [`World::size`].
    pub fn node_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size(), "rank {rank} does not exist: there are {}", self.size());
        self.communicator.node_of(rank)
    }

    /// How many (virtual) nodes the ranks run on.
    pub fn nodes(&self) -> u32 {
        self.communicator.nodes()
    }

    /// The abilities of the fabric below, and its name.
    pub fn capabilities(&self) -> Capabilities {
        self.engine().borrow().port().capabilities()
    }

    /// This rank's counts of messages sent and received and its waiting time so far.
    pub fn statistics(&self) -> Statistics {
        self.engine().borrow().statistics()
    }

    /// The job's clock: the same for all ranks of a host. Clocks of two hosts are unrelated:
    /// measure with one rank's clock, after a barrier.
    pub fn now(&self) -> Time {
        self.engine().borrow().port().now()
    }

    /// Declares how long the program computes before its next call.
    ///
    /// For programs on simulated machines (`hikyaku simulate`), where it is a rank's computing time
    /// unless the processor's time is measured; and for skeletons of programs, which only declare
    /// how long they would compute. On a real fabric it does nothing: there the computation itself
    /// takes its time.
    pub fn compute(&self, span: Duration) {
        self.engine().borrow_mut().port_mut().compute(span.into());
    }

    /// Sends `data`; returns when it may be changed again (MPI_Send, MPI 5.0 §3.2.1).
    ///
    /// # Errors
    /// The rank or tag does not exist, or the receiver is gone.
    #[inline]
    pub fn send<T: Scalar>(&self, data: &[T], to: u32, tag: i32) -> Result<(), Error> {
        self.send_in(data, to, tag, SendMode::Standard)
    }

    /// Sends `data`; returns when the receive has matched (MPI_Ssend).
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn ssend<T: Scalar>(&self, data: &[T], to: u32, tag: i32) -> Result<(), Error> {
        self.send_in(data, to, tag, SendMode::Synchronous)
    }

    /// Sends `data` to a receive that is known to be posted (MPI_Rsend). If it is not, the message
    /// is delivered all the same and counted in the receiver's statistics.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn rsend<T: Scalar>(&self, data: &[T], to: u32, tag: i32) -> Result<(), Error> {
        self.send_in(data, to, tag, SendMode::Ready)
    }

    #[inline(always)]
    fn send_in<T: Scalar>(
        &self,
        data: &[T],
        to: u32,
        tag: i32,
        mode: SendMode,
    ) -> Result<(), Error> {
        let destination = self.communicator.in_job(to)?;
        let envelope = Envelope { destination, context: self.context(), tag };
        let bytes = bytemuck::cast_slice(data);
        let direct = self.tasks().are_over()
            && self.engine().borrow_mut().send_directly(bytes, &envelope, mode);
        if direct { Ok(()) } else { self.send_otherwise(bytes, envelope, mode) }
    }

    /// The slow path of a send.
    #[cold]
    fn send_otherwise(
        &self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<(), Error> {
        let sent = if self.tasks().are_over() {
            self.engine().borrow_mut().send(bytes, envelope, mode)
        } else {
            self.communicator.drive(SendFuture::new(self.engine(), bytes, envelope, mode))
        };
        sent.map_err(|error| self.communicator.explained(error).into())
    }

    /// Receives a message into the front of `into` (MPI_Recv, MPI 5.0 §3.2.4).
    ///
    /// # Errors
    /// The message is longer than `into` or not a whole number of elements, the rank or tag does
    /// not exist, or the sender is gone.
    #[inline(always)]
    pub fn recv<T: Scalar>(
        &self,
        into: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Received, Error> {
        let (from, context) = (from.into().0, self.context());
        let source = self.communicator.source_in_job(from)?;
        let selector = Selector { source, tag: tag.into().0, context };
        let bytes = bytemuck::cast_slice_mut(into);
        if let (Some(source), Some(from), Some(tag)) = (source, from, selector.tag)
            && self.tasks().are_over()
        {
            let mut engine = self.engine().borrow_mut();
            let length = engine.recv_at_once(bytes, source, context, tag);
            drop(engine);
            if let Some(length) = length {
                return whole::<T>(Received { source: from, tag, bytes: length });
            }
        }
        whole::<T>(self.recv_otherwise(bytes, selector)?)
    }

    /// The slow path of a receive.
    #[inline(never)]
    fn recv_otherwise(&self, bytes: &mut [u8], selector: Selector) -> Result<Received, Error> {
        let received = if self.tasks().are_over() {
            self.engine().borrow_mut().recv(bytes, selector)
        } else {
            self.communicator.drive(RecvFuture::new(self.engine(), bytes, selector))
        };
        Ok(self.communicator.told(received)?.into())
    }

    /// Sends and receives at the same time (MPI_Sendrecv): ranks that call it do not deadlock in
    /// any order of calls.
    ///
    /// # Errors
    /// As [`World::send`] and [`World::recv`].
    pub fn sendrecv<S: Scalar, R: Scalar>(
        &self,
        data: &[S],
        to: u32,
        send_tag: i32,
        into: &mut [R],
        from: impl Into<Source>,
        receive_tag: impl Into<Tag>,
    ) -> Result<Received, Error> {
        self.scope(|scope| {
            let receive = scope.irecv(into, from, receive_tag)?;
            scope.isend(data, to, send_tag)?.wait()?;
            whole::<R>(receive.wait()?)
        })
    }

    /// Waits for a message and describes it, without receiving it (MPI_Probe).
    ///
    /// # Errors
    /// The rank or tag does not exist, or the sender is gone.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Received, Error> {
        let selector = self.selector(from.into(), tag.into())?;
        let found = self.communicator.wait_for_probe(selector);
        Ok(self.communicator.told(found)?.into())
    }

    /// Describes the message that could be received now, if any (MPI_Iprobe).
    ///
    /// # Errors
    /// As [`World::probe`].
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Received>, Error> {
        let selector = self.selector(from.into(), tag.into())?;
        self.communicator.attend();
        let found = self.engine().borrow_mut().probe(selector).transpose();
        if found.is_none() {
            self.found_nothing();
        }
        let found = found.map(|found| self.communicator.told(found)).transpose()?;
        Ok(found.map(Received::from))
    }

    /// The selector of messages of this communicator.
    fn selector(&self, from: Source, tag: Tag) -> Result<Selector, Error> {
        let source = self.communicator.source_in_job(from.0)?;
        Ok(Selector { source, tag: tag.0, context: self.context() })
    }

    /// [`World::send`] as a future. It progresses only while it is polled: run it with
    /// [`World::block_on`].
    ///
    /// # Errors
    /// As [`World::send`].
    pub async fn send_async<T: Scalar>(&self, data: &[T], to: u32, tag: i32) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice(data);
        let sent = self.messages().send(bytes, to, tag).await;
        sent.map_err(|error| self.communicator.explained(error).into())
    }

    /// [`World::recv`] as a future. Dropping it withdraws the receive.
    ///
    /// # Errors
    /// As [`World::recv`].
    pub async fn recv_async<T: Scalar>(
        &self,
        into: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Received, Error> {
        let (from, tag) = (from.into().0, tag.into().0);
        let received = self.messages().recv(bytemuck::cast_slice_mut(into), from, tag).await;
        whole::<T>(self.communicator.told(received)?.into())
    }

    /// The endpoint of this communicator's messages between two ranks.
    pub(crate) fn messages(&self) -> ContextEndpoint<'_, RankPort> {
        self.communicator.messages()
    }

    /// Runs a future to completion, making progress on all messages meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.communicator.drive(future)
    }

    /// Runs `work` on another thread. Meanwhile this one makes progress on all operations in flight
    /// and serves other ranks, as in a wait: messages advance while the program computes.
    ///
    /// ```no_run
    /// # use hikyaku::{Error, World};
    /// # fn step(world: &World, inner: &mut [f64], halo: &mut [f64]) -> Result<(), Error> {
    /// let next = (world.rank() + 1) % world.size();
    /// world.scope(|scope| {
    ///     let halo = scope.irecv(halo, next, 0)?;
    ///     world.overlap(|| inner.iter_mut().for_each(|x| *x = x.sqrt()));
    ///     halo.wait().map(drop)
    /// })
    /// # }
    /// ```
    ///
    /// `work` cannot use the world, which is not `Send`. In virtual time it runs on this thread,
    /// without progress.
    ///
    /// # Panics
    /// `work` panics, or no thread can be started.
    pub fn overlap<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.communicator.overlap(work)
    }

    /// For work that a front end's own thread does while [`World::block_on`] waits for its end.
    #[doc(hidden)]
    pub fn work_end(&self) -> WorkEnd {
        self.communicator.work_end()
    }

    /// A buffer of `length` zeros that the node's other ranks access with one copy.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn alloc<T: Scalar>(&self, length: usize) -> Result<SharedBuffer<T>, Error> {
        Ok(SharedBuffer::new(self.communicator.allocate(length, size_of::<T>())?, length))
    }

    /// Ends this rank with an exit code, without leaving the job in order: `hikyaku run` then ends
    /// the others too (MPI_Abort).
    #[expect(clippy::disallowed_methods, reason = "ending the process is what is asked for")]
    pub fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
}

/// Checks that a message is a whole number of elements.
#[inline]
fn whole<T: Scalar>(received: Received) -> Result<Received, Error> {
    let element = size_of::<T>().max(1);
    if received.bytes.is_multiple_of(element as u64) {
        return Ok(received);
    }
    let Received { source, bytes, .. } = received;
    Err(Error::PartialElement { bytes, element, source_rank: source })
}

#[cfg(test)]
mod hosts;
#[cfg(test)]
mod landing;
#[cfg(test)]
mod scarce;
#[cfg(test)]
mod tests;
