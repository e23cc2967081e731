//! One rank's point-to-point state: posted receives, arrived messages, pending sends.
//!
//! ```text
//!   direct.rs      the fast path: blocking send and receive of small messages
//!   send.rs        starting a send; emptying the outbox
//!   recv.rs        starting a receive; attaching and detaching buffers; probing
//!   arrive.rs      events of the port: matching, assembling
//!   rendezvous.rs  RTS, CTS, DATA, FIN, and the choice among the ways of a long message
//!   joint.rs       messages that both ends copy
//!   cancel.rs      cancelling operations
//!   wait.rs        test, wait, the loop of every blocking call
//!   vain.rs        nonblocking calls that find nothing
//!   relief.rs      what a blocked rank does for the sources it needs: credit, evacuation
//!   threads.rs     threads of the rank that wait at the same time
//!   failure.rs     peers that died or left
//! ```
//!
//! The engine moves only when called. A program with open requests calls [`Engine::progress`], or
//! anything that blocks, from time to time.

mod arrive;
mod cancel;
mod direct;
mod failure;
mod joint;
mod lend;
mod recv;
mod relief;
mod rendezvous;
mod send;
mod threads;
mod vain;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;

use hikyaku_nic::by_rank::ByRank;
use hikyaku_nic::fabric::{Capabilities, CopyPort, JointCopy, PeerFailure, Rank, Unmatched, Wait};
use hikyaku_nic::plan::{SentRows, TrafficKind};

use crate::config::{EngineConfig, SenderChoice, of_each_rank};
use crate::credit::Credit;
use crate::ended::EndedTags;
use crate::envelope::{Envelope, Selector, context_of, match_bits};
use crate::error::MsgError;
use crate::late::Lateness;
use crate::members::Members;
use crate::notes::{Answerer, Notes};
use crate::outbox::Outbox;
use crate::posted::PostedReceives;
use crate::request::{RequestId, RequestSlab, RequestState};
use crate::statistics::Statistics;
use crate::tally::WayTally;
use crate::traffic::TrafficCounts;
use crate::unexpected::{EntryBody, UnexpectedEntry, UnexpectedMessages};
use crate::ways::{LongMessages, Ways};

pub use cancel::CancelOutcome;
use direct::EarlyLooks;
pub use threads::Wanted;
use vain::VainCalls;
use wait::Reports;
pub use wait::{Blocked, MEMORY_SLEEP, Pace, end_of_doze};

/// Point-to-point messages of one rank over its port.
#[derive(Debug)]
pub struct Engine<P: CopyPort> {
    port: P,
    config: EngineConfig,
    capabilities: Capabilities,
    rank: Rank,
    requests: RequestSlab,
    posted: PostedReceives,
    unexpected: UnexpectedMessages,
    notes: Notes,
    /// Tags of which it accepts nothing more.
    ended: EndedTags,
    /// The answerers of arriving notes, by context.
    answerers: BTreeMap<u32, Answering>,
    outbox: Outbox,
    /// The state of each rank as a source.
    sources: ByRank<SourceState>,
    /// The first rank that failed: from then on wildcard receives that need it fail too.
    first_failure: Option<PeerFailure>,
    /// The members of each context that does not include all ranks.
    groups: BTreeMap<u32, Arc<Members>>,
    statistics: Statistics,
    /// How its long messages were transferred; `None`: there were none.
    tally: Option<Box<WayTally>>,
    /// The messages it has sent, by receiver, if they are traced.
    traffic: Option<Box<TrafficCounts>>,
    /// Its choices for messages to some ranks.
    choices: BTreeMap<Rank, SenderChoice>,
    waiting: Option<Wait>,
    reports: Reports,
    /// The operation that the awaited requests belong to.
    whole: Option<Wait>,
    /// The unmatched messages that make sources wait, if any do.
    at_limit: Option<Unmatched>,
    /// Sources marked as held up. Unmarked ones are removed at the next relief.
    held_up: Vec<Rank>,
    /// Sources of announcements that found no receive and may be read early.
    announcers: Vec<Rank>,
    /// Whether sources are sometimes redirected to other rings, or name the ring.
    moves_rings: bool,
    /// The receive whose message both ends are copying. The fabric allows one joint copy a rank.
    joint: Option<RequestId>,
    /// The send of a future whose receiver copies and asks for help: its request word and the copy.
    late_join: Option<(u64, JointCopy)>,
    /// Whether this rank's memory is marked as revoked: it has abandoned an announced message.
    is_revoked: bool,
    /// A receive was posted or a probe began since the last relief: it may need a source whose mark
    /// was known before.
    needs_more: bool,
    early_looks: EarlyLooks,
    /// Consecutive rounds without anything to do.
    idle_rounds: u32,
    /// Rounds with something to do.
    turns: u64,
    /// Nonblocking calls that found nothing.
    vain: VainCalls,
    /// Counts events that may concern every thread of the rank.
    news: u64,
    /// The unsuccessful polls of the thread that polls now, if they are to be recorded.
    wanted: Option<Wanted>,
}

