//! Groups of real ranks: one communicator context of a message engine.
//!
//! Notices of failed calls are notes of the same context with a tag of their own, so that no
//! message of the program holds them up.
//!
//! After a failure messages are left over: what was sent to a rank that had given up, and notices
//! to ranks that were done already. Nobody will receive what belongs to a call that is over here,
//! so it is looked for and dropped when calls end. If no call has failed, what is left over shows
//! that ranks have called different things ([`crate::questions`]).

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use hikyaku_msg::{
    Answerer, ContextEndpoint, MsgError, Received, RecvFuture, Scattered, SendFuture, join_all,
};
use hikyaku_nic::fabric::{
    Activity, ChannelOffer, GroupError, GroupId, GroupPort, Name, PeerState, Port, PostError, Rank,
    RemoteAddress, Space, Wait,
};
use hikyaku_nic::time::Time;

use crate::error::{Caller, Cause};
use crate::group::{
    ADDRESS, ChannelUse, CopyReach, Facilities, Group, Network, Notice, OperationEnding,
};
use crate::long::{LongCall, LongCalls, LongOperation, LongWay};
use crate::mates::Mates;
use crate::names::{
    LOSS_TAG, is_among, is_of_call, is_question, is_to_come, notice_tag_of, question_tag_of,
};
use crate::questions::{Asked, Doubt, LONG_PATIENCE, Made, Question, Questions};
use crate::signature::Element;
use crate::turns::{LineTurn, LineTurns, Loss, is_before, later};

/// A rank's handle on a communicator, for collectives.
///
/// Its context must be apart from that of other messages, and its book be kept as long as the
/// context: every rank starts the collectives of a context in the same order (MPI 5.0 §6.12), and
/// so all have the same number for the same one.
#[derive(Debug)]
pub struct CommunicatorGroup<'e, P: Port> {
    endpoint: ContextEndpoint<'e, P>,
    book: &'e CollectiveBook,
    element: Element,
    looks: u32,
}

/// The sync id of a communicator's barriers: calls have their turns, so one is enough.
const BARRIERS: u32 = 0;

/// How often a call that its rank waits for looks at lines between two polls for messages.
const LOOKS: u32 = 8;

/// What a rank notes of a communicator's collectives.
#[derive(Debug, Default)]
pub struct CollectiveBook {
    /// How many were started.
    started: Cell<u32>,
    /// The first one and how many there will be, if the context is also that of other books.
    only: Option<(u32, u32)>,
    /// Numbers of those that have not ended.
    open: RefCell<Vec<u32>>,
    /// Whether one has failed: then there may be more left over than what came first.
    any_failed: Cell<bool>,
    /// The last one that is known to have failed, here or elsewhere.
    failed: Cell<Option<u32>>,
    /// One that has ended well, and should not have.
    doubt: Cell<Option<Doubt>>,
    /// Whom this rank shares lines with, if with anybody; and their ranks in the job.
    mates: Option<Mates>,
    ranks: Vec<Rank>,
    /// The lines, when they are there.
    lines: Cell<Option<GroupId>>,
    /// The group of all ranks, when it is there and has a channel of its own: where all ranks share
    /// lines, it is theirs.
    network: Cell<Option<GroupId>>,
    /// Whether all ranks can be in it, once that was asked.
    reaches_all: Cell<Option<bool>>,
    /// Rounds of counters in it.
    counted: Cell<u64>,
    /// What this rank has offered for lines or the group, and in which call.
    offered: Cell<Option<(u32, ChannelOffer)>>,
    /// Which channels it offers first.
    like: u32,
    turns: RefCell<LineTurns>,
    questions: Questions,
    /// [`Group::past`].
    past: Cell<u32>,
    /// Whether the kernel has refused a mate a copy, in a call by lines: all know alike.
    reads_refused: Cell<bool>,
    /// Which way long data go.
    long: RefCell<LongCalls>,
}

