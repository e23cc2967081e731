//! A shared variable at one rank, with any protocol.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hikyaku_dsm::{Division, Entry, Kind, Patience, Refusal, State};
use hikyaku_nic::fabric::{Activity, Name, Port, Wait};
use hikyaku_nic::time::Time;
use hikyaku_rank::{LOOK_AGAIN, Rest};

use super::contents::Contents;
use super::driver::{Asked, Driver, Outcome};
use super::error::SharedError;
use super::options::{Element, SharedOptions};
use super::protocol::Traffic;
use crate::error::Error;
use crate::world::World;

/// Polls of a waiting rank before it makes progress on messages and yields.
const LOOKS: u32 = 8;

/// Rests of a request between two announcements of its wait, since the holder may have changed.
/// Announcing the first rests would cost as much as short waits take.
const ANNOUNCE: u32 = 64;

/// Longest time that a rank stands back for others, which need a few operations to ask. A rank that
/// the system stops in the middle of them must not hold up the others.
const STAND_BACK: u64 = 1_000_000;

/// First poll of a rank that stands back, in virtual time: about a word of its own node there. The
/// time until each further poll is the time that it has stood back so far.
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

    /// Acquires a part on the fast path, if it is unlocked.
    #[inline(always)]
    pub(super) fn enter_free(&self, part: u64, kind: Kind) -> Option<Result<Entry, Error>> {
        self.driver.enter_free(&self.world, part, kind, || self.extent(part))
    }

    /// Drives a part until it has an outcome.
    #[inline]
    pub(super) fn drive(&self, part: u64) -> Result<Outcome, Error> {
        self.driver.drive(&self.world, part, || self.extent(part))
    }

    /// The elements of a part, as `T`s.
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

    /// Looks up the dead ranks, for requests that do not wait.
    pub(super) fn look_around(&self) {
        self.driver.look_around(&self.world);
    }

    /// Waits a moment for a part. `turn` counts the waits of one request.
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

    /// The first part of [`Variable::rest`], which never sleeps; `false`: polling memory is no
    /// longer enough.
    #[inline]
    pub(super) fn glance(&self, part: u64, turn: u32) -> bool {
        let glances = turn < self.after_glances(turn);
        if glances {
            self.driver.watch(part);
        }
        glances
    }

    /// The wait of a request at which polling memory is no longer enough: this one or a later one.
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

    /// The announcement of a rank that waits for a part: it names the holder.
    fn wait(&self, (part, kind): (u64, Kind), since: Time) -> Wait {
        let activity = match kind {
            Kind::Write => Activity::AcquireToWrite,
            Kind::Read => Activity::AcquireToRead,
        };
        let wait = Wait { since, ..Wait::new(activity) };
        wait.named(Name::new(&self.name)).with(self.driver.holder(part), None)
    }

    /// Announces that this rank has waited long for a part. `since`: the first announcement.
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
        // A rank that panics in a call has borrowed the engine, and waits no more anyway.
        if let Ok(engine) = self.world.engine().try_borrow() {
            engine.port().announce_wait(None);
        }
    }

    /// Lets others ask first for a moment. `since`: when that began.
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

    /// Cancels a waiting request.
    pub(super) fn give_up(&self, part: u64) {
        self.give(part, false);
    }

    /// Releases an entered part.
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

    /// Releases a part, or cancels the request for it; a child of the rank's process has neither.
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

    /// Messages and operations that this rank has sent for it.
    pub(super) fn traffic(&self) -> Traffic {
        self.driver.traffic()
    }

    /// Bytes of contents fetched from other nodes, and how often.
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

/// A request that is cancelled when dropped, unless it has an outcome.
#[derive(Debug)]
pub(super) struct Asking<'v> {
    variable: &'v Rc<Variable>,
    part: u64,
    kind: Kind,
    over: bool,
    /// The number of rests; whether it stands back, and since when.
    turn: u32,
    stands_back: bool,
    since: Option<Time>,
    /// Since when this rank's wait has been announced.
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

    /// Whether the request has an outcome.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn variable(&self) -> &'v Rc<Variable> {
        self.variable
    }

    pub(super) fn part(&self) -> u64 {
        self.part
    }

    /// The outcome; `None`: not yet.
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
    /// Waits a moment.
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

    /// The part of a rest that never sleeps; `false`: the request is over, or no word can be
    /// polled.
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

    /// Announces the wait now and then, if no other part of the wait does.
    #[inline]
    fn announce_if_long(&mut self) {
        if self.turn.is_multiple_of(ANNOUNCE) && !self.variable.is_virtual {
            self.variable.announce((self.part, self.kind), &mut self.announced);
        }
    }

    /// [`Asking::poll`] within a future, which is polled when another rank wakes this one. Standing
    /// back ends without a wake, so it is waited for in place.
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
