//! The calls of a simulated program.

use std::fmt;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::AHEAD;
use super::Payload;
use super::matching::ReceiveSelector;
use super::request::{ReceivedMessage, RecvRequest, SendRequest, WaitAll};
use super::state::{ChainPlace, JobState};
use crate::engine::Sim;
use crate::error::SimError;

/// The contents of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'b> {
    /// These bytes.
    Bytes(&'b [u8]),
    /// This many bytes without contents.
    Length(u64),
}

impl Content<'_> {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Length(length) => *length,
        }
    }

    /// Whether the message is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'b> From<&'b [u8]> for Content<'b> {
    fn from(bytes: &'b [u8]) -> Self {
        Content::Bytes(bytes)
    }
}

impl From<u64> for Content<'_> {
    fn from(length: u64) -> Self {
        Content::Length(length)
    }
}

/// A named phase of a rank. It ends when this guard is dropped.
#[derive(Debug)]
#[must_use = "it lasts until it is dropped"]
pub struct Entered<'r> {
    rank: &'r Rank,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.rank.job.mark(self.rank.rank, None);
    }
}

/// A rank of a job: the program's handle on the simulation.
#[derive(Clone)]
pub struct Rank {
    pub(super) job: Rc<JobState>,
    pub(super) rank: u32,
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rank").field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl Rank {
    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.job.config().ranks
    }

    /// The node that a rank runs on.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.job.config().ranks_per_node
    }

    /// The simulation.
    pub fn sim(&self) -> &Sim {
        self.job.sim()
    }

    /// This rank's own time: the end of its last activity.
    pub fn now(&self) -> Time {
        self.job.now(self.rank)
    }

    /// Whether the job's messages carry contents.
    pub fn payload(&self) -> Payload {
        self.job.config().payload
    }

    /// Begins a phase with this name for a timeline. It lasts until the guard is dropped.
    pub fn enter(&self, name: &'static str) -> Entered<'_> {
        self.job.mark(self.rank, Some(name));
        Entered { rank: self }
    }

    /// Computes for a span of time. Awaits nothing: the span is over before the next call starts.
    pub fn compute(&self, span: Time) {
        self.job.compute(self.rank, span);
    }

    /// Sleeps for a span of time, and joins the engine's time.
    pub async fn sleep(&self, span: Time) {
        let until = self.now() + span;
        self.sim().delay_until(until).await;
    }

    /// Starts a send (MPI 5.0 §3.7.2).
    ///
    /// # Errors
    /// [`SimError::NoSuchRank`]; [`SimError::TooManyMessages`].
    pub fn isend<'b>(
        &self,
        to: u32,
        tag: i32,
        content: impl Into<Content<'b>>,
    ) -> Result<SendRequest, SimError> {
        self.isend_at(to, tag, content, ChainPlace::First)
    }

    /// Starts a send at this place in a chain. The processor pays for the start of the first
    /// message only.
    ///
    /// # Errors
    /// As [`Rank::isend`].
    pub fn isend_at<'b>(
        &self,
        to: u32,
        tag: i32,
        content: impl Into<Content<'b>>,
        place: ChainPlace,
    ) -> Result<SendRequest, SimError> {
        let departure = self.job.send(self.rank, to, tag, (content.into(), place))?;
        Ok(SendRequest { job: Rc::clone(&self.job), rank: self.rank, departure })
    }

    /// Sends, and returns when the sender's memory is free again (MPI 5.0 §3.4, standard mode).
    ///
    /// # Errors
    /// As [`Rank::isend`].
    pub async fn send<'b>(
        &self,
        to: u32,
        tag: i32,
        content: impl Into<Content<'b>>,
    ) -> Result<(), SimError> {
        self.isend(to, tag, content)?.await;
        if self.job.count_ahead(self.rank) >= AHEAD {
            self.sleep(Time::ZERO).await;
        }
        Ok(())
    }

    /// Whether [`Rank::multicast`] is available: the network copies messages, and every rank has
    /// its own node.
    pub fn multicasts(&self) -> bool {
        self.job.multicasts()
    }

    /// Sends to all other ranks by one command, and returns when the memory is free again. The
    /// receivers get it like any message. The processor's costs are those of one message.
    ///
    /// # Errors
    /// [`SimError::Unsupported`]; [`SimError::TooManyMessages`].
    pub async fn multicast<'b>(
        &self,
        tag: i32,
        content: impl Into<Content<'b>>,
    ) -> Result<(), SimError> {
        let messages = self.job.describe_multicast(self.rank, tag, content.into())?;
        self.sleep(Time::ZERO).await;
        for departure in self.job.start_multicast(&messages) {
            SendRequest { job: Rc::clone(&self.job), rank: self.rank, departure }.await;
        }
        Ok(())
    }

    /// Starts a receive; `None` accepts any source or any tag (MPI 5.0 §3.7.2).
    pub fn irecv(&self, from: Option<u32>, tag: Option<i32>) -> RecvRequest {
        let arrival = self.job.receive(self.rank, ReceiveSelector { source: from, tag });
        RecvRequest { job: Rc::clone(&self.job), rank: self.rank, arrival }
    }

    /// Waits for all of these receives of this rank, consumes them, and returns their messages in
    /// the order of the requests (MPI 5.0 §3.7.5, MPI_Waitall). The virtual time is the same as for
    /// waiting one after the other; real time is less.
    pub fn wait_all<'r>(&'r self, requests: &'r mut Vec<RecvRequest>) -> WaitAll<'r> {
        WaitAll { job: &self.job, rank: self.rank, requests, since: self.now() }
    }

    /// Receives (MPI 5.0 §3.2.4).
    pub async fn recv(&self, from: Option<u32>, tag: Option<i32>) -> ReceivedMessage {
        self.irecv(from, tag).await
    }
}
