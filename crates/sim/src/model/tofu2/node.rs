//! A node's four engines (TNIs), and how puts travel between nodes.
//!
//! ```text
//!   host: descriptors, doorbell        engine: fetch ─► inject ─► bytes / rate ─► next command
//!         │                               ▲                            │
//!         ▼                               │ next()                     ▼ hops
//!   TOQ of a queue ───────────────────────┘            receive side of the addressed engine:
//!         ▲                                            land ─► release(sps), MRQ event
//!         └──────────────── scheduling pointer ◄───────────────┘
//! ```
//!
//! An engine runs one command at a time, turning to its queues in order. Sending and receiving
//! are separate and overlap. Between nodes a put takes its hops; links are not shared here, since
//! the measured neighbours are adjacent and each direction has its own link.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use thiserror::Error;

use super::costs::Costs;
use super::queue::{Command, Queue, QueueAddress};
use crate::engine::{Server, Signal, Sim, TaskName};
use crate::job::Consignee;
use crate::topology::{Node, Topology};

/// Why there is no queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("all {queues} command queues of engine {engine} of node {node} are in use")]
pub struct NoQueue {
    /// Where.
    pub node: Node,
    /// Which of its engines.
    pub engine: u32,
    /// How many it has.
    pub queues: u64,
}

/// The interfaces of all nodes.
#[derive(Debug, Clone)]
pub struct System(Rc<State>);

struct State {
    sim: Sim,
    costs: Costs,
    topology: Rc<dyn Topology>,
    /// By node and engine.
    engines: Vec<Engine>,
    /// The job whose messages these are.
    consignee: RefCell<Option<Weak<dyn Consignee>>>,
    /// Called when a message of a job has left a queue.
    completed: OnceCell<Box<dyn Fn(QueueAddress)>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("costs", &self.costs).finish_non_exhaustive()
    }
}

/// One TNI.
#[derive(Debug)]
struct Engine {
    queues: RefCell<Vec<Rc<Queue>>>,
    /// Where the next look begins.
    turn: Cell<usize>,
    /// Something may have become runnable.
    bell: Signal,
    receive: Server,
}

impl System {
    /// The interfaces of a machine of this shape.
    pub fn new(sim: &Sim, costs: &Costs, topology: Rc<dyn Topology>) -> System {
        let engine = |_| Engine {
            queues: RefCell::default(),
            turn: Cell::new(0),
            bell: Signal::new(sim, "a runnable command"),
            receive: Server::new(sim),
        };
        let count = topology.nodes() * costs.engines as u32;
        let engines = (0..count).map(engine).collect();
        let state = State {
            sim: sim.clone(),
            costs: costs.clone(),
            topology,
            engines,
            consignee: RefCell::new(None),
            completed: OnceCell::new(),
        };
        let system = System(Rc::new(state));
        for index in 0..count {
            let unit = system.clone();
            let name = TaskName { kind: "send DMA", index };
            sim.spawn_service(name, async move { unit.run_engine(index).await });
        }
        system
    }

    /// Opens a queue of so many slots on an engine, in session mode if an offset is given.
    ///
    /// # Errors
    /// [`NoQueue`]: all of that engine's are in use. The caller shares queues then (MRC).
    pub fn open(
        &self,
        node: Node,
        engine: u32,
        slots: u32,
        session: Option<u32>,
    ) -> Result<QueueAddress, NoQueue> {
        let State { sim, costs, .. } = &*self.0;
        let mut queues = self.engine(node, engine).queues.borrow_mut();
        if queues.len() as u64 >= costs.queues {
            return Err(NoQueue { node, engine, queues: costs.queues });
        }
        let signals = ["a completion", "an event"].map(|what| Signal::new(sim, what));
        let queue = engine * costs.queues as u32 + queues.len() as u32;
        queues.push(Rc::new(Queue::new(slots, session, signals)));
        Ok(QueueAddress { node, queue })
    }

    /// Host: writes a chain of commands and rings the doorbell.
    ///
    /// # Panics
    /// The queue has no room: the program starts again before its wait.
    pub async fn start(&self, at: QueueAddress, chain: &[Command]) {
        let State { sim, costs, .. } = &*self.0;
        for _ in chain {
            sim.delay(costs.describe).await;
        }
        sim.delay(costs.doorbell).await;
        self.queue(at).write(chain).expect("a program waits for a queue before it starts it again");
        self.engine_of(at).bell.raise();
    }

    /// Host: waits until the queue has completed so many commands and received so many events
    /// altogether.
    pub async fn wait(&self, at: QueueAddress, completions: u64, events: u64) {
        let queue = self.queue(at);
        queue.completions.reaches(completions).await;
        queue.events.reaches(events).await;
        self.0.sim.delay(self.0.costs.poll).await;
    }

