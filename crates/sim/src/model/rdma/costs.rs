//! What the steps of a present-day RDMA interface cost, as far as vendors and measurements say.

use crate::machine::{MachineError, Section};
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// Costs of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// Processor time to post a command.
    pub post: Time,
    /// The interface's time for a message at the sender, doorbell to first byte on the link.
    pub inject: Time,
    /// The same at the receiver, last byte to completion in memory.
    pub land: Time,
    /// Least time between two messages of one interface.
    pub gap: Time,
    /// What a link carries, payload.
    pub link: Rate,
    /// Most payload bytes of a packet.
    pub packet_bytes: u64,
    /// Processor time to find a completion.
    pub poll: Time,
}

impl Costs {
    /// Reads `[network]`, `[interface]` and `[host]`.
    pub(crate) fn read(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Costs, MachineError> {
        Ok(Costs {
            post: host.time("post")?,
            inject: interface.time("inject")?,
            land: interface.time("land")?,
            gap: interface.time("gap")?,
            link: network.rate("link_rate")?,
            packet_bytes: interface.bytes("packet")?,
            poll: host.time("poll")?,
        })
    }
}
