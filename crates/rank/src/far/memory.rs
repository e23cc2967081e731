//! Operations on memory of ranks on other hosts: the target's progress carries them out, by the
//! functions of nic that a rank on its own host uses, and answers.
//!
//! A call waits for its answer, like for a reply of hardware, and serves others meanwhile. So two
//! ranks that call each other make progress. A target that computes delays its callers until its
//! next call of the library. A call is a sequence of steps, none of which waits: where threads
//! share the rank, a window takes them one by one and lets other threads enter in between.
//!
//! Memory that a rank has *given* to the job outlives the rank, as on one host: after its process
//! has ended, another rank of its host receives the requests. If the target dies before its answer
//! arrives, the operation is sent again, to another target. If the first one had carried it out,
//! the word holds the value that this rank wrote, and the answer follows from that: an exchange has
//! succeeded.

use std::task::{Poll, ready};

use hikyaku_msg::MEMORY_SLEEP;
use hikyaku_nic::fabric::{
    Activity, Atomic, Command, Completed, DeathCause, Event, FullCause, Get, MemoryPort, Name,
    Notification, Operation, PeerState, Port, PostError, Rank, RemoteAddress, Reply, Rights, Space,
    Wait, Wake,
};
use hikyaku_nic::hosted::{Rest, RestStart};
use hikyaku_nic::layer::Layer;
use hikyaku_nic::time::Time;

use crate::near::{NearPort, NearTables};

use super::landing::LandingState;
use super::wire::{self, PutPart, Told, WireAddress};
use super::{Far, NEEDED};

/// Bytes that one call reads.
const READ: usize = 1 << 20;

/// The time after which a wait is announced.
const ANNOUNCE: Time = Time::from_nanoseconds(300_000_000);

/// The calls that wait for their answers: one, or one of each thread.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The number of the last call.
    number: u32,
    open: Vec<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    number: u32,
    to: Rank,
    /// The number of expected answers.
    answers: u32,
    /// The first refusal, or the last value.
    outcome: Option<Result<u64, PostError>>,
    /// Received bytes, and the expected number.
    data: Vec<u8>,
    wanted: usize,
}

impl Calls {
    fn begin(&mut self, to: Rank, wanted: usize) -> u32 {
        self.number = self.number.wrapping_add(1).max(wire::UNANSWERED + 1);
        let (number, data) = (self.number, Vec::new());
        self.open.push(OpenCall { number, to, answers: 0, outcome: None, data, wanted });
        number
    }

    fn get(&mut self, number: u32) -> Option<&mut OpenCall> {
        self.open.iter_mut().find(|call| call.number == number)
    }

    /// Removes a call; later answers are ignored.
    fn end(&mut self, number: u32) -> Option<OpenCall> {
        let at = self.open.iter().position(|call| call.number == number)?;
        Some(self.open.swap_remove(at))
    }

    /// Expects one more answer.
    fn expect(&mut self, number: u32) {
        if let Some(call) = self.get(number) {
            call.answers += 1;
        }
    }

    fn is_refused(&mut self, number: u32) -> bool {
        self.get(number).is_none_or(|call| matches!(call.outcome, Some(Err(_))))
    }

    /// The outcome of a call after all its answers have arrived, with the bytes.
    fn take(&mut self, number: u32) -> Option<(Result<u64, PostError>, Vec<u8>)> {
        if self.get(number).is_some_and(|call| call.answers > 0) {
            return None;
        }
        let ended = self.end(number).map(|call| (call.outcome.unwrap_or(Ok(0)), call.data));
        Some(ended.unwrap_or((Ok(0), Vec::new())))
    }

    /// Handles bytes for a call.
    pub(super) fn data(&mut self, source: Rank, number: u32, bytes: &[u8]) {
        let Some(call) = self.get(number).filter(|call| call.to == source) else { return };
        if bytes.len() <= call.wanted - call.data.len() {
            call.data.extend_from_slice(bytes);
            if call.data.len() == call.wanted {
                call.answer(Ok(0));
            }
        }
    }

    /// Handles an answer to a call.
    pub(super) fn answer(&mut self, source: Rank, number: u32, outcome: Result<u64, PostError>) {
        if let Some(call) = self.get(number).filter(|call| call.to == source) {
            call.answer(outcome);
        }
    }
}

