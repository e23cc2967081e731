//! A task's view of the interface: its memory, its header queue, and the words that it polls; and
//! the calls of the operating system around it.
//!
//! ```text
//!   system calls   create_task · map · node_table · multicast · synchronisation · buffers
//!                  schedule (the processor) · load, unload (a register set of the Sender)
//!   task           write, read (its memory) · send (header, write pointer) · set_register
//!                  entry, wait_word, wait_until, interrupt (polling, and what the OS passes on)
//! ```

use std::rc::Rc;

use super::context::{
    AddressArea, BufferEntry, GROUP, Interrupt, MulticastHeader, NodeContext, Processor,
    QUEUE_BYTES, ReceiveBuffer,
};
use super::header::{
    HEADER_BYTES, Header, LOGICAL_NUMBERS, PacketTarget, ParcelOperation, WriteDestination,
};
use super::memory::{AddressFault, SEGMENTS};
use super::node::{CenjuSystem, RegisterOrder, USER_SETS};
use super::packet::Span;
use super::receive::{LOG_BYTES, LogRecord, fetch, store};
use crate::network::{SyncError, SyncNetwork, SyncParameters};
use crate::topology::{Multistage, Node};

/// A task's handle on its context of a node.
#[derive(Debug, Clone)]
pub struct ContextTask {
    system: CenjuSystem,
    at: Processor,
}

/// The reasons why a system call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The machine has no such node.
    #[error("the machine has no node {node}")]
    NoSuchNode {
        /// The requested node.
        node: Node,
    },
    /// Another task has this context.
    #[error("context {cid} of node {node} is in use")]
    InUse {
        /// The node.
        node: Node,
        /// The context.
        cid: u8,
    },
    /// Header queues have 4 to 64 KB.
    #[error("a header queue has 4 to 64 KB in whole headers, not {bytes} B")]
    QueueSize {
        /// The requested size.
        bytes: u64,
    },
    /// There are four segments.
    #[error("a context has segments 0 to 3, not {segment}")]
    NoSuchSegment {
        /// The requested segment.
        segment: usize,
    },
    /// Both register sets of the Sender hold other queues.
    #[error("both control register sets of the Sender hold other tasks' queues")]
    NoRegisterSet,
    /// The Sender has not finished with this queue; wait for [`Interrupt::QueueEmpty`].
    #[error("the Sender still works on this queue; wait until it is empty")]
    Busy,
    /// Another task has the processor.
    #[error("address registers belong to the task that has the processor")]
    NotRunning,
    /// A destination table is full, or would need more than 12 bits for its entries.
    #[error("a destination table has room for 4,096 entries")]
    TableFull,
    /// The members of a multicast are not of one group of 64 nodes.
    #[error("a multicast reaches nodes of one group of 64; use several")]
    ManyGroups,
    /// The members of a multicast have different contexts, or a member is unknown.
    #[error("the members of a group must be in the node table, with one context and a node each")]
    BadMembers,
    /// The switches refuse the barrier.
    #[error(transparent)]
    Barrier(#[from] SyncError),
    /// A buffer or the notification area is invalid.
    #[error("a buffer must begin at a double word and have whole quarters of double words")]
    BadArea,
}

impl CenjuSystem {
    /// Operating system: gives a context of a node to a new task, with a header queue of this many
    /// bytes. Its tables are empty, and no register set of the Sender holds its queue.
    ///
    /// # Errors
    /// [`TaskError::NoSuchNode`], [`TaskError::InUse`], [`TaskError::QueueSize`].
    pub fn create_task(&self, at: Processor, queue_bytes: u64) -> Result<ContextTask, TaskError> {
        let Processor { node, cid } = at;
        let Some(interface) = self.0.nodes.get(node as usize) else {
            return Err(TaskError::NoSuchNode { node });
        };
        if !QUEUE_BYTES.contains(&queue_bytes) || !queue_bytes.is_multiple_of(HEADER_BYTES as u64) {
            return Err(TaskError::QueueSize { bytes: queue_bytes });
        }
        let mut contexts = interface.contexts.borrow_mut();
        if contexts.contains_key(&cid) {
            return Err(TaskError::InUse { node, cid });
        }
        contexts.insert(cid, NodeContext::new(&self.0.sim, queue_bytes));
        drop(contexts);
        self.start_sets();
        Ok(ContextTask { system: self.clone(), at })
    }

