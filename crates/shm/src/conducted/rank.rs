//! A rank's side of a job in virtual time.
//!
//! The rank has its own time, which runs ahead of the others' while it does work that concerns only
//! itself. It joins the common time where it waits, or needs to know the others' deeds. A first
//! "nothing has arrived" is accepted without asking, since nearly always the rank parks next.
//!
//! **Spinning.** A program that polls repeatedly without waiting would stop the clock. So each
//! further unsuccessful poll, and each read of the clock beyond a few, takes a little time: the
//! more polls, the more time each takes, up to [`LONGEST_POLL`].

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use hikyaku_nic::fabric::{
    Command, FullCause, Granularity, Operation, QueueAddress, Rank, RemoteAddress, Wake,
};
use hikyaku_nic::hosted::{Conductor, ConductorAnswer, ConductorRequest};
use hikyaku_nic::sync::Ordering;
use hikyaku_nic::time::Time;
use rustix::time::{ClockId, clock_gettime};

use super::line::{LineCosts, SendProgress, Tally, TurnLine};
use super::log::{self, DeedHead};
use crate::region::JobRegion;

/// Limit of sends in flight to one rank: the length of an interface's queue.
const MAX_IN_FLIGHT: u32 = 64;

/// Bytes of a message that leave at once: a receiver can start with them before the rest arrives.
const MAX_POST: usize = 64 << 10;

/// The number of unsuccessful polls that take no extra time.
const FREE_POLLS: u32 = 1;

/// The number of waits that return at once after the rank has done or found something: an event
/// handled while it polled one operation may complete another, and that one a third. Ranks that
/// spin before they sleep have such rounds too, so callers rely on them.
const SETTLING: u32 = 2;

/// The number of consecutive reads of the clock that take no time.
const FREE_CLOCKS: u32 = 64;

/// The time of each further read of the clock, and the shortest time of an unsuccessful poll.
const CLOCK: Time = Time::from_nanoseconds(20);

/// Limit of polls for the landing of a leaving rank's sends: they span some tens of milliseconds.
const MAX_LANDING_POLLS: u32 = 100;

/// The longest time of an unsuccessful poll.
const LONGEST_POLL: Time = Time::from_nanoseconds(10_000);

/// A chain that a rank posts.
#[derive(Debug, Default)]
struct OpenChain {
    /// Whether the processor has started one of its commands.
    started: bool,
    /// The targets of puts whose answers have not been requested, one per rank.
    unanswered: Vec<RemoteAddress>,
    /// The number of puts whose answers the chain waits for.
    answers: u32,
}

/// A rank in virtual time.
#[derive(Debug)]
pub(crate) struct Conducted {
    region: Arc<JobRegion>,
    rank: Rank,
    costs: LineCosts,
    /// This rank's own time, and the common time at its last turn.
    own: Cell<Time>,
    joined: Cell<Time>,
    /// The number of bytes in the log.
    used: Cell<usize>,
    /// The number of sends to each rank.
    sent: Vec<u32>,
    /// The other node to which the last send in the log, or its last copy, went. The bytes of that
    /// send are still in the log for a further copy.
    copied: Cell<Option<u32>>,
    /// Datagrams taken from the inbox that the rank has not received yet.
    arrived: VecDeque<(Rank, Vec<u8>)>,
    /// The chain that is being posted, if any.
    chain: Option<OpenChain>,
    /// Unsuccessful polls in this round, how many of them take no time, and reads of the clock,
    /// since the last other action.
    polls: Cell<u32>,
    free_polls: Cell<u32>,
    clocks: Cell<u32>,
    /// Consecutive waits that returned at once although nothing was pending.
    settled: Cell<u32>,
    /// Consecutive waits with a pending event.
    pended: Cell<u32>,
    tally: Cell<Tally>,
    /// The processor time at the end of the last call, nanoseconds.
    processor: Cell<u64>,
}

impl Conducted {
    /// Joins the conducted job; returns at this rank's first turn.
    pub(crate) fn begin(region: Arc<JobRegion>, rank: Rank) -> Conducted {
        let ranks = region.mapping.plan().config.ranks as usize;
        let mut conducted = Conducted {
            costs: LineCosts::default(),
            region,
            rank,
            own: Cell::default(),
            joined: Cell::default(),
            used: Cell::new(0),
            sent: vec![0; ranks],
            copied: Cell::new(None),
            arrived: VecDeque::new(),
            chain: None,
            polls: Cell::new(0),
            free_polls: Cell::new(FREE_POLLS),
            clocks: Cell::new(0),
            settled: Cell::new(0),
            pended: Cell::new(0),
            tally: Cell::default(),
            processor: Cell::new(0),
        };
        conducted.ask(ConductorRequest::Start);
        // Set by the conductor before the first turn.
        conducted.costs = conducted.line().costs();
        conducted.leave_call();
        conducted
    }

