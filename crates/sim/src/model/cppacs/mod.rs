//! CP-PACS (paper 004): remote DMA between preset areas, started by a light system call, chains of
//! transfer control words behind one start, on a hyper-crossbar with wormhole routing.
//!
//! Lengths only. The paper measures time under traffic, and data goes directly from area to area
//! without a decision at the receiver, so `nic` has no decision to make.

mod carrier;
mod costs;
mod nia;

pub use carrier::Adaptors;
pub use costs::Costs;
pub use nia::{NiaSystem, Tcw};

#[cfg(test)]
mod tests;
