//! Groups of real ranks: one communicator context of a message engine.
//!
//! Notices of failed calls are notes of the same context with a tag of their own, so that no
//! message of the program holds them up.
//!
//! After a failure messages are left over: what was sent to a rank that had given up, and notices
//! to ranks that were done already. Nobody will receive what belongs to a call that is over here,
//! so it is looked for and dropped when calls end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hikyaku_msg::{Endpoint, MsgError, RecvFuture};
use hikyaku_nic::fabric::{Activity, GroupError, GroupId, GroupPort, Name, Port, PostError, Wait};

use crate::error::{Caller, Cause};
use crate::group::{Ending, Facilities, Group, Notice};
use crate::mates::Mates;
use crate::names::{LOSS_TAG, is_of_call, is_question, is_to_come, notice_tag_of, question_tag_of};
use crate::questions::{Asked, LONG_PATIENCE, Made, Questions};
use crate::signature::Element;
use crate::turns::{Loss, Turn, Turns};

/// A rank's handle on a communicator, for collectives.
///
/// Its context must be apart from that of other messages, and its book be kept as long as the
/// context: every rank starts the collectives of a context in the same order (MPI 5.0 §6.12), and
/// so all have the same number for the same one.
#[derive(Debug)]
pub struct Communicator<'e, P: Port> {
    endpoint: Endpoint<'e, P>,
    book: &'e Book,
    element: Element,
    looks: u32,
}

/// How often a call that its rank waits for looks at lines between two polls for messages.
const LOOKS: u32 = 8;

/// What a rank notes of a communicator's collectives.
#[derive(Debug, Default)]
pub struct Book {
    /// How many were started.
    started: Cell<u32>,
    /// Numbers of those that have not ended.
    open: RefCell<Vec<u32>>,
    /// Whether one has failed: then there may be more left over than what came first.
    any_failed: Cell<bool>,
    /// The lines that ranks of a node share, if there are any.
    lines: Option<(GroupId, Mates)>,
    turns: RefCell<Turns>,
    questions: Questions,
}

impl Book {
    /// A book for ranks that share lines where there are some: on a channel of groups that all
    /// ranks name alike, and that nobody else uses.
    pub fn with_lines(port: &mut impl GroupPort, channel: u32) -> Book {
        let mates = Mates::of(port.rank(), port.size(), |rank| port.node_of(rank));
        let lines = mates.filter(|_| !port.is_forked()).and_then(|mates| {
            let ranks: Vec<u32> = mates.ranks().collect();
            Some((port.join(channel, &ranks, 0).ok()?, mates))
        });
        Book { lines, ..Book::default() }
    }

    /// The same with `started` collectives started, none of which is open.
    #[must_use]
    pub fn after(self, started: u32) -> Book {
        Book { started: Cell::new(started), ..self }
    }

    /// Whether a message with this tag belongs to a call that is over here.
    fn is_left_over(&self, tag: i32) -> bool {
        let is_open = || self.open.borrow().iter().any(|number| is_of_call(tag, *number));
        !is_to_come(tag, self.started.get()) && !is_open()
    }
}

impl<P: Port> Clone for Communicator<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Port> Copy for Communicator<'_, P> {}

