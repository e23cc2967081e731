//! Tofu2 (paper 002): engines that run queues of commands by themselves, gated in session mode by
//! a scheduling pointer that arriving puts advance.
//!
//! Scheduling is `nic`'s own [`CommandQueue`](hikyaku_nic::ring::CommandQueue): what a session
//! does here is what it does over shared memory. The model adds the four engines of a node, the
//! twelve queues of each, and what their steps cost.

mod carrier;
mod costs;
mod node;
mod queue;

pub use carrier::Engines;
pub use costs::Costs;
pub use node::{NoQueue, System};
pub use queue::{Command, QueueAddress};

#[cfg(test)]
mod tests;
