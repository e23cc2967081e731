//! Making communicators of some ranks (MPI 5.0 §7.4.2), and duplicating them.
//!
//! ```text
//!   1  allgather   who wants what, and a number that each would give if it came to lead
//!                  every rank computes the same groups from that; leaders lend their numbers
//!   2  each drops what lies in the context it was given from the last time that was used
//!   3  barrier     nobody sends in a context before all of its ranks have come here
//! ```
//!
//! A rank that fails in 1 or 3 tells the others, as in any collective. One that fails in 3 knows
//! the new communicator, which others may have: it fails the first collective there, so that nobody
//! waits for it.
//!
//! All of it goes through the communicator that is divided, or, for [`Communicator::create_group`],
//! through a context of that one for this purpose, among the ranks of the group alone.

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
    /// A list of ranks that is no group: a rank twice, or not the one that calls.
    #[error(
        "rank {rank} gives a list of ranks that cannot be a group: it has to name that rank, and \
         every rank, exactly once"
    )]
    Members {
        /// Who gave it.
        rank: u32,
    },
    /// Ranks give lists that differ.
    #[error(
        "rank {rank} gives another list of ranks than rank {own}: all ranks of a group give the \
         same list"
    )]
    OtherList {
        /// Whose list differs.
        rank: u32,
        /// This rank.
        own: u32,
    },
    /// Two groups that are to be joined have a rank in common.
    #[error("rank {rank} of the job is in both groups: those of an intercommunicator share none")]
    InBoth {
        /// Its rank in the job.
        rank: u32,
    },
    /// The other group has no rank, or its leader could not be reached.
    #[error("the other group is not there: its leader could not be reached, or it has no rank")]
    Alone,
    /// The leader has no number left.
    #[error(
        "rank {leader} is the first of {NUMBERS} communicators: drop some before it is the first \
         of another"
    )]
    Full {
        /// The first rank of the communicator that was to be made.
        leader: u32,
    },
}

/// What a rank says of the communicator that it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    /// Ranks of one color are together; `None`: it wants none.
    color: Option<u32>,
    /// What they are ordered by.
    key: i32,
    /// The number that it gives if it comes to lead.
    offer: Option<Proposal>,
}

/// Words in which a rank says it.
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

/// How the ranks of a new communicator are numbered.
#[derive(Debug, Clone, Copy)]
enum Numbered {
    /// As the new communicator says.
    Anew,
    /// As here.
    AsHere,
}

impl Communicator {
    /// Divides the ranks by color; those of one are numbered by key, and by rank where keys are
    /// equal (MPI_Comm_split). `None` for a rank without a color. Every rank calls it.
    ///
    /// # Errors
    /// A rank is gone or abandoned the call, or the first rank of a color is that of too many
    /// communicators.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>, Error> {
        self.run(self.split_async(color, key))
    }

    /// The same as a future. Dropping it tells the other ranks.
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

    /// The ranks of a list, in its order (MPI_Comm_create_group). They alone call it.
    ///
    /// # Errors
    /// The list names a rank twice, or not this one, or one that does not exist, or differs between
    /// ranks; or as [`Communicator::split`].
    pub fn create_group(&self, ranks: &[u32]) -> Result<Communicator, Error> {
        self.run(self.create_group_async(ranks))
    }

    /// The same as a future. Dropping it tells the other ranks.
    ///
    /// # Errors
    /// As [`Communicator::create_group`].
    pub async fn create_group_async(&self, ranks: &[u32]) -> Result<Communicator, Error> {
        self.create_group_for(ranks, 0).await
    }

    /// The same where calls for one list of ranks may be made in different orders: those of one
    /// `tag` are made in the same order at all of them.
    ///
    /// # Errors
    /// As [`Communicator::create_group`].
    pub async fn create_group_for(&self, ranks: &[u32], tag: u32) -> Result<Communicator, Error> {
        self.among(ranks, Numbered::Anew, tag).await
    }

    /// The same ranks as here with contexts of their own, which `ranks` agree on. They alone call
    /// it, and use it among themselves.
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
    /// Of some ranks of the job: as [`Communicator::split`]. None of all.
    pub fn try_duplicate(&self) -> Result<Communicator, Error> {
        match self.is_counted() {
            true => Ok(self.counted().with_sessions(self.choices().sessions)),
            false => self.run(self.try_duplicate_async()),
        }
    }

    /// The same as a future. Dropping it tells the other ranks.
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

    /// Whether duplicates of it get contexts that all ranks count alike, without a message.
    fn is_counted(&self) -> bool {
        self.members().is_none() && !self.rank.counts_none.get()
    }

    /// From here on all contexts of this rank are agreed on by messages: ranks may make
    /// communicators in different orders, as their threads come to it. Every rank calls it.
    pub fn count_no_contexts(&self) {
        self.rank.counts_none.set(true);
    }

    /// The same. If it could not be made, every use of it is an error.
    pub fn duplicate(&self) -> Communicator {
        self.try_duplicate().unwrap_or_else(|error| {
            self.broken(match error {
                Error::Message(error) => error,
                _ => MsgError::Unmade,
            })
        })
    }

    /// The ranks of a list by number.
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

    /// What the ranks of a list agree on among themselves.
    async fn among(
        &self,
        ranks: &[u32],
        numbered: Numbered,
        tag: u32,
    ) -> Result<Communicator, Error> {
        let members = self.sub_members(ranks)?;
        // Every call has tags of its own: what is left of one that failed meets no other. Ranks of
        // one list have made as many calls with it and with this tag, which is never taken for a
        // rank.
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

    /// Tells the ranks of a group what this one wants, judges what all want, and makes the
    /// communicator that comes of it.
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
        // It has its place beside the other, so that a rank that abandons the call before it tells
        // those that are there. It is entered last: who leaves it may send in the new context.
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

    /// The communicator of these ranks, with the number that their first one gives.
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
            // What was sent there the last time has landed: its senders have given it back.
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

    /// Runs the making of a communicator to its end.
    ///
    /// # Errors
    /// What it ends with.
    pub fn run<R>(&self, making: impl Future<Output = Result<R, Error>>) -> Result<R, Error> {
        let made = self.drive(making);
        self.drop_left_overs();
        made
    }
}

/// A number that this rank has offered and that nobody has taken yet, as far as is known here.
struct Offered<'r> {
    rank: &'r Rank,
    offer: Option<Proposal>,
}

impl Offered<'_> {
    /// These ranks have taken it; or nobody has.
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
        // Others may have taken it before they learned that it came to nothing.
        self.offer = self.offer.map(|offer| Proposal { again: true, ..offer });
        self.settle(None);
    }
}

/// The ranks of a communicator, and the number that their first one gives if it has one; `None`:
/// this rank is in none.
type Agreed = (Vec<u32>, Option<Option<Proposal>>);

/// A word that has little to do with a number.
fn mixed(number: u32) -> u32 {
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