impl<'e, P: GroupPort> Communicator<'e, P> {
    /// The ranks that `endpoint` reaches, and the book of their collectives.
    #[inline]
    pub fn new(endpoint: Endpoint<'e, P>, book: &'e Book) -> Communicator<'e, P> {
        Communicator { endpoint, book, element: Element::BYTE, looks: 1 }
    }

    /// The same ranks, for calls that do nothing else than wait.
    #[inline]
    #[must_use]
    pub fn waiting(self) -> Communicator<'e, P> {
        Communicator { looks: LOOKS, ..self }
    }

    /// The same ranks, for calls on elements that are not bytes.
    #[must_use]
    pub fn with_elements(self, element: Element) -> Communicator<'e, P> {
        Communicator { element, ..self }
    }

    /// What its messages go through.
    pub fn endpoint(&self) -> &Endpoint<'e, P> {
        &self.endpoint
    }

    /// Drops what has come for calls that are over here. Done whenever a call ends; to be called
    /// for a communicator that has no more of them.
    pub fn drop_left_overs(&self) {
        if self.endpoint.has_left_overs() {
            self.look_for_left_overs();
        }
    }

    #[cold]
    fn look_for_left_overs(&self) {
        self.hear();
        let left_over = |tag| self.book.is_left_over(tag);
        while self.endpoint.take_note(left_over).is_some() {}
        loop {
            // A failure is rare, and then all is looked at.
            let found = match self.book.any_failed.get() {
                true => self.endpoint.unexpected(left_over),
                false => self.endpoint.oldest_unexpected(left_over),
            };
            let Some(found) = found else { return };
            // What is not here whole is withdrawn by its sender, who has given up too.
            if self.endpoint.take_unexpected(&mut [], found.source, found.tag).is_none() {
                return;
            }
        }
    }

    /// Takes in what others have told of the end of lines, and tells what they do not know; answers
    /// their questions.
    fn hear(&self) {
        while let Some((_, bytes)) = self.endpoint.take_note(|tag| tag == LOSS_TAG) {
            let Some(heard) = decode_loss(&bytes) else { continue };
            self.book.any_failed.set(true);
            let news = self.book.turns.borrow_mut().hear(heard);
            if let Some(loss) = news {
                self.tell(&encode_loss(&loss), LOSS_TAG);
            }
        }
        while let Some((from, bytes)) = self.endpoint.take_note(is_question) {
            let Some((number, made)) = Made::from_bytes(&bytes) else { continue };
            if is_to_come(notice_tag_of(number), self.book.started.get()) {
                self.book.questions.keep(from.source, number, made);
            } else {
                self.answer(from.source, number, made);
            }
        }
    }

    /// Tells a rank if it has called something else than this one.
    fn answer(&self, to: u32, number: u32, made: Made) {
        let Some(own) = self.book.questions.differs(number, &made) else { return };
        let one = Caller { rank: self.rank(), call: own.call };
        let other = Caller { rank: to, call: made.call };
        let cause = Cause::Differ { one, other };
        // One that cannot be told is gone, and needs no telling.
        let _ = self.endpoint.send_note(&cause.to_bytes(), to, notice_tag_of(number));
    }

    #[cold]
    fn answer_early(&self, number: u32) {
        for (rank, made) in self.book.questions.about(number) {
            self.answer(rank, number, made);
        }
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
        let lines = self.book.lines.as_ref();
        lines.map(|(group, _)| *group).ok_or(Self::unsupported("share lines"))
    }
}

