//! Simulated machines: an engine in virtual time, topologies with their routing, network models.
pub mod engine;
mod error;
mod slab;
pub mod topology;

pub use error::{SimError, Stuck};
