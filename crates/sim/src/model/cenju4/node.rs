//! Sender and receiver of every node, on the multistage network.
//!
//! ```text
//!   host: header in its queue, write pointer
//!     │
//!   RHM: reads the header (dirty in cache), checks it, looks up node or multicast table
//!     │   up to four parcels, to different destinations, in header registers
//!   SPM: packet by packet: header to FIFO; lines by coherent or plain requests
//!     │   the network takes any of the four with room in its switch's buffer
//!   network ─► Receiver: memory written, pointer or notification updated ─► host polls in cache
//! ```
//!
//! A parcel is either one of a task's headers, with its bytes
//! ([`ContextTask`](super::ContextTask)), or only a length ([`CenjuSystem::post`]). Lengths are for
//! measurements, and for jobs that keep their messages' bytes themselves. Both take the same steps
//! and the same time.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::context::{Interrupt, NodeContext, Processor, times};
use super::costs::Costs;
use super::header::{
    Header, HeaderError, PacketTarget, ParcelOperation, WriteDestination, WriteSource,
};
use super::memory::PhysicalMemory;
use super::packet::{Span, packets};
use super::receive::{Carried, ParcelInFlight, QueuedAnswer, What};
use crate::engine::{Mailbox, Server, Signal, Sim, TaskName};
use crate::network::{CutThrough, LinkTiming, Listener, Network, Packet, SyncNetwork, Timing};
use crate::slab::Slab;
use crate::topology::{LinkClass, Node, Topology};

/// The destination of a parcel: the nodes that an entry of a destination table names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// One node.
    One(Node),
    /// Several nodes; the switches copy the parcel.
    All(Rc<[Node]>),
}

/// Receives reports about parcels, in place of programs that wait for areas.
pub(super) trait ParcelListener {
    /// A parcel's last packet has left.
    fn departed(&self, area: u32);

    /// A parcel has arrived at a node.
    fn delivered(&self, area: u32, node: Node);
}

/// The operation of the receiver on a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParcelProtocol {
    /// Remote DMA of data at an address.
    Write(Span),
    /// Remote DMA of a double word in the header itself (inline mode).
    Inline,
    /// Atomic add of a double word in the header.
    AtomicAdd,
    /// A read, swap, or compare and swap: the rest of the header. An answer is returned.
    Request,
}

/// A parcel, as described by its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CenjuParcel {
    /// The destination.
    pub to: To,
    /// The protocol.
    pub protocol: ParcelProtocol,
    /// The area in which the receiver counts the arrival.
    pub area: u32,
    /// Whether the read optimisation is on.
    pub optimise: bool,
    /// Whether the processor has the data dirty in its cache. True unless the program flushed it.
    pub dirty: bool,
}

/// The number of headers in a header queue: 4 KB of 32 bytes, its minimum size.
const HEADERS: usize = 128;

/// The number of packets of a parcel in the FIFO between interface and network: one leaves, one
/// enters.
const FIFO_PACKETS: usize = 2;

/// The number of control register sets of the Sender that tasks share (paper 003 §4.2). A third set
/// is for answers. The set of the operating system is not modelled.
pub(super) const USER_SETS: usize = 2;
const ANSWERS: usize = USER_SETS;

/// The value that a sender writes at `ntf` after the last packet of a parcel.
pub const COMPLETED: u64 = 0x0C0A_11ED_0C0A_11ED;

/// The interfaces of all nodes.
#[derive(Debug, Clone)]
pub struct CenjuSystem(pub(super) Rc<CenjuState>);

pub(super) struct CenjuState {
    me: Weak<CenjuState>,
    pub(super) sim: Sim,
    pub(super) costs: Costs,
    network: Rc<Network>,
    /// The switches' barriers, created when the first one is registered.
    pub(super) sync: OnceCell<Rc<SyncNetwork>>,
    /// The members of each barrier in use.
    pub(super) barriers: RefCell<BTreeMap<u8, Vec<Node>>>,
    stages: u64,
    pub(super) nodes: Vec<NodeInterface>,
    flights: RefCell<Slab<CenjuPacket>>,
    /// The job whose messages are carried. Areas are its message numbers.
    listener: RefCell<Option<Weak<dyn ParcelListener>>>,
}

