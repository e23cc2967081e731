//! The Receiver's operations for a task's packets, and the Sender's reads for them.
//!
//! The Receiver serves packets for any context at any time. For each packet it writes the data,
//! then a record into the log, then the pointers. So a program that sees a pointer also sees the
//! data that it counts (paper 003 §4.3). A read, swap, or compare and swap becomes the header of an
//! answer. The Sender of the same node sends it: no processor takes part.

use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::context::{Interrupt, Module, NodeContext, Processor, ReceiveBuffer, times};
use super::header::{ParcelOperation, READ_IDS, WriteDestination, WriteSource};
use super::memory::{AddressFault, PhysicalMemory};
use super::node::{COMPLETED, CenjuState, RegisterOrder, USER_SETS};
use super::packet::Span;
use crate::topology::Node;

/// Bytes of an entry of the notification buffer: its status, and a value.
pub const NOTIFICATION_BYTES: u64 = 16;

/// Bytes of a record of the log.
pub const LOG_BYTES: u64 = 16;

/// The status of a notification: answered, or the words were equal.
pub const ANSWERED: u64 = 1;
/// The status of a notification: the compared words were not equal.
pub const UNEQUAL: u64 = 2;
/// The status of a notification: the other node could not answer.
pub const REFUSED: u64 = 3;

/// A record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord {
    /// The kind of packet.
    pub kind: LogKind,
    /// Whether it is the last packet of its parcel.
    pub last: bool,
    /// The logical number of the sender.
    pub source: u16,
    /// The number of data bytes.
    pub bytes: u32,
    /// The address to which they were written.
    pub address: u64,
}

/// The kinds of packets in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Remote DMA, with or without an address register.
    Write,
    /// A message.
    Message,
    /// An atomic operation or a read of this node's memory.
    Operation,
    /// An answer.
    Answer,
}

impl LogRecord {
    /// The record as bytes in the log.
    pub fn encode(&self) -> [u8; LOG_BYTES as usize] {
        let mut bytes = [0; LOG_BYTES as usize];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.last);
        bytes[2..4].copy_from_slice(&self.source.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.address.to_le_bytes());
        bytes
    }

    /// Decodes a record. `None` if no kind of packet has this number.
    pub fn decode(bytes: &[u8; LOG_BYTES as usize]) -> Option<LogRecord> {
        let kinds = [LogKind::Write, LogKind::Message, LogKind::Operation, LogKind::Answer];
        let [_, last, s0, s1, b0, b1, b2, b3, address @ ..] = *bytes;
        Some(LogRecord {
            kind: *kinds.get(usize::from(bytes[0]))?,
            last: last != 0,
            source: u16::from_le_bytes([s0, s1]),
            bytes: u32::from_le_bytes([b0, b1, b2, b3]),
            address: u64::from_le_bytes(address),
        })
    }
}

/// The content of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A task's header.
    Operation(ParcelOperation),
    /// The answer to a read: data of this node.
    Data { source: u64, destination: u64, bytes: u64, rrid: u8 },
    /// The answer to a swap.
    Swapped { old: u64, result: u64 },
    /// The answer to a compare and swap.
    Compared { old: u64, equal: bool, rrid: u8 },
    /// No answer: an address has no page, or the context does not exist.
    Refused { rrid: Option<u8> },
}

/// A parcel with contents, in flight.
#[derive(Debug)]
pub(super) struct ParcelInFlight {
    pub(super) from: Processor,
    /// The sender's logical number.
    pub(super) number: u16,
    pub(super) to_cid: u8,
    pub(super) what: What,
    pub(super) ntf: Option<u64>,
    /// For an answer: the node that asked.
    pub(super) asker: Node,
}

/// An answer in the answer queue.
#[derive(Debug)]
pub(super) struct QueuedAnswer {
    pub(super) to: Node,
    pub(super) sending: Rc<ParcelInFlight>,
}

/// A packet with contents.
#[derive(Debug)]
pub(super) struct Carried {
    sending: Rc<ParcelInFlight>,
    /// The number of the parcel's bytes before this packet.
    offset: u64,
    bytes: Vec<u8>,
    last: bool,
}