    fn line(&self) -> &TurnLine {
        self.region.mapping.line(self.rank)
    }

    fn way(&self, to: Rank) -> &SendProgress {
        self.region.mapping.way(self.rank, to)
    }

    /// Begins a call: the program's computation since the last call takes time.
    fn enter_call(&self) {
        self.clocks.set(0);
        if self.costs.measured > 0 {
            let worked = processor_time().saturating_sub(self.processor.get());
            let scaled = u128::from(worked) * u128::from(self.costs.measured);
            let picoseconds = u64::try_from(scaled).unwrap_or(u64::MAX);
            self.work(Time::from_picoseconds(picoseconds));
        }
    }

    fn leave_call(&self) {
        if self.costs.measured > 0 {
            self.processor.set(processor_time());
        }
    }

    /// Notes that the rank has done or found something: other operations may progress by it.
    fn stir(&self) {
        self.polls.set(0);
        self.free_polls.set(FREE_POLLS);
        self.settled.set(0);
    }

    fn work(&self, span: Time) {
        self.spend(span);
        self.note(|tally| tally.computing = tally.computing + span);
    }

    /// Whether another rank is on this one's node, so that no interface is needed.
    fn is_near(&self, other: Rank) -> bool {
        self.node_of(self.rank) == self.node_of(other)
    }

    fn node_of(&self, rank: Rank) -> u32 {
        rank / self.region.mapping.plan().config.ranks_per_node
    }

    /// Charges the description of a command with `bytes` bytes.
    fn command(&mut self, to: Rank, bytes: u64) {
        if !self.is_near(to) || to == self.rank {
            self.start(bytes);
        }
    }

    /// Charges the start of a command for the interface, alone or in a chain.
    fn start(&mut self, bytes: u64) {
        let behind =
            self.chain.as_mut().is_some_and(|chain| std::mem::replace(&mut chain.started, true));
        let costs = if behind { &self.costs.chained } else { &self.costs.send };
        self.spend(costs.at(bytes));
    }

    /// Logs a put of a chain; the time in the head is the time of its writing.
    fn log_put(&mut self, put: &Command<'_>, is_last: bool) {
        self.make_room(put.payload.len());
        let Some(head) = log::put(put, is_last, self.own.get()) else { return };
        self.append(&head, put.payload);
        if let Some(chain) = &mut self.chain {
            chain.answers += u32::from(is_last);
        }
    }

    /// Checks whether a send could land at its rank, to this rank's knowledge.
    fn check_way(&mut self, command: &Command<'_>) -> Result<(), FullCause> {
        let to = command.destination;
        let way = self.way(to);
        let under_way = self.sent[to as usize].wrapping_sub(way.landed.load(Ordering::Relaxed));
        let blocked =
            way.blocked().or((under_way >= MAX_IN_FLIGHT).then_some(FullCause::RingStalled));
        match blocked.filter(|_| !command.passes) {
            Some(cause) => {
                self.line().refused.store(1, Ordering::Relaxed);
                self.look_in_vain();
                Err(cause)
            }
            None => Ok(()),
        }
    }

    fn spend(&self, span: Time) {
        self.own.set(self.own.get() + span);
    }