impl fmt::Debug for CenjuState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CenjuState").field("costs", &self.costs).finish_non_exhaustive()
    }
}

/// An order that waits at a control register set.
#[derive(Debug)]
pub(super) enum RegisterOrder {
    /// A length without a header in memory.
    Parcel(CenjuParcel),
    /// The next header of a context's queue.
    Header(u8),
    /// An answer that the Receiver has put into the answer queue.
    Answer(QueuedAnswer),
}

/// A parcel in a header register, with its bytes, if any.
struct RegisterParcel {
    parcel: CenjuParcel,
    content: Option<Rc<ParcelInFlight>>,
}

#[derive(Debug)]
pub(super) struct NodeInterface {
    /// The orders of each control register set.
    pub(super) sets: [Mailbox<RegisterOrder>; USER_SETS + 1],
    /// The Read Header Module's access to memory.
    headers: Server,
    /// Whether the sets that only headers use are already being read.
    pub(super) started: Cell<bool>,
    pub(super) contexts: RefCell<BTreeMap<u8, NodeContext>>,
    pub(super) memory: RefCell<PhysicalMemory>,
    /// The context whose task has the processor.
    pub(super) running: Cell<Option<u8>>,
    /// The number of requests without an answer.
    pub(super) unanswered: Cell<u64>,
    pub(super) answered: Signal,
    /// The maximum number of answers that have waited.
    pub(super) most_answers: Cell<usize>,
    /// The destinations of the parcels in header registers.
    active: RefCell<BTreeSet<To>>,
    /// Raised when a header register becomes free.
    freed: Signal,
    /// The Send Packet Module's access to memory.
    reader: Server,
    receiver: Server,
    pub(super) send_tlb: RefCell<Tlb>,
    pub(super) receive_tlb: RefCell<Tlb>,
    arrived: RefCell<BTreeMap<u32, Signal>>,
}

/// A packet in the network.
#[derive(Debug)]
struct CenjuPacket {
    area: u32,
    /// Whether it is the last packet of its parcel.
    last: bool,
    /// The destination of the data; `None` for an atomic add.
    write: Option<Span>,
    /// The number of copies still to arrive, and whether the tail has left.
    copies: usize,
    departed: Signal,
    content: Option<Rc<Carried>>,
}

impl CenjuSystem {
    /// The interfaces of a machine with this network.
    pub fn new(sim: &Sim, costs: &Costs, topology: Rc<dyn Topology>, buffer: u64) -> CenjuSystem {
        let nodes = topology.nodes();
        // A route has a link into each stage and one out of the last.
        let stages = u64::from(topology.distance(0, 0)) - 1;
        let network = Network::new(sim, Box::new(cut_through(costs, topology, buffer)));
        let interface = |_| NodeInterface {
            sets: [(); USER_SETS + 1]
                .map(|()| Mailbox::new(sim, HEADERS, "a parcel header, or room for one")),
            headers: Server::new(sim),
            started: Cell::new(false),
            contexts: RefCell::default(),
            memory: RefCell::new(PhysicalMemory::new(costs.memory.page_bytes)),
            running: Cell::new(None),
            unanswered: Cell::new(0),
            answered: Signal::new(sim, "the answer to a read"),
            most_answers: Cell::new(0),
            active: RefCell::default(),
            freed: Signal::new(sim, "a header register"),
            reader: Server::new(sim),
            receiver: Server::new(sim),
            send_tlb: RefCell::new(Tlb::new(costs.memory.tlb_entries)),
            receive_tlb: RefCell::new(Tlb::new(costs.memory.tlb_entries)),
            arrived: RefCell::default(),
        };
        let state = Rc::new_cyclic(|me: &Weak<CenjuState>| CenjuState {
            me: me.clone(),
            sync: OnceCell::new(),
            barriers: RefCell::default(),
            sim: sim.clone(),
            costs: costs.clone(),
            network: Rc::clone(&network),
            stages,
            nodes: (0..nodes).map(interface).collect(),
            flights: RefCell::default(),
            listener: RefCell::new(None),
        });
        let listener: Weak<dyn Listener> = Rc::downgrade(&(Rc::clone(&state) as Rc<dyn Listener>));
        network.connect(listener);
        let system = CenjuSystem(state);
        (0..nodes).for_each(|index| system.read_set(index, 0));
        system
    }

