//! Paper 002: MPI persistent neighborhood collectives with Tofu2 protocol offload.

mod exchange;
pub(crate) mod program;

pub mod figure10;
pub mod figure9;
