//! A command queue (CQ) of a TNI: nic's queue with its three pointers, and its descriptors.
//!
//! Only [`CommandQueue`] decides which command may run when. The engine requests the next one, the
//! receiving side releases slots, and the host writes.

use hikyaku_nic::ring::{CommandQueue, CommandSlot, Descriptor, QueueFull, QueuePointers, Setup};

use crate::engine::Signal;
use crate::topology::Node;

/// The address of a node's queue, the target of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TofuQueueAddress {
    /// The node.
    pub node: Node,
    /// The number on that node: `engine × queues of an engine + queue`.
    pub queue: u32,
}

/// The command of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorCommand {
    /// No operation (RDMA NOP).
    Nop,
    /// Write `bytes` to another node's memory (RDMA Put).
    Put {
        /// The queue whose engine receives it. It may be a queue of the sender.
        to: TofuQueueAddress,
        /// Payload.
        bytes: u64,
        /// The slots by which the addressed queue's scheduling pointer advances (SPS field).
        release: u32,
        /// Whether it leaves an event in the addressed queue's MRQ.
        notify: bool,
    },
    /// Write `bytes`, a message of a job, and notify the job (RDMA Put with its number as the
    /// event).
    Message {
        /// The queue whose engine receives it.
        to: TofuQueueAddress,
        /// Payload.
        bytes: u64,
        /// The job's number for the message.
        token: u64,
    },
}

const PUT: u64 = 1;
const MESSAGE: u64 = 2;
const KIND: u64 = 0xFF;
const NOTIFY: u64 = 1 << 8;

impl DescriptorCommand {
    /// The words of a descriptor: kind and flags with the node above them, queue, bytes, release.
    fn encode(self) -> Descriptor {
        let mut words = Descriptor::default();
        let (kind, to, bytes, last) = match self {
            DescriptorCommand::Nop => return words,
            DescriptorCommand::Put { to, bytes, release, notify } => {
                let notify = if notify { NOTIFY } else { 0 };
                (notify | PUT, to, bytes, u64::from(release))
            }
            DescriptorCommand::Message { to, bytes, token } => (MESSAGE, to, bytes, token),
        };
        words.0[0] = u64::from(to.node) << 32 | kind;
        words.0[1] = u64::from(to.queue);
        words.0[2] = bytes;
        words.0[3] = last;
        words
    }

    fn decode(Descriptor(words): Descriptor) -> DescriptorCommand {
        let to = TofuQueueAddress { node: (words[0] >> 32) as Node, queue: words[1] as u32 };
        let bytes = words[2];
        match words[0] & KIND {
            PUT => {
                let (release, notify) = (words[3] as u32, words[0] & NOTIFY != 0);
                DescriptorCommand::Put { to, bytes, release, notify }
            }
            MESSAGE => DescriptorCommand::Message { to, bytes, token: words[3] },
            _ => DescriptorCommand::Nop,
        }
    }
}

/// One queue: TOQ, and the counts of its TCQ and MRQ.
#[derive(Debug)]
pub(super) struct EngineQueue {
    pointers: QueuePointers,
    slots: Vec<CommandSlot>,
    session: bool,
    /// The number of completed commands (entries ever written to the TCQ).
    pub(super) completions: Signal,
    /// The number of puts that requested an event (entries ever written to the MRQ).
    pub(super) events: Signal,
}

impl EngineQueue {
    /// An empty queue of this many slots. In session mode its scheduling pointer is `offset` slots
    /// ahead of its read pointer.
    pub(super) fn new(slots: u32, session: Option<u32>, signals: [Signal; 2]) -> EngineQueue {
        let [completions, events] = signals;
        let pointers = QueuePointers::default();
        let setup = Setup { session: session.is_some(), generation: 0, slots };
        pointers.open(setup, session.unwrap_or(0));
        let slots = (0..slots.max(1)).map(|_| CommandSlot::default()).collect();
        EngineQueue { pointers, slots, session: session.is_some(), completions, events }
    }

    fn toq(&self) -> CommandQueue<'_> {
        CommandQueue::new(&self.pointers, &self.slots, self.session)
    }

    /// Writes a chain of descriptors and moves the write pointer once.
    pub(super) fn write(&self, chain: &[DescriptorCommand]) -> Result<(), QueueFull> {
        let descriptors: Vec<Descriptor> = chain.iter().map(|command| command.encode()).collect();
        self.toq().write(&descriptors)
    }

    /// The command at the read pointer, if it may run.
    pub(super) fn next(&self) -> Option<DescriptorCommand> {
        self.toq().next().map(DescriptorCommand::decode)
    }

    /// Moves the read pointer past the executed command, and raises the completion signal.
    pub(super) fn complete(&self) {
        self.toq().complete();
        self.completions.raise();
    }

    /// Advances the scheduling pointer, as a put with that SPS field does.
    ///
    /// # Panics
    /// If the pointer would lead by more than 2^24: the program does not bound its releases.
    pub(super) fn release(&self, slots: u32) {
        self.toq().release(slots).expect("programs release what they write");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_gives_back_its_command() {
        let to = TofuQueueAddress { node: 35, queue: 47 };
        let put = |bytes, release, notify| DescriptorCommand::Put { to, bytes, release, notify };
        let message = DescriptorCommand::Message { to, bytes: 8, token: 1 << 40 };
        for command in
            [DescriptorCommand::Nop, put(0, 0, false), put(u64::MAX, u32::MAX, true), message]
        {
            assert_eq!(DescriptorCommand::decode(command.encode()), command);
        }
    }
}