    fn note(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// Makes a request and sleeps until this rank continues.
    fn ask(&self, request: ConductorRequest) -> ConductorAnswer {
        let line = self.line();
        self.copied.set(None);
        line.used.store(self.used.replace(0) as u64, Ordering::Relaxed);
        line.set_tally(&self.tally.get());
        let asked = self.own.get();
        line.ask(request, asked, self.region.mapping.line(0));
        let (now, answer) = line.await_turn();
        self.own.set(asked.max(now));
        self.joined.set(now);
        self.note(|tally| tally.waiting = tally.waiting + (self.own.get() - asked));
        answer
    }

    /// Joins the common time without counting that as waiting.
    fn join_time(&self) {
        self.ask(ConductorRequest::CatchUp);
    }

    /// Makes room in the log for a payload; `None`: the payload is larger than the log.
    fn make_room(&self, payload: usize) -> Option<usize> {
        let log = self.region.mapping.log_bytes();
        let needed = log::room(payload);
        if needed > log {
            return None;
        }
        if self.used.get() + needed > log {
            self.join_time();
        }
        Some(self.used.get())
    }

    fn append(&self, head: &DeedHead, payload: &[u8]) {
        let Some(at) = self.make_room(payload.len()) else { return };
        let mapping = &self.region.mapping;
        mapping.write_log(self.rank, at, head);
        mapping.write_log(self.rank, at + log::HEAD, payload);
        self.used.set(at + log::room(payload.len()));
        self.stir();
        if self.costs.at_once {
            self.join_time();
        }
    }

    /// See [`hikyaku_nic::hosted::Host::wake`].
    pub(crate) fn wake(&self, rank: Rank) {
        if rank != self.rank {
            self.append(&log::wake(rank, self.own.get()), &[]);
        }
    }

    /// See [`hikyaku_nic::hosted::Host::now`]: a program that only reads the clock makes time pass.
    pub(crate) fn now(&self) -> Time {
        let clocks = self.clocks.get();
        self.clocks.set(clocks.saturating_add(1));
        if clocks >= FREE_CLOCKS {
            self.spend(CLOCK);
        }
        self.own.get()
    }

    /// See [`hikyaku_nic::hosted::Host::wait`].
    pub(crate) fn park(&self, deadline: Option<Time>, pending: impl FnOnce() -> bool) -> Wake {
        self.enter_call();
        let polls = self.polls.replace(0);
        let bell = self.region.mapping.segment(self.rank).doorbell();
        let over = |now| deadline.is_some_and(|deadline| now >= deadline);
        let pended = self.pended.replace(0);
        let settled = self.settled.get();
        let wake = if pending() {
            // No operation may wait for the pending event: time must pass nevertheless.
            self.pended.set(pended.saturating_add(1));
            if pended >= FREE_POLLS {
                self.spend(self.costs.look.max(CLOCK));
                self.join_time();
            }
            Wake::Look
        } else if over(self.own.get()) {
            // Time must pass nevertheless: the caller may use deadlines that have already passed.
            self.spend(self.costs.look.max(CLOCK));
            self.join_time();
            Wake::Deadline
        } else if settled < SETTLING {
            self.settled.set(settled + 1);
            // The same polls are repeated; no other rank has run meanwhile.
            self.free_polls.set(FREE_POLLS.saturating_add(polls));
            Wake::Look
        } else {
            self.note(|tally| tally.calls += 1);
            bell.sleeping.store(1, Ordering::Relaxed);
            let answer = self.ask(ConductorRequest::Park(deadline));
            bell.sleeping.store(0, Ordering::Relaxed);
            self.line().refused.store(0, Ordering::Relaxed);
            self.stir();
            if over(self.own.get()) { Wake::Deadline } else { answer.wake() }
        };
        self.leave_call();
        wake
    }

    /// Lets time pass until this rank's sends have landed: a rank that sees that this one has left
    /// assumes that nothing of it is in flight. Bounded, since a send without room never lands.
    pub(crate) fn await_landing(&self) {
        let mut span = CLOCK;
        for _ in 0..MAX_LANDING_POLLS {
            let landed = |to: usize| self.way(to as Rank).landed.load(Ordering::Relaxed);
            if (0..self.sent.len()).all(|to| landed(to) == self.sent[to]) {
                return;
            }
            self.ask(ConductorRequest::Park(Some(self.own.get() + span)));
            span = span + span.min(LONGEST_POLL);
        }
    }

    /// Leaves the job in order, without waiting for others.
    pub(crate) fn leave(&self) {
        self.enter_call();
        let line = self.line();
        line.used.store(self.used.replace(0) as u64, Ordering::Relaxed);
        line.set_tally(&self.tally.get());
        line.ask(ConductorRequest::Leave, self.own.get(), self.region.mapping.line(0));
    }
}

impl Conductor for Conducted {
    fn carry(&mut self, command: &Command<'_>) -> Result<usize, FullCause> {
        self.enter_call();
        self.note(|tally| tally.calls += 1);
        self.check_way(command)?;
        let to = command.destination;
        let whole = command.payload.len();
        let most = self.region.mapping.log_bytes() - log::HEAD;
        let taken = match command.granularity {
            Granularity::PerPacket => whole.min(most / 8 * 8).min(MAX_POST),
            Granularity::PerMessage => whole,
        };
        match (self.is_near(to), command.offset) {
            (true, _) => self.spend(copying(&self.costs, taken as u64)),
            (false, 0) => self.start(command.total),
            // The rest of a message: the interface continues an earlier command.
            (false, _) => {}
        }
        // Made first: the time in the head is the time of its writing.
        self.make_room(taken);
        self.sent[to as usize] = self.sent[to as usize].wrapping_add(1);
        self.append(&log::send(command, taken, self.own.get()), &command.payload[..taken]);
        let keeps = taken == whole && !self.is_near(to) && self.used.get() > 0;
        self.copied.set(keeps.then(|| self.node_of(to)));
        self.leave_call();
        Ok(taken)
    }

