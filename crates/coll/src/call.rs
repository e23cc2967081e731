//! One rank's part in one operation: its tag, its messages, and its failure handling.
//!
//! ```text
//!   called ──► Call { tag } ──► run ──► algorithm(&Team) ──► Ok                         over
//!                 │              │            │ Err: wrong length, a rank gone ──►  tell all
//!                 │              └ waiting: notice? ──► Err(Abandoned, Differ)
//!                 └ dropped before or within run ─────────────────────────────────►  tell all
//! ```
//!
//! A rank that fails notifies all others, because they may wait for messages that it will not send,
//! or for those of a third rank that waits for it. So a failure ends the operation at every rank
//! that is still in it, whatever the algorithm's pattern.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use hikyaku_msg::{Layout, join, join_all};
use hikyaku_nic::ring::copy;

use crate::error::{Caller, Cause, CollError, Failure};
use crate::group::{Group, Notice, OperationEnding};
use crate::long::LongCall;
use crate::names::Named;
use crate::part::{Part, Place};
use crate::questions::{Asked, Made};
use crate::signature::Signature;
use crate::turns::LineTurn;

/// An operation that this rank has called and that has not ended.
pub(crate) struct Call<'g, G: Group> {
    group: &'g G,
    made: Made,
    number: u32,
    /// Whether it is open in the group: not while it may complete at once.
    is_open: Cell<bool>,
    /// The algorithm, or its replacement if the first is not possible; and the tag of its messages,
    /// 0 until one is sent or received.
    named: Cell<Named>,
    tag: Cell<i32>,
    asked: Cell<Asked>,
    /// The reason why it cannot succeed, if this rank found it first.
    found: Cell<Option<Cause>>,
    /// Whether all ranks know of the failure.
    is_known: Cell<bool>,
    /// Whether it has entered its first round on the lines before its first poll.
    has_entered: Cell<bool>,
    /// The rounds that were over before it was first polled.
    rounds_over: Cell<usize>,
    /// The way that this rank has chosen for all ranks. Its time is recorded when the call ends.
    long: Cell<Option<LongCall>>,
    /// How it ends if it is dropped now. `None`: it has ended.
    ending: Cell<Option<OperationEnding>>,
}

/// A started call: complete, or a future.
pub enum Begun<R, F> {
    /// It completed without waiting.
    Done(R),
    /// It continues when this is polled.
    Waits(F),
}

impl<R, F: Future<Output = R>> Begun<R, F> {
    /// Runs it to its result.
    #[inline]
    pub async fn end(self) -> R {
        match self {
            Begun::Done(result) => result,
            Begun::Waits(future) => future.await,
        }
    }
}

impl<R, C> Begun<R, C> {
    /// Keeps a complete call as it is; `start` makes the future of a waiting one.
    #[inline(always)]
    pub(crate) fn or_start<F>(self, start: impl FnOnce(C) -> F) -> Begun<R, F> {
        match self {
            Begun::Done(result) => Begun::Done(result),
            Begun::Waits(call) => Begun::Waits(start(call)),
        }
    }
}

impl<'g, G: Group> Call<'g, G> {
    /// Opens a call in the group, which numbers it. `index` is its algorithm.
    #[inline]
    pub(crate) fn new(group: &'g G, signature: Signature, index: usize) -> Call<'g, G> {
        Call::new_on(group, signature, index, false)
    }

    /// The same for a call that may use lines.
    #[inline]
    pub(crate) fn new_on(
        group: &'g G,
        signature: Signature,
        index: usize,
        lines: bool,
    ) -> Call<'g, G> {
        let algorithm = (!lines).then_some(index as u8);
        let made = Made { call: signature.element(group.element()), algorithm };
        let number = group.open(made);
        Call::numbered(group, made, number, index)
    }

    /// The same for a call that uses lines if `lines` is set.
    #[inline(always)]
    pub(crate) fn begin<R>(
        group: &'g G,
        signature: Signature,
        index: usize,
        lines: bool,
        act: impl FnOnce(&Team<'_, G>) -> Option<Result<R, Failure<G>>>,
    ) -> Begun<Result<R, Failure<G>>, Call<'g, G>> {
        match lines {
            true => Call::on_lines(group, signature, index, act),
            false => Begun::Waits(Call::new(group, signature, index)),
        }
    }

