//! A barrier by synchronisation packets: the steps of the interface, before and after those of the
//! switches.
//!
//! The Sender reads a header as for any parcel and takes the routing from the sync header table.
//! The switches do the rest ([`SyncNetwork`]). The Receiver writes the notification of this sid
//! into the Synchronisation Notification Table (paper 003 §4, §5.4).

use std::rc::Rc;

use super::context::times;
use super::costs::Costs;
use crate::engine::Sim;
use crate::network::{SyncError, SyncNetwork, SyncParameters};
use crate::topology::{Multistage, Node};

/// A group of nodes with a synchronisation id.
#[derive(Debug, Clone)]
pub struct Synchronisation {
    sim: Sim,
    costs: Rc<Costs>,
    network: Rc<SyncNetwork>,
}

/// The only id that a measurement needs.
const SID: u8 = 0;

impl Synchronisation {
    /// Registers the group's header in a system of `nodes`, as a system call does.
    ///
    /// # Errors
    /// [`SyncError`]: a system of more than 64 nodes, or members outside the system.
    pub fn new(sim: &Sim, costs: &Costs, nodes: u32, group: &[Node]) -> Result<Self, SyncError> {
        let parameters = SyncParameters {
            wire: costs.network.link.time(costs.interface.packet_header_bytes),
            switch: costs.network.synchronise,
            table: costs.network.table,
        };
        let network = SyncNetwork::new(sim, Multistage::new(nodes), parameters)?;
        network.set_up(SID, group)?;
        Ok(Synchronisation { sim: sim.clone(), costs: Rc::new(costs.clone()), network })
    }

    /// Host: sends one sync packet, and waits for the returned one.
    ///
    /// # Errors
    /// [`SyncError::NotAMember`].
    pub async fn synchronise(&self, node: Node) -> Result<(), SyncError> {
        let Costs { memory, interface, host, .. } = &*self.costs;
        self.sim.delay(host.register).await;
        // The processor has just written the header. The table entry is in main memory.
        let words = interface.parcel_header_bytes / 8;
        let header = memory.dirty + times(memory.word, words);
        let lookup = memory.query + memory.word;
        let clocks = interface.check + interface.start_packet;
        self.sim.delay(header + lookup + times(interface.clock, clocks)).await;
        self.network.enter(node, SID, self.sim.now())?.await;
        let notified = memory.query + memory.word;
        self.sim.delay(times(interface.clock, interface.accept) + notified + host.poll).await;
        Ok(())
    }
}