    /// Starts reading the headers of a control register set.
    pub(super) fn read_set(&self, node: Node, set: usize) {
        let unit = self.clone();
        let name = TaskName { kind: "read header module", index: node };
        self.0.sim.spawn_service(name, async move { unit.read_headers(node, set).await });
    }

    /// The costs.
    pub fn costs(&self) -> &Costs {
        &self.0.costs
    }

    /// Host: writes a header and the queue's write pointer, without a library.
    pub async fn post(&self, node: Node, parcel: CenjuParcel) {
        self.0.sim.delay(self.0.costs.host.register).await;
        self.0.nodes[node as usize].sets[0].send(RegisterOrder::Parcel(parcel)).await;
    }

    /// Writes a header without the host's time, even if the queue is full.
    pub(super) fn enqueue(&self, node: Node, parcel: CenjuParcel) {
        self.0.nodes[node as usize].sets[0].admit(RegisterOrder::Parcel(parcel));
    }

    /// Makes areas a job's messages. The job is notified of each parcel from now on.
    pub(super) fn connect(&self, listener: Weak<dyn ParcelListener>) {
        *self.0.listener.borrow_mut() = Some(listener);
    }

    /// The network below.
    pub fn network(&self) -> Rc<Network> {
        Rc::clone(&self.0.network)
    }

    /// Host: polls until `count` parcels in total have arrived in an area.
    pub async fn wait(&self, node: Node, area: u32, count: u64) {
        self.0.arrivals(node, area).reaches(count).await;
        self.0.sim.delay(self.0.costs.host.poll).await;
    }

    /// Read Header Module: reads the headers of a set, one after the other, into registers.
    async fn read_headers(&self, node: Node, set: usize) {
        let CenjuState { sim, costs, .. } = &*self.0;
        let interface = &self.0.nodes[node as usize];
        let memory = &costs.memory;
        loop {
            let order = interface.sets[set].receive().await;
            // The processor has just written the header, or the Receiver has written it to main
            // memory. The table entry is in main memory.
            let words = costs.interface.parcel_header_bytes / 8;
            let asked = if set == ANSWERS { memory.query } else { memory.dirty };
            let lookup = memory.query + memory.word;
            let check = times(costs.interface.clock, costs.interface.check);
            let span = asked + times(memory.word, words) + check + lookup;
            let start = interface.headers.book(sim.now(), span);
            sim.delay_until(start + span).await;
            let Some(outgoing) = self.open(node, order) else { continue };
            if outgoing.parcel.protocol == ParcelProtocol::Request {
                self.0.begin_request(node).await;
            }
            let to = outgoing.parcel.to.clone();
            loop {
                let seen = interface.freed.count();
                if interface.takes(&to, costs.interface.registers) {
                    break;
                }
                interface.freed.reaches(seen + 1).await;
            }
            interface.active.borrow_mut().insert(to);
            let unit = self.clone();
            let name = TaskName { kind: "header register", index: node };
            sim.spawn(name, async move { unit.send_parcel(node, outgoing).await });
        }
    }