    /// The same for a call by lines. If they are free, `act` does what it can without waiting and
    /// returns the result, or `None`. A call that completes so is never opened.
    #[inline(always)]
    pub(crate) fn on_lines<R>(
        group: &'g G,
        signature: Signature,
        index: usize,
        act: impl FnOnce(&Team<'_, G>) -> Option<Result<R, Failure<G>>>,
    ) -> Begun<Result<R, Failure<G>>, Call<'g, G>> {
        let made = Made { call: signature.element(group.element()), algorithm: None };
        let Some(number) = group.next_on_lines() else {
            let number = group.open(made);
            return Begun::Waits(Call::numbered(group, made, number, index));
        };
        let call = Call::numbered(group, made, number, index);
        call.is_open.set(false);
        match act(&Team::of_all(&call)) {
            Some(Ok(result)) => {
                call.ending.set(None);
                group.pass(made);
                call.note_way();
                Begun::Done(Ok(result))
            }
            Some(failed) => {
                call.end_with(&failed);
                Begun::Done(failed)
            }
            None => {
                call.open();
                Begun::Waits(call)
            }
        }
    }

    /// Runs an algorithm to its end. The future holds the states of all algorithms of an operation,
    /// up to some KiB, and each caller would move it: it is boxed where it is made.
    #[inline]
    pub(crate) fn run<R, A: AsyncFnOnce(&Team<'_, G>) -> Result<R, Failure<G>>>(
        self,
        algorithm: A,
    ) -> Pin<Box<impl Future<Output = Result<R, Failure<G>>>>> {
        Box::pin(self.run_in_place(algorithm))
    }

