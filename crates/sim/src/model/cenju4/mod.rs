//! Cenju-4 (paper 003): a network interface in the memory controller, and a multistage network
//! that multicasts and synchronises.
//!
//! Memory decides its speed: every line of a packet is requested from the processor, which mostly
//! has it dirty (410 ns). So throughput follows from the number of lines that a packet touches
//! ([`packet`]), and latency from the number of accesses on the path ([`System`]).

mod barrier;
mod carrier;
mod costs;
mod node;
pub mod packet;
mod tlb;

pub use barrier::Synchronisation;
pub use carrier::Interfaces;
pub use costs::{Costs, Host, Interface, Memory, Network};
pub use node::{Parcel, Protocol, System, To};
pub use packet::Span;

#[cfg(test)]
mod tests;