    fn carry_copy(&mut self, command: &Command<'_>) -> Result<usize, FullCause> {
        let (to, copied) = (command.destination, self.copied.get());
        if self.is_near(to) {
            // Through memory, while the other sends may still be copies.
            let taken = self.carry(command)?;
            self.copied.set(copied.filter(|_| self.used.get() > log::room(taken)));
            return Ok(taken);
        }
        let room = self.used.get() + log::HEAD <= self.region.mapping.log_bytes();
        let other = copied.is_some_and(|node| node != self.node_of(to));
        if !(self.costs.copies && room && other) {
            return self.carry(command);
        }
        self.enter_call();
        self.check_way(command)?;
        self.sent[to as usize] = self.sent[to as usize].wrapping_add(1);
        self.append(&log::copy(command, self.own.get()), &[]);
        self.copied.set(Some(self.node_of(to)));
        self.leave_call();
        Ok(command.payload.len())
    }

    fn begin_chain(&mut self) {
        self.chain = Some(OpenChain::default());
    }

    fn carry_put(&mut self, put: &Command<'_>, is_last: bool) -> bool {
        let Operation::Put(target) = put.operation else { return false };
        let bytes = put.payload.len();
        if log::room(bytes) > self.region.mapping.log_bytes() {
            return false;
        }
        self.enter_call();
        self.note(|tally| tally.calls += 1);
        match self.is_near(target.rank) {
            true => self.spend(copying(&self.costs, bytes as u64)),
            false => self.start(bytes as u64),
        }
        self.log_put(put, is_last);
        if let Some(chain) = &mut self.chain {
            chain.unanswered.retain(|other| other.rank != target.rank);
            if !is_last {
                chain.unanswered.push(target);
            }
        }
        self.leave_call();
        true
    }

    fn end_chain(&mut self) -> Option<u32> {
        // If the chain was cut, the last put to a rank is missing: an empty one requests the
        // answer.
        let unanswered = self.chain.as_mut().map(|chain| std::mem::take(&mut chain.unanswered));
        for target in unanswered.into_iter().flatten() {
            self.log_put(&Command::put(target, &[]), true);
        }
        let OpenChain { answers, .. } = self.chain.take()?;
        if answers == 0 {
            return None;
        }
        self.enter_call();
        self.polls.set(0);
        let answer = self.ask(ConductorRequest::Answers(answers));
        self.spend(self.costs.look);
        self.leave_call();
        match answer {
            ConductorAnswer::Refused(number) => Some(number),
            _ => None,
        }
    }

    fn carry_datagram(&mut self, to: &[Rank], datagram: &[u8]) {
        self.enter_call();
        self.note(|tally| tally.calls += 1);
        let length = datagram.len() as u64;
        let far = to.iter().filter(|to| !self.is_near(**to)).count();
        let sends = if self.costs.copies { far.min(1) } else { far };
        (0..sends).for_each(|_| self.spend(self.costs.send.at(length)));
        self.spend(copying(&self.costs, length));
        let ranks: Vec<u8> = to.iter().flat_map(|to| to.to_le_bytes()).collect();
        let payload = [&ranks, datagram].concat();
        // Made first: the time in the head is the time of its writing.
        self.make_room(payload.len());
        self.append(&log::datagram(to.len(), datagram.len(), self.own.get()), &payload);
        self.copied.set(None);
        self.leave_call();
    }

    fn find_datagram(&mut self) -> Option<(Rank, Vec<u8>)> {
        let waiting = self.line().arrived.swap(0, Ordering::Relaxed);
        let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
        if waiting > 0 {
            let mut inbox = vec![0; waiting.min(self.region.mapping.log_bytes())];
            self.region.mapping.read_inbox(self.rank, &mut inbox);
            let mut rest = &inbox[..];
            while let Some((from, datagram, after)) = log::first_arrived(rest) {
                self.arrived.push_back((from, datagram.to_vec()));
                rest = after;
            }
        }
        let Some((from, datagram)) = self.arrived.pop_front() else {
            // A rank that only reads its own copies polls only here.
            self.look_in_vain();
            return None;
        };
        if from >= self.region.mapping.plan().config.ranks {
            return None;
        }
        self.received(from, datagram.len() as u64, Some(datagram.len() as u64));
        Some((from, datagram))
    }

