//! The state of a node for each communication id (cid): queue, tables, and buffer table entry.
//!
//! ```text
//!   task ──write──► header queue ──► Sender      node, multicast, sync header tables: by the OS
//!   task ──reads──► buffer table entry (64 B) ◄── Receiver
//!                   message buffer 0, 1 · address register 0, 1, 2 · rr base · - · log
//! ```
//!
//! Pointers are counts of bytes that never decrease. A place in a buffer is the pointer modulo the
//! buffer's size. The paper does not define an overrun of a buffer. Here the oldest bytes are
//! overwritten; the interrupt at each quarter serves to prevent that.

use hikyaku_nic::time::Time;

use super::header::{HEADER_BYTES, HeaderError, LOGICAL_NUMBERS};
use super::memory::{AddressFault, Segments};
use crate::engine::{Mailbox, Signal, Sim};
use crate::topology::Node;

/// The permitted sizes of a header queue, bytes (paper 003 §4.2).
pub(super) const QUEUE_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 10;

/// The number of a context's interrupts that wait for its task. Further ones are only counted.
const INTERRUPTS: usize = 256;

/// A context of a node: the physical destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Processor {
    /// The node, 10 bits.
    pub node: Node,
    /// The communication id, 8 bits.
    pub cid: u8,
}

/// A range of a context's logical addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddressArea {
    /// Its first address.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

/// The buffers with interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveBuffer {
    /// Message buffer 0 or 1.
    Message(u8),
    /// The log.
    Log,
}

/// The module in which a fault occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// The Sender, for the parcel's data or its notification.
    Sender,
    /// The Receiver of this context.
    Receiver,
}

/// The reports of the interface to the operating system about a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// A header was refused. Nothing of its parcel was sent.
    Rejected(HeaderError),
    /// An address has no page. The rest of the parcel, or this packet, was dropped.
    Fault(Module, AddressFault),
    /// The other node could not perform a read, swap or compare and swap.
    Unanswered,
    /// The header queue is empty, and the last packet of the last parcel has been sent.
    QueueEmpty,
    /// A buffer's pointer has passed another quarter of it.
    Quarter {
        /// The buffer.
        buffer: ReceiveBuffer,
        /// The number of quarters passed so far.
        quarters: u64,
    },
}

/// The buffer table's entry of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferEntry {
    /// Bytes written so far to the message buffers.
    pub messages: [u64; 2],
    /// The address registers.
    pub registers: [u64; 3],
    /// The address for the notifications of answers.
    pub notifications: u64,
    /// Bytes written so far to the log.
    pub log: u64,
}

