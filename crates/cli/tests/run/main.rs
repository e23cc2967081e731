//! Tests of `hikyaku run` from the user's view: the built program, with shells, Python and core
//! utilities as ranks. None of them joins the job, so this tests only the launcher.

#![allow(clippy::unwrap_used)]

mod ends;
mod hosts;
mod input;
mod output;
mod plan;
mod signals;
mod support;
mod usage;
