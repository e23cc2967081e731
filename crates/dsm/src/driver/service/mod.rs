//! The serving side of `fagus` and `udp`: owners answer messages about shared variables within
//! calls of the library.
//!
//! ```text
//!   fagus   letter ──► notes ──────► poll ──► state machine ──► letters, stores
//!   udp     letter ──► datagrams ──► poll ──► state machine ──► letters, pieces
//! ```
//!
//! A rank with variables of these protocols has an operation in flight that never ends. Every call
//! that waits polls it, and so serves requests. A rank that computes does not serve. Paper 001's
//! future work is about that, and `direct` avoids it.
//!
//! The program's messages never delay a letter: a note needs neither credit nor room in a ring, and
//! contents are stored where the requester has room for them. (If letters were messages, they would
//! wait behind messages of the program that no rank has received yet. The rank that would receive
//! those may itself wait for the letter.)
//!
//! In `fagus`, an owner change is a store at each rank. Stores cannot reach ranks of another host.
//! So one rank of that host gets a letter, and makes the stores at the other ranks of its host. The
//! stores may be late, or missing if that rank ends: a former owner forwards requests to its
//! successor.
//!
//! The messages that a rank sent before its end are handled before its end. A letter from a sender
//! that knows of more ends than this rank waits until this rank knows of them too. (The state
//! machines require both.)

mod side;
mod sockets;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use hikyaku_msg::{Blocked, Envelope, NOTE_MOST, Pace};
use hikyaku_nic::fabric::{Activity, Name, PeerState, Port, Wait};
use hikyaku_nic::time::Time;
use hikyaku_rank::{PollingRest, TaskId};

use crate::{
    AccessKind, Copyset, Effect, LETTER_MOST, Letter, Mailbox, MailboxMessage, Mark, Patience,
    Refusal, Style,
};

pub(super) use side::VariableSide;
pub(super) use sockets::SocketPlace;
use sockets::{MESSAGE_MOST, Sockets};

use super::direct::{CallOutcome, RequestOutcome};
use super::faults::Injector;
use super::memory::{EngineCell, Given};

/// The first byte of a datagram's message is its type.
const LETTER: u8 = 0;
const PIECE: u8 = 1;

/// After this long without a request, in nanoseconds, no more requests are expected.
const SILENCE: u64 = 50_000_000;

/// Bytes before the contents in a piece: type, part, variable, version, offset.
const PIECE_HEAD: usize = 23;

/// Bytes of contents in a piece.
const PIECE_MOST: usize = MESSAGE_MOST - 64;

/// A letter fits a note, and a piece fits a message.
const _: () = assert!(LETTER_MOST <= NOTE_MOST && PIECE_HEAD + PIECE_MOST <= MESSAGE_MOST);

/// A rank's serving side.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// The context of letters in notes. Set from the first variable on.
    context: Cell<Option<u32>>,
    sockets: RefCell<Option<Sockets>>,
    sides: RefCell<BTreeMap<u32, Rc<VariableSide>>>,
    /// The number of sides that use datagrams. If it is 0 the socket is not polled: each poll is a
    /// system call, and each request of `fagus` would cause several.
    by_datagrams: Cell<u32>,
    /// Variables made so far, of any protocol.
    made: Cell<u32>,
    /// The gone ranks, and the port's count of departures when they were looked up.
    gone: Cell<Copyset>,
    seen: Cell<u64>,
    inbox: RefCell<VecDeque<(u32, Vec<u8>)>>,
    polling: Cell<bool>,
    pub(super) task: Cell<Option<TaskId>>,
    /// Fault injection, and the letters that it delays.
    injector: Option<Rc<Injector>>,
    late: RefCell<Late>,
}

impl Service {
    /// Whether no variable is left to serve.
    pub(super) fn is_over(&self) -> bool {
        self.sides.borrow().is_empty()
    }

    /// Creates a service, with fault injection if there is an injector.
    pub(super) fn new(injector: Option<Rc<Injector>>) -> Service {
        Service { injector, ..Service::default() }
    }

