//! The network interface adaptor (NIA): transfer control words, chains of them, packets.
//!
//! ```text
//!   host: light system call ─► NIA: TCW ─► packet, packet, ... ─► next TCW of the chain ─► ...
//!         once a chain               h      gap                    h
//!                                    arrivals at any time: the NIA is full duplex
//! ```
//!
//! A node sends one packet at a time. The next one follows when the tail of the previous one has
//! left for the network; wormhole blocking may delay that. Data goes from area to area without a
//! copy.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use super::costs::Costs;
use crate::engine::{Mailbox, Signal, Sim, TaskName};
use crate::job::{Connection, Consignee};
use crate::network::{Listener, Network, Packet};
use crate::slab::Slab;
use crate::topology::Node;

/// A message to be sent: the contents of a transfer control word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcw {
    /// The destination.
    pub to: Node,
    /// The number of bytes.
    pub bytes: u64,
    /// The destination area. The receiver counts its arrivals.
    pub area: u32,
}

/// The number of chains that may wait at an adaptor. Beyond that the host waits.
const CHAINS: usize = 16;

/// The adaptors of all nodes on their network.
#[derive(Debug, Clone)]
pub struct NiaSystem(Rc<NiaState>);

#[derive(Debug)]
struct NiaState {
    sim: Sim,
    costs: Costs,
    network: Rc<Network>,
    nodes: Vec<Nia>,
    /// Messages in flight.
    messages: RefCell<Slab<NiaMessage>>,
    /// The job whose messages are carried. Areas are its message numbers.
    consignee: Connection,
}

#[derive(Debug)]
struct Nia {
    chains: Mailbox<Vec<Tcw>>,
    /// Counts packets whose tail has left.
    departed: Signal,
    /// Counts chains that have been sent completely.
    sent: Signal,
    /// Counts arrived messages, by area.
    arrived: RefCell<BTreeMap<u32, Signal>>,
}

#[derive(Debug)]
struct NiaMessage {
    to: Node,
    area: u32,
    /// The number of packets that have not arrived.
    packets: u64,
}

impl NiaSystem {
    /// Adaptors for all nodes of a network.
    pub fn new(sim: &Sim, costs: &Costs, network: Rc<Network>) -> NiaSystem {
        let nia = |_| Nia {
            chains: Mailbox::new(sim, CHAINS, "room for a chain, or a chain"),
            departed: Signal::new(sim, "a packet's tail to leave"),
            sent: Signal::new(sim, "a chain to be sent"),
            arrived: RefCell::default(),
        };
        let nodes: Vec<Nia> = (0..network.nodes()).map(nia).collect();
        let state = Rc::new(NiaState {
            sim: sim.clone(),
            costs: costs.clone(),
            network: Rc::clone(&network),
            nodes,
            messages: RefCell::default(),
            consignee: Connection::default(),
        });
        let listener: Weak<dyn Listener> = Rc::downgrade(&(Rc::clone(&state) as Rc<dyn Listener>));
        network.connect(listener);
        let system = NiaSystem(state);
        for index in 0..network.nodes() {
            let unit = system.clone();
            let name = TaskName { kind: "adaptor", index };
            sim.spawn_service(name, async move { unit.send_chains(index).await });
        }
        system
    }

    /// Host: passes a chain to the adaptor by one light system call.
    pub async fn start(&self, node: Node, chain: Vec<Tcw>) {
        self.0.sim.delay(self.0.costs.start).await;
        self.0.nodes[node as usize].chains.send(chain).await;
    }

    /// Passes a chain of one to the adaptor, without the host's time, even if the queue is full.
    pub(super) fn enqueue(&self, node: Node, tcw: Tcw) {
        self.0.nodes[node as usize].chains.admit(vec![tcw]);
    }

    /// Makes areas a job's messages. The job is notified of each from now on.
    pub(super) fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.0.consignee.set(consignee);
    }

    /// Host: like [`NiaSystem::start`], and waits until the chain has left.
    pub async fn send(&self, node: Node, chain: Vec<Tcw>) {
        let sent = &self.0.nodes[node as usize].sent;
        let count = sent.count() + 1;
        self.start(node, chain).await;
        sent.reaches(count).await;
    }

    /// Operating system: takes an interrupt at a node, for example to pass a broadcast on.
    pub async fn interrupt(&self) {
        self.0.sim.delay(self.0.costs.interrupt).await;
    }

    /// Host: polls until `count` messages in total have arrived in an area.
    pub async fn receive(&self, node: Node, area: u32, count: u64) {
        let arrived = self.0.arrivals(node, area);
        arrived.reaches(count).await;
        self.0.sim.delay(self.0.costs.detect).await;
    }

    /// The network below.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// A node's adaptor: chain by chain, TCW by TCW, packet by packet.
    async fn send_chains(&self, node: Node) {
        let NiaState { sim, costs, .. } = &*self.0;
        let nia = &self.0.nodes[node as usize];
        loop {
            for tcw in nia.chains.receive().await {
                sim.delay(costs.message).await;
                self.send_message(node, tcw).await;
            }
            nia.sent.raise();
        }
    }

    async fn send_message(&self, node: Node, Tcw { to, bytes, area }: Tcw) {
        let NiaState { sim, costs, network, nodes, messages, .. } = &*self.0;
        let packets = bytes.div_ceil(costs.packet_bytes).max(1);
        let token = u64::from(messages.borrow_mut().insert(NiaMessage { to, area, packets }));
        let departed = &nodes[node as usize].departed;
        let mut left = bytes;
        for packet in 1..=packets {
            let part = left.min(costs.packet_bytes);
            left -= part;
            let before = departed.count();
            let leaves = network.send(Packet { source: node, destination: to, bytes: part, token });
            match leaves {
                Some(time) => sim.delay_until(time).await,
                None => departed.reaches(before + 1).await,
            }
            if packet < packets {
                sim.delay(costs.packet).await;
            }
        }
        if let Some(job) = self.0.consignee.get() {
            job.departed(u64::from(area));
        }
    }
}

impl NiaState {
    /// The count of messages that have arrived in an area of a node.
    fn arrivals(&self, node: Node, area: u32) -> Signal {
        let mut arrived = self.nodes[node as usize].arrived.borrow_mut();
        let new = || Signal::new(&self.sim, "a message in its area");
        arrived.entry(area).or_insert_with(new).clone()
    }
}

impl Listener for NiaState {
    fn departed(&self, packet: &Packet) {
        self.nodes[packet.source as usize].departed.raise();
    }

    fn delivered(&self, packet: &Packet) {
        let key = packet.token as u32;
        let mut messages = self.messages.borrow_mut();
        let message = &mut messages[key];
        message.packets -= 1;
        if message.packets > 0 {
            return;
        }
        let NiaMessage { to, area, .. } = *message;
        messages.remove(key);
        drop(messages);
        match self.consignee.get() {
            Some(job) => job.delivered(u64::from(area)),
            None => self.arrivals(to, area).raise(),
        }
    }
}
