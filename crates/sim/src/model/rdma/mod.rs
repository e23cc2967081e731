//! A present-day RDMA interface, with the costs that vendors and measurements state.
//!
//! No paper of the project measures one: the machines with it are for what-if questions. Its units
//! are a message engine that starts one message per gap, and packets on the network.

mod carrier;
mod costs;

pub use carrier::Interfaces;
pub use costs::Costs;
