//! Windows, in bytes: memory at every rank that all ranks read, write and modify without its
//! owner's help.
//!
//! A window is a segment in a context of its own (paper 003 §4.7). Each access to another rank's
//! memory is checked against that rank's table, so an access to a window that its owner has dropped
//! is an error and not a stray write. A rank uses its own part through the same calls: the bytes
//! may change at any time, so it gets no reference to them, only copies and atomic operations.
//!
//! Offsets are counted in elements, as in MPI (`disp_unit`).

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;

use hikyaku_msg::{Blocked, MsgError, Pace};
use hikyaku_nic::fabric::{
    Activity, Advance, Atomic, AtomicOp, Command, ContextError, ContextId, Fault, Integer, Key,
    Member, MemoryPort, Name, Notification, Port, PostError, REGISTERS, Rank, RegisterValue,
    RemoteAddress, Rights, Space, Wait,
};
use hikyaku_nic::layer::Layer;
use hikyaku_nic::region::RegionBuffer;

use crate::communicator::Communicator;
use crate::error::{Error, WindowError};
use crate::far::CallSteps;
use crate::port::RankPort;

/// How often a dropped window waits for peers in the middle of an access, which takes them
/// microseconds unless they have been stopped.
const PARTING_LOOKS: u32 = 1000;

/// Memory at every rank; see [`Communicator::window`].
#[derive(Debug)]
pub struct ByteWindow {
    communicator: Communicator,
    context: ContextId,
    /// The keys of this rank's part that are still registered.
    keys: Vec<Key>,
    /// Never read directly: peers may be writing. `None` if it is protected, or freed.
    memory: Option<RegionBuffer>,
    pub(crate) parts: Vec<WindowPart>,
    /// The size of an element, in bytes.
    element: usize,
    /// The protected memory that this rank holds for it, by owner and offset.
    pub(crate) protected: Vec<(Rank, u64)>,
}

/// One rank's part of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowPart {
    pub(crate) key: Key,
    pub(crate) elements: u64,
    /// This rank's rights there.
    pub(crate) granted: Rights,
    /// The generation of its context, and so of the keys of its address registers.
    pub(crate) registers: u32,
}

impl Communicator {
    /// Region memory for this many elements, with contents from an earlier use.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn allocate(&self, elements: usize, element: usize) -> Result<RegionBuffer, Error> {
        let bytes = elements
            .checked_mul(element)
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(Error::TooLarge { elements, element })?;
        Ok(self.engine().borrow_mut().port_mut().allocate(bytes)?)
    }

    /// Makes a window of `length` elements of zeros at this rank; other ranks may pass other
    /// lengths. Every rank calls it, in the same order as other collective operations.
    ///
    /// # Errors
    /// There is not enough memory, or no context left; the other ranks then return
    /// [`WindowError::Refused`]. Or a rank is gone.
    pub fn window(&self, length: usize, element: usize) -> Result<ByteWindow, Error> {
        let mine = self.open_window(length, element);
        let offer = match &mine {
            Ok(window) => window.offer(length),
            Err(_) => [0; OFFER],
        };
        let offers = self.share(&offer)?;
        let mut window = mine?;
        let (parts, members) = read_offers(&offers, |rank| self.in_job(rank))?;
        window.connect(parts, &members)?;
        Ok(window)
    }

    /// Makes and registers this rank's part of a window.
    fn open_window(&self, length: usize, element: usize) -> Result<ByteWindow, Error> {
        let memory = self.zeros(length, element)?;
        let (offset, bytes) = (memory.offset(), (length * element) as u64);
        let window = self.open_part((offset, bytes), element, &[Rights::ALL])?;
        Ok(window.of_memory(memory))
    }

    /// Region memory filled with zeros.
    pub(crate) fn zeros(&self, length: usize, element: usize) -> Result<RegionBuffer, Error> {
        let mut memory = self.allocate(length, element)?;
        memory.fill(0);
        Ok(memory)
    }

    /// A window of existing memory at an offset: a segment, and a key for each of these rights.
    pub(crate) fn open_part(
        &self,
        (offset, bytes): (u64, u64),
        element: usize,
        rights: &[Rights],
    ) -> Result<ByteWindow, Error> {
        let context = self.engine().borrow_mut().port_mut().open_context()?;
        let (communicator, keys, parts) = (self.clone(), Vec::new(), Vec::new());
        let (memory, protected) = (None, Vec::new());
        let mut window =
            ByteWindow { communicator, context, keys, memory, parts, element, protected };
        for rights in rights {
            let mut engine = self.engine().borrow_mut();
            window.keys.push(engine.port_mut().register(context, offset, bytes, *rights)?);
        }
        Ok(window)
    }
}

