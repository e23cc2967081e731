//! The tests of the crate's public face, in one program: a link less for each file. `memory.rs`
//! is a program of its own, because it has an allocator that counts.

mod analytic;
mod carriers;
mod cenju4;
mod job;
mod port;
mod properties;
mod zero_load;
