//! The rounds of an exchange. Start writes the letters to neighbours served by letter, and writes
//! or repeats the queues' chains for the others. Wait polls the letters and two counts of each
//! queue.
//!
//! Between the two this rank need not act: the last rank to arrive runs the remaining commands, in
//! any queue. A rank that waits helps: it runs commands that may run in the queues of its sources,
//! whose data it needs, and in its own.
//!
//! An error in a round ends the exchange on every rank that misses data. A rank that learns of it
//! stops its queues and names the missing rank, so that its neighbours learn it too, and theirs.

use std::mem::ManuallyDrop;
use std::task::Poll;

use hikyaku_coll::persistent::QueueStep;
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{
    MailEnd, PeerState, Port, QueueAddress, QueueCommand, QueueError, QueueFault, QueuePort,
    QueuePut, QueueState,
};
use hikyaku_nic::time::Time;

use super::error::PersistentError;
use super::mail::{ExchangeSink, ExchangeSource};
use super::setup::{ExchangeWiring, OutgoingEdge, RoundQueue};
use crate::communicator::Communicator;
use crate::error::Error;

/// How often a wait checks for ends that were freed. Polls do not measure time if a rank yields or
/// sleeps in between, so time counts too; but not for the first polls, which are short and many.
const GONE_LOOKS: u32 = 64;
const UNTIMED_LOOKS: u32 = 16;
const GONE_TIME: Time = Time::from_nanoseconds(1_000_000);

/// Consecutive polls after which a waiting rank helps for any size of data. It helps with large
/// data at once; for small data the lines that helping moves cost more than it gains.
const HELP_LOOKS: u32 = 256;

/// Polls of letters alone before a long wait begins: as long as a letter is in flight between ranks
/// that start at the same time. Any other work of a wait would add to that time.
const LETTER_LOOKS: u32 = 64;

/// From this size on, in bytes, data counts as large.
const HELP_FROM: u64 = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundState {
    Idle,
    Started,
    /// An error occurred: data may still arrive.
    Failed,
}

/// The state of a long wait.
#[derive(Debug, Clone, Copy)]
struct Waited {
    looks: u32,
    /// When the round last checked for dead neighbours.
    looked: Time,
    /// Polls are few: in virtual time a rank polls again only after it is woken.
    is_rare: bool,
}

impl Waited {
    fn new(world: &Communicator) -> Waited {
        let is_rare = world.engine().borrow().port().host().is_conducted();
        Waited { looks: 0, looked: world.now(), is_rare }
    }

    /// Whether the round should check for dead neighbours now.
    fn is_time(&mut self, port: &impl Port) -> bool {
        if port.departures() != 0 || self.looks.is_multiple_of(GONE_LOOKS) || self.is_rare {
            return true;
        }
        if self.looks < UNTIMED_LOOKS {
            return false;
        }
        let now = port.now();
        let due = now >= self.looked + GONE_TIME;
        if due {
            self.looked = now;
        }
        due
    }
}

/// An exchange without its buffers.
#[derive(Debug)]
pub struct Rounds {
    world: Communicator,
    wiring: ExchangeWiring,
    /// Whether some of the data is large.
    large: bool,
    /// Rounds started.
    round: u64,
    state: RoundState,
    /// The chain under construction, kept for its memory.
    chain: Vec<QueueCommand>,
    /// The state of a wait by repeated tests.
    tested: Waited,
}

impl Rounds {
    /// The rounds of a set-up exchange.
    pub fn new(world: Communicator, wiring: ExchangeWiring) -> Rounds {
        let large = wiring.outs.iter().any(|edge| edge.bytes >= HELP_FROM);
        let (round, state, chain, tested) = (0, RoundState::Idle, Vec::new(), Waited::new(&world));
        Rounds { world, wiring, large, round, state, chain, tested }
    }

    /// The index of the place with the latest round's data, where two places are used in turn.
    fn turn(&self) -> usize {
        (self.round.wrapping_sub(1) & 1) as usize
    }

    /// The index of the place with an incoming edge's data of the latest round.
    pub(super) fn place_of(&self, edge: usize) -> usize {
        if self.wiring.ins[edge].ahead { self.turn() } else { 0 }
    }

