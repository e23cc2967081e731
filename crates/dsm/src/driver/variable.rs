//! A shared variable at one rank, over any protocol.

use std::rc::Rc;

use crate::{AccessKind, CopyState, Division, EntryResult, Patience, Style};
use hikyaku_msg::{Blocked, MEMORY_SLEEP, Pace, end_of_doze};
use hikyaku_nic::fabric::{Activity, Name, Wait, Wake};
use hikyaku_nic::time::Time;
use hikyaku_rank::{Communicator, PollingRest};

use super::contents::CopyContents;
use super::create::Variables;
use super::direct::{CallOutcome, DirectDriver, RequestOutcome};
use super::error::{Error, SharedError};
use super::memory::{EngineCell, VariableMemory};
use super::options::{Element, SharedOptions, Traffic};
use super::service::VariableSide;

/// Polls of a waiting rank before it makes progress on messages and yields.
pub(super) const LOOKS: u32 = 8;

/// The longest time, nanoseconds, that a rank stands back for others. They need a few operations
/// to ask. A rank that the system stops in the middle of them must not hold up the others.
const STAND_BACK: u64 = 1_000_000;

/// The time until the first poll of a rank that stands back, in virtual nanoseconds: about the cost
/// of a word on its own node. Each further interval is the time that it has stood back so far.
const SOON: u64 = 100;

/// A shared variable of this rank: an array of bytes, divided into parts that are acquired alone.
///
/// A rank that enters a part has its [`contents`](Variable::contents) until it releases the part.
#[derive(Debug)]
pub struct Variable {
    variables: Rc<Variables>,
    rank: Communicator,
    name: String,
    element: Element,
    division: Division,
    options: SharedOptions,
    driver: Driver,
    /// Whether the job runs in virtual time.
    is_virtual: bool,
}

/// The state of a wait for a part that has polled memory in vain.
#[derive(Debug)]
pub(super) struct LongWait {
    blocked: Blocked,
    polling: PollingRest,
}

/// The protocol that brings a variable to this rank.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a variable, and no pointer on the fast path")]
pub(super) enum Driver {
    /// Remote atomics and remote reads.
    Direct(DirectDriver),
    /// Messages to the owner, through the rank's service.
    Mailbox(Rc<VariableSide>),
}

impl Variable {
    pub(super) fn new(
        variables: &Rc<Variables>,
        name: &str,
        element: Element,
        division: Division,
        options: SharedOptions,
        driver: Driver,
    ) -> Variable {
        let (variables, rank) = (Rc::clone(variables), variables.rank().clone());
        let (name, is_virtual) = (name.to_owned(), driver.memory().is_virtual());
        Variable { variables, rank, name, element, division, options, driver, is_virtual }
    }

    /// The variable's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements.
    pub fn element(&self) -> &Element {
        &self.element
    }

    /// The shape and the parts.
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// The options with which it was made.
    pub fn options(&self) -> SharedOptions {
        self.options
    }

    /// The rank whose memory holds the part's queue, or that owns the part at first.
    pub fn home(&self, part: u64) -> u32 {
        self.driver.memory().sizes().home_of(part).0
    }

    /// Messages and operations that this rank has sent for it.
    pub fn traffic(&self) -> Traffic {
        match &self.driver {
            Driver::Direct(direct) => direct.traffic(),
            Driver::Mailbox(side) => side.traffic(),
        }
    }

    /// Bytes of contents received from other nodes, and the number of times.
    pub fn moved(&self) -> (u64, u64) {
        match &self.driver {
            Driver::Direct(direct) => direct.moved(),
            Driver::Mailbox(side) => side.moved(),
        }
    }

    /// Owner and state of a part at this node. Asks no rank, and handles no message.
    ///
    /// # Errors
    /// There is no such part.
    pub fn control(&self, part: u64) -> Result<(u32, CopyState), Error> {
        let control = match &self.driver {
            Driver::Direct(direct) => direct.control(self.engine(), part)?,
            Driver::Mailbox(side) => {
                side.catch_up(self.engine());
                side.control(part)
            }
        };
        control.ok_or_else(|| self.no_such_part(part))
    }

    /// The elements of a part.
    #[inline(always)]
    pub fn contents<T: bytemuck::Pod>(&self, part: u64) -> CopyContents<T> {
        let (start, length) = self.extent(part);
        let copy = self.driver.memory().copy();
        CopyContents::new(copy, start as usize, length / size_of::<T>().max(1))
    }

    /// The first byte and the length of a part, in bytes.
    #[inline]
    fn extent(&self, part: u64) -> (u64, usize) {
        let element = u64::from(self.element.bytes);
        let (start, length) = self.division.extent(part);
        (start * element, (length * element) as usize)
    }

