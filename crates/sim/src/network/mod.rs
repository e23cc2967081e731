//! Networks: the travel time of packets, and their waits for links and buffers.
//!
//! ```text
//!   interface --send(packet)--> Network --[ model: LogGp | Wormhole | CutThrough ]--+
//!       ^                                                                           |
//!       +--- departed(token): the last byte has left the sender's memory <---------+
//!       +--- delivered(packet): the last byte has arrived            <-------------+
//! ```
//!
//! A *model* is a state machine without a clock. It receives packets and its own events. It
//! schedules events and reports outcomes through an [`Agenda`]. [`Network`] runs one model in a
//! simulation and passes the outcomes to its listener: a modelled interface, or the plain one of
//! `job`.
//!
//! | model | behaviour | cost |
//! |---|---|---|
//! | [`LogGp`] | latency, gaps at both ends; no contention inside | one event a message |
//! | [`Wormhole`] | a message holds its channels until its tail has passed | one event a hop |
//! | [`CutThrough`] | finite buffers, in which blocked packets wait whole | two events a hop |
//!
//! [`SyncNetwork`] is the separate barrier hardware of a multistage network.
//!
//! All models guarantee: every sent packet is delivered once; none arrives before it was sent;
//! packets between two nodes keep their order; a departure is reported before its delivery.

mod cut_through;
mod log_gp;
mod model;
mod rate;
mod sync;
mod timing;
mod wormhole;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

pub use cut_through::CutThrough;
pub use log_gp::{LogGp, LogGpParameters};
pub use model::{Agenda, NetworkModel, NetworkOutcome, NoMulticast, Packet};
pub use rate::Rate;
pub use sync::{SyncError, SyncNetwork, SyncParameters};
pub use timing::{LinkTiming, Timing};
pub use wormhole::Wormhole;

use crate::engine::{BATCH, Component, ComponentId, PrefetchStage, Sim};
use crate::topology::Node;

/// The user of a network. It receives the outcomes of its packets.
pub trait Listener {
    /// The last byte of a packet has left its sender. The next packet may follow.
    fn departed(&self, packet: &Packet);

    /// The last byte of a packet has arrived.
    fn delivered(&self, packet: &Packet);

    /// Prepares for packets that will soon be delivered, like [`Component::prepare`], from the
    /// second stage on.
    fn prepare(&self, packets: &[Packet], stage: PrefetchStage) {
        let _ = (packets, stage);
    }
}

/// A network in a simulation.
pub struct Network {
    sim: Sim,
    component: Cell<Option<ComponentId>>,
    model: RefCell<Box<dyn NetworkModel>>,
    listener: RefCell<Option<Weak<dyn Listener>>>,
    /// Outcomes of the current call.
    outcomes: RefCell<Vec<NetworkOutcome>>,
    counts: Cell<NetworkCounts>,
    traced: bool,
}

/// Packets and bytes of a network so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Packets sent. A multicast counts once.
    pub sent: u64,
    /// Packets delivered. Each copy counts.
    pub delivered: u64,
    /// Bytes delivered, including headers.
    pub bytes: u64,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("counts", &self.counts.get()).finish_non_exhaustive()
    }
}

impl Network {
    /// Runs a model in a simulation. Switch the simulation's trace on before this call, which
    /// decides whether links are traced.
    pub fn new(sim: &Sim, model: Box<dyn NetworkModel>) -> Rc<Network> {
        let network = Rc::new(Network {
            sim: sim.clone(),
            component: Cell::new(None),
            model: RefCell::new(model),
            listener: RefCell::new(None),
            outcomes: RefCell::default(),
            counts: Cell::default(),
            traced: sim.trace().is_on(),
        });
        network.component.set(Some(sim.register(Rc::clone(&network) as Rc<dyn Component>)));
        network
    }

