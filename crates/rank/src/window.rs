//! Windows, in bytes: memory of every rank that all ranks read, write and change without its
//! owner's help.
//!
//! A window is a segment in a context of its own (paper 003 §4.7). Each access to another rank's
//! memory is checked against that rank's table, so an access to a window that its owner has dropped
//! is an error and not a stray write. A rank uses its own part through the same calls: the bytes
//! may change at any time, so it gets no reference to them, only copies and atomic operations.
//!
//! Places are counted in elements, as in MPI (`disp_unit`).

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;

use hikyaku_msg::{Blocked, MsgError};
use hikyaku_nic::fabric::{
    Activity, Atomic, AtomicOp, Command, ContextError, ContextId, Fault, Integer, Key, Member,
    MemoryPort, Name, Notification, Port, PostError, Rank, RemoteAddress, Rights, Space, Wait,
};
use hikyaku_nic::region::RegionBuffer;

use crate::communicator::Communicator;
use crate::error::{Error, WindowError};
use crate::far::CallSteps;
use crate::port::RankPort;

/// How often a window that is dropped waits for peers that are in the middle of an access, which
/// takes them microseconds unless they have been stopped.
const PARTING_LOOKS: u32 = 1000;

/// Memory at every rank; see [`Communicator::window`].
#[derive(Debug)]
pub struct ByteWindow {
    communicator: Communicator,
    context: ContextId,
    /// The keys of this rank's part that are still registered.
    keys: Vec<Key>,
    /// Never looked into: peers may be writing. `None` if it is protected, or given back.
    memory: Option<RegionBuffer>,
    pub(crate) parts: Vec<WindowPart>,
    /// Size of an element, bytes.
    element: usize,
    /// The protected memory that this rank has for it, by owner and offset.
    pub(crate) protected: Vec<(Rank, u64)>,
}

/// One rank's part of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowPart {
    pub(crate) key: Key,
    pub(crate) elements: u64,
    /// What this rank may do there.
    pub(crate) granted: Rights,
}

impl Communicator {
    /// Region memory for so many elements; its contents are left over from an earlier use.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn allocate(&self, elements: usize, element: usize) -> Result<RegionBuffer, Error> {
        let bytes = elements
            .checked_mul(element)
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(Error::TooLarge { elements, element })?;
        Ok(self.engine().borrow_mut().port_mut().allocate(bytes)?)
    }

    /// Makes a window of `length` elements of zeros at this rank and whatever the others ask for
    /// at theirs. Every rank calls it, in the same order as other collective operations.
    ///
    /// # Errors
    /// There is no memory for it, or as many windows as there are contexts; at the other ranks
    /// then [`WindowError::Refused`]. A rank is gone.
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

    /// This rank's part of a window, registered.
    fn open_window(&self, length: usize, element: usize) -> Result<ByteWindow, Error> {
        let memory = self.zeros(length, element)?;
        let (offset, bytes) = (memory.offset(), (length * element) as u64);
        let window = self.open_part((offset, bytes), element, &[Rights::ALL])?;
        Ok(window.of_memory(memory))
    }

    /// Region memory of zeros.
    pub(crate) fn zeros(&self, length: usize, element: usize) -> Result<RegionBuffer, Error> {
        let mut memory = self.allocate(length, element)?;
        memory.fill(0);
        Ok(memory)
    }

    /// A window of memory that this rank has already, at an offset and so long: a segment and a key
    /// for each of these rights.
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

/// Words that a rank tells of its part: whether there is one, key, elements, context.
pub(crate) const OFFER: usize = 6;

/// The parts and members of a window out of what the ranks offered.
pub(crate) fn read_offers(
    offers: &[Vec<u32>],
    in_job: impl Fn(u32) -> Result<u32, MsgError>,
) -> Result<(Vec<WindowPart>, Vec<Member>), Error> {
    let mut parts = Vec::new();
    let mut members = Vec::new();
    for (rank, offer) in (0..).zip(offers) {
        let long = |at: usize| u64::from(offer[at + 1]) << 32 | u64::from(offer[at]);
        let made = offer.len() == OFFER && offer[0] == 1;
        let offer = made.then(|| (Key::from_bits(long(1)), long(3), u8::try_from(offer[5])));
        let Some((Some(key), elements, Ok(context))) = offer else {
            return Err(WindowError::Refused { rank }.into());
        };
        parts.push(WindowPart { key, elements, granted: Rights::ALL });
        members.push(Member { rank: in_job(rank)?, context: ContextId(context) });
    }
    Ok((parts, members))
}

impl ByteWindow {
    /// What this rank tells of its part of so many elements.
    pub(crate) fn offer(&self, length: usize) -> [u32; OFFER] {
        let Some(key) = self.keys.first() else { return [0; OFFER] };
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let [key, elements] = [key.to_bits(), length as u64].map(halves);
        [1, key[0], key[1], elements[0], elements[1], u32::from(self.context.0)]
    }

    /// The same window, which keeps the memory of its part.
    pub(crate) fn of_memory(mut self, memory: RegionBuffer) -> ByteWindow {
        self.memory = Some(memory);
        self
    }