/// The Sender's operations.
impl CenjuState {
    /// Whether the data of a packet can be read. If not, reports that to the operating system.
    pub(super) fn reads(&self, node: Node, content: Option<&ParcelInFlight>, source: u64) -> bool {
        let Some(sending) = content else { return true };
        let page = self.costs.memory.page_bytes;
        let mut contexts = self.nodes[node as usize].contexts.borrow_mut();
        let Some(context) = contexts.get_mut(&sending.from.cid) else { return false };
        match context.segments.translate(source, page) {
            Ok(_) => true,
            Err(fault) => {
                context.interrupt(Interrupt::Fault(Module::Sender, fault));
                false
            }
        }
    }

    /// A packet with its bytes, which the Sender reads now. Within a packet physical addresses are
    /// contiguous, even if an odd word lies behind the end of its page.
    pub(super) fn carried(
        &self,
        sending: &Rc<ParcelInFlight>,
        write: Option<Span>,
        offset: u64,
        last: bool,
    ) -> Rc<Carried> {
        let interface = &self.nodes[sending.from.node as usize];
        let bytes = match (sending.what, write) {
            (
                What::Operation(ParcelOperation::Write {
                    source: WriteSource::Inline(data),
                    bytes,
                    ..
                }),
                _,
            ) => data.to_le_bytes()[..(bytes as usize).min(8)].to_vec(),
            (
                What::Operation(ParcelOperation::Write { bytes, .. }) | What::Data { bytes, .. },
                Some(span),
            ) if bytes > 0 => {
                let mut data = vec![0; span.bytes as usize];
                let contexts = interface.contexts.borrow();
                let context = contexts.get(&sending.from.cid);
                let page = self.costs.memory.page_bytes;
                let found = context.map(|context| context.segments.translate(span.source, page));
                if let Some(Ok(address)) = found {
                    interface.memory.borrow().read(address, &mut data);
                }
                data
            }
            _ => Vec::new(),
        };
        Rc::new(Carried { sending: Rc::clone(sending), offset, bytes, last })
    }

    /// Ends a parcel: its last packet has left, or there was a fault (`whole` is false).
    pub(super) fn parcel_sent(&self, sending: &Rc<ParcelInFlight>, whole: bool) {
        let Processor { node, cid } = sending.from;
        match sending.what {
            What::Operation(_) => {}
            What::Data { rrid, .. } if !whole => {
                let to = Processor { node: sending.asker, cid: sending.to_cid };
                return self.answer(sending.from, to, What::Refused { rrid: Some(rrid) });
            }
            _ => return,
        }
        if let (Some(address), true) = (sending.ntf, whole) {
            let memory = &self.costs.memory;
            let at = self.sim.now() + memory.query + memory.word;
            let state = self.handle();
            self.sim.at(at, move |_| {
                let bytes = COMPLETED.to_le_bytes();
                state.with_context(Processor { node, cid }, |context, memory, page| {
                    if let Err(fault) = store(context, memory, page, address, &bytes) {
                        context.interrupt(Interrupt::Fault(Module::Sender, fault));
                    }
                    context.changed.raise();
                });
            });
        }
        self.parcel_done(node, cid);
    }

    /// Counts a parcel of a context's queue as finished, sent or refused.
    pub(super) fn parcel_done(&self, node: Node, cid: u8) {
        self.with_context(Processor { node, cid }, |context, _, _| {
            context.sending -= 1;
            if context.sending == 0 && context.queue.len() == 0 {
                context.interrupt(Interrupt::QueueEmpty);
            }
        });
    }

    /// Takes a place among the unanswered requests. Waits until one is free.
    pub(super) async fn begin_request(&self, node: Node) {
        let interface = &self.nodes[node as usize];
        loop {
            let seen = interface.answered.count();
            if interface.unanswered.get() < self.most_unanswered() {
                interface.unanswered.set(interface.unanswered.get() + 1);
                return;
            }
            interface.answered.reaches(seen + 1).await;
        }
    }

