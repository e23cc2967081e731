//! Starting a receive, giving it memory and taking it back, and probing.

use hikyaku_nic::fabric::{Activity, Port, Wait};

use super::wait::GONE_ROUNDS;
use super::{Assembling, Blocked, Engine, Target};
use crate::buffer::RecvBuffer;
use crate::envelope::{Received, Selector, tag_of};
use crate::error::MsgError;
use crate::request::{
    Announced, Body, Incoming, Receive, ReceiveStage, Request, RequestId, Send, outcome,
};
use crate::unexpected::{Entry, EntryBody};

impl<P: Port> Engine<P> {
    /// Starts to receive into a buffer.
    ///
    /// # Errors
    /// [`MsgError`]: the selector names no rank or tag, or a rank that is needed has died and no
    /// message of it is here. What fails later is the request's result.
    #[inline(always)]
    pub fn start_recv(
        &mut self,
        buffer: RecvBuffer,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.open_recv(buffer.len(), Some(buffer), selector)
    }

    /// Starts to receive a message of up to `room` bytes. It stays where it lands until the
    /// request is given memory ([`Engine::attach_receive`]).
    ///
    /// # Errors
    /// As [`Engine::start_recv`].
    pub fn start_recv_detached(
        &mut self,
        room: usize,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.open_recv(room, None, selector)
    }

    #[inline(always)]
    fn open_recv(
        &mut self,
        room: usize,
        buffer: Option<RecvBuffer>,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.check_selector(&selector)?;
        if !self.unexpected.is_empty()
            && let Some(entry) = self.unexpected.take(&selector)
        {
            return Ok(self.open_matched(room, buffer, selector, entry));
        }
        self.check_alive(&selector)?;
        let id = self.new_receive(room, buffer, selector);
        self.posted.push(&selector, id);
        Ok(id)
    }

    #[inline(always)]
    fn new_receive(
        &mut self,
        room: usize,
        buffer: Option<RecvBuffer>,
        selector: Selector,
    ) -> RequestId {
        let stage = ReceiveStage::Posted;
        let receive = || Receive { selector, room, buffer, stage, abandoned: false };
        self.requests.insert(|| Request::Receive(receive()))
    }

    /// A receive whose message was waiting for it.
    #[cold]
    fn open_matched(
        &mut self,
        room: usize,
        mut buffer: Option<RecvBuffer>,
        selector: Selector,
        entry: Entry,
    ) -> RequestId {
        if let Some(buffer) = &mut buffer
            && entry.is_here()
        {
            let result = self.take_entry(entry, buffer.as_mut_slice());
            return self.requests.insert(|| Request::Done(result));
        }
        let id = self.new_receive(room, buffer, selector);
        self.match_entry(id, entry);
        id
    }

    /// Receives an unexpected message that is here whole.
    pub(super) fn take_entry(
        &mut self,
        entry: Entry,
        into: &mut [u8],
    ) -> Result<Received, MsgError> {
        self.statistics.unexpected_less(entry.bytes());
        let Entry { source, bits, total, body, .. } = entry;
        self.consumed(source);
        if let EntryBody::Eager { mut parts, .. } = body {
            parts.deliver(&mut self.port, into);
        }
        self.statistics.received(total.min(into.len() as u64));
        outcome(source, bits, total, into.len())
    }

    /// Gives a receive the message that was waiting for it.
    fn match_entry(&mut self, id: RequestId, entry: Entry) {
        self.statistics.unexpected_less(entry.bytes());
        let Entry { source, bits, total, body, .. } = entry;
        self.consumed(source);
        match body {
            EntryBody::Announced(rts) => self.begin_rendezvous(id, source, bits, rts),
            EntryBody::Eager { arrived, parts } => {
                if arrived < total
                    && let Some(assembling) = &mut self.sources[source as usize].assembling
                {
                    assembling.target = Target::Request(id);
                }
                let incoming = Incoming {
                    source,
                    bits,
                    total,
                    expected: total,
                    arrived,
                    copied: 0,
                    streamed: false,
                    parts,
                };
                self.set_incoming(id, incoming);
            }
        }
    }

    /// Makes a message the one that a receive takes in.
    pub(super) fn set_incoming(&mut self, id: RequestId, incoming: Incoming) {
        if let Some(receive) = self.requests.receive_mut(id) {
            receive.stage = ReceiveStage::Incoming(Box::new(incoming));
            self.drain(id);
        }
    }