impl<P: GroupPort> Group for Communicator<'_, P> {
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
        let number = self.book.started.get();
        self.book.started.set(number.wrapping_add(1));
        self.book.open.borrow_mut().push(number);
        if made.algorithm.is_none() {
            self.book.turns.borrow_mut().open(number);
        }
        if self.book.questions.make(number, made) {
            self.answer_early(number);
        }
        number
    }

    fn send<'a>(
        &'a self,
        bytes: &'a [u8],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), MsgError>> + Unpin + 'a {
        self.endpoint.send(bytes, to, tag)
    }

    fn recv<'a>(
        &'a self,
        into: &'a mut [u8],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, MsgError>> + Unpin + 'a {
        Length(self.endpoint.recv(into, Some(from), Some(tag)))
    }

    #[inline]
    fn facilities(&self) -> Facilities {
        // A child of the rank's process is not the rank: messages say so.
        let lines =
            self.book.lines.is_some() && !self.endpoint.with_port(|port| port.is_forked()) && {
                if self.endpoint.has_left_overs() {
                    self.hear();
                }
                self.book.turns.borrow().are_for(self.book.started.get())
            };
        Facilities { lines, ..Facilities::default() }
    }

    #[inline]
    fn mates(&self) -> Option<&Mates> {
        self.book.lines.as_ref().map(|(_, mates)| mates)
    }

    #[inline]
    fn turn(&self, number: u32) -> Turn {
        self.book.turns.borrow().turn(number)
    }

    fn give_way(&self, number: u32) {
        self.book.turns.borrow_mut().give_way(number);
    }

    #[inline]
    fn looks(&self) -> u32 {
        self.looks
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
    fn all_contributed(&self) -> Result<bool, MsgError> {
        let group = self.group()?;
        Ok(self.endpoint.with_port(|port| port.all_contributed(group))?)
    }

    #[inline(always)]
    fn contribution(
        &self,
        place: usize,
        from: usize,
        into: &mut [u8],
    ) -> Result<Option<u64>, MsgError> {
        let group = self.group()?;
        self.endpoint.with_port(|port| {
            let Some(contribution) = port.contribution(group, place)? else { return Ok(None) };
            port.load_contribution(group, place, &contribution, from, into);
            Ok(Some(contribution.word()))
        })
    }

    #[inline(always)]
    fn finish_round(&self) -> Result<(), MsgError> {
        let group = self.group()?;
        Ok(self.endpoint.with_port(|port| port.finish_round(group))?)
    }

    fn unsupported(what: &'static str) -> MsgError {
        MsgError::Fabric(PostError::Unsupported(what))
    }

    fn gone(error: &MsgError) -> Option<u32> {
        match error {
            MsgError::PeerFailed(failure) => Some(failure.rank),
            MsgError::PeerLeft { rank } => Some(*rank),
            _ => None,
        }
    }

    #[inline]
    fn close(&self, number: u32, ending: Ending) {
        self.book.open.borrow_mut().retain(|other| *other != number);
        match ending {
            Ending::Done | Ending::Known => self.book.turns.borrow_mut().done(number),
            Ending::Failed(cause) => self.failed(number, cause, true),
            Ending::Told => self.failed(number, Cause::Failed, false),
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
                self.question(to as u32, number, made);
            }
            asked.set(state);
        }
        if !self.endpoint.has_left_overs() {
            return None;
        }
        let contradicts = |other: i32| is_of_call(other, number) && other != tag;
        let found = self.endpoint.unexpected(contradicts)?;
        let now = self.endpoint.with_port(|port| port.now());
        match asked.get().contradicted {
            None => {
                asked.set(Asked { contradicted: Some(now), ..asked.get() });
                self.question(found.source, number, made);
                None
            }
            // By lines a call may have turned to messages elsewhere, which this rank will hear of.
            Some(then) if made.algorithm.is_some() && now > then + LONG_PATIENCE => {
                Some(Notice { rank: found.source, cause: Cause::OtherCall })
            }
            Some(_) => None,
        }
    }
}

impl<P: GroupPort> Communicator<'_, P> {
    #[cold]
    fn question(&self, to: u32, number: u32, made: Made) {
        // One that cannot be asked is gone, which its messages say.
        let _ = self.endpoint.send_note(&made.to_bytes(number), to, question_tag_of(number));
    }

    /// A call has failed here. `is_new`: the others are to be told.
    #[cold]
    fn failed(&self, number: u32, cause: Cause, is_new: bool) {
        self.book.any_failed.set(true);
        let loss = self.book.turns.borrow_mut().fail(number, self.rank(), cause);
        if let Some(loss) = loss {
            self.tell(&encode_loss(&loss), LOSS_TAG);
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

/// The end of lines in bytes: the calls, the rank, the notice.
fn encode_loss(loss: &Loss) -> Vec<u8> {
    let mut bytes = [loss.from, loss.until, loss.rank].map(u32::to_le_bytes).concat();
    bytes.extend(loss.cause.to_bytes());
    bytes
}

fn decode_loss(bytes: &[u8]) -> Option<Loss> {
    let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let cause = Cause::from_bytes(bytes.get(12..)?)?;
    Some(Loss { from: half(0)?, until: half(4)?, rank: half(8)?, cause })
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
        let call = Signature::new(Operation::Reduce).root(3).bytes(1 << 29);
        let one = Caller { rank, call };
        let other = Caller { rank: 0, call: Signature::new(Operation::Barrier) };
        for cause in
            [Cause::Failed, Cause::Dropped, Cause::Gone { rank }, Cause::Differ { one, other }]
        {
            assert_eq!(Cause::from_bytes(&cause.to_bytes()), Some(cause));
            let loss = Loss { from: rank, until: 3, rank: 7, cause };
            assert_eq!(decode_loss(&encode_loss(&loss)), Some(loss));
        }
        for length in 0..40 {
            assert_eq!(Cause::from_bytes(&vec![0xFF; length]), None);
            assert_eq!(decode_loss(&vec![0xFF; length]), None);
        }
    }
}
