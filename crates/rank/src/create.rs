//! Makes communicators of some ranks (MPI 5.0 §7.4.2), and duplicates them.
//!
//! ```text
//!   1  allgather   each rank's wish, and a number that it would give if it were the leader;
//!                  every rank computes the same groups from that; leaders lend their numbers
//!   2  each rank drops the messages left in its new context from the last use of that context
//!   3  barrier     no rank sends in a context before all of its ranks have come here
//! ```
//!
//! A rank that fails in 1 or 3 notifies the others, as in any collective. One that fails in 3 knows
//! the new communicator, which others may have: it fails the first collective there, so that no
//! rank waits for it.
//!
//! All of this uses the communicator that is divided, or, for [`Communicator::create_group`], a
//! context of it for this purpose, among the ranks of the group alone.

use std::sync::Arc;

use hikyaku_coll::{self as coll, CollectiveBook, CommunicatorGroup as Group};
use hikyaku_msg::{ContextEndpoint, Members, MsgError};
use hikyaku_nic::fabric::Port;
use thiserror::Error;

use crate::communicator::Communicator;
use crate::contexts::{self, CONTEXTS, CREATION, NUMBERS, Proposal};
use crate::error::Error;
use crate::port::RankPort;
use crate::rank::Rank;

/// Why a communicator could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CreationError {
    /// A list of ranks is not a group: it has a rank twice, or lacks the calling rank.
    #[error(
        "rank {rank} gives a list of ranks that cannot be a group: it has to name that rank, and \
         every rank, exactly once"
    )]
    Members {
        /// The rank that gave it.
        rank: u32,
    },
    /// The lists of two ranks differ.
    #[error(
        "rank {rank} gives another list of ranks than rank {own}: all ranks of a group give the \
         same list"
    )]
    OtherList {
        /// The rank with a different list.
        rank: u32,
        /// This rank.
        own: u32,
    },
    /// Two groups to be joined have a rank in common.
    #[error("rank {rank} of the job is in both groups: those of an intercommunicator share none")]
    InBoth {
        /// Its rank in the job.
        rank: u32,
    },
    /// The other group has no rank, or its leader could not be reached.
    #[error("the other group is not there: its leader could not be reached, or it has no rank")]
    Alone,
    /// The leader has no communicator number left.
    #[error(
        "rank {leader} is the first of {NUMBERS} communicators: drop some before it is the first \
         of another"
    )]
    Full {
        /// The first rank of the communicator to be made.
        leader: u32,
    },
}

/// A rank's request for a new communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    /// Ranks of one color are together. `None`: this rank requests none.
    color: Option<u32>,
    /// The sort key.
    key: i32,
    /// The number that it gives if it is the leader.
    offer: Option<Proposal>,
}

/// The number of words of its encoding.
const WORDS: usize = 5;

impl Wish {
    fn to_words(self) -> [u32; WORDS] {
        let offer = self.offer.map_or([0, 0], |offer| [offer.number + 1, offer.again.into()]);
        let color = self.color.unwrap_or(0);
        [self.color.is_some().into(), color, self.key as u32, offer[0], offer[1]]
    }

    fn of_words(words: &[u32]) -> Wish {
        let &[wants, color, key, number, again] = words else { return Wish::NONE };
        let number = number.checked_sub(1).filter(|number| *number < NUMBERS);
        let offer = number.map(|number| Proposal { number, again: again != 0 });
        Wish { color: (wants != 0).then_some(color), key: key as i32, offer }
    }

    const NONE: Wish = Wish { color: None, key: 0, offer: None };
}

/// The ranks that are together with one, in the order of their new numbers.
fn together(wishes: &[Wish], own: usize) -> Vec<u32> {
    let color = wishes[own].color;
    let mut ranks: Vec<u32> = (0..wishes.len() as u32).collect();
    ranks.retain(|rank| color.is_some() && wishes[*rank as usize].color == color);
    ranks.sort_by_key(|rank| wishes[*rank as usize].key);
    ranks
}

