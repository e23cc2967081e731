//! tofu2
mod costs;
pub use costs::*;
