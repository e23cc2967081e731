//! `hikyaku run` as its users meet it: the built program, with shells, Python and core utilities as
//! ranks. None of them joins the job, so what is tested here is the launcher alone.

#![allow(clippy::unwrap_used)]

mod ends;
mod hosts;
mod input;
mod output;
mod plan;
mod signals;
mod support;
mod usage;
