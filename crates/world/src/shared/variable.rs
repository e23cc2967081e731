//! A shared variable as one rank has it, whatever its protocol.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hikyaku_dsm::{Division, Entry, Kind, Patience, Refusal, State};
use hikyaku_nic::fabric::{Activity, Port, Wait};
use hikyaku_nic::time::Time;

use super::contents::Contents;
use super::driver::{Asked, Driver, Outcome};
use super::error::SharedError;
use super::options::{Element, SharedOptions};
use super::protocol::Traffic;
use super::service::Rest;
use crate::error::Error;
use crate::world::World;

/// How often a waiting rank looks before it makes progress on messages and gives way.
const LOOKS: u32 = 8;

/// Longest sleep of a rank that waits: whoever is about to sleep when it is woken sleeps so long.
pub(super) const LOOK_AGAIN: Time = Time::from_nanoseconds(1_000_000);

/// In virtual time, how often a waiting rank looks by itself, each time after twice as long. No
/// wake is lost there; but nobody wakes those who wait behind a request that was given up. After
/// that it sleeps until it is woken, or nothing is under way: ranks that wait for each other are
/// found out.
const LOOKS_BY_ITSELF: u32 = 10;

/// A shared variable of this rank.
#[derive(Debug)]
pub(super) struct Variable {
    world: World,
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) division: Division,
    pub(super) options: SharedOptions,
    driver: Driver,
    rest: RefCell<Rest>,
    /// Whether the job runs in virtual time; since when this rank waits there.
    is_virtual: bool,
    since: Cell<Time>,
}

impl Variable {
    pub(super) fn new(
        world: World,
        name: String,
        element: Element,
        division: Division,
        options: SharedOptions,
        driver: Driver,
    ) -> Variable {
        let rest = RefCell::default();
        let (is_virtual, since) = (driver.is_virtual(), Cell::default());
        Variable { world, name, element, division, options, driver, rest, is_virtual, since }
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

    fn no_such_part(&self, part: u64) -> Error {
        let (name, parts) = (self.name.clone(), self.division.count());
        SharedError::NoSuchPart { name, part, parts }.into()
    }

    /// Asks for a part.
    #[inline]
    pub(super) fn request(&self, part: u64, kind: Kind, patience: Patience) -> Result<(), Error> {
        match self.driver.request(&self.world, part, kind, patience) {
            Asked::Begun => Ok(()),
            Asked::Taken => Err(SharedError::Recursive { variable: self.label(part) }.into()),
            Asked::NoSuchPart => Err(self.no_such_part(part)),
        }
    }

    /// Acquires a part for writing, if nobody has it and that is simple.
    #[inline(always)]
    pub(super) fn enter_free(&self, part: u64) -> Option<Entry> {
        self.driver.enter_free(part)
    }

    /// Drives a part until it says something.
    #[inline]
    pub(super) fn drive(&self, part: u64) -> Result<Outcome, Error> {
        self.driver.drive(&self.world, part, || self.extent(part))
    }

    /// Where the elements of a part are, as `T`s, and how many.
    #[inline]
    pub(super) fn contents<T: crate::Scalar>(&self, part: u64) -> Contents<T> {
        let (start, length) = self.extent(part);
        Contents::new(self.driver.copy(), start as usize, length / size_of::<T>().max(1))
    }

    /// First byte and length of a part, bytes.
    #[inline]
    fn extent(&self, part: u64) -> (u64, usize) {
        let element = u64::from(self.element.bytes);
        let (start, length) = self.division.extent(part);
        (start * element, (length * element) as usize)
    }

    /// Looks who is gone: for requests that do not wait.
    pub(super) fn look_around(&self) {
        self.driver.look_around(&self.world);
    }

    /// Waits a little for a part. `turn` counts the waits of one request.
    #[inline]
    pub(super) fn rest(&self, part: u64, turn: u32, until: Option<Time>) {
        if self.is_virtual {
            return self.rest_in_virtual_time(turn, until);
        }
        if turn == 0 {
            self.rest.take();
        }
        if self.driver.rest(&self.world, &mut self.rest.borrow_mut(), until) {
            return;
        }
        if turn % LOOKS != LOOKS - 1 {
            return self.driver.watch(part);
        }
        self.world.attend();
        let mut engine = self.world.engine().borrow_mut();
        if turn == LOOKS - 1 {
            engine.port_mut().begin_wait();
        }
        if !engine.progress() {
            let port = engine.port_mut();
            let soon = port.now() + LOOK_AGAIN;
            port.park(Some(until.map_or(soon, |until| until.min(soon))));
        }
    }

    #[inline(never)]
    fn rest_in_virtual_time(&self, turn: u32, until: Option<Time>) {
        self.world.attend();
        let mut engine = self.world.engine().borrow_mut();
        if turn == 0 {
            self.since.set(engine.port().now());
        }
        if engine.progress() {
            return;
        }
        let port = engine.port_mut();
        // A few of the waits return at once.
        let looks = turn / 3;
        let soon = (looks < LOOKS_BY_ITSELF)
            .then(|| port.now() + Time::from_nanoseconds(LOOK_AGAIN.nanoseconds() << looks));
        let first = until.into_iter().chain(soon).min();
        let (activity, since) = (Activity::Acquire, self.since.get());
        port.announce_wait(Some(Wait { activity, peer: None, tag: None, since }));
        port.park(first);
        port.announce_wait(None);
    }

    /// Gives a request up that waits.
    pub(super) fn give_up(&self, part: u64) {
        self.driver.give(&self.world, part, false);
    }

    /// Lets a part go that was entered.
    #[inline]
    pub(super) fn release(&self, part: u64) {
        if !self.driver.leave_free(&self.world, part) {
            self.release_in_steps(part);
        }
    }

    #[inline(never)]
    fn release_in_steps(&self, part: u64) {
        self.driver.give(&self.world, part, true);
    }

    /// Owner and state of a part at this node.
    pub(super) fn control(&self, part: u64) -> Result<(u32, State), Error> {
        self.driver.control(&self.world, part)?.ok_or_else(|| self.no_such_part(part))
    }

    /// What this rank has sent to others for it.
    pub(super) fn traffic(&self) -> Traffic {
        self.driver.traffic()
    }

    /// Bytes of contents that came from elsewhere, and how often.
    pub(super) fn moved(&self) -> (u64, u64) {
        self.driver.moved()
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        let registry = self.world.registry();
        registry.forget(&self.name, self.division.count());
        if let Some((own, home)) = self.driver.part(&self.world) {
            registry.park(own, home, self.driver.sizes().geometry.ranks);
        }
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
