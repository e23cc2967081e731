//! Interface models: the steps in a node between a command and its effect.
//!
//! ```text
//!   program of a rank ──► host steps ──► sender's units ──► network ──► receiver's units
//!   (an async task)       (delays)       (servers)          (network/)   (servers)  │
//!                                                                                   ▼
//!                         what lands, and which command may run next: nic's own code
//! ```
//!
//! There is one folder per interface, each with `costs.rs` (the constants of the machine file, by
//! the macro of `costs.rs` here) and the units that take this time. A model times steps and moves
//! bytes. It makes no decision that is `nic`'s: landing goes through [`landing`], which is `nic`'s
//! hosted port, and session queues are `nic`'s [`CommandQueue`](hikyaku_nic::ring::CommandQueue).

pub mod cenju4;
mod costs;
pub mod cppacs;
pub mod dimmnet1;
pub mod dimmnet2;
pub mod ethernet;
pub mod landing;
pub mod rdma;
pub mod tofu2;
