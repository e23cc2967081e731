//! The costs of a present-day RDMA interface that vendors and measurements state.

use crate::model::costs::costs;

costs! {
    /// Costs of one node.
    pub struct Costs from (network, interface, host) {
        /// Processor time to post a command.
        post: host.time("post"),
        /// The interface's time for a message at the sender, doorbell to first byte on the link.
        inject: interface.time("inject"),
        /// The same at the receiver, last byte to completion in memory.
        land: interface.time("land"),
        /// The minimum time between two messages of one interface.
        gap: interface.time("gap"),
        /// The payload rate of a link.
        link: network.rate("link_rate"),
        /// The maximum payload bytes of a packet.
        packet_bytes: interface.bytes("packet"),
        /// Processor time to find a completion.
        poll: host.time("poll"),
    }
}