    /// An error if the exchange still uses the buffers.
    ///
    /// # Errors
    /// A round is in flight, or an earlier one failed.
    pub fn check_idle(&self) -> Result<(), Error> {
        match self.state {
            RoundState::Idle => Ok(()),
            RoundState::Started => Err(PersistentError::Started.into()),
            RoundState::Failed => Err(PersistentError::Failed.into()),
        }
    }

    /// Whether its rounds use messages, at every rank: one of them lacks queues or memory, or the
    /// program requested it.
    pub fn is_by_messages(&self) -> bool {
        self.wiring.is_by_messages()
    }

    /// Whether a round was started and not waited for.
    pub fn is_started(&self) -> bool {
        self.state == RoundState::Started
    }

    /// Announces the second place of edges that have two to their senders.
    pub(super) fn give_second_places(&mut self) -> Result<(), Error> {
        let engine = self.world.engine();
        for edge in self.wiring.ins.iter().filter(|edge| edge.ahead) {
            let done = engine.borrow_mut().port_mut().release_queue(edge.queue, edge.ready);
            done.map_err(|error| self.of_queue(error))?;
        }
        Ok(())
    }

    /// Starts a round whose commands repeat those of earlier rounds.
    #[inline]
    pub fn start(&mut self, data: &(impl ExchangeSource + ?Sized)) -> Result<(), Error> {
        self.check_idle()?;
        if self.round < self.wiring.period {
            return self.start_with(data, |_| {}, |_, _, _| false);
        }
        self.begin(data)?;
        if self.wiring.queues.is_empty() {
            return Ok(());
        }
        let mut engine = self.world.engine().borrow_mut();
        let mut done = Ok(());
        for queue in &self.wiring.queues {
            let count = queue.program.steps.len() as u32;
            done = done.and(engine.port_mut().repeat_queue(queue.address.queue, count));
        }
        drop(engine);
        done.map_err(|error| self.fail_to_post(error))
    }

