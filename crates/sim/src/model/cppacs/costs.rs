//! The costs of CP-PACS's adapter (NIA) and of its light system call (paper 004).

use crate::model::costs::costs;

costs! {
    /// Costs of one node.
    pub struct Costs from (network, interface, host) {
        /// The light system call that passes a chain to the adapter.
        start: host.time("start"),
        /// The adapter: from a TCW in memory to the first byte of its message in the network.
        message: interface.time("message"),
        /// The adapter: each further packet of a message.
        packet: interface.time("packet_gap"),
        /// The maximum payload bytes of a packet.
        packet_bytes: interface.bytes("packet"),
        /// The payload rate of a link.
        link: network.rate("link_rate"),
        /// From the last byte's arrival until a polling program continues.
        detect: host.time("detect"),
        /// Taking an interrupt and starting a transfer from it (system broadcast).
        interrupt: host.time("interrupt"),
    }
}