    /// Copies what waits for the buffer of a receive, if it is there; completes the receive if
    /// that was the last of it.
    pub(super) fn drain(&mut self, id: RequestId) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        let ReceiveStage::Incoming(incoming) = &mut receive.stage else { return };
        let Some(buffer) = &mut receive.buffer else { return };
        let rest = buffer.from(incoming.copied);
        incoming.copied += incoming.parts.deliver(&mut self.port, rest);
        if incoming.is_complete() {
            self.finish_incoming(id);
        }
    }

    /// Completes a receive whose message is whole.
    pub(super) fn finish_incoming(&mut self, id: RequestId) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        let ReceiveStage::Incoming(incoming) = &receive.stage else { return };
        let result = incoming.outcome(receive.room);
        self.statistics.received(incoming.total.min(receive.room as u64));
        self.requests.finish(id, result);
    }

    /// Gives a detached receive its memory: as much as it was started with.
    pub fn attach_receive(&mut self, id: RequestId, buffer: RecvBuffer) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        if receive.room != buffer.len() {
            return;
        }
        receive.buffer = Some(buffer);
        match &receive.stage {
            ReceiveStage::Posted => {}
            ReceiveStage::Incoming(_) => self.drain(id),
            ReceiveStage::Announced(announced) => {
                let Announced { source, bits, rts } = **announced;
                self.begin_rendezvous(id, source, bits, rts);
            }
        }
    }

    /// Takes the memory of a pending request back. It goes on as far as it can without, and
    /// completes only after it was given memory again.
    pub fn detach(&mut self, id: RequestId) {
        match self.requests.get_mut(id) {
            Some(Request::Send(Send { body: body @ Body::Borrowed(_), .. })) => {
                *body = Body::Detached;
            }
            Some(Request::Receive(receive)) => receive.buffer = None,
            _ => {}
        }
    }

    /// Looks for a message that a receive with this selector would take now, after taking in what
    /// has arrived.
    ///
    /// # Errors
    /// [`MsgError`]: the selector names no rank or tag, or nothing is here and a rank that is
    /// needed is gone.
    pub fn probe(&mut self, selector: Selector) -> Result<Option<Received>, MsgError> {
        self.check_selector(&selector)?;
        if let Some(found) = self.found(&selector) {
            return Ok(Some(found));
        }
        let mut late = false;
        if !self.progress() {
            self.attend(Some(&selector));
            late = self.idle_rounds.is_multiple_of(GONE_ROUNDS);
        }
        if let Some(found) = self.found(&selector) {
            return Ok(Some(found));
        }
        self.check_alive(&selector)?;
        if late {
            self.check_present(&selector)?;
        }
        self.report_wait(wait_for_probe(&selector));
        Ok(None)
    }

    /// The earliest message of a context that nobody has asked for and whose tag is wanted, of
    /// those that were taken in already: no progress is made.
    pub fn find_unexpected(&self, context: u32, wanted: impl Fn(i32) -> bool) -> Option<Received> {
        let any_tag = Selector { source: None, tag: None, context }.pattern();
        let entry = self
            .unexpected
            .find_any(any_tag.key(), |bits| any_tag.takes(bits) && wanted(tag_of(bits)))?;
        Some(Received { source: entry.source, tag: tag_of(entry.bits), bytes: entry.total })
    }

    /// As [`Engine::find_unexpected`], but only among the messages that are the first of their
    /// source: cheaper where many wait.
    pub fn find_oldest_unexpected(
        &self,
        context: u32,
        wanted: impl Fn(i32) -> bool,
    ) -> Option<Received> {
        let any_tag = Selector { source: None, tag: None, context }.pattern();
        let entry =
            self.unexpected.find_first(|bits| any_tag.takes(bits) && wanted(tag_of(bits)))?;
        Some(Received { source: entry.source, tag: tag_of(entry.bits), bytes: entry.total })
    }

    /// Receives a message that is here whole and that nobody has asked for.
    pub fn take_unexpected(
        &mut self,
        into: &mut [u8],
        selector: Selector,
    ) -> Option<Result<Received, MsgError>> {
        if !self.unexpected.find(&selector)?.is_here() {
            return None;
        }
        let entry = self.unexpected.take(&selector)?;
        Some(self.take_entry(entry, into))
    }

    /// Waits for a message that a receive with this selector would take.
    ///
    /// # Errors
    /// As [`Engine::probe`].
    pub fn wait_probe(&mut self, selector: Selector) -> Result<Received, MsgError> {
        let mut blocked = Blocked::new(wait_for_probe(&selector));
        let result = loop {
            match self.probe(selector) {
                Ok(Some(found)) => break Ok(found),
                Ok(None) => self.rest(&mut blocked),
                Err(error) => break Err(error),
            }
        };
        self.awake(&blocked);
        result
    }

    fn found(&self, selector: &Selector) -> Option<Received> {
        let entry = self.unexpected.find(selector)?;
        Some(Received { source: entry.source, tag: tag_of(entry.bits), bytes: entry.total })
    }

    /// Notes that a message of a source was matched.
    #[inline(always)]
    pub(super) fn consumed(&mut self, source: u32) {
        if let Some(grant) = self.sources[source as usize].credit.consume() {
            self.tell_grant(source, grant);
        }
    }

    /// Tells a source how many messages it may have sent: once in a quarter of a window.
    #[cold]
    fn tell_grant(&mut self, source: u32, grant: u64) {
        self.port.grant(source, grant);
    }

    /// Notes that a credited message of a source has come.
    #[inline]
    pub(super) fn note_credited(&mut self, source: u32) {
        let source = &mut self.sources[source as usize];
        source.credit.arrive();
        source.held_up = false;
    }

    /// Starts to put an eager message together.
    pub(super) fn assemble(
        &mut self,
        source: u32,
        bits: u64,
        total: u64,
        arrived: u64,
        to: Target,
    ) {
        self.sources[source as usize].assembling =
            Some(Assembling { bits, total, arrived, target: to });
    }
}

fn wait_for_probe(selector: &Selector) -> Wait {
    Wait::new(Activity::Probe).with(selector.source, selector.tag)
}