    /// Sets the listener for outcomes, in place of an earlier one. The reference is weak, because
    /// the listener holds the network.
    pub fn connect(&self, listener: Weak<dyn Listener>) {
        *self.listener.borrow_mut() = Some(listener);
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u32 {
        self.model.borrow().nodes()
    }

    /// Packets and bytes so far.
    pub fn counts(&self) -> NetworkCounts {
        self.counts.get()
    }

    /// Whether [`send_at`](Network::send_at) takes packets ahead of their time.
    pub fn takes_ahead(&self) -> bool {
        self.model.borrow().takes_ahead()
    }

    /// The time during which each link has carried bytes, by link number. Empty without links.
    pub fn link_busy(&self) -> Vec<Time> {
        self.model.borrow().link_busy().to_vec()
    }

    /// Sends a packet now. `Some(time)`: it departs then, and the listener is not notified.
    ///
    /// # Panics
    /// If the packet names a node that does not exist. The listener checks that before.
    pub fn send(&self, packet: Packet) -> Option<Time> {
        self.send_at(packet, self.sim.now())
    }

    /// Sends a packet at a future time, if the model [accepts](Network::takes_ahead) it.
    ///
    /// # Panics
    /// As [`Network::send`].
    pub fn send_at(&self, packet: Packet, at: Time) -> Option<Time> {
        let mut counts = self.counts.get();
        counts.sent += 1;
        self.counts.set(counts);
        self.call(|model, agenda| {
            assert!(
                packet.source.max(packet.destination) < model.nodes(),
                "{packet:?}: no such node"
            );
            model.send(packet, at, agenda)
        })
    }

    /// Sends a packet to several nodes at once.
    ///
    /// # Errors
    /// [`NoMulticast`] if this network cannot copy.
    ///
    /// # Panics
    /// As [`Network::send`].
    pub fn multicast(&self, packet: Packet, to: &[Node]) -> Result<(), NoMulticast> {
        self.call(|model, agenda| {
            let nodes = model.nodes();
            assert!(
                packet.source < nodes && to.iter().all(|&node| node < nodes),
                "{packet:?}, {to:?}"
            );
            model.multicast(packet, to, agenda)
        })?;
        let mut counts = self.counts.get();
        counts.sent += 1;
        self.counts.set(counts);
        Ok(())
    }

    /// Opens or closes a node's door: [`NetworkModel::set_open`].
    pub fn set_open(&self, node: Node, open: bool) {
        self.call(|model, agenda| model.set_open(node, open, agenda));
    }

    /// Calls the model and passes its outcomes to the listener.
    fn call<R>(&self, body: impl FnOnce(&mut dyn NetworkModel, &mut Agenda<'_>) -> R) -> R {
        let component = self.component.get().expect("set when the network is made");
        let mut outcomes = self.outcomes.take();
        let mut agenda =
            Agenda { sim: &self.sim, component, outcomes: &mut outcomes, traced: self.traced };
        let result = body(self.model.borrow_mut().as_mut(), &mut agenda);
        // The model is no longer borrowed: a listener may send in response.
        for outcome in outcomes.drain(..) {
            self.pass_on(&outcome);
        }
        self.outcomes.replace(outcomes);
        result
    }

    fn pass_on(&self, outcome: &NetworkOutcome) {
        if let NetworkOutcome::Delivered(packet) = outcome {
            let mut counts = self.counts.get();
            counts.delivered += 1;
            counts.bytes += packet.bytes;
            self.counts.set(counts);
        }
        let listener = self.listener.borrow().as_ref().and_then(Weak::upgrade);
        match (listener, outcome) {
            (None, _) => {}
            (Some(listener), NetworkOutcome::Departed(packet)) => listener.departed(packet),
            (Some(listener), NetworkOutcome::Delivered(packet)) => listener.delivered(packet),
        }
    }
}

impl Component for Network {
    fn handle(&self, _sim: &Sim, word: u32) {
        self.call(|model, agenda| model.handle(word, agenda));
    }

    fn prepare(&self, words: &[u32], stage: PrefetchStage) {
        let model = self.model.borrow();
        let mut packets = [Packet { source: 0, destination: 0, bytes: 0, token: 0 }; BATCH];
        let found = words.iter().filter_map(|&word| model.prepare(word, stage));
        let count = packets.iter_mut().zip(found).map(|(place, packet)| *place = packet).count();
        if count == 0 {
            return;
        }
        let listener = self.listener.borrow().as_ref().and_then(Weak::upgrade);
        if let Some(listener) = listener {
            listener.prepare(&packets[..count], stage);
        }
    }
}