impl OpenCall {
    fn answer(&mut self, outcome: Result<u64, PostError>) {
        if self.answers > 0 {
            self.answers -= 1;
            if !matches!(self.outcome, Some(Err(_))) {
                self.outcome = Some(outcome);
            }
        }
    }
}

/// The progress of a call that is taken in steps.
#[derive(Debug, Default)]
pub(crate) struct CallSteps {
    /// 0: not begun.
    number: u32,
    /// Bytes sent or received.
    done: usize,
    /// Whether its requests, or the one for the next bytes, were sent.
    is_sent: bool,
}

/// Another rank's read of this rank's memory.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) to: Rank,
    pub(super) call: u32,
    pub(super) from: WireAddress,
    pub(super) length: u64,
    pub(super) done: u64,
}

/// The place of a put through an address register, whose parts arrive one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReservedPlace {
    source: Rank,
    call: u32,
    at: RemoteAddress,
}

/// Limit of places that are reserved at a time: each thread of another rank needs one.
const MOST_RESERVED: usize = 4096;

/// A wait of the far side.
#[derive(Debug)]
pub(super) struct FarWait {
    since: Time,
    wait: Wait,
    announced: bool,
}

impl FarWait {
    fn new(wait: Wait, since: Time) -> FarWait {
        FarWait { since, wait, announced: false }
    }

    /// A wait in order to leave.
    pub(super) fn to_leave(since: Time) -> FarWait {
        FarWait::new(Wait::new(Activity::Leave), since)
    }

    /// A wait for memory of a shared variable.
    pub(super) fn for_given(since: Time) -> FarWait {
        FarWait::new(Wait::new(Activity::Shared), since)
    }

    fn to_call(name: &'static str, since: Time) -> FarWait {
        FarWait::new(Wait::new(Activity::Window).named(Name::new(name)), since)
    }

    /// [`doze`] while waiting for `peer`.
    pub(super) fn rest(&mut self, near: &mut NearPort, peer: Rank) {
        let now = near.now();
        if !self.announced && now > self.since + ANNOUNCE {
            self.announced = true;
            let wait = self.wait.with(Some(peer), None);
            near.announce_wait(Some(Wait { since: self.since, ..wait }));
        }
        doze(near);
    }

    pub(super) fn end(&self, near: &NearPort) {
        if self.announced {
            near.announce_wait(None);
        }
    }
}

/// Rests a little after a poll of the network: [`Far::begin_rest`].
pub(super) fn doze(near: &mut NearPort) {
    let until = near.now() + MEMORY_SLEEP;
    let rest = match near.begin_rest((Some(until), RestStart::Awake), std::iter::empty()) {
        Rest::Over(Wake::Look) => Rest::Yield,
        rest => rest,
    };
    super::rest(near, rest);
}

impl LandingState {
    /// Writes bytes for a rank on another host.
    pub(super) fn put(
        &mut self,
        hosted: &mut NearTables,
        source: Rank,
        put: &PutPart<'_>,
    ) -> Result<u64, PostError> {
        if put.to.given_by.is_some() {
            let to = put.to.at(self.own, put.done);
            return hosted.put_given(to, put.bytes).map(|()| put.total);
        }
        let place = self.place_of(hosted, source, put)?;
        let at = hosted.check_own(place, put.total, Rights::WRITE)?;
        let told = if put.is_last() { put.told } else { Told::Not };
        self.check_told(hosted, source, put.told, at.is_some())?;
        let offset = place.offset.wrapping_add(put.done);
        let command = Command::put(RemoteAddress { offset, ..place }, put.bytes);
        hosted.post(&Command { notification: notification(told, self.own), ..command })?;
        if let (Told::Record { protocol, header }, Some(at)) = (told, at) {
            hosted.land_record(source, (protocol, header), (put.total, at));
        }
        Ok(put.total)
    }

