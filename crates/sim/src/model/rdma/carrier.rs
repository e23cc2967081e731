//! A job's messages over a present-day RDMA interface.
//!
//! ```text
//!   rank: post ──► gap after the last message, inject ──► packets ──► network ──► land ──► poll
//! ```

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::costs::Costs;
use crate::engine::{Component, ComponentId, Server, Sim};
use crate::job::{Carrier, Connection, Consignee, HostCosts, PacketFormat, Parcel, PlainInterface};
use crate::network::Network;
use crate::slab::Slab;

/// The interfaces of all nodes. Each starts at most one message per `gap`. After `inject` its
/// packets leave one behind the other. The message is complete in memory `land` after the arrival
/// of its last packet.
#[derive(Debug)]
pub struct Interfaces {
    sim: Sim,
    costs: Costs,
    packets: Rc<PlainInterface>,
    engines: Vec<Server>,
    /// Messages between their start and their first byte.
    injected: RefCell<Slab<Parcel>>,
    component: OnceCell<ComponentId>,
    consignee: Connection,
}

/// The kinds of an interface's events: the low bits of the word. A number is above them.
const INJECT: u32 = 0;
const DEPARTED: u32 = 1;
const LANDED: u32 = 2;

impl Interfaces {
    /// An interface at every node of a network.
    pub fn new(sim: &Sim, costs: &Costs, network: Rc<Network>) -> Rc<Interfaces> {
        let format = PacketFormat { payload: costs.packet_bytes.max(1), header: 0 };
        let engines = (0..network.nodes()).map(|_| Server::new(sim)).collect();
        let interfaces = Rc::new(Interfaces {
            sim: sim.clone(),
            costs: costs.clone(),
            packets: PlainInterface::new(sim, network, format),
            engines,
            injected: RefCell::default(),
            component: OnceCell::new(),
            consignee: Connection::default(),
        });
        let component = sim.register(Rc::clone(&interfaces) as Rc<dyn Component>);
        let _ = interfaces.component.set(component);
        let own: Weak<dyn Consignee> =
            Rc::downgrade(&(Rc::clone(&interfaces) as Rc<dyn Consignee>));
        interfaces.packets.connect(own);
        interfaces
    }

    fn schedule(&self, time: Time, word: u32) {
        let component = self.component.get().expect("set when the interfaces are made");
        self.sim.schedule(time, *component, word);
    }
}

impl Carrier for Interfaces {
    fn nodes(&self) -> u32 {
        self.packets.nodes()
    }

    fn host(&self, _bytes: u64) -> HostCosts {
        HostCosts { send: self.costs.post, receive: self.costs.poll }
    }

    fn look(&self) -> Time {
        self.costs.poll
    }

    fn carry(&self, parcel: Parcel, at: Time) -> Option<Time> {
        let start = self.engines[parcel.source as usize].book(at, self.costs.gap);
        let key = self.injected.borrow_mut().insert(parcel);
        self.schedule(start + self.costs.inject, key << 2 | INJECT);
        None
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.consignee.set(consignee);
    }
}

impl Component for Interfaces {
    fn handle(&self, sim: &Sim, word: u32) {
        let number = word >> 2;
        match word & 3 {
            INJECT => {
                let parcel = self.injected.borrow_mut().remove(number);
                let Some(parcel) = parcel else { return };
                if let Some(time) = self.packets.carry(parcel, sim.now()) {
                    self.schedule(time, (parcel.token as u32) << 2 | DEPARTED);
                }
            }
            DEPARTED => self.departed(u64::from(number)),
            _ => {
                if let Some(consignee) = self.consignee.get() {
                    consignee.delivered(u64::from(number));
                }
            }
        }
    }
}

impl Consignee for Interfaces {
    fn departed(&self, token: u64) {
        if let Some(consignee) = self.consignee.get() {
            consignee.departed(token);
        }
    }

    fn delivered(&self, token: u64) {
        self.schedule(self.sim.now() + self.costs.land, (token as u32) << 2 | LANDED);
    }
}
