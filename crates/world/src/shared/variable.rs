//! A shared variable as one rank has it, whatever its protocol.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hikyaku_dsm::{Division, Entry, Kind, Patience, Refusal, State};
use hikyaku_nic::fabric::{Activity, Name, Port, Wait};
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

/// Rests of a request between two times that it says what it waits for, who has it perhaps being
/// somebody else by then. The first times it would cost as much as short waits take.
const ANNOUNCE: u32 = 64;

/// Longest sleep of a rank that waits: whoever is about to sleep when it is woken sleeps so long.
/// In virtual time no wake is lost, and it sleeps until it is woken, or nothing is under way: ranks
/// that wait for each other are found out.
pub(super) const LOOK_AGAIN: Time = Time::from_nanoseconds(1_000_000);

/// Longest that a rank stands back for others, who take a few operations for what they are let
/// past for. One that was stopped by the system in the middle of them must not hold up the others.
const STAND_BACK: u64 = 1_000_000;

/// First look of one that stands back, in virtual time: about a word of its own node there. Each
/// further one is after as long as it has stood there so far.
const SOON: u64 = 100;

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

    /// Acquires a part, if nobody has it and that is simple.
    #[inline(always)]
    pub(super) fn enter_free(&self, part: u64, kind: Kind) -> Option<Result<Entry, Error>> {
        self.driver.enter_free(&self.world, part, kind, || self.extent(part))
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
    fn rest(&self, (part, kind): (u64, Kind), turn: u32, until: Option<Time>) {
        if self.is_virtual {
            return self.rest_in_virtual_time((part, kind), turn, until);
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

    /// The first part of [`Variable::rest`], which never sleeps; `false`: there is more to do than
    /// to look at memory.
    #[inline]
    pub(super) fn glance(&self, part: u64, turn: u32) -> bool {
        let glances = turn < self.after_glances(turn);
        if glances {
            self.driver.watch(part);
        }
        glances
    }

    /// The wait of a request at which there is more to do than to look at memory: this one or a
    /// later one.
    #[inline]
    pub(super) fn after_glances(&self, turn: u32) -> u32 {
        let is_watched = !self.is_virtual && self.driver.is_watched();
        if is_watched { turn.max(LOOKS - 1) } else { turn }
    }

    #[inline(never)]
    fn rest_in_virtual_time(&self, asked: (u64, Kind), turn: u32, until: Option<Time>) {
        self.world.attend();
        let mut engine = self.world.engine().borrow_mut();
        if turn == 0 {
            self.since.set(engine.port().now());
        }
        if engine.progress() {
            return;
        }
        let port = engine.port_mut();
        port.announce_wait(Some(self.wait(asked, self.since.get())));
        port.park(until);
        port.announce_wait(None);
    }

    /// What a rank that waits for a part says of it: who has it now.
    fn wait(&self, (part, kind): (u64, Kind), since: Time) -> Wait {
        let activity = match kind {
            Kind::Write => Activity::AcquireToWrite,
            Kind::Read => Activity::AcquireToRead,
        };
        let wait = Wait { since, ..Wait::new(activity) };
        wait.named(Name::new(&self.name)).with(self.driver.holder(part), None)
    }

    /// Says that this rank has waited for a part for long. `since`: when that was said first.
    #[cold]
    #[inline(never)]
    fn announce(&self, asked: (u64, Kind), since: &mut Option<Time>) {
        let engine = self.world.engine().borrow();
        let port = engine.port();
        let since = *since.get_or_insert_with(|| port.now());
        port.announce_wait(Some(self.wait(asked, since)));
    }

    /// The end of a wait that was announced.
    #[cold]
    #[inline(never)]
    fn announce_end(&self) {
        // A rank that panics in a call has the engine, and waits no more anyway.
        if let Ok(engine) = self.world.engine().try_borrow() {
            engine.port().announce_wait(None);
        }
    }

    /// Lets others past for a moment. `since`: when that began.
    #[inline(never)]
    fn stand_back(&self, part: u64, since: &mut Option<Time>, until: Option<Time>) {
        self.world.attend();
        let mut engine = self.world.engine().borrow_mut();
        engine.progress();
        let port = engine.port_mut();
        let now = port.now();
        let stood = now.nanoseconds() - since.get_or_insert(now).nanoseconds();
        if stood >= STAND_BACK {
            *since = None;
            return self.driver.insist(part);
        }
        if self.is_virtual {
            let soon = now + Time::from_nanoseconds(stood.max(SOON));
            port.park(Some(until.map_or(soon, |until| until.min(soon))));
        } else {
            drop(engine);
            std::thread::yield_now();
        }
    }

    /// Gives a request up that waits.
    pub(super) fn give_up(&self, part: u64) {
        self.give(part, false);
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
        self.give(part, true);
    }

    /// Gives a part or a request for it back; a child of the rank's process has neither.
    fn give(&self, part: u64, entered: bool) {
        let engine = self.world.engine();
        if !engine.try_borrow().is_ok_and(|engine| engine.check_process().is_err()) {
            self.driver.give(&self.world, part, entered);
        }
    }

    /// Owner and state of a part at this node.
    pub(super) fn control(&self, part: u64) -> Result<(u32, State), Error> {
        self.driver.control(&self.world, part)?.ok_or_else(|| self.no_such_part(part))
    }

    /// The home rank of a part.
    pub(super) fn home(&self, part: u64) -> u32 {
        self.driver.memory().sizes().home_of(part).0
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
    kind: Kind,
    over: bool,
    /// How often it has rested; whether it stands back, and since when.
    turn: u32,
    stands_back: bool,
    since: Option<Time>,
    /// Since when it has been said that this rank waits.
    announced: Option<Time>,
}

impl<'v> Asking<'v> {
    #[inline]
    pub(super) fn new(
        variable: &'v Rc<Variable>,
        part: u64,
        kind: Kind,
        patience: Patience,
    ) -> Result<Asking<'v>, Error> {
        variable.world.engine().borrow().check_process()?;
        variable.request(part, kind, patience)?;
        let (over, stands_back) = (false, false);
        let (since, announced) = (None, None);
        Ok(Asking { variable, part, kind, over, turn: 0, stands_back, since, announced })
    }

    /// Whether it has come to something.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn variable(&self) -> &'v Rc<Variable> {
        self.variable
    }

    pub(super) fn part(&self) -> u64 {
        self.part
    }

    /// What has come of it; `None`: not yet.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<Option<Result<Entry, Refusal>>, Error> {
        let outcome = self.variable.drive(self.part)?;
        self.stands_back = matches!(outcome, Outcome::StandBack);
        self.over = !self.stands_back && !matches!(outcome, Outcome::Wait);
        Ok(match outcome {
            Outcome::Wait | Outcome::StandBack | Outcome::Released => None,
            Outcome::Entered(entry) => Some(Ok(entry)),
            Outcome::Refused(refusal) => Some(Err(refusal)),
        })
    }
}

