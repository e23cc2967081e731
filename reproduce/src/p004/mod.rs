//! Paper 004: network performance evaluation of the massively parallel computer CP-PACS.

pub(crate) mod partition;

pub mod figure10;
pub mod figure3;
pub mod figure4;
pub mod figure5;
pub mod figure7;
pub mod figure9;
pub mod table1;
