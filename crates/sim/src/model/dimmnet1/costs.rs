//! What DIMMnet-1 and the Ethernet beside it cost (paper 001).

use crate::machine::{MachineError, Section};
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// The board: stores that leave the node by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// AOTF: a store of up to 8 bytes, until it is in the other node's memory.
    pub atomic: Time,
    /// Most bytes an AOTF store carries.
    pub atomic_bytes: u64,
    /// Most bytes of a BOTF packet.
    pub block_bytes: u64,
    /// What BOTF packets sustain in one direction.
    pub block_rate: Rate,
}

/// UDP over Ethernet, the version compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ethernet {
    /// What the medium carries.
    pub rate: Rate,
    /// Payload of a frame after the IP header.
    pub frame_bytes: u64,
    /// What a frame needs besides: preamble, headers, checksum, gap.
    pub frame_extra_bytes: u64,
    /// Processor time to send a datagram, system call included.
    pub send: Time,
    /// Processor time to take one in: interrupt, stack, wake-up.
    pub receive: Time,
}

/// The program's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// From a word's arrival until the program that polls it has answered with a store.
    pub response: Time,
    /// Copying shared data between its place and a buffer.
    pub copy: Rate,
    /// One update of a synchronisation variable's members.
    pub bookkeeping: Time,
}

/// All of them.
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
            interface: Interface {
                atomic: interface.time("atomic")?,
                atomic_bytes: interface.bytes("atomic_size")?,
                block_bytes: interface.bytes("block_size")?,
                block_rate: interface.rate("block_rate")?,
            },
            ethernet: Ethernet {
                rate: udp.rate("rate")?,
                frame_bytes: udp.bytes("frame")?,
                frame_extra_bytes: udp.bytes("frame_extra")?,
                send: udp.time("send")?,
                receive: udp.time("receive")?,
            },
            host: Host {
                response: host.time("response")?,
                copy: host.rate("copy")?,
                bookkeeping: host.time("bookkeeping")?,
            },
        };
        udp.finish()?;
        Ok(costs)
    }
}