    /// Checks a header and looks up its destination. `None` if it was refused or is no parcel.
    fn open(&self, node: Node, order: RegisterOrder) -> Option<RegisterParcel> {
        let cid = match order {
            RegisterOrder::Parcel(parcel) => return Some(RegisterParcel { parcel, content: None }),
            RegisterOrder::Answer(QueuedAnswer { to, sending }) => {
                return Some(outgoing(To::One(to), &sending));
            }
            RegisterOrder::Header(cid) => cid,
        };
        let mut contexts = self.0.nodes[node as usize].contexts.borrow_mut();
        let context = contexts.get_mut(&cid)?;
        let words = context.queue.pop()?;
        context.room.raise();
        context.sending += 1;
        let most = self.0.costs.interface.parcel_bytes;
        let found = Header::decode(&words, most)
            .and_then(|header| Ok((header, destination(context, header.target)?)));
        let number = context.number;
        if let Err(error) = &found {
            context.interrupt(Interrupt::Rejected(*error));
        }
        drop(contexts);
        match found {
            Ok((header, Destination::Barrier(sid))) => {
                debug_assert_eq!(header.operation, ParcelOperation::Synchronise);
                self.synchronise(node, cid, sid);
                None
            }
            Ok((Header { operation, ntf, .. }, Destination::Parcel(to, to_cid))) => {
                let from = Processor { node, cid };
                let what = What::Operation(operation);
                let sending =
                    Rc::new(ParcelInFlight { from, number, to_cid, what, ntf, asker: node });
                Some(outgoing(to, &sending))
            }
            Err(_) => {
                self.0.parcel_done(node, cid);
                None
            }
        }
    }

    /// Enters a barrier of the switches for a context.
    fn synchronise(&self, node: Node, cid: u8, sid: u8) {
        let state = Rc::clone(&self.0);
        self.0.sim.spawn(TaskName { kind: "synchronisation", index: node }, async move {
            let CenjuState { sim, costs, .. } = &*state;
            sim.delay(times(costs.interface.clock, costs.interface.start_packet)).await;
            let entered = state.sync.get().and_then(|all| all.enter(node, sid, sim.now()).ok());
            state.parcel_done(node, cid);
            let Some(over) = entered else { return };
            over.await;
            let notified = costs.memory.query + costs.memory.word;
            sim.delay(times(costs.interface.clock, costs.interface.accept) + notified).await;
            state.with_context(Processor { node, cid }, |context, _, _| {
                *context.synchronised.entry(sid).or_default() += 1;
                context.changed.raise();
            });
        });
    }

    /// Send Packet Module, for the parcel of one register.
    async fn send_parcel(&self, node: Node, outgoing: RegisterParcel) {
        let RegisterParcel { parcel, content } = &outgoing;
        let costs = &self.0.costs;
        let mut leaving = VecDeque::new();
        let mut whole = true;
        match parcel.protocol {
            ParcelProtocol::Inline => {
                let word = Span { source: 0, destination: 0, bytes: costs.interface.inline_bytes };
                let what = (Some(word), true);
                self.send_packet(node, &outgoing, what, 0, Time::ZERO, &mut leaving).await;
            }
            ParcelProtocol::AtomicAdd | ParcelProtocol::Request => {
                let what = (None, true);
                self.send_packet(node, &outgoing, what, 0, Time::ZERO, &mut leaving).await;
            }
            ParcelProtocol::Write(span) => {
                let costs = (&costs.interface, &costs.memory);
                let all = packets(span, parcel.optimise, costs);
                for (index, packet) in (1..).zip(&all) {
                    let page = packet.span.source / costs.1.page_bytes;
                    let cid = content.as_ref().map_or(0, |content| content.from.cid);
                    let hit = self.0.nodes[node as usize].send_tlb.borrow_mut().hits(cid, page);
                    let walk = if hit { Time::ZERO } else { costs.1.walk };
                    if !self.0.reads(node, content.as_deref(), packet.span.source) {
                        whole = false;
                        break;
                    }
                    let reads = self.read_time(packet.coherent, packet.plain, parcel.dirty);
                    let what = (Some(packet.span), index == all.len());
                    let offset = packet.span.source - span.source;
                    self.send_packet(node, &outgoing, what, offset, walk + reads, &mut leaving)
                        .await;
                }
            }
        }
        for packet in leaving {
            packet.reaches(1).await;
        }
        self.0.nodes[node as usize].active.borrow_mut().remove(&parcel.to);
        self.0.nodes[node as usize].freed.raise();
        match (content, self.0.listener()) {
            (Some(content), _) => self.0.parcel_sent(content, whole),
            (None, Some(listener)) => listener.departed(parcel.area),
            (None, None) => {}
        }
    }