/// The answerer of a context's notes, and the ranks that it answers; `None`: all ranks of the job.
#[derive(Debug)]
struct Answering {
    answerer: Box<dyn Answerer>,
    members: Option<Arc<Members>>,
}

/// The state of a rank as a source of messages.
#[derive(Debug)]
struct SourceState {
    credit: Credit,
    /// The eager message of which parts are still missing.
    assembling: Option<Assembling>,
    /// It has found no room or credit since its last message arrived.
    held_up: bool,
    /// Its memory cannot be read; it has to stream.
    read_refused: bool,
    /// Timings of the ways of its long messages; `None`: there were none.
    ways: Option<Box<Ways>>,
    /// How often this rank is late to read its messages.
    late: Lateness,
    failed: Option<PeerFailure>,
}

impl SourceState {
    /// Accounts for a credited message that has arrived from it.
    #[inline]
    fn note_credited(&mut self) {
        self.credit.arrive();
        self.held_up = false;
    }
}

/// An eager message of several parts. At most one per source: its parts follow each other.
#[derive(Debug)]
struct Assembling {
    bits: u64,
    total: u64,
    arrived: u64,
    target: PartTarget,
}

/// The destination of a message's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartTarget {
    /// To the last unexpected message of the source.
    Unexpected,
    /// To the receive that has matched.
    Request(RequestId),
    /// Nowhere: its receive was abandoned.
    Nowhere,
}

impl<P: CopyPort> Engine<P> {
    /// An engine over an unused port.
    pub fn new(mut port: P, config: EngineConfig) -> Engine<P> {
        let ranks = port.size();
        let source = move || SourceState {
            credit: Credit::new(config.credit_window),
            assembling: None,
            held_up: false,
            read_refused: false,
            ways: None,
            late: Lateness::default(),
            failed: None,
        };
        let initial = source().credit.initial();
        (0..ranks).for_each(|rank| port.grant(rank, initial));
        let sources = of_each_rank(ranks, source);
        Engine {
            capabilities: port.capabilities(),
            rank: port.rank(),
            port,
            config,
            requests: RequestSlab::default(),
            posted: PostedReceives::new(ranks),
            unexpected: UnexpectedMessages::new(ranks),
            notes: Notes::new(ranks),
            ended: EndedTags::default(),
            answerers: BTreeMap::new(),
            outbox: Outbox::new(ranks),
            sources,
            first_failure: None,
            groups: BTreeMap::new(),
            statistics: Statistics::default(),
            tally: None,
            traffic: None,
            choices: BTreeMap::new(),
            waiting: None,
            reports: Reports::default(),
            whole: None,
            at_limit: None,
            held_up: Vec::new(),
            announcers: Vec::new(),
            moves_rings: false,
            joint: None,
            late_join: None,
            is_revoked: false,
            needs_more: false,
            early_looks: EarlyLooks::default(),
            idle_rounds: 0,
            turns: 0,
            vain: VainCalls::default(),
            news: 0,
            wanted: None,
        }
    }

    /// Sets [`EngineConfig::unmatched_bytes`].
    pub fn limit_unmatched(&mut self, bytes: u64) {
        self.config.unmatched_bytes = bytes;
    }

    /// Sets [`EngineConfig::long_messages`].
    pub fn carry_long_messages(&mut self, ways: LongMessages) {
        self.config.long_messages = ways;
    }

    /// Sets the members of a context, if they are not all ranks of the job: a receive of it from
    /// any source needs only these. Call this before the context is used.
    pub fn set_members(&mut self, context: u32, members: Arc<Members>) {
        self.groups.insert(context, members);
    }

    /// Sets the answerer of a context's notes, and the context's ranks (`None`: all of the job).
    pub fn set_answerer(
        &mut self,
        context: u32,
        members: Option<Arc<Members>>,
        answerer: Box<dyn Answerer>,
    ) {
        self.answerers.insert(context, Answering { answerer, members });
    }

    /// Ends a context at this rank: its messages that have arrived, and those that arrive until the
    /// end, are dropped. Announced messages stay: their senders wait, and a withdrawal is answered.
    pub fn drop_context(&mut self, context: u32) {
        self.groups.remove(&context);
        self.answerers.remove(&context);
        self.drop_what_came(|of| of == context);
    }

    /// Drops the messages of contexts that have ended, as [`Engine::drop_context`] does.
    pub fn drop_what_came(&mut self, is_over: impl Fn(u32) -> bool) {
        self.notes.drop_of(&is_over);
        self.ended.drop_of(&is_over);
        let goes = |entry: &UnexpectedEntry| entry.is_here() && is_over(context_of(entry.bits));
        for source in self.unexpected.sources_of(goes) {
            self.drop_unexpected(source, |entry| !goes(entry));
        }
    }