    async fn run_in_place<R, A>(self, algorithm: A) -> Result<R, Failure<G>>
    where
        A: AsyncFnOnce(&Team<'_, G>) -> Result<R, Failure<G>>,
    {
        let call = &self;
        let team = Team::of_all(call);
        let mut algorithm = pin!(algorithm(&team));
        // Dropped before the algorithm: the others receive the reason before its messages are
        // withdrawn.
        let close = Close(call);
        let mut done = None;
        let result = poll_fn(|context| {
            let before = call.group.reported_waits();
            if done.is_none() {
                match algorithm.as_mut().poll(context) {
                    Poll::Pending => return call.waits(before),
                    // Its message was withdrawn. A notice has reported the reason before.
                    Poll::Ready(Err(CollError::Message(error))) => {
                        return Poll::Ready(Err(call.told().unwrap_or(CollError::Message(error))));
                    }
                    Poll::Ready(ended) => done = Some(ended),
                }
            }
            if matches!(done, Some(Ok(_))) && call.group.is_in_doubt(call.number) {
                return call.waits(before);
            }
            done.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        if result.is_ok() {
            call.note_way();
        }
        close.0.end_with(&result);
        result
    }
}

/// Closes a call when it is dropped.
struct Close<'c, 'g, G: Group>(&'c Call<'g, G>);

impl<G: Group> Drop for Close<'_, '_, G> {
    #[inline]
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<'g, G: Group> Call<'g, G> {
    /// The call with this number. Inlined, so that it is made in place: to move it costs as much as
    /// to make it.
    #[inline(always)]
    fn numbered(group: &'g G, made: Made, number: u32, index: usize) -> Call<'g, G> {
        Call {
            group,
            made,
            number,
            is_open: Cell::new(true),
            named: Cell::new(Named { operation: made.call.operation(), index }),
            tag: Cell::new(0),
            asked: Cell::default(),
            found: Cell::default(),
            is_known: Cell::new(false),
            has_entered: Cell::new(false),
            rounds_over: Cell::new(0),
            long: Cell::new(None),
            ending: Cell::new(Some(OperationEnding::Failed(Cause::Dropped))),
        }
    }
}

impl<G: Group> Call<'_, G> {
    /// Sets how it ends from now on.
    #[inline(always)]
    fn end_with<R>(&self, result: &Result<R, Failure<G>>) {
        self.ending.set(Some(match result {
            Ok(_) => OperationEnding::Done,
            Err(error) => self.failed(error),
        }));
    }

    /// Records the time of the way that this rank has chosen.
    #[inline(always)]
    fn note_way(&self) {
        if let Some(long) = self.long.get() {
            self.group.note_long(long);
        }
    }

    #[cold]
    fn failed(&self, failure: &Failure<G>) -> OperationEnding {
        match self.found.get() {
            Some(cause) => OperationEnding::Failed(cause),
            None if self.is_known.get() => OperationEnding::Known,
            None => ending_of::<G>(failure),
        }
    }

    /// Ends a call whose arguments were wrong.
    pub(crate) fn fail(self) {
        self.ending.set(Some(OperationEnding::Failed(Cause::Failed)));
    }

    /// Opens a call on the lines that could not complete at once.
    fn open(&self) {
        if !self.is_open.replace(true) {
            let number = self.group.open(self.made);
            debug_assert_eq!(number, self.number);
        }
    }

    #[inline]
    fn close(&self) {
        if let Some(ending) = self.ending.take() {
            self.open();
            self.group.close(self.number, ending);
        }
    }

    /// Ends a waiting call if it has failed elsewhere. Otherwise asks other ranks when it is time,
    /// and reports what it waits for, for the report of a hang.
    fn waits<R>(&self, before: Option<u32>) -> Poll<Result<R, Failure<G>>> {
        if let Some(failure) = self.told() {
            return Poll::Ready(Err(failure));
        }
        if let Some(notice) = self.group.ask(self.number, self.tag(), self.made, &self.asked) {
            // That rank has not reported it: the others do not know.
            self.found.set(Some(notice.cause));
            return Poll::Ready(Err(self.failure(notice)));
        }
        if let Some(before) = before {
            let operation = self.made.call.operation().name();
            self.group.report_operation(before, operation, self.made.call.of_root());
        }
        Poll::Pending
    }

    #[inline]
    fn tag(&self) -> i32 {
        if self.tag.get() == 0 {
            self.tag.set(self.named.get().tag(self.number, self.made.call.sum()));
        }
        self.tag.get()
    }

    /// The reason why it cannot succeed, as reported by others.
    fn told(&self) -> Option<Failure<G>> {
        self.group.notice(self.number).map(|notice| self.failure(notice))
    }

    fn failure(&self, notice: Notice) -> Failure<G> {
        let operation = self.made.call.operation().name();
        match notice.cause {
            Cause::Differ { one, other } => CollError::Differ { one, other },
            cause => CollError::Abandoned { operation, peer: notice.rank, cause },
        }
    }
}

impl<G: Group> Drop for Call<'_, G> {
    #[inline]
    fn drop(&mut self) {
        self.close();
    }
}

/// The ending of a failed call: whether the others must be notified, and the cause.
fn ending_of<G: Group>(failure: &Failure<G>) -> OperationEnding {
    OperationEnding::Failed(match failure {
        CollError::Abandoned { .. } => return OperationEnding::Told,
        CollError::Differ { one, other } => Cause::Differ { one: *one, other: *other },
        CollError::Message(error) => match G::gone(error) {
            Some(rank) => Cause::Gone { rank },
            None => Cause::Failed,
        },
        _ => Cause::Failed,
    })
}

/// The ranks that an algorithm runs on: all of the group, or some of them, numbered from 0.
pub(crate) struct Team<'c, G: Group> {
    call: &'c Call<'c, G>,
    rank: u32,
    size: u32,
    /// The members' ranks in the group, in the order of their numbers here. `None`: all.
    members: Option<&'c [u32]>,
}

impl<'c, G: Group> Team<'c, G> {
    #[inline]
    fn of_all(call: &'c Call<'c, G>) -> Team<'c, G> {
        Team { call, rank: call.group.rank(), size: call.group.size(), members: None }
    }

    /// The same operation on `members` only, of which this rank is number `rank`.
    pub(crate) fn among<'m>(&self, members: &'m [u32], rank: u32) -> Team<'m, G>
    where
        'c: 'm,
    {
        Team { call: self.call, rank, size: members.len() as u32, members: Some(members) }
    }

