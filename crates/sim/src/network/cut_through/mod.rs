//! Virtual cut-through with finite buffers (Kermani, Kleinrock 1979), packet by packet.
//!
//! ```text
//!              link free?  room for the whole packet?
//!   [ 3 2 1 ] ------------------------------------------> [   5 4 ]     a buffer is first in,
//!    buffer of a channel         link                       next          first out
//! ```
//!
//! A packet crosses a link when the link is free and the buffer behind it has room for the whole
//! packet. It may continue before it has arrived completely. A blocked packet therefore never
//! stretches over several links. It stays in one buffer, and only the packets behind it in that
//! buffer wait with it. If a link leads to several buffers (virtual channels, crosspoints), a
//! packet whose buffer is full lets others pass, except those for the same buffer. Links serve
//! requests in order.
//!
//! A packet takes two events per hop: its head has arrived, its tail has left.
//!
//! Multicast: a crossing enters several buffers of its link at once, if all have room. The copies
//! continue independently. A copy that leaves its buffer over several links takes each link when it
//! can, and leaves the buffer with the last one.
//!
//! A packet larger than a buffer may enter if the buffer is empty, and occupies it alone. A
//! receiving node takes every packet, unless its door is closed.

mod flight;

use std::rc::Rc;

use hikyaku_nic::time::Time;

use self::flight::{Copy, CopyPlace, Flight, LinkRequest, PacketPath};
use super::timing::{NetworkWiring, Timing};
use super::{Agenda, NetworkModel, NetworkOutcome, NoMulticast, Packet};
use crate::slab::{NONE, Slab};
use crate::topology::{Channel, Link, Node, Topology, Vertex};

/// A network of buffers.
#[derive(Debug)]
pub struct CutThrough {
    wiring: NetworkWiring,
    buffers: Vec<ChannelBuffer>,
    links: Vec<LinkState>,
    busy: Vec<Time>,
    flights: Slab<Flight>,
    copies: Slab<Copy>,
    requests: Slab<LinkRequest>,
    /// The routes of packets that have arrived, for reuse.
    spare: Vec<Vec<Channel>>,
    /// Buffers found full during a search of requests.
    refused: Vec<Channel>,
}

