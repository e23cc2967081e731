//! Groups of real ranks: one communicator context of a message engine.
//!
//! `book.rs` has a rank's records of a communicator's collectives. `doubts.rs` handles calls that
//! disagree and calls that have failed.
//!
//! A failure leaves messages over: those to a rank that had abandoned the call, and notices to
//! ranks that had already finished. No rank receives messages of a call that has ended here, so
//! they are dropped when calls end. If no call has failed, a left-over message shows that ranks
//! have made different calls ([`crate::questions`]).

mod book;
mod doubts;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use hikyaku_msg::{ContextEndpoint, MsgError, RecvFuture, Scattered, SendFuture, join_all};
use hikyaku_nic::fabric::{
    Activity, ChannelOffer, CopyPort, GroupError, GroupId, GroupPort, Name, PostError, Rank,
    RemoteAddress, Space, Wait, Wake,
};

use crate::error::Cause;
use crate::group::{
    ADDRESS, ChannelUse, CopyReach, Facilities, Group, Network, Notice, OperationEnding,
};
use crate::long::{LongCall, LongCalls, LongOperation, LongWay};
use crate::mates::Mates;
use crate::questions::{Asked, Made};
use crate::signature::Element;
use crate::turns::{LineTurn, is_before};

pub use book::CollectiveBook;

/// A rank's handle on a communicator, for collectives.
///
/// Its context is for collectives only, and its book lives as long as the context. Every rank
/// starts the collectives of a context in the same order (MPI 5.0 §6.12), so all give the same call
/// the same number.
#[derive(Debug)]
pub struct CommunicatorGroup<'e, P: CopyPort> {
    endpoint: ContextEndpoint<'e, P>,
    book: &'e CollectiveBook,
    element: Element,
    looks: u32,
    /// Whether several threads use this rank at any time.
    is_shared: bool,
}

/// The sync id of a communicator's barriers. Calls take turns, so one is enough.
const BARRIERS: u32 = 0;

/// Polls of the lines between two polls for messages, in a blocking call.
const LOOKS: u32 = 8;

impl<P: CopyPort> Clone for CommunicatorGroup<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: CopyPort> Copy for CommunicatorGroup<'_, P> {}

