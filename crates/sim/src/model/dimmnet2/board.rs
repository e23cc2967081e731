//! The board: sender's and receiver's units of the DIMMnet-2 controller, and the wire between two.
//!
//! ```text
//!   request ─► Prefetch Unit ─► SWIF ─► switch ─► SWIF ─► Receive ─► Write ─► Receive ─► status
//!              (one server)                               Controller  Unit    Controller  pointer
//!                                                         (a server)  (a server)
//! ```
//!
//! Each unit serves one packet at a time in order of arrival, so packets of a message overlap: the
//! Receive Controller reads the headers of the next packet while the Write Unit stores this one.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};

use hikyaku_nic::fabric::{PostError, Rank, RemoteAddress};
use hikyaku_nic::time::Time;

use super::carrier::Expected;
use super::costs::{ControllerUnit, Costs, MemoryEffect, Step};
use crate::engine::{Mailbox, Server, Signal, Sim, TaskName};
use crate::job::Consignee;
use crate::model::landing::LandingMemory;

/// The maximum number of packets in flight to a board. The link's flow control is not modelled. The
/// largest message of the experiments fits.
const WIRE: usize = 1 << 12;

/// The primitive of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    /// The sender names the address (remote DMA).
    Push(RemoteAddress),
    /// The receiving interface chooses the address.
    IndirectPush,
}

/// A packet on the wire.
#[derive(Debug)]
pub(super) struct WirePacket {
    pub(super) source: Rank,
    pub(super) primitive: Primitive,
    pub(super) payload: Vec<u8>,
    pub(super) offset: u64,
    pub(super) total: u64,
}