    /// Starts a round, with `data` for its letters.
    ///
    /// `send` is called for each edge that a queue serves and whose receiver is ready. It returns
    /// whether it has sent the data itself, from the edge to one of its two places, so that the
    /// queue sends only the notification. `prepare` is called for each edge whose data the queue
    /// sends.
    pub(super) fn start_with(
        &mut self,
        data: &(impl ExchangeSource + ?Sized),
        mut prepare: impl FnMut(usize),
        mut send: impl FnMut(usize, &OutgoingEdge, usize) -> bool,
    ) -> Result<(), Error> {
        self.check_idle()?;
        self.begin(data)?;
        let turn = self.turn();
        for at in 0..self.wiring.queues.len() {
            let cleared = self.is_cleared(at)?;
            let mut chain = std::mem::take(&mut self.chain);
            chain.clear();
            let queue = &self.wiring.queues[at];
            for step in &queue.program.steps {
                let mut command = self.command(at, *step, turn);
                if let (QueueStep::Data(edge), QueueCommand::Put(put)) = (*step, &mut command) {
                    if cleared && send(edge, &self.wiring.outs[edge], turn) {
                        put.length = 0;
                    } else if edge < self.wiring.own {
                        prepare(edge);
                    }
                }
                chain.push(command);
            }
            let id = queue.address.queue;
            let posted = self.world.engine().borrow_mut().port_mut().post_queue(id, &chain);
            self.chain = chain;
            posted.map_err(|error| self.fail_to_post(error))?;
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self, data: &(impl ExchangeSource + ?Sized)) -> Result<(), Error> {
        self.round += 1;
        self.state = RoundState::Started;
        if let Some(messages) = &self.wiring.messages {
            messages.start(&self.world, data);
            return Ok(());
        }
        if self.wiring.mail.is_empty() {
            return Ok(());
        }
        let posted =
            self.wiring.mail.post(self.world.engine().borrow_mut().port_mut(), self.round, data);
        posted.map_err(|error| self.fail(error.into()))
    }

    /// Copies data that arrived by letter or message in a complete round into `data`.
    ///
    /// # Errors
    /// A letter is longer than its mailbox: it was overwritten.
    #[inline]
    pub fn take_mail(&self, data: &mut (impl ExchangeSink + ?Sized)) -> Result<(), Error> {
        if let Some(messages) = &self.wiring.messages {
            messages.take(data);
            return Ok(());
        }
        if self.wiring.mail.is_empty() {
            return Ok(());
        }
        let engine = self.world.engine().borrow();
        Ok(self.wiring.mail.take(engine.port(), self.round, data)?)
    }

    fn fail_to_post(&mut self, error: QueueError) -> Error {
        self.fail(self.of_queue(error))
    }

    /// The error of a command that a queue refused. A neighbour with an error frees its queue: then
    /// that error is reported, not the queue.
    fn of_queue(&self, error: QueueError) -> Error {
        match error {
            QueueError::Failed { fault, .. } => self.told(self.own(), fault),
            QueueError::NoSuchQueue { rank, .. } => self.told(rank, QueueFault::Abandoned { rank }),
            other => PersistentError::Queue(other).into(),
        }
    }

    /// Whether all data of a queue may be sent at once, at the beginning of a round.
    fn is_cleared(&mut self, at: usize) -> Result<bool, Error> {
        let queue = &self.wiring.queues[at];
        let cleared = i64::from(queue.program.cleared);
        let mut engine = self.world.engine().borrow_mut();
        let state = engine.port_mut().queue_state(queue.address);
        let state = state.map_err(PersistentError::Queue)?;
        Ok(state.written == state.executed && i64::from(state.ahead) >= cleared)
    }

    fn command(&self, at: usize, step: QueueStep, turn: usize) -> QueueCommand {
        let queue = &self.wiring.queues[at];
        QueueCommand::Put(match step {
            QueueStep::Nop => return QueueCommand::Nop,
            QueueStep::Combine(child) => return QueueCommand::Combine(self.wiring.combines[child]),
            QueueStep::Own => QueuePut::ready(queue.address, queue.program.own),
            QueueStep::Ready(edge) => {
                let edge = &self.wiring.ins[edge];
                QueuePut::ready(edge.queue, edge.ready)
            }
            QueueStep::Data(edge) => {
                let OutgoingEdge { bytes, event, notify, release, .. } = self.wiring.outs[edge];
                let OutgoingEdge { from, at, .. } = &self.wiring.outs[edge];
                let (from, at) = (from[turn], at[turn]);
                QueuePut { from, at, length: bytes, to: event, notify, release }
            }
        })
    }

    /// Whether the round is complete: all of our commands have run, all expected data has arrived,
    /// and letters to other hosts have been sent.
    #[inline]
    fn look(&self) -> Result<bool, Error> {
        if let Some(messages) = &self.wiring.messages {
            return messages.is_there(&self.world);
        }
        let mut engine = self.world.engine().borrow_mut();
        let mail = &self.wiring.mail;
        let mut done = mail.is_there(engine.port_mut(), self.round) && mail.has_left(engine.port());
        for queue in &self.wiring.queues {
            let state = engine.port_mut().queue_state(queue.address);
            let state = state.map_err(PersistentError::Queue)?;
            let executed = self.round * queue.program.steps.len() as u64;
            let complete =
                state.executed == executed && state.arrivals >= self.round * queue.arrivals;
            if let (false, Some(fault)) = (complete, state.fault) {
                drop(engine);
                return Err(self.told(self.own(), fault));
            }
            done &= complete;
        }
        Ok(done)
    }

    /// Whether the started round is complete. If it is, the program may use the buffers again.
    ///
    /// # Errors
    /// It was not started; or a neighbour is gone, which tests detect like a wait.
    pub fn test(&mut self) -> Result<bool, Error> {
        let mut waited = self.tested;
        let complete = self.step(&mut waited);
        self.tested = waited;
        complete
    }

    #[inline]
    fn is_complete(&mut self) -> Result<bool, Error> {
        if self.state == RoundState::Idle {
            return Err(PersistentError::NotStarted.into());
        }
        self.check_not_failed()?;
        match self.look() {
            Ok(true) => {
                self.state = RoundState::Idle;
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn check_not_failed(&self) -> Result<(), Error> {
        self.world.engine().borrow().check_process()?;
        if self.state == RoundState::Failed {
            return Err(PersistentError::Failed.into());
        }
        Ok(())
    }

    /// Waits until the round is complete.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        if self.is_complete()? {
            return Ok(());
        }
        if self.wiring.queues.is_empty() {
            let crowded = self.world.engine().borrow().port().is_crowded();
            for _ in 0..if crowded { 0 } else { LETTER_LOOKS } {
                if self.is_complete()? {
                    return Ok(());
                }
            }
        }
        self.wait_long()
    }

    #[inline(never)]
    fn wait_long(&mut self) -> Result<(), Error> {
        let mut waited = Waited::new(&self.world);
        let (world, wait) = (self.world.clone(), self.wiring.wait.on(self.world.context()));
        // Rounds bring no events: without this, waits would sleep at once after some rounds.
        world.engine().borrow_mut().port_mut().begin_wait();
        let future = std::future::poll_fn(|_| match self.step(&mut waited) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        });
        // Others may wait for messages in flight here, and for this rank's variables.
        world.drive_for(wait, future)
    }

    /// One poll of a wait.
    fn step(&mut self, waited: &mut Waited) -> Result<bool, Error> {
        if self.is_complete()? {
            return Ok(true);
        }
        waited.looks = waited.looks.wrapping_add(1);
        if self.large || waited.looks.is_multiple_of(HELP_LOOKS) {
            self.help();
        }
        let is_note_due = self.is_by_messages();
        if !is_note_due && !waited.is_time(self.world.engine().borrow().port()) {
            return Ok(false);
        }
        // Data that arrives during the check counts, and so does data that had arrived before.
        let missing = self.missing();
        if missing.is_some() {
            self.world.engine().borrow_mut().port_mut().land_all();
        }
        if self.is_complete()? {
            return Ok(true);
        }
        missing.map_or(Ok(false), |error| Err(self.fail(error)))
    }

    /// Runs commands that may run: first those that bring data here, then those that send data.
    fn help(&self) {
        let mut engine = self.world.engine().borrow_mut();
        for queue in self.wiring.others.sources() {
            engine.port_mut().help_queue(*queue);
        }
        for queue in &self.wiring.queues {
            engine.port_mut().help_queue(queue.address);
        }
    }

    /// The reason why the round will not complete, if so.
    fn missing(&self) -> Option<Error> {
        if let Some(messages) = &self.wiring.messages {
            let missing = messages.missing(&self.world, self.round);
            return missing.map(|(rank, fault)| self.told(rank, fault));
        }
        let mut engine = self.world.engine().borrow_mut();
        let port = engine.port_mut();
        for queue in &self.wiring.others.all {
            let gone = matches!(port.peer(queue.rank), PeerState::Failed(_) | PeerState::Left);
            let abandoned = Some(QueueFault::Abandoned { rank: queue.rank });
            let fault = match port.queue_state(*queue) {
                // It has ended after as many rounds as we have started: none of its data is
                // missing.
                Ok(QueueState { fault: Some(QueueFault::Retired { rounds }), .. }) => {
                    let behind = (self.round as u32).wrapping_sub(rounds).cast_signed() > 0;
                    abandoned.filter(|_| behind)
                }
                Ok(state) => state.fault.or(abandoned.filter(|_| gone)),
                // Closed: no data from it is missing. But a peer that waits for our data and no
                // longer exists will not release it.
                Err(_) => abandoned.filter(|_| self.owes(port, *queue)),
            };
            if let Some(fault) = fault {
                drop(engine);
                return Some(self.told(queue.rank, fault));
            }
        }
        let missing = self.wiring.mail.missing(port, self.round);
        drop(engine);
        missing.map(|(rank, fault)| self.told(rank, fault))
    }

    /// Whether data of this round that a queue shall count will not be sent: it has not been
    /// released.
    ///
    /// Whether it has *run* is no evidence: a rank runs a command first and counts it afterwards,
    /// and meanwhile its receiver may have completed the round and freed its end. But no receiver
    /// completes a round before the READY-TO-RECVs that release its data.
    fn owes(&self, port: &mut impl QueuePort, event: QueueAddress) -> bool {
        self.wiring.queues.iter().any(|queue| {
            let steps = &queue.program.steps;
            let before = (self.round - 1) * steps.len() as u64;
            let Ok(state) = port.queue_state(queue.address) else { return false };
            let released = state.executed.saturating_add_signed(state.ahead.into());
            let mut rest = steps.iter().skip(released.saturating_sub(before) as usize);
            let to_it = |edge: usize| self.wiring.outs[edge].event == event;
            rest.any(|step| matches!(step, QueueStep::Data(edge) if to_it(*edge)))
        })
    }

    /// This rank's number in the job.
    fn own(&self) -> u32 {
        self.world.engine().borrow().rank()
    }

    /// The error for a job rank's queue that has stopped, or for its letters that do not arrive.
    fn told(&self, rank: u32, fault: QueueFault) -> Error {
        let stopped = |fault| PersistentError::Stopped { rank: self.world.number(rank), fault };
        let missing = match fault {
            QueueFault::RunnerDied(failure) => return MsgError::PeerFailed(failure).into(),
            QueueFault::Abandoned { rank } => rank,
            QueueFault::NoSuchQueue { rank, .. } => rank,
            fault => return stopped(fault).into(),
        };
        if missing >= self.world.engine().borrow().size() {
            return stopped(fault).into();
        }
        let engine = self.world.engine().borrow();
        match engine.port().peer(missing) {
            PeerState::Failed(failure) => return MsgError::PeerFailed(failure).into(),
            PeerState::Left => return MsgError::left(missing, engine.port()).into(),
            PeerState::Starting | PeerState::Running => {}
        }
        // It is alive and has freed its end. If some rank has died, that is the reason.
        let ranks = (0..self.world.size()).filter_map(|rank| self.world.in_job(rank).ok());
        let mut dead = ranks.filter_map(|rank| match engine.port().peer(rank) {
            PeerState::Failed(failure) => Some(MsgError::PeerFailed(failure).into()),
            _ => None,
        });
        let rank = self.world.number(missing);
        dead.next().unwrap_or(PersistentError::Freed { rank }.into())
    }

    /// Ends the exchange: our queues stop with the missing rank, and the neighbours check them.
    fn fail(&mut self, error: Error) -> Error {
        let missing = match &error {
            Error::Message(MsgError::PeerFailed(failure)) => failure.rank,
            Error::Message(MsgError::PeerLeft { rank, .. }) => *rank,
            Error::Persistent(PersistentError::Freed { rank }) => {
                self.world.in_job(*rank).unwrap_or(*rank)
            }
            _ => self.own(),
        };
        self.abandon(missing);
        error
    }

    fn abandon(&mut self, missing: u32) {
        self.state = RoundState::Failed;
        if let Some(messages) = &self.wiring.messages {
            messages.end(&self.world, self.round - 1, missing);
        }
        let tell: Vec<u32> = self.wiring.others.all.iter().map(|queue| queue.rank).collect();
        let mut engine = self.world.engine().borrow_mut();
        for queue in &self.wiring.queues {
            engine.port_mut().abandon_queue(queue.address.queue, missing, &tell);
        }
        self.wiring.mail.end(engine.port_mut(), MailEnd::Abandoned { rank: missing });
    }

    /// Frees the queues. `false`: data may still arrive, so the buffers must be kept.
    pub fn end(&mut self) -> bool {
        let ended = self.end_queues();
        if !ended {
            // The buffers of relays must be kept too.
            let _kept = ManuallyDrop::new(self.wiring.relays.take());
        }
        ended
    }

    fn end_queues(&mut self) -> bool {
        if self.world.engine().try_borrow().is_ok_and(|engine| engine.port().is_forked()) {
            // A forked child has a copy of the exchange, which its parent still uses.
            return false;
        }
        if self.state == RoundState::Started && !matches!(self.is_complete(), Ok(true)) {
            self.abandon(self.own());
        }
        if self.world.engine().try_borrow_mut().is_err() {
            return false;
        }
        if let (Some(messages), RoundState::Idle) = (&self.wiring.messages, self.state) {
            messages.end(&self.world, self.round, self.own());
        }
        let mut engine = self.world.engine().borrow_mut();
        if self.state != RoundState::Failed {
            let end = MailEnd::Retired { rounds: self.round };
            self.wiring.mail.end(engine.port_mut(), end);
        }
        self.wiring.mail.close(engine.port_mut());
        if self.state == RoundState::Failed {
            // A letter accesses only its neighbour's mailbox.
            return self.wiring.queues.is_empty();
        }
        for RoundQueue { address, program, .. } in self.wiring.queues.drain(..) {
            // Receivers that let us run ahead may still have an RTR to send.
            let ahead = |step: &QueueStep| match step {
                QueueStep::Data(edge) => self.wiring.outs[*edge].ahead,
                _ => false,
            };
            let ahead = program.steps.iter().filter(|step| ahead(step)).count() as u32;
            let lead = program.offset.unwrap_or(0) + ahead * program.ready;
            engine.port_mut().retire_queue(address.queue, self.round, lead);
        }
        true
    }
}