    fn network_copies(&self) -> bool {
        self.costs.copies
    }

    fn awaits_landing(&mut self, to: Rank) -> bool {
        let landed = self.way(to).landed.load(Ordering::Relaxed);
        let awaits = self.sent[to as usize] != landed;
        if awaits {
            self.line().refused.store(1, Ordering::Relaxed);
        }
        awaits
    }

    fn announce(&mut self, to: Rank, protocol: u8, header: u64, length: u64, offset: u64) {
        let head = log::announce(to, (protocol, header), (length, offset), self.own.get());
        self.append(&head, &[]);
    }

    fn go(&mut self, to: Rank, bytes: u64) {
        self.enter_call();
        self.polls.set(0);
        self.note(|tally| tally.calls += 1);
        self.command(to, bytes);
        self.ask(ConductorRequest::Travel { from: self.rank, to, bytes });
        self.leave_call();
    }

    fn come_back(&mut self, from: Rank, bytes: u64) {
        self.ask(ConductorRequest::Travel { from, to: self.rank, bytes });
        self.spend(self.costs.look);
    }

    fn received(&mut self, from: Rank, bytes: u64, begins: Option<u64>) {
        self.enter_call();
        self.stir();
        self.note(|tally| tally.calls += 1);
        if let (Some(total), false) = (begins, self.is_near(from)) {
            self.spend(self.costs.receive.at(total));
        }
        self.spend(copying(&self.costs, bytes));
        self.leave_call();
    }

    fn near(&mut self, bytes: u64) {
        self.stir();
        self.spend(self.costs.near + copying(&self.costs, bytes));
    }

    fn own(&mut self) {
        self.enter_call();
        self.polls.set(0);
        // Not zero: a program that polls a word until it changes must not stop the clock.
        self.spend(self.costs.look.max(CLOCK));
        self.join_time();
        self.leave_call();
    }

    fn compute(&mut self, span: Time) {
        if self.costs.measured == 0 {
            self.work(span);
        }
        if span > Time::ZERO {
            self.stir();
        }
        self.join_time();
    }

    fn look_in_vain(&mut self) {
        self.enter_call();
        let polls = self.polls.get();
        self.polls.set(polls.saturating_add(1));
        if polls >= self.free_polls.get() {
            let least = self.costs.look.max(CLOCK).picoseconds();
            let span = least.saturating_mul(1 + u64::from(polls / 8));
            self.spend(Time::from_picoseconds(span).min(LONGEST_POLL));
            self.ask(ConductorRequest::CatchUp);
        }
        self.leave_call();
    }

    fn catch_up(&mut self) {
        self.enter_call();
        self.polls.set(0);
        if self.own.get() > self.joined.get() || self.costs.at_once {
            self.join_time();
        }
        self.leave_call();
    }

    fn run(&mut self, queue: QueueAddress) {
        self.enter_call();
        self.note(|tally| tally.calls += 1);
        self.command(queue.rank, 0);
        self.append(&log::run(queue, self.own.get()), &[]);
        self.leave_call();
    }
}

/// The time of a copy.
fn copying(costs: &LineCosts, bytes: u64) -> Time {
    let picoseconds = u128::from(bytes) * u128::from(costs.copy.picoseconds()) / 1024;
    Time::from_picoseconds(u64::try_from(picoseconds).unwrap_or(u64::MAX))
}

/// The processor time of this thread, nanoseconds.
fn processor_time() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use hikyaku_nic::fabric::Space;
    use hikyaku_nic::hosted::Deed;

    use super::*;
    use crate::conducted::line::CostBySize;
    use crate::conducted::{Stage, log_at};
    use crate::plan::MemoryPlan;
    use crate::{Job, JobConfig, attach};

    /// The conductor's view of one turn: the rank's time, its request, its deeds before.
    type Turn = (u64, ConductorRequest, Vec<Deed>);

