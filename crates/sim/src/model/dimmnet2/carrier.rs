//! A job's messages over DIMMnet-2 boards, by IPUSH: the receiving board chooses where they land.
//!
//! ```text
//!   rank: A ──► B, cable, switch ──► D (tables 2, 3: nic's landing), E ──► rank: F G, then H to L
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use hikyaku_nic::fabric::FullPolicy;
use hikyaku_nic::time::Time;

use super::board::{Board, Primitive};
use super::costs::Costs;
use crate::engine::Sim;
use crate::job::{Carrier, Connection, Consignee, HostCosts, Parcel};
use crate::model::landing::{Arrival, LandingMemory, Sizes};

/// The size of each landing ring in packets. The library empties it as packets arrive.
const RING_PACKETS: u32 = 8;

/// The number of records of a status ring.
const RECORDS: u32 = 256;

/// The maximum number of nodes. The rings of each node take some hundred kibibytes.
pub const MOST_NODES: u32 = 1024;

/// The boards of all nodes on one switch.
///
/// A rank pays row A for each sent message. For each received message it pays the rows of
/// detection, status and read-out, where polling counts with its mean of one access. The library
/// moves messages that wait for their receive to main memory. So a ring fills up only while packets
/// arrive faster than the Write Unit stores them.
#[derive(Debug)]
pub struct Boards {
    costs: Rc<Costs>,
    boards: Vec<Board>,
}

impl Boards {
    /// A board at each of `nodes` nodes, at most [`MOST_NODES`].
    pub fn new(sim: &Sim, costs: &Costs, nodes: u32) -> Rc<Boards> {
        let costs = Rc::new(costs.clone());
        let packet = costs.interface.packet_bytes as u32;
        let memory = LandingMemory::new(Sizes {
            nodes,
            ring_bytes: RING_PACKETS * packet.next_power_of_two(),
            packet_bytes: packet,
            records: RECORDS,
            region_bytes: 0,
            policy: FullPolicy::Stall,
        });
        let memory = memory.expect("rings of some packets are a layout");
        let board = |node| Board::new(sim, &costs, node, memory.clone());
        let boards: Vec<Board> = (0..nodes).map(board).collect();
        for board in &boards {
            board.serve_job();
        }
        Rc::new(Boards { costs, boards })
    }
}

impl Carrier for Boards {
    fn nodes(&self) -> u32 {
        self.boards.len() as u32
    }

    fn host(&self, bytes: u64) -> HostCosts {
        HostCosts { send: self.costs.host.issue_send, receive: self.costs.receive(bytes) }
    }

    fn look(&self) -> Time {
        self.costs.host.access
    }

    fn carry(&self, parcel: Parcel, _at: Time) -> Option<Time> {
        let (from, to) =
            (&self.boards[parcel.source as usize], &self.boards[parcel.destination as usize]);
        to.expect(parcel.source, parcel.token, parcel.bytes);
        Some(from.request(to, Primitive::IndirectPush, &vec![0; parcel.bytes as usize]))
    }

    fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.boards.iter().for_each(|board| board.connect(Weak::clone(&consignee)));
    }
}

/// The messages of a job that a board expects, by source, and the consignee.
#[derive(Default, Debug)]
pub(super) struct Expected {
    /// By source: the numbers of the messages and their outstanding bytes, in the order of sending.
    messages: RefCell<Vec<VecDeque<(u64, u64)>>>,
    consignee: Connection,
}

impl Expected {
    pub(super) fn connect(&self, consignee: Weak<dyn Consignee>) {
        self.consignee.set(consignee);
    }

    pub(super) fn add(&self, source: u32, token: u64, bytes: u64) {
        let mut messages = self.messages.borrow_mut();
        if messages.len() <= source as usize {
            messages.resize_with(source as usize + 1, VecDeque::new);
        }
        messages[source as usize].push_back((token, bytes));
    }

    /// Counts a packet of `source` that has landed and been read out. Notifies the job after the
    /// last one.
    pub(super) fn take(&self, arrival: &Arrival) {
        let Arrival::Landed(source, payload) = arrival else { return };
        let mut messages = self.messages.borrow_mut();
        let queue = &mut messages[*source as usize];
        let Some((token, left)) = queue.front_mut() else { return };
        *left -= payload.len() as u64;
        if *left > 0 {
            return;
        }
        let token = *token;
        queue.pop_front();
        drop(messages);
        let job = self.consignee.get();
        if let Some(job) = job {
            job.delivered(token);
        }
    }
}
