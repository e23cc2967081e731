//! Requests: operations in flight, kept in a slab under generational ids.
//!
//! A slot is reused as soon as its request is freed. Its generation then differs, so an old id,
//! from the program or from a late packet, finds nothing instead of another request.

use std::mem::{self, ManuallyDrop};

use hikyaku_nic::fabric::{JointCopy, LentAddress, Rank, Space};
use hikyaku_nic::time::Time;

use crate::buffer::{RecvBuffer, Scattered, SendBuffer};
use crate::envelope::{Received, Selector, tag_of};
use crate::error::MsgError;
use crate::parcel::MessageParts;
use crate::protocol::ReadyToSend;
use crate::ways::{MessageKind, Way};

/// The id of an operation that was started and whose result was not taken yet.
///
/// One word, not two halves: halves that are stored separately and loaded as one wait until both
/// have left the store buffer, behind the message that was just sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    #[inline]
    fn new(index: u32, generation: u32) -> RequestId {
        RequestId(u64::from(generation) << 32 | u64::from(index))
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline]
    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The id as one word, for a packet. Its top bit is never set.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The id in a word. It may name no request.
    #[inline]
    pub fn from_word(word: u64) -> RequestId {
        RequestId(word)
    }
}

/// The largest generation; the first follows it. One bit of an id's word stays free.
const GENERATIONS: u32 = u32::MAX >> 1;

/// One operation in flight, or its result.
#[derive(Debug)]
pub(crate) enum RequestState {
    Send(Send),
    Receive(Receive),
    Done(Result<Received, MsgError>),
}

impl RequestState {
    /// Whether it holds nothing that has to be dropped.
    fn is_bare(&self) -> bool {
        match self {
            RequestState::Done(_) => true,
            RequestState::Receive(Receive { buffer, stage: ReceiveStage::Posted, .. }) => {
                !buffer.as_ref().is_some_and(RecvBuffer::is_scattered)
            }
            _ => false,
        }
    }
}

/// A send in progress.
#[derive(Debug)]
pub(crate) struct Send {
    pub(crate) destination: Rank,
    pub(crate) bits: u64,
    /// Length of the message, bytes.
    pub(crate) total: u64,
    pub(crate) body: SendBody,
    pub(crate) stage: SendStage,
    /// The address at which its bytes are lent to a receiver on another host.
    pub(crate) lent: Option<LentAddress>,
    /// The result will not be taken: completion frees the slot.
    pub(crate) abandoned: bool,
}

/// The location of a send's bytes.
#[derive(Debug)]
pub(crate) enum SendBody {
    /// In the program's memory.
    Borrowed(SendBuffer),
    /// Scattered in the program's memory.
    Packed(Box<Scattered>),
    /// The last bytes of the message, owned.
    Owned(Vec<u8>),
    /// In the program's memory, which is detached now.
    Detached,
}

/// The progress of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendStage {
    /// Eager, in the outbox: `posted` bytes were posted.
    Eager { posted: u64, protocol: u8 },
    /// Its RTS is in the outbox.
    Announce { address: Option<(Space, u64)>, ready: bool, early: bool },
    /// Its RTS was posted.
    Announced { cancelling: bool },
    /// The receiver asked for the first `want` bytes; `sent` of them were sent.
    Stream { receiver: u64, sent: u64, want: u64 },
}

/// A receive in progress.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) selector: Selector,
    /// Length of the buffer, bytes, attached or not.
    pub(crate) room: usize,
    pub(crate) buffer: Option<RecvBuffer>,
    pub(crate) stage: ReceiveStage,
    pub(crate) abandoned: bool,
}

/// The progress of a receive.
#[derive(Debug)]
pub(crate) enum ReceiveStage {
    /// No message has matched.
    Posted,
    /// An RTS has matched and the buffer is detached.
    Announced(Box<Announced>),
    /// Both ends are copying the message. Boxed for the same reason as below.
    Joint(Box<Joint>),
    /// A message of several parts is arriving, or waits for the buffer. Boxed, so that the receives
    /// of small messages stay small.
    Incoming(Box<PartialMessage>),
}

