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
//! Lengths only: the sender names every address, so `nic` has no decision to make.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Costs;
use super::packet::{Span, packets};
use super::tlb::Tlb;
use crate::engine::{Mailbox, Server, Signal, Sim, TaskName};
use crate::job::Consignee;
use crate::network::{CutThrough, LinkTiming, Listener, Network, Packet, Timing};
use crate::slab::Slab;
use crate::topology::{LinkClass, Node, Topology};

/// The destination of a parcel: offsets in the node table and in the multicast header table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// One node.
    One(Node),
    /// Several, copied by the switches.
    All(Rc<[Node]>),
}

/// What the receiver does with a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Remote DMA of data at an address.
    Write(Span),
    /// Remote DMA of a double word in the header itself (inline mode).
    Inline,
    /// Atomic add of a double word in the header.
    AtomicAdd,
}

/// A parcel, as its header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The destination.
    pub to: To,
    /// The protocol.
    pub protocol: Protocol,
    /// The area whose arrivals its receiver counts.
    pub area: u32,
    /// Whether the read optimisation is on.
    pub optimise: bool,
    /// Whether the processor has the data dirty in its cache; true unless it flushed the data.
    pub dirty: bool,
}

/// Headers that a header queue holds: 4 KB of 32 bytes, its least size.
const HEADERS: usize = 128;

/// Packets of a parcel in the FIFO between interface and network: one leaves, one enters.
const FIFO_PACKETS: usize = 2;

/// The interfaces of all nodes.
#[derive(Debug, Clone)]
pub struct System(Rc<CenjuState>);

struct CenjuState {
    sim: Sim,
    costs: Costs,
    network: Rc<Network>,
    stages: u64,
    nodes: Vec<NodeInterface>,
    flights: RefCell<Slab<CenjuPacket>>,
    /// The job whose messages these are; areas are its numbers for them.
    consignee: RefCell<Option<Weak<dyn Consignee>>>,
}

impl fmt::Debug for CenjuState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CenjuState").field("costs", &self.costs).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct NodeInterface {
    queue: Mailbox<Parcel>,
    /// Destinations of the parcels in header registers.
    active: RefCell<BTreeSet<To>>,
    /// A header register has become free.
    freed: Signal,
    /// SPM's access to memory.
    reader: Server,
    receiver: Server,
    send_tlb: RefCell<Tlb>,
    receive_tlb: RefCell<Tlb>,
    arrived: RefCell<BTreeMap<u32, Signal>>,
}

/// A packet in the network.
#[derive(Debug)]
struct CenjuPacket {
    area: u32,
    /// Whether the parcel ends with it.
    last: bool,
    /// Where the receiver writes it; `None`: an atomic add.
    write: Option<Span>,
    /// Copies still to arrive, and whether its tail has left.
    copies: usize,
    departed: Signal,
}

impl System {
    /// The interfaces of a machine with this network.
    pub fn new(sim: &Sim, costs: &Costs, topology: Rc<dyn Topology>, buffer: u64) -> System {
        let nodes = topology.nodes();
        // A route has a link into each stage and one out of the last.
        let stages = u64::from(topology.distance(0, 0)) - 1;
        let network = Network::new(sim, Box::new(cut_through(costs, topology, buffer)));
        let interface = |_| NodeInterface {
            queue: Mailbox::new(sim, HEADERS, "a parcel header, or room for one"),
            active: RefCell::default(),
            freed: Signal::new(sim, "a header register"),
            reader: Server::new(sim),
            receiver: Server::new(sim),
            send_tlb: RefCell::new(Tlb::new(costs.memory.tlb_entries)),
            receive_tlb: RefCell::new(Tlb::new(costs.memory.tlb_entries)),
            arrived: RefCell::default(),
        };
        let state = Rc::new(CenjuState {
            sim: sim.clone(),
            costs: costs.clone(),
            network: Rc::clone(&network),
            stages,
            nodes: (0..nodes).map(interface).collect(),
            flights: RefCell::default(),
            consignee: RefCell::new(None),
        });
        let listener: Weak<dyn Listener> = Rc::downgrade(&(Rc::clone(&state) as Rc<dyn Listener>));
        network.connect(listener);
        let system = System(state);
        for index in 0..nodes {
            let unit = system.clone();
            let name = TaskName { kind: "read header module", index };
            sim.spawn_service(name, async move { unit.read_headers(index).await });
        }
        system
    }

