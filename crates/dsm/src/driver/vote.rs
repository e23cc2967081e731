//! All or nothing: the ranks vote whether a variable is made, and the votes outlive the ranks.
//!
//! The ranks exchange their offers by messages ([`hikyaku_rank::Communicator::share`]). So a death
//! meanwhile may be an error at some ranks while others have received all offers. Therefore each
//! rank that gave a block has a word in it:
//!
//! ```text
//!   NotYet ──► Yes   it has heard of all blocks, and they fit together
//!          └─► No    it has not, or they do not: it has returned its error, or will
//! ```
//!
//! A vote never changes, and a gone rank casts none. So a rank that loads a vote after it knows of
//! the voter's end finds the same vote as all others. All ranks that have received all offers come
//! to the same result: the variable is made if all votes are `Yes`. A rank that has voted `No`
//! needs no result and waits for no rank. The others wait for each vote until its rank is gone.
//!
//! A block with a vote in it is kept until no rank can read it any more. If the variable was not
//! made, that is when its owner learns that all ranks are making a later one.

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
/// rank ends, they stay with the job.
#[derive(Debug, Default)]
pub(super) struct Ballots(Vec<ManuallyDrop<RegionBuffer>>);

impl Ballots {
    /// Keeps the block.
    pub(super) fn keep(&mut self, home: RegionBuffer) {
        self.0.push(ManuallyDrop::new(home));
    }

    /// Frees all blocks, because every rank has reached a later variable.
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
    /// Votes for a variable for which this rank has received all offers, and waits for the result.
    /// In virtual time no rank dies, so all ranks receive the same.
    ///
    /// # Errors
    /// The first rank that did not vote for the variable, the same on all ranks, is gone. Or it
    /// voted against the variable, because a rank died.
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

    /// The result of one rank's vote; `None` if it has not voted yet.
    fn heed(&self, name: &str, memory: &VariableMemory, rank: u32) -> Option<Result<(), Error>> {
        // This check comes before the vote: a rank that is gone by then votes no more.
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

    /// The errors for gone ranks.
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

    /// Checks that no rank is known to be gone. If one is, no variable is made, and no rank has to
    /// keep a block for it.
    pub(super) fn all_are_there(&self) -> Result<(), Error> {
        let somebody = self.somebody_died().or_else(|| self.all_gone().next().map(Error::from));
        somebody.map_or(Ok(()), Err)
    }

    /// Abandons a variable for which this rank gave `own`: votes against it, unless this rank has
    /// already voted for it.
    pub(super) fn abandon(&self, own: Own) {
        let Own { home, node } = own;
        // Only read when all ranks have voted for the variable.
        drop(node);
        let view = {
            let engine = self.rank().engine().borrow();
            let port = engine.port();
            if port.capabilities().virtual_time {
                return;
            }
            port.view(port.rank(), home.offset(), home.len())
        };
        if let Some(view) = view {
            VariableMemory::cast_in(&view, Vote::No);
        }
        self.ballots().keep(home);
        self.rank().engine().borrow().port().wake_all();
    }
}