    #[inline]
    pub(crate) fn group(&self) -> &'c G {
        self.call.group
    }

    /// The number of this call.
    pub(crate) fn number(&self) -> u32 {
        self.call.number
    }

    /// The word of this call on the lines, whose turn it is.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        self.call.made.call.word(self.call.number.wrapping_add(self.group().past()))
    }

    /// Includes this call, which uses the lines, in the checksum of later calls.
    #[inline]
    pub(crate) fn count_in(&self) {
        self.group().count_in(self.call.made);
    }

    /// Whether it is this call's turn on the lines.
    #[inline]
    pub(crate) fn turn(&self) -> LineTurn {
        self.group().turn(self.call.number)
    }

    /// Continues with another algorithm, by messages.
    ///
    /// # Errors
    /// Another rank has failed in this call, or has completed it by lines.
    pub(crate) fn without_lines(&self, index: usize) -> Result<(), Failure<G>> {
        if let Some(failure) = self.call.told() {
            return Err(failure);
        }
        self.call.group.give_way(self.call.number);
        let named = Named { index, ..self.call.named.get() };
        self.call.named.set(named);
        self.call.tag.set(0);
        Ok(())
    }

    /// The error for another rank's different call.
    #[cold]
    pub(crate) fn differs(&self, rank: u32, call: Option<Signature>) -> Failure<G> {
        let own = Caller { rank: self.group().rank(), call: self.call.made.call };
        match call {
            Some(call) => CollError::Differ { one: Caller { rank, call }, other: own },
            None => {
                let operation = self.call.made.call.operation().name();
                CollError::Abandoned { operation, peer: rank, cause: Cause::Failed }
            }
        }
    }

    /// Whether this call has entered its first round on the lines.
    #[inline]
    pub(crate) fn has_entered(&self) -> &Cell<bool> {
        &self.call.has_entered
    }

    /// The rounds on the lines that were over when this call became a future, which continues
    /// there: parts of a broadcast, or the first round of an allreduce, in which this rank has
    /// combined its share.
    #[inline]
    pub(crate) fn rounds_over(&self) -> &Cell<usize> {
        &self.call.rounds_over
    }

    /// The way that this rank has chosen for all.
    pub(crate) fn chosen_way(&self) -> Option<LongCall> {
        self.call.long.get()
    }

    /// Sets the way that this rank has chosen for all. `None`: the call does not use that way.
    #[inline]
    pub(crate) fn choose_way(&self, call: Option<LongCall>) {
        self.call.long.set(call);
    }

    /// Marks the failure of this call as known to every rank.
    pub(crate) fn all_know(&self) {
        self.call.is_known.set(true);
    }

    /// The failure of a call that lost the lines after it had begun to change its data.
    pub(crate) fn lost(&self) -> Failure<G> {
        let operation = self.call.made.call.operation().name();
        let abandoned = |rank, cause| CollError::Abandoned { operation, peer: rank, cause };
        self.call.told().unwrap_or_else(|| abandoned(self.group().rank(), Cause::Dropped))
    }

    /// This rank's number in the team.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks in the team.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The rank `distance` after this one, cyclically.
    pub(crate) fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// The rank `distance` before this one, cyclically. The distance is at most the size.
    pub(crate) fn before(&self, distance: u32) -> u32 {
        self.after(self.size - distance)
    }

    /// The rank in the group of the team's `rank`.
    fn in_group(&self, rank: u32) -> u32 {
        self.members.map_or(rank, |members| members[rank as usize])
    }

    fn tag(&self) -> i32 {
        self.call.tag()
    }

    fn operation(&self) -> &'static str {
        self.call.made.call.operation().name()
    }

    /// Sends `bytes`.
    pub(crate) async fn send(&self, bytes: &[G::Byte], to: u32) -> Result<(), Failure<G>> {
        Ok(self.group().send(bytes, self.in_group(to), self.tag()).await?)
    }

    /// Sends several messages, as one chain where the group supports chains.
    pub(crate) async fn send_chain(
        &self,
        mut chain: Vec<(u32, &[G::Byte])>,
    ) -> Result<(), Failure<G>> {
        for (to, _) in &mut chain {
            *to = self.in_group(*to);
        }
        Ok(self.group().send_chain(chain, self.tag()).await?)
    }

    /// Sends `bytes` to all other ranks of the group by one command.
    pub(crate) async fn multicast(&self, bytes: &[G::Byte]) -> Result<(), Failure<G>> {
        Ok(self.group().multicast(bytes, self.tag()).await?)
    }

    /// Receives a message that fills `into`.
    pub(crate) async fn recv(&self, into: &mut [G::Byte], from: u32) -> Result<(), Failure<G>> {
        let (peer, expected) = (self.in_group(from), into.len());
        let sent = self.group().recv(into, peer, self.tag()).await?;
        self.check_length(peer, sent, expected)
    }

    /// Receives a message from each of several ranks, in any order of arrival.
    pub(crate) async fn recv_all(
        &self,
        places: Vec<(u32, Place<'_, G::Byte>)>,
    ) -> Result<(), Failure<G>> {
        let receive = |(from, place)| self.recv_part(place, from);
        join_all(places.into_iter().map(receive).collect()).await.into_iter().collect()
    }

    /// Sends a part.
    pub(crate) async fn send_part(
        &self,
        part: Part<'_, G::Byte>,
        to: u32,
    ) -> Result<(), Failure<G>> {
        match part {
            Part::Whole(bytes) => self.send(bytes, to).await,
            Part::Scattered(data) => {
                Ok(self.group().send_scattered(data, self.in_group(to), self.tag()).await?)
            }
        }
    }

    /// Receives a message that fills a place.
    pub(crate) async fn recv_part(
        &self,
        place: Place<'_, G::Byte>,
        from: u32,
    ) -> Result<(), Failure<G>> {
        match place {
            Place::Whole(into) => self.recv(into, from).await,
            Place::Scattered(data) => {
                let (peer, expected) = (self.in_group(from), data.len());
                let sent = self.group().recv_scattered(data, peer, self.tag()).await?;
                self.check_length(peer, sent, expected)
            }
        }
    }

    /// Sends several parts: those without gaps as one chain where the group supports chains.
    pub(crate) async fn send_parts(
        &self,
        parts: Vec<(u32, Part<'_, G::Byte>)>,
    ) -> Result<(), Failure<G>> {
        let (mut chain, mut scattered) = (Vec::with_capacity(parts.len()), Vec::new());
        for (to, part) in parts {
            match part {
                Part::Whole(bytes) => chain.push((to, bytes)),
                Part::Scattered(_) => scattered.push(self.send_part(part, to)),
            }
        }
        if scattered.is_empty() {
            return self.send_chain(chain).await;
        }
        let (whole, others) = join(self.send_chain(chain), join_all(scattered)).await;
        others.into_iter().fold(whole, Result::and)
    }

    /// Sends parts in one chain, and receives others meanwhile in any order. Receives are posted
    /// first, so that early arrivals find their place.
    pub(crate) async fn exchange_all(
        &self,
        parts: Vec<(u32, Part<'_, G::Byte>)>,
        places: Vec<(u32, Place<'_, G::Byte>)>,
    ) -> Result<(), Failure<G>> {
        let (received, sent) = join(self.recv_all(places), self.send_parts(parts)).await;
        sent.and(received)
    }

    /// Sends a part to one rank and receives one from another at the same time.
    pub(crate) async fn exchange_parts(
        &self,
        part: Part<'_, G::Byte>,
        to: u32,
        place: Place<'_, G::Byte>,
        from: u32,
    ) -> Result<(), Failure<G>> {
        let (sent, received) = join(self.send_part(part, to), self.recv_part(place, from)).await;
        sent.and(received)
    }

    /// The same where either may be missing.
    pub(crate) async fn exchange_some(
        &self,
        part: Option<Part<'_, G::Byte>>,
        to: u32,
        place: Option<Place<'_, G::Byte>>,
        from: u32,
    ) -> Result<(), Failure<G>> {
        match (part, place) {
            (Some(part), Some(place)) => self.exchange_parts(part, to, place, from).await,
            (Some(part), None) => self.send_part(part, to).await,
            (None, Some(place)) => self.recv_part(place, from).await,
            (None, None) => Ok(()),
        }
    }

    /// A closure that moves this rank's part for itself to its place, which has the same length. An
    /// algorithm does not move a part with gaps.
    pub(crate) fn own_part<'p>(
        &self,
        what: &'static str,
        part: Part<'p, G::Byte>,
        place: Place<'p, G::Byte>,
    ) -> Result<impl FnOnce() + use<'p, G>, Failure<G>> {
        match (part, place) {
            (Part::Whole(bytes), Place::Whole(into)) => {
                self.check_argument(what, into.len(), bytes.len())?;
                Ok(|| copy(bytes, into))
            }
            _ => Err(self.unsuitable("moves no part with gaps within a rank")),
        }
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

    /// Checks that `root` is a rank of the team.
    pub(crate) fn check_root(&self, root: u32) -> Result<(), Failure<G>> {
        if root < self.size {
            return Ok(());
        }
        let operation = self.operation();
        Err(CollError::NoSuchRoot { operation, root, size: self.size })
    }

    /// Checks the size of an argument.
    pub(crate) fn check_argument(
        &self,
        what: &'static str,
        given: usize,
        needed: usize,
    ) -> Result<(), Failure<G>> {
        if given == needed {
            return Ok(());
        }
        let operation = self.operation();
        Err(CollError::Length { operation, what, given: given as u64, needed: needed as u64 })
    }

    /// Checks that the part for a rank, or of one, lies within an array of `length` bytes.
    pub(crate) fn check_within(
        &self,
        peer: u32,
        layout: &Layout,
        length: usize,
    ) -> Result<(), Failure<G>> {
        layout.check(length).map_err(|_| CollError::Outside {
            operation: self.operation(),
            peer,
            end: layout.end() as u64,
            length: length as u64,
        })
    }

    /// Checks that an array is a whole number of elements of `width` bytes.
    pub(crate) fn check_elements(&self, bytes: usize, width: usize) -> Result<(), Failure<G>> {
        let what = "the array, in bytes of whole elements,";
        self.check_argument(what, bytes, bytes.next_multiple_of(width.max(1)))
    }

    /// The bytes of each rank's part of an array that is divided into equal parts of whole
    /// elements.
    pub(crate) fn share(&self, what: &'static str, bytes: usize) -> Result<usize, Failure<G>> {
        let width = self.group().element().width();
        if bytes.is_multiple_of(self.size as usize * width) {
            return Ok(bytes / self.size as usize);
        }
        let (operation, elements) = (self.operation(), (bytes / width) as u64);
        Err(CollError::Uneven { operation, what, elements, size: self.size })
    }

    /// A rank's own part. Only the root, which is checked too, may leave it out, because it is
    /// already in its place.
    pub(crate) fn check_own<T>(
        &self,
        given: Option<T>,
        root: u32,
    ) -> Result<Option<T>, Failure<G>> {
        self.check_root(root)?;
        if given.is_some() || self.rank == root {
            return Ok(given);
        }
        let (operation, rank) = (self.operation(), self.rank);
        Err(CollError::NotInPlace { operation, rank, root })
    }

    /// An error unless `can`: the algorithm cannot do what the caller asks.
    pub(crate) fn require(&self, can: bool, reason: &'static str) -> Result<(), Failure<G>> {
        if can { Ok(()) } else { Err(self.unsuitable(reason)) }
    }

    #[cold]
    fn unsuitable(&self, reason: &'static str) -> Failure<G> {
        let (operation, algorithm) = (self.operation(), self.call.named.get().algorithm());
        CollError::Unsuitable { operation, algorithm, reason }
    }

    fn check_length(&self, peer: u32, sent: u64, expected: usize) -> Result<(), Failure<G>> {
        if sent == expected as u64 {
            Ok(())
        } else {
            Err(self.lengths_differ(peer, sent, expected))
        }
    }

    /// The error of a length that this rank does not expect.
    #[cold]
    pub(crate) fn lengths_differ(&self, peer: u32, sent: u64, expected: usize) -> Failure<G> {
        let call = self.call.made.call;
        let rank = self.group().rank();
        let one = Caller { rank: peer, call: call.bytes(sent as usize) };
        CollError::Differ { one, other: Caller { rank, call: call.bytes(expected) } }
    }
}