    /// The costs.
    pub fn costs(&self) -> &Costs {
        &self.0.costs
    }

    /// Host: writes a header and the queue's write pointer, without a library around.
    pub async fn post(&self, node: Node, parcel: Parcel) {
        self.0.sim.delay(self.0.costs.host.register).await;
        self.0.nodes[node as usize].queue.send(parcel).await;
    }

    /// Writes a header without the host's time, even if the queue is full.
    pub(super) fn enqueue(&self, node: Node, parcel: Parcel) {
        self.0.nodes[node as usize].queue.admit(parcel);
    }

    /// From here on areas are a job's messages, and the job is notified of each parcel.
    pub(super) fn connect(&self, consignee: Weak<dyn Consignee>) {
        *self.0.consignee.borrow_mut() = Some(consignee);
    }

    /// The network below.
    pub fn network(&self) -> Rc<Network> {
        Rc::clone(&self.0.network)
    }

    /// Host: polls until `count` parcels altogether have arrived in an area.
    pub async fn wait(&self, node: Node, area: u32, count: u64) {
        self.0.arrivals(node, area).reaches(count).await;
        self.0.sim.delay(self.0.costs.host.poll).await;
    }

    /// Read Header Module: one header after the other into a register.
    async fn read_headers(&self, node: Node) {
        let CenjuState { sim, costs, .. } = &*self.0;
        let interface = &self.0.nodes[node as usize];
        let memory = &costs.memory;
        loop {
            let parcel = interface.queue.receive().await;
            // The processor has just written the header; the table entry is in main memory.
            let words = costs.interface.parcel_header_bytes / 8;
            sim.delay(memory.dirty + times(memory.word, words)).await;
            let lookup = memory.query + memory.word;
            sim.delay(times(costs.interface.clock, costs.interface.check) + lookup).await;
            loop {
                let seen = interface.freed.count();
                if interface.takes(&parcel.to, costs.interface.registers) {
                    break;
                }
                interface.freed.reaches(seen + 1).await;
            }
            interface.active.borrow_mut().insert(parcel.to.clone());
            let unit = self.clone();
            let name = TaskName { kind: "header register", index: node };
            sim.spawn(name, async move { unit.send_parcel(node, parcel).await });
        }
    }

    /// Send Packet Module, for the parcel of one register.
    async fn send_parcel(&self, node: Node, parcel: Parcel) {
        let costs = &self.0.costs;
        let mut leaving = VecDeque::new();
        match parcel.protocol {
            Protocol::Inline => {
                let word = Span { source: 0, destination: 0, bytes: costs.interface.inline_bytes };
                self.send_packet(node, &parcel, (Some(word), true), Time::ZERO, &mut leaving).await;
            }
            Protocol::AtomicAdd => {
                self.send_packet(node, &parcel, (None, true), Time::ZERO, &mut leaving).await;
            }
            Protocol::Write(span) => {
                let costs = (&costs.interface, &costs.memory);
                let all = packets(span, parcel.optimise, costs);
                for (index, packet) in (1..).zip(&all) {
                    let page = packet.span.source / costs.1.page_bytes;
                    let hit = self.0.nodes[node as usize].send_tlb.borrow_mut().hits(page);
                    let walk = if hit { Time::ZERO } else { costs.1.walk };
                    let reads = self.read_time(packet.coherent, packet.plain, parcel.dirty);
                    let what = (Some(packet.span), index == all.len());
                    self.send_packet(node, &parcel, what, walk + reads, &mut leaving).await;
                }
            }
        }
        for packet in leaving {
            packet.reaches(1).await;
        }
        self.0.nodes[node as usize].active.borrow_mut().remove(&parcel.to);
        self.0.nodes[node as usize].freed.raise();
        if let Some(job) = self.0.consignee() {
            job.departed(u64::from(parcel.area));
        }
    }

