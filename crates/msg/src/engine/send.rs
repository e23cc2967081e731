//! Starting a send, and emptying the outbox.

use hikyaku_nic::fabric::{
    ChainError, Command, CopyPort, GroupId, GroupPort, PostError, Rank, Space,
};

use super::Engine;
use super::direct::refusal;
use crate::buffer::{Scattered, SendBuffer};
use crate::config::SenderChoice;
use crate::envelope::{Envelope, Received, SendMode, context_of, tag_of};
use crate::error::MsgError;
use crate::late::stamp;
use crate::notes::{NOTE_MOST, pieces};
use crate::protocol::{
    Control, ControlPacket, DATA, EAGER, EAGER_READY, PUT, PUT_SHARED, RTS, ReadyToSend,
};
use crate::request::{RequestId, RequestState, Send, SendBody, SendStage};
use crate::traffic::TrafficCounts;
use crate::ways::{LongMessages, MessageKind, Way};

/// The result of one post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Push {
    /// The entry is finished, successfully or not, and leaves the outbox.
    Over,
    /// A part was taken.
    Part,
    /// Everything that was ready was taken, and there is more.
    Packet,
    /// Nothing was taken.
    Nothing,
}

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carriage {
    /// It is announced, with the address where its receiver may read it. `early`: also before the
    /// receiver has a matching receive.
    Announced { address: Option<(Space, u64)>, early: bool },
    /// At once, by this protocol.
    Eager(u8),
}

/// The protocol of an eager message.
fn eager(ready: bool) -> u8 {
    if ready { EAGER_READY } else { EAGER }
}

