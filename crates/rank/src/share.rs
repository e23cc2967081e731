//! Gives every rank the words of all ranks, so that ranks can agree on things that they make
//! together.

use hikyaku_coll::broadcast::Algorithm;
use hikyaku_coll::{
    self as coll, Cause, CollError, CommunicatorGroup as Group, Group as _, Operation,
};
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::PeerFailure;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::port::RankPort;

impl Communicator {
    /// Gives every rank the words of all ranks, in rank order.
    ///
    /// It consists of three collective operations, and every live rank takes part in all of them,
    /// whatever the result of each. A death may be an error of one of them at one rank only, while
    /// the others go on to the next one, where they would wait for that rank for ever, or take its
    /// contribution for the one after. The first rank announces the result of the first operation
    /// in the second; when it has all words it continues, even if a rank that shall receive them
    /// dies.
    ///
    /// # Errors
    /// A rank is gone or abandoned the call.
    pub fn share(&self, words: &[u32]) -> Result<Vec<Vec<u32>>, Error> {
        let gathered = self.together(async |group| gather(group, words).await);
        let blocks = gathered.as_ref().ok().and_then(Option::as_ref);
        let lengths = blocks.into_iter().flatten().map(|block| block.len() as u64);
        let mut told = to_head(gathered.as_ref().err()).to_vec();
        told.extend(lengths);
        told.resize(HEAD_WORDS + self.size() as usize, 0);
        let heard = self.together(async |group| broadcast(group, &mut told).await);
        if self.rank() != 0 && heard.is_err() {
            // As long as the head of a first rank that could not gather.
            told.fill(0);
        }
        let Some((head, lengths)) = told.split_first_chunk::<HEAD_WORDS>() else {
            return Ok(Vec::new());
        };
        let total = total(lengths, (self.rank(), words.len()));
        let all = || vec![0; total.unwrap_or(0)];
        let mut all = blocks.map_or_else(all, |blocks| blocks.concat());
        let rest = self.together(async |group| broadcast(group, &mut all).await);
        if self.rank() == 0 {
            gathered?;
        } else {
            heard?;
            of_head(head)?;
            total.ok_or(MsgError::Malformed { source_rank: 0 })?;
            rest?;
        }
        let mut rest = &all[..];
        let block = |length: &u64| {
            let (block, after) = rest.split_at(*length as usize);
            rest = after;
            block.to_vec()
        };
        heard_own(lengths.iter().map(block).collect(), self.rank(), words)
    }

