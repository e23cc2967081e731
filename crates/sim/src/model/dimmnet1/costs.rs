//! The costs of DIMMnet-1 and of the Ethernet beside it (paper 001).

use crate::machine::{MachineError, Section};
use crate::model::costs::costs;
use crate::model::ethernet::Ethernet;

costs! {
    /// The board, whose stores leave the node by themselves.
    pub struct Interface from (section) {
        /// AOTF: a store of up to 8 bytes, until it is in the other node's memory.
        atomic: section.time("atomic"),
        /// The maximum bytes of an AOTF store.
        atomic_bytes: section.bytes("atomic_size"),
        /// The maximum bytes of a BOTF packet.
        block_bytes: section.bytes("block_size"),
        /// The sustained rate of BOTF packets in one direction.
        block_rate: section.rate("block_rate"),
    }
}

costs! {
    /// The program's side.
    pub struct Host from (section) {
        /// From a word's arrival until the program that polls it has answered with a store.
        response: section.time("response"),
        /// Copying shared data between its place and a buffer.
        copy: section.rate("copy"),
        /// One update of a synchronisation variable's members.
        bookkeeping: section.time("bookkeeping"),
    }
}

/// All costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// The board.
    pub interface: Interface,
    /// The baseline.
    pub ethernet: Ethernet,
    /// The program.
    pub host: Host,
}

impl Costs {
    /// Reads `[interface]` with `[interface.ethernet]`, and `[host]`.
    pub(crate) fn read(interface: &Section<'_>, host: &Section<'_>) -> Result<Costs, MachineError> {
        let udp = interface.section("ethernet")?;
        let costs = Costs {
            interface: Interface::read(interface)?,
            ethernet: Ethernet::read(&udp, &udp, &udp)?,
            host: Host::read(host)?,
        };
        udp.finish()?;
        Ok(costs)
    }
}