    /// The time until all lines of a packet have arrived. A line arrives whole.
    fn read_time(&self, coherent: u64, plain: u64, dirty: bool) -> Time {
        let memory = &self.0.costs.memory;
        let words = times(memory.word, memory.line_bytes / 8);
        let asked = if dirty { memory.dirty } else { memory.query };
        times(asked + words, coherent) + times(memory.plain + words, plain)
    }

    /// Sends one packet (its write, and whether it ends the parcel). The header goes ahead. The
    /// data follows as it arrives from memory, when the FIFO has room.
    async fn send_packet(
        &self,
        node: Node,
        RegisterParcel { parcel, content }: &RegisterParcel,
        (write, last): (Option<Span>, bool),
        offset: u64,
        reads: Time,
        leaving: &mut VecDeque<Signal>,
    ) {
        let CenjuState { sim, costs, network, stages, .. } = &*self.0;
        let NodeInterface { reader, .. } = &self.0.nodes[node as usize];
        let start = times(costs.interface.clock, costs.interface.start_packet);
        let begun = reader.book(sim.now(), start + reads);
        let (head, data) = (begun + start, begun + start + self.first_word(write, reads));
        let data_bytes = match parcel.protocol {
            ParcelProtocol::Request => costs.interface.parcel_header_bytes - 8,
            _ => write.map_or(8, |span| span.bytes),
        };
        let bytes = costs.interface.packet_header_bytes + data_bytes;
        let wire = costs.network.link.time(bytes);
        // The tail cannot leave before its data has arrived. But by then the head may have passed
        // the switches, and the flits behind it pass them faster.
        let ahead = times(costs.network.single - costs.network.body, *stages);
        sim.delay_until(head.max(data - wire - ahead)).await;
        if leaving.len() >= FIFO_PACKETS
            && let Some(first) = leaving.pop_front()
        {
            first.reaches(1).await;
        }
        let departed = Signal::new(sim, "a packet's tail to leave");
        let copies = match &parcel.to {
            To::One(_) => 1,
            To::All(nodes) => nodes.len(),
        };
        let content = content.as_ref().map(|sending| self.0.carried(sending, write, offset, last));
        let (area, departs) = (parcel.area, departed.clone());
        let flight = CenjuPacket { area, last, write, copies, departed: departs, content };
        let token = u64::from(self.0.flights.borrow_mut().insert(flight));
        let packet = Packet { source: node, destination: node, bytes, token };
        match &parcel.to {
            To::One(to) => drop(network.send(Packet { destination: *to, ..packet })),
            To::All(nodes) => {
                network.multicast(packet, nodes).expect("the switches of this machine copy");
            }
        }
        leaving.push_back(departed);
    }

    /// The time from the start of the reads until the packet's data is in the FIFO. A small packet
    /// needs only the first words of its lines. The rest of a line arrives while others are served.
    fn first_word(&self, write: Option<Span>, reads: Time) -> Time {
        let memory = &self.0.costs.memory;
        let whole = times(memory.word, memory.line_bytes / 8);
        match write {
            Some(span) if span.bytes < memory.line_bytes && reads > whole => {
                reads - whole + times(memory.word, span.bytes.div_ceil(8))
            }
            _ => reads,
        }
    }
}