    /// The name of the variable and the part, for messages.
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

    #[inline]
    pub(super) fn engine(&self) -> &EngineCell {
        self.rank.engine()
    }

    pub(super) fn now(&self) -> Time {
        self.rank.now()
    }

    pub(super) fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// Requests a part.
    #[inline]
    pub(super) fn request(
        &self,
        part: u64,
        kind: AccessKind,
        patience: Patience,
    ) -> Result<(), Error> {
        let asked = match &self.driver {
            Driver::Direct(direct) => direct.request(part, kind, patience),
            Driver::Mailbox(side) => {
                self.variables.service().request(self.engine(), side, part, (kind, patience))
            }
        };
        match asked {
            RequestOutcome::Begun => Ok(()),
            RequestOutcome::Taken => {
                Err(SharedError::Recursive { variable: self.label(part) }.into())
            }
            RequestOutcome::Overwritten => {
                Err(SharedError::Overwritten { variable: self.label(part) }.into())
            }
            RequestOutcome::NoSuchPart => Err(self.no_such_part(part)),
        }
    }

    /// Stores a value that no rank would store into a word of the first part, as a foreign process
    /// may. For tests.
    #[doc(hidden)]
    pub fn overwrite(&self, word: crate::Word, value: u64) {
        self.driver.memory().overwrite(0, word, value);
    }

    /// Acquires a part on the fast path: within nanoseconds, or with a fetch. `None`: the part must
    /// be requested.
    #[inline(always)]
    pub fn enter_free(&self, part: u64, kind: AccessKind) -> Option<Result<EntryResult, Error>> {
        match &self.driver {
            Driver::Direct(direct) => {
                direct.enter_free(&self.rank, part, kind, || self.extent(part))
            }
            Driver::Mailbox(_) => None,
        }
    }

    /// Drives a requested part as far as possible now.
    #[inline]
    pub(super) fn drive(&self, part: u64) -> Result<CallOutcome, Error> {
        match &self.driver {
            Driver::Direct(direct) => direct.drive(&self.rank, part, || self.extent(part)),
            Driver::Mailbox(side) => Ok(self.variables.service().look(self.engine(), side, part)),
        }
    }

    /// Releases an entered part.
    #[inline]
    pub fn release(&self, part: u64) {
        let left = match &self.driver {
            Driver::Direct(direct) => direct.leave_free(&self.rank, part),
            Driver::Mailbox(_) => false,
        };
        if !left {
            self.give(part, true);
        }
    }

    /// Releases a part step by step, or cancels the request for it. A child of the rank's process
    /// has neither.
    #[inline(never)]
    pub(super) fn give(&self, part: u64, entered: bool) {
        if self.is_of_a_child() {
            return;
        }
        match &self.driver {
            Driver::Direct(direct) => direct.give(&self.rank, part, entered),
            Driver::Mailbox(side) => self.variables.service().give(self.engine(), side, part),
        }
    }

    /// Whether this is a copy of the variable in a forked child of the rank's process.
    fn is_of_a_child(&self) -> bool {
        self.engine().try_borrow().is_ok_and(|engine| engine.check_process().is_err())
    }

    /// Updates the set of dead ranks, for requests that do not wait. The service does so in each
    /// poll.
    pub(super) fn look_around(&self) {
        if let Driver::Direct(direct) = &self.driver {
            direct.look_around(self.engine());
        }
    }

    /// Notes that a request that does not wait has found another rank first.
    #[cold]
    pub(super) fn found_nothing(&self) {
        self.rank.found_nothing();
    }

    /// Waits briefly for a part. `turn` counts the waits of one request.
    #[inline]
    pub(super) fn rest(
        &self,
        asked: (u64, AccessKind),
        turn: u32,
        until: Option<Time>,
        wait: &mut Option<Box<LongWait>>,
    ) {
        if turn % LOOKS != LOOKS - 1 && !self.is_virtual && !self.is_by_datagrams() {
            return self.watch(asked.0);
        }
        self.rest_long(asked, until, wait);
    }

