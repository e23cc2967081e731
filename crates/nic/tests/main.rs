//! The tests of the crate's public interface, in one program: this saves a link per file.
//!
//! With `--cfg loom` (`make loom`) the models are built, otherwise the other tests.

mod conformance;
mod hostile;
mod hostile_regions;
mod loom;
mod loom_doorbell;
mod loom_follow;
mod loom_joint;
mod loom_lines;
mod loom_queue;
mod loom_route;
mod loom_table;
mod loom_threads;
mod properties;