/// The number of words that describe a rank's part: whether it exists, key, elements, context,
/// generation of its registers.
pub(crate) const OFFER: usize = 7;

/// Decodes the parts and members of a window from the ranks' offers.
pub(crate) fn read_offers(
    offers: &[Vec<u32>],
    in_job: impl Fn(u32) -> Result<u32, MsgError>,
) -> Result<(Vec<WindowPart>, Vec<Member>), Error> {
    let mut parts = Vec::new();
    let mut members = Vec::new();
    for (rank, words) in (0..).zip(offers) {
        let long = |at: usize| u64::from(words[at + 1]) << 32 | u64::from(words[at]);
        let made = words.len() == OFFER && words[0] == 1;
        let offer = made.then(|| (Key::from_bits(long(1)), long(3), u8::try_from(words[5])));
        let Some((Some(key), elements, Ok(context))) = offer else {
            return Err(WindowError::Refused { rank }.into());
        };
        let (granted, registers) = (Rights::ALL, words[6]);
        parts.push(WindowPart { key, elements, granted, registers });
        members.push(Member { rank: in_job(rank)?, context: ContextId(context) });
    }
    Ok((parts, members))
}

impl ByteWindow {
    /// Encodes this rank's part of `length` elements.
    pub(crate) fn offer(&self, length: usize) -> [u32; OFFER] {
        let Some(key) = self.keys.first() else { return [0; OFFER] };
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let [key, elements] = [key.to_bits(), length as u64].map(halves);
        let engine = self.communicator.engine().borrow();
        let register = engine.port().inner().inner().register_key(self.context, 0);
        let registers = register.map_or(0, |key| key.generation);
        [1, key[0], key[1], elements[0], elements[1], u32::from(self.context.0), registers]
    }

    /// The same window, which keeps the memory of its part.
    pub(crate) fn of_memory(mut self, memory: RegionBuffer) -> ByteWindow {
        self.memory = Some(memory);
        self
    }

    /// The size of a rank's part, in bytes, as announced.
    pub(crate) fn bytes_of(&self, rank: u32) -> Option<u64> {
        self.parts.get(rank as usize)?.elements.checked_mul(self.element as u64)
    }

    /// The key of this rank's part for the rights at index `place`.
    pub(crate) fn key(&self, place: usize) -> Option<Key> {
        self.keys.get(place).copied()
    }

    /// Connects to the parts that all ranks have offered.
    pub(crate) fn connect(
        &mut self,
        parts: Vec<WindowPart>,
        members: &[Member],
    ) -> Result<(), Error> {
        self.parts = parts;
        let mut engine = self.communicator.engine().borrow_mut();
        Ok(engine.port_mut().connect(self.context, members)?)
    }

    /// The number of elements of this rank's part.
    pub fn len(&self) -> usize {
        let own = self.parts.get(self.communicator.rank() as usize);
        own.map_or(0, |part| part.elements as usize)
    }