    /// The time until a packet's lines have come. A line comes whole.
    fn read_time(&self, coherent: u64, plain: u64, dirty: bool) -> Time {
        let memory = &self.0.costs.memory;
        let words = times(memory.word, memory.line_bytes / 8);
        let asked = if dirty { memory.dirty } else { memory.query };
        times(asked + words, coherent) + times(memory.plain + words, plain)
    }

    /// Sends one packet (its write, and whether it ends the parcel): the header goes ahead, the
    /// data follows as it comes from memory, when the FIFO has room.
    async fn send_packet(
        &self,
        node: Node,
        parcel: &Parcel,
        (write, last): (Option<Span>, bool),
        reads: Time,
        leaving: &mut VecDeque<Signal>,
    ) {
        let CenjuState { sim, costs, network, stages, .. } = &*self.0;
        let NodeInterface { reader, .. } = &self.0.nodes[node as usize];
        let start = times(costs.interface.clock, costs.interface.start_packet);
        let begun = reader.book(sim.now(), start + reads);
        let (head, data) = (begun + start, begun + start + self.first_word(write, reads));
        let bytes = costs.interface.packet_header_bytes + write.map_or(8, |span| span.bytes);
        let wire = costs.network.link.time(bytes);
        // The tail cannot leave before its data is there. But by then the head may have gone
        // through the switches, and the flits behind it pass them faster.
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
        let flight =
            CenjuPacket { area: parcel.area, last, write, copies, departed: departed.clone() };
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

    /// From the start of the reads until the packet's data is in the FIFO. A small packet needs
    /// only the first words of its lines; the rest of a line comes while others are served.
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
    /// same destination, so that those stay in order.
    fn takes(&self, to: &To, registers: u64) -> bool {
        let active = self.active.borrow();
        (active.len() as u64) < registers && !active.contains(to)
    }
}

/// Injection and every stage take a switch; the path out of the last one takes only its wire.
fn cut_through(costs: &Costs, topology: Rc<dyn Topology>, buffer: u64) -> CutThrough {
    let network = &costs.network;
    let mut timing = Timing::uniform(network.single, network.link, buffer);
    let out = LinkTiming { latency: costs.interface.clock, rate: network.link, buffer };
    timing = timing.with(LinkClass::Ejection, out);
    timing.multicast_extra = network.multicast - network.single;
    CutThrough::new(topology, &timing)
}

impl CenjuState {
    fn consignee(&self) -> Option<Rc<dyn Consignee>> {
        self.consignee.borrow().as_ref().and_then(Weak::upgrade)
    }

    fn arrivals(&self, node: Node, area: u32) -> Signal {
        let mut arrived = self.nodes[node as usize].arrived.borrow_mut();
        let new = || Signal::new(&self.sim, "a parcel in its area");
        arrived.entry(area).or_insert_with(new).clone()
    }

    /// The Receiver's time for a packet: full lines are written, and the processor only has to drop
    /// them; a partial line, or a word to add to, is requested. Then the notification's line.
    fn accept_time(&self, node: Node, write: Option<Span>, last: bool) -> Time {
        let memory = &self.costs.memory;
        let mut time = times(self.costs.interface.clock, self.costs.interface.accept);
        match write {
            // The program that waits for an atomic add polls the word itself.
            None => return time + memory.query + times(memory.word, 2),
            Some(Span { destination, bytes, .. }) => {
                let page = destination / memory.page_bytes;
                if !self.nodes[node as usize].receive_tlb.borrow_mut().hits(page) {
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
        flight.copies -= 1;
        if flight.copies == 0 {
            // No program waits for the tail of a packet that has arrived everywhere.
            flight.departed.raise();
            flights.remove(key);
        }
        drop(flights);
        let span = self.accept_time(node, write, last);
        let start = self.nodes[node as usize].receiver.book(self.sim.now(), span);
        match (last, self.consignee()) {
            (false, _) => {}
            (true, None) => {
                let arrived = self.arrivals(node, area);
                self.sim.at(start + span, move |_| arrived.raise());
            }
            (true, Some(job)) => {
                self.sim.at(start + span, move |_| job.delivered(u64::from(area)));
            }
        }
    }
}

fn times(span: Time, count: u64) -> Time {
    Time::from_picoseconds(span.picoseconds() * count)
}
