//! A shared variable as one rank has it, and how its protocol is driven.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hikyaku_dsm::word::Version;
use hikyaku_dsm::{
    Action, Departed, Direct, Division, Entry, Kind, Patience, Protocol, Refusal, Word,
};
use hikyaku_dsm::{Op, State};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::time::Time;

use super::contents::Contents;
use super::error::SharedError;
use super::memory::{Memory, Own, RefPort};
use super::options::{Element, SharedOptions};
use crate::error::Error;
use crate::world::World;

/// How often a waiting rank looks before it makes progress on messages and gives way.
const LOOKS: u32 = 8;

/// Longest sleep of a rank that waits: whoever is about to sleep when it is woken sleeps so long.
const LOOK_AGAIN: Time = Time::from_nanoseconds(1_000_000);

/// A shared variable of this rank.
#[derive(Debug)]
pub(super) struct Variable {
    world: World,
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) division: Division,
    pub(super) options: SharedOptions,
    memory: Memory,
    /// What this rank gave; taken when the variable is dropped.
    own: Option<Own>,
    parts: RefCell<Vec<PartState>>,
    departed: RefCell<(u64, Departed)>,
    /// Bytes fetched from other nodes, and how often.
    moved: Cell<(u64, u64)>,
}

/// A part, as this rank has it.
#[derive(Debug)]
struct PartState {
    protocol: Direct,
    /// Asked for, or had.
    taken: Option<Kind>,
    home: u32,
    /// Where its words begin in its home's block.
    at: u64,
}

/// What a call of the protocol has come to.
#[derive(Debug)]
pub(super) enum Outcome {
    Wait,
    Entered(Entry),
    Refused(Refusal),
    Released,
}

impl Variable {
    pub(super) fn new(
        world: World,
        name: String,
        element: Element,
        division: Division,
        options: SharedOptions,
        memory: Memory,
        own: Own,
    ) -> Variable {
        let sizes = memory.sizes();
        let part = |index| {
            let (home, slot) = sizes.home_of(index);
            let protocol = Direct::new(sizes.geometry, options.recoverable);
            PartState { protocol, taken: None, home, at: sizes.words_at(slot) }
        };
        let parts = RefCell::new((0..division.count()).map(part).collect());
        let (own, departed, moved) = (Some(own), RefCell::default(), Cell::default());
        Variable { world, name, element, division, options, memory, own, parts, departed, moved }
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// The variable and the part, for people.
    pub(super) fn label(&self, part: u64) -> String {
        match self.division.count() {
            1 => format!("the shared variable `{}`", self.name),
            _ => format!("part {part} of the shared variable `{}`", self.name),
        }
    }

    /// Asks for a part.
    pub(super) fn request(&self, part: u64, kind: Kind, patience: Patience) -> Result<(), Error> {
        let mut parts = self.parts.borrow_mut();
        let count = parts.len() as u64;
        let Some(state) = parts.get_mut(part as usize) else {
            let name = self.name.clone();
            return Err(SharedError::NoSuchPart { name, part, parts: count }.into());
        };
        if state.taken.is_some() {
            return Err(SharedError::Recursive { variable: self.label(part) }.into());
        }
        state.taken = Some(kind);
        state.protocol.request(kind, patience);
        Ok(())
    }

    /// Drives a part until it says something.
    #[inline]
    pub(super) fn drive(&self, part: u64) -> Result<Outcome, Error> {
        let mut parts = self.parts.borrow_mut();
        let state = &mut parts[part as usize];
        let mut departed = self.departed.borrow_mut();
        let departed = &mut *departed;
        let mut answer = 0;
        loop {
            answer = match state.protocol.next(answer, &departed.1) {
                Action::Access(word, op) => {
                    let place = (part, state.home, state.at);
                    self.memory.access(|| self.port(), &departed.1, place, (word, op))?
                }
                Action::Copy { from } => {
                    self.world.note_departures(&mut departed.0, &mut departed.1);
                    u64::from(!self.fetch(part, from, &departed.1)?)
                }
                Action::Wake(rank) => {
                    self.memory.ring(&mut self.port().0, rank);
                    0
                }
                Action::Wait => {
                    self.world.note_departures(&mut departed.0, &mut departed.1);
                    return Ok(Outcome::Wait);
                }
                Action::Entered(entry) => return Ok(Outcome::Entered(entry)),
                Action::Refused(refusal) => {
                    state.taken = None;
                    return Ok(Outcome::Refused(refusal));
                }
                Action::Released => {
                    state.taken = None;
                    return Ok(Outcome::Released);
                }
            };
        }
    }

    fn port(&self) -> RefPort<'_> {
        let engine = self.world.engine().borrow_mut();
        RefPort(std::cell::RefMut::map(engine, |engine| engine.port_mut()))
    }