impl NodeInterface {
    /// Whether a parcel may enter a header register: one is free, and none holds a parcel to the
    /// same destination. So parcels to one destination stay in order.
    fn takes(&self, to: &To, registers: u64) -> bool {
        let active = self.active.borrow();
        (active.len() as u64) < registers && !active.contains(to)
    }
}

/// An entry of a destination table.
enum Destination {
    /// Nodes, and their context.
    Parcel(To, u8),
    /// A barrier of the switches.
    Barrier(u8),
}

fn destination(context: &NodeContext, target: PacketTarget) -> Result<Destination, HeaderError> {
    let beyond = |number, entries| HeaderError::NoSuchTarget { number, entries };
    match target {
        PacketTarget::One(number) => match context.nodes.get(usize::from(number)) {
            Some(to) => Ok(Destination::Parcel(To::One(to.node), to.cid)),
            None => Err(beyond(number, context.nodes.len())),
        },
        PacketTarget::Group(number) => match context.groups.get(usize::from(number)) {
            Some(group) => Ok(Destination::Parcel(To::All(group.nodes.clone().into()), group.cid)),
            None => Err(beyond(number, context.groups.len())),
        },
        PacketTarget::Sync(number) => match context.syncs.get(usize::from(number)) {
            Some(sid) => Ok(Destination::Barrier(*sid)),
            None => Err(beyond(number, context.syncs.len())),
        },
    }
}

/// A task's header or an answer, as the Send Packet Module sees it.
fn outgoing(to: To, sending: &Rc<ParcelInFlight>) -> RegisterParcel {
    let protocol = match sending.what {
        What::Operation(ParcelOperation::Write {
            source: WriteSource::Address(source),
            place,
            bytes,
        }) if bytes > 0 => {
            // The receiver chooses the address. The sender can only assume that it is line-aligned.
            let WriteDestination::Address(destination) = place else {
                let span = Span { source, destination: 0, bytes };
                return lines(to, ParcelProtocol::Write(span), sending);
            };
            ParcelProtocol::Write(Span { source, destination, bytes })
        }
        What::Operation(ParcelOperation::Add { .. }) => ParcelProtocol::AtomicAdd,
        What::Operation(operation) if operation.is_answered() => ParcelProtocol::Request,
        What::Data { source, destination, bytes, .. } if bytes > 0 => {
            ParcelProtocol::Write(Span { source, destination, bytes })
        }
        _ => ParcelProtocol::Inline,
    };
    lines(to, protocol, sending)
}

fn lines(to: To, protocol: ParcelProtocol, sending: &Rc<ParcelInFlight>) -> RegisterParcel {
    let parcel = CenjuParcel { to, protocol, area: 0, optimise: true, dirty: true };
    RegisterParcel { parcel, content: Some(Rc::clone(sending)) }
}

/// Injection and every stage take a switch. The path out of the last stage takes only its wire.
fn cut_through(costs: &Costs, topology: Rc<dyn Topology>, buffer: u64) -> CutThrough {
    let network = &costs.network;
    let mut timing = Timing::uniform(network.single, network.link, buffer);
    let out = LinkTiming { latency: costs.interface.clock, rate: network.link, buffer };
    timing = timing.with(LinkClass::Ejection, out);
    timing.multicast_extra = network.multicast - network.single;
    CutThrough::new(topology, &timing)
}

impl CenjuState {
    /// A handle for later events.
    pub(super) fn handle(&self) -> Rc<CenjuState> {
        self.me.upgrade().expect("it is alive while it is used")
    }

    fn listener(&self) -> Option<Rc<dyn ParcelListener>> {
        self.listener.borrow().as_ref().and_then(Weak::upgrade)
    }

    fn arrivals(&self, node: Node, area: u32) -> Signal {
        let mut arrived = self.nodes[node as usize].arrived.borrow_mut();
        let new = || Signal::new(&self.sim, "a parcel in its area");
        arrived.entry(area).or_insert_with(new).clone()
    }