impl CollectiveBook {
    /// A book for the ranks that `endpoint` reaches, all of which make collectives with it. They
    /// agree on lines when they first have a use for them, if ranks of a node can share some.
    /// `like`: a number that they know alike, another one for each of their communicators.
    pub fn agreeing<P: GroupPort>(endpoint: &ContextEndpoint<'_, P>, like: u32) -> CollectiveBook {
        let is_forked = endpoint.with_port(|port| port.is_forked());
        let mates = Mates::of(endpoint.rank(), endpoint.size(), |rank| endpoint.node_of(rank));
        let mates = mates.filter(|_| !is_forked);
        let in_job = |mates: &Mates| mates.ranks().map(|rank| endpoint.in_job(rank).ok()).collect();
        let ranks: Option<Vec<Rank>> = mates.as_ref().and_then(in_job);
        let mates = mates.filter(|_| ranks.is_some());
        CollectiveBook {
            mates,
            ranks: ranks.unwrap_or_default(),
            like,
            ..CollectiveBook::default()
        }
    }

    /// A book for all ranks of a job whose lines are there, on a channel that nobody offers before.
    pub fn with_lines<P: GroupPort>(
        endpoint: &ContextEndpoint<'_, P>,
        channel: u32,
    ) -> CollectiveBook {
        let book = CollectiveBook::agreeing(endpoint, channel);
        let join = |port: &mut P| port.join(channel, &book.ranks, 0).ok();
        let lines = book.mates.as_ref().and_then(|_| endpoint.with_port(join));
        book.lines.set(lines);
        let mates = book.mates.filter(|_| lines.is_some());
        CollectiveBook { mates, ..book }
    }

    /// The end of the communicator: its lines are free for others when all ranks have come here.
    pub fn leave(&self, port: &mut impl GroupPort) {
        let are_lost = self.turns.borrow().are_lost();
        let groups = [self.lines.take(), self.network.take()];
        if are_lost && self.counted.get() > 0 {
            // Ranks that do not know yet may add to this one's counter: nobody uses it again.
            return;
        }
        for group in groups.into_iter().flatten() {
            // It was joined: nothing can fail.
            let _ = port.leave(group);
            if are_lost {
                port.pass_over(1 << group.channel());
            }
        }
    }

    /// Who answers notes of these collectives when this rank is elsewhere.
    pub fn answerer(&self) -> Box<dyn Answerer> {
        Box::new(self.turns.borrow().passed().clone())
    }

    /// The number of a call that starts now.
    #[inline]
    fn number(&self) -> u32 {
        let number = self.started.get();
        self.started.set(number.wrapping_add(1));
        number
    }

    /// The same with `started` collectives started, none of which is open.
    #[must_use]
    pub fn after(self, started: u32) -> CollectiveBook {
        CollectiveBook { started: Cell::new(started), ..self }
    }

    /// A book of `count` collectives from this number on, in a context where there are others too:
    /// several threads may make them at once.
    #[must_use]
    pub fn only(first: u32, count: u32) -> CollectiveBook {
        CollectiveBook {
            started: Cell::new(first),
            only: Some((first, count)),
            ..CollectiveBook::default()
        }
    }

    /// Whether a message with this tag may belong to this book.
    fn concerns(&self, tag: i32) -> bool {
        self.only.is_none_or(|(first, count)| is_among(tag, first, count))
    }

    /// Whether a message with this tag belongs to a call that is over here.
    fn is_left_over(&self, tag: i32) -> bool {
        let is_open = || self.open.borrow().iter().any(|number| is_of_call(tag, *number));
        self.concerns(tag) && !is_to_come(tag, self.started.get()) && !is_open()
    }

    /// Whether a call that was made here has ended, and none at or after it has failed.
    fn has_ended_well(&self, number: u32) -> bool {
        !self.open.borrow().contains(&number)
            && self.failed.get().is_none_or(|failed| is_before(failed, number))
    }