    /// Bytes of the part of a rank, as it has said.
    pub(crate) fn bytes_of(&self, rank: u32) -> Option<u64> {
        self.parts.get(rank as usize)?.elements.checked_mul(self.element as u64)
    }

    /// The key of this rank's part for these rights, by their place.
    pub(crate) fn key(&self, place: usize) -> Option<Key> {
        self.keys.get(place).copied()
    }

    /// Takes in what all ranks have offered.
    pub(crate) fn connect(
        &mut self,
        parts: Vec<WindowPart>,
        members: &[Member],
    ) -> Result<(), Error> {
        self.parts = parts;
        let mut engine = self.communicator.engine().borrow_mut();
        Ok(engine.port_mut().connect(self.context, members)?)
    }

    /// How many elements this rank's part has.
    pub fn len(&self) -> usize {
        let own = self.parts.get(self.communicator.rank() as usize);
        own.map_or(0, |part| part.elements as usize)
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

    /// Copies `data` into the part of `rank` from element `index` on.
    ///
    /// # Errors
    /// There is no such rank or place, or the rank has dropped its window or died.
    pub fn put(&self, rank: u32, index: usize, data: &[u8]) -> Result<(), Error> {
        let target = self.address(rank, index, data.len() / self.element.max(1), Rights::WRITE)?;
        let command = Command::put(target, data);
        self.carry_out("put", rank, |port, steps| port.put_by(steps, &command))
    }

    /// Copies out of the part of `rank` from element `index` on.
    ///
    /// # Errors
    /// As [`ByteWindow::put`].
    pub fn get(&self, rank: u32, index: usize, into: &mut [u8]) -> Result<(), Error> {
        let from = self.address(rank, index, into.len() / self.element.max(1), Rights::READ)?;
        self.carry_out("get", rank, |port, steps| port.get_by(steps, from, into))
    }

    /// [`ByteWindow::put`], and after the data `value` into element `at`, of eight bytes, of
    /// `rank`'s part of another window. Whoever loads the value there sees the data.
    ///
    /// # Errors
    /// As [`ByteWindow::put`], for both places; then neither was written.
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

    /// Puts behind one doorbell, each into the part of a rank from an element on, in order. With a
    /// `signal` the last put to each rank is a [`ByteWindow::put_signal`].
    ///
    /// # Errors
    /// As [`ByteWindow::put_signal`], of the first put that has one; those before it were written.
    /// Those behind it may have been, at other ranks: never at the same one, and no signal of that.
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
                    // A put is written whole or not at all.
                    Err(cut) if cut.done > 0 => (done + cut.done, Ok(())),
                    Err(cut) => (done, Err(cut.error)),
                };
                done = posted;
                room
            })?;
        }
        Ok(())
    }

    /// Changes an element, an integer, undivided; answers the one before.
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

    /// Waits until an element of this rank's own part, which `from` changes, is as `wanted` says,
    /// and answers it. Messages make progress meanwhile.
    ///
    /// # Errors
    /// There is no such element, or `from` died or left and it is not.
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
            // Asked first: what it did before it went is there by then.
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
            self.communicator.rest(&mut blocked);
        }
    }

    fn part(&self, rank: u32) -> Result<(Member, WindowPart), Error> {
        let engine = self.communicator.engine().borrow();
        engine.check_process()?;
        let member = engine.port().member(self.context, rank)?;
        Ok((member, self.parts[rank as usize]))
    }

    /// Where `count` elements from `index` on are, if the rank is still there and this one may do
    /// what is wanted.
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

    /// What to say of an operation that was refused.
    #[cold]
    fn refusal(&self, error: PostError) -> Error {
        match error {
            PostError::Protection { rank, fault: Fault::NoSuchSegment(_) | Fault::Stale(_) } => {
                let number = self.communicator.number(rank);
                let closed = WindowError::Closed { rank: number };
                self.communicator.check_there(rank).map_or_else(Error::from, |()| closed.into())
            }
            error => error.into(),
        }
    }

    /// Does an operation at `rank`, as often as it takes until there is room. Where threads share
    /// this rank, in steps: others come in while another host is waited for.
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
                    self.communicator.rest(blocked);
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

    /// Gives the memory back, as far as nobody is in the middle of an access to it. Nothing to be
    /// done about any error: the window is going.
    fn part_with(&mut self) -> Result<(), ContextError> {
        let looks = if std::thread::panicking() { 1 } else { PARTING_LOOKS };
        let mut answer = Ok(());
        let mut blocked = blocked_in("closing", None);
        for look in 1..=looks {
            let Ok(mut engine) = self.communicator.engine().try_borrow_mut() else {
                return Err(ContextError::NotOpen(self.context));
            };
            if engine.port().is_forked() {
                // A forked child has a copy of the window, which its parent goes on using.
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
                    self.communicator.rest(&mut blocked);
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

impl Drop for ByteWindow {
    /// From here on the others' calls on this rank's part are errors; those under way are waited
    /// for. Not collective: a barrier before it, where others may still want the window.
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
        let good = vec![1, key as u32, (key >> 32) as u32, 5, 0, 1];
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