    /// The address of a put's first byte. If a register names it and the put arrives in parts, the
    /// first part reserves the place of all of them.
    fn place_of(
        &mut self,
        hosted: &NearTables,
        source: Rank,
        put: &PutPart<'_>,
    ) -> Result<RemoteAddress, PostError> {
        let (named, call) = (put.to.at(self.own, 0), put.call);
        let is_whole = put.total == put.bytes.len() as u64;
        if is_whole || !matches!(named.space, Space::Register(_)) {
            return Ok(named);
        }
        let known = |place: &ReservedPlace| (place.source, place.call) == (source, call);
        let at = match self.reserved.iter().position(known) {
            Some(known) if put.is_last() => self.reserved.swap_remove(known).at,
            Some(known) => self.reserved[known].at,
            // An earlier part was refused.
            None if put.done > 0 => {
                return Err(PostError::Unsupported("write a part that has no place"));
            }
            None => {
                let peers = &self.peers;
                self.reserved.retain(|place| !peers.is_gone(place.source));
                if self.reserved.len() >= MOST_RESERVED {
                    let (destination, cause) = (self.own, FullCause::Register);
                    return Err(PostError::Full { destination, cause });
                }
                let at = hosted.reserve(named, put.total)?;
                self.reserved.push(ReservedPlace { source, call, at });
                at
            }
        };
        Ok(at)
    }

    /// Modifies an integer for a rank on another host.
    pub(super) fn change(
        &mut self,
        hosted: &mut NearTables,
        source: Rank,
        (told, place): (Told, WireAddress),
        atomic: Atomic,
    ) -> Result<u64, PostError> {
        let target = place.at(self.own, 0);
        let atomic = Atomic { target, ..atomic };
        if place.given_by.is_some() {
            return hosted.fetch_given(&atomic);
        }
        let size = atomic.integer.size();
        let rights = match atomic.operation {
            hikyaku_nic::fabric::AtomicOp::Load => Rights::READ,
            _ => Rights::ATOMIC,
        };
        let at = hosted.check_own(target, size, rights)?;
        self.check_told(hosted, source, told, at.is_some())?;
        let old = hosted.fetch(&atomic)?;
        match (told, at) {
            (Told::Record { protocol, header }, Some(at)) => {
                hosted.land_record(source, (protocol, header), (size, at));
            }
            (Told::Word { place, value }, _) => {
                let word = Command::put(place.at(self.own, 0), &value.to_le_bytes()).operation;
                let Operation::Put(address) = word else { return Ok(old) };
                let notification = Notification::Word { address, value };
                let nothing = Command::put(place.at(self.own, 0), &[]);
                hosted.post(&Command { notification, ..nothing })?;
            }
            _ => {}
        }
        Ok(old)
    }

    /// Checks that a notification is possible, before anything is modified.
    fn check_told(
        &self,
        hosted: &mut NearTables,
        source: Rank,
        told: Told,
        is_placed: bool,
    ) -> Result<(), PostError> {
        match told {
            Told::Not => Ok(()),
            Told::Record { .. } if !is_placed => {
                Err(PostError::Unsupported("leave a record of a write at an address register"))
            }
            Told::Record { .. } => hosted.room_for(source),
            Told::Word { place, .. } => {
                hosted.check_own(place.at(self.own, 0), 8, Rights::WRITE).map(drop)
            }
        }
    }
}

/// Checks that the notified rank is the owner of the modified memory.
fn check_notified(near: &NearPort, command: &Command<'_>, target: Rank) -> Result<(), PostError> {
    let Notification::Word { address: RemoteAddress { rank, .. }, .. } = command.notification
    else {
        return Ok(());
    };
    let size = near.size();
    if rank >= size {
        return Err(PostError::NoSuchRank { rank, size });
    }
    let elsewhere = "notify one rank of what was written at another, on another host";
    if rank == target { Ok(()) } else { Err(PostError::Unsupported(elsewhere)) }
}

/// The result of an operation that does not wait: an error of a full port until it is complete.
fn not_yet<R>(destination: Rank, step: Poll<Result<R, PostError>>) -> Result<R, PostError> {
    let cause = FullCause::Outstanding;
    match step {
        Poll::Ready(done) => done,
        Poll::Pending => Err(PostError::Full { destination, cause }),
    }
}