    /// The limit of a node's unanswered requests: a node's answer queue has room for all nodes'.
    pub(super) fn most_unanswered(&self) -> u64 {
        let share = self.answer_headers() as u64 / self.nodes.len() as u64;
        self.costs.interface.outstanding_reads.min(share).clamp(1, u64::from(READ_IDS))
    }

    fn answer_headers(&self) -> usize {
        let interface = &self.costs.interface;
        (interface.answer_queue_bytes / interface.parcel_header_bytes) as usize
    }
}

/// The Receiver's operations.
impl CenjuState {
    /// The Receiver's time for a packet with contents.
    pub(super) fn accept_content(&self, node: Node, carried: &Carried) -> Time {
        let memory = &self.costs.memory;
        let sending = &carried.sending;
        let (address, bytes) = match sending.what {
            What::Operation(ParcelOperation::Write { place, .. }) => {
                let context_address =
                    self.with_context(Processor { node, cid: sending.to_cid }, |context, _, _| {
                        match place {
                            WriteDestination::Address(address) => address,
                            WriteDestination::Register(number) => {
                                context.entry.registers[usize::from(number)]
                            }
                            WriteDestination::Message(number) => {
                                let area = context.message_buffers[usize::from(number)];
                                let pointer = context.entry.messages[usize::from(number)];
                                area.address + pointer % area.bytes.max(1)
                                    - carried.offset.min(pointer)
                            }
                        }
                    });
                (context_address.unwrap_or(0) + carried.offset, carried.bytes.len() as u64)
            }
            What::Operation(operation) => {
                let answer = match operation.is_answered() {
                    true => memory.query + times(memory.word, 4),
                    false => Time::ZERO,
                };
                return self.accept_time(node, sending.to_cid, None, carried.last) + answer;
            }
            What::Data { destination, .. } => {
                (destination + carried.offset, carried.bytes.len() as u64)
            }
            What::Swapped { .. } | What::Compared { .. } | What::Refused { .. } => (0, 8),
        };
        let write = Span { source: 0, destination: address, bytes };
        self.accept_time(node, sending.to_cid, Some(write), carried.last)
    }

    /// Performs the operation of a packet.
    pub(super) fn land(&self, node: Node, carried: &Carried) {
        let sending = &carried.sending;
        let to = Processor { node, cid: sending.to_cid };
        let known = self.with_context(to, |context, memory, page| {
            let landed = deliver(context, memory, page, carried);
            match landed {
                Ok((kind, address, answer)) => {
                    log(context, memory, page, carried, (kind, address));
                    context.changed.raise();
                    answer
                }
                Err(fault) => {
                    context.interrupt(Interrupt::Fault(Module::Receiver, fault));
                    context.changed.raise();
                    refusal(&sending.what)
                }
            }
        });
        // A context that does not exist accepts nothing. The asking node still gets an answer.
        let answer = known.unwrap_or_else(|| refusal(&sending.what));
        if let Some(what) = answer {
            self.answer(to, sending.from, what);
        }
        if carried.last && !matches!(sending.what, What::Operation(_)) {
            let interface = &self.nodes[node as usize];
            interface.unanswered.set(interface.unanswered.get().saturating_sub(1));
            interface.answered.raise();
        }
    }

    /// Puts the header of an answer into the answer queue.
    fn answer(&self, from: Processor, to: Processor, what: What) {
        let interface = &self.nodes[from.node as usize];
        let number = self.with_context(from, |context, _, _| context.number).unwrap_or(0);
        let (to_cid, ntf, asker) = (to.cid, None, to.node);
        let sending = Rc::new(ParcelInFlight { from, number, to_cid, what, ntf, asker });
        let queue = &interface.sets[USER_SETS];
        queue.admit(RegisterOrder::Answer(QueuedAnswer { to: to.node, sending }));
        interface.most_answers.set(interface.most_answers.get().max(queue.len()));
        debug_assert!(queue.len() <= self.answer_headers(), "requests are limited to what fits");
    }