impl BufferEntry {
    /// The entry as 64 bytes in memory.
    pub fn encode(&self) -> [u8; 64] {
        let [m0, m1] = self.messages;
        let [a0, a1, a2] = self.registers;
        let mut bytes = [0; 64];
        let words = [m0, m1, a0, a1, a2, self.notifications, 0, self.log];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The processors of a multicast header: a map of 64 bits and the number of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MulticastHeader {
    pub(super) nodes: Vec<Node>,
    pub(super) cid: u8,
}

/// The number of nodes that a multicast or synchronisation header can name.
pub(super) const GROUP: u32 = 64;

/// A task's headers in memory, with free-running pointers that count headers.
#[derive(Debug)]
pub(super) struct HeaderQueue {
    bytes: Vec<u8>,
    write: u64,
    read: u64,
}

impl HeaderQueue {
    fn new(bytes: u64) -> HeaderQueue {
        HeaderQueue { bytes: vec![0; bytes as usize], write: 0, read: 0 }
    }

    fn place(&self, pointer: u64) -> usize {
        (pointer as usize * HEADER_BYTES) % self.bytes.len()
    }

    /// The number of waiting headers.
    pub(super) fn len(&self) -> u64 {
        self.write - self.read
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() as usize * HEADER_BYTES == self.bytes.len()
    }

    /// The task's operation: writes a header, then the pointer.
    pub(super) fn push(&mut self, header: &[u8; HEADER_BYTES]) {
        let place = self.place(self.write);
        self.bytes[place..place + HEADER_BYTES].copy_from_slice(header);
        self.write += 1;
    }

    /// The Read Header Module's operation: takes the next header.
    pub(super) fn pop(&mut self) -> Option<[u8; HEADER_BYTES]> {
        let place = self.place(self.read);
        (self.read < self.write).then(|| self.read += 1)?;
        self.bytes[place..place + HEADER_BYTES].try_into().ok()
    }
}

/// The state that a node keeps for one context.
#[derive(Debug)]
pub(super) struct NodeContext {
    pub(super) queue: HeaderQueue,
    pub(super) nodes: Vec<Processor>,
    pub(super) groups: Vec<MulticastHeader>,
    pub(super) syncs: Vec<u8>,
    /// By synchronisation id: the number of finished barriers.
    pub(super) synchronised: std::collections::BTreeMap<u8, u64>,
    pub(super) segments: Segments,
    pub(super) entry: BufferEntry,
    pub(super) message_buffers: [AddressArea; 2],
    pub(super) log: AddressArea,
    /// The control register set of the Sender that holds the queue.
    pub(super) loaded: Option<usize>,
    /// The number of parcels that have left the queue and have not been sent completely.
    pub(super) sending: u64,
    /// The number that the context's packets carry as their source.
    pub(super) number: u16,
    pub(super) interrupts: Mailbox<Interrupt>,
    pub(super) lost_interrupts: u64,
    /// Raised whenever the interface writes the context's memory or entry.
    pub(super) changed: Signal,
    /// Raised when a header leaves the queue.
    pub(super) room: Signal,
}

impl NodeContext {
    pub(super) fn new(sim: &Sim, queue_bytes: u64) -> NodeContext {
        NodeContext {
            queue: HeaderQueue::new(queue_bytes),
            nodes: Vec::new(),
            groups: Vec::new(),
            syncs: Vec::new(),
            synchronised: std::collections::BTreeMap::new(),
            segments: Segments::default(),
            entry: BufferEntry::default(),
            message_buffers: [AddressArea::default(); 2],
            log: AddressArea::default(),
            loaded: None,
            sending: 0,
            number: 0,
            interrupts: Mailbox::new(sim, INTERRUPTS, "an interrupt"),
            lost_interrupts: 0,
            changed: Signal::new(sim, "a write of the interface"),
            room: Signal::new(sim, "room in a header queue"),
        }
    }

    /// Reports an interrupt to the operating system.
    pub(super) fn interrupt(&mut self, interrupt: Interrupt) {
        if self.interrupts.post(interrupt).is_err() {
            self.lost_interrupts += 1;
        }
    }

    /// Adds an entry to a destination table. Returns its offset.
    pub(super) fn offset<T>(table: &mut Vec<T>, entry: T) -> Option<u16> {
        let offset = u16::try_from(table.len()).ok().filter(|&at| at < LOGICAL_NUMBERS)?;
        table.push(entry);
        Some(offset)
    }

    /// Advances a buffer's pointer, and reports each quarter that it passes. Returns the place
    /// before.
    pub(super) fn advance(&mut self, buffer: ReceiveBuffer, by: u64) -> (AddressArea, u64) {
        let (area, pointer) = match buffer {
            ReceiveBuffer::Message(number) => {
                let number = usize::from(number);
                (self.message_buffers[number], &mut self.entry.messages[number])
            }
            ReceiveBuffer::Log => (self.log, &mut self.entry.log),
        };
        let before = *pointer;
        *pointer += by;
        let quarter = (area.bytes / 4).max(1);
        let (passed, quarters) = (before / quarter, *pointer / quarter);
        if quarters > passed {
            self.interrupt(Interrupt::Quarter { buffer, quarters });
        }
        (area, before)
    }
}

/// The time of a number of equal steps.
pub(super) fn times(span: Time, count: u64) -> Time {
    Time::from_picoseconds(span.picoseconds().saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cj_01_a_queue_of_4_kb_holds_128_headers_and_wraps() {
        let mut queue = HeaderQueue::new(4 << 10);
        for round in 0..3_u8 {
            for number in 0..128 {
                assert!(!queue.is_full());
                queue.push(&[number ^ round; HEADER_BYTES]);
            }
            assert!(queue.is_full());
            for number in 0..128 {
                assert_eq!(queue.pop(), Some([number ^ round; HEADER_BYTES]));
            }
            assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn cj_07_an_entry_is_64_bytes_of_eight_fields() {
        let entry =
            BufferEntry { messages: [1, 2], registers: [3, 4, 5], notifications: 6, log: 8 };
        let bytes = entry.encode();
        let words: Vec<u8> = bytes.chunks_exact(8).map(|word| word[0]).collect();
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 0, 8]);
    }
}
