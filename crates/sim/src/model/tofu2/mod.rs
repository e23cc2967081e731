//! Tofu2 (paper 002): engines that run queues of commands by themselves. In session mode a
//! scheduling pointer gates them, which arriving puts advance.
//!
//! Scheduling is `nic`'s own [`CommandQueue`](hikyaku_nic::ring::CommandQueue): a session behaves
//! here as it does over shared memory. The model adds the four engines of a node, the twelve queues
//! of each, and the costs of their steps.

mod carrier;
mod costs;
mod node;
mod queue;

pub use carrier::Engines;
pub use costs::Costs;
pub use node::{NoQueue, TofuSystem};
pub use queue::{DescriptorCommand, TofuQueueAddress};

#[cfg(test)]
mod tests;
