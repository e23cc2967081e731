//! A job's messages over Tofu2: puts with notification, one queue per engine.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Costs;
use super::node::TofuSystem;
use super::queue::{DescriptorCommand, TofuQueueAddress};
use crate::engine::Sim;
use crate::job::{Carrier, Consignee, HostCosts, Parcel};
use crate::network::Network;
use crate::topology::Node;

/// The number of descriptors in a job's queue. Further messages wait for the engine.
const SLOTS: u32 = 256;

/// Carries a job's messages.
///
/// A rank pays the library's time, a descriptor and a doorbell for each sent message, and a poll of
/// the event queue for each received one. All messages between two nodes take the same engine, so
/// that they stay in order. Messages to different nodes are spread over the engines.
#[derive(Debug)]
pub struct Engines {
    system: TofuSystem,
    nodes: u32,
    engines: u32,
    host: HostCosts,
    /// By queue: messages whose descriptors have not found room yet.
    waiting: Vec<RefCell<VecDeque<DescriptorCommand>>>,
}

impl Engines {
    /// Interfaces at all nodes of a network.
    pub fn new(sim: &Sim, costs: &Costs, network: Rc<Network>) -> Rc<Engines> {
        let (nodes, engines) = (network.nodes(), costs.engines as u32);
        let system = TofuSystem::new(sim, costs, network);
        for queue in 0..nodes * engines {
            let opened = system.open(queue / engines, queue % engines, SLOTS, None);
            opened.expect("an engine has at least one queue");
        }
        let send = costs.software + costs.describe + costs.doorbell;
        let host = HostCosts { send, receive: costs.poll };
        let waiting = (0..nodes * engines).map(|_| RefCell::default()).collect();
        let carrier = Rc::new(Engines { system, nodes, engines, host, waiting });
        let feeder = Rc::downgrade(&carrier);
        carrier.system.on_completion(move |at| {
            if let Some(carrier) = feeder.upgrade() {
                carrier.feed(at);
            }
        });
        carrier
    }

    /// The queue of a node for messages with another node.
    fn queue(&self, node: Node, other: Node) -> TofuQueueAddress {
        self.system.first_queue(node, other % self.engines)
    }

    /// Moves waiting commands into the queue, within the available room.
    fn feed(&self, at: TofuQueueAddress) {
        let engine = self.system.engine_number(at);
        let mut waiting = self.waiting[(at.node * self.engines + engine) as usize].borrow_mut();
        while let Some(command) = waiting.front() {
            if !self.system.write(at, *command) {
                return;
            }
            waiting.pop_front();
        }
    }
}

impl Carrier for Engines {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn host(&self, _bytes: u64) -> HostCosts {
        self.host
    }

    fn look(&self) -> Time {
        self.host.receive
    }

    fn carry(&self, parcel: Parcel, _at: Time) -> Option<Time> {
        let Parcel { source, destination, bytes, token } = parcel;
        let (from, to) = (self.queue(source, destination), self.queue(destination, source));
        let engine = self.system.engine_number(from);
        let command = DescriptorCommand::Message { to, bytes, token };
        self.waiting[(source * self.engines + engine) as usize].borrow_mut().push_back(command);
        self.feed(from);
        None
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.system.connect(consignee);
    }
}
