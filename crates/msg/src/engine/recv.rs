//! Starting a receive, attaching and detaching its memory, and probing.

use hikyaku_nic::fabric::{Activity, CopyPort, Wait};

use super::wait::GONE_ROUNDS;
use super::{Assembling, Blocked, Engine, PartTarget};
use crate::buffer::RecvBuffer;
use crate::envelope::{Received, Selector, tag_of};
use crate::error::MsgError;
use crate::request::{
    Announced, PartialMessage, Receive, ReceiveStage, RequestId, RequestState, Send, SendBody,
    outcome,
};
use crate::unexpected::{EntryBody, UnexpectedEntry};
use crate::ways::Way;

impl<P: CopyPort> Engine<P> {
    /// Starts a receive into a buffer.
    ///
    /// # Errors
    /// [`MsgError`]: the selector names no rank or tag, or a required rank has died and no message
    /// of it is here. Later errors are the request's result.
    #[inline(always)]
    pub fn start_recv(
        &mut self,
        buffer: RecvBuffer,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.start_recv_made(buffer.len(), || buffer, selector)
    }

    /// The same for a buffer of `room` bytes that is built in place.
    ///
    /// # Errors
    /// As [`Engine::start_recv`].
    #[inline(always)]
    pub fn start_recv_made(
        &mut self,
        room: usize,
        make: impl FnOnce() -> RecvBuffer,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.open_recv(room, || Some(make()), selector)
    }

    /// Starts a receive of a message of up to `room` bytes. The message stays where it lands until
    /// the request gets memory ([`Engine::attach_receive`]).
    ///
    /// # Errors
    /// As [`Engine::start_recv`].
    pub fn start_recv_detached(
        &mut self,
        room: usize,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.open_recv(room, || None, selector)
    }

    #[inline(always)]
    fn open_recv(
        &mut self,
        room: usize,
        make: impl FnOnce() -> Option<RecvBuffer>,
        selector: Selector,
    ) -> Result<RequestId, MsgError> {
        self.check_selector(&selector)?;
        // The callee gets a copy, so that the selector stays in registers.
        if !self.unexpected.is_empty()
            && let Some(entry) = self.unexpected.take(&{ selector })
        {
            return Ok(self.open_matched(room, make(), selector, entry));
        }
        self.check_alive(&selector)?;
        let id = self.new_receive(room, make, selector);
        self.posted.push(&selector, id);
        self.needs_more = true;
        Ok(id)
    }

    #[inline(always)]
    fn new_receive(
        &mut self,
        room: usize,
        make: impl FnOnce() -> Option<RecvBuffer>,
        selector: Selector,
    ) -> RequestId {
        self.requests.insert(|| {
            let (buffer, stage) = (make(), ReceiveStage::Posted);
            RequestState::Receive(Receive { selector, room, buffer, stage, abandoned: false })
        })
    }

    /// A receive whose message has already arrived.
    #[cold]
    fn open_matched(
        &mut self,
        room: usize,
        mut buffer: Option<RecvBuffer>,
        selector: Selector,
        entry: UnexpectedEntry,
    ) -> RequestId {
        if let Some(buffer) = &mut buffer
            && entry.is_here()
            && let Some(into) = buffer.whole()
        {
            let result = self.take_entry(entry, into);
            return self.requests.insert(|| RequestState::Done(result));
        }
        let id = self.new_receive(room, || buffer, selector);
        self.match_entry(id, entry);
        id
    }

    /// Receives an unexpected message that is whole.
    pub(super) fn take_entry(
        &mut self,
        entry: UnexpectedEntry,
        into: &mut [u8],
    ) -> Result<Received, MsgError> {
        self.statistics.unexpected_less(entry.bytes());
        let UnexpectedEntry { source, bits, total, body, .. } = entry;
        self.consumed(source);
        if let EntryBody::Eager { mut parts, kind, .. } = body {
            let began = self.begin_put(source, kind);
            parts.deliver(&mut self.port, into);
            if let Some((kind, way, began)) = began {
                self.note_way(source, kind, (way, way), began);
            }
        }
        self.statistics.received(total.min(into.len() as u64));
        outcome(source, bits, total, into.len())
    }

    /// Matches a receive with a message that has already arrived.
    fn match_entry(&mut self, id: RequestId, entry: UnexpectedEntry) {
        self.statistics.unexpected_less(entry.bytes());
        let UnexpectedEntry { source, bits, total, body, .. } = entry;
        self.consumed(source);
        match body {
            EntryBody::Announced(rts) => self.begin_rendezvous(id, source, bits, rts),
            EntryBody::Eager { arrived, parts, kind } => {
                if arrived < total
                    && let Some(assembling) = &mut self.sources[source as usize].assembling
                {
                    assembling.target = PartTarget::Request(id);
                }
                let eager = PartialMessage::eager((source, bits), (arrived, total), parts);
                let incoming = PartialMessage { began: self.begin_put(source, kind), ..eager };
                self.set_incoming(id, incoming);
            }
        }
    }

    /// Sets the message of a receive that has matched.
    pub(super) fn set_incoming(&mut self, id: RequestId, incoming: PartialMessage) {
        if let Some(receive) = self.requests.receive_mut(id) {
            receive.stage = ReceiveStage::Incoming(Box::new(incoming));
            self.drain(id);
        }
    }

