//! What the steps of CP-PACS's adapter (NIA) and of its light system call cost (paper 004).

use crate::machine::{MachineError, Section};
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// Costs of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// The light system call that hands the adapter a chain.
    pub start: Time,
    /// The adapter: from a TCW in memory to the first byte of its message in the network.
    pub message: Time,
    /// The adapter: each further packet of a message.
    pub packet: Time,
    /// Most payload bytes of a packet.
    pub packet_bytes: u64,
    /// Payload that a link carries.
    pub link: Rate,
    /// From the last byte's arrival until a program that polls for it goes on.
    pub detect: Time,
    /// Taking an interrupt and starting a transfer from it (system broadcast).
    pub interrupt: Time,
}

impl Costs {
    /// Reads `[network]`, `[interface]` and `[host]`.
    pub(crate) fn read(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Costs, MachineError> {
        Ok(Costs {
            start: host.time("start")?,
            message: interface.time("message")?,
            packet: interface.time("packet_gap")?,
            packet_bytes: interface.bytes("packet")?,
            link: network.rate("link_rate")?,
            detect: host.time("detect")?,
            interrupt: host.time("interrupt")?,
        })
    }
}