    /// What stands against a call: one before it, or itself, is in doubt.
    #[inline]
    fn doubt_for(&self, number: u32) -> Option<Doubt> {
        self.doubt.get().filter(|doubt| !is_before(number, doubt.number))
    }

    /// A call has failed, here or elsewhere: what is left of it and of those before says nothing
    /// new.
    fn note_failure(&self, number: u32) {
        self.failed.set(Some(self.failed.get().map_or(number, |failed| later(failed, number))));
    }

    /// A doubt ends with what it is about, or when this rank was told of it.
    fn end_doubt(&self, is_over: impl FnOnce(&Doubt) -> bool) {
        self.doubt.set(self.doubt.get().filter(|doubt| !is_over(doubt)));
    }
}

impl<P: Port> Clone for CommunicatorGroup<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Port> Copy for CommunicatorGroup<'_, P> {}

impl<'e, P: GroupPort> CommunicatorGroup<'e, P> {
    /// The ranks that `endpoint` reaches, and the book of their collectives.
    #[inline]
    pub fn new(
        endpoint: ContextEndpoint<'e, P>,
        book: &'e CollectiveBook,
    ) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { endpoint, book, element: Element::BYTE, looks: 1 }
    }

    /// The same ranks, for calls that do nothing else than wait.
    #[inline]
    #[must_use]
    pub fn waiting(self) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { looks: LOOKS, ..self }
    }

    fn waits(&self) -> bool {
        self.looks > 1
    }

    /// The same ranks, for calls on elements that are not bytes.
    #[must_use]
    pub fn with_elements(self, element: Element) -> CommunicatorGroup<'e, P> {
        CommunicatorGroup { element, ..self }
    }

    /// What its messages go through.
    pub fn endpoint(&self) -> &ContextEndpoint<'e, P> {
        &self.endpoint
    }

    /// Drops what has come for calls that are over here. Done whenever a call ends; to be called
    /// for a communicator that has no more of them.
    pub fn drop_left_overs(&self) {
        if self.endpoint.has_left_overs() {
            // A failure is rare, and then all is looked at.
            self.look_for_left_overs(self.book.any_failed.get());
        }
    }

    /// Drops them. `all`: also what came behind other messages.
    #[cold]
    fn look_for_left_overs(&self, all: bool) {
        self.hear();
        let left_over = |tag| self.book.is_left_over(tag);
        while let Some((note, _)) = self.endpoint.take_note(left_over) {
            // That call has failed elsewhere, and all know or hear of it.
            if let Some((number, ..)) = self.book.questions.of_tag(note.tag) {
                self.book.note_failure(number);
                // Both know what differs, and the other has failed in a later call.
                let is_known = |doubt: &Doubt| doubt.cause.is_some();
                self.book.end_doubt(|doubt| doubt.number == number && !is_known(doubt));
            }
        }
        loop {
            let found = match all {
                true => self.endpoint.unexpected(left_over),
                false => self.endpoint.oldest_unexpected(left_over),
            };
            let Some(found) = found else { return };
            // What is not here whole is withdrawn by its sender, who has given up too.
            if self.endpoint.take_unexpected(&mut [], found.source, found.tag).is_none() {
                return;
            }
            self.doubt(found);
        }
    }

    /// Takes in what others have told of the end of lines, and tells what they do not know; answers
    /// their questions.
    fn hear(&self) {
        while let Some((_, bytes)) = self.endpoint.take_note(|tag| tag == LOSS_TAG) {
            let Some(heard) = Loss::from_bytes(&bytes) else { continue };
            self.book.any_failed.set(true);
            let news = self.book.turns.borrow_mut().hear(heard);
            if let Some(loss) = news {
                self.tell(&loss.to_bytes(), LOSS_TAG);
            }
        }
        let is_own = |tag| is_question(tag) && self.book.concerns(tag);
        while let Some((from, bytes)) = self.endpoint.take_note(is_own) {
            let Some(question) = Question::from_bytes(&bytes) else { continue };
            if is_to_come(notice_tag_of(question.number), self.book.started.get()) {
                self.book.questions.keep(from.source, question);
            } else {
                self.answer(from.source, question);
            }
        }
    }

    /// Tells a rank if it has called something else than this one.
    fn answer(&self, to: u32, question: Question) {
        let Question { number, made, is_over } = question;
        let Some(own) = self.book.questions.differs(number, &made) else { return };
        let one = Caller { rank: self.rank(), call: own.call };
        let other = Caller { rank: to, call: made.call };
        let cause = Cause::Differ { one, other };
        let is_open = || self.book.open.borrow().contains(&number);
        if is_over && (is_open() || self.book.has_ended_well(number)) {
            let doubt = Doubt { number, rank: to, since: Time::ZERO, cause: Some(cause) };
            return self.agree(doubt, own);
        }
        // One that cannot be told is gone, and needs no telling.
        let _ = self.endpoint.send_note(&cause.to_bytes(), to, notice_tag_of(number));
    }

    #[cold]
    fn answer_early(&self, number: u32) {
        for (rank, question) in self.book.questions.about(number) {
            self.answer(rank, question);
        }
    }

    #[cold]
    fn look_for_doubts(&self) {
        // One in doubt may be told, by a note, that its call has failed elsewhere.
        let is_in_doubt = self.book.doubt.get().is_some();
        if is_in_doubt || self.endpoint.unexpected(|tag| self.book.is_left_over(tag)).is_some() {
            self.look_for_left_overs(true);
        }
    }

    /// What a message that is left over says of the call that it names: its sender is asked.
    fn doubt(&self, found: Received) {
        let Some((number, made, differs)) = self.book.questions.of_tag(found.tag) else { return };
        // Where lines are lost, ranks that hear of it late still send for calls done by lines.
        let may_be_late = self.book.turns.borrow().are_lost();
        if may_be_late || !self.book.has_ended_well(number) || self.book.doubt.get().is_some() {
            return;
        }
        self.question(found.source, Question { number, made, is_over: true });
        // Calls by lines may have other messages where those are lost: only an answer counts.
        if differs {
            let since = self.endpoint.with_port(|port| port.now());
            self.book.doubt.set(Some(Doubt { number, rank: found.source, since, cause: None }));
        }
    }

    /// Two ranks have made different calls, and the other's has ended well. If this one's has too,
    /// the next call fails at both; else it fails itself, which all are told.
    fn agree(&self, doubt: Doubt, made: Made) {
        if self.book.doubt.get().is_some_and(|known| known.cause.is_some()) {
            return;
        }
        self.book.doubt.set(Some(doubt));
        if self.book.has_ended_well(doubt.number) {
            self.question(doubt.rank, Question { number: doubt.number, made, is_over: true });
        }
    }

    /// What another rank called in a call before `number`, if it does not answer.
    fn unanswered(&self, number: u32) -> Option<Notice> {
        let doubt = self.book.doubt_for(number).filter(|doubt| doubt.cause.is_none())?;
        let now = self.endpoint.with_port(|port| port.now());
        let is_gone =
            matches!(self.endpoint.peer(doubt.rank), PeerState::Left | PeerState::Failed(_));
        let is_over = is_gone || now > doubt.since + LONG_PATIENCE;
        is_over.then_some(Notice { rank: doubt.rank, cause: Cause::OtherCall })
    }

    /// Tells all other ranks.
    fn tell(&self, note: &[u8], tag: i32) {
        for rank in (0..self.size()).filter(|rank| *rank != self.rank()) {
            // One that cannot be told is gone, and needs no telling.
            let _ = self.endpoint.send_note(note, rank, tag);
        }
    }

    /// The group whose lines are shared.
    #[inline]
    fn group(&self) -> Result<GroupId, MsgError> {
        self.book.lines.get().ok_or(Self::unsupported("share lines"))
    }

    /// What the group of all ranks is kept as: it is that of the lines if all ranks share some.
    fn usage_of_all(&self) -> ChannelUse {
        match &self.book.mates {
            Some(mates) if mates.are_all() => ChannelUse::Lines,
            _ => ChannelUse::Network,
        }
    }

    /// Where a joined group is kept.
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

    /// Waits for something that the group of all ranks does.
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

    /// A send whose receiver may read the bytes where they are, if the caller waits for the call:
    /// it is not dropped before its end.
    #[inline]
    fn exposed<'b>(&self, send: SendFuture<'e, 'b, P>) -> SendFuture<'e, 'b, P> {
        if self.waits() { send.exposing() } else { send }
    }

    /// The ranks of the job that a channel is for.
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

