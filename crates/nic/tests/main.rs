//! The tests of the crate's public face, in one program: a link less for each file.
//!
//! With `--cfg loom` (`make loom`) there are the models, without it the others.

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