    /// Allocates `count` contiguous pages of a node's memory. Returns the first.
    pub fn allocate(&self, node: Node, count: u64) -> u64 {
        *self.0.nodes[node as usize].memory.borrow_mut().allocate(count).start()
    }

    /// The maximum number of unanswered requests of a node.
    pub fn most_unanswered(&self) -> u64 {
        self.0.most_unanswered()
    }

    /// The number of unanswered requests of a node.
    pub fn unanswered(&self, node: Node) -> u64 {
        self.0.nodes[node as usize].unanswered.get()
    }

    /// The maximum number of answers that have waited in a node's answer queue at once.
    pub fn most_answers(&self, node: Node) -> usize {
        self.0.nodes[node as usize].most_answers.get()
    }

    /// Starts reading the second user set and the answers at all nodes, once.
    fn start_sets(&self) {
        for (node, interface) in (0..).zip(&self.0.nodes) {
            if !interface.started.replace(true) {
                (1..=USER_SETS).for_each(|set| self.read_set(node, set));
            }
        }
    }
}

/// Calls of the operating system.
impl ContextTask {
    /// The node and the context of the task.
    pub fn processor(&self) -> Processor {
        self.at
    }

    /// Maps pages from number `first` of a segment on to physical pages. `None` leaves a page
    /// unmapped.
    ///
    /// # Errors
    /// [`TaskError::NoSuchSegment`].
    pub fn map(&self, segment: usize, first: u64, frames: &[Option<u64>]) -> Result<(), TaskError> {
        if segment >= SEGMENTS {
            return Err(TaskError::NoSuchSegment { segment });
        }
        self.with(|context| context.segments.set(segment, first, frames));
        let interface = &self.system.0.nodes[self.at.node as usize];
        interface.send_tlb.borrow_mut().clear();
        interface.receive_tlb.borrow_mut().clear();
        Ok(())
    }

    /// Maps `pages` new pages from number 0 of a segment on.
    ///
    /// # Errors
    /// [`TaskError::NoSuchSegment`].
    pub fn map_new(&self, segment: usize, pages: u64) -> Result<(), TaskError> {
        let first = self.system.allocate(self.at.node, pages);
        let frames: Vec<Option<u64>> = (first..first + pages).map(Some).collect();
        self.map(segment, 0, &frames)
    }

    /// Sets the node table: the processor of each logical number of the job, and the number of this
    /// task.
    ///
    /// # Errors
    /// [`TaskError::TableFull`], [`TaskError::NoSuchNode`].
    pub fn node_table(&self, table: &[Processor], own: u16) -> Result<(), TaskError> {
        if table.len() > usize::from(LOGICAL_NUMBERS) {
            return Err(TaskError::TableFull);
        }
        let nodes = self.system.0.nodes.len();
        if let Some(&Processor { node, .. }) = table.iter().find(|to| to.node as usize >= nodes) {
            return Err(TaskError::NoSuchNode { node });
        }
        self.with(|context| {
            context.nodes = table.to_vec();
            context.number = own;
        });
        Ok(())
    }

    /// Registers a multicast header for these logical numbers. Returns its offset in the table.
    ///
    /// # Errors
    /// [`TaskError::ManyGroups`], [`TaskError::BadMembers`], [`TaskError::TableFull`].
    pub fn register_multicast(&self, members: &[u16]) -> Result<u16, TaskError> {
        let places = self.members(members)?;
        let (group, cid) = (places[0].node / GROUP, places[0].cid);
        if places.iter().any(|place| place.node / GROUP != group) {
            return Err(TaskError::ManyGroups);
        }
        if places.iter().any(|place| place.cid != cid) {
            return Err(TaskError::BadMembers);
        }
        let nodes = places.iter().map(|place| place.node).collect();
        let header = MulticastHeader { nodes, cid };
        self.with(|context| NodeContext::offset(&mut context.groups, header))
            .ok_or(TaskError::TableFull)
    }