impl<P: CopyPort> Engine<P> {
    /// Starts a send of a buffer.
    ///
    /// # Errors
    /// [`MsgError`]: the envelope names no rank or tag, or the receiver is gone. Later errors are
    /// the request's result.
    pub fn start_send(
        &mut self,
        buffer: SendBuffer,
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<RequestId, MsgError> {
        let total = buffer.as_slice().len() as u64;
        let started = self.try_send(buffer, envelope, mode)?;
        Ok(started.unwrap_or_else(|| self.already_sent(envelope.tag, total)))
    }

    /// The same, without a request (`None`) if the message has been sent already.
    ///
    /// # Errors
    /// As [`Engine::start_send`].
    pub fn try_send(
        &mut self,
        buffer: SendBuffer,
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<Option<RequestId>, MsgError> {
        let bytes = buffer.as_slice();
        if self.send_directly(bytes, &envelope, mode) {
            return Ok(None);
        }
        let opened = self.open_send(bytes, envelope, mode, true)?;
        if let Some(id) = opened {
            self.attach_send(id, buffer);
        }
        Ok(opened)
    }

    /// Starts a send of scattered data, which are packed as room becomes available.
    ///
    /// # Errors
    /// As [`Engine::start_send`].
    pub fn start_send_scattered(
        &mut self,
        data: Scattered,
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<RequestId, MsgError> {
        self.check_envelope(&envelope)?;
        let Envelope { destination, .. } = envelope;
        if let Some(failure) = self.sources[destination as usize].failed {
            return Err(MsgError::PeerFailed(failure));
        }
        let (total, ready) = (data.len() as u64, mode == SendMode::Ready);
        let stage = match mode == SendMode::Synchronous || data.len() > self.config.eager_limit {
            true => SendStage::Announce { address: None, ready, early: false },
            false => SendStage::Eager { posted: 0, protocol: eager(ready) },
        };
        let body = SendBody::Packed(Box::new(data));
        let id = self.queue_send(&envelope, total, body, stage);
        if self.outbox.is_next(destination, id) {
            self.pump_lane(destination);
        }
        Ok(id)
    }

    /// Opens a request, and queues it in the outbox.
    pub(super) fn queue_send(
        &mut self,
        envelope: &Envelope,
        total: u64,
        body: SendBody,
        stage: SendStage,
    ) -> RequestId {
        let (destination, bits) = (envelope.destination, envelope.bits());
        let (lent, abandoned) = (None, false);
        let send = Send { destination, bits, total, body, stage, lent, abandoned };
        let id = self.requests.insert(|| RequestState::Send(send));
        self.outbox.lane(destination).ordered.push_back(id);
        id
    }

    /// Starts a send of `bytes`, which are read only during this call. If the message is eager,
    /// bytes that are not posted by then are copied; a longer message needs the same bytes again
    /// ([`Engine::attach_send`]) when its receiver asks for them. `expose`: the program does not
    /// change the bytes until the send is complete, so the receiver may read them.
    ///
    /// # Errors
    /// As [`Engine::start_send`].
    pub fn start_send_detached(
        &mut self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
        expose: bool,
    ) -> Result<RequestId, MsgError> {
        let total = bytes.len() as u64;
        let Some(id) = self.open_send(bytes, envelope, mode, expose)? else {
            return Ok(self.already_sent(envelope.tag, total));
        };
        self.poll_send(id, bytes, |_| {});
        if let Some(send) = self.requests.send_mut(id)
            && let SendStage::Eager { posted, .. } = send.stage
        {
            send.body = SendBody::Owned(bytes[posted as usize..].to_vec());
        }
        Ok(id)
    }

    /// Sends a note: a short message of the library that uses no credit or ring space of the
    /// program, and that has no completion. Notes to one rank arrive in order. Messages do not
    /// delay them, and they may overtake earlier messages.
    ///
    /// # Errors
    /// [`MsgError::InvalidLength`]: it is longer than [`NOTE_MOST`]; the envelope names no rank or
    /// tag, or the receiver is gone.
    pub fn send_note(&mut self, bytes: &[u8], envelope: Envelope) -> Result<(), MsgError> {
        let (given, needed) = (bytes.len() as u64, NOTE_MOST as u64);
        if given > needed {
            return Err(MsgError::InvalidLength { given, needed });
        }
        self.check_envelope(&envelope)?;
        let Envelope { destination, .. } = envelope;
        if let Some(failure) = self.sources[destination as usize].failed {
            return Err(MsgError::PeerFailed(failure));
        }
        for piece in pieces(envelope.bits(), bytes) {
            self.post_control(destination, piece);
        }
        Ok(())
    }

    /// Answers the latest note, if its context has an answerer.
    pub(super) fn answer_note(&mut self, bits: u64) {
        let Some(answering) = self.answerers.get_mut(&context_of(bits)) else { return };
        let answer = answering.answerer.answer(tag_of(bits), self.notes.latest());
        let Some(answer) = answer else { return };
        let ranks: Vec<Rank> = match &answering.members {
            Some(members) => members.ranks().to_vec(),
            None => (0..self.size()).collect(),
        };
        let own = self.rank;
        for rank in ranks.into_iter().filter(|rank| *rank != own) {
            // A rank that has failed needs no answer.
            if self.sources[rank as usize].failed.is_none() {
                pieces(bits, &answer).for_each(|piece| self.post_control(rank, piece));
            }
        }
    }

    /// Takes the earliest note of a context with a wanted tag, with its bytes, among notes that
    /// were already handled. Makes no progress.
    pub fn take_note(
        &mut self,
        context: u32,
        wanted: impl Fn(i32) -> bool,
    ) -> Option<(Received, Vec<u8>)> {
        self.notes.take(context, wanted)
    }

    /// Attaches the bytes of a detached send: the same bytes that it was started with.
    pub fn attach_send(&mut self, id: RequestId, buffer: SendBuffer) {
        let Some(send) = self.requests.send_mut(id) else { return };
        if send.total == buffer.as_slice().len() as u64 && matches!(send.body, SendBody::Detached) {
            send.body = SendBody::Borrowed(buffer);
            let destination = send.destination;
            self.join_late(id);
            // If it waits behind others, those were tried when they were queued.
            if self.outbox.is_next(destination, id) {
                self.pump_lane(destination);
            }
        }
    }

    fn already_sent(&mut self, tag: i32, bytes: u64) -> RequestId {
        self.completed(Received { source: self.rank, tag, bytes })
    }

    /// A request that is already complete, whose result the program takes like any other.
    pub fn completed(&mut self, received: Received) -> RequestId {
        self.requests.insert(|| RequestState::Done(Ok(received)))
    }

    /// Posts an eager message if all of it fits (`None`); otherwise opens a request without bytes
    /// for the rest and queues it in the outbox. `expose`: the bytes do not change until the send
    /// is complete, so its receiver may read them, or fetch them from another host.
    pub(super) fn open_send(
        &mut self,
        bytes: &[u8],
        envelope: Envelope,
        mode: SendMode,
        expose: bool,
    ) -> Result<Option<RequestId>, MsgError> {
        self.check_envelope(&envelope)?;
        let Envelope { destination, .. } = envelope;
        if let Some(failure) = self.sources[destination as usize].failed {
            return Err(MsgError::PeerFailed(failure));
        }
        let ready = mode == SendMode::Ready;
        let total = bytes.len() as u64;
        let stage = match self.carriage(bytes, destination, mode, expose) {
            Carriage::Announced { address, early } => SendStage::Announce { address, ready, early },
            Carriage::Eager(protocol) if self.outbox.is_clear(destination) => {
                let posted = match self.post_eager(bytes, &envelope, protocol) {
                    Ok(posted) if posted == total => {
                        self.count_sent(destination, envelope.bits(), total);
                        return Ok(None);
                    }
                    Ok(posted) => posted,
                    Err(PostError::Full { .. }) => 0,
                    Err(error) => return Err(refusal(error)),
                };
                SendStage::Eager { posted, protocol }
            }
            Carriage::Eager(protocol) => SendStage::Eager { posted: 0, protocol },
        };
        if let (SendStage::Eager { .. }, Some(traffic)) = (stage, &mut self.traffic) {
            traffic.held_up(destination, envelope.bits());
        }
        let id = self.queue_send(&envelope, total, SendBody::Detached, stage);
        if let (true, SendStage::Announce { address: None, .. }) = (expose, stage)
            && let Some(send) = self.requests.send_mut(id)
        {
            send.lent = self.port.lend(destination, id.word(), bytes);
        }
        Ok(Some(id))
    }

    /// Takes lent bytes back: the receiver no longer needs them, or the program wants them.
    pub(super) fn take_back(&mut self, id: RequestId) {
        if let Some(send) = self.requests.send_mut(id)
            && send.lent.take().is_some()
        {
            self.port.take_back(id.word());
        }
    }

    #[inline]
    fn post_eager(
        &mut self,
        bytes: &[u8],
        envelope: &Envelope,
        protocol: u8,
    ) -> Result<u64, PostError> {
        let command = Command {
            credited: true,
            ..Command::send(envelope.destination, protocol, envelope.bits(), bytes)
        };
        let choice = self.choices.get(&envelope.destination).copied();
        let port = (&mut self.port, choice.unwrap_or_default());
        let taken = post_counted(port, &mut self.traffic, &command, envelope.bits());
        taken.map(|taken| taken as u64)
    }

    /// Chooses whether a message is announced or sent at once.
    fn carriage(
        &mut self,
        bytes: &[u8],
        destination: Rank,
        mode: SendMode,
        expose: bool,
    ) -> Carriage {
        let must = mode == SendMode::Synchronous || bytes.len() > self.config.eager_limit;
        let address = if expose { self.exposed(bytes, destination) } else { None };
        let ready = mode == SendMode::Ready;
        match address {
            address if must => Carriage::Announced { address, early: false },
            None => Carriage::Eager(eager(ready)),
            Some(at) => {
                let kind = MessageKind::new(bytes.len() as u64, address, true);
                match self.is_put(destination, kind) {
                    // Ready sends that are put are counted at their receiver as ready sends only.
                    true if ready => Carriage::Eager(EAGER_READY),
                    true if at.0 == Space::Region => Carriage::Eager(PUT_SHARED),
                    true => Carriage::Eager(PUT),
                    false => Carriage::Announced { address, early: true },
                }
            }
        }
    }

    /// Whether the next message of this kind is put into its receiver's ring.
    fn is_put(&mut self, destination: Rank, kind: MessageKind) -> bool {
        match self.config.long_messages {
            LongMessages::By(way) => way == Way::Put && !self.capabilities.virtual_time,
            LongMessages::Fastest => {
                let ways = self.sources[destination as usize].ways.as_mut();
                ways.is_some_and(|ways| ways.is_put(kind))
            }
        }
    }

    /// The address where `destination` may read these bytes, if reading may be faster than
    /// streaming.
    fn exposed(&self, bytes: &[u8], destination: Rank) -> Option<(Space, u64)> {
        let pays = |space| self.port.copies_from(space).is_some_and(|from| bytes.len() >= from);
        // First, because most messages are short and the checks below take longer.
        if !pays(Space::Region) && !pays(Space::Process) {
            return None;
        }
        // Not for itself: a rank that abandons a wait for itself would leave the address behind.
        let reachable = destination != self.rank
            && self.port.node_of(destination) == self.port.node_of(self.rank);
        let address = reachable.then(|| self.port.expose(bytes)).flatten()?;
        pays(address.space).then_some((address.space, address.offset))
    }

    /// Posts pending packets, within the available room. Returns whether any were posted.
    pub(super) fn pump(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(destination) = self.outbox.active(at) {
            moved |= self.pump_lane(destination);
            if !self.outbox.retire(at) {
                at += 1;
            }
        }
        moved
    }

    /// Posts the pending packets of one destination.
    pub(super) fn pump_lane(&mut self, destination: Rank) -> bool {
        let mut moved = false;
        while let Some(control) = self.outbox.lane(destination).control.front().copied() {
            if !self.push_control(destination, &control) {
                return moved;
            }
            self.outbox.lane(destination).control.pop_front();
            moved = true;
        }
        while let Some(id) = self.outbox.lane(destination).ordered.front().copied() {
            let push = self.push_ordered(id);
            moved |= push != Push::Nothing;
            match push {
                Push::Over => _ = self.outbox.lane(destination).ordered.pop_front(),
                Push::Packet => {}
                Push::Part | Push::Nothing => break,
            }
        }
        for _ in 0..self.outbox.lane(destination).streams.len() {
            let Some(id) = self.outbox.lane(destination).streams.pop_front() else { break };
            let mut push = self.push_stream(id);
            moved |= push != Push::Nothing;
            while push == Push::Packet {
                push = self.push_stream(id);
            }
            if push != Push::Over {
                self.outbox.lane(destination).streams.push_back(id);
            }
        }
        moved
    }

    /// Sends a control packet, or queues it behind earlier ones.
    pub(super) fn post_control(&mut self, destination: Rank, control: Control) {
        if self.sources[destination as usize].failed.is_some() {
            return;
        }
        let waits = !self.outbox.is_empty_to(destination)
            && !self.outbox.lane(destination).control.is_empty();
        if waits || !self.push_control(destination, &control) {
            self.outbox.lane(destination).control.push_back(control);
        }
    }

    /// Posts a control packet. Returns whether it is done and needs no retry.
    fn push_control(&mut self, destination: Rank, control: &Control) -> bool {
        let packet = control.packet();
        let ControlPacket { protocol, header, .. } = packet;
        let passes = control.passes();
        let command =
            Command { passes, ..Command::send(destination, protocol, header, packet.payload()) };
        match self.port.post(&command) {
            Err(PostError::Full { cause, .. }) => {
                self.statistics.found_full(cause);
                false
            }
            _ => true,
        }
    }

    /// Posts the next part of an eager message, or an announcement.
    fn push_ordered(&mut self, id: RequestId) -> Push {
        let Some(send) = self.requests.send_mut(id) else { return Push::Over };
        let (destination, bits, total) = (send.destination, send.bits, send.total);
        match send.stage {
            SendStage::Eager { posted, protocol } => {
                let Some(rest) = send.bytes_from(posted) else { return Push::Nothing };
                let offered = rest.len();
                let command = Command {
                    total,
                    offset: posted,
                    credited: posted == 0,
                    ..Command::send(destination, protocol, bits, rest)
                };
                let choice = self.choices.get(&destination).copied().unwrap_or_default();
                let port = (&mut self.port, choice);
                match post_counted(port, &mut self.traffic, &command, bits) {
                    Ok(taken) => {
                        let posted = posted + taken as u64;
                        send.stage = SendStage::Eager { posted, protocol };
                        self.pushed(id, taken, offered, posted == total)
                    }
                    Err(error) => self.not_pushed(id, error),
                }
            }
            SendStage::Announce { address, ready, early } => {
                let (request, lent) = (id.word(), send.lent);
                let ways = self.sources[destination as usize].ways.as_mut();
                let is_eager = total <= self.config.eager_limit as u64;
                let kind = MessageKind::new(total, address, is_eager);
                let trial = ways.and_then(|ways| ways.trial(kind));
                // In virtual time no clock decides how messages travel.
                let is_timed = address.is_some() && !self.capabilities.virtual_time;
                let announced = if is_timed { stamp(self.port.now()) } else { 0 };
                let rts =
                    ReadyToSend { total, request, address, lent, ready, early, trial, announced };
                let payload = rts.encode();
                let command =
                    Command { credited: true, ..Command::send(destination, RTS, bits, &payload) };
                match self.port.post(&command) {
                    Ok(_) => {
                        send.stage = SendStage::Announced { cancelling: false };
                        self.statistics.rendezvous_sent += 1;
                        Push::Over
                    }
                    Err(error) => self.not_pushed(id, error),
                }
            }
            SendStage::Announced { .. } | SendStage::Stream { .. } => Push::Over,
        }
    }

    /// Posts the next part of a message that its receiver cleared.
    fn push_stream(&mut self, id: RequestId) -> Push {
        let Some(send) = self.requests.send_mut(id) else { return Push::Over };
        let SendStage::Stream { receiver, sent, want } = send.stage else { return Push::Over };
        let (destination, bits) = (send.destination, send.bits);
        let Some(rest) = send.bytes_from(sent) else { return Push::Nothing };
        let length = usize::try_from(want - sent).map_or(rest.len(), |left| left.min(rest.len()));
        let command = Command {
            total: want,
            offset: sent,
            ..Command::send(destination, DATA, receiver, &rest[..length])
        };
        // Its parts are announced one by one, as they find room.
        let route = self.choices.get(&destination).copied().unwrap_or_default().route;
        let port = (&mut self.port, SenderChoice { route, ..SenderChoice::default() });
        match post_counted(port, &mut self.traffic, &command, bits) {
            Ok(taken) => {
                let sent = sent + taken as u64;
                send.stage = SendStage::Stream { receiver, sent, want };
                self.pushed(id, taken, length, sent == want)
            }
            Err(error) => self.not_pushed(id, error),
        }
    }

    fn pushed(&mut self, id: RequestId, taken: usize, offered: usize, whole: bool) -> Push {
        if whole {
            self.finish_send(id);
            return Push::Over;
        }
        // At least one byte was taken: a post that finds no room at all is an error.
        if taken == offered { Push::Packet } else { Push::Part }
    }

    fn not_pushed(&mut self, id: RequestId, error: PostError) -> Push {
        if let PostError::Full { cause, .. } = error {
            self.statistics.found_full(cause);
            return Push::Nothing;
        }
        self.take_back(id);
        self.requests.finish(id, Err(refusal(error)));
        Push::Over
    }

    /// Completes a send.
    pub(super) fn finish_send(&mut self, id: RequestId) {
        self.take_back(id);
        let Some(send) = self.requests.send_mut(id) else { return };
        let Send { destination, bits, total: bytes, .. } = *send;
        let tag = tag_of(bits);
        self.count_sent(destination, bits, bytes);
        self.requests.finish(id, Ok(Received { source: self.rank, tag, bytes }));
    }

    fn count_sent(&mut self, destination: Rank, bits: u64, bytes: u64) {
        self.statistics.sent(bytes);
        if let Some(traffic) = &mut self.traffic {
            traffic.sent_to(destination, bits, bytes);
        }
    }
}

/// Posts a part of a message with these match bits as its sender chose, and counts the posted
/// bytes if they are traced.
#[inline]
fn post_counted<P: CopyPort>(
    (port, choice): (&mut P, SenderChoice),
    traffic: &mut Option<Box<TrafficCounts>>,
    command: &Command<'_>,
    bits: u64,
) -> Result<usize, PostError> {
    let taken = choice.post(port, command)?;
    if let Some(traffic) = traffic {
        traffic.landed(command, bits, taken);
    }
    Ok(taken)
}

// One message to every other member of a group, by one command of the port.
//
// Each member gets an eager message of this rank as if it had been sent to that member alone, so
// the member receives it like any other. Members without room get it one by one. So do all members
// if the message is long, because they read it after matching, or if earlier messages wait for
// room, because it must not overtake those.

/// The sends that a multicast leaves to be done.
#[derive(Debug)]
pub(crate) struct MulticastRest {
    /// The request of a member that has taken a part.
    pub(crate) began: Option<RequestId>,
    /// Members that have taken nothing.
    pub(crate) whole: Vec<Rank>,
}

impl<P: CopyPort + GroupPort> Engine<P> {
    /// Sends a message to every other member of a group, within the available room.
    ///
    /// # Errors
    /// The tag is invalid, or a member is gone.
    pub(crate) fn multicast(
        &mut self,
        group: GroupId,
        bytes: &[u8],
        context: u32,
        tag: i32,
    ) -> Result<MulticastRest, MsgError> {
        let members = self.port.group(group).map(|group| group.members().to_vec());
        let members = members.unwrap_or_default();
        let envelope = |destination| Envelope { destination, context, tag };
        let own = self.rank;
        let others = |from: usize| members[from..].iter().copied().filter(move |to| *to != own);
        for to in others(0) {
            self.check_envelope(&envelope(to))?;
            if let Some(failure) = self.sources[to as usize].failed {
                return Err(MsgError::PeerFailed(failure));
            }
        }
        let at_once = bytes.len() <= self.config.eager_limit
            && self.traffic.is_none()
            && !self.port.is_forked()
            && others(0).all(|to| self.outbox.is_clear(to));
        if !at_once {
            return Ok(MulticastRest { began: None, whole: others(0).collect() });
        }
        let bits = envelope(own).bits();
        let command = Command { credited: true, ..Command::send(own, EAGER, bits, bytes) };
        let posted = self.port.multicast(group, &command, 0, 0);
        let (done, part) = match posted {
            Ok(()) => (members.len(), 0),
            Err(ChainError { done, bytes, error: PostError::Full { cause, .. } }) => {
                self.statistics.found_full(cause);
                (done, bytes)
            }
            Err(ChainError { error, .. }) => return Err(refusal(error)),
        };
        for _ in members[..done].iter().filter(|to| **to != own) {
            self.statistics.sent(bytes.len() as u64);
        }
        let began = (part > 0).then(|| {
            let stage = SendStage::Eager { posted: part as u64, protocol: EAGER };
            let total = bytes.len() as u64;
            self.queue_send(&envelope(members[done]), total, SendBody::Detached, stage)
        });
        let whole = others(done + usize::from(began.is_some())).collect();
        Ok(MulticastRest { began, whole })
    }
}
