//! Landing in a modelled node: `nic`'s own rings, tables and records, over plain memory.
//!
//! When a simulated interface has received a packet, it does the same as a sending process over
//! shared memory: it posts to the target's segment, through the reference fabric. So source tables,
//! rings, granularity, full policies and notifications behave in virtual time as on a real machine,
//! because they are the same functions. Here their effect is instantaneous. The model charges the
//! time around it and decides when a program may see it.

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, FullPolicy, MemoryPort, Notification, Port, PostError, Rank,
    RemoteAddress,
};
use hikyaku_nic::loopback::{LoopbackConfig, LoopbackPort, open};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::segment::{SegmentLayout, SegmentLayoutError};

/// The number of landing rings of a node. More nodes share rings.
const RINGS: u32 = 16;

/// The memory of all nodes of a modelled machine, one rank per node.
#[derive(Debug, Clone)]
pub struct LandingMemory {
    ports: Rc<RefCell<Vec<LoopbackPort>>>,
    packet_bytes: usize,
}

/// The sizes of every node's rings.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The number of nodes.
    pub nodes: u32,
    /// The bytes of each landing ring; a power of two.
    pub ring_bytes: u32,
    /// The payload bytes of a packet.
    pub packet_bytes: u32,
    /// The minimum number of records of a status ring.
    pub records: u32,
    /// The bytes of each node's registered region, the target of puts.
    pub region_bytes: usize,
    /// The policy when a ring is full.
    pub policy: FullPolicy,
}

/// An arrival that a node finds in its status ring.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A packet of a message landed according to the receiver's tables: source and payload.
    Landed(Rank, Vec<u8>),
    /// A put was written: source, offset in the region, length.
    Written(Rank, u64, u64),
    /// A ring was full when a packet arrived.
    Full,
}

impl LandingMemory {
    /// Memory for all nodes.
    ///
    /// # Errors
    /// The sizes give no valid layout.
    pub fn new(sizes: Sizes) -> Result<LandingMemory, SegmentLayoutError> {
        let usual = SegmentLayout::for_ranks(sizes.nodes).starting_in(sizes.nodes.min(RINGS));
        let layout = SegmentLayout {
            status_slots: usual.status_slots.max(sizes.records),
            ring_bytes: sizes.ring_bytes,
            packet_bytes: sizes.packet_bytes,
            ring_policy: sizes.policy,
            ..usual
        };
        let config = LoopbackConfig {
            layout,
            ranks_per_node: sizes.nodes,
            region_bytes: sizes.region_bytes,
        };
        let ports = Rc::new(RefCell::new(open(&config)?));
        Ok(LandingMemory { ports, packet_bytes: sizes.packet_bytes as usize })
    }

    /// Lands a packet of `source` at `target` by the target's source table (paper 000's IPUSH). The
    /// packet is `payload` of a message of `total` bytes, from byte `offset` on.
    ///
    /// # Errors
    /// [`PostError::Full`] if the ring has no room; another error if the packet cannot land.
    pub fn push_indirect(
        &self,
        (source, target): (Rank, Rank),
        payload: &[u8],
        offset: u64,
        total: u64,
    ) -> Result<(), PostError> {
        debug_assert!(payload.len() <= self.packet_bytes);
        let command = Command { offset, total, ..Command::send(target, 0, 0, payload) };
        self.post(source, &command)
    }

    /// Writes to the address that the sender names, and leaves a record: PUSH, remote DMA.
    ///
    /// # Errors
    /// The address is not in the target's region, or there is no room for the record.
    pub fn push(&self, source: Rank, to: RemoteAddress, payload: &[u8]) -> Result<(), PostError> {
        let notification = Notification::Status;
        self.post(source, &Command { notification, ..Command::put(to, payload) })
    }

    /// Registers memory of a node, the target of puts.
    ///
    /// # Panics
    /// The region is exhausted: the experiment's sizes are wrong.
    pub fn register(&self, node: Rank, bytes: usize) -> (RegionBuffer, RemoteAddress) {
        let mut ports = self.ports.borrow_mut();
        let port = &mut ports[node as usize];
        let buffer = port.allocate(bytes).expect("an experiment registers what it sized");
        let address = port.expose(&buffer).expect("what was allocated from the region is in it");
        (buffer, address)
    }