    /// Ends the job with a failing test: then its conductor waits for no rank.
    struct Ending<'s>(&'s Stage);

    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }

    /// Runs `program` as rank 0 of a job of three, each on its own node. Returns its turns from the
    /// first. Each request is answered at once.
    fn turns(program: impl FnOnce(&mut Conducted, &Stage)) -> Vec<Turn> {
        let config = JobConfig::new(3, 1).in_virtual_time();
        let job = Job::create(&config).unwrap();
        let stage = job.stage().unwrap().unwrap();
        let memory = rustix::io::fcntl_dupfd_cloexec(job.fd(), 0).unwrap();
        let mapping = attach::map(&memory, MemoryPlan::new(&config).unwrap()).unwrap();
        let region = Arc::new(JobRegion::new(mapping, memory, 0, 0));
        thread::scope(|scope| {
            let conductor = scope.spawn(|| conduct(&stage));
            let ending = Ending(&stage);
            let mut rank = Conducted::begin(region, 0);
            program(&mut rank, &stage);
            rank.leave();
            let turns = conductor.join().unwrap();
            drop(ending);
            turns
        })
    }

    fn conduct(stage: &Stage) -> Vec<Turn> {
        let mut handed = stage.await_rank(0);
        assert_eq!(handed.request, ConductorRequest::Start);
        let mut turns = Vec::new();
        while handed.request != ConductorRequest::Leave {
            stage.give(0, handed.now, ConductorAnswer::GoOn);
            handed = stage.await_rank(0);
            let mut deeds = Vec::new();
            stage.take_deeds(0, &mut deeds);
            let deeds = deeds.into_iter().map(|(_, deed)| deed).collect();
            turns.push((handed.now.picoseconds() / 1000, handed.request, deeds));
        }
        turns
    }

    fn requests(turns: &[Turn]) -> Vec<(u64, ConductorRequest)> {
        turns.iter().map(|(now, request, _)| (*now, *request)).collect()
    }

    /// The payloads of the sends at a turn.
    fn payloads((_, _, deeds): &Turn) -> Vec<Vec<u8>> {
        let payload = |deed: &Deed| match deed {
            Deed::Send(posted) => posted.payload.clone(),
            other => panic!("{other:?}"),
        };
        deeds.iter().map(payload).collect()
    }

    #[test]
    fn what_a_rank_did_is_in_its_log_in_order() {
        let turns = turns(|rank, _| {
            for payload in [&[1; 5][..], &[], &[2; 16]] {
                let command = Command::send(1, 0, 0, payload);
                assert_eq!(rank.carry(&command), Ok(payload.len()));
            }
        });
        assert_eq!(payloads(&turns[0]), [vec![1; 5], vec![], vec![2; 16]]);
        assert_eq!(turns.len(), 1);
    }

    /// A multicast of five bytes to ranks 1 and 2, at 50 ns per command: its time, and which of its
    /// sends are copies.
    fn multicast(copies: bool, before: impl Fn(&mut Conducted)) -> (u64, Vec<bool>) {
        let turns = turns(|rank, _| {
            rank.costs.copies = copies;
            rank.costs.send = CostBySize::of(|_| Time::from_nanoseconds(50));
            before(rank);
            for (to, is_copy) in [(1, false), (2, true)] {
                let command = Command::send(to, 0, 0, &[7; 5]);
                let taken = if is_copy { rank.carry_copy(&command) } else { rank.carry(&command) };
                assert_eq!(taken, Ok(5));
            }
        });
        let (now, _, deeds) = turns.last().unwrap();
        let is_copy = deeds.iter().map(|deed| match deed {
            Deed::Send(posted) => posted.copy,
            other => panic!("{other:?}"),
        });
        assert!(payloads(turns.last().unwrap()).iter().all(|payload| payload == &[7; 5]));
        (*now, is_copy.collect())
    }

    #[test]
    fn cj_14_a_copy_costs_its_rank_nothing_where_the_network_copies() {
        assert_eq!(multicast(true, |_| {}), (50, vec![false, true]));
        assert_eq!(multicast(false, |_| {}), (100, vec![false, false]));
        // A send that does not fit the log beside the first is not logged as its copy.
        let fill = |rank: &mut Conducted| {
            let room = rank.region.mapping.log_bytes() - log::room(5);
            while rank.used.get() + log::HEAD <= room {
                rank.wake(1);
            }
        };
        assert_eq!(multicast(true, fill), (100, vec![false]));
    }

    /// A rank for which a start costs 50 ns, and each further command of a chain 3 ns.
    fn chaining(program: impl Fn(&mut Conducted)) -> Vec<Turn> {
        turns(|rank, _| {
            rank.costs.send = CostBySize::of(|_| Time::from_nanoseconds(50));
            rank.costs.chained = CostBySize::of(|_| Time::from_nanoseconds(3));
            program(rank);
        })
    }

    #[test]
    fn cp_06_sends_of_a_chain_cost_one_start_and_wait_for_nothing() {
        let sends = |rank: &mut Conducted| {
            for to in [1, 2, 1] {
                assert_eq!(rank.carry(&Command::send(to, 0, 0, &[])), Ok(0));
            }
        };
        let chain = chaining(|rank| {
            rank.begin_chain();
            sends(rank);
            rank.end_chain();
            sends(rank);
        });
        assert_eq!(requests(&chain), [(56 + 150, ConductorRequest::Leave)]);
    }

    #[test]
    fn cp_06_puts_of_a_chain_cost_one_start_and_each_rank_answers_once() {
        let put = |rank: &mut Conducted, to, is_last| {
            let target = RemoteAddress { rank: to, space: Space::Region, offset: 0 };
            assert!(rank.carry_put(&Command::put(target, &[1; 5]), is_last));
        };
        let whole = chaining(|rank| {
            rank.begin_chain();
            for (to, is_last) in [(1, false), (2, true), (1, true)] {
                put(rank, to, is_last);
            }
            rank.end_chain();
        });
        assert_eq!(requests(&whole)[0], (56, ConductorRequest::Answers(2)));
        // Without the last put to it, a rank answers an empty one.
        let cut = chaining(|rank| {
            rank.begin_chain();
            put(rank, 1, false);
            rank.end_chain();
        });
        let asks = |(_, _, deeds): &Turn| -> Vec<(bool, usize)> {
            let put = |deed: &Deed| match deed {
                Deed::Put(put) => (put.is_last, put.payload.len()),
                other => panic!("{other:?}"),
            };
            deeds.iter().map(put).collect()
        };
        assert_eq!(asks(&whole[0]), [(false, 5), (true, 5), (true, 5)]);
        assert_eq!(asks(&cut[0]), [(false, 5), (true, 0)]);
        assert_eq!(requests(&cut)[0], (50, ConductorRequest::Answers(1)));
    }

    #[test]
    fn a_full_log_is_taken_out_before_more_is_written() {
        let turns = turns(|rank, _| {
            let half = rank.region.mapping.log_bytes() / 2;
            for number in 1..=3 {
                let payload = vec![number; half.min(MAX_POST)];
                while rank.used.get() + log::room(payload.len()) <= 2 * half {
                    assert_eq!(rank.carry(&Command::send(1, 0, 0, &payload)), Ok(payload.len()));
                }
                assert_eq!(rank.carry(&Command::send(1, 0, 0, &payload)), Ok(payload.len()));
                assert_eq!(rank.used.get(), log::room(payload.len()), "it is in the empty log");
                rank.join_time();
            }
        });
        for (number, two) in (1..).zip(turns[..6].chunks_exact(2)) {
            assert_eq!(payloads(&two[1]), [vec![number; payloads(&two[0])[0].len()]]);
        }
        assert_eq!(turns.len(), 7);
        assert!(turns[..6].iter().all(|(_, request, _)| *request == ConductorRequest::CatchUp));
    }

    #[test]
    fn each_rank_has_a_line_and_in_it_its_progress_towards_each_other() {
        turns(|rank, _| {
            let mapping = &rank.region.mapping;
            let line = |rank| std::ptr::from_ref(mapping.line(rank)).addr();
            let mut ends = line(0);
            for from in 0..3 {
                assert!(line(from) >= ends, "the line of {from} is in the one before");
                ends = line(from) + size_of::<TurnLine>();
                for to in 0..3 {
                    let way = std::ptr::from_ref(mapping.way(from, to)).addr();
                    assert!(way >= ends, "from {from} to {to}");
                    ends = way + size_of::<SendProgress>();
                }
                assert!(ends <= line(from) + log_at(3), "in the log of {from}");
                ends = line(from) + log_at(3) + mapping.log_bytes();
            }
        });
    }

    #[test]
    fn so_many_sends_are_in_flight_to_one_rank_until_some_have_landed() {
        turns(|rank, stage| {
            let send = |rank: &mut Conducted, to| rank.carry(&Command::send(to, 0, 0, &[]));
            assert!((0..MAX_IN_FLIGHT).all(|_| send(rank, 1).is_ok()));
            assert!(!stage.was_refused(0));
            assert_eq!(send(rank, 1), Err(FullCause::RingStalled));
            assert!(stage.was_refused(0) && rank.awaits_landing(1) && !rank.awaits_landing(2));
            assert_eq!(rank.carry(&Command { passes: true, ..Command::send(1, 0, 0, &[]) }), Ok(0));
            assert!((0..MAX_IN_FLIGHT).all(|_| send(rank, 2).is_ok()));
            stage.landed(0, 1);
            assert_eq!(send(rank, 1), Err(FullCause::RingStalled), "one too many is in flight");
            stage.landed(0, 1);
            assert_eq!(send(rank, 1), Ok(0));
            assert_eq!(send(rank, 2), Err(FullCause::RingStalled));
            (0..MAX_IN_FLIGHT).for_each(|_| stage.landed(0, 2));
            stage.set_blocked(0, 2, Some(FullCause::StatusStalled));
            assert_eq!(send(rank, 2), Err(FullCause::StatusStalled));
            stage.set_blocked(0, 2, None);
            assert!(!rank.awaits_landing(2));
            assert_eq!(send(rank, 2), Ok(0));
        });
    }

    #[test]
    fn a_program_that_only_polls_lets_more_and_more_time_pass() {
        let turns = turns(|rank, _| (0..=4_000).for_each(|_| rank.look_in_vain()));
        let times: Vec<u64> = turns.iter().map(|(now, ..)| *now).collect();
        // The first poll is free, the next seven take 20 ns each, the next eight 40 ns.
        assert_eq!(times[..9], [20, 40, 60, 80, 100, 120, 140, 180, 220]);
        assert_eq!(times[3_999] - times[3_998], 10_000, "and never more than this");
        assert!(turns[..4_000].iter().all(|(_, request, _)| *request == ConductorRequest::CatchUp));
        assert_eq!(turns.len(), 4_001);
    }

    #[test]
    fn the_first_poll_after_anything_was_done_is_free_again() {
        let turns = turns(|rank, _| {
            let acts: [fn(&mut Conducted); 3] = [|_| {}, |rank| rank.wake(1), |rank| rank.near(0)];
            for act in acts {
                act(rank);
                rank.look_in_vain();
                rank.look_in_vain();
            }
        });
        let catch_up = |now| (now, ConductorRequest::CatchUp);
        assert_eq!(
            requests(&turns),
            [catch_up(20), catch_up(40), catch_up(60), (60, ConductorRequest::Leave)]
        );
    }

    #[test]
    fn a_rank_leaves_when_its_sends_have_landed_or_never_will() {
        let turns = turns(|rank, stage| {
            rank.await_landing();
            assert_eq!(rank.carry(&Command::send(2, 0, 0, &[])), Ok(0));
            rank.await_landing();
            stage.landed(0, 2);
            rank.await_landing();
        });
        let park = |now, until| (now, ConductorRequest::Park(Some(Time::from_nanoseconds(until))));
        let parks = requests(&turns);
        assert_eq!(parks[..3], [park(0, 20), park(0, 40), park(0, 80)]);
        assert_eq!(parks.len(), MAX_LANDING_POLLS as usize + 1);
    }

    #[test]
    fn a_rank_catches_up_where_it_is_ahead() {
        let turns = turns(|rank, _| {
            rank.catch_up();
            rank.spend(CLOCK);
            rank.catch_up();
            rank.catch_up();
        });
        let leave = ConductorRequest::Leave;
        assert_eq!(requests(&turns), [(20, ConductorRequest::CatchUp), (20, leave)]);
    }

    #[test]
    fn only_the_computation_since_the_last_call_is_charged() {
        turns(|rank, _| {
            // Charges a picosecond of virtual time for each nanosecond of the processor.
            rank.costs.measured = 1;
            while processor_time() < 1_000_000 {}
            let (since, charged) = (processor_time(), rank.own.get().picoseconds());
            rank.leave_call();
            rank.enter_call();
            let charged = rank.own.get().picoseconds() - charged;
            assert!(charged <= processor_time() - since, "{charged} ns");
        });
    }

    #[test]
    fn ranks_that_have_begun_are_counted() {
        turns(|rank, stage| {
            assert_eq!(stage.ever_joined(), 1);
            let other = rank.region.mapping.line(2);
            other.ask(ConductorRequest::Start, Time::ZERO, rank.region.mapping.line(0));
            assert_eq!(stage.ever_joined(), 2);
        });
    }
}
