//! A rank's view of its job: who it is, and messages to and from the others.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::size_of;
use std::rc::{Rc, Weak};
use std::time::Duration;

use hikyaku_coll::{Book, Choices, Communicator};
use hikyaku_msg::{
    Endpoint, Engine, EngineConfig, Envelope, RecvFuture, Selector, SendFuture, SendMode,
    Statistics,
};
use hikyaku_nic::fabric::{Capabilities, GroupId, Port};
use hikyaku_nic::layer::Faults;
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::time::Time;
use hikyaku_shm::ShmPort;

use crate::buffer::SharedBuffer;
use crate::collective::{Ranks, choices};
use crate::error::{Error, InitError};
use crate::held::Held;
use crate::node::Node;
use crate::nodes::Nodes;
use crate::scalar::Scalar;
use crate::select::{Source, Tag};
use crate::shared::{Injector, NotASeed, Protocol, Registry, faults, protocol};
use crate::tasks::Tasks;
use crate::unmatched;

/// A communicator over all ranks of the job (MPI_COMM_WORLD and its duplicates).
///
/// Not `Send`: a rank is one thread. When the last handle goes, the rank leaves the job in order:
/// what it still had to post is posted first. Not so when it goes because of a panic: then the
/// rank has died, and its peers are told when its process ends.
#[derive(Debug)]
pub struct World {
    rank: Rc<RankState>,
    /// Point-to-point messages of this communicator; collectives use the next one.
    context: u32,
    /// What this rank notes of its collectives.
    collectives: Rc<Book>,
    /// The ranks of this rank's node as a group, if there was a channel for it and something to
    /// gain from it; and where the others are.
    group: Option<(GroupId, Nodes)>,
}

/// What all communicators of a rank share.
#[derive(Debug)]
struct RankState {
    engine: RefCell<Engine<ShmPort>>,
    next_context: Cell<u32>,
    /// The next context of communicators that only some ranks make, and agree on.
    next_group_context: Cell<u32>,
    /// Operations in flight that move only when they are polled.
    tasks: Tasks,
    /// Algorithms chosen by name.
    choices: Choices,
    /// Whether the calls that are made now are the library's own.
    own_calls: Cell<bool>,
    /// Contexts of collectives that are no more, with their books: what still comes is dropped.
    retired: RefCell<VecDeque<(u32, Rc<Book>)>>,
    /// Shared variables.
    shared: Registry,
}

/// How many contexts are remembered as retired. What older ones still got has come long ago.
const RETIRED_MOST: usize = 64;

/// Contexts below are counted by every rank alike; from here on they are agreed on by the ranks
/// that will use them.
const FIRST_GROUP_CONTEXT: u32 = 1 << 31;

impl Drop for RankState {
    fn drop(&mut self) {
        // A rank that panics owes nobody anything any more, and must not wait for room.
        let is_rank = !self.engine.borrow().port().is_forked();
        if is_rank && !std::thread::panicking() {
            self.shared.service().linger(&self.engine);
            self.engine.get_mut().flush();
        }
    }
}

/// A rank, if it is still there.
#[derive(Debug)]
pub(crate) struct Observer(Weak<RankState>);

impl Observer {
    /// Does something with its engine and what is in flight; `None`: it has left.
    pub(crate) fn with_engine<R>(
        &self,
        act: impl FnOnce(&RefCell<Engine<ShmPort>>, &Tasks) -> R,
    ) -> Option<R> {
        self.0.upgrade().map(|rank| act(&rank.engine, &rank.tasks))
    }
}

/// What a receive or probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Who sent the message.
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