    /// Host: the library's own time around a start and a wait.
    pub async fn software(&self) {
        self.0.sim.delay(self.0.costs.software).await;
    }

    /// From here on messages are a job's, and the job is told of each.
    pub(super) fn connect(&self, consignee: Weak<dyn Consignee>) {
        *self.0.consignee.borrow_mut() = Some(consignee);
    }

    /// Sets what is called when a message of a job has left a queue; once.
    pub(super) fn on_completion(&self, call: impl Fn(QueueAddress) + 'static) {
        let _ = self.0.completed.set(Box::new(call));
    }

    /// The first queue of an engine.
    pub(super) fn first_queue(&self, node: Node, engine: u32) -> QueueAddress {
        QueueAddress { node, queue: engine * self.0.costs.queues as u32 }
    }

    /// Which engine of its node runs a queue.
    pub(super) fn engine_number(&self, at: QueueAddress) -> u32 {
        at.queue / self.0.costs.queues as u32
    }

    /// Writes a command without the host's time and rings; `false` if the queue has no room.
    pub(super) fn write(&self, at: QueueAddress, command: Command) -> bool {
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
                    self.execute(node, command).await;
                    queue.complete();
                    if let Command::Message { token, .. } = command {
                        self.departed(index, token);
                    }
                }
            }
        }
    }

    /// One command, until the engine is free for the next.
    async fn execute(&self, node: Node, command: Command) {
        let State { sim, costs, .. } = &*self.0;
        sim.delay(costs.fetch).await;
        match command {
            Command::Nop => sim.delay(costs.nop).await,
            Command::Put { to, bytes, release, notify } => {
                let land = move |system: &System| system.land(to, release, notify);
                self.put((node, to), bytes, land).await;
            }
            Command::Message { to, bytes, token } => {
                let land = move |system: &System| {
                    if let Some(job) = system.consignee() {
                        job.delivered(token);
                    }
                };
                self.put((node, to), bytes, land).await;
            }
        }
    }

    /// Bytes on their way, until the engine has sent the last; `land` is called when that is in
    /// memory.
    async fn put(
        &self,
        (node, to): (Node, QueueAddress),
        bytes: u64,
        land: impl FnOnce(&System) + 'static,
    ) {
        let State { sim, costs, .. } = &*self.0;
        let span = costs.rate.time(bytes);
        let head = sim.now() + costs.inject + self.way(node, to.node);
        let system = self.clone();
        sim.at(head, move |sim| {
            let start = system.engine_of(to).receive.book(sim.now(), span);
            let landed = start + span + system.0.costs.land;
            sim.at(landed, move |_| land(&system));
        });
        sim.delay(span).await;
    }

    fn consignee(&self) -> Option<Rc<dyn Consignee>> {
        self.0.consignee.borrow().as_ref().and_then(Weak::upgrade)
    }

    /// The last byte of a job's message has left an engine.
    fn departed(&self, engine: u32, token: u64) {
        let engines = self.0.costs.engines as u32;
        if let Some(completed) = self.0.completed.get() {
            completed(self.first_queue(engine / engines, engine % engines));
        }
        if let Some(job) = self.consignee() {
            job.departed(token);
        }
    }

    /// Routers and links between two nodes; none to the node itself, which loops back inside.
    fn way(&self, from: Node, to: Node) -> hikyaku_nic::time::Time {
        let hops = match from == to {
            true => 0,
            // A route's first and last channel join node and router.
            false => u64::from(self.0.topology.distance(from, to)).saturating_sub(2),
        };
        hikyaku_nic::time::Time::from_picoseconds(self.0.costs.hop.picoseconds() * hops)
    }

    /// The receive DMA has written a put.
    fn land(&self, to: QueueAddress, release: u32, notify: bool) {
        let queue = self.queue(to);
        if release > 0 {
            queue.release(release);
            self.engine_of(to).bell.raise();
        }
        if notify {
            queue.events.raise();
        }
    }

    fn engine(&self, node: Node, engine: u32) -> &Engine {
        &self.0.engines[(node * self.0.costs.engines as u32 + engine) as usize]
    }

    fn engine_of(&self, at: QueueAddress) -> &Engine {
        self.engine(at.node, at.queue / self.0.costs.queues as u32)
    }

    fn queue(&self, at: QueueAddress) -> Rc<Queue> {
        let queues = self.engine_of(at).queues.borrow();
        Rc::clone(&queues[(at.queue as usize) % self.0.costs.queues as usize])
    }
}

impl Engine {
    /// The next command that may run, of the queues in turn.
    fn next(&self) -> Option<(Rc<Queue>, Command)> {
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
