//! DIMMnet-1 (paper 001): stores that become remote writes (AOTF), user-built packets (BOTF), and
//! the Ethernet with UDP that the paper compares with.
//!
//! Lengths only. What lands lands at an address that the sender's store names; the words of a
//! shared variable and who may write them are the protocol's business, above.

mod carrier;
mod costs;
mod pair;

pub use carrier::Boards;
pub use costs::{Costs, Ethernet, Host, Interface};
pub use pair::{Pair, Side};

#[cfg(test)]
mod tests;
