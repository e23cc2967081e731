//! The fabric between hosts: libfabric, opened at run time.
//!
//! Nothing of libfabric is needed to build this crate, and one binary runs with any release from
//! 1.9 on. Where none is installed, [`Error::NotInstalled`] says what to install.
//!
//! ```text
//!   sys        libfabric's structures and calls, the only unsafe code: Survey, Endpoint, Region
//!   offer      what a provider offers, as plain data
//!   choose     which offer to use, and why not the others
//!   alarm      a thread that sleeps on a provider's descriptor for a rank that sleeps
//!   link       packets between hosts, in order and bounded by credits
//!   measure    latency and bandwidth between two processes
//!   error      what goes wrong, in one line
//! ```
//!
//! A provider of libfabric says nothing of a peer that has died: sends to it are "full" for ever
//! or complete without arriving. Whoever uses an endpoint needs other news of its peers, and
//! deadlines.

mod alarm;
mod choose;
mod error;
pub mod link;
pub mod measure;
mod offer;
pub mod sys;

pub use alarm::Alarm;
pub use choose::{Choice, ProviderRequest, VARIABLE, choose};
pub use error::Error;
pub use offer::{EndpointKind, Offer};
pub use sys::{
    Endpoint, EndpointCompletion, LentMemory, Peer, PostResult, Region, Remote, Survey,
    library_version, search_limit,
};