    /// Registers a synchronisation header for these logical numbers and a synchronisation id.
    /// Returns its offset. Every member registers the same.
    ///
    /// # Errors
    /// [`TaskError::Barrier`], [`TaskError::BadMembers`], [`TaskError::TableFull`].
    pub fn register_sync(&self, members: &[u16], sid: u8) -> Result<u16, TaskError> {
        let mut nodes: Vec<Node> = self.members(members)?.iter().map(|place| place.node).collect();
        nodes.sort_unstable();
        let switches = self.switches()?;
        let mut barriers = self.system.0.barriers.borrow_mut();
        match barriers.get(&sid) {
            Some(known) if *known == nodes => {}
            _ => {
                switches.set_up(sid, &nodes)?;
                barriers.insert(sid, nodes);
            }
        }
        drop(barriers);
        self.with(|context| NodeContext::offset(&mut context.syncs, sid))
            .ok_or(TaskError::TableFull)
    }

    /// Sets a message buffer or the log.
    ///
    /// # Errors
    /// [`TaskError::BadArea`].
    pub fn set_buffer(&self, buffer: ReceiveBuffer, area: AddressArea) -> Result<(), TaskError> {
        let unit = if buffer == ReceiveBuffer::Log { LOG_BYTES } else { 8 };
        if area.bytes == 0
            || !area.bytes.is_multiple_of(4 * unit)
            || !area.address.is_multiple_of(8)
            || matches!(buffer, ReceiveBuffer::Message(2..))
        {
            return Err(TaskError::BadArea);
        }
        self.with(|context| match buffer {
            ReceiveBuffer::Message(number) => context.message_buffers[usize::from(number)] = area,
            ReceiveBuffer::Log => context.log = area,
        });
        Ok(())
    }

    /// Sets the address for notifications of answers.
    pub fn set_notifications(&self, address: u64) {
        self.with(|context| context.entry.notifications = address);
    }

    /// Gives the node's processor to this task.
    pub fn schedule(&self) {
        self.system.0.nodes[self.at.node as usize].running.set(Some(self.at.cid));
    }

    /// Loads the task's queue into a free control register set of the Sender, which then sends the
    /// queued headers.
    ///
    /// # Errors
    /// [`TaskError::NoRegisterSet`].
    pub fn load(&self) -> Result<(), TaskError> {
        let interface = &self.system.0.nodes[self.at.node as usize];
        let mut contexts = interface.contexts.borrow_mut();
        let taken: Vec<usize> = contexts.values().filter_map(|context| context.loaded).collect();
        let context = contexts.get_mut(&self.at.cid).expect("a task's context stays");
        if context.loaded.is_some() {
            return Ok(());
        }
        let free = (0..USER_SETS).find(|set| !taken.contains(set));
        let set = free.ok_or(TaskError::NoRegisterSet)?;
        context.loaded = Some(set);
        let waiting = context.queue.len();
        drop(contexts);
        (0..waiting).for_each(|_| interface.sets[set].admit(RegisterOrder::Header(self.at.cid)));
        Ok(())
    }

    /// Removes the task's queue from its register set.
    ///
    /// # Errors
    /// [`TaskError::Busy`]: some of its parcels have not been sent.
    pub fn unload(&self) -> Result<(), TaskError> {
        self.with(|context| match (context.loaded, context.sending, context.queue.len()) {
            (None, ..) => Ok(()),
            (Some(_), 0, 0) => {
                context.loaded = None;
                Ok(())
            }
            _ => Err(TaskError::Busy),
        })
    }

    fn members(&self, numbers: &[u16]) -> Result<Vec<Processor>, TaskError> {
        let table = self.with(|context| context.nodes.clone());
        let found = |number: &u16| table.get(usize::from(*number)).copied();
        let mut places: Vec<Processor> =
            numbers.iter().map(found).collect::<Option<_>>().ok_or(TaskError::BadMembers)?;
        places.sort_unstable();
        let twice = places.windows(2).any(|pair| pair[0].node == pair[1].node);
        if places.is_empty() || twice { Err(TaskError::BadMembers) } else { Ok(places) }
    }

