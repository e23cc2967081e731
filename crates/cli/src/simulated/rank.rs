//! A rank of a simulated job as a group of `coll`.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hikyaku_coll::{Costs, Facilities, Group, Made};
use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::job::{ChainPlace, Content, Rank, ReceivedMessage, RecvRequest, SendRequest};
use hikyaku_sim::model::cenju4::Synchronisation;

/// A unit of the buffers of a simulated rank.
pub trait BufferUnit: Copy + Default + 'static {
    /// The content of a message from such a buffer.
    fn content(units: &[Self]) -> Content<'_>;

    /// Copies the content of a message to the front of a buffer.
    fn fill(units: &mut [Self], message: &ReceivedMessage);

    /// The unit for a byte.
    fn from_byte(byte: u8) -> Self;

    /// The byte of this unit, if it is one.
    fn byte(self) -> Option<u8>;

    /// Adds the numbers of `left` to those of `right`, byte by byte.
    fn add(left: &[Self], right: &mut [Self]);
}

impl BufferUnit for u8 {
    fn content(units: &[u8]) -> Content<'_> {
        Content::Bytes(units)
    }

    fn fill(units: &mut [u8], message: &ReceivedMessage) {
        // There are no data if the job carries lengths only. A message may be longer than the
        // buffer.
        let data = message.data.as_deref().unwrap_or_default();
        let room = units.len().min(data.len());
        units[..room].copy_from_slice(&data[..room]);
    }

    fn from_byte(byte: u8) -> u8 {
        byte
    }

    fn byte(self) -> Option<u8> {
        Some(self)
    }

    fn add(left: &[u8], right: &mut [u8]) {
        left.iter().zip(right).for_each(|(left, right)| *right = right.wrapping_add(*left));
    }
}

impl BufferUnit for () {
    fn content(units: &[()]) -> Content<'_> {
        Content::Length(units.len() as u64)
    }

    fn fill(_units: &mut [()], _message: &ReceivedMessage) {}

    fn from_byte(_byte: u8) {}

    fn byte(self) -> Option<u8> {
        None
    }

    fn add(_left: &[()], _right: &mut [()]) {}
}

/// A rank of a simulated job, with all ranks of the job as its group.
///
/// `U` is `u8` if messages carry bytes and `()` if they have lengths only.
#[derive(Debug)]
pub struct SimulatedRank<U> {
    rank: Rank,
    sequence: Cell<u32>,
    shape: Option<[u32; 3]>,
    sync: Option<Synchronisation>,
    costs: Option<Arc<Costs>>,
    unit: PhantomData<U>,
}

impl<U: BufferUnit> SimulatedRank<U> {
    /// A handle on the whole job. Each rank makes one and keeps it, because it counts collectives.
    pub fn new(rank: Rank) -> SimulatedRank<U> {
        let (sequence, shape, sync, costs) = (Cell::new(0), None, None, None);
        SimulatedRank { rank, sequence, shape, sync, costs, unit: PhantomData }
    }

    /// Sets the extents of the network. Their product is the number of ranks.
    #[must_use]
    pub fn with_shape(mut self, shape: [u32; 3]) -> SimulatedRank<U> {
        self.shape = Some(shape);
        self
    }

    /// Sets the barrier in the network's switches, if there is one for the nodes of all ranks.
    /// Ranks that share a node cannot have one.
    #[must_use]
    pub fn with_sync(mut self, sync: Option<Synchronisation>) -> SimulatedRank<U> {
        self.sync = sync;
        self
    }

    /// Sets the costs of messages on the machine, by which algorithms are then chosen:
    /// [`message_costs`](super::message_costs). All ranks must have the same costs.
    #[must_use]
    pub fn with_costs(mut self, costs: Option<Arc<Costs>>) -> SimulatedRank<U> {
        self.costs = costs;
        self
    }

    /// The rank itself: for its time, computing, and messages of its own.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }
}

