//! A switched Ethernet and datagrams of a kernel's sockets: the baseline of paper 001.
//!
//! Its costs beside the frames are the processors': a system call to send, an interrupt, the stack
//! and a wake-up to receive. The switch copies what is multicast.

mod carrier;
mod costs;

pub use carrier::Adapters;
pub use costs::Ethernet;