    /// Ends a round of a wait that has polled memory in vain.
    #[inline(never)]
    fn rest_long(
        &self,
        asked: (u64, AccessKind),
        until: Option<Time>,
        wait: &mut Option<Box<LongWait>>,
    ) {
        let LongWait { blocked, polling } = self.begun(asked, wait);
        self.report(asked);
        if self.is_virtual {
            // A rank that changes what this one waits for wakes it.
            return self.rank.rest(blocked, Pace::Doze { most: None, until });
        }
        if !self.is_by_datagrams() || self.rank.is_shared() {
            return self.rank.rest(blocked, Pace::memory(until));
        }
        self.rank.attend();
        let any = self.engine().borrow_mut().progress();
        let now = self.now();
        if !polling.is_long(now, any) {
            return self.rank.give_way(blocked);
        }
        self.engine().borrow_mut().begin_rest(blocked);
        let end = end_of_doze(|| now, (Some(MEMORY_SLEEP), until));
        // Datagrams ring no doorbell: this sleep ends when one arrives.
        self.variables.service().sleep(end.map_or(MEMORY_SLEEP, |end| end - now));
        self.engine().borrow_mut().end_rest(blocked, Wake::Slept);
    }

    /// Begins to account for a wait, unless it has begun.
    fn begun<'w>(
        &self,
        asked: (u64, AccessKind),
        wait: &'w mut Option<Box<LongWait>>,
    ) -> &'w mut LongWait {
        wait.get_or_insert_with(|| {
            if !self.is_virtual {
                self.engine().borrow_mut().port_mut().begin_wait();
            }
            let (blocked, polling) = (Blocked::new(self.wait_for(asked)), PollingRest::default());
            Box::new(LongWait { blocked, polling })
        })
    }

    /// Reports that the current call waits for a part, if a report is being made.
    pub(super) fn report(&self, asked: (u64, AccessKind)) {
        let mut engine = self.engine().borrow_mut();
        if engine.reported_waits().is_some() {
            engine.report_wait(self.wait_for(asked));
        }
    }

    fn is_by_datagrams(&self) -> bool {
        matches!(&self.driver, Driver::Mailbox(side) if side.style == Style::Datagrams)
    }

    /// Polls briefly the word that a request watches.
    #[inline]
    fn watch(&self, part: u64) {
        match &self.driver {
            Driver::Direct(direct) => direct.watch(part),
            Driver::Mailbox(_) => std::hint::spin_loop(),
        }
    }

    /// The first part of [`Variable::rest`], which never sleeps. `false`: polling memory is no
    /// longer enough.
    #[inline]
    pub(super) fn glance(&self, part: u64, turn: u32) -> bool {
        let glances = turn < self.after_glances(turn);
        if glances {
            self.watch(part);
        }
        glances
    }

    /// The number of the wait at which polling memory is no longer enough: `turn` or a later one.
    #[inline]
    pub(super) fn after_glances(&self, turn: u32) -> u32 {
        let is_watched = !self.is_virtual && matches!(self.driver, Driver::Direct(_));
        if is_watched { turn.max(LOOKS - 1) } else { turn }
    }

    /// The announcement of a wait for a part. It names the holder, to this rank's knowledge.
    fn wait_for(&self, (part, kind): (u64, AccessKind)) -> Wait {
        let activity = match kind {
            AccessKind::Write => Activity::AcquireToWrite,
            AccessKind::Read => Activity::AcquireToRead,
        };
        let holder = match &self.driver {
            Driver::Direct(direct) => direct.holder(part),
            Driver::Mailbox(side) => side.holder(part),
        };
        let part = i32::try_from(part).ok().filter(|_| self.division.count() > 1);
        Wait::new(activity).named(Name::new(&self.name)).with(holder, part)
    }

    /// Ends a wait.
    #[inline(never)]
    pub(super) fn awake(&self, wait: &LongWait) {
        // A rank that panics in a call has borrowed the engine, and no longer waits.
        if let Ok(mut engine) = self.engine().try_borrow_mut() {
            engine.awake(&wait.blocked);
        }
    }

    /// Lets others ask first, for a moment. `since`: the begin of standing back.
    #[inline(never)]
    pub(super) fn stand_back(
        &self,
        asked: (u64, AccessKind),
        since: &mut Option<Time>,
        until: Option<Time>,
        wait: &mut Option<Box<LongWait>>,
    ) {
        let LongWait { blocked, .. } = self.begun(asked, wait);
        self.report(asked);
        let now = self.now();
        let stood = now.nanoseconds() - since.get_or_insert(now).nanoseconds();
        if stood >= STAND_BACK {
            *since = None;
            if let Driver::Direct(direct) = &self.driver {
                direct.insist(asked.0);
            }
        } else if self.is_virtual {
            let most = Some(Time::from_nanoseconds(stood.max(SOON)));
            return self.rank.rest(blocked, Pace::Doze { most, until });
        }
        self.rank.attend();
        self.engine().borrow_mut().progress();
        if since.is_some() {
            self.rank.give_way(blocked);
        }
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        if self.is_of_a_child() {
            // Its parent continues to use the variable.
            return;
        }
        self.variables.forget(&self.name, self.division.count());
        match &mut self.driver {
            Driver::Direct(direct) => self.variables.park(direct.part(self.rank.engine())),
            // It serves on until all others have parted.
            Driver::Mailbox(side) => side.part(self.rank.engine()),
        }
    }
}