fn notification(told: Told, own: Rank) -> Notification {
    match told {
        Told::Word { place, value } => Notification::Word { address: place.at(own, 0), value },
        Told::Not | Told::Record { .. } => Notification::None,
    }
}

impl Far {
    /// Whether a command concerns memory of ranks on other hosts.
    pub(crate) fn concerns(&self, command: &Command<'_>) -> bool {
        let word = match command.notification {
            Notification::Word { address, .. } => Some(address.rank),
            _ => None,
        };
        self.is_far(command.destination) || word.is_some_and(|rank| self.is_far(rank))
    }

    /// Carries out a put, get or atomic operation on memory of a rank on another host.
    pub(crate) fn carry_out(
        &mut self,
        near: &mut NearPort,
        command: &Command<'_>,
    ) -> Result<usize, PostError> {
        let target = match command.operation {
            Operation::Put(target) => target,
            Operation::Get(get) => get.from,
            Operation::Atomic(atomic) => atomic.target,
            Operation::Send | Operation::Nop => return Ok(0),
        };
        check_notified(near, command, target.rank)?;
        self.check_reply(near, command)?;
        let told = Told::of(command);
        let outcome = match command.operation {
            Operation::Get(get) => self.get_into_region(near, get, told),
            Operation::Atomic(atomic) => self.change_far(near, &atomic, told),
            _ => self.put_far(near, target, command.payload, told),
        };
        let value = outcome?;
        match command.reply {
            Reply::None | Reply::Failure => {}
            Reply::Event => {
                let Command { destination, protocol, header, .. } = *command;
                let completed = Completed { destination, protocol, header, outcome: Ok(value) };
                self.state.events.push_back(Event::Completed(completed));
            }
            Reply::Word { offset, value } => {
                let address = self.own_place(offset);
                let notification = Notification::Word { address, value };
                near.post(&Command { notification, ..Command::put(address, &[]) })?;
            }
        }
        Ok(command.payload.len())
    }

    fn check_reply(&self, near: &NearPort, command: &Command<'_>) -> Result<(), PostError> {
        let completed = |event: &&Event| matches!(event, Event::Completed(_));
        let most = near.capabilities().outstanding;
        match command.reply {
            Reply::Event | Reply::Failure
                if self.state.events.iter().filter(completed).count() >= most =>
            {
                let (destination, cause) = (command.destination, FullCause::Outstanding);
                Err(PostError::Full { destination, cause })
            }
            Reply::Word { offset, .. } => self.check_own_word(near, offset, 8),
            _ => Ok(()),
        }
    }

    /// Checks that a word of this rank's region can be written.
    fn check_own_word(&self, near: &NearPort, offset: u64, size: u64) -> Result<(), PostError> {
        if !offset.is_multiple_of(size) {
            return Err(PostError::Misaligned { rank: self.own, offset, size });
        }
        near.check_own(self.own_place(offset), size, Rights::WRITE).map(drop)
    }

    /// Reports the refusal of a chain's command in the event that the command requested.
    pub(crate) fn fail_in_chain(&mut self, command: &Command<'_>, error: PostError) {
        let is_full = matches!(error, PostError::Full { .. });
        if !is_full && command.reply.tells_failure() {
            let Command { destination, protocol, header, .. } = *command;
            let completed = Completed { destination, protocol, header, outcome: Err(error) };
            self.state.events.push_back(Event::Completed(completed));
        }
    }

    fn own_place(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { rank: self.own, space: Space::Region, offset }
    }

    /// Writes `payload`, in as many parts as necessary.
    fn put_far(
        &mut self,
        near: &mut NearPort,
        target: RemoteAddress,
        payload: &[u8],
        told: Told,
    ) -> Result<u64, PostError> {
        let (mut steps, wait) = (CallSteps::default(), FarWait::to_call("put", near.now()));
        self.take_steps(near, wait, target.rank, |far, near| {
            far.put_step(near, &mut steps, target, payload, told)
        })
    }

