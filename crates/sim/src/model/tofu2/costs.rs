//! The costs of a Tofu2 interface (paper 002; Ajima et al., ISC 2014).

use crate::machine::{MachineError, Section};
use crate::model::costs::costs;

costs! {
    /// Costs of one node's four engines and of the host that feeds them.
    pub struct Costs from (network, interface, host) {
        /// The number of DMA engines (TNIs) of a node.
        engines: interface.count("engines"),
        /// The number of command queues (CQs) of an engine.
        queues: interface.count("queues"),
        /// Reading and decoding a descriptor, once the engine turns to it.
        fetch: interface.time("fetch"),
        /// From a decoded put to its first byte in the router.
        inject: interface.time("inject"),
        /// The rate of a link.
        link: network.rate("link_rate"),
        /// The maximum payload bytes of a packet.
        packet_bytes: interface.bytes("packet"),
        /// From the router to memory, notification included, for the last byte of a packet.
        land: interface.time("land"),
        /// The payload rate of an engine.
        rate: interface.rate("rate"),
        /// Executing a NOP.
        nop: interface.time("nop"),
        /// Writing one descriptor into a queue.
        describe: host.time("describe"),
        /// Writing the doorbell register.
        doorbell: host.time("doorbell"),
        /// One poll of the event queues in memory.
        poll: host.time("poll"),
        /// Software time of a start and a wait beyond those steps.
        software: host.time("software"),
    }
}

impl Costs {
    /// Reads `[network]`, `[interface]` and `[host]`, and checks the numbers of units.
    pub(crate) fn checked(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Costs, MachineError> {
        let mut costs = Costs::read(network, interface, host)?;
        costs.packet_bytes = costs.packet_bytes.max(1);
        for (key, value) in [("engines", costs.engines), ("queues", costs.queues)] {
            if !(1..=64).contains(&value) {
                return Err(interface.refuse(key, format!("{value} is not from 1 to 64")));
            }
        }
        Ok(costs)
    }
}
