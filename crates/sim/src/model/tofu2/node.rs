//! A node's four engines (TNIs), and the transfer of puts between nodes.
//!
//! ```text
//!   host: descriptors, doorbell        engine: fetch ─► inject ─► bytes / rate ─► next command
//!         │                               ▲                            │
//!         ▼                               │ next()                     ▼ packets over the network
//!   TOQ of a queue ───────────────────────┘            receive side of the addressed engine:
//!         ▲                                            land ─► release(sps), MRQ event
//!         └──────────────── scheduling pointer ◄───────────────┘
//! ```
//!
//! An engine runs one command at a time and serves its queues in turn. Sending and receiving are
//! separate and overlap. A put is sent in packets, which compete with others for the links between
//! routers. Each engine has its own path into and out of the router of its node. For that, the
//! network's first and last links must take no time ([`Machine`](crate::machine::Machine) sets
//! that).

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;
use thiserror::Error;

use super::costs::Costs;
use super::queue::{DescriptorCommand, EngineQueue, TofuQueueAddress};
use crate::engine::{Server, Signal, Sim, TaskName};
use crate::job::{Connection, Consignee};
use crate::network::{Listener, Network, Packet};
use crate::slab::Slab;
use crate::topology::Node;

/// The error if no queue is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("all {queues} command queues of engine {engine} of node {node} are in use")]
pub struct NoQueue {
    /// The node.
    pub node: Node,
    /// The engine of the node.
    pub engine: u32,
    /// The number of its queues.
    pub queues: u64,
}

/// The interfaces of all nodes.
#[derive(Debug, Clone)]
pub struct TofuSystem(Rc<TofuState>);

struct TofuState {
    sim: Sim,
    costs: Costs,
    network: Rc<Network>,
    /// By node and engine.
    engines: Vec<TofuEngine>,
    /// Packets between two engines.
    flights: RefCell<Slab<PutPacket>>,
    /// The job whose messages are carried.
    consignee: Connection,
    /// Called when a message of a job has left a queue.
    completed: OnceCell<Box<dyn Fn(TofuQueueAddress)>>,
    this: Weak<TofuState>,
}

impl fmt::Debug for TofuState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TofuState").field("costs", &self.costs).finish_non_exhaustive()
    }
}

/// One TNI.
#[derive(Debug)]
struct TofuEngine {
    queues: RefCell<Vec<Rc<EngineQueue>>>,
    /// The queue at which the next search begins.
    turn: Cell<usize>,
    /// Raised when a command may have become runnable.
    bell: Signal,
    receive: Server,
    /// The number of packets whose head has reached the router. `departed` counts those that the
    /// router has taken.
    injected: Cell<u64>,
    departed: Signal,
}

/// A packet in flight.
#[derive(Debug, Clone, Copy)]
struct PutPacket {
    /// The sending engine.
    engine: u32,
    to: TofuQueueAddress,
    bytes: u64,
    /// The effect of its arrival, if it is the put's last packet.
    end: Option<PutEnd>,
}

/// The effect of the arrival of a whole put.
#[derive(Debug, Clone, Copy)]
enum PutEnd {
    /// Releases slots of the addressed queue. `notify`: leaves an event.
    Put { release: u32, notify: bool },
    /// Notifies the job of its message.
    Message { token: u64 },
}

impl TofuSystem {
    /// The interfaces of all nodes of a network. They become the network's listener.
    pub fn new(sim: &Sim, costs: &Costs, network: Rc<Network>) -> TofuSystem {
        let engine = |_| TofuEngine {
            queues: RefCell::default(),
            turn: Cell::new(0),
            bell: Signal::new(sim, "a runnable command"),
            receive: Server::new(sim),
            injected: Cell::new(0),
            departed: Signal::new(sim, "room for a packet in a router"),
        };
        let count = network.nodes() * costs.engines as u32;
        let engines = (0..count).map(engine).collect();
        let state = Rc::new_cyclic(|this| TofuState {
            sim: sim.clone(),
            costs: costs.clone(),
            network: Rc::clone(&network),
            engines,
            flights: RefCell::default(),
            consignee: Connection::default(),
            completed: OnceCell::new(),
            this: Weak::clone(this),
        });
        let listener: Weak<dyn Listener> = Rc::downgrade(&(Rc::clone(&state) as Rc<dyn Listener>));
        network.connect(listener);
        let system = TofuSystem(state);
        for index in 0..count {
            let unit = system.clone();
            let name = TaskName { kind: "send DMA", index };
            sim.spawn_service(name, async move { unit.run_engine(index).await });
        }
        system
    }