    fn switches(&self) -> Result<Rc<SyncNetwork>, TaskError> {
        let state = &self.system.0;
        if let Some(switches) = state.sync.get() {
            return Ok(Rc::clone(switches));
        }
        let costs = &state.costs;
        let parameters = SyncParameters {
            wire: costs.network.link.time(costs.interface.packet_header_bytes),
            switch: costs.network.synchronise,
            table: costs.network.table,
        };
        let shape = Multistage::new(state.nodes.len() as u32);
        let made = SyncNetwork::new(&state.sim, shape, parameters)?;
        Ok(Rc::clone(state.sync.get_or_init(|| made)))
    }

    fn with<R>(&self, work: impl FnOnce(&mut NodeContext) -> R) -> R {
        let done = self.system.0.with_context(self.at, |context, _, _| work(context));
        done.expect("a task's context stays")
    }
}

/// The operations of a task itself.
impl ContextTask {
    /// Writes the task's own memory, through its page tables.
    ///
    /// # Errors
    /// [`AddressFault`]. Nothing is written then.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), AddressFault> {
        let work = |context: &mut NodeContext, memory: &mut _, page| {
            store(context, memory, page, address, bytes)
        };
        self.system.0.with_context(self.at, work).expect("a task's context stays")
    }

    /// Reads the task's own memory.
    ///
    /// # Errors
    /// [`AddressFault`].
    pub fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, AddressFault> {
        let mut found = vec![0; bytes as usize];
        let work = |context: &mut NodeContext, memory: &mut _, page| {
            fetch(context, memory, page, address, &mut found)
        };
        self.system.0.with_context(self.at, work).expect("a task's context stays")?;
        Ok(found)
    }

    /// Reads a double word of the task's own memory.
    ///
    /// # Errors
    /// [`AddressFault`].
    pub fn word(&self, address: u64) -> Result<u64, AddressFault> {
        let bytes = self.read(address, 8)?;
        Ok(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
    }

    /// Writes a header and the write pointer of the task's queue. Waits while the queue is full.
    pub async fn send(&self, header: &Header) {
        self.send_words(&header.encode()).await;
    }

    /// Writes any words as a header.
    pub async fn send_words(&self, words: &[u8; HEADER_BYTES]) {
        let state = &self.system.0;
        state.sim.delay(state.costs.host.register).await;
        loop {
            let room = self.with(|context| match context.queue.is_full() {
                true => Err((context.room.clone(), context.room.count())),
                false => {
                    context.queue.push(words);
                    Ok(context.loaded)
                }
            });
            match room {
                Ok(None) => return,
                Ok(Some(set)) => {
                    let interface = &state.nodes[self.at.node as usize];
                    return interface.sets[set].admit(RegisterOrder::Header(self.at.cid));
                }
                Err((room, seen)) => room.reaches(seen + 1).await,
            }
        }
    }

    /// Sets address register 0, 1 or 2. A task can set the Receiver's register only while it has
    /// the processor.
    ///
    /// # Errors
    /// [`TaskError::NotRunning`].
    pub fn set_register(&self, number: u8, address: u64) -> Result<(), TaskError> {
        let interface = &self.system.0.nodes[self.at.node as usize];
        if interface.running.get() != Some(self.at.cid) {
            return Err(TaskError::NotRunning);
        }
        self.with(|context| context.entry.registers[usize::from(number % 3)] = address);
        Ok(())
    }

    /// The task's entry of the buffer table. The task can read but not write it.
    pub fn entry(&self) -> BufferEntry {
        self.with(|context| context.entry)
    }

    /// The number of finished barriers of a synchronisation id.
    pub fn synchronised(&self, sid: u8) -> u64 {
        self.with(|context| context.synchronised.get(&sid).copied().unwrap_or(0))
    }

    /// A record of the log, by its number since the start.
    ///
    /// # Errors
    /// [`AddressFault`].
    pub fn record(&self, number: u64) -> Result<Option<LogRecord>, AddressFault> {
        let log = self.with(|context| context.log);
        let address = log.address + number * LOG_BYTES % log.bytes.max(1);
        let bytes = self.read(address, LOG_BYTES)?;
        Ok(bytes.as_slice().try_into().ok().and_then(LogRecord::decode))
    }

    /// Polls in cache until `over` is true. It polls again only after a write of the interface.
    pub async fn wait_until(&self, over: impl Fn(&ContextTask) -> bool) {
        let state = &self.system.0;
        loop {
            let (changed, seen) =
                self.with(|context| (context.changed.clone(), context.changed.count()));
            if over(self) {
                state.sim.delay(state.costs.host.poll).await;
                return;
            }
            changed.reaches(seen + 1).await;
        }
    }

    /// Polls until a double word has a value.
    pub async fn wait_word(&self, address: u64, value: u64) {
        self.wait_until(|task| task.word(address) == Ok(value)).await;
    }

    /// Waits for the next interrupt that the operating system passes on.
    pub async fn interrupt(&self) -> Interrupt {
        let interrupts = self.with(|context| context.interrupts.clone());
        interrupts.receive().await
    }

    /// Takes the next interrupt, if there is one.
    pub fn take_interrupt(&self) -> Option<Interrupt> {
        self.with(|context| context.interrupts.take())
    }
}

