//! The plain interface: cuts messages into packets and hands them to the network one by one.
//!
//! It costs no time itself and has one send engine. A network that takes messages ahead of their
//! time gets them whole, with the headers of all their packets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::carrier::{Carrier, Coming, Connection, Consignee, Parcel};
use crate::engine::{BATCH, PrefetchStage, Sim};
use crate::network::{Listener, Network, Packet};
use crate::topology::Node;

/// The packet format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketFormat {
    /// The maximum payload of a packet in bytes; `u64::MAX` sends messages whole.
    pub payload: u64,
    /// The header and trailer of each packet, bytes on the wire.
    pub header: u64,
}

impl PacketFormat {
    /// Messages are sent whole and without headers.
    pub const WHOLE: PacketFormat = PacketFormat { payload: u64::MAX, header: 0 };
}

/// An interface that only cuts messages into packets.
#[derive(Debug)]
pub struct PlainInterface {
    sim: Sim,
    network: Rc<Network>,
    format: PacketFormat,
    takes_ahead: bool,
    /// By node: the messages that wait to depart, the one in progress first.
    queues: RefCell<Vec<VecDeque<DepartingMessage>>>,
    consignee: Connection,
    this: Weak<PlainInterface>,
}

/// A message that has not departed completely.
#[derive(Debug, Clone, Copy)]
struct DepartingMessage {
    parcel: Parcel,
    /// The payload bytes that have not been handed to the network.
    left: u64,
}

impl PlainInterface {
    /// An interface at every node of a network. It becomes the network's listener.
    pub fn new(sim: &Sim, network: Rc<Network>, format: PacketFormat) -> Rc<PlainInterface> {
        let takes_ahead = network.takes_ahead();
        let queues = if takes_ahead { 0 } else { network.nodes() as usize };
        let interface = Rc::new_cyclic(|this| PlainInterface {
            sim: sim.clone(),
            network,
            format,
            takes_ahead,
            queues: RefCell::new(vec![VecDeque::new(); queues]),
            consignee: Connection::default(),
            this: Weak::clone(this),
        });
        let listener: Weak<dyn Listener> = interface.this.clone();
        interface.network.connect(listener);
        interface
    }

    /// The network below.
    pub fn network(&self) -> &Rc<Network> {
        &self.network
    }

    /// Hands the next packet of a node to the network, if there is one.
    fn pump(&self, node: Node) {
        let packet = {
            let mut queues = self.queues.borrow_mut();
            let Some(outgoing) = queues[node as usize].front_mut() else { return };
            let payload = outgoing.left.min(self.format.payload);
            outgoing.left -= payload;
            self.packet(&outgoing.parcel, payload + self.format.header, outgoing.left == 0)
        };
        if let Some(departure) = self.network.send(packet) {
            let this = Weak::clone(&self.this);
            self.sim.at(departure, move |_| {
                if let Some(interface) = this.upgrade() {
                    interface.departed(&packet);
                }
            });
        }
    }

    fn packet(&self, parcel: &Parcel, bytes: u64, last: bool) -> Packet {
        let Parcel { source, destination, token, .. } = *parcel;
        Packet { source, destination, bytes, token: token << 1 | u64::from(last) }
    }
}

impl Carrier for PlainInterface {
    fn nodes(&self) -> u32 {
        self.network.nodes()
    }

    fn carry(&self, parcel: Parcel, at: Time) -> Option<Time> {
        if self.takes_ahead {
            let packets = parcel.bytes.div_ceil(self.format.payload).max(1);
            let bytes = parcel.bytes + packets * self.format.header;
            return self.network.send_at(self.packet(&parcel, bytes, true), at);
        }
        let mut queues = self.queues.borrow_mut();
        let queue = &mut queues[parcel.source as usize];
        queue.push_back(DepartingMessage { parcel, left: parcel.bytes });
        let idle = queue.len() == 1;
        drop(queues);
        if idle {
            self.pump(parcel.source);
        }
        None
    }

    fn takes_ahead(&self) -> bool {
        self.takes_ahead
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.consignee.set(consignee);
    }
}

impl Listener for PlainInterface {
    fn departed(&self, packet: &Packet) {
        if packet.token & 1 == 1 {
            self.queues.borrow_mut()[packet.source as usize].pop_front();
            if let Some(consignee) = self.consignee.get() {
                consignee.departed(packet.token >> 1);
            }
        }
        self.pump(packet.source);
    }

    fn prepare(&self, packets: &[Packet], stage: PrefetchStage) {
        let Some(consignee) = self.consignee.get() else { return };
        let mut coming = [Coming { token: 0, destination: 0 }; BATCH];
        let whole = packets.iter().filter(|packet| packet.token & 1 == 1);
        let whole = whole
            .map(|packet| Coming { token: packet.token >> 1, destination: packet.destination });
        let count = coming.iter_mut().zip(whole).map(|(place, one)| *place = one).count();
        consignee.prepare(&coming[..count], stage);
    }

    /// Handles the delivery of a packet. Packets between two nodes keep their order, so the last
    /// one completes the message.
    fn delivered(&self, packet: &Packet) {
        if packet.token & 1 == 1
            && let Some(consignee) = self.consignee.get()
        {
            consignee.delivered(packet.token >> 1);
        }
    }
}
