//! All or nothing: whether a variable is made, which its ranks settle by votes that outlive them.
//!
//! What each rank gives is told by messages ([`World::share`]), and a death meanwhile is an error
//! at some ranks while others have heard everything. So each rank that gave a block has a word in
//! it:
//!
//! ```text
//!   NotYet ──► Yes   it has heard of all blocks, and they fit together
//!          └─► No    it has not, or they do not: it has returned its error, or will
//! ```
//!
//! A vote never changes again, and a rank that is gone casts none: whoever loads its vote, knowing
//! of its end, finds what all others find. So all who have heard everything come to the same
//! answer: the variable is made if all votes are `Yes`. Who has voted `No` needs no answer, and
//! waits for nobody. The others wait for each vote until its rank is gone.
//!
//! A block with a vote in it stays as it is until nobody can look at it any more: if the variable
//! was not made, until its owner has heard that all ranks are making a later one.

use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::task::Poll;

use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{Activity, Name, PeerState, Port, Wait};
use hikyaku_nic::region::RegionBuffer;

use super::error::SharedError;
use super::memory::{Memory, Own};
use crate::error::Error;
use crate::world::World;

/// What a rank says to a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    NotYet,
    Yes,
    No,
}

impl Vote {
    /// As it is in a word of zeros and after.
    pub(super) const fn word(self) -> u64 {
        match self {
            Vote::NotYet => 0,
            Vote::Yes => 1,
            Vote::No => 2,
        }
    }

    /// The reverse of [`Vote::word`]; what is no vote is not one for the variable.
    pub(super) const fn of(word: u64) -> Vote {
        match word {
            0 => Vote::NotYet,
            1 => Vote::Yes,
            _ => Vote::No,
        }
    }
}

/// Blocks of variables that came to nothing, in which others may still look for this rank's vote.
/// Dropped with the rank they stay with the job.
#[derive(Debug, Default)]
pub(super) struct Ballots(Vec<ManuallyDrop<RegionBuffer>>);

impl Ballots {
    /// Keeps the block.
    pub(super) fn keep(&mut self, home: RegionBuffer) {
        self.0.push(ManuallyDrop::new(home));
    }

    /// Gives all back: every rank has come to a later variable.
    pub(super) fn give_back(&mut self) {
        self.0.drain(..).for_each(|home| drop(ManuallyDrop::into_inner(home)));
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl World {
    /// Votes for a variable of which this rank has heard everything, and waits until the votes say
    /// what comes of it. In virtual time nobody dies, so that all hear the same.
    ///
    /// # Errors
    /// The first rank that did not vote for it, the same one everywhere, is gone; or it voted
    /// against it, for one that died.
    pub(super) fn elect(&self, name: &str, memory: &Memory) -> Result<(), Error> {
        if memory.is_virtual() {
            return Ok(());
        }
        memory.cast(Vote::Yes);
        // Who has waited for long sleeps.
        self.engine().borrow().port().wake_all();
        let mut next = 0;
        let wait = Wait::new(Activity::Collective).named(Name::new("making a variable"));
        self.block_on_memory_for(
            wait,
            poll_fn(|_| {
                while next < self.size() {
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

    /// What a rank's vote comes to; `None`: it is still to come.
    fn heed(&self, name: &str, memory: &Memory, rank: u32) -> Option<Result<(), Error>> {
        // Before the vote: that of a rank that was gone by then is its last.
        let gone = self.gone(rank);
        match memory.vote_of(self.engine(), rank, gone.is_some()) {
            Vote::Yes => Some(Ok(())),
            Vote::NotYet => gone.map(Err),
            Vote::No => {
                let given_up = || SharedError::GivenUp { name: name.to_owned(), rank }.into();
                Some(Err(self.somebody_died().unwrap_or_else(given_up)))
            }
        }
    }

    /// What to say of a rank that is gone.
    fn gone(&self, rank: u32) -> Option<Error> {
        let state = self.engine().borrow().port().peer(rank);
        match state {
            PeerState::Starting | PeerState::Running => None,
            PeerState::Left => Some(MsgError::PeerLeft { rank }.into()),
            PeerState::Failed(failure) => Some(MsgError::PeerFailed(failure).into()),
        }
    }

    fn all_gone(&self) -> impl Iterator<Item = Error> + '_ {
        let none = self.engine().borrow().port().departures() == 0;
        let ranks = if none { 0..0 } else { 0..self.size() };
        ranks.filter_map(|rank| self.gone(rank))
    }

    /// The first rank that died: it is why others give up, if there is one.
    pub(super) fn somebody_died(&self) -> Option<Error> {
        self.all_gone().find(|error| matches!(error, Error::Message(MsgError::PeerFailed(_))))
    }

    /// Whether all ranks are there, as far as this one knows: without one no variable is made, and
    /// nobody has to keep a block for it.
    pub(super) fn all_are_there(&self) -> Result<(), Error> {
        self.somebody_died().or_else(|| self.all_gone().next()).map_or(Ok(()), Err)
    }

    /// This rank has nothing of a variable for which it gave this: it votes against it, unless it
    /// voted for it.
    pub(super) fn give_up(&self, own: Own) {
        let Own { home, node } = own;
        // It is looked at when all have voted for the variable.
        drop(node);
        let view = {
            let engine = self.engine().borrow();
            let port = engine.port();
            if port.host().is_conducted() {
                return;
            }
            port.host().view(port.rank(), home.offset(), home.len())
        };
        if let Some(view) = view {
            Memory::cast_in(&view, Vote::No);
        }
        self.registry().ballots().keep(home);
        self.engine().borrow().port().wake_all();
    }
}
