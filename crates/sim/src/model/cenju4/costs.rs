//! The costs of Cenju-4's interface, memory controller and libraries (paper 003).

use crate::machine::{MachineError, Section};
use crate::model::costs::costs;

costs! {
    /// The memory controller, as the interface sees it.
    pub struct Memory from (section) {
        /// Requesting the state of a line from the processor, which does not hold it dirty.
        query: section.time("query"),
        /// The same for a dirty line, until its first double word arrives.
        dirty: section.time("dirty"),
        /// Each double word of a line after the wait.
        word: section.time("word"),
        /// The time until a line arrives from main memory, without a request to the processor.
        plain: section.time("plain"),
        /// Bytes of a cache line.
        line_bytes: section.bytes("line"),
        /// Bytes of a page.
        page_bytes: section.bytes("page"),
        /// A walk of segment and page table after a miss.
        walk: section.time("walk"),
        /// Entries of each of the two TLBs.
        tlb_entries: section.count("tlb_entries"),
    }
}

costs! {
    /// The Sender and the Receiver.
    pub struct Interface from (section) {
        /// One clock of the interface.
        clock: section.time("clock"),
        /// Clocks to check a parcel header and look up the node table entry in the module.
        check: section.count("check"),
        /// Clocks to choose among the header registers and write a packet header.
        start_packet: section.count("start_packet"),
        /// Header registers.
        registers: section.count("registers"),
        /// Bytes of a parcel header.
        parcel_header_bytes: section.bytes("parcel_header"),
        /// The maximum data bytes of a parcel.
        parcel_bytes: section.bytes("parcel"),
        /// The maximum data bytes of a packet.
        packet_bytes: section.bytes("packet"),
        /// Bytes of a packet's header in the network.
        packet_header_bytes: section.bytes("packet_header"),
        /// Clocks of the receiver for a packet, in addition to its memory accesses.
        accept: section.count("accept"),
        /// The maximum bytes of a parcel whose data may be inside its header.
        inline_bytes: section.bytes("inline"),
        ;
        /// Bytes of the queue for headers of answers. Assumed: the largest header queue of 003
        /// §4.2. No figure depends on it, so no machine file states it.
        answer_queue_bytes: u64 = 64 << 10,
        /// The number of a node's unanswered reads, swaps, and compares and swaps. Assumed: as many
        /// as the 6 bits of rrid distinguish; fewer if the answer queue could overflow.
        outstanding_reads: u64 = 64,
    }
}

costs! {
    /// The network's own constants.
    pub struct Network from (section) {
        /// The payload rate of a link: 8 of every 9 bits are data.
        link: section.rate("link_rate"),
        /// A switch, for the head of a packet to one node.
        single: section.time("hop"),
        /// A switch, for flits that follow long after the head.
        body: section.time("body_hop"),
        /// A switch, for a multicast packet.
        multicast: section.time("multicast_hop"),
        /// A switch, for a synchronisation packet, without waiting for its table.
        synchronise: section.time("synchronise_hop"),
        /// One access to a switch's synchronisation table.
        table: section.time("synchronise_table"),
    }
}

costs! {
    /// The libraries.
    pub struct Host from (section) {
        /// An uncached store to a register of the interface.
        register: section.time("register"),
        /// One poll of a notification in cache.
        poll: section.time("poll"),
        /// Paralib's own work for one message, both sides together.
        paralib: section.time("paralib"),
        /// The additional work of MPI.
        mpi: section.time("mpi"),
        /// A system call that flushes the data from the cache.
        system_call: section.time("system_call"),
        /// From this many bytes on, MPI announces a message before it sends it.
        mpi_announces_from: section.bytes("mpi_announces_from"),
        /// The processor's rate of copying between buffers.
        copy: section.rate("copy"),
    }
}

/// All costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// The memory controller.
    pub memory: Memory,
    /// Sender and receiver.
    pub interface: Interface,
    /// The switches.
    pub network: Network,
    /// The libraries.
    pub host: Host,
}

impl Costs {
    /// Reads `[network]`, `[interface]` with `[interface.memory]`, and `[host]`.
    pub(crate) fn read(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Costs, MachineError> {
        let memory = interface.section("memory")?;
        let costs = Costs {
            memory: Memory::read(&memory)?,
            interface: Interface::read(interface)?,
            network: Network::read(network)?,
            host: Host::read(host)?,
        };
        memory.finish()?;
        let line = costs.memory.line_bytes;
        let whole = [costs.memory.page_bytes, costs.interface.packet_bytes];
        if !whole.iter().all(|bytes| bytes.is_multiple_of(line)) {
            return Err(interface.refuse("packet", format!("is no multiple of the line, {line} B")));
        }
        if costs.interface.registers == 0 {
            return Err(interface.refuse("registers", "is 0: no header would be read"));
        }
        Ok(costs)
    }
}