impl ReceiveStage {
    /// Source and match bits of the message that has matched.
    pub(crate) fn matched(&self) -> Option<(Rank, u64)> {
        match self {
            ReceiveStage::Posted => None,
            ReceiveStage::Announced(it) => Some((it.source, it.bits)),
            ReceiveStage::Joint(it) => Some((it.announced.source, it.announced.bits)),
            ReceiveStage::Incoming(it) => Some((it.source, it.bits)),
        }
    }
}

/// A matched announcement that waits for the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announced {
    pub(crate) source: Rank,
    pub(crate) bits: u64,
    pub(crate) rts: ReadyToSend,
}

/// A matched message that both ends are copying.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joint {
    pub(crate) announced: Announced,
    pub(crate) copy: JointCopy,
    pub(crate) began: Time,
}

/// A matched message that has not fully arrived or was not fully copied.
#[derive(Debug)]
pub(crate) struct PartialMessage {
    pub(crate) source: Rank,
    pub(crate) bits: u64,
    /// Length of the message at its sender, bytes.
    pub(crate) total: u64,
    /// Bytes to arrive: all of an eager message, the requested ones of a streamed message.
    pub(crate) expected: u64,
    /// Bytes that have arrived.
    pub(crate) arrived: u64,
    /// Bytes copied to the buffer, or cut off beyond its end.
    pub(crate) copied: u64,
    /// Whether it arrives in DATA packets that name this request.
    pub(crate) streamed: bool,
    /// The request of the sender that lends the bytes which this rank fetches.
    pub(crate) lender: Option<u64>,
    /// The kind of message, the way that was chosen for it, and the start time.
    pub(crate) began: Option<(MessageKind, Way, Time)>,
    /// Parts that have arrived and wait for the buffer.
    pub(crate) parts: MessageParts,
}

impl PartialMessage {
    /// A message that is not streamed: `arrived` of its `total` bytes are in `parts`.
    #[inline(always)]
    pub(crate) fn eager(
        (source, bits): (Rank, u64),
        (arrived, total): (u64, u64),
        parts: MessageParts,
    ) -> PartialMessage {
        PartialMessage {
            source,
            bits,
            total,
            expected: total,
            arrived,
            copied: 0,
            streamed: false,
            lender: None,
            began: None,
            parts,
        }
    }

    /// Whether all bytes have arrived and were copied.
    pub(crate) fn is_complete(&self) -> bool {
        self.copied == self.expected
    }

    /// The result, once complete, for a buffer of `room` bytes.
    pub(crate) fn outcome(&self, room: usize) -> Result<Received, MsgError> {
        outcome(self.source, self.bits, self.total, room)
    }
}

/// The result of a message of `total` bytes in a buffer of `room`.
#[inline]
pub(crate) fn outcome(
    source: Rank,
    bits: u64,
    total: u64,
    room: usize,
) -> Result<Received, MsgError> {
    let (tag, room) = (tag_of(bits), room as u64);
    if total > room {
        return Err(MsgError::Truncated { sent: total, room, source_rank: source, tag });
    }
    Ok(Received { source, tag, bytes: total })
}

impl Send {
    /// Whether [`Send::bytes_from`] returns bytes.
    pub(crate) fn has_bytes_from(&self, from: u64) -> bool {
        match &self.body {
            SendBody::Borrowed(_) | SendBody::Packed(_) => from <= self.total,
            SendBody::Owned(last) => from >= self.total - last.len() as u64,
            SendBody::Detached => self.total == 0,
        }
    }

    /// The bytes from `from` on, if the program's memory is attached: all, or those of one packet.
    pub(crate) fn bytes_from(&mut self, from: u64) -> Option<&[u8]> {
        match &mut self.body {
            SendBody::Packed(data) => Some(data.from(usize::try_from(from).ok()?)),
            SendBody::Borrowed(buffer) => buffer.as_slice().get(usize::try_from(from).ok()?..),
            SendBody::Owned(last) => {
                let start = self.total - last.len() as u64;
                last.get(usize::try_from(from.checked_sub(start)?).ok()?..)
            }
            SendBody::Detached if self.total == 0 => Some(&[]),
            SendBody::Detached => None,
        }
    }
}

/// The requests of one engine.
#[derive(Debug, Default)]
pub(crate) struct RequestSlab {
    slots: Vec<RequestSlot>,
    free: Vec<u32>,
    /// How many of the requests that were made are complete.
    completions: u32,
}