impl Driver {
    #[inline]
    fn memory(&self) -> &VariableMemory {
        match self {
            Driver::Direct(direct) => direct.memory(),
            Driver::Mailbox(side) => side.memory(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::mem::ManuallyDrop;

    use hikyaku_nic::fabric::DeathCause;
    use hikyaku_nic::hosted::Host;
    use hikyaku_nic::layer::Layer as _;

    use super::super::create::votes::{make, on_ranks};
    use super::super::{Asking, Protocol};
    use super::*;
    use crate::Word;
    use crate::word::READERS_A_WORD;

    const DIRECT: (Protocol, Option<u64>) = (Protocol::Direct, None);

    fn direct(variable: &Variable) -> &DirectDriver {
        match &variable.driver {
            Driver::Direct(direct) => direct,
            Driver::Mailbox(_) => panic!("it is answered by its owner"),
        }
    }

    #[test]
    fn a_request_polls_memory_before_it_may_sleep() {
        for (protocol, polls) in [(Protocol::Direct, LOOKS - 1), (Protocol::Fagus, 0)] {
            on_ranks((1, 1), (protocol, None), |all, _| {
                let shared = make(&all, "polled").unwrap();
                let mut asking =
                    Asking::new(&shared, 0, AccessKind::Write, Patience::Wait).unwrap();
                let glances = |asking: &mut Asking<'_>| {
                    (0..2 * LOOKS).take_while(|_| asking.glance()).count() as u32
                };
                assert_eq!(glances(&mut asking), polls);
                asking.rest_after_glances();
                assert_eq!(glances(&mut asking), 0);
                assert!(asking.poll().unwrap().is_some_and(|entry| entry.is_some()));
                shared.release(0);
            });
        }
    }

    #[test]
    fn who_waits_long_says_so_and_names_a_reader() {
        on_ranks((2, 2), DIRECT, |all, together| {
            let shared = make(&all, "read").unwrap();
            if all.rank().rank() == 1 {
                shared.enter(0, AccessKind::Read).unwrap();
                together.wait();
                together.wait();
                return shared.release(0);
            }
            together.wait();
            let announced = || {
                let engine = shared.engine().borrow();
                engine.port().inner().host().registry().wait(0)
            };
            let mut asking = Asking::new(&shared, 0, AccessKind::Write, Patience::Wait).unwrap();
            let outcome = asking.poll().unwrap();
            (0..40 * LOOKS).for_each(|_| asking.rest_after_glances());
            let meanwhile = announced();
            drop(asking);
            together.wait();
            assert_eq!((outcome, announced()), (None, None));
            let wait = meanwhile.unwrap();
            let said = (wait.activity, wait.name.as_str(), wait.peer);
            assert_eq!(said, (Activity::AcquireToWrite, "read", Some(1)));
        });
    }

    #[test]
    fn a_dead_ranks_turn_is_passed_on() {
        on_ranks((2, 2), DIRECT, |all, together| {
            let shared = make(&all, "passed").unwrap();
            if all.rank().rank() == 1 {
                together.wait();
                let (all, shared) = (ManuallyDrop::new(all), ManuallyDrop::new(shared));
                shared.request(0, AccessKind::Write, Patience::Wait).unwrap();
                assert!(matches!(shared.drive(0).unwrap(), CallOutcome::Wait));
                all.rank().engine().borrow().port().inner().host().fail(1, DeathCause::Signal(9));
                together.wait();
                return;
            }
            shared.enter(0, AccessKind::Write).unwrap();
            together.wait();
            together.wait();
            shared.release(0);
            assert_eq!(direct(&shared).holder(0), None);
        });
    }

    #[test]
    fn who_insists_no_longer_stands_back() {
        on_ranks((1, 1), DIRECT, |all, _| {
            let shared = make(&all, "wanted").unwrap();
            shared.overwrite(Word::Readers(0), 1 << (READERS_A_WORD + 1));
            shared.request(0, AccessKind::Write, Patience::Wait).unwrap();
            for _ in 0..3 {
                assert!(matches!(shared.drive(0).unwrap(), CallOutcome::StandBack));
            }
            direct(&shared).insist(0);
            assert!(matches!(shared.drive(0).unwrap(), CallOutcome::Entered(_)));
            shared.release(0);
        });
    }
}