/// The steps that one packet took: their names and end times.
pub type Steps = Vec<(&'static str, Time)>;

/// One node's board.
#[derive(Debug, Clone)]
pub struct Board(Rc<BoardState>);

#[derive(Debug)]
struct BoardState {
    sim: Sim,
    costs: Rc<Costs>,
    node: Rank,
    memory: LandingMemory,
    /// The Prefetch Unit: from SO-DIMM to packets.
    sender: Server,
    cable: Server,
    /// The Receive Controller: headers and status records.
    receive: Server,
    /// Packets at SWIF, in order of arrival.
    arrived: Mailbox<WirePacket>,
    /// Packets on the way from the Receive Controller to the Write Unit.
    parsed: Mailbox<WirePacket>,
    /// Counts written records. The host polls it.
    status: Signal,
    /// Raised when the host has read data out: a full ring may have room.
    room: Signal,
    /// The recorded steps, for breakdowns. A job's board records none.
    log: RefCell<Steps>,
    /// The messages of a job, if one is served.
    job: OnceCell<Expected>,
}

impl Board {
    pub(super) fn new(sim: &Sim, costs: &Rc<Costs>, node: Rank, memory: LandingMemory) -> Board {
        let board = Board(Rc::new(BoardState {
            sim: sim.clone(),
            costs: Rc::clone(costs),
            node,
            memory,
            sender: Server::new(sim),
            cable: Server::new(sim),
            receive: Server::new(sim),
            arrived: Mailbox::new(sim, WIRE, "a packet at SWIF"),
            parsed: Mailbox::new(sim, 1, "a parsed header"),
            status: Signal::new(sim, "a packet receive status"),
            room: Signal::new(sim, "room in a landing ring"),
            log: RefCell::default(),
            job: OnceCell::new(),
        }));
        let unit = board.clone();
        let name = TaskName { kind: "receive controller", index: node };
        sim.spawn_service(name, async move { unit.take_headers().await });
        let (unit, name) = (board.clone(), TaskName { kind: "write unit", index: node });
        sim.spawn_service(name, async move { unit.store_packets().await });
        board
    }

    /// Makes this board serve a job: packets are read out as they arrive, and steps are not
    /// recorded.
    pub(super) fn serve_job(&self) {
        let _ = self.0.job.set(Expected::default());
    }

    /// Sets the job that is notified of messages.
    pub(super) fn connect(&self, consignee: Weak<dyn Consignee>) {
        if let Some(job) = self.0.job.get() {
            job.connect(consignee);
        }
    }

    /// Announces a message of the job.
    pub(super) fn expect(&self, source: Rank, token: u64, bytes: u64) {
        if let Some(job) = self.0.job.get() {
            job.add(source, token, bytes);
        }
    }

    /// Takes a request. The packets of the message leave one by one. Returns the time when the last
    /// one has left.
    pub(super) fn request(&self, to: &Board, primitive: Primitive, message: &[u8]) -> Time {
        let state = &self.0;
        let interface = &state.costs.interface;
        let total = message.len() as u64;
        let whole = message.len().max(1);
        let mut left = state.sim.now();
        for start in (0..whole).step_by(interface.packet_bytes as usize) {
            let end = message.len().min(start + interface.packet_bytes as usize);
            let payload = message[start.min(end)..end].to_vec();
            let offset = start as u64;
            let primitive = match primitive {
                Primitive::Push(address) => {
                    Primitive::Push(RemoteAddress { offset: address.offset + offset, ..address })
                }
                Primitive::IndirectPush => Primitive::IndirectPush,
            };
            let source = state.node;
            left = self.transmit(to, WirePacket { source, primitive, payload, offset, total });
        }
        left
    }

    /// Sends one packet from SO-DIMM to the other board's SWIF (table 7, rows B and C). Returns the
    /// time when its tail is on the cable.
    fn transmit(&self, to: &Board, packet: WirePacket) -> Time {
        let state = &self.0;
        let (interface, now) = (&state.costs.interface, state.sim.now());
        let bytes = packet.payload.len() as u64;
        let words = interface.further_words(bytes);
        let start = state.sender.book(now, words + interface.packet_gap);
        let leaves = start + interface.send + words;
        // The link is faster than the SO-DIMM's port, so the port's last bytes are the tail.
        let span = state.costs.link.time(interface.header_bytes + bytes);
        let tail = state.cable.book(leaves - span, span) + span;
        let (at, to) = (tail + state.costs.crossing + state.costs.cable, to.clone());
        if packet.offset == 0 {
            self.mark("B packet send processing", leaves);
            to.mark("C network", at);
        }
        state.sim.at(at + interface.arrive, move |_| match to.0.job.get() {
            Some(_) => to.0.arrived.admit(packet),
            None => {
                let taken = to.0.arrived.post(packet);
                debug_assert!(taken.is_ok(), "a message of the experiments fits the wire");
            }
        });
        tail
    }

    /// The Receive Controller's loop: reads the headers of one packet after the other, and passes
    /// each packet to the Write Unit when that is free.
    async fn take_headers(&self) {
        loop {
            let packet = self.0.arrived.receive().await;
            for step in self.steps(packet.primitive, ControllerUnit::Receive) {
                if step.effect != MemoryEffect::Publish {
                    self.0.receive.serve(self.span(step, 0)).await;
                    self.mark(step.what, self.0.sim.now());
                }
            }
            self.0.parsed.send(packet).await;
        }
    }

    /// The Write Unit's loop. A packet that finds its ring full blocks all packets behind it.
    async fn store_packets(&self) {
        loop {
            let packet = self.0.parsed.receive().await;
            let bytes = packet.payload.len() as u64;
            for step in self.steps(packet.primitive, ControllerUnit::Write) {
                self.0.sim.delay(self.span(step, bytes)).await;
                self.mark(step.what, self.0.sim.now());
                // The check for room precedes the payload. No program reads the landed data before
                // the status pointer moves.
                let lands = match packet.primitive {
                    Primitive::IndirectPush => MemoryEffect::Place,
                    Primitive::Push(_) => MemoryEffect::Move,
                };
                if step.effect == lands {
                    self.land(&packet).await;
                }
            }
            self.publish(packet.primitive);
        }
    }

    /// The Receive Controller's last step, while the Write Unit continues.
    fn publish(&self, primitive: Primitive) {
        let state = &self.0;
        self.mark("D packet receive processing", state.sim.now());
        for step in self.steps(primitive, ControllerUnit::Receive) {
            if step.effect == MemoryEffect::Publish {
                let span = self.span(step, 0);
                let done = state.receive.book(state.sim.now(), span) + span;
                let (board, what) = (self.clone(), step.what);
                state.sim.at(done, move |_| {
                    board.mark(what, done);
                    board.mark("E status write", done);
                    board.0.status.raise();
                    board.take_for_job();
                });
            }
        }
    }

    /// The library's step when a job is served: moves landed data to main memory and notifies the
    /// job. The rank pays for it when it receives.
    fn take_for_job(&self) {
        let Some(job) = self.0.job.get() else { return };
        while let Some(arrival) = self.0.memory.next(self.0.node) {
            job.take(&arrival);
        }
        self.read_something_out();
    }

    /// Lands a packet by nic. While the ring is full this waits until the host has read data out.
    async fn land(&self, packet: &WirePacket) {
        let state = &self.0;
        let source = packet.source;
        loop {
            let seen = state.room.count();
            let landed = match packet.primitive {
                Primitive::Push(address) => state.memory.push(source, address, &packet.payload),
                Primitive::IndirectPush => {
                    let to = (source, state.node);
                    state.memory.push_indirect(to, &packet.payload, packet.offset, packet.total)
                }
            };
            match landed {
                Ok(()) => return,
                Err(PostError::Full { .. }) => state.room.reaches(seen + 1).await,
                Err(error) => panic!("an experiment names memory that is there: {error}"),
            }
        }
    }

    /// The rows of one unit that apply to a primitive.
    fn steps(&self, primitive: Primitive, unit: ControllerUnit) -> impl Iterator<Item = &Step> {
        let indirect = primitive == Primitive::IndirectPush;
        let steps = self.0.costs.interface.steps.iter();
        steps.filter(move |step| step.unit == unit && (indirect || !step.ipush_only))
    }

    /// The time of a row, including the SO-DIMM port's time for further words.
    fn span(&self, step: &Step, bytes: u64) -> Time {
        let interface = &self.0.costs.interface;
        let further = match step.effect {
            MemoryEffect::Move => interface.further_words(bytes),
            _ => Time::ZERO,
        };
        interface.clocks(step.clocks) + further
    }

    /// The number of records written so far: the status pointer that the host polls.
    pub(super) fn status(&self) -> &Signal {
        &self.0.status
    }

    /// Notes that the host has moved a ring's head.
    pub(super) fn read_something_out(&self) {
        self.0.room.raise();
    }

    /// Records the end of a step, for breakdowns.
    pub(super) fn mark(&self, what: &'static str, at: Time) {
        if self.0.job.get().is_none() {
            self.0.log.borrow_mut().push((what, at));
        }
    }

    /// The steps recorded since the last call.
    pub fn take_log(&self) -> Steps {
        self.0.log.take()
    }
}