impl World {
    /// Joins the job that `hikyaku run` started this program in. A program that was started by
    /// itself is a world of one rank.
    ///
    /// # Errors
    /// [`InitError`]: the job cannot be joined, for example because this rank already has; or a
    /// variable `HIKYAKU_COLL_...` names an algorithm, or `HIKYAKU_SHARED` a protocol, that there
    /// is not; or `HIKYAKU_SHARED_FAULTS` or `HIKYAKU_FAULTS` is no seed, or `HIKYAKU_UNMATCHED` no
    /// number.
    pub fn init() -> Result<World, InitError> {
        let choices = choices::from_environment(|name| std::env::var(name).ok())
            .map_err(|(variable, error)| InitError::Choice { variable, error })?;
        let protocol = protocol::from_environment(|name| std::env::var(name).ok())
            .map_err(|error| InitError::Protocol { error })?;
        let seed = |variable| {
            faults::from_environment(variable, |name| std::env::var(name).ok())
                .map_err(|error| InitError::Faults { variable, error })
        };
        let (faults, of_ports) = (seed(NotASeed::VARIABLE)?, seed(NotASeed::OF_PORTS)?);
        let limit = unmatched::from_environment(|name| std::env::var(name).ok())
            .map_err(|error| InitError::Unmatched { error })?;
        let mut port = match hikyaku_shm::attach()? {
            Some(port) => port,
            None => hikyaku_shm::single()?,
        };
        if let Some(seed) = of_ports {
            port.meet(Faults::of_a_job(seed));
        }
        let world = World::over(port, choices, protocol, faults);
        world.engine().borrow_mut().limit_unmatched(limit.bytes());
        Ok(world)
    }

    /// The world of a port's job. `faults`: a seed, by which shared variables meet trouble.
    pub(crate) fn over(
        port: ShmPort,
        choices: Choices,
        protocol: Protocol,
        faults: Option<u64>,
    ) -> World {
        let injector = Injector::of(faults, &port);
        let engine = RefCell::new(Engine::new(port, EngineConfig::default()));
        let next_context = Cell::new(2);
        let next_group_context = Cell::new(FIRST_GROUP_CONTEXT);
        let tasks = Tasks::default();
        let retired = RefCell::default();
        let shared = Registry::new(protocol, injector);
        let own_calls = Cell::new(false);
        let rank = RankState {
            engine,
            next_context,
            next_group_context,
            tasks,
            choices,
            own_calls,
            retired,
            shared,
        };
        World::new(Rc::new(rank), 0)
    }

    /// A communicator of the same ranks whose messages match none of this one's (MPI_Comm_dup).
    /// Every rank calls it, in the same order as other duplications.
    pub fn duplicate(&self) -> World {
        let context = self.rank.next_context.get();
        self.rank.next_context.set(context + 2);
        self.with_context(context)
    }

    /// The lowest context that no communicator of only some ranks has, as far as this rank knows.
    pub(crate) fn next_group_context(&self) -> u32 {
        self.rank.next_group_context.get()
    }

    /// Takes a context that the ranks of a communicator have agreed on: none of them has proposed a
    /// higher one, so it is in use at none.
    pub(crate) fn use_group_context(&self, context: u32) {
        self.rank.next_group_context.set(context + 2);
    }

    /// This world with other contexts, for collectives by messages only.
    pub(crate) fn apart(&self) -> World {
        let context = self.rank.next_context.get();
        self.rank.next_context.set(context + 2);
        World { rank: Rc::clone(&self.rank), context, collectives: Rc::default(), group: None }
    }