    /// Copies the parts that wait for a receive's buffer, if it is attached; completes the receive
    /// if they were the last.
    pub(super) fn drain(&mut self, id: RequestId) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        let ReceiveStage::Incoming(incoming) = &mut receive.stage else { return };
        let Some(buffer) = &mut receive.buffer else { return };
        while let Some(part) = incoming.parts.pop() {
            let length = part.len() as u64;
            buffer.take_in(&mut self.port, part, incoming.copied);
            incoming.copied += length;
        }
        if incoming.is_complete() {
            self.finish_incoming(id);
        }
    }

    /// Completes a receive whose message is whole.
    pub(super) fn finish_incoming(&mut self, id: RequestId) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        let ReceiveStage::Incoming(incoming) = &receive.stage else { return };
        let (source, began, lender) = (incoming.source, incoming.began, incoming.lender);
        let streamed = incoming.streamed;
        let result = incoming.outcome(receive.room);
        self.statistics.received(incoming.total.min(receive.room as u64));
        self.requests.finish(id, result);
        if let Some(sender) = lender {
            self.post_consumed(source, sender);
        }
        if let Some((kind, chosen, began)) = began {
            let gone = match (lender, streamed) {
                (Some(_), _) => Way::Read,
                (None, true) => Way::Ring,
                (None, false) => Way::Put,
            };
            self.note_way(source, kind, (chosen, gone), began);
        }
    }

    /// Attaches the memory of a detached receive, of the length that it was started with.
    pub fn attach_receive(&mut self, id: RequestId, buffer: RecvBuffer) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        if receive.room != buffer.len() {
            return;
        }
        receive.buffer = Some(buffer);
        match &receive.stage {
            // A joint copy ends when its memory is taken away.
            ReceiveStage::Posted | ReceiveStage::Joint(_) => {}
            ReceiveStage::Incoming(_) => self.drain(id),
            ReceiveStage::Announced(announced) => {
                let Announced { source, bits, rts } = **announced;
                self.begin_rendezvous(id, source, bits, rts);
            }
        }
    }

    /// Takes the memory of a pending request back. The request still progresses where it needs no
    /// memory, and completes only after it gets memory again.
    pub fn detach(&mut self, id: RequestId) {
        self.detach_view(id);
        self.take_back(id);
    }

    /// [`Engine::detach`] except for memory that is lent to the fabric.
    pub(super) fn detach_view(&mut self, id: RequestId) {
        match self.requests.get_mut(id) {
            Some(RequestState::Send(Send { body, .. })) => {
                if matches!(body, SendBody::Borrowed(_) | SendBody::Packed(_)) {
                    *body = SendBody::Detached;
                }
            }
            Some(RequestState::Receive(_)) => {
                self.complete_joint(id);
                if let Some(receive) = self.requests.receive_mut(id) {
                    receive.buffer = None;
                }
            }
            _ => {}
        }
    }

    /// Handles arrivals, then returns the message that a receive with this selector would take now,
    /// if any.
    ///
    /// # Errors
    /// [`MsgError`]: the selector names no rank or tag, or nothing is here and a required rank is
    /// gone.
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
        self.want_more();
        self.report_wait(wait_for_probe(&selector));
        Ok(None)
    }

    /// The earliest unmatched message of a context with a wanted tag, among messages that were
    /// already handled. Makes no progress.
    pub fn find_unexpected(&self, context: u32, wanted: impl Fn(i32) -> bool) -> Option<Received> {
        let any_tag = Selector { source: None, tag: None, context }.pattern();
        let entry = self
            .unexpected
            .find_any(any_tag.key(), |bits| any_tag.takes(bits) && wanted(tag_of(bits)))?;
        Some(Received { source: entry.source, tag: tag_of(entry.bits), bytes: entry.total })
    }

    /// As [`Engine::find_unexpected`], but only among the first messages of each source: cheaper
    /// when there are many.
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

    /// Receives a whole message that is unmatched.
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
        self.needs_more = true;
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

    /// Accounts for a matched message of a source.
    #[inline(always)]
    pub(super) fn consumed(&mut self, source: u32) {
        if let Some(grant) = self.sources[source as usize].credit.consume() {
            self.publish_grant(source, grant);
        }
    }

    /// Publishes a source's new grant, once in a quarter of a window.
    #[cold]
    pub(super) fn publish_grant(&mut self, source: u32, grant: u64) {
        self.port.grant(source, grant);
    }

    /// Accounts for a credited message that has arrived from a source.
    #[inline]
    pub(super) fn note_credited(&mut self, source: u32) {
        self.sources[source as usize].note_credited();
    }

    /// Starts to assemble an eager message.
    pub(super) fn assemble(
        &mut self,
        source: u32,
        bits: u64,
        total: u64,
        arrived: u64,
        to: PartTarget,
    ) {
        self.sources[source as usize].assembling =
            Some(Assembling { bits, total, arrived, target: to });
    }
}

fn wait_for_probe(selector: &Selector) -> Wait {
    Wait::new(Activity::Probe).with(selector.source, selector.tag).on(selector.context)
}