    /// Takes the next record of a node's status ring. Reads its payload out and moves its ring's
    /// head.
    pub fn next(&self, node: Rank) -> Option<Arrival> {
        let mut ports = self.ports.borrow_mut();
        let port = &mut ports[node as usize];
        loop {
            match port.poll()? {
                Event::Landed(landed) => {
                    let mut payload = vec![0; landed.len()];
                    landed.data.read_out(port, &mut payload);
                    return Some(Arrival::Landed(landed.source, payload));
                }
                Event::Notified(put) => {
                    return Some(Arrival::Written(put.source, put.offset, put.length));
                }
                Event::RingFull(_) | Event::StatusFull => return Some(Arrival::Full),
                // Models do not post such commands, and their peers do not die.
                _ => {}
            }
        }
    }

    fn post(&self, source: Rank, command: &Command<'_>) -> Result<(), PostError> {
        let taken = self.ports.borrow_mut()[source as usize].post(command)?;
        debug_assert_eq!(taken, command.payload.len(), "a packet is taken whole");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landing(policy: FullPolicy) -> LandingMemory {
        let sizes = Sizes {
            nodes: 3,
            ring_bytes: 1024,
            packet_bytes: 512,
            records: 64,
            region_bytes: 4096,
            policy,
        };
        LandingMemory::new(sizes).unwrap()
    }

    #[test]
    fn packets_land_by_source_and_are_read_in_order() {
        let landing = landing(FullPolicy::Stall);
        landing.push_indirect((0, 2), &[1; 300], 0, 300).unwrap();
        landing.push_indirect((1, 2), &[2; 20], 0, 20).unwrap();
        assert_eq!(landing.next(2), Some(Arrival::Landed(0, vec![1; 300])));
        assert_eq!(landing.next(2), Some(Arrival::Landed(1, vec![2; 20])));
        assert_eq!((landing.next(2), landing.next(0)), (None, None));
    }

    #[test]
    fn a_full_ring_follows_its_policy_until_read_out() {
        for policy in [FullPolicy::Stall, FullPolicy::Refuse] {
            let landing = landing(policy);
            landing.push_indirect((0, 2), &[1; 512], 0, 512).unwrap();
            landing.push_indirect((0, 2), &[2; 512], 0, 512).unwrap();
            let full = landing.push_indirect((0, 2), &[3; 512], 0, 512);
            assert!(matches!(full, Err(PostError::Full { destination: 2, .. })), "{full:?}");
            let first = loop {
                match landing.next(2) {
                    Some(Arrival::Landed(source, payload)) => break (source, payload),
                    Some(_) => {}
                    None => panic!("nothing landed"),
                }
            };
            assert_eq!(first, (0, vec![1; 512]));
            landing.push_indirect((0, 2), &[3; 512], 0, 512).unwrap();
        }
    }

    #[test]
    fn a_put_writes_only_its_address() {
        let landing = landing(FullPolicy::Stall);
        let (buffer, address) = landing.register(1, 64);
        landing.push(0, RemoteAddress { offset: address.offset + 8, ..address }, &[7; 8]).unwrap();
        assert_eq!(landing.next(1), Some(Arrival::Written(0, address.offset + 8, 8)));
        assert_eq!((buffer[7], buffer[8], buffer[15], buffer[16]), (0, 7, 7, 0));
        let outside = RemoteAddress { offset: 4090, ..address };
        let refused = landing.push(0, outside, &[7; 8]);
        assert!(matches!(refused, Err(PostError::OutOfBounds { .. })), "{refused:?}");
    }

    #[test]
    fn sizes_that_make_no_layout_are_an_error() {
        let sizes = Sizes {
            nodes: 2,
            ring_bytes: 1000,
            packet_bytes: 512,
            records: 64,
            region_bytes: 0,
            policy: FullPolicy::Stall,
        };
        assert!(LandingMemory::new(sizes).is_err());
    }
}