    /// Whether input may arrive without waking the rank: datagrams, and delayed letters.
    pub(super) fn is_restless(&self) -> bool {
        let wake = self.with_sockets(Sockets::wake).unwrap_or(true);
        !wake || self.injector.is_some()
    }

    /// Whether some variable uses datagrams.
    pub(crate) fn has_sockets(&self) -> bool {
        self.by_datagrams.get() > 0
    }

    /// The number of polls for a datagram.
    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.sockets.borrow().as_ref().map_or(0, |sockets| sockets.looks.get())
    }

    /// The sockets, while a variable uses them.
    fn with_sockets<R>(&self, act: impl FnOnce(&Sockets) -> R) -> Option<R> {
        if !self.has_sockets() {
            return None;
        }
        self.sockets.borrow().as_ref().map(act)
    }

    /// The place of the socket. Opens it at an address of this host if necessary.
    pub(super) fn open_sockets(&self, rank: u32, at: IpAddr) -> std::io::Result<SocketPlace> {
        let mut sockets = self.sockets.borrow_mut();
        let opened = match sockets.take() {
            Some(sockets) => sockets,
            None => {
                let faults = self.injector.as_ref().map(|injector| injector.seed());
                Sockets::open(rank, at, faults)?
            }
        };
        sockets.insert(opened).place()
    }

    /// The same in virtual time. `copies`: the network copies a datagram to several ranks.
    pub(super) fn open_network(&self, rank: u32, copies: bool) -> std::io::Result<SocketPlace> {
        let mut sockets = self.sockets.borrow_mut();
        sockets.get_or_insert_with(|| Sockets::in_virtual_time(rank, copies)).place()
    }

    /// Sets the addresses of the other ranks' sockets.
    pub(super) fn connect(&self, places: &[SocketPlace]) {
        let sockets = self.sockets.borrow();
        if let Some(sockets) = &*sockets {
            sockets.connect(places);
        }
    }

    /// Sets the context of letters in notes. All ranks call `take` at their first variable.
    pub(super) fn open_notes(&self, take: impl FnOnce() -> u32) {
        if self.context.get().is_none() {
            self.context.set(Some(take()));
        }
    }

    /// Takes the memory that this rank gave to variables that others may still use.
    pub(super) fn take_given(&self) -> Vec<Given> {
        self.sides.borrow().values().filter_map(|side| side.take_given()).collect()
    }

    /// Registers a variable that has been made.
    pub(super) fn note_made(&self, made: u32, side: Option<Rc<VariableSide>>) {
        self.made.set(made);
        if let Some(side) = side {
            let datagrams = u32::from(side.style == Style::Datagrams);
            self.by_datagrams.set(self.by_datagrams.get() + datagrams);
            self.sides.borrow_mut().insert(side.number, side);
        }
    }

    /// Requests a part.
    pub(super) fn request(
        &self,
        engine: &EngineCell,
        side: &VariableSide,
        part: u64,
        (kind, patience): (AccessKind, Patience),
    ) -> RequestOutcome {
        let asked = side.take(part, kind);
        if asked != RequestOutcome::Begun {
            return asked;
        }
        self.poll(engine);
        self.call(engine, side, part as u32, |mailbox, effects| {
            mailbox.acquire(kind, patience, effects);
        });
        self.pump(engine, side);
        asked
    }

    /// Serves, and returns the outcome of requesting a part.
    pub(super) fn look(&self, engine: &EngineCell, side: &VariableSide, part: u64) -> CallOutcome {
        if let Some(outcome) = side.outcome(part) {
            return outcome.map_or_else(CallOutcome::Refused, CallOutcome::Entered);
        }
        self.poll(engine);
        match side.outcome(part) {
            None => CallOutcome::Wait,
            Some(outcome) => outcome.map_or_else(CallOutcome::Refused, CallOutcome::Entered),
        }
    }

    /// Releases an entered part, or cancels the request for it.
    pub(super) fn give(&self, engine: &EngineCell, side: &VariableSide, part: u64) {
        side.give(part);
        self.call(engine, side, part as u32, |mailbox, effects| match mailbox.inside() {
            Some(_) => mailbox.release(effects),
            None => mailbox.cancel(effects),
        });
        self.pump(engine, side);
    }

    /// Handles all input. Returns whether there was any. A forked child handles none: it shares the
    /// socket with its parent, and a datagram that the child takes and acknowledges would never
    /// reach the parent.
    pub(crate) fn poll(&self, engine: &EngineCell) -> bool {
        if engine.borrow().check_process().is_err() {
            return false;
        }
        if self.polling.replace(true) {
            // An effect of a state machine is still being carried out, perhaps waiting for room.
            // The input waits too.
            return false;
        }
        let mut any = false;
        loop {
            let fresh = self.look_who_is_gone(engine);
            self.take_in(engine, &fresh);
            let mut did = self.see_off(engine, &fresh);
            did |= self.handle_letters(engine, |_| true);
            any |= did;
            if !did {
                break;
            }
        }
        if self.has_sockets() {
            let sides = self.sides.borrow();
            let mut by_datagrams = sides.values().filter(|side| side.style == Style::Datagrams);
            let side = by_datagrams.next().map(Rc::clone);
            drop(sides);
            side.iter().for_each(|side| self.pump(engine, side));
        }
        self.sweep(engine);
        self.polling.set(false);
        any
    }

    /// Removes variables that no rank uses, once their last letters have arrived.
    fn sweep(&self, engine: &EngineCell) {
        let over: Vec<u32> = {
            let sides = self.sides.borrow();
            let over = sides.iter().filter(|(_, side)| side.is_over());
            over.map(|(number, _)| *number).collect()
        };
        if over.is_empty() {
            return;
        }
        self.take_in(engine, &[]);
        self.handle_letters(engine, |_| true);
        for number in over {
            let side = self.sides.borrow_mut().remove(&number);
            if let Some(side) = side {
                let datagrams = u32::from(side.style == Style::Datagrams);
                self.by_datagrams.set(self.by_datagrams.get() - datagrams);
                side.give_back();
            }
        }
    }

    /// The ranks that have departed since the last call, and whether each has died.
    fn look_who_is_gone(&self, engine: &EngineCell) -> Vec<(u32, bool)> {
        let engine = engine.borrow();
        let port = engine.port();
        let now = port.departures();
        if now == self.seen.get() {
            return Vec::new();
        }
        let ended = port.ended_since(self.seen.replace(now));
        let ended = ended.unwrap_or_else(|| (0..port.size()).collect());
        let gone = self.gone.get();
        let state = |rank| match port.peer(rank) {
            PeerState::Starting | PeerState::Running => None,
            PeerState::Left => Some((rank, false)),
            PeerState::Failed(_) => Some((rank, true)),
        };
        let is_news =
            |rank: &u32| *rank < Copyset::MOST && *rank != port.rank() && !gone.contains(*rank);
        ended.into_iter().filter(is_news).filter_map(state).collect()
    }

    /// Receives all input. From ranks that are gone, also delayed letters.
    fn take_in(&self, engine: &EngineCell, gone: &[(u32, bool)]) {
        let mut inbox = self.inbox.borrow_mut();
        self.with_sockets(|sockets| {
            let next = || engine.borrow_mut().port_mut().next_datagram();
            sockets.take_in(next, |from, message| inbox.push_back((from, message)));
        });
        let Some(injector) = &self.injector else {
            return self.take_letters(engine, |from, letter| inbox.push_back((from, letter)));
        };
        let mut late = self.late.borrow_mut();
        self.take_letters(engine, |from, letter| late.push(from, letter, injector.looks_late()));
        let gone = |from| gone.iter().any(|(rank, _)| *rank == from);
        late.look(gone, |from, letter| inbox.push_back((from, letter)));
    }

    fn take_letters(&self, engine: &EngineCell, mut take: impl FnMut(u32, Vec<u8>)) {
        let Some(context) = self.context.get() else { return };
        let mut engine = engine.borrow_mut();
        loop {
            while let Some((about, letter)) = engine.take_note(context, |_| true) {
                take(about.source, [&[LETTER][..], &letter].concat());
            }
            if !engine.progress() {
                return;
            }
        }
    }

    /// Handles the input of gone ranks, and then their departure.
    fn see_off(&self, engine: &EngineCell, fresh: &[(u32, bool)]) -> bool {
        if fresh.is_empty() {
            return false;
        }
        self.handle_letters(engine, |from| fresh.iter().any(|(rank, _)| *rank == from));
        let mut gone = self.gone.get();
        fresh.iter().for_each(|(rank, _)| gone.insert(*rank));
        self.gone.set(gone);
        let sides: Vec<Rc<VariableSide>> = self.sides.borrow().values().map(Rc::clone).collect();
        for (rank, died) in fresh {
            let sockets = self.sockets.borrow();
            if let Some(sockets) = &*sockets {
                sockets.close(*rank);
            }
            for side in &sides {
                side.forget_pieces(*rank);
                for part in 0..side.parts() {
                    self.call(engine, side, part, |mailbox, effects| {
                        mailbox.depart(*rank, *died, effects);
                    });
                }
            }
        }
        true
    }

    /// Reports to a new variable the ranks that were already gone: they had voted for it.
    pub(super) fn tell_who_was_gone(&self, engine: &EngineCell) {
        let known = self.gone.get();
        if known.is_empty() {
            return;
        }
        let died = |rank| matches!(engine.borrow().port().peer(rank), PeerState::Failed(_));
        let ranks = (0..Copyset::MOST).filter(|rank| known.contains(*rank));
        let gone: Vec<(u32, bool)> = ranks.map(|rank| (rank, died(rank))).collect();
        self.take_in(engine, &gone);
        // The other variables know of these ranks already, and do nothing.
        self.see_off(engine, &gone);
    }

    /// Handles letters of some ranks, in order. Returns whether there were any.
    fn handle_letters(&self, engine: &EngineCell, of: impl Fn(u32) -> bool) -> bool {
        let letters = std::mem::take(&mut *self.inbox.borrow_mut());
        let (mut kept, mut any) = (VecDeque::new(), false);
        // After a letter that must wait, all later ones of its sender wait.
        let mut waiting = Copyset::default();
        for (from, message) in letters {
            if !of(from) || waiting.contains(from) {
                kept.push_back((from, message));
            } else if self.handle(engine, from, &message) {
                any = true;
            } else {
                waiting.insert(from);
                kept.push_back((from, message));
            }
        }
        let mut inbox = self.inbox.borrow_mut();
        kept.append(&mut inbox);
        *inbox = kept;
        any
    }

    /// Handles a message. `false`: it must wait.
    fn handle(&self, engine: &EngineCell, from: u32, message: &[u8]) -> bool {
        let nodes = engine.borrow().port().size();
        match message.split_first() {
            Some((&LETTER, letter)) => match Letter::decode(letter, nodes) {
                Some(letter) => self.handle_letter(engine, from, &letter),
                None => true,
            },
            Some((&PIECE, piece)) => self.handle_piece(from, piece),
            _ => true,
        }
    }

    fn side(&self, number: u32) -> Option<Rc<VariableSide>> {
        self.sides.borrow().get(&number).map(Rc::clone)
    }

    fn handle_letter(&self, engine: &EngineCell, from: u32, letter: &Letter) -> bool {
        let part = u32::from(letter.part);
        let Some(side) = self.side(letter.variable) else {
            // Other ranks may have made it earlier. A letter for a removed variable is dropped.
            return letter.variable < self.made.get();
        };
        if part >= side.parts() {
            return true;
        }
        let ahead = !letter.departed.is_within(&self.gone.get());
        let going = matches!(engine.borrow().port().peer(from), PeerState::Running);
        if ahead && going {
            return false;
        }
        if let MailboxMessage::Contents(version, _) = letter.message
            && !side.assembled(from, part, version)
        {
            return true;
        }
        if let MailboxMessage::Grant { version, mark, .. }
        | MailboxMessage::Adopt { version, mark, .. } = letter.message
            && letter.filled
        {
            side.note_moved(part);
            self.call(engine, &side, part, |mailbox, effects| {
                mailbox.receive(from, MailboxMessage::Contents(version, mark), effects);
            });
        }
        if side.style == Style::Stores
            && let MailboxMessage::Told { version, answer: None } = letter.message
        {
            side.pass_on(engine, part, version);
        }
        self.call(engine, &side, part, |mailbox, effects| {
            mailbox.receive(from, letter.message, effects);
        });
        true
    }

    fn handle_piece(&self, from: u32, piece: &[u8]) -> bool {
        let Some((head, bytes)) = piece.split_first_chunk::<{ PIECE_HEAD - 1 }>() else {
            return true;
        };
        let long = |at: usize| {
            let bytes = head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let number = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let part = u32::from(u16::from_le_bytes([head[0], head[1]]));
        match self.side(number) {
            Some(side) => side.piece(from, part, long(6), long(14), bytes),
            None => return number < self.made.get(),
        }
        true
    }

    /// Makes one call of a part's state machine, and carries out its effects.
    fn call(
        &self,
        engine: &EngineCell,
        side: &VariableSide,
        part: u32,
        act: impl FnOnce(&mut Mailbox, &mut Vec<Effect>),
    ) {
        let (mut filled, mut told) = (false, Vec::new());
        side.catch_up(engine);
        for effect in side.step(part, act) {
            side.memory().rest();
            match effect {
                Effect::Send(to, MailboxMessage::Contents(version, mark)) => {
                    filled = self.send_contents(engine, side, (part, to), version, mark);
                }
                Effect::Send(to, message) => {
                    let (to, message) = match message {
                        MailboxMessage::Want(want) if side.goes_round(part, &want) => {
                            let (number, refusal) = (want.number, Refusal::Overwritten);
                            (want.from, MailboxMessage::Refused { number, refusal })
                        }
                        message => (to, message),
                    };
                    let filled = std::mem::take(&mut filled);
                    let letter = Letter { filled, ..self.letter(side, part, message) };
                    self.send(engine, side, to, &letter);
                }
                Effect::Store(to, version) => match host_of(engine, to) {
                    None => side.tell(engine, (part, to), version),
                    Some(host) if told.contains(&(host, version)) || side.has_parted(to) => {}
                    Some(host) => {
                        told.push((host, version));
                        let message = MailboxMessage::Told { version, answer: None };
                        self.send(engine, side, to, &self.letter(side, part, message));
                    }
                },
                Effect::Entered { moved, mark } => side.settle(part, Ok((moved, mark))),
                Effect::Refused(refusal) => side.settle(part, Err(refusal)),
            }
        }
    }

    fn letter(&self, side: &VariableSide, part: u32, message: MailboxMessage) -> Letter {
        let (variable, part, departed) = (side.number, part as u16, self.gone.get());
        Letter { variable, part, departed, filled: false, message }
    }

    /// Sends the contents before the grant. Returns whether the grant must report that.
    fn send_contents(
        &self,
        engine: &EngineCell,
        side: &VariableSide,
        (part, to): (u32, u32),
        version: u64,
        mark: Option<Mark>,
    ) -> bool {
        if side.style == Style::Stores {
            side.fill(engine, (part, to), version, mark);
            return true;
        }
        let sockets = self.sockets.borrow();
        let Some(sockets) = &*sockets else { return false };
        side.with_contents(part, |bytes| {
            let mut offset = 0;
            for bytes in bytes.chunks(PIECE_MOST) {
                let mut piece = Vec::with_capacity(PIECE_HEAD + bytes.len());
                piece.push(PIECE);
                piece.extend((part as u16).to_le_bytes());
                piece.extend(side.number.to_le_bytes());
                piece.extend(version.to_le_bytes());
                piece.extend((offset as u64).to_le_bytes());
                piece.extend_from_slice(bytes);
                offset += bytes.len();
                sockets.send(to, piece);
            }
        });
        let letter = self.letter(side, part, MailboxMessage::Contents(version, mark));
        sockets.send(to, [&[LETTER][..], &letter.encode()].concat());
        false
    }

    fn send(&self, engine: &EngineCell, side: &VariableSide, to: u32, letter: &Letter) {
        let bytes = letter.encode();
        if side.style == Style::Datagrams {
            let sockets = self.sockets.borrow();
            if let Some(sockets) = &*sockets {
                sockets.send(to, [&[LETTER][..], &bytes].concat());
            }
            return;
        }
        let Some(context) = self.context.get() else { return };
        let envelope = Envelope { destination: to, context, tag: 0 };
        // If the receiver has died, the ranks concerned learn of its death separately.
        let _ = engine.borrow_mut().send_note(&bytes, envelope);
        side.count(1, 0, bytes.len() as u64);
    }

    /// Sends datagrams that are due, and counts them for `side`, if `side` uses datagrams.
    fn pump(&self, engine: &EngineCell, side: &VariableSide) {
        if side.style == Style::Stores {
            return;
        }
        let sockets = self.sockets.borrow();
        if let Some(sockets) = &*sockets {
            let now = engine.borrow().port().now().nanoseconds().max(1);
            let (datagrams, bytes) = sockets.pump(now);
            side.count(datagrams, 0, bytes);
            for (to, datagram) in sockets.take_due() {
                engine.borrow_mut().port_mut().send_datagram(&to, &datagram);
            }
        }
    }

    /// Sleeps until a datagram arrives, at most this long.
    pub(super) fn sleep(&self, most: Time) {
        let sockets = self.sockets.borrow();
        if let Some(sockets) = &*sockets {
            sockets.sleep(most.nanoseconds());
        }
    }

    /// The other ranks that are not known to be gone.
    fn others(&self, engine: &EngineCell) -> Copyset {
        let mut others = Copyset::default();
        let engine = engine.borrow();
        let port = engine.port();
        (0..port.size().min(Copyset::MOST))
            .filter(|rank| *rank != port.rank() && !self.gone.get().contains(*rank))
            .for_each(|rank| others.insert(rank));
        others
    }

    /// Whether the other ranks can do without this one.
    fn may_leave(&self, others: &Copyset) -> bool {
        let quiet = self.with_sockets(Sockets::is_quiet).unwrap_or(true);
        quiet && self.sides.borrow().values().all(|side| side.may_leave(others))
    }

    /// Hands over the parts that this rank owns to a rank that may still want them: the others may
    /// be waiting only for this rank's end.
    fn hand_over(&self, engine: &EngineCell, others: &Copyset) {
        let sides: Vec<Rc<VariableSide>> = self.sides.borrow().values().map(Rc::clone).collect();
        for side in sides {
            let Some(heir) = side.heir(others) else { continue };
            for part in side.parts_to_hand_over() {
                self.call(engine, &side, part, |mailbox, effects| mailbox.hand_over(heir, effects));
            }
            self.pump(engine, &side);
        }
    }

    /// Hands over the parts that this rank owns, and serves until the others can do without it.
    /// Once a rank is gone, the others may wait only for this rank's end, in a call that has failed
    /// here. Then this rank serves only while requests arrive.
    pub(crate) fn linger(&self, engine: &EngineCell) {
        if self.is_over() {
            return;
        }
        let mut rest = PollingRest::default();
        let what = Name::new("shared variables");
        let mut blocked = Blocked::new(Wait::new(Activity::Leave).named(what));
        let mut asked = engine.borrow().port().now();
        loop {
            let any = self.poll(engine);
            let now = engine.borrow().port().now();
            if any {
                asked = now;
            }
            let silent = is_silent(asked, now);
            let alone = !self.gone.get().is_empty();
            let others = self.others(engine);
            self.hand_over(engine, &others);
            let waits_for_arrival =
                || self.sides.borrow().values().any(|side| side.waits_for_arrival());
            let mut held = engine.borrow_mut();
            if self.may_leave(&others) || (silent && alone && !waits_for_arrival()) {
                return held.awake(&blocked);
            }
            if held.port().capabilities().virtual_time {
                // In virtual time a rank that parts wakes the others.
                let until = asked + Time::from_nanoseconds(SILENCE + 1);
                held.pass(&mut blocked, Pace::Doze { most: None, until: alone.then_some(until) });
                continue;
            }
            drop(held);
            rest.pass(engine, &mut blocked, any);
        }
    }
}

