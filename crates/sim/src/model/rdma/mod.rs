//! A present-day RDMA interface, as far as vendors and measurements state its costs.
//!
//! No paper of the project measures one: the machines that have it are for what-if questions. Its
//! units are a message engine that starts one message every gap, and packets on the network.

mod carrier;
mod costs;

pub use carrier::Interfaces;
pub use costs::Costs;