impl<P: GroupPort> Group for CommunicatorGroup<'_, P> {
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
        let mut last = None;
        for (number, made) in self.book.questions.ahead(number) {
            last = last.or(Some(number));
            self.question(rank, Question { number, made, is_over: true });
        }
        if let (Some(number), None) = (last, self.book.doubt.get()) {
            let since = self.endpoint.with_port(|port| port.now());
            self.book.doubt.set(Some(Doubt { number, rank, since, cause: None }));
        }
        last.is_some()
    }

    #[inline]
    fn next_on_lines(&self) -> Option<u32> {
        self.book.lines.get()?;
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

    /// Messages start when their futures are polled first: all of them in one chain.
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
        // A child of the rank's process is not the rank: messages say so.
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
            // A child of the rank's process is not the rank: messages say so.
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
        // Whom it waits for cannot run meanwhile.
        if self.endpoint.with_port(|port| port.is_crowded()) { 1 } else { self.looks }
    }

    fn learns(&self) -> bool {
        // There every way takes what the model says, whatever machine computes it.
        self.endpoint.with_port(|port| !port.capabilities().virtual_time)
    }

    fn choose_long(&self, operation: LongOperation, bytes: usize) -> Option<LongCall> {
        let now = self.endpoint.with_port(|port| port.now());
        Some(self.book.long.borrow_mut().choose(operation, bytes, now))
    }

    fn note_long(&self, call: LongCall) {
        let now = self.endpoint.with_port(|port| port.now());
        self.book.long.borrow_mut().note(call, now);
    }

    fn told_way(way: LongWay) -> u8 {
        way as u8
    }

    fn way_told(byte: u8) -> LongWay {
        let ways = [LongWay::Lines, LongWay::Messages, LongWay::Read];
        ways.get(usize::from(byte)).copied().unwrap_or(LongWay::Lines)
    }

    fn most_on_lines(&self) -> usize {
        let area =
            |group| self.endpoint.with_port(|port| port.group(group).map(|it| it.area_bytes()));
        self.group().ok().and_then(area).unwrap_or(0)
    }

    #[inline(always)]
    fn contribute(&self, word: u64, bytes: &[u8]) -> Result<bool, MsgError> {
        let group = self.group()?;
        match self.endpoint.with_port(|port| port.contribute(group, word, bytes)) {
            Ok(()) => Ok(true),
            Err(GroupError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(always)]
    fn all_contributed(&self, word: u64) -> Result<Option<bool>, MsgError> {
        let group = self.group()?;
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
        // By reference: it is looked at where it was found.
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
        let group = self.group()?;
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
            // The others may have taken it.
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
        if let Some(Doubt { rank, cause: Some(cause), .. }) = self.book.doubt_for(number) {
            return Some(Notice { rank, cause });
        }
        if !self.endpoint.has_left_overs() && !self.book.any_failed.get() {
            return None;
        }
        self.hear();
        let ends = self.book.turns.borrow().ends(number);
        if let Some(loss) = ends {
            return Some(Notice { rank: loss.rank, cause: loss.cause });
        }
        let about = notice_tag_of(number);
        let (found, words) = self.endpoint.take_note(|tag| tag == about)?;
        let cause = Cause::from_bytes(&words).unwrap_or(Cause::Failed);
        Some(Notice { rank: found.source, cause })
    }

    #[inline]
    fn ask(&self, number: u32, tag: i32, made: Made, asked: &Cell<Asked>) -> Option<Notice> {
        if let Some((since, now)) = self.endpoint.long_wait() {
            let mut state = asked.get();
            for distance in state.next(self.size(), since, now) {
                let to = (u64::from(self.rank()) + u64::from(distance)) % u64::from(self.size());
                self.question(to as u32, Question { number, made, is_over: false });
            }
            asked.set(state);
        }
        if let Some(notice) = self.unanswered(number) {
            return Some(notice);
        }
        if !self.endpoint.has_left_overs() {
            return None;
        }
        self.look_for_doubts();
        let contradicts = |other: i32| is_of_call(other, number) && other != tag;
        let found = self.endpoint.unexpected(contradicts)?;
        let now = self.endpoint.with_port(|port| port.now());
        match asked.get().contradicted {
            None => {
                asked.set(Asked { contradicted: Some(now), ..asked.get() });
                self.question(found.source, Question { number, made, is_over: false });
                None
            }
            // By lines a call may have turned to messages elsewhere, which this rank will hear of.
            Some(then) if made.algorithm.is_some() && now > then + LONG_PATIENCE => {
                Some(Notice { rank: found.source, cause: Cause::OtherCall })
            }
            Some(_) => None,
        }
    }

    #[inline]
    fn is_in_doubt(&self, number: u32) -> bool {
        if self.endpoint.has_left_overs() {
            self.look_for_doubts();
        }
        self.book.doubt_for(number).is_some()
    }
}

impl<P: GroupPort> CommunicatorGroup<'_, P> {
    #[cold]
    fn question(&self, to: u32, question: Question) {
        // One that cannot be asked is gone, which its messages say.
        let tag = question_tag_of(question.number);
        let _ = self.endpoint.send_note(&question.to_bytes(), to, tag);
    }

    /// A call has failed here. `is_new`: the others are to be told.
    #[cold]
    fn failed(&self, number: u32, cause: Cause, is_new: bool) {
        self.book.any_failed.set(true);
        self.book.note_failure(number);
        self.book.end_doubt(|doubt| !is_before(number, doubt.number));
        let loss = self.book.turns.borrow_mut().fail(number, self.rank(), cause);
        if let Some(loss) = loss {
            self.tell(&loss.to_bytes(), LOSS_TAG);
        } else if is_new {
            self.tell(&cause.to_bytes(), notice_tag_of(number));
        }
    }
}

