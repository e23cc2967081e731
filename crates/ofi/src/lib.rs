//! The fabric between hosts: libfabric, opened at run time.
//!
//! This crate builds without libfabric, and one binary runs with any release from 1.9 on. If none
//! is installed, [`Error::NotInstalled`] says what to install.
//!
//! ```text
//!   sys        libfabric's structures and calls, the only unsafe code: Survey, Endpoint, Region
//!   offer      the endpoints that providers offer, as plain data
//!   choose     the offer to use, and why not the others
//!   alarm      a thread that sleeps on a provider's descriptor for a rank that sleeps
//!   link       packets between hosts, in order and bounded by credits
//!   measure    latency and bandwidth between two processes
//!   error      errors, in one line each
//! ```
//!
//! A provider of libfabric does not report the death of a peer: sends to it are "full" for ever or
//! complete without arriving. The user of an endpoint needs another way to detect deaths, and
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