    fn put_step(
        &mut self,
        near: &mut NearPort,
        steps: &mut CallSteps,
        target: RemoteAddress,
        payload: &[u8],
        told: Told,
    ) -> Poll<Result<u64, PostError>> {
        let (total, to) = (payload.len(), WireAddress::of(target));
        if steps.number == 0 {
            steps.number = self.calls.begin(target.rank, 0);
        }
        while !steps.is_sent {
            let longest = self.links.longest(target.rank, NEEDED) - wire::PUT_HEAD;
            let end = total.min(steps.done + longest);
            let (call, done) = (steps.number, steps.done as u64);
            let bytes = &payload[steps.done..end];
            let put = PutPart { call, told, to, total: total as u64, done, bytes };
            let parts = [&wire::put_head(&put), bytes];
            ready!(self.ask_step(near, call, (target.rank, to), &parts))?;
            steps.done = end;
            steps.is_sent = end == total || self.calls.is_refused(call);
        }
        self.answer_step(near, steps.number, (target.rank, to))
            .map(|done| done.map(|(value, _)| value))
    }

    /// A put that does not wait, as a step of a call: returns an error of a full port until it is
    /// complete.
    ///
    /// # Errors
    /// As [`Far::carry_out`].
    pub(crate) fn step_of_put(
        &mut self,
        near: &mut NearPort,
        command: &Command<'_>,
        steps: &mut CallSteps,
    ) -> Result<u64, PostError> {
        let Operation::Put(target) = command.operation else {
            return Err(PostError::Unsupported("do that in steps"));
        };
        check_notified(near, command, target.rank)?;
        let told = Told::of(command);
        let step = self.put_step(near, steps, target, command.payload, told);
        if let Poll::Ready(Err(PostError::Full { .. })) = step {
            // The answer was "full": the caller starts again.
            *steps = CallSteps::default();
        }
        not_yet(target.rank, step)
    }

    /// Reads memory of a rank on another host.
    pub(crate) fn get(
        &mut self,
        near: &mut NearPort,
        from: RemoteAddress,
        into: &mut [u8],
    ) -> Result<(), PostError> {
        let wait = FarWait::to_call("get", near.now());
        self.get_by(near, (from.rank, WireAddress::of(from)), into, wait)
    }

    /// [`Far::get`] as [`Far::step_of_put`].
    ///
    /// # Errors
    /// As [`Far::get`].
    pub(crate) fn step_of_get(
        &mut self,
        near: &mut NearPort,
        from: RemoteAddress,
        into: &mut [u8],
        steps: &mut CallSteps,
    ) -> Result<(), PostError> {
        let place = (from.rank, WireAddress::of(from));
        not_yet(from.rank, self.get_step(near, steps, place, into))
    }

    /// Reads memory that rank `asked` serves.
    pub(super) fn get_by(
        &mut self,
        near: &mut NearPort,
        (asked, from): (Rank, WireAddress),
        into: &mut [u8],
        wait: FarWait,
    ) -> Result<(), PostError> {
        let mut steps = CallSteps::default();
        self.take_steps(near, wait, asked, |far, near| {
            far.get_step(near, &mut steps, (asked, from), into)
        })
    }

    fn get_step(
        &mut self,
        near: &mut NearPort,
        steps: &mut CallSteps,
        (asked, from): (Rank, WireAddress),
        into: &mut [u8],
    ) -> Poll<Result<(), PostError>> {
        loop {
            let done = steps.done;
            let end = into.len().min(done + READ);
            if steps.number == 0 {
                steps.number = self.calls.begin(asked, end - done);
            }
            if !steps.is_sent {
                let place = WireAddress { offset: from.offset.wrapping_add(done as u64), ..from };
                let question = wire::get(steps.number, place, (end - done) as u64);
                ready!(self.ask_step(near, steps.number, (asked, from), &[&question]))?;
                steps.is_sent = true;
            }
            let (_, data) = ready!(self.answer_step(near, steps.number, (asked, from)))?;
            into[done..end].copy_from_slice(&data);
            if end == into.len() {
                return Poll::Ready(Ok(()));
            }
            *steps = CallSteps { done: end, ..CallSteps::default() };
        }
    }