    /// Opens a queue of `slots` slots on an engine, in session mode if an offset is given.
    ///
    /// # Errors
    /// [`NoQueue`]: all queues of that engine are in use. The caller then shares queues (MRC).
    pub fn open(
        &self,
        node: Node,
        engine: u32,
        slots: u32,
        session: Option<u32>,
    ) -> Result<TofuQueueAddress, NoQueue> {
        let TofuState { sim, costs, .. } = &*self.0;
        let mut queues = self.engine(node, engine).queues.borrow_mut();
        if queues.len() as u64 >= costs.queues {
            return Err(NoQueue { node, engine, queues: costs.queues });
        }
        let signals = ["a completion", "an event"].map(|what| Signal::new(sim, what));
        let queue = engine * costs.queues as u32 + queues.len() as u32;
        queues.push(Rc::new(EngineQueue::new(slots, session, signals)));
        Ok(TofuQueueAddress { node, queue })
    }

    /// Host: writes a chain of commands and rings the doorbell.
    ///
    /// # Panics
    /// The queue has no room: the program started again before its wait.
    pub async fn start(&self, at: TofuQueueAddress, chain: &[DescriptorCommand]) {
        let TofuState { sim, costs, .. } = &*self.0;
        for _ in chain {
            sim.delay(costs.describe).await;
        }
        sim.delay(costs.doorbell).await;
        self.queue(at).write(chain).expect("a program waits for a queue before it starts it again");
        self.engine_of(at).bell.raise();
    }

    /// Host: waits until the queue has completed this many commands and received this many events
    /// in total.
    pub async fn wait(&self, at: TofuQueueAddress, completions: u64, events: u64) {
        let queue = self.queue(at);
        queue.completions.reaches(completions).await;
        queue.events.reaches(events).await;
        self.0.sim.delay(self.0.costs.poll).await;
    }

    /// Host: the library's own time for a start and a wait.
    pub async fn software(&self) {
        self.0.sim.delay(self.0.costs.software).await;
    }

