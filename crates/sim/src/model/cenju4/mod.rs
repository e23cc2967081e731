//! cenju4
mod costs;
pub use costs::*;