    fn get_into_region(
        &mut self,
        near: &mut NearPort,
        Get { from, into, length }: Get,
        told: Told,
    ) -> Result<u64, PostError> {
        if told != Told::Not {
            return Err(PostError::Unsupported("notify a rank of another host of a get"));
        }
        near.check_own(self.own_place(into), length, Rights::WRITE)?;
        let mut bytes = vec![0; length as usize];
        self.get(near, from, &mut bytes)?;
        near.post(&Command::put(self.own_place(into), &bytes))?;
        Ok(length)
    }

    fn change_far(
        &mut self,
        near: &mut NearPort,
        atomic: &Atomic,
        told: Told,
    ) -> Result<u64, PostError> {
        let size = atomic.integer.size();
        if let Some(result) = atomic.result {
            self.check_own_word(near, result, size)?;
        }
        let at = (atomic.target.rank, WireAddress::of(atomic.target));
        let wait = FarWait::to_call("atomic operation", near.now());
        let old = self.change_at(near, at, atomic, told, wait)?;
        if let Some(result) = atomic.result {
            let bytes = &old.to_ne_bytes()[..size as usize];
            near.post(&Command::put(self.own_place(result), bytes))?;
        }
        Ok(old)
    }

    /// Modifies the integer at an address that rank `asked` serves.
    pub(super) fn change_at(
        &mut self,
        near: &mut NearPort,
        (asked, at): (Rank, WireAddress),
        atomic: &Atomic,
        told: Told,
        wait: FarWait,
    ) -> Result<u64, PostError> {
        let mut steps = CallSteps::default();
        self.take_steps(near, wait, asked, |far, near| {
            far.change_step(near, &mut steps, (asked, at), atomic, told)
        })
    }

    fn change_step(
        &mut self,
        near: &mut NearPort,
        steps: &mut CallSteps,
        (asked, at): (Rank, WireAddress),
        atomic: &Atomic,
        told: Told,
    ) -> Poll<Result<u64, PostError>> {
        if steps.number == 0 {
            steps.number = self.calls.begin(asked, 0);
        }
        if !steps.is_sent {
            let question = wire::atomic(steps.number, told, at, atomic);
            ready!(self.ask_step(near, steps.number, (asked, at), &[&question]))?;
            steps.is_sent = true;
        }
        self.answer_step(near, steps.number, (asked, at)).map(|done| done.map(|(value, _)| value))
    }

    /// Modifies an integer of a rank on another host; returns the previous value.
    pub(crate) fn fetch(&mut self, near: &mut NearPort, atomic: &Atomic) -> Result<u64, PostError> {
        self.change_far(near, atomic, Told::Not)
    }

    /// [`Far::fetch`] for an operation whose result is only returned, as [`Far::step_of_put`].
    ///
    /// # Errors
    /// As [`Far::fetch`].
    pub(crate) fn step_of_fetch(
        &mut self,
        near: &mut NearPort,
        atomic: &Atomic,
        steps: &mut CallSteps,
    ) -> Result<u64, PostError> {
        let at = (atomic.target.rank, WireAddress::of(atomic.target));
        not_yet(at.0, self.change_step(near, steps, at, atomic, Told::Not))
    }

    /// Takes the steps of a call until it is complete, and rests in between.
    fn take_steps<R>(
        &mut self,
        near: &mut NearPort,
        mut wait: FarWait,
        to: Rank,
        mut step: impl FnMut(&mut Far, &mut NearPort) -> Poll<Result<R, PostError>>,
    ) -> Result<R, PostError> {
        loop {
            if let Poll::Ready(done) = step(self, near) {
                wait.end(near);
                return done;
            }
            if !self.progress(near) {
                wait.rest(near, to);
            }
        }
    }

    /// Sends a packet, as soon as there is room, to a rank that serves given memory.
    pub(super) fn tell(
        &mut self,
        near: &mut NearPort,
        to: Rank,
        parts: &[&[u8]],
    ) -> Result<(), PostError> {
        let wait = FarWait::for_given(near.now());
        self.take_steps(near, wait, to, |far, near| far.offer_step(near, (to, true), parts))
    }

