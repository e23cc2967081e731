//! dimmnet1
mod costs;
pub use costs::*;
