//! The tests of the crate's public interface, in one program, to link only once. `memory.rs` is a
//! program of its own, because it has a counting allocator.

mod analytic;
mod carriers;
mod cenju4;
mod job;
mod port;
mod properties;
mod zero_load;