impl Asking<'_> {
    /// Waits a little for what it was told to wait for.
    #[inline]
    pub(super) fn rest(&mut self, until: Option<Time>) {
        self.turn = self.turn.wrapping_add(1);
        self.announce_if_long();
        if !self.stands_back {
            return self.variable.rest((self.part, self.kind), self.turn.wrapping_sub(1), until);
        }
        if !self.turn.is_multiple_of(LOOKS) && !self.variable.is_virtual {
            return std::hint::spin_loop();
        }
        self.variable.stand_back(self.part, &mut self.since, until);
    }

    /// The part of a rest that never sleeps; `false`: it is over, or there is nothing to look at.
    #[inline]
    pub(super) fn glance(&mut self) -> bool {
        let glanced = !self.stands_back && self.variable.glance(self.part, self.turn);
        self.turn += u32::from(glanced);
        glanced
    }

    /// The part of a rest that may sleep.
    pub(super) fn rest_after_glances(&mut self) {
        self.turn = self.variable.after_glances(self.turn);
        self.rest(None);
    }

    /// Now and then says what is waited for, if that is not said otherwise.
    #[inline]
    fn announce_if_long(&mut self) {
        if self.turn.is_multiple_of(ANNOUNCE) && !self.variable.is_virtual {
            self.variable.announce((self.part, self.kind), &mut self.announced);
        }
    }

    /// [`Asking::poll`] within a future, which is polled when somebody wakes this rank: whoever is
    /// let past does not, so that is waited for in place.
    pub(super) fn poll_standing(&mut self) -> Result<Option<Result<Entry, Refusal>>, Error> {
        loop {
            let answer = self.poll()?;
            if !self.stands_back {
                if answer.is_none() {
                    self.turn = self.turn.wrapping_add(1);
                    self.announce_if_long();
                }
                return Ok(answer);
            }
            self.rest(None);
        }
    }
}

impl Drop for Asking<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.announced.is_some() {
            self.variable.announce_end();
        }
        if !self.over {
            self.variable.give_up(self.part);
        }
    }
}
