//! A switched Ethernet and datagrams of a kernel's sockets: the baseline of paper 001.
//!
//! In addition to the frames, the costs are the processors': a system call to send; an interrupt,
//! the stack and a wake-up to receive. The switch copies multicasts.

mod carrier;
mod costs;

pub use carrier::Adapters;
pub use costs::Ethernet;