impl<U: BufferUnit> Group for SimulatedRank<U> {
    type Byte = U;
    type Error = SimError;

    fn rank(&self) -> u32 {
        self.rank.rank()
    }

    fn size(&self) -> u32 {
        self.rank.size()
    }

    fn node_of(&self, rank: u32) -> u32 {
        self.rank.node_of(rank)
    }

    fn nodes(&self) -> u32 {
        // Ranks are placed on nodes in blocks.
        self.rank.node_of(self.rank.size() - 1) + 1
    }

    fn costs(&self) -> Option<&Costs> {
        self.costs.as_deref()
    }

    fn shape(&self) -> [u32; 3] {
        self.shape.unwrap_or_else(|| hikyaku_coll::near_cube(self.rank.size()))
    }

    fn open(&self, _: Made) -> u32 {
        self.sequence.replace(self.sequence.get().wrapping_add(1))
    }

    fn send<'a>(
        &'a self,
        bytes: &'a [U],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), SimError>> + Unpin + 'a {
        SimulatedSend { rank: &self.rank, units: bytes, to, tag, request: None }
    }

    async fn send_chain<'a>(
        &'a self,
        chain: Vec<(u32, &'a [U])>,
        tag: i32,
    ) -> Result<(), SimError> {
        let mut place = ChainPlace::First;
        let mut sends = Vec::with_capacity(chain.len());
        for (to, units) in chain {
            sends.push(self.rank.isend_at(to, tag, U::content(units), place)?);
            place = ChainPlace::Chained;
        }
        for send in sends {
            send.await;
        }
        Ok(())
    }

    fn recv<'a>(
        &'a self,
        into: &'a mut [U],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, SimError>> + Unpin + 'a {
        SimulatedReceive { rank: &self.rank, into, from, tag, request: None }
    }

    fn facilities(&self) -> Facilities {
        let alone = self.nodes() == self.size();
        let sync = alone && self.sync.is_some();
        Facilities { sync, multicast: self.rank.multicasts(), ..Facilities::default() }
    }

    fn multicast<'a>(
        &'a self,
        bytes: &'a [U],
        tag: i32,
    ) -> impl Future<Output = Result<(), SimError>> + 'a {
        self.rank.multicast(tag, U::content(bytes))
    }

    async fn sync(&self) -> Result<(), SimError> {
        let refused = SimError::Unsupported { what: "synchronise a rank that is no member" };
        let Some(sync) = &self.sync else { return Err(refused) };
        self.rank.sleep(Time::ZERO).await;
        let node = self.rank.node_of(self.rank.rank());
        sync.synchronise(node).await.map_err(|_| refused)
    }

    fn unsupported(what: &'static str) -> SimError {
        SimError::Unsupported { what }
    }
}

/// A send that starts when it is first polled.
struct SimulatedSend<'a, U> {
    rank: &'a Rank,
    units: &'a [U],
    to: u32,
    tag: i32,
    request: Option<SendRequest>,
}

impl<U: BufferUnit> Future for SimulatedSend<'_, U> {
    type Output = Result<(), SimError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let request = match self.request.take() {
            Some(request) => request,
            None => self.rank.isend(self.to, self.tag, U::content(self.units))?,
        };
        Pin::new(self.request.insert(request)).poll(context).map(Ok)
    }
}

/// A receive that starts when it is first polled.
struct SimulatedReceive<'a, U> {
    rank: &'a Rank,
    into: &'a mut [U],
    from: u32,
    tag: i32,
    request: Option<RecvRequest>,
}

impl<U: BufferUnit> Future for SimulatedReceive<'_, U> {
    type Output = Result<u64, SimError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (rank, from, tag) = (this.rank, this.from, this.tag);
        let request = this.request.get_or_insert_with(|| rank.irecv(Some(from), Some(tag)));
        Pin::new(request).poll(context).map(|message| {
            U::fill(this.into, &message);
            Ok(message.bytes)
        })
    }
}
