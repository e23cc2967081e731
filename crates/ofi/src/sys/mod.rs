//! The only module that names libfabric's functions and holds unsafe code of this crate.
//!
//! Its interface is safe: objects close in the right order, memory that the provider may touch
//! outlives every operation on it, and received bytes are accessible only while no one writes them.

mod abi;
mod endpoint;
mod fill;
mod info;
mod layout;
mod library;
mod memory;
mod object;
mod operations;

pub use endpoint::{Endpoint, EndpointCompletion, Peer, PostResult};
pub use info::Survey;
pub use layout::layout;
pub use library::search_limit;
pub use memory::{LentMemory, Region, Remote};

/// Major and minor version of the installed libfabric.
pub fn library_version() -> Result<(u32, u32), crate::Error> {
    library::Libfabric::get().map(library::Libfabric::version)
}
