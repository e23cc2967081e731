//! Paper 000: packet receive mechanism (IPUSH) on DIMMnet-2.

mod ping_pong;

pub mod figure8;
pub mod npb;
pub mod table1;
pub mod table2_3;
pub mod table7;
