//! Wormhole routing with blocking: a message holds its channels until its tail has passed.
//!
//! ```text
//!    tail                                     head
//!   [node]==c0==>( )==c1==>( )==c2==>( )  another holds c3: wait, and hold c0, c1, c2
//! ```
//!
//! The head requests one channel after the other, first come first served. Reaching the next
//! channel takes one channel latency. When the head has the last channel, the bytes stream. The
//! times at which channels become free are computed from the times of the head, without an event
//! per flit. Let `s_j` be the time at which the head got channel `j`, `t` the time of the message
//! at the slowest rate of its path, and `b_j` the time of the bytes in channel `j`'s buffer. Then
//! the tail crosses channel `i` at
//!
//! ```text
//!   r_i = max( s_i + t,  r_(i+1) - b_i,  s_(i+1) )       r_last = s_last + t
//! ```
//!
//! This means: not before its bytes can have crossed; not before the bytes that the buffer behind
//! cannot hold have crossed the next channel; and not before the head has left the buffer, so that
//! a buffer belongs to one message at a time. A message that fits into the buffers it has reached
//! releases its first channels while its head still waits.
//!
//! Channels of one link share its rate. Each message gets the link for its `t`, in the order in
//! which the channels are taken.

use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::rate::Rate;
use super::timing::{NetworkWiring, Timing};
use super::{Agenda, NetworkModel, NetworkOutcome, Packet};
use crate::slab::{NONE, Slab};
use crate::topology::{Channel, Link, Node, Topology};

/// A network of wormhole routers.
#[derive(Debug)]
pub struct Wormhole {
    wiring: NetworkWiring,
    channels: Vec<ChannelState>,
    /// By link: the time until which it is allocated.
    given_until: Vec<Time>,
    /// By link: the time during which it has carried bytes.
    busy: Vec<Time>,
    worms: Slab<Worm>,
    /// The paths of messages that have arrived, for reuse.
    spare: Vec<Vec<Hop>>,
    route: Vec<Channel>,
}

#[derive(Debug, Clone, Copy)]
struct ChannelState {
    /// Whether a message holds it, and the time of its release is not known yet.
    held: bool,
    /// The time from which it may be taken, if it is not held.
    free_at: Time,
    /// Whether the door behind it is closed.
    closed: bool,
    /// The waiting heads, in order of arrival.
    first_waiting: u32,
    last_waiting: u32,
}

/// A message in flight.
#[derive(Debug)]
struct Worm {
    packet: Packet,
    path: Vec<Hop>,
    /// The number of channels of the path that the head has taken.
    taken: usize,
    /// The number of channels, from the first on, that have been released or have a known release
    /// time.
    released: usize,
    /// The time of the bytes at the slowest rate of the path.
    length: Time,
    /// The slowest rate of the path.
    rate: Rate,
    /// The next waiting head for the same channel.
    next_waiting: u32,
}

#[derive(Debug, Clone, Copy)]
struct Hop {
    channel: Channel,
    /// The time when the head took it.
    taken_at: Time,
    /// The bytes of the message that fit into the buffers of the channels before it.
    room_before: u64,
}

/// The kinds of events: two bits of the word. The other bits are the number of a worm or a channel.
const HEAD: u32 = 0;
const GRANT: u32 = 1;
const DEPARTED: u32 = 2;
const DELIVERED: u32 = 3;

impl Wormhole {
    /// A network of this shape with these costs.
    pub fn new(topology: Rc<dyn Topology>, timing: &Timing) -> Wormhole {
        let channel = ChannelState {
            held: false,
            free_at: Time::ZERO,
            closed: false,
            first_waiting: NONE,
            last_waiting: NONE,
        };
        let links = topology.links() as usize;
        Wormhole {
            channels: vec![channel; topology.channels() as usize],
            wiring: NetworkWiring::new(topology, timing),
            given_until: vec![Time::ZERO; links],
            busy: vec![Time::ZERO; links],
            worms: Slab::default(),
            spare: Vec::new(),
            route: Vec::new(),
        }
    }

    /// A new worm with its path, without any channel.
    fn lay_out(&mut self, packet: Packet) -> u32 {
        let Packet { source, destination, bytes, .. } = packet;
        self.route.clear();
        self.wiring.topology.route(source, destination, &mut self.route);
        let mut path = self.spare.pop().unwrap_or_default();
        let (mut room, mut length, mut slowest) = (0, Time::ZERO, Rate::INFINITE);
        for &channel in &self.route {
            let timing = self.wiring.timing(channel);
            path.push(Hop { channel, taken_at: Time::ZERO, room_before: room });
            room += timing.buffer.min(bytes);
            let here = timing.rate.time(bytes);
            if here > length {
                (length, slowest) = (here, timing.rate);
            }
        }
        let (taken, released, next_waiting) = (0, 0, NONE);
        self.worms.insert(Worm {
            packet,
            path,
            taken,
            released,
            length,
            rate: slowest,
            next_waiting,
        })
    }

