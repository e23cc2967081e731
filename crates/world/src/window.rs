//! Windows: memory of every rank that all ranks read, write and change without its owner's help.
//!
//! ```text
//!   world.window::<u64>(4)        every rank, together (MPI_Win_allocate)
//!
//!   rank 0   | 0 | 1 | 2 | 3 |  ◄── put, get, swap, fetch_add, ... by rank and index
//!   rank 1   | 0 | 1 | 2 | 3 |      from any rank, on any node
//! ```
//!
//! A window is a segment in a context of its own (paper 003 §4.7): whoever names another's memory
//! is checked against that rank's table, and a window that its owner has dropped is an error and
//! not a stray write. Its own part is used through the same calls: the bytes may change at any
//! time, so nobody gets a reference to them, only copies and atomic operations.
//!
//! **What is ordered.** A call has had its effect when it returns. So whoever learns of it (by a
//! message, a barrier, an atomic operation, or the word of [`Window::put_signal`]) sees it. Copies
//! that meet in one place at the same time leave any mixture of their bytes; atomic operations on
//! one element do not mix with each other.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, size_of};

use hikyaku_msg::{Blocked, MsgError};
use hikyaku_nic::fabric::{
    Activity, Atomic, AtomicOp, Command, ContextError, ContextId, Fault, Integer, Key, Member,
    MemoryPort, Name, Notification, PeerState, Port, PostError, RemoteAddress, Rights, Space, Wait,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_rank::RankPort;

use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

/// How often a window that is dropped waits for peers that are in the middle of an access, which
/// takes them microseconds unless they have been stopped.
const PARTING_LOOKS: u32 = 1000;

/// Memory of `T` at every rank; see [`World::window`].
pub struct Window<'w, T: Scalar> {
    world: &'w World,
    context: ContextId,
    key: Key,
    /// Never looked into: peers may be writing. `None` once it is given back.
    memory: Option<RegionBuffer>,
    parts: Vec<Part>,
    element: PhantomData<T>,
}

/// One rank's part of a window.
#[derive(Debug, Clone, Copy)]
struct Part {
    key: Key,
    elements: u64,
}

/// An integer that can be changed undivided: `i32`, `u32`, `i64`, `u64`.
pub trait AtomicScalar: Scalar + sealed::Sealed {
    #[doc(hidden)]
    const INTEGER: Integer;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! atomic_scalars {
    ($($number:ty: $integer:ident,)*) => {$(
        impl sealed::Sealed for $number {}

        impl AtomicScalar for $number {
            const INTEGER: Integer = Integer::$integer;

            fn to_bits(self) -> u64 {
                self as u64
            }

            fn from_bits(bits: u64) -> Self {
                bits as $number
            }
        }
    )*};
}

atomic_scalars!(i32: I32, u32: U32, i64: I64, u64: U64,);

impl World {
    /// Makes a window of `length` zeros at this rank and whatever the others ask for at theirs
    /// (MPI_Win_allocate, MPI 5.0 §12.2.2). Every rank calls it, in the same order as other
    /// collective operations.
    ///
    /// # Errors
    /// There is no memory for it, or as many windows as there are contexts; at the other ranks
    /// then [`Error::WindowRefused`]. A rank is gone.
    pub fn window<T: Scalar>(&self, length: usize) -> Result<Window<'_, T>, Error> {
        let mine = self.open_window::<T>(length);
        let offer = match &mine {
            Ok(window) => {
                let elements = window.parts[0].elements;
                [1, window.key.to_bits(), elements, u64::from(window.context.0)]
            }
            Err(_) => [0; OFFER],
        };
        let offers = self.exchange(offer)?;
        let mut window = mine?;
        let (parts, members) = read_offers(&offers, |rank| self.communicator().in_job(rank))?;
        window.parts = parts;
        self.engine().borrow_mut().port_mut().connect(window.context, &members)?;
        Ok(window)
    }

    /// This rank's part of a window, registered; `parts` holds it alone.
    fn open_window<T: Scalar>(&self, length: usize) -> Result<Window<'_, T>, Error> {
        let mut memory = self.allocate_bytes::<T>(length)?;
        memory.fill(0);
        let bytes = (length * size_of::<T>()) as u64;
        let mut engine = self.engine().borrow_mut();
        let port = engine.port_mut();
        let context = port.open_context()?;
        let key = match port.register(context, memory.offset(), bytes, Rights::ALL) {
            Ok(key) => key,
            Err(error) => {
                // It has just been opened and is empty.
                port.close_context(context)?;
                return Err(error.into());
            }
        };
        let parts = vec![Part { key, elements: length as u64 }];
        let memory = Some(memory);
        Ok(Window { world: self, context, key, memory, parts, element: PhantomData })
    }

    /// What every rank offers, by rank.
    fn exchange(&self, offer: [u64; OFFER]) -> Result<Vec<u64>, Error> {
        let mut offers = vec![0; OFFER * self.size() as usize];
        self.by_itself(|world| {
            if let Some(all) = world.gather(&offer, 0)? {
                offers.copy_from_slice(&all);
            }
            world.broadcast(&mut offers, 0)
        })?;
        Ok(offers)
    }
}

