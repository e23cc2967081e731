//! Paper 000: packet receive mechanism (IPUSH) on DIMMnet-2.

pub mod npb;
pub mod table1;