/// Library functions that send data whose ends may be odd words (paper 003 §5.1.3).
impl ContextTask {
    /// Sends `bytes` bytes, a multiple of a word, between addresses that are multiples of a word:
    ///
    /// ```text
    ///   A  even ► even   one parcel
    ///   B  even ► odd    the first word alone, then C
    ///   C  odd  ► even   one parcel, then again the first word of each page that it crosses
    ///   D  odd  ► odd    the first word alone, then A
    /// ```
    ///
    /// # Errors
    /// [`AddressFault`]: a word that is sent alone has no page.
    pub async fn put_words(&self, to: u16, span: Span) -> Result<(), AddressFault> {
        let Span { mut source, mut destination, mut bytes } = span;
        if destination % 8 == 4 && bytes > 0 {
            self.put_word(to, source, destination).await?;
            (source, destination, bytes) = (source + 4, destination + 4, bytes - 4);
        }
        self.send(&Header::write(
            PacketTarget::One(to),
            source,
            WriteDestination::Address(destination),
            bytes,
        ))
        .await;
        if source % 8 == 4 {
            let page = self.system.0.costs.memory.page_bytes;
            let mut head = (source / page + 1) * page;
            while head < source + bytes {
                self.put_word(to, head, destination + (head - source)).await?;
                head += page;
            }
        }
        Ok(())
    }

    /// The other remedy: copies to a double word first, and sends from there. `copy` is the
    /// library's buffer. The destination must be a double word.
    ///
    /// # Errors
    /// [`AddressFault`]: the data or the buffer has no page.
    pub async fn put_words_by_copy(
        &self,
        to: u16,
        span: Span,
        copy: u64,
    ) -> Result<(), AddressFault> {
        let data = self.read(span.source, span.bytes)?;
        self.write(copy, &data)?;
        let state = &self.system.0;
        state.sim.delay(state.costs.host.copy.time(span.bytes)).await;
        let place = WriteDestination::Address(span.destination);
        self.send(&Header::write(PacketTarget::One(to), copy, place, span.bytes)).await;
        Ok(())
    }

    /// Sends one word in a header.
    async fn put_word(&self, to: u16, source: u64, destination: u64) -> Result<(), AddressFault> {
        let bytes = self.read(source, 4)?;
        let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        self.send(&Header::inline(PacketTarget::One(to), word, destination, 4)).await;
        Ok(())
    }

    /// Sends any operation to one processor.
    pub async fn ask(&self, to: u16, operation: ParcelOperation) {
        self.send(&Header::new(PacketTarget::One(to), operation)).await;
    }
}
