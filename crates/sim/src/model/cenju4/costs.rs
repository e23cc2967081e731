//! What the steps of Cenju-4's interface, memory controller and libraries cost (paper 003).

use crate::machine::{MachineError, Section};
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// The memory controller as the interface sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Asking the processor for a line's state, when it has not got it dirty.
    pub query: Time,
    /// The same when it has: until its first double word comes.
    pub dirty: Time,
    /// Each double word of a line after the wait.
    pub word: Time,
    /// Until a line comes from main memory, the processor not asked.
    pub plain: Time,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// A walk of segment and page table after a miss.
    pub walk: Time,
    /// Entries of each of the two TLBs.
    pub tlb_entries: u64,
}

/// Sender and receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// One clock of the interface.
    pub clock: Time,
    /// Clocks to check a parcel header and look up the node table entry in the module.
    pub check: u64,
    /// Clocks to choose among the header registers and write a packet header.
    pub start_packet: u64,
    /// Header registers.
    pub registers: u64,
    /// Bytes of a parcel header.
    pub parcel_header_bytes: u64,
    /// Most bytes of a parcel's data.
    pub parcel_bytes: u64,
    /// Most data bytes of a packet.
    pub packet_bytes: u64,
    /// Bytes of a packet's header in the network.
    pub packet_header_bytes: u64,
    /// Clocks the receiver takes for a packet besides its memory accesses.
    pub accept: u64,
    /// Bytes of a parcel whose data may stand in its header.
    pub inline_bytes: u64,
}

/// The network's own constants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// What a link carries, 8 of every 9 bits being data.
    pub link: Rate,
    /// A switch, for the head of a packet to one node.
    pub single: Time,
    /// A switch, for flits that come when the head has long passed.
    pub body: Time,
    /// A switch, for a multicast packet.
    pub multicast: Time,
    /// A switch, for a synchronisation packet, without waiting for its table.
    pub synchronise: Time,
    /// One access to a switch's synchronisation table.
    pub table: Time,
}

/// The libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// An uncached store to a register of the interface.
    pub register: Time,
    /// One look at a notification in cache.
    pub poll: Time,
    /// Paralib's own work for one message, both sides together.
    pub paralib: Time,
    /// What MPI adds to it.
    pub mpi: Time,
    /// A system call that flushes the data from the cache.
    pub system_call: Time,
    /// From how many bytes on MPI announces a message before it sends it.
    pub mpi_announces_from: u64,
    /// Copying between buffers with the processor.
    pub copy: Rate,
}

/// All of them.
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
        Ok(costs)
    }
}

impl Memory {
    fn read(section: &Section<'_>) -> Result<Memory, MachineError> {
        Ok(Memory {
            query: section.time("query")?,
            dirty: section.time("dirty")?,
            word: section.time("word")?,
            plain: section.time("plain")?,
            line_bytes: section.bytes("line")?,
            page_bytes: section.bytes("page")?,
            walk: section.time("walk")?,
            tlb_entries: section.count("tlb_entries")?,
        })
    }
}

impl Interface {
    fn read(section: &Section<'_>) -> Result<Interface, MachineError> {
        Ok(Interface {
            clock: section.time("clock")?,
            check: section.count("check")?,
            start_packet: section.count("start_packet")?,
            registers: section.count("registers")?,
            parcel_header_bytes: section.bytes("parcel_header")?,
            parcel_bytes: section.bytes("parcel")?,
            packet_bytes: section.bytes("packet")?,
            packet_header_bytes: section.bytes("packet_header")?,
            accept: section.count("accept")?,
            inline_bytes: section.bytes("inline")?,
        })
    }
}

impl Network {
    fn read(section: &Section<'_>) -> Result<Network, MachineError> {
        Ok(Network {
            link: section.rate("link_rate")?,
            single: section.time("hop")?,
            body: section.time("body_hop")?,
            multicast: section.time("multicast_hop")?,
            synchronise: section.time("synchronise_hop")?,
            table: section.time("synchronise_table")?,
        })
    }
}

impl Host {
    fn read(section: &Section<'_>) -> Result<Host, MachineError> {
        Ok(Host {
            register: section.time("register")?,
            poll: section.time("poll")?,
            paralib: section.time("paralib")?,
            mpi: section.time("mpi")?,
            system_call: section.time("system_call")?,
            mpi_announces_from: section.bytes("mpi_announces_from")?,
            copy: section.rate("copy")?,
        })
    }
}