#[derive(Debug)]
struct RequestSlot {
    generation: u32,
    /// The value of `completions` when this request completed, if it has.
    completion: u32,
    request: Option<RequestState>,
}

impl RequestSlab {
    /// Adds a request. `make` runs after the slot is known to exist and to be empty, so that the
    /// request is built in place: nothing may fail while it is elsewhere. Building it on the stack
    /// and moving it costs more than the rest of starting it.
    #[inline(always)]
    pub(crate) fn insert(&mut self, make: impl FnOnce() -> RequestState) -> RequestId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(),
        };
        let slot = &mut self.slots[index as usize];
        // The request may be complete already.
        self.completions = self.completions.wrapping_add(1);
        slot.completion = self.completions;
        match &mut slot.request {
            Some(_) => unreachable!("a free slot is empty"),
            empty => *empty = Some(make()),
        }
        RequestId::new(index, slot.generation)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let index = u32::try_from(self.slots.len()).expect("four billion requests do not fit");
        self.slots.push(RequestSlot { generation: 0, completion: 0, request: None });
        index
    }

    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&RequestState> {
        let slot = self.slots.get(id.index())?;
        slot.request.as_ref().filter(|_| slot.generation == id.generation())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut RequestState> {
        let slot = self.slots.get_mut(id.index())?;
        slot.request.as_mut().filter(|_| slot.generation == id.generation())
    }

    #[inline]
    pub(crate) fn send_mut(&mut self, id: RequestId) -> Option<&mut Send> {
        match self.get_mut(id)? {
            RequestState::Send(send) => Some(send),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn receive_mut(&mut self, id: RequestId) -> Option<&mut Receive> {
        match self.get_mut(id)? {
            RequestState::Receive(receive) => Some(receive),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<RequestState> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation != id.generation() {
            return None;
        }
        let request = slot.request.take()?;
        slot.generation = (slot.generation + 1) & GENERATIONS;
        self.free.push(id.index() as u32);
        Some(request)
    }

    /// The memory of a receive that no message has matched, if it is attached and contiguous.
    #[inline(always)]
    pub(crate) fn posted_memory(&mut self, id: RequestId) -> Option<&mut [u8]> {
        let Receive { buffer, stage: ReceiveStage::Posted, .. } = self.receive_mut(id)? else {
            return None;
        };
        buffer.as_mut()?.whole()
    }

    /// Frees the request of a posted receive whose memory has its message, or a complete request.
    /// Neither holds anything to drop, and checking that costs as much as the rest.
    #[inline(always)]
    pub(crate) fn release(&mut self, id: RequestId) {
        debug_assert!(self.get(id).is_some_and(RequestState::is_bare), "a request without boxes");
        let slot = &mut self.slots[id.index()];
        _ = ManuallyDrop::new(slot.request.take());
        slot.generation = (slot.generation + 1) & GENERATIONS;
        self.free.push(id.index() as u32);
    }

    /// Stores a request's result, or frees the request if it is abandoned. Returns the request, so
    /// that the caller can release its resources.
    pub(crate) fn finish(
        &mut self,
        id: RequestId,
        result: Result<Received, MsgError>,
    ) -> Option<RequestState> {
        match self.get_mut(id)? {
            RequestState::Done(_) => None,
            RequestState::Send(Send { abandoned: true, .. })
            | RequestState::Receive(Receive { abandoned: true, .. }) => self.remove(id),
            _ => self.set_done(id, result),
        }
    }

    /// Completes a pending request and returns it.
    #[inline(always)]
    fn set_done(
        &mut self,
        id: RequestId,
        result: Result<Received, MsgError>,
    ) -> Option<RequestState> {
        self.completions = self.completions.wrapping_add(1);
        let slot = self.slots.get_mut(id.index()).filter(|it| it.generation == id.generation())?;
        slot.completion = self.completions;
        slot.request.as_mut().map(|pending| mem::replace(pending, RequestState::Done(result)))
    }

    /// The place of the request that has been complete for the longest. A freed request counts as
    /// complete.
    pub(crate) fn first_done(&self, ids: &[RequestId]) -> Option<usize> {
        let done = ids.iter().enumerate().filter(|(_, id)| self.is_done(**id));
        let since = |id: &RequestId| {
            self.slots.get(id.index()).map(|slot| self.completions.wrapping_sub(slot.completion))
        };
        // Take the first of equal ones: `max_by_key` returns the last maximum.
        done.rev().max_by_key(|(_, id)| since(id)).map(|(at, _)| at)
    }

    /// Whether the request is complete. A freed request counts as complete.
    #[inline]
    pub(crate) fn is_done(&self, id: RequestId) -> bool {
        matches!(self.get(id), None | Some(RequestState::Done(_)))
    }

    /// Completes a posted receive whose memory has its message, or the beginning of it.
    #[inline(always)]
    pub(crate) fn complete(&mut self, id: RequestId, result: Result<Received, MsgError>) {
        debug_assert!(self.get(id).is_none_or(RequestState::is_bare), "a request without boxes");
        _ = ManuallyDrop::new(self.set_done(id, result));
    }

    /// Takes the result of a request and frees it; `None` while it is pending.
    #[inline(always)]
    pub(crate) fn take_done(&mut self, id: RequestId) -> Option<Result<Received, MsgError>> {
        match self.get(id) {
            None => Some(Err(MsgError::NoSuchRequest)),
            Some(RequestState::Done(result)) => {
                let result = *result;
                self.release(id);
                Some(result)
            }
            Some(_) => None,
        }
    }

    /// All requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &RequestState)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = RequestId::new(index as u32, slot.generation);
            slot.request.as_ref().map(|request| (id, request))
        })
    }

    /// All requests.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut RequestState> {
        self.slots.iter_mut().filter_map(|slot| slot.request.as_mut())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn done(tag: i32) -> RequestState {
        RequestState::Done(Ok(Received { source: 0, tag, bytes: 0 }))
    }

    #[test]
    fn an_old_id_finds_no_newer_request() {
        let mut slab = RequestSlab::default();
        let old = slab.insert(|| done(1));
        assert!(slab.take_done(old).unwrap().is_ok());
        let new = slab.insert(|| done(2));
        assert_eq!(new.index(), old.index());
        assert!(slab.get(old).is_none() && slab.remove(old).is_none());
        assert_eq!(slab.take_done(old), Some(Err(MsgError::NoSuchRequest)));
        assert_eq!(slab.take_done(new).unwrap().unwrap().tag, 2);
    }

    /// For any order of the places, and also after the count has wrapped.
    #[test]
    fn the_first_that_was_complete_is_found() {
        let received = Received { source: 0, tag: 0, bytes: 0 };
        for completions in [0, u32::MAX - 1] {
            let mut slab = RequestSlab { completions, ..RequestSlab::default() };
            let pending = || {
                RequestState::Receive(Receive {
                    selector: Selector { source: None, tag: None, context: 0 },
                    room: 0,
                    buffer: None,
                    stage: ReceiveStage::Posted,
                    abandoned: false,
                })
            };
            let ids: Vec<RequestId> = (0..4).map(|_| slab.insert(pending)).collect();
            assert_eq!(slab.first_done(&ids), None);
            for at in [2, 0, 3] {
                slab.complete(ids[at], Ok(received));
            }
            for at in [2, 0, 3] {
                let left: Vec<RequestId> =
                    ids.iter().copied().filter(|id| slab.get(*id).is_some()).collect();
                assert_eq!(slab.first_done(&left).map(|found| left[found]), Some(ids[at]));
                slab.remove(ids[at]);
            }
            // One request that is complete when it is made, between two that complete later.
            let other = slab.insert(pending);
            slab.complete(other, Ok(received));
            let at_once = slab.insert(|| done(1));
            slab.complete(ids[1], Ok(received));
            assert_eq!(slab.first_done(&[ids[1], at_once, other]), Some(2));
            assert_eq!(slab.first_done(&[ids[1], at_once]), Some(1));
        }
    }

    #[test]
    fn ids_round_trip_and_invented_ones_find_nothing() {
        let mut slab = RequestSlab::default();
        let id = slab.insert(|| done(3));
        assert_eq!(RequestId::from_word(id.word()), id);
        for word in [u64::MAX, 1, 1 << 32] {
            assert!(slab.get(RequestId::from_word(word)).is_none());
        }
    }
}