    /// Where the elements of a part are, as `T`s, and how many.
    #[inline]
    pub(super) fn contents<T: crate::Scalar>(&self, part: u64) -> Contents<T> {
        let (start, length) = self.extent(part);
        Contents::new(self.memory.copy(), start as usize, length / size_of::<T>().max(1))
    }

    /// First byte and length of a part, bytes.
    #[inline]
    fn extent(&self, part: u64) -> (u64, usize) {
        let element = u64::from(self.element.bytes);
        let (start, length) = self.division.extent(part);
        (start * element, (length * element) as usize)
    }

    fn fetch(&self, part: u64, from: u32, departed: &Departed) -> Result<bool, Error> {
        let extent = self.extent(part);
        let contents = self.contents::<u8>(part);
        // SAFETY: the turn is this rank's, and its node's copy is old: nobody of the node reads or
        // writes it until the turn is passed.
        let into = unsafe { contents.as_slice_mut() };
        let there = self.memory.fetch(&mut self.port().0, departed, from, extent, into)?;
        if there {
            let (bytes, times) = self.moved.get();
            self.moved.set((bytes + extent.1 as u64, times + 1));
        }
        Ok(there)
    }

    /// Looks who is gone: for requests that do not wait.
    pub(super) fn look_around(&self) {
        let mut departed = self.departed.borrow_mut();
        let departed = &mut *departed;
        self.world.note_departures(&mut departed.0, &mut departed.1);
    }

    /// Waits a little. `turn` counts the waits of one request.
    #[inline]
    pub(super) fn rest(&self, turn: u32, until: Option<Time>) {
        if turn % LOOKS != LOOKS - 1 {
            return std::hint::spin_loop();
        }
        self.world.attend();
        let mut engine = self.world.engine().borrow_mut();
        if !engine.progress() {
            let port = engine.port_mut();
            let soon = port.now() + LOOK_AGAIN;
            port.park(Some(until.map_or(soon, |until| until.min(soon))));
        }
    }

    /// Gives a request up that waits.
    pub(super) fn give_up(&self, part: u64) {
        let begun = {
            let mut parts = self.parts.borrow_mut();
            let state = &mut parts[part as usize];
            let begun = state.protocol.cancel();
            state.taken = state.taken.filter(|_| begun);
            begun
        };
        if begun {
            // Nothing of it waits, and what it does to words of the living cannot fail.
            let _ = self.drive(part);
        }
    }

    /// Lets a part go that was entered.
    #[inline]
    pub(super) fn release(&self, part: u64) {
        self.parts.borrow_mut()[part as usize].protocol.release();
        // As for `give_up`.
        let _ = self.drive(part);
    }

    /// Owner and state of a part at this node, from the control region.
    pub(super) fn control(&self, part: u64) -> Result<(Version, Version, State), Error> {
        let parts = self.parts.borrow();
        let Some(state) = parts.get(part as usize) else {
            let (name, parts) = (self.name.clone(), parts.len() as u64);
            return Err(SharedError::NoSuchPart { name, part, parts }.into());
        };
        let node = self.memory.sizes().geometry.node();
        let load = |word| {
            let place = (part, state.home, state.at);
            let departed = &self.departed.borrow().1;
            self.memory.access(|| self.port(), departed, place, (word, Op::Load))
        };
        let owner = Version::of(load(Word::Owner(node))?);
        let held = Version::of(load(Word::Held(node))?);
        Ok((owner, held, State::of(state.taken, held, owner)))
    }

    /// Bytes fetched from other nodes, and how often.
    pub(super) fn moved(&self) -> (u64, u64) {
        self.moved.get()
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        let Some(own) = self.own.take() else { return };
        let home = {
            let engine = self.world.engine().borrow();
            self.memory.own_home(engine.port())
        };
        self.memory.part();
        let ranks = self.memory.sizes().geometry.ranks;
        let parts = self.division.count();
        self.world.registry().park(&self.name, parts, own, home, ranks);
    }
}

/// A request that is given up unless it comes to something.
#[derive(Debug)]
pub(super) struct Asking<'v> {
    variable: &'v Rc<Variable>,
    part: u64,
    over: bool,
}

impl<'v> Asking<'v> {
    #[inline]
    pub(super) fn new(
        variable: &'v Rc<Variable>,
        part: u64,
        kind: Kind,
        patience: Patience,
    ) -> Result<Asking<'v>, Error> {
        variable.request(part, kind, patience)?;
        Ok(Asking { variable, part, over: false })
    }

    /// What has come of it; `None`: not yet.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<Option<Result<Entry, Refusal>>, Error> {
        let outcome = self.variable.drive(self.part)?;
        self.over = !matches!(outcome, Outcome::Wait);
        Ok(match outcome {
            Outcome::Wait | Outcome::Released => None,
            Outcome::Entered(entry) => Some(Ok(entry)),
            Outcome::Refused(refusal) => Some(Err(refusal)),
        })
    }
}

impl Drop for Asking<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.over {
            self.variable.give_up(self.part);
        }
    }
}