/// The numbering of ranks in a new communicator.
#[derive(Debug, Clone, Copy)]
enum Numbered {
    /// By their order in the new communicator.
    Anew,
    /// As in this communicator.
    AsHere,
}

impl Communicator {
    /// Divides the ranks by color. Ranks of one color are numbered by key, and by rank where keys
    /// are equal (MPI_Comm_split). `None` for a rank without a color. Every rank calls it.
    ///
    /// # Errors
    /// A rank is gone or abandoned the call, or the first rank of a color is already the first of
    /// too many communicators.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>, Error> {
        self.run(self.split_async(color, key))
    }

    /// The same as a future. Dropping it notifies the other ranks.
    ///
    /// # Errors
    /// As [`Communicator::split`].
    pub async fn split_async(
        &self,
        color: Option<u32>,
        key: i32,
    ) -> Result<Option<Communicator>, Error> {
        self.engine().borrow().check_process()?;
        let offer = color.and_then(|_| self.rank.propose());
        let own = self.rank() as usize;
        let wish = Wish { color, key, offer };
        self.agree(&self.group(), wish, Numbered::Anew, |wishes| {
            let ranks = together(wishes, own);
            let given = ranks.first().map(|leader| wishes[*leader as usize].offer);
            Ok((ranks, given))
        })
        .await
    }

    /// The ranks of a list, in its order (MPI_Comm_create_group). Only these ranks call it.
    ///
    /// # Errors
    /// The list names a rank twice, or not this one, or one that does not exist, or differs between
    /// ranks; or as [`Communicator::split`].
    pub fn create_group(&self, ranks: &[u32]) -> Result<Communicator, Error> {
        self.run(self.create_group_async(ranks))
    }

    /// The same as a future. Dropping it notifies the other ranks.
    ///
    /// # Errors
    /// As [`Communicator::create_group`].
    pub async fn create_group_async(&self, ranks: &[u32]) -> Result<Communicator, Error> {
        self.create_group_for(ranks, 0).await
    }

    /// The same where ranks may make their calls with one list in different orders: calls with the
    /// same `tag` are made in the same order at all of them.
    ///
    /// # Errors
    /// As [`Communicator::create_group`].
    pub async fn create_group_for(&self, ranks: &[u32], tag: u32) -> Result<Communicator, Error> {
        self.among(ranks, Numbered::Anew, tag).await
    }

    /// The same ranks as here, with new contexts, which `ranks` agree on. Only these ranks call it,
    /// and use it among themselves.
    ///
    /// # Errors
    /// As [`Communicator::create_group`].
    pub fn apart_among(&self, ranks: &[u32]) -> Result<Communicator, Error> {
        self.run(self.among(ranks, Numbered::AsHere, 0))
    }

    /// A communicator of the same ranks whose messages match none of this one's (MPI_Comm_dup).
    /// Every rank calls it, in the same order as other duplications.
    ///
    /// # Errors
    /// If it has only some ranks of the job: as [`Communicator::split`]. If it has all: none.
    pub fn try_duplicate(&self) -> Result<Communicator, Error> {
        match self.is_counted() {
            true => Ok(self.counted().with_sessions(self.choices().sessions)),
            false => self.run(self.try_duplicate_async()),
        }
    }

    /// The same as a future. Dropping it notifies the other ranks.
    ///
    /// # Errors
    /// As [`Communicator::try_duplicate`].
    pub async fn try_duplicate_async(&self) -> Result<Communicator, Error> {
        let sessions = self.choices().sessions;
        if self.is_counted() {
            return Ok(self.counted().with_sessions(sessions));
        }
        let made = self.split_async(Some(0), 0).await?.map(|made| made.with_sessions(sessions));
        made.ok_or(CreationError::Members { rank: self.rank() }.into())
    }

    /// Whether its duplicates get contexts that all ranks count alike, without a message.
    fn is_counted(&self) -> bool {
        self.members().is_none() && !self.rank.counts_none.get()
    }

    /// From now on all contexts of this rank are agreed on by messages: ranks may make
    /// communicators in different orders, depending on their threads. Every rank calls it.
    pub fn count_no_contexts(&self) {
        self.rank.counts_none.set(true);
    }

    /// The same. If it cannot be made, every use of the returned communicator is an error.
    pub fn duplicate(&self) -> Communicator {
        self.try_duplicate().unwrap_or_else(|error| {
            self.broken(match error {
                Error::Message(error) => error,
                _ => MsgError::Unmade,
            })
        })
    }

    /// The members with the numbers in a list.
    fn sub_members(&self, ranks: &[u32]) -> Result<Members, Error> {
        let size = self.size();
        if let Some(&rank) = ranks.iter().find(|rank| **rank >= size) {
            return Err(MsgError::NoSuchRank { rank, size }.into());
        }
        let in_job: Result<Vec<u32>, _> = ranks.iter().map(|rank| self.in_job(*rank)).collect();
        let engine = self.engine().borrow();
        engine.check_process()?;
        let node_of = |rank| engine.port().node_of(rank);
        let members = Members::new(in_job?, engine.rank(), node_of);
        members.ok_or(CreationError::Members { rank: self.rank() }.into())
    }

    /// Makes a communicator that the ranks of a list agree on among themselves.
    async fn among(
        &self,
        ranks: &[u32],
        numbered: Numbered,
        tag: u32,
    ) -> Result<Communicator, Error> {
        let members = self.sub_members(ranks)?;
        // Every call has tags of its own, so left-over messages of a failed call match no other.
        // Ranks of one list have made the same number of calls with it and this tag, which is never
        // a rank.
        let set = ranks.iter().fold(mixed(!tag), |sum, rank| sum ^ mixed(*rank));
        let book = CollectiveBook::only(self.rank.count_call(self.context(), set), 2);
        let endpoint = ContextEndpoint::new(self.engine(), self.context() + CREATION);
        let group = Group::new(endpoint.among(Some(&members)), &book);
        let offer = if members.own() == 0 { self.rank.propose() } else { None };
        let list = ranks.iter().fold(0, |sum: u32, rank| mixed(sum ^ *rank));
        let wish = Wish { color: Some(list), key: 0, offer };
        let own = self.rank();
        let made = self.agree(&group, wish, numbered, |wishes| {
            match wishes.iter().position(|other| other.color != wish.color) {
                Some(at) => Err(CreationError::OtherList { rank: ranks[at], own }),
                None => Ok((ranks.to_vec(), Some(wishes[0].offer))),
            }
        });
        made.await?.ok_or(CreationError::Members { rank: own }.into())
    }

    /// Sends this rank's wish to the ranks of a group, judges all wishes, and makes the resulting
    /// communicator.
    async fn agree(
        &self,
        group: &Group<'_, RankPort>,
        wish: Wish,
        numbered: Numbered,
        judge: impl FnOnce(&[Wish]) -> Result<Agreed, CreationError>,
    ) -> Result<Option<Communicator>, Error> {
        let mut offered = Offered { rank: &self.rank, offer: wish.offer };
        let mine: Vec<u8> = wish.to_words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut all = vec![0; mine.len() * coll::Group::size(group) as usize];
        let said = coll::allgather(group, None, Some(&mine), &mut all);
        // It is opened beside the other call, so that a rank that abandons the call earlier
        // notifies those in it. It is entered last: a rank that leaves it may send in the new
        // context.
        let all_are_here = coll::open_barrier(group, None);
        said.await?;
        let (words, _) = all.as_chunks();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let wishes: Vec<Wish> = words.chunks_exact(WORDS).map(Wish::of_words).collect();
        let (ranks, given) = judge(&wishes)?;
        let made = self.take(&ranks, given, &mut offered, numbered)?;
        if let Err(error) = all_are_here.await {
            if let Some(made) = &made {
                drop(coll::barrier(&made.group(), None));
            }
            return Err(error.into());
        }
        Ok(made)
    }

    /// The communicator of these ranks, with the number that the first one gives.
    fn take(
        &self,
        ranks: &[u32],
        given: Option<Option<Proposal>>,
        offered: &mut Offered<'_>,
        numbered: Numbered,
    ) -> Result<Option<Communicator>, Error> {
        let Some(given) = given else { return Ok(None) };
        let given = given.ok_or(CreationError::Full { leader: ranks[0] })?;
        let in_job: Result<Vec<u32>, _> = ranks.iter().map(|rank| self.in_job(*rank)).collect();
        let in_job = in_job?;
        let context = contexts::led(in_job[0], given.number);
        let mut engine = self.engine().borrow_mut();
        let own = engine.rank();
        offered.settle((in_job[0] == own).then_some(&in_job[..]));
        self.rank.begin_context(context);
        if given.again {
            // Messages sent there at its last use have arrived: their senders have freed it.
            while engine.progress() {}
            (context..context + CONTEXTS).for_each(|context| engine.drop_context(context));
        }
        let is_whole = in_job.len() as u32 == engine.size() && in_job.is_sorted();
        let node_of = |rank| engine.port().node_of(rank);
        let members = match numbered {
            Numbered::AsHere => self.members().cloned().map(Arc::new),
            Numbered::Anew if is_whole => None,
            Numbered::Anew => Members::new(in_job, own, node_of).map(Arc::new),
        };
        drop(engine);
        Ok(Some(self.led(context, members, matches!(numbered, Numbered::AsHere))))
    }

    /// Runs the creation of a communicator to its end.
    ///
    /// # Errors
    /// The error of the creation.
    pub fn run<R>(&self, making: impl Future<Output = Result<R, Error>>) -> Result<R, Error> {
        let made = self.drive(making);
        self.drop_left_overs();
        made
    }
}