/// A receive that answers with the length of the message, also if that was too long.
struct Length<'e, 'b, P: Port>(RecvFuture<'e, 'b, P>);

impl<P: Port> Future for Length<'_, '_, P> {
    type Output = Result<u64, MsgError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|received| match received {
            Ok(received) => Ok(received.bytes),
            Err(MsgError::Truncated { sent, .. }) => Ok(sent),
            Err(error) => Err(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Caller;
    use crate::names::Operation;
    use crate::signature::Signature;

    #[test]
    fn a_notice_says_what_it_was_told_and_nonsense_says_nothing() {
        let rank = u32::MAX;
        let call = Signature::new(Operation::Reduce).root(3).bytes(1 << 28);
        let one = Caller { rank, call };
        let other = Caller { rank: 0, call: Signature::new(Operation::Barrier) };
        for cause in
            [Cause::Failed, Cause::Dropped, Cause::Gone { rank }, Cause::Differ { one, other }]
        {
            assert_eq!(Cause::from_bytes(&cause.to_bytes()), Some(cause));
            let loss = Loss { from: rank, until: 3, rank: 7, cause };
            assert_eq!(Loss::from_bytes(&loss.to_bytes()), Some(loss));
        }
        for length in 0..40 {
            assert_eq!(Cause::from_bytes(&vec![0xFF; length]), None);
            assert_eq!(Loss::from_bytes(&vec![0xFF; length]), None);
        }
    }
}