/// The buffer of a channel.
#[derive(Debug, Clone, Copy)]
struct ChannelBuffer {
    /// The bytes of packets in it, or in flight into it.
    used: u64,
    /// Its size, bytes.
    size: u64,
    first: u32,
    last: u32,
    /// Whether it is a door: a packet that enters it has reached its receiver.
    door: bool,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct LinkState {
    /// The copy that is crossing; `NONE` if the link is free.
    crossing: u32,
    /// Requests, oldest first.
    first: u32,
    last: u32,
}

/// The kinds of events: two bits of the word. The other bits are the number of a copy or a link.
const HEAD: u32 = 0;
const TAIL: u32 = 1;
const DELIVERED: u32 = 2;

impl CutThrough {
    /// A network of this shape with these costs.
    pub fn new(topology: Rc<dyn Topology>, timing: &Timing) -> CutThrough {
        let wiring = NetworkWiring::new(topology, timing);
        let (used, size) = (0, 0);
        let empty =
            ChannelBuffer { used, size, first: NONE, last: NONE, door: false, closed: false };
        let mut buffers = vec![empty; wiring.link_of.len()];
        for (buffer, &link) in buffers.iter_mut().zip(&wiring.link_of) {
            buffer.size = wiring.link(link).buffer;
            buffer.door = matches!(wiring.topology.link(link).to, Vertex::Node(_));
        }
        // The path over a shared medium ends at a door, although its link does not end at a node.
        for node in 0..wiring.topology.nodes() {
            let mut route = Vec::new();
            wiring.topology.route(node, node, &mut route);
            if let Some(&last) = route.last() {
                buffers[last as usize].door = true;
            }
        }
        let links = wiring.topology.links() as usize;
        let free = LinkState { crossing: NONE, first: NONE, last: NONE };
        CutThrough {
            wiring,
            buffers,
            links: vec![free; links],
            busy: vec![Time::ZERO; links],
            flights: Slab::default(),
            copies: Slab::default(),
            requests: Slab::default(),
            spare: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Starts a packet: a copy at the sender requests its first link.
    fn start(&mut self, packet: Packet, way: PacketPath, agenda: &mut Agenda<'_>) {
        let flight = self.flights.insert(Flight { packet, way, copies: 1, bytes: packet.bytes });
        let copy = self.copies.insert(Copy {
            flight,
            place: CopyPlace::Start,
            channel: NONE,
            tail_at: agenda.now(),
            arrived: true,
            pending: 0,
            behind: NONE,
        });
        self.ask(copy, agenda);
    }

    /// Requests the next links for a copy whose head has arrived and which is first in its buffer.
    fn ask(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        let copy = &mut self.copies[key];
        let (place, flight) = (copy.place, copy.flight);
        let crossings = self.flights[flight].way.crossings(place);
        copy.pending = crossings;
        for number in 0..crossings {
            let Flight { ref way, bytes, .. } = self.flights[flight];
            let crossing = way.crossing(place, number);
            let entered = way.entered(crossing);
            let link = self.wiring.link_of[entered[0] as usize];
            let channel = if entered.len() == 1 { entered[0] } else { NONE };
            let request = LinkRequest { copy: key, crossing, behind: NONE, channel, bytes };
            let request = self.requests.insert(request);
            let state = &mut self.links[link as usize];
            match state.last {
                NONE => state.first = request,
                last => self.requests[last].behind = request,
            }
            state.last = request;
            self.serve(link, agenda);
        }
    }

    /// Gives a link to the oldest request that can proceed.
    fn serve(&mut self, link: Link, agenda: &mut Agenda<'_>) {
        if self.links[link as usize].crossing != NONE {
            return;
        }
        self.refused.clear();
        let (mut before, mut key) = (NONE, self.links[link as usize].first);
        while key != NONE {
            let behind = self.requests[key].behind;
            if self.has_room(key) {
                self.unlink(link, before, key, behind);
                return self.cross(link, key, agenda);
            }
            (before, key) = (key, behind);
        }
    }

    /// Whether all buffers of a request accept the packet. Records the full ones.
    fn has_room(&mut self, key: u32) -> bool {
        let LinkRequest { copy, crossing, channel, bytes, .. } = self.requests[key];
        if channel != NONE {
            let room = self.takes(channel, bytes);
            if !room {
                self.refused.push(channel);
            }
            return room;
        }
        let way = &self.flights[self.copies[copy].flight].way;
        let entered = way.entered(crossing);
        let room = entered.iter().all(|&channel| self.takes(channel, bytes));
        if !room {
            // No packet overtakes on the path to any of them, even if a smaller one would fit.
            self.refused.extend(entered);
        }
        room
    }

    /// Whether a buffer accepts this many bytes, and has refused no earlier request.
    fn takes(&self, channel: Channel, bytes: u64) -> bool {
        let buffer = &self.buffers[channel as usize];
        let room = match buffer.door {
            true => !buffer.closed,
            false => buffer.used == 0 || buffer.used.saturating_add(bytes) <= buffer.size,
        };
        room && !self.refused.contains(&channel)
    }

    fn unlink(&mut self, link: Link, before: u32, key: u32, behind: u32) {
        let state = &mut self.links[link as usize];
        match before {
            NONE => state.first = behind,
            before => self.requests[before].behind = behind,
        }
        if state.last == key {
            state.last = before;
        }
    }

    /// Starts the crossing of a link into one or several buffers.
    fn cross(&mut self, link: Link, key: u32, agenda: &mut Agenda<'_>) {
        let Some(LinkRequest { copy: from, crossing, .. }) = self.requests.remove(key) else {
            return;
        };
        let (flight, tail_at) = (self.copies[from].flight, self.copies[from].tail_at);
        let costs = *self.wiring.link(link);
        let Flight { ref way, bytes, .. } = self.flights[flight];
        let length = costs.rate.time(bytes);
        // If the previous link was slower, bytes cannot leave before they have arrived.
        let tail_leaves = (agenda.now() + length).max(tail_at);
        let first = matches!(crossing, CopyPlace::Hop(0) | CopyPlace::Branch(0, _));
        let multicast = matches!(way, PacketPath::Tree(_)) && !first;
        let extra = if multicast { self.wiring.multicast_extra } else { Time::ZERO };
        let latency = costs.latency + extra;
        let entered = way.entered(crossing).len() as u32;
        self.links[link as usize].crossing = from;
        self.busy[link as usize] = self.busy[link as usize] + length;
        agenda.carries(link, agenda.now(), length);
        // Scheduled before the deliveries, which may be at the same time: departures are reported
        // first.
        agenda.schedule(tail_leaves, link << 2 | TAIL);
        for number in 0..entered {
            let channel = self.flights[flight].way.entered(crossing)[number as usize];
            let place = PacketPath::copy(crossing, number);
            let tail_at = tail_leaves + latency;
            let copy =
                Copy { flight, place, channel, tail_at, arrived: false, pending: 0, behind: NONE };
            let copy = self.copies.insert(copy);
            self.flights[flight].copies += 1;
            match self.enter(copy, channel, bytes) {
                true => agenda.schedule(agenda.now() + latency, copy << 2 | HEAD),
                false => agenda.schedule(tail_at, copy << 2 | DELIVERED),
            }
        }
    }

    /// Takes room in a buffer. `false` if it is a door, which needs no room.
    fn enter(&mut self, copy: u32, channel: Channel, bytes: u64) -> bool {
        let buffer = &mut self.buffers[channel as usize];
        if buffer.door {
            return false;
        }
        buffer.used += bytes;
        match buffer.last {
            NONE => buffer.first = copy,
            last => self.copies[last].behind = copy,
        }
        buffer.last = copy;
        true
    }

    /// Handles the arrival of a copy's head in its buffer.
    fn head(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        let copy = &mut self.copies[key];
        copy.arrived = true;
        if self.buffers[copy.channel as usize].first == key {
            self.ask(key, agenda);
        }
    }

    /// Frees the link that a packet's tail has crossed, and perhaps the buffer before it.
    fn tail(&mut self, link: Link, agenda: &mut Agenda<'_>) {
        let key = std::mem::replace(&mut self.links[link as usize].crossing, NONE);
        let copy = &mut self.copies[key];
        copy.pending -= 1;
        if copy.pending == 0 {
            self.leave(key, agenda);
        }
        self.serve(link, agenda);
    }

    /// Removes a copy from its buffer or its sender.
    fn leave(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        let Some(Copy { flight, channel, behind, .. }) = self.copies.remove(key) else { return };
        if channel == NONE {
            agenda.report(NetworkOutcome::Departed(self.flights[flight].packet));
            return self.land(flight);
        }
        let buffer = &mut self.buffers[channel as usize];
        buffer.used -= self.flights[flight].bytes;
        buffer.first = behind;
        if behind == NONE {
            buffer.last = NONE;
        }
        self.land(flight);
        if behind != NONE && self.copies[behind].arrived {
            self.ask(behind, agenda);
        }
        // A request may have waited for the freed room.
        self.serve(self.wiring.link_of[channel as usize], agenda);
    }

    /// Delivers a copy that has arrived completely at its node.
    fn deliver(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        let Some(Copy { flight, channel, .. }) = self.copies.remove(key) else { return };
        let Flight { mut packet, ref way, .. } = self.flights[flight];
        if let (PacketPath::Tree(_), Vertex::Node(node)) =
            (way, self.wiring.topology.link(self.wiring.link_of[channel as usize]).to)
        {
            packet.destination = node;
        }
        agenda.report(NetworkOutcome::Delivered(packet));
        self.land(flight);
    }

    /// Counts one copy less for a flight.
    fn land(&mut self, key: u32) {
        let flight = &mut self.flights[key];
        flight.copies -= 1;
        if flight.copies == 0
            && let Some(Flight { way: PacketPath::Route(mut route), .. }) = self.flights.remove(key)
        {
            route.clear();
            self.spare.push(route);
        }
    }
}

impl NetworkModel for CutThrough {
    fn nodes(&self) -> u32 {
        self.wiring.topology.nodes()
    }

    fn send(&mut self, packet: Packet, _at: Time, agenda: &mut Agenda<'_>) -> Option<Time> {
        let mut route = self.spare.pop().unwrap_or_default();
        self.wiring.topology.route(packet.source, packet.destination, &mut route);
        self.start(packet, PacketPath::Route(route), agenda);
        None
    }

    fn multicast(
        &mut self,
        packet: Packet,
        to: &[Node],
        agenda: &mut Agenda<'_>,
    ) -> Result<(), NoMulticast> {
        let tree = self.wiring.topology.multicast(packet.source, to).ok_or(NoMulticast)?;
        if !tree.is_empty() {
            self.start(packet, PacketPath::Tree(tree), agenda);
        }
        Ok(())
    }

    fn handle(&mut self, event: u32, agenda: &mut Agenda<'_>) {
        let number = event >> 2;
        match event & 3 {
            HEAD => self.head(number, agenda),
            TAIL => self.tail(number, agenda),
            _ => self.deliver(number, agenda),
        }
    }

    fn set_open(&mut self, node: Node, open: bool, agenda: &mut Agenda<'_>) {
        for channel in self.wiring.channels_into(node) {
            self.buffers[channel as usize].closed = !open;
            self.serve(self.wiring.link_of[channel as usize], agenda);
        }
    }

    fn link_busy(&self) -> &[Time] {
        &self.busy
    }
}
