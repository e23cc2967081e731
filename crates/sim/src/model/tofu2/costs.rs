//! What the steps of a Tofu2 interface cost (paper 002; Ajima et al., ISC 2014).

use crate::machine::{MachineError, Section};
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// Costs of one node's four engines and of the host that feeds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// DMA engines (TNIs) of a node.
    pub engines: u64,
    /// Command queues (CQs) of an engine.
    pub queues: u64,
    /// Reading a descriptor and decoding it, once the engine turns to it.
    pub fetch: Time,
    /// From a decoded put to its first byte in the router.
    pub inject: Time,
    /// What a link carries.
    pub link: Rate,
    /// Most payload bytes of a packet.
    pub packet_bytes: u64,
    /// From the router to memory, notification included, for the last byte of a packet.
    pub land: Time,
    /// What an engine moves, payload.
    pub rate: Rate,
    /// Executing a NOP.
    pub nop: Time,
    /// Writing one descriptor into a queue.
    pub describe: Time,
    /// Writing the doorbell register.
    pub doorbell: Time,
    /// One look at the event queues in memory.
    pub poll: Time,
    /// Software of a start and a wait beyond those steps.
    pub software: Time,
}

impl Costs {
    /// Reads `[network]`, `[interface]` and `[host]`.
    pub(crate) fn read(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Costs, MachineError> {
        let costs = Costs {
            engines: interface.count("engines")?,
            queues: interface.count("queues")?,
            fetch: interface.time("fetch")?,
            inject: interface.time("inject")?,
            link: network.rate("link_rate")?,
            packet_bytes: interface.bytes("packet")?.max(1),
            land: interface.time("land")?,
            rate: interface.rate("rate")?,
            nop: interface.time("nop")?,
            describe: host.time("describe")?,
            doorbell: host.time("doorbell")?,
            poll: host.time("poll")?,
            software: host.time("software")?,
        };
        for (key, value) in [("engines", costs.engines), ("queues", costs.queues)] {
            if !(1..=64).contains(&value) {
                return Err(interface.refuse(key, format!("{value} is not from 1 to 64")));
            }
        }
        Ok(costs)
    }
}
