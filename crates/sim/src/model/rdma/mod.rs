//! rdma
mod costs;
pub use costs::*;