/// Words that a rank tells of its part: whether there is one, key, elements, context.
const OFFER: usize = 4;

/// The parts and members of a window out of what the ranks offered.
fn read_offers(
    offers: &[u64],
    in_job: impl Fn(u32) -> Result<u32, MsgError>,
) -> Result<(Vec<Part>, Vec<Member>), Error> {
    let mut parts = Vec::new();
    let mut members = Vec::new();
    for (rank, offer) in (0..).zip(offers.chunks_exact(OFFER)) {
        let &[made, key, elements, context] = offer else { continue };
        let (1, Some(key), Ok(context)) = (made, Key::from_bits(key), u8::try_from(context)) else {
            return Err(Error::WindowRefused { rank });
        };
        parts.push(Part { key, elements });
        members.push(Member { rank: in_job(rank)?, context: ContextId(context) });
    }
    Ok((parts, members))
}

impl<T: Scalar> Window<'_, T> {
    /// How many elements this rank's part has.
    pub fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.len() / size_of::<T>().max(1))
    }

    /// Whether this rank's part has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many elements the part of a rank has.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn len_of(&self, rank: u32) -> Result<usize, Error> {
        Ok(self.part(rank)?.1.elements as usize)
    }

    /// Copies `data` into the part of `rank` from `index` on (MPI_Put and MPI_Win_flush).
    ///
    /// # Errors
    /// There is no such rank or place, or the rank has dropped its window or died.
    pub fn put(&self, rank: u32, index: usize, data: &[T]) -> Result<(), Error> {
        let target = self.address(rank, index, data.len())?;
        let command = Command::put(target, bytemuck::cast_slice(data));
        self.carry_out("put", rank, |port| port.post(&command).map(drop))
    }

    /// Copies out of the part of `rank` from `index` on (MPI_Get and MPI_Win_flush).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn get(&self, rank: u32, index: usize, into: &mut [T]) -> Result<(), Error> {
        let from = self.address(rank, index, into.len())?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        self.carry_out("get", rank, |port| port.get(from, bytes))
    }

    /// A copy of this rank's own part, as it is now.
    ///
    /// # Errors
    /// None is expected: the part is there as long as the window.
    pub fn local(&self) -> Result<Vec<T>, Error> {
        let mut copy = vec![T::zeroed(); self.len()];
        self.get(self.world.rank(), 0, &mut copy)?;
        Ok(copy)
    }

    /// [`Window::put`], and after the data `value` into element `at` of `rank`'s part of another
    /// window (paper 003: remote DMA with a notification word). Whoever loads the value there
    /// sees the data; [`Window::wait`] waits for it.
    ///
    /// # Errors
    /// As [`Window::put`], for both places; then neither was written.
    pub fn put_signal(
        &self,
        rank: u32,
        index: usize,
        data: &[T],
        signal: &Window<'_, u64>,
        at: usize,
        value: u64,
    ) -> Result<(), Error> {
        let target = self.address(rank, index, data.len())?;
        let notification = Notification::Word { address: signal.address(rank, at, 1)?, value };
        let put = Command::put(target, bytemuck::cast_slice(data));
        let command = Command { notification, ..put };
        self.carry_out("put_signal", rank, |port| port.post(&command).map(drop))
    }

    fn part(&self, rank: u32) -> Result<(Member, Part), Error> {
        let engine = self.world.engine().borrow();
        engine.check_process()?;
        let member = engine.port().member(self.context, rank)?;
        Ok((member, self.parts[rank as usize]))
    }

    /// Where `count` elements from `index` on are, if the rank is still there.
    fn address(&self, rank: u32, index: usize, count: usize) -> Result<RemoteAddress, Error> {
        let (member, part) = self.part(rank)?;
        let departures = self.world.engine().borrow().port().departures();
        if departures > 0 {
            self.check_there(member.rank)?;
        }
        let inside = index.checked_add(count).is_some_and(|end| end as u64 <= part.elements);
        if !inside {
            let elements = part.elements;
            return Err(Error::OutsideWindow { rank, index, count, elements });
        }
        let offset = (index * size_of::<T>()) as u64;
        Ok(RemoteAddress { rank: member.rank, space: Space::Segment(part.key), offset })
    }

    /// Whether a rank has neither left nor died: its memory may still be there, and is nobody's.
    #[cold]
    fn check_there(&self, rank: u32) -> Result<(), MsgError> {
        let state = self.world.engine().borrow().port().peer(rank);
        match state {
            PeerState::Starting | PeerState::Running => Ok(()),
            PeerState::Left => Err(MsgError::PeerLeft { rank }),
            PeerState::Failed(failure) => Err(MsgError::PeerFailed(failure)),
        }
    }

    /// What to say of an operation that was refused.
    #[cold]
    fn refusal(&self, error: PostError) -> Error {
        match error {
            PostError::Protection { rank, fault: Fault::NoSuchSegment(_) | Fault::Stale(_) } => {
                let number = self.world.communicator().number(rank);
                let closed = Error::WindowClosed { rank: number };
                self.check_there(rank).map_or_else(Error::from, |()| closed)
            }
            error => error.into(),
        }
    }

    /// Does an operation at `rank`, as often as it takes until there is room.
    fn carry_out<R>(
        &self,
        name: &'static str,
        rank: u32,
        mut call: impl FnMut(&mut RankPort) -> Result<R, PostError>,
    ) -> Result<R, Error> {
        let mut blocked = None;
        loop {
            let answer = call(self.world.engine().borrow_mut().port_mut());
            match answer {
                Err(PostError::Full { .. }) => {
                    let peer = self.world.communicator().in_job(rank)?;
                    self.world
                        .communicator()
                        .rest(blocked.get_or_insert_with(|| blocked_in(name, Some(peer))));
                }
                answer => {
                    if let Some(blocked) = blocked {
                        self.world.engine().borrow_mut().awake(&blocked);
                    }
                    return answer.map_err(|error| self.refusal(error));
                }
            }
        }
    }

    /// Gives the memory back, as far as nobody is in the middle of an access to it. Nothing to be
    /// done about any error: the window is going.
    fn part_with(&mut self) -> Result<(), ContextError> {
        let looks = if std::thread::panicking() { 1 } else { PARTING_LOOKS };
        let mut answer = Ok(());
        let mut blocked = blocked_in("closing", None);
        for look in 1..=looks {
            let Ok(mut engine) = self.world.engine().try_borrow_mut() else {
                return Err(ContextError::NotOpen(self.context));
            };
            answer = engine.port_mut().deregister(self.key);
            match answer {
                Err(ContextError::Busy { .. }) if look < looks => {
                    drop(engine);
                    self.world.communicator().rest(&mut blocked);
                }
                Ok(()) => {
                    engine.awake(&blocked);
                    return engine.port_mut().close_context(self.context);
                }
                Err(_) => break,
            }
        }
        answer
    }
}

