//! cppacs
mod costs;
pub use costs::*;
