//! One rank's part in one operation: its tag, its messages, and what happens when it fails.
//!
//! ```text
//!   called ──► Call { tag } ──► run ──► algorithm(&Team) ──► Ok                         over
//!                 │              │            │ Err: wrong length, a rank gone ──►  tell all
//!                 │              └ waiting: notice? ──► Err(GaveUp, OtherCall)
//!                 └ dropped before or within run ─────────────────────────────────►  tell all
//! ```
//!
//! A rank that fails tells all others, because they may wait for messages that it will not send, or
//! for those of a third that waits for it. So a failure ends the operation at every rank that is
//! still in it, whatever the algorithm's pattern.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use hikyaku_msg::{Layout, join, join_all};

use crate::error::{Cause, CollError, Failure, OtherCall};
use crate::group::{Ending, Group, Notice};
use crate::names::{Named, Operation};

/// An operation that was called at this rank and is not over.
pub(crate) struct Call<'g, G: Group> {
    group: &'g G,
    named: Named,
    tag: i32,
    /// How it ends if it is dropped now.
    ending: Ending,
}

impl<'g, G: Group> Call<'g, G> {
    /// Takes the place of this call among the group's operations.
    pub(crate) fn new(group: &'g G, operation: Operation, index: usize) -> Call<'g, G> {
        let named = Named { operation, index };
        let tag = named.tag(group.open());
        Call { group, named, tag, ending: Ending::Failed(Cause::Dropped) }
    }

    /// Runs an algorithm to its end.
    pub(crate) async fn run<R, A>(mut self, algorithm: A) -> Result<R, Failure<G>>
    where
        A: AsyncFnOnce(&Team<'_, G>) -> Result<R, Failure<G>>,
    {
        let root = Cell::new(None);
        let team = Team::of_all(self.group, self.named, self.tag, &root);
        let result = {
            let mut algorithm = pin!(algorithm(&team));
            poll_fn(|context| {
                let notes = self.group.reported_waits();
                match algorithm.as_mut().poll(context) {
                    Poll::Pending => match self.group.notice(self.tag) {
                        None => {
                            if let Some(before) = notes {
                                let operation = self.named.operation.name();
                                self.group.report_operation(before, operation, root.get());
                            }
                            Poll::Pending
                        }
                        Some(notice) => Poll::Ready(Err(self.told(notice))),
                    },
                    ready => ready,
                }
            })
            .await
        };
        self.ending = result.as_ref().err().map_or(Ending::Done, ending_of::<G>);
        result
    }

    fn told(&self, notice: Notice) -> Failure<G> {
        let operation = self.named.operation.name();
        match notice {
            Notice::GaveUp { rank, cause } => CollError::GaveUp { operation, peer: rank, cause },
            Notice::OtherCall { rank, tag } => {
                let other = Named::of_tag(tag);
                let other = OtherCall {
                    operation: other.map_or("an unknown operation", |it| it.operation.name()),
                    algorithm: other.map_or("an unknown algorithm", Named::algorithm),
                };
                let algorithm = self.named.algorithm();
                CollError::OtherCall { operation, algorithm, peer: rank, other }
            }
        }
    }
}

impl<G: Group> Drop for Call<'_, G> {
    fn drop(&mut self) {
        self.group.close(self.tag, self.ending);
    }
}

/// Whether the others have to be told of a failure, and what.
fn ending_of<G: Group>(failure: &Failure<G>) -> Ending {
    Ending::Failed(match failure {
        CollError::GaveUp { .. } => return Ending::Told,
        CollError::OtherCall { peer, .. } => Cause::OtherCall { peer: *peer },
        CollError::Mismatch { peer, sent, expected, .. } => {
            Cause::Mismatch { peer: *peer, sent: *sent, expected: *expected }
        }
        CollError::Message(error) => match G::gone(error) {
            Some(rank) => Cause::Gone { rank },
            None => Cause::Failed,
        },
        _ => Cause::Failed,
    })
}

/// The ranks an algorithm runs among: all of the group, or some of them, numbered from 0.
pub(crate) struct Team<'c, G: Group> {
    group: &'c G,
    named: Named,
    tag: i32,
    /// The root of the whole operation, once it was checked.
    root: &'c Cell<Option<u32>>,
    rank: u32,
    size: u32,
    /// Ranks of the group in the order of their numbers here; `None`: all.
    members: Option<&'c [u32]>,
}

