//! A present-day RDMA interface, as far as vendors and measurements state its costs.
//!
//! No paper of the project measures one, so it has no units of its own: the machines that have it
//! are for what-if questions, and [`Costs`] says what such a run charges around the network.

mod costs;

pub use costs::Costs;