    /// The Receiver's time for a packet. Full lines are written, and the processor only drops them.
    /// A partial line, or a word for an add, is requested. Then the notification's line is written.
    pub(super) fn accept_time(&self, node: Node, cid: u8, write: Option<Span>, last: bool) -> Time {
        let memory = &self.costs.memory;
        let mut time = times(self.costs.interface.clock, self.costs.interface.accept);
        match write {
            // The program that waits for an atomic add polls the word itself.
            None => return time + memory.query + times(memory.word, 2),
            Some(Span { destination, bytes, .. }) => {
                let page = destination / memory.page_bytes;
                if !self.nodes[node as usize].receive_tlb.borrow_mut().hits(cid, page) {
                    time = time + memory.walk;
                }
                if !destination.is_multiple_of(memory.line_bytes)
                    || !bytes.is_multiple_of(memory.line_bytes)
                {
                    time = time + memory.query;
                }
                time = time + times(memory.word, bytes.div_ceil(8));
            }
        }
        if last { time + memory.query + memory.word } else { time }
    }
}

impl Listener for CenjuState {
    fn departed(&self, packet: &Packet) {
        let flights = self.flights.borrow();
        if let Some(flight) = flights.get(packet.token as u32) {
            flight.departed.raise();
        }
    }

    fn delivered(&self, packet: &Packet) {
        let (key, node) = (packet.token as u32, packet.destination);
        let mut flights = self.flights.borrow_mut();
        let flight = &mut flights[key];
        let (area, last, write) = (flight.area, flight.last, flight.write);
        let content = flight.content.clone();
        flight.copies -= 1;
        if flight.copies == 0 {
            // No program waits for the tail of a packet that has arrived everywhere.
            flight.departed.raise();
            flights.remove(key);
        }
        drop(flights);
        let receiver = &self.nodes[node as usize].receiver;
        if let Some(carried) = content {
            let span = self.accept_content(node, &carried);
            let start = receiver.book(self.sim.now(), span);
            let state = self.handle();
            return self.sim.at(start + span, move |_| state.land(node, &carried));
        }
        let span = self.accept_time(node, 0, write, last);
        let start = receiver.book(self.sim.now(), span);
        match (last, self.listener()) {
            (false, _) => {}
            (true, None) => {
                let arrived = self.arrivals(node, area);
                self.sim.at(start + span, move |_| arrived.raise());
            }
            (true, Some(listener)) => {
                self.sim.at(start + span, move |_| listener.delivered(area, node));
            }
        }
    }
}

/// The address TLB of a sender or receiver: the cached translations by context and page number. It
/// has four entries, and the oldest is replaced (paper 003 §5.1).
#[derive(Debug, Clone)]
pub(super) struct Tlb {
    entries: Vec<(u8, u64)>,
    next: usize,
    size: usize,
}

impl Tlb {
    pub(super) fn new(entries: u64) -> Tlb {
        Tlb { entries: Vec::new(), next: 0, size: entries.max(1) as usize }
    }

    /// Whether a page's translation is cached. It is cached from now on.
    pub(super) fn hits(&mut self, cid: u8, page: u64) -> bool {
        let page = (cid, page);
        if self.entries.contains(&page) {
            return true;
        }
        if self.entries.len() < self.size {
            self.entries.push(page);
        } else {
            self.entries[self.next] = page;
            self.next = (self.next + 1) % self.size;
        }
        false
    }

    /// Drops all translations, because a table has changed.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_page_replaces_the_oldest() {
        let mut tlb = Tlb::new(4);
        let found: Vec<bool> = [1, 2, 3, 4, 1, 5, 2, 1].map(|page| tlb.hits(0, page)).to_vec();
        assert_eq!(found, [false, false, false, false, true, false, true, false]);
    }
}