    /// Runs `work` on a context, with its node's memory and the page size, if the context exists.
    pub(super) fn with_context<R>(
        &self,
        at: Processor,
        work: impl FnOnce(&mut NodeContext, &mut PhysicalMemory, u64) -> R,
    ) -> Option<R> {
        let interface = self.nodes.get(at.node as usize)?;
        let (mut contexts, mut memory) =
            (interface.contexts.borrow_mut(), interface.memory.borrow_mut());
        let context = contexts.get_mut(&at.cid)?;
        Some(work(context, &mut memory, self.costs.memory.page_bytes))
    }
}

/// The answer to a packet that cannot be served; `None` if no task waits for an answer.
fn refusal(what: &What) -> Option<What> {
    match what {
        What::Operation(
            ParcelOperation::Read { rrid, .. } | ParcelOperation::CompareSwap { rrid, .. },
        ) => Some(What::Refused { rrid: Some(*rrid) }),
        What::Operation(ParcelOperation::Swap { .. }) => Some(What::Refused { rrid: None }),
        _ => None,
    }
}

/// The result of a packet: its kind, the address of the write, and the answer to send.
type Landed = Result<(LogKind, u64, Option<What>), AddressFault>;

fn deliver(
    context: &mut NodeContext,
    memory: &mut PhysicalMemory,
    page: u64,
    carried: &Carried,
) -> Landed {
    let bytes = &carried.bytes;
    match carried.sending.what {
        What::Operation(operation) => operate(context, memory, page, (operation, carried)),
        What::Data { destination, rrid, .. } => {
            let address = destination + carried.offset;
            store(context, memory, page, address, bytes)?;
            if carried.last {
                notify(context, memory, page, (rrid, ANSWERED, 0))?;
            }
            Ok((LogKind::Answer, address, None))
        }
        What::Swapped { old, result } => {
            store(context, memory, page, result, &old.to_le_bytes())?;
            Ok((LogKind::Answer, result, None))
        }
        What::Compared { old, equal, rrid } => {
            let status = if equal { ANSWERED } else { UNEQUAL };
            let address = notify(context, memory, page, (rrid, status, old))?;
            Ok((LogKind::Answer, address, None))
        }
        What::Refused { rrid } => {
            context.interrupt(Interrupt::Unanswered);
            let address = match rrid {
                Some(rrid) => notify(context, memory, page, (rrid, REFUSED, 0))?,
                None => 0,
            };
            Ok((LogKind::Answer, address, None))
        }
    }
}

/// Performs the operation of a packet of a task's own parcel.
fn operate(
    context: &mut NodeContext,
    memory: &mut PhysicalMemory,
    page: u64,
    (operation, carried): (ParcelOperation, &Carried),
) -> Landed {
    let bytes = &carried.bytes;
    match operation {
        ParcelOperation::Write { place, .. } => {
            let address = match place {
                WriteDestination::Address(address) => address + carried.offset,
                WriteDestination::Register(number) => {
                    context.entry.registers[usize::from(number)] + carried.offset
                }
                WriteDestination::Message(number) => {
                    let address = store_message(context, memory, page, number, bytes)?;
                    return Ok((LogKind::Message, address, None));
                }
            };
            store(context, memory, page, address, bytes)?;
            Ok((LogKind::Write, address, None))
        }
        ParcelOperation::Add { value, destination } => {
            let old = load(context, memory, page, destination)?;
            let new = old.wrapping_add(value);
            store(context, memory, page, destination, &new.to_le_bytes())?;
            Ok((LogKind::Operation, destination, None))
        }
        ParcelOperation::Read { source, destination, bytes, rrid } => {
            context.segments.parts(source, bytes, page)?;
            let answer = What::Data { source, destination, bytes, rrid };
            Ok((LogKind::Operation, source, Some(answer)))
        }
        ParcelOperation::Swap { destination, value, result } => {
            let old = load(context, memory, page, destination)?;
            store(context, memory, page, destination, &value.to_le_bytes())?;
            Ok((LogKind::Operation, destination, Some(What::Swapped { old, result })))
        }
        ParcelOperation::CompareSwap { destination, expected, value, rrid } => {
            let old = load(context, memory, page, destination)?;
            let equal = old == expected;
            if equal {
                store(context, memory, page, destination, &value.to_le_bytes())?;
            }
            let answer = What::Compared { old, equal, rrid };
            Ok((LogKind::Operation, destination, Some(answer)))
        }
        ParcelOperation::Synchronise => Ok((LogKind::Operation, 0, None)),
    }
}