    /// Accepts no more messages and notes of a tag from another rank: they are dropped on arrival.
    /// A note of that tag says that nothing more follows; `is_last`: this note was already taken.
    /// Announced messages stay, as at [`Engine::drop_context`].
    pub fn end_tag(&mut self, source: Rank, (context, tag): (u32, i32), is_last: bool) {
        let bits = match_bits(context, tag);
        self.ended.end(source, bits);
        if is_last {
            self.ended.close(source, bits);
        }
        let Some(state) = self.sources.get_mut(source as usize) else { return };
        if let Some(message) = &mut state.assembling
            && message.bits == bits
            && message.target == PartTarget::Unexpected
        {
            message.target = PartTarget::Nowhere;
        }
        let announced = |entry: &UnexpectedEntry| matches!(entry.body, EntryBody::Announced(_));
        self.drop_unexpected(source, |entry| entry.bits != bits || announced(entry));
    }

    /// Whether a message that this rank has sent in a context is not fully posted yet.
    pub fn is_sending_in(&self, context: u32) -> bool {
        self.requests.iter().any(|(_, request)| match request {
            RequestState::Send(send) => context_of(send.bits) == context,
            _ => false,
        })
    }

    /// Whether a receive from any source in a context may take messages of a rank.
    fn has(&self, context: u32, rank: Rank) -> bool {
        self.groups.get(&context).is_none_or(|members| members.number(rank).is_some())
    }

    /// Changes the choices of this rank for its later messages to another rank.
    pub fn choose_landing(&mut self, destination: Rank, change: impl FnOnce(&mut SenderChoice)) {
        let mut choice = self.choices.remove(&destination).unwrap_or_default();
        change(&mut choice);
        if choice != SenderChoice::default() {
            self.choices.insert(destination, choice);
        }
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// The port. Polling it directly loses messages.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks the job has.
    pub fn size(&self) -> u32 {
        self.sources.len() as u32
    }

    /// The counters.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How its long messages were transferred; `None`: there were none.
    pub fn way_tally(&self) -> Option<&WayTally> {
        self.tally.as_deref()
    }

    /// Whether messages or notes of any context have arrived that no receive has asked for.
    #[inline]
    pub fn has_left_overs(&self) -> bool {
        self.statistics.unexpected_messages > 0 || !self.notes.are_none()
    }

    /// How many messages and notes, of any context, have arrived since the start before anything
    /// asked for them. While this is unchanged, no left-overs were added, but some may have been
    /// taken.
    #[inline]
    pub fn left_overs_come(&self) -> u64 {
        self.unexpected.come() + self.notes.come()
    }

    /// Starts to count sent messages by receiver. `kind` says what a context's messages are for.
    /// Short messages then take the slow path.
    pub fn trace_traffic(&mut self, kind: fn(u32) -> TrafficKind) {
        self.traffic = Some(Box::new(TrafficCounts::new(self.capabilities.packet_bytes, kind)));
    }

    /// The sent messages by receiver; `None`: they are not traced.
    pub fn traffic(&self) -> Option<&SentRows> {
        self.traffic.as_deref().map(TrafficCounts::sent)
    }

    /// The wait of the current blocking call, once it has waited a little.
    pub fn waiting(&self) -> Option<Wait> {
        self.waiting
    }

    /// Handles arrivals and posts pending sends, without waiting and within
    /// [`EngineConfig::poll_budget`]. Returns whether there was anything to do.
    pub fn progress(&mut self) -> bool {
        if self.port.is_forked() {
            return false;
        }
        let mut any = false;
        for _ in 0..self.config.poll_budget.max(1) {
            let Some(event) = self.port.poll() else { break };
            self.handle(event);
            any = true;
        }
        if !self.outbox.is_empty() {
            any |= self.pump();
        }
        if let Some(id) = self.joint {
            any |= self.go_on_joint(id);
        }
        if any {
            self.idle_rounds = 0;
            self.turns += 1;
        }
        any
    }

    fn check_rank(&self, rank: Rank) -> Result<(), MsgError> {
        let size = self.size();
        if rank < size { Ok(()) } else { Err(MsgError::NoSuchRank { rank, size }) }
    }

    /// Checks that this process is the rank itself and not a forked child.
    ///
    /// # Errors
    /// [`MsgError::Forked`].
    pub fn check_process(&self) -> Result<(), MsgError> {
        if self.port.is_forked() { Err(MsgError::Forked { rank: self.rank }) } else { Ok(()) }
    }

    fn check_envelope(&self, envelope: &Envelope) -> Result<(), MsgError> {
        self.check_process()?;
        self.check_rank(envelope.destination)?;
        check_tag(Some(envelope.tag))
    }

    fn check_selector(&self, selector: &Selector) -> Result<(), MsgError> {
        self.check_process()?;
        selector.source.map_or(Ok(()), |source| self.check_rank(source))?;
        check_tag(selector.tag)
    }
}

fn check_tag(tag: Option<i32>) -> Result<(), MsgError> {
    match tag {
        Some(tag) if tag < 0 => Err(MsgError::InvalidTag { tag }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