impl<'c, G: Group> Team<'c, G> {
    fn of_all(group: &'c G, named: Named, tag: i32, root: &'c Cell<Option<u32>>) -> Team<'c, G> {
        Team { group, named, tag, root, rank: group.rank(), size: group.size(), members: None }
    }

    /// The same operation among `members` only, of which this rank is number `rank`.
    pub(crate) fn among<'m>(&self, members: &'m [u32], rank: u32) -> Team<'m, G>
    where
        'c: 'm,
    {
        let Team { group, named, tag, root, .. } = *self;
        Team { group, named, tag, root, rank, size: members.len() as u32, members: Some(members) }
    }

    pub(crate) fn group(&self) -> &'c G {
        self.group
    }

    /// This rank's number here.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks take part.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The rank `distance` after this one, counting on from 0 after the last.
    pub(crate) fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// The rank `distance` before this one, counting on from the last after 0. The distance is at
    /// most the size.
    pub(crate) fn before(&self, distance: u32) -> u32 {
        self.after(self.size - distance)
    }

    /// What `rank` is called in the group.
    fn in_group(&self, rank: u32) -> u32 {
        self.members.map_or(rank, |members| members[rank as usize])
    }

    /// Sends `bytes`.
    pub(crate) async fn send(&self, bytes: &[G::Byte], to: u32) -> Result<(), Failure<G>> {
        Ok(self.group.send(bytes, self.in_group(to), self.tag).await?)
    }

    /// Sends several messages, as one chain where the group has chains.
    pub(crate) async fn send_chain(
        &self,
        mut chain: Vec<(u32, &[G::Byte])>,
    ) -> Result<(), Failure<G>> {
        for (to, _) in &mut chain {
            *to = self.in_group(*to);
        }
        Ok(self.group.send_chain(chain, self.tag).await?)
    }

    /// Sends `bytes` to all other ranks of the group by one command.
    pub(crate) async fn multicast(&self, bytes: &[G::Byte]) -> Result<(), Failure<G>> {
        Ok(self.group.multicast(bytes, self.tag).await?)
    }

    /// Receives a message that fills `into`.
    pub(crate) async fn recv(&self, into: &mut [G::Byte], from: u32) -> Result<(), Failure<G>> {
        let (peer, expected) = (self.in_group(from), into.len());
        let sent = self.group.recv(into, peer, self.tag).await?;
        self.check_length(peer, sent, expected)
    }

    /// Receives a message from each of several ranks, in whatever order they come.
    pub(crate) async fn recv_all(
        &self,
        places: Vec<(u32, &mut [G::Byte])>,
    ) -> Result<(), Failure<G>> {
        let expected: Vec<(u32, usize)> =
            places.iter().map(|(from, into)| (self.in_group(*from), into.len())).collect();
        let receive = |(from, into)| self.group.recv(into, self.in_group(from), self.tag);
        let results = join_all(places.into_iter().map(receive).collect()).await;
        for ((peer, expected), sent) in expected.into_iter().zip(results) {
            self.check_length(peer, sent?, expected)?;
        }
        Ok(())
    }

    /// Sends to one rank and receives from another at the same time.
    pub(crate) async fn exchange(
        &self,
        bytes: &[G::Byte],
        to: u32,
        into: &mut [G::Byte],
        from: u32,
    ) -> Result<(), Failure<G>> {
        let (sent, received) = join(self.send(bytes, to), self.recv(into, from)).await;
        sent.and(received)
    }

    /// Whether `root` is a rank here.
    pub(crate) fn check_root(&self, root: u32) -> Result<(), Failure<G>> {
        if root < self.size {
            if self.members.is_none() {
                self.root.set(Some(root));
            }
            return Ok(());
        }
        let operation = self.named.operation.name();
        Err(CollError::NoSuchRoot { operation, root, size: self.size })
    }

    /// Whether an argument has as many of something as it must have.
    pub(crate) fn check_argument(
        &self,
        what: &'static str,
        given: usize,
        needed: usize,
    ) -> Result<(), Failure<G>> {
        if given == needed {
            return Ok(());
        }
        let operation = self.named.operation.name();
        Err(CollError::Length { operation, what, given: given as u64, needed: needed as u64 })
    }

    /// Whether the part for a rank, or of one, lies within an array of `length` bytes.
    pub(crate) fn check_within(
        &self,
        peer: u32,
        layout: &Layout,
        length: usize,
    ) -> Result<(), Failure<G>> {
        layout.check(length).map_err(|_| CollError::Outside {
            operation: self.named.operation.name(),
            peer,
            end: layout.end() as u64,
            length: length as u64,
        })
    }

    /// Whether an array is a whole number of elements of `width` bytes.
    pub(crate) fn check_elements(&self, bytes: usize, width: usize) -> Result<(), Failure<G>> {
        let what = "the array, in bytes of whole elements,";
        self.check_argument(what, bytes, bytes.next_multiple_of(width.max(1)))
    }

    /// Bytes of each rank's part of an array that has a part of the same whole elements for each.
    pub(crate) fn share(&self, what: &'static str, bytes: usize) -> Result<usize, Failure<G>> {
        let width = self.group.element().width();
        if bytes.is_multiple_of(self.size as usize * width) {
            return Ok(bytes / self.size as usize);
        }
        let (operation, elements) = (self.named.operation.name(), (bytes / width) as u64);
        Err(CollError::Uneven { operation, what, elements, size: self.size })
    }

    /// An argument that only the root may leave out, because it is in its place already.
    pub(crate) fn unless_in_place<T>(
        &self,
        given: Option<T>,
        root: u32,
    ) -> Result<Option<T>, Failure<G>> {
        if given.is_some() || self.rank == root {
            return Ok(given);
        }
        let (operation, rank) = (self.named.operation.name(), self.rank);
        Err(CollError::NotInPlace { operation, rank, root })
    }

    /// The error of an algorithm that cannot do what is asked, unless it can.
    pub(crate) fn require(&self, can: bool, reason: &'static str) -> Result<(), Failure<G>> {
        if can {
            return Ok(());
        }
        let (operation, algorithm) = (self.named.operation.name(), self.named.algorithm());
        Err(CollError::Unsuitable { operation, algorithm, reason })
    }

    fn check_length(&self, peer: u32, sent: u64, expected: usize) -> Result<(), Failure<G>> {
        if sent == expected as u64 {
            return Ok(());
        }
        let (operation, rank) = (self.named.operation.name(), self.group.rank());
        Err(CollError::Mismatch { operation, peer, rank, sent, expected: expected as u64 })
    }
}