/// The host of a rank, if it is not this rank's host.
fn host_of(engine: &EngineCell, rank: u32) -> Option<u32> {
    let engine = engine.borrow();
    let port = engine.port();
    port.is_far(rank).then(|| port.host_of(rank))
}

/// Whether the last request was so long ago that no more are expected.
fn is_silent(asked: Time, now: Time) -> bool {
    now.nanoseconds() - asked.nanoseconds() > SILENCE
}

/// A letter that has arrived and is handled later, as if its path were longer. For tests.
#[derive(Debug)]
struct LateLetter {
    from: u32,
    message: Vec<u8>,
    /// The remaining number of polls.
    looks: u64,
}

/// All delayed letters. Letters of one rank stay in order, as on any fabric. Letters of different
/// ranks do not.
#[derive(Debug, Default)]
pub(super) struct Late {
    letters: VecDeque<LateLetter>,
}

impl Late {
    /// Adds a letter that is handled after this many polls at the earliest.
    pub(super) fn push(&mut self, from: u32, message: Vec<u8>, looks: u64) {
        self.letters.push_back(LateLetter { from, message, looks });
    }

    /// Counts one poll. `take` receives the letters that are due, and all letters of ranks that are
    /// `gone`.
    pub(super) fn look(&mut self, gone: impl Fn(u32) -> bool, mut take: impl FnMut(u32, Vec<u8>)) {
        let mut behind = Copyset::default();
        for mut letter in std::mem::take(&mut self.letters) {
            let now = letter.looks == 0 && !behind.contains(letter.from);
            if now || gone(letter.from) {
                take(letter.from, letter.message);
                continue;
            }
            behind.insert(letter.from);
            letter.looks = letter.looks.saturating_sub(1);
            self.letters.push_back(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_coll::Choices;
    use hikyaku_rank::Communicator;
    use hikyaku_shm::{JobConfig, open_all};

    use super::*;

    #[test]
    fn silence_begins_after_the_last_request() {
        let asked = Time::from_nanoseconds(7 * SILENCE);
        let silent = |after| is_silent(asked, asked + Time::from_nanoseconds(after));
        assert_eq!([0, SILENCE, SILENCE + 1, 9 * SILENCE].map(silent), [false, false, true, true]);
    }

    #[test]
    fn others_are_neither_this_rank_nor_gone() {
        let mut ports = open_all(&JobConfig::new(4, 1)).unwrap().into_iter();
        let rank = Communicator::over(ports.next().unwrap(), Choices::default());
        let service = Service::default();
        let set = |ranks: &[u32]| {
            let mut set = Copyset::default();
            ranks.iter().for_each(|rank| set.insert(*rank));
            set
        };
        service.gone.set(set(&[2]));
        assert_eq!(service.others(rank.engine()), set(&[1, 3]));
    }

    fn seen(late: &mut Late, gone: Option<u32>) -> Vec<(u32, u8)> {
        let mut seen = Vec::new();
        late.look(|from| gone == Some(from), |from, message| seen.push((from, message[0])));
        seen
    }

    #[test]
    fn letters_of_a_rank_stay_in_order_and_others_overtake_them() {
        let mut late = Late::default();
        for (from, message, looks) in [(1, 10, 2), (2, 20, 1), (1, 11, 0), (3, 30, 0), (2, 21, 9)] {
            late.push(from, vec![message], looks);
        }
        assert_eq!(seen(&mut late, None), [(3, 30)]);
        assert_eq!(seen(&mut late, None), [(2, 20)]);
        assert_eq!(seen(&mut late, None), [(1, 10), (1, 11)]);
        assert_eq!(seen(&mut late, Some(1)), []);
        assert_eq!(
            seen(&mut late, Some(2)),
            [(2, 21)],
            "nothing more comes of a rank that is gone"
        );
        assert!(late.letters.is_empty());
    }
}