    /// Requests the next channel of a worm's path.
    fn ask(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        let worm = &self.worms[key];
        let number = worm.path[worm.taken].channel;
        let channel = &mut self.channels[number as usize];
        let alone = channel.first_waiting == NONE;
        if alone && !channel.held && !channel.closed && channel.free_at <= agenda.now() {
            return self.take(key, agenda);
        }
        match channel.last_waiting {
            NONE => channel.first_waiting = key,
            last => self.worms[last].next_waiting = key,
        }
        channel.last_waiting = key;
        if alone && !channel.held && !channel.closed {
            agenda.schedule(channel.free_at, number << 2 | GRANT);
        }
    }

    /// Gives a channel that may be free to the first waiting head.
    fn grant(&mut self, number: Channel, agenda: &mut Agenda<'_>) {
        let channel = &mut self.channels[number as usize];
        let key = channel.first_waiting;
        if key == NONE || channel.held || channel.closed || channel.free_at > agenda.now() {
            return;
        }
        channel.first_waiting = std::mem::replace(&mut self.worms[key].next_waiting, NONE);
        if channel.first_waiting == NONE {
            channel.last_waiting = NONE;
        }
        self.take(key, agenda);
    }

    /// Takes the next channel of the path for a head.
    fn take(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        let worm = &mut self.worms[key];
        let place = worm.taken;
        worm.taken += 1;
        let hop = &mut worm.path[place];
        let link = self.wiring.link_of[hop.channel as usize] as usize;
        hop.taken_at = agenda.now().max(self.given_until[link]);
        self.given_until[link] = hop.taken_at + worm.length;
        self.busy[link] = self.busy[link] + worm.length;
        agenda.carries(link as u32, hop.taken_at, worm.length);
        self.channels[hop.channel as usize].held = true;
        let arrives = hop.taken_at + self.wiring.link(link as Link).latency;
        let last = worm.taken == worm.path.len();
        let length = worm.length;
        self.let_go(key, last, agenda);
        match last {
            false => agenda.schedule(arrives, key << 2 | HEAD),
            true => agenda.schedule(arrives + length, key << 2 | DELIVERED),
        }
    }

    /// Releases the channels whose release time is known after the head has taken another channel.
    fn let_go(&mut self, key: u32, last: bool, agenda: &mut Agenda<'_>) {
        let worm = &mut self.worms[key];
        let head = worm.taken - 1;
        let reach = match last {
            true => head + 1,
            false => {
                // Behind the head: all channels from which the buffers in between hold every byte.
                let Hop { channel, room_before, .. } = worm.path[head];
                let buffer = self.wiring.timing(channel).buffer;
                let room = room_before + buffer.min(worm.packet.bytes);
                let held = &worm.path[worm.released..head];
                let fits = |hop: &&Hop| room - hop.room_before >= worm.packet.bytes;
                worm.released + held.iter().take_while(fits).count()
            }
        };
        if reach == worm.released {
            return;
        }
        // From the head backward. See the formula in the module's documentation.
        let mut release = worm.path[head].taken_at + worm.length;
        for place in (worm.released..=head).rev() {
            if place < head {
                let buffered = worm.path[place + 1].room_before - worm.path[place].room_before;
                release = (release - worm.rate.time(buffered))
                    .max(worm.path[place].taken_at + worm.length)
                    .max(worm.path[place + 1].taken_at);
            }
            if place < reach {
                let number = worm.path[place].channel;
                let channel = &mut self.channels[number as usize];
                channel.held = false;
                channel.free_at = release;
                if channel.first_waiting != NONE && !channel.closed {
                    agenda.schedule(release, number << 2 | GRANT);
                }
                if place == 0 {
                    agenda.schedule(release, key << 2 | DEPARTED);
                }
            }
        }
        worm.released = reach;
    }

    fn deliver(&mut self, key: u32, agenda: &mut Agenda<'_>) {
        if let Some(Worm { packet, mut path, .. }) = self.worms.remove(key) {
            path.clear();
            self.spare.push(path);
            agenda.report(NetworkOutcome::Delivered(packet));
        }
    }
}

impl NetworkModel for Wormhole {
    fn nodes(&self) -> u32 {
        self.wiring.topology.nodes()
    }

    fn send(&mut self, packet: Packet, _at: Time, agenda: &mut Agenda<'_>) -> Option<Time> {
        let key = self.lay_out(packet);
        self.ask(key, agenda);
        None
    }

    fn handle(&mut self, event: u32, agenda: &mut Agenda<'_>) {
        let number = event >> 2;
        match event & 3 {
            HEAD => self.ask(number, agenda),
            GRANT => self.grant(number, agenda),
            DEPARTED => agenda.report(NetworkOutcome::Departed(self.worms[number].packet)),
            _ => self.deliver(number, agenda),
        }
    }

    fn set_open(&mut self, node: Node, open: bool, agenda: &mut Agenda<'_>) {
        for number in self.wiring.channels_into(node) {
            let channel = &mut self.channels[number as usize];
            channel.closed = !open;
            if open && !channel.held && channel.first_waiting != NONE {
                agenda.schedule(channel.free_at, number << 2 | GRANT);
            }
        }
    }

    fn link_busy(&self) -> &[Time] {
        &self.busy
    }
}