    fn offer_step(
        &mut self,
        near: &NearPort,
        (to, is_for_given): (Rank, bool),
        parts: &[&[u8]],
    ) -> Poll<Result<(), PostError>> {
        self.check_there(near, to, is_for_given)?;
        let is_sent = self.meet(near, to) && self.offer(to, NEEDED, parts);
        if is_sent { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Sends a request of a call, if there is room for it.
    fn ask_step(
        &mut self,
        near: &NearPort,
        number: u32,
        (to, at): (Rank, WireAddress),
        parts: &[&[u8]],
    ) -> Poll<Result<(), PostError>> {
        let asked = ready!(self.offer_step(near, (to, at.given_by.is_some()), parts));
        match &asked {
            Ok(()) => self.calls.expect(number),
            Err(_) => _ = self.calls.end(number),
        }
        Poll::Ready(asked)
    }

    /// The outcome of a call whose requests were sent, with the received bytes.
    fn answer_step(
        &mut self,
        near: &mut NearPort,
        number: u32,
        (from, at): (Rank, WireAddress),
    ) -> Poll<Result<(u64, Vec<u8>), PostError>> {
        if let Some((outcome, data)) = self.calls.take(number) {
            return Poll::Ready(outcome.map(|value| (value, data)));
        }
        let Err(gone) = self.check_there(near, from, at.given_by.is_some()) else {
            return Poll::Pending;
        };
        // Answers that it had sent before it was gone count.
        self.land_all(near);
        let answered = self.calls.take(number).ok_or(gone);
        if answered.is_err() {
            self.calls.end(number);
        }
        Poll::Ready(answered.and_then(|(outcome, data)| outcome.map(|value| (value, data))))
    }

    /// Whether a rank on another host can still answer. `is_for_given`: for given memory, whose
    /// rank may have left.
    fn check_there(
        &self,
        near: &NearPort,
        rank: Rank,
        is_for_given: bool,
    ) -> Result<(), PostError> {
        if let Some(failure) = self.failure(near, rank) {
            return Err(PostError::PeerFailed(failure));
        }
        let has_left = match is_for_given {
            // Its process may still run. If it has ended, another rank receives the request.
            true if !self.is_there(near, rank) => {
                return Err(PostError::PeerFailed(super::lost(near, rank, DeathCause::Unknown)));
            }
            true => false,
            false => self.state_of(rank, PeerState::Running) == PeerState::Left,
        };
        match has_left {
            true => {
                Err(PostError::Unsupported("reach memory of a rank that has left another host"))
            }
            false => Ok(()),
        }
    }

    /// Sends the data of others' reads, within the available room.
    pub(super) fn serve(&mut self, near: &mut NearPort) {
        for _ in 0..self.state.serving.len() {
            let Some(mut serving) = self.state.serving.pop_front() else { break };
            let served = self.state.peers.is_gone(serving.to) || self.serve_one(near, &mut serving);
            if !served {
                self.state.serving.push_back(serving);
            }
        }
    }

    /// Serves one read; returns whether it is complete.
    fn serve_one(&mut self, near: &mut NearPort, serving: &mut Serving) -> bool {
        let Serving { to, call, from, length, .. } = *serving;
        if !self.meet(near, to) {
            return false;
        }
        let hosted = near.inner_mut();
        if serving.done == 0
            && from.given_by.is_none()
            && let Err(error) = hosted.check_own(from.at(self.own, 0), length, Rights::READ)
        {
            self.out.push_back((to, NEEDED, wire::answer(call, Err(error))));
            return true;
        }
        if length == 0 {
            self.out.push_back((to, NEEDED, wire::answer(call, Ok(0))));
            return true;
        }
        while serving.done < length {
            let longest = self.links.longest(to, NEEDED) - wire::DATA_HEAD;
            let part = (length - serving.done).min(longest as u64) as usize;
            let mut bytes = vec![0; part];
            let (hosted, place) = (near.inner_mut(), from.at(self.own, serving.done));
            let there = match from.given_by {
                Some(_) => hosted.get_given(place, &mut bytes),
                None => hosted.get(place, &mut bytes),
            };
            if let Err(error) = there {
                self.out.push_back((to, NEEDED, wire::answer(call, Err(error))));
                return true;
            }
            if !self.offer(to, NEEDED, &[&wire::data_head(call), &bytes]) {
                return false;
            }
            serving.done += part as u64;
        }
        true
    }
}