/// Writes to a message buffer, with wrap-around at its end. Then advances its pointer by whole
/// double words. Returns the address.
fn store_message(
    context: &mut NodeContext,
    memory: &mut PhysicalMemory,
    page: u64,
    number: u8,
    bytes: &[u8],
) -> Result<u64, AddressFault> {
    let index = usize::from(number);
    let (area, pointer) = (context.message_buffers[index], context.entry.messages[index]);
    let at = pointer % area.bytes.max(1);
    let address = area.address + at;
    let first = bytes.len().min((area.bytes - at) as usize);
    store(context, memory, page, address, &bytes[..first])?;
    store(context, memory, page, area.address, &bytes[first..])?;
    context.advance(ReceiveBuffer::Message(number), (bytes.len() as u64).next_multiple_of(8));
    Ok(address)
}

/// Writes an entry of the notification buffer. Returns its address.
fn notify(
    context: &NodeContext,
    memory: &mut PhysicalMemory,
    page: u64,
    (rrid, status, value): (u8, u64, u64),
) -> Result<u64, AddressFault> {
    let address = context.entry.notifications + u64::from(rrid) * NOTIFICATION_BYTES;
    store(context, memory, page, address + 8, &value.to_le_bytes())?;
    store(context, memory, page, address, &status.to_le_bytes())?;
    Ok(address)
}

/// Writes a record to the log, if the context has one, and advances its pointer.
fn log(
    context: &mut NodeContext,
    memory: &mut PhysicalMemory,
    page: u64,
    carried: &Carried,
    (kind, address): (LogKind, u64),
) {
    if context.log.bytes < LOG_BYTES {
        return;
    }
    let (last, source, bytes) = (carried.last, carried.sending.number, carried.bytes.len() as u32);
    let record = LogRecord { kind, last, source, bytes, address };
    let to = context.log.address + context.entry.log % context.log.bytes;
    match store(context, memory, page, to, &record.encode()) {
        Ok(()) => drop(context.advance(ReceiveBuffer::Log, LOG_BYTES)),
        Err(fault) => context.interrupt(Interrupt::Fault(Module::Receiver, fault)),
    }
}

fn load(
    context: &NodeContext,
    memory: &PhysicalMemory,
    page: u64,
    address: u64,
) -> Result<u64, AddressFault> {
    let mut word = [0; 8];
    fetch(context, memory, page, address, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Reads a context's memory.
pub(super) fn fetch(
    context: &NodeContext,
    memory: &PhysicalMemory,
    page: u64,
    address: u64,
    into: &mut [u8],
) -> Result<(), AddressFault> {
    let mut rest = into;
    for (from, length) in context.segments.parts(address, rest.len() as u64, page)? {
        let (part, after) = rest.split_at_mut(length);
        memory.read(from, part);
        rest = after;
    }
    Ok(())
}

/// Writes a context's memory: everything, or nothing if a page is missing.
pub(super) fn store(
    context: &NodeContext,
    memory: &mut PhysicalMemory,
    page: u64,
    address: u64,
    bytes: &[u8],
) -> Result<(), AddressFault> {
    let mut rest = bytes;
    for (to, length) in context.segments.parts(address, rest.len() as u64, page)? {
        let (part, after) = rest.split_at(length);
        memory.write(to, part);
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cj_08_a_record_of_the_log_keeps_its_fields() {
        for kind in [LogKind::Write, LogKind::Message, LogKind::Operation, LogKind::Answer] {
            let record = LogRecord { kind, last: true, source: 4095, bytes: 256, address: 1 << 40 };
            assert_eq!(LogRecord::decode(&record.encode()), Some(record));
        }
        assert_eq!(LogRecord::decode(&[9; LOG_BYTES as usize]), None);
    }
}