/// A number that this rank has offered and that no rank is known to have taken.
struct Offered<'r> {
    rank: &'r Rank,
    offer: Option<Proposal>,
}

impl Offered<'_> {
    /// Lends the number to the ranks that have taken it, or puts it back.
    fn settle(&mut self, ranks: Option<&[u32]>) {
        let Some(offer) = self.offer.take() else { return };
        let mut numbers = self.rank.numbers.borrow_mut();
        match ranks {
            Some(ranks) => numbers.lend(offer.number, ranks),
            None => numbers.put_back(offer),
        }
    }
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        // Others may have taken it before they learned that the creation failed.
        self.offer = self.offer.map(|offer| Proposal { again: true, ..offer });
        self.settle(None);
    }
}

/// The ranks of a communicator, and the number that the first one gives if it has one. `None`: this
/// rank is in none.
type Agreed = (Vec<u32>, Option<Option<Proposal>>);

/// A hash of a number.
pub(crate) fn mixed(number: u32) -> u32 {
    let word = number.wrapping_add(0x9e37_79b9);
    let word = (word ^ word >> 16).wrapping_mul(0x85eb_ca6b);
    let word = (word ^ word >> 13).wrapping_mul(0xc2b2_ae35);
    word ^ word >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(wanted: &[(Option<u32>, i32)]) -> Vec<Wish> {
        wanted.iter().map(|&(color, key)| Wish { color, key, offer: None }).collect()
    }

    #[test]
    fn ranks_of_a_color_are_ordered_by_key_and_then_by_rank() {
        let all = wishes(&[(Some(1), 5), (Some(2), 0), (Some(1), -3), (None, 0), (Some(1), 5)]);
        assert_eq!(together(&all, 0), [2, 0, 4]);
        assert_eq!(together(&all, 1), [1]);
        assert_eq!(together(&all, 3), [0; 0]);
    }

    #[test]
    fn a_wish_survives_the_way_and_nonsense_offers_nothing() {
        for (color, key) in [(None, 0), (Some(0), i32::MIN), (Some(u32::MAX), i32::MAX)] {
            for offer in [None, Some(Proposal { number: NUMBERS - 1, again: true })] {
                let wish = Wish { color, key, offer };
                assert_eq!(Wish::of_words(&wish.to_words()), wish);
            }
        }
        assert_eq!(Wish::of_words(&[1, 2, 3, NUMBERS + 1, 0]).offer, None);
        assert_eq!(Wish::of_words(&[1, 2]), Wish::NONE);
    }
}
