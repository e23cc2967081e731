//! One rank's point-to-point state: what is posted, what has come, what waits to be sent.
//!
//! ```text
//!   direct.rs      blocking send and receive of small messages: no request, no allocation
//!   send.rs        starting a send; emptying the outbox
//!   recv.rs        starting a receive; attaching and detaching buffers; probing
//!   arrive.rs      events of the port: matching, assembling
//!   rendezvous.rs  RTS, CTS, DATA, FIN and direct reads
//!   cancel.rs      taking operations back
//!   wait.rs        test, wait, the loop of every blocking call
//!   relief.rs      what a blocked rank does for the sources it needs: credit, evacuation
//!   watch.rs       waiting for what is not a message
//!   failure.rs     peers that died or left
//! ```
//!
//! The engine moves only when it is called. Whoever holds requests calls [`Engine::progress`],
//! or anything that blocks, now and then.

mod arrive;
mod cancel;
mod direct;
mod failure;
mod recv;
mod relief;
mod rendezvous;
mod send;
mod wait;
mod watch;

use hikyaku_nic::fabric::{Capabilities, PeerFailure, Port, Rank, Unmatched, Wait};

use crate::config::EngineConfig;
use crate::credit::Credit;
use crate::envelope::{Envelope, Selector};
use crate::error::MsgError;
use crate::notes::Notes;
use crate::outbox::Outbox;
use crate::posted::Posted;
use crate::request::{RequestId, Slab};
use crate::statistics::Statistics;
use crate::unexpected::Unexpected;

pub use cancel::CancelOutcome;
pub use wait::Blocked;
use wait::Reports;

/// Point-to-point messages of one rank over its port.
#[derive(Debug)]
pub struct Engine<P: Port> {
    port: P,
    config: EngineConfig,
    capabilities: Capabilities,
    rank: Rank,
    requests: Slab,
    posted: Posted,
    unexpected: Unexpected,
    notes: Notes,
    outbox: Outbox,
    /// What is known of each rank as a source.
    sources: Vec<Source>,
    /// The first rank that failed: from then on wildcard receives fail too.
    first_failure: Option<PeerFailure>,
    statistics: Statistics,
    waiting: Option<Wait>,
    reports: Reports,
    /// What requests that are waited for are parts of.
    whole: Option<Wait>,
    /// Unmatched messages, where sources stay held up because of them.
    at_limit: Option<Unmatched>,
    /// Times in a row that there was nothing to do.
    idle_rounds: u32,
    /// Times that there was something to do.
    turns: u64,
}

/// What is known of a rank as a source of messages.
#[derive(Debug)]
struct Source {
    credit: Credit,
    /// The eager message of which some parts are still to come.
    assembling: Option<Assembling>,
    /// It found no room or credit since something last came from it.
    held_up: bool,
    /// Reading its memory does not work; it is asked to stream.
    read_refused: bool,
    failed: Option<PeerFailure>,
}

/// An eager message that comes in parts. At most one a source: its parts follow each other.
#[derive(Debug)]
struct Assembling {
    bits: u64,
    total: u64,
    arrived: u64,
    target: Target,
}

/// Where the parts of a message go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// To the last unexpected message of the source.
    Unexpected,
    /// To the receive that has matched.
    Request(RequestId),
    /// Its receive was given up.
    Nowhere,
}

impl<P: Port> Engine<P> {
    /// An engine over a port on which nothing has been sent or received yet.
    pub fn new(mut port: P, config: EngineConfig) -> Engine<P> {
        let ranks = port.size();
        let source = || Source {
            credit: Credit::new(config.credit_window),
            assembling: None,
            held_up: false,
            read_refused: false,
            failed: None,
        };
        let sources: Vec<Source> = (0..ranks).map(|_| source()).collect();
        for (rank, source) in sources.iter().enumerate() {
            port.grant(rank as Rank, source.credit.initial());
        }
        Engine {
            capabilities: port.capabilities(),
            rank: port.rank(),
            port,
            config,
            requests: Slab::default(),
            posted: Posted::new(ranks),
            unexpected: Unexpected::new(ranks),
            notes: Notes::new(ranks),
            outbox: Outbox::new(ranks),
            sources,
            first_failure: None,
            statistics: Statistics::default(),
            waiting: None,
            reports: Reports::default(),
            whole: None,
            at_limit: None,
            idle_rounds: 0,
            turns: 0,
        }
    }

    /// Sets [`EngineConfig::unmatched_bytes`].
    pub fn limit_unmatched(&mut self, bytes: u64) {
        self.config.unmatched_bytes = bytes;
    }

    /// The port below.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// The port below. Polling it past the engine loses messages.
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

    /// What has been counted so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What the blocking call that runs now waits for, once it has waited a little.
    pub fn waiting(&self) -> Option<Wait> {
        self.waiting
    }

    /// Takes what has arrived and posts what was pending, as far as it goes without waiting and
    /// within [`EngineConfig::poll_budget`]; says whether there was anything.
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

    /// That this process is the rank's and no child of it.
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