impl<T: AtomicScalar> Window<'_, T> {
    /// The element as one, never half of a change (MPI_Fetch_and_op with MPI_NO_OP).
    ///
    /// # Errors
    /// As [`Window::put`]; so for all that follow.
    pub fn load(&self, rank: u32, index: usize) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Load, T::zeroed())
    }

    /// Stores a value and answers the one before (MPI_REPLACE; paper 003: swap).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn swap(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Swap, value)
    }

    /// Stores `new` if `expected` is there, and answers what was there (MPI_Compare_and_swap).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn compare_swap(&self, rank: u32, index: usize, expected: T, new: T) -> Result<T, Error> {
        let expected = expected.to_bits();
        self.fetch(rank, index, AtomicOp::CompareSwap { expected }, new)
    }

    /// Adds a value, around the end if need be, and answers the one before (MPI_SUM).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_add(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Add, value)
    }

    /// Takes the bitwise and (MPI_BAND); answers the value before.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_and(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::And, value)
    }

    /// Takes the bitwise or (MPI_BOR); answers the value before.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_or(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Or, value)
    }

    /// Takes the bitwise exclusive or (MPI_BXOR); answers the value before.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_xor(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Xor, value)
    }

    /// Takes the smaller (MPI_MIN); answers the value before.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_min(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Min, value)
    }

    /// Takes the larger (MPI_MAX); answers the value before.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_max(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Max, value)
    }

    /// Waits until an element of this rank's own part, which `from` changes, is as `wanted` says,
    /// and answers it. Messages make progress meanwhile.
    ///
    /// # Errors
    /// There is no such element, or `from` died or left and it is not.
    pub fn wait(&self, index: usize, from: u32, wanted: impl Fn(T) -> bool) -> Result<T, Error> {
        let (own, source) = (self.world.rank(), self.part(from)?.0.rank);
        let mut blocked = blocked_in("wait", Some(source));
        let ended = |blocked: &Blocked| self.world.engine().borrow_mut().awake(blocked);
        loop {
            // Asked first: what it did before it went is there by then.
            let gone = self.check_there(source);
            let value = self.load(own, index)?;
            if wanted(value) {
                ended(&blocked);
                return Ok(value);
            }
            if let Err(gone) = gone {
                ended(&blocked);
                return Err(gone.into());
            }
            self.world.communicator().rest(&mut blocked);
        }
    }

    fn fetch(&self, rank: u32, index: usize, operation: AtomicOp, value: T) -> Result<T, Error> {
        let target = self.address(rank, index, 1)?;
        let (integer, operand) = (T::INTEGER, value.to_bits());
        let atomic = Atomic { target, integer, operation, operand, result: None };
        self.carry_out(name_of(operation), rank, |port| port.fetch(&atomic)).map(T::from_bits)
    }
}

