//! Paper 003: user-level network interface of the parallel computer Cenju-4.

mod library;

pub mod figure10;
pub mod figure6;
pub mod figure7;
pub mod figure8;
pub mod figure9;