    /// Messages of this communicator, for exchanges that number their tags themselves.
    pub(crate) fn messages_as_group(&self) -> Communicator<'_, ShmPort> {
        Communicator::new(self.messages(), &self.collectives)
    }

    /// This world with other contexts.
    pub(crate) fn with_context(&self, context: u32) -> World {
        World::new(Rc::clone(&self.rank), context)
    }

    /// A communicator. Its context is its alone, so its channel is.
    fn new(rank: Rc<RankState>, context: u32) -> World {
        let group = {
            let mut engine = rank.engine.borrow_mut();
            let port = engine.port_mut();
            let size = port.size();
            let is_rank = !port.is_forked();
            Nodes::of(port, context).filter(|nodes| is_rank && nodes.pays(size)).and_then(|nodes| {
                let mates: Vec<u32> = nodes.mates.clone().collect();
                Some((port.join(context / 2, &mates, 0).ok()?, nodes))
            })
        };
        World { rank, context, collectives: Rc::default(), group }
    }

    /// Does something by way of what ranks of a node share, if there is that.
    #[inline]
    pub(crate) fn on_node<R>(
        &self,
        operation: impl FnOnce(&mut Node<'_, ShmPort>) -> R,
    ) -> Option<R> {
        let (group, nodes) = self.group.as_ref()?;
        // In a child of the rank's process messages say so.
        if self.engine().borrow().port().is_forked() {
            return None;
        }
        let done = if self.tasks().are_over() {
            let engine = &mut *self.engine().borrow_mut();
            Node::new(engine, *group, nodes).map(|mut node| operation(&mut node))
        } else {
            let engine = Held::between(self.engine(), self.tasks());
            Node::new(engine, *group, nodes).map(|mut node| operation(&mut node))
        };
        self.drop_left_overs();
        done
    }

    pub(crate) fn engine(&self) -> &RefCell<Engine<ShmPort>> {
        &self.rank.engine
    }

    /// For what must not keep this rank from leaving.
    pub(crate) fn observe(&self) -> Observer {
        Observer(Rc::downgrade(&self.rank))
    }

    /// This rank's shared variables.
    pub(crate) fn registry(&self) -> &Registry {
        &self.rank.shared
    }

    pub(crate) fn context(&self) -> u32 {
        self.context
    }

    /// This communicator as its collectives see it.
    pub(crate) fn ranks(&self) -> Ranks<'_> {
        let endpoint = Endpoint::new(self.engine(), self.context + 1);
        let group = Communicator::new(endpoint, &self.collectives);
        Ranks { group, choices: self.choices() }
    }

    /// Algorithms chosen by name: for calls of the program, not for those of the library.
    pub(crate) fn choices(&self) -> Choices {
        if self.rank.own_calls.get() { Choices::default() } else { self.rank.choices }
    }

    /// Makes calls of the library's own: what is chosen by name does not hold for them.
    pub(crate) fn by_itself<R>(&self, calls: impl FnOnce(&World) -> R) -> R {
        let before = self.rank.own_calls.replace(true);
        let result = calls(self);
        self.rank.own_calls.set(before);
        result
    }

    /// The end of a communicator for collectives. If one of them was given up here or elsewhere,
    /// ranks may still send for it, and that is to be dropped.
    pub(crate) fn retire(&self) {
        let mut retired = self.rank.retired.borrow_mut();
        retired.truncate(RETIRED_MOST - 1);
        retired.push_front((self.context + 1, Rc::clone(&self.collectives)));
    }

    /// Drops what has come for collectives that have failed, here and in retired communicators. To
    /// be called after each blocking collective.
    #[inline]
    pub(crate) fn drop_left_overs(&self) {
        if self.engine().borrow().statistics().unexpected_messages > 0 {
            self.look_for_left_overs();
        }
    }

    #[cold]
    fn look_for_left_overs(&self) {
        self.ranks().group.drop_left_overs();
        let retired = self.rank.retired.borrow();
        for (context, book) in &*retired {
            let endpoint = Endpoint::new(self.engine(), *context);
            Communicator::new(endpoint, book).drop_left_overs();
        }
    }

    /// What is in flight at this rank and moves only when it is polled.
    #[inline]
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.rank.tasks
    }

    /// This rank, `0..size`.
    pub fn rank(&self) -> u32 {
        self.engine().borrow().rank()
    }

    /// How many ranks the job has.
    pub fn size(&self) -> u32 {
        self.engine().borrow().size()
    }

    /// The (virtual) node this rank lives on; see `hikyaku run --ranks-per-node`.
    pub fn node(&self) -> u32 {
        self.node_of(self.rank())
    }

    /// The (virtual) node a rank lives on. Ranks start at 0; `rank` is below [`World::size`].
    pub fn node_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size(), "rank {rank} does not exist: there are {}", self.size());
        self.engine().borrow().port().node_of(rank)
    }

    /// How many (virtual) nodes the job has.
    pub fn nodes(&self) -> u32 {
        self.node_of(self.size() - 1) + 1
    }

    /// What the fabric below can do, and its name.
    pub fn capabilities(&self) -> Capabilities {
        self.engine().borrow().port().capabilities()
    }

    /// What this rank has sent, received and waited so far.
    pub fn statistics(&self) -> Statistics {
        self.engine().borrow().statistics()
    }

    /// The job's clock: the same for all ranks of a host.
    pub fn now(&self) -> Time {
        self.engine().borrow().port().now()
    }

    /// Says that what the program computes before its next call takes so long.
    ///
    /// For programs on simulated machines (`hikyaku simulate`), where it is what a rank's computing
    /// takes unless the processor's time is measured; and for skeletons of programs, which only say
    /// how long they would compute. On any real fabric it does nothing: there the time is what the
    /// program takes.
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
        let envelope = Envelope { destination: to, context: self.context, tag };
        let bytes = bytemuck::cast_slice(data);
        let direct = self.tasks().are_over()
            && self.engine().borrow_mut().send_directly(bytes, &envelope, mode);
        if direct { Ok(()) } else { self.send_otherwise(bytes, envelope, mode) }
    }

    /// Sends what did not go the direct way.
    #[cold]
    fn send_otherwise(
        &self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<(), Error> {
        if self.tasks().are_over() {
            return Ok(self.engine().borrow_mut().send(bytes, envelope, mode)?);
        }
        let send = SendFuture::new(self.engine(), bytes, envelope, mode);
        Ok(self.drive(send)?)
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
        let selector = Selector { source: from.into().0, tag: tag.into().0, context: self.context };
        let bytes = bytemuck::cast_slice_mut(into);
        if let (Some(source), Some(tag)) = (selector.source, selector.tag)
            && self.tasks().are_over()
        {
            let mut engine = self.engine().borrow_mut();
            let length = engine.recv_at_once(bytes, source, self.context, tag);
            drop(engine);
            if let Some(length) = length {
                return whole::<T>(Received { source, tag, bytes: length });
            }
        }
        whole::<T>(self.recv_otherwise(bytes, selector)?)
    }

    /// Receives what is not there yet, or not the shortest way.
    #[inline(never)]
    fn recv_otherwise(&self, bytes: &mut [u8], selector: Selector) -> Result<Received, Error> {
        if self.tasks().are_over() {
            return Ok(self.engine().borrow_mut().recv(bytes, selector)?.into());
        }
        let receive = RecvFuture::new(self.engine(), bytes, selector);
        Ok(self.drive(receive)?.into())
    }

    /// Sends and receives at the same time (MPI_Sendrecv): no order of calls can make ranks that
    /// do this wait for each other.
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

    /// Waits for a message and says what it is, without receiving it (MPI_Probe).
    ///
    /// # Errors
    /// The rank or tag does not exist, or the sender is gone.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Received, Error> {
        let selector = Selector { source: from.into().0, tag: tag.into().0, context: self.context };
        Ok(self.wait_for_probe(selector)?.into())
    }

    /// Says what message is there to be received, if any (MPI_Iprobe).
    ///
    /// # Errors
    /// As [`World::probe`].
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Received>, Error> {
        let selector = Selector { source: from.into().0, tag: tag.into().0, context: self.context };
        self.attend();
        Ok(self.engine().borrow_mut().probe(selector)?.map(Received::from))
    }

    /// [`World::send`] as a future. It moves only while it is polled: run it with
    /// [`World::block_on`].
    ///
    /// # Errors
    /// As [`World::send`].
    pub async fn send_async<T: Scalar>(&self, data: &[T], to: u32, tag: i32) -> Result<(), Error> {
        let bytes = bytemuck::cast_slice(data);
        Ok(self.messages().send(bytes, to, tag).await?)
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
        let received = self.messages().recv(bytemuck::cast_slice_mut(into), from, tag).await?;
        whole::<T>(received.into())
    }

    /// The endpoint of this communicator's messages between two ranks.
    pub(crate) fn messages(&self) -> Endpoint<'_, ShmPort> {
        Endpoint::new(self.engine(), self.context)
    }

    /// Runs a future to its end, making progress on all messages meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.drive(future)
    }

    /// A buffer of `length` zeros that the node's other ranks reach by one copy.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn alloc<T: Scalar>(&self, length: usize) -> Result<SharedBuffer<T>, Error> {
        Ok(SharedBuffer::new(self.allocate_bytes::<T>(length)?, length))
    }

    /// Region memory for `length` elements; its contents are left over from somebody else.
    pub(crate) fn allocate_bytes<T: Scalar>(&self, length: usize) -> Result<RegionBuffer, Error> {
        let bytes = length
            .checked_mul(size_of::<T>())
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(Error::TooLarge { elements: length, element: size_of::<T>() })?;
        Ok(self.engine().borrow_mut().port_mut().allocate(bytes)?)
    }

    /// Ends this rank with an exit code, without leaving the job in order: `hikyaku run` ends the
    /// others too (MPI_Abort).
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
