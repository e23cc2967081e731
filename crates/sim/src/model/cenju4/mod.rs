//! Cenju-4 (paper 003): a network interface in the memory controller, and a multistage network
//! that multicasts and synchronises.
//!
//! Memory decides its speed. Every line of a packet is requested from the processor, which mostly
//! has it dirty (410 ns). So throughput depends on the number of lines that a packet touches
//! ([`packet`]), and latency on the number of accesses on the path ([`CenjuSystem`]).
//!
//! ```text
//!   Task ── header ──► header queue ──► node.rs: RHM, SPM ──► network ──► receive.rs ──► memory
//!   carrier, figures ── lengths ──────────┘  the same steps and the same time ──► a count
//! ```

mod barrier;
mod carrier;
mod context;
mod costs;
mod header;
mod memory;
mod node;
pub mod packet;
mod receive;
mod task;

pub use barrier::Synchronisation;
pub use carrier::CenjuInterfaces;
pub use context::{AddressArea, BufferEntry, Interrupt, Module, Processor, ReceiveBuffer};
pub use costs::{Costs, Host, Interface, Memory, Network};
pub use header::{
    HEADER_BYTES, Header, HeaderError, LOGICAL_NUMBERS, PacketTarget, ParcelOperation, READ_IDS,
    WriteDestination, WriteSource,
};
pub use memory::{AddressFault, SEGMENTS, segment_base};
pub use node::{COMPLETED, CenjuParcel, CenjuSystem, ParcelProtocol, To};
pub use packet::Span;
pub use receive::{ANSWERED, LOG_BYTES, LogKind, LogRecord, NOTIFICATION_BYTES, REFUSED, UNEQUAL};
pub use task::{ContextTask, TaskError};

#[cfg(test)]
mod tests;
