//! All or nothing: the ranks decide by votes that outlive them whether a variable is made.
//!
//! The ranks exchange their offers by messages ([`hikyaku_rank::Communicator::share`]), so a death
//! meanwhile is an error at some ranks while others have heard everything. Therefore each rank that
//! gave a block has a word in it:
//!
//! ```text
//!   NotYet ──► Yes   it has heard of all blocks, and they fit together
//!          └─► No    it has not, or they do not: it has returned its error, or will
//! ```
//!
//! A vote never changes again, and a rank that is gone casts none. So a rank that loads a vote
//! after it knows of the voter's end finds what all others find, and all ranks that have heard
//! everything come to the same answer: the variable is made if all votes are `Yes`. A rank that has
//! voted `No` needs no answer and waits for no rank. The others wait for each vote until its rank
//! is gone.
//!
//! A block with a vote in it stays as it is until no rank can read it any more. If the variable was
//! not made, that is when its owner has heard that all ranks are making a later one.

use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::task::Poll;

use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{Activity, Name, Port, Wait};
use hikyaku_nic::region::RegionBuffer;

use super::create::Variables;
use super::error::{Error, SharedError};
use super::memory::{Own, VariableMemory, Vote};

/// Blocks of variables that were not made, in which others may still read this rank's vote. If the
/// rank ends they stay with the job.
#[derive(Debug, Default)]
pub(super) struct Ballots(Vec<ManuallyDrop<RegionBuffer>>);

impl Ballots {
    /// Keeps the block.
    pub(super) fn keep(&mut self, home: RegionBuffer) {
        self.0.push(ManuallyDrop::new(home));
    }

    /// Frees all blocks: every rank has come to a later variable.
    pub(super) fn give_back(&mut self) {
        self.0.drain(..).for_each(|home| drop(ManuallyDrop::into_inner(home)));
    }

    /// The number of blocks.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Variables {
    /// Votes for a variable of which this rank has heard everything, and waits for the result. In
    /// virtual time no rank dies, so all hear the same.
    ///
    /// # Errors
    /// The first rank that did not vote for it, the same on all ranks, is gone; or it voted against
    /// it, because of a rank that died.
    pub(super) fn elect(&self, name: &str, memory: &VariableMemory) -> Result<(), Error> {
        if memory.is_virtual() {
            return Ok(());
        }
        memory.cast(Vote::Yes);
        // A rank that has waited long sleeps.
        self.rank().engine().borrow().port().wake_all();
        let mut next = 0;
        let wait = Wait::new(Activity::Collective).named(Name::new("making a variable"));
        self.rank().block_on_memory_for(
            wait,
            poll_fn(|_| {
                while next < self.rank().size() {
                    match self.heed(name, memory, next) {
                        Some(Ok(())) => next += 1,
                        Some(Err(error)) => return Poll::Ready(Err(error)),
                        None => return Poll::Pending,
                    }
                }
                Poll::Ready(Ok(()))
            }),
        )
    }

    /// The result of a rank's vote; `None`: it has not voted yet.
    fn heed(&self, name: &str, memory: &VariableMemory, rank: u32) -> Option<Result<(), Error>> {
        // Checked before the vote: a rank that is gone by then votes no more.
        let there = self.rank().check_there(rank);
        match memory.vote_of(self.rank().engine(), rank, there.is_err()) {
            Vote::Yes => Some(Ok(())),
            Vote::NotYet => there.err().map(|gone| Err(gone.into())),
            Vote::No => {
                let abandoned = || SharedError::Abandoned { name: name.to_owned(), rank }.into();
                Some(Err(self.somebody_died().unwrap_or_else(abandoned)))
            }
        }
    }

    /// The errors for ranks that are gone.
    fn all_gone(&self) -> impl Iterator<Item = MsgError> + '_ {
        let none = self.rank().engine().borrow().port().departures() == 0;
        let ranks = if none { 0..0 } else { 0..self.rank().size() };
        ranks.filter_map(|rank| self.rank().check_there(rank).err())
    }

    /// The first rank that died, if any: the reason why others abandon the variable.
    pub(super) fn somebody_died(&self) -> Option<Error> {
        let died = |error: &MsgError| matches!(error, MsgError::PeerFailed(_));
        self.all_gone().find(died).map(Error::from)
    }

    /// Whether all ranks are there, as far as this one knows. Without one no variable is made, and
    /// no rank has to keep a block for it.
    pub(super) fn all_are_there(&self) -> Result<(), Error> {
        let somebody = self.somebody_died().or_else(|| self.all_gone().next().map(Error::from));
        somebody.map_or(Ok(()), Err)
    }

    /// This rank abandons a variable for which it gave `own`: it votes against it, unless it has
    /// voted for it.
    pub(super) fn abandon(&self, own: Own) {
        let Own { home, node } = own;
        // Only read when all have voted for the variable.
        drop(node);
        let view = {
            let engine = self.rank().engine().borrow();
            let port = engine.port();
            if port.host().is_conducted() {
                return;
            }
            port.host().view(port.rank(), home.offset(), home.len())
        };
        if let Some(view) = view {
            VariableMemory::cast_in(&view, Vote::No);
        }
        self.ballots().keep(home);
        self.rank().engine().borrow().port().wake_all();
    }
}
