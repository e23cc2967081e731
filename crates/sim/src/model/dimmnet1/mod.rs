//! DIMMnet-1 (paper 001): stores that become remote writes (AOTF), user-built packets (BOTF), and
//! the Ethernet with UDP that the paper compares with.
//!
//! Lengths only. The sender's store names the destination address. The words of a shared variable,
//! and the right to write them, belong to the protocol above.

mod carrier;
mod costs;
mod nodes;

pub use carrier::Boards;
pub use costs::{Costs, Host, Interface};
pub use nodes::Nodes;

#[cfg(test)]
mod tests;