    /// Whether this rank's part is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of elements of a rank's part.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn len_of(&self, rank: u32) -> Result<usize, Error> {
        Ok(self.part(rank)?.1.elements as usize)
    }

    /// Copies `data` into the part of `rank` from element `index` on.
    ///
    /// # Errors
    /// There is no such rank or element, or the rank has dropped its window or died.
    pub fn put(&self, rank: u32, index: usize, data: &[u8]) -> Result<(), Error> {
        let target = self.address(rank, index, data.len() / self.element.max(1), Rights::WRITE)?;
        let command = Command::put(target, data);
        self.carry_out("put", rank, |port, steps| port.put_by(steps, &command))
    }

    /// Copies from the part of `rank`, from element `index` on.
    ///
    /// # Errors
    /// As [`ByteWindow::put`].
    pub fn get(&self, rank: u32, index: usize, into: &mut [u8]) -> Result<(), Error> {
        let from = self.address(rank, index, into.len() / self.element.max(1), Rights::READ)?;
        self.carry_out("get", rank, |port, steps| port.get_by(steps, from, into))
    }

    /// [`ByteWindow::put`], and then stores `value` in element `at`, of eight bytes, of `rank`'s
    /// part of another window. A rank that loads the value there sees the data.
    ///
    /// # Errors
    /// As [`ByteWindow::put`], for both places; neither is written then.
    pub fn put_signal(
        &self,
        rank: u32,
        index: usize,
        data: &[u8],
        (signal, at): (&ByteWindow, usize),
        value: u64,
    ) -> Result<(), Error> {
        let target = self.address(rank, index, data.len() / self.element.max(1), Rights::WRITE)?;
        let address = signal.address(rank, at, 1, Rights::WRITE)?;
        let notification = Notification::Word { address, value };
        let command = Command { notification, ..Command::put(target, data) };
        self.carry_out("put_signal", rank, |port, steps| port.put_by(steps, &command))
    }

    /// Points an address register of this rank's part (paper 003 §4.5) at an element, or at none.
    ///
    /// # Errors
    /// There is no such register or element, or the window is protected.
    pub fn set_address_register(
        &self,
        register: u8,
        value: Option<(usize, Advance)>,
    ) -> Result<(), Error> {
        let (rank, elements) = (self.communicator.rank(), self.len());
        let [segment] = self.keys[..] else {
            // Any rank that reaches a register writes where it points.
            return Err(PostError::Unsupported("set a register of a protected window").into());
        };
        let value = match value {
            Some((index, _)) if index > elements => {
                let elements = elements as u64;
                return Err(WindowError::Outside { rank, index, count: 0, elements }.into());
            }
            Some((index, advance)) => {
                let offset = (index * self.element) as u64;
                Some(RegisterValue { segment, offset, advance })
            }
            None => None,
        };
        let mut engine = self.communicator.engine().borrow_mut();
        engine.check_process()?;
        engine.port_mut().look_at_own_memory();
        let tables = engine.port_mut().inner_mut().inner_mut();
        Ok(tables.set_address_register(self.context, register, value)?)
    }

    /// The element at which an address register of this rank's part points now.
    ///
    /// # Errors
    /// There is no such register.
    pub fn address_register(&self, register: u8) -> Result<Option<usize>, Error> {
        let mut engine = self.communicator.engine().borrow_mut();
        engine.check_process()?;
        engine.port_mut().look_at_own_memory();
        let value = engine.port().inner().inner().address_register(self.context, register)?;
        Ok(value.map(|value| value.offset as usize / self.element.max(1)))
    }

    /// Copies `data` to where an address register of `rank` points.
    ///
    /// # Errors
    /// As [`ByteWindow::put`], or the register is not set.
    pub fn put_through(&self, rank: u32, register: u8, data: &[u8]) -> Result<(), Error> {
        if register >= REGISTERS {
            return Err(ContextError::NoSuchRegister(register).into());
        }
        let count = data.len() / self.element.max(1);
        let anywhere = self.address(rank, 0, 0, Rights::WRITE)?;
        let (Member { context, .. }, part) = self.part(rank)?;
        let key = Key { context, index: register, generation: part.registers };
        let target = RemoteAddress { space: Space::Register(key), ..anywhere };
        let command = Command::put(target, data);
        let put = self.carry_out("put_through", rank, |port, steps| port.put_by(steps, &command));
        put.map_err(|error| match error {
            Error::Remote(PostError::OutOfBounds { offset, .. }) => {
                let (index, elements) = (offset as usize / self.element.max(1), part.elements);
                WindowError::Outside { rank, index, count, elements }.into()
            }
            error => error,
        })
    }

    /// Puts with one doorbell, each into the part of a rank from an element on, in order. With a
    /// `signal` the last put to each rank is a [`ByteWindow::put_signal`].
    ///
    /// # Errors
    /// As [`ByteWindow::put_signal`], for the first put that fails; earlier ones were written.
    /// Later ones may have been written at other ranks, but never at the same one, nor its signal.
    pub fn put_chain(
        &self,
        puts: &[(u32, usize, &[u8])],
        signal: Option<(&ByteWindow, usize, u64)>,
    ) -> Result<(), Error> {
        let mut commands = Vec::with_capacity(puts.len());
        for (rank, index, data) in puts {
            let count = data.len() / self.element.max(1);
            commands.push(Command::put(self.address(*rank, *index, count, Rights::WRITE)?, data));
        }
        if let Some((words, at, value)) = signal {
            let mut signalled: BTreeSet<u32> = BTreeSet::new();
            for (command, (rank, ..)) in commands.iter_mut().zip(puts).rev() {
                if signalled.insert(*rank) {
                    let address = words.address(*rank, at, 1, Rights::WRITE)?;
                    command.notification = Notification::Word { address, value };
                }
            }
        }
        let mut done = 0;
        while let Some((rank, ..)) = puts.get(done) {
            self.carry_out("put_chain", *rank, |port, steps| {
                if steps.is_some() && port.spans_hosts() {
                    port.put_by(steps, &commands[done])?;
                    done += 1;
                    return Ok(());
                }
                let (posted, room) = match port.post_chain(&commands[done..]) {
                    Ok(()) => (commands.len(), Ok(())),
                    // A put is written completely or not at all.
                    Err(cut) if cut.done > 0 => (done + cut.done, Ok(())),
                    Err(cut) => (done, Err(cut.error)),
                };
                done = posted;
                room
            })?;
        }
        Ok(())
    }

    /// Modifies an element, an integer, atomically; returns the previous value.
    ///
    /// # Errors
    /// As [`ByteWindow::put`].
    pub fn fetch(
        &self,
        rank: u32,
        index: usize,
        (integer, operation): (Integer, AtomicOp),
        operand: u64,
    ) -> Result<u64, Error> {
        let rights = match operation {
            AtomicOp::Load => Rights::READ,
            _ => Rights::ATOMIC,
        };
        let target = self.address(rank, index, 1, rights)?;
        let atomic = Atomic { target, integer, operation, operand, result: None };
        self.carry_out(name_of(operation), rank, |port, steps| port.fetch_by(steps, &atomic))
    }

    /// Waits until an element of this rank's own part, which `from` changes, satisfies `wanted`,
    /// and returns it. Messages make progress meanwhile.
    ///
    /// # Errors
    /// There is no such element, or `from` died or left before the element satisfied it.
    pub fn wait(
        &self,
        index: usize,
        from: u32,
        integer: Integer,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<u64, Error> {
        let (own, source) = (self.communicator.rank(), self.part(from)?.0.rank);
        let mut blocked = blocked_in("wait", Some(source));
        let ended = |blocked: &Blocked| self.communicator.engine().borrow_mut().awake(blocked);
        loop {
            // Checked first: writes of that rank before it left are visible by then.
            let gone = self.communicator.check_there(source);
            let value = self.fetch(own, index, (integer, AtomicOp::Load), 0)?;
            if wanted(value) {
                ended(&blocked);
                return Ok(value);
            }
            if let Err(gone) = gone {
                ended(&blocked);
                return Err(gone.into());
            }
            self.communicator.rest(&mut blocked, Pace::MEMORY);
        }
    }

    fn part(&self, rank: u32) -> Result<(Member, WindowPart), Error> {
        let engine = self.communicator.engine().borrow();
        engine.check_process()?;
        let member = engine.port().member(self.context, rank)?;
        Ok((member, self.parts[rank as usize]))
    }

    /// The address of `count` elements from `index` on, if the rank is alive and this one has the
    /// rights.
    fn address(
        &self,
        rank: u32,
        index: usize,
        count: usize,
        wanted: Rights,
    ) -> Result<RemoteAddress, Error> {
        let (member, part) = self.part(rank)?;
        let departures = self.communicator.engine().borrow().port().departures();
        if departures > 0 {
            self.communicator.check_there(member.rank)?;
        }
        let inside = index.checked_add(count).is_some_and(|end| end as u64 <= part.elements);
        if !inside {
            let elements = part.elements;
            return Err(WindowError::Outside { rank, index, count, elements }.into());
        }
        if !part.granted.contains(wanted) {
            let fault = Fault::Rights { wanted, granted: part.granted };
            return Err(PostError::Protection { rank: member.rank, fault }.into());
        }
        let offset = (index * self.element) as u64;
        Ok(RemoteAddress { rank: member.rank, space: Space::Segment(part.key), offset })
    }

    /// The error of a refused operation.
    #[cold]
    fn refusal(&self, error: PostError) -> Error {
        match error {
            PostError::Protection {
                rank,
                fault: Fault::NoSuchSegment(_) | Fault::Stale(_) | Fault::NoSuchRegister(_),
            } => {
                let number = self.communicator.number(rank);
                let closed = WindowError::Closed { rank: number };
                self.communicator.check_there(rank).map_or_else(Error::from, |()| closed.into())
            }
            error => error.into(),
        }
    }

    /// Repeats an operation at `rank` until there is room. Where threads share this rank it runs in
    /// steps, so that others can enter while it waits for another host.
    fn carry_out<R>(
        &self,
        name: &'static str,
        rank: u32,
        mut call: impl FnMut(&mut RankPort, &mut Option<CallSteps>) -> Result<R, PostError>,
    ) -> Result<R, Error> {
        let mut blocked = None;
        let mut steps = self.communicator.is_shared().then(CallSteps::default);
        loop {
            let answer = call(self.communicator.engine().borrow_mut().port_mut(), &mut steps);
            match answer {
                Err(PostError::Full { .. }) => {
                    let peer = self.communicator.in_job(rank)?;
                    let blocked = blocked.get_or_insert_with(|| blocked_in(name, Some(peer)));
                    self.communicator.rest(blocked, Pace::MEMORY);
                }
                answer => {
                    if let Some(blocked) = blocked {
                        self.communicator.engine().borrow_mut().awake(&blocked);
                    }
                    return answer.map_err(|error| self.refusal(error));
                }
            }
        }
    }

    /// Frees the memory, unless a rank is in the middle of an access to it. Errors cannot be
    /// handled: the window is being dropped.
    fn part_with(&mut self) -> Result<(), ContextError> {
        let looks = if std::thread::panicking() { 1 } else { PARTING_LOOKS };
        let mut answer = Ok(());
        let mut blocked = blocked_in("closing", None);
        for look in 1..=looks {
            let Ok(mut engine) = self.communicator.engine().try_borrow_mut() else {
                return Err(ContextError::NotOpen(self.context));
            };
            if engine.port().is_forked() {
                // A forked child has a copy of the window, which its parent still uses.
                return Err(ContextError::NotOpen(self.context));
            }
            let port = engine.port_mut();
            answer = Ok(());
            while let Some(key) = self.keys.last() {
                answer = port.deregister(*key);
                if answer.is_err() {
                    break;
                }
                self.keys.pop();
            }
            self.protected.drain(..).for_each(|(owner, at)| port.beyond_mut().let_go(owner, at));
            match answer {
                Err(ContextError::Busy { .. }) if look < looks => {
                    drop(engine);
                    self.communicator.rest(&mut blocked, Pace::MEMORY);
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

/// The wait of a blocking call on a window.
fn blocked_in(name: &'static str, rank: Option<u32>) -> Blocked {
    Blocked::new(Wait::new(Activity::Window).named(Name::new(name)).with(rank, None))
}

/// The name of the window method for this operation.
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

impl Drop for ByteWindow {
    /// Afterwards the others' calls on this rank's part are errors; waits for those in progress.
    /// Not collective: call a barrier first if others may still use the window.
    fn drop(&mut self) {
        let memory = self.memory.take();
        if self.part_with().is_err() {
            // A rank may still write there: the memory is leaked rather than reused.
            let _lost = ManuallyDrop::new(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use hikyaku_coll::Choices;
    use hikyaku_nic::fabric::FullCause;

    use super::*;

    #[test]
    fn an_operation_that_finds_no_room_lets_what_is_in_flight_go_on() {
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let window = alone.window(1, 8).unwrap();
        let (polls, rank) = (Rc::new(Cell::new(0)), alone.observe());
        let counted = Rc::clone(&polls);
        alone.start_task(Box::pin(poll_fn(move |_| {
            rank.with_engine(|engine, _| engine.borrow_mut().progress());
            counted.set(counted.get() + 1);
            Poll::Pending
        })));
        let (mut refusals, before) = (0, polls.get());
        let answer = window.carry_out("put", 0, |port, _| {
            refusals += 1;
            let full = PostError::Full { destination: 0, cause: FullCause::RingStalled };
            if refusals < 5 { Err(full) } else { Ok(port.departures()) }
        });
        assert_eq!((answer, refusals, polls.get() - before), (Ok(0), 5, 4));
    }

    #[test]
    fn an_offer_that_makes_no_sense_names_its_rank() {
        let key = Key { context: ContextId(1), index: 0, generation: 1 }.to_bits();
        let good = vec![1, key as u32, (key >> 32) as u32, 5, 0, 1, 1];
        let read_offers = |offers: &[Vec<u32>]| read_offers(offers, Ok);
        let (parts, _) = read_offers(&[good.clone(), good.clone()]).unwrap();
        assert_eq!((parts.len(), parts[1].elements), (2, 5));
        let but = |at: usize, word: u32| {
            let mut words = good.clone();
            words[at] = word;
            words
        };
        let bad = [vec![0; OFFER], but(0, 2), but(1, 1 << 20), but(5, 256), good[..5].to_vec()];
        for bad in bad {
            let error = read_offers(&[good.clone(), bad]).unwrap_err();
            assert_eq!(error, WindowError::Refused { rank: 1 }.into());
        }
    }
}