    /// Runs a collective of the library itself to its end: algorithms chosen by name are only for
    /// those of the program.
    fn together<R>(
        &self,
        operation: impl AsyncFnOnce(&Group<'_, RankPort>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let group = self.waiting_group();
        let result = self.drive(operation(&group));
        self.drop_left_overs();
        result
    }
}

/// Gathers the words of every rank at the first.
async fn gather(
    group: &Group<'_, RankPort>,
    words: &[u32],
) -> Result<Option<Vec<Vec<u32>>>, Error> {
    let is_first = group.rank() == 0;
    let mut counts = vec![0u64; if is_first { group.size() as usize } else { 0 }];
    let count = [words.len() as u64];
    let into = bytemuck::cast_slice_mut(&mut counts);
    let counted = coll::gather(group, None, Some(bytemuck::cast_slice(&count)), into, 0).await;
    let too_many = (0..).zip(&counts).find(|(_, count)| **count > MOST_WORDS as u64);
    let malformed = too_many.map(|(source_rank, _)| MsgError::Malformed { source_rank });
    if counted.is_err() || malformed.is_some() {
        // The others may not know, and be in the second operation already. A rank that left it out
        // would be out of step with them in all later ones.
        counts.fill(0);
    }
    let mut blocks: Vec<Vec<u32>> = counts.iter().map(|count| vec![0; *count as usize]).collect();
    let into = blocks.iter_mut().map(|block| bytemuck::cast_slice_mut(block)).collect();
    let gathered = coll::gatherv(group, None, Some(bytemuck::cast_slice(words)), into, 0).await;
    counted?;
    malformed.map_or(Ok(()), Err)?;
    gathered?;
    Ok(is_first.then_some(blocks))
}

/// Broadcasts the words of the first rank: by messages, because ranks fall back to them after an
/// earlier failure. By lines the first rank would not wait for such a rank, and not learn of the
/// failure.
async fn broadcast<T: bytemuck::Pod>(
    group: &Group<'_, RankPort>,
    words: &mut [T],
) -> Result<(), Error> {
    Ok(coll::broadcast(group, Some(Algorithm::Binomial), bytemuck::cast_slice_mut(words), 0)
        .await?)
}

/// Checks that this rank's part of the words of all is unchanged.
///
/// # Errors
/// It is not.
pub fn heard_own(all: Vec<Vec<u32>>, own: u32, said: &[u32]) -> Result<Vec<Vec<u32>>, Error> {
    match all.get(own as usize).is_some_and(|heard| heard == said) {
        true => Ok(all),
        false => Err(MsgError::Malformed { source_rank: own }.into()),
    }
}

/// The maximum number of words that ranks share when they make something; more is malformed.
pub const MOST_WORDS: usize = 1 << 26;

/// The total number of words of all ranks, if these lengths are valid: each is positive, and `own`
/// matches. They come through shared memory, which another process may have overwritten.
fn total(lengths: &[u64], own: (u32, usize)) -> Option<usize> {
    let right = lengths.get(own.0 as usize) == Some(&(own.1 as u64));
    let total = lengths.iter().try_fold(0, |sum: u64, length| sum.checked_add(*length))?;
    let right = right && lengths.iter().all(|length| *length > 0);
    usize::try_from(total).ok().filter(|total| right && *total <= MOST_WORDS)
}

/// The number of words in which the first rank announces the result of its gather.
const HEAD_WORDS: usize = 1 + Cause::MOST_BYTES / size_of::<u64>();

/// Encodes whether it failed, and why.
fn to_head(failure: Option<&Error>) -> [u64; HEAD_WORDS] {
    let mut head = [0; HEAD_WORDS];
    let Some(failure) = failure else { return head };
    let cause = match failure {
        Error::Message(MsgError::PeerFailed(PeerFailure { rank, .. }))
        | Error::Message(MsgError::PeerLeft { rank, .. }) => Cause::Gone { rank: *rank },
        Error::Collective(CollError::Abandoned { cause, .. }) => *cause,
        Error::Collective(CollError::Differ { one, other }) => {
            Cause::Differ { one: *one, other: *other }
        }
        _ => Cause::Failed,
    };
    let bytes = cause.to_bytes();
    head[0] = bytes.len() as u64;
    bytemuck::cast_slice_mut(&mut head[1..])[..bytes.len()].copy_from_slice(&bytes);
    head
}

/// Decodes [`to_head`].
fn of_head(head: &[u64; HEAD_WORDS]) -> Result<(), Error> {
    let Some(length @ 1..) = usize::try_from(head[0]).ok() else { return Ok(()) };
    let bytes: &[u8] = bytemuck::cast_slice(&head[1..]);
    let cause = bytes.get(..length).and_then(Cause::from_bytes).unwrap_or(Cause::Failed);
    Err(CollError::Abandoned { operation: Operation::Gather.name(), peer: 0, cause }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_cannot_be_are_none() {
        assert_eq!(total(&[2, 3], (1, 3)), Some(5));
        for lengths in [[2, 4], [0, 3], [u64::MAX, 3], [MOST_WORDS as u64, 3]] {
            assert_eq!(total(&lengths, (1, 3)), None, "{lengths:?}");
        }
        assert_eq!(total(&[], (0, 1)), None);
    }

    #[test]
    fn what_a_rank_said_comes_back_to_it() {
        let all = vec![vec![1, 2], vec![3]];
        assert_eq!(heard_own(all.clone(), 1, &[3]), Ok(all.clone()));
        let malformed = MsgError::Malformed { source_rank: 1 };
        for said in [&[4][..], &[3, 0], &[]] {
            assert_eq!(heard_own(all.clone(), 1, said), Err(malformed.into()));
        }
    }
}