impl<'e, P: CopyPort + GroupPort> CommunicatorGroup<'e, P> {
    /// A group of the ranks that `endpoint` reaches, with the book of their collectives.
    #[inline]
    pub fn new(
        endpoint: ContextEndpoint<'e, P>,
        book: &'e CollectiveBook,
    ) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { endpoint, book, element: Element::BYTE, looks: 1, is_shared: false }
    }

    /// The same ranks, for blocking calls: these poll the lines more often, and yield the processor
    /// to other ranks if there are more ranks than processors.
    #[inline]
    #[must_use]
    pub fn waiting(self) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { looks: LOOKS, ..self }
    }

    /// The same where several threads use this rank, if `is_shared`: a call that yields or sleeps
    /// while it has the port would stop them.
    #[inline]
    #[must_use]
    pub fn among_threads(self, is_shared: bool) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { is_shared, ..self }
    }

    fn waits(&self) -> bool {
        self.looks > 1
    }

    /// The same ranks, for calls on elements that are not bytes.
    #[must_use]
    pub fn with_elements(self, element: Element) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { element, ..self }
    }

    /// The endpoint of its messages.
    pub fn endpoint(&self) -> &ContextEndpoint<'e, P> {
        &self.endpoint
    }

    /// The group whose lines are shared.
    #[inline]
    fn group(&self) -> Result<GroupId, MsgError> {
        self.book.lines.get().ok_or(Self::unsupported("share lines"))
    }

    /// The result of a round without lines.
    #[inline]
    fn alone<T>(&self, done: T) -> Result<T, MsgError> {
        if self.book.is_alone() { Ok(done) } else { Err(Self::unsupported("share lines")) }
    }

    /// The use of the group of all ranks: it is the group of the lines if all ranks share them.
    fn usage_of_all(&self) -> ChannelUse {
        match &self.book.mates {
            Some(mates) if mates.are_all() => ChannelUse::Lines,
            _ => ChannelUse::Network,
        }
    }

    /// Whether this rank may have returned from its last call without checking what the others
    /// called: the next call compares it.
    pub fn has_run_ahead(&self) -> bool {
        self.book.questions.has_run_ahead(self.book.started.get())
    }

    /// The place that stores a joined group.
    fn kept(&self, usage: ChannelUse) -> &'e Cell<Option<GroupId>> {
        match usage {
            ChannelUse::Lines => &self.book.lines,
            ChannelUse::Network => &self.book.network,
        }
    }

    /// The group of all ranks.
    fn group_of_all(&self) -> Result<GroupId, MsgError> {
        let kept = self.kept(self.usage_of_all());
        kept.get().ok_or(Self::unsupported("use a group that was not agreed on"))
    }

    /// Waits for an action of the group of all ranks.
    async fn wait_for(
        &self,
        mut is_there: impl FnMut(&mut P, GroupId) -> Result<bool, GroupError>,
    ) -> Result<(), MsgError> {
        let group = self.group_of_all()?;
        poll_fn(|context| {
            for _ in 0..self.looks {
                match self.endpoint.with_port(|port| is_there(port, group)) {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) => std::hint::spin_loop(),
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Lets the receiver of a send read the bytes in place, if the caller blocks in the call and so
    /// does not drop the send before its end.
    #[inline]
    fn exposed<'b>(&self, send: SendFuture<'e, 'b, P>) -> SendFuture<'e, 'b, P> {
        if self.waits() { send.exposing() } else { send }
    }

    /// The job ranks that share a channel.
    fn ranks_of(&self, usage: ChannelUse) -> Result<Vec<Rank>, MsgError> {
        match usage {
            ChannelUse::Lines => Ok(self.book.ranks.clone()),
            ChannelUse::Network => {
                (0..self.size()).map(|rank| self.endpoint.in_job(rank)).collect()
            }
        }
    }

    /// Whether all ranks can be in one group of the port.
    #[cold]
    fn reaches_all(&self) -> bool {
        if let Some(known) = self.book.reaches_all.get() {
            return known;
        }
        let mut ranks = (0..self.size()).map(|rank| self.endpoint.in_job(rank));
        let reaches = ranks
            .all(|rank| rank.is_ok_and(|rank| self.endpoint.with_port(|port| port.reaches(rank))));
        self.book.reaches_all.set(Some(reaches));
        reaches
    }
}

impl<P: CopyPort + GroupPort> Group for CommunicatorGroup<'_, P> {
    type Byte = u8;
    type Error = MsgError;

    fn rank(&self) -> u32 {
        self.endpoint.rank()
    }

    fn size(&self) -> u32 {
        self.endpoint.size()
    }

    fn node_of(&self, rank: u32) -> u32 {
        self.endpoint.node_of(rank)
    }

    fn nodes(&self) -> u32 {
        self.endpoint.nodes()
    }

    fn element(&self) -> Element {
        self.element
    }

    #[inline]
    fn open(&self, made: Made) -> u32 {
        let number = self.book.number();
        self.book.open.borrow_mut().push(number);
        if made.algorithm.is_none() {
            self.book.turns.borrow_mut().open(number);
        }
        if self.book.questions.make(number, made) {
            self.answer_early(number);
        }
        number
    }

    #[inline]
    fn past(&self) -> u32 {
        self.book.past.get()
    }

    #[inline]
    fn count_in(&self, made: Made) {
        self.book.past.set(made.past(self.book.past.get()));
    }

    #[cold]
    fn doubt_past(&self, number: u32, rank: u32) -> bool {
        self.doubt_calls_before(number, rank)
    }

    #[inline]
    fn next_on_lines(&self) -> Option<u32> {
        if self.book.lines.get().is_none() && !self.book.is_alone() {
            return None;
        }
        let number = self.book.started.get();
        let is_sure = self.book.doubt.get().is_none();
        (is_sure && self.book.turns.borrow().is_next(number)).then_some(number)
    }

    #[inline]
    fn pass(&self, made: Made) {
        let number = self.book.number();
        self.book.turns.borrow_mut().pass(number);
        self.count_in(made);
        if self.book.questions.make(number, made) {
            self.answer_early(number);
        }
        self.drop_left_overs();
    }

    fn send<'a>(
        &'a self,
        bytes: &'a [u8],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), MsgError>> + Unpin + 'a {
        self.exposed(self.endpoint.send(bytes, to, tag))
    }

    fn recv<'a>(
        &'a self,
        into: &'a mut [u8],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, MsgError>> + Unpin + 'a {
        Length(self.endpoint.recv(into, Some(from), Some(tag)))
    }

    /// Messages start when their futures are first polled: all of them in one chain.
    async fn send_chain<'a>(
        &'a self,
        chain: Vec<(u32, &'a [u8])>,
        tag: i32,
    ) -> Result<(), MsgError> {
        let sends = chain.into_iter().map(|(to, bytes)| self.send(bytes, to, tag)).collect();
        let (mut sends, mut is_first) = (pin!(join_all::<_>(sends)), true);
        let all = poll_fn(|context| {
            let starts = std::mem::take(&mut is_first);
            let set = |is_open| self.endpoint.with_port(|port| port.set_chained(is_open));
            if starts {
                set(true);
            }
            let sent = sends.as_mut().poll(context);
            if starts {
                set(false);
            }
            sent
        });
        all.await.into_iter().collect()
    }

    async fn send_scattered(&self, data: Scattered, to: u32, tag: i32) -> Result<(), MsgError> {
        self.endpoint.send_scattered(data, to, tag).await.map(drop)
    }

    async fn recv_scattered(&self, data: Scattered, from: u32, tag: i32) -> Result<u64, MsgError> {
        Ok(self.endpoint.recv_scattered(data, from, tag).await?.bytes)
    }

    #[inline]
    fn facilities(&self) -> Facilities {
        // A child process of the rank is not the rank: messages report that.
        let lines =
            self.book.mates.is_some() && !self.endpoint.with_port(|port| port.is_forked()) && {
                if self.endpoint.has_left_overs() {
                    self.hear();
                }
                let (turns, next) = (self.book.turns.borrow(), self.book.started.get());
                match self.book.lines.get() {
                    Some(_) => turns.are_kept_for(next),
                    None => turns.are_for(next),
                }
            };
        Facilities { lines, ..Facilities::default() }
    }

    #[inline]
    fn mates(&self) -> Option<&Mates> {
        self.book.mates.as_ref()
    }

    fn network(&self) -> Network {
        if self.endpoint.has_left_overs() {
            self.hear();
        }
        let is_kept = self.book.turns.borrow().are_kept_for(self.book.started.get());
        let is_forked = || self.endpoint.with_port(|port| port.is_forked());
        match self.reaches_all() {
            false => Network::Absent,
            // A child process of the rank is not the rank: messages report that.
            true if self.book.only.is_some() || !is_kept || is_forked() => Network::Lost,
            true => Network::There,
        }
    }

    fn sync(&self) -> impl Future<Output = Result<(), MsgError>> + '_ {
        let mut is_entered = false;
        self.wait_for(move |port, group| {
            if !is_entered {
                port.sync(group, BARRIERS)?;
                is_entered = true;
            }
            port.synced(group, BARRIERS)
        })
    }

    async fn add(&self, to: u32) -> Result<(), MsgError> {
        let group = self.group_of_all()?;
        Ok(self.endpoint.with_port(|port| port.add(group, to as usize))?)
    }

    async fn add_to_all(&self) -> Result<(), MsgError> {
        let group = self.group_of_all()?;
        Ok(self.endpoint.with_port(|port| port.add_to_all(group))?)
    }

    fn take(&self, additions: u64) -> impl Future<Output = Result<(), MsgError>> + '_ {
        let rounds = self.book.counted.get() + additions / u64::from(self.size());
        self.book.counted.set(rounds);
        self.wait_for(move |port, group| port.counted(group, rounds))
    }

    async fn multicast<'a>(&'a self, bytes: &'a [u8], tag: i32) -> Result<(), MsgError> {
        let rest = self.endpoint.multicast(self.group_of_all()?, bytes, tag)?;
        let sends = rest.into_iter().map(|send| self.exposed(send));
        join_all(sends.collect()).await.into_iter().collect()
    }

    #[inline]
    fn offer(&self, number: u32, usage: ChannelUse) -> Option<[u8; ChannelOffer::BYTES]> {
        if usage == ChannelUse::Lines && self.book.is_alone() {
            return None;
        }
        let usage = if usage == ChannelUse::Network { self.usage_of_all() } else { usage };
        if self.kept(usage).get().is_some() {
            return None;
        }
        let offer = self.endpoint.with_port(|port| port.offer(self.book.like));
        self.book.offered.set(Some((number, offer)));
        Some(offer.to_bytes())
    }

    fn join_offers(theirs: &[u8], mine: &mut [u8]) {
        let both = ChannelOffer::of_bytes(theirs).and(ChannelOffer::of_bytes(mine));
        mine.copy_from_slice(&both.to_bytes());
    }

    fn settle(&self, number: u32, usage: ChannelUse, offered: &[u8]) -> Result<bool, MsgError> {
        let Some((_, own)) = self.book.offered.take() else { return Ok(false) };
        let all = ChannelOffer::of_bytes(offered).and(own);
        let usage = if usage == ChannelUse::Network { self.usage_of_all() } else { usage };
        let ranks = self.ranks_of(usage)?;
        let joined = self.endpoint.with_port(|port| {
            port.withdraw(own);
            all.channel().map(|channel| port.join(channel, &ranks, all.first)).transpose()
        })?;
        self.kept(usage).set(joined);
        let mut turns = self.book.turns.borrow_mut();
        match (usage, joined) {
            (ChannelUse::Lines, Some(_)) => turns.agree(),
            (ChannelUse::Lines, None) => turns.refuse(number),
            // The next call that asks for it may find a channel.
            (ChannelUse::Network, _) => {}
        }
        Ok(joined.is_some())
    }

    #[inline]
    fn turn(&self, number: u32) -> LineTurn {
        self.book.turns.borrow().turn(number)
    }

    fn give_way(&self, number: u32) {
        self.book.turns.borrow_mut().give_way(number);
    }

    #[inline]
    fn looks(&self) -> u32 {
        // More polls would keep the processor from the rank that this one waits for.
        if self.endpoint.with_port(|port| port.is_crowded()) { 1 } else { self.looks }
    }

    fn make_way(&self) -> bool {
        let park = |port: &mut P| port.is_crowded() && port.park(None) == Wake::Look;
        self.waits() && !self.is_shared && self.endpoint.with_port(park)
    }

    fn long_calls(&self) -> Option<&RefCell<LongCalls>> {
        // In virtual time the model fixes the time of each way, so there is nothing to learn.
        let learns = self.endpoint.with_port(|port| !port.capabilities().virtual_time);
        learns.then_some(&self.book.long)
    }

    fn choose_long(
        &self,
        operation: LongOperation,
        bytes: (usize, Option<LongWay>),
    ) -> Option<LongCall> {
        // Messages and reads need their peers to run at the same time: 8 ranks on 2 cores, a
        // broadcast of 1 MiB 0.40 ms by lines, 1.1 to 1.9 by messages.
        let now = |port: &mut P| (!port.is_crowded()).then(|| port.now());
        let now = self.endpoint.with_port(now)?;
        Some(self.book.long.borrow_mut().choose(operation, bytes, now))
    }

    fn note_long(&self, call: LongCall) {
        let now = self.endpoint.with_port(|port| port.now());
        self.book.long.borrow_mut().note(call, now);
    }

    fn most_on_lines(&self) -> usize {
        let Some(group) = self.book.lines.get() else {
            return self.alone(usize::MAX).unwrap_or(0);
        };
        self.endpoint.with_port(|port| port.group(group).map_or(0, |it| it.area_bytes()))
    }

    #[inline(always)]
    fn contribute(&self, word: u64, pieces: &[&[u8]]) -> Result<bool, MsgError> {
        let Some(group) = self.book.lines.get() else { return self.alone(true) };
        match self.endpoint.with_port(|port| port.contribute(group, word, pieces)) {
            Ok(()) => Ok(true),
            Err(GroupError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(always)]
    fn all_contributed(&self, word: u64) -> Result<Option<bool>, MsgError> {
        let Some(group) = self.book.lines.get() else { return self.alone(Some(true)) };
        Ok(self.endpoint.with_port(|port| port.all_contributed(group, word))?)
    }

    #[inline(always)]
    fn contribution(
        &self,
        place: usize,
        from: usize,
        into: &mut [u8],
    ) -> Result<Option<u64>, MsgError> {
        let group = self.group()?;
        // By reference, to avoid a copy.
        self.endpoint.with_port(|port| match &port.contribution(group, place) {
            Ok(Some(contribution)) => {
                port.load_contribution(group, place, contribution, from, into);
                Ok(Some(contribution.word()))
            }
            Ok(None) => Ok(None),
            Err(error) => Err((*error).into()),
        })
    }

    #[inline(always)]
    fn finish_round(&self) -> Result<(), MsgError> {
        let Some(group) = self.book.lines.get() else { return self.alone(()) };
        Ok(self.endpoint.with_port(|port| port.finish_round(group))?)
    }

    fn expose(&self, bytes: &[u8]) -> [u8; ADDRESS] {
        let address = self.endpoint.with_port(|port| {
            port.expose(bytes).filter(|address| match address.space {
                Space::Region => true,
                Space::Process => {
                    !self.book.reads_refused.get() && port.copies_from(Space::Process).is_some()
                }
                Space::Segment(_) | Space::Register(_) => false,
            })
        });
        address.map_or([0; ADDRESS], |address| match address.space {
            Space::Region => CopyReach::Region.to_address(address.offset),
            _ => CopyReach::Process.to_address(address.offset),
        })
    }

    fn reach(address: &[u8; ADDRESS]) -> Option<CopyReach> {
        CopyReach::of_address(address).map(|(reach, _)| reach)
    }

    fn read(
        &self,
        place: usize,
        address: &[u8; ADDRESS],
        from: usize,
        into: &mut [u8],
    ) -> Result<bool, MsgError> {
        let (Some(rank), Some((reach, start))) =
            (self.book.ranks.get(place), CopyReach::of_address(address))
        else {
            return Ok(false);
        };
        let space = match reach {
            CopyReach::Region => Space::Region,
            CopyReach::Process => Space::Process,
        };
        let offset = start.wrapping_add(from as u64);
        let from = RemoteAddress { rank: *rank, space, offset };
        match self.endpoint.with_port(|port| port.read(from, into)) {
            Ok(()) => Ok(true),
            Err(
                PostError::Refused { .. }
                | PostError::Unsupported(_)
                | PostError::OutOfBounds { .. },
            ) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn note_refusal(&self) {
        self.book.reads_refused.set(true);
    }

    fn unsupported(what: &'static str) -> MsgError {
        MsgError::Fabric(PostError::Unsupported(what))
    }

    fn gone(error: &MsgError) -> Option<u32> {
        match error {
            MsgError::PeerFailed(failure) => Some(failure.rank),
            MsgError::PeerLeft { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    #[inline]
    fn close(&self, number: u32, ending: OperationEnding) {
        self.book.open.borrow_mut().retain(|other| *other != number);
        let offered = self.book.offered.get().filter(|(of, _)| *of == number);
        if let Some((_, offer)) = offered {
            self.book.offered.set(None);
            // Others may have joined one of these channels.
            self.endpoint.with_port(|port| {
                port.pass_over(offer.channels);
                port.withdraw(offer);
            });
        }
        match ending {
            OperationEnding::Done => self.book.turns.borrow_mut().done(number),
            OperationEnding::Known => {
                self.book.turns.borrow_mut().done(number);
                self.book.note_failure(number);
                self.book.end_doubt(|doubt| !is_before(number, doubt.number));
            }
            OperationEnding::Failed(cause) => self.failed(number, cause, true),
            OperationEnding::Told => self.failed(number, Cause::Failed, false),
        }
        self.drop_left_overs();
    }

    fn reported_waits(&self) -> Option<u32> {
        self.endpoint.reported_waits()
    }

    fn report_operation(&self, before: u32, operation: &'static str, root: Option<u32>) {
        let name = match root {
            Some(root) => Name::from(format_args!("{operation} (root {root})")),
            None => Name::new(operation),
        };
        self.endpoint.report_whole(before, Wait::new(Activity::Collective).named(name));
    }

    fn notice(&self, number: u32) -> Option<Notice> {
        self.told(number)
    }

    #[inline]
    fn ask(&self, number: u32, tag: i32, made: Made, asked: &Cell<Asked>) -> Option<Notice> {
        self.ask_others(number, tag, made, asked)
    }

    #[inline]
    fn is_in_doubt(&self, number: u32) -> bool {
        if self.endpoint.has_left_overs() {
            self.look_for_doubts();
        }
        self.book.doubt_for(number).is_some()
    }
}

/// A receive that returns the length of the message, even if it was too long.
struct Length<'e, 'b, P: CopyPort>(RecvFuture<'e, 'b, P>);

impl<P: CopyPort> Future for Length<'_, '_, P> {
    type Output = Result<u64, MsgError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|received| match received {
            Ok(received) => Ok(received.bytes),
            Err(MsgError::Truncated { sent, .. }) => Ok(sent),
            Err(error) => Err(error),
        })
    }
}