    /// Makes messages a job's. The job is notified of each from now on.
    pub(super) fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.0.consignee.set(consignee);
    }

    /// Sets the callback for a job's message that has left a queue. Only the first call counts.
    pub(super) fn on_completion(&self, call: impl Fn(TofuQueueAddress) + 'static) {
        let _ = self.0.completed.set(Box::new(call));
    }

    /// The first queue of an engine.
    pub(super) fn first_queue(&self, node: Node, engine: u32) -> TofuQueueAddress {
        TofuQueueAddress { node, queue: engine * self.0.costs.queues as u32 }
    }

    /// The engine that runs a queue.
    pub(super) fn engine_number(&self, at: TofuQueueAddress) -> u32 {
        at.queue / self.0.costs.queues as u32
    }

    /// Writes a command without the host's time, and rings the bell. `false` if the queue has no
    /// room.
    pub(super) fn write(&self, at: TofuQueueAddress, command: DescriptorCommand) -> bool {
        let written = self.queue(at).write(&[command]).is_ok();
        if written {
            self.engine_of(at).bell.raise();
        }
        written
    }

    /// The send DMA of one engine.
    async fn run_engine(&self, index: u32) {
        let engine = &self.0.engines[index as usize];
        let node = index / self.0.costs.engines as u32;
        loop {
            let seen = engine.bell.count();
            match engine.next() {
                None => engine.bell.reaches(seen + 1).await,
                Some((queue, command)) => {
                    self.execute(index, node, command).await;
                    queue.complete();
                    if let DescriptorCommand::Message { token, .. } = command {
                        self.departed(index, token);
                    }
                }
            }
        }
    }

    /// Executes one command, until the engine is free for the next.
    async fn execute(&self, engine: u32, node: Node, command: DescriptorCommand) {
        let TofuState { sim, costs, .. } = &*self.0;
        sim.delay(costs.fetch).await;
        match command {
            DescriptorCommand::Nop => sim.delay(costs.nop).await,
            DescriptorCommand::Put { to, bytes, release, notify } => {
                self.put((engine, node), to, bytes, PutEnd::Put { release, notify }).await;
            }
            DescriptorCommand::Message { to, bytes, token } => {
                self.put((engine, node), to, bytes, PutEnd::Message { token }).await;
            }
        }
    }

    /// Sends packet by packet, until the engine has read the last byte. It continues to read while
    /// the router takes its packets. A put to the node itself loops back inside.
    async fn put(
        &self,
        (engine, node): (u32, Node),
        to: TofuQueueAddress,
        bytes: u64,
        end: PutEnd,
    ) {
        let TofuState { sim, costs, engines, .. } = &*self.0;
        let TofuEngine { injected, departed, .. } = &engines[engine as usize];
        let mut left = bytes;
        loop {
            let part = left.min(costs.packet_bytes);
            left -= part;
            departed.reaches(injected.get()).await;
            let flight = PutPacket { engine, to, bytes: part, end: (left == 0).then_some(end) };
            let system = self.clone();
            sim.at(sim.now() + costs.inject, move |_| system.inject(node, flight));
            sim.delay(costs.rate.time(part)).await;
            if left == 0 {
                return;
            }
        }
    }

    /// Handles a packet whose head has reached the router.
    fn inject(&self, source: Node, flight: PutPacket) {
        let TofuState { sim, network, flights, .. } = &*self.0;
        let PutPacket { engine, to, bytes, .. } = flight;
        if source == to.node {
            return self.0.receive(flight, sim.now());
        }
        let injected = &self.0.engines[engine as usize].injected;
        injected.set(injected.get() + 1);
        let token = u64::from(flights.borrow_mut().insert(flight));
        let packet = Packet { source, destination: to.node, bytes, token };
        if let Some(time) = network.send(packet) {
            let system = self.clone();
            sim.at(time, move |_| system.0.departed(&packet));
        }
    }

    /// Handles the departure of the last byte of a job's message from an engine.
    fn departed(&self, engine: u32, token: u64) {
        let engines = self.0.costs.engines as u32;
        if let Some(completed) = self.0.completed.get() {
            completed(self.first_queue(engine / engines, engine % engines));
        }
        if let Some(job) = self.0.consignee.get() {
            job.departed(token);
        }
    }

    /// Handles a whole put that the receive DMA has written.
    fn land(&self, to: TofuQueueAddress, end: PutEnd) {
        let (release, notify) = match end {
            PutEnd::Put { release, notify } => (release, notify),
            PutEnd::Message { token } => {
                if let Some(job) = self.0.consignee.get() {
                    job.delivered(token);
                }
                return;
            }
        };
        let queue = self.queue(to);
        if release > 0 {
            queue.release(release);
            self.engine_of(to).bell.raise();
        }
        if notify {
            queue.events.raise();
        }
    }

    fn engine(&self, node: Node, engine: u32) -> &TofuEngine {
        &self.0.engines[(node * self.0.costs.engines as u32 + engine) as usize]
    }

    fn engine_of(&self, at: TofuQueueAddress) -> &TofuEngine {
        self.engine(at.node, at.queue / self.0.costs.queues as u32)
    }

    fn queue(&self, at: TofuQueueAddress) -> Rc<EngineQueue> {
        let queues = self.engine_of(at).queues.borrow();
        Rc::clone(&queues[(at.queue as usize) % self.0.costs.queues as usize])
    }
}

impl TofuState {
    /// Receives, with an engine's receive DMA, a packet whose head arrived at `head`.
    fn receive(&self, flight: PutPacket, head: Time) {
        let PutPacket { to, bytes, end, .. } = flight;
        let span = self.costs.rate.time(bytes);
        let Some(system) = self.this.upgrade().map(TofuSystem) else { return };
        let start = system.engine_of(to).receive.book(head, span);
        if let Some(end) = end {
            self.sim.at(start + span + self.costs.land, move |_| system.land(to, end));
        }
    }
}

impl Listener for TofuState {
    fn departed(&self, packet: &Packet) {
        let flights = self.flights.borrow();
        if let Some(flight) = flights.get(packet.token as u32) {
            self.engines[flight.engine as usize].departed.raise();
        }
    }

    /// The network reports the tail. The bytes behind the head arrive at the rate of the links.
    fn delivered(&self, packet: &Packet) {
        let flight = self.flights.borrow_mut().remove(packet.token as u32);
        let (now, length) = (self.sim.now(), self.costs.link.time(packet.bytes));
        if let Some(flight) = flight {
            let head = now.picoseconds().saturating_sub(length.picoseconds());
            self.receive(flight, Time::from_picoseconds(head));
        }
    }
}

impl TofuEngine {
    /// The next command that may run. The queues are served in turn.
    fn next(&self) -> Option<(Rc<EngineQueue>, DescriptorCommand)> {
        let queues = self.queues.borrow();
        for step in 0..queues.len() {
            let index = (self.turn.get() + step) % queues.len();
            if let Some(command) = queues[index].next() {
                self.turn.set(index + 1);
                return Some((Rc::clone(&queues[index]), command));
            }
        }
        None
    }
}