/// A call on a window that waits.
fn blocked_in(name: &'static str, rank: Option<u32>) -> Blocked {
    Blocked::new(Wait::new(Activity::Window).named(Name::new(name)).with(rank, None))
}

/// The method of a window that does this.
fn name_of(operation: AtomicOp) -> &'static str {
    match operation {
        AtomicOp::Load => "load",
        AtomicOp::Add => "fetch_add",
        AtomicOp::Swap => "swap",
        AtomicOp::CompareSwap { .. } => "compare_swap",
        AtomicOp::And => "fetch_and",
        AtomicOp::Or => "fetch_or",
        AtomicOp::Xor => "fetch_xor",
        AtomicOp::Min => "fetch_min",
        AtomicOp::Max => "fetch_max",
    }
}

impl<T: Scalar> Drop for Window<'_, T> {
    /// From here on the others' calls on this rank's part are errors; those under way are waited
    /// for. Not collective: a barrier before it, where others may still want the window.
    fn drop(&mut self) {
        let memory = self.memory.take();
        if self.part_with().is_err() {
            // Somebody may still write there: better lost than given to somebody else.
            let _lost = ManuallyDrop::new(memory);
        }
    }
}

impl<T: Scalar> fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { context, key, parts, .. } = self;
        f.debug_struct("Window")
            .field("context", context)
            .field("key", key)
            .field("parts", parts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_nic::fabric::FullCause;

    use super::*;

    #[test]
    fn a_world_of_one_has_windows_until_there_is_no_context() {
        let world = World::init().unwrap();
        let mut windows = Vec::new();
        let error = loop {
            match world.window::<i32>(3) {
                Ok(window) => windows.push(window),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Context(ContextError::NoContextFree { .. })), "{error}");
        for (number, window) in (1..).zip(&windows) {
            window.put(0, 0, &[number; 3]).unwrap();
            assert_eq!(window.fetch_add(0, 1, -2 * number), Ok(number));
        }
        for (number, window) in (1..).zip(&windows) {
            assert_eq!(window.local(), Ok(vec![number, -number, number]));
        }
        windows.pop();
        assert_eq!(world.window::<i32>(1).unwrap().local(), Ok(vec![0]), "zeros, in its place");
    }

    #[test]
    fn an_operation_that_finds_no_room_lets_messages_and_what_is_in_flight_go_on() {
        let world = World::init().unwrap();
        let window = world.window::<u64>(1).unwrap();
        let (mut refusals, mut heard) = (0, [0u8]);
        world
            .scope(|scope| {
                let receive = scope.irecv(&mut heard, 0, 1)?;
                let barrier = scope.ibarrier();
                let answer = window.carry_out("put", 0, |port| {
                    refusals += 1;
                    let full = PostError::Full { destination: 0, cause: FullCause::RingStalled };
                    if refusals < 5 { Err(full) } else { Ok(port.departures()) }
                })?;
                assert_eq!((answer, refusals), (0, 5));
                world.send(&[7u8], 0, 1)?;
                receive.wait()?;
                barrier.wait()
            })
            .unwrap();
        assert_eq!(heard, [7]);
    }

    #[test]
    fn an_offer_that_makes_no_sense_names_its_rank() {
        let good = [1, Key { context: ContextId(1), index: 0, generation: 1 }.to_bits(), 5, 1];
        let read_offers = |offers: &[u64]| read_offers(offers, Ok);
        assert_eq!(read_offers(&[good, good].concat()).unwrap().0.len(), 2);
        for bad in [[0; 4], [2, good[1], 5, 1], [1, 1 << 20, 5, 1], [1, good[1], 5, 256]] {
            let error = read_offers(&[good, bad].concat()).unwrap_err();
            assert_eq!(error, Error::WindowRefused { rank: 1 });
        }
    }
}
